"""The shuffle out of core is uniform, exactly: by enumeration of every choice of files and keys."""

from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import factorial

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.randomizer import forget
from shuffledp.engine import messages as module
from shuffledp.engine.messages import Spool, bucket_bits


class Fixed:
    """Files by one list, then keys by others."""

    def __init__(self, files, keys):
        self.files = list(files)
        self.keys = list(keys)

    def words(self, count, bits=64):
        if bits < 64:
            taken, self.files = self.files[:count], self.files[count:]
            return np.array(taken, dtype=np.uint8)
        return np.array(self.keys.pop(0), dtype=np.uint64)


def order(folder, files, keys, pieces):
    with Spool(folder, 1, Fixed(files, keys)) as spool:
        for piece in pieces:
            spool.put(np.array(piece, dtype=np.int64))
        parts = [part.payload for part in spool.read_shuffled(users=3)]
    return tuple(np.concatenate(parts).tolist())


def law(folder, pieces):
    """The law of the order of the messages 0, 1, 2, ... over all files and orders of keys."""
    n = sum(map(len, pieces))
    found = Counter()
    for files in product((0, 1), repeat=n):
        sizes = [files.count(0), files.count(1)]
        every = [permutations(range(size)) for size in sizes]
        weight = Fraction(1, 2**n * factorial(sizes[0]) * factorial(sizes[1]))
        for keys in product(*every):
            found[order(folder, files, keys, pieces)] += weight
    return found


@pytest.mark.parametrize("pieces", [([0, 1, 2],), ([0], [1, 2]), ([0, 1], [], [2, 3])])
def test_every_order_is_equally_likely(tmp_path, pieces):
    n = sum(map(len, pieces))
    expected = dict.fromkeys(permutations(range(n)), Fraction(1, factorial(n)))
    assert law(tmp_path, pieces) == expected


def test_a_mutant_that_does_not_permute_within_a_file_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "shuffle", lambda messages, _: forget(messages))
    assert len(law(tmp_path, ([0, 1, 2],))) < 6


@pytest.mark.parametrize("bits", [0, 1, 3, 9])
@pytest.mark.parametrize(
    "payload",
    [
        np.arange(1000),
        np.arange(1000, dtype=np.uint8),
        np.arange(3000, dtype=np.uint16).reshape(1000, 3),
        np.arange(2000).reshape(1000, 2) % 3 == 0,
        np.arange(0, dtype=np.uint64),
    ],
    ids=lambda p: f"{p.dtype} {p.shape}",
)
def test_nothing_is_lost(tmp_path, bits, payload):
    with Spool(tmp_path, bits, sdp.SeededWords(1)) as spool:
        for piece in np.array_split(payload, 7):
            spool.put(piece)
        assert spool.messages == len(payload)
        parts = [part.payload for part in spool.read_shuffled(users=1000)]
    whole = np.concatenate(parts)
    assert whole.dtype == payload.dtype
    assert sorted(whole.tolist()) == sorted(payload.tolist())
    if len(payload):
        assert whole.tolist() != payload.tolist()


def test_messages_of_another_kind_are_refused(tmp_path):
    with Spool(tmp_path, 0, sdp.SeededWords(1)) as spool:
        spool.put(np.arange(3))
        with pytest.raises(sdp.MismatchError):
            spool.put(np.arange(3, dtype=np.uint8))


def test_files_are_small_enough_and_not_too_many():
    assert bucket_bits(0, 8) == 0
    assert bucket_bits(2**22, 8) == 0
    assert bucket_bits(2**22 + 1, 8) == 1
    assert bucket_bits(1e4, 2**20) == 8  # 156 times 2^26 bytes
    assert bucket_bits(1e15, 1) == 9
