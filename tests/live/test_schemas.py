"""Stores of earlier versions are brought up to date when they are opened; those of later versions are refused."""

import os
import sqlite3
import stat
from contextlib import closing

import pytest

import live_support as live
import shuffledp as sdp
from live.test_roles import COLLECTION, hand_over, open_analyzer, open_shuffler
from shuffledp.live import analyzer as analyzer_role
from shuffledp.live import device as device_role
from shuffledp.live import store as shuffler_store
from shuffledp.live.device import Device, Sending
from shuffledp.live.shuffler import open_reports
from shuffledp.live.store import SqliteStore, State, open_database

# As version 0.2.0 made them before versions were counted: never change these.
SHUFFLER = """
CREATE TABLE collection (id BLOB PRIMARY KEY);
CREATE TABLE windows (window INTEGER PRIMARY KEY, state TEXT NOT NULL, reports INTEGER NOT NULL, sha256 BLOB);
CREATE TABLE reports (
    window INTEGER NOT NULL, id BLOB NOT NULL, inners BLOB NOT NULL, PRIMARY KEY (window, id)) WITHOUT ROWID;
CREATE TABLE tokens (hash BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE issued (hash BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE beats (one INTEGER PRIMARY KEY CHECK (one = 1), moment REAL NOT NULL, ballast BLOB NOT NULL);
CREATE TABLE closing (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL);
"""
ANALYZER = """
CREATE TABLE batches (
    window INTEGER PRIMARY KEY, manifest BLOB NOT NULL, state TEXT NOT NULL, tallies TEXT, dropped TEXT);
"""
OUTBOX = """
CREATE TABLE collections (id BLOB PRIMARY KEY, raw BLOB NOT NULL);
CREATE TABLE reports (
    collection BLOB NOT NULL, window INTEGER NOT NULL, inners BLOB, token BLOB NOT NULL, state TEXT NOT NULL,
    epsilon REAL NOT NULL, PRIMARY KEY (collection, window));
"""


