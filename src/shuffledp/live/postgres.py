"""What shufflers store, in PostgreSQL: several processes and hosts on one database.

The states and promises are those of the store in SQLite. Whether a window is open is checked inside the transaction
that stores a report, which holds the window's row `FOR SHARE`; sealing takes it `FOR UPDATE`, and so waits for
uploads that are on their way. Reports are inserted in the order of their ids, so uploads that have some in common never
deadlock. Each window has a table of its own, which is dropped as a whole; a batch is in the database until the analyzer
has it, so any process can hand it out.

The seal log of shufflers on several hosts is a small database on another server than their store. On the same server
every backup, snapshot and replica would have both, and a restored store would find a log that is as old as itself. One
database may be the log of many collections.

A connection that is gone is made again, but only to a server that keeps what it acknowledges: not to a standby, nor
to one with `fsync = off`.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from shuffledp.core.errors import DataError, MismatchError, UnsupportedError
from shuffledp.live.seals import Entry, SealError, TakenError
from shuffledp.live.store import (
    BALLAST,
    AwayError,
    DamageError,
    State,
    WindowRow,
    check_reports,
    end_window,
    judge,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from psycopg import Connection

    from shuffledp.live.wire.document import Collection
    from shuffledp.live.wire.report import Opened

OLDEST = 13
"""The major version of the oldest server that is tried in tests or known to have everything that is used here."""
LOCK = 0x5DD
"""The first number of our advisory locks: one lock for the schema, and one for each window."""

_WAITING: dict[str, Any] = {
    "application_name": "shuffledp",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
"""How we notice within half a minute that the server's host is gone; a connection string may say otherwise."""
_SESSION = {
    "client_min_messages": "warning",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "10s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "4",
}
"""How the server notices that our host is gone, or stopped: others wait for the locks that it holds."""

_L = TypeVar("_L", bound="Link")
_T = TypeVar("_T")
_P = ParamSpec("_P")


def telling(call: Callable[Concatenate[_L, _P], _T]) -> Callable[Concatenate[_L, _P], _T]:
    """Decorate a call: errors of the database are told in our words, and a connection that is gone is made again."""

    @wraps(call)
    def tell(self: _L, /, *arguments: _P.args, **more: _P.kwargs) -> _T:
        with self._explain():
            self._connect()
            return call(self, *arguments, **more)

    return tell


class Link:
    """What stores and logs in PostgreSQL have in common. `durable=False` is for tests of logic alone."""

    def __init__(self, where: str, *, durable: bool = True) -> None:
        self._where = where
        self._durable = durable
        self._times = 0
        self._link: list[Connection[Any]] = []
        weakref.finalize(self, _close, self._link)

    def close(self) -> None:
        """Close the connection."""
        _close(self._link)

    @property
    def connected(self) -> int:
        """How often we had to connect: after each time another copy of the database may answer."""
        with self._explain():
            self._connect()
        return self._times

    def origin(self) -> str | None:
        """Return what a physical backup or replica of the server has in common with it; None in tests of logic."""
        return self._read_origin() if self._durable else None

    @telling
    def _read_origin(self) -> str:
        return str(self._ask("SELECT system_identifier FROM pg_control_system()"))

    @property
    def _db(self) -> Connection[Any]:
        return self._link[0]

    def _connect(self) -> None:
        if self._link and not self._db.closed:
            return
        _close(self._link)
        self._link.append(_connect(self._where, durable=self._durable))
        self._times += 1

    @contextmanager
    def _explain(self) -> Iterator[None]:
        with _explain():
            try:
                yield
            finally:
                if self._link and self._db.broken:
                    _close(self._link)

    def _ask(self, query: str, *values: object) -> Any:
        """Return the first value of the first row; None if there is none."""
        row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _lock(self, which: int) -> None:
        """Wait for a lock that ends with the transaction."""
        self._db.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK, which))

    def _has(self, table: str) -> bool:
        return self._ask("SELECT to_regclass(%s)", table) is not None


def _connect(where: str, *, durable: bool) -> Connection[Any]:
    """Connect to a server that is new enough and keeps what it acknowledges, and is no standby."""
    try:
        import psycopg
    except ImportError as error:
        raise UnsupportedError(
            f"PostgreSQL needs {error.name}: install the extra shuffledp[postgres]"
        ) from error
    said = psycopg.conninfo.conninfo_to_dict(where)
    wanted = {name: value for name, value in _WAITING.items() if name not in said}
    db = psycopg.connect(where, autocommit=True, **wanted)
    try:
        db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        _check_server(db, durable=durable)
        db.execute(f"SET synchronous_commit = {'on' if durable else 'off'}")
        for name, value in _SESSION.items():
            db.execute(f"SET {name} = '{value}'")
    except BaseException:
        db.close()
        raise
    return db


