"""One message from a known randomizer: the privacy blanket, for any finite law and any n.

Suppose every law of the randomizer contains a common part: R_x(y) >= w_y for all x. Reveal every
message that did not come from it (this only helps the attacker). For a target with law a or b,

    H = (1/n) E[ (G_1 + ... + G_n)_+ ],   G = (a_y - E b_y) / w_y  with probability w_y, else 0,

is exactly the hockey-stick divergence of what is left, so it bounds that of the shuffled view.
Reference: Balle, Bell, Gascon, Nissim 2019, "The privacy blanket of the shuffle model"; the
evaluation below is ours. A `Blanket` lists the atoms (w, a/w, b/w) of one pair of inputs; it does not
depend on epsilon. Invariants: the sums of w (a/w) and of w (b/w) are 1 (less what lies where w = 0).

Two evaluations, both upper bounds:

* `_by_fourier`: G is put on a grid by splitting each atom between its neighbours so that its mean
  stays (convex functions only grow), tilted so that the sum is centred at 0, and the n-fold
  convolution is one FFT. Cut tails and rounding are added.
* `_by_normal`: the same tilt, then the Berry-Esseen inequality. Its relative error falls like
  1/sqrt(n), and its cost does not depend on n.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np

from shuffledp.accounting.base import gaussian_epsilon
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import Law, Randomizer
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.search import smallest_safe

__all__ = [
    "Blanket",
    "BlanketProfile",
    "Blanketed",
    "generic_blanket",
    "law_blankets",
    "mixture",
    "normal_bounds",
    "two_level_blanket",
]

_TINY = 1e-305
_BERRY_ESSEEN = 0.474801  # Shevtsova 2011, for identically distributed summands
_ADDED_VARIANCE = 5e-4  # relative; epsilon grows by about half of that (less below n = 10^4)
_FADED = 60.0  # frequencies damped by more than e^-60 are left out, and accounted for
_LARGEST_N = 10**9  # beyond, the FFT would be too long, and the normal law is close enough
_ROUNDING = 1e-8  # relative error of tilting, powers and FFT together; tests find below 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class Blanket:
    """The common part of a randomizer's laws, seen from one pair of inputs (a, b).

    >>> rr = generic_blanket(epsilon0=1.0)
    >>> round(rr.gamma, 4)
    0.5379
    """

    mass: tuple[float, ...]
    """w of each atom; their sum `gamma` is the probability that a message comes from the blanket."""
    first: tuple[float, ...]
    """a/w of each atom."""
    second: tuple[float, ...]
    """b/w of each atom."""
    bare: tuple[tuple[float, float], ...] = ()
    """(a, b) where w = 0: what the blanket does not cover."""
    gamma: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", math.fsum(self.mass))
        if self.gamma > 1 + 1e-12:
            raise ParameterError("mass", self.mass, "must sum to at most 1")
        for name, ratio, side in (("first", self.first, 0), ("second", self.second, 1)):
            total = math.fsum(w * r for w, r in zip(self.mass, ratio, strict=True))
            total += math.fsum(atom[side] for atom in self.bare)
            if abs(total - 1) > 1e-9:
                raise ParameterError(name, total, "must be a law: the atoms sum to 1")

    def swapped(self) -> "Blanket":
        """The other direction: b against a."""
        return Blanket(
            mass=self.mass,
            first=self.second,
            second=self.first,
            bare=tuple((b, a) for a, b in self.bare),
        )

    def delta(self, epsilon: float, n: int) -> float:
        """An upper bound of the divergence of a against b, n users."""
        uncovered = sum(max(0.0, a - math.exp(epsilon) * b) for a, b in self.bare)
        w, g = np.array(self.mass), self.gains(epsilon)
        if len(g) == 0 or g.max() <= 0:
            return uncovered
        tilt = _Tilt.solve(w, g, n)
        covered = tilt.scale(_tilted_mean(w, g, tilt)) / n * (1 + _ROUNDING)
        return min(1.0, max(_TINY, covered) + uncovered)

    def gains(self, epsilon: float) -> Floats:
        """The values of G."""
        first, second = np.array(self.first), np.array(self.second)
        gains: Floats = (first - second) - math.expm1(epsilon) * second
        return gains


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


def normal_bounds(blanket: Blanket, epsilon: float, n: int) -> tuple[float, float]:
    """(lower, upper) bounds of the divergence by Berry-Esseen alone, for large n.

    >>> low, high = normal_bounds(generic_blanket(epsilon0=1.0), 1e-5, 10**10)
    >>> round(high / low - 1, 3)
    0.0
    """
    w, g = np.array(blanket.mass), blanket.gains(epsilon)
    tilt = _Tilt.solve(w, g, n)
    if tilt.rate <= 0:
        # E min(S_+, 4 sd) is at least 0.39892 sd for a normal sum, and 4 sd is its total variation.
        low = tilt.sd * (0.39892 - 4 * tilt.distance) - n * tilt.offset
        return max(0.0, low) / n * (1 - _ROUNDING), (tilt.sd / 2 + n * tilt.offset) / n
    main, error = _by_normal(tilt)
    low, high = (tilt.scale(max(0.0, main + side * error)) / n for side in (-1, 1))
    return low * (1 - _ROUNDING), high * (1 + _ROUNDING)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BlanketProfile:
    """The worst of several blankets (one per kind of pair and direction), n users.

    >>> profile = BlanketProfile(blankets=(generic_blanket(epsilon0=1.0),), n=10_000, epsilon0=1.0)
    >>> round(profile.epsilon(1e-6), 4)
    0.0432
    """

    blankets: tuple[Blanket, ...]
    n: int
    epsilon0: float

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1)
        positive("epsilon0", self.epsilon0)

    def delta(self, epsilon: float) -> float:
        """An upper bound at epsilon."""
        if epsilon >= self.epsilon0:
            return 0.0
        return max(blanket.delta(epsilon, self.n) for blanket in self.blankets)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon, rounded up by at most a part in 10^6, with delta(epsilon) <= delta."""
        variance = max(float(np.dot(b.mass, b.gains(0.0) ** 2)) for b in self.blankets)
        return smallest_safe(
            lambda epsilon: math.log(max(self.delta(epsilon), _TINY) / delta),
            safe=self.epsilon0,
            guess=gaussian_epsilon(math.sqrt(variance / self.n), delta),
        )


