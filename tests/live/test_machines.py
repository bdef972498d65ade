"""The state machines of shuffler, analyzer and device: when each step is taken, and all that is written and told."""

import json
import stat
from dataclasses import replace

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from live.test_roles import COLLECTION, fill, open_analyzer, open_shuffler, upload
from shuffledp.core.errors import WireError
from shuffledp.live.analyzer import _drop_copies, answer_question
from shuffledp.live.device import Device, Sending, Spent, read_reply
from shuffledp.live.store import State
from shuffledp.live.wire.document import ShufflerKey, Windows
from shuffledp.live.wire.promise import compute_guarantee
from shuffledp.live.wire.report import join_upload

WINDOWS = Windows(start=1000, seconds=100, count=3, grace=10)
KEY = replace(COLLECTION.shuffler_keys[0], first=0, last=2)
THREE = live.make_collection(windows=WINDOWS, shuffler_keys=(KEY,))
assert isinstance(KEY, ShufflerKey)


@pytest.fixture
def told():
    return []


@pytest.fixture
def shuffler(tmp_path, told):
    made = open_shuffler(tmp_path / "s", THREE)
    made.note = lambda event, **facts: told.append((event, facts))
    return made


def states(shuffler):
    return [shuffler.store.row(window).state.value for window in range(3)]


@pytest.mark.parametrize(
    ("now", "ended"),
    [
        (0.0, 0), (1000.0, 0), (1109.9, 0), (1110.0, 1), (1209.9, 1), (1210.0, 2), (1309.9, 2), (1310.0, 3), (9e9, 3),
    ],
)  # fmt: skip
def test_a_window_ends_a_while_after_its_last_second(shuffler, told, now, ended):
    shuffler.tick(now)
    assert states(shuffler) == ["expired"] * ended + ["open"] * (3 - ended)
    assert told == [("expire", {"window": window, "reports": 0}) for window in range(ended)]
    assert shuffler.done == set(range(ended))
    shuffler.tick(now)
    assert len(told) == ended


def test_a_copy_of_the_store_that_takes_over_and_is_behind_has_its_windows_ended_again(
    tmp_path, shuffler
):
    """Nothing is uploaded any more, so nothing else would find out: its reports would stay for ever."""
    shuffler.receive(join_upload(THREE, [live.make_report(THREE, 0, 1)]), 1001.0)
    live.copy_store(tmp_path / "s", tmp_path / "replica")
    shuffler.tick(9e9)
    assert shuffler.done == {0, 1, 2}
    replica = live.make_store(tmp_path / "replica", THREE)
    assert replica.count(0) == 1
    replica.connected = 2
    shuffler.store = replica
    shuffler.tick(9e9)
    assert replica.count(0) == 0
    assert states(shuffler) == ["expired"] * 3


@pytest.mark.parametrize(
    ("now", "last"), [(0.0, -1), (999.0, -1), (1000.0, 0), (1099.9, 0), (1100.0, 1), (1250.0, 2), (9e9, 2)]
)  # fmt: skip
def test_whoever_closes_ends_what_has_begun(shuffler, now, last):
    shuffler.close(now)
    assert shuffler.store.closed() == last
    assert states(shuffler) == ["expired"] * (last + 1) + ["open"] * (2 - last)
    shuffler.tick(9e9)  # later windows never begin
    assert states(shuffler) == ["expired"] * (last + 1) + ["open"] * (2 - last)
    assert [each["window"] for each in shuffler.status(9e9, operator=True)] == list(range(last + 1))


