"""One line of a plan: a protocol or a mechanism, its exact error, its cost, and what it promises.

The error is exact, on the data set that is worst for the protocol. For an unbiased analyzer the variance is
linear (or convex) in the numbers of people with each value, so it is largest where everybody has the same value; which
one is found by a search over values. An analyzer with a `bias` is worst somewhere else: where a few people are counted
as nobody. There the search is over how many people share a value, the rest having another.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from shuffledp.core.analyzer import Estimate, Tally
from shuffledp.core.arrays import Counts, Floats, distinct
from shuffledp.core.errors import ShuffledpError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, guess_right
from shuffledp.core.protocol import Cost, Mechanism, ShuffleProtocol
from shuffledp.core.randomizer import report_bytes
from shuffledp.core.task import Task
from shuffledp.planner.question import Candidate, Limits, Problem
from shuffledp.protocols import spec
from shuffledp.tasks import task_named

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
    """Compute the variance plus squared bias; for a histogram the mean over the bins.

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
    >>> worst = worst_case(bit, n=10_000, size=2, bins=False)
    >>> worst.inputs, round(worst.mse ** 0.5, 1)
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
        mse = error(inputs)
        inputs[x] = 0
        return mse

    best, mse = _worst_value(at, size - 1) if bins else _worst_number(at, size)
    inputs[best] = n
    return Worst(inputs=inputs, mse=mse)


