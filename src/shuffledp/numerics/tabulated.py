r"""Shares of noise as tables of words: negative binomial, Poisson and logarithmic numbers.

n users make noise together when each draws a share of it: n shares NB(r/n, p) sum to NB(r, p), n
shares Poisson(m/n) to Poisson(m). Such laws are not dyadic, so they are tabulated, and the total
variation distance between the table and the law is bounded: `distance`.

Where a share is almost always 0 one word decides "0 or not" and a second one the value. The first
decision costs no distance at all: its threshold is rounded up, and r (or m) becomes the slightly
larger number for which that threshold is exact. Only the value given "not 0" is off, by some 10^-17,
so the distance of all n users together does not grow with n.

Weights follow w(k+1) = w(k) * step(k):  NB p (r + k) / (k + 1),  Poisson m / (k + 1), and the
logarithmic law is NB given "not 0" for r -> 0: p k / (k + 1) from k = 1 on. They are kept in fixed
point with 160 bits more than a word.

Where the same share is wanted in many cells, most of them get nothing: `Events` draws those that do.

**Discrete Laplace noise that never exceeds L**, for servers that add whole messages.

Pr[Z = z] is about proportional to e^{-a |z|} on -L .. L. It is a table of words of integer shares, so the law is
exactly rational. Shares fall from the middle outwards, each the rounded-up e^{-a} of the one before; what is left of
all words goes to the two ends. So neighbouring masses differ by a factor of at most e^a, exactly, and only the ends
have a neighbour of mass 0:

    f = Pr[Z = L] = Pr[Z = -L],  about e^{-aL} (1 - e^{-a}) / (1 + e^{-a} - 2 e^{-a(L+1)}).

A number that moves by one is hidden with (a, f), exactly.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import Law, WordSource
from shuffledp.core.validate import positive, whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import add_uniforms, binomial, deal
from shuffledp.numerics.rounding import exp_lower, exp_upper

VectorLaw = dict[tuple[int, ...], Fraction]
"""Probability of each vector of numbers."""
Join = Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]
NOTHING = Fraction(0)

_SPARE = 160  # bits of a weight beyond a word's: the last one still has 120, and hardly feels that it is rounded down
_SPARE_OF_CUTS = (
    64  # bits of e^-rate beyond a share's: rounding it up moves a share by less than 2^-64 words
)
_LONGEST = 1 << 20  # shares: longer tables are refused
_SLOW, _PACE = 0.95, 64  # where steps are so near to 1, every 64th weight is soon enough to stop
_HIGHEST = 1000  # bits of a weight, which must be a float
_DIGITS = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)

Step = tuple[int, int, int]
"""(a, b, c): w(k+1) / w(k) = (a k + b) / (c (k + 1))."""

MOST_STEPS = 1 << 16
"""The largest L: beyond it a server would add too many messages anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabulated:
    """The law of a number >= 0 that is drawn from one or two words of `bits` bits.

    >>> share = negative_binomial(Fraction(1, 1000), Fraction(1, 2), 64)
    >>> share.words, f"{float(1 - share.law()[0]):.6f}", share.distance < 1e-20
    (2, '0.000693', True)
    """

    bits: int
    threshold: int | None
    """The words below it give a number > 0; None: there is no such word."""
    first: int
    shares: tuple[int, ...]
    """What the other word gives: first + i with probability shares[i] / 2^bits."""
    size: Fraction
    """The r or the mean of the law that is tabulated, at least what was asked for if `threshold`."""
    distance: float
    """An upper bound on the total variation distance between the two."""

    @property
    def words(self) -> int:
        """How many words one draw takes."""
        return 1 if self.threshold is None or len(self.shares) == 1 else 2

    @property
    def largest(self) -> int:
        """The largest number that can be drawn."""
        return self.first + len(self.shares) - 1

    def draw(self, words: Words) -> tuple[NDArray[np.intp], Codes]:
        """Return the rows of words[n, self.words] that draw a number > 0, and these numbers.

        >>> bit = Tabulated(bits=1, threshold=1, first=1, shares=(1, 1), size=Fraction(1), distance=0.0)
        >>> bit.draw(np.array([[0, 1], [1, 1], [0, 0]], dtype=np.uint8))
        (array([0, 2]), array([2, 1]))
        """
        if self.threshold is None:
            values = self.values(words[:, 0])
            who = np.flatnonzero(values)
            return who, values[who]
        who = np.flatnonzero(tape.bernoulli(words[:, 0], self.threshold, self.bits))
        if self.words == 1:
            return who, np.full(len(who), self.first, dtype=np.int64)
        return who, self.values(words[who, 1])

    def values(self, words: Words) -> Codes:
        """Return what the words of the table give."""
        return tape.table(words, self.shares, self.bits).astype(np.int64) + self.first

    def law(self) -> dict[int, Fraction]:
        """Return the exact law of `draw`."""
        table = tape.table_law(self.shares, self.bits)
        law = {self.first + i: mass for i, mass in table.items()}
        if self.threshold is None:
            return law
        yes = self.positive
        return {0: 1 - yes} | {value: yes * mass for value, mass in law.items()}

    @property
    def positive(self) -> Fraction:
        """The probability that the first word says "not 0"; 1 if there is none."""
        return Fraction(1 if self.threshold is None else self.threshold, self._scale)

    def moment(self, power: int) -> Fraction:
        """Return the exact expectation of draw^power, power >= 1.

        >>> poisson(Fraction(1, 2), 3).moment(1)
        Fraction(5, 8)
        """
        return self.positive * Fraction(_moment(self.shares, self.first, power), 1 << self.bits)

    def deal(self, n: int, source: WordSource) -> Counts:
        """Return how many of n draws give 0, 1, ..., `largest`: exactly their law, without drawing each.

        >>> from shuffledp import SeededWords
        >>> poisson(Fraction(1, 1000), 64).deal(10**9, SeededWords(1))[:4]
        array([999000678,    998816,       506,         0])
        """
        active = n
        if self.threshold is not None:
            active = binomial(n, self.threshold, self.bits, source)
        counts = np.zeros(self.largest + 1, dtype=np.int64)
        # The second word is independent of the first, so its law is the same given that it is read.
        counts[self.first :] = deal([active], [self.shares], self.bits, source).own[0]
        counts[0] += n - active
        return counts

    @property
    def _scale(self) -> int:
        return 1 if self.threshold is None else 1 << self.bits


