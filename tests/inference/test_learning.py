"""sdp.learn: what it returns in each model, and that its bounds hold."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp import SeededWords
from shuffledp.inference.learning import Learned, Reported, find_source, total_variation
from shuffledp.tasks import Distribution
from support import ALPHA

PRIVACY = {"epsilon": 1.0, "delta": 1e-6}
MODELS = ("none", "central", "local", "shuffle")
SKEWED = np.array([0.6, 0.2, 0.1, 0.05, 0.05, 0.0, 0.0, 0.0])


def people(n, p, seed=0):
    return np.random.default_rng(seed).choice(len(p), size=n, p=p)


@pytest.mark.parametrize("model", MODELS)
class TestEveryModel:
    def test_distribution_and_raw_estimate(self, model):
        values = people(20_000, SKEWED)
        learned = sdp.learn(values, k=8, model=model, rng=SeededWords(1), **PRIVACY)
        assert isinstance(learned, Learned)
        assert learned.model == model
        assert learned.n == 20_000
        assert learned.distribution.shape == (8,)
        assert learned.distribution.min() >= 0
        assert learned.distribution.sum() == pytest.approx(1.0, abs=1e-12)
        assert learned.processed.step == "projected onto total 1"
        again = learned.raw.simplex().value
        np.testing.assert_array_equal(again, learned.distribution)
        # The raw estimate is that of the frequencies: within seven of its own standard errors.
        truth = Distribution(domain=sdp.Categories(k=8)).truth(values)
        assert np.all(np.abs(learned.raw.value - truth) <= 7 * learned.raw.stderr + 1e-15)

    def test_guarantee(self, model):
        learned = sdp.learn(people(5000, SKEWED), k=8, model=model, **PRIVACY)
        if model == "none":
            assert learned.guarantee is None
            return
        assert learned.guarantee.model.value == model
        assert learned.guarantee.epsilon <= 1.0
        assert learned.guarantee.delta <= (1e-6 if model == "shuffle" else 0.0)

    def test_bounds_tell_nothing_about_the_data(self, model):
        first = sdp.learn(people(3000, SKEWED), k=8, model=model, **PRIVACY)
        second = sdp.learn(np.full(3000, 7), k=8, model=model, **PRIVACY)
        assert first.accuracy == second.accuracy
        assert first.expected_tv == second.expected_tv
        assert first.tv_bound(0.1) == second.tv_bound(0.1)

    def test_secure_words_unless_a_source_is_given(self, model):
        values = people(3000, SKEWED)
        draws = [
            sdp.learn(values, k=8, model=model, **PRIVACY).raw.value.tolist() for _ in range(2)
        ]
        assert (draws[0] == draws[1]) == (model == "none")
        fixed = [
            sdp.learn(values, k=8, model=model, rng=SeededWords(3), **PRIVACY).raw.value.tolist()
            for _ in range(2)
        ]
        assert fixed[0] == fixed[1]


def test_a_delta_of_0_takes_what_needs_none():
    learned = sdp.learn(
        people(60, SKEWED) % 2, k=2, epsilon=2.0, delta=0, model="shuffle", rng=sdp.SeededWords(1)
    )
    assert (learned.protocol, learned.guarantee.delta) == ("pure_histogram", 0.0)
    with pytest.raises(sdp.UnsupportedError, match="pure"):
        sdp.learn(people(5000, SKEWED), k=8, epsilon=0.01, delta=0, model="shuffle")


def test_order_of_the_models():
    """Trust buys accuracy."""
    values = people(100_000, SKEWED)
    none, central, local, shuffle = (
        sdp.learn(values, k=8, model=model, **PRIVACY).expected_tv for model in MODELS
    )
    assert none < central < shuffle < local
    assert shuffle < 1.1 * none, "at this n, shuffling is nearly as good as no privacy"
    assert local > 2 * shuffle


class TestBoundsHold:
    """Over many collections: new people, new coins."""

    RUNS = 150

    def distances(self, chosen, p, n):
        k, words = len(p), SeededWords(11)
        generator = np.random.default_rng(5)
        to_p, to_sample = [], []
        for _ in range(self.RUNS):
            values = generator.choice(k, size=n, p=p)
            raw = chosen.release(values, words)
            learned = raw.simplex(float(n)).value / n
            to_p.append(total_variation(learned, p))
            to_sample.append(total_variation(learned, np.bincount(values, minlength=k) / n))
        return np.array(to_p), np.array(to_sample)

    def below(self, distances, stated):
        """Whether their expectation may be at most what is stated: Student's test."""
        error = distances.std(ddof=1) / math.sqrt(self.RUNS)
        return distances.mean() <= stated + stats.t(self.RUNS - 1).isf(ALPHA) * error

    @pytest.mark.parametrize(
        ("model", "protocol"),
        [
            ("none", None),
            ("central", None),
            ("local", "krr"),
            ("local", "hadamard"),
            ("local", "subset_selection"),
            ("shuffle", "correlated_histogram"),
            ("shuffle", "dummies_histogram"),
            ("shuffle", "krr"),
            ("shuffle", "hashed_histogram"),
        ],
    )
    @pytest.mark.parametrize("p", [SKEWED, np.full(20, 1 / 20)], ids=["skewed", "uniform"])
    def test_expectation_and_tail(self, model, protocol, p):
        n, k = 1500, len(p)
        privacy = {"epsilon": 1.0, "delta": 1e-4}
        chosen = find_source(n=n, k=k, model=model, protocol=protocol, **privacy)
        accuracy = chosen.accuracy(n)
        to_p, to_sample = self.distances(chosen, p, n)
        assert self.below(to_p, accuracy.expected)
        assert self.below(to_sample, accuracy.expected_sample)
        # The twin: for the uniform distribution, half of it would be found out.
        assert p is SKEWED or not self.below(to_p, accuracy.expected / 2)
        beta = 0.2
        allowed = stats.binom(self.RUNS, beta).isf(ALPHA)
        bound = accuracy.bound(beta)
        assert np.sum(to_p > bound) <= allowed
        # The twin: a bound of a fifth would be found out.
        assert np.sum(to_p > bound / 5) > allowed or bound == 1.0

    def test_the_expectation_is_not_far_off(self):
        p = np.full(20, 1 / 20)
        chosen = find_source(n=1500, k=20, epsilon=1.0, delta=1e-4, model="central")
        to_p, _ = self.distances(chosen, p, 1500)
        assert chosen.accuracy(1500).expected <= 1.4 * to_p.mean()


