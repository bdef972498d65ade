"""Any epsilon0-local randomizer: amplification by clones, numerically, at any n in milliseconds.

Write p = e^epsilon0, E = e^epsilon. Reveal everything but the messages that may be the target's
*clones*. Then an attacker sees x ~ A + Delta out of C + 1, where C ~ Bin(n - 1, rho) other users
are clones, A ~ Bin(C, 1/2) and Delta is 1 with probability p/(p+1) or 1/(p+1), depending on the
target's value; everything else is post-processing. The hockey-stick divergence is

    delta(epsilon) = sum_C Bin(n - 1, rho)(C) D_C
    D_C = [ (p - E) pmf(k) - (p + 1)(E - 1) cdf(k - 1) ] / (p + 1),   pmf and cdf of Bin(C, 1/2),
    k = ceil((C + 1)(p - E) / ((p - 1)(E + 1))) - 1.

rho = e^-epsilon0 is the statement of Feldman, McMillan and Talwar 2021 ("Hiding among the clones");
rho = 2/(p + 1) is the pair of their 2023 paper ("Stronger privacy amplification by shuffling for
Renyi and approximate differential privacy"). The general proof published there has an erratum; the
pair does dominate every epsilon0-local randomizer, by the proof in docs/theory/clones.md.

D_C falls with C (one more clone is post-processing), so C is cut into cells: each cell's left end
gives an upper bound for all of it, its right end a lower bound. The cells are placed once, refined
where the two differ most, and reused for every epsilon.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.accounting.base import gaussian_epsilon
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.masses import COIN_ERROR, coin_cdf, coin_pmf
from shuffledp.numerics.search import smallest_safe

__all__ = ["LARGEST_N", "Clones", "clones_2021", "clones_2023"]

_TINY = 1e-305
LARGEST_N = 10**12
"""The errors of rounding are known up to here; at 10^14 they can exceed what is added for them."""
_EXACT = 400  # up to this many other users every C is a cell of its own
_TAIL_ERROR = 1e-8  # relative error of SciPy's betainc: at most 3e-9 up to n = 10^12, see the tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Clones:
    """The pair of laws that dominates the shuffled view, with clone probability `rho`.

    >>> clones = clones_2023(epsilon0=1.0, n=10_000)
    >>> round(clones.epsilon(1e-6), 4)
    0.0432
    """

    epsilon0: float
    n: int
    rho: float

    def __post_init__(self) -> None:
        positive("epsilon0", self.epsilon0)
        if whole("n", self.n, at_least=1) > LARGEST_N:
            raise UnsupportedError(
                f"n={self.n} is more than the {LARGEST_N:.0e} users of the proof"
            )

    def delta(self, epsilon: float) -> float:
        """An upper bound of the divergence at epsilon."""
        if epsilon >= self.epsilon0:
            return 0.0
        starts, below = self._cells(epsilon)
        inner = np.minimum.accumulate(self._inner(starts, epsilon, 1.0))
        # Abel summation: every term is positive, so nothing cancels.
        total = float(inner[-1] + (inner[:-1] - inner[1:]) @ below[1:])
        return min(1.0, max(total, _TINY))

    def delta_lower(self, epsilon: float) -> float:
        """A lower bound of the same divergence: `delta` minus it is the price of cells and rounding."""
        if epsilon >= self.epsilon0:
            return 0.0
        starts, below = self._cells(epsilon)
        ends = np.append(starts[1:] - 1, self.n - 1.0)
        inner = self._inner(ends, epsilon, -1.0)
        masses = np.diff(np.append(below, 1.0))
        return max(0.0, float(masses @ inner)) * (1 - 1e-6)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon, rounded up by at most a part in 10^6, with delta(epsilon) <= delta."""
        # The decision rests on C + 1 coins, biased by (p - 1)/(p + 1) times one coin.
        mu = 2 * math.tanh(self.epsilon0 / 2) / math.sqrt(max(self.n * self.rho, 1.0))
        return smallest_safe(
            lambda epsilon: math.log(self.delta(epsilon) / delta),
            safe=self.epsilon0,
            guess=gaussian_epsilon(mu, delta),
        )

    def _inner(self, C: Floats, epsilon: float, side: float) -> Floats:
        """D_C, moved up (side = 1) or down (side = -1) by more than its rounding errors."""
        gain = -math.expm1(epsilon - self.epsilon0)  # (p - E) / p
        first = gain / (1 + math.exp(-self.epsilon0))  # (p - E) / (p + 1)
        share = gain / (-math.expm1(-self.epsilon0) * (math.exp(epsilon) + 1))
        k = np.clip(np.ceil((C + 1) * share) - 1, 0, C)
        slack = side * COIN_ERROR
        value = first * coin_pmf(k, C) * (1 + slack)
        if epsilon > 0:
            value -= math.expm1(epsilon) * coin_cdf(k - 1, C) * (1 - slack)
        return np.maximum(value, 0.0)

    def _cells(self, epsilon: float) -> tuple[Floats, Floats]:
        # How many standard deviations of the coins the decision is away from the middle, in coarse
        # steps: a search then needs one or two sets of cells for all its epsilons.
        spread = math.tanh(epsilon / 2) / math.tanh(self.epsilon0 / 2)
        deviation = math.sqrt(max(self.n - 1, 1) * self.rho) * spread
        return _cells(self.n, self.rho, 4 * math.ceil(deviation / 4))


