"""Sums and means by group, from the histogram of groups and ends.

Everybody's number was rounded to one of the two ends of its range before the noise, so with c_0 and c_1 people of a
group at the lower and the upper end

    sum = lower c_0 + upper c_1,    mean = sum / (c_0 + c_1),

and the sum is unbiased. Its variance is that of the two bins and that of rounding, (upper - lower)^2 m (1 - m) for
each person if the group's mean lies at the share m of the range; at most a quarter. Bins of one message are
negatively correlated if at all, so the variances of sums with weights of one sign add up to too much, not too little.
Intervals follow from moments of the noise (`numerics.intervals.weighted`) and cover with at least their level; that of a
mean combines those of the sum and of the people, which hold together. Of a forecast, which has no noise yet, they are
normal ones.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.estimate import Estimate, Interval, Value
from shuffledp.core.validate import level as valid_level
from shuffledp.live.wire.question import Question
from shuffledp.numerics.intervals.weighted import BinMoments
from shuffledp.tasks.groups import WITH_MOMENTS, bound_means, bound_sums

__all__ = ["estimate_groups", "foresee_groups"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupsError:
    """Errors of sums or means by group, from those of the bins: bins[groups, 2]."""

    average: bool
    ends: tuple[float, float]
    bins: Floats
    spread: Floats
    """Standard errors of the bins."""
    people: int
    """In all groups."""
    law: BinMoments | None
    """Of the bins; None: nothing was drawn."""

    @property
    def _people(self) -> Floats:
        found: Floats = np.maximum(self.bins.sum(axis=1), 1.0)
        return found

    @property
    def _rounding(self) -> Floats:
        """The variance of the number of people at the upper end."""
        share = np.clip(self.bins[:, 1] / self._people, 0.0, 1.0)
        found: Floats = self._people * share * (1 - share)
        return found

    def _radius(self, weights: tuple[float, float], rounding: Floats) -> Floats:
        """Standard errors of weights . bins; weights of two signs count as if the bins moved apart together."""
        parts = np.abs(weights) * self.spread
        noise = parts.sum(axis=1) ** 2 if weights[0] * weights[1] < 0 else (parts**2).sum(axis=1)
        found: Floats = np.sqrt(noise + (weights[1] - weights[0]) ** 2 * rounding)
        return found

    @property
    def stderr(self) -> Value:
        if not self.average:
            return self._radius(self.ends, self._rounding)
        lower, upper = self.ends
        means = np.clip(self.bins @ np.array(self.ends) / self._people, lower, upper)
        parts = ((np.array(self.ends) - means[:, None]) * self.spread) ** 2
        return np.asarray(
            np.sqrt(parts.sum(axis=1) + (upper - lower) ** 2 * self._rounding) / self._people
        )

    def interval(self, value: Value, level: float) -> Interval:
        outside = 1 - valid_level(level)
        return self._foresee(outside) if self.law is None else self._bound(self.law, outside)

    def _bound(self, law: BinMoments, outside: float) -> Interval:
        (lower, upper), most = self.ends, float(self.people)
        step = upper - lower
        if not self.average:
            ends = np.array(self.ends)
            return Interval(*bound_sums(law, self.bins, ends, outside, step=step, most=most))
        above = np.array([0.0, step])  # the sum less the lower end of everybody: one bin alone
        sums = bound_sums(law, self.bins, above, outside / 2, step=step, most=most)
        people = bound_sums(law, self.bins, np.ones(2), outside / 2, step=0.0, most=most)
        return bound_means(*sums, *people, self.ends)

    def _foresee(self, outside: float) -> Interval:
        z = -NormalDist().inv_cdf(outside / 4)
        people = self.bins.sum(axis=1)
        about = z * np.sqrt((self.spread**2).sum(axis=1))
        most, least = np.maximum(people + about, 1.0), people - about
        if not self.average:
            radius = z * self._radius(self.ends, most / 4)
            value = self.bins @ np.array(self.ends)
            return Interval(value - radius, value + radius)
        lower, upper = self.ends
        above = (0.0, upper - lower)  # the sum less the lower end of everybody: one bin alone
        sums, radius = self.bins @ np.array(above), z * self._radius(above, most / 4)
        return bound_means(sums - radius, sums + radius, least, most, self.ends)

    def exact_interval(self, value: Value, level: float) -> Interval:
        raise UnsupportedError("no exact interval is known for this estimate: use interval()")


def estimate_groups(question: Question, tally: Tally) -> Estimate:
    """The sum or mean of each group."""
    found = question.protocol.analyzer.estimate(tally)
    bins, n = np.asarray(found.value, dtype=np.float64), tally.people()
    law = found.error if isinstance(found.error, WITH_MOMENTS) else None
    return _answer(question, bins, np.asarray(found.stderr, dtype=np.float64), n, law)


def foresee_groups(question: Question, counts: Counts) -> Estimate:
    """The estimate where the noise is at its mean: counts[2 groups] of people at the ends."""
    spread = np.sqrt(np.asarray(question.protocol.analyzer.variance(counts), dtype=np.float64))
    return _answer(question, counts.astype(np.float64), spread, int(counts.sum()), None)


def _answer(
    question: Question, bins: Floats, spread: Floats, n: int, law: BinMoments | None
) -> Estimate:
    assert question.range is not None
    lower, upper = question.range
    table = bins.reshape(-1, 2)
    error = GroupsError(
        average=question.task == "mean_by_group",
        ends=(lower, upper),
        bins=table,
        spread=np.broadcast_to(spread, bins.shape).reshape(-1, 2),
        people=n,
        law=law,
    )
    value: Floats = table @ np.array([lower, upper])
    limits = (min(0.0, n * lower), max(0.0, n * upper))
    if error.average:
        value = np.clip(value / np.maximum(table.sum(axis=1), 1.0), lower, upper)
        limits = (lower, upper)
    return Estimate(value=value, error=error, limits=limits, labels=question.labels)
