"""What a role writes about itself: tokens, the address for monitoring, refusals, failures and metrics, to the letter."""

import asyncio
import json
import secrets
import stat
from collections import Counter

import httpx
import pytest

import shuffledp as sdp
from shuffledp.live.serve import journal as journal_module
from shuffledp.live.serve.analyzer import Contact, write_metrics
from shuffledp.live.serve.journal import (
    Health,
    Journal,
    bind_place,
    keep_token,
    make_metrics_app,
    write_counts,
    write_health,
)


@pytest.fixture
def lines():
    return []


@pytest.fixture
def journal(lines):
    return Journal(
        "analyzer", write=lambda line: lines.append(json.loads(line)), clock=lambda: 90_061.9
    )


NOON = {"time": "1970-01-02T01:01:01Z", "role": "analyzer"}


def test_a_token_is_made_once_and_kept_for_its_owner_alone(tmp_path, journal, lines):
    tmp_path.chmod(0o700)
    path = tmp_path / "admin-token"
    made = keep_token(path, journal)
    assert len(bytes.fromhex(made)) == 16
    assert path.read_text() == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keep_token(path, journal) == made
    path.write_text("  of the operator\n")
    assert keep_token(path, journal) == "of the operator"
    path.chmod(0o640)
    with pytest.raises(sdp.DataError, match=f"chmod 600 {path}"):
        keep_token(path, journal)
    assert lines == []
    assert keep_token(tmp_path / "other", journal) != made


def test_shufflers_that_start_at_the_same_moment_have_one_token(
    tmp_path, journal, lines, monkeypatch
):
    """The operator has one file for all of them: whoever had another token would never obey."""
    tmp_path.chmod(0o700)
    path, faster = tmp_path / "admin-token", []
    draw = secrets.token_hex

    def be_overtaken(size):
        if not faster:
            faster.append(None)  # the other one is not overtaken
            faster.append(keep_token(path, journal))
        return draw(size)

    monkeypatch.setattr(journal_module.randomness, "token_hex", be_overtaken)
    mine = keep_token(path, journal)
    assert mine == faster[1] == path.read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["admin-token"]
    assert lines == []


def test_a_token_that_cannot_be_written_serves_until_the_end(tmp_path, journal, lines):
    made = keep_token(tmp_path / "nowhere" / "metrics-token", journal)
    assert len(bytes.fromhex(made)) == 16
    (line,) = lines
    reason = line.pop("reason")
    assert line == {**NOON, "event": "failing", "kind": "store"}
    assert reason.startswith("metrics-token cannot be written: [Errno 2] No such file or directory")


@pytest.mark.parametrize(
    ("said", "host"),
    [("0", "127.0.0.1"), ("127.0.0.1:0", "127.0.0.1"), ("localhost:0", "127.0.0.1")],
)
def test_monitoring_asks_at_a_port_of_this_machine_or_where_it_is_said(said, host):
    with bind_place(said) as place:
        assert place.getsockname()[0] == host
        port = place.getsockname()[1]
        assert port > 0
        with pytest.raises(sdp.DataError, match=rf"^{host}:{port} cannot be listened on: Address"):
            bind_place(f"{host}:{port}")
    with bind_place(f"{port}") as again:
        assert again.getsockname() == ("127.0.0.1", port)


@pytest.mark.parametrize(
    "said", ["65536", "127.0.0.1:65536", "x", "", "80:", "-1", "1e3", "\u0661", "\u00b2"]
)
def test_what_is_no_place_is_refused(said):
    with pytest.raises(sdp.DataError) as told:
        bind_place(said)
    assert str(told.value) == f"metrics={said!r} must be a port or HOST:PORT"


def test_the_largest_port_is_one(monkeypatch):
    asked = []
    monkeypatch.setattr("shuffledp.live.serve.journal.bind", lambda *place: asked.append(place))
    for said in ("65535", "[::1]:9100", "a.example:1"):
        bind_place(said)
    assert asked == [("127.0.0.1", 65535), ("::1", 9100), ("a.example", 1)]


def test_metrics_are_for_whoever_has_the_token():
    async def write():
        return "a 1\n"

    async def ask(path="/metrics", **headers):
        transport = httpx.ASGITransport(make_metrics_app("secret", write))
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as web:
            return await web.get(path, headers=headers)

    told = asyncio.run(ask(authorization="Bearer secret"))
    assert (told.status_code, told.text) == (200, "a 1\n")
    assert told.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for wrong in ({}, {"authorization": "secret"}, {"authorization": "Bearer secrets"}):
        refused = asyncio.run(ask(**wrong))
        assert refused.status_code == 401
        assert refused.json() == {
            "type": "about:blank", "title": "unauthorized", "status": 401,
            "detail": "the bearer token is in the file metrics-token",
        }  # fmt: skip
    assert asyncio.run(ask("/")).status_code == 404


