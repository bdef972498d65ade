"""Live collections: uploads, the seal of a window, the analyzer, and a device.

Servers and clients share the machine here, so the rates are wall-clock rates of everything together. Reports are
sealed beforehand. `SHUFFLEDP_LIVE=1` measures the sizes of the figures (10^5 reports, 10^6 messages), which takes
minutes; without, a tenth of them.
"""

import asyncio
import hashlib
import math
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from soak import start_server
from timing import Row, show

import shuffledp as sdp
from shuffledp.live import analyzer as analysis
from shuffledp.live.analyzer import Analyzer
from shuffledp.live.design import (
    Design,
    Settings,
    choose_protocols,
    create,
    generate_analyzer,
)
from shuffledp.live.serve.folders import Home, Role, find_port, start
from shuffledp.live.serve.pool import Intake, RecordPool, ReportPool, start_pool
from shuffledp.live.serve.rehearse import seal_people, send_people
from shuffledp.live.servers import describe_dummies
from shuffledp.live.shuffler import Shuffler
from shuffledp.live.store import SqliteStore, write_private
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.promise import Noise, Pledge
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.report import (
    MEDIA_TYPE,
    Manifest,
    Opened,
    encode_answers,
    encode_many,
    join_upload,
    open_inner,
    report_id,
    seal_inner,
    seal_report,
)
from shuffledp.protocols.server_noise import make_server_noise

FULL = os.environ.get("SHUFFLEDP_LIVE") == "1"
REPORTS = 100_000 if FULL else 10_000
MESSAGES = 1_000_000 if FULL else 100_000
OPENED = 1_000_000 if FULL else 40_000


def rows() -> list[Row]:
    with TemporaryDirectory() as folder:
        home = make_home(Path(folder))
        collection = home.collection()
        found = [*measure_device(collection, Path(folder))]
        sealed = seal_all(collection, REPORTS)
        found += measure_uploads(home, collection, sealed)
        found += measure_shared(home, collection, sealed)
        found += measure_seal(collection, Path(folder))
        found += measure_analyzer(home, collection)
        found += measure_dummies(Path(folder))
    return [*found, measure_file()]


def make_home(folder: Path) -> Home:
    way = {"task": "histogram", "categories": ["car", "bicycle", "bus", "train"]}
    survey = sdp.Survey.read({"epsilon": 1.0, "delta": 1e-8, "questions": {"way": way}})
    url = f"http://127.0.0.1:{find_port()}"
    settings = Settings(people=REPORTS, min_batch=1000, noise="devices", url=url)
    design = choose_protocols(survey, settings)
    secrets = sdp.live.ShufflerSecrets.generate()
    analyzer, public, sign = generate_analyzer()
    home = Home(folder / "survey")
    home.create(
        create(design, settings, shuffler=secrets, analyzer_public=public, analyzer_sign=sign),
        secrets,
        analyzer,
    )
    return home


def measure_dummies(folder: Path) -> list[Row]:
    """The seal of a window with 200,000 messages of the shuffler's own, and uploads beside it."""
    made = make_server_noise(task="histogram", k=1000, rate=0.1, most=200)
    asked = Question(
        name="way",
        text="?",
        task="histogram",
        protocol=made,
        labels=tuple(map(str, range(1000))),
        noise=describe_dummies(made),
    )
    pledge = Pledge(
        epsilon=0.2,
        delta=1e-8,
        honest=0.9,
        min_batch=100,
        local_epsilon=math.inf,
        noise=Noise.SERVERS,
        trust_the_shuffler=True,
    )
    settings = Settings(url="http://127.0.0.1:1", start=1000, seconds=100, windows=2, grace=10)
    secrets = sdp.live.ShufflerSecrets.generate()
    analyzer, public, sign = generate_analyzer()
    home = Home(folder / "noisy")
    design = Design(questions=(asked,), pledge=pledge, limited_by="the servers' noise")
    home.create(
        create(design, settings, shuffler=secrets, analyzer_public=public, analyzer_sign=sign),
        secrets,
        analyzer,
    )
    seconds, added, waits = asyncio.run(_seal_beside_uploads(home))
    slowest = max(waits)
    return [
        row(f"shuffler: seal with {added:,} dummies", f"{seconds:.1f} s", "<= 30 s", seconds <= 30),
        row(
            f"shuffler: {len(waits):,} uploads beside it, one after the other, the slowest",
            f"{1e3 * slowest:.0f} ms",
            "< 1 s",
            slowest < 1,
        ),
    ]


