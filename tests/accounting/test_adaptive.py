"""People in random order, randomizers that depend on earlier messages: exact trees against the bound."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, permutations, product

import numpy as np
import pytest

import shuffledp as sdp
from accounting.channels import krr
from shuffledp.accounting.clones import Clones, clones_2023

F = Fraction
RATIOS = [F(3, 2), F(2), F(3), F(7)]


def view(tree, outputs: int, data) -> dict[tuple[int, ...], Fraction]:
    """The law of the messages in order: `tree(history)[x][y]`, averaged over all orders of the people."""
    orders = list(permutations(data))
    found = {}
    for sent in product(range(outputs), repeat=len(data)):
        nodes = [tree(sent[:s]) for s in range(len(data))]
        total = sum(
            math.prod(
                (node[x][y] for node, x, y in zip(nodes, order, sent, strict=True)), start=F(1)
            )
            for order in orders
        )
        found[sent] = total / len(orders)
    return found


def adaptive_delta(tree, outputs: int, n: int, inputs: int, E: Fraction) -> Fraction:
    """The worst pair of inputs of one person, and of data of the others, both directions."""
    worst = F(0)
    for others in combinations_with_replacement(range(inputs), n - 1):
        views = [view(tree, outputs, (x, *others)) for x in range(inputs)]
        for a, b in permutations(views, 2):
            worst = max(worst, sum(max(F(0), q - E * b[sent]) for sent, q in a.items()))
    return worst


def random_tree(rng, p: Fraction, outputs: int, inputs: int):
    """Every history has a randomizer of its own with likelihood ratios up to p."""
    nodes = {}

    def at(history):
        if history not in nodes:
            if outputs == 2:
                ends = 1 / (p + 1), p / (p + 1)
                share = [
                    F(int(c), 4) if rng.random() < 0.4 else F(int(c) // 3)
                    for c in rng.integers(0, 5, inputs)
                ]
                likely = [ends[0] + min(c, F(1)) * (ends[1] - ends[0]) for c in share]
                nodes[history] = [[1 - q, q] for q in likely]
            else:
                order, rows = rng.permutation(outputs), krr(outputs, p)
                turned = [[row[(int(y),)] for y in order] for row in rows]
                nodes[history] = [turned[int(x)] for x in rng.integers(0, outputs, inputs)]
        return nodes[history]

    return at


def below(E: Fraction) -> float:
    return max(0.0, math.log(E) * (1 - 1e-15))


def excess(exact: Fraction, p: Fraction, n: int, E: Fraction, make=clones_2023) -> float:
    bound = make(epsilon0=math.nextafter(math.log(p), 99), n=n).delta(below(E))
    return float(exact) / max(bound, 1e-300)


def sweep(seed: int, trees: int, make=clones_2023) -> float:
    rng = np.random.default_rng(seed)
    worst = 0.0
    for index in range(trees):
        p = RATIOS[index % len(RATIOS)]
        E = 1 + (p - 1) * F(int(rng.integers(0, 16)), 20)
        outputs = 3 if index % 4 == 0 else 2
        n = 2 if outputs == 3 else int(rng.integers(2, 4))
        inputs = 3 if n == 2 else 2
        tree = random_tree(rng, p, outputs, inputs)
        worst = max(worst, excess(adaptive_delta(tree, outputs, n, inputs, E), p, n, E, make))
    return worst


@pytest.mark.parametrize("trees", [250, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_trees(trees):
    assert 0.9 < sweep(seed=20_190_101, trees=trees) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_trees_of_four_people(seed):
    rng = np.random.default_rng(seed)
    for index in range(60):
        p = RATIOS[index % len(RATIOS)]
        E = 1 + (p - 1) * F(int(rng.integers(0, 16)), 20)
        tree = random_tree(rng, p, 2, 2)
        assert excess(adaptive_delta(tree, 2, 4, 2, E), p, 4, E) <= 1


def test_every_tree_of_three_people_with_extremal_nodes():
    """A bit as it is or turned, or nothing at all, at each of the histories: all 3^7 trees at one point, n = 3."""
    p, E, n = F(3), F(3, 2), 3
    low, high = 1 / (p + 1), p / (p + 1)
    kinds = ([[high, low], [low, high]], [[low, high], [high, low]], [[F(1, 2)] * 2] * 2)
    histories = [sent for length in range(n) for sent in product((0, 1), repeat=length)]
    bound = clones_2023(epsilon0=math.nextafter(math.log(3), 99), n=n).delta(below(E))
    worst = 0.0
    # Turning the first node turns names of messages only: two kinds are enough there.
    for chosen in product((0, 2), *[(0, 1, 2)] * (len(histories) - 1)):
        nodes = {history: kinds[kind] for history, kind in zip(histories, chosen, strict=True)}
        views = _fast_views(nodes, histories, n)
        for first, second in views:
            worst = max(worst, float(np.maximum(first - float(E) * second, 0).sum()))
    assert worst <= bound
    assert worst > 0.999 * bound  # bits, the same at every history, attain it


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize(("p", "steps"), [(1.5, (0, 2)), (3.0, (1, 6)), (7.0, (0, 3, 8))])
def test_every_tree_of_up_to_four_people_with_bits_or_nothing(n, p, steps):
    """A bit, a turned bit or nothing at each history: all 3^15 trees of four people, two at a time.

    A node that turns its bit exchanges the names of two subtrees, and no more. So it is enough to choose at which
    histories nothing is said: 2^15 trees, and their laws depend on the silent places of a path and its bits alone.
    """
    paths = list(product((0, 1), repeat=n))
    histories = [sent for length in range(n) for sent in product((0, 1), repeat=length)]
    places = {history: place for place, history in enumerate(histories)}
    trees = np.arange(1 << len(histories))
    silent = np.zeros(
        (len(paths), len(trees)), dtype=np.int64
    )  # a mask of the silent places of each path
    for row, sent in enumerate(paths):
        for s in range(n):
            silent[row] |= (trees >> places[sent[:s]] & 1) << s
    laws = [
        _average(n, ones, paths, p)[np.arange(len(paths))[:, None], silent] for ones in range(n + 1)
    ]
    for step in steps:
        E = 1 + (p - 1) * step / 10
        exact = max(
            float(np.maximum(one - E * other, 0).sum(axis=0).max())
            for less, more in pairwise(laws)
            for one, other in ((less, more), (more, less))
        )
        bound, fewer = (
            clones_2023(epsilon0=math.nextafter(math.log(p), 99), n=people).delta(
                max(0.0, math.log(E) * (1 - 1e-15))
            )
            for people in (n, n + 1)
        )
        assert fewer < exact * (1 + 1e-12) <= bound * (1 + 2e-12)


def _average(n: int, ones: int, paths, p: float):
    """[paths, masks]: the law of a path over all orders of people, `ones` of whom hold a one."""
    low, high = 1 / (p + 1), p / (p + 1)
    orders = set(permutations([1] * ones + [0] * (n - ones)))
    return np.array(
        [
            [
                sum(
                    math.prod(
                        0.5 if mask >> s & 1 else (high if x == y else low)
                        for s, (x, y) in enumerate(zip(order, sent, strict=True))
                    )
                    for order in orders
                )
                / len(orders)
                for mask in range(1 << n)
            ]
            for sent in paths
        ]
    )


def _fast_views(nodes, histories, n: int):
    """Pairs of views in floats for all data of the others: for sweeps that fractions are too slow for."""
    sents = list(product((0, 1), repeat=n))
    table = {h: np.array([[float(q) for q in row] for row in nodes[h]]) for h in histories}
    for others in combinations_with_replacement((0, 1), n - 1):
        laws = []
        for x in (0, 1):
            orders = list(permutations((x, *others)))
            law = np.array(
                [
                    sum(
                        math.prod(table[sent[:s]][order[s], sent[s]] for s in range(n))
                        for order in orders
                    )
                    for sent in sents
                ]
            ) / len(orders)
            laws.append(law)
        yield laws[0], laws[1]
        yield laws[1], laws[0]


def test_a_little_more_blanket_would_be_wrong():
    def mutant(*, epsilon0: float, n: int) -> Clones:
        return Clones(epsilon0=epsilon0, n=n, rho=1.01 * 2 / (math.exp(epsilon0) + 1))

    assert sweep(seed=20_190_101, trees=60, make=mutant) > 1


def test_a_fixed_order_amplifies_nothing():
    """Why the order must be random: the first of two people alone has her local guarantee."""
    p, E = F(3), F(2)
    law = krr(2, p)
    alone = sum(max(F(0), law[0][(y,)] - E * law[1][(y,)]) for y in (0, 1))
    shuffled = adaptive_delta(lambda _: [[row[(y,)] for y in (0, 1)] for row in law], 2, 2, 2, E)
    assert alone == F(1, 4)
    assert shuffled < alone


def test_amplify_offers_what_is_proven():
    found = sdp.amplify(epsilon0=1.0, n=10_000, delta=1e-6, adaptive=True, honest=1)
    assert found.epsilon == sdp.amplify(epsilon0=1.0, n=10_000, delta=1e-6, honest=1).epsilon
    assert "depend on earlier messages" in found.proof
    older = sdp.amplify(
        epsilon0=1.0, n=10_000, delta=1e-6, adaptive=True, bound="clones 2021", honest=1
    )
    assert older.epsilon > found.epsilon
    refined = sdp.amplify(
        epsilon0=1.0, n=10_000, delta=1e-6, adaptive=True, total_variation=0.1, honest=1
    )
    assert refined.epsilon < found.epsilon


@pytest.mark.parametrize(
    "more",
    [
        {"delta0": 1e-9},
        {"check_in": 0.5},
        {"randomizer": sdp.protocols.rr.RR(epsilon0=1.0), "epsilon0": None},
    ],
)
def test_amplify_refuses_what_is_not(more):
    with pytest.raises(sdp.ParameterError, match="adaptive=True goes without"):
        sdp.amplify(**({"epsilon0": 1.0} | more), n=100, delta=1e-6, adaptive=True)
