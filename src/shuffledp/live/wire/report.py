r"""What a device sends: messages encrypted for the analyzer, inside a report encrypted for the shuffler.

    hdr       = suite u8 || shuffler_key_id u8
    inner     = HPKE(analyzer, "shuffledp/1 inner\0" || suite || collection_id || window u32, kind u8 || message || 0*)
    outer     = HPKE(shuffler, "shuffledp/1 outer\0" || hdr || collection_id, window u32 || token || inners)
    report_id = SHA-256("shuffledp/1 report\0" || collection_id || window || inners)[:16]
    upload    = collection_id[32] || (hdr || outer)*

Numbers are big-endian; `kind` is the number of the question. The report id is computed, never sent: so a retry or
a report that was sealed anew is the same report, and somebody else's replay does no harm.

The shuffler hands the analyzer the messages of a window, sorted by their bytes, and a signed manifest.

Sorting depends on the multiset alone: there is no randomness to get wrong, and after a crash the bytes are the
same. The manifest has no time in it, so its bytes repeat too. The analyzer answers with a signed receipt.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shuffledp.core.arrays import Codes, Words
from shuffledp.core.errors import WireError
from shuffledp.core.randomizer import Octets, WordSource
from shuffledp.live.wire.document import SUITE, Collection
from shuffledp.live.wire.question import CHOICE_BITS
from shuffledp.live.wire.strict import Fields, read_json, write_canonical

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.hpke import Suite


MEDIA_TYPE = "application/vnd.shuffledp.reports"
MOST_REPORTS = 50
"""In one upload."""
_INNER = b"shuffledp/1 inner\0"
_OUTER = b"shuffledp/1 outer\0"
_REPORT = b"shuffledp/1 report\0"


class Opened(NamedTuple):
    """A report that the shuffler opened: everything that it stores, and the token, which it spends."""

    id: bytes
    window: int
    token: bytes
    inners: bytes


def encode_answers(
    collection: Collection, answers: Mapping[str, object], rng: WordSource
) -> list[bytes]:
    """Return the randomized answers of one person: one plaintext for each message, all of one size."""
    return encode_places(collection, place_answers(collection, answers), rng)


def encode_places(
    collection: Collection, places: Mapping[str, Codes], rng: WordSource
) -> list[bytes]:
    """Randomize the answers of one person that were placed already."""
    return [row[0].tobytes() for row in encode_many(collection, places, rng)]


def place_answers(collection: Collection, answers: Mapping[str, object]) -> dict[str, Codes]:
    """Return the place of each answer of one person in its domain; refuses what is missing, unknown or misspelt.

    Who leaves out a question that may be skipped has chosen its last category.
    """
    skipped = {
        each.name: each.labels[-1]
        for each in collection.questions
        if each.labels and each.asked.skip
    }
    answers = {**skipped, **answers}
    missing = [each.name for each in collection.questions if each.name not in answers]
    if missing:
        raise WireError("answers", f"there is no answer to {', '.join(missing)}")
    for name in answers:
        collection.question(name)
    return {
        each.name: np.array([each.place_of(answers[each.name])]) for each in collection.questions
    }


def encode_many(
    collection: Collection, places: Mapping[str, Codes], rng: WordSource
) -> list[Octets]:
    """Randomize answers of n people at these places: plaintexts[n, 1 + message_size] for each message of a report."""
    if not collection.pledge.one_question:
        return [
            _encode(collection, kind, places[question.name], rng)
            for kind, question in enumerate(collection.questions)
        ]
    people = len(next(iter(places.values())))
    kinds = choose_uniformly(rng.words(people, CHOICE_BITS), len(collection.questions))
    plain = np.zeros((people, 1 + collection.message_size), dtype=np.uint8)
    for kind, question in enumerate(collection.questions):
        mine = np.flatnonzero(kinds == kind)
        plain[mine] = _encode(collection, kind, places[question.name][mine], rng)
    return [plain]


def choose_uniformly(words: Words, size: int) -> Codes:
    """Choose one of `size` things by each word of 64 bits: the upper half of word times size.

    >>> choose_uniformly(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 3)
    array([0, 1, 2])
    """
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    wide = np.uint64(size)
    chosen: Codes = ((high * wide + (low * wide >> np.uint64(32))) >> np.uint64(32)).astype(
        np.int64
    )
    return chosen


def _encode(collection: Collection, kind: int, places: Codes, rng: WordSource) -> Octets:
    question = collection.questions[kind]
    bits, width = question.protocol.randomizer.word_bits, question.width
    words = rng.words(len(places) * width, bits).reshape(len(places), width)
    plain = np.zeros((len(places), 1 + collection.message_size), dtype=np.uint8)
    plain[:, 0] = kind
    if len(places):
        message = question.code.encode_message(question.randomize(places, words))
        plain[:, 1 : 1 + question.code.size] = message
    return plain


def _inner_info(collection: Collection, window: int) -> bytes:
    return _INNER + bytes([SUITE]) + collection.id + window.to_bytes(4, "big")


def seal_inner(collection: Collection, window: int, plain: bytes) -> bytes:
    """Seal one message for the analyzer, bound to the collection and the window."""
    return seal(plain, collection.analyzer_public, _inner_info(collection, window))


def open_inner(collection: Collection, window: int, inner: bytes, secret: bytes) -> bytes:
    """Return the plaintext of one message."""
    return open_sealed(inner, secret, _inner_info(collection, window))


def report_id(collection: Collection, window: int, inners: bytes) -> bytes:
    """Return the identity that copies of a report share."""
    content = _REPORT + collection.id + window.to_bytes(4, "big") + inners
    return hashlib.sha256(content).digest()[:16]


def _outer_info(header: bytes, collection: Collection) -> bytes:
    return _OUTER + header + collection.id


def check_token(collection: Collection, token: bytes) -> None:
    """Refuse a token that does not fit."""
    if len(token) != (32 if collection.tokens else 0):
        raise WireError(
            "token", f"this collection {'needs a' if collection.tokens else 'takes no'} token"
        )


def seal_report(
    collection: Collection, window: int, inners: Sequence[bytes], token: bytes = b""
) -> bytes:
    """Seal a report for the shuffler. Sealing it again gives other bytes, and the same report."""
    check_token(collection, token)
    key = collection.key_for(window)
    header = bytes([SUITE, key.id])
    # The header is not encrypted, but sealed with the rest: nobody can name another key in it.
    plain = window.to_bytes(4, "big") + token + b"".join(inners)
    return header + seal(plain, key.public, _outer_info(header, collection))


def join_upload(collection: Collection, reports: Sequence[bytes]) -> bytes:
    """Return the body of an upload."""
    return collection.id + b"".join(reports)


def split_upload(collection: Collection, body: bytes) -> list[bytes]:
    """Return the reports of an upload, still sealed: cheap checks before any decryption."""
    size = collection.report_size
    count, rest = divmod(len(body) - 32, size)
    if rest or not 1 <= count <= MOST_REPORTS:
        raise WireError(
            "malformed", f"an upload is 32 bytes and 1 to {MOST_REPORTS} reports of {size} bytes"
        )
    if body[:32] != collection.id:
        raise WireError("unknown_collection", "the upload is for another collection")
    return [body[place : place + size] for place in range(32, len(body), size)]


def open_report(collection: Collection, sealed: bytes, secrets: dict[int, bytes]) -> Opened:
    """Open a report as far as the shuffler can, or raise `WireError`. `secrets` has the keys that are in use."""
    header = sealed[:2]
    if header[0] != SUITE:
        raise WireError("malformed", f"the suite {header[0]} is not {SUITE}")
    if header[1] not in secrets:
        if any(
            header[1] == key.id for key in collection.shuffler_keys
        ):  # deleted: its windows are over
            raise WireError("too_late", f"the windows of the shuffler's key {header[1]} are over")
        raise WireError("stale_key", f"the shuffler's key {header[1]} is not in use")
    try:
        plain = open_sealed(sealed[2:], secrets[header[1]], _outer_info(header, collection))
    except WireError:
        raise WireError("malformed", "the report was not sealed for this shuffler") from None
    window = int.from_bytes(plain[:4], "big")
    start = 36 if collection.tokens else 4
    if window >= collection.windows.count:
        raise WireError("malformed", f"there is no window {window}")
    # With the key of another window it could still be opened when its own key is deleted.
    if collection.key_for(window).id != header[1]:
        raise WireError("stale_key", f"the key {header[1]} is not that of window {window}")
    inners = plain[start:]
    return Opened(report_id(collection, window, inners), window, plain[4:start], inners)


_MANIFEST = b"shuffledp/1 manifest\0"
_RECEIPT = b"shuffledp/1 receipt\0"
_FETCH = b"shuffledp/1 fetch\0"
_ROWS = 1 << 16  # records that are compared at once


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a batch is: its collection, its window, how many reports and messages, and its hash.

    The reports are people's; the messages are theirs and those that the shuffler added.
    """

    collection_id: bytes
    window: int
    reports: int
    messages: int
    sha256: bytes

    @cached_property
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
        """Return the manifest of these bytes."""
        fields = Fields("manifest", read_json(raw))
        manifest = cls(
            collection_id=fields.key("collection"),
            window=fields.whole("window", 0, 2**32 - 1),
            reports=fields.whole("reports", 0, 2**40),
            messages=fields.whole("messages", 0, 2**48),
            sha256=fields.key("sha256"),
        )
        fields.finish()
        return manifest

    def sign(self, secret: bytes) -> bytes:
        """Return the shuffler's signature."""
        return sign(secret, _MANIFEST + self.raw)

    @classmethod
    def verify(cls, raw: bytes, signature: bytes, collection: Collection) -> "Manifest":
        """Read a manifest, if the shuffler of this collection signed it, and its counts belong together."""
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
    """Return the analyzer's receipt: its signature over the manifest. Now the shuffler may delete the batch."""
    return sign(secret, _RECEIPT + manifest.raw)


