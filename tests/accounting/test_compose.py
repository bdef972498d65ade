"""Several rounds: check values, brute force on a small pair, and what is refused."""

import math
import sys

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.accounting.compose import compose, compose_renyi, renyi
from shuffledp.protocols.rr import RR

WEEKLY = sdp.profile(epsilon0=1.0, n=10_000)
pytest.importorskip("dp_accounting")


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
    other = sdp.profile(epsilon0=2.0, n=5_000)
    one = compose([WEEKLY, other, WEEKLY], delta=1e-6)
    assert one == pytest.approx(compose([other, WEEKLY, WEEKLY], delta=1e-6), rel=1e-9)
    assert one > compose([WEEKLY, other], delta=1e-6)


@pytest.mark.slow  # thousands of points of a curve that takes milliseconds each
def test_rounds_of_different_randomizers():
    krr = sdp.profile(randomizer=sdp.protocols.krr.KRR(k=16, epsilon0=1.0), n=10_000)
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


@pytest.mark.parametrize("rounds", [1, 10, 300])
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
        assert exact <= renyi(curve, alpha) <= 1.3 * exact


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


def test_renyi_order_is_checked():
    with pytest.raises(sdp.ParameterError, match="alpha=1 must be > 1"):
        renyi(WEEKLY, 1)


def test_missing_dp_accounting_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(sdp.UnsupportedError, match=r"pip install 'shuffledp\[compose\]'"):
        compose([WEEKLY] * 2, delta=1e-6)
    assert compose_renyi([WEEKLY] * 2, delta=1e-6) > 0, "it needs nothing"


@pytest.mark.slow  # thousands of points of a curve that takes milliseconds each
def test_binary_response_composes_from_its_own_law():
    own = sdp.profile(randomizer=RR(epsilon0=1.0), n=200)
    generic = sdp.profile(epsilon0=1.0, n=200)
    assert compose([own] * 2, delta=1e-5) < compose([generic] * 2, delta=1e-5)
