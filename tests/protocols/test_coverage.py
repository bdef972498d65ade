"""The default interval covers at least its level: every count from 0 to n, by enumeration.

The tally of a category that c of n people hold is Bin(c, p) + Bin(n - c, q) and, for protocols with fake
messages, binomials that do not depend on the data. So coverage at c is a finite sum, and nothing is simulated.
"""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.stats import binom

from shuffledp import UnsupportedError
from shuffledp.core.analyzer import NormalError, Tally
from shuffledp.core.domain import PLACE_BITS, Reals
from shuffledp.numerics.intervals import BoundedError, OneBitError, SupportLaw, TwoBinomialsError
from shuffledp.numerics.masses import bound_at_most
from shuffledp.protocols import (
    duchi,
    fake_users,
    hadamard,
    hadamard_blanket,
    hashed_histogram,
    hybrid,
    krr,
    local_hashing,
    optimized_unary,
    piecewise,
    rr,
    subset_selection,
    symmetric_unary,
)
from shuffledp.protocols.rounded_sum import RoundedResponse, RoundedSum
from support import first

SIZES = [2, 3, 5, 10, 50, 100, 200]
ORACLES = {
    "krr": (krr, {"k": 100}),
    "symmetric_unary": (symmetric_unary, {"k": 5}),
    "optimized_unary": (optimized_unary, {"k": 5}),
    "local_hashing": (local_hashing, {"k": 5}),
    "subset_selection": (subset_selection, {"k": 20}),
    "hadamard": (hadamard, {"k": 5}),
    "rr": (rr, {}),
    "fake_users": (fake_users, {"k": 5}),
    "hashed_histogram": (hashed_histogram, {"k": 5}),
    "hadamard_blanket": (hadamard_blanket, {"k": 5}),
}
PROMISES = [(0.5, 1e-6), (1.0, 1e-2), (3.0, 1e-2), (3.0, 1e-6)]


@cache
def binomial(m, r):
    return binom.pmf(np.arange(m + 1), m, float(r))


def probabilities(protocol):
    """p, q and, per person, the fake messages as (how many, probability)."""
    device = protocol.randomizer
    match protocol.name:
        case "fake_users":
            return 1 - device.f, device.f, [(device.fake, device.f)]
        case "hashed_histogram" | "hadamard_blanket":
            surely, share = divmod(device.rho, 1)
            return device.p, device.q, [(int(surely), device.q), (1, share * device.q)]
        case "hadamard":
            return (1 + device.lead) / 2, 0.5, []
    return device.p, device.q, []


def laws(protocol, n):
    """The law of the tally for c = 0, 1, ..., n, each from 0 to the number of messages."""
    p, q, fakes = probabilities(protocol)
    extra = np.ones(1)
    for times, r in fakes:
        extra = np.convolve(extra, binomial(times * n, r))
    for c in range(n + 1):
        yield np.convolve(np.convolve(binomial(c, p), binomial(n - c, q)), extra)


def intervals(protocol, n, most, level):
    """Both ends for each tally 0 .. most of a category."""
    x = np.arange(most + 1)
    match protocol.name:
        case "rr":
            ends = [
                protocol.analyzer.estimate(Tally(counts=np.array([n - ones, ones]), users=n))
                .interval(level)
                for ones in x.tolist()
            ]  # fmt: skip
            return np.array(ends).T
        case "hadamard":
            p, q, _ = probabilities(protocol)
            error = TwoBinomialsError(observed=x, n=n, p=float(p), q=q, value=x.astype(float))
            return error.interval(x, level)
    return protocol.analyzer.estimate(Tally(counts=x, users=n)).interval(level)


def coverages(protocol, n, level, find=intervals):
    rows = list(laws(protocol, n))
    low, high = find(protocol, n, len(rows[0]) - 1, level)
    return np.array([row[(low <= c) & (c <= high)].sum() for c, row in enumerate(rows)])


@cache
def protocols(name, every=False):
    """All of them, or a third: each promise with other sizes, and each protocol with others than its neighbours."""
    start = None if every else sorted(ORACLES).index(name)
    return tuple(make_all(*ORACLES[name], start))


def make_all(module, parameters, start=None):
    for i, (epsilon, delta) in enumerate(PROMISES):
        for j, n in enumerate(SIZES):
            if start is not None and (start + i + j) % 3:
                continue
            try:
                protocol = module.make(n=n, epsilon=epsilon, delta=delta, honest=1.0, **parameters)
            except UnsupportedError:
                continue
            if sum(times for times, _ in probabilities(protocol)[2]) * n <= 20_000:
                yield protocol, n
        if hasattr(module, "make_local"):
            yield module.make_local(epsilon=epsilon, **parameters), 50


