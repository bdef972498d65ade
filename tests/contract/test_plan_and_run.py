"""Whatever a plan lists as available runs, on every kind of column; what it refuses, a run refuses alike."""

from itertools import product

import numpy as np
import pytest

import shuffledp as sdp

USERS, MORE_USERS = (2, 30, 1_000), (10_000, 1_000_000)
EPSILONS, DELTAS = (0.001, 1.0, 5.0, 30.0), (1e-20, 1e-8, 1e-2)

NUMBERS = {"lower": 0, "upper": 5}
GRID = {"lower": 0.0, "upper": 1.0, "steps": 50}
COLUMNS = {
    "booleans": ("count", {}, {}, lambda codes: codes % 2 == 1),
    "zeros and ones": ("count", {}, {}, lambda codes: codes % 2),
    "true and false as text": ("count", {}, {}, lambda codes: np.where(codes % 2, "true", "false")),
    "sum of integers": ("sum", NUMBERS, NUMBERS, lambda codes: codes % 6),
    "mean of text": ("mean", {"lower": 0.0, "upper": 5.0}, NUMBERS, lambda codes: (codes % 6).astype(str)),
    "mean of reals": ("mean", GRID, GRID, lambda codes: codes % 51 / 50),
    "histogram of text": (
        "histogram", {"k": 3}, {"categories": ("a", "b", "c")},
        lambda codes: np.array(["a", "b", "c"])[codes % 3],
    ),
    "histogram of integers": ("histogram", {"k": 4}, {"lower": 2, "upper": 5}, lambda codes: codes % 4 + 2),
}  # fmt: skip


def check_cell(column, n, epsilon, delta, *, every_row=True):
    task, planned, options, values = COLUMNS[column]
    people = values(np.arange(n))
    if n * delta > 1:
        check_refusal(task, people, {"epsilon": epsilon, "delta": delta}, planned, options)
        return
    for model in ("shuffle", "local", "central"):
        asked = {"epsilon": epsilon, "model": model, **options}
        if model != "local":
            asked["delta"] = delta
        plan = sdp.plan(task, n=n, models=model, epsilon=epsilon, delta=delta, **planned)
        for row in plan.rows if every_row else ():
            if row.model.value == model:
                check_row(row, lambda name: sdp.ask(people, task, protocol=name, **asked))  # noqa: B023
        if plan.chosen is None:
            with pytest.raises(sdp.UnsupportedError, match="no protocol fits"):
                sdp.ask(people, task, **asked)
        else:
            answer = sdp.ask(people, task, **asked)
            assert answer.protocol.name == plan.on_file.protocol


def check_refusal(task, people, private, planned, options):
    with pytest.raises(sdp.ParameterError, match="must be at most 1/n") as by_plan:
        sdp.plan(task, n=len(people), **private, **planned)
    with pytest.raises(sdp.ParameterError) as by_run:
        sdp.ask(people, task, **private, **options)
    assert str(by_plan.value) == str(by_run.value)


def check_row(row, ask):
    if not row.available:
        with pytest.raises(sdp.UnsupportedError) as refused:
            ask(row.protocol)
        assert row.reason in str(refused.value)
        return
    answer = ask(row.protocol)
    assert (answer.protocol.name, answer.guarantee) == (row.protocol, row.guarantee)
    low, high = answer.estimate.interval(0.95)
    assert np.all(low <= high)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(
    ("n", "epsilon", "delta"),
    [
        (2, 5.0, 1e-8),
        (30, 0.001, 1e-2),
        (1_000, 1.0, 1e-8),
        (1_000, 1.0, 1e-2),
        pytest.param(1_000, 30.0, 1e-20, marks=pytest.mark.slow),
    ],
)
def test_what_a_plan_lists_runs(column, n, epsilon, delta):
    check_cell(column, n, epsilon, delta)


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(("n", "epsilon", "delta"), list(product(USERS, EPSILONS, DELTAS)))
def test_what_a_plan_lists_runs_everywhere(column, n, epsilon, delta):
    check_cell(column, n, epsilon, delta)


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(("n", "epsilon", "delta"), list(product(MORE_USERS, EPSILONS, DELTAS)))
def test_what_a_plan_chooses_runs_for_many_people(column, n, epsilon, delta):
    check_cell(column, n, epsilon, delta, every_row=False)
