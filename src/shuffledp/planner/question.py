"""What is asked of the planner: a question, a number of users, a guarantee, and what may be spent."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.core.domain import Domain, Integers, Reals
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import honest_users
from shuffledp.core.task import Task
from shuffledp.core.validate import number, positive, whole
from shuffledp.tasks import task_named

__all__ = ["MOST_VALUES", "Asked", "Limits", "planned"]

MOST_VALUES = 1 << 22
"""Values of a domain up to which errors are computed exactly, value by value."""

_LARGEST_EPSILON = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may be spent, and whom one may trust.

    >>> Limits.of(max_messages=8, max_bits=None, trust=["shuffle"]).max_messages
    8.0
    """

    max_messages: float | None
    max_bits: float | None
    trust: frozenset[Model]

    @classmethod
    def of(
        cls, *, max_messages: float | None, max_bits: float | None, trust: Iterable[str] | str
    ) -> "Limits":
        """Checked."""
        return cls(
            max_messages=_at_least_one("max_messages", max_messages),
            max_bits=_at_least_one("max_bits", max_bits),
            trust=_models(trust),
        )


def _at_least_one(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    checked = positive(name, value)
    if checked < 1:
        raise ParameterError(name, value, "must be >= 1")
    return checked


def _models(trust: Iterable[str] | str) -> frozenset[Model]:
    names = [trust] if isinstance(trust, str) else list(trust)
    known = {each.value: each for each in Model}
    if not names or any(name not in known for name in names):
        raise ParameterError("trust", trust, f"must be some of {', '.join(known)}")
    return frozenset(known[name] for name in names)


def planned(name: str) -> type[Task]:
    """The task of that name, if the planner ranks its protocols.

    >>> planned("mean").__name__
    'Mean'
    >>> planned("uniformity")
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: the planner does not rank protocols for uniformity: see sdp.test_uniform
    """
    task = task_named(name)
    if task.elsewhere is not None:
        raise UnsupportedError(
            f"the planner does not rank protocols for {name}: see {task.elsewhere}"
        )
    return task


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question with all its numbers, checked; hashable, so that answers can be remembered.

    >>> Asked.of("count", n=1000, epsilon=1.0, delta=1e-6, honest=0.9).domain
    Bits()
    """

    task: Task
    n: int
    epsilon: float
    delta: float
    honest: float

    @classmethod
    def of(
        cls,
        task: str | Task,
        *,
        n: int,
        epsilon: float,
        delta: float,
        honest: float,
        **options: Any,
    ) -> "Asked":
        """Checked, with Python's own numbers; a task by name is declared by the options."""
        users, share = whole("n", n, at_least=1), number("honest", honest)
        honest_users(users, share)
        question = planned(task).declare(options).task if isinstance(task, str) else task
        return cls(
            task=_small(question),
            n=users,
            epsilon=_epsilon(epsilon),
            delta=_delta(delta),
            honest=share,
        )

    @property
    def domain(self) -> Domain:
        """Where the values come from."""
        return self.task.domain

    @property
    def size(self) -> int:
        """How many values a person can have."""
        return self.domain.size

    @property
    def raw_bits(self) -> int:
        """Bits of a value in the clear."""
        return (self.size - 1).bit_length()

    @property
    def steps(self) -> int | None:
        """Steps of the grid, for reals."""
        return self.domain.steps if isinstance(self.domain, Reals) else None

    @property
    def range(self) -> Fraction:
        """By how much one person can move the sum."""
        if isinstance(self.domain, Integers | Reals):
            return Fraction(self.domain.upper) - Fraction(self.domain.lower)
        return Fraction(1)

    @property
    def rounding(self) -> float:
        """The most that rounding to the grid moves the sum of n values between its points.

        >>> Asked.of("sum", n=100, epsilon=1.0, delta=0, honest=1.0, upper=1.0, steps=10).rounding
        5.0
        """
        if self.steps is None:
            return 0.0
        return float(self.n * self.range / (2 * self.steps))


def _epsilon(value: float) -> float:
    checked = positive("epsilon", value)
    if checked > _LARGEST_EPSILON:
        raise ParameterError(
            "epsilon", value, f"must be <= {_LARGEST_EPSILON:g}: beyond is no privacy"
        )
    return checked


def _delta(value: float) -> float:
    checked = number("delta", value)
    if not 0 <= checked < 1:
        raise ParameterError("delta", value, "must be >= 0 and < 1")
    return checked


def _small(task: Task) -> Task:
    size = task.domain.size
    if size > MOST_VALUES:
        raise ParameterError(
            "domain",
            task.domain,
            f"has {size:,} values: errors are computed for up to {MOST_VALUES:,}",
        )
    return task
