"""The vectors for servers are what this version does."""

import json

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from live.wire.server_vectors import FOLDER, WRITERS
from shuffledp.live.analyzer import count_messages, open_records
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import (
    Manifest,
    check_batch,
    open_report,
    sort_records,
    verify_receipt,
)


def read(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def collection_of(vectors):
    return Collection.read(vectors["document"].encode())


@pytest.mark.parametrize("name", WRITERS)
def test_vectors_are_up_to_date(name):
    """If this fails, servers in the field do something else: think, then `python -m wire.server_vectors`."""
    assert read(name) == json.loads(json.dumps(WRITERS[name]()))


@pytest.mark.parametrize("case", read("bad_reports")["cases"], ids=lambda case: case["what"])
def test_reports(case):
    vectors = read("bad_reports")
    secrets = {int(i): bytes.fromhex(key) for i, key in vectors["shuffler_secrets"].items()}
    arguments = collection_of(vectors), bytes.fromhex(case["report"]), secrets
    if case["reason"] is None:
        good = bytes.fromhex(vectors["cases"][0]["report"])
        assert open_report(*arguments) == open_report(arguments[0], good, secrets)
        return
    with pytest.raises(sdp.WireError) as caught:
        open_report(*arguments)
    assert caught.value.reason == case["reason"]


@pytest.mark.parametrize("case", read("bad_messages")["cases"], ids=lambda case: case["what"])
def test_messages(case):
    vectors = read("bad_messages")
    collection, secret = collection_of(vectors), bytes.fromhex(vectors["analyzer_secret"])
    rows = np.frombuffer(bytes.fromhex(case["message"]), dtype=np.uint8).reshape(1, -1)
    plains, good = open_records(collection, vectors["window"], secret, rows)
    if not good.all():
        assert case["reason"] == "undecryptable"
        return
    counted = count_messages(collection, plains)
    assert counted.dropped == ({} if case["reason"] is None else {case["reason"]: 1})


def test_the_batch():
    vectors = read("batch")
    collection = collection_of(vectors)
    manifest = Manifest.verify(
        vectors["manifest"].encode(), bytes.fromhex(vectors["signature"]), collection
    )
    records = check_batch(manifest, bytes.fromhex(vectors["batch"]), collection)
    arrived = np.frombuffer(bytes.fromhex("".join(vectors["messages"])), dtype=np.uint8)
    arrived = arrived.reshape(records.shape)
    assert (arrived[sort_records(arrived)] == records).all()
    verify_receipt(manifest, bytes.fromhex(vectors["receipt"]), collection)
    plains, good = open_records(collection, 0, live.secret("inner"), records)
    assert good.all()
    assert {tally.users for tally in count_messages(collection, plains).tallies} == {20}
