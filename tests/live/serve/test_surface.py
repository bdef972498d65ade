"""Everything the servers answer, from outside: statuses, headers and bodies of every route, and limits at equality."""

import asyncio
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import live_support as live
import shuffledp as sdp
from live.serve.test_servers import COLLECTION, REPORTS, TYPE, UPLOAD, client, play, title
from live.test_roles import fill, hand_over, open_analyzer, open_shuffler
from shuffledp.live.results import describe_collection
from shuffledp.live.serve import operator
from shuffledp.live.serve.analyzer import make_app
from shuffledp.live.serve.http import host_of, problem
from shuffledp.live.serve.journal import Health, Journal
from shuffledp.live.serve.operator import Desk, make_desk_app
from shuffledp.live.serve.shuffler import ABSENCE, JUMP, AwayStore, Buckets, Watch, _say_time
from shuffledp.live.wire.report import join_upload, sign_fetch

ID = COLLECTION.id.hex()
WORD = {"Authorization": "Bearer word"}
JSON, HTML, TEXT = "application/json", "text/html; charset=utf-8", "text/plain; charset=utf-8"
PUBLIC = {
    "/collections": (200, JSON, True),
    f"/collections/{ID}": (200, JSON, True),
    f"/c/{ID}": (200, HTML, False),
    f"/c/{ID}/privacy": (200, HTML, False),
    "/windows": (200, JSON, True),
    "/healthz": (200, TEXT, False),
    "/collections/00": (404, "application/problem+json", True),
    "/c/00": (404, "application/problem+json", True),
    "/c/00/privacy": (404, "application/problem+json", True),
    "/batches/0": (403, "application/problem+json", True),
    "/batches/2": (404, "application/problem+json", True),
    "/batches/-1": (404, "application/problem+json", True),
    "/batches/00/manifest": (404, "application/problem+json", True),
}


def test_every_public_route_with_its_status_type_and_headers(tmp_path):
    async def scene(server):
        for mount in ("", "/one-operator"):
            for path, (status, kind, shared) in PUBLIC.items():
                answer = await server.public.get(mount + path)
                assert (answer.status_code, answer.headers["content-type"]) == (status, kind), path
                assert (answer.headers.get("access-control-allow-origin") == "*") == shared, path
                if shared:
                    assert answer.headers["cache-control"] == "no-store"
                if kind == HTML:
                    assert "default-src 'none'" in answer.headers["content-security-policy"], path
                    assert answer.headers["referrer-policy"] == "no-referrer"
                if status >= 400:
                    told = answer.json()
                    assert set(told) == {"type", "title", "status", "detail"}
                    assert (told["type"], told["status"]) == ("about:blank", status)
                    assert told["detail"]
        listed = (await server.public.get("/collections")).json()
        assert listed == {"collections": [{"id": ID, "title": "A test"}]}
        windows = (await server.public.get("/windows")).json()
        assert windows == {"windows": [{"window": 0, "state": "open"}], "results": None}
        asked = await server.public.options("/reports")
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-methods"] == "POST"
        assert asked.headers["access-control-allow-headers"] == "content-type"
        assert asked.headers["access-control-allow-origin"] == "*"
        for method, path in (
            ("GET", "/reports"),
            ("POST", "/windows"),
            ("GET", "/batches/0/receipt"),
        ):
            assert (await server.public.request(method, path)).status_code == 405
        assert (await server.public.get("/healthz")).text == "ok\n"
        # Each refusal was counted, by its reason, for the operator.
        assert server.server._requests == {"unknown_collection": 2 * 6, "signature": 2}

    play(tmp_path / "s", scene)


