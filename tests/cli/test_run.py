"""`shuffledp run`: the answers are right, and the result says what it is."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app

WAYS = "car,bicycle,bus,train,on foot,tram,at home,motorcycle,scooter,ferry"

COMMON = ("--epsilon", "1", "--delta", "1e-6")


def answer(result):
    """The JSON object of a run that went well."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(name))


class TestAnswers:
    def test_histogram(self, shuffledp, people, survey):
        found = answer(
            shuffledp(
                "run",
                "histogram",
                people,
                "--column",
                "way",
                "--categories",
                WAYS,
                *COMMON,
                "--json",
            )
        )
        assert [row["label"] for row in found["estimate"]] == WAYS.split(",")
        values = np.array([row["value"] for row in found["estimate"]])
        assert np.abs(values - survey.way.counts).max() < 100
        for row in found["estimate"]:
            assert row["low"] <= row["value"] <= row["high"]
            assert 0 < row["stderr"] < 20

    def test_filters(self, shuffledp, people, survey):
        words = ("run", "count", people, "--column", "home", *COMMON, "--where", "minutes >= 60")
        found = answer(shuffledp(*words, "--json"))
        taken = survey.minutes >= 60
        assert found["n"] == taken.sum()
        assert found["where"] == "minutes >= 60"
        assert abs(found["estimate"][0]["value"] - survey.home[taken].sum()) < 60
        assert "This filter is part of the question" in " ".join(shuffledp(*words).stdout.split())
        wrong = shuffledp(*words[:-1], "minutes >= 60; drop table people")
        assert wrong.exit_code == 2
        assert "cannot be read at '; drop table people'" in wrong.stderr

    def test_standard_input(self, shuffledp, people, survey, monkeypatch):
        words = ("run", "count", "-", "--column", "home", *COMMON, "--json")
        result = CliRunner().invoke(app, [*map(str, words)], input=people.read_bytes())
        assert answer(result)["n"] == len(survey.home)
        assert answer(result)["files"] == ["-"]

    def test_count(self, shuffledp, people, survey):
        found = answer(shuffledp("run", "count", people, "--column", "home", *COMMON, "--json"))
        assert found["estimate"][0]["label"] == "count"
        assert abs(found["estimate"][0]["value"] - survey.home.sum()) < 60

    @pytest.mark.parametrize(("task", "factor"), [("mean", 1), ("sum", 3000)])
    def test_numbers(self, shuffledp, people, survey, task, factor):
        ends = ("--lower", 0, "--upper", 120)
        found = answer(
            shuffledp("run", task, people, "--column", "minutes", *ends, *COMMON, "--json")
        )
        assert found["estimate"][0]["value"] == pytest.approx(
            survey.minutes.mean() * factor, abs=1.5 * factor
        )
        assert found["parameters"]["steps"] is None, "the ends are written as integers"
        ends = ("--lower", "0.0", "--upper", 120)
        found = answer(
            shuffledp("run", task, people, "--column", "minutes", *ends, *COMMON, "--json")
        )
        assert found["parameters"]["steps"] == 256, "an end is written as a real number"

    def test_reals_get_a_public_grid_and_are_told(self, shuffledp, people, survey):
        ends = ("--lower", 0, "--upper", 2.5)
        found = answer(
            shuffledp("run", "mean", people, "--column", "hours", *ends, *COMMON, "--json")
        )
        assert found["estimate"][0]["value"] == pytest.approx(survey.minutes.mean() / 60, abs=0.05)
        assert "grid of 256 steps of 0.00976562" in found["notes"][0]
        found = answer(
            shuffledp(
                "run", "mean", people, "--column", "hours", *ends, *COMMON, "--steps", 50, "--json"
            )
        )
        assert found["parameters"]["steps"] == 50
        assert not any("grid" in note for note in found["notes"])

    @pytest.mark.parametrize("lower", [0, 1])
    def test_histogram_of_integers(self, shuffledp, tmp_path, lower):
        path = tmp_path / "numbers.csv"
        values = np.arange(3000) % 4 + lower
        path.write_text("x\n" + "\n".join(map(str, values)))
        ends = ("--lower", lower, "--upper", lower + 3)
        found = answer(shuffledp("run", "histogram", path, *ends, *COMMON, "--json"))
        assert [row["label"] for row in found["estimate"]] == [str(lower + i) for i in range(4)]
        assert all(abs(row["value"] - 750) < 60 for row in found["estimate"])

    @pytest.mark.parametrize("engine", ["duckdb", "memory"])
    def test_engines(self, shuffledp, people, survey, engine):
        found = answer(
            shuffledp(
                "run", "histogram", people, "--column", "way", "--categories", WAYS, *COMMON,
                "--engine", engine, "--json",
            )
        )  # fmt: skip
        assert found["engine"] == engine
        assert found["dealt"]
        assert found["not_private"] == []
        assert abs(found["estimate"][0]["value"] - survey.way.counts[0]) < 60

    def test_a_dealt_tally_is_called_one(self, shuffledp, people):
        words = ("run", "count", people, "--column", "home", *COMMON, "--explain")
        text = " ".join(shuffledp(*words).stdout.split())
        assert "counted the people with each value and dealt the tally" in text
        assert "The promise is to the people in the file" in text
        assert "NOT PRIVATE" not in text
        words = ("run", "histogram", people, "--column", "way", "--categories", WAYS, *COMMON)
        played = shuffledp(*words, "--explain", "--protocol", "hashed_histogram")
        assert "played all devices" in " ".join(played.stdout.split())

    def test_timings(self, shuffledp, people):
        words = ("run", "count", people, "--column", "home", *COMMON, "--json")
        found = shuffledp(*words, "--timings")
        assert answer(found)["dealt"]
        stages = [line.rsplit(maxsplit=2)[0].strip() for line in found.stderr.splitlines()]
        assert stages == [
            "start and imports",
            "opening files",
            "reading and grouping",
            "calibration",
            "dealing",
            "estimation",
            "display",
        ]
        assert shuffledp(*words).stderr == ""

    def test_an_engine_is_known_by_what_it_declares(self, shuffledp, people, monkeypatch):
        """One class and its line in ENGINES: nothing else knows an engine by name."""

        @dataclass(frozen=True)
        class Abacus:
            name = "abacus"
            about = "slow and loud"
            local = True
            threads = 1

            def headcount(self, job):
                return sdp.engine.Memory().headcount(job)

            def counts(self, *job):
                return sdp.engine.Memory().counts(*job)

            def tally(self, *job):
                return sdp.engine.Memory().tally(*job)

            def group(self, sets):
                return None

            def reduce(self, reduction):
                return sdp.engine.Memory().reduce(reduction)

        engines = {**sdp.engine.ENGINES, "abacus": Abacus}
        monkeypatch.setattr("shuffledp.engine.files.ENGINES", engines)
        words = ("run", "count", people, "--column", "home", *COMMON, "--engine", "abacus")
        found = answer(shuffledp(*words, "--json"))
        assert found["engine"] == "abacus"
        assert "is not an option of the abacus" in shuffledp(*words, "--threads", 2).stderr

    def test_spark_gets_its_master(self, shuffledp, people, monkeypatch):
        """What Spark computes is tested with the engine; here, that it is asked."""
        asked = []

        def counts(self, *job):
            asked.append(self.master)
            return sdp.engine.Memory().counts(*job)

        monkeypatch.setattr(sdp.engine.Spark, "counts", counts)
        words = ("run", "count", people, "--column", "home", *COMMON)
        assert shuffledp(*words, "--engine", "spark", "--master", "local[1]").exit_code == 0
        assert asked == ["local[1]"]
        refused = shuffledp(*words, "--engine", "memory", "--master", "local[1]")
        assert refused.exit_code == 2
        assert "is not an option of the memory engine" in refused.stderr

    def test_local_model(self, shuffledp, people, survey):
        found = answer(
            shuffledp(
                "run", "histogram", people, "--column", "way", "--categories", WAYS, "--epsilon", 8,
                "--model", "local", "--json",
            )
        )  # fmt: skip
        assert (found["protocol"], found["delta"]) == ("krr", 0.0)
        assert found["guarantee"]["model"] == "local"
        assert abs(found["estimate"][0]["value"] - survey.way.counts[0]) < 60

    def test_named_protocol_and_several_files(self, shuffledp, people):
        others = people.with_name("others.csv")
        others.write_bytes(people.read_bytes())
        found = answer(
            shuffledp(
                "run", "histogram", people, others, "--column", "way", "--categories", WAYS, *COMMON,
                "--protocol", "krr", "--honest", 0.5, "--json",
            )
        )  # fmt: skip
        assert found["protocol"] == "krr"
        assert found["n"] == 6000
        assert found["guarantee"]["honest"] == 3000

    def test_the_same_seed_is_the_same_result(self, shuffledp, people):
        words = ("run", "histogram", people, "--column", "way", "--categories", WAYS, *COMMON)
        first, second, third = (
            answer(shuffledp(*words, "--json", "--seed", seed)) for seed in (4, 4, 5)
        )
        assert first == second
        assert first["estimate"] != third["estimate"]

    def test_secure_noise_differs(self, shuffledp, people):
        words = ("run", "histogram", people, "--column", "way", "--categories", WAYS)
        first, second = (answer(shuffledp(*words, *COMMON, "--json")) for _ in range(2))
        assert first["estimate"] != second["estimate"]


