"""The expected positive part of a sum of n i.i.d. variables: (1/n) E[(G_1 + ... + G_n)_+].

G takes the value g_j with probability w_j, and 0 with what is left of the probability; its mean is
at most 0, so that the positive part is a rare event. Three evaluations, all upper bounds:

* by listing how often each value comes up, for small n.

* by Fourier: a little normal noise Z of mean 0 is added to the sum (convex functions only grow), and
  both are tilted so that the sum is centred at 0. Then Poisson's summation formula, with f(s) = (s)_+ e^(-rate s),

      sum over m of E f(S + Z + m period) = (1/period) sum over k of F(omega_k) Phi(omega_k),   omega_k = 2 pi k / period,

  F and Phi the transforms of f and of the law of S + Z: the left side is at least its term m = 0, and Z
  makes the right side short, whatever n is. What is cut off and the rounding are added.
* by the normal law: the same tilt, then the Berry-Esseen inequality. Its relative error falls like
  1/sqrt(n), its cost does not depend on n, and it bounds from below as well.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Floats

__all__ = ["mean_positive_part", "normal_bounds"]

_BERRY_ESSEEN = 0.474801  # Shevtsova 2011, for identically distributed summands
_ADDED_VARIANCE = 1e-4  # relative; epsilon grows by about half of that (less below n = 1000)
_FADED = 60.0  # frequencies damped by more than e^-60 are left out, and accounted for
_MOST = 1 << 14  # frequencies
_STEEPEST = 600.0  # largest exponent of a tilt: e^700 would overflow, and every rate is valid
_LISTED = 30_000  # ways in which n users can be spread over the values
_ROUNDING = 1e-8  # relative error of what does not grow with n; tests find below 1e-10
_UNIT = 2.5e-16  # times 10 and the number of values: relative error of a sum over the values
_LEAST_DEVIATION = 0.05  # a smaller tilt would need a longer period, and a stronger blur for it
_TINY = 1e-305  # floating-point numbers end near 1e-308


def mean_positive_part(w: Floats, g: Floats, n: int) -> float:
    """An upper bound of (1/n) E[(G_1 + ... + G_n)_+].

    >>> w, g = np.array([0.25, 0.25]), np.array([1.0, -1.5])
    >>> round(mean_positive_part(w, g, 1), 6)
    0.25
    """
    w, g = w[w > 0], g[w > 0]
    if len(g) == 0 or g.max() <= 0:
        return 0.0
    alone = float(w @ np.maximum(g, 0.0)) * (1 + _ROUNDING)  # (a + b)_+ <= a_+ + b_+
    if n == 1 or g.min() >= 0:
        return alone
    if math.comb(n + len(g), n) <= _LISTED:
        return max(_listed(w, g, n) / n, _TINY) * (1 + _ROUNDING)
    tilt = _Tilt.solve(w, g + _moved(g), n, least=_LEAST_DEVIATION)
    bound = tilt.scale(_tilted_mean(tilt)) / n * (1 + _ROUNDING)
    # Not a number (0 times infinity, at laws that no protocol has) is no bound.
    return max(bound, _TINY) if bound <= alone else alone


def _moved(g: Floats) -> Floats:
    """So much higher values pay for the rounding of every sum over them, which n multiplies."""
    moved: Floats = _UNIT * (10 + len(g)) * np.abs(g)
    return moved


def normal_bounds(w: Floats, g: Floats, n: int) -> tuple[float, float]:
    """(lower, upper) bounds of (1/n) E[(G_1 + ... + G_n)_+] by Berry-Esseen alone, for large n.

    >>> low, high = normal_bounds(np.array([0.25, 0.25]), np.array([1.0, -1.00001]), 10**10)
    >>> round(high / low - 1, 4)
    0.0001
    """
    below, above = (_Tilt.solve(w, g + side * _moved(g), n) for side in (-1, 1))
    # A sum that is hardly moved by its tilt is better left as it is.
    low = max(_normal_lower(below), _centred_lower(_Tilt.at(0.0, w, below.value, n)))
    return low / n * (1 - _ROUNDING), _normal_upper(above) / n * (1 + _ROUNDING)


def _centred_lower(plain: "_Tilt") -> float:
    # E min(S_+, 4 sd) is at least 0.39892 sd for a normal sum, and 4 sd is its total variation.
    return max(0.0, plain.sd * (0.39892 - 4 * plain.distance) - plain.n * plain.offset)


def _normal_lower(tilt: "_Tilt") -> float:
    if tilt.rate <= 0:
        return 0.0
    main, error = _by_normal(tilt)
    return tilt.scale(max(0.0, main - error))


def _normal_upper(tilt: "_Tilt") -> float:
    if tilt.rate <= 0:
        return tilt.sd / 2 + tilt.n * tilt.offset
    return tilt.scale(sum(_by_normal(tilt)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tilt:
    """The law of G (0 with what is left of the mass) tilted by e^(rate G), so that its mean is 0."""

    n: int
    rate: float
    log_mgf: float
    mass: Floats
    value: Floats
    sd: float
    """Standard deviation of the tilted sum."""

    @staticmethod
    def solve(w: Floats, g: Floats, n: int, least: float = 0.0) -> "_Tilt":
        """Tilted by `least` standard deviations or more."""
        rate = max(_tilt_rate(w, g), least / math.sqrt(n * float(w @ g**2)))
        return _Tilt.at(min(rate, _STEEPEST / float(g.max())), w, g, n)

    @staticmethod
    def at(rate: float, w: Floats, g: Floats, n: int) -> "_Tilt":
        # Values that the tilt makes rare leave 1 - w: its rounding, as mass at 0.
        rare = _UNIT * (10 + len(g)) * float(w @ (rate * g < -1))
        log_mgf = math.log1p(float(w @ np.expm1(rate * g)) + rare)
        mass = w * np.exp(rate * g - log_mgf)
        mean, rest = float(mass @ g), max(0.0, 1 - float(mass.sum()))
        variance = float(mass @ (g - mean) ** 2) + rest * mean**2
        return _Tilt(
            n=n, rate=rate, log_mgf=log_mgf, mass=mass, value=g, sd=math.sqrt(n * variance)
        )

    @property
    def deviation(self) -> float:
        """Rate times standard deviation: how many of these the tilt has moved the sum."""
        return self.rate * self.sd

    @property
    def offset(self) -> float:
        """At least what is left of the tilted mean of one G."""
        return abs(float(self.mass @ self.value)) + self.rounding

    @property
    def rounding(self) -> float:
        """At least the error of a sum over the values whose terms are at most |value|."""
        size = np.abs(self.value) * (1 + self.rate * np.abs(self.value))
        return _UNIT * (10 + len(self.value)) * float(self.mass @ size)

    @property
    def distance(self) -> float:
        """The largest distance of the tilted sum's distribution function from the normal one."""
        # Around the mean: by the triangle inequality, as no rate makes the mean exactly 0.
        third = (math.cbrt(float(self.mass @ np.abs(self.value) ** 3)) + self.offset) ** 3
        return _BERRY_ESSEEN * third * self.n / self.sd**3

    def scale(self, tilted: float) -> float:
        """From E_tilted[(S)_+ e^(-rate S)] to E[(S)_+]."""
        return tilted * _exp(self.n * self.log_mgf)


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


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _tilted_mean(tilt: _Tilt) -> float:
    """An upper bound of E_tilted[(S)_+ e^(-rate S)]."""
    # The sum is centred, so E(S)_+ = E|S| / 2 is at most half its standard deviation.
    crude = tilt.sd / 2 + tilt.n * tilt.offset
    if tilt.rate <= 0 or tilt.sd <= 0:
        return crude
    main, error = _by_normal(tilt)
    # An error of delta moves epsilon by about its deviation^2-th part.
    if error <= 5e-4 * main * max(1.0, tilt.deviation**2):
        return min(main + error, crude)
    return min(_by_fourier(tilt), main + error, crude)


