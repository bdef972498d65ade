"""Every tape of a few bits, once: the exact law of whatever reads words."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from shuffledp.core.arrays import Words
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.randomizer import Law, Message, Randomizer, WordSource

MOST_TAPES = 20_000
_MOST_TAPE_BITS = 20


def all_tapes(word_bits: int, words: int) -> Words:
    """Return every tape once: words[2^(word_bits * words), words].

    >>> all_tapes(2, 1).ravel()
    array([0, 1, 2, 3], dtype=uint8)
    """
    total = word_bits * words
    assert total <= _MOST_TAPE_BITS, f"{total} bits of tape are too many to enumerate"
    number = np.arange(1 << total, dtype=np.uint64)
    shifts = np.arange(words, dtype=np.uint64) * np.uint64(word_bits)
    mask = np.uint64((1 << word_bits) - 1)
    width = next(size for size in (1, 2, 4, 8) if 8 * size >= word_bits)
    tapes: Words = ((number[:, None] >> shifts) & mask).astype(f"u{width}")
    return tapes


def enumerate_law(randomizer: Randomizer, x: int) -> Law:
    """Return the law of `encode` for one input, counted over every tape.

    >>> from shuffledp.protocols.krr import KRR
    >>> krr = KRR(k=3, epsilon0=1.0, word_bits=4)
    >>> enumerate_law(krr, 0) == krr.pmf(0)
    True
    """
    tapes = all_tapes(randomizer.word_bits, randomizer.words_per_input)
    messages = randomizer.encode(np.full(len(tapes), x), tapes)
    if isinstance(messages.owner, range):
        rows, counts = np.unique(messages.payload, axis=0, return_counts=True)
        return {
            (_make_message(row),): Fraction(int(c), len(tapes))
            for row, c in zip(rows.tolist(), counts, strict=True)
        }
    owner = np.asarray(messages.owner)
    order = np.argsort(owner, kind="stable")
    sent = [_make_message(row) for row in messages.payload[order].tolist()]
    ends = np.searchsorted(owner[order], np.arange(messages.users + 1))
    seen = Counter(tuple(sent[a:b]) for a, b in pairwise(ends))
    return {one: Fraction(count, len(tapes)) for one, count in seen.items()}


class ScriptedWords:
    """A source of words that answers from a script, and says when the script is at its end."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = list(script)
        self.probability = Fraction(1)

    def words(self, count: int, bits: int = 64) -> Words:
        width = next(size for size in (1, 2, 4, 8) if 8 * size >= bits)
        if count == 0:
            return np.zeros(0, dtype=f"u{width}")
        total = count * bits
        if not self._script:
            raise _EndOfScriptError(total)
        number = self._script.pop(0)
        self.probability /= 1 << total
        words = [number >> bits * i & ((1 << bits) - 1) for i in range(count)]
        return np.array(words, dtype=f"u{width}")


class _EndOfScriptError(Exception):
    """The next words could be any of this many bits."""

    def __init__(self, bits: int) -> None:
        self.bits = bits


Outcome = TypeVar("Outcome", bound=Hashable)


def enumerate_outcomes(
    run: Callable[[WordSource], Outcome], most: int = MOST_TAPES
) -> dict[Outcome, Fraction]:
    """Return the exact law of run(source): every tape once, each as long as it has to be.

    `UnsupportedError` if there are more than `most`.

    >>> enumerate_outcomes(lambda source: int(source.words(3, 1).sum()))[2]
    Fraction(3, 8)
    """
    law: dict[Outcome, Fraction] = {}
    tapes = 0
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        script = scripts.pop()
        source = ScriptedWords(script)
        try:
            outcome = run(source)
        except _EndOfScriptError as end:
            if tapes + len(scripts) + (1 << end.bits) > most:
                raise UnsupportedError("too many tapes to enumerate") from None
            scripts.extend((*script, number) for number in range(1 << end.bits))
            continue
        tapes += 1
        law[outcome] = law.get(outcome, Fraction(0)) + source.probability
    return law


def _make_message(row: Any) -> Message:
    return tuple(map(int, row)) if isinstance(row, list) else int(row)
