"""Answers among a server's messages: unbiased, with the declared variance, and intervals that cover, by enumeration."""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from shuffledp import SeededWords
from shuffledp.core.analyzer import Tally
from shuffledp.core.domain import Bits, Categories, Domain, Integers, Reals
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.numerics.intervals.counts import SupportLaw
from shuffledp.numerics.rounding import exp_upper
from shuffledp.numerics.tabulated import CutLaplace, CutLaplaceSum
from shuffledp.numerics.tree_noise import AddedNoise, BinNoise, IndependentLevels
from shuffledp.numerics.trees import LevelWeights
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.one_question import SAMPLED, Sampled
from shuffledp.protocols.server_noise import (
    SERVERS,
    AmongMessages,
    CellsTree,
    GridError,
    OneBin,
    make_server_noise,
)
from shuffledp.protocols.tree import TreeAnalyzer
from shuffledp.testing import enumerate_law
from support import first

NOISE = CutLaplace(rate=1.0, most=2, word_bits=4)
CASES: list[tuple[str, Domain, float | None, int]] = [
    ("count", Bits(), None, 1),
    ("count", Bits(), 1.5, 1),
    ("count", Bits(), 1.5, 2),
    ("histogram", Categories(k=3), None, 1),
    ("histogram", Categories(k=3), 1.5, 1),
    ("histogram", Categories(k=2), None, 3),
    ("mean", Reals(lower=-1.0, upper=3.0, steps=1), None, 1),
    ("mean", Reals(lower=-1.0, upper=3.0, steps=2), None, 1),
    ("mean", Reals(lower=-1.0, upper=3.0, steps=2), 1.5, 1),
    ("sum", Reals(lower=0.0, upper=3.0, steps=2), 1.5, 2),
]


def build(task: str, domain: Domain, floor: float | None, parts: int) -> AmongMessages:
    response = None if floor is None else KRR(k=domain.size, epsilon0=floor, word_bits=6)
    device = OneBin(domain=domain, response=response, word_bits=6)
    kind = SAMPLED.get(task, Sampled())
    return AmongMessages(
        device=device, kind=kind, noise=NOISE, paired=domain.size == 2, parts=parts
    )


def add(
    a: dict[tuple[int, ...], Fraction], b: dict[tuple[int, ...], Fraction]
) -> dict[tuple[int, ...], Fraction]:
    found: dict[tuple[int, ...], Fraction] = {}
    for (x, p), (y, q) in product(a.items(), b.items()):
        both = tuple(i + j for i, j in zip(x, y, strict=True))
        found[both] = found.get(both, Fraction(0)) + p * q
    return found


def enumerate_tallies(
    analyzer: AmongMessages, people: tuple[int, ...]
) -> Iterator[tuple[Tally, float]]:
    """Every tally of people[x] people of each code, with both servers' noise, and its probability."""
    k = analyzer.device.alphabet
    nothing = (0,) * k
    law = {nothing: Fraction(1)}
    for x, times in enumerate(people):
        for _ in range(times):
            own = {
                tuple(int(y == b) for b in range(k)): mass / analyzer.parts
                for (y,), mass in analyzer.device.pmf(x).items()
            }
            if analyzer.parts > 1:
                own[nothing] = 1 - Fraction(1, analyzer.parts)
            law = add(law, own)
    one, most = analyzer.noise.pmf(), analyzer.noise.most
    if analyzer.paired:
        noise = {(most - z, most + z): mass for z, mass in one.items()}
    else:
        noise = {
            tuple(most + z for z, _ in each): math.prod((m for _, m in each), start=Fraction(1))
            for each in product(one.items(), repeat=k)
        }
    for _ in range(SERVERS):
        law = add(law, noise)
    for counts, mass in law.items():
        yield Tally(counts=np.array(counts), users=sum(people)), float(mass)


