"""The data set that is worst for a protocol, and its exact error there.

For an unbiased analyzer the variance is linear (or convex) in the numbers of people with each value, so it is largest
where everybody has the same value; which one is found by a search over values. An analyzer with a `bias` is worst
somewhere else: where a few people are counted as nobody. There the search is over how many people share a value, the
rest having another.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Counts, Floats, distinct
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol

__all__ = [
    "Worst",
    "mean_squared_error",
    "worst_bin",
    "worst_bit",
    "worst_case",
    "worst_shape",
]

_ALL = 64  # values up to which every one is tried
_FEW = 1 << 16
_SPREAD = 8
_FLAT = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Worst:
    """A data set, and the mean squared error on it (for a histogram: its mean over the bins)."""

    inputs: Counts
    mse: float


def mean_squared_error(protocol: ShuffleProtocol, inputs: Counts) -> float:
    """Variance plus squared bias; for a histogram the mean over the bins.

    >>> from shuffledp import protocols
    >>> bit = protocols.rr.make_local(epsilon=1.0)
    >>> round(mean_squared_error(bit, np.array([0, 1000])), 2)
    920.67
    """
    each = np.asarray(protocol.analyzer.variance(inputs), dtype=np.float64)
    bias = protocol.offers.bias
    if bias is not None:
        each = each + np.square(bias(inputs))
    return float(np.mean(each))


def worst_case(protocol: ShuffleProtocol, *, n: int, size: int, bins: bool) -> Worst:
    """Return the largest mean squared error over the data sets that are searched; `bins`: of a histogram.

    >>> from shuffledp import protocols
    >>> bit = protocols.zsum.make(n=10_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> found = worst_case(bit, n=10_000, size=2, bins=False)
    >>> found.inputs, round(found.mse ** 0.5, 1)
    (array([9970,   30]), 26.8)
    """

    def error(inputs: Counts) -> float:
        return mean_squared_error(protocol, inputs)

    bin_errors = protocol.offers.bin_errors
    if bin_errors is not None:
        return worst_shape(lambda counts: bin_errors(counts, n), n=n, size=size)
    if protocol.offers.bias is not None:
        return worst_bit(error, n=n)
    inputs = np.zeros(size, dtype=np.int64)

    def at(x: int) -> float:
        inputs[x] = n
        found = error(inputs)
        inputs[x] = 0
        return found

    best, mse = _worst_value(at, size - 1) if bins else _worst_number(at, size)
    inputs[best] = n
    return Worst(inputs=inputs, mse=mse)


def _worst_value(at: Callable[[int], float], last: int) -> tuple[int, float]:
    """Bins differ at most in how a code shares them out."""
    values = {x: at(x) for x in (0, last // 2, last)}
    return (0, values[0]) if _flat(values) else _peak(at, values, _some(last + 1), last)


def _worst_number(at: Callable[[int], float], size: int) -> tuple[int, float]:
    """Rounding to levels is at its mildest at the ends and in the middle, and seen next to an end."""
    last = size - 1
    values = {x: at(x) for x in (0, min(1, last), last // 3, last // 2, last)}
    return (0, values[0]) if _flat(values) else _peak(at, values, _ladder(size), last)


def worst_shape(errors: Callable[[Counts], Floats], *, n: int, size: int) -> Worst:
    """Return the largest error over data sets where some values have s people each, and one has the rest.

    `errors` are the mean squared errors of bins with these counts: those of equal bins are computed once.

    >>> def lost(counts):  # up to 30 people in a bin are taken for nobody
    ...     return np.where(counts <= 30, counts, 0) ** 2.0
    >>> worst_shape(lost, n=1000, size=4).inputs
    array([910,  30,  30,  30])
    """

    def bins(s: int) -> int:
        return min(size - 1, n // s) if s else 0

    def mse(s: int) -> float:
        some = bins(s)
        rest, each, none = errors(np.array([n - some * s, s, 0], dtype=np.int64)).tolist()
        return float((rest + some * each + (size - 1 - some) * none) / size)

    best, worst = _peak(mse, {}, _from_below(n), n)
    inputs = np.zeros(size, dtype=np.int64)
    inputs[size - bins(best) :] = best
    inputs[0] = n - bins(best) * best
    return Worst(inputs=inputs, mse=worst)


def worst_bit(error: Callable[[Counts], float], *, n: int) -> Worst:
    """Return the largest error over data sets with s yeses among n people.

    >>> bool(worst_bit(lambda inputs: float(min(inputs[1], 30)), n=100).inputs[1] >= 30)
    True
    """

    def shape(s: int) -> Counts:
        return np.array([n - s, s], dtype=np.int64)

    best, worst = _peak(lambda s: error(shape(s)), {}, _from_below(n), n)
    return Worst(inputs=shape(best), mse=worst)


def _some(size: int) -> list[int]:
    if size <= _ALL:
        return list(range(size))
    parts = _SPREAD if size <= _FEW else 1  # a data set of very many values is a long array
    return [(size - 1) * part // parts for part in range(parts + 1)]


def _ladder(size: int) -> list[int]:
    """Dense towards both ends, where rounding to few levels is worst."""
    last = size - 1
    near = _from_below(last // 2)
    return sorted({*_some(size), *near, *(last - x for x in near)})


def _from_below(last: int) -> list[int]:
    """0, and about two values in each octave up to `last`."""
    octaves = range(2 * max(last, 1).bit_length() + 1)
    return sorted({0, *(min(last, round(2 ** (half / 2))) for half in octaves)})


def _peak(
    at: Callable[[int], float], values: dict[int, float], start: list[int], last: int
) -> tuple[int, float]:
    """Return the best of the values to start from, then uphill in ever smaller steps; and how high it is."""
    values |= {x: at(x) for x in start if x not in values}
    best = max(values, key=lambda x: values[x])
    if len(values) > last:
        return best, values[best]
    tried = sorted(values)
    place = tried.index(best)
    around = tried[max(place - 1, 0) : place + 2]
    step = max(1, (around[-1] - around[0]) // 2)
    while step >= 1:
        for x in (best - step, best + step):
            if 0 <= x <= last and x not in values:
                values[x] = at(x)
        best = max(values, key=lambda x: values[x])
        step //= 2
    return best, values[best]


def _flat(values: dict[int, float]) -> bool:
    most = max(values.values())
    return most - min(values.values()) <= _FLAT * most


def worst_bin(protocol: ShuffleProtocol, inputs: Counts, level: float) -> float:
    """With probability about `level` all bins are within this distance of the truth (union bound).

    About, since the widths of the intervals are those where the noise is at its mean; they hardly depend on it.

    >>> from shuffledp import protocols
    >>> p = protocols.correlated_histogram.make(n=100_000, k=16, epsilon=1.0, delta=1e-6)
    >>> worst_bin(p, np.full(16, 100_000 // 16), 0.95)
    13.0
    """
    estimate = _foresee(protocol, inputs)
    low, high = estimate.interval(1 - (1 - level) / len(inputs))
    value = np.asarray(estimate.value)
    return float(np.max(np.maximum(value - low, high - value)))


def _foresee(protocol: ShuffleProtocol, inputs: Counts) -> Estimate:
    """Return the estimate that the protocol foresees, or that of the tally whose estimate is the truth."""
    if protocol.offers.foresee is not None:
        return protocol.offers.foresee(inputs)
    analyzer = protocol.analyzer
    n, kinds = int(inputs.sum()), distinct(inputs)  # equal bins have equal intervals
    zero, one = (
        np.asarray(analyzer.estimate(Tally(counts=np.full(len(kinds), c), users=n)).value)
        for c in (0, n)
    )
    counts = np.rint((kinds - zero) / (one - zero) * n).astype(np.int64)
    return analyzer.estimate(Tally(counts=counts, users=n))
