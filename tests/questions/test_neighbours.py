"""One person's value decides nothing but noise: every public path, with neighbours that differ in one value.

What `error` and `drop` reveal is no noise, and said to be not private: they are left out here, and
docs/sharp-edges.md lists them.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from neighbours import (
    CASES,
    INPUTS,
    MODELS,
    REDUCED,
    hide_numbers,
    list_values,
    mask,
    observe,
    replace_one,
    replace_rows,
)
from shuffledp.cli import app
from shuffledp.engine.formats import find_files
from support import first

ANSWERED = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def ask(case, data, model, policy, engine=None):
    grouped = {} if case.groups is None else {"by": "g", "groups": case.groups}
    column = None if isinstance(data, list) else "v"
    return lambda: sdp.ask(
        data,
        case.task,
        column=column,
        epsilon=2.0,
        model=model,
        on_invalid=policy,
        engine=engine,
        rng=sdp.SeededWords(1),
        **MODELS[model],
        **grouped,
        **case.options,
    )


def walk(case, kind, model, folder, engine=None, most=None):
    """All neighbours of this case in this kind of input: how many, and which ones look different."""
    if kind == "list" and case.groups is not None:
        return 0, []
    make, looked, different = INPUTS[kind], 0, []
    for policy, values in case.policies():
        first = None
        for value in [case.base[0], *list_values(case, kind, values)[:most]]:
            data = make(replace_one(case, value), folder)
            seen = observe(ask(case, data, model, policy, engine), case.task)
            first = seen if first is None else first
            looked += 1
            if seen != first:
                different.append((policy, value, first, seen))
    return looked, different


@ANSWERED
@pytest.mark.parametrize("kind", ["list", "pandas object", "csv", "json lines", "polars"])
def test_one_value_decides_nothing_but_noise(case, kind, tmp_path):
    """A few of the neighbours; `make test-all` walks all of them."""
    model = "central" if case.task == "words" else "shuffle"
    _, different = walk(case, kind, model, tmp_path, most=2)
    assert not different


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@ANSWERED
def test_every_neighbour(case, model, tmp_path, record_property):
    looked, different = 0, []
    for kind in INPUTS:
        engines = ("duckdb", "memory") if kind in ("csv", "json lines", "parquet") else (None,)
        for engine in engines:
            more, wrong = walk(case, kind, model, tmp_path, engine)
            looked += more
            different += wrong
    record_property("looked", looked)
    assert not different
    assert looked > 15


@pytest.mark.slow
@ANSWERED
def test_spark(case, tmp_path):
    if case.task == "words":
        pytest.skip("three hundred people and a sketch take long on Spark")
    for kind in ("csv", "parquet"):
        looked, different = walk(case, kind, "shuffle", tmp_path, "spark", most=3)
        assert looked
        assert not different


def walk_rows(case, kind, model, folder):
    """What is seen of a person's rows, whatever they are."""
    promise = {"epsilon": 90.0} if "auto" in case.options.values() else {"epsilon": 2.0}
    for mine in ((case.base[0],) * 2, *case.rows):
        data = INPUTS[kind](replace_rows(case, mine), folder)
        yield (
            mine,
            observe(
                lambda data=data: sdp.ask(
                    data,
                    case.task,
                    column="v",
                    person="who",
                    model=model,
                    on_invalid=case.policy,
                    rng=sdp.SeededWords(1),
                    **promise,
                    **MODELS[model],
                    **case.options,
                ),
                case.task,
            ),
        )


@pytest.mark.parametrize(
    ("kind", "model"),
    first(
        [("dict", "central"), ("csv", "central"), ("json lines", "central"), ("dict", "shuffle")]
    ),
)
@pytest.mark.parametrize("case", REDUCED, ids=lambda case: case.name)
def test_the_rows_of_a_person_decide_nothing_but_noise(case, kind, model, tmp_path):
    """One row, none that is valid, many: n is that of people, whatever the rows say."""
    (_, usual), *others = walk_rows(case, kind, model, tmp_path)
    assert usual[0] == "answer"
    assert [mine for mine, seen in others if seen != usual] == []


