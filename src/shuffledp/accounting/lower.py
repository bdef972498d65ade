"""Lower bounds: how much privacy could still be won by a better analysis.

When all other users hold the same value, the law of their messages is known, and the identity of
blanket.py with w = that law (gamma = 1) is the exact divergence of this pair of data sets. Every
such data set is a lower bound for the protocol; 2-ary and 3-ary randomized response are lower
bounds for "any epsilon0-local randomizer".
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.accounting.base import SMALLEST_DELTA, guess_epsilon
from shuffledp.accounting.blanket import Blanket
from shuffledp.accounting.positive_part import mean_positive_part_lower
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.randomizer import Message, Randomizer
from shuffledp.numerics.enclosures import bound_at_most, bound_mass, bound_mills_above
from shuffledp.numerics.rounding import UNIT
from shuffledp.numerics.search import largest_above

__all__ = ["DataSets", "generic_data_sets", "randomizer_data_sets"]

_LONGEST_SUM = 8_000

_Coded = Mapping[tuple[Message, ...], int]
"""A law whose probabilities are places in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSets:
    """Pairs of data sets, each as the exact law (gamma = 1) seen by the target.

    >>> round(generic_data_sets(epsilon0=1.0, n=10_000).epsilon(1e-6), 4)
    0.038
    """

    blankets: tuple[Blanket, ...]
    n: int
    epsilon0: float

    def delta(self, epsilon: float) -> float:
        """At most the true delta at epsilon."""
        return max((_delta_lower(b, epsilon, self.n) for b in self.blankets), default=0.0)

    def epsilon(self, delta: float) -> float:
        """At most the true epsilon at delta: below it, delta(epsilon) exceeds `delta`."""
        if self.delta(0.0) <= delta:
            return 0.0
        variance = max(float(np.dot(b.mass, b.gains(0.0) ** 2)) for b in self.blankets)
        guess = guess_epsilon(math.sqrt(variance / self.n), delta)
        return largest_above(
            lambda epsilon: math.log(max(self.delta(epsilon), SMALLEST_DELTA) / delta),
            end=self.epsilon0,
            guess=guess,
        )


def _by_normal(masses: Floats, gains: Floats, n: int) -> float:
    """The lower bound by a normal law, or 0, where its numbers leave the floats."""
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            found = mean_positive_part_lower(masses, gains, n)
            return found if found > 0 else 0.0  # 0 also for what is not a number
    except ArithmeticError:
        return 0.0


def _delta_lower(blanket: Blanket, epsilon: float, n: int) -> float:
    masses, gains = np.array(blanket.mass), blanket.gains(epsilon) - blanket.rounding(epsilon)
    best, worst = int(gains.argmax()), int(gains.argmin())
    if gains[best] <= 0:
        return 0.0
    share = float(masses[best] + masses[worst])
    if n * share > (_LONGEST_SUM / 24) ** 2:
        return _by_normal(masses, gains, n)
    rest = np.delete(np.arange(len(masses)), (best, worst))
    # Merging the other atoms into their mean can only lower E(S)_+ (Jensen).
    mean = 0.0
    if len(rest):
        mean = float(masses[rest] @ gains[rest] / masses[rest].sum())
        mean -= (len(rest) + 64) * UNIT * float(np.abs(gains[rest]).max())
    # Masses are off by up to 24 units. What the others lose goes to the worst value: that, too, lowers it.
    share = min(share * (1 + 32 * UNIT), 1.0) if len(rest) else 1.0
    heads = float(masses[best]) / share * (1 - 64 * UNIT)
    return _sum_two_values(n, share, heads, float(gains[best]), float(gains[worst]), mean)


def _sum_two_values(
    n: int, share: float, heads: float, high: float, low: float, rest: float
) -> float:
    """At most (1/n) E[(high N + low (C - N) + rest (n - C))_+], C ~ Bin(n, share), N ~ Bin(C, heads)."""
    C, mass = np.array([float(n)]), np.ones(1)
    if share < 1:
        mean, sd = n * share, math.sqrt(n * share * (1 - share))
        first, last = math.floor(mean - 12 * sd) - 20, math.ceil(mean + 12 * sd) + 20
        C = np.arange(max(0, first), min(n, last) + 1.0)
        mass = bound_mass(C, np.full(C.shape, n), share)[0]  # what lies outside is dropped
    # high N + low (C - N) + rest (n - C) > 0 iff N > t, and t is rounded up.
    lost = np.abs(low) * C + np.abs(rest) * (n - C)
    t = (8 * UNIT * lost - low * C - rest * (n - C)) / (high - low) * (1 + 8 * UNIT)
    excess = _bound_excess(t, C, heads)
    return math.fsum(mass * excess) * (high - low) / n * (1 - 16 * UNIT)


