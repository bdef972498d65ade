"""A delta above 1/n: refused by whoever plans or answers, and said aloud from a tenth of it on."""

import json

import pytest

import shuffledp as sdp
from shuffledp.planner.question import check_delta, hint_delta

PEOPLE = [True, False] * 50
LARGE, NEAR, SMALL = 0.011, 0.002, 0.001  # of 100 people
REFUSED = r"delta=0.011 must be at most 1/n = 0.01: .* \(such as 0.0001\), or set allow_large_delta"


def test_the_borders_are_exact():
    assert check_delta(0.001, 100) == ()
    assert len(check_delta(0.0010000001, 100)) == 1
    assert len(check_delta(0.01, 100)) == 1
    with pytest.raises(sdp.ParameterError, match="must be at most 1/n"):
        check_delta(0.0100000001, 100)
    assert len(check_delta(0.5, 100, allow_large_delta=True)) == 1


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 999_999, 10**6, 10**6 + 1, 10**12])
def test_the_hint_is_a_hundredth_of_one_in_n_or_less(n):
    assert n * hint_delta(n) * 100 <= 1 + 1e-12
    assert check_delta(hint_delta(n), n) == ()


def test_a_plan():
    asked = {"n": 100, "epsilon": 1.0}
    with pytest.raises(sdp.ParameterError, match=REFUSED):
        sdp.plan("count", **asked, delta=LARGE)
    allowed = sdp.plan("count", **asked, delta=LARGE, allow_large_delta=True)
    near = sdp.plan("count", **asked, delta=NEAR)
    for plan in (allowed, near):
        assert "is large for n = 100" in plan.remarks[0]
        assert "is large for n = 100" in " ".join(str(plan).split())
        assert json.loads(plan.to_json())["remarks"] == list(plan.remarks)
    assert sdp.plan("count", **asked, delta=SMALL).remarks == ()
    assert sdp.plan("count", **asked, delta=LARGE, models="local").remarks == ()
    with pytest.raises(
        sdp.UnsupportedError, match=r"needs delta: .* far below 1/n, such as 0.0001"
    ):
        sdp.plan("count", **asked)


def test_a_plan_that_searches_for_n():
    asked = {"error": 0.01, "epsilon": 1.0, "models": "central", "upper": 1}
    assert sdp.plan("mean", **asked, delta=1e-6).remarks == ()
    with pytest.raises(sdp.ParameterError, match=r"delta=0.5 must be at most 1/n"):
        sdp.plan("mean", **asked, delta=0.5)


def test_an_answer():
    with pytest.raises(sdp.ParameterError, match=REFUSED):
        sdp.ask(PEOPLE, "count", epsilon=1, delta=LARGE)
    allowed = sdp.ask(PEOPLE, "count", epsilon=1, delta=LARGE, allow_large_delta=True)
    near = sdp.ask(PEOPLE, "count", epsilon=1, delta=NEAR)
    for answer in (allowed, near):
        assert "is large for n = 100" in str(answer)
    assert "is large" not in str(sdp.ask(PEOPLE, "count", epsilon=1, delta=SMALL))
    with pytest.raises(sdp.UnsupportedError, match="needs delta: choose it far below 1/n"):
        sdp.ask(PEOPLE, "count", epsilon=1)


def test_makers_and_accountants_still_answer():
    assert sdp.count(n=100, epsilon=1.0, delta=0.1).guarantee.delta <= 0.1
    assert sdp.amplify(n=100, epsilon0=1.0, delta=0.1).epsilon < 1.0


def test_the_command_line(shuffledp, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("home\n" + "true\nfalse\n" * 50)
    run = ("run", "count", path, "--epsilon", 1, "--delta", LARGE)
    plan = ("plan", "count", "--n", 100, "--epsilon", 1, "--delta", LARGE)
    for words in (run, plan):
        refused = shuffledp(*words)
        assert refused.exit_code == 2
        assert "must be at most 1/n = 0.01" in refused.stderr
        assert shuffledp(*words, "--allow-large-delta").exit_code == 0
    missing = shuffledp(*plan[:-2])
    assert missing.exit_code == 2
    assert "far below 1/n, such as 0.0001" in missing.stderr
