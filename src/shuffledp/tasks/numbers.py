"""How a number is distributed: quantiles, ranges, the distribution function, the spread, and bins.

The first four are answered from a tree of histograms over a declared grid. Integers are their own cells if there are
not too many of them; others, and reals, are put into cells of one length, and only the number of the cell is sent.
Text holds integers if both ends are written as integers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate, Value
from shuffledp.core.arrays import Floats
from shuffledp.core.display import Curve, Picture, make_picture
from shuffledp.core.domain import Bins, Cells, Integers, column
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.protocol import Crowd, Promise
from shuffledp.core.task import Column, Declared, Option, Task
from shuffledp.numerics.rounding import float_above
from shuffledp.tasks.histogram import Histogram
from shuffledp.tasks.totals import (
    LOWER,
    STEPS,
    UPPER,
    has_fractions,
    is_whole,
    mean_square,
    read_ends,
)

AT = Option(
    name="at",
    kind=list,
    help="Which quantiles, such as 0.25,0.5,0.75; the points of a cdf; the two ends of a range.",
)
EDGES = Option(name="edges", kind=list, help="The edges of bins of numbers, such as 0,18,65,120.")

_WHOLE = (
    "The column has real numbers. If they are whole, as integers with gaps are in pandas, convert it to "
    "integers (Int64): then each number is a cell of its own."
)
_COARSEST, _FINEST = 32, 4096  # cells of reals if none are given
_MISSED = 0.05
_MOST_CELLS = 1 << 22
# Integers with cells of their own: fewer for a spread, where every cell takes time.
_OWN, _OWN_SPREAD = 1 << 16, 1 << 12
_DUMMIES = 60.0  # in a cell at epsilon = 1, about
_PEOPLE = 64  # in a cell, about, if they were spread evenly


@dataclass(frozen=True, slots=True, kw_only=True)
class _Distributed(Task):
    """What the questions about a distribution share: the grid."""

    options: ClassVar[tuple[Option, ...]] = (LOWER, UPPER, STEPS, AT)
    answered_by = ("quantiles",)
    live = (Integers, Cells)
    ranked = True

    most: ClassVar[int] = _OWN
    """How many integers have cells of their own; more share as many cells."""

    domain: Integers | Cells
    at: tuple[float, ...] | None = None
    chosen: bool = False
    """Whether nobody asked for the number of cells: it is chosen for n."""

    @property
    def _asked(self) -> str:
        """What is asked about the cells."""
        return self.answered_by[0] if self.name == "median" else self.name

    @property
    def _width(self) -> float:
        return float(self.domain.upper) - float(self.domain.lower)

    def __post_init__(self) -> None:
        from shuffledp.numerics.leaves import read_points

        if not isinstance(self.domain, Integers | Cells):
            raise ParameterError("domain", self.domain, "must be Integers or Cells")
        if self.at is None and self.name == "range":
            object.__setattr__(self, "at", (self.domain.lower, self.domain.upper))
        object.__setattr__(self, "at", read_points(self._asked, self.at, self.domain))

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        given = cls.read_options(options)
        lower, upper = read_ends(cls.name, given)
        if cls.name == "range" and "at" not in given:
            raise UnsupportedError("a range needs its two ends: `at`")
        if "steps" in given:
            cells = Cells(lower=lower, upper=upper, cells=given["steps"])
            return Declared(task=cls(domain=cells, at=given.get("at")))
        if is_whole(lower) and is_whole(upper) and not has_fractions(given, column):
            integers = Integers(lower=int(lower), upper=int(upper))
            if integers.size <= cls.most:
                return Declared(task=cls(domain=integers, at=given.get("at")))
            shared = Cells(lower=lower, upper=upper, cells=cls.most)
            return Declared(task=cls(domain=shared, at=given.get("at")))
        cells = Cells(lower=lower, upper=upper, cells=_FINEST)
        typed = column is not None and not column.text
        notes = (_WHOLE,) if typed and is_whole(lower) and is_whole(upper) else ()
        return Declared(task=cls(domain=cells, at=given.get("at"), chosen=True), notes=notes)

    def fit(self, n: int, epsilon: float) -> Task:
        if self.domain.size > _MOST_CELLS:
            sent = _DUMMIES / min(epsilon, 1.0) ** 2 * self.domain.size / n
            raise UnsupportedError(
                f"{self.domain.size:,} cells are too many: with a shuffler everybody of {n:,} would send about "
                f"{sent:,.0f} messages; there may be {_MOST_CELLS:,}, and `steps` chooses fewer"
            )
        if not self.chosen or not isinstance(self.domain, Cells):
            return self
        wanted = min(max(n * epsilon / _PEOPLE, _COARSEST), _FINEST)
        return replace(self, domain=replace(self.domain, cells=_align(self.domain, wanted)))

    def remarks(self) -> tuple[str, ...]:
        if not isinstance(self.domain, Cells):
            return ()
        width = (self.domain.upper - self.domain.lower) / self.domain.cells
        return (
            f"Values were put into {self.domain.cells:,} public cells of {width:.6g} each; `steps` chooses "
            "another number.",
        )

    def arguments(self) -> Mapping[str, Any]:
        domain = self.domain
        steps = domain.cells if isinstance(domain, Cells) else None
        return {
            "lower": domain.lower,
            "upper": domain.upper,
            "steps": steps,
            "task": self._asked,
            "at": list(self.at or ()) or None,
        }

    def numbers(self, values: ArrayLike) -> Floats:
        """Return the values, all of them in the domain."""
        self.domain.codes(values)
        return np.asarray(column(values), dtype=np.float64)

    def loss(self, estimate: Value, truth: Value) -> float:
        return mean_square(estimate, truth)


def _align(domain: Cells, wanted: float) -> int:
    """Return about `wanted` cells; whole numbers lie on their edges if there are few enough."""
    reach = domain.upper - domain.lower
    start = int(reach) if is_whole(domain.lower) and is_whole(reach) and reach <= wanted else 1
    return start << max(0, round(math.log2(wanted / start)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(_Distributed):
    """For each p, the smallest value that at least a share p of the people do not exceed; the median by default.

    >>> task = Quantiles.declare({"lower": 0, "upper": 9, "at": "0.25,0.5"}).task
    >>> task.truth([1, 2, 3, 4])
    array([1., 2.])
    """

    name = "quantiles"
    title = "below which value a share of the people is"
    answer = total = "a rank"
    unit = "ranks"
    dated = True

    def sensitivity(self, n: int) -> float:
        return float(self.domain.upper) - float(self.domain.lower)

    def in_rounds(self, crowd: Crowd, promise: Promise) -> str | None:
        """Say how close a bisection comes with one yes or no from everybody, asked group by group."""
        from shuffledp.accounting.amplify import calibrate  # only plans need it

        stages = count_halvings(self.domain.size)
        try:
            epsilon0 = calibrate(
                n=crowd.n, epsilon=promise.epsilon, delta=promise.delta, honest=crowd.honest
            )
        except ShuffledpError:
            return None
        if crowd.n < stages:
            return None
        share = bound_rank_error(crowd.n // stages, stages, epsilon0, _MISSED)
        return (
            f"In rounds, one yes or no from everybody: sdp.inference.bisect_quantile comes within "
            f"{math.ceil(min(share, 1.0) * crowd.n):,} ranks with probability {1 - _MISSED:.0%}."
        )

    @classmethod
    def show(cls, estimate: Estimate, level: float = 0.95) -> Picture:
        """Return where each quantile lies in the range."""
        shown = make_picture(estimate, level, label=cls.name)
        low, high = estimate.limits
        return replace(shown, limits=(low, high) if low < high else None)

    def truth(self, values: ArrayLike) -> Floats:
        ordered = np.sort(self.numbers(values))
        places = [max(math.ceil(Fraction(repr(p)) * len(ordered)), 1) - 1 for p in self.at or ()]
        return ordered[places]


@dataclass(frozen=True, slots=True, kw_only=True)
class Median(Quantiles):
    """The value below which half of the people are: `Quantiles` at 0.5, by the name that people use.

    >>> Median.declare({"lower": 0, "upper": 9}).task.truth([1, 2, 3, 4])
    array([2.])
    """

    name = "median"
    title = "the value below which half of the people are"
    live_name = "quantiles"
    options = (LOWER, UPPER, STEPS)

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        cls.read_options(options)
        return Quantiles.declare(options, column)

    @classmethod
    def show(cls, estimate: Estimate, level: float = 0.95) -> Picture:
        """Return where it lies in the range."""
        shown = Quantiles.show(estimate, level)
        if len(shown.rows) > 1:  # of groups
            return shown
        return replace(shown, rows=tuple(row._replace(label=cls.name) for row in shown.rows))


def count_halvings(size: int) -> int:
    """Count the questions "at most c?" that find one of `size` values.

    >>> count_halvings(1000)
    10
    """
    return max(1, (size - 1).bit_length())


def bound_rank_error(group: int, stages: int, epsilon0: float, beta: float) -> float:
    """Bound how far the rank of a bisected quantile may be off, as a share of all, except with probability beta.

    Each of the stages asks a group of people, by randomized response. Hoeffding's inequality, which holds for samples
    drawn without replacement as well, and a union over the stages.

    >>> round(bound_rank_error(10_000, 10, 4.0, 0.05), 4)
    0.018
    """
    return math.sqrt(math.log(2 * stages / beta) / (2 * group)) / math.tanh(epsilon0 / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(_Distributed):
    """How many people have a value from `at[0]` to `at[1]`, both included.

    >>> Range.declare({"lower": 0, "upper": 9, "at": [2, 3]}).task.truth([1, 2, 3, 4])
    2.0
    """

    name = "range"
    title = "how many people have a value between two others"
    answer = total = "the count"
    people = True

    @classmethod
    def ends(cls, estimate: Estimate) -> tuple[float, ...] | None:
        from shuffledp.numerics.leaves import LeafError

        law = estimate.error
        return law.question.at if isinstance(law, LeafError) else None

    def sensitivity(self, n: int) -> float:
        return 1

    def truth(self, values: ArrayLike) -> float:
        low, high = self.at or (self.domain.lower, self.domain.upper)
        numbers = self.numbers(values)
        return float(np.sum((numbers >= low) & (numbers <= high)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdf(_Distributed):
    """Which share of the people has at most each of some values; the intervals hold for all of them together.

    >>> Cdf.declare({"lower": 0, "upper": 9, "at": [2, 9]}).task.truth([1, 2, 3, 4])
    array([0.5, 1. ])
    """

    name = "cdf"
    title = "which share of the people has at most a value"
    answer, total = "a share", "a count"
    average = True

    def sensitivity(self, n: int) -> float:
        return float_above(Fraction(len(self.at or ()), n))

    @classmethod
    def show(cls, estimate: Estimate, level: float = 0.95) -> Picture:
        """Draw a curve if there are at least two points."""
        from shuffledp.numerics.leaves import LeafError

        shown, law = make_picture(estimate, level, label=cls.name), estimate.error
        if not isinstance(law, LeafError) or len(set(law.question.at)) < 2:
            return shown
        domain = law.leaves.domain
        ends = float(domain.lower), float(domain.upper)
        return replace(shown, curve=Curve(points=law.question.at, ends=ends))

    def truth(self, values: ArrayLike) -> Floats:
        ordered = np.sort(self.numbers(values))
        below = np.searchsorted(ordered, np.array(self.at), side="right")
        shares: Floats = below / np.float64(len(ordered))
        return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(_Distributed):
    """The variance of the values, around their own mean.

    >>> Variance.declare({"lower": 0, "upper": 9}).task.truth([1, 3])
    1.0
    """

    name = "variance"
    title = "how far the values spread, squared"
    options = (LOWER, UPPER, STEPS)
    most = _OWN_SPREAD
    answer = total = "the variance"
    unit = None
    ranked = False

    def relate(self, n: int) -> float:
        return self._width**2 if isinstance(self.domain, Integers) else float(n)

    def sensitivity(self, n: int) -> float:
        return float_above((Fraction(self.domain.upper) - Fraction(self.domain.lower)) ** 2 / n)

    def truth(self, values: ArrayLike) -> float:
        return float(np.var(self.numbers(values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Std(_Distributed):
    """The standard deviation of the values, around their own mean.

    >>> Std.declare({"lower": 0, "upper": 9}).task.truth([1, 5])
    2.0
    """

    name = "std"
    title = "how far the values spread"
    options = (LOWER, UPPER, STEPS)
    most = _OWN_SPREAD
    answer = total = "the standard deviation"
    unit = None
    ranked = False

    def relate(self, n: int) -> float:
        return self._width if isinstance(self.domain, Integers) else float(n)

    def sensitivity(self, n: int) -> float:
        reach = Fraction(self.domain.upper) - Fraction(self.domain.lower)
        return float_above(reach) / math.sqrt(n) * (1 + 1e-12)

    def truth(self, values: ArrayLike) -> float:
        return float(np.std(self.numbers(values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin(Histogram):
    """How many people have a number in each of some bins; a number on an edge belongs to the upper bin.

    >>> Bin.declare({"edges": "0,18,65,120"}).task.truth([3.5, 18, 40])
    array([1., 2., 0.])
    """

    name = "bins"
    title = "how many people have a number in each of some bins"
    live_name = "histogram"
    options = (EDGES,)

    domain: Bins

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        given = cls.read_options(options)
        if "edges" not in given:
            raise UnsupportedError("bins need their `edges`, from public knowledge")
        return Declared(task=cls(domain=Bins(edges=given["edges"])))
