"""The local protocols in the shuffle model: figures, the largest epsilon0, coverage."""

import math

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.accounting.amplify import profile
from shuffledp.core.protocol import Crowd, Promise, honest_users
from shuffledp.protocols import (
    duchi,
    hadamard,
    hybrid,
    krr,
    local_hashing,
    optimized_unary,
    piecewise,
    rr,
    subset_selection,
    symmetric_unary,
)
from shuffledp.protocols.shared.assembly import certify, fit
from support import ALPHA

GRID = {"lower": 0, "upper": 10, "steps": 10}
SHUFFLED = [
    (krr, {"k": 8}),
    (rr, {}),
    (symmetric_unary, {"k": 8}),
    (optimized_unary, {"k": 8}),
    (hadamard, {"k": 8}),
    (subset_selection, {"k": 8}),
    (local_hashing, {"k": 8}),
    (duchi, GRID),
    (piecewise, GRID),
    (hybrid, GRID),
]


def rmse(protocol, n):
    return math.sqrt(protocol.analyzer.variance(np.array([n, 0])))


class TestRandomizedResponse:
    @pytest.mark.parametrize(
        ("n", "epsilon", "delta", "reference"),
        [
            (10**6, 1.0, 1e-6, 5.85),
            (10**3, 1.0, 1e-6, 5.85),
            (10**6, 0.1, 1e-6, 37.7),
            (10**6, 1.0, 1e-10, 8.12),
            (10**9, 1.0, 1e-6, 5.85),
            (10**6, 2.0, 1e-6, 4.2),
        ],
    )
    def test_error_of_the_count(self, n, epsilon, delta, reference):
        protocol = rr.make(n=n, epsilon=epsilon, delta=delta, honest=1.0)
        assert 0.98 * reference <= rmse(protocol, n) <= 1.01 * reference

    @pytest.mark.parametrize(
        ("n", "epsilon", "delta", "reference"),
        [(10**6, 1.0, 1e-6, 22.1), (10**6, 1.0, 1e-10, 28.0), (10**3, 1.0, 1e-6, 37.3)],
    )
    def test_published_error(self, n, epsilon, delta, reference):
        protocol = rr.make(n=n, epsilon=epsilon, delta=delta, honest=1.0, calibration="paper")
        assert rmse(protocol, n) == pytest.approx(reference, rel=0.01)
        assert protocol.guarantee.delta == delta

    def test_published_flips(self):
        protocol = rr.make(n=10**6, epsilon=0.5, delta=1e-6, honest=0.5, calibration="paper")
        flips = 32 * math.log(4 / 1e-6) / 0.5**2
        # The noise is for half of the users, so all of them flip twice as much in all.
        assert float(protocol.randomizer.q) * 10**6 == pytest.approx(2 * flips, rel=1e-9)

    @pytest.mark.parametrize("outside", [{"epsilon": 1.01}, {"n": 200}])
    def test_outside_the_published_theorem(self, outside):
        with pytest.raises(sdp.UnsupportedError, match="published"):
            rr.make(**{"n": 10**6, "epsilon": 1.0, "delta": 1e-6, "calibration": "paper"} | outside)

    def test_unknown_calibration(self):
        with pytest.raises(sdp.ParameterError, match="calibration"):
            rr.make(n=1000, epsilon=1.0, delta=1e-6, calibration="rough")

    def test_guarantee_against_an_independent_sum(self):
        """All others hold zero: two shifted binomials, summed term by term."""
        n, epsilon, delta = 100_000, 1.0, 1e-6
        protocol = rr.make(n=n, epsilon=epsilon, delta=delta, honest=1.0)
        assert 0.9 * delta < zero_data_delta(n, float(protocol.randomizer.q), epsilon) <= delta
        less = 0.95 * float(protocol.randomizer.q)
        assert zero_data_delta(n, less, epsilon) > delta


def zero_data_delta(n, flip, epsilon):
    others = stats.binom.pmf(np.arange(-1, 2000), n - 1, flip)
    zero = flip * others[:-1] + (1 - flip) * others[1:]
    one = (1 - flip) * others[:-1] + flip * others[1:]
    return max(
        np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((zero, one), (one, zero))
    )


