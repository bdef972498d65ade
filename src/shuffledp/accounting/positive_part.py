"""The expected positive part of a sum of n i.i.d. variables: (1/n) E[(G_1 + ... + G_n)_+].

G takes the value g_j with probability w_j, and 0 with what is left of the probability; its mean is
at most 0, so that the positive part is a rare event. Three evaluations, all upper bounds:

* by listing how often each value comes up, for small n.
* by Fourier, for all rows of a table of values at once: a little normal noise Z of mean 0 is added to the sum
  (expectations of convex functions only grow), and both are tilted so that the sum is centred at 0. Then Poisson's
  summation formula, with f(s) = (s)_+ e^(-rate s),

      sum over m of E f(S + Z + m period) = (1/period) sum over k of F(omega_k) Phi(omega_k),   omega_k = 2 pi k / period,

  F and Phi the transforms of f and of the law of S + Z: the left side is at least its term m = 0, and Z
  makes the right side short, whatever n is. What is cut off is added. For large n the sum is smooth by itself: with
  v the tilted variance of G and d the fourth moment of the difference of two of them, |Phi_G|^2 <= 1 - v omega^2 +
  d omega^4 / 24 (cos x <= 1 - x^2/2 + x^4/24), which is at most 1 - v omega^2 / 2 up to omega^2 = 12 v / d. So n of them
  are below exp(-n v omega^2 / 4) there, a few dozen frequencies count, and Z only has to silence what lies beyond.
* by the normal law: the same tilt, then the Berry-Esseen inequality. Its relative error falls like
  1/sqrt(n), its cost does not depend on n, and it bounds from below as well.

**Rounding.** All errors below are worked out in units (`rounding.UNIT`), and added.

*Masses* are floats near the true ones, up to 24 units. Masses of positive values are raised by 32 units, those
of negative values lowered. If w' and w are the masses after and before, then for every t

    sum_j w'_j (g_j - t)_+ + w'_0 (-t)_+  >=  sum_j w_j (g_j - t)_+ + w_0 (-t)_+      (w'_0 = max(0, 1 - sum w'_j)):

for t >= 0 only positive values count, and for t < 0 what negative values lose is won at 0, where (-t)_+ is
larger. So the expectation of every increasing convex function that is bounded below grows, and one G after the
other can be replaced. From there on masses and values are what they are.
"""

import math
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from shuffledp.accounting.base import SMALLEST_DELTA
from shuffledp.core.arrays import Counts, Floats
from shuffledp.numerics.rounding import UNIT

_BERRY_ESSEEN = 0.474801  # Shevtsova 2011, for identically distributed summands
_ADDED_VARIANCE = 1e-4  # relative; epsilon grows by about half of that (less below n = 1000)
_FADED = 60.0  # frequencies damped by more than e^-60 are left out, and accounted for
_HIGHEST = math.sqrt(2 * _FADED)  # over the blur: beyond, its damping is more than that
_MOST = 1 << 14  # frequencies
_STEEPEST = 600.0  # largest exponent of a tilt: e^700 would overflow, and every rate is valid
_LARGEST_LOG = 709.0  # whose power is a float
_LISTED = 30_000  # ways in which n users can be spread over the values
_LEAST_DEVIATION = 2.0  # with a smaller tilt the period would be longer
_LEAST_GENTLE = 0.05  # the same, where rare large values make that one too steep
_STEEP = 3.0  # ln E e^(rate S): of a normal sum with a mean of at most 0 and the least tilt it is at most 2
_LEAST_SIZE = 1e-9  # of |Phi|^2: a smaller one is only bounded
_SURE = 1e-7  # relative error of a variance that is as good as known
_UNSURE = (
    1e-5  # of a sum over frequencies: with more rounding than that, the normal law may be better
)
_AT_ONCE = 1 << 18  # angles: bounds the memory
_MANY = 96  # frequencies in a row, from which on tables of sines pay
_BLOCK = 32


def mean_positive_part(w: Floats, g: Floats, n: int) -> float:
    """Return an upper bound of (1/n) E[(G_1 + ... + G_n)_+].

    >>> w, g = np.array([0.25, 0.25]), np.array([1.0, -1.5])
    >>> round(mean_positive_part(w, g, 1), 6)
    0.25
    """
    return float(mean_positive_parts(w, g[None, :], n).item())


