"""The inverse questions: the largest epsilon0 and the smallest n, always the safe end."""

import pytest

import shuffledp as sdp
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.rr import RR

MAKERS = {
    "any": None,
    "krr": lambda epsilon0: KRR(k=16, epsilon0=epsilon0),
    "hadamard": lambda epsilon0: (
        sdp.protocols.spec("hadamard").make_local(k=20, epsilon=epsilon0).randomizer
    ),
    "piecewise": lambda epsilon0: (
        sdp.protocols.spec("piecewise")
        .make_local(lower=0, upper=1, steps=20, epsilon=epsilon0)
        .randomizer
    ),
}


def reached(maker, epsilon0, n, delta):
    if maker is None:
        return sdp.amplify(epsilon0=epsilon0, n=n, delta=delta, honest=1).epsilon
    return sdp.amplify(randomizer=maker(epsilon0), n=n, delta=delta, honest=1).epsilon


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("epsilon", "n", "delta"), [(0.5, 1_000, 1e-6), (1.0, 10**6, 1e-8), (0.01, 50_000, 1e-5)]
)
def test_safe_and_nearly_the_largest(name, epsilon, n, delta):
    maker = MAKERS[name]
    epsilon0 = sdp.calibrate(epsilon=epsilon, n=n, delta=delta, randomizer=maker, honest=1)
    assert epsilon0 > epsilon
    assert reached(maker, epsilon0, n, delta) <= epsilon
    assert reached(maker, epsilon0 * 1.001, n, delta) > epsilon


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 3.0, 8.0])
@pytest.mark.parametrize("n", [1, 2, 50, 10**9, 10**12])
def test_safe_everywhere(epsilon, n):
    epsilon0 = sdp.calibrate(epsilon=epsilon, n=n, delta=1e-10, honest=1)
    assert epsilon0 >= epsilon
    assert sdp.amplify(epsilon0=epsilon0, n=n, delta=1e-10, honest=1).epsilon <= epsilon * (
        1 + 1e-12
    )


def test_the_own_law_allows_more():
    generic = sdp.calibrate(epsilon=0.5, n=1_000, delta=1e-6, honest=1)
    assert (
        sdp.calibrate(epsilon=0.5, n=1_000, delta=1e-6, randomizer=MAKERS["krr"], honest=1)
        > generic
    )


def test_binary_response():
    epsilon0 = sdp.calibrate(
        epsilon=0.3, n=500, delta=1e-6, randomizer=lambda value: RR(epsilon0=value), honest=1
    )
    assert sdp.amplify(randomizer=RR(epsilon0=epsilon0), n=500, delta=1e-6, honest=1).epsilon <= 0.3


def test_honest_users_are_the_only_ones_that_count():
    some = sdp.calibrate(epsilon=0.5, n=2_000, delta=1e-6, honest=0.5)
    assert some == sdp.calibrate(epsilon=0.5, n=1_000, delta=1e-6, honest=1)


def test_delta_0_allows_no_more_than_the_target():
    assert sdp.calibrate(epsilon=0.7, n=10**6, delta=0, honest=1) == 0.7


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0 must be > 0"),
        ({"delta": 1.5}, "delta=1.5 must be >= 0 and < 1"),
        ({"n": 0}, "n=0 must be >= 1"),
        ({"honest": -1.0}, "honest=-1.0 must be > 0 and <= 1"),
    ],
)
def test_arguments_are_checked(changed, message):
    with pytest.raises(sdp.ParameterError) as error:
        sdp.calibrate(**({"epsilon": 1.0, "n": 100, "delta": 1e-6} | changed))
    assert str(error.value) == message


class TestSmallestN:
    @pytest.mark.parametrize(
        ("epsilon0", "epsilon", "delta"),
        [(1.0, 0.1, 1e-6), (0.5, 0.4, 1e-3), (3.0, 0.5, 1e-8), (1.0, 0.003, 1e-6)],
    )
    def test_is_exact(self, epsilon0, epsilon, delta):
        n = sdp.smallest_n(epsilon0=epsilon0, epsilon=epsilon, delta=delta, honest=1)
        assert sdp.profile(epsilon0=epsilon0, n=n, honest=1).delta(epsilon) <= delta
        assert sdp.profile(epsilon0=epsilon0, n=n - 1, honest=1).delta(epsilon) > delta

    def test_counts_everybody_when_some_are_not_honest(self):
        n = sdp.smallest_n(epsilon0=1.0, epsilon=0.1, delta=1e-6, honest=1)
        more = sdp.smallest_n(epsilon0=1.0, epsilon=0.1, delta=1e-6, honest=0.5)
        assert more == 2 * n

    def test_nobody_else_is_needed_for_the_local_guarantee(self):
        assert sdp.smallest_n(epsilon0=1.0, epsilon=1.0, delta=0, honest=1) == 1

    def test_delta_0_cannot_be_reached(self):
        with pytest.raises(sdp.UnsupportedError, match="delta = 0"):
            sdp.smallest_n(epsilon0=1.0, epsilon=0.5, delta=0, honest=1)

    def test_says_when_no_crowd_is_large_enough(self):
        with pytest.raises(sdp.UnsupportedError, match="users would be needed"):
            sdp.smallest_n(epsilon0=20.0, epsilon=1e-4, delta=1e-9, honest=1)


@pytest.mark.parametrize(
    ("epsilon", "n", "delta"),
    [
        (0.1, 3000, 1e-8),
        (0.2, 3000, 1e-8),
        (0.7, 100, 1e-4),
        (2.0, 10_000, 1e-6),
        (1.0, 10**6, 1e-8),
    ],
)
def test_room_is_left_for_the_rounding_of_amplify(epsilon, n, delta):
    """`amplify` rounds up by a part in 10^6: with so much less it must still be private."""
    epsilon0 = sdp.calibrate(epsilon=epsilon, n=n, delta=delta, honest=1)
    assert sdp.profile(epsilon0=epsilon0, n=n, honest=1).delta(epsilon * (1 - 1e-6)) <= delta
