"""Testing against any known law, by turning it into the uniform one on each device.

**Grain.** If q_j = m_j / m with integers m_j > 0, the device moves its value j to a uniform one of m_j cells of its own,
m cells in all. The law q becomes exactly uniform, and every distance is kept: a law p has p_j / m_j in each cell of j.
Uniform q is the case m = k, where nothing moves.

**Mixing.** For other q, or where m is large: the device first keeps the value with probability 1 - mix and otherwise takes
a uniform one; if values have the law q, these have q' = (1 - mix) q + mix u. Category j gets m_j = floor(cells q'_j) of
the cells, and the cells left over are spare. With probability s_j = m_j / (cells q'_j) the value moves to a uniform one of
its own cells, otherwise to a uniform spare cell. So

* if the values have the law q, the cells are exactly uniform;
* if the law is at total variation distance alpha from q, the cells are at distance (1 - mix) min_j s_j alpha or more: the
  first step shrinks all differences by 1 - mix, and s_j of each stays in the category's own cells. With mix = 1/2 and
  6 k cells that is 3 alpha / 8 or more, whatever q is.

Which map is best depends on the test: fewer cells are easier to test, and so is a larger distance.
`list_reductions` has the candidates, and the test takes the one that needs the fewest people.

The map uses coins of its own before the randomizer of a protocol, so every guarantee stays what it is.
Reference: Goldreich 2016, "The uniform distribution is complete with respect to testing identity to a
fixed distribution".

**Public randomness** makes random parts of the categories, and random groups of the users.

A public coin is a seed that everybody may know, drawn without looking at the data. Devices and
analyzer derive the same parts and groups from it. Privacy never rests on it: for every seed the
messages of the protocol are as private as promised.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from shuffledp.core.arrays import Codes, Counts
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import number, whole
from shuffledp.numerics import tape
from shuffledp.numerics.entropy import SeededWords, draw_bernoulli

_CELLS = 6  # for each category
_HALF = Fraction(1, 2)
_MOST_GRAINS = 64
"""Cells for each category up to which a grain is a candidate."""
_TRIED = ((Fraction(0), (2, 4, 8)), (Fraction(1, 4), (4, 8)), (_HALF, (_CELLS,)))
_SLACK = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A map from k categories, of law q, to cells of the uniform law.

    >>> reduction = Reduction(q=(Fraction(3, 4), Fraction(1, 4)))
    >>> reduction.cells, reduction.copies, reduction.spare, reduction.kept
    (12, (7, 4), 1, Fraction(4, 9))
    >>> reduction.law(1)[0]
    Fraction(1, 30)
    >>> grain = Reduction(q=(Fraction(3, 4), Fraction(1, 4)), mix=Fraction(0), cells=4)
    >>> grain.copies, grain.spare, grain.kept
    ((3, 1), 0, Fraction(1, 1))
    """

    q: tuple[Fraction, ...]
    mix: Fraction = _HALF
    """How often a value is replaced by a uniform one."""
    cells: int = 0
    """How many cells; 0 becomes 6 k."""
    copies: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", exact_law(self.q))
        if not 0 <= self.mix < 1:
            raise ParameterError("mix", self.mix, "must be >= 0 and < 1")
        cells = whole("cells", self.cells, at_least=0) or _CELLS * self.k
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "copies", tuple(math.floor(cells * q) for q in self._mixed))
        if min(self.copies) < 1:
            raise ParameterError("cells", cells, "must be enough for one cell of every category")

    @property
    def k(self) -> int:
        return len(self.q)

    @property
    def kept(self) -> Fraction:
        """A lower bound on the share of every distance from q that is left among the cells."""
        return (1 - self.mix) * min(self.stays)

    @property
    def spare(self) -> int:
        """How many cells belong to no category."""
        return self.cells - sum(self.copies)

    @property
    def _mixed(self) -> tuple[Fraction, ...]:
        return tuple((1 - self.mix) * q + self.mix / self.k for q in self.q)

    @property
    def stays(self) -> tuple[Fraction, ...]:
        """The probability that a mixed value moves to one of its own cells."""
        pairs = zip(self.copies, self._mixed, strict=True)
        return tuple(m / (self.cells * q) for m, q in pairs)

    def law(self, x: int) -> tuple[Fraction, ...]:
        """Return the exact probability of each cell for a user of category x."""
        mixed = [self.mix / self.k] * self.k
        mixed[x] += 1 - self.mix
        law: list[Fraction] = []
        for mass, stay, m in zip(mixed, self.stays, self.copies, strict=True):
            law += [mass * stay / m] * m
        if self.spare:
            left = sum(mass * (1 - stay) for mass, stay in zip(mixed, self.stays, strict=True))
            law += [Fraction(left) / self.spare] * self.spare
        return tuple(law)

    def apply(self, inputs: Codes, rng: WordSource, bits: int = 64) -> Counts:
        """Return the cell of each user, drawn with exactly that law: no probability is rounded.

        >>> from shuffledp import SeededWords
        >>> uniform = Reduction(q=(Fraction(1, 2), Fraction(1, 2)))
        >>> uniform.apply(np.array([0, 0, 1, 1]), SeededWords(1))
        array([ 5,  3,  5, 11])
        """
        codes = Categories(k=self.k).codes(inputs).astype(np.int64)
        if self.mix:
            mixed = draw_bernoulli(_Exactly(self.mix), len(codes), rng, bits)
            resampled = np.flatnonzero(mixed)
            codes[resampled] = _draw_uniform(self.k, len(resampled), rng, bits)
        first = np.cumsum((0, *self.copies))
        cells = np.empty(len(codes), dtype=np.int64)
        spare = np.zeros(len(codes), dtype=np.bool_)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(self.k + 1))
        stays = self.stays
        for j in np.unique(codes).tolist():
            users = order[ends[j] : ends[j + 1]]
            if stays[j] < 1:
                spare[users] = ~draw_bernoulli(_Exactly(stays[j]), len(users), rng, bits)
            cells[users] = first[j] + _draw_uniform(self.copies[j], len(users), rng, bits)
        if spare.any():
            cells[spare] = first[-1] + _draw_uniform(self.spare, int(spare.sum()), rng, bits)
        return cells


