"""Several rounds: check values, brute force on a small pair, and what is refused."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.accounting import compose as module
from shuffledp.accounting.compose import _steps, compose, compose_renyi
from shuffledp.accounting.views import bound_renyi
from shuffledp.protocols.rr import RR
from support import first

WEEKLY = sdp.profile(epsilon0=1.0, n=10_000, honest=1)


class ExactRR:
    """The exact curve of one pair: n users of binary response, the others hold 0, either way."""

    def __init__(self, *, epsilon0, n):
        flip = 1 / (1 + math.exp(epsilon0))
        others = stats.binom(n - 1, flip)
        ones = np.arange(n + 1)
        own, other = others.pmf(ones), others.pmf(ones - 1)
        self.first = (1 - flip) * own + flip * other
        self.second = flip * own + (1 - flip) * other
        self.epsilon0 = epsilon0

    def delta(self, epsilon):
        return max(
            hockey_stick(self.first, self.second, epsilon),
            hockey_stick(self.second, self.first, epsilon),
        )

    def epsilon(self, delta):
        low, high = 0.0, self.epsilon0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high


def hockey_stick(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def joint(pairs):
    """The laws of all rounds together, as vectors over all outcomes."""
    first, second = np.ones(1), np.ones(1)
    for a, b in pairs:
        first, second = np.outer(first, a).ravel(), np.outer(second, b).ravel()
    return first, second


@pytest.mark.parametrize(
    ("rounds", "epsilon"), [(1, 0.0432), (10, 0.1485), (100, 0.508), (1000, 1.759)]
)
def test_check_values(rounds, epsilon):
    """AMPLIFICATION section 4: n = 10^4, epsilon0 = 1, delta = 1e-6; to the digits printed there."""
    assert compose([WEEKLY] * rounds, delta=1e-6) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("epsilon0", [0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_never_below_brute_force(n, epsilon0, delta):
    curve = ExactRR(epsilon0=epsilon0, n=n)
    first, second = joint([(curve.first, curve.second)] * 2)
    for found in (compose([curve] * 2, delta=delta), compose_renyi([curve] * 2, delta=delta)):
        for one, other in ((first, second), (second, first)):
            assert hockey_stick(one, other, found) <= delta * (1 + 1e-9)


def test_brute_force_is_not_far_below():
    """A bound that is safe because it is useless would pass the test above."""
    curve = ExactRR(epsilon0=1.0, n=20)
    first, second = joint([(curve.first, curve.second)] * 3)
    found = compose([curve] * 3, delta=1e-4)
    exact = max(
        hockey_stick(first, second, 0.97 * found), hockey_stick(second, first, 0.97 * found)
    )
    assert exact > 1e-4 * 0.9


def test_different_rounds_against_brute_force():
    small, large = ExactRR(epsilon0=1.0, n=8), ExactRR(epsilon0=0.5, n=15)
    found = compose([small, large, small], delta=1e-4)
    first, second = joint([(c.first, c.second) for c in (small, large, small)])
    assert hockey_stick(first, second, found) <= 1e-4
    # The attacker may be confronted with either direction in every round.
    mixed = joint([(small.first, small.second), (large.second, large.first)] * 1)
    assert hockey_stick(*mixed, found) <= 1e-4


def test_the_order_of_rounds_does_not_matter():
    other = sdp.profile(epsilon0=2.0, n=5_000, honest=1)
    one = compose([WEEKLY, other, WEEKLY], delta=1e-6)
    assert one == pytest.approx(compose([other, WEEKLY, WEEKLY], delta=1e-6), rel=1e-9)
    assert one > compose([WEEKLY, other], delta=1e-6)


@pytest.mark.slow  # thousands of points of a curve that takes milliseconds each
def test_rounds_of_different_randomizers():
    krr = sdp.profile(randomizer=sdp.protocols.krr.KRR(k=16, epsilon0=1.0), n=10_000, honest=1)
    mixed = compose([WEEKLY, krr], delta=1e-6)
    assert compose([krr] * 2, delta=1e-6) < mixed < compose([WEEKLY] * 2, delta=1e-6)


def test_one_round_is_the_curve():
    assert compose([WEEKLY], delta=1e-6) == WEEKLY.epsilon(1e-6)


def test_more_rounds_cost_more_but_less_than_their_sum():
    found = [compose([WEEKLY] * rounds, delta=1e-6) for rounds in (1, 2, 3, 10, 52)]
    assert found == sorted(found)
    assert found[-1] < 0.3 * 52 * found[0]


def test_more_honest_users_cost_less():
    fewer = sdp.profile(epsilon0=1.0, n=10_000, honest=0.5)
    assert compose([fewer] * 5, delta=1e-6) > compose([WEEKLY] * 5, delta=1e-6)


@pytest.mark.parametrize("rounds", first([1, 10, 300], 2))
@pytest.mark.parametrize("delta", [1e-4, 1e-9])
def test_renyi_is_looser_but_not_much(rounds, delta):
    tight = compose([WEEKLY] * rounds, delta=delta)
    assert tight <= compose_renyi([WEEKLY] * rounds, delta=delta) <= 1.25 * tight


def test_renyi_divergence_of_a_known_pair():
    curve = ExactRR(epsilon0=1.0, n=6)
    for alpha in (1.5, 2.0, 8.0):
        exact = max(
            math.log(float(np.sum(a**alpha * b ** (1 - alpha)))) / (alpha - 1)
            for a, b in ((curve.first, curve.second), (curve.second, curve.first))
        )
        assert exact <= bound_renyi(*_steps(curve), alpha) <= 1.3 * exact


@pytest.mark.parametrize("function", [compose, compose_renyi])
@pytest.mark.parametrize(
    ("rounds", "delta", "message"),
    [
        ([], 1e-6, "must hold at least one privacy curve"),
        ([WEEKLY], 0.0, "delta=0.0 must be > 0 and < 1"),
        ([WEEKLY], 1.0, "delta=1.0 must be > 0 and < 1"),
    ],
)
def test_arguments_are_checked(function, rounds, delta, message):
    with pytest.raises(sdp.ParameterError, match=message):
        function(rounds, delta=delta)


@pytest.mark.slow  # thousands of points of a curve that takes milliseconds each
def test_binary_response_composes_from_its_own_law():
    own = sdp.profile(randomizer=RR(epsilon0=1.0), n=200, honest=1)
    generic = sdp.profile(epsilon0=1.0, n=200, honest=1)
    assert compose([own] * 2, delta=1e-5) < compose([generic] * 2, delta=1e-5)


def test_never_above_the_plain_sum():
    """Also where the curve is a cliff: a pure guarantee, or delta nearly as large as it gets."""
    for epsilon0, n in ((1.0, 1), (0.5, 2), (0.1, 10_000)):
        curve = sdp.profile(epsilon0=epsilon0, n=n, honest=1)
        for rounds, delta in ((2, 1e-9), (7, 0.003), (2, 0.3)):
            plain = rounds * curve.epsilon(delta / rounds * (1 - 1e-15))
            assert compose([curve] * rounds, delta=delta) <= plain * (1 + 1e-14)


def test_rounds_that_tell_nothing():
    curve = sdp.profile(epsilon0=0.25, n=5000, honest=1)
    assert compose([curve] * 2, delta=0.01) == 0


@pytest.mark.parametrize("delta", [1e-4, 1e-8, 1e-11])
@pytest.mark.parametrize("rounds", [2, 30])
def test_against_dp_accounting(rounds, delta):
    """The same curve on a fine grid, convolved by somebody else: nearly the same epsilon, from above."""
    pld_pmf = pytest.importorskip("dp_accounting.pld.pld_pmf")
    distribution = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    curve = ExactRR(epsilon0=1.0, n=300)
    last = 400
    step = curve.epsilon(1e-15) / last
    epsilons = step * np.arange(-last, last + 1)
    positive = [curve.delta(epsilon) for epsilon in epsilons[last:]]
    mirrored = 1 - np.exp(epsilons[:last]) * (1 - np.array(positive[:0:-1]))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        step, -last, last, np.concatenate([mirrored, positive])
    )
    other = distribution.PrivacyLossDistribution(pmf).self_compose(rounds)
    found = compose([curve] * rounds, delta=delta)
    assert other.get_epsilon_for_delta(delta) * 0.999 <= found
    assert found <= other.get_epsilon_for_delta(delta) * 1.002


class TestIntegers:
    def test_products_are_exact_and_rounded_up(self):
        random = np.random.default_rng(2)
        for _ in range(20):
            a, b = ([int(x) ** 3 for x in random.integers(0, 2**40, size)] for size in (7, 12))
            found = module._multiply(a, b, 30)
            for place, value in enumerate(found):
                exact = sum(a[i] * b[place - i] for i in range(len(a)) if 0 <= place - i < len(b))
                assert value == -(-exact >> 30)

    @pytest.mark.parametrize("n", [1, 3, 300])
    def test_the_loss_of_a_round_is_above_its_curve(self, n):
        """In fractions: the curve of the loss at every point, and mass 1 in all."""
        curve = ExactRR(epsilon0=1.0, n=n)
        bits, step = 120, 1.0 / 64
        loss = module._find_loss(curve, step, 1.0, bits)
        masses = [Fraction(mass, 1 << bits) for mass in loss.masses]
        endless = Fraction(loss.endless, 1 << bits)
        assert 0 <= sum(masses) + endless - 1 <= Fraction(len(masses) + 1, 1 << (bits - 1))
        with mpmath.workdps(60):
            for epsilon in np.linspace(-1.2, 1.2, 25).tolist():
                total = endless + mpmath.fsum(
                    mass.numerator
                    / mpmath.mpf(mass.denominator)
                    * max(0, 1 - mpmath.exp(epsilon - (loss.first + i) * mpmath.mpf(step)))
                    for i, mass in enumerate(masses)
                )
                for one, other in ((curve.first, curve.second), (curve.second, curve.first)):
                    truth = hockey_stick(one, other, epsilon)
                    assert truth * (1 - 1e-12) <= total

    def test_ends_are_cut_towards_larger_losses(self):
        loss = module._Loss(bits=8, first=-2, masses=[1, 100, 54, 100, 1], endless=1)
        short = loss.add(loss, 12)
        whole = loss.add(loss, 0)
        assert sum(short.masses) + short.endless == sum(whole.masses) + whole.endless
        assert len(short.masses) < len(whole.masses)
        assert short.first > whole.first
        assert short.endless > whole.endless


@pytest.mark.parametrize("delta", [1e-30, 1e-90])
def test_tiny_deltas(delta):
    tight = compose([WEEKLY] * 10, delta=delta)
    assert WEEKLY.epsilon(delta) < tight <= compose_renyi([WEEKLY] * 10, delta=delta)


def test_deltas_that_are_too_small_are_refused():
    with pytest.raises(sdp.UnsupportedError, match="use compose_renyi"):
        compose([WEEKLY] * 2, delta=1e-101)
    with pytest.raises(sdp.UnsupportedError, match="too small for 5 rounds"):
        compose_renyi([WEEKLY] * 5, delta=1e-290)
