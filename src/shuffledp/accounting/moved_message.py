"""A message moves from one bin to another: the histogram's privacy curve.

A and B noise messages lie in the two bins that a neighbour changes, and the attacker sees
(A + 1, B) or (A, B + 1). Two cases:

* Given T = A + B, A is Bin(T, 1/2): true for Poisson noise (T ~ Poisson(2 mu)) and for dummies that hit
  either bin with the same probability. With E = e^epsilon and k = ceil((t + 1)/(E + 1)) - 1,

      delta = E[D_T],   D_t = Pr[Bin(t, 1/2) <= k] - E Pr[Bin(t, 1/2) <= k - 1].

* A and B are independent Bin(n, gamma). Given B = b the ratio of the two laws at a is
  f(a - 1) / (r_b f(a)), r_b = b (1 - gamma) / ((n - b + 1) gamma), f the mass of A, so that

      delta = E[h_B],   h_b = sum_a max(0, f(a - 1) - E r_b f(a)).

D_t does not increase with t (one more noise message in a random one of the bins is
post-processing), and h_b does not increase with b (r_b grows). So both are expectations of
decreasing functions, bounded by cells. The other direction is the same by symmetry.

D_t and h_b are a mass times 1 minus a multiple of a Mills ratio (a tail over its largest mass). Masses and
ratios are certified (numerics/masses), so every delta is an upper bound by proof.

**Decreasing functions.** E[D(T)] of a count T and a function D that does not increase is bounded from above: T is cut
into cells, and moved to the left end of its cell, where D is largest; the masses of cells are rounded up. The cells are
placed coarsely first, and then finely where the sum has its weight: one integer each, if there are not too many of
them.

Binomial and Poisson masses f are log-concave, so f lies below both tangents of a cell a .. b:
f(a + i) <= f(a) (f(a + 1) / f(a))^i, and the same from b down. The cell has at most the smaller one of these two
geometric sums. For one integer they are the mass itself; for cells of a hundredth of a deviation they are too
large by a part in 10^5. The masses at a and b are certified (numerics/masses).
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from shuffledp.accounting.base import Batch, check_budget, find_level, gaussian_scale, invert
from shuffledp.core.arrays import Floats, distinct
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import Promise
from shuffledp.core.validate import non_negative, positive, whole
from shuffledp.numerics.masses import bound_at_most, bound_mass, bound_mills, bound_poisson_mass
from shuffledp.numerics.rounding import UNIT, dyadic_above, float_above, float_below, shorten

_FINE = 1600  # cells where the weight is
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

    def look(starts: Floats) -> tuple[Floats, Floats, Floats]:
        places, masses = total.floor(starts)
        return places, masses, masses * np.minimum.accumulate(inner(places))

    places, masses, terms = look(_place_coarsely(total))
    mean = float(terms.sum())
    if mean and not total.chooses_places and np.any(np.diff(places) > 1):
        _, masses, terms = look(_refine(places, terms / mean))
        mean = float(terms.sum())
    return min(mean * (1 + (len(masses) + 2) * UNIT) + 1e-300, 1.0)


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
    """Place cells for many functions at once: fine ones wherever tails of any size have their weight.

    >>> len(place_finely(PoissonTotal(mean=1e6))) < 1000
    True
    """
    mean, sd = total.mean, total.sd
    low, high = max(0.0, mean - 10 * sd - 40), mean + 6 * sd + 2
    fine = np.arange(low, high, find_step(total))
    rest = np.concatenate([np.linspace(0.0, mean, 48), mean + sd * np.arange(7.0, 13.0), [0.0]])
    return distinct(np.floor(np.concatenate([rest, fine])))


def merge_cells(places: Floats, masses: Floats, width: float) -> tuple[Floats, Floats]:
    """Merge cells that begin within the same `width`; what lies in them is moved to the first place.

    >>> merge_cells(np.array([0.0, 5.0, 6.0, 7.0]), np.array([0.1, 0.2, 0.3, 0.4]), 3.0)
    (array([0., 5., 6.]), array([0.1, 0.2, 0.7]))
    """
    block = np.floor(places / width)
    first = np.flatnonzero(np.append(True, np.diff(block) > 0))
    return places[first], np.add.reduceat(masses, first) * (1 + len(masses) * UNIT)


def _refine(places: Floats, weights: Floats) -> Floats:
    """Return the same cells, and _FINE or all of them from the first to the last that matters."""
    matters = np.flatnonzero(weights > 1e-13)
    first, last = int(matters[0]), int(matters[-1])
    low = places[max(first - 1, 0)]
    high = places[min(last + 1, len(places) - 1)]
    fine = np.linspace(low, high, math.ceil(min(_FINE, high - low + 1)))
    return distinct(np.concatenate([places, np.floor(fine)]))


_LARGEST_EPSILON = 400.0  # delta does not increase with epsilon, so this one serves for all beyond
_LARGE_EPSILON = 10.0  # beyond, noise is little like a Gaussian
_BITS = 48
_LARGEST_TABLE = 4_000_000
_PER_EPSILON = 250  # columns of a table that take as long as one epsilon without it
_CACHED = 1 << 15  # numbers of each of the arrays that are alive at a time
_TOLERANCE = 2e-3  # of many deltas at once
_RARE = 2.0**-100
_RAREST = 101 * math.log(2)
_BELOW = 24.0  # tails end where masses have fallen by e^-24


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoBins(Batch):
    """T noise messages in the two bins, each in either with probability 1/2: a `Profile`.

    >>> f"{TwoBins(total=PoissonTotal(mean=2 * 20.0)).delta(1.0):.5e}"
    '3.19987e-04'
    """

    total: NoiseTotal

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above."""
        return _find_delta(self, epsilon)

    def deltas(self, epsilons: Floats) -> Floats:
        """Bound the true delta at each of these from above: faster than one by one, and up to 2 % larger.

        >>> curve = TwoBins(total=PoissonTotal(mean=2 * 20.0))
        >>> many = curve.deltas(np.array([0.5, 1.0]))
        >>> bool(many[1] >= 3.1998e-04), round(float(many[1] / curve.delta(1.0)), 2)
        (True, 1.0)
        """
        growths = np.array([_growth(float(epsilon)) for epsilon in epsilons])
        places, masses = self.total.floor(place_finely(self.total))
        places, masses = merge_cells(places, masses, _find_width(self.total.mean, growths))
        return _expect_fairly(places, masses, growths)

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above; raise `UnsupportedError` if there is none."""
        return invert(self.delta, delta)


@lru_cache(maxsize=256)  # a calibration ends where its guarantee is then looked at
def _find_delta(bins: TwoBins, epsilon: float) -> float:
    growth = _growth(epsilon)
    if not bins.total.chooses_places and find_step(bins.total) == 1:
        cells = bins.total.floor(place_finely(bins.total))
        return float(_expect_fairly(*cells, np.array([growth])).item())
    return expect(bins.total, lambda t: _fair_inner(t, growth))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentBins:
    """Independent Bin(n, gamma) noise in each of the two bins: a `Profile`.

    >>> f"{IndependentBins(n=300, gamma=Fraction(136, 300)).delta(0.5):.3e}"
    '7.052e-05'
    """

    n: int
    gamma: Fraction

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=10**12)
        if not 0 < self.gamma < 1:
            raise ParameterError("gamma", self.gamma, "must be > 0 and < 1")

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above."""
        growth = _growth(epsilon)
        total = BinomialTotal(n=self.n, p=self.gamma)
        return expect(total, lambda b: self._bound_inner(b, growth))

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above; raise `UnsupportedError` if there is none."""
        return invert(self.delta, delta)

    def _bound_inner(self, b: Floats, growth: float) -> Floats:
        """Return h_b = f(a - 1) - (E r_b - 1) Pr[A >= a], a the first with a positive term."""
        n, gamma, E = self.n, self.gamma, 1 + growth
        with np.errstate(divide="ignore"):
            place = np.floor((n + 1) / ((n - b + 1) / b / E + 1))
        a = np.clip(place + 1, 1, n + 1)
        ratio = E * b * float(1 - gamma) / ((n - b + 1) * float(gamma))  # E r_b
        price = ratio - 1
        # A rounded `a` gains or loses a term that is this part of the mass.
        slack = 1 + 64 * UNIT * (n + 1) / (n + 2 - a)
        first = bound_mass(a - 1, n, gamma)[1]
        value = first * slack
        # Where the price is positive, a is above the mean, and the tail is a Mills ratio of f(a - 1).
        dear = (price > 0) & (a <= n)
        x = a[dear]
        drop = (n - x + 1) / x * float(gamma / (1 - gamma))  # f(a) / f(a - 1)
        tail = drop * bound_mills(n - x, n, 1 - gamma)[0]
        least = np.maximum(price[dear] - 16 * UNIT * ratio[dear], 0.0)
        value[dear] = first[dear] * (slack[dear] - least * tail * (1 - 16 * UNIT))
        cheap = (price <= 0) & (a <= n)
        above = 1 - bound_at_most(a[cheap] - 1, n, gamma)[0] + UNIT
        value[cheap] += (64 * UNIT - price[cheap]) * above
        bounded: Floats = np.clip(value, 0.0, 1.0)
        return bounded


def dummies(*, n: int, rho: Fraction, pair: Fraction) -> TwoBins:
    """Return the curve if n users send floor(rho) dummies each, and one more with probability frac(rho).

    `pair` is the probability that a dummy hits one of two given bins (each half of that): 2/d for
    uniform dummies over d bins. Up to one dummy each, only rho times pair matters; it is rounded down to 30 bits, so
    that histograms of any size with about the same noise have the same curve.

    >>> profile = dummies(n=1_000, rho=Fraction(9, 2), pair=Fraction(2, 100))
    >>> f"{profile.delta(1.0):.2e}"
    '5.61e-07'
    """
    _check_dummies(n, rho, pair)
    surely = math.floor(rho)
    share = rho - surely
    if share == 0:
        return TwoBins(total=BinomialTotal(n=n * surely, p=pair))
    if surely == 0:
        return _few_dummies(n, float_below(share * pair))
    more = BinomialTotal(n=n, p=share * pair)
    return TwoBins(total=SumOfBinomials(first=BinomialTotal(n=n * surely, p=pair), second=more))


def dummies_after(*, n: int, rho: Fraction, pair: Fraction, place: int) -> tuple[TwoBins, float]:
    """Return the curve of a message that moves after `place` others, each between two bins of its own; and a distance.

    The dummies in the bins of the others are not in these two, so they are not independent. Look at the pairs of bins in
    turn. Each try is in one of the earlier pairs with probability `place` times pair, and the others hit this pair
    with probability pair / (1 - place pair). No more than t tries are in earlier pairs, except with probability
    2^-100 (Chernoff): so the dummies of this pair are at least those of the other tries, whatever the earlier ones are,
    and fewer dummies are less privacy. The exception is the distance.

    >>> curve, distance = dummies_after(n=10**6, rho=Fraction(1, 100), pair=Fraction(2, 100), place=3)
    >>> curve.total.n, 0 < distance < 1e-29
    (999088, True)
    """
    if whole("place", place, at_least=0) == 0:
        return dummies(n=n, rho=rho, pair=pair), 0.0
    _check_dummies(n, rho, pair)
    if place * pair >= 1:
        raise ParameterError("place", place, "must leave bins for one more message")
    surely = math.floor(rho)
    tries = [(n * surely, pair), (n, (rho - surely) * pair)]
    totals = [_leave_tries(*each, place) for each in tries if all(each)]
    distance = len(totals) * _RARE
    if len(totals) == 1:
        return TwoBins(total=totals[0]), distance
    return TwoBins(total=SumOfBinomials(first=totals[0], second=totals[1])), distance


def _check_dummies(n: int, rho: Fraction, pair: Fraction) -> None:
    whole("n", n, at_least=1)
    if rho <= 0:
        raise ParameterError("rho", rho, "must be > 0")
    if not 0 < pair <= 1:
        raise ParameterError("pair", pair, "must be > 0 and <= 1")


def _leave_tries(n: int, hit: Fraction, place: int) -> BinomialTotal:
    """Bound from below the hits among the tries that are in none of `place` other pairs, nearly surely."""
    elsewhere = _bound_hits(n, float_above(place * hit))
    if elsewhere >= n:
        raise UnsupportedError(f"{n} tries are too few for {place + 1} pairs of bins")
    return BinomialTotal(n=n - elsewhere, p=hit / (1 - place * hit))


def _bound_hits(n: int, p: float) -> int:
    """Return a number that Bin(n, p) exceeds with probability at most 2^-100.

    By Chernoff's bound, with room for rounding.
    """
    low, high = math.ceil(n * p), n
    while low < high:
        t = (low + high) // 2
        x = (t + 1) / n
        rest = (1 - x) * math.log1p((p - x) / (1 - p)) if x < 1 else 0.0
        safe = x > p and n * (x * math.log(x / p) + rest) > _RAREST
        low, high = (low, t) if safe else (t + 1, high)
    return low


def _few_dummies(n: int, p: float) -> TwoBins:
    """Return the curve if a dummy of each of n users hits one of the two bins with probability p."""
    return TwoBins(total=BinomialTotal(n=n, p=shorten(p)))


@lru_cache(maxsize=256)
def poisson_level(*, epsilon: float, delta: float) -> float:
    """Return the smallest mu (rounded up by at most a part in 10^6) such that Poisson(mu) per bin suffices.

    >>> round(poisson_level(epsilon=1.0, delta=1e-6), 2)
    42.65
    """
    check_budget(epsilon, delta)
    return find_level(
        lambda mu: TwoBins(total=PoissonTotal(mean=2 * mu)).delta(epsilon),
        delta,
        guess=_guess_mean(epsilon, delta),
        largest=4e11,
        refusal=f"epsilon={epsilon!r} needs more noise than this routine handles",
        epsilon=epsilon,
    )


def independent_level(*, n: int, epsilon: float, delta: float, bits: int = _BITS) -> Fraction:
    """Return a gamma <= 1/2 such that Bin(n, gamma) per bin suffices, nearly the smallest: a multiple of 2^-bits.

    delta is not perfectly monotone in gamma; the gamma returned was itself certified.

    >>> gamma = independent_level(n=10_000, epsilon=1.0, delta=1e-6)
    >>> round(float(10_000 * gamma), 2), IndependentBins(n=10_000, gamma=gamma).delta(1.0) <= 1e-6
    (42.75, True)
    """
    check_budget(epsilon, delta)
    whole("n", n, at_least=1)
    gamma = find_level(
        lambda gamma: IndependentBins(n=n, gamma=dyadic_above(gamma, bits)).delta(epsilon),
        delta,
        guess=_guess_mean(epsilon, delta) / n,
        largest=0.5,
        refusal=f"n={n} users are too few for epsilon={epsilon!r}, delta={delta!r}",
        epsilon=epsilon,
    )
    return dyadic_above(gamma, bits)


def dummies_level(
    *, n: int, pair: Fraction, epsilon: float, delta: float, bits: int = _BITS
) -> Fraction:
    """Return the smallest rho, rounded up to a multiple of 2^-bits, such that `dummies` suffices.

    >>> rho = dummies_level(n=1_000_000, pair=Fraction(2, 1024), epsilon=1.0, delta=1e-6)
    >>> round(float(rho) * 1_000_000 / 1024, 2)
    42.65
    """
    check_budget(epsilon, delta)
    whole("n", n, at_least=1)
    p = _find_few(n, epsilon, delta)
    if p is not None and p <= pair:
        rho = dyadic_above(Fraction(p) / pair, bits)
        if rho <= 1 and dummies(n=n, rho=rho, pair=pair).delta(epsilon) <= delta:
            return rho
    level = find_level(
        lambda rho: dummies(n=n, rho=dyadic_above(rho, bits), pair=pair).delta(epsilon),
        delta,
        guess=2 * _guess_mean(epsilon, delta) / (n * float(pair)),
        largest=min(1e12 / n, 1e9),
        refusal=f"epsilon={epsilon!r} needs more dummies than this routine handles",
        epsilon=epsilon,
    )
    return dyadic_above(level, bits)


@lru_cache(maxsize=256)  # questions with the same budget have the same
def _find_few(n: int, epsilon: float, delta: float) -> float | None:
    """Return the smallest p such that `_few_dummies` suffices, if one dummy each may be enough."""
    guess = 2 * _guess_mean(epsilon, delta) / n
    if guess > 0.5:
        return None
    with suppress(UnsupportedError):
        level = find_level(
            lambda p: _few_dummies(n, p).delta(epsilon),
            delta,
            guess=guess,
            largest=0.5,
            refusal="",
            epsilon=epsilon,
        )
        return shorten(level)
    return None


def _fair_inner(t: Floats, growth: float) -> Floats:
    """Return D_t = Pr[k] (1 - (E - 1) Pr[<= k - 1] / Pr[k]), rounded up by more than the rounding errors."""
    k = _place(t, growth)
    part = np.ones(len(t))
    some = k > 0 if growth else np.zeros(len(t), np.bool_)  # at 0 no tail counts, and none is found
    x, tosses = k[some], t[some]
    ratio = x / (tosses - x + 1) * bound_mills(x - 1, tosses, 0.5)[0]
    part[some] = 1 - growth * ratio * (1 - 16 * UNIT)
    # A k that is rounded wrongly loses a term of a few units of the mass.
    return np.clip(bound_mass(k, t, 0.5)[1] * (part + 64 * UNIT), 0.0, 1.0)


def _place(t: Floats, growth: float | Floats) -> Floats:
    """Return the k such that the ratio is above e^epsilon for up to k heads among t fair tosses."""
    k: Floats = np.clip(np.ceil((t + 1) / (growth + 2)) - 1, 0, t)
    return k


def _find_width(mean: float, growths: Floats) -> float:
    """Return how far T may be moved down without D_T growing by more than _TOLERANCE for any of these growths.

    D_t falls like e^(-t KL) / sqrt(t), KL the divergence of a coin with probability 1 / (E + 1) from a fair one.
    """
    head = 1 / (float(growths.max()) + 2)
    divergence = math.log(2) + head * math.log(head) + (1 - head) * math.log1p(-head)
    return _TOLERANCE / (divergence + 1 / max(mean, 1.0))


def _count_columns(t: float, growths: Floats) -> int:
    """Count the columns below the largest k that matter: what lies beyond them is bounded by the tail."""
    last = np.array([t])
    least, most = float(growths.min()), float(growths.max())
    between = _place(last, least) - _place(last, most)
    further = math.ceil(_BELOW / math.log1p(max(most, 1e-6))) if most > 0 else 0
    return min(int(between[0]) + 3 + further, int(t) // 2 + 2)


def _expect_fairly(t: Floats, masses: Floats, growths: Floats) -> Floats:
    """Bound E[D_T] from above for each growth, if T is at each t with at most this mass."""
    slack = 1 + (len(masses) + 2) * UNIT
    columns = _count_columns(float(t[-1]), growths)
    if columns * len(t) <= _LARGEST_TABLE and columns <= _PER_EPSILON * len(growths):
        inner = _bound_fairly(t, growths)
    else:
        inner = np.array([_fair_inner(t, growth) for growth in growths.tolist()])
    means = np.vecdot(np.minimum.accumulate(inner, axis=1), masses)
    deltas: Floats = np.minimum(means * slack + 1e-300, 1.0)
    return deltas


def _bound_fairly(t: Floats, growths: Floats) -> Floats:
    """Return D_t for each growth and all t, as in `_fair_inner`: an array [growths, t].

    For each t there is a row of Pr[Bin(t, 1/2) = k] and its sums, for all k that these growths need. It begins with
    a certified mass, and f(k - 1) = f(k) k / (t - k + 1). Each step is two roundings, and the sum over a row one for
    each column; what lies below its end is left out of the tail, which is subtracted. Only as many rows as the
    processor's cache holds exist at a time.
    """
    width = _count_columns(float(t[-1]), growths)
    top = _place(t, float(growths.min()))
    low, high = bound_mass(top, t, 0.5)
    wrong = 8 * (width + 16) * UNIT
    inner = np.empty((len(growths), len(t)))
    rows = max(1, _CACHED // width)
    for start in range(0, len(t), rows):
        some = slice(start, start + rows)
        heads, tails = _fill_rows(t[some, None], top[some, None], width)
        below = (top[some] - _place(t[some], growths[:, None])).astype(np.intp)
        each = np.arange(below.shape[1])
        mass = heads[each, below] * high[some] * (1 + wrong + 64 * UNIT)
        tail = tails[each, below + 1] * low[some] * (1 - wrong)
        inner[:, some] = mass - growths[:, None] * tail * (1 - 16 * UNIT) + 1e-300
    return np.clip(inner, 0.0, 1.0, out=inner)


def _fill_rows(t: Floats, top: Floats, width: int) -> tuple[Floats, Floats]:
    """Return Pr[k] / Pr[top], and the sum of these up to k, for k = top, top - 1, ...: arrays [t, places below]."""
    k = np.maximum(top - np.arange(width - 1, dtype=np.float64), 0.0)
    heads = np.ones((len(t), width))
    np.cumprod(k / (t - k + 1), axis=1, out=heads[:, 1:])
    tails = np.zeros((len(t), width + 1))
    np.cumsum(heads[:, ::-1], axis=1, out=tails[:, -2::-1])
    return heads, tails


def _growth(epsilon: float) -> float:
    """Return e^epsilon - 1, or a little less."""
    return math.expm1(min(non_negative("epsilon", epsilon), _LARGEST_EPSILON)) * (1 - 8 * UNIT)


def _guess_mean(epsilon: float, delta: float) -> float:
    """Estimate the smallest mu, within two percent up to epsilon = 3: where a search may start.

    That of a Gaussian pair with the same variance, and a little more for the skewness of Poisson numbers: a fit.
    """
    log = math.log(1 / delta)
    if epsilon > _LARGE_EPSILON:
        return max(log * (1 / epsilon**2 + 0.5), 1.0)
    scale = gaussian_scale(Promise(epsilon=epsilon, delta=delta))
    return max(2 / scale**2 + log * (0.6 + 0.075 * epsilon) - 2.4, 1.0)
