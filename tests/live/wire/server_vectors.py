"""Writes `vectors/bad_reports.json`, `vectors/bad_messages.json` and `vectors/batch.json`: what servers must do.

    PYTHONPATH=src:tests python -m wire.server_vectors

Everything is sealed by `wire.reference` with ephemeral keys that are given, so every byte is reproducible.
"""

import hashlib

import live_support as live
from live.wire import reference
from live.wire.vectors import FOLDER, write
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import Manifest, write_receipt

__all__ = ["FOLDER", "WRITERS"]

COLLECTION, OTHER = (
    Collection.read(live.as_format_1(live.make_collection(title=title).raw))
    for title in ("A test", "Another")
)
MESSAGE = bytes([0, 2])


def inner_info(collection, window):
    return b"shuffledp/1 inner\0\1" + collection.id + window.to_bytes(4, "big")


def outer_info(collection, header):
    return b"shuffledp/1 outer\0" + header + collection.id


def inner(name, plain, collection=COLLECTION, window=0):
    ephemeral = reference.make_ephemeral(f"inner {name}")
    return reference.seal(
        plain, collection.analyzer_public, inner_info(collection, window), ephemeral
    )


def report(name, window=0, header=b"\1\0", inners=None, collection=COLLECTION, key=0):
    chosen = inners or [inner(f"{name} {kind}", bytes([kind, 1])) for kind in range(2)]
    plain = window.to_bytes(4, "big") + b"".join(chosen)
    public = collection.shuffler_keys[key].public
    ephemeral = reference.make_ephemeral(f"outer {name}")
    return header + reference.seal(plain, public, outer_info(collection, header), ephemeral)


def write_bad_reports():
    """One report that is fine, and every way to spoil it, with what the shuffler answers (null: accepted)."""
    good = report("good")
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    as_inner = b"\1\0" + inner("as outer", bytes(4) + bytes(2 * COLLECTION.inner_size))
    cases = [
        ("a good report", good, None),
        ("the same messages, sealed anew", report("again", inners=good_inners()), None),
        ("a bit of the ciphertext is flipped", flipped, "malformed"),
        ("another suite", b"\2" + good[1:], "malformed"),
        ("another key id", good[:1] + b"\1" + good[2:], "malformed"),
        ("a key id that nobody has", good[:1] + b"\7" + good[2:], "stale_key"),
        ("a window that there is not", report("late", window=9), "malformed"),
        ("the key of another window", report("key", window=1), "stale_key"),
        ("sealed for another collection", report("other", collection=OTHER), "malformed"),
        ("sealed with the wrong key", report("wrong", key=1), "malformed"),
        ("a message in place of a report", as_inner, "malformed"),
    ]
    secrets = {str(i): key.hex() for i, key in live.outer_secrets(COLLECTION).items()}
    return {
        "document": COLLECTION.raw.decode(),
        "shuffler_secrets": secrets,
        "cases": [{"what": w, "report": r.hex(), "reason": reason} for w, r, reason in cases],
    }


def good_inners():
    return [inner(f"good {kind}", bytes([kind, 1])) for kind in range(2)]


def write_bad_messages():
    """Messages of window 0 and what the analyzer does with them (null: counted)."""
    cases = [
        ("a good message", inner("m", MESSAGE), None),
        ("of another window", inner("w", MESSAGE, window=1), "undecryptable"),
        ("of another collection", inner("c", MESSAGE, collection=OTHER), "undecryptable"),
        ("out of range", inner("r", bytes([0, 3])), "out_of_range"),
        ("an answer to no question", inner("q", bytes([2, 0])), "unknown_question"),
        ("garbage", bytes(COLLECTION.inner_size), "undecryptable"),
    ]
    return {
        "document": COLLECTION.raw.decode(),
        "analyzer_secret": live.secret("inner").hex(),
        "window": 0,
        "cases": [{"what": w, "message": m.hex(), "reason": reason} for w, m, reason in cases],
    }


def write_batch():
    """A whole batch: messages in the order of their bytes, the signed manifest, the receipt."""
    messages = [inner(f"b {i}", bytes([i % 2, 1])) for i in range(2 * COLLECTION.pledge.min_batch)]
    batch = b"".join(sorted(messages))
    manifest = Manifest(
        collection_id=COLLECTION.id,
        window=0,
        reports=len(messages) // 2,
        messages=len(messages),
        sha256=hashlib.sha256(batch).digest(),
    )
    return {
        "document": COLLECTION.raw.decode(),
        "messages": [each.hex() for each in messages],
        "batch": batch.hex(),
        "manifest": manifest.raw.decode(),
        "signature": manifest.sign(live.secret("shuffler")).hex(),
        "receipt": write_receipt(manifest, live.secret("analyzer")).hex(),
    }


WRITERS = {
    "bad_reports": write_bad_reports,
    "bad_messages": write_bad_messages,
    "batch": write_batch,
}

if __name__ == "__main__":
    for name, writer in WRITERS.items():
        write(name, writer())
