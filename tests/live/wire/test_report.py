"""Reports: what is bound to what. Every way to move a ciphertext elsewhere must fail."""

import hashlib

import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.wire.report import (
    encode_answers,
    join_upload,
    open_inner,
    open_report,
    report_id,
    seal,
    seal_inner,
    seal_report,
    split_upload,
)

COLLECTION = live.make_collection()
OTHER = live.make_collection(title="Another")
SECRETS = live.outer_secrets(COLLECTION)
INNERS = live.make_inners(COLLECTION, 0, 7)
REPORT = seal_report(COLLECTION, 0, INNERS)


def reason(call, *arguments):
    with pytest.raises(sdp.WireError) as caught:
        call(*arguments)
    return caught.value.reason


def test_a_report_goes_through_both_layers():
    opened = open_report(COLLECTION, REPORT, SECRETS)
    assert opened.window == 0
    assert opened.inners == b"".join(INNERS)
    plains = [open_inner(COLLECTION, 0, each, live.secret("inner")) for each in INNERS]
    assert [plain[0] for plain in plains] == [0, 1]
    assert {len(plain) for plain in plains} == {1 + COLLECTION.message_size}


def test_inner_in_another_window():
    assert reason(open_inner, COLLECTION, 1, INNERS[0], live.secret("inner")) == "undecryptable"


def test_inner_in_another_collection():
    assert reason(open_inner, OTHER, 0, INNERS[0], live.secret("inner")) == "undecryptable"


def test_inner_used_as_outer():
    """A message that was sealed for the analyzer is no report, whichever key opens it."""
    plain = (0).to_bytes(4, "big") + b"".join(INNERS)
    as_inner = bytes([1, 0]) + seal_inner(COLLECTION, 0, plain)
    assert len(as_inner) == COLLECTION.report_size
    assert reason(open_report, COLLECTION, as_inner, SECRETS) == "malformed"
    assert reason(open_report, COLLECTION, as_inner, {0: live.secret("inner")}) == "malformed"


def test_outer_in_another_collection():
    assert reason(open_report, OTHER, REPORT, SECRETS) == "malformed"


def test_changed_hdr():
    assert reason(open_report, COLLECTION, b"\2" + REPORT[1:], SECRETS) == "malformed"
    assert reason(open_report, COLLECTION, REPORT[:1] + b"\1" + REPORT[2:], SECRETS) == "malformed"
    assert reason(open_report, COLLECTION, REPORT[:1] + b"\7" + REPORT[2:], SECRETS) == "stale_key"
    # Also with the same key under both ids, the header is bound.
    same = {0: SECRETS[0], 1: SECRETS[0]}
    assert reason(open_report, COLLECTION, REPORT[:1] + b"\1" + REPORT[2:], same) == "malformed"


def test_each_flipped_bit():
    for place in range(8 * len(REPORT)):
        flipped = bytearray(REPORT)
        flipped[place // 8] ^= 1 << place % 8
        assert reason(open_report, COLLECTION, bytes(flipped), SECRETS) in (
            "malformed",
            "stale_key",
        )
    for place in range(8 * len(INNERS[0])):
        flipped = bytearray(INNERS[0])
        flipped[place // 8] ^= 1 << place % 8
        found = reason(open_inner, COLLECTION, 0, bytes(flipped), live.secret("inner"))
        assert found == "undecryptable"


def test_same_inners_in_a_new_outer():
    again = seal_report(COLLECTION, 0, INNERS)
    assert again != REPORT
    first, second = (open_report(COLLECTION, each, SECRETS) for each in (REPORT, again))
    assert first == second


def test_a_key_is_for_its_windows_only():
    """A report for window 1 under the key of window 0, by a device that does not follow the document."""
    inners = b"".join(live.make_inners(COLLECTION, 1, 3))
    info = b"shuffledp/1 outer\0" + bytes([1, 0]) + COLLECTION.id
    plain = (1).to_bytes(4, "big") + inners
    forged = bytes([1, 0]) + seal(plain, COLLECTION.shuffler_keys[0].public, info)
    assert reason(open_report, COLLECTION, forged, SECRETS) == "stale_key"
    plain = (9).to_bytes(4, "big") + inners
    forged = bytes([1, 0]) + seal(plain, COLLECTION.shuffler_keys[0].public, info)
    assert reason(open_report, COLLECTION, forged, SECRETS) == "malformed"


def test_the_report_id_depends_on_collection_window_and_inners():
    inners = b"".join(INNERS)
    ids = {
        report_id(COLLECTION, 0, inners),
        report_id(COLLECTION, 1, inners),
        report_id(OTHER, 0, inners),
        report_id(COLLECTION, 0, inners[::-1]),
    }
    assert len(ids) == 4
    content = b"shuffledp/1 report\0" + COLLECTION.id + (7).to_bytes(4, "big") + inners
    assert report_id(COLLECTION, 7, inners) == hashlib.sha256(content).digest()[:16]


def test_report_size_is_equal_for_every_value_and_tape():
    sizes = set()
    for way in ("car", "bicycle", "bus"):
        for home in (False, True):
            for seed in range(5):
                plains = encode_answers(
                    COLLECTION, {"way": way, "home": home}, sdp.SeededWords(seed)
                )
                inners = [seal_inner(COLLECTION, 0, plain) for plain in plains]
                sizes.add(len(seal_report(COLLECTION, 0, inners)))
    assert sizes == {COLLECTION.report_size}


def test_uploads_have_whole_reports_of_this_collection():
    assert split_upload(COLLECTION, join_upload(COLLECTION, [REPORT] * 50)) == [REPORT] * 50
    assert reason(split_upload, COLLECTION, join_upload(COLLECTION, [REPORT] * 51)) == "malformed"
    assert reason(split_upload, COLLECTION, join_upload(COLLECTION, [])) == "malformed"
    assert reason(split_upload, COLLECTION, join_upload(COLLECTION, [REPORT])[:-1]) == "malformed"
    assert reason(split_upload, COLLECTION, b"") == "malformed"
    assert reason(split_upload, COLLECTION, join_upload(OTHER, [REPORT])) == "unknown_collection"


def test_answers_must_be_answers():
    rng = sdp.SeededWords(1)
    for answers in (
        {"way": "car"},
        {"way": "car", "home": True, "more": 1},
        {"way": "ufo", "home": 1},
    ):
        with pytest.raises(sdp.ShuffledpError):
            encode_answers(COLLECTION, answers, rng)


def test_tokens_are_asked_for_where_they_are_needed():
    assert reason(seal_report, COLLECTION, 0, INNERS, b"x" * 32) == "token"
    with_tokens = live.make_collection(tokens=True)
    assert reason(seal_report, with_tokens, 0, INNERS) == "token"
    sealed = live.make_report(with_tokens, 0, 3, b"t" * 32)
    assert len(sealed) == with_tokens.report_size == COLLECTION.report_size + 32
    assert open_report(with_tokens, sealed, SECRETS).token == b"t" * 32
