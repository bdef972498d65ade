"""A shuffler that cannot work says so: in its health, its status, its metrics and its log; and it keeps what it has."""

import asyncio
import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import live_support as live
from live.serve.test_servers import COLLECTION, REPORTS, TYPE, UPLOAD, Clock, client, title
from live.test_roles import open_shuffler
from shuffledp.live.serve.journal import Health, Journal
from shuffledp.live.serve.pool import Intake
from shuffledp.live.serve.shuffler import AwayStore, ShufflerServer
from shuffledp.live.store import DamageError, SqliteStore, State
from shuffledp.live.wire.document import Windows
from shuffledp.live.wire.report import join_upload

WORD = {"Authorization": "Bearer word"}
WEEK = 7 * 86_400


class Ward:
    """A server without sockets on clocks that tests turn; the loop that ticks is turned by hand."""

    def __init__(self, folder, collection=COLLECTION, store=None, reopen=None):
        self.clock, self.uptime = Clock(), Clock()
        self.uptime.now = 50.0
        self.shuffler = open_shuffler(folder, collection)
        if store is not None:
            self.shuffler.store = store
        self.lines = []
        self.reopen = reopen

    async def __aenter__(self):
        self.intake = Intake(self.shuffler, clock=self.clock)
        self.server = ShufflerServer(
            self.shuffler,
            self.intake,
            token="word",  # noqa: S106
            clock=self.clock,
            uptime=self.uptime,
            journal=Journal("shuffler", write=self.lines.append, clock=self.clock),
            reopen=self.reopen,
        )
        app = self.server.public()
        self.intake.start()
        await self.server._step()
        self.public = client(app, "http://127.0.0.1:8000")
        self.admin = client(self.server.admin(), "http://localhost")
        return self

    async def __aexit__(self, *error):
        await self.public.aclose()
        await self.admin.aclose()
        await self.intake.stop()

    async def pass_time(self, seconds, jump=0.0):
        self.clock.now += seconds + jump
        self.uptime.now += seconds
        await self.server._step()

    async def upload(self, body=UPLOAD):
        return await self.public.post("/reports", content=body, headers=TYPE)

    async def look(self):
        health = await self.public.get("/healthz")
        status = (await self.admin.get("/status", headers=WORD)).json()
        metrics = (await self.admin.get("/metrics", headers=WORD)).text
        return health.status_code, health.text, status["failing"], "shuffledp_failing 1" in metrics

    def events(self, name):
        return [each for each in map(json.loads, self.lines) if each["event"] == name]


def play(scene, *arguments, **more):
    async def run():
        async with Ward(*arguments, **more) as ward:
            await scene(ward)

    asyncio.run(run())


def long_collection():
    windows = Windows(start=1000, seconds=WEEK, count=52, grace=600)
    return live.make_collection(windows=windows)


def test_a_clock_60_weeks_ahead_expires_nothing(tmp_path):
    collection = long_collection()
    reports = [live.make_report(collection, 0, seed) for seed in range(5)]
    upload = join_upload(collection, reports)

    async def scene(ward):
        assert (await ward.upload(upload)).json()["accepted"] == 5
        await ward.pass_time(1.0, jump=60 * WEEK)
        states = {ward.shuffler.store.row(window).state for window in range(52)}
        assert states == {State.OPEN}
        assert ward.shuffler.store.count(0) == 5
        assert title(await ward.upload(upload)) == (503, "unavailable")  # kept by the device
        status, text, failing, metric = await ward.look()
        assert (status, text, metric) == (503, "failing: clock\n", True)
        assert "420 days ahead" in failing
        assert len(ward.events("failing")) == 1
        refused = await ward.admin.post("/close", headers=WORD)
        assert title(refused) == (400, "clock")
        await ward.pass_time(1.0, jump=-60 * WEEK)
        assert (await ward.look())[:2] == (200, "ok\n")
        assert (await ward.upload(upload)).json()["accepted"] == 5
        assert ward.events("mended")[0]["kind"] == "clock"

    play(scene, tmp_path / "s", collection)


