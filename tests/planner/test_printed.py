"""What a plan prints is what it found: every cell of its tables, for each thing that can be asked for."""

import math
import re
from dataclasses import replace

import pytest

import shuffledp as sdp
from shuffledp.core.errors import UnsupportedError
from shuffledp.planner.choice import curator_error
from shuffledp.planner.growth import plot_plan
from shuffledp.planner.plans import _cells, _shorten, _verdict, shorten_up
from shuffledp.tasks import Histogram

CHEAP = ("central", "local")
PLANS = {
    "error": ("count", {"n": 2000, "epsilon": 1.0, "models": CHEAP}),
    "epsilon": ("count", {"n": 2000, "error": 9.0, "models": CHEAP}),
    "users": ("mean", {"error": 0.02, "epsilon": 1.0, "upper": 5, "models": CHEAP}),
    "liars": ("sum", {"n": 2000, "epsilon": 1.0, "upper": 5, "models": CHEAP, "liars": 0.02}),
    "unknown": ("variance", {"n": 2000, "epsilon": 1.0, "lower": 0, "upper": 9, "models": "local", "liars": 0.02}),
    "bins": ("histogram", {"n": 2000, "epsilon": 1.0, "k": 4, "models": "local"}),
    "live": ("count", {"n": 2000, "epsilon": 1.0, "models": "local", "local_epsilon": 2.0}),
}  # fmt: skip


@pytest.fixture(scope="module")
def plans():
    return {name: sdp.plan(task, delta=1e-6, **given) for name, (task, given) in PLANS.items()}


def read_number(text):
    return float(text.replace(",", "").rstrip(" %"))


@pytest.mark.parametrize("floor", [1.0, 3.0, 9.0])
def test_guesses_are_rounded_up(floor):
    """73.11 % of right guesses are not "at most 73.1 %", nor are all but 0.01 % of them 100 %."""
    asked = {"n": 2000, "epsilon": 1.0, "delta": 1e-6, "models": "local"}
    plan = sdp.plan("count", **asked | {"epsilon": floor}, local_epsilon=floor)
    right = 1 / (1 + math.exp(-plan.chosen.local_floor.epsilon))
    shown = _cells(plan, plan.chosen)["guess"]
    assert right <= plan.chosen.guess <= right + 1e-14
    assert shown == {1.0: "73.2 %", 3.0: "95.3 %", 9.0: "99.99 %"}[floor]
    assert "somebody who thought yes and no equally likely" in " ".join(str(plan).split())


@pytest.mark.parametrize("name", PLANS)
def test_every_cell_is_a_number_of_its_row(plans, name):
    plan = plans[name]
    able = [row for row in plan.rows if row.available]
    assert able
    for row in able:
        cells = _cells(plan, row)
        assert (cells["protocol"], cells["model"]) == (row.protocol, row.model.value)
        assert read_number(cells["RMSE"]) == pytest.approx(row.rmse, rel=6e-3)
        assert ("epsilon" in cells) == (name == "epsilon")
        assert ("n" in cells) == (name == "users")
        assert ("liars" in cells) == (plan.liars is not None)
        assert {"messages", "bits"} <= set(cells) or name == "live"
        if name == "epsilon":
            shown = float(cells["epsilon"])
            assert row.guarantee.epsilon <= shown <= row.guarantee.epsilon * 1.002
            assert len(cells["epsilon"].replace(".", "").lstrip("0")) <= 4
        if name == "users":
            assert read_number(cells["n"]) == row.n
        if row.local_floor is not None:
            shown = float(cells["local"])
            assert row.local_floor.epsilon <= shown <= row.local_floor.epsilon * 1.002
        else:
            assert cells["local"] == "-"
        if name == "live":
            assert read_number(cells["bytes"]) == pytest.approx(row.bytes_per_report, rel=6e-3)
            assert read_number(cells["influence"]) == pytest.approx(row.influence, rel=6e-3)
            assert 100 * row.guess <= read_number(cells["guess"]) <= 100 * row.guess + 0.1
        elif row.messages_per_user is not None:
            assert read_number(cells["messages"]) == pytest.approx(row.messages_per_user, rel=6e-3)
            assert read_number(cells["bits"]) == pytest.approx(row.bits_per_user, rel=6e-3)
    lines = str(plan).splitlines()
    assert all(len(line) <= 80 for line in lines)
    (first,) = [place for place, line in enumerate(lines) if line.startswith("  protocol")]
    shown = lines[first + 1 : first + 1 + len(able)]
    assert [row.protocol for row in able] == [line.lstrip("> ").split()[0] for line in shown]
    marked = [line for line in shown if line.startswith("> ")]
    assert len(marked) == 1
    assert plan.chosen.protocol in marked[0]