def test_rows_that_are_refused_are_told(tmp_path):
    """The walk can fail: what `error` does is seen."""
    case = next(case for case in REDUCED if case.name == "sum or nothing")
    (_, usual), *others = walk_rows(replace(case, policy="error"), "dict", "central", tmp_path)
    told = [mine for mine, seen in others if seen != usual]
    assert told == [(None,), ("", 3), ("zzz",), (99, None)]


FILTERS = {
    "w = 'b'": ("w", ("b", "", None, 5)),
    "w like 'b%'": ("w", ("b", None, 5)),
    "f > 15": ("f", (10, "abc", None, 1e300)),
    "f > v": ("f", ("2024-01-01", None)),
    "day >= '2024-02-01'": ("day", ("2024-02-01", "soon", None)),
}


@pytest.mark.parametrize("kind", ["dict", "csv"])
@pytest.mark.parametrize("where", FILTERS)
def test_whom_a_filter_takes_under_a_ledger_decides_nothing_but_noise(where, kind, tmp_path):
    column, values = FILTERS[where]
    table = {"v": [1, 2, 5] * 20, "w": ["a", "b"] * 30, "f": [10, 20] * 30}
    table["day"] = ["2024-01-05", "2024-03-01"] * 30
    seen = []
    for place, value in enumerate((table[column][7], *values)):
        table[column] = [*table[column][:7], value, *table[column][8:]]
        data = INPUTS[kind](table, tmp_path)
        paid = {
            "ledger": tmp_path / f"{place}.json",
            "budget": sdp.ledger.Budget(epsilon=9, delta=0),
        }
        asked = {"column": "v", "lower": 0, "upper": 9, "epsilon": 1.0, "model": "central"}
        seen.append(
            observe(
                lambda data=data, paid=paid, asked=asked: sdp.ask(
                    data, "sum", where=where, **paid, **asked
                ),
                "sum",
            )
        )
    assert seen[0][0] == "answer"
    assert all(each == seen[0] for each in seen)


UNUSUAL = (
    10**5000,
    -(10**5000),
    np.timedelta64(3, "D"),
    np.timedelta64(3, "M"),
    np.timedelta64("NaT"),
    "\u0663",  # an Arabic 3, a number for Python
    "\uff13",
    "1_000",
    "9" * 20_000,
)


@pytest.mark.parametrize("task", ["sum", "quantiles", "count"])
def test_values_that_programs_seldom_meet_decide_nothing_but_noise(task, tmp_path):
    """Huge integers, durations of NumPy, digits of other scripts: no value of a list stops a run by itself."""
    ends = {} if task == "count" else {"lower": 0, "upper": 9, "on_invalid": "clamp,drop"}
    asked = {"epsilon": 1.0, "model": "central", **({"on_invalid": "drop"} | ends)}
    seen = []
    for place, value in enumerate((1, *UNUSUAL)):
        paid = {
            "ledger": tmp_path / f"{place}.json",
            "budget": sdp.ledger.Budget(epsilon=9, delta=0),
        }
        data = [*([1, 0, 1] * 20), value]
        seen.append(
            observe(lambda data=data, paid=paid: sdp.ask(data, task, **paid, **asked), task)
        )
    assert seen[0][0] == "answer"
    assert all(each == seen[0] for each in seen)


@pytest.mark.parametrize(
    ("header", "others"), [("v;a, b, c", ("x, y, z", "x")), ("v;a, b;w", ("x,y", "x;y"))]
)
def test_what_the_first_person_writes_does_not_decide_what_separates_columns(
    header, others, tmp_path
):
    path, seen = tmp_path / "t.csv", []
    for value in others:
        path.write_text(f"{header}\n3;{value}\n" + "1;x\n" * 60)
        (file,) = find_files(path)
        seen.append((file.columns, file.delimiter))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_numbers_of_very_many_digits_in_json_decide_nothing_but_noise(suffix, tmp_path):
    path, seen = tmp_path / f"t.{suffix}", []
    for value in ("3", "9" * 5_000, "-" + "9" * 5_000, "1e400"):
        path.write_text(f'{{"v": {value}}}\n' + '{"v": 1}\n' * 60)
        asked = {"lower": 0, "upper": 9, "epsilon": 1.0, "on_invalid": "clamp", "model": "central"}
        seen.append(
            observe(
                lambda asked=asked: sdp.ask(path, "sum", rng=sdp.SeededWords(1), **asked), "sum"
            )
        )
    assert seen[0][0] == "answer"
    assert all(each == seen[0] for each in seen)


