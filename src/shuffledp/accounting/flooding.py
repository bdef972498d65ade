r"""Sums of messages that are hidden in a flood of multisets which add up to zero.

Messages are integers i != 0, |i| <= levels. With s_1 = {1, -1} and s_i = {i, -floor(i/2), -ceil(i/2)} the
counts of messages obey e_i = [s_i] - e_(-floor(i/2)) - e_(-ceil(i/2)) and e_(-1) = [s_1] - e_1, so that

    e_x - e_x' = sum_s (c_s(x) - c_s(x')) [s] + (x - x') e_1,     and -e_1 = e_(-1) - [s_1].

So a person's other value does what a fixed shift of the *numbers of noise multisets* does: it raises the
number Z+ of single "+1" (or Z- of "-1") by |x - x'|, which costs epsilon_star for Geom(e^(-epsilon_star/levels)),
and moves the number N_s of each multiset by c_s. The numbers are independent, so (epsilon, delta) add up:

    epsilon_star + sum_s a_s |c_s|  and  sum_s delta_s,   delta_s >= the divergence of N_s, N_s + c_s at a_s |c_s|.

**delta_s.** N_s is the sum of K geometric numbers (1, 2, ... with Pr ~ p^k), K ~ Poisson(level). Given K >= 1,
N_s - K ~ NB(K, p). Against a shift upwards the ratio is at most p^-c <= e^(a c), if p >= e^-a. Downwards

    Pr[N = n] / Pr[N = n - c] = product of p (K - 1 + m) / m over m = n - c + 1 .. n

exceeds e^(a c) only if its largest factor, m = n - c + 1, exceeds e^a, i.e. n <= c - 1 + p (K - 1) / (e^a - p).
So delta_s <= Pr[K = 0] + sum_K Pr[K] Pr[NB(K, p) <= that], and Chernoff's bound of the last is evaluated.

Reference: Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021, "Differentially private aggregation in the shuffle
model: almost central accuracy in almost a single message"; this flood and its bound are ours.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics.search import smallest_parameter

__all__ = ["STEEPNESS", "Cell", "Flooding", "cells", "coefficients", "thinned_delta"]

STEEPNESS = 0.5
"""p = e^(-STEEPNESS a): at 1 it takes more multisets, at 0 they are larger."""
_MOST_LEVELS = 2048
_STEEPEST = 2.0  # a larger rate would make all multisets single ones, which hide no shift
_SLACK = 1 + 1e-6
"""More than all rounding errors of sums of positive numbers here."""
_LARGEST_LEVEL = 1e4
_MOST_WORK = 2e8
_PIECE = 64  # numbers of events looked at in one go


def _parts(i: int) -> tuple[int, ...]:
    """The elements of s_i."""
    return (i, -i) if i == 1 else (i, -(i // 2), -(i - i // 2))


@lru_cache(maxsize=1 << 14)
def _coefficients(i: int) -> tuple[tuple[int, int], ...]:
    if i == 1:
        return ()
    if i == -1:
        return ((1, 1),)
    total = Counter({i: 1})
    for part in _parts(i)[1:]:
        for s, c in _coefficients(part):
            total[s] -= c
    return tuple(total.items())


def coefficients(x: int) -> dict[int, int]:
    """c_s(x) for each i of a multiset s_i: the counts of message x are their sum, and x times "+1".

    >>> coefficients(3)  # {3, -1, -2} - {-2, 1, 1} - {1, -1} + {1, 1, 1} = {3}
    {3: 1, 1: -1, -2: -1}
    """
    return dict(_coefficients(x)) if x else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One multiset of the flood, and how far a person moves its number."""

    parts: tuple[int, ...]
    shift: int
    rate: float
    """a: what a shift by one may cost."""


@lru_cache(maxsize=64)
def cells(levels: int, budget: float) -> tuple[Cell, ...]:
    """All multisets that values 0 .. levels need; all shifts together cost at most `budget`.

    s_1 comes twice: half of the budget is for moving |x - x'| from "+1" to "-1".

    >>> [(cell.parts, cell.shift) for cell in cells(3, 0.1)]
    [((1, -1), 3), ((1, -1), 2), ((-2, 1, 1), 1), ((2, -1, -1), 1), ((3, -1, -2), 1)]
    """
    whole("levels", levels, at_least=1, at_most=_MOST_LEVELS)
    half = positive("budget", budget) / 2 * (1 - 1e-12)
    shifts, heaviest = _moves(levels)
    spare = Cell(parts=_parts(1), shift=levels, rate=min(half / levels, _STEEPEST))
    return (
        spare,
        *(
            Cell(parts=_parts(i), shift=shift, rate=min(half * abs(i) / heaviest, _STEEPEST))
            for i, shift in shifts
        ),
    )


