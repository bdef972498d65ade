"""Shares of discrete Laplace noise: the mixture, the sampler, and what they add up to."""

from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare, dlaplace, nbinom

from branches import add_up
from shuffledp import ParameterError, SeededWords
from shuffledp.protocols.split_and_mix import noise as module
from shuffledp.protocols.split_and_mix.noise import WORDS, NoiseShare, mixture
from shuffledp.testing import enumerate_outcomes
from support import ALPHA, all_tapes


def difference(rate, shape, size):
    """Pr[X - Y = d], d = 0 .. size - 1, from the negative binomial masses themselves."""
    masses = nbinom.pmf(np.arange(2 * size + int(80 / rate)), shape, -np.expm1(-rate))
    return np.array([masses[: len(masses) - d] @ masses[d:] for d in range(size)])


@pytest.mark.parametrize(
    ("rate", "shape"),
    [
        (1.0, 0.5),
        (0.02, 0.3),
        (0.5, 1 / 3),
        (3.0, 0.01),
        (0.1, 1e-6),
        (0.1, 0.999),
        (0.05, 0.9),
        (1.0, 1.0),
    ],
)
def test_mixture_is_the_difference_of_negative_binomials(rate, shape):
    found = [mixture(rate, shape).mass(d) for d in range(40)]
    np.testing.assert_allclose(found, difference(rate, shape, 40), rtol=1e-12, atol=1e-15)


def exact_mass(rate, s, d):
    """Pr[X - Y = d] with 40 digits: (1 - a)^(2s) a^d (s)_d / d! 2F1(s, s + d; d + 1; a^2)."""
    a = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
    sum_ = mpmath.hyp2f1(s, s + d, d + 1, a * a)
    return (1 - a) ** (2 * s) * a**d * mpmath.rf(s, d) / mpmath.factorial(d) * sum_


@pytest.mark.parametrize(
    ("rate", "parts"),
    [
        (Fraction(1), 2),
        (Fraction(1), 1),
        (Fraction(1, 50), 3),
        (Fraction(1, 1000), 10**6),
        (Fraction(7, 2), 10**9),
        (Fraction(1, 3000), 7),
    ],
)
def test_the_table_that_is_sampled_has_19_digits(rate, parts):
    places, chances = module._tabulate(rate, parts)
    with mpmath.workdps(40):
        a = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
        t = [a / (1 + mpmath.exp(-mpmath.mpf(u))) for u in places]
        chance = [mpmath.mpf(each) / mpmath.mpf(10) ** 60 for each in chances]
        for d in (1, 2, 5, 40, 300):
            found = mpmath.fsum(c * (1 - x) * x ** (d - 1) for c, x in zip(chance, t, strict=True))
            exact = exact_mass(rate, 1 / mpmath.mpf(parts), d)
            assert abs(found / exact - 1) < module._TABLE_ERROR


@pytest.mark.parametrize(("rate", "shape"), [(1.0, 0.5), (0.001, 0.9), (0.02, 1e-6), (3.0, 0.99)])
def test_floats_are_as_exact_as_they_say(rate, shape):
    noise = mixture(rate, shape)
    with mpmath.workdps(40):
        for d in (1, 2, 30, 500):
            exact = exact_mass(Fraction(rate), mpmath.mpf(shape), d)
            if exact > 1e-250:
                assert abs(noise.mass(d) / exact - 1) < module._FLOAT_ERROR / 3


@pytest.mark.parametrize(("rate", "parts", "bits"), [(1, 2, 3), (Fraction(1, 3), 3, 4), (2, 5, 4)])
def test_draw_follows_its_law_on_every_tape(rate, parts, bits):
    share = NoiseShare(rate=Fraction(rate), parts=parts, word_bits=bits)
    tapes = all_tapes(bits, WORDS)
    rare, values = share.draw(tapes)
    seen = Counter(values.tolist())
    seen[0] = len(tapes) - len(rare)
    exact = {d: mass for d, mass in share.law().items() if mass}
    assert sum(exact.values()) == 1
    assert {d: Fraction(count, len(tapes)) for d, count in seen.items() if count} == exact