@pytest.mark.parametrize(
    ("level", "every"), first([(0.95, False), (0.95, True), (0.8, True), (0.99, True)])
)
@pytest.mark.parametrize("name", ORACLES)
def test_covers_every_count(name, level, every):
    cases = 0
    for protocol, n in protocols(name, every):
        assert coverages(protocol, n, level).min() >= level - 1e-12, (protocol.parameters, n)
        cases += 1
    assert cases >= 4


def normal(protocol, n, most, level):
    """What the interval used to be."""
    x = np.arange(most + 1)
    if protocol.name == "rr":
        tallies = [Tally(counts=np.array([n - ones, ones]), users=n) for ones in x.tolist()]
        found = [protocol.analyzer.estimate(tally) for tally in tallies]
        value, stderr = np.array([(each.value, each.stderr) for each in found]).T
    else:
        estimate = protocol.analyzer.estimate(Tally(counts=x, users=n))
        value, stderr = estimate.value, estimate.stderr
    return NormalError(stderr=stderr).interval(value, level)


@pytest.mark.parametrize(
    ("module", "parameters", "n", "promise", "covered"),
    [
        (optimized_unary, {"k": 5}, 100, (3.0, 1e-2), 0.8),
        (local_hashing, {"k": 5}, 100, (3.0, 1e-2), 0.86),
        (krr, {"k": 100}, 200, (0.5, 1e-6), 0.9),
        (fake_users, {"k": 5}, 50, (1.0, 1e-2), 0.945),
        (rr, {}, 50, (3.0, 1e-6), 0.93),
        (subset_selection, {"k": 20}, 50, (3.0, 1e-6), 0.92),
        (hashed_histogram, {"k": 5}, 50, (3.0, 1e-6), 0.935),
        (hadamard_blanket, {"k": 5}, 50, (3.0, 1e-6), 0.935),
    ],
)
def test_normal_intervals_do_not_cover(module, parameters, n, promise, covered):
    protocol = module.make(n=n, epsilon=promise[0], delta=promise[1], honest=1.0, **parameters)
    assert coverages(protocol, n, 0.95, find=normal).min() < covered
    assert coverages(protocol, n, 0.95).min() >= 0.95


@pytest.mark.parametrize("name", ORACLES)
def test_hardly_wider_than_normal(name):
    """In the mean over the tally, and over all counts; normal ends that leave 0 .. n are moved there."""
    for protocol, n in protocols(name):
        if n < 50 or protocol.name == "hadamard":
            continue
        rows = np.array(list(laws(protocol, n)))
        widths = []
        for find in (intervals, normal):
            low, high = np.clip(find(protocol, n, rows.shape[1] - 1, 0.95), 0, n)
            widths.append(float((rows @ (high - low)).mean()))
        assert widths[0] < 1.3 * widths[1]


@pytest.mark.parametrize("name", ["krr", "optimized_unary", "fake_users", "hashed_histogram"])
def test_twice_the_tail_is_noticed(name):
    """An interval that leaves 1 - level on each side."""

    def mutant(protocol, n, most, level):
        return intervals(protocol, n, most, 1 - 2 * (1 - level))

    found = [coverages(*case, 0.95, find=mutant).min() for case in protocols(name)]
    assert min(found) < 0.94


LAWS = [
    SupportLaw(n=300, p=0.5, q=0.02),
    SupportLaw(n=40, p=0.021, q=0.02),
    SupportLaw(n=90, p=1.0, q=0.001, extra=((500, 0.001), (90, 0.0004))),
    SupportLaw(n=25, p=1.0, q=0.0, extra=((900, 0.3),)),
    SupportLaw(n=60, p=0.999, q=0.9, extra=((0, 0.5),)),
]


def enumerate_law(law, c):
    row = np.convolve(binomial(c, law.p), binomial(law.n - c, law.q))
    for m, r in law.extra:
        row = np.convolve(row, binomial(m, r))
    return row


