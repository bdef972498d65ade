"""Draws for simulating a whole crowd at once: the counts that many users' messages add up to.

`simulate` of a protocol asks a `Draws` for binomial and multinomial numbers only. In production these
come from NumPy's generator, seeded from a word source; a test hands in a `Draws` that follows every
branch with its exact probability, and so proves that `simulate` has the law of n devices.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.protocol import Dealt
from shuffledp.core.randomizer import Randomizer, WordSource

__all__ = ["Draws", "NumpyDraws", "Simulated", "deal_tally", "is_dealt"]


class Draws(Protocol):
    """Binomial and multinomial numbers."""

    def binomial(self, n: int, p: float) -> int:
        """The number of successes among n trials of probability p."""

    def binomials(self, n: Counts, p: float) -> Counts:
        """The same for several independent n."""

    def multinomial(self, n: int, p: Floats) -> Counts:
        """How n independent draws of 0 .. len(p)-1 fall; p sums to 1."""


@runtime_checkable
class Simulated(Protocol):
    """A randomizer that knows the law of its tally.

    >>> from shuffledp import protocols
    >>> isinstance(protocols.krr.KRR(k=3, epsilon0=5.0), Simulated)
    True
    """

    def simulate(self, inputs: Counts, draws: Draws) -> Tally:
        """The tally of inputs[x] users of code x, with the law that their messages would have."""


class NumpyDraws:
    """Draws from NumPy's PCG64, keyed with 256 bits of a word source.

    >>> from shuffledp import SeededWords
    >>> int(NumpyDraws(SeededWords(1)).multinomial(10, np.array([0.5, 0.5])).sum())
    10
    """

    def __init__(self, rng: WordSource) -> None:
        self._generator = np.random.Generator(np.random.PCG64([int(w) for w in rng.words(4)]))

    def binomial(self, n: int, p: float) -> int:
        return int(self._generator.binomial(n, p))

    def binomials(self, n: Counts, p: float) -> Counts:
        return self._generator.binomial(n, p)

    def multinomial(self, n: int, p: Floats) -> Counts:
        return self._generator.multinomial(n, p / p.sum())


def is_dealt(randomizer: Randomizer) -> bool:
    """Whether the tally of many people can be drawn without their messages."""
    return isinstance(randomizer, Dealt | Simulated)


def deal_tally(randomizer: Randomizer, inputs: Counts, source: WordSource) -> Tally:
    """The tally of inputs[x] people of each code x: dealt exactly, or simulated where that is all there is.

    >>> from shuffledp import SeededWords, protocols
    >>> deal_tally(protocols.krr.KRR(k=2, epsilon0=9.0), np.array([5, 10**9]), SeededWords(1)).users
    1000000005
    """
    if isinstance(randomizer, Dealt):
        return randomizer.deal(inputs, source)
    if isinstance(randomizer, Simulated):
        return randomizer.simulate(inputs, NumpyDraws(source))
    raise UnsupportedError(f"{type(randomizer).__name__} cannot draw a tally without messages")
