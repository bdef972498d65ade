"""Shuffled binary randomized response: its own privacy curve, over every data set, with a proof.

n users send their bit, flipped with probability f. The view is the number of ones. If s of the
other n - 1 users hold a one, they contribute N = Bin(s, 1 - f) + Bin(n - 1 - s, f), of law h, and

    delta = sum_c max(0, A h(c) - B h(c + 1)),   A = 1 - f - E f,   B = E (1 - f) - f,   E = e^epsilon,

is the divergence of "the target holds 1" from "the target holds 0". The other direction is the same
at n - 1 - s ones, so the maximum over s of this one covers both.

**One data set.** If `ones` of the other users hold a one and `zeros` a zero, tilt: with t = B / A the law
g(c) = h(c) t^c / M is again a sum of two binomials, M = (f + (1 - f) t)^ones (1 - f + f t)^zeros, and

    delta = A M t^-k [ g(k) - (1 - 1/t) sum_(c > k) t^(k + 1 - c) g(c) ],   k a mode of g:

all the large and small numbers are in A M t^-k, and the bracket is read off at the middle of g, with
relative accuracy however small delta is. The mode is within 1 of the mean (Darroch 1964), so a few
neighbours of the mean are tried: any other k gives less.

**All data sets.** Revealing the message of one more user only helps the attacker, so
delta(ones, zeros) does not increase in either argument. The range of s is cut into cells lo .. hi;
delta(lo, n - 1 - hi) is an upper bound for the whole cell. Cells are halved where this costs most. For
small n every s is a cell of its own. "All others equal" alone is not a bound: some other data set is
worse by up to 22 % in delta at n = 25, and by up to 2 % for n flip = 34 however large n is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.accounting.base import (
    LEAST,
    SMALLEST_DELTA,
    Batch,
    find_epsilon,
    guess_epsilon,
)
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import fraction_of_one, non_negative, whole
from shuffledp.numerics.masses import Binomials
from shuffledp.numerics.rounding import UNIT, exp_bounds
from shuffledp.numerics.search import find_largest_above, find_smallest_safe

_EXACT = 2000  # up to this n every data set is looked at
LARGEST_VARIANCE = 2.5e7  # n f (1 - f): windows of 10^5 places, seconds per epsilon
_TOLERANCE = 0.005  # cells are refined until the upper bound of delta is this close, relatively
_WORK = 1.2e7  # how many places all cells together may look at
_SMALLEST_FLIP = Fraction(1, 10**40)
_LARGEST_EPSILON0 = 60.0  # where a search ends
_SOME = 8  # of many epsilons say first which cells are too wide
_WORST = 12  # cells that a search looks at before it asks all of them
_CHUNK = 1 << 21  # places looked at in one go: bounds the memory
_NEIGHBOURS = 3  # the mode of g is at most 2 from the sum of the two modes, and 1 for roundings
_SHORT = 16  # values of k, up to which the data sets are convolved together
_SMALLEST_A = Fraction(1, 10**70)
_FURTHEST = 60.0  # of (k - k') (ln t - ln t') between points that share tables


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipPoint:
    """What depends on flip and epsilon alone, rounded towards one `side`: 1 is up, -1 down.

    >>> point = FlipPoint.above(Fraction(1, 10), 0.5)
    >>> round(math.exp(point.logs(np.array([99.0]), np.array([0.0]))[0]), 6)
    0.009798
    """

    flip: float
    log_gain: float
    """ln A."""
    x: float
    """t - 1, at most (side 1) or at least (side -1) the true one: delta falls as t grows."""
    side: int

    @staticmethod
    def above(flip: Fraction, epsilon: float) -> "FlipPoint | None":
        """Make the point for upper bounds; None where delta is 0."""
        return FlipPoint._make(flip, epsilon, 1)

    @staticmethod
    def below(flip: Fraction, epsilon: float) -> "FlipPoint | None":
        """Make the point for lower bounds; None where delta is 0, or hard to tell from it."""
        return FlipPoint._make(flip, epsilon, -1)

    @staticmethod
    def _make(flip: Fraction, epsilon: float, side: int) -> "FlipPoint | None":
        low, high = exp_bounds(min(non_negative("epsilon", epsilon), 800.0))
        E = low if side > 0 else high
        A = 1 - flip - E * flip
        if A <= 0 or (side < 0 and A <= _SMALLEST_A):
            return None
        A = max(A, _SMALLEST_A)  # raises A and lowers t: still an upper bound
        towards = -math.inf if side > 0 else math.inf
        x = math.nextafter(float((E - 1) / A), towards) if E > 1 else 0.0
        log_gain = math.log(float(A))
        return FlipPoint(
            flip=float(flip),
            log_gain=log_gain + side * 12 * UNIT * (1 + abs(log_gain)),
            x=x,
            side=side,
        )

    def logs(self, ones: Floats, zeros: Floats) -> Floats:
        """Return ln delta(ones, zeros), target 1 against 0, moved to its side by more than all errors."""
        (logs,) = find_logs([self], ones, zeros)
        return np.asarray(logs)

    def _tilt(self, ones: Floats, zeros: Floats) -> tuple[Binomials, Binomials]:
        """Return the narrower and the wider of the two tilted binomials, for each data set."""
        f, t = self.flip, 1 + self.x
        odds1, odds0 = (1 - f) / f * t, f / (1 - f) * t
        swap = ones * odds1 / (1 + odds1) ** 2 > zeros * odds0 / (1 + odds0) ** 2
        narrow = Binomials(trials=np.where(swap, zeros, ones), odds=np.where(swap, odds0, odds1))
        wide = Binomials(trials=np.where(swap, ones, zeros), odds=np.where(swap, odds1, odds0))
        return narrow, wide

    def _middle(self, ones: Floats, zeros: Floats) -> Floats:
        """Within `_NEIGHBOURS` of every mode of g."""
        narrow, wide = self._tilt(ones, zeros)
        return narrow.mode + wide.mode

    def _log_scale(self, ones: Floats, zeros: Floats, k: Floats, log_gain: Floats) -> Floats:
        """Return ln (A M t^-k) with each of these ln A, moved to its side: [gains, data sets]."""
        # (f + (1 - f) t)^ones is t^ones (1 - f x / t)^ones: no large numbers, even at tiny f.
        f, x = self.flip, self.x
        terms = (
            ones * math.log1p(-f * x / (1 + x)),
            zeros * math.log1p(f * x),
            (ones - k) * math.log1p(x),
        )
        size = 1 + np.abs(log_gain)[:, None] + np.abs(terms).sum(axis=0)
        scale: Floats = log_gain[:, None] + np.sum(terms, axis=0) + self.side * 16 * UNIT * size
        return scale


def find_logs(points: Sequence[FlipPoint], ones: Floats, zeros: Floats) -> Floats:
    """Return ln delta(ones, zeros) of each point (rows) and data set (columns), moved to the points' side.

    All points have the same flip; for several of them `x` rises and they are for upper bounds.

    >>> points = [FlipPoint.above(Fraction(1, 10), epsilon) for epsilon in (0.4, 0.5)]
    >>> np.exp(find_logs(points, np.array([99.0]), np.array([0.0]))).round(6)
    array([[0.016645],
           [0.009798]])
    """
    ones, zeros = np.asarray(ones, dtype=np.float64), np.asarray(zeros, dtype=np.float64)
    middle = points[len(points) // 2]
    narrow, wide = middle._tilt(ones, zeros)
    size = max(1, int(_CHUNK / (30 * narrow.sd.max() + 8 * wide.sd.max() + 200)))
    parts = [
        _find_logs(points, ones[i : i + size], zeros[i : i + size])
        for i in range(0, len(ones), size)
    ]
    return np.concatenate(parts, axis=1)


def _find_logs(points: Sequence[FlipPoint], ones: Floats, zeros: Floats) -> Floats:
    """Return the same with the tables of the middle point, or of others if that is far away.

    With g tilted by t, whatever t' = 1 + x' of a point is, delta is A M t^-k [g(k) - x' / t T(k + 1)] for a mode k of
    the law tilted by t', where T(m) = sum_(c >= m) t^(m - c) g(c): g and T serve all points.

    ln M is convex in ln t, so g(k) is at least e^(-|k - mean| |ln t' - ln t|) times that at its mode, which is at least
    2^-53: with an exponent of at most 60 nothing of it is near the end of the floats.
    """
    middle, D = points[len(points) // 2], _NEIGHBOURS
    at, log_t = middle._middle(ones, zeros), math.log1p(middle.x)
    moved = np.array([point._middle(ones, zeros) - at for point in points])
    apart = np.array([abs(math.log1p(point.x) - log_t) for point in points])
    if float(((np.abs(moved) + D + 2) * apart[:, None]).max()) > _FURTHEST:
        half = len(points) // 2
        both = [_find_logs(each, ones, zeros) for each in (points[:half], points[half:])]
        return np.concatenate(both)
    low, high = int(moved.min()) - D, int(moved.max()) + D
    g, T = _tabulate(middle, ones, zeros, low, high)
    share = np.array([point.x / (1 + middle.x) for point in points])[:, None]
    best = np.full(moved.shape, -math.inf)
    for d in range(-D, D + 1):
        k = moved + d
        row = (k - low).astype(np.intp)
        value = np.take_along_axis(g, row, axis=0) - share * np.take_along_axis(T, row, axis=0)
        with np.errstate(divide="ignore"):
            best = np.maximum(best, np.log(np.maximum(value, 0.0)) - k * log_t)
    far = max(-low, high)
    best += middle.side * 16 * UNIT * (1 + far * log_t + np.abs(np.maximum(best, -800.0)))
    log_gain = np.array([point.log_gain for point in points])
    return best + middle._log_scale(ones, zeros, at, log_gain)


def _tabulate(
    point: FlipPoint, ones: Floats, zeros: Floats, low: int, high: int
) -> tuple[Floats, Floats]:
    """Return g(k) and T(k + 1) for k from low to high past the middle, moved apart by more than all errors.

    In units of 2^-53: the odds are 6 off, so a mass 9 more with every step from the mode, and a product of two 14 for
    each row of the longer table, its sum included. A mass at the mode is off by 3.4e-13 (`stirling_error` three times
    4e-14, the logarithms of up to 2^52 and the deviance of a mean as small as 2^-120), and both by 6200. A weight t^-i
    is off by 11 for each unit of i ln t; the first T is past the mode of g, so it is decided by weights above e^-60,
    and that is 700 more. Each step to the next T costs 3. Together less than 9000, and 24 for each row.
    """
    narrow, wide = point._tilt(ones, zeros)
    log_t = math.log1p(point.x)
    reach = math.ceil(6.5 * float(narrow.sd.max())) + 25 + max(-low, high) - _NEIGHBOURS
    beyond = 6.5 * float(wide.sd.max()) + 25
    beyond = math.ceil(min(beyond, 40 / log_t) if log_t > 0 else beyond)
    at_a, at_b = narrow.mode, wide.mode  # each within 1 of its mean
    a = narrow.masses(at_a, reach, reach)  # [2 reach + 1, data sets]
    b = wide.masses(at_b, reach - low, reach + high + 1 + beyond)
    cut = narrow.bound_beyond(at_a - reach, a[0], -1) + narrow.bound_beyond(at_a + reach, a[-1], 1)
    cut *= b.max(axis=0)
    unreached = b[-1] * math.exp(-log_t * beyond)
    g, T = _convolve(a, b, _discount(b, log_t), high - low + 1, point.x)
    eta = point.side * (9000 + 24 * len(b)) * UNIT
    return g * (1 + eta) + (cut if point.side > 0 else -cut - unreached), T * (1 - eta)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryResponse(Batch):
    """n users, each bit flipped with probability `flip`: a `Profile`.

    >>> shuffled = BinaryResponse(n=1_000, flip=Fraction(1, 4))
    >>> round(shuffled.epsilon(1e-6), 4)
    0.1421
    >>> shuffled.delta_lower(0.1) <= shuffled.delta(0.1)
    True
    """

    n: int
    flip: Fraction
    epsilon0: float = field(init=False)
    """The local guarantee, rounded up: delta is 0 from here on."""

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=2**52)
        if not _SMALLEST_FLIP <= self.flip < Fraction(1, 2):
            raise ParameterError("flip", self.flip, "must be a Fraction >= 1e-40 and < 1/2")
        object.__setattr__(self, "flip", Fraction(self.flip))  # a float is taken for what it is
        local = math.log1p(float((1 - 2 * self.flip) / self.flip))
        object.__setattr__(self, "epsilon0", local * (1 + 1e-14))
        if self._variance > LARGEST_VARIANCE:
            raise UnsupportedError(
                f"n={self.n} users are too many for the exact accountant of binary randomized "
                f"response: n flip (1 - flip) = {self._variance:.3g} must be <= {LARGEST_VARIANCE:g}"
            )

    def delta(self, epsilon: float) -> float:
        """Return an upper bound over all data sets and both directions."""
        worst = _find_worst(self, epsilon)
        return 0.0 if worst is None else _as_delta(worst[2])

    def deltas(self, epsilons: Floats) -> Floats:
        """Return the same for many epsilons at once: all share the cells and most of the work.

        >>> shuffled = BinaryResponse(n=1_000, flip=Fraction(1, 4))
        >>> shuffled.deltas(np.array([0.05, 0.1])).round(6)
        array([1.568e-03, 4.900e-05])
        """
        given = {
            epsilon: FlipPoint.above(self.flip, epsilon) for epsilon in sorted(epsilons.tolist())
        }
        points = [point for point in given.values() if point is not None]
        logs = iter(self._find_largest(points)) if points else iter(())
        deltas = {
            epsilon: 0.0 if point is None else _as_delta(next(logs))
            for epsilon, point in given.items()
        }
        return np.array([deltas[epsilon] for epsilon in epsilons.tolist()])

    def _find_largest(self, points: Sequence[FlipPoint]) -> list[float]:
        """Return the logarithm of each point's bound over all data sets."""
        if self.n <= _EXACT:
            cells = _every(self.n)
        else:
            some = points[:: max(1, len(points) // _SOME)]
            cells = _refine(some, *_first_cells(self.n), _budget(self._variance))[:2]
        upper = _refine(points, *cells, len(cells[0]) + _budget(self._variance) // 4)[2]
        return [float(each) for each in upper.max(axis=1)]

    def improve_epsilon0(self, epsilon: float, delta: float) -> float:
        """Estimate the largest epsilon0 at which (epsilon, delta) holds, as the worst cells here say.

        One step of a search: the result must still be checked.

        >>> shuffled = BinaryResponse(n=10_000, flip=Fraction(1, 4))
        >>> round(shuffled.improve_epsilon0(0.1, 1e-6), 2)
        2.2
        """
        worst = _find_worst(self, epsilon)
        if worst is None:
            return self.epsilon0
        ones, zeros, _ = worst

        def spare(epsilon0: float) -> float:
            return -_excess(_flip_of(epsilon0), ones, zeros, math.log(delta))(epsilon)

        return find_largest_above(
            spare, end=_LARGEST_EPSILON0, guess=self.epsilon0, tolerance=1e-5, floor=epsilon
        )

    def delta_lower(self, epsilon: float) -> float:
        """Return a lower bound: the delta of the worst data set that was found, rounded down."""
        point = FlipPoint.below(self.flip, epsilon)
        if point is None:
            return 0.0
        lo, hi, upper = self._cells(point, epsilon)
        return math.exp(_find_truth([point], lo, hi, upper[None, :]).item()) * (1 - 16 * UNIT)

    def delta_at(self, ones: int, zeros: int, epsilon: float) -> float:
        """Return the larger direction for one data set: `ones` of the others hold 1, `zeros` hold 0.

        >>> rr = BinaryResponse(n=100, flip=Fraction(1, 10))
        >>> f"{rr.delta_at(0, 99, 0.5):.6e}"
        '9.798434e-03'
        """
        return max(self.directions_at(ones, zeros, epsilon))

    def directions_at(self, ones: int, zeros: int, epsilon: float) -> tuple[float, float]:
        """Upper bounds of (target 1 against 0, target 0 against 1) for one data set.

        >>> rr = BinaryResponse(n=100, flip=Fraction(1, 10))
        >>> [f"{delta:.6e}" for delta in rr.directions_at(0, 99, 0.5)]
        ['1.322261e-03', '9.798434e-03']
        """
        whole("ones", ones, at_least=0, at_most=self.n - 1)
        whole("zeros", zeros, at_least=0, at_most=self.n - 1 - ones)
        point = FlipPoint.above(self.flip, epsilon)
        if point is None:
            return 0.0, 0.0
        first, second = point.logs(np.array([ones, zeros]), np.array([zeros, ones]))
        return _as_delta(float(first)), _as_delta(float(second))

    def epsilon(self, delta: float) -> float:
        """Nearly the smallest epsilon with delta(epsilon) <= delta, and always one of them.

        It is rounded up by a part in 10^6, and by what the cells leave open.
        """
        fraction_of_one("delta", delta)
        # The worst cells decide. Solve for them alone, then ask all of them once.
        guess = guess_epsilon(self._mu, delta)
        for _ in range(5):
            guess = self._solve_for_worst(min(guess, 0.999 * self.epsilon0), math.log(delta))
            if self.delta(guess) <= delta:
                return guess
        return find_epsilon(self.delta, delta, epsilon0=self.epsilon0, guess=guess)

    def _solve_for_worst(self, guess: float, log_delta: float) -> float:
        worst = _find_worst(self, guess)
        if worst is None:
            return self.epsilon0
        ones, zeros, _ = worst
        smallest = find_smallest_safe(
            _excess(self.flip, ones, zeros, log_delta),
            safe=self.epsilon0,
            guess=guess,
            floor=LEAST * self.epsilon0,
        )
        return smallest if smallest > LEAST * self.epsilon0 else 0.0

    @property
    def _mu(self) -> float:
        """The view is about this Gaussian pair."""
        return float(1 - 2 * self.flip) / math.sqrt(self._variance)

    @property
    def _variance(self) -> float:
        """The variance of the number of ones; it does not depend on the data."""
        return float(self.n * self.flip * (1 - self.flip))

    def _cells(self, point: FlipPoint, epsilon: float) -> tuple[Floats, Floats, Floats]:
        """First and last s of each cell, and the logarithm of its bound at this epsilon."""
        # Most of the work is done once, for a nearby flip and epsilon in coarse steps: any cells
        # that cover all s will do.
        smallest = 0.01 * min(self._mu, self.epsilon0)
        lo, hi = _place_cells(
            self.n, _round_coarsely(self.epsilon0), _round_coarsely(max(epsilon, smallest))
        )
        lo, hi, upper = _refine([point], lo, hi, len(lo) + _budget(self._variance) // 4)
        return lo, hi, upper[0]


@lru_cache(maxsize=64)
def _find_worst(response: BinaryResponse, epsilon: float) -> tuple[Floats, Floats, float] | None:
    """Ones and zeros of the worst cells, and the largest logarithm; None where delta is 0."""
    point = FlipPoint.above(response.flip, epsilon)
    if point is None:
        return None
    lo, hi, upper = response._cells(point, epsilon)
    worst = np.argsort(upper)[-_WORST:]
    return lo[worst], response.n - 1 - hi[worst], float(upper.max())


def gaussian_epsilon0(*, n: int, epsilon: float, delta: float) -> float:
    """Estimate the epsilon0 of n shuffled bits at (epsilon, delta), as if the view were Gaussian.

    mu = (1 - 2 f) / sqrt(n f (1 - f)) and 1 - 2 f = tanh(epsilon0 / 2).

    >>> round(gaussian_epsilon0(n=10_000, epsilon=0.1, delta=1e-6), 2)
    2.25
    """
    mu = epsilon
    for _ in range(12):
        mu *= (epsilon / guess_epsilon(mu, delta)) ** 0.8
    odds = mu * mu * n / 4
    return min(2 * math.asinh(math.sqrt(odds)), _LARGEST_EPSILON0)


def _flip_of(epsilon0: float) -> Fraction:
    return Fraction(1 / (1 + math.exp(epsilon0)))


def _round_coarsely(value: float) -> float:
    return float(2.0 ** (round(2 * math.log2(value)) / 2))


def _excess(
    flip: Fraction, ones: Floats, zeros: Floats, log_delta: float
) -> Callable[[float], float]:
    floor = math.log(SMALLEST_DELTA)

    def excess(epsilon: float) -> float:
        point = FlipPoint.above(flip, epsilon)
        if point is None:
            return -math.inf
        return max(float(point.logs(ones, zeros).max()), floor) - log_delta

    return excess


def _as_delta(log: float) -> float:
    return min(1.0, max(math.exp(min(log, 0.0)) * (1 + 16 * UNIT), SMALLEST_DELTA))


@lru_cache(maxsize=32)
def _place_cells(n: int, epsilon0: float, epsilon: float) -> tuple[Floats, Floats]:
    """First and last s of each cell; every s in 0 .. n - 1 is in one."""
    if n <= _EXACT:
        return _every(n)
    flip = _flip_of(epsilon0)
    point = FlipPoint.above(flip, min(epsilon, 0.98 * epsilon0))
    assert point is not None  # epsilon is below epsilon0
    lo, hi, _ = _refine([point], *_first_cells(n), _budget(float(n * flip * (1 - flip))))
    return lo, hi


def _refine(
    points: Sequence[FlipPoint], lo: Floats, hi: Floats, budget: int
) -> tuple[Floats, Floats, Floats]:
    """Return the same range in finer cells, and the logarithms of each cell's upper bounds: [points, cells]."""
    others = hi.max()
    upper = find_logs(points, lo, others - hi)
    while len(lo) < budget and np.any(hi > lo):
        over = (upper - _find_truth(points, lo, hi, upper)[:, None]).max(axis=0)
        loose = np.flatnonzero((over > _TOLERANCE) & (hi > lo))
        if not len(loose):
            break
        # The worst half of them, so that a budget that runs out was spent where it matters.
        half = loose[np.argsort(over[loose])][-max(len(loose) // 2, 8) :]
        half = half[-(budget - len(lo)) :]
        middle = np.floor((lo[half] + hi[half]) / 2)
        new_lo, new_hi = np.append(lo[half], middle + 1), np.append(middle, hi[half])
        new_upper = find_logs(points, new_lo, others - new_hi)
        lo, hi = np.append(np.delete(lo, half), new_lo), np.append(np.delete(hi, half), new_hi)
        upper = np.concatenate([np.delete(upper, half, axis=1), new_upper], axis=1)
    return lo, hi, upper


def _find_truth(points: Sequence[FlipPoint], lo: Floats, hi: Floats, upper: Floats) -> Floats:
    """Return ln of each point's largest delta among a few data sets: all equal, and the ends of the worst cells."""
    worst = np.unique(np.argsort(upper, axis=1)[:, -_WORST:])
    others = hi.max()
    ones = np.unique(np.concatenate([[0.0, others], lo[worst], hi[worst]]))
    truth: Floats = find_logs(points, ones, others - ones).max(axis=1)
    return truth


def _every(n: int) -> tuple[Floats, Floats]:
    every = np.arange(n, dtype=np.float64)
    return every, every


def _first_cells(n: int) -> tuple[Floats, Floats]:
    near = np.geomspace(1, n / 4, 24)
    starts = np.unique(np.floor(np.concatenate([[0.0], near, np.linspace(0, n, 33), n - near])))
    starts = starts[starts < n]
    return starts, np.append(starts[1:] - 1, n - 1.0)


def _budget(variance: float) -> int:
    return int(min(max(_WORK / (30 * math.sqrt(variance) + 100), 100), 1500))


def _discount(b: Floats, log_t: float) -> Floats:
    """T_m = b_m + T_(m + 1) / t, from 0 behind the last row: sums of positive numbers only."""
    block = math.floor(min(max(30 / log_t, 1.0), len(b))) if log_t > 0 else len(b)
    T = np.empty_like(b)
    carried = np.zeros(b.shape[1])
    for end in range(len(b), 0, -block):
        start = max(end - block, 0)
        # Within a block the weights t^-i stay above e^-30.
        weight = np.exp(-log_t * np.arange(end - start, dtype=np.float64))[:, None]
        rows = b[start:end] * weight
        rows[-1] += carried * (weight[-1] * math.exp(-log_t))
        T[start:end] = np.cumsum(rows[::-1], axis=0)[::-1] / weight
        carried = T[start]
    return T


def _convolve(a: Floats, b: Floats, tail: Floats, size: int, x: float) -> tuple[Floats, Floats]:
    """Return g(k) and T(k + 1) for the `size` values of k at which all of `a` meets `b`."""
    if size <= _SHORT:
        g = np.array([_meet(a, b, k) for k in range(size)])
    else:
        columns = a.T.copy(), b[: len(a) + size - 1].T.copy()
        g = np.array([np.convolve(*both, mode="valid") for both in zip(*columns, strict=True)]).T
    T = np.empty_like(g)
    T[-1] = _meet(a, tail, size)
    for k in range(size - 1, 0, -1):
        T[k - 1] = g[k] + T[k] / (1 + x)
    return g, T


def _meet(a: Floats, b: Floats, first: int) -> Floats:
    """Return sum_i a_i b_(first + len(a) - 1 - i), for each data set."""
    total: Floats = np.einsum("ij,ij->j", a, b[first : first + len(a)][::-1])
    return total
