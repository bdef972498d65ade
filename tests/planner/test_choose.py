"""The simple rule that chooses a protocol, and what it refuses."""

import numpy as np
import pytest

import shuffledp as sdp


def test_numbers_of_numpy_are_numbers():
    chosen = sdp.histogram(n=np.int64(10_000), k=np.int8(5), epsilon=np.float32(1), delta=1e-6)
    assert chosen == sdp.histogram(n=10_000, k=5, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("call", "wrong", "message"),
    [
        (sdp.count, {"epsilon": 200.0}, "epsilon=200.0 must be <= 100"),
        (sdp.count, {"delta": 0.0}, "delta=0.0 must be > 0"),
        (sdp.count, {"max_messages": 0.5}, "max_messages=0.5 must be >= 1"),
        (sdp.histogram, {"k": 1}, "k=1 must be >= 2"),
        (sdp.mean, {"lower": 0.0, "upper": 1.0}, "lower=0.0 must be an integer, unless `steps`"),
    ],
)
def test_refusals_name_the_parameter(call, wrong, message):
    fine = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6}
    extra = {sdp.histogram: {"k": 4}, sdp.mean: {"lower": 0, "upper": 1}}.get(call, {})
    with pytest.raises(sdp.ParameterError, match=message):
        call(**{**fine, **extra, **wrong})


def test_a_tighter_message_budget_takes_the_next_protocol():
    common = {"n": 100_000, "k": 1024, "epsilon": 1.0, "delta": 1e-6}
    free = sdp.histogram(**common)
    tight = sdp.histogram(**common, max_messages=3.0)
    assert free.name == "correlated_histogram"
    assert tight.name != free.name
    assert tight.cost.messages_mean <= 3.0


def test_few_users_get_something_that_works():
    assert sdp.count(n=50, epsilon=1.0, delta=1e-3).guarantee.delta <= 1e-3


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-8), (1e-5, 1e-8), (1.0, 1e-300)])
def test_extreme_guarantees_are_kept(epsilon, delta):
    """Most protocols refuse; whichever is left promises no less than was asked."""
    promised = sdp.count(n=3000, epsilon=epsilon, delta=delta).guarantee
    assert promised.epsilon <= epsilon
    assert promised.delta <= delta
