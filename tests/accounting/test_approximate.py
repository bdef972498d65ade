"""(epsilon0, delta0)-local randomizers: never below exact enumeration, and what the arguments may be."""

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import shuffledp as sdp
from accounting.channels import RATIOS, krr
from shuffledp.accounting import clones
from shuffledp.accounting.clones import ApproximateClones, Clones, clones_2023
from shuffledp.accounting.exact import local_delta, shuffled_delta
from support import first

F = Fraction


def leaky_channel(rng):
    """Two or three inputs, some of whose messages are impossible for others."""
    shape = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    weights = rng.integers(0, 9, shape) * (rng.random(shape) < 0.85)
    weights[:, 0] += 1
    return [{(y,): F(int(w), int(row.sum())) for y, w in enumerate(row) if w} for row in weights]


def outspoken_channel(rng, p):
    """Randomized response that now and then sends the input in the clear."""
    leak, k = F(int(rng.integers(1, 20)), 100), int(rng.integers(2, 4))
    return [
        {y: q * (1 - leak) for y, q in law.items()} | {(k + x,): leak}
        for x, law in enumerate(krr(k, p))
    ]


def above(x) -> float:
    return math.nextafter(float(x), 99)


def excess(laws, p, n: int, E, make=ApproximateClones) -> float:
    """The exact delta over the bound: at most 1, if the bound is one."""
    delta0 = local_delta(laws, p)
    bound = make(epsilon0=above(math.log(p)), delta0=above(delta0) if delta0 else 0.0, n=n)
    return float(shuffled_delta(laws, n, E)) / max(
        bound.delta(math.log(E) * (1 - 1e-15) if E > 1 else 0.0), 1e-300
    )


def sweep(seed: int, channels: int, make=ApproximateClones) -> float:
    rng = np.random.default_rng(seed)
    worst = 0.0
    for index in range(channels):
        p = RATIOS[index % len(RATIOS)]
        laws = outspoken_channel(rng, p) if index % 3 == 0 else leaky_channel(rng)
        E = 1 + (p - 1) * F(int(rng.integers(0, 24)), 20)  # beyond p, too
        worst = max(worst, excess(laws, p, int(rng.integers(2, 5)), E, make))
    return worst