@pytest.mark.parametrize(("task", "domain", "floor", "parts"), CASES)
def test_answers_are_unbiased_with_the_declared_variance(
    task: str, domain: Domain, floor: float | None, parts: int
) -> None:
    analyzer = build(task, domain, floor, parts)
    people = (1, 2, 0)[: domain.size]
    truth: object = np.array(people, dtype=float)
    if task == "count":
        truth = float(people[1])
    if task in ("mean", "sum"):
        truth = float(analyzer.values @ np.array(people)) / (3 if task == "mean" else 1)
    found = [
        (analyzer.estimate(tally).value, mass)
        for tally, mass in enumerate_tallies(analyzer, people)
    ]
    assert math.isclose(sum(mass for _, mass in found), 1.0)
    mean = sum(mass * np.asarray(value) for value, mass in found)
    np.testing.assert_allclose(mean, truth, atol=1e-12)
    spread = sum(mass * np.square(np.asarray(value) - truth) for value, mass in found)
    declared = analyzer.variance(np.array(people))
    if task in ("mean", "sum"):  # the points are exact here: nothing is rounded
        scale = 1 if task == "sum" else 9
        declared = analyzer.spread(np.array(people, dtype=float), rounded=False) / scale
    np.testing.assert_allclose(declared, spread, rtol=1e-12)


def find_ends(
    task: str, analyzer: AmongMessages, tallies: list[Tally], level: float
) -> tuple[np.ndarray, np.ndarray]:
    """The intervals of all these tallies, ends[tallies, numbers]: all bins at once, and a radius for all numbers."""
    if task == "histogram":
        every = np.concatenate([tally.counts for tally in tallies])
        together = AmongMessages.estimate(analyzer, Tally(counts=every, users=tallies[0].users))
        low, high = together.error.exact_interval(together.value, level)
        return np.reshape(low, (len(tallies), -1)), np.reshape(high, (len(tallies), -1))
    if task == "count":
        found = {}
        for tally in tallies:
            seen = int(tally.counts[1])
            found.setdefault(seen, analyzer.estimate(tally).exact_interval(level))
        ends = np.array([found[int(tally.counts[1])] for tally in tallies])
        return ends[:, :1], ends[:, 1:]
    values = np.array([[analyzer.estimate(tally).value] for tally in tallies])
    low, high = analyzer.estimate(tallies[0]).exact_interval(level)
    return values + (low - values[0]), values + (high - values[0])


@pytest.mark.parametrize("level", first([0.95, 0.8]))
@pytest.mark.parametrize(("task", "domain", "floor", "parts"), CASES)
def test_intervals_cover_whatever_people_have(
    task: str, domain: Domain, floor: float | None, parts: int, level: float
) -> None:
    analyzer = build(task, domain, floor, parts)
    for people in [(3, 0, 0), (1, 2, 0)]:
        own = people[: domain.size]
        truth = np.array(own, dtype=float)
        if task == "count":
            truth = truth[1:2]
        if task in ("mean", "sum"):
            truth = np.array([analyzer.values @ truth / (3 if task == "mean" else 1)])
        tallies, masses = zip(*enumerate_tallies(analyzer, own), strict=True)
        low, high = find_ends(task, analyzer, list(tallies), level)
        covered = np.array(masses) @ ((low <= truth + 1e-9) & (truth - 1e-9 <= high))
        assert (covered >= level - 1e-12).all()


def test_a_number_has_one_radius_for_all_tallies() -> None:
    analyzer = build(*CASES[8])
    radii = []
    for tally, _ in list(enumerate_tallies(analyzer, (1, 2, 0)))[::100]:
        found = analyzer.estimate(tally)
        low, high = found.exact_interval(0.95)
        radii += [(round(low - found.value, 9), round(high - found.value, 9))]
    assert len(radii) > 3
    assert len(set(radii)) == 1


def test_devices_follow_their_declared_law() -> None:
    for floor in (None, 1.0):
        device = build("histogram", Categories(k=3), floor, 1).device
        for x in range(3):
            assert enumerate_law(device, x) == device.pmf(x)


def test_what_is_dealt_has_the_law_of_messages_and_noise() -> None:
    """One draw for two bins: their total is fixed; otherwise each bin has its own."""
    count = build("count", Bits(), None, 1)
    dealt = [count.deal(np.array([5, 7]), SeededWords(seed)).counts for seed in range(200)]
    assert {int(each.sum()) for each in dealt} == {12 + 2 * SERVERS * NOISE.most}
    moved = {int(each[1]) - 7 - SERVERS * NOISE.most for each in dealt}
    assert {-2, -1, 0, 1, 2} < moved <= set(range(-4, 5))
    bins = build("histogram", Categories(k=3), None, 1)
    dealt = [bins.deal(np.array([5, 7, 0]), SeededWords(seed)).counts for seed in range(200)]
    assert len({int(each.sum()) for each in dealt}) > 5


