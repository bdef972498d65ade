"""Roles as processes, pools of them, and what monitoring is told: with stand-ins for the processes."""

import asyncio
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import live_support as live
from live.server_support import COLLECTION as SERVED
from live.test_roles import COLLECTION, POOL, fill, hand_over, open_analyzer, open_shuffler
from shuffledp.core.errors import UnsupportedError
from shuffledp.live.analyzer import open_records
from shuffledp.live.serve import Home, Place, Role, folders, play_roles
from shuffledp.live.serve.analyzer import Contact, write_metrics
from shuffledp.live.serve.http import Certificate
from shuffledp.live.serve.journal import Health, Journal, measure_uptime
from shuffledp.live.shuffler import draw_dummies, open_reports, seal_plains
from shuffledp.live.wire.report import open_inner, seal_report

pools = pytest.importorskip("shuffledp.live.serve.pool")


class Process:
    """A process that ends when it is asked to, or only when it is killed."""

    def __init__(self, stubborn=False, returncode=None):
        self.stubborn, self.returncode, self.asked = stubborn, returncode, []

    def poll(self):
        return self.returncode

    def terminate(self):
        self.asked.append("terminate")
        if not self.stubborn:
            self.returncode = 0

    def kill(self):
        self.asked.append("kill")
        self.returncode = -9

    def wait(self, seconds=None):
        self.asked.append(seconds)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("role", seconds)


def test_a_role_is_asked_to_end_and_killed_if_it_does_not():
    willing, stubborn, gone = Process(), Process(stubborn=True), Process(returncode=1)
    for process in (willing, stubborn, gone):
        Role(process, "http://127.0.0.1:1").stop()
    assert willing.asked == ["terminate", 20]
    assert stubborn.asked == ["terminate", 20, "kill", None]
    assert gone.asked == []


@pytest.fixture
def started(monkeypatch):
    """The commands that were started, and their environments."""
    found = []

    def start(command, *, env, stdout):
        assert stdout == subprocess.DEVNULL
        assert env["PYTHONWARNINGS"] == "ignore"
        assert set(env) - {"PYTHONWARNINGS"} <= set(folders.os.environ)
        found.append(command)
        return Process()

    monkeypatch.setattr(folders.subprocess, "Popen", start)
    return found


def test_a_role_is_started_with_what_was_said(started, tmp_path):
    home = Home(tmp_path / "s")
    role = folders.start("shuffler", home, 8000)
    assert (role.url, role.certificate) == ("http://127.0.0.1:8000", None)
    certificate = Certificate(chain=tmp_path / "c.pem", key=tmp_path / "c.key")
    place = Place(host="192.0.2.7", certificate=certificate)
    away = folders.start("analyzer", home, 8001, "--every", "3", workers=2, place=place)
    assert (away.url, away.certificate) == ("https://192.0.2.7:8001", certificate)
    head = [sys.executable, "-m", "shuffledp"]
    tls = ["--host", "192.0.2.7", "--tls", f"{certificate.chain},{certificate.key}"]
    assert started == [
        [*head, "shuffler", str(home.path), "--port", "8000"],
        [*head, "analyzer", str(home.path), "--port", "8001", "--every", "3", *tls, "--workers", "2"],
    ]  # fmt: skip


def test_both_roles_are_started_at_their_ports_and_end_with_the_block(started, monkeypatch):
    ready = []
    monkeypatch.setattr(Role, "wait_until_ready", lambda role: ready.append(role.url))
    home = SimpleNamespace(path="s", collection=lambda: SimpleNamespace(url="http://127.0.0.1:8000"))  # fmt: skip
    with play_roles(home, 8001, workers=3, every=0.25) as (shuffler, analyzer):
        assert ready == ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
        assert shuffler.process.asked == analyzer.process.asked == []
    assert shuffler.process.asked == analyzer.process.asked == ["terminate", 20]
    one, other = ([*command[3:]] for command in started)
    assert one == ["shuffler", "s", "--port", "8000", "--results", "http://127.0.0.1:8001", "--workers", "3"]  # fmt: skip
    assert other == ["analyzer", "s", "--port", "8001", "--every", "0.25", "--workers", "3"]


@pytest.fixture
def answers(monkeypatch):
    """What the page of health says, time after time."""
    left = []

    class Client:
        def get(self, path):
            assert path == "/healthz"
            found = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(found, Exception):
                raise found
            return SimpleNamespace(status_code=found)

    @contextmanager
    def connect(url, certificate):
        assert (url, certificate) == ("http://127.0.0.1:1", None)
        yield Client()

    monkeypatch.setattr(folders, "connect", connect)
    monkeypatch.setattr(folders.time, "sleep", lambda _: None)
    return left


