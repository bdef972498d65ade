"""Which protocol: for a task, a number of users and a guarantee."""

from shuffledp.planner.choose import count, histogram, mean, sum

__all__ = ["count", "histogram", "mean", "sum"]