@pytest.mark.parametrize(
    ("module", "parameters"),
    SHUFFLED,
    ids=[module.make.about.name for module, _ in SHUFFLED],
)
class TestEach:
    def test_epsilon0_is_the_largest(self, module, parameters):
        protocol = module.make(n=2000, epsilon=1.0, delta=1e-6, honest=0.8, **parameters)
        assert protocol.guarantee.honest == honest_users(2000, 0.8)
        epsilon0 = protocol.randomizer.epsilon0
        assert epsilon0 > 2
        assert delta_of(module, epsilon0, parameters) <= 1e-6
        assert delta_of(module, 1.002 * epsilon0, parameters) > 1e-6

    def test_half_of_the_users(self, module, parameters):
        protocol = module.make(n=2000, epsilon=1.0, delta=1e-6, honest=1.0, **parameters)
        half = protocol.guarantee_if(honest=0.5)
        assert half.delta == 1e-6
        assert 1.0 < half.epsilon <= protocol.local_floor.epsilon
        assert protocol.guarantee_if(honest=1.0) == protocol.guarantee

    def test_no_amplification_is_the_local_protocol(self, module, parameters):
        """With a handful of users and a tiny delta nothing but the local guarantee is left."""
        protocol = module.make(n=3, epsilon=1.0, delta=1e-9, honest=1.0, **parameters)
        assert protocol.randomizer.epsilon0 == pytest.approx(1.0, rel=0.05)


def delta_of(module, epsilon0, parameters):
    randomizer = module.make_local(epsilon=epsilon0, **parameters).randomizer
    return profile(randomizer=randomizer, n=1600, honest=1).delta(1.0)


def test_safe_epsilon0_can_be_several_intervals():
    """A search for one end stops too early; `make` goes on where the number of blocks changes."""
    k, delta = 1000, 1e-7
    found = hadamard.make(n=1000, epsilon=1.0, delta=delta, honest=1.0, k=k)
    crowd, promise = Crowd(n=1000, honest=1.0), Promise(epsilon=1.0, delta=delta)
    first = fit(hadamard.make_local, crowd, promise, k=k)
    between = np.linspace(first.device.epsilon0, found.randomizer.epsilon0, 20)[1:-1]
    assert max(delta_at(k, e) for e in between.tolist()) > delta
    assert delta_at(k, found.randomizer.epsilon0) <= delta
    assert found.randomizer.blocks > first.device.blocks
    assert mean_variance(found.analyzer, k) < 0.98 * mean_variance(first.analyzer, k)


def delta_at(k, epsilon0):
    randomizer = hadamard.make_local(k=k, epsilon=epsilon0).randomizer
    return profile(randomizer=randomizer, n=1000, honest=1).delta(1.0)


def mean_variance(analyzer, k):
    return analyzer.variance(np.ones(k, dtype=np.int64)).mean()


def test_a_promise_that_does_not_hold_is_refused():
    """With room for its words it holds at the delta that the law reaches, and without it does not."""
    local = rr.make_local(epsilon=4.0)
    reached = profile(randomizer=local.randomizer, n=1000, honest=1).delta(0.5)

    @rr.make_local.shuffle
    def make(crowd, promise):
        return certify(local, crowd, promise)

    given = {"n": 1000, "epsilon": 0.5, "honest": 1.0}
    enough = math.nextafter(reached, 1)
    assert make(delta=enough, **given).guarantee.delta == enough
    with pytest.raises(sdp.UnsupportedError, match="do not hold"):
        make(delta=reached, **given)


COUNTED = [
    (rr, {}, [600, 400]),
    (rr, {}, [1000, 0]),
    (krr, {"k": 4}, [400, 300, 200, 100]),
    (symmetric_unary, {"k": 4}, [400, 300, 200, 100]),
    (optimized_unary, {"k": 4}, [400, 300, 200, 100]),
    pytest.param(hadamard, {"k": 4}, [400, 300, 200, 100], marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "parameters", "thousands"), COUNTED)
def test_intervals_cover(module, parameters, thousands):
    data = 1000 * np.array(thousands)
    n, runs = int(data.sum()), 2000
    protocol = module.make(n=n, epsilon=1.0, delta=1e-6, **parameters)
    words = sdp.SeededWords(21)
    truth = data[-1]  # the number of ones, or the last category
    hits = 0
    for _ in range(runs):
        low, high = protocol.analyzer.estimate(protocol.randomizer.deal(data, words)).interval(0.95)
        hits += np.atleast_1d(low)[-1] <= truth <= np.atleast_1d(high)[-1]
    assert stats.binom.cdf(hits, runs, 0.945) > ALPHA
    # A count of 0 or n can be missed on one side only.
    most = 0.955 if 0 < truth < n else 0.98
    if module is hadamard:  # several blocks: a bound, not the law
        most = 0.99
    assert stats.binom.sf(hits, runs, most) > ALPHA
