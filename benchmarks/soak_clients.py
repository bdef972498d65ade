"""The clients of a soak: honest ones that send until they are answered, hostile ones, and slow ones."""

import asyncio
import json
import os
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import (
    MEDIA_TYPE,
    MOST_REPORTS,
    join_upload,
    seal_inner,
    seal_report,
)

_PATIENCE = 30.0  # seconds for an answer
_CONNECTIONS = 8
_TRIES = 2000


class NoAnswerError(Exception):
    """The server went away."""


class Line:
    """A connection that is opened when it is needed."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports = ports
        self._turn = random.randrange(len(ports))  # noqa: S311
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._ask(request)
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            self.close()
            raise NoAnswerError from error

    async def _ask(self, request: bytes) -> tuple[int, bytes]:
        if self._writer is None:
            self._turn = (self._turn + 1) % len(self._ports)
            place = self._ports[self._turn]
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", place)
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if b"connection: close" in head:
            self.close()
        return int(head[9:12]), body

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def write_request(
    body: bytes, *more: str, length: int | None = None, kind: str = MEDIA_TYPE
) -> bytes:
    head = [
        "POST /reports HTTP/1.1",
        *(more or ("Host: 127.0.0.1",)),
        f"Content-Type: {kind}",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body


@dataclass(slots=True, kw_only=True)
class Honest:
    """Everybody of a window: sends the same bytes until they are acknowledged."""

    collection: Collection
    ports: tuple[int, ...]
    raw: bytes
    random: random.Random
    latencies: list[float]
    rejected: Counter[str]
    done: int = 0
    """Reports that were acknowledged: the first ones, all of them in the end."""
    _place: int = 0
    _sent: list[bytes] = field(default_factory=list)

    @property
    def reports(self) -> int:
        return len(self.raw) // self.collection.report_size

    def take(self) -> bytes | None:
        """The next upload: of fifty, now and then of a few."""
        if self._place >= self.reports:
            return None
        few = self.random.random() < 0.2
        count = self.random.randint(1, 5) if few else MOST_REPORTS
        size = self.collection.report_size
        end = min(self.reports, self._place + count)
        body = self.collection.id + self.raw[self._place * size : end * size]
        self._place = end
        return body

    def copy(self) -> bytes | None:
        """An upload that was acknowledged."""
        return self.random.choice(self._sent) if self._sent else None

    async def send(self) -> None:
        """All of them."""
        await asyncio.gather(*(self._work() for _ in range(_CONNECTIONS)))

    async def _work(self) -> None:
        line = Line(self.ports)
        while (body := self.take()) is not None:
            await self._send(line, body)
        line.close()

    async def _send(self, line: Line, body: bytes) -> None:
        count = (len(body) - 32) // self.collection.report_size
        for _ in range(_TRIES):
            began = time.perf_counter()
            try:
                status, answer = await line.ask(write_request(body))
            except NoAnswerError:
                await asyncio.sleep(0.1)
                continue
            if status == 200:
                self.latencies.append(time.perf_counter() - began)
                for each in json.loads(answer)["failed"]:
                    self.rejected[f"honest: {each['reason']}"] += 1
                    count -= 1
                self.done += count
                self._sent[:] = [*self._sent[-20:], body]
                return
            self.rejected[f"tried again: {json.loads(answer)['title']}"] += 1
            line.close()  # the next try may reach another shuffler
            await asyncio.sleep(0.1)
        raise TimeoutError("an upload was never answered")


async def be_hostile(
    collection: Collection,
    ports: tuple[int, ...],
    window: int,
    count: int,
    honest: Honest,
    source: random.Random,
) -> Counter[str]:
    """What hostile clients are told, by reason."""
    told: Counter[str] = Counter()
    line = Line(ports)
    for turn in range(count):
        request = _make_hostile(turn, collection, window, honest, source)
        try:
            status, answer = await line.ask(request)
        except NoAnswerError:
            told["hostile: hung up"] += 1
            await asyncio.sleep(0.02)
            continue
        if status == 200:
            reply = json.loads(answer)
            told.update(f"hostile: {each['reason']}" for each in reply["failed"])
        else:
            told[f"hostile: {json.loads(answer)['title']}"] += 1
        await asyncio.sleep(0.005)
    line.close()
    return told


def _make_hostile(  # noqa: C901
    turn: int, collection: Collection, window: int, honest: Honest, source: random.Random
) -> bytes:
    size, kind = collection.report_size, turn % 14
    fresh = lambda plain, at=window: seal_inner(collection, at, plain)  # noqa: E731
    beyond = bytes([0]) + b"\xff" * collection.message_size
    if kind == 0:
        return write_request(os.urandom(source.randrange(1, 9000)))
    if kind == 1:
        return write_request(collection.id + os.urandom(50 * size))
    if kind == 2:  # of another collection
        return write_request(os.urandom(32) + os.urandom(size))
    if kind in (3, 4):  # again, to be counted twice
        return write_request(honest.copy() or collection.id)
    if kind == 5:  # no such bin
        return write_request(
            join_upload(collection, [seal_report(collection, window, [fresh(beyond)])])
        )
    if kind == 6:  # nobody can open it
        inner = os.urandom(collection.inner_size)
        return write_request(join_upload(collection, [seal_report(collection, window, [inner])]))
    if kind == 7:  # for another window
        other = (window + 1) % collection.windows.count
        inner = fresh(beyond, other)
        return write_request(join_upload(collection, [seal_report(collection, other, [inner])]))
    if kind == 8:  # one bit is different
        body = bytearray(honest.copy() or collection.id + bytes(size))
        body[source.randrange(34, len(body))] ^= 1 << source.randrange(8)
        return write_request(bytes(body))
    if kind == 9:
        return write_request(b"x" * 100, "Host: 127.0.0.1", "Content-Encoding: gzip")
    if kind == 10:
        return write_request(b"x" * 100, "Host: evil.example")
    if kind == 11:
        return write_request(b"x" * 100, kind="text/plain")
    if kind == 12:
        return f"GET /batches/{window} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    return f"GET /batches/{'9' * 3000}/manifest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


async def be_slow(ports: tuple[int, ...], collection: Collection) -> None:
    """Begin requests, and never end them, until somebody hangs up."""
    beginning = write_request(b"", length=32 + collection.report_size)
    for turn in range(1_000_000):
        with suppress(OSError):
            place = ports[turn % len(ports)]
            reader, writer = await asyncio.open_connection("127.0.0.1", place)
            for byte in beginning + collection.id:
                writer.write(bytes([byte]))
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.3):
                        if not await reader.read(100):
                            break
            writer.close()
        await asyncio.sleep(0.5)