def test_refusals_are_told_once_their_ten_minutes_are_over_and_only_what_is_new(journal, lines):
    told = []
    for refused, uptime in [
        ({}, 700.0),
        ({"too_late": 2, "malformed": 1}, 701.0),
        ({"too_late": 3, "malformed": 1}, 1199.9),
        ({"too_late": 3, "malformed": 1}, 1200.0),
        ({"too_late": 5, "malformed": 1}, 1200.5),
        ({"too_late": 5, "malformed": 1}, 1800.0),
        ({"too_late": 5, "malformed": 1}, 5000.0),
        ({"too_late": 5, "malformed": 2}, 5399.9),
        ({"too_late": 6, "malformed": 2}, 5400.0),
    ]:
        journal.note_refusals(Counter(refused), uptime)
        told.append(len(lines))
    assert [line["reasons"] for line in lines] == [
        {"malformed": 1, "too_late": 3},
        {"too_late": 2},
        {"malformed": 1, "too_late": 1},
    ]
    assert told == [0, 0, 0, 1, 1, 2, 2, 2, 3]
    assert lines[0] == {**NOON, "event": "refused", "reasons": {"malformed": 1, "too_late": 3}}


@pytest.mark.parametrize("moment", [0.0, 1.0, 299.5, 599.5])
def test_the_line_about_a_lone_refusal_does_not_tell_its_moment(moment):
    written = []
    now = 0.0
    journal = Journal("shuffler", write=lambda _: written.append(now), clock=lambda: now)
    for step in range(1300):  # twice a second, as a server does
        now = step / 2
        journal.note_refusals(Counter(token_spent=1) if now >= moment else Counter(), now)
    assert written == [600.0]


def test_a_failure_is_written_once_counted_each_time_and_ends_once(journal, lines):
    health = Health(journal)
    assert (health.sentence, health.kinds) == (None, ())
    assert write_health(health) == ["shuffledp_failing 0"]
    health.fail("store", "the disk is full", uptime=5.0)
    health.fail("store", "the disk is very full", uptime=7.0)
    health.fail("clock", "it goes backwards", uptime=8.0)
    assert health.kinds == ("clock", "store")
    assert health.sentence == "it goes backwards; the disk is very full"
    assert write_health(health) == [
        "shuffledp_failing 1",
        'shuffledp_failures_total{kind="clock"} 1',
        'shuffledp_failures_total{kind="store"} 2',
    ]
    health.mend("seal", uptime=9.0)
    health.mend("clock", uptime=9.0)  # at once
    health.mend("store", uptime=16.9)
    assert health.kinds == ("store",)
    health.mend("store", uptime=17.0)  # ten seconds after it failed last
    health.mend("store", uptime=17.0)
    assert health.sentence is None
    assert write_health(health)[0] == "shuffledp_failing 0"
    assert [
        (each["event"], each["kind"], each.get("reason")) for each in lines
    ] == [
        ("failing", "store", "the disk is full"),
        ("failing", "clock", "it goes backwards"),
        ("mended", "clock", None),
        ("mended", "store", None),
    ]  # fmt: skip


def test_the_analyzer_s_metrics_are_these_lines(journal):
    moment = [100.0]
    contact = Contact(lambda: moment[0])
    health = Health(journal)
    health.fail("work", "no space", uptime=0.0)
    dropped = {0: {"malformed": 2, "replayed": 1}, 1: {"malformed": 3}, 4: {}}

    class Analyzer:
        def states(self):
            return {0: "published", 1: "refused", 4: "published"}

        def count_dropped(self, window):
            return dropped[window]

    def write(waiting):
        return write_metrics(Analyzer(), waiting, health, contact)

    contact.note({2: "the shuffler at http://a.example cannot be reached"})
    assert contact.seconds == -1.0
    lines = [
        'shuffledp_windows{state="published"} 2',
        'shuffledp_windows{state="refused"} 1',
        'shuffledp_messages_dropped_total{reason="malformed"} 5',
        'shuffledp_messages_dropped_total{reason="replayed"} 1',
        "shuffledp_windows_waiting 2",
        "shuffledp_failing 1",
        'shuffledp_failures_total{kind="work"} 1',
        "shuffledp_shuffler_last_contact_seconds -1",
    ]
    assert write({2: "not ready", 3: "too"}) == "\n".join(lines) + "\n"
    contact.note({})
    moment[0] = 102.6
    assert contact.seconds == pytest.approx(2.6)
    lines[4], lines[-1] = "shuffledp_windows_waiting 0", "shuffledp_shuffler_last_contact_seconds 3"
    assert write({}) == "\n".join(lines) + "\n"
    contact.note({2: "not ready", 3: "it cannot be reached"})
    assert contact.seconds == pytest.approx(2.6)
    contact.note({2: "not ready"})
    assert contact.seconds == 0.0
    assert write_counts("x", "y", {}) == []
