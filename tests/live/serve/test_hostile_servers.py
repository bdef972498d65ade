"""Servers and documents that want a device to run out of memory, or of time."""

import gzip
import hashlib
import json
import sys
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.device import Device, read_reply
from shuffledp.live.serve import client
from shuffledp.live.wire.document import Collection

MOST = 30_000_000  # bytes that a device may need, much below 100 MB


@contextmanager
def serving(answer):
    """A server on loopback; `answer` writes whatever it likes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if "Content-Length" in self.headers:
                self.rfile.read(int(self.headers["Content-Length"]))
            with suppress(OSError):  # the device hangs up
                answer(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@cache
def make_bomb():
    """50 MB of zeros, compressed twice."""
    return gzip.compress(gzip.compress(bytes(50_000_000)))


def send_bomb(request):
    body = make_bomb()
    request.send_response(200)
    request.send_header("Content-Encoding", "gzip, gzip")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def send_for_ever(status):
    def answer(request):
        request.send_response(status)
        request.end_headers()
        for _ in range(10_000):  # 650 MB, if nobody hangs up
            request.wfile.write(b" " * 65_536)

    return answer


@contextmanager
def little_memory(most=MOST):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("answer", [send_bomb, send_for_ever(200), send_for_ever(500)])
def test_whatever_a_server_sends_a_device_hangs_up(answer):
    assert len(make_bomb()) < 10_000  # made before anybody counts bytes
    began = time.monotonic()
    with serving(answer) as url, little_memory():
        with pytest.raises(sdp.WireError, match=r"compressed|more than"):
            client.fetch_document(f"{url}/collections/{64 * 'a'}#{64 * 'a'}")
        collection = live.make_collection(url=url)
        with pytest.raises(sdp.WireError, match=r"compressed|more than"):
            client.send_upload(collection, collection.id, 1)
        with client.connect(url) as connection:
            with pytest.raises(sdp.WireError, match=r"compressed|more than"):
                client.ask_manifest(connection, collection, 0, live.secret("analyzer"))
            with pytest.raises(sdp.WireError, match=r"compressed|more than"):
                client.read_at_most(connection, "/batches/0", 100_000)
    assert time.monotonic() - began < 20


def test_a_server_that_drips_is_given_up(monkeypatch):
    def drip(request):
        request.send_response(200)
        request.end_headers()
        for _ in range(1000):
            request.wfile.write(b" ")
            time.sleep(0.02)

    monkeypatch.setattr(client, "_PATIENCE", 0.3)
    monkeypatch.setattr(client, "_SLOWEST", 1e9)
    with serving(drip) as url, client.connect(url) as connection:
        began = time.monotonic()
        with pytest.raises(sdp.WireError, match="too slowly"):
            client.ask(connection, "GET", "/", most=10_000)
        assert time.monotonic() - began < 5


def change(**changes):
    content = json.loads(live.as_format_1(live.make_collection().raw))
    for path, value in changes.items():
        *parts, last = path.split("__")
        place = content
        for part in parts:
            place = place[part]
        place[last] = value
    return json.dumps(content, separators=(",", ":")).encode()


def test_256_keys_of_all_windows():
    """29 kB that were a list of 25 million windows."""
    keys = [
        {"id": i, "first": 0, "last": 99_999, "public": hashlib.sha256(bytes([i])).hexdigest()}
        for i in range(256)
    ]
    raw = change(windows__count=100_000, shuffler__keys=keys)
    with little_memory(), pytest.raises(sdp.WireError, match="cover each window once"):
        Collection.read(raw)


def test_a_promise_that_takes_minutes_to_check():
    key = {**json.loads(live.make_collection().raw)["shufflers"][0]["keys"][0], "last": 99_999}
    raw = change(windows__count=100_000, promise__reports_per_device=100_000, shuffler__keys=[key])
    collection = Collection.read(raw)
    began = time.process_time()
    with little_memory(), pytest.raises(sdp.UnsupportedError, match="more than 366 answers"):
        collection.verify()
    assert time.process_time() - began < 1


def many_laws(count=3):
    """Questions with laws of their own, which are composed: each costs a second of CPU time, 24 cost 27 s."""
    one = json.loads(live.as_format_1(live.make_collection().raw))["questions"][1]
    made = [sdp.protocols.rr.make_local(epsilon=0.12 - 0.002 * i) for i in range(count)]
    questions = [
        {**json.loads(json.dumps(_describe(each))), "name": f"q{i}", "text": one["text"]}
        for i, each in enumerate(made)
    ]
    return change(
        questions=questions,
        slots=count,
        promise__epsilon="9",
        promise__delta="0.000001",
        promise__min_batch=30_000,
    )


def _describe(protocol):
    from shuffledp.live.wire.question import Question

    asked = Question(name="q", text="?", task="count", protocol=protocol, labels=("no", "yes"))
    return {
        name: value for name, value in asked.to_dict().items() if name not in ("asked", "noise")
    }


def test_a_promise_that_takes_too_long_is_not_believed(tmp_path, monkeypatch):
    from shuffledp.live import device as devices

    raw = many_laws()
    Collection.read(raw)
    device = Device(tmp_path / "outbox.sqlite")
    monkeypatch.setattr(devices, "MOST_SECONDS", 0.2)
    began = time.process_time()
    with (
        little_memory(100_000_000),  # what is imported for it counts, too
        pytest.raises(sdp.WireError, match=r"takes more than 0\.2 seconds of CPU"),
    ):
        device.check(raw, hashlib.sha256(raw).digest())
    assert time.process_time() - began < 1
    assert sys.getprofile() is None
    monkeypatch.undo()
    assert devices.MOST_SECONDS < 2
    good = live.make_collection().raw
    assert device.check(good, hashlib.sha256(good).digest()).raw == good


def test_errors_within_the_limit_are_their_own(tmp_path):
    from shuffledp.live.device import check_promise

    collection = Collection.read(change(promise__epsilon="0.01"))
    with pytest.raises(sdp.WireError, match=r"promise: with min_batch=20 epsilon is"):
        check_promise(collection)


def test_replies_that_are_nested_or_point_elsewhere():
    deep = b"[" * 16_000
    for raw in (
        deep,
        b'{"accepted":0,"failed":[{"index":-1,"reason":"x"}]}',
        b'{"accepted":0,"failed":[{"index":"0","reason":"x"}]}',
        b'{"accepted":0,"failed":[{"index":true,"reason":"x"}]}',
        b'{"accepted":0,"failed":[{"index":0.0,"reason":"x"}]}',
    ):
        with pytest.raises(sdp.WireError, match="cannot be understood"):
            read_reply(raw, 1)
    assert client._read_problem(500, deep) == ("unreachable", "the server answers 500")


def test_a_batch_beyond_all_bounds_is_not_fetched(tmp_path):
    """A manifest may state 2^40 reports: the analyzer does not even ask for them."""
    from shuffledp.live.serve import analyzer as role
    from shuffledp.live.wire.report import Manifest

    asked = []

    def answer(request):
        asked.append(request.path)
        manifest = Manifest(
            collection_id=collection.id, window=0, reports=2**40, messages=2**41, sha256=bytes(32)
        )
        signature = manifest.sign(live.secret("shuffler")).hex()
        body = json.dumps({"manifest": manifest.raw.decode(), "signature": signature}).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    with serving(answer) as url:
        collection = live.make_collection(url=url)
        from live.test_roles import open_analyzer

        analyzer = open_analyzer(tmp_path / "a", collection)
        with client.connect(url) as connection:
            waiting = role.work_once(analyzer, live.secret("analyzer"), connection)
    assert "the analyzer takes up to" in waiting[0]
    assert {path for path in asked if not path.endswith("manifest")} == set()
