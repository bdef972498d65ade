"""The command line, as a user types it."""

import re
import subprocess
import sys

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import COMMANDS, app

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *arguments: CliRunner().invoke(app, [str(word) for word in arguments])


def test_version(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"shuffledp {sdp.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["demo", "--help"]])
def test_help(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_no_arguments_show_the_help(run):
    assert "demo" in run().output


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['shuffledp', '--help']\n"
        "from shuffledp.cli import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "print(*sorted({'scipy', 'matplotlib'} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stderr.strip() == ""


def test_the_help_lists_every_command_with_its_own_first_line(run, monkeypatch):
    """The lines are known without loading the commands, so they must be kept equal."""
    monkeypatch.setenv("COLUMNS", "200")
    group = get_command(app)
    listed = run("--help").output
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        assert command.name == name
        assert COMMANDS.get(name, command.help) == command.help.splitlines()[0]
        assert re.search(rf"{name} +{re.escape(command.help.splitlines()[0])}", listed), name
        assert run(name, "--help").exit_code == 0


def test_the_help_loads_no_command():
    code = (
        "import sys; sys.argv = ['shuffledp', '--help']\n"
        "from shuffledp.cli import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "print(*(name for name in sys.modules if name.startswith('shuffledp.cli.')), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stderr.split() == []


def test_an_unknown_command_is_an_error(run):
    result = run("abacus")
    assert result.exit_code == 2
    assert "abacus" in result.output


class TestDemo:
    def test_prints_a_table_and_saves_a_picture(self, run, tmp_path):
        result = run("demo", "--n", 3000, "--out", tmp_path / "new" / "folder")
        assert result.exit_code == 0, result.output
        for word in (
            "true",
            "central",
            "local",
            "95% interval",
            "ferry",
            "3,000 people",
            "a shuffler",
        ):
            assert word in result.output
        picture = tmp_path / "new" / "folder" / "histogram.png"
        assert picture.read_bytes().startswith(PNG)
        assert picture.name in result.output.replace("\n", "")

    def test_truth_is_the_same_every_time_and_noise_is_not(self, run):
        first, second = (rows(run("demo", "--n", 3000).output) for _ in range(2))
        assert [row[1] for row in first] == [row[1] for row in second]
        assert sum(int(row[1].replace(",", "")) for row in first[2:]) == 3000
        assert [row[4] for row in first] != [row[4] for row in second]

    def test_seed_makes_the_noise_reproducible(self, run):
        first, second, third = (
            rows(run("demo", "--n", 3000, "--seed", seed).output) for seed in (5, 5, 6)
        )
        assert first == second
        assert first != third

    def test_table_shows_what_the_library_computes(self, run):
        rng, common = sdp.SeededWords(9), {"n": 4000, "epsilon": 0.5, "delta": 1e-8}
        people = sdp.samples.survey(4000)
        total, mean = int(people.home.sum()), float(people.minutes.mean())
        curators = (
            sdp.mechanisms.geometric.make(sensitivity=1, epsilon=0.5),
            sdp.mechanisms.laplace.make(sensitivity=120 / 4000, epsilon=0.5),
            sdp.mechanisms.geometric.make(k=10, sensitivity=2, epsilon=0.5),
        )
        shuffled = (
            sdp.count(**common),
            sdp.mean(lower=0, upper=120, **common),
            sdp.histogram(k=10, **common),
        )
        local = (
            sdp.protocols.rr.make_local(epsilon=0.5),
            sdp.protocols.hybrid.make_local(lower=0, upper=120, steps=120, epsilon=0.5),
            sdp.protocols.krr.make_local(k=10, epsilon=0.5),
        )
        columns = (people.home, people.minutes, people.way.codes)
        exact = (total, mean, people.way.counts)
        expected = [[], [], []]
        for place, values in enumerate(columns):
            expected[0].append(curators[place].release(exact[place], rng).value)
            expected[1].append(sdp.run(shuffled[place], values, rng).value)
            expected[2].append(sdp.run(local[place], values, rng).value)
        output = run("demo", "--n", 4000, "--seed", 9, "--epsilon", 0.5).output
        shown = rows(output)
        assert [row[0] for row in shown] == ["home: yes", "minutes", *people.way.domain.labels]
        for column, answers in enumerate(expected, start=2):
            values = [float(row[column].split(" ± ")[0].replace(",", "")) for row in shown]
            flat = np.concatenate([np.atleast_1d(answer) for answer in answers])
            decimals = [len(row[column].split(" ± ")[0].partition(".")[2]) for row in shown]
            assert values == [
                pytest.approx(value, abs=0.51 * 10.0**-places)
                for value, places in zip(flat, decimals, strict=True)
            ]
        assert all(protocol.name in output for protocol in shuffled)

    def test_local_bars_are_the_long_ones(self, run):
        """One look shows why the shuffle model exists."""
        lines = run("demo", "--n", 100_000, "--seed", 1).output.splitlines()
        bars = {
            line.split()[0]: line.count("█") for line in lines if line.startswith(("a ", "nobody"))
        }
        assert bars["nobody"] > 40
        assert bars["a"] < 4

    def test_fits_into_80_columns(self, run, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        output = run("demo", "--n", 100_000).output
        assert max(map(len, output.splitlines())) <= 80
        assert "…" not in output

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--epsilon", "-1"], "epsilon=-1.0 must be > 0"),
            (["--epsilon", "nan"], "epsilon=nan must be finite"),
            (["--n", "0"], "n=0 must be >= 1"),
            (["--seed", "-3"], "seed=-3 must be >= 0"),
        ],
    )
    def test_bad_parameters_are_one_sentence(self, run, arguments, message):
        result = run("demo", *arguments)
        assert result.exit_code == 2
        assert f"error: {message}" in result.output
        assert "Traceback" not in result.output

    def test_a_folder_that_cannot_be_made_is_one_sentence(self, run, tmp_path):
        (tmp_path / "taken").write_text("a file")
        result = run("demo", "--n", 100, "--out", tmp_path / "taken")
        assert result.exit_code == 2
        assert "error:" in result.output

    def test_missing_matplotlib_says_what_to_install(self, run, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        result = run("demo", "--n", 3000)
        assert result.exit_code == 2
        assert "install the extra shuffledp[plot]" in result.output
        assert "ferry" in result.output, "the table needs no Matplotlib"


def rows(output):
    """The cells of the table's body."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


@pytest.mark.parametrize(
    "words",
    [
        ("amplify", "--epsilon0", "1", "--n", "1000", "--delta", "1e-6"),
        ("calibrate", "--epsilon", "1", "--n", "1000", "--delta", "1e-6"),
        (
            "randomize",
            "x.csv",
            "--task",
            "count",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--out",
            "m.arrow",
        ),
    ],
)
def test_sentences_fit_in_80_columns(shuffledp, tmp_path, words):
    (tmp_path / "x.csv").write_text("x\n" + "1\n0\n" * 100)
    result = shuffledp(*words)
    assert result.exit_code == 0, result.output
    assert "shuffle model" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
