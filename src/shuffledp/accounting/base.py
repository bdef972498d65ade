"""What the accountants share: how small a delta can be, from delta back to epsilon, and where searches start.

**What the generator of the words adds to delta.** Guarantees are computational, because words are.

Devices and their accountants know the laws of uniform words. The words of a run are those of AES-256 (see
`numerics.entropy`), which nobody tells from uniform ones with more than a small advantage a. That makes
(epsilon, delta + (1 + e^epsilon) a) of (epsilon, delta): each of the two probabilities in the definition moves
by at most a.

**One bound for every way to draw the words.** Each device's words are counted in whole blocks of the cipher, and
all of them in whole spans, those that share a key; each span costs A = `prf_advantage(SPAN_WORDS)`, with a secret
of its own. Then it does not matter whether one stream serves everybody, or each part of a run has a key, or each
live device takes one from its operating system. For b blocks of one span under a secret of their own cost
(b^2 + 4 + tiny) / 2^129, which is at most b / B times A = (B^2 + 4 + tiny) / 2^129, B = 2^18 being the blocks of a
whole span: the difference is concave in b, 0 at b = B and positive at b = 1. And spans that share a secret cost
less than with one each.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Guarantee, Profile
from shuffledp.core.protocol import Accountant, Crowd, Promise
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.numerics.entropy import SPAN_WORDS, prf_advantage
from shuffledp.numerics.rounding import exp_upper, find_smallest, find_smallest_safe, float_above

SMALLEST_DELTA = 1e-300
"""A smaller delta cannot be told from 0: floating-point numbers end near 1e-308."""

LEAST = 1e-12
"""A search for epsilon ends at this share of epsilon0; otherwise it would go down through all floats."""

_LARGEST_EPSILON = 700.0  # beyond, every delta is at most 1 anyway
_WITHIN = 1e-6  # relatively: by how much an epsilon may be rounded up
_AROUND = np.array([0.98, 0.996, 1.004, 1.02])  # times a guess
_ALONE = 1e-8
_LEAST_MU = 1e-6  # of a Gaussian pair that is looked for
_SOON = 4  # evaluations
_TO_THE_END = np.array([0.9, 0.5, 0.1, 0.01, 1e-4, 1e-6])
_BEYOND = np.array([0.98, 1.03, 1.3, 4.0])


class Batch(ABC):
    """The base of curves that find many deltas in little more time than one."""

    __slots__ = ()

    @abstractmethod
    def deltas(self, epsilons: Floats) -> Floats:
        """Bound the true delta at each of these epsilons from above."""


def find_deltas(curve: Profile, epsilons: Floats) -> Floats:
    """Bound the true delta at each of these epsilons from above; no bound exceeds 1.

    >>> from shuffledp.accounting.amplify import profile
    >>> curve, epsilons = profile(epsilon0=1.0, n=10_000), np.array([0.05, 0.1])
    >>> np.allclose(find_deltas(curve, epsilons), [curve.delta(0.05), curve.delta(0.1)], rtol=1e-9)
    True
    """
    if isinstance(curve, Batch):
        return np.minimum(curve.deltas(epsilons), 1.0)
    return np.array([min(1.0, curve.delta(epsilon)) for epsilon in epsilons.tolist()])


def guess_epsilon(mu: float, delta: float) -> float:
    """Estimate the epsilon of a mu-Gaussian pair with a small mu: where a search for the true one may start.

    Solves delta = mu (phi(z) - z Q(z)), the limit for small mu, and returns mu z + mu^2 / 2.

    >>> round(guess_epsilon(0.01, 1e-6), 4)
    0.0337
    """
    low, high = 0.0, 40.0  # beyond, the tail is below all floats
    for _ in range(60):
        z = (low + high) / 2
        tail = math.erfc(z / math.sqrt(2)) / 2
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        # Above z = 5 the difference cancels; phi / (z^2 + 2) has its size.
        value = mu * (density - z * tail if z < 5 else density / (z * z + 2))
        low, high = (z, high) if value > delta else (low, z)
    return mu * low + mu * mu / 2


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of a mu-Gaussian pair, approximately above epsilon = 700.

    >>> round(gaussian_delta(1.0, 1.0), 4)
    0.1269
    """

    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    grown = math.exp(min(epsilon, _LARGEST_EPSILON))
    return below(mu / 2 - epsilon / mu) - grown * below(-mu / 2 - epsilon / mu)


