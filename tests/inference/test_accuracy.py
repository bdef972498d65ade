"""The bounds of the distance: the inequality of the projection, the noise, and one person's reach."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.core.analyzer import Estimate, NormalError
from shuffledp.inference.accuracy import Accuracy, EqualNoise, spread_of
from shuffledp.inference.learning import Reported
from shuffledp.numerics.intervals import Difference
from shuffledp.protocols import spec

SHUFFLED = (
    "correlated_histogram",
    "dummies_histogram",
    "sparse_histogram",
    "hashed_histogram",
    "hadamard_blanket",
    "fake_users",
)
LOCAL = (
    "krr",
    "hadamard",
    "subset_selection",
    "symmetric_unary",
    "optimized_unary",
    "local_hashing",
)


def project(x):
    answer = Estimate(value=np.asarray(x), error=NormalError(stderr=0.0), limits=(0.0, 1.0))
    return answer.simplex().value


def centred(e):
    return float(np.abs(e - np.mean(e)).sum() / 2)


class TestProjection:
    """TV(projection of x, p) <= 1/2 sum_j |e_j - mean(e)| for every x and every distribution p."""

    @pytest.mark.parametrize("k", [2, 3, 5, 17])
    @pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 30.0])
    def test_inequality(self, k, scale):
        generator = np.random.default_rng(4)
        tight = 0.0
        for _ in range(400):
            p = generator.dirichlet(np.full(k, generator.choice([0.05, 0.3, 1.0, 10.0])))
            # Noise in few bins or in all, of one sign or of both: the extreme cases are among them.
            e = generator.laplace(size=k) * (generator.random(k) < generator.random()) * scale
            if generator.random() < 0.3:
                e = np.abs(e)
            distance = np.abs(project(p + e) - p).sum() / 2
            assert distance <= centred(e) + 1e-12
            if centred(e) > 1e-6:
                tight = max(tight, distance / centred(e))
        assert scale > 1 or tight > 0.9, "the inequality should be nearly attained"

    def test_projection_ignores_a_constant(self):
        x = np.array([0.5, -0.2, 0.9, 0.1])
        np.testing.assert_allclose(project(x + 7.0), project(x), atol=1e-12)

    def test_half_the_l1_error_is_not_a_bound(self):
        """Why the error is centred: an error in one bin alone is spread over all."""
        p = np.append(0.0, np.full(9, 1 / 9))
        e = np.append(0.1, np.zeros(9))
        distance = np.abs(project(p + e) - p).sum() / 2
        assert distance > 1.7 * np.abs(e).sum() / 2
        assert distance <= centred(e) + 1e-12


def law_of(noise):
    """z and Pr[Z = z], by convolution, far out."""
    length = 400
    one = stats.nbinom(noise.r, 1 - noise.p).pmf(np.arange(length))
    return np.arange(1 - length, length), np.convolve(one, one[::-1])


class TestEqualNoise:
    @pytest.mark.parametrize("r", [1.0, 1 / 0.9])
    @pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0])
    def test_two_bins_exactly(self, r, epsilon):
        """For two bins 1/2 sum |Z_j - mean| = |Z_1 - Z_2| / 2, and its law is a convolution."""
        noise = EqualNoise(k=2, r=r, p=math.exp(-epsilon))
        _, mass = law_of(noise)
        both = np.convolve(mass, mass[::-1])
        distance = np.abs(np.arange(len(both)) - len(both) // 2) / 2
        mean = float(both @ distance)
        assert mean <= noise.absolute <= (2.1 if epsilon <= 1 else 3.6) * mean
        for beta in (0.3, 0.05, 1e-4):
            beyond = float(both[distance > noise.radius(beta)].sum())
            assert beyond <= beta
        if epsilon <= 1:  # at most four times what is needed, even for two bins
            assert float(both[distance > noise.radius(0.05) / 4].sum()) > 0.05

    def test_mean_of_many_bins(self):
        noise = EqualNoise(k=200, r=1.0, p=math.exp(-0.5))
        z, mass = law_of(noise)
        mean = float(mass @ np.abs(z))
        exact = 2 * noise.p / (1 - noise.p**2)  # of discrete Laplace noise
        assert mean == pytest.approx(exact, rel=1e-9)
        spread = math.sqrt(200 * noise.variance)
        assert noise.absolute == pytest.approx((200 * exact + spread) / 2, rel=1e-9)

    def test_radius_is_chernoffs(self):
        noise = EqualNoise(k=200, r=1.0, p=math.exp(-0.5))
        z, mass = law_of(noise)
        best = min(
            (200 * math.log(mass @ np.exp(s * np.maximum(z, 0))) + math.log(2 / 0.05)) / s
            for s in np.linspace(0.005, 0.45, 200)
        )
        assert best <= noise.radius(0.05) <= 1.002 * best

    @pytest.mark.parametrize("length", [3, 10, 40])
    @pytest.mark.parametrize("rate", [0.0, 0.3])
    def test_what_lies_beyond_a_table_is_bounded(self, length, rate):
        """E[(1 + 2 X) e^(s X)] where X or Y is at least `length`, from a sum far beyond it."""
        noise = EqualNoise(k=5, r=1.5, p=0.5)
        x = np.arange(600.0)
        mass = stats.nbinom(noise.r, 1 - noise.p).pmf(x)
        tilted = mass * (1 + 2 * x) * np.exp(rate * x)
        far = tilted[length:].sum() + tilted[:length].sum() * mass[length:].sum()
        assert far <= noise._beyond(length, rate) <= 40 * far

    def test_variance_is_that_of_the_difference(self):
        noise = EqualNoise(k=3, r=1.3, p=0.6)
        assert noise.variance == pytest.approx(Difference(r=1.3, p=0.6).variance)

    def test_what_is_sampled_wrongly_is_taken_off(self):
        exact, rough = (EqualNoise(k=100, r=1.0, p=0.6, distance=d) for d in (0.0, 0.04))
        assert rough.radius(0.05) == pytest.approx(exact.radius(0.01), rel=1e-9)
        assert rough.radius(0.04) == math.inf
        slight = EqualNoise(k=100, r=1.0, p=0.6, distance=1e-6)
        assert exact.absolute < slight.absolute <= rough.absolute

    def test_wide_noise_falls_back_on_its_variance(self):
        noise = EqualNoise(k=9, r=1.0, p=math.exp(-1e-4))
        assert noise.absolute == 9 * math.sqrt(noise.variance) / 2
        assert noise.radius(0.1) == math.inf


class Radius:
    """Noise that remembers how much of beta it was given."""

    absolute = 5.0

    def __init__(self, far):
        self.far, self.given = far, []

    def radius(self, beta):
        self.given.append(beta)
        return self.far


class TestAccuracy:
    @pytest.mark.parametrize("beta", [0.3, 0.05, 1e-6])
    def test_the_union_bound_spends_no_more_than_beta(self, beta):
        """What McDiarmid's inequality is given for sampling and what the noise is given add up to beta."""
        n, noise = 10_000, Radius(far=40.0)
        accuracy = Accuracy(n=n, k=50, variance=1e9, noise=noise)
        sampling = math.sqrt(49 / n) / 2
        deviation = accuracy.bound(beta) - sampling - noise.far / n
        (given,) = noise.given
        spent = math.exp(-2 * n * deviation**2) + given
        assert spent <= beta
        assert spent >= 0.999 * beta  # and nothing is left over

    def test_no_noise(self):
        accuracy = Accuracy(n=10_000, k=5, variance=0.0, spread=1.0)
        assert accuracy.expected_sample == 0.0
        assert accuracy.expected == pytest.approx(math.sqrt(4 / 10_000) / 2, rel=1e-8)
        mcdiarmid = accuracy.expected + math.sqrt(math.log(20) / 20_000)
        assert accuracy.bound(0.05) == pytest.approx(mcdiarmid, rel=1e-8)

    def test_the_smallest_bound_is_taken(self):
        plain = Accuracy(n=1000, k=50, variance=50 * 8.0)
        markov = math.sqrt(50 * ((1 - 1 / 50) / 1000 + 50 * 8.0 / 1000**2) / 0.05) / 2
        assert plain.bound(0.05) == pytest.approx(markov, rel=1e-8)
        known = Accuracy(
            n=1000, k=50, variance=400.0, noise=EqualNoise(k=50, r=1.0, p=math.exp(-0.5))
        )
        assert known.bound(0.05) < plain.bound(0.05)
        assert known.expected <= plain.expected
        assert known.expected_sample < plain.expected_sample

    def test_a_distance_is_at_most_1(self):
        accuracy = Accuracy(n=2, k=1000, variance=1e9, spread=1e9)
        assert accuracy.expected == accuracy.expected_sample == accuracy.bound(0.5) == 1.0

    @pytest.mark.parametrize("beta", [0.0, 1.0, -1, math.nan])
    def test_beta_is_checked(self, beta):
        with pytest.raises(sdp.ParameterError, match="beta"):
            Accuracy(n=10, k=5, variance=0.0).bound(beta)


