"""The expected positive part of a sum of n i.i.d. variables: (1/n) E[(G_1 + ... + G_n)_+].

G takes the value g_j with probability w_j, and 0 with what is left of the probability; its mean is
at most 0, so that the positive part is a rare event. Two evaluations, both upper bounds:

* by Fourier: G is put on a grid by splitting each atom between its neighbours so that its mean
  stays (convex functions only grow), tilted so that the sum is centred at 0, and the n-fold
  convolution is one FFT. Cut tails and rounding are added.
* by the normal law: the same tilt, then the Berry-Esseen inequality. Its relative error falls like
  1/sqrt(n), its cost does not depend on n, and it bounds from below as well.
"""

import math
from dataclasses import dataclass

import numpy as np

from shuffledp.core.arrays import Floats

__all__ = ["mean_positive_part", "normal_bounds"]

_BERRY_ESSEEN = 0.474801  # Shevtsova 2011, for identically distributed summands
_ADDED_VARIANCE = 5e-4  # relative; epsilon grows by about half of that (less below n = 10^4)
_FADED = 60.0  # frequencies damped by more than e^-60 are left out, and accounted for
_LARGEST_N = 10**9  # beyond, the FFT would be too long, and the normal law is close enough
_ROUNDING = 1e-8  # relative error of tilting, powers and FFT together; tests find below 1e-10


def mean_positive_part(w: Floats, g: Floats, n: int) -> float:
    """An upper bound of (1/n) E[(G_1 + ... + G_n)_+].

    >>> w, g = np.array([0.25, 0.25]), np.array([1.0, -1.5])
    >>> round(mean_positive_part(w, g, 1), 6)
    0.25
    """
    if len(g) == 0 or g.max() <= 0:
        return 0.0
    tilt = _Tilt.solve(w, g, n)
    return tilt.scale(_tilted_mean(w, g, tilt)) / n * (1 + _ROUNDING)


def normal_bounds(w: Floats, g: Floats, n: int) -> tuple[float, float]:
    """(lower, upper) bounds of (1/n) E[(G_1 + ... + G_n)_+] by Berry-Esseen alone, for large n.

    >>> low, high = normal_bounds(np.array([0.25, 0.25]), np.array([1.0, -1.00001]), 10**10)
    >>> round(high / low - 1, 4)
    0.0001
    """
    tilt = _Tilt.solve(w, g, n)
    if tilt.rate <= 0:
        # E min(S_+, 4 sd) is at least 0.39892 sd for a normal sum, and 4 sd is its total variation.
        low = tilt.sd * (0.39892 - 4 * tilt.distance) - n * tilt.offset
        return max(0.0, low) / n * (1 - _ROUNDING), (tilt.sd / 2 + n * tilt.offset) / n
    main, error = _by_normal(tilt)
    low, high = (tilt.scale(max(0.0, main + side * error)) / n for side in (-1, 1))
    return low * (1 - _ROUNDING), high * (1 + _ROUNDING)


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
    def solve(w: Floats, g: Floats, n: int) -> "_Tilt":
        rate = _tilt_rate(w, g)
        log_mgf = math.log1p(float(w @ np.expm1(rate * g)))
        mass = w * np.exp(rate * g - log_mgf)
        variance = float(mass @ g**2) - float(mass @ g) ** 2
        return _Tilt(
            n=n, rate=rate, log_mgf=log_mgf, mass=mass, value=g, sd=math.sqrt(n * variance)
        )

    @property
    def deviation(self) -> float:
        """Rate times standard deviation: how many of these the tilt has moved the sum."""
        return self.rate * self.sd

    @property
    def offset(self) -> float:
        """What rounding left of the tilted mean of one G."""
        return abs(float(self.mass @ self.value))

    @property
    def distance(self) -> float:
        """The largest distance of the tilted sum's distribution function from the normal one."""
        rest = max(0.0, 1 - float(self.mass.sum()))
        third = float(self.mass @ np.abs(self.value) ** 3) + (rest + 1) * self.offset**3
        return _BERRY_ESSEEN * third * self.n / self.sd**3

    def scale(self, tilted: float) -> float:
        """From E_tilted[(S)_+ e^(-rate S)] to E[(S)_+]."""
        return tilted * math.exp(self.n * self.log_mgf)


def _tilt_rate(w: Floats, g: Floats) -> float:
    """The rate >= 0 that makes the tilted mean 0 (to rounding; every rate gives a valid identity)."""
    if float(w @ g) >= 0:
        return 0.0
    top = float(g.max())
    high = 1.0 / top
    while float(w @ (g * np.exp(np.minimum(high * g, 700.0)))) < 0 and high * top < 600:
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


def _tilted_mean(w: Floats, g: Floats, tilt: _Tilt) -> float:
    """An upper bound of E_tilted[(S)_+ e^(-rate S)]."""
    # The sum is centred, so E(S)_+ = E|S| / 2 is at most half its standard deviation.
    crude = tilt.sd / 2 + tilt.n * tilt.offset
    if tilt.rate <= 0 or tilt.sd <= 0:
        return crude
    main, error = _by_normal(tilt)
    # An error of delta moves epsilon by about its deviation^2-th part.
    if error <= 5e-4 * main * max(1.0, tilt.deviation**2) or tilt.n > _LARGEST_N:
        return min(main + error, crude)
    return _by_fourier(w, g, tilt)


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


