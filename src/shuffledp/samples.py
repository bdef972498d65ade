"""Generated data, to try things on: nobody's secrets, and the same for everybody.

The people are drawn from a stated distribution with a fixed seed, so that every reader of the
tutorial sees the same truth. (The *noise* of a demo is a different matter: it is secure.)
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from shuffledp.core.arrays import Codes, Counts
from shuffledp.core.domain import Categories
from shuffledp.core.validate import whole
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.tape import table

__all__ = ["Sample", "commuters"]

_SEED = 1965  # the year of Warner's randomized response
_WORD_BITS = 64

_COMMUTES: tuple[tuple[str, Fraction], ...] = (
    ("car", Fraction(380, 1000)),
    ("bicycle", Fraction(170, 1000)),
    ("bus", Fraction(132, 1000)),
    ("train", Fraction(98, 1000)),
    ("on foot", Fraction(84, 1000)),
    ("tram", Fraction(61, 1000)),
    ("at home", Fraction(42, 1000)),
    ("motorcycle", Fraction(21, 1000)),
    ("scooter", Fraction(9, 1000)),
    ("ferry", Fraction(3, 1000)),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """A column of categories: one code per person."""

    title: str
    domain: Categories
    codes: Codes

    @property
    def counts(self) -> Counts:
        """The true histogram.

        >>> commuters(1000).counts.sum()
        np.int64(1000)
        """
        return np.bincount(self.codes, minlength=self.domain.k)


def commuters(n: int = 100_000) -> Sample:
    """How n people get to work: ten ways, from the car (38 percent) to the ferry (0.3 percent).

    The first people of a larger sample are the people of a smaller one.

    >>> people = commuters(5)
    >>> people.title
    'How 5 people get to work'
    >>> [people.domain.labels[code] for code in people.codes]
    ['car', 'train', 'bicycle', 'tram', 'bicycle']
    """
    whole("n", n, at_least=1)
    names = tuple(name for name, _ in _COMMUTES)
    words = SeededWords(_SEED).words(n, _WORD_BITS)
    return Sample(
        title=f"How {n:,} people get to work",
        domain=Categories(k=len(names), names=names),
        codes=table(words, _shares(), _WORD_BITS),
    )


def _shares() -> tuple[int, ...]:
    ends = [0]
    upto = Fraction(0)
    for _, probability in _COMMUTES:
        upto += probability
        ends.append(int(upto * 2**_WORD_BITS))
    return tuple(high - low for low, high in pairwise(ends))