def protocols(k, epsilon):
    for name in LOCAL:
        yield spec(name).make_local(k=k, epsilon=epsilon)
    for name in SHUFFLED:
        yield spec(name).make(n=500, k=k, epsilon=epsilon, delta=1e-4)


@pytest.mark.parametrize("k", [5, 12])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_variance_is_the_largest_of_all_data_sets(k, epsilon):
    """It is linear in the data, so data sets of one category are the corners."""
    for protocol in protocols(k, epsilon):
        stated = Reported(protocol=protocol).variance(500)
        corners = [protocol.analyzer.variance(500 * unit).sum() for unit in np.eye(k, dtype=int)]
        assert max(corners) == pytest.approx(stated, rel=1e-9), protocol.name
        mixed = np.bincount(np.arange(500) % k, minlength=k)
        inside = protocol.analyzer.variance(mixed).sum()
        assert inside == pytest.approx(mixed @ corners / 500, rel=1e-9), protocol.name


def widest(protocol, messages):
    """The largest |w - w'|* over pairs of messages, from the declared weights."""
    weights = [np.array([float(w) for w in protocol.analyzer.weights(m)]) for m in messages]
    return max(centred(a - b) for a, b in combinations(weights, 2))


class TestSpread:
    @pytest.mark.parametrize("k", [2, 3, 6, 12])
    @pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
    def test_krr_and_hadamard(self, k, epsilon):
        krr = sdp.protocols.krr.make_local(k=k, epsilon=epsilon)
        assert widest(krr, range(k)) == pytest.approx(spread_of(krr), rel=1e-9)
        hadamard = sdp.protocols.hadamard.make_local(k=k, epsilon=epsilon)
        found = widest(hadamard, range(hadamard.randomizer.outputs))
        assert found <= spread_of(hadamard) * (1 + 1e-9) <= 2.1 * found

    @pytest.mark.parametrize("name", ["subset_selection", "symmetric_unary", "optimized_unary"])
    @pytest.mark.parametrize("k", [3, 6])
    def test_sets(self, name, k):
        protocol = spec(name).make_local(k=k, epsilon=1.0)
        messages = list(product((0, 1), repeat=k))
        if name == "subset_selection":
            messages = [m for m in messages if sum(m) in (0, protocol.randomizer.w)]
        found = widest(protocol, messages)
        assert found <= spread_of(protocol) * (1 + 1e-9) <= 1.3 * found

    def test_sets_of_several_elements(self):
        protocol = sdp.protocols.subset_selection.make_local(k=7, epsilon=0.4)
        assert protocol.randomizer.w == 3
        found = widest(protocol, [m for m in product((0, 1), repeat=7) if sum(m) in (0, 3)])
        assert found <= spread_of(protocol) * (1 + 1e-9) <= 1.3 * found

    def test_messages_that_count_themselves(self):
        protocol = sdp.protocols.dummies_histogram.make(n=50, k=4, epsilon=1.0, delta=0.01)
        most = protocol.cost.messages_max
        assert spread_of(protocol) == most
        # All messages in one bin against all in another.
        assert centred(np.array([most, -most, 0, 0])) == most

    def test_unknown_elsewhere(self):
        protocol = sdp.protocols.hashed_histogram.make(n=1000, k=50, epsilon=1.0, delta=1e-4)
        assert spread_of(protocol) is None