def _listed(w: Floats, g: Floats, n: int) -> float:
    """E[(G_1 + ... + G_n)_+], one value of G after the other: so many users are left for the others."""
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
    # More mass at 0 only raises the sum of positive terms; the masses may be rounded, too.
    rest = max(0.0, 1 - math.fsum(w)) + _UNIT
    # At most so many values were added, each with two roundings; adding 0 has none.
    total += _UNIT * (1 + min(n, len(g))) * size
    return float((weight * rest**left) @ np.maximum(total, 0.0))


@lru_cache(maxsize=256)
def _choices(n: int) -> Floats:
    """Binomial coefficients of 0 .. n."""
    rows = [[math.comb(i, j) for j in range(n + 1)] for i in range(n + 1)]
    return np.array(rows, dtype=np.float64)


def _by_normal(tilt: _Tilt) -> tuple[float, float]:
    """E_tilted[(S)_+ e^(-rate S)] for normal S, and how far the true one can be from that."""
    from scipy.special import erfcx

    z = tilt.deviation
    main = (
        tilt.sd
        / math.sqrt(2 * math.pi)
        * (1 - z * math.sqrt(math.pi / 2) * float(erfcx(z / math.sqrt(2))))
    )
    # v e^(-rate v) rises to 1 / (e rate) and falls again: its total variation is twice that.
    error = 2 / (math.e * tilt.rate) * tilt.distance + tilt.n * tilt.offset
    # For large z the bracket is a small difference of large terms.
    return main, error + 1e-13 * tilt.sd


