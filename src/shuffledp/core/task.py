"""Concept 6, the task: the question, its true answer on a data set, and the loss of an estimate."""

from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from shuffledp.core.domain import Domain
from shuffledp.core.estimate import Value

__all__ = ["Task"]


@runtime_checkable
class Task(Protocol):
    """A question about a column of values from a public domain."""

    @property
    def task(self) -> str:
        """Its name: count, sum, mean, histogram, ..."""

    @property
    def domain(self) -> Domain:
        """Where the values come from."""

    def truth(self, values: ArrayLike) -> Value:
        """The exact answer."""

    def loss(self, estimate: Value, truth: Value) -> float:
        """How wrong an estimate is.

        The squared error; its average over the bins for a histogram, total variation for a distribution,
        and whether a verdict is wrong.
        """
