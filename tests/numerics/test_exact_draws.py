"""Exact draws: by enumeration of every tape, by the identity behind them, and once by statistics."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from shuffledp import ParameterError, SeededWords
from shuffledp.numerics import entropy
from shuffledp.numerics.intervals import DiscreteLaplace
from support import ALPHA

mpmath.mp.dps = 60


class Tape:
    """A source that gives the words of one tape, and then says that it is over."""

    def __init__(self, words, width):
        self.left, self.width = list(words), width

    def words(self, count, bits=64):
        assert bits == self.width, "words of another width have bits that nobody looks at"
        if count > len(self.left):
            raise StopIteration
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint8)


def enumerated(draw, bits, depth):
    """The exact mass of each outcome over all tapes of `depth` words, and the undecided mass."""
    seen = Counter()
    for tape in itertools.product(range(1 << bits), repeat=depth):
        try:
            seen[draw(Tape(tape, bits))] += 1
        except StopIteration:
            seen[None] += 1
    total = 1 << (bits * depth)
    return {outcome: Fraction(count, total) for outcome, count in seen.items()}


PROBABILITIES = {
    "e^-1": entropy.ExpMinus(Fraction(1)),
    "e^-0.01": entropy.ExpMinus(Fraction(1, 100)),
    "e^-7": entropy.ExpMinus(Fraction(7)),
    "logistic": entropy.Logistic(Fraction(3, 10)),
    "half": entropy.Logistic(Fraction(0)),
    "third": lambda _: (Fraction(1, 3), Fraction(1, 3)),
    "loose third": lambda digits: (
        Fraction(1, 3) - Fraction(1, 10**digits),
        Fraction(1, 3) + Fraction(1, 10**digits),
    ),
    "never": lambda _: (Fraction(0), Fraction(0)),
    "always": lambda _: (Fraction(1), Fraction(1)),
}


@pytest.mark.parametrize("name", PROBABILITIES)
@pytest.mark.parametrize(("bits", "depth"), [(1, 8), (2, 4), (3, 3), (5, 2), (8, 1)])
def test_bernoulli_has_exactly_this_probability(name, bits, depth):
    p = PROBABILITIES[name]
    law = enumerated(lambda tape: bool(entropy.draw_bernoulli(p, 1, tape, bits)[0]), bits, depth)
    low, high = p(60)
    open_mass = law.get(None, 0)
    assert law.get(True, 0) <= low
    assert high <= law.get(True, 0) + open_mass
    assert open_mass <= 2 * Fraction(1, 2 ** (bits * depth))


def test_a_shifted_threshold_is_noticed(monkeypatch):
    exact = entropy._thresholds
    monkeypatch.setattr(
        entropy, "_thresholds", lambda p, width: tuple(t + 1 for t in exact(p, width))
    )
    p = PROBABILITIES["e^-1"]
    law = enumerated(lambda tape: bool(entropy.draw_bernoulli(p, 1, tape, 8)[0]), 8, 1)
    assert law[True] > p(60)[1]


@pytest.mark.parametrize("rate", [Fraction(5), Fraction(9), Fraction(1, 3)])
def test_geometric_by_enumeration(rate):
    # rate 1/3 needs 5 digits and 1 trial: six words of 2 bits, of which few tapes are decided.
    bits, depth = (4, 3) if rate > 1 else (2, 6)
    law = enumerated(lambda tape: int(entropy.draw_geometric(rate, 1, tape, bits)[0]), bits, depth)
    open_mass = law.pop(None, Fraction(0))
    assert open_mass < (Fraction(1, 4) if rate > 1 else 1)
    ratio = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
    for g in range(40):
        decided = law.pop(g, Fraction(0))
        mass = (1 - ratio) * ratio**g
        assert float(decided) <= mass <= float(decided + open_mass) + 1e-15
    assert not law


@pytest.mark.parametrize("rate", ["1", "0.001", "3.7", "1e-12"])
def test_binary_digits_of_a_geometric_are_independent(rate):
    """Pr[G = g] is the product of the digits' probabilities, to 50 digits."""
    rate = mpmath.mpf(rate)
    places = 1
    while rate * 2**places < 200:
        places += 1
    ones = [1 / (1 + mpmath.exp(rate * 2**i)) for i in range(places)]
    for g in (0, 1, 2, 3, 5, 100, 2**places - 1):
        if g >= 2**places:
            continue
        product = mpmath.mpf(1)
        for i, one in enumerate(ones):
            product *= one if g >> i & 1 else 1 - one
        exact = -mpmath.expm1(-rate) * mpmath.exp(-rate * g)
        rest = -mpmath.expm1(-rate * 2**places)  # Pr[the higher digits are 0]
        assert abs(product * rest / exact - 1) < mpmath.mpf(10) ** -40


def test_the_digits_that_are_drawn_have_these_probabilities():
    rate = Fraction(1, 7)
    for i in range(6):
        low, high = entropy.Logistic(rate * 2**i)(45)
        exact = 1 / (1 + mpmath.exp(mpmath.mpf(rate.numerator) / rate.denominator * 2**i))
        assert mpmath.mpf(low.numerator) / low.denominator <= exact + mpmath.mpf(10) ** -55
        assert mpmath.mpf(high.numerator) / high.denominator >= exact - mpmath.mpf(10) ** -55
        assert high - low < Fraction(1, 10**40)


