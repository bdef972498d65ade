"""Where the events are kept: one JSON file, or a SQLite database.

Both append and never change what is there; both let one process at a time decide and append; both
are on the disk, not in a cache, when `append` returns.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shuffledp.core.errors import LedgerError, UnsupportedError
from shuffledp.ledger.events import Event, checked, sealed

__all__ = ["Decision", "JsonStore", "SqliteStore", "Store", "store_at"]

Decision = Callable[[Sequence[Event]], Sequence[Event]]
"""What to append, given all that is there; it may raise instead."""

_FORMAT = "shuffledp ledger 1"
_WAIT_SECONDS = 60.0


class Store(Protocol):
    """A list of events that only grows."""

    def read(self) -> Sequence[Event]:
        """All events; none if there is no ledger yet."""

    def append(self, decide: Decision) -> None:
        """Let `decide` see all events and append what it returns, while nobody else can."""


def store_at(path: Path) -> Store:
    """The store that the suffix names: .json, or .sqlite, .sqlite3 and .db.

    >>> type(store_at(Path("budget.json"))).__name__
    'JsonStore'
    """
    if path.suffix == ".json":
        return JsonStore(path=path)
    if path.suffix in (".sqlite", ".sqlite3", ".db"):
        return SqliteStore(path=path)
    raise UnsupportedError(f"ledger {path}: the name must end in .json, .sqlite, .sqlite3 or .db")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStore:
    """One JSON file, replaced as a whole, beside a lock file of the same name plus .lock."""

    path: Path

    def read(self) -> Sequence[Event]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except UnicodeDecodeError as error:
            raise _broken(self.path, "it is not text") from error
        except OSError as error:
            raise LedgerError(f"ledger {self.path} cannot be read: {_why(error)}") from error
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _broken(self.path, "it is not JSON") from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise _broken(self.path, f"it does not say {_FORMAT!r}")
        events = content.get("events")
        if not isinstance(events, list):
            raise _broken(self.path, "it holds no events")
        return _checked(self.path, events)

    def append(self, decide: Decision) -> None:
        with _locked(self.path.with_name(self.path.name + ".lock")):
            events = self.read()
            new = sealed(events, decide(events))
            if new:
                lines = ",\n".join(json.dumps(event, sort_keys=True) for event in (*events, *new))
                _replace(self.path, f'{{"format": "{_FORMAT}", "events": [\n{lines}\n]}}\n')


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteStore:
    """A SQLite database with one table of events."""

    path: Path

    def read(self) -> Sequence[Event]:
        if not self.path.exists():
            return []
        with self._open() as database:
            return self._events(database)

    def append(self, decide: Decision) -> None:
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")  # from here on we are alone
            events = self._events(database)
            new = sealed(events, decide(events))
            rows = [(json.dumps(event, sort_keys=True),) for event in new]
            database.executemany("INSERT INTO events (event) VALUES (?)", rows)
            database.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            database = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            with closing(database):
                database.execute("PRAGMA synchronous = EXTRA")
                yield database
        except sqlite3.OperationalError as error:
            raise LedgerError(f"ledger {self.path}: {error}; nothing was written") from error
        except sqlite3.DatabaseError as error:
            raise _broken(self.path, str(error)) from error

    def _events(self, database: sqlite3.Connection) -> Sequence[Event]:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if not tables:
            if database.in_transaction:
                database.execute(
                    "CREATE TABLE events (place INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL)"
                )
                database.execute("PRAGMA user_version = 1")
            return []
        if "events" not in tables or database.execute("PRAGMA user_version").fetchone() != (1,):
            raise _broken(self.path, "it is another database")
        rows = database.execute("SELECT event FROM events ORDER BY place").fetchall()
        try:
            return _checked(self.path, [json.loads(text) for (text,) in rows])
        except ValueError as error:
            raise _broken(self.path, "an entry is not JSON") from error


def _checked(path: Path, events: Sequence[Event]) -> Sequence[Event]:
    try:
        return checked(events)
    except LedgerError as error:
        raise _broken(path, str(error)) from error


def _broken(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"{path} is not an intact ledger: {why}. Nothing was written; "
        "restore it from a backup, or name another file"
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file. The system lets go of it when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError as error:  # pragma: no cover
        raise UnsupportedError("a JSON ledger needs file locks: use a .sqlite ledger") from error
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritten(path, error) from error
    try:
        patience = time.monotonic() + _WAIT_SECONDS
        while not _try_lock(fcntl.flock, handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if time.monotonic() > patience:
                raise LedgerError(f"{path} is held by another process; nothing was written")
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _try_lock(lock: Callable[[int, int], None], handle: int, how: int) -> bool:
    try:
        lock(handle, how)
    except BlockingIOError:
        return False
    return True


def _replace(path: Path, text: str) -> None:
    """Put a new file in the place of the old one: at every moment one of them is there, whole."""
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise _unwritten(path, error) from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    try:
        _sync_folder(path.parent)
    except OSError as error:
        raise LedgerError(
            f"ledger {path}: written, but the disk does not confirm it ({_why(error)}); "
            "look what it holds before you charge again"
        ) from error


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unwritten(path: Path, error: OSError) -> LedgerError:
    return LedgerError(f"ledger {path} cannot be written: {_why(error)}; nothing was written")


def _why(error: OSError) -> str:
    return error.strerror or str(error)
