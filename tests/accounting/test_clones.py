"""The clones' pairs against exact sums of 60 digits, published values, and their own invariants."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from shuffledp.accounting import clones as module
from shuffledp.accounting.clones import Clones, clones_2021, clones_2023
from shuffledp.core.errors import UnsupportedError
from support import first

PAIRS = {"2021": clones_2021, "2023": clones_2023}


def ideal_rho(name: str, epsilon0: float) -> mp.mpf:
    p = mp.e ** mp.mpf(epsilon0)
    return 1 / p if name == "2021" else 2 / (p + 1)


def definition(n: int, epsilon0: float, epsilon: float, rho: mp.mpf) -> mp.mpf:
    """The divergence of (A + Delta, C + 1) against its mirror image, output by output."""
    p, E = mp.e ** mp.mpf(epsilon0), mp.e ** mp.mpf(epsilon)
    total = mp.mpf(0)
    for C in range(n):
        outer = math.comb(n - 1, C) * rho**C * (1 - rho) ** (n - 1 - C)
        inner = mp.mpf(0)
        for x in range(C + 2):
            zero = math.comb(C, x) if x <= C else 0
            one = math.comb(C, x - 1) if x else 0
            first, second = (p * one + zero) / (p + 1), (one + p * zero) / (p + 1)
            inner += max(mp.mpf(0), first - E * second)
        total += outer * inner / mp.mpf(2) ** C
    return total


def full_sum(n: int, epsilon0: float, epsilon: float, rho: mp.mpf) -> mp.mpf:
    """The sum over every C; binomial tails of fair coins are exact integers, updated as C grows."""
    p, E = mp.e ** mp.mpf(epsilon0), mp.e ** mp.mpf(epsilon)
    share = (p - E) / ((p - 1) * (E + 1))
    total, outer = mp.mpf(0), (1 - rho) ** (n - 1)
    k, binomial, below = 0, 1, 0  # C choose k, and the sum of C choose j over j < k
    for C in range(n):
        while k < mp.ceil((C + 1) * share) - 1:
            below, binomial, k = below + binomial, binomial * (C - k) // (k + 1), k + 1
        gain = (p - E) * binomial - (p + 1) * (E - 1) * below
        total += outer * gain / (p + 1) / mp.mpf(2) ** C
        outer *= rho / (1 - rho) * (n - 1 - C) / (C + 1)
        # Pascal: (C+1 choose k) = (C choose k) + (C choose k-1), and below doubles less one term.
        previous = binomial * k // (C - k + 1) if k else 0
        below, binomial = 2 * below - previous, binomial + previous
    return total


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60):
        yield


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_full_sum_is_the_definition(name, n):
    for epsilon0, epsilon in ((0.3, 0.0), (0.3, 0.1), (2.0, 0.7), (5.0, 4.9)):
        rho = ideal_rho(name, epsilon0)
        by_definition = definition(n, epsilon0, epsilon, rho)
        assert abs(full_sum(n, epsilon0, epsilon, rho) / by_definition - 1) < mp.mpf(10) ** -40


def check(clones: Clones, epsilon: float, rho: mp.mpf) -> None:
    truth = full_sum(clones.n, clones.epsilon0, epsilon, rho)
    assert clones.delta_lower(epsilon) <= truth <= clones.delta(epsilon)
    if truth > 1e-50:  # cells cost about 2 % at 1e-40, and a factor of 2 or 3 beyond 1e-200
        assert clones.delta_lower(epsilon) / truth > 0.97
        assert clones.delta(epsilon) / truth < 1.02
    elif truth > 1e-300:
        assert mp.log(clones.delta(epsilon) / truth) < 0.003 * abs(mp.log(truth))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("epsilon0", [0.01, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("n", first([2, 50, 300, 3000], 3))
def test_bracket_of_the_full_sum(name, n, epsilon0):
    clones, rho = PAIRS[name](epsilon0=epsilon0, n=n), ideal_rho(name, epsilon0)
    for part in (0.02, 0.3, 0.9, 0.999):
        check(clones, part * epsilon0, rho)
    for delta in (1e-3, 1e-10, 1e-30):
        epsilon = clones.epsilon(delta)
        if 0 < epsilon < epsilon0:
            check(clones, epsilon, rho)
            # not more than 0.1 % above the epsilon of the exact sum
            assert full_sum(n, epsilon0, epsilon / 1.001, rho) > delta


def test_bracket_where_c_is_cut_into_cells():
    clones = clones_2023(epsilon0=1.0, n=20_000)
    check(clones, clones.epsilon(1e-30), ideal_rho("2023", 1.0))


@pytest.mark.parametrize(
    ("name", "n", "epsilon0", "epsilon", "delta"),
    [("2021", 100, 1.0, 0.4, 2.84032e-4), ("2021", 1000, 2.0, 0.3, 6.10993e-4)],
)
def test_vectors_of_delta(name, n, epsilon0, epsilon, delta):
    found = PAIRS[name](epsilon0=epsilon0, n=n).delta(epsilon)
    assert found == pytest.approx(delta, rel=2e-3)
    assert found >= delta * (1 - 1e-5)


@pytest.mark.parametrize(
    ("n", "epsilon0", "stronger", "older"),
    [
        (10**3, 0.5, 0.06269, 0.07052),
        (10**3, 1.0, 0.14867, 0.18241),
        (10**3, 4.0, 1.8529, 3.990),
        (10**4, 1.0, 0.04321, 0.05301),
        (10**5, 2.0, 0.03319, 0.04503),
        (10**6, 1.0, 0.003514, 0.004335),
        (10**7, 1.0, 0.000967, 0.001199),
    ],
)
def test_reference_epsilons(n, epsilon0, stronger, older):
    assert clones_2023(epsilon0=epsilon0, n=n).epsilon(1e-6) == pytest.approx(stronger, rel=1e-3)
    assert clones_2021(epsilon0=epsilon0, n=n).epsilon(1e-6) == pytest.approx(older, rel=1e-3)


def test_published_bracket():
    epsilon = clones_2021(epsilon0=4.0, n=10**5).epsilon(1e-6)
    assert 0.1675 <= epsilon <= 0.1728
    assert epsilon == pytest.approx(0.16977, rel=1e-3)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("n", [1, 2, 3, 100, 5_000, 10**6, 10**9, 10**12])
@pytest.mark.parametrize("epsilon0", [0.01, 1.0, 6.0, 20.0])
def test_the_returned_epsilon_is_safe_and_between_0_and_epsilon0(name, n, epsilon0):
    clones = PAIRS[name](epsilon0=epsilon0, n=n)
    for delta in (0.5, 1e-2, 1e-6, 1e-12, 1e-100, 1e-300):
        epsilon = clones.epsilon(delta)
        assert 0 <= epsilon <= epsilon0
        assert clones.delta(epsilon) <= delta


@pytest.mark.parametrize("name", PAIRS)
def test_monotone(name):
    pair = PAIRS[name]
    slack = 1 + 1e-4  # cells are placed anew for every parameter
    for n in (2, 50, 3000, 10**7):
        for epsilon0 in (0.1, 1.0, 5.0):
            clones = pair(epsilon0=epsilon0, n=n)
            deltas = [clones.delta(part * epsilon0) for part in (0, 0.01, 0.1, 0.4, 0.8, 1)]
            assert all(a * slack >= b for a, b in pairwise(deltas))
            epsilon = clones.epsilon(1e-5)
            assert pair(epsilon0=epsilon0, n=2 * n).epsilon(1e-5) <= epsilon * slack
            assert pair(epsilon0=1.1 * epsilon0, n=n).epsilon(1e-5) >= epsilon / slack
            assert clones.epsilon(1e-7) >= epsilon / slack


def test_one_user_has_no_one_to_hide_among():
    clones = clones_2023(epsilon0=1.0, n=1)
    p, E = math.e, math.exp(0.5)
    assert clones.delta(0.5) == pytest.approx((p - E) / (p + 1), rel=1e-6)
    assert clones.epsilon(1e-9) == pytest.approx(1.0, rel=1e-6)


def test_the_older_pair_is_weaker():
    for n in (2, 30, 10**3, 10**6, 10**12):
        for epsilon0 in (0.05, 1.0, 3.0, 8.0):
            for delta in (1e-3, 1e-8, 1e-40):
                old, new = (
                    pair(epsilon0=epsilon0, n=n).epsilon(delta)
                    for pair in (clones_2021, clones_2023)
                )
                assert old * (1 + 1e-4) >= new


def test_more_users_than_rounding_was_looked_at_are_refused():
    assert clones_2023(epsilon0=1.0, n=10**12).delta(1e-6) < 1
    with pytest.raises(UnsupportedError, match="more than"):
        clones_2023(epsilon0=1.0, n=10**12 + 1)


def float_at_least(x):
    near = float(x)
    return near if near >= x else math.nextafter(near, math.inf)


class TestRounding:
    """Each bound rests on the ends of its own side, and units are added for what is rounded."""

    def test_the_clone_probability_is_rounded_down(self):
        for epsilon0 in np.geomspace(1e-3, 30, 60).tolist():
            for name, pair in PAIRS.items():
                truth = ideal_rho(name, epsilon0)
                assert truth * (1 - 3e-15) < pair(epsilon0=epsilon0, n=5).rho <= truth

    @pytest.mark.parametrize("n", [300, 20_000])
    def test_ends(self, monkeypatch, n):
        """What lies on the other side may be moved further: the bound does not notice."""
        whole = clones_2023(epsilon0=1.0, n=n)
        before = whole.delta(0.2), whole.delta_lower(0.2)

        def moved(bound, end, factor):
            def change(*given):
                ends = list(bound(*given))
                ends[end] = ends[end] * factor
                return tuple(ends)

            return change

        for name in ("_place_cells", "_count_clones"):
            monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)
        with monkeypatch.context() as patch:
            patch.setattr(module, "bound_mass", moved(module.bound_mass, 0, 0.9))
            assert whole.delta(0.2) == before[0]
        monkeypatch.setattr(module, "bound_mass", moved(module.bound_mass, 1, 1.1))
        monkeypatch.setattr(module, "bound_mills", moved(module.bound_mills, 0, 0.9))
        monkeypatch.setattr(module, "bound_at_most", moved(module.bound_at_most, 1, 1.1))
        assert whole.delta_lower(0.2) == before[1]

    def test_the_table_of_coins(self):
        """Masses from above, sums from below, both as near as 400 roundings allow."""
        table = module._tabulate_coins()
        for C in (0, 1, 2, 57, 399):
            sums = [Fraction(0)]
            for k in range(C + 1):
                mass = Fraction(math.comb(C, k), 2**C)
                assert mass <= Fraction(table.mass[C, k]) <= mass * (1 + Fraction(1, 10**12))
                below = Fraction(table.below[C, k])
                assert sums[-1] * (1 - Fraction(1, 10**12)) <= below <= sums[-1]
                sums.append(sums[-1] + mass)

    def test_the_number_of_clones(self):
        rho = clones_2023(epsilon0=3.0, n=2_000).rho
        found = module._count_clones(2_000, rho)
        exact, mass = mp.mpf(0), (1 - mp.mpf(rho)) ** 1999
        for c in range(len(found)):
            assert exact <= found[c] <= min(exact * (1 + mp.mpf("1e-11")), 1)
            exact += mass
            mass *= mp.mpf(rho) / (1 - mp.mpf(rho)) * (1999 - c) / (c + 1)

    def test_gains_are_raised(self, monkeypatch):
        """By more than they are rounded, from the smallest epsilons to the largest, for any clone probability."""
        seen = []

        def keep(masses, gains, n):
            seen.append((masses, gains))
            return np.zeros(len(gains))

        monkeypatch.setattr(module, "mean_positive_parts", keep)
        random = np.random.default_rng(8)
        for _ in range(200):
            epsilon0 = float(10 ** random.uniform(-3, 1.3))
            epsilon = epsilon0 * float(1 - 10 ** random.uniform(-6, 0))
            clones = Clones(epsilon0=epsilon0, n=10**12, rho=float(random.uniform(1e-9, 1)))
            clones._sum_gains(np.array([epsilon]))
            (masses, ((high, low),)) = seen[-1]
            p, E = mp.exp(mp.mpf(epsilon0)), mp.exp(mp.mpf(epsilon))
            scale = 2 / mp.mpf(clones.rho) / (p + 1)
            assert masses.tolist() == [clones.rho / 2] * 2
            for found, truth in ((high, scale * (p - E)), (low, scale * (1 - p * E))):
                assert 0 < (mp.mpf(float(found)) - truth) / abs(truth) < 1e-13

    def test_units_pay_for_what_is_rounded(self, monkeypatch):
        """With masses and tails that are exact but for the last digit."""
        monkeypatch.setattr(module, "bound_mass", self.exact_mass)
        monkeypatch.setattr(module, "bound_mills", self.exact_mills)
        random = np.random.default_rng(3)
        for _ in range(60):
            epsilon0 = float(random.uniform(0.1, 6))
            epsilon = epsilon0 * float(random.uniform(0.01, 0.99))
            C = random.integers(1, 60, 6).astype(np.float64)
            clones = clones_2023(epsilon0=epsilon0, n=100)
            lower = clones._bound_inner(C, epsilon)
            for place, low in zip(C.tolist(), lower, strict=True):
                truth = self.inner(int(place), epsilon0, epsilon)
                assert low <= truth

    def test_the_number_of_clones_is_known(self):
        """As good as certainly n - 1 of them: the table alone decides."""
        random = np.random.default_rng(3)
        for _ in range(60):
            epsilon0 = float(random.uniform(0.1, 6))
            epsilon = epsilon0 * float(random.uniform(0.01, 0.99))
            C = int(random.integers(1, 60))
            found = Clones(epsilon0=epsilon0, n=C + 1, rho=1 - 2.0**-53).delta(epsilon)
            truth = self.inner(C, epsilon0, epsilon)
            assert truth <= found <= truth * (1 + 1e-9)

    @staticmethod
    def exact_mass(k, C, _):
        high = [
            float_at_least(mp.binomial(c, j) / mp.mpf(2) ** c) for j, c in zip(k, C, strict=True)
        ]
        return np.nextafter(high, 0), np.array(high)

    @staticmethod
    def exact_mills(k, C, _):
        high = [
            float_at_least(
                mp.fsum(mp.binomial(c, i) for i in range(int(j) + 1)) / mp.binomial(c, j)
            )
            for j, c in zip(k, C, strict=True)
        ]
        return np.nextafter(high, 0), np.array(high)

    @staticmethod
    def inner(C, epsilon0, epsilon):
        p, E = mp.e ** mp.mpf(epsilon0), mp.e ** mp.mpf(epsilon)
        total = mp.mpf(0)
        for x in range(C + 2):
            zero, one = (math.comb(C, x) if x <= C else 0), (math.comb(C, x - 1) if x else 0)
            total += max(mp.mpf(0), ((p * one + zero) - E * (one + p * zero)) / (p + 1))
        return total / mp.mpf(2) ** C

    def test_sums(self):
        random = np.random.default_rng(4)
        for _ in range(50):
            inner = np.sort(random.random(9))[::-1]
            below = np.append(0.0, np.sort(random.random(8)))
            parts = zip(inner[:-1], inner[1:], below[1:], strict=True)
            truth = sum(
                ((Fraction(a) - Fraction(b)) * Fraction(c) for a, b, c in parts), Fraction(0)
            )
            truth += Fraction(inner[-1])
            assert module._sum_by_parts(inner, below, -1) <= truth
            assert module._sum_by_parts(inner, below, 1) >= truth
