"""Whose words are whose: user number r has the same stretch of the tape in every engine."""

import threading

from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import Randomizer, WordSource
from shuffledp.numerics.entropy import SecureWords, SeededWords

__all__ = ["Tapes"]


class Tapes:
    """Word sources for workers that each take some rows.

    Without a seed every worker has a secure source of its own. With one, row r reads the words
    r * words_per_input and following of the seed's stream, whatever the pieces and their order.

    >>> from shuffledp import protocols
    >>> rr = protocols.rr.make_local(epsilon=1.0).randomizer
    >>> Tapes(rr, SeededWords(7)).at(1).words(1)
    array([6715552757042428571], dtype=uint64)
    """

    __slots__ = ("_bits", "_local", "_rng", "_width")

    def __init__(self, randomizer: Randomizer, rng: WordSource | None) -> None:
        if rng is not None and not isinstance(rng, SecureWords | SeededWords):
            raise ParameterError("rng", rng, "must be SecureWords or SeededWords")
        self._width = randomizer.words_per_input
        self._bits = randomizer.word_bits
        self._rng = rng
        self._local = threading.local()

    def at(self, row: int) -> WordSource:
        """Where the user of that row (counted from 0) finds words."""
        if isinstance(self._rng, SeededWords):
            return self._rng.ahead(row * self._width, self._bits)
        if "source" not in self._local.__dict__:
            self._local.source = SecureWords()
        source: SecureWords = self._local.source
        return source

    def finish(self, rows: int) -> None:
        """Leave a seeded source where one reader of all these rows would have left it."""
        if isinstance(self._rng, SeededWords):
            self._rng.skip(rows * self._width, self._bits)
