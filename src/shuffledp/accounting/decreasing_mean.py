"""Upper bounds of E[D(T)] for a count T and a function D that does not increase.

T is cut into cells, and moved to the left end of its cell, where D is largest; the masses of cells are rounded
up. The cells are placed coarsely first, and then finely where the sum has its weight: one integer each, if there
are not too many of them.

Binomial and Poisson masses f are log-concave, so f lies below both tangents of a cell a .. b:
f(a + i) <= f(a) (f(a + 1) / f(a))^i, and the same from b down. The cell has at most the smaller one of these two
geometric sums. For one integer they are the mass itself; for cells of a hundredth of a deviation they are too
large by a part in 10^5. The masses at a and b are certified (numerics/enclosures).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from shuffledp.core.arrays import Floats, distinct
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.enclosures import bound_at_most, bound_mass, bound_poisson_mass
from shuffledp.numerics.rounding import UNIT, float_below

_FINE = 1600  # cells where the weight is
_NEXT_TO_NOTHING = (
    1e-40  # of several means at once: cells are not chosen for what is that much smaller
)
_AT_LEAST_FINER = (
    4.0  # than coarse cells, a quarter of a deviation wide, whose masses may be a percent too large
)
_LARGEST = 10**12
_CELLS_PER_SD = 32.0


class NoiseTotal(Protocol):
    """A count, seen from below."""

    @property
    def mean(self) -> float: ...

    @property
    def sd(self) -> float: ...

    @property
    def chooses_places(self) -> bool:
        """Whether `floor` chooses its own places and ignores those that are asked for."""

    def floor(self, starts: Floats) -> tuple[Floats, Floats]:
        """Return (places, masses): upper bounds of the mass of each cell that begins at one of the starts, 0 first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonTotal:
    """Poisson(mean).

    >>> places, masses = PoissonTotal(mean=2.0).floor(np.array([0.0, 1.0, 2.0, 3.0, 6.0]))
    >>> masses.round(4)  # the last two are Pr[3 .. 5] = 0.3068 and Pr[6 ..] = 0.0166, rounded up
    array([0.1353, 0.2707, 0.2707, 0.3158, 0.0168])
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

    def floor(self, starts: Floats) -> tuple[Floats, Floats]:
        def mass(k: Floats) -> Floats:
            return bound_poisson_mass(k, self.mean)[1]

        return starts, _fill_cells(starts, math.inf, mass, lambda k: self.mean / (k + 1))


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

    def floor(self, starts: Floats) -> tuple[Floats, Floats]:
        if self.p == 1:
            return np.array([float(self.n)]), np.array([1.0])
        n, p = float(self.n), float_below(Fraction(self.p))

        def mass(k: Floats) -> Floats:
            return bound_mass(k, self.n, p)[1]

        starts = starts[starts <= n]
        return starts, _fill_cells(starts, n, mass, lambda k: (n - k) / (k + 1) * (p / (1 - p)))

    def subtract_tails(self, starts: Floats) -> Floats:
        """Return the same masses, and better ones if cells are wide."""
        low, high = bound_at_most(
            np.append(starts - 1, self.n), self.n, float_below(Fraction(self.p))
        )
        masses: Floats = (high[1:] - low[:-1]) * (1 + 2 * UNIT)
        return masses


@dataclass(frozen=True, slots=True, kw_only=True)
class SumOfBinomials:
    """The sum of two independent binomials.

    >>> half = BinomialTotal(n=1, p=Fraction(1, 2))
    >>> places, masses = SumOfBinomials(first=half, second=half).floor(np.array([0.0, 1.0, 2.0]))
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

    def floor(self, starts: Floats) -> tuple[Floats, Floats]:
        # Both on one grid; how far it reaches is ours to choose, for all of each law counts.
        step = max(1, math.ceil(24 * self.sd / _FINE))
        low, left, under = _lay_grid(self.first, step)
        other, right, also_under = _lay_grid(self.second, step)
        masses = np.convolve(left, right) * (1 + 2 * (len(left) + 2) * UNIT)
        places = low + other + step * np.arange(len(masses), dtype=np.float64)
        # Where either lies below its grid, the sum is at least 0.
        return np.append(0.0, places), np.append(under + also_under, masses)


def _lay_grid(law: BinomialTotal, step: int) -> tuple[float, Floats, float]:
    """Return the first point of a grid, masses from there on, and the mass below."""
    if law.p == 1:
        return float(law.n), np.array([1.0]), 0.0
    reach = 12 * law.sd + 40 * step
    low = max(0, math.floor(law.mean - reach))
    high = min(law.n, math.ceil(law.mean + reach))
    starts = np.arange(low, high + 1, step, dtype=np.float64)
    if low:
        starts = np.append(0.0, starts)
    masses = law.floor(starts)[1] if 8 * step < law.sd else law.subtract_tails(starts)
    return (float(low), masses[1:], float(masses[0])) if low else (0.0, masses, 0.0)


