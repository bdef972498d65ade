"""What the roles keep on disk: files that are whole or not there, transactions, folders that nobody else may read.

What the shuffler stores is in SQLite: one writer, and every answer after its commit.

A window is `open -> sealed | expired -> written -> deleted`. Whether it is still open is checked inside the very
transaction that stores a report: checked outside, a report could be acknowledged into a window that was sealed
meanwhile. No address, no time and no order of arrival is stored; the rows are in the order of the reports' ids.
"""

import fcntl
import hashlib
import os
import sqlite3
import stat
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from shuffledp.core.errors import DataError, MismatchError
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import Opened, report_id


def sync_folder(folder: Path) -> None:
    """Make the folder itself durable: the names of the files in it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def draft_of(path: Path) -> Path:
    """Name the file in which another one is written until it is whole.

    >>> draft_of(Path("batch-0.bin")).name
    'batch-0.bin.draft'
    """
    return path.with_name(path.name + ".draft")


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write, fsync, rename, fsync the folder: after a crash there is the whole file, or none."""
    draft = draft_of(path)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_folder(path.parent)


def write_once(path: Path, content: bytes) -> None:
    """Write a new file: whole and on the disk before it has its name; `FileExistsError` if somebody was faster."""
    draft = path.with_name(f".draft-{os.urandom(8).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # fails if there is one: a rename would replace it
    finally:
        draft.unlink()
    sync_folder(path.parent)


def read_pieces(path: Path) -> Iterator[bytes]:
    """Read a file of any size, a megabyte at a time."""
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read; refuse to overwrite one."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise DataError(f"{path} is there already: secrets are never overwritten") from None
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def make_private(folder: Path) -> Path:
    """Make a folder that only its owner may enter; refuse one that others may."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder)
    return folder


def check_private(path: Path) -> None:
    """Refuse a file or folder that anybody but its owner may read."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        wanted = "700" if path.is_dir() else "600"
        raise DataError(f"{path} may be read by others (mode {mode:o}): chmod {wanted} {path}")


def read_private(path: Path) -> bytes:
    """Read a file with a secret in it; refuse one that others may read, or whose folder they may enter."""
    check_private(path.parent)
    check_private(path)
    return path.read_bytes()


def open_database(
    path: Path | str,
    owner: object,
    schema: Sequence[Sequence[str]],
    *,
    journal: str = "DELETE",
    durable: bool = True,
) -> sqlite3.Connection:
    """Open a database in its newest form; it is closed with the object it belongs to, at the latest.

    `schema[v]` has the statements that turn version v into v + 1, in one transaction: what stands there once is never
    changed. Version 0 is an empty file, or one from before versions were counted, so the statements of `schema[0]` are
    CREATE ... IF NOT EXISTS. A file of a newer version is refused, for it may mean something else than we would read.
    """
    _keep_from_others(path)
    # Python closes a connection that nobody holds any more, and from 3.13 on warns about it.
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        weakref.finalize(owner, db.close)
        _read_version(db, path, schema)  # before anything is changed
        db.execute(f"PRAGMA journal_mode = {journal}")
        # EXTRA, not FULL: a commit deletes the journal, and until its folder is synced, too, a power failure can take the
        # commit back, after a report has been sent or a receipt signed on the strength of it.
        db.execute(f"PRAGMA synchronous = {'EXTRA' if durable else 'OFF'}")
        # Without it, deleted reports stay readable in the free pages of the file.
        db.execute("PRAGMA secure_delete = ON")
    except sqlite3.OperationalError as error:
        raise AwayError(f"{path} cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        raise DamageError(f"{path} is damaged: {error}") from error
    if _read_version(db, path, schema) < len(schema):
        with transaction(db):  # somebody else may have been faster
            for version in range(_read_version(db, path, schema), len(schema)):
                for statement in schema[version]:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {len(schema)}")
    return db


def _keep_from_others(path: Path | str) -> None:
    """Let only its owner read a database, and so its journals, wherever it lies: also one that was made before."""
    with suppress(OSError):  # what is wrong with the place is SQLite's to say
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.fchmod(handle, 0o600)
        finally:
            os.close(handle)


def _read_version(db: sqlite3.Connection, path: Path | str, schema: Sequence[Sequence[str]]) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not 0 <= version <= len(schema):
        raise DataError(
            f"{path} has version {version} of its schema, and this shuffledp knows versions up to {len(schema)}: "
            "a newer one wrote it, so use that one"
        )
    return version


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Hold an exclusive transaction: all of it is written, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # A full disk may have undone it already; otherwise it must not stay open for the next one.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def hold(folder: Path, what: str) -> Iterator[None]:
    """Lock a folder for this process; refuse if another one works in it."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"another {what} is running in {folder}") from None
        yield
    finally:
        os.close(handle)


_SCHEMA = (
    (
        "CREATE TABLE IF NOT EXISTS collection (id BLOB PRIMARY KEY)",
        """CREATE TABLE IF NOT EXISTS windows (
            window INTEGER PRIMARY KEY, state TEXT NOT NULL, reports INTEGER NOT NULL, sha256 BLOB)""",
        """CREATE TABLE IF NOT EXISTS reports (
            window INTEGER NOT NULL, id BLOB NOT NULL, inners BLOB NOT NULL, PRIMARY KEY (window, id)) WITHOUT ROWID""",
        "CREATE TABLE IF NOT EXISTS tokens (hash BLOB PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS issued (hash BLOB PRIMARY KEY) WITHOUT ROWID",
        """CREATE TABLE IF NOT EXISTS beats (one INTEGER PRIMARY KEY CHECK (one = 1), moment REAL NOT NULL, ballast BLOB NOT NULL)""",
        """CREATE TABLE IF NOT EXISTS closing (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL)""",
    ),
    (  # messages: NULL if they are those of the reports alone
        "ALTER TABLE windows ADD COLUMN messages INTEGER",
        "CREATE TABLE log (one INTEGER PRIMARY KEY CHECK (one = 1), identity BLOB NOT NULL)",
    ),
)


BALLAST = 1 << 16
"""Bytes of a beat: as much as an upload, so that a full disk shows."""
_ROWS = "SELECT window, state, reports, sha256, messages FROM windows"


class DamageError(DataError):
    """A store that does not hold what was written to it."""


class AwayError(DataError):
    """A store that cannot be reached or written now."""


class State(Enum):
    """The state of a window."""

    OPEN = "open"
    SEALED = "sealed"
    EXPIRED = "expired"
    """Too few reports, or a batch that cannot be served: they were deleted."""
    WRITTEN = "written"
    DELETED = "deleted"
    """The analyzer has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """A window as it is stored."""

    window: int
    state: State
    reports: int
    sha256: bytes | None = None
    messages: int | None = None
    """How many messages a batch has if the shuffler added some; None: only those of the reports."""


class Store(Protocol):
    """The interface to a database that the shuffler needs."""

    shared: bool
    """Whether several shufflers work on it, perhaps on several machines."""

    @property
    def connected(self) -> int:
        """How often it was connected to: after each connection, another copy of it may answer than before."""

    def origin(self) -> str | None:
        """Return what is copied together with it, if it shares a server with others; see `SealLog.origin`."""

    def close(self) -> None:
        """Let go of the database."""

    def admit(self, group: Sequence[Opened], now: float) -> list[str | None]:
        """Store the reports in one transaction; for each None, or why it was refused."""

    def seal(self, window: int) -> WindowRow:
        """Close a window: sealed with its count, or expired and empty. Sealing again changes nothing."""

    def close_after(self, last: int) -> int:
        """Take no more reports, and let no window after `last` begin; the first call decides, all return its last."""

    def closed(self) -> int | None:
        """Return the last window of a collection that was closed early, -1 if there is none; None while it goes on."""

    def load(self, window: int) -> Iterator[bytes]:
        """Return the messages of each report of a window."""

    def claim(self, window: int) -> AbstractContextManager[bool]:
        """Claim the right to seal a window and write its batch; False if another process has it."""

    def keep_batch(self, window: int, sha256: bytes, pieces: Iterable[bytes]) -> None:
        """Keep a batch of a sealed window where every shuffler finds it, beside other drafts of it."""

    def load_batch(self, window: int, sha256: bytes) -> Iterator[bytes]:
        """Return the batch that was kept, in pieces; nothing if there is none."""

    def mark_written(self, window: int, sha256: bytes, messages: int | None = None) -> None:
        """Let the batch be read, which is on the disk: delete the rows, ids and all, and other drafts."""

    def expire(self, window: int) -> None:
        """Give up a window whose batch cannot be served, unless it has been written by now: delete its rows."""

    def known_log(self) -> bytes | None:
        """Return the identity of the seal log that belongs to this store; None if there is none yet."""

    def keep_log(self, identity: bytes) -> None:
        """Remember the seal log, once."""

    def mark_deleted(self, window: int) -> None:
        """Note that the analyzer has the batch."""

    def row(self, window: int) -> WindowRow:
        """Return the state of a window."""

    def rows(self) -> dict[int, WindowRow]:
        """Return all windows that are no longer open."""

    def count(self, window: int) -> int:
        """Count the reports of an open window: for the operator only."""

    def scrub(self) -> bool:
        """Remove what deleted rows left in journals; False if a reader was in the way."""

    def beat(self, now: float) -> None:
        """Write the time: it shows that the store can be written, and what time it was last."""

    def last_beat(self) -> float | None:
        """Return the last time that was written; None if there is none."""

    def inspect(self, window: int | None = None) -> None:
        """Raise `DamageError` if the file is damaged, or a report of the window is not what was acknowledged."""

    def issue_tokens(self, hashes: Sequence[bytes]) -> None:
        """Make known which tokens a third party gave out, by their SHA-256."""

    def count_tokens(self, hashes: Sequence[bytes]) -> dict[str, int]:
        """Count which of these tokens are unused, spent, and unknown."""


def judge(
    collection: Collection, window: int, state: State, last: int | None, now: float
) -> str | None:
    """Return why a window takes no reports now; None if it does. `last` is the last one if it was closed early."""
    windows = collection.windows
    if last is not None and window > last:
        return "closed"
    if now < windows.opens(window):
        return "too_early"
    over = last is not None or now >= windows.closes(window)
    if state is not State.OPEN or over:
        return "too_late"
    return None


def end_window(collection: Collection, count: int) -> State:
    """Choose what becomes of a window with so many reports."""
    enough = count >= collection.pledge.min_batch
    return State.SEALED if enough else State.EXPIRED


def check_reports(
    collection: Collection, window: int, reports: Iterable[tuple[bytes, bytes]]
) -> None:
    """Raise `DamageError` if one of them (id, messages) is not what was acknowledged."""
    readable = total = 0
    for identity, inners in reports:
        total += 1
        readable += report_id(collection, window, inners) == identity
    if readable < total:
        raise DamageError(
            f"the store is damaged: {total - readable:,} of {total:,} reports of window {window} have changed"
        )


def _read_row(
    window: int, state: str, reports: int, sha256: bytes | None, messages: int | None
) -> WindowRow:
    return WindowRow(
        window=window, state=State(state), reports=reports, sha256=sha256, messages=messages
    )


@contextmanager
def _telling_damage() -> Iterator[None]:
    """Tell a damaged file from one that cannot be written now."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if type(error) is not sqlite3.DatabaseError:
            raise
        raise DamageError(f"the store is damaged: {error}") from error


class SqliteStore:
    """A file, with a write-ahead log. `durable=False` is for tests of logic alone."""

    shared = False
    connected = 1

    def __init__(self, path: Path | str, collection: Collection, *, durable: bool = True) -> None:
        self._collection = collection
        self._db = open_database(path, self, _SCHEMA, journal="WAL", durable=durable)
        with transaction(self._db):
            self._db.execute(
                "INSERT INTO collection SELECT ? WHERE NOT EXISTS (SELECT 1 FROM collection)",
                (collection.id,),
            )
        known = [row[0] for row in self._db.execute("SELECT id FROM collection")]
        if known != [collection.id]:
            raise MismatchError(f"{path} belongs to another collection")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def admit(self, group: Sequence[Opened], now: float) -> list[str | None]:
        with _telling_damage(), transaction(self._db):
            states = {window: self.row(window).state for window in {each.window for each in group}}
            last = self.closed()
            return [self._admit(each, states[each.window], last, now) for each in group]

    def _admit(self, report: Opened, state: State, last: int | None, now: float) -> str | None:
        refused = judge(self._collection, report.window, state, last, now)
        if refused == "too_late":
            # Its first copy may have been accepted, and the reply lost: that is success, while we know.
            return None if self._is_known(report) else "too_late"
        if refused is not None:
            return refused
        inserted = self._db.execute(
            "INSERT INTO reports VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (report.window, report.id, report.inners),
        )
        # The token comes last: a copy of a report that is there must not ask for a second one.
        if inserted.rowcount == 0 or not self._collection.tokens:
            return None
        refused = self._spend(hashlib.sha256(report.token).digest())
        if refused is not None:
            place = (report.window, report.id)
            self._db.execute("DELETE FROM reports WHERE window = ? AND id = ?", place)
        return refused

    def _is_known(self, report: Opened) -> bool:
        place = (report.window, report.id)
        rows = self._db.execute("SELECT 1 FROM reports WHERE window = ? AND id = ?", place)
        return rows.fetchone() is not None

    def _spend(self, token: bytes) -> str | None:
        if self._db.execute("SELECT 1 FROM issued WHERE hash = ?", (token,)).fetchone() is None:
            return "unknown_token"
        spent = self._db.execute("INSERT INTO tokens VALUES (?) ON CONFLICT DO NOTHING", (token,))
        return None if spent.rowcount else "token_spent"

    def issue_tokens(self, hashes: Sequence[bytes]) -> None:
        with transaction(self._db):
            rows = [(each,) for each in hashes]
            self._db.executemany("INSERT OR IGNORE INTO issued VALUES (?)", rows)

    def count_tokens(self, hashes: Sequence[bytes]) -> dict[str, int]:
        counts = {"unused": 0, "spent": 0, "unknown": 0}
        for each in hashes:
            issued, spent = (
                self._db.execute(f"SELECT 1 FROM {table} WHERE hash = ?", (each,)).fetchone()  # noqa: S608
                for table in ("issued", "tokens")
            )
            counts["unknown" if issued is None else "unused" if spent is None else "spent"] += 1
        return counts

    @_telling_damage()
    def seal(self, window: int) -> WindowRow:
        with transaction(self._db):
            row = self.row(window)
            if row.state is not State.OPEN:
                return row
            count = self.count(window)
            state = end_window(self._collection, count)
            self._db.execute(
                "INSERT INTO windows VALUES (?, ?, ?, NULL, NULL)", (window, state.value, count)
            )
            if state is State.EXPIRED:
                self._db.execute("DELETE FROM reports WHERE window = ?", (window,))
            return WindowRow(window=window, state=state, reports=count)

    def close_after(self, last: int) -> int:
        with transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO closing VALUES (1, ?)", (last,))
            closed = self.closed()
        assert closed is not None
        return closed

    @_telling_damage()
    def closed(self) -> int | None:
        row = self._db.execute("SELECT last FROM closing").fetchone()
        return None if row is None else int(row[0])

    def load(self, window: int) -> Iterator[bytes]:
        for (inners,) in self._db.execute("SELECT inners FROM reports WHERE window = ?", (window,)):
            yield inners

    def claim(self, window: int) -> AbstractContextManager[bool]:
        """Claim it always: there is one process."""
        return nullcontext(True)

    def origin(self) -> str | None:
        return None

    def keep_batch(self, window: int, sha256: bytes, pieces: Iterable[bytes]) -> None:
        """Do nothing: the batch is in the shuffler's folder."""

    def load_batch(self, window: int, sha256: bytes) -> Iterator[bytes]:
        return iter(())

    @_telling_damage()
    def mark_written(self, window: int, sha256: bytes, messages: int | None = None) -> None:
        with transaction(self._db):
            self._db.execute(
                "UPDATE windows SET state = ?, sha256 = ?, messages = ? WHERE window = ? AND state = ?",
                (State.WRITTEN.value, sha256, messages, window, State.SEALED.value),
            )
            self._db.execute("DELETE FROM reports WHERE window = ?", (window,))

    @_telling_damage()
    def expire(self, window: int) -> None:
        with transaction(self._db):
            known = self.row(window)
            if known.state in (State.WRITTEN, State.DELETED):
                return
            row = (window, State.EXPIRED.value, known.reports or self.count(window))
            self._db.execute("INSERT OR REPLACE INTO windows VALUES (?, ?, ?, NULL, NULL)", row)
            self._db.execute("DELETE FROM reports WHERE window = ?", (window,))

    @_telling_damage()
    def known_log(self) -> bytes | None:
        row = self._db.execute("SELECT identity FROM log").fetchone()
        return None if row is None else bytes(row[0])

    @_telling_damage()
    def keep_log(self, identity: bytes) -> None:
        with transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO log VALUES (1, ?)", (identity,))

    @_telling_damage()
    def mark_deleted(self, window: int) -> None:
        with transaction(self._db):
            self._db.execute(
                "UPDATE windows SET state = ? WHERE window = ? AND state = ?",
                (State.DELETED.value, window, State.WRITTEN.value),
            )

    @_telling_damage()
    def row(self, window: int) -> WindowRow:
        query = f"{_ROWS} WHERE window = ?"
        row = self._db.execute(query, (window,)).fetchone()
        if row is None:
            return WindowRow(window=window, state=State.OPEN, reports=0)
        return _read_row(*row)

    @_telling_damage()
    def rows(self) -> dict[int, WindowRow]:
        return {row[0]: _read_row(*row) for row in self._db.execute(_ROWS)}

    @_telling_damage()
    def count(self, window: int) -> int:
        query = "SELECT count(*) FROM reports WHERE window = ?"
        return int(self._db.execute(query, (window,)).fetchone()[0])

    def beat(self, now: float) -> None:
        with _telling_damage(), transaction(self._db):
            row = (now, os.urandom(BALLAST))
            self._db.execute("INSERT OR REPLACE INTO beats VALUES (1, ?, ?)", row)

    @_telling_damage()
    def last_beat(self) -> float | None:
        row = self._db.execute("SELECT moment FROM beats").fetchone()
        if row is None:
            return None
        if type(row[0]) is not float:
            raise DamageError(f"the store is damaged: its last time is {row[0]!r:.60}")
        return row[0]

    def inspect(self, window: int | None = None) -> None:
        with _telling_damage():
            said = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if said != "ok":
                raise DamageError(f"the store is damaged: {' '.join(str(said).split())}")
            if window is None:
                return
            query = "SELECT id, inners FROM reports WHERE window = ?"
            check_reports(self._collection, window, self._db.execute(query, (window,)))

    def scrub(self) -> bool:
        busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
