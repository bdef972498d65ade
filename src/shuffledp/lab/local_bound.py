"""A computed lower bound on the error of counting with any local protocol."""

import math
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.validate import positive, whole

__all__ = ["local_lower_bound"]

_SHARES = (0.3, 0.5, 0.7, 0.9)  # of the standard deviation; the best is near 0.7
_ERROR = 1e-9  # more than what the windows cut off and what rounding does to a distance


class _Masses(NamedTuple):
    start: int
    mass: Floats


def local_lower_bound(*, epsilon: float, n: int) -> float:
    """No epsilon-local protocol has a smaller worst-case root mean squared error of the count.

    Whatever an epsilon-local protocol learns of a bit can be computed from the randomized response to it.
    So take n people of whom n/2 - m or n/2 + m have a one, in random order. The number K of ones
    that randomized response reports is all one can use, and with TV the distance between its two laws
    one of the two data sets has a mean squared error of at least m^2 (1 - TV) / 2. The best m counts.
    References: Kairouz, Oh, Viswanath 2016, "Extremal mechanisms for local differential privacy" (the
    reduction); Beimel, Nissim, Omri 2008 (the first such bound).

    >>> round(local_lower_bound(epsilon=1.0, n=10_000), 1)
    37.0
    """
    flip = 1 / (math.exp(positive("epsilon", epsilon)) + 1)
    half = whole("n", n, at_least=2) // 2
    deviation = math.sqrt(n * flip * (1 - flip)) / (1 - 2 * flip)
    best = 0.0
    for share in _SHARES:
        m = min(max(1, round(share * deviation)), half)
        tv = _distance(_convolve_reports(half - m, n, flip), _convolve_reports(half + m, n, flip))
        best = max(best, m * math.sqrt(max(0.0, 1 - tv - _ERROR) / 2))
    return best


def _convolve_reports(ones: int, n: int, flip: float) -> _Masses:
    """The law of the number of ones that n people report, of whom `ones` have one."""
    from scipy.signal import fftconvolve

    kept, flipped = _binomial(ones, 1 - flip), _binomial(n - ones, flip)
    mass = np.maximum(fftconvolve(kept.mass, flipped.mass), 0.0)
    return _Masses(kept.start + flipped.start, mass)


def _binomial(n: int, p: float) -> _Masses:
    """The masses within twelve standard deviations."""
    from scipy.stats import binom

    reach = 12 * math.sqrt(n * p * (1 - p)) + 12
    start, stop = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    return _Masses(start, np.asarray(binom.pmf(np.arange(start, stop + 1), n, p)))


def _distance(first: _Masses, second: _Masses) -> float:
    """Total variation distance."""
    start = min(first.start, second.start)
    stop = max(first.start + len(first.mass), second.start + len(second.mass))
    difference = np.zeros(stop - start)
    for (at, mass), sign in ((first, 1.0), (second, -1.0)):
        difference[at - start : at - start + len(mass)] += sign * mass
    return float(np.abs(difference).sum() / 2)
