"""+1 and -1 messages with a common flood: noise of central size, hidden in a crowd.

The view is (a, b) = (S + Z1 + F, Z2 + F): Z1, Z2 ~ Geom(p), p = e^-epsilon_star, and F >= 0 messages of
both signs, of any law. Neighbours move S by one. With H(a) = Pr[F = a] + p^2 H(a - 1), H(-1) = 0,

    S+1 against S:  the ratio is at most e^epsilon_star everywhere: pure;
    S against S+1:  delta(epsilon) = (1 - p) sum_a max(0, H(a) - e^(epsilon - epsilon_star) H(a - 1)).

Proof. Pr[(a, b) | S = 0] = (1-p)^2 p^(a+b) G(min(a, b)), G(m) = sum_(f <= m) Pr[F = f] p^(-2f), and
H(a) = p^(2a) G(a). Moving S by one replaces a by a - 1: the first ratio is at most 1/p because G does
not fall. In the second direction a term can be positive only for a <= b, where it is (1-p)^2 p^(a+b)
(G(a) - e^(epsilon + epsilon_star) G(a - 1)); summing over b >= a gives the formula.

More flood is post-processing, so delta falls in r and in p_F. The sum is cut where it is certain that
nothing follows, or what follows is added: beyond M all terms together are at most Pr[F > M].
If fewer users are honest a part of Z1 and Z2 is missing: `ThinnedNoise`.

All this is about ideal noise. Devices draw it from tables, so `bound_delta` adds how far these are off, and `calibrate`
finds the smallest flood with which what is drawn keeps the promise.

The law of the flood is a window of masses with known errors. It starts at the first mass above e^-640
and is the running product of exact ratios, so that its rounding errors are counted; what lies outside is
bounded.
Reference: Ghazi, Kumar, Manurangsi, Pagh 2020, "Private counting from anonymous messages:
near-optimal accuracy with vanishing communication overhead"; the exact formula is ours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, TypeVar

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Profile
from shuffledp.core.protocol import Calibration, Crowd, Promise
from shuffledp.core.validate import fraction_of_one, non_negative, number, positive
from shuffledp.numerics.masses import log_negative_binomial, negative_binomial_mass
from shuffledp.numerics.rounding import (
    UNIT,
    exp_lower,
    find_first,
    find_smallest,
    find_smallest_safe,
    shorten,
)
from shuffledp.numerics.tabulated import NOTHING, VectorLaw, add_laws, shift_law

GAP = 0.1
"""The part of epsilon that is spent on the flood, unless stated otherwise."""

_DIGITS = Context(prec=30, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LARGEST_EPSILON = 700.0
_LONGEST = 1 << 26
_VISIBLE = -640.0  # masses below e^-640 are cut, and added
_CUT = 1e-17
_MOST_WORK = 4e9
_SMALL_TAPE = 20
_MOST_SUMS = 3_000_000
_LEAST_STAR = 5e-5  # e^-star to the millionth, the longest table, is then not yet 2^-72
_LEAST_DELTA = 1e-60


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Masses of F at first, first + 1, ..., and bounds of what lies below and above."""

    masses: Floats
    error: float
    """Each mass is within this relative error."""
    scale_error: float
    """All masses may be off by one common factor, within this."""
    below: float
    above: float
    """Upper bounds of Pr[F < first] and Pr[F > last]; 0 above also if no term there is positive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeBinomialFlood:
    """F ~ NB(r, p): the sum of n shares NB(r/n, p).

    >>> round(NegativeBinomialFlood(r=16.0, p=0.95).mean, 6)
    304.0
    """

    r: float
    p: float

    def __post_init__(self) -> None:
        # A search looks at dozens of floods, and nearly always these are floats in range.
        if type(self.r) is type(self.p) is float and 0 < self.r < math.inf and 0 < self.p < 1:
            return
        positive("r", self.r)
        fraction_of_one("p", self.p)

    @property
    def mean(self) -> float:
        """r p / (1 - p)."""
        return self.r * self.p / (1 - self.p)

    @property
    def log_concave(self) -> bool:
        """True for r >= 1: then the positive terms are the first ones."""
        return self.r >= 1

    def window(self, beyond: int) -> Window:
        """Return the masses from the first visible one to `beyond` after the largest: it, and the ratios of neighbours."""
        mode = max(0, math.floor((self.r - 1) * self.p / (1 - self.p)))
        first = self._find_first(mode)
        k = np.arange(first, mode + beyond, dtype=np.float64)
        start = self._find_mass(first)
        steps = self.p * (self.r - 1 + k[1:]) / k[1:]
        masses = start * np.cumprod(np.append(1.0, steps))
        # All later ratios: they fall to p for r >= 1 and rise to p for r < 1.
        following = self.p * max(1.0, (self.r - 1 + k[-1] + 1) / (k[-1] + 1))
        # Within 10^-8 of 1 the rounding of the ratio would matter.
        endless = following > 1 - 1e-8
        above = math.inf if endless else float(masses[-1]) * following / (1 - following)
        return Window(
            masses=masses,
            error=6 * len(masses) * UNIT,  # four roundings a step
            scale_error=8 * UNIT,
            below=first * start * (1 + 1e-6),
            above=above * (1 + 1e-6),
        )

    def _find_mass(self, k: int) -> float:
        """Return Pr[F = k], within two units in the last place; at 0 it is a power, which takes a tenth of the time.

        Its logarithm is above -640 and known to 30 digits, so that 26 of the power are right: 1 - p has as many more as p
        has zeros after the point.
        """
        if k:
            return negative_binomial_mass(k, Fraction(self.r), Fraction(self.p))
        p, longer = Decimal(self.p), _DIGITS.copy()
        longer.prec -= p.adjusted()
        log = _DIGITS.multiply(Decimal(self.r), longer.ln(longer.subtract(Decimal(1), p)))
        return float(_DIGITS.exp(log))

    def _find_first(self, mode: int) -> int:
        """Return the first k up to the mode whose mass is at least e^-640; masses rise until there."""
        if self.r * math.log1p(-self.p) >= _VISIBLE:
            return 0

        def is_visible(k: int) -> bool:
            return bool(log_negative_binomial(np.array([float(k)]), self.r, self.p)[0] >= _VISIBLE)

        return find_first(is_visible, 0, mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedNoise:
    """The count with correlated noise: a `Profile`.

    >>> noise = CorrelatedNoise(epsilon_star=0.8, flood=NegativeBinomialFlood(r=20.0, p=0.85))
    >>> f"{noise.delta(1.0):.6e}"
    '1.345556e-05'
    """

    epsilon_star: float
    flood: NegativeBinomialFlood

    def __post_init__(self) -> None:
        positive("epsilon_star", self.epsilon_star)

    @property
    def pure(self) -> float:
        """The epsilon at which nothing is lost in the gaining direction."""
        return self.epsilon_star

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above, the larger of both directions."""
        return _larger(self, epsilon)

    def bound_gaining(self, epsilon: float) -> float:
        """Bound the divergence of S + 1 against S from above: a ratio of at most e^epsilon_star leaves no more."""
        gap = min(epsilon - self.epsilon_star, 0.0)
        return -math.expm1(gap) * (1 + 16 * UNIT)

    def bound_losing(self, epsilon: float) -> float:
        """Bound the divergence of S against S + 1 from above, epsilon >= 0."""
        return _lose(self.flood, self.epsilon_star, epsilon)

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above; raise `UnsupportedError` if there is none."""
        return _invert(self.delta, delta, guess=1.2 * self.epsilon_star)


def _lose(flood: NegativeBinomialFlood, star: float, epsilon: float) -> float:
    """Bound the divergence of S against S + 1 from above, epsilon >= 0."""
    beyond = 32
    while beyond <= _LONGEST:
        bound, done = _sum_terms(flood, star, beyond, epsilon)
        if done:
            return bound
        beyond *= 4
    raise UnsupportedError("the flood is too large for this routine")


def _sum_terms(
    flood: NegativeBinomialFlood, star: float, beyond: int, epsilon: float
) -> tuple[float, bool]:
    """Return the bound, and whether it needs no longer window."""
    epsilon, decay = min(epsilon, _LARGEST_EPSILON), math.exp(-2 * star)
    window, H = _open(flood, beyond, decay)
    # p^(2i) is a product of up to len(H) rounded factors, each off by its exponent's rounding.
    error = window.error + (12 + 2 * star) * (len(H) + 64) * UNIT
    factor = math.exp(epsilon - star) * (1 - (12 + 2 * epsilon + 2 * star) * UNIT)
    terms = H * (1 + error) - factor * (1 - error) * np.append(0.0, H[:-1])
    # If F is log-concave so is H: once a term is not positive, none is again.
    above = 0.0 if flood.log_concave and terms[-1] <= 0 else window.above
    main = float(np.maximum(terms, 0.0).sum()) * (1 + window.scale_error + len(H) * UNIT)
    # What was cut below adds at most its own terms, and p^2 + p^4 + ... of it to later ones.
    bound = -math.expm1(-star) * (main + above + window.below / (1 - decay))
    done = above <= 1e-9 * main
    return min(1.0, bound * (1 + 32 * UNIT) + 1e-300), done


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinnedNoise:
    r"""The count with a part `share` of the noise, and a flood: a curve.

    The view is (a, b) = (S + Z1 + F, Z2 + F) as above, but Z1, Z2 ~ NB(rho, p) with
    rho <= 1: the honest users' shares of Geom(p) do not add up to the whole. With q the masses of NB(rho, p),

        C_k(a) = sum_f Pr[F = f] q(a - f) q(a - f + k),   Pr[(a, b) | S = 0] = C_|a-b|(min(a, b)).

    Losing (S against S+1), for epsilon >= 0:

        delta = sum_(k >= 0) sum_a max(0, C_k(a) - e^epsilon C_(k+1)(a - 1)),

    because for b < a the ratio is at most that of q(z+1) to q(z), p (rho + z) / (z + 1) <= p. Gaining: the
    ratio is at most q(z) / q(z+1) <= 1 / (p rho) everywhere, so this direction is pure epsilon_star - ln rho; at a
    smaller epsilon

        delta = sum_k sum_a max(0, C_(k+1)(a - 1) - e^epsilon C_k(a)) + max(0, C_k(a) - e^epsilon C_(k+1)(a)).

    Sums are over finite windows, and what is outside them is added.

    >>> noise = ThinnedNoise(
    ...     epsilon_star=0.9, share=0.5, flood=NegativeBinomialFlood(r=8.8, p=0.9445)
    ... )
    >>> f"{noise.bound_losing(1.0):.4f} {noise.bound_gaining(1.0):.4f}"
    '0.2946 0.2946'
    """

    epsilon_star: float
    share: float
    """rho: of each of Z1 and Z2, in (0, 1]."""
    flood: NegativeBinomialFlood

    def __post_init__(self) -> None:
        positive("epsilon_star", self.epsilon_star)
        if positive("share", self.share) > 1:
            raise ParameterError("share", self.share, "must be <= 1")

    @property
    def pure(self) -> float:
        """The epsilon at which nothing is lost in the gaining direction."""
        return (self.epsilon_star - math.log(self.share)) * (1 + 1e-14) + 1e-300

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above, the larger of both directions."""
        return _larger(self, epsilon)

    def bound_losing(self, epsilon: float) -> float:
        """Bound the divergence of S against S + 1 from above, at this epsilon >= 0."""
        if epsilon < 0:
            return 1.0
        factor = math.exp(min(epsilon, 700.0)) * (1 - 1e-14)
        laws, error, outside = _find_diagonals(self)
        total = 0.0
        for law, following in zip(laws, (*laws[1:], np.zeros_like(laws[0])), strict=True):
            less = factor * (1 - error) * np.append(0.0, following[:-1])
            total += float(np.maximum(law * (1 + error) - less, 0.0).sum())
        return min(1.0, (total + outside) * (1 + error))

    def bound_gaining(self, epsilon: float) -> float:
        """Bound the divergence of S + 1 against S from above, at this epsilon >= 0."""
        if epsilon >= self.pure:
            return 0.0
        if epsilon < 0:
            return 1.0
        factor = math.exp(epsilon) * (1 - 1e-14)
        laws, error, outside = _find_diagonals(self)
        total = 0.0
        for law, following in zip(laws, (*laws[1:], np.zeros_like(laws[0])), strict=True):
            up, down = 1 + error, factor * (1 - error)
            before = np.append(0.0, following[:-1])
            total += float(np.maximum(before * up - law * down, 0.0).sum())
            total += float(np.maximum(law * up - following * down, 0.0).sum())
        return min(1.0, (total + outside) * (1 + error))

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above; raise `UnsupportedError` if there is none."""
        return _invert(self.delta, delta, guess=1.2 * self.pure)

    def find_diagonals(self) -> tuple[list[Floats], float, float]:
        """Return C_0, C_1, ...; their relative error; what is outside, as a bound of its probability."""
        q, rest = self._masses()
        beyond = 64
        window = self.flood.window(beyond)
        while window.above > _CUT and len(window.masses) < 1 << 24:
            beyond *= 2
            window = self.flood.window(beyond)
        f = window.masses
        if float(len(f)) * len(q) ** 2 / 4 > _MOST_WORK:
            raise UnsupportedError("epsilon is too small for the exact sum over both signs")
        laws, length = [], len(f) + len(q)
        for k in range(len(q)):
            z = 1 + (len(q) - 1 - k) // 2  # beyond it q(z) q(z + k) is at most p^(length of q)
            law = np.zeros(length)
            law[: len(f) + z - 1] = np.convolve(f, q[:z] * q[k : k + z])
            laws.append(law)
        # q twice: 12 roundings a step, e^-epsilon_star included, and its power (1 - p)^share. Then the sum
        # over the flood, and that over all diagonals.
        off = 24 * (len(q) + 1 / self.epsilon_star) + len(f) + len(q) + 512
        error = window.error + window.scale_error + off * UNIT
        # Each C_k appears at most twice with a plus; `rest` bounds what is beyond q for either sign.
        return laws, error, window.below + window.above + 2 * rest

    def _masses(self) -> tuple[Floats, float]:
        """Return q(0), q(1), ..., and a bound of what `find_diagonals` leaves out of both signs."""
        p = math.exp(-self.epsilon_star)
        length = 2 + math.ceil(-math.log(_CUT * (1 - p) ** 2) / self.epsilon_star)
        if length > 1 << 20:
            raise UnsupportedError("epsilon is too small for the exact sum over both signs")
        k = np.arange(1, length, dtype=np.float64)
        start = math.exp(self.share * math.log1p(-p))
        q = start * np.cumprod(np.append(1.0, p * (self.share + k - 1) / k))
        # The tail of either sign, and len(q) + 1 geometric sums of q(z) q(z + k) <= p^(2 z + k).
        products = (length + 1) * math.exp(-length * self.epsilon_star) / (1 - p * p)
        return q, (2 * float(q[-1]) * p / (1 - p) + products) * (1 + 1e-9)


@lru_cache(maxsize=2)  # a curve is looked at again and again
def _find_diagonals(noise: ThinnedNoise) -> tuple[list[Floats], float, float]:
    return noise.find_diagonals()


def _larger(noise: CorrelatedNoise | ThinnedNoise, epsilon: float) -> float:
    non_negative("epsilon", epsilon)
    return min(1.0, max(noise.bound_losing(epsilon), noise.bound_gaining(epsilon)))


def add_shares(
    *, epsilon_star: float, share: float, flood: NegativeBinomialFlood
) -> CorrelatedNoise | ThinnedNoise:
    """Return what shares of Geom(p) that add up to NB(share, p) leave; more than the whole is post-processing.

    >>> flood = NegativeBinomialFlood(r=16.0, p=0.95)
    >>> add_shares(epsilon_star=0.9, share=1.2, flood=flood).pure
    0.9
    """
    if share >= 1:
        return CorrelatedNoise(epsilon_star=epsilon_star, flood=flood)
    return ThinnedNoise(epsilon_star=epsilon_star, share=share, flood=flood)


@dataclass(frozen=True, slots=True)
class CorrelatedPair:
    """Two bins of a histogram, of which one loses and one gains a person: a `Profile`.

    They are independent, so any split of epsilon between them holds. The gaining bin is pure: what it
    leaves of epsilon is the losing one's. Or each has half.

    >>> noise = CorrelatedNoise(epsilon_star=0.45, flood=NegativeBinomialFlood(r=16.0, p=0.95))
    >>> f"{CorrelatedPair(noise=noise).delta(1.0):.4e}", f"{noise.bound_losing(1.0 - 0.45):.4e}"
    ('7.6133e-07', '7.6133e-07')
    """

    noise: CorrelatedNoise | ThinnedNoise

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above."""
        non_negative("epsilon", epsilon)
        # Rounding down what is left for the losing bin raises delta.
        left = math.nextafter(epsilon - self.noise.pure, 0.0)
        half = epsilon / 2 * (1 - UNIT)
        if left >= half:
            return self.noise.bound_losing(left)
        shared = min(1.0, self.noise.bound_losing(half) + self.noise.bound_gaining(half))
        return min(shared, self.noise.bound_losing(left)) if left > 0 else shared

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above; raise `UnsupportedError` if there is none."""
        return _invert(self.delta, delta, guess=2.2 * self.noise.pure)


def _invert(delta_of: Callable[[float], float], delta: float, *, guess: float) -> float:
    fraction_of_one("delta", delta)
    if delta_of(_LARGEST_EPSILON) > delta:
        raise UnsupportedError(f"no epsilon reaches delta={delta!r} with this flood")
    return find_smallest_safe(
        lambda epsilon: math.log(delta_of(epsilon) / delta), safe=_LARGEST_EPSILON, guess=guess
    )


def published_flood(*, epsilon: float, gap: float, delta: float) -> NegativeBinomialFlood:
    """Return the published constants, r = 3 (1 + ln(1/delta)), p = e^(-0.2 g epsilon), epsilon_star = (1 - g) epsilon.

    >>> round(published_flood(epsilon=1.0, gap=0.1, delta=1e-6).mean)
    2200
    """
    positive("epsilon", epsilon)
    fraction_of_one("gap", gap)
    fraction_of_one("delta", delta)
    return NegativeBinomialFlood(r=3 * (1 + math.log(1 / delta)), p=math.exp(-0.2 * gap * epsilon))


@lru_cache(maxsize=256)
def flood_level(*, epsilon: float, epsilon_star: float, delta: float) -> NegativeBinomialFlood:
    """Return the negative binomial flood of nearly the smallest mean with (epsilon, delta).

    >>> flood = flood_level(epsilon=1.0, epsilon_star=0.9, delta=1e-6)
    >>> round(flood.mean)
    299
    """
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)
    if not 0 < number("epsilon_star", epsilon_star) < epsilon:
        raise ParameterError(
            "epsilon_star", epsilon_star, f"must be > 0 and < epsilon = {epsilon!r}"
        )

    def flood_of(r: float, mean: float) -> NegativeBinomialFlood:
        return NegativeBinomialFlood(r=r, p=mean / (mean + r))

    def mean_at(log_r: float, guess: float, tolerance: float = 1e-4) -> float:
        r = math.exp(log_r)

        def excess(mean: float) -> float:
            # Nothing is lost in the gaining direction, since epsilon > epsilon_star.
            return math.log(_lose(flood_of(r, mean), epsilon_star, epsilon) / delta)

        mean = find_smallest(excess, guess=guess, largest=1e8, tolerance=tolerance)
        if mean is None:
            raise UnsupportedError(
                f"epsilon_star={epsilon_star!r} is too close to epsilon={epsilon!r} for delta={delta!r}"
            )
        return mean

    log_r, guess = _minimum(
        mean_at,
        start=math.log(1.2 * math.log(1 / delta) + 1),
        guess=4 * math.log(1 / delta) / min(epsilon - epsilon_star, 4.0),
    )
    return flood_of(math.exp(log_r), mean_at(log_r, guess, 1e-6))


def _minimum(
    f: Callable[[float, float], float], *, start: float, guess: float
) -> tuple[float, float]:
    """Return (x, f(x)) near the minimum of a smooth valley; f is given the last value found.

    A wrong valley costs messages, never privacy.
    """
    step = 0.4
    known = {start: f(start, guess)}
    best = start
    while True:
        for x in (best - step, best + step):
            if x not in known and x >= 0:
                known[x] = f(x, known[best])
        better = min(known, key=lambda x: known[x])
        if better == best:
            break
        best = better
    left = known.get(best - step)
    if left is None:
        return best, known[best]
    right = known[best + step]
    bend = left - 2 * known[best] + right
    x = best + step / 2 * (left - right) / bend if bend > 0 else best
    value = f(x, known[best])
    return (x, value) if value < known[best] else (best, known[best])


@lru_cache(maxsize=8)  # a curve is looked at again and again
def _open(flood: NegativeBinomialFlood, beyond: int, decay: float) -> tuple[Window, Floats]:
    window = flood.window(beyond)
    return window, _accumulate(window.masses, decay)


def _accumulate(f: Floats, decay: float) -> Floats:
    """Accumulate H(a) = f(a) + decay H(a - 1), by doubling: every operation adds positive numbers."""
    H = f.copy()
    span, power = 1, decay
    while span < len(H) and power > 0:
        H[span:] += power * H[:-span]
        span, power = 2 * span, power * power
    return H


class CorrelatedDevice(ABC):
    """The base of devices with correlated noise. Without the others' noise a message gives its sender away."""

    __slots__ = ()
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "the exact divergence of the sampled noise, Ghazi, Kumar, Manurangsi, Pagh 2020 "
        "(correlated noise; accounting/correlated)"
    )
    star: float
    """The rate of the noise that stays in the answer."""
    p_flood: float
    word_bits: int

    @property
    @abstractmethod
    def words_per_input(self) -> int:
        """The words that a user takes."""

    @property
    @abstractmethod
    def noise_share(self) -> Fraction:
        """One user's r of each of the two noises of a bin: their sum is Geom(e^-star) at r = 1."""

    @property
    @abstractmethod
    def flood_share(self) -> Fraction:
        """One user's share r of the flood of a bin."""

    @property
    @abstractmethod
    def neighbours(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What one user adds to the message counts with one value and with another."""

    @abstractmethod
    def distance(self, users: int) -> float:
        """Bound the distance between the sampled and the ideal noise of the bins concerned from above."""

    @abstractmethod
    def noise_law(self) -> VectorLaw:
        """Return the exact law of one user's noise."""

    @abstractmethod
    def view(self, noise: CorrelatedNoise | ThinnedNoise) -> Profile:
        """Return the curve of the bins which one person's change concerns, for ideal noise."""

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound delta at epsilon from above, for what the honest users send.

        The distance between the ideal and the sampled noise is added, (1 + e^epsilon) times. For a tape of a few bits
        the divergence is computed from the sampled law itself.
        """
        noise = _find_noise(self, honest, _below(honest * self.flood_share))
        try:
            bound = min(1.0, self.view(noise).delta(epsilon) + _overhead(self, honest, epsilon))
        except UnsupportedError:  # too little noise for an exact sum in reasonable time
            bound = 1.0
        return min(bound, _enumerate(self, honest, epsilon)) if _is_small(self) else bound

    def open_curve(self, honest: int) -> tuple[Profile, float] | None:
        """Return the curve for ideal noise, and the distance to the sampled noise; None for a tape of a few bits.

        Less flood is less privacy, so a shorter number serves for it, and other bins have the same curve.
        """
        if _is_small(self):
            return None
        r = shorten(_below(honest * self.flood_share))
        return self.view(_find_noise(self, honest, r)), self.distance(honest) * (1 + 1e-12)


def _find_noise(
    device: CorrelatedDevice, honest: int, r_flood: float
) -> CorrelatedNoise | ThinnedNoise:
    share = honest * device.noise_share
    return add_shares(
        epsilon_star=device.star,
        share=1.0 if share >= 1 else _below(share),
        flood=NegativeBinomialFlood(r=r_flood, p=device.p_flood),
    )


def _below(x: Fraction) -> float:
    return math.nextafter(float(x), 0.0)


def _overhead(device: CorrelatedDevice, honest: int, epsilon: float) -> float:
    """Return what the distance between the ideal and the sampled noise adds to delta."""
    apart = device.distance(honest) * (1 + 1e-12)
    return (1 + math.exp(min(epsilon, 700.0))) * apart


def _is_small(device: CorrelatedDevice) -> bool:
    """Return whether the tape is so short that the sampled law is computed itself."""
    return device.word_bits * device.words_per_input <= _SMALL_TAPE


def _enumerate(device: CorrelatedDevice, honest: int, epsilon: float) -> float:
    law = device.noise_law()
    if len(law) ** honest > _MOST_SUMS:
        return 1.0
    total = law
    for _ in range(honest - 1):
        total = add_laws(total, law)
    one, other = (shift_law(total, unit) for unit in device.neighbours)
    ratio = exp_lower(epsilon)
    return float(max(_divergence(one, other, ratio), _divergence(other, one, ratio)))


_Device = TypeVar("_Device", bound=CorrelatedDevice)


def calibrate(
    build: Callable[..., _Device],
    crowd: Crowd,
    promise: Promise,
    *,
    star: float,
    losing: float,
    calibration: Calibration,
) -> _Device:
    """Return the device that is built with (nearly) the smallest flood that is certified, or the published one.

    The noise uses `star` of epsilon, the bin that loses a person `bound_losing`.
    """
    if calibration is Calibration.PAPER:
        flood = _publish(promise, star, losing)
        return build(star=star, r_flood=flood.r, p_flood=flood.p)
    # Down to 30 bits, so that budgets which differ by rounding share one search, on the safe side.
    epsilon, delta, target = promise.epsilon, promise.delta, shorten(promise.delta)
    if star < _LEAST_STAR:
        raise UnsupportedError(
            f"epsilon={epsilon!r} is too small: the noise is too long for a table"
        )
    if delta < _LEAST_DELTA:
        raise UnsupportedError(f"delta={delta!r} is out of reach of tables of 64-bit words")
    # The tables are a little off and the search is for the ideal noise: aim lower until it fits.
    for _ in range(20):
        flood = flood_level(epsilon=losing, epsilon_star=star, delta=target)
        device = build(star=star, r_flood=flood.r, p_flood=flood.p)
        certified = device.delta(crowd.trusted, epsilon)
        if certified <= delta:
            return device
        target *= (1 - 1e-9) * (delta / certified) ** 3
        hopeless = _overhead(device, crowd.trusted, epsilon) >= delta and not _is_small(device)
        if hopeless or target < 1e-9 * delta:
            break
    raise UnsupportedError(f"delta={delta!r} is out of reach with words of {device.word_bits} bits")


def _publish(promise: Promise, star: float, losing: float) -> NegativeBinomialFlood:
    # The gap as a fraction of the epsilon of the bin that loses, which is what the theorem is about.
    gap = 1 - star / losing
    if losing > 1 or promise.delta >= 0.5 or gap > 0.5:
        raise UnsupportedError(
            f"epsilon={promise.epsilon!r}, delta={promise.delta!r}: the published constants are for "
            "one bin with epsilon <= 1, delta < 1/2, gap <= 1/2; use calibration='exact'"
        )
    return published_flood(epsilon=losing, gap=gap, delta=promise.delta)


def _divergence(a: VectorLaw, b: VectorLaw, ratio: Fraction) -> Fraction:
    return sum(
        (max(NOTHING, mass - ratio * b.get(counts, NOTHING)) for counts, mass in a.items()), NOTHING
    )