class TestRecord:
    def test_all_keys(self, shuffledp, people):
        found = answer(shuffledp("run", "count", people, "--column", "home", *COMMON, "--json"))
        assert {
            "task", "protocol", "engine", "n", "invalid", "epsilon", "delta", "estimate", "guarantee",
            "version", "parameters", "level", "not_private", "seed", "column", "files",
        } <= set(found)  # fmt: skip
        assert set(found["estimate"][0]) == {"label", "value", "stderr", "low", "high", "share"}
        assert found["estimate"][0]["share"] == found["estimate"][0]["value"] / found["n"]
        assert found["version"] == sdp.__version__
        assert found["invalid"] == {"null": 0, "unknown": 0, "out_of_range": 0, "nan": 0}

    def test_it_rebuilds_the_protocol(self, shuffledp, people):
        found = answer(shuffledp("run", "count", people, "--column", "home", *COMMON, "--json"))
        protocol = sdp.make(found["protocol"], **found["parameters"])
        assert (protocol.guarantee.epsilon, protocol.guarantee.delta) == (
            found["epsilon"], found["delta"],
        )  # fmt: skip
        assert found["guarantee"]["text"] == str(protocol.guarantee)
        assert protocol.users == found["n"]

    def test_level(self, shuffledp, people):
        words = (
            "run",
            "count",
            people,
            "--column",
            "home",
            *COMMON,
            "--seed",
            1,
            "--json",
            "--level",
        )
        wide, narrow = (answer(shuffledp(*words, level))["estimate"][0] for level in (0.99, 0.5))
        assert wide["high"] - wide["low"] > narrow["high"] - narrow["low"]


