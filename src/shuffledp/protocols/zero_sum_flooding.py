r"""Sums of integers or reals with nearly central accuracy, in (for enormous n) nearly one message.

A user sends the value x itself, 0 .. levels (nothing for 0), Z+ messages "+1" and Z- messages "-1", shares
NB(1/m, e^(-epsilon_star/levels)) of geometric noise, and a share of a flood of *multisets that add up to zero*:
{1, -1} and {i, -floor(i/2), -ceil(i/2)}. The analyzer adds all messages: the flood cancels, and with n = m users
the error is discrete Laplace(epsilon_star / levels), epsilon_star = (1 - gap) epsilon. The flood makes every value
look like a sum of ones, so that this noise is enough.

**Privacy.** Messages are integers i != 0, |i| <= levels. With s_1 = {1, -1} and s_i = {i, -floor(i/2), -ceil(i/2)} the
counts of messages obey e_i = [s_i] - e_(-floor(i/2)) - e_(-ceil(i/2)) and e_(-1) = [s_1] - e_1, so that

    e_x - e_x' = sum_s (c_s(x) - c_s(x')) [s] + (x - x') e_1,     and -e_1 = e_(-1) - [s_1].

So a person's other value does what a fixed shift of the *numbers of noise multisets* does: it raises the
number Z+ of single "+1" (or Z- of "-1") by |x - x'|, which costs epsilon_star for Geom(e^(-epsilon_star/levels)),
and moves the number N_s of each multiset by c_s. The numbers are independent, so (epsilon, delta) add up:

    epsilon_star + sum_s a_s |c_s|  and  sum_s delta_s,   delta_s >= the divergence of N_s, N_s + c_s at a_s |c_s|.

**delta_s.** N_s is the sum of K geometric numbers (1, 2, ... with Pr ~ p^k), K ~ Poisson(level). Given K >= 1,
N_s - K ~ NB(K, p). Against a shift upwards the ratio is at most p^-c <= e^(a c), if p >= e^-a. Downwards

    Pr[N = n] / Pr[N = n - c] = product of p (K - 1 + m) / m over m = n - c + 1 .. n

exceeds e^(a c) only if its largest factor, m = n - c + 1, exceeds e^a, i.e. n <= c - 1 + p (K - 1) / (e^a - p).
So delta_s <= Pr[K = 0] + sum_K Pr[K] Pr[NB(K, p) <= that], and Chernoff's bound of the last is evaluated.

For an epsilon below epsilon_star + sum_s a_s |c_s| the claim is that of anything with this epsilon and delta: delta plus
what randomized response with that epsilon would have.

**Cost.** The flood of all users together does not depend on n, but is about levels log^2(levels) / (gap epsilon) times
some hundred: for 1000 levels, gap 0.1 and epsilon = 1 that is 1800 messages per user at n = 10^6 and 3 at
10^9. Below n = 10^8 or so `split_and_mix` is better in every respect; above, this one sends fewer bits.

Reference: Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021, "Differentially private aggregation in the shuffle
model: almost central accuracy in almost a single message".

Deviations: the number of each multiset is not negative binomial but a Poisson number of geometric numbers. It is as
divisible, and its parts are drawn exactly from a few words, while a share of a negative binomial with p so near 1 would
take a table of millions of entries. Its privacy is proved and evaluated numerically (basic composition over the
multisets); this flood and its bound are ours, so the published constants are not used; the flood is smaller than
theirs. Multisets that no value >= 0 needs are left out.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from shuffledp.accounting.base import find_level
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.core.analyzer import Estimate, Tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.domain import Integers, Reals
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.protocol import LATE, Cost, Crowd, NoiseAccountant, Parts, Promise, pure_delta
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics import tape
from shuffledp.numerics.intervals import SharedNoiseError
from shuffledp.numerics.rounding import exp_lower
from shuffledp.numerics.tabulated import NOTHING, Events, Tabulated, VectorLaw, poisson, repeat_law
from shuffledp.numerics.tape import TwoWordGeometric
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.sums import (
    add_codes,
    answer,
    bound_bias,
    count_rounded,
    reach,
    read_scale,
    step,
    unit,
)

STEEPNESS = 0.5
"""p = e^(-STEEPNESS a): at 1 it takes more multisets, at 0 they are larger."""

_SMALL_TAPE = 20
_LARGEST_EPSILON = 12.0  # more is not used: the tables are not exact enough for it
_MOST_LEVELS = 2048
_STEEPEST = 2.0  # a larger rate would make all multisets single ones, which hide no shift
_SLACK = 1 + 1e-6
"""More than the roundings of sums of positive numbers here. The worst are those of a cumulated sum of up to 11,260
logarithms that add up to 94,000: at most 11,260 * 94,000 units of 2^-53, or 1.2e-7."""
_LARGEST_LEVEL = 1e4
_MOST_WORK = 2e8
_PIECE = 64  # numbers of events looked at in one go


def _parts(i: int) -> tuple[int, ...]:
    """Return the elements of s_i."""
    return (i, -i) if i == 1 else (i, -(i // 2), -(i - i // 2))


@lru_cache(maxsize=1 << 14)
def _coefficients(i: int) -> tuple[tuple[int, int], ...]:
    if i == 1:
        return ()
    if i == -1:
        return ((1, 1),)
    total = Counter({i: 1})
    for part in _parts(i)[1:]:
        for s, c in _coefficients(part):
            total[s] -= c
    return tuple(total.items())


def coefficients(x: int) -> dict[int, int]:
    """Return c_s(x) for each i of a multiset s_i: the counts of message x are their sum, and x times "+1".

    >>> coefficients(3)  # {3, -1, -2} - {-2, 1, 1} - {1, -1} + {1, 1, 1} = {3}
    {3: 1, 1: -1, -2: -1}
    """
    return dict(_coefficients(x)) if x else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One multiset of the flood, and how far a person moves its number."""

    parts: tuple[int, ...]
    shift: int
    rate: float
    """a: what a shift by one may cost."""


