"""Subset selection: what the contract tests do not say."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

import shuffledp as sdp
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.randomizer import forget
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols import subset_selection
from shuffledp.protocols.shared.frequency import light_variance
from shuffledp.protocols.subset_selection import SubsetSelection, make, make_local
from support import ALPHA, all_tapes


def ideal(k, w, epsilon):
    e = math.exp(epsilon)
    p = e * w / (e * w + k - w)
    return p, (p * (w - 1) + (1 - p) * w) / (k - 1)


def per_user(k, w, epsilon):
    subset = SubsetSelection(k=k, w=w, epsilon0=epsilon)
    return float(light_variance(subset.p, subset.q))


class TestLaw:
    @pytest.mark.parametrize(
        ("k", "w", "epsilon"), [(2, 1, 0.1), (6, 2, 1.0), (10, 3, 1.0), (1024, 48, 3.0)]
    )
    def test_ideal_probabilities(self, k, w, epsilon):
        subset = SubsetSelection(k=k, w=w, epsilon0=epsilon)
        p, q = ideal(k, w, epsilon)
        assert float(subset.p) == pytest.approx(p, rel=1e-13)
        assert float(subset.q) == pytest.approx(q, rel=1e-13)

    @pytest.mark.parametrize(
        ("k", "w", "epsilon", "bits"),
        [(5, 2, 0.7, 6), (9, 4, 0.2, 10), (50, 5, 2.0, 64), (3, 2, 1e-3, 64), (8, 1, 30.0, 64)],
    )
    def test_threshold_is_the_largest_private_one(self, k, w, epsilon, bits):
        subset = SubsetSelection(k=k, w=w, epsilon0=epsilon, word_bits=bits)
        limit, words = exp_lower(epsilon), 1 << bits

        def ratio(threshold):
            # of a set with x to one without, C(k-1, w) / C(k-1, w-1) = (k - w) / w
            if threshold == words:
                return math.inf
            return Fraction(threshold * (k - w), (words - threshold) * w)

        assert 1 < ratio(subset.threshold) <= limit < ratio(subset.threshold + 1)

    def test_one_category_is_randomized_response(self):
        subset = SubsetSelection(k=7, w=1, epsilon0=1.3)
        krr = sdp.protocols.krr.KRR(k=7, epsilon0=1.3)
        assert float(subset.p) == pytest.approx(float(krr.p), rel=1e-14)
        assert float(subset.q) == pytest.approx(float(krr.q), rel=1e-14)

    @pytest.mark.parametrize(("k", "w", "bits"), [(6, 2, 5), (4, 3, 3), (7, 1, 6)])
    def test_a_rejection_depends_on_neither_x_nor_the_inclusion(self, k, w, bits):
        subset = SubsetSelection(k=k, w=w, epsilon0=1.0, word_bits=bits)
        tapes = all_tapes(bits, w + 1)
        sizes = np.array(
            [subset.encode(np.full(len(tapes), x), tapes).payload.sum(axis=1) for x in range(k)]
        )
        assert set(np.unique(sizes).tolist()) == {0, w}
        assert (sizes == sizes[0]).all()
        by_inclusion = sizes[0].reshape(-1, 1 << bits)  # word 0 is the fastest
        assert (by_inclusion == by_inclusion[:, :1]).all()
        assert Fraction(int((sizes[0] > 0).sum()), len(tapes)) == subset.accepted

    def test_rejected_words_of_64_bits(self):
        subset = SubsetSelection(k=8, w=2, epsilon0=1.0)
        words = np.zeros((4, 3), dtype=np.uint64)
        words[1, 0] = words[2, 1] = words[3, 2] = 2**64 - 1  # 6 and 7 do not divide 2^64
        sets = subset.encode(np.array([3, 3, 3, 3]), words).payload
        assert sets.sum(axis=1).tolist() == [2, 2, 0, 0]
        assert sets[:, 3].tolist() == [True, False, False, False]


class TestChoiceOfSize:
    def test_the_better_neighbour(self):
        """k/(e+1) = 1.6 for k = 6: the nearer integer is the worse one."""
        assert per_user(6, 1, 1.0) == pytest.approx(2.28, abs=0.005)
        assert per_user(6, 2, 1.0) == pytest.approx(2.40, abs=0.005)
        assert make_local(k=6, epsilon=1.0).randomizer.w == 1

    def test_beats_randomized_response(self):
        assert make_local(k=10, epsilon=1.0).randomizer.w == 2
        assert per_user(10, 2, 1.0) == pytest.approx(2.82, abs=0.005)
        assert per_user(10, 3, 1.0) == pytest.approx(2.84, abs=0.005)
        assert per_user(10, 1, 1.0) == pytest.approx(3.63, abs=0.005)

    @pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
    @pytest.mark.parametrize("k", [2, 3, 4, 7, 12, 40])
    def test_no_size_is_better(self, k, epsilon):
        chosen = make_local(k=k, epsilon=epsilon).randomizer.w
        variances = {w: per_user(k, w, epsilon) for w in range(1, k)}
        assert variances[chosen] == min(variances.values())


class TestVariance:
    @pytest.mark.parametrize(("k", "epsilon"), [(6, 1.0), (20, 0.3), (1024, 3.0)])
    def test_formula(self, k, epsilon):
        protocol = make_local(k=k, epsilon=epsilon)
        p, q = ideal(k, protocol.randomizer.w, epsilon)
        inputs = np.zeros(k, dtype=np.int64)
        inputs[:2] = [70, 30]
        expected = 100 * q * (1 - q) / (p - q) ** 2 + inputs * (1 - p - q) / (p - q)
        np.testing.assert_allclose(protocol.analyzer.variance(inputs), expected, rtol=1e-9)


class TestEncode:
    def test_blocks_do_not_matter(self, monkeypatch):
        protocol = make_local(k=40, epsilon=1.0)
        values = np.arange(500) % 40
        whole = sdp.randomize(protocol.randomizer, values, sdp.SeededWords(1)).payload
        monkeypatch.setattr(subset_selection, "_BLOCK_BYTES", 7 * 200)
        parts = sdp.randomize(protocol.randomizer, values, sdp.SeededWords(1)).payload
        np.testing.assert_array_equal(parts, whole)
        assert (whole.sum(axis=1) == protocol.randomizer.w).all()

    @pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
    def test_any_integer_type_of_codes(self, dtype):
        subset = SubsetSelection(k=9, w=3, epsilon0=1.0)
        words = sdp.SeededWords(2).words(36).reshape(9, 4)
        np.testing.assert_array_equal(
            subset.encode(np.arange(9, dtype=dtype), words).payload,
            subset.encode(np.arange(9), words).payload,
        )


class TestParameters:
    def test_bits_count_the_empty_set(self):
        assert make_local(k=6, epsilon=1.0).cost.bits_per_message == 3  # 6 sets and the empty one
        assert make_local(k=1024, epsilon=3.0).cost.bits_per_message == 276
        assert 2**275 < math.comb(1024, 48) + 1 <= 2**276

    @pytest.mark.parametrize("w", [0, 6, -1, 1.0])
    def test_bad_size(self, w):
        with pytest.raises(sdp.ParameterError, match="w="):
            SubsetSelection(k=6, w=w, epsilon0=1.0)

    def test_k_must_fit_into_a_word(self):
        with pytest.raises(sdp.ParameterError, match="k=9 must be <= 8"):
            make_local(k=9, epsilon=1.0, word_bits=3)

    def test_words_that_are_too_coarse(self):
        with pytest.raises(sdp.ParameterError, match="epsilon0=1e-05 must be larger"):
            make_local(k=6, epsilon=1e-5, word_bits=8)

    def test_many_categories_are_made_at_once(self):
        protocol = make_local(k=60_000, epsilon=1.0)
        assert protocol.randomizer.w == 16_136


def support_p_values(sampled, declared, n=20_000):
    """Exact tails of the support counts of a user's own and of another category."""
    values = np.full(n, 2)
    counts = forget(sdp.randomize(sampled, values, sdp.SeededWords(21))).payload.sum(axis=0)
    own = binomtest(int(counts[2]), n, float(declared.p)).pvalue
    others = [binomtest(int(counts[j]), n, float(declared.q)).pvalue for j in (0, 1, 3, 19)]
    return [own, *others]


