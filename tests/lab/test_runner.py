"""Running experiments: files, failures, interruption, and the same result every time."""

import base64
import csv
import json
import re
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.lab import Effort, Record, Verdict, run_lab, runner, write_page
from shuffledp.lab.runner import name_verdict

GOOD = '''
    """Two and two

    Why it matters.

    A second paragraph with a < b.
    """

    from shuffledp.lab.runner import Context, Drawn, Result, Verdict
    from shuffledp.show.style import panels

    from .helper import SUM

    ORDER = 1


    def run(context: Context) -> Result:
        figure, (axes,) = panels(["sum"], x="x", y="y")
        axes.plot([0, 1], [0, SUM])
        draws = [int(word) for word in context.words("draws").words(3)]
        return Result(
            verdicts=(
                Verdict(claim="2 + 2 is 4", measured=str(SUM), agrees=SUM == 4),
                Verdict(claim="2 + 2 is 5", measured=str(SUM), agrees=SUM == 5, why="A slip <of> the pen."),
            ),
            figures=(Drawn(name="sum", caption="A line.", figure=figure),),
            rows=tuple({"draw": draw, "size": context.pick(quick=1, full=2)} for draw in draws),
            parameters={"n": 4, "share": 0.5, "sizes": (1, 20_000)},
        )
'''
BAD = '"""Breaks."""\nORDER = 2\n\n\ndef run(context):\n    raise ValueError("no <such> thing")\n'
STOPPED = '"""Stops."""\nORDER = 3\n\n\ndef run(context):\n    raise KeyboardInterrupt\n'


@pytest.fixture
def laboratory(tmp_path, monkeypatch):
    """Three small experiments in the place of ours."""
    for name, code in (("good", textwrap.dedent(GOOD)), ("bad", BAD), ("stopped", STOPPED)):
        (tmp_path / "experiments" / name).mkdir(parents=True)
        (tmp_path / "experiments" / name / "run.py").write_text(code)
    (tmp_path / "experiments" / "good" / "helper.py").write_text("SUM = 2 + 2\n")
    monkeypatch.setattr(runner, "_PLACES", (tmp_path / "nowhere", tmp_path / "experiments"))
    monkeypatch.setattr(runner, "_MODULE", f"experiments_of_{tmp_path.name}")
    return tmp_path


def command(*arguments):
    return CliRunner().invoke(app, ["lab", *map(str, arguments)])


