"""Keys that others may know: the collection is closed, another one takes its place, and the old keys are worth nothing there."""

import pytest

import live_support as live
import shuffledp as sdp
from live.test_roles import (
    ANSWERS,
    COLLECTION,
    fill,
    hand_over,
    open_analyzer,
    open_shuffler,
    refused,
    upload,
)
from shuffledp.live.device import Device
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.live.store import State
from shuffledp.live.wire.document import ShufflerKey
from shuffledp.live.wire.report import (
    Manifest,
    open_inner,
    open_report,
    public_bytes,
    sign_fetch,
    verify_fetch,
    verify_receipt,
    write_receipt,
)

STOLEN = live.outer_secrets(COLLECTION)
NEW = {window: live.secret(f"new outer {window}") for window in range(2)}
AFTER = live.make_collection(
    shuffler_keys=tuple(
        ShufflerKey(id=window, first=window, last=window, public=public_bytes(secret))
        for window, secret in NEW.items()
    ),
    shuffler_sign=live.signing_public("new shuffler"),
    analyzer_public=public_bytes(live.secret("new inner")),
    analyzer_sign=live.signing_public("new analyzer"),
)


def test_the_old_collection_takes_nothing_more_and_publishes_what_it_has(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.close(1050.0)
    late = live.make_inners(COLLECTION, 0, 99)
    assert shuffler.receive(upload(late), 1051.0).failed == ((0, "too_late"),)
    next_one = upload(live.make_inners(COLLECTION, 1, 99), window=1)
    assert shuffler.receive(next_one, 1150.0).failed == ((0, "closed"),)
    analyzer = open_analyzer(tmp_path / "a")
    assert hand_over(shuffler, analyzer) == "published"
    assert analyzer.results()[0]["reports"] == 25
    assert shuffler.store.row(0).state is State.DELETED


def test_stolen_keys_open_nothing_of_the_new_collection():
    assert AFTER.id != COLLECTION.id
    report = live.make_report(AFTER, 0, 1)
    assert open_report(AFTER, report, NEW).window == 0
    assert refused(open_report, AFTER, report, STOLEN) == "malformed"
    (inner, *_) = live.make_inners(AFTER, 0, 1)
    assert open_inner(AFTER, 0, inner, live.secret("new inner")) is not None
    with pytest.raises(sdp.WireError):
        open_inner(AFTER, 0, inner, live.secret("inner"))


def test_stolen_signatures_fetch_and_confirm_nothing():
    manifest = Manifest(collection_id=AFTER.id, window=0, reports=25, messages=50, sha256=bytes(32))
    for name, allowed in (("analyzer", False), ("new analyzer", True)):
        fetch = sign_fetch(AFTER, 0, live.secret(name))
        receipt = write_receipt(manifest, live.secret(name))
        if allowed:
            verify_fetch(AFTER, 0, fetch)
            verify_receipt(manifest, receipt, AFTER)
            continue
        assert refused(verify_fetch, AFTER, 0, fetch) == "signature"
        assert refused(verify_receipt, manifest, receipt, AFTER) == "signature"
    mine = manifest.sign(live.secret("shuffler"))
    assert refused(Manifest.verify, manifest.raw, mine, AFTER) == "signature"


def test_neither_role_starts_with_the_old_keys(tmp_path):
    old = ShufflerSecrets(outer=STOLEN, sign=live.secret("shuffler"))
    old.save(tmp_path / "shuffler")
    with pytest.raises(sdp.MismatchError, match="not the shuffler's of this collection"):
        ShufflerSecrets.load(tmp_path / "shuffler", AFTER)
    AnalyzerSecrets(inner=live.secret("inner"), sign=live.secret("analyzer")).save(tmp_path / "a")
    with pytest.raises(sdp.MismatchError, match="not the analyzer's of this collection"):
        AnalyzerSecrets.load(tmp_path / "a", AFTER)
    mixed = ShufflerSecrets(outer={**NEW, 1: STOLEN[1]}, sign=live.secret("new shuffler"))
    mixed.save(tmp_path / "mixed")
    with pytest.raises(sdp.MismatchError, match="not the shuffler's of this collection"):
        ShufflerSecrets.load(tmp_path / "mixed", AFTER)


def test_devices_count_both_promises(tmp_path):
    device = Device(tmp_path / "outbox.sqlite", budget=2 * COLLECTION.pledge.epsilon)
    for collection in (COLLECTION, AFTER):
        device.answer(collection, ANSWERS, 1001.0)
    assert device.spent.epsilon == COLLECTION.pledge.epsilon + AFTER.pledge.epsilon
    poor = Device(tmp_path / "other.sqlite", budget=1.5 * COLLECTION.pledge.epsilon)
    poor.answer(COLLECTION, ANSWERS, 1001.0)
    with pytest.raises(sdp.BudgetError, match="spent"):
        poor.answer(AFTER, ANSWERS, 1001.0)
