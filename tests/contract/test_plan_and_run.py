"""Whatever a plan lists as available runs, on every kind of column; what it refuses, a run refuses alike."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import shuffledp as sdp

USERS, MORE_USERS = (2, 30, 1_000), (10_000, 1_000_000)
EPSILONS, DELTAS = (0.001, 1.0, 5.0, 30.0), (1e-20, 1e-8, 1e-2)

NUMBERS = {"lower": 0, "upper": 5}
WRITTEN = {"lower": 0.0, "upper": 5.0}  # ends alone say that text is of reals
GRID = {"lower": 0.0, "upper": 1.0, "steps": 50}
COLUMNS = {
    "booleans": ("count", {}, {}, lambda codes: codes % 2 == 1),
    "zeros and ones": ("count", {}, {}, lambda codes: codes % 2),
    "true and false as text": ("count", {}, {}, lambda codes: np.where(codes % 2, "true", "false")),
    "sum of integers": ("sum", NUMBERS, NUMBERS, lambda codes: codes % 6),
    "mean of text": ("mean", WRITTEN, WRITTEN, lambda codes: (codes % 6).astype(str)),
    "mean of reals": ("mean", GRID, GRID, lambda codes: codes % 51 / 50),
    "histogram of text": (
        "histogram", {"k": 3}, {"categories": ("a", "b", "c")},
        lambda codes: np.array(["a", "b", "c"])[codes % 3],
    ),
    "histogram of integers": ("histogram", {"k": 4}, {"lower": 2, "upper": 5}, lambda codes: codes % 4 + 2),
}  # fmt: skip
AGES, POINTS = {"lower": 0, "upper": 15}, {"lower": 0.0, "upper": 2.0, "steps": 8}
SPELLING = {"alphabet": "letters", "max_length": 3}
LATER = {
    "quantiles of integers": ("quantiles", AGES, AGES, lambda codes: codes % 16),
    "quantiles of reals": ("quantiles", POINTS, POINTS, lambda codes: codes % 50 / 25),
    "cdf": ("cdf", {**AGES, "at": [3, 9]}, {**AGES, "at": [3, 9]}, lambda codes: codes % 16),
    "range": ("range", {**AGES, "at": [3, 9]}, {**AGES, "at": [3, 9]}, lambda codes: codes % 16),
    "variance": ("variance", POINTS, POINTS, lambda codes: codes % 50 / 25),
    "std": ("std", AGES, AGES, lambda codes: (codes % 16).astype(str)),
    "bins": ("bins", {"edges": [0, 5, 9]}, {"edges": [0, 5, 9]}, lambda codes: codes % 9 + 0.5),
    "words": ("words", SPELLING, SPELLING, lambda codes: np.array(["cat", "dog"])[codes % 2]),
}


def check_cell(column, n, epsilon, delta, *, every_row=True):
    task, planned, options, values = {**COLUMNS, **LATER}[column]
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


@pytest.mark.parametrize("column", [*LATER][:-1])
@pytest.mark.parametrize(
    ("n", "epsilon", "delta"),
    [
        (2, 5.0, 1e-8),
        (300, 1.0, 1e-6),
        pytest.param(30, 0.001, 1e-2, marks=pytest.mark.slow),
        pytest.param(1_000, 30.0, 1e-20, marks=pytest.mark.slow),
        pytest.param(100_000, 1.0, 1e-8, marks=pytest.mark.slow),
    ],
)
def test_distributions_run_as_planned(column, n, epsilon, delta):
    check_cell(column, n, epsilon, delta)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "epsilon", "delta"), [(2, 5.0, 1e-8), (1_000, 30.0, 1e-20), (100_000, 0.001, 1e-6)]
)
def test_words_run_as_planned(n, epsilon, delta):
    check_cell("words", n, epsilon, delta)


@pytest.mark.parametrize("task", ["count", "sum", "mean", "histogram"])
@pytest.mark.parametrize(
    ("n", "epsilon", "delta"),
    [
        (2, 5.0, 1e-8),
        (300, 1.0, 1e-6),
        pytest.param(30, 30.0, 1e-20, marks=pytest.mark.slow),
    ],
)
def test_groups_run_or_are_refused(task, n, epsilon, delta):
    """By group there is no plan: it is answered in every model, or none of its protocols fits."""
    codes = np.arange(n)
    table = {"x": codes % 2 if task == "count" else codes % 6, "g": np.array(["a", "b"])[codes % 2]}
    options = {"count": {}}.get(task, NUMBERS)
    for model, private in (("shuffle", {"delta": delta}), ("local", {}), ("central", {})):
        try:
            answer = sdp.ask(
                pd.DataFrame(table), task, column="x", by="g", groups=["a", "b"], model=model,
                epsilon=epsilon, **private, **options,
            )  # fmt: skip
        except sdp.UnsupportedError as refused:
            reason = str(refused)
            assert (model, reason[:16]) == ("shuffle", "no protocol fits")
            continue
        low, high = answer.estimate.interval(0.95)
        assert np.all(low <= high)