def _by_fourier(w: Floats, g: Floats, tilt: _Tilt) -> float:
    """An upper bound of E_tilted[(S)_+ e^(-rate S)] for the law with its atoms split on a grid."""
    n, rate = tilt.n, tilt.rate
    # Raising a value only raises (S)_+. A sum that has once fallen this far does not come back: not
    # at all beyond n times the largest value, and hardly beyond 16 standard deviations.
    top = float(g.max())
    g = np.maximum(g, -min(n * top, 16 * tilt.sd + 8 * top))
    h, v, mass = _on_grid(w, g, tilt)
    # The same tilt for the split law; its mass is not 1, and what is missing is put back at the end.
    tilted = mass * np.exp(rate * h * v - tilt.log_mgf)
    zero = (1 - float(w.sum())) * math.exp(-tilt.log_mgf)
    total = float(tilted.sum()) + zero
    tilted /= total
    mean = float(tilted @ v)
    spread = math.sqrt(n * max(float(tilted @ v**2) - mean**2, 0.0))
    # The circle holds both sides of the sum; what wraps around from below can only raise the bound,
    # what is cut off above is added.
    highest, lowest = n * float(v.max()), -n * float(v.min())
    reach = abs(n * mean) + 10 * spread + 2 * float(np.abs(v).max())
    last = math.ceil(min(reach, highest))
    density, noise = _density(tilted, v, n, _power_of_two(last + min(reach, lowest) + 2))
    values = h * np.arange(1, last + 1)
    weights = values * np.exp(-rate * values)
    inside = float(weights @ np.maximum(density[1 : last + 1], 0.0)) + noise * float(weights.sum())
    outside = 0.0
    if last < highest:
        beyond = h * last
        peak = beyond * math.exp(-rate * beyond) if rate * beyond > 1 else 1 / (math.e * rate)
        outside = _tail(tilted, v, n, last) * peak
    return (inside + outside) * math.exp(n * math.log(total))


def _on_grid(w: Floats, g: Floats, tilt: _Tilt) -> tuple[float, Floats, Floats]:
    """A step, positions in steps and masses: each atom split between its two neighbours.

    The split adds h^2 f (1 - f) to an atom's variance, f its fractional position. Atoms that are
    nearly commensurate, as those of most randomizers are at small epsilon, need few steps.
    """
    added = _ADDED_VARIANCE * min(1.0, tilt.n / 10_000)
    likely = w * np.exp(tilt.rate * g - tilt.log_mgf)
    h = float(g.max() - g.min()) / 2
    while True:
        floor = np.floor(g / h)
        up = g / h - floor
        variance = float(likely @ (up * (1 - up))) * h * h
        # The split atoms' tilted mass grows, by a factor that enters delta to the n-th power.
        with np.errstate(over="ignore"):
            growth = (1 - up) * np.exp(-tilt.rate * h * up) + up * np.exp(tilt.rate * h * (1 - up))
        grown = tilt.n * float(likely @ (growth - 1))
        if variance <= added * tilt.sd**2 / tilt.n and grown <= added * max(1.0, tilt.deviation**2):
            return h, np.concatenate([floor, floor + 1]), np.concatenate([w * (1 - up), w * up])
        h /= 2


def _density(mass: Floats, v: Floats, n: int, size: int) -> tuple[Floats, float]:
    """The n-fold convolution on a circle of `size` points, and a bound of its rounding error."""
    one = np.zeros(size)
    np.add.at(one, v.astype(np.int64) % size, mass)
    one[0] += 1 - float(mass.sum())
    rough = np.fft.rfft(one)
    # Only frequencies that survive the n-th power matter, and those are few.
    with np.errstate(divide="ignore"):
        alive = np.flatnonzero(n / 2 * np.log(rough.real**2 + rough.imag**2) > -_FADED)
    turn = 2 * np.pi / size * alive[:, None] * v[None, :]
    z = (-2 * np.sin(turn / 2) ** 2 - 1j * np.sin(turn)) @ mass  # characteristic function - 1
    power = np.zeros(size // 2 + 1, dtype=np.complex128)
    power[alive] = np.exp(n * np.log1p(z))
    noise = 1e-12 * float(np.abs(power).sum()) * 2 / size + math.exp(-_FADED)
    return np.fft.irfft(power, size), noise


def _tail(mass: Floats, v: Floats, n: int, place: int) -> float:
    """Chernoff's bound of Pr[sum >= place]: valid at every theta, so a few are tried."""
    spread = n * float(mass @ v**2)
    best = 1.0
    for theta in np.array([0.25, 0.5, 1.0, 2.0, 4.0]) * place / spread:
        with np.errstate(over="ignore"):
            exponent = n * math.log1p(float(mass @ np.expm1(theta * v))) - theta * place
        best = min(best, math.exp(min(exponent, 0.0)))
    return best


def _power_of_two(length: float) -> int:
    return 1 << max(5, math.ceil(math.log2(length)))
