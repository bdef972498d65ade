"""The three roles together, on a clock that tests turn."""

import dataclasses
import hashlib
import sqlite3

import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.analyzer import Analyzer
from shuffledp.live.device import Device, Sending, read_reply
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.live.shuffler import Shuffler
from shuffledp.live.store import State
from shuffledp.live.wire import report
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.report import (
    join_upload,
    open_report,
    seal_inner,
    seal_report,
    split_upload,
    write_receipt,
)

pytestmark = pytest.mark.usefixtures("every_store")
ONLY_SQLITE = {"test_checkpoint_with_a_reader"}
COLLECTION = live.make_collection()
POOL = [live.make_inners(COLLECTION, 0, seed) for seed in range(30)]


class CrashError(Exception):
    """The process dies here."""


def crash_at(wanted):
    def step(name):
        if name == wanted:
            raise CrashError(name)

    return step


def open_shuffler(folder, collection=COLLECTION, step=None):
    folder.mkdir(exist_ok=True, mode=0o700)
    more = {} if step is None else {"step": step}
    return Shuffler(
        collection=collection,
        secrets=ShufflerSecrets(outer=live.outer_secrets(collection), sign=live.secret("shuffler")),
        store=live.make_store(folder, collection),
        folder=folder,
        **more,
    )


def open_analyzer(folder, collection=COLLECTION, step=None):
    folder.mkdir(exist_ok=True, mode=0o700)
    more = {} if step is None else {"step": step}
    secrets = AnalyzerSecrets(inner=live.secret("inner"), sign=live.secret("analyzer"))
    return Analyzer(collection=collection, secrets=secrets, folder=folder, durable=False, **more)


def upload(inners, window=0, collection=COLLECTION):
    return join_upload(collection, [seal_report(collection, window, inners)])


def fill(shuffler, people=25, now=1001.0):
    for inners in POOL[:people]:
        assert shuffler.receive(upload(inners), now).failed == ()


def hand_over(shuffler, analyzer, window=0, now=1200.0):
    manifest, signature = shuffler.manifest(window, now)
    analyzer.take(manifest.raw, signature, lambda _: shuffler.batch(window).read_bytes())
    state = analyzer.advance(window)
    shuffler.take_receipt(window, analyzer.receipt(window), now)
    return state


def refused(call, *arguments, **more):
    with pytest.raises(sdp.WireError) as caught:
        call(*arguments, **more)
    return caught.value.reason


def test_from_the_first_report_to_the_result(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler)
    assert refused(shuffler.manifest, 0, 1050.0) == "not_ready"
    shuffler.tick(1110.0)
    assert hand_over(shuffler, analyzer) == "published"
    (result,) = analyzer.results()
    assert result["reports"] == 25
    assert result["dropped"] == {}
    assert result["questions"]["way"]["people"] == 25
    assert [row["label"] for row in result["questions"]["way"]["estimate"]] == [
        "car",
        "bicycle",
        "bus",
    ]
    assert shuffler.store.row(0).state is State.DELETED
    assert list((tmp_path / "s").glob("batch*")) == []
    (entry,) = analyzer.ledger.entries(COLLECTION.id.hex())
    assert entry.released


def test_duplicate_within_a_pending_group(tmp_path):
    """Two uploads of one report in one transaction: both are told yes, one is stored."""
    shuffler = open_shuffler(tmp_path / "s")
    from shuffledp.live.shuffler import open_reports

    opened = open_reports(
        COLLECTION, split_upload(COLLECTION, upload(POOL[0])), live.outer_secrets(COLLECTION)
    )
    first, second = shuffler.admit([opened, opened], 1001.0)
    assert first.failed == second.failed == ()
    assert shuffler.store.count(0) == 1


