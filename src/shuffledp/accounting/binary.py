"""Shuffled binary randomized response: its own privacy curve, over every data set, with a proof.

n users send their bit, flipped with probability f. The view is the number of ones. If s of the
other n - 1 users hold a one, they contribute N = Bin(s, 1 - f) + Bin(n - 1 - s, f), of law h, and

    delta = sum_c max(0, A h(c) - B h(c + 1)),   A = 1 - f - E f,   B = E (1 - f) - f,   E = e^epsilon,

is the divergence of "the target holds 1" from "the target holds 0". The other direction is the same
at n - 1 - s ones, so the maximum over s of this one covers both.

**One data set.** If `ones` of the other users hold a one and `zeros` a zero, tilt: with t = B / A the law
g(c) = h(c) t^c / M is again a sum of two binomials, M = (f + (1 - f) t)^ones (1 - f + f t)^zeros, and

    delta = A M t^-k [ g(k) - (1 - 1/t) sum_(c > k) t^(k + 1 - c) g(c) ],   k a mode of g:

all the large and small numbers are in A M t^-k, and the bracket is read off at the middle of g, with
relative accuracy however small delta is. The mode is within 1 of the mean (Darroch 1964), so the whole numbers
around the mean are tried: any other k gives less. (How much less, where the mean is too large to be known to 1/2, is
in `_Laws`.)

**The bracket, by Fourier.** It is a sum of weights w_j g(k + j): w_0 = 1 and w_j = -(1 - 1/t) t^(1 - j). Cut off after
j = L it is at least as large, and by at most t^-L Pr_g[c > k + L] larger. With phi the characteristic function of g,
N > 2 L and theta_i = 2 pi i / N,

    (1/N) sum_i phi(theta_i) W(theta_i) = sum_j w_j sum_m g(k + j + m N),   W(theta) = e^(-i theta k) sum_j w_j e^(-i theta j),

the second sum over all whole m. Other m than 0 are L from the mean or farther, where by Bernstein's inequality there is
at most e^-40 of g on either side: no weight exceeds 1, so all of that is below 2 e^-40. And |phi|^2 is a product of
1 - 4 v sin^2(theta / 2) over the users, v the variance of each message, so |phi| <= exp(-2 V sin^2(theta / 2)) with V
that of g: about 25 frequencies count, however many users there are, and |W| <= 2 makes those that are left out less
than 2 e^-40 together. One product of matrices does it for thousands of data sets.

**All data sets.** Revealing the message of one more user only helps the attacker, so
delta(ones, zeros) does not increase in either argument. The range of s is cut into cells lo .. hi;
delta(lo, n - 1 - hi) is an upper bound for the whole cell. Cells are halved where this costs most; for small n
until the worst one is a single s. "All others equal" alone is not a bound: some other data set is
worse by up to 22 % in delta at n = 25, and by up to 2 % for n flip = 34 however large n is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.accounting.base import (
    LEAST,
    SMALLEST_DELTA,
    Batch,
    find_epsilon,
    guess_epsilon,
)
from shuffledp.core.arrays import Counts, Floats, distinct
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import fraction_of_one, non_negative, whole
from shuffledp.numerics.rounding import UNIT, exp_bounds, find_largest_above, find_smallest_safe

_EXACT = 2000  # up to this n the worst data set itself is found
_TOLERANCE = 0.005  # cells are refined until the upper bound of delta is this close, relatively
_MOST_CELLS = 8192
_TOGETHER = 8  # epsilons that start from each other's cells
_SMALLEST_FLIP = Fraction(1, 10**40)
_LARGEST_EPSILON0 = 60.0  # where a search ends
_WORST = 12  # cells that a search looks at before it asks all of them
# Data sets times frequencies that are looked at in one go: they stay in the cache, and one thread is enough.
_CHUNK = 1 << 15
_NEIGHBOURS = np.array([-1.0, 0.0, 1.0])  # of the whole number next to the mean of g
_FADED = 40.0  # what is below e^-40 is bounded, and not looked at
_VANISHED = -1e4  # the logarithm of a factor that is 0
_LEAST_EXPONENT = -40  # of variances: 2^-10, and anything below
_LEAST_VARIANCE = 2.0**-10
_SMALLEST_A = Fraction(1, 10**70)
_LOG_SMALLEST = math.log(SMALLEST_DELTA)

_Complexes: TypeAlias = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipPoint:
    """The numbers that depend on flip and epsilon alone, rounded towards one `side`: 1 is up, -1 down.

    >>> point = FlipPoint.above(Fraction(1, 10), 0.5)
    >>> round(math.exp(point.logs(np.array([99.0]), np.array([0.0]))[0]), 6)
    0.009798
    """

    flip: float
    log_gain: float
    """ln A."""
    x: float
    """t - 1, at most (side 1) or at least (side -1) the true one: delta falls as t grows."""
    side: int

    @staticmethod
    def above(flip: Fraction, epsilon: float) -> "FlipPoint | None":
        """Make the point for upper bounds; None where delta is 0."""
        return FlipPoint._make(flip, epsilon, 1)

    @staticmethod
    def below(flip: Fraction, epsilon: float) -> "FlipPoint | None":
        """Make the point for lower bounds; None where delta is 0, or hard to tell from it."""
        return FlipPoint._make(flip, epsilon, -1)

    @staticmethod
    def _make(flip: Fraction, epsilon: float, side: int) -> "FlipPoint | None":
        low, high = exp_bounds(min(non_negative("epsilon", epsilon), 800.0))
        E = low if side > 0 else high
        A = 1 - flip - E * flip
        if A <= 0 or (side < 0 and A <= _SMALLEST_A):
            return None
        A = max(A, _SMALLEST_A)  # raises A and lowers t: still an upper bound
        towards = -math.inf if side > 0 else math.inf
        x = math.nextafter(float((E - 1) / A), towards) if E > 1 else 0.0
        log_gain = math.log(float(A))
        return FlipPoint(
            flip=float(flip),
            log_gain=log_gain + side * 12 * UNIT * (1 + abs(log_gain)),
            x=x,
            side=side,
        )

    @property
    def odds_of_one(self) -> float:
        """The odds that a message is 1 if the user holds 1, under the tilted law."""
        return (1 - self.flip) / self.flip * (1 + self.x)

    @property
    def odds_of_zero(self) -> float:
        """The same if she holds 0."""
        return self.flip / (1 - self.flip) * (1 + self.x)

    def logs(self, ones: Floats, zeros: Floats) -> Floats:
        """Return ln delta(ones, zeros), target 1 against 0, moved to its side by more than all errors."""
        ones, zeros = np.asarray(ones, dtype=np.float64), np.asarray(zeros, dtype=np.float64)
        laws = _Laws.of(self, ones, zeros)
        log_t = math.log1p(self.x)
        scale = self._log_scale(ones, zeros, laws.middle)
        # No bracket exceeds 1, and t^-k of a neighbour is at most t times that of the middle.
        logs = scale + log_t * (1 + 16 * UNIT) if self.side > 0 else np.full(len(ones), -math.inf)
        some = np.flatnonzero(scale + log_t > _LOG_SMALLEST - 6)
        some = some[np.argsort(laws.variance[some], kind="stable")]
        while len(some):
            # Laws of about the same variance go together.
            variance = laws.variance[some]
            alike = int(np.searchsorted(variance, 4 * variance[0] + 10, side="right"))
            grid = _make_grid(self, *_bracket(float(variance[0]), float(variance[alike - 1])))
            rows = some[: min(alike, max(1, _CHUNK // len(grid.theta)))]
            logs[rows] = scale[rows] + grid.log_brackets(laws.take(rows))
            some = some[len(rows) :]
        return logs

    def _log_scale(self, ones: Floats, zeros: Floats, k: Floats) -> Floats:
        """Return ln (A M t^-k), moved to its side."""
        # (f + (1 - f) t)^ones is t^ones (1 - f x / t)^ones: no large numbers, even at tiny f.
        f, x = self.flip, self.x
        terms = (
            ones * math.log1p(-f * x / (1 + x)),
            zeros * math.log1p(f * x),
            (ones - k) * math.log1p(x),
        )
        size = 1 + abs(self.log_gain) + np.abs(terms).sum(axis=0)
        scale: Floats = self.log_gain + np.sum(terms, axis=0) + self.side * 16 * UNIT * size
        return scale


class _Bit(NamedTuple):
    """One message under the tilted law: it is `usual`, and the other bit with probability `rare` <= 1/2."""

    usual: int
    rare: float

    @staticmethod
    def of(odds: float) -> "_Bit":
        less = min(odds, 1 / odds)
        return _Bit(usual=int(odds > 1), rare=less / (1 + less))

    @property
    def sign(self) -> int:
        """What the rarer bit adds to the sum."""
        return 1 - 2 * self.usual

    @property
    def variance(self) -> float:
        return self.rare * (1 - self.rare)

    def log_transform(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return ln |phi| and arg phi of (bit - usual), phi its characteristic function."""
        square = np.sin(theta / 2) ** 2
        lost = 4 * self.variance * square
        # |phi|^2 is 1 - lost, and (1 - 2 rare)^2 + 4 v cos^2(theta / 2) where little is left.
        left = (1 - 2 * self.rare) ** 2 + 4 * self.variance * np.cos(theta / 2) ** 2
        log = np.where(
            lost < 0.5, np.log1p(-np.minimum(lost, 0.5)), np.log(np.maximum(left, 1e-300))
        )
        angle = np.arctan2(self.rare * np.sin(theta), 1 - 2 * self.rare * square)
        return log / 2, self.sign * angle