def clones_2021(*, epsilon0: float, n: int) -> Clones:
    """The pair of Feldman, McMillan, Talwar 2021: every other user is a clone w.p. e^-epsilon0.

    >>> round(clones_2021(epsilon0=1.0, n=1_000).epsilon(1e-6), 4)
    0.1824
    """
    rho = math.exp(-positive("epsilon0", epsilon0))
    return Clones(epsilon0=epsilon0, n=n, rho=_round_down(rho))


def clones_2023(*, epsilon0: float, n: int) -> Clones:
    """The stronger pair: every other user is a clone with probability 2 / (e^epsilon0 + 1).

    >>> round(clones_2023(epsilon0=1.0, n=1_000).epsilon(1e-6), 4)
    0.1487
    """
    rho = 2 / (math.exp(positive("epsilon0", epsilon0)) + 1)
    return Clones(epsilon0=epsilon0, n=n, rho=_round_down(rho))


def _round_down(rho: float) -> float:
    # Fewer clones are less privacy: rounding rho down keeps an upper bound.
    return rho * (1 - 1e-15)


@lru_cache(maxsize=64)
def _cells(n: int, rho: float, deviation: int) -> tuple[Floats, Floats]:
    """Left ends of the cells of C, and an upper bound of Pr[C < left end] for each."""
    others = n - 1
    if others <= _EXACT:
        starts = np.arange(others + 1, dtype=np.float64)
        return starts, _below(starts, others, rho)
    mean = others * rho
    sd = math.sqrt(mean * (1 - rho))
    # D_C falls like exp(-deviation^2 C / (2 mean)): the product with the binomial peaks this many
    # standard deviations below the mean, and that is where the cells must be fine.
    shift = deviation**2 / 2 * sd / max(mean, 1.0)
    low, high = mean - (9 + 2 * shift) * sd, mean + 9 * sd
    # A cell of w standard deviations raises delta by a factor of about 1 + w shift / 2.
    count = math.ceil(min(max(150 * shift * (18 + 2 * shift), 24), _EXACT))
    fine = np.linspace(max(low, 0.0), min(high, float(others)), count)
    coarse = np.linspace(0.0, max(low, 0.0), 16)
    starts = np.unique(np.floor(np.concatenate([coarse, fine])))
    return starts, _below(starts, others, rho)


def _below(starts: Floats, others: int, rho: float) -> Floats:
    """Pr[Bin(others, rho) <= start - 1], rounded up."""
    from scipy.special import betainc

    k = starts - 1
    keep = math.nextafter(1 - rho, 1.0)
    inside = np.clip(k, 0, max(others - 1, 0))
    values = betainc(np.maximum(others - inside, 1.0), inside + 1, keep) * (1 + _TAIL_ERROR)
    return np.where(k < 0, 0.0, np.where(k >= others, 1.0, np.minimum(values, 1.0)))
