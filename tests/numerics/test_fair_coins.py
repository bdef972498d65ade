"""Fair coins: on every tape, the table of a block against exact fractions, and bit for bit."""

from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import comb

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, chisquare

from shuffledp import SeededWords
from shuffledp.numerics import dealing
from shuffledp.testing import enumerate_outcomes
from support import ALPHA


def toss(counts, source):
    return dealing._toss(np.array(counts, dtype=np.int64), source)


def binomial_law(m):
    return {k: Fraction(comb(m, k), 1 << m) for k in range(m + 1)}


def product_law(counts):
    law = {(): Fraction(1)}
    for m in counts:
        one = binomial_law(m)
        law = {(*rest, k): p * q for rest, p in law.items() for k, q in one.items()}
    return law


class TestEveryTape:
    @pytest.mark.parametrize("counts", [(1,), (5,), (3, 0, 2, 4), (0, 0), (1, 1, 1, 1), (12,)])
    def test_popcounts(self, counts):
        law = enumerate_outcomes(lambda source: tuple(toss(counts, source)))
        assert law == product_law(counts)

    @pytest.mark.parametrize(
        ("block", "bits"),
        [(2, 2), (2, 3), (4, 3), (4, 4), (6, 4), (8, 4), (10, 5), (10, 10), (12, 7)],
    )
    def test_inversion(self, block, bits, monkeypatch):
        """Words of a few bits, so that many draws need a second and a third."""
        monkeypatch.setattr(dealing, "_WORD_BITS", bits)
        law = enumerate_outcomes(lambda source: int(dealing._toss_blocks(1, block, source)[0]))
        assert law == binomial_law(block)

    @pytest.mark.parametrize(
        ("counts", "bits"), [((9,), 5), ((4, 3), 3), ((5, 0, 3), 3), ((2, 6), 4), ((8,), 6)]
    )
    def test_blocks_and_what_is_left(self, counts, bits, monkeypatch):
        monkeypatch.setattr(dealing, "_BLOCKS", (8, 4, 2))
        monkeypatch.setattr(dealing, "_WORD_BITS", bits)
        law = enumerate_outcomes(lambda source: tuple(toss(counts, source)))
        assert law == product_law(counts)

    def test_mutant_that_decides_too_early_is_caught(self, monkeypatch):
        """The word on the border is given to the smaller number instead of reading on."""
        honest = dealing._cuts

        def hasty(block, bits):
            heads, first, _ = honest(block, bits)
            return dealing._Cuts(heads, first, [next_ - 1 for next_ in (*first[1:], 1 << bits)])

        monkeypatch.setattr(dealing, "_WORD_BITS", 4)
        monkeypatch.setattr(dealing, "_cuts", hasty)
        dealing._tabulate_heads.cache_clear()
        law = enumerate_outcomes(lambda source: int(dealing._toss_blocks(1, 6, source)[0]))
        dealing._tabulate_heads.cache_clear()
        assert sum(law.values()) == 1
        assert law != binomial_law(6)


@cache
def exact_cdf(block):
    return list(accumulate(comb(block, k) for k in range(block + 1)))


