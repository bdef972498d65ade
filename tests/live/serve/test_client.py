"""A device that sends over a network which fails: what may have arrived is never called refused."""

import asyncio

import httpx
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.device import Device, Sending
from shuffledp.live.serve import client
from shuffledp.live.serve.http import read_body

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
