"""What everybody's numbers add up to."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from shuffledp.core.domain import Domain
from shuffledp.core.estimate import Value
from shuffledp.tasks._scalar import check_numbers, exact_sum, squared_error

__all__ = ["Sum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The sum of numbers.

    >>> from shuffledp import Integers
    >>> task = Sum(domain=Integers(lower=0, upper=9))
    >>> task.truth([1, 2, 9]), task.loss(10.0, 12.0)
    (12.0, 4.0)
    """

    domain: Domain

    def __post_init__(self) -> None:
        check_numbers(self.domain)

    @property
    def task(self) -> str:
        return "sum"

    def truth(self, values: ArrayLike) -> float:
        total, _ = exact_sum(self.domain, values)
        return total

    def loss(self, estimate: Value, truth: Value) -> float:
        return squared_error(estimate, truth)
