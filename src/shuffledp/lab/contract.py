"""What an experiment is given, and what it gives back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from shuffledp.core.errors import ParameterError
from shuffledp.numerics.entropy import SeededWords

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Context", "Drawn", "Effort", "Experiment", "Result", "Verdict"]

T = TypeVar("T")


class Effort(Enum):
    """How much work a run may do.

    >>> Effort("quick")
    <Effort.QUICK: 'quick'>
    """

    QUICK = "quick"
    """Everything within two minutes: fewer trials, fewer points."""
    FULL = "full"
    """Half an hour at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One claim, what was measured, and whether the two agree.

    >>> Verdict(claim="2 + 2 is 5", measured="4", agrees=False, why="a slip of the pen").why
    'a slip of the pen'
    """

    claim: str
    measured: str
    agrees: bool
    why: str = ""
    """The reason if they differ, for the reader of the page."""

    def __post_init__(self) -> None:
        # A comparison of NumPy numbers gives NumPy's bool, which JSON does not know.
        object.__setattr__(self, "agrees", bool(self.agrees))
        for name in ("claim", "measured"):
            if not getattr(self, name).strip():
                raise ParameterError(name, getattr(self, name), "must not be empty")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """A figure with the name of its file and a caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """What an experiment found."""

    verdicts: tuple[Verdict, ...]
    figures: tuple[Drawn, ...]
    rows: tuple[Mapping[str, object], ...]
    """The numbers behind it, for the CSV file; all rows have the keys of the first."""
    parameters: Mapping[str, object]

    def __post_init__(self) -> None:
        if not self.verdicts or not self.figures or not self.rows:
            raise ParameterError("result", self.parameters, "must have verdicts, figures and rows")
        if any(set(row) != set(self.rows[0]) for row in self.rows):
            raise ParameterError("rows", self.rows[0], "must all have the same keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """How much work to do, and a source of reproducible randomness.

    Experiments use made-up data, so their randomness may have a seed.

    >>> context = Context(name="coins", effort=Effort.QUICK)
    >>> context.pick(quick=100, full=10_000)
    100
    >>> context.words("trials").words(1) == context.words("trials").words(1)
    array([ True])
    """

    name: str
    effort: Effort

    def pick(self, *, quick: T, full: T) -> T:
        """One of two values, by the effort."""
        return quick if self.effort is Effort.QUICK else full

    def words(self, label: str) -> SeededWords:
        """Return a word source that depends on the experiment and the label alone."""
        return SeededWords(self._seed(label))

    def generator(self, label: str) -> np.random.Generator:
        """Return the same for NumPy's own distributions.

        >>> Context(name="coins", effort=Effort.FULL).generator("x").integers(10, size=3).shape
        (3,)
        """
        return np.random.default_rng(self._seed(label))

    def _seed(self, label: str) -> int:
        digest = hashlib.sha256(f"{self.name}/{label}".encode()).digest()
        return int.from_bytes(digest[:7], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A loaded `run.py`."""

    name: str
    title: str
    about: str
    """What it does, and why."""
    order: int
    """Its place in the report."""
    run: Callable[[Context], Result]