def test_the_mix_of_tails_is_the_exact_one() -> None:
    """N = Bin(c, p) + Bin(n - c, q) + S against its convolution."""
    added = CutLaplaceSum(noise=CutLaplace(rate=0.5, most=9), times=2)
    law = SupportLaw(n=7, p=0.75, q=0.25, added=added)
    exact = np.ones(1)
    for chance in (0.75,) * 3 + (0.25,) * 4:
        exact = np.convolve(exact, [1 - chance, chance])
    exact = np.convolve(exact, added.masses)
    for x in range(-10, 20):
        true = exact[max(0, x + added.most) :].sum()
        found = law.at_least(np.array([float(x)]), np.array([3.0]), 0.025)[0]
        assert true - 1e-12 <= found <= true + 1e-5


def test_sums_of_cells_have_certified_tails() -> None:
    added = CutLaplaceSum(noise=CutLaplace(rate=0.5, most=30), times=2)
    noise = IndependentLevels(levels=(AddedNoise(noise=added),))
    three = (LevelWeights(values=np.array([[1.0]]), counts=np.array([[3.0]])),)
    exact = np.convolve(np.convolve(added.masses, added.masses), added.masses)
    middle = len(exact) // 2
    for x in (5, 12, 20):
        true = exact[middle + x :].sum()
        bound = noise.tails(three).above(np.array([float(x)]))[0]
        assert true <= bound <= 1.6 * true


@pytest.mark.parametrize("own", [0, 7, 40])
def test_sums_of_cells_with_a_floor_have_certified_tails(own: int) -> None:
    """The first of three cells, `own` of 40 people in it, against the exact law: on a lattice of thirds."""
    n, p, q = 40, 0.5, 0.25
    added = CutLaplaceSum(noise=CutLaplace(rate=1.0, most=8), times=2)
    noise = BinNoise(n=n, cells=3, p=p, q=q, added=AddedNoise(noise=added))
    first = (LevelWeights(values=np.array([[2 / 3, -1 / 3]]), counts=np.array([[1.0, 2.0]])),)
    sent = np.ones(1)
    for chance in (p,) * own + (q,) * (n - own):
        sent = np.convolve(sent, [1 - chance, chance])
    exact = spread_out(sent, 3)
    for times in (2, 1, 1):
        exact = np.convolve(exact, spread_out(added.masses, times))
    thirds = np.arange(len(exact)) - 4 * added.most
    sums = (thirds - n) / (3 * (p - q)) - (own - n / 3)
    assert exact @ sums == pytest.approx(0, abs=1e-9)
    assert math.sqrt(exact @ sums**2) == pytest.approx(find_spread(noise, own), rel=1e-9)
    for x in (15.0, 25.0, 40.0):
        for sign in (1.0, -1.0):
            true = exact[sign * sums >= x].sum()
            signed = (LevelWeights(values=sign * first[0].values, counts=first[0].counts),)
            bound = noise.tails(signed).above(np.array([x]))[0]
            assert true <= bound
            assert x > 15 or bound <= 12 * true  # whatever the data are


def find_spread(noise: BinNoise, own: int) -> float:
    """The standard deviation for people of whom `own` are in the first cell."""
    squares = [np.array([4 / 9, 1 / 9, 1 / 9])]
    spare = noise.find_spare([np.sqrt(squares[0])])
    taken = own * spare[0] + (noise.n - own) * spare[1]
    return math.sqrt(noise.variances[0] * squares[0].sum() - taken)


def spread_out(masses: np.ndarray, step: int) -> np.ndarray:
    """The law of `step` times a number."""
    found = np.zeros(step * (len(masses) - 1) + 1)
    found[::step] = masses
    return found


