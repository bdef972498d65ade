"""Noise of the servers is drawn once, for ever: whatever crashes, is restored, or is asked for again."""

import hashlib
import json
import random
import shutil
from collections import Counter

import pytest

import live_support as live
import shuffledp as sdp
from live.server_support import COLLECTION, make_collection, open_analyzer, open_shuffler
from live.test_roles import CrashError, crash_at, hand_over, refused
from shuffledp.live import seals
from shuffledp.live.seals import Entry, FolderLog, SealError, recognize
from shuffledp.live.shuffler import draw_dummies, make_dummies
from shuffledp.live.store import State, write_whole
from shuffledp.live.wire.report import join_upload, open_inner, seal_report

pytestmark = pytest.mark.usefixtures("every_store")
ONLY_SQLITE = {
    "test_dummies_follow_their_law",
    "test_an_analyzer_that_dies_at_each_step_publishes_one_result",
    "test_the_exact_tally_is_never_on_the_disk",
    "test_a_restored_backup_of_the_analyzer_publishes_nothing_again",
    "test_ids_and_messages_are_gone_from_the_files_before_the_batch_can_be_read",
    "test_servers_that_add_noise_need_a_log",
    "test_an_entry_is_made_once",
    "test_it_is_on_the_disk_before_we_go_on",
    "test_a_damaged_entry_is_not_believed",
    "test_two_servers_on_one_log",
    "test_a_collection_with_a_floor_works_alike",
    "test_what_cannot_be_written_into_the_log_is_not_sealed",
}
PEOPLE = [live.make_inners(COLLECTION, 0, seed) for seed in range(12)]
LATE = 1200.0
SHUFFLER = ("admitted", "sealed", "renamed", "kept", "logged", "written", "deleted", "unlinked")
ANALYZER = (
    "stored file", "stored", "charged", "drafted", "logged", "result written", "published",
)  # fmt: skip


def send(shuffler, inners, now=1001.0):
    body = join_upload(shuffler.collection, [seal_report(shuffler.collection, 0, inners)])
    return shuffler.receive(body, now)


def fill(shuffler, people=PEOPLE):
    for inners in people:
        assert send(shuffler, inners).failed == ()


def split(batch, collection=COLLECTION):
    size = collection.inner_size
    return Counter(batch[place : place + size] for place in range(0, len(batch), size))


def fetch(shuffler):
    """What the analyzer gets to see of window 0."""
    manifest, signature = shuffler.manifest(0, LATE)
    return manifest.raw, signature, shuffler.batch(0).read_bytes()