SURVEY = """epsilon = 2.0
model = "local"
on_invalid = "clamp,other"
[questions.v]
task = "{task}"
lower = {lower}
upper = {upper}
[questions.g]
task = "histogram"
categories = ["x", "y", "other"]
"""


SURVEYED = [case for case in CASES if case.name in ("quantiles", "quantiles-real")]


@pytest.mark.parametrize("kind", ["dict", "object array", "csv"])
@pytest.mark.parametrize("case", SURVEYED, ids=lambda case: case.name)
def test_surveys(case, kind, tmp_path):
    survey, seen = sdp.Survey.loads(SURVEY.format(task=case.task, **case.options)), []
    values = [value for _, some in case.policies() for value in list_values(case, kind, some)]
    for value in [case.base[0], *values[:: 2 if kind == "dict" else 6]]:
        data = INPUTS[kind](replace_one(case, value), tmp_path)
        seen.append(
            observe(lambda data=data: sdp.ask(data, survey, rng=sdp.SeededWords(1)), case.task)
        )
    assert len(seen) > 1
    assert all(each == seen[0] for each in seen)
    assert seen[0][0] == "answer"


def say(words):
    """What a command prints and how it ends."""
    result = CliRunner().invoke(app, [*map(str, words)])
    try:
        said = mask(json.loads(result.stdout), "")
    except ValueError:
        said = hide_numbers(result.stdout)
    return result.exit_code, said, hide_numbers(result.stderr)


@pytest.mark.parametrize("kind", ["csv"])
@pytest.mark.parametrize("command", ["run", "randomize", "survey"])
@pytest.mark.parametrize("case", SURVEYED, ids=lambda case: case.name)
def test_commands(case, command, kind, tmp_path, monkeypatch):
    """The same output besides noise, the same errors and the same exit status."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(SURVEY.format(task=case.task, **case.options))
    ends = ["--lower", case.options["lower"], "--upper", case.options["upper"]]
    common = ["--column", "v", *ends, "--epsilon", 2, "--delta", 1e-2, "--on-invalid", "clamp"]
    seen = []
    values = [value for _, some in case.policies() for value in list_values(case, kind, some)]
    for value in [case.base[0], *values[3::8]]:
        path = INPUTS[kind](replace_one(case, value), tmp_path)
        words = {
            "run": ["run", case.task, path, *common],
            "randomize": ["randomize", path, "--task", case.task, *common, "--out", "m.parquet"],
            "survey": ["run", "s.toml", path],
        }[command]
        force = ["--force"] if command == "randomize" else []
        seen.append([say([*words, *force, *more, "--seed", 1]) for more in ((), ("--json",))])
    assert len(seen) > 1
    assert all(each == seen[0] for each in seen)
    assert seen[0][0][0] == 0


def test_a_value_that_is_refused_is_told():
    """The walk can fail: what `error` and `drop` do is seen."""
    case = next(case for case in CASES if case.name == "quantiles")
    fine = observe(ask(case, list(case.base), "central", "drop"), case.task)
    for policy, value in (("error", 11), ("drop", 11), ("drop", 3.5), ("clamp", "eleven")):
        values = replace_one(case, value)["v"]
        assert observe(ask(case, values, "central", policy), case.task) != fine


def test_a_date_in_a_filter_that_cannot_be_read_stops_under_every_policy():
    """As docs/sharp-edges.md says; other values that a filter cannot read are unknown, and decide nothing."""
    days = ["2024-01-05", "2024-02-01"] * 30

    def seen(value, policy):
        data = {"v": [1, 2] * 30, "day": [*days[:-1], value]}
        asked = {"column": "v", "lower": 0, "upper": 9, "epsilon": 1.0, "model": "central"}
        asked |= {"where": "day >= '2024-02-01'", "where_public": True, "on_invalid": policy}
        return observe(lambda: sdp.ask(data, "sum", **asked, rng=sdp.SeededWords(1)), "sum")

    for policy in ("error", "drop"):
        assert seen("2024-02-01", policy)[0] == "answer"
        for value in ("01.02.2024", "1/2/2024"):
            assert seen(value, policy)[0] == "error"
