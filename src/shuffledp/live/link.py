"""A connection to PostgreSQL: made again once it is gone, to a server that keeps what it acknowledges."""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from shuffledp.core.errors import UnsupportedError
from shuffledp.live.store import AwayError, DamageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

OLDEST = 13
"""The major version of the oldest server that is tried in tests or known to have everything that is used here."""
LOCK = 0x5DD
"""Of the advisory locks that are ours: for the schema, and for each window."""

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
    """Say what is wrong with the database in our words; connect again if the connection is gone."""

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
