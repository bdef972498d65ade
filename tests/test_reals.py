"""Sums and means of real numbers: right on average, and inside their intervals, whatever the grid."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, norm

import shuffledp as sdp
from shuffledp.core.domain import Reals
from shuffledp.engine import Coder, Job, Rounding, local
from shuffledp.numerics import leaves
from shuffledp.tasks.totals import choose_steps
from support import ALPHA, first

RUNS = 300
INCOMES = np.random.default_rng(3).lognormal(8, 1.5, 2000).clip(0, 100_000)
"""Long-tailed, mostly far below the largest value, and on no grid."""

SHUFFLED = {"n": 2000, "epsilon": 1.0, "delta": 1e-5}
MAKERS = {
    "split_and_mix": SHUFFLED | {"task": "mean"},
    "zero_sum_flooding": SHUFFLED | {"task": "mean"},
    "unary_sum": SHUFFLED | {"task": "mean", "ones": 10},
    "rounded_sum": SHUFFLED | {"task": "mean"},
    "duchi": SHUFFLED,
    "piecewise": {"epsilon": 6.0},
    "hybrid": {"epsilon": 6.0},
}
QUICK = sorted(set(MAKERS) - {"zero_sum_flooding"})  # thousands of messages each


def make(name, **changes):
    return sdp.make(name, lower=0.0, upper=100_000.0, **{**MAKERS[name], **changes})


def answers(name, steps):
    protocol = make(name, steps=steps)
    return [sdp.run(protocol, INCOMES, sdp.SeededWords(seed)) for seed in range(RUNS)]


@pytest.fixture
def nearest(monkeypatch):
    """A mutant that rounds to the nearest point, as everything did once."""

    def round_to_nearest(self, places, words, bits):
        return self.codes(self.lower + (self.upper - self.lower) * places / 2.0**41)

    monkeypatch.setattr(Reals, "round", round_to_nearest)


def bias_is_noticed(name):
    """Ten thousand runs of twenty people: tallies add and estimates are affine, so they are one large run."""
    people, runs = INCOMES[:20], 10_000
    size = {"n": len(people) * runs} if "n" in MAKERS[name] else {}
    answer = sdp.run(make(name, steps=4, **size), np.tile(people, runs), sdp.SeededWords(11))
    return abs(answer.value - people.mean()) > norm.isf(ALPHA / 2) * answer.stderr


@pytest.mark.parametrize("name", MAKERS)
def test_a_coarse_grid_does_not_bias(name):
    assert not bias_is_noticed(name)


@pytest.mark.parametrize("name", MAKERS)
def test_the_nearest_point_would(name, nearest):
    assert bias_is_noticed(name)


SHARES = np.random.default_rng(5).beta(2, 5, 300)
ASKED = {
    "range": {"lower": 0.0, "upper": 1.0, "steps": 16, "at": [0.25, 0.5]},
    "cdf": {"lower": 0.0, "upper": 1.0, "steps": 16, "at": [0.125, 0.5]},
    "variance": {"lower": 0, "upper": 15},
}
"""At edges of cells; a variance is that of the values that stand for the cells, so these are whole numbers."""


def tree_bias_is_noticed(name, task):
    values = np.floor(16 * SHARES).astype(int) if task == "variance" else SHARES
    crowd = {"n": 300, "delta": 1e-4} if name == "tree" else {}
    protocol = sdp.make(name, epsilon=2.0, task=task, **crowd, **ASKED[task])
    truth = sdp.tasks.task_named(task).declare(ASKED[task]).task.truth(values)
    counts = np.bincount(protocol.randomizer.domain.codes(values), minlength=16)
    source = sdp.SeededWords(13)
    found = np.array([sdp.run_counts(protocol, counts, source).value for _ in range(10_000)])
    off = (found.mean(axis=0) - truth) / (found.std(axis=0) / math.sqrt(len(found)))
    return bool(np.any(np.abs(off) > norm.isf(ALPHA / 2)))


@pytest.mark.slow
@pytest.mark.parametrize("task", ASKED)
@pytest.mark.parametrize("name", ["tree", "local_tree"])
def test_trees_are_right_on_average(name, task):
    assert not tree_bias_is_noticed(name, task)


@pytest.mark.slow
def test_the_square_of_a_noisy_mean_is_too_large(monkeypatch):
    monkeypatch.setattr(leaves.Leaves, "sum_error", lambda *_: 0.0)
    assert tree_bias_is_noticed("local_tree", "variance")


def coverage(found):
    """Whether so few intervals hold the truth is no accident, and whether nearly all do."""
    hits = sum(low <= INCOMES.mean() <= high for low, high in (a.interval(0.95) for a in found))
    return binomtest(hits, len(found), 0.95, alternative="less").pvalue > ALPHA


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("steps", first([20, 4, choose_steps(2000, 1.0)]))
def test_intervals_cover(name, steps):
    found = answers(name, steps)
    assert coverage(found)
    # The standard error is at least the one that is there, and not much more.
    spread = np.std([answer.value for answer in found])
    stated = np.mean([answer.stderr for answer in found])
    assert 0.85 * spread < stated
    if steps > 20 and name != "duchi":  # one bit tells nothing of the spread: the worst is stated
        assert stated < 1.25 * spread


@pytest.mark.parametrize("steps", [4, 20])
def test_with_the_nearest_point_they_would_not(steps, nearest):
    assert not coverage(answers("split_and_mix", steps))


def test_the_grid_is_chosen_so_that_rounding_hardly_counts():
    """What the file commands do: no steps are given."""
    protocol = sdp.mean(n=2000, lower=0.0, upper=100_000.0, epsilon=1.0, delta=1e-5)
    integers = sdp.mean(n=2000, lower=0, upper=100_000, epsilon=1.0, delta=1e-5)
    real, whole = (
        sdp.run(each, values, sdp.SeededWords(1))
        for each, values in ((protocol, INCOMES), (integers, INCOMES.astype(int)))
    )
    assert whole.stderr < real.stderr < 1.01 * whole.stderr
    widths = [high - low for low, high in (each.interval(0.95) for each in (whole, real))]
    assert widths[0] < widths[1] < 1.02 * widths[0]


@pytest.mark.parametrize("task", ["sum", "mean"])
@pytest.mark.parametrize("n", [100, 10_000])
def test_plan_and_maker_take_the_same_grid(task, n):
    numbers = {"n": n, "epsilon": 0.5, "delta": 1e-6, "lower": -1.0, "upper": 3.0}
    plan = sdp.plan(task, models="shuffle", **numbers)
    made = sdp.mean(**numbers) if task == "mean" else sdp.sum(**numbers)
    assert plan.make().randomizer.domain == made.randomizer.domain
    assert made.randomizer.domain.steps == choose_steps(n, 0.5)


def test_a_protocol_at_less_than_epsilon_keeps_the_grid():
    """At a large epsilon some protocols are taken at a smaller one: that changes nobody's grid."""
    numbers = {"n": 10_000, "epsilon": 16.0, "delta": 1e-8, "lower": 0.0, "upper": 1.0}
    plan = sdp.plan("mean", models="shuffle", **numbers)
    grids = {row.make().randomizer.domain for row in plan.rows if row.available}
    assert grids == {Reals(lower=0.0, upper=1.0, steps=choose_steps(10_000, 16.0))}