def list_reductions(q: Iterable[object]) -> tuple[Reduction, ...]:
    """Return the maps to choose from: those that no other one beats both in cells and in what they keep.

    >>> [(each.cells, str(each.kept)) for each in list_reductions([Fraction(1, 4)] * 4)]
    [(4, '1')]
    >>> [(each.cells, str(each.kept)) for each in list_reductions([Fraction(1, 100), Fraction(99, 100)])]
    [(8, '225/347'), (16, '975/1388'), (100, '1')]
    """
    law = exact_law(q)
    k = len(law)
    candidates = [Reduction(q=law)]
    grain = math.lcm(*(each.denominator for each in law))
    if min(law) > 0 and grain <= _MOST_GRAINS * k:
        candidates.append(Reduction(q=law, mix=Fraction(0), cells=grain))
    for mix, sizes in _TRIED:
        least = min((1 - mix) * each + mix / k for each in law)
        able = (size * k for size in sizes if least * size * k >= 1)
        candidates += [Reduction(q=law, mix=mix, cells=cells) for cells in able]
    candidates.sort(key=lambda each: (each.cells, -each.kept))
    best: list[Reduction] = []
    for each in candidates:
        if not best or each.kept > best[-1].kept:
            best.append(each)
    return tuple(best)


@dataclass(frozen=True, slots=True)
class _Exactly:
    """The enclosure of a rational number: the number itself."""

    p: Fraction

    def __call__(self, digits: int) -> tuple[Fraction, Fraction]:
        return self.p, self.p


def _draw_uniform(k: int, count: int, rng: WordSource, bits: int) -> Counts:
    """Draw exactly uniformly on 0 .. k-1: rejected draws are drawn again."""
    drawn = np.empty(count, dtype=np.int64)
    left = np.arange(count)
    while len(left):
        words = tape.uniform(rng.words(len(left), bits), k, bits)
        fine = words < k
        drawn[left[fine]] = words[fine]
        left = left[~fine]
    return drawn


