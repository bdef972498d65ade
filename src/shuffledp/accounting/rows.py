"""Several independent pairs of bins, one message moving in each: the sum of their privacy losses.

In a pair with T dummies the attacker sees u messages in one bin and v = T + 1 - u in the other: A + 1 and T - A, or the
other way round, A ~ Bin(T, 1/2). The loss is ln(u / v), infinite for v = 0, and over independent pairs losses L add up:

    delta = E[max(0, 1 - e^(epsilon - L))]     under the law of (A + 1, T - A),

which grows with L. So it is safe to round losses up to a grid and masses up. T is moved down as in `cells`: fewer
dummies are less privacy, in every pair alone and so in all together. The convolution is a sum of positive terms.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.accounting.decreasing_mean import Total
from shuffledp.accounting.two_bins import TwoBins, dummies, poisson_level
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.masses import COIN_ERROR, coin_pmf
from shuffledp.numerics.search import smallest_parameter

__all__ = ["rows_delta", "rows_level"]

_STEPS = 100  # of the grid in epsilon / rows
_REACH = 3.0  # losses of one row above this many epsilon count as infinite
_PLACES = 1000  # T is rounded down by at most its mean over this
_WINDOW = 5.0  # |A - T/2| <= 5 sqrt(T), but for 2 e^-50 by Hoeffding's inequality
_NEGLIGIBLE = 1e-16  # of the simple bound: what is less likely is counted as an infinite loss
_BLOCK = 1 << 16  # places looked at in one go: about what the CPU's cache holds
_TABLED = 90_000  # coins whose masses come from a table
_ROUNDING = 1e-9  # of sums and products of positive terms, many times over


def rows_delta(*, total: Total, rows: int, epsilon: float) -> float:
    """At least the true delta for `rows` independent pairs, each with its own T ~ total.

    Never above the sum of the rows' own deltas at epsilon / rows, which holds as well.

    >>> from shuffledp.accounting.decreasing_mean import PoissonTotal
    >>> f"{rows_delta(total=PoissonTotal(mean=300.0), rows=4, epsilon=1.0):.1e}"
    '7.7e-07'
    """
    positive("epsilon", epsilon)
    whole("rows", rows, at_least=1)
    simple = rows * TwoBins(total=total).delta(epsilon / rows * (1 - 1e-15))
    if rows == 1:
        return min(1.0, simple)
    step = epsilon / (rows * _STEPS)
    one = _losses(total, step, math.ceil(_REACH * rows * _STEPS), _NEGLIGIBLE * simple)
    losses = one.masses
    for _ in range(rows - 1):
        losses = np.convolve(losses, one.masses)
    places = rows * one.first + np.arange(len(losses))
    gain = -np.expm1(np.minimum(epsilon - places * step, 0.0))
    composed = float((losses * gain).sum()) * (1 + _ROUNDING) + rows * one.infinite
    return min(1.0, simple, composed)


@lru_cache(maxsize=64)
def rows_level(
    *, n: int, pair: Fraction, rows: int, epsilon: float, delta: float, bits: int
) -> Fraction:
    """Nearly the smallest rho, a multiple of 2^-bits, such that n users' dummies in each row suffice.

    >>> rho = rows_level(n=10**6, pair=Fraction(2, 8192), rows=4, epsilon=1.0, delta=1e-6, bits=64)
    >>> round(float(rho) * 10**6 / 8192)
    146
    """
    guess = rows * poisson_level(epsilon=epsilon, delta=delta) * 2 / (n * float(pair))

    def excess(rho: float) -> float:
        total = dummies(n=n, rho=_dyadic(rho, bits), pair=pair).total
        return math.log(rows_delta(total=total, rows=rows, epsilon=epsilon) / delta)

    rho = smallest_parameter(
        excess, guess=guess, largest=max(guess, min(1e12 / n, 1e9)), tolerance=1e-4
    )
    if rho is None:
        raise UnsupportedError(f"epsilon={epsilon!r} needs more dummies than this routine handles")
    return _dyadic(rho, bits)


def _dyadic(x: float, bits: int) -> Fraction:
    return Fraction(math.ceil(Fraction(x) * 2**bits), 2**bits)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Losses:
    """Masses of the losses first, first + 1, ..., in steps, and of what is above: all rounded up."""

    first: int
    masses: Floats
    infinite: float

    def trimmed(self, negligible: float) -> "_Losses":
        """Hardly likely small losses moved up to the first likely one, large ones to infinity."""
        below, above = np.cumsum(self.masses), np.cumsum(self.masses[::-1])
        low = int(np.searchsorted(below, negligible))
        high = len(above) - int(np.searchsorted(above, negligible))
        if low >= high:
            return self
        masses = self.masses[low:high].copy()
        masses[0] += float(self.masses[:low].sum()) * (1 + _ROUNDING)
        beyond = float(self.masses[high:].sum()) * (1 + _ROUNDING)
        return _Losses(first=self.first + low, masses=masses, infinite=self.infinite + beyond)


def _losses(total: Total, step: float, reach: int, negligible: float) -> _Losses:
    """The loss of one row, in -reach .. reach or infinite."""
    spread = np.linspace(-40.0, 12.0, 1200) * total.sd + total.mean
    starts = np.unique(np.floor(np.maximum(np.append(spread, 0.0), 0.0)))
    places, masses = total.floored(starts)
    coarse = max(1, math.floor(total.mean / _PLACES))
    sizes, cell = np.unique(np.floor(places / coarse) * coarse, return_inverse=True)
    weights: Floats = np.bincount(cell, masses).astype(np.float64)
    likely = weights >= negligible
    found = np.zeros(2 * reach + 1)
    infinite = 2 * math.exp(-2 * _WINDOW**2) + float(weights[~likely].sum()) * (1 + _ROUNDING)
    for t, a, weight in _windows(sizes[likely], weights[likely]):
        mass = _coins(a, t) * (weight * (1 + 2 * COIN_ERROR))
        left = t - a  # v, and u = a + 1
        loss = np.where(left > 0, np.log((a + 1) / np.maximum(left, 1)), np.inf)
        grid = np.ceil(np.maximum(loss / step, -reach) + 1e-6)
        finite = grid <= reach
        infinite += float(mass[~finite].sum()) * (1 + _ROUNDING)
        found += np.bincount(grid[finite].astype(np.int64) + reach, mass[finite], 2 * reach + 1)
    return _Losses(first=-reach, masses=found, infinite=infinite).trimmed(negligible)


def _coins(a: Floats, t: Floats) -> Floats:
    """Pr[Bin(t, 1/2) = a], within `COIN_ERROR`."""
    if t[-1] > _TABLED:
        return coin_pmf(a, t)
    # ln k! is below 10^6 there, so that the differences keep nine digits: and tables are fast.
    logs = _log_factorials()
    tosses, heads = t.astype(np.int64), a.astype(np.int64)
    mass: Floats = np.exp(logs[tosses] - logs[heads] - logs[tosses - heads] - t * math.log(2))
    return mass


@lru_cache(maxsize=1)
def _log_factorials() -> Floats:
    from scipy.special import gammaln

    logs: Floats = gammaln(np.arange(1.0, _TABLED + 2))
    return logs


def _windows(sizes: Floats, weights: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
    """(t, a, weight) for all a near t/2, in blocks."""
    width = _WINDOW * np.sqrt(sizes) + 1
    first = np.maximum(np.floor(sizes / 2 - width), 0.0)
    count = (np.minimum(np.ceil(sizes / 2 + width), sizes) - first + 1).astype(np.int64)
    block = np.cumsum(count) // _BLOCK
    for which in np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(block)) + 1):
        number = count[which]
        offset = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
        yield (
            np.repeat(sizes[which], number),
            np.repeat(first[which], number) + offset,
            np.repeat(weights[which], number),
        )
