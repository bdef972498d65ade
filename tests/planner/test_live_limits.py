"""Plans for live collections: bytes, influence and the floor."""

import math

import pytest

import shuffledp as sdp
from shuffledp.planner.question import Limits


def rows_of(plan):
    return {(row.protocol, row.model.value): row for row in plan.rows}


def test_the_table_of_the_specification():
    """Binary and k-ary randomized response with local epsilon 3, 90 % honest, delta = 1e-8."""
    for n, rr, krr in ((1000, 0.99, 0.87), (10_000, 0.23, 0.25), (100_000, 0.065, 0.076)):
        count = sdp.plan("count", n=n, epsilon=1.0, delta=1e-8, local_epsilon=3, models="shuffle")
        bins = sdp.plan(
            "histogram", k=10, n=n, epsilon=1.0, delta=1e-8, local_epsilon=3, models="shuffle"
        )
        for plan, name, wanted in ((count, "rr", rr), (bins, "krr", krr)):
            row = rows_of(plan)[name, "shuffle"]
            assert row.available, row.reason
            assert row.local_floor.epsilon <= 3
            assert row.local_floor.epsilon > 2.97
            assert row.epsilon == pytest.approx(wanted, rel=0.03)
            assert row.guess == pytest.approx(0.953, abs=0.002)


def test_what_has_no_floor_is_not_available():
    plan = sdp.plan("count", n=10_000, epsilon=1.0, delta=1e-8, local_epsilon=3)
    found = rows_of(plan)
    assert "no local floor" in found["correlated_count", "shuffle"].reason
    assert "curator" in found["geometric", "central"].reason
    assert plan.chosen.protocol == "rr"
    assert plan.chosen.model is sdp.Model.SHUFFLE
    text = str(plan)
    assert "influence" in text
    assert "95.2 %" in text or "95.3 %" in text
    assert plan.to_dict()["rows"][0]["bytes_per_report"] == 104


def test_a_floor_in_the_local_model_is_its_epsilon():
    plan = sdp.plan("count", n=1000, epsilon=5.0, delta=1e-6, local_epsilon=3, models="local")
    assert plan.chosen is None
    assert "a local epsilon of 5, and 3 was asked for" in plan.reasons()


def test_influence_is_what_a_liar_can_do():
    sums = rows_of(
        sdp.plan("sum", n=1000, lower=0, upper=1, epsilon=1.0, delta=1e-8, max_influence=10)
    )
    assert sums["split_and_mix", "shuffle"].influence > 1000
    assert "moves the answer" in sums["split_and_mix", "shuffle"].reason
    local = rows_of(sdp.plan("count", n=1000, epsilon=3.0, delta=1e-8, max_influence=10))[
        "rr", "local"
    ]
    flip = 1 / (1 + math.exp(3))
    assert local.influence == pytest.approx(1 / (1 - 2 * flip), rel=1e-6)


def test_bytes_are_those_of_the_longest_report():
    plan = sdp.plan("histogram", k=100, n=10_000, epsilon=1.0, delta=1e-8, max_bytes=110)
    found = rows_of(plan)
    assert found["krr", "shuffle"].bytes_per_report == 104
    assert found["symmetric_unary", "shuffle"].bytes_per_report == 2 + 48 + 4 + 1 + 13 + 48
    assert "bytes per report" in found["symmetric_unary", "shuffle"].reason
    assert "bytes per report" in found["correlated_histogram", "shuffle"].reason


@pytest.mark.parametrize("bad", [{"max_bytes": 0}, {"max_influence": 0.5}, {"local_epsilon": 0}])
def test_limits_that_make_no_sense(bad):
    with pytest.raises(sdp.ParameterError):
        Limits.of(models="shuffle", **bad)


def test_without_these_limits_plans_look_as_before():
    text = str(sdp.plan("count", n=1000, epsilon=1.0, delta=1e-6, models="local"))
    assert "messages" in text
    assert "influence" not in text
