"""A question by group: how many, which, how much, in each of some declared groups.

Who is in which group is protected like the answers are: devices send the pair of answer and group, and what is
counted is a histogram over all pairs. Sums and means follow from it: every pair counts with its number.

Numbers with more than a few values are rounded at random, without bias, to the points of a coarse grid: fewer bins
have less noise together. With K steps, a noise of v in each bin and m people in a group, the variance of a sum is
about (v K / 3 + m / (4 K^2)) times the square of the range, which is smallest at K = (3 m / (2 v))^(1/3).

Quantiles and spreads are read from the cells of each group. A rank is off by about sqrt(v K / 6), a share
of the group's m people, and values by half a cell, 1 / (2 K) of the range: both are alike at K = (3 m^2 / (2 v))^(1/3).

Quantiles and spreads of groups, from noisy counts of their values: table[groups, cells].

How many people are in a group is noisy, too. The share p of a group lies at or below cell c if

    D_c = (1 - p) (people up to c) - p (people above c) >= 0,

which is one weighted sum of bins: cell c is excluded if D_c is surely negative, or D_(c-1) surely positive. A spread
follows from the number of people and the first two moments around a centre. The centre is the value next to the noisy
mean; so that its choice costs nothing, the moments around every value hold together.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate, Interval, Value
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.display import Picture, make_picture
from shuffledp.core.domain import Answers, Categories, Cells, Domain, Integers, Reals, column
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.task import Column, Declared, Task, say_of
from shuffledp.core.validate import level as valid_level
from shuffledp.tasks.histogram import Histogram
from shuffledp.tasks.numbers import Bin, Median, Quantiles, Std, Variance
from shuffledp.tasks.totals import Count, Mean, Sum, mean_square

if TYPE_CHECKING:
    from shuffledp.numerics.intervals.binomial import BinMoments
    from shuffledp.numerics.leaves import Leaves

Ends = Callable[[Floats, float], tuple[Floats, Floats]]
"""Intervals of each group's sum of bins with these weights, with this error probability on either side."""


def _read(row: Floats, domain: Integers | Cells) -> "Leaves":
    from shuffledp.numerics.leaves import Leaves
    from shuffledp.numerics.tree_noise import IndependentLevels

    total = max(float(row.sum()), 1.0)
    noise = IndependentLevels(levels=())
    return Leaves(domain=domain, shape=(domain.size,), values=row, n=total, noise=noise)  # type: ignore[arg-type]


def find_quantiles(table: Floats, domain: Integers | Cells, shares: tuple[float, ...]) -> Floats:
    """Return the quantiles of each group, group by group.

    >>> ages = Integers(lower=3, upper=5)
    >>> find_quantiles(np.array([[9.0, 1.0, 0.0], [0.0, 1.0, 9.0]]), ages, (0.5,))
    array([3., 5.])
    """
    return np.array([_read(row, domain).quantile(p)[0] for row in table for p in shares])


def bound_quantiles(
    ends: Ends, table: Floats, domain: Integers | Cells, shares: tuple[float, ...], tail: float
) -> Interval:
    """Return intervals of the quantiles: whole cells, with error probability `tail` on either side.

    >>> exact = lambda weights: np.array([[9.0, 1.0, 0.0], [0.0, 1.0, 9.0]]) @ weights
    >>> within = lambda weights, tail: (exact(weights) - 0.5, exact(weights) + 0.5)
    >>> low, high = bound_quantiles(within, np.eye(2, 3), Integers(lower=3, upper=5), (0.5,), 0.01)
    >>> low.tolist(), high.tolist()
    ([3.0, 4.0], [3.0, 5.0])
    """
    groups, size = table.shape
    low, high = (np.zeros((groups, len(shares)), dtype=np.int64) for _ in range(2))
    for place, p in enumerate(shares):
        steps = [np.where(np.arange(size) <= c, 1 - p, -p) for c in range(size)]
        intervals = [ends(weights, tail) for weights in steps]
        least, most = (np.array(side).T for side in zip(*intervals, strict=True))  # [groups, cells]
        # Up to the last cell is everybody.
        low[:, place] = np.argmax(np.column_stack([most[:, :-1] >= 0, np.ones(groups)]), axis=1)
        below = np.column_stack([np.ones(groups), least[:, :-1] <= 0])
        high[:, place] = size - 1 - np.argmax(below[:, ::-1], axis=1)
    cells = np.array([[_read(row, domain).quantile(p)[1] for p in shares] for row in table])
    low, high = np.minimum(low, cells).ravel(), np.maximum(high, cells).ravel()
    edges = _read(table[0], domain).edges
    return Interval(edges[low], edges[high + isinstance(domain, Cells)])


