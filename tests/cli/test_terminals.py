"""What commands print and write, on terminals and disks as they are."""

import csv
import errno
import io
import json
import os
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp.cli import _progress
from shuffledp.cli._terminal import say_aside
from shuffledp.core.display import format_number
from shuffledp.engine import stage

COUNT = ("run", "count", "people.csv", "--column", "home", "--epsilon", "1", "--delta", "1e-6")
CITIES = ("run", "histogram", "cities.csv", "--categories", "größe 東京,b", "--epsilon", "1", "--delta", "1e-6")  # fmt: skip


def run_in(folder, encoding, *words):
    """The command in a process of its own, whose terminal has that encoding."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "shuffledp", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)


@pytest.fixture
def cities(tmp_path):
    (tmp_path / "cities.csv").write_text("city\n" + "größe 東京\nb\n" * 100, encoding="utf-8")
    return tmp_path


class TestEncodings:
    def test_a_paid_answer_is_shown(self, cities):
        paid = ("--ledger", "l.json", "--budget-epsilon", "3", "--budget-delta", "1e-5")
        done = run_in(cities, "cp1252", *CITIES, *paid)
        text = done.stdout.decode("cp1252")
        assert done.returncode == 0, done.stderr
        assert "größe \\u6771\\u4eac" in text
        assert "##########" in text, "bars of letters that every terminal has"
        assert "Spent of data set" in text
        (entry,) = sdp.ledger.Ledger(cities / "l.json").entries()
        assert entry.released

    def test_objects_stay_objects(self, cities):
        done = run_in(cities, "cp1252", *CITIES, "--json")
        found = json.loads(done.stdout.decode("cp1252"))
        assert [row["label"] for row in found["estimate"]] == ["größe 東京", "b"]

    @pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("plan", "count", "--n", "100", "--epsilon", "1", "--delta", "1e-6")])  # fmt: skip
    def test_every_text_can_be_printed(self, tmp_path, words):
        done = run_in(tmp_path, "cp1252", *words)
        assert done.returncode == 0, done.stderr

    def test_an_answer_that_cannot_be_drawn_is_shown_all_the_same(
        self, shuffledp, people, monkeypatch
    ):
        def fail(*_, **__):
            raise RuntimeError("no room for a table")

        monkeypatch.setattr("shuffledp.cli._terminal._print_table", fail)
        paid = ("--ledger", "l.json", "--budget-epsilon", "3", "--budget-delta", "1e-5")
        result = shuffledp(*COUNT, *paid)
        assert "95% interval" in result.stderr
        (entry,) = sdp.ledger.Ledger(people.parent / "l.json").entries()
        assert entry.released


class TestResults:
    def test_tables(self, shuffledp, people):
        for name in ("r.csv", "r.tsv", "r.parquet", "r.json"):
            result = shuffledp(*COUNT, "--out", name, "--json")
            assert result.exit_code == 0, result.output
            told = json.loads(result.stdout)["estimate"]
            assert self.read(people.parent / name) == told, name

    def read(self, path):
        if path.suffix == ".json":
            return json.loads(path.read_text())["estimate"]
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            assert json.loads(table.schema.metadata[b"shuffledp"])["task"] == "count"
            return table.to_pylist()
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
        return [{k: v if k == "label" else float(v) for k, v in row.items()} for row in rows]

    @pytest.mark.parametrize("name", ["r.xlsx", "r", "r.txt"])
    def test_other_suffixes_are_refused_before_anything_is_read(self, shuffledp, people, name):
        result = shuffledp(*COUNT, "--out", name)
        assert result.exit_code == 2
        assert "must end in one of .json, .csv, .tsv, .parquet" in result.stderr

    def test_labels_and_digits_beside_huge_numbers(self, shuffledp, tmp_path, monkeypatch):
        (tmp_path / "x.csv").write_text("x\n" + "123456789012345678\n" * 100)
        words = ("run", "sum", "x.csv", "--lower", 0, "--upper", 10**18, "--epsilon", 1, "--delta", "1e-6")  # fmt: skip
        for width in (80, 40):
            monkeypatch.setenv("COLUMNS", str(width))
            result = shuffledp(*words)
            assert result.exit_code == 0, result.output
            assert "│ sum │" in result.stdout
            assert "…" not in result.stdout
        assert format_number(-1.5e300, 0) == "-1.5e+300"


class TestFullDisks:
    def test_the_file_is_named_and_nothing_is_charged(self, shuffledp, people, monkeypatch):
        def fail(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("shuffledp.Answer.write", fail)
        paid = ("--ledger", "l.json", "--budget-epsilon", "3", "--budget-delta", "1e-5")
        result = shuffledp(*COUNT, "--out", "r.json", *paid)
        assert result.exit_code == 2
        assert result.stderr == "error: r.json cannot be written: No space left on device\n"
        assert not (people.parent / "l.json").exists()

    def test_messages_too(self, shuffledp, people, monkeypatch):
        def fail(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("shuffledp.engine.messages._write", fail)
        words = ("--column", "home", "--epsilon", "1", "--delta", "1e-6", "--out", "m.parquet")
        result = shuffledp("randomize", "people.csv", "--task", "count", *words)
        assert result.exit_code == 2
        assert "m.parquet cannot be written: No space left on device" in result.stderr


class TestRaces:
    def test_the_second_run_is_refused_before_it_is_charged(self, shuffledp, people):
        paid = ("--ledger", "l.json", "--budget-epsilon", "3", "--budget-delta", "1e-5")
        with stage([people.parent / "r.json"]):
            for more in ((), ("--force",)):
                result = shuffledp(*COUNT, "--out", "r.json", *paid, *more)
                assert result.exit_code == 2
                assert "r.json is being written by another run" in result.stderr
        assert not (people.parent / "l.json").exists()
        assert shuffledp(*COUNT, "--out", "r.json", *paid).exit_code == 0
        assert {path.name for path in people.parent.iterdir()} >= {"r.json", "l.json"}
        assert not [path for path in people.parent.iterdir() if path.name.startswith(".r.json")]

    def test_a_lock_of_a_run_that_was_killed_does_not_matter(self, tmp_path):
        (tmp_path / ".r.json.lock").touch()
        with stage([tmp_path / "r.json"]) as outputs:
            outputs[tmp_path / "r.json"].write_text("{}")
            outputs.publish()
        assert [path.name for path in tmp_path.iterdir()] == ["r.json"]

    def test_a_lock_that_lost_its_name_is_none(self, tmp_path, monkeypatch):
        import fcntl

        def lock(file, how):
            (tmp_path / ".r.json.lock").unlink()

        monkeypatch.setattr(fcntl, "flock", lock)
        with pytest.raises(sdp.DataError, match="being written"), stage([tmp_path / "r.json"]):
            pass


class TestSentences:
    """No word of Python."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("plan", "count", "--epsilon", "1", "--delta", "1e-6"), "n must be given"),
            (("plan", "count", "--n", "1000", "--epsilon", "1e-300", "--delta", "1e-6"), "epsilon=1e-300 must be >= 1e-100"),
            ((*COUNT[:-3], "1e-300", "--delta", "1e-6"), "epsilon=1e-300 must be >= 1e-100"),
            ((*COUNT, "--on-invalid", "skip"), "--on-invalid='skip' must be one of"),
            (("run", "count", "one.csv", "--epsilon", "1", "--delta", "1e-6"), "n=1 must be larger"),
        ],
    )  # fmt: skip
    def test_errors(self, shuffledp, people, words, message):
        (people.parent / "one.csv").write_text("x\n1\n")
        result = shuffledp(*words)
        assert result.exit_code == 2
        assert message in result.stderr
        for word in ("Error", "None", "['", "on_invalid"):
            assert word not in result.stderr

    def test_one_person_is_enough_in_the_local_model(self, shuffledp, tmp_path):
        (tmp_path / "one.csv").write_text("x\n1\n")
        for task in (
            ("count",),
            ("mean", "--lower", "0", "--upper", "3"),
            ("histogram", "--k", "3"),
        ):
            words = ("run", task[0], "one.csv", *task[1:], "--model", "local", "--epsilon", "1")
            result = shuffledp(*words)
            assert result.exit_code == 0, result.output


