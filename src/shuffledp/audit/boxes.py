"""Boxes of data sets: how many users hold each input, from low to high."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Box", "chains"]

_Users = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """All z with low <= z <= high (for each input) and `users` users in total; the ends are tight.

    >>> box = Box.whole(2, 4)
    >>> [half.low for half in box.halves()], list(box)
    ([(0, 2), (3, 0)], [(0, 4), (1, 3), (2, 2), (3, 1), (4, 0)])
    """

    low: _Users
    high: _Users
    users: int

    @classmethod
    def whole(cls, inputs: int, users: int) -> "Box":
        """Every data set.

        >>> Box.whole(3, 5).high
        (5, 5, 5)
        """
        return cls(low=(0,) * inputs, high=(users,) * inputs, users=users)

    def halves(self) -> list["Box"]:
        """Two boxes that share nothing, cut across the widest side."""
        widths = [high - low for low, high in zip(self.low, self.high, strict=True)]
        side = widths.index(max(widths))
        middle = (self.low[side] + self.high[side]) // 2
        below = self._with(self.low, _at(self.high, side, middle))
        above = self._with(_at(self.low, side, middle + 1), self.high)
        return [half for half in (below, above) if half is not None]

    def _with(self, low: _Users, high: _Users) -> "Box | None":
        """The box with its ends tightened: the total is known. None if it is empty."""
        spare, missing = self.users - sum(low), self.users - sum(high)
        if spare < 0 or missing > 0:
            return None
        tight_high = tuple(min(h, lo + spare) for lo, h in zip(low, high, strict=True))
        tight_low = tuple(max(lo, h + missing) for lo, h in zip(low, high, strict=True))
        return Box(low=tight_low, high=tight_high, users=self.users)

    def size_at_most(self, limit: int) -> bool:
        """Whether the box has at most so many data sets."""
        spare = self.users - sum(self.low)
        if math.comb(spare + len(self.low) - 1, spare) <= limit:
            return True
        ways = [1] + [0] * spare
        for low, high in zip(self.low, self.high, strict=True):
            ways = [sum(ways[max(0, s - high + low) : s + 1]) for s in range(spare + 1)]
        return ways[spare] <= limit

    def __iter__(self) -> Iterator[_Users]:
        yield from _fill((), self.low, self.high, self.users)


def chains(box: Box) -> Iterator[tuple[list[_Users], dict[int, tuple[list[int], list[int]]]]]:
    """From low to all data sets of a box, one user at a time.

    Yields, for each number of users, the data sets on the way, and for each input x the positions of
    those that x completes and of what they were before.

    >>> [columns for columns, _ in chains(Box.whole(2, 2))]
    [[(0, 1), (1, 0)], [(0, 2), (1, 1), (2, 0)]]
    """
    levels = [sorted(box)]
    while levels[-1] != [box.low]:
        levels.append(sorted({_before(z, box.low)[1] for z in levels[-1]}))
    for parents, columns in pairwise(reversed(levels)):
        place = {z: i for i, z in enumerate(parents)}
        steps: dict[int, tuple[list[int], list[int]]] = {}
        for i, z in enumerate(columns):
            x, parent = _before(z, box.low)
            children, origins = steps.setdefault(x, ([], []))
            children.append(i)
            origins.append(place[parent])
        yield columns, steps


def _before(z: _Users, low: _Users) -> tuple[int, _Users]:
    """The last input that z has more of than low, and z without one of it."""
    x = max(i for i, (some, least) in enumerate(zip(z, low, strict=True)) if some > least)
    return x, _at(z, x, z[x] - 1)


def _at(values: _Users, place: int, value: int) -> _Users:
    return (*values[:place], value, *values[place + 1 :])


def _fill(done: _Users, low: _Users, high: _Users, users: int) -> Iterator[_Users]:
    if len(done) == len(low) - 1:
        if low[-1] <= users <= high[-1]:
            yield (*done, users)
        return
    for count in range(low[len(done)], min(high[len(done)], users) + 1):
        yield from _fill((*done, count), low, high, users - count)