class TestInvalid:
    @pytest.fixture
    def holes(self, tmp_path):
        path = tmp_path / "holes.csv"
        good = ["cat", "dog"] * 1500
        path.write_text(
            "pet,age\n"
            + "".join(f"{pet},{i % 90}\n" for i, pet in enumerate(good))
            + ",200\nowl,-5\nowl,\n"
        )
        return path

    def test_error_names_the_value(self, shuffledp, holes):
        result = shuffledp(
            "run", "histogram", holes, "--column", "pet", "--categories", "cat,dog", *COMMON
        )
        assert result.exit_code == 2
        assert "error: " in result.stderr
        assert "is missing" in result.stderr

    def test_drop_changes_n_and_is_counted(self, shuffledp, holes):
        words = ("run", "histogram", holes, "--column", "pet", "--categories", "cat,dog", *COMMON)
        found = answer(shuffledp(*words, "--on-invalid", "drop", "--json"))
        assert found["n"] == found["parameters"]["n"] == 3000
        assert found["invalid"] == {"null": 1, "unknown": 2, "out_of_range": 0, "nan": 0}
        text = shuffledp(*words, "--on-invalid", "drop", "--explain").output
        wanted = "3 of 3,003 values were invalid (null 1, unknown 2) and were left out"
        assert wanted in " ".join(text.split())

    def test_other_keeps_everybody_and_the_exact_number_out_of_the_result(self, shuffledp, holes):
        words = (
            "run",
            "histogram",
            holes,
            "--column",
            "pet",
            "--categories",
            "cat,dog,other",
            *COMMON,
        )
        result = shuffledp(*words, "--on-invalid", "other", "--json")
        found = answer(result)
        assert found["n"] == 3003
        assert found["invalid"] is None
        assert "For you alone" in result.stderr
        assert "(null 1, unknown 2) became other" in result.stderr.replace("\n", " ")
        shown = shuffledp(*words, "--on-invalid", "other", "--explain")
        assert "unknown 2" not in shown.stdout
        assert "protected like all others" in " ".join(shown.stdout.split())

    def test_clamp(self, shuffledp, holes):
        words = ("run", "mean", holes, "--column", "age", "--lower", 0, "--upper", 100, *COMMON)
        result = shuffledp(*words, "--on-invalid", "clamp")
        assert result.exit_code == 2, "a missing number has no nearest end"
        assert "is missing" in result.stderr
        holes.write_text(holes.read_text().replace("owl,\n", ""))
        result = shuffledp(*words, "--on-invalid", "clamp", "--json")
        assert answer(result)["invalid"] is None
        assert "2 invalid values (out_of_range 2)" in result.stderr

    def test_clamped_integers_of_a_histogram(self, shuffledp, tmp_path):
        (tmp_path / "x.csv").write_text("x\n" + "3\n" * 2000 + "99\n" * 500 + "-7\n" * 500)
        words = ("run", "histogram", "x.csv", "--lower", 2, "--upper", 4, *COMMON)
        found = answer(shuffledp(*words, "--on-invalid", "clamp", "--json"))
        values = [row["value"] for row in found["estimate"]]
        assert np.abs(np.subtract(values, [500, 2000, 500])).max() < 60