@pytest.mark.parametrize("law", LAWS)
def test_tails_are_upper_bounds(law):
    x = np.arange(law.messages + 1.0)
    for c in (0, 1, law.n // 2, law.n):
        exact = np.cumsum(enumerate_law(law, c)[::-1])[::-1]
        there = np.full(len(x), float(c))
        found = law.at_least(x, there, 0.025)
        assert np.all(found >= exact - 1e-13)
        np.testing.assert_allclose(found, exact, atol=1e-9)
        assert np.all(law.at_least(x, there, 1e-9) >= exact * (1 - 1e-9))


@pytest.mark.parametrize("n", [30, 10**4, 10**7, 10**10])
@pytest.mark.parametrize("p", [0.5, 0.03])
def test_fourier_sums_are_as_exact_as_they_say(n, p):
    """Everybody holds the category: one binomial, whose tails are certified on both sides."""
    law = SupportLaw(n=n, p=p, q=p / 2)
    c = np.full(40, float(n))
    sd = float(np.sqrt(law.variance(c[:1])[0]))
    x = np.rint(np.linspace(max(n * p - 4 * sd, 1), min(n * p + 4 * sd, n), 40))
    length = 24 * 2 ** (np.ceil(2 * np.log2((8 * sd + 24) / 24)) / 2)
    circle = law._circle(length, sd)
    found = law._fourier(x, c, circle) - circle.error
    low, high = bound_at_most(x - 1, n, p)  # their own error is relative, and small
    assert np.all(found <= 1 - low + circle.error)
    assert np.all(found >= 1 - high - circle.error)
    assert circle.error < 1e-7


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("tail", [0.1, 0.025, 0.0005])
def test_ends_are_those_of_a_full_search(law, tail):
    exact = np.array(
        [np.cumsum(enumerate_law(law, c)[::-1])[::-1] > tail for c in range(law.n + 1)]
    )
    expected = np.where(exact.any(axis=0), exact.argmax(axis=0), law.n)
    found = law.find_lowest(np.arange(law.messages + 1.0), tail)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n", [10**5, 10**9, 10**12])
def test_many_people(n):
    """Near the normal interval in the middle, and not much wider."""
    p, q = 0.5, 0.01
    held = n * np.array([0.01, 0.2, 0.5, 0.9])
    observed = np.rint(held * p + (n - held) * q).astype(np.int64)
    value = (observed - n * q) / (p - q)
    error = TwoBinomialsError(observed=observed, n=n, p=p, q=q, value=value)
    for level in (0.95, 0.999):
        low, high = error.interval(value, level)
        near = NormalError(stderr=error.stderr).interval(value, level)
        np.testing.assert_allclose(high - low, near.high - near.low, rtol=0.02)
        assert np.all((low < value) & (value < high))
    wide = error.interval(value, 1 - 1e-12)
    assert np.all((wide.low < low) & (high < wide.high))


MEANS = [
    (duchi.make_local(lower=0.0, upper=1.0, epsilon=1.0, steps=4), 4),
    (duchi.make_local(lower=-3.0, upper=1.0, epsilon=4.0, steps=2), 2),
    (piecewise.make_local(lower=0.0, upper=1.0, epsilon=2.0, steps=2), 2),
    (hybrid.make_local(lower=0.0, upper=1.0, epsilon=3.0, steps=2), 2),
]


def message_law(device, number):
    """Of somebody with that many steps, a fraction: the steps are rounded at random first."""
    place = round(number * 2**PLACE_BITS / device.domain.steps)
    law = Counter()
    for code, chance in device.domain.rounding_law(place, 64).items():
        for sent, mass in device.pmf(code).items():
            law[sent] += float(chance * mass)
    return law


def cover_mean(protocol, inputs, level, find):
    """The exact probability that the interval holds the mean if everybody has that many steps."""
    analyzer, domain = protocol.analyzer, protocol.randomizer.domain
    law = {Fraction(0): 1.0}  # of the sum of the decoded codes
    for number in inputs:
        after = {}
        for (y,), mass in message_law(protocol.randomizer, number).items():
            for total, before in law.items():
                reached = total + protocol.randomizer.decoder(y)
                after[reached] = after.get(reached, 0.0) + before * mass
        law = after
    n, unit = len(inputs), (domain.upper - domain.lower) / domain.steps
    any_tally = Tally(counts=np.eye(protocol.randomizer.alphabet, dtype=np.int64)[0] * n, users=n)
    error = analyzer.estimate(any_tally).error
    truth = domain.lower + unit * float(sum(inputs)) / n
    value = domain.lower + unit * np.array([float(total) for total in law]) / n
    low, high = find(error, value, level)
    held = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
    return float(np.array(list(law.values()))[held].sum())


@pytest.mark.parametrize(
    ("protocol", "last"), MEANS, ids=lambda value: getattr(value, "name", str(value))
)
@pytest.mark.parametrize("level", first([0.95, 0.5]))
def test_covers_every_data_set_of_a_mean(protocol, last, level):
    people = 4 if protocol.name == "duchi" else 1  # the others have a thousand messages
    between = [Fraction(1, 2), last - Fraction(1, 3)]  # real values, off the grid
    for n in range(1, people + 1):
        for inputs in combinations_with_replacement([*range(last + 1), *between], n):
            found = cover_mean(protocol, inputs, level, lambda error, *rest: error.interval(*rest))
            assert found >= level - 1e-12


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("module", [piecewise, hybrid])
def test_the_largest_variance_counts_the_rounding(module, steps):
    """Of one person with a real value, on and off the grid."""
    protocol = module.make_local(lower=0.0, upper=float(steps), steps=steps, epsilon=3.0)
    device = protocol.randomizer
    alone = Tally(counts=np.eye(device.alphabet, dtype=np.int64)[0], users=1)
    a, b, c = protocol.analyzer.estimate(alone).error.most
    for number in [Fraction(i, 6) for i in range(6 * steps + 1)]:
        x = float(number)
        law = message_law(device, number)
        exact = sum(mass * (float(device.decoder(y)) - x) ** 2 for (y,), mass in law.items())
        assert exact <= (a + x * (b + x * c)) * (1 + 1e-9)


def test_one_bit_of_many_people():
    """Everybody at one end, or half at each: the number of ones is a sum of two binomials."""
    protocol = duchi.make_local(lower=0.0, upper=1.0, epsilon=1.0, steps=1)
    device = protocol.randomizer
    low, high = (float(device.pmf(code)[(1,)]) for code in (0, 1))
    for n in (10, 200, 4000):
        ones = np.arange(n + 1)
        answers = [protocol.analyzer.estimate(Tally(counts=np.array([n - x, x]), users=n))
                   for x in (0, n)]  # fmt: skip
        value = np.linspace(answers[0].value, answers[1].value, n + 1)
        found = answers[0].error.interval(value, 0.95)
        for held in (0, n // 20, n // 2, n):
            law = np.convolve(binomial(held, high), binomial(n - held, low))
            covered = (found.low <= held / n) & (held / n <= found.high)
            assert law[ones[covered]].sum() >= 0.95 - 1e-12


@pytest.mark.parametrize("level", [0.6, 0.95, 0.999])
@pytest.mark.parametrize("n", [2, 5, 40])
def test_one_bit_covers_any_coins(n, level):
    """Coins of few and of many kinds: no one of them is left out more often than the level allows."""
    rng = np.random.default_rng(3)
    start, end = 0.02, 0.9
    several = [rng.uniform(start, end, n) for _ in range(20)]
    several += [np.full(n, p) for p in np.linspace(start, end, 20)]
    several += [np.where(np.arange(n) < held, end, start) for held in range(n + 1)]
    ones = np.arange(n + 1)
    error = OneBitError(stderr=1.0, n=n, chances=(start, end), limits=(0.0, 1.0))
    low, high = error.interval((ones / n - start) / (end - start), level)
    for coins in several:
        law = np.ones(1)
        for p in coins:
            law = np.convolve(law, [1 - p, p])
        truth = (coins.mean() - start) / (end - start)
        assert law[(low <= truth + 1e-12) & (truth - 1e-12 <= high)].sum() >= level


def test_one_bit_is_as_narrow_as_the_law_allows():
    """Half the tail is noticed, and the width is that of the normal law; the bound for any law has 1.4 times that."""
    n, start, end = 1000, 0.25, 0.75
    for half, level in ((False, 0.95), (True, 0.9)):
        error = OneBitError(stderr=1.0, n=n, chances=(start, end), limits=(0.0, 1.0))
        low, high = error.interval((np.arange(n + 1) / n - start) / (end - start), level)
        covered = binomial(n, 0.5)[(low <= 0.5) & (high >= 0.5)].sum()
        assert (covered < 0.94) == half
        assert (high - low)[n // 2] < 1.05 * 2 * 1.96 * 0.5 / np.sqrt(n) / (end - start)


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_bounds_cover_the_widest_laws(n):
    """Coins of all chances; a bound with a quarter of the variance is noticed."""
    for p in (0.5, 0.1, 0.01):
        law, x = binomial(n, p), np.arange(n + 1)
        variance = n * p * (1 - p)
        missed = []
        for most in (variance, variance / 4):
            error = BoundedError(
                stderr=1.0, most=(most, 0.0, 0.0), least=most, reach=1.0, limits=(0.0, float(n))
            )
            low, high = error.interval(x.astype(float), 0.95)
            missed.append(law[(low > n * p) | (n * p > high)].sum())
        assert missed[0] <= 0.05
        if n == 1000 and p == 0.5:
            assert missed[1] > 0.05


def test_variances_are_looked_at_range_by_range():
    """If the variance may be tiny the normal bound says nothing there, but Bennett's does."""
    widths = [
        high - low
        for low, high in (
            BoundedError(
                stderr=100.0, most=(1e4, 0.0, 0.0), least=least, reach=1.0, limits=(0.0, 1e4)
            ).interval(5000.0, 0.95)
            for least in (1e4, 10.0)
        )
    ]
    assert widths[0] <= widths[1] < 1.03 * widths[0]
    assert widths[0] < 1.1 * 2 * 1.96 * 100  # Bennett's bound alone: 1.4


@pytest.mark.parametrize(("n", "p"), [(4000, 0.5), (4000, 0.02), (200, 0.3)])
def test_any_variance_within_its_bounds_is_covered(n, p):
    """A law whose variance is far below what is thought possible."""
    x, law = np.arange(n + 1.0), binomial(n, p)
    error = BoundedError(
        stderr=1.0, most=(n / 4, 0.0, 0.0), least=n * p * (1 - p), reach=1.0, limits=(0.0, float(n))
    )
    for level in (0.5, 0.95, 0.999):
        low, high = error.interval(x, level)
        assert law[(low <= n * p) & (n * p <= high)].sum() >= level


@pytest.mark.parametrize("task", ["sum", "mean"])
@pytest.mark.parametrize("n", [2, 5])
def test_covers_rounded_sums(task, n):
    domain = Reals(lower=1.0, upper=3.0, steps=4)
    device = RoundedResponse(domain=domain, levels=2, gamma=Fraction(1, 4), word_bits=5)
    analyzer = RoundedSum(device=device, task=task)
    tallies = [
        np.bincount(sent, minlength=3) for sent in combinations_with_replacement(range(3), n)
    ]
    answers = [analyzer.estimate(Tally(counts=counts, users=n)).interval(0.6) for counts in tallies]
    share = 1 / n if task == "mean" else 1.0
    worst = 1.0
    between = [Fraction(1, 2), Fraction(10, 3)] if n < 5 else []  # real values, off the grid
    for inputs in combinations_with_replacement([*range(5), *between], n):
        law = {(0, 0, 0): 1.0}
        for number in inputs:
            after = {}
            for (y,), mass in message_law(device, number).items():
                for counts, before in law.items():
                    reached = tuple(np.add(counts, np.eye(3, dtype=int)[y]).tolist())
                    after[reached] = after.get(reached, 0.0) + before * mass
            law = after
        truth = share * float(sum(1 + Fraction(number) / 2 for number in inputs))
        worst = min(
            worst,
            sum(
                law.get(tuple(counts.tolist()), 0.0)
                for counts, (low, high) in zip(tallies, answers, strict=True)
                if low - 1e-12 <= truth <= high + 1e-12
            ),
        )
    assert worst >= 0.6 - 1e-12


def test_no_count_is_left_out_of_the_interval_of_a_hundred_million():
    """Where counts are not looked at one by one, the end is one that was refused, not one that was kept."""
    n, tail = 10**8, 0.025
    law = SupportLaw(n=n, p=0.6, q=0.4)
    seen = np.rint(law.mean(np.array([1e6, 3.3e7, 9e7])) + 0.37 * np.sqrt(n))
    low = law.find_lowest(seen, tail)
    assert np.all(law.at_least(seen, low - 1, tail) <= tail)
    room = law._room(low)
    assert np.all(room > 1)
    assert np.all(law.at_least(seen, low + room, tail) > tail)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("level", [0.01, 0.3, 0.5, 0.6])
def test_low_levels_of_one_bit_cover_any_coins(n, level):
    """Tails above 0.2 are outside of the argument: the interval is that of 0.2, and covers more than it must."""
    error = OneBitError(stderr=0.1, n=n, chances=(0.0, 1.0), limits=(0.0, 1.0))
    ends = [error.interval(ones / n, level) for ones in range(n + 1)]
    assert ends == [error.interval(ones / n, min(level, 0.6)) for ones in range(n + 1)]
    grid = np.linspace(0, 1, 9)
    for coins in combinations_with_replacement(grid, n):
        law = np.ones(1)
        for chance in coins:
            law = np.convolve(law, [1 - chance, chance])
        truth = float(np.mean(coins))
        covered = sum(
            mass for mass, (low, high) in zip(law, ends, strict=True) if low <= truth <= high
        )
        assert covered >= 0.6 - 1e-9