def _check_server(db: Connection[Any], *, durable: bool) -> None:
    version = db.info.server_version
    if version < OLDEST * 10_000:
        raise UnsupportedError(
            f"the database is PostgreSQL {version // 10_000}, and must be {OLDEST} or later"
        )
    asked = ("fsync", "full_page_writes", "transaction_read_only")
    said = {name: db.execute(f"SHOW {name}").fetchone()[0] for name in asked}  # type: ignore[index]
    if said["transaction_read_only"] == "on":
        raise AwayError("the database is read-only: is it a standby?")
    off = [name for name in asked[:2] if said[name] == "off"]
    if off and durable:
        raise UnsupportedError(
            f"the database has {' and '.join(off)} = off: what is acknowledged would not survive a crash"
        )


@contextmanager
def _explain() -> Iterator[None]:
    """Say what is wrong with a database in our words."""
    try:
        import psycopg
    except ImportError:
        yield  # `_connect` says so
        return
    try:
        yield
    except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted) as error:
        raise DamageError(f"the store is damaged: {_first_line(error)}") from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise AwayError("the database is read-only: is it a standby?") from error
    except psycopg.Error as error:
        raise AwayError(f"the database does not work now: {_first_line(error)}") from error


def _close(link: list[Connection[Any]]) -> None:
    while link:
        link.pop().close()


