"""The inverse questions: the answer meets the error, and a little less does not."""

import math

import pytest

import shuffledp as sdp

CHEAP = ("central", "local")


def rows(plan):
    return [row for row in plan.rows if row.available]


@pytest.mark.parametrize(
    ("task", "numbers", "error"),
    [
        ("count", {"n": 10_000}, 12.0),
        ("histogram", {"n": 10_000, "k": 8}, 300.0),
        ("sum", {"n": 5_000, "lower": -4, "upper": 6}, 900.0),
        ("mean", {"n": 5_000, "lower": 0.0, "upper": 1.0, "steps": 100}, 0.02),
    ],
)
def test_the_smallest_epsilon_of_each_row(task, numbers, error):
    plan = sdp.plan(task, **numbers, error=error, delta=1e-6, models=CHEAP)
    found = rows(plan)
    assert len(found) >= 2
    scale = 5_000 if task == "mean" else 1
    for row in found:
        assert row.rmse <= error * scale
        less = sdp.plan(task, **numbers, epsilon=row.epsilon * 0.998, delta=1e-6, models=CHEAP)
        same = next(r for r in less.rows if (r.protocol, r.model) == (row.protocol, row.model))
        assert same.rmse > error * scale
    assert (
        plan.epsilon
        == plan.asked.epsilon
        == plan.chosen.epsilon
        == min(row.epsilon for row in found if row.model.value == "local")
    )
    assert [row.epsilon for row in found] == sorted(row.epsilon for row in found)


def test_the_smallest_epsilon_of_shuffled_rows():
    plan = sdp.plan("count", n=200_000, error=8.0, delta=1e-6, models="shuffle", max_messages=2)
    found = {row.protocol: row for row in rows(plan)}
    assert {"correlated_count", "rr", "zsum_sparse"} <= set(found)
    for row in found.values():
        assert row.rmse <= 8.0
        assert row.messages_per_user <= 2
    assert plan.chosen.epsilon <= 1.002 * min(row.epsilon for row in found.values())
    assert plan.make().guarantee.epsilon == plan.epsilon
    assert "  model    epsilon  " in str(plan)


def test_the_smallest_number_of_users():
    plan = sdp.plan("mean", error=0.02, epsilon=0.5, delta=1e-6, upper=5, models=CHEAP)
    for row in rows(plan):
        assert row.rmse / row.n <= 0.02
        fewer = math.floor(row.n * 0.998) - 1
        less = sdp.plan("mean", n=fewer, epsilon=0.5, delta=1e-6, upper=5, models=CHEAP)
        same = next(r for r in less.rows if (r.protocol, r.model) == (row.protocol, row.model))
        assert same.rmse / fewer > 0.02
    assert plan.n == plan.asked.n == plan.chosen.n
    assert plan.to_dict()["n"] == plan.n


def test_a_grid_that_is_too_coarse_is_a_reason():
    plan = sdp.plan(
        "mean", n=1000, error=0.01, delta=1e-6, lower=0.0, upper=1.0, steps=1, models=CHEAP
    )
    assert [row.protocol for row in rows(plan)] == ["laplace"]  # a curator rounds nothing
    reasons = [row.reason for row in plan.rows if row.model.value == "local"]
    assert all("grid" in reason for reason in reasons)


def test_no_epsilon_is_enough():
    plan = sdp.plan("count", n=100_000, error=1e-3, delta=1e-6, models="local")
    assert plan.chosen is None
    assert plan.epsilon is None
    assert plan.n == 100_000
    rr = next(row for row in plan.rows if row.protocol == "rr" and row.model.value == "local")
    assert rr.reason == "no epsilon up to 20 is enough"
    assert plan.to_dict()["epsilon"] is None


def test_no_number_of_people_is_enough():
    ends = {"lower": 0.0, "upper": 1.0, "steps": 1}
    plan = sdp.plan("mean", error=1e-6, epsilon=0.5, delta=1e-12, models="local", **ends)
    assert plan.chosen is None
    assert plan.n is None
    assert plan.epsilon == 0.5