def test_the_life_of_a_window(shuffler, told, tmp_path):
    """Every event with its facts; every count; and the file, which is there between the seal and the receipt."""
    analyzer = open_analyzer(tmp_path / "a", THREE)
    people = [live.make_inners(THREE, 0, seed) for seed in range(21)]
    for inners in people:
        assert shuffler.receive(upload(inners, collection=THREE), 1001.0).failed == ()
    assert shuffler.receive(upload(people[0], collection=THREE), 1002.0).failed == ()
    reply = shuffler.receive(upload(people[1], 1, THREE), 1002.0)
    assert (reply.reports, reply.failed) == (1, ((0, "too_early"),))
    assert (shuffler.accepted, dict(shuffler.refused)) == (22, {"too_early": 1})
    assert shuffler.status(999.9, operator=True) == []
    assert shuffler.status(1000.0, operator=True) == [{"window": 0, "state": "open", "reports": 21}]
    assert shuffler.status(1100.0, operator=False) == [
        {"window": 0, "state": "open"},
        {"window": 1, "state": "open"},
    ]
    for now, seconds in ((1010.0, 100), (1109.4, 1), (1109.6, 0), (1200.0, 0)):
        with pytest.raises(WireError) as why:
            shuffler.manifest(0, now)
        assert why.value.reason == "not_ready"
        assert str(why.value) == f"not_ready: window 0 takes reports for another {seconds} seconds"
    with pytest.raises(WireError, match=r"^not_ready: there is no batch of window 0 now$"):
        shuffler.batch(0)
    assert told == []
    shuffler.tick(1110.0)
    assert told == [
        ("seal", {"window": 0, "reports": 21}),
        ("written", {"window": 0, "reports": 21}),
    ]
    assert shuffler.done == set()
    row = shuffler.store.row(0)
    assert (row.state, row.reports, row.messages) == (State.WRITTEN, 21, 42)
    manifest, signature = shuffler.manifest(0, 1111.0)
    assert (manifest.window, manifest.reports, manifest.messages) == (0, 21, 42)
    assert (manifest.collection_id, manifest.sha256) == (THREE.id, row.sha256)
    batch = shuffler.batch(0)
    assert batch == tmp_path / "s" / "batch-0.bin"
    assert batch.stat().st_size == 42 * THREE.inner_size
    assert stat.S_IMODE(batch.stat().st_mode) == 0o600
    records = [batch.read_bytes()[at : at + THREE.inner_size] for at in range(0, 42 * THREE.inner_size, THREE.inner_size)]  # fmt: skip
    assert records == sorted(each for inners in people for each in inners)
    with pytest.raises(WireError, match=r"^not_ready: there is no batch of window 0 yet$"):
        analyzer.receipt(0)
    asked = []

    def fetch(size):
        asked.append(size)
        return batch.read_bytes()

    analyzer.take(manifest.raw, signature, fetch)
    assert asked == [batch.stat().st_size]
    assert analyzer.take(manifest.raw, signature, fetch) == manifest  # which is not fetched again
    assert (len(asked), analyzer.states()) == (1, {0: "stored"})
    shuffler.take_receipt(0, analyzer.receipt(0), 1112.0)
    assert told[2:] == [("handed over", {"window": 0})]
    assert (shuffler.store.row(0).state, batch.exists()) == (State.DELETED, False)
    assert shuffler.done == set()
    shuffler.tick(1113.0)
    assert (shuffler.done, shuffler.unscrubbed) == ({0}, False)
    assert shuffler.manifest(0, 1114.0)[0] == manifest
    assert shuffler.status(1100.0, operator=False)[0] == {"window": 0, "state": "deleted", "reports": 21}  # fmt: skip
    assert (analyzer.advance(0), analyzer.states()) == ("published", {0: "published"})
    assert analyzer.advance(0) == "published"


def test_why_there_will_never_be_a_batch(shuffler):
    shuffler.receive(upload(live.make_inners(THREE, 0, 1), collection=THREE), 1001.0)
    shuffler.close(1050.0)
    for window, said in (
        (0, "expired: window 0 had fewer than min_batch=20 reports, and was deleted"),
        (1, "expired: the collection was closed before window 1"),
    ):
        with pytest.raises(WireError) as why:
            shuffler.manifest(window, 1050.0)
        assert str(why.value) == said


@pytest.fixture
def published(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler, 25)
    shuffler.tick(1110.0)
    manifest, signature = shuffler.manifest(0, 1111.0)
    analyzer.take(manifest.raw, signature, lambda _: shuffler.batch(0).read_bytes())
    assert analyzer.advance(0) == "published"
    return analyzer


