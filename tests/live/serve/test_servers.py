"""The servers over real HTTP: what they take, what they refuse, and that nobody sees an exception."""

import asyncio
import hashlib
import json
from random import Random

import httpx
import pytest

import live_support as live
import shuffledp as sdp
from live.test_roles import open_analyzer, open_shuffler
from shuffledp.live.serve.pool import Intake
from shuffledp.live.serve.shuffler import Buckets, ShufflerServer
from shuffledp.live.wire.report import MEDIA_TYPE, join_upload, sign_fetch

COLLECTION = live.make_collection()
REPORTS = [live.make_report(COLLECTION, 0, seed) for seed in range(25)]
UPLOAD = join_upload(COLLECTION, REPORTS)
TYPE = {"Content-Type": MEDIA_TYPE}


class Clock:
    now = 1001.0

    def __call__(self):
        return self.now


class Server:
    """The applications of a shuffler without sockets, on a clock that tests turn."""

    def __init__(self, folder, collection=COLLECTION):
        self.clock = Clock()
        self.shuffler = open_shuffler(folder, collection)
        self.intake = None

    async def __aenter__(self):
        self.intake = Intake(self.shuffler, clock=self.clock)
        self.server = ShufflerServer(
            self.shuffler,
            self.intake,
            token="word",  # noqa: S106
            clock=self.clock,
        )
        self.public_app = self.server.public()
        self.lifespan = self.server._lifespan(self.public_app)
        await self.lifespan.__aenter__()
        self.public = client(self.public_app, "http://127.0.0.1:8000")
        self.admin = client(self.server.admin(), "http://localhost")
        return self

    async def __aexit__(self, *error):
        await self.public.aclose()
        await self.admin.aclose()
        await self.lifespan.__aexit__(None, None, None)


def client(app, base):
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=base)


def play(folder, scene, collection=COLLECTION):
    async def run():
        async with Server(folder, collection) as server:
            return await scene(server)

    return asyncio.run(run())


