"""Several rounds: check values, brute force on a small pair, and what is refused."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.accounting import compose as module
from shuffledp.accounting.binary import BinaryResponse
from shuffledp.accounting.compose import _steps, bound_renyi, compose, compose_renyi
from shuffledp.accounting.moved_message import dummies
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


class TestLosses:
    @pytest.mark.parametrize("n", [1, 3, 300])
    @pytest.mark.parametrize("step", [1.0 / 64, 1.0 / 7, 0.011])
    def test_the_loss_of_a_round_is_above_its_curve(self, n, step):
        """The curve of the loss everywhere, in both directions, and mass 1 in all."""
        curve = ExactRR(epsilon0=1.0, n=n)
        loss = module._find_loss(curve, step, 1.0)
        assert 1 <= loss.masses.sum() + loss.endless < 1 + 1e-11
        with mpmath.workdps(60):
            for epsilon in np.linspace(-1.2, 1.2, 25).tolist():
                total = self.divergence(loss, step, epsilon)
                for one, other in ((curve.first, curve.second), (curve.second, curve.first)):
                    truth = hockey_stick(one, other, epsilon)
                    assert truth * (1 - 1e-12) <= total

    def divergence(self, loss, step, epsilon):
        return loss.endless + mpmath.fsum(
            mpmath.mpf(float(mass)) * max(0, 1 - mpmath.exp(epsilon - place * mpmath.mpf(step)))
            for mass, place in zip(loss.masses, loss.places.tolist(), strict=True)
        )

    def test_corners_that_are_not_convex_are_raised(self):
        """A curve with a bump: its hull does not follow, and no mass is negative."""

        class Bump:
            def delta(self, epsilon):
                return max(0.0, 0.2 - 0.15 * epsilon) + 0.05 * (0.4 < epsilon < 0.6)

        loss = module._find_loss(Bump(), 0.05, 1.0)
        assert loss.masses.min() >= 0
        for epsilon in np.linspace(0, 1, 21).tolist():
            smooth = max(0.0, 0.2 - 0.15 * epsilon)
            assert float(self.divergence(loss, 0.05, epsilon)) >= smooth * (1 - 1e-12)

    def random_losses(self, seed, count):
        random = np.random.default_rng(seed)
        for _ in range(count):
            last = int(random.integers(2, 12))
            masses = random.dirichlet(np.full(2 * last + 1, 0.4)) * (1 - 1e-9)
            yield module._Loss(masses=masses, endless=float(random.choice([0.0, 1e-9])))

    @pytest.mark.parametrize("seed", range(8))
    @pytest.mark.parametrize("near", [1e-3, 1e-12, 1e-60])
    def test_sums_of_losses_against_exact_convolutions(self, seed, near):
        """All masses as fractions: from above, and near as far as delta reaches."""
        losses = tuple(self.random_losses(seed, 2))
        step, times = 0.07, (3, 2)
        total = module._Total.tilt(losses, times, step, near)
        law, whole = {0: Fraction(1)}, Fraction(1)
        for loss, rounds in zip(losses, times, strict=True):
            for _ in range(rounds):
                grown = {}
                for s, mass in law.items():
                    for place, more in zip(loss.places.tolist(), loss.masses.tolist(), strict=True):
                        at = s + int(place)
                        grown[at] = grown.get(at, 0) + mass * Fraction(more)
                law = grown
                whole *= sum(map(Fraction, loss.masses.tolist())) + Fraction(loss.endless)
        endless = whole - sum(law.values())
        assert (
            endless <= Fraction(total.endless) <= endless * Fraction(11, 10) + Fraction(1, 10**20)
        )
        epsilons = np.array([-0.3, 0.0, 0.1, 0.21, 0.5, 1.0, 2.0, 3.3])
        with mpmath.workdps(80):
            for epsilon, found in zip(epsilons.tolist(), total.deltas(epsilons), strict=True):
                truth = mpmath.mpf(endless.numerator) / endless.denominator + mpmath.fsum(
                    mpmath.mpf(mass.numerator)
                    / mass.denominator
                    * max(0, 1 - mpmath.exp(mpmath.mpf(epsilon) - at * mpmath.mpf(step)))
                    for at, mass in law.items()
                )
                assert truth <= mpmath.mpf(float(found)) or found == 1
                if near / 100 < truth < 1e6 * near:
                    assert found <= truth * (1 + mpmath.mpf("1e-6"))

    def test_frequencies_that_are_left_out_are_dead(self):
        """Of 200 rounds, a few per cent of the circle are alive, and the others are below e^-60."""
        curve = WEEKLY
        end = curve.epsilon(1e-12)
        loss = module._find_loss(curve, end / 240, end)
        law, _ = module._tilt_law(loss, 0.01)
        length = 40_001
        kept = module._choose_places([law], [200], length)
        assert kept[0] == 0
        assert len(kept) < 0.1 * length / 2
        rest = np.setdiff1d(np.arange(length // 2 + 1), kept)[::7]
        real, imaginary, off = module._transform(law, length, rest)
        assert 200 * np.log(np.hypot(1 + real, imaginary) + off).max() < -60

    def test_the_transform_against_digits(self):
        random = np.random.default_rng(9)
        law = random.dirichlet(np.full(481, 0.3))
        places = np.array([0, 1, 17, 900, 1999])
        real, imaginary, off = module._transform(law, 4001, places)
        with mpmath.workdps(40):
            for place, x, y in zip(places.tolist(), real, imaginary, strict=True):
                truth = mpmath.fsum(
                    mpmath.mpf(float(mass))
                    * mpmath.expjpi(mpmath.mpf(2 * place * (i - 240)) / 4001)
                    for i, mass in enumerate(law)
                )
                assert abs(truth - mpmath.mpc(1 + mpmath.mpf(float(x)), float(y))) <= off < 1e-11


def test_frequencies_that_are_left_out_are_added(monkeypatch):
    """If they were not damped at all: the sum of all values, once more."""
    loss = module._Loss(masses=np.array([0.1, 0.2, 0.4, 0.2, 0.1]), endless=0.0)
    total = module._Total.tilt((loss,), (30,), 0.1, 1e-6)
    epsilon = 0.1 * math.floor(10 * total.guess) + 0.03
    before = total.deltas(np.array([epsilon])).item()
    monkeypatch.setattr(module, "_GONE", 1.0)
    places = np.arange(0.07, 60.0, 0.1)
    values = np.exp(-total.rate * places) * -np.expm1(-places)
    added = values.sum() * math.exp(total.log_scale - total.rate * epsilon)
    after = total.deltas(np.array([epsilon])).item()
    assert before + added * (1 - 1e-9) <= after < 1


class TestEnds:
    """Rounds that tell all or nearly nothing."""

    @pytest.mark.parametrize("rounds", [2, 8, 365])
    def test_rounds_that_tell_everything(self, rounds):
        sure = sdp.profile(epsilon0=60.0, n=1, honest=1)
        assert module.compose_delta([sure] * rounds, epsilon=1.0, near=1e-6) == 1

    def test_curves_that_are_flat_but_for_rounding(self):
        """One of 10^6 tells all: how a curve falls beyond that, in its last digits, tells nothing."""

        class Alone:
            """A curve that is asked one epsilon after the other, and is equal to no other."""

            def delta(self, epsilon):
                return bins.delta(epsilon)

        bits = BinaryResponse(n=800, flip=Fraction(1, 96))
        bins = dummies(n=800, rho=Fraction(1), pair=Fraction(337, 10_000))
        known = module.compose_delta([bits, bins, bins], epsilon=3.0, near=1e-3)
        for points in (60, 96, 240):
            found = module.compose_delta(
                [bits, bins, Alone()], epsilon=3.0, near=1e-3, points=points
            )
            assert known * 0.99 <= found <= known * 1.2

    def test_rounds_with_a_delta_of_their_own(self):
        weekly = sdp.profile(epsilon0=1.0, delta0=1e-8, n=10_000, honest=1)
        plain = 10 * weekly.epsilon(1e-7)
        assert 10 * WEEKLY.epsilon(0.5) < compose([weekly] * 10, delta=1e-6) < 0.8 * plain
        with pytest.raises(sdp.UnsupportedError, match="below delta0"):
            compose([weekly] * 10, delta=9e-8)

    def test_what_leaves_the_floats_is_not_0(self):
        """Ten answers that are nearly always no: all of them yes has a probability of 10^-400."""
        masses = np.zeros(7)
        masses[[0, 6]] = 1e-41, 1e-40
        masses[3] = 1 - masses.sum()
        loss = module._Loss(masses=masses, endless=0.0)
        total = module._Total.tilt((loss,), (10,), math.log(10) / 3, 1e-6)
        assert 0 < total.deltas(np.array([22.9])).item() <= 1e-300


@pytest.mark.parametrize("delta", [1e-30, 1e-90])
def test_tiny_deltas(delta):
    tight = compose([WEEKLY] * 10, delta=delta)
    assert WEEKLY.epsilon(delta) < tight <= compose_renyi([WEEKLY] * 10, delta=delta)


def test_deltas_that_are_too_small_are_refused():
    with pytest.raises(sdp.UnsupportedError, match="use compose_renyi"):
        compose([WEEKLY] * 2, delta=1e-101)
    with pytest.raises(sdp.UnsupportedError, match="too small for 5 rounds"):
        compose_renyi([WEEKLY] * 5, delta=1e-290)
