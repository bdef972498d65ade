"""From a candidate to a row: make it, and compute its exact error on its worst data set."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import ShuffledpError, UnsupportedError
from shuffledp.core.mechanism import AdditiveMechanism, Mechanism
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.planner.bins import worst_bin
from shuffledp.planner.candidates import Candidate
from shuffledp.planner.question import Asked, Limits
from shuffledp.planner.row import Row
from shuffledp.planner.worst import Worst, worst_case, worst_shape
from shuffledp.tasks import task_named

__all__ = ["evaluate", "with_worst_bin"]

LEVEL = 0.95
"""With about this probability no bin is off by more than `worst_bin`."""
LONGEST_MESSAGE = 4096
"""Bits of one message, beyond which a protocol is no row to choose."""


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


def evaluate(candidate: Candidate, asked: Asked, limits: Limits) -> Row:
    """The candidate as a row; what cannot be made or afforded has a reason.

    >>> from shuffledp.planner.candidates import candidates
    >>> asked = Asked.of("count", n=50, epsilon=0.1, delta=1e-9, honest=1.0)
    >>> limits = Limits.of(max_messages=None, max_bits=None, trust=("shuffle",))
    >>> rows = [evaluate(each, asked, limits) for each in candidates(asked)]
    >>> next(row.reason for row in rows if row.protocol == "geometric")
    'the central model is not trusted'
    """
    bare = Row(protocol=candidate.name, model=candidate.model, n=asked.n)
    if candidate.model not in limits.trust:
        return replace(bare, reason=f"the {candidate.model.value} model is not trusted")
    try:
        measured = _measured(candidate, asked)
    except ShuffledpError as error:
        return replace(bare, reason=str(error))
    row = _filled(bare, measured, asked)
    return replace(row, reason=_beyond(row, limits))


def with_worst_bin(row: Row, candidate: Candidate, asked: Asked) -> Row:
    """The row of a histogram with its `worst_bin`."""
    if row.made is None or not asked.task.bins:
        return row
    return replace(row, worst_bin=_worst_bin(candidate, asked))


@lru_cache(maxsize=256)
def _worst_bin(candidate: Candidate, asked: Asked) -> float:
    measured = _measured(candidate, asked)
    if not isinstance(measured.made, ShuffleProtocol):
        return measured.made.accuracy(1 - LEVEL)
    assert measured.inputs is not None
    return worst_bin(measured.made, measured.inputs, LEVEL)


# A protocol can hold tables of some megabytes, so not too many are kept.
@lru_cache(maxsize=256)
def _measured(candidate: Candidate, asked: Asked) -> Measured:
    made = candidate.maker(**candidate.parameters(asked))
    if isinstance(made, ShuffleProtocol):
        return _of_protocol(made, asked)
    if not isinstance(made, Mechanism):
        raise UnsupportedError(f"{candidate.name} selects, it does not answer with numbers")
    return _of_mechanism(made, candidate, asked)


def _of_protocol(made: ShuffleProtocol, asked: Asked) -> Measured:
    bits = made.cost.bits_per_message
    if bits > LONGEST_MESSAGE:  # nobody sends it, and its exact law takes minutes to evaluate
        raise UnsupportedError(
            f"a message has {bits:,} bits; errors are evaluated up to {LONGEST_MESSAGE:,}"
        )
    size = made.randomizer.domain.size
    answered = task_named(made.task)
    worst = worst_case(made.analyzer, n=asked.n, size=size, bins=answered.bins)
    scale = answered.scale(asked.n)
    return Measured(made=made, rmse=scale * math.sqrt(worst.mse), inputs=worst.inputs)


def _of_mechanism(made: Mechanism, candidate: Candidate, asked: Asked) -> Measured:
    if isinstance(made, CountDependent):
        worst = _worst_counts(made, asked)
        return Measured(made=made, rmse=math.sqrt(worst.mse), inputs=worst.inputs)
    mse = made.variance()
    if isinstance(made, AdditiveMechanism) and Fraction(made.unit).denominator > 1:
        mse += (made.unit / 2) ** 2  # the answer is rounded to its grid
    scale = task_named(candidate.answers).scale(asked.n)
    return Measured(made=made, rmse=scale * math.sqrt(mse), inputs=None)


def _worst_counts(made: CountDependent, asked: Asked) -> Worst:
    def error(inputs: Counts) -> float:
        return float(np.mean(made.squared_error(inputs)))

    return worst_shape(error, n=asked.n, size=asked.size)


def _filled(bare: Row, measured: Measured, asked: Asked) -> Row:
    made = measured.made
    cost: dict[str, Any] = {"messages_per_user": 1.0, "bits_per_user": float(asked.raw_bits)}
    if isinstance(made, ShuffleProtocol):
        sent = made.cost.messages_mean
        bits = sent * made.cost.bits_per_message
        cost = {
            "messages_per_user": sent,
            "bits_per_user": bits,
            "answers": made.task,
            "local_floor": made.local_floor,
        }
    total = math.ceil(Fraction(cost["bits_per_user"]) * asked.n / 8)
    return replace(
        bare,
        rmse=measured.rmse,
        guarantee=made.guarantee,
        made=made,
        total_bytes=total,
        **{"answers": asked.task.name, **cost},
    )


def _beyond(row: Row, limits: Limits) -> str | None:
    spent = (
        ("messages", row.messages_per_user, limits.max_messages),
        ("bits", row.bits_per_user, limits.max_bits),
    )
    over = [
        f"{used:.4g} {name} per user, more than {most:g}"
        for name, used, most in spent
        if used is not None and most is not None and used > most
    ]
    return "; ".join(over) or None
