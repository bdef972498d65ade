"""Bounds leave room for the rounding of their own sums: each is above what it was computed from."""

from fractions import Fraction

import pytest

from contract.examples import examples_of
from shuffledp import Reals
from shuffledp.accounting.compose import compose_curve
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import Promise
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols import make, spec
from shuffledp.protocols.count_min import CountMin
from shuffledp.protocols.levels import Levels
from shuffledp.protocols.rounded_sum import RoundedResponse
from shuffledp.protocols.several_values import MovedValue, grow_delta
from shuffledp.protocols.shared.joint import Joint
from shuffledp.protocols.split_and_mix.noise import NoiseShare, sampled_delta

GIVEN = {"n": 4000, "epsilon": 0.5, "delta": 1e-5}
WIDE = Promise(epsilon=1.0, delta=1e-4)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_a_joint_delta_is_above_the_composition(epsilon):
    devices = [make("dummies_histogram", k=k, **GIVEN).randomizer for k in (3, 5)]
    curves, apart = zip(*(each.open_curve(3000) for each in devices), strict=True)
    assert apart == (0.0, 0.0)
    ideal = compose_curve(curves, near=Promise(epsilon=1.0, delta=9.99e-5).delta, points=96)
    found = Joint.of(devices, WIDE).delta(3000, epsilon)
    assert ideal(epsilon) < found < ideal(epsilon) * 1.01


@pytest.mark.parametrize("name", ["dummies_histogram", "correlated_histogram"])
def test_a_value_that_moves_has_a_delta_above_its_curve(name):
    moved = MovedValue(inner=make(name, k=5, **GIVEN), values=2, place=1)
    curve, apart = moved.open_curve(1500)
    for epsilon in (0.0, 0.3):
        least = curve.delta(epsilon) + (1 + exp_lower(epsilon)) * Fraction(apart)
        assert least < Fraction(moved.delta(1500, epsilon)) < least * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("values", [1, 2, 5])
def test_steps_of_no_epsilon_add_up_and_a_little_more(values):
    assert values * Fraction(1e-6) < Fraction(grow_delta(1e-6, values, 0.0)) < values * 1.000001e-6


def test_a_single_person_is_hidden_by_the_own_lie_alone():
    curve = Levels(k=3, people={1.0: 1}).hide_level(1.0)
    law = curve.device.pmf(0), curve.device.pmf(1)
    for epsilon in (0.0, 0.2, 0.7):
        E = exp_lower(epsilon)
        exact = sum(max(law[0][y] - E * law[1][y], Fraction(0)) for y in law[0])
        assert exact <= Fraction(curve.delta(epsilon)) < exact * (1 + Fraction(1, 10**9))


def test_a_crowd_too_large_to_enumerate_has_the_bound_of_the_composition():
    (case, *_) = examples_of(spec("zero_sum_flooding")).cases("shuffled_tiny")
    device = case.protocol.randomizer
    assert device.delta(3000, 0.0) > 0


def test_beyond_every_exponential_nothing_is_claimed():
    share = NoiseShare(rate=Fraction(1), parts=2)
    given = {"reach": 1, "share": share, "honest": 2}
    assert sampled_delta(epsilon=700.5, **given) == 1.0


def test_coefficients_are_of_the_field():
    def sketch(*row):
        return CountMin(k=4, width=2, r=2, functions=(row,), surely=0, threshold=1, word_bits=1)

    assert sketch(0, 0, 3, 0).functions == ((0, 0, 3, 0),)
    for wrong, said in ((4, "must be <= 3"), (-1, "must be >= 0")):
        with pytest.raises(ParameterError, match=f"functions={wrong} {said}"):
            sketch(0, 0, wrong, 0)


def test_lies_are_neither_none_nor_all():
    grid = Reals(lower=0.0, upper=1.0, steps=4)
    for gamma in (Fraction(0), Fraction(1), Fraction(3, 2)):
        with pytest.raises(ParameterError, match="must be > 0 and < 1"):
            RoundedResponse(domain=grid, levels=2, gamma=gamma, word_bits=5)
