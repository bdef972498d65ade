"""What an attacker tries: slow requests, long heads, a full disk, a dead worker, lying servers, strange links."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import threading
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

import live_support as live
import shuffledp as sdp
from live.serve.test_servers import COLLECTION, REPORTS, TYPE, UPLOAD, Server, play, title
from live.test_roles import open_analyzer, open_shuffler
from shuffledp.live import pages
from shuffledp.live.serve import connections
from shuffledp.live.serve.analyzer import work_once
from shuffledp.live.serve.client import fetch_document, read_link
from shuffledp.live.serve.http import bind, listen
from shuffledp.live.serve.pool import Intake, ReportPool
from shuffledp.live.store import DamageError, hold, transaction


def talk(conversation):
    """With the shuffler on a socket, as `shuffledp shuffler` serves it."""

    async def run(folder):
        async with Server(folder) as server:

            async def answer(scope, receive, send):
                assert scope["type"] == "http", "the lifespan has begun already"
                await server.public_app(scope, receive, send)

            with bind("127.0.0.1", 0) as place:
                port = place.getsockname()[1]
                serving = asyncio.create_task(listen((answer, place)))
                try:
                    return await conversation(port)
                finally:
                    os.kill(os.getpid(), signal.SIGTERM)  # as an operator ends it
                    await serving

    return run


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"GET /heal",
        b"POST /reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 400\r\n"
        b"Content-Type: application/vnd.shuffledp.reports\r\n\r\nabc",
    ],
    ids=["nothing", "half a line", "half a body"],
)
def test_slow_requests_are_hung_up_on(tmp_path, monkeypatch, beginning):
    monkeypatch.setattr(connections, "_PATIENCE", 0.2)

    async def conversation(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(beginning)
        rest = await asyncio.wait_for(reader.read(), 20)  # until they hang up
        writer.close()
        return rest

    assert asyncio.run(talk(conversation)(tmp_path / "s")) == b""


@pytest.mark.parametrize("requests", [2, 30])
def test_whoever_asks_again_before_the_answer_is_hung_up_on_and_not_logged(
    tmp_path, caplog, requests
):
    """A queue of requests on one connection ended in a traceback for each client that hung up."""

    async def conversation(port):
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /windows HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * requests)
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            return [(await client.get("/windows")).status_code for _ in range(3)]

    assert asyncio.run(talk(conversation)(tmp_path / "s")) == [200] * 3
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


def test_whoever_reads_no_answer_is_hung_up_on(tmp_path, monkeypatch):
    """They held a connection, and the answer in memory, for ever."""
    monkeypatch.setattr(connections, "_PATIENCE", 0.3)
    monkeypatch.setattr(connections.ImpatientProtocol, "_open", 0)
    long = b"x" * 30_000_000

    async def answer(scope, receive, send):
        head = [(b"content-length", str(len(long)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": long})

    async def conversation():
        with bind("127.0.0.1", 0) as place:
            serving = asyncio.create_task(listen((answer, place)))
            silent = []
            try:
                for rest in (b"", b"Connection: close\r\n"):
                    one = socket.create_connection(place.getsockname())
                    one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + rest + b"\r\n")
                    silent.append(one)
                counts = []
                for _ in range(200):
                    await asyncio.sleep(0.05)
                    counts.append(connections.ImpatientProtocol._open)
                    if counts[-1] == 0 and max(counts) == 2:
                        break
                async with httpx.AsyncClient() as client:
                    port = place.getsockname()[1]
                    read = await client.get(f"http://127.0.0.1:{port}/")
                return counts[-1], read.content == long
            finally:
                for one in silent:
                    one.close()
                os.kill(os.getpid(), signal.SIGTERM)
                await serving

    assert asyncio.run(conversation()) == (0, True)


def test_a_head_without_end_is_not_read(tmp_path):
    async def conversation(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        sent = 0
        try:
            while sent < 50_000_000 and not reader.at_eof():
                writer.write(b"x" * 65536)
                sent += 65536
                await writer.drain()
        except ConnectionError:
            pass
        return sent

    assert asyncio.run(talk(conversation)(tmp_path / "s")) < 20_000_000


def test_good_requests_live_on_one_connection(tmp_path, monkeypatch):
    """Patience is for one request, not for a connection that is used again and again."""
    monkeypatch.setattr(connections, "_PATIENCE", 0.3)

    async def conversation(port):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            found = []
            for _ in range(4):
                answer = await client.post("/reports", content=UPLOAD, headers=TYPE)
                found.append(answer.status_code)
                await asyncio.sleep(0.15)
            return found

    assert asyncio.run(talk(conversation)(tmp_path / "s")) == [200] * 4


def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path):
    """A full disk shows at the commit: the next transaction must find the store as it was."""
    shuffler = open_shuffler(tmp_path / "s")
    db = shuffler.store._db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages + 2}")
    failures = 0
    for report in [live.make_report(COLLECTION, 0, seed) for seed in range(200, 330)]:
        try:
            shuffler.receive(COLLECTION.id + report, 1001.0)
        except sqlite3.Error:
            failures += 1
        assert not db.in_transaction
    assert failures
    kept = shuffler.store.count(0)
    db.execute("PRAGMA max_page_count = 100000")
    shuffler.receive(COLLECTION.id + REPORTS[0], 1001.0)
    assert shuffler.store.count(0) == kept + 1


def test_a_commit_that_is_refused_is_undone():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(
            "PRAGMA foreign_keys = ON; CREATE TABLE a (x INTEGER PRIMARY KEY);"
            "CREATE TABLE b (x REFERENCES a DEFERRABLE INITIALLY DEFERRED);"
        )
        with pytest.raises(sqlite3.IntegrityError), transaction(db):
            db.execute("INSERT INTO b VALUES (1)")  # noticed at the commit
        assert not db.in_transaction
        with transaction(db):
            db.execute("INSERT INTO a VALUES (1)")


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk is full"), OSError("no space")])
def test_windows_are_sealed_once_the_disk_has_room_again(tmp_path, monkeypatch, error):
    word = {"Authorization": "Bearer word"}

    async def scene(server):
        await server.public.post("/reports", content=UPLOAD, headers=TYPE)
        right = server.shuffler._write

        def wrong(window):
            raise error

        monkeypatch.setattr(server.shuffler, "_write", wrong, raising=False)
        server.clock.now = 1110.0
        for _ in range(100):
            status = (await server.admin.get("/status", headers=word)).json()
            if status["failing"]:
                break
            await asyncio.sleep(0.05)
        assert str(error) in status["failing"]
        assert "shuffledp_failing 1" in (await server.admin.get("/metrics", headers=word)).text
        monkeypatch.setattr(server.shuffler, "_write", right, raising=False)
        for _ in range(100):
            status = (await server.admin.get("/status", headers=word)).json()
            if status["failing"] is None:
                break
            await asyncio.sleep(0.05)
        assert status["windows"][0]["state"] == "written"

    play(tmp_path / "s", scene)


def test_a_second_server_in_a_folder_is_refused(tmp_path):
    with (
        hold(tmp_path, "shuffler"),
        pytest.raises(sdp.DataError, match="another shuffler is running"),
        hold(tmp_path, "shuffler"),
    ):
        pass
    with hold(tmp_path, "shuffler"):
        pass


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    """Its upload is told to come again; the next one finds new workers."""
    shuffler = open_shuffler(tmp_path / "s")
    pool = ReportPool(COLLECTION, dict(shuffler.secrets.outer), workers=1)

    async def scene():
        intake = Intake(shuffler, clock=lambda: 1001.0, pool=pool)
        intake.start()
        first = pool.executor
        (process,) = [*first._processes.values()]
        os.kill(process.pid, 9)
        for _ in range(50):
            with suppress(sdp.WireError):  # unavailable, for a moment
                reply = await intake.receive(REPORTS)
                break
            await asyncio.sleep(0.05)
        assert pool.executor is not first
        await intake.stop()
        return reply

    assert asyncio.run(scene()).failed == ()
    assert shuffler.store.count(0) == len(REPORTS)


class Liar(BaseHTTPRequestHandler):
    """Answers whatever the test says."""

    says = b""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.says)

    def log_message(self, *_):
        pass


@pytest.fixture
def liar():
    server = HTTPServer(("127.0.0.1", 0), Liar)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{}",
        b'{"manifest": 1, "signature": "00"}',
        b'{"manifest": "{}", "signature": "xx"}',
    ],
)
def test_a_shuffler_that_lies_does_not_stop_the_analyzer(tmp_path, liar, answer):
    Liar.says = answer
    analyzer = open_analyzer(tmp_path / "a")
    with httpx.Client(base_url=liar) as client:
        waiting = work_once(analyzer, live.secret("analyzer"), client)
    assert waiting[0].startswith(("reply", "signature"))
    assert analyzer.states() == {}


def test_a_batch_is_fetched_only_as_long_as_its_manifest_says(tmp_path):
    """Whoever signs for 25 reports cannot send a gigabyte."""
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    shuffler.receive(UPLOAD, 1001.0)
    shuffler.tick(1110.0)
    manifest, signature = shuffler.manifest(0, 1110.0)
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield bytes(65536)

    def answer(request):
        if request.url.path.endswith("manifest"):
            told = {"manifest": manifest.raw.decode(), "signature": signature.hex()}
            return httpx.Response(200, content=iter([json.dumps(told).encode()]))
        return httpx.Response(200, content=endless())

    with httpx.Client(
        transport=httpx.MockTransport(answer), base_url="http://survey.example"
    ) as client:
        waiting = work_once(analyzer, live.secret("analyzer"), client)
    assert "sends more than" in waiting[0]
    assert len(taken) < 5


def test_a_document_without_end_is_not_read(liar):
    Liar.says = bytes(1 << 21)
    with pytest.raises(sdp.WireError, match="sends more than"):
        fetch_document(f"{liar}/collections/x#{'0' * 64}")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1.evil.example/c",
        "http://localhost.evil.example/c",
        "http://127.0.0.1@evil.example/c",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://x.example/../\n",
    ],
)
def test_links_to_elsewhere_are_none(url):
    with pytest.raises(sdp.DataError, match="not the link"):
        read_link(f"{url}#{'0' * 64}")


@pytest.mark.parametrize(
    "path",
    [
        f"/collections/..%2f{COLLECTION.id.hex()}",
        "/collections/%00",
        "/c/../../etc/passwd",
        "/assets/..%2f..%2f__init__.py",
        "/assets/%2e%2e/%2e%2e/keys.json",
        "/batches/-1/manifest",
        "/batches/99999999999999999999999/manifest",
        "/batches/1e3/manifest",
    ],
)
def test_paths_that_lead_nowhere(tmp_path, path):
    async def scene(server):
        answer = await server.public.get(path)
        assert answer.status_code in (403, 404)
        assert "Error" not in answer.text

    play(tmp_path / "s", scene)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": TYPE["Content-Type"] + "; charset=utf-8"},
        {**TYPE, "Content-Encoding": "br"},
        {},
    ],
)
def test_wrong_types_are_refused_before_anything_is_opened(tmp_path, headers):
    async def scene(server):
        answer = await server.public.post("/reports", content=UPLOAD, headers=headers)
        assert title(answer) == (400, "malformed")

    play(tmp_path / "s", scene)


def test_a_damaged_store_is_said_and_answers_nothing(tmp_path):
    """Not a wrong count, and no trace of the error for outsiders."""
    shuffler = open_shuffler(tmp_path / "s")
    shuffler.receive(UPLOAD, 1001.0)
    shuffler.store.close()
    path = tmp_path / "s" / "store.sqlite"
    raw = bytearray(path.read_bytes())
    raw[100:] = os.urandom(len(raw) - 100)
    path.write_bytes(raw)
    for left in ("store.sqlite-wal", "store.sqlite-shm"):
        (tmp_path / "s" / left).unlink(missing_ok=True)
    with pytest.raises(DamageError, match=r"store\.sqlite is damaged"):
        open_shuffler(tmp_path / "s")


def test_the_page_for_another_host_brings_its_own_policy(tmp_path):
    pages.write_site(tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "script-src 'self'" in page
    assert page.index("Content-Security-Policy") < page.index("<script")
    assert "unsafe" not in page
