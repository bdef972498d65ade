"""Sums and means by group, from the histogram of groups and ends.

Everybody's number was rounded to one of the two ends of its range before the noise, so with c_0 and c_1 people of a
group at the lower and the upper end

    sum = lower c_0 + upper c_1,    mean = sum / (c_0 + c_1),

and the sum is unbiased. Its variance is that of the two bins and that of rounding, (upper - lower)^2 m (1 - m) for
each person if the group's mean lies at the share m of the range; at most a quarter. Standard errors take the bins for
uncorrelated where the weights have one sign, which is close to the truth and no bound: some messages support several
bins at once. Intervals do not rely on that. They follow from moments of the noise (`numerics.intervals.binomial`), or
where its law has none, from certified intervals of the two bins, and cover with at least their level; that of a mean
combines those of the sum and of the people, which hold together. Of a forecast, which has no noise yet, they are normal
ones.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.estimate import Estimate, Interval, Value
from shuffledp.core.validate import level as valid_level
from shuffledp.live.wire.question import Question
from shuffledp.numerics.intervals.binomial import BinMoments, have_both_signs
from shuffledp.tasks.groups import WITH_MOMENTS, bound_means, bound_sums


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
    law: BinMoments | None = None
    """Of the bins; None: it has no moments, or nothing was drawn."""
    drawn: Estimate | None = None
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
        mixed = have_both_signs(np.array(weights))
        noise = parts.sum(axis=1) ** 2 if mixed else (parts**2).sum(axis=1)
        found: Floats = np.sqrt(noise + (weights[1] - weights[0]) ** 2 * rounding)
        return found

    @property
    def stderr(self) -> Value:
        if not self.average:
            return self._radius(self.ends, self._rounding)
        lower, upper = self.ends
        means = np.clip(self.bins @ np.array(self.ends) / self._people, lower, upper)
        parts = np.abs(np.array(self.ends) - means[:, None]) * self.spread
        noise = parts.sum(axis=1) ** 2  # weights of two signs, always: as if the bins moved apart
        return np.asarray(np.sqrt(noise + (upper - lower) ** 2 * self._rounding) / self._people)

    def interval(self, value: Value, level: float) -> Interval:
        outside = 1 - valid_level(level)
        if self.law is not None:
            return self._bound(self.law, outside)
        return self._foresee(outside) if self.drawn is None else self._combine(self.drawn, outside)

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

    def _combine(self, drawn: Estimate, outside: float) -> Interval:
        """From intervals of the two bins: each is missed with probability outside / 4, rounding with outside / 2."""
        bins = drawn.exact_interval(1 - outside / 4)
        low, high = (np.asarray(end, dtype=np.float64).reshape(-1, 2) for end in bins)
        lower, upper = self.ends
        step = upper - lower
        rounding = step * math.sqrt(self.people * math.log(4 / outside) / 2)  # Hoeffding
        if self.average:  # the sum less the lower end of everybody: one bin alone
            sums = step * low[:, 1] - rounding, step * high[:, 1] + rounding
            return bound_means(*sums, low.sum(axis=1), high.sum(axis=1), self.ends)
        ends = np.array(self.ends)
        least, most = np.minimum(ends * low, ends * high), np.maximum(ends * low, ends * high)
        return Interval(least.sum(axis=1) - rounding, most.sum(axis=1) + rounding)

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
    """Return the sum or mean of each group."""
    found = question.protocol.analyzer.estimate(tally)
    bins, n = np.asarray(found.value, dtype=np.float64), tally.people()
    return _answer(question, bins, np.asarray(found.stderr, dtype=np.float64), n, found)


def foresee_groups(question: Question, counts: Counts) -> Estimate:
    """Return the estimate where the noise is at its mean: counts[2 groups] of people at the ends."""
    spread = np.sqrt(np.asarray(question.protocol.analyzer.variance(counts), dtype=np.float64))
    return _answer(question, counts.astype(np.float64), spread, int(counts.sum()))


def _answer(
    question: Question, bins: Floats, spread: Floats, n: int, drawn: Estimate | None = None
) -> Estimate:
    assert question.range is not None
    lower, upper = question.range
    table = bins.reshape(-1, 2)
    error = GroupsError(
        average=question.averages,
        ends=(lower, upper),
        bins=table,
        spread=np.broadcast_to(spread, bins.shape).reshape(-1, 2),
        people=n,
        law=drawn.error if drawn is not None and isinstance(drawn.error, WITH_MOMENTS) else None,
        drawn=drawn,
    )
    value: Floats = table @ np.array([lower, upper])
    limits = (min(0.0, n * lower), max(0.0, n * upper))
    if error.average:
        value = np.clip(value / np.maximum(table.sum(axis=1), 1.0), lower, upper)
        limits = (lower, upper)
    return Estimate(value=value, error=error, limits=limits, labels=question.labels)
