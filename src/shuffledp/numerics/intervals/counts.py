r"""A count seen through binomials, and the interval that follows from inverting the law.

Of n people c hold a category. A holder supports it with probability p, any other one with probability q < p,
and extra messages, m of them, each with probability r:

    N = Bin(c, p) + Bin(n - c, q) + Bin(m, r) + ...

Besides, servers may have added S, of a known and symmetric law: then each tail is the mean of tails of N - S, over S.
The law depends on c alone and grows with it, so the interval holds every c for which the observed N is not in a
tail of probability (1 - level) / 2: it covers at least its level at any n and any c.

**Tails.** N is within w of its mean except with probability 2 exp(-w^2 / (2 (v + w/3))), v the variance
(Bernstein). On a circle of L = 2 w + 1 points the law is a finite Fourier sum, so

    Pr[N <= x] = (1/L) sum_j phi(t_j) sum_(k = mean - w)^x e^(-i t_j k),      t_j = 2 pi j / L,

up to the mass that goes around the circle. |phi(t)| <= exp(-2 v sin^2(t/2)), so some 50 terms are left
whatever n is. All that is cut, and every rounding, is bounded and added. This is an absolute error; tails below
`_SMALL` are bounded by Chernoff's inequality instead.

**Errors.** M is the number of messages, T the last frequency that is kept, u = 2^-53. NumPy's functions are taken to
be right within 8 u (four units in the last place, more than it documents), sums and products within u.

- Around the circle: w is at least 8 sd + 24, so Bernstein's exponent is at least 32, and 2 e^-32 < 3e-14.
- What is cut: at most L/2 terms of 2 |phi| / (L sin(t/2)) each, where |phi| <= e^-40 and sin(t/2) >= sqrt(20) / sd:
  together below e^-40 sd / 4.
- Phases. With z = 1 - r + r e^(it), a message turns by arg z - r t. Im z = r sin t is off by 12 u r t and Re z by
  14 u, so arg z by 26 u r t / |z|^2, and by 8 u t for arctan2; the subtraction makes it 10 u t. A number m >= 2 of
  messages has the weight |z|^m, which takes |z|^2 off: in all 36 u m t. (m = 1 may stand at |z| near 0, but only
  where all terms are kept, on circles of less than 200 points: below 10^-12 together.) The mean is off by 5 u M, p
  and q as floats by u each, and the phases of x and of the circle's end, at most (w + 1) t, by 8 u. So a phase is
  off by at most 50 u (M + w) t. A term weighs at most 1 / (L sin(t/2)) <= pi / (L t) and has two cosines; up to T
  there are T L / (2 pi): 50 u (M + w) T, for which 64 is taken.
- Sizes. ln |z| is off by 14 u s / (1 - s) with s = 4 r (1 - r) sin^2(t/2), so |phi| by 14 u v t^2: with the
  weights, at most 14 u v T^2 < 2e-12, as v T^2 < 1000. Cosines, exponentials and sums are off by some
  u (1 + ln L): less.

**Unbiased answers whose law depends on more than the truth**: intervals by certified bounds of their tails.

An answer is a sum of independent terms, each within `reach` of its expectation, and of its variance v it is known
that least <= v <= most, over all data with the same true answer. Two bounds hold for Pr[answer - truth >= t]:

    exp(-(v / reach^2) h(reach t / v)),  h(u) = (1 + u) ln(1 + u) - u                     (Bennett)
    Phi(-t / sqrt(v)) + 0.56 reach / sqrt(v)                                              (Berry, Esseen)

The first is good for few people, the second for many: 0.56 is the constant for independent terms of different laws of
Shevtsova 2010, "An improvement of convergence rate estimates in the Lyapunov theorem", Doklady Mathematics 82(3),
862-864, in front of the sum of the third absolute moments over v^(3/2); that sum is at most reach * v.

A truth is refused if, for every v, one of the bounds is at most (1 - level) / 2. From `least` to `most` is cut into
ranges of v. In each, the first bound and Phi are largest at its upper end, a share of `most`, and 0.56 reach / sqrt(v)
at its lower one. If `most` is a concave function of the truth, then the first bound alone leaves an interval around
the answer (it is quasi-convex). The smallest `most` in that interval makes 0.56 reach / sqrt(v) a constant in each
range, so that the second bound is quasi-convex, too. What is left in each range is an interval around the answer,
and all together are one: bisection finds its ends.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import NormalDist

import numpy as np

from shuffledp.core.analyzer import Interval, Value
from shuffledp.core.arrays import Bools, Counts, Floats
from shuffledp.core.validate import level as valid_level
from shuffledp.numerics.intervals.binomial import have_both_signs
from shuffledp.numerics.rounding import UNIT
from shuffledp.numerics.tabulated import CutLaplaceSum

_SMALL = 1e-6  # tails below are left to Chernoff
_CUT = 40.0  # terms of the sum below e^-40 are cut
_FIXED_ERROR = 1e-11  # what goes around the circle, sizes, sums: see above
_BLOCK = 4096  # tails at a time
_SWEEPS = 6  # of Newton's method; bisection follows
_UNLIKELY = 1e-5  # of a tail: what servers add so rarely is counted as if it were always too much
_FINENESS = 0.002  # of a standard error: how much wider than needed an interval may be


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Circle:
    """Frequencies t of a circle of 2 reach + 1 points, and what a tail may be off."""

    reach: int
    t: Floats
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportLaw:
    """The law of N = Bin(c, p) + Bin(n - c, q) + Bin(m, r) + ..., (m, r) the pairs of `extra`.

    >>> law = SupportLaw(n=2, p=0.75, q=0.25)
    >>> law.at_least(np.array([2.0]), np.array([1.0]), 0.025).round(8)
    array([0.1875])
    """

    n: int
    p: float
    q: float
    extra: tuple[tuple[int, float], ...] = ()
    added: CutLaplaceSum | None = None
    """What servers add, less its mean."""

    @property
    def messages(self) -> int:
        """The largest N."""
        return self.n + sum(m for m, _ in self.extra)

    def mean(self, c: Floats) -> Floats:
        mean: Floats = c * self.p + (self.n - c) * self.q + sum(m * r for m, r in self.extra)
        return mean

    def variance(self, c: Floats) -> Floats:
        extra = sum(m * r * (1 - r) for m, r in self.extra)
        extra += 0.0 if self.added is None else self.added.variance
        holder, other = self.p * (1 - self.p), self.q * (1 - self.q)
        variance: Floats = c * holder + (self.n - c) * other + extra
        return variance

    def mirror(self) -> "SupportLaw":
        """Return the law of messages - N, a function of n - c."""
        extra = tuple((m, 1 - r) for m, r in self.extra)
        return SupportLaw(n=self.n, p=1 - self.q, q=1 - self.p, extra=extra, added=self.added)

    def at_least(self, x: Floats, c: Floats, tail: float) -> Floats:
        """Bound Pr[N >= x] from above, closely if that is near `tail`; x and c are arrays of one shape."""
        if self.added is not None:
            return self._mix(self.added, x, c, tail)
        if tail < _SMALL:
            return self._chernoff(x, c)
        bounds = np.empty(len(x))
        sd = np.sqrt(self.variance(c))
        # Equal circles share their frequencies; each is at most sqrt(2) too long.
        size = np.ceil(2 * np.log2((8 * sd + 24) / 24)).astype(np.int64)
        for k in np.unique(size).tolist():
            together = np.flatnonzero(size == k)
            circle = self._circle(24 * 2 ** (k / 2), float(sd[together].min()))
            if circle.error > tail / 100:
                bounds[together] = self._chernoff(x[together], c[together])
                continue
            for which in np.array_split(together, len(together) // _BLOCK + 1):
                bounds[which] = self._fourier(x[which], c[which], circle)
        return np.minimum(bounds, 1.0)

    def _mix(self, added: CutLaplaceSum, x: Floats, c: Floats, tail: float) -> Floats:
        """Return the mean of the tails of N - s over all s that servers may have added."""
        if self.p == 1 and self.q == 0 and not self.extra:
            return added.at_least(x - c)
        reach = added.most
        rare = added.at_least(np.arange(reach + 1.0)) <= _UNLIKELY * tail / 2
        kept = int(np.argmax(rare)) if rare.any() else reach + 1  # |s| < kept, and the rest is rare
        s = np.arange(1.0 - kept, kept)
        masses = added.masses[reach + 1 - kept : reach + kept]
        alone = replace(self, added=None)
        places, counts = np.subtract.outer(x, s), np.broadcast_to(c[:, None], (len(x), len(s)))
        tails = alone.at_least(places.ravel(), counts.ravel(), tail).reshape(places.shape)
        left = 2 * float(added.at_least(np.array([float(kept)])).item())
        return np.minimum((tails @ masses) * (1 + 1e-12) + left, 1.0)

    def _circle(self, w: float, sd: float) -> "_Circle":
        reach = math.ceil(w)
        length, last = 2 * reach + 1, reach
        if 2 * sd * sd > _CUT:
            last = min(reach, math.ceil(length / math.pi * math.asin(math.sqrt(_CUT / 2) / sd)))
        t = np.arange(1.0, last + 1) * (2 * math.pi / length)
        phases = 64 * UNIT * (self.messages + reach) * float(t[-1])
        return _Circle(reach=reach, t=t, error=_FIXED_ERROR + math.exp(-_CUT) * sd + phases)

    def _fourier(self, x: Floats, c: Floats, circle: "_Circle") -> Floats:
        reach, t = circle.reach, circle.t
        length, last = 2 * reach + 1, len(t)
        mean = self.mean(c)
        centre = np.rint(mean)
        place = np.clip(x - centre, -reach, reach + 1)
        size, angle = np.zeros((len(x), last)), np.outer(mean - centre, t)
        for m, r in self._parts(c):
            log_size, turn = _log_wave(t, r)
            size += np.outer(m, log_size)
            angle += np.outer(m, turn)
        # The sum of e^(-itk) over k = -reach .. place - 1 is (e^(it reach) - e^(-it place)) / (1 - e^-it), and
        # 1 / (1 - e^-it) = e^(i (t - pi) / 2) / (2 sin(t/2)).
        angle += (t - math.pi) / 2
        waves = np.cos(angle + t * reach) - np.cos(angle - np.outer(place, t))
        waves *= np.exp(size)
        waves /= length * np.sin(t / 2)
        below = (place + reach) / length + waves.sum(axis=1)
        return np.where(x - centre > reach, 0.0, 1 - below) + circle.error

    def _chernoff(self, x: Floats, c: Floats) -> Floats:
        """Minimise E[e^(s (N - x))] over s >= 0; every s gives an upper bound."""
        low, high = np.zeros(len(x)), np.full(len(x), 64.0)
        for _ in range(40):
            middle = (low + high) / 2
            right = self._tilted_mean(middle, c) < x
            low, high = np.where(right, middle, low), np.where(right, high, middle)
        bound = self._log_moment(low, c) - low * x
        # Where the bound is below 1, both numbers are at most s x, and right within 24 units of 2^-53.
        return np.minimum(np.exp(bound + 1e-9 + 1e-14 * np.abs(low * x)), 1.0)

    def _parts(self, c: Floats) -> list[tuple[Floats, float]]:
        extra = [(np.full(len(c), float(m)), r) for m, r in self.extra]
        return [(c, self.p), (self.n - c, self.q), *extra]

    def _tilted_mean(self, s: Floats, c: Floats) -> Floats:
        total = np.zeros(len(c))
        for m, r in self._parts(c):
            up = r * np.exp(s)
            total += m * (up / (1 - r + up))
        return total

    def _log_moment(self, s: Floats, c: Floats) -> Floats:
        total = np.zeros(len(c))
        for m, r in self._parts(c):
            total += m * np.log1p(r * np.expm1(s))
        return total

    def find_lowest(self, x: Floats, tail: float) -> Floats:
        """Return the smallest c with Pr[N >= x] > tail, or a little less.

        >>> SupportLaw(n=100, p=0.75, q=0.25).find_lowest(np.array([60.0]), 0.025)
        array([53.])
        """
        wanted = float(_score(np.array([tail])).item())
        refused, kept = np.full(len(x), -1.0), np.full(len(x), float(self.n))
        guess = self._guess(x, wanted)
        active = np.arange(len(x))
        for sweep in range(200):
            room = self._room(guess[active])
            active = active[kept[active] - refused[active] > 1 + room]
            if not len(active):
                break
            c = np.clip(np.rint(guess[active]), refused[active] + 1, kept[active] - 1)
            bounds = self.at_least(x[active], c, tail)
            over = bounds > tail
            kept[active] = np.where(over, c, kept[active])
            refused[active] = np.where(over, refused[active], c)
            if sweep < _SWEEPS:
                score = _score(np.clip(bounds, 1e-12, 1 - 1e-12))
                step = (score - wanted) * np.sqrt(self.variance(c)) / (self.p - self.q)
                # A little past the root, so that the next one closes in from the other side.
                past = np.where(over, -0.5, 0.5) * np.maximum(self._room(c), 1)
                guess[active] = c - step + past
            else:
                guess[active] = (kept[active] + refused[active]) / 2
        return refused + 1

    def _guess(self, x: Floats, score: float) -> Floats:
        base, slope = float(self.mean(np.zeros(1)).item()), self.p - self.q
        c = np.clip((x - base) / slope, 0, self.n)
        for _ in range(4):
            c = np.clip((x - 0.5 - base + score * np.sqrt(self.variance(c))) / slope, 0, self.n)
        return c

    def _room(self, c: Floats) -> Floats:
        c = np.clip(c, 0, self.n)
        return np.floor(_FINENESS * np.sqrt(self.variance(c)) / (self.p - self.q))


def _score(p: Floats) -> Floats:
    """Return the normal quantile within 10^-4: it only says where to look next, so SciPy need not be loaded."""
    z, log_odds = _scores()
    score: Floats = np.interp(np.log(p) - np.log1p(-p), log_odds, z)
    return score


@cache
def _scores() -> tuple[Floats, Floats]:
    z = np.arange(-38 * 32, 8 * 32 + 1) / 32
    below = np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in z.tolist()])
    above = np.array([math.erfc(each / math.sqrt(2)) / 2 for each in z.tolist()])
    return z, np.log(below) - np.log(above)


def _log_wave(t: Floats, r: float) -> tuple[Floats, Floats]:
    """Return real and imaginary part of ln E[e^(i t (B - r))], B a coin with probability r."""
    size = np.log1p(-4 * r * (1 - r) * np.sin(t / 2) ** 2) / 2
    angle = np.arctan2(r * np.sin(t), 1 - r + r * np.cos(t)) - r * t
    return size, angle


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoBinomialsError:
    """The error of a count c estimated from N = Bin(c, p) + Bin(n - c, q) + Bin(m, r) + ...

    The interval inverts the law: it holds every c for which the observed N is not in a tail of probability
    (1 - level) / 2, so it covers at least its level. If N is below what is expected of no holders at all, the high
    end is that of the expected N: an unlucky draw does not make the answer look more certain. Likewise if N is
    above what is expected of n holders. For one count, `observed` and `value` are numbers; for a
    histogram, arrays.

    >>> error = TwoBinomialsError(observed=60, n=100, p=0.75, q=0.25, value=70.0)
    >>> error.interval(70.0, 0.95)
    Interval(low=53.0, high=88.0)
    """

    observed: Counts | int
    n: int
    p: float
    q: float
    value: Value
    extra: tuple[tuple[int, float], ...] = ()
    """(m, r) of further messages, whatever c is."""
    added: CutLaplaceSum | None = None
    """What servers add to each bin, independently; `observed` has it, less its mean."""
    apart: bool = False
    """Whether no two bins are supported together more often than if they were independent, whatever people have."""
    stderr: Value = field(init=False)

    def __post_init__(self) -> None:
        count = np.clip(np.asarray(self.value, dtype=np.float64), 0, self.n)
        stderr = np.sqrt(self.law.variance(count)) / (self.p - self.q)
        object.__setattr__(self, "stderr", stderr if np.ndim(self.value) else float(stderr))

    @property
    def law(self) -> SupportLaw:
        """The law of what is observed, for every c."""
        return SupportLaw(n=self.n, p=self.p, q=self.q, extra=self.extra, added=self.added)

    def interval(self, value: Value, level: float) -> Interval:
        """Return the exact one: the law is known, so there is nothing to approximate."""
        return self.leave_out((1 - valid_level(level)) / 2)

    exact_interval = interval

    @property
    def distance(self) -> float:
        """The law is exact."""
        return 0.0

    def log_moment(self, weights: Floats) -> Floats:
        """Bound ln E[e^(w . Z)] from above for each row of weights, by Bennett's inequality: people draw on their own.

        A message supports some of the bins, so it moves the sum by |w_1| + |w_2| + ... at most, over p - q. If what it
        supports is uncorrelated or negatively correlated between bins (`apart`), the variance of a sum is at most that
        of independent bins if all weights have the same sign, and at most twice as large in any case (that of both
        signs apart, twice). Otherwise standard deviations add up.
        """
        lead, size = self.p - self.q, np.abs(weights).sum(axis=-1)
        people = replace(self.law, added=None)
        each = people.variance(np.array([0.0, float(self.n)])).max() / lead**2
        mixed = have_both_signs(weights)
        squares = np.where(mixed, 2.0, 1.0) * (weights**2).sum(axis=-1)
        variance = each * (np.minimum(squares, size**2) if self.apart else size**2)
        reach = size / lead
        with np.errstate(over="ignore"):
            # (e^x - 1 - x) / x^2, by its first terms where digits would be lost.
            growth = np.where(
                reach < 1e-3,
                0.5 + reach / 5,
                (np.expm1(reach) - reach) / np.maximum(reach, 1e-3) ** 2,
            )
            bounds: Floats = variance * growth
        if self.added is not None:
            bounds = bounds + self.added.log_moments(weights / lead).sum(axis=-1)
        return bounds

    def leave_out(self, tail: float) -> Interval:
        """Return the counts whose two tails at what is observed are both above this one."""
        seen, back = np.unique(np.asarray(self.observed), return_inverse=True)
        x, law = seen.astype(np.float64), self.law
        nobody, everybody = law.mean(np.array([0.0, float(self.n)])).tolist()
        low = law.find_lowest(np.minimum(x, math.ceil(everybody)), tail)
        high = self.n - law.mirror().find_lowest(
            law.messages - np.maximum(x, math.floor(nobody)), tail
        )
        if np.ndim(self.observed) == 0:
            return Interval(float(low[0]), float(high[0]))
        return Interval(low[back], high[back])


_ESSEEN = 0.56
_HALVINGS = 40
_SHARES = (1.0, 0.8, 0.64, 0.5, 0.4, 0.3)
"""The upper ends of ranges of variances, as shares of the largest."""
_ROUNDING = 1 + 1e-9
_LARGEST_TAIL = 0.2  # where the argument of `OneBitError` holds, with room
_ROUNDED = 1e-8  # of the width of an interval: more than SciPy's roots are off
_TINY = 1e-4  # below, h is bounded by its series: no digits are lost


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundedError:
    """The error of an unbiased answer to which each person adds at most `reach` more than expected.

    With x = truth - origin, the variance is at most a + b x + c x^2, (a, b, c) = `most`, c <= 0; and at least `least`.

    >>> error = BoundedError(
    ...     stderr=1.0, most=(1.0, 0.0, 0.0), least=1.0, reach=0.001, limits=(0.0, 100.0)
    ... )
    >>> [round(end, 2) for end in error.interval(50.0, 0.95)]
    [48.03, 51.97]
    """

    stderr: Value
    most: tuple[Value, float, float]
    least: Value
    reach: float
    limits: tuple[float, Value]
    """The two ends between which the truth lies."""
    origin: float = 0.0
    bias: float = 0.0
    """By how much the answer is off at most on average."""

    def interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers the truth with probability at least `level` at any n, by bounds of the
        tails.
        """
        return self.leave_out((1 - valid_level(level)) / 2, value)

    exact_interval = interval

    def leave_out(self, tail: float, value: Value) -> Interval:
        """Return the truths that are not refused at this tail, on either side."""
        with np.errstate(divide="ignore", invalid="ignore"):  # without noise 0/0 refuses nothing
            return self._leave_out(tail, value)

    def _leave_out(self, tail: float, value: Value) -> Interval:
        seen = np.asarray(value, dtype=np.float64)
        start = np.clip(seen, *self.limits)

        def few(truth: Floats) -> Bools:
            return self._bennett(self._off(seen, truth), self._variance(truth), tail)

        ends = [np.broadcast_to(np.asarray(end, np.float64), seen.shape) for end in self.limits]
        low, high = (_search(start, end, few) for end in ends)
        scores = self._scores(np.minimum(self._variance(low), self._variance(high)), tail)

        def many(truth: Floats) -> Bools:
            off, most = self._off(seen, truth), self._variance(truth)
            score, refused = off / np.sqrt(most), np.ones(seen.shape, dtype=bool)
            for share, least in zip(_SHARES, scores, strict=True):
                normal = score >= least * math.sqrt(share)
                refused &= normal | self._bennett(off, most * share, tail)
            return refused

        low, high = (_search(start, end, many) for end in (low, high))
        if seen.ndim:
            return Interval(low, high)
        return Interval(float(low), float(high))

    def _variance(self, truth: Floats) -> Floats:
        """Return the largest one of data with this answer."""
        a, b, c = self.most
        x = truth - self.origin
        variance: Floats = np.asarray(a + x * (b + x * c))
        return variance

    def _off(self, seen: Floats, truth: Floats) -> Floats:
        off: Floats = np.maximum(np.abs(seen - truth) - self.bias, 0.0)
        return off

    def _bennett(self, off: Floats, most: Floats, tail: float) -> Bools:
        """Return whether the first bound is at most `tail`."""
        u = self.reach * off / most
        h = np.where(u < _TINY, u * u / 2 * (1 - u / 3), (1 + u) * np.log1p(u) - u)
        refused: Bools = most / self.reach**2 * h >= -math.log(tail) * _ROUNDING
        return refused

    def _scores(self, smallest: Floats, tail: float) -> list[Floats]:
        """Return for each range the smallest t / sqrt(v) at which the second bound is at most `tail`."""
        floors = [np.maximum(self.least, smallest * share) for share in _SHARES[1:]]
        ends = [*floors, np.broadcast_to(np.asarray(self.least, np.float64), smallest.shape)]
        left = (tail - _ESSEEN * self.reach / np.sqrt(end) for end in ends)
        return [_ROUNDING * _isf(each) for each in left]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneBitError:
    r"""The error of a mean of n people who send one bit each, with a chance of a one that is affine in their value.

    The number of ones S is a sum of independent coins, and the truth tells the mean m = E[S], but not the coins. By
    Hoeffding 1956, "On the distribution of the number of successes in independent trials" (Theorem 4), no coins of
    the same mean have Pr[S <= c] smaller than n equal ones if c >= m. So Pr[S >= k] <= Pr[Bin(n, m / n) >= k] if
    k >= m + 1, and likewise on the other side: the interval of Clopper and Pearson covers, whatever the coins are.
    It ends where k >= m + 1: for k > 1 and m = k - 1 that probability is at least 1/4, far more than a tail. For k = 1
    Markov's inequality, Pr[S >= 1] <= m, stands in. No interval could be narrower, since equal values are among the
    data with that mean.

    >>> error = OneBitError(stderr=0.1, n=100, chances=(0.25, 0.75), limits=(0.0, 1.0))
    >>> [round(end, 3) for end in error.interval(0.5, 0.95)]
    [0.297, 0.703]
    """

    stderr: Value
    n: int
    chances: tuple[float, float]
    """The chance of a one at either end of the range."""
    limits: tuple[float, float]
    bias: float = 0.0
    """By how much the answer is off at most on average."""

    def interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers the truth with probability at least `level` at any n and for any data."""
        from scipy.special import betaincinv

        tail, n = min((1 - valid_level(level)) / 2, _LARGEST_TAIL), self.n
        (start, end), (lower, upper) = self.chances, self.limits
        slope = (end - start) / (upper - lower)
        shares = start + slope * (np.asarray(value, dtype=np.float64) - lower)
        ones = np.rint(np.clip(n * shares, 0, n))

        def least(seen: Floats) -> Floats:
            """Return the smallest mean share of ones that is not refused."""
            inner = betaincinv(np.maximum(seen, 1), n - np.maximum(seen, 1) + 1, tail)
            return np.where(seen > 1, inner, np.where(seen > 0, tail / n, 0.0))

        low, high = least(ones), 1 - least(n - ones)
        off = self.bias + _ROUNDED * (high - low) / slope
        ends = (lower + (low - start) / slope - off, lower + (high - start) / slope + off)
        first, second = (np.clip(each, lower, upper) for each in ends)
        if np.ndim(value):
            return Interval(first, second)
        return Interval(float(first), float(second))

    exact_interval = interval


def _isf(tail: Floats) -> Floats:
    """Return z with Pr[normal >= z] = tail; infinite where there is none."""
    normal = NormalDist()
    distinct, back = np.unique(tail, return_inverse=True)
    scores = [-normal.inv_cdf(each) if each > 0 else math.inf for each in distinct.tolist()]
    return np.array(scores)[back].reshape(tail.shape)


def _search(kept: Floats, end: Floats, refuses: Callable[[Floats], Bools]) -> Floats:
    """Return the first truth that is rejected between `kept` and `end`, or the end."""
    everything, refused = ~refuses(end), end
    for _ in range(_HALVINGS):
        middle = (kept + refused) / 2
        over = refuses(middle)
        kept, refused = np.where(over, kept, middle), np.where(over, middle, refused)
    return np.where(everything, end, refused)