def build(path, schema, *rows):
    """An old store: its tables, and rows of (table, values)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(schema)
        for table, values in rows:
            places = ", ".join("?" * len(values))
            db.execute(f"INSERT INTO {table} VALUES ({places})", values)  # noqa: S608
        db.commit()


def describe(path):
    """The version of a store, and the columns of its tables."""
    with closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        columns = {name: db.execute(f"PRAGMA table_info({name})").fetchall() for (name,) in tables}
        return db.execute("PRAGMA user_version").fetchone()[0], columns


def open_all(seeds, window=0):
    sealed = [live.make_report(COLLECTION, window, seed) for seed in seeds]
    return open_reports(COLLECTION, sealed, live.outer_secrets(COLLECTION))


def test_an_old_shuffler_goes_on_where_it_was(tmp_path):
    """Reports, a spent token, a window that is over and the last beat: nothing is lost, and nothing is counted twice."""
    opened = open_all(range(30))
    build(
        tmp_path / "s" / "store.sqlite",
        SHUFFLER,
        ("collection", (COLLECTION.id,)),
        *(("reports", (each.window, each.id, each.inners)) for each in opened),
        ("windows", (1, "expired", 3, None)),
        ("tokens", (b"t" * 32,)),
        ("issued", (b"t" * 32,)),
        ("beats", (1, 1005.0, b"")),
    )
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    assert shuffler.store.last_beat() == 1005.0
    assert shuffler.store.count_tokens([b"t" * 32]) == {"unused": 0, "spent": 1, "unknown": 0}
    assert shuffler.store.row(1).state is State.EXPIRED
    assert shuffler.admit([opened], 1010.0)[0].failed == ()  # all of them are known
    assert shuffler.store.count(0) == 30
    shuffler.tick(1200.0)
    assert hand_over(shuffler, analyzer, 0) == "published"
    assert analyzer.results()[0]["reports"] == 30


@pytest.mark.parametrize("state", ["sealed", "written"])
def test_an_old_shuffler_in_the_midst_of_a_window(tmp_path, state):
    """The batch has the bytes that it would have had, or has already."""
    opened = open_all(range(25))
    shuffler = open_shuffler(tmp_path / "s")
    shuffler.admit([opened], 1010.0)
    shuffler.tick(1200.0)
    manifest, batch = shuffler.manifest(0, 1200.0)[0], shuffler.batch(0).read_bytes()
    shuffler.store.close()
    (tmp_path / "s" / "store.sqlite").unlink()
    rows = [("reports", (each.window, each.id, each.inners)) for each in opened]
    if state == "sealed":
        shuffler.batch_path(0).unlink()
    build(
        tmp_path / "s" / "store.sqlite",
        SHUFFLER,
        ("collection", (COLLECTION.id,)),
        ("windows", (0, state, 25, None if state == "sealed" else manifest.sha256)),
        *(rows if state == "sealed" else ()),
    )
    again = open_shuffler(tmp_path / "s")
    again.tick(1200.0)
    assert again.manifest(0, 1200.0)[0] == manifest
    assert again.batch(0).read_bytes() == batch


def test_an_old_outbox_keeps_its_report_and_its_budget(tmp_path):
    path = tmp_path / "outbox.sqlite"
    inners = b"".join(live.make_inners(COLLECTION, 0, 7))
    build(
        path,
        OUTBOX,
        ("collections", (COLLECTION.id, COLLECTION.raw)),
        ("reports", (COLLECTION.id, 0, inners, b"", "sent", 4.0)),
    )
    device = Device(path)
    assert device.recall(COLLECTION.id) == COLLECTION.raw
    assert (device.spent.epsilon, device.spent.floor) == (4.0, 3.0)
    assert device.list_unsettled(COLLECTION) == [0]
    shuffler = open_shuffler(tmp_path / "s")
    assert shuffler.receive(device.upload(COLLECTION, 0), 1010.0).failed == ()
    assert next(iter(shuffler.store.load(0))) == inners
    assert device.settle(COLLECTION, 0, None) is Sending.ACKNOWLEDGED
    with pytest.raises(sdp.WireError, match="answered"):
        device.answer(COLLECTION, {"way": "bus", "home": True}, 1010.0)


STORES = {
    "shuffler": (SHUFFLER, shuffler_store, lambda folder: open_shuffler(folder), "store.sqlite"),
    "analyzer": (ANALYZER, analyzer_role, lambda folder: open_analyzer(folder), "analyzer.sqlite"),
    "outbox": (OUTBOX, device_role, lambda folder: Device(folder / "box"), "box"),
}


@pytest.mark.parametrize("role", STORES)
def test_old_and_new_stores_have_the_same_tables(tmp_path, role):
    old, module, start, name = STORES[role]
    build(tmp_path / "old" / name, old)
    (tmp_path / "new").mkdir()
    for folder in ("old", "new"):
        start(tmp_path / folder)
    found = describe(tmp_path / "old" / name)
    assert found == describe(tmp_path / "new" / name)
    assert found[0] == len(module._SCHEMA) >= 1
    start(tmp_path / "old")  # and again: nothing changes
    assert describe(tmp_path / "old" / name) == found


@pytest.mark.parametrize("version", [99, -1])
@pytest.mark.parametrize("role", STORES)
def test_a_store_from_the_future_is_refused_and_left_alone(tmp_path, role, version):
    old, module, start, name = STORES[role]
    path = tmp_path / name
    build(path, old)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    wanted = rf"{name} has version {version} of its schema, .* up to {len(module._SCHEMA)}: a newer"
    with pytest.raises(sdp.DataError, match=wanted):
        start(tmp_path)
    assert path.read_bytes() == before


class Owner:
    """Of a database."""


STEPS = (
    ("CREATE TABLE IF NOT EXISTS a (x INTEGER)",),
    ("ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 7", "UPDATE a SET y = x + 1"),
    ("CREATE TABLE b (z INTEGER)", "INSERT INTO b SELECT x * y FROM a"),
)


@pytest.mark.parametrize("known", [1, 2, 3])
def test_each_step_is_taken_once_and_in_order(tmp_path, known):
    owner, path = Owner(), tmp_path / "db"
    db = open_database(path, owner, STEPS[:known])
    db.execute("INSERT INTO a (x) VALUES (3)")
    if known > 1:
        db.execute("UPDATE a SET y = 10")
    db.close()
    db = open_database(path, owner, STEPS)
    assert db.execute("SELECT x, y FROM a").fetchall() == [(3, 4 if known == 1 else 10)]
    assert db.execute("SELECT z FROM b").fetchall() == {1: [(12,)], 2: [(30,)], 3: []}[known]
    with pytest.raises(sdp.DataError, match="version 3 of its schema"):
        open_database(path, owner, STEPS[:2])


def test_a_step_that_fails_changes_nothing(tmp_path):
    """As if the power had failed in its midst: the next start repeats it from the beginning."""
    owner, path = Owner(), tmp_path / "db"
    db = open_database(path, owner, STEPS[:1])
    db.execute("INSERT INTO a (x) VALUES (3)")
    db.close()
    broken = (*STEPS[:2], (STEPS[2][0], "INSERT INTO nowhere VALUES (1)"))
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        open_database(path, owner, broken)
    version, columns = describe(path)
    assert version == 1
    assert [column[1] for column in columns["a"]] == ["x"]
    assert "b" not in columns
    db = open_database(path, owner, STEPS)
    assert db.execute("SELECT z FROM b").fetchall() == [(12,)]


@pytest.mark.parametrize("before", [None, 0o644, 0o660])
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_database_and_its_journals_are_for_their_owner_alone(tmp_path, before, journal):
    """An outbox lies wherever its owner says, and has the token of an invitation in it."""
    path = tmp_path / "outbox.sqlite"
    if before is not None:  # as an earlier version made it
        path.touch(before)
        path.chmod(before)
    mask = os.umask(0o002)
    try:
        with (
            closing(Device(path))
            if journal == "DELETE"
            else closing(SqliteStore(path, COLLECTION)) as kept
        ):
            kept._db.execute("BEGIN IMMEDIATE")
            kept._db.execute("CREATE TABLE more (x)")
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
            kept._db.execute("COMMIT")
    finally:
        os.umask(mask)
    assert len(modes) > 1
    assert set(modes.values()) == {0o600}
