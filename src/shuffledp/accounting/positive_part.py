"""The expected positive part of a sum of n i.i.d. variables: (1/n) E[(G_1 + ... + G_n)_+].

G takes the value g_j with probability w_j, and 0 with what is left of the probability; its mean is
at most 0, so that the positive part is a rare event. Three evaluations, all upper bounds:

* by listing how often each value comes up, for small n.
* by Fourier: a little normal noise Z of mean 0 is added to the sum (convex functions only grow), and
  both are tilted so that the sum is centred at 0. Then Poisson's summation formula, with f(s) = (s)_+ e^(-rate s),

      sum over m of E f(S + Z + m period) = (1/period) sum over k of F(omega_k) Phi(omega_k),   omega_k = 2 pi k / period,

  F and Phi the transforms of f and of the law of S + Z: the left side is at least its term m = 0, and Z
  makes the right side short, whatever n is. What is cut off is added.
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
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.accounting.base import SMALLEST_DELTA
from shuffledp.core.arrays import Floats
from shuffledp.numerics.rounding import UNIT

__all__ = ["mean_positive_part", "mean_positive_part_lower"]

_BERRY_ESSEEN = 0.474801  # Shevtsova 2011, for identically distributed summands
_ADDED_VARIANCE = 1e-4  # relative; epsilon grows by about half of that (less below n = 1000)
_FADED = 60.0  # frequencies damped by more than e^-60 are left out, and accounted for
_MOST = 1 << 14  # frequencies
_STEEPEST = 600.0  # largest exponent of a tilt: e^700 would overflow, and every rate is valid
_LISTED = 30_000  # ways in which n users can be spread over the values
_LEAST_DEVIATION = 0.05  # a smaller tilt would need a longer period, and a stronger blur for it
_LEAST_SIZE = 1e-9  # of |Phi|^2: a smaller one is only bounded


def mean_positive_part(w: Floats, g: Floats, n: int) -> float:
    """An upper bound of (1/n) E[(G_1 + ... + G_n)_+].

    >>> w, g = np.array([0.25, 0.25]), np.array([1.0, -1.5])
    >>> round(mean_positive_part(w, g, 1), 6)
    0.25
    """
    w, g = w[w > 0], g[w > 0]
    if len(g) == 0 or g.max() <= 0:
        return 0.0
    w = w * np.where(g > 0, 1 + 32 * UNIT, 1 - 32 * UNIT)
    # (a + b)_+ <= a_+ + b_+, for n = 1 the truth
    alone = float(w @ np.maximum(g, 0.0)) * (1 + (len(g) + 4) * UNIT)
    if n == 1 or g.min() >= 0:
        return alone
    if math.comb(n + len(g), n) <= _LISTED:
        return max(_sum_list(w, g, n) / n, SMALLEST_DELTA)
    tilt = _Tilt.solve(w, g, n, 1, least=_LEAST_DEVIATION)
    bound = _scale(tilt, _bound_tilted(tilt), 1) / n
    # Not a number (0 times infinity, at laws that no protocol has) is no bound.
    return max(bound, SMALLEST_DELTA) if bound <= alone else alone


def mean_positive_part_lower(w: Floats, g: Floats, n: int) -> float:
    """A lower bound by Berry-Esseen alone, for large n and masses that sum to 1.

    Masses are off by up to 24 units, and are divided by their sum. (g - t)_+ is at most the range of the
    values, beyond which it is linear: values that are lower by 64 units of their range pay for it.

    >>> w, g, n = np.array([0.5, 0.5]), np.array([1.0, -1.00001]), 10**10
    >>> low, high = mean_positive_part_lower(w, g, n), mean_positive_part(w, g, n)
    >>> round(high / low - 1, 4)
    0.0001
    """
    g = g - 64 * UNIT * (g.max() - g.min())
    w = w / math.fsum(w)
    # A sum that is hardly moved by its tilt is better left as it is.
    tilted, plain = _Tilt.solve(w, g, n, -1), _Tilt.at(0.0, w, g, n, -1)
    # E min(S_+, 4 sd) is at least 0.39892 sd for a normal sum, and 4 sd is its total variation.
    centred = plain.sd * (1 - plain.wrong_sd) * (0.39892 - 4 * plain.distance) - n * plain.offset
    if tilted.rate <= 0:
        return max(centred, 0.0) / n
    main, error = _bound_by_normal(tilted)
    return max(_scale(tilted, max(main - error, 0.0), -1), centred, 0.0) / n * (1 - 8 * UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tilt:
    """The law of G (0 with what is left of the mass) tilted by e^(rate G), so that its mean is 0.

    Whatever the rate, E[(S)_+] = mgf^n E_tilted[(S)_+ e^(-rate S)].
    """

    n: int
    rate: float
    log_mgf: float
    wrong_log: float
    """At least the error of `log_mgf`."""
    mass: Floats
    wrong: Floats
    """At least the relative error of each mass, and of what a sum over them adds."""
    value: Floats
    sd: float
    """Standard deviation of the tilted sum."""
    wrong_sd: float
    """At least its relative error."""

    @staticmethod
    def solve(w: Floats, g: Floats, n: int, side: int, least: float = 0.0) -> "_Tilt":
        """The law tilted by at least `least` standard deviations."""
        rate = max(_tilt_rate(w, g), least / math.sqrt(n * float(w @ g**2)))
        return _Tilt.at(min(rate, _STEEPEST / float(g.max())), w, g, n, side)

    @staticmethod
    def at(rate: float, w: Floats, g: Floats, n: int, side: int) -> "_Tilt":
        """Tilted at this rate, for an upper (side = 1) or a lower (side = -1) bound.

        The mgf is a sum that loses some units. For an upper bound twice that is added, as mass at 0, which
        only raises the expectation: the mgf is then exactly what it says.
        """
        many = len(g) + 16  # units that a sum over the values loses, and expm1
        growth = np.expm1(rate * g)
        lost = many * UNIT * float(w @ (np.abs(growth) + (1 + growth) * np.abs(rate * g)))
        total = float(w @ growth)
        if side > 0:
            excess = math.fsum(w) - 1
            total += max(excess, 0.0) + 2 * UNIT * (abs(excess) < 4 * UNIT) + 2 * lost
        elif 1 + total < 1e3 * lost:
            raise ArithmeticError("the mgf is lost in rounding")
        log_mgf = math.log1p(total)
        wrong_log = 10 * UNIT * abs(log_mgf) + (1.01 * lost / (1 + total) if side < 0 else 0.0)
        mass = w * np.exp(rate * g - log_mgf)
        wrong = wrong_log + (many + 2 * np.abs(rate * g) + abs(log_mgf)) * UNIT
        mean, rest = float(mass @ g), max(0.0, 1 - float(mass.sum()))
        variance = float(mass @ (g - mean) ** 2) + rest * mean**2
        unsure = float((mass * wrong) @ (np.abs(g) + abs(mean)) ** 2)
        unsure += mean**2 * (float(mass @ wrong) + many * UNIT)
        return _Tilt(
            n=n,
            rate=rate,
            log_mgf=log_mgf,
            wrong_log=wrong_log,
            mass=mass,
            wrong=wrong,
            value=g,
            sd=math.sqrt(n * variance),
            wrong_sd=8 * UNIT + (unsure / variance if variance > 0 else 1.0),
        )

    @property
    def deviation(self) -> float:
        """Rate times standard deviation: how many of these the tilt has moved the sum."""
        return self.rate * self.sd

    @property
    def rounding(self) -> float:
        """At least the error of a sum over the values whose terms are at most |value|."""
        return float((self.mass * (self.wrong + 32 * UNIT)) @ np.abs(self.value)) * 1.001

    @property
    def offset(self) -> float:
        """An upper bound on the remaining tilted mean of one G."""
        return abs(float(self.mass @ self.value)) + self.rounding

    @property
    def distance(self) -> float:
        """The largest distance of the tilted sum's distribution function from the normal one."""
        third = float((self.mass * (1 + self.wrong)) @ np.abs(self.value) ** 3)
        # Around the mean: by the triangle inequality, as no rate makes the mean exactly 0.
        moment = (math.cbrt(third) + self.offset) ** 3
        wrong = 4 * self.wrong_sd + 64 * UNIT
        return _BERRY_ESSEEN * moment * self.n / self.sd**3 * (1 + wrong)