def test_every_engine_rounds_alike(tmp_path):
    path = tmp_path / "incomes.csv"
    path.write_text("income\n" + "\n".join(map(repr, INCOMES.tolist())) + "\n")
    protocol = make("split_and_mix", steps=7)
    here = sdp.run(protocol, INCOMES, sdp.SeededWords(4)).value
    column = sdp.open_column(path, "income")
    for engine in ("duckdb", "memory"):
        found = sdp.run_file(protocol, column, engine=engine, rng=sdp.SeededWords(4))
        assert found.estimate.value == here


@pytest.mark.parametrize(("mutant", "right"), [(False, True), (True, False)])
def test_equal_values_are_rounded_as_independent_people(mutant, right, monkeypatch):
    """Each row has a word of its own: a binomial number of those at one place go up."""
    domain = Reals(lower=0.0, upper=1.0, steps=1)
    if mutant:
        monkeypatch.setattr(Reals, "round", lambda _, places, *__: places * 0 + 1)
    coder = Coder(domain=domain, on_invalid="error")
    job = Job(column=sdp.engine.take_column([0.3] * 900), coder=coder)
    counts = [
        int(local.count_by_chunk(job, 1, Rounding(rng=sdp.SeededWords(seed), bits=64)).counts[1])
        for seed in range(100)
    ]
    z = (np.mean(counts) - 270) / math.sqrt(900 * 0.21 / 100)
    assert (abs(z) < norm.isf(ALPHA / 2)) == right
