"""The folder of a collection: the document, and one folder for each role, which only that role may read.

    survey/collection.json        public
    survey/shuffler/keys.json     the shuffler's secrets, its store, its batches
    survey/analyzer/keys.json     the analyzer's secrets, its batches, its ledger, its results

Two operators have two such folders, each with the document and its own role.
"""

from dataclasses import dataclass
from pathlib import Path

from shuffledp.core.errors import DataError
from shuffledp.live.analyzer import Analyzer, Opener, open_records
from shuffledp.live.disk import check_private, make_private, write_whole
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.live.shuffler import Shuffler
from shuffledp.live.store import SqliteStore, Store
from shuffledp.live.wire.document import Collection

__all__ = ["Home"]

_LONGEST_SOCKET = 103


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of a collection."""

    path: Path

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

    @property
    def socket(self) -> Path:
        """The socket on which the shuffler's operator asks and commands."""
        return self.shuffler / "admin.sock"

    def create(
        self, collection: Collection, shuffler: ShufflerSecrets, analyzer: AnalyzerSecrets | None
    ) -> None:
        """A new folder; refuses one that has a collection already."""
        if self.document.exists():
            raise DataError(f"{self.document} is there already: a collection never changes")
        self.check_length()
        make_private(self.path)
        shuffler.save(self.shuffler)
        if analyzer is not None:
            analyzer.save(self.analyzer)
        write_whole(self.document, [collection.raw])

    def check_length(self) -> None:
        """Refuse a folder whose path is too long for the operator's socket: systems allow about 100 bytes."""
        if len(bytes(self.socket.absolute())) > _LONGEST_SOCKET:
            raise DataError(
                f"the path {self.socket.absolute()} is too long for a socket, which may have "
                f"{_LONGEST_SOCKET} bytes: choose a folder with a shorter path"
            )

    def collection(self) -> Collection:
        """The collection, read strictly."""
        try:
            return Collection.read(self.document.read_bytes())
        except FileNotFoundError:
            raise DataError(
                f"there is no collection in {self.path}: see shuffledp collection new"
            ) from None

    def open_shuffler(self, store: Store | None = None) -> Shuffler:
        """The shuffler with its store, or with another one; refuses keys that others may read."""
        self.check_length()
        collection = self.collection()
        secrets = ShufflerSecrets.load(self.shuffler, collection)
        return Shuffler(
            collection=collection,
            secrets=secrets,
            store=self.open_store() if store is None else store,
            folder=self.shuffler,
        )

    def open_store(self) -> Store:
        """The shuffler's store."""
        return SqliteStore(self.shuffler / "store.sqlite", self.collection())

    def open_analyzer(self, opener: Opener = open_records) -> Analyzer:
        """The analyzer with its files; refuses keys that others may read."""
        collection = self.collection()
        check_private(self.analyzer)
        secrets = AnalyzerSecrets.load(self.analyzer, collection)
        return Analyzer(collection=collection, secrets=secrets, folder=self.analyzer, opener=opener)
