"""How many people say yes, and the sum and the mean of everybody's numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate, Value
from shuffledp.core.display import shorten_label
from shuffledp.core.domain import Bits, Domain, Integers, Reals
from shuffledp.core.errors import MismatchError, ParameterError, UnsupportedError
from shuffledp.core.task import Column, Declared, Option, Task, say_of
from shuffledp.core.validate import number, positive, whole
from shuffledp.numerics.rounding import float_above

LOWER = Option(name="lower", kind=float, help="The smallest value, publicly known.")
UPPER = Option(name="upper", kind=float, help="The largest value, publicly known.")
STEPS = Option(name="steps", kind=int, help="Steps of the grid for real numbers.")

_LARGEST = 2**53  # beyond it, integers are read as real numbers
_COARSEST, _FINEST = 4, 1 << 21  # steps for real numbers if none are given
_USUAL_LEVEL = 0.95
_MOST_INTEGERS = 1 << 22  # more are rounded at random to a grid, as reals are


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers(Task):
    """What a sum and a mean share: the numbers."""

    options = (LOWER, UPPER, STEPS)
    adds = True
    live = (Reals,)

    domain: Domain
    chosen: bool = False
    """Whether nobody asked for the steps of the grid: they are chosen for n and epsilon."""

    def __post_init__(self) -> None:
        _check_numbers(self.domain)

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        given = cls.read_options(options)
        domain = _declare(cls.name, given, column)
        chosen = isinstance(domain, Reals) and "steps" not in given
        return Declared(task=cls(domain=domain, chosen=chosen))

    def fit(self, n: int, epsilon: float) -> Task:
        if not self.chosen or not isinstance(self.domain, Reals):
            return self
        return replace(self, domain=replace(self.domain, steps=choose_steps(n, epsilon)))

    def remarks(self) -> tuple[str, ...]:
        if not isinstance(self.domain, Reals) or not self.chosen:
            return ()
        steps, step = self.domain.steps, (self.domain.upper - self.domain.lower) / self.domain.steps
        return (
            f"Values are rounded at random, without bias, to a public grid of {steps:,} steps of {step:.6g}; "
            "`steps` chooses another.",
        )

    def relate(self, n: int) -> float:
        width = float(_reach(self.domain)) if isinstance(self.domain, Integers | Reals) else 1.0
        return width * (1.0 if self.average else float(n))

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
    average = dated = True

    def sensitivity(self, n: int) -> float:
        return float_above(_reach(self.domain) / n)

    def truth(self, values: ArrayLike) -> float:
        total, n = exact_sum(self.domain, values)
        return total / n

    @classmethod
    def tell(cls, estimate: Estimate) -> tuple[str, ...]:
        """Say so if the mean is a ratio of which nothing is known."""
        from shuffledp.numerics.intervals.sample import RatioError

        law = estimate.error
        if not isinstance(law, RatioError) or not law.covers_all(_USUAL_LEVEL):
            return ()
        return (
            "So few values count, if any, that all that was seen may be noise: nothing is known about the mean.",
        )


def choose_steps(n: int, epsilon: float) -> int:
    """Choose the steps of a grid so fine that rounding to it at random costs less than 1 % of the error.

    Rounding n values costs a variance of at most n/4 squared steps. The least that privacy costs, in the central
    model, is about 2 (steps / epsilon)^2. With steps >= 2.5 epsilon sqrt(n) the first is below 2 % of the
    second, and so 1 % of the error. It is a power of two, which suits every protocol.

    >>> choose_steps(1_000_000, 1.0)
    4096
    """
    people = whole("n", n, at_least=1)
    wanted = min(max(2.5 * positive("epsilon", epsilon) * math.sqrt(people), _COARSEST), _FINEST)
    return 1 << math.ceil(math.log2(wanted))


def exact_sum(domain: Domain, values: ArrayLike) -> tuple[float, int]:
    """Return the sum of values that are all in the domain, rounded once at the end, and their number.

    It is the sum of the values as given: a protocol that first rounds them to a grid is judged by
    what was asked.

    >>> exact_sum(Reals(lower=0.0, upper=1.0, steps=1), [0.1] * 10)
    (1.0, 10)
    """
    domain.codes(values)
    column = np.asarray(values)
    return math.fsum(column.tolist()), len(column)


def squared_error(estimate: Value, truth: Value) -> float:
    """Return (estimate - truth)^2 of two numbers.

    >>> squared_error(3.0, 1.0)
    4.0
    """
    for name, value in (("estimate", estimate), ("truth", truth)):
        if np.shape(value) != ():
            raise MismatchError(f"the {name} must be one number, but has shape {np.shape(value)}")
    return mean_square(estimate, truth)


def mean_square(estimate: Value, truth: Value) -> float:
    """Return the mean of (estimate - truth)^2 over the numbers of an answer.

    >>> mean_square(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    2.0
    """
    if np.shape(estimate) != np.shape(truth):
        raise MismatchError(
            f"the estimate has shape {np.shape(estimate)}, the truth {np.shape(truth)}"
        )
    return float(np.mean(np.square(np.asarray(estimate) - np.asarray(truth))))


def is_whole(value: float) -> bool:
    """Return whether a number has no fraction.

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
    """Return by how much one person can move the sum."""
    ends = _ends(domain)
    return Fraction(ends["upper"]) - Fraction(ends["lower"])


def _declare(task: str, given: dict[str, Any], column: Column | None) -> Integers | Reals:
    if column is None or column.boolean:  # a plan, where nobody's value is at stake; or yes and no
        given = {"lower": 0, "upper": 1, **given}
    lower, upper = read_ends(task, given)
    if lower >= upper:
        raise ParameterError("upper", _make_plain(upper), f"must be > lower={_make_plain(lower)}")
    if "steps" in given:
        return Reals(lower=lower, upper=upper, steps=given["steps"])
    wide = upper - lower >= _MOST_INTEGERS or max(abs(lower), abs(upper)) > _LARGEST
    if wide or has_fractions(given, column) or not (is_whole(lower) and is_whole(upper)):
        return _lay_grid(lower, upper)
    return Integers(lower=int(lower), upper=int(upper))


def has_fractions(given: Mapping[str, Any], column: Column | None) -> bool:
    """Return whether numbers are reals: by the type of the column; of text, and in a plan, if an end is written as 0.0.

    The values themselves must not decide: that one of them is not an integer would reveal somebody's value.

    >>> has_fractions({"lower": 0, "upper": 10}, None), has_fractions({"lower": 0.0, "upper": 10}, None)
    (False, True)
    """
    if column is None or column.text:
        return isinstance(given["lower"], float) or isinstance(given["upper"], float)
    return column.fractional


def read_ends(task: str, given: Mapping[str, Any]) -> tuple[float, float]:
    """Return the smallest and the largest value, which must be given.

    >>> read_ends("sum", {"lower": 0})
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: a sum needs both `lower` and `upper`, from public knowledge: the smallest and the largest value in the data would reveal somebody's value
    """
    if not {"lower", "upper"} <= set(given):
        raise UnsupportedError(
            f"{say_of(task, 'needs')} both `lower` and `upper`, from public knowledge: the smallest and the largest "
            "value in the data would reveal somebody's value"
        )
    return number("lower", given["lower"]), number("upper", given["upper"])


def _lay_grid(lower: float, upper: float) -> Reals:
    try:
        return Reals(lower=lower, upper=upper, steps=_COARSEST)
    except ParameterError as error:
        if error.name != "steps":
            raise
        raise ParameterError(
            "upper",
            _make_plain(upper),
            f"must be farther from lower={_make_plain(lower)}: floating-point numbers there are too far apart",
        ) from None


def _make_plain(end: float) -> float:
    return int(end) if is_whole(end) else end


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
