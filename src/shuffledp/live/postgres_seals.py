"""A seal log in PostgreSQL, for shufflers on several hosts: a small database on another server than their store.

On the same server every backup, snapshot and replica would have both, and a restored store would find a log that is
as old as itself. One database may be the log of many collections.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shuffledp.core.errors import UnsupportedError
from shuffledp.live.link import Link, telling
from shuffledp.live.seals import Entry, SealError, TakenError
from shuffledp.live.store import AwayError, DamageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PostgresLog"]

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
        found = self._ask("SELECT identity FROM seal_logs WHERE collection = %b", self._id)
        return None if found is None else bytes(found)

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
            found = self._identify()
        assert found is not None
        return found

    @telling
    def find(self, window: int) -> Entry | None:
        self._check()
        query = 'SELECT entry FROM seals WHERE collection = %b AND "window" = %s'
        found = self._ask(query, self._id, window)
        return None if found is None else Entry.read(bytes(found))

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
