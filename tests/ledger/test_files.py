"""A ledger as a file among others: links, permissions, full disks, crashes, and what reaches the disk."""

import multiprocessing
import os
import resource
import shutil
import sqlite3
import stat
import threading

import pytest

import shuffledp as sdp
from shuffledp.ledger import Budget, Ledger
from shuffledp.ledger import ledger as stores

BUDGET = Budget(epsilon=2.0, delta=1e-6)

# Newer Pythons warn of forks in a process with threads; these children touch a ledger and end.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(params=["ledger.json", "ledger.sqlite"])
def path(request, tmp_path):
    return tmp_path / request.param


def promise(epsilon=1.0):
    return sdp.Guarantee(epsilon=epsilon, delta=0.0, model=sdp.Model.SHUFFLE, proof="a proof")


def spend_all(*paths):
    """Charge epsilon 1 under each of these names in turn, until one is refused; returns how many went."""
    made = 0
    for each in paths * 2:
        try:
            Ledger(each).charge(promise(), budget=BUDGET)
        except sdp.BudgetError:
            break
        made += 1
    return made


class TestOneFile:
    """However a ledger is reached, it is one ledger."""

    def test_symbolic_link_to_the_file(self, path):
        link = path.with_name("link" + path.suffix)
        Ledger(path).charge(promise(0.0), budget=BUDGET)
        link.symlink_to(path.name)
        assert spend_all(link, path) == 2
        assert link.is_symlink()
        assert Ledger(link).path == path
        assert Ledger(link).spent() == Ledger(path).spent()

    def test_symbolic_link_to_nothing_yet(self, path):
        link = path.with_name("link" + path.suffix)
        link.symlink_to(path)
        assert spend_all(link, path) == 2
        assert link.is_symlink()

    def test_symbolic_link_to_the_folder(self, path, tmp_path):
        other = tmp_path / "elsewhere"
        other.symlink_to(tmp_path)
        assert spend_all(path, other / path.name) == 2

    def test_links_in_a_circle(self, path):
        other = path.with_name("other" + path.suffix)
        path.symlink_to(other)
        other.symlink_to(path)
        with pytest.raises(sdp.LedgerError):
            Ledger(path).charge(promise(), budget=BUDGET)

    def test_hard_links_are_refused(self, path):
        ledger = Ledger(path)
        ledger.charge(promise(), budget=BUDGET)
        before = path.read_bytes()
        second = path.with_name("second" + path.suffix)
        os.link(path, second)
        for each in (ledger, Ledger(second)):
            with pytest.raises(sdp.LedgerError, match="2 hard links"):
                each.charge(promise())
            with pytest.raises(sdp.LedgerError, match="2 hard links"):
                each.spent()
        second.unlink()
        assert path.read_bytes() == before
        assert ledger.spent().releases == 1

    def test_relative_paths_are_fixed_at_opening(self, path, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ledger = Ledger(path.name)
        ledger.charge(promise(), budget=BUDGET)
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        ledger.charge(promise())
        assert ledger.path == path
        assert list((tmp_path / "sub").iterdir()) == []
        with pytest.raises(sdp.BudgetError):
            ledger.charge(promise())

    def test_a_ledger_that_becomes_a_link_is_refused(self, path):
        ledger = Ledger(path)
        ledger.charge(promise(), budget=BUDGET)
        moved = path.with_name("moved" + path.suffix)
        path.rename(moved)
        path.symlink_to(moved)
        for use in (ledger.spent, lambda: ledger.charge(promise())):
            with pytest.raises(sdp.LedgerError, match="has become a symbolic link"):
                use()
        assert Ledger(path).spent().releases == 1

    def test_a_folder_or_a_pipe_is_refused(self, path):
        os.mkfifo(path)
        with pytest.raises(sdp.LedgerError, match="not a regular file"):
            Ledger(path).spent()
        path.unlink()
        path.mkdir()
        with pytest.raises(sdp.LedgerError, match="Is a directory"):
            Ledger(path).charge(promise(), budget=BUDGET)


class TestPermissions:
    def test_a_read_only_ledger_is_refused_and_not_replaced(self, path):
        Ledger(path).charge(promise(), budget=BUDGET)
        before = path.read_bytes(), path.stat().st_ino
        path.chmod(0o444)
        with pytest.raises(sdp.LedgerError, match="is read-only; nothing was written"):
            Ledger(path).charge(promise())
        assert (path.read_bytes(), path.stat().st_ino) == before
        assert Ledger(path).spent().releases == 1
        path.chmod(0o644)
        Ledger(path).charge(promise())

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
    def test_permissions_stay(self, path, mode):
        Ledger(path).charge(promise(), budget=BUDGET)
        path.chmod(mode)
        Ledger(path).charge(promise())
        assert stat.S_IMODE(path.stat().st_mode) == mode

    def test_no_folder(self, path):
        with pytest.raises(sdp.LedgerError, match="cannot be written"):
            Ledger(path.parent / "no" / path.name).charge(promise(), budget=BUDGET)


class TestLock:
    def test_there_is_no_lock_file_to_lose(self, tmp_path):
        """Everything that is not the ledger can be deleted while a process decides."""
        path = tmp_path / "ledger.json"
        ledger = Ledger(path)
        ledger.charge(promise(0.5), budget=BUDGET)
        rival = threading.Thread(target=Ledger(path).charge, args=(promise(0.5),))

        def decide(events):
            for each in tmp_path.iterdir():
                assert each == path
            rival.start()
            rival.join(0.2)
            assert rival.is_alive(), "it waits"
            return []

        ledger._store.append(decide)
        rival.join()
        assert ledger.spent().releases == 2
        assert list(tmp_path.iterdir()) == [path]

    def test_a_forked_child_does_not_keep_the_lock(self, tmp_path):
        """A child inherits the descriptor; the lock is gone with the charge all the same."""
        ledger = Ledger(tmp_path / "ledger.json")
        reader, writer = os.pipe()
        children = []

        def decide(events):
            child = os.fork()
            if child == 0:  # pragma: no cover
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            children.append(child)
            return []

        ledger._store.append(decide)
        ledger.charge(promise(), budget=BUDGET)
        os.close(writer)
        os.close(reader)
        os.waitpid(children[0], 0)


class Recorder:
    """The calls that make a file durable, in order, and what was in the file when it was synced."""

    def __init__(self, monkeypatch, folder):
        self.calls = []
        self.contents = []
        self._folder = folder
        self._real = os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)

    def fsync(self, handle):
        known = os.fstat(handle)
        if stat.S_ISDIR(known.st_mode):
            assert known.st_ino == self._folder.stat().st_ino
            self.calls.append("sync folder")
        else:
            names = [each for each in self._folder.iterdir() if each.stat().st_ino == known.st_ino]
            self.contents.append(names[0].read_bytes())
            self.calls.append("sync file")
        self._real[0](handle)

    def replace(self, *arguments, **options):
        self._real[1](*arguments, **options)
        self.calls.append("replace")