async def _seal_beside_uploads(home: Home) -> tuple[float, int, list[float]]:
    collection, shuffler = home.collection(), home.open_shuffler()
    people = {"way": np.zeros(4_000, dtype=np.int64)}
    first = seal_people(collection, 0, {"way": np.zeros(200, dtype=np.int64)})
    later = [seal_report(collection, 1, inners) for inners in seal_people(collection, 1, people)]
    pool = ReportPool(collection, dict(shuffler.secrets.outer), 2)
    intake = Intake(shuffler, pool=pool, clock=lambda: 1150.0)
    shuffler.prepared = {}
    shuffler.receive(
        join_upload(collection, [seal_report(collection, 0, inners) for inners in first[:50]]),
        1001.0,
    )
    for start_at in range(50, 200, 50):
        part = [seal_report(collection, 0, inners) for inners in first[start_at : start_at + 50]]
        shuffler.receive(join_upload(collection, part), 1001.0)
    intake.start()
    began = time.perf_counter()
    await intake.run(lambda: shuffler.tick(1150.0))
    sealing = asyncio.create_task(intake.seal_dummies(0))
    waits, place = [], 0
    while not sealing.done() and place + 10 <= len(later):
        sent = time.perf_counter()
        reply = await intake.receive(later[place : place + 10])
        assert reply.failed == ()
        waits.append(time.perf_counter() - sent)
        place += 10
        await asyncio.sleep(0.02)
    shuffler.prepared[0] = await sealing
    added = len(shuffler.prepared[0])
    await intake.run(lambda: shuffler.tick(1150.0))
    seconds = time.perf_counter() - began
    assert shuffler.manifest(0, 1150.0)[0].messages == 200 + added
    await intake.stop()
    return seconds, added, waits


def measure_device(collection: Collection, folder: Path) -> list[Row]:
    device = sdp.live.Device(folder / "outbox.sqlite", budget=1e9)
    window = device.answer(collection, {"way": "bus"}, collection.windows.start)
    times = []
    for _ in range(200):
        began = time.process_time()
        plains = encode_answers(collection, {"way": "bus"}, sdp.SecureWords())
        inners = [seal_inner(collection, window, plain) for plain in plains]
        seal_report(collection, window, inners)
        times.append(time.process_time() - began)
    one = float(np.median(times))
    began = time.process_time()
    many = seal_people(collection, 0, {"way": np.zeros(2000, dtype=np.int64)})
    for inners in many:
        seal_report(collection, 0, inners)
    each = (time.process_time() - began) / 2000
    return [
        row("device: one report, warm (CPU)", f"{1e3 * one:.2f} ms", "< 2 ms", one < 2e-3),
        row("device: many simulated, each (CPU)", f"{1e3 * each:.2f} ms", "< 0.5 ms", each < 5e-4),
    ]


def row(what: str, ours: str, wanted: str, met: bool, baseline: str = "-", ratio: str = "-") -> Row:
    return Row(what=what, baseline=baseline, ours=ours, ratio=ratio, wanted=wanted, met=met)


_raw: dict[str, Collection] = {}


def _begin(raw: bytes) -> None:
    _raw["collection"] = Collection.read(raw)


def _seal(people: int) -> list[bytes]:
    collection = _raw["collection"]
    sealed = seal_people(collection, 0, {"way": np.zeros(people, dtype=np.int64)})
    return [seal_report(collection, 0, inners) for inners in sealed]


