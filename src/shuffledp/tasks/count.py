"""How many people say yes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from shuffledp.core.display import shorten_label
from shuffledp.core.domain import Bits
from shuffledp.core.errors import ParameterError
from shuffledp.core.estimate import Value
from shuffledp.core.task import Column, Declared, Option, Task
from shuffledp.tasks.totals import squared_error

TRUE_VALUE = Option(
    name="true_value", kind=str, help="The value that counts as yes; every other value is no."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Task):
    """The number of ones among bits.

    >>> task = Count(domain=Bits())
    >>> task.truth([True, False, True]), task.loss(5.0, 2.0)
    (2.0, 9.0)
    """

    name = "count"
    counts = True
    yes_or_no = True
    live = (Bits,)
    title = "how many people say yes"
    options = (TRUE_VALUE,)
    answered_by = ("count", "sum")  # a count is the sum of bits
    answer = total = "the count"

    domain: Bits

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Bits):
            raise ParameterError("domain", self.domain, "must be Bits")

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        wanted = cls.read_options(options).get("true_value")
        if wanted is None:
            return Declared(task=cls(domain=Bits()))
        note = f"Yes is the value {shorten_label(wanted)!r}; every other value is no."
        return Declared(task=cls(domain=Bits(true_value=wanted)), notes=(note,))

    def arguments(self) -> Mapping[str, Any]:
        return {"lower": 0, "upper": 1, "steps": None, "task": "sum"}

    def sensitivity(self, n: int) -> float:
        return 1

    def truth(self, values: ArrayLike) -> float:
        return float(self.domain.codes(values).sum(dtype="int64"))

    def loss(self, estimate: Value, truth: Value) -> float:
        return squared_error(estimate, truth)
