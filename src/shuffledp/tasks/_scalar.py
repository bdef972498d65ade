"""What the tasks share whose answer is one number."""

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.domain import Bits, Domain, Integers, Reals
from shuffledp.core.errors import MismatchError, ParameterError
from shuffledp.core.estimate import Value

__all__ = ["check_numbers", "exact_sum", "squared_error"]


def check_numbers(domain: Domain) -> None:
    """Refuse a domain whose values are not numbers: categories have no sum."""
    if not isinstance(domain, Bits | Integers | Reals):
        raise ParameterError("domain", domain, "must be of numbers: Bits, Integers or Reals")


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