def test_an_upload_is_refused_at_once_after_a_jump(tmp_path):
    """Not only at the next tick: a device drops a report that is too late."""

    async def scene(ward):
        ward.clock.now += 10 * WEEK
        report = join_upload(collection, [live.make_report(collection, 0, 1)])
        assert title(await ward.upload(report)) == (503, "unavailable")

    collection = long_collection()
    play(scene, tmp_path / "s", collection)


def test_the_operator_can_say_that_the_clock_is_right(tmp_path):
    collection = long_collection()

    async def scene(ward):
        await ward.pass_time(1.0, jump=3 * WEEK)
        assert (await ward.look())[0] == 503
        assert (await ward.admin.post("/clock", headers=WORD)).status_code == 200
        await ward.pass_time(1.0)
        assert (await ward.look())[0] == 200
        assert ward.shuffler.store.row(0).state is State.EXPIRED

    play(scene, tmp_path / "s", collection)


def test_a_start_long_after_the_last_time_in_the_store_asks(tmp_path):
    collection = long_collection()

    async def first(ward):
        await ward.pass_time(10.0)

    async def second(ward):
        assert (await ward.look())[:2] == (200, "ok\n")
        ward.clock.now += 60 * WEEK

    play(first, tmp_path / "s", collection)
    shuffler = open_shuffler(tmp_path / "s", collection)
    assert shuffler.store.last_beat() == 1011.0
    shuffler.store.close()

    async def late():
        ward = Ward(tmp_path / "s", collection)
        ward.clock.now = 1011.0 + 60 * WEEK
        async with ward:
            assert (await ward.look())[:2] == (503, "failing: clock\n")
            assert ward.shuffler.store.row(0).state is State.OPEN

    asyncio.run(late())
    play(second, tmp_path / "s", collection)


def fill_disk(ward):
    """No page more than there is: what SQLite says then is what it says of a full disk."""
    pages = ward.shuffler.store._db.execute("PRAGMA page_count").fetchone()[0]
    ward.shuffler.store._db.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_is_seen_everywhere(tmp_path):
    async def scene(ward):
        fill_disk(ward)
        many = [live.make_report(COLLECTION, 0, seed) for seed in range(100, 150)]
        answers = [await ward.upload(join_upload(COLLECTION, many)) for _ in range(3)]
        while all(answer.status_code == 200 for answer in answers):
            many = [
                live.make_report(COLLECTION, 0, 1000 + len(answers) * 50 + i) for i in range(50)
            ]
            answers.append(await ward.upload(join_upload(COLLECTION, many)))
        assert title(answers[-1]) == (503, "unavailable")
        status, text, failing, metric = await ward.look()
        assert (status, text, metric) == (503, "failing: store\n", True)
        assert "full" in failing
        (line,) = ward.events("failing")
        assert line["kind"] == "store"
        document = await ward.public.get(f"/collections/{COLLECTION.id.hex()}")
        assert document.content == COLLECTION.raw  # what needs no disk goes on
        ward.shuffler.store._db.execute("PRAGMA max_page_count = 1000000")
        await ward.pass_time(20.0)
        assert (await ward.look())[:2] == (200, "ok\n")

    play(scene, tmp_path / "s")


def test_a_write_every_few_seconds_notices_before_anybody_uploads(tmp_path, monkeypatch):
    async def scene(ward):
        def full(now):
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(ward.shuffler.store, "beat", full)
        await ward.pass_time(10.0)
        assert (await ward.look())[0] == 503

    play(scene, tmp_path / "s")


def test_a_beat_is_as_large_as_an_upload(tmp_path):
    store = SqliteStore(tmp_path / "store.sqlite", COLLECTION)
    store.beat(5.0)
    assert store._db.execute("SELECT length(ballast) FROM beats").fetchone()[0] == 65_536
    assert store.last_beat() == 5.0


def test_a_store_that_cannot_be_opened_yet_keeps_nobody_from_the_documents(tmp_path):
    made = []

    def reopen():
        if not made:
            made.append(1)
            raise sqlite3.OperationalError("unable to open database file")
        return SqliteStore(tmp_path / "s" / "store.sqlite", COLLECTION)

    async def scene(ward):
        health = await ward.public.get("/healthz")
        assert (health.status_code, health.text) == (503, "failing: store\n")
        assert (await ward.public.get(f"/collections/{COLLECTION.id.hex()}")).status_code == 200
        assert title(await ward.upload()) == (503, "unavailable")
        await ward.pass_time(20.0)
        assert (await ward.upload()).json()["accepted"] == 25

    play(scene, tmp_path / "s", store=AwayStore("no room"), reopen=reopen)


