"""A device that sends over a network which fails: what may have arrived is never called refused."""

import asyncio
import socket
import threading
from contextlib import closing
from types import SimpleNamespace

import httpx
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.device import Device, Sending
from shuffledp.live.serve import client
from shuffledp.live.serve.folders import Home
from shuffledp.live.serve.http import read_body
from shuffledp.live.wire.report import sign_fetch

COLLECTION = live.make_collection()
LOST = httpx.ReadError("the connection broke")


@pytest.fixture
def device(tmp_path):
    made = Device(tmp_path / "outbox.sqlite")
    made.answer(COLLECTION, {"way": "bus", "home": "yes"}, 1001.0)
    return made


def play(monkeypatch, *outcomes):
    """The shuffler's outcomes, one for each try; returns the bodies that it got."""
    left, bodies = list(outcomes), []

    def send_upload(collection, body, reports):
        bodies.append(body)
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return [outcome]

    monkeypatch.setattr(client, "send_upload", send_upload)
    monkeypatch.setattr(client.time, "sleep", lambda _: None)
    return bodies


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ([None], Sending.ACKNOWLEDGED),
        (["too_late"], Sending.REFUSED),
        ([LOST, "too_late"], Sending.UNKNOWN),
        ([sdp.WireError("unavailable", "later"), "too_late"], Sending.UNKNOWN),
        (["stale_key", "too_late"], Sending.REFUSED),
        ([LOST, "stale_key", "too_late"], Sending.UNKNOWN),
        ([LOST, LOST, None], Sending.ACKNOWLEDGED),
        ([LOST] * 5, Sending.SENT),
    ],
)
def test_what_became_of_a_report(device, monkeypatch, outcomes, state):
    bodies = play(monkeypatch, *outcomes)
    assert client.send(device, COLLECTION, 0) is state
    assert device.state(COLLECTION, 0) is state
    assert len(bodies) == len(outcomes)


@pytest.mark.parametrize(
    ("outcomes", "waited"),
    [
        (["busy", "too_early", None], [0.2, 0.4]),
        (["stale_key", None], []),
        ([LOST, "busy", None], [0.2, 0.4]),
        (["busy"] * 5, [0.2, 0.4, 0.8, 1.6, 3.2]),
    ],
)
def test_a_shuffler_that_is_busy_is_given_time(device, monkeypatch, outcomes, waited):
    play(monkeypatch, *outcomes)
    seen = []
    monkeypatch.setattr(client.time, "sleep", seen.append)
    client.send(device, COLLECTION, 0)
    assert seen == pytest.approx(waited)


def test_an_unanswered_send_is_remembered_by_the_next_program(device, monkeypatch, tmp_path):
    """The process died, or was stopped, after it had sent."""
    play(monkeypatch, *[LOST] * 5)
    client.send(device, COLLECTION, 0)
    device.close()
    again = Device(tmp_path / "outbox.sqlite")
    play(monkeypatch, "too_late")
    assert client.send(again, COLLECTION, 0) is Sending.UNKNOWN


@pytest.mark.parametrize("outcome", [None, "too_late"])
def test_a_settled_report_and_its_token_are_forgotten(monkeypatch, tmp_path, outcome):
    collection, token = (
        live.make_collection(tokens=True),
        b"a token that nobody else may see, ye"[:32],
    )
    device = Device(tmp_path / "outbox.sqlite")
    device.answer(collection, {"way": "bus", "home": "yes"}, 1001.0, token)
    kept = device._find_kept(collection, 0)
    assert kept.token == token
    play(monkeypatch, outcome)
    client.send(device, collection, 0)
    after = device._find_kept(collection, 0)
    assert (after.inners, after.token) == (b"", b"")
    device.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token not in stored
    assert kept.inners[:40] not in stored


class Streaming:
    """A request whose body comes in pieces without end, and whose length nobody states."""

    def __init__(self, piece):
        self.headers = {}
        self.given = 0
        self._piece = piece

    async def stream(self):
        while True:
            self.given += len(self._piece)
            assert self.given < 10_000, "the body is read without a limit"
            yield self._piece


