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
from shuffledp.numerics.cut_laplace import CutLaplace, CutLaplaceSum
from shuffledp.numerics.intervals.counts import SupportLaw
from shuffledp.numerics.tree_noise import AddedNoise, IndependentLevels
from shuffledp.numerics.trees import LevelWeights
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.server_noise import SERVERS, AmongMessages, OneBin, make_server_noise
from shuffledp.testing.tapes import enumerate_law

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
    return AmongMessages(
        device=device, task=task, noise=NOISE, paired=domain.size == 2, parts=parts
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
    one = NOISE.pmf()
    if analyzer.paired:
        noise = {(NOISE.most - z, NOISE.most + z): mass for z, mass in one.items()}
    else:
        noise = {
            tuple(NOISE.most + z for z, _ in each): math.prod(
                (m for _, m in each), start=Fraction(1)
            )
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
    analyzer: AmongMessages, tallies: list[Tally], level: float
) -> tuple[np.ndarray, np.ndarray]:
    """The intervals of all these tallies, ends[tallies, numbers]: all bins at once, and a radius for all numbers."""
    if analyzer.task == "histogram":
        every = np.concatenate([tally.counts for tally in tallies])
        together = AmongMessages.estimate(analyzer, Tally(counts=every, users=tallies[0].users))
        low, high = together.error.exact_interval(together.value, level)
        return np.reshape(low, (len(tallies), -1)), np.reshape(high, (len(tallies), -1))
    if analyzer.task == "count":
        found = {}
        for tally in tallies:
            seen = int(tally.counts[1])
            found.setdefault(seen, analyzer.estimate(tally).exact_interval(level))
        ends = np.array([found[int(tally.counts[1])] for tally in tallies])
        return ends[:, :1], ends[:, 1:]
    values = np.array([[analyzer.estimate(tally).value] for tally in tallies])
    low, high = analyzer.estimate(tallies[0]).exact_interval(level)
    return values + (low - values[0]), values + (high - values[0])


@pytest.mark.parametrize("level", [0.8, 0.95])
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
        low, high = find_ends(analyzer, list(tallies), level)
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


def test_what_has_no_bin_of_its_own_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="task='words' cannot have noise of the servers"):
        make_server_noise(task="words", rate=0.5, most=36)
    with pytest.raises(UnsupportedError, match="has no floor"):
        make_server_noise(task="cdf", lower=0, upper=9, epsilon=3.0, rate=0.5, most=36)
    for task, missing in (("histogram", "k"), ("mean", "lower")):
        with pytest.raises(ParameterError, match=f"{missing} must be given"):
            make_server_noise(task=task, rate=0.5, most=36)
    with pytest.raises(ParameterError, match="steps must be given for a mean"):
        make_server_noise(task="mean", lower=0, upper=1, rate=0.5, most=36)
    with pytest.raises(ParameterError, match="must have 3 bins"):
        OneBin(domain=Categories(k=3), response=KRR(k=2, epsilon0=1.0))
    with pytest.raises(ParameterError, match="must be two bins"):
        AmongMessages(
            device=OneBin(domain=Categories(k=3)), task="histogram", noise=NOISE, paired=True
        )
