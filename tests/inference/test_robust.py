"""Liars: how far they can move an answer, and a median that they cannot."""

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from contract.examples import all_examples
from shuffledp.core.analyzer import Tally
from shuffledp.core.randomizer import Shuffled
from shuffledp.inference.robust import count_honest, median_of_groups, worst_bias
from shuffledp.numerics.leaves import ask_leaves
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.tree import Tree, TreeAnalyzer

SINGLE = [
    sdp.protocols.rr.make_local(epsilon=1.0),
    sdp.protocols.krr.make_local(k=4, epsilon=1.0),
    sdp.protocols.optimized_unary.make_local(k=3, epsilon=1.0),
    sdp.protocols.subset_selection.make_local(k=4, epsilon=1.0),
]


@pytest.mark.parametrize("made", SINGLE, ids=lambda made: made.name)
def test_no_message_moves_an_answer_by_more(made):
    """All messages of all liars, against what their honest messages say on average: exact weights."""
    randomizer = made.randomizer
    laws = [randomizer.pmf(x) for x in range(randomizer.domain.size)]
    messages = {y for law in laws for (y,) in law}
    weigh = {y: np.array([float(w) for w in made.analyzer.weights(y)]) for y in messages}
    worst = 0.0
    for law in laws:
        honest = sum(float(q) * weigh[y] for (y,), q in law.items())
        worst = max(worst, *(np.abs(weigh[y] - honest).max() for y in messages))
    bound = worst_bias(made, 1)
    assert 0.5 * bound < worst <= bound
    assert worst_bias(made, 100) == pytest.approx(100 * bound)
    assert worst_bias(made, 0) == 0


def test_split_and_mix_has_no_useful_bound():
    made = sdp.protocols.split_and_mix.make(n=1000, epsilon=1.0, delta=1e-6, lower=0, upper=1)
    assert worst_bias(made, 1) > 1000


def test_noise_messages_move_a_count_by_one_each():
    made = sdp.protocols.zsum_sparse.make(n=10_000, epsilon=1.0, delta=1e-6)
    assert worst_bias(made, 1) == pytest.approx(made.cost.messages_max)
    bins = sdp.protocols.dummies_histogram.make(n=10_000, k=4, epsilon=1.0, delta=1e-6)
    assert worst_bias(bins, 1) == pytest.approx(bins.cost.messages_max)


UNWEIGHED = ("tree", "hashed_tree", "hashed_prefixes")  # have tests of their own
TINY = [
    (each.spec, parameters)
    for each in all_examples()
    if each.spec.make is not None
    and each.spec.name not in (*UNWEIGHED, "count_min", "split_and_mix", "local_prefixes")
    for parameters in each.shuffled_tiny[:1]
]


@pytest.mark.parametrize(("spec", "parameters"), TINY, ids=[spec.name for spec, _ in TINY])
def test_no_report_moves_an_answer_by_more(spec, parameters):
    """Any two lists of messages that a device may send, in everybody else's crowd, whatever that is."""
    name, made = spec.name, spec.make(**parameters)
    device, bound = made.randomizer, worst_bias(made, 1)
    laws = [device.pmf(x) for x in range(device.domain.size)]
    reports = {sent for law in laws for sent in law}
    if name in ("zsum", "zsum_histogram"):
        n = made.users
        most = max(
            made.analyzer.randomizer.gamma * n + 1, 1
        )  # from a bin that is cut to one that is not
        assert bound >= most
        return
    moved = [
        sum((np.array([*map(float, made.analyzer.weights(y))]) for y in sent), np.zeros(1))
        for sent in reports
    ]
    width = 1.0
    if isinstance(device.domain, sdp.Integers | sdp.Reals):
        width = float(device.domain.upper - device.domain.lower)
    spread = max(np.abs(one - other).max() for one in moved for other in moved) / width
    assert spread <= bound * (1 + 1e-12)


def test_every_protocol_says_what_a_liar_can_do():
    for each in all_examples():
        if each.spec.task == "words":
            continue
        make = each.spec.make or each.spec.make_local
        made = make(**(each.shuffled or each.local)[0])
        assert worst_bias(made, 3) >= 3 * (1 - 1e-9), each.spec.name


def move_ranks(tree, messages):
    """What each of the messages adds to the ranks of the fitted tree, [messages, ranks]."""
    analyzer = TreeAnalyzer(tree=tree, question=ask_leaves("quantiles", (0.5,)))

    def ranks(sent):
        payload = np.array(sent, dtype=np.int64)
        tally = tree.tally(Shuffled(payload=payload, users=1))
        return np.cumsum(analyzer.fit(tally).values)

    nothing = ranks([])
    return np.array([ranks([message]) - nothing for message in messages])


