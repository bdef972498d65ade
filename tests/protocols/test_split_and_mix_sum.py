"""delta of a sum with shared noise, against sums over the law itself."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import nbinom

from shuffledp import ParameterError
from shuffledp.protocols.split_and_mix.noise import (
    NoiseShare,
    ideal_delta,
    sampled_delta,
    small_delta,
)


def divergence(masses, shift, epsilon):
    moved = np.zeros(len(masses))
    moved[shift:] = masses[:-shift]
    return np.maximum(masses - np.exp(epsilon) * moved, 0.0).sum()


@pytest.mark.parametrize(
    ("made_for", "reach", "shape"),
    [(1.0, 1, 0.5), (1.0, 20, 0.9), (0.5, 7, 0.3), (2.0, 33, 0.99), (1.0, 20, 1.0)],
)
@pytest.mark.parametrize("part", [1.0, 0.9, 0.3, 0.0])
def test_ideal_delta_is_the_divergence_and_the_largest_shift_is_the_worst(
    made_for, reach, shape, part
):
    """Noise that was made for an epsilon, at that epsilon and below."""
    rate, epsilon = made_for / reach, part * made_for
    one = nbinom.pmf(np.arange(int(100 / rate)), shape, -np.expm1(-rate))
    masses = np.convolve(one, one[::-1])
    exact = divergence(masses, reach, epsilon)
    found = ideal_delta(
        epsilon=epsilon, reach=reach, rate=Fraction(made_for) / reach, shape=Fraction(shape)
    )
    if part == shape == 1:
        assert found == 0
        return
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-9)
    assert all(divergence(masses, shift, epsilon) <= exact for shift in range(1, reach))


def test_a_larger_epsilon_or_more_shares_never_hurt():
    given = {"reach": 50, "rate": Fraction(1, 50)}
    at = [ideal_delta(epsilon=e, shape=Fraction(9, 10), **given) for e in (0.0, 0.4, 1.0, 1.5, 9.0)]
    assert at[0] > at[1] > at[2] == at[3] == at[4] > 0
    more = [ideal_delta(epsilon=0.4, shape=Fraction(h, 10), **given) for h in (9, 10, 11, 30)]
    assert more[0] > more[1] == more[2] == more[3] > 0


def test_every_missing_share_costs():
    deltas = [
        ideal_delta(epsilon=1.0, reach=10_000, rate=Fraction(1, 10_000), shape=Fraction(h, 1000))
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


@pytest.mark.parametrize("shape", [Fraction(0), Fraction(-1, 2)])
def test_nobody_hides_nothing(shape):
    with pytest.raises(ParameterError, match="shape"):
        ideal_delta(epsilon=1.0, reach=10, rate=Fraction(1, 10), shape=shape)
