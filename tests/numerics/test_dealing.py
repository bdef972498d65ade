"""Dealing: on every tape, bit for bit against a plain count, and by statistics at 64 bits."""

import subprocess
import sys
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2, chisquare, pearsonr

from branches import add_up
from shuffledp import ParameterError, SecureWords, SeededWords
from shuffledp.numerics import dealing
from shuffledp.numerics.dealing import (
    binomial,
    binomials,
    deal,
    deal_uniform,
    deal_uniforms,
)
from shuffledp.testing import ScriptedWords, enumerate_outcomes
from support import ALPHA


def one_person(shares, outcomes, at, bits):
    """One word: shares[i] of 2^bits words add one to place at[i]."""
    law = {}
    for share, place in zip(shares, at, strict=True):
        vector = tuple(int(i == place) for i in range(outcomes))
        if share:
            law[vector] = law.get(vector, Fraction(0)) + Fraction(share, 1 << bits)
    return law


@pytest.fixture(params=[0, dealing._FEW], ids=["by halving alone", "few one by one"])
def _both_ways(request, monkeypatch):
    monkeypatch.setattr(dealing, "_FEW", request.param)


@pytest.mark.usefixtures("_both_ways")
class TestEveryTape:
    @pytest.mark.parametrize("threshold", range(9))
    def test_binomial(self, threshold):
        law = enumerate_outcomes(lambda source: binomial(3, threshold, 3, source))
        p = Fraction(threshold, 8)
        masses = {k: (1, 3, 3, 1)[k] * p**k * (1 - p) ** (3 - k) for k in range(4)}
        assert law == {k: mass for k, mass in masses.items() if mass}

    @pytest.mark.parametrize("thresholds", [(0, 4), (1, 3), (2, 2), (4, 3), (3, 1)])
    def test_binomials(self, thresholds):
        counts = (3, 2)
        law = enumerate_outcomes(lambda source: tuple(binomials(counts, thresholds, 2, source)))
        people = [
            one_person((t, 4 - t), 3, (i, 2), 2)
            for i, (count, t) in enumerate(zip(counts, thresholds, strict=True))
            for _ in range(count)
        ]
        expected = {}
        for vector, p in add_up(people).items():
            expected[vector[:2]] = expected.get(vector[:2], 0) + p
        assert law == expected

    @pytest.mark.parametrize(
        ("bits", "counts", "own", "common"),
        [
            (1, (2, 2), [[1]], [1]),
            (2, (2, 1), [[1]], [1, 1, 1]),
            (2, (1, 2), [[1], [1]], [1, 0, 2]),
            (2, (2, 2), [[1, 2], [3, 0]], [1]),
            (2, (2, 0, 1), [[0, 4], [4, 0], [1, 3]], []),
            (2, (3,), [[1, 1, 2]], []),
            (2, (4,), [[0]], [1, 2, 1]),
            (2, (4,), [[4, 0]], []),
            (3, (3,), [[2]], [3, 3]),
            (3, (1, 2), [[5]], [1, 1, 1]),
            (3, (2, 1), [[1, 4], [3, 2]], [2, 1]),
            (3, (1, 1, 1), [[7], [7], [7]], [1]),
            (3, (1, 2), [[3, 5], [6, 2]], []),
            (4, (1, 1), [[6, 0, 1], [0, 5, 2]], [4, 5]),
            (4, (2,), [[1]], [3, 3, 3, 3, 3]),
            (4, (1, 1, 1), [[2, 5], [7, 0], [3, 4]], [1, 6, 2]),
            (3, (2, 2), [[2]], [1, 2, 3]),
            (3, (1, 1, 2), [[2, 2], [1, 3], [4, 0]], [4, 0, 0]),
            (2, (3, 3), [[3, 0], [1, 2]], [1]),
            (6, (1, 1), [[11], [11]], [27, 26]),
        ],
    )
    def test_deal(self, bits, counts, own, common):
        """Equal, as fractions, to the convolution of the laws of single people."""

        def run(source):
            dealt = deal(counts, own, bits, source, common=common)
            return (*dealt.own.ravel().tolist(), *dealt.common.tolist())

        rows = own * len(counts) if len(own) == 1 else own
        cells, size = len(own[0]), len(counts) * len(own[0])
        everything = size + len(common)
        people = [
            one_person(
                (*row, *common),
                everything,
                (*range(x * cells, (x + 1) * cells), *range(size, everything)),
                bits,
            )
            for x, (count, row) in enumerate(zip(counts, rows, strict=True))
            for _ in range(count)
        ]
        assert enumerate_outcomes(run) == add_up(people)

    @pytest.mark.parametrize(("m", "cells", "bits"), [(3, 3, 2), (2, 5, 4), (3, 1, 3), (4, 4, 2)])
    def test_deal_uniform(self, m, cells, bits):
        def run(source):
            counts, rest = deal_uniform(m, cells, bits, source)
            return (*counts.tolist(), rest)

        share, rest = divmod(1 << bits, cells)
        person = one_person((*[share] * cells, rest), cells + 1, range(cells + 1), bits)
        assert enumerate_outcomes(run) == add_up([person] * m)

    @pytest.mark.parametrize("counts", [[5000, 3, 0, 2], [7, 7, 10**6, 1, 1], [0], []])
    @pytest.mark.parametrize(("cells", "bits"), [(1, 3), (4, 2), (5, 64), (300, 9)])
    def test_several_numbers_of_words_are_dealt_one_after_the_other(self, counts, cells, bits):
        alone, together = SeededWords(4), SeededWords(4)
        one_by_one = [deal_uniform(m, cells, bits, alone) for m in counts]
        at_once = deal_uniforms(counts, cells, bits, together)
        assert [(landed.tolist(), rest) for landed, rest in at_once] == [
            (landed.tolist(), rest) for landed, rest in one_by_one
        ]
        assert together.words(1) == alone.words(1)

    @pytest.mark.parametrize(("cells", "bits"), [(256, 16), (300, 9), (1000, 64), (65_536, 64)])
    def test_many_cells_of_one_width_are_found_by_dividing(self, cells, bits):
        share, rest = divmod(1 << bits, cells)
        table = dealing._Table.of([[rest]], [share] * cells, bits, 1)
        last = table.last[: table.shared]
        words = np.concatenate([last, last - np.uint64(1), last + np.uint64(1)])  # 2^64 is 0
        words = np.append(words, np.array([0, (1 << bits) - 1], dtype=np.uint64))
        assert (table.width, table.shared) == (share, cells)
        np.testing.assert_array_equal(table.find_common(words), last.searchsorted(words))
        short = np.array([0, 255], dtype=np.uint8)  # words of a few bits have types of few
        np.testing.assert_array_equal(table.find_common(short), last.searchsorted(short))

    def test_cells_of_other_widths_are_searched_for(self):
        shares = [100] * 299 + [101]
        table = dealing._Table.of([[65_536 - sum(shares)]], shares, 16, 1)
        words = np.arange(1 << 16, dtype=np.uint64)
        assert table.width == 0
        found = table.find_common(words)
        np.testing.assert_array_equal(found, table.last[:300].searchsorted(words))
        assert np.bincount(found)[[298, 299, 300]].tolist() == [100, 101, 65_536 - sum(shares)]

    @pytest.mark.parametrize("count", [1_000, 1_000_000], ids=["one by one", "by halving"])
    def test_many_cells_are_in_memory_for_one_number_at_a_time(self, count):
        cells = 100_000

        def peak(numbers):
            tracemalloc.start()
            for _ in deal_uniforms([count] * numbers, cells, 64, SeededWords(1)):
                pass
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return most

        assert peak(12) - peak(2) < 4 * 8 * cells

    def test_mutant_that_conditions_on_acceptance_is_caught(self):
        """A binomial number of accepted words, dealt evenly: not the law of two bits."""

        def run(source):
            accepted = binomial(2, 3, 2, source)
            counts, _ = deal_uniform(accepted, 3, 2, source)
            return (*counts.tolist(), 2 - int(counts.sum()))

        person = one_person((1, 1, 1, 1), 4, range(4), 2)
        assert enumerate_outcomes(run) != add_up([person] * 2)