def title(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["title"]


def test_an_upload_is_acknowledged_and_stored(tmp_path):
    async def scene(server):
        for _ in range(2):
            answer = await server.public.post("/reports", content=UPLOAD, headers=TYPE)
            assert answer.json() == {"accepted": 25, "failed": []}
            assert answer.headers["access-control-allow-origin"] == "*"
        assert server.shuffler.store.count(0) == 25
        documents = await server.public.get(f"/collections/{COLLECTION.id.hex()}")
        assert documents.content == COLLECTION.raw
        assert (await server.public.get("/collections")).json()["collections"][0][
            "title"
        ] == "A test"

    play(tmp_path / "s", scene)


def test_many_uploads_at_once_are_stored_in_few_transactions(tmp_path):
    async def scene(server):
        bodies = [join_upload(COLLECTION, [report]) for report in REPORTS] * 2
        answers = await asyncio.gather(
            *(server.public.post("/reports", content=body, headers=TYPE) for body in bodies)
        )
        assert {answer.json()["accepted"] for answer in answers} == {1}
        assert server.shuffler.store.count(0) == 25

    play(tmp_path / "s", scene)


def test_what_is_not_an_upload(tmp_path):
    """A gzip bomb, a foreign host, another media type, too much, too little."""

    async def scene(server):
        post = server.public.post
        gzip = {**TYPE, "Content-Encoding": "gzip"}
        assert title(await post("/reports", content=b"\x1f\x8b" * 100, headers=gzip)) == (
            400,
            "malformed",
        )
        long = b"x" * 10_000_000
        assert title(await post("/reports", content=long, headers=TYPE)) == (400, "malformed")
        assert title(await post("/reports", content=UPLOAD)) == (400, "malformed")
        assert title(await post("/reports", content=UPLOAD[:-1], headers=TYPE)) == (
            400,
            "malformed",
        )
        foreign = {**TYPE, "Host": "elsewhere.example"}
        assert title(await post("/reports", content=UPLOAD, headers=foreign)) == (
            400,
            "foreign_host",
        )
        other = bytes(32) + UPLOAD[32:]
        assert title(await post("/reports", content=other, headers=TYPE)) == (
            404,
            "unknown_collection",
        )
        assert (await server.public.get("/collections/00")).status_code == 404
        assert (await server.public.get("/nothing")).status_code == 404
        assert server.shuffler.store.count(0) == 0

    play(tmp_path / "s", scene)


def test_batches_are_for_the_analyzer_alone(tmp_path):
    async def scene(server):
        await server.public.post("/reports", content=UPLOAD, headers=TYPE)
        path, get = "/batches/0/manifest", server.public.get
        mine = {
            "Authorization": f"Signature {sign_fetch(COLLECTION, 0, live.secret('analyzer')).hex()}"
        }
        assert title(await get(path)) == (403, "signature")
        assert title(await get(path, headers={"Authorization": "Signature zz"})) == (
            403,
            "signature",
        )
        assert title(await get("/batches/7", headers=mine)) == (404, "unknown_collection")
        waiting = await get(path, headers=mine)
        assert title(waiting) == (409, "not_ready")
        assert "109 seconds" in waiting.json()["detail"]
        server.clock.now = 1110.0
        await server.intake.run(lambda: server.shuffler.tick(1110.0))
        answer = (await get(path, headers=mine)).json()
        batch = await get("/batches/0", headers=mine)
        analyzer = open_analyzer(tmp_path / "a")
        analyzer.take(
            answer["manifest"].encode(),
            bytes.fromhex(answer["signature"]),
            lambda _: batch.content,
        )
        assert analyzer.advance(0) == "published"
        forged = await server.public.post("/batches/0/receipt", content=bytes(64), headers=mine)
        assert title(forged) == (403, "signature")
        done = await server.public.post(
            "/batches/0/receipt", content=analyzer.receipt(0), headers=mine
        )
        assert done.status_code == 204
        assert title(await get("/batches/0", headers=mine)) == (410, "expired")

    play(tmp_path / "s", scene)


def test_open_counts_are_for_the_operator_alone(tmp_path):
    async def scene(server):
        await server.public.post("/reports", content=UPLOAD, headers=TYPE)
        public = (await server.public.get("/windows")).json()["windows"]
        assert public == [{"window": 0, "state": "open"}]
        word = {"Authorization": "Bearer word"}
        status = (await server.admin.get("/status", headers=word)).json()
        assert status["windows"] == [{"window": 0, "state": "open", "reports": 25}]
        assert (await server.admin.get("/status")).status_code == 401
        assert (
            await server.admin.get("/status", headers={**word, "Origin": "null"})
        ).status_code == 403
        foreign = {**word, "Host": "elsewhere.example"}
        assert (await server.admin.get("/status", headers=foreign)).status_code == 403
        await server.public.post("/reports", content=UPLOAD[:-1], headers=TYPE)
        broken = join_upload(COLLECTION, [REPORTS[0][:-1] + b"x"])
        await server.public.post("/reports", content=broken, headers=TYPE)
        metrics = (await server.admin.get("/metrics", headers=word)).text
        assert "shuffledp_reports_accepted_total 25\n" in metrics
        assert 'shuffledp_reports_rejected_total{reason="malformed"} 1\n' in metrics
        assert 'shuffledp_requests_refused_total{reason="malformed"} 1\n' in metrics
        assert "shuffledp_analyzer_last_contact_seconds -1\n" in metrics
        closed = (await server.admin.post("/close", headers=word)).json()
        assert (
            closed["windows"][0]["state"] == "sealed" or closed["windows"][0]["state"] == "written"
        )

    play(tmp_path / "s", scene)


def test_a_full_disk_acknowledges_nothing(tmp_path, monkeypatch):
    async def scene(server):
        def full(group, now):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(server.shuffler.store, "admit", full)
        answer = await server.public.post("/reports", content=UPLOAD, headers=TYPE)
        assert title(answer) == (503, "unavailable")
        assert "space" not in answer.text
        monkeypatch.undo()
        answer = await server.public.post("/reports", content=UPLOAD, headers=TYPE)
        assert answer.json()["accepted"] == 25

    play(tmp_path / "s", scene)


def test_a_full_queue_is_told_to_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr("shuffledp.live.serve.pool._MOST_WAITING", 1)

    async def scene(server):
        for task in server.intake._tasks:
            task.cancel()
        await asyncio.sleep(0)
        waiting = asyncio.create_task(server.public.post("/reports", content=UPLOAD, headers=TYPE))
        await asyncio.sleep(0.1)
        answer = await server.public.post("/reports", content=UPLOAD, headers=TYPE)
        assert title(answer) == (429, "busy")
        assert answer.headers["retry-after"] == "1"
        waiting.cancel()
        server.intake._sealed.get_nowait()

    play(tmp_path / "s", scene)


def test_the_operator_issues_and_counts_tokens(tmp_path):
    collection = live.make_collection(tokens=True)
    token = bytes(32)
    body = join_upload(collection, [live.make_report(collection, 0, 1, token)])
    hashes = hashlib.sha256(token).digest() + hashlib.sha256(b"other").digest()
    word = {"Authorization": "Bearer word"}

    async def scene(server):
        async def ask(path, content, headers=word):
            return await server.admin.post(path, content=content, headers=headers)

        assert (await ask("/tokens", hashes, {})).status_code == 401
        assert title(await ask("/tokens", hashes[:-1])) == (400, "token")
        assert title(await ask("/tokens", b"")) == (400, "token")
        sent = await server.public.post("/reports", content=body, headers=TYPE)
        assert sent.json()["failed"] == [{"index": 0, "reason": "unknown_token"}]
        assert (await ask("/tokens", hashes[:32])).status_code == 204
        sent = await server.public.post("/reports", content=body, headers=TYPE)
        assert sent.json() == {"accepted": 1, "failed": []}
        counted = (await ask("/tokens/count", hashes)).json()
        assert counted == {"unused": 0, "spent": 1, "unknown": 1}

    async def without(server):
        answer = await server.admin.post("/tokens", content=hashes, headers=word)
        assert title(answer) == (400, "token")

    play(tmp_path / "s", scene, collection)
    play(tmp_path / "t", without)


def fuzz(random):
    """A body that is nearly an upload, or nothing like it."""
    body = bytearray(UPLOAD[: 32 + random.randint(0, 3) * COLLECTION.report_size])
    for _ in range(random.randint(0, 4)):
        kind = random.randrange(4)
        place = random.randrange(len(body) + 1)
        if kind == 0 and place < len(body):
            body[place] ^= 1 << random.randrange(8)
        elif kind == 1:
            body[place:place] = random.randbytes(random.randint(1, 40))
        elif kind == 2:
            del body[place : place + random.randint(1, 40)]
        else:
            body = bytearray(random.randbytes(random.randint(0, 500)))
    return bytes(body)


def fuzz_uploads(folder, number):
    """No 5xx, no text of an exception, nothing stored but what is intact."""
    random = Random(7)  # noqa: S311
    statuses = set()

    async def scene(server):
        for _ in range(number):
            headers = {} if random.random() < 0.05 else TYPE
            answer = await server.public.post("/reports", content=fuzz(random), headers=headers)
            statuses.add(answer.status_code)
            assert "Traceback" not in answer.text
            assert "Error" not in answer.text
            if answer.status_code == 200:
                assert set(answer.json()) == {"accepted", "failed"}

    play(folder, scene)
    assert statuses == {200, 400, 404}


def test_fuzzed_uploads(tmp_path):
    fuzz_uploads(tmp_path / "s", 1500)


@pytest.mark.slow
def test_30000_fuzzed_uploads(tmp_path):
    import resource

    fuzz_uploads(tmp_path / "s", 3000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fuzz_uploads(tmp_path / "t", 27_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KB


def test_buckets_forget_the_oldest(monkeypatch):
    monkeypatch.setattr("shuffledp.live.serve.shuffler._MOST_ADDRESSES", 2)
    buckets = Buckets(rate=0.0, size=1.0)
    assert buckets.allow("a", 0.0)
    assert not buckets.allow("a", 0.0)
    assert all(buckets.allow(name, 0.0) for name in ("b", "c"))
    assert buckets.allow("a", 0.0)
    assert all(buckets.allow("127.0.0.1", 0.0) for _ in range(9))


def test_the_page_escapes_what_people_wrote():
    from shuffledp.live.results import show_page, show_text

    hostile = live.make_collection(title="<script>alert(1)</script>")
    row = {"label": "<b>", "value": 1.0, "stderr": 1.0, "low": 0.0, "high": 2.0}
    answer = {"people": 25, "estimate": [row]}
    result = {"window": 0, "level": 0.95, "questions": {"way": answer, "home": answer}}
    page = show_page(hostile, [result])
    assert "<script" not in page
    assert "<b>" not in page
    assert "trust as in the central model" in page
    assert "25 people" in show_text(hostile, [result])


def test_numbers_of_one_random_question_are_about_everybody():
    from shuffledp.live.results import show_page, show_text, write_csv

    row = {"label": "yes", "value": 738.49, "stderr": 31.2, "low": 660.12, "high": 816.88}
    answer = {"people": 776, "of": 1501, "estimate": [row]}
    result = {"window": 0, "level": 0.95, "questions": {"way": answer, "home": answer}}
    text, page = show_text(COLLECTION, [result]), show_page(COLLECTION, [result])
    for shown in (text, page):
        assert "Window 0: 1,501 people, 776 of whom answered this question" in shown
    (line, _) = [each.split() for each in text.splitlines() if each.startswith("yes")]
    assert line == ["yes", "738", "31", "661", "..", "816"]  # whole numbers of people
    assert "<td>738 (49.2%)</td><td>31</td><td>661 .. 816</td>" in page
    assert "0,way,776,1501,yes,738.49," in write_csv([result])


def test_who_answered_which_question_is_hidden_among_messages_of_the_servers():
    from shuffledp.live.results import show_page, show_text

    row = {"label": "yes", "value": 738.49, "stderr": 31.2, "low": 660.12, "high": 816.88}
    answer = {"people": 1502, "of": 1502, "estimate": [row]}
    asked = {"window": 0, "level": 0.95, "questions": {"way": answer, "home": answer}}
    drawn = "1,502 people, each of whom answered one question only, chosen at random"
    for one in (True, False):
        result = {**asked, "promise": {"one_question": one}}
        for shown in (show_text(COLLECTION, [result]), show_page(COLLECTION, [result])):
            assert (f"Window 0: {drawn}" in shown) is one
            assert "Window 0: 1,502 people" in shown


def test_keys_that_others_may_read_are_refused(tmp_path):
    secrets = sdp.live.ShufflerSecrets(
        outer=live.outer_secrets(COLLECTION), sign=live.secret("shuffler")
    )
    home = sdp.live.serve.Home(tmp_path / "survey")
    home.create(COLLECTION, secrets, None)
    home.open_shuffler()
    with pytest.raises(sdp.DataError, match="already"):
        home.create(COLLECTION, secrets, None)
    (home.shuffler / "keys.json").chmod(0o644)
    with pytest.raises(sdp.DataError, match="chmod 600"):
        home.open_shuffler()
    (home.shuffler / "keys.json").chmod(0o600)
    home.shuffler.chmod(0o755)
    with pytest.raises(sdp.DataError, match="chmod 700"):
        home.open_shuffler()
    with pytest.raises(sdp.DataError, match="no collection"):
        sdp.live.serve.Home(tmp_path / "nowhere").collection()
    home.shuffler.chmod(0o700)
    wrong = sdp.live.ShufflerSecrets.generate(2)
    (home.shuffler / "keys.json").unlink()
    wrong.save(home.shuffler)
    with pytest.raises(sdp.MismatchError, match="not the shuffler's"):
        home.open_shuffler()


def test_documents_of_folders_are_the_exact_bytes(tmp_path):
    home = sdp.live.serve.Home(tmp_path / "survey")
    home.create(COLLECTION, sdp.live.ShufflerSecrets.generate(2), None)
    assert home.collection().id == COLLECTION.id
    assert json.loads(home.document.read_bytes())["texts"]["title"] == "A test"


def test_a_page_without_results_asks_nothing_and_follows_the_scheme_of_its_reader():
    from shuffledp.live.results import show_page

    page = show_page(COLLECTION, [])
    assert "Nothing is published yet" in page
    assert page.count("<h2>") == 1  # who may learn what
    assert "color-scheme:light dark" in page
