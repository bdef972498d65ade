"""zsum: the paper's constants, exact zeros, the law of the answer, calibration, accuracy, coverage."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from branches import add_up
from shuffledp import run_counts
from shuffledp.core.analyzer import Tally
from shuffledp.core.randomizer import Shuffled
from shuffledp.protocols import zsum
from shuffledp.protocols.zsum import Zsum, ZsumAnalyzer, paper_gamma
from support import ALPHA, encode_many, fits


def made(n, epsilon, delta, calibration="exact", **more):
    return zsum.make(
        n=n, epsilon=epsilon, delta=delta, calibration=calibration, **{"honest": 1.0, **more}
    )


def noise_variance(protocol):
    gamma = protocol.randomizer.gamma
    return float(protocol.users * gamma * (1 - gamma))


def independent_delta(n, gamma, epsilon):
    """Both directions of the hockey-stick divergence, summed term by term."""
    y = np.arange(-1, n + 2)
    mass = binom.pmf(y, n, gamma)
    here, before, after = mass[1:-1], mass[:-2], mass[2:]
    E = math.exp(epsilon)
    return max(np.maximum(here - E * before, 0).sum(), np.maximum(here - E * after, 0).sum())


class TestPaper:
    @pytest.mark.parametrize(
        ("n", "epsilon", "delta"), [(10**6, 1.0, 1e-6), (10**5, 0.5, 1e-9), (5804, 0.5, 1e-6)]
    )
    def test_gamma_is_the_formula_rounded_up(self, n, epsilon, delta):
        gamma = made(n, epsilon, delta, "paper").randomizer.gamma
        formula = 50 * math.log(2 / delta) / (epsilon**2 * n)
        assert formula <= float(gamma) <= formula * (1 + 1e-12)

    @pytest.mark.parametrize(("epsilon", "smallest"), [(1.0, 1451), (0.5, 5804), (0.1, 145_087)])
    def test_condition_on_n(self, epsilon, smallest):
        assert made(smallest, epsilon, 1e-6, "paper").randomizer.gamma <= Fraction(1, 2)
        with pytest.raises(sdp.UnsupportedError, match="honest users"):
            made(smallest - 1, epsilon, 1e-6, "paper")

    def test_noise_is_counted_on_honest_users_only(self):
        gamma = made(10_000, 1.0, 1e-6, "paper", honest=0.5).randomizer.gamma
        assert gamma == made(5_000, 1.0, 1e-6, "paper").randomizer.gamma

    def test_outside_the_theorem(self):
        with pytest.raises(sdp.UnsupportedError, match="epsilon"):
            made(10**6, 1.01, 1e-6, "paper")
        assert made(10**6, 1.01, 1e-6).guarantee.delta <= 1e-6
        with pytest.raises(sdp.ParameterError, match="calibration"):
            made(10**6, 1.0, 1e-6, "rough")

    def test_rounding_up_never_passes_one_half(self):
        for bits in (1, 2, 5, 64):
            assert paper_gamma(n=1451, epsilon=1.0, delta=1e-6, bits=bits) <= Fraction(1, 2)

    @pytest.mark.parametrize(("n", "epsilon"), [(1451, 1.0), (10**5, 0.5), (10**6, 0.1)])
    def test_theorem_is_true(self, n, epsilon):
        assert made(n, epsilon, 1e-6, "paper").guarantee.delta <= 1e-6


class TestExact:
    @pytest.mark.parametrize(("epsilon", "factor"), [(1.0, 20), (0.1, 45)])
    def test_variance_against_the_paper(self, epsilon, factor):
        paper, exact = (made(10**6, epsilon, 1e-6, rule) for rule in ("paper", "exact"))
        assert noise_variance(paper) >= factor * noise_variance(exact)

    @pytest.mark.parametrize(("epsilon", "smallest"), [(1.0, 80), (0.5, 268), (0.1, 5279)])
    def test_smallest_n(self, epsilon, smallest):
        assert made(smallest, epsilon, 1e-6).guarantee.delta <= 1e-6
        with pytest.raises(sdp.UnsupportedError, match="too few"):
            made(smallest - 1, epsilon, 1e-6)

    @pytest.mark.parametrize(
        ("epsilon", "delta", "level"),
        [(0.1, 1e-6, 1408.7), (0.5, 1e-8, 134.9), (1.0, 1e-6, 34.07), (2.0, 1e-10, 31.34)],
    )
    def test_noise_levels(self, epsilon, delta, level):
        n = 10**9
        assert float(n * made(n, epsilon, delta).randomizer.gamma) == pytest.approx(level, rel=2e-3)

    @pytest.mark.parametrize(
        ("n", "epsilon", "delta"), [(1000, 1.0, 1e-6), (20_000, 0.2, 1e-5), (100, 3.0, 1e-9)]
    )
    def test_guarantee_by_another_evaluation(self, n, epsilon, delta):
        protocol = made(n, epsilon, delta)
        gamma = float(protocol.randomizer.gamma)
        exact = independent_delta(n, gamma, epsilon)
        assert protocol.guarantee.delta == pytest.approx(exact, rel=1e-6)
        assert exact <= delta * (1 + 1e-9)
        assert independent_delta(n, 0.97 * gamma, epsilon) > delta  # less noise is too little

    def test_half_of_the_users(self):
        protocol = made(10**5, 1.0, 1e-6)
        left = protocol.guarantee_if(honest=0.5)
        gamma = float(protocol.randomizer.gamma)
        assert left.delta == pytest.approx(independent_delta(50_000, gamma, 1.0), rel=1e-5)


class TestAnswers:
    @pytest.mark.parametrize("calibration", ["exact", "paper"])
    def test_no_ones_are_answered_by_exactly_zero(self, calibration):
        protocol = made(20_000, 1.0, 1e-6, calibration)
        for seed in range(20):
            assert sdp.run(protocol, np.zeros(20_000, int), sdp.SeededWords(seed)).value == 0.0

    def test_no_ones_for_every_tape(self):
        protocol = made(4, 1.0, 0.2, word_bits=4)
        laws = [protocol.randomizer.pmf(0).items()] * 4
        for sent in product(*laws):
            ones = sum(len(one) for one, _ in sent)
            tally = Tally(counts=np.array([ones]), users=4)
            assert protocol.analyzer.estimate(tally).value == 0.0

    def test_the_sparse_answer_would_not_be_zero(self):
        protocol = made(20_000, 1.0, 1e-6)
        tally = protocol.randomizer.deal(np.array([20_000, 0]), sdp.SeededWords(1))
        gamma = protocol.randomizer.gamma
        assert abs(int(tally.counts[0]) - 20_000 * (1 - gamma)) > 0.01

    def test_rule_at_its_edge(self):
        analyzer = ZsumAnalyzer(randomizer=Zsum(threshold=7, word_bits=3))
        values = [analyzer.estimate(Tally(counts=np.array([y]), users=80)).value for y in (80, 81)]
        assert values == [0.0, 11.0]

    def test_not_linear(self):
        with pytest.raises(sdp.UnsupportedError, match="linear"):
            made(100, 2.0, 1e-3).analyzer.weights(1)

    def test_a_zero_is_no_message(self):
        with pytest.raises(sdp.DataError, match="message"):
            made(100, 2.0, 1e-3).analyzer.tally(Shuffled(payload=np.array([1, 0]), users=2))

    @pytest.mark.parametrize("ones", range(7))
    def test_bias_and_variance_by_enumeration(self, ones):
        randomizer = Zsum(threshold=5, word_bits=3)
        analyzer, inputs = ZsumAnalyzer(randomizer=randomizer), np.array([6 - ones, ones])
        sent = [{(len(one),): mass for one, mass in randomizer.pmf(x).items()} for x in (0, 1)]
        law = add_up([sent[0]] * (6 - ones) + [sent[1]] * ones)
        errors = [
            (analyzer.estimate(Tally(counts=np.array(counts), users=6)).value - ones, float(mass))
            for counts, mass in law.items()
        ]
        mean = sum(error * mass for error, mass in errors)
        square = sum(error**2 * mass for error, mass in errors)
        assert analyzer.bias(inputs) == pytest.approx(mean, abs=1e-8)
        assert analyzer.variance(inputs) == pytest.approx(square - mean**2, abs=1e-7)

    def test_price_of_the_cut(self):
        """RMSE about S below the noise level mu, at most about 0.8 mu, and sqrt(mu) far above."""
        protocol = made(10**6, 0.1, 1e-6)
        mu = float(10**6 * protocol.randomizer.gamma)

        def rmse(share):
            ones = round(share * mu)
            inputs = np.array([10**6 - ones, ones])
            return math.hypot(
                protocol.analyzer.bias(inputs), math.sqrt(protocol.analyzer.variance(inputs))
            )

        assert rmse(0.5) == pytest.approx(0.5 * mu, rel=1e-3)
        assert max(rmse(share) for share in np.arange(0.8, 1.1, 0.02)) < 0.95 * mu
        assert rmse(1.5) == pytest.approx(math.sqrt(mu), rel=0.01)


class TestAccuracy:
    def test_the_radius_of_the_note_fails_more_often_than_it_says(self):
        """100 ln(2/delta)/epsilon^2 does not hold for every beta > delta^25; 108 does. Both from the law."""
        n, epsilon, delta = 10**6, 1.0, 1e-4
        analyzer = made(n, epsilon, delta, "paper").analyzer
        unit = math.log(2 / delta) / epsilon**2
        assert math.log10(analyzer.failure(n, 100 * unit)) == pytest.approx(-84.9, abs=0.05)
        assert analyzer.failure(n, 100 * unit) > delta**25 >= analyzer.failure(n, 108 * unit)
        assert 100 * unit < analyzer.accuracy(n, delta**25) <= 108 * unit

    @pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
    @pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-9])
    def test_the_corrected_radius_holds(self, epsilon, delta):
        unit = math.log(2 / delta) / epsilon**2
        for n in (math.ceil(100 * unit) + 1, 10**7):
            analyzer = made(n, epsilon, delta, "paper").analyzer
            assert analyzer.failure(n, 108 * unit) <= delta**25

    @pytest.mark.parametrize("radius", [3, 12.5, 20, 20.31, 25, 40, 399, 400])
    def test_failures_are_those_of_the_worst_data(self, radius):
        """Enumerated over every true count."""
        n = 400
        analyzer = ZsumAnalyzer(randomizer=Zsum(threshold=243, word_bits=8))
        gamma = float(1 - analyzer.randomizer.rate)
        N = np.arange(n + 1)
        law = binom.pmf(N, n, gamma)
        exact = max(
            law[np.where(ones > N, np.abs(N - n * gamma), ones) > radius].sum()
            for ones in range(n + 1)
        )
        found = analyzer.failure(n, radius)
        assert found >= exact * (1 - 1e-12)
        assert found == pytest.approx(exact, rel=1e-6) or radius < n * gamma

    @pytest.mark.parametrize("beta", [0.3, 0.05, 1e-6, 1e-200])
    def test_the_radius_is_the_smallest_integer(self, beta):
        analyzer = made(10**4, 0.7, 1e-5).analyzer
        radius = analyzer.accuracy(10**4, beta)
        assert analyzer.failure(10**4, radius) <= beta < analyzer.failure(10**4, radius - 1)


class TestIntervals:
    @pytest.mark.parametrize(("epsilon", "ones"), [(1.0, 0), (1.0, 30), (1.0, 10**5), (0.1, 10**5)])
    def test_coverage(self, epsilon, ones):
        """Exactly, from the law: each number of noise messages has its interval."""
        n = 10**6
        protocol = made(n, epsilon, 1e-6)
        gamma = float(protocol.randomizer.gamma)
        N = np.arange(int(binom.isf(1 - 1e-12, n, gamma)), int(binom.isf(1e-12, n, gamma)) + 1)
        hit = []
        for noise in N.tolist():
            tally = Tally(counts=np.array([ones + n - noise]), users=n)
            low, high = protocol.analyzer.estimate(tally).interval(0.95)
            hit.append(low <= ones <= high)
        covered = binom.pmf(N, n, gamma)[hit].sum()
        # At the edge of the public range an interval that misses downwards is moved to 0, and hits.
        assert 0.95 - 1e-9 <= covered <= (0.955 if ones else 0.99)

    def test_ends_stay_in_the_public_range(self):
        protocol = made(10**5, 1.0, 1e-6)
        for counts in ([10**5, 0], [0, 10**5]):
            low, high = run_counts(protocol, counts, sdp.SeededWords(2)).interval(0.99)
            assert 0 <= low <= high <= 10**5


def test_noise_has_its_variance_and_a_mutant_is_noticed():
    """500 crowds of 2000 users: |y| - n - S is minus a binomial number."""
    protocol = made(2000, 1.0, 1e-3)
    gamma, n, runs = protocol.randomizer.gamma, 2000, 500

    def total(randomizer):
        words = sdp.SeededWords(11)
        inputs = np.arange(n) % 2
        return sum(
            n + n // 2 - len(randomizer.encode(inputs, words.words(n).reshape(n, 1)).payload)
            for _ in range(runs)
        )

    law = binom(n * runs, float(gamma))
    inside = law.ppf(ALPHA / 2), law.isf(ALPHA / 2)
    assert inside[0] <= total(protocol.randomizer) <= inside[1]
    silent = 2**64 - protocol.randomizer.threshold
    mutant = Zsum(threshold=2**64 - silent * 11 // 10)
    assert not inside[0] <= total(mutant) <= inside[1]


@pytest.mark.parametrize("x", [0, 1])
@pytest.mark.parametrize("sparse", [False, True])
def test_devices_at_production_width_and_a_mutant(x, sparse):
    """How many messages each of 200,000 users sends, with words of 64 bits."""
    maker = zsum.make_sparse if sparse else zsum.make
    device = maker(n=2000, epsilon=1.0, delta=1e-3, honest=1.0).randomizer
    assert device.word_bits == 64

    def observe(randomizer):
        sent = encode_many(randomizer, x, 200_000, seed=7)
        return np.bincount(np.bincount(sent.owner, minlength=200_000), minlength=3)

    law = [device.pmf(x).get((1,) * number, 0) for number in range(3)]
    assert fits(observe(device), law)
    silent = 2**64 - device.threshold
    more = Zsum(threshold=device.threshold * 13 // 10 if sparse else 2**64 - silent * 13 // 10)
    assert not fits(observe(more), law)
