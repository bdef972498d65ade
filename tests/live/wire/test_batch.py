"""Batches: sorted, counted, signed."""

import hashlib

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.wire.batch import (
    Manifest,
    check_batch,
    sign_fetch,
    sort_records,
    verify_fetch,
    verify_receipt,
    write_receipt,
)

COLLECTION = live.make_collection()
BATCH = bytes(range(256)) * (COLLECTION.inner_size * 2 * 20 // 256 + 1)
BATCH = BATCH[: COLLECTION.inner_size * 40]


def manifest(**changes):
    return Manifest(
        **{
            "collection_id": COLLECTION.id,
            "window": 0,
            "reports": 20,
            "messages": 40,
            "sha256": hashlib.sha256(BATCH).digest(),
            **changes,
        }
    )


def verified(signed, signer="shuffler"):
    return Manifest.verify(signed.raw, signed.sign(live.secret(signer)), COLLECTION)


def test_a_manifest_repeats_byte_by_byte_and_reads_back():
    first, second = manifest(), manifest()
    assert first.raw == second.raw
    assert first.sign(live.secret("shuffler")) == second.sign(live.secret("shuffler"))
    assert verified(first) == first
    assert check_batch(first, BATCH, COLLECTION).shape == (40, COLLECTION.inner_size)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"messages": 41}, "not 20 reports"),
        ({"reports": 19, "messages": 38}, "min_batch"),
        ({"window": 2}, "no window"),
        ({"collection_id": bytes(32)}, "another collection"),
    ],
)
def test_count_that_is_not_reports_times_slots_and_other_false_manifests(changes, match):
    with pytest.raises(sdp.WireError, match=match):
        verified(manifest(**changes))


def test_a_manifest_that_somebody_else_signed():
    with pytest.raises(sdp.WireError, match="signed"):
        verified(manifest(), "analyzer")


def test_a_batch_that_is_not_that_of_its_manifest():
    with pytest.raises(sdp.WireError, match="hash"):
        check_batch(manifest(), BATCH[::-1], COLLECTION)
    with pytest.raises(sdp.WireError, match="bytes"):
        check_batch(manifest(), BATCH[:-1], COLLECTION)


def test_forged_receipt():
    receipt = write_receipt(manifest(), live.secret("analyzer"))
    verify_receipt(manifest(), receipt, COLLECTION)
    for forged in (
        write_receipt(manifest(), live.secret("shuffler")),
        write_receipt(manifest(window=1), live.secret("analyzer")),
        receipt[:-1],
        b"",
    ):
        with pytest.raises(sdp.WireError, match="signed"):
            verify_receipt(manifest(), forged, COLLECTION)


def test_only_the_analyzer_fetches():
    verify_fetch(COLLECTION, 0, sign_fetch(COLLECTION, 0, live.secret("analyzer")))
    with pytest.raises(sdp.WireError):
        verify_fetch(COLLECTION, 1, sign_fetch(COLLECTION, 0, live.secret("analyzer")))


def test_records_are_sorted_by_their_bytes_also_if_they_begin_alike():
    rng = np.random.default_rng(1)
    records = rng.integers(0, 256, size=(500, 12), dtype=np.uint8)
    records[::3, :9] = 7
    records[5] = records[6]
    order = sort_records(records)
    rows = [records[row].tobytes() for row in order]
    assert rows == sorted(row.tobytes() for row in records)