def test_a_role_is_waited_for_until_it_is_well(answers, monkeypatch):
    import httpx

    answers += [httpx.ConnectError("not yet"), 503, 200, 500]
    role = Role(Process(), "http://127.0.0.1:1")
    role.wait_until_ready()
    assert answers == [500]
    role.process.returncode = 3
    with pytest.raises(UnsupportedError, match=r"^a server ended at once, with status 3$"):
        role.wait_until_ready()
    role.process.returncode = None
    monkeypatch.setattr(folders, "_PATIENCE", 0.02)
    with pytest.raises(UnsupportedError, match=r"^http://127\.0\.0\.1:1 does not answer$"):
        role.wait_until_ready()


class Here:
    """In place of a pool of processes: this one."""

    made = 0

    def __init__(self, workers, initializer, *arguments):
        Here.made += 1
        self.workers = workers
        initializer(*arguments)
        self.ended = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended = {}

    def map(self, call, *arguments):
        return map(call, *arguments)

    def submit(self, call, *arguments):
        from concurrent.futures import Future

        done = Future()
        done.set_result(call(*arguments))
        return done

    def shutdown(self, **how):
        self.ended = how


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(pools, "start_pool", Here)
    monkeypatch.setattr(Here, "made", 0)


def test_a_pool_opens_the_records_of_a_batch_as_one_process_does(here, monkeypatch):
    """Many records go to a pool in pieces, and come back in their order; few are opened here."""
    secret = live.secret("inner")
    records = np.array([np.frombuffer(each, dtype=np.uint8) for inners in POOL[:6] for each in inners])  # fmt: skip
    records[4, -1] ^= 1
    wanted, fine = open_records(COLLECTION, 0, secret, records)
    assert fine.tolist() == [place != 4 for place in range(12)]
    for few, piece, made in ((12, 5, 0), (11, 5, 1), (1, 4, 1), (1, 1, 1), (1, 100, 1)):
        monkeypatch.setattr(pools, "_FEW", few)
        monkeypatch.setattr(pools, "_CHUNK", piece)
        Here.made = 0
        plains, good = pools.RecordPool(2)(COLLECTION, 0, secret, records)
        assert (plains.tolist(), good.tolist()) == (wanted.tolist(), fine.tolist())
        assert (plains.shape, good.dtype, Here.made) == (wanted.shape, np.bool_, made)


def test_a_pool_opens_reports_and_seals_dummies(here):
    secrets = live.outer_secrets(SERVED)
    pool = pools.ReportPool(SERVED, secrets, 3)
    assert (pool.workers, pool.executor.workers, Here.made) == (3, 3, 1)
    sealed = [live.make_report(SERVED, 0, seed) for seed in (1, 2)]
    assert pool.open([*sealed, b"junk"]) == open_reports(SERVED, [*sealed, b"junk"], secrets)
    plains = draw_dummies(SERVED)[:7]
    raw = pool.seal(1, plains.tobytes())
    rows = np.frombuffer(raw, dtype=np.uint8).reshape(7, SERVED.inner_size)
    opened = [open_inner(SERVED, 1, row.tobytes(), live.secret("inner")) for row in rows]
    assert opened == [row.tobytes() for row in plains]
    assert seal_plains(SERVED, 1, plains).shape == rows.shape
    first = pool.executor
    pool.restart()
    assert pool.executor is not first
    pool.close()
    assert pool.executor.ended == {"wait": True, "cancel_futures": True}


def test_what_is_taken_is_answered_in_order_also_by_a_pool(here, tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    pool = pools.ReportPool(COLLECTION, dict(shuffler.secrets.outer), 1)
    good = [seal_report(COLLECTION, 0, inners) for inners in POOL[:9]]

    async def scene():
        intake = pools.Intake(shuffler, clock=lambda: 1001.0, pool=pool)
        intake.start()
        bad = good[3][:-1] + bytes([good[3][-1] ^ 1])
        uploads = [good[:6], [*good[6:8], bad], [good[8]], [good[0]]]
        pool.executor = None  # of few reports the loop's own thread opens all: patched below
        pool.executor = ThreadHere()
        replies = await asyncio.gather(*map(intake.receive, uploads))
        assert [(each.reports, each.failed) for each in replies] == [
            (6, ()), (3, ((2, "malformed"),)), (1, ()), (1, ()),
        ]  # fmt: skip
        assert shuffler.store.count(0) == 9
        await intake.stop()

    asyncio.run(scene())


def test_a_pool_that_broke_while_dummies_were_sealed_is_started_again(here):
    """Otherwise no window would ever be sealed: after the last one nobody may send reports that would restart it."""
    pool = pools.ReportPool(SERVED, live.outer_secrets(SERVED), 2)
    intake = pools.Intake(SimpleNamespace(collection=SERVED), pool=pool)

    def fail(*_):
        raise BrokenProcessPool("a process died")

    broken, pool.executor.submit = pool.executor, fail
    with pytest.raises(BrokenProcessPool):
        asyncio.run(intake.seal_dummies(0))
    assert pool.executor is not broken
    renewed = pool.executor
    dummies = asyncio.run(intake.seal_dummies(0))
    assert dummies.ndim == 2
    assert dummies.shape[1] == SERVED.inner_size
    assert pool.executor is renewed


def ThreadHere():
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1)