@pytest.mark.parametrize("channels", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_channels(channels):
    assert 0.9 < sweep(seed=20_210_401, channels=channels) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_many_more_channels(seed):
    assert sweep(seed, channels=1500) <= 1


class Forgetful:
    """The pure bound: without what one message may give away."""

    def __init__(self, *, epsilon0, delta0, n):
        self.delta = clones_2023(epsilon0=epsilon0, n=n).delta


class Crowded:
    """Too many clones."""

    def __init__(self, *, epsilon0, delta0, n):
        rho = min(0.999, 1.05 * 2 / (math.exp(epsilon0) + 1))
        pure = Clones(epsilon0=epsilon0, n=n, rho=rho)
        self.delta = lambda epsilon: delta0 + (1 - delta0) * pure.delta(epsilon)


@pytest.mark.parametrize("mutant", [Forgetful, Crowded])
def test_less_would_be_wrong(mutant):
    assert sweep(seed=20_210_401, channels=150, make=mutant) > 1


def test_without_delta0_it_is_the_pure_bound():
    for epsilon0, n in ((0.1, 1000), (1.0, 10**4), (4.0, 10**6)):
        mine, pure = (
            ApproximateClones(epsilon0=epsilon0, delta0=0.0, n=n),
            clones_2023(epsilon0=epsilon0, n=n),
        )
        assert mine.epsilon(1e-6) == pytest.approx(pure.epsilon(1e-6), rel=1e-5)


@pytest.mark.parametrize(
    ("epsilon0", "delta0", "n"), [(20.0, 1e-6, 10**12), (1.0, 1e-10, 10**4), (8.0, 1e-8, 10**6)]
)
def test_delta_falls_with_epsilon(epsilon0, delta0, n):
    """Through the range where the theorem itself is above 1, too."""
    curve = ApproximateClones(epsilon0=epsilon0, delta0=delta0, n=n)
    found = [curve.delta(epsilon0 * i / 40) for i in range(41)]
    assert all(a >= b for a, b in pairwise(found))
    assert found[0] <= 1
    assert found[-1] == delta0


@pytest.mark.parametrize(
    ("epsilon0", "delta0", "n", "epsilon"), [(1.0, 1e-4, 5000, 0.3), (3.0, 1e-3, 200, 1.0)]
)
def test_the_bound_is_that_of_the_theorem(epsilon0, delta0, n, epsilon):
    """Term by term, where none of them is negligible: exact channels are too small to need all of them."""
    p, E = math.exp(epsilon0), math.exp(epsilon)
    eta = 2 * delta0 / p
    growth = (1 + 2 * eta) ** (n - 1) - 1
    rho = 2 / (p + 1) * (1 - delta0) / (1 + 2 * eta)
    shuffled = Clones(epsilon0=epsilon0, n=n, rho=rho).delta(epsilon)
    wanted = delta0 + (1 - delta0) * ((1 + growth) * shuffled + (E - 1) * growth / 2)
    curve = ApproximateClones(epsilon0=epsilon0, delta0=delta0, n=n)
    assert curve._of(n, epsilon) == pytest.approx(wanted, rel=1e-9)
    assert growth * (E - 1) / 2 > 1e-3 * wanted


def test_chords_start_before_they_are_used(monkeypatch):
    curve = ApproximateClones(epsilon0=20.0, delta0=1e-6, n=10**12)
    monkeypatch.setattr(clones, "_find_turn", lambda *_: (19.0, 0.0))
    assert curve.delta(18.0) > 1e-5


def test_a_large_epsilon0_is_amplified_up_to_its_end():
    curve = ApproximateClones(epsilon0=20.0, delta0=1e-6, n=10**12)
    assert 1e-6 < curve.delta(18.0) < curve.delta(15.0) < 1.3e-4


ask = partial(sdp.amplify, n=10_000, delta=1e-6, honest=1)


def test_epsilon_grows_with_delta0_up_to_epsilon0():
    found = [ask(epsilon0=1.0, delta0=d).epsilon for d in (0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)]
    assert all(a < b for a, b in pairwise(found))
    assert found[-1] == 1.0
    assert found[3] < 1.04 * found[0]


def test_it_is_below_the_usual_form_and_above_the_lower_bound():
    for epsilon0, n, delta0 in ((0.5, 1000, 1e-10), (1.0, 10**4, 3e-11), (3.0, 10**6, 1e-13)):
        curve = sdp.profile(epsilon0=epsilon0, delta0=delta0, n=n, honest=1)
        epsilon = curve.epsilon(1e-6)
        usual = clones_2023(epsilon0=epsilon0, n=n).delta(epsilon)
        usual += (math.exp(epsilon) + 1) * (1 + math.exp(-epsilon0) / 2) * n * delta0
        assert curve.delta(epsilon) < usual
        assert (
            sdp.amplify_lower(epsilon0=epsilon0, delta0=delta0, n=n, delta=1e-6, honest=1)
            <= epsilon
        )


def test_the_lower_bound_is_that_of_an_outspoken_randomizer():
    pure = sdp.amplify_lower(epsilon0=1.0, n=1000, delta=1e-6, honest=1)
    some = sdp.amplify_lower(epsilon0=1.0, delta0=5e-7, n=1000, delta=1e-6, honest=1)
    half = sdp.amplify_lower(epsilon0=1.0, n=1000, delta=5e-7, honest=1)
    assert pure < some
    assert some == pytest.approx(half, rel=1e-5)


def test_a_calibrated_epsilon0_keeps_the_promise():
    epsilon0 = sdp.calibrate(epsilon=0.1, delta=1e-6, delta0=1e-10, n=10_000, honest=1)
    pure = sdp.calibrate(epsilon=0.1, delta=1e-6, n=10_000, honest=1)
    assert 0.95 * pure < epsilon0 < pure
    assert ask(epsilon0=epsilon0, delta0=1e-10).epsilon <= 0.1
    assert sdp.calibrate(epsilon=0.1, delta=1e-6, delta0=1e-6, n=10_000) == 0.1


def test_a_delta_below_delta0_is_refused():
    with pytest.raises(sdp.UnsupportedError, match=r"delta=1e-06 is below delta0=1e-05"):
        ask(epsilon0=1.0, delta0=1e-5)
    with pytest.raises(sdp.UnsupportedError):
        ask(epsilon0=1.0, delta0=1e-5, delta=0)
    with pytest.raises(sdp.ParameterError, match=r"delta0=1e-05 must be <= delta = 1e-06"):
        sdp.calibrate(epsilon=0.1, delta=1e-6, delta0=1e-5, n=100)
    with pytest.raises(sdp.ParameterError, match=r"must be > delta0"):
        sdp.amplify_lower(epsilon0=1.0, delta0=1e-5, n=100, delta=1e-5)


@pytest.mark.parametrize("delta0", [-1e-9, 1.0, float("nan"), "0"])
def test_delta0_is_checked(delta0):
    with pytest.raises(sdp.ParameterError, match="delta0"):
        ask(epsilon0=1.0, delta0=delta0)


def test_delta0_goes_with_epsilon0_alone():
    with pytest.raises(sdp.ParameterError, match="not with total_variation"):
        ask(epsilon0=1.0, delta0=1e-9, total_variation=0.1)
    with pytest.raises(sdp.ParameterError, match="not with randomizer"):
        ask(randomizer=sdp.protocols.rr.RR(epsilon0=1.0), delta0=1e-9)


@pytest.mark.parametrize("n", [1, 2, 10**12])
@pytest.mark.parametrize("delta0", first([0.5, 1e-6, 1e-300]))
def test_extremes_are_bounds_between_delta0_and_1(n, delta0):
    for epsilon0 in (1e-6, 1.0, 20.0):
        curve = sdp.profile(epsilon0=epsilon0, delta0=delta0, n=n, honest=1)
        values = [curve.delta(share * epsilon0) for share in (0, 0.01, 0.5, 0.99, 1)]
        assert all(delta0 <= value <= 1 for value in values)
        assert values[-1] == delta0
