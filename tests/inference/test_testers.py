"""What uniformity tests are made of: statistics, message laws, public coins, the hardest laws."""

from fractions import Fraction
from itertools import product
from math import factorial

import numpy as np
import pytest
from scipy import stats

from shuffledp import ParameterError, SeededWords
from shuffledp.accounting.exact import data_set_delta
from shuffledp.inference.observers import (
    HadamardMessages,
    RRMessages,
    Tagged,
    collisions,
    total_deviation,
)
from shuffledp.inference.reduction import (
    part_sizes,
    partition,
    public_words,
    split_into_groups,
)
from shuffledp.inference.testers import METHODS, count_lowered, draw_alternatives, make_tester
from shuffledp.protocols import rr
from shuffledp.protocols.hadamard import HadamardResponse
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.rr import RR
from support import ALPHA


class TestStatistic:
    @pytest.mark.parametrize(
        ("p", "r"), [((1, 0, 0), (1, 1, 1)), ((2, 1, 3), (1, 1, 4)), ((1, 1), (1, 1))]
    )
    def test_is_unbiased_exactly(self, p, r):
        """Over all data sets of 4 users: E[Z] = n (n - 1) |p - r|^2, as fractions."""
        n = 4
        law = [Fraction(x, sum(p)) for x in p]
        expected = [Fraction(x, sum(r)) for x in r]
        mean = Fraction(0)
        for counts in product(range(n + 1), repeat=len(p)):
            if sum(counts) != n:
                continue
            mass = Fraction(factorial(n))
            for count, chance in zip(counts, law, strict=True):
                mass *= chance**count / factorial(count)
            z = collisions(counts, [float(x) for x in expected], n=n)
            mean += mass * Fraction(float(z))
        distance = sum((a - b) ** 2 for a, b in zip(law, expected, strict=True))
        assert float(mean) == pytest.approx(float(n * (n - 1) * distance), abs=1e-12)

    def test_noise_is_subtracted(self):
        noisy = collisions([3.5, 1.5], [0.5, 0.5], n=4, noise_mean=0.5, noise_variance=2.0)
        assert noisy == collisions([3, 1], [0.5, 0.5], n=4) - 2 * 2.0

    @pytest.mark.parametrize(("n", "k"), [(2, 3), (3, 3), (4, 3), (5, 2), (3, 5)])
    def test_sensitivity_of_the_deviation(self, n, k):
        """The largest change over all data sets and replacements is exactly 2 min(n, k), or less."""
        largest = 0
        for data in product(range(k), repeat=n):
            before = total_deviation(np.bincount(data, minlength=k), n=n)
            for new in range(k):
                after = total_deviation(np.bincount((new, *data[1:]), minlength=k), n=n)
                largest = max(largest, abs(int(after - before)))
        assert largest <= 2 * min(n, k)
        assert largest == 2 * min(n, k) or n == 2  # it is reached
        tester = make_tester(
            n=n, k=k, model="central", coin="private", method="distance", epsilon=1.0
        )
        assert tester.observer.mechanism.sensitivity >= largest

    def test_sensitivity_of_the_counts(self):
        """Whoever changes category is missing in one and new in another."""
        tester = make_tester(
            n=9, k=3, model="central", coin="private", method="counts", epsilon=1.0
        )
        moved = np.abs(np.array([4, 3, 2]) - np.array([3, 3, 3])).sum()
        assert tester.observer.mechanism.sensitivity == moved

    @pytest.mark.parametrize(("method", "n"), [("amplified", 8007), ("hashed", 401)])
    def test_groups_are_one_shuffle(self, method, n):
        """The promise counts honest people among all, and every device draws its group."""
        private = {"epsilon": 1.0, "delta": 1e-6, "honest": 0.9}
        tester = make_tester(n=n, k=64, model="shuffle", coin="public", method=method, **private)
        assert isinstance(tester.observer, Tagged)
        assert tester.groups > 1
        promised = tester.observer.guarantee
        assert promised.honest == int(0.9 * n)
        assert promised.delta <= 1e-6
        drawn = tester.observer.draw(8000, SeededWords(1))
        assert stats.chisquare(np.bincount(drawn, minlength=tester.groups)).pvalue > ALPHA