class TestNotPrivate:
    def test_categories_from_data_are_refused_with_a_reason(self, shuffledp, people):
        result = shuffledp("run", "histogram", people, "--column", "way", *COMMON)
        assert result.exit_code == 2
        for words in ("leaks", "categories", "--categories-file", "--categories-from-data"):
            assert words in result.stderr

    def test_and_said_aloud_if_wanted(self, shuffledp, people):
        words = ("run", "histogram", people, "--column", "way", *COMMON, "--categories-from-data")
        result = shuffledp(*words, "--json")
        found = answer(result)
        assert len(found["estimate"]) == 10
        assert "was read from the data" in found["not_private"][0]
        assert "NOT PRIVATE" in result.stderr
        assert "NOT PRIVATE" in shuffledp(*words).stdout
        page = shuffledp(*words, "--plot", "r.html")
        assert page.exit_code == 0, page.output
        assert "NOT PRIVATE" in Path("r.html").read_text(encoding="utf-8")

    def test_seed_is_said_aloud(self, shuffledp, people):
        words = ("run", "count", people, "--column", "home", *COMMON, "--seed", 1)
        assert "protects nobody" in " ".join(shuffledp(*words).stdout.split())
        assert answer(shuffledp(*words, "--json"))["seed"] == 1


class TestText:
    def test_fits_into_80_columns_with_unicode_and_many_bins(self, shuffledp, tmp_path):
        names = [f"größe 東京 🙂 {i}" for i in range(60)]
        (tmp_path / "names.txt").write_text("\n".join(names), encoding="utf-8")
        (tmp_path / "x.csv").write_text("x\n" + "\n".join(names * 50), encoding="utf-8")
        result = shuffledp("run", "histogram", "x.csv", "--categories-file", "names.txt", *COMMON)
        assert result.exit_code == 0, result.output
        from rich.cells import cell_len

        assert max(map(cell_len, result.stdout.splitlines())) <= 80
        assert "… 40 more" in result.stdout
        assert "größe 東京 🙂" in result.stdout

    def test_table_bars_and_promise(self, shuffledp, people):
        result = shuffledp(
            "run", "histogram", people, "--column", "way", "--categories", WAYS, *COMMON
        )
        for words in ("estimate", "std. error", "95% interval", "█", "ferry", "shuffle model"):
            assert words in result.stdout

    def test_markup_in_names_is_text(self, shuffledp, tmp_path):
        (tmp_path / "x.csv").write_text("[red]x[/red]\n" + "[bold]a[/bold]\nb\n" * 500)
        result = shuffledp("run", "histogram", "x.csv", "--categories", "[bold]a[/bold],b", *COMMON)
        assert "[bold]a[/bold]" in result.stdout
        assert "[red]x[/red]" in result.stdout

    def test_explain(self, shuffledp, people):
        result = shuffledp("run", "count", people, "--column", "home", *COMMON, "--explain")
        text = " ".join(result.stdout.split())
        for words in (
            "The promise.",
            "Who is trusted.",
            "Without the shuffler.",
            "One machine (duckdb)",
        ):
            assert words in text

    def test_no_progress_bar_without_a_terminal(self, shuffledp, people):
        assert shuffledp("run", "count", people, "--column", "home", *COMMON).stderr == ""


