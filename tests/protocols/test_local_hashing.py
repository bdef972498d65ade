"""Local hashing: what the contract tests do not say."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

import shuffledp as sdp
from shuffledp.core.randomizer import Shuffled, forget
from shuffledp.numerics.galois import POLYNOMIALS
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.local_hashing import LocalHashing, make_local
from support import ALPHA, all_tapes


def slow_bucket(a, b, j, r, g):
    """The hash of one category, with Python integers."""
    value = b
    for i in range(j.bit_length()):
        if j >> i & 1:
            value ^= a << i
    while value.bit_length() > r:
        value ^= POLYNOMIALS[r] << (value.bit_length() - 1 - r)
    return value * g // 2**r


class TestHash:
    @pytest.mark.parametrize(("g", "bits"), [(2, 4), (3, 6), (4, 6), (5, 8), (7, 8)])
    def test_every_pair_collides_with_the_declared_probability(self, g, bits):
        k = 1 << (bits // 2)
        hashing = LocalHashing(k=k, g=g, epsilon0=2.0, word_bits=bits)
        buckets = np.array([hashing._values(a, b) for a, b in product(range(k), repeat=2)])
        for i in range(k):
            for j in range(i):
                same = int((buckets[:, i] == buckets[:, j]).sum())
                assert Fraction(same, k * k) == hashing.collision_probability

    @pytest.mark.parametrize(("g", "bits"), [(3, 6), (5, 8), (13, 10)])
    def test_buckets_split_the_words_evenly(self, g, bits):
        hashing = LocalHashing(k=2, g=g, epsilon0=2.0, word_bits=bits)
        words = np.arange(1 << hashing.r, dtype=np.uint8)
        sizes = np.bincount(hashing._bucket(words), minlength=g)
        assert set(sizes.tolist()) <= {len(words) // g, len(words) // g + 1}
        np.testing.assert_array_equal(
            hashing._find_first(np.arange(g + 1)), np.concatenate(([0], np.cumsum(sizes)))
        )

    def test_collision_probability_is_nearly_one_in_g(self):
        for g in (2, 3, 21, 404):
            excess = g * LocalHashing(k=2, g=g, epsilon0=2.0).collision_probability - 1
            assert 0 <= excess < Fraction(g * g, 4 * 2**32)
        assert LocalHashing(k=2, g=16, epsilon0=2.0).collision_probability == Fraction(1, 16)

    @pytest.mark.parametrize(
        ("k", "g", "bits"), [(1300, 21, 32), (30, 3, 10), (512, 4, 20), (513, 5, 24)]
    )
    def test_tally_is_that_of_the_slow_hash(self, k, g, bits):
        hashing = LocalHashing(k=k, g=g, epsilon0=2.0, word_bits=bits)
        n = 520  # three blocks of users
        messages = sdp.randomize(hashing, np.arange(n) % k, sdp.SeededWords(4))
        counts = hashing.tally(forget(messages)).counts
        reports = messages.payload.tolist()
        for j in (0, 1, 2, k // 2, k - 2, k - 1, min(k - 1, 511), min(k - 1, 512)):
            expected = sum(slow_bucket(a, b, j, hashing.r, g) == y for a, b, y in reports)
            assert counts[j] == expected

    def test_the_law_is_listed_unless_it_is_too_long(self):
        few = LocalHashing(k=60, g=3, epsilon0=1.0, word_bits=12)
        assert sum(few.pmf(7).values()) == 1
        with pytest.raises(sdp.UnsupportedError, match="the law has 2\\^18 hash functions"):
            LocalHashing(k=200, g=3, epsilon0=1.0, word_bits=18).pmf(7)

    def test_more_than_65536_categories(self):
        hashing = make_local(k=70_000, epsilon=2.0, word_bits=64).randomizer
        values = np.array([0, 65_535, 65_536, 69_999, 3])
        messages = sdp.randomize(hashing, values, sdp.SeededWords(5))
        counts = hashing.tally(forget(messages)).counts
        assert len(counts) == 70_000
        for j in values.tolist():
            reports = messages.payload.tolist()
            assert counts[j] == sum(slow_bucket(a, b, j, 32, hashing.g) == y for a, b, y in reports)

    def test_tally_is_the_sum_of_the_supported_sets(self):
        hashing = make_local(k=600, epsilon=1.0).randomizer
        messages = sdp.randomize(hashing, np.arange(300), sdp.SeededWords(6))
        counts = np.zeros(600, dtype=np.int64)
        for user in range(300):
            (message,) = messages.of(user)
            counts[list(hashing.find_supported(message))] += 1
        np.testing.assert_array_equal(hashing.tally(forget(messages)).counts, counts)

    def test_huge_epsilon_keeps_every_bucket(self):
        """With a huge epsilon the bucket of x is what is sent."""
        hashing = make_local(k=900, epsilon=25.0).randomizer
        messages = sdp.randomize(hashing, np.full(400, 777), sdp.SeededWords(7))
        assert hashing.tally(forget(messages)).counts[777] == 400


class TestMerelyUniversalFamily:
    """((u x + v) mod P) mod g collides with probability at most 1/g; assuming 1/g is a bias."""

    P, G = 5, 3

    def functions(self):
        for u, v in product(range(1, self.P), range(self.P)):
            yield [((u * x + v) % self.P) % self.G for x in range(self.P)]

    def collision_probability(self):
        a, r = divmod(self.P, self.G)
        return Fraction(a * (self.P + r - self.G), self.P * (self.P - 1))

    def mean_estimate(self, functions, assumed, x, j):
        """Expected estimate of the count of j from one user with x, with q from `assumed`."""
        response = KRR(k=self.G, epsilon0=math.log(2), word_bits=20)
        q = assumed * response.p + (1 - assumed) * response.q
        laws = [response.pmf(h[x])[(h[j],)] for h in functions]
        return (sum(laws) / len(laws) - q) / (response.p - q)

    def test_collision_probability(self):
        functions = list(self.functions())
        same = [sum(h[x] == h[y] for h in functions) for x in range(self.P) for y in range(x)]
        expected = self.collision_probability()
        assert {Fraction(s, len(functions)) for s in same} == {expected} == {Fraction(1, 5)}

    def test_bias(self):
        functions = list(self.functions())
        third = Fraction(1, self.G)
        bias = (self.collision_probability() - third) / (1 - third)
        assert self.mean_estimate(functions, third, 1, 4) == bias == Fraction(-1, 5)
        assert self.mean_estimate(functions, self.collision_probability(), 1, 4) == 0

    def test_the_field_has_none_with_its_own_collision_probability(self):
        ours = LocalHashing(k=5, g=self.G, epsilon0=1.0, word_bits=6)
        functions = [ours._values(a, b).tolist() for a, b in product(range(8), repeat=2)]
        assert self.mean_estimate(functions, ours.collision_probability, 1, 4) == 0
        assert self.mean_estimate(functions, Fraction(1, self.G), 1, 4) != 0


class TestVariance:
    @pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0, 2.0, 3.0, 5.0])
    def test_formula(self, epsilon):
        protocol = make_local(k=100, epsilon=epsilon)
        g, e = protocol.randomizer.g, math.exp(epsilon)
        p = e / (e + g - 1)
        inputs = np.zeros(100, dtype=np.int64)
        inputs[:2] = [70, 30]
        light, heavy = (1 / g) * (1 - 1 / g), p * (1 - p)
        expected = ((100 - inputs) * light + inputs * heavy) / (p - 1 / g) ** 2
        np.testing.assert_allclose(protocol.analyzer.variance(inputs), expected, rtol=1e-5)
        assert expected[2] == pytest.approx(400 * e / (e - 1) ** 2, rel=0.02)

    @pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 1.7, 3.0, 5.0])
    def test_no_number_of_buckets_is_better(self, epsilon):
        chosen = make_local(k=50, epsilon=epsilon)

        def light(g):
            oracle = LocalHashing(k=50, g=g, epsilon0=epsilon)
            return oracle.q * (1 - oracle.q) / (oracle.p - oracle.q) ** 2

        around = range(2, chosen.randomizer.g + 8)
        assert light(chosen.randomizer.g) == min(map(light, around))


class TestParameters:
    @pytest.mark.parametrize("bits", [2, 3, 5, 33, 50, 62, 65, 128, 8.0])
    def test_bad_word_bits(self, bits):
        with pytest.raises(sdp.ParameterError, match="word_bits"):
            make_local(k=2, epsilon=1.0, word_bits=bits)

    @pytest.mark.parametrize("bits", [*range(10, 50, 2), 64])
    def test_good_word_bits(self, bits):
        assert make_local(k=32, epsilon=1.0, word_bits=bits).randomizer.r == bits // 2

    def test_k_must_fit_into_a_hash_value(self):
        with pytest.raises(sdp.ParameterError, match="k=65537 must be <= 65536"):
            make_local(k=65_537, epsilon=1.0)

    @pytest.mark.parametrize("g", [1, 5, 2.0])
    def test_bad_g(self, g):
        with pytest.raises(sdp.ParameterError, match="g="):
            LocalHashing(k=2, g=g, epsilon0=1.0, word_bits=6)

    @pytest.mark.parametrize("epsilon", [11.0, 30.0, 700.0])
    def test_large_epsilon_caps_the_buckets(self, epsilon):
        protocol = make_local(k=50, epsilon=epsilon)
        assert 2 <= protocol.randomizer.g <= 2**15
        estimate = sdp.run(protocol, np.repeat([3, 7], 500), sdp.SeededWords(1))
        assert estimate.value[3] == pytest.approx(500, abs=60)

    def test_bits_per_message(self):
        assert make_local(k=1024, epsilon=3.0).cost.bits_per_message == 32 + 5
        assert make_local(k=1024, epsilon=1.0, word_bits=64).cost.bits_per_message == 64 + 2


class TestMessages:
    HASHING = LocalHashing(k=6, g=3, epsilon0=1.0, word_bits=6)

    def test_any_integer_type(self):
        messages = sdp.randomize(self.HASHING, [0, 1, 2, 3, 4, 5], sdp.SeededWords(1))
        expected = self.HASHING.tally(forget(messages)).counts
        for dtype in (np.int8, np.int64, np.uint64):
            payload = messages.payload.astype(dtype)
            found = self.HASHING.tally(Shuffled(payload=payload, users=6)).counts
            np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize(
        "row", [[8, 0, 0], [0, 8, 0], [0, 0, 3], [-1, 0, 0], [0, 0, -1], [0, 0], [0.0, 0.0, 0.0]]
    )
    def test_refused(self, row):
        payload = np.array([[0] * len(row), row])
        with pytest.raises(sdp.DataError, match="message"):
            self.HASHING.tally(Shuffled(payload=payload, users=2))


def support_p_values(payload, declared):
    """Exact tails of the support counts of a user's own and of other categories, all users at 2."""
    n = len(payload)
    counts = declared.tally(Shuffled(payload=payload, users=n)).counts
    own = binomtest(int(counts[2]), n, float(declared.p)).pvalue
    others = [binomtest(int(counts[j]), n, float(declared.q)).pvalue for j in (0, 1, 3, 19)]
    return [own, *others]