class TestTables:
    @pytest.mark.parametrize("bits", [3, 8, 64, 128])
    @pytest.mark.parametrize("block", [2, 6, 64, 130, 200, 1000, 4096])
    def test_every_interval_is_inside_its_outcome(self, block, bits):
        cdf = [0, *exact_cdf(block)]
        heads, first, last = dealing._cuts(block, bits)
        for k, low, high in zip(heads, first, last, strict=True):
            # F(k - 1) <= low / 2^bits and (high + 1) / 2^bits <= F(k)
            assert cdf[k] << bits <= low << block
            assert (high + 1) << block <= cdf[k + 1] << bits

    @pytest.mark.parametrize("bits", [2, 3, 5, 8, 12])
    @pytest.mark.parametrize("block", [16, 64, 200, 1000, 4096])
    def test_enclosures_hold_at_any_precision(self, block, bits, monkeypatch):
        """Without guard bits every rounding and the cut tail show, so each must be on the safe side."""
        monkeypatch.setattr(dealing, "_GUARD_BITS", 0)
        cdf, found = exact_cdf(block), dealing._enclose(block, bits)
        for d, (below, above) in zip(range(len(found), 0, -1), found, strict=True):
            assert below << block <= cdf[block // 2 - d] << bits <= above << block

    @pytest.mark.parametrize("block", [64, 130, 1000, 4096])
    def test_no_word_is_left_open_without_need(self, block):
        """One number at most is open around each F."""
        _, first, last = dealing._cuts(block, 64)
        sure = sum(end + 1 - start for start, end in zip(first, last, strict=True))
        assert 2**64 - sure <= block

    @pytest.mark.parametrize("block", dealing._BLOCKS)
    def test_production_tables_against_50_digits(self, block):
        mpmath.mp.dps = 60
        scale, half = mpmath.mpf(2) ** 64, block // 2
        heads, first, last = dealing._cuts(block, 64)
        start = heads[0] - 1  # F(start) by a sum of masses from far below
        reach = int(1.5 * (block**0.5))
        log = mpmath.loggamma(block + 1) - block * mpmath.log(2)
        far = max(0, start - reach)
        mass = mpmath.exp(log - mpmath.loggamma(far + 1) - mpmath.loggamma(block - far + 1))
        total = mpmath.mpf(0)
        cdf = {}
        for k in range(far, half + 1):
            total += mass
            cdf[k] = total
            mass = mass * (block - k) / (k + 1)
        for k, low, high in zip(heads, first, last, strict=True):
            if k > half:
                break
            assert cdf[k - 1] * scale <= low < cdf[k - 1] * scale + 2
            assert cdf[k] * scale - 2 < high + 1 <= cdf[k] * scale

    @pytest.mark.parametrize("block", dealing._BLOCKS)
    def test_both_halves_mirror_each_other(self, block):
        heads, first, last = dealing._cuts(block, 64)
        assert [block - k for k in reversed(heads)] == heads
        assert [2**64 - 1 - word for word in reversed(first)] == last

    @pytest.mark.parametrize("guide", [1, 3, 16])
    @pytest.mark.parametrize(("block", "bits"), [(6, 2), (8, 5), (200, 12), (4096, 64)])
    def test_the_guide_finds_what_a_search_finds(self, block, bits, guide, monkeypatch):
        monkeypatch.setattr(dealing, "_GUIDE_BITS", guide)
        table = dealing._tabulate_heads.__wrapped__(block, bits)
        some = SeededWords(5).words(5_000, bits).astype(np.uint64)
        words = np.concatenate([some, table.first, table.last, table.first - np.uint64(1)])
        words &= np.uint64((1 << bits) - 1)
        expected = table.first.searchsorted(words, side="right") - 1
        assert table.find(words).tolist() == expected.tolist()

    @pytest.mark.parametrize("block", dealing._BLOCKS)
    def test_the_guide_mostly_decides(self, block):
        guide = dealing._tabulate_heads(block, 64).guide
        assert np.mean(guide[1:] == guide[:-1]) > 0.9

    def test_an_open_word_is_read_on(self):
        """The word right below F(2050) of 4,096 coins: the second word decides."""
        cuts = dealing._cuts(4096, 64)
        border = cuts.last[cuts.heads.index(2050)] + 1
        wide = dealing._cuts(4096, 128)
        split = wide.last[wide.heads.index(2050)] & (2**64 - 1)

        class Source:
            def __init__(self, *words):
                self.left = list(words)

            def words(self, count, bits=64):
                taken, self.left = self.left[:count], self.left[count:]
                return np.array(taken, dtype=np.uint64)

        for second, expected in ((split, 2050), (split + 2, 2051)):
            source = Source(border, second)
            assert dealing._toss_blocks(1, 4096, source).tolist() == [expected]
            assert source.left == []


def read(seed, total):
    """The bits as they are meant to be read: words of 64, low end first, then what is left in one word."""
    source = SeededWords(seed)
    numbers = [(word, 64) for word in source.words(total // 64).tolist()]
    if total % 64:
        numbers.append((int(source.words(1, total % 64)[0]), total % 64))
    return [number >> i & 1 for number, size in numbers for i in range(size)]


@pytest.mark.parametrize("chunk", [1, 3, dealing._CHUNK])
@pytest.mark.parametrize(
    "counts",
    [
        (64,),
        (63, 1, 64, 65, 0, 0, 128, 1),
        (1000, 1, 1, 3, 700),
        (*range(40),),
        (0, 64, 0, 64, 0),
        (4095, 0, 67, 192, 4000),
    ],
)
def test_each_count_has_bits_of_its_own(counts, chunk, monkeypatch):
    """Against Python's bits; how they are cut into chunks does not matter."""
    monkeypatch.setattr(dealing, "_CHUNK", chunk)
    bits = read(5, sum(counts))
    ends = list(accumulate(counts))
    expected = [sum(bits[end - count : end]) for count, end in zip(counts, ends, strict=True)]
    assert toss(counts, SeededWords(5)).tolist() == expected


def test_chunks_of_blocks_do_not_matter(monkeypatch):
    counts = [10**7, 5000, 0, 123_456_789, 70_000, 3]
    whole = toss(counts, SeededWords(7)).tolist()
    monkeypatch.setattr(dealing, "_CHUNK", 3)
    assert toss(counts, SeededWords(7)).tolist() == whole


def test_the_same_seed_gives_the_same_heads():
    """Fixed for ever, on every platform."""
    assert toss([10**6], SeededWords(1)).tolist() == [500494]
    found = toss([10**9, 70_000, 5000, 12], SeededWords(2)).tolist()
    assert found == [500011861, 35131, 2430, 4]


def quantile_counts(seen, law, cells=20):
    """How many draws fall between quantiles of the law, and how many should."""
    edges = np.unique(law.ppf(np.arange(1, cells) / cells))
    expected = np.diff([0, *law.cdf(edges), 1])
    return np.bincount(np.searchsorted(edges, seen), minlength=len(expected)), expected


@pytest.mark.parametrize("m", [4096, 70_001, 3 << 20, (1 << 22) + 4097])
@pytest.mark.parametrize(("moved", "right"), [(0, True), (0.1, False)])
def test_production_sizes(m, moved, right):
    """20,000 draws against their law, and against one moved by a tenth of a deviation."""
    seen = toss([m] * 20_000, SeededWords(8)) + round(moved * m**0.5 / 2)
    counts, expected = quantile_counts(seen, binom(m, 0.5))
    assert (chisquare(counts, expected * len(seen)).pvalue > ALPHA) == right


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.05, False)])
def test_variance(factor, right):
    """A sum of squares against its chi-squared law; blocks that are too wide would show."""
    m = 5 << 16
    seen = toss([m] * 20_000, SeededWords(9))
    statistic = (((seen - m / 2) * factor) ** 2).sum() / (m / 4)
    z = (statistic - 20_000) / (2 * 20_000) ** 0.5
    assert (abs(z) < 6.2) == right
