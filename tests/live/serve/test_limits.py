"""Small things that used to end in a traceback, or in a server that nobody could reach."""

import asyncio
import csv
import dataclasses
import io
import socket
import time
from types import SimpleNamespace

import pytest
import uvicorn

import live_support as live
import shuffledp as sdp
from live.serve.test_servers import COLLECTION, play, title
from live.test_roles import open_shuffler
from shuffledp.live.results import write_csv
from shuffledp.live.serve.connections import ImpatientProtocol, limit_connections
from shuffledp.live.serve.http import bind
from shuffledp.live.serve.shuffler import ShufflerServer
from shuffledp.live.wire.document import Windows
from shuffledp.live.wire.report import sign_fetch


@pytest.mark.parametrize("window", ["9" * 5000, "-1", "2", "1e3", "00", "\u0661", "x"])
def test_windows_that_there_are_not(tmp_path, window):
    async def scene(server):
        for path in (f"/batches/{window}", f"/batches/{window}/manifest"):
            assert title(await server.public.get(path)) == (404, "unknown_collection")
        signature = sign_fetch(COLLECTION, 0, live.secret("analyzer")).hex()
        header = {"Authorization": f"Signature {signature}"}
        answer = await server.public.get("/batches/0/manifest", headers=header)
        assert title(answer) == (409, "not_ready")

    play(tmp_path / "s", scene)


def test_the_list_of_windows_is_one_question_to_the_store(tmp_path):
    """It used to be one for each window, on the thread that stores reports."""
    windows = Windows(start=0, seconds=1, count=2000, grace=0)
    small = live.make_collection()
    key, pledge = small.shuffler_keys[0], dataclasses.replace(small.pledge, delta=1e-6)
    keys = (sdp.live.wire.document.ShufflerKey(id=0, first=0, last=1999, public=key.public),)
    collection = live.make_collection(windows=windows, shuffler_keys=keys, pledge=pledge)
    shuffler = open_shuffler(tmp_path / "s", collection)
    asked = []
    shuffler.store._db.set_trace_callback(asked.append)
    assert len(shuffler.status(1500.0, operator=False)) == 1501
    assert len(asked) <= 2


def test_a_port_that_is_taken_is_told_in_words():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            sdp.DataError, match=rf"127.0.0.1:{port} cannot be listened on: Address"
        ):
            bind("127.0.0.1", port)


class Line:
    """A connection that does nothing, and remembers that it was hung up on."""

    def __init__(self, protocol):
        self.protocol = protocol
        self.aborted = False

    def abort(self):
        self.aborted = True
        self.protocol.connection_lost(None)


def test_whoever_is_slowest_is_hung_up_on_when_there_are_too_many(monkeypatch):
    """300 slow bodies keep nobody else out: each new connection costs the one that has waited longest."""
    monkeypatch.setattr(ImpatientProtocol, "most", 3)
    monkeypatch.setattr(ImpatientProtocol, "_open", 0)
    monkeypatch.setattr(ImpatientProtocol, "_slow", {})
    parent = ImpatientProtocol.__bases__[0]

    def made(self, transport):
        self.transport = transport

    monkeypatch.setattr(parent, "connection_made", made)
    monkeypatch.setattr(parent, "connection_lost", lambda *_: None)
    monkeypatch.setattr(parent, "on_message_complete", lambda *_: None)

    async def scene():
        lines = []
        for place in range(5):
            one = ImpatientProtocol.__new__(ImpatientProtocol)
            one.loop = asyncio.get_running_loop()
            one.connection_made(Line(one))
            if place == 1:
                one.on_message_complete()  # the second one is quick: it is never hung up on
            lines.append(one.transport)
        assert [line.aborted for line in lines] == [True, False, True, False, False]
        for line in lines:
            if not line.aborted:
                line.abort()
        assert ImpatientProtocol._open == 0

    asyncio.run(scene())


def test_there_are_fewer_connections_than_files():
    import resource

    assert limit_connections() <= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "fitting"),
    [
        (1024, 1 << 20, [(4224, 1 << 20)], 4096),
        (1024, 2000, [(2000, 2000)], 1872),
        (1024, -1, [(4224, -1)], 4096),
        (4224, 1 << 20, [], 4096),
        (4223, 4223, [], 4095),
        (100_000, 1 << 20, [], 4096),
        (-1, -1, [], 4096),
        (144, 144, [], 16),
        (145, 145, [], 17),
        (20, 20, [], 16),
    ],
)
def test_as_many_connections_as_files_can_be_had(monkeypatch, soft, hard, asked, fitting):
    """128 files are kept for everything else; -1 is no limit."""
    import resource

    limits, seen = [soft, hard], []

    def set_limits(which, pair):
        assert which == resource.RLIMIT_NOFILE
        seen.append(pair)
        limits[:] = pair

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", set_limits)
    assert (limit_connections(), seen) == (fitting, asked)


