"""The local protocols for means answer sums as well: n is public."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.analyzer import Tally

PROTOCOLS = ("duchi", "piecewise", "hybrid")
SCALE = {"lower": -1.0, "upper": 3.0, "steps": 8, "epsilon": 1.0}


def pair(name):
    make = sdp.protocols.spec(name).make_local
    return make(**SCALE), make(**SCALE, task="sum")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_sum_is_n_times_the_mean(name):
    mean, total = pair(name)
    assert (mean.task, total.task) == ("mean", "sum")
    assert mean.randomizer == total.randomizer
    counts = np.zeros(mean.randomizer.alphabet, dtype=np.int64)
    counts[[0, -1]] = 30, 12
    tally = Tally(counts=counts, users=42)
    of_mean, of_sum = mean.analyzer.estimate(tally), total.analyzer.estimate(tally)
    assert of_sum.value == pytest.approx(42 * of_mean.value, rel=1e-12)
    assert of_sum.stderr == pytest.approx(42 * of_mean.stderr, rel=1e-12)
    assert of_sum.interval(0.9) == pytest.approx([42 * end for end in of_mean.interval(0.9)])
    assert of_sum.limits == (-42.0, 126.0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_its_declared_variance_is_that_of_n_times_the_mean(name):
    mean, total = pair(name)
    inputs = np.array([5, 0, 1, 0, 0, 7, 0, 0, 2])
    assert total.analyzer.variance(inputs) == pytest.approx(225 * mean.analyzer.variance(inputs))
    assert total.analyzer.weights(0) == mean.analyzer.weights(0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_behind_a_shuffler_it_is_a_sum_as_well(name):
    crowd = {"n": 200, "delta": 1e-3, **SCALE}
    made = sdp.protocols.make(name, **crowd, task="sum")
    assert (made.task, made.parameters["task"]) == ("sum", "sum")
    assert sdp.protocols.make(name, **crowd).task == "mean"


def test_other_questions_are_refused():
    with pytest.raises(sdp.ParameterError, match="task='count' must be 'sum' or 'mean'"):
        sdp.protocols.duchi.make_local(**SCALE, task="count")
