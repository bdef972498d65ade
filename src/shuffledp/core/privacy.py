"""Concept 4, the guarantee: what was promised, to whom, and by which theorem.

(epsilon, delta)-DP: for all neighbouring data sets X, X' and every event T,
Pr[view(X) in T] <= e^epsilon Pr[view(X') in T] + delta, over the coins of the protocol alone.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from shuffledp.core.errors import ParameterError
from shuffledp.core.notebook import list_facts, say, stack
from shuffledp.core.validate import non_negative, number, whole


class Model(Enum):
    """Who is trusted, and so what an attacker sees."""

    CENTRAL = "central"
    """The released answer; a trusted curator saw the raw data."""
    LOCAL = "local"
    """Every message with its sender: nobody is trusted."""
    SHUFFLE = "shuffle"
    """The multiset of all messages: the shuffler is trusted to forget, and nobody else."""


class Neighbours(Enum):
    """Which data sets must be hard to tell apart."""

    REPLACE_ONE = "replace-one"
    """One person's value is replaced by any other; the number of people is public."""
    ADD_REMOVE = "add-remove"
    """One person is added or removed."""


_SEEN = {
    Model.CENTRAL: "a trusted curator sees the values, everybody else the answer",
    Model.LOCAL: "nobody is trusted; every message may be seen with its sender",
    Model.SHUFFLE: "messages are seen without their senders; the shuffler is trusted to forget",
}
_DIFFER = {
    Neighbours.REPLACE_ONE: "one person's value is replaced by any other",
    Neighbours.ADD_REMOVE: "one person is added or removed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-DP in one model of trust.

    >>> print(Guarantee(epsilon=1.0, delta=0.0, model=Model.LOCAL, proof="Warner 1965"))
    epsilon = 1, delta = 0: local model, replace-one neighbours, no other honest user needed; by Warner 1965
    """

    epsilon: float
    delta: float
    model: Model
    proof: str
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    honest: int = 1
    """How many users (the protected one included) must follow the protocol for it to hold."""

    def __post_init__(self) -> None:
        # Python's own numbers, whatever computed them.
        object.__setattr__(self, "epsilon", non_negative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", number("delta", self.delta))
        object.__setattr__(self, "honest", whole("honest", self.honest, at_least=1))
        if not 0 <= self.delta <= 1:
            raise ParameterError("delta", self.delta, "must be >= 0 and <= 1")
        if not self.proof:
            raise ParameterError("proof", self.proof, "must name a theorem or a computation")

    def __str__(self) -> str:
        return (
            f"epsilon = {round_up(self.epsilon, 6)}, delta = {round_up(self.delta, 3)}: {self.model.value} model, "
            f"{self.neighbours.value} neighbours, {self._needs()}; by {self.proof}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields besides epsilon and delta for JSON: plain numbers and strings."""
        return {
            "text": str(self),
            "model": self.model.value,
            "neighbours": self.neighbours.value,
            "honest": self.honest,
            "proof": self.proof,
        }

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        return stack(
            say(
                f"epsilon = {round_up(self.epsilon, 6)}, delta = {round_up(self.delta, 3)}",
                bold=True,
            ),
            list_facts(self._facts()),
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("model", f"{self.model.value}: {_SEEN[self.model]}"),
            ("neighbours", f"{self.neighbours.value}: {_DIFFER[self.neighbours]}"),
            ("rests on", self._needs()),
            ("proof", self.proof),
        ]

    def _needs(self) -> str:
        if self.model is Model.CENTRAL:
            return "a trusted curator"
        if self.honest == 1:
            return "no other honest user needed"
        return f"{self.honest:,} honest users"


def round_up(value: float, digits: int) -> str:
    """Return `value` in `digits` digits, never less than it is: read back, it is at least `value`.

    >>> round_up(1.23401, 4), round_up(1e-8, 3)
    ('1.235', '1e-08')
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
    # From its shortest decimals, so that 1e-8 (a float a little above 10^-8) stays 1e-08.
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"


def round_down(value: float, digits: int) -> str:
    """Return `value` in `digits` digits, never more than it is.

    >>> round_down(9.6870419999, 6), round_down(0.3, 6)
    ('9.68704', '0.3')
    """
    context = Context(prec=digits, rounding=ROUND_FLOOR)
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"


def round_percent_up(share: float) -> str:
    """Write a share as a percentage that is not below it, with as many digits as tell it from 100.

    >>> [round_percent_up(share) for share in (0.9354, 0.99946, 1 - 1e-9)]
    ['93.6', '99.95', '100']
    """
    for digits in range(1, 5):
        percent = math.ceil(share * 10 ** (digits + 2)) / 10**digits
        if percent < 100:
            return f"{percent:.{digits}f}"
    return "100"


def round_share_up(share: float) -> str:
    """Write a share in percent, in six digits and not below it.

    >>> [round_share_up(share) for share in (0.9, 0.07, 1 / 3)]
    ['90', '7', '33.3334']
    """
    return round_up(float(100 * Decimal(repr(share))), 6)


def guess_right(epsilon: float) -> float:
    """Bound how often somebody who thought yes and no equally likely guesses right from messages with this epsilon.

    >>> round(guess_right(3.0), 3), guess_right(math.inf)
    (0.953, 1.0)
    """
    return min(1.0, (1 + 1e-15) / (1 + math.exp(-epsilon)))


@runtime_checkable
class Profile(Protocol):
    """The whole privacy curve. Each method returns the safe end."""

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above."""

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above."""