def test_quantiles_from_cells() -> None:
    made = make_server_noise(task="quantiles", lower=0, upper=63, at=(0.25, 0.5), rate=0.5, most=36)
    assert isinstance(made.randomizer.domain, Integers)
    assert made.offers.deal is not None
    inputs = np.full(64, 50)
    found = made.analyzer.estimate(made.offers.deal(inputs, SeededWords(5)))
    assert np.abs(np.asarray(found.value) - (15.5, 31.5)).max() < 2
    low, high = found.exact_interval(0.95)
    assert (np.asarray(low) <= (16, 32)).all()
    assert (np.asarray(high) >= (15, 31)).all()


CELLS = [
    ("quantiles", {"at": (0.25, 0.5)}),
    ("range", {"at": (1.0, 1.0)}),
    ("cdf", {"at": (0.0, 1.0)}),
    ("variance", {}),
    ("std", {}),
]


def build_cells(task: str, k: int, floor: float | None, **more: object) -> ShuffleProtocol:
    return make_server_noise(
        task=task, lower=0, upper=k - 1, epsilon=floor, rate=1.0, most=1, **more
    )


def find_truth(task: str, people: tuple[int, ...], at: tuple[float, ...]) -> np.ndarray:
    """By plain arithmetic on everybody's number."""
    numbers = np.repeat(np.arange(len(people)), people)
    if task == "quantiles":
        return np.array([numbers[max(math.ceil(p * len(numbers)), 1) - 1] for p in at], dtype=float)
    if task == "range":
        return np.array([float(((numbers >= at[0]) & (numbers <= at[1])).sum())])
    if task == "cdf":
        return np.array([(numbers <= point).mean() for point in at])
    return np.array([numbers.var() if task == "variance" else numbers.std()])


@pytest.mark.parametrize("floor", [None, 1.5])
@pytest.mark.parametrize("k", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("task", "more"), CELLS, ids=[task for task, _ in CELLS])
def test_intervals_about_cells_cover_whatever_people_have(
    task: str, more: dict, k: int, floor: float | None
) -> None:
    made = build_cells(task, k, floor, **more)
    analyzer = made.analyzer
    assert isinstance(analyzer, TreeAnalyzer)
    assert isinstance(analyzer.tree, CellsTree)
    for people in [(1, 2, 0)[:k], (0, 2, 0)[:k]]:
        truth = find_truth(task, people, analyzer.question.at)
        covered: np.ndarray | float = 0.0
        for tally, mass in enumerate_tallies(analyzer.tree.analyzer, people):
            low, high = analyzer.estimate(tally).exact_interval(0.8)
            covered = covered + mass * ((low <= truth + 1e-9) & (truth - 1e-9 <= high))
        assert (np.asarray(covered) >= 0.8).all()


@pytest.mark.parametrize("floor", [None, 1.5])
@pytest.mark.parametrize("k", [2, 3])
def test_leaves_and_spreads_have_no_bias_and_their_variance_is_known(
    k: int, floor: float | None
) -> None:
    """The variance of a sum of leaves is estimated without bias from the data, and exact for evenly spread answers."""
    analyzer = build_cells("variance", k, floor).analyzer
    assert isinstance(analyzer, TreeAnalyzer)
    assert isinstance(analyzer.tree, CellsTree)
    weights = np.arange(float(k)) ** 2
    for people in [(1, 2, 0)[:k], (1,) * k]:
        law = list(enumerate_tallies(analyzer.tree.analyzer, people))
        masses = np.array([mass for _, mass in law])
        leaves = [analyzer.fit(tally) for tally, _ in law]
        sums = np.array([each.values @ weights for each in leaves])
        np.testing.assert_allclose(masses @ sums, np.array(people) @ weights, atol=1e-9)
        true = masses @ (sums - np.array(people) @ weights) ** 2
        guessed = masses @ np.array([each.estimate_noise(weights) for each in leaves])
        np.testing.assert_allclose(guessed, true, rtol=1e-9)
        if people == (1,) * k:
            np.testing.assert_allclose(leaves[0].sum_error(weights) ** 2, true, rtol=1e-9)
        spreads = np.array([analyzer.estimate(tally).value for tally, _ in law])
        np.testing.assert_allclose(
            masses @ spreads, find_truth("variance", people, ())[0], atol=1e-9
        )


