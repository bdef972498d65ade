"""How the error of a plan's best protocols depends on the number of users."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.validate import whole
from shuffledp.planner.answer import Plan
from shuffledp.planner.candidates import Candidate, candidates
from shuffledp.planner.evaluate import evaluate
from shuffledp.planner.question import Asked, Limits
from shuffledp.planner.rank import Aim, ranked
from shuffledp.planner.row import Row

__all__ = ["Curve", "Point", "curves"]

_DECADES = 2.0  # to each side of the plan's n


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The error for so many users, and the protocol that has it; for means that of the mean."""

    n: int
    error: float
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The points of one model, by growing n; where none of its protocols is available there is none."""

    model: Model
    points: tuple[Point, ...]


def curves(plan: Plan, *, points: int = 67) -> tuple[Curve, ...]:
    """For each model the error of its best protocol at the plan's n, for other numbers of users too.

    Each point is the exact error. Where the best protocol is not available (too few users, too many messages) the
    next best of the plan stands in. n runs over two decades to each side.

    >>> from shuffledp import plan
    >>> answer = plan("count", n=10_000, epsilon=1.0, delta=1e-6)
    >>> for curve in curves(answer, points=3):
    ...     print(curve.model.value, [round(point.error, 1) for point in curve.points])
    central [1.4, 1.4, 1.4]
    local [9.6, 96.0, 959.5]
    shuffle [1.6, 1.6, 1.6]
    """
    whole("points", points, at_least=2)
    if plan.n is None or plan.epsilon is None:
        raise UnsupportedError(f"nothing to draw: {plan.reasons()}")
    asked = plan.asked
    limits = replace(plan.limits, trust=frozenset(Model))
    users = _users(plan.n, points)
    found = (
        Curve(
            model=model,
            points=tuple(_points(_best(plan, asked, limits, model), asked, limits, users)),
        )
        for model in Model
    )
    return tuple(curve for curve in found if curve.points)


def _users(n: int, points: int) -> list[int]:
    ends = math.log10(max(n, 10)) - _DECADES, math.log10(n) + _DECADES
    grid = np.logspace(max(ends[0], 1.0), ends[1], points)
    return sorted({round(float(each)) for each in grid})


def _best(plan: Plan, asked: Asked, limits: Limits, model: Model) -> list[Candidate]:
    """The candidates of a model, best first at the plan's n: the chosen one before all others."""
    known = {each.name: each for each in candidates(asked) if each.model is model}
    rows: Iterable[Row] = [row for row in plan.rows if row.model is model]
    if not any(row.available for row in rows):  # not trusted, so not looked at until now
        rows = (evaluate(each, asked, limits) for each in known.values())
    order = [row for row in ranked(rows, Aim.ERROR) if row.available]
    return [known[row.protocol] for row in sorted(order, key=lambda row: row != plan.chosen)]


def _points(
    best: Sequence[Candidate], asked: Asked, limits: Limits, users: Sequence[int]
) -> Iterator[Point]:
    for n in users:
        for candidate in best:
            row = evaluate(candidate, replace(asked, n=n), limits)
            if row.available and row.rmse is not None:
                error = row.rmse / asked.task.scale(n)
                yield Point(n=n, error=error, protocol=candidate.name)
                break