def test_a_body_of_unknown_length_is_read_up_to_its_limit():
    request = Streaming(b"x" * 100)
    with pytest.raises(sdp.WireError, match="more than 1000 bytes"):
        asyncio.run(read_body(request, 1000))
    assert request.given == 1100


def reply(status=200, content=b"", **headers):
    """A client whose server says this, whatever is asked; and what was asked."""
    asked = []

    def answer(request):
        asked.append(request)
        return httpx.Response(status, headers=headers, content=iter([content]))

    transport = httpx.MockTransport(answer)
    return httpx.Client(transport=transport, base_url="http://s.example"), asked


def test_a_reply_may_be_as_long_as_it_should_and_an_error_is_short():
    for size, most, status in ((1000, 1000, 200), (1 << 14, 10**6, 500), (100, 100, 404)):
        web, _ = reply(status, b"x" * size)
        assert client.ask(web, "GET", "/x", most=most) == (status, b"x" * size)
    for size, most, status in ((1001, 1000, 200), ((1 << 14) + 1, 10**6, 300), (101, 100, 404)):
        web, _ = reply(status, b"x" * size)
        limit = min(most, 1 << 14) if status >= 300 else most
        with pytest.raises(sdp.WireError, match=f"/x sends more than {limit:,} bytes") as told:
            client.ask(web, "GET", "/x", most=most)
        assert told.value.reason == "unreachable"
    web, _ = reply(200, b"", **{"content-encoding": "gzip"})
    with pytest.raises(sdp.WireError, match="sends something compressed"):
        client.ask(web, "GET", "/x", most=10)


def test_a_reply_that_drips_is_ended(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(client.time, "monotonic", lambda: now[0])

    def drip():
        for _ in range(4):
            now[0] += 40.0
            yield b"x"

    def answer(_):
        return httpx.Response(200, content=drip())

    web = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://s.example")
    with pytest.raises(
        sdp.WireError, match="sends too slowly"
    ):  # two minutes, and what it may take
        client.ask(web, "GET", "/x", most=10)
    now[0] = 0.0
    assert client.ask(web, "GET", "/x", most=4_100_000) == (200, b"xxxx")


def test_what_is_sent_and_what_is_read_of_the_reply():
    web, asked = reply(200, b'{"accepted":1,"failed":[]}')
    assert client.send_upload(COLLECTION, b"body", 1, web) == [None]
    assert not web.is_closed
    (request,) = asked
    assert (request.method, request.url.path, request.content) == ("POST", "/reports", b"body")
    assert request.headers["content-type"] == client.MEDIA_TYPE
    web, _ = reply(429, b'{"title":"busy","detail":"come back"}')
    with pytest.raises(sdp.WireError, match="come back") as told:
        client.send_upload(COLLECTION, b"body", 1, web)
    assert told.value.reason == "busy"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"title":"x"}', b"3", b"[" * 100_000, b"\xff"]
)
def test_an_error_that_makes_no_sense_is_told_by_its_number(body):
    assert client._read_problem(502, body) == ("unreachable", "the server answers 502")


def test_an_error_is_cut_to_what_people_read():
    said = client._read_problem(
        400, b'{"title":"' + b"t" * 99 + b'","detail":"' + b"d" * 999 + b'"}'
    )
    assert said == ("t" * 60, "d" * 300)


def test_a_manifest_is_asked_for_with_a_signature():
    web, asked = reply(200, b'{"manifest":"{}","signature":"00ff"}')
    found = client.ask_manifest(web, COLLECTION, 1, live.secret("analyzer"))
    assert found[:2] == (b"{}", b"\x00\xff")
    (request,) = asked
    assert request.url.path == "/batches/1/manifest"
    assert request.headers["authorization"] == found[2]["Authorization"]
    signature = sign_fetch(COLLECTION, 1, live.secret("analyzer")).hex()
    assert found[2] == {"Authorization": f"Signature {signature}"}
    for body in (b"[]", b'{"manifest":1,"signature":"00"}', b'{"manifest":"","signature":"x"}'):
        with pytest.raises(sdp.WireError, match="manifest cannot be understood"):
            client.ask_manifest(reply(200, body)[0], COLLECTION, 1, live.secret("analyzer"))