@lru_cache(maxsize=64)  # a table can have ten thousands of shares
def _moment(shares: tuple[int, ...], first: int, power: int) -> int:
    values = range(first, first + len(shares))
    return sum(map(mul, shares, values if power == 1 else map(pow, values, repeat(power))))


def negative_binomial(r: Fraction, p: Fraction, bits: int) -> Tabulated:
    """Tabulate NB(r, p), of mass C(k + r - 1, k) (1 - p)^r p^k; r is rounded up if the share is mostly 0.

    >>> negative_binomial(Fraction(1), Fraction(1, 2), 4).shares
    (8, 4, 2, 1, 1)
    """
    log = log_of(1 - p)
    threshold = _round_up(-log * _decimal(r), bits)
    if 2 * threshold > 1 << bits:
        return _tabulate(_negative_binomial_step(r, p), p, bits, size=r)
    size = Fraction(_DIGITS.divide(log_of(1 - Fraction(threshold, 1 << bits)), log))
    if size <= 1 and 2 * p > 1:  # then the steps are at most p, and may be many
        _check_length(p, 1 / float(1 - p), bits)
    return _tabulate(_negative_binomial_step(size, p), p, bits, size=size, threshold=threshold)


@lru_cache(maxsize=64)
def poisson(mean: Fraction, bits: int, most: int = _LONGEST) -> Tabulated:
    """Tabulate Poisson(mean), cut after `most`; the mean is rounded up if the number is mostly 0.

    >>> poisson(Fraction(1), 4).shares
    (6, 6, 3, 1)
    """
    threshold, zero = _round_up(_decimal(mean), bits), Fraction(0)
    if 2 * threshold > 1 << bits:
        return _tabulate(_poisson_step(mean), zero, bits, most, size=mean)
    size = -Fraction(log_of(1 - Fraction(threshold, 1 << bits)))
    return _tabulate(_poisson_step(size), zero, bits, most, size=size, threshold=threshold)


def _tabulate(
    step: Step,
    limit: Fraction,
    bits: int,
    most: int = _LONGEST,
    *,
    size: Fraction,
    threshold: int | None = None,
) -> Tabulated:
    """Return the law with these steps; with a threshold that of the positive numbers alone."""
    first = 0 if threshold is None else 1
    shares, distance = _table(step, limit, first, bits, most)
    if threshold is not None:
        distance = _weigh(distance, threshold, bits)
    return Tabulated(
        bits=bits, threshold=threshold, first=first, shares=shares, size=size, distance=distance
    )


