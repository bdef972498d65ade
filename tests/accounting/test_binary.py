"""Shuffled binary randomized response: enumeration, 50 digits, published values, and the certificate."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from shuffledp import ParameterError, UnsupportedError
from shuffledp.accounting import binary
from shuffledp.accounting.binary import BinaryResponse
from shuffledp.accounting.clones import clones_2023
from shuffledp.core.privacy import Profile
from shuffledp.numerics.binomials import Binomials
from shuffledp.numerics.rounding import exp_bounds

mpmath.mp.dps = 50


def local(epsilon0):
    return Fraction(1 / (1 + math.exp(epsilon0)))


# --- from the definition ------------------------------------------------------------------------


def count_law(bits, flip):
    """The law of the number of ones that are sent, from the definition, one user at a time."""
    law = [Fraction(1)]
    for bit in bits:
        one = 1 - flip if bit else flip
        law = [
            one * before + (1 - one) * here
            for before, here in zip([Fraction(0), *law], [*law, Fraction(0)], strict=True)
        ]
    return law


def hockey_stick(P, Q, E):
    return sum(max(p - E * q, 0) for p, q in zip(P, Q, strict=True))


def enumerated(ones, zeros, flip, E):
    """(1 against 0, 0 against 1), as Fractions."""
    others = [1] * ones + [0] * zeros
    P, Q = count_law([1, *others], flip), count_law([0, *others], flip)
    return hockey_stick(P, Q, E), hockey_stick(Q, P, E)


@pytest.mark.parametrize("flip", [Fraction(1, 100), Fraction(1, 5), Fraction(2, 5)])
@pytest.mark.parametrize("E", [Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(3)])
def test_one_more_user_never_hurts(flip, E):
    """The lemma of the certificate: delta(ones, zeros) does not increase in either argument."""
    size = 7
    table = [[enumerated(o, z, flip, E) for z in range(size)] for o in range(size)]
    for o in range(size):
        for z in range(size):
            assert table[o][z] == table[z][o][::-1]
            for more in (table[min(o + 1, size - 1)][z], table[o][min(z + 1, size - 1)]):
                assert more[0] <= table[o][z][0]
                assert more[1] <= table[o][z][1]


def test_the_best_composition_is_not_monotone():
    """Why a certificate is needed: along s, at fixed n, delta goes up and down."""
    deltas = [enumerated(s, 11 - s, Fraction(1, 20), Fraction(5, 4))[0] for s in range(12)]
    assert deltas != sorted(deltas)
    assert deltas != sorted(deltas, reverse=True)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 12),
    top=st.integers(1, 2**15 - 1),
    share=st.floats(0, 1.05, allow_nan=False),
)
def test_small_n_is_exact(n, top, share):
    flip = Fraction(top, 2**16)
    shuffled = BinaryResponse(n=n, flip=flip)
    epsilon = share * shuffled.epsilon0
    low, high = exp_bounds(epsilon, 60)
    # e^epsilon rounded either way: the true delta is between these two.
    above = max(max(enumerated(s, n - 1 - s, flip, low)) for s in range(n))
    below = max(max(enumerated(s, n - 1 - s, flip, high)) for s in range(n))
    found = shuffled.delta(epsilon)
    assert Fraction(found) >= below
    assert found <= max(float(above) * (1 + 1e-9), 1e-300)
    assert Fraction(shuffled.delta_lower(epsilon)) <= above
    assert shuffled.delta_lower(epsilon) >= float(below) * (1 - 1e-9) - 1e-60


@settings(max_examples=60, deadline=None)
@given(
    ones=st.integers(0, 9),
    zeros=st.integers(0, 9),
    top=st.integers(1, 2**15 - 1),
    share=st.floats(0, 0.999, allow_nan=False),
)
def test_each_direction_of_each_data_set(ones, zeros, top, share):
    flip = Fraction(top, 2**16)
    shuffled = BinaryResponse(n=ones + zeros + 1, flip=flip)
    low, high = exp_bounds(share * shuffled.epsilon0, 60)
    found = shuffled.directions_at(ones, zeros, share * shuffled.epsilon0)
    above, below = enumerated(ones, zeros, flip, low), enumerated(ones, zeros, flip, high)
    for value, most, least in zip(found, above, below, strict=True):
        assert Fraction(value) >= least
        assert value <= max(float(most) * (1 + 1e-9), 1e-300)
    assert shuffled.delta_at(ones, zeros, share * shuffled.epsilon0) == max(found)


# --- published and high-precision values --------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "flip", "s", "epsilon", "first", "second"),
    [
        (100, Fraction(1, 10), 0, 0.5, 1.32226119908e-3, 9.79843353081e-3),
        (100, Fraction(1, 10), 50, 0.5, 3.33876140267e-3, 3.42072623131e-3),
        (300, Fraction(1, 20), 0, 1.0, 5.46584389466e-11, 1.51411105558e-4),
    ],
)
def test_known_values(n, flip, s, epsilon, first, second):
    found = BinaryResponse(n=n, flip=flip).directions_at(s, n - 1 - s, epsilon)
    assert found == pytest.approx((first, second), rel=2e-10)


@pytest.mark.parametrize(
    ("n", "epsilon0", "epsilon", "digit"),
    [
        (10**3, 0.5, 0.05685, 1e-5),
        (10**3, 1.0, 0.12661, 1e-5),
        (10**3, 4.0, 1.6910, 1e-4),
        (10**4, 1.0, 0.03566, 1e-5),
        (10**5, 2.0, 0.02466, 1e-5),
        (10**6, 1.0, 0.002849, 1e-6),
        (10**7, 1.0, 0.000779, 1e-6),
    ],
)
def test_all_others_equal(n, epsilon0, epsilon, digit):
    """epsilon at delta = 1e-6 of the one data set in which everybody else holds the same bit."""
    shuffled = BinaryResponse(n=n, flip=local(epsilon0))
    assert shuffled.delta_at(0, n - 1, epsilon + digit / 2) <= 1e-6
    assert shuffled.delta_at(0, n - 1, epsilon - digit / 2) >= 1e-6


def precise(ones, zeros, flip, epsilon):
    """1 against 0 in 50 digits, the terms near the decision summed one by one."""
    f = mpmath.mpf(flip.numerator) / flip.denominator
    E = mpmath.exp(epsilon)
    A, B = 1 - f - E * f, E * (1 - f) - f

    def masses(trials, p):
        row = [(1 - p) ** trials]
        for j in range(trials):
            row.append(row[-1] * (trials - j) / (j + 1) * p / (1 - p))
        return row

    a, b = masses(ones, 1 - f), masses(zeros, f)

    def h(c):
        return mpmath.fsum(a[i] * b[c - i] for i in range(max(0, c - zeros), min(ones, c) + 1))

    total, best, before = mpmath.mpf(0), mpmath.mpf(0), h(ones + zeros)
    for c in range(ones + zeros, -1, -1):  # from the top: sums of positive terms until they end
        after = before if c == ones + zeros else h(c + 1)
        here = before if c == ones + zeros else h(c)
        term = A * here - B * (after if c < ones + zeros else 0)
        if term <= 0 and total > 0:
            break
        total += max(term, 0)
        best = max(best, total)
    return best


@pytest.mark.parametrize(
    ("ones", "zeros", "flip", "epsilon"),
    [
        (20, 200, Fraction(1, 3), 0.3),
        (150, 60, Fraction(1, 50), 2.0),
        (3, 250, Fraction(1, 4), 0.9),
        (100, 100, Fraction(49, 100), 0.03),
        (40, 40, Fraction(1, 10), 2.19),  # epsilon0 is 2.197
        (120, 0, Fraction(1, 10), 0.0),
    ],
)
def test_fifty_digits(ones, zeros, flip, epsilon):
    exact = precise(ones, zeros, flip, epsilon)
    found = BinaryResponse(n=ones + zeros + 1, flip=flip).directions_at(ones, zeros, epsilon)[0]
    assert exact <= found <= exact * (1 + 1e-9)


def all_equal_precise(n, flip, epsilon):
    """0 against 1 if all others hold 0, n of any size: a tail of Bin(n - 1, flip) in 50 digits."""
    N, f, E = n - 1, mpmath.mpf(flip.numerator) / flip.denominator, mpmath.exp(epsilon)
    A, B = 1 - f - E * f, E * (1 - f) - f
    odds = f / (1 - f)
    # h(c - 1) / h(c) = c / (N - c + 1) / odds < A / B: the others send few ones.
    k = int(mpmath.floor((N + 1) * A * odds / (B + A * odds)))
    mass = mpmath.exp(
        mpmath.loggamma(N + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(N - k + 1)
    ) * (f**k * (1 - f) ** (N - k))
    total, largest = mpmath.mpf(0), mass
    while k >= 0 and mass > largest * mpmath.mpf(10) ** -25:
        before = mass * k / (N - k + 1) / odds
        total += A * mass - B * before
        mass, k = before, k - 1
    return total


@pytest.mark.parametrize(
    ("n", "flip", "epsilon"),
    [
        (10**6, Fraction(1, 4), 0.003),
        (10**7, Fraction(1, 3), 0.0005),
        (10**9, Fraction(1, 10**7), 0.7),
        (2**52, Fraction(1, 2**46), 1.0),
        (10**6, Fraction(1, 4), 0.03),  # delta is about 1e-125
    ],
)
def test_hard_points(n, flip, epsilon):
    exact = all_equal_precise(n, flip, epsilon)
    found = BinaryResponse(n=n, flip=flip).directions_at(0, n - 1, epsilon)[1]
    assert exact <= found <= exact * (1 + 1e-6)


# --- all data sets ------------------------------------------------------------------------------


def brute_force(n, flip, epsilon):
    """1 against 0 for every s, by SciPy's masses and a direct convolution."""
    f, E = float(flip), math.exp(epsilon)
    A, B = 1 - f - E * f, E * (1 - f) - f
    deltas = []
    for s in range(n):
        h = np.convolve(
            binom.pmf(np.arange(s + 1), s, 1 - f), binom.pmf(np.arange(n - s), n - 1 - s, f)
        )
        deltas.append(np.maximum(A * h - B * np.append(h[1:], 0.0), 0.0).sum())
    return np.array(deltas)


