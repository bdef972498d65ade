"""What everybody's numbers add up to, and their average: two questions about one kind of domain."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.domain import Bits, Domain, Integers, Reals
from shuffledp.core.errors import MismatchError, ParameterError, UnsupportedError
from shuffledp.core.estimate import Value
from shuffledp.core.task import Column, Declared, Option, Task
from shuffledp.core.validate import number
from shuffledp.numerics.rounding import float_above

__all__ = ["LOWER", "STEPS", "UPPER", "Mean", "Sum", "exact_sum", "is_whole", "squared_error"]

LOWER = Option(name="lower", kind=float, help="The smallest value, publicly known.")
UPPER = Option(name="upper", kind=float, help="The largest value, publicly known.")
STEPS = Option(name="steps", kind=int, help="Steps of the grid for real numbers.")

_GRID = 10_000  # steps for real numbers if none are given
_MOST_STEPS = 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers(Task):
    """What a sum and a mean share: the numbers."""

    options = (LOWER, UPPER, STEPS)

    domain: Domain

    def __post_init__(self) -> None:
        _check_numbers(self.domain)

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        domain, notes = _declare(cls.name, cls.given(options), column)
        return Declared(task=cls(domain=domain), notes=notes)

    def arguments(self) -> Mapping[str, Any]:
        return {**_ends(self.domain), "task": self.name}

    def loss(self, estimate: Value, truth: Value) -> float:
        return squared_error(estimate, truth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(_Numbers):
    """The sum of numbers.

    >>> task = Sum(domain=Integers(lower=0, upper=9))
    >>> task.truth([1, 2, 9]), task.loss(10.0, 12.0)
    (12.0, 4.0)
    """

    name = "sum"
    title = "what everybody's numbers add up to"
    answered_by = ("sum", "mean")  # n is public
    answer = total = "the sum"

    def sensitivity(self, n: int) -> float:
        reach = _reach(self.domain)
        return float_above(reach) if isinstance(self.domain, Reals) else int(reach)

    def truth(self, values: ArrayLike) -> float:
        total, _ = exact_sum(self.domain, values)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(_Numbers):
    """The mean of numbers.

    >>> task = Mean(domain=Reals(lower=0.0, upper=1.0, steps=10))
    >>> task.truth([0.25, 0.75]), task.loss(0.25, 0.5)
    (0.5, 0.0625)
    """

    name = "mean"
    title = "the average of everybody's numbers"
    answered_by = ("mean", "sum")
    answer, total = "the mean", "the sum"
    average = True

    def sensitivity(self, n: int) -> float:
        return float_above(_reach(self.domain) / n)

    def truth(self, values: ArrayLike) -> float:
        total, n = exact_sum(self.domain, values)
        return total / n


def exact_sum(domain: Domain, values: ArrayLike) -> tuple[float, int]:
    """The sum of values that are all in the domain, rounded once at the end, and their number.

    It is the sum of the values as given: a protocol that first rounds them to a grid is judged by
    what was asked.

    >>> exact_sum(Reals(lower=0.0, upper=1.0, steps=1), [0.1] * 10)
    (1.0, 10)
    """
    domain.codes(values)
    column = np.asarray(values)
    return math.fsum(column.tolist()), len(column)


def squared_error(estimate: Value, truth: Value) -> float:
    """(estimate - truth)^2 of two numbers.

    >>> squared_error(3.0, 1.0)
    4.0
    """
    for name, value in (("estimate", estimate), ("truth", truth)):
        if np.shape(value) != ():
            raise MismatchError(f"the {name} must be one number, but has shape {np.shape(value)}")
    difference = float(estimate) - float(truth)
    return difference * difference


def is_whole(value: float) -> bool:
    """Whether a number has no fraction.

    >>> is_whole(3.0), is_whole(0.5), is_whole(math.inf)
    (True, False, False)
    """
    return math.isfinite(value) and value == math.floor(value)


def _check_numbers(domain: Domain) -> None:
    if not isinstance(domain, Bits | Integers | Reals):
        raise ParameterError("domain", domain, "must be of numbers: Bits, Integers or Reals")


def _ends(domain: Domain) -> dict[str, Any]:
    if isinstance(domain, Reals):
        return {"lower": domain.lower, "upper": domain.upper, "steps": domain.steps}
    if isinstance(domain, Integers):
        return {"lower": domain.lower, "upper": domain.upper, "steps": None}
    return {"lower": 0, "upper": 1, "steps": None}


def _reach(domain: Domain) -> Fraction:
    """By how much one person can move the sum."""
    ends = _ends(domain)
    return Fraction(ends["upper"]) - Fraction(ends["lower"])


def _declare(
    task: str, given: dict[str, Any], column: Column | None
) -> tuple[Integers | Reals, tuple[str, ...]]:
    if column is None or column.boolean:  # a plan, where nobody's value is at stake; or yes and no
        given = {"lower": 0, "upper": 1, **given}
    if not {"lower", "upper"} <= set(given):
        raise UnsupportedError(
            f"a {task} needs both lower and upper, from public knowledge: the smallest and the largest "
            "value in the data would tell somebody's value"
        )
    lower, upper = number("lower", given["lower"]), number("upper", given["upper"])
    if lower >= upper:
        raise ParameterError("upper", _plain(upper), f"must be > lower={_plain(lower)}")
    if "steps" in given:
        return Reals(lower=lower, upper=upper, steps=given["steps"]), ()
    if column is None:
        return _planned_integers(given["lower"], given["upper"]), ()
    if is_whole(lower) and is_whole(upper) and not column.fractional:
        return Integers(lower=int(lower), upper=int(upper)), ()
    steps = _choose_steps(lower, upper)
    step = (upper - lower) / steps
    note = (
        f"Values were rounded to a public grid of {steps:,} steps of {step:.6g}, each by at most "
        f"{step / 2:.6g}; `steps` chooses another."
    )
    return Reals(lower=lower, upper=upper, steps=steps), (note,)


def _plain(end: float) -> float:
    return int(end) if is_whole(end) else end


def _choose_steps(lower: float, upper: float) -> int:
    """At least 10,000 steps; between whole ends, so many that every integer is on the grid.

    >>> _choose_steps(0, 120), _choose_steps(0, 0.5)
    (10080, 10000)
    """
    reach = upper - lower
    if not (is_whole(lower) and is_whole(upper) and 0 < reach <= _MOST_STEPS):
        return _GRID
    return int(reach) * math.ceil(_GRID / reach)


def _planned_integers(lower: float, upper: float) -> Integers:
    for name, end in (("lower", lower), ("upper", upper)):
        if not is_whole(end) or isinstance(end, float):
            raise ParameterError(
                name, end, "must be an integer, unless `steps` makes a grid of reals"
            )
    return Integers(lower=int(lower), upper=int(upper))