@np.errstate(over="ignore", invalid="ignore")
def mean_positive_parts(w: Floats, g: Floats, n: int) -> Floats:
    """Return the same for each row of values, which share their masses and most of the work.

    >>> w, g = np.array([0.25, 0.25]), np.array([[1.0, -1.5], [0.5, -1.5]])
    >>> mean_positive_parts(w, g, 1)
    array([0.25 , 0.125])
    """
    # What is not a number may be as large as it likes: a comparison with it would end as if it were 0.
    g, w = np.where(np.isnan(g), math.inf, g)[:, w > 0], w[w > 0]
    means = np.zeros(len(g))
    rows = np.flatnonzero(g.max(axis=1, initial=-math.inf) > 0)
    if not len(rows):
        return means
    g = g[rows]
    masses = w * np.where(g > 0, 1 + 32 * UNIT, 1 - 32 * UNIT)
    # (a + b)_+ <= a_+ + b_+, for n = 1 the truth
    alone = _dot(masses, np.maximum(g, 0.0)) * (1 + (len(w) + 4) * UNIT)
    means[rows] = alone
    if n == 1:
        return means
    some = np.flatnonzero(g.min(axis=1) < 0)
    if not len(some):
        return means
    if math.comb(n + len(w), n) <= _LISTED:
        means[rows[some]] = np.maximum(_sum_list(w, g[some], n) / n, SMALLEST_DELTA)
        return means
    widest = _find_widest(masses[some], alone[some], n)
    tilt = _Tilt.solve(masses[some], g[some], n, 1, least=_LEAST_DEVIATION)
    bound = _scale(tilt, _bound_tilted(tilt, widest), 1) / n
    steep = np.flatnonzero(n * tilt.log_mgf > _STEEP)
    if len(steep):  # rare large values: what was added to the tilt is far too much for them
        rows_again = some[steep]
        gentle = _Tilt.solve(masses[rows_again], g[rows_again], n, 1, least=_LEAST_GENTLE)
        again = _scale(gentle, _bound_tilted(gentle, widest[steep]), 1) / n
        bound[steep] = np.fmin(bound[steep], again)
    # Not a number (0 times infinity, at laws that no protocol has) is no bound.
    bound = np.where(bound <= alone[some], np.maximum(bound, SMALLEST_DELTA), alone[some])
    means[rows[some]] = bound
    return means


def _dot(first: Floats, second: Floats) -> Floats:
    """Return the sum of products over the last axis; positive or not, in any order."""
    total: Floats = (first * second).sum(axis=-1)
    return total


