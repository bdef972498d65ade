"""Every command has help with an example that runs, flags without a type, and a `--quiet` that is quiet."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from commands import commands
from shuffledp.cli import COMMANDS, GROUPS, app

LEAVES = {
    name.removeprefix("shuffledp "): command
    for name, command in commands().items()
    if not hasattr(command, "list_commands")
}
SURVEY = 'epsilon = 1.0\ndelta = 1e-8\n[questions.home]\ntask = "count"\n'
RUNNING = {
    "serve", "shuffler", "analyzer", "report", "collection status", "collection close", "collection issue",
    "collection clock",
}  # fmt: skip
"""Commands that are servers, or talk to one."""
LONG = {"lab", "collection rehearse"}
ASKING = {"survey new"}
SILENT = {
    "randomize", "tally", "ledger verify", "ledger budget", "collection new", "collection check",
    "collection forget", "collection prune", "collection privacy",
}  # fmt: skip
"""Their result is a file, or that nothing is wrong."""


def example(name):
    """The words of the example in the help of a command."""
    text = LEAVES[name].help.replace("\\\n", " ")
    (line,) = re.findall(rf"^ *\$ shuffledp ({name}\b.*)$", text, re.MULTILINE)
    return shlex.split(line.partition(" > ")[0])


@pytest.mark.parametrize("name", LEAVES)
def test_flags_have_no_type_and_the_example_is_shown(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    shown = CliRunner().invoke(app, [*name.split(), "--help"]).stdout
    assert "bool" not in shown
    assert f"$ shuffledp {name}" in shown
    assert "--quiet" in shown


@pytest.mark.parametrize("name", LEAVES)
def test_the_example_can_be_parsed(name):
    words = example(name)[len(name.split()) :]
    with LEAVES[name].make_context(name, words) as context:
        assert context.params


@pytest.fixture
def place(shuffledp, tmp_path, people):
    """A folder with all that examples are about."""
    lines = people.read_text().replace("true", "1").replace("false", "0")
    people.write_text(lines)
    (tmp_path / "survey.toml").write_text(SURVEY)
    paid = ("--ledger", "ledger.json", "--budget-epsilon", "3", "--budget-delta", "1e-6")
    for words in (
        ["collection", "new", "survey.toml", "--people", "2000"],
        ["run", "count", "people.csv", "--column", "home", "--epsilon", "1", "--delta", "1e-8", *paid],
    ):  # fmt: skip
        assert shuffledp(*words).exit_code == 0
    for name in ("randomize", "tally"):
        assert shuffledp(*example(name)).exit_code == 0
    return tmp_path


WRITTEN = {
    "randomize": "messages.parquet",
    "tally": "tally.json",
    "collection new": "survey",
    "collection keys": "analyzer",
    "collection page": "site",
    "collection tokens": "tokens.txt",
}


def clear(place, name):
    """Move what an example wrote out of its way."""
    written = place / WRITTEN.get(name, "nothing")
    if written.exists():
        written.rename(place / f"{written.name}.{len(list(place.iterdir()))}")


TRIED = sorted(LEAVES.keys() - RUNNING - LONG - ASKING)


def test_examples_run_and_quiet_is_quiet(shuffledp, place):
    for name in TRIED:
        clear(place, name)
        loud = shuffledp(*example(name))
        assert loud.exit_code == 0, f"{name}: {loud.output}"
        clear(place, name)
        quiet = shuffledp(*example(name), "--quiet")
        assert quiet.exit_code == 0, f"{name}: {quiet.output}"
        assert quiet.stderr.startswith("NOT PRIVATE" if quiet.stderr else ""), name
        # Lines, not letters: noise decides how many digits a number has.
        assert len(quiet.stdout.splitlines()) <= len(loud.stdout.splitlines()), name
        assert not re.search("Written|picture is|Spent of|What that line", quiet.stdout), name
        if name in SILENT:
            assert loud.stdout != "", name
            assert quiet.stdout == "", name
        elif name != "doctor":
            assert quiet.stdout != "", name


@pytest.mark.parametrize("name", ["collection status", "collection close", "collection clock"])
def test_without_a_shuffler_nothing_else_is_said(shuffledp, place, name):
    result = shuffledp(*example(name))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: the shuffler of survey is not running on this machine\n"


@pytest.mark.parametrize("task", ["count", "survey.toml"])
def test_a_result_in_a_file_is_not_printed_as_well(shuffledp, place, task):
    own = () if task == "survey.toml" else ("--column", "home", "--epsilon", "1", "--delta", "1e-8")
    words = (
        "run",
        task,
        "people.csv",
        *own,
        "--out",
        "r.json",
        "--ledger",
        "ledger.json",
        "--quiet",
    )
    result = shuffledp(*words)
    assert result.exit_code == 0, result.output
    assert result.output == ""
    assert (place / "r.json").exists()


def test_what_must_be_said_is_said(shuffledp, place):
    words = ("--column", "home", "--epsilon", "1", "--delta", "1e-8", "--seed", "1", "--quiet")
    for more in ((), ("--out", "r.json")):
        result = shuffledp("run", "count", "people.csv", *words, *more)
        assert "NOT PRIVATE" in result.output
    assert "error:" in shuffledp("run", "count", "nowhere.csv", *words).stderr


def test_the_laboratory_is_quiet(shuffledp, monkeypatch):
    monkeypatch.setattr("shuffledp.lab.run_lab", lambda *_, **__: ())
    monkeypatch.setattr("shuffledp.lab.write_page", lambda *_, **__: "report/index.html")
    assert "report" in shuffledp("lab", "--quick").stdout
    assert shuffledp("lab", "--quick", "--quiet").output == ""


def test_the_help_has_groups_that_hold_every_command_once(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(COMMANDS)
    shown = CliRunner().invoke(app, ["--help"]).stdout
    places = [shown.index(f"─ {group} ─") for group in GROUPS]
    assert places == sorted(places)
    assert list(GROUPS)[:2] == ["Ask", "Survey people"]


def test_all_bounds_fit_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    asked = ["amplify", "--epsilon0", "1", "--n", "1000", "--delta", "1e-6", "--all"]
    lines = CliRunner().invoke(app, asked).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    top = next(line for line in lines if line.startswith("┏"))
    assert len(top.rpartition("┳")[2]) > 35, "whole references stand in a line"