def test_everything_that_is_published_of_a_window(published):
    (result,) = published.results()
    tallies = published.tallies(0)
    assert [(each.users, int(each.counts.sum())) for each in tallies] == [(25, 25), (25, 25)]
    pledge = COLLECTION.pledge
    alone = compute_guarantee(COLLECTION.questions, replace(pledge, min_batch=25, composed=False))
    assert result == {
        "collection": COLLECTION.id.hex(),
        "title": "A test",
        "window": 0,
        "reports": 25,
        "valid": 25,
        "dropped": {},
        "level": 0.95,
        "questions": {
            question.name: json.loads(json.dumps(answer_question(question, tally)))
            for question, tally in zip(COLLECTION.questions, tallies, strict=True)
        },
        "promise": json.loads(json.dumps(pledge.to_dict())),
        "if_honest": {
            "reports": alone.honest,
            "epsilon": alone.epsilon,
            "delta": alone.delta,
            "for": "one report of a device, in this window alone",
        },
        "not_private": result["not_private"],
        "one_operator": True,
        "version": sdp.__version__,
    }
    assert alone.honest == 25
    (said,) = result["not_private"]
    assert "reports" in said
    for answer in result["questions"].values():
        assert (answer["people"], answer["of"]) == (25, 25)
    assert published.count_dropped(0) == published.count_dropped(1) == {}


def test_a_window_is_charged_once_with_its_title(published):
    ledger, name = published.ledger, COLLECTION.id.hex()
    assert published.advance(0) == "published"
    (entry,) = ledger.entries(name)
    assert entry.note == {"title": "A test", "window": 0}
    guarantee = published.guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.honest) == (4.0, 0.01, 20)
    assert guarantee.proof == "the promise of the collection, which every device recomputes"


def test_batches_of_the_past_are_deleted_and_results_are_kept(published, tmp_path):
    batch = tmp_path / "a" / "batch-0.bin"
    closes = COLLECTION.windows.closes(0)
    assert published.delete_batches(closes) == ()
    assert batch.exists()
    assert published.delete_batches(closes + 0.5) == (0,)
    assert not batch.exists()
    assert published.delete_batches(9e9) == ()
    assert len(published.results()) == 1


@pytest.mark.parametrize("state", ["stored", "opened", "charged"])
def test_a_batch_that_is_still_to_be_counted_stays(published, tmp_path, state):
    published._db.execute("UPDATE batches SET state = ?", (state,))
    assert published.delete_batches(9e9) == ()
    assert (tmp_path / "a" / "batch-0.bin").exists()


@pytest.mark.parametrize("state", ["published", "refused", "expired"])
def test_a_batch_that_nobody_will_count_again_is_deleted(published, tmp_path, state):
    published._db.execute("UPDATE batches SET state = ?", (state,))
    assert published.delete_batches(9e9) == (0,)
    assert not (tmp_path / "a" / "batch-0.bin").exists()


OPEN = (Sending.PENDING, Sending.SENT)


@pytest.mark.parametrize(
    ("reason", "before", "after"),
    [
        (None, Sending.PENDING, Sending.ACKNOWLEDGED),
        (None, Sending.SENT, Sending.ACKNOWLEDGED),
        *((reason, before, before) for reason in ("stale_key", "too_early", "busy", "unknown_token", "token_spent") for before in OPEN),
        *((reason, Sending.PENDING, Sending.REFUSED) for reason in ("too_late", "malformed", "closed")),
        *((reason, Sending.SENT, Sending.UNKNOWN) for reason in ("too_late", "malformed", "closed")),
    ],
)  # fmt: skip
def test_what_a_reply_makes_of_a_report(tmp_path, reason, before, after):
    device = Device(tmp_path / "outbox.sqlite", rng=sdp.SeededWords(1))
    assert device.answer(COLLECTION, {"way": "bus", "home": True}, 1001.0) == 0
    assert device.state(COLLECTION, 0) is Sending.PENDING
    assert device.list_unsettled(COLLECTION) == [0]
    assert device.upload(COLLECTION, 0) is not None
    assert device.state(COLLECTION, 0) is Sending.SENT
    assert device.settle(COLLECTION, 0, reason, before=before) is after
    assert device.state(COLLECTION, 0) is after
    open_ = after in OPEN
    assert device.list_unsettled(COLLECTION) == ([0] if open_ else [])
    (kept,) = device._db.execute("SELECT inners IS NOT NULL FROM reports").fetchone()
    assert bool(kept) is open_
    assert (device.upload(COLLECTION, 0) is not None) is open_
    if not open_:  # what is settled is settled
        assert device.settle(COLLECTION, 0, "busy", before=Sending.SENT) is after
        assert device.settle(COLLECTION, 0, None) is after


