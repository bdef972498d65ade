"""The RMSE that the planner states is the one that runs have: every protocol and mechanism, every question.

Each row is run on the data set for which its error is stated. t is the squared error of a run (its mean over the
bins of a histogram) over the stated one, so its mean is 1. Its variance is kurtosis - 1 for one number: 2 for normal
errors, 5 for Laplace ones, up to 6.5 for discrete Laplace noise of a few steps; less where bins are averaged. With N runs
the mean is close to normal, so |mean - 1| <= Z sqrt(variance / N) fails with probability ALPHA if the planner is right.

The ordinary tests see a factor of 2 in the RMSE. The slow ones have enough runs that the radius is 3 % of
the RMSE, again with the false-alarm rate ALPHA for each row.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from shuffledp.core.domain import Reals
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import forget
from shuffledp.mechanisms import MECHANISMS
from shuffledp.numerics.entropy import SeededWords
from shuffledp.planner.question import Problem, candidates
from shuffledp.planner.rows import measure
from shuffledp.protocols import PROTOCOLS
from support import ALPHA, first

Z = float(norm.isf(ALPHA / 2))
LAPLACE = (
    "geometric",
    "laplace",
    "correlated_count",
    "split_and_mix",
    "zero_sum_flooding",
    "pure_count",
)
"""What has noise of the Laplace kind; the errors of all others are close to normal."""
TIGHT = 0.03
FEWEST = 2_000

NUMBERS = {"n": 200, "epsilon": 1.0, "delta": 1e-3, "honest": 0.9}
ASKED = (
    Problem.of("count", **NUMBERS),
    Problem.of("sum", **NUMBERS, lower=-3, upper=5),
    Problem.of("mean", **NUMBERS, lower=0.0, upper=2.0, steps=40),
    Problem.of("histogram", **NUMBERS, k=16),
    Problem.of("range", **NUMBERS, lower=0, upper=15, at=[3, 9]),
)
ELSEWHERE = ("hashed_tree", "hashed_prefixes", "local_prefixes")
"""For finer grids and for words: their own tests measure them."""
CASES = [
    pytest.param(asked, each, id=f"{asked.task.name}-{each.model.value}-{each.name}")
    for asked in ASKED
    for each in candidates(asked.task)
    if not (each.name == "geometric" and isinstance(asked.domain, Reals))  # it is for integers
    and each.name not in ELSEWHERE
]


QUICK = [case for case in CASES if case.values[1].name not in ("pure_count", "piecewise", "hybrid")]
"""Some take long to make or to run."""


def inputs_of(measured, asked):
    """The data set for which the error is stated: all are alike for additive noise."""
    if measured.inputs is not None:
        return measured.inputs
    return np.bincount(np.arange(asked.n) % asked.domain.size, minlength=asked.domain.size)


def truth_of(question, domain, inputs):
    if question == "histogram":
        return inputs.astype(float)
    if question == "range":
        return float(inputs[3:10].sum())
    total = float(inputs @ domain.values(np.arange(len(inputs))))
    return total / inputs.sum() if question == "mean" else total


def answers(made, inputs, truth, rng):
    """Endless answers of one protocol or mechanism."""
    if not isinstance(made, ShuffleProtocol):
        yield from released(made, inputs, truth, rng)
    if made.name == "count_min":
        yield from sketched(made, inputs, rng)
    if made.dealt:
        while True:
            yield made.analyzer.estimate(made.offers.deal(inputs, rng)).value
    codes = np.repeat(np.arange(len(inputs)), inputs)
    width, bits = made.randomizer.words_per_input, made.randomizer.word_bits
    while True:
        words = rng.words(len(codes) * width, bits).reshape(len(codes), width)
        tally = made.analyzer.tally(forget(made.randomizer.encode(codes, words)))
        yield made.analyzer.estimate(tally).value


def sketched(made, inputs, rng):
    """Its error is over the public functions, too: new ones for each run."""
    rows = made.randomizer.rows
    while True:
        words = iter(rng.words(4 * rows, 32).tolist())
        sketch = replace(
            made.randomizer, functions=tuple(zip(words, words, words, words, strict=True))
        )
        analyzer = replace(made.analyzer, randomizer=sketch)
        yield analyzer.estimate(sketch.deal(inputs, rng)).value


def released(made, inputs, truth, rng):
    if made.name == "stability_histogram":
        while True:
            answer = made.release(inputs, rng)
            full = np.zeros(len(inputs))
            full[[int(label) for label in answer.labels]] = answer.value
            yield full
    exact = truth if made.name == "laplace" else np.asarray(truth).astype(int)
    if made.name == "geometric_tree":  # a tree is made of the cells, whatever is asked
        exact = inputs
    while True:
        yield made.release(exact, rng).value


def terms(asked, candidate, runs, seed):
    """Squared errors of runs over the stated one, and how many independent numbers are in each."""
    measured = measure(candidate, asked)
    made, inputs = measured.made, inputs_of(measured, asked)
    question = made.task if isinstance(made, ShuffleProtocol) else asked.task.name
    domain = made.randomizer.domain if isinstance(made, ShuffleProtocol) else asked.domain
    truth = truth_of(question, domain, inputs)
    scale = asked.n if question == "mean" else 1
    endless = answers(made, inputs, truth, SeededWords(seed))
    stated = (measured.rmse / scale) ** 2
    return np.array([float(np.mean((next(endless) - truth) ** 2)) / stated for _ in range(runs)])


def variance_of(asked, candidate):
    """An upper bound of the variance of t."""
    if asked.task.bins:
        return 0.8
    return 7.0 if candidate.name in LAPLACE else 2.5


def runs_for(asked, candidate, radius):
    """Enough runs that the mean of t is within `radius` of 1 with probability 1 - ALPHA."""
    return math.ceil((Z / radius) ** 2 * variance_of(asked, candidate))


def accepts(found, radius):
    return abs(found.mean() - 1) <= radius


@pytest.mark.parametrize(("asked", "candidate"), QUICK)
def test_stated_error_is_the_error_of_runs(asked, candidate):
    found = terms(asked, candidate, runs_for(asked, candidate, 0.5), seed=11)
    assert accepts(found, 0.5)
    # Mutants: an error stated at twice, or at half of what it is.
    assert not accepts(found / 4, 0.5)
    assert not accepts(found * 4, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "candidate"), CASES)
def test_stated_error_is_within_three_percent(asked, candidate):
    radius = 2 * TIGHT - TIGHT**2  # of the square, on the narrower side
    found = terms(asked, candidate, max(FEWEST, runs_for(asked, candidate, radius)), seed=12)
    assert abs(math.sqrt(found.mean()) - 1) <= TIGHT
    for mutant in (1.065, 1 / 1.065):
        assert abs(math.sqrt(found.mean()) * mutant - 1) > TIGHT


def test_every_protocol_and_mechanism_is_measured():
    measured = {case.values[1].name for case in CASES}
    assert measured >= {spec.name for spec in PROTOCOLS} - {*ELSEWHERE}
    assert measured >= {spec.name for spec in MECHANISMS if spec.tasks}


BINS = ASKED[3]
# Count-min's promise is over its functions, and a heavy collision is rare.
WITH_BINS = [
    each
    for each in candidates(BINS.task)
    if each.model is Model.SHUFFLE and each.name != "count_min"
]
USUAL = ("correlated_histogram", "dummies_histogram", "krr", "hashed_histogram", "fake_users")
WITH_BINS.sort(key=lambda each: each.name not in USUAL)


def test_the_usual_ones_have_bins():
    assert {each.name for each in WITH_BINS[: len(USUAL)]} == {*USUAL}


@pytest.mark.parametrize("candidate", first(WITH_BINS, len(USUAL)), ids=lambda each: each.name)
def test_no_bin_is_off_by_more_than_the_worst_bin(candidate):
    """In 95 % of runs at least: the number of exceptions is at most a binomial quantile."""
    runs = 400
    limit = int(binom.isf(ALPHA, runs, 0.05))
    measured = measure(candidate, BINS)
    bound = measured.worst_bin
    endless = answers(measured.made, measured.inputs, None, SeededWords(13))
    errors = np.array([np.abs(next(endless) - measured.inputs).max() for _ in range(runs)])
    assert (errors > bound).sum() <= limit
    assert (errors > bound / 3).sum() > limit  # and not by far too wide