@lru_cache(maxsize=64)  # long for small epsilon, and the same for every number of users
def logarithmic(p: Fraction, bits: int) -> Tabulated:
    """Return the logarithmic law, -p^k / (k ln(1 - p)) on 1, 2, ...

    A Poisson(-r ln(1 - p)) number of them sums to NB(r, p).

    >>> logarithmic(Fraction(1, 2), 4).shares
    (12, 3, 1)
    """
    if 2 * p > 1:  # others are short
        _check_length(p, -math.log(1 - p) / float(p), bits)
    shares, distance = _table(_negative_binomial_step(Fraction(0), p), p, 1, bits)
    return Tabulated(
        bits=bits, threshold=None, first=1, shares=shares, size=Fraction(0), distance=distance
    )


def log_of(x: Fraction) -> Decimal:
    """Return ln x to 80 digits.

    >>> round(log_of(Fraction(2)), 10)
    Decimal('0.6931471806')
    """
    return _decimal(x).ln(_DIGITS)


def _decimal(x: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))


def _round_up(rate: Decimal, bits: int) -> int:
    """Round 2^bits (1 - e^-rate) up."""
    # Beyond 1000 nothing changes but the length of the fraction.
    nothing = Fraction((-min(rate, Decimal(1000))).exp(_DIGITS))
    # 80 digits, and one more unit for what they miss.
    return -((-(1 - nothing + Fraction(1, 10**75)) * (1 << bits)) // 1)


def _negative_binomial_step(r: Fraction, p: Fraction) -> Step:
    a, b = p.numerator * r.denominator, p.numerator * r.numerator
    return a, b, p.denominator * r.denominator


def _poisson_step(mean: Fraction) -> Step:
    return 0, mean.numerator, mean.denominator


def _table(
    step: Step, limit: Fraction, first: int, bits: int, most: int = _LONGEST
) -> tuple[tuple[int, ...], float]:
    """Return shares of first, first + 1, ..., and a bound of their distance to the weights' law.

    The steps are monotone and tend to `limit` < 1.
    """
    weights, tail = _weights(step, limit, first, bits, most)
    total = sum(weights)
    # Many of a long tail are rounded to 0: there is nothing to divide.
    tiny, end = total - 1 >> bits + 1, len(weights)
    while end > 1 and weights[end - 1] <= tiny:
        end -= 1
    # Twice what rounding moves, in units of 1 / (2^bits total).
    off = sum(weights[end:]) << bits + 1
    shares, twice = [], 2 * total
    for weight in weights[:end]:
        share, rest = divmod((weight << bits + 1) + total, twice)
        shares.append(share)
        off += abs(total - rest)
    # What rounding left over goes where it changes least, relatively.
    largest = shares.index(max(shares))
    left, weight = (1 << bits) - sum(shares), weights[largest] << bits + 1
    off -= abs(2 * shares[largest] * total - weight)
    shares[largest] += left
    off += abs(2 * shares[largest] * total - weight)
    # Every weight was rounded down; each of them is above 2^120 units.
    rounding = len(weights) * 2.0**-90
    distance = float(Fraction(off, 4 * total << bits)) + tail / total + rounding
    while shares[-1] == 0:
        shares.pop()
    return tuple(shares), distance * (1 + 1e-12)


def _weights(
    step: Step, limit: Fraction, first: int, bits: int, most: int
) -> tuple[list[int], float]:
    """Return the weights in fixed point, and a bound of all those that follow."""
    weight = total = 1 << bits + _SPARE
    weights, small, limiting = [weight], bits + 16, float(limit)
    pace = _PACE if limiting > _SLOW else 1
    a, b, c = step
    halvings = c.bit_length() - 1 if c.bit_count() == 1 else None  # to shift is faster
    up = a * first + b
    for k in range(first, _LONGEST):
        weight = weight * up
        weight = (weight // c if halvings is None else weight >> halvings) // (k + 1)
        if (k - first) % pace == 0:
            if weight.bit_length() > _HIGHEST:
                raise UnsupportedError(
                    "the noise of one user is too much for a table: too few users"
                )
            # The largest step that is still to come: the next one, or the limit.
            following = max(up / (c * (k + 1)), limiting) * (1 + 1e-15)
            if following < 1 and (k >= most or weight < (total >> small) * (1 - following)):
                return weights, (weight + 1) / (1 - following)
        if k < most:
            weights.append(weight)
            total += weight
        up += a
    raise UnsupportedError(_TOO_LONG)


def _check_length(p: Fraction, total: float, bits: int) -> None:
    """Refuse at once what `_weights` would refuse after a million steps.

    From 1 on, weights are at least p^(k - 1) / k of the first one, and `total` or less all together:
    so the last one in reach is at least this part of what `_weights` waits for.
    """
    gap = float(1 - p)
    last = (_LONGEST - 1) * math.log1p(-gap) - math.log(_LONGEST)
    wanted = math.log(total * gap) - (bits + 16) * math.log(2)
    if last > wanted + 1e-3:
        raise UnsupportedError(_TOO_LONG)


_TOO_LONG = "the noise is too long for a table: epsilon is too small"


def _weigh(distance: float, threshold: int, bits: int) -> float:
    return distance * float(Fraction(threshold, 1 << bits)) * (1 + 1e-15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A Poisson number of events; each falls on one of `cells` cells and has a logarithmic size.

    So every cell gets NB(share, p), independently.

    >>> events = Events.of(cells=6, share=Fraction(1, 1000), p=0.5, bits=64, most=None)
    >>> round(float(events.share * 1000), 12), events.words
    (1.0, 16)
    """

    cells: int
    p: float
    number: Tabulated
    size: Tabulated
    words: int = field(init=False)
    """How many words a user takes: the number of events, then position and size of each."""
    share: Fraction = field(init=False)
    """The s of NB(s, p) in one cell."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.number.words + 2 * self.number.largest)
        share = -self.number.size * self.landing / Fraction(log_of(1 - Fraction(self.p)))
        object.__setattr__(self, "share", share)

    @classmethod
    def of(cls, *, cells: int, share: Fraction, p: float, bits: int, most: int | None) -> "Events":
        """Cut the number of events after `most`, or where its mass is nothing to a word."""
        exact = Fraction(p)
        rate = -share * Fraction(log_of(1 - exact)) / tape.uniform_share(cells, bits)
        number = poisson(rate, bits) if most is None else poisson(rate, bits, most)
        return cls(cells=cells, p=p, number=number, size=logarithmic(exact, bits))

    @property
    def landing(self) -> Fraction:
        """The probability that an event falls on a given cell."""
        return tape.uniform_share(self.cells, self.number.bits)

    @property
    def most(self) -> int:
        """How often a user draws a cell at most."""
        return self.number.largest * self.size.largest

    def per_cell(self, power: int) -> Fraction:
        """Return the expected number of events in a cell, each counted as its size^power."""
        return self.number.moment(1) * self.landing * self.size.moment(power)

    def distance(self, users: int, cells: int) -> float:
        """Bound from above the distance of what falls on these cells from independent NB(users share, p).

        The number of events is off once for each user, the size once for each event that is seen.
        """
        seen = users * cells * float(self.number.size * self.landing)
        return (users * self.number.distance + seen * self.size.distance) * (1 + 1e-12)

    def draw(self, words: Words) -> tuple[Codes, Codes]:
        """Return (user, cell), each as often as the sizes of the events say."""
        bits, start = self.number.bits, self.number.words
        who, number = self.number.draw(words[:, :start])
        user = np.repeat(who, number)
        rank = np.arange(len(user)) - np.repeat(np.cumsum(number) - number, number)
        column = start + 2 * rank
        cell = tape.uniform(words[user, column], self.cells, bits)
        lands = np.flatnonzero(cell < cell.dtype.type(self.cells))
        size = self.size.values(words[user[lands], column[lands] + 1])
        return np.repeat(user[lands], size), np.repeat(cell[lands].astype(np.int64), size)

    def law(self) -> VectorLaw:
        """Return the exact law of the number of times each cell is drawn."""
        cells = tape.uniform_law(self.cells, self.number.bits)
        zero = (0,) * self.cells
        one: VectorLaw = {zero: cells.get(None, NOTHING)}
        for size, mass in self.size.law().items():
            for cell in range(self.cells):
                drawn = tuple(size * (j == cell) for j in range(self.cells))
                one[drawn] = mass * self.landing
        return repeat_law(self.number.law(), zero, one, _add)

    def deal(self, n: int, source: WordSource) -> Counts:
        """Return how often each cell is drawn by n users together: exactly the law of their draws.

        Events are alike and independent, so their number is all that matters of who makes them. First
        the sizes of all, then the cells of those of one size; a rejected event is in no cell.
        """
        number = self.number.deal(n, source)
        events = sum(k * times for k, times in enumerate(number.tolist()))
        times = self.size.deal(events, source)
        sizes = np.flatnonzero(times)
        return add_uniforms(times[sizes], sizes, self.cells, self.number.bits, source)


def repeat_law(
    number: Mapping[int, Fraction], nothing: tuple[int, ...], one: VectorLaw, join: Join
) -> VectorLaw:
    """Return the law of a random number of independent draws from `one`, joined; of no draws it is `nothing`.

    >>> half = Fraction(1, 2)
    >>> repeat_law({0: half, 1: half}, (), {(7,): Fraction(1)}, tuple.__add__)
    {(): Fraction(1, 2), (7,): Fraction(1, 2)}
    """
    law: VectorLaw = {}
    draws: VectorLaw = {nothing: Fraction(1)}
    for times in range(max(number) + 1):
        for drawn, mass in draws.items():
            law[drawn] = law.get(drawn, NOTHING) + mass * number.get(times, NOTHING)
        draws = _join_laws(draws, one, join)
    return law


def _join_laws(a: VectorLaw, b: VectorLaw, join: Join) -> VectorLaw:
    """Return the law of two independent vectors, joined."""
    law: VectorLaw = {}
    for x, left in a.items():
        for y, right in b.items():
            key = join(x, y)
            law[key] = law.get(key, NOTHING) + left * right
    return law


def add_laws(a: VectorLaw, b: VectorLaw) -> VectorLaw:
    """Return the law of the sum of two independent vectors.

    >>> coin = {(0,): Fraction(1, 2), (1,): Fraction(1, 2)}
    >>> add_laws(coin, coin)[(1,)]
    Fraction(1, 2)
    """
    return _join_laws(a, b, _add)


def _add(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int.__add__, x, y))


def message_law(noise: VectorLaw, unit: tuple[int, ...]) -> Law:
    """Return the law of the messages of a user who adds `unit` to the counts of the noise.

    >>> message_law({(0, 2): Fraction(1)}, (1, 0))
    {(0, 1, 1): Fraction(1, 1)}
    """
    law: Law = {}
    for counts, mass in shift_law(noise, unit).items():
        sent = tuple(message for message, count in enumerate(counts) for _ in range(count))
        law[sent] = mass
    return law


def shift_law(law: VectorLaw, unit: tuple[int, ...]) -> VectorLaw:
    """Return the law of the vector plus a fixed one."""
    return {_add(counts, unit): mass for counts, mass in law.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLaplace:
    """Z on -most .. most with Pr ~ e^(-rate |z|); two words of `word_bits` bits make one draw.

    >>> law = CutLaplace(rate=0.5, most=36)
    >>> f"{float(law.edge):.3e}", round(float(law.variance) ** 0.5, 3)
    ('3.730e-09', 2.799)
    >>> CutLaplace(rate=1.0, most=1, word_bits=2).shares
    (4, 8, 4)
    """

    rate: float
    most: int
    word_bits: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", positive("rate", self.rate))
        whole("most", self.most, at_least=1, at_most=MOST_STEPS)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        shares = self.shares
        # The ends take what is left of all words: with too few words that may be more than e^rate allows.
        if shares[0] > exp_lower(self.rate) * shares[1]:
            raise ParameterError(
                "word_bits", self.word_bits, f"must be more: too few words for most={self.most}"
            )

    @property
    def shares(self) -> tuple[int, ...]:
        """How many of the 2^(2 word_bits) pairs of words draw -most, ..., most."""
        return _share(self.rate, self.most, 2 * self.word_bits)

    @property
    def edge(self) -> Fraction:
        """The exact mass f of either end."""
        return Fraction(self.shares[0], 1 << 2 * self.word_bits)

    @property
    def variance(self) -> Fraction:
        """The exact variance; the mean is 0."""
        return _find_variance(self.shares, 2 * self.word_bits)

    def pmf(self) -> dict[int, Fraction]:
        """Return the exact law."""
        words = 1 << 2 * self.word_bits
        return {z: Fraction(share, words) for z, share in enumerate(self.shares, start=-self.most)}

    def read(self, words: Words) -> Counts:
        """Return the draws that words[n, 2] make.

        >>> CutLaplace(rate=1.0, most=1, word_bits=2).read(np.array([[0, 3], [1, 0], [3, 3]], dtype=np.uint8))
        array([-1,  0,  1])
        """
        ends = _find_ends(self.shares)
        numbers = [(high << self.word_bits) + low for high, low in words.tolist()]
        return np.array([bisect_right(ends, number) - self.most for number in numbers], np.int64)

    def draw(self, count: int, source: WordSource) -> Counts:
        """Draw `count` independent draws.

        >>> from shuffledp import SeededWords
        >>> CutLaplace(rate=0.5, most=36).draw(6, SeededWords(1))
        array([ 1, -5, -5,  1,  4, -3])
        """
        return self.read(source.words(2 * count, self.word_bits).reshape(count, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLaplaceSum:
    """The sum of `times` independent draws: what that many servers add to a bin, less its mean.

    >>> both = CutLaplaceSum(noise=CutLaplace(rate=0.5, most=36), times=2)
    >>> round(both.variance**0.5, 2), both.at_least(np.array([0.0, 9.0, 200.0])).round(4)
    (3.96, array([0.5649, 0.0215, 0.    ]))
    """

    noise: CutLaplace
    times: int

    @property
    def variance(self) -> float:
        return float(self.times * self.noise.variance)

    @property
    def most(self) -> int:
        """The largest sum."""
        return self.times * self.noise.most

    @property
    def masses(self) -> Floats:
        """Upper bounds on Pr[S = -most], ..., Pr[S = most], each within a part in 10^12."""
        return _add_up(self.noise, self.times)

    def at_least(self, x: Floats) -> Floats:
        """Bound Pr[S >= x] from above, within a part in 10^11 of it."""
        tails = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0) * _ROUNDED
        bounds: Floats = tails[
            np.clip(np.ceil(x) + self.most, 0, 2 * self.most + 1).astype(np.intp)
        ]
        return np.minimum(bounds, 1.0)

    def log_moments(self, s: Floats) -> Floats:
        """Bound ln E[e^(s S)] from above, for any s; infinite where it overflows."""
        one = _add_up(self.noise, 1)
        z = np.arange(-self.noise.most, self.noise.most + 1)
        flat = np.abs(np.asarray(s, dtype=np.float64)).ravel()
        top = flat * self.noise.most  # the largest exponent, taken out
        sums = np.exp(np.multiply.outer(flat, z) - top[:, None]) @ one
        bounds: Floats = (
            self.times * (np.log(sums) + top) * _ROUNDED + 1e-13 * self.times
        ).reshape(np.shape(s))
        return bounds


_ROUNDED = 1 + 1e-11


@lru_cache(maxsize=64)
def _add_up(noise: CutLaplace, times: int) -> Floats:
    words = 1 << 2 * noise.word_bits
    one = np.array([share / words for share in noise.shares])
    total = one
    for _ in range(times - 1):
        total = np.convolve(total, one)
    # Each of the terms of a sum is off by some units, and all are positive.
    rounded: Floats = total * (1 + 4e-16 * (len(one) + 4) * times)
    rounded.setflags(write=False)
    return rounded


@lru_cache(maxsize=64)
def _share(rate: float, most: int, bits: int) -> tuple[int, ...]:
    scale = bits + _SPARE_OF_CUTS
    step = int(-(-exp_upper(-Fraction(rate)) * (1 << scale) // 1))  # e^-rate, rounded up
    words = 1 << bits
    # The largest middle share for which all of them together are at most all words; an even one, so that what is left
    # can be split between the two ends.
    low, high = 0, words
    while high - low > 2:
        middle = (low + high) // 4 * 2
        if 2 * sum(_fall(middle, step, scale, most)) + middle <= words:
            low = middle
        else:
            high = middle
    side = _fall(low, step, scale, most)
    side[-1] += (words - low - 2 * sum(side)) // 2
    return (*reversed(side), low, *side)


def _fall(middle: int, step: int, scale: int, most: int) -> list[int]:
    """Return the shares beside the middle one, outwards."""
    side, share = [], middle
    for _ in range(most):
        share = -(-share * step >> scale)
        side.append(share)
    return side


@lru_cache(maxsize=64)
def _find_ends(shares: tuple[int, ...]) -> list[int]:
    return list(accumulate(shares))


@lru_cache(maxsize=64)
def _find_variance(shares: tuple[int, ...], bits: int) -> Fraction:
    most = len(shares) // 2
    return Fraction(sum(share * (z - most) ** 2 for z, share in enumerate(shares)), 1 << bits)