class TestChoice:
    def test_shuffle_takes_the_most_accurate_affordable(self):
        request = {"n": 2400, "k": 100, "epsilon": 1.0, "delta": 1e-6, "model": "shuffle"}
        free = find_source(**request)
        assert free.name == "correlated_histogram"
        assert free.protocol.cost.messages_mean > 20
        limited = find_source(**request, max_messages=8)
        assert limited.protocol.cost.messages_mean <= 8
        single = find_source(**request, max_messages=1)
        assert single.protocol.cost.messages_mean == 1
        variances = [each.variance(2400) for each in (free, limited, single)]
        assert variances == sorted(variances)
        for name in ("dummies_histogram", "krr", "hadamard", "subset_selection"):
            other = find_source(**request, protocol=name)
            assert free.variance(2400) < other.variance(2400)

    @pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
    @pytest.mark.parametrize("k", [3, 64])
    def test_local_takes_the_smallest_variance(self, k, epsilon):
        best = find_source(n=1000, k=k, epsilon=epsilon, delta=None, model="local")
        for name in ("krr", "hadamard", "subset_selection"):
            made = Reported(protocol=sdp.protocols.spec(name).make_local(k=k, epsilon=epsilon))
            assert best.variance(1000) <= made.variance(1000) * (1 + 1e-12)

    def test_the_one_named(self):
        values = people(2000, SKEWED)
        for model, name in (
            ("local", "krr"),
            ("shuffle", "sparse_histogram"),
            ("local", "hadamard"),
        ):
            learned = sdp.learn(values, k=8, model=model, protocol=name, **PRIVACY)
            assert learned.protocol == name
        assert sdp.learn(values, k=8, model="none").protocol == "empirical"
        assert sdp.learn(values, k=8, model="central", epsilon=1.0).protocol == "geometric"

    def test_simulation_of_correlated_noise_leaves_the_flood_out(self):
        """With the same words it gives the very estimate that the whole tally gives."""
        protocol = sdp.protocols.correlated_histogram.make(n=3000, k=20, epsilon=1.0, delta=1e-6)
        counts = np.bincount(people(3000, np.full(20, 0.05)), minlength=20)
        short = Reported(protocol=protocol).simulate(counts, SeededWords(8))
        tally = protocol.randomizer.deal(counts, SeededWords(8))
        np.testing.assert_array_equal(short, protocol.analyzer.estimate(tally).value)

    def test_devices_and_release_agree(self):
        protocol = sdp.protocols.krr.make_local(k=8, epsilon=1.0)
        values = people(500, SKEWED)
        dealt = protocol.randomizer.deal(np.bincount(values, minlength=8), SeededWords(2))
        by_hand = protocol.analyzer.estimate(dealt)
        learned = sdp.learn(
            values, k=8, epsilon=1.0, model="local", protocol="krr", rng=SeededWords(2)
        )
        np.testing.assert_allclose(learned.raw.value * 500, by_hand.value, atol=1e-9)


