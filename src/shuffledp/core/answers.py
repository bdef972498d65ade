"""The domain of a person who answers several questions: one value of each of several domains.

A joint code counts all combinations, the last answer first: code = a_1 + size_1 (a_2 + size_2 (...)). Few
questions have few enough combinations for that, so whoever has the answers as columns keeps them as
columns: `split` and `join` go from one to the other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Codes, Floats
from shuffledp.core.domain import Domain, check_integers, check_within, column
from shuffledp.core.errors import MismatchError, ParameterError, UnsupportedError

Columns: TypeAlias = Sequence[Codes]
"""The codes of everybody's answers: one array for each question."""

_MOST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers to several questions, each from a domain of its own.

    >>> from shuffledp import Bits, Categories
    >>> both = Answers(parts=(Bits(), Categories(k=3)))
    >>> both.size, both.codes(([True, False], [2, 1]))
    (6, array([5, 2]))
    >>> both.split(np.array([5, 2]))
    (array([1, 0]), array([2, 1]))
    """

    parts: tuple[Domain, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise ParameterError("parts", self.parts, "must be at least one domain")

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts))

    @property
    def size(self) -> int:
        return math.prod(part.size for part in self.parts)

    @property
    def labels(self) -> tuple[str, ...]:
        columns = self.split(np.arange(self.size))
        names = [part.labels for part in self.parts]
        rows = zip(*(codes.tolist() for codes in columns), strict=True)
        return tuple(
            ", ".join(name[code] for name, code in zip(names, row, strict=True)) for row in rows
        )

    def codes(self, values: Any) -> Codes:
        """Joint codes of joint codes, or of a tuple, list or mapping of columns of values."""
        if isinstance(values, Mapping):
            values = tuple(values.values())
        if isinstance(values, tuple | list) and len(values) > 0 and np.ndim(values[0]) == 1:
            return self.join(self.columns(values))
        array = check_integers(column(values), "joint codes are integers")
        return check_within(array, self.size, f"0 .. {self.size - 1}")

    def columns(self, values: Sequence[ArrayLike]) -> tuple[Codes, ...]:
        """Return the codes of each column, by its own domain.

        >>> from shuffledp import Bits
        >>> Answers(parts=(Bits(), Bits())).columns(([0, 1], [1]))
        Traceback (most recent call last):
        shuffledp.core.errors.MismatchError: everybody answers every question, but the columns have 2 and 1 values
        """
        if len(values) != len(self.parts):
            raise MismatchError(f"{len(values)} columns for {len(self.parts)} questions")
        columns = tuple(part.codes(each) for part, each in zip(self.parts, values, strict=True))
        lengths = sorted({len(codes) for codes in columns}, reverse=True)
        if len(lengths) > 1:
            raise MismatchError(
                "everybody answers every question, but the columns have "
                f"{' and '.join(map(str, lengths))} values"
            )
        return columns

    def join(self, columns: Columns) -> Codes:
        """Return one code for each person; raise `UnsupportedError` if there are too many combinations."""
        if self.size > _MOST:
            raise UnsupportedError(
                f"{self.size:.3g} combinations of answers have no joint code: keep them as columns"
            )
        joint = np.zeros(len(columns[0]), dtype=np.int64)
        for part, codes in zip(reversed(self.parts), reversed(columns), strict=True):
            joint = joint * part.size + codes
        return joint

    def split(self, codes: Codes) -> tuple[Codes, ...]:
        """Return the code of each answer."""
        split: list[Codes] = []
        rest: Any = codes
        for part in self.parts:
            split.append(rest % part.size)
            rest = rest // part.size
        return tuple(split)

    def values(self, codes: Codes) -> Floats:
        return codes.astype(np.float64)