def mse_p_value(sampled, analyzer, rounds=250, n=400):
    """Two-sided tail of the sum of squared errors of one category over independent rounds."""
    values = np.tile(np.arange(n) % 20 // 3, rounds)
    messages = sdp.randomize(sampled, values, sdp.SeededWords(32)).payload.reshape(rounds, n, 3)
    truth = np.bincount(values[:n], minlength=20)
    sd = np.sqrt(analyzer.variance(truth)[5])
    tallies = [analyzer.tally(Shuffled(payload=part, users=n)) for part in messages]
    errors = np.array([analyzer.estimate(tally).value[5] - truth[5] for tally in tallies])
    statistic = ((errors / sd) ** 2).sum()
    return 2 * min(chi2.sf(statistic, rounds), chi2.cdf(statistic, rounds))


class TestSampled:
    N = 20_000
    DECLARED = make_local(k=20, epsilon=1.5)

    def words(self):
        return sdp.SeededWords(31).words(2 * self.N, 32).reshape(self.N, 2)

    def sent(self, words):
        return self.DECLARED.randomizer.encode(np.full(self.N, 2), words).payload

    def test_support_counts(self):
        payload = self.sent(self.words())
        assert min(support_p_values(payload, self.DECLARED.randomizer)) > ALPHA

    def test_mutant_with_a_equal_to_b(self):
        """u = a (j + 1): category 1 is always in bucket 0, and independence is lost."""
        words = self.words()
        words[:, 0] = (words[:, 0] >> 16) * 0x10001
        assert min(support_p_values(self.sent(words), self.DECLARED.randomizer)) < ALPHA

    def test_mutant_that_never_lies(self):
        words = self.words()
        words[:, 1] = 2**32 - 1
        assert min(support_p_values(self.sent(words), self.DECLARED.randomizer)) < ALPHA

    def test_squared_error(self):
        assert mse_p_value(self.DECLARED.randomizer, self.DECLARED.analyzer) > ALPHA

    def test_squared_error_of_a_mutant(self):
        wrong = LocalHashing(k=20, g=self.DECLARED.randomizer.g, epsilon0=3.0)
        assert mse_p_value(wrong, self.DECLARED.analyzer) < ALPHA


def test_message_law_has_the_words_of_the_tape():
    """(a, b) are the two halves of the first word, whatever x is."""
    hashing = LocalHashing(k=5, g=3, epsilon0=1.0, word_bits=6)
    tapes = all_tapes(6, 2)
    for x in range(5):
        payload = hashing.encode(np.full(len(tapes), x), tapes).payload
        np.testing.assert_array_equal(payload[:, 0].astype(int) * 8 + payload[:, 1], tapes[:, 0])