def gaussian_scale(promise: Promise) -> float:
    """Estimate the mu of the Gaussian pair that keeps this promise and no better one.

    >>> round(gaussian_scale(Promise(epsilon=1.0, delta=1e-8)), 3)
    0.196
    """
    low, high = _LEAST_MU, 50.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        over = gaussian_delta(middle, promise.epsilon) > promise.delta
        low, high = (low, middle) if over else (middle, high)
    return low


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Estimate the epsilon of a mu-Gaussian pair at delta, for any mu."""
    low, high = 0.0, 40.0 * mu + mu * mu
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high


def find_epsilon(
    delta_at: Callable[[float], float],
    delta: float,
    *,
    epsilon0: float,
    guess: float,
    tolerance: float = 1e-6,
) -> float:
    """Find nearly the smallest epsilon with delta_at(epsilon) <= delta, and always one of them.

    It is 0 if delta_at(0) is small enough. Otherwise it is rounded up by at most a part in 10^6 (or what
    `tolerance` says), and to at least 10^-12 epsilon0; epsilon0 itself must be safe.

    >>> round(find_epsilon(lambda epsilon: math.exp(-epsilon) / 2, 0.1, epsilon0=9.0, guess=1.0), 5)
    1.60944
    """
    if delta_at(0.0) <= delta:
        return 0.0
    # The logarithm is nearly a line, which is what the search follows; a delta of 0 has none.
    return find_smallest_safe(
        lambda epsilon: math.log(max(delta_at(epsilon), SMALLEST_DELTA) / delta),
        safe=epsilon0,
        guess=guess,
        tolerance=tolerance,
        floor=LEAST * epsilon0,
    )


def find_epsilon_at_once(
    deltas_at: Callable[[Floats], Floats], delta: float, *, epsilon0: float, guess: float
) -> float:
    """Return the same for a curve that finds several deltas in little more time than one: a few rounds of some points.

    >>> from functools import partial
    >>> find = partial(find_epsilon_at_once, lambda epsilons: np.exp(-epsilons) / 2, epsilon0=9.0)
    >>> round(find(0.1, guess=1.0), 5), round(find(1e-3, guess=1e-9), 5), find(0.6, guess=1.0)
    (1.60944, 6.21461, 0.0)
    """
    floor = LEAST * epsilon0
    tried, excess = np.zeros(0), np.zeros(0)
    points, low, high, zero = guess * _AROUND, 0.0, epsilon0, False
    while high - low > _WITHIN * high and high > floor:
        points = points[(points >= low) & (points < high)]
        if not len(points):
            points = np.array([(low + high) / 2])
        # Asked alone, a point may differ by what is rounded: what is returned is safe then, too.
        value = np.maximum(deltas_at(points), SMALLEST_DELTA)
        logs = np.log(np.where(value > SMALLEST_DELTA, value * (1 + _ALONE), value) / delta)
        tried, order = np.unique(np.append(tried, points), return_index=True)
        excess = np.append(excess, logs)[order]
        safe = tried[excess <= 0]
        high = float(safe[0]) if len(safe) else epsilon0
        below = tried[tried < high]
        low = float(below[-1]) if len(below) else 0.0
        if low == 0 and not zero:
            if deltas_at(np.zeros(1)).item() <= delta:
                return 0.0
            zero = True
        points = _look_between(low, high, tried, excess, floor)
    return high


def _look_between(low: float, high: float, tried: Floats, excess: Floats, floor: float) -> Floats:
    """Return where to look next for the root of a falling function: near where others say, and in the middle."""
    place = int(np.searchsorted(tried, low))
    if low == 0:  # nothing else is known to be too small
        return np.append(np.geomspace(max(floor, 1e-3 * high), high, 5)[:-1], 0.8 * high)
    if place + 1 == len(tried):  # nothing but the end is known to be large enough
        # Where a line leads that falls like the last two, and farther each time.
        fall = (excess[-2] - excess[-1]) / (tried[-1] - tried[-2]) if len(tried) > 1 else 0.0
        further = excess[-1] / fall if fall > 0 else low
        if further < high - low and len(tried) < 20:
            return np.asarray(low + further * _BEYOND)
        return np.asarray(high - (high - low) * _TO_THE_END)
    middle = (low + high) / 2 if high < 4 * low else math.sqrt(low * high)
    # The inverse function through the points around, on the logarithmic scale of delta.
    start = max(place - 1, 0)
    x, y = tried[start : start + 4].tolist(), excess[start : start + 4].tolist()
    smooth, unsure = _interpolate(x[: place + 3 - start], y[: place + 3 - start])
    if not low < smooth < high:
        smooth, unsure = middle, math.inf
    least = _WITHIN * high / 3
    off = min(max(unsure / 4, least), (high - low) / 4)
    inside = (smooth - off, smooth + off, middle)
    ends = low + least / 3, high - least / 3
    return np.array([min(max(point, ends[0]), ends[1]) for point in inside])


def _interpolate(x: list[float], y: list[float]) -> tuple[float, float]:
    """Return where the polynomial in y through these points is at y = 0 (Neville), and how far one of less degree is off.

    >>> [round(each, 3) for each in _interpolate([1.0, 2.0, 4.0], [1.0, 0.0, -1.5])]
    [2.0, 0.0]
    """
    before = list(x)
    try:
        for step in range(1, len(x)):
            x = [
                (y[i] * x[i + 1] - y[i + step] * x[i]) / (y[i] - y[i + step])
                for i in range(len(x) - 1)
            ]
            before = x if step == len(y) - 2 else before
    except ZeroDivisionError:
        return math.nan, math.inf
    return x[0], min(abs(each - x[0]) for each in before)


def check_budget(epsilon: float, delta: float) -> None:
    """Raise `ParameterError` unless epsilon > 0 and 0 < delta < 1."""
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)


def find_level(
    delta_at: Callable[[float], float],
    delta: float,
    *,
    guess: float,
    largest: float,
    refusal: str,
    tolerance: float = 1e-6,
    epsilon: float | None = None,
) -> float:
    """Find nearly the smallest level of noise with delta_at(level) <= delta; `refusal` if `largest` is not enough.

    The level returned was itself certified, whether or not `delta_at` is perfectly monotone. Where it is the curve at
    `epsilon`, and the level is like a variance, two or three evaluations are enough.

    >>> round(find_level(lambda mean: math.exp(-mean), 1e-3, guess=1.0, largest=9.0, refusal=""), 4)
    6.9078
    >>> near = {"guess": 20.0, "largest": 1e9, "refusal": ""}
    >>> round(find_level(lambda level: gaussian_delta(level**-0.5, 1.0), 1e-6, epsilon=1.0, **near), 3)
    17.848
    """
    guess = min(guess, largest)
    if epsilon is not None:
        level, guess = _find_like_variance(delta_at, delta, epsilon, guess, largest, tolerance)
        if level is not None:
            return level
    level = find_smallest(
        lambda level: math.log(max(delta_at(level), SMALLEST_DELTA) / delta),
        guess=guess,
        largest=largest,
        tolerance=tolerance,
    )
    if level is None:
        raise UnsupportedError(refusal)
    return level


def _find_like_variance(
    delta_at: Callable[[float], float],
    delta: float,
    epsilon: float,
    guess: float,
    largest: float,
    tolerance: float,
) -> tuple[float | None, float]:
    """Return a level that is safe and close, if it is soon found, and otherwise where to go on.

    The Gaussian pair with the same delta has a mu that is about one over the root of the level.
    """
    wanted = gaussian_scale(Promise(epsilon=epsilon, delta=delta))
    level, power = guess, -0.5
    before: tuple[float, float] | None = None
    for _ in range(_SOON):
        if not 0 < level < largest or wanted < 2 * _LEAST_MU:
            break
        reached = delta_at(level)
        if not 0 < reached < 1:
            break
        mu = gaussian_scale(Promise(epsilon=epsilon, delta=reached))
        over = math.log(mu / wanted)
        if reached <= delta and over >= power * tolerance:
            return level, level
        if before is not None:
            power = (over - before[0]) / math.log(level / before[1])
            if not -2 < power < -0.1:
                break
        before = over, level
        # A little beyond the root, so that the next level is safe even if the power is slightly wrong.
        guess = level = level * math.exp(0.3 * tolerance - over / power)
    return None, min(guess, largest)


def invert(delta_at: Callable[[float], float], delta: float, *, tolerance: float = 1e-6) -> float:
    """Bound the epsilon of a curve at delta from above; raise `UnsupportedError` if no epsilon reaches it.

    >>> round(invert(lambda epsilon: math.exp(-epsilon) / 2, 0.1), 5)
    1.60944
    """
    fraction_of_one("delta", delta)
    if delta_at(_LARGEST_EPSILON) > delta:
        raise UnsupportedError(f"no epsilon reaches delta={delta!r} with this noise")
    return find_epsilon(delta_at, delta, epsilon0=_LARGEST_EPSILON, guess=1.0, tolerance=tolerance)


_ADVANTAGE = Fraction(prf_advantage(SPAN_WORDS))


def bound_generator(people: int, words_per_input: int, epsilon: float) -> Fraction:
    """Return an upper bound on what the generator's words, not being uniform, add to delta for this many devices.

    >>> [f"{float(bound_generator(people, 1, 1.0)):.1e}" for people in (1, 10**6, 10**9)]
    ['3.8e-28', '1.5e-27', '1.4e-24']
    """
    blocks = people * -(-words_per_input // 2)
    spans = -(-2 * blocks // SPAN_WORDS)
    factor = 1 + exp_upper(min(epsilon, _LARGEST_EPSILON))
    return min(Fraction(1), factor * spans * _ADVANTAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computational:
    """The accountant of a protocol whose words come from the generator.

    `ideal` is the accountant of uniform words. What the words of everybody who takes part add goes into every
    delta above 0. A delta of 0 stays: it is the law of uniform words, and says so.

    >>> from shuffledp import protocols
    >>> accountant = protocols.rr.make(n=1000, epsilon=1.0, delta=1e-26).accountant
    >>> [f"{each.guarantee(900).delta:.4g}" for each in (accountant.ideal, accountant)]
    ['9.625e-27', '1e-26']
    """

    ideal: Accountant
    words_per_input: int
    crowd: Crowd

    def guarantee(self, honest: int) -> Guarantee:
        return self.weaken(self.ideal.guarantee(honest), honest)

    def weaken(self, ideal: Guarantee, honest: int) -> Guarantee:
        """Return what is left of the guarantee that uniform words have with that many honest users."""
        return replace(ideal, delta=self._add(ideal.delta, honest, ideal.epsilon))

    def delta(self, honest: int, epsilon: float) -> float:
        return self._add(self.ideal.delta(honest, epsilon), honest, epsilon)

    def _add(self, delta: float, honest: int, epsilon: float) -> float:
        if delta == 0:
            return 0.0
        added = bound_generator(self._people(honest), self.words_per_input, epsilon)
        return float_above(min(Fraction(1), Fraction(delta) + added))

    def _people(self, honest: int) -> int:
        """Bound from above how many take part: those of the plan, or more if more are honest."""
        if honest <= self.crowd.trusted:
            return self.crowd.n
        return math.ceil((honest + 1) / Fraction(repr(self.crowd.honest)))


def find_ideal(accountant: Accountant) -> Accountant:
    """Return the accountant of uniform words."""
    return accountant.ideal if isinstance(accountant, Computational) else accountant
