"""Concept 5, the protocol P = (R, A) with its guarantee: the unit that everything else takes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from shuffledp.core.analyzer import Analyzer
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.randomizer import Randomizer
from shuffledp.core.validate import number, whole

__all__ = [
    "HONEST",
    "Accountant",
    "Calibration",
    "Cost",
    "Parameters",
    "ShuffleProtocol",
    "Spec",
    "Unconditional",
    "honest_users",
]

HONEST = 0.9
"""The fraction of users whose noise a shuffled guarantee counts on, unless stated otherwise."""

Parameters = Mapping[str, Any]
"""Plain numbers and strings, as they are written in JSON."""


class Calibration(Enum):
    """Where the parameters of the noise come from.

    >>> Calibration("paper")
    <Calibration.PAPER: 'paper'>
    """

    EXACT = "exact"
    """The law itself."""
    PAPER = "paper"
    """The published theorem, inside its conditions."""

    @classmethod
    def read(cls, name: "Calibration | str") -> "Calibration":
        """The member of that name.

        >>> Calibration.read("rough")
        Traceback (most recent call last):
        shuffledp.core.errors.ParameterError: calibration='rough' must be 'exact' or 'paper'
        """
        if name not in [*cls, *(each.value for each in cls)]:
            raise ParameterError("calibration", name, "must be 'exact' or 'paper'")
        return cls(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one user sends."""

    messages_mean: float
    messages_max: int
    bits_per_message: int
    count_depends_on_value: bool
    """If so, the transport must hide how many messages each user sends."""


@runtime_checkable
class Accountant(Protocol):
    """What the view of a protocol promises, as far as it depends on who is honest."""

    def guarantee(self, honest: int) -> Guarantee:
        """The guarantee if so many users (the protected one included) follow the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconditional:
    """An accountant whose guarantee needs nobody else: that of the local model."""

    always: Guarantee

    def guarantee(self, honest: int) -> Guarantee:
        return self.always


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleProtocol:
    """P = (R, A) and what it promises; `name` and `parameters` rebuild it."""

    name: str
    parameters: Parameters
    task: str
    randomizer: Randomizer
    analyzer: Analyzer
    guarantee: Guarantee
    cost: Cost
    accountant: Accountant
    users: int | None = None
    """How many users are expected; None if it does not matter, as in the local model."""
    local_floor: Guarantee | None = None
    """What still holds if the shuffler tells the analyzer who sent what; None: nothing."""

    def guarantee_if(self, honest: float) -> Guarantee:
        """What is left if only this fraction of the expected users follows the protocol.

        >>> from shuffledp import protocols
        >>> protocols.krr.make_local(k=4, epsilon=1.0).guarantee_if(honest=0.5).epsilon
        1.0
        """
        if self.users is None:
            return self.accountant.guarantee(1)
        return self.accountant.guarantee(honest_users(self.users, honest))


def honest_users(n: int, honest: float) -> int:
    """How many of n users a fraction `honest` is, rounded down.

    >>> honest_users(1001, 0.9)
    900
    """
    users = whole("n", n, at_least=1)
    share = number("honest", honest)
    if not 0 < share <= 1:
        raise ParameterError("honest", honest, "must be > 0 and <= 1")
    count = math.floor(Fraction(repr(share)) * users)  # 0.7 means 7/10, not the float below it
    if count < 1:
        raise ParameterError("honest", honest, f"must leave at least one of n={n} users")
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A line of the registry: all that tests, docs, planner and command line need to know.

    `make_local(epsilon=..., ...)` builds the protocol of the local model, `make(n=..., epsilon=...,
    delta=..., honest=..., ...)` that of the shuffle model; a protocol has one of them or both.
    """

    name: str
    title: str
    task: str
    reference: str
    make_local: Callable[..., ShuffleProtocol] | None = None
    examples: tuple[Parameters, ...] = ()
    """Ordinary parameters of `make_local`."""
    enumerable: tuple[Parameters, ...] = ()
    """Parameters of `make_local` so small that a test can run every tape."""
    make: Callable[..., ShuffleProtocol] | None = None
    shuffled_examples: tuple[Parameters, ...] = ()
    """Ordinary parameters of `make`."""
    shuffled_enumerable: tuple[Parameters, ...] = ()
    """Parameters of `make` so small that a test can run every tape and every data set."""
