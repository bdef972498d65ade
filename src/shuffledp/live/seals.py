"""The seal log: a permanent record of what has left a server, so that nothing leaves twice.

Servers that add noise must never draw it twice for the same reports: the reports are what two such batches have in
common. A database alone cannot promise that, because it may be restored from a backup, copied, or replaced by a
replica. So before anybody can read a byte of a window, an entry is made for it in a log that is part of no backup of the
database, and whatever is served is compared with the entry first:

    entry without those bytes     expired: nothing is served, and nothing is drawn again
    bytes without an entry        never served
    no log, or another one than the database knows    nothing is sealed

The log of a database on one machine is a folder elsewhere with a file for each window, which is created exclusively;
that of several machines is a small database on another server (`live.postgres`).
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shuffledp.core.errors import DataError
from shuffledp.live.store import make_private, sync_folder, write_once

_IDENTITY = "identity"


class SealError(DataError):
    """A seal log that cannot be reached or believed: nothing may be sealed or served."""


class TakenError(SealError):
    """A window that has an entry: another draw of it may have left."""

    def __init__(self, window: int) -> None:
        super().__init__(f"window {window} was sealed before: nothing is sealed twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record of what left: the SHA-256 of a batch, and of what goes with it, its manifest or its result.

    >>> entry = Entry(batch=bytes(32), other=bytes([1]) * 32)
    >>> Entry.read(entry.raw) == entry
    True
    """

    batch: bytes
    other: bytes

    @property
    def raw(self) -> bytes:
        """64 bytes in hexadecimal."""
        return f"{self.batch.hex()}\n{self.other.hex()}\n".encode()

    @classmethod
    def read(cls, raw: bytes) -> "Entry":
        """Return the entry that the bytes say."""
        try:
            batch, other = (bytes.fromhex(line) for line in raw.decode().split())
        except ValueError:
            raise SealError("an entry of the seal log is damaged") from None
        return cls(batch=batch, other=other)


class SealLog(Protocol):
    """One linearizable store for all hosts of a role, outside of every backup and replica of its database."""

    def origin(self) -> str | None:
        """Return what is copied together with it: the database must not have the same; None if nothing is."""

    def identify(self) -> bytes | None:
        """Return what tells this log from any other; None if it was never used."""

    def begin(self) -> bytes:
        """Give a log that was never used its identity, exclusively and durably; returns the one that it has."""

    def find(self, window: int) -> Entry | None:
        """Return the entry of a window."""

    def create(self, window: int, entry: Entry) -> None:
        """Make the entry of a window: durable when this returns; `TakenError` if there is one already."""

    def windows(self) -> Iterable[int]:
        """Return all windows that have an entry."""


def recognize(log: SealLog, known: bytes | None) -> bytes:
    """Return the identity of the log, if it is the one that a database knows; a new database takes the log as it is."""
    if known is None:
        return log.begin()
    identity = log.identify()
    if identity != known:
        state = "is empty" if identity is None else "belongs to another database"
        raise SealError(
            f"the database was used with a seal log, and this one {state}: nothing is sealed or served. Restore the "
            "log that belongs to the database; if it is lost, open windows must be given up"
        )
    return identity


def find_digest(path: Path) -> bytes | None:
    """Return the SHA-256 of a file; None if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except FileNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class FolderLog:
    """A folder with one file for each window."""

    folder: Path

    def origin(self) -> str | None:
        return None

    def identify(self) -> bytes | None:
        try:
            return (self.folder / _IDENTITY).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._fail(error) from error

    def begin(self) -> bytes:
        try:
            make_private(self.folder)
            sync_folder(self.folder.parent)
            write_once(self.folder / _IDENTITY, os.urandom(16).hex().encode())
        except FileExistsError:
            sync_folder(self.folder)  # whoever was faster may not be done
        except OSError as error:
            raise self._fail(error) from error
        identity = self.identify()
        assert identity is not None
        return identity

    def find(self, window: int) -> Entry | None:
        try:
            return Entry.read((self.folder / f"window-{window}").read_bytes())
        except FileNotFoundError:
            if self.identify() is None:
                raise SealError(f"there is no seal log in {self.folder}") from None
            return None
        except OSError as error:
            raise self._fail(error) from error

    def create(self, window: int, entry: Entry) -> None:
        if self.identify() is None:
            raise SealError(f"there is no seal log in {self.folder}")
        try:
            write_once(self.folder / f"window-{window}", entry.raw)
        except FileExistsError:
            raise TakenError(window) from None
        except OSError as error:
            raise self._fail(error) from error

    def windows(self) -> list[int]:
        try:
            names = [each.name for each in self.folder.iterdir()]
        except OSError as error:
            raise self._fail(error) from error
        return sorted(int(name[7:]) for name in names if name.startswith("window-"))

    def _fail(self, error: OSError) -> SealError:
        return SealError(f"the seal log {self.folder} cannot be used: {error.strerror or error}")