def seal_all(collection: Collection, people: int) -> list[bytes]:
    with start_pool(None, _begin, collection.raw) as pool:
        return [each for part in pool.map(_seal, [1000] * (people // 1000)) for each in part]


def measure_uploads(home: Home, collection: Collection, sealed: Sequence[bytes]) -> list[Row]:
    port = int(collection.url.rpartition(":")[2])
    found = []
    for each, wanted in ((1, 3000), (50, 10_000)):
        for path in home.shuffler.glob("store.sqlite*"):
            path.unlink()
        idle = spend_on_start(home, port)
        used = cpu_of_children()
        server = start("shuffler", home, port)
        try:
            server.wait_until_ready()
            groups = [sealed[place : place + each] for place in range(0, len(sealed), each)]
            bodies = [request(join_upload(collection, group)) for group in groups]
            began = time.perf_counter()
            asyncio.run(send_all(port, bodies, connections=64 if each == 1 else 8))
            rate = len(sealed) / (time.perf_counter() - began)
        finally:
            server.stop()
        count = home.open_shuffler().store.count(0)
        assert count == len(sealed), f"{count} of {len(sealed)} reports are stored"
        what = f"uploads of {each}, durable before the reply ({len(sealed):,} reports)"
        cpu = 1e6 * (cpu_of_children() - used - idle) / len(sealed)
        shown = f"{rate:,.0f}/s, {cpu:.0f} us of the server's CPU each"
        found.append(row(what, shown, f"{wanted:,}/s", rate >= wanted))
    return found


def measure_shared(home: Home, collection: Collection, sealed: Sequence[bytes]) -> list[Row]:
    """Two shufflers on a PostgreSQL database: what they and the database need, the generator not counted."""
    ports = (int(collection.url.rpartition(":")[2]), find_port())
    place = home.shuffler / "store.toml"
    database, log = start_server(), start_server()
    try:
        said = f'postgresql = "{database.where()}"\nseals = "{log.where()}"\n'
        write_private(place, said.encode())
        idle = spend_on_shared_start(home, ports)
        used = cpu_of_children()
        servers = start_shared(home, ports)
        try:
            groups = [sealed[at : at + 50] for at in range(0, len(sealed), 50)]
            bodies = [request(join_upload(collection, group)) for group in groups]
            began = time.perf_counter()
            asyncio.run(send_to_both(ports, bodies))
            rate = len(sealed) / (time.perf_counter() - began)
        finally:
            for server in servers:
                server.stop()
        store = home.open_store()
        count = store.count(0)
        store.close()
        assert count == len(sealed), f"{count} of {len(sealed)} reports are stored"
    finally:
        database.remove()
        log.remove()
        place.unlink(missing_ok=True)
    cpu = (cpu_of_children() - used - idle) / len(sealed)
    cores = os.cpu_count() or 1
    what = f"uploads of 50 to two shufflers on PostgreSQL, durable ({len(sealed):,} reports)"
    shown = f"{cores / cpu:,.0f}/s by CPU ({1e6 * cpu:.0f} us each), {rate:,.0f}/s by the clock"
    return [row(what, shown, "8,000/s", cores / cpu >= 8000)]


def start_shared(home: Home, ports: tuple[int, int]) -> list[Role]:
    servers = [
        start("shuffler", home, ports[0], workers=1),
        start("shuffler", home, ports[1], "--instance", "b", workers=1),
    ]
    for server in servers:
        server.wait_until_ready()
    return servers


def spend_on_shared_start(home: Home, ports: tuple[int, int]) -> float:
    """CPU seconds of two shufflers that start and end."""
    before = cpu_of_children()
    for server in start_shared(home, ports):
        server.stop()
    return cpu_of_children() - before


async def send_to_both(ports: tuple[int, int], requests: Sequence[bytes]) -> None:
    halves = requests[::2], requests[1::2]
    await asyncio.gather(
        *(send_all(port, half, connections=8) for port, half in zip(ports, halves, strict=True))
    )


def cpu_of_children() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spend_on_start(home: Home, port: int) -> float:
    """CPU seconds of a server that starts, is asked once, and ends."""
    before = cpu_of_children()
    server = start("shuffler", home, port)
    server.wait_until_ready()
    server.stop()
    for path in home.shuffler.glob("store.sqlite*"):
        path.unlink()
    return cpu_of_children() - before


def request(body: bytes) -> bytes:
    head = (
        f"POST /reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def send_all(port: int, requests: Sequence[bytes], connections: int) -> None:
    waiting = iter(requests)

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for each in waiting:
            writer.write(each)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            assert b'"failed":[]' in body
        writer.close()

    await asyncio.gather(*(work() for _ in range(connections)))


def measure_seal(collection: Collection, folder: Path) -> list[Row]:
    place = folder / "seal"
    place.mkdir(mode=0o700)
    store = SqliteStore(place / "store.sqlite", collection)
    source = np.random.default_rng(1)
    now = collection.windows.start + 1
    began = time.perf_counter()
    for _ in range(0, MESSAGES, 10_000):
        size = collection.inner_size
        inners = (source.bytes(size) for _ in range(10_000))
        group = [Opened(report_id(collection, 0, each), 0, b"", each) for each in inners]
        assert store.admit(group, now) == [None] * len(group)
    stored = MESSAGES / (time.perf_counter() - began)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    secrets = sdp.live.ShufflerSecrets.generate()
    shuffler = Shuffler(collection=collection, secrets=secrets, store=store, folder=place)
    began = time.perf_counter()
    shuffler.advance(0)
    took = time.perf_counter() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    what = f"seal of {MESSAGES:,} messages (sort, write, fsync, delete)"
    return [
        row("store: 10,000 reports per commit", f"{stored:,.0f}/s", "-", True),
        row(what, f"{took:.2f} s, +{grown:.0f} MB", "< 5 s, < 300 MB", took < 5 and grown < 300),
    ]


def _open_some(arguments: tuple[bytes, bytes, int]) -> float:
    inner, secret, times = arguments
    began = time.perf_counter()
    for _ in range(times):
        open_inner(_raw["collection"], 0, inner, secret)
    return time.perf_counter() - began


def measure_analyzer(home: Home, collection: Collection) -> list[Row]:
    """A batch of messages of which many are copies: the analyzer is told that copies are fine."""
    secrets = sdp.live.AnalyzerSecrets.load(home.analyzer, collection)
    plain = encode_many(collection, {"way": np.zeros(1000, dtype=np.int64)}, sdp.SecureWords())[0]
    inners = sorted(seal_inner(collection, 0, each.tobytes()) for each in plain)
    records = np.frombuffer(b"".join(inners), dtype=np.uint8).reshape(1000, -1)
    many = np.repeat(records, OPENED // 1000, axis=0)
    cores = os.cpu_count() or 1
    with start_pool(cores, _begin, collection.raw) as pool:
        list(pool.map(_open_some, [(inners[0], secrets.inner, 10)] * cores))
        began = time.perf_counter()
        list(pool.map(_open_some, [(inners[0], secrets.inner, OPENED // cores)] * cores))
        bare = time.perf_counter() - began
    batch = many.tobytes()
    manifest = Manifest(
        collection_id=collection.id,
        window=0,
        reports=OPENED,
        messages=OPENED,
        sha256=hashlib.sha256(batch).digest(),
    )
    shuffler = sdp.live.ShufflerSecrets.load(home.shuffler, collection)
    analysis._drop_copies = lambda rows: (rows, 0)
    with TemporaryDirectory() as folder:
        analyzer = Analyzer(
            collection=collection, secrets=secrets, folder=Path(folder), opener=RecordPool()
        )
        began = time.perf_counter()
        analyzer.take(manifest.raw, manifest.sign(shuffler.sign), lambda _: batch)
        assert analyzer.advance(0) == "published"
        took = time.perf_counter() - began
    what = f"analyzer: {OPENED:,} messages to a result"
    ratio = took / bare
    return [
        row(
            what,
            f"{took:.1f} s",
            "<= 1.3x",
            ratio <= 1.3,
            f"bare opens: {bare:.1f} s",
            f"{ratio:.2f}x",
        )
    ]


def measure_file(people: int = REPORTS) -> Row:
    """Everybody of a file, end to end."""
    with TemporaryDirectory() as folder:
        home = make_home(Path(folder))
        collection = home.collection()
        port = int(collection.url.rpartition(":")[2])
        server = start("shuffler", home, port)
        try:
            server.wait_until_ready()
            began = time.perf_counter()
            sent = send_people(collection, 0, {"way": np.zeros(people, dtype=np.int64)})
            took = time.perf_counter() - began
        finally:
            server.stop()
        assert sent.accepted == people == home.open_shuffler().store.count(0)
    return row(
        f"{people:,} simulated devices, end to end", f"{took:.1f} s", "< 60 s for 10^5", took < 60
    )


if __name__ == "__main__":
    show(rows(), "Live collections")
