"""Quantiles and spreads of groups, from noisy counts of their values: table[groups, cells].

How many people are in a group is noisy, too. The share p of a group lies at or below cell c if

    D_c = (1 - p) (people up to c) - p (people above c) >= 0,

which is one weighted sum of bins: cell c is excluded if D_c is surely negative, or D_(c-1) surely positive. A spread
follows from the number of people and the first two moments around a centre. The centre is the value next to the noisy
mean; so that its choice costs nothing, the moments around every value hold together.
"""

import math
from collections.abc import Callable

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.cells import Cells
from shuffledp.core.domain import Integers
from shuffledp.core.estimate import Interval
from shuffledp.numerics.leaves import Leaves
from shuffledp.numerics.tree_noise import IndependentLevels

__all__ = ["Ends", "bound_quantiles", "bound_spreads", "find_quantiles", "find_variances"]

Ends = Callable[[Floats, float], tuple[Floats, Floats]]
"""Intervals of each group's sum of bins with these weights, with this error probability on either side."""


def _read(row: Floats, domain: Integers | Cells) -> Leaves:
    total = max(float(row.sum()), 1.0)
    noise = IndependentLevels(levels=())
    return Leaves(domain=domain, shape=(domain.size,), values=row, n=total, noise=noise)  # type: ignore[arg-type]


def find_quantiles(table: Floats, domain: Integers | Cells, shares: tuple[float, ...]) -> Floats:
    """Return the quantiles of each group, group by group.

    >>> ages = Integers(lower=3, upper=5)
    >>> find_quantiles(np.array([[9.0, 1.0, 0.0], [0.0, 1.0, 9.0]]), ages, (0.5,))
    array([3., 5.])
    """
    return np.array([_read(row, domain).quantile(p)[0] for row in table for p in shares])


def bound_quantiles(
    ends: Ends, table: Floats, domain: Integers | Cells, shares: tuple[float, ...], tail: float
) -> Interval:
    """Return intervals of the quantiles: whole cells, with error probability `tail` on either side.

    >>> exact = lambda weights: np.array([[9.0, 1.0, 0.0], [0.0, 1.0, 9.0]]) @ weights
    >>> within = lambda weights, tail: (exact(weights) - 0.5, exact(weights) + 0.5)
    >>> low, high = bound_quantiles(within, np.eye(2, 3), Integers(lower=3, upper=5), (0.5,), 0.01)
    >>> low.tolist(), high.tolist()
    ([3.0, 4.0], [3.0, 5.0])
    """
    groups, size = table.shape
    low, high = (np.zeros((groups, len(shares)), dtype=np.int64) for _ in range(2))
    for place, p in enumerate(shares):
        steps = [np.where(np.arange(size) <= c, 1 - p, -p) for c in range(size)]
        found = [ends(weights, tail) for weights in steps]
        least, most = (np.array(side).T for side in zip(*found, strict=True))  # [groups, cells]
        # Up to the last cell is everybody.
        low[:, place] = np.argmax(np.column_stack([most[:, :-1] >= 0, np.ones(groups)]), axis=1)
        below = np.column_stack([np.ones(groups), least[:, :-1] <= 0])
        high[:, place] = size - 1 - np.argmax(below[:, ::-1], axis=1)
    cells = np.array([[_read(row, domain).quantile(p)[1] for p in shares] for row in table])
    low, high = np.minimum(low, cells).ravel(), np.maximum(high, cells).ravel()
    edges = _read(table[0], domain).edges
    return Interval(edges[low], edges[high + isinstance(domain, Cells)])


def find_variances(table: Floats, numbers: Floats) -> Floats:
    """Return the variance of each group, at least 0.

    >>> find_variances(np.array([[5.0, 0.0, 5.0]]), np.array([1.0, 2.0, 3.0]))
    array([1.])
    """
    people = np.maximum(table.sum(axis=1), 1.0)
    means = np.clip(table @ numbers / people, numbers[0], numbers[-1])
    squares = (table * (numbers - means[:, None]) ** 2).sum(axis=1)
    found: Floats = np.clip(squares / people, 0.0, ((numbers[-1] - numbers[0]) / 2) ** 2)
    return found


def bound_spreads(
    ends: Ends, table: Floats, numbers: Floats, blur: float, outside: float
) -> Interval:
    """Return intervals of standard deviations, missed with probability `outside`, of values within `blur` of these."""
    groups, size = table.shape
    widest = (numbers[-1] - numbers[0]) / 2 + blur
    least, most = ends(np.ones(size), outside / 6)
    people = np.maximum(table.sum(axis=1), 1.0)
    means = np.clip(table @ numbers / people, numbers[0], numbers[-1])
    nearest = np.abs(numbers - means[:, None]).argmin(axis=1)
    low, high = np.zeros(groups), np.full(groups, widest)
    for group, centre in enumerate(nearest.tolist()):
        if least[group] <= 0:
            continue
        away, tail = numbers - numbers[centre], outside / 6 / size
        first, second = (
            tuple(float(side[group]) for side in ends(weights, tail)) for weights in (away, away**2)
        )
        farthest = max(abs(first[0]), abs(first[1])) / least[group]
        below = max(second[0], 0.0) / most[group] - farthest**2
        above = max(second[1], 0.0) / least[group]
        low[group] = max(math.sqrt(max(below, 0.0)) - blur, 0.0)
        high[group] = min(math.sqrt(above) + blur, widest)
    return Interval(low, high)
