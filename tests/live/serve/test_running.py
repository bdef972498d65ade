"""Roles at work: what they say when they start, fail and stop, and when the analyzer is done with a window."""

import asyncio
import json
import socket
import sqlite3
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import httpx
import pytest

import live_support as live
import shuffledp as sdp
from live.test_roles import COLLECTION, fill, hand_over, open_analyzer, open_shuffler, upload
from shuffledp.core import __version__
from shuffledp.core.errors import BudgetError
from shuffledp.live.keys import ShufflerSecrets
from shuffledp.live.serve import analyzer as role
from shuffledp.live.serve import shuffler as other
from shuffledp.live.serve.analyzer import work_once
from shuffledp.live.serve.folders import Home
from shuffledp.live.serve.journal import Journal
from shuffledp.live.serve.shuffler import run_shuffler


class Counter:
    """A shuffler that answers, and remembers what it was asked."""

    def __init__(self, folder, receipts=204):
        self.shuffler, self.receipts, self.asked = open_shuffler(folder), receipts, []
        fill(self.shuffler)
        self.shuffler.tick(1110.0)

    def answer(self, request):
        path = request.url.path
        self.asked.append((request.method, path))
        if "/0/" not in f"{path}/":
            said = {"title": "not_ready", "status": 409, "detail": "later"}
            return httpx.Response(409, content=iter([json.dumps(said).encode()]))
        if path.endswith("receipt"):
            return httpx.Response(self.receipts, content=iter([b""]))
        manifest, signature = self.shuffler.manifest(0, 1110.0)
        if path.endswith("manifest"):
            told = {"manifest": manifest.raw.decode(), "signature": signature.hex()}
            return httpx.Response(200, content=iter([json.dumps(told).encode()]))
        return httpx.Response(200, content=iter([self.shuffler.batch(0).read_bytes()]))

    def work(self, analyzer):
        self.asked.clear()
        transport = httpx.MockTransport(self.answer)
        with httpx.Client(transport=transport, base_url="http://survey.example") as client:
            waiting = work_once(analyzer, live.secret("analyzer"), client)
        return waiting, [path for _, path in self.asked if "/0/" in f"{path}/"]


def test_a_window_whose_receipt_was_taken_is_not_asked_for_again(tmp_path):
    analyzer, counter = open_analyzer(tmp_path / "a"), Counter(tmp_path / "s")
    waiting, asked = counter.work(analyzer)
    assert 0 not in waiting
    assert asked == ["/batches/0/manifest", "/batches/0", "/batches/0/receipt"]
    assert counter.work(analyzer)[1] == []


@pytest.mark.parametrize("status", [200, 404, 503])
def test_a_receipt_that_was_not_taken_is_sent_again_and_the_batch_is_not_fetched_again(
    tmp_path, status
):
    analyzer, counter = open_analyzer(tmp_path / "a"), Counter(tmp_path / "s", receipts=status)
    counter.work(analyzer)
    assert counter.work(analyzer)[1] == ["/batches/0/manifest", "/batches/0/receipt"]