class _Laws(NamedTuple):
    """The tilted laws g of many data sets.

    `steps` is 12 units of m = rare * users off: less than 1/2 up to m = 3e14, so that one of the three neighbours is
    the mode. Beyond (n <= 2^52, so m <= 2^51) it is at most 4 from the mode. What the bracket then lacks is far below
    `_Grid.growing` m, which is added anyway, for V >= m / 2 is large. Second differences of g are at most D, the
    mean of theta^2 exp(-2 V theta^2 / pi^2) over all theta: below 1.6 V^(-3/2). So the bracket lacks at most
    (1 + 2 + 3 + 4) t^4 D. Here t is nearly 1: only data sets with M t^-k > e^-697 / t are looked at, -ln(M t^-mean) is
    the divergence of g from h, and as the variance at a tilt of e^u is at least V e^u / t, that is the integral of u
    times it, at least V (ln t - 1 + 1 / t); so ln t < 65 / sqrt(V). And then |W| >= theta / (theta + 66 / sqrt(V))
    nearly, so the weights times theta sum to more than 0.009 / V: 272 units of that, times m, are above 2e-16, and
    10 D is below 1e-20.
    """

    ones: Floats
    zeros: Floats
    steps: Floats
    """A whole number next to the mean of g, counted from where every message is what it usually is."""
    middle: Floats
    """The same, counted from 0."""
    variance: Floats

    @staticmethod
    def of(point: FlipPoint, ones: Floats, zeros: Floats) -> "_Laws":
        one, zero = _Bit.of(point.odds_of_one), _Bit.of(point.odds_of_zero)
        steps = np.round(one.sign * one.rare * ones + zero.sign * zero.rare * zeros)
        return _Laws(
            ones=ones,
            zeros=zeros,
            steps=steps,
            middle=steps + one.usual * ones + zero.usual * zeros,
            variance=one.variance * ones + zero.variance * zeros,
        )

    def take(self, rows: Counts) -> "_Laws":
        """Keep some of the data sets."""
        return _Laws(*(each[rows] for each in self))


