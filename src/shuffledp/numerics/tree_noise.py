r"""How far off weighted sums of the noise in a tree are: certified tails.

Two bounds of Pr[X >= x], the smaller of which counts. X is a sum of independent noise with a known transform
M(t) = E exp(t X).

*Chernoff*: M(t) exp(-t x), for any t > 0.

*Selberg's majorant*: a trigonometric polynomial T of degree N and period P that is nowhere below the indicator of
[x, x + P/2], so that

    Pr[X >= x] <= E T(X) + Pr[X >= x + P/2],     E T(X) = sum over |k| <= N of T_k M(2 pi i k / P).

That is a finite sum of known numbers, with no remainder. T exceeds the indicator by P / (2 N + 2) on either side, so
the tail is bounded as if X were a thirtieth of a standard deviation larger.

Reference: Vaaler 1985, "Some extremal functions in Fourier analysis", Theorem 18.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Floats
from shuffledp.numerics.tabulated import CutLaplaceSum
from shuffledp.numerics.trees import LevelWeights

_DEGREE = 512
_FIRST = 96  # coefficients beyond are usually too small to matter
_NEGLIGIBLE = -37.0  # ln of a coefficient
_PERIOD = 32.0  # standard deviations
_SLOPES = (0.4, 0.6, 0.75, 0.85, 0.95, 1.0, 1.1, 1.3)
_ROUNDING = 1e-9  # of a sum of a thousand terms whose exponents are known to 1e-11
_SMALLEST = 1e-6  # tails below are Chernoff's alone
_SAFE = 1 + 1e-9
_CLOSE = 1e-3
_PER_PERSON = 1e-13  # rounding of what one person adds to an exponent

Transform = NDArray[Any]
"""[sums, arguments], real or complex"""


class Tails(Protocol):
    """The tails of some sums, each one in a row."""

    def above(self, distance: Floats) -> Floats:
        """Bound Pr[X >= distance] from above, for each sum."""

    def screen(self, distance: Floats) -> Floats:
        """Return the same, faster and looser."""


class TreeNoise(Protocol):
    """The noise in all nodes of a tree."""

    def __hash__(self) -> int:
        """Hash by the parameters, which never change."""

    @property
    def variances(self) -> tuple[float, ...]:
        """The variance of a node, by level: exact, the largest that the data allow, or that of evenly spread answers."""

    def tails(self, weights: Sequence[LevelWeights]) -> Tails:
        """Return the upper tails of sums with these weights."""

    def find_spare(self, leaf_weights: Sequence[Floats]) -> Floats:
        """Return how far below the largest variance of a sum the data bring it: what a person in each leaf takes off.

        `leaf_weights` are the weights of each leaf's node in the sum, level by level.
        """


class LevelNoise(Protocol):
    """The noise in the nodes of a level, independent of the other levels'."""

    @property
    def variance(self) -> float:
        """The variance of a node."""

    @property
    def exact(self) -> bool:
        """Whether the transform is exact, also at imaginary arguments; if not, it is a bound at real ones."""

    @property
    def limit(self) -> float:
        """Up to which |t w| it is finite."""

    @property
    def spare(self) -> float:
        """What a person takes off the largest variance of a sum, over the square of the weight of their own node."""

    def largest(self, weights: LevelWeights) -> Floats:
        """Return roughly the largest value that a term of each sum may take."""

    def log_modulus(self, t: Floats, weights: LevelWeights) -> Floats:
        """Bound ln |E exp(i t X)| from above; the bound falls in t as long as |t w| <= pi for all weights."""

    def log_transform(self, t: Transform, weights: LevelWeights) -> Transform:
        """Return ln E exp(t X) of the centred sums, for each row of arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DummyNoise:
    """Tries that hit each node with the same probability, and at most one node each: (number, probability)."""

    tries: tuple[tuple[int, float], ...]
    exact: ClassVar[bool] = True
    limit: ClassVar[float] = math.inf
    spare: ClassVar[float] = 0.0

    @property
    def variance(self) -> float:
        """The variance of a node, as if nodes were independent: right for sums whose weights add up to 0."""
        return math.fsum(number * hit for number, hit in self.tries)

    def largest(self, weights: LevelWeights) -> Floats:
        return _largest_weight(weights)

    def log_modulus(self, t: Floats, weights: LevelWeights) -> Floats:
        # |1 + z| <= exp(Re z)
        moved = _over_nodes(lambda u: 1 - np.cos(u), t, weights)
        return -moved * self.variance

    def log_transform(self, t: Transform, weights: LevelWeights) -> Transform:
        moved = _over_nodes(np.expm1, t, weights)
        mean = t * (weights.values * weights.counts).sum(axis=1)[:, None]
        log_moments = np.zeros_like(moved)
        for number, hit in self.tries:
            log_moments = log_moments + number * (np.log1p(hit * moved) - hit * mean)
        return log_moments


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricNoise:
    """Discrete Laplace noise in every node: Pr[z] is proportional to exp(-rate |z|)."""

    rate: float
    exact: ClassVar[bool] = True
    spare: ClassVar[float] = 0.0

    @property
    def variance(self) -> float:
        return 2 * math.exp(-self.rate) / math.expm1(-self.rate) ** 2

    @property
    def limit(self) -> float:
        return self.rate * (1 - 1e-3)

    def largest(self, weights: LevelWeights) -> Floats:
        return _largest_weight(weights)

    def log_modulus(self, t: Floats, weights: LevelWeights) -> Floats:
        return self.log_transform(1j * t, weights).real

    def log_transform(self, t: Transform, weights: LevelWeights) -> Transform:
        twice = 2 * self.variance
        return _over_nodes(lambda u: -np.log1p(-twice * np.sinh(u / 2) ** 2), t, weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedNoise:
    """What servers add to every node, less its mean: sums of discrete Laplace numbers cut at L.

    If two nodes are `paired`, one goes up by as much as the other goes down. Their weights are w and -w, as weights add up
    to 0: together they move by 2 w Z, half of which counts for either.

    E exp(u Z) = (1 + g(u) + g(-u)) / (1 + 2 g(0)), g(u) the geometric series of x = exp(u - rate) up to x^L; the table
    that is sampled differs by less than a rounding error.
    """

    noise: CutLaplaceSum
    paired: bool = False
    exact: ClassVar[bool] = True
    spare: ClassVar[float] = 0.0

    @property
    def _together(self) -> int:
        return 2 if self.paired else 1

    @property
    def variance(self) -> float:
        return self._together * self.noise.variance

    @property
    def limit(self) -> float:
        return self.noise.noise.rate * (1 - 1e-3) / self._together

    def largest(self, weights: LevelWeights) -> Floats:
        return _largest_weight(weights)

    def log_modulus(self, t: Floats, weights: LevelWeights) -> Floats:
        return self.log_transform(1j * t, weights).real

    def log_transform(self, t: Transform, weights: LevelWeights) -> Transform:
        total = 1 + 2 * self._series(np.zeros(1))
        times, together = self.noise.times, self._together

        def log_one(u: Transform) -> Transform:
            v = together * u
            log_moment = times * np.log((1 + self._series(v) + self._series(-v)) / total)
            return np.asarray(log_moment / together)

        return _over_nodes(log_one, t, weights)

    def _series(self, u: Transform) -> Transform:
        law = self.noise.noise
        x = np.exp(u - law.rate)
        return np.asarray(x * (1 - x**law.most) / (1 - x))


@dataclass(frozen=True, slots=True, kw_only=True)
class BinNoise:
    """A tree of one level: n people in `cells` cells, each of whom sends their own one with probability p and any
    other one with q, and added noise.

    A message counts 1 / (p - q). Weights add up to 0, so a person whose own cell has the weight w adds

        ln E exp(t X) = ln(1 + (p - q) (e^s(w) - 1) + q sum_b (e^s(w_b) - 1)) - t w,    s(w) = t w / (p - q),

    which is convex in w: the largest or the smallest weight bounds everybody's. The variance is that of evenly spread
    answers: with a weight w of their own cell a person has q |w|^2 / (p - q)^2 + w^2 (1 / (p - q) - 1).
    """

    n: int
    cells: int
    p: float
    q: float
    added: AddedNoise
    """To the counts of messages."""
    exact: ClassVar[bool] = False
    spare: ClassVar[float] = 0.0

    @property
    def gap(self) -> float:
        """p - q."""
        return self.p - self.q

    @property
    def variance(self) -> float:
        people = self.q / self.gap**2 + self._own / self.cells
        return self.n * people + self.added.variance / self.gap**2

    @property
    def _own(self) -> float:
        return 1 / self.gap - 1

    @property
    def variances(self) -> tuple[float, ...]:
        return (self.variance,)

    def find_spare(self, leaf_weights: Sequence[Floats]) -> Floats:
        """Return the mean over all cells less the person's own: this may be negative."""
        (weights,) = leaf_weights
        squares = np.square(weights)
        return np.asarray(self._own * (squares.mean() - squares), dtype=np.float64)

    def tails(self, weights: Sequence[LevelWeights]) -> "_SumTails":
        (own,) = weights
        return _SumTails(parts=((self, own),))

    @property
    def limit(self) -> float:
        return self.gap * self.added.limit

    def largest(self, weights: LevelWeights) -> Floats:
        return _largest_weight(weights) / self.gap

    def log_modulus(self, t: Floats, weights: LevelWeights) -> Floats:
        return np.zeros(np.broadcast_shapes(t.shape, (len(weights.values), 1)))

    def log_transform(self, t: Transform, weights: LevelWeights) -> Transform:
        s = t / self.gap
        others = self.q * _over_nodes(np.expm1, s, weights)
        held = np.where(weights.counts > 0, weights.values, np.nan)
        ends = (np.nanmin(held, axis=1)[:, None], np.nanmax(held, axis=1)[:, None])
        each = [np.log1p(self.gap * np.expm1(s * weight) + others) - t * weight for weight in ends]
        people = self.n * (np.maximum(*each) + _PER_PERSON)
        return np.asarray(people + self.added.log_transform(s, weights))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedNoise:
    """Many independent terms, uncorrelated between nodes, each of which is in some of them, or not.

    Weights add up to 0, so a term moves a sum by at most half of all |weights|, and the largest one, times `most`.
    Bennett's bound of the transform: V / M^2 (e^(t M) - 1 - t M), V the variance of the sum, M the largest term.
    """

    variance: float
    most: float
    spare: float = 0.0
    exact: ClassVar[bool] = False
    limit: ClassVar[float] = math.inf

    def largest(self, weights: LevelWeights) -> Floats:
        return np.asarray(self.most * (weights.sum_sizes() / 2 + _largest_weight(weights)))

    def log_modulus(self, t: Floats, weights: LevelWeights) -> Floats:
        return np.zeros(np.broadcast_shapes(t.shape, (len(weights.values), 1)))

    def log_transform(self, t: Transform, weights: LevelWeights) -> Transform:
        total = weights.sum_squares()[:, None] * self.variance
        largest = self.largest(weights)[:, None]
        u = t * np.maximum(largest, 1e-300)
        # For a small u the difference is lost in rounding: there it is u^2 / 2, and a little more.
        shape = np.where(u < 1e-4, u * u / 2 * (1 + u), np.expm1(u) - u)
        return np.asarray(total * shape / np.maximum(largest, 1e-300) ** 2)


