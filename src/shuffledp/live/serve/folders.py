"""The folder of a collection: the document, and one folder for each role, which only that role may read.

    survey/collection.json        public
    survey/shuffler/keys.json     the shuffler's secrets, its store, its batches
    survey/analyzer/keys.json     the analyzer's secrets, its batches, its ledger, its results
    survey.seals/                 what has left either server, if they add noise: never part of a backup of the above

The shuffler's store is `shuffler/store.sqlite`, unless `shuffler/store.toml` names a PostgreSQL database:

    postgresql = "host=db.internal dbname=survey user=shuffler"
    seals = "host=log.internal dbname=seals user=shuffler"      if the servers add noise: on another server

Several shufflers may work on such a database, each with a name and a folder of its own in `shuffler/`. Two operators
have two such folders, each with the document and its own role.

The roles are processes of their own with disjoint keys, even if one machine plays all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.live.analyzer import Analyzer, Opener, open_records
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.live.postgres import PostgresLog, PostgresStore
from shuffledp.live.seals import FolderLog, SealLog
from shuffledp.live.serve.client import connect
from shuffledp.live.serve.http import bind
from shuffledp.live.shuffler import Shuffler
from shuffledp.live.store import (
    SqliteStore,
    Store,
    check_private,
    make_private,
    read_private,
    sync_folder,
    write_whole,
)
from shuffledp.live.wire.document import ONE_OPERATOR, Collection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shuffledp.live.serve.http import Certificate


_LONGEST_SOCKET = 103


@dataclass(frozen=True)
class Home:
    """The folder of a collection."""

    path: Path
    instance: str = ""
    """The name of one of several shufflers."""

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z0-9]{0,20}", self.instance, re.ASCII):
            raise DataError(
                f"instance={self.instance!r} must be up to 20 lower-case letters and digits"
            )

    @property
    def document(self) -> Path:
        """The public document."""
        return self.path / "collection.json"

    @property
    def shuffler(self) -> Path:
        """Everything of the shuffler."""
        return self.path / "shuffler"

    @property
    def analyzer(self) -> Path:
        """Everything of the analyzer."""
        return self.path / "analyzer"

    def seals(self, role: str) -> Path:
        """Return the folder of a role's seal log, which no backup of the collection's own folder includes."""
        return self.path.absolute().with_name(f"{self.path.absolute().name}.seals") / role

    @property
    def desk(self) -> Path:
        """What one shuffler process has for itself: its socket, its lock, batches."""
        return self.shuffler / self.instance

    @property
    def socket(self) -> Path:
        """The socket on which the shuffler's operator asks and commands."""
        return self.desk / "admin.sock"

    @property
    def database(self) -> str | None:
        """Where the PostgreSQL database is, as libpq wants it said; None if the store is a file."""
        return self._read_databases()[0]

    def _read_databases(self) -> tuple[str | None, str | None]:
        """Return where the store is, and the seal log."""
        place = self.shuffler / "store.toml"
        if not place.exists():
            return None, None
        try:
            content = tomllib.loads(read_private(place).decode())
        except ValueError as error:
            raise DataError(f"{place} cannot be read: {error}") from None
        store, log = content.pop("postgresql", None), content.pop("seals", None)
        if not isinstance(store, str) or not isinstance(log, str | None) or content:
            raise DataError(
                f'{place} must have a line postgresql = "host=... dbname=...", and may have one for the seal log: '
                'seals = "host=... dbname=..."'
            )
        return store, log

    def create(
        self, collection: Collection, shuffler: ShufflerSecrets, analyzer: AnalyzerSecrets | None
    ) -> None:
        """Make a new folder; refuses one that has a collection already. What fails leaves nothing behind."""
        if self.document.exists():
            raise DataError(f"{self.document} is there already: a collection never changes")
        self.check_length()
        before = _list_there(self.path)
        try:
            make_private(self.path)
            shuffler.save(self.shuffler)
            if analyzer is not None:
                analyzer.save(self.analyzer)
            write_whole(self.document, [collection.raw])
            # A new folder whose name is not on the disk goes with a power failure, keys and all.
            sync_folder(self.path.absolute().parent)
        except BaseException:
            for made in sorted(_list_there(self.path) - before, reverse=True):
                made.rmdir() if made.is_dir() else made.unlink()
            raise

    def check_length(self) -> None:
        """Refuse a folder whose path is too long for the operator's socket: systems allow about 100 bytes."""
        if len(bytes(self.socket.absolute())) > _LONGEST_SOCKET:
            raise DataError(
                f"the path {self.socket.absolute()} is too long for a socket, which may have "
                f"{_LONGEST_SOCKET} bytes: choose a folder with a shorter path"
            )

    def collection(self) -> Collection:
        """Return the collection, read strictly, and once: it never changes."""
        return self._collection

    @cached_property
    def _collection(self) -> Collection:
        try:
            return Collection.read(self.document.read_bytes())
        except FileNotFoundError:
            raise DataError(
                f"there is no collection in {self.path}: see shuffledp collection new"
            ) from None

    def open_shuffler(self, store: Store | None = None) -> Shuffler:
        """Return the shuffler with its store, or with another one; refuses keys that others may read."""
        self.check_length()
        collection = self.collection()
        secrets = ShufflerSecrets.load(self.shuffler, collection)
        return Shuffler(
            collection=collection,
            secrets=secrets,
            store=self.open_store() if store is None else store,
            folder=make_private(self.desk),
            seals=self._open_seals(collection) if collection.by_servers else None,
        )

    def _open_seals(self, collection: Collection) -> SealLog:
        store, log = self._read_databases()
        if store is None:
            return FolderLog(self.seals("shuffler"))
        if log is None:
            raise DataError(
                "shufflers on a database that add noise need a seal log that they share: write seals = "
                f'"host=... dbname=..." into {self.shuffler / "store.toml"}, with a database on another server'
            )
        return PostgresLog(log, collection.id)

    def open_store(self) -> Store:
        """Return the shuffler's store."""
        where = self.database
        if where is not None:
            return PostgresStore(where, self.collection())
        if self.instance:
            raise DataError(
                f"instance={self.instance!r} must be empty: several shufflers need a PostgreSQL database, named in "
                f"{self.shuffler / 'store.toml'}"
            )
        return SqliteStore(self.shuffler / "store.sqlite", self.collection())

    def list_ended(self) -> set[int]:
        """Return the windows that take no more reports, as the shuffler's store says."""
        store = self.open_store()
        try:
            last, ended = store.closed(), set(store.rows())
        finally:
            store.close()
        count = self.collection().windows.count
        return ended if last is None else ended | set(range(last + 1, count))

    def open_analyzer(self, opener: Opener = open_records) -> Analyzer:
        """Return the analyzer with its files; refuses keys that others may read."""
        collection = self.collection()
        if not self.analyzer.is_dir():
            raise DataError(f"there is no analyzer in {self.path}: its operator has it elsewhere")
        check_private(self.analyzer)
        secrets = AnalyzerSecrets.load(self.analyzer, collection)
        return Analyzer(
            collection=collection,
            secrets=secrets,
            folder=self.analyzer,
            opener=opener,
            seals=FolderLog(self.seals("analyzer")) if collection.by_servers else None,
        )


