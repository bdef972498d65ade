"""The inverse questions: the answer meets the error, and a little less does not."""

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.privacy import Model
from shuffledp.planner.plans import _Bracket
from shuffledp.planner.rows import Row

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


LAWS = {
    "1 / x": lambda x: 1 / x,
    "1 / sqrt(x)": lambda x: x**-0.5,
    "1 / x^2": lambda x: x**-2,
    "kinked": lambda x: 1 / x if x < 1 else x**-3,
    "with a floor": lambda x: 0.02 + 1 / x,
    "exponential": lambda x: math.exp(-x),
    "nothing below 0.3": lambda x: math.inf if x < 0.3 else 0.5 / x,
    "in steps": lambda x: 2.0 ** -math.floor(4 * math.log2(x)) if x > 0 else math.inf,
}


def look_for(law, wanted, *, first, grain=0.0, start=1e-4, end=20.0):
    """What a bracket finds for a made-up error, and where it looked."""
    seen = []

    def row_at(x):
        seen.append(x)
        return Row(protocol="p", model=Model.LOCAL, rmse=law(x), n=10, reason=None)

    def excess_of(row):
        return math.log(row.rmse / wanted) if math.isfinite(row.rmse) else math.inf

    bracket = _Bracket(name="epsilon", start=start, end=end, grain=grain)
    return bracket.search(row_at, excess_of, first), seen


@pytest.mark.parametrize("first", [1e-5, 0.02, 1.0, 7.0, 1e3])
@pytest.mark.parametrize("wanted", [0.06, 0.4, 5.0])
@pytest.mark.parametrize("name", LAWS)
def test_a_made_up_error_is_met_sharply_and_soon(name, wanted, first):
    law = LAWS[name]
    found, seen = look_for(law, wanted, first=first)
    assert all(1e-4 <= x <= 20.0 for x in seen)
    least = next((x for x in np.geomspace(1e-4, 20.0, 5_001) if law(x) <= wanted), None)
    if least is None:
        assert found.reason == "no epsilon up to 20 is enough"
        assert len(seen) <= 20
        return
    x = min(x for x in seen if law(x) <= wanted)
    assert found.rmse == law(x) <= wanted
    edge = not math.isfinite(law(0.99 * least))
    assert x <= least * (1.051 if edge else 1.0015)
    assert len(seen) <= (28 if name.startswith(("in", "nothing")) else 16)


@pytest.mark.parametrize("first", [2.0, 40.0, 1e6])
@pytest.mark.parametrize("wanted", [0.4, 0.01, 3e-4])
def test_a_number_of_people_is_the_smallest(wanted, first):
    """Exactly, as long as a thousandth of it is below two people."""
    for law in (LAWS["1 / x"], LAWS["1 / sqrt(x)"], lambda n: math.inf if n < 12 else 1 / n):
        found, seen = look_for(law, wanted, first=first, grain=1.0, start=2.0, end=1e12)
        x = min(x for x in seen if law(x) <= wanted)
        assert found.rmse == law(x)
        assert all(x == int(x) for x in seen)
        if x < 1000:
            assert x == 2 or law(x - 1) > wanted
        else:
            assert law(0.9985 * x) > wanted
        assert len(seen) <= 24
