"""Tails of weighted noise: never below the true ones, and hardly above."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from shuffledp.numerics.tree_noise import (
    BoundedNoise,
    DummyNoise,
    GeometricNoise,
    IndependentLevels,
    OneLevelEach,
    find_radius,
)
from shuffledp.numerics.trees import LevelWeights, node_weights, prefix_weights

SHAPE = (2, 2)


def exact_law(noise, weights):
    """Values of a sum of leaves and their probabilities, over every outcome of every level."""
    values, masses = np.zeros(1), np.ones(1)
    for level, own in zip(noise.levels, weights, strict=True):
        each = np.repeat(own.values[0], own.counts[0].astype(int))
        if isinstance(level, DummyNoise):
            for number, hit in level.tries:
                for _ in range(number):
                    moved = np.append(each, 0.0)
                    share = np.append(np.full(len(each), hit), 1 - hit * len(each))
                    values, masses = spread(values, masses, moved - hit * each.sum(), share)
        else:
            z = np.arange(-60, 61)
            share = np.exp(-level.rate * np.abs(z)) * np.tanh(level.rate / 2)
            for weight in each:
                values, masses = spread(values, masses, weight * z, share)
    return values, masses


def spread(values, masses, moves, shares):
    added = (values[:, None] + moves).ravel().round(9)
    kept, where = np.unique(added, return_inverse=True)
    return kept, np.bincount(where, weights=(masses[:, None] * shares).ravel())


def dummies(number):
    return IndependentLevels(
        levels=tuple(DummyNoise(tries=((number, 0.4 / k), (3, 0.1 / k))) for k in (2, 4))
    )


LAPLACE = IndependentLevels(levels=(GeometricNoise(rate=0.9),) * 2)


def weights_of(noise, q):
    return node_weights(np.array(q, dtype=float), SHAPE, noise.variances)


@pytest.mark.parametrize(
    "noise", [dummies(5), dummies(12), LAPLACE], ids=["few", "some", "laplace"]
)
@pytest.mark.parametrize("q", [[1], [1, 1], [1, 1, 1], [-2, 1, 0, 5]])
def test_tails_are_never_too_small(noise, q):
    weights = weights_of(noise, q)
    values, masses = exact_law(noise, weights)
    tails = noise.tails(weights)
    assert tails.deviation[0] ** 2 == pytest.approx((masses * values**2).sum(), rel=0.3)
    for x in np.linspace(0.01, 12 * tails.deviation[0], 120):
        true = masses[values >= x - 1e-9].sum()
        assert tails.above(np.array([x]))[0] >= true
        assert tails.screen(np.array([x]))[0] >= true


def test_far_tails_are_never_too_small():
    """Up to twenty deviations, where Chernoff's bound stands alone and is hardly larger than the truth."""
    one = LevelWeights(values=np.array([[1.0]]), counts=np.array([[1.0]]))
    tails = IndependentLevels(levels=(DummyNoise(tries=((10**6, 1e-4),)),)).tails((one,))
    for x in (30.0, 60.0, 100.0, 150.0, 200.0):
        true = stats.binom.sf(100 + x - 1, 10**6, 1e-4)
        assert true <= tails.above(np.array([x]))[0] < 100 * true


def test_half_of_the_noise_would_be_seen():
    """The mutant of the test above."""
    weights, less = weights_of(dummies(12), [1]), dummies(4)
    values, masses = exact_law(dummies(12), weights)
    tails = less.tails(weights)
    grid = np.linspace(0.01, 4 * tails.deviation[0], 80)
    assert any(tails.above(np.array([x]))[0] < masses[values >= x].sum() for x in grid)


def test_radii_are_nearly_those_of_the_law():
    noise = IndependentLevels(
        levels=tuple(DummyNoise(tries=((160 * 8**i, 8.0**-i),)) for i in (1, 2, 3))
    )
    cells = np.array([0, 77, 200, 300])
    weights = prefix_weights(cells, (8, 8, 8), noise.variances)
    tails = noise.tails(weights)
    for tail in (0.16, 0.025, 1e-3):
        radius = find_radius(tails, tail, tails.deviation)
        assert np.all(tails.above(radius) <= tail)
        ratio = radius / tails.deviation / stats.norm.isf(tail)
        assert np.all((ratio > 0.99) & (ratio < 1.09))
    far = find_radius(tails, 1e-12, tails.deviation) / tails.deviation
    assert np.all((far > 7) & (far < 9))


def test_one_level_each_is_bernsteins_inequality():
    noise = OneLevelEach(n=1000, shares=(0.5, 0.5), gain=0.5)
    assert noise.variances == (8000.0, 8000.0)
    weights = weights_of(noise, [1])
    tails = noise.tails(weights)
    deviation = np.sqrt(tails.variance)
    assert tails.above(3 * deviation)[0] > stats.norm.sf(3)
    assert tails.above(np.array([-1.0]))[0] >= 1


def test_a_bounded_level_bounds_what_it_bounds():
    """Bennett's transform is above that of a sum of coins with the same variance and the largest step."""
    n, q = 200, 0.1
    one = LevelWeights(values=np.array([[1.0]]), counts=np.array([[1.0]]))
    bound = IndependentLevels(levels=(BoundedNoise(variance=n * q * (1 - q), most=2 / 3),))
    tails = bound.tails((one,))
    for x in product((1.0, 10.0, 20.0, 40.0, 60.0)):
        true = stats.binom.sf(n * q + x[0] - 1, n, q)
        assert tails.above(np.array(x))[0] >= true
    assert tails.above(np.array([25.0]))[0] < 1e-5
