"""What every registered protocol must satisfy. A new protocol is covered by being registered."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from contract.examples import EXAMPLES
from shuffledp.core.randomizer import Messages
from shuffledp.core.shuffler import Shuffled, forget
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols import PROTOCOLS, rebuild
from support import all_tapes, enumerated_law

LOCAL = [spec for spec in PROTOCOLS if spec.make_local]
SMALL = [
    pytest.param(spec, parameters, id=f"{spec.name}-{i}")
    for spec in PROTOCOLS
    for i, parameters in enumerate(EXAMPLES[spec.name].local_tiny)
]
ORDINARY = [
    pytest.param(spec, parameters, id=f"{spec.name}-{i}")
    for spec in PROTOCOLS
    for i, parameters in enumerate(EXAMPLES[spec.name].local)
]


def some_values(protocol, n, seed=0):
    domain = protocol.randomizer.domain
    return domain_values(domain, np.random.default_rng(seed).integers(0, domain.size, n))


def domain_values(domain, codes):
    values = domain.values(codes)
    return values if isinstance(domain, sdp.Reals) else values.astype(np.int64)


@pytest.mark.parametrize(("spec", "parameters"), SMALL)
class TestByEnumeration:
    def test_sampler_follows_declared_law(self, spec, parameters):
        randomizer = spec.make_local(**parameters).randomizer
        for x in range(randomizer.domain.size):
            declared = {sent: mass for sent, mass in randomizer.pmf(x).items() if mass}
            assert enumerated_law(randomizer, x) == declared

    def test_law_sums_to_one(self, spec, parameters):
        randomizer = spec.make_local(**parameters).randomizer
        for x in range(randomizer.domain.size):
            assert sum(randomizer.pmf(x).values()) == 1

    def test_ratio_is_at_most_e_to_epsilon0(self, spec, parameters):
        randomizer = spec.make_local(**parameters).randomizer
        laws = [randomizer.pmf(x) for x in range(randomizer.domain.size)]
        limit = exp_lower(randomizer.epsilon0)
        for sent in set().union(*laws):
            masses = [law.get(sent, Fraction(0)) for law in laws]
            assert max(masses) <= limit * min(masses), f"message {sent}"

    def test_estimator_is_exactly_unbiased(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        for x in range(protocol.randomizer.domain.size):
            assert moment(protocol, x, 1) == unit_truth(protocol, x)

    def test_declared_variance_is_the_exact_one(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        size = protocol.randomizer.domain.size
        for x in range(size):
            mean, square = moment(protocol, x, 1), moment(protocol, x, 2)
            exact = [float(s - m * m) for m, s in zip(mean, square, strict=True)]
            inputs = np.eye(size, dtype=np.int64)[x]
            declared = protocol.analyzer.variance(inputs)
            np.testing.assert_allclose(np.atleast_1d(declared), exact, rtol=1e-9, atol=1e-12)

    def test_estimate_is_the_sum_of_the_weights(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        randomizer, analyzer = protocol.randomizer, protocol.analyzer
        tapes = all_tapes(randomizer.word_bits, randomizer.words_per_input)
        some = tapes[np.random.default_rng(5).integers(0, len(tapes), 7)]
        messages = randomizer.encode(np.arange(7) % randomizer.domain.size, some)
        estimate = analyzer.estimate(analyzer.tally(forget(messages)))
        sent = [message for user in range(7) for message in messages.of(user)]
        total = [sum(column) for column in zip(*map(analyzer.weights, sent), strict=True)]
        scale = total_to_answer(protocol, 7)
        np.testing.assert_allclose(np.atleast_1d(estimate.value), scale([float(t) for t in total]))


def moment(protocol, x, power):
    """Sum over the declared law of the weights of all messages, to a power, exactly."""
    result = None
    for sent, mass in protocol.randomizer.pmf(x).items():
        weights = [
            sum(column) for column in zip(*map(protocol.analyzer.weights, sent), strict=True)
        ]
        terms = [mass * weight**power for weight in weights]
        result = terms if result is None else [a + b for a, b in zip(result, terms, strict=True)]
    return result


def unit_truth(protocol, x):
    """The answer to the total for one user of code x, exactly."""
    if protocol.task == "histogram":
        return [Fraction(int(j == x)) for j in range(protocol.randomizer.domain.size)]
    return [exact_value(protocol.randomizer.domain, x)]


def exact_value(domain, x):
    if isinstance(domain, sdp.Reals):
        lower, upper = Fraction(domain.lower), Fraction(domain.upper)
        return lower + x * (upper - lower) / domain.steps
    return Fraction(int(domain.values(np.array([x]))[0]))


def total_to_answer(protocol, n):
    if protocol.task == "mean":
        return lambda total: np.array(total) / n
    return np.array


@pytest.mark.parametrize(("spec", "parameters"), ORDINARY)
class TestAtOrdinarySize:
    def test_tallies_add(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        analyzer = protocol.analyzer
        messages = sdp.randomize(
            protocol.randomizer, some_values(protocol, 1000), sdp.SeededWords(1)
        )
        whole = analyzer.tally(forget(messages))
        parts = [
            analyzer.tally(forget(Messages.one_each(messages.payload[part])))
            for part in (slice(0, 1), slice(1, 700), slice(700, None))
        ]
        added = parts[0] + parts[1] + parts[2]
        np.testing.assert_array_equal(added.counts, whole.counts)
        assert added.users == whole.users == 1000

    def test_order_does_not_matter(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        rng = sdp.SeededWords(2)
        messages = sdp.randomize(protocol.randomizer, some_values(protocol, 500), rng)
        shuffled = sdp.shuffle(messages, rng)
        assert isinstance(shuffled, Shuffled)
        np.testing.assert_array_equal(
            protocol.analyzer.tally(shuffled).counts,
            protocol.analyzer.tally(forget(messages)).counts,
        )

    def test_engine_agrees_with_one_big_chunk(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        values = some_values(protocol, 3000)
        whole = sdp.randomize(protocol.randomizer, values, sdp.SeededWords(3))
        np.testing.assert_array_equal(
            sdp.engine.memory.tally(protocol, values, sdp.SeededWords(3)).counts,
            protocol.analyzer.tally(forget(whole)).counts,
        )

    def test_json_round_trip(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        text = json.dumps({"name": protocol.name, "parameters": dict(protocol.parameters)})
        read = json.loads(text)
        assert rebuild(read["name"], read["parameters"]) == protocol

    def test_interval_is_around_the_value(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        estimate = sdp.run(protocol, some_values(protocol, 2000), sdp.SeededWords(4))
        low, high = estimate.interval(0.95)
        assert np.all(np.asarray(low) < estimate.value)
        assert np.all(np.asarray(high) > estimate.value)
        assert np.all(np.asarray(estimate.stderr) > 0)
        assert np.shape(low) == np.shape(estimate.value) == np.shape(estimate.stderr)

    def test_guarantee_and_cost_are_stated(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        assert protocol.guarantee.epsilon == parameters["epsilon"] == protocol.randomizer.epsilon0
        assert protocol.guarantee.delta == 0
        assert protocol.guarantee.model is sdp.Model.LOCAL
        assert protocol.cost.bits_per_message >= 1

    def test_one_user_is_enough(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        estimate = sdp.run(protocol, some_values(protocol, 1), sdp.SeededWords(5))
        assert np.all(np.isfinite(estimate.value))

    def test_inputs_are_not_changed(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        values = some_values(protocol, 100)
        before = values.copy()
        sdp.run(protocol, values, sdp.SeededWords(6))
        np.testing.assert_array_equal(values, before)

    @pytest.mark.parametrize("epsilon", [0, 0.0, -1.0, math.inf, math.nan, "1", None, True])
    def test_bad_epsilon(self, spec, parameters, epsilon):
        with pytest.raises(sdp.ParameterError, match="epsilon"):
            spec.make_local(**{**parameters, "epsilon": epsilon})

    def test_no_values(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        with pytest.raises(sdp.DataError, match="empty"):
            sdp.run(protocol, np.array([], dtype=np.int64), sdp.SeededWords(1))

    def test_values_outside_the_domain(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        values = some_values(protocol, 10)
        outside = domain_values(
            protocol.randomizer.domain, np.array([protocol.randomizer.domain.size])
        )
        values[3] = outside[0]
        with pytest.raises(sdp.DataError, match="position 3"):
            sdp.run(protocol, values, sdp.SeededWords(1))
        values[3] = -1_000_000
        with pytest.raises(sdp.DataError, match="position 3"):
            sdp.run(protocol, values, sdp.SeededWords(1))

    @pytest.mark.parametrize(
        "values",
        [
            np.array([np.nan, 0.5]),
            np.array(["a", "b"]),
            np.array([0.5, np.inf]),
            np.zeros((2, 2), int),
        ],
        ids=["nan", "strings", "infinity", "matrix"],
    )
    def test_wrong_kind_of_values(self, spec, parameters, values):
        with pytest.raises(sdp.DataError):
            sdp.run(spec.make_local(**parameters), values, sdp.SeededWords(1))

    def test_tally_of_nobody(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        messages = sdp.randomize(protocol.randomizer, some_values(protocol, 3), sdp.SeededWords(1))
        empty = protocol.analyzer.tally(forget(Messages.one_each(messages.payload[:0])))
        assert empty.users == 0
        assert not empty.counts.any()
        with pytest.raises(sdp.DataError, match="users"):
            protocol.analyzer.estimate(empty)

    def test_foreign_messages_are_refused(self, spec, parameters):
        protocol = spec.make_local(**parameters)
        with pytest.raises(sdp.DataError, match="message"):
            protocol.analyzer.tally(Shuffled(payload=np.zeros((3, 5, 7)), users=3))


@pytest.mark.parametrize("spec", LOCAL, ids=lambda spec: spec.name)
@pytest.mark.parametrize("k", [1, 0, -3, 2.5, "2"])
def test_bad_k(spec, k):
    if "k" not in EXAMPLES[spec.name].local[0]:
        pytest.skip("has no k")
    with pytest.raises(sdp.ParameterError, match="k="):
        spec.make_local(**{**EXAMPLES[spec.name].local[0], "k": k})


def test_names_are_unique_and_sorted_out():
    names = [spec.name for spec in PROTOCOLS]
    assert len(set(names)) == len(names)
    for name in names:
        found = getattr(sdp.protocols, name)  # a module, or its line of the registry
        assert getattr(found, "SPEC", found).name == name