def _worst_value(at: Callable[[int], float], last: int) -> tuple[int, float]:
    """Choose the worst value: bins differ at most in how a code shares them out."""
    values = {x: at(x) for x in ((0, last // 2, last) if last < _FEW else (0, last))}
    return (0, values[0]) if _flat(values) else _peak(at, values, _some(last + 1), last)


def _worst_number(at: Callable[[int], float], size: int) -> tuple[int, float]:
    """Choose the worst number: rounding to levels is mildest at the ends and in the middle, and seen next to an
    end.
    """
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
    """Return levels, dense towards both ends, where rounding to few levels is worst."""
    last = size - 1
    near = _from_below(last // 2)
    return sorted({*_some(size), *near, *(last - x for x in near)})


def _from_below(last: int) -> list[int]:
    """Return 0, and about two values in each octave up to `last`."""
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
    """Return a distance within which all bins are from the truth, with probability about `level` (union bound).

    Only about, because the intervals are those where the noise equals its mean; their widths hardly depend on it.

    >>> from shuffledp import protocols
    >>> p = protocols.correlated_histogram.make(n=100_000, k=16, epsilon=1.0, delta=1e-6)
    >>> worst_bin(p, np.full(16, 100_000 // 16), 0.95)
    13.0
    """
    if protocol.offers.foresee is not None:
        estimate = protocol.offers.foresee(inputs)
    else:  # equal bins have equal intervals
        estimate = _estimate_mean_tally(protocol, distinct(inputs), int(inputs.sum()))
    low, high = estimate.interval(1 - (1 - level) / len(inputs))
    value = np.asarray(estimate.value)
    return float(np.max(np.maximum(value - low, high - value)))


def foresee_estimate(protocol: ShuffleProtocol, inputs: Counts) -> Estimate:
    """Return the histogram to expect: as the protocol foresees it, or with its noise at its mean."""
    if protocol.offers.foresee is not None:
        return protocol.offers.foresee(inputs)
    tally = _estimate_mean_tally(protocol, inputs, int(inputs.sum()))
    return replace(tally, value=inputs.astype(np.float64))  # that of whole messages is near it


def _estimate_mean_tally(protocol: ShuffleProtocol, bins: Counts, n: int) -> Estimate:
    """Return the estimate of the tally whose estimate is about the truth: of some bins, among n people."""
    analyzer = protocol.analyzer
    zero, one = (
        np.asarray(analyzer.estimate(Tally(counts=np.full(len(bins), c), users=n)).value)
        for c in (0, n)
    )
    counts = np.rint((bins - zero) / (one - zero) * n).astype(np.int64)
    return analyzer.estimate(Tally(counts=counts, users=n))


LEVEL = 0.95
"""With about this probability no bin is off by more than `worst_bin`."""
LONGEST_MESSAGE = 4096
"""Bits of one message; protocols above this are skipped."""
MOST_MESSAGES = 1_000_000.0
"""Messages of one person; protocols above this are skipped."""
_GAPS = (0.2, 0.3, 0.4, 0.5)  # a wider gap between two noises costs accuracy and saves messages
_STEP, _CLOSE = 1.5, 1.01  # ratios of epsilons: while one is searched for, and when it is found
_UNDER = 1e-3  # below the epsilon of the floor, so that the calibration stays within it
_ISLANDS = 8  # steps of _CLOSE
_TOO_LONG = "a message has"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """What was made, what it costs, and how wrong it is at worst (on the scale of the total)."""

    made: ShuffleProtocol | Mechanism
    answers: type[Task]
    """The question that it answers by itself: a mean times n is a sum."""
    rmse: float
    inputs: Counts | None = None
    """The worst data set; None if the error is the same for all."""
    cost: Cost | None = None
    """What one person sends; None: nothing, in the central model."""

    @property
    def worst_bin(self) -> float | None:
        """How far off the worst bin is, on the data set of the error; None where there are no bins."""
        return _measure_worst_bin(self) if self.answers.bins else None

    def judge(self, n: int) -> float:
        """Return the error that a choice among n people makes small: see `Row.error`."""
        if not self.answers.listed and (sight := measure_sight(self.made, n)) is not None:
            return float(sight)
        worst = self.worst_bin
        return self.rmse if worst is None else math.sqrt(self.rmse * worst)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A protocol (or a mechanism of the central model) as an answer to the question.

    `rmse` is the root of the exact mean squared error on the data set that is worst for this protocol,
    on the scale of the count or the sum (also for means: divide by n); for a histogram the root of its
    mean over the bins. Reals are half a step off the grid at worst, so that rounding them at random costs
    most: `Plan.rounding` is that part. `worst_bin` is for histograms: with probability about 95 % no bin is off by more, on
    that same data set.

    >>> from shuffledp import plan
    >>> row = plan("count", n=10_000, epsilon=1.0, delta=1e-6).chosen
    >>> row.protocol, row.model.value, round(row.rmse, 2), row.make().name
    ('correlated_count', 'shuffle', 1.6, 'correlated_count')
    """

    protocol: str
    model: Model
    reason: str | None = None
    """Why it is not available; None if it is."""
    rmse: float | None = None
    messages_per_user: float | None = None
    bits_per_user: float | None = None
    newcomer: bool = field(default=False, repr=False)
    """Whether its author gives no hint when to try it: then it is always tried."""
    n: int | None = None
    """For how many users it was made."""
    measured: Measured | None = field(default=None, repr=False, compare=False)
    """What was made, and the data set of the error."""

    @property
    def _shuffled(self) -> ShuffleProtocol | None:
        """The protocol that was made; None for a mechanism, or if nothing was."""
        made = None if self.measured is None else self.measured.made
        return made if isinstance(made, ShuffleProtocol) else None

    @property
    def _cost(self) -> Cost | None:
        return None if self.measured is None else self.measured.cost

    @property
    def available(self) -> bool:
        """Whether it exists at these numbers and within these limits."""
        return self.reason is None

    @property
    def answers(self) -> str | None:
        """The question that the protocol itself answers: a mean times n is a sum."""
        return None if self.measured is None else self.measured.answers.name

    @property
    def guarantee(self) -> Guarantee | None:
        """What it promises."""
        return None if self.measured is None else self.measured.made.guarantee

    @property
    def epsilon(self) -> float | None:
        """The epsilon of the guarantee; None if there is none."""
        return None if self.guarantee is None else self.guarantee.epsilon

    @property
    def local_floor(self) -> Guarantee | None:
        """What is left if the shuffler reveals who sent what; None: nothing."""
        made = self._shuffled
        return None if made is None else made.local_floor

    @property
    def guess(self) -> float | None:
        """How often somebody who thought yes and no equally likely guesses right, at most, if everybody else
        conspires; None: always.
        """
        return None if self.local_floor is None else guess_right(self.local_floor.epsilon)

    @property
    def dealt(self) -> bool:
        """Whether the tally of a file can be dealt; if not, the device of every person in it runs."""
        made = self._shuffled
        return made is not None and made.dealt

    @property
    def total_bytes(self) -> int | None:
        """What all users send together."""
        if self.bits_per_user is None or self.n is None:
            return None
        return math.ceil(Fraction(self.bits_per_user) * self.n / 8)

    @property
    def bytes_per_report(self) -> int | None:
        """The size of a report as a live collection would carry it, encrypted, with the most messages a user may send.

        Messages that have no bytes yet are counted by their bits.
        """
        made, cost = self._shuffled, self._cost
        if made is None or cost is None:
            return None
        code = made.offers.code
        size = -(-cost.bits_per_message // 8) if code is None else code.size
        return report_bytes(cost.messages_max, size)

    @property
    def influence(self) -> float | None:
        """By how many people one report can move the answer, if all of its messages lie; None: no bound is known."""
        made, cost = self._shuffled, self._cost
        if made is None or cost is None or made.offers.influence is None:
            return None
        influence = float(cost.messages_max * made.offers.influence())
        return None if math.isinf(influence) else influence

    @property
    def worst_bin(self) -> float | None:
        """How far off the worst bin is; None where there are no bins."""
        return None if self.measured is None else self.measured.worst_bin

    @property
    def found(self) -> int | None:
        """How many people a word must have to be found with probability 95 %; None where no words are asked for."""
        if self.measured is None or self.n is None or self.measured.answers.listed:
            return None
        return measure_sight(self.measured.made, self.n)

    @property
    def error(self) -> float:
        """What a choice makes small: the RMSE; with bins the worst one counts as much (geometric mean).

        Of words it is how many people a word needs to be found.
        """
        if self.rmse is None:
            return math.inf
        if self.measured is None or self.n is None:
            return self.rmse
        return self.measured.judge(self.n)

    def make(self) -> ShuffleProtocol | Mechanism:
        """Return the protocol or mechanism itself, or `UnsupportedError` with the reason.

        >>> from shuffledp import plan
        >>> plan("count", n=10_000, epsilon=1.0, delta=1e-6).rows[0].make().name
        'geometric'
        """
        if self.reason is not None or self.measured is None:
            raise UnsupportedError(f"{self.protocol} is not available: {self.reason}")
        return self.measured.made

    def explain(self) -> str:
        """Say why it is not available, in one line."""
        return f"{self.protocol} ({self.model.value}): {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings; None where there is no (finite) number.

        >>> Row(protocol="rr", model=Model.LOCAL, rmse=math.inf).to_dict()["rmse"] is None
        True
        """
        promise, floor = self.guarantee, self.local_floor
        return {
            "protocol": self.protocol,
            "model": self.model.value,
            "available": self.available,
            "reason": self.reason,
            "rmse": _finite(self.rmse),
            "worst_bin": _finite(self.worst_bin),
            "found": self.found,
            "messages_per_user": _finite(self.messages_per_user),
            "bits_per_user": _finite(self.bits_per_user),
            "total_bytes": self.total_bytes,
            "epsilon": None if promise is None else promise.epsilon,
            "delta": None if promise is None else promise.delta,
            "proof": None if promise is None else promise.proof,
            "local_floor": None if floor is None else _finite(floor.epsilon),
            "local_guess": self.guess,
            "bytes_per_report": self.bytes_per_report,
            "influence": _finite(self.influence),
            "dealt": self.dealt,
            "answers": self.answers,
            "n": self.n,
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def evaluate(candidate: Candidate, asked: Problem, limits: Limits) -> Row:
    """Return the candidate as a row; what cannot be made or afforded has a reason.

    A protocol that does not exist at a large epsilon is taken at the largest smaller one where it does: what
    keeps less than was allowed keeps what was asked.

    >>> from shuffledp.planner.question import candidates
    >>> asked = Problem.of("count", n=50, epsilon=0.1, delta=1e-9, honest=1.0)
    >>> rows = [evaluate(each, asked, Limits.of(models="shuffle")) for each in candidates(asked.task)]
    >>> next(row.reason for row in rows if row.protocol == "geometric")
    'the central model is not among those asked for'
    """
    bare = Row(
        protocol=candidate.name,
        model=candidate.model,
        n=asked.crowd.n,
        newcomer=candidate.newcomer,
    )
    if candidate.model not in limits.models:
        return replace(
            bare, reason=f"the {candidate.model.value} model is not among those asked for"
        )
    try:
        row = _fill(bare, candidate, asked, limits)
    except ShuffledpError as error:
        less = _at_less(bare, candidate, asked, limits, str(error))
        return less or replace(bare, reason=str(error))
    return _within(row, candidate, asked, limits)


def _within(row: Row, candidate: Candidate, asked: Problem, limits: Limits) -> Row:
    """Return the row, if need be with a wider gap, or with the reason why it is beyond the limits."""
    row = _at_floor(row, candidate, asked, limits)
    reason = _find_excess(row, limits) or _refuse(row, limits)
    if reason is None or not candidate.takes("gap"):
        return replace(row, reason=reason)
    for gap in _GAPS:
        try:
            wider = _fill(row, candidate, asked, limits, gap)
        except ShuffledpError:
            continue
        if not _find_excess(wider, limits):
            return replace(wider, reason=_refuse(wider, limits))
    return replace(row, reason=reason)


def _find_excess(row: Row, limits: Limits) -> str | None:
    assert row.messages_per_user is not None
    assert row.bits_per_user is not None
    return limits.excess(row.messages_per_user, row.bits_per_user)


def _refuse(row: Row, limits: Limits) -> str | None:
    """Say why a live collection would not carry it, if it has to."""
    if not limits.live:
        return None
    if row.model is Model.CENTRAL:
        return "a live collection has no curator"
    floor = row.local_floor
    local = None if floor is None else floor.epsilon
    return limits.refuse(row.bytes_per_report, row.influence, local)


def _at_floor(row: Row, candidate: Candidate, asked: Problem, limits: Limits) -> Row:
    """Return the row of an amplified protocol whose messages keep the floor by themselves.

    It is more private than was asked for.
    """
    floor, most = row.local_floor, limits.local_epsilon
    if not candidate.amplified or most is None or floor is None or floor.epsilon <= most:
        return row
    from shuffledp.accounting.amplify import profile

    alone = spec(candidate.name).make_local
    assert alone is not None  # or it would not be amplified
    unshuffled = Candidate(name=candidate.name, model=Model.LOCAL, maker=alone)
    local = unshuffled.make(asked.at(epsilon=most))
    shuffled = profile(randomizer=local, n=asked.n, honest=asked.crowd.honest)
    epsilon = shuffled.epsilon(asked.promise.delta) * (1 - _UNDER)
    less = replace(asked, promise=replace(asked.promise, epsilon=epsilon))  # on the same grid
    try:
        return _fill(row, candidate, less, limits)
    except ShuffledpError:
        return row


def _at_less(
    bare: Row, candidate: Candidate, asked: Problem, limits: Limits, reason: str
) -> Row | None:
    """Return the row at the largest epsilon below the one asked for, but above 1, where there is one."""
    if candidate.model is not Model.SHUFFLE:
        return None
    same = False

    def row_at(epsilon: float) -> Row | None:
        nonlocal same
        less = replace(asked, promise=replace(asked.promise, epsilon=epsilon))  # on the same grid
        try:
            row = _within(_fill(bare, candidate, less, limits), candidate, less, limits)
        except ShuffledpError as error:
            same = str(error) == reason
            return None
        return row if row.available else None

    low = high = asked.epsilon
    best = None
    while best is None and low > 1:
        low, high = low / _STEP, low
        best = row_at(low)
        if same and reason.startswith(_TOO_LONG):  # then its length is not a matter of epsilon
            return None
    while best is not None and high > _CLOSE * low:
        middle = math.sqrt(low * high)
        better = row_at(middle)
        low, high, best = (low, middle, best) if better is None else (middle, high, better)
    if best is None:
        return None
    # Where protocols cease to exist there are islands: a look beyond the shore.
    beyond = (low * _CLOSE**step for step in range(_ISLANDS, 0, -1))
    islands = (row_at(epsilon) for epsilon in beyond if epsilon < asked.epsilon)
    return next((row for row in islands if row is not None), best)


def _fill(
    bare: Row, candidate: Candidate, asked: Problem, limits: Limits, gap: float | None = None
) -> Row:
    # Who cannot spend a budget of messages need not know it: what was measured is remembered.
    budget = limits.max_messages if candidate.takes("max_messages") else None
    measured = measure(candidate, asked, gap, budget)
    cost, sent = measured.cost, 1.0
    if cost is None:
        bits = float(asked.raw_bits)
    else:
        sent, bits = cost.messages_mean, cost.messages_mean * cost.bits_per_message
    return replace(
        bare, rmse=measured.rmse, messages_per_user=sent, bits_per_user=bits, measured=measured
    )


# A protocol can hold tables of some megabytes, so not too many are kept.
@lru_cache(maxsize=256)
def measure(
    candidate: Candidate,
    asked: Problem,
    gap: float | None = None,
    max_messages: float | None = None,
) -> Measured:
    """Make the candidate and compute its error; `gap` and `max_messages` where the maker takes them.

    >>> from shuffledp.planner.question import candidates
    >>> asked = Problem.of("count", n=50, epsilon=1.0, delta=1e-3, honest=1.0)
    >>> round(measure(next(candidates(asked.task)), asked).rmse, 3)
    1.357
    """
    least = candidate.foresee_least(asked)
    _check_size(least.messages, least.bits_per_message)
    made = candidate.make(asked, gap=gap, max_messages=max_messages)
    if isinstance(made, ShuffleProtocol):
        return _measure_protocol(made, asked)
    return _measure_mechanism(made, asked)


def _measure_protocol(made: ShuffleProtocol, asked: Problem) -> Measured:
    cost, n = made.cost, asked.crowd.n
    _check_size(cost.messages_mean, cost.bits_per_message)
    check_sight(made, n)
    answered = task_named(made.task)
    size = made.randomizer.domain.size if answered.listed else 2
    worst = worst_case(made, n=n * made.values, size=size, bins=answered.bins)
    rmse = math.hypot(answered.scale(n) * math.sqrt(worst.mse), asked.rounding)
    return Measured(made=made, answers=answered, rmse=rmse, inputs=worst.inputs, cost=cost)


def _check_size(messages: float, bits: int) -> None:
    """Refuse what nobody sends, and whose exact law takes minutes to evaluate."""
    if bits > LONGEST_MESSAGE:
        raise UnsupportedError(
            f"{_TOO_LONG} {bits:,} bits; errors are evaluated up to {LONGEST_MESSAGE:,}"
        )
    if messages > MOST_MESSAGES:
        raise UnsupportedError(
            f"everybody would send {messages:,.0f} messages, more than {MOST_MESSAGES:,.0f}"
        )


def _measure_mechanism(made: Mechanism, asked: Problem) -> Measured:
    answers, offers = type(asked.task), made.offers
    bin_errors = offers.bin_errors
    if bin_errors is not None and asked.task.listed:
        worst = worst_shape(bin_errors, n=asked.crowd.n, size=asked.task.domain.size)
        rmse = math.sqrt(worst.mse)
        return Measured(made=made, answers=answers, rmse=rmse, inputs=worst.inputs)
    mse = made.variance()
    unit = offers.unit
    if unit is not None and Fraction(unit).denominator > 1:
        mse += (unit / 2) ** 2  # the answer is rounded to its grid
    rmse = answers.scale(asked.crowd.n) * math.sqrt(mse)
    return Measured(made=made, answers=answers, rmse=rmse)


@lru_cache(maxsize=256)
def _measure_worst_bin(measured: Measured) -> float:
    if not isinstance(measured.made, ShuffleProtocol):
        return measured.made.accuracy(1 - LEVEL)
    assert measured.inputs is not None
    return worst_bin(measured.made, measured.inputs, LEVEL)


def check_sight(made: ShuffleProtocol, n: int) -> None:
    """Refuse a protocol that looks for words where it could find none, not even one that everybody has."""
    predict = made.offers.predict
    if predict is None or predict(n).find_count(LEVEL) <= n:
        return
    enough = 2 * n
    while predict(enough).find_count(LEVEL) > enough:
        enough *= 2
    low = enough // 2
    while enough - low > max(1, low // 100):
        middle = (low + enough) // 2
        blind = predict(middle).find_count(LEVEL) > middle
        low, enough = (middle, enough) if blind else (low, middle)
    raise UnsupportedError(
        f"n={n} people are too few for any word to be seen: at least {enough:,} are needed"
    )


def measure_sight(made: ShuffleProtocol | Mechanism, n: int) -> int | None:
    """Return the smallest count that is found among n people with probability 95 %; None if nothing is looked for.

    >>> from shuffledp import mechanisms
    >>> measure_sight(mechanisms.stability_histogram.make(n=1000, epsilon=1.0, delta=1e-6), 1000)
    33
    """
    if isinstance(made, ShuffleProtocol):
        predict = made.offers.predict
        return None if predict is None else predict(n).find_count(LEVEL)
    find_count = made.offers.find_count
    return None if find_count is None else find_count(LEVEL)


def explain_all(rows: Iterable[Row]) -> str:
    """Say why none of them is available, in one line: each reason once.

    >>> none = [Row(protocol=name, model=Model.LOCAL, reason="never") for name in ("rr", "krr")]
    >>> explain_all(none)
    'rr, krr (local): never'
    """
    alike: dict[tuple[str, str | None], list[str]] = {}
    for row in rows:
        alike.setdefault((row.model.value, row.reason), []).append(row.protocol)
    return "; ".join(
        f"{', '.join(names)} ({model}): {reason}" for (model, reason), names in alike.items()
    )