def test_what_the_operator_is_told(tmp_path):
    async def scene(server):
        get, post = server.admin.get, server.admin.post
        await server.public.post("/reports", content=UPLOAD, headers=TYPE)
        again = join_upload(COLLECTION, [REPORTS[0], REPORTS[1][:-1] + b"x"])
        assert (await server.public.post("/reports", content=again, headers=TYPE)).json() == {
            "accepted": 1, "failed": [{"index": 1, "reason": "malformed"}],
        }  # fmt: skip
        status = (await get("/status", headers=WORD)).json()
        assert status == {
            "collection": ID,
            "accepted": 26,
            "rejected": {"malformed": 1},
            "requests_refused": {},
            "windows": [{"window": 0, "state": "open", "reports": 25}],
            "failing": None,
            "analyzer_seen_seconds_ago": None,
        }
        mine = sign_fetch(COLLECTION, 0, live.secret("analyzer")).hex()
        await server.public.get("/batches/0", headers={"Authorization": f"Signature {mine}"})
        await server.public.get("/batches/0", headers={"Authorization": f"Other {mine}"})
        server.clock.now += 2.5
        status = (await get("/status", headers=WORD)).json()
        assert status["analyzer_seen_seconds_ago"] == 2.5
        assert status["requests_refused"] == {"not_ready": 1, "signature": 1}
        metrics = (await get("/metrics", headers=WORD)).text.splitlines()
        for line in (
            "shuffledp_reports_accepted_total 26",
            'shuffledp_reports_rejected_total{reason="malformed"} 1',
            'shuffledp_requests_refused_total{reason="not_ready"} 1',
            'shuffledp_windows{state="open"} 1',
            "shuffledp_oldest_batch_seconds 0",
            "shuffledp_analyzer_last_contact_seconds 2",
        ):
            assert line in metrics
        assert (await get("/healthz")).text == "ok\n"
        for path in ("/close", "/clock", "/tokens", "/tokens/count"):
            assert (await get(path, headers=WORD)).status_code == 405
            assert title(await post(path)) == (401, "unauthorized")
            for wrong in ({"Origin": "http://localhost"}, {"Host": "127.0.0.1"}):
                assert title(await post(path, headers={**WORD, **wrong})) == (403, "foreign_host")
        server.clock.now = 1110.0
        await server.intake.run(lambda: server.shuffler.tick(1110.0))
        server.clock.now = 1113.0
        metrics = (await get("/metrics", headers=WORD)).text.splitlines()
        closes = COLLECTION.windows.closes(0)
        assert f"shuffledp_oldest_batch_seconds {1113 - closes:.0f}" in metrics
        assert 'shuffledp_windows{state="written"} 1' in metrics

    play(tmp_path / "s", scene)


def test_an_error_of_ours_is_not_told_to_anybody(tmp_path, monkeypatch):
    async def scene(server):
        def fail(*_, **__):
            raise KeyError("secret")

        monkeypatch.setattr(server.shuffler, "status", fail)
        for answer in (
            await server.public.get("/windows"),
            await server.admin.get("/status", headers=WORD),
        ):
            assert title(answer) == (500, "internal")
            assert answer.json()["detail"] == "something went wrong here"
        assert server.server._requests == {"internal": 2}

    play(tmp_path / "s", scene)


STATUSES = {
    "busy": 429, "expired": 410, "not_ready": 409, "signature": 403, "unavailable": 503, "unknown_collection": 404,
    "malformed": 400, "token": 400, "anything": 400,
}  # fmt: skip


def test_every_reason_has_its_status_and_is_counted(tmp_path, monkeypatch):
    async def scene(server):
        for reason, status in STATUSES.items():

            def fail(*_, reason=reason, **__):
                raise sdp.WireError(reason, "as it is")

            monkeypatch.setattr(server.shuffler, "status", fail)
            for answer in (
                await server.public.get("/windows"),
                await server.admin.get("/status", headers=WORD),
            ):
                assert title(answer) == (status, reason)
                assert answer.json()["detail"] == "as it is"
                assert answer.headers.get("retry-after") == ("1" if status in (429, 503) else None)
        assert server.server._requests == dict.fromkeys(STATUSES, 2)

    play(tmp_path / "s", scene)