def _scale(tilt: _Tilt, tilted: float, side: int) -> float:
    """From E_tilted[(S)_+ e^(-rate S)] to E[(S)_+], on the side of the first."""
    log = tilt.n * (tilt.log_mgf + side * tilt.wrong_log)
    log += side * 4 * UNIT * abs(log)
    return tilted * (math.exp(log) if log < 709 else math.inf) * (1 + side * 32 * UNIT)


def _tilt_rate(w: Floats, g: Floats) -> float:
    """The rate >= 0 that makes the tilted mean 0 (to rounding; every rate gives a valid identity)."""
    if float(w @ g) >= 0:
        return 0.0
    top = float(g.max())
    high = 1.0 / top
    while float(w @ (g * np.exp(np.minimum(high * g, 700.0)))) < 0 and high * top < 300:
        high *= 2
    low = 0.0
    rate = min(high, -float(w @ g) / float(w @ g**2))
    for _ in range(60):
        e = np.exp(rate * g)
        slope, mean = float(w @ (g**2 * e)), float(w @ (g * e))
        if mean < 0:
            low = rate
        else:
            high = rate
        step = rate - mean / slope
        previous, rate = rate, step if low < step < high else (low + high) / 2
        if abs(rate - previous) <= 1e-14 * rate:
            break
    return rate