@lru_cache(maxsize=64)
def cells(levels: int, budget: float) -> tuple[Cell, ...]:
    """Return all multisets that values 0 .. levels need; all shifts together cost at most `budget`.

    s_1 comes twice: half of the budget is for moving |x - x'| from "+1" to "-1".

    >>> [(cell.parts, cell.shift) for cell in cells(3, 0.1)]
    [((1, -1), 3), ((1, -1), 2), ((-2, 1, 1), 1), ((2, -1, -1), 1), ((3, -1, -2), 1)]
    """
    whole("levels", levels, at_least=1, at_most=_MOST_LEVELS)
    half = positive("budget", budget) / 2 * (1 - 1e-12)  # rounded rates add up to no more than it
    shifts, heaviest = _moves(levels)
    spare = Cell(parts=_parts(1), shift=levels, rate=min(half / levels, _STEEPEST))
    return (
        spare,
        *(
            Cell(parts=_parts(i), shift=shift, rate=min(half * abs(i) / heaviest, _STEEPEST))
            for i, shift in shifts
        ),
    )


@lru_cache(maxsize=64)
def _moves(levels: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return how far two values move the number of each s_i, and a bound of sum_i |i (c_i(x) - c_i(x'))|."""
    low: Counter[int] = Counter()
    high: Counter[int] = Counter()
    weights = []
    for x in range(levels + 1):
        terms = coefficients(x)
        weights.append(sum(abs(c * i) for i, c in terms.items()))
        for i, c in terms.items():
            low[i], high[i] = min(low[i], c), max(high[i], c)
    moved = sorted((i for i in high if high[i] > low[i]), key=lambda i: (abs(i), i))
    # |c(x) - c(x')| <= |c(x)| + |c(x')|, weighted by |i|: the two largest values of that.
    heaviest = sum(sorted(weights)[-2:])
    return tuple((i, high[i] - low[i]) for i in moved), heaviest


@dataclass(frozen=True, slots=True, kw_only=True)
class Flooding:
    """The flood of `levels` with this budget, as a function of the mean number of events in a cell.

    >>> flood = Flooding(levels=10, budget=0.1)
    >>> level = flood.level(1e-6)
    >>> round(level, 2), flood.delta(level) <= 1e-6
    (45.17, True)
    """

    levels: int
    budget: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        return cells(self.levels, self.budget)

    def delta(self, level: float) -> float:
        """Bound the sum of all delta_s from above, if every K is Poisson(level)."""
        if level > _LARGEST_LEVEL:
            raise UnsupportedError(f"level={level!r} is too large for this routine")
        top = math.ceil(level + 12 * math.sqrt(level)) + 60
        K = np.arange(1, top, dtype=np.float64)
        log_mass = K * math.log(level) - level - np.cumsum(np.log(K))
        mass = np.exp(log_mass)
        beyond = float(mass[-1]) * level / (top - level)
        given = float(_all_tails(self, -(-top // _PIECE))[: len(K)] @ mass)
        missing = len(self.cells) * (math.exp(-level) + beyond)
        return min(1.0, (given + missing) * _SLACK + 1e-300)

    def level(self, delta: float) -> float:
        """Find nearly the smallest level with this delta; never too small."""
        return _level(self, fraction_of_one("delta", delta))


@lru_cache(maxsize=64)
def _all_tails(flood: Flooding, pieces: int) -> Floats:
    """Return the sum of the `_lower_tails` of all cells, for K = 1, 2, ...: it is the same at every level."""
    K = np.arange(1, pieces * _PIECE + 1, dtype=np.float64)
    rate = np.array([[cell.rate] for cell in flood.cells])
    shift = np.array([[float(cell.shift)] for cell in flood.cells])
    total: Floats = np.concatenate(
        [_lower_tails(part, rate, shift).sum(axis=0) for part in np.split(K, pieces)]
    )
    return total


@lru_cache(maxsize=256)
def _level(flood: Flooding, delta: float) -> float:
    return find_level(
        flood.delta,
        delta,
        guess=2.77 * math.log(len(flood.cells) / delta) + 0.1,
        largest=_LARGEST_LEVEL,
        tolerance=1e-4,
        refusal=f"delta={delta!r} is out of reach of this flood",
    )


def _lower_tails(K: Floats, rate: Floats, shift: Floats) -> Floats:
    """Bound Pr[NB(K, p) <= shift - 1 + p (K - 1) / (e^rate - p)] from above, by Chernoff.

    With z = t / (p (K + t)): E[z^N] z^-t = ((1 - p) (K + t) / K)^K z^-t, for t below the mean.
    """
    own = STEEPNESS * rate
    p = np.exp(-own)
    factor = p / (np.expm1(rate) - np.expm1(-own))
    t = np.floor(factor * (K - 1) * _SLACK) + shift - 1
    z = t / (p * (K + t))
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(t > 0, t * np.log(z), 0.0)
        log_bound = K * (np.log(-np.expm1(-own)) + np.log1p(t / K)) - rest
        # z has three roundings, and its logarithm counts t times: 3 t units of 2^-53. All other logarithms are
        # below 20 and count K times, and -t ln z is at most K: with 4 units each, 200 K units.
        bound = np.exp(np.minimum(log_bound + 2e-15 * t + 1e-13 * K, 0.0))
    tails: Floats = np.where(z < 1, bound, 1.0)
    return tails


def thinned_delta(*, levels: int, epsilon_star: float, share: float) -> float:
    """Bound from above the divergence of Z + k against Z at epsilon_star, 1 <= k <= levels, Z ~ NB(share, p).

    Here p = e^(-epsilon_star/levels). Nothing for share >= 1; 1 if it takes too long to compute.

    >>> thinned_delta(levels=10, epsilon_star=0.9, share=1.0)
    0.0
    >>> f"{thinned_delta(levels=10, epsilon_star=0.9, share=0.5):.3f}"
    '0.545'
    """
    if share >= 1:
        return 0.0
    rate = epsilon_star / levels
    length = levels + math.ceil(40 / rate)
    if float(levels) * length > _MOST_WORK:
        return 1.0
    j = np.arange(1, length, dtype=np.float64)
    start = math.exp(share * math.log(-math.expm1(-rate)))
    q = start * np.cumprod(np.append(1.0, math.exp(-rate) * (share + j - 1) / j))
    # Ratios rise to p; each mass is a product of at most `length` factors with four roundings each.
    error = 8 * length * 2.0**-53
    tail = float(q[-1]) / math.expm1(rate) + float(q[-levels - 1 :].sum())
    factor = math.exp(epsilon_star) * (1 - error)
    worst = max(
        float(np.maximum(q[:-k] * (1 + error) - factor * q[k:], 0.0).sum())
        for k in range(1, levels + 1)
    )
    return min(1.0, (worst + tail) * _SLACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultisetFlood:
    """A Poisson number of events; each is a uniform multiset, sent a geometric number of times.

    So the number of each multiset is a Poisson number of geometric numbers, independently. An event
    that is rejected (the number of multisets need not be a power of two) sends nothing: that thins a Poisson
    number, whose mean is made larger in exchange.

    >>> flood = MultisetFlood.of(
    ...     Flooding(levels=10, budget=0.1), share=Fraction(50, 10**6), bits=64, most=None
    ... )
    >>> len(flood.cells), round(float(flood.share) * 10**6, 6)
    (15, 50.0)
    """

    flooding: Flooding
    number: Tabulated
    """How many events a user makes."""

    @classmethod
    def of(
        cls, flooding: Flooding, *, share: Fraction, bits: int, most: int | None
    ) -> "MultisetFlood":
        """Make the flood with `share` events of each multiset on average, and at most `most` events in all."""
        rate = share / tape.uniform_share(len(flooding.cells), bits)
        number = poisson(rate, bits) if most is None else poisson(rate, bits, most)
        return cls(flooding=flooding, number=number)

    @property
    def cells(self) -> tuple[tuple[int, ...], ...]:
        """The multisets, s_1 twice."""
        return tuple(cell.parts for cell in self.flooding.cells)

    @property
    def sizes(self) -> tuple[TwoWordGeometric, ...]:
        """The law of an event's size, for each multiset."""
        return tuple(
            TwoWordGeometric(rate=STEEPNESS * cell.rate, bits=self.number.bits)
            for cell in self.flooding.cells
        )

    @property
    def words(self) -> int:
        """How many words a user takes: the number of events, then multiset and size of each."""
        return self.number.words + 3 * self.number.largest

    @property
    def landing(self) -> Fraction:
        """The probability that an event is of a given multiset."""
        return tape.uniform_share(len(self.flooding.cells), self.number.bits)

    @property
    def share(self) -> Fraction:
        """One user's mean number of events of a given multiset."""
        return self.number.size * self.landing

    @property
    def mean(self) -> float:
        """The expected number of messages of one user."""
        each = (
            len(parts) / -math.expm1(-size.rate)
            for parts, size in zip(self.cells, self.sizes, strict=True)
        )
        return float(self.share) * sum(each)

    @property
    def most(self) -> int:
        """The largest number of messages of one user."""
        longest = max(
            len(parts) * size.largest for parts, size in zip(self.cells, self.sizes, strict=True)
        )
        return self.number.largest * longest

    def distance(self, users: int) -> float:
        """Bound from above the distance of what all users draw from the ideal law."""
        sizes = users * float(self.share) * sum(size.distance for size in self.sizes)
        return (users * self.number.distance + sizes) * (1 + 1e-12)

    def draw(self, words: Words) -> tuple[Codes, Codes]:
        """Return (user, message)."""
        start, count, bits = self.number.words, len(self.cells), self.number.bits
        who, number = self.number.draw(words[:, :start])
        user = np.repeat(who, number)
        rank = np.arange(len(user)) - np.repeat(np.cumsum(number) - number, number)
        column = start + 3 * rank
        drawn = tape.uniform(words[user, column], count, bits)
        lands = np.flatnonzero(drawn < drawn.dtype.type(count))
        user, column, cell = user[lands], column[lands], drawn[lands].astype(np.int64)
        size = self._sizes(cell, words[user[:, None], column[:, None] + np.array([[1, 2]])])
        # s_1 has two elements only: what is missing is 0, and not sent.
        parts = np.array([(*parts, 0)[:3] for parts in self.cells], dtype=np.int64)
        messages = np.repeat(parts[cell], size, axis=0).reshape(-1)
        sent = messages != 0
        return np.repeat(np.repeat(user, size), 3)[sent], messages[sent]

    def _sizes(self, cell: Codes, words: Words) -> Codes:
        size = np.zeros(len(cell), dtype=np.int64)
        laws = self.sizes
        for c in np.unique(cell).tolist():
            here = np.flatnonzero(cell == c)
            size[here] = laws[c].draw(words[here])
        return size

    def law(self) -> VectorLaw:
        """Return the exact law of the sorted messages, for words of a few bits."""
        one: VectorLaw = {(): 1 - len(self.cells) * self.landing}
        for parts, sizes in zip(self.cells, self.sizes, strict=True):
            for size, mass in sizes.law().items():
                drawn = tuple(sorted(parts * size))
                one[drawn] = one.get(drawn, NOTHING) + mass * self.landing
        return repeat_law(self.number.law(), (), one, _join)


def _join(some: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(some + others))


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroSumFlooding:
    """The value, shares of both noises, and a share of the flood; messages are integers, not 0.

    >>> device = ZeroSumFlooding(
    ...     domain=Integers(lower=0, upper=10), star=0.9, budget=0.1, level=50.0, sharers=10**6
    ... )
    >>> device.words_per_input, device.distance(10**6) < 1e-12
    (30, True)
    """

    domain: Integers | Reals
    star: float
    budget: float
    """What of epsilon the flood may use."""
    level: float
    """The mean number of events of each multiset, of all sharers together."""
    sharers: int
    most_events: int | None = None
    """The largest value of the two numbers of events; None: where what lies beyond is less likely than one word."""
    word_bits: int = 64
    noise: Events = field(init=False, repr=False)
    flood: MultisetFlood = field(init=False, repr=False)
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "the value as a shift of the numbers of noise multisets, Ghazi, Kumar, Manurangsi, "
        "Pagh, Sinha 2021; divergences bounded numerically and composed"
    )

    def __post_init__(self) -> None:
        m = whole("sharers", self.sharers, at_least=1)
        flooding = Flooding(levels=reach(self.domain), budget=self.budget)
        needed = len(flooding.cells).bit_length()
        bits = whole("word_bits", self.word_bits, at_least=needed, at_most=64)
        most = self.most_events
        if most is not None:
            whole("most_events", most, at_least=1)
        # Rounded up: more noise.
        p = math.exp(-positive("star", self.star) / reach(self.domain)) * (1 + 4 * 2.0**-53)
        noise = Events.of(cells=2, share=Fraction(1, m), p=p, bits=bits, most=most)
        share = Fraction(positive("level", self.level)) / m
        flood = MultisetFlood.of(flooding, share=share, bits=bits, most=most)
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "flood", flood)

    @property
    def words_per_input(self) -> int:
        return self.noise.words + self.flood.words

    def distance(self, users: int) -> float:
        """Bound from above the distance of all users' noise from the ideal law."""
        return self.noise.distance(users, 2) + self.flood.distance(users)

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound delta by composition over the multisets, or by the law itself if the tape is short and that is less."""
        spent = (self.star + self.budget) * (1 + 2.0**-50)  # rounded up
        bound = min(1.0, self._bound(honest, spent) + pure_delta(spent, epsilon))
        if self.word_bits * self.words_per_input > _SMALL_TAPE:
            return bound
        return min(bound, self._direct(honest, epsilon))

    def _direct(self, honest: int, epsilon: float) -> float:
        laws = [self.pmf(x) for x in range(self.domain.size)]
        try:
            exact = shuffled_delta(laws, honest, exp_lower(epsilon))
        except UnsupportedError:
            return 1.0
        return float(exact) * (1 + 1e-15)

    def _bound(self, honest: int, spent: float) -> float:
        """Bound delta at epsilon = spent: the flood's delta, plus what the geometric noise lacks if fewer users are
        honest, plus (1 + e^epsilon) times the distance of the sampled noise from the ideal one.
        """
        # Rounding the shares down raises delta.
        level = math.nextafter(float(honest * self.flood.share), 0.0)
        share = honest * self.noise.share
        missing = 0.0
        if share < 1:
            part = math.nextafter(float(share), 0.0)
            missing = thinned_delta(levels=reach(self.domain), epsilon_star=self.star, share=part)
        overhead = (1 + math.exp(spent)) * self.distance(honest)
        return self.flood.flooding.delta(level) + missing + overhead

    def encode(self, inputs: Codes, words: Words) -> Messages:
        signed_user, signed_cell = self.noise.draw(words[:, : self.noise.words])
        flood_user, flood = self.flood.draw(words[:, self.noise.words :])
        sender = np.flatnonzero(inputs)
        return Messages(
            payload=np.concatenate([inputs[sender].astype(np.int64), 2 * signed_cell - 1, flood]),
            owner=np.concatenate([sender, signed_user, flood_user]),
            users=len(inputs),
        )

    def pmf(self, x: int) -> Law:
        """Return the law of what is sent up to its order, for words of a few bits."""
        own = (x,) if x else ()
        law: Law = {}
        flood = self.flood.law()
        for (minus, plus), mass in self.noise.law().items():
            signed = own + (-1,) * minus + (1,) * plus
            for drawn, other in flood.items():
                sent = _join(signed, drawn)
                law[sent] = law.get(sent, NOTHING) + mass * other
        return law

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal the noise alone: the flood cancels in the sum, which leaves the codes and both noises."""
        users = int(inputs.sum())
        minus, plus = self.noise.deal(users, source).tolist()
        total = add_codes(inputs) + plus - minus
        return Tally(counts=np.array([total], dtype=np.int64), users=users)

    @property
    def cost(self) -> Cost:
        """The cost of values other than 0; a 0 sends one message less."""
        noise = self.noise.number.largest * self.noise.size.largest
        return Cost(
            messages_mean=1 + 2 * float(self.noise.per_cell(1)) + self.flood.mean,
            messages_max=1 + noise + self.flood.most,
            bits_per_message=(2 * reach(self.domain) - 1).bit_length(),
            count_depends_on_value=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSum:
    r"""The sum of all messages; the tally is that one number.

        variance = 2 n E[noise^2 of one sign] unit^2    (exact; with n = m users 2 p / (1 - p)^2 unit^2)

    >>> protocol = make(n=10**6, epsilon=1.0, delta=1e-6, lower=0, upper=10, honest=1.0)
    >>> round(protocol.analyzer.variance(np.full(11, 10**6 / 11)) ** 0.5, 2)
    15.71
    """

    device: ZeroSumFlooding
    task: str

    def influence(self) -> Fraction:
        """Return by how many people one message can move the sum: from minus the whole range to the whole range."""
        return Fraction(2)

    def tally(self, shuffled: Shuffled) -> Tally:
        payload, levels = shuffled.payload, reach(self.device.domain)
        if payload.ndim != 1 or payload.dtype.kind not in "iu":
            raise DataError(
                f"messages are integers -{levels} .. {levels} without 0, not an array of shape "
                f"{payload.shape} and type {payload.dtype}"
            )
        signed = payload.astype(np.int64)
        if np.any((signed == 0) | (signed > levels) | (signed < -levels)):
            raise DataError(f"a message is 0 or outside -{levels} .. {levels}")
        return Tally(counts=np.array([signed.sum()], dtype=np.int64), users=shuffled.users)

    def estimate(self, tally: Tally) -> Estimate:
        n, domain, noise = tally.people(), self.device.domain, self.device.noise
        error = SharedNoiseError(
            rate=Fraction(self.device.star) / reach(domain),
            shape=n * noise.share,
            step=float(step(domain, self.task, n)),
            rounded=count_rounded(domain, n),
            bias=bound_bias(domain, self.task, n),
        )
        return answer(domain, self.task, Fraction(int(tally.counts[0])), n, error)

    def offset(self) -> tuple[Fraction, ...]:
        """Return what a user adds to the answer before any message: `lower`, for which code 0 stands."""
        return (Fraction(self.device.domain.lower),)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        return (message * unit(self.device.domain),)

    def variance(self, inputs: Counts) -> float:
        # Signs are independent and even, so products of two events' signs have mean 0.
        n = int(inputs.sum())
        of_codes = 2 * n * float(self.device.noise.per_cell(2))
        return of_codes * float(step(self.device.domain, self.task, n)) ** 2


@shuffle(
    name="zero_sum_flooding",
    task="sum",
    title="Zero-sum flooding",
    reference="Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    lower: float,
    upper: float,
    steps: int | None = None,
    task: str = "sum",
    gap: float = 0.1,
    most_events: int | None = None,
    word_bits: int = 64,
) -> Parts:
    """Make a sum (or a mean) of integers lower .. upper, or of reals on a grid of `steps` steps.

    A larger `gap` means fewer messages, and an error larger by 1 / (1 - gap).

    >>> stars = make(n=1_000_000, epsilon=1.0, delta=1e-6, lower=0, upper=5, gap=0.3)
    >>> f"{stars.cost.messages_mean:.2f}", stars.guarantee.delta <= 1e-6
    ('1.13', True)
    """
    domain, task = read_scale(lower, upper, steps, task)
    used = min(promise.epsilon, _LARGEST_EPSILON)
    budget = fraction_of_one("gap", gap) * used
    device = ZeroSumFlooding(
        domain=domain,
        star=(used - budget) * (1 - 1e-12),  # rounded so that both stay within epsilon together
        budget=budget,
        level=Flooding(levels=reach(domain), budget=budget).level(promise.delta * (1 - 1e-3)),
        sharers=crowd.trusted,
        most_events=most_events,
        word_bits=word_bits,
    )
    accountant = NoiseAccountant(device=device, epsilon=used)
    analyzer = MessageSum(device=device, task=task)
    return Parts(
        device,
        analyzer,
        accountant=accountant,
        task=task,
        deal=device.deal,
        influence=analyzer.influence,
        offset=analyzer.offset,
    )


SPEC = register(make, hints=LATE)