class _Grid(NamedTuple):
    """The frequencies of data sets whose laws have about the same variance, and what they have in common.

    **Rounding**, in units (`rounding.UNIT`). The odds are 6 off, so `rare` is 10, and the transform of one message by
    at most 128 rare theta each in size and angle. A product of transforms is as far off as their sum, times what the
    others leave of it, |phi| e^(2 v) at most, v <= 1/4. `steps` theta is 8 units off, and so is each frequency, which
    moves everything by as much. The last transforms add 32, and the weights are 64 off, 8 L theta more in what
    is cut. A sum of m terms, twice: 2 m + 8. All that is counted, and what is left out.
    """

    side: int
    log_t: float
    rare: Floats
    """The probability of the unusual message, for users who hold 1 and for those who hold 0."""
    theta: Floats
    sizes: Floats
    """ln |phi| of the messages of ones and of zeros, for each frequency."""
    angles: Floats
    """arg phi of the same."""
    weights: Floats
    """The weights of the real and of the imaginary part of phi, for each neighbour."""
    fixed: float
    """An upper bound on the error that all data sets have."""
    growing: float
    """What the error grows by, at most, with each unusual message or step."""

    def log_brackets(self, laws: _Laws) -> Floats:
        """Return the logarithm of the largest t^-j times the bracket at k = middle + j, moved to its side."""
        users = np.stack([laws.ones, laws.zeros], axis=1)
        size = np.exp(np.maximum(users @ self.sizes, _VANISHED))
        angle = users @ self.angles - laws.steps[:, None] * self.theta
        parts = np.concatenate([size * np.cos(angle), size * np.sin(angle)], axis=1)
        unsure = self.fixed + self.growing * (users @ self.rare + np.abs(laws.steps))
        brackets = parts @ self.weights + self.side * unsure[:, None]
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(brackets, 0.0)) - self.log_t * _NEIGHBOURS
        best = logs.max(axis=1)
        room = 16 * UNIT * (1 + self.log_t + np.abs(np.maximum(best, -800.0)))
        moved: Floats = best + self.side * room
        return moved