def test_lies_have_a_bound_where_one_is_known(plans):
    liars, none, unknown = plans["liars"], plans["error"], plans["unknown"]
    for row in (row for row in liars.rows if row.available):
        influence = 1.0 if row.model is sdp.Model.CENTRAL else row.influence
        assert liars.bias(row) == pytest.approx(40 * influence * 5)
        assert liars.bias(replace(row, n=None)) is None
    assert none.bias(none.chosen) is None
    assert unknown.bias(unknown.chosen) is None
    assert unknown.tell_bias(unknown.chosen) == "-"
    told = " ".join(str(unknown).split())
    assert (
        "Liars: by how much 2 % of the people can move it if their reports lie, at most; -: no"
        in told
    )
    assert "no bound is known" not in str(liars)
    local = replace(liars.chosen, model=sdp.Model.LOCAL, measured=None)
    assert local.influence is None
    assert liars.bias(local) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.012345, "0.0123"), (12.36, "12.4"), (999.4, "999"), (999.5, "1,000"),
     (123456.7, "123,457"), (9_999_999.0, "9,999,999"), (1e7, "1e+07"), (2.5e9, "2.5e+09")],
)  # fmt: skip
def test_numbers_are_short(value, text):
    assert _shorten(value) == text


@pytest.mark.parametrize(
    ("bound", "text"),
    [(None, "-"), (0.012341, "0.0124"), (12.31, "12.4"), (1.0000000000000002, "1"), (998.1, "999"),
     (999.0, "999"), (999.1, "1,000"), (123456.1, "123,457"), (9_999_998.5, "9,999,999"), (1e7, "1e+07"),
     (2.501e9, "2.51e+09"), (math.inf, "inf")],
)  # fmt: skip
def test_bounds_are_short_and_rounded_up(bound, text):
    assert shorten_up(bound) == text


def test_a_verdict_names_what_is_better_on_a_file(plans):
    plan = plans["error"]
    chosen = f"> chosen: {plan.chosen.protocol} ({plan.chosen.model.value})"
    other = next(row for row in plan.rows if row.protocol != plan.chosen.protocol)
    assert (
        _verdict(replace(plan, on_file=None))
        == _verdict(replace(plan, on_file=plan.chosen))
        == chosen
    )
    assert _verdict(replace(plan, on_file=other)).endswith(
        f"where messages cost nothing: {other.protocol}"
    )
    assert _verdict(replace(plan, chosen=None)) == ""


def test_a_plan_without_a_delta_hints_at_one():
    with pytest.raises(UnsupportedError, match=r"far below 1/n, such as \d") as told:
        sdp.plan("count", n=10_000, epsilon=1.0)
    assert 0 < float(re.search(r"such as (\S+)", str(told.value)).group(1)) < 1e-4
    with pytest.raises(UnsupportedError, match=r"far below 1/n$"):
        sdp.plan("mean", error=0.1, epsilon=1.0, upper=1)


def test_wide_tables_keep_to_80_columns():
    plan = sdp.plan("mean", n=5000, lower=0, upper=120, error=0.5, delta=1e-7)
    lines = str(plan).splitlines()
    assert max(map(len, lines)) <= 80
    header = next(line for line in lines if "protocol" in line)
    assert header.split()[-3:] == ["messages", "bits", "local"]


def test_a_misspelled_question_is_named_before_what_else_is_missing():
    with pytest.raises(
        sdp.ParameterError, match=r"task='men' must be one of .*did you mean mean\?"
    ):
        sdp.plan("men", n=100, epsilon=1.0)


def test_no_picture_of_nothing(plans, tmp_path):
    plan = sdp.plan("count", n=100_000, error=1e-3, delta=1e-6, models="local")
    with pytest.raises(UnsupportedError, match="no protocol fits: "):
        plot_plan(plan, tmp_path / "plan.svg")
    assert list(tmp_path.iterdir()) == []


def test_a_curator_has_the_smallest_error_of_its_mechanisms():
    task = Histogram(domain=sdp.Categories(k=9))
    plan = sdp.plan(task, n=500, epsilon=1.0, delta=1e-6, models="central")
    found = curator_error(task, n=500, epsilon=1.0)
    able = [row for row in plan.rows if row.available]
    assert found == pytest.approx(min(row.rmse for row in able if row.guarantee.delta == 0))
    assert (
        curator_error(
            sdp.tasks.Words(domain=sdp.Texts(alphabet="letters", max_length=3)), n=500, epsilon=1.0
        )
        is None
    )


def test_rounds_are_remarked_where_there_is_a_shuffler():
    given = {"n": 2000, "epsilon": 1.0, "delta": 1e-6, "lower": 0, "upper": 9}
    assert sdp.plan("median", models="local", **given).remarks == ()


def test_lies_that_can_make_it_anything_are_called_any(plans):
    plan = plans["liars"]
    row = next(row for row in plan.rows if row.available and row.model is sdp.Model.LOCAL)
    everything = 2000 * 5
    for share, text in ((0.001, shorten_up(plan.bias(row) / 20)), (1.0, "any")):
        assert replace(plan, liars=share).tell_bias(row) == text
    assert replace(plan, liars=1.0).bias(row) >= everything
    curator = next(row for row in plan.rows if row.available and row.model is sdp.Model.CENTRAL)
    assert replace(plan, liars=0.5).tell_bias(curator) == "5,000"
