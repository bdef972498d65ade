"""Fake users: the divergence against plain sums, published values, accuracy, intervals."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, multinomial

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp import run_counts
from shuffledp.accounting.exact import data_set_delta, shuffled_delta
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.fake_users import FakeUsers, blanket, make
from shuffledp.protocols.unary import WORD_BITS
from support import encode_many, enumerated_law, fits


def laws(randomizer):
    return [randomizer.pmf(x) for x in range(randomizer.domain.size)]


class TestSmall:
    @pytest.mark.parametrize(
        "users",
        [
            FakeUsers(k=3, fake=1, flips=1, word_bits=2),
            FakeUsers(k=2, fake=2, flips=1, word_bits=2),
        ],
        ids=lambda users: f"k={users.k}, fake={users.fake}",
    )
    def test_law(self, users):
        for x in range(users.k):
            assert enumerated_law(users, x) == users.pmf(x)
        assert sum(users.pmf(0).values()) == 1

    @pytest.mark.parametrize("fake", [1, 2])
    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
    def test_guarantee_is_above_the_exact_divergence(self, fake, epsilon):
        users = FakeUsers(k=3 if fake == 1 else 2, fake=fake, flips=1, word_bits=2)
        for n in (1, 2, 3):
            exact = shuffled_delta(laws(users), n, exp_lower(epsilon))
            assert float(exact) <= users.delta(n, epsilon) * (1 + 1e-12)

    @pytest.mark.parametrize("fake", [1, 2, 3])
    def test_guarantee_is_the_exact_divergence_of_a_lonely_user(self, fake):
        """With one user nothing is revealed, so the bound is the truth (but for rounding)."""
        users = FakeUsers(k=2, fake=fake, flips=3, word_bits=4)
        exact = data_set_delta(laws(users), [], (0, 1), 2)
        stated = users.delta(1, math.log(2))
        assert stated == pytest.approx(float(exact), rel=0.02)

    def test_local_floor_is_the_likelihood_ratio(self):
        users = FakeUsers(k=2, fake=1, flips=3, word_bits=4)
        a, b = users.pmf(0), users.pmf(1)
        assert max(a[sent] / b[sent] for sent in a) == Fraction(13, 3) ** 2
        assert 0 < users.epsilon0 - 2 * math.log(13 / 3) < 1e-12

    def test_the_law_of_many_bits_is_not_listed(self):
        with pytest.raises(sdp.UnsupportedError, match="k=20"):
            FakeUsers(k=20, fake=1, flips=1).pmf(0)


class TestGuarantee:
    @pytest.mark.parametrize(("n", "epsilon"), [(2_000, 1.0), (10**6, 1.0), (10**6, 3.0)])
    def test_against_a_plain_sum(self, n, epsilon):
        """(1/N) E[(sum of G)_+] over the numbers of vectors with bits (1,0), (0,1) and (1,1)."""
        p = make(n=n, k=4, epsilon=epsilon, delta=1e-6, honest=1.0)
        f, N, E = float(p.randomizer.f), n + 1, math.exp(epsilon)
        one, zero = (1 - f) / f, f / (1 - f)
        both = np.arange(0, 40)[:, None, None]
        first = np.arange(0, 160)[None, :, None]
        second = np.arange(0, 160)[None, None, :]
        counts = np.stack(
            np.broadcast_arrays(both, first, second, N - both - first - second), axis=-1
        )
        mass = multinomial.pmf(counts, N, [f * f, f * (1 - f), f * (1 - f), (1 - f) ** 2])
        own, other = both + first, both + second
        gain = one * own + zero * (N - own) - E * (one * other + zero * (N - other))
        exact = float((mass * np.maximum(gain, 0)).sum()) / N
        assert exact <= p.guarantee.delta <= exact * 1.02
        assert p.guarantee.delta > 0.97e-6

    def test_more_honest_users_hide_better(self):
        users = FakeUsers(k=2, fake=1, flips=655, word_bits=16)
        deltas = [users.delta(n, 1.0) for n in (1, 10, 100, 1_000, 10_000)]
        assert deltas == sorted(deltas, reverse=True)
        assert deltas[-1] < 1e-7

    def test_an_epsilon_above_the_local_one_costs_no_delta(self):
        assert blanket(Fraction(1, 4)).delta(2.3, 5) == 0
        assert blanket(Fraction(1, 4)).delta(2.1, 5) > 0


class TestFigures:
    def test_error_of_the_table(self):
        p = make(n=10**6, k=16, epsilon=1.0, delta=1e-6, honest=1.0)
        assert np.sqrt(p.analyzer.variance(np.full(16, 62_500))).max() <= 9.4
        assert p.cost.messages_max == 2

    @pytest.mark.parametrize(
        ("epsilon", "delta", "wanted"),
        [(0.1, 1e-6, 72.7), (1.0, 1e-6, 9.2), (1.0, 1e-10, 12.8), (2.0, 1e-6, 6.0)],
    )
    def test_errors_of_the_protocol_reference(self, epsilon, delta, wanted):
        p = make(n=10**6, k=16, epsilon=epsilon, delta=delta, honest=1.0)
        assert p.analyzer.variance(np.full(16, 62_500))[0] ** 0.5 == pytest.approx(wanted, abs=0.06)

    @pytest.mark.parametrize("fake", [1, 2, 10])
    def test_more_fakes_buy_accuracy(self, fake):
        p = make(n=10**6, k=2, epsilon=1.0, delta=1e-6, honest=1.0, fake=fake)
        variance = p.analyzer.variance(np.array([10**6, 0]))[0]
        assert variance == pytest.approx(42.65 * (1 + 1 / fake), rel=0.002)

    @pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
    @pytest.mark.parametrize("delta", [1e-6, 1e-10])
    def test_published_flips(self, epsilon, delta):
        p = make(n=10**5, k=4, epsilon=epsilon, delta=delta, calibration="paper", honest=1.0)
        E = math.exp(epsilon)
        wanted = 33 / (5 * 10**5) * ((E + 1) / (E - 1)) ** 2 * math.log(4 / delta)
        f = p.randomizer.f
        assert wanted <= f * (1 - f) <= wanted * (1 + 1e-5)
        exact = make(n=10**5, k=4, epsilon=epsilon, delta=delta, honest=1.0).randomizer.f
        assert 8 <= f / exact <= 18
        assert p.guarantee.delta < delta

    def test_published_range(self):
        """fake n must be at least 132/5 coth^2 ln(4/delta), here 1880."""
        arguments = {"k": 4, "epsilon": 1.0, "delta": 1e-6, "honest": 1.0, "calibration": "paper"}
        assert make(n=1_900, **arguments).guarantee.delta < 1e-6
        assert make(n=700, fake=3, **arguments).guarantee.delta < 1e-6
        with pytest.raises(sdp.UnsupportedError, match="n=1850"):
            make(n=1_850, **arguments)

    def test_few_users_are_protected_by_their_own_flips(self):
        lonely = make(n=2, k=4, epsilon=0.5, delta=1e-6)
        assert lonely.local_floor.epsilon < 0.8
        # Many fakes make up for few people.
        many = make(n=2, k=4, epsilon=0.5, delta=1e-6, fake=500)
        assert many.local_floor.epsilon > 3
        with pytest.raises(sdp.UnsupportedError, match=r"n=2 .* words of 3 bits"):
            make(n=2, k=4, epsilon=0.1, delta=1e-6, word_bits=3)


class TestAccuracy:
    def test_variance_is_the_declared_one(self):
        p = make(n=2_000, k=50, epsilon=1.0, delta=1e-4)
        codes = np.random.default_rng(1).integers(0, 25, 2_000)
        terms = squared_errors(p.randomizer, p, codes, runs=40, seed=5)
        assert is_the_variance(terms)
        assert resolution(terms) < 0.25
        # A mutant whose fakes are forgotten in every fourth word is found out.
        fewer = replace(p.randomizer, flips=p.randomizer.flips * 3 // 4)
        assert not is_the_variance(squared_errors(fewer, p, codes, runs=40, seed=5))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("n", "k"),
        [
            (10_000, 20_000),
            (10**6, 20_000),
            (10**9, 2_000),
            pytest.param(10**9, 20_000, marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.parametrize("fake", [1, 4])
    def test_intervals_cover(self, n, k, fake):
        p = make(n=n, k=k, epsilon=1.0, delta=1e-6, honest=1.0, fake=fake)
        truth = np.zeros(k, dtype=np.int64)
        truth[:10] = n // 10
        rng = sdp.SeededWords(7)
        covered = []
        for _ in range(10):
            low, high = run_counts(p, truth, rng).interval(0.95)
            covered.append(np.mean((low <= truth) & (truth <= high)))
        # Nearly all counts are 0, which an interval can miss on one side only.
        assert 0.97 <= np.mean(covered) <= 0.99

    def test_exact_interval(self):
        p = make(n=1_000, k=3, epsilon=1.0, delta=1e-4)
        estimate = run_counts(p, [500, 300, 200], sdp.SeededWords(1))
        low, high = estimate.exact_interval(1 - 1e-9)
        assert np.all(low <= [500, 300, 200])
        assert np.all(high >= [500, 300, 200])


def test_column_of_ones_is_two_binomials():
    """The counts engine at one bin: Bin(c, 1 - f) + Bin(2 n - c, f)."""
    users = FakeUsers(k=2, fake=1, flips=1, word_bits=2)
    sent = {}
    for message, mass in users.pmf(0).items():
        ones = sum(row[0] for row in message)
        sent[ones] = sent.get(ones, 0) + mass
    wanted = np.convolve(binom.pmf([0, 1], 1, 0.75), binom.pmf([0, 1], 1, 0.25))
    np.testing.assert_allclose([float(sent[i]) for i in range(3)], wanted)


@pytest.mark.parametrize(
    ("name", "value"),
    [("fake", 0), ("fake", 1.5), ("k", 1), ("word_bits", 1), ("word_bits", 65), ("calibration", 3)],
)
def test_bad_parameters(name, value):
    arguments = {"n": 1000, "k": 4, "epsilon": 1.0, "delta": 1e-3, name: value}
    with pytest.raises(sdp.ParameterError, match=name):
        make(**arguments)


@pytest.mark.parametrize("flips", [0, 2, 3])
def test_bad_flips(flips):
    with pytest.raises(sdp.ParameterError, match="flips"):
        FakeUsers(k=2, fake=1, flips=flips, word_bits=2)


@pytest.mark.parametrize("x", [0, 1])
def test_devices_at_production_width_and_a_mutant(x):
    """All four bits of each of 100,000 users, words as wide as in production."""
    device = FakeUsers(k=2, fake=1, flips=2**28)
    assert device.word_bits == WORD_BITS

    def observe(randomizer):
        sent = encode_many(randomizer, x, 100_000, seed=3).payload.reshape(100_000, 4)
        return np.bincount(sent @ np.array([8, 4, 2, 1]), minlength=16)

    law = [device.pmf(x)[bits[:2], bits[2:]] for bits in product((0, 1), repeat=4)]
    assert fits(observe(device), law)
    assert not fits(observe(replace(device, flips=2**28 * 11 // 10)), law)
    assert not fits(observe(device)[::-1], law)


def test_devices_with_words_of_64_bits():
    device = FakeUsers(k=2, fake=1, flips=2**60, word_bits=64)
    sent = encode_many(device, 1, 100_000, seed=4).payload.reshape(100_000, 4)
    law = [device.pmf(1)[bits[:2], bits[2:]] for bits in product((0, 1), repeat=4)]
    assert fits(np.bincount(sent @ np.array([8, 4, 2, 1]), minlength=16), law)