def test_files_and_verdicts(laboratory):
    out = laboratory / "report"
    result = command("good", "--quick", "--out", out)
    assert result.exit_code == 0, result.output
    assert "1 of 2 agree" in result.output
    assert (out / "good" / "sum.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "good" / "sum.svg").read_text()
    with (out / "good" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["size"] for row in rows] == ["1"] * 3
    assert json.loads((out / "verdicts.json").read_text()) == [
        {
            "experiment": "good",
            "id": name_verdict("good", claim),
            "claim": claim,
            "measured": "4",
            "agrees": agrees,
        }
        for claim, agrees in (("2 + 2 is 4", True), ("2 + 2 is 5", False))
    ]


def test_the_same_files_every_time(laboratory):
    for name in ("first", "second"):
        run_lab(["good"], effort=Effort.FULL, out=laboratory / name)
    for file in ("sum.svg", "sum.png", "table.csv"):
        assert (laboratory / "first/good" / file).read_bytes() == (
            laboratory / "second/good" / file
        ).read_bytes()


def test_several_workers_write_what_one_writes(laboratory, monkeypatch):
    """Threads in the place of processes, which take seconds to start; `test_experiments` has real ones."""
    alone = run_lab(["good", "bad"], effort=Effort.QUICK, out=laboratory / "one")
    monkeypatch.setattr(runner, "_pool", lambda _: ThreadPoolExecutor(1))
    together = run_lab(["good", "bad"], effort=Effort.QUICK, out=laboratory / "two", workers=2)
    assert [each.name for each in together] == ["good", "bad"]
    assert [each.verdicts for each in together] == [each.verdicts for each in alone]
    assert [bool(each.failure) for each in together] == [False, True]
    for file in ("sum.svg", "sum.png", "table.csv"):
        first, second = (laboratory / run / "good" / file for run in ("one", "two"))
        assert first.read_bytes() == second.read_bytes()


def test_a_failure_is_told_and_the_others_run(laboratory):
    records = run_lab(["bad", "good"], effort=Effort.QUICK, out=laboratory / "report")
    assert "no <such> thing" in records[0].failure
    assert not records[1].failure
    text = write_page(records, effort=Effort.QUICK, out=laboratory / "report").read_text()
    assert "no &lt;such&gt; thing" in text
    assert "<b>1</b> experiments failed" in text
    assert "A slip &lt;of&gt; the pen." in text
    result = command("bad", "--out", laboratory / "report")
    assert result.exit_code == 1
    assert "FAILED" in result.output


def test_interruption_leaves_the_old_page(laboratory):
    out = laboratory / "report"
    command("good", "--quick", "--out", out)
    before = (out / "index.html").read_bytes()
    assert command("stopped", "--out", out).exit_code not in (0, 2)
    assert (out / "index.html").read_bytes() == before


def test_interruption_leaves_no_folder(laboratory, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    kept = laboratory / "reports"
    kept.mkdir()
    for out in (laboratory / "new" / "report", kept):
        with pytest.raises(KeyboardInterrupt):
            run_lab(["good"], effort=Effort.QUICK, out=out, finished=stop)
    assert not (laboratory / "new").exists()
    assert list(kept.iterdir()) == []


def test_a_page_is_written_whole_or_not_at_all(laboratory, monkeypatch):
    out = laboratory / "report"
    records = run_lab(["good"], effort=Effort.QUICK, out=out)
    write_page(records, effort=Effort.QUICK, out=out)
    before = (out / "index.html").read_bytes()

    def full(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(runner.Path, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        write_page(records, effort=Effort.FULL, out=out)
    assert (out / "index.html").read_bytes() == before
    assert not list(out.glob(".*"))


def test_the_page_needs_nothing_but_itself(laboratory):
    command("good", "--quick", "--out", laboratory / "report")
    text = (laboratory / "report" / "index.html").read_text()
    outside = re.sub(
        r"data:(image/svg\+xml|text/csv|application/json);base64,[\w+/=]+", "data:", text
    )
    assert outside.count('src="data:"') == 1
    assert not re.search(r"https?:|<script|<link|@import|url\(|src=\"(?!data:)", outside)
    links = set(re.findall(r'href="([^"]*)"', outside))
    assert {link for link in links if not link.startswith("#good-")} == {"#good", "data:"}
    assert {link[1:] for link in links if link != "data:"} <= set(
        re.findall(r'id="([^"]*)"', outside)
    )
    assert "a &lt; b" in outside
    assert "share = 0.5" in outside
    assert "20,000" in outside


def test_experiments_can_be_repeated_cited_and_taken_home(laboratory):
    out = laboratory / "report"
    command("good", "--quick", "--out", out)
    text = (out / "index.html").read_text()
    assert "<code>shuffledp lab good --quick</code>" in text
    assert "@software{shuffledp_good," in text
    found = dict(re.findall(r'download="([\w.]+)" href="data:[\w/]+;base64,([\w+/=]+)"', text))
    assert base64.b64decode(found["good.csv"]) == (out / "good" / "table.csv").read_bytes()
    verdicts = json.loads(base64.b64decode(found["good.json"]))
    assert [each["id"] for each in verdicts] == [
        each["id"] for each in json.loads((out / "verdicts.json").read_text())
    ]
    assert all(f'<tr id="{each["id"]}">' in text for each in verdicts)


def test_names_of_verdicts_differ():
    names = {name_verdict("a", "x"), name_verdict("a", "y"), name_verdict("b", "x")}
    assert len(names) == 3


def test_an_unexplained_difference_says_so(tmp_path):
    record = Record(
        name="odd",
        title="Odd",
        about="",
        seconds=1.0,
        verdicts=(Verdict(claim="a", measured="b", agrees=False),),
        captions={},
        parameters={},
    )
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "table.csv").write_text("x\n1\n")
    text = write_page([record], effort=Effort.QUICK, out=tmp_path).read_text()
    assert text.count("No explanation is known") == 2


def test_unknown_names_list_the_known_ones(laboratory):
    result = command("goood")
    assert result.exit_code == 2
    assert "experiment='goood' must be one of bad, good, stopped" in result.stderr


def test_a_folder_that_cannot_be_written(laboratory):
    (laboratory / "file").write_text("in the way")
    result = command("good", "--quick", "--out", laboratory / "file")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output


def test_list(laboratory):
    result = command("--list")
    assert [line.split()[0] for line in result.output.splitlines()] == ["good", "bad", "stopped"]


def test_no_experiments_at_all(laboratory, monkeypatch):
    monkeypatch.setattr(runner, "_PLACES", (laboratory / "nowhere",))
    with pytest.raises(sdp.UnsupportedError, match="no experiments are installed"):
        runner.folders()
