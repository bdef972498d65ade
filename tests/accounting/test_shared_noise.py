"""delta of a sum with shared noise, against sums over the law itself."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import nbinom

from shuffledp.accounting.shared_noise import ideal_delta, sampled_delta, small_delta
from shuffledp.numerics.noise_shares import NoiseShare


def divergence(masses, shift, epsilon):
    moved = np.zeros(len(masses))
    moved[shift:] = masses[:-shift]
    return np.maximum(masses - np.exp(epsilon) * moved, 0.0).sum()


@pytest.mark.parametrize(
    ("epsilon", "reach", "shape"), [(1.0, 1, 0.5), (1.0, 20, 0.9), (0.5, 7, 0.3), (2.0, 33, 0.99)]
)
def test_ideal_delta_is_the_divergence_and_the_largest_shift_is_the_worst(epsilon, reach, shape):
    rate = epsilon / reach
    one = nbinom.pmf(np.arange(int(100 / rate)), shape, -np.expm1(-rate))
    masses = np.convolve(one, one[::-1])
    exact = divergence(masses, reach, epsilon)
    found = ideal_delta(epsilon=epsilon, reach=reach, shape=Fraction(shape))
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-9)
    assert all(divergence(masses, shift, epsilon) <= exact for shift in range(1, reach))


def test_every_missing_share_costs():
    deltas = [
        ideal_delta(epsilon=1.0, reach=10_000, shape=Fraction(h, 1000))
        for h in (1000, 999, 990, 900, 500, 1)
    ]
    assert deltas[0] == 0
    assert np.all(np.diff(deltas) > 0)
    assert deltas[-1] > 0.9


def test_sampled_law_itself_is_within_its_bound():
    share = NoiseShare(rate=Fraction(1, 4), parts=3, word_bits=8)
    for honest in (1, 2, 3, 5):
        exact = small_delta(epsilon=1.0, reach=4, share=share, honest=honest, modulus=256)
        bound = sampled_delta(epsilon=1.0, reach=4, share=share, honest=honest)
        assert 0 < exact <= bound


def test_small_delta_by_hand():
    """One user, modulo 2: the share is odd with probability p, and that is all there is."""
    share = NoiseShare(rate=Fraction(2), parts=2, word_bits=4)
    p = float(sum(mass for d, mass in share.law().items() if d % 2))
    found = small_delta(epsilon=0.5, reach=1, share=share, honest=1, modulus=2)
    assert found == pytest.approx(1 - p - np.exp(0.5) * p, rel=1e-8)