def _bound_tilted(tilt: _Tilt) -> float:
    """An upper bound of E_tilted[(S)_+ e^(-rate S)]."""
    # The sum is centred, so E(S)_+ = E|S| / 2 is at most half its standard deviation.
    crude = tilt.sd / 2 * (1 + tilt.wrong_sd) + tilt.n * tilt.offset
    if tilt.rate <= 0 or tilt.sd <= 0:
        return crude
    main, error = _bound_by_normal(tilt)
    # An error of delta moves epsilon by about its deviation^2-th part.
    if error <= 5e-4 * main * max(1.0, tilt.deviation**2):
        return min(main + error, crude)
    return min(_bound_by_fourier(tilt), main + error, crude)


def _sum_list(w: Floats, g: Floats, n: int) -> float:
    """At least E[(G_1 + ... + G_n)_+], by listing how many users take each value."""
    # Raising a value only raises the sum, and one below -n max g ends all hope as it is.
    top = float(g.max())
    g = np.maximum(g, -n * top)
    left, weight, total, size = np.array([n]), np.ones(1), np.zeros(1), np.zeros(1)
    for mass, gain in zip(w.tolist(), g.tolist(), strict=True):
        state = np.repeat(np.arange(len(left)), left + 1)
        start = np.repeat(np.cumsum(left + 1) - (left + 1), left + 1)
        taken = np.arange(len(state)) - start
        weight = weight[state] * _choices(n)[left[state], taken] * mass**taken
        total, size = total[state] + gain * taken, size[state] + abs(gain) * taken
        left = left[state] - taken
    # More mass at 0 only raises the sum of positive terms.
    rest = max(0.0, 1 - math.fsum(w)) + 2 * UNIT
    # Each value was multiplied once and added once, and the sum has two roundings more.
    total += UNIT * (4 + 2 * len(g)) * size
    # A weight has a coefficient, a power and two products per value.
    wrong = (12 * len(g) + len(weight) + 16) * UNIT
    return float((weight * rest**left) @ np.maximum(total, 0.0)) * (1 + wrong)


@lru_cache(maxsize=256)
def _choices(n: int) -> Floats:
    """Binomial coefficients of 0 .. n."""
    rows = [[math.comb(i, j) for j in range(n + 1)] for i in range(n + 1)]
    return np.array(rows, dtype=np.float64)


def _bound_by_normal(tilt: _Tilt) -> tuple[float, float]:
    """E_tilted[(S)_+ e^(-rate S)] for normal S, and how far the true one can be from that.

    For a normal S it is sd / sqrt(2 pi) (1 - z Mills(z)), z = rate sd. Its logarithm changes at most as
    much as that of sd.
    """
    low, high = _bound_excess(tilt.deviation)
    main = tilt.sd / math.sqrt(2 * math.pi) * (low + high) / 2
    # v e^(-rate v) rises to 1 / (e rate) and falls again: its total variation is twice that. Its slope
    # is at most 1, so a mean that is off by an offset moves it by no more.
    error = 2 / (math.e * tilt.rate) * tilt.distance + tilt.n * tilt.offset
    spread = (high - low) / (high + low) + 2 * tilt.wrong_sd + 32 * UNIT
    return main, (error + main * spread) * (1 + 16 * UNIT)