@pytest.mark.parametrize(("bits", "users"), [(1, 1), (1, 2), (2, 1), (3, 1)])
def test_dealing_has_the_law_of_the_sum(bits, users):
    share = NoiseShare(rate=Fraction(1, 2), parts=2, word_bits=bits)
    one = {(d,): mass for d, mass in share.law().items() if mass}
    dealt = enumerate_outcomes(lambda source: (share.deal(users, source),))
    assert dealt == add_up([one] * users)


@pytest.mark.parametrize(
    "rate", [Fraction(1, 1 << 22), Fraction(1, 1000), Fraction(1), Fraction(9)]
)
@pytest.mark.parametrize("parts", [1, 2, 1000, 10**9])
def test_no_share_is_negative(rate, parts):
    """Few words for hundreds of places."""
    for bits in (1, 2, 3, 5, 8, 13, 64):
        share = NoiseShare(rate=rate, parts=parts, word_bits=bits)
        assert min(share.shares) > 0
        assert sum(share.shares) == 1 << bits
        assert 0 < 2 * share.threshold <= 1 << bits


@pytest.mark.parametrize(
    ("rate", "parts", "bits"), [(1, 2, 10), (Fraction(1, 2), 7, 12), (2, 100, 12)]
)
def test_distance_is_bounded(rate, parts, bits):
    share = NoiseShare(rate=Fraction(rate), parts=parts, word_bits=bits)
    law = share.law()
    ideal = mixture(float(rate), 1 / parts)
    span = range(-max(law) - 50, max(law) + 51)
    distance = sum(abs(float(law.get(d, 0)) - ideal.mass(d)) for d in span) / 2
    assert 0 < distance <= share.distance < 1


def binned(values, last):
    return np.bincount(np.clip(values, -last, last) + last, minlength=2 * last + 1)


def laplace_masses(rate, last):
    masses = dlaplace.pmf(np.arange(-last, last + 1), rate)
    masses[[0, -1]] += dlaplace.sf(last, rate)
    return masses


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.15, False)])
def test_all_shares_drawn_make_discrete_laplace_noise(factor, right):
    """Each of 10 people draws 3000 shares; a wrong rate must not pass."""
    share = NoiseShare(rate=Fraction(1, 2), parts=10)
    sums = np.zeros(30_000, dtype=np.int64)
    rare, values = share.draw(SeededWords(1).words(30_000 * WORDS).reshape(-1, WORDS))
    sums[rare] = values
    seen = binned(sums.reshape(10, 3000).sum(axis=0), 8)
    p = chisquare(seen, 3000 * laplace_masses(0.5 * factor, 8)).pvalue
    assert (p > ALPHA) == right


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.15, False)])
def test_dealt_total_is_discrete_laplace_noise(factor, right):
    share = NoiseShare(rate=Fraction(1, 2), parts=1000)
    source = SeededWords(3)
    seen = binned(np.array([share.deal(1000, source) for _ in range(4000)]), 8)
    p = chisquare(seen, 4000 * laplace_masses(0.5 * factor, 8)).pvalue
    assert (p > ALPHA) == right


def test_slow_decay_is_refused():
    with pytest.raises(ParameterError, match="rate"):
        NoiseShare(rate=Fraction(1, 1 << 23), parts=10)


@pytest.mark.parametrize(
    ("bits", "distance"),
    [(8, 0.8597412109383599), (12, 0.05356834828858965), (16, 0.003346935782250221)],
)
def test_the_distance_counts_the_rounding_of_places_and_of_tails(bits, distance):
    """Of short words, where each term can be seen."""
    share = NoiseShare(rate=Fraction(1, 2), parts=3, word_bits=bits)
    assert share.distance == pytest.approx(distance, rel=1e-9)