def test_a_limit_that_cannot_be_raised_is_kept(monkeypatch):
    import resource

    def refuse(*_):
        raise ValueError("not allowed")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 20))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert limit_connections() == 1024 - 128


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_a_word_is_no_formula_in_a_spreadsheet(label):
    row = {"label": label, "value": 1.0, "stderr": 1.0, "low": 0.0, "high": 2.0}
    result = {"window": 0, "questions": {"word": {"people": 5, "estimate": [row]}}}
    (_, line) = csv.reader(io.StringIO(write_csv([result])))
    assert line[4] == f"'{label}"


def test_uvicorn_still_has_what_we_override():
    """A method that it renamed would not be called any more, and slow connections would live for ever."""
    (parent,) = ImpatientProtocol.__bases__
    ours = {name for name, each in vars(ImpatientProtocol).items() if callable(each)}
    called = {name for name in ours if not name.startswith("_")}
    assert called == {
        "connection_made", "connection_lost", "data_received", "on_message_begin", "on_headers_complete",
        "on_message_complete", "on_response_complete", "pause_writing", "resume_writing",
    }  # fmt: skip
    assert called <= set(vars(parent))
    assert "capture_signals" in vars(uvicorn.Server)


@pytest.fixture
def open_connection(monkeypatch):
    """Make connections without a server; says what happened to them, and to their timers."""
    (parent,) = ImpatientProtocol.__bases__
    for name in ("connection_made", "connection_lost", "data_received", "on_message_begin"):
        monkeypatch.setattr(parent, name, lambda *_: None)
    for name in ("on_headers_complete", "on_message_complete", "on_response_complete", "pause_writing",
                 "resume_writing"):  # fmt: skip
        monkeypatch.setattr(parent, name, lambda *_: None)
    monkeypatch.setattr(ImpatientProtocol, "_open", 0)
    monkeypatch.setattr(ImpatientProtocol, "_slow", {})

    def open_one():
        events = []

        def call_later(seconds, call):
            events.append(seconds)
            made.time_out = call
            return SimpleNamespace(cancel=lambda: events.append("cancelled"))

        class Connection(ImpatientProtocol):
            def __init__(self):
                self.cycle = SimpleNamespace(response_complete=True)
                self.waits = 0  # bytes of answers that nobody has read
                self.transport = SimpleNamespace(
                    close=lambda: events.append("closed"),
                    abort=lambda: events.append("aborted"),
                    get_write_buffer_size=lambda: self.waits,
                )
                self.loop = SimpleNamespace(call_later=call_later)

        made = Connection()
        made.connection_made(None)
        return made, events

    return open_one


def test_a_head_has_64_kib_from_the_first_byte_on(open_connection):
    one, events = open_connection()
    one.data_received(bytes(1 << 15))
    one.data_received(bytes(1 << 15))
    assert events == [30.0]
    one.data_received(b"x")
    assert events == [30.0, "closed"]
    one, events = open_connection()
    for _ in range(3):  # requests one after the other
        one.on_message_begin()
        one.data_received(bytes(1 << 16))
        one.on_headers_complete()
        one.data_received(bytes(1 << 20))  # the body has a limit of its own
        one.on_message_complete()
    assert "closed" not in events
    one.on_message_begin()
    one.data_received(bytes((1 << 16) + 1))
    assert events[-1] == "closed"


def test_a_request_has_half_a_minute(open_connection):
    one, events = open_connection()
    one.on_message_begin()
    assert events == [30.0], "the time runs from the start of the connection"
    one.on_message_complete()
    assert events == [30.0, "cancelled"]
    one.on_message_begin()
    one.time_out()
    assert events == [30.0, "cancelled", 30.0, "closed"]
    one.connection_lost(None)
    assert events[4:] == []
    assert (ImpatientProtocol._open, ImpatientProtocol._slow) == (0, {})


def test_the_longest_slow_connection_gives_way(open_connection, monkeypatch):
    monkeypatch.setattr(ImpatientProtocol, "most", 3)
    made = [open_connection() for _ in range(3)]
    made[0][0].on_message_complete()  # it waits for nothing
    assert [events[1:] for _, events in made] == [["cancelled"], [], []]
    made.append(open_connection())
    assert [events[1:] for _, events in made] == [["cancelled"], ["aborted"], [], []]
    made[1][0].connection_lost(None)
    made[2][0].connection_lost(None)
    assert ImpatientProtocol._open == 2
    assert [*ImpatientProtocol._slow] == [made[3][0]]


