"""Files that are whole or not there, transactions, and folders that nobody else may read."""

import fcntl
import os
import sqlite3
import stat
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shuffledp.core.errors import DataError


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


def make_private(folder: Path) -> Path:
    """Make a folder that only its owner may enter; refuse one that others may."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder)
    return folder


def check_private(path: Path) -> None:
    """Refuse what others than the owner may read."""
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
    # Python closes a connection that nobody holds any more, and from 3.13 on warns about it.
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    weakref.finalize(owner, db.close)
    _read_version(db, path, schema)  # before anything is changed
    db.execute(f"PRAGMA journal_mode = {journal}")
    db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
    db.execute("PRAGMA secure_delete = ON")
    if _read_version(db, path, schema) < len(schema):
        with transaction(db):  # somebody else may have been faster
            for version in range(_read_version(db, path, schema), len(schema)):
                for statement in schema[version]:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {len(schema)}")
    return db


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
