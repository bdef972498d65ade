"""Tables of shares of noise: their law, and how far it is from the ideal one."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from branches import add_up
from shuffledp.core.errors import UnsupportedError
from shuffledp.numerics import tabulated
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.intervals import Difference, DiscreteLaplace
from shuffledp.numerics.tabulated import logarithmic, negative_binomial, poisson
from shuffledp.testing import enumerate_outcomes
from support import all_tapes

mpmath.mp.dps = 60


def ideal_negative_binomial(k, r, p):
    r, p = (mpmath.mpf(x.numerator) / x.denominator for x in (r, p))
    return mpmath.binomial(k + r - 1, k) * (1 - p) ** r * p**k


def ideal_poisson(k, mean):
    mean = mpmath.mpf(mean.numerator) / mean.denominator
    return mpmath.exp(-mean) * mean**k / mpmath.factorial(k)


def distance(law, ideal, longest):
    off = mpmath.mpf(0)
    covered = mpmath.mpf(0)
    for k in range(longest):
        mass = law.get(k, Fraction(0))
        wanted = ideal(k)
        covered += wanted
        off += abs(mpmath.mpf(mass.numerator) / mass.denominator - wanted)
    return (off + 1 - covered) / 2


@pytest.mark.parametrize("bits", [5, 16, 64])
@pytest.mark.parametrize(
    ("r", "p"), [(Fraction(1, 10**6), 0.4), (Fraction(16, 1000), 0.9), (Fraction(5, 2), 0.7)]
)
def test_negative_binomial_is_as_near_as_it_says(r, p, bits):
    table = negative_binomial(r, Fraction(p), bits)
    size = table.size
    off = distance(table.law(), lambda k: ideal_negative_binomial(k, size, Fraction(p)), 900)
    assert float(off) <= table.distance * (1 + 1e-9) + 1e-40
    assert table.distance <= float(off) * 3 + 1e-15
    assert sum(table.law().values()) == 1
    assert size >= r or table.threshold is None
    assert bits < 64 or table.distance < 1e-16


@pytest.mark.parametrize("bits", [5, 64])
@pytest.mark.parametrize("mean", [Fraction(1, 500), Fraction(1, 2), Fraction(50)])
def test_poisson_is_as_near_as_it_says(mean, bits):
    table = poisson(mean, bits)
    off = distance(table.law(), lambda k: ideal_poisson(k, table.size), 300)
    assert float(off) <= table.distance * (1 + 1e-9) + 1e-40
    assert bits < 64 or table.distance < 1e-16


@pytest.mark.parametrize("mean", [Fraction(1_000), Fraction(10**9)])
def test_a_mean_beyond_the_table_is_refused_at_once(mean):
    with pytest.raises(UnsupportedError, match="too few users"):
        poisson(mean, 64)


def test_cut_poisson_counts_what_was_cut():
    table = poisson(Fraction(1), 64, most=3)
    off = distance(table.law(), lambda k: ideal_poisson(k, table.size), 100)
    assert table.largest == 3
    assert float(off) <= table.distance <= float(off) * 1.5
    assert float(off) > 0.01


@pytest.mark.parametrize(
    "table",
    [
        negative_binomial(Fraction(1, 3), Fraction(1, 2), 5),
        negative_binomial(Fraction(2), Fraction(1, 2), 6),
        poisson(Fraction(1, 3), 4),
        poisson(Fraction(1, 9), 4, most=1),
        logarithmic(Fraction(2, 3), 6),
    ],
)
def test_every_tape_gives_the_declared_law(table):
    tapes = all_tapes(table.bits, table.words)
    who, values = table.draw(tapes)
    drawn = np.zeros(len(tapes), dtype=np.int64)
    drawn[who] = values
    seen = {
        int(v): Fraction(int(c), len(tapes))
        for v, c in zip(*np.unique(drawn, return_counts=True), strict=True)
    }
    assert seen == {value: mass for value, mass in table.law().items() if mass}
    assert table.moment(2) == sum(value**2 * mass for value, mass in seen.items())


@pytest.mark.parametrize(
    ("table", "n"),
    [
        (negative_binomial(Fraction(1, 3), Fraction(1, 2), 3), 2),
        (negative_binomial(Fraction(2), Fraction(1, 2), 4), 3),
        (poisson(Fraction(1, 3), 3), 2),
        (poisson(Fraction(1, 9), 4, most=1), 3),
        (logarithmic(Fraction(2, 3), 4), 3),
    ],
)
def test_dealing_has_the_law_of_n_draws(table, n):
    one = {
        tuple(int(k == value) for k in range(table.largest + 1)): mass
        for value, mass in table.law().items()
        if mass
    }
    dealt = enumerate_outcomes(lambda source: tuple(table.deal(n, source).tolist()))
    assert dealt == add_up([one] * n)


@pytest.mark.parametrize("rate", [0.05, 0.9, 3.0])
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-9])
def test_difference_of_geometrics_is_discrete_laplace(rate, beta):
    exact = DiscreteLaplace(rate=Fraction(rate))
    ours = Difference(r=1.0, p=float(np.exp(-rate)))
    assert ours.radius(beta) == exact.radius(Fraction(beta))
    assert ours.tail(4) == pytest.approx(float(exact.tail(4)[1]), rel=1e-7)
    assert ours.variance == pytest.approx(exact.variance)


@pytest.mark.parametrize("p", [Fraction(0.9999), 1 - Fraction(1, 10**6), 1 - Fraction(1, 10**18)])
def test_what_is_refused_at_once_would_be_refused_in_the_end(p, monkeypatch):
    monkeypatch.setattr(tabulated, "_LONGEST", 1 << 12)
    with pytest.raises(UnsupportedError, match="too long"):
        tabulated._weights(tabulated._negative_binomial_step(Fraction(0), p), p, 1, 8, 1 << 12)
    with pytest.raises(UnsupportedError, match="too long"):
        tabulated._check_length(p, -math.log(1 - p) / float(p), 8)


@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 2), Fraction(0.98), Fraction(0.99)])
def test_what_fits_is_not_refused(p, monkeypatch):
    monkeypatch.setattr(tabulated, "_LONGEST", 1 << 12)
    step = tabulated._negative_binomial_step(Fraction(0), p)
    weights, _ = tabulated._weights(step, p, 1, 8, 1 << 12)
    assert len(weights) < 1 << 12
    tabulated._check_length(p, -math.log(1 - p) / float(p), 8)


@pytest.mark.parametrize("r", [Fraction(1, 100), Fraction(3)])
def test_a_simulation_counts_everybody_once(r):
    table = negative_binomial(r, Fraction(1, 2), 64)
    assert table.deal(1000, SeededWords(1)).sum() == 1000