def _bound_excess(z: float) -> tuple[float, float]:
    """(low, high) around 1 - z Mills(z) for z >= 0; Mills(z) is the normal tail over the density.

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


def _bound_by_fourier(tilt: _Tilt) -> float:
    """An upper bound of E_tilted[(S)_+ e^(-rate S)]: that of S + Z, Z normal with mean 0 (untilted)."""
    rate = tilt.rate
    # Copies of the sum, one period apart, are added: (S)_+ e^(-rate S) has died out by then.
    period = max(10 * tilt.sd, (25 - tilt.n * tilt.log_mgf) / rate)
    # Frequencies up to `highest` count, if the blur is strong enough for that to be a few of them.
    highest = math.sqrt(2 * _FADED)
    blur = max(_blur(tilt), highest * period / (2 * math.pi * _MOST))
    count = math.ceil(highest / blur * period / (2 * math.pi))
    omega: Floats = 2 * np.pi / period * np.arange(count + 1, dtype=np.float64)
    log, angle, error = _log_power(tilt, omega)
    damping = (blur * omega) ** 2 / 2
    # s e^(-rate s), s > 0, has the transform 1 / (rate + i omega)^2.
    size = np.exp(log - damping) / (rate * rate + omega * omega)
    angle += rate * blur * blur * omega - 2 * np.arctan2(omega, rate)
    error += (64 + 8 * damping + 8 * rate * blur * blur * omega) * UNIT
    terms = size * (np.cos(angle) + error)
    summed = 2 * float(terms.sum()) - float(terms[0]) + 64 * UNIT * float(np.abs(terms).sum())
    outside = period / (2 * math.pi**2 * count) * math.exp(-float(damping[-1]) * (1 - 16 * UNIT))
    blurred = (rate * blur) ** 2 / 2 * (1 + 8 * UNIT)
    factor = math.exp(blurred) if blurred < 709 else math.inf
    return (summed / period + outside) * factor * (1 + 64 * UNIT)


def _blur(tilt: _Tilt) -> float:
    """The standard deviation of Z."""
    # Few users, or few of them that count, make a sum with few places; much of it may lie near 0.
    added = _ADDED_VARIANCE * min(1.0, tilt.n / 1_000)
    return math.sqrt(added) * tilt.sd / max(1.0, tilt.rate * float(tilt.value.max()))


def _log_power(tilt: _Tilt, omega: Floats) -> tuple[Floats, Floats, Floats]:
    """n ln |Phi| and n arg Phi, Phi the characteristic function, and a bound of their effect.

    Where Phi is computed as x, |Phi - x| <= omega `rounding` =: d, so Phi^n is within n d (|x| + d)^(n - 1)
    of x^n: relatively, at most y e^y, y = n d / |x|. What the logarithm and the angle of x are off, 8 units
    and those of what they are computed from, is added to y.
    """
    turn = omega[:, None] * tilt.value
    real = -2 * (np.sin(turn / 2) ** 2 @ tilt.mass)
    imaginary = np.sin(turn) @ tilt.mass
    square = real * real + imaginary * imaginary
    # 1 + z with a small z: neither the size nor the angle of it may go through 1 + z itself.
    size = np.maximum(2 * real + square, -1 + _LEAST_SIZE)
    log = np.log1p(size) / 2
    angle = np.arctan2(imaginary, 1 + real)
    n = tilt.n
    unsure = (2 * np.abs(real) + square) / (1 + size) + np.abs(log) + 2 * np.abs(angle)
    y = 16 * UNIT * n * unsure + n * omega * tilt.rounding / np.sqrt(1 + size)
    error = np.minimum(y, 40.0) * np.exp(np.minimum(y, 40.0))
    # Where nothing is certain, Phi^n is at most 1, or at most what the least size says.
    log = np.where(y > 40, 0.0, log)
    error = np.where((y > 40) | (2 * real + square < -1 + _LEAST_SIZE), error + 2.0, error)
    return n * log, n * angle, error
