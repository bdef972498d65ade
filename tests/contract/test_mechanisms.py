"""What every registered mechanism must satisfy. A new one is covered by being registered."""

import inspect
import json
import math
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.protocol import Mechanism, Selector
from shuffledp.mechanisms import MECHANISMS, rebuild, spec
from shuffledp.numerics.rounding import exp_lower

ORDINARY = {
    "laplace": (
        {"epsilon": 1.0, "sensitivity": 1.0},
        {"epsilon": 0.1, "sensitivity": 0.003, "k": 50},
        {"epsilon": 20.0, "sensitivity": 1000000.0, "k": 3},
    ),
    "geometric": (
        {"epsilon": 1.0, "sensitivity": 1},
        {"epsilon": 0.1, "sensitivity": 2, "k": 100},
        {"epsilon": 1e-06, "sensitivity": 1000},
    ),
    "exponential": (
        {"epsilon": 1.0, "sensitivity": 1.0, "k": 2, "labels": ["tea", "coffee"]},
        {"epsilon": 0.1, "sensitivity": 0.5, "k": 20, "utility_error": 1e-09},
    ),
    "permute_and_flip": (
        {"epsilon": 1.0, "sensitivity": 1.0, "k": 2, "labels": ["tea", "coffee"]},
        {"epsilon": 0.1, "sensitivity": 0.5, "k": 20, "utility_error": 1e-09},
    ),
    "binomial": (
        {"n": 1000, "epsilon": 1.0, "delta": 1e-06},
        {"n": 10000, "epsilon": 1.0, "delta": 1e-06, "calibration": "paper"},
    ),
    "stability_histogram": (
        {"n": 1000, "epsilon": 1.0, "delta": 1e-06},
        {"n": 10, "epsilon": 3.0, "delta": 0.01},
    ),
    "geometric_tree": (
        {"n": 1000, "epsilon": 1.0, "lower": 0, "upper": 20, "task": "range", "at": [3, 9]},
        {
            "n": 50,
            "epsilon": 0.1,
            "lower": 0.0,
            "upper": 1.0,
            "steps": 8,
            "task": "range",
            "at": [0.1, 0.5],
        },
    ),
}
"""Ordinary parameters."""

SUMS = {
    "laplace": (
        {"epsilon": 1.0, "sensitivity": 1.0, "step_exponent": -2},
        {"epsilon": 2.0, "sensitivity": 0.3, "k": 3, "step_exponent": -3},
    ),
    "geometric": (
        {"epsilon": 1.0, "sensitivity": 1},
        {"epsilon": 0.7, "sensitivity": 3, "k": 2},
    ),
    "binomial": (
        {"n": 60, "epsilon": 1.0, "delta": 0.01, "word_bits": 8},
        {"n": 300, "epsilon": 1.5, "delta": 0.2, "calibration": "paper", "word_bits": 10},
    ),
}
"""Parameters so small that the declared law of the noise can be summed."""

ALL = [
    pytest.param(spec, parameters, id=f"{spec.name}-{i}")
    for spec in MECHANISMS
    for i, parameters in enumerate(ORDINARY[spec.name] + SUMS.get(spec.name, ()))
]
NOISY = [case for case in ALL if case.values[0].tasks]
DELTAS = [case for case in ALL if "delta" in case.values[1]]
PURE = [
    pytest.param(spec, parameters, id=f"{spec.name}-{i}")
    for spec in MECHANISMS
    for i, parameters in enumerate(SUMS.get(spec.name, ()))
    if "delta" not in parameters
]
SIZES = [
    pytest.param(spec, name, id=f"{spec.name}-{name}")
    for spec in MECHANISMS
    for name in ("sensitivity", "k", "n")
    if any(name in parameters for parameters in ORDINARY[spec.name])
]
SUMMABLE = [
    pytest.param(spec, parameters, id=f"{spec.name}-{i}")
    for spec in MECHANISMS
    for i, parameters in enumerate(SUMS.get(spec.name, ()))
]


def window(noise):
    """Integers that hold all but a vanishing part of the noise."""
    centre, reach = round(noise.centre), math.ceil(60 * math.sqrt(noise.variance)) + 60
    return range(centre - reach, centre + reach + 1)


def some_answer(mechanism):
    if mechanism.name == "stability_histogram":
        rest = mechanism.n // 3
        return {"b": mechanism.n - rest, "a": rest}
    if mechanism.name == "geometric_tree":
        return np.arange(7, 7 + mechanism.domain.size)
    if mechanism.name == "binomial":
        return mechanism.n // 3
    exact = np.arange(7, 7 + mechanism.k)
    return int(exact[0]) if mechanism.k == 1 else exact


