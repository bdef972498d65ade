"""What a shell offers after TAB, as the shell asks for it: through the environment."""

import gzip
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.cli._completion import complete_column, complete_protocol, list_columns

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def offered(monkeypatch, tmp_path):
    """What is offered at the end of a line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text('way,minutes,"of the day",größe\ncar,3,x,y\n')

    def offer(shell, line):
        words = line.split(" ")
        environment = {
            "_SHUFFLEDP_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        result = CliRunner().invoke(app, [], env=environment, prog_name="shuffledp")
        assert result.stderr == ""
        return result.stdout

    return offer


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "wanted", "unwanted"),
    [
        ("shuffledp am", "amplify", "calibrate"),
        ("shuffledp ledger v", "verify", "show"),
        ("shuffledp run hist", "histogram", "count"),
        ("shuffledp run count people.csv --protocol corr", "correlated_count", "correlated_histogram"),
        ("shuffledp run count people.csv --column m", "minutes", "way"),
        ("shuffledp learn people.csv --column w", "way", "minutes"),
        ("shuffledp audit kr", "krr", "zsum"),
        ("shuffledp amplify --randomizer k", "krr", "zsum"),
        ("shuffledp plan hist", "histogram", "count"),
        ("shuffledp run count people.csv --engine s", "spark", "duckdb"),
        ("shuffledp run count people.csv --model l", "local", "central"),
        ("shuffledp doctor --js", "--json", "--quiet"),
    ],
)  # fmt: skip
def test_names_are_offered(offered, shell, line, wanted, unwanted):
    found = offered(shell, line)
    assert wanted in found
    assert unwanted not in found


@pytest.mark.parametrize("shell", SHELLS)
def test_names_with_spaces_can_be_used_as_they_are_inserted(offered, shell):
    found = offered(shell, "shuffledp test people.csv --column of")
    assert ("of\\ the\\ day" if shell == "bash" else "of the day") in found


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_offered_without_loading_it(shell, tmp_path):
    code = (
        "import sys\nfrom shuffledp.cli import app, COMMANDS\n"
        "try: app(prog_name='shuffledp')\nexcept SystemExit: pass\n"
        "loaded = [name for name in sys.modules if name.startswith('shuffledp.cli.')]\n"
        "print(*loaded, file=sys.stderr)"
    )
    environment = {
        **os.environ,
        "_SHUFFLEDP_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "shuffledp ",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "shuffledp ",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert all(name in done.stdout for name in ("run", "doctor", "collection"))
    assert done.stderr.strip() == ""


def test_columns_of_all_kinds_of_files(tmp_path):
    table = pa.table({"a": [1], "b c": ["x"]})
    pq.write_table(table, tmp_path / "t.parquet")
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("a;b c\n1;x\n")
    (tmp_path / "t.jsonl").write_text(json.dumps({"a": 1, "b c": "x"}) + "\n")
    for name in ("t.parquet", "t.csv.gz", "t.jsonl"):
        assert list_columns([str(tmp_path / name)]) == ["a", "b c"]
    assert list_columns([str(tmp_path / "t.p*")]) == ["a", "b c"]
    (tmp_path / "year=2013").mkdir()
    (tmp_path / "year=2013" / "t.csv").write_text("a,b\n1,2\n")
    assert list_columns([str(tmp_path / "year=2013")]) == ["a", "b", "year"]


def test_nothing_goes_wrong(tmp_path, monkeypatch):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "broken.parquet").write_text("nothing")
    (tmp_path / "folder").mkdir()
    for path in (
        "-",
        "nowhere.csv",
        "s3://bucket/x.csv",
        "empty.csv",
        "broken.parquet",
        "folder",
        "[",
        "\0",
    ):
        context = type("Context", (), {"params": {}, "args": [path, str(tmp_path / path)]})()
        assert complete_column(context, "") == []
    monkeypatch.setattr(sdp.protocols, "PROTOCOLS", None)
    assert complete_protocol(type("Context", (), {"params": {}, "args": []})(), "k") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_can_be_shown(shell):
    environment = {"_SHUFFLEDP_COMPLETE": f"source_{shell}"}
    result = CliRunner().invoke(app, [], env=environment, prog_name="shuffledp")
    assert "_SHUFFLEDP_COMPLETE" in result.stdout
