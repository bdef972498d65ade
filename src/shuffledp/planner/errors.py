"""How wrong a protocol is: its exact error on the data set that is worst for it.

For an unbiased analyzer the variance is linear (or convex) in the numbers of people with each value,
so it is largest where everybody has the same value; which one is found by a search over values.
An analyzer with a `bias` is worst somewhere else: where a few people are counted as nobody. There the
search is over how many people share a value, the rest having another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from shuffledp.core.analyzer import Analyzer, Tally
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.estimate import Estimate, Value
from shuffledp.core.mechanism import AdditiveMechanism, Mechanism
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.planner.question import Asked, Candidate
from shuffledp.tasks import task_named

__all__ = [
    "Biased",
    "BinByBin",
    "CountDependent",
    "Foreseeing",
    "Measured",
    "Predicting",
    "Publishing",
    "Worst",
    "check_sight",
    "mean_squared_error",
    "measure",
    "measure_sight",
    "measure_worst_bin",
    "worst_bin",
    "worst_bit",
    "worst_case",
    "worst_shape",
]

LEVEL = 0.95
"""With about this probability no bin is off by more than `worst_bin`."""
LONGEST_MESSAGE = 4096
"""Bits of one message; protocols above this are skipped."""
MOST_MESSAGES = 1_000_000.0
"""Messages of one person; protocols above this are skipped."""
_ALL = 64  # values up to which every one is tried
_FEW = 1 << 16
_SPREAD = 8
_FLAT = 1e-12


@runtime_checkable
class CountDependent(Protocol):
    """A mechanism whose error in a bin depends on the bin's count."""

    def squared_error(self, counts: Counts) -> Floats:
        """Exact mean squared error of bins with these true counts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """What was made, and how wrong it is at worst (on the scale of the total)."""

    made: ShuffleProtocol | Mechanism
    rmse: float
    inputs: Counts | None
    """The worst data set; None if the error is the same for all."""


class Sight(Protocol):
    """How likely a word is found."""

    def find_count(self, probability: float = ...) -> int:
        """The smallest count that is found with this probability."""


@runtime_checkable
class Predicting(Protocol):
    """An analyzer that finds words, and knows before from how many people on."""

    def predict(self, n: int) -> Sight:
        """What is seen among n people."""


@runtime_checkable
class Publishing(Protocol):
    """A mechanism that finds words: those with many people are published."""

    def find_count(self, probability: float) -> int:
        """The smallest count that is published with this probability."""


# A protocol can hold tables of some megabytes, so not too many are kept.
@lru_cache(maxsize=256)
def measure(
    candidate: Candidate,
    asked: Asked,
    gap: float | None = None,
    max_messages: float | None = None,
) -> Measured:
    """Make the candidate and compute its error; `gap` and `max_messages` where the maker takes them.

    >>> from shuffledp.planner.question import candidates
    >>> asked = Asked.of("count", n=50, epsilon=1.0, delta=1e-3, honest=1.0)
    >>> round(measure(next(candidates(asked.task)), asked).rmse, 3)
    1.357
    """
    made = candidate.make(asked, gap=gap, max_messages=max_messages)
    if isinstance(made, ShuffleProtocol):
        return _measure_protocol(made, asked)
    if not isinstance(made, Mechanism):
        raise UnsupportedError(f"{candidate.name} selects, it does not answer with numbers")
    return _measure_mechanism(made, candidate, asked)


def _measure_protocol(made: ShuffleProtocol, asked: Asked) -> Measured:
    bits = made.cost.bits_per_message
    if bits > LONGEST_MESSAGE:  # nobody sends it, and its exact law takes minutes to evaluate
        raise UnsupportedError(
            f"a message has {bits:,} bits; errors are evaluated up to {LONGEST_MESSAGE:,}"
        )
    sent = made.cost.messages_mean
    if sent > MOST_MESSAGES:
        raise UnsupportedError(
            f"everybody would send {sent:,.0f} messages, more than {MOST_MESSAGES:,.0f}"
        )
    check_sight(made, asked.n)
    answered = task_named(made.task)
    size = made.randomizer.domain.size if answered.listed else 2
    worst = worst_case(made.analyzer, n=asked.n, size=size, bins=answered.bins)
    rmse = math.hypot(answered.scale(asked.n) * math.sqrt(worst.mse), asked.rounding)
    return Measured(made=made, rmse=rmse, inputs=worst.inputs)


def check_sight(made: ShuffleProtocol, n: int) -> None:
    """Refuse a protocol that looks for words where it could find none, not even one that everybody has."""
    if not isinstance(made.analyzer, Predicting) or made.analyzer.predict(n).find_count(LEVEL) <= n:
        return
    enough = 2 * n
    while made.analyzer.predict(enough).find_count(LEVEL) > enough:
        enough *= 2
    low = enough // 2
    while enough - low > max(1, low // 100):
        middle = (low + enough) // 2
        blind = made.analyzer.predict(middle).find_count(LEVEL) > middle
        low, enough = (middle, enough) if blind else (low, middle)
    raise UnsupportedError(
        f"n={n} people are too few for any word to be seen: at least {enough:,} are needed"
    )


def measure_sight(made: ShuffleProtocol | Mechanism, n: int) -> int | None:
    """The smallest count that is found among n people with probability 95 %; None if nothing is looked for.

    >>> from shuffledp import mechanisms
    >>> measure_sight(mechanisms.stability_histogram.make(n=1000, epsilon=1.0, delta=1e-6), 1000)
    33
    """
    if isinstance(made, Publishing):
        return made.find_count(LEVEL)
    if isinstance(made, ShuffleProtocol) and isinstance(made.analyzer, Predicting):
        return made.analyzer.predict(n).find_count(LEVEL)
    return None


def _measure_mechanism(made: Mechanism, candidate: Candidate, asked: Asked) -> Measured:
    if isinstance(made, CountDependent) and asked.task.listed:
        worst = worst_shape(made.squared_error, n=asked.n, size=asked.domain.size)
        return Measured(made=made, rmse=math.sqrt(worst.mse), inputs=worst.inputs)
    mse = made.variance()
    if isinstance(made, AdditiveMechanism) and Fraction(made.unit).denominator > 1:
        mse += (made.unit / 2) ** 2  # the answer is rounded to its grid
    rmse = task_named(candidate.answers).scale(asked.n) * math.sqrt(mse)
    return Measured(made=made, rmse=rmse, inputs=None)


@lru_cache(maxsize=256)
def measure_worst_bin(measured: Measured) -> float:
    """How wrong the worst of many bins is, on the data set of the error."""
    if not isinstance(measured.made, ShuffleProtocol):
        return measured.made.accuracy(1 - LEVEL)
    assert measured.inputs is not None
    return worst_bin(measured.made, measured.inputs, LEVEL)


@runtime_checkable
class BinByBin(Protocol):
    """An analyzer whose error in a bin depends on the bin's count and n alone."""

    def squared_errors(self, counts: Counts, n: int) -> Floats:
        """Exact mean squared error of bins with these true counts, among n people."""


