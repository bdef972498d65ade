"""One message from a known randomizer: the privacy blanket, for any finite law and any n.

Suppose every law of the randomizer contains a common part: R_x(y) >= w_y for all x. Reveal every
message that did not come from it (this only helps the attacker). For a target with law a or b,

    H = (1/n) E[ (G_1 + ... + G_n)_+ ],   G = (a_y - E b_y) / w_y  with probability w_y, else 0,

is exactly the hockey-stick divergence of what is left, so it bounds that of the shuffled view.
Reference: Balle, Bell, Gascon, Nissim 2019, "The privacy blanket of the shuffle model"; the
evaluation in positive_part.py is ours. A `Blanket` lists the atoms (w, a/w, b/w) of one pair of inputs; it does not
depend on epsilon. Invariants: the sums of w (a/w) and of w (b/w) are 1 (less what lies where w = 0). Masses
may be off by 24 units of rounding, ratios by one: `bound_rounding` and positive_part.py pay for it.

**Lower bounds**: how much privacy could still be won by a better analysis. When all other users hold the same value,
the law of their messages is known, and H with w = that law (gamma = 1) is the exact divergence of this pair of data
sets. Every such data set is a lower bound for the protocol; 2-ary and 3-ary randomized response are lower bounds for
"any epsilon0-local randomizer".
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from shuffledp.accounting.base import (
    SMALLEST_DELTA,
    Batch,
    find_epsilon,
    find_epsilon_at_once,
    guess_epsilon,
)
from shuffledp.accounting.positive_part import mean_positive_part_lower, mean_positive_parts
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import Law, Message, Randomizer
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.masses import bound_at_most, bound_mass, bound_mills_above
from shuffledp.numerics.rounding import (
    UNIT,
    exp_lower,
    exp_upper,
    find_largest_above,
    float_above,
    float_below,
)

_NOTHING = Fraction(0)
_LEAST_MASS = Fraction(1, 10**300)
_NEARLY = 1e-6
_FAR_BEYOND = 1e305
_LONGEST_SUM = 8_000  # of a lower bound; beyond, by a normal law

_Atoms = Sequence[tuple[Fraction, float, float]]
_Bare = Sequence[tuple[Fraction, Fraction]]
_Coded = Mapping[tuple[Message, ...], int]
"""A law whose probabilities are places in a list."""


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
    flip: Fraction | None = None
    """The exact probability of a lie, if the randomizer rounds its input to a bit (perhaps at random) and flips it."""
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

    def swap(self) -> "Blanket":
        """Return the other direction: b against a."""
        return Blanket(
            mass=self.mass,
            first=self.second,
            second=self.first,
            bare=tuple((b, a) for a, b in self.bare),
        )

    def delta(self, epsilon: float, n: int) -> float:
        """Return an upper bound of the divergence of a against b, n users."""
        return float(self.deltas(np.array([epsilon]), n).item())

    def deltas(self, epsilons: Floats, n: int) -> Floats:
        """Return the same at each of these epsilons, in little more time than one.

        >>> generic_blanket(epsilon0=1.0).deltas(np.array([0.02, 0.04]), 10_000).round(6)
        array([3.05e-04, 3.00e-06])
        """
        gains = self.gains(epsilons) + self.bound_rounding(epsilons)
        deltas = mean_positive_parts(np.array(self.mass), gains, n)
        if self.bare:
            a, b = np.array(self.bare).T
            # 64 units pay for a and b, each 26 off, for the power and for the product.
            E = np.exp(epsilons)[:, None] * (1 - 64 * UNIT)
            uncovered = np.maximum(0.0, a - E * b).sum(axis=1)
            deltas = deltas + uncovered * (1 + (len(a) + 64) * UNIT)
        return np.minimum(deltas, 1.0)

    def gains(self, epsilon: Floats | float) -> Floats:
        """Return the values of G; a row of them for each of many epsilons."""
        first, second = np.array(self.first), np.array(self.second)
        gains: Floats = (first - second) - _grow(second, epsilon)
        return gains

    def bound_rounding(self, epsilon: Floats | float) -> Floats:
        """Bound the error of `gains` from above: they are small differences of rounded ratios.

        Each ratio is off by a unit of itself, and each difference by a unit of the result: less than five of the sum of
        all sizes. e^epsilon - 1 is off by eight units, and the product by one more.
        """
        first, second = np.array(self.first), np.array(self.second)
        rounding: Floats = UNIT * (9 * (first + second) + 20 * _grow(second, epsilon))
        return rounding


def _grow(second: Floats, epsilon: Floats | float) -> Floats:
    """Return (e^epsilon - 1) second, or less beyond 10^305: values of G then only grow, and are far below all others.

    As infinity it would meet its own rounding, and their difference is no number. Lower bounds stay far below
    (epsilon0 <= 200).
    """
    with np.errstate(over="ignore"):
        grown: Floats = np.minimum(np.expm1(epsilon), _FAR_BEYOND)[..., None] * second
    return np.minimum(grown, _FAR_BEYOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlanketProfile(Batch):
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
        """Return an upper bound at epsilon."""
        return float(self.deltas(np.array([epsilon])).item())

    def deltas(self, epsilons: Floats) -> Floats:
        """Return the same at each of these epsilons, in little more time than one."""
        deltas, some = np.zeros(len(epsilons)), epsilons < self.epsilon0
        if some.any():
            each = [blanket.deltas(epsilons[some], self.n) for blanket in self.blankets]
            deltas[some] = np.max(each, axis=0)
        return deltas

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon, rounded up by at most a part in 10^6, with delta(epsilon) <= delta."""
        guess = _guess(self.blankets, self.n, delta)
        return find_epsilon_at_once(self.deltas, delta, epsilon0=self.epsilon0, guess=guess)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingBlanket:
    """The worst of many blankets with the same masses, of which the first is the worst or nearly so.

    Write pi(t) = E[(G - t)_+]. If pi of another blanket is nowhere above that of the first by more than eta, its
    divergence is at most that of the first plus eta: E[(G + R)_+] = E[pi(-R)] for any R that is independent of G, so
    exchanging n summands one by one adds at most n eta to E[(G_1 + ... + G_n)_+]. The first is evaluated in full, and
    so are those that are above it by more than a part in 10^6; the others cost a comparison.

    >>> lead = generic_blanket(epsilon0=1.0)
    >>> same = LeadingBlanket(blankets=(lead, lead.swap()), n=10_000, epsilon0=1.0)
    >>> round(same.epsilon(1e-6), 4)
    0.0432
    """

    blankets: tuple[Blanket, ...]
    n: int
    epsilon0: float

    def __post_init__(self) -> None:
        if not self.fits(self.blankets):
            raise ParameterError(
                "blankets", len(self.blankets), "must be several of the same masses"
            )

    @staticmethod
    def fits(blankets: tuple[Blanket, ...]) -> bool:
        """Return whether these are several blankets that cover everything with the same masses."""
        return len(blankets) > 1 and all(
            each.mass == blankets[0].mass and not each.bare for each in blankets
        )

    def delta(self, epsilon: float) -> float:
        """Return an upper bound at epsilon."""
        if epsilon >= self.epsilon0:
            return 0.0
        lead = self.blankets[0]
        delta = lead.delta(epsilon, self.n)
        for other in self.blankets[1:]:
            if _exceed(other, lead, epsilon) > _NEARLY * delta:
                delta = max(delta, other.delta(epsilon, self.n))
        return min(1.0, delta * (1 + _NEARLY) + _round_excess(lead, epsilon))

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon, rounded up by at most a part in 10^6, with delta(epsilon) <= delta."""
        guess = _guess(self.blankets[:1], self.n, delta)
        return find_epsilon(self.delta, delta, epsilon0=self.epsilon0, guess=guess)


def _guess(blankets: tuple[Blanket, ...], n: int, delta: float) -> float:
    """Estimate the epsilon at delta, by the variance of G."""
    with np.errstate(over="ignore"):
        variance = max(float(np.dot(b.mass, b.gains(0.0) ** 2)) for b in blankets)
    return guess_epsilon(math.sqrt(variance / n), delta)


def _exceed(other: Blanket, lead: Blanket, epsilon: float) -> float:
    """Return by how much E[(G - t)_+] of the other is above that of the lead at the worst t, up to rounding.

    For t < 0 the negative parts E[(t - G)_+] are compared: they differ from it by t and the mean, which is 1 -
    e^epsilon for both. So nothing that is compared is larger than 1 + e^epsilon.
    """
    first, second, mass = lead.gains(epsilon), other.gains(epsilon), np.array(lead.mass)
    return max(_compare_tails(mass, first, second), _compare_tails(mass, -first, -second))


def _compare_tails(mass: Floats, first: Floats, second: Floats) -> float:
    """Return the largest E[(second - t)_+] - E[(first - t)_+], t >= 0.

    It is linear in between, so some value is the worst t.
    """
    places = np.concatenate([[0.0], first[first > 0], second[second > 0]])[:, None]
    above = np.maximum(second - places, 0.0) - np.maximum(first - places, 0.0)
    return float((mass * above).sum(axis=1).max())


def _round_excess(lead: Blanket, epsilon: float) -> float:
    """Bound the rounding of `_exceed` from above.

    16 units of each gain, 24 of each mass, and those of two sums by pairs.
    """
    return 2 * (128 + 2 * len(lead.mass).bit_length()) * UNIT * (1 + math.exp(epsilon))


def generic_blanket(*, epsilon0: float, total_variation: float | None = None) -> Blanket:
    """Return a blanket that dominates every epsilon0-local randomizer.

    With p = e^epsilon0 and total variation alpha (p - 1) between the target's two laws, G is p - E or
    1 - p E with probability alpha each, and p (1 - E) with probability (1 - alpha (p + 1)) / p. Without
    a bound on the total variation alpha is 1/(p + 1): the pair of stronger clones.
    The proof is in docs/theory/clones.md.

    >>> generic_blanket(epsilon0=1.0, total_variation=0.1).gamma < generic_blanket(epsilon0=1.0).gamma
    True
    """
    p = float(exp_upper(positive("epsilon0", epsilon0)))
    largest = math.tanh(epsilon0 / 2)
    tv = largest if total_variation is None else positive("total_variation", total_variation)
    if tv > largest * (1 + 1e-12):
        raise ParameterError(
            "total_variation", tv, f"must be <= tanh(epsilon0 / 2) = {largest:.6g}"
        )
    alpha = Fraction(min(tv, largest)) / (exp_lower(epsilon0) - 1)
    # What is left for the third atom, p times its mass. Its value is negative, so less of it is more of an upper bound.
    left = 1 - float(alpha) * (p + 1) * (1 + 8 * UNIT)
    # If what is left is nothing but rounding, the pair of stronger clones bounds all, and has no third atom.
    if left < 1e-12:
        alpha, left = Fraction(1 / (p + 1)), 0.0
    rest = left / p * (1 - 8 * UNIT)
    return _gather([(alpha, p, 1.0), (alpha, 1.0, p), (Fraction(rest), p, p)])


def _gather(atoms: _Atoms, bare: _Bare = ()) -> Blanket:
    """Return the blanket of these atoms, (w, a/w, b/w), and of what it does not cover, (a, b).

    Masses that floats hold without their digits, or as 0, are not covered: what hides behind them is revealed.
    """
    kept, left = [], list(bare)
    for w, first, second in atoms:
        if 0 < w < _LEAST_MASS:
            left.append((w * Fraction(first), w * Fraction(second)))
        else:
            kept.append((float(w), first, second))
    return Blanket(
        mass=tuple(w for w, _, _ in kept),
        first=tuple(first for _, first, _ in kept),
        second=tuple(second for _, _, second in kept),
        bare=tuple(
            (float_above(max(a, _LEAST_MASS)) if a else 0.0, float_below(b)) for a, b in left
        ),
    )


def two_level_blanket(
    *, ratio: Fraction, one: Fraction, both: Fraction = _NOTHING, neither: Fraction = _NOTHING
) -> Blanket:
    """Return the blanket of a randomizer whose law has two levels, low and ratio * low.

    `one` is the low-level mass of the outputs that are likely for the first input only (and, by
    symmetry, for the second only), `both` of those likely for both, `neither` of the rest. With
    everything else equal, fewer outputs in common are a mean-preserving spread of G, so the pair of
    inputs with the smallest overlap is the worst one.

    >>> low = Fraction(1, 5)
    >>> two_level_blanket(ratio=Fraction(3), one=low, neither=low).gamma
    0.6000000000000001
    """
    high = float(ratio)
    return _gather([(one, high, 1.0), (one, 1.0, high), (both, high, high), (neither, 1.0, 1.0)])


def bit_blanket(flip: Fraction) -> Blanket:
    """Return the blanket of a randomizer that rounds its input to a bit, perhaps at random, and flips it.

    >>> bit_blanket(Fraction(1, 4)).gamma
    0.5
    """
    return replace(two_level_blanket(ratio=(1 - flip) / flip, one=flip), flip=flip)


def mix(first: Blanket, second: Blanket, share: Fraction) -> Blanket:
    """Return the blanket of a randomizer that runs one of two others, by a coin that everybody may see.

    >>> half = mix(generic_blanket(epsilon0=1.0), generic_blanket(epsilon0=2.0), Fraction(1, 2))
    >>> len(half.mass)
    6
    """
    one, other = _weigh(first, share), _weigh(second, 1 - share)
    return _gather(one[0] + other[0], one[1] + other[1])


def _weigh(
    blanket: Blanket, share: Fraction
) -> tuple[list[tuple[Fraction, float, float]], list[tuple[Fraction, Fraction]]]:
    """Return the atoms with a share of their masses, and what is not covered."""
    atoms = zip(blanket.mass, blanket.first, blanket.second, strict=True)
    return (
        [(share * Fraction(w), first, second) for w, first, second in atoms],
        [(share * Fraction(a), share * Fraction(b)) for a, b in blanket.bare],
    )


def thin(blanket: Blanket, share: float) -> Blanket:
    """Return the blanket of a randomizer that is run with probability `share` and sends an empty message otherwise.

    >>> round(thin(generic_blanket(epsilon0=1.0), 0.1).gamma, 4)
    0.9538
    """
    # Empty messages are one more atom, the same for both laws; less of it is on the safe side.
    part = Fraction(share)
    atoms, bare = _weigh(blanket, part)
    silent = float(1 - part) * (1 - 2 * UNIT)
    return _gather([*atoms, (Fraction(silent), 1.0, 1.0)], bare)


class Blanketed(Randomizer, Protocol):
    """A randomizer that knows its own blankets; one whose law is short may state `law_blankets(self)`."""

    def blankets(self) -> tuple[Blanket, ...]:
        """Return a blanket for each kind of ordered pair of inputs."""


def law_blankets(randomizer: Randomizer) -> tuple[Blanket, ...]:
    """Return the blankets of every ordered pair of inputs, from the declared law.

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
    bare: list[tuple[Fraction, Fraction]] = []
    zero = Fraction(0)
    for y, w in common.items():
        one, other = a.get(y, zero), b.get(y, zero)
        if w:
            key = (one / w, other / w)
            atoms[key] = atoms.get(key, zero) + w
        elif one or other:
            bare.append((one, other))
    listed = [(w, float(first), float(second)) for (first, second), w in sorted(atoms.items())]
    return _gather(listed, sorted(bare))


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
        """Bound the true delta at epsilon from below."""
        return max((_delta_lower(b, epsilon, self.n) for b in self.blankets), default=0.0)

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at delta from below: below it, delta(epsilon) exceeds `delta`."""
        if self.delta(0.0) <= delta:
            return 0.0
        return find_largest_above(
            lambda epsilon: math.log(max(self.delta(epsilon), SMALLEST_DELTA) / delta),
            end=self.epsilon0,
            guess=_guess(self.blankets, self.n, delta),
        )


def _bound_by_normal(masses: Floats, gains: Floats, n: int) -> float:
    """Return the lower bound by a normal law, or 0, where its numbers leave the floats."""
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            bound = mean_positive_part_lower(masses, gains, n)
            return bound if bound > 0 else 0.0  # 0 also for what is not a number
    except ArithmeticError:
        return 0.0


def _delta_lower(blanket: Blanket, epsilon: float, n: int) -> float:
    masses, gains = np.array(blanket.mass), blanket.gains(epsilon) - blanket.bound_rounding(epsilon)
    best, worst = int(gains.argmax()), int(gains.argmin())
    if gains[best] <= 0:
        return 0.0
    share = float(masses[best] + masses[worst])
    if n * share > (_LONGEST_SUM / 24) ** 2:
        return _bound_by_normal(masses, gains, n)
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
    """Bound (1/n) E[(high N + low (C - N) + rest (n - C))_+] from below, C ~ Bin(n, share), N ~ Bin(C, heads)."""
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
    """Bound E[(N - t)_+] from below, N ~ Bin(C, heads).

    With m the next whole number above t it is m (1 - heads) Pr[N = m] + (C heads - t) Pr[N >= m]; with
    another m it is less. For negative t it is C heads - t.
    """
    m = np.floor(t) + 1
    inside = (m >= 1) & (m <= C)
    bounds = np.where(m < 1, (C * heads - t) * (1 - 4 * UNIT), 0.0)
    m, C, t = m[inside], C[inside], t[inside]
    mean = C * heads
    room = mean - t - 2 * UNIT * (mean + t)
    mass = bound_mass(m, C, heads)[0]
    # Pr[N >= m], from below where it helps and from above where it hurts. Far below the mean the mass may be 0.
    above, helps = m >= (C + 1) * heads, room > 0
    beyond = np.empty(m.shape)
    low, high = bound_mills_above(m[above], C[above], heads)
    beyond[above] = mass[above] * np.where(helps[above], low, high)
    least, most = bound_at_most(m[~above] - 1, C[~above], heads)
    beyond[~above] = np.where(helps[~above], 1 - most - UNIT, 1 - least + UNIT)
    excess = m * (1 - heads) * mass * (1 - 8 * UNIT)
    excess += room * beyond * (1 - np.sign(room) * 8 * UNIT)
    bounds[inside] = np.maximum(excess, 0.0) * (1 - 8 * UNIT)
    return bounds


def generic_data_sets(*, epsilon0: float, n: int) -> DataSets:
    """Return lower bounds for an unknown epsilon0-local randomizer: 2-ary and 3-ary randomized response.

    >>> round(generic_data_sets(epsilon0=1.0, n=1_000).epsilon(1e-6), 4)
    0.1306
    """
    p = math.exp(epsilon0)
    q2, q3 = 1 / (p + 1), 1 / (p + 2)
    same = Blanket(mass=(q2, 1 - q2), first=(p, 1 / p), second=(1.0, 1.0))
    other = Blanket(mass=(q3, q3, p * q3), first=(p, 1.0, 1 / p), second=(1.0, p, 1 / p))
    return DataSets(blankets=(same, same.swap(), other), n=n, epsilon0=epsilon0)


def randomizer_data_sets(randomizer: Randomizer, n: int) -> DataSets:
    """Return lower bounds for this randomizer: two targets, and all others equal.

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
    blankets = tuple(
        dict.fromkeys(
            blanket
            for x in ends
            for other in ends
            if x != other
            for blanket in _known_others(laws[x], laws[other], laws.values(), values)
        )
    )
    if not blankets:
        raise UnsupportedError("no data set of equal values gives a lower bound here")
    return DataSets(blankets=blankets, n=n, epsilon0=randomizer.epsilon0)


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
