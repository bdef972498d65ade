"""Shufflers on several hosts that add noise: one database, one seal log, one draw, whoever dies, lags or is restored."""

import hashlib

import pytest

import live_support as live
import shuffledp as sdp
from live.server_support import COLLECTION, open_analyzer, open_shuffler
from live.test_postgres import make_home, on_postgres
from live.test_roles import CrashError, crash_at, hand_over, refused
from live.test_seals import LATE, PEOPLE, fetch, fill, send, split
from postgres import get_server
from shuffledp.live.postgres import PostgresLog, PostgresStore
from shuffledp.live.seals import Entry, SealError, TakenError, recognize
from shuffledp.live.serve import Home
from shuffledp.live.shuffler import make_dummies
from shuffledp.live.store import AwayError, State

__all__ = ["on_postgres"]  # used for every test here


def open_hosts(tmp_path, steps=(None, None)):
    """Two hosts: a folder each, one database, one seal log."""
    shared = tmp_path / "shared"
    return [
        open_shuffler(tmp_path / name, step=step, seals=shared, store=shared)
        for name, step in zip("ab", steps, strict=True)
    ]


def list_drafts(shuffler):
    """The digests of all drafts of the batch that are in the database."""
    if not shuffler.store._has("batch_0"):
        return set()
    found = shuffler.store._db.execute("SELECT DISTINCT draft FROM batch_0")
    return {bytes(row[0]) for row in found}


@pytest.mark.parametrize("step", ["renamed", "kept", "logged", "written"])
def test_another_host_finishes_what_one_began_with_the_same_bytes_if_they_may_have_left(
    tmp_path, step
):
    one, two = open_hosts(tmp_path, (crash_at(step), None))
    fill(one, PEOPLE[:6])
    fill(two, PEOPLE[6:])
    with pytest.raises(CrashError):
        one.tick(LATE)
    drawn = hashlib.sha256(one.batch_path(0).read_bytes()).digest()
    one.store.close()
    two.tick(LATE)
    batch = fetch(two)[2]
    assert (hashlib.sha256(batch).digest() == drawn) == (step in ("logged", "written"))
    assert all(split(batch)[inner] == 1 for inners in PEOPLE for inner in inners)
    assert list_drafts(two) == {hashlib.sha256(batch).digest()}
    one = open_hosts(tmp_path)[0]
    assert fetch(one)[2] == batch
    assert hand_over(one, open_analyzer(tmp_path / "an")) == "published"
    two.tick(LATE)
    assert not [*tmp_path.glob("a/batch*"), *tmp_path.glob("b/batch*")]
    assert list_drafts(two) == set()


@pytest.mark.parametrize("overtaken", ["sealed", "renamed", "kept", "logged"])
def test_of_two_hosts_that_draw_at_once_the_one_in_the_log_counts(tmp_path, overtaken):
    """A host that lost its connection, and so its claim, goes on while the other one does all of it."""
    lines = []

    def overtake(name):
        if name == overtaken and not lines:
            lines.append(name)
            one.store.close()  # the claim goes with it
            two.tick(LATE)

    one, two = open_hosts(tmp_path, (overtake, None))
    fill(one)
    one.tick(LATE)
    assert lines == [overtaken]
    for host in (one, two):
        host.tick(LATE)
        assert host.store.row(0).state is State.WRITTEN
    served = {fetch(host)[::2] for host in (one, two)}
    assert len(served) == 1
    (batch,) = {each[1] for each in served}
    assert all(split(batch)[inner] == 1 for inners in PEOPLE for inner in inners)
    assert list_drafts(one) == {hashlib.sha256(batch).digest()}


