r"""Binomial noise: one binomial, or a sum of several.

An answer `observed - centre` with observed = truth + N has the interval observed - high .. observed - low
whenever low <= N <= high has the wanted probability. The law is known, so nothing is approximated; but
it is discrete, and the window whose two tails are each below (1 - level) / 2 may hold a percent
more than it must. `cut_tightly` trades one tail against the other to come closer.

**Weighted sums of noisy bins**: how far off they are, by Chernoff's bound of their moments.

A sum of some bins with weights w is off by w . Z, Z the errors of the bins. For every s > 0

    Pr[w . Z >= t] <= E[e^(s w . Z)] e^(-s t),

and the best s of a few is taken. So nothing is said of the shape of the noise: a normal law would understate how often
the noise of one bin, of Laplace's kind, is far out. Numbers that were rounded at random, without bias, to one of two
points h apart add s^2 h^2 / 8 to the logarithm of the moment (Hoeffding's lemma).
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from shuffledp.core.analyzer import Interval, Value
from shuffledp.core.arrays import Bools, Counts, Floats
from shuffledp.core.validate import level as valid_level
from shuffledp.numerics import masses
from shuffledp.numerics.masses import binomial_at_least

_TRIED: Floats = np.geomspace(1e-3, 1e3, 181)  # s in units of 1 / stderr
FEW_TRIED: Floats = _TRIED[60:141:4]
"""Fewer of them, from 0.1 to 46: radii are about one percent larger, and found eight times as fast."""
_ROUNDING = 1 + 1e-9


class BinMoments(Protocol):
    """Errors of bins, whose weighted sums have known moments."""

    @property
    def stderr(self) -> Value:
        """The standard error of each bin."""

    def log_moment(self, weights: Floats) -> Floats:
        """Bound ln E[e^(w . Z)] from above for each row w of weights[rows, bins], infinite where it is not known."""

    @property
    def distance(self) -> float:
        """How far the law of a bin is from that of its moments."""


def have_both_signs(weights: Floats) -> Bools:
    """Return which rows have weights above and below 0: then errors of bins that move together do not cancel.

    >>> have_both_signs(np.array([[1.0, 0.0], [1.0, -2.0]]))
    array([False,  True])
    """
    return np.asarray((weights < 0).any(axis=-1) & (weights > 0).any(axis=-1))


def bound_deviation(
    law: BinMoments, weights: Floats, tail: float, rounded: Floats, tried: Floats = _TRIED
) -> Floats:
    """Return radii that sums of bins with these weights exceed with probability at most `tail`, on the upper side.

    `rounded` is the sum of h^2 over the rounded numbers, for each sum. The radius of a bin with noise of Laplace's
    kind:

    >>> from fractions import Fraction
    >>> from shuffledp.numerics.intervals.laplace import DiscreteLaplace, DiscreteLaplaceError
    >>> law = DiscreteLaplaceError(noise=DiscreteLaplace(rate=Fraction(1, 10)), shape=(2,))
    >>> round(float(bound_deviation(law, np.array([1.0]), 0.025, np.zeros(1))[0]), 1)
    58.5
    """
    left = tail - np.count_nonzero(weights) * law.distance
    if left <= 0:
        return np.full(rounded.shape, math.inf)
    unit = float(np.mean(law.stderr)) * float(np.linalg.norm(weights))
    scale = np.sqrt(unit**2 + rounded)  # [sums]
    s = tried / np.maximum(scale, 1e-300)[..., None]
    moments = law.log_moment(s.reshape(-1, 1) * weights).reshape(s.shape)
    needed = moments + s**2 * rounded[..., None] / 8 - math.log(left)
    radius: Floats = (needed / s).min(axis=-1) * _ROUNDING
    return radius


_BEYOND = 1e-30  # mass past 12 standard deviations and 100, by Bernstein's inequality, with room
_DIRECT = 1 << 26  # products of masses that are no work
_EXACT_ENOUGH = 1e-3
_TRANSFORM = 2e-15  # the relative error of a step of the fast Fourier transform, with room
_SLACK = 1e-8  # of a sum of masses, each within masses.FAR_ERROR


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseWindow:
    """Pr[N = first + i] for all i that matter."""

    first: int
    masses: Floats
    error: float = 0.0
    """By how much a sum of masses may be off, beyond what is counted anyway."""

    def cut_equally(self, level: float) -> tuple[int, int]:
        """Return (low, high) with Pr[N < low] and Pr[N > high] each at most (1 - level) / 2.

        >>> NoiseWindow(first=0, masses=np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16).cut_equally(0.8)
        (1, 3)
        """
        tail = (1 - valid_level(level)) / 2
        below, above = self._tails()
        low = np.flatnonzero(below <= tail)[-1]
        high = np.flatnonzero(above <= tail)[0]
        return self.first + int(low), self.first + int(high)

    def cut_tightly(self, level: float) -> tuple[int, int]:
        """Return (low, high) with Pr[low <= N <= high] at least `level`, and hardly more.

        Each tail takes between a quarter and three quarters of 1 - level, if the law allows.

        >>> NoiseWindow(first=0, masses=np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16).cut_tightly(0.9)
        (1, 4)
        """
        beta = 1 - valid_level(level)
        below, above = self._tails()
        lows = np.flatnonzero((below >= beta / 4) & (below <= 3 * beta / 4))
        if len(lows) == 0:
            lows = np.flatnonzero(below <= beta / 2)[-1:]
        left = beta - below[lows]
        # `above` falls: the first place where it is small enough, for each low end.
        highs = np.searchsorted(-above, -left, side="left")
        best = int(np.argmin(left - above[highs]))
        return self.first + int(lows[best]), self.first + int(highs[best])

    def _tails(self) -> tuple[Floats, Floats]:
        """Return Pr[N < first + i] and Pr[N > first + i], rounded up."""
        left = np.concatenate([[0.0], np.cumsum(self.masses[:-1])])
        right = np.concatenate([[0.0], np.cumsum(self.masses[:0:-1])])[::-1]
        beyond = _BEYOND + self.error
        return left * (1 + _SLACK) + beyond, right * (1 + _SLACK) + beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialSum:
    """The law of a sum of independent binomials, each given as (n, p).

    >>> noise = BinomialSum(parts=((4, Fraction(1, 2)), (2, Fraction(1, 2))))
    >>> noise.centre, noise.variance, noise.window().cut_equally(0.95)
    (Fraction(3, 1), 1.5, (1, 5))
    """

    parts: tuple[tuple[int, Fraction], ...]

    @property
    def centre(self) -> Fraction:
        """The mean."""
        return sum((n * p for n, p in self.parts), Fraction(0))

    @property
    def variance(self) -> float:
        return float(sum((n * p * (1 - p) for n, p in self.parts), Fraction(0)))

    def log_moments(self, s: Floats) -> Floats:
        """Return ln E[e^(s (N - centre))], infinite where it overflows."""
        log_moments = np.zeros(s.shape)
        with np.errstate(over="ignore"):
            for n, p in self.parts:
                share = float(p)
                log_moments += n * (np.log1p(share * np.expm1(s)) - s * share)
        return log_moments

    def window(self, tail: float = 0.0) -> NoiseWindow:
        """Return the range that holds all but a mass of 1e-30.

        If tails below `tail` do not matter, sums of masses may be off by a small part of that.
        """
        total = NoiseWindow(first=0, masses=np.ones(1))
        for n, p in self.parts:
            total = _add(total, _binomial(n, p), tail)
        return total


def _add(a: NoiseWindow, b: NoiseWindow, tail: float) -> NoiseWindow:
    r"""Return the law of a sum of two.

    It is computed directly, or by the fast Fourier transform where that is faster and exact enough.

    A transform of length L errs by at most c = log2(L) * _TRANSFORM relative to its norm (Higham 2002, "Accuracy and
    stability of numerical algorithms", section 24.1). With A and B the transforms, |A| <= 1 everywhere and
    |B|_2 = sqrt(L) |b|_2; so two transforms, the product and the transform back are off by at most about
    4 c |b|_2 in the Euclidean norm, and the sum of some of L masses by sqrt(L) times that.
    """
    first, work = a.first + b.first, len(a.masses) * len(b.masses)
    error = a.error + b.error
    length = 1 << (len(a.masses) + len(b.masses) - 1).bit_length()
    norm = max(float(np.linalg.norm(each.masses)) for each in (a, b))
    added = 8 * math.log2(length) * _TRANSFORM * norm * math.sqrt(length)
    if work <= _DIRECT or error + added > _EXACT_ENOUGH * tail:
        return NoiseWindow(first=first, masses=np.convolve(a.masses, b.masses), error=error)
    product = np.fft.rfft(a.masses, length) * np.fft.rfft(b.masses, length)
    law = np.fft.irfft(product, length)[: len(a.masses) + len(b.masses) - 1]
    return NoiseWindow(first=first, masses=np.maximum(law, 0.0), error=error + added)


def _binomial(n: int, p: Fraction) -> NoiseWindow:
    if n == 0 or p in (0, 1):
        return NoiseWindow(first=int(n * p), masses=np.ones(1))
    if 2 * p > 1:  # seen from the other end 1 - p keeps its digits
        other = _binomial(n, 1 - p)
        last = other.first + len(other.masses) - 1
        return NoiseWindow(first=n - last, masses=other.masses[::-1])
    mean, sd = float(n * p), math.sqrt(float(n * p * (1 - p)))
    reach = 12 * sd + 100
    first, last = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
    places = np.arange(first, last + 1, dtype=np.float64)
    return NoiseWindow(first=first, masses=masses.binomial_masses(places, n, float(p)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseError:
    """The error of an estimate of `truth`, where observed = truth + noise; one count, or one per bin.

    `interval` holds the truth with probability at least `level` and as little more as the law allows,
    `exact_interval` with at most (1 - level) / 2 on either side. Ends are moved into `limits`, the
    public range of the truth (so an interval at the edge of that range covers more often than it must).

    >>> noise = BinomialSum(parts=((10, Fraction(1, 2)),))
    >>> NoiseError(noise=noise, observed=12).exact_interval(7.0, 0.95)
    Interval(low=4.0, high=10.0)
    """

    noise: BinomialSum
    observed: int | Counts
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def stderr(self) -> Value:
        """Exact standard deviation of the noise."""
        sd = math.sqrt(self.noise.variance)
        return np.full(np.shape(self.observed), sd) if np.ndim(self.observed) else sd

    def interval(self, value: Value, level: float) -> Interval:
        return self._subtract(*self.noise.window(1 - level).cut_tightly(level))

    def exact_interval(self, value: Value, level: float) -> Interval:
        return self._subtract(*self.noise.window(1 - level).cut_equally(level))

    @property
    def distance(self) -> float:
        """The law is exact."""
        return 0.0

    def log_moment(self, weights: Floats) -> Floats:
        """Bound ln E[e^(w . Z)] from above for each row of weights, Z the estimates less the truth.

        Bins are independent, or each trial falls into one of them at most. Then the logarithm for a trial is
        ln(1 + x_1 + x_2 + ...), x_j = p (e^w_j - 1), which is below the sum of all ln(1 + x_j) if the weights have one
        sign, and below x_1 + x_2 + ... (as if the noise were a Poisson number) in any case.
        """
        mixed = have_both_signs(weights)
        apart = self.noise.log_moments(weights).sum(axis=-1)
        if not mixed.any():
            return np.asarray(apart, dtype=np.float64)
        with np.errstate(over="ignore"):
            together = float(self.noise.centre) * (np.expm1(weights) - weights).sum(axis=-1)
        bounds: Floats = np.where(mixed, together, apart)
        return bounds

    def _subtract(self, low: int, high: int) -> Interval:
        ends = (self.observed - high, self.observed - low)
        first, second = (np.clip(np.asarray(end, dtype=np.float64), *self.limits) for end in ends)
        if np.ndim(self.observed):
            return Interval(first, second)
        return Interval(float(first), float(second))


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialLaw:
    """The law of Bin(n, gamma).

    >>> coins = BinomialLaw(n=10, gamma=Fraction(1, 2))
    >>> coins.centre, coins.variance, coins.mass(10)
    (Fraction(5, 1), 2.5, (Fraction(1, 1024), Fraction(1, 1024)))
    >>> coins.range(Fraction(5, 100))
    (2, 8)
    """

    n: int
    gamma: Fraction

    @property
    def centre(self) -> Fraction:
        """The mean, n gamma."""
        return self.n * self.gamma

    @property
    def variance(self) -> float:
        """n gamma (1 - gamma)."""
        return float(self.centre * (1 - self.gamma))

    def mass(self, z: int) -> tuple[Fraction, Fraction]:
        """Return the exact probability of z, twice (meant for small n)."""
        if not 0 <= z <= self.n:
            return Fraction(0), Fraction(0)
        exact = math.comb(self.n, z) * self.gamma**z * (1 - self.gamma) ** (self.n - z)
        return exact, exact

    def range(self, beta: Fraction) -> tuple[int, int]:
        """Return integers (low, high) with Pr[N < low] and Pr[N > high] each at most beta / 2."""
        tail = float(beta / 2) * (1 - 1e-15)
        return self.n - _quantile(self.n, 1 - self.gamma, tail), _quantile(self.n, self.gamma, tail)


def _quantile(n: int, p: Fraction, tail: float) -> int:
    """Return the smallest h from the mean on with Pr[Bin(n, p) > h] <= tail."""
    mean = math.ceil(n * p)
    above = range(mean, n)
    return mean + bisect_left(above, True, key=lambda h: binomial_at_least(h + 1, n, p) <= tail)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BinomialError:
    """The error of `observed` - n gamma, where observed = truth + Bin(n, gamma).

    >>> coins = BinomialLaw(n=10, gamma=Fraction(1, 2))
    >>> BinomialError(noise=coins, observed=12).interval(7.0, 0.95)
    Interval(low=4.0, high=10.0)
    """

    noise: BinomialLaw
    observed: int

    @property
    def stderr(self) -> float:
        """Exact standard deviation of the noise."""
        return math.sqrt(self.noise.variance)

    def interval(self, value: Value, level: float) -> Interval:
        """Return the exact one: the law is known, so there is nothing to approximate."""
        low, high = self.noise.range(1 - Fraction(valid_level(level)))
        return Interval(float(self.observed - high), float(self.observed - low))

    exact_interval = interval
