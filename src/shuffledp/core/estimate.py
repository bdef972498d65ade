"""What an analyzer or a mechanism answers: a value, how far off it may be, and an interval.

The value is unbiased and never clipped. `clip()` and `simplex()` are labelled post-processing:
they cost no privacy, usually help a reader, and take away unbiasedness, so they are asked for.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.display import Number, as_text, list_numbers, make_picture
from shuffledp.core.domain import Domain
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.notebook import (
    Columns,
    as_html,
    make_arrow,
    make_columns,
    make_pandas,
    make_polars,
    say,
    stack,
)
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import number

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Value: TypeAlias = float | Floats
"""One number, or one per bin."""


class Interval(NamedTuple):
    """Both ends of a confidence interval, each with the shape of the value."""

    low: Value
    high: Value


class ErrorLaw(Protocol):
    """How the estimate is distributed around the truth."""

    @property
    def stderr(self) -> Value:
        """Standard deviation of the estimate, or the estimate of it."""

    def interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers the truth with probability about `level`."""

    def exact_interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers with probability at least `level`, or raise `UnsupportedError`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormalError:
    """A sum of many independent reports: normal to good accuracy from some hundred users on.

    >>> NormalError(stderr=2.0).interval(10.0, 0.95)
    Interval(low=6.080072030919893, high=13.919927969080106)
    """

    stderr: Value

    def interval(self, value: Value, level: float) -> Interval:
        # From the lower tail, which does not round to 0 however close the level is to 1.
        radius = -NormalDist().inv_cdf((1 - valid_level(level)) / 2) * self.stderr
        return Interval(value - radius, value + radius)

    def exact_interval(self, value: Value, level: float) -> Interval:
        raise UnsupportedError("no exact interval is known for this estimate: use interval()")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScaledError:
    """The error of `times / over` times an answer: frequencies from counts, a sum from a mean.

    >>> ScaledError(error=NormalError(stderr=2.0), over=100).stderr
    0.02
    """

    error: ErrorLaw
    times: int = 1
    over: int = 1

    @property
    def stderr(self) -> Value:
        return self._scale(self.error.stderr)

    def interval(self, value: Value, level: float) -> Interval:
        low, high = self.error.interval(value * self.over / self.times, level)
        return Interval(self._scale(low), self._scale(high))

    def exact_interval(self, value: Value, level: float) -> Interval:
        low, high = self.error.exact_interval(value * self.over / self.times, level)
        return Interval(self._scale(low), self._scale(high))

    def _scale(self, value: Value) -> Value:
        return value * self.times / self.over


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PostProcessed:
    """A value after post-processing, with the unbiased estimate it was made from."""

    value: Value
    step: str
    raw: "Estimate"

    def _repr_html_(self) -> str:
        """Return how notebooks show it: the values, and what was done to them."""
        shown = make_picture(self.raw)
        values = np.atleast_1d(np.asarray(self.value, dtype=np.float64)).tolist()
        rows = (row._replace(value=x) for row, x in zip(shown.rows, values, strict=True))
        note = f"{self.step}; errors and intervals are those of the raw estimate"
        return stack(as_html(replace(shown, rows=tuple(rows))), say(note, small=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """An unbiased answer and the law of its error.

    >>> answer = Estimate(value=np.array([-1.0, 7.0]), error=NormalError(stderr=2.0), limits=(0, 6))
    >>> answer.clip().value
    array([0., 6.])
    """

    value: Value
    error: ErrorLaw
    limits: tuple[float, float]
    """Between what the truth is known to lie, from public facts alone."""
    labels: tuple[str, ...] | None = None

    @property
    def stderr(self) -> Value:
        """Standard error of `value`."""
        return self.error.stderr

    def interval(self, level: float) -> Interval:
        """Return the interval to quote: covers the truth with probability `level`, or a little more."""
        return self.error.interval(self.value, level)

    def exact_interval(self, level: float) -> Interval:
        """Covers with probability at least `level` at any n, by inverting the exact law."""
        return self.error.exact_interval(self.value, level)

    def label(self, domain: Domain) -> "Estimate":
        """Return the same estimate with the domain's names of the bins.

        >>> from shuffledp import Categories, protocols, run
        >>> estimate = run(protocols.krr.make_local(k=2, epsilon=1.0), [0, 1, 1])
        >>> estimate.label(Categories(k=2, names=("cat", "dog"))).labels
        ('cat', 'dog')
        """
        if self.labels is None or len(self.labels) != domain.size:
            return self
        try:
            return replace(self, labels=domain.labels)
        except UnsupportedError:  # words that nobody listed: the estimate names what it found
            return self

    def __str__(self) -> str:
        return as_text(make_picture(self))

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        return as_html(make_picture(self))

    def to_pandas(self, level: float = 0.95) -> "pd.DataFrame":
        """Return a row for each number: label, value, stderr, low, high (the interval at this level).

        >>> Estimate(value=3.0, error=NormalError(stderr=1.0), limits=(0, 9)).to_pandas().shape
        (1, 5)
        """
        return make_pandas(self._columns(level))

    def to_polars(self, level: float = 0.95) -> "pl.DataFrame":
        """Return the same for Polars.

        >>> Estimate(value=3.0, error=NormalError(stderr=1.0), limits=(0, 9)).to_polars()["value"].to_list()
        [3.0]
        """
        return make_polars(self._columns(level))

    def to_arrow(self, level: float = 0.95) -> "pa.Table":
        """Return the same as an Arrow table.

        >>> Estimate(value=3.0, error=NormalError(stderr=1.0), limits=(0, 9)).to_arrow().column_names
        ['label', 'value', 'stderr', 'low', 'high']
        """
        return make_arrow(self._columns(level))

    def _columns(self, level: float) -> Columns:
        return make_columns(Number._fields, list_numbers(self, level))

    def clip(self, limits: tuple[float, float] | None = None) -> PostProcessed:
        """Clip the value to the public range of the truth: the estimate's own, or the one given."""
        low, high = self.limits if limits is None else limits
        if math.isinf(low) and math.isinf(high):
            raise UnsupportedError("no public range is known here: give it, clip((low, high))")
        value = np.clip(self.value, low, high)
        return PostProcessed(
            value=float(value) if np.ndim(value) == 0 else value,
            step=f"clipped to [{low:.15g}, {high:.15g}]",
            raw=self,
        )

    def simplex(self, total: float | None = None) -> PostProcessed:
        """Return the nearest histogram (in Euclidean distance) without negative bins and with this public total.

        >>> Estimate(value=np.array([-2.0, 8.0, 4.0]), error=NormalError(stderr=1.0),
        ...          limits=(0, 10)).simplex().value
        array([0., 7., 3.])
        """
        if np.ndim(self.value) != 1:
            raise UnsupportedError("simplex() is for histograms; this estimate is one number")
        wanted = self.limits[1] if total is None else number("total", total)
        if math.isinf(wanted):
            raise UnsupportedError("no public total is known here: give it, simplex(total)")
        value = _project(np.asarray(self.value), wanted)
        return PostProcessed(value=value, step=f"projected onto total {wanted:.15g}", raw=self)


def _project(value: Floats, total: float) -> Floats:
    # The projection is max(value - shift, 0); the shift follows from which bins stay positive.
    # Relative to the largest bin, so that a total far smaller than the bins is not rounded away.
    relative = value - value.max()
    descending = np.sort(relative)[::-1]
    shifts = (np.cumsum(descending) - total) / np.arange(1, len(value) + 1)
    # The largest bin stays positive, unless the total is 0 and no bin does.
    positive = np.flatnonzero(descending > shifts)
    shift = shifts[positive[-1]] if len(positive) else shifts[0]
    projected: Floats = np.maximum(relative - shift, 0.0)
    return projected
