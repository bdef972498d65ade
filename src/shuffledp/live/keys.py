"""The keys of the roles. Each role has a folder of its own, and no role has what another needs."""

import hashlib
import json
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shuffledp.core.errors import DataError, MismatchError
from shuffledp.live.store import make_private, read_private, write_whole
from shuffledp.live.wire.document import Collection, ShufflerKey
from shuffledp.live.wire.report import public_bytes

_FILE = "keys.json"


def signing_public(secret: bytes) -> bytes:
    """Return the public half of an Ed25519 key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShufflerSecrets:
    """What only the shuffler has: the keys of the outer layer by id, and its signing key."""

    outer: Mapping[int, bytes]
    sign: bytes

    @classmethod
    def generate(cls, count: int = 1) -> "ShufflerSecrets":
        """Make new keys from the randomness of the operating system."""
        return cls(outer={i: os.urandom(32) for i in range(count)}, sign=os.urandom(32))

    def public_keys(self, windows: int) -> tuple[ShufflerKey, ...]:
        """Return the public keys for a document, each for an equal share of the windows."""
        count = len(self.outer)
        if count > windows:
            raise DataError(f"{count} keys for {windows} windows: give each window at most one")
        ends = [windows * i // count for i in range(count + 1)]
        return tuple(
            ShufflerKey(
                id=i, first=ends[i], last=ends[i + 1] - 1, public=public_bytes(self.outer[i])
            )
            for i in range(count)
        )

    def save(self, folder: Path) -> None:
        """Write the keys into a private folder."""
        _refuse_overwriting(folder)
        self._write(folder)

    @classmethod
    def load(cls, folder: Path, collection: Collection) -> "ShufflerSecrets":
        """Load the keys from a private folder; they must belong to the collection. Keys of old windows may be gone."""
        with _reading(folder) as content:
            secrets = cls(
                outer={int(i): _read_key(key) for i, key in content["outer"].items()},
                sign=_read_key(content["sign"]),
            )
        wanted = {key.id: key.public for key in collection.shuffler_keys}
        mine = {i: public_bytes(key) for i, key in secrets.outer.items()}
        if (
            not mine.items() <= wanted.items()
            or signing_public(secrets.sign) != collection.shuffler_sign
        ):
            raise MismatchError(f"the keys in {folder} are not the shuffler's of this collection")
        return secrets

    @classmethod
    def forget(cls, folder: Path, collection: Collection, ended: Container[int]) -> tuple[int, ...]:
        """Delete from the folder the keys whose windows have all ended; returns their ids.

        The store says which windows have ended: a clock that is wrong would delete the keys of open ones.
        """
        secrets = cls.load(folder, collection)
        windows = {key.id: range(key.first, key.last + 1) for key in collection.shuffler_keys}
        over = tuple(i for i in secrets.outer if all(each in ended for each in windows[i]))
        if over:
            left = {i: key for i, key in secrets.outer.items() if i not in over}
            replace(secrets, outer=left)._write(folder)
        return over

    def _write(self, folder: Path) -> None:
        outer = {str(i): key.hex() for i, key in self.outer.items()}
        _write_keys(folder, {"outer": outer, "sign": self.sign.hex()})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AnalyzerSecrets:
    """What only the analyzer has: the key of the inner layer, and its signing key."""

    inner: bytes
    sign: bytes

    @classmethod
    def generate(cls) -> "AnalyzerSecrets":
        """Make new keys from the randomness of the operating system."""
        return cls(inner=os.urandom(32), sign=os.urandom(32))

    def save(self, folder: Path) -> None:
        """Write the keys into a private folder."""
        _refuse_overwriting(folder)
        _write_keys(folder, {"inner": self.inner.hex(), "sign": self.sign.hex()})

    @classmethod
    def load(cls, folder: Path, collection: Collection) -> "AnalyzerSecrets":
        """Load the keys from a private folder; they must belong to the collection."""
        with _reading(folder) as content:
            secrets = cls(inner=_read_key(content["inner"]), sign=_read_key(content["sign"]))
        mine = public_bytes(secrets.inner), signing_public(secrets.sign)
        if mine != (collection.analyzer_public, collection.analyzer_sign):
            raise MismatchError(f"the keys in {folder} are not the analyzer's of this collection")
        return secrets


def _refuse_overwriting(folder: Path) -> None:
    place = folder / _FILE
    if place.exists():
        raise DataError(f"{place} is there already: keys are never overwritten")


def _write_keys(folder: Path, content: Mapping[str, object]) -> None:
    write_whole(make_private(folder) / _FILE, [json.dumps(content).encode()])


@contextmanager
def _reading(folder: Path) -> Iterator[Any]:
    """Give what the file of keys says; whatever is wrong with it, nothing of it is repeated."""
    place = folder / _FILE
    try:
        raw = read_private(place)
    except FileNotFoundError:
        raise DataError(f"there are no keys in {folder}") from None
    try:
        yield json.loads(raw)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{place} is damaged") from None


def _read_key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != 32:
        raise ValueError(len(key))
    return key


def make_tokens(count: int) -> tuple[list[bytes], list[bytes]]:
    """Make single-use tokens for participants, and their hashes for the shuffler.

    >>> [len(each) for each in make_tokens(3)]
    [3, 3]
    """
    made = [os.urandom(32) for _ in range(count)]
    return made, [hashlib.sha256(each).digest() for each in made]
