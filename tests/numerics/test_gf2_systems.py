"""Linear systems over GF(2): every solution, and nothing else."""

import numpy as np
import pytest

from shuffledp.numerics import gf2_systems
from shuffledp.numerics.gf2_systems import parity, solutions


def counted(columns, target, below):
    found = [part for part in solutions(columns, target, below) if len(part)]
    return np.bincount(np.concatenate([[], *found]).astype(int), minlength=1 << len(columns))


def tried(columns, target, below):
    counts = np.zeros(1 << len(columns), dtype=int)
    for x in range(len(counts)):
        image = np.zeros_like(target)
        for i, column in enumerate(columns):
            image ^= column * (x >> i & 1)
        counts[x] = np.count_nonzero((image ^ target) < below)
    return counts


@pytest.mark.parametrize(
    ("unknowns", "bits", "below"),
    [(1, 1, 1), (5, 3, 1), (5, 4, 3), (3, 6, 5), (6, 2, 3), (4, 4, 16), (7, 32, 1 << 27)],
)
def test_all_solutions_are_found(unknowns, bits, below):
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 1 << bits, 500).astype(np.uint32) for _ in range(unknowns)]
    columns[0][:50] = 0  # systems that are not of full rank
    target = rng.integers(0, 1 << bits, 500).astype(np.uint32)
    target[:20] = 0
    np.testing.assert_array_equal(counted(columns, target, below), tried(columns, target, below))


def test_portions_do_not_matter(monkeypatch):
    rng = np.random.default_rng(2)
    columns = [rng.integers(0, 16, 300).astype(np.uint8) for _ in range(6)]
    target = rng.integers(0, 16, 300).astype(np.uint8)
    whole = counted(columns, target, 3)
    monkeypatch.setattr(gf2_systems, "_SYSTEMS", 7)
    monkeypatch.setattr(gf2_systems, "_LISTED", 16)
    np.testing.assert_array_equal(counted(columns, target, 3), whole)


def test_no_systems():
    assert list(solutions([np.zeros(0, dtype=np.uint8)], np.zeros(0, dtype=np.uint8), 1)) == []


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_parity(dtype):
    words = np.random.default_rng(3).integers(0, np.iinfo(dtype).max, 200, dtype=dtype)
    assert parity(words).tolist() == [word.bit_count() % 2 for word in words.tolist()]