def test_an_answer_is_read_within_half_a_minute(open_connection):
    def ask():
        made, events = open_connection()
        made.on_message_complete()
        del events[:]
        return made, events

    one, events = ask()
    one.on_response_complete()
    assert events == [], "all of it is on its way"
    one.waits = 1
    one.on_response_complete()
    one.time_out()
    assert events == [30.0, "aborted"]
    one, events = ask()
    one.waits = 1
    one.on_response_complete()
    one.waits = 0  # read, though nobody said so
    one.time_out()
    assert events == [30.0]
    one, events = ask()
    one.pause_writing()
    one.resume_writing()
    assert events == [30.0, "cancelled"]
    assert one not in ImpatientProtocol._slow
    one.pause_writing()
    assert one in ImpatientProtocol._slow
    one.waits = 1
    one.on_message_begin()  # whoever asks for more has not read what there is
    one.on_message_complete()
    assert events == [30.0, "cancelled", 30.0, 30.0, "cancelled"]
    assert one in ImpatientProtocol._slow
    one.connection_lost(None)
    assert events[5:] == ["cancelled"]
    one, events = ask()
    one.waits = 1
    one.on_response_complete()
    one.waits = 0
    one.on_message_begin()
    assert events == [30.0, "cancelled", 30.0], "the next request has half a minute of its own"
    one.connection_lost(None)


def test_a_long_answer_that_is_read_slowly_is_read_to_its_end(open_connection):
    one, events = open_connection()
    one.on_message_complete()
    del events[:]
    one.waits = 1_000_000
    one.pause_writing()
    for _ in range(3):
        one.waits -= 1 << 14
        one.time_out()
    assert events == [30.0] * 4
    assert one in ImpatientProtocol._slow
    one.waits -= (1 << 14) - 1  # as good as nothing
    one.time_out()
    assert events[4:] == ["aborted"]
    one.connection_lost(None)
    assert one not in ImpatientProtocol._slow


def test_results_of_some_megabytes_take_longer_than_half_a_minute(monkeypatch):
    monkeypatch.setattr("shuffledp.live.serve.connections._PATIENCE", 1.0)
    monkeypatch.setattr(ImpatientProtocol, "_open", 0)
    monkeypatch.setattr(ImpatientProtocol, "_slow", {})
    size = 20_000_000

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    def read(place):
        found = 0
        with socket.create_connection(place.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            while piece := client.recv(1_000_000, socket.MSG_WAITALL):
                found += len(piece)
                time.sleep(0.1)
        return found

    async def scene():
        place = bind("127.0.0.1", 0)
        how = uvicorn.Config(
            app, http=ImpatientProtocol, ws="none", lifespan="off", log_level="error"
        )
        server = uvicorn.Server(how)
        running = asyncio.create_task(server.serve([place]))
        found = await asyncio.to_thread(read, place)
        server.should_exit = True
        await running
        return found

    assert asyncio.run(scene()) > size


def test_whoever_reads_nothing_gives_way_to_others(open_connection, monkeypatch):
    monkeypatch.setattr(ImpatientProtocol, "most", 2)
    idle, stuck = open_connection(), open_connection()
    for made, _ in (idle, stuck):
        made.on_message_complete()
    stuck[0].pause_writing()
    open_connection()
    assert (idle[1][-1], stuck[1][-1]) == ("cancelled", "aborted")


def test_hashes_of_tokens_come_in_one_request_of_a_limited_size(monkeypatch):
    asked = []

    async def read(request, most):
        asked.append(most)
        return request

    monkeypatch.setattr("shuffledp.live.serve.shuffler.read_body", read)

    def read_hashes(body, tokens=True):
        collection = SimpleNamespace(tokens=tokens)
        server = SimpleNamespace(shuffler=SimpleNamespace(collection=collection))
        return asyncio.run(ShufflerServer._read_hashes(server, body))

    one, two = bytes(32), bytes(range(32))
    assert read_hashes(one) == [one]
    assert read_hashes(one + two) == [one, two]
    for body in (b"", one[1:], one + b"x"):
        with pytest.raises(sdp.WireError, match="the hashes of tokens have 32 bytes each"):
            read_hashes(body)
    with pytest.raises(sdp.WireError, match="this collection takes no tokens"):
        read_hashes(one, tokens=False)
    assert set(asked) == {3_200_000}
