"""Tasks: the exact answer, the loss, and a refusal of what does not fit."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shuffledp as sdp
from shuffledp import Bits, Categories, Integers, Reals
from shuffledp.core.task import Task
from shuffledp.core.texts import Keys
from shuffledp.protocols import PROTOCOLS
from shuffledp.tasks import TASKS, Count, Histogram, Mean, Sum, task_for
from shuffledp.tasks.numbers import _Distributed
from support import any_protocol

UNIT = Reals(lower=0.0, upper=1.0, steps=10)
SCALAR = [
    Count(domain=Bits()),
    Sum(domain=Integers(lower=-9, upper=9)),
    Mean(domain=UNIT),
]


@pytest.mark.parametrize("name", TASKS)
def test_every_name_has_its_task(name):
    numeric = issubclass(TASKS[name], _Distributed)
    domain = Integers(lower=0, upper=1) if numeric else Bits()
    if not TASKS[name].listed:
        domain = Keys(bits=8)
    task = TASKS[name](domain=domain)
    assert isinstance(task, Task)
    assert task.name == name
    assert task.domain == domain


@pytest.mark.parametrize("spec", PROTOCOLS, ids=lambda spec: spec.name)
def test_every_protocol_has_its_task(spec):
    protocol = any_protocol(spec)
    task = task_for(protocol)
    assert task.name == protocol.task
    assert task.domain == protocol.randomizer.domain
    codes = np.arange(6) % 2
    values = codes if not isinstance(task.domain, Reals) else task.domain.values(codes)
    tally = sdp.engine.local.tally(protocol, values, sdp.SeededWords(1))
    estimate = protocol.analyzer.estimate(tally)
    if not type(task).listed:
        return  # which of the six words are found is for tests of words
    # Six users of a shuffled protocol may make no noise at all, so the error may be 0.
    error = np.asarray(estimate.value) - task.truth(values)
    assert task.loss(estimate.value, task.truth(values)) == pytest.approx(np.mean(error**2))


class TestTruth:
    def test_count(self):
        task = Count(domain=Bits())
        assert task.truth([True, False, True]) == task.truth([1, 0, 1]) == 2.0
        assert task.truth(np.ones(300, dtype=np.uint8)) == 300.0

    def test_sum_of_integers_is_exact(self):
        huge = 2**53
        task = Sum(domain=Integers(lower=-huge, upper=huge))
        assert task.truth([huge, 1, -huge]) == 1.0
        assert task.truth(np.full(5000, huge)) == 5000 * huge
        assert Sum(domain=Integers(lower=0, upper=255)).truth(np.full(9, 255, np.uint8)) == 2295

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
    def test_sum_and_mean_of_reals_are_rounded_once_or_twice(self, values):
        exact = sum(map(Fraction, values))
        assert Sum(domain=UNIT).truth(values) == float(exact)
        assert Mean(domain=UNIT).truth(values) == float(exact) / len(values)

    def test_values_are_not_rounded_to_the_grid(self):
        coarse = Reals(lower=0.0, upper=1.0, steps=1)
        assert Mean(domain=coarse).truth([0.25, 0.75, 0.8]) == pytest.approx(0.6)

    def test_mean_of_bits(self):
        assert Mean(domain=Bits()).truth([True, False, False, False]) == 0.25

    def test_histogram(self):
        assert Histogram(domain=Categories(k=4)).truth([3, 0, 3]).tolist() == [1.0, 0.0, 0.0, 2.0]
        pets = Categories(k=2, names=("cat", "dog"))
        assert Histogram(domain=pets).truth(["dog"]).tolist() == [0.0, 1.0]
        assert Histogram(domain=Integers(lower=5, upper=6)).truth([6, 6]).tolist() == [0.0, 2.0]

    @pytest.mark.parametrize("task", [*SCALAR, Histogram(domain=Categories(k=3))])
    @pytest.mark.parametrize("values", [[], [100], [math.nan], ["a"], [[0, 1], [1, 0]]])
    def test_bad_values_are_refused(self, task, values):
        with pytest.raises(sdp.DataError):
            task.truth(values)


class TestLoss:
    @pytest.mark.parametrize("task", SCALAR)
    def test_squared_error(self, task):
        assert task.loss(3.0, 1.0) == task.loss(1.0, 3.0) == 4.0
        assert task.loss(2.0, 2.0) == 0.0

    def test_average_over_the_bins(self):
        task = Histogram(domain=Categories(k=4))
        truth = np.array([1.0, 2.0, 3.0, 4.0])
        assert task.loss(truth + np.array([2.0, 0.0, 0.0, -4.0]), truth) == 5.0
        assert task.loss(truth, truth) == 0.0

    @pytest.mark.parametrize("task", SCALAR)
    @pytest.mark.parametrize("wrong", [np.array([1.0]), np.zeros(3), np.zeros((1, 1))])
    def test_one_number_is_wanted(self, task, wrong):
        with pytest.raises(sdp.MismatchError, match="estimate must be one number"):
            task.loss(wrong, 1.0)
        with pytest.raises(sdp.MismatchError, match="truth must be one number"):
            task.loss(1.0, wrong)

    @pytest.mark.parametrize("wrong", [1.0, np.zeros(2), np.zeros(1), np.zeros((3, 1))])
    def test_one_number_for_each_bin_is_wanted(self, wrong):
        task = Histogram(domain=Categories(k=3))
        with pytest.raises(
            sdp.MismatchError, match="estimate must have one number for each of the 3"
        ):
            task.loss(wrong, np.zeros(3))
        with pytest.raises(sdp.MismatchError, match="truth must have"):
            task.loss(np.zeros(3), wrong)


@pytest.mark.parametrize("kind", [Sum, Mean, Count])
def test_categories_have_no_sum(kind):
    with pytest.raises(sdp.ParameterError, match=r"^domain=Categories\(k=3.* must be"):
        kind(domain=Categories(k=3))
