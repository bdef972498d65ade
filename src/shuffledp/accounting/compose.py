"""Several rounds: the same people are asked again, and the losses add up.

A round enters by its privacy curve alone: H(x), at least the hockey-stick divergence at epsilon = ln x. The
curve bounds both directions, so H(1/x) = 1 - (1 - H(x)) / x extends it to x < 1, and H(0) = 1. The true curve is
convex in x, so the lower convex hull of some points of H lies above it, and so does its continuation by the
last value. This piecewise linear function is itself a divergence: of a loss that is ln x_j with mass
p_j = x_j (slope after x_j - slope before), and infinite with mass H(x_last) (connect-the-dots: Doroshenko, Ghazi,
Kamath, Kumar, Manurangsi 2022). If each round's curve lies below that of such a loss, so does that of all rounds
below that of the sum of losses (Zhu, Dong, Wang 2022, "Optimal accounting of differential privacy via
characteristic function", Theorem 10): integrate one curve over the law of the other, for one round after
the other. It does not matter there whether masses sum to 1, so every mass may be rounded up.

The points are x_j = e^(j step), masses are whole multiples of 2^-bits, and sums of losses are products of
polynomials with whole coefficients: multiplied as one long integer each, exactly. No Fourier transform, no
rounding but the one upwards.

`compose_renyi` is an independent, looser way: the Renyi divergence of a curve, added over rounds.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.accounting.base import find_deltas, find_epsilon, guess_epsilon
from shuffledp.accounting.views import CUT, bound_renyi
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Profile
from shuffledp.core.validate import fraction_of_one, non_negative
from shuffledp.numerics.rounding import UNIT, exp_bounds, scale_above

__all__ = ["compose", "compose_curve", "compose_delta", "compose_renyi"]

_POINTS = 240  # of a curve, from 0 to where it ends
_SMALLEST_DELTA = 1e-100
_TAIL_SHARE = 1e-3  # of delta: where a curve ends, over all rounds
_CUT_SHARE = 1e-6  # of delta: what may be cut off at each end of a sum
_GUARD = 64  # bits of the points beyond those of the masses
_LEAST_STEP = 2.0**-40  # with this many guard bits, masses are off by less than one unit
_NEARBY = np.array([0.7, 0.9, 1.0, 1.1, 1.2, 1.35, 1.6])
_LEAST_END, _FIRST_END, _LAST_END, _WIDER = 1e-12, 0.1, 64.0, 3.0  # to look for the end of a curve


def compose(rounds: Sequence[Profile], *, delta: float) -> float:
    """The epsilon, at this delta, of all rounds together. Rounds may differ.

    It is never above the sum of their epsilons at equal shares of delta.

    >>> from shuffledp.accounting.amplify import profile
    >>> weekly = profile(epsilon0=1.0, n=10_000, honest=1)
    >>> 0.148 < compose([weekly] * 10, delta=1e-6) < 0.150
    True
    """
    wanted = fraction_of_one("delta", delta)
    _check_rounds(rounds)
    if wanted < _SMALLEST_DELTA:
        raise UnsupportedError(
            f"delta={delta!r} is below {_SMALLEST_DELTA:g}, where sums of losses take too long: "
            "use compose_renyi"
        )
    different = Counter(rounds)
    if len(rounds) == 1:
        return rounds[0].epsilon(wanted)
    share = wanted / len(rounds) * (1 - 2 * UNIT)
    plain = math.fsum(times * curve.epsilon(share) for curve, times in different.items())
    plain *= 1 + 4 * UNIT
    ends = {curve: curve.epsilon(_TAIL_SHARE * share) for curve in different}
    step = max(ends.values()) / _POINTS
    if step < _LEAST_STEP:  # nothing, or nearly nothing, is told
        return plain
    total = _add_losses(different, ends, step, wanted)
    return min(plain, total.epsilon(wanted, step, plain))


def compose_delta(
    rounds: Sequence[Profile], *, epsilon: float, near: float, points: int = _POINTS
) -> float:
    """At least the delta, at this epsilon, of all rounds together; sharp if it is not far below `near`.

    `points` of each curve are looked at: fewer are faster, and the bound is a little looser.

    >>> from shuffledp.accounting.amplify import profile
    >>> weekly = profile(epsilon0=1.0, n=10_000)
    >>> epsilon = compose([weekly] * 10, delta=1e-6)
    >>> 0.9e-6 < compose_delta([weekly] * 10, epsilon=epsilon, near=1e-6) <= 1e-6
    True
    """
    return compose_curve(rounds, near=near, points=points)(non_negative("epsilon", epsilon))


def compose_curve(
    rounds: Sequence[Profile], *, near: float, points: int = _POINTS
) -> Callable[[float], float]:
    """The same as a function of epsilon, which is faster for several of them.

    >>> from shuffledp.accounting.amplify import profile
    >>> delta_at = compose_curve([profile(epsilon0=1.0, n=10_000)] * 2, near=1e-6)
    >>> delta_at(0.02) > delta_at(0.08)
    True
    """
    wanted = max(fraction_of_one("near", near), _SMALLEST_DELTA)
    _check_rounds(rounds)
    if len(rounds) == 1:
        return lambda epsilon: min(1.0, rounds[0].delta(epsilon))
    apart, step, total = _sum_up(tuple(rounds), wanted, points)
    curve = None if total is None else total.curve(step)
    return lambda epsilon: min(1.0, apart, math.inf if curve is None else curve(epsilon))


def _check_rounds(rounds: Sequence[Profile]) -> None:
    if not rounds:
        raise ParameterError("rounds", rounds, "must hold at least one privacy curve")


@lru_cache(maxsize=64)
def _sum_up(
    rounds: tuple[Profile, ...], wanted: float, points: int
) -> "tuple[float, float, _Loss | None]":
    """What the total variation distances add up to, and the sum of the losses in steps (None: nothing)."""
    different = Counter(rounds)
    distances = {curve: float(find_deltas(curve, np.zeros(1))[0]) for curve in different}
    apart = math.fsum(times * distances[curve] for curve, times in different.items())
    share = _TAIL_SHARE * wanted / len(rounds)
    ends = {curve: _find_end(curve, share, distances[curve]) for curve in different}
    step = max(ends.values()) / points
    total = None if step < _LEAST_STEP else _add_losses(different, ends, step, wanted)
    return apart * (1 + 4 * UNIT), step, total


def _find_end(curve: Profile, delta: float, distance: float) -> float:
    """About where a curve falls below delta, or where it is smallest if it never does.

    `distance` is its delta at 0: most curves are about those of a Gaussian pair with the same one.
    """
    if distance <= delta:
        return _LEAST_END
    guesses = guess_epsilon(2.51 * distance, delta) * _NEARBY
    if guesses[-1] < _LAST_END:
        found = find_deltas(curve, guesses)
        if found[0] > delta >= found[-1]:
            return float(guesses[np.argmax(found <= delta)])
    return _search_end(curve, delta)


def _search_end(curve: Profile, delta: float) -> float:
    """The same for curves of any shape."""
    high = _FIRST_END
    while high > _LEAST_END and curve.delta(high / _WIDER) <= delta:
        high /= _WIDER
    best, smallest = high, math.inf
    while high < _LAST_END and smallest > delta:
        found = curve.delta(high)
        if found < smallest:
            best, smallest = high, found
        high *= _WIDER
    low = best / _WIDER
    for _ in range(4):
        middle = math.sqrt(low * best)
        low, best = (low, middle) if curve.delta(middle) <= delta else (middle, best)
    return best


def _add_losses(
    different: Mapping[Profile, int], ends: Mapping[Profile, float], step: float, wanted: float
) -> "_Loss":
    bits = 80 + math.ceil(-math.log2(wanted))
    cut = math.floor(Fraction(_CUT_SHARE * wanted) * (1 << bits))
    parts = [
        _find_loss(curve, step, ends[curve], bits).repeat(times, cut)
        for curve, times in different.items()
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total.add(part, cut)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """A privacy loss: masses[i] / 2^bits at (first + i) step, and `endless` / 2^bits at infinity."""

    bits: int
    first: int
    masses: list[int]
    endless: int

    def add(self, other: "_Loss", cut: int) -> "_Loss":
        """The sum of independent losses; ends of less than `cut` are moved to larger losses."""
        product = _multiply(self.masses, other.masses, self.bits)
        mine, others = sum(self.masses) + self.endless, sum(other.masses)
        endless = _shift_up(self.endless * others + other.endless * mine, self.bits)
        low, lost = 0, 0
        while low < len(product) - 1 and lost + product[low] < cut:
            lost += product[low]
            low += 1
        high, gone = len(product), 0
        while high > low + 1 and gone + product[high - 1] < cut:
            high -= 1
            gone += product[high]
        kept = product[low:high]
        kept[0] += lost
        return _Loss(
            bits=self.bits,
            first=self.first + other.first + low,
            masses=kept,
            endless=endless + gone,
        )

    def repeat(self, times: int, cut: int) -> "_Loss":
        """The sum of independent copies, by doubling."""
        power, total = self, None
        while True:
            if times & 1:
                total = power if total is None else total.add(power, cut)
            times >>= 1
            if not times:
                assert total is not None  # times was at least 1
                return total
            power = power.add(power, cut)

    def epsilon(self, delta: float, step: float, largest: float) -> float:
        """Nearly the smallest epsilon with E[(1 - e^(epsilon - loss))_+] <= delta; `largest` if there is none."""
        delta_at = self.curve(step)
        last = step * (self.first + len(self.masses) - 1) * (1 + 4 * UNIT)
        end = min(largest, max(last, 0.0))
        if end == 0 or delta_at(end) > delta:
            return largest
        return find_epsilon(delta_at, delta, epsilon0=end, guess=end / 2)

    def curve(self, step: float) -> Callable[[float], float]:
        """At least E[(1 - e^(epsilon - loss))_+], as a function of epsilon."""
        masses = np.array([scale_above(mass, self.bits) for mass in self.masses])
        losses = step * np.arange(self.first, self.first + len(masses)) * (1 + 4 * UNIT)
        endless = scale_above(self.endless, self.bits)

        def delta_at(epsilon: float) -> float:
            over = np.maximum(losses - epsilon, 0.0)
            total = float(masses @ -np.expm1(-over)) * (1 + (len(masses) + 32) * UNIT)
            return endless + total + 2 * UNIT * endless

        return delta_at


def _find_loss(curve: Profile, step: float, end: float, bits: int) -> _Loss:
    """The loss whose curve is the convex hull of points of this one.

    Points are floor(2^scale x) with scale = bits + 64. All are relatively off by less than 2^(10 - scale), so that
    a mass x_j (slope - slope) is off by less than 2^(12 - scale) / step, and one unit of 2^-bits pays for it.
    """
    last = max(1, math.ceil(end / step))
    scale = bits + _GUARD
    one = 1 << scale
    xs = _list_powers(step, last, scale)
    # At most j step, which is rounded.
    places = step * np.arange(last + 1, dtype=np.float64)
    found = find_deltas(curve, places * (1 - 4 * UNIT))
    heights = [math.ceil(Fraction(value) * one) for value in np.minimum.accumulate(found).tolist()]
    below = [
        (one * one // xs[j], one - (one - heights[j]) * one // xs[j]) for j in range(last, 0, -1)
    ]
    points = [(0, one), *below, *zip(xs, heights, strict=True)]
    masses = [0] * (2 * last + 1)
    hull = _take_hull(points)
    for before, here, after in zip(hull, hull[1:], [*hull[2:], None], strict=False):
        (x0, h0), (x1, h1) = points[before], points[here]
        rise, run = (points[after][1] - h1, points[after][0] - x1) if after is not None else (0, 1)
        top, bottom = x1 * (rise * (x1 - x0) - (h1 - h0) * run), run * (x1 - x0) << _GUARD
        masses[here - 1] = max(0, -(-top // bottom)) + 1
    return _Loss(bits=bits, first=-last, masses=masses, endless=_shift_up(heights[-1], _GUARD) + 1)


def _list_powers(step: float, last: int, scale: int) -> list[int]:
    """2^scale e^(j step) for j = 0 .. last, rounded down."""
    digits = math.ceil(0.31 * scale) + 10
    low = exp_bounds(Fraction(step), digits)[0]
    base = (low.numerator << scale) // low.denominator
    powers = [1 << scale]
    for _ in range(last):
        powers.append(powers[-1] * base >> scale)
    return powers


def _take_hull(points: Sequence[tuple[int, int]]) -> list[int]:
    """The indices of the lower convex hull; the first and the last point belong to it."""
    kept: list[int] = []
    for i, (x, h) in enumerate(points):
        while len(kept) >= 2:
            (x0, h0), (x1, h1) = points[kept[-2]], points[kept[-1]]
            if (h1 - h0) * (x - x1) < (h - h1) * (x1 - x0):
                break
            kept.pop()
        kept.append(i)
    return kept


def _multiply(first: Sequence[int], second: Sequence[int], bits: int) -> list[int]:
    """The coefficients of the product of two polynomials, in units of 2^-bits, rounded up."""
    largest = max(first) * max(second) * min(len(first), len(second))
    size = largest.bit_length() // 8 + 1
    length = len(first) + len(second) - 1
    one = _pack(first, size)
    other = one if first is second else _pack(second, size)  # Python squares in less time
    product = (one * other).to_bytes(size * (length + 1), "little")
    parts = (product[place : place + size] for place in range(0, size * length, size))
    return [_shift_up(int.from_bytes(part, "little"), bits) for part in parts]


def _pack(values: Sequence[int], size: int) -> int:
    return int.from_bytes(b"".join(value.to_bytes(size, "little") for value in values), "little")


def _shift_up(value: int, bits: int) -> int:
    return -(-value >> bits)


def _steps(curve: Profile) -> tuple[Floats, Floats]:
    """Epsilons, and delta at the left end of each cell between them.

    Beyond the last one delta is at most 1e-290. Without the part of the first law that makes it more than
    e^last times the second, which has that mass, it would be 0, and nowhere larger than it is.
    """
    last, middle = curve.epsilon(CUT), curve.epsilon(1e-15)
    grid = np.unique(np.concatenate([np.linspace(0, middle, 400), np.linspace(middle, last, 60)]))
    return grid, np.array([curve.delta(t) for t in grid[:-1]])


def compose_renyi(rounds: Sequence[Profile], *, delta: float) -> float:
    """The epsilon of all rounds together by Renyi divergences: looser than `compose`, independent.

    The conversion is that of Canonne, Kamath, Steinke 2020 ("The discrete Gaussian for differential
    privacy", Proposition 12).

    >>> from shuffledp.accounting.amplify import profile
    >>> 0.15 < compose_renyi([profile(epsilon0=1.0, n=10_000, honest=1)] * 10, delta=1e-6) < 0.2
    True
    """
    wanted = fraction_of_one("delta", delta)
    _check_rounds(rounds)
    left = wanted - 2 * len(rounds) * CUT  # what `_steps` leaves out of each round
    if left <= wanted / 2:
        raise UnsupportedError(f"delta={delta!r} is too small for {len(rounds)} rounds")
    different = [(_steps(curve), times) for curve, times in Counter(rounds).items()]
    best = math.inf
    for alpha in np.geomspace(1.05, 1e5, 120).tolist():
        total = sum(times * bound_renyi(*steps, alpha) for steps, times in different)
        spent = math.log(1 / left) + (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)
        best = min(best, total + spent / (alpha - 1))
    return max(0.0, best * (1 + 1e-12))
