"""Monotone inversion: the result is safe, and close."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp.numerics.rounding import find_largest_above, find_smallest, find_smallest_safe

ROOTS = st.floats(min_value=1e-9, max_value=0.999)
GUESSES = st.floats(min_value=-1.0, max_value=3.0)
SHAPES = {
    "line": lambda x, root: root - x,
    "cliff": lambda x, root: 1.0 if x < root else -1e-12,
    "steep": lambda x, root: (root / x) ** 20 - 1 if x > root / 10 else 1e30,
    "flat": lambda x, root: math.atan(1e-9 * (root - x)),
    "log": lambda x, root: math.log(root / x) if x > 0 else 1e9,
    "minus infinity": lambda x, root: root - x if x < root else -math.inf,
}


@pytest.mark.parametrize("shape", SHAPES)
@given(root=ROOTS, guess=GUESSES)
def test_safe_and_close_with_few_evaluations(shape, root, guess):
    seen = []

    def excess(x):
        seen.append((x, SHAPES[shape](x, root)))
        return seen[-1][1]

    result = find_smallest_safe(excess, safe=1.0, guess=guess)
    assert result >= root
    assert result <= root * (1 + 2e-6) or result - root <= 1e-6 * root
    assert result == 1.0 or dict(seen)[result] <= 0
    assert len(seen) <= 150


def test_the_floor_when_all_is_safe():
    assert find_smallest_safe(lambda _: -1.0, safe=5.0, guess=2.0) == 0.0
    assert find_smallest_safe(lambda _: -1.0, safe=5.0, guess=2.0, floor=0.5) == 0.5


def test_the_safe_end_when_nothing_else_is():
    assert find_smallest_safe(lambda _: 1.0, safe=5.0, guess=2.0) == 5.0


@given(root=ROOTS, phase=st.floats(min_value=0, max_value=6))
def test_a_noisy_function_costs_sharpness_and_never_safety(root, phase):
    def excess(x):
        return root - x + 0.01 * root * math.sin(1e6 * x + phase)

    result = find_smallest_safe(excess, safe=1.0, guess=0.5)
    assert result == 1.0 or excess(result) <= 0
    assert 0.98 * root <= result <= 1.03 * root or result == 1.0


def test_few_evaluations_from_a_good_guess():
    count = 0

    def excess(x):
        nonlocal count
        count += 1
        return math.log(3e-6 / max(x, 1e-300))

    find_smallest_safe(excess, safe=10.0, guess=3.001e-6)
    assert count <= 12


@given(root=ROOTS, guess=GUESSES)
def test_an_excess_of_exactly_0_is_safe(root, guess):
    def excess(x):
        return 1.0 if x < root else 0.0

    assert root <= find_smallest_safe(excess, safe=1.0, guess=guess) <= root * (1 + 2e-6)
    assert root * (1 - 2e-6) <= find_largest_above(excess, end=1.0, guess=guess) < root


@given(root=ROOTS)
def test_a_largest_parameter_that_is_not_safe_is_not_returned(root):
    found = find_smallest(lambda x: root - x, guess=0.01, largest=0.5)
    if root > 0.5:
        assert found is None
    else:
        assert found is not None
        assert root <= found <= 0.5


@pytest.mark.parametrize("safe_from", [0.0, 0.003, 40.0])
def test_find_smallest_looks_at_no_number_below_a_billionth_of_the_guess(safe_from):
    looked = []

    def excess(x):
        looked.append(x)
        return safe_from - x

    found = find_smallest(excess, guess=0.5, largest=100.0)
    assert min(looked) >= 0.5e-9
    assert max(looked) <= 100.0
    assert excess(found) <= 0
    assert found == pytest.approx(max(safe_from, 0.5e-9), rel=2e-6)
