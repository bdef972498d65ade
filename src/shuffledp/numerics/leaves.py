r"""Answers from the fitted leaves of a tree: quantiles, ranges, the distribution function, variance, standard deviation.

Every answer follows from sums of leaves, and every interval from certified tails of such sums (`numerics.tree_noise`).
So intervals cover with at least their level, whatever the data are and however many people there are.

* A count, or a share: both ends with half of the error probability. All points of a distribution function hold
  together, each with its part of the error probability.
* A quantile: cell c is excluded if its people and those before are surely fewer than p n, or those before it surely at
  least that many, each with half of the error probability. What is not excluded is the interval, in whole cells.
* A variance or standard deviation: from intervals of the first two moments, which hold together.

Reals are known to their cell only. A point inside a cell is between the edges of the cell, so its interval holds what
either edge allows; a standard deviation is off by at most half a cell.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from shuffledp.core.analyzer import Estimate, Interval, Value
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.domain import Cells, Integers
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import number, whole
from shuffledp.numerics.tree_noise import Tails, TreeNoise, find_radius
from shuffledp.numerics.trees import (
    LevelWeights,
    functional_variance,
    leaf_weights,
    mean_prefix_variance,
    node_weights,
    prefix_variances,
    prefix_weights,
)

MOST_CELLS = 1 << 22
"""The most cells that a tree may have."""
_AT_ONCE = 1 << 13  # cells whose tails are looked at together
_FEW = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Leaves:
    """The fitted leaves of n people, and the noise in the tree that they were fitted from."""

    domain: Integers | Cells
    shape: tuple[int, ...]
    values: Floats
    """One number for each cell: unbiased, some of them negative."""
    n: int
    noise: TreeNoise

    @classmethod
    def empty(
        cls, *, domain: Integers | Cells, shape: tuple[int, ...], n: int, noise: TreeNoise
    ) -> "Leaves":
        """Return leaves without values, for errors that do not depend on them."""
        return cls(domain=domain, shape=shape, values=np.zeros(domain.size), n=n, noise=noise)

    @cached_property
    def prefixes(self) -> Floats:
        """How many people are in the cells up to each one; the last is n."""
        sums = np.cumsum(self.values)
        # All leaves of the tree are the public n, but for rounding. (Some of them may lie beyond the domain.)
        if len(self.values) == math.prod(self.shape):
            sums[-1] = self.n
        return sums

    @cached_property
    def stderrs(self) -> Floats:
        """Standard errors of the prefixes."""
        every = prefix_variances(self.shape, self.noise.variances)
        return np.sqrt(every[: len(self.values)])

    @cached_property
    def edges(self) -> Floats:
        """The ends of the cells; integers are cells that hold one value."""
        if isinstance(self.domain, Cells):
            return self.domain.edges
        return np.arange(self.domain.lower, self.domain.upper + 2, dtype=np.float64)

    @property
    def middles(self) -> Floats:
        """The value that stands for a cell."""
        return self.domain.values(np.arange(self.domain.size))

    @property
    def blur(self) -> float:
        """How far a value may be from the one that stands for its cell."""
        if not isinstance(self.domain, Cells):
            return 0.0
        return (self.domain.upper - self.domain.lower) / self.domain.cells / 2

    def sum_error(self, q: Floats) -> float:
        """Return the standard error of the sum of the leaves with these weights."""
        return math.sqrt(functional_variance(q, self.shape, self.noise.variances))

    def estimate_noise(self, q: Floats) -> float:
        """Return the variance of the sum of the leaves with these weights.

        Where it depends on the data, this is an unbiased estimate.
        """
        largest = functional_variance(q, self.shape, self.noise.variances)
        spare = self.noise.find_spare(leaf_weights(q, self.shape, self.noise.variances))
        return largest - float(self.values @ spare[: len(self.values)])

    def sum_ends(self, q: Floats, tail: float) -> tuple[float, float]:
        """Return an interval of the sum of the leaves with these weights, with error probability `tail` on either side."""
        value = float(self.values @ q)
        above, below = _sum_radii(self.noise, self.shape, q.tobytes(), tail)
        return value - above, value + below

    def prefix_ends(self, cells: Counts, tail: float) -> tuple[Floats, Floats]:
        """Return intervals of the prefixes up to these cells; cell -1 stands for the empty one."""
        value = np.append(self.prefixes, 0.0)[cells]
        above, below = _prefix_radii(self.noise, self.shape, tuple(cells.tolist()), tail)
        return np.clip(value - above, 0, self.n), np.clip(value + below, 0, self.n)

    def bound_prefixes(self, beta: float) -> float:
        """Bound how far off any prefix is, except with probability beta."""
        tail, most = beta / 2 / len(self.values), 0.0
        for start in range(0, len(self.values), _AT_ONCE):
            cells = np.arange(start, min(start + _AT_ONCE, len(self.values)))
            weights = prefix_weights(cells, self.shape, self.noise.variances)
            ends = _radii(self.noise, weights, tail, self.stderrs[cells])
            most = max(most, *(float(each.max()) for each in ends))
        return most

    def monotone(self) -> Floats:
        """Make the prefixes rise from 0 to n: halfway between their running maximum and the minimum of what follows."""
        up = np.maximum.accumulate(self.prefixes)
        down = np.minimum.accumulate(self.prefixes[::-1])[::-1]
        middle: Floats = np.clip((up + down) / 2, 0.0, self.n)
        middle[-1] = self.n
        return middle

    def quantile(self, p: float) -> tuple[float, int]:
        """Return the p-quantile (the integer, or the place inside the cell by interpolation), and its cell."""
        counts = self.monotone()
        cell = int(np.searchsorted(counts, p * self.n))
        if isinstance(self.domain, Integers):
            return float(self.edges[cell]), cell
        before = counts[cell - 1] if cell else 0.0
        inside = max(counts[cell] - before, 1e-300)
        part = min(max((p * self.n - before) / inside, 0.0), 1.0)
        return float(self.edges[cell] + part * (self.edges[cell + 1] - self.edges[cell])), cell

    def quantile_cells(self, p: float, tail: float) -> tuple[int, int]:
        """Return the first and the last cell that are not excluded, with error probability `tail` on either side."""
        missing = p * self.n - self.prefixes
        # Cell c is too low if the people up to c are too few, and too high if those up to c - 1 are enough.
        cells = np.arange(len(missing))
        first = self._find_kept(cells, missing, -1.0, tail)
        last = self._find_kept(cells[-2::-1], -missing, 1.0, tail)
        cell = self.quantile(p)[1]
        low = cell if first is None else min(first, cell)
        high = cell if last is None else max(last + 1, cell)
        return low, high

    def _find_kept(self, cells: Counts, distance: Floats, sign: float, tail: float) -> int | None:
        """Return the first of these cells whose prefix may be off by its distance: that is not rare enough."""
        for start in range(0, len(cells), _AT_ONCE):
            block = cells[start : start + _AT_ONCE]
            left = block[self._tails(block, sign).screen(distance[block]) > tail]
            for begin in range(0, len(left), _FEW):
                some = left[begin : begin + _FEW]
                kept = self._tails(some, sign).above(distance[some]) > tail
                if kept.any():
                    return int(some[np.argmax(kept)])
        return None

    def _tails(self, cells: Counts, sign: float) -> Tails:
        weights = prefix_weights(cells, self.shape, self.noise.variances)
        return self.noise.tails(weights if sign > 0 else _negate(weights))


@lru_cache(maxsize=32)
def _sum_radii(
    noise: TreeNoise, shape: tuple[int, ...], q: bytes, tail: float
) -> tuple[float, float]:
    """Return how far a sum of leaves with these weights is too high, and too low, except with probability `tail` each."""
    weights = np.frombuffer(q)
    error = np.array([math.sqrt(functional_variance(weights, shape, noise.variances))])
    above, below = _radii(noise, node_weights(weights, shape, noise.variances), tail, error)
    return float(above[0]), float(below[0])


@lru_cache(maxsize=32)
def _prefix_radii(
    noise: TreeNoise, shape: tuple[int, ...], cells: tuple[int, ...], tail: float
) -> tuple[Floats, Floats]:
    """Return the same for prefixes; the one up to cell -1 has no noise."""
    places = np.array(cells)
    error = np.sqrt(prefix_variances(shape, noise.variances))[places]
    error[places < 0] = 0.0
    weights = prefix_weights(np.maximum(places, 0), shape, noise.variances)
    return _radii(noise, weights, tail, error)


def _radii(
    noise: TreeNoise, weights: Sequence[LevelWeights], tail: float, error: Floats
) -> tuple[Floats, Floats]:
    above, below = (
        find_radius(noise.tails(each), tail, error) for each in (weights, _negate(weights))
    )
    return above, below


def _negate(weights: Sequence[LevelWeights]) -> tuple[LevelWeights, ...]:
    return tuple(LevelWeights(values=-level.values, counts=level.counts) for level in weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafQuestion(ABC):
    """A question about the leaves."""

    at: tuple[float, ...] = ()
    """The quantiles; for the distribution function the points; for a range its two ends."""
    task: ClassVar[str]
    ranks: ClassVar[int] = 1
    """How many ranks an answer is made of: a range is the difference of two."""
    pointed: ClassVar[bool] = True
    """Whether it is about points."""

    @classmethod
    @abstractmethod
    def choose_points(cls, domain: Integers | Cells) -> tuple[float, ...]:
        """Return the points to ask about if none are given."""

    @classmethod
    def check_points(cls, points: tuple[float, ...], domain: Integers | Cells) -> None:
        """Refuse points that the question is not about."""
        for point in points:
            if not domain.lower <= point <= domain.upper:
                raise ParameterError(
                    "at", point, f"must be within {domain.lower} .. {domain.upper}"
                )

    def answer(self, leaves: Leaves) -> Estimate:
        """Return the answer; its intervals cover."""
        return Estimate(
            value=self._value(leaves),
            error=LeafError(leaves=leaves, question=self),
            limits=self._limits(leaves),
            labels=self._labels(),
        )

    def _labels(self) -> tuple[str, ...] | None:
        return None

    @abstractmethod
    def _limits(self, leaves: Leaves) -> tuple[float, float]: ...

    @abstractmethod
    def _value(self, leaves: Leaves) -> Value: ...

    def interval(self, leaves: Leaves, level: float) -> Interval:
        """Return both ends, each with half of the error probability.

        For the distribution function they hold at all points at once.
        """
        tail = (1 - level) / 2
        return self._interval(leaves, tail)

    @abstractmethod
    def _interval(self, leaves: Leaves, tail: float) -> Interval: ...

    @abstractmethod
    def stderr(self, leaves: Leaves) -> Value:
        """Return the standard error; for a quantile, about half the length of its one-sigma interval."""

    def relate(self, domain: Integers | Cells, n: int) -> float:
        """Return what the root of `variance` is relative to: n people, 1 if it is a share, the range, or its square.

        >>> [ask_leaves(task).relate(Integers(lower=0, upper=9), 50) for task in TASKS]
        [50.0, 50.0, 1.0, 81.0, 9.0]
        """
        return float(n)

    @abstractmethod
    def variance(self, leaves: Leaves) -> float:
        """Return the variance of a count of people, whatever the data are.

        For quantiles it is that of the rank, averaged over all cells.
        """


class QuantilesQuestion(LeafQuestion):
    """The values below which shares `at` of the people are."""

    __slots__ = ()
    task = "quantiles"

    @classmethod
    def choose_points(cls, domain: Integers | Cells) -> tuple[float, ...]:
        return (0.5,)

    @classmethod
    def check_points(cls, points: tuple[float, ...], domain: Integers | Cells) -> None:
        for point in points:
            if not 0 < point < 1:
                raise ParameterError("at", point, "must be > 0 and < 1")

    def _labels(self) -> tuple[str, ...]:
        return tuple(f"{p:g}" for p in self.at)

    def _limits(self, leaves: Leaves) -> tuple[float, float]:
        return float(leaves.edges[0]), float(leaves.domain.upper)

    def _value(self, leaves: Leaves) -> Value:
        return np.array([leaves.quantile(p)[0] for p in self.at])

    def _interval(self, leaves: Leaves, tail: float) -> Interval:
        return _on_edges(leaves, [leaves.quantile_cells(p, tail) for p in self.at])

    def stderr(self, leaves: Leaves) -> Value:
        low, high = _on_edges(leaves, [self._one_sigma(leaves, p) for p in self.at])
        return np.asarray((np.asarray(high) - np.asarray(low)) / 2, dtype=np.float64)

    def _one_sigma(self, leaves: Leaves, p: float) -> tuple[int, int]:
        """Return the cells that normal noise would leave."""
        wanted, cell = p * leaves.n, leaves.quantile(p)[1]
        reached = np.flatnonzero(leaves.prefixes + leaves.stderrs >= wanted)
        short = np.flatnonzero(leaves.prefixes[:-1] - leaves.stderrs[:-1] <= wanted)
        first = int(reached[0]) if len(reached) else cell
        return min(first, cell), max(int(short[-1]) + 1 if len(short) else 0, cell)

    def variance(self, leaves: Leaves) -> float:
        return mean_prefix_variance(leaves.shape, leaves.noise.variances)


class CdfQuestion(LeafQuestion):
    """The shares of the people at or below the points `at`."""

    __slots__ = ()
    task = "cdf"

    @classmethod
    def choose_points(cls, domain: Integers | Cells) -> tuple[float, ...]:
        return tuple(np.linspace(float(domain.lower), float(domain.upper), 21)[1:].tolist())

    def _labels(self) -> tuple[str, ...]:
        return tuple(f"<= {point:g}" for point in self.at)

    def _limits(self, leaves: Leaves) -> tuple[float, float]:
        return 0.0, 1.0

    def _value(self, leaves: Leaves) -> Value:
        inner, outer, part = self._brackets(leaves)
        below = np.concatenate([[0.0], leaves.prefixes])
        between: Floats = (1 - part) * below[inner + 1] + part * below[outer + 1]
        return between / leaves.n

    def _brackets(self, leaves: Leaves) -> tuple[Counts, Counts, Floats]:
        """Return for each point the last cell surely below it, the last that may be, and how much of that one is."""
        points = np.array(self.at)
        if isinstance(leaves.domain, Integers):
            cells = np.floor(points).astype(np.int64) - leaves.domain.lower
            return cells, cells, np.zeros(len(points))
        edges = leaves.edges
        cells = np.clip(np.searchsorted(edges, points, side="left") - 1, 0, len(edges) - 2)
        part = (points - edges[cells]) / (edges[cells + 1] - edges[cells])
        at_edge = points >= edges[cells + 1]  # everybody in the cell has at most its upper edge
        return np.where(at_edge, cells, cells - 1), cells, np.where(at_edge, 0.0, part)

    def _interval(self, leaves: Leaves, tail: float) -> Interval:
        inner, outer, _ = self._brackets(leaves)
        tail /= len(self.at)
        low, high = leaves.prefix_ends(inner, tail)[0], leaves.prefix_ends(outer, tail)[1]
        return Interval(low / leaves.n, high / leaves.n)

    def stderr(self, leaves: Leaves) -> Value:
        inner, outer, part = self._brackets(leaves)
        return leaves.stderrs[np.where(part > 0.5, outer, np.maximum(inner, 0))] / leaves.n

    def relate(self, domain: Integers | Cells, n: int) -> float:
        return 1.0

    def variance(self, leaves: Leaves) -> float:
        _, outer, _ = self._brackets(leaves)
        return float(np.mean((leaves.stderrs[outer] / leaves.n) ** 2))


class RangeQuestion(LeafQuestion):
    """How many people are between the two ends `at`."""

    __slots__ = ()
    task = "range"
    ranks = 2

    @classmethod
    def choose_points(cls, domain: Integers | Cells) -> tuple[float, ...]:
        raise ParameterError("at", None, "must be the two ends of the range")

    @classmethod
    def check_points(cls, points: tuple[float, ...], domain: Integers | Cells) -> None:
        super().check_points(points, domain)
        if len(points) != 2 or points[0] > points[1]:
            raise ParameterError(
                "at", points, "must be the two ends of the range, the lower one first"
            )

    def _limits(self, leaves: Leaves) -> tuple[float, float]:
        return 0.0, float(leaves.n)

    def _value(self, leaves: Leaves) -> Value:
        return float(leaves.values @ self._between(leaves))

    def _between(self, leaves: Leaves) -> Floats:
        """Return how much of each cell is between the two ends."""
        (low, high), edges = self.at, leaves.edges
        if isinstance(leaves.domain, Integers):
            values = edges[:-1]
            return ((values >= low) & (values <= high)).astype(np.float64)
        inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
        return np.clip(inside / (edges[1:] - edges[:-1]), 0.0, 1.0)

    def _touch(self, leaves: Leaves) -> tuple[Floats, Floats]:
        """Return cells that are surely between the two ends, and those that may hold somebody between them."""
        (low, high), edges = self.at, leaves.edges
        if isinstance(leaves.domain, Integers):
            same = self._between(leaves)
            return same, same
        first = np.arange(len(edges) - 1) == 0
        # A cell holds its upper edge, and the first one its lower edge as well.
        inner = (edges[:-1] >= low) & (edges[1:] <= high)
        outer = ((edges[:-1] < high) | first) & (edges[1:] >= low)
        return inner.astype(np.float64), outer.astype(np.float64)

    def _interval(self, leaves: Leaves, tail: float) -> Interval:
        inner_cells, outer_cells = self._touch(leaves)
        least = leaves.sum_ends(inner_cells, tail)[0]
        return Interval(least, leaves.sum_ends(outer_cells, tail)[1])

    def stderr(self, leaves: Leaves) -> Value:
        return leaves.sum_error(self._between(leaves))

    def variance(self, leaves: Leaves) -> float:
        return leaves.sum_error(self._between(leaves)) ** 2


class _SpreadQuestion(LeafQuestion):
    """What a variance and a standard deviation share."""

    __slots__ = ()
    pointed = False

    @classmethod
    def choose_points(cls, domain: Integers | Cells) -> tuple[float, ...]:
        return ()

    def _moments(self, leaves: Leaves) -> tuple[Floats, Floats]:
        """Return weights of the leaves for the first and the second moment around the middle of the range."""
        middles = leaves.middles
        from_centre = middles - (middles[0] + middles[-1]) / 2
        return from_centre, from_centre**2

    def _variance(self, leaves: Leaves) -> float:
        """Estimate the variance without bias: the square of a noisy mean is too large by the variance of its
        noise.
        """
        first, second = self._moments(leaves)
        mean = float(leaves.values @ first) / leaves.n
        noise = leaves.estimate_noise(first) / leaves.n**2
        return float(leaves.values @ second) / leaves.n - mean * mean + noise

    def _interval(self, leaves: Leaves, tail: float) -> Interval:
        return self._spread_interval(leaves, tail / 2)

    def _spread_interval(self, leaves: Leaves, tail: float) -> Interval:
        """Cover the standard deviation, from intervals of both moments, which hold together."""
        (mean_low, mean_high), (square_low, square_high) = (
            (low / leaves.n, high / leaves.n)
            for low, high in (leaves.sum_ends(each, tail) for each in self._moments(leaves))
        )
        largest = max(mean_low**2, mean_high**2)
        smallest = 0.0 if mean_low <= 0 <= mean_high else min(mean_low**2, mean_high**2)
        low = math.sqrt(max(0.0, square_low - largest))
        high = math.sqrt(max(0.0, square_high - smallest))
        low, high = max(0.0, low - leaves.blur), high + leaves.blur
        return Interval(low, high)

    def _find_errors(self, leaves: Leaves) -> tuple[float, float]:
        """Bound the standard error of the variance from above, whatever the data are.

        The second number is the largest distance from the middle.
        """
        first, second = self._moments(leaves)
        scale = float(np.max(np.abs(first)))
        return leaves.sum_error(second) + 2 * scale * leaves.sum_error(first), scale

    def _find_stderr(self, leaves: Leaves) -> float:
        """Return the standard error of the variance."""
        first, second = self._moments(leaves)
        mean = float(leaves.values @ first) / leaves.n
        return leaves.sum_error(second - 2 * mean * first) / leaves.n


class VarianceQuestion(_SpreadQuestion):
    """The mean squared distance from the mean."""

    __slots__ = ()
    task = "variance"

    def _limits(self, leaves: Leaves) -> tuple[float, float]:
        return 0.0, ((float(leaves.domain.upper) - float(leaves.edges[0])) / 2) ** 2

    def _value(self, leaves: Leaves) -> Value:
        return self._variance(leaves)

    def _interval(self, leaves: Leaves, tail: float) -> Interval:
        low, high = super()._interval(leaves, tail)
        return Interval(low**2, high**2)

    def stderr(self, leaves: Leaves) -> Value:
        return self._find_stderr(leaves)

    def relate(self, domain: Integers | Cells, n: int) -> float:
        return (float(domain.upper) - float(domain.lower)) ** 2

    def variance(self, leaves: Leaves) -> float:
        error, _ = self._find_errors(leaves)
        return (error / leaves.n) ** 2


class StdQuestion(_SpreadQuestion):
    """The root of the variance."""

    __slots__ = ()
    task = "std"

    def _limits(self, leaves: Leaves) -> tuple[float, float]:
        return 0.0, (float(leaves.domain.upper) - float(leaves.edges[0])) / 2

    def _value(self, leaves: Leaves) -> Value:
        return math.sqrt(max(self._variance(leaves), 0.0))

    def stderr(self, leaves: Leaves) -> Value:
        return self._find_stderr(leaves) / (2 * math.sqrt(max(self._variance(leaves), 1e-300)))

    def relate(self, domain: Integers | Cells, n: int) -> float:
        return float(domain.upper) - float(domain.lower)

    def variance(self, leaves: Leaves) -> float:
        error, scale = self._find_errors(leaves)
        return error**2 / leaves.n**2 / scale**2


_QUESTIONS: dict[str, type[LeafQuestion]] = {
    each.task: each
    for each in (QuantilesQuestion, RangeQuestion, CdfQuestion, VarianceQuestion, StdQuestion)
}
TASKS = tuple(_QUESTIONS)
"""What leaves answer."""


def ask_leaves(task: str, at: tuple[float, ...] = ()) -> LeafQuestion:
    """Return the question of that name, about these points.

    >>> ask_leaves("range", (3.0, 5.0)).ranks
    2
    """
    return _QUESTIONS[task](at=at)


def _on_edges(leaves: Leaves, ends: Sequence[tuple[int, int]]) -> Interval:
    """Return the values from the first to the last cell."""
    more = 0 if isinstance(leaves.domain, Integers) else 1
    return Interval(
        np.array([leaves.edges[first] for first, _ in ends]),
        np.array([leaves.edges[last + more] for _, last in ends]),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafError:
    """Intervals of what the leaves answer: certified ones, so there is one kind only."""

    leaves: Leaves
    question: LeafQuestion

    @property
    def stderr(self) -> Value:
        return self.question.stderr(self.leaves)

    def interval(self, value: Value, level: float) -> Interval:
        return self.exact_interval(value, level)

    def exact_interval(self, value: Value, level: float) -> Interval:
        return self.question.interval(self.leaves, valid_level(level))


def read_cells(lower: float, upper: float, steps: int | None) -> Integers | Cells:
    """Return the integers lower .. upper, or reals in `steps` cells.

    >>> read_cells(0, 9, None).size, read_cells(0, 1, 4).size
    (10, 4)
    """
    if steps is not None:
        return Cells(lower=lower, upper=upper, cells=whole("steps", steps, at_least=2))
    return Integers(lower=lower, upper=upper)  # type: ignore[arg-type]


def read_points(
    task: str, at: Sequence[float] | None, domain: Integers | Cells
) -> tuple[float, ...]:
    """Return the quantiles, points or ends that a task wants, checked; its own choice for None.

    >>> read_points("quantiles", [0.5, 1.5], Integers(lower=0, upper=9))
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: at=1.5 must be > 0 and < 1
    """
    if task not in TASKS:
        raise ParameterError("task", task, f"must be one of {', '.join(TASKS)}")
    asked = _QUESTIONS[task]
    if at is None or not asked.pointed:
        return asked.choose_points(domain)
    points = tuple(number("at", point) for point in at)
    if not points:
        raise ParameterError("at", at, "must be at least one number")
    asked.check_points(points, domain)
    return points


def read_question(
    lower: float, upper: float, steps: int | None, task: str, at: Sequence[float] | None
) -> tuple[Integers | Cells, LeafQuestion]:
    """Return the cells, not too many of them, and what is asked about them.

    >>> domain, question = read_question(0, 9, None, "quantiles", [0.25])
    >>> domain.size, question.at
    (10, (0.25,))
    """
    domain = read_cells(lower, upper, steps)
    points = read_points(task, at, domain)
    if domain.size > MOST_CELLS:
        raise UnsupportedError(
            f"{domain.size:,} cells are too many: trees have up to {MOST_CELLS:,}, and `steps` "
            "chooses fewer"
        )
    return domain, ask_leaves(task, points)
