"""Statistics that are large when values are not uniform, for many simulated runs at once.

The last axis is over the cells (or the categories), all axes before it are runs.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Counts, Floats

__all__ = ["collisions", "total_deviation"]


def collisions(
    counts: ArrayLike,
    expected: ArrayLike,
    *,
    n: int,
    noise_mean: float = 0.0,
    noise_variance: float = 0.0,
) -> Floats:
    r"""An unbiased estimate of n (n - 1) times the squared distance of two vectors of probabilities.

    Each of n independent users adds 1 to cell j with probability Q_j (to any number of cells, or to
    none), noise of known mean and variance is added to every cell, and `expected` is r. With c_j the
    count of cell j less the mean of its noise,

        Z = sum_j (c_j - n r_j)^2 - c_j (1 - 2 r_j) - n r_j^2 - noise_variance,
        E[Z] = n (n - 1) sum_j (Q_j - r_j)^2,

    as each pair of two users adds (1[first in j] - r_j) (1[second in j] - r_j), and what the squares
    add besides, the users paired with themselves and the noise, is subtracted. Without noise, and one
    cell for each user, it is the number of pairs that collide, less what r lets expect.

    >>> collisions([3, 1], [0.5, 0.5], n=4)
    array(0.)
    >>> collisions([[4, 0], [2, 2]], [0.5, 0.5], n=4)
    array([ 6., -2.])
    """
    r = np.asarray(expected, dtype=np.float64)
    own: Floats = np.asarray(counts) - np.float64(noise_mean)
    # In one order of memory: equal counts get equal statistics, bit by bit, in one run and in many.
    terms = np.ascontiguousarray(np.square(own - n * r) - own * (1 - 2 * r))
    constant = n * np.square(r).sum() + r.size * noise_variance
    return np.asarray(terms.sum(axis=-1) - constant)


def total_deviation(counts: Counts, *, n: int) -> Counts:
    """sum_j |k N_j - n|: 2 k n times the total variation distance of the counts from uniform.

    Replacing one user changes it by at most 2 min(n, k). By 2 k: two of the N_j change by one. By 2 n if
    n <= k: then it is 2 n times the number of empty cells, which changes by at most one.

    >>> total_deviation(np.array([[3, 1, 0], [2, 1, 1]]), n=4)
    array([10,  4])
    """
    k = counts.shape[-1]
    deviation: Counts = np.abs(k * counts - n).sum(axis=-1)
    return deviation