@pytest.mark.parametrize(
    ("status", "retry"),
    [(400, None), (403, None), (409, None), (429, "1"), (500, None), (503, "1")],
)
def test_who_is_to_come_back_is_told_when(status, retry):
    answer = problem(status, "busy", "later")
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry)
    assert b"field" not in answer.body
    assert b'"field":"epsilon"' in problem(status, "x", "y", field="epsilon").body


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://a.example:80/x", "a.example"),
        ("http://[::1]:8000", "::1"),
        ("//", ""),
        ("http://[", ""),
    ],
)
def test_hosts_are_read_without_their_ports(text, host):
    assert host_of(text) == host


def test_a_clock_is_believed_up_to_an_hour_and_a_drift():
    watch = Watch.start(1000.0, uptime=50.0, last=None)
    assert watch.judge(1000.0 + JUMP, uptime=50.0) is None
    assert watch.judge(1000.0 - JUMP, uptime=50.0) is None
    assert watch.judge(1001.0 + JUMP, uptime=50.0).startswith(
        "the clock is 1 hours ahead of the time"
    )
    assert watch.judge(999.0 - JUMP, uptime=50.0).startswith("the clock is 1 hours behind the time")
    # After ten thousand seconds it may be off by ten more.
    assert watch.judge(11_009.0 + JUMP, uptime=10_050.0) is None
    assert watch.judge(11_011.0 + JUMP, uptime=10_050.0) is not None
    assert watch.judge(10_991.0 - JUMP, uptime=10_050.0) is None
    assert watch.judge(10_989.0 - JUMP, uptime=10_050.0) is not None


def test_after_an_absence_a_day_is_believed_once():
    first = Watch.start(9e9, uptime=50.0, last=1000.0)
    assert "ahead of the last time in the store" in first.judge(1001.0 + ABSENCE, uptime=50.0)
    assert first.judge(1000.0 + ABSENCE, uptime=50.0) is None
    assert (
        first.judge(1001.0 + ABSENCE + JUMP, uptime=50.0) is not None
    )  # it was believed: an hour now
    assert first.judge(1000.0 + ABSENCE + JUMP, uptime=50.0) is None
    back = Watch.start(9e9, uptime=50.0, last=100_000.0)
    assert "behind" in back.judge(99_999.0 - JUMP, uptime=50.0), (
        "a day is for absences, not for returns"
    )
    assert back.judge(100_000.0 - JUMP, uptime=50.0) is None
    first.believe(5.0, uptime=60.0)
    assert first.judge(5.0 + JUMP, uptime=60.0) is None
    assert _say_time(2 * 86_400.0) == "2 days"
    assert _say_time(2 * 86_400.0 - 3600) == "47 hours"


def test_a_bucket_holds_so_many_and_fills_again():
    buckets = Buckets()
    allowed = [buckets.allow("192.0.2.1", 0.0) for _ in range(101)]
    assert allowed == [True] * 100 + [False]
    assert [buckets.allow("192.0.2.1", now) for now in (0.04, 0.05, 0.05, 0.1)] == [
        False, True, False, True,
    ]  # fmt: skip
    assert buckets.allow("192.0.2.2", 0.0)  # somebody else
    assert all(buckets.allow(ours, 0.0) for ours in ("127.0.0.1", "::1", None) for _ in range(200))
    assert [buckets.allow("192.0.2.1", 1e6) for _ in range(101)] == allowed
    # Whoever has IPv6 has 2^64 addresses.
    one = [buckets.allow(f"2001:db8::{place:x}:1", 0.0) for place in range(1, 102)]
    assert one == allowed
    assert buckets.allow("2001:db8:0:1::1", 0.0)
    assert not buckets.allow("2001:db8::ffff%eth0", 0.0)
    mapped = [buckets.allow("::ffff:192.0.2.9", 0.0) for _ in range(100)]
    assert all(mapped)
    assert not buckets.allow("192.0.2.9", 0.0)
    assert all(buckets.allow("::ffff:127.0.0.1", 0.0) for _ in range(200))


def test_a_store_that_is_away_says_why():
    with pytest.raises(sdp.WireError, match="the store cannot be opened: no room") as told:
        AwayStore("no room").count(0)
    assert told.value.reason == "unavailable"


