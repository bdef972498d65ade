"""Answers of every task and model cover with the level that they state, for few people: simulated, at ALPHA.

Truths are those of the data. A task has one answer or several; each of them must cover.
"""

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from support import ALPHA

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
WAYS = ("car", "bus")
NUMBERS = {"lower": 0, "upper": 4}


def draw_people(n):
    rng = np.random.default_rng(n)
    return {
        "home": rng.random(n) < 0.3,
        "pet": rng.choice(["cat", "dog", "cow"], n, p=[0.7, 0.2, 0.1]),
        "x": np.minimum(rng.poisson(1.2, n), 4),
        "way": rng.choice(WAYS, n, p=[0.7, 0.3]),
    }


def split(people, column):
    return [people[column][people["way"] == way] for way in WAYS]


GROUPS = {"by": "way", "groups": WAYS}
TASKS = {
    "count": ("home", {}, lambda people: people["home"].sum()),
    "histogram": (
        "pet",
        {"categories": ["cat", "dog", "cow"]},
        lambda people: [np.sum(people["pet"] == pet) for pet in ("cat", "dog", "cow")],
    ),
    "sum": ("x", NUMBERS, lambda people: people["x"].sum()),
    "mean": ("x", NUMBERS, lambda people: people["x"].mean()),
    "range": ("x", {**NUMBERS, "at": [1, 2]}, lambda people: np.sum((people["x"] >= 1) & (people["x"] <= 2))),
    "cdf": ("x", {**NUMBERS, "at": [1, 3]}, lambda people: [np.mean(people["x"] <= at) for at in (1, 3)]),
    "variance": ("x", NUMBERS, lambda people: people["x"].var()),
    "std": ("x", NUMBERS, lambda people: people["x"].std()),
    "count by way": ("home", GROUPS, lambda people: [each.sum() for each in split(people, "home")]),
    "sum by way": ("x", {**NUMBERS, **GROUPS}, lambda people: [each.sum() for each in split(people, "x")]),
    "mean by way": (
        "x",
        {**NUMBERS, **GROUPS},
        lambda people: [each.mean() if len(each) else np.nan for each in split(people, "x")],
    ),
}  # fmt: skip


def count_hits(name, model, n, epsilon, runs):
    """In how many runs each answer's interval covers, by level: [levels, answers]; None if it is refused."""
    people = draw_people(n)
    column, options, find = TASKS[name]
    truth = np.atleast_1d(np.asarray(find(people), dtype=float))
    private = {"epsilon": epsilon, "model": model}
    if model == "shuffle":
        private |= {"delta": 0.1 / n, "honest": 1.0}
    hits = np.zeros((len(LEVELS), len(truth)), dtype=np.int64)
    data = {each: values.tolist() for each, values in people.items()}
    for run in range(runs):
        try:
            answer = sdp.ask(
                data, name.split()[0], column=column, rng=sdp.SeededWords(run), **private, **options
            )
        except sdp.UnsupportedError:
            assert run == 0
            return None
        for place, level in enumerate(LEVELS):
            low, high = map(np.atleast_1d, answer.estimate.interval(level))
            hits[place] += (low <= truth + 1e-9) & (truth <= high + 1e-9) | np.isnan(truth)
    return hits


def find_worst(name, model, n, epsilon, runs):
    """The level that is missed by most, and the probability to see so few hits if it held."""
    hits = count_hits(name, model, n, epsilon, runs)
    if hits is None:
        return None
    chances = binom.cdf(hits.min(axis=1), runs, LEVELS)
    worst = int(np.argmin(chances))
    return LEVELS[worst], hits[worst].min() / runs, float(chances[worst])


@pytest.mark.parametrize("model", ["shuffle", "central", "local"])
@pytest.mark.parametrize("name", ["histogram", "variance", "sum by way", "mean by way"])
def test_few_people_are_covered(name, model):
    found = find_worst(name, model, 30, 1.0, 40)
    assert found is None or found[2] > ALPHA, found


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(1, 4.0), (5, 0.5), (30, 4.0), (300, 0.5)])
@pytest.mark.parametrize("model", ["shuffle", "central", "local"])
@pytest.mark.parametrize("name", TASKS)
def test_any_number_of_people_is_covered(name, model, n, epsilon):
    found = find_worst(name, model, n, epsilon, 100)
    assert found is None or found[2] > ALPHA, found
