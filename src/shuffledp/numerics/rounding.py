"""The safe side: rational enclosures of e^x and logarithms, floats beside exact numbers, and searches.

e^x is the only transcendental number that samplers need; audits need ln x, too.

Python's `decimal` rounds exp correctly at any precision, on every platform, so one unit in the last
place on either side is a proof, not a hope.

Searches invert what falls or rises, and always return the safe end.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

UNIT = 2.0**-53
"""The relative rounding error of one floating-point operation.

One assumption is made about the machine: elementary functions (exp, log1p, sin, ...) of Python and NumPy are
wrong by at most eight of these, which are four units in the last place, as NumPy documents."""

_LOG_DIGITS = 40
_VANISHING = 20_000  # beyond this |x|, e^x has thousands of digits and nobody needs them


@lru_cache(maxsize=1024)
def exp_bounds(x: Fraction | float, digits: int = 50) -> tuple[Fraction, Fraction]:
    """Return fractions (low, high) with low <= e^x <= high, within 10^(1 - digits) of each other.

    >>> low, high = exp_bounds(1.0)
    >>> low < high and float(low) == float(high) == 2.718281828459045
    True
    """
    exact = Fraction(x)
    if exact == 0:
        return Fraction(1), Fraction(1)
    if exact > _VANISHING:
        raise OverflowError(f"e^{float(exact)} is too large to write down")
    if exact < -_VANISHING:
        return Fraction(0), exp_bounds(Fraction(-_VANISHING), 10)[1]
    # |x| <= 20000 has up to 5 digits before the point: carry them so that e^x keeps `digits`.
    down, up = _ratio(exact, digits + 8)
    context = _context(digits + 2)
    low = context.next_minus(down.exp(context))
    high = context.next_plus(up.exp(context))
    return Fraction(low), Fraction(high)


def exp_lower(x: Fraction | float) -> Fraction:
    """Return a fraction at most e^x: by less than one part in 10^48 up to x = 20,000, and e^20,000 beyond.

    >>> exp_lower(1.0) < exp_upper(1.0)
    True
    """
    return exp_bounds(min(Fraction(x), Fraction(_VANISHING)))[0]


def exp_upper(x: Fraction | float) -> Fraction:
    """Return a fraction at least e^x, by less than one part in 10^48."""
    return exp_bounds(x)[1]


def float_above(value: Fraction | Decimal) -> float:
    """Return the smallest float that is at least `value`.

    >>> float_above(Fraction(1, 3)) > Fraction(1, 3), float_above(Fraction(1, 4))
    (True, 0.25)
    >>> Decimal(float_above(Decimal("0.1"))) >= Decimal("0.1")
    True
    """
    near = float(value)  # rounded correctly, so one step is enough; comparisons are exact
    return near if near >= value else math.nextafter(near, math.inf)


def float_below(value: Fraction | Decimal) -> float:
    """Return the largest float that is at most `value`.

    >>> float_below(Fraction(2, 3)) < Fraction(2, 3) < float_above(Fraction(2, 3))
    True
    >>> float_below(Fraction(1, 4))
    0.25
    """
    near = float(value)
    return near if near <= value else math.nextafter(near, -math.inf)


def log_upper(ratio: Fraction | float) -> float:
    """Return the smallest float that is surely at least ln ratio, for a ratio above 0 (or infinite).

    >>> log_upper(Fraction(1)), log_upper(Fraction(5, 2)), log_upper(math.inf)
    (0.0, 0.9162907318741551, inf)
    """
    if ratio == math.inf:
        return math.inf
    exact = Fraction(ratio)
    if exact == 1:
        return 0.0
    # ln(1 + d) loses the digits that d has after the point, so small d are written with more.
    away = exact - 1
    small = (away.denominator.bit_length() - away.numerator.bit_length()) * 3 // 10
    context = Context(prec=_LOG_DIGITS + 2 * max(0, small), rounding=ROUND_CEILING)
    up = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return float_above(context.next_plus(up.ln(context)))


def log_lower(ratio: Fraction) -> float:
    """Return the largest float that is surely at most ln ratio; minus infinity at 0.

    >>> log_lower(Fraction(2, 5)), log_lower(Fraction(0))
    (-0.9162907318741551, -inf)
    """
    return -log_upper(1 / ratio) if ratio else -math.inf


def dyadic_above(x: Fraction | float, bits: int) -> Fraction:
    """Return the smallest multiple of 2^-bits that is at least x: what words of that many bits can decide.

    >>> dyadic_above(0.3, 2)
    Fraction(1, 2)
    """
    return Fraction(math.ceil(Fraction(x) * (1 << bits)), 1 << bits)


def _ratio(x: Fraction, digits: int) -> tuple[Decimal, Decimal]:
    numerator, denominator = Decimal(x.numerator), Decimal(x.denominator)
    down = _context(digits, ROUND_FLOOR).divide(numerator, denominator)
    up = _context(digits, ROUND_CEILING).divide(numerator, denominator)
    return down, up


def _context(digits: int, rounding: str | None = None) -> Context:
    return Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)


def shorten(x: float) -> float:
    """Round x > 0 down to 30 bits, so at least to x (1 - 2^-29): nearly equal numbers become equal.

    >>> shorten(0.5), shorten(1e-8) == shorten(1e-8 * (1 + 1e-13)), shorten(1e-8) <= 1e-8
    (0.5, True, True)
    """
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(mantissa, 30)), exponent - 30)


def find_first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Find the smallest integer above `low` that `holds`, by halving: if one does, so do all larger ones, and `high`.

    >>> find_first(lambda n: n * n >= 50, 0, 100)
    8
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


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
        # Where even the guess is safe, everything may be: looking at the end first saves the search.
        if seen.above is None and seen.asked == 1 and floor_is_safe():
            return floor, floor
        x = seen.choose_next(tolerance)
    return seen.low, seen.high


@dataclass(slots=True, kw_only=True)
class _Seen:
    """The state of a search: a bracket, and the last two points."""

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
        # A thousandth beyond the root that the line names: if it is right, the root is between two points.
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
