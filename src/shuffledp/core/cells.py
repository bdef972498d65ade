"""Cells: a range of real numbers in parts, of which only the number of the part is sent."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Codes, Floats
from shuffledp.core.domain import read_reals
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import number, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Real numbers in [lower, upper], in `cells` parts of the same length.

    A value on the edge between two cells belongs to the lower one, `lower` to the first: so the cells up to an edge
    hold everybody with at most that value.

    >>> Cells(lower=0.0, upper=1.0, cells=4).codes([0.0, 0.3, 0.5, 1.0])
    array([0, 1, 1, 3])
    """

    lower: float
    upper: float
    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", number("lower", self.lower))
        object.__setattr__(self, "upper", number("upper", self.upper))
        if self.lower >= self.upper:
            raise ParameterError("upper", self.upper, f"must be > lower={self.lower!r}")
        object.__setattr__(self, "cells", whole("steps", self.cells, at_least=2))
        number("upper - lower", self.upper - self.lower)

    def __str__(self) -> str:
        return f"reals in [{self.lower:g}, {self.upper:g}] in {self.cells:,} cells"

    @property
    def size(self) -> int:
        return self.cells

    @property
    def edges(self) -> Floats:
        """The ends of the cells, from `lower` to `upper`.

        >>> Cells(lower=0.0, upper=8.25, cells=33).edges[:9].tolist()[-1]
        2.0
        """
        reach, places = self.upper - self.lower, np.arange(self.cells + 1)
        if math.isinf(reach * self.cells):
            inner = self.lower + reach * (places / self.cells)
        else:  # so that an edge that is a float is exact
            inner = self.lower + reach * places / self.cells
        inner[-1] = self.upper
        return inner

    @property
    def labels(self) -> tuple[str, ...]:
        return _name_cells(self.edges)

    def codes(self, values: ArrayLike) -> Codes:
        reals = read_reals(values, self.lower, self.upper)
        return _clip_to_cells(np.searchsorted(self.edges, reals, side="left"), self.size)

    def values(self, codes: Codes) -> Floats:
        """Return the middle of each cell."""
        return self.lower + (self.upper - self.lower) * ((codes + 0.5) / self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Real numbers in parts with the given edges; a value on an edge belongs to the upper part.

    >>> Bins(edges=(0, 18, 65, 120)).labels
    ('0 to 18', '18 to 65', '65 to 120')
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        edges = tuple(number("edges", edge) for edge in self.edges)
        object.__setattr__(self, "edges", edges)
        if len(edges) < 3:
            raise ParameterError("edges", self.edges, "must be at least three: two bins")
        if any(a >= b for a, b in pairwise(edges)):
            raise ParameterError("edges", self.edges, "must increase")

    @property
    def lower(self) -> float:
        """The smallest value."""
        return self.edges[0]

    @property
    def upper(self) -> float:
        """The largest value."""
        return self.edges[-1]

    def __str__(self) -> str:
        return f"reals in {self.size:,} bins from {self.edges[0]:g} to {self.edges[-1]:g}"

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        return _name_cells(np.array(self.edges))

    def codes(self, values: ArrayLike) -> Codes:
        reals = read_reals(values, self.lower, self.upper)
        return _clip_to_cells(np.searchsorted(self.edges, reals, side="right"), self.size)

    def values(self, codes: Codes) -> Floats:
        """Return the middle of each bin."""
        edges = np.array(self.edges)
        middles: Floats = (edges[:-1] + edges[1:]) / 2
        return middles[codes]


def _name_cells(edges: Floats) -> tuple[str, ...]:
    ends = [f"{edge:.12g}" for edge in edges.tolist()]
    return tuple(f"{low} to {high}" for low, high in pairwise(ends))


def _clip_to_cells(after: Codes, size: int) -> Codes:
    """Return the cells before these edges; the ends belong to the first and the last one."""
    return np.clip(after - 1, 0, size - 1).astype(np.int64)