class TestDurability:
    """What `charge` returned survives a power cut: the calls that see to it, in their order."""

    def test_json(self, tmp_path, monkeypatch):
        ledger = Ledger(tmp_path / "ledger.json")
        ledger.charge(promise(0.5), budget=BUDGET)
        recorder = Recorder(monkeypatch, tmp_path)
        entry = ledger.charge(promise(0.5), key="k")
        assert recorder.calls == ["sync file", "replace", "sync folder"]
        assert recorder.contents == [ledger.path.read_bytes()]
        assert entry.id.encode() in recorder.contents[0]

    def test_a_repeated_charge_is_made_safe_too(self, path, tmp_path, monkeypatch):
        """The first attempt may have died between its last two calls."""
        ledger = Ledger(path)
        ledger.charge(promise(), budget=BUDGET, key="k")
        recorder = Recorder(monkeypatch, tmp_path)
        ledger.charge(promise(), key="k")
        assert recorder.calls == ["sync folder"]

    def test_sqlite(self, tmp_path, monkeypatch):
        """SQLite syncs by itself, if it is told to, at the moment of the commit."""
        at_commit = []

        class Watched(sqlite3.Connection):
            def execute(self, statement, *arguments):
                if statement == "COMMIT":
                    at_commit.append(super().execute("PRAGMA synchronous").fetchone()[0])
                    at_commit.append(super().execute("PRAGMA journal_mode").fetchone()[0])
                return super().execute(statement, *arguments)

        real = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: real(*a, factory=Watched, **o))
        ledger = Ledger(tmp_path / "ledger.db")
        recorder = Recorder(monkeypatch, tmp_path)
        ledger.charge(promise(), budget=BUDGET)
        assert at_commit == [3, "delete"]  # 3 is EXTRA
        assert recorder.calls == ["replace", "sync folder"]

    def test_a_failing_commit_is_not_called_unwritten(self, tmp_path, monkeypatch):
        class Failing(sqlite3.Connection):
            def execute(self, statement, *arguments):
                if statement == "COMMIT":
                    raise sqlite3.OperationalError("disk I/O error")
                return super().execute(statement, *arguments)

        ledger = Ledger(tmp_path / "ledger.db")
        ledger.charge(promise(0.1), budget=BUDGET)
        real = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: real(*a, factory=Failing, **o))
        with pytest.raises(sdp.LedgerError, match="does not confirm what was written") as failure:
            ledger.charge(promise(0.1))
        assert "nothing was written" not in str(failure.value)


