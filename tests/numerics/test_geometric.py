"""Geometric numbers from two words: how long the table of powers is."""

import math

import numpy as np
import pytest

from shuffledp.numerics import geometric


@pytest.mark.parametrize("bits", [1, 2, 8, 64])
def test_the_length_is_that_of_the_powers(bits):
    surplus = 128 - 2 * bits
    border = 2 * bits * math.log(2)  # halved again and again, the length changes here
    rates = [border * 2.0**-j * (1 + step) for j in range(12) for step in (-1e-3, -1e-12, 0, 1e-3)]
    rates += np.geomspace(1e-8, 50, 200).tolist()
    counted = [len(geometric._powers(rate, surplus)) for rate in rates]
    assert [geometric._length(rate, surplus) for rate in rates] == counted
