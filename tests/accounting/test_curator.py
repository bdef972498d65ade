"""What each of several answers of a curator may spend: exact sums over all outcomes, and the noise itself."""

import itertools
import math

import pytest

from shuffledp.accounting.rules import Release, compose_bits, share
from shuffledp.core.protocol import Promise


def enumerate_bits(bits, epsilon):
    """delta of independent bits, each kept with the odds e^epsilon0, by all outcomes."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=len(bits)):
        loss = sum(sign * bit for sign, bit in zip(signs, bits, strict=True))
        mass = math.prod(1 / (1 + math.exp(-s * b)) for s, b in zip(signs, bits, strict=True))
        total += mass * max(0.0, -math.expm1(epsilon - loss))
    return total


@pytest.mark.parametrize(
    ("singles", "histograms"), [(1, 0), (0, 1), (3, 0), (0, 3), (2, 2), (4, 1)]
)
@pytest.mark.parametrize("epsilon0", [0.1, 0.7, 3.0])
def test_all_outcomes(singles, histograms, epsilon0):
    bits = [epsilon0] * singles + [epsilon0 / 2] * (2 * histograms)
    for epsilon in (0.0, 0.3, 1.1, 2.5):
        wanted = enumerate_bits(bits, epsilon)
        releases = [Release(1, False)] * singles + [Release(1, True)] * histograms
        found = compose_bits(epsilon0, releases, epsilon=epsilon)
        assert wanted * (1 - 1e-12) - 1e-15 <= found <= wanted * (1 + 1e-6) + 1e-15


def test_two_bits_dominate_a_histogram_with_geometric_noise():
    """Both bins that a person moves, over all outcomes of discrete Laplace noise with epsilon0 / 2 each."""
    epsilon0, reach = 1.0, 60
    ratio = math.exp(-epsilon0 / 2)
    law = {z: (1 - ratio) / (1 + ratio) * ratio ** abs(z) for z in range(-reach, reach + 1)}
    for epsilon in (0.0, 0.4, 0.8):
        true = sum(
            max(0.0, law[a] * law[b] - math.exp(epsilon) * law.get(a - 1, 0) * law.get(b + 1, 0))
            for a, b in itertools.product(range(-reach + 1, reach), repeat=2)
        )
        bound = compose_bits(epsilon0, [Release(1, True)], epsilon=epsilon)
        assert 0.9 * bound < true <= bound + 1e-9


@pytest.mark.parametrize("delta", [0.0, 1e-8, 1e-3])
@pytest.mark.parametrize(("singles", "histograms"), [(1, 0), (2, 0), (0, 8), (5, 40)])
def test_shares_keep_the_promise_and_waste_little(singles, histograms, delta):
    releases = [Release(1, False)] * singles + [Release(1, True)] * histograms
    check_share(releases, delta)


def check_share(releases, delta):
    """Whatever the weights are, the promise is kept, and no more than needed is left."""
    epsilon0 = share(Promise(epsilon=1.0, delta=delta), releases)
    assert epsilon0 * sum(each.weight for each in releases) >= 1.0 - 1e-12
    assert compose_bits(epsilon0, releases, epsilon=1.0) <= delta
    if delta and len(releases) > 1:
        assert compose_bits(epsilon0 * 1.01, releases, epsilon=1.0) > delta


@pytest.mark.parametrize("delta", [0.0, 1e-8, 1e-3])
def test_weights(delta):
    """A release of weight w is a bit with w times the epsilon; a histogram two bits with half of that."""
    releases = [Release(3, False), Release(1, True), Release(2, False)]
    for epsilon in (0.0, 0.4, 1.7):
        wanted = enumerate_bits([1.2, 0.2, 0.2, 0.8], epsilon)
        found = compose_bits(0.4, releases, epsilon=epsilon)
        assert wanted * (1 - 1e-12) - 1e-15 <= found <= wanted * (1 + 1e-6) + 1e-15
    check_share(releases * 10, delta)
