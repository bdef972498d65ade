"""What a device sends: messages encrypted for the analyzer, inside a report encrypted for the shuffler.

    hdr       = suite u8 || shuffler_key_id u8
    inner     = HPKE(analyzer, "shuffledp/1 inner\\0" || suite || collection_id || window u32,  kind u8 || message || 0*)
    outer     = HPKE(shuffler, "shuffledp/1 outer\\0" || hdr || collection_id,                  window u32 || token || inners)
    report_id = SHA-256("shuffledp/1 report\\0" || collection_id || window || inners)[:16]
    upload    = collection_id[32] || (hdr || outer)*

Numbers are big-endian; `kind` is the number of the question. The report id is computed, never sent: so a retry or
a report that was sealed anew is the same report, and somebody else's replay does no harm.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Codes, Words
from shuffledp.core.errors import WireError
from shuffledp.core.octets import Octets
from shuffledp.core.randomizer import WordSource
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.hpke import SUITE, open_sealed, seal
from shuffledp.live.wire.question import CHOICE_BITS

__all__ = [
    "MEDIA_TYPE",
    "MOST_REPORTS",
    "Opened",
    "check_token",
    "encode_answers",
    "encode_many",
    "encode_places",
    "join_upload",
    "open_inner",
    "open_report",
    "place_answers",
    "report_id",
    "seal_inner",
    "seal_report",
    "split_upload",
]

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
    """The randomized answers of one person: one plaintext for each message, all of one size."""
    return encode_places(collection, place_answers(collection, answers), rng)


def encode_places(
    collection: Collection, places: Mapping[str, Codes], rng: WordSource
) -> list[bytes]:
    """Randomize the answers of one person that were placed already."""
    return [row[0].tobytes() for row in encode_many(collection, places, rng)]


def place_answers(collection: Collection, answers: Mapping[str, object]) -> dict[str, Codes]:
    """The place of each answer of one person in its domain; refuses what is missing, unknown or misspelt.

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
    """For each message of a report the plaintexts[n, 1 + message_size] of n people at these places, randomized."""
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
    """Each word of 64 bits times `size`, its upper half: which of `size` things is chosen.

    >>> choose_uniformly(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 3)
    array([0, 1, 2])
    """
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    wide = np.uint64(size)
    found: Codes = ((high * wide + (low * wide >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)
    return found


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
    """One message, for the analyzer: bound to the collection and the window."""
    return seal(plain, collection.analyzer_public, _inner_info(collection, window))


def open_inner(collection: Collection, window: int, inner: bytes, secret: bytes) -> bytes:
    """The plaintext of one message."""
    return open_sealed(inner, secret, _inner_info(collection, window))


def report_id(collection: Collection, window: int, inners: bytes) -> bytes:
    """What makes two copies of a report one report."""
    content = _REPORT + collection.id + window.to_bytes(4, "big") + inners
    return hashlib.sha256(content).digest()[:16]


def _outer_info(header: bytes, collection: Collection) -> bytes:
    return _OUTER + header + collection.id


def check_token(collection: Collection, token: bytes) -> None:
    """Refuse a token that does not fit."""
    if len(token) != (32 if collection.tokens else 0):
        raise WireError(
            "token", "this collection " + ("needs" if collection.tokens else "takes no") + " token"
        )


def seal_report(
    collection: Collection, window: int, inners: Sequence[bytes], token: bytes = b""
) -> bytes:
    """A report for the shuffler. Sealing it again gives other bytes, and the same report."""
    check_token(collection, token)
    key = collection.key_for(window)
    header = bytes([SUITE, key.id])
    plain = window.to_bytes(4, "big") + token + b"".join(inners)
    return header + seal(plain, key.public, _outer_info(header, collection))


def join_upload(collection: Collection, reports: Sequence[bytes]) -> bytes:
    """The body of an upload."""
    return collection.id + b"".join(reports)


def split_upload(collection: Collection, body: bytes) -> list[bytes]:
    """The reports of an upload, still sealed: cheap checks before any decryption."""
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
    """What the shuffler sees of a report, or `WireError`. `secrets` has the keys that are in use."""
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
    if collection.key_for(window).id != header[1]:
        raise WireError("stale_key", f"the key {header[1]} is not that of window {window}")
    inners = plain[start:]
    return Opened(report_id(collection, window, inners), window, plain[4:start], inners)
