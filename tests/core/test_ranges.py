"""What names of numbers may be: the last value that is taken, and the whole error of the first that is not."""

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.core import validate
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import Calibration, Cost, Crowd, Promise

JUST = math.nextafter(1.0, 0.0)
RANGES = [
    (lambda x: Crowd(n=x), 2, 0, "n=0 must be >= 1"),
    (lambda x: Crowd(n=1, honest=x), 1.0, JUST, f"n=1 must be larger: honest={JUST} of one person is nobody"),
    (lambda x: Crowd(n=4, honest=x), 0.25, 0.2499, "honest=0.2499 must leave at least one of n=4 users"),
    (lambda x: Crowd(n=4, honest=x), 1, 1.0000000000000002, "honest=1.0000000000000002 must be > 0 and <= 1"),
    (lambda x: Crowd(n=4, honest=x), 0.5, 0.0, "honest=0.0 must be > 0 and <= 1"),
    (lambda x: Promise(epsilon=x, delta=0), 1e-100, 9e-101, "epsilon=9e-101 must be >= 1e-100"),
    (lambda x: Promise(epsilon=x, delta=0), 1e300, 0, "epsilon=0 must be > 0"),
    (lambda x: Promise(epsilon=1, delta=x), JUST, 1.0, "delta=1.0 must be >= 0 and < 1"),
    (lambda x: Promise(epsilon=1, delta=x), 0, -5e-324, "delta=-5e-324 must be >= 0 and < 1"),
    (lambda x: validate.positive("x", x), 5e-324, 0.0, "x=0.0 must be > 0"),
    (lambda x: validate.non_negative("x", x), 0.0, -5e-324, "x=-5e-324 must be >= 0"),
    (lambda x: validate.fraction_of_one("x", x), 5e-324, 0.0, "x=0.0 must be > 0 and < 1"),
    (lambda x: validate.fraction_of_one("x", x), JUST, 1.0, "x=1.0 must be > 0 and < 1"),
    (lambda x: validate.level(x), JUST, 1.0, "level=1.0 must be > 0 and < 1"),
    (lambda x: validate.below_one("x", x), 0.0, -1e-300, "x=-1e-300 must be >= 0 and < 1"),
    (lambda x: validate.below_one("x", x), JUST, 1, "x=1 must be >= 0 and < 1"),
    (lambda x: validate.whole("x", x, at_least=2), 2, 1, "x=1 must be >= 2"),
    (lambda x: validate.whole("x", x, at_least=2, at_most=5), 5, 6, "x=6 must be <= 5"),
    (lambda x: validate.whole("x", x, at_least=0), np.int8(1), True, "x=True must be an integer"),
    (lambda x: validate.whole("x", x, at_least=0), 10**30, 1.0, "x=1.0 must be an integer"),
]  # fmt: skip


@pytest.mark.parametrize("case", RANGES, ids=lambda case: case[3])
def test_a_range_ends_where_its_error_says(case):
    make, good, bad, message = case
    make(good)
    with pytest.raises(ParameterError) as caught:
        make(bad)
    assert str(caught.value) == message


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "1", None, True, 10**400, [1.0]])
def test_numbers_are_finite_and_no_texts(bad):
    with pytest.raises(ParameterError, match=r"^x="):
        validate.number("x", bad)


@pytest.mark.parametrize("good", [1, 1.0, np.float32(1), np.int64(1), Fraction(1)])
def test_numbers_of_every_type_are_floats(good):
    found = validate.number("x", good)
    assert (found, type(found)) == (1.0, float)


@pytest.mark.parametrize(
    ("n", "honest", "trusted"),
    [(1, 1.0, 1), (10, 0.7, 7), (1001, 0.9, 900), (3, 0.34, 1), (10**12, 0.1, 10**11), (2, 0.5, 1)],
)
def test_shares_of_people_are_read_as_decimals(n, honest, trusted):
    assert Crowd(n=n, honest=honest).trusted == trusted


def test_calibrations_and_costs():
    assert Calibration.read("exact") is Calibration.read(Calibration.EXACT) is Calibration.EXACT
    assert Calibration.read("paper") is Calibration.PAPER
    assert Cost.fixed(7, 3) == Cost(
        messages_mean=3.0, messages_max=3, bits_per_message=7, count_depends_on_value=False
    )
    assert Cost.fixed(7).messages_max == 1
