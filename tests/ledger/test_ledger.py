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
from shuffledp.ledger import Budget, Ledger

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
        with pytest.raises(sdp.BudgetError, match=r"epsilon would be 1\.1.*1 release before"):
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
        with pytest.raises(sdp.LedgerError, match="written, but the disk does not confirm it"):
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
from shuffledp.ledger import Budget, Ledger
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
        from shuffledp.ledger import stores

        monkeypatch.setattr(stores, "_WAIT_SECONDS", 0.05)
        path = tmp_path / "ledger.json"
        held, refused = (
            stores._locked(tmp_path / "ledger.json.lock"),
            pytest.raises(sdp.LedgerError, match="held by another process"),
        )
        with held, refused:
            Ledger(path).charge(promise(), budget=BUDGET)

    def test_a_database_that_is_never_unlocked_is_an_error(self, tmp_path, monkeypatch):
        from shuffledp.ledger import stores

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
