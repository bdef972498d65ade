"""Checks that the mechanisms share: exact parameters, and answers of the declared shape and type."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.estimate import Value
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.validate import positive
from shuffledp.numerics.exact_draws import SMALLEST_RATE

LARGEST_ANSWER = 1 << 53


def read_exactly(name: str, value: float) -> Fraction:
    """Return a positive parameter as the rational number that it is.

    >>> read_exactly("epsilon", 0.5)
    Fraction(1, 2)
    """
    exact = Fraction(positive(name, value))
    if exact != value:
        raise ParameterError(name, value, "must be a float, or an integer up to 2^53")
    return exact


def promise_pure(epsilon: float, proof: str) -> Guarantee:
    """Return what a curator promises with delta = 0."""
    return Guarantee(epsilon=epsilon, delta=0.0, model=Model.CENTRAL, proof=proof)


def find_rate(epsilon: float, reach: int) -> Fraction:
    """epsilon / reach, exactly; refused if the noise would not fit into 64-bit integers.

    >>> find_rate(0.5, 3)
    Fraction(1, 6)
    """
    rate = read_exactly("epsilon", epsilon) / reach
    if rate < SMALLEST_RATE:
        raise ParameterError("epsilon", epsilon, f"must be at least 2^-50 times the reach {reach}")
    return rate


def read_integers(answer: ArrayLike, k: int) -> Counts:
    """Return the exact answer as int64[k].

    >>> read_integers(7, 1)
    array([7])
    """
    array = _check_shape(np.asarray(answer), k)
    if array.dtype.kind not in "iu":
        raise DataError(f"the exact answer must be integers, but has type {array.dtype}")
    if np.any(array > LARGEST_ANSWER) or np.any(array < -LARGEST_ANSWER):
        raise DataError("the exact answer must be within -2^53 .. 2^53")
    return array.astype(np.int64)


def read_reals(answer: ArrayLike, k: int) -> Floats:
    """Return the exact answer as float64[k].

    >>> read_reals([1, 2], 2)
    array([1., 2.])
    """
    array = _check_shape(np.asarray(answer), k)
    if array.dtype.kind in "iu":
        return read_integers(array, k).astype(np.float64)
    if array.dtype != np.float64:
        raise DataError(f"the exact answer must be float64 or integers, not {array.dtype}")
    if not np.isfinite(array).all():
        raise DataError("the exact answer must be finite")
    return array.astype(np.float64)


def shape_like(values: Floats, answer: ArrayLike) -> Value:
    """values[k] as one float if the answer was one number.

    >>> shape_like(np.array([2.0]), 7)
    2.0
    """
    return float(values[0]) if np.ndim(answer) == 0 else values


def _check_shape(array: NDArray[Any], k: int) -> NDArray[Any]:
    wanted = [(k,), ()] if k == 1 else [(k,)]
    if array.shape not in wanted:
        raise DataError(f"the exact answer must be k={k} numbers, but has shape {array.shape}")
    return array.reshape(k)
