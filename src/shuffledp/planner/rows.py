"""One line of a plan: a protocol or a mechanism, its exact error, its cost, and what it promises."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import Any

from shuffledp.core.errors import ShuffledpError, UnsupportedError
from shuffledp.core.mechanism import Mechanism
from shuffledp.core.octets import Carried, Influential, report_bytes
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import Cost, ShuffleProtocol
from shuffledp.planner.errors import Measured, measure, measure_sight, measure_worst_bin
from shuffledp.planner.question import Asked, Candidate, Limits
from shuffledp.protocols import spec
from shuffledp.tasks import task_named

__all__ = ["EQUAL", "SAME", "Aim", "Row", "choose_for_file", "choose_row", "evaluate", "rank"]

SAME = 1.25
"""Errors up to this many times the smallest count as equal."""
EQUAL = 1.01
"""The same for files, where bits cost nothing: what searches for the largest epsilon leave open."""
_SAME_SEARCHED = 1.002  # what the searches for epsilon and n leave open
_GAPS = (0.2, 0.3, 0.4, 0.5)  # a wider gap between two noises costs accuracy and saves messages
_STEP, _CLOSE = 1.5, 1.01  # ratios of epsilons: while one is searched for, and when it is found
_UNDER = 1e-3  # below the epsilon of the floor, so that the calibration stays within it
_ISLANDS = 8  # steps of _CLOSE


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
    total_bytes: int | None = None
    """What all users send together."""
    guarantee: Guarantee | None = None
    local_floor: Guarantee | None = None
    """What is left if the shuffler tells who sent what; None: nothing."""
    answers: str | None = None
    """The question that the protocol itself answers: a mean times n is a sum."""
    n: int | None = None
    """For how many users it was made."""
    bytes_per_report: int | None = None
    """Of a report as a live collection would carry it, encrypted: as many messages as a user may send."""
    influence: float | None = None
    """By how many people one report can move the answer; None: no bound is known."""
    measured: Measured | None = field(default=None, repr=False, compare=False)
    """What was made, and the data set of the error."""

    @property
    def dealt(self) -> bool:
        """Whether the tally of a file can be dealt; if not, the device of every person in it runs."""
        made = None if self.measured is None else self.measured.made
        return isinstance(made, ShuffleProtocol) and made.dealt

    @property
    def available(self) -> bool:
        """Whether it exists at these numbers and within these limits."""
        return self.reason is None

    @property
    def epsilon(self) -> float | None:
        """The epsilon of the guarantee; None if there is none."""
        return None if self.guarantee is None else self.guarantee.epsilon

    @property
    def worst_bin(self) -> float | None:
        """How far off the worst bin is; None where there are no bins."""
        if self.measured is None or self.answers is None or not task_named(self.answers).bins:
            return None
        return measure_worst_bin(self.measured)

    @property
    def found(self) -> int | None:
        """How many people a word must have to be found with probability 95 %; None where no words are asked for."""
        if self.measured is None or self.n is None or self.answers != "words":
            return None
        return measure_sight(self.measured.made, self.n)

    @property
    def guess(self) -> float | None:
        """How often a yes or no is guessed right if everybody else conspires, at most; None: always."""
        return None if self.local_floor is None else 1 / (1 + math.exp(-self.local_floor.epsilon))

    @property
    def error(self) -> float:
        """What a choice makes small: the RMSE; with bins the worst one counts as much (geometric mean).

        Of words it is how many people a word needs to be found.
        """
        if self.rmse is None:
            return math.inf
        if self.found is not None:
            return float(self.found)
        worst = self.worst_bin
        return self.rmse if worst is None else math.sqrt(self.rmse * worst)

    def make(self) -> ShuffleProtocol | Mechanism:
        """The protocol or mechanism itself, or `UnsupportedError` with the reason.

        >>> from shuffledp import plan
        >>> plan("count", n=10_000, epsilon=1.0, delta=1e-6).rows[0].make().name
        'geometric'
        """
        if self.reason is not None or self.measured is None:
            raise UnsupportedError(f"{self.protocol} is not available: {self.reason}")
        return self.measured.made

    def explain(self) -> str:
        """Why it is not available, in one line."""
        return f"{self.protocol} ({self.model.value}): {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings; None where there is no (finite) number.

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


def evaluate(candidate: Candidate, asked: Asked, limits: Limits) -> Row:
    """The candidate as a row; what cannot be made or afforded has a reason.

    A protocol that does not exist at a large epsilon is taken at the largest smaller one where it does: what
    keeps less than was allowed keeps what was asked.

    >>> from shuffledp.planner.question import candidates
    >>> asked = Asked.of("count", n=50, epsilon=0.1, delta=1e-9, honest=1.0)
    >>> rows = [evaluate(each, asked, Limits.of(models="shuffle")) for each in candidates(asked.task)]
    >>> next(row.reason for row in rows if row.protocol == "geometric")
    'the central model is not among those asked for'
    """
    bare = Row(protocol=candidate.name, model=candidate.model, n=asked.n)
    if candidate.model not in limits.models:
        return replace(
            bare, reason=f"the {candidate.model.value} model is not among those asked for"
        )
    try:
        row = _fill(bare, candidate, asked, limits)
    except ShuffledpError as error:
        return _at_less(bare, candidate, asked, limits) or replace(bare, reason=str(error))
    return _within(row, candidate, asked, limits)


def _within(row: Row, candidate: Candidate, asked: Asked, limits: Limits) -> Row:
    """The row, if need be with a wider gap, or with the reason why it is beyond the limits."""
    assert row.messages_per_user is not None
    assert row.bits_per_user is not None
    row = _at_floor(row, candidate, asked, limits)
    assert row.messages_per_user is not None
    assert row.bits_per_user is not None
    reason = limits.excess(row.messages_per_user, row.bits_per_user) or _refuse(row, limits)
    if reason is None or not candidate.takes("gap"):
        return replace(row, reason=reason)
    for gap in _GAPS:
        try:
            wider = _fill(row, candidate, asked, limits, gap)
        except ShuffledpError:
            continue
        assert wider.messages_per_user is not None
        assert wider.bits_per_user is not None
        if not limits.excess(wider.messages_per_user, wider.bits_per_user):
            return replace(wider, reason=_refuse(wider, limits))
    return replace(row, reason=reason)


def _refuse(row: Row, limits: Limits) -> str | None:
    if row.model is Model.CENTRAL:
        return "a live collection has no curator" if limits.live else None
    floor = row.local_floor
    local = None if floor is None else floor.epsilon
    return limits.refuse(row.bytes_per_report, row.influence, local)


def _at_floor(row: Row, candidate: Candidate, asked: Asked, limits: Limits) -> Row:
    """An amplified protocol whose messages keep the floor by themselves: more private than was asked for."""
    floor, most = row.local_floor, limits.local_epsilon
    if not candidate.amplified or most is None or floor is None or floor.epsilon <= most:
        return row
    from shuffledp.accounting.amplify import profile

    alone = spec(candidate.name).make_local
    assert alone is not None  # or it would not be amplified
    asked_of = Candidate(
        name=candidate.name, model=Model.LOCAL, answers=candidate.answers, maker=alone
    )
    local = asked_of.make(asked.at(epsilon=most))
    shuffled = profile(randomizer=local.randomizer, n=asked.n, honest=asked.crowd.honest)
    epsilon = shuffled.epsilon(asked.promise.delta) * (1 - _UNDER)
    less = replace(asked, promise=replace(asked.promise, epsilon=epsilon))  # on the same grid
    try:
        return _fill(row, candidate, less, limits)
    except ShuffledpError:
        return row


def _size_report(made: ShuffleProtocol, cost: Cost) -> int:
    """Bytes of the longest report; messages that have no bytes yet are counted by their bits."""
    device = made.randomizer
    size = device.code.size if isinstance(device, Carried) else -(-cost.bits_per_message // 8)
    return report_bytes(cost.messages_max, size)


def _find_influence(made: ShuffleProtocol, cost: Cost) -> float | None:
    """How far a whole report can move the answer: all of its messages may be false."""
    if not isinstance(made.analyzer, Influential):
        return None
    influence = float(cost.messages_max * made.analyzer.influence)
    return None if math.isinf(influence) else influence


def _at_less(bare: Row, candidate: Candidate, asked: Asked, limits: Limits) -> Row | None:
    """The row at the largest epsilon below the one asked for, but above 1, where there is one."""
    if candidate.model is not Model.SHUFFLE:
        return None

    def row_at(epsilon: float) -> Row | None:
        less = replace(asked, promise=replace(asked.promise, epsilon=epsilon))  # on the same grid
        try:
            row = _within(_fill(bare, candidate, less, limits), candidate, less, limits)
        except ShuffledpError:
            return None
        return row if row.available else None

    low = high = asked.epsilon
    found = None
    while found is None and low > 1:
        low, high = low / _STEP, low
        found = row_at(low)
    while found is not None and high > _CLOSE * low:
        middle = math.sqrt(low * high)
        better = row_at(middle)
        low, high, found = (low, middle, found) if better is None else (middle, high, better)
    if found is None:
        return None
    # Where protocols cease to exist there are islands: a look beyond the shore.
    beyond = (low * _CLOSE**step for step in range(_ISLANDS, 0, -1))
    islands = (row_at(epsilon) for epsilon in beyond if epsilon < asked.epsilon)
    return next((row for row in islands if row is not None), found)


def _fill(
    bare: Row, candidate: Candidate, asked: Asked, limits: Limits, gap: float | None = None
) -> Row:
    # Who cannot spend a budget of messages need not know it: what was measured is remembered.
    budget = limits.max_messages if candidate.takes("max_messages") else None
    measured = measure(candidate, asked, gap, budget)
    made, sent, bits, floor = measured.made, 1.0, float(asked.raw_bits), None
    size, influence = None, None
    if isinstance(made, ShuffleProtocol):
        cost, floor = made.cost, made.local_floor
        sent, bits = cost.messages_mean, cost.messages_mean * cost.bits_per_message
        size, influence = _size_report(made, cost), _find_influence(made, cost)
    return replace(
        bare,
        rmse=measured.rmse,
        messages_per_user=sent,
        bits_per_user=bits,
        total_bytes=math.ceil(Fraction(bits) * asked.n / 8),
        guarantee=made.guarantee,
        local_floor=floor,
        bytes_per_report=size,
        influence=influence,
        answers=made.task if isinstance(made, ShuffleProtocol) else asked.task.name,
        measured=measured,
    )


class Aim(Enum):
    """What the plan minimises."""

    ERROR = "error"
    EPSILON = "epsilon"
    USERS = "n"

    def merit(self, row: Row) -> float:
        """The number to minimise; infinite if there is none."""
        value = {Aim.ERROR: row.error, Aim.EPSILON: row.epsilon, Aim.USERS: row.n}[self]
        return math.inf if value is None else float(value)


def rank(rows: Iterable[Row], aim: Aim) -> tuple[Row, ...]:
    """Available rows first, the best first (by RMSE, epsilon or n); with equal merit fewer bits first.

    >>> low, high = (Row(protocol=name, model=Model.LOCAL, rmse=error) for name, error in (("a", 1.0), ("b", 2.0)))
    >>> [row.protocol for row in rank([high, low], Aim.ERROR)]
    ['a', 'b']
    """
    return tuple(
        sorted(rows, key=lambda row: (not row.available, _exact_merit(row, aim), _bits(row)))
    )


def _exact_merit(row: Row, aim: Aim) -> float:
    """The RMSE, epsilon or n: nothing that is simulated. Two names for one law have the same."""
    merit = aim.merit(row) if aim is not Aim.ERROR or row.rmse is None else row.rmse
    return float(f"{merit:.12g}")


def _bits(row: Row) -> float:
    return math.inf if row.bits_per_user is None else row.bits_per_user


def choose_for_file(rows: Iterable[Row]) -> Row | None:
    """The row with the smallest error: on a file messages cost nothing. Of equal ones, one that is dealt.

    >>> few = Row(protocol="few", model=Model.SHUFFLE, rmse=1.2, bits_per_user=1.0)
    >>> many = Row(protocol="many", model=Model.SHUFFLE, rmse=1.0, bits_per_user=100.0)
    >>> choose_for_file([few, many]).protocol
    'many'
    """
    available = [row for row in rows if row.available]
    if not available:
        return None
    most = EQUAL * min(row.error for row in available)
    equal = (row for row in available if row.error <= most)
    return min(equal, key=lambda row: (not row.dealt, row.error, _bits(row)))


def choose_row(
    rows: Iterable[Row],
    aim: Aim,
    enough: Callable[[Row], bool] = lambda _: False,
) -> Row | None:
    """The first row that is enough; otherwise of those nearly the best the one with the fewest bits.

    A curator is chosen only if nobody else is available.

    >>> few = Row(protocol="few", model=Model.SHUFFLE, rmse=1.2, bits_per_user=1.0)
    >>> many = Row(protocol="many", model=Model.SHUFFLE, rmse=1.0, bits_per_user=100.0)
    >>> curator = Row(protocol="curator", model=Model.CENTRAL, rmse=0.9, bits_per_user=1.0)
    >>> choose_row([few, many, curator], Aim.ERROR).protocol
    'few'
    >>> choose_row([curator], Aim.ERROR).protocol
    'curator'
    """
    available = []
    for row in rows:
        if aim is Aim.ERROR and enough(row):
            return row
        available += [row] if row.available else []
    rivals = [row for row in available if row.model is not Model.CENTRAL] or available
    if not rivals:
        return None
    most = (SAME if aim is Aim.ERROR else _SAME_SEARCHED) * min(map(aim.merit, rivals))
    nearly_best = (row for row in rivals if aim.merit(row) <= most)
    return min(nearly_best, key=lambda row: (_bits(row), _exact_merit(row, aim)))
