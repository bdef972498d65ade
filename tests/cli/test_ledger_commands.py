"""The ledger through the command line: charge, refuse, show, change."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.cli._terminal import stage_outputs

COUNT = ("--column", "home", "--delta", "1e-8", "--epsilon")
BUDGET = ("--budget-epsilon", "1", "--budget-delta", "1e-6")
FIRST = ("--ledger", "ledger.json", *BUDGET)
LATER = ("--ledger", "ledger.json")


def released(result):
    assert result.exit_code == 0, result.output
    return result


def refused(result, code):
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    return result.stderr


class TestRun:
    def test_releases_add_up_until_one_is_refused(self, shuffledp, people, tmp_path):
        first = released(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST))
        assert "Spent of data set 'data': epsilon 0.5 of 1" in " ".join(first.stdout.split())
        released(shuffledp("run", "count", people, *COUNT, 0.3, *LATER, "--json"))
        before = (tmp_path / "ledger.json").read_bytes()
        words = ("run", "count", people, *COUNT, 0.5, *LATER, "--out", "r.json", "--plot", "r.html")
        assert "epsilon would be 1.3" in refused(shuffledp(*words), 3)
        assert (tmp_path / "ledger.json").read_bytes() == before
        assert not (tmp_path / "r.json").exists()
        assert not (tmp_path / "r.html").exists()
        ledger = sdp.ledger.Ledger(tmp_path / "ledger.json")
        assert ledger.spent().epsilon == 0.8
        assert all(entry.released for entry in ledger.entries())
        assert ledger.entries()[0].note["column"] == "home"

    def test_json_stays_json(self, shuffledp, people):
        result = released(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST, "--json"))
        assert json.loads(result.stdout)["epsilon"] == 0.5
        assert "Spent" in result.stderr

    def test_delta_is_budgeted_too(self, shuffledp, people):
        words = ("--column", "home", "--epsilon", 0.1, "--delta", 1e-5)
        assert "delta would be" in refused(shuffledp("run", "count", people, *words, *FIRST), 3)

    def test_first_release_needs_a_budget_and_later_ones_the_same(self, shuffledp, people):
        assert "with --budget-epsilon and --budget-delta" in refused(
            shuffledp("run", "count", people, *COUNT, 0.5, *LATER), 2
        )
        released(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST))
        other = ("--ledger", "ledger.json", "--budget-epsilon", 9, "--budget-delta", 1e-6)
        assert "shuffledp ledger budget" in refused(
            shuffledp("run", "count", people, *COUNT, 0.5, *other), 2
        )

    def test_data_sets(self, shuffledp, people):
        for name in ("a", "b"):
            released(shuffledp("run", "count", people, *COUNT, 1, *FIRST, "--dataset", name))
        refused(shuffledp("run", "count", people, *COUNT, 0.1, *LATER, "--dataset", "a"), 3)

    def test_a_run_that_fails_on_its_data_charges_nothing(self, shuffledp, tmp_path):
        (tmp_path / "x.csv").write_text("home\n" + "0\n1\n" * 500 + "maybe\n")
        refused(shuffledp("run", "count", "x.csv", *COUNT, 0.5, *FIRST), 2)
        assert not (tmp_path / "ledger.json").exists()

    def test_outputs_are_checked_before_the_charge(self, shuffledp, people, tmp_path):
        (tmp_path / "r.json").write_text("precious")
        refused(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST, "--out", "r.json"), 2)
        refused(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST, "--out", "no/r.json"), 2)
        assert not (tmp_path / "ledger.json").exists()

    def test_a_damaged_ledger_stops_everything(self, shuffledp, people, tmp_path):
        (tmp_path / "ledger.json").write_text('{"format": "shuffledp ledger 1", "eve')
        text = refused(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST), 2)
        assert "not an intact ledger" in text

    def test_seeded_runs_are_not_charged(self, shuffledp, people):
        text = refused(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST, "--seed", 1), 2)
        assert "a seed protects nobody" in text

    def test_categories_from_the_data_are_not_charged(self, shuffledp, people, tmp_path):
        """Which categories occur is not covered by any epsilon."""
        question = ("--column", "way", "--categories-from-data", "--epsilon", 0.5, "--delta", 1e-8)
        for command in (("run", "histogram", people), ("randomize", people, "--out", "m.parquet")):
            text = refused(shuffledp(*command, *question, *FIRST), 2)
            assert "--categories-from-data releases which categories occur" in text
        assert not (tmp_path / "ledger.json").exists()

    def test_every_charge_prints_the_head(self, shuffledp, people, tmp_path):
        ledger = sdp.ledger.Ledger(tmp_path / "ledger.json")
        out = released(shuffledp("run", "count", people, *COUNT, 0.1, *FIRST)).stdout
        assert ledger.head in out
        err = released(shuffledp("run", "count", people, *COUNT, 0.1, *LATER, "--json")).stderr
        assert ledger.head in err
        words = ("randomize", people, "--task", "count", *COUNT, 0.1, *LATER, "--out", "m.parquet")
        out = released(shuffledp(*words)).stdout
        assert ledger.head in out

    def test_a_read_only_ledger_stops_everything(self, shuffledp, people, tmp_path):
        released(shuffledp("run", "count", people, *COUNT, 0.1, *FIRST))
        (tmp_path / "ledger.json").chmod(0o444)
        people.unlink()  # before any data are read
        text = refused(shuffledp("run", "count", people, *COUNT, 0.1, *LATER), 2)
        assert "is read-only; nothing was written" in text

    @pytest.mark.parametrize("engine", ["duckdb", "memory"])
    def test_dealt_tallies_are_charged(self, shuffledp, people, tmp_path, engine):
        released(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST, "--engine", engine))
        assert (tmp_path / "ledger.json").exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--ledger", "ledger.txt", *BUDGET), "must end in"),
            (("--ledger", "ledger.json", "--budget-epsilon", "1"), "belong together"),
            (("--ledger", "ledger.json", "--budget-reserve", "1e-7"), "needs --budget-epsilon"),
            (("--dataset", "x"), "need --ledger"),
            (("--ledger", "no/ledger.json", *BUDGET), "no/ledger.json"),
            (("--ledger", "no/ledger.db", *BUDGET), "no/ledger.db"),
        ],
    )
    def test_bad_options(self, shuffledp, people, words, message):
        people.unlink()  # what is wrong with the ledger shows before any data are read
        assert message in refused(shuffledp("run", "count", people, *COUNT, 0.5, *words), 2)

    def test_sqlite(self, shuffledp, people, tmp_path):
        words = ("--ledger", "ledger.sqlite")
        released(shuffledp("run", "count", people, *COUNT, 0.6, *words, *BUDGET))
        refused(shuffledp("run", "count", people, *COUNT, 0.6, *words), 3)
        assert sdp.ledger.Ledger(tmp_path / "ledger.sqlite").spent().releases == 1

    def test_reserve(self, shuffledp, people, tmp_path):
        reserve = (*FIRST, "--budget-reserve", "5e-7")
        released(shuffledp("run", "count", people, *COUNT, 0.5, *reserve))
        assert sdp.ledger.Ledger(tmp_path / "ledger.json").budget().reserve == 5e-7


def test_randomize_is_a_release(shuffledp, people):
    words = ("randomize", people, "--task", "count", *COUNT, 0.6)
    released(shuffledp(*words, "--out", "a.parquet", *FIRST))
    assert "refused" in refused(shuffledp(*words, "--out", "b.parquet", *LATER), 3)
    released(shuffledp("tally", "a.parquet", "--out", "t.json"))
    released(shuffledp("estimate", "t.json"))  # post-processing costs nothing
    shown = json.loads(released(shuffledp("ledger", "show", "ledger.json", "--json")).stdout)
    assert shown["data"]["spent"]["epsilon"] == 0.6


KILLED = """
import os, signal
from shuffledp.engine import Staged
Staged.publish = lambda self: os.kill(os.getpid(), signal.SIGKILL)
from shuffledp.cli import app
app()
"""


@pytest.mark.parametrize("name", ["ledger.json", "ledger.db"])
def test_killed_between_charge_and_release(shuffledp, people, tmp_path, name):
    """The answer never came out, and is counted."""
    words = ("run", "count", people, *COUNT, "0.6", "--ledger", name, *BUDGET, "--out", "r.json")
    child = subprocess.run(
        [sys.executable, "-c", KILLED, *map(str, words)],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert child.returncode < 0
    assert child.stdout == b""
    (entry,) = sdp.ledger.Ledger(tmp_path / name).entries()
    assert not entry.released
    refused(shuffledp("run", "count", people, *COUNT, 0.6, "--ledger", name), 3)
    assert "charged" in released(shuffledp("ledger", "show", name)).stdout


class TestOutputsThatFailAfterTheCharge:
    @pytest.fixture
    def full(self, monkeypatch):
        """The disk has room for the first output only."""
        real = Path.replace

        def replace(self, target):
            if Path(target).name == "r.html":
                raise OSError(errno.ENOSPC, "No space left on device", str(target))
            return real(self, target)

        monkeypatch.setattr(Path, "replace", replace)

    def words(self, people):
        outputs = ("--out", "r.json", "--plot", "r.html", "--force")
        return ("run", "count", people, *COUNT, 0.6, *FIRST, *outputs)

    def test_the_answer_is_shown(self, shuffledp, people, tmp_path, full):
        result = shuffledp(*self.words(people), "--json")
        assert result.exit_code == 2
        assert json.loads(result.stdout)["estimate"][0]["label"] == "count"
        assert "No space left" in result.stderr
        (entry,) = sdp.ledger.Ledger(tmp_path / "ledger.json").entries()
        assert entry.released

    def test_in_a_table_too(self, shuffledp, people, full):
        result = shuffledp(*self.words(people))
        assert result.exit_code == 2
        assert "count of home, 3,000 people" in result.stdout
        assert "Written" not in result.stdout

    @pytest.mark.parametrize("before", [None, "precious"])
    def test_no_output_is_left_alone(self, shuffledp, people, tmp_path, full, before):
        if before is not None:
            (tmp_path / "r.json").write_text(before)
        assert shuffledp(*self.words(people)).exit_code == 2
        assert not (tmp_path / "r.html").exists()
        assert (tmp_path / "r.json").exists() == (before is not None)
        if before is not None:
            assert (tmp_path / "r.json").read_text() == before
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".r")]

    def test_somebody_else_was_faster(self, tmp_path):
        first, second = tmp_path / "a", tmp_path / "b"
        with stage_outputs([first, second], force=False) as outputs:
            outputs[first].write_text("new")
            outputs[second].write_text("new")
            second.write_text("theirs")
            with pytest.raises(sdp.DataError, match="in the meantime"):
                outputs.publish()
        assert [path.name for path in tmp_path.iterdir()] == ["b"]
        assert second.read_text() == "theirs"

    def test_a_link_that_was_replaced_comes_back(self, tmp_path):
        first, second = tmp_path / "a", tmp_path / "b"
        first.symlink_to("elsewhere")
        with stage_outputs([first, second], force=True) as outputs:
            outputs[first].write_text("new")  # and b never
            with pytest.raises(FileNotFoundError):
                outputs.publish()
        assert first.is_symlink()


def test_two_commands_cannot_both_spend_the_last_of_it(people, tmp_path):
    words = ("run", "count", people, *COUNT, "0.6", *FIRST, "--json")
    code = "from shuffledp.cli import app; app()"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)], cwd=tmp_path,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    answers = [child.communicate() for child in both]
    assert sorted(child.returncode for child in both) == [0, 3], answers
    assert sorted(bool(out) for out, _ in answers) == [False, True]


class TestLedgerCommand:
    def test_show(self, shuffledp, people):
        released(shuffledp("run", "count", people, *COUNT, 0.5, *FIRST))
        released(shuffledp("run", "count", people, *COUNT, 0.25, *FIRST, "--dataset", "[b]other"))
        text = released(shuffledp("ledger", "show", "ledger.json")).stdout
        for words in (
            "data set data",
            "data set [b]other",
            "count of home",
            "released",
            "0.25 of 1",
        ):
            assert words in text
        shown = json.loads(released(shuffledp("ledger", "show", "ledger.json", "--json")).stdout)
        assert shown["data"]["budget"]["epsilon"] == 1.0
        assert shown["data"]["releases"][0]["released"] is True

    def test_budget(self, shuffledp, people):
        released(shuffledp("run", "count", people, *COUNT, 0.9, *FIRST))
        refused(shuffledp("run", "count", people, *COUNT, 0.9, *LATER), 3)
        wider = ("ledger", "budget", "ledger.json", "--delta", 1e-6, "--epsilon")
        assert "Spent already" not in released(shuffledp(*wider, 2)).stdout
        released(shuffledp("run", "count", people, *COUNT, 0.9, *LATER))
        told = released(shuffledp(*wider, 1)).stdout
        assert "Spent already: epsilon = 1.8, " in told
        assert "That is more: nothing else can be released." in told

    def test_verify(self, shuffledp, people, tmp_path):
        path = tmp_path / "ledger.json"
        heads = []
        for _ in range(2):
            released(shuffledp("run", "count", people, *COUNT, 0.1, *FIRST))
            heads.append(sdp.ledger.Ledger(path).head)
        whole = path.read_text()
        text = released(shuffledp("ledger", "verify", path)).stdout
        assert "the chain of 5 events is intact" in text
        assert heads[1] in text
        assert "Without --head" in text
        text = released(shuffledp("ledger", "verify", path, "--head", heads[0])).stdout
        assert "Nothing up to event 3 was changed or removed" in text
        assert "No head was given for the 2 events after it" in text
        both = ("--head", heads[0], "--head", heads[1])
        assert "It is the last one" in released(shuffledp("ledger", "verify", path, *both)).stdout
        found = json.loads(released(shuffledp("ledger", "verify", path, *both, "--json")).stdout)
        assert found == {"events": 5, "head": heads[1], "vouched": 5}
        shown = released(shuffledp("ledger", "show", path)).stdout
        assert f"Head: {heads[1]}" in shown
        # Somebody takes the last release back.
        content = json.loads(whole)
        content["events"] = content["events"][:3]
        path.write_text(json.dumps(content))
        released(shuffledp("ledger", "verify", path))
        text = refused(shuffledp("ledger", "verify", path, "--head", heads[1]), 2)
        assert "does not contain the head" in text
        path.write_text(whole.replace('"epsilon": 0.1', '"epsilon": 0.0', 1))
        assert "not an intact ledger" in refused(shuffledp("ledger", "verify", path), 2)
        path.write_text(whole)
        refused(shuffledp("ledger", "verify", path, "--head", "abc"), 2)

    def test_missing(self, shuffledp):
        assert "does not exist" in refused(shuffledp("ledger", "show", "nowhere.json"), 2)
        words = ("ledger", "budget", "nowhere.json", "--epsilon", 2, "--delta", 1e-6)
        assert "does not exist" in refused(shuffledp(*words), 2)