@lru_cache(maxsize=64)
def _moves(levels: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """How far two values move the number of each s_i, and a bound of sum_i |i (c_i(x) - c_i(x'))|."""
    low: Counter[int] = Counter()
    high: Counter[int] = Counter()
    weights = []
    for x in range(levels + 1):
        found = coefficients(x)
        weights.append(sum(abs(c * i) for i, c in found.items()))
        for i, c in found.items():
            low[i], high[i] = min(low[i], c), max(high[i], c)
    moved = sorted((i for i in high if high[i] > low[i]), key=lambda i: (abs(i), i))
    # |c(x) - c(x')| <= |c(x)| + |c(x')|, weighted by |i|: the two largest values of that.
    heaviest = sum(sorted(weights)[-2:])
    return tuple((i, high[i] - low[i]) for i in moved), heaviest


@dataclass(frozen=True, slots=True, kw_only=True)
class Flooding:
    """The flood of `levels` with this budget, as a function of the mean number of events in a cell.

    >>> flood = Flooding(levels=10, budget=0.1)
    >>> level = flood.level(1e-6)
    >>> round(level, 2), flood.delta(level) <= 1e-6
    (45.17, True)
    """

    levels: int
    budget: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        return cells(self.levels, self.budget)

    def delta(self, level: float) -> float:
        """At least the sum of all delta_s, if every K is Poisson(level)."""
        if level > _LARGEST_LEVEL:
            raise UnsupportedError(f"level={level!r} is too large for this routine")
        top = math.ceil(level + 12 * math.sqrt(level)) + 60
        K = np.arange(1, top, dtype=np.float64)
        log_mass = K * math.log(level) - level - np.cumsum(np.log(K))
        mass = np.exp(log_mass)
        beyond = float(mass[-1]) * level / (top - level)
        given = float(_all_tails(self, -(-top // _PIECE))[: len(K)] @ mass)
        missing = len(self.cells) * (math.exp(-level) + beyond)
        return min(1.0, (given + missing) * _SLACK + 1e-300)

    def level(self, delta: float) -> float:
        """Nearly the smallest level with this delta, and not less."""
        return _level(self, fraction_of_one("delta", delta))


@lru_cache(maxsize=64)
def _all_tails(flood: Flooding, pieces: int) -> Floats:
    """The sum of the `_lower_tails` of all cells, for K = 1, 2, ...: it is the same at every level."""
    K = np.arange(1, pieces * _PIECE + 1, dtype=np.float64)
    rate = np.array([[cell.rate] for cell in flood.cells])
    shift = np.array([[float(cell.shift)] for cell in flood.cells])
    total: Floats = np.concatenate(
        [_lower_tails(part, rate, shift).sum(axis=0) for part in np.split(K, pieces)]
    )
    return total


@lru_cache(maxsize=256)
def _level(flood: Flooding, delta: float) -> float:
    level = smallest_parameter(
        lambda level: math.log(flood.delta(level) / delta),
        guess=2.77 * math.log(len(flood.cells) / delta) + 0.1,
        largest=_LARGEST_LEVEL,
        tolerance=1e-4,
    )
    if level is None:
        raise UnsupportedError(f"delta={delta!r} is out of reach of this flood")
    return level


def _lower_tails(K: Floats, rate: Floats, shift: Floats) -> Floats:
    """At least Pr[NB(K, p) <= shift - 1 + p (K - 1) / (e^rate - p)], by Chernoff.

    With z = t / (p (K + t)): E[z^N] z^-t = ((1 - p) (K + t) / K)^K z^-t, for t below the mean.
    """
    own = STEEPNESS * rate
    p = np.exp(-own)
    factor = p / (np.expm1(rate) - np.expm1(-own))
    t = np.floor(factor * (K - 1) * _SLACK) + shift - 1
    z = t / (p * (K + t))
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(t > 0, t * np.log(z), 0.0)
        log_bound = K * (np.log(-np.expm1(-own)) + np.log1p(t / K)) - rest
        # z is rounded, and its logarithm counts t times.
        bound = np.exp(np.minimum(log_bound + 2e-15 * t + 1e-13 * K, 0.0))
    tails: Floats = np.where(z < 1, bound, 1.0)
    return tails


def thinned_delta(*, levels: int, epsilon_star: float, share: float) -> float:
    """At least the divergence of Z + k against Z at epsilon_star, 1 <= k <= levels, Z ~ NB(share, p).

    Here p = e^(-epsilon_star/levels). Nothing for share >= 1; 1 if it takes too long to compute.

    >>> thinned_delta(levels=10, epsilon_star=0.9, share=1.0)
    0.0
    >>> f"{thinned_delta(levels=10, epsilon_star=0.9, share=0.5):.3f}"
    '0.545'
    """
    if share >= 1:
        return 0.0
    rate = epsilon_star / levels
    length = levels + math.ceil(40 / rate)
    if float(levels) * length > _MOST_WORK:
        return 1.0
    j = np.arange(1, length, dtype=np.float64)
    start = math.exp(share * math.log(-math.expm1(-rate)))
    q = start * np.cumprod(np.append(1.0, math.exp(-rate) * (share + j - 1) / j))
    # Ratios rise to p; each mass is a product of at most `length` rounded factors.
    error = 8 * length * 2.0**-53
    tail = float(q[-1]) / math.expm1(rate) + float(q[-levels - 1 :].sum())
    factor = math.exp(epsilon_star) * (1 - error)
    worst = max(
        float(np.maximum(q[:-k] * (1 + error) - factor * q[k:], 0.0).sum())
        for k in range(1, levels + 1)
    )
    return min(1.0, (worst + tail) * _SLACK)
