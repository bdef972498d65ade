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
Reference: Ghazi, Kumar, Manurangsi, Pagh 2020, "Private counting from anonymous messages:
near-optimal accuracy with vanishing communication overhead"; the exact formula is ours.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shuffledp.accounting.floods import Flood, NegativeBinomialFlood, PoissonFlood, Window
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import fraction_of_one, number, positive
from shuffledp.numerics.search import smallest_parameter, smallest_safe

__all__ = [
    "CorrelatedNoise",
    "CorrelatedPair",
    "flood_level",
    "poisson_flood_level",
    "published_flood",
]

_UNIT = 2.0**-53
_LARGEST_EPSILON = 700.0
_LONGEST = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedNoise:
    """The count with correlated noise: a `Profile`.

    >>> noise = CorrelatedNoise(epsilon_star=0.8, flood=NegativeBinomialFlood(r=20.0, p=0.85))
    >>> f"{noise.delta(1.0):.6e}"
    '1.345556e-05'
    """

    epsilon_star: float
    flood: Flood

    def __post_init__(self) -> None:
        positive("epsilon_star", self.epsilon_star)

    def delta(self, epsilon: float) -> float:
        """At least the true delta at this epsilon, the larger of both directions."""
        if number("epsilon", epsilon) < 0:
            raise ParameterError("epsilon", epsilon, "must be >= 0")
        gap = min(epsilon, _LARGEST_EPSILON) - self.epsilon_star
        # A ratio of at most e^epsilon_star leaves at most this at a smaller epsilon.
        pure = -math.expm1(min(gap, 0.0)) * (1 + 4 * _UNIT)
        return min(1.0, max(self.losing(epsilon), pure))

    def losing(self, epsilon: float) -> float:
        """At least the divergence of S against S + 1, epsilon >= 0."""
        beyond = 32
        while beyond <= _LONGEST:
            bound, done = self._sum(self.flood.window(beyond), epsilon)
            if done:
                return bound
            beyond *= 4
        raise UnsupportedError("the flood is too large for this routine")

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at this delta; `UnsupportedError` if there is none."""
        fraction_of_one("delta", delta)
        if self.delta(_LARGEST_EPSILON) > delta:
            raise UnsupportedError(f"no epsilon reaches delta={delta!r} with this flood")
        return smallest_safe(
            lambda epsilon: math.log(self.delta(epsilon) / delta),
            safe=_LARGEST_EPSILON,
            guess=1.2 * self.epsilon_star,
        )

    def _sum(self, window: Window, epsilon: float) -> tuple[float, bool]:
        """The bound, and whether it needs no longer window."""
        star, epsilon = self.epsilon_star, min(epsilon, _LARGEST_EPSILON)
        decay = math.exp(-2 * star)
        H = _accumulated(window.masses, decay)
        # p^(2i) is a product of up to len(H) rounded factors, each off by its exponent's rounding.
        error = window.error + (4 + 2 * star) * (len(H) + 64) * _UNIT
        factor = math.exp(epsilon - star) * (1 - (4 + 2 * epsilon + 2 * star) * _UNIT)
        terms = H * (1 + error) - factor * (1 - error) * np.append(0.0, H[:-1])
        # If F is log-concave so is H: once a term is not positive, none is again.
        above = 0.0 if self.flood.log_concave and terms[-1] <= 0 else window.above
        main = float(np.maximum(terms, 0.0).sum()) * (1 + window.scale_error + len(H) * _UNIT)
        # What was cut below adds at most its own terms, and p^2 + p^4 + ... of it to later ones.
        bound = -math.expm1(-star) * (main + above + window.below / (1 - decay))
        done = above <= 1e-9 * main or not self.flood.endless
        return min(1.0, bound * (1 + 8 * _UNIT) + 1e-300), done


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedPair:
    """Two bins of a histogram, one loses and one gains: a `Profile`.

    The gaining bin is pure epsilon_star; the losing one has the curve of `CorrelatedNoise`. They are
    independent, so delta(epsilon) is that curve at epsilon - epsilon_star.

    >>> noise = CorrelatedNoise(epsilon_star=0.45, flood=NegativeBinomialFlood(r=16.0, p=0.95))
    >>> f"{CorrelatedPair(noise=noise).delta(1.0):.4e}", f"{noise.losing(1.0 - 0.45):.4e}"
    ('7.6133e-07', '7.6133e-07')
    """

    noise: CorrelatedNoise

    def delta(self, epsilon: float) -> float:
        """At least the true delta at this epsilon."""
        star = self.noise.epsilon_star
        if number("epsilon", epsilon) < star:
            raise ParameterError("epsilon", epsilon, f"must be >= epsilon_star = {star!r}")
        # Rounding down what is left for the losing bin raises delta.
        return self.noise.losing(max(0.0, math.nextafter(epsilon - star, 0.0)))

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at this delta; `UnsupportedError` if there is none."""
        star = self.noise.epsilon_star
        return math.nextafter(math.nextafter(star + self.noise.epsilon(delta), 1e9), 1e9)


