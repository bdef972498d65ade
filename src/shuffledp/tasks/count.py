"""How many people say yes."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from shuffledp.core.domain import Bits
from shuffledp.core.errors import ParameterError
from shuffledp.core.estimate import Value
from shuffledp.tasks._scalar import squared_error

__all__ = ["Count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of ones among bits.

    >>> task = Count(domain=Bits())
    >>> task.truth([True, False, True]), task.loss(5.0, 2.0)
    (2.0, 9.0)
    """

    domain: Bits

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Bits):
            raise ParameterError("domain", self.domain, "must be Bits")

    @property
    def task(self) -> str:
        return "count"

    def truth(self, values: ArrayLike) -> float:
        return float(self.domain.codes(values).sum(dtype="int64"))

    def loss(self, estimate: Value, truth: Value) -> float:
        return squared_error(estimate, truth)