def test_every_page_and_file_of_the_results(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler)
    shuffler.tick(1110.0)
    hand_over(shuffler, analyzer)
    health = Health(Journal("analyzer", write=lambda _: None))
    waiting = {1: "not ready"}

    async def scene():
        async with client(make_app(analyzer, waiting, health), "http://127.0.0.1:8001") as web:
            pages = {
                path: await web.get(path) for path in ("/", "/results.html", "/status", "/healthz")
            }
            assert {page.status_code for page in pages.values()} == {200}
            kinds = [page.headers["content-type"] for page in pages.values()]
            assert kinds == [HTML, HTML, JSON, TEXT]
            assert pages["/status"].json() == {
                "windows": {"0": "published"}, "waiting": {"1": "not ready"},
            }  # fmt: skip
            assert pages["/healthz"].text == "ok\n"
            for name, kind in {
                "results.json": JSON,
                "results.csv": "text/csv; charset=utf-8",
                "results.xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            }.items():
                file = await web.get(f"/{name}")
                assert (file.status_code, file.headers["content-type"]) == (200, kind)
                assert file.headers["content-disposition"] == f'attachment; filename="{name}"'
                assert file.headers["access-control-allow-origin"] == "*"
                assert file.headers["referrer-policy"] == "no-referrer"
            whole = (await web.get("/results.json")).json()
            assert whole["collection"] == describe_collection(COLLECTION)
            assert [each["window"] for each in whole["results"]] == [0]
            assert (await web.post("/status")).status_code == 405
            health.fail("work", "no space", uptime=0.0)
            sick = await web.get("/healthz")
            assert (sick.status_code, sick.text) == (503, "failing: work\n")

            # What is wrong with a result is for the operator; the reader is told that it is, and no traceback is logged.
            (tmp_path / "a" / "result-0.json").write_text("{")
            for name in ("results.json", "results.csv", "results.xlsx", "results.html"):
                sick = await web.get(f"/{name}")
                assert title(sick) == (503, "unavailable")
                assert "their operator is told why" in sick.json()["detail"]
                assert "content-disposition" not in sick.headers
            assert health.kinds == ("results", "work")
            assert "JSONDecodeError" in health.sentence
            assert (await web.get("/status")).status_code == 200

    asyncio.run(scene())
    about = describe_collection(COLLECTION)
    assert (about["id"], about["title"], about["one_operator"]) == (ID, "A test", True)
    assert about["dummies"] == 0
    for shown, question in zip(about["questions"], COLLECTION.questions, strict=True):
        assert (shown["name"], shown["text"], shown["task"]) == (
            question.name, question.text, question.task,
        )  # fmt: skip
        assert (shown["lower"], shown["upper"]) == (question.ends or (None, None))
        assert shown["protocol"] == question.protocol.name
        assert shown["title"] == sdp.protocols.spec(question.protocol.name).title
        assert shown["yes"] == ("yes" if question.task == "count" else None)
        assert (shown["part"], shown["unit"], shown["scale"]) == (None, None, None)


class FakeDesk(Desk):
    """A desk without roles."""

    def adopt(self, home):
        self._running[home.collection().id.hex()] = (home, [])
        return home.collection().id.hex()


def test_the_desk_is_for_this_machine_and_whoever_has_the_link(tmp_path):
    desk = FakeDesk(tmp_path / "d")
    app = make_desk_app(desk, "secret")
    mine = {"authorization": "Bearer secret"}

    async def scene():
        async with client(app, "http://127.0.0.1") as web:
            page = await web.get("/")
            assert (page.status_code, page.headers["content-type"]) == (200, HTML)
            assert title(await web.get("/", headers={"Host": "a.example"})) == (403, "foreign_host")
            for path in ("/api/preview", "/api/collections", "/api/drafts", "/api/drafts/0/delete"):
                assert title(await web.post(path)) == (401, "unauthorized")
                for wrong in (
                    {"Host": "a.example"},
                    {"Origin": "http://a.example"},
                    {"Origin": "null"},
                ):
                    asked = await web.post(path, headers={**mine, **wrong})
                    assert title(asked) == (403, "foreign_host")
                assert (await web.get(path, headers=mine)).status_code in (404, 405)
            status = await web.get("/api/status", headers={**mine, "Origin": "http://localhost:1"})
            assert status.json() == {"folder": str(tmp_path / "d"), "collections": [], "drafts": []}
            assert status.headers["cache-control"] == "no-store"
            refused = await web.post("/api/preview", headers=mine, json={"epsilon": "-1"})
            assert title(refused) == (400, "refused")
            gone = await web.post("/api/collections", headers=mine, json={"draft": "x"})
            assert (gone.json()["title"], gone.json()["field"]) == ("refused", "draft")
            long = await web.post("/api/drafts", headers=mine, content=b" " * (1 << 18) + b"{}")
            assert "more than 262144 bytes" in long.json()["detail"]
            for key in ("", "0", "x" * 16, "0" * 17):
                wrong = await web.post(
                    "/api/drafts",
                    headers=mine,
                    json={"key": key or "/", "content": {"questions": []}},
                )
                assert wrong.json()["detail"] == "there is no such draft"
            wrong = await web.post("/api/drafts", headers=mine, json={"content": {"questions": 3}})
            assert wrong.json()["detail"] == "a draft must have questions"
            assert title(await web.get("/drafts/00")) == (404, "unknown")
            assert (await web.get("/preview/00")).headers["content-type"] == HTML
            closed = await web.post("/api/collections/00/close", headers=mine)
            assert closed.json()["detail"] == "there is no such collection here"

    asyncio.run(scene())


def test_the_desk_describes_a_collection_from_both_of_its_roles(tmp_path, monkeypatch):
    said = {
        "accepted": 7, "rejected": {"malformed": 2}, "failing": "no space", "analyzer_seen_seconds_ago": 2.5,
        "windows": [{"window": 1, "state": "open", "reports": 7}],
    }  # fmt: skip
    told = {
        "/status": {"waiting": {"1": "not ready"}},
        "/results.json": {"collection": {"id": ID, "title": "A test"}, "results": ["one"]},
    }

    @contextmanager
    def connect(url, certificate):
        assert (url, certificate) == ("http://127.0.0.1:9", None)
        yield SimpleNamespace(get=lambda path: SimpleNamespace(json=lambda: told[path]))

    monkeypatch.setattr(operator, "Operator", lambda _: SimpleNamespace(status=lambda: said))
    monkeypatch.setattr(operator, "connect", connect)
    monkeypatch.setattr(operator.time, "time", lambda: 1150.0)
    home = SimpleNamespace(collection=lambda: COLLECTION, path=tmp_path)
    role = SimpleNamespace(certificate=None, url="http://127.0.0.1:9")
    shown = Desk(tmp_path)._describe(home, [None, role])
    windows = COLLECTION.windows
    assert shown == {
        "id": ID,
        "title": "A test",
        "page": COLLECTION.page,
        "link": COLLECTION.link,
        "results_page": "http://127.0.0.1:9",
        "fingerprint": None,
        "folder": str(tmp_path),
        "min_batch": COLLECTION.pledge.min_batch,
        "accepted": 7,
        "rejected": {"malformed": 2},
        "failing": "no space",
        "analyzer_seen_seconds_ago": 2.5,
        "waiting": {"1": "not ready"},
        "windows": [
            {
                "window": 1,
                "state": "open",
                "reports": 7,
                "opens": windows.opens(1),
                "closes": windows.closes(1),
            }
        ],
        "window_count": windows.count,
        "key_age_seconds": round(
            1150.0 - windows.opens(COLLECTION.key_for(windows.at(1150.0)).first)
        ),
        "results": ["one"],
    }
    for own, wanted in ((True, "aa:bb"), (False, None)):
        role.certificate = SimpleNamespace(own=own, fingerprint="aa:bb")
        monkeypatch.setattr(operator, "connect", lambda *_: connect("http://127.0.0.1:9", None))
        assert Desk(tmp_path)._describe(home, [None, role])["fingerprint"] == wanted
