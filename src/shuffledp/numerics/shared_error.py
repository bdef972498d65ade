"""The error of a sum whose noise is made of shares of discrete Laplace noise.

u people who each draw one of m shares make the difference of two NB(u/m, a) numbers, a = e^-rate: for
u = m discrete Laplace noise, otherwise a law without a name whose characteristic function is

    ( (1 - a)^2 / ((1 - a)^2 + 4 a sin^2(theta / 2)) )^(u/m).

A Fourier transform gives all its masses at once. If the noise decays so slowly that this would be long, a
coarser grid of the same shape is used, and the radius is rounded up by one step of it. Radii for levels
beyond 1 - 10^-9 are Chernoff's.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.estimate import Interval, Value
from shuffledp.core.validate import level as valid_level
from shuffledp.numerics.errorlaw import DiscreteLaplace

__all__ = ["SharedNoiseError", "radius"]

_COARSEST = 2.0**-10
_FINEST_TAIL = 1e-9
_FFT_ERROR = 1e-12


def radius(rate: Fraction, shape: Fraction, beta: Fraction) -> int:
    """About the smallest t >= 0 with Pr[|X - Y| > t] <= beta, and not less.

    >>> radius(Fraction(1), Fraction(1), Fraction(5, 100))
    3
    >>> radius(Fraction(1, 1000), Fraction(10, 9), Fraction(5, 100))
    3143
    """
    if shape == 1:
        return DiscreteLaplace(rate=rate).radius(beta)
    if beta < _FINEST_TAIL:
        return _chernoff(float(rate), float(shape), math.log(beta))
    coarse = max(float(rate), _COARSEST)
    found = int(np.argmax(_tails(coarse, float(shape)) + _FFT_ERROR <= float(beta)))
    if coarse == float(rate):
        return found
    return math.ceil((found + 1) * coarse / float(rate))


@lru_cache(maxsize=32)
def _tails(rate: float, shape: float) -> Floats:
    """Pr[|X - Y| > t] for t = 0, 1, ..., up to where it vanishes."""
    reach = _chernoff(rate, shape, math.log(1e-16))
    size = 1 << (2 * reach + 2).bit_length()
    sine = np.sin(np.pi / size * np.arange(size // 2 + 1))
    gap = math.expm1(-rate) ** 2
    masses = np.fft.irfft((gap / (gap + 4 * math.exp(-rate) * sine**2)) ** shape, size)
    # From the far end, so that the small ones are added first.
    above = np.cumsum(masses[reach:0:-1])[::-1]
    return np.append(2 * above, 0.0)


def _chernoff(rate: float, shape: float, log_beta: float) -> int:
    """t with 2 E[e^(s (X - Y))] e^(-s t) <= beta, for the best s of a few."""
    s = rate * np.append(np.arange(1, 100) / 100, 1 - 2.0 ** -np.arange(7, 20))
    moment = -shape * (
        np.log(-np.expm1(s - rate)) + np.log(-np.expm1(-s - rate)) - 2 * np.log(-np.expm1(-rate))
    )
    return max(0, math.ceil(float(((math.log(2) - log_beta + moment) / s).min()) * (1 + 1e-9)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedNoiseError:
    """The error of an answer on a grid of width `step` with the noise of `shape` times all shares.

    >>> error = SharedNoiseError(rate=Fraction(1), shape=Fraction(1), step=0.5)
    >>> [round(end, 6) for end in error.interval(10.0, 0.95)]
    [8.5, 11.5]
    """

    rate: Fraction
    shape: Fraction
    step: float

    @property
    def stderr(self) -> float:
        """Standard deviation of the noise."""
        return self.step * math.sqrt(self.shape * DiscreteLaplace(rate=self.rate).variance)

    def interval(self, value: Value, level: float) -> Interval:
        beta = 1 - Fraction(valid_level(level))
        # 10^-9 for the rounding of the ends.
        far = self.step * (radius(self.rate, self.shape, beta) + 1e-9)
        return Interval(value - far, value + far)

    def exact_interval(self, value: Value, level: float) -> Interval:
        if self.shape != 1 and self.rate < _COARSEST:
            raise UnsupportedError("no exact interval is known for this estimate: use interval()")
        return self.interval(value, level)