def _bracket(least: float, most: float) -> tuple[int, int]:
    """Return quarters of binary logarithms around these variances: nearly equal ones share a grid."""
    return (
        math.floor(4 * math.log2(max(least, _LEAST_VARIANCE))),
        math.ceil(4 * math.log2(max(most, _LEAST_VARIANCE))),
    )


@lru_cache(maxsize=32)
def _make_grid(point: FlipPoint, low: int, high: int) -> _Grid:
    """Return the grid of laws whose variances are between 2^(low/4) and 2^(high/4), or small."""
    least, most = 2.0 ** (low / 4) * (1 - 1e-9), 2.0 ** (high / 4) * (1 + 1e-9)
    # Bernstein: at most exp(-x^2 / (2 V + 2 x / 3)) of the law is x or more from its mean, on one side.
    last = math.ceil(_FADED / 3 + math.sqrt(_FADED**2 / 9 + 2 * _FADED * most)) + 2
    # More than 2 L, and odd: then all frequencies but 0 come in conjugate pairs, of which one counts twice.
    period = 2 * last + 5
    faded, count = _FADED / (2 * least), period // 2
    if low > _LEAST_EXPONENT and faded < 1:
        count = min(count, math.ceil(math.asin(math.sqrt(faded)) * period / math.pi))
    theta: Floats = 2 * math.pi / period * np.arange(count + 1, dtype=np.float64)
    each = np.where(theta > 0, 2.0, 1.0) / period
    sine = np.sin(theta / 2)
    decisive, cut = _transform_weights(point, theta, sine, last)
    W = each * np.conj(decisive + cut)
    rotated = W[:, None] * np.exp(-1j * theta[:, None] * _NEIGHBOURS)
    # What rounding may move: |phi| is at most this much, one message left out.
    height = each * 1.7 * (np.exp(-2 * least * sine**2) if low > _LEAST_EXPONENT else 1.0)
    weight = height * (np.abs(decisive) + np.abs(cut))
    unsure = (112 + 4 * len(theta)) * weight + 8 * last * theta * height * np.abs(cut)
    one, zero = _Bit.of(point.odds_of_one), _Bit.of(point.odds_of_zero)
    sizes, angles = zip(one.log_transform(theta), zero.log_transform(theta), strict=True)
    return _Grid(
        side=point.side,
        log_t=math.log1p(point.x),
        rare=np.array([one.rare, zero.rare]),
        theta=theta,
        sizes=np.stack(sizes),
        angles=np.stack(angles),
        weights=np.concatenate([rotated.real, -rotated.imag]),
        fixed=UNIT * float(unsure.sum()) + 8 * math.exp(-_FADED),
        growing=UNIT * float(272 * theta @ weight),
    )


