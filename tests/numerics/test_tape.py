"""Every function of the tape over every word of a few bits, against its declared law."""

from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from shuffledp import ParameterError
from shuffledp.numerics import tape
from support import all_tapes


def counted(draws):
    """The exact law of draws that were made once for each word."""
    return {value: Fraction(count, len(draws)) for value, count in Counter(draws).items()}


def every_word(bits):
    return all_tapes(bits, 1)[:, 0]


class TestBernoulli:
    @pytest.mark.parametrize("bits", [1, 2, 5, 8])
    def test_every_threshold(self, bits):
        for threshold in range((1 << bits) + 1):
            draws = tape.bernoulli(every_word(bits), threshold, bits).tolist()
            assert sum(draws) == threshold

    def test_64_bits(self):
        words = np.array([0, 2**63, 2**64 - 1], dtype=np.uint64)
        assert tape.bernoulli(words, 2**63, 64).tolist() == [True, False, False]
        assert tape.bernoulli(words, 2**64 - 1, 64).tolist() == [True, True, False]
        assert tape.bernoulli(words, 2**64, 64).all()

    @pytest.mark.parametrize("threshold", [-1, 9])
    def test_threshold_outside(self, threshold):
        with pytest.raises(ParameterError, match="threshold"):
            tape.bernoulli(every_word(3), threshold, 3)


