"""Exact draws of irrational probability: a word decides almost always, further words when it does not.

A uniform real U in [0, 1) is read word by word. To draw Bernoulli(p) compare U with p: the first word
leaves an interval of width 2^-bits for U, and unless p lies in that interval the comparison is
decided. In the rare other case (about 2^-64) more words are drawn, p is enclosed more narrowly, and
so on. Nothing is rounded: the law is exactly p, and the loop ends with probability 1. This is the
idea of von Neumann and of Knuth and Yao 1976, "The complexity of nonuniform random number
generation", with words in place of bits.

p is given as an enclosure: a function from a number of digits to two fractions around p.

The time of a draw depends on the noise it makes (not on the data). Where an attacker can time single
draws, that is a side channel.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from shuffledp.core.arrays import Bools, Counts, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.rounding import exp_bounds

Enclosure: TypeAlias = Callable[[int], tuple[Fraction, Fraction]]
"""digits -> (low, high) with low <= p <= high and high - low < 10^(2 - digits)."""

SMALLEST_RATE = Fraction(1, 1 << 50)
"""Below this rate the noise would no longer fit into 64-bit integers with room to spare."""

_CHUNK = 1 << 16  # words at a time
_DIGITS_UNTIL = 8  # draw binary digits until e^(-rate 2^i) < e^-8; few draws need more
_STEP = Fraction(10_000)  # e^-x for larger x is a product of several
_LARGEST = 1 << 61


@dataclass(frozen=True, slots=True)
class ExpMinus:
    """The enclosure of e^-x, 0 <= x <= 20000.

    >>> low, high = ExpMinus(Fraction(1))(20)
    >>> round(float(low), 12), high - low < Fraction(1, 10**18)
    (0.367879441171, True)
    """

    x: Fraction

    def __call__(self, digits: int) -> tuple[Fraction, Fraction]:
        return exp_bounds(-self.x, digits)


@dataclass(frozen=True, slots=True)
class Logistic:
    """The enclosure of 1 / (1 + e^x): the probability of a binary digit of a geometric number.

    >>> Logistic(Fraction(0))(20)
    (Fraction(1, 2), Fraction(1, 2))
    """

    x: Fraction

    def __call__(self, digits: int) -> tuple[Fraction, Fraction]:
        low, high = exp_bounds(self.x, digits)
        return 1 / (1 + high), 1 / (1 + low)


def draw_bernoulli(p: Enclosure, count: int, rng: WordSource, bits: int = 64) -> Bools:
    """Draw `count` independent draws that are True with probability exactly p.

    >>> from shuffledp import SeededWords
    >>> int(draw_bernoulli(ExpMinus(Fraction(1)), 10_000, SeededWords(1)).sum())
    3579
    """
    words = rng.words(count, bits)
    below, above = _thresholds(p, bits)
    drawn = tape.bernoulli(words, below, bits)
    if above > below:
        undecided = tape.bernoulli(words, above, bits) ^ drawn
        for i in np.flatnonzero(undecided):
            drawn[i] = _decide(p, int(words[i]), rng, bits)
    return drawn


def _decide(p: Enclosure, word: int, rng: WordSource, bits: int) -> bool:
    number, width = word, bits
    while True:
        number = (number << bits) | int(rng.words(1, bits)[0])
        width += bits
        below, above = _thresholds(p, width)
        if number < below:
            return True
        if number >= above:
            return False


@lru_cache(maxsize=1024)
def _thresholds(p: Enclosure, width: int) -> tuple[int, int]:
    """Return the first `width` bits of U below the one number mean U < p, from the other on U >= p."""
    low, high = p(_digits(width))
    scale = 1 << width
    below, above = low * scale // 1, -(-high * scale // 1)
    return max(0, int(below)), min(scale, int(above))


def _digits(width: int) -> int:
    return width * 31 // 100 + 6  # log10(2) < 0.31, and some more


def draw_bernoulli_exp(x: Fraction, count: int, rng: WordSource, bits: int = 64) -> Bools:
    """Draw booleans that are true with probability exactly e^-x, for any x >= 0.

    >>> from shuffledp import SeededWords
    >>> draw_bernoulli_exp(Fraction(0), 3, SeededWords(1))
    array([ True,  True,  True])
    """
    if x < 0:
        raise ParameterError("x", x, "must be >= 0")
    alive = np.arange(count)
    while len(alive) and x > _STEP:
        alive = alive[draw_bernoulli(ExpMinus(_STEP), len(alive), rng, bits)]
        x -= _STEP
    if len(alive):
        alive = alive[draw_bernoulli(ExpMinus(x), len(alive), rng, bits)]
    drawn = np.zeros(count, dtype=np.bool_)
    drawn[alive] = True
    return drawn


def draw_geometric(rate: Fraction, count: int, rng: WordSource, bits: int = 64) -> Counts:
    """Draw G >= 0 with Pr[G = g] = (1 - a) a^g, a = e^-rate, exactly.

    The binary digits of G are independent, digit i is 1 with probability 1 / (1 + e^(rate 2^i)), and
    G // 2^i is again geometric, with rate 2^i times as large: draw the low digits one by one, and
    the rest, which is almost always 0, by its number of successes. Work grows with log(1 / rate).

    >>> from shuffledp import SeededWords
    >>> draw_geometric(Fraction(1, 2), 8, SeededWords(1))
    array([0, 4, 3, 0, 1, 2, 4, 4])
    """
    _check_rate(rate)
    whole("count", count, at_least=0)
    plan = _plan(rate, bits)
    step = max(1, _CHUNK // (len(plan.digits) + 1))
    drawn = np.empty(count, dtype=np.int64)
    for start in range(0, count, step):
        part = drawn[start : start + step]
        part[:] = _low_part(plan, len(part), rng, bits)
        _add_high_part(part, plan, rng, bits)
    return drawn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Plan:
    """The digits that are drawn one by one, their thresholds, and the rate of the rest."""

    digits: tuple[Logistic, ...]
    below: Words  # [digits, 1]
    above: Words
    rest: Fraction


@lru_cache(maxsize=64)
def _plan(rate: Fraction, bits: int) -> _Plan:
    digits = []
    while rate < _DIGITS_UNTIL:
        digits.append(Logistic(rate))
        rate *= 2
    # All probabilities are below 1/2, so the thresholds fit into words.
    ends = [_thresholds(digit, bits) for digit in digits]
    width = next(size for size in (1, 2, 4, 8) if 8 * size >= bits)
    table = np.array(ends, dtype=f"u{width}").reshape(-1, 2)
    return _Plan(digits=tuple(digits), below=table[:, :1], above=table[:, 1:], rest=rate)


def _low_part(plan: _Plan, count: int, rng: WordSource, bits: int) -> Counts:
    places = len(plan.digits)
    words = rng.words(places * count, bits).reshape(places, count)
    ones = words < plan.below
    undecided = (words < plan.above) ^ ones
    if undecided.any():
        for i, j in np.argwhere(undecided):
            ones[i, j] = _decide(plan.digits[i], int(words[i, j]), rng, bits)
    drawn = np.zeros(count, dtype=np.int64)
    for i, eight in enumerate(np.packbits(ones, axis=0, bitorder="little")):
        drawn += eight.astype(np.int64) << (8 * i)
    return drawn


def _add_high_part(drawn: Counts, plan: _Plan, rng: WordSource, bits: int) -> None:
    place, trials = len(plan.digits), 0
    alive = np.arange(len(drawn))
    while len(alive := alive[draw_bernoulli_exp(plan.rest, len(alive), rng, bits)]):
        trials += 1
        if trials << place > _LARGEST:
            raise OverflowError("a geometric draw does not fit into 64 bits")
        drawn[alive] += 1 << place


def _check_rate(rate: Fraction) -> None:
    if not isinstance(rate, Fraction):
        raise ParameterError("rate", rate, "must be a Fraction")
    if rate < SMALLEST_RATE:
        raise ParameterError("rate", float(rate), "must be >= 2^-50: the noise would be too large")


def draw_discrete_laplace(rate: Fraction, count: int, rng: WordSource) -> Counts:
    """Draw Z with Pr[Z = z] = (1 - a) / (1 + a) a^|z|, a = e^-rate, exactly.

    The difference of two independent geometric numbers.

    >>> from shuffledp import SeededWords
    >>> draw_discrete_laplace(Fraction(1, 2), 8, SeededWords(1))
    array([-1,  4,  1, -1,  1,  0,  3,  2])
    """
    return draw_geometric(rate, count, rng) - draw_geometric(rate, count, rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Position r with probability e^-x_r / sum_s e^-x_s, exactly, for x = `exponents` >= 0.

    By inversion: the first words of U against enclosures of the cumulative probabilities. Weights
    below e^-20000 of the largest are enclosed by (0, e^-20000), which is enough for all words that
    will ever be drawn.

    >>> from shuffledp import SeededWords
    >>> Choice(exponents=(Fraction(0), Fraction(1), Fraction(50))).draw(8, SeededWords(1))
    array([1, 1, 0, 1, 0, 1, 0, 1])
    """

    exponents: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not self.exponents or min(self.exponents) < 0:
            raise ParameterError("exponents", self.exponents, "must be some numbers >= 0")

    def bounds(self, width: int) -> list[tuple[Fraction, Fraction]]:
        """Return fractions around each probability, about 2^-width apart.

        >>> [(float(low), float(high)) for low, high in Choice(exponents=(Fraction(1),) * 2).bounds(60)]
        [(0.5, 0.5), (0.5, 0.5)]
        """
        lows, highs = self._weights(width)
        most, least = sum(highs), sum(lows)
        return [
            (Fraction(low, low + most - high), Fraction(high, high + least - low))
            for low, high in zip(lows, highs, strict=True)
        ]

    def draw(self, count: int, rng: WordSource, bits: int = 64) -> Counts:
        """Draw `count` independent positions."""
        starts, ends = self._cuts(bits)
        words = rng.words(count, bits)
        drawn = np.empty(count, dtype=np.int64)
        for i, word in enumerate(words.tolist()):
            position = find_position(word, starts, ends)
            drawn[i] = self._extend(word, rng, bits) if position is None else position
        return drawn

    def _extend(self, word: int, rng: WordSource, bits: int) -> int:
        number, width = word, bits
        while True:
            number = (number << bits) | int(rng.words(1, bits)[0])
            width += bits
            position = find_position(number, *self._cuts(width))
            if position is not None:
                return position

    def _weights(self, width: int) -> tuple[list[int], list[int]]:
        """Return integers around 2^scale e^-x_r; shifted, so that the largest weight is 1."""
        scale = width + len(self.exponents).bit_length() + 8
        least = min(self.exponents)
        around = {x: _scale(ExpMinus(x - least), scale) for x in set(self.exponents)}
        return [around[x][0] for x in self.exponents], [around[x][1] for x in self.exponents]

    def _cuts(self, width: int) -> tuple[list[int], list[int]]:
        return cut_weights(*self._weights(width), width)


