"""Hashed blanket: exact collisions, decoding, figures, accuracy, guarantee."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp.core.randomizer import Shuffled, forget
from shuffledp.protocols.hashed_histogram import HashedHistogram, make
from support import enumerated_law

REJECTING = HashedHistogram(k=3, r=2, s=2, width=3, dummies=7, word_bits=4)


def rmse(protocol, counts):
    return np.sqrt(protocol.analyzer.variance(counts))


class TestFamily:
    @pytest.mark.parametrize(("r", "s", "width"), [(2, 1, 1), (3, 2, 1), (3, 3, 5), (4, 3, 3)])
    def test_sets_have_exact_sizes_and_overlaps(self, r, s, width):
        hashed = HashedHistogram(k=1 << r, r=r, s=s, width=width, dummies=1)
        messages = list(product(range(1 << r), range(1 << s)))
        supports = [hashed.find_supported(message) for message in messages]
        total = len(messages)
        for x in range(hashed.k):
            assert Fraction(sum(x in one for one in supports), total) == hashed.q
        for x, y in combinations(range(hashed.k), 2):
            assert Fraction(sum({x, y} <= one for one in supports), total) == hashed.q**2

    def test_rejected_draws_are_dummies(self):
        """No width that `make` chooses for a tape short enough to enumerate has rejections."""
        assert REJECTING.p == 1 - Fraction(1, 16) * Fraction(1, 4)
        for x in range(3):
            assert enumerated_law(REJECTING, x) == REJECTING.pmf(x)
            real = {}
            for sent, mass in REJECTING.pmf(x).items():
                real[sent[0]] = real.get(sent[0], 0) + mass
            for y in range(3):
                hit = sum(mass for one, mass in real.items() if y in REJECTING.find_supported(one))
                assert hit == (REJECTING.p if y == x else REJECTING.q)


class TestDecoding:
    @pytest.mark.parametrize(
        ("k", "r", "s", "width"),
        [(2, 2, 1, 1), (7, 3, 3, 5), (100, 8, 4, 3), (1000, 32, 9, 50), (3000, 12, 12, 4095)],
    )
    def test_equations_and_trial_agree(self, k, r, s, width):
        hashed = HashedHistogram(k=k, r=r, s=s, width=width, dummies=3 << 62)
        sent = sdp.randomize(hashed, np.arange(400) % k, sdp.SeededWords(1)).payload
        sent = np.concatenate([sent, [[0, 0], [0, (1 << s) - 1]]]).astype(sent.dtype)
        shuffled = Shuffled(payload=sent, users=400)
        tried = hashed.tally_of(shuffled, np.arange(k))
        np.testing.assert_array_equal(hashed.tally(shuffled).counts, tried.counts)
        assert tried.users == 400

    def test_no_messages(self):
        empty = Shuffled(payload=np.zeros((0, 2), dtype=np.uint8), users=0)
        assert not REJECTING.tally(empty).counts.any()
        with pytest.raises(sdp.DataError, match="users"):
            make(n=100, k=3, epsilon=1.0, delta=1e-3).analyzer.estimate(REJECTING.tally(empty))

    def test_huge_domain_is_asked_by_category(self):
        p = make(n=2_000, k=2**32, epsilon=2.0, delta=1e-6, honest=1.0)
        values = np.repeat([2**32 - 1, 5], [1500, 500])
        sent = forget(sdp.randomize(p.randomizer, values, sdp.SeededWords(1)))
        with pytest.raises(sdp.UnsupportedError, match="tally_of"):
            p.analyzer.tally(sent)
        estimate = p.analyzer.estimate(p.randomizer.tally_of(sent, [2**32 - 1, 5, 6]))
        low, high = estimate.interval(1 - 1e-9)
        assert np.all(low <= [1500, 500, 0])
        assert np.all(high >= [1500, 500, 0])

    @pytest.mark.parametrize(
        "payload",
        [[[4, 0]], [[0, 4]], [[-1, 0]], [[0, 0, 0]], [1, 2], [[0.0, 1.0]]],
        ids=str,
    )
    def test_foreign_messages(self, payload):
        with pytest.raises(sdp.DataError, match="message"):
            REJECTING.tally(Shuffled(payload=np.array(payload), users=1))


class TestFigures:
    @pytest.mark.parametrize("k", [1024, 10**6])
    def test_error_and_messages_of_the_table(self, k):
        p = make(n=10**6, k=k, epsilon=1.0, delta=1e-6, honest=1.0)
        counts = np.zeros(k, dtype=np.int64)
        counts[0] = 10**6
        assert rmse(p, counts).max() <= 9.4
        assert 1.9 < p.cost.messages_mean <= 2
        assert p.cost.messages_max == 2
        assert p.cost.bits_per_message == 52

    @pytest.mark.parametrize(
        ("epsilon", "delta", "wanted"),
        [(0.1, 1e-6, 72.7), (1.0, 1e-6, 9.2), (1.0, 1e-10, 12.8), (0.1, 1e-10, 109)],
    )
    def test_two_messages_have_twice_the_variance_of_plain_dummies(self, epsilon, delta, wanted):
        """The published table of errors; our widths are rounded to 3 %."""
        p = make(n=10**6, k=16, epsilon=epsilon, delta=delta, honest=1.0)
        counts = np.full(16, 10**6 // 16)
        assert rmse(p, counts)[0] == pytest.approx(wanted, rel=0.02)
        assert p.cost.messages_mean <= 2

    @pytest.mark.parametrize("c", [0.25, 1.0, 4.0, 42.65])
    def test_messages_buy_variance(self, c):
        p = make(n=10**6, k=16, epsilon=1.0, delta=1e-6, honest=1.0, messages=1 + c)
        variance = p.analyzer.variance(np.eye(16, dtype=np.int64)[0] * 10**6)[1]
        assert variance == pytest.approx(42.65 * (1 + 1 / c), rel=0.02)
        assert 0.96 * (1 + c) < p.cost.messages_mean <= 1 + c

    def test_few_users_get_the_dummies_they_need(self):
        p = make(n=20, k=100, epsilon=1.0, delta=1e-6, honest=1.0)
        assert p.cost.messages_mean > 4
        assert p.guarantee.delta <= 1e-6


class TestGuarantee:
    @pytest.mark.parametrize("honest", [1.0, 0.7])
    def test_against_a_plain_sum(self, honest):
        n, epsilon, E = 50_000, 1.0, math.e
        p = make(n=n, k=1000, epsilon=epsilon, delta=1e-6, honest=honest)
        q, rho = p.randomizer.q, p.randomizer.rho
        assert rho < 1
        users = p.guarantee.honest
        t = np.arange(0, 1000)
        first = np.floor((t + 1) * E / (1 + E)) + 1
        inner = np.maximum(0, binom.sf(first - 2, t, 0.5) - E * binom.sf(first - 1, t, 0.5))
        exact = float(binom.pmf(t, users, float(2 * rho * q * (1 - q))) @ inner)
        assert exact <= p.guarantee.delta <= exact * (1 + 1e-5)
        assert exact == pytest.approx(1e-6, rel=1e-3)

    def test_without_the_dummies_nothing_is_left(self):
        p = make(n=10_000, k=1000, epsilon=1.0, delta=1e-6)
        assert p.guarantee_if(honest=1 / 10_000).delta > 0.99
        assert p.local_floor is None


class TestAccuracy:
    def test_variance_is_the_declared_one(self):
        p = make(n=3_000, k=60, epsilon=1.0, delta=1e-4, messages=2.6)
        codes = np.random.default_rng(1).integers(0, 30, 3_000)
        terms = squared_errors(p.randomizer, p, codes, runs=40, seed=5)
        assert is_the_variance(terms)
        assert resolution(terms) < 0.25
        # A mutant that sends a quarter fewer dummies is found out.
        fewer = replace(p.randomizer, dummies=p.randomizer.dummies * 3 // 4)
        assert not is_the_variance(squared_errors(fewer, p, codes, runs=40, seed=5))

    def test_intervals_cover(self):
        p = make(n=20_000, k=60_000, epsilon=1.0, delta=1e-6, honest=1.0)
        values = np.random.default_rng(2).integers(0, 2_000, 20_000)
        truth = np.bincount(values, minlength=60_000)
        covered = []
        for seed in range(3):
            low, high = sdp.run(p, values, sdp.SeededWords(seed)).interval(0.95)
            covered.append(np.mean((low <= truth) & (truth <= high)))
        # Nearly all counts are 0, which an interval can miss on one side only.
        assert 0.97 < np.mean(covered) < 0.99


@pytest.mark.parametrize("messages", [1.0, 0.5, math.inf, "2"])
def test_bad_messages(messages):
    with pytest.raises(sdp.ParameterError, match="messages"):
        make(n=1000, k=4, epsilon=1.0, delta=1e-6, messages=messages)


@pytest.mark.parametrize("k", [1, 0, 2.5, 2**32 + 1])
def test_bad_k(k):
    with pytest.raises(sdp.ParameterError, match="k="):
        make(n=1000, k=k, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("word_bits", [2, 65, 20])
def test_bad_word_bits(word_bits):
    with pytest.raises(sdp.ParameterError, match="word_bits"):
        make(n=1000, k=2000, epsilon=1.0, delta=1e-6, word_bits=word_bits)


@pytest.mark.parametrize(
    ("name", "value"), [("r", 17), ("s", 0), ("s", 3), ("width", 0), ("width", 4), ("dummies", 0)]
)
def test_bad_fields(name, value):
    with pytest.raises(sdp.ParameterError, match=name):
        replace(REJECTING, **{name: value})
