"""Where the events are kept: in a JSON file, or in a SQLite database.

Both only append; both let one process at a time decide what to append; both have it on the disk, not in a
cache, when `append` returns. A ledger is one file with one name, so that nobody can spend its budget twice
by reaching it in two ways: symbolic links are followed once, when the ledger is opened, and a file with
several hard links is refused.
"""

import errno
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shuffledp.core.errors import LedgerError, UnsupportedError
from shuffledp.ledger.budget import Event, check_chain, seal

Decision = Callable[[Sequence[Event]], Sequence[Event]]
"""What to append, given everything that is there; it may raise instead."""

_FORMAT = "shuffledp ledger 1"
_TABLE = "CREATE TABLE events (place INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL)"
_WAIT_SECONDS = 60.0


class Store(Protocol):
    """A list of events that only grows."""

    @property
    def path(self) -> Path:
        """The file, without symbolic links."""

    def read(self) -> Sequence[Event]:
        """Return all events; none if there is no ledger yet."""

    def append(self, decide: Decision) -> Sequence[Event]:
        """Show `decide` all events and append what it returns, under a lock.

        Returns all events. They are on the disk, also if `decide` found nothing to append.
        """


def open_store(path: Path) -> Store:
    """Return the store that the suffix names: .json, or .sqlite, .sqlite3 and .db.

    >>> type(open_store(Path("budget.json"))).__name__
    'JsonStore'
    """
    real = Path(os.path.realpath(path))
    if real.suffix == ".json":
        return JsonStore(path=real)
    if real.suffix in (".sqlite", ".sqlite3", ".db"):
        return SqliteStore(path=real)
    raise UnsupportedError(f"ledger {real}: the name must end in .json, .sqlite, .sqlite3 or .db")


def check_writable(path: Path) -> None:
    """Refuse a ledger that cannot be written, or must not be, before anything is computed for it."""
    try:
        known = _inspect(path)
    except OSError as error:
        raise _fail_unwritten(path, error) from error
    if known is not None and not (known.st_mode & 0o222 and os.access(path, os.W_OK)):
        raise LedgerError(f"ledger {path} is read-only; nothing was written")
    if not path.parent.is_dir():
        raise LedgerError(f"ledger {path} cannot be written: its folder does not exist")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise LedgerError(f"ledger {path} cannot be written: its folder is read-only")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStore:
    """A JSON file, replaced as a whole. While one process decides, it holds a lock on the folder.

    The lock is on the folder because the file is replaced, and because a lock file of its own could be
    deleted by somebody tidying up. The system drops the lock when the process ends, however it ends.
    """

    path: Path

    def read(self) -> Sequence[Event]:
        try:
            _inspect(self.path)
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except UnicodeDecodeError as error:
            raise _fail_damaged(self.path, "it is not text") from error
        except OSError as error:
            raise LedgerError(f"ledger {self.path} cannot be read: {_reason(error)}") from error
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _fail_damaged(self.path, "it is not JSON") from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise _fail_damaged(self.path, f"it does not say {_FORMAT!r}")
        events = content.get("events")
        if not isinstance(events, list):
            raise _fail_damaged(self.path, "it holds no events")
        return _check(self.path, events)

    def append(self, decide: Decision) -> Sequence[Event]:
        with _lock_folder(self.path) as folder:
            check_writable(self.path)
            events = self.read()
            new = seal(events, decide(events))
            if new:
                events = [*events, *new]
                lines = ",\n".join(json.dumps(event, sort_keys=True) for event in events)
                text = f'{{"format": "{_FORMAT}", "events": [\n{lines}\n]}}\n'
                _write(self.path, folder, text.encode())
            _sync_folder(self.path, folder)
            return events


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteStore:
    """A SQLite database with one table of events."""

    path: Path

    def read(self) -> Sequence[Event]:
        try:
            if _inspect(self.path) is None:
                return []
        except OSError as error:
            raise LedgerError(f"ledger {self.path} cannot be read: {_reason(error)}") from error
        with self._connect(self.path) as database:
            return self._select(database)

    def append(self, decide: Decision) -> Sequence[Event]:
        check_writable(self.path)
        if not self.path.exists():
            self._create()
        with self._connect(self.path) as database:
            database.execute("BEGIN IMMEDIATE")  # from here on we are alone
            events = self._select(database)
            new = seal(events, decide(events))
            rows = [(json.dumps(event, sort_keys=True),) for event in new]
            database.executemany("INSERT INTO events (event) VALUES (?)", rows)
            self._commit(database)
        # A commit of another process, killed before its last sync, may be visible and not yet safe.
        with _open_folder(self.path) as folder:
            _sync_folder(self.path, folder)
        return [*events, *new]

    def _create(self) -> None:
        """Put an empty database in place, whole: an empty *file* is then always damage."""
        with _lock_folder(self.path) as folder:
            if self.path.exists():
                return
            with _put_in_place(self.path, folder) as fresh, self._connect(fresh) as database:
                database.execute("PRAGMA journal_mode = MEMORY")  # nobody else knows this file
                database.execute(_TABLE)
                database.execute("PRAGMA user_version = 1")

    @contextmanager
    def _connect(self, path: Path) -> Iterator[sqlite3.Connection]:
        try:
            database = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
            with closing(database):
                database.execute("PRAGMA synchronous = EXTRA")
                yield database
        except sqlite3.OperationalError as error:
            raise LedgerError(f"ledger {self.path}: {error}; nothing was written") from error
        except sqlite3.DatabaseError as error:
            raise _fail_damaged(self.path, str(error)) from error

    def _commit(self, database: sqlite3.Connection) -> None:
        try:
            database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise _fail_unconfirmed(self.path, str(error)) from error

    def _select(self, database: sqlite3.Connection) -> Sequence[Event]:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if "events" not in tables or database.execute("PRAGMA user_version").fetchone() != (1,):
            raise _fail_damaged(self.path, "it is another database")
        rows = database.execute("SELECT event FROM events ORDER BY place").fetchall()
        try:
            events = [json.loads(text) for (text,) in rows]
        except (TypeError, ValueError, RecursionError) as error:
            raise _fail_damaged(self.path, "an event is not JSON") from error
        return _check(self.path, events)