def test_a_device_spends_both_budgets_to_the_last_digit(tmp_path):
    answers = {"way": "bus", "home": True}
    epsilon = COLLECTION.pledge.epsilon
    exact = Device(tmp_path / "a", budget=epsilon, floor_budget=3.0)
    assert exact.ask_consent(COLLECTION) is None
    exact.answer(COLLECTION, answers, 1001.0)
    spent = exact.spent
    assert spent == Spent(epsilon=4.0, floor=3.0, without_floor=0, budget=4.0, floor_budget=3.0)
    assert str(spent) == "epsilon: 4 of 4 spent, 0 left; floor: 3 of 3 spent, 0 left"
    other = live.make_collection(title="Another")
    said = "the floors of all reports of this device would add up to 6, which is above 3"
    assert exact.ask_consent(other) == said
    with pytest.raises(sdp.BudgetError) as told:
        exact.answer(other, answers, 1001.0, accept_floor=True)
    assert str(told.value) == "the device has spent epsilon = 4 of 4, and this collection costs 4"
    poor = Device(tmp_path / "b", budget=3.999, floor_budget=2.999)
    assert poor.ask_consent(COLLECTION).startswith("its floor is above 2.999: local epsilon = 3: ")
    with pytest.raises(sdp.BudgetError, match=r"^the device has spent epsilon = 0 of 3\.999, "):
        poor.answer(COLLECTION, answers, 1001.0)
    few = Spent(epsilon=7.9, floor=0.12345649, without_floor=0, budget=8.0, floor_budget=1.0)
    assert str(few) == "epsilon: 7.9 of 8 spent, 0.1 left; floor: 0.123457 of 1 spent, 0.876543 left"  # fmt: skip
    many = Spent(epsilon=9.0, floor=0.5, without_floor=1200, budget=8.0, floor_budget=8.0)
    assert str(many) == (
        "epsilon: 9 of 8 spent, 0 left; floor: 0.5 of 8 spent, 7.5 left; 1,200 reports without a floor"
    )


@pytest.mark.parametrize(
    ("raw", "outcomes"),
    [
        ('{"accepted":2,"failed":[]}', [None, None]),
        ('{"accepted":0,"failed":[{"index":0,"reason":"a"},{"index":1,"reason":"b"}]}', ["a", "b"]),
        ('{"accepted":1,"failed":[{"index":0,"reason":"%s"}]}' % ("x" * 61), ["x" * 60, None]),
        ('{"accepted":1,"failed":[]}', None),
        ('{"accepted":2,"failed":[{"index":0,"reason":"a"}]}', None),
        ('{"accepted":1,"failed":[{"index":2,"reason":"a"}]}', None),
        ('{"accepted":1,"failed":[{"index":-1,"reason":"a"}]}', None),
        ('{"accepted":1,"failed":[{"index":true,"reason":"a"}]}', None),
        ('{"accepted":1,"failed":[{"index":0}]}', None),
        ('{"accepted":2}', None),
        ("[]", None),
        ("", None),
    ],
)
def test_replies_are_understood_whole_or_not_at_all(raw, outcomes):
    if outcomes is not None:
        assert read_reply(raw.encode(), 2) == outcomes
        return
    with pytest.raises(WireError) as told:
        read_reply(raw.encode(), 2)
    assert str(told.value) == "reply: the shuffler's reply cannot be understood"


def test_messages_that_no_honest_device_sends_are_counted_by_reason(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler, 25)
    rng = np.random.default_rng(3)
    for _ in range(2):
        garbage = [rng.bytes(COLLECTION.inner_size) for _ in range(2)]
        assert shuffler.receive(upload(garbage), 1001.0).failed == ()
    shuffler.tick(1110.0)
    manifest, signature = shuffler.manifest(0, 1111.0)
    analyzer.take(manifest.raw, signature, lambda _: shuffler.batch(0).read_bytes())
    analyzer.advance(0)
    assert analyzer.count_dropped(0) == {"undecryptable": 4}
    (result,) = analyzer.results()
    assert (result["reports"], result["valid"], result["dropped"]) == (27, 25, {"undecryptable": 4})


def test_messages_with_one_ephemeral_key_are_no_copies():
    """A device that sealed several with it has sent several; a copy is the same to the last byte."""
    rows = np.zeros((4, 50), dtype=np.uint8)
    rows[1:, 49] = 1
    rows[3, 40] = 7
    unique, copies = _drop_copies(rows[[0, 1, 2, 3]])
    assert (unique.tolist(), copies) == (rows[[0, 1, 3]].tolist(), 1)
