"""Names for the array types that travel between the stages."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Counts", "Floats", "Words"]

Codes: TypeAlias = NDArray[np.integer[Any]]
"""0-based positions in a domain, one per user."""

Words: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""A stretch of the tape: uniform unsigned integers."""

Counts: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