@pytest.mark.parametrize(
    ("shape", "cells"), [((4,), 4), ((2, 3), 6), ((3, 2), 5), ((2, 2, 2), 7), ((2, 4, 2), 16)]
)
def test_one_message_moves_a_rank_of_a_tree_by_its_influence(shape, cells):
    """Every message in place of every other, in every rank: the largest difference is the stated one."""
    sizes = np.cumprod(shape).tolist()
    levels = tuple(
        DummiesHistogram(k=size, surely=1 + place, threshold=2**62)
        for place, size in enumerate(sizes)
    )
    tree = Tree(domain=sdp.Integers(lower=0, upper=cells - 1), shape=shape, levels=levels)
    moved = move_ranks(tree, range(tree.nodes))
    worst = (moved.max(axis=0) - moved.min(axis=0)).max()
    assert tree.find_influence(1) == pytest.approx(worst, rel=1e-9)
    assert tree.find_influence(2) == pytest.approx(2 * worst, rel=1e-9)


@pytest.mark.parametrize("hash_bits", [1, 2])
def test_no_message_moves_a_rank_of_a_hashed_tree_by_more(hash_bits):
    """All messages that there are, those of functions that nobody would draw among them."""
    made = sdp.protocols.hashed_tree.make(
        n=400, lower=0, upper=7, epsilon=2.0, delta=1e-3, shape=[2, 4], hash_bits=hash_bits
    )
    tree = made.randomizer
    moved = move_ranks(tree, range(tree.top.nodes + (1 << tree.last.message_bits)))
    worst = (moved.max(axis=0) - moved.min(axis=0)).max()
    stated = tree.find_influence(1)
    assert 0.5 * stated < worst <= stated * (1 + 1e-9)


def test_trees_with_too_many_ranks_state_no_influence():
    level = DummiesHistogram(k=1 << 17, surely=1, threshold=0)
    tree = Tree(
        domain=sdp.Integers(lower=0, upper=(1 << 17) - 1), shape=(1 << 17,), levels=(level,)
    )
    assert tree.find_influence(1) == np.inf


WORDS = [each for each in all_examples() if each.spec.task == "words"]


@pytest.mark.parametrize("each", WORDS, ids=lambda each: each.spec.name)
def test_no_bound_is_known_for_words(each):
    make = each.spec.make or each.spec.make_local
    made = make(**(each.shuffled or each.local)[0])
    assert made.analyzer.influence() == np.inf
    with pytest.raises(sdp.UnsupportedError, match="states no influence"):
        worst_bias(made, 1)


def test_plans_of_words_say_that_no_bound_is_known():
    asked = {"n": 100_000, "bits": 14, "epsilon": 1.0, "delta": 1e-6}
    plan = sdp.plan("words", liars=0.01, **asked)
    for row in plan.rows:
        known = row.model is sdp.Model.CENTRAL
        assert plan.bias(row) == (1_000 if known and row.available else None)
        assert known or plan.tell_bias(row) == "-"
    assert "-: no bound is known" in " ".join(str(plan).split())
    counted = sdp.plan("count", n=1_000, epsilon=1.0, delta=1e-6, liars=0.01, models="local")
    assert "no bound is known" not in " ".join(str(counted).split())


def test_what_liars_do_to_ranks_is_told_in_ranks():
    asked = {"n": 10_000, "lower": 0, "upper": 99, "epsilon": 1.0, "delta": 1e-6, "liars": 0.01}
    plan = sdp.plan("quantiles", **asked, models="shuffle")
    row = plan.chosen
    assert plan.bias(row) == pytest.approx(worst_bias(row.make(), 100))
    assert plan.bias(row) < 10_000
    spread = sdp.plan("variance", **asked, models="shuffle")
    assert spread.bias(spread.chosen) is None


def test_a_cut_answer_leaps():
    """One liar takes an answer of 0 to one of n gamma: counting messages alone would be too little."""
    made = sdp.protocols.zsum.make(n=10_000, epsilon=1.0, delta=1e-6)
    device = made.randomizer
    cut, beyond = (
        made.analyzer.estimate(Tally(counts=np.array([ones]), users=10_000)).value
        for ones in (10_000, 10_001)
    )
    assert cut == 0
    assert beyond - cut == pytest.approx(float(10_000 * device.gamma) + 1)
    assert beyond - cut <= worst_bias(made, 1)


