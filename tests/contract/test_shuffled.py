"""What every protocol of the shuffle model must satisfy, besides the contract of its randomizer."""

import json
import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import shuffledp as sdp
from branches import law_of
from contract.examples import EXAMPLES
from shuffledp import run_counts
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.core.protocol import NoiseAccountant, honest_users
from shuffledp.core.randomizer import Messages
from shuffledp.core.shuffler import Shuffled, forget
from shuffledp.numerics.draws import Simulated
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols import PROTOCOLS, rebuild
from shuffledp.protocols.assembly import Amplified
from support import enumerated_law

SMALL = [
    pytest.param(spec, parameters, id=f"{spec.name}-{i}")
    for spec in PROTOCOLS
    for i, parameters in enumerate(EXAMPLES[spec.name].shuffled_tiny)
]
ORDINARY = [
    pytest.param(spec, parameters, id=f"{spec.name}-{i}")
    for spec in PROTOCOLS
    for i, parameters in enumerate(EXAMPLES[spec.name].shuffled)
]
MAKERS = [spec for spec in PROTOCOLS if spec.make]


def some_values(protocol, n, seed=0):
    domain = protocol.randomizer.domain
    codes = np.random.default_rng(seed).integers(0, domain.size, n)
    values = domain.values(codes)
    return values if isinstance(domain, sdp.Reals) else values.astype(np.int64)


def laws_of(protocol):
    randomizer = protocol.randomizer
    return [randomizer.pmf(x) for x in range(randomizer.domain.size)]


def linear(protocol, message):
    """The weights of a message, or None if the analyzer is not linear."""
    try:
        return protocol.analyzer.weights(message)
    except sdp.UnsupportedError:
        return None


@pytest.mark.parametrize(("spec", "parameters"), SMALL)
class TestByEnumeration:
    def test_sampler_follows_declared_law(self, spec, parameters):
        randomizer = spec.make(**parameters).randomizer
        for x in range(randomizer.domain.size):
            declared = {sent: mass for sent, mass in randomizer.pmf(x).items() if mass}
            assert sum(declared.values()) == 1
            # The shuffler forgets a user's order, so laws are compared up to it.
            assert unordered(enumerated_law(randomizer, x)) == unordered(declared)

    def test_exact_divergence_is_within_the_guarantee(self, spec, parameters):
        """Over all neighbouring data sets of the honest users, both directions."""
        protocol = spec.make(**parameters)
        stated = protocol.guarantee
        # e^epsilon rounded down makes the divergence larger, never smaller.
        exact = shuffled_delta(laws_of(protocol), stated.honest, exp_lower(stated.epsilon))
        assert float(exact) <= stated.delta * (1 + 1e-12)

    def test_exact_divergence_is_within_the_whole_curve(self, spec, parameters):
        """delta(honest, epsilon) holds at any epsilon, not only where it was calibrated."""
        protocol = spec.make(**parameters)
        if not isinstance(protocol.accountant, NoiseAccountant | Amplified):
            pytest.skip("its accountant knows one epsilon")
        for epsilon in (0.0, 0.3 * protocol.guarantee.epsilon, 1.3 * protocol.guarantee.epsilon):
            exact = shuffled_delta(laws_of(protocol), protocol.users, exp_lower(epsilon))
            claim = protocol.accountant.delta(protocol.users, epsilon)
            assert float(exact) <= claim * (1 + 1e-12)
            assert claim <= 1

    def test_fewer_honest_users_are_accounted_for(self, spec, parameters):
        protocol = spec.make(**parameters)
        n = protocol.users
        for users in range(1, n):
            stated = protocol.guarantee_if(honest=(users + 0.5) / n)
            assert stated.honest == users
            exact = shuffled_delta(laws_of(protocol), users, exp_lower(stated.epsilon))
            assert float(exact) <= stated.delta * (1 + 1e-12) + 1e-300

    def test_estimator_is_exactly_unbiased_and_its_variance_exact(self, spec, parameters):
        protocol = spec.make(**parameters)
        size = protocol.randomizer.domain.size
        for x in range(size):
            moments = exact_moments(protocol, x)
            if moments is None:
                pytest.skip("the analyzer is not linear; its own tests say what it does")
            mean, square = moments
            assert mean == unit_truth(protocol, x)
            exact = [float(s - m * m) for m, s in zip(mean, square, strict=True)]
            declared = protocol.analyzer.variance(np.eye(size, dtype=np.int64)[x])
            np.testing.assert_allclose(np.atleast_1d(declared), exact, rtol=1e-9, atol=1e-12)

    def test_simulation_has_the_law_of_the_messages(self, spec, parameters):
        protocol = spec.make(**parameters)
        if not isinstance(protocol.randomizer, Simulated):
            pytest.skip("has no simulation")
        size = protocol.randomizer.domain.size
        for data in ([0], [0, size - 1], [0, min(1, size - 1), size - 1]):
            inputs = np.bincount(data, minlength=size)
            simulated = law_of(
                lambda draws, inputs=inputs: tuple(
                    protocol.randomizer.simulate(inputs, draws).counts.tolist()
                )
            )
            wanted = tally_law(protocol, data)
            assert set(simulated) <= set(wanted)
            for tally, mass in wanted.items():
                assert float(simulated.get(tally, 0)) == pytest.approx(
                    float(mass), rel=1e-9, abs=1e-15
                )