def _bound_excess(t: Floats, C: Floats, heads: float) -> Floats:
    """At most E[(N - t)_+], N ~ Bin(C, heads).

    With m the next whole number above t it is m (1 - heads) Pr[N = m] + (C heads - t) Pr[N >= m]; with
    another m it is less. For negative t it is C heads - t.
    """
    m = np.floor(t) + 1
    inside = (m >= 1) & (m <= C)
    found = np.where(m < 1, (C * heads - t) * (1 - 4 * UNIT), 0.0)
    m, C, t = m[inside], C[inside], t[inside]
    mean = C * heads
    room = mean - t - 2 * UNIT * (mean + t)
    mass = bound_mass(m, C, heads)[0]
    # Pr[N >= m] / Pr[N = m], from below where it helps and from above where it hurts.
    above = m >= (C + 1) * heads
    ratio = np.empty(m.shape)
    ratio[above] = bound_mills_above(m[above], C[above], heads)[1]
    least, most = bound_at_most(m[~above] - 1, C[~above], heads)
    tail = np.where(room[~above] > 0, 1 - most - UNIT, 1 - least + UNIT)
    ratio[~above] = tail / mass[~above]
    bracket = m * (1 - heads) * (1 - 8 * UNIT) + room * ratio * (1 - np.sign(room) * 8 * UNIT)
    found[inside] = mass * np.maximum(bracket, 0.0) * (1 - 8 * UNIT)
    return found


def generic_data_sets(*, epsilon0: float, n: int) -> DataSets:
    """Lower bounds for an unknown epsilon0-local randomizer: 2-ary and 3-ary randomized response.

    >>> round(generic_data_sets(epsilon0=1.0, n=1_000).epsilon(1e-6), 4)
    0.1306
    """
    p = math.exp(epsilon0)
    q2, q3 = 1 / (p + 1), 1 / (p + 2)
    same = Blanket(mass=(q2, 1 - q2), first=(p, 1 / p), second=(1.0, 1.0))
    other = Blanket(mass=(q3, q3, p * q3), first=(p, 1.0, 1 / p), second=(1.0, p, 1 / p))
    return DataSets(blankets=(same, same.swap(), other), n=n, epsilon0=epsilon0)


def randomizer_data_sets(randomizer: Randomizer, n: int) -> DataSets:
    """Lower bounds for this randomizer: two targets, and all others equal.

    >>> from shuffledp import protocols
    >>> krr = protocols.krr.KRR(k=10, epsilon0=2.0)
    >>> round(randomizer_data_sets(krr, 1_000).epsilon(1e-6), 4)
    0.2723
    """
    size = randomizer.domain.size
    ends = sorted({0, 1, size - 1})
    codes: dict[Fraction, int] = {Fraction(0): 0}
    laws = {
        x: {y: codes.setdefault(mass, len(codes)) for y, mass in randomizer.pmf(x).items()}
        for x in sorted({*ends, *range(min(size, 4))})
    }
    values = tuple(codes)
    found = tuple(
        dict.fromkeys(
            blanket
            for x in ends
            for other in ends
            if x != other
            for blanket in _known_others(laws[x], laws[other], laws.values(), values)
        )
    )
    if not found:
        raise UnsupportedError("no data set of equal values gives a lower bound here")
    return DataSets(blankets=found, n=n, epsilon0=randomizer.epsilon0)


def _known_others(
    a: _Coded,
    b: _Coded,
    others: Iterable[_Coded],
    values: Sequence[Fraction],
) -> Iterator[Blanket]:
    for w in others:
        if any(not values[w.get(y, 0)] for y in (*a, *b)):
            continue  # an output that nobody else sends: not of this form
        # Laws have many outputs and few probabilities: divide once for each combination.
        kinds = Counter((a.get(y, 0), b.get(y, 0), code) for y, code in w.items() if values[code])
        atoms: dict[tuple[float, float], float] = {}
        for (first, second, code), times in kinds.items():
            mass = values[code]
            key = (float(values[first] / mass), float(values[second] / mass))
            atoms[key] = atoms.get(key, 0.0) + float(times * mass)
        yield Blanket(
            mass=tuple(atoms.values()),
            first=tuple(key[0] for key in atoms),
            second=tuple(key[1] for key in atoms),
        )
