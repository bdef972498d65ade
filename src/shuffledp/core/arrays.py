"""Names for the array types that travel between the stages."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Counts", "Floats", "Words", "outside"]

Codes: TypeAlias = NDArray[np.integer[Any]]
"""0-based positions in a domain, one per user."""

Words: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""A stretch of the tape: uniform unsigned integers."""

Counts: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


def outside(array: Codes, size: int) -> Bools | None:
    """Which entries are not in 0 .. size-1, or None if all are.

    >>> outside(np.array([0, -1, 2]), 3)
    array([False,  True, False])
    """
    # A negative number read as unsigned is huge, so one pass over the data checks both ends.
    unsigned = array.view(array.dtype.str.replace("i", "u"))
    if len(array) == 0 or int(unsigned.max()) < size:
        return None
    return unsigned >= size