def mean_positive_part_lower(w: Floats, g: Floats, n: int) -> float:
    """Return a lower bound by Berry-Esseen alone, for large n and masses that sum to 1.

    Masses are off by up to 24 units, and are divided by their sum. (g - t)_+ is at most the range of the
    values, beyond which it is linear: values that are lower by 64 units of their range pay for it.

    >>> w, g, n = np.array([0.5, 0.5]), np.array([1.0, -1.00001]), 10**10
    >>> low, high = mean_positive_part_lower(w, g, n), mean_positive_part(w, g, n)
    >>> round(high / low - 1, 5)
    3e-05
    """
    g = g - 64 * UNIT * (g.max() - g.min())
    w = w / math.fsum(w)
    # A sum that is hardly moved by its tilt is better left as it is.
    tilted, plain = _Tilt.solve(w, g, n, -1), _Tilt.at(0.0, w, g, n, -1)
    # E min(S_+, 4 sd) is at least 0.39892 sd for a normal sum, and 4 sd is its total variation.
    # Either factor may be below 0, and so may both be.
    share, surely = max(0.0, 0.39892 - 4 * float(plain.distance)), 1 - float(plain.wrong_sd)
    centred = float(plain.sd) * surely * share - n * float(plain.offset) if share else 0.0
    if tilted.rate <= 0:
        return max(0.0, centred) / n
    main, error = _bound_by_normal(tilted)
    raised = float(_scale(tilted, np.asarray(max(main - error, 0.0)), -1))
    return max(0.0, raised, centred) / n * (1 - 8 * UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tilt:
    """The law of G (0 with what is left of the mass) tilted by e^(rate G), so that its mean is 0.

    Whatever the rate, E[(S)_+] = mgf^n E_tilted[(S)_+ e^(-rate S)]. Everything but n is an array with an entry for each
    law; masses and values have one more axis.
    """

    n: int
    rate: Floats
    log_mgf: Floats
    wrong_log: Floats
    """An upper bound on the error of `log_mgf`."""
    mass: Floats
    wrong: Floats
    """An upper bound on the relative error of each mass, and of what a sum over them adds."""
    value: Floats
    sd: Floats
    """Standard deviation of the tilted sum."""
    wrong_sd: Floats
    """An upper bound on its relative error."""

    @staticmethod
    def solve(w: Floats, g: Floats, n: int, side: int, least: float = 0.0) -> "_Tilt":
        """Return the law tilted by at least `least` standard deviations."""
        rate = np.maximum(_tilt_rate(w, g), least / np.sqrt(n * _dot(w, g**2)))
        return _Tilt.at(np.minimum(rate, _STEEPEST / g.max(axis=-1)), w, g, n, side)

    @staticmethod
    def at(rate: Floats | float, w: Floats, g: Floats, n: int, side: int) -> "_Tilt":
        """Tilt at this rate, for an upper (side = 1) or a lower (side = -1) bound.

        The mgf is a sum that loses some units. For an upper bound twice that is added, as mass at 0, which
        only raises the expectation: the mgf is then exactly what it says.
        """
        rate = np.asarray(rate)[()]
        many = g.shape[-1] + 16  # units that a sum over the values loses, and expm1
        turned = rate[..., None] * g
        growth, size = np.expm1(turned), np.abs(turned)
        lost = many * UNIT * _dot(w, np.abs(growth) + (1 + growth) * size)
        total = _dot(w, growth)
        if side > 0:
            excess = _exceed_one(w)
            total = total + (np.maximum(excess, 0.0) + 2 * UNIT * (np.abs(excess) < 4 * UNIT))
            total = total + 2 * lost
        elif np.any(1 + total < 1e3 * lost):
            raise ArithmeticError("the mgf is lost in rounding")
        log_mgf = np.log1p(total)
        wrong_log = 10 * UNIT * np.abs(log_mgf)
        if side < 0:
            wrong_log = wrong_log + 1.01 * lost / (1 + total)
        mass = w * np.exp(turned - log_mgf[..., None])
        wrong = (wrong_log + (many + np.abs(log_mgf)) * UNIT)[..., None] + 2 * UNIT * size
        mean, rest = _dot(mass, g), np.maximum(0.0, 1 - mass.sum(axis=-1))
        variance = _dot(mass, (g - mean[..., None]) ** 2) + rest * mean**2
        unsure = _dot(mass * wrong, (np.abs(g) + np.abs(mean)[..., None]) ** 2)
        unsure = unsure + mean**2 * (_dot(mass, wrong) + many * UNIT)
        with np.errstate(divide="ignore", invalid="ignore"):
            wrong_sd = 8 * UNIT + np.where(variance > 0, unsure / variance, 1.0)
        return _Tilt(
            n=n,
            rate=rate,
            log_mgf=log_mgf,
            wrong_log=wrong_log,
            mass=mass,
            wrong=wrong,
            value=g,
            sd=np.sqrt(n * variance),
            wrong_sd=wrong_sd,
        )

    def take(self, rows: Counts) -> "_Tilt":
        """Keep some of the laws."""
        arrays = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "n"}
        return _Tilt(n=self.n, **{name: array[rows] for name, array in arrays.items()})

    @property
    def deviation(self) -> Floats:
        """Rate times standard deviation: how many of these the tilt has moved the sum."""
        return self.rate * self.sd

    @property
    def rounding(self) -> Floats:
        """An upper bound on the error of a sum over the values whose terms are at most |value|."""
        return _dot(self.mass * (self.wrong + 32 * UNIT), np.abs(self.value)) * 1.001

    @property
    def offset(self) -> Floats:
        """An upper bound on the remaining tilted mean of one G."""
        return np.abs(_dot(self.mass, self.value)) + self.rounding

    @property
    def distance(self) -> Floats:
        """The largest distance of the tilted sum's distribution function from the normal one.

        Infinite where the deviation is hardly known: 1 / (1 - x)^(3/2) is at most 1 + 4 x only up to x = 1/2.
        """
        third = _dot(self.mass * (1 + self.wrong), np.abs(self.value) ** 3)
        # Around the mean: by the triangle inequality, as no rate makes the mean exactly 0.
        moment = (np.cbrt(third) + self.offset) ** 3
        wrong = 4 * self.wrong_sd + 64 * UNIT
        far = _BERRY_ESSEEN * moment * self.n / self.sd**3 * (1 + wrong)
        known: Floats = np.where(self.wrong_sd < 0.5, far, math.inf)
        return known

    @property
    def smooth(self) -> Floats:
        """Up to this frequency |Phi_G|^2 <= 1 - v omega^2 / 2; 0 where the moments are not known well enough."""
        mean, rest = _dot(self.mass, self.value), np.maximum(0.0, 1 - self.mass.sum(axis=-1))
        fourth = _dot(self.mass, (self.value - mean[..., None]) ** 4) + rest * mean**4
        variance = self.sd**2 / self.n
        # The difference of two independent ones: 2 E(G - mean)^4 + 6 v^2.
        with np.errstate(divide="ignore", invalid="ignore"):
            highest = np.sqrt(12 * variance / (2 * fourth + 6 * variance**2)) * (1 - 1e-5)
        known: Floats = np.where(self.wrong_sd < _SURE, highest, 0.0)
        return known


