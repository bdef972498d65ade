"""Which protocol: for a task, a number of users and a guarantee."""

from shuffledp.core.privacy import Model
from shuffledp.planner.choice import choose, count, histogram, mean, sum
from shuffledp.planner.curves import Curve, Point, SurveyRow, curves, exponent, survey
from shuffledp.planner.errors import Measured
from shuffledp.planner.plans import Plan, plan
from shuffledp.planner.question import Asked, Limits
from shuffledp.planner.rows import Aim, Row

__all__ = [
    "Aim",
    "Asked",
    "Curve",
    "Limits",
    "Measured",
    "Model",
    "Plan",
    "Point",
    "Row",
    "SurveyRow",
    "choose",
    "count",
    "curves",
    "exponent",
    "histogram",
    "mean",
    "plan",
    "sum",
    "survey",
]
