"""The data set that the planner finds is the worst one: compared with all of them, or with very many."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest

from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.mechanisms import stability_histogram
from shuffledp.planner.question import Problem, candidates
from shuffledp.planner.rows import mean_squared_error, measure, worst_case
from shuffledp.tasks import TASKS

NUMBERS = {"n": 400, "epsilon": 1.0, "delta": 1e-3, "honest": 0.9}
ASKED = (
    Problem.of("count", **NUMBERS),
    Problem.of("mean", **NUMBERS, lower=0.0, upper=1.0, steps=200),
    Problem.of("histogram", **NUMBERS, k=10),
)
SLOW = ("pure_count", "zero_sum_flooding")
CASES = [
    pytest.param(asked, each, id=f"{asked.task.name}-{each.model.value}-{each.name}")
    for asked in ASKED
    for each in candidates(asked.task)
    if each.name not in SLOW
]


def made(asked, candidate):
    return candidate.make(asked)


@pytest.mark.parametrize(("asked", "candidate"), CASES)
def test_no_data_set_is_worse(asked, candidate):
    """All with one value, and random ones of every sparsity."""
    protocol = made(asked, candidate)
    if not isinstance(protocol, ShuffleProtocol):
        return
    size, n = asked.domain.size, asked.n
    worst = worst_case(protocol, n=n, size=size, bins=TASKS[protocol.task].bins)
    assert worst.inputs.sum() == n
    assert worst.mse == pytest.approx(mean_squared_error(protocol, worst.inputs))
    rng = np.random.default_rng(3)
    others = [n * row for row in np.eye(size, dtype=np.int64)]
    others += [rng.multinomial(n, rng.dirichlet(np.full(size, s))) for s in (0.01, 0.1, 1, 10)]
    for inputs in others:
        assert mean_squared_error(protocol, inputs) <= worst.mse * (1 + 1e-9)


@pytest.mark.parametrize("name", ["zsum", "zsum_histogram"])
def test_every_data_set_of_few_people_in_three_bins(name):
    """Biased ones are worst where few are counted as nobody; here the search is over all data sets."""
    n, k = 40, 2 if name == "zsum" else 3
    question = "count" if k == 2 else "histogram"
    asked = Problem.of(
        question, n=n, epsilon=1.5, delta=0.02, honest=1.0, **({} if k == 2 else {"k": k})
    )
    candidate = next(each for each in candidates(asked.task) if each.name == name)
    protocol = made(asked, candidate)
    assert protocol.offers.bias is not None
    found = worst_case(protocol, n=n, size=k, bins=k > 2).mse
    parts = combinations_with_replacement(range(n + 1), k - 1)
    cuts = (np.diff([0, *cut, n]) for cut in parts)
    truly = max(mean_squared_error(protocol, inputs.astype(np.int64)) for inputs in cuts)
    assert found <= truly * (1 + 1e-9)
    # Every bin at its worst count at once: what is left of the people costs the search a little.
    assert found >= 0.97 * truly


def test_the_threshold_of_stable_histograms_is_in_the_error():
    """E over the law of the noise, by summing it."""
    mechanism = stability_histogram.make(n=1000, epsilon=0.7, delta=1e-5)
    counts = np.array([0, 1, 5, mechanism.threshold - 1, mechanism.threshold, 40, 90, 1000])
    z = np.arange(-600, 601)
    a = math.exp(-0.35)
    masses = (1 - a) / (1 + a) * a ** np.abs(z)
    kept = counts[:, None] + z > mechanism.threshold
    squares = np.where(kept, z**2, (counts**2)[:, None]) * (counts > 0)[:, None]
    assert mechanism.squared_error(counts) == pytest.approx(squares @ masses, rel=1e-9)


def test_means_are_on_the_scale_of_the_sum():
    asked = ASKED[1]
    found = {each.name: each for each in candidates(asked.task) if each.model.value == "shuffle"}
    by_sum = measure(found["split_and_mix"], asked).rmse
    noise = math.sqrt(400 / 360 * 2) * 1.0  # Laplace noise of the honest users, all users' noise
    assert by_sum == pytest.approx(noise, rel=1e-3)