def test_seal_during_commit(tmp_path):
    """A report that was opened before the seal and reaches the store after it is told that it is too late."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    from shuffledp.live.shuffler import open_reports

    opened = open_reports(
        COLLECTION, split_upload(COLLECTION, upload(POOL[28])), live.outer_secrets(COLLECTION)
    )
    shuffler.advance(0)
    (reply,) = shuffler.admit([opened], 1001.0)
    assert reply.failed == ((0, "too_late"),)
    assert shuffler.store.row(0).reports == 25


def test_windows_that_are_not_open(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    assert shuffler.receive(upload(POOL[0]), 999.0).failed == ((0, "too_early"),)
    assert shuffler.receive(upload(POOL[0]), 1110.0).failed == ((0, "too_late"),)
    assert shuffler.receive(upload(POOL[0]), 1109.9).failed == ()
    assert shuffler.refused == {"too_early": 1, "too_late": 1}


def test_clock_that_jumps_back(tmp_path):
    """A sealed window stays sealed, whatever the clock says later."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(1110.0)
    assert shuffler.receive(upload(POOL[29]), 1001.0).failed == ((0, "too_late"),)
    shuffler.tick(1001.0)
    manifest, _ = shuffler.manifest(0, 1001.0)
    assert manifest.reports == 25


