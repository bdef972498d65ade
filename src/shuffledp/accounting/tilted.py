"""Shuffled binary randomized response on one data set: delta with relative accuracy, on a certain side.

If `ones` of the other users hold a one and `zeros` a zero, and each bit is flipped with probability f, they
contribute N = Bin(ones, 1 - f) + Bin(zeros, f), of law h, and the divergence of "the target holds 1" from
"the target holds 0" is

    delta = sum_c max(0, A h(c) - B h(c + 1)),   A = 1 - f - E f,   B = E (1 - f) - f,   E = e^epsilon.

Tilt: with t = B / A the law g(c) = h(c) t^c / M is again a sum of two binomials,
M = (f + (1 - f) t)^ones (1 - f + f t)^zeros, and

    delta = A M t^-k [ g(k) - (1 - 1/t) sum_(c > k) t^(k + 1 - c) g(c) ],   k a mode of g:

all the large and small numbers are in A M t^-k, and the bracket is read off at the middle of g, with
relative accuracy however small delta is. The mode is within 1 of the mean (Darroch 1964), so a few
neighbours of the mean are tried: any other k gives less.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import number
from shuffledp.numerics.masses import Binomials
from shuffledp.numerics.rounding import exp_bounds

__all__ = ["Point"]

_UNIT = 2.0**-53  # rounding error of one operation
_CHUNK = 1 << 21  # places looked at in one go: bounds the memory
_NEIGHBOURS = 3  # the mode of g is at most 2 from the sum of the two modes, and 1 for roundings
_SMALLEST_A = Fraction(1, 10**70)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What depends on flip and epsilon alone, rounded towards one `side`: 1 is up, -1 down.

    >>> point = Point.above(Fraction(1, 10), 0.5)
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
    def above(flip: Fraction, epsilon: float) -> "Point | None":
        """For upper bounds; None where delta is 0."""
        return Point._make(flip, _checked(epsilon), 1)

    @staticmethod
    def below(flip: Fraction, epsilon: float) -> "Point | None":
        """For lower bounds; None where delta is 0, or hard to tell from it."""
        return Point._make(flip, _checked(epsilon), -1)

    @staticmethod
    def _make(flip: Fraction, epsilon: float, side: int) -> "Point | None":
        low, high = exp_bounds(min(epsilon, 800.0))
        E = low if side > 0 else high
        A = 1 - flip - E * flip
        if A <= 0 or (side < 0 and A <= _SMALLEST_A):
            return None
        A = max(A, _SMALLEST_A)  # raises A and lowers t: still an upper bound
        towards = -math.inf if side > 0 else math.inf
        x = math.nextafter(float((E - 1) / A), towards) if E > 1 else 0.0
        log_gain = math.log(float(A))
        return Point(
            flip=float(flip),
            log_gain=log_gain + side * 4 * _UNIT * (1 + abs(log_gain)),
            x=x,
            side=side,
        )

    def logs(self, ones: Floats, zeros: Floats) -> Floats:
        """ln delta(ones, zeros), target 1 against 0, moved to its side by more than all errors."""
        ones, zeros = np.asarray(ones, dtype=np.float64), np.asarray(zeros, dtype=np.float64)
        narrow, wide = self._tilted(ones, zeros)
        size = max(1, int(_CHUNK / (30 * narrow.sd.max() + 8 * wide.sd.max() + 200)))
        parts = [
            self._logs(ones[i : i + size], zeros[i : i + size]) for i in range(0, len(ones), size)
        ]
        return np.concatenate(parts)

    def _tilted(self, ones: Floats, zeros: Floats) -> tuple[Binomials, Binomials]:
        """The narrower and the wider of the two tilted binomials, for each data set."""
        f, t = self.flip, 1 + self.x
        odds1, odds0 = (1 - f) / f * t, f / (1 - f) * t
        swap = ones * odds1 / (1 + odds1) ** 2 > zeros * odds0 / (1 + odds0) ** 2
        narrow = Binomials(trials=np.where(swap, zeros, ones), odds=np.where(swap, odds0, odds1))
        wide = Binomials(trials=np.where(swap, ones, zeros), odds=np.where(swap, odds1, odds0))
        return narrow, wide

    def _logs(self, ones: Floats, zeros: Floats) -> Floats:
        narrow, wide = self._tilted(ones, zeros)
        log_t = math.log1p(self.x)
        reach = math.ceil(6.5 * float(narrow.sd.max())) + 25
        beyond = 6.5 * float(wide.sd.max()) + 25
        beyond = math.ceil(min(beyond, 40 / log_t) if log_t > 0 else beyond)
        at_a, at_b = narrow.mode, wide.mode  # each within 1 of its mean
        D = _NEIGHBOURS
        a = narrow.masses(at_a, reach, reach)  # [2 reach + 1, data sets]
        b = wide.masses(at_b, reach + D, reach + D + 1 + beyond)
        tail = _discounted(b, log_t)
        cut = narrow.beyond(at_a - reach, a[0], -1) + narrow.beyond(at_a + reach, a[-1], 1)
        cut *= b.max(axis=0)
        unreached = b[-1] * math.exp(-log_t * beyond)
        eta = self.side * (1e-12 + 24 * len(b) * _UNIT)
        share = self.x / (1 + self.x)
        best = np.full(len(ones), -math.inf)
        T = _meet(a, tail, 2 * D + 1)  # at k + 1, for the largest k
        for d in range(D, -D - 1, -1):
            g = _meet(a, b, d + D)
            value = g * (1 + eta) - share * T * (1 - eta)
            value += cut if self.side > 0 else -cut - unreached
            with np.errstate(divide="ignore"):
                best = np.maximum(best, np.log(np.maximum(value, 0.0)) - d * log_t)
            T = g + T / (1 + self.x)
        return best + self._log_scale(ones, zeros, at_a + at_b)

    def _log_scale(self, ones: Floats, zeros: Floats, k: Floats) -> Floats:
        """ln (A M t^-k), moved to its side."""
        # (f + (1 - f) t)^ones is t^ones (1 - f x / t)^ones: no large numbers, even at tiny f.
        f, x = self.flip, self.x
        terms = (
            ones * math.log1p(-f * x / (1 + x)),
            zeros * math.log1p(f * x),
            (ones - k) * math.log1p(x),
        )
        size = 1 + abs(self.log_gain) + np.abs(terms).sum(axis=0)
        scale: Floats = self.log_gain + np.sum(terms, axis=0) + self.side * 8 * _UNIT * size
        return scale


def _checked(epsilon: float) -> float:
    if number("epsilon", epsilon) < 0:
        raise ParameterError("epsilon", epsilon, "must be >= 0")
    return float(epsilon)


def _discounted(b: Floats, log_t: float) -> Floats:
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


def _meet(a: Floats, b: Floats, first: int) -> Floats:
    """sum_i a_i b_(first + len(a) - 1 - i), for each data set."""
    total: Floats = np.einsum("ij,ij->j", a, b[first : first + len(a)][::-1])
    return total