def unordered(law):
    result = Counter()
    for sent, mass in law.items():
        result[tuple(sorted(sent, key=repr))] += mass
    return dict(result)


def exact_moments(protocol, x):
    first, second = None, None
    offset = offset_of(protocol)
    for sent, mass in protocol.randomizer.pmf(x).items():
        weights = [linear(protocol, message) for message in sent]
        if any(w is None for w in weights) or offset is None:
            return None
        total = [sum(column, start) for start, *column in zip(offset, *weights, strict=True)]
        terms = [mass * value for value in total], [mass * value * value for value in total]
        first = terms[0] if first is None else [a + b for a, b in zip(first, terms[0], strict=True)]
        second = (
            terms[1] if second is None else [a + b for a, b in zip(second, terms[1], strict=True)]
        )
    return first, second


def offset_of(protocol):
    """What one user adds to the answer to the total before any message."""
    offset = getattr(protocol.analyzer, "offset", None)
    if offset is not None:
        return offset
    size = protocol.randomizer.domain.size if protocol.task == "histogram" else 1
    return [Fraction(0)] * size


def unit_truth(protocol, x):
    domain = protocol.randomizer.domain
    if protocol.task == "histogram":
        return [Fraction(int(j == x)) for j in range(domain.size)]
    if isinstance(domain, sdp.Reals):
        lower, upper = Fraction(domain.lower), Fraction(domain.upper)
        return [lower + x * (upper - lower) / domain.steps]
    return [Fraction(int(domain.values(np.array([x]))[0]))]


def tally_law(protocol, data):
    """The exact law of the tally of a data set, from the declared laws."""
    randomizer, result = protocol.randomizer, Counter()
    template = sdp.randomize(randomizer, some_values(protocol, 1), sdp.SeededWords(1)).payload
    for sent in product(*(randomizer.pmf(x).items() for x in data)):
        messages = [message for one, _ in sent for message in one]
        payload = np.array(messages, dtype=template.dtype).reshape(-1, *template.shape[1:])
        tally = protocol.analyzer.tally(Shuffled(payload=payload, users=len(data)))
        result[tuple(tally.counts.tolist())] += math.prod(mass for _, mass in sent)
    return result