def test_batches_are_sorted_by_their_bytes(tmp_path):
    """Nothing of the order of arrival is left, nor of which messages came together."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(1110.0)
    batch, size = shuffler.batch(0).read_bytes(), COLLECTION.inner_size
    records = [batch[place : place + size] for place in range(0, len(batch), size)]
    assert records == sorted(inner for inners in POOL[:25] for inner in inners)


def test_thin_windows_expire(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler, people=19)
    shuffler.tick(1110.0)
    assert refused(shuffler.manifest, 0, 1110.0) == "expired"
    assert shuffler.store.count(0) == 0


@pytest.mark.parametrize(
    "step", ["admitted", "sealed", "renamed", "written", "deleted", "unlinked"]
)
def test_crash_at_each_step_of_the_shuffler(tmp_path, step):
    """Also between the rename and what follows it: the batch has the same bytes, and is counted once."""
    crashing = crash_at(step)
    shuffler = open_shuffler(tmp_path / "s", step=crashing)
    analyzer = open_analyzer(tmp_path / "a")

    def live_on(call):
        nonlocal shuffler
        try:
            call(shuffler)
        except CrashError:
            shuffler.store.close()
            shuffler = open_shuffler(tmp_path / "s")
            call(shuffler)

    live_on(lambda s: fill(s))
    live_on(lambda s: s.tick(1110.0))
    manifest, signature = shuffler.manifest(0, 1110.0)
    analyzer.take(manifest.raw, signature, lambda _: shuffler.batch(0).read_bytes())
    assert analyzer.advance(0) == "published"
    live_on(lambda s: s.take_receipt(0, analyzer.receipt(0), 1110.0))
    shuffler.tick(1111.0)
    assert analyzer.results()[0]["questions"]["home"]["people"] == 25
    assert list((tmp_path / "s").glob("batch*")) == []


def test_crash_between_rename_and_folder_fsync(tmp_path):
    """The batch may be there or not: the step is repeated, and gives the same bytes."""
    shuffler = open_shuffler(tmp_path / "s", step=crash_at("renamed"))
    fill(shuffler)
    with pytest.raises(CrashError):
        shuffler.tick(1110.0)
    first = shuffler.batch_path(0).read_bytes()
    shuffler.batch_path(0).unlink()  # the folder was not on the disk yet
    shuffler.store.close()
    again = open_shuffler(tmp_path / "s")
    again.tick(1110.0)
    assert again.batch(0).read_bytes() == first


@pytest.mark.parametrize(
    "step", ["stored file", "stored", "opened", "charged", "result written", "published"]
)
def test_crash_at_each_step_of_the_analyzer_and_ledger_crash_charges_once(tmp_path, step):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(1110.0)
    manifest, signature = shuffler.manifest(0, 1110.0)
    batch = shuffler.batch(0).read_bytes()
    analyzer = open_analyzer(tmp_path / "a", step=crash_at(step))

    def work():
        analyzer.take(manifest.raw, signature, lambda _: batch)
        analyzer.advance(0)

    with pytest.raises(CrashError):
        work()
    analyzer.close()
    again = open_analyzer(tmp_path / "a")
    again.take(manifest.raw, signature, lambda _: batch)
    assert again.advance(0) == "published"
    assert len(again.ledger.entries(COLLECTION.id.hex())) == 1
    assert again.results()[0]["questions"]["way"]["people"] == 25


def test_second_batch_for_a_window(tmp_path):
    one, two = open_shuffler(tmp_path / "s"), open_shuffler(tmp_path / "t")
    analyzer = open_analyzer(tmp_path / "a")
    fill(one, people=25)
    fill(two, people=24)
    for shuffler in (one, two):
        shuffler.tick(1110.0)
    hand_over(one, analyzer)
    assert refused(hand_over, two, analyzer) == "second_batch"
    assert analyzer.results()[0]["reports"] == 25


def test_batch_below_min_batch_after_drops(tmp_path):
    """20 reports, of which one has a message that nobody can open: fewer than min_batch are left."""
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler, people=19)
    garbage = [bytes(COLLECTION.inner_size)] * 2
    assert shuffler.receive(upload(garbage), 1001.0).failed == ()
    shuffler.tick(1110.0)
    assert hand_over(shuffler, analyzer) == "refused"
    assert analyzer.results() == []
    assert analyzer.count_dropped(0) == {"undecryptable": 1, "copy": 1}


def test_too_few_messages_of_one_question(tmp_path):
    """The promise is for min_batch answers to each question, not for those that most people answered."""
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler, people=19)
    half = [seal_inner(COLLECTION, 0, b"\0\1"), bytes(COLLECTION.inner_size)]
    assert shuffler.receive(upload(half), 1001.0).failed == ()
    shuffler.tick(1110.0)
    assert hand_over(shuffler, analyzer) == "refused"


def hostile(plain):
    return [seal_inner(COLLECTION, 0, plain), seal_inner(COLLECTION, 0, b"\1\0")]


def test_non_zero_padding_and_other_messages_are_dropped_one_by_one(tmp_path):
    """The rest of the batch, and the rest of the report, counts."""
    wide = live.make_collection(
        questions=(
            *live.questions(),
            dataclasses.replace(
                live.questions()[0],
                name="many",
                protocol=sdp.protocols.krr.make_local(k=300, epsilon=1.0),
                labels=tuple(f"n{i}" for i in range(300)),
            ),
        ),
        pledge=dataclasses.replace(COLLECTION.pledge, local_epsilon=4.0, epsilon=6.0),
    )
    shuffler, analyzer = open_shuffler(tmp_path / "s", wide), open_analyzer(tmp_path / "a", wide)

    def send(*plains):
        inners = [seal_inner(wide, 0, plain) for plain in plains]
        assert shuffler.receive(upload(inners, collection=wide), 1001.0).failed == ()

    for _ in range(25):
        send(b"\0\1\0", b"\1\1\0", b"\2\0\1")
    send(b"\0\1\7", b"\1\1\0", b"\2\0\1")  # padding
    send(b"\0\3\0", b"\1\2\0", b"\2\1\54")  # 3, 2 and 300 are out of range
    send(b"\3\0\0", b"\xff\0\0", b"\2\0\1")  # there are three questions
    shuffler.tick(1110.0)
    assert hand_over(shuffler, analyzer) == "published"
    assert analyzer.count_dropped(0) == {"padding": 1, "out_of_range": 3, "unknown_question": 2}
    people = {name: q["people"] for name, q in analyzer.results()[0]["questions"].items()}
    assert people == {"way": 25, "home": 26, "many": 27}


def test_forged_receipt_deletes_nothing(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(1110.0)
    manifest, _ = shuffler.manifest(0, 1110.0)
    forged = write_receipt(manifest, live.secret("somebody"))
    assert refused(shuffler.take_receipt, 0, forged, 1110.0) == "signature"
    assert shuffler.batch(0).exists()


def test_spent_token_plus_replay(tmp_path):
    collection = live.make_collection(tokens=True)
    shuffler = open_shuffler(tmp_path / "s", collection)
    token, other = b"t" * 32, b"u" * 32
    shuffler.store.issue_tokens([hashlib.sha256(token).digest()])
    mine, theirs = (live.make_inners(collection, 0, seed) for seed in (1, 2))

    def send(inners, token):
        body = join_upload(collection, [seal_report(collection, 0, inners, token)])
        return [reason for _, reason in shuffler.receive(body, 1001.0).failed]

    assert send(mine, other) == ["unknown_token"]
    assert send(mine, token) == []
    assert send(mine, token) == []  # a replay is success
    assert send(theirs, token) == ["token_spent"]
    assert shuffler.store.count(0) == 1


def test_checkpoint_with_a_reader(tmp_path):
    """A reader keeps the journal from being cut; the next tick tries again, and then no row is left."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    reader = sqlite3.connect(tmp_path / "s" / "store.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM reports").fetchone()
    shuffler.store._db.execute("PRAGMA busy_timeout = 10")
    shuffler.tick(1110.0)
    assert shuffler.unscrubbed
    reader.execute("COMMIT")
    reader.close()
    shuffler.tick(1111.0)
    assert not shuffler.unscrubbed
    stored = b"".join(path.read_bytes() for path in (tmp_path / "s").glob("store.sqlite*"))
    assert not any(inner in stored for inners in POOL[:25] for inner in inners)