@pytest.mark.parametrize(("spec", "parameters"), SUMMABLE)
class TestDeclaredLaw:
    def test_sums_to_one(self, spec, parameters):
        noise = spec.make(**parameters).noise
        low, high = (sum(noise.mass(z)[end] for z in window(noise)) for end in (0, 1))
        assert 1 - Fraction(1, 10**15) < low <= high < 1 + Fraction(1, 10**15)
        assert low <= 1

    def test_noise_is_unbiased(self, spec, parameters):
        noise = spec.make(**parameters).noise
        mean = sum((z - noise.centre) * noise.mass(z)[0] for z in window(noise))
        assert abs(mean) < Fraction(1, 10**12)

    def test_variance_is_the_exact_one(self, spec, parameters):
        mechanism = spec.make(**parameters)
        noise = mechanism.noise
        square = sum((z - noise.centre) ** 2 * noise.mass(z)[0] for z in window(noise))
        assert mechanism.variance() == pytest.approx(float(square) * mechanism.unit**2, rel=1e-12)

    def test_divergence_is_at_most_delta(self, spec, parameters):
        """Over the declared law, for every shift of one coordinate within reach, both directions."""
        mechanism = spec.make(**parameters)
        noise, E = mechanism.noise, exp_lower(mechanism.guarantee.epsilon)
        masses = {z: noise.mass(z) for z in window(noise)}
        nothing = (Fraction(0), Fraction(0))
        for shift in range(-mechanism.reach, mechanism.reach + 1):
            inside = [z for z in masses if z + shift in masses]
            delta = sum(
                max(masses[z][0] - E * masses.get(z + shift, nothing)[1], 0) for z in inside
            )
            assert delta <= Fraction(mechanism.guarantee.delta) + Fraction(1, 10**40)

    def test_accuracy_holds_exactly(self, spec, parameters):
        mechanism = spec.make(**parameters)
        noise, k = mechanism.noise, getattr(mechanism, "k", 1)
        for beta in (0.5, 0.05, 1e-4):
            alpha = mechanism.accuracy(beta)
            miss = sum(
                noise.mass(z)[1]
                for z in window(noise)
                if abs(z - noise.centre) * Fraction(mechanism.unit) > Fraction(alpha)
            )
            assert k * miss <= Fraction(beta)

    def test_interval_covers_exactly(self, spec, parameters):
        """The declared mass of the noises for which the interval holds the truth is >= level."""
        mechanism = spec.make(**parameters)
        noise = mechanism.noise
        for level in (0.3, 0.9, 0.999):
            answer = mechanism.release(some_answer(mechanism), sdp.SeededWords(8))
            low, high = (np.atleast_1d(end)[0] for end in answer.interval(level))
            value = np.atleast_1d(answer.value)[0]
            # The truth is value - noise, with noise = (z - centre) units.
            covered = sum(
                noise.mass(z)[0]
                for z in window(noise)
                if low - 1e-9 <= value - float(z - noise.centre) * mechanism.unit <= high + 1e-9
            )
            assert covered >= Fraction(level) - Fraction(1, 10**15)


@pytest.mark.parametrize(("spec", "parameters"), ALL)
class TestEveryMechanism:
    def test_json_round_trip(self, spec, parameters):
        mechanism = spec.make(**parameters)
        text = json.dumps({"name": mechanism.name, "parameters": dict(mechanism.parameters)})
        read = json.loads(text)
        again = rebuild(read["name"], read["parameters"])
        assert again == mechanism
        assert hash(again) == hash(mechanism)

    def test_guarantee(self, spec, parameters):
        guarantee = spec.make(**parameters).guarantee
        assert guarantee.model is sdp.Model.CENTRAL
        assert guarantee.neighbours is sdp.Neighbours.REPLACE_ONE
        assert guarantee.epsilon == parameters["epsilon"]
        assert guarantee.delta <= parameters.get("delta", 0.0)
        assert "trusted curator" in str(guarantee)

    def test_kind(self, spec, parameters):
        mechanism = spec.make(**parameters)
        assert isinstance(mechanism, Mechanism) != isinstance(mechanism, Selector)
        assert bool(spec.tasks) == isinstance(mechanism, Mechanism)
        if spec.name in SUMS:
            # Integer noise of a declared law, in units, and by how many of these neighbours may differ.
            assert {"noise", "reach", "unit"} <= set(dir(mechanism))
            assert {"centre", "variance", "mass"} <= set(dir(mechanism.noise))

    def test_accuracy_grows_with_confidence(self, spec, parameters):
        mechanism = spec.make(**parameters)
        alphas = [mechanism.accuracy(beta) for beta in (0.5, 0.05, 1e-9, 1e-100)]
        assert alphas == sorted(alphas)
        assert alphas[0] < alphas[2]

    @pytest.mark.parametrize("epsilon", [0, 0.0, -1.0, math.inf, math.nan, "1", None, True])
    def test_bad_epsilon(self, spec, parameters, epsilon):
        with pytest.raises(sdp.ParameterError, match="epsilon"):
            spec.make(**{**parameters, "epsilon": epsilon})

    @pytest.mark.parametrize("beta", [0, 1, -0.5, math.nan])
    def test_bad_beta(self, spec, parameters, beta):
        with pytest.raises(sdp.ParameterError, match="beta"):
            spec.make(**parameters).accuracy(beta)

    @pytest.mark.parametrize(
        "answer",
        [math.nan, [math.inf], "7", [[1, 2], [3, 4]], True, None, [True, False], 1j, {}],
        ids=str,
    )
    def test_bad_answers(self, spec, parameters, answer):
        mechanism = spec.make(**parameters)
        rng = sdp.SeededWords(1)
        call = mechanism.select if isinstance(mechanism, Selector) else mechanism.release
        with pytest.raises(sdp.DataError):
            call(answer, rng)
        # No word was drawn on the way to the error.
        np.testing.assert_array_equal(rng.words(2), sdp.SeededWords(1).words(2))