def in_child(work, *arguments):
    """Run in a forked child, which may die; returns its exit code."""
    child = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    child.start()
    child.join()
    return child.exitcode


class TestCrashes:
    """The process dies at the worst moments; the ledger is whole, and what was confirmed is counted."""

    @staticmethod
    def charge_and_die(path, name, before, budget):
        real = getattr(os, name)

        def die(*arguments, **options):
            if not before:
                real(*arguments, **options)
            os._exit(77)

        setattr(os, name, die)
        Ledger(path).charge(promise(0.5), key="k", budget=budget)

    @pytest.mark.parametrize(
        ("name", "before", "counted"),
        [
            ("fchmod", True, 1),  # after writing, before the sync
            ("fsync", True, 1),
            ("fsync", False, 1),
            ("replace", True, 1),  # between write and rename
            ("replace", False, 2),  # between rename and the sync of the folder
        ],
    )
    def test_json(self, tmp_path, name, before, counted):
        path = tmp_path / "ledger.json"
        Ledger(path).charge(promise(0.5), budget=BUDGET)
        assert in_child(self.charge_and_die, path, name, before, None) == 77
        assert Ledger(path).spent().releases == counted
        Ledger(path).charge(promise(0.5), key="k")  # repeated after the crash
        assert Ledger(path).spent().releases == 2
        assert list(tmp_path.iterdir()) == [path], "nothing is left over"

    @pytest.mark.parametrize("before", [True, False])
    def test_sqlite_when_it_is_made(self, tmp_path, before):
        path = tmp_path / "ledger.db"
        assert in_child(self.charge_and_die, path, "replace", before, BUDGET) == 77
        assert path.exists() == (not before)
        Ledger(path).charge(promise(), budget=BUDGET)
        assert Ledger(path).spent().releases == 1
        assert list(tmp_path.iterdir()) == [path]

    def test_an_empty_database_file_is_damage(self, tmp_path):
        """Not a fresh start: a new database is put in place whole."""
        path = tmp_path / "ledger.db"
        Ledger(path).charge(promise(), budget=BUDGET)
        os.truncate(path, 0)
        with pytest.raises(sdp.LedgerError, match="not an intact ledger"):
            Ledger(path).charge(promise(), budget=BUDGET)
        assert path.stat().st_size == 0


class TestFullDisk:
    """Files may not grow beyond what the ledger has now: the kernel refuses the write."""

    @staticmethod
    def charge_without_room(path, report):
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        ledger = Ledger(path)
        try:
            for _ in range(100):
                ledger.charge(promise(1e-6), note={"text": "x" * 2000})
        except sdp.LedgerError as error:
            report.send(str(error))

    def test_nothing_is_lost(self, path):
        ledger = Ledger(path)
        first = ledger.charge(promise(0.5), budget=BUDGET)
        here, there = multiprocessing.Pipe(duplex=False)
        assert in_child(self.charge_without_room, path, there) == 0
        assert here.poll()
        message = here.recv()
        assert "nothing was written" in message or "does not confirm" in message
        found = ledger.entries()
        assert found[0].id == first.id
        ledger.verify(first.head)
        ledger.charge(promise(0.5))
        assert len(ledger.entries()) == len(found) + 1
        assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_leftover_that_is_a_link_is_not_written_through(tmp_path):
    """Where the new file goes somebody has put a link to something precious."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    path = tmp_path / "ledger.json"
    (tmp_path / ".ledger.json.new").symlink_to(precious)
    Ledger(path).charge(promise(), budget=BUDGET)
    assert precious.read_text() == "mine"
    assert Ledger(path).spent().releases == 1


def test_a_copy_is_another_ledger(path):
    """Copies cannot be told apart from their originals: this is what heads are for."""
    ledger = Ledger(path)
    ledger.charge(promise(), budget=BUDGET)
    copy = Ledger(path.with_name("copy" + path.suffix))
    shutil.copy(path, copy.path)
    one, two = ledger.charge(promise()), copy.charge(promise())
    ledger.verify(one.head)
    copy.verify(two.head)
    for wrong, head in ((ledger, two.head), (copy, one.head)):
        with pytest.raises(sdp.LedgerError, match="does not contain the head"):
            wrong.verify(head)


def test_stores_are_chosen_by_what_a_link_leads_to(tmp_path):
    (tmp_path / "ledger.json").symlink_to(tmp_path / "real.db")
    assert isinstance(stores.open_store(tmp_path / "ledger.json"), stores.SqliteStore)
