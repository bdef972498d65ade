r"""Any epsilon0-local randomizer: amplification by clones, numerically, at any n in milliseconds.

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

**Few clones**, up to some hundred: D_C from a table of Bin(C, 1/2), every C; it falls with C (one more clone is
post-processing), so the last one of the table holds for all beyond.

**Many clones**: the view is that of n messages from a blanket that is 0 or 1 with probability rho / 2 each, the target's
among them, so that (blanket.py)

    delta(epsilon) = E[(G_1 + ... + G_n)_+] / n,   G = 2/rho (p - E)/(p + 1) or 2/rho (1 - p E)/(p + 1), else 0,

which positive_part.py bounds for many epsilons at once.

**From below**, C is cut into cells: each cell's right end gives a lower bound for all of it. The cells are placed once,
finest where that matters most. Masses and tails come from numerics/masses.

**Approximate local randomizers**: each message is (epsilon0, delta0)-local. With eta = 2 delta0 / p and
growth = (1 + 2 eta)^(n - 1) - 1, for every such randomizer that all n people run,

    delta(epsilon) <= delta0 + (1 - delta0) [ (1 + growth) D(E) + (E - 1) growth / 2 ],

where D is the divergence of the stronger clones with clone probability 2/(p + 1) (1 - delta0) / (1 + 2 eta). To
first order in delta0 that is the pure bound plus delta0 (1 + 2 n (E - 1) / p + ...): the factor E - 1, about
epsilon, is what a comparison by total variation, which pays E + 1, gives away. The proof is in
docs/theory/approximate.md.

Three things are free. The messages of some people may be revealed, so the bound for any smaller n holds, too. The
true delta is convex in E and at most delta0 from E = p on, so chords to that point hold. And for n = 1 there is
nothing to grow: the local guarantee itself.

A chord from epsilon = s to that point is delta0 + (1 - E/p) h(s), where h(s) = (delta(s) - delta0) / (1 - e^s/p) does
not depend on E: the best one starts where h is least, for every epsilon from there on. For a fixed number of people the
theorem is convex in E, so h falls and then rises, and min over s <= epsilon of h(s) is found by a search. Both factors
fall with epsilon, and so does the bound.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shuffledp.accounting.base import (
    SMALLEST_DELTA,
    Batch,
    find_epsilon,
    find_epsilon_at_once,
    guess_epsilon,
)
from shuffledp.accounting.positive_part import mean_positive_parts
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.validate import below_one, positive, whole
from shuffledp.numerics.masses import bound_at_most, bound_mass, bound_mills
from shuffledp.numerics.rounding import UNIT

LARGEST_N = 10**12
"""Beyond, nobody has asked; the enclosures hold up to 2^50."""
_EXACT = 400  # up to this many other users every C is a cell of its own
_TABLE = 400  # clones: beyond, gains are summed up
_SLACK = 1 + 64 * UNIT  # for a handful of operations, an exponential among them
_GOLDEN = (math.sqrt(5) - 1) / 2
_NEAR = 1e-3  # relatively: does h fall here?
_STEPS = 36  # of the search for the best chord: it is found to 3e-8 epsilon0
_LARGEST_EXPONENT = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clones(Batch):
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
        """Return an upper bound of the divergence at epsilon."""
        return float(self.deltas(np.array([epsilon])).item())

    def deltas(self, epsilons: Floats) -> Floats:
        """Return the same at each of these epsilons, in little more time than one.

        >>> clones_2023(epsilon0=1.0, n=10_000).deltas(np.array([0.02, 0.04])).round(6)
        array([3.05e-04, 3.00e-06])
        """
        deltas, some = np.zeros(len(epsilons)), epsilons < self.epsilon0
        if some.any():
            bound = self._list_clones if self._few else self._sum_gains
            deltas[some] = np.clip(bound(epsilons[some]), SMALLEST_DELTA, 1.0)
        return deltas

    def delta_lower(self, epsilon: float) -> float:
        """Return a lower bound of the same divergence: `delta` minus it is the price of noise, cells and rounding."""
        if epsilon >= self.epsilon0:
            return 0.0
        cells = self._cells(epsilon)
        ends = np.append(cells.starts[1:] - 1, self.n - 1.0)
        inner = np.maximum.accumulate(self._bound_inner(ends, epsilon)[::-1])[::-1]
        return float(_sum_by_parts(inner, cells.below, -1))

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon, rounded up by at most a part in 10^6, with delta(epsilon) <= delta."""
        guess = _guess(self.epsilon0, self.n * self.rho, delta)
        return find_epsilon_at_once(self.deltas, delta, epsilon0=self.epsilon0, guess=guess)

    @property
    def _few(self) -> bool:
        """Whether all C that matter are in the table."""
        # Only sharpness rests on this: C beyond the table are given the larger D_C of its last row.
        mean = (self.n - 1) * self.rho
        return self.n <= _TABLE or mean + 12 * math.sqrt(mean) + 40 <= _TABLE

    def _list_clones(self, epsilons: Floats) -> Floats:
        """Return the sum over C.

        Any k gives at most D_C. If rounding moves k by one, a term (p - 1) (E + 1) / (p + 1) y / (C + 1 - k)
        is lost, y <= 16 units of (C + 1) share: at most 32 units of (p - E) / (p + 1). With what else is rounded
        these are less than 64, which are added.
        """
        table, below = _tabulate_coins(), _count_clones(self.n, self.rho)
        C = np.arange(len(below))
        first, share, growth = self._decide(epsilons[:, None])
        k = np.clip(np.ceil((C + 1) * share) - 1, 0, C // 2).astype(np.intp)
        inner = (
            first * (1 + 64 * UNIT) * table.mass[C, k]
            - growth * (1 - 16 * UNIT) * table.below[C, k]
        )
        inner = np.minimum.accumulate(np.maximum(inner, 0.0), axis=1)
        return _sum_by_parts(inner, below, 1)

    def _decide(self, epsilon: Floats) -> tuple[Floats, Floats, Floats]:
        """Return (p - E) / (p + 1), the share of C + 1 from which on the attacker says 1, and E - 1."""
        gain = -np.expm1(epsilon - self.epsilon0)  # (p - E) / p
        share = gain / (-math.expm1(-self.epsilon0) * (np.exp(epsilon) + 1))
        return gain / (1 + math.exp(-self.epsilon0)), share, np.expm1(epsilon)

    def _sum_gains(self, epsilons: Floats) -> Floats:
        """Return the sum over everybody's gain, each raised by more than it is rounded.

        In units: 2 / rho / (p + 1) is 11 off, expm1 8 and as many as its argument, which is one unit off, is large.
        """
        scale = 2 / self.rho / (1 + math.exp(-self.epsilon0))
        high = scale * -np.expm1(epsilons - self.epsilon0)
        low = scale * (np.exp(epsilons) * -np.expm1(-self.epsilon0 - epsilons))
        wide = (64 + 4 * self.epsilon0) * UNIT
        gains = np.stack([high * (1 + wide), -low * (1 - wide)], axis=1)
        return mean_positive_parts(np.full(2, self.rho / 2), gains, self.n)

    def _bound_inner(self, C: Floats, epsilon: float) -> Floats:
        """Bound D_C from below.

        It is pmf(k) times a bracket, cdf(k - 1) being pmf(k) times k / (C - k + 1) times a Mills ratio.
        """
        first, share, growth = (float(each) for each in self._decide(np.asarray(epsilon)))
        k = np.clip(np.ceil((C + 1) * share) - 1, 0, np.floor(C / 2))
        bracket = np.full(C.shape, first * (1 - 64 * UNIT))
        some = (k > 0) & (epsilon > 0)
        ratio = bound_mills(k[some] - 1, C[some], 0.5)[1]
        below = growth * (k[some] / (C[some] - k[some] + 1)) * ratio
        bracket[some] -= below * (1 + 16 * UNIT)
        value: Floats = bound_mass(k, C, 0.5)[0] * np.maximum(bracket, 0.0)
        return value

    def _cells(self, epsilon: float) -> "_Cells":
        # How many standard deviations of the coins the decision is away from the middle, in coarse
        # steps: a search then needs one or two sets of cells for all its epsilons, epsilon = 0 included.
        spread = math.tanh(epsilon / 2) / math.tanh(self.epsilon0 / 2)
        deviation = math.sqrt(max(self.n - 1, 1) * self.rho) * spread
        return _place_cells(self.n, self.rho, 4 * max(1, math.ceil(deviation / 4)))


def clones_2021(*, epsilon0: float, n: int) -> Clones:
    """Return the pair of Feldman, McMillan, Talwar 2021: every other user is a clone w.p. e^-epsilon0.

    >>> round(clones_2021(epsilon0=1.0, n=1_000).epsilon(1e-6), 4)
    0.1824
    """
    rho = math.exp(-positive("epsilon0", epsilon0))
    return Clones(epsilon0=epsilon0, n=n, rho=_round_down(rho))


def clones_2023(*, epsilon0: float, n: int) -> Clones:
    """Return the stronger pair: every other user is a clone with probability 2 / (e^epsilon0 + 1).

    >>> round(clones_2023(epsilon0=1.0, n=1_000).epsilon(1e-6), 4)
    0.1487
    """
    rho = 2 / (math.exp(positive("epsilon0", epsilon0)) + 1)
    return Clones(epsilon0=epsilon0, n=n, rho=_round_down(rho))


def _guess(epsilon0: float, clones: float, delta: float) -> float:
    # The decision rests on that many coins, biased by (p - 1)/(p + 1) times one coin.
    mu = 2 * math.tanh(epsilon0 / 2) / math.sqrt(max(clones, 1.0))
    # It says how far the share of ones is from 1/2, and that is tanh(epsilon / 2).
    return 2 * math.atanh(min(guess_epsilon(mu, delta) / 2, 0.999))


def _round_down(rho: float) -> float:
    # Fewer clones are less privacy: rounding rho down keeps an upper bound.
    return rho * (1 - 16 * UNIT)


def _sum_by_parts(inner: Floats, below: Floats, side: int) -> Floats:
    """Sum inner times the cell's mass over cells (the last axis), inner falling; rounded to its side."""
    # Every term is positive, so nothing cancels.
    total = ((inner[..., :-1] - inner[..., 1:]) * below[1:]).sum(axis=-1) + inner[..., -1]
    rounded: Floats = total * (1 + side * (inner.shape[-1] + 8) * UNIT)
    return rounded


class _Coins(NamedTuple):
    """Bin(C, 1/2) in row C: at least Pr[= k], and at most Pr[< k]."""

    mass: Floats
    below: Floats


@lru_cache(maxsize=1)
def _tabulate_coins() -> _Coins:
    """Tabulate by Pascal's rule: each row adds a unit to what masses are off, and each column one to their sums."""
    mass = np.zeros((_TABLE, _TABLE + 1))
    mass[0, 0] = 1.0
    for C in range(1, _TABLE):
        mass[C, 0] = mass[C - 1, 0] / 2
        mass[C, 1:] = (mass[C - 1, 1:] + mass[C - 1, :-1]) / 2
    below = np.zeros(mass.shape)
    below[:, 1:] = np.cumsum(mass, axis=1)[:, :-1]
    return _Coins(mass * (1 + 2 * _TABLE * UNIT), below * (1 - 4 * _TABLE * UNIT))


@lru_cache(maxsize=64)
def _count_clones(n: int, rho: float) -> Floats:
    """Bound Pr[C < c] from above, for c from 0 to the end of the table."""
    most = min(n, _TABLE)
    mass = bound_mass(np.arange(most - 1.0), n - 1, rho)[1] if most > 1 else np.zeros(0)
    sums = np.cumsum(mass) * (1 + 2 * _TABLE * UNIT)
    below: Floats = np.minimum(np.append(0.0, sums), 1.0)
    return below


class _Cells(NamedTuple):
    """Cells of C: their left ends, and at most Pr[C < left end]."""

    starts: Floats
    below: Floats


@lru_cache(maxsize=64)
def _place_cells(n: int, rho: float, deviation: int) -> _Cells:
    others = n - 1
    if others <= _EXACT:
        starts = np.arange(others + 1, dtype=np.float64)
    else:
        starts = _choose_starts(others, rho, deviation)
    return _Cells(starts, bound_at_most(starts - 1, np.full(starts.shape, others), rho)[0])


def _choose_starts(others: int, rho: float, deviation: int) -> Floats:
    mean = others * rho
    sd = math.sqrt(mean * (1 - rho))
    # D_C falls like exp(-deviation^2 C / (2 mean)) / sqrt(C): the product with the binomial peaks this
    # many standard deviations below the mean, and that is where the cells must be fine.
    shift = (deviation**2 + 1) / 2 * sd / max(mean, 1.0)
    low, high = mean - (9 + 2 * shift) * sd, mean + 9 * sd
    # A cell of w standard deviations raises delta by a factor of about 1 + w shift / 2.
    count = math.ceil(min(max(150 * shift * (18 + 2 * shift), 24), _EXACT))
    fine = np.linspace(max(low, 0.0), min(high, float(others)), count)
    coarse = np.linspace(0.0, max(low, 0.0), 16)
    return np.unique(np.floor(np.concatenate([coarse, fine])))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateClones:
    """The privacy curve of n shuffled messages from any (epsilon0, delta0)-local randomizer.

    >>> curve = ApproximateClones(epsilon0=1.0, delta0=1e-10, n=10_000)
    >>> round(curve.epsilon(1e-6), 4)  # 0.0432 with delta0 = 0
    0.0433
    """

    epsilon0: float
    delta0: float
    n: int

    def __post_init__(self) -> None:
        positive("epsilon0", self.epsilon0)
        below_one("delta0", self.delta0)
        whole("n", self.n, at_least=1)

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at epsilon from above."""
        if epsilon >= self.epsilon0:
            return self.delta0
        beyond = -math.expm1(epsilon - self.epsilon0)
        # Half as many people as long as that is better, or nothing is said yet: a bound of 1 may fall again.
        people, best = self.n, self._slope(self.n, epsilon)
        while people > 1:
            people //= 2
            fewer = self._slope(people, epsilon)
            if fewer >= best and beyond * best < 1:
                break
            best = min(best, fewer)
        return min(1.0, (self.delta0 + beyond * best) * _SLACK)

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at delta from above; no epsilon is enough if delta < delta0."""
        if delta < self.delta0:
            raise UnsupportedError(
                f"delta={delta!r} is below delta0={self.delta0!r}: with that probability a message alone may give everything away"
            )
        clones = self.n * (2 / (math.exp(self.epsilon0) + 1))
        guess = min(_guess(self.epsilon0, clones, delta), self.epsilon0)
        return find_epsilon(self.delta, delta, epsilon0=self.epsilon0, guess=guess)

    def _slope(self, people: int, epsilon: float) -> float:
        """Return the least h(s), s <= epsilon, of the theorem for these people."""
        here = self._h(people, epsilon)
        if not self.delta0 or self._h(people, epsilon * (1 - _NEAR)) >= here:
            return here  # it still falls: a pure curve does so all the way
        turn, least = _find_turn(self, people)
        return min(here, least) if turn <= epsilon else here

    def _h(self, people: int, start: float) -> float:
        rise = self._of(people, start) - self.delta0
        return rise / -math.expm1(start - self.epsilon0) * _SLACK

    def _of(self, people: int, epsilon: float) -> float:
        eta = 2 * self.delta0 * math.exp(-self.epsilon0) * _SLACK
        exponent = (people - 1) * math.log1p(2 * eta) * _SLACK
        if exponent > _LARGEST_EXPONENT:
            return math.inf
        # An exponent of 600 costs 600 units.
        growth = math.expm1(exponent) * (1 + 1024 * UNIT)
        rho = 2 / (math.exp(self.epsilon0) + 1) * (1 - self.delta0) / (1 + 2 * eta) / _SLACK
        clones = Clones(epsilon0=self.epsilon0, n=people, rho=rho)
        shuffled = (1 + growth) * clones.delta(epsilon) + math.expm1(epsilon) * growth / 2
        return (self.delta0 + (1 - self.delta0) * shuffled) * _SLACK


@lru_cache(maxsize=256)
def _find_turn(curve: ApproximateClones, people: int) -> tuple[float, float]:
    """Return the minimum of h and where it is, by golden-section search."""
    low, high = 0.0, curve.epsilon0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = curve._h(people, left), curve._h(people, right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = curve._h(people, left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = curve._h(people, right)
    return (left, at_left) if at_left <= at_right else (right, at_right)