def _fill_cells(
    starts: Floats,
    last: float,
    mass: Callable[[Floats], Floats],
    rise: Callable[[Floats], Floats],
) -> Floats:
    """Bound the masses of the cells that begin at `starts` from above, up to the `last` integer.

    `mass` is at least f, and rise(k) is f(k + 1) / f(k) but for at most eight roundings.
    """
    ends = np.append(starts[1:] - 1, last)
    width = ends - starts + 1
    up = mass(starts) * _sum_powers(rise(starts), width)
    some = np.isfinite(ends) & (width > 1)
    with np.errstate(divide="ignore"):
        drop = 1 / rise(np.maximum(ends[some], 1.0) - 1)
    down = np.full(len(starts), math.inf)
    down[some] = mass(ends[some]) * _sum_powers(drop, width[some])
    masses: Floats = np.minimum(np.minimum(up, down), 1.0)
    return masses


def _sum_powers(ratio: Floats, count: Floats) -> Floats:
    """Bound 1 + ratio + ... + ratio^(count - 1) from above; it grows with the ratio."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log = np.log(ratio * (1 + 16 * UNIT))
        log += 8 * UNIT * np.abs(log)
        # The exponent is below 710 or the sum infinite: its rounding is below 710 units.
        total = np.expm1(count * log) / np.expm1(log) * (1 + 1024 * UNIT)
        endless = np.where(log < 0, -1 / np.expm1(log) * (1 + 16 * UNIT), math.inf)
    total = np.where(np.isinf(count), endless, np.where(log == 0, count, total))
    sums: Floats = np.where((count == 1) | (ratio == 0), 1.0, total)
    return sums


def expect(total: NoiseTotal, inner: Callable[[Floats], Floats]) -> float:
    """Bound E[D(T)] from above, where `inner` is at least D and D does not increase; D(0) <= 1.

    >>> total = PoissonTotal(mean=3.0)
    >>> value = expect(total, lambda t: np.exp2(-t))
    >>> value >= math.exp(-1.5), value < math.exp(-1.5) * (1 + 1e-6)
    (True, True)
    """
    return float(expect_each(total, [inner]).item())


def expect_each(
    total: NoiseTotal, inners: Sequence[Callable[[Floats], Floats]], tolerance: float = 0.0
) -> Floats:
    """Return the same for each of several D, on the same cells.

    With a tolerance, cells are no finer than what makes it about that part larger.
    """

    def look(starts: Floats) -> tuple[Floats, Floats, Floats]:
        places, masses = total.floor(starts)
        heights = np.array([inner(places) for inner in inners])  # [D, places]
        return places, masses, np.minimum.accumulate(heights, axis=1)

    places, masses, heights = look(_place_coarsely(total))
    sums = heights @ masses
    if sums.any() and not total.chooses_places and np.any(np.diff(places) > 1):
        some = sums > _NEXT_TO_NOTHING * sums.max()
        finer = math.inf
        if tolerance:
            # In a cell, D falls to where the next one begins: so much is lost, and less if they are finer.
            lost = float((-np.diff(heights[some]) @ masses[:-1] / sums[some]).max())
            finer = max(lost / tolerance, _AT_LEAST_FINER)
        weights = masses * heights[some] / sums[some, None]
        _, masses, heights = look(_refine(places, weights.max(axis=0), finer))
        sums = heights @ masses
    means: Floats = np.minimum(sums * (1 + (len(masses) + 2) * UNIT) + 1e-300, 1.0)
    return means


def _place_coarsely(total: NoiseTotal) -> Floats:
    mean, sd = total.mean, total.sd
    around = mean + sd * np.linspace(-40.0, 12.0, 200)
    starts = np.concatenate([np.linspace(0.0, mean, 48), around, [0.0]])
    return distinct(np.floor(np.maximum(starts, 0.0)))


def find_step(total: NoiseTotal) -> float:
    """Return the width of the fine cells of `place_finely`: at 1 nothing is lost.

    >>> find_step(PoissonTotal(mean=400.0)), find_step(PoissonTotal(mean=10_000.0))
    (1.0, 3.0)
    """
    return float(max(1, math.floor(total.sd / _CELLS_PER_SD)))


def place_finely(total: NoiseTotal) -> Floats:
    """Cells for many functions at once: fine ones wherever tails of any size have their weight.

    >>> len(place_finely(PoissonTotal(mean=1e6))) < 1000
    True
    """
    mean, sd = total.mean, total.sd
    low, high = max(0.0, mean - 10 * sd - 40), mean + 6 * sd + 2
    fine = np.arange(low, high, find_step(total))
    rest = np.concatenate([np.linspace(0.0, mean, 48), mean + sd * np.arange(7.0, 13.0), [0.0]])
    return distinct(np.floor(np.concatenate([rest, fine])))


def _refine(places: Floats, weights: Floats, finer: float) -> Floats:
    """Return the same cells, and from the first to the last that matters this many times as many, or _FINE."""
    matters = np.flatnonzero(weights > 1e-13)
    first, last = int(matters[0]), int(matters[-1])
    low = places[max(first - 1, 0)]
    high = places[min(last + 1, len(places) - 1)]
    cells = min(_FINE, finer * (last - first + 2), high - low + 1)
    fine = np.linspace(low, high, math.ceil(cells))
    return distinct(np.concatenate([places, np.floor(fine)]))