def test_mutant_that_cuts_at_the_wrong_word_is_caught(monkeypatch):
    honest = dealing._Table.find

    def find(table, word, low, high):
        return honest(table, word - (low < high), low, high)

    monkeypatch.setattr(dealing._Table, "find", find)
    monkeypatch.setattr(dealing, "_FEW", 0)
    monkeypatch.setattr(dealing, "_SHORT", 0)  # no step is remembered, neither right nor wrong
    person = one_person((3, 4, 1), 3, range(3), 3)

    def run(source):
        return tuple(deal([2], [[3, 4, 1]], 3, source).own[0].tolist())

    assert enumerate_outcomes(run) != add_up([person] * 2)


@pytest.mark.parametrize("m", [10**9, 10**12])
def test_as_many_as_there_are(m):
    """Within 7 standard deviations (ALPHA and a little), and nobody is lost."""
    p = 0x4CCCCCCCCCCCCCCD  # 0.3
    sd = (0.21 * m) ** 0.5
    assert abs(binomial(m, p, 64, SeededWords(1)) - 0.3 * m) < 7 * sd
    truth, lies = deal([m, 1], [[p]], 64, SeededWords(2), common=[p, (1 << 64) - 2 * p])
    assert abs(truth[0, 0] - 0.3 * m) < 7 * sd
    assert abs(lies[0] - 0.3 * m) < 7 * sd
    assert truth.sum() + lies.sum() == m + 1


