"""Everything that can be wrong with what a user gives: one sentence, exit code 2, nothing left."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.cli._terminal import stage_outputs

COMMON = ("--epsilon", "1", "--delta", "1e-6")
HISTOGRAM = ("run", "histogram", "x.csv", "--categories", "a,b")
MEAN = ("run", "mean", "x.csv", "--column", "x", "--lower", "0", "--upper", "10")


@pytest.fixture
def refused(shuffledp, tmp_path):
    """Runs a command that must fail, and returns its one sentence."""

    def check(*words):
        before = sorted(tmp_path.rglob("*"))
        result = shuffledp(*words)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        return result.stderr

    return check


def error(text):
    assert text.startswith("error: "), text
    assert text.count("\n") == 1, text
    return text


@pytest.fixture
def column(tmp_path):
    return lambda *values, name="x.csv": (tmp_path / name).write_text(
        "x\n" + "".join(f"{value}\n" for value in values), encoding="utf-8"
    )


class TestFiles:
    def test_missing_file(self, refused):
        assert "nowhere.csv" in error(refused("run", "count", "nowhere.csv", *COMMON))

    def test_pattern_that_matches_nothing(self, refused):
        assert "*.csv" in error(refused("run", "count", "*.csv", *COMMON))

    def test_missing_column_lists_the_columns(self, refused, tmp_path):
        (tmp_path / "x.csv").write_text("pet,age\ncat,3\n")
        text = error(refused("run", "count", "x.csv", "--column", "size", *COMMON))
        assert all(name in text for name in ("size", "pet", "age"))

    @pytest.mark.parametrize("content", [b"", b"x\n"])
    def test_empty_file(self, refused, tmp_path, content):
        (tmp_path / "x.csv").write_bytes(content)
        error(refused("run", "count", "x.csv", *COMMON))

    def test_unknown_suffix(self, refused, tmp_path):
        (tmp_path / "x.doc").write_text("x\n1\n")
        assert "x.doc" in error(refused("run", "count", "x.doc", *COMMON))

    def test_folder(self, refused, tmp_path):
        (tmp_path / "x.csv").mkdir()
        error(refused("run", "count", "x.csv", *COMMON))

    @pytest.mark.parametrize("keep", [0.0, 0.5, 0.95])
    def test_truncated_parquet(self, refused, tmp_path, keep):
        path = parquet(tmp_path, [0, 1] * 5000)
        content = path.read_bytes()
        path.write_bytes(content[: int(keep * len(content))])
        assert "x.parquet" in error(refused("run", "count", "x.parquet", *COMMON))

    def test_parquet_with_damaged_pages(self, refused, tmp_path):
        path = parquet(tmp_path, list(range(100)) * 100)
        content = bytearray(path.read_bytes())
        content[100:400] = bytes(300)
        path.write_bytes(content)
        error(refused("run", "sum", "x.parquet", "--lower", 0, "--upper", 100, *COMMON))

    def test_not_utf8(self, refused, tmp_path):
        (tmp_path / "x.csv").write_bytes(b"x\n" + b"\xff\xfe\xfa\n" * 50)
        error(refused(*HISTOGRAM, *COMMON))


def parquet(folder, values):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "x.parquet"
    pq.write_table(pa.table({"x": values}), path)
    return path


class TestValues:
    def test_wrong_type(self, refused, tmp_path):
        parquet(tmp_path, ["a", "b"] * 100)
        error(refused("run", "mean", "x.parquet", "--lower", 0, "--upper", 1, *COMMON))
        parquet(tmp_path, [0.5, 1.5] * 100)
        error(refused("run", "count", "x.parquet", *COMMON))

    def test_mixed_types_in_csv(self, refused, column):
        column(*[5] * 200, "seven", 7)
        text = error(refused(*MEAN, *COMMON))
        assert "'seven' in row 201 of x.csv" in text

    @pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
    def test_not_a_finite_number(self, refused, column, value):
        column(*[0.5] * 200, value)
        error(refused(*MEAN, "--steps", 100, *COMMON))

    def test_out_of_range(self, refused, column):
        column(*[5] * 200, 11)
        assert "11" in error(refused(*MEAN, *COMMON))

    def test_reals_where_integers_are_declared(self, refused, column):
        column(*[5] * 200, 5.5)
        words = ("run", "histogram", "x.csv", "--lower", "0", "--upper", "9")
        assert "'5.5' in row 201 of x.csv is not an integer" in error(refused(*words, *COMMON))

    def test_unknown_category(self, refused, column):
        column(*"ab" * 100, "größe 東京")
        assert "größe 東京" in error(refused(*HISTOGRAM, *COMMON))

    def test_huge_label_is_cut_in_the_message(self, refused, column):
        column(*"ab" * 100, "z" * 10_000_000)
        assert len(error(refused(*HISTOGRAM, *COMMON))) < 3000

    def test_huge_category(self, shuffledp, column, tmp_path):
        huge = "z" * 10_000_000
        (tmp_path / "names.txt").write_text(f"a\n{huge}\n")
        column(*"a" * 300, huge)
        words = ("run", "histogram", "x.csv", "--categories-file", "names.txt", *COMMON)
        result = shuffledp(*words)
        assert result.exit_code == 0, result.output[:2000]
        assert len(result.stdout) < 10_000
        page = shuffledp(*words, "--plot", "r.html", "--out", "r.json")
        assert page.exit_code == 0
        assert (tmp_path / "r.html").stat().st_size < 20_000
        assert json.loads((tmp_path / "r.json").read_text())["estimate"][1]["label"] == huge

    def test_line_breaks_in_a_value_stay_in_the_sentence(self, refused, tmp_path):
        (tmp_path / "x.csv").write_text('x\n"a\nb\x1b[31m"\n' + "a\nb\n" * 100)
        assert "\x1b" not in error(refused(*HISTOGRAM, *COMMON))

    def test_too_few_people(self, refused, column):
        column(1)
        error(refused("run", "count", "x.csv", *COMMON))


class TestOptions:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--categories", "a,b,a"), "categories='a' is listed twice"),
            (("--categories", "a,,b"), "is empty (number 2)"),
            (("--categories", ""), "is empty"),
            (("--categories", "a"), "must be at least two"),
            (("--categories", "a,b", "--categories-from-data"), "give one of"),
            (("--categories", "a,b", "--lower", "0", "--upper", "1"), "not both"),
            (("--categories-file", "nowhere.txt"), "nowhere.txt"),
            (("--lower", "3", "--upper", "3"), "upper=3 must be > lower=3"),
            (("--lower", "3", "--upper", "1"), "upper=1 must be > lower=3"),
            (("--lower", "0.5", "--upper", "3"), "whole numbers"),
            (("--lower", "0"), "belong together"),
            (("--lower", "0", "--upper", "1e12"), "at most 10,000,000 bins"),
            (("--categories", "a,b", "--steps", "3"), "a histogram takes no steps"),
            (("--categories", "a,b", "--protocol", "abacus"), "protocol='abacus' must be one of"),
            (("--categories", "a,b", "--protocol", "rr"), "rr answers a count"),
            (("--categories", "a,b", "--engine", "abacus"), "engine='abacus' must be one of"),
            (("--categories", "a,b", "--on-invalid", "other"), "declared category 'other'"),
            (("--categories", "a,b", "--on-invalid", "clamp"), "categories have no ends"),
            (("--categories", "a,b", "--level", "1"), "level=1.0"),
            (("--categories", "a,b", "--honest", "0"), "honest=0.0"),
            (("--categories", "a,b", "--seed", "-1"), "seed=-1 must be >= 0"),
            (("--categories", "a,b", "--model", "local"), "takes no delta"),
            (("--categories", "a,b", "--budget-epsilon", "1"), "need --ledger"),
            (("--categories", "a,b", "--plot", "x.doc"), "a picture ends in"),
        ],
    )
    def test_histogram(self, refused, column, words, message):
        column(*"ab" * 200)
        assert message in error(refused("run", "histogram", "x.csv", *words, *COMMON))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("mean", "--lower", "1", "--upper", "0"), "upper=0 must be > lower=1"),
            (("mean", "--lower", "nan", "--upper", "1"), "lower=nan must be finite"),
            (("mean", "--lower", "0", "--upper", "inf"), "upper=inf must be finite"),
            (("mean", "--lower", "0", "--upper", "1", "--steps", "0"), "steps=0 must be >= 1"),
            (("mean",), "from public knowledge"),
            (("mean", "--lower", "0", "--upper", "1", "--categories", "a,b"), "no categories"),
            (
                ("sum", "--lower", "0", "--upper", "1", "--protocol", "krr"),
                "krr answers a histogram, not a sum",
            ),
            (("count", "--lower", "0", "--upper", "1"), "a count takes no lower and no upper"),
        ],
    )
    def test_numbers(self, refused, column, words, message):
        column(*[0, 1] * 200)
        task, *rest = words
        assert message in error(refused("run", task, "x.csv", *rest, *COMMON))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--epsilon", "0", "--delta", "1e-6"), "epsilon=0.0 must be > 0"),
            (("--epsilon", "nan", "--delta", "1e-6"), "epsilon=nan must be finite"),
            (("--epsilon", "1", "--delta", "-1"), "delta=-1.0"),
            (("--epsilon", "1", "--delta", "1"), "delta=1.0"),
            (("--epsilon", "1"), "needs delta"),
        ],
    )
    def test_privacy(self, refused, column, words, message):
        column(*[0, 1] * 200)
        assert message in error(refused("run", "count", "x.csv", *words))


class TestOutputs:
    @pytest.mark.parametrize("option", ["--out", "--plot"])
    def test_existing_outputs_are_kept(self, refused, shuffledp, column, tmp_path, option):
        column(*[0, 1] * 200)
        path = tmp_path / ("result.json" if option == "--out" else "result.html")
        path.write_text("precious")
        words = ("run", "count", "x.csv", *COMMON, option, path)
        assert "exists" in error(refused(*words))
        assert path.read_text() == "precious"
        assert shuffledp(*words, "--force").exit_code == 0
        assert path.read_text() != "precious"

    def test_nothing_is_read_before_outputs_are_checked(self, refused, tmp_path):
        text = error(
            refused("run", "count", "nowhere.csv", *COMMON, "--out", "no/such/folder/r.json")
        )
        assert "no/such/folder" in text

    def test_a_folder_is_no_output(self, refused, tmp_path):
        (tmp_path / "r.json").mkdir()
        assert "is a folder" in error(refused("run", "count", "x.csv", *COMMON, "--out", "r.json"))

    def test_one_name_for_two_outputs(self, refused):
        words = ("--out", "r.html", "--plot", "./r.html")
        assert "must end in one of .json" in error(
            refused("run", "count", "x.csv", *COMMON, *words)
        )
        same = [Path("r.html"), Path("./r.html")]
        with (
            pytest.raises(sdp.UnsupportedError, match="same name"),
            stage_outputs(same, force=False),
        ):
            pass

    def test_a_file_is_no_folder(self, refused, column):
        column(*[0, 1] * 200)
        error(refused("run", "count", "x.csv", *COMMON, "--out", "x.csv/r.json"))

    def test_a_disk_that_fails_is_one_sentence(self, refused, column, monkeypatch):
        column(*[0, 1] * 200)

        def fail(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_text", fail)
        assert "No space left" in error(
            refused("run", "count", "x.csv", *COMMON, "--out", "r.json")
        )

    def test_failed_data_leave_no_output(self, refused, column):
        column(*[5] * 300, 99)
        error(refused(*MEAN, *COMMON, "--out", "r.json", "--plot", "r.png"))

    def test_missing_matplotlib_is_noticed_first(self, refused, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        text = error(refused("run", "count", "nowhere.csv", *COMMON, "--plot", "r.png"))
        assert "shuffledp[plot]" in text


SLOW = """
import time
from shuffledp.engine import files, messages
def hang(*args, **options):
    print("running", flush=True)
    time.sleep(60)