def _list_there(path: Path) -> set[Path]:
    """Return the folder and all that is in it, if it exists."""
    return {path, *path.rglob("*")} if path.exists() else set()


_PATIENCE = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where roles listen: on this machine alone, or at an address with a certificate."""

    host: str = "127.0.0.1"
    certificate: Certificate | None = None

    def find_port(self) -> int:
        """Find a port that is free now."""
        with bind(self.host, 0) as probe:
            return int(probe.getsockname()[1])

    def locate(self, port: int) -> str:
        """Return the address of a port.

        >>> Place().locate(8000)
        'http://127.0.0.1:8000'
        """
        named = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.certificate else ''}://{named}:{port}"

    def locate_shuffler(self, port: int) -> str:
        """Return the address of a shuffler whose operator also runs the analyzer."""
        return self.locate(port) + (ONE_OPERATOR if self.certificate else "")

    def check(self, collection: Collection) -> None:
        """Refuse a collection of another place, or whose port is taken: its address never changes."""
        port = urlsplit(collection.url).port
        if port is None or collection.url != self.locate_shuffler(port):
            raise UnsupportedError(
                f"people find this survey at {collection.url}: serve it with the --host and --tls that it was made with"
            )
        try:
            bind(self.host, port).close()
        except DataError as error:
            raise UnsupportedError(
                f"port {port}, where people find this survey, cannot be used now: {error}"
            ) from None


_HERE = Place()


def find_port() -> int:
    """Find a port of this machine that is free now."""
    return _HERE.find_port()


class Role:
    """A process that serves one role."""

    def __init__(
        self, process: subprocess.Popen[bytes], url: str, certificate: Certificate | None = None
    ) -> None:
        self.process = process
        self.url = url
        self.certificate = certificate

    def wait_until_ready(self) -> None:
        """Wait until it answers."""
        import httpx

        end = time.monotonic() + _PATIENCE
        with connect(self.url, self.certificate) as client:
            while time.monotonic() < end:
                if self.process.poll() is not None:
                    raise UnsupportedError(
                        f"a server ended at once, with status {self.process.returncode}"
                    )
                with suppress(httpx.TransportError):
                    if client.get("/healthz").status_code == 200:
                        return
                time.sleep(0.05)
        raise UnsupportedError(f"{self.url} does not answer")

    def stop(self) -> None:
        """Ask it to end, and wait."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def start(
    role: str,
    home: Home,
    port: int,
    *more: str,
    workers: int | None = None,
    place: Place = _HERE,
) -> Role:
    """Start `shuffledp shuffler` or `shuffledp analyzer` for a folder."""
    command = [sys.executable, "-m", "shuffledp", role, str(home.path), "--port", str(port), *more]
    if place.certificate is not None:
        command += ["--host", place.host, "--tls", str(place.certificate)]
    if workers is not None:
        command += ["--workers", str(workers)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
    return Role(process, place.locate(port), place.certificate)


def start_roles(
    home: Home,
    analyzer_port: int,
    *options: str,
    workers: int | None = None,
    place: Place = _HERE,
) -> list[Role]:
    """Return the shuffler, and the analyzer with these options, ready; if one of them is not, both end."""
    port = urlsplit(home.collection().url).port
    assert port is not None  # whoever plays all roles chose one
    results = place.locate(analyzer_port)
    roles = [start("shuffler", home, port, "--results", results, workers=workers, place=place)]
    try:
        more = start("analyzer", home, analyzer_port, *options, workers=workers, place=place)
        roles.append(more)
        for role in roles:
            role.wait_until_ready()
    except BaseException:
        stop_roles(roles)
        raise
    return roles


def stop_roles(roles: Sequence[Role]) -> None:
    """End them, the last one first."""
    for role in reversed(roles):
        role.stop()


@contextmanager
def play_roles(
    home: Home, analyzer_port: int, *, workers: int | None = None, every: float = 0.5
) -> Iterator[tuple[Role, Role]]:
    """Run both roles, each in its own process; they end with the block."""
    roles = start_roles(home, analyzer_port, "--every", str(every), workers=workers)
    try:
        yield roles[0], roles[1]
    finally:
        stop_roles(roles)