def published_flood(*, epsilon: float, gap: float, delta: float) -> NegativeBinomialFlood:
    """The published constants, r = 3 (1 + ln(1/delta)), p = e^(-0.2 g epsilon), epsilon_star = (1 - g) epsilon.

    >>> round(published_flood(epsilon=1.0, gap=0.1, delta=1e-6).mean)
    2200
    """
    positive("epsilon", epsilon)
    fraction_of_one("gap", gap)
    fraction_of_one("delta", delta)
    return NegativeBinomialFlood(r=3 * (1 + math.log(1 / delta)), p=math.exp(-0.2 * gap * epsilon))


def flood_level(*, epsilon: float, epsilon_star: float, delta: float) -> NegativeBinomialFlood:
    """The negative binomial flood of nearly the smallest mean with (epsilon, delta).

    >>> flood = flood_level(epsilon=1.0, epsilon_star=0.9, delta=1e-6)
    >>> round(flood.mean)
    299
    """
    _check(epsilon, epsilon_star, delta)

    def mean_at(log_r: float, guess: float, tolerance: float) -> float:
        r = math.exp(log_r)
        return _smallest_mean(
            lambda mean: NegativeBinomialFlood(r=r, p=mean / (mean + r)),
            epsilon,
            epsilon_star,
            delta,
            guess,
            tolerance,
        )

    log_r, guess = _minimum(
        lambda x, guess: mean_at(x, guess, 1e-4),
        start=math.log(1.2 * math.log(1 / delta) + 1),
        guess=4 * math.log(1 / delta) / min(epsilon - epsilon_star, 4.0),
    )
    r, mean = math.exp(log_r), mean_at(log_r, guess, 1e-6)
    return NegativeBinomialFlood(r=r, p=mean / (mean + r))


def poisson_flood_level(*, epsilon: float, epsilon_star: float, delta: float) -> PoissonFlood:
    """The smallest Poisson flood with (epsilon, delta), rounded up by at most a part in 10^6.

    >>> round(poisson_flood_level(epsilon=1.0, epsilon_star=0.9, delta=1e-6).mean)
    1348
    """
    _check(epsilon, epsilon_star, delta)
    guess = 2 * math.log(1 / delta) / min(epsilon - epsilon_star, 1.0) ** 1.5
    mean = _smallest_mean(
        lambda mean: PoissonFlood(mean=mean), epsilon, epsilon_star, delta, guess, 1e-6
    )
    return PoissonFlood(mean=mean)


def _smallest_mean(
    flood: Callable[[float], Flood],
    epsilon: float,
    epsilon_star: float,
    delta: float,
    guess: float,
    tolerance: float,
) -> float:
    def excess(mean: float) -> float:
        noise = CorrelatedNoise(epsilon_star=epsilon_star, flood=flood(mean))
        return math.log(noise.delta(epsilon) / delta)

    mean = smallest_parameter(excess, guess=guess, largest=1e8, tolerance=tolerance)
    if mean is None:
        raise UnsupportedError(
            f"epsilon_star={epsilon_star!r} is too close to epsilon={epsilon!r} for delta={delta!r}"
        )
    return mean


def _minimum(
    f: Callable[[float, float], float], *, start: float, guess: float
) -> tuple[float, float]:
    """(x, f(x)) near the minimum of a smooth valley; f is told the last value found.

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


def _check(epsilon: float, epsilon_star: float, delta: float) -> None:
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)
    if not 0 < number("epsilon_star", epsilon_star) < epsilon:
        raise ParameterError(
            "epsilon_star", epsilon_star, f"must be > 0 and < epsilon = {epsilon!r}"
        )


def _accumulated(f: Floats, decay: float) -> Floats:
    """H(a) = f(a) + decay H(a - 1), by doubling: every operation adds positive numbers."""
    H = f.copy()
    span, power = 1, decay
    while span < len(H) and power > 0:
        H[span:] += power * H[:-span]
        span, power = 2 * span, power * power
    return H