def mse_p_value(sampled, analyzer, rounds=250, n=400):
    """Two-sided tail of the sum of squared errors of one category over independent rounds."""
    values = np.tile(np.arange(n) % 20 // 3, rounds)
    messages = sdp.randomize(sampled, values, sdp.SeededWords(22)).payload.reshape(rounds, n, 20)
    truth = np.bincount(values[:n], minlength=20)
    sd = np.sqrt(analyzer.variance(truth)[5])
    tallies = [
        analyzer.tally(sdp.core.randomizer.Shuffled(payload=part, users=n)) for part in messages
    ]
    errors = np.array([analyzer.estimate(tally).value[5] - truth[5] for tally in tallies])
    statistic = ((errors / sd) ** 2).sum()
    return 2 * min(chi2.sf(statistic, rounds), chi2.cdf(statistic, rounds))


class TestSampled:
    DECLARED = make_local(k=20, epsilon=1.0)
    MUTANT = make_local(k=20, epsilon=1.25)

    def test_support_counts(self):
        randomizer = self.DECLARED.randomizer
        assert min(support_p_values(randomizer, randomizer)) > ALPHA

    def test_support_counts_of_a_mutant(self):
        assert min(support_p_values(self.MUTANT.randomizer, self.DECLARED.randomizer)) < ALPHA

    def test_squared_error(self):
        assert mse_p_value(self.DECLARED.randomizer, self.DECLARED.analyzer) > ALPHA

    def test_squared_error_of_a_mutant(self):
        wrong = make_local(k=20, epsilon=2.0).randomizer
        assert mse_p_value(wrong, self.DECLARED.analyzer) < ALPHA


def test_sets_of_many_thousands_are_refused_at_once():
    with pytest.raises(UnsupportedError, match="sets of"):
        make(n=1_000, k=100_000, epsilon=0.1, delta=1e-8)


def test_blocks_of_people_change_nothing(monkeypatch):
    """Sets that are larger than a block are filled one person at a time, and small ones many at once."""
    device = subset_selection.SubsetSelection(k=9, w=3, epsilon0=1.0)
    inputs = np.arange(40) % 9
    words = sdp.SeededWords(3).words(40 * device.words_per_input).reshape(40, -1)
    calls, fill = [], subset_selection.SubsetSelection._fill

    def count(self, sets, *rest):
        calls.append(len(sets))
        fill(self, sets, *rest)

    monkeypatch.setattr(subset_selection.SubsetSelection, "_fill", count)
    whole = device.encode(inputs, words).payload
    assert calls == [40]
    for size, block in ((1, 1), (33 * 7, 7)):
        monkeypatch.setattr(subset_selection, "_BLOCK_BYTES", size)
        calls.clear()
        np.testing.assert_array_equal(device.encode(inputs, words).payload, whole)
        assert set(calls[:-1]) == {block}


@pytest.mark.parametrize("k", [3, 4, 7, 16, 50, 1000])
def test_the_size_that_a_plan_foresees_is_the_one_that_is_made(k):
    for epsilon0 in np.linspace(0.1, 6.0, 40):
        made = subset_selection._choose_best(k, float(epsilon0), 64)
        assert subset_selection._best_size(k, float(epsilon0)) == made.w
