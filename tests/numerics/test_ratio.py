"""Intervals of ratios: the tail of numerator - r denominator against exact laws, and what they cover."""

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.core.analyzer import Estimate, NormalError
from shuffledp.numerics.intervals import Difference, DifferenceError
from shuffledp.numerics.intervals.laplace import DiscreteLaplace, DiscreteLaplaceError
from shuffledp.numerics.intervals.sample import RatioError, _find_tails

RATE = 0.2
LAPLACE = DiscreteLaplaceError(noise=DiscreteLaplace(rate=Fraction(1, 5)), shape=())
SHARED = DifferenceError(noise=Difference(r=1.0, p=math.exp(-RATE)), shape=())
"""The same law by another way."""
REACH = np.arange(-100, 101)
MASSES = math.tanh(RATE / 2) * np.exp(-RATE * np.abs(REACH))


def find_tail(t: float, ratio: float) -> float:
    """Pr[Z_S - ratio Z_R > t], exactly but for what is beyond the reach."""
    apart = REACH[:, None] - ratio * REACH
    return float((MASSES[:, None] * MASSES)[apart > t].sum())


@pytest.mark.parametrize("law", [LAPLACE, SHARED])
@pytest.mark.parametrize("outside", [0.05, 0.001])
def test_the_bound_is_above_the_exact_tail_and_near_it(
    law: DiscreteLaplaceError | DifferenceError, outside: float
) -> None:
    tails = _find_tails(law, law, 1.0, outside)
    for ratio in (0.0, 0.3, 1.0):
        for t in (0.0, 4.0, 9.5, 20.0, 40.0):
            exact = find_tail(t, ratio)
            bound = float(tails.bound(np.array([t]), np.array([ratio]))[0])
            assert bound >= exact
            if t > 4 and exact > outside / 4:
                assert bound < 1.6 * exact


def test_intervals_cover_with_at_least_their_level() -> None:
    """Over all noise: the true ratio is refused with the exact probability 1 - level, or less."""
    tails = _find_tails(LAPLACE, LAPLACE, 1.0, 0.05)
    for top, rows in ((0, 100), (2, 5), (1, 1)):
        ratio = top / rows
        off = np.abs(REACH[:, None] - ratio * REACH)
        places, back = np.unique(off, return_inverse=True)
        bounds = tails.bound(places, np.full(len(places), abs(ratio)))
        refused = (bounds <= 0.025)[back].reshape(off.shape)
        assert 0.5 * 0.05 < (MASSES[:, None] * MASSES)[refused].sum() <= 0.05


def make_error(top: float, rows: float, half: float = 1.0) -> RatioError:
    first, second = (
        Estimate(value=value, error=LAPLACE, limits=(-1e9, 1e9)) for value in (top, rows)
    )
    return RatioError(top=first, rows=second, half=half, ends=(0.0, 10.0))


@pytest.mark.parametrize(
    ("top", "rows"), [(-20.0, 100.0), (300.0, 400.0), (5.0, 30.0), (0.0, 60.0)]
)
def test_an_interval_holds_every_ratio_that_is_not_refused(top: float, rows: float) -> None:
    low, high = make_error(top, rows).interval(0.0, 0.95)
    tails = _find_tails(LAPLACE, LAPLACE, 1.0, 1 - 0.95)
    ratios = np.linspace(-1, 1, 4001)
    bounds = tails.bound(np.abs(top - ratios * rows), np.abs(ratios))
    kept = 5 * (1 + ratios[bounds > 0.025])
    assert low <= kept.min() <= low + 0.1
    assert high - 0.1 <= kept.max() <= high


def test_without_rows_nothing_is_known() -> None:
    error = make_error(1.0, 4.0)
    assert error.interval(error.value, 0.95) == (0.0, 10.0)
    assert error.covers_all(0.95)
    assert not make_error(-20.0, 1000.0).covers_all(0.95)


def test_a_ratio_beyond_its_ends_is_at_the_end() -> None:
    error = make_error(900.0, 400.0)
    assert error.value == 10.0
    low, high = error.interval(error.value, 0.95)
    assert low == pytest.approx(10.0)
    assert high == 10.0


def test_numerators_are_in_their_own_unit() -> None:
    """Twice the half, twice the numerator, and no less noise in it: the interval is narrower."""
    one, two = make_error(-20.0, 400.0), make_error(-40.0, 400.0, half=2.0)
    assert one.value == two.value
    assert two.stderr < one.stderr
    widths = [high - low for low, high in (each.interval(0.0, 0.95) for each in (one, two))]
    assert widths[1] < widths[0]


def test_other_noises_have_intervals_that_hold_together() -> None:
    law = NormalError(stderr=5.0)
    top, rows = (Estimate(value=value, error=law, limits=(0, 1)) for value in (-20.0, 100.0))
    error = RatioError(top=top, rows=rows, half=1.0, ends=(0.0, 10.0))
    low, high = error.interval(0.0, 0.95)
    (s0, s1), (r0, _) = (each.interval(0.975) for each in (top, rows))
    assert low == pytest.approx(5 * (1 + s0 / r0))
    assert s1 < 0
    assert high == pytest.approx(5 * (1 + s1 / rows.interval(0.975).high))
    few = RatioError(top=top, rows=top, half=1.0, ends=(0.0, 10.0))
    assert few.interval(0.0, 0.95)[0] == 0.0
