"""What the tests share: every tape of a few bits, and the one false-alarm rate."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from contract.examples import EXAMPLES
from shuffledp.core.randomizer import Law, Randomizer

ALPHA = 1e-9
"""False-alarm rate of each statistical comparison."""

MAX_TAPE_BITS = 20


def all_tapes(word_bits: int, words: int) -> np.ndarray:
    """Every tape once: words[2^(word_bits * words), words]."""
    total = word_bits * words
    assert total <= MAX_TAPE_BITS, f"{total} bits of tape are too many to enumerate"
    number = np.arange(1 << total, dtype=np.uint64)
    shifts = np.arange(words, dtype=np.uint64) * np.uint64(word_bits)
    mask = np.uint64((1 << word_bits) - 1)
    width = next(size for size in (1, 2, 4, 8) if 8 * size >= word_bits)
    return ((number[:, None] >> shifts) & mask).astype(f"u{width}")


def enumerated_law(randomizer: Randomizer, x: int) -> Law:
    """The law of `encode` for one input, counted over every tape."""
    tapes = all_tapes(randomizer.word_bits, randomizer.words_per_input)
    messages = randomizer.encode(np.full(len(tapes), x), tapes)
    if isinstance(messages.owner, range):
        rows, counts = np.unique(messages.payload, axis=0, return_counts=True)
        keys = [tuple(map(int, row)) if row.ndim else int(row) for row in rows]
        return {(key,): Fraction(int(c), len(tapes)) for key, c in zip(keys, counts, strict=True)}
    owner = np.asarray(messages.owner)
    order = np.argsort(owner, kind="stable")
    rows = messages.payload[order].tolist()
    sent = [tuple(map(int, row)) if isinstance(row, list) else int(row) for row in rows]
    ends = np.searchsorted(owner[order], np.arange(messages.users + 1))
    seen = Counter(tuple(sent[a:b]) for a, b in pairwise(ends))
    return {one: Fraction(count, len(tapes)) for one, count in seen.items()}


def data_sets(size: int, n: int):
    """Every data set of n codes."""
    return product(range(size), repeat=n)


def any_protocol(spec):
    """The first example of a registered protocol, local if it has one."""
    if spec.make_local:
        return spec.make_local(**EXAMPLES[spec.name].local[0])
    return spec.make(**EXAMPLES[spec.name].shuffled[0])