@pytest.mark.parametrize(("spec", "parameters"), PURE)
def test_pure_noise_is_not_needlessly_large(spec, parameters):
    """A tenth less epsilon would be false."""
    mechanism = spec.make(**parameters)
    noise, E = mechanism.noise, exp_lower(0.9 * mechanism.guarantee.epsilon)
    assert noise.mass(0)[0] > E * noise.mass(mechanism.reach)[1]


@pytest.mark.parametrize(("spec", "parameters"), NOISY)
def test_release(spec, parameters):
    mechanism = spec.make(**parameters)
    exact = some_answer(mechanism)
    answer = mechanism.release(exact, sdp.SeededWords(1))
    low, high = answer.interval(0.95)
    assert np.shape(low) == np.shape(high) == np.shape(answer.value) == np.shape(answer.stderr)
    assert np.all(np.asarray(low) <= answer.value)
    assert np.all(np.asarray(answer.value) <= high)
    np.testing.assert_allclose(answer.stderr, math.sqrt(mechanism.variance()), rtol=1e-12)
    again = mechanism.release(exact, sdp.SeededWords(1))
    np.testing.assert_array_equal(again.value, answer.value)


@pytest.mark.parametrize(("spec", "parameters"), DELTAS)
@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2, math.nan, "1e-6", None])
def test_bad_delta(spec, parameters, delta):
    with pytest.raises(sdp.ParameterError, match="delta"):
        spec.make(**{**parameters, "delta": delta})


@pytest.mark.parametrize(("spec", "name"), SIZES)
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "3", None])
def test_bad_sizes(spec, name, value):
    with pytest.raises(sdp.ParameterError, match=name):
        spec.make(**{**ORDINARY[spec.name][0], name: value})


def test_every_line_of_the_registry_says_what_its_mechanism_says():
    assert {spec.name: spec.tasks for spec in MECHANISMS} == sdp.mechanisms.REGISTRY


def test_names():
    names = [spec.name for spec in MECHANISMS]
    assert len(set(names)) == len(names)
    for name in names:
        found = getattr(sdp.mechanisms, name)  # a module, or one of two in a module
        assert (found.SPEC if isinstance(found, ModuleType) else found) is spec(name)
    with pytest.raises(sdp.ParameterError, match="must be one of laplace, geometric"):
        spec("gaussian")


@pytest.mark.parametrize("found", MECHANISMS, ids=lambda found: found.name)
def test_what_must_be_given_is_declared(found):
    """The planner asks the declared options, and never the signature: without one that is needed nothing is made."""
    takes = inspect.signature(found.make).parameters
    given = ORDINARY[found.name][0]
    assert found.options
    for option, needed in found.options.items():
        assert needed == (takes[option].default is inspect.Parameter.empty), option
        left = {name: value for name, value in given.items() if name != option}
        if needed:
            with pytest.raises(TypeError, match=option):
                found.make(**left)
    needed = {name for name, needed in found.options.items() if needed}
    assert found.make(**{name: given[name] for name in given if name in needed | {"epsilon"}})


@pytest.mark.parametrize("large", [[0, -(2**54)], [2**54, 0], [-(2**54), -(2**54)]])
def test_one_answer_too_large_is_enough_to_refuse_all(large):
    mechanism = spec("geometric").make(epsilon=1.0, sensitivity=1, k=2)
    with pytest.raises(sdp.DataError, match=r"2\^53"):
        mechanism.release(large, sdp.SeededWords(1))
