"""The ledger as a file: what is kept, what is refused, what survives crashes and rivals."""

import json
import multiprocessing
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time

import pytest

import shuffledp as sdp
from shuffledp.ledger import Budget, Ledger, Spending
from shuffledp.ledger.budget import seal

BUDGET = Budget(epsilon=1.0, delta=1e-6)


@pytest.fixture(params=["ledger.json", "ledger.sqlite"])
def path(request, tmp_path):
    return tmp_path / request.param


def promise(epsilon=0.4, delta=1e-7):
    return sdp.Guarantee(
        epsilon=epsilon, delta=delta, model=sdp.Model.SHUFFLE, proof="a proof", honest=9
    )


class TestEntries:
    def test_what_was_charged_is_there_again(self, path):
        ledger = Ledger(path)
        first = ledger.charge(promise(), budget=BUDGET, note={"task": "count", "column": "größe"})
        second = ledger.charge(promise(0.2))
        ledger.mark_released(first)
        again = Ledger(path)
        assert [entry.id for entry in again.entries()] == [first.id, second.id]
        assert [entry.released for entry in again.entries()] == [True, False]
        assert again.entries()[0].note == {"task": "count", "column": "größe"}
        assert again.entries()[0].guarantee == promise()
        assert again.budget() == BUDGET
        assert (again.spent().releases, again.spent().epsilon, again.spent().delta) == (
            2,
            0.6,
            2e-7,
        )

    def test_a_refused_release_writes_nothing(self, path):
        ledger = Ledger(path)
        with pytest.raises(sdp.BudgetError, match=r"epsilon would be 1\.5"):
            ledger.charge(promise(1.5), budget=BUDGET)
        assert list(path.parent.iterdir()) == []
        ledger.charge(promise(), budget=BUDGET)
        before = path.read_bytes()
        with pytest.raises(sdp.BudgetError, match=r"epsilon would be 1\.1.*1 earlier release"):
            ledger.charge(promise(0.7))
        with pytest.raises(sdp.BudgetError, match="delta would be"):
            ledger.charge(promise(0.1, 1e-6))
        assert path.read_bytes() == before

    def test_the_last_bit_can_be_spent(self, path):
        ledger = Ledger(path)
        for _ in range(10):
            ledger.charge(promise(0.1, 1e-7), budget=BUDGET)
        with pytest.raises(sdp.BudgetError):
            ledger.charge(promise(1e-9, 0.0))

    def test_data_sets_are_apart(self, path):
        ledger = Ledger(path)
        ledger.charge(promise(1.0), dataset="a", budget=BUDGET)
        ledger.charge(promise(0.5), dataset="b", budget=BUDGET)
        assert ledger.datasets == ("a", "b")
        assert (ledger.spent("a").epsilon, ledger.spent("b").epsilon) == (1.0, 0.5)
        with pytest.raises(sdp.LedgerError, match="knows no data set 'c'"):
            ledger.spent("c")

    def test_budget_is_stated_once(self, path):
        ledger = Ledger(path)
        with pytest.raises(sdp.LedgerError, match="no budget yet"):
            ledger.charge(promise())
        ledger.charge(promise(), budget=BUDGET)
        with pytest.raises(sdp.LedgerError, match=r"is epsilon = 1\.0.*not epsilon = 2\.0"):
            ledger.charge(promise(), budget=Budget(epsilon=2.0, delta=1e-6))
        with pytest.raises(sdp.LedgerError, match="cannot be changed"):
            ledger.charge(promise(), budget=Budget(epsilon=1.0, delta=1e-6, reserve=1e-7))
        assert ledger.spent().releases == 1

    def test_changing_the_budget_is_explicit_and_written_down(self, path):
        ledger = Ledger(path)
        with pytest.raises(sdp.LedgerError, match="knows no data set"):
            ledger.change_budget(epsilon=2.0, delta=1e-6)
        ledger.charge(promise(0.9), budget=Budget(epsilon=1.0, delta=1e-6, reserve=1e-7))
        order = ledger.budget().alpha
        ledger.change_budget(epsilon=2.0, delta=2e-6)
        assert ledger.budget() == Budget(epsilon=2.0, delta=2e-6, reserve=1e-7, alpha=order)
        ledger.charge(promise(0.9))
        ledger.change_budget(epsilon=1.0, delta=1e-6)
        with pytest.raises(sdp.BudgetError):
            ledger.charge(promise(0.1, 0.0))

    def test_marking_what_was_never_charged(self, path, tmp_path):
        ledger, other = Ledger(path), Ledger(tmp_path / "other.json")
        ledger.charge(promise(), budget=BUDGET)
        stranger = other.charge(promise(), budget=BUDGET)
        with pytest.raises(sdp.LedgerError, match="has no charge"):
            ledger.mark_released(stranger)

    @pytest.mark.parametrize("name", ["ledger.txt", "ledger", "ledger.json.gz"])
    def test_other_names_are_refused(self, tmp_path, name):
        with pytest.raises(sdp.UnsupportedError, match="must end in"):
            Ledger(tmp_path / name)

    def test_empty_name_of_a_data_set(self, path):
        with pytest.raises(sdp.ParameterError, match="dataset"):
            Ledger(path).charge(promise(), dataset=" ", budget=BUDGET)