def test_the_same_seed_deals_the_same_everywhere():
    """Fixed for ever, on every platform."""
    known = deal([700, 200, 100], [[10]], 4, SeededWords(1), common=[2, 2, 2])
    assert (known.own.tolist(), known.common.tolist()) == ([[446], [125], [60]], [147, 98, 124])
    assert binomial(10**7, (1 << 64) // 3, 64, SeededWords(2)) == 3333506
    counts, rest = deal_uniform(10**5, 5, 64, SeededWords(3))
    assert (counts.tolist(), rest) == ([19996, 20073, 20058, 20112, 19761], 0)
    people = [10**9, 5 * 10**6, 4000]
    large = deal(people, [[3 << 62]], 64, SeededWords(4), common=[1 << 61, 1 << 61])
    assert large.own.tolist() == [[750023653], [3748857], [3048]]
    assert large.common.tolist() == [125620075, 125608367]


@pytest.mark.parametrize("people", [0, 3, 10**4, 10**7])
@pytest.mark.parametrize("rows", [1, 5])
def test_remembered_steps_deal_the_same(people, rows, monkeypatch):
    """A short table remembers its steps; a long one leaves out whoever is nobody. Both read the same words."""
    counts = [people, 0, people // 7, 1, 2 * people]
    own = [[2**62 + row, 2**61, 0, 2**61 - row] for row in range(rows)]

    def run():
        source = SeededWords(11)
        dealt = deal(counts, own, 64, source, common=[2**61, 0, 2**61 - 9, 2**62 + 9])
        return dealt.own.tolist(), dealt.common.tolist(), source.words(1).tolist()

    remembered = run(), run()
    monkeypatch.setattr(dealing, "_SHORT", 0)
    assert remembered == (run(),) * 2


def both_tails(counts, shares):
    """Pearson's statistic: how likely it is to be as large, and as small."""
    expected = np.array([float(Fraction(share, 1 << 64)) for share in shares]) * counts.sum()
    assert expected.min() > 100
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return chi2.sf(statistic, len(counts) - 1), chi2.cdf(statistic, len(counts) - 1)


def some_shares(cells, seed):
    cuts = sorted(SeededWords(seed).words(cells - 1).tolist())
    return [b - a for a, b in zip((0, *cuts), (*cuts, 1 << 64), strict=True)]


SHARES = some_shares(30, 4)


class TestProductionWidth:
    def deal(self, source=None, people=10**7):
        codes = [people // 4, people - people // 4]
        # The last five cells are each code's own, and the others common.
        dealt = deal(codes, [SHARES[25:]], 64, source or SeededWords(8), common=SHARES[:25])
        return np.concatenate([dealt.common, dealt.own.sum(axis=0)])

    def test_cells_of_all_sizes(self):
        assert min(both_tails(self.deal(), SHARES)) > ALPHA

    def test_mutant_with_two_cells_confused(self):
        wrong = [SHARES[1], SHARES[0], *SHARES[2:]]
        assert min(both_tails(self.deal(), wrong)) < ALPHA

    def test_mutant_that_halves_without_noise(self, monkeypatch):
        monkeypatch.setattr(dealing, "_toss", lambda counts, _: counts // 2)
        assert min(both_tails(self.deal(), SHARES)) < ALPHA

    @pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.02, False)])
    def test_binomials(self, factor, right):
        """40,000 binomial numbers of 60 trials against their masses."""
        p = 0.3712
        threshold = int(p * factor * 2**64)
        seen = binomials([60] * 40_000, [threshold] * 40_000, 64, SeededWords(9))
        masses = binom.pmf(np.arange(61), 60, p)
        inner = slice(10, 36)
        counts = np.bincount(seen, minlength=61)
        found = np.append(counts[inner], counts.sum() - counts[inner].sum())
        expected = np.append(masses[inner], 1 - masses[inner].sum()) * len(seen)
        assert (chisquare(found, expected).pvalue > ALPHA) == right

    @pytest.mark.parametrize("cells", [1000, 1024])
    def test_equal_cells(self, cells):
        counts, rest = deal_uniform(10**6, cells, 64, SeededWords(10))
        assert counts.sum() + rest == 10**6
        assert min(both_tails(counts, [(1 << 64) // cells] * cells)) > ALPHA

    def correlate(self):
        """How likely so much correlation is between two codes of 10^4 people each, dealt 1,000 times."""
        source = SeededWords(11)
        share = (1 << 64) // 5
        own = [
            deal([10**4, 10**4], [[(1 << 64) - share]], 64, source, common=[share]).own[:, 0]
            for _ in range(1000)
        ]
        return pearsonr(*np.transpose(own)).pvalue

    def test_codes_are_independent(self):
        assert self.correlate() > ALPHA

    def test_mutant_that_reads_bits_twice(self, monkeypatch):
        def toss(counts, source):
            bits = source.words(int(counts.max()), 1)
            return np.append(0, np.cumsum(bits, dtype=np.int64))[counts]

        monkeypatch.setattr(dealing, "_toss", toss)
        assert self.correlate() < ALPHA


class TestTables:
    def test_nobody(self):
        dealt = deal([0, 0], [[1]], 1, SecureWords(), common=[1])
        assert (dealt.own.tolist(), dealt.common.tolist()) == ([[0], [0]], [0])
        assert deal([], [[1]], 1, SecureWords(), common=[1]).own.shape == (0, 1)
        assert binomials([], [], 3, SecureWords()).shape == (0,)

    def test_everything_in_one_cell_takes_no_words(self):
        for own, common in (([[1 << 64, 0]], []), ([[0]], [0, 1 << 64, 0])):
            dealt = deal([10**12], own, 64, ScriptedWords([]), common=common)
            assert dealt.own.sum() + dealt.common.sum() == 10**12
        assert binomial(10**12, 1 << 64, 64, ScriptedWords([])) == 10**12
        assert binomial(10**12, 0, 64, ScriptedWords([])) == 0

    @pytest.mark.parametrize("bits", [1, 7, 8, 33, 63, 64])
    def test_the_first_and_the_last_word_have_a_cell(self, bits):
        class Same:
            def __init__(self, bit):
                self.bit = bit

            def words(self, count, bits=64):
                return np.full(count, self.bit * ((1 << bits) - 1), dtype=np.uint64)

        own = [[(1 << bits) - 2, 1]]
        for bit, expected in ((0, [0, 0, 99]), (1, [0, 99, 0])):
            dealt = deal([99], own, bits, Same(bit), common=[1])
            assert [*dealt.own[0].tolist(), *dealt.common.tolist()] == expected

    def test_one_row_serves_all_codes(self):
        one = deal([5000, 700], [[3, 6]], 4, SeededWords(3), common=[2, 5])
        two = deal([5000, 700], [[3, 6]] * 2, 4, SeededWords(3), common=[2, 5])
        assert one.own.tolist() == two.own.tolist()
        assert one.common.tolist() == two.common.tolist()

    def test_nobody_is_lost(self):
        rng = np.random.default_rng(1)
        for bits in (5, 17, 64):
            shares = [int(x) for x in rng.multinomial(1 << min(bits, 60), [1 / 9] * 9)]
            shares[4] += (1 << bits) - sum(shares)
            people = rng.integers(0, 5000, size=6)
            dealt = deal(people, [shares[6:]], bits, SeededWords(4), common=shares[:6])
            assert dealt.own.sum() + dealt.common.sum() == people.sum()
            assert (dealt.own.sum(axis=1) <= people).all()

    @pytest.mark.parametrize(
        ("counts", "own", "common", "name"),
        [
            ([-1], [[4]], [], "counts"),
            ([1.5], [[4]], [], "counts"),
            ([[1]], [[4]], [], "counts"),
            ([1 << 62, 1], [[4]], [], "counts"),
            ([1], [[3]], [], "own"),
            ([1], [[3]], [2], "own"),
            ([1, 1, 1], [[4], [4]], [], "own"),
            ([1, 1], [[4], [4, 0]], [], "own"),
            ([1], [], [4], "own"),
            ([1], [[5, -1]], [], "shares"),
            ([1], [[4]], [1, -1], "shares"),
        ],
    )
    def test_bad_tables(self, counts, own, common, name):
        with pytest.raises(ParameterError, match=name):
            deal(counts, own, 2, SeededWords(1), common=common)

    @pytest.mark.parametrize(("threshold", "bits"), [(-1, 3), (9, 3), (1, 0), (1, 65)])
    def test_bad_thresholds(self, threshold, bits):
        with pytest.raises(ParameterError, match=r"thresholds|bits"):
            binomial(1, threshold, bits, SeededWords(1))

    @pytest.mark.parametrize("cells", [0, 9])
    def test_bad_cells(self, cells):
        with pytest.raises(ParameterError, match="cells"):
            deal_uniform(1, cells, 3, SeededWords(1))


def test_memory_does_not_grow_with_the_counts():
    binomial(10, 1, 2, SeededWords(1))
    tracemalloc.start()
    binomial(10**8, (1 << 64) // 3, 64, SeededWords(1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_needs_no_scipy():
    program = (
        "import sys; from shuffledp.numerics.dealing import deal_uniform;"
        "from shuffledp.numerics.entropy import SecureWords;"
        "deal_uniform(1000, 10, 64, SecureWords()); assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