def find_variances(table: Floats, numbers: Floats) -> Floats:
    """Return the variance of each group, at least 0.

    >>> find_variances(np.array([[5.0, 0.0, 5.0]]), np.array([1.0, 2.0, 3.0]))
    array([1.])
    """
    people = np.maximum(table.sum(axis=1), 1.0)
    means = np.clip(table @ numbers / people, numbers[0], numbers[-1])
    squares = (table * (numbers - means[:, None]) ** 2).sum(axis=1)
    variances: Floats = np.clip(squares / people, 0.0, ((numbers[-1] - numbers[0]) / 2) ** 2)
    return variances


def bound_spreads(
    ends: Ends, table: Floats, numbers: Floats, blur: float, outside: float
) -> Interval:
    """Return intervals of standard deviations, missed with probability `outside`, of values within `blur` of these."""
    groups, size = table.shape
    widest = (numbers[-1] - numbers[0]) / 2 + blur
    least, most = ends(np.ones(size), outside / 6)
    people = np.maximum(table.sum(axis=1), 1.0)
    means = np.clip(table @ numbers / people, numbers[0], numbers[-1])
    nearest = np.abs(numbers - means[:, None]).argmin(axis=1)
    low, high = np.zeros(groups), np.full(groups, widest)
    for group, centre in enumerate(nearest.tolist()):
        if least[group] <= 0:
            continue
        away, tail = numbers - numbers[centre], outside / 6 / size
        first, second = (
            tuple(float(side[group]) for side in ends(weights, tail)) for weights in (away, away**2)
        )
        farthest = max(abs(first[0]), abs(first[1])) / least[group]
        below = max(second[0], 0.0) / most[group] - farthest**2
        above = max(second[1], 0.0) / least[group]
        low[group] = max(math.sqrt(max(below, 0.0)) - blur, 0.0)
        high[group] = min(math.sqrt(above) + blur, widest)
    return Interval(low, high)


_SHAPES = (Median, Quantiles, Variance, Std)
_ASKED: Mapping[str, type[Task]] = {
    each.name: each for each in (Count, Histogram, Bin, Sum, Mean, *_SHAPES)
}
GROUPED = tuple(_ASKED)
"""The questions that may be asked by group."""
_BY_GROUP = "_by_group"
BY_GROUP: Mapping[str, type[Task]] = {
    f"{name}{_BY_GROUP}": task for name, task in _ASKED.items() if task.adds
}
"""What is asked about each group, by what documents of live collections call a number by group."""
_FEW, _MOST_STEPS = 16, 64  # values that are counted as they are; steps of a grid
_FEWEST_CELLS = 8
_NOISE = 12.0  # of a bin at epsilon = 1, about
_ONE_SIGMA = 0.6827
_OF_PEOPLE = 0.1  # of what an interval may miss, for the number of people whose values were rounded


