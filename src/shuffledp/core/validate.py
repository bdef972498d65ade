"""Checks of parameters, once, at construction; each raises name, value and requirement."""

import math
from numbers import Integral, Real

from shuffledp.core.errors import ParameterError


def number(name: str, value: object) -> float:
    """Return `value` as a finite float.

    >>> number("lower", 3)
    3.0
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(name, value, "must be a number")
    try:
        result = float(value)
    except OverflowError:  # an integer beyond every float
        result = math.inf
    if not math.isfinite(result):
        raise ParameterError(name, value, "must be finite")
    return result


def positive(name: str, value: object) -> float:
    """Return `value` as a finite float above 0.

    >>> positive("epsilon", 0)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: epsilon=0 must be > 0
    """
    result = number(name, value)
    if result <= 0:
        raise ParameterError(name, value, "must be > 0")
    return result


def non_negative(name: str, value: object) -> float:
    """Return `value` as a finite float of at least 0.

    >>> non_negative("epsilon", 0)
    0.0
    """
    result = number(name, value)
    if result < 0:
        raise ParameterError(name, value, "must be >= 0")
    return result


def below_one(name: str, value: object) -> float:
    """Return `value` as a float of at least 0 and below 1.

    >>> below_one("delta", 1)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: delta=1 must be >= 0 and < 1
    """
    result = number(name, value)
    if not 0 <= result < 1:
        raise ParameterError(name, value, "must be >= 0 and < 1")
    return result


def fraction_of_one(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1.

    >>> fraction_of_one("delta", 1e-6)
    1e-06
    """
    result = number(name, value)
    if not 0 < result < 1:
        raise ParameterError(name, value, "must be > 0 and < 1")
    return result


def level(value: object) -> float:
    """Return a confidence level strictly between 0 and 1.

    >>> level(0.95)
    0.95
    """
    return fraction_of_one("level", value)


def whole(name: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int within the given ends.

    >>> whole("k", 1, at_least=2)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: k=1 must be >= 2
    """
    # Nearly always it is an int, and to ask for less takes ten times as long.
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise ParameterError(name, value, "must be an integer")
    result = int(value)
    if result < at_least:
        raise ParameterError(name, value, f"must be >= {at_least}")
    if at_most is not None and result > at_most:
        raise ParameterError(name, value, f"must be <= {at_most}")
    return result