FACTS = [
    (25, Fraction(5, 100), 0.2, 1.22),
    (244, Fraction(1, 100), 0.9, 1.10),
    (585, Fraction(5, 100), 1.9, 1.04),
]


def check_against_brute_force(found, worst):
    assert found >= worst * (1 - 1e-9)
    assert found <= worst * (1 + 1e-8)


@pytest.mark.parametrize(("n", "flip", "epsilon", "excess"), FACTS)
def test_the_worst_data_set_is_not_all_equal(n, flip, epsilon, excess):
    deltas = brute_force(n, flip, epsilon)
    shuffled = BinaryResponse(n=n, flip=flip)
    check_against_brute_force(shuffled.delta(epsilon), deltas.max())
    assert shuffled.delta_lower(epsilon) == pytest.approx(deltas.max(), rel=1e-8)
    assert shuffled.delta_at(0, n - 1, epsilon) == pytest.approx(max(deltas[[0, -1]]), rel=1e-8)
    assert deltas.max() / max(deltas[[0, -1]]) == pytest.approx(excess, abs=0.006)


@pytest.mark.parametrize(("n", "flip", "epsilon", "excess"), FACTS)
def test_a_mutant_that_trusts_all_equal_is_caught(monkeypatch, n, flip, epsilon, excess):
    ends = np.array([0.0, n - 1.0])
    monkeypatch.setattr(binary, "_cells", lambda *_: (ends, ends))
    worst = brute_force(n, flip, epsilon).max()
    with pytest.raises(AssertionError):
        check_against_brute_force(BinaryResponse(n=n, flip=flip).delta(epsilon), worst)