files.tally_counts = hang
messages._write = hang
from shuffledp.cli import app
app()
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "words",
    [
        ("run", "count", "x.csv", *COMMON, "--out", "r.json", "--plot", "r.png"),
        ("randomize", "x.csv", "--task", "count", *COMMON, "--out", "m.parquet"),
    ],
    ids=["run", "randomize"],
)
def test_an_interrupted_run_leaves_nothing(column, tmp_path, words, stop):
    column(*[0, 1] * 2000)
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW, *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "running\n"
        assert len(list(tmp_path.iterdir())) > 1, "it is in the middle of something"
        child.send_signal(stop)
        child.wait(timeout=30)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode != 0
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


class TestNamedTwice:
    """A file that is read twice doubles everybody's epsilon."""

    @pytest.mark.parametrize("again", ["x.csv", "./x.csv", "*.csv", "link.csv"])
    def test_run(self, refused, column, tmp_path, again):
        column(*[1, 0] * 50)
        if again == "link.csv":
            (tmp_path / again).symlink_to(tmp_path / "x.csv")
        assert "named twice" in error(refused("run", "count", "x.csv", again, *COMMON))

    def test_tally(self, refused, shuffledp, column):
        column(*[1, 0] * 50)
        words = ("--task", "count", *COMMON, "--out", "m.parquet")
        assert shuffledp("randomize", "x.csv", *words).exit_code == 0
        assert "named twice" in error(refused("tally", "m.parquet", "*.parquet", "--out", "t.json"))