def test_of_several_drafts_the_one_in_the_log_is_finished(tmp_path):
    """Both hosts died, one with a draft, the other one with a draft and an entry."""
    hosts = open_hosts(tmp_path, (crash_at("kept"), crash_at("logged")))
    fill(hosts[0])
    for host in hosts:
        with pytest.raises(CrashError):
            host.tick(LATE)
        host.store.close()
    again = open_hosts(tmp_path)[0]
    assert len(list_drafts(again)) == 2
    again.tick(LATE)
    batch = fetch(again)[2]
    assert batch == hosts[1].batch_path(0).read_bytes()
    assert list_drafts(again) == {hashlib.sha256(batch).digest()}


def test_a_host_that_comes_too_late_leaves_no_draft(tmp_path):
    def overtake(name):
        if name == "renamed":
            one.store.close()
            two.tick(LATE)
            hand_over(two, analyzer)

    analyzer = open_analyzer(tmp_path / "an")
    one, two = open_hosts(tmp_path, (overtake, None))
    fill(one)
    one.tick(LATE)
    one.step = lambda _: None
    one.tick(LATE)
    assert one.store.row(0).state is State.DELETED
    assert list_drafts(one) == set()
    assert not list((tmp_path / "a").glob("batch*"))


def test_a_draft_of_a_window_that_was_written_meanwhile_is_not_kept(tmp_path):
    one, two = open_hosts(tmp_path)
    fill(one)
    one.store.seal(0)

    def pieces():
        yield b"half of a draft"
        two.tick(LATE)
        yield b"the other half"

    one.store.keep_batch(0, b"d" * 32, pieces())
    assert list_drafts(one) == {hashlib.sha256(fetch(two)[2]).digest()}