def verify_receipt(manifest: Manifest, receipt: bytes, collection: Collection) -> None:
    """Refuse what the analyzer did not sign."""
    verify_signature(collection.analyzer_sign, receipt, _RECEIPT + manifest.raw)


def sign_fetch(collection: Collection, window: int, secret: bytes) -> bytes:
    """Sign as the analyzer, to show who asks. A replay is harmless: only the analyzer can read the reply."""
    return sign(secret, _FETCH + collection.id + window.to_bytes(4, "big"))


def verify_fetch(collection: Collection, window: int, signature: bytes) -> None:
    """Refuse whoever is not the analyzer."""
    content = _FETCH + collection.id + window.to_bytes(4, "big")
    verify_signature(collection.analyzer_sign, signature, content)


def sign(secret: bytes, content: bytes) -> bytes:
    """Return an Ed25519 signature."""
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
    """Return in which order records[n, size] stand when they are sorted by their bytes.

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
    """Return the records[messages, inner_size] of a batch that is what its manifest says, in the order of their bytes.

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
    """Return whether no record is below the one before it; equal ones may follow each other.

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


@cache
def _suite() -> "Suite":
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


@cache
def public_key(raw: bytes) -> "X25519PublicKey":
    """Return the public key of these 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return X25519PublicKey.from_public_bytes(raw)