class TestOutputsThatAreRead:
    @pytest.mark.parametrize(
        "words",
        [
            ("--out", "x.csv"),
            ("--out", "ledger.json", "--ledger", "ledger.json"),
            ("--out", "here/../x.csv"),
        ],
    )
    def test_force_does_not_replace_them(self, refused, column, tmp_path, words):
        column(*[1, 0] * 50)
        (tmp_path / "here").mkdir()
        before = (tmp_path / "x.csv").read_text()
        budget = ("--budget-epsilon", "2", "--budget-delta", "1e-4") if "--ledger" in words else ()
        text = error(refused("run", "count", "x.csv", *COMMON, *words, *budget, "--force"))
        assert "is also read" in text
        assert (tmp_path / "x.csv").read_text() == before

    def test_a_tally(self, refused, shuffledp, column, tmp_path):
        column(*[1, 0] * 50)
        words = ("--task", "count", *COMMON, "--out", "m.parquet")
        assert shuffledp("randomize", "x.csv", *words).exit_code == 0
        assert shuffledp("tally", "m.parquet", "--out", "t.json").exit_code == 0
        assert "is also read" in error(refused("estimate", "t.json", "--out", "t.json", "--force"))

    def test_messages_as_text(self, refused, column):
        column(*[1, 0] * 50)
        words = ("randomize", "x.csv", "--task", "count", *COMMON, "--out", "m.csv")
        assert "m.csv: a file of messages ends in .parquet" in error(refused(*words))