def exact_law(q: Iterable[object]) -> tuple[Fraction, ...]:
    """Return q as fractions that sum to exactly 1.

    Integers and fractions must do so. Floats are the decimals that they are written as, if these sum to 1;
    otherwise they may miss 1 by 10^-9 (float32 and float16 by the rounding of each entry), and each is
    divided by their exact sum.

    >>> exact_law([0.1, 0.2, 0.7])
    (Fraction(1, 10), Fraction(1, 5), Fraction(7, 10))
    >>> exact_law([Fraction(1, 2), Fraction(1, 3)])
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: q='2 numbers of sum 0.8333333333333334' must sum to 1
    """
    given = list(q)
    law = [_fraction(value) for value in given]
    if len(law) < 2:
        raise ParameterError("q", given, "must have at least two entries")
    written = tuple(map(_as_written, given))
    if sum(written) == 1:
        return written
    total = Fraction(sum(law))
    if total != 1 and abs(total - 1) > _slack(given, law):
        raise ParameterError("q", f"{len(law)} numbers of sum {float(total)!r}", "must sum to 1")
    return tuple(value / total for value in law)


def _slack(given: list[object], law: list[Fraction]) -> Fraction:
    """Return how far the sum of a law may be from 1: nothing if it has no floats."""
    slack = Fraction(0)
    for value, exact in zip(given, law, strict=True):
        if isinstance(value, float | np.floating):
            slack = max(slack, Fraction(_SLACK))
        if isinstance(value, np.float32 | np.float16):
            slack += exact * Fraction(float(np.finfo(value.dtype).eps))
    return slack


def _as_written(value: object) -> Fraction:
    """Read a float as the shortest decimal that stands for it: 0.1 is a tenth."""
    return Fraction(str(value)) if isinstance(value, float | np.floating) else _fraction(value)


def _fraction(value: object) -> Fraction:
    if isinstance(value, Fraction):
        exact = value
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        exact = Fraction(int(value))
    else:
        exact = Fraction(number("q", value))
    if exact < 0:
        raise ParameterError("q", value, "must be >= 0")
    return exact


def public_words(seed: int) -> SeededWords:
    """Return the words of a public seed: another stream than `SeededWords(seed)`, which may make the noise.

    >>> bool(public_words(7).words(1)[0] == SeededWords(7).words(1)[0])
    False
    """
    whole("public_seed", seed, at_least=0)
    digest = hashlib.sha256(f"shuffledp public coin {seed}".encode()).digest()
    return SeededWords(int.from_bytes(digest, "big"))


def part_sizes(k: int, parts: int) -> Counts:
    """Return the sizes of `parts` nearly equal parts of k categories; the same for every seed.

    >>> part_sizes(8, 3)
    array([3, 3, 2])
    """
    return np.bincount(_shares(k, parts), minlength=parts)


def partition(k: int, parts: int, words: WordSource) -> Codes:
    """Return the part of each category: uniform among all partitions with those sizes.

    >>> np.bincount(partition(8, 3, public_words(1)))
    array([3, 3, 2])
    """
    part = np.empty(k, dtype=np.int64)
    part[_order(k, words)] = _shares(k, parts)
    return part


def split_into_groups(n: int, number: int, words: WordSource) -> list[Codes]:
    """Draw the positions of the users of each of `number` nearly equal groups, at random.

    At random, because the column may be sorted: then neighbours are no sample of the population.

    >>> [len(group) for group in split_into_groups(8, 3, public_words(1))]
    [3, 3, 2]
    """
    order, sizes = _order(n, words), part_sizes(n, number)
    return np.split(order, np.cumsum(sizes)[:-1])


def _shares(k: int, parts: int) -> Codes:
    return np.arange(k) * parts // k


def _order(size: int, words: WordSource) -> Codes:
    """Return a uniform permutation: the order of distinct keys."""
    while True:
        keys = words.words(size)
        order = np.argsort(keys)
        ranked = keys[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order
