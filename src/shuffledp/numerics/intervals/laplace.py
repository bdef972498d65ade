"""Discrete Laplace noise, and the laws of sums of shares of it.

Discrete Laplace: Pr[Z = z] = (1 - a) / (1 + a) a^|z| on the integers, a = e^-rate. Tails are compared with
a level by rational enclosures, so "covers with probability at least `level`" is a statement about the real
law.

The difference of two independent NB(r, a) numbers is discrete Laplace for r = 1. Shares add, so this is
the noise of r times all the people who make it together. It is computed in two ways. `Difference` sums
positive numbers, Pr[D > t] = sum_y Pr[Y = y] Pr[X > y + t], so a tail is accurate however small it is.
`SharedNoise` may decay so slowly that this sum would be too long: X and Y are put into blocks of k numbers, and the
law of the difference of their blocks is computed by a fast Fourier transform. If |X - Y| > k (d + 1) then their
blocks are more than d apart, so the radius is rounded up by one block.

- A block from s on has at most the mass f(s) (1 + q + ... + q^(k-1)), q the largest ratio of two neighbouring
  masses in it; ratios are e^-rate (j + r) / (j + 1), monotone in j. The first blocks, where they change fast, are
  added up.
- The transform is off by 8 units of 2^-53 of the 2-norm in each of its log2(size) passes (Higham 2002, "Accuracy and
  stability of numerical algorithms", Theorem 24.2, with room). For masses b whose difference has the law c that
  makes at most 2 e |b|^2 + e |c| in each place, e = 8 log2(size) units; over n places, 2 n e |b|^2 + sqrt(n) e |c|.

Radii for levels beyond 1 - 10^-9 are Chernoff's.

**Rounded values.** If m values were rounded to the grid at random, without bias, the error is N + W, W a sum of m
independent numbers of mean 0, each within an interval of length 1 (one step): E[e^(s W)] <= e^(s^2 m / 8), by
Hoeffding's lemma, whatever the values. With C(s) = max over x of Pr[N > x] e^(s x), Pr[N + W > t] =
E[Pr[N > t - W]] is at most C(s) e^(s^2 m / 8 - s t), for every s > 0. For the s that is the hazard rate of N at t,
C(s) e^(-s t) is the tail of N itself: rounding costs about s m / 8 of the radius.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.core.analyzer import Interval, Value
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.validate import level as valid_level
from shuffledp.numerics.masses import log_negative_binomial
from shuffledp.numerics.rounding import exp_bounds

_LONGEST = 1 << 24
_SLACK = 1 + 1e-8  # more than the relative errors of the masses and of the sums
_COARSEST = 2.0**-10  # of a block, in the rate
_FINEST_TAIL = 1e-9
_MOST_BLOCKS = 1 << 21
_FIRST_BLOCKS = 16  # that are added up
_UNIT = 2.0**-53
_BEYOND = 1e-14  # what blocks leave out


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace:
    """The law of `entropy.draw_discrete_laplace`.

    >>> noise = DiscreteLaplace(rate=Fraction(1))
    >>> round(noise.variance, 6)
    1.841347
    >>> noise.radius(Fraction(5, 100))
    3
    """

    rate: Fraction

    @property
    def centre(self) -> Fraction:
        """The mean."""
        return Fraction(0)

    @property
    def variance(self) -> float:
        """2 a / (1 - a)^2."""
        rate = float(self.rate)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def mass(self, z: int, digits: int = 50) -> tuple[Fraction, Fraction]:
        """Return fractions around Pr[Z = z].

        >>> low, high = DiscreteLaplace(rate=Fraction(1)).mass(0)
        >>> float(low) == float(high) == 0.46211715726000973
        True
        """
        low, high = exp_bounds(-self.rate, digits)
        power_low, power_high = exp_bounds(-self.rate * abs(z), digits)
        return (1 - high) / (1 + high) * power_low, (1 - low) / (1 + low) * power_high

    def tail(self, t: int, digits: int = 50) -> tuple[Fraction, Fraction]:
        """Return fractions around Pr[|Z| > t] = 2 a^(t + 1) / (1 + a), t >= 0.

        >>> low, high = DiscreteLaplace(rate=Fraction(1)).tail(3)
        >>> round(float(high), 6)
        0.02678
        """
        low, high = exp_bounds(-self.rate, digits)
        power_low, power_high = exp_bounds(-self.rate * (t + 1), digits)
        return 2 * power_low / (1 + high), 2 * power_high / (1 + low)

    def radius(self, beta: Fraction, draws: int = 1) -> int:
        """Return the smallest t >= 0 with draws * Pr[|Z| > t] <= beta (union bound over the draws)."""
        share = beta / draws
        t = max(0, self._guess(share))
        while not self._within(t, share):
            t += 1
        while t > 0 and self._within(t - 1, share):
            t -= 1
        return t

    def _guess(self, share: Fraction) -> int:
        rate = float(self.rate)
        log_share = math.log(share.numerator) - math.log(share.denominator)
        return math.floor((math.log(2) - log_share - math.log1p(math.exp(-rate))) / rate)

    def _within(self, t: int, share: Fraction) -> bool:
        # The tail is a transcendental number and `share` a fraction: they differ, and some number
        # of digits shows which way.
        digits = 30
        while True:
            low, high = self.tail(t, digits)
            if high <= share:
                return True
            if low > share:
                return False
            digits *= 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiscreteLaplaceError:
    """The error of an answer on a grid of width `step` with discrete Laplace noise.

    The answer was moved by at most `rounding` onto the grid before the noise came. `draws` > 1 makes
    the interval hold for that many noisy answers at once (union bound).

    >>> error = DiscreteLaplaceError(noise=DiscreteLaplace(rate=Fraction(1)), shape=())
    >>> error.interval(10.0, 0.95)
    Interval(low=7.0, high=13.0)
    """

    noise: DiscreteLaplace
    shape: tuple[int, ...]
    step: float = 1.0
    rounding: float = 0.0
    draws: int = 1

    @property
    def stderr(self) -> Value:
        """Exact standard deviation of the noise."""
        stderr = self.step * math.sqrt(self.noise.variance)
        return np.full(self.shape, stderr) if self.shape else stderr

    def interval(self, value: Value, level: float) -> Interval:
        """Return the exact one: the law is known, so there is nothing to approximate."""
        radius = self.radius(1 - Fraction(valid_level(level)))
        low, high = value - radius, value + radius
        if np.all(np.abs(value) + radius <= 2.0**52 * self.step):
            return Interval(low, high)  # nothing was rounded
        return Interval(_move_outward(low, -np.inf), _move_outward(high, np.inf))

    exact_interval = interval

    def radius(self, beta: Fraction) -> float:
        """Return how far off the answers are at most, except with probability beta."""
        return self.step * self.noise.radius(beta, self.draws) + self.rounding

    @property
    def distance(self) -> float:
        """The law is exact."""
        return 0.0

    def log_moment(self, weights: Floats) -> Floats:
        """Return ln E[e^(w . Z)] for each row of weights, the answers moved onto the grid in the worst way."""
        moments = log_moments(weights * self.step, 1.0, float(self.noise.rate))
        log_moment: Floats = (moments + np.abs(weights) * self.rounding).sum(axis=-1)
        return log_moment


def _move_outward(end: Value, direction: float) -> Value:
    # One unit for the rounding of the value to a float, one for that of the end.
    moved = np.nextafter(np.nextafter(end, direction), direction)
    return float(moved) if np.ndim(moved) == 0 else moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """X - Y with X, Y ~ NB(r, p).

    >>> noise = Difference(r=1.0, p=math.exp(-1.0))
    >>> round(noise.variance, 6), f"{noise.tail(3):.5f}", noise.radius(0.05)
    (1.841347, '0.02678', 3)
    """

    r: float
    p: float

    @property
    def variance(self) -> float:
        """2 r p / (1 - p)^2."""
        return 2 * self.r * self.p / (1 - self.p) ** 2

    def tail(self, t: int) -> float:
        """Bound Pr[|X - Y| > t] from above, t >= 0, by less than a part in 10^7."""
        length = t + 64
        while True:
            masses, survivals, rest = self._arrays(length)
            tail = _tail(masses, survivals, t)
            if rest <= 1e-9 * tail or length > _LONGEST:
                return min(1.0, (tail + 2 * rest) * _SLACK)
            length *= 2

    def radius(self, beta: float) -> int:
        """Return the smallest t >= 0 with Pr[|X - Y| > t] <= beta.

        If a tail is within a part in 10^7 of beta, it may be the next one.
        """
        length = 64
        masses, survivals, rest = self._arrays(length)
        while 2 * rest > 1e-9 * beta:
            length *= 2
            if length > _LONGEST:
                raise UnsupportedError("the noise is too wide for an exact interval")
            masses, survivals, rest = self._arrays(length)
        return bisect_left(
            range(length),
            True,
            key=lambda t: (_tail(masses, survivals, t) + 2 * rest) * _SLACK <= beta,
        )

    def _arrays(self, length: int) -> tuple[Floats, Floats, float]:
        """Return Pr[X = k] and Pr[X > k] for k < length, and a bound of Pr[X >= length]."""
        k = np.arange(length, dtype=np.float64)
        masses = np.exp(log_negative_binomial(k, self.r, self.p))
        step = self.p * max(1.0, (self.r + length - 1) / length)
        rest = float(masses[-1]) * step / (1 - step) if step < 1 else 1.0
        survivals = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0) + rest
        return masses, survivals, rest


def _tail(masses: Floats, survivals: Floats, t: int) -> float:
    if t >= len(masses):
        return 0.0
    return 2 * float(masses[: len(masses) - t] @ survivals[t:])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DifferenceError:
    """The error of an integer answer with that noise, or of `shape` of them, each on its own.

    The law is discrete, so an interval covers a little more than its level. The sampled noise is
    within `distance` of the law, which is taken off what the interval may miss.

    >>> DifferenceError(noise=Difference(r=1.0, p=math.exp(-1.0)), shape=()).interval(10.0, 0.95)
    Interval(low=7.0, high=13.0)
    """

    noise: Difference
    shape: tuple[int, ...]
    distance: float = 0.0

    @property
    def stderr(self) -> Value:
        """Standard deviation of the noise."""
        stderr = math.sqrt(self.noise.variance)
        return np.full(self.shape, stderr) if self.shape else stderr

    def interval(self, value: Value, level: float) -> Interval:
        """Return the exact one: the law is known, so there is nothing to approximate."""
        beta = float(1 - Fraction(valid_level(level)))
        if 2 * self.distance >= beta:
            raise UnsupportedError(
                f"level={level!r} is too close to 1 for noise that is known to {self.distance:.1e}"
            )
        radius = float(self.noise.radius(beta - self.distance))
        return Interval(value - radius, value + radius)

    exact_interval = interval

    def log_moment(self, weights: Floats) -> Floats:
        """Return ln E[e^(w . Z)] for each row of weights."""
        log_moment: Floats = log_moments(weights, self.noise.r, -math.log(self.noise.p)).sum(
            axis=-1
        )
        return log_moment


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedNoise:
    """X - Y with X, Y ~ NB(shape, e^-rate): the noise of `shape` times all shares.

    >>> SharedNoise(rate=Fraction(1), shape=Fraction(1)).radius(Fraction(5, 100))
    3
    >>> SharedNoise(rate=Fraction(1, 1000), shape=Fraction(10, 9)).radius(Fraction(5, 100))
    3143
    """

    rate: Fraction
    shape: Fraction
    rounded: int = 0
    """How many values were rounded at random before the noise came."""

    @property
    def variance(self) -> float:
        """At most that of the noise and of the rounding."""
        noise = float(self.shape) * DiscreteLaplace(rate=self.rate).variance
        return noise + self.rounded / 4

    def radius(self, beta: Fraction) -> int:
        """Return nearly the smallest t >= 0 that the error exceeds with probability at most beta; never too small."""
        if self.shape == 1 and not self.rounded:
            return DiscreteLaplace(rate=self.rate).radius(beta)
        rate, shape = float(self.rate), float(self.shape)
        blocks = _block(rate, shape) if beta >= _FINEST_TAIL else None
        if blocks is None or blocks.tails[-1] > beta / 1000:
            return _chernoff(rate, shape, math.log(beta), self.rounded)
        radius = blocks.radius(float(beta), self.rounded)
        return radius if blocks.size == 1 else (radius + 1) * blocks.size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Blocks:
    """At least Pr[blocks of X and Y are more than d apart] for d = 0, 1, ..., and how much more at most."""

    size: int
    rate: float
    """The rate of a block."""
    tails: Floats
    excess: float

    def radius(self, beta: float, rounded: int) -> int:
        """Return the smallest d that the difference exceeds with probability at most beta; with rounded values, nearly."""
        if rounded:
            return self._rounded_radius(rounded / self.size**2, beta)
        return int(np.argmax(self.tails <= beta))

    def _rounded_radius(self, rounded: float, beta: float) -> int:
        """Return the smallest t, over some s, with 2 C(s) e^(s^2 m / 8 - s t) <= beta."""
        # What lies beyond is left out of C and taken off beta, so that no tiny tail is weighed.
        last = int(np.argmax(self.tails <= beta / 1000)) + 1
        right = self.tails[:last] / 2
        logs = np.log(np.append(np.minimum(1 - right[::-1] + self.excess, 1.0), right))
        x = np.arange(-last, last) + 1.0  # N is whole and W is not: the far end of each step
        room = math.log(2) - math.log(beta - float(self.tails[last - 1]))
        # Up to the decay of the noise; where rounding is all that counts, the best s is the smallest here.
        least = min(1e-3, math.sqrt(8 * room / rounded) / self.rate)
        s = self.rate * np.append(np.geomspace(least, 0.4, 40), np.linspace(0.4, 1, 121))
        heaviest = np.array([float((logs + each * x).max()) for each in s])
        return max(
            0, math.ceil(float(((heaviest + room) / s + s * rounded / 8).min()) * (1 + 1e-9))
        )


@lru_cache(maxsize=32)
def _block(rate: float, shape: float) -> _Blocks | None:
    """Cut into blocks that are short against the noise; None if there would be too many."""
    size = max(1, math.floor(_COARSEST / rate * math.sqrt(max(shape, 1.0))))
    one = _block_masses(rate, shape, size)
    if one is None:
        return None
    masses, rest = one
    n, length = len(masses), 1 << (2 * len(masses)).bit_length()
    wave = np.fft.rfft(masses, length)
    apart = np.fft.irfft(wave.real**2 + wave.imag**2, length)[:n]
    # From the far end, so that the small ones are added first.
    tails = 2 * np.append(np.cumsum(apart[:0:-1])[::-1], 0.0)
    e = 8 * math.log2(length) * _UNIT
    wrong = 4 * n * e * float(masses @ masses) + 2 * math.sqrt(n) * e * float(np.linalg.norm(apart))
    wrong += 2 * rest + 2 * n * _UNIT
    total = float(masses.sum()) ** 2 * _SLACK
    return _Blocks(
        size=size,
        rate=rate * size,
        tails=tails * _SLACK + wrong,
        excess=max(total - 1, 0.0) + 2 * wrong,
    )


def _block_masses(rate: float, shape: float, size: int) -> tuple[Floats, float] | None:
    """Bound the masses of the blocks of NB(shape, e^-rate), and what lies beyond them, from above."""
    p = math.exp(-rate)
    reach = shape + 6 * math.sqrt(shape) + 34  # mostly enough
    n = _FIRST_BLOCKS + math.ceil(reach / (rate * size))
    first = np.exp(log_negative_binomial(np.arange(float(_FIRST_BLOCKS * size)), shape, p))
    while n <= _MOST_BLOCKS:
        starts = np.arange(_FIRST_BLOCKS, n + 1, dtype=np.float64) * size
        # ln of the ratio of neighbours at both ends of a block.
        turns = [-rate + np.log1p((shape - 1) / (each + 1)) for each in (starts, starts + size - 1)]
        log_q = np.maximum(*turns)
        mass = np.exp(log_negative_binomial(starts, shape, p))
        growth = float(max(log_q[-1], -rate))
        rest = _SLACK * float(mass[-1]) / -math.expm1(growth) if growth < 0 else 1.0
        if rest <= _BEYOND:
            flat = np.where(log_q == 0, 1.0, log_q)
            terms = np.where(log_q == 0, float(size), np.expm1(size * flat) / np.expm1(flat))
            head = first.reshape(_FIRST_BLOCKS, size).sum(axis=1)
            return np.append(head, (mass * terms)[:-1]), rest
        n *= 2
    return None


def log_moments(s: Floats, shape: float, rate: float) -> Floats:
    """Return ln E[e^(s (X - Y))], X, Y ~ NB(shape, e^-rate); infinite from |s| = rate on.

    >>> log_moments(np.array([0.0, 0.5, 1.0]), 1.0, 1.0).round(4)
    array([-0.    ,  0.2679,     inf])
    """
    inside = np.abs(s) < rate
    t = np.where(inside, s, 0.0)
    sides = np.log(-np.expm1(t - rate)) + np.log(-np.expm1(-t - rate))
    log_moment: Floats = np.where(
        inside, -shape * (sides - 2 * math.log(-math.expm1(-rate))), math.inf
    )
    return log_moment


def _chernoff(rate: float, shape: float, log_beta: float, rounded: int = 0) -> int:
    """Return t with 2 E[e^(s (X - Y))] e^(s^2 m / 8 - s t) <= beta, for the best s of a few."""
    s = rate * np.append(np.arange(1, 100) / 100, 1 - 2.0 ** -np.arange(7, 20))
    moment = log_moments(s, shape, rate)
    total = math.log(2) - log_beta + moment + s * s * rounded / 8
    return max(0, math.ceil(float((total / s).min()) * (1 + 1e-9)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedNoiseError:
    """The error of an answer on a grid of width `step` with that noise.

    >>> error = SharedNoiseError(rate=Fraction(1), shape=Fraction(1), step=0.5)
    >>> [round(end, 6) for end in error.interval(10.0, 0.95)]
    [8.5, 11.5]
    """

    rate: Fraction
    shape: Fraction
    step: float
    rounded: int = 0
    """How many values were rounded to the grid at random."""
    bias: float = 0.0
    """By how much the answer is off at most before that, because values have finitely many digits."""

    @property
    def noise(self) -> SharedNoise:
        """The law of the noise and of the rounding, in steps."""
        return SharedNoise(rate=self.rate, shape=self.shape, rounded=self.rounded)

    @property
    def stderr(self) -> float:
        """Standard deviation of the noise and, at most, of the rounding."""
        return self.step * math.sqrt(self.noise.variance)

    def interval(self, value: Value, level: float) -> Interval:
        beta = 1 - Fraction(valid_level(level))
        # 10^-9 for the rounding of the ends.
        far = self.step * (self.noise.radius(beta) + 1e-9) + self.bias
        return Interval(value - far, value + far)

    def exact_interval(self, value: Value, level: float) -> Interval:
        if (self.shape != 1 or self.rounded) and 2 * self.rate <= _COARSEST:
            raise UnsupportedError("no exact interval is known for this estimate: use interval()")
        return self.interval(value, level)
