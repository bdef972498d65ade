"""Upper bounds of E[D(T)] for a count T and a function D that does not increase.

T is cut into cells, and moved to the left end of its cell: T' <= T, so E[D(T)] <= E[D(T')]. Only an
upper bound of Pr[T < left end] is needed, rounded up (more mass on the left is safe as well). The
cells are placed coarsely first, and then finely where the sum has its weight: one integer each, if
there are not too many of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import positive, whole

__all__ = [
    "BinomialTotal",
    "PoissonTotal",
    "SumOfBinomials",
    "Total",
    "expected",
]

TAIL_ERROR = 1e-8
"""Relative error of SciPy's incomplete beta and (upper) gamma functions: at most 3e-9 seen, at 10^12."""

_FINE = 1600  # cells where the weight is
_ROUNDING = 1e-9  # of a sum of positive terms, many times over
_LARGEST = 10**12


class Total(Protocol):
    """A count, seen from below."""

    @property
    def mean(self) -> float: ...

    @property
    def sd(self) -> float: ...

    @property
    def chooses_places(self) -> bool:
        """Whether `floored` keeps to its own places, so that asking for others is no use."""

    def floored(self, starts: Floats) -> tuple[Floats, Floats]:
        """(places, masses) of a law that is stochastically smaller; places near the given starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonTotal:
    """Poisson(mean).

    >>> places, masses = PoissonTotal(mean=2.0).floored(np.array([0.0, 1.0, 2.0]))
    >>> masses.round(4)
    array([0.1353, 0.2707, 0.594 ])
    """

    mean: float

    def __post_init__(self) -> None:
        if positive("mean", self.mean) > _LARGEST:
            raise ParameterError("mean", self.mean, "must be <= 10^12")

    @property
    def sd(self) -> float:
        return math.sqrt(self.mean)

    @property
    def chooses_places(self) -> bool:
        return False

    def floored(self, starts: Floats) -> tuple[Floats, Floats]:
        from scipy.special import gammaincc

        below = np.where(starts > 0, gammaincc(np.maximum(starts, 1.0), self.mean), 0.0)
        return starts, _masses(below)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialTotal:
    """Bin(n, p), p rounded down (fewer noise messages are less privacy).

    >>> BinomialTotal(n=100, p=Fraction(1, 4)).mean
    25.0
    """

    n: int
    p: Fraction | float

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=_LARGEST)
        if not 0 < self.p <= 1:
            raise ParameterError("p", self.p, "must be > 0 and <= 1")

    @property
    def mean(self) -> float:
        return float(self.n * self.p)

    @property
    def sd(self) -> float:
        return math.sqrt(self.mean * float(1 - self.p))

    @property
    def chooses_places(self) -> bool:
        return self.p == 1

    def floored(self, starts: Floats) -> tuple[Floats, Floats]:
        from scipy.special import betainc

        if self.p == 1:
            return np.array([float(self.n)]), np.array([1.0])
        starts = starts[starts <= self.n]
        # The float nearest to 1 - p is half a unit off at most: the next one is above it.
        keep = math.nextafter(float(1 - Fraction(self.p)), 1.0)
        at = np.maximum(starts, 1.0)
        below = np.where(starts > 0, betainc(self.n - at + 1, at, keep), 0.0)
        return starts, _masses(below)


@dataclass(frozen=True, slots=True, kw_only=True)
class SumOfBinomials:
    """The sum of two independent binomials.

    >>> half = BinomialTotal(n=1, p=Fraction(1, 2))
    >>> places, masses = SumOfBinomials(first=half, second=half).floored(np.array([0.0, 1.0, 2.0]))
    >>> places, masses.round(6)
    (array([0., 0., 1., 2.]), array([0.  , 0.25, 0.5 , 0.25]))
    """

    first: BinomialTotal
    second: BinomialTotal

    @property
    def mean(self) -> float:
        return self.first.mean + self.second.mean

    @property
    def sd(self) -> float:
        return math.hypot(self.first.sd, self.second.sd)

    @property
    def chooses_places(self) -> bool:
        return True

    def floored(self, starts: Floats) -> tuple[Floats, Floats]:
        # Both on one grid; how far it reaches is ours to choose, for all of each law counts.
        step = max(1, math.ceil(24 * self.sd / _FINE))
        low, left, under = _on_grid(self.first, step)
        other, right, also_under = _on_grid(self.second, step)
        masses = np.convolve(left, right)
        places = low + other + step * np.arange(len(masses), dtype=np.float64)
        # Where either lies below its grid, the sum is at least 0.
        return np.append(0.0, places), np.append(under + also_under, masses)


def _on_grid(law: BinomialTotal, step: int) -> tuple[float, Floats, float]:
    """The first point of a grid, masses from there on, and the mass below."""
    if law.p == 1:
        return float(law.n), np.array([1.0]), 0.0
    reach = 12 * law.sd + 40 * step
    low = max(0, math.floor(law.mean - reach))
    high = min(law.n, math.ceil(law.mean + reach))
    starts = np.arange(low, high + 1, step, dtype=np.float64)
    if low == 0:
        return 0.0, law.floored(starts)[1], 0.0
    masses = law.floored(np.append(0.0, starts))[1]
    return float(low), masses[1:], float(masses[0])


def _masses(below: Floats) -> Floats:
    """Masses of the cells from Pr[T < left end], rounded up: the total stays 1."""
    up = np.minimum(np.maximum.accumulate(below * (1 + TAIL_ERROR)), 1.0)
    up[0] = 0.0
    return np.diff(np.append(up, 1.0))


def expected(total: Total, inner: Callable[[Floats], Floats]) -> float:
    """At least E[D(T)], where `inner` is at least D and D does not increase; D(0) <= 1.

    >>> total = PoissonTotal(mean=3.0)
    >>> value = expected(total, lambda t: np.exp2(-t))
    >>> value >= math.exp(-1.5), value < math.exp(-1.5) * (1 + 1e-6)
    (True, True)
    """
    places, masses = total.floored(_coarse(total))
    weights = masses * np.minimum.accumulate(inner(places))
    if weights.any() and not total.chooses_places and np.any(np.diff(places) > 1):
        places, masses = total.floored(_refined(places, weights))
        weights = masses * np.minimum.accumulate(inner(places))
    return min(1.0, float(weights.sum()) * (1 + _ROUNDING) + 1e-300)


def _coarse(total: Total) -> Floats:
    mean, sd = total.mean, total.sd
    around = mean + sd * np.linspace(-40.0, 12.0, 200)
    starts = np.concatenate([np.linspace(0.0, mean, 48), around, [0.0]])
    return np.unique(np.floor(np.maximum(starts, 0.0)))


def _refined(places: Floats, weights: Floats) -> Floats:
    """The same cells, and fine ones from the first to the last that matters."""
    matters = np.flatnonzero(weights > 1e-13 * weights.sum())
    first, last = int(matters[0]), int(matters[-1])
    low = places[max(first - 1, 0)]
    high = places[min(last + 1, len(places) - 1)]
    fine = np.linspace(low, high, min(_FINE, int(high - low) + 1))
    return np.unique(np.concatenate([places, np.floor(fine)]))