def _transform_weights(
    point: FlipPoint, theta: Floats, sine: Floats, last: int
) -> tuple[_Complexes, _Complexes]:
    """Return sum_j w_j e^(i theta j) up to j = `last`, in two parts; `sine` is that of theta / 2.

    It is (1 - e^(i theta) + (1 - 1/t) e^(i theta) (e^(i theta) / t)^last) / (1 - e^(i theta) / t), and t^-last at 0.
    """
    t, left = 1 + point.x, math.exp(-last * math.log1p(point.x))
    below = (point.x + 2 * sine**2 - 1j * np.sin(theta)) / t
    below[0] = 1.0
    decisive = -2j * sine * np.exp(0.5j * theta) / below
    cut = point.x / t * left * np.exp(1j * theta) * np.exp(1j * last * theta) / below
    cut[0] = left
    return decisive, cut


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryResponse(Batch):
    """n users, each bit flipped with probability `flip`: a `Profile`.

    >>> shuffled = BinaryResponse(n=1_000, flip=Fraction(1, 4))
    >>> round(shuffled.epsilon(1e-6), 4)
    0.1421
    >>> shuffled.delta_lower(0.1) <= shuffled.delta(0.1)
    True
    """

    n: int
    flip: Fraction
    epsilon0: float = field(init=False)
    """The local guarantee, rounded up: delta is 0 from here on."""

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=2**52)
        if not _SMALLEST_FLIP <= self.flip < Fraction(1, 2):
            raise ParameterError("flip", self.flip, "must be a Fraction >= 1e-40 and < 1/2")
        object.__setattr__(self, "flip", Fraction(self.flip))  # a float is taken for what it is
        local = math.log1p(float((1 - 2 * self.flip) / self.flip))
        object.__setattr__(self, "epsilon0", local * (1 + 1e-14))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound over all data sets and both directions."""
        worst = _find_worst(self, epsilon)
        return 0.0 if worst is None else _as_delta(worst[2])

    def deltas(self, epsilons: Floats) -> Floats:
        """Return the same at each of these epsilons, in less time: neighbours start from each other's cells.

        >>> shuffled = BinaryResponse(n=1_000, flip=Fraction(1, 4))
        >>> shuffled.deltas(np.array([0.05, 0.1])).round(6)
        array([1.568e-03, 4.900e-05])
        """
        deltas: dict[float, float] = {}
        cells = None
        for i, epsilon in enumerate(sorted(set(epsilons.tolist()))):
            point = FlipPoint.above(self.flip, epsilon)
            if point is None:
                deltas[epsilon] = 0.0
                continue
            cells = _find_cells(point, self.n, cells if i % _TOGETHER else None)
            deltas[epsilon] = _as_delta(float(cells.upper.max()))
        return np.array([deltas[epsilon] for epsilon in epsilons.tolist()])

    def improve_epsilon0(self, epsilon: float, delta: float) -> float:
        """Estimate the largest epsilon0 at which (epsilon, delta) holds, as the worst cells here say.

        One step of a search: the result must still be checked.

        >>> shuffled = BinaryResponse(n=10_000, flip=Fraction(1, 4))
        >>> round(shuffled.improve_epsilon0(0.1, 1e-6), 2)
        2.2
        """
        worst = _find_worst(self, epsilon)
        if worst is None:
            return self.epsilon0
        ones, zeros, _ = worst

        def spare(epsilon0: float) -> float:
            flip = Fraction(1 / (1 + math.exp(epsilon0)))
            return -_excess(flip, ones, zeros, math.log(delta))(epsilon)

        return find_largest_above(
            spare, end=_LARGEST_EPSILON0, guess=self.epsilon0, tolerance=1e-5, floor=epsilon
        )

    def delta_lower(self, epsilon: float) -> float:
        """Return a lower bound: the delta of the worst data set that was found, rounded down."""
        point = FlipPoint.below(self.flip, epsilon)
        if point is None:
            return 0.0
        return math.exp(_find_cells(point, self.n).known) * (1 - 16 * UNIT)

    def delta_at(self, ones: int, zeros: int, epsilon: float) -> float:
        """Return the larger direction for one data set: `ones` of the others hold 1, `zeros` hold 0.

        >>> rr = BinaryResponse(n=100, flip=Fraction(1, 10))
        >>> f"{rr.delta_at(0, 99, 0.5):.6e}"
        '9.798434e-03'
        """
        return max(self.directions_at(ones, zeros, epsilon))

    def directions_at(self, ones: int, zeros: int, epsilon: float) -> tuple[float, float]:
        """Bound (target 1 against 0, target 0 against 1) for one data set.

        >>> rr = BinaryResponse(n=100, flip=Fraction(1, 10))
        >>> [f"{delta:.6e}" for delta in rr.directions_at(0, 99, 0.5)]
        ['1.322261e-03', '9.798434e-03']
        """
        whole("ones", ones, at_least=0, at_most=self.n - 1)
        whole("zeros", zeros, at_least=0, at_most=self.n - 1 - ones)
        point = FlipPoint.above(self.flip, epsilon)
        if point is None:
            return 0.0, 0.0
        first, second = point.logs(np.array([ones, zeros]), np.array([zeros, ones]))
        return _as_delta(float(first)), _as_delta(float(second))

    def epsilon(self, delta: float) -> float:
        """Find nearly the smallest epsilon with delta(epsilon) <= delta, and always one of them.

        It is rounded up by a part in 10^6, and by what the cells leave open.
        """
        fraction_of_one("delta", delta)
        # The worst cells decide. Solve for them alone, then ask all of them once.
        guess = guess_epsilon(self._mu, delta)
        best = math.inf
        for _ in range(5):
            guess = self._solve_for_worst(min(guess, 0.999 * self.epsilon0), math.log(delta))
            if guess >= best * (1 - 1e-6):
                return best
            if self.delta(guess) <= delta:
                best = guess
        if best < math.inf:
            return best
        return find_epsilon(self.delta, delta, epsilon0=self.epsilon0, guess=guess)

    def _solve_for_worst(self, guess: float, log_delta: float) -> float:
        worst = _find_worst(self, guess)
        if worst is None:
            return self.epsilon0
        ones, zeros, _ = worst
        smallest = find_smallest_safe(
            _excess(self.flip, ones, zeros, log_delta),
            safe=self.epsilon0,
            guess=guess,
            floor=LEAST * self.epsilon0,
        )
        return smallest if smallest > LEAST * self.epsilon0 else 0.0

    @property
    def _mu(self) -> float:
        """The view is about this Gaussian pair."""
        return float(1 - 2 * self.flip) / math.sqrt(self._variance)

    @property
    def _variance(self) -> float:
        """The variance of the number of ones; it does not depend on the data."""
        return float(self.n * self.flip * (1 - self.flip))


@lru_cache(maxsize=64)
def _find_worst(response: BinaryResponse, epsilon: float) -> tuple[Floats, Floats, float] | None:
    """Return ones and zeros of the worst cells, and the largest logarithm; None where delta is 0."""
    point = FlipPoint.above(response.flip, epsilon)
    if point is None:
        return None
    cells = _find_cells(point, response.n)
    worst = np.argsort(cells.upper)[-_WORST:]
    return cells.lo[worst], response.n - 1 - cells.hi[worst], float(cells.upper.max())


def gaussian_epsilon0(*, n: int, epsilon: float, delta: float) -> float:
    """Estimate the epsilon0 of n shuffled bits at (epsilon, delta), as if the view were Gaussian.

    mu = (1 - 2 f) / sqrt(n f (1 - f)) and 1 - 2 f = tanh(epsilon0 / 2).

    >>> round(gaussian_epsilon0(n=10_000, epsilon=0.1, delta=1e-6), 2)
    2.25
    """
    mu = epsilon
    for _ in range(12):
        mu *= (epsilon / guess_epsilon(mu, delta)) ** 0.8
    odds = mu * mu * n / 4
    return min(2 * math.asinh(math.sqrt(odds)), _LARGEST_EPSILON0)


def _excess(
    flip: Fraction, ones: Floats, zeros: Floats, log_delta: float
) -> Callable[[float], float]:
    floor = math.log(SMALLEST_DELTA)

    def excess(epsilon: float) -> float:
        point = FlipPoint.above(flip, epsilon)
        if point is None:
            return -math.inf
        return max(float(point.logs(ones, zeros).max()), floor) - log_delta

    return excess


def _as_delta(log: float) -> float:
    return min(1.0, max(math.exp(min(log, 0.0)) * (1 + 16 * UNIT), SMALLEST_DELTA))


class _Cells(NamedTuple):
    """First and last s of each cell, every s in 0 .. n - 1 in one, and the logarithms of their upper bounds."""

    lo: Floats
    hi: Floats
    upper: Floats
    known: float
    """The logarithm for the worst data set that was tried."""


def _find_cells(point: FlipPoint, n: int, start: _Cells | None = None) -> _Cells:
    """Return cells, from the first ones or those of another point on, whose largest bound is close to the truth."""
    lo, hi = _first_cells(n) if start is None else (start.lo, start.hi)
    others, tolerance = n - 1.0, 0.0 if n <= _EXACT else _TOLERANCE
    ends = np.array([0.0, others, others / 2 // 1])
    bounds = point.logs(np.append(lo, ends), np.append(others - hi, others - ends))
    upper, known = bounds[: len(lo)], float(bounds[len(lo) :].max())
    known = max(known, float(upper[lo == hi].max(initial=-math.inf)))
    while len(lo) < _MOST_CELLS:
        # What is far below the smallest delta need not be known any better.
        loose = np.flatnonzero((upper > max(known, _LOG_SMALLEST - 5) + tolerance) & (hi > lo))
        if not len(loose):
            break
        # The worst of them, so that if there is an end to them they were where it matters.
        half = loose[np.argsort(upper[loose])][len(lo) - _MOST_CELLS :]
        middle = np.floor((lo[half] + hi[half]) / 2)
        first, last = np.append(lo[half], middle + 1), np.append(middle, hi[half])
        worst = middle[-_WORST:]
        bounds = point.logs(np.append(first, worst), others - np.append(last, worst))
        finer, single = bounds[: len(first)], bounds[: len(first)][first == last]
        known = max(known, float(bounds[len(first) :].max()), float(single.max(initial=-math.inf)))
        lo, hi = np.append(np.delete(lo, half), first), np.append(np.delete(hi, half), last)
        upper = np.append(np.delete(upper, half), finer)
    return _Cells(lo, hi, upper, known)


def _first_cells(n: int) -> tuple[Floats, Floats]:
    near = np.geomspace(1, max(n / 4, 1), 24)
    starts = distinct(np.floor(np.concatenate([[0.0], near, np.linspace(0, n, 129), n - near])))
    starts = starts[starts < n]
    return starts, np.append(starts[1:] - 1, n - 1.0)