LARGE = [
    (2001, Fraction(1, 4), 0.1),
    (3000, Fraction(1, 100), 0.8),
    (10_000, local(1.0), 0.0357),
    (10_000, Fraction(34, 10_000), 1.0),
    (10_000, Fraction(1, 10_000), 2.0),
]


@pytest.mark.parametrize(
    ("ones", "zeros", "flip", "epsilon"),
    [
        (10_000, 10_000, Fraction(1, 4), 0.03),
        (2_000, 15_000, Fraction(2, 5), 0.01),
        (15_000, 2_000, Fraction(1, 50), 0.3),
    ],
)
def test_large_windows(ones, zeros, flip, epsilon):
    f, E = float(flip), math.exp(epsilon)
    h = np.convolve(
        binom.pmf(np.arange(ones + 1), ones, 1 - f), binom.pmf(np.arange(zeros + 1), zeros, f)
    )
    exact = np.maximum((1 - f - E * f) * h - (E * (1 - f) - f) * np.append(h[1:], 0.0), 0.0).sum()
    shuffled = BinaryResponse(n=ones + zeros + 1, flip=flip)
    assert shuffled.directions_at(ones, zeros, epsilon)[0] == pytest.approx(exact, rel=1e-8)


def every_data_set(n, flip, epsilon):
    """delta for every s, by the kernel that the tests above compare with 50 digits."""
    s = np.arange(n)
    return np.exp(binary._Point.below(flip, epsilon).logs(s, n - 1 - s))