@runtime_checkable
class Biased(Protocol):
    """An analyzer whose answer is not right on average, and says by how much."""

    def bias(self, inputs: Counts) -> Value:
        """Exact mean error for a data set with inputs[x] users of code x."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Worst:
    """A data set, and the mean squared error on it (for a histogram: its mean over the bins)."""

    inputs: Counts
    mse: float


def mean_squared_error(analyzer: Analyzer, inputs: Counts) -> float:
    """Variance plus squared bias; for a histogram the mean over the bins.

    >>> from shuffledp import protocols
    >>> bit = protocols.rr.make_local(epsilon=1.0)
    >>> round(mean_squared_error(bit.analyzer, np.array([0, 1000])), 2)
    920.67
    """
    each = np.asarray(analyzer.variance(inputs), dtype=np.float64)
    if isinstance(analyzer, Biased):
        each = each + np.square(analyzer.bias(inputs))
    return float(np.mean(each))


def worst_case(analyzer: Analyzer, *, n: int, size: int, bins: bool) -> Worst:
    """The largest mean squared error over the data sets that are searched; `bins`: of a histogram.

    >>> from shuffledp import protocols
    >>> bit = protocols.zsum.make(n=10_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> found = worst_case(bit.analyzer, n=10_000, size=2, bins=False)
    >>> found.inputs, round(found.mse ** 0.5, 1)
    (array([9970,   30]), 26.8)
    """

    def error(inputs: Counts) -> float:
        return mean_squared_error(analyzer, inputs)

    if isinstance(analyzer, BinByBin):
        return worst_shape(lambda counts: analyzer.squared_errors(counts, n), n=n, size=size)
    if isinstance(analyzer, Biased):
        return worst_bit(error, n=n)
    inputs = np.zeros(size, dtype=np.int64)

    def at(x: int) -> float:
        inputs[x] = n
        found = error(inputs)
        inputs[x] = 0
        return found

    best = _worst_value(at, size - 1) if bins else _worst_number(at, size)
    worst = at(best)
    inputs[best] = n
    return Worst(inputs=inputs, mse=worst)


def _worst_value(at: Callable[[int], float], last: int) -> int:
    """Bins differ at most in how a code shares them out."""
    values = {x: at(x) for x in (0, last // 2, last)}
    return 0 if _flat(values) else _peak(at, values, _some(last + 1), last)


def _worst_number(at: Callable[[int], float], size: int) -> int:
    """Rounding to levels is at its mildest at the ends and in the middle, and seen next to an end."""
    last = size - 1
    values = {x: at(x) for x in (0, min(1, last), last // 3, last // 2, last)}
    return 0 if _flat(values) else _peak(at, values, _ladder(size), last)


def worst_shape(errors: Callable[[Counts], Floats], *, n: int, size: int) -> Worst:
    """The largest error over data sets where some values have s people each, and one has the rest.

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

    best = _peak(mse, {}, _from_below(n), n)
    inputs = np.zeros(size, dtype=np.int64)
    inputs[size - bins(best) :] = best
    inputs[0] = n - bins(best) * best
    return Worst(inputs=inputs, mse=mse(best))


def worst_bit(error: Callable[[Counts], float], *, n: int) -> Worst:
    """The largest error over data sets with s yeses among n people.

    >>> bool(worst_bit(lambda inputs: float(min(inputs[1], 30)), n=100).inputs[1] >= 30)
    True
    """

    def shape(s: int) -> Counts:
        return np.array([n - s, s], dtype=np.int64)

    best = _peak(lambda s: error(shape(s)), {}, _from_below(n), n)
    return Worst(inputs=shape(best), mse=error(shape(best)))


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


def _peak(at: Callable[[int], float], values: dict[int, float], start: list[int], last: int) -> int:
    """The best of the values to start from, then uphill in ever smaller steps."""
    values |= {x: at(x) for x in start if x not in values}
    best = max(values, key=lambda x: values[x])
    if len(values) > last:
        return best
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
    return best


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
    estimate = _foresee(protocol.analyzer, inputs)
    low, high = estimate.interval(1 - (1 - level) / len(inputs))
    value = np.asarray(estimate.value)
    return float(np.max(np.maximum(value - low, high - value)))


@runtime_checkable
class Foreseeing(Protocol):
    """An analyzer that knows what its estimate is where the noise is at its mean."""

    def foresee(self, inputs: Counts) -> Estimate:
        """The estimate to expect for inputs[x] people of each code x."""


def _foresee(analyzer: Analyzer, inputs: Counts) -> Estimate:
    """The estimate that the analyzer foresees, or that of the tally whose estimate is the truth."""
    if isinstance(analyzer, Foreseeing):
        return analyzer.foresee(inputs)
    n, kinds = int(inputs.sum()), np.unique(inputs)  # equal bins have equal intervals
    zero, one = (
        np.asarray(analyzer.estimate(Tally(counts=np.full(len(kinds), c), users=n)).value)
        for c in (0, n)
    )
    counts = np.rint((kinds - zero) / (one - zero) * n).astype(np.int64)
    return analyzer.estimate(Tally(counts=counts, users=n))
