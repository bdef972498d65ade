"""How servers listen: they write no line about anybody, say nothing of themselves, and one signal ends them all."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette

import shuffledp as sdp
from shuffledp.core.errors import WireError
from shuffledp.live.serve import http
from shuffledp.live.serve.connections import ImpatientProtocol, limit_connections
from shuffledp.live.serve.http import Certificate, bind, listen, problem, read_body, run_loop


@pytest.fixture
def served(monkeypatch):
    """Servers that are asked to serve, in place of serving: they wait until they are to end."""
    found = []

    async def serve(self, sockets=None):
        found.append((self, sockets))
        with self.capture_signals():
            for _ in range(500):
                if self.should_exit:
                    return
                await asyncio.sleep(0.01)
        raise AssertionError("nobody ended it")

    monkeypatch.setattr(uvicorn.Server, "serve", serve)
    monkeypatch.setattr(uvicorn.Config, "load", lambda _: None)
    monkeypatch.setattr(ImpatientProtocol, "most", 1)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_each_place_has_its_own_server_and_one_signal_ends_all(served, tmp_path, number):
    apps = [Starlette() for _ in range(3)]
    certificate = Certificate(chain=Path("c.pem"), key=Path("k.pem"))

    async def scene(one, two):
        places = zip(apps, (one, tmp_path / "admin.sock", two), strict=True)
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, os.kill, os.getpid(), number)
        await listen(*places, guarded={two: certificate})

    with socket.socket() as one, socket.socket() as two:
        asyncio.run(scene(one, two))
        assert [sockets for _, sockets in served] == [[one], None, [two]]
    assert ImpatientProtocol.most == limit_connections()
    for (server, _), app in zip(served, apps, strict=True):
        config = server.config
        assert config.app is app
        assert (config.access_log, config.log_level) == (False, "error")  # no addresses of people
        assert (config.server_header, config.date_header) == (False, False)
        assert (config.http, config.ws) == (ImpatientProtocol, "none")
        assert (config.timeout_keep_alive, config.timeout_graceful_shutdown) == (30, 5)
    assert [server.config.uds for server, _ in served] == [None, str(tmp_path / "admin.sock"), None]
    files = [(server.config.ssl_certfile, server.config.ssl_keyfile) for server, _ in served]
    assert files == [(None, None), (None, None), ("c.pem", "k.pem")]


def test_work_is_run_to_its_end():
    done = []

    async def work():
        await asyncio.sleep(0)
        done.append("it")

    run_loop(work())
    assert done == ["it"]


def test_a_socket_listens_where_it_was_said():
    for host in ("127.0.0.1", "::1"):
        try:
            place = bind(host, 0)
        except http.DataError:
            assert host == "::1"  # a machine without it
            continue
        with place:
            assert place.getsockname()[0] == host
            assert place.family == (socket.AF_INET6 if host == "::1" else socket.AF_INET)
            with socket.create_connection((host, place.getsockname()[1]), timeout=5):
                pass


class Asked:
    """A request with these headers, whose body comes in these pieces."""

    def __init__(self, *pieces, **headers):
        self.pieces = pieces
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def stream(self):
        for each in self.pieces:
            yield each


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked(), b""),
        (Asked(b"ab", b"", b"cd", b"e"), b"abcde"),
        (Asked(b"abcde", content_length="5"), b"abcde"),
        (Asked(b"abcdef"), "the body has more than 5 bytes"),
        (Asked(b"abc", b"def"), "the body has more than 5 bytes"),
        (Asked(content_length="6"), "the body has more than 5 bytes"),
        (Asked(content_length="six"), "the length of the body is not a number"),
        (Asked(b"a", content_encoding="gzip"), "uploads are not compressed"),
    ],
)
def test_a_body_is_read_up_to_its_limit(asked, said):
    if isinstance(said, bytes):
        assert asyncio.run(read_body(asked, 5)) == said
        return
    with pytest.raises(WireError) as told:
        asyncio.run(read_body(asked, 5))
    assert (told.value.reason, told.value.sentence) == ("malformed", said)


@pytest.mark.parametrize(
    ("status", "retry"),
    [(400, None), (428, None), (429, "1"), (430, None), (503, "1"), (500, None)],
)
def test_a_problem_says_what_it_is_and_perhaps_where(status, retry):
    plain, placed = problem(status, "a", "b"), problem(status, "a", "b", field="people")
    start = f'{{"type":"about:blank","title":"a","status":{status},"detail":"b"'
    assert plain.body.decode() == start + "}"
    assert placed.body.decode() == start + ',"field":"people"}'
    for each in (plain, placed):
        assert (each.status_code, each.media_type) == (status, "application/problem+json")
        assert each.headers.get("retry-after") == retry
        assert each.headers["access-control-allow-origin"] == "*"
        assert each.headers["cache-control"] == "no-store"


def test_a_body_that_ends_early_is_none():
    from starlette.requests import ClientDisconnect

    class Gone(Asked):
        async def stream(self):
            yield b"ab"
            raise ClientDisconnect

    with pytest.raises(WireError, match=r"^malformed: the body ended early$"):
        asyncio.run(read_body(Gone(), 5))


def test_what_is_missing_for_servers_is_named(monkeypatch):
    http.require_serve()
    for name in ("httptools", "httpx", "starlette", "uvicorn"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, name, None)
            with pytest.raises(sdp.UnsupportedError) as told:
                http.require_serve()
        said = f"live collections need {name}: install the extra shuffledp[serve]"
        assert str(told.value) == said
