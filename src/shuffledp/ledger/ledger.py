"""The ledger: charge first, then release.

The order is what makes it safe. A release is charged, and on the disk, before anybody sees it; once it is
out, it is marked. A crash in between leaves a charge for something that may never have been released: too
much is counted, never too little.

The events are in a JSON file or in a SQLite database. Both only append; both let one process at a time decide what to
append; both have it on the disk, not in a cache, when `append` returns. A ledger is one file with one name, so that
nobody can spend its budget twice by reaching it in two ways: symbolic links are followed once, when the ledger is
opened, and a file with several hard links is refused.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from shuffledp.core.errors import BudgetError, LedgerError, ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, round_up
from shuffledp.ledger import DATASET
from shuffledp.ledger.budget import (
    Account,
    Budget,
    Entry,
    Event,
    Spent,
    add_up,
    check_chain,
    find_excess,
    find_head,
    replay,
    seal,
)

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
    """Keep owner and mode: those who may use the ledger now may use it afterwards, as far as the system allows."""
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


_LONGEST_NAME = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """An intact ledger, and how much of it the given heads vouch for.

    >>> Verified(events=5, head="0" * 64, vouched=3).vouched
    3
    """

    events: int
    """How many events it holds."""
    head: str | None
    """Its head now; None if it is empty."""
    vouched: int
    """Nothing among this many first events was changed, removed or reordered since the head was noted."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The releases about data sets, in a .json file or a .sqlite (.sqlite3, .db) database.

    `path` may be relative or a symbolic link; what it leads to is fixed now.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "ledger.json")
    >>> promise = sdp.protocols.krr.make_local(k=3, epsilon=0.6).guarantee
    >>> entry = ledger.charge(promise, budget=Budget(epsilon=1.0, delta=0.0))
    >>> head = ledger.mark_released(entry)                               # the answer is out
    >>> ledger.spent().epsilon, ledger.entries()[0].released
    (0.6, True)
    >>> ledger.charge(promise)
    Traceback (most recent call last):
    shuffledp.core.errors.BudgetError: the release was refused: with it, epsilon would be 1.2, and the budget is 1.0 (data set 'data', 1 earlier release)
    >>> ledger.verify(head).vouched                                      # budget, charge, release
    3
    """

    path: Path
    _store: Store = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        store = open_store(Path(self.path))
        object.__setattr__(self, "path", store.path)
        object.__setattr__(self, "_store", store)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that have a budget."""
        return tuple(self._accounts())

    @property
    def head(self) -> str | None:
        """The digest that stands for everything in the ledger; None if it is empty."""
        return find_head(self._store.read())

    def budget(self, dataset: str = DATASET) -> Budget:
        """Return what all releases about the data set may spend."""
        return self._account(dataset).budget

    def entries(self, dataset: str = DATASET) -> tuple[Entry, ...]:
        """Return every release that was charged, oldest first."""
        return tuple(self._account(dataset).entries.values())

    def spent(self, dataset: str = DATASET) -> Spent:
        """Return what the releases so far cost together."""
        account = self._account(dataset)
        return add_up(account.charges, account.budget)

    def check_writable(self) -> None:
        """Raise `LedgerError` if the file cannot be written, or must not be; change nothing."""
        check_writable(self.path)

    def check(
        self,
        guarantee: Guarantee,
        *,
        dataset: str = DATASET,
        budget: Budget | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> None:
        """Raise what `charge` would raise now, and change nothing."""
        entry = _make_entry(guarantee, dataset, note)
        self._decide(self._store.read(), entry, budget)

    def charge(
        self,
        guarantee: Guarantee,
        *,
        dataset: str = DATASET,
        budget: Budget | None = None,
        note: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Entry:
        """Write a release down before it is made, or raise `BudgetError` and write nothing.

        The first charge of a data set states its budget; later ones may repeat it. `note` says what was
        asked, for the reader of the ledger.

        A charge under a `key` is made once: the same charge under the same key, after a crash say, finds
        the entry of the first and costs nothing. A different charge (another data set, guarantee or note)
        under a used key is an error. What is released under one key must always be the *same* release, such
        as a stored batch. Drawing new noise makes another release, which needs another key.
        """
        entry = _make_entry(guarantee, dataset, note, key)
        made: list[Entry] = []

        def decide(events: Sequence[Event]) -> list[Event]:
            charged, new = self._decide(events, entry, budget)
            made.append(charged)
            return new

        # A charge that is refused anyway should not even create an empty file.
        self._decide(self._store.read(), entry, budget)
        head = find_head(self._store.append(decide))
        (charged,) = made
        return charged if charged.head else replace(charged, head=str(head))

    def mark_released(self, entry: Entry) -> str:
        """Write down that a charged release was made; returns the new head."""

        def decide(events: Sequence[Event]) -> list[Event]:
            account = self._replay(events).get(entry.dataset)
            if account is None or entry.id not in account.entries:
                raise LedgerError(f"{self.path} has no charge {entry.id}")
            if account.entries[entry.id].released:
                return []
            return [{"event": "release", "dataset": entry.dataset, "id": entry.id}]

        return str(find_head(self._store.append(decide)))

    def change_budget(self, *, epsilon: float, delta: float, dataset: str = DATASET) -> str:
        """Give a data set another budget: a new promise to the same people, so tell them.

        The part of delta that was reserved and the order of the divergence stay. Returns the new head.
        """

        def decide(events: Sequence[Event]) -> list[Event]:
            account = self._replay(events).get(dataset)
            if account is None:
                raise _fail_unknown(self.path, dataset)
            old = account.budget
            new = Budget(epsilon=epsilon, delta=delta, reserve=old.reserve, alpha=old.alpha)
            return [_make_budget_event(dataset, new)]

        return str(find_head(self._store.append(decide)))

    def verify(self, *heads: str) -> Verified:
        """Check every digest, and that each of these heads, noted earlier, is still in the chain.

        Raises `LedgerError` if an event up to one of the heads was changed, removed or reordered, or if
        the head is that of another copy. It cannot see that events *after* the newest of the heads were
        removed: note the head of every charge outside the ledger.
        """
        events = self._store.read()
        self._replay(events)
        places = {str(event["digest"]): place for place, event in enumerate(events, start=1)}
        vouched = 0
        for head in map(_check_head, heads):
            if head not in places:
                raise LedgerError(
                    f"{self.path} does not contain the head {head}: something up to it was changed or "
                    "removed, or it belongs to another ledger or copy"
                )
            vouched = max(vouched, places[head])
        return Verified(events=len(events), head=find_head(events), vouched=vouched)

    def _decide(
        self, events: Sequence[Event], entry: Entry, budget: Budget | None
    ) -> tuple[Entry, list[Event]]:
        """Return the entry that stands for this charge, and the events to append for it."""
        known = self._replay(events)
        earlier = _find_key(known, entry.key)
        if earlier is not None:
            _check_same_charge(earlier, entry)
            return earlier, []
        account, opening = _find_account(known, entry.dataset, budget)
        _refuse_mixed(account, entry)
        _refuse_excess(account, entry)
        return entry, [*opening, entry.to_event()]

    def _replay(self, events: Sequence[Event]) -> dict[str, Account]:
        try:
            return replay(events)
        except LedgerError as error:
            raise LedgerError(f"{self.path} is not an intact ledger: {error}") from error

    def _accounts(self) -> dict[str, Account]:
        return self._replay(self._store.read())

    def _account(self, dataset: str) -> Account:
        account = self._accounts().get(dataset)
        if account is None:
            raise _fail_unknown(self.path, dataset)
        return account


def _make_entry(
    guarantee: Guarantee,
    dataset: str,
    note: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Entry:
    return Entry(
        id=uuid.uuid4().hex,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        dataset=_check_name("dataset", dataset),
        guarantee=guarantee,
        note=_check_note(note),
        key=None if key is None else _check_name("key", key),
    )


def _find_key(known: Mapping[str, Account], key: str | None) -> Entry | None:
    if key is None:
        return None
    entries = (entry for account in known.values() for entry in account.entries.values())
    return next((entry for entry in entries if entry.key == key), None)


def _check_same_charge(earlier: Entry, entry: Entry) -> None:
    for name in ("dataset", "guarantee", "note"):
        before, now = getattr(earlier, name), getattr(entry, name)
        if before != now:
            raise LedgerError(
                f"key {entry.key!r} was used for another charge: its {name} was {before}, not {now}; "
                "nothing was written"
            )


def _find_account(
    known: Mapping[str, Account], dataset: str, budget: Budget | None
) -> tuple[Account, list[Event]]:
    """Return the account to charge, and the event that opens it if this is its first charge."""
    account = known.get(dataset)
    if account is not None:
        _check_budget(account.budget, budget, dataset)
        return account, []
    if budget is None:
        raise LedgerError(
            f"data set {dataset!r} has no budget yet: the first release must state one"
        )
    return Account(budget=budget), [_make_budget_event(dataset, budget)]


def _check_budget(stored: Budget, given: Budget | None, dataset: str) -> None:
    if given is None:
        return
    if (stored.epsilon, stored.delta) != (given.epsilon, given.delta):
        raise LedgerError(
            f"the budget of data set {dataset!r} is epsilon = {stored.epsilon!r}, delta = "
            f"{stored.delta!r}, not epsilon = {given.epsilon!r}, delta = {given.delta!r}; "
            "change_budget (shuffledp ledger budget) changes it"
        )
    if given.reserve not in (0.0, stored.reserve):
        raise LedgerError(
            f"the budget of data set {dataset!r} reserves {stored.reserve!r} of delta, "
            f"not {given.reserve!r}; that cannot be changed"
        )


def _refuse_mixed(account: Account, entry: Entry) -> None:
    """Refuse to mix units: losses of people and losses of rows do not add up, because a person may have many rows, a
    household many people.
    """
    others = sorted({each.unit for each in account.entries.values()} - {entry.unit})
    if others:
        raise LedgerError(
            f"earlier releases of data set {entry.dataset!r} protect one {others[0]} each, and this one protects "
            f"one {entry.unit}: their losses do not add up; charge it to another data set"
        )
    named = sorted({each.person for each in account.entries.values()} - {entry.person, ()})
    if named and entry.person:
        raise LedgerError(
            f"in earlier releases of data set {entry.dataset!r} each value of {' and '.join(named[0])} is one "
            f"person, and in this one each value of {' and '.join(entry.person)}: their losses do not add up; "
            "charge it to another data set"
        )


def _refuse_excess(account: Account, entry: Entry) -> None:
    reason = find_excess([*account.charges, entry.charge], account.budget)
    if reason is None:
        return
    before = len(account.entries)
    raise BudgetError(
        f"the release was refused: with it, {reason} (data set {entry.dataset!r}, {before} earlier "
        f"release{'s' * (before != 1)})"
    )


def _make_budget_event(dataset: str, budget: Budget) -> Event:
    return {"event": "budget", "dataset": dataset, **asdict(budget)}


def _check_name(what: str, name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
        raise ParameterError(what, name, f"must be a text of 1 to {_LONGEST_NAME} characters")
    return name


def _check_note(note: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the note as it will be read again."""
    try:
        kept: dict[str, Any] = json.loads(json.dumps(dict(note or {}), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            "note", note, f"must be a mapping that JSON can hold ({error})"
        ) from error
    return kept


def _check_head(head: object) -> str:
    if not isinstance(head, str) or not re.fullmatch("[0-9a-f]{64}", head.strip().lower()):
        raise ParameterError(
            "head", head, "must be the 64 hexadecimal digits that a charge printed"
        )
    return head.strip().lower()


def _fail_unknown(path: Path, dataset: str) -> LedgerError:
    return LedgerError(f"{path} knows no data set {dataset!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A ledger, the data set whose budget is spent, and the budget that the first release states."""

    ledger: Ledger
    budget: Budget | None = None
    dataset: str = DATASET

    def __post_init__(self) -> None:
        self.ledger.check_writable()
        if self.dataset not in self.ledger.datasets and self.budget is None:
            raise LedgerError(
                f"{self.ledger.path} has no budget for data set {self.dataset!r} yet: "
                "state it with the first release, on the command line with budget_epsilon and budget_delta"
            )

    def check(self, guarantee: Guarantee, note: Mapping[str, Any]) -> None:
        """Refuse now what could not be charged later."""
        self.ledger.check(guarantee, dataset=self.dataset, budget=self.budget, note=note)

    def charge(self, guarantee: Guarantee, note: Mapping[str, Any]) -> Entry:
        """Write the release down. Call it before anybody sees the answer."""
        return self.ledger.charge(
            guarantee, dataset=self.dataset, budget=self.budget, note=dict(note)
        )

    @contextmanager
    def release(
        self,
        guarantee: Guarantee,
        note: Mapping[str, Any],
        tell: Callable[[str], object] = str,
    ) -> Iterator[None]:
        """Charge a release, let it be shown, and write down that it is out; `tell` gets what is spent now."""
        entry = self.charge(guarantee, note)
        try:
            yield
        finally:  # even if showing it failed: some of it may have been seen
            tell(self.mark_released(entry))

    def mark_released(self, entry: Entry) -> str:
        """Write down that it is out; returns what is spent, and the head of the ledger."""
        head = self.ledger.mark_released(entry)
        total, budget = self.ledger.spent(self.dataset), self.ledger.budget(self.dataset)
        return (
            f"Spent of data set {self.dataset!r}: epsilon {round_up(total.epsilon, 6)} of "
            f"{round_up(budget.epsilon, 6)}, delta {round_up(total.delta, 3)} of {round_up(budget.delta, 3)}, "
            f"in {total.releases} release{'s' * (total.releases != 1)}.\n"
            f"Head of the ledger, to note elsewhere: {head}"
        )
