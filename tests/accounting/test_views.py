"""Renyi divergences, trade-offs and Gaussian covers of a curve; random check-ins: all against exact pairs."""

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import shuffledp as sdp
from accounting.channels import RATIOS, extremal_channel, random_channel
from shuffledp.accounting import compose as composition
from shuffledp.accounting.amplify import ShuffledProfile
from shuffledp.accounting.clones import clones_2023
from shuffledp.accounting.compose import CUT, CurveTable, _gaussian_delta_below
from shuffledp.accounting.exact import local_ratio, shuffled_delta
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.rr import RR
from support import first

ALPHAS = (1.01, 1.5, 2.0, 5.0, 30.0)
LEVELS = (0.0, 0.01, 0.05, 0.3, 0.5, 0.9, 1.0)


def bit_pair(epsilon0: float, n: int, ones: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of ones that n shuffled bits show, for two neighbouring data sets."""
    flip = 1 / (1 + math.exp(epsilon0))

    def count(first: int) -> np.ndarray:
        law = np.ones(1)
        for bit in (first, *([1] * ones), *([0] * (n - 1 - ones))):
            one = 1 - flip if bit else flip
            law = np.convolve(law, [1 - one, one])
        return law

    return count(0), count(1)


PAIRS = [
    (e, n, ones)
    for n in (1, 5, 40, 2)
    for e in (0.3, 1.0, 3.0)
    for ones in sorted({0, (n - 1) // 2})
]


@pytest.mark.parametrize(("epsilon0", "n", "ones"), first(PAIRS, 15))
def test_nothing_is_below_the_exact_pair(epsilon0, n, ones):
    curve = sdp.profile(epsilon0=epsilon0, n=n, honest=1)
    for a, b in permutations(bit_pair(epsilon0, n, ones)):
        for alpha in ALPHAS:
            exact = math.log((b * (a / b) ** alpha).sum()) / (alpha - 1)
            assert exact <= curve.renyi(alpha) * (1 + 1e-9)
        ratios = np.argsort(-(a / b))
        powers, levels = np.cumsum(a[ratios]), np.cumsum(b[ratios])
        for level, power in zip(levels, powers, strict=True):  # the best test at its own level
            assert curve.trade_off(min(1.0, level)) <= 1 - power + 1e-12


def test_one_bit_alone_is_exact():
    """n = 1: randomized response itself, whose views are known in closed form."""
    curve, p = sdp.profile(epsilon0=1.0, n=1, honest=1), math.e
    for alpha in ALPHAS:
        exact = math.log((p**alpha + p ** (1 - alpha)) / (p + 1)) / (alpha - 1)
        assert exact <= curve.renyi(alpha) <= 1.01 * exact
    for level in (0.01, 1 / (p + 1), 0.5):
        exact = max(1 - p * level, (1 - level) / p)
        assert exact - 1e-9 <= curve.trade_off(level) + 1e-9
        assert curve.trade_off(level) <= exact
    exact = 2 * float(ndtri(p / (p + 1)))  # where both total variations agree
    assert exact <= curve.mu() < 1.01 * exact


@pytest.mark.parametrize(("epsilon0", "n"), first([(1.0, 10_000), (4.0, 10**6), (0.1, 10**6)], 2))
def test_the_gaussian_covers_the_curve_and_hardly_more(epsilon0, n):
    curve = sdp.profile(epsilon0=epsilon0, n=n, honest=1)
    mu = curve.mu()
    limit = math.sqrt(2) * (math.expm1(epsilon0)) / math.sqrt((math.exp(epsilon0) + 1) * n)
    assert limit < mu < 1.03 * limit
    for epsilon in mu * np.array([0.013, 0.5, 1.7, 3.1, 6.6]):
        z = epsilon / mu
        gaussian = ndtr(mu / 2 - z) - math.exp(epsilon) * ndtr(-mu / 2 - z)
        assert curve.delta(epsilon) <= gaussian
    for level in LEVELS:
        assert curve.trade_off(level) <= 1 - level
        assert curve.trade_off(level) >= ndtr(ndtri(1 - level) - mu) - 0.01 * mu
    assert curve.renyi(2.0) == pytest.approx(2 * limit**2 / 2, rel=0.03)


def test_many_rounds_by_the_gaussian():
    """sqrt(k) mu is a valid composition; 1.6 percent too large a mu are 40 percent of delta at 5 deviations."""
    curve = sdp.profile(epsilon0=1.0, n=10_000, honest=1)
    mu, delta = 10 * curve.mu(), 1e-6
    losses = sdp.compose([curve] * 100, delta=delta)
    covered = ndtr(mu / 2 - losses / mu) - math.exp(losses) * ndtr(-mu / 2 - losses / mu)
    assert delta * 0.98 < covered < 1.5 * delta


def test_the_lower_gaussian_curve_is_one():
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 60
    for mu, z in product((1e-6, 0.01, 1.0, 5.0), (0.0, 0.3, 5.0, 30.0)):
        epsilon = mu * z
        first, second = (
            mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu,
            -mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu,
        )
        exact = mpmath.ncdf(first) - mpmath.exp(epsilon) * mpmath.ncdf(second)
        found = float(_gaussian_delta_below(np.array([epsilon]), mu)[0])
        assert found <= exact
        assert found >= exact * (1 - 1e-4)  # what cancels at mu = 1e-6 and z = 30 is 2.4e-5


def test_the_lower_gaussian_curve_holds_where_mu_is_large():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for mu, epsilon in product((8.0, 20.0), (0.0, 1e-9, 3.0, 100.0, 150.0)):
            first, second = (mpmath.mpf(s) * mu / 2 - mpmath.mpf(epsilon) / mu for s in (1, -1))
            exact = mpmath.ncdf(first) - mpmath.exp(epsilon) * mpmath.ncdf(second)
            found = float(_gaussian_delta_below(np.array([epsilon]), mu)[0])
            assert exact * (1 - 1e-9) <= found <= exact


def test_a_wider_curve_is_not_covered():
    """A mutant that forgets that a cell's right end is the one to cover would pass with this mu."""
    curve = sdp.profile(epsilon0=1.0, n=1000, honest=1)
    table = curve._table()
    assert not np.all(table.deltas <= _gaussian_delta_below(table.grid[1:], 0.99 * curve.mu()))
    assert np.all(table.deltas - CUT <= _gaussian_delta_below(table.grid[1:], curve.mu()))


def test_what_is_left_at_the_last_epsilon_is_an_error_of_every_test():
    table = CurveTable(grid=np.array([0.0, 1.0]), deltas=np.array([0.5]), rest=0.1)
    assert table.trade_off(0.0) == pytest.approx(0.9)
    assert table.trade_off(0.0) <= 0.9
    assert table.renyi(2.0) == table.mu() == math.inf


@pytest.mark.slow
def test_a_delta0_has_no_renyi_and_no_gaussian_view():
    curve = sdp.profile(epsilon0=1.0, delta0=1e-9, n=1000, honest=1)
    assert curve.renyi(2.0) == curve.mu() == math.inf
    assert curve.trade_off(0.0) < 1
    pure = sdp.profile(epsilon0=1.0, n=1000, honest=1)
    assert pure.trade_off(0.05) - 1e-5 < curve.trade_off(0.05) < pure.trade_off(0.05)


@pytest.mark.parametrize("epsilon0", [1e-9, 20.0])
def test_extremes(epsilon0):
    for n in (1, 10**12):
        curve = sdp.profile(epsilon0=epsilon0, n=n, honest=1)
        assert 0 <= curve.renyi(1e6) <= epsilon0
        assert 0 <= curve.mu() < 20
        assert 0 <= curve.trade_off(0.5) <= 0.5


@pytest.mark.parametrize("alpha", [1.0, 0.5, -1.0, float("nan"), "2"])
def test_orders_are_checked(alpha):
    with pytest.raises(sdp.ParameterError, match="alpha"):
        sdp.profile(epsilon0=1.0, n=10, honest=1).renyi(alpha)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_levels_are_checked(alpha):
    with pytest.raises(sdp.ParameterError, match="alpha"):
        sdp.profile(epsilon0=1.0, n=10, honest=1).trade_off(alpha)


class TestCheckIn:
    @staticmethod
    def silent(laws, share: Fraction):
        """The laws of people who stay away with probability 1 - share."""
        return [{y: share * q for y, q in law.items()} | {("nothing",): 1 - share} for law in laws]

    def sweep(self, channels: int, change: float = 1.0) -> float:
        rng = np.random.default_rng(2_020)
        worst = 0.0
        for index in range(channels):
            p = RATIOS[index % len(RATIOS)]
            laws = random_channel(rng, p) if index % 2 else extremal_channel(rng, p)
            p = local_ratio(laws)
            share = Fraction(int(rng.integers(1, 8)), 8)
            E = 1 + (p - 1) * Fraction(int(rng.integers(0, 20)), 40)
            n = int(rng.integers(2, 4))
            if p == 1:
                continue
            curve = sdp.profile(
                epsilon0=math.nextafter(math.log(p), 99),
                n=n,
                check_in=float(share) * change,
                honest=1,
            )
            exact = shuffled_delta(self.silent(laws, share), n, E)
            worst = max(worst, float(exact) / max(curve.delta(math.log(E) * (1 - 1e-15)), 1e-300))
        return worst

    @pytest.mark.parametrize("channels", first([300, 1000]))
    def test_never_below_enumeration(self, channels):
        assert 0.9 < self.sweep(channels) <= 1

    def test_a_smaller_share_would_be_wrong(self):
        assert self.sweep(100, change=0.98) > 1

    def test_a_tenth_of_ten_thousand_hide_better_than_a_thousand(self):
        some = sdp.amplify(epsilon0=1.0, n=10_000, delta=1e-6, check_in=0.1, honest=1)
        all_of_fewer = sdp.amplify(epsilon0=1.0, n=1_000, delta=1e-6, honest=1)
        assert some.epsilon < 0.1 * all_of_fewer.epsilon
        assert "check-in of 0.1" in some.proof

    @pytest.mark.parametrize("randomizer", [RR(epsilon0=1.0), KRR(k=16, epsilon0=1.0)])
    def test_a_known_law_gives_less(self, randomizer):
        generic = sdp.amplify(epsilon0=1.0, n=1000, delta=1e-6, check_in=0.2, honest=1).epsilon
        own = sdp.amplify(randomizer=randomizer, n=1000, delta=1e-6, check_in=0.2, honest=1).epsilon
        assert own <= generic * (1 + 1e-5)

    @pytest.mark.parametrize("check_in", [0.0, -1, 1.5, float("nan")])
    def test_is_a_probability(self, check_in):
        with pytest.raises(sdp.ParameterError, match="check_in"):
            sdp.profile(epsilon0=1.0, n=10, check_in=check_in)

    def test_goes_with_pure_randomizers(self):
        with pytest.raises(sdp.ParameterError, match="must be 1 with delta0"):
            sdp.profile(epsilon0=1.0, delta0=1e-9, n=10, check_in=0.5)
        with pytest.raises(sdp.ParameterError, match="must be 1 with total_variation"):
            sdp.profile(epsilon0=1.0, total_variation=0.1, n=10, check_in=0.5)


def test_profiles_are_tabulated_once():
    curve = sdp.profile(epsilon0=1.0, n=10, honest=1)
    assert isinstance(curve, ShuffledProfile)
    assert curve._table() is sdp.profile(epsilon0=1.0, n=10, honest=1)._table()


def test_a_table_reaches_to_twice_the_rest():
    """Beyond, half of what the table has is the rest, and a finer grid would buy nothing; before, it would."""
    curve, rest = clones_2023(epsilon0=2.0, n=1000), 1e-6
    table = composition.tabulate_curve(curve, 2.0, rest)
    assert table.grid[-1] == 2.0
    assert table.grid[-2] == curve.epsilon(2 * rest)
