"""`shuffledp plan`, as a user types it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app

PNG = b"\x89PNG\r\n\x1a\n"
COUNT = ("plan", "count", "--n", "1e5", "--delta", "1e-6")


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("shuffledp.planner.growth._POINTS", 7)  # of a picture
    return lambda *arguments: CliRunner().invoke(app, [str(word) for word in arguments])


def test_prints_a_table(run):
    result = run(*COUNT, "--epsilon", 1, "--max-messages", 4)
    assert result.exit_code == 0
    assert "\n> correlated_count " in result.output
    assert "split_and_mix (shuffle): 6 messages per user, more than 4" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_json_and_nothing_else(run):
    result = run(*COUNT, "--epsilon", 1, "--json", "--model", "shuffle, local", "--max-bits", 64)
    found = json.loads(result.output)
    assert (found["task"], found["n"], found["epsilon"]) == ("count", 100_000, 1.0)
    assert found["chosen"] == "correlated_count"
    central = [row for row in found["rows"] if row["model"] == "central"]
    assert central
    assert not any(row["available"] for row in central)
    rows = {(row["protocol"], row["model"]): row for row in found["rows"]}
    assert rows["rr", "local"]["rmse"] == pytest.approx(303.4, rel=1e-3)
    assert rows["rr", "local"]["local_floor"] == 1.0


def test_which_epsilon(run):
    common = ("--delta", "1e-8", "--model", "local", "--json")
    result = run("plan", "mean", "--error", "0.01", "--n", "1e5", *common)
    found = json.loads(result.output)
    assert found["error"] == 0.01
    assert found["epsilon"] == pytest.approx(0.3149, rel=2e-3)


def test_how_many_people(run):
    options = ("--epsilon", 1, "--delta", 0, "--model", "central", "--json")
    found = json.loads(run("plan", "mean", "--error", "0.01", "--upper", 10, *options).output)
    assert found["n"] == 1415


def test_reals(run):
    grid = ("--lower", "-1.5", "--upper", "1.5", "--steps", 30, "--model", "local")
    result = run("plan", "sum", "--n", 1000, "--epsilon", 1, "--delta", 0, *grid)
    assert "reals in [-1.5, 1.5] on 30 steps" in result.output


@pytest.mark.parametrize("name", ["plan.png", "folder/plan.svg"])
def test_plot(run, tmp_path, name):
    options = ("--epsilon", 1, "--model", "local,central", "--plot", name)
    result = run("plan", "sum", "--n", 1000, "--delta", 0, *options)
    assert result.exit_code == 0, result.output
    drawn = (tmp_path / name).read_bytes()
    assert drawn.startswith(PNG) if name.endswith("png") else b"<svg" in drawn


def test_a_picture_that_exists_is_replaced_only_by_force(run, tmp_path, monkeypatch):
    picture = tmp_path / "plan.png"
    picture.write_bytes(b"precious")
    words = (*COUNT, "--epsilon", 1, "--model", "local", "--plot", "plan.png")
    with monkeypatch.context() as patch:
        patch.setattr("shuffledp.plan", None)  # it is refused before anything is computed
        result = run(*words)
    assert result.exit_code == 2
    assert result.stderr == "error: plan.png exists: choose another name, or give --force\n"
    assert picture.read_bytes() == b"precious"
    assert run(*words, "--force").exit_code == 0
    assert picture.read_bytes().startswith(PNG)
    assert list(tmp_path.iterdir()) == [picture]


def test_nothing_available_is_exit_code_2_with_reasons(run):
    hopeless = ("--n", 3, "--k", 4, "--epsilon", 0.1, "--delta", "1e-9", "--model", "shuffle")
    result = run("plan", "histogram", *hopeless, "--max-bits", 1)
    assert result.exit_code == 2
    assert "error: no protocol fits: " in result.stderr
    assert "krr (shuffle)" in result.stderr
    result = run("plan", "histogram", *hopeless, "--max-bits", 1, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["chosen"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "modus", "--n", 10, "--epsilon", 1, "--delta", 0), "task='modus' must be one"),
        (
            ("plan", "uniformity", "--n", 10, "--epsilon", 1, "--delta", 0),
            "see sdp.uniformity_test",
        ),
        (("plan", "count", "--epsilon", 1, "--delta", 0), "n must be given"),
        ((*COUNT, "--epsilon", 1, "--model", "me"), "must be among central, local, shuffle"),
        ((*COUNT, "--epsilon", 1, "--k", "many"), "k='many' must be a whole number"),
        ((*COUNT, "--epsilon", 1, "--plot", "x.bmp"), "x.bmp: a picture ends in one of .pdf, .png"),
        (("plan", "sum", "--n", 9, "--epsilon", 1, "--delta", 0, "--upper", "x"), "upper='x' must"),
    ],
)
def test_mistakes_are_one_sentence(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_as_a_module():
    found = subprocess.run(
        [sys.executable, "-m", "shuffledp", "--version"], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("shuffledp ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["words", "--alphabet", "letters", "--max-length", "4"], "hashed_prefixes"),
        (["quantiles", "--lower", "0", "--upper", "15", "--at", "0.9"], "geometric_tree"),
        (["bins", "--edges", "0,18,65"], "2 bins from 0 to 65"),
    ],
)
def test_every_task_can_be_planned(run, options, said):
    result = run("plan", *options, "--n", "20000", "--epsilon", "1", "--delta", "1e-6")
    assert result.exit_code == 0
    assert said in result.output


def test_rows_of_people(run):
    """n is that of people; of rows, a person's rows add up to as much as their number allows."""
    asked = ("--n", "1e4", "--epsilon", 1, "--delta", "1e-6", "--model", "central")
    people = ("--person", "who")
    same = [run("plan", "mean", "--upper", 9, *asked, *more, "--json") for more in ((), people)]
    plain, reduced = (json.loads(each.output)["rows"] for each in same)
    assert plain == reduced
    rows = run("plan", "count", *asked, *people, "--of", "rows", "--max-rows", 5)
    assert rows.exit_code == 0, rows.output
    assert "at most 5 of each person" in " ".join(rows.output.split())
    record = run("plan", "count", *asked, *people, "--of", "rows", "--max-rows", 5, "--json")
    total = run("plan", "sum", "--lower", 0, "--upper", 5, *asked, "--json")
    assert json.loads(record.output)["rows"] == json.loads(total.output)["rows"]
    wrong = run("plan", "mean", "--upper", 9, *asked, *people, "--of", "rows", "--max-rows", 5)
    assert "a mean of rows is the ratio of two sums" in " ".join(wrong.output.split())
    wrong = run("plan", "median", "--upper", 9, *asked, *people, "--of", "rows", "--max-rows", 5)
    assert wrong.exit_code == 2
    for several, spare in ((("--of", "rows", "--max-rows", 3), 1), (("--max-categories", 3), 3)):
        found = run("plan", "histogram", "--k", 4, *asked, *people, *several)
        assert f"The last {spare} categories stand for the unused places" in " ".join(
            found.output.split()
        )
        record = run("plan", "histogram", "--k", 4, *asked, *people, *several, "--json")
        planned = json.loads(record.output)["rows"][0]
        table = {"who": np.repeat(np.arange(200), 3), "way": np.tile([0, 1, 3], 200)}
        given = {"of": "rows", "max_rows": 3} if spare == 1 else {"max_categories": 3}
        answer = sdp.ask(
            table,
            "histogram",
            column="way",
            k=4,
            person="who",
            epsilon=1.0,
            model="central",
            **given,
        )
        assert answer.protocol.name == planned["protocol"]
        assert answer.estimate.stderr[0] == pytest.approx(planned["rmse"], rel=1e-6)
    assert "reduce needs person" in run("plan", "sum", *asked, "--reduce", "sum").output