@pytest.mark.parametrize(("spec", "parameters"), ORDINARY)
class TestAtOrdinarySize:
    def test_guarantee_is_what_was_asked_for(self, spec, parameters):
        protocol = spec.make(**parameters)
        stated = protocol.guarantee
        assert stated.epsilon <= parameters["epsilon"] * (1 + 1e-12)
        assert stated.delta <= parameters.get("delta", 0.0) * (1 + 1e-12)
        assert stated.model is sdp.Model.SHUFFLE
        assert stated.honest == honest_users(parameters["n"], parameters.get("honest", 0.9))
        assert protocol.users == parameters["n"]

    def test_guarantee_falls_apart_slowly(self, spec, parameters):
        protocol = spec.make(**parameters)
        whole, half = protocol.guarantee_if(honest=1.0), protocol.guarantee_if(honest=0.5)
        assert (half.epsilon, half.delta) >= (whole.epsilon, whole.delta)
        assert half.epsilon >= whole.epsilon
        assert half.delta >= whole.delta * (1 - 1e-9)

    def test_local_floor_is_stated(self, spec, parameters):
        floor = spec.make(**parameters).local_floor
        assert floor is None or floor.model is sdp.Model.LOCAL

    def test_cost_is_what_is_sent(self, spec, parameters):
        protocol = spec.make(**parameters)
        values = some_values(protocol, 2000)
        messages = sdp.randomize(protocol.randomizer, values, sdp.SeededWords(8))
        each = np.bincount(np.asarray(messages.owner), minlength=2000)
        assert each.max() <= protocol.cost.messages_max
        spread = max(each.std(), 1.0) / math.sqrt(2000)
        # messages_mean is for the value that sends most.
        assert each.mean() <= protocol.cost.messages_mean + 7 * spread
        assert protocol.cost.bits_per_message >= 1

    def test_tallies_add(self, spec, parameters):
        protocol = spec.make(**parameters)
        messages = sdp.randomize(
            protocol.randomizer, some_values(protocol, 600), sdp.SeededWords(1)
        )
        whole = protocol.analyzer.tally(forget(messages))
        owner = np.asarray(messages.owner)
        parts = [
            protocol.analyzer.tally(
                forget(Messages(payload=messages.payload[part], owner=owner[part], users=users))
            )
            for part, users in ((owner < 250, 250), (owner >= 250, 350))
        ]
        added = parts[0] + parts[1]
        np.testing.assert_array_equal(added.counts, whole.counts)
        assert added.users == whole.users == 600

    def test_order_does_not_matter(self, spec, parameters):
        protocol = spec.make(**parameters)
        rng = sdp.SeededWords(2)
        messages = sdp.randomize(protocol.randomizer, some_values(protocol, 300), rng)
        np.testing.assert_array_equal(
            protocol.analyzer.tally(sdp.shuffle(messages, rng)).counts,
            protocol.analyzer.tally(forget(messages)).counts,
        )

    def test_engine_agrees_with_one_big_chunk(self, spec, parameters):
        protocol = spec.make(**parameters)
        values = some_values(protocol, 1500)
        whole = sdp.randomize(protocol.randomizer, values, sdp.SeededWords(3))
        np.testing.assert_array_equal(
            sdp.engine.memory.tally(protocol, values, sdp.SeededWords(3)).counts,
            protocol.analyzer.tally(forget(whole)).counts,
        )

    def test_json_round_trip(self, spec, parameters):
        protocol = spec.make(**parameters)
        text = json.dumps({"name": protocol.name, "parameters": dict(protocol.parameters)})
        read = json.loads(text)
        again = rebuild(read["name"], read["parameters"])
        assert again.randomizer == protocol.randomizer
        assert again.analyzer == protocol.analyzer
        assert again.guarantee == protocol.guarantee

    def test_estimate_is_near_the_truth(self, spec, parameters):
        protocol = spec.make(**parameters)
        values = some_values(protocol, min(parameters["n"], 20_000))
        # Fewer users than the guarantee needs: enough to see that the estimate is right.
        tally = sdp.engine.memory.tally(protocol, values, sdp.SeededWords(4))
        estimate = protocol.analyzer.estimate(tally)
        truth = sdp.tasks.task_for(protocol).truth(values)
        low, high = estimate.interval(1 - 1e-12)
        assert np.all(np.asarray(low) <= np.asarray(truth) + 1e-9)
        assert np.all(np.asarray(high) >= np.asarray(truth) - 1e-9)
        assert np.shape(low) == np.shape(estimate.value) == np.shape(estimate.stderr)

    def test_counts_engine_is_near_the_truth(self, spec, parameters):
        protocol = spec.make(**parameters)
        if not isinstance(protocol.randomizer, Simulated):
            pytest.skip("has no simulation")
        size = protocol.randomizer.domain.size
        inputs = np.random.default_rng(1).multinomial(parameters["n"], np.full(size, 1 / size))
        estimate = run_counts(protocol, inputs, sdp.SeededWords(5))
        low, high = estimate.interval(1 - 1e-12)
        if protocol.task == "histogram":
            assert np.all(np.asarray(low) <= inputs)
            assert np.all(np.asarray(high) >= inputs)

    @pytest.mark.parametrize("name", ["epsilon", "delta", "honest", "n"])
    @pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "1", None])
    def test_bad_parameters(self, spec, parameters, name, value):
        if name not in parameters and name != "honest":
            pytest.skip(f"has no {name}")
        with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=name):
            spec.make(**{**parameters, name: value})

    def test_foreign_messages_are_refused(self, spec, parameters):
        protocol = spec.make(**parameters)
        with pytest.raises(sdp.DataError, match="message"):
            protocol.analyzer.tally(Shuffled(payload=np.zeros((3, 5, 7)), users=3))


@pytest.mark.parametrize("spec", MAKERS, ids=lambda spec: spec.name)
def test_every_maker_is_tested(spec):
    assert EXAMPLES[spec.name].shuffled
    assert EXAMPLES[spec.name].shuffled_tiny
