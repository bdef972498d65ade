"""Monotone inversion that always returns the safe end."""

import math
from collections.abc import Callable
from dataclasses import dataclass


def find_smallest_safe(
    excess: Callable[[float], float],
    *,
    safe: float,
    guess: float,
    tolerance: float = 1e-6,
    floor: float = 0.0,
) -> float:
    """Find nearly the smallest x in [floor, safe] with excess(x) <= 0, for a decreasing `excess`.

    `safe` itself must be safe and is returned if nothing smaller is found. The result is a point
    where `excess` was evaluated and found <= 0, so an `excess` that is not perfectly monotone costs
    sharpness and never safety. The search stops when the bracket is narrower than `tolerance`
    relative to x.

    >>> round(find_smallest_safe(lambda x: 2 - x * x, safe=10.0, guess=1.0), 5)
    1.41421
    """
    return _bracket(excess, floor, safe, guess, tolerance, lambda: excess(floor) <= 0)[1]


def find_largest_above(
    excess: Callable[[float], float],
    *,
    end: float,
    guess: float,
    tolerance: float = 1e-6,
    floor: float = 0.0,
) -> float:
    """Find nearly the largest x in [floor, end] with excess(x) > 0, for a decreasing `excess`.

    The result is a point where `excess` was found > 0, or `floor`.

    >>> round(find_largest_above(lambda x: 2 - x * x, end=10.0, guess=1.0), 5)
    1.41421
    """
    return _bracket(excess, floor, end, guess, tolerance, lambda: excess(floor) <= 0)[0]


def find_smallest(
    excess: Callable[[float], float], *, guess: float, largest: float, tolerance: float = 1e-6
) -> float | None:
    """Return nearly the smallest x in (0, largest] with excess(x) <= 0; None if `largest` is not safe.

    The result was evaluated and found safe, whether or not `excess` is perfectly monotone. Nothing below
    a 10^-9th of the guess is looked at.

    >>> round(find_smallest(lambda x: 2 - x * x, guess=0.1, largest=1e9), 5)
    1.41421
    >>> find_smallest(lambda x: 2 - x * x, guess=0.1, largest=1.0)
    """
    if guess >= largest and excess(largest) > 0:
        return None
    start = min(guess, 0.9 * largest)
    smallest = _bracket(excess, 1e-9 * start, largest, start, tolerance, lambda: False)[1]
    return None if smallest == largest and excess(largest) > 0 else smallest


def _bracket(
    excess: Callable[[float], float],
    floor: float,
    end: float,
    guess: float,
    tolerance: float,
    floor_is_safe: Callable[[], bool],
) -> tuple[float, float]:
    """Return (last x found with excess > 0, or floor; first x found with excess <= 0, or end)."""
    seen = _Seen(low=floor, high=end)
    x = guess if floor < guess < end else (floor + end) / 2
    while seen.high - seen.low > tolerance * seen.high:
        seen.add(x, excess(x))
        if seen.above is None and seen.asked == 1 and floor_is_safe():
            return floor, floor
        x = seen.choose_next(tolerance)
    return seen.low, seen.high


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What a search knows: a bracket, and the last two points."""

    low: float
    high: float
    above: float | None = None
    """The last x found with excess > 0."""
    below: float | None = None
    """The last x found with excess <= 0."""
    asked: int = 0
    slow: int = 0
    """How often in a row the bracket did not shrink to half."""
    last: tuple[float, float] = (math.nan, math.nan)
    before: tuple[float, float] = (math.nan, math.nan)

    def add(self, x: float, value: float) -> None:
        width = self.high - self.low
        if value > 0:
            self.low = self.above = x
        else:
            self.high = self.below = x
        self.slow = self.slow + 1 if self.high - self.low > width / 2 else 0
        self.before, self.last = self.last, (x, value)
        self.asked += 1

    def choose_next(self, tolerance: float) -> float:
        """Return where to look next, strictly inside the bracket."""
        nudge = 0.3 * tolerance * self.high
        x = self._secant()
        if self.above is None or self.below is None:
            x = self._go_further(x)
        elif math.isnan(x) or self.slow >= 2:
            x = self._middle()
        else:  # past the root, so that the bracket closes from both sides
            x += nudge if self.last[1] > 0 else -nudge
        return min(max(x, self.low + nudge), self.high - nudge)

    def _secant(self) -> float:
        """Return where the line through the last two points is 0; NaN if that does not help."""
        (x1, y1), (x0, y0) = self.last, self.before
        if not math.isfinite(y1 - y0) or y1 == y0:
            return math.nan
        x = x1 - y1 * (x1 - x0) / (y1 - y0)
        return x if self.low < x < self.high else math.nan

    def _go_further(self, x: float) -> float:
        """Step where the secant points, ever faster: all points lie on one side so far."""
        factor = 1 + 0.02 * 4.0 ** min(self.asked, 40)
        if self.below is None:
            most = min(self.low * factor, self._middle()) if self.low > 0 else self._middle()
            return most if math.isnan(x) else min(x * (1 + 1e-3), most)
        least = max(self.high / factor, self._middle() if self.low > 0 else 0.0)
        return least if math.isnan(x) else max(x * (1 - 1e-3), least)

    def _middle(self) -> float:
        if self.low <= 0:
            return self.high / 16 if self.below is not None else self.high / 2
        # Ends of one size are halved, others on the logarithmic scale.
        if self.high > 4 * self.low and self.below is not None:
            return math.sqrt(self.low * self.high)
        return (self.low + self.high) / 2
