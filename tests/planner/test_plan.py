"""The plan: ranked, complete, honest about what is not available, and readable."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import mechanisms, protocols
from shuffledp.core.domain import Categories
from shuffledp.core.privacy import Model
from shuffledp.planner import question, rows
from shuffledp.planner.choice import SAME

COUNT = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6}
KEYS = {"task", "n", "epsilon", "delta", "chosen", "rows"}
ROW_KEYS = {
    "protocol",
    "model",
    "available",
    "reason",
    "rmse",
    "messages_per_user",
    "bits_per_user",
    "epsilon",
    "delta",
    "proof",
}


@pytest.fixture(scope="module")
def histogram():
    return sdp.plan("histogram", n=100_000, k=64, epsilon=1.0, delta=1e-6)


@pytest.fixture(scope="module")
def count():
    return sdp.plan("count", **COUNT)


def test_every_registered_protocol_of_the_question_is_a_row(histogram):
    wanted = {(spec.name, "shuffle") for spec in of_histograms() if spec.make}
    wanted |= {(spec.name, "local") for spec in of_histograms() if spec.make_local}
    wanted |= {
        (spec.name, "central") for spec in mechanisms.MECHANISMS if "histogram" in spec.tasks
    }
    assert {(row.protocol, row.model.value) for row in histogram.rows} == wanted


def of_histograms():
    return [spec for spec in protocols.PROTOCOLS if spec.task == "histogram"]


def test_available_rows_come_first_by_error(histogram, count):
    for plan in (histogram, count):
        available = [row.available for row in plan.rows]
        assert available == sorted(available, reverse=True)
        errors = [row.rmse for row in plan.rows if row.available]
        assert errors == sorted(errors)


def test_rows_keep_what_was_asked(histogram, count):
    for plan in (histogram, count):
        for row in plan.rows:
            if not row.available:
                continue
            assert row.guarantee.epsilon <= plan.epsilon
            assert row.guarantee.delta <= plan.delta
            assert row.make().guarantee == row.guarantee
            assert row.total_bytes >= plan.n * row.bits_per_user / 8
            # The functions of count_min are drawn: its RMSE is over all of them, its worst bin for these.
            if row.protocol != "count_min":
                assert row.worst_bin is None or row.worst_bin > row.rmse
            assert (row.worst_bin is None) == (plan is count)


def test_the_chosen_row_is_nearly_the_best_and_the_shortest(histogram, count):
    for plan in (histogram, count):
        rivals = [row for row in plan.rows if row.available and row.model.value != "central"]
        best = min(row.rmse for row in rivals)
        assert plan.chosen.rmse <= SAME * best
        shorter = [row for row in rivals if row.bits_per_user < plan.chosen.bits_per_user]
        assert all(row.rmse > SAME * best for row in shorter)
        assert plan.make().name == plan.chosen.protocol


def test_the_functions_that_choose_agree_with_the_plan(histogram, count):
    assert sdp.count(**COUNT).name == count.chosen.protocol
    chosen = sdp.histogram(n=100_000, k=64, epsilon=1.0, delta=1e-6)
    assert chosen.name == histogram.chosen.protocol
    common = {"n": 2_000, "epsilon": 1.0, "delta": 1e-4, "lower": 0, "upper": 3}
    for task in ("sum", "mean"):
        plan = sdp.plan(task, **common, models="shuffle")
        assert getattr(sdp, task)(**common) == plan.make()


def test_json_has_the_promised_keys_and_is_strict(histogram, count):
    for plan in (histogram, count):
        found = json.loads(plan.to_json(), parse_constant=lambda name: pytest.fail(name))
        assert set(found) >= KEYS
        assert found["chosen"] == plan.chosen.protocol
        for row in found["rows"]:
            assert set(row) >= ROW_KEYS
            assert (row["reason"] is None) == row["available"]
            assert (row["rmse"] is not None) or not row["available"]


def test_the_table_fits_into_80_columns(histogram, count):
    for plan in (histogram, count):
        text = str(plan)
        assert max(map(len, text.splitlines())) <= 80
        assert all(row.protocol in text for row in plan.rows)
        assert f"\n> {plan.chosen.protocol} " in text
        assert "worst" in text
        page = plan._repr_html_()
        assert page.count("<tr") == 1 + sum(row.available for row in plan.rows)


def test_limits_and_trust_are_reasons():
    free = sdp.plan("count", **COUNT)
    tight = sdp.plan("count", **COUNT, max_messages=1.5, max_bits=20, models=("shuffle", "local"))
    reasons = {(row.protocol, row.model.value): row.reason for row in tight.rows}
    assert reasons["split_and_mix", "shuffle"].startswith("7 messages per user, more than 1.5")
    assert "bits per user, more than 20" in reasons["split_and_mix", "shuffle"]
    assert reasons["geometric", "central"] == "the central model is not among those asked for"
    assert {row.protocol for row in tight.rows} == {row.protocol for row in free.rows}
    assert tight.chosen.bits_per_user <= 20


def test_pure_privacy_leaves_the_pure_rows():
    plan = sdp.plan("count", n=1000, epsilon=1.0, delta=0.0, models=("central", "local"))
    assert {row.protocol for row in plan.rows if row.available} == {"geometric", "rr"}
    assert plan.chosen.protocol == "rr"


def test_a_curator_only_if_nobody_else_is_trusted():
    assert sdp.plan("count", **COUNT, models="central").chosen.protocol == "geometric"
    pure = {"n": 10**6, "epsilon": 1.0, "delta": 0.0}  # too many users for pure counting
    plan = sdp.plan("count", **pure, models=("central", "shuffle"))
    assert plan.chosen.protocol == "geometric"


def test_the_repr_is_one_short_line(count):
    assert repr(count) == (
        "<Plan: count of yes and no, n = 10,000, epsilon = 1, delta = 1e-06, 90 % honest: "
        f"correlated_count of {len(count.rows)} rows>"
    )


def test_nothing_available_says_why():
    plan = sdp.plan("histogram", n=3, k=4, epsilon=0.1, delta=1e-9, models="shuffle", max_bits=1)
    assert plan.chosen is None
    assert "Nothing is available." in str(plan)
    assert json.loads(plan.to_json())["chosen"] is None
    with pytest.raises(sdp.UnsupportedError, match=r"no protocol fits: .*krr"):
        plan.make()
    with pytest.raises(sdp.UnsupportedError, match="krr is not available"):
        next(row for row in plan.rows if row.protocol == "krr").make()


@pytest.mark.parametrize(
    ("task", "wrong", "message"),
    [
        ("count", {"epsilon": None}, "epsilon must be given, unless `error` is"),
        ("count", {"error": 3.0}, "error=3.0 needs n or epsilon"),
        ("count", {"error": 3.0, "n": None, "epsilon": None}, "needs n or epsilon"),
        ("count", {"error": 3.0, "n": None}, "the error of the count does not fall with n"),
        ("count", {"error": -1.0, "n": None}, "error=-1.0 must be > 0"),
        (
            "histogram",
            {"k": 2**23},
            "has 8,388,608 values: errors are computed for up to 4,194,304",
        ),
        ("sum", {"lower": 1.5}, "upper=1 must be > lower=1.5"),
        ("modus", {}, "task='modus' must be one of count, sum, mean, histogram"),
        ("count", {"models": ("friends",)}, "models=.* must be among central, local, shuffle"),
        ("count", {"models": ()}, "must be among"),
        ("count", {"max_bits": 0.5}, "max_bits=0.5 must be >= 1"),
        ("count", {"delta": 1.0}, "delta=1.0 must be >= 0 and < 1"),
        ("count", {"epsilon": 200.0}, "epsilon=200.0 must be <= 100"),
        ("count", {"n": 10.5}, "n=10.5 must be an integer"),
        ("count", {"honest": 0.0}, "honest=0.0 must be > 0"),
    ],
)
def test_refusals_name_the_parameter(task, wrong, message):
    with pytest.raises(sdp.ParameterError, match=message):
        sdp.plan(task, **{**COUNT, **wrong})


def test_refusals_name_the_option():
    with pytest.raises(sdp.UnsupportedError, match=r"a histogram needs its categories .* `k` for"):
        sdp.plan("histogram", **COUNT)
    with pytest.raises(sdp.UnsupportedError, match="a count takes no k"):
        sdp.plan("count", **COUNT, k=4)


@pytest.mark.parametrize(
    ("task", "where"), [("distribution", "learn"), ("uniformity", "uniformity")]
)
def test_other_tasks_are_elsewhere(task, where):
    with pytest.raises(sdp.UnsupportedError, match=f"for {task}: see sdp.{where}"):
        sdp.plan(task, **COUNT)


def test_registering_a_protocol_is_all_it_takes(monkeypatch):
    """A new line of the registry is a new row, a new choice, and works with the inverse questions."""
    krr = protocols.spec("krr")
    new = replace(krr, name="brand_new", make=None)
    monkeypatch.setattr(protocols, "list_offered", lambda: (new,))
    plan = sdp.plan("histogram", n=1000, k=4, epsilon=2.0, delta=1e-6, models="local")
    rows = {row.protocol: row for row in plan.rows if row.available}
    assert rows["brand_new"].rmse == rows["krr"].rmse
    assert rows["brand_new"].make().randomizer.domain == Categories(k=4)


def test_reals_say_what_the_grid_may_add():
    plan = sdp.plan(
        "mean", n=1000, epsilon=1.0, delta=1e-6, lower=-1.0, upper=1.0, steps=50, models="local"
    )
    assert plan.rounding == pytest.approx(0.02 * 1000**0.5)  # half a step for each of a thousand
    assert "It includes 0.632 for rounding reals to the grid at random." in " ".join(
        str(plan).split()
    )


def test_rounding_is_less_than_a_hundredth_of_the_error():
    for n in (100, 10**4, 10**6, 10**9):
        for epsilon in (0.1, 1.0, 8.0):
            plan = sdp.plan(
                "mean", n=n, epsilon=epsilon, delta=1e-3 / n, lower=0.0, upper=1.0, models="central"
            )
            best = min(row.rmse for row in plan.rows if row.available)
            assert math.hypot(best, plan.rounding) < 1.01 * best


def test_integers_are_a_grid_for_local_means():
    plan = sdp.plan("sum", n=1000, epsilon=1.0, delta=0.0, lower=-2, upper=5, models="local")
    duchi = next(row for row in plan.rows if row.protocol == "duchi" and row.available)
    assert duchi.answers == "sum"
    assert duchi.make().randomizer.domain.steps == 7
    direct = protocols.duchi.make_local(lower=-2, upper=5, steps=7, epsilon=1.0)
    middle = direct.analyzer.variance(np.array([0, 0, 0, 1000, 0, 0, 0, 0]))
    assert duchi.rmse == pytest.approx(1000 * middle**0.5, rel=1e-9)


def test_very_long_messages_are_not_evaluated():
    """Their exact law alone takes minutes."""
    plan = sdp.plan("histogram", n=100_000, k=100_000, epsilon=1.0, delta=0.0, models="local")
    reasons = {row.protocol: row.reason for row in plan.rows if row.model.value == "local"}
    assert "a message has 100,000 bits" in reasons["symmetric_unary"]
    assert reasons["krr"] is None


def test_what_nobody_would_send_is_not_made(monkeypatch):
    """Their authors say before how long messages are, and how many."""
    made, make = set(), question.Candidate.make
    monkeypatch.setattr(
        question.Candidate,
        "make",
        lambda self, *given, **more: made.add(self.name) or make(self, *given, **more),
    )
    plan = sdp.plan("histogram", n=60, k=150_000, epsilon=1.5, delta=1e-6)
    reasons = {row.protocol: row.reason for row in plan.rows if row.model is Model.SHUFFLE}
    for name in ("symmetric_unary", "optimized_unary", "fake_users"):
        assert reasons[name] == "a message has 150,000 bits; errors are evaluated up to 4,096"
    assert "everybody would send 1,350,000 messages" in reasons["pure_histogram"]
    assert not made & {"symmetric_unary", "optimized_unary", "fake_users", "pure_histogram"}
    assert "krr" in made


def test_messages_that_are_too_long_at_every_epsilon_are_not_made_at_many(monkeypatch):
    made, fill = Counter(), rows._fill

    def watch(bare, candidate, *given):
        made[candidate.name] += candidate.model is Model.SHUFFLE
        return fill(bare, candidate, *given)

    monkeypatch.setattr(rows, "_fill", watch)
    plan = sdp.plan("histogram", n=50_000, k=5000, epsilon=9.0, delta=1e-6)
    reasons = {row.protocol: row.reason for row in plan.rows if row.model is Model.SHUFFLE}
    assert "a message has 5,000 bits" in reasons["symmetric_unary"]
    assert made["symmetric_unary"] == 2
    assert max(made.values()) > 2  # elsewhere smaller epsilons are tried, as far as 1