class TestKeys:
    """The same key is charged once, however often a crash repeats it."""

    def test_repeated_charges_are_one(self, path):
        ledger = Ledger(path)
        asked = {"dataset": "people", "note": {"batch": 7}, "key": "batch 7"}
        first = ledger.charge(promise(), budget=BUDGET, **asked)
        before = path.read_bytes()
        for _ in range(3):
            assert Ledger(path).charge(promise(), **asked) == first
        assert path.read_bytes() == before
        assert ledger.spent("people").releases == 1
        assert ledger.entries("people")[0].key == "batch 7"

    def test_a_repeated_charge_needs_no_room_in_the_budget(self, path):
        ledger = Ledger(path)
        first = ledger.charge(promise(1.0), budget=BUDGET, key="all of it")
        assert ledger.charge(promise(1.0), key="all of it").id == first.id
        with pytest.raises(sdp.BudgetError):
            ledger.charge(promise(1.0), key="more")

    def test_what_was_released_says_so_when_it_is_charged_again(self, path):
        ledger = Ledger(path)
        first = ledger.charge(promise(), budget=BUDGET, key="k")
        assert not ledger.charge(promise(), key="k").released
        ledger.mark_released(first)
        assert ledger.charge(promise(), key="k").released

    @pytest.mark.parametrize(
        ("other", "what"),
        [
            ({"guarantee": sdp.Guarantee(epsilon=0.3, delta=1e-7, model=sdp.Model.SHUFFLE, proof="a proof", honest=9)}, "guarantee"),
            ({"guarantee": sdp.Guarantee(epsilon=0.4, delta=1e-7, model=sdp.Model.LOCAL, proof="a proof", honest=9)}, "guarantee"),
            ({"dataset": "others", "budget": BUDGET}, "dataset"),
            ({"note": {"batch": 8}}, "note"),
            ({"note": None}, "note"),
        ],
    )  # fmt: skip
    def test_another_charge_under_a_used_key_is_an_error(self, path, other, what):
        ledger = Ledger(path)
        asked = {"guarantee": promise(), "note": {"batch": 7}, "key": "k"}
        ledger.charge(**asked, budget=BUDGET)
        before = path.read_bytes()
        with pytest.raises(
            sdp.LedgerError, match=f"key 'k' was used for another charge: its {what}"
        ):
            ledger.charge(**(asked | other))
        assert path.read_bytes() == before

    def test_without_a_key_every_charge_counts(self, path):
        ledger = Ledger(path)
        for _ in range(2):
            ledger.charge(promise(), budget=BUDGET)
        assert ledger.spent().releases == 2

    def test_notes_are_compared_as_they_are_read_again(self, path):
        ledger = Ledger(path)
        first = ledger.charge(promise(), budget=BUDGET, note={"bins": (1, 2), 3: "x"}, key="k")
        assert ledger.charge(promise(), note={"bins": [1, 2], "3": "x"}, key="k").id == first.id

    @pytest.mark.parametrize("key", ["", "  ", 7, "x" * 2000, b"k"])
    def test_bad_keys(self, path, key):
        with pytest.raises(sdp.ParameterError, match="key="):
            Ledger(path).charge(promise(), budget=BUDGET, key=key)

    @pytest.mark.parametrize("note", [{"x": {1, 2}}, {"x": float("nan")}, [1], {"x": object()}])
    def test_bad_notes(self, path, note):
        with pytest.raises(sdp.ParameterError, match="note="):
            Ledger(path).charge(promise(), budget=BUDGET, note=note)
        assert not path.exists()


