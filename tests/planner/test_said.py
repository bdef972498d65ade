"""What plans, curves and bounds say stays as it is, to the last letter (see said_table.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

import shuffledp as sdp
from said_table import SaidTable, signatures
from shuffledp.core.privacy import Model
from shuffledp.planner import choice, curves, growth, local_bound, plans, question, rows
from shuffledp.planner.choice import Aim
from shuffledp.tasks import task_named


def plan(task, delta=1e-6, models="central", **given):
    """A plan in the model that is planned fastest."""
    return sdp.plan(task, delta=delta, models=models, **given)


def numbers(made):
    """Everything that a plan has, as it is written in JSON."""
    return json.loads(made.to_json())


def draw(made, monkeypatch=None):
    """What the picture of a plan is given."""
    seen = {}
    original, module = growth.curves, sdp.show
    show = module.error_curves
    module.error_curves = lambda lines, _, **given: seen.update(given, lines=lines)
    growth.curves = lambda plan, *, points: (seen.update(points=points), original(plan, points=3))[
        1
    ]
    try:
        growth.plot_plan(made, Path("plan.svg"))
    finally:
        module.error_curves, growth.curves = show, original
    return seen


TABLE = SaidTable(
    path=Path(__file__).with_name("said.txt"),
    names={
        "Aim": Aim,
        "Model": Model,
        "choice": choice,
        "curves": curves,
        "draw": draw,
        "growth": growth,
        "local_bound": local_bound,
        "np": np,
        "numbers": numbers,
        "plan": plan,
        "plans": plans,
        "question": question,
        "rows": rows,
        "sdp": sdp,
        "signatures": signatures,
        "task_named": task_named,
    },
)


@pytest.mark.parametrize("expression", TABLE.said)
def test_said(expression):
    TABLE.check(expression)


if __name__ == "__main__":
    TABLE.write()
