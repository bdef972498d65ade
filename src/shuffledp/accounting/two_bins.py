"""One bin loses a message and another gains one: the histogram's privacy curve.

A and B noise messages lie in the two bins that a neighbour changes, and the attacker sees
(A + 1, B) or (A, B + 1). Two cases:

* Given T = A + B, A is Bin(T, 1/2): true for Poisson noise (T ~ Poisson(2 mu)) and for dummies that hit
  either bin with the same probability. With E = e^epsilon and k = ceil((t + 1)/(E + 1)) - 1,

      delta = E[D_T],   D_t = Pr[Bin(t, 1/2) <= k] - E Pr[Bin(t, 1/2) <= k - 1].

* A and B are independent Bin(n, gamma). Given B = b the ratio of the two laws at a is
  f(a - 1) / (r_b f(a)), r_b = b (1 - gamma) / ((n - b + 1) gamma), f the mass of A, so that

      delta = E[h_B],   h_b = sum_a max(0, f(a - 1) - E r_b f(a)).

D_t does not increase with t (one more noise message in a random one of the bins is
post-processing), and h_b does not increase with b (r_b grows). So both are expectations of
decreasing functions, bounded by cells. The other direction is the same by symmetry.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.accounting.decreasing_mean import (
    TAIL_ERROR,
    BinomialTotal,
    PoissonTotal,
    SumOfBinomials,
    Total,
    expected,
)
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import fraction_of_one, number, positive, whole
from shuffledp.numerics import masses
from shuffledp.numerics.search import smallest_parameter

__all__ = [
    "IndependentBins",
    "TwoBins",
    "dummies",
    "dummies_level",
    "independent_level",
    "poisson_level",
]

_LARGEST_EPSILON = 700.0
_BITS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoBins:
    """T noise messages in the two bins, each in either with probability 1/2: a `Profile`.

    >>> f"{TwoBins(total=PoissonTotal(mean=2 * 20.0)).delta(1.0):.5e}"
    '3.19987e-04'
    """

    total: Total

    def delta(self, epsilon: float) -> float:
        """At least the true delta at this epsilon."""
        growth = _growth(epsilon)
        return expected(self.total, lambda t: _fair_inner(t, growth))

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at this delta; `UnsupportedError` if there is none."""
        return _inverse(self, delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentBins:
    """Independent Bin(n, gamma) noise in each of the two bins: a `Profile`.

    >>> f"{IndependentBins(n=300, gamma=Fraction(136, 300)).delta(0.5):.3e}"
    '7.052e-05'
    """

    n: int
    gamma: Fraction

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=10**12)
        if not 0 < self.gamma < 1:
            raise ParameterError("gamma", self.gamma, "must be > 0 and < 1")

    def delta(self, epsilon: float) -> float:
        """At least the true delta at this epsilon."""
        growth = _growth(epsilon)
        total = BinomialTotal(n=self.n, p=self.gamma)
        return expected(total, lambda b: self._inner(b, growth))

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at this delta; `UnsupportedError` if there is none."""
        return _inverse(self, delta)

    def _inner(self, b: Floats, growth: float) -> Floats:
        """h_b = f(a - 1) - (E r_b - 1) Pr[A >= a], a the first with a positive term."""
        from scipy.special import betainc

        n, gamma, E = self.n, float(self.gamma), 1 + growth
        a = np.clip(np.floor((n + 1) * E * b / ((n - b + 1) + E * b)) + 1, 1, n + 1)
        at = np.minimum(a, n)
        tail = np.where(a <= n, betainc(at, n - at + 1, gamma), 0.0)
        room = (n - b + 1) * gamma
        price = (E * b * float(1 - self.gamma) - room) / room  # E r_b - 1, of either sign
        error = masses.RELATIVE_ERROR
        value = masses.binomial(a - 1, n, gamma) * (1 + 2 * error)
        value -= price * tail - np.abs(price) * tail * 2 * TAIL_ERROR
        return np.clip(value, 0.0, 1.0)


def dummies(*, n: int, rho: Fraction, pair: Fraction) -> TwoBins:
    """n users send floor(rho) dummies each, and one more with probability frac(rho).

    `pair` is the probability that a dummy hits one of two given bins (each half of that): 2/d for
    uniform dummies over d bins.

    >>> profile = dummies(n=1_000, rho=Fraction(9, 2), pair=Fraction(2, 100))
    >>> f"{profile.delta(1.0):.2e}"
    '5.61e-07'
    """
    whole("n", n, at_least=1)
    surely = math.floor(rho)
    share = rho - surely
    if rho <= 0:
        raise ParameterError("rho", rho, "must be > 0")
    if not 0 < pair <= 1:
        raise ParameterError("pair", pair, "must be > 0 and <= 1")
    if share == 0:
        return TwoBins(total=BinomialTotal(n=n * surely, p=pair))
    more = BinomialTotal(n=n, p=share * pair)
    if surely == 0:
        return TwoBins(total=more)
    return TwoBins(total=SumOfBinomials(first=BinomialTotal(n=n * surely, p=pair), second=more))


@lru_cache(maxsize=256)
def poisson_level(*, epsilon: float, delta: float) -> float:
    """The smallest mu (rounded up by at most a part in 10^6) such that Poisson(mu) per bin suffices.

    >>> round(poisson_level(epsilon=1.0, delta=1e-6), 2)
    42.65
    """
    _check(epsilon, delta)

    def excess(mu: float) -> float:
        return _excess(TwoBins(total=PoissonTotal(mean=2 * mu)), epsilon, delta)

    level = smallest_parameter(excess, guess=_guess(epsilon, delta), largest=4e11)
    if level is None:
        raise UnsupportedError(f"epsilon={epsilon!r} needs more noise than this routine handles")
    return level


def independent_level(*, n: int, epsilon: float, delta: float, bits: int = _BITS) -> Fraction:
    """A gamma <= 1/2 such that Bin(n, gamma) per bin suffices, nearly the smallest: a multiple of 2^-bits.

    delta is not perfectly monotone in gamma; the gamma returned was itself certified.

    >>> gamma = independent_level(n=10_000, epsilon=1.0, delta=1e-6)
    >>> round(float(10_000 * gamma), 2), IndependentBins(n=10_000, gamma=gamma).delta(1.0) <= 1e-6
    (42.75, True)
    """
    _check(epsilon, delta)
    whole("n", n, at_least=1)

    def excess(gamma: float) -> float:
        return _excess(IndependentBins(n=n, gamma=_dyadic(gamma, bits)), epsilon, delta)

    guess = min(_guess(epsilon, delta) / n, 0.5)
    gamma = smallest_parameter(excess, guess=guess, largest=0.5)
    if gamma is None:
        raise UnsupportedError(f"n={n} users are too few for epsilon={epsilon!r}, delta={delta!r}")
    return _dyadic(gamma, bits)


def dummies_level(
    *, n: int, pair: Fraction, epsilon: float, delta: float, bits: int = _BITS
) -> Fraction:
    """The smallest rho, rounded up to a multiple of 2^-bits, such that `dummies` suffices.

    >>> rho = dummies_level(n=1_000_000, pair=Fraction(2, 1024), epsilon=1.0, delta=1e-6)
    >>> round(float(rho) * 1_000_000 / 1024, 2)
    42.65
    """
    _check(epsilon, delta)
    whole("n", n, at_least=1)

    def excess(rho: float) -> float:
        return _excess(dummies(n=n, rho=_dyadic(rho, bits), pair=pair), epsilon, delta)

    rho = smallest_parameter(
        excess,
        guess=2 * _guess(epsilon, delta) / (n * float(pair)),
        largest=min(1e12 / n, 1e9),
    )
    if rho is None:
        raise UnsupportedError(f"epsilon={epsilon!r} needs more dummies than this routine handles")
    return _dyadic(rho, bits)


def _fair_inner(t: Floats, growth: float) -> Floats:
    """D_t = pmf(k) - (E - 1) cdf(k - 1), rounded up by more than the rounding errors."""
    k = np.clip(np.ceil((t + 1) / (growth + 2)) - 1, 0, t)
    slack = 2 * masses.COIN_ERROR
    value = masses.coin_pmf(k, t) * (1 + slack) - growth * masses.coin_cdf(k - 1, t) * (1 - slack)
    return np.clip(value, 0.0, 1.0)


def _growth(epsilon: float) -> float:
    """e^epsilon - 1."""
    if number("epsilon", epsilon) < 0:
        raise ParameterError("epsilon", epsilon, "must be >= 0")
    return math.expm1(min(epsilon, _LARGEST_EPSILON))


def _check(epsilon: float, delta: float) -> None:
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)


def _excess(profile: TwoBins | IndependentBins, epsilon: float, delta: float) -> float:
    return math.log(profile.delta(epsilon) / delta)


def _guess(epsilon: float, delta: float) -> float:
    """About the smallest mu: where a search may start."""
    return max(2 * math.log(1 / delta) * (1 / epsilon**2 + 0.5) / 2, 1.0)


def _dyadic(x: float, bits: int) -> Fraction:
    return Fraction(math.ceil(Fraction(x) * 2**bits), 2**bits)


def _inverse(profile: TwoBins | IndependentBins, delta: float) -> float:
    fraction_of_one("delta", delta)
    if profile.delta(0.0) <= delta:
        return 0.0
    epsilon = smallest_parameter(
        lambda epsilon: _excess(profile, epsilon, delta), guess=1.0, largest=_LARGEST_EPSILON
    )
    if epsilon is None:
        raise UnsupportedError(f"no epsilon reaches delta={delta!r} with this noise")
    return epsilon
