"""What the shuffler hands to the analyzer: the messages of a window, sorted by their bytes, and a signed manifest.

Sorting depends on the multiset alone: there is no randomness to get wrong, and after a crash the bytes are the
same. The manifest has no time in it, so its bytes repeat too. The analyzer answers with a signed receipt.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp.core.errors import WireError
from shuffledp.core.octets import Octets
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.strict import Fields, read_json, write_canonical

__all__ = [
    "Manifest",
    "check_batch",
    "is_sorted",
    "sign",
    "sign_fetch",
    "sort_records",
    "verify_fetch",
    "verify_receipt",
    "verify_signature",
    "write_receipt",
]

_MANIFEST = b"shuffledp/1 manifest\0"
_RECEIPT = b"shuffledp/1 receipt\0"
_FETCH = b"shuffledp/1 fetch\0"
_ROWS = 1 << 16  # records that are compared at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a batch is: its collection, its window, how many reports and messages, and its hash.

    The reports are people's; the messages are theirs and those that the shuffler added.
    """

    collection_id: bytes
    window: int
    reports: int
    messages: int
    sha256: bytes

    @property
    def raw(self) -> bytes:
        """The bytes that are signed."""
        return write_canonical(
            {
                "collection": self.collection_id.hex(),
                "window": self.window,
                "reports": self.reports,
                "messages": self.messages,
                "sha256": self.sha256.hex(),
            }
        )

    @classmethod
    def read(cls, raw: bytes) -> "Manifest":
        """The manifest of these bytes."""
        found = Fields("manifest", read_json(raw))
        manifest = cls(
            collection_id=found.key("collection"),
            window=found.whole("window", 0, 2**32 - 1),
            reports=found.whole("reports", 0, 2**40),
            messages=found.whole("messages", 0, 2**48),
            sha256=found.key("sha256"),
        )
        found.finish()
        return manifest

    def sign(self, secret: bytes) -> bytes:
        """The shuffler's signature."""
        return sign(secret, _MANIFEST + self.raw)

    @classmethod
    def verify(cls, raw: bytes, signature: bytes, collection: Collection) -> "Manifest":
        """A manifest of this collection that the shuffler signed, and whose counts belong together."""
        verify_signature(collection.shuffler_sign, signature, _MANIFEST + raw)
        manifest = cls.read(raw)
        if manifest.collection_id != collection.id:
            raise WireError("manifest", "it belongs to another collection")
        if manifest.window >= collection.windows.count:
            raise WireError("manifest", f"there is no window {manifest.window}")
        fewest, most = (manifest.reports * collection.slots + each for each in collection.dummies)
        if not fewest <= manifest.messages <= most:
            noise = " and its noise" if collection.by_servers else ""
            raise WireError(
                "manifest",
                f"{manifest.messages} messages are not {manifest.reports} reports of {collection.slots}{noise}",
            )
        if manifest.reports < collection.pledge.min_batch:
            raise WireError(
                "manifest",
                f"{manifest.reports} reports are fewer than min_batch={collection.pledge.min_batch}",
            )
        return manifest


def write_receipt(manifest: Manifest, secret: bytes) -> bytes:
    """The analyzer's receipt: its signature over the manifest. Now the shuffler may delete the batch."""
    return sign(secret, _RECEIPT + manifest.raw)


def verify_receipt(manifest: Manifest, receipt: bytes, collection: Collection) -> None:
    """Refuse what the analyzer did not sign."""
    verify_signature(collection.analyzer_sign, receipt, _RECEIPT + manifest.raw)


def sign_fetch(collection: Collection, window: int, secret: bytes) -> bytes:
    """The signature by which the analyzer identifies itself. A replay is harmless: only the analyzer can read the reply."""
    return sign(secret, _FETCH + collection.id + window.to_bytes(4, "big"))


def verify_fetch(collection: Collection, window: int, signature: bytes) -> None:
    """Refuse whoever is not the analyzer."""
    content = _FETCH + collection.id + window.to_bytes(4, "big")
    verify_signature(collection.analyzer_sign, signature, content)


def sign(secret: bytes, content: bytes) -> bytes:
    """An Ed25519 signature."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret).sign(content)


def verify_signature(public: bytes, signature: bytes, content: bytes) -> None:
    """Refuse a signature that is not by the holder of the key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
    except (InvalidSignature, ValueError):
        raise WireError("signature", "it is not signed by the key in the document") from None


def sort_records(records: Octets) -> "np.ndarray[Any, np.dtype[np.intp]]":
    """In which order records[n, size] stand when they are sorted by their bytes.

    >>> sort_records(np.frombuffer(b"\\x02b\\x01z\\x02a", dtype=np.uint8).reshape(3, 2))
    array([1, 2, 0])
    """
    count, size = records.shape
    head = np.zeros((count, 8), dtype=np.uint8)
    head[:, : min(8, size)] = records[:, :8]
    keys = head.view(">u8").reshape(-1).astype(np.uint64)
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    tied = np.flatnonzero(ranked[1:] == ranked[:-1])
    # Eight bytes of an encapsulated key are hardly ever equal, unless somebody made them so.
    place = 0
    while place < len(tied):
        first = last = int(tied[place])
        while place < len(tied) and int(tied[place]) == last:
            last, place = last + 1, place + 1
        group = order[first : last + 1]
        order[first : last + 1] = sorted(group.tolist(), key=lambda row: records[row].tobytes())
    return order


def check_batch(manifest: Manifest, batch: bytes, collection: Collection) -> Octets:
    """The records[messages, inner_size] of a batch that is what its manifest says, in the order of their bytes.

    In any other order copies of a message need not be neighbours, and the order itself may say who sent what.
    """
    if len(batch) != manifest.messages * collection.inner_size:
        raise WireError(
            "batch", f"it has {len(batch)} bytes, which are not {manifest.messages} messages"
        )
    if hashlib.sha256(batch).digest() != manifest.sha256:
        raise WireError("batch", "its hash is not that of the manifest")
    records = np.frombuffer(batch, dtype=np.uint8).reshape(-1, collection.inner_size)
    if not is_sorted(records):
        raise WireError("batch", "its messages are not sorted by their bytes")
    return records


def is_sorted(records: Octets) -> bool:
    """Whether no record is below the one before it; equal ones may follow each other.

    >>> rows = np.frombuffer(b"ababac", dtype=np.uint8).reshape(3, 2)
    >>> is_sorted(rows), is_sorted(rows[::-1])
    (True, False)
    """
    for start in range(0, len(records) - 1, _ROWS):
        piece = records[start : start + _ROWS + 1]
        lower, upper = piece[:-1], piece[1:]
        first = (lower != upper).argmax(axis=1)  # where they differ, or 0
        rows = np.arange(len(lower))
        if (lower[rows, first] > upper[rows, first]).any():
            return False
    return True
