"""Which protocol: for a task, a number of users and a guarantee."""

from shuffledp.core.privacy import Model
from shuffledp.planner.answer import Plan, plan
from shuffledp.planner.choose import count, histogram, mean, sum
from shuffledp.planner.curve import curves
from shuffledp.planner.growth import SurveyRow, survey
from shuffledp.planner.row import Row

__all__ = [
    "Model",
    "Plan",
    "Row",
    "SurveyRow",
    "count",
    "curves",
    "histogram",
    "mean",
    "plan",
    "sum",
    "survey",
]
