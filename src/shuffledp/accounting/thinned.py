"""Correlated noise of which a part is missing: what is left when fewer users are honest.

The view is (a, b) = (S + Z1 + F, Z2 + F) as in accounting/correlated, but Z1, Z2 ~ NB(rho, p) with
rho <= 1: the honest users' shares of Geom(p) do not add up to the whole. With q the masses of NB(rho, p),

    C_k(a) = sum_f Pr[F = f] q(a - f) q(a - f + k),   Pr[(a, b) | S = 0] = C_|a-b|(min(a, b)).

Losing (S against S+1), for epsilon >= 0:

    delta = sum_(k >= 0) sum_a max(0, C_k(a) - e^epsilon C_(k+1)(a - 1)),

because for b < a the ratio is at most that of q(z+1) to q(z), p (rho + z) / (z + 1) <= p. Gaining: the
ratio is at most q(z) / q(z+1) <= 1 / (p rho) everywhere, so this direction is pure epsilon_star - ln rho; at a
smaller epsilon

    delta = sum_k sum_a max(0, C_(k+1)(a - 1) - e^epsilon C_k(a)) + max(0, C_k(a) - e^epsilon C_(k+1)(a)).

Sums are over finite windows, and what is outside them is added.
"""

import math
from dataclasses import dataclass

import numpy as np

from shuffledp.accounting.floods import NegativeBinomialFlood
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import positive

__all__ = ["ThinnedNoise"]

_CUT = 1e-17
_MOST_WORK = 4e9
_ERROR = 1e-12
"""More than the relative errors of q, of products and of sums of positive numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinnedNoise:
    """The count with a part `share` of the noise, and a flood.

    >>> noise = ThinnedNoise(
    ...     epsilon_star=0.9, share=0.5, flood=NegativeBinomialFlood(r=8.8, p=0.9445)
    ... )
    >>> f"{noise.losing(1.0):.4f} {noise.gaining(1.0):.4f}"
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

    def losing(self, epsilon: float) -> float:
        """At least the divergence of S against S + 1 at this epsilon >= 0."""
        if epsilon < 0:
            return 1.0
        factor = math.exp(min(epsilon, 700.0)) * (1 - 1e-14)
        laws, error, outside = self._diagonals()
        total = 0.0
        for law, following in zip(laws, (*laws[1:], np.zeros_like(laws[0])), strict=True):
            less = factor * (1 - error) * np.append(0.0, following[:-1])
            total += float(np.maximum(law * (1 + error) - less, 0.0).sum())
        return min(1.0, (total + outside) * (1 + _ERROR))

    def gaining(self, epsilon: float) -> float:
        """At least the divergence of S + 1 against S at this epsilon >= 0."""
        if epsilon >= self.pure:
            return 0.0
        if epsilon < 0:
            return 1.0
        factor = math.exp(epsilon) * (1 - 1e-14)
        laws, error, outside = self._diagonals()
        total = 0.0
        for law, following in zip(laws, (*laws[1:], np.zeros_like(laws[0])), strict=True):
            up, down = 1 + error, factor * (1 - error)
            before = np.append(0.0, following[:-1])
            total += float(np.maximum(before * up - law * down, 0.0).sum())
            total += float(np.maximum(law * up - following * down, 0.0).sum())
        return min(1.0, (total + outside) * (1 + _ERROR))

    def _diagonals(self) -> tuple[list[Floats], float, float]:
        """C_0, C_1, ...; their relative error; what is outside, as a bound of its probability."""
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
        error = window.error + window.scale_error + _ERROR
        # Each C_k appears at most twice with a plus; `rest` bounds what is beyond q for either sign.
        return laws, error, window.below + window.above + 2 * rest

    def _masses(self) -> tuple[Floats, float]:
        """q(0), q(1), ..., and a bound of what `_diagonals` leaves out of both signs."""
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