class TestIntervals:
    def test_on_the_scale_of_frequencies(self):
        values = people(4000, SKEWED)
        learned = sdp.learn(values, k=8, model="central", epsilon=1.0, rng=SeededWords(1))
        mechanism = sdp.mechanisms.geometric.make(epsilon=1.0, sensitivity=2, k=8)
        assert learned.raw.stderr == pytest.approx(math.sqrt(mechanism.variance()) / 4000)
        low, high = learned.raw.interval(0.99)
        exact = learned.raw.exact_interval(0.99)
        np.testing.assert_allclose(exact, (low, high))
        radius = mechanism.noise.radius(Fraction(1, 100)) / 4000
        np.testing.assert_allclose(high - learned.raw.value, radius)


class TestRefusals:
    VALUES = (0, 1, 2, 1)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"model": "magic"}, "model='magic' must be one of none, central, local, shuffle"),
            ({"model": "central", "epsilon": None}, "epsilon must be given in the central"),
            ({"model": "shuffle", "delta": None}, "delta must be given in the shuffle"),
            ({"epsilon": -1.0}, "epsilon=-1.0 must be > 0"),
            ({"model": "none", "epsilon": -1.0}, "epsilon=-1.0 must be > 0"),
            ({"model": "none", "delta": 2.0}, "delta=2.0 must be > 0 and < 1"),
            ({"k": 1}, "k=1 must be >= 2"),
            ({"max_messages": 0.5}, "max_messages=0.5 must be >= 1"),
            ({"protocol": "rr"}, "protocol='rr' must be one of correlated_histogram, krr"),
            (
                {"protocol": "nothing"},
                "protocol='nothing' must be one of correlated_histogram, krr",
            ),
            ({"model": "local", "protocol": "dummies_histogram"}, "must be one of krr"),
            ({"model": "central", "protocol": "krr"}, "protocol='krr' must be 'geometric' or None"),
            ({"model": "none", "protocol": "krr"}, "protocol='krr' must be 'empirical' or None"),
        ],
    )
    def test_parameters(self, arguments, message):
        with pytest.raises(sdp.ParameterError) as caught:
            sdp.learn(self.VALUES, **{"k": 3, **PRIVACY, **arguments})
        assert message in str(caught.value)

    @pytest.mark.parametrize("name", ["zsum_histogram", "count_min"])
    def test_protocols_that_cannot(self, name):
        with pytest.raises(sdp.UnsupportedError, match=f"{name} cannot learn a distribution"):
            sdp.learn(self.VALUES * 500, k=3, protocol=name, **PRIVACY)

    @pytest.mark.parametrize("values", [[], [0, 3], [0.5], ["a"], [[0, 1]]])
    @pytest.mark.parametrize("model", MODELS)
    def test_values(self, values, model):
        with pytest.raises(sdp.DataError):
            sdp.learn(values, k=3, model=model, **PRIVACY)

    def test_too_many_messages(self):
        with pytest.raises(sdp.UnsupportedError, match="no protocol fits: dummies_histogram"):
            sdp.learn(
                people(500, SKEWED), k=8, protocol="dummies_histogram", max_messages=1.0, **PRIVACY
            )

    def test_total_variation_of_two_shapes(self):
        with pytest.raises(sdp.ParameterError, match="q="):
            total_variation([0.5, 0.5], [1.0])


class TestTask:
    TASK = Distribution(domain=sdp.Categories(k=3))

    def test_truth_and_loss(self):
        truth = self.TASK.truth([2, 0, 2, 2])
        assert truth.tolist() == [0.25, 0.0, 0.75]
        assert self.TASK.loss(truth, truth) == 0.0
        assert self.TASK.loss(np.array([0.0, 1.0, 0.0]), truth) == 1.0
        assert self.TASK.loss(np.array([0.5, 0.0, 0.5]), truth) == 0.25

    @pytest.mark.parametrize("wrong", [0.5, np.zeros(2), np.zeros((3, 1))])
    def test_one_number_for_each_value_is_wanted(self, wrong):
        with pytest.raises(sdp.MismatchError, match="estimate must have one number for each of"):
            self.TASK.loss(wrong, np.zeros(3))
        with pytest.raises(sdp.MismatchError, match="truth must have one number for each of"):
            self.TASK.loss(np.zeros(3), wrong)