def generic_blanket(*, epsilon0: float, total_variation: float | None = None) -> Blanket:
    """A blanket that dominates every epsilon0-local randomizer.

    With p = e^epsilon0 and total variation alpha (p - 1) between the target's two laws, G is p - E or
    1 - p E with probability alpha each, and p (1 - E) with probability (1 - alpha (p + 1)) / p. Without
    a bound on the total variation alpha is 1/(p + 1): the pair of stronger clones.
    The proof is in docs/theory/clones.md.

    >>> generic_blanket(epsilon0=1.0, total_variation=0.1).gamma < generic_blanket(epsilon0=1.0).gamma
    True
    """
    p = math.exp(positive("epsilon0", epsilon0))
    largest = math.tanh(epsilon0 / 2)
    tv = largest if total_variation is None else positive("total_variation", total_variation)
    if tv > largest * (1 + 1e-12):
        raise ParameterError(
            "total_variation", tv, f"must be <= tanh(epsilon0 / 2) = {largest:.6g}"
        )
    alpha = min(tv, largest) / (p - 1)
    rest = max(0.0, (1 - alpha * (p + 1)) / p)
    if rest < 1e-12:
        alpha, rest = 1 / (p + 1), 0.0
    return Blanket(mass=(alpha, alpha, rest), first=(p, 1.0, p), second=(1.0, p, p))


def two_level_blanket(
    *, ratio: Fraction, one: Fraction, both: Fraction, neither: Fraction
) -> Blanket:
    """The blanket of a randomizer whose law has two levels, low and ratio * low.

    `one` is the low-level mass of the outputs that are likely for the first input only (and, by
    symmetry, for the second only), `both` of those likely for both, `neither` of the rest. With
    everything else equal, fewer outputs in common are a mean-preserving spread of G, so the pair of
    inputs with the smallest overlap is the worst one.

    >>> low = Fraction(1, 5)
    >>> two_level_blanket(ratio=Fraction(3), one=low, both=Fraction(0), neither=low).gamma
    0.6000000000000001
    """
    high = float(ratio)
    return Blanket(
        mass=(float(one), float(one), float(both), float(neither)),
        first=(high, 1.0, high, 1.0),
        second=(1.0, high, high, 1.0),
    )


def mixture(first: Blanket, second: Blanket, share: Fraction) -> Blanket:
    """The blanket of a randomizer that runs one of two others, by a coin that everybody may see.

    >>> half = mixture(generic_blanket(epsilon0=1.0), generic_blanket(epsilon0=2.0), Fraction(1, 2))
    >>> len(half.mass)
    6
    """
    parts = ((first, float(share)), (second, float(1 - share)))
    return Blanket(
        mass=tuple(weight * w for part, weight in parts for w in part.mass),
        first=first.first + second.first,
        second=first.second + second.second,
        bare=tuple((weight * a, weight * b) for part, weight in parts for a, b in part.bare),
    )


@runtime_checkable
class Blanketed(Protocol):
    """A randomizer that knows its own blankets, for sizes at which its law cannot be listed."""

    def blankets(self) -> tuple[Blanket, ...]:
        """One for each kind of ordered pair of inputs."""


def law_blankets(randomizer: Randomizer) -> tuple[Blanket, ...]:
    """The blankets of every ordered pair of inputs, from the declared law.

    >>> from shuffledp import protocols
    >>> len(law_blankets(protocols.krr.KRR(k=3, epsilon0=1.0)))
    1
    """
    laws = [randomizer.pmf(x) for x in range(randomizer.domain.size)]
    outputs = sorted(set().union(*laws), key=repr)
    common = {y: min(law.get(y, Fraction(0)) for law in laws) for y in outputs}
    pairs = ((a, b) for a in laws for b in laws if a is not b)
    return tuple(dict.fromkeys(_pair_blanket(a, b, common) for a, b in pairs))


def _pair_blanket(a: Law, b: Law, common: Law) -> Blanket:
    atoms: dict[tuple[Fraction, Fraction], Fraction] = {}
    bare: list[tuple[float, float]] = []
    zero = Fraction(0)
    for y, w in common.items():
        own, other = a.get(y, zero), b.get(y, zero)
        if w:
            key = (own / w, other / w)
            atoms[key] = atoms.get(key, zero) + w
        elif own or other:
            bare.append((float(own), float(other)))
    listed = sorted(atoms.items())
    return Blanket(
        mass=tuple(float(w) for _, w in listed),
        first=tuple(float(key[0]) for key, _ in listed),
        second=tuple(float(key[1]) for key, _ in listed),
        bare=tuple(sorted(bare)),
    )
