r"""Other views of a privacy curve: Renyi divergences, the trade-off of errors, the Gaussian that covers it.

A curve delta(epsilon) that bounds both directions says all of these:

- Renyi: e^((alpha - 1) D) = 1 + alpha (alpha - 1) int_0^inf (e^((alpha-1) t) + e^(-alpha t)) delta(t) dt,
- trade-off: a test that is wrong with probability alpha on one data set is wrong on the other with at least
  f(alpha) = max over epsilon of 1 - delta(epsilon) - e^epsilon alpha and e^-epsilon (1 - delta(epsilon) - alpha),
- Gaussian: the smallest mu for which telling N(0, 1) from N(mu, 1) is at least as easy: delta(epsilon) is nowhere above
  Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

Each is computed from a table of the curve, a cell at a time, with the end of the cell that is on the safe side. Proofs
are in docs/theory/views.md. References: Dong, Roth, Su 2022, "Gaussian differential privacy"; Mironov 2017,
"Renyi differential privacy".
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Profile
from shuffledp.core.validate import number
from shuffledp.numerics.enclosures import bound_normal_mills
from shuffledp.numerics.rounding import UNIT
from shuffledp.numerics.search import find_smallest
from shuffledp.numerics.tails import TINY

CUT = 1e-290
"""What `mu` and sums of Renyi divergences leave out: the tail of the curve below this delta."""

_NEAR, _FAR = 80, 800  # cells of equal size up to a hundredth, and of equal ratio up to CUT
_LARGEST_EXPONENT = 600.0  # e^600 times the smallest delta is still a number
_LARGEST_MU = 20.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveTable:
    """A privacy curve on cells of epsilon, from 0 to the epsilon of a message alone."""

    grid: Floats
    """The ends of the cells."""
    deltas: Floats
    """The curve at the left end of each: at least its value in all of the cell."""
    rest: float = 0.0
    """The delta from the last epsilon on: of a randomizer that is not pure, its delta0."""

    def renyi(self, alpha: float) -> float:
        """At least the Renyi divergence of order alpha > 1."""
        if number("alpha", alpha) <= 1:
            raise ParameterError("alpha", alpha, "must be > 1")
        if self.rest:
            return math.inf
        return min(float(self.grid[-1]), bound_renyi(self.grid, self.deltas, alpha))

    def trade_off(self, alpha: float) -> float:
        """At most the smallest error of the second kind of a test with error alpha of the first kind."""
        level = number("alpha", alpha)
        if not 0 <= level <= 1:
            raise ParameterError("alpha", alpha, "must be >= 0 and <= 1")
        epsilons, deltas = self.grid, np.append(self.deltas, self.rest)
        steep = 1 - deltas - np.exp(epsilons) * level * (1 + 800 * UNIT)
        flat = np.exp(-epsilons) * (1 - deltas - level) * (1 - 800 * UNIT)
        return max(0.0, float(max(steep.max(), flat.max())) - 4 * UNIT)

    def mu(self) -> float:
        """Nearly the smallest mu, rounded up, of a Gaussian pair that covers the curve down to `CUT`."""
        if self.rest:
            return math.inf
        told = np.maximum(self.deltas - CUT, 0.0)
        if not told.any():
            return 0.0

        def missing(mu: float) -> float:
            cover = _gaussian_delta_below(self.grid[1:], mu)
            covered = bool(np.all(told <= cover))
            return -1.0 if covered else 1.0

        found = find_smallest(missing, guess=1.0, largest=_LARGEST_MU, tolerance=1e-5)
        return math.inf if found is None else found


def bound_renyi(grid: Floats, deltas: Floats, alpha: float) -> float:
    """At least the Renyi divergence of order alpha of a curve that is at most deltas[i] from grid[i] on, and 0 at last.

    It is infinite where the integral leaves the floats.

    >>> round(bound_renyi(np.array([0.0, 1.0]), np.array([0.1]), 2.0), 4)
    0.3578
    """
    if (alpha - 1) * grid[-1] > _LARGEST_EXPONENT:
        return math.inf
    left, width = grid[:-1], np.diff(grid)
    growing = np.exp((alpha - 1) * left) * np.expm1((alpha - 1) * width) / (alpha - 1)
    falling = np.exp(-alpha * left) * -np.expm1(-alpha * width) / alpha
    # Nothing cancels: an exponent of 600 costs 1200 units, a sum one for each cell.
    total = alpha * (alpha - 1) * float(deltas @ (growing + falling)) * (1 + 1e-12)
    return math.log1p(total) / (alpha - 1) * (1 + 1e-12)


def _gaussian_delta_below(epsilons: Floats, mu: float) -> Floats:
    """At most the delta of a mu-Gaussian pair.

    With z = epsilon/mu - mu/2 and Mills' ratio M it is phi(z) (M(z) - M(z + mu)), and it falls with epsilon. So z is
    rounded up, which is an epsilon above, and z + mu is rounded down, where M is larger; both ratios are certified.
    """
    share = epsilons / mu
    z = share - mu / 2 + 4 * UNIT * (share + mu / 2)
    difference = bound_normal_mills(z)[0] - bound_normal_mills(np.nextafter(z + mu, -math.inf))[1]
    # z^2 / 2 <= 745 is off by two units of itself, e^ by 8 more, and three operations follow.
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (1 - 1e-12)
    value: Floats = np.where(density > TINY, np.maximum(difference, 0.0) * density, 0.0)
    return value


@lru_cache(maxsize=64)
def tabulate_curve(curve: Profile, pure: float, rest: float = 0.0) -> CurveTable:
    """Return the table of a curve that holds with delta = `rest` from epsilon = `pure` on.

    >>> from shuffledp.accounting.clones import clones_2023
    >>> table = tabulate_curve(clones_2023(epsilon0=1.0, n=1000), 1.0)
    >>> round(table.mu(), 3), round(table.renyi(2.0), 5), round(table.trade_off(0.05), 3)
    (0.041, 0.00159, 0.946)
    """
    last = min(pure, curve.epsilon(max(CUT, 2 * rest)))
    near, far = np.linspace(0.0, last / 100, _NEAR), np.geomspace(last / 100, last, _FAR)
    cells = np.concatenate([near, far, [last, pure]]) if last else np.array([0.0, pure])
    grid = np.unique(cells)
    deltas = np.array([curve.delta(float(t)) for t in grid[:-1]])
    return CurveTable(grid=grid, deltas=deltas, rest=rest)
