"""What plans, curves and bounds say stays as it is, to the last letter (see said_table.py)."""

import json
import math
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


LAWS = {
    "1 / x": lambda x: 1 / x,
    "1 / sqrt": lambda x: x**-0.5,
    "1 / x^3": lambda x: x**-3,
    "in steps": lambda x: 2.0 ** -int(np.floor(6 * np.log2(x))),
    "from 2 on": lambda x: 1 / x if x >= 2 else math.inf,
    "from 4 on, good": lambda x: 0.01 / x if x >= 4 else math.inf,
    "flat": lambda _: 0.5,
}


def searched(wanted, first, *, name="epsilon", start=0.001, end=20.0, grain=0.0):
    """For each law what is tried until the error is the wanted one, and what is found."""
    lines = []
    for law, error in LAWS.items():
        tried = []

        def row_at(x, error=error, tried=tried):
            tried.append(x)
            reason = None if math.isfinite(error(x)) else "none there"
            return rows.Row(protocol="made", model=Model.LOCAL, reason=reason, rmse=error(x))

        def excess(row):
            return math.log(row.rmse / wanted) if row.available else math.inf

        bracket = plans._Bracket(name=name, start=start, end=end, grain=grain)
        found = bracket.search(row_at, excess, first)
        told = found.reason or f"{found.rmse:.9g}"
        lines.append(f"{law}: {told} after {', '.join(f'{x:.6g}' for x in tried)}")
    return "\n".join(lines)


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
        "searched": searched,
        "signatures": signatures,
        "task_named": task_named,
    },
)


@pytest.mark.parametrize("expression", TABLE.said)
def test_said(expression):
    TABLE.check(expression)


if __name__ == "__main__":
    TABLE.write()
