"""Batches: sorted, counted, signed."""

import hashlib

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.wire.report import (
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
SIZE = COLLECTION.inner_size
BATCH = b"".join(sorted(BATCH[place : place + SIZE] for place in range(0, len(BATCH), SIZE)))


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


def make_batch(records):
    batch = b"".join(records)
    content = {"reports": len(records) // 2, "messages": len(records)}
    return manifest(sha256=hashlib.sha256(batch).digest(), **content), batch


def test_a_batch_that_is_not_sorted_is_refused():
    """Three messages interleaved 400 times are no 1,200 people: copies are found where they are neighbours."""
    three = [bytes([place]) * SIZE for place in range(3)]
    with pytest.raises(sdp.WireError, match="not sorted"):
        check_batch(*make_batch(three * 400), COLLECTION)
    assert len(check_batch(*make_batch(sorted(three * 400)), COLLECTION)) == 1200


@pytest.mark.parametrize("place", [0, 1, 30, 38])
def test_one_pair_in_the_wrong_order_is_enough(place):
    rows = [BATCH[start : start + SIZE] for start in range(0, len(BATCH), SIZE)]
    different = sorted({*rows})
    assert len(different) == 40
    assert check_batch(*make_batch(different), COLLECTION).shape == (40, SIZE)
    different[place], different[place + 1] = different[place + 1], different[place]
    with pytest.raises(sdp.WireError, match="not sorted"):
        check_batch(*make_batch(different), COLLECTION)


def test_records_are_compared_across_the_pieces_in_which_they_are_read(monkeypatch):
    from shuffledp.live.wire import report

    rng = np.random.default_rng(5)
    rows = rng.integers(0, 3, size=(300, 3), dtype=np.uint8)
    rows = rows[sort_records(rows)]
    for piece in (1, 2, 7, 299, 300):
        monkeypatch.setattr(report, "_ROWS", piece)
        assert report.is_sorted(rows)
        for place in np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)):
            swapped = rows.copy()
            swapped[[place, place + 1]] = swapped[[place + 1, place]]
            assert not report.is_sorted(swapped)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"messages": 39}, "39 messages are not 20 reports of 2"),
        ({"messages": 41}, "41 messages are not 20 reports of 2"),
        ({"reports": 19, "messages": 38}, "19 reports are fewer than min_batch=20"),
        ({"window": 2}, "there is no window 2"),
        ({"collection_id": bytes(32)}, "it belongs to another collection"),
    ],
)
def test_false_manifests_are_refused_in_whole_sentences(changes, said):
    with pytest.raises(sdp.WireError) as caught:
        verified(manifest(**changes))
    assert str(caught.value) == f"manifest: {said}"
    assert caught.value.reason == "manifest"


def test_the_last_window_and_more_reports_are_fine():
    for changes in ({"window": 1}, {"reports": 21, "messages": 42}):
        assert verified(manifest(**changes)) == manifest(**changes)