def test_plan_says_what_liars_can_do():
    asked = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6}
    plan = sdp.plan("mean", upper=10, liars=0.01, models=("shuffle", "central"), **asked)
    rows = {row.protocol: row for row in plan.rows}
    assert plan.bias(rows["laplace"]) == 100 * 10
    one = worst_bias(rows["rounded_sum"].make(), 100)
    assert plan.bias(rows["rounded_sum"]) == pytest.approx(10 * one)
    assert plan.to_dict()["liars"] == 0.01
    assert "liars" in str(plan)
    assert "liars" not in str(sdp.plan("mean", upper=10, models="central", **asked))
    with pytest.raises(sdp.ParameterError, match="liars=2"):
        sdp.plan("mean", upper=10, liars=2, **asked)


def test_means_are_not_scaled():
    values = np.arange(6_000) % 11
    found = median_of_groups(
        lambda n: sdp.protocols.duchi.make(n=n, epsilon=1.0, delta=1e-6, lower=0, upper=10, steps=10), values, groups=3,
        rng=sdp.SeededWords(5),
    )  # fmt: skip
    assert 4 < found.value < 6


def zsum(n):
    return sdp.protocols.zsum.make(n=n, epsilon=1.0, delta=1e-6)


def test_the_median_is_an_estimate():
    values = np.arange(20_000) % 4 == 0
    found = median_of_groups(zsum, values.astype(int), groups=9, rng=sdp.SeededWords(2))
    assert (found.groups, found.tolerates) == (9, 4)
    assert abs(found.value - 5_000) < 600
    assert found.guarantee.epsilon == 1.0
    assert found.guarantee.honest == int(0.9 * (20_000 // 9 + 1))  # in the largest group


class Spoiled:
    """A protocol whose first `bad` runs are whatever a liar likes."""

    def __init__(self, bad, monkeypatch):
        self.left = bad
        import shuffledp.inference.robust as module

        honest = module.run

        def run(protocol, values, rng):
            found = honest(protocol, values, rng=rng)
            if self.left > 0:
                self.left -= 1
                return type("Answer", (), {"value": 1e12})()
            return found

        monkeypatch.setattr(module, "run", run)


@pytest.mark.parametrize(("bad", "ruined"), [(0, False), (4, False), (5, True)])
def test_half_of_the_groups_must_be_spoiled(bad, ruined, monkeypatch):
    Spoiled(bad, monkeypatch)
    values = (np.arange(20_000) % 4 == 0).astype(int)
    found = median_of_groups(zsum, values, groups=9, rng=sdp.SeededWords(3))
    assert (abs(found.value - 5_000) > 1e6) is ruined


def test_arguments():
    with pytest.raises(sdp.DataError, match="too few for 9 groups"):
        median_of_groups(zsum, [1, 0], groups=9)
    with pytest.raises(sdp.ParameterError, match="liars"):
        worst_bias(SINGLE[0], -1)


def test_histograms_have_a_median_in_every_bin():
    values = np.arange(8_000) % 4
    found = median_of_groups(
        lambda n: sdp.protocols.krr.make(n=n, k=4, epsilon=1.0, delta=1e-6), values, groups=3,
        rng=sdp.SeededWords(4),
    )  # fmt: skip
    assert found.value.shape == (4,)
    assert np.abs(found.value - 2_000).max() < 500


class TestHonestMembers:
    @pytest.mark.parametrize(
        ("people", "n", "honest", "chance"),
        [(111, 1_000, 900, 5e-7), (40, 200, 150, 1e-3), (60, 300, 270, 0.01), (25, 500, 400, 1e-6)],
    )
    def test_fewer_are_hardly_ever_in_a_random_group(self, people, n, honest, chance):
        """By the hypergeometric law of the others; the share of the crowd would not do."""
        found = count_honest(people, n, honest=honest, chance=chance)

        def fewer(count):
            others, good = people - 1, honest - 1
            ways = (
                math.comb(good, i) * math.comb(n - 1 - good, others - i) for i in range(count - 1)
            )
            return Fraction(sum(ways), math.comb(n - 1, others))

        assert fewer(found) <= Fraction(chance)
        assert fewer(people * honest // n) > 5 * Fraction(chance)
        if found > 1:
            assert fewer(found + people // 8 + 1) > Fraction(chance)  # not much is given away

    def test_nobody_to_count_on(self):
        assert count_honest(5, 10, honest=1, chance=0.5) == 1
        assert count_honest(1, 10, honest=3, chance=0.5) == 1

    def test_the_weakest_group_decides(self):
        """Neither the largest epsilon nor the largest delta alone."""
        promises = iter([(1.0, 1e-9), (0.99, 1e-6)])

        def make(n):
            epsilon, delta = next(promises)
            return sdp.protocols.zsum.make(n=n, epsilon=epsilon, delta=delta)

        found = median_of_groups(make, [1, 0] * 2_000, groups=2).guarantee
        assert found.epsilon > 0.99
        assert found.delta > 1e-8