@cache
def private_key(raw: bytes) -> "X25519PrivateKey":
    """Return the private key of these 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(raw)


def public_bytes(secret: bytes) -> bytes:
    """Return the public half of a private key.

    >>> len(public_bytes(bytes(31) + b"x"))
    32
    """
    return private_key(secret).public_key().public_bytes_raw()


def seal(plain: bytes, public: bytes, info: bytes) -> bytes:
    """Encrypt for the holder of the private key: 32 bytes of encapsulated key, then the ciphertext.

    >>> from shuffledp.core.randomizer import OVERHEAD
    >>> secret = bytes(range(32))
    >>> sealed = seal(b"yes", public_bytes(secret), b"where it belongs")
    >>> len(sealed) == len(b"yes") + OVERHEAD, open_sealed(sealed, secret, b"where it belongs")
    (True, b'yes')
    """
    return bytes(_suite().encrypt(plain, public_key(public), info))


def open_sealed(sealed: bytes, secret: bytes, info: bytes) -> bytes:
    """Open what was sealed for this key and this `info`; raise `WireError` otherwise.

    >>> open_sealed(bytes(60), bytes(range(32)), b"")
    Traceback (most recent call last):
    shuffledp.core.errors.WireError: undecryptable: it was not sealed for this key and place
    """
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(_suite().decrypt(sealed, private_key(secret), info))
    except (InvalidTag, ValueError):
        raise WireError("undecryptable", "it was not sealed for this key and place") from None
