"""The largest scale of several budgets that keeps a promise: a search with few looks, as each one is dear."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from shuffledp.accounting.base import gaussian_scale
from shuffledp.core.errors import ShuffledpError, UnsupportedError
from shuffledp.core.protocol import Promise

__all__ = ["find_bend", "search_scale"]

_CLOSE = 0.03  # below ln(delta asked for): where the search ends
_TRIES = 16
_SAME_SCALE = 1e-4
_NEAR = 1.0
_SHARP = 6.0  # deltas down to a 400th of the promise are sharp
_LARGE = 1e-3
Made = TypeVar("Made")


def find_bend(promise: Promise) -> float:
    """How steep ln(delta) of a Gaussian pair is in 1 / mu^2 at the promise, beside the line to where it is 0.

    >>> round(find_bend(Promise(epsilon=1.0, delta=1e-8)), 2)
    0.78
    """
    near = replace(promise, delta=1.1 * promise.delta)
    if near.delta > _LARGE:
        return 1.0
    here, there = (gaussian_scale(each) ** -2 for each in (promise, near))
    return math.log(1.1) / (here - there) / (-math.log(promise.delta) / here)


def search_scale(
    at: Callable[[float], tuple[Made, float]], start: float, wanted: float, bend: float = 1.0
) -> Made:
    """What `at` makes, with its ln(delta), at nearly the largest scale whose ln(delta) is at most what is wanted.

    ln(delta) is about linear in 1 / scale^2, and 0 at 0, as for Gaussian pairs: by secants. Near the end it is less
    steep, by `bend`.

    >>> made = search_scale(lambda scale: (scale, -1 / scale**2), start=0.5, wanted=-9.0)
    >>> round(made, 2)
    0.33
    """
    scale = start
    best: _Best[Made] = _Best(bend)
    for _ in range(_TRIES):
        try:
            best.add(scale, at(scale), wanted)
        except ShuffledpError as error:
            best.refuse(scale, error)
        if best.close(wanted):
            break
        scale = best.choose(scale, wanted)
    if best.made is not None:
        return best.made
    raise best.refusal or UnsupportedError("no budget of the parts keeps the promise")


class _Best(Generic[Made]):
    """What a search has found so far."""

    def __init__(self, bend: float = 1.0) -> None:
        self.bend = bend
        self.made: Made | None = None
        self.reached = -math.inf
        self.low, self.high = 0.0, math.inf
        self.seen: list[tuple[float, float]] = []  # (1 / scale^2, ln(delta))
        self.refusal: ShuffledpError | None = None

    def add(self, scale: float, tried: tuple[Made, float], wanted: float) -> None:
        made, reached = tried
        self.seen.append((scale**-2, reached))
        if reached > wanted:
            self.high = min(self.high, scale)
        elif scale > self.low:
            self.made, self.reached, self.low = made, reached, scale

    def refuse(self, scale: float, error: ShuffledpError) -> None:
        self.refusal, self.high = error, min(self.high, scale)

    def close(self, wanted: float) -> bool:
        near = self.reached > wanted - _CLOSE or self.high < self.low * (1 + _SAME_SCALE)
        return self.made is not None and near

    def choose(self, scale: float, wanted: float) -> float:
        """The next value to try: a little on the safe side of the secant through the last two points."""
        # Far below what is wanted, deltas are not sharp.
        sharp = [(0.0, 0.0), *(point for point in self.seen if point[1] > wanted - _SHARP)]
        if self.reached > wanted - _SHARP or self.made is None:
            first = len(sharp) == 2 and abs(sharp[1][1] - wanted) < _NEAR
            further = _follow(sharp[-2:], wanted - _CLOSE / 2, scale, self.bend if first else 1.0)
            if self.low < further < self.high:
                return further
        if self.low == 0.0:
            return 0.7 * min(self.high, scale)
        return math.sqrt(self.low * self.high) if math.isfinite(self.high) else 1.4 * self.low


def _follow(
    points: Sequence[tuple[float, float]], wanted: float, scale: float, bend: float = 1.0
) -> float:
    """The scale where the line through these points reaches what is wanted, not too far away; 0 if it does not."""
    (x0, y0), (x1, y1) = points if len(points) == 2 else [points[0]] * 2
    rise = bend * (y1 - y0) / (x1 - x0) if x1 != x0 else 0.0
    x = x1 + (wanted - y1) / rise if rise < 0 else 0.0
    return min(max(x**-0.5, scale / 3), 3 * scale) if x > 0 else 0.0