def test_a_replica_that_is_behind_takes_over_and_nothing_is_drawn_again(tmp_path):
    """The shuffler runs on: only its connection breaks."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shuffler = open_shuffler(tmp_path / "a", seals=shared, store=shared)
    fill(shuffler)
    live.copy_store(shared, tmp_path / "replica")
    shuffler.tick(LATE)
    fetch(shuffler)
    server = get_server()
    server.copy_schema(tmp_path / "replica", shared)
    pid = shuffler.store._db.info.backend_pid
    server.execute(f"SELECT pg_terminate_backend({pid})")
    with pytest.raises(AwayError, match="does not work now"):
        shuffler.store.row(0)
    replies = {send(shuffler, inners).raw for inners in (PEOPLE[0], PEOPLE[0][::-1])}
    assert len(replies) == 1
    assert b"too_late" in replies.pop()
    shuffler.tick(LATE)
    assert refused(shuffler.manifest, 0, LATE) == "expired"
    assert shuffler.store.count(0) == 0


def test_hosts_with_different_logs_are_told(tmp_path):
    shared = tmp_path / "shared"
    one = open_shuffler(tmp_path / "a", seals=shared, store=shared)
    two = open_shuffler(tmp_path / "b", seals=tmp_path / "mine", store=shared)
    fill(one)
    with pytest.raises(SealError, match="and this one is empty: nothing is sealed"):
        two.tick(LATE)
    two.seals.begin()
    with pytest.raises(SealError, match="belongs to another database: nothing is sealed"):
        two.tick(LATE)
    one.tick(LATE)
    assert fetch(one)


def test_hosts_with_different_logs_that_begin_at_once_are_told(tmp_path):
    shared = tmp_path / "shared"
    one = open_shuffler(tmp_path / "a", seals=shared, store=shared)
    two = open_shuffler(tmp_path / "b", seals=tmp_path / "mine", store=shared)
    keep = two.store.keep_log

    def be_slow(identity):
        fill(one)
        keep(identity)

    two.store.keep_log = be_slow
    with pytest.raises(SealError, match="belongs to another database: nothing is sealed"):
        two.tick(LATE)


def test_dummies_that_another_host_did_not_need_are_forgotten(tmp_path):
    one, two = open_hosts(tmp_path)
    fill(one)
    for host in (one, two):
        host.prepared = {}
    one.tick(LATE)
    assert one.unprepared == two.unprepared == [0]
    for host in (one, two):
        host.prepared[0] = make_dummies(COLLECTION, 0)
    one.tick(LATE)
    assert two.unprepared == []
    assert two.prepared == one.prepared == {}


def test_a_window_that_somebody_is_finishing_is_waited_for(tmp_path):
    """Until it is known which bytes have left, nobody takes reports for it."""
    one, two = open_hosts(tmp_path)
    fill(one)
    one.store.seal(0)
    one.seals.create(0, Entry(batch=bytes(32), other=bytes(32)))
    with one.store.claim(0) as mine:
        assert mine
        with pytest.raises(SealError, match="another shuffler is about to finish window 0"):
            send(two, PEOPLE[0])
    assert send(two, PEOPLE[0]).failed == ((0, "too_late"),)  # its bytes are gone
    assert two.store.row(0).state is State.EXPIRED


class TestPostgresLog:
    def test_an_entry_is_made_once_for_each_collection(self, tmp_path):
        where = get_server().make_schema(tmp_path)
        log, other = (PostgresLog(where, bytes([i]) * 32, durable=False) for i in range(2))
        assert log.identify() is None
        with pytest.raises(SealError, match="no seal log of this collection"):
            log.find(3)
        identity = log.begin()
        assert log.begin() == log.identify() == recognize(log, identity) == identity
        assert other.begin() != identity
        one, two = (Entry(batch=bytes([i]) * 32, other=bytes(32)) for i in (1, 2))
        log.create(3, one)
        for again in (one, two):
            with pytest.raises(TakenError, match="window 3 was sealed before"):
                log.create(3, again)
        assert (log.find(3), log.find(4), log.windows()) == (one, None, [3])
        assert (other.find(3), other.windows()) == (None, [])

    def test_a_log_that_is_away_says_so_and_nothing_is_sealed(self, tmp_path):
        shuffler = open_hosts(tmp_path)[0]
        fill(shuffler)
        shuffler.seals = PostgresLog("host=/nowhere dbname=x", COLLECTION.id)
        with pytest.raises(SealError, match="the seal log cannot be used: the database does not"):
            shuffler.tick(LATE)
        assert shuffler.store.row(0).state is State.SEALED
        assert refused(shuffler.manifest, 0, LATE) == "not_ready"

    def test_a_log_that_would_forget_is_refused(self, tmp_path):
        log = PostgresLog(get_server().make_schema(tmp_path), COLLECTION.id)
        with pytest.raises(SealError, match="fsync and full_page_writes = off"):
            log.begin()


def test_a_log_on_the_server_of_the_store_is_refused(tmp_path, monkeypatch):
    """Every backup of that server, and every replica, would have both."""
    monkeypatch.setattr("shuffledp.live.postgres._check_server", lambda *_, **__: None)
    server = get_server()
    shuffler = open_hosts(tmp_path)[0]
    shuffler.store = PostgresStore(server.make_schema("store"), COLLECTION)
    shuffler.seals = PostgresLog(server.make_schema("log"), COLLECTION.id)
    for call in (lambda: send(shuffler, PEOPLE[0]), lambda: shuffler.tick(LATE)):
        with pytest.raises(SealError, match="on the same database server as the store"):
            call()
    assert shuffler.store.origin() == shuffler.seals.origin() != ""
    shuffler.store.close()
    shuffler.seals.close()


def test_the_folder_names_the_log(tmp_path):
    home = make_home(tmp_path, "host=/nowhere dbname=x", COLLECTION)
    with pytest.raises(sdp.DataError, match=r"need a seal log that they share: write seals = "):
        home.open_shuffler(object())
    place = home.shuffler / "store.toml"
    place.write_text(place.read_text() + 'seals = "host=/elsewhere dbname=y"\n')
    assert home.database == "host=/nowhere dbname=x"
    assert isinstance(Home(home.path).open_shuffler(object()).seals, PostgresLog)
    place.write_text('postgresql = "x"\nseals = 5\n')
    with pytest.raises(sdp.DataError, match="may have one for the seal log"):
        home.open_shuffler(object())