def _exceed_one(w: Floats) -> Floats:
    """Return by how much each law's mass exceeds 1, rounded once."""
    if w.ndim == 1:
        return np.asarray(math.fsum(w.tolist()) - 1)
    return np.array([math.fsum(row) - 1 for row in w.tolist()])


def _scale(tilt: _Tilt, tilted: Floats, side: int) -> Floats:
    """Scale E_tilted[(S)_+ e^(-rate S)] to E[(S)_+], on the side of the first."""
    log = tilt.n * (tilt.log_mgf + side * tilt.wrong_log)
    log = log + side * 4 * UNIT * np.abs(log)
    grown = np.where(log < _LARGEST_LOG, np.exp(np.minimum(log, _LARGEST_LOG)), math.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled: Floats = tilted * grown * (1 + side * 32 * UNIT)
    return scaled


def _tilt_rate(w: Floats, g: Floats) -> Floats:
    """Return the rate >= 0 that makes the tilted mean 0 (to rounding; every rate gives a valid identity)."""
    weight = w * g
    mean, second = weight.sum(axis=-1), _dot(weight, g)
    falls = mean < 0
    top = g.max(axis=-1)
    low, high = np.zeros(mean.shape), 1.0 / top
    # From above, a step of Newton's moves by 1 / top: start at most a factor of 2 above.
    while True:
        short = (
            falls & ((weight * np.exp(high[..., None] * g)).sum(axis=-1) < 0) & (high * top < 300)
        )
        if not short.any():
            break
        high = np.where(short, 2 * high, high)
    rate = np.where(falls, np.minimum(-mean / second, high), 0.0)
    moving = falls
    for _ in range(80):
        grown = weight * np.exp(rate[..., None] * g)
        mean, slope = grown.sum(axis=-1), _dot(grown, g)
        below = mean < 0
        low, high = np.where(below, rate, low), np.where(below, high, rate)
        step = rate - mean / slope
        step = np.where((low < step) & (step < high), step, (low + high) / 2)
        # Newton's error is squared in every step. Who has arrived stays: the next step would be noise.
        arrived = np.abs(step - rate) <= 1e-7 * rate
        rate = np.where(moving, step, rate)
        moving = moving & ~arrived
        if not moving.any():
            break
    return rate


def _find_widest(w: Floats, alone: Floats, n: int) -> Floats:
    """Return how wide Z may be at most: with a wider one, Fourier's bound is above that of each G alone.

    Nobody counts with probability p = (1 - sum w)^n. Then (S + Z)_+ has the mean sd(Z) / sqrt(2 pi); if just one
    counts, it is at least that of G_+. So E(S + Z)_+ >= p (sd(Z) / sqrt(2 pi) + n E G_+), and the sum of the positive
    parts alone is n E G_+.
    """
    counts = np.minimum(w.sum(axis=-1), 1.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        odds = np.expm1(-n * np.log1p(-counts))  # (1 - p) / p
        widest: Floats = math.sqrt(2 * math.pi) * n * alone * odds
    return widest


def _bound_tilted(tilt: _Tilt, widest: Floats) -> Floats:
    """Bound E_tilted[(S)_+ e^(-rate S)] from above, the laws in one row; `widest`: of the Z that are of use."""
    # E(S)_+ is at most half of E|S|, the standard deviation at most, and of the mean.
    crude = tilt.sd / 2 * (1 + tilt.wrong_sd) + tilt.n * tilt.offset
    bounds = crude.copy()
    # Where the mgf of the sum leaves the floats, no bound is of use.
    useful = tilt.n * tilt.log_mgf < _LARGEST_LOG
    rows = np.flatnonzero(useful & (tilt.rate > 0) & (tilt.sd > 0) & np.isfinite(tilt.sd))
    if len(rows):
        some = tilt if len(rows) == len(crude) else tilt.take(rows)
        summed, unsure = _bound_by_fourier(some, widest[rows])
        bounds[rows] = np.fmin(summed, crude[rows])
        for row in rows[unsure > _UNSURE].tolist():
            main, error = _bound_by_normal(tilt.take(np.array(row)))
            bounds[row] = np.fmin(bounds[row], main + error)
    return bounds


def _sum_list(w: Floats, g: Floats, n: int) -> Floats:
    """Bound E[(G_1 + ... + G_n)_+] from above for each row of values, by listing how many users take each of them."""
    # Raising a value only raises the sum, and one below -n max g ends all hope as it is.
    g = np.maximum(g, -n * g.max(axis=1, keepdims=True))
    takers, weight = _list_ways(tuple(w.tolist()), n)
    # Each value was multiplied once and added once, and the sum has two roundings more.
    total = g @ takers + UNIT * (4 + 2 * len(w)) * (np.abs(g) @ takers)
    summed: Floats = np.maximum(total, 0.0) @ weight * (1 + (len(weight) + 16) * UNIT)
    return summed


@lru_cache(maxsize=8)
def _list_ways(w: tuple[float, ...], n: int) -> tuple[Floats, Floats]:
    """Return how many users take each value (rows), way by way, and an upper bound of the probability of each way.

    Masses are raised by more than they may be off, and so is what is left for 0: every term only grows.
    """
    left, weight, takers = np.array([n]), np.ones(1), np.zeros((0, 1))
    for mass in w:
        state = np.repeat(np.arange(len(left)), left + 1)
        start = np.repeat(np.cumsum(left + 1) - (left + 1), left + 1)
        here = np.arange(len(state)) - start
        weight = weight[state] * _choices(n)[left[state], here] * (mass * (1 + 32 * UNIT)) ** here
        takers = np.concatenate([takers[:, state], here[None, :].astype(np.float64)])
        left = left[state] - here
    rest = max(0.0, 1 - math.fsum(w)) + 32 * UNIT
    # A weight has a coefficient, a power and two products per value.
    return takers, weight * rest**left * (1 + 12 * (len(w) + 2) * UNIT)


@lru_cache(maxsize=256)
def _choices(n: int) -> Floats:
    """Return binomial coefficients of 0 .. n."""
    rows = [[math.comb(i, j) for j in range(n + 1)] for i in range(n + 1)]
    return np.array(rows, dtype=np.float64)


def _bound_by_normal(tilt: _Tilt) -> tuple[float, float]:
    """Return E_tilted[(S)_+ e^(-rate S)] for normal S, and how far the true one can be from that.

    For a normal S it is sd / sqrt(2 pi) (1 - z Mills(z)), z = rate sd. Its logarithm changes at most as
    much as that of sd.
    """
    low, high = _bound_excess(float(tilt.deviation))
    main = float(tilt.sd) / math.sqrt(2 * math.pi) * (low + high) / 2
    # v e^(-rate v) rises to 1 / (e rate) and falls again: its total variation is twice that. Its slope
    # is at most 1, so a mean that is off by an offset moves it by no more.
    error = float(2 / (math.e * tilt.rate) * tilt.distance + tilt.n * tilt.offset)
    spread = (high - low) / (high + low) + 2 * float(tilt.wrong_sd) + 32 * UNIT
    return main, (error + main * spread) * (1 + 16 * UNIT)


def _bound_excess(z: float) -> tuple[float, float]:
    """Return (low, high) around 1 - z Mills(z) for z >= 0; Mills(z) is the normal tail over the density.

    Up to 3, Mills(z) = sqrt(pi / 2) e^(z^2 / 2) - (z + z^3 / 3 + z^5 / (3 5) + ...). Beyond, it is the
    fraction 1 / (z + a), a = 1 / (z + 2 / (z + 3 / (z + ...))), and 1 - z Mills(z) = a / (z + a).

    >>> [round(end, 12) for end in _bound_excess(1.0)]
    [0.344320457581, 0.344320457581]
    >>> [round(end, 12) for end in _bound_excess(30.0)]
    [0.001107427825, 0.001107427825]
    """
    if z <= 3:
        term = total = z
        for i in range(3, 101, 2):  # what is left is below 3^101 / (3 5 ... 101) < 10^-31
            term *= z * z / i
            total += term
        peak = math.sqrt(math.pi / 2) * math.exp(z * z / 2)
        value, wrong = 1 - z * (peak - total), z * 128 * UNIT * peak + 4 * UNIT
        return value - wrong, value + wrong
    low, high = z, math.inf
    for i in range(80, 1, -1):
        low, high = z + i / high, z + i / low
    least, most = 1 / high, 1 / low
    wrong = 512 * UNIT  # positive terms only: five roundings a step
    return least / (z + least) * (1 - wrong), most / (z + most) * (1 + wrong)


def _bound_by_fourier(tilt: _Tilt, widest: Floats | float = math.inf) -> tuple[Floats, Floats]:
    """Bound E_tilted[(S)_+ e^(-rate S)] from above, by that of S + Z, Z normal with mean 0 (untilted).

    Return also which part of each bound is there for rounding. There is no bound where Z would be wider than `widest`.
    """
    # Copies of the sum, one period apart, are added: (S)_+ e^(-rate S) has died out by then.
    period = np.maximum(10 * tilt.sd, (25 - tilt.n * tilt.log_mgf) / tilt.rate)
    # Frequencies up to `_HIGHEST` / blur count, if the blur is strong enough for that to be a few of them ...
    blur = np.maximum(_blur(tilt), _HIGHEST * period / (2 * math.pi * _MOST))
    count = np.ceil(_HIGHEST / blur * period / (2 * math.pi))
    # ... or, where the sum is smooth up to there, those up to exp(-n v omega^2 / 4) = e^-60.
    smooth, enough = tilt.smooth, math.sqrt(4 * _FADED) * (1 + 1e-5) / tilt.sd
    fewer = np.ceil(enough * period / (2 * math.pi))
    few = (_HIGHEST / blur <= smooth) & (enough <= smooth) & (fewer <= count)
    with np.errstate(divide="ignore"):
        blur = np.where(few, _HIGHEST * (1 + 1e-9) / smooth, blur)
    count, until = np.where(few, fewer, count), np.floor(smooth * period / (2 * math.pi))
    bounds, unsure = np.empty(len(count)), np.empty(len(count))
    # Where moments have left the floats, nothing is sure.
    sure = np.isfinite(count) & ~(blur > widest)
    bounds[~sure], unsure[~sure] = math.inf, 1.0
    order = np.flatnonzero(sure)[np.argsort(count[sure])]
    while len(order):
        # Rows of about the same length go together.
        least = count[order[0]]
        alike = int(np.searchsorted(count[order], 2 * least + 16, side="right"))
        size = min(alike, max(1, int(_AT_ONCE / (2 * least + 16) / tilt.value.shape[-1])))
        rows, order = np.sort(order[:size]), order[size:]
        part = tilt if len(rows) == len(count) else tilt.take(rows)
        place = np.arange(count[rows].max() + 1)
        # Between the two, |Phi|^n is below e^-60 in every row.
        gap = (place > fewer[rows].max()) & (place < until[rows].min())
        bounds[rows], unsure[rows] = _add_frequencies(part, period[rows], blur[rows], place[~gap])
    return bounds, unsure


def _add_frequencies(
    tilt: _Tilt, period: Floats, blur: Floats, places: Floats
) -> tuple[Floats, Floats]:
    """Return both, with the frequencies 2 pi k / period, k in `places`; what is left out is damped by e^-60."""
    step = 2 * np.pi / period
    real, imaginary, rounding = _transform(tilt, step, places.astype(np.intp))
    # Most frequencies of a long sum are dead: |Phi|^2 + 3 `wrong` is below e^(-120 / n).
    size = real * (2 + real) + imaginary * imaginary
    least = math.expm1(-2 * _FADED / tilt.n) - 1e-14 - 3 * rounding * step * float(places[-1])
    alive = np.flatnonzero(size > least[:, None])
    at, column = np.divmod(alive, len(places))
    place = places[column]
    omega, rate, width = step[at] * place, tilt.rate[at], blur[at]
    log, angle, error = log_power(
        real.ravel()[alive], imaginary.ravel()[alive], omega * rounding[at], tilt.n
    )
    damping, turn = (width * omega) ** 2 / 2, rate * width * width * omega
    # s e^(-rate s), s > 0, has the transform 1 / (rate + i omega)^2.
    sizes = np.exp(log - damping) / (rate * rate + omega * omega)
    angle += turn - 2 * np.arctan2(omega, rate)
    error += (64 + 8 * damping + 8 * turn) * UNIT
    waves, errors = sizes * np.cos(angle), sizes * error
    twice = np.where(place > 0, 2.0, 1.0)
    shape = len(period), len(places)
    summed = _sum_rows(twice * (waves + errors), at, column, shape)
    slack = 64 * UNIT * _sum_rows(twice * (sizes + errors), at, column, shape)
    # All that was left out is damped by e^-60: not in `places`, or dead. The sum of 2 / (rate^2 + omega^2) / period
    # over all frequencies is at most 2 / (rate^2 period) + 1 / (2 rate).
    rate = tilt.rate
    outside = math.exp(-_FADED) * (2 / (rate * rate * period) + 1 / (2 * rate)) * 1.001
    blurred = (rate * blur) ** 2 / 2 * (1 + 8 * UNIT)
    factor = np.where(blurred < _LARGEST_LOG, np.exp(np.minimum(blurred, _LARGEST_LOG)), math.inf)
    total = (summed + slack) / period + outside
    with np.errstate(invalid="ignore"):
        unsure = _sum_rows(twice * errors, at, column, shape) / period / total
        return total * factor * (1 + 64 * UNIT), unsure


def _sum_rows(values: Floats, row: Counts, column: Counts, shape: tuple[int, int]) -> Floats:
    """Return the sum of what lies in each row.

    It is off by at most 48 units of the sum of sizes: 16 within a block, and NumPy adds up to 1,032 blocks of a row in
    pairs, eight at a time, so that each takes part in at most 30 additions.
    """
    blocks = -(-shape[1] // 16)
    parts = np.bincount(row * blocks + column // 16, values, shape[0] * blocks)
    sums: Floats = parts.reshape(shape[0], blocks).sum(axis=1)
    return sums


def _blur(tilt: _Tilt) -> Floats:
    """Return the standard deviation of Z."""
    # Few users, or few of them that count, make a sum with few places; much of it may lie near 0.
    added = _ADDED_VARIANCE * min(1.0, tilt.n / 1_000)
    blur: Floats = math.sqrt(added) * tilt.sd / np.maximum(1.0, tilt.rate * tilt.value.max(axis=-1))
    return blur


def _transform(tilt: _Tilt, step: Floats, places: Counts) -> tuple[Floats, Floats, Floats]:
    """Return real and imaginary part of Phi - 1 at these multiples of each law's step, and the error over frequency."""
    rounding = tilt.rounding
    half = (step[:, None] * tilt.value / 2)[:, None, :]  # [laws, 1, values]
    if len(places) >= _MANY:
        real, imaginary = _transform_steps(half, tilt.mass[:, None, :], int(places[-1]) + 1)
        rounding = rounding + 96 * UNIT * _dot(tilt.mass, np.abs(tilt.value))
        return np.take(real, places, axis=1), np.take(imaginary, places, axis=1), rounding
    half, mass = half * places[:, None], tilt.mass[:, :, None]
    sine = np.sin(half)
    real = -2 * ((sine * sine) @ mass)[:, :, 0]
    imaginary = 2 * ((sine * np.cos(half)) @ mass)[:, :, 0]
    return real, imaginary, rounding


def _transform_steps(half: Floats, mass: Floats, places: int) -> tuple[Floats, Floats]:
    """Return both at 0, 1, ... times a step: by the sines of multiples of `_BLOCK` steps, and of what is left of them.

    With a and b for the angles of both, sin^2 (a + b) = sin^2 a cos^2 b + 2 sin a cos a sin b cos b + cos^2 a sin^2 b,
    and the imaginary part is sin 2a cos 2b + cos 2a sin 2b. Small angles are sums of small numbers of one sign: with
    h = a + b, products are off by 40 units of (|sin a cos b| + |cos a sin b|)^2 <= 2 h, angles by 3 h, and the sum by
    less than 96 units of 2 h = omega |value|, times the mass.
    """
    far = half * (_BLOCK * np.arange(-(-places // _BLOCK), dtype=np.float64))[:, None]
    near = half * np.arange(_BLOCK, dtype=np.float64)[:, None]
    sine, cosine, sine_near, cosine_near = np.sin(far), np.cos(far), np.sin(near), np.cos(near)
    square, square_near = sine * sine, sine_near * sine_near
    twice, twice_near = 2 * sine * cosine, 2 * sine_near * cosine_near
    left = [square * mass, twice * mass, cosine * cosine * mass]
    right = [cosine_near * cosine_near, twice_near / 2, square_near]
    real = -2 * _sum_products(left, right)
    imaginary = _sum_products(
        [twice * mass, (1 - 2 * square) * mass], [1 - 2 * square_near, twice_near]
    )
    return real, imaginary


def _sum_products(left: list[Floats], right: list[Floats]) -> Floats:
    """Return the sum of products of a row of each left one with a row of the right one, for all pairs of rows."""
    products = np.concatenate(left, axis=2) @ np.concatenate(right, axis=2).transpose(0, 2, 1)
    return products.reshape(len(products), -1)


def log_power(
    real: Floats, imaginary: Floats, wrong: Floats, n: int
) -> tuple[Floats, Floats, Floats]:
    """Return n ln |Phi| and n arg Phi, Phi the characteristic function, and a bound of their effect.

    Where Phi is computed as x, |Phi - x| <= omega `rounding` =: d = `wrong`, so Phi^n is within n d (|x| + d)^(n - 1)
    of x^n: relatively, at most y e^y, y = n d / |x|. What the logarithm and the angle of x are off, 8 units
    and those of what they are computed from, is added to y.
    """
    square = real * real + imaginary * imaginary
    # 1 + z with a small z: neither the size nor the angle of it may go through 1 + z itself.
    size = np.maximum(2 * real + square, -1 + _LEAST_SIZE)
    log = np.log1p(size) / 2
    angle = np.arctan2(imaginary, 1 + real)
    unsure = (2 * np.abs(real) + square) / (1 + size) + np.abs(log) + 2 * np.abs(angle)
    y = 16 * UNIT * n * unsure + n * wrong / np.sqrt(1 + size)
    error = np.minimum(y, 40.0) * np.exp(np.minimum(y, 40.0))
    # Where nothing is certain, Phi^n is at most 1, or at most what the least size says.
    log = np.where(y > 40, 0.0, log)
    error = np.where((y > 40) | (2 * real + square < -1 + _LEAST_SIZE), error + 2.0, error)
    return n * log, n * angle, error