def damage(path, seed=7):
    """Flip 20 bytes in the middle of the file, beyond its first pages."""
    content, rng = bytearray(path.read_bytes()), np.random.default_rng(seed)
    for place in rng.integers(len(content) // 3, len(content), size=20):
        content[place] ^= 0xFF
    path.write_bytes(bytes(content))


def fill(folder, people=120):
    shuffler = open_shuffler(folder)
    for start in range(0, people, 40):
        reports = [live.make_report(COLLECTION, 0, seed) for seed in range(start, start + 40)]
        assert shuffler.receive(join_upload(COLLECTION, reports), 1001.0).failed == ()
    shuffler.store.close()
    return folder / "store.sqlite"


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_store_takes_nothing_more_and_seals_nothing(tmp_path, seed):
    damage(fill(tmp_path / "s"), seed)

    async def scene(ward):
        await ward.pass_time(1.0)
        ward.clock.now = 1111.0  # the window is over
        ward.uptime.now += 110.0
        await ward.server._step()
        assert title(await ward.upload()) == (503, "unavailable")
        health = await ward.public.get("/healthz")
        assert (health.status_code, health.text) == (503, "failing: damage\n")
        assert "the store is damaged" in ward.server.health.sentence
        assert list((tmp_path / "s").glob("batch*")) == []

    play(scene, tmp_path / "s")


def test_one_changed_report_is_noticed_before_it_is_sealed(tmp_path):
    """No page is broken, and one byte of one report is not what was acknowledged."""
    path = fill(tmp_path / "s")
    db = sqlite3.connect(path)
    (inners,) = db.execute("SELECT inners FROM reports LIMIT 1").fetchone()
    db.execute("UPDATE reports SET inners = ? WHERE inners = ?", (b"\0" + inners[1:], inners))
    db.commit()
    db.close()
    shuffler = open_shuffler(tmp_path / "s")
    with pytest.raises(DamageError, match="1 of 120 reports of window 0 have changed"):
        shuffler.tick(1110.0)
    assert shuffler.store.row(0).state is State.OPEN
    assert shuffler.store.count(0) == 120
    with pytest.raises(DamageError):
        shuffler.receive(UPLOAD, 1001.0)


def test_a_row_that_no_table_would_take_is_damage(tmp_path):
    """Every page is whole, and SQLite says what is wrong instead of raising it."""
    path = fill(tmp_path / "s", people=40)
    db = sqlite3.connect(path)
    db.execute("PRAGMA ignore_check_constraints = ON")
    db.execute("INSERT INTO closing VALUES (2, 0)")
    db.commit()
    db.close()
    said = r"^the store is damaged: CHECK constraint failed in"
    with closing(SqliteStore(path, COLLECTION)) as store, pytest.raises(DamageError, match=said):
        store.inspect()


def test_the_log_has_starts_seals_expiries_and_refusals_and_nobody_in_it(tmp_path):
    async def scene(ward):
        await ward.upload()
        await ward.upload(b"x" * 100)
        late = live.make_report(COLLECTION, 1, 1)
        await ward.upload(join_upload(COLLECTION, [late]))
        await ward.pass_time(109.5)
        await ward.pass_time(700.0)
        assert [(each["window"], each["reports"]) for each in ward.events("seal")] == [(0, 25)]
        assert [each["window"] for each in ward.events("written")] == [0]
        assert [(each["window"], each["reports"]) for each in ward.events("expire")] == [(1, 0)]
        (refused,) = ward.events("refused")
        assert refused["reasons"] == {"malformed": 1, "too_early": 1}
        text = "\n".join(ward.lines)
        assert "127.0.0.1" not in text
        assert not any(report.hex()[:32] in text for report in REPORTS)

    play(scene, tmp_path / "s")


def test_a_log_that_cannot_be_written_stops_nothing():
    def full(line):
        raise OSError("no space")

    journal = Journal("shuffler", write=full)
    journal.note("start")
    health = Health(journal)
    health.fail("store", "full", uptime=0.0)
    assert health.kinds == ("store",)
