"""Which protocol: for a task, a number of users and a guarantee."""

from shuffledp.planner.answer import Plan, plan
from shuffledp.planner.choose import count, histogram, mean, sum
from shuffledp.planner.question import Model
from shuffledp.planner.row import Row

__all__ = ["Model", "Plan", "Row", "count", "histogram", "mean", "plan", "sum"]