@pytest.mark.parametrize("link", ["", "http://127.0.0.1/c", "http://127.0.0.1/c#aa", f"ftp://x#{64 * 'a'}", f"http://127.0.0.1/c#{64 * 'x'}"])  # fmt: skip
def test_what_is_not_the_link_of_a_collection(link):
    with pytest.raises(sdp.DataError, match="is not the link of a collection"):
        client.read_link(link)


# What the client leaves of a connection that failed is closed by the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_shuffler_that_was_killed_leaves_a_socket_and_is_not_running(tmp_path):
    home = Home(tmp_path)
    home.shuffler.mkdir()
    (home.shuffler / "admin-token").write_text("word")
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(home.socket))
    with pytest.raises(sdp.DataError, match="is not running on this machine"):
        client.Operator(home).status()
    home.socket.unlink()
    with closing(socket.socket(socket.AF_UNIX)) as rude:
        rude.bind(str(home.socket))
        rude.listen()
        hanging_up = threading.Thread(target=lambda: rude.accept()[0].close())
        hanging_up.start()
        with pytest.raises(sdp.DataError, match=r"the shuffler of .* does not answer"):
            client.Operator(home).status()
        hanging_up.join()


@pytest.mark.parametrize("origin", ["https://a.example", "https://a.example/one-operator"])
def test_the_link_of_a_page_leads_to_its_document(origin):
    identity = 32 * "ab"
    document = f"{origin}/collections/{identity}"
    for link in (
        f"{document}#{identity}",
        f"{origin}/c/{identity}#{identity}",
        f"https://b.example/x/index.html#link={document}#{identity}",
    ):
        assert client.read_link(link) == (document, bytes.fromhex(identity))


def test_a_client_asks_nobody_else():
    with client.connect("http://127.0.0.1:9") as web:
        assert (web.follow_redirects, web.trust_env) == (False, False)
        assert web.headers["accept-encoding"] == "identity"
        assert web.timeout.read == web.timeout.connect == 120.0


def test_an_operator_asks_on_the_socket_with_the_token(tmp_path, monkeypatch):
    home = SimpleNamespace(socket=tmp_path / "s", shuffler=tmp_path, path=tmp_path)
    operator = client.Operator(home)
    with pytest.raises(sdp.DataError, match="is not running on this machine"):
        operator.status()
    home.socket.touch()
    (tmp_path / "admin-token").write_text("word")
    with operator._client() as web:
        assert web.headers["authorization"] == "Bearer word"
        assert (str(web.base_url), web.trust_env) == ("http://localhost", False)
    said = {
        ("GET", "/status"): {"accepted": 3},
        ("POST", "/close"): {"windows": []},
        ("POST", "/clock"): {"now": 5},
        ("POST", "/tokens"): {},
        ("POST", "/tokens/count"): {"unused": 1, "spent": 2, "unknown": 3},
    }
    asked = []

    def answer(request):
        asked.append((request.method, request.url.path, request.content))
        if request.url.path == "/metrics":
            return httpx.Response(503, json={"title": "unavailable", "detail": "no store"})
        return httpx.Response(200, json=said[request.method, request.url.path])

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(
        operator, "_client", lambda: httpx.Client(transport=transport, base_url="http://localhost")
    )
    monkeypatch.setattr("shuffledp.live.serve.shuffler.MOST_TOKENS", 2)
    assert operator.status() == {"accepted": 3}
    assert operator.close() == {"windows": []}
    assert operator.accept_clock() == 5.0
    with pytest.raises(sdp.WireError, match="no store"):
        operator.metrics()
    asked.clear()
    hashes = [bytes([place]) * 32 for place in range(5)]
    operator.issue_tokens(hashes)
    parts = [b"".join(hashes[:2]), b"".join(hashes[2:4]), hashes[4]]
    assert asked == [("POST", "/tokens", part) for part in parts]
    assert operator.count_tokens(hashes) == {"unused": 3, "spent": 6, "unknown": 9}
