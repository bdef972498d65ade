"""Central model, one file each: the baseline that every protocol is compared with.

A trusted curator computes the exact answer and calls `release(exact_answer, rng)` (or, to choose from a list,
`select(utilities, rng)`). All noise is integer and drawn from exactly the law that the guarantee is about.

The checks here are those that mechanisms share: exact parameters, and answers of the declared shape and type.
"""

from collections.abc import Collection
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core import load_later
from shuffledp.core.analyzer import Value
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import (
    CentralMechanism,
    Mechanism,
    MechanismSpec,
    Parameters,
    Selection,
    Selector,
)
from shuffledp.core.validate import positive
from shuffledp.numerics.entropy import SMALLEST_RATE

__all__ = [
    "MECHANISMS",
    "REGISTRY",
    "CentralMechanism",
    "MechanismSpec",
    "Selection",
    "Selector",
    "binomial",
    "exponential",
    "frequency_list",
    "geometric",
    "geometric_tree",
    "laplace",
    "list_answering",
    "permute_and_flip",
    "rebuild",
    "selection",
    "spec",
    "stability_histogram",
]


REGISTRY: dict[str, tuple[str, ...]] = {
    "laplace": ("sum", "mean"),
    "geometric": ("count", "sum", "histogram"),
    "exponential": (),
    "permute_and_flip": (),
    "binomial": ("count",),
    "stability_histogram": ("histogram", "words"),
    "geometric_tree": ("quantiles", "range", "cdf", "variance", "std"),
}
"""A line for each mechanism: its name and its tasks. Its file is loaded when somebody looks at it."""
_SELECTION = {"exponential": "EXPONENTIAL", "permute_and_flip": "PERMUTE_AND_FLIP"}

if TYPE_CHECKING:
    from shuffledp.mechanisms import (
        binomial,
        frequency_list,
        geometric,
        geometric_tree,
        laplace,
        selection,
        stability_histogram,
    )

    MECHANISMS: tuple[MechanismSpec, ...]
    exponential: MechanismSpec
    permute_and_flip: MechanismSpec

_FILES = (*(REGISTRY.keys() - _SELECTION.keys()), "frequency_list", "selection")
_find = load_later(__name__, {}, modules=_FILES)

if not TYPE_CHECKING:  # with it, every name would be Any

    def __getattr__(name: str) -> Any:
        if name == "MECHANISMS":
            return tuple(map(spec, REGISTRY))
        return spec(name) if name in _SELECTION else _find(name)


def list_answering(*tasks: str, names: Collection[str] | None = None) -> list[MechanismSpec]:
    """List the mechanisms that answer one of the tasks, or those of them that are named; others are not loaded.

    >>> [each.name for each in list_answering("mean")]
    ['laplace']
    """
    return [
        spec(name)
        for name, answered in REGISTRY.items()
        if not set(answered).isdisjoint(tasks) and (names is None or name in names)
    ]


def spec(name: str) -> MechanismSpec:
    """Return the registered mechanism of that name.

    >>> spec("laplace").title
    'Laplace mechanism on a grid'
    """
    if name not in REGISTRY:
        raise ParameterError("mechanism", name, f"must be one of {', '.join(REGISTRY)}")
    file, own = ("selection", _SELECTION[name]) if name in _SELECTION else (name, "SPEC")
    registered: MechanismSpec = getattr(import_module(f"{__name__}.{file}"), own)
    return registered


def rebuild(name: str, parameters: Parameters) -> Mechanism | Selector:
    """Return the mechanism that a name and its parameters (e.g. from JSON) describe.

    >>> mechanism = spec("geometric").make(epsilon=1.0, sensitivity=1)
    >>> rebuild(mechanism.name, mechanism.parameters) == mechanism
    True
    """
    return spec(name).make(**parameters)


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
    """Return epsilon / reach, exactly; refuse it if the noise would not fit into 64-bit integers.

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
    """Return values[k], as one float if the answer was one number.

    >>> shape_like(np.array([2.0]), 7)
    2.0
    """
    return float(values[0]) if np.ndim(answer) == 0 else values


def _check_shape(array: NDArray[Any], k: int) -> NDArray[Any]:
    wanted = [(k,), ()] if k == 1 else [(k,)]
    if array.shape not in wanted:
        raise DataError(f"the exact answer must be k={k} numbers, but has shape {array.shape}")
    return array.reshape(k)
