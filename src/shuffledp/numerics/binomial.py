"""Binomial tails with a certified side, and the law of a sum of two binomials."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.estimate import Interval, NormalError, Value
from shuffledp.core.validate import level as valid_level

__all__ = ["TwoBinomialsError", "two_binomials_tails"]

_RELATIVE_SLACK = 1e-9  # SciPy's tails were within 3e-11 of 50-digit values up to n = 10^9


def two_binomials_tails(x: int, c: int, n: int, p: float, q: float) -> tuple[float, float]:
    """(Pr[N <= x], Pr[N >= x]) for N = Bin(c, p) + Bin(n - c, q), each rounded up a little.

    >>> low, high = two_binomials_tails(1, 1, 2, 0.5, 0.5)
    >>> round(low, 8), round(high, 8)
    (0.75, 0.75)
    """
    from scipy.special import bdtr, gammaln, xlog1py, xlogy

    sd = (c * p * (1 - p)) ** 0.5
    first = max(0, int(c * p - 12 * sd) - 40)
    last = min(c, int(c * p + 12 * sd) + 40)
    a = np.arange(first, last + 1, dtype=np.float64)
    log_pmf = (
        gammaln(c + 1) - gammaln(a + 1) - gammaln(c - a + 1) + xlogy(a, p) + xlog1py(c - a, -p)
    )
    pmf = np.exp(log_pmf)
    pmf /= pmf.sum()
    below = _cdf(bdtr, x - a, n - c, q)
    at_most = float(pmf @ below)
    at_least = float(pmf @ _cdf(bdtr, (n - c) - (x - a), n - c, 1 - q))
    slack = 1 + _RELATIVE_SLACK
    return min(1.0, at_most * slack), min(1.0, at_least * slack)


def _cdf(bdtr: np.ufunc, k: Floats, n: int, p: float) -> Floats:
    inside = np.clip(k, 0, n)
    values: Floats = bdtr(inside, n, p) if n else np.ones_like(k)
    return np.where(k < 0, 0.0, np.where(k >= n, 1.0, values))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoBinomialsError:
    """The error of a count c estimated from N = Bin(c, p) + Bin(n - c, q): exact at any n.

    `interval` is the normal one, `exact_interval` inverts the law: it holds every c for which the
    observed N is not in a tail of probability (1 - level) / 2. For one count, `observed` and `value`
    are numbers; for a histogram, arrays.

    >>> error = TwoBinomialsError(observed=60, n=100, p=0.75, q=0.25, value=70.0)
    >>> error.exact_interval(70.0, 0.95)
    Interval(low=53.0, high=88.0)
    """

    observed: Counts | int
    n: int
    p: float
    q: float
    value: Value
    stderr: Value = field(init=False)

    def __post_init__(self) -> None:
        count = np.clip(self.value, 0, self.n)
        own, other = self.p * (1 - self.p), self.q * (1 - self.q)
        variance = (count * own + (self.n - count) * other) / (self.p - self.q) ** 2
        object.__setattr__(self, "stderr", np.sqrt(variance))

    def interval(self, value: Value, level: float) -> Interval:
        return NormalError(stderr=self.stderr).interval(value, level)

    def exact_interval(self, value: Value, level: float) -> Interval:
        tail = (1 - valid_level(level)) / 2
        if np.ndim(self.observed) == 0:
            return Interval(*map(float, self._ends(int(self.observed), tail)))
        ends = [self._ends(x, tail) for x in np.asarray(self.observed).tolist()]
        return Interval(
            np.array([float(low) for low, _ in ends]), np.array([float(high) for _, high in ends])
        )

    def _ends(self, x: int, tail: float) -> tuple[int, int]:
        # N grows with c: the low end is the smallest c that makes N >= x likely enough, the high
        # end the largest that makes N <= x likely enough.
        low = _first_true(self.n, lambda c: self._tails(x, c)[1] > tail)
        high = self.n - _first_true(self.n, lambda c: self._tails(x, self.n - c)[0] > tail)
        return min(low, self.n), max(high, 0)

    def _tails(self, x: int, c: int) -> tuple[float, float]:
        return two_binomials_tails(x, c, self.n, self.p, self.q)


def _first_true(n: int, holds: Callable[[int], bool]) -> int:
    """The smallest c in 0 .. n with holds(c), which is monotone; n + 1 if there is none."""
    low, high = 0, n + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
