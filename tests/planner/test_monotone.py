"""More budget never gives a worse answer: the error on a file falls with epsilon, with delta and with n.

A protocol that does not exist at a large epsilon is taken at a smaller one, which keeps the promise as well. Searches
for the largest one leave about a percent open, and errors within a percent count as equal.
"""

from itertools import pairwise

import numpy as np
import pytest

from shuffledp.core.privacy import Model
from shuffledp.planner.choice import pick_for_file
from shuffledp.planner.question import Limits, Problem
from shuffledp.planner.rows import evaluate
from support import first

SLACK = 1.025
TASKS = {
    "count": {},
    "histogram": {"k": 12},
    "sum": {"lower": 0, "upper": 20},
    "mean": {"lower": 0.0, "upper": 100.0, "steps": 10_000},
}
LIMITS = Limits.of(models="shuffle")


def error_of(task, **numbers):
    """Of the mean, or of a share of the people: a total of more people may be off by more."""
    asked = Problem.of(task, honest=0.9, **{**TASKS.get(task, {}), **numbers})
    row = pick_for_file(asked, Model.SHUFFLE, lambda each: evaluate(each, asked, LIMITS))
    if row is None:
        return np.inf
    assert row.guarantee.epsilon <= asked.epsilon
    assert row.guarantee.delta <= asked.promise.delta
    return row.error / asked.n


def falls(errors):
    return all(after <= SLACK * before for before, after in pairwise(errors))


@pytest.mark.parametrize(
    ("task", "epsilons", "numbers"),
    [
        ("mean", (4, 8), {"n": 10**6, "delta": 1e-9}),
        ("histogram", (11, 12), {"n": 36_834_635, "delta": 4.2e-11, "k": 82}),
        ("count", (13, 14), {"n": 21_352, "delta": 7.9e-12}),
    ],
)
@pytest.mark.slow  # `test_choose` asks the same of every row of the plan
def test_where_a_larger_epsilon_was_wasted(task, epsilons, numbers):
    assert falls([error_of(task, epsilon=epsilon, **numbers) for epsilon in epsilons])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("n", "delta"), first([(200_000, 1e-9), (300, 1e-5)]))
@pytest.mark.parametrize(
    "epsilons",
    [
        (0.05, 1.0, 7.0, 20.0),
        pytest.param((0.05, 0.3, 1.0, 3.0, 7.0, 12.0, 20.0), marks=pytest.mark.slow),
    ],
)
def test_in_epsilon(task, n, delta, epsilons):
    errors = [error_of(task, n=n, delta=delta, epsilon=epsilon) for epsilon in epsilons]
    assert falls(errors)
    assert not falls(errors[::-1])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("epsilon", first([0.3, 6.0]))
def test_in_delta(task, epsilon):
    deltas = (1e-18, 1e-12, 1e-9, 1e-7, 1e-5)
    assert falls([error_of(task, n=20_000, epsilon=epsilon, delta=delta) for delta in deltas])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("epsilon", first([6.0, 0.3]))
def test_in_n(task, epsilon):
    users = (10, 100, 1_000, 10_000, 1_000_000)
    assert falls([error_of(task, n=n, epsilon=epsilon, delta=1e-7) for n in users])


LATER = {
    "quantiles": {"lower": 0, "upper": 63},
    "variance": {"lower": 0, "upper": 63},
    "words": {"alphabet": "letters", "max_length": 4},
}
SCALED = ("variance",)
"""What is no count of people: its error falls with n as it is."""


@pytest.mark.slow
@pytest.mark.parametrize("task", LATER)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("epsilon", (0.3, 2.0, 6.0, 12.0)),
        ("delta", (1e-12, 1e-9, 1e-6)),
        ("n", (2_000, 20_000, 200_000)),
    ],
)
def test_of_later_tasks(task, name, values):
    usual = {"n": 20_000, "epsilon": 2.0, "delta": 1e-7, **LATER[task]}
    errors = []
    for value in values:
        numbers = {**usual, name: value}
        scale = numbers["n"] if task in SCALED else 1
        errors.append(scale * error_of(task, **numbers))
    assert falls(errors)
    assert not falls(errors[::-1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_anywhere(seed):
    rng = np.random.default_rng(seed)
    task = sorted(TASKS)[seed % 4]
    numbers = {
        "n": round(10 ** rng.uniform(1, 8)),
        "epsilon": float(10 ** rng.uniform(-2, 1.3)),
        "delta": float(10 ** rng.uniform(-12, -4)),
    }
    before = error_of(task, **numbers)
    for name, factor in (("epsilon", 1.3), ("delta", 20.0), ("n", 3)):
        more = {**numbers, name: min(numbers[name] * factor, 0.5 if name == "delta" else 1e12)}
        more["n"] = int(more["n"])
        assert falls([before, error_of(task, **more)]), name
