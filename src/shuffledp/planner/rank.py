"""Which row comes first, and which one is chosen."""

import math
from collections.abc import Iterable
from enum import Enum

from shuffledp.core.privacy import Model
from shuffledp.planner.row import Row

__all__ = ["SAME", "Aim", "choose", "merit", "ranked"]

SAME = 1.25
"""Errors up to so many times the smallest count as equal."""
_SAME_SEARCHED = 1.002  # what the searches for epsilon and n leave open


class Aim(Enum):
    """What the plan is to make small."""

    ERROR = "error"
    EPSILON = "epsilon"
    USERS = "n"


def ranked(rows: Iterable[Row], aim: Aim) -> tuple[Row, ...]:
    """Available rows first, the best first; with equal merit fewer bits first.

    >>> low, high = (Row(protocol=name, model=Model.LOCAL, rmse=error) for name, error in (("a", 1.0), ("b", 2.0)))
    >>> [row.protocol for row in ranked([high, low], Aim.ERROR)]
    ['a', 'b']
    """
    return tuple(sorted(rows, key=lambda row: _key(row, aim)))


def _key(row: Row, aim: Aim) -> tuple[bool, float, float]:
    return not row.available, merit(row, aim), _bits(row)


def merit(row: Row, aim: Aim) -> float:
    """What is to be small; infinite where there is none."""
    if aim is Aim.ERROR:
        value: float | None = row.rmse
    elif aim is Aim.EPSILON:
        value = None if row.guarantee is None else row.guarantee.epsilon
    else:
        value = row.n
    return math.inf if value is None else float(value)


def _bits(row: Row) -> float:
    return math.inf if row.bits_per_user is None else row.bits_per_user


def choose(rows: Iterable[Row], aim: Aim) -> Row | None:
    """Of the rows that are nearly the best the one with the fewest bits; a curator only if need be.

    >>> few = Row(protocol="few", model=Model.SHUFFLE, rmse=1.2, bits_per_user=1.0)
    >>> many = Row(protocol="many", model=Model.SHUFFLE, rmse=1.0, bits_per_user=100.0)
    >>> curator = Row(protocol="curator", model=Model.CENTRAL, rmse=0.9, bits_per_user=1.0)
    >>> choose([few, many, curator], Aim.ERROR).protocol
    'few'
    >>> choose([curator], Aim.ERROR).protocol
    'curator'
    """
    available = [row for row in rows if row.available]
    without = [row for row in available if row.model is not Model.CENTRAL]
    candidates = without or available
    if not candidates:
        return None
    same = SAME if aim is Aim.ERROR else _SAME_SEARCHED
    most = same * min(merit(row, aim) for row in candidates)
    return min(
        (row for row in candidates if merit(row, aim) <= most),
        key=lambda row: (_bits(row), merit(row, aim)),
    )
