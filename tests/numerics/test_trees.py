"""Fitted trees against least squares by brute force."""

import numpy as np
import pytest

from shuffledp.numerics.trees import (
    aggregate,
    fit_leaves,
    functional_variance,
    prefix_variances,
)

SHAPES = [((3, 2, 4), (1.3, 0.7, 2.1)), ((5,), (2.0,)), ((2, 2, 2, 2), (1.0, 1.0, 4.0, 1.0))]


def normal_equations(shape, variances):
    """Measurements of all nodes, and the inverse of the matrix of least squares with a known total."""
    leaves = int(np.prod(shape))
    rows, weights = [], []
    for level, variance in enumerate(variances, start=1):
        nodes = int(np.prod(shape[:level]))
        rows += list(np.repeat(np.eye(nodes), leaves // nodes, axis=1))
        weights += [1 / variance] * nodes
    measured, weights = np.array(rows), np.array(weights)
    matrix = np.zeros((leaves + 1, leaves + 1))
    matrix[:leaves, :leaves] = measured.T @ (weights[:, None] * measured)
    matrix[leaves, :leaves] = matrix[:leaves, leaves] = 1
    return measured, weights, np.linalg.inv(matrix)


@pytest.mark.parametrize(("shape", "variances"), SHAPES)
def test_fit_is_least_squares(shape, variances):
    measured, weights, inverse = normal_equations(shape, variances)
    leaves = measured.shape[1]
    noisy = np.random.default_rng(1).normal(size=len(measured))
    wanted = inverse @ np.append(measured.T @ (weights * noisy), 7.0)
    levels = np.split(noisy, np.cumsum(np.cumprod(shape))[:-1])
    found = fit_leaves(levels, 7.0, variances)
    np.testing.assert_allclose(found, wanted[:leaves], atol=1e-10)
    assert found.sum() == pytest.approx(7.0)


@pytest.mark.parametrize(("shape", "variances"), SHAPES)
def test_variances_are_those_of_least_squares(shape, variances):
    measured, _, inverse = normal_equations(shape, variances)
    leaves = measured.shape[1]
    covariance = inverse[:leaves, :leaves]
    found = prefix_variances(shape, variances)
    for c in range(leaves):
        q = (np.arange(leaves) <= c).astype(float)
        assert found[c] == pytest.approx(q @ covariance @ q, abs=1e-10)
    q = np.random.default_rng(2).normal(size=leaves)
    assert functional_variance(q, shape, variances) == pytest.approx(q @ covariance @ q)


@pytest.mark.parametrize(
    ("shape", "mu", "average", "largest"),
    [
        ((8,) * 4, 211.0, 30.5, 37),
        ((16,) * 3, 159.76, 34, 42),
        ((16,) * 4, 211.0, 45, 55),
        ((256,) * 2, 109.35, 96, 118),
    ],
)
def test_errors_of_ranks(shape, mu, average, largest):
    """QUERIES section 3."""
    found = prefix_variances(shape, (mu,) * len(shape))
    assert np.sqrt(found.mean()) == pytest.approx(average, rel=0.012)
    assert np.sqrt(found.max()) == pytest.approx(largest, rel=0.012)


def test_missing_leaves_are_empty():
    top, bottom = aggregate(np.array([1, 2, 3]), (2, 2))
    assert top.tolist() == [3, 3]
    assert bottom.tolist() == [1, 2, 3, 0]
