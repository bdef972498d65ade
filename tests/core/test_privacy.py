"""Guarantees say who is protected from whom in one line, and parameters are checked once."""

import math
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import (
    DataError,
    Guarantee,
    MismatchError,
    Model,
    Neighbours,
    ParameterError,
    ShuffledpError,
    UnsupportedError,
)
from shuffledp.core import validate
from shuffledp.core.privacy import guess_right, round_down, round_up

GOOD = {"epsilon": 1.0, "delta": 1e-6, "model": Model.SHUFFLE, "proof": "a theorem", "honest": 1000}


class TestGuarantee:
    @pytest.mark.parametrize(
        ("change", "line"),
        [
            (
                {},
                "epsilon = 1, delta = 1e-06: shuffle model, replace-one neighbours, "
                "1,000 honest users; by a theorem",
            ),
            (
                {"model": Model.LOCAL, "delta": 0.0, "honest": 1},
                "epsilon = 1, delta = 0: local model, replace-one neighbours, "
                "no other honest user needed; by a theorem",
            ),
            (
                {"model": Model.CENTRAL, "neighbours": Neighbours.ADD_REMOVE, "epsilon": 0.25},
                "epsilon = 0.25, delta = 1e-06: central model, add-remove neighbours, "
                "a trusted curator; by a theorem",
            ),
        ],
    )
    def test_prints_one_readable_line(self, change, line):
        assert str(Guarantee(**{**GOOD, **change})) == line

    @pytest.mark.parametrize("model", list(Model))
    @pytest.mark.parametrize("neighbours", list(Neighbours))
    def test_the_line_tells_the_views_and_the_neighbours_apart(self, model, neighbours):
        line = str(Guarantee(**{**GOOD, "model": model, "neighbours": neighbours}))
        assert "\n" not in line
        assert f"{model.value} model" in line
        assert f"{neighbours.value} neighbours" in line

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("epsilon", -0.1),
            ("epsilon", math.inf),
            ("epsilon", math.nan),
            ("epsilon", "1"),
            ("delta", -1e-9),
            ("delta", 1.5),
            ("delta", math.nan),
            ("honest", 0),
            ("honest", 2.0),
            ("proof", ""),
        ],
    )
    def test_bad_fields(self, name, value):
        with pytest.raises(ParameterError, match=f"^{name}="):
            Guarantee(**{**GOOD, name: value})

    @pytest.mark.parametrize(("name", "value"), [("epsilon", 0.0), ("delta", 0.0), ("delta", 1.0)])
    def test_the_ends_are_allowed(self, name, value):
        assert getattr(Guarantee(**{**GOOD, name: value}), name) == value

    def test_replace_one_and_nobody_else_by_default(self):
        plain = Guarantee(epsilon=1.0, delta=0.0, model=Model.LOCAL, proof="a theorem")
        assert (plain.neighbours, plain.honest) == (Neighbours.REPLACE_ONE, 1)


class TestValidate:
    @pytest.mark.parametrize("value", [3, 3.0, Fraction(3), np.float32(3), np.int8(3)])
    def test_numbers(self, value):
        assert validate.number("x", value) == 3.0
        assert type(validate.number("x", value)) is float

    @pytest.mark.parametrize("value", ["3", None, True, 3j, [3]])
    def test_not_numbers(self, value):
        with pytest.raises(ParameterError, match=r"^x=.* must be a number$"):
            validate.number("x", value)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_not_finite(self, value):
        with pytest.raises(ParameterError, match=r"^x=.* must be finite$"):
            validate.number("x", value)

    @pytest.mark.parametrize("value", [0, -1, -1e-300])
    def test_not_positive(self, value):
        with pytest.raises(ParameterError, match=r"must be > 0$"):
            validate.positive("x", value)

    def test_positive_at_the_smallest(self):
        assert validate.positive("x", 5e-324) == 5e-324

    @pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 2, -0.5])
    def test_not_a_fraction_of_one(self, value):
        with pytest.raises(ParameterError, match=r"must be > 0 and < 1$"):
            validate.fraction_of_one("x", value)

    def test_fraction_of_one_and_level(self):
        assert validate.fraction_of_one("x", 0.5) == validate.level(0.5) == 0.5
        with pytest.raises(ParameterError, match=r"^level="):
            validate.level(95)

    @pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2)])
    def test_whole(self, value):
        assert validate.whole("k", value, at_least=2, at_most=2) == 2
        assert type(validate.whole("k", value, at_least=2)) is int

    @pytest.mark.parametrize(
        ("value", "requirement"),
        [(1, ">= 2"), (6, "<= 5"), (3.0, "an integer"), (True, "an integer"), ("3", "an integer")],
    )
    def test_not_whole(self, value, requirement):
        with pytest.raises(ParameterError, match=f"^k=.* must be {requirement}$"):
            validate.whole("k", value, at_least=2, at_most=5)


class TestErrors:
    @pytest.mark.parametrize("kind", [DataError, MismatchError, ParameterError, UnsupportedError])
    def test_one_root(self, kind):
        assert issubclass(kind, ShuffledpError)

    @pytest.mark.parametrize("kind", [DataError, ParameterError])
    def test_wrong_values_are_value_errors(self, kind):
        assert issubclass(kind, ValueError)

    def test_parameter_errors_survive_pickling(self):
        error = pickle.loads(pickle.dumps(ParameterError("k", 1, "must be >= 2")))  # noqa: S301
        assert str(error) == "k=1 must be >= 2"
        assert (error.name, error.value, error.requirement) == ("k", 1, "must be >= 2")


@pytest.mark.parametrize("value", [0.3, 1 / 3, 0.1 + 0.2, 9.6870419999, 1e-8, 123456.9, 2.5e-300])
@pytest.mark.parametrize("digits", [3, 6, 10])
def test_what_is_written_is_on_the_safe_side_and_near(value, digits):
    low, high = float(round_down(value, digits)), float(round_up(value, digits))
    assert low <= value <= high
    assert high - low <= 10 ** (1 - digits) * value * (1 + 1e-9)
    assert round_down(0.3, digits) == round_up(0.3, digits) == "0.3"
    assert round_down(-value, digits) == f"-{round_up(value, digits)}"


def test_how_often_a_guess_is_right_is_rounded_up():
    """The closed form with fifty digits is never above what is stated, and below it by next to nothing."""
    with localcontext() as context:
        context.prec = 50
        for epsilon in np.random.default_rng(1).uniform(0.001, 20.0, 300).tolist():
            exact = 1 / (1 + (-Decimal(epsilon)).exp())
            assert exact <= Decimal(guess_right(epsilon)) < exact * (1 + Decimal("2e-15"))
