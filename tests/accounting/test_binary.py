"""Shuffled binary randomized response, one data set at a time: enumeration, 50 digits, published values."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp.accounting import binary
from shuffledp.accounting.binary import BinaryResponse, FlipPoint, _Laws
from shuffledp.numerics.rounding import exp_bounds

mpmath.mp.dps = 60


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


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 9),
    top=st.integers(1, 2**15 - 1),
    shares=st.lists(st.floats(0, 1.05, allow_nan=False), min_size=1, max_size=5),
)
def test_many_epsilons_at_once_are_exact(n, top, shares):
    flip = Fraction(top, 2**16)
    shuffled = BinaryResponse(n=n, flip=flip)
    epsilons = np.array(shares) * shuffled.epsilon0
    for epsilon, found in zip(epsilons.tolist(), shuffled.deltas(epsilons).tolist(), strict=True):
        low, high = exp_bounds(epsilon, 60)
        above = max(max(enumerated(s, n - 1 - s, flip, low)) for s in range(n))
        below = max(max(enumerated(s, n - 1 - s, flip, high)) for s in range(n))
        assert Fraction(found) >= below
        assert found <= max(float(above) * (1 + 1e-8), 1e-300)


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


@pytest.mark.parametrize(
    ("ones", "zeros", "flip"),
    [
        (20, 200, Fraction(1, 3)),
        (150, 60, Fraction(1, 50)),
        (40, 40, Fraction(1, 10)),
        (120, 0, Fraction(1, 1000)),
    ],
)
@pytest.mark.parametrize("share", [0, 0.02, 0.1, 0.4, 0.9])
def test_fifty_digits_between_both_sides(ones, zeros, flip, share):
    epsilon = share * math.log((1 - flip) / flip)
    given = np.array([float(ones)]), np.array([float(zeros)])
    exact = mpmath.log(precise(ones, zeros, flip, epsilon))
    above, below = (make(flip, epsilon) for make in (FlipPoint.above, FlipPoint.below))
    assert 0 <= float(above.logs(*given)[0]) - exact <= 1e-9
    assert 0 <= exact - float(below.logs(*given)[0]) <= 1e-9


@pytest.mark.parametrize("flip", [Fraction(1, 4), Fraction(1, 50), Fraction(1, 1000)])
def test_laws_of_different_variance_are_looked_at_together(flip):
    """Each as if it were alone: those who hold a one and those who hold a zero spread differently once tilted."""
    ones = np.array([0.0, 100.0, 700.0, 1500.0, 2000.0, 0.0, 9.0, 50.0])
    zeros = np.array([2000.0, 1900.0, 1300.0, 500.0, 0.0, 600.0, 9.0, 0.0])
    for share in (0.01, 0.05, 0.3):
        point = FlipPoint.above(flip, share * math.log((1 - flip) / flip))
        alone = [point.logs(ones[i : i + 1], zeros[i : i + 1]).item() for i in range(len(ones))]
        told = np.array(alone) > -690
        assert np.abs(point.logs(ones, zeros) - alone)[told].max() < 1e-8


@pytest.mark.parametrize("faded", [1.0, 3.0, 8.0])
def test_what_is_left_out_is_accounted_for(monkeypatch, faded):
    """With e^-1 in place of e^-40 for what is not looked at: bounds are loose, and stay bounds."""
    monkeypatch.setattr(binary, "_FADED", faded)
    monkeypatch.setattr(binary, "_make_grid", binary._make_grid.__wrapped__)  # remembers nothing
    for ones, zeros, flip in (
        (20, 200, Fraction(1, 3)),
        (150, 60, Fraction(1, 50)),
        (0, 400, Fraction(9, 20)),
        (5, 3, Fraction(1, 10)),
    ):
        for share in (0, 0.01, 0.1, 0.6):
            epsilon = share * math.log((1 - flip) / flip)
            given = np.array([float(ones)]), np.array([float(zeros)])
            exact = mpmath.log(precise(ones, zeros, flip, epsilon))
            assert float(FlipPoint.above(flip, epsilon).logs(*given)[0]) >= exact
            assert float(FlipPoint.below(flip, epsilon).logs(*given)[0]) <= exact
            grid = binary._make_grid(FlipPoint.above(flip, epsilon), 8, 9)
            assert grid.fixed >= 8 * math.exp(-faded)


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


def bracketed_precise(ones, zeros, flip, epsilon):
    """1 against 0 for a variance of any size: an integral over the characteristic function, in 40 digits.

    It is taken as a sum with a period of 48 standard deviations, beyond which there is less than e^-250 of the law.
    """
    f, E = mpmath.mpf(flip.numerator) / flip.denominator, mpmath.exp(epsilon)
    A = 1 - f - E * f
    t = 1 + (E - 1) / A
    factors = f + (1 - f) * t, 1 - f + f * t
    p = (1 - f) * t / factors[0], f * t / factors[1]
    users = ones, zeros
    mean = sum(many * each for many, each in zip(users, p, strict=True))
    sd = mpmath.sqrt(sum(many * q * (1 - q) for many, q in zip(users, p, strict=True)))
    last = int(24 * sd) + 20
    step = 2 * mpmath.pi / (2 * last + 10)
    places = [int(mean) + j for j in (-1, 0, 1, 2)]
    sums = [t**-last] * len(places)
    for i in range(1, int(18 / (sd * step))):
        turn = mpmath.expj(i * step)
        cut = (1 - 1 / t) * turn * (turn / t) ** last
        weights = mpmath.conj((1 - turn + cut) / (1 - turn / t))
        phi = sum(many * mpmath.log1p(q * (turn - 1)) for many, q in zip(users, p, strict=True))
        for j, k in enumerate(places):
            sums[j] += 2 * (mpmath.exp(phi - 1j * i * step * k) * weights).real
    scale = A * factors[0] ** ones * factors[1] ** zeros * step / (2 * mpmath.pi)
    return max(scale * t**-k * part for k, part in zip(places, sums, strict=True))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
@pytest.mark.parametrize(
    ("n", "flip", "deviations"),
    [
        (10**9, Fraction(1, 7), 3.0),
        (2**52, Fraction(1, 3), 0.0),
        (2**52, Fraction(1, 3), 5.0),
        (2**52 - 1, Fraction(2_000_001, 4_500_000), 20.0),
    ],
)
def test_variances_of_any_size(n, flip, deviations, share):
    """Up to where the mean itself is no longer known to 1/2."""
    epsilon = deviations * float(1 - 2 * flip) / math.sqrt(n * flip * (1 - flip))
    ones = int(share * (n - 1))
    exact = bracketed_precise(ones, n - 1 - ones, flip, epsilon)
    found = BinaryResponse(n=n, flip=flip).directions_at(ones, n - 1 - ones, epsilon)[0]
    assert exact <= found <= exact * (1 + 1e-3)


class TestRounding:
    """The two factors of delta, each on its side, in 50 digits."""

    CASES = tuple(
        (ones, zeros, flip, share)
        for ones, zeros in ((0, 40), (40, 0), (25, 60), (300, 200), (1, 1500))
        for flip in (Fraction(1, 7), Fraction(2, 5), Fraction(1, 1000))
        for share in (0.01, 0.3, 0.9)
    )

    @staticmethod
    def points(flip, share):
        epsilon = share * math.log((1 - flip) / flip)
        return FlipPoint.above(flip, epsilon), FlipPoint.below(flip, epsilon)

    @staticmethod
    def middle(point, ones, zeros):
        return _Laws.of(point, np.array([float(ones)]), np.array([float(zeros)])).middle

    @staticmethod
    def scale(point, ones, zeros, k):
        given = np.array([float(ones)]), np.array([float(zeros)])
        return float(point._log_scale(*given, k)[0])

    def test_the_bracket(self):
        for ones, zeros, flip, share in self.CASES:
            above, below = self.points(flip, share)
            for point, side in ((above, 1), (below, -1)):
                given = np.array([float(ones)]), np.array([float(zeros)])
                k = self.middle(point, ones, zeros)
                scale = mpmath.mpf(self.scale(point, ones, zeros, k))
                found = mpmath.mpf(float(point.logs(*given)[0])) - scale
                truth = mpmath.log(self.bracket(point, ones, zeros, flip, int(k[0])))
                added = mpmath.mpf(2) ** -52 * abs(scale)  # the sum of both is rounded, too
                assert -added <= side * (found - truth)
                if scale > -690:  # below, deltas are not told from 0
                    assert side * (found - truth) <= 1e-8

    @staticmethod
    def bracket(point, ones, zeros, flip, k):
        """The largest t^(k - c) (g(c) - (1 - 1/t) sum_(d > c) t^(c + 1 - d) g(d)) over c near k."""
        f = mpmath.mpf(flip.numerator) / flip.denominator
        t = 1 + mpmath.mpf(point.x)

        def masses(trials, odds):
            row = [(1 / (1 + odds)) ** trials]
            for j in range(trials):
                row.append(row[-1] * (trials - j) / (j + 1) * odds)
            return row

        a, b = masses(ones, (1 - f) / f * t), masses(zeros, f / (1 - f) * t)
        g = [
            mpmath.fsum(a[i] * b[c - i] for i in range(max(0, c - zeros), min(ones, c) + 1))
            for c in range(max(k - 4, 0), ones + zeros + 1)
        ]
        tail, best = mpmath.mpf(0), mpmath.mpf(0)
        for i in range(len(g) - 1, -1, -1):
            c = max(k - 4, 0) + i
            if abs(c - k) <= 3:
                best = max(best, t ** (k - c) * (g[i] - (1 - 1 / t) * tail))
            tail = g[i] + tail / t
        return best

    def test_the_scale(self):
        for ones, zeros, flip, share in self.CASES:
            f = mpmath.mpf(flip.numerator) / flip.denominator
            above, below = self.points(flip, share)
            for point, side in ((above, 1), (below, -1)):
                k = self.middle(point, ones, zeros)
                x = mpmath.mpf(point.x)
                E = mpmath.exp(share * math.log((1 - flip) / flip))
                truth = mpmath.log(1 - f - E * f) + ones * mpmath.log(f + (1 - f) * (1 + x))
                truth += zeros * mpmath.log(1 + f * x) - int(k[0]) * mpmath.log(1 + x)
                found = mpmath.mpf(self.scale(point, ones, zeros, k))
                assert 0 <= side * (found - truth) <= 1e-10


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [1000, 10**6])
def test_down_to_the_smallest_delta(n, share):
    flip = Fraction(1, 4)
    epsilon = share * math.log(3)
    exact = all_equal_precise(n, flip, epsilon)
    found = BinaryResponse(n=n, flip=flip).directions_at(0, n - 1, epsilon)[1]
    assert found >= exact
    assert found == 1e-300 if exact < 1e-300 else found <= exact * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [1e-30, 0.3, 1.0, 30.0])
class TestFlipsAtTheEdge:
    """Flips whose local epsilon and the one asked for agree in 49 digits and more."""

    def flip(self, odds):
        return 1 / (1 + odds)

    def test_an_epsilon_just_below_the_local_one(self, epsilon):
        """Delta is above 0, and is said to be."""
        flip = self.flip(exp_bounds(epsilon, 80)[1])
        assert FlipPoint.above(flip, epsilon) is not None
        assert BinaryResponse(n=3, flip=flip).delta(epsilon) >= 1e-300

    def test_an_epsilon_just_above_the_local_one(self, epsilon):
        """Delta is 0, and no lower bound says otherwise."""
        flip = self.flip(exp_bounds(epsilon, 80)[0])
        assert FlipPoint.below(flip, epsilon) is None
        assert BinaryResponse(n=3, flip=flip).delta_lower(epsilon) == 0

    def test_a_difference_that_no_float_holds(self, epsilon):
        flip = self.flip(exp_bounds(epsilon)[0] + Fraction(1, 10**400))
        assert BinaryResponse(n=3, flip=flip).delta(epsilon) >= 1e-300