def test_an_analyzer_restored_from_a_copy_goes_on_with_the_windows_after_it(tmp_path):
    """What it had published since is gone at the shuffler as well: no reason to wait, least of all for later windows."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(1110.0)
    lost = open_analyzer(tmp_path / "lost")
    assert hand_over(shuffler, lost) == "published"
    for seed in range(25):
        body = upload(live.make_inners(COLLECTION, 1, seed), 1)
        assert shuffler.receive(body, 1101.0).failed == ()
    shuffler.tick(1210.0)

    def answer(request):
        _, _, window, *kind = request.url.path.split("/")
        try:
            if not kind:
                return httpx.Response(200, content=iter([shuffler.batch(int(window)).read_bytes()]))
            if kind == ["receipt"]:
                shuffler.take_receipt(int(window), request.content, 1210.0)
                return httpx.Response(204, content=iter([b""]))
            manifest, signature = shuffler.manifest(int(window), 1210.0)
        except sdp.WireError as error:
            said = {"title": error.reason, "detail": error.sentence}
            return httpx.Response(
                other._STATUS[error.reason], content=iter([json.dumps(said).encode()])
            )
        told = {"manifest": manifest.raw.decode(), "signature": signature.hex()}
        return httpx.Response(200, content=iter([json.dumps(told).encode()]))

    analyzer = open_analyzer(tmp_path / "copy")  # made before the first window
    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://s.example") as client:
        waiting = work_once(analyzer, live.secret("analyzer"), client)
    assert analyzer.states() == {1: "published"}
    assert waiting == {0: "expired: the batch of window 0 was handed over, and deleted"}


def test_failures_are_told_once_and_mended_by_a_round_that_works(tmp_path, monkeypatch, capsys):
    """A round that fails for one window only has not worked; the reasons go to the log, not to readers."""
    rounds, seen, ended = [], [], []

    @contextmanager
    def connect(url, certificate):
        yield (url, certificate)

    def work(analyzer, sign, client, notice):
        rounds.append((sign, client))
        match len(rounds):
            case 1:
                raise OSError("no space left on /secret")
            case 2:
                notice(BudgetError("epsilon would be too large"))
                return {1: "it cannot be published now"}
        return {}

    def make_app(analyzer, waiting, health):
        seen.append((waiting, health))

    def run(_):
        waiting, health = seen[0]
        end = time.monotonic() + 20
        while len(rounds) < 4 and time.monotonic() < end:
            time.sleep(0.005)
        ended.append((dict(waiting), health.kinds, health.failures.total()))

    monkeypatch.setattr(role, "connect", connect)
    monkeypatch.setattr(role, "work_once", work)
    monkeypatch.setattr(role, "make_app", make_app)
    monkeypatch.setattr(role, "listen", lambda *apps, guarded: (apps, guarded))
    monkeypatch.setattr(role, "run_loop", run)
    collection = SimpleNamespace(url="http://s.example", id=COLLECTION.id)
    analyzer = SimpleNamespace(
        collection=collection, sign=b"key", close=lambda: ended.append("closed")
    )
    with suppress(OSError), socket.socket() as place:
        role._run(None, analyzer, place, None, 0.01, None)
    assert set(rounds) == {(b"key", ("http://s.example", None))}
    assert ended == [({}, (), 2), "closed"]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["role"] for line in lines} == {"analyzer"}
    events = [line["event"] for line in lines]
    assert sorted(events) == ["failing", "mended", "start", "stop"]
    told = {line["event"]: line for line in lines}
    assert told["start"]["version"] == __version__
    assert told["start"]["collection"] == COLLECTION.id.hex()
    assert told["failing"]["reason"] == "OSError: no space left on /secret"
    assert (told["failing"]["kind"], told["mended"]["kind"]) == ("work", "work")


def test_the_last_contact_is_when_the_shuffler_answered():
    now = [5.0]
    contact = role.Contact(clock=lambda: now[0])
    contact.note({0: "the shuffler at x cannot be reached", 1: "not ready"})
    assert contact.seconds == -1.0
    contact.note({1: "not ready"})
    now[0] = 12.0
    assert contact.seconds == 7.0
    contact.note({1: "cannot be reached"})
    assert contact.seconds == 7.0


def read_log(capsys):
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["role"] for line in lines} == {"shuffler"}
    return [(line.pop("event"), line) for line in lines]


@pytest.fixture
def home(tmp_path_factory):
    secrets = ShufflerSecrets(outer=live.outer_secrets(COLLECTION), sign=live.secret("shuffler"))
    home = Home(tmp_path_factory.mktemp("d") / "s")  # a socket's path is short
    home.create(COLLECTION, secrets, None)
    return home


@pytest.mark.parametrize("metrics", [None, "127.0.0.1:0"])
def test_a_shuffler_says_what_it_is_where_it_listens_and_that_it_ends(
    home, monkeypatch, capsys, metrics
):
    told = []

    async def listen(*apps, guarded):
        told.append(([place for _, place in apps], guarded))
        assert ready == [True]

    ready = []
    monkeypatch.setattr(other, "listen", listen)
    monkeypatch.setattr(other, "ReportPool", lambda *_: None)
    given = {"host": "127.0.0.1", "port": 0, "metrics": metrics}
    other.run_shuffler(home, **given, ready=lambda: ready.append(True))
    ((places, guarded),) = told
    assert (len(places), places[1], guarded) == (2 if metrics is None else 3, home.socket, None)
    assert (home.shuffler / "metrics-token").exists() == (metrics is not None)
    assert not home.socket.exists()
    log = read_log(capsys)
    (start,) = [line for event, line in log if event == "start"]
    assert (start["version"], start["collection"]) == (__version__, COLLECTION.id.hex())
    assert log[-1][0] == "stop"


def test_a_shuffler_without_its_store_starts_and_says_why(home, monkeypatch, capsys):
    def fail(*_, **__):
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(Home, "open_store", fail)
    shuffler = other._open(home, Journal("shuffler"))
    assert shuffler.collection.id == COLLECTION.id
    assert read_log(capsys)[0][1]["reason"] == "unable to open database file"


def test_one_round_asks_for_every_window_until_none_can_be_ready(monkeypatch):
    """A window that is refused keeps no other; one that is not ready, or a shuffler that is away, ends the round."""
    told, asked = [], []
    analyzer = SimpleNamespace(
        collection=SimpleNamespace(url="http://s.example", windows=SimpleNamespace(count=5))
    )

    def run(faults):
        told.clear(), asked.clear()

        def work_on(who, sign, client, window):
            assert (who, sign, client) == (analyzer, b"key", "client")
            asked.append(window)
            if window in faults:
                raise faults[window]

        monkeypatch.setattr(role, "_work_on", work_on)
        return work_once(analyzer, b"key", "client", told.append), list(asked)

    refused, later = sdp.WireError("manifest", "strange"), sdp.WireError("not_ready", "later")
    spent = sdp.DataError("the budget is spent")
    waiting = "it cannot be published now; the operator is told why"
    assert run({}) == ({}, [0, 1, 2, 3, 4])
    assert run({0: refused, 3: later}) == ({0: str(refused), 3: str(later)}, [0, 1, 2, 3])
    assert run({1: spent, 4: spent}) == ({1: waiting, 4: waiting}, [0, 1, 2, 3, 4])
    assert told == [spent, spent]
    away = "the shuffler at http://s.example cannot be reached"
    assert run({2: httpx.ConnectError("no")}) == ({2: away}, [0, 1, 2])
    assert told == []


@pytest.mark.parametrize("results", [None, "https://results.example/"])
def test_a_shuffler_is_run_with_everything_that_it_was_given(tmp_path, monkeypatch, results):
    class EndError(Exception):
        pass

    def make_server(*given, **named):
        made.update(named, given=given)
        raise EndError

    made = {}
    home = SimpleNamespace(
        desk=tmp_path / "desk", shuffler=tmp_path, socket=tmp_path / "socket", open_store="open"
    )
    shuffler = SimpleNamespace(collection=COLLECTION, secrets=SimpleNamespace(outer={1: b"key"}))
    monkeypatch.setattr(other, "_open", lambda *_: shuffler)
    monkeypatch.setattr(other, "keep_token", lambda *_: "token")
    monkeypatch.setattr(other, "ReportPool", lambda *given: given)
    monkeypatch.setattr(other, "Intake", lambda who, pool: (who, pool))
    monkeypatch.setattr(other, "ShufflerServer", make_server)
    monkeypatch.setattr(other, "run_loop", asyncio.run)
    with pytest.raises(EndError):
        run_shuffler(home, host="127.0.0.1", port=0, workers=3, results=results)
    journal = made.pop("journal")
    assert isinstance(journal, Journal)
    assert made == {
        "given": (shuffler, (shuffler, (COLLECTION, {1: b"key"}, 3))),
        "token": "token",
        "reopen": "open",
        "results": None if results is None else "https://results.example",
    }
