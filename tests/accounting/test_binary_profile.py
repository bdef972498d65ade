"""Shuffled binary randomized response over all data sets: the certificate, and the whole curve."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from shuffledp import ParameterError
from shuffledp.accounting import binary
from shuffledp.accounting.base import Batch
from shuffledp.accounting.binary import BinaryResponse, FlipPoint
from shuffledp.accounting.clones import clones_2023
from shuffledp.core.privacy import Profile
from shuffledp.numerics.rounding import exp_bounds


def local(epsilon0):
    return Fraction(1 / (1 + math.exp(epsilon0)))


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
    monkeypatch.setattr(binary, "_first_cells", lambda _: (ends, ends))
    monkeypatch.setattr(binary, "_find_worst", binary._find_worst.__wrapped__)  # remembers nothing
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
    return np.exp(FlipPoint.below(flip, epsilon).logs(s, n - 1 - s))


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
def test_cells_of_many_epsilons_are_an_upper_bound_and_cost_little(n, flip, epsilon):
    epsilons = epsilon * np.array([0.8, 0.0, 1.2])
    for each, found in zip(epsilons, BinaryResponse(n=n, flip=flip).deltas(epsilons), strict=True):
        worst = every_data_set(n, flip, each).max()
        assert worst <= found <= worst * 1.01


WIDE = np.geomspace(1e-3, 1.0, 25)  # of epsilon0


@pytest.mark.parametrize("flip", [Fraction(1, 4), Fraction(1, 50), Fraction(2, 5)])
def test_widely_spread_epsilons_are_those_of_every_data_set(flip):
    """By SciPy's masses and direct convolutions, where the sums of those are good enough."""
    n = 300
    shuffled = BinaryResponse(n=n, flip=flip)
    for epsilon, found in zip(
        WIDE * shuffled.epsilon0, shuffled.deltas(WIDE * shuffled.epsilon0), strict=True
    ):
        worst = brute_force(n, flip, epsilon).max()
        if worst > 1e-12:
            assert worst * (1 - 1e-9) <= found <= worst * (1 + 1e-8)


@pytest.mark.parametrize("flip", [Fraction(1, 4), Fraction(1, 50)])
@pytest.mark.parametrize("n", [5_000, 10**5, 10**6])
def test_widely_spread_epsilons_cost_little(monkeypatch, n, flip):
    """Half a percent of delta on either side; and the number of data sets that are looked at does not grow with n."""
    looked, logs = [], FlipPoint.logs

    def watched(self, ones, zeros):
        looked.append(len(ones))
        return logs(self, ones, zeros)

    monkeypatch.setattr(FlipPoint, "logs", watched)
    shuffled = BinaryResponse(n=n, flip=flip)
    found = shuffled.deltas(WIDE * shuffled.epsilon0)
    assert sum(looked) < 25_000
    for epsilon, delta in zip(WIDE * shuffled.epsilon0, found, strict=True):
        assert shuffled.delta_lower(epsilon) <= delta
        assert delta <= max(shuffled.delta_lower(epsilon) * 1.0101, 1e-300)


@pytest.mark.parametrize("n", [1, 40, 700])
@pytest.mark.parametrize("flip", [Fraction(1, 2**40), Fraction(1, 500), Fraction(1, 4)])
def test_many_epsilons_are_as_exact_as_one(n, flip):
    shuffled = BinaryResponse(n=n, flip=flip)
    shares = np.array([0.3, 0.0, 1.0, 0.01, 0.03, 0.3, 0.7, 1 - 1e-13])
    found = shuffled.deltas(shares * shuffled.epsilon0)
    each = np.array([shuffled.delta(share * shuffled.epsilon0) for share in shares])
    assert found == pytest.approx(each, rel=1e-7, abs=1e-300)
    assert len(shuffled.deltas(np.array([]))) == 0


@pytest.mark.parametrize(("n", "flip", "epsilon"), LARGE)
def test_the_cells_cover_every_data_set(n, flip, epsilon):
    point = FlipPoint.above(flip, epsilon)
    lo, hi, *_ = binary._find_cells(point, n)
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
    assert isinstance(BinaryResponse(n=3, flip=Fraction(1, 4)), Batch)


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
    monkeypatch.setattr(BinaryResponse, "_solve_for_worst", lambda _, guess, __: guess / 2)
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


@pytest.mark.parametrize("n", [10**12, 2**52])
def test_as_many_users_as_are_allowed(n):
    """So many are Gaussian; rounding and cells add little."""
    shuffled = BinaryResponse(n=n, flip=Fraction(1, 4))
    for z in (0.0, 1.0, 6.0):
        tail, density = (
            math.erfc(z / math.sqrt(2)) / 2,
            math.exp(-z * z / 2) / math.sqrt(2 * math.pi),
        )
        gaussian = shuffled._mu * (density - z * tail)  # in the limit of small mu
        epsilon = z * shuffled._mu
        assert shuffled.delta_lower(epsilon) <= shuffled.delta(epsilon)
        assert shuffled.delta_lower(epsilon) == pytest.approx(gaussian, rel=1e-3)
        assert shuffled.delta(epsilon) == pytest.approx(gaussian, rel=7e-3)


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


def test_a_float_is_taken_for_what_it_is():
    exact = BinaryResponse(n=50, flip=Fraction(0.1))
    assert BinaryResponse(n=50, flip=0.1) == exact
    assert BinaryResponse(n=50, flip=0.1).delta(1.0) == exact.delta(1.0)


@pytest.mark.parametrize(("n", "epsilon", "delta"), [(500, 0.2, 1e-5), (5000, 0.03, 1e-8)])
def test_the_worst_cells_say_which_epsilon0_is_the_largest(n, epsilon, delta):
    epsilon0 = binary.gaussian_epsilon0(n=n, epsilon=epsilon, delta=delta)
    for _ in range(4):
        epsilon0 = BinaryResponse(n=n, flip=local(epsilon0)).improve_epsilon0(epsilon, delta)
    assert BinaryResponse(n=n, flip=local(0.999 * epsilon0)).delta(epsilon) <= delta
    assert BinaryResponse(n=n, flip=local(1.001 * epsilon0)).delta_lower(epsilon) > delta