@pytest.mark.parametrize(("n", "flip", "epsilon"), LARGE)
def test_cells_are_an_upper_bound_and_cost_little(n, flip, epsilon):
    worst = every_data_set(n, flip, epsilon).max()
    shuffled = BinaryResponse(n=n, flip=flip)
    assert worst <= shuffled.delta(epsilon) <= worst * 1.01
    assert shuffled.delta_lower(epsilon) <= worst * (1 + 1e-9)
    assert shuffled.delta_lower(epsilon) >= worst * 0.99
    # and in epsilon: a thousandth less is not private at that delta
    assert every_data_set(n, flip, shuffled.epsilon(1e-6) * 0.999).max() > 1e-6


@pytest.mark.parametrize(("n", "flip", "epsilon"), LARGE)
def test_the_cells_cover_every_data_set(n, flip, epsilon):
    point = binary._Point.above(flip, epsilon)
    lo, hi, _ = BinaryResponse(n=n, flip=flip)._cells(point, epsilon)
    order = np.argsort(lo)
    lo, hi = lo[order], hi[order]
    assert lo[0] == 0
    assert hi[-1] == n - 1
    assert np.array_equal(lo[1:], hi[:-1] + 1)
    assert np.all(lo <= hi)
    assert len(lo) < n


@pytest.mark.parametrize(
    ("n", "epsilon0"), [(10, 1.0), (1000, 0.5), (1000, 4.0), (10**4, 1.0), (10**5, 2.0)]
)
@pytest.mark.parametrize("delta", [1e-4, 1e-8])
def test_never_worse_than_clones(n, epsilon0, delta):
    """The pair of stronger clones dominates every randomizer, this one too."""
    shuffled = BinaryResponse(n=n, flip=local(epsilon0))
    generic = clones_2023(epsilon0=epsilon0, n=n).epsilon(delta)
    assert shuffled.epsilon(delta) <= generic * (1 + 1e-5)


def test_a_million_users():
    shuffled = BinaryResponse(n=10**6, flip=local(1.0))
    epsilon = shuffled.epsilon(1e-6)
    assert epsilon == pytest.approx(0.002849, rel=1e-3)
    assert shuffled.delta(epsilon) <= 1e-6 <= shuffled.delta_lower(epsilon * 0.999)


def test_the_limit_of_rare_flips():
    """n flip fixed and n large: all equal is still not the worst, by up to 2 % as epsilon varies."""
    n, epsilon = 10**9, 1.0433446
    shuffled = BinaryResponse(n=n, flip=Fraction(34, n))
    equal, worst = shuffled.delta_at(0, n - 1, epsilon), shuffled.delta_lower(epsilon)
    assert worst / equal > 1.019
    assert worst < shuffled.delta(epsilon) < 1.006 * worst


# --- the curve ----------------------------------------------------------------------------------


def test_it_is_a_profile():
    assert isinstance(BinaryResponse(n=3, flip=Fraction(1, 4)), Profile)


@pytest.mark.parametrize("n", [1, 2, 50, 1500, 20_000])
@pytest.mark.parametrize("flip", [Fraction(1, 1000), Fraction(1, 4), Fraction(499, 1000)])
def test_epsilon_inverts_delta(n, flip):
    shuffled = BinaryResponse(n=n, flip=flip)
    previous = math.inf
    for delta in (1e-300, 1e-12, 1e-6, 1e-2):
        epsilon = shuffled.epsilon(delta)
        assert shuffled.delta(epsilon) <= delta
        assert 0 <= epsilon <= previous
        if epsilon > 0:
            assert shuffled.delta(epsilon * (1 - 2e-6)) > delta * (1 - 0.02 * (n > 2000))
        previous = epsilon


def test_epsilon_is_safe_even_if_the_worst_cells_mislead(monkeypatch):
    shuffled = BinaryResponse(n=5000, flip=Fraction(1, 4))
    expected = shuffled.epsilon(1e-6)
    monkeypatch.setattr(BinaryResponse, "_solve_for_worst", lambda self, guess, _: guess / 2)
    assert shuffled.delta(shuffled.epsilon(1e-6)) <= 1e-6
    assert shuffled.epsilon(1e-6) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("n", [30, 900])
def test_delta_falls_with_epsilon(n):
    shuffled = BinaryResponse(n=n, flip=Fraction(1, 5))
    deltas = [shuffled.delta(epsilon) for epsilon in np.linspace(0, 1.5, 40)]
    assert all(later < earlier or later in (0, 1e-300) for earlier, later in pairwise(deltas))