class TestUniform:
    @pytest.mark.parametrize("bits", [1, 3, 6, 8])
    def test_every_k(self, bits):
        for k in range(1, (1 << bits) + 1):
            draws = [int(v) if v < k else None for v in tape.uniform(every_word(bits), k, bits)]
            law = tape.uniform_law(k, bits)
            assert counted(draws) == law
            assert {law[value] for value in range(k)} == {Fraction((1 << bits) // k, 1 << bits)}

    def test_power_of_two_is_never_rejected(self):
        for k in (1, 2, 4, 8):
            assert None not in tape.uniform_law(k, 3)

    def test_64_bits(self):
        words = np.array([0, 2**64 - 2, 2**64 - 1], dtype=np.uint64)
        # 2^64 = 3 m + 1: one word is left over, the last one.
        assert tape.uniform(words, 3, 64).tolist() == [0, 2, 3]
        assert tape.uniform(words, 1, 64).tolist() == [0, 0, 0]
        assert tape.uniform(words, 2**64, 64).tolist() == words.tolist()

    @pytest.mark.parametrize("k", [0, -1, 9])
    def test_k_outside(self, k):
        with pytest.raises(ParameterError, match="k"):
            tape.uniform(every_word(3), k, 3)
        with pytest.raises(ParameterError, match="k"):
            tape.uniform_law(k, 3)


SHARES = [
    (8,),
    (3, 5),
    (0, 8),
    (8, 0),
    (8, 0, 0),
    (0, 0, 8),
    (0, 8, 0),
    (1, 0, 0, 7, 0),
    (0, 3, 0, 5),
    (7, 1, 0, 0),
    (1,) * 8,
    (0, 1, 0, 1, 0, 6, 0),
]


class TestTable:
    @pytest.mark.parametrize("shares", SHARES, ids=str)
    def test_law(self, shares):
        draws = tape.table(every_word(3), shares, 3).tolist()
        assert counted(draws) == tape.table_law(shares, 3)
        assert [draws.count(i) for i in range(len(shares))] == list(shares)

    @pytest.mark.parametrize("bits", [8, 16])
    def test_words_that_fill_their_type(self, bits):
        total = 1 << bits
        for shares in [(total,), (total, 0), (total - 1, 1), (1, total - 1), (0, total, 0)]:
            draws = tape.table(every_word(bits), shares, bits)
            assert np.bincount(draws, minlength=len(shares)).tolist() == list(shares)

    def test_64_bits(self):
        words = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
        assert tape.table(words, (2**63, 0, 2**63), 64).tolist() == [0, 0, 2, 2]
        assert tape.table(words, (2**64 - 1, 1, 0), 64).tolist() == [0, 0, 0, 1]
        assert tape.table(words, (2**64, 0), 64).tolist() == [0, 0, 0, 0]

    @pytest.mark.parametrize("shares", [(), (7,), (9,), (-1, 9), (4, 5)], ids=str)
    def test_wrong_shares(self, shares):
        with pytest.raises(ParameterError, match="shares"):
            tape.table(every_word(3), shares, 3)
        with pytest.raises(ParameterError, match="shares"):
            tape.table_law(shares, 3)


UNIVERSES = [
    (1, 1, 4),
    (2, 1, 4),
    (2, 2, 3),
    (3, 2, 5),
    (4, 2, 5),
    (4, 4, 3),
    (5, 0, 3),
    (5, 3, 4),
    (7, 2, 6),
    (8, 4, 3),
    (16, 3, 4),
]


def subsets_of(chosen, accepted):
    return [
        frozenset(np.flatnonzero(row).tolist()) if kept else None
        for row, kept in zip(chosen, accepted, strict=True)
    ]


def combination(words, universe, bits):
    """A uniform subset of 0 .. universe-1 with as many elements as words has columns, and the accepted rows."""
    chosen = np.zeros((len(words), universe), dtype=bool)
    return chosen, tape.add_distinct(chosen, words, universe - words.shape[1], bits)


class TestCombination:
    @pytest.mark.parametrize(("universe", "size", "bits"), UNIVERSES)
    def test_law(self, universe, size, bits):
        tapes = all_tapes(bits, size)
        law = counted(subsets_of(*combination(tapes, universe, bits)))
        accepted = tape.acceptance(universe - size, size, bits)
        assert law.pop(None, 0) == 1 - accepted
        subsets = [frozenset(s) for s in combinations(range(universe), size)]
        assert law == dict.fromkeys(subsets, accepted / len(subsets))

    @pytest.mark.parametrize("start", [0, 1, 2, 3])
    def test_adding_keeps_a_uniform_set_uniform(self, start):
        """From every set of `start` of 0 .. 3, two steps later: uniform in 0 .. 5."""
        before = [set(s) for s in combinations(range(4), start)]
        tapes = all_tapes(4, 2)
        draws = []
        for members in before:
            chosen = np.zeros((len(tapes), 7), dtype=bool)
            chosen[:, sorted(members)] = True
            draws += subsets_of(chosen, tape.add_distinct(chosen, tapes, 4, 4))
        law = counted(draws)
        rejected = 1 - tape.acceptance(4, 2, 4)
        assert law.pop(None) == rejected > 0
        assert law.keys() == {frozenset(s) for s in combinations(range(6), start + 2)}
        assert len(set(law.values())) == 1

    def test_rejection_does_not_depend_on_the_set(self):
        tapes = all_tapes(4, 2)
        empty = np.zeros((len(tapes), 6), dtype=bool)
        full = np.zeros((len(tapes), 6), dtype=bool)
        full[:, :4] = True
        np.testing.assert_array_equal(
            tape.add_distinct(empty, tapes, 4, 4), tape.add_distinct(full, tapes, 4, 4)
        )

    def test_64_bits(self):
        last = np.full((1, 2), 2**64 - 1, dtype=np.uint64)
        _, accepted = combination(last, 4, 64)  # the draw below 3 rejects the last word
        assert not accepted.any()
        chosen, accepted = combination(last, 2, 64)
        assert accepted.all()
        assert chosen.all()

    def test_no_rows(self):
        chosen, accepted = combination(np.empty((0, 2), dtype=np.uint64), 5, 64)
        assert chosen.shape == (0, 5)
        assert accepted.shape == (0,)

    def test_needs_its_memory_in_one_piece(self):
        scattered = np.zeros((3, 10), dtype=bool)[:, ::2]
        with pytest.raises(ParameterError, match="chosen"):
            tape.add_distinct(scattered, np.zeros((3, 1), dtype=np.uint64), 2, 64)

    def test_larger_than_the_universe(self):
        with pytest.raises(ParameterError, match="k"):
            combination(np.zeros((1, 3), dtype=np.uint64), 2, 64)

    @pytest.mark.parametrize("bits", [3, 5, 8])
    def test_acceptance_in_floats(self, bits):
        for first in (0, 1, 4):
            for size in (1, 2, 4):
                exact = float(tape.acceptance(first, size, bits))
                assert tape.acceptance_float(first, size, bits) == pytest.approx(exact, rel=1e-14)