def test_a_batch_has_peoples_messages_and_as_many_others_as_the_law_says(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(LATE)
    raw, _, batch = fetch(shuffler)
    manifest, found = json.loads(raw), split(batch)
    assert manifest["reports"] == 12
    assert manifest["messages"] == found.total()
    assert {inner for inners in PEOPLE for inner in inners} <= set(found)
    assert set(found.values()) == {1}
    assert list(found) == sorted(found)
    fewest, most = COLLECTION.dummies
    assert (fewest, most) == (8, 8 + 24)
    assert fewest <= found.total() - 24 <= most
    plains = [open_inner(COLLECTION, 0, inner, live.secret("inner")) for inner in found]
    assert {len(plain) for plain in plains} == {2}
    assert {plain[0] for plain in plains} == {0, 1}
    assert {len(inner) for inner in found} == {COLLECTION.inner_size}


def test_dummies_follow_their_law():
    """How often each number of messages of a bin is drawn, against the exact law: a false alarm in 10^9 runs."""
    from scipy.stats import binom

    source, rounds = sdp.SeededWords(5), 4000
    law = COLLECTION.questions[0].noise.noise.pmf()
    seen = Counter()
    for _ in range(rounds):
        plains = draw_dummies(COLLECTION, source)
        kinds = plains[:, 0]
        ways = plains[kinds == 0][:, 1]
        seen.update(int((ways == bin).sum()) - 4 for bin in range(3))
        assert (kinds == 1).sum() == 8
    for z, mass in law.items():
        tail = binom(3 * rounds, float(mass))
        assert tail.cdf(seen[z]) > 1e-10
        assert tail.sf(seen[z] - 1) > 1e-10
    off = {z: law.get(z + 1, 0) for z in law}  # shifted by one message: it must be told
    assert any(binom(3 * rounds, float(off[z])).cdf(seen[z]) < 1e-10 for z in off if off[z])


@pytest.mark.parametrize("step", SHUFFLER)
def test_a_shuffler_that_dies_at_each_step_hands_over_one_batch(tmp_path, step):
    served = set()
    shuffler = open_shuffler(tmp_path / "s", step=crash_at(step))
    analyzer = open_analyzer(tmp_path / "a")
    left = list(PEOPLE)
    for _ in range(5):
        try:
            while left:
                assert send(shuffler, left[0]).failed == ()
                left.pop(0)
            shuffler.tick(LATE)
            if shuffler.store.row(0).state is State.DELETED:
                break  # it died after the receipt
            served.add(fetch(shuffler)[::2])
            hand_over(shuffler, analyzer)
            break
        except CrashError:
            shuffler.store.close()
            shuffler = open_shuffler(tmp_path / "s")
    shuffler.tick(LATE)
    assert len(served) == 1
    batch = split(served.pop()[1])
    for inners in PEOPLE:
        assert all(batch[inner] == 1 for inner in inners)
    assert len(analyzer.results()) == 1
    assert analyzer.results()[0]["reports"] == 12
    assert shuffler.store.row(0).state is State.DELETED
    assert not list((tmp_path / "s").glob("batch*"))


@pytest.mark.parametrize("step", ANALYZER)
def test_an_analyzer_that_dies_at_each_step_publishes_one_result(tmp_path, step):
    """Also if it asks for the batch again around the crash: the same bytes, and one draw that anybody can read."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(LATE)
    analyzer = open_analyzer(tmp_path / "a", step=crash_at(step))
    fetched, read = {fetch(shuffler)[::2]}, set()
    for _ in range(5):
        try:
            hand_over(shuffler, analyzer)
            break
        except CrashError:
            read |= {path.read_bytes() for path in (tmp_path / "a").glob("result-*")}
            fetched.add(fetch(shuffler)[::2])
            analyzer.close()
            analyzer = open_analyzer(tmp_path / "a")
    read |= {path.read_bytes() for path in (tmp_path / "a").glob("result-*")}
    assert len(fetched) == len(read) == 1
    assert analyzer.states() == {0: "published"}
    assert len(analyzer.ledger.entries(COLLECTION.id.hex())) == 1
    assert analyzer.advance(0) == "published"
    assert {path.read_bytes() for path in (tmp_path / "a").glob("result-*")} == read


def test_the_exact_tally_is_never_on_the_disk(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler)
    shuffler.tick(LATE)
    hand_over(shuffler, analyzer)
    rows = analyzer._db.execute("SELECT tallies, dropped FROM batches").fetchall()
    assert rows == [(None, None)]
    (path,) = (tmp_path / "a").glob("*.json")
    assert path.name == "result-0.json"


@pytest.mark.parametrize("when", ["open", "sealed", "written"])
def test_a_restored_backup_of_the_shuffler_seals_nothing_again(tmp_path, when):
    """Two batches of the same reports would have nothing but the reports in common."""
    step = {"open": None, "sealed": crash_at("sealed"), "written": None}[when]
    shuffler = open_shuffler(tmp_path / "s", step=step)
    fill(shuffler)
    if when == "sealed":
        with pytest.raises(CrashError):
            shuffler.tick(LATE)
    if when == "written":
        shuffler.tick(LATE)
    shuffler.store.close()
    live.copy_store(tmp_path / "s", tmp_path / "backup")
    shuffler = open_shuffler(tmp_path / "s")
    shuffler.tick(LATE)
    first = fetch(shuffler)
    shuffler.store.close()
    live.copy_store(tmp_path / "backup", tmp_path / "s")
    again = open_shuffler(tmp_path / "s")
    if when == "written":  # the same bytes, which the log knows
        assert fetch(again) == first
        return
    known, unknown = (send(again, inners, 1001.0).failed for inners in (PEOPLE[0], PEOPLE[0][::-1]))
    assert known == unknown == ((0, "too_late"),)
    again.tick(LATE)
    assert refused(again.manifest, 0, LATE) == "expired"
    assert refused(again.batch, 0) == "not_ready"
    assert again.store.count(0) == 0


def test_a_restored_backup_of_the_analyzer_publishes_nothing_again(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler)
    shuffler.tick(LATE)
    raw, signature, batch = fetch(shuffler)
    analyzer.take(raw, signature, lambda _: batch)
    analyzer.close()
    shutil.copytree(tmp_path / "a", tmp_path / "stored")
    analyzer = open_analyzer(tmp_path / "a")
    analyzer.advance(0)
    (result,) = analyzer.results()
    analyzer.close()
    shutil.rmtree(tmp_path / "a")
    shutil.copytree(tmp_path / "stored", tmp_path / "a")
    again = open_analyzer(tmp_path / "a")
    assert again.advance(0) == "expired"
    assert again.results() == []
    again.close()
    shutil.rmtree(tmp_path / "a")
    fresh = open_analyzer(tmp_path / "a")  # everything is lost but the log
    assert refused(fresh.take, raw, signature, batch) == "expired"
    assert result["reports"] == 12


def test_nothing_is_sealed_without_the_log_that_belongs_to_the_store(tmp_path):
    """Nor taken: whoever has the batch could find out which of its messages are people's."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.store.close()
    live.move_log(tmp_path / "s", tmp_path / "away")
    lost = open_shuffler(tmp_path / "s")
    for call in (lambda: lost.tick(LATE), lambda: send(lost, PEOPLE[0])):
        with pytest.raises(SealError, match="and this one is empty: nothing is sealed"):
            call()
    live.make_log(tmp_path / "s", COLLECTION).begin()
    with pytest.raises(SealError, match="belongs to another database: nothing is sealed"):
        lost.tick(LATE)
    assert lost.store.row(0).state is State.OPEN
    assert not list((tmp_path / "s").glob("batch*"))
    live.move_log(tmp_path / "away", tmp_path / "s")
    lost.tick(LATE)
    assert fetch(lost)


def test_a_log_that_goes_away_in_between_keeps_the_batch(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    live.move_log(tmp_path / "s", tmp_path / "away")
    with pytest.raises(SealError, match="there is no seal log"):
        shuffler.tick(LATE)
    assert refused(shuffler.manifest, 0, LATE) == "not_ready"
    live.move_log(tmp_path / "away", tmp_path / "s")
    shuffler.tick(LATE)
    live.move_log(tmp_path / "s", tmp_path / "away")
    with pytest.raises(SealError, match="there is no seal log"):
        shuffler.manifest(0, LATE)


def test_bytes_that_are_not_those_of_the_log_are_never_served(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(LATE)
    good = shuffler.batch(0).read_bytes()
    write_whole(shuffler.batch_path(0), [good[::-1]])
    assert refused(shuffler.batch, 0) == "expired"
    write_whole(shuffler.batch_path(0), [good])
    assert shuffler.batch(0).read_bytes() == good
    live.drop_entry(tmp_path / "s", 0)  # bytes without an entry
    assert refused(shuffler.manifest, 0, LATE) == "expired"
    assert refused(shuffler.batch, 0) == "expired"


def test_once_a_batch_can_be_read_every_upload_of_its_window_gets_the_same_reply(tmp_path):
    """Otherwise the analyzer could wrap each message again, and be told which ones are people's."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(LATE)
    _, _, batch = fetch(shuffler)
    records = list(split(batch))
    replies = {
        send(shuffler, pair, LATE).raw for pair in zip(records[::2], records[1::2], strict=False)
    }
    replies |= {send(shuffler, inners, LATE).raw for inners in PEOPLE}
    replies |= {send(shuffler, inners, 1001.0).raw for inners in PEOPLE}  # the clock went back
    assert len(replies) == 1


def test_ids_and_messages_are_gone_from_the_files_before_the_batch_can_be_read(tmp_path):
    import sqlite3

    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    reader = sqlite3.connect(tmp_path / "s" / "store.sqlite", isolation_level=None)
    shuffler.store._db.execute("PRAGMA busy_timeout = 10")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM reports").fetchone()
    shuffler.tick(LATE)
    assert refused(shuffler.manifest, 0, LATE) == "not_ready"  # a reader keeps the journal
    assert refused(shuffler.batch, 0) == "not_ready"
    reader.execute("COMMIT")
    reader.close()
    assert fetch(shuffler)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "s").glob("store*"))
    for inners in PEOPLE:
        assert not any(inner[:16] in kept for inner in inners)


def test_a_window_with_too_few_people_gets_no_dummies(tmp_path):
    """min_batch counts people, not messages."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler, PEOPLE[:4])
    shuffler.tick(LATE)
    assert shuffler.store.row(0).state is State.EXPIRED
    assert list(shuffler.seals.windows()) == []


def test_dummies_made_elsewhere_are_used_once(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    shuffler.prepared = {}
    fill(shuffler)
    shuffler.tick(LATE)
    assert shuffler.unprepared == [0]
    assert shuffler.store.row(0).state is State.SEALED
    made = make_dummies(COLLECTION, 0)
    shuffler.prepared[0] = made
    shuffler.tick(LATE)
    assert shuffler.prepared == {}
    assert {row.tobytes() for row in made} <= set(split(fetch(shuffler)[2]))


def test_a_window_whose_dummies_are_still_being_made_waits_whichever_others_are_ready(tmp_path):
    """They would be made on the thread that answers uploads."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    for seed in range(12):
        inners = live.make_inners(COLLECTION, 1, seed)
        sealed = seal_report(COLLECTION, 1, inners)
        assert shuffler.receive(join_upload(COLLECTION, [sealed]), 1101.0).failed == ()
    shuffler.prepared = {}
    shuffler.tick(9e9)
    assert shuffler.unprepared == [0, 1]
    shuffler.prepared[1] = make_dummies(COLLECTION, 1)
    shuffler.tick(9e9)
    assert [shuffler.store.row(each).state for each in (0, 1)] == [State.SEALED, State.WRITTEN]
    shuffler.prepared[0] = make_dummies(COLLECTION, 0)
    shuffler.tick(9e9)
    assert shuffler.store.row(0).state is State.WRITTEN


def test_servers_that_add_noise_need_a_log(tmp_path):
    from live.test_roles import open_analyzer as without_analyzer
    from live.test_roles import open_shuffler as without

    for start in (without, without_analyzer):
        with pytest.raises(SealError, match="needs a seal log"):
            start(tmp_path / "x", COLLECTION)


class TestFolderLog:
    def test_an_entry_is_made_once(self, tmp_path):
        log = FolderLog(tmp_path / "log")
        assert log.identify() is None
        identity = log.begin()
        assert log.begin() == log.identify() == identity == recognize(log, identity)
        one, two = (Entry(batch=bytes([each]) * 32, other=bytes(32)) for each in (1, 2))
        log.create(3, one)
        for again in (one, two):
            with pytest.raises(SealError, match="window 3 was sealed before"):
                log.create(3, again)
        assert (log.find(3), log.find(4), log.windows()) == (one, None, [3])
        assert [path.name for path in (tmp_path / "log").iterdir() if path.name[0] == "."] == []

    def test_it_is_on_the_disk_before_we_go_on(self, tmp_path, monkeypatch):
        import os

        log = FolderLog(tmp_path / "log")
        log.begin()
        seen = []
        fsync, link = os.fsync, os.link
        monkeypatch.setattr(os, "fsync", lambda handle: (seen.append("sync"), fsync(handle))[1])
        monkeypatch.setattr(os, "link", lambda *names: (seen.append("link"), link(*names))[1])
        log.create(0, Entry(batch=bytes(32), other=bytes(32)))
        assert seen == ["sync", "link", "sync"]

    def test_a_damaged_entry_is_not_believed(self, tmp_path):
        log = FolderLog(tmp_path / "log")
        log.begin()
        (tmp_path / "log" / "window-0").write_bytes(b"")
        with pytest.raises(SealError, match="damaged"):
            log.find(0)

    def test_two_servers_on_one_log(self, tmp_path):
        """Of many that seal the same window at once, one may."""
        from concurrent.futures import ThreadPoolExecutor

        log = FolderLog(tmp_path / "log")
        log.begin()

        def attempt(place):
            try:
                log.create(0, Entry(batch=bytes([place]) * 32, other=bytes(32)))
            except SealError:
                return None
            return place

        with ThreadPoolExecutor(8) as pool:
            won = [each for each in pool.map(attempt, range(32)) if each is not None]
        assert len(won) == 1
        assert log.find(0).batch == bytes(won) * 32


class Window:
    """One window from beginning to end, with deaths at random steps of either server."""

    def __init__(self, folder, seed):
        self.folder, self.source, self.deaths = folder, random.Random(seed), Counter()  # noqa: S311
        self.inners = [live.make_inners(COLLECTION, 0, 100 * seed + each) for each in range(7)]
        self.left, self.served, self.read = list(range(7)), set(), set()
        self.start()

    def start(self):
        self.shuffler = open_shuffler(self.folder / "s", step=lambda name: self.die("s", name))
        self.analyzer = open_analyzer(self.folder / "a", step=lambda name: self.die("a", name))

    def die(self, who, name):
        if self.source.random() < 0.18:
            self.deaths[who, name] += 1
            raise CrashError(name)

    def look(self):
        self.read |= {path.read_bytes() for path in (self.folder / "a").glob("result-*")}

    def work(self):
        while self.left:
            assert send(self.shuffler, self.inners[self.left[0]]).failed == ()
            self.left.pop(0)
        self.shuffler.tick(LATE)
        if self.shuffler.store.row(0).state is State.WRITTEN:
            self.served.add(fetch(self.shuffler)[::2])
            hand_over(self.shuffler, self.analyzer)
        self.shuffler.tick(LATE)

    def play(self):
        for _ in range(300):
            try:
                self.work()
                break
            except CrashError:
                self.look()
                self.shuffler.store.close()
                self.analyzer.close()
                self.start()
        self.look()
        self.check()
        self.shuffler.store.close()
        self.analyzer.close()
        return self.deaths

    def check(self):
        assert self.shuffler.store.row(0).state is State.DELETED
        assert self.analyzer.states() == {0: "published"}
        assert len(self.served) == len(self.read) == 1
        batch = split(self.served.pop()[1])
        assert all(batch[inner] == 1 for inners in self.inners for inner in inners)
        assert set(batch.values()) == {1}
        entry = FolderLog(self.folder / "a.seals").find(0)
        assert hashlib.sha256(self.read.pop()).digest() == entry.other


def test_deaths_at_random_steps_of_both_servers(tmp_path):
    deaths = Counter()
    for seed in range(4):
        (tmp_path / str(seed)).mkdir()
        deaths += Window(tmp_path / str(seed), seed).play()
    assert deaths.total() > 4


@pytest.mark.slow
def test_100_deaths_of_both_servers_at_every_step(tmp_path):
    """One batch and one result ever; nothing lost, nothing doubled."""
    deaths, steps = (
        Counter(),
        {("s", each) for each in SHUFFLER} | {("a", each) for each in ANALYZER},
    )
    for seed in range(10, 200):
        (tmp_path / str(seed)).mkdir()
        deaths += Window(tmp_path / str(seed), seed).play()
        if deaths.total() >= 100 and steps <= set(deaths):
            break
    assert deaths.total() >= 100
    assert steps <= set(deaths)


def test_a_collection_with_a_floor_works_alike(tmp_path):
    collection = make_collection(floor=1.5)
    assert collection.pledge.local_epsilon == 3.0
    shuffler = open_shuffler(tmp_path / "s", collection)
    analyzer = open_analyzer(tmp_path / "a", collection)
    fill(shuffler, [live.make_inners(collection, 0, seed) for seed in range(6)])
    shuffler.tick(LATE)
    assert hand_over(shuffler, analyzer) == "published"
    assert analyzer.results()[0]["promise"]["local_epsilon"] == 3.0


def test_what_cannot_be_written_into_the_log_is_not_sealed(tmp_path, monkeypatch):
    log = FolderLog(tmp_path / "log")
    log.begin()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(seals, "write_once", fail)
    with pytest.raises(SealError):
        log.create(0, Entry(batch=bytes(32), other=bytes(32)))