class TestHeads:
    """What a head that somebody noted can tell, and what it cannot."""

    def filled(self, path, charges=4):
        ledger = Ledger(path)
        return ledger, [ledger.charge(promise(0.1), budget=BUDGET).head for _ in range(charges)]

    def cut(self, path, events):
        """Take the last events away, as somebody would who wants the budget back."""
        if path.suffix == ".json":
            content = json.loads(path.read_text())
            content["events"] = content["events"][:-events]
            path.write_text(json.dumps(content))
            return
        with sqlite3.connect(path) as database:
            database.execute(
                "DELETE FROM events WHERE place IN "
                "(SELECT place FROM events ORDER BY place DESC LIMIT ?)",
                (events,),
            )
        database.close()

    def test_every_head_stays_valid(self, path):
        ledger, heads = self.filled(path)
        assert ledger.head == heads[-1]
        assert [ledger.verify(head).vouched for head in heads] == [2, 3, 4, 5]
        assert ledger.verify(*heads).vouched == ledger.verify().events == 5
        assert ledger.verify(heads[2], heads[0]).vouched == 4, "in whatever order they are given"
        assert ledger.verify().vouched == 0
        assert [entry.head for entry in ledger.entries()] == heads

    def test_marks_and_budgets_move_the_head(self, path):
        ledger, heads = self.filled(path)
        marked = ledger.mark_released(ledger.entries()[0])
        assert marked == ledger.head != heads[-1]
        assert ledger.mark_released(ledger.entries()[0]) == marked, "it was marked already"
        changed = ledger.change_budget(epsilon=3.0, delta=1e-6)
        assert ledger.verify(heads[0], marked, changed).vouched == 7

    def test_removing_the_last_entries_is_noticed_by_their_heads_alone(self, path):
        ledger, heads = self.filled(path)
        self.cut(path, 2)
        assert ledger.spent().releases == 2, "the chain itself is whole"
        assert ledger.verify(heads[1]).vouched == ledger.verify().events == 3
        for head in heads[2:]:
            with pytest.raises(sdp.LedgerError, match="does not contain the head"):
                ledger.verify(head)
            with pytest.raises(sdp.LedgerError, match="does not contain the head"):
                ledger.verify(heads[0], head)

    def test_a_ledger_written_anew_is_noticed(self, path):
        _, heads = self.filled(path)
        path.unlink()
        again, _ = self.filled(path)
        with pytest.raises(sdp.LedgerError, match="does not contain the head"):
            again.verify(heads[0])

    @pytest.mark.parametrize("head", ["", "abc", "g" * 64, "0" * 63, 7])
    def test_what_is_no_head(self, path, head):
        ledger, _ = self.filled(path)
        with pytest.raises(sdp.ParameterError, match="64 hexadecimal digits"):
            ledger.verify(head)

    def test_an_empty_ledger(self, path):
        assert Ledger(path).head is None
        assert (Ledger(path).verify().events, Ledger(path).verify().head) == (0, None)


