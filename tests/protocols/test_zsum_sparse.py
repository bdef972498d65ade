"""Sparse zsum: the mirror of zsum, figures of the tables, coverage, mean squared error."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp.core.analyzer import Tally
from shuffledp.protocols import zsum, zsum_sparse
from shuffledp.protocols.zsum import Zsum


def made(n, epsilon, delta, **more):
    return zsum_sparse.make(n=n, epsilon=epsilon, delta=delta, **{"honest": 1.0, **more})


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "rmse"),
    [
        (10**3, 1.0, 1e-6, 5.7),
        (10**3, 1.0, 1e-10, 7.9),
        (10**3, 2.0, 1e-6, 4.1),
        (10**6, 0.1, 1e-6, 37.5),
        (10**6, 0.1, 1e-10, 56.0),
        (10**6, 1.0, 1e-6, 5.8),
        (10**9, 1.0, 1e-10, 8.1),
    ],
)
def test_table_of_counting(n, epsilon, delta, rmse):
    protocol = made(n, epsilon, delta)
    assert math.sqrt(protocol.analyzer.variance(np.array([n, 0]))) == pytest.approx(rmse, abs=0.06)
    assert protocol.cost.messages_mean < 1.07


@pytest.mark.parametrize("calibration", ["exact", "paper"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_same_noise_and_privacy_as_the_dense_one(calibration, epsilon):
    sparse = made(50_000, epsilon, 1e-6, calibration=calibration)
    dense = zsum.make(n=50_000, epsilon=epsilon, delta=1e-6, honest=1.0, calibration=calibration)
    assert sparse.randomizer.gamma == dense.randomizer.gamma
    assert sparse.guarantee == dense.guarantee


@pytest.mark.parametrize(("epsilon", "factor"), [(1.0, 20), (0.1, 45)])
def test_variance_against_the_paper(epsilon, factor):
    inputs = np.array([10**6, 0])
    paper, exact = (
        made(10**6, epsilon, 1e-6, calibration=rule).analyzer.variance(inputs)
        for rule in ("paper", "exact")
    )
    assert paper >= factor * exact


def test_a_billion_users():
    protocol = made(10**9, 1.0, 1e-10)
    assert protocol.guarantee.delta <= 1e-10
    assert protocol.analyzer.variance(np.array([0, 10**9])) == pytest.approx(65.08, rel=2e-3)


def test_mean_squared_error_and_a_mutant():
    protocol = made(3000, 1.0, 1e-4)
    codes = np.arange(3000) % 2
    terms = squared_errors(protocol.randomizer, protocol, codes, runs=1500, seed=5)
    assert is_the_variance(terms)
    mutant = Zsum(threshold=int(protocol.randomizer.threshold * (1.1 + resolution(terms))))
    assert not is_the_variance(squared_errors(mutant, protocol, codes, runs=1500, seed=5))


@pytest.mark.parametrize(("n", "epsilon", "delta"), [(10**6, 1.0, 1e-6), (10**4, 0.3, 1e-8)])
def test_coverage(n, epsilon, delta):
    """Exactly, from the law."""
    protocol = made(n, epsilon, delta)
    gamma, truth = float(protocol.randomizer.gamma), n // 3
    N = np.arange(int(binom.isf(1 - 1e-12, n, gamma)), int(binom.isf(1e-12, n, gamma)) + 1)
    for name, most in (("interval", 0.955), ("exact_interval", 0.97)):
        hit = []
        for noise in N.tolist():
            estimate = protocol.analyzer.estimate(Tally(counts=np.array([truth + noise]), users=n))
            low, high = getattr(estimate, name)(0.95)
            hit.append(low <= truth <= high)
        assert 0.95 - 1e-9 <= binom.pmf(N, n, gamma)[hit].sum() <= most


def test_message_is_checked():
    with pytest.raises(sdp.ParameterError, match="message"):
        made(100, 2.0, 1e-3).analyzer.weights(0)