def cut_weights(
    lows: Sequence[int], highs: Sequence[int], width: int
) -> tuple[list[int], list[int]]:
    """Return for each r: certainly "U is at or above C_r" from starts[r] on, "below" before ends[r].

    C_r is the cumulative share of weights that lie between `lows` and `highs`, U's first bits are a number
    below 2^width.

    >>> cut_weights([1, 1], [1, 1], 8)
    ([128, 256], [128, 256])
    """
    below_low, below_high = list(accumulate(lows)), list(accumulate(highs))
    rest_low = [below_low[-1] - low for low in below_low]
    rest_high = [below_high[-1] - high for high in below_high]
    ends = [(a << width) // (a + z) for a, z in zip(below_low, rest_high, strict=True)]
    starts = [-((-a << width) // (a + z)) for a, z in zip(below_high, rest_low, strict=True)]
    return starts, ends


def _scale(p: Enclosure, scale: int) -> tuple[int, int]:
    low, high = p(_digits(scale))
    return int(low * (1 << scale) // 1), int(-(-high * (1 << scale) // 1))


def find_position(number: int, starts: list[int], ends: list[int]) -> int | None:
    """Return the position that U's first bits decide on; None if they do not.

    >>> find_position(127, [128, 256], [128, 256]), find_position(128, [128, 256], [128, 256])
    (0, 1)
    """
    r = bisect_right(ends, number)  # the first r with number < ends[r]; the last end is 2^width
    return r if r == 0 or number >= starts[r - 1] else None
