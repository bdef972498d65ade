"""How far the people who were asked may be from all: a sample that was drawn without replacement.

A mean of m of n people is off by at most range sqrt((1 - (m - 1) / n) log(2 / alpha) / (2 m)), except with probability
alpha (Serfling 1974), and a share p by z sqrt(p (1 - p) (1 - m / n) / m) about, wider by z^2 / (3 m) for its skewness.
"""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats

__all__ = ["bound_sampling", "sampling_variance"]

Ends = tuple[float, float] | None
"""Of the values of a mean; None: it is a share."""


def sampling_variance(value: ArrayLike, sampled: int, people: int, ends: Ends = None) -> Floats:
    """How far the share or mean of a sample varies: at most, if it is a mean.

    >>> round(float(sampling_variance(0.5, 100, 1000)), 6)
    0.00225
    """
    left = max(0.0, 1 - sampled / people) / sampled
    share = np.clip(np.asarray(value, dtype=np.float64), 0.0, 1.0)
    spread = share * (1 - share) if ends is None else np.full_like(share, _reach(ends) ** 2 / 4)
    found: Floats = spread * left
    return found


def bound_sampling(
    low: ArrayLike, high: ArrayLike, sampled: int, people: int, outside: float, ends: Ends = None
) -> Floats:
    """The radius about the share or mean of a sample, which lies in low .. high, that the truth is `outside` of so rarely.

    >>> round(float(bound_sampling(0.4, 0.6, 100, 1000, 0.05)), 3)
    0.106
    """
    if ends is not None:
        kept = max(1 - (sampled - 1) / people, 0.0)
        radius = _reach(ends) * math.sqrt(kept * math.log(2 / outside) / (2 * sampled))
        return np.full_like(np.asarray(low, dtype=np.float64), radius)
    z = -NormalDist().inv_cdf(outside / 2)
    widest = np.minimum(np.maximum(0.5, low), high)  # with the largest variance in the interval
    found: Floats = z * np.sqrt(sampling_variance(widest, sampled, people)) + z * z / 3 / sampled
    return found


def _reach(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]