@pytest.mark.parametrize("floor", [None, 1.5])
@pytest.mark.parametrize("k", [2, 3])
def test_what_one_server_sees_of_cells_is_as_private_as_is_said(
    k: int, floor: float | None
) -> None:
    """The exact divergence of all tallies with one server's noise, of a person among up to three others."""
    made = build_cells("quantiles", k, floor)
    own = OneBinView(made)
    claimed = made.guarantee
    worst = 0.0
    for others in [(), (0,), (0, 1, 1)]:
        laws = [own.see((x, *others)) for x in range(k)]
        for a, b in product(range(k), repeat=2):
            every = set(laws[a]) | set(laws[b])
            growth = exp_upper(claimed.epsilon)
            zero = Fraction(0)
            delta = sum(
                max(zero, laws[a].get(each, zero) - growth * laws[b].get(each, zero))
                for each in every
            )
            worst = max(worst, float(delta))
    assert 0.5 * claimed.delta < worst <= claimed.delta


class OneBinView:
    """What a server sees of people's cells: written anew, from the device's law and the table of the noise."""

    def __init__(self, made: ShuffleProtocol) -> None:
        self.device = made.randomizer
        self.k = made.randomizer.domain.size
        table = CutLaplace(rate=made.parameters["rate"], most=made.parameters["most"]).pmf()
        if self.k == 2:
            self.noise = {(-z, z): mass for z, mass in table.items()}
        else:
            self.noise = {
                tuple(z for z, _ in each): math.prod((m for _, m in each), start=Fraction(1))
                for each in product(table.items(), repeat=self.k)
            }

    def see(self, people: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
        law = self.noise
        for x in people:
            sent = {
                tuple(int(y == b) for b in range(self.k)): mass
                for (y,), mass in self.device.pmf(x).items()
            }
            law = add(law, sent)
        return law


def test_one_message_moves_a_rank_by_what_the_floor_makes_of_a_person() -> None:
    assert build_cells("quantiles", 3, None).offers.influence() == 1.0
    made = build_cells("range", 3, 1.5, at=(1.0, 1.0))
    device = made.randomizer
    assert isinstance(device, OneBin)
    assert made.offers.influence() == pytest.approx(2 / float(device.p - device.q))


def test_what_has_no_bin_of_its_own_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="task='words' cannot have noise of the servers"):
        make_server_noise(task="words", rate=0.5, most=36)
    with pytest.raises(UnsupportedError, match="answered by everybody, not as one random question"):
        make_server_noise(task="cdf", lower=0, upper=9, parts=2, rate=0.5, most=36)
    for task, missing in (("histogram", "k"), ("mean", "lower")):
        with pytest.raises(ParameterError, match=f"{missing} must be given"):
            make_server_noise(task=task, rate=0.5, most=36)
    with pytest.raises(ParameterError, match="steps must be given for a mean"):
        make_server_noise(task="mean", lower=0, upper=1, rate=0.5, most=36)
    with pytest.raises(ParameterError, match="must have 3 bins"):
        OneBin(domain=Categories(k=3), response=KRR(k=2, epsilon0=1.0))
    with pytest.raises(ParameterError, match="must be two bins"):
        AmongMessages(device=OneBin(domain=Categories(k=3)), noise=NOISE, paired=True)


@pytest.mark.parametrize("task", ["mean", "sum"])
def test_the_moments_of_a_mean_are_those_of_the_worst_people(task: str) -> None:
    """All at the point where one person's moment is largest; the same law by enumeration."""
    analyzer = build(task, Reals(lower=0.0, upper=3.0, steps=3), 1.5, 1)
    gap, n = float(analyzer.gap), 3
    error = GridError(analyzer=analyzer, counts=np.array([1.0, 1.0, 1.0, 0.0]), n=n)
    p, q = float(analyzer.p), float(analyzer.q)
    for weights in (np.array([0.5, -0.25, 0.0, 1.0]), np.array([-1.0, 0.0, 0.25, 0.5])):
        s = weights / gap
        servers = float(analyzer.added.log_moments(s).sum())
        people = []
        for own in range(4):
            law = np.full(4, q)
            law[own] = p
            people.append(math.log(law @ np.exp(s)) - law @ s)
        assert max(people) > 1.1 * min(people) > 0
        found = float(error.log_moment(weights[None])[0])
        assert found == pytest.approx(servers + n * max(people), abs=1e-10)
        assert found >= servers + n * max(people)