class TestWaiting:
    """What takes longer than a second shows that it is at work, to somebody who looks."""

    class Screen(io.StringIO):
        def isatty(self):
            return True

    def wait(self, monkeypatch, screen, seconds=0.0, quiet=False):
        monkeypatch.setattr("sys.stderr", screen)
        monkeypatch.setattr(_progress, "_PATIENCE", seconds)
        monkeypatch.setattr(_progress, "is_quiet", lambda: quiet)
        with _progress.pulse("planning"):
            deadline = time.monotonic() + 10
            while seconds == 0.0 and not screen.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
                if quiet or not screen.isatty():
                    break
        return screen.getvalue()

    def test_a_bar_is_shown(self, monkeypatch):
        monkeypatch.setenv("TERM", "xterm")
        assert "planning" in self.wait(monkeypatch, self.Screen())

    def test_not_if_it_is_short(self, monkeypatch):
        assert self.wait(monkeypatch, self.Screen(), seconds=60.0) == ""

    def test_not_if_quiet(self, monkeypatch):
        assert self.wait(monkeypatch, self.Screen(), quiet=True) == ""

    def test_not_into_a_file(self, monkeypatch):
        assert self.wait(monkeypatch, io.StringIO()) == ""


def test_demo_looks_at_its_folder_first(shuffledp, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setattr("shuffledp.lab.samples.survey", None)
    result = shuffledp("demo", "--n", 100, "--out", "taken/demo")
    assert result.exit_code == 2
    assert "taken is a file" in result.stderr


@pytest.mark.parametrize("command", [["plan"], ["run"], ["run", "--json"]])
def test_a_reader_who_has_seen_enough_is_no_error(tmp_path, command):
    """Nor does the answer, which may have been paid for, come on standard error in its place."""
    (tmp_path / "people.csv").write_text("home\n" + "yes\nno\n" * 500)
    promise = ["--epsilon", "1", "--delta", "1e-6"]
    asked = ["people.csv"] if command[0] == "run" else ["--n", "1000"]
    command = [sys.executable, "-m", "shuffledp", command[0], "count", *asked, *promise, *command[1:]]  # fmt: skip
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path
    )
    os.close(write)
    assert done.stderr == ""
    assert done.returncode in (1, 141)


@pytest.mark.parametrize("terminal", [True, False])
def test_sentences_aside_are_broken_between_words_on_terminals_alone(monkeypatch, terminal):
    shown = io.StringIO()
    shown.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("COLUMNS", "40")
    said = "error: there is no file of that name in the folder where the command was started"
    say_aside(said)
    lines = shown.getvalue().replace("\x1b[0m", "").splitlines()
    assert " ".join(lines) == said
    assert (len(lines) > 1) == terminal
    assert not terminal or max(map(len, lines)) <= 40
