"""Public randomness: random parts of the categories, and random groups of the users.

A public coin is a seed that everybody may know, drawn without looking at the data. Devices and
analyzer derive the same parts and groups from it. Privacy never rests on it: for every seed the
messages of the protocol are as private as promised.
"""

import hashlib

import numpy as np

from shuffledp.core.arrays import Codes, Counts
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics.entropy import SeededWords

__all__ = ["part_sizes", "partition", "public_words", "split_into_groups"]


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
    """Positions of the users of each of `number` nearly equal groups, at random.

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
