"""Names for the array types that travel between the stages, and two things that NumPy does slowly."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Codes: TypeAlias = NDArray[np.integer[Any]]
"""0-based positions in a domain, one per user."""

Words: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""A stretch of the tape: uniform unsigned integers."""

Counts: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

_FREED_BYTES = 31 << 20
_Number = TypeVar("_Number", bound=np.generic)


def distinct(values: NDArray[_Number]) -> NDArray[_Number]:
    """Return the values that occur, in their order: `np.unique`, which loads masked arrays for it.

    >>> distinct(np.array([3.0, 1.0, 3.0])), distinct(np.zeros(0))
    (array([1., 3.]), array([], dtype=float64))
    """
    ordered = np.sort(values, axis=None)
    new = np.append(np.ones(min(1, len(ordered)), np.bool_), ordered[1:] != ordered[:-1])
    first_of_each: NDArray[_Number] = ordered[new]
    return first_of_each


def keep_freed_memory() -> None:
    """Let the allocator keep some megabytes between chunks instead of asking the system each time.

    Chunk after chunk allocates and frees the same few arrays. By default glibc hands each of them
    back to the system, which costs several times more than the arithmetic. It learns from what is
    freed: after one large array it keeps smaller ones. Elsewhere this does nothing.

    >>> keep_freed_memory()
    """
    np.empty(_FREED_BYTES, dtype=np.uint8)  # never touched, so it takes no memory
