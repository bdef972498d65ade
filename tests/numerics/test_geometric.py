"""Geometric numbers from two words: their law, and how long the table of powers is."""

import math

import numpy as np
import pytest

from shuffledp.numerics import tape


@pytest.mark.parametrize("bits", [1, 2, 8, 64])
def test_the_length_is_that_of_the_powers(bits):
    surplus = 128 - 2 * bits
    border = 2 * bits * math.log(2)  # halved again and again, the length changes here
    rates = [border * 2.0**-j * (1 + step) for j in range(12) for step in (-1e-3, -1e-12, 0, 1e-3)]
    rates += np.geomspace(1e-8, 50, 200).tolist()
    counted = [len(tape._powers(rate, surplus)) for rate in rates]
    assert [tape._length(rate, surplus) for rate in rates] == counted


def test_the_largest_exponent_is_strict():
    """The largest g with wide < 2^8 2^-g."""
    powers = tape.square_powers(1 << 127, 120)
    found = [tape.find_exponent(powers, wide, 120) for wide in range(256)]
    assert found == [8 - wide.bit_length() for wide in range(256)]


@pytest.mark.parametrize("rate", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("bits", [2, 4, 6])
def test_the_law_is_as_near_as_it_says(rate, bits):
    law = tape.TwoWordGeometric(rate=rate, bits=bits)
    sampled = law.law()
    ideal = {k: math.exp(-rate * (k - 1)) * -math.expm1(-rate) for k in range(1, 500)}
    off = sum(abs(float(sampled.get(k, 0)) - mass) for k, mass in ideal.items()) / 2
    assert off <= law.distance
    assert off > 0.1 * 0.25**bits  # two words of a few bits are not exact