def _first_line(error: Exception) -> str:
    """Say what the server said, without a traceback's worth of details.

    >>> _first_line(ValueError("no route\\n  to host"))
    'no route'
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


_SCHEMA = (
    (
        "CREATE TABLE collection (id bytea PRIMARY KEY)",
        """CREATE TABLE windows (
            "window" integer PRIMARY KEY, state text NOT NULL, reports bigint NOT NULL, sha256 bytea)""",
        "CREATE TABLE tokens (hash bytea PRIMARY KEY)",
        "CREATE TABLE issued (hash bytea PRIMARY KEY)",
        """CREATE TABLE beats (
            one integer PRIMARY KEY CHECK (one = 1), moment double precision NOT NULL, ballast bytea NOT NULL)""",
        "CREATE TABLE closing (one integer PRIMARY KEY CHECK (one = 1), last integer NOT NULL)",
    ),
    (
        "ALTER TABLE windows ADD COLUMN messages bigint",
        "CREATE TABLE log (one integer PRIMARY KEY CHECK (one = 1), identity bytea NOT NULL)",
    ),
    (  # batches have drafts: those of windows that are not written yet are made again
        """DO $$ DECLARE each record; BEGIN
            FOR each IN SELECT "window", state, sha256 FROM windows LOOP
                IF to_regclass('batch_' || each."window") IS NULL THEN CONTINUE; END IF;
                IF each.state <> 'written' THEN EXECUTE format('DROP TABLE batch_%s', each."window"); CONTINUE; END IF;
                EXECUTE format('ALTER TABLE batch_%s ADD COLUMN draft bytea', each."window");
                EXECUTE format('UPDATE batch_%s SET draft = $1', each."window") USING each.sha256;
            END LOOP; END $$""",
    ),
)
"""`_SCHEMA[v]` turns version v into v + 1, as in `live.store.open_database`."""
_BATCH = "(draft bytea, place integer, content bytea NOT NULL, PRIMARY KEY (draft, place))"
_PIECE = 1 << 20  # bytes of a batch in one row
_ROWS = 5_000  # that are fetched at once


class PostgresStore(Link):
    """A database that several shufflers share. `durable=False` is for tests of logic alone."""

    shared = True

    def __init__(self, where: str, collection: Collection, *, durable: bool = True) -> None:
        super().__init__(where, durable=durable)
        self._collection = collection
        self._begun: dict[int, int] = {}
        """Windows that have their table, and the connection by which we know."""
        self._prepare()

    @telling
    def _prepare(self) -> None:
        """Bring the tables up to date, and see that they belong to the collection."""
        with self._db.transaction():
            self._lock(0)
            version = self._read_version()
            for step in _SCHEMA[version:]:
                for statement in step:
                    self._db.execute(statement)
            if version < len(_SCHEMA):
                self._db.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer)")
                self._db.execute("DELETE FROM schema_version")
                self._db.execute("INSERT INTO schema_version VALUES (%s)", (len(_SCHEMA),))
            self._db.execute(
                "INSERT INTO collection SELECT %s WHERE NOT EXISTS (SELECT 1 FROM collection)",
                (self._collection.id,),
            )
            known = [bytes(row[0]) for row in self._db.execute("SELECT id FROM collection")]
        if known != [self._collection.id]:
            raise MismatchError("the database belongs to another collection")

    def _read_version(self) -> int:
        if not self._has("schema_version"):
            return 0
        version = int(self._ask("SELECT version FROM schema_version"))
        if not 0 <= version <= len(_SCHEMA):
            raise DataError(
                f"the database has version {version} of its schema, and this shuffledp knows versions up to "
                f"{len(_SCHEMA)}: a newer one wrote it, so use that one"
            )
        return version

    @contextmanager
    def claim(self, window: int) -> Iterator[bool]:
        with self._explain():
            self._connect()
            mine = bool(self._ask("SELECT pg_try_advisory_lock(%s, %s)", LOCK, 1 + window))
        try:
            yield mine
        finally:
            # A lock of a connection that is gone is gone, too.
            if mine and self._link and not self._db.closed:
                with self._explain():
                    self._db.execute("SELECT pg_advisory_unlock(%s, %s)", (LOCK, 1 + window))

    @telling
    def admit(self, group: Sequence[Opened], now: float) -> list[str | None]:
        windows = self._collection.windows
        for window in sorted({each.window for each in group}):
            known = self._begun.get(window) == self._times
            if not known and windows.opens(window) <= now < windows.closes(window):
                self._begin(window)
        with self._db.transaction():
            # Nobody closes the collection or a window while this lasts.
            self._db.execute("SELECT 1 FROM collection FOR KEY SHARE")
            states = self._hold_windows({each.window for each in group})
            last = self._find_last()
            judged = [
                judge(self._collection, each.window, states.get(each.window, State.OPEN), last, now)
                for each in group
            ]
            self._keep(group, judged)
            return [
                None if each == "kept" else each for each in self._recall(group, judged, states)
            ]

    def _begin(self, window: int) -> None:
        """Make sure that a window has its row and its table."""
        with self._db.transaction():
            self._lock(0)
            self._db.execute(
                "INSERT INTO windows VALUES (%s, 'open', 0, NULL, NULL) ON CONFLICT DO NOTHING",
                (window,),
            )
            state = self._ask('SELECT state FROM windows WHERE "window" = %s FOR SHARE', window)
            if state == State.OPEN.value:
                self._db.execute(
                    f"CREATE TABLE IF NOT EXISTS reports_{window} (id bytea PRIMARY KEY, inners bytea NOT NULL)"
                )
        self._begun[window] = self._times

    def _take(self, window: int) -> None:
        """Wait until nobody else holds the window, and keep all others away until the transaction ends."""
        self._db.execute('SELECT 1 FROM windows WHERE "window" = %s FOR UPDATE', (window,))

    def _hold_windows(self, windows: set[int]) -> dict[int, State]:
        query = 'SELECT "window", state FROM windows WHERE "window" = ANY(%s) ORDER BY 1 FOR SHARE'
        rows = self._db.execute(query, (sorted(windows),))
        return {window: State(state) for window, state in rows}

    def _keep(self, group: Sequence[Opened], judged: list[str | None]) -> None:
        """Store what can be stored, "kept" then; of several copies the first, the next one only if it is refused."""
        waiting = sorted(
            (place for place, each in enumerate(judged) if each is None),
            key=lambda place: (group[place].window, group[place].id, place),
        )
        while waiting:
            first: dict[tuple[int, bytes], int] = {}
            for place in waiting:
                first.setdefault((group[place].window, group[place].id), place)
            outcome = self._insert(group, list(first.values()))
            later = []
            for place in waiting:
                at = first[group[place].window, group[place].id]
                if place == at or outcome[at] == "kept":
                    judged[place] = outcome[at]
                else:
                    later.append(place)
            waiting = later

    def _insert(self, group: Sequence[Opened], places: list[int]) -> dict[int, str]:
        """Insert reports of different ids, in their order; return what became of each."""
        outcome = dict.fromkeys(places, "kept")
        for window in sorted({group[place].window for place in places}):
            mine = {group[place].id: place for place in places if group[place].window == window}
            query = (
                f"INSERT INTO reports_{window} SELECT * FROM unnest(%b::bytea[], %b::bytea[]) ORDER BY 1 "  # noqa: S608
                "ON CONFLICT DO NOTHING"
            )
            values = (list(mine), [group[place].inners for place in mine.values()])
            if not self._collection.tokens:
                self._db.execute(query, values)
                continue
            fresh = [
                mine[bytes(row[0])] for row in self._db.execute(query + " RETURNING id", values)
            ]
            refused = self._spend({place: group[place].token for place in sorted(fresh)})
            outcome.update(refused)
            self._db.execute(
                f"DELETE FROM reports_{window} WHERE id = ANY(%b)",  # noqa: S608
                ([group[place].id for place in refused],),
            )
        return outcome

    def _spend(self, tokens: dict[int, bytes]) -> dict[int, str]:
        """Spend the tokens of new reports; return which of these are refused, and why."""
        hashes = {place: hashlib.sha256(token).digest() for place, token in tokens.items()}
        wanted = sorted(set(hashes.values()))
        query = "SELECT hash FROM issued WHERE hash = ANY(%b)"
        issued = {bytes(row[0]) for row in self._db.execute(query, (wanted,))}
        query = "INSERT INTO tokens SELECT * FROM unnest(%b::bytea[]) ORDER BY 1 ON CONFLICT DO NOTHING RETURNING hash"
        spent = {bytes(row[0]) for row in self._db.execute(query, (sorted(issued),))}
        refused: dict[int, str] = {}
        for place, each in hashes.items():
            if each not in issued:
                refused[place] = "unknown_token"
            elif each not in spent:
                refused[place] = "token_spent"
            spent.discard(each)  # one token is for one report
        return refused

    def _recall(
        self, group: Sequence[Opened], judged: list[str | None], states: dict[int, State]
    ) -> list[str | None]:
        """Return whether late reports are known: their first copy may have been accepted, and the reply lost."""
        late = [place for place, each in enumerate(judged) if each == "too_late"]
        for window in {group[place].window for place in late}:
            known: set[bytes] = set()
            if states.get(window) in (State.OPEN, State.SEALED):
                mine = [group[place].id for place in late if group[place].window == window]
                query = f"SELECT id FROM reports_{window} WHERE id = ANY(%b)"  # noqa: S608
                known = {bytes(row[0]) for row in self._db.execute(query, (mine,))}
            for place in late:
                if group[place].window == window:
                    judged[place] = None if group[place].id in known else "too_late"
        return judged

    @telling
    def seal(self, window: int) -> WindowRow:
        with self._db.transaction():
            self._db.execute(
                "INSERT INTO windows VALUES (%s, 'open', 0, NULL, NULL) ON CONFLICT DO NOTHING",
                (window,),
            )
            self._take(window)
            row = self._find(window)
            if row.state is not State.OPEN:
                return row
            count = self._count(window)
            state = end_window(self._collection, count)
            self._db.execute(
                'UPDATE windows SET state = %s, reports = %s WHERE "window" = %s',
                (state.value, count, window),
            )
            if state is State.EXPIRED:
                self._db.execute(f"DROP TABLE IF EXISTS reports_{window}")
            return WindowRow(window=window, state=state, reports=count)

    @telling
    def close_after(self, last: int) -> int:
        with self._db.transaction():
            self._db.execute("SELECT 1 FROM collection FOR UPDATE")
            self._db.execute("INSERT INTO closing VALUES (1, %s) ON CONFLICT DO NOTHING", (last,))
            closed = self._find_last()
        assert closed is not None
        return closed

    @telling
    def closed(self) -> int | None:
        return self._find_last()

    def _find_last(self) -> int | None:
        last = self._ask("SELECT last FROM closing")
        return None if last is None else int(last)

    def load(self, window: int) -> Iterator[bytes]:
        for _, inners in self._read_reports(window):
            yield inners

    def _read_reports(self, window: int) -> Iterator[tuple[bytes, bytes]]:
        """Read all reports of a window, some thousand in memory at once."""
        with self._explain():
            self._connect()
            with self._db.transaction():
                if not self._has(f"reports_{window}"):
                    return
                with self._db.cursor(name="reports", binary=True) as rows:
                    rows.itersize = _ROWS
                    rows.execute(f"SELECT id, inners FROM reports_{window} ORDER BY id")  # noqa: S608
                    for identity, inners in rows:
                        yield bytes(identity), bytes(inners)

    @telling
    def keep_batch(self, window: int, sha256: bytes, pieces: Iterable[bytes]) -> None:
        from psycopg import Rollback

        with self._db.transaction():
            self._take(window)
            if self._find(window).state is not State.SEALED:
                return  # another process was faster
            self._db.execute(f"CREATE TABLE IF NOT EXISTS batch_{window} {_BATCH}")
        # The window is not held while the pieces go in, which takes a while: look at it again behind the last one.
        with self._db.transaction() as keeping:
            if not self._has(f"batch_{window}"):
                return
            query = f"INSERT INTO batch_{window} VALUES (%b, %s, %b) ON CONFLICT DO NOTHING"  # noqa: S608
            place = 0
            for piece in pieces:
                for start in range(0, len(piece), _PIECE):
                    self._db.execute(query, (sha256, place, piece[start : start + _PIECE]))
                    place += 1
            if self._hold_windows({window})[window] is not State.SEALED:
                raise Rollback(keeping)

    def load_batch(self, window: int, sha256: bytes) -> Iterator[bytes]:
        with self._explain():
            self._connect()
            with self._db.transaction():
                if not self._has(f"batch_{window}"):
                    return
                with self._db.cursor(name="batch", binary=True) as rows:
                    rows.itersize = 4
                    query = f"SELECT content FROM batch_{window} WHERE draft = %b ORDER BY place"  # noqa: S608
                    rows.execute(query, (sha256,))
                    for (content,) in rows:
                        yield bytes(content)

    @telling
    def mark_written(self, window: int, sha256: bytes, messages: int | None = None) -> None:
        with self._db.transaction():
            self._db.execute(
                'UPDATE windows SET state = %s, sha256 = %s, messages = %s WHERE "window" = %s AND state = %s',
                (State.WRITTEN.value, sha256, messages, window, State.SEALED.value),
            )
            self._db.execute(f"DROP TABLE IF EXISTS reports_{window}")
            if self._find(window).sha256 == sha256 and self._has(f"batch_{window}"):
                query = f"DELETE FROM batch_{window} WHERE draft <> %b"  # noqa: S608
                self._db.execute(query, (sha256,))

    @telling
    def expire(self, window: int) -> None:
        with self._db.transaction():
            self._take(window)
            if self._find(window).state in (State.WRITTEN, State.DELETED):
                return
            count = self._count(window)
            self._db.execute(
                'INSERT INTO windows VALUES (%s, %s, %s, NULL, NULL) ON CONFLICT ("window") DO UPDATE SET '
                "state = excluded.state, reports = greatest(windows.reports, excluded.reports), sha256 = NULL",
                (window, State.EXPIRED.value, count),
            )
            self._db.execute(f"DROP TABLE IF EXISTS reports_{window}, batch_{window}")

    @telling
    def known_log(self) -> bytes | None:
        identity = self._ask("SELECT identity FROM log")
        return None if identity is None else bytes(identity)

    @telling
    def keep_log(self, identity: bytes) -> None:
        self._db.execute("INSERT INTO log VALUES (1, %b) ON CONFLICT DO NOTHING", (identity,))

    @telling
    def mark_deleted(self, window: int) -> None:
        with self._db.transaction():
            self._db.execute(
                'UPDATE windows SET state = %s WHERE "window" = %s AND state = %s',
                (State.DELETED.value, window, State.WRITTEN.value),
            )
            self._db.execute(f"DROP TABLE IF EXISTS batch_{window}")

    @telling
    def row(self, window: int) -> WindowRow:
        return self._find(window)

    def _find(self, window: int) -> WindowRow:
        query = 'SELECT state, reports, sha256, messages FROM windows WHERE "window" = %s'
        row = self._db.execute(query, (window,)).fetchone()
        if row is None:
            return WindowRow(window=window, state=State.OPEN, reports=0)
        return _read_row(window, *row)

    @telling
    def rows(self) -> dict[int, WindowRow]:
        query = (
            "SELECT \"window\", state, reports, sha256, messages FROM windows WHERE state <> 'open'"
        )
        return {row[0]: _read_row(*row) for row in self._db.execute(query)}

    @telling
    def count(self, window: int) -> int:
        return self._count(window)

    def _count(self, window: int) -> int:
        if not self._has(f"reports_{window}"):
            return 0
        return int(self._ask(f"SELECT count(*) FROM reports_{window}"))  # noqa: S608

    @telling
    def beat(self, now: float) -> None:
        self._db.execute(
            "INSERT INTO beats VALUES (1, %s, %b) "
            "ON CONFLICT (one) DO UPDATE SET moment = excluded.moment, ballast = excluded.ballast",
            (now, os.urandom(BALLAST)),
        )

    @telling
    def last_beat(self) -> float | None:
        moment = self._ask("SELECT moment FROM beats")
        return None if moment is None else float(moment)

    def inspect(self, window: int | None = None) -> None:
        """Check the reports; pages are the server's to check (`initdb --data-checksums`)."""
        self.row(0 if window is None else window)
        if window is not None:
            check_reports(self._collection, window, self._read_reports(window))

    def scrub(self) -> bool:
        """Do nothing: dropped tables are gone, and what the server's log has of them goes with its segments."""
        return True

    @telling
    def issue_tokens(self, hashes: Sequence[bytes]) -> None:
        self._db.execute(
            "INSERT INTO issued SELECT * FROM unnest(%b::bytea[]) ORDER BY 1 ON CONFLICT DO NOTHING",
            (sorted(hashes),),
        )

    @telling
    def count_tokens(self, hashes: Sequence[bytes]) -> dict[str, int]:
        known = {
            table: {
                bytes(row[0])
                for row in self._db.execute(
                    f"SELECT hash FROM {table} WHERE hash = ANY(%b)",  # noqa: S608
                    (list(hashes),),
                )
            }
            for table in ("issued", "tokens")
        }
        counts = {"unused": 0, "spent": 0, "unknown": 0}
        for each in hashes:
            if each not in known["issued"]:
                counts["unknown"] += 1
            else:
                counts["spent" if each in known["tokens"] else "unused"] += 1
        return counts