class TestAdvice:
    """The sentence also says what to do."""

    def test_missing_values(self, refused, column):
        column(1, "", 0)
        text = error(refused("run", "count", "x.csv", *COMMON))
        assert "row 2 of x.csv is missing; to go on: --on-invalid null=drop" in text

    def test_clamp_is_for_numbers(self, refused, column):
        column(1, "five", 2)
        text = error(refused(*MEAN, "--on-invalid", "clamp", *COMMON))
        assert "row 2 of x.csv is not a number; to go on" in text
        assert "; to go on: --on-invalid out_of_range=clamp,unknown=drop" in text

    def test_a_file_of_categories_that_is_not_there(self, refused, column):
        column("a", "b")
        words = ("run", "histogram", "x.csv", "--categories-file", "nowhere.txt", *COMMON)
        assert "--categories-file nowhere.txt cannot be read: No such file" in error(
            refused(*words)
        )

    def test_a_tally_that_is_not_there(self, refused):
        assert "there is no file t.json" in error(refused("estimate", "t.json"))

    @pytest.mark.parametrize("fault", [MemoryError(), OverflowError("too large")])
    def test_numbers_beyond_the_machine(self, refused, monkeypatch, fault):
        def fail(*_, **__):
            raise fault

        monkeypatch.setattr("shuffledp.plan", fail)
        error(refused("plan", "count", "--n", "10", *COMMON))


def test_a_survey_file_is_not_served_whether_it_exists_or_not(refused, tmp_path):
    path = tmp_path / "survey.toml"
    assert "does not exist, and looks like a survey file" in error(refused("serve", path))
    path.write_text("epsilon = 1.0\n")
    assert "make a collection of it" in error(refused("serve", path))