class TestDamage:
    def filled(self, path):
        ledger = Ledger(path)
        for _ in range(2):
            ledger.charge(promise(), budget=BUDGET)
        return ledger

    def damaged(self, path, content):
        path.write_bytes(content)
        with pytest.raises(sdp.LedgerError, match="not an intact ledger"):
            Ledger(path).charge(promise(0.1))
        with pytest.raises(sdp.LedgerError, match="not an intact ledger"):
            Ledger(path).spent()
        assert path.read_bytes() == content, "what is left of it is left alone"

    @pytest.mark.parametrize(
        "content", [b"", b"{}", b"[1]", b"not json", b"\xff\xfe\x00", b"{" * 5000]
    )
    def test_foreign_json(self, tmp_path, content):
        self.damaged(tmp_path / "ledger.json", content)

    def test_foreign_sqlite(self, tmp_path):
        self.damaged(tmp_path / "ledger.db", b"not a database, but long enough to look at" * 50)
        other = tmp_path / "other.db"
        with sqlite3.connect(other) as database:
            database.execute("CREATE TABLE events (something TEXT)")
        database.close()
        self.damaged(other, other.read_bytes())

    def test_truncated(self, path):
        self.filled(path)
        whole = path.read_bytes()
        self.damaged(path, whole[: len(whole) // 2])

    def test_one_digit_changed(self, path):
        self.filled(path)
        content = path.read_bytes()
        assert b'"epsilon": 0.4' in content
        self.damaged(path, content.replace(b'"epsilon": 0.4', b'"epsilon": 0.1', 1))

    @pytest.mark.parametrize("value", ["NaN", "1e999", "-Infinity"])
    def test_numbers_that_are_not_json(self, tmp_path, value):
        path = tmp_path / "ledger.json"
        self.filled(path)
        self.damaged(
            path, path.read_bytes().replace(b'"epsilon": 0.4', b'"epsilon": ' + value.encode(), 1)
        )

    def test_the_last_line_is_cut(self, tmp_path):
        path = tmp_path / "ledger.json"
        self.filled(path)
        whole = path.read_bytes()
        for missing in (2, 5, 40, 400):
            self.damaged(path, whole[:-missing])

    def test_events_in_another_order(self, tmp_path):
        path = tmp_path / "ledger.json"
        self.filled(path)
        content = json.loads(path.read_text())
        content["events"][1:3] = content["events"][2:0:-1]
        self.damaged(path, json.dumps(content).encode())

    @pytest.mark.parametrize(
        "event",
        [
            {"event": "charge", "dataset": "nobody"},
            {"event": "release", "dataset": "data", "id": "unknown"},
            {"event": "gift", "dataset": "data"},
            {"event": "budget", "dataset": ["data"]},
            {"dataset": "data"},
        ],
    )
    def test_well_chained_nonsense(self, tmp_path, event):
        """Somebody recomputed the digests: the events must still make sense."""
        path = tmp_path / "ledger.json"
        self.filled(path)
        content = json.loads(path.read_text())
        content["events"] += seal(content["events"], [event])
        path.write_text(json.dumps(content))
        with pytest.raises(sdp.LedgerError, match="event 4 makes no sense"):
            Ledger(path).charge(promise(0.1))
        with pytest.raises(sdp.LedgerError, match="event 4 makes no sense"):
            Ledger(path).verify()

    def test_a_charge_written_twice(self, tmp_path):
        """One id for two charges would count once."""
        path = tmp_path / "ledger.json"
        self.filled(path)
        content = json.loads(path.read_text())
        again = {key: value for key, value in content["events"][-1].items() if key != "digest"}
        content["events"] += seal(content["events"], [again])
        path.write_text(json.dumps(content))
        with pytest.raises(sdp.LedgerError, match="occurs twice"):
            Ledger(path).spent()

    def test_an_entry_taken_out(self, tmp_path):
        path = tmp_path / "ledger.json"
        self.filled(path)
        content = json.loads(path.read_text())
        del content["events"][1]
        self.damaged(path, json.dumps(content).encode())

    def test_an_interrupted_write_leaves_the_old_ledger(self, tmp_path, monkeypatch):
        path = tmp_path / "ledger.json"
        ledger = self.filled(path)
        before = path.read_bytes()

        def fail(handle):
            raise OSError("no space left")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(sdp.LedgerError, match="no space left; nothing was written"):
            ledger.charge(promise(0.1))
        assert path.read_bytes() == before
        assert not list(tmp_path.glob("*.new"))

    def test_a_ledger_that_the_disk_does_not_confirm(self, tmp_path, monkeypatch):
        path = tmp_path / "ledger.json"
        ledger = self.filled(path)
        before, real = len(ledger.entries()), os.fsync

        def fail(handle):
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError("the disk is gone")
            real(handle)

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(sdp.LedgerError, match="the disk does not confirm what was written"):
            ledger.charge(promise(0.1))
        assert len(ledger.entries()) == before + 1

    def test_a_ledger_in_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(sdp.LedgerError, match="cannot be written: No such file"):
            Ledger(tmp_path / "no" / "ledger.json").charge(promise(), budget=BUDGET)

    def test_a_ledger_that_is_a_folder(self, tmp_path):
        (tmp_path / "ledger.json").mkdir()
        with pytest.raises(sdp.LedgerError, match="cannot be read: Is a directory"):
            Ledger(tmp_path / "ledger.json").entries()


RIVAL = """
import sys
import shuffledp as sdp
from shuffledp.ledger import Budget, Ledger, Spending
promise = sdp.Guarantee(epsilon=0.1, delta=1e-8, model=sdp.Model.LOCAL, proof="p")
ledger, made = Ledger(sys.argv[1]), 0
sys.stdin.readline()
for _ in range(12):
    try:
        entry = ledger.charge(promise, budget=Budget(epsilon=2.0, delta=1e-6))
    except sdp.BudgetError:
        continue
    ledger.mark_released(entry)
    made += 1
print(made)
"""


class TestRivals:
    def test_processes_cannot_spend_the_same_budget_twice(self, path):
        """Four processes want 48 releases; the budget has room for exactly 20."""
        rivals = [
            subprocess.Popen(
                [sys.executable, "-c", RIVAL, str(path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for _ in range(4)
        ]  # fmt: skip
        for rival in rivals:
            rival.stdin.write("go\n")
            rival.stdin.flush()
        made = [int(rival.communicate()[0]) for rival in rivals]
        assert [rival.returncode for rival in rivals] == [0, 0, 0, 0]
        assert sum(made) == 20
        assert Ledger(path).spent().releases == 20
        assert all(entry.released for entry in Ledger(path).entries())

    def test_processes_that_repeat_one_charge_make_it_once(self, path):
        """Four processes charge the same twelve keys at the same time."""
        keyed = RIVAL.replace("for _ in range(12)", "for place in range(12)").replace(
            "charge(promise,", "charge(promise, key=str(place),"
        )
        rivals = [
            subprocess.Popen([sys.executable, "-c", keyed, str(path)], stdin=subprocess.PIPE)
            for _ in range(4)
        ]
        for rival in rivals:
            rival.stdin.write(b"go\n")
            rival.stdin.flush()
        for rival in rivals:
            rival.communicate()
        assert [rival.returncode for rival in rivals] == [0, 0, 0, 0]
        assert sorted(entry.key for entry in Ledger(path).entries()) == sorted(map(str, range(12)))

    def test_a_process_killed_after_the_charge_has_spent_it(self, path):
        ready, child = _start(path, _charge_and_hang)
        ready.recv()
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        (entry,) = Ledger(path).entries()
        assert not entry.released
        assert Ledger(path).spent().epsilon == 0.4
        Ledger(path).charge(promise(0.6))  # nobody holds the lock any more
        with pytest.raises(sdp.BudgetError):
            Ledger(path).charge(promise(0.1))

    def test_killed_at_any_moment_the_ledger_is_whole(self, path):
        """Kill a process that charges in a loop: what it reported is there, and little more."""
        for wait in (0.02, 0.05):
            before = _releases(path)
            reports, child = _start(path, _charge_forever)
            reports.recv()
            time.sleep(wait)
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            seen = 1
            try:
                while reports.poll():
                    reports.recv()
                    seen += 1
            except EOFError:
                pass
            assert before + seen <= _releases(path) <= before + seen + 1

    def test_a_lock_that_is_never_released_is_an_error(self, tmp_path, monkeypatch):
        from shuffledp.ledger import ledger as stores

        monkeypatch.setattr(stores, "_WAIT_SECONDS", 0.05)
        path = tmp_path / "ledger.json"
        held, refused = (
            stores._lock_folder(path),
            pytest.raises(sdp.LedgerError, match="locked by another process"),
        )
        with held, refused:
            Ledger(path).charge(promise(), budget=BUDGET)

    def test_a_database_that_is_never_unlocked_is_an_error(self, tmp_path, monkeypatch):
        from shuffledp.ledger import ledger as stores

        monkeypatch.setattr(stores, "_WAIT_SECONDS", 0.05)
        path = tmp_path / "ledger.db"
        Ledger(path).charge(promise(), budget=BUDGET)
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("BEGIN IMMEDIATE")
        with pytest.raises(sdp.LedgerError, match="locked; nothing was written"):
            Ledger(path).charge(promise(0.1))
        database.close()


def _start(path, work):
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(path, there))
    child.start()
    there.close()
    return here, child


def _charge_and_hang(path, report):
    Ledger(path).charge(promise(), budget=BUDGET)
    report.send("charged")
    time.sleep(60)


def _charge_forever(path, report):
    ledger = Ledger(path)
    while True:
        ledger.charge(promise(1e-6, 0.0), budget=BUDGET)
        report.send("charged")


def _releases(path):
    return len(Ledger(path).entries()) if path.exists() else 0


class TestSpending:
    def test_what_is_spent_in_whole_sentences(self, path):
        spending = Spending(ledger=Ledger(path), budget=BUDGET, dataset="people")
        note = {"task": "count"}
        spending.check(promise(), note)
        assert not path.exists()
        entry = spending.charge(promise(), note)
        assert (entry.dataset, entry.note) == ("people", note)
        said = spending.mark_released(entry)
        head = spending.ledger.head
        assert said == (
            f"Spent of data set 'people': epsilon 0.4 of {BUDGET.epsilon:g}, delta 1e-07 of "
            f"{BUDGET.delta:g}, in 1 release.\nHead of the ledger, to note elsewhere: {head}"
        )
        again = Spending(ledger=Ledger(path), dataset="people")
        second = again.charge(promise(0.2), note)
        assert ", in 2 releases.\n" in again.mark_released(second)

    def test_a_budget_is_not_stated_below_itself(self, path):
        budget = Budget(epsilon=1.2345641, delta=1.231e-6)
        spending = Spending(ledger=Ledger(path), budget=budget, dataset="people")
        said = spending.mark_released(spending.charge(promise(), {"task": "count"}))
        assert "epsilon 0.4 of 1.23457, delta 1e-07 of 1.24e-06, in 1 release" in said

    def test_what_could_not_be_charged_is_refused_before(self, path):
        spending = Spending(ledger=Ledger(path), budget=BUDGET)
        with pytest.raises(sdp.BudgetError, match=r"epsilon would be 1\.5"):
            spending.check(promise(1.5), {})
        with pytest.raises(sdp.ParameterError, match=r"^note="):
            spending.check(promise(), {"a": float("nan")})
        assert not path.exists()

    def test_the_first_release_states_the_budget(self, path):
        with pytest.raises(sdp.LedgerError) as caught:
            Spending(ledger=Ledger(path), dataset="people")
        assert str(caught.value) == (
            f"{Ledger(path).path} has no budget for data set 'people' yet: state it with the first release, "
            "on the command line with budget_epsilon and budget_delta"
        )

    def test_a_folder_must_be_there(self, path):
        lost = path.parent / "lost" / path.name
        for look in (
            Ledger(lost).check_writable,
            lambda: Spending(ledger=Ledger(lost), budget=BUDGET),
        ):
            with pytest.raises(sdp.LedgerError) as caught:
                look()
            assert str(caught.value) == (
                f"ledger {Ledger(lost).path} cannot be written: its folder does not exist"
            )


@pytest.mark.parametrize("name", ["x" * 1001, "", " ", None, 3])
def test_names_of_data_sets_have_1_to_1000_characters(tmp_path, name):
    ledger = Ledger(tmp_path / "ledger.json")
    with pytest.raises(sdp.ParameterError) as caught:
        ledger.charge(promise(), dataset=name, budget=BUDGET)
    assert str(caught.value).endswith("must be a text of 1 to 1000 characters")
    assert ledger.charge(promise(), dataset="x" * 1000, budget=BUDGET).dataset == "x" * 1000