def has_moments(law: object) -> "TypeGuard[BinMoments]":
    """Return whether weighted sums of bins with these errors have known moments."""
    from shuffledp.numerics import intervals

    known = (
        intervals.DifferenceError,
        intervals.DiscreteLaplaceError,
        intervals.NoiseError,
        intervals.TwoBinomialsError,
    )
    return isinstance(law, known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(Task):
    """What a question asks, of each group.

    >>> from shuffledp.tasks.totals import Count
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
    at: tuple[float, ...] = ()
    """Which quantiles."""
    coarse: bool = False
    """Whether values share cells, as many as are best."""

    def __post_init__(self) -> None:
        if self.shaped and not isinstance(self.domain.parts[0], Integers | Cells):
            raise ParameterError("task", self.inner, "must be about numbers, by group")
        if issubclass(self.asked, Quantiles) != bool(self.at):
            raise ParameterError("at", list(self.at), "must be given for quantiles, by group")

    @classmethod
    def of(cls, task: Task, groups: Categories) -> "Grouped":
        """Return the task for each of the groups; numbers with many values are rounded to a grid."""
        check_grouped(type(task))
        values = task.domain
        rounded = task.adds and (isinstance(values, Reals) or values.size > _FEW)
        if rounded and isinstance(values, Integers | Reals):
            values = Reals(lower=values.lower, upper=values.upper, steps=_MOST_STEPS)
        if not isinstance(task, _SHAPES):
            return cls(domain=Answers(parts=(values, groups)), inner=task.name)
        coarse = task.chosen or values.size > _MOST_STEPS
        if coarse and isinstance(values, Integers | Cells):
            values = Cells(lower=values.lower, upper=values.upper, cells=_MOST_STEPS)
        at = task.at or ()
        return cls(domain=Answers(parts=(values, groups)), inner=task.name, at=at, coarse=coarse)

    @classmethod
    def at_ends(cls, kind: type[Task], ends: tuple[float, float], groups: Categories) -> "Grouped":
        """Return a sum or mean by group of numbers that are rounded to one of the two ends of their range.

        Where the noise of a bin grows with the people, these bins are the fewest, and so the best. With c_0 and c_1
        people of a group at the ends, its sum is lower c_0 + upper c_1, and its mean that over c_0 + c_1.

        >>> ways = Categories(k=2, names=("car", "bus"))
        >>> Grouped.at_ends(Mean, (0.0, 10.0), ways).truth(([2.0, 4.0, 9.0], [0, 0, 1]))
        array([3., 9.])
        """
        check_grouped(kind)
        own = Reals(lower=ends[0], upper=ends[1], steps=1)
        return cls(domain=Answers(parts=(own, groups)), inner=kind.name)

    @property
    def asked(self) -> type[Task]:
        """What is asked about each group."""
        return _ASKED[self.inner]

    @property
    def document_name(self) -> str:
        return f"{self.inner}{_BY_GROUP}" if self.asked.adds else self.answered_by[0]

    @property
    def sampled(self) -> bool:
        return not self.sums_up

    @property
    def shaped(self) -> bool:
        """Whether answers are quantiles or spreads."""
        return issubclass(self.asked, _SHAPES)

    @property
    def sums_up(self) -> bool:
        """Whether an answer is made of several bins."""
        return self.asked.adds or self.shaped

    def fit(self, n: int, epsilon: float) -> "Grouped":
        values, groups = self.domain.parts
        if self.coarse:
            best = (1.5 * (n / groups.size * epsilon) ** 2 / _NOISE) ** (1 / 3)
            return self.round_to(round(best))
        if not isinstance(values, Reals):
            return self
        best = (1.5 * n / groups.size * epsilon**2 / _NOISE) ** (1 / 3)
        return self.round_to(min(max(round(best), 1), _MOST_STEPS))

    def round_to(self, steps: int) -> "Grouped":
        """Return the same with numbers on `steps` steps; numbers that are not rounded stay as they are."""
        values, groups = self.domain.parts
        if self.coarse and isinstance(values, Cells):
            cells = min(max(steps, _FEWEST_CELLS), _MOST_STEPS)
            return replace(self, domain=Answers(parts=(replace(values, cells=cells), groups)))
        if not isinstance(values, Reals):
            return self
        return replace(self, domain=Answers(parts=(replace(values, steps=steps), groups)))

    @property
    def step(self) -> float:
        """The distance of two points of the grid; 0 if numbers are not rounded."""
        values = self.domain.parts[0]
        return (values.upper - values.lower) / values.steps if isinstance(values, Reals) else 0.0

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        raise UnsupportedError("groups are declared in a survey: by")

    def remarks(self) -> tuple[str, ...]:
        remarks, values = [], self.domain.parts[0]
        if self.shaped and isinstance(values, Cells):
            remarks.append(
                f"Values were counted in {values.cells} public cells of {2 * self.blur:.6g} each; `steps` chooses fewer."
            )
        if self.step:
            remarks.append(
                f"Numbers were rounded at random, without bias, to a public grid of {self.domain.parts[0].size - 1} "
                f"steps of {self.step:.6g}; the intervals count it in."
            )
        if self.asked.average:
            remarks.append(
                "The interval of a mean follows from those of the group's sum and of its number of people, which "
                "hold together: so it is often several times wider than two standard errors."
            )
        return tuple(remarks)

    @classmethod
    def show(cls, estimate: Estimate, level: float = 0.95) -> Picture:
        """Draw bars; those of a histogram stand in their groups."""
        shown, law = make_picture(estimate, level), estimate.error
        if not isinstance(law, GroupError):
            return shown
        shown = replace(shown, whole=law.task.asked.counts)
        if len(law.task.at) > 1:
            labels = law.task.domain.parts[1].labels
            return replace(shown, groups=tuple(np.repeat(labels, len(law.task.at)).tolist()))
        if not law.task.asked.bins:
            return shown
        values, groups = law.task.domain.parts
        return replace(shown, groups=tuple(np.repeat(groups.labels, values.size).tolist()))

    @property
    def labels(self) -> tuple[str, ...]:
        """What the answers are called."""
        values, groups = self.domain.parts
        if len(self.at) > 1:
            return tuple(f"{group}, {p:g}" for group in groups.labels for p in self.at)
        if not self.asked.bins:
            return groups.labels
        return tuple(f"{group}, {name}" for group in groups.labels for name in values.labels)

    def arguments(self) -> Mapping[str, Any]:
        return {"k": self.domain.size}

    def sensitivity(self, n: int) -> float:
        return 2

    @property
    def blur(self) -> float:
        """How far a value may be from the one that stands for its cell."""
        values = self.domain.parts[0]
        return (
            (values.upper - values.lower) / values.cells / 2 if isinstance(values, Cells) else 0.0
        )

    def truth(self, values: ArrayLike) -> Floats:
        if isinstance(values, tuple | list) and np.ndim(values[0]) == 1:
            if self.step:
                return self._exact_truth(values[0], values[1])
            if self.shaped:
                return self._exact_shapes(values[0], values[1])
        counts = np.bincount(self.domain.codes(values), minlength=self.domain.size)
        return np.atleast_1d(np.asarray(self._answer(counts.astype(np.float64))))

    def _exact_truth(self, numbers: ArrayLike, groups: ArrayLike) -> Floats:
        """Return the exact answer, from the numbers before they are rounded."""
        values, names = self.domain.parts
        values.codes(numbers)
        codes = names.codes(groups)
        sums = np.bincount(codes, weights=np.asarray(numbers, dtype=float), minlength=names.size)
        if not self.asked.average:
            return np.asarray(sums, dtype=np.float64)
        people = np.maximum(np.bincount(codes, minlength=names.size), 1)
        return np.asarray(sums / people)

    def _exact_shapes(self, numbers: ArrayLike, groups: ArrayLike) -> Floats:
        """Return the exact answer, from the numbers themselves; 0 where nobody is."""
        values, names = self.domain.parts
        people, codes = column(numbers), names.codes(groups)
        given = {"at": self.at} if self.at else {}
        task = self.asked(domain=values, **given)
        sets = (people[codes == group] for group in range(names.size))
        answers = [task.truth(each) if len(each) else np.zeros(len(self.at) or 1) for each in sets]
        return np.concatenate([np.atleast_1d(np.asarray(each)) for each in answers])

    def loss(self, estimate: Value, truth: Value) -> float:
        return mean_square(estimate, truth)

    def _numbers(self) -> Floats:
        values: Domain = self.domain.parts[0]
        return values.values(np.arange(values.size))

    def _answer(self, bins: Floats) -> Floats:
        values = self.domain.parts[0]
        table = bins.reshape(self.domain.parts[1].size, -1)
        if self.asked.bins:
            return bins
        if self.at and isinstance(values, Integers | Cells):
            return find_quantiles(table, values, self.at)
        if self.shaped:
            variances = find_variances(table, self._numbers())
            return np.sqrt(variances) if self.asked is Std else variances
        if not self.asked.adds:
            return table[:, 1]
        sums = table @ self._numbers()
        if not self.asked.average:
            return sums
        shares: Floats = sums / np.maximum(table.sum(axis=1), 1.0)
        return np.clip(shares, self._numbers()[0], self._numbers()[-1])

    def amplify_noise(self) -> float:
        """Return the factor by which the noise of a sum exceeds that of a bin; 1 where the answers are bins.

        >>> from shuffledp.tasks.totals import Sum
        >>> ways = Categories(k=2, names=("car", "bus"))
        >>> round(Grouped.of(Sum(domain=Integers(lower=0, upper=2)), ways).amplify_noise(), 3)
        2.236
        """
        if not self.asked.adds:
            return 1.0
        return float(np.linalg.norm(self._numbers()))

    def convert(self, bins: Estimate) -> Estimate:
        """Return the answers by group, from the histogram of all pairs."""
        value = self._answer(np.asarray(bins.value, dtype=np.float64))
        n, numbers = bins.limits[1], self._numbers()
        limits = (0.0, n)
        if self.asked.adds:
            limits = (min(0.0, n * float(numbers[0])), max(0.0, n * float(numbers[-1])))
        if self.asked.average or self.at:
            limits = (float(numbers[0]) - self.blur, float(numbers[-1]) + self.blur)
        elif self.shaped:
            half = float(numbers[-1] - numbers[0]) / 2 + self.blur
            limits = (0.0, half if self.asked is Std else half**2)
        error = GroupError(task=self, bins=bins)
        return Estimate(value=value, error=error, limits=limits, labels=self.labels)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupError:
    """Errors of groups, from those of the bins.

    The noises of bins are independent, or all negatively correlated alike because the bins add up to n; then the
    variance of any weighted sum is at most k / (k - 1) times that of independent ones, k bins in all. Where messages may
    support bins together (hashing, Hadamard rows) standard deviations add up.
    """

    task: Grouped
    bins: Estimate

    @property
    def _shape(self) -> tuple[int, int]:
        values, groups = self.task.domain.parts
        return groups.size, values.size

    @property
    def _table(self) -> Floats:
        return np.asarray(self.bins.value, dtype=np.float64).reshape(self._shape)

    def _pick_kept(self) -> Counts:
        places = np.arange(math.prod(self._shape))
        return places if self.task.asked.bins else places.reshape(self._shape)[:, 1]

    def _keep(self, ends: Interval) -> Interval:
        """Keep the bins that are answers."""
        return Interval(*(np.asarray(end)[self._pick_kept()] for end in ends))

    def _spread(self) -> Floats:
        """Return the standard errors of the bins: groups x values."""
        size = math.prod(self._shape)
        each = np.broadcast_to(np.asarray(self.bins.stderr), (size,))
        return np.asarray(each, dtype=np.float64).reshape(self._shape)

    def _noise(self, weights: Floats) -> Floats:
        """Bound from above the variance of the sum of each group's bins with these weights: values, or groups x values."""
        from shuffledp.numerics.intervals import TwoBinomialsError

        size, law = math.prod(self._shape), self.bins.error
        if isinstance(law, TwoBinomialsError) and not law.apart:
            return np.asarray((self._spread() * np.abs(weights)).sum(axis=1) ** 2)
        variances: Floats = (self._spread() ** 2 * weights**2).sum(axis=1) * (size / (size - 1))
        return variances

    def _bound_rounding(self, people: Floats) -> Floats:
        """Bound from above the variance that rounding adds to the sums of these people."""
        variances: Floats = np.maximum(people, 1.0) * self.task.step**2 / 4
        return variances

    def _find_shapes(self, ends: Ends, level: float) -> Interval:
        """Return intervals of quantiles or spreads, from those of sums of bins."""
        table, values = self._table, self.task.domain.parts[0]
        outside = 1 - valid_level(level)
        if self.task.at and isinstance(values, Integers | Cells):
            return bound_quantiles(ends, table, values, self.task.at, outside / 2)
        low, high = bound_spreads(ends, table, self.task._numbers(), self.task.blur, outside)
        return Interval(low, high) if self.task.asked is Std else Interval(low**2, high**2)

    def _shape_errors(self) -> Value:
        """Return half of the intervals of about one standard error of a quantile; of a spread, that of its sum of
        squares.
        """
        if self.task.at:
            low, high = self.interval(0.0, _ONE_SIGMA)
            return np.asarray((np.asarray(high) - np.asarray(low)) / 2)
        table, numbers = self._table, self.task._numbers()
        people = np.maximum(table.sum(axis=1), 1.0)
        away = numbers - np.clip(table @ numbers / people, numbers[0], numbers[-1])[:, None]
        errors = np.sqrt(self._noise(away**2)) / people
        if self.task.asked is not Std:
            return np.asarray(errors)
        spreads = np.sqrt(find_variances(table, numbers))
        return np.asarray(np.minimum(errors / np.maximum(2 * spreads, 1e-300), np.sqrt(errors)))

    @property
    def stderr(self) -> Value:
        if self.task.shaped:
            return self._shape_errors()
        if not self.task.asked.adds:
            return self._spread().ravel()[self._pick_kept()]
        numbers = self.task._numbers()
        people = np.maximum(self._table.sum(axis=1), 1.0)
        if not self.task.asked.average:
            return np.sqrt(self._noise(numbers) + self._bound_rounding(people))
        means = self.task._answer(np.asarray(self.bins.value))
        squares = self._noise(numbers - means[:, None]) + self._bound_rounding(people)
        return np.asarray(np.sqrt(squares) / people)

    def interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers the truth with probability at least `level`: by moments of the noise, or as
        `exact_interval` does.
        """
        if not self.task.sums_up:
            return self._keep(self.bins.interval(level))
        law = self.bins.error
        if not has_moments(law):
            return self.exact_interval(value, level)
        if self.task.shaped:
            return self._find_shapes(partial(self._shape_ends, law), level)
        outside = 1 - valid_level(level)
        if not self.task.asked.average:
            return Interval(*self._sum_ends(law, self.task._numbers(), outside))
        numbers = self.task._numbers()
        sums = self._sum_ends(law, numbers - numbers[0], outside / 2)
        people = self._sum_ends(law, np.ones(len(numbers)), outside / 2, step=0.0)
        return bound_means(*sums, *people, (numbers[0], numbers[-1]))

    def _sum_ends(
        self, law: "BinMoments", weights: Floats, outside: float, step: float | None = None
    ) -> tuple[Floats, Floats]:
        """Return intervals of the sums of the groups' bins with these weights."""
        table, most = self._table, self.bins.limits[1]
        width = self.task.step if step is None else step
        return bound_sums(law, table, weights, outside, step=width, most=most)

    def _shape_ends(self, law: "BinMoments", weights: Floats, tail: float) -> tuple[Floats, Floats]:
        """Return intervals of many sums of the groups' bins, with few tries each. Nothing is rounded."""
        from shuffledp.numerics.intervals.binomial import FEW_TRIED, bound_deviation

        value, zeros = self._table @ weights, np.zeros(1)
        above, below = (
            bound_deviation(law, side * weights, tail, zeros, FEW_TRIED) for side in (1.0, -1.0)
        )
        return value - above, value + below

    def exact_interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers the truth with probability at least `level`, whatever the law of the bins
        is.

        That of a sum or mean follows from exact intervals of all bins of a group, which hold together with half of
        the error probability, and from Hoeffding's bound of the rounding with the other half. With many bins it is
        wide."""
        if not self.task.sums_up:
            return self._keep(self.bins.exact_interval(level))
        if self.task.shaped:
            return self._find_shapes(self._bin_ends, level)
        outside = (1 - level) / 2
        ends = self.bins.exact_interval(1 - outside / self._shape[1])
        least, most = (np.maximum(np.asarray(end), 0.0).reshape(self._shape) for end in ends)
        people, numbers = most.sum(axis=1), self.task._numbers()
        off = self.task.step * np.sqrt(people * math.log(2 / outside) / 2)
        if not self.task.asked.average:
            ways = least * numbers, most * numbers  # a negative number turns them around
            return Interval(
                np.minimum(*ways).sum(axis=1) - off, np.maximum(*ways).sum(axis=1) + off
            )
        above, fewest = numbers - numbers[0], least.sum(axis=1)
        sums = least @ above - off, most @ above + off
        return bound_means(*sums, fewest, people, (numbers[0], numbers[-1]))

    def _bin_ends(self, weights: Floats, tail: float) -> tuple[Floats, Floats]:
        """Return the same as `_sum_ends`, from intervals of all bins of a group, which hold together."""
        ends = self.bins.exact_interval(1 - 2 * tail / self._shape[1])
        least, most = (np.maximum(np.asarray(end), 0.0).reshape(self._shape) for end in ends)
        ways = least * weights, most * weights
        return np.minimum(*ways).sum(axis=1), np.maximum(*ways).sum(axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PickedError:
    """Errors of some of the answers by group: those at `places`, or one of them alone."""

    whole: Estimate
    places: slice | int

    def _pick(self, value: Value) -> Value:
        picked = np.asarray(value)[self.places]
        return float(picked) if np.ndim(picked) == 0 else picked

    @property
    def stderr(self) -> Value:
        return self._pick(self.whole.stderr)

    def interval(self, value: Value, level: float) -> Interval:
        """Return the interval of the groups, where they are shown."""
        return Interval(*map(self._pick, self.whole.interval(level)))

    def exact_interval(self, value: Value, level: float) -> Interval:
        """Return the exact interval of the groups, where they are shown."""
        return Interval(*map(self._pick, self.whole.exact_interval(level)))


def leave_out(estimate: Estimate, groups: int, hidden: int) -> Estimate:
    """Return the answers by group without the last ones, which are `hidden`; if one number is left, that number alone.

    More than one is hidden where everybody has that many different values: then one bin has everybody once.

    >>> from shuffledp.core.analyzer import NormalError
    >>> both = Estimate(value=np.array([3.0, 9.0]), error=NormalError(stderr=np.ones(2)), limits=(0.0, 9.0), labels=("a", "b"))
    >>> leave_out(both, 2, 1).value, leave_out(both, 2, 1).stderr
    (3.0, 1.0)
    """
    size = len(np.asarray(estimate.value)) // groups * (groups - hidden)
    places: slice | int = slice(size) if size > 1 else 0
    error = PickedError(whole=estimate, places=places)
    labels = None if estimate.labels is None or size == 1 else estimate.labels[:size]
    if labels is not None and hidden == groups - 1:  # one group is left, and needs no name
        labels = tuple(label.partition(", ")[2] for label in labels)
    value = error._pick(estimate.value)
    low, high = estimate.limits
    return Estimate(value=value, error=error, limits=(low, high / hidden), labels=labels)


def bound_sums(
    law: "BinMoments", table: Floats, weights: Floats, outside: float, *, step: float, most: float
) -> tuple[Floats, Floats]:
    """Return intervals of sums of bins with these weights: table[groups, values], of at most `most` people.

    Numbers that were rounded to points `step` apart count in, for as many people as a group may have.
    """
    from shuffledp.numerics.intervals.binomial import bound_deviation

    value, rounded = table @ weights, np.zeros(len(table))
    if step:
        left = outside * _OF_PEOPLE
        more = bound_deviation(law, -np.ones(len(weights)), left, rounded)
        people = np.clip(table.sum(axis=1) + more, 0.0, most)
        rounded, outside = people * step * step, outside - left
    above, below = (
        bound_deviation(law, side * weights, outside / 2, rounded) for side in (1.0, -1.0)
    )
    # An estimate that is too large by `above` lies above the truth.
    return value - above, value + below


def bound_means(
    low: Floats, high: Floats, least: Floats, most: Floats, ends: tuple[float, float]
) -> Interval:
    """Return intervals of means between the ends, from those of sums less the lower end each, and of the people.

    >>> low, high = bound_means(np.array([4.0]), np.array([6.0]), np.array([4.0]), np.array([8.0]), (1.0, 9.0))
    >>> low.tolist(), high.tolist()
    ([1.5], [2.5])
    """
    lowest = np.maximum(low, 0.0) / np.maximum(most, 1.0)
    highest = np.where(least > 0, high / np.maximum(least, 1e-9), np.inf)
    return Interval(np.clip(ends[0] + lowest, *ends), np.clip(ends[0] + highest, *ends))


def check_grouped(task: type[Task]) -> None:
    """Refuse a question that has no answer by group."""
    if task.name not in GROUPED:
        raise UnsupportedError(
            f"{say_of(task.name, 'has')} no groups: by is for {', '.join(GROUPED)}"
        )


def spread_groups(task: Task) -> Task:
    """Return what protocols are asked: by group, a histogram over all pairs of answer and group."""
    return Histogram(domain=Categories(k=task.domain.size)) if isinstance(task, Grouped) else task
