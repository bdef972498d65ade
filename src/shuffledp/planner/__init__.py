"""Which protocol: for a task, a number of users and a guarantee."""

from typing import TYPE_CHECKING

from shuffledp.core import load_later
from shuffledp.core.privacy import Model

if TYPE_CHECKING:
    from shuffledp.planner.choice import Aim, choose, count, histogram, mean, sum
    from shuffledp.planner.growth import (
        ModelCurve,
        Point,
        ProtocolRow,
        curves,
        exponent,
        plot_plan,
        survey,
    )
    from shuffledp.planner.local_bound import local_lower_bound
    from shuffledp.planner.plans import Plan, plan
    from shuffledp.planner.question import Limits, Problem, check_delta
    from shuffledp.planner.rows import Measured, Row

__all__ = [
    "Aim",
    "Limits",
    "Measured",
    "Model",
    "ModelCurve",
    "Plan",
    "Point",
    "Problem",
    "ProtocolRow",
    "Row",
    "check_delta",
    "choose",
    "count",
    "curves",
    "exponent",
    "histogram",
    "local_lower_bound",
    "mean",
    "plan",
    "plot_plan",
    "sum",
    "survey",
]

if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "choice": "Aim choose count histogram mean sum",
            "growth": "ModelCurve Point ProtocolRow curves exponent plot_plan survey",
            "local_bound": "local_lower_bound",
            "plans": "Plan plan",
            "question": "Problem Limits check_delta",
            "rows": "Measured Row",
        },
    )
