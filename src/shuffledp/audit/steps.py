"""One more user: laws on one level of the lattice become laws on the next, as sparse matrices."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.audit.lattice import Lattice
from shuffledp.core.arrays import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["UNIT", "Steps"]

UNIT = 2.0**-53
"""Rounding error of one operation."""

_KEPT = 512


class Steps:
    """Adds a user with given weights on the sends; counts the elementary steps.

    >>> from fractions import Fraction
    >>> steps = Steps(Lattice([{(0,): Fraction(1)}, {(1,): Fraction(1)}], 2))
    >>> steps.add(1, (0.25, 0.75), np.array([0.5, 0.5]))
    array([0.125, 0.5  , 0.375])
    >>> steps.taken
    4
    """

    def __init__(self, lattice: Lattice) -> None:
        self.levels = [len(level) for level in lattice.levels]
        self.taken = 0
        self._moves = lattice.moves
        self._structure = lru_cache(maxsize=None)(self._sorted)
        self._matrix = lru_cache(maxsize=_KEPT)(self._made)

    def add(self, t: int, weights: tuple[float, ...], law: Floats) -> Floats:
        """sum over sends s of weights[s] times the law moved by s: from level t to level t + 1."""
        self.taken += len(law) * len(weights)
        result: Floats = self._matrix(t, weights) @ law
        return result

    def _made(self, t: int, weights: tuple[float, ...]) -> "csr_array[Any]":
        from scipy.sparse import csr_array

        sends, columns, ends = self._structure(t)
        data = np.array(weights)[sends]
        return csr_array((data, columns, ends), shape=(self.levels[t + 1], self.levels[t]))

    def _sorted(self, t: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Row by row of level t + 1: which sends lead there, and from where."""
        moves = self._moves(t)
        rows = np.concatenate(moves)
        order = np.argsort(rows, kind="stable")
        sends = np.repeat(np.arange(len(moves), dtype=np.int32), self.levels[t])[order]
        columns = np.tile(np.arange(self.levels[t], dtype=np.int32), len(moves))[order]
        counts = np.bincount(rows, minlength=self.levels[t + 1])
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return sends, columns, ends