class TestLettersWithoutFont:
    """A stand-in for a machine without fonts for Japanese."""

    @pytest.fixture(autouse=True)
    def no_font(self, monkeypatch, tmp_path):
        monkeypatch.setattr(
            sdp.show.style, "_find_missing", lambda text, _: set(text) & set("東京")
        )
        (tmp_path / "x.csv").write_text("x\n" + "東京\nkyoto\n" * 1000, encoding="utf-8")

    WORDS = ("run", "histogram", "x.csv", "--categories", "東京,kyoto", *COMMON)

    def test_a_page_beside_the_picture(self, shuffledp):
        result = shuffledp(*self.WORDS, "--plot", "r.png")
        assert "r.png.html shows them" in result.stderr
        assert ">東京<" in Path("r.png.html").read_text(encoding="utf-8")
        assert Path("r.png").exists()
        again = shuffledp(*self.WORDS, "--plot", "r.png", "--force", "--quiet")
        assert (again.exit_code, again.stderr) == (0, "")

    def test_nothing_is_replaced_without_force(self, shuffledp):
        Path("r.png.html").write_text("mine")
        result = shuffledp(*self.WORDS, "--plot", "r.png")
        assert (result.exit_code, Path("r.png.html").read_text()) == (2, "mine")
        assert not Path("r.png").exists()


class TestProgress:
    def test_a_bar_after_a_second_also_while_nothing_is_read(self, monkeypatch, capsys):
        from shuffledp.cli import _progress
        from shuffledp.engine import Progress

        timers = []

        class Timer:
            daemon = False

            def __init__(self, seconds, call):
                timers.append((seconds, call))

            def start(self):
                pass

            cancel = join = start

        monkeypatch.setattr(_progress.threading, "Timer", Timer)
        meter = _progress.Meter()
        meter(Progress(rows=10, total_rows=100, total_bytes=5_000_000))
        assert meter._bar is None
        ((seconds, open_bar),) = timers
        assert seconds == 1.0
        open_bar()
        assert meter._bar.tasks[0].description == "working"
        meter(Progress(rows=60, total_rows=100, total_bytes=5_000_000))
        task = meter._bar.tasks[0]
        assert (task.description, task.completed, task.total) == ("reading 5.0 MB", 60, 100)
        meter(Progress(rows=30, total_rows=100, total_bytes=0, estimating=True))
        task = meter._bar.tasks[0]
        assert (task.description, task.completed, task.fields["unit"]) == ("estimating", 30, "%")
        meter.close()

    def test_lines_in_a_log_ever_more_rarely(self, monkeypatch, capsys):
        from shuffledp.cli import _progress
        from shuffledp.engine import Progress

        now = [0.0]
        monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
        lines = _progress.Lines()
        for second in range(200):
            now[0] = float(second)
            lines(Progress(rows=second, total_rows=1000, total_bytes=5_000_000))
        said = capsys.readouterr().err.splitlines()
        assert said[0] == "reading 5.0 MB: 20 of 1,000 rows after 20 seconds"
        assert [line.split()[-2] for line in said] == ["20", "40", "80", "160"]

    @pytest.mark.parametrize("terminal", [True, False])
    def test_off(self, monkeypatch, capsys, terminal):
        from shuffledp.cli._progress import meter, show_steps
        from shuffledp.cli._terminal import take_quiet

        def look() -> None:
            with meter() as report, show_steps() as say:
                assert report is None
                say("reading")

        monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
        take_quiet(look)(quiet=True)
        assert capsys.readouterr().err == ""

    def test_steps_are_lines_in_a_log(self, monkeypatch, capsys):
        from shuffledp.cli._progress import show_steps

        monkeypatch.setattr("sys.stderr.isatty", lambda: False)
        with show_steps() as say:
            say("reading")
            say("counting")
        assert capsys.readouterr().err == "reading ...\ncounting ...\n"