def test_monitoring_is_told_of_windows_messages_and_when_the_shuffler_answered(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler)
    shuffler.tick(1110.0)
    hand_over(shuffler, analyzer)
    now = [50.0]
    contact, health = Contact(clock=lambda: now[0]), Health(Journal("analyzer", write=lambda _: None))  # fmt: skip
    head = ['shuffledp_windows{state="published"} 1']
    assert write_metrics(analyzer, {1: "x", 2: "y"}, health, contact).splitlines() == [
        *head, "shuffledp_windows_waiting 2", "shuffledp_failing 0", "shuffledp_shuffler_last_contact_seconds -1",
    ]  # fmt: skip
    contact.note({1: "the shuffler at x cannot be reached"})
    assert contact.seconds == -1.0
    contact.note({1: "not_ready: no"})
    now[0] = 57.25
    health.fail("work", "no", uptime=1.0)
    health.fail("work", "no", uptime=2.0)
    assert write_metrics(analyzer, {}, health, contact).splitlines() == [
        *head, "shuffledp_windows_waiting 0", "shuffledp_failing 1", 'shuffledp_failures_total{kind="work"} 2',
        "shuffledp_shuffler_last_contact_seconds 7",
    ]  # fmt: skip
    contact.note({1: "not_ready", 2: "it cannot be reached"})
    assert contact.seconds == 7.25
    assert write_metrics(analyzer, {}, health, contact).endswith("\n")
    assert measure_uptime() > 0
    analyzer.close()


def test_a_failure_is_told_once_and_held_for_ten_seconds_if_it_is_the_store():
    lines = []
    health = Health(Journal("shuffler", write=lines.append, clock=lambda: 0.0))
    for kind in ("store", "seal"):
        health.fail(kind, f"no {kind}", uptime=100.0)
        health.fail(kind, f"still no {kind}", uptime=101.0)
    assert (health.kinds, health.sentence) == (("seal", "store"), "still no seal; still no store")
    health.mend("seal", uptime=101.0)
    health.mend("store", uptime=110.9)
    assert health.kinds == ("store",)
    health.mend("store", uptime=111.0)
    health.mend("store", uptime=112.0)
    assert (health.kinds, health.sentence) == ((), None)
    assert dict(health.failures) == {"store": 2, "seal": 2}
    told = [line.partition('"event": ')[2] for line in lines]
    assert told == [
        '"failing", "kind": "store", "reason": "no store"}',
        '"failing", "kind": "seal", "reason": "no seal"}',
        '"mended", "kind": "seal"}',
        '"mended", "kind": "store"}',
    ]


def test_refusals_are_told_every_ten_minutes_and_only_what_is_new():
    lines = []
    journal = Journal("shuffler", write=lines.append, clock=lambda: 0.0)
    told = lambda: [line.partition('"event": ')[2] for line in lines]  # noqa: E731
    journal.note_refusals({}, 0.0)
    assert told() == []
    journal.note_refusals({"b": 2, "a": 1}, 0.0)
    journal.note_refusals({"b": 5, "a": 1}, 599.9)
    assert told() == []
    journal.note_refusals({"b": 5, "a": 1}, 600.0)
    assert told() == ['"refused", "reasons": {"a": 1, "b": 5}}']
    journal.note_refusals({"b": 6, "a": 1, "c": 0}, 1199.9)
    assert len(lines) == 1
    journal.note_refusals({"b": 6, "a": 1, "c": 0}, 1200.0)
    assert told()[1:] == ['"refused", "reasons": {"b": 1}}']
    journal.note_refusals({"b": 6, "a": 1}, 2000.0)
    assert len(lines) == 2

    def fail(_):
        raise OSError

    Journal("shuffler", write=fail).note("start")  # no reason to stop