def test_nothing_that_the_shuffler_has_decrypts_an_answer(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(1110.0)
    batch = shuffler.batch(0).read_bytes()
    size = COLLECTION.inner_size
    from shuffledp.live.wire.report import open_inner

    for key in (*shuffler.secrets.outer.values(), shuffler.secrets.sign):
        for place in range(0, 10 * size, size):
            assert (
                refused(open_inner, COLLECTION, 0, batch[place : place + size], key)
                == "undecryptable"
            )


ANSWERS = {"way": "bus", "home": "yes"}


def test_a_device_sends_the_same_messages_until_it_is_told_yes(tmp_path):
    device, shuffler = Device(tmp_path / "outbox.sqlite"), open_shuffler(tmp_path / "s")
    collection = device.check(COLLECTION.raw, COLLECTION.id)
    window = device.answer(collection, ANSWERS, 1001.0)
    for _ in range(3):  # two replies are lost
        reply = shuffler.receive(device.upload(collection, window), 1002.0)
    (outcome,) = read_reply(reply.raw, 1)
    assert device.settle(collection, window, outcome) is Sending.ACKNOWLEDGED
    assert shuffler.store.count(0) == 1
    assert device.upload(collection, window) is None
    assert device._find_kept(collection, window).inners == b""


def test_stale_key_after_a_lost_reply(tmp_path):
    """The report is sealed anew with the same messages; what may have arrived is never randomized again."""
    device = Device(tmp_path / "outbox.sqlite")
    window = device.answer(COLLECTION, ANSWERS, 1001.0)
    device.upload(COLLECTION, window)
    assert device.settle(COLLECTION, window, "stale_key", before=Sending.SENT) is Sending.SENT
    assert device.upload(COLLECTION, window) is not None
    assert device.settle(COLLECTION, window, "too_late", before=Sending.SENT) is Sending.UNKNOWN
    assert refused(device.answer, COLLECTION, ANSWERS, 1002.0) == "answered"
    for wrong in ({**ANSWERS, "way": "bsu"}, {"way": "bus"}, {**ANSWERS, "colour": "red"}):
        with pytest.raises(sdp.ShuffledpError, match=r"'bsu'|no answer to home|colour"):
            device.answer(COLLECTION, wrong, 1002.0)
    assert device.spent.epsilon == COLLECTION.pledge.epsilon


def test_two_tabs_answer_once(tmp_path):
    one, two = (Device(tmp_path / "outbox.sqlite") for _ in range(2))
    window = one.answer(COLLECTION, ANSWERS, 1001.0)
    assert refused(two.answer, COLLECTION, ANSWERS, 1001.0) == "answered"
    assert two.state(COLLECTION, window) is Sending.PENDING
    assert refused(one.answer, COLLECTION, ANSWERS, 1101.0) == "answered"  # once over its life


def test_a_device_keeps_its_budget_over_all_collections(tmp_path):
    device = Device(tmp_path / "outbox.sqlite", budget=1.5 * COLLECTION.pledge.epsilon)
    device.answer(COLLECTION, ANSWERS, 1001.0)
    other = live.make_collection(title="Another")
    with pytest.raises(sdp.BudgetError, match="spent"):
        device.answer(other, ANSWERS, 1001.0)


def test_a_device_refuses_a_collection_that_is_not_that_of_its_link(tmp_path):
    """Equivocation: a document made for one person has another id."""
    device = Device(tmp_path / "outbox.sqlite")
    mine = live.make_collection(title="Only for you")
    assert refused(device.check, mine.raw, COLLECTION.id) == "document"
    assert refused(device.answer, COLLECTION, ANSWERS, 999.0) == "closed"


def test_a_device_recomputes_the_promise(tmp_path):
    false = COLLECTION.raw.replace(b'"epsilon":"4.0"', b'"epsilon":"0.01"', 1)
    assert false != COLLECTION.raw
    device = Device(tmp_path / "outbox.sqlite")
    assert refused(device.check, false, hashlib.sha256(false).digest()) == "promise"


@pytest.mark.parametrize(("composed", "times"), [(True, 1), (False, 2)])
def test_what_two_reports_cost(tmp_path, composed, times):
    """Promised together they cost the promise once, otherwise each; and there is no third one."""
    pledge = dataclasses.replace(
        COLLECTION.pledge, epsilon=8.0, reports_per_device=2, composed=composed
    )
    windows = dataclasses.replace(COLLECTION.windows, count=3)
    collection = live.make_collection(pledge=pledge, windows=windows)
    device = Device(tmp_path / "outbox.sqlite", budget=16.0)
    for now in (1001.0, 1101.0):
        device.answer(collection, ANSWERS, now)
    assert device.spent.epsilon == times * 8.0
    assert refused(device.answer, collection, ANSWERS, 1201.0) == "answered"


def test_how_many_have_answered_so_far_is_for_the_operator(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler, people=3)
    assert shuffler.status(1002.0, operator=False) == [{"window": 0, "state": "open"}]
    assert shuffler.status(1002.0, operator=True)[0]["reports"] == 3


def test_replies_that_cannot_be_understood():
    for raw in (
        b"",
        b"[]",
        b'{"accepted":1}',
        b'{"accepted":2,"failed":[]}',
        b'{"accepted":0,"failed":[{"index":7,"reason":"x"}]}',
    ):
        assert refused(read_reply, raw, 1) == "reply"


def test_the_store_says_whose_keys_can_be_deleted(tmp_path, monkeypatch):
    """Not the clock: one that is a year ahead would delete the keys of open windows."""
    from shuffledp.live.serve import Home

    home = Home(tmp_path / "survey")
    secrets = ShufflerSecrets(outer=live.outer_secrets(COLLECTION), sign=live.secret("shuffler"))
    home.create(COLLECTION, secrets, None)
    monkeypatch.setattr(
        Home, "open_store", lambda home: live.make_store(home.shuffler, home.collection())
    )
    shuffler = home.open_shuffler()
    fill(shuffler)
    monkeypatch.setattr("time.time", lambda: 1e10)
    assert home.list_ended() == set()
    assert ShufflerSecrets.forget(home.shuffler, COLLECTION, home.list_ended()) == ()
    shuffler.tick(1110.0)
    assert home.list_ended() == {0}
    assert ShufflerSecrets.forget(home.shuffler, COLLECTION, home.list_ended()) == (0,)
    shuffler.close(1111.0)
    assert home.list_ended() == {0, 1}


def test_a_key_of_several_windows_stays_until_the_last_of_them(tmp_path):
    keys = (dataclasses.replace(COLLECTION.shuffler_keys[0], first=0, last=1),)
    collection = live.make_collection(shuffler_keys=keys)
    secrets = ShufflerSecrets(outer={0: live.secret("outer 0")}, sign=live.secret("shuffler"))
    secrets.save(tmp_path / "shuffler")
    assert ShufflerSecrets.forget(tmp_path / "shuffler", collection, {1}) == ()
    assert ShufflerSecrets.forget(tmp_path / "shuffler", collection, {0, 1}) == (0,)


def test_batches_that_were_published_long_ago_can_be_deleted(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    analyzer = open_analyzer(tmp_path / "a", step=crash_at("stored"))
    fill(shuffler)
    shuffler.tick(1110.0)
    batch = tmp_path / "a" / "batch-0.bin"
    with pytest.raises(CrashError):
        hand_over(shuffler, analyzer)
    assert analyzer.delete_batches(1e9) == ()  # it is not counted yet
    analyzer = open_analyzer(tmp_path / "a")
    assert hand_over(shuffler, analyzer) == "published"
    assert analyzer.delete_batches(1110.0) == ()
    assert batch.exists()
    assert analyzer.delete_batches(1110.5) == (0,)
    assert not batch.exists()
    assert analyzer.delete_batches(1110.5) == ()
    assert analyzer.advance(0) == "published"
    assert analyzer.results()[0]["reports"] == 25
    assert len(analyzer.receipt(0)) == 64


def test_keys_of_windows_that_are_over_can_be_deleted(tmp_path):
    """Then nobody can open their reports: a late one is too late, and the others are taken as before."""
    collection = live.make_collection()
    secrets = sdp.live.ShufflerSecrets(
        outer=live.outer_secrets(collection), sign=live.secret("shuffler")
    )
    secrets.save(tmp_path / "shuffler")
    forget = sdp.live.ShufflerSecrets.forget
    assert forget(tmp_path / "shuffler", collection, set()) == ()
    assert forget(tmp_path / "shuffler", collection, {0}) == (0,)
    assert forget(tmp_path / "shuffler", collection, {0}) == ()
    left = sdp.live.ShufflerSecrets.load(tmp_path / "shuffler", collection)
    assert set(left.outer) == {1}
    assert secrets.outer[0].hex() not in (tmp_path / "shuffler" / "keys.json").read_text()
    late, good = (live.make_report(collection, window, 1) for window in (0, 1))
    with pytest.raises(sdp.WireError, match="too_late"):
        open_report(collection, late, dict(left.outer))
    assert open_report(collection, good, dict(left.outer)).window == 1


def test_tokens_are_counted_by_their_hashes(tmp_path):
    collection = live.make_collection(tokens=True)
    shuffler = open_shuffler(tmp_path / "s", collection)
    hashes = [hashlib.sha256(bytes([i]) * 32).digest() for i in range(4)]
    shuffler.store.issue_tokens(hashes[:3])
    body = join_upload(collection, [live.make_report(collection, 0, 1, bytes([0]) * 32)])
    assert shuffler.receive(body, 1001.0).failed == ()
    assert shuffler.store.count_tokens(hashes) == {"unused": 2, "spent": 1, "unknown": 1}


def test_a_database_is_closed_with_its_owner(tmp_path):
    """Python 3.13 warns about connections that nobody closes: a role that is dropped, or refused, closes its own."""
    device = Device(tmp_path / "outbox.sqlite")
    database = device._db
    del device
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")


def publish(folder, people, garbage=0, collection=COLLECTION, window=0):
    """The result of a window with so many honest reports, and so many whose messages nobody can open."""
    shuffler = open_shuffler(folder / f"s{window}", collection)
    analyzer = open_analyzer(folder / "a", collection)
    now = collection.windows.opens(window) + 1.0
    for seed in range(people):
        inners = live.make_inners(collection, window, seed)
        assert shuffler.receive(upload(inners, window, collection), now).failed == ()
    for seed in range(garbage):
        inners = [bytes([slot, seed]) * (collection.inner_size // 2) for slot in (1, 2)]
        inners = [each.ljust(collection.inner_size, b"\1") for each in inners]
        assert shuffler.receive(upload(inners, window, collection), now).failed == ()
    shuffler.advance(window)
    assert hand_over(shuffler, analyzer, window, collection.windows.closes(window)) == "published"
    return analyzer.results()[-1]


def test_reports_that_are_not_valid_hide_nobody(tmp_path):
    """25 valid reports and 200 of garbage are a crowd of 25."""
    honest = dataclasses.replace(COLLECTION.pledge, honest=0.8)
    collection = live.make_collection(pledge=honest)
    result = publish(tmp_path, 25, garbage=200, collection=collection)
    assert result["reports"] == 225
    assert result["valid"] == 25
    assert result["dropped"] == {"undecryptable": 400}
    alone = dataclasses.replace(honest, min_batch=25, composed=False)
    expected = sdp.live.wire.promise.compute_guarantee(collection.questions, alone)
    assert result["if_honest"]["reports"] == 20
    assert result["if_honest"]["epsilon"] == expected.epsilon
    assert result["if_honest"]["delta"] == honest.delta


def test_a_large_window_says_nothing_about_the_others(tmp_path):
    """A device with two reports may have had the other one in a small window: what is said is for one report."""
    pledge = dataclasses.replace(COLLECTION.pledge, epsilon=8.0, reports_per_device=2)
    collection = live.make_collection(pledge=pledge)
    small = publish(tmp_path, 20, collection=collection, window=0)
    large = publish(tmp_path, 60, collection=collection, window=1)
    compute = sdp.live.wire.promise.compute_guarantee
    for result, people in ((small, 20), (large, 60)):
        alone = dataclasses.replace(pledge, min_batch=people, composed=False, reports_per_device=1)
        assert result["if_honest"]["epsilon"] == compute(collection.questions, alone).epsilon
        assert result["if_honest"]["for"] == "one report of a device, in this window alone"
        assert result["promise"]["composed"]
        assert result["promise"]["epsilon"] == 8.0


def test_what_is_counted_without_noise_is_listed_as_not_private(tmp_path):
    """Every whole number of a result that is not an estimate has its name in that list."""
    result = publish(tmp_path, 25, garbage=2)
    (listed,) = result["not_private"]
    for name in ("reports", "valid", "dropped"):
        assert name in listed
    for answer in result["questions"].values():
        exact = {name for name, value in answer.items() if isinstance(value, int)}
        assert all(name in listed for name in exact)


def test_a_device_places_its_answers_once_and_seals_no_report_before_it_sends(
    tmp_path, monkeypatch
):
    placed, sealed = [], []
    place_of, seal = Question.place_of, report.seal
    monkeypatch.setattr(
        Question, "place_of", lambda self, answer: placed.append(answer) or place_of(self, answer)
    )
    monkeypatch.setattr(report, "seal", lambda *given: sealed.append(given) or seal(*given))
    device = Device(tmp_path / "outbox.sqlite")
    device.answer(COLLECTION, ANSWERS, 1001.0)
    assert len(placed) == len(COLLECTION.questions)
    assert len(sealed) == COLLECTION.slots
    device.close()