def _largest_weight(weights: LevelWeights) -> Floats:
    return np.asarray(np.abs(weights.values).max(axis=1), dtype=np.float64)


def _over_nodes(
    each: Callable[[Transform], Transform], t: Transform, weights: LevelWeights
) -> Transform:
    """Return the sum of each(t w) over all nodes, kind by kind: rows of sums, columns of arguments."""
    total = np.zeros(np.broadcast_shapes(t.shape, (len(weights.values), 1)), dtype=t.dtype)
    for value, count in zip(weights.values.T, weights.counts.T, strict=True):
        total += count[:, None] * each(t * value[:, None])
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentLevels:
    """A tree whose levels have independent noise.

    >>> noise = IndependentLevels(levels=(GeometricNoise(rate=1.0),))
    >>> one = (LevelWeights(values=np.array([[1.0]]), counts=np.array([[1.0]])),)
    >>> bool(0.0265 < noise.tails(one).above(np.array([3.0]))[0] < 0.07)  # Pr[Z >= 3] = 0.0364
    True
    """

    levels: tuple[LevelNoise, ...]

    @property
    def variances(self) -> tuple[float, ...]:
        return tuple(level.variance for level in self.levels)

    def find_spare(self, leaf_weights: Sequence[Floats]) -> Floats:
        each = (
            level.spare * np.square(w) for level, w in zip(self.levels, leaf_weights, strict=True)
        )
        return np.asarray(sum(each), dtype=np.float64)

    def tails(self, weights: Sequence[LevelWeights]) -> "_SumTails":
        return _SumTails(parts=tuple(zip(self.levels, weights, strict=True)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _SumTails:
    parts: tuple[tuple[LevelNoise, LevelWeights], ...]
    """Level by level."""

    @cached_property
    def deviation(self) -> Floats:
        """Standard deviations of the sums."""
        variances = (level.variance * weights.sum_squares() for level, weights in self.parts)
        return np.sqrt(np.asarray(sum(variances), dtype=np.float64))

    @cached_property
    def largest(self) -> Floats:
        """The largest terms, in absolute value."""
        terms = [level.largest(weights) for level, weights in self.parts]
        return np.asarray(np.max(terms, axis=0), dtype=np.float64)

    @property
    def _limit(self) -> Floats:
        ends = [
            level.limit / np.maximum(_largest_weight(weights), 1e-300)
            for level, weights in self.parts
        ]
        return np.asarray(np.min(ends, axis=0), dtype=np.float64)

    def _log_transform(self, t: Transform) -> Transform:
        return np.asarray(sum(level.log_transform(t, weights) for level, weights in self.parts))

    def screen(self, distance: Floats) -> Floats:
        return self._chernoff(distance, (1.0,))

    def _chernoff(self, distance: Floats, slopes: Sequence[float]) -> Floats:
        positive = (distance > 0) & (self.deviation > 0)
        x = np.where(positive, distance, 1.0)
        scale = np.maximum(self.largest, 1e-300)
        variance = np.maximum(self.deviation**2, 1e-300)
        best = np.log1p(x * scale / variance) / scale  # Bennett's choice
        t = np.minimum(best[:, None] * np.array(slopes), self._limit[:, None])
        with np.errstate(over="ignore", invalid="ignore"):
            exponent = self._log_transform(t) - t * x[:, None]
        tails = np.exp(np.minimum(np.nan_to_num(exponent, nan=0.0).min(axis=1), 0.0)) * _SAFE
        # Without noise nothing is above 0.
        return np.where(positive, tails, np.where((distance > 0), 0.0, 1.0))

    def above(self, distance: Floats) -> Floats:
        rough = self._chernoff(distance, _SLOPES)
        if not all(level.exact for level, _ in self.parts):
            return rough
        worth = (rough > _SMALLEST) & (distance > 0) & (self.deviation > 0)
        if not worth.any():
            return rough
        beyond = self._chernoff(distance + _PERIOD / 2 * self.deviation, _SLOPES)
        sharp = self._majorant(distance) + beyond + _ROUNDING
        return np.where(worth, np.minimum(rough, sharp), rough)

    @property
    def _period(self) -> Floats:
        return _PERIOD * np.maximum(self.deviation, 1e-300)

    @cached_property
    def _coefficients(self) -> NDArray[np.complex128]:
        """M(2 pi i k / P) for k = 1 .. N, or as many as matter."""
        some = _FIRST if self._fades() else _DEGREE
        turns = 2j * np.pi * np.arange(1, some + 1)
        return np.asarray(np.exp(self._log_transform(turns / self._period[:, None])))

    def _fades(self) -> bool:
        """Return whether all coefficients after the first ones are negligible: they only fall."""
        if np.any(2 * np.pi * _DEGREE / self._period * self.largest > np.pi):
            return False
        t = (2 * np.pi * _FIRST / self._period)[:, None]
        log_moduli = np.asarray(sum(level.log_modulus(t, weights) for level, weights in self.parts))
        return bool(np.all(log_moduli < _NEGLIGIBLE))

    def _majorant(self, distance: Floats) -> Floats:
        """Return E T(X) for the arc from the distance on, half of the period long."""
        k = np.arange(1, self._coefficients.shape[1] + 1)
        start = distance / self._period
        turned = self._coefficients * np.exp(-2j * np.pi * k * start[:, None])
        part = k / (_DEGREE + 1)
        smooth = np.pi * part * (1 - part) / np.tan(np.pi * part) + part
        # The far end of the arc is half a turn away: even terms cancel here, and odd ones there.
        odd = (2 * smooth / (np.pi * k))[::2] * turned.imag[:, ::2]
        even = 2 * (1 - part)[1::2] * turned.real[:, 1::2]
        return np.asarray(0.5 + odd.sum(axis=1) + (1 + even.sum(axis=1)) / (_DEGREE + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLevelEach:
    """n people, each of whom answers for one random level, with probability `shares`, by a sign that counts 1 / gain.

    What a person adds to a sum has a second moment of at most sum_l |w_l|^2 / (share_l gain^2), and is at most the sum
    of all |weights| of a level over share_l gain. Bernstein's inequality, whatever the data are.
    """

    n: int
    shares: tuple[float, ...]
    gain: float

    @property
    def variances(self) -> tuple[float, ...]:
        return tuple(self.n / (share * self.gain**2) for share in self.shares)

    def find_spare(self, leaf_weights: Sequence[Floats]) -> Floats:
        """Return the square of what a person adds on average: the variance is the second moment less that."""
        return np.asarray(np.square(sum(leaf_weights)), dtype=np.float64)

    def tails(self, weights: Sequence[LevelWeights]) -> "_BernsteinTails":
        levels = list(zip(self.shares, self.variances, weights, strict=True))
        squares = sum(
            variance * level_weights.sum_squares() for _, variance, level_weights in levels
        )
        most = np.max(
            [level_weights.sum_sizes() / (share * self.gain) for share, _, level_weights in levels],
            axis=0,
        )
        return _BernsteinTails(variance=np.asarray(squares), most=2 * np.asarray(most))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _BernsteinTails:
    variance: Floats
    most: Floats

    def screen(self, distance: Floats) -> Floats:
        return self.above(distance)

    def above(self, distance: Floats) -> Floats:
        spread = 2 * (self.variance + self.most * np.maximum(distance, 0.0) / 3)
        tails = np.exp(-np.square(np.maximum(distance, 0.0)) / np.maximum(spread, 1e-300))
        return np.asarray(tails * _SAFE)


def find_radius(tails: Tails, tail: float, deviation: Floats) -> Floats:
    """Return for each sum an x with Pr[X >= x] <= tail, nearly the smallest that the bounds allow.

    >>> noise = IndependentLevels(levels=(DummyNoise(tries=((10**6, 1e-4),)),))  # two nodes of about Poisson(100)
    >>> pair = (LevelWeights(values=np.array([[1.0, -1.0]]), counts=np.array([[1.0, 1.0]])),)
    >>> float(find_radius(noise.tails(pair), 0.025, np.array([200.0**0.5]))[0].round(1))  # 1.96 sqrt(200) = 27.7
    28.2
    """
    low = np.zeros(len(deviation))
    high = np.where(deviation > 0, deviation, 0.0)
    while True:
        over = (tails.above(high) > tail) & (deviation > 0)
        if not over.any():
            break
        low, high = np.where(over, high, low), np.where(over, 1.6 * high, high)
    while np.any(high - low > _CLOSE * high):
        middle = (low + high) / 2
        fine = tails.above(middle) <= tail
        low, high = np.where(fine, low, middle), np.where(fine, middle, high)
    return high
