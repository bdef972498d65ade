"""Correlated noise with a part missing, against the two-dimensional sum."""

import math

import numpy as np
import pytest
from scipy import stats

from shuffledp.accounting.correlated import CorrelatedNoise, NegativeBinomialFlood, ThinnedNoise


def brute_force(star, share, r, p_flood, epsilon, size=90):
    """Both divergences from the joint law of (a, b), every cell."""
    p = math.exp(-star)
    z = np.arange(size)
    q = stats.nbinom.pmf(z, share, 1 - p)
    f = stats.nbinom.pmf(z, r, 1 - p_flood)
    joint = np.zeros((2 * size, 2 * size))
    for flood in range(size):
        joint[flood : flood + size, flood : flood + size] += f[flood] * np.outer(q, q)
    moved = np.roll(joint, 1, axis=0)
    factor = math.exp(epsilon)
    losing = np.maximum(joint - factor * moved, 0).sum()
    gaining = np.maximum(moved - factor * joint, 0).sum()
    return losing, gaining


@pytest.mark.parametrize("share", [1.0, 0.95, 0.5, 0.2])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0])
def test_equals_the_two_dimensional_sum(share, epsilon):
    losing, gaining = brute_force(0.9, share, 3.0, 0.6, epsilon)
    noise = ThinnedNoise(epsilon_star=0.9, share=share, flood=NegativeBinomialFlood(r=3.0, p=0.6))
    assert losing - 1e-13 <= noise.bound_losing(epsilon) <= losing * (1 + 1e-6) + 1e-9
    assert gaining - 1e-13 <= noise.bound_gaining(epsilon) <= gaining * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("epsilon", [0.0, 0.02])
@pytest.mark.parametrize(
    ("star", "share", "r", "p"), [(0.2, 0.6, 0.04, 0.2), (0.15, 0.85, 4.6, 0.04)]
)
def test_little_noise_gains_on_both_sides(star, share, r, p, epsilon):
    """With little of a flood the shift also raises the diagonals that it moves towards."""
    losing, gaining = brute_force(star, share, r, p, epsilon, size=200)
    noise = ThinnedNoise(epsilon_star=star, share=share, flood=NegativeBinomialFlood(r=r, p=p))
    assert losing - 1e-13 <= noise.bound_losing(epsilon) <= losing * (1 + 1e-6) + 1e-9
    assert gaining - 1e-13 <= noise.bound_gaining(epsilon) <= gaining * (1 + 1e-6) + 1e-9


def test_the_whole_noise_is_that_of_the_formula():
    flood = NegativeBinomialFlood(r=20.0, p=0.85)
    thinned = ThinnedNoise(epsilon_star=0.8, share=1.0, flood=flood)
    whole = CorrelatedNoise(epsilon_star=0.8, flood=flood)
    assert thinned.bound_losing(1.0) == pytest.approx(whole.bound_losing(1.0), rel=1e-6)
    assert thinned.bound_gaining(0.9) == 0.0


def test_falls_with_the_share():
    deltas = []
    for share in (0.2, 0.5, 0.8, 0.95, 1.0):
        flood = NegativeBinomialFlood(r=17.6 * share, p=0.9445)
        noise = ThinnedNoise(epsilon_star=0.9, share=share, flood=flood)
        deltas.append(max(noise.bound_losing(1.0), noise.bound_gaining(1.0)))
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] < 1.1e-6
