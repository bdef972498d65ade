"""A question by group: how many, which, how much, in each of some declared groups.

Who is in which group is protected like the answers are: devices send the pair of answer and group, and what is
counted is a histogram over all pairs. Sums and means follow from it: every pair counts with its number.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.answers import Answers
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.cells import Cells
from shuffledp.core.domain import Categories, Domain, Integers, Reals
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.estimate import Estimate, Interval, Value
from shuffledp.core.task import Column, Declared, Task

__all__ = ["GROUPED", "Grouped"]

GROUPED = ("count", "histogram", "sum", "mean")
"""The questions that may be asked by group."""
_MOST_LEVELS, _LEVELS = 256, 64  # of a number in a pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(Task):
    """A count, histogram, sum or mean of each group.

    >>> from shuffledp.tasks.count import Count
    >>> from shuffledp import Bits
    >>> ways = Categories(k=2, names=("car", "bus"))
    >>> task = Grouped.of(Count(domain=Bits()), ways)
    >>> task.domain.size, task.labels
    (4, ('car', 'bus'))
    """

    name = "grouped"
    title = "a question by group"
    answered_by = ("histogram",)
    elsewhere = "a survey whose question has `by`"
    answer, total = "a bin", "a bin (root of the mean over bins)"
    bins = True

    domain: Answers
    """The answer, then the group."""
    inner: str = "histogram"

    @classmethod
    def of(cls, task: Task, groups: Categories) -> "Grouped":
        """The task for each of the groups; numbers with very many values are put into cells."""
        if task.name not in GROUPED:
            raise UnsupportedError(f"a {task.name} has no groups: by is for {', '.join(GROUPED)}")
        own = task.domain
        if isinstance(own, Integers | Reals) and (
            isinstance(own, Reals) or own.size > _MOST_LEVELS
        ):
            own = Cells(lower=own.lower, upper=own.upper, cells=_LEVELS)
        return cls(domain=Answers(parts=(own, groups)), inner=task.name)

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        raise UnsupportedError("groups are declared in a survey: by")

    def remarks(self) -> tuple[str, ...]:
        own = self.domain.parts[0]
        if not isinstance(own, Cells):
            return ()
        width = (own.upper - own.lower) / own.cells
        return (
            f"Numbers were put into {own.cells} public cells of {width:.6g}, and count as the middle of their "
            "cell.",
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """What the answers are called."""
        own, groups = self.domain.parts
        if self.inner != "histogram":
            return groups.labels
        return tuple(f"{group}, {name}" for group in groups.labels for name in own.labels)

    def arguments(self) -> Mapping[str, Any]:
        return {"k": self.domain.size}

    def sensitivity(self, n: int) -> float:
        return 2

    def truth(self, values: ArrayLike) -> Floats:
        counts = np.bincount(self.domain.codes(values), minlength=self.domain.size)
        return np.atleast_1d(np.asarray(self._answer(counts.astype(np.float64))))

    def loss(self, estimate: Value, truth: Value) -> float:
        return float(np.mean(np.square(np.asarray(estimate) - np.asarray(truth))))

    def _numbers(self) -> Floats:
        own: Domain = self.domain.parts[0]
        return own.values(np.arange(own.size))

    def _answer(self, bins: Floats) -> Floats:
        table = bins.reshape(self.domain.parts[1].size, -1)
        if self.inner == "histogram":
            return bins
        if self.inner == "count":
            return table[:, 1]
        sums = table @ self._numbers()
        if self.inner == "sum":
            return sums
        shares: Floats = sums / np.maximum(table.sum(axis=1), 1.0)
        return np.clip(shares, self._numbers()[0], self._numbers()[-1])

    def convert(self, bins: Estimate) -> Estimate:
        """The answers by group, from the histogram of all pairs."""
        value = self._answer(np.asarray(bins.value, dtype=np.float64))
        n, numbers = bins.limits[1], self._numbers()
        limits = (0.0, n)
        if self.inner == "sum":
            limits = (min(0.0, n * float(numbers[0])), max(0.0, n * float(numbers[-1])))
        if self.inner == "mean":
            limits = (float(numbers[0]), float(numbers[-1]))
        error = _GroupError(task=self, bins=bins)
        return Estimate(value=value, error=error, limits=limits, labels=self.labels)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _GroupError:
    """Errors of groups, from those of the bins, whose noises are independent."""

    task: Grouped
    bins: Estimate

    @property
    def _shape(self) -> tuple[int, int]:
        own, groups = self.task.domain.parts
        return groups.size, own.size

    def _kept(self) -> Counts:
        places = np.arange(math.prod(self._shape))
        return places if self.task.inner == "histogram" else places.reshape(self._shape)[:, 1]

    def _spread(self) -> Floats:
        """Standard errors of the bins: groups x values."""
        each = np.broadcast_to(np.asarray(self.bins.stderr), (math.prod(self._shape),))
        return np.asarray(each, dtype=np.float64).reshape(self._shape)

    @property
    def stderr(self) -> Value:
        if self.task.inner in ("count", "histogram"):
            return self._spread().ravel()[self._kept()]
        numbers, spread = self.task._numbers(), self._spread()
        if self.task.inner == "sum":
            return np.sqrt((spread**2) @ numbers**2)
        table = np.asarray(self.bins.value).reshape(self._shape)
        means = self.task._answer(np.asarray(self.bins.value))
        people = np.maximum(table.sum(axis=1), 1.0)
        squares = ((numbers - means[:, None]) ** 2 * spread**2).sum(axis=1)
        return np.asarray(np.sqrt(squares) / people)

    def interval(self, value: Value, level: float) -> Interval:
        if self.task.inner in ("count", "histogram"):
            low, high = self.bins.interval(level)
            kept = self._kept()
            return Interval(np.asarray(low)[kept], np.asarray(high)[kept])
        if self.task.inner == "sum":
            radius = _quantile((1 - level) / 2) * np.asarray(self.stderr)
            return Interval(np.asarray(value) - radius, np.asarray(value) + radius)
        return self._mean_interval(level)

    def _mean_interval(self, level: float) -> Interval:
        """From intervals of the sum (less the lower end each) and of the people, which hold together."""
        z = _quantile((1 - level) / 4)
        numbers, spread = self.task._numbers(), self._spread()
        table = np.asarray(self.bins.value).reshape(self._shape)
        above = numbers - numbers[0]
        sums, people = table @ above, table.sum(axis=1)
        sum_radius, people_radius = (
            z * np.sqrt((spread**2) @ above**2),
            z * np.sqrt((spread**2).sum(axis=1)),
        )
        most, least = people + people_radius, people - people_radius
        low = np.maximum(sums - sum_radius, 0.0) / np.maximum(most, 1.0)
        high = np.where(least > 0, (sums + sum_radius) / np.maximum(least, 1e-9), np.inf)
        ends = (numbers[0], numbers[-1])
        return Interval(np.clip(low + ends[0], *ends), np.clip(high + ends[0], *ends))

    def exact_interval(self, value: Value, level: float) -> Interval:
        if self.task.inner not in ("count", "histogram"):
            raise UnsupportedError("no exact interval is known for this estimate: use interval()")
        low, high = self.bins.exact_interval(level)
        kept = self._kept()
        return Interval(np.asarray(low)[kept], np.asarray(high)[kept])


def _quantile(tail: float) -> float:
    from statistics import NormalDist

    return -NormalDist().inv_cdf(tail)
