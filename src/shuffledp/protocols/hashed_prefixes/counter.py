r"""How many people have some words, from all rows of all parts: of the words that were found, and of any others.

A word of c people holds c / R of its cell in a row, R the number of rows of the part, whatever the level of the row: a
prefix is the word's own, unless somebody else's begins alike. So everybody who has the word is somewhere in its R cells,
and with several parts once in each. A row is left out if a word that was found shares its cell (all rows of a level,
if one begins alike). What else is in the other cells, in the mean, is subtracted: dummies, and the people whose words
were not found, each with the probability q that their word shares the cell, exactly

    q = a + (1 - a) / b,    a = (2^(w - l) - 1) / (2^w - 1) that the first l of w stirred bits are the same.

So counts are unbiased over the functions and the noise for words that were chosen before looking. **Errors.** With a share s
of the rows left,

    Var = (sum over these rows of the variance of clean cells, as measured) / s^2 + c (1 - s) / s + Q (sum a^(1/2) / R)^2 / s^2;

the second term are the people in rows that were left out, the third one are words that were not found and begin alike: they
are in all rows of a level together. Q = sum of n_y^2 over these words is what the cells vary more than Poisson numbers do.
Parts are independent, and weighted by their variances.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.texts import Spelt
from shuffledp.protocols.hashed_prefixes.functions import Functions

_Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """The cells of a part."""

    first: int
    """The number of its first row among the functions."""
    held: Floats
    """[rows, buckets]: how many messages are in each cell, less the dummies in the mean."""
    noise: float
    """The dummies of a cell in the mean."""


class CountedWords(NamedTuple):
    """Counts of words, and their standard errors."""

    values: Floats
    stderr: Floats


class _Part(NamedTuple):
    """What one part says about each word."""

    values: Floats
    shares: Floats
    """Of the people, those in rows that are clean; 0: nothing is said."""
    noise: Floats
    """The variance without the people of the word itself."""

    def variances(self, counts: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = np.maximum(counts, 0.0) * (1 - self.shares) / self.shares
            return np.where(self.shares > 0, self.noise + drawn, np.inf)


def count_words(
    functions: Functions,
    tables: Sequence[Table],
    codes: Spelt,
    *,
    found: Spelt,
    values: Floats,
    people: int,
) -> CountedWords:
    """Return the counts of `codes`, where the words `found`, with about these values, are known to collide."""
    listed = dict(zip(found.tolist(), values.tolist(), strict=True))
    known = np.array([code in listed for code in codes.tolist()], dtype=np.bool_)
    itself = np.array([listed.get(code, 0.0) for code in codes.tolist()])
    rest = max(people - float(values.sum()), 0.0)
    peeled, cells = functions.find_cells(found), functions.find_cells(codes)
    looks = [_Look.of(functions, table, peeled, rest) for table in tables]
    squares = max([rest, *(look.sum_squares(rest) for look in looks)])
    clean = [look.find_clean(cells, known) for look in looks]
    # Whoever shares all rows is measured in all of them.
    clean[-1] |= ~np.any([some.any(axis=0) for some in clean], axis=0)
    parts = [
        look.measure(cells, some, rest + itself, squares)
        for look, some in zip(looks, clean, strict=True)
    ]
    return _weigh(parts, _weigh(parts, np.zeros(len(codes))).values)


def _weigh(parts: Sequence[_Part], counts: Floats) -> CountedWords:
    """Return the mean of the parts, each with the weight that its variance at these counts gives it."""
    weights = np.array([1 / part.variances(counts) for part in parts])
    values = np.array([part.values for part in parts])
    total = weights.sum(axis=0)
    return CountedWords((weights * values).sum(axis=0) / total, 1 / np.sqrt(total))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Look:
    """A part, and what is known about its rows and cells."""

    table: Table
    here: slice
    """Its rows among all."""
    taken: _Cells
    """[rows, buckets]: how many of the words that were found are in each cell."""
    alike: Floats
    """The probability that another word is in the same cell of a row because it begins alike."""
    spread: Floats
    """The variance of the clean cells of each row, measured over all rows of the same length."""

    @classmethod
    def of(cls, functions: Functions, table: Table, peeled: _Cells, rest: float) -> "_Look":
        rows, buckets = table.held.shape
        here = slice(table.first, table.first + rows)
        taken = np.array([np.bincount(own, minlength=buckets) for own in peeled[here]])
        lengths, bits = functions.lengths[here], functions.bits
        spread = np.empty(rows)
        for length in set(lengths):
            same = np.array(lengths) == length
            some = table.held[same][taken[same] == 0] - rest / table.held.size
            spread[same] = np.mean(np.square(some))
        alike = np.array([(2 ** (bits - length) - 1) / (2**bits - 1) for length in lengths])
        return cls(table=table, here=here, taken=taken, alike=alike, spread=spread)

    def sum_squares(self, rest: float) -> float:
        """Q, from rows that look at all bits; 0 if there are none."""
        rows, buckets = self.table.held.shape
        whole = self.alike == 0
        if not whole.any():
            return 0.0
        beyond = float(self.spread[whole].mean()) - self.table.noise - rest / self.table.held.size
        return float(beyond * rows**2 * buckets)

    def find_clean(self, cells: _Cells, known: Bools) -> Bools:
        """[rows, words]: whether no other word that was found is in the cell."""
        each = np.arange(len(self.taken))[:, None]
        return np.asarray(self.taken[each, cells[self.here]] == known, dtype=np.bool_)

    def measure(self, cells: _Cells, clean: Bools, others: Floats, squares: float) -> _Part:
        """`others`: how many people have neither the word nor one of those that were found, or have it themselves."""
        rows, buckets = self.table.held.shape
        meets = (self.alike + (1 - self.alike) / buckets)[:, None]
        held = self.table.held[np.arange(rows)[:, None], cells[self.here]]
        sums = np.where(clean, held - others * meets / rows, 0.0).sum(axis=0)
        shares = (clean * (1 - meets)).sum(axis=0) / rows
        together = (clean * np.sqrt(self.alike)[:, None]).sum(axis=0) / rows
        noise = (clean * self.spread[:, None]).sum(axis=0) + squares * together**2
        with np.errstate(divide="ignore", invalid="ignore"):
            return _Part(np.where(shares > 0, sums / shares, 0.0), shares, noise / shares**2)