class TestNothingFound:
    """A list of words of which none is frequent: that none was found is an answer, and it has been paid for."""

    @pytest.fixture
    def rare(self, tmp_path):
        letters = np.random.default_rng(2).integers(97, 123, (400, 6), dtype=np.uint8)
        path = tmp_path / "rare.txt"
        path.write_text("\n".join(row.tobytes().decode() for row in letters) + "\n")
        return path

    @pytest.mark.parametrize(
        ("model", "shown"),
        [
            *(("shuffle", each) for each in ("", "--json", "--plot w.png", "--plot w.html")),
            ("central", "--out w.csv"),
            ("local", ""),
        ],
    )
    def test_every_output(self, shuffledp, rare, model, shown):
        delta = () if model == "local" else ("--delta", 1e-6)
        epsilon = 4 if model == "local" else 1
        words = ("run", "words", rare, "--alphabet", "letters", "--max-length", 6, "--seed", 1)
        found = shuffledp(*words, "--epsilon", epsilon, *delta, "--model", model, *shown.split())
        assert found.exit_code == 0, found.output
        if shown == "--json":
            assert json.loads(found.stdout)["estimate"] == []
        else:
            assert "No word was found." in found.stdout


class TestFiltersAreReleases:
    COUNT = ("run", "count", "people.csv", "--column", "home", *COMMON, "--where", "way = 'car'")
    LEDGER = ("--ledger", "l.db", "--budget-epsilon", 9, "--budget-delta", 1e-4)

    def test_n_is_listed(self, shuffledp, people):
        found = answer(shuffledp(*self.COUNT, "--json"))
        said = "n is the exact number of people with way = 'car': no noise protects who they are"
        assert found["not_private"] == [said]
        assert found["n"] > 0
        assert f"NOT PRIVATE: {said}" in " ".join(shuffledp(*self.COUNT).stdout.split())
        assert answer(shuffledp(*self.COUNT, "--where-public", "--json"))["not_private"] == []

    def test_with_a_ledger_everybody_stays_unless_it_is_public(self, shuffledp, people):
        found = answer(shuffledp(*self.COUNT, *self.LEDGER, "--json"))
        repeated = "the words of the filter (way = 'car'), which the answer and the ledger repeat"
        assert (found["n"], found["not_private"]) == (3000, [repeated])
        assert shuffledp(*self.COUNT, *self.LEDGER, "--where-public").exit_code == 0
        shown = shuffledp("ledger", "show", "l.db", "--json")
        assert "way = 'car'" in shown.stdout, shown.output
        assert "where_public" in shown.stdout

    def test_it_needs_a_filter(self, shuffledp, people):
        assert "--where" in shuffledp(*self.COUNT[:-2], "--where-public").stderr


class TestLeftOut:
    def test_every_output_says_how_many_people_were_left_out(self, shuffledp, tmp_path):
        (tmp_path / "ages.csv").write_text("age\n" + "30\nNA\n40\n" * 300)
        words = (
            "run",
            "mean",
            "ages.csv",
            "--lower",
            0,
            "--upper",
            99,
            *COMMON,
            "--on-invalid",
            "drop",
        )
        said = "600 people (300 left out)"
        assert said in shuffledp(*words, "--quiet").stdout
        assert said in shuffledp(*words).stdout
        assert answer(shuffledp(*words, "--json"))["invalid"]["null"] == 300
        assert shuffledp(*words, "--plot", "ages.html", "--out", "ages.json").exit_code == 0
        assert said in (tmp_path / "ages.html").read_text()

    def test_quiet_operators_learn_what_was_moved(self, shuffledp, people):
        words = ("run", "mean", people, "--column", "minutes", "--lower", 0, "--upper", 20, *COMMON)
        found = shuffledp(*words, "--on-invalid", "clamp", "--quiet")
        assert "were moved to the nearest end" in found.stderr
        assert "moved" not in found.stdout


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_messages_say_how_many_people_were_left_out(shuffledp, tmp_path, quiet):
    """Quietly, too, as a run does."""
    path = tmp_path / "ages.csv"
    path.write_text("age\n" + "30\n" * 500 + "NA\n" * 3)
    asked = ("--column", "age", "--task", "mean", "--lower", 0, "--upper", 99, "--out", "m.parquet")
    found = shuffledp("randomize", path, *asked, *COMMON, "--on-invalid", "drop", *quiet)
    assert found.exit_code == 0, found.output
    assert "3 of 503 values were invalid (null 3)" in " ".join(found.stdout.split())


def test_what_is_not_private_is_said_where_the_answer_goes_to_a_file(shuffledp, people):
    words = (
        "run",
        "count",
        people,
        "--column",
        "home",
        *COMMON,
        "--seed",
        1,
        "--quiet",
        "--out",
        "r.json",
    )
    found = shuffledp(*words)
    assert found.exit_code == 0, found.output
    assert found.stdout == ""
    assert "NOT PRIVATE: the noise is seeded" in " ".join(found.stderr.split())
