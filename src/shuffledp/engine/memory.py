"""The in-memory engine: a column in memory, a tape that is drawn and forgotten chunk by chunk."""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Tally
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource, randomize
from shuffledp.core.shuffler import forget
from shuffledp.numerics.entropy import SecureWords

__all__ = ["run", "tally"]

_CHUNK_BYTES = 1 << 20  # a chunk of tape, its messages and temporaries stay in the CPU's cache


def tally(protocol: ShuffleProtocol, values: ArrayLike, rng: WordSource) -> Tally:
    """Randomize and tally a column, without ever holding more than a chunk of tape.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> tally(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).counts
    array([1, 2, 3])
    """
    column = np.asarray(values)
    randomizer, analyzer = protocol.randomizer, protocol.analyzer
    word_bytes = -(-randomizer.word_bits // 8)
    step = max(1, _CHUNK_BYTES // (word_bytes * randomizer.words_per_input))
    total = analyzer.tally(forget(randomize(randomizer, column[:step], rng)))
    for start in range(step, len(column), step):
        messages = randomize(randomizer, column[start : start + step], rng)
        total += analyzer.tally(forget(messages))
    return total


def run(protocol: ShuffleProtocol, values: ArrayLike, rng: WordSource | None = None) -> Estimate:
    """Randomize, shuffle, tally and estimate a column; secure words unless a source is given.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> run(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).value.round(2)
    array([0.98, 2.  , 3.02])
    """
    source = SecureWords() if rng is None else rng
    return protocol.analyzer.estimate(tally(protocol, values, source))
