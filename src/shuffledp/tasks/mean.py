"""The average of everybody's numbers."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from shuffledp.core.domain import Domain
from shuffledp.core.estimate import Value
from shuffledp.tasks._scalar import check_numbers, exact_sum, squared_error

__all__ = ["Mean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The mean of numbers.

    >>> from shuffledp import Reals
    >>> task = Mean(domain=Reals(lower=0.0, upper=1.0, steps=10))
    >>> task.truth([0.25, 0.75]), task.loss(0.25, 0.5)
    (0.5, 0.0625)
    """

    domain: Domain

    def __post_init__(self) -> None:
        check_numbers(self.domain)

    @property
    def task(self) -> str:
        return "mean"

    def truth(self, values: ArrayLike) -> float:
        total, n = exact_sum(self.domain, values)
        return total / n

    def loss(self, estimate: Value, truth: Value) -> float:
        return squared_error(estimate, truth)
