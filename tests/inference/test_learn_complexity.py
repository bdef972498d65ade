"""sdp.sample_complexity("learn", ...): exact where it says so, and growing as theory says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.inference.complexity import (
    Order,
    SampleComplexity,
    expected_empirical_tv,
    learning_n,
    learning_order,
)
from shuffledp.inference.learning import find_source, total_variation
from support import ALPHA

PRIVACY = {"epsilon": 1.0, "delta": 1e-6}


def exponent(sizes, answers):
    """The slope of log(answer) against log(size)."""
    return float(np.polyfit(np.log(sizes), np.log(answers), 1)[0])


class TestWithoutPrivacy:
    @pytest.mark.parametrize("k", [2, 3, 7])
    @pytest.mark.parametrize("n", [1, 2, 6, 21])
    def test_expectation_is_exact(self, n, k):
        q = Fraction(1, k)
        mean = sum(
            math.comb(n, v) * q**v * (1 - q) ** (n - v) * abs(Fraction(v, n) - q)
            for v in range(n + 1)
        )
        assert expected_empirical_tv(n, k) == pytest.approx(float(k * mean / 2), rel=1e-9)

    def test_expectation_of_a_huge_crowd_is_normal(self):
        """E|N(0, 1)| = sqrt(2 / pi), relatively to 10^-6 for 10^11 people."""
        n, k = 10**11, 100
        normal = k / 2 * math.sqrt(2 / math.pi * (1 / k) * (1 - 1 / k) / n)
        assert expected_empirical_tv(n, k) == pytest.approx(normal, rel=1e-6)

    @pytest.mark.parametrize(("k", "alpha"), [(2, 0.2), (10, 0.1), (100, 0.1), (1000, 0.03)])
    def test_smallest_n(self, k, alpha):
        found = sdp.sample_complexity("learn", k, alpha, model="none")
        assert found.method == "exact"
        assert expected_empirical_tv(found.n, k) <= alpha < expected_empirical_tv(found.n - 1, k)
        assert (found.lower, found.upper) == (found.n - 1, found.n)
        assert found.measured == expected_empirical_tv(found.n, k)

    def test_growth(self):
        by_k = [learning_n(k=k, alpha=0.05, model="none").n for k in (50, 200, 800)]
        assert exponent([50, 200, 800], by_k) == pytest.approx(1, abs=0.02)
        alphas = [0.2, 0.05, 0.0125]
        by_alpha = [learning_n(k=100, alpha=alpha, model="none").n for alpha in alphas]
        assert exponent(alphas, by_alpha) == pytest.approx(-2, abs=0.02)


@pytest.fixture(scope="module")
def found():
    models = ("none", "central", "shuffle")
    return {
        model: sdp.sample_complexity("learn", 100, 0.1, model=model, **PRIVACY) for model in models
    }


class TestFigure:
    """k = 100, alpha = 0.1, epsilon = 1, delta = 10^-6."""

    def test_shuffle_needs_at_most_a_third_more_than_central(self, found):
        """Even the ends of the brackets: measured 1.07."""
        assert found["shuffle"].upper <= 1.3 * found["central"].lower
        assert found["none"].n < found["central"].n < found["shuffle"].n

    def test_one_message(self, found):
        """Where a single message is all there is, the price is below 2 (measured 1.94)."""
        krr = sdp.sample_complexity("learn", 100, 0.1, protocol="krr", runs=100, **PRIVACY)
        assert 1.5 < krr.n / found["central"].n < 2.2

    @pytest.mark.parametrize("model", ["central", "shuffle"])
    def test_with_real_devices(self, found, model):
        """New people and real messages: alpha at n, and clearly more with a fifth less."""
        at = found[model].n
        mean, error = self.measured(model, at)
        assert mean == pytest.approx(0.1, abs=7 * error)
        fewer, error = self.measured(model, round(at * 0.8))
        assert fewer - 5 * error > 0.1

    def measured(self, model, n):
        request = dict(n=n, k=100, model=model, **PRIVACY)
        chosen, generator = find_source(**request), np.random.default_rng(8)
        words, distances = sdp.SeededWords(99), []
        for _ in range(40):
            raw = chosen.release(generator.integers(0, 100, n), words)
            learned = raw.simplex(float(n)).value / n
            distances.append(total_variation(learned, np.full(100, 0.01)))
        return np.mean(distances), np.std(distances, ddof=1) / math.sqrt(40)

    def test_bracket_and_measured(self, found):
        for each in (found["central"], found["shuffle"]):
            assert each.method.startswith("simulated, 400 runs, standard error ")
            assert each.lower < each.n < each.upper < 1.1 * each.lower
            assert 0.098 < each.measured <= 0.1


class TestGrowth:
    def test_central_where_the_noise_leads(self):
        """n = k / (alpha epsilon): all three exponents are 1 in size."""
        sizes = [16, 64, 256]
        by_k = [learning_n(k=k, alpha=0.3, epsilon=0.05, model="central", runs=60).n for k in sizes]
        assert exponent(sizes, by_k) == pytest.approx(1, abs=0.1)
        epsilons = [0.02, 0.06, 0.18]
        by_epsilon = [
            learning_n(k=64, alpha=0.3, epsilon=e, model="central", runs=60).n for e in epsilons
        ]
        assert exponent(epsilons, by_epsilon) == pytest.approx(-1, abs=0.15)

    def test_central_where_sampling_leads(self):
        alphas = [0.06, 0.03, 0.015]
        found = [
            learning_n(k=64, alpha=alpha, epsilon=5.0, model="central", runs=60).n
            for alpha in alphas
        ]
        assert exponent(alphas, found) == pytest.approx(-2, abs=0.1)

    def test_local(self):
        """n = k^2 / (alpha epsilon)^2; k = 2^m - 1, where Hadamard response wastes nothing."""
        sizes = [7, 15, 31]
        shared = {"model": "local", "protocol": "hadamard", "runs": 60}
        by_k = [learning_n(k=k, alpha=0.1, epsilon=0.5, **shared).n for k in sizes]
        assert exponent(np.array(sizes) + 0.0, by_k) == pytest.approx(2, abs=0.2)
        alphas = [0.2, 0.1, 0.05]
        by_alpha = [learning_n(k=15, alpha=alpha, epsilon=0.5, **shared).n for alpha in alphas]
        assert exponent(alphas, by_alpha) == pytest.approx(-2, abs=0.2)
        epsilons = [0.1, 0.2, 0.4]
        by_epsilon = [learning_n(k=15, alpha=0.1, epsilon=e, **shared).n for e in epsilons]
        assert exponent(epsilons, by_epsilon) == pytest.approx(-2, abs=0.2)

    def test_shuffle_grows_like_central(self):
        sizes = [16, 64, 256]
        shared = {"alpha": 0.1, "protocol": "correlated_histogram", "runs": 60, **PRIVACY}
        by_k = [learning_n(k=k, **shared).n for k in sizes]
        assert exponent(sizes, by_k) == pytest.approx(1, abs=0.1)


class TestTheory:
    def test_orders(self):
        def order(**arguments):
            return learning_order(**{"k": 100, "alpha": 0.1, **PRIVACY, **arguments})

        assert order(model="none").value == pytest.approx(1e4)
        assert order(model="central").value == pytest.approx(1e4 + 1e3)
        local = 1e6 / (math.e - 1) ** 2 + 1e6 / math.e + 1e4
        assert order(model="local").value == pytest.approx(local)
        single = order(model="shuffle", protocol="krr")
        assert single.value == pytest.approx(1e4 + 1e3 * math.sqrt(math.log(1e6)))
        assert "sqrt(ln(1/delta))" in single.formula
        several = order(model="shuffle", protocol="correlated_histogram")
        assert several.value == order(model="central").value

    def test_regimes_of_the_local_model(self):
        """k^2 / (alpha epsilon)^2 for small epsilon (not k / (alpha epsilon)^2), k / alpha^2 for large."""
        small = learning_order(k=1000, alpha=0.1, epsilon=0.01, model="local").value
        assert small == pytest.approx(1000**2 / (0.1 * 0.01) ** 2, rel=0.02)
        large = learning_order(k=1000, alpha=0.1, epsilon=30.0, model="local").value
        assert large == pytest.approx(1000 / 0.1**2, rel=1e-6)

    def test_printed_as_an_order(self):
        found = sdp.sample_complexity("learn", 10, 0.1, model="none")
        assert isinstance(found, SampleComplexity)
        assert isinstance(found.theory, Order)
        assert "an order, constants 1" in str(found)


class TestSmall:
    @pytest.mark.parametrize(("k", "alpha"), [(2, 0.3), (3, 0.5), (5, 0.7)])
    @pytest.mark.parametrize("model", ["central", "local", "shuffle"])
    def test_few_people(self, k, alpha, model):
        found = learning_n(k=k, alpha=alpha, epsilon=5.0, delta=0.01, model=model, runs=60)
        assert 1 <= found.lower <= found.n <= found.upper < 500
        assert found.measured <= alpha

    def test_deterministic(self):
        first, second = (
            learning_n(k=5, alpha=0.1, epsilon=1.0, model="central", runs=50) for _ in range(2)
        )
        assert first == second


def test_seeds_do_not_matter():
    """The bracket of one simulation holds the n that another, much longer one finds."""
    short = learning_n(k=20, alpha=0.1, epsilon=0.5, model="central", runs=200)
    chosen = find_source(n=short.n, k=20, epsilon=0.5, model="central")
    words = sdp.SeededWords(4)
    generator, uniform = np.random.default_rng(6), np.full(20, 0.05)
    distances = []
    for _ in range(2000):
        raw = chosen.mechanism.release(generator.multinomial(short.n, uniform), words)
        distances.append(total_variation(raw.simplex(float(short.n)).value / short.n, uniform))
    error = np.std(distances, ddof=1) * math.sqrt(1 / 2000 + 1 / 200)
    far = stats.norm.isf(ALPHA / 2)
    assert np.mean(distances) == pytest.approx(short.measured, abs=far * error)


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"model": "magic"}, "model='magic' must be one of"),
            ({"alpha": 0.0}, "alpha=0.0 must be > 0"),
            ({"alpha": 0.8, "k": 5}, "alpha=0.8 must be < 1 - 1/k = 0.8"),
            ({"k": 1}, "k=1 must be >= 2"),
            ({"epsilon": None}, "epsilon must be given"),
            ({"delta": None}, "delta must be given"),
            ({"runs": 3}, "runs=3 must be >= 20"),
            ({"max_messages": 0}, "max_messages=0 must be > 0"),
            ({"protocol": "rr"}, "protocol='rr' must be one of correlated_histogram, krr"),
            ({"model": "none", "protocol": "krr"}, "protocol='krr' must be 'empirical'"),
        ],
    )
    def test_parameters(self, arguments, message):
        shared = {"k": 4, "alpha": 0.1, **PRIVACY}
        with pytest.raises(sdp.ParameterError) as caught:
            sdp.sample_complexity("learn", **{**shared, **arguments})
        assert message in str(caught.value)

    def test_task(self):
        with pytest.raises(sdp.ParameterError, match="task='guess' must be one of learn"):
            sdp.sample_complexity("guess", 4, 0.1)

    def test_out_of_reach(self):
        with pytest.raises(sdp.UnsupportedError, match="more than 1e"):
            learning_n(k=100, alpha=1e-9, model="none")
        with pytest.raises(sdp.UnsupportedError, match="more than 1e"):
            learning_n(k=100, alpha=1e-5, epsilon=0.01, model="local")

    def test_no_simulation(self):
        with pytest.raises(sdp.UnsupportedError, match="cannot be simulated"):
            learning_n(k=100, alpha=0.1, protocol="hashed_histogram", **PRIVACY)