def _check(path: Path, events: Sequence[Event]) -> Sequence[Event]:
    try:
        return check_chain(events)
    except LedgerError as error:
        raise _fail_damaged(path, str(error)) from error


def _inspect(path: Path) -> os.stat_result | None:
    """Return what is there: one regular file under one name, or nothing."""
    if os.path.realpath(path) != str(path):
        raise LedgerError(
            f"ledger {path} has become a symbolic link since it was opened: open it again"
        )
    try:
        known = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(known.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(known.st_mode):
        raise LedgerError(f"ledger {path} is not a regular file")
    if known.st_nlink > 1:
        raise LedgerError(
            f"ledger {path} has {known.st_nlink} hard links: a charge under one name could be missing "
            "under another. Remove the other names, or copy it to a file of its own"
        )
    return known


@contextmanager
def _open_folder(path: Path) -> Iterator[int]:
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _fail_unwritten(path, error) from error
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _lock_folder(path: Path) -> Iterator[int]:
    """Hold an exclusive lock on the folder of the ledger."""
    try:
        import fcntl
    except ImportError as error:  # pragma: no cover
        raise UnsupportedError("a ledger needs the file locks of Linux and macOS") from error
    with _open_folder(path) as folder:
        patience = time.monotonic() + _WAIT_SECONDS
        while not _try_lock(path, fcntl.flock, folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if time.monotonic() > patience:
                raise LedgerError(
                    f"{path.parent} is locked by another process; nothing was written"
                )
            time.sleep(0.01)
        try:
            yield folder
        finally:
            fcntl.flock(folder, fcntl.LOCK_UN)  # a forked child may still hold the descriptor


def _try_lock(path: Path, lock: Callable[[int, int], None], folder: int, how: int) -> bool:
    try:
        lock(folder, how)
    except BlockingIOError:
        return False
    except OSError as error:  # a network file system without locks
        raise _fail_unwritten(path, error) from error
    return True


@contextmanager
def _put_in_place(path: Path, folder: int) -> Iterator[Path]:
    """Write a new file, then put it in the place of the old one: at every moment one is there, whole."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        with suppress(FileNotFoundError):
            os.unlink(fresh.name, dir_fd=folder)  # of a process that was killed
        yield fresh
        os.replace(fresh.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise _fail_unwritten(path, error) from error
    finally:
        with suppress(OSError):
            os.unlink(fresh.name, dir_fd=folder)


def _write(path: Path, folder: int, content: bytes) -> None:
    """Replace the file by one with this content, on the disk before it has the name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        _put_in_place(path, folder) as fresh,
        os.fdopen(os.open(fresh.name, flags, 0o666, dir_fd=folder), "wb") as file,
    ):
        file.write(content)
        file.flush()
        _keep_owner(path, file.fileno())
        os.fsync(file.fileno())


def _keep_owner(path: Path, file: int) -> None:
    """Whoever may use the ledger now may use it afterwards, as far as the system lets us say so."""
    try:
        old = path.stat()
    except FileNotFoundError:
        return
    for owner in (old.st_uid, -1):
        with suppress(PermissionError):
            os.fchown(file, owner, old.st_gid)
            break
    os.fchmod(file, stat.S_IMODE(old.st_mode))


def _sync_folder(path: Path, folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        raise _fail_unconfirmed(path, _reason(error)) from error


def _fail_damaged(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"{path} is not an intact ledger: {why}. Nothing was written; "
        "restore it from a backup, or name another file"
    )


def _fail_unwritten(path: Path, error: OSError) -> LedgerError:
    return LedgerError(f"ledger {path} cannot be written: {_reason(error)}; nothing was written")


def _fail_unconfirmed(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"ledger {path}: the disk does not confirm what was written ({why}); look at what it holds "
        "before you charge again, or repeat the charge under the same key"
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