def rejected(sample, rate):
    """Whether some cell's count is impossible (two-sided, ALPHA over all cells) for this rate."""
    a = math.exp(-rate)
    cells = range(-12, 13)
    for z in cells:
        mass = (1 - a) / (1 + a) * a ** abs(z)
        seen = int((sample == z).sum())
        low, high = binom.cdf(seen, len(sample), mass), binom.sf(seen - 1, len(sample), mass)
        if min(low, high) < ALPHA / (2 * len(cells)):
            return True
    return False


@pytest.mark.parametrize("rate", [0.25, 1.0])
def test_discrete_laplace_sample(rate):
    sample = entropy.draw_discrete_laplace(Fraction(rate), 400_000, SeededWords(11))
    assert not rejected(sample, rate)
    assert rejected(sample, rate * 1.04)  # mutant: slightly more privacy claimed
    assert rejected(sample + 1, rate)  # mutant: off by one
    one_sided = entropy.draw_geometric(Fraction(rate), 400_000, SeededWords(11))
    assert rejected(one_sided, rate)


@pytest.mark.parametrize("rate", [Fraction(1e-12), entropy.SMALLEST_RATE, Fraction(1, 1000)])
def test_small_rates_have_the_right_scale(rate):
    sample = entropy.draw_discrete_laplace(rate, 40_000, SeededWords(12))
    t = DiscreteLaplace(rate=rate).radius(Fraction(1, 2))
    outside = int((np.abs(sample) > t).sum())
    tail = float(DiscreteLaplace(rate=rate).tail(t)[0])
    assert binom.cdf(outside, len(sample), tail) > ALPHA
    assert binom.sf(outside - 1, len(sample), tail) > ALPHA
    half = int((np.abs(sample) > t // 2).sum())  # mutant: half the scale
    assert binom.sf(half - 1, len(sample), tail) < ALPHA


def test_huge_rates_give_no_noise():
    assert not entropy.draw_discrete_laplace(Fraction(10) ** 9, 1000, SeededWords(1)).any()
    assert not entropy.draw_bernoulli_exp(Fraction(10) ** 30, 1000, SeededWords(1)).any()


@pytest.mark.parametrize("x", [Fraction(2), Fraction(5, 2)])
def test_large_exponents_are_products(x, monkeypatch):
    monkeypatch.setattr(entropy, "_STEP", Fraction(1))
    law = enumerated(lambda tape: bool(entropy.draw_bernoulli_exp(x, 1, tape, 4)[0]), 4, 3)
    low, high = entropy.ExpMinus(x)(40)
    assert law[True] <= low
    assert high <= law[True] + law[None]
    assert law[None] < Fraction(1, 8)


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1), entropy.SMALLEST_RATE / 2, 0.5])
def test_bad_rate(rate):
    with pytest.raises(ParameterError, match="rate"):
        entropy.draw_geometric(rate, 1, SeededWords(1))


def test_chunks_do_not_repeat_words():
    sample = entropy.draw_geometric(Fraction(1, 10**6), 3 * entropy._CHUNK + 5, SeededWords(3))
    assert not np.array_equal(sample[: entropy._CHUNK], sample[entropy._CHUNK : 2 * entropy._CHUNK])
    assert len(sample) == 3 * entropy._CHUNK + 5


CHOICES = [
    (Fraction(0),),
    (Fraction(0), Fraction(1)),
    (Fraction(2), Fraction(0), Fraction(1, 3), Fraction(50), Fraction(0)),
    (Fraction(25_000), Fraction(0), Fraction(10**9)),
    (Fraction(7, 2),) * 3,
]


@pytest.mark.parametrize("exponents", CHOICES)
@pytest.mark.parametrize(("bits", "depth"), [(1, 7), (3, 3), (8, 1)])
def test_choice_by_enumeration(exponents, bits, depth):
    choice = entropy.Choice(exponents=exponents)
    law = enumerated(lambda tape: int(choice.draw(1, tape, bits)[0]), bits, depth)
    open_mass = law.get(None, Fraction(0))
    assert open_mass <= Fraction(len(exponents), 2 ** (bits * depth))
    least = min(exponents)
    weights = [mpmath.exp(-mpmath.mpf((x - least).numerator) / x.denominator) for x in exponents]
    for r, weight in enumerate(weights):
        decided = law.get(r, Fraction(0))
        p = weight / sum(weights)
        assert float(decided) <= p + 1e-15
        assert p <= float(decided + open_mass) + 1e-15


def test_choice_bounds_enclose():
    choice = entropy.Choice(exponents=CHOICES[2])
    weights = [mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) for x in CHOICES[2]]
    for (low, high), weight in zip(choice.bounds(100), weights, strict=True):
        p = weight / sum(weights)
        assert mpmath.mpf(low.numerator) / low.denominator <= p
        assert p <= mpmath.mpf(high.numerator) / high.denominator
        assert high - low < Fraction(1, 2**95)


def test_choice_needs_weights():
    with pytest.raises(ParameterError, match="exponents"):
        entropy.Choice(exponents=())
    with pytest.raises(ParameterError, match="exponents"):
        entropy.Choice(exponents=(Fraction(-1),))