class TestTags:
    """Reports that travel with a group drawn on the device: their exact privacy, for a few users."""

    @staticmethod
    def tagged(maps, x):
        """The law of (group, report) of a value, whose part in group g is maps[g][x]."""
        bit = KRR(k=2, epsilon0=1.5, word_bits=8)
        law = {}
        for group, parts in enumerate(maps):
            for (report,), mass in bit.pmf(parts[x]).items():
                law[(2 * group + report,)] = mass / len(maps)
        return law

    @pytest.mark.parametrize("maps", [([0, 1], [0, 1]), ([0, 1], [0, 0]), ([0, 1], [1, 0])])
    @pytest.mark.parametrize("E", [Fraction(1), Fraction(3, 2), Fraction(5, 2)])
    def test_the_blanket_of_the_report_is_enough(self, maps, E):
        """Enumerated over all data sets of the others: never above the bound of the untagged report."""
        laws = [self.tagged(maps, x) for x in (0, 1)]
        bit = KRR(k=2, epsilon0=1.5, word_bits=8)
        for n in (2, 3, 4):
            worst = max(
                data_set_delta(laws, others, pair, E)
                for others in product((0, 1), repeat=n - 1)
                for pair in ((0, 1), (1, 0))
            )
            bound = max(each.delta(float(np.log(float(E))), n) for each in bit.blankets())
            assert float(worst) <= bound * (1 + 1e-9)

    def test_values_that_fall_together_say_less(self):
        """The bound where they differ in every group is the largest."""
        laws = {
            c: [self.tagged([[0, 1]] * (2 - c) + [[0, 0]] * c, x) for x in (0, 1)] for c in (0, 1)
        }
        for E in (Fraction(1), Fraction(2)):
            apart, together = (
                max(data_set_delta(laws[c], [x, x], (0, 1), E) for x in (0, 1)) for c in (0, 1)
            )
            assert together < apart

    def test_the_statistic_is_that_of_the_groups_one_by_one(self):
        """However many people each has drawn."""
        private = {"epsilon": 1.0, "delta": 1e-6, "honest": 0.9}
        made = make_tester(
            n=900, k=64, model="shuffle", coin="public", method="amplified", **private
        )
        seen = np.random.default_rng(3).integers(20, 90, size=(5, 16)).astype(float)
        r = np.array([0.5, 0.5])
        expected = made.observer.messages.law(r)
        one_by_one = [
            sum(
                float(
                    collisions(
                        row[2 * g : 2 * g + 2], expected, n=int(row[2 * g : 2 * g + 2].sum())
                    )
                )
                for g in range(8)
            )
            for row in seen
        ]
        assert made.observer.statistic(seen, r, 900) == pytest.approx(one_by_one)

    def test_all_in_the_same_shuffle_needs_less_noise_than_groups_apart(self):
        """What the tags buy: the epsilon0 of all users, and not of an eighth of them."""
        private = {"epsilon": 1.0, "delta": 1e-6, "honest": 0.9}
        n = 20_000
        made = make_tester(n=n, k=64, model="shuffle", coin="public", method="amplified", **private)
        alone = rr.make(n=n // 8, **private).randomizer.epsilon0
        assert made.observer.protocol.randomizer.epsilon0 > alone + 1.5


class TestMessages:
    @pytest.mark.parametrize(
        "randomizer",
        [
            HadamardResponse(k=5, epsilon0=0.5),
            HadamardResponse(k=12, epsilon0=2.2),
            HadamardResponse(k=4, epsilon0=5.0),
        ],
    )
    def test_hadamard_law_and_supports_are_those_of_the_protocol(self, randomizer):
        messages = HadamardMessages(randomizer=randomizer)
        k = randomizer.k
        p = np.arange(1, k + 1) / (k * (k + 1) / 2)
        exact = np.zeros(randomizer.outputs)
        for x in range(k):
            for (y,), mass in randomizer.pmf(x).items():
                exact[y] += p[x] * float(mass)
        assert messages.law(p) == pytest.approx(exact, rel=1e-12)
        tally = np.arange(randomizer.outputs) ** 2
        sets = [[y for y in range(len(tally)) if randomizer.sign(x, y) == 1] for x in range(k)]
        assert messages.supports(tally).tolist() == [tally[likely].sum() for likely in sets]
        both = messages.law(np.stack([p, p[::-1]]))
        assert both[1] == pytest.approx(messages.law(p[::-1]), rel=1e-12)

    def test_fast_transform_of_long_blocks(self):
        """Beyond the short blocks the transform is another computation: the same numbers."""
        long = HadamardResponse(k=1000, epsilon0=0.5)
        assert long.block_length == 1024
        messages = HadamardMessages(randomizer=long)
        tally = np.random.default_rng(1).integers(9, size=1024)
        for x in (0, 1, 500, 999):
            likely = [y for y in range(1024) if long.sign(x, y) == 1]
            assert messages.supports(tally)[x] == tally[likely].sum()

    def test_one_bit(self):
        bit = RRMessages(randomizer=RR(epsilon0=1.0))
        keep = float(bit.randomizer.p)
        assert bit.law(np.array([1.0, 0.0])) == pytest.approx([keep, 1 - keep])

    @pytest.mark.parametrize("epsilon0", [0.5, 2.2, 5.0])
    def test_mean_of_the_statistic_is_at_least_what_one_holder_adds(self, epsilon0):
        """With blocks the likely sets also see how a block is filled, which can only add."""
        messages = HadamardMessages(randomizer=HadamardResponse(k=12, epsilon0=epsilon0))
        gain = float(messages.randomizer.lead) / 2  # of a category's set, by one who holds it
        u = np.full(12, 1 / 12)
        for seed in range(20):
            p = np.random.default_rng(seed).dirichlet(np.ones(12))
            shift = messages.supports(messages.law(p)) - messages.supports(messages.law(u))
            assert (shift**2).sum() >= gain**2 * ((p - u) ** 2).sum() * (1 - 1e-9)


class TestCoins:
    def test_partitions_are_uniform(self):
        """Every pair of categories is in the same part equally often, as often as it must be."""
        pairs = np.zeros((6, 6), dtype=int)
        runs = 4000
        for seed in range(runs):
            part = partition(6, 3, public_words(seed))
            assert np.bincount(part).tolist() == part_sizes(6, 3).tolist() == [2, 2, 2]
            pairs += part[:, None] == part[None, :]
        for i, j in product(range(6), repeat=2):
            if i < j:
                assert stats.binomtest(int(pairs[i, j]), runs, 1 / 5).pvalue > ALPHA

    def test_groups_cover_everybody_once(self):
        found = split_into_groups(103, 8, public_words(1))
        assert sorted(np.concatenate(found).tolist()) == list(range(103))
        assert {len(group) for group in found} == {12, 13}

    def test_public_and_private_words_differ(self):
        assert not (public_words(3).words(100) == SeededWords(3).words(100)).any()


class TestAlternatives:
    @pytest.mark.parametrize(("k", "alpha"), [(10, 0.1), (7, 0.3), (8, 0.7), (3, 0.5)])
    def test_distance_and_least_squares(self, k, alpha):
        p = draw_alternatives(np.ones(k, dtype=np.int64), alpha, 5, np.random.default_rng(1))
        assert p.sum(axis=1) == pytest.approx(np.ones(5))
        assert p.min() >= 0
        assert np.abs(p - 1 / k).sum(axis=1) / 2 == pytest.approx(np.full(5, alpha))
        squares = np.square(p - 1 / k).sum(axis=1)
        # No split of the same distance has less.
        splits = [m for m in range(1, k) if m >= alpha * k]
        least = min(alpha**2 * (1 / m + 1 / (k - m)) for m in splits)
        assert squares == pytest.approx(np.full(5, least))

    def test_parts_of_a_random_partition(self):
        """The probabilities of parts are those of a partition of one fixed law."""
        sizes, runs = part_sizes(12, 4), 3000
        ours = draw_alternatives(sizes, 0.25, runs, np.random.default_rng(1))
        fixed = draw_alternatives(np.ones(12, dtype=np.int64), 0.25, 1, np.random.default_rng(2))[0]
        theirs = np.array(
            [
                np.bincount(partition(12, 4, public_words(seed)), weights=fixed)
                for seed in range(runs)
            ]
        )
        one, other = (np.square(p).sum(axis=1).round(9) for p in (ours, theirs))
        assert stats.ks_2samp(one, other, method="asymp").pvalue >= ALPHA
        assert ours.sum(axis=1) == pytest.approx(np.ones(runs))

    def test_no_law_is_further_than_that(self):
        with pytest.raises(ParameterError, match="1 - 1/k"):
            count_lowered(4, 0.76)


@pytest.mark.parametrize(
    ("model", "coin", "method"),
    [(model, coin, name) for (model, coin), names in METHODS.items() for name in names],
)
@pytest.mark.parametrize("k", [7, 20, 33])
def test_equal_counts_have_equal_statistics_alone_and_among_many(model, coin, method, k):
    """Else the observed statistic could beat a tied one by rounding, and the p-value were too small."""
    tester = make_tester(
        n=3_000, k=k, model=model, coin=coin, method=method, epsilon=2.0, delta=1e-4, honest=1
    )
    r, n = part_sizes(k, tester.parts) / k, 3_000 // tester.groups
    laws = np.stack([r] * tester.groups) if isinstance(tester.observer, Tagged) else r
    seen = tester.observer.simulate(laws, n, 50, np.random.default_rng(1))
    many = tester.observer.statistic(seen, r, n)
    alone = [float(tester.observer.statistic(row.copy(), r, n)) for row in seen]
    assert many.tolist() == alone
