"""The curves of the plot: exact at every point, over the plan's own protocols."""

import pytest

import shuffledp as sdp
from shuffledp.planner import curves


@pytest.fixture(scope="module")
def plan():
    return sdp.plan("count", n=2_000_000, epsilon=1.0, delta=1e-10, models=("shuffle", "central"))


def test_three_models_and_the_chosen_point(plan):
    found = {curve.model.value: curve.points for curve in curves(plan, points=5)}
    assert set(found) == {"central", "local", "shuffle"}  # also the one that was not asked for
    for points in found.values():
        assert [point.n for point in points] == sorted(point.n for point in points)
    middle = found["shuffle"][2]
    assert (middle.n, middle.protocol) == (plan.n, plan.chosen.protocol)
    assert middle.error == plan.chosen.rmse


def test_points_are_the_errors_of_plans(plan):
    for curve in curves(plan, points=3):
        if curve.model.value != "central":
            continue
        for point in curve.points:
            other = sdp.plan("count", n=point.n, epsilon=1.0, delta=1e-10, models="central")
            assert point.error == other.chosen.rmse


def test_means_are_on_their_own_scale():
    plan = sdp.plan("mean", n=10_000, epsilon=1.0, delta=0.0, models="local", upper=3)
    (local,) = (curve for curve in curves(plan, points=3) if curve.model.value == "local")
    few, _, many = (point.error for point in local.points)
    assert few / many == pytest.approx(100, rel=1e-6)  # n^(-1/2) over four decades


def test_where_the_best_is_not_available_the_next_stands_in():
    limits = {"max_messages": 2, "models": "shuffle"}
    plan = sdp.plan("histogram", n=200_000, k=16, epsilon=1.0, delta=1e-6, **limits)
    assert plan.chosen.protocol == "correlated_histogram"
    shuffle = next(c for c in curves(plan, points=5) if c.model.value == "shuffle")
    assert len({point.protocol for point in shuffle.points}) > 1
    assert shuffle.points[-1].protocol == "correlated_histogram"


def test_nothing_to_draw_is_said():
    plan = sdp.plan("count", n=100_000, error=1e-3, delta=1e-6, models="local")
    with pytest.raises(sdp.UnsupportedError, match=r"nothing to draw: .*no epsilon up to 20"):
        curves(plan)
