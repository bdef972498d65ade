"""Monotone inversion that always returns the safe end."""

import math
from collections.abc import Callable

__all__ = ["largest_above", "smallest_safe"]


def smallest_safe(
    excess: Callable[[float], float],
    *,
    safe: float,
    guess: float,
    tolerance: float = 1e-6,
    floor: float = 0.0,
) -> float:
    """Nearly the smallest x in [floor, safe] with excess(x) <= 0, for a decreasing `excess`.

    `safe` itself must be safe and is returned if nothing smaller is found. The result is a point
    where `excess` was evaluated and found <= 0, so an `excess` that is not perfectly monotone costs
    sharpness and never safety. The search stops when the bracket is narrower than `tolerance`
    relative to x.

    >>> round(smallest_safe(lambda x: 2 - x * x, safe=10.0, guess=1.0), 5)
    1.41421
    """
    return _bracket(excess, floor, safe, guess, tolerance)[1]


def largest_above(
    excess: Callable[[float], float],
    *,
    end: float,
    guess: float,
    tolerance: float = 1e-6,
    floor: float = 0.0,
) -> float:
    """Nearly the largest x in [floor, end] with excess(x) > 0, for a decreasing `excess`.

    The result is a point where `excess` was found > 0, or `floor`.

    >>> round(largest_above(lambda x: 2 - x * x, end=10.0, guess=1.0), 5)
    1.41421
    """
    return _bracket(excess, floor, end, guess, tolerance)[0]


def _bracket(
    excess: Callable[[float], float], floor: float, end: float, guess: float, tolerance: float
) -> tuple[float, float]:
    """(last x found with excess > 0, or floor; first x found with excess <= 0, or end)."""
    low, at_low = floor, math.inf
    high, at_high = end, -math.inf
    x = guess if floor < guess < end else (floor + end) / 2
    run = 0  # how often in a row the upper end (positive) or the lower end (negative) moved
    while high - low > tolerance * high:
        value = excess(x)
        if value <= 0:
            high, at_high, run = x, value, max(run, 0) + 1
        else:
            low, at_low, run = x, value, min(run, 0) - 1
        if math.isinf(at_low):
            at_low = excess(floor)
            if at_low <= 0:
                return floor, floor
        x = _next(low, at_low, high, at_high, run, tolerance)
    return low, high


def _next(
    low: float, at_low: float, high: float, at_high: float, run: int, tolerance: float
) -> float:
    """Where to look next, strictly inside the bracket."""
    middle = (low + high) / 2
    if math.isinf(
        at_high
    ):  # all we know of the safe end is that it is safe: grow, faster and faster
        return min(low * 2.0 ** abs(run), middle) if low > 0 else middle
    if abs(run) >= 3:  # the same end moved again and again: halve
        return math.sqrt(low * high) if low > 0 else high / 2
    # The chord, nudged past the root so that the bracket closes from both sides.
    chord = low + (high - low) * at_low / (at_low - at_high)
    nudge = 0.3 * tolerance * high
    return min(max(chord + (nudge if run < 0 else -nudge), low + nudge), high - nudge)
