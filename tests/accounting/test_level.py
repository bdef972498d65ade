"""The smallest level of noise: certified whatever the curve is, and found soon where it is like a variance."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp.accounting.base import find_level, gaussian_delta
from shuffledp.core.errors import UnsupportedError


def search(delta_at, delta, **given):
    asked = {}

    def ask(level):
        asked[level] = delta_at(level)
        return asked[level]

    level = find_level(ask, delta, **{"largest": 1e12, "refusal": "too little"} | given)
    return level, asked


@pytest.mark.parametrize("tolerance", [1e-6, 5e-4])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.01, 1e-12), (0.3, 1e-6), (1.0, 1e-9), (3.0, 0.01)]
)
def test_few_evaluations_where_a_level_is_like_a_variance(epsilon, delta, tolerance):
    def curve(level):  # the skewness of small counts
        return min(1.0, gaussian_delta(level**-0.5, epsilon) * (1 + 3 / level**0.5))

    plain, _ = search(curve, delta, guess=1.0)
    level, asked = search(curve, delta, guess=1.01 * plain, epsilon=epsilon, tolerance=tolerance)
    assert asked[level] <= delta
    assert level == pytest.approx(plain, rel=1.5 * tolerance)
    assert len(asked) <= (4 if tolerance < 1e-5 else 3)


@given(
    root=st.floats(min_value=1e-3, max_value=1e6),
    off=st.floats(min_value=1e-3, max_value=1e3),
    steep=st.floats(min_value=0.5, max_value=40.0),
    ripple=st.floats(min_value=0.0, max_value=0.5),
)
def test_safe_and_close_for_curves_of_any_shape(root, off, steep, ripple):
    def curve(level):
        return min(1.0, 1e-6 * (root / level) ** steep * (1 + ripple * math.sin(1e3 * level)))

    level, asked = search(curve, 1e-6, guess=off * root, epsilon=1.0)
    assert asked[level] <= 1e-6
    room = (1 + ripple) ** (1 / steep) * 1.001
    assert root * (1 - ripple) ** (1 / steep) * 0.999 <= level <= root * room * (1 + 1e-3)


@pytest.mark.parametrize("curve", [lambda _: 1.0, lambda _: 0.5, lambda level: 1 / (1 + level)])
def test_a_curve_that_stays_above_is_refused(curve):
    with pytest.raises(UnsupportedError, match="too little"):
        search(curve, 1e-3, guess=1.0, largest=100.0, epsilon=1.0)


def test_a_curve_of_zeros_needs_next_to_nothing():
    level, asked = search(lambda _: 0.0, 1e-3, guess=1.0, epsilon=1.0)
    assert asked[level] == 0
    assert level < 1e-6


def test_the_largest_level_is_enough_if_it_is_safe():
    level, _ = search(
        lambda level: 0.0 if level >= 2.0 else 1.0, 1e-3, guess=5.0, largest=2.0, epsilon=1.0
    )
    assert level == pytest.approx(2.0, rel=1e-5)