def test_delta_falls_with_n():
    sizes = (1, 2, 3, 10, 50, 51, 300, 2000, 2100, 5000, 20_000)
    deltas = [BinaryResponse(n=n, flip=Fraction(1, 5)).delta(0.05) for n in sizes]
    assert deltas == sorted(deltas, reverse=True)


def test_one_user_alone():
    flip = Fraction(1, 4)
    shuffled = BinaryResponse(n=1, flip=flip)
    low, high = exp_bounds(0.5)
    assert 1 - flip - high * flip <= shuffled.delta(0.5)
    assert shuffled.delta(0.5) <= float(1 - flip - low * flip) * (1 + 1e-10)


@pytest.mark.parametrize("n", [1, 500, 30_000])
@pytest.mark.parametrize("flip", [Fraction(1, 4), Fraction(1, 2**40), Fraction(2**40 - 1, 2**41)])
def test_extremes(n, flip):
    shuffled = BinaryResponse(n=n, flip=flip)
    assert shuffled.delta(shuffled.epsilon0) == 0
    assert shuffled.delta(1e6) == shuffled.delta_lower(1e6) == 0
    assert shuffled.directions_at(0, 0, 1e6) == (0, 0)
    just_below = shuffled.epsilon0 * (1 - 1e-13)
    assert 0 < shuffled.delta(just_below) < 1e-11
    assert shuffled.delta_lower(0.0) <= shuffled.delta(0.0) <= float(1 - 2 * flip) * (1 + 1e-9)
    assert shuffled.delta_lower(0.0) >= shuffled.delta(0.0) * 0.98


def test_too_many_users():
    with pytest.raises(UnsupportedError, match="n=1000000000000 users are too many"):
        BinaryResponse(n=10**12, flip=Fraction(1, 4))


@pytest.mark.parametrize("flip", [Fraction(0), Fraction(1, 2), Fraction(3, 4), Fraction(-1, 4)])
def test_bad_flip(flip):
    with pytest.raises(ParameterError, match="flip"):
        BinaryResponse(n=3, flip=flip)


def test_bad_arguments():
    with pytest.raises(ParameterError, match="n=0"):
        BinaryResponse(n=0, flip=Fraction(1, 4))
    shuffled = BinaryResponse(n=3, flip=Fraction(1, 4))
    for epsilon in (-1.0, math.nan, math.inf, "1"):
        with pytest.raises(ParameterError, match="epsilon"):
            shuffled.delta(epsilon)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="delta"):
            shuffled.epsilon(delta)
    with pytest.raises(ParameterError, match="ones"):
        shuffled.delta_at(3, 0, 1.0)
    with pytest.raises(ParameterError, match="zeros"):
        shuffled.delta_at(1, 2, 1.0)


# --- the window of masses -----------------------------------------------------------------------


@pytest.mark.parametrize("trials", [0, 1, 17, 1000, 10**7, 10**12])
@pytest.mark.parametrize("odds", [1e-12, 0.01, 0.6, 1.0, 7.0, 1e9])
def test_masses(trials, odds):
    law = Binomials(trials=np.array([float(trials)]), odds=np.array([odds]))
    at = law.mode
    found = law.masses(at, 6, 6)[:, 0]
    for i, value in enumerate(found):
        k = int(at[0]) + i - 6
        if not 0 <= k <= trials:
            assert value == 0
            continue
        exact = mpmath.exp(
            mpmath.loggamma(trials + 1)
            - mpmath.loggamma(k + 1)
            - mpmath.loggamma(trials - k + 1)
            + k * mpmath.log(odds)
            - trials * mpmath.log1p(mpmath.mpf(odds))
        )
        assert abs(value / exact - 1) < 1e-12


def test_what_is_beyond_a_window():
    law = Binomials(trials=np.array([400.0]), odds=np.array([0.25]))
    at = np.array([120.0])
    bound = law.beyond(at, binom.pmf(at, 400, 0.2), 1)[0]
    assert binom.sf(120, 400, 0.2) <= bound <= 1.2 * binom.sf(120, 400, 0.2)
    at = np.array([40.0])
    bound = law.beyond(at, binom.pmf(at, 400, 0.2), -1)[0]
    assert binom.cdf(39, 400, 0.2) <= bound <= 1.2 * binom.cdf(39, 400, 0.2)