def _read_row(
    window: int, state: str, reports: int, sha256: bytes | None, messages: int | None
) -> WindowRow:
    digest = None if sha256 is None else bytes(sha256)
    return WindowRow(
        window=window,
        state=State(state),
        reports=int(reports),
        sha256=digest,
        messages=messages,
    )


_TABLES = (
    "CREATE TABLE IF NOT EXISTS seal_logs (collection bytea PRIMARY KEY, identity bytea NOT NULL)",
    """CREATE TABLE IF NOT EXISTS seals (
        collection bytea, "window" integer, entry bytea NOT NULL, PRIMARY KEY (collection, "window"))""",
)


class PostgresLog(Link):
    """The log of one collection. `durable=False` is for tests of logic alone."""

    def __init__(self, where: str, collection_id: bytes, *, durable: bool = True) -> None:
        super().__init__(where, durable=durable)
        self._id = collection_id

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            with super()._explain():
                yield
        except (AwayError, DamageError, UnsupportedError) as error:
            raise SealError(f"the seal log cannot be used: {error}") from error

    @telling
    def identify(self) -> bytes | None:
        return self._identify()

    def _identify(self) -> bytes | None:
        if not self._has("seal_logs"):
            return None
        identity = self._ask("SELECT identity FROM seal_logs WHERE collection = %b", self._id)
        return None if identity is None else bytes(identity)

    @telling
    def begin(self) -> bytes:
        with self._db.transaction():
            self._lock(0)
            for statement in _TABLES:
                self._db.execute(statement)
            self._db.execute(
                "INSERT INTO seal_logs VALUES (%b, %b) ON CONFLICT DO NOTHING",
                (self._id, os.urandom(16).hex().encode()),
            )
            identity = self._identify()
        assert identity is not None
        return identity

    @telling
    def find(self, window: int) -> Entry | None:
        self._check()
        query = 'SELECT entry FROM seals WHERE collection = %b AND "window" = %s'
        raw = self._ask(query, self._id, window)
        return None if raw is None else Entry.read(bytes(raw))

    @telling
    def create(self, window: int, entry: Entry) -> None:
        self._check()
        query = "INSERT INTO seals VALUES (%b, %s, %b) ON CONFLICT DO NOTHING"
        if self._db.execute(query, (self._id, window, entry.raw)).rowcount != 1:
            raise TakenError(window)

    @telling
    def windows(self) -> list[int]:
        self._check()
        query = 'SELECT "window" FROM seals WHERE collection = %b ORDER BY 1'
        return [int(row[0]) for row in self._db.execute(query, (self._id,))]

    def _check(self) -> None:
        if self._identify() is None:
            raise SealError("there is no seal log of this collection in the database")
