"""The laws at total variation distance alpha from uniform that are hardest to see.

m of the k categories are made less likely by alpha / m each, the others more likely by alpha / (k - m)
each. Among all laws at that distance these have the least squared distance, alpha^2 (1/m + 1/(k - m)): at
best 4 alpha^2 / k, for m = k / 2 (Paninski 2008, "A coincidence-based test for uniformity given very
sparsely sampled discrete data"). A probability cannot fall below 0, so m >= alpha k.
"""

import math
from fractions import Fraction

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import ParameterError

__all__ = ["lowered", "nearest_rows"]


def lowered(k: int, alpha: float) -> int:
    """m, the number of categories that are made less likely.

    >>> lowered(10, 0.1), lowered(10, 0.75)
    (5, 8)
    """
    m = max(k // 2, math.ceil(Fraction(repr(float(alpha))) * k))
    if not alpha > 0 or m > k - 1:
        raise ParameterError("alpha", alpha, f"must be > 0 and <= 1 - 1/k, k={k}")
    return m


def nearest_rows(sizes: Counts, alpha: float, runs: int, generator: np.random.Generator) -> Floats:
    """p[runs, parts] of random parts of these sizes, for a random set of lowered categories.

    A fixed set and random parts, or random both: the law is the same.

    >>> nearest_rows(np.array([1, 1]), 0.25, 3, np.random.default_rng(1)).sum(axis=1)
    array([1., 1., 1.])
    """
    k = int(sizes.sum())
    m = lowered(k, alpha)
    down, up = 1 / k - alpha / m, 1 / k + alpha / (k - m)
    if len(sizes) == k:
        row = np.where(np.arange(k) < m, down, up)
        return generator.permuted(np.broadcast_to(row, (runs, k)).copy(), axis=1)
    low = generator.multivariate_hypergeometric(sizes, m, size=runs, method="marginals")
    rows: Floats = low * down + (sizes - low) * up
    return np.maximum(rows, 0.0)  # rounding may leave a part that is all down below 0
