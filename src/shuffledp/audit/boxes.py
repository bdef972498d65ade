"""Boxes of data sets: how many users hold each input, from low to high; and what all inputs share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

__all__ = ["Blanket", "Box"]

_STEPS = (-3, -2, -1, -0.5, 0, 0.5, 1)

_Users = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """All z with low <= z <= high (for each input) and `users` users in total; the ends are tight.

    >>> box = Box.whole(2, 4)
    >>> [half.low for half in box.halves()]
    [(0, 2), (3, 0)]
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

    @property
    def single(self) -> bool:
        """Whether there is one data set left: `low` itself."""
        return sum(self.low) == self.users


def _at(values: _Users, place: int, value: int) -> _Users:
    return (*values[:place], value, *values[place + 1 :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Blanket:
    """The common part of several laws: with probability gamma a user sends by `law`, whatever the input.

    >>> half = Fraction(1, 2)
    >>> Blanket.of([(half, half, Fraction(0)), (Fraction(0), half, half)]).law
    (0.0, 1.0, 0.0)
    """

    gamma: float
    law: tuple[float, ...]

    @classmethod
    def of(cls, laws: Sequence[Sequence[Fraction]]) -> "Blanket":
        """The largest common part.

        >>> half = Fraction(1, 2)
        >>> Blanket.of([(half, half), (1 - half / 2, half / 2)]).gamma
        0.75
        """
        common = [min(column) for column in zip(*laws, strict=True)]
        gamma = sum(common, Fraction(0))
        if gamma == 0:
            return cls(gamma=0.0, law=(0.0,) * len(common))
        return cls(gamma=float(gamma), law=tuple(float(q / gamma) for q in common))

    def shares(self, users: int) -> tuple[tuple[int, float], ...]:
        """How many of the users send by `law`, rounded down to a few values, with their probabilities.

        >>> [(b, round(share, 4)) for b, share in Blanket(gamma=0.5, law=(1.0,)).shares(2)]
        [(0, 0.25), (1, 0.5), (2, 0.25)]
        """
        return _shares(users, self.gamma)


@lru_cache(maxsize=4096)
def _shares(users: int, gamma: float) -> tuple[tuple[int, float], ...]:
    from scipy.stats import binom

    middle, spread = users * gamma, math.sqrt(users * gamma * (1 - gamma))
    places = {math.ceil(middle + step * spread) for step in _STEPS} if users > 4 else range(users)
    starts = sorted({0, *(b for b in places if 0 < b <= users), users if users <= 4 else 0})
    # A blanket may be taken to be a little less likely than it is. SciPy's tails are good to more
    # than nine digits; rounding each share up makes up for that.
    tails = [float(binom.sf(b - 1, users, gamma * (1 - 1e-12))) for b in starts] + [0.0]
    return tuple(
        (b, (this - following) * (1 + 1e-9) + 1e-14)
        for b, (this, following) in zip(starts, pairwise(tails), strict=True)
    )
