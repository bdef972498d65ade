"""Intervals for counts with whole-number noise: as close to their level as whole numbers allow.

If the noise has a standard deviation of 9, each of its values near the 2.5 % points has a probability of
0.6 %. The normal interval takes or leaves these by chance, and covers 94.4 % or 95.6 %. Here both ends
are chosen together, with continuity and skewness corrections (Edgeworth and Cornish-Fisher, first order).
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.estimate import ErrorLaw, Interval, Value
from shuffledp.core.validate import level as valid_level

__all__ = ["LatticeError"]

_STEEP = 0.05  # a slope so far from 1 moves the noise by whole numbers within an interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatticeError:
    """The error of counts c_j seen as observed_j = c_j + noise_j, whole numbers.

    The noise has the mean `base` - (1 - slope) c_j, and these standard deviations and skewnesses. If
    the slope is far from 1, the interval is that of `rough`.

    >>> from shuffledp.core.estimate import NormalError
    >>> ten = np.full(1, 10.0)
    >>> error = LatticeError(
    ...     rough=NormalError(stderr=ten), observed=np.array([130]), base=100.0, slope=1.0,
    ...     sd=ten, skewness=ten / 100,
    ... )
    >>> error.interval(np.full(1, 30.0), 0.95)
    Interval(low=array([11.]), high=array([49.]))
    """

    rough: ErrorLaw
    observed: Counts
    base: float
    slope: float
    sd: Floats
    skewness: Floats

    @property
    def stderr(self) -> Value:
        return self.rough.stderr

    def exact_interval(self, value: Value, level: float) -> Interval:
        return self.rough.exact_interval(value, level)

    def interval(self, value: Value, level: float) -> Interval:
        rough = self.rough.interval(value, valid_level(level))
        if abs(1 - self.slope) > _STEEP:
            return rough
        # Each end asks whether the truth could be there, so it counts with the noise of that truth.
        most = self._range(np.asarray(rough.low), 1 - level)[1]
        least = self._range(np.asarray(rough.high), 1 - level)[0]
        return Interval(self.observed - most, self.observed - least)

    def _range(self, truth: Floats, outside: float) -> tuple[Floats, Floats]:
        """Whole numbers (least, most) between which the noise lies but for about `outside`."""
        mean = self.base - (1 - self.slope) * truth
        least = np.floor(mean + self._point(np.full(mean.shape, outside / 2), -1) + 1)
        # What the lower end leaves for the upper one; a rounding too far is not made up for.
        above = np.clip(outside - self._below(least - mean), outside / 4, outside)
        return least, np.floor(mean + self._point(above, 1))

    def _point(self, tail: Floats, side: int) -> Floats:
        """Where centred noise has this much probability beyond, on the lower or upper side (-1, 1)."""
        from scipy.special import ndtri

        z = -ndtri(tail)
        correction = np.clip(self.skewness * (z * z - 1) / 6, -z / 2, z / 2)
        point: Floats = self.sd * (side * z + correction)
        return point

    def _below(self, least: Floats) -> Floats:
        """The probability that centred noise is below."""
        from scipy.special import ndtr

        x = (least - 0.5) / self.sd
        density = np.exp(-x * x / 2) * NormalDist().pdf(0.0)
        below: Floats = ndtr(x) - self.skewness / 6 * (x * x - 1) * density
        return below