def _by_fourier(tilt: _Tilt) -> float:
    """An upper bound of E_tilted[(S)_+ e^(-rate S)]: that of S + Z, Z normal with mean 0 (untilted)."""
    rate = tilt.rate
    # Copies of the sum, one period apart, are added: (S)_+ e^(-rate S) has died out by then.
    period = max(10 * tilt.sd, (25 - tilt.n * tilt.log_mgf) / rate)
    # Frequencies up to `highest` count, if the blur is strong enough for that to be a few of them.
    highest = math.sqrt(2 * _FADED)
    blur = max(_blur(tilt), highest * period / (2 * math.pi * _MOST))
    count = math.ceil(highest / blur * period / (2 * math.pi))
    omega: Floats = 2 * np.pi / period * np.arange(count + 1, dtype=np.float64)
    real, imaginary, error = _log_power(tilt, omega)
    real -= (blur * omega) ** 2 / 2
    imaginary += rate * blur * blur * omega
    # s e^(-rate s), s > 0, has the transform 1 / (rate + i omega)^2.
    size = np.exp(real) / (rate * rate + omega * omega)
    angle = imaginary - 2 * np.arctan2(omega, rate)
    terms = size * (np.cos(angle) + error)
    inside = (2 * float(terms.sum()) - float(terms[0])) / period
    outside = period / (2 * math.pi**2 * count) * math.exp(-((blur * omega[-1]) ** 2) / 2)
    return (inside + outside) * _exp((rate * blur) ** 2 / 2)


def _blur(tilt: _Tilt) -> float:
    """The standard deviation of Z."""
    # Few users, or few of them that count, make a sum with few places; much of it may lie near 0.
    added = _ADDED_VARIANCE * min(1.0, tilt.n / 1_000)
    return math.sqrt(added) * tilt.sd / max(1.0, tilt.rate * float(tilt.value.max()))


def _log_power(tilt: _Tilt, omega: Floats) -> tuple[Floats, Floats, Floats]:
    """n times the logarithm of the characteristic function, as two parts, and a bound of its error."""
    turn = omega[:, None] * tilt.value
    real = -2 * (np.sin(turn / 2) ** 2 @ tilt.mass)
    imaginary = np.sin(turn) @ tilt.mass
    square = imaginary * imaginary
    # 1 + z with a small z: neither the size nor the angle of it may go through 1 + z itself.
    log = tilt.n * np.log1p(np.maximum(2 * real + real * real + square, -1 + 1e-15)) / 2
    error = 1e-12 + tilt.n * omega * tilt.rounding
    return log, tilt.n * np.arctan2(imaginary, 1 + real), error
