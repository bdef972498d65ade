"""Decryption in a pool of processes: it is most of the work of both roles, and threads do not help it.

An upload is opened by the pool, stored with others in one transaction, and then answered.

Whatever waits when the writer is free goes into its next transaction, so one commit serves many uploads, and a lonely
upload does not wait. A full queue is told to come back: memory stays bounded.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

import numpy as np

from shuffledp.core.arrays import Bools
from shuffledp.core.errors import WireError
from shuffledp.core.randomizer import Octets
from shuffledp.live.analyzer import open_records
from shuffledp.live.shuffler import Reply, Shuffler, draw_dummies, open_reports, seal_plains
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import Opened

_CHUNK = 5_000
_FEW = 20_000  # opened sooner than a pool has started
_worker: dict[str, object] = {}


def start_pool(
    workers: int | None, initializer: Callable[..., None], *arguments: object
) -> ProcessPoolExecutor:
    """Start processes, each with `initializer(*arguments)`; one per core if not said."""
    return ProcessPoolExecutor(
        workers or os.cpu_count() or 1,
        mp_context=get_context("spawn"),
        initializer=_start_worker,
        initargs=(initializer, arguments),
    )


def _start_worker(initializer: Callable[..., None], arguments: tuple[object, ...]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    initializer(*arguments)


def _end_with_parent() -> None:
    """End this worker with its server: one that is killed cannot end them, and they have its keys."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _start_reports(raw: bytes, secrets: dict[int, bytes]) -> None:
    _worker.update(collection=Collection.read(raw), secrets=secrets)


def _open_reports(sealed: Sequence[bytes]) -> list[Opened | str]:
    return open_reports(_worker["collection"], sealed, _worker["secrets"])  # type: ignore[arg-type]


def _seal_plains(window: int, plains: bytes) -> bytes:
    collection = _worker["collection"]
    assert isinstance(collection, Collection)
    rows = np.frombuffer(plains, dtype=np.uint8).reshape(-1, 1 + collection.message_size)
    return seal_plains(collection, window, rows).tobytes()


class ReportPool:
    """Opens the outer layer for the shuffler, and seals what it adds."""

    def __init__(
        self, collection: Collection, secrets: dict[int, bytes], workers: int | None = None
    ) -> None:
        self.workers = workers or os.cpu_count() or 1
        self.seal = _seal_plains
        self._begin = partial(start_pool, workers, _start_reports, collection.raw, secrets)
        self.open = _open_reports
        self.restart()

    def restart(self) -> None:
        """Start new processes: one that dies, say for lack of memory, takes the others with it."""
        self.executor = self._begin()
        self.executor.submit(
            _open_reports, []
        )  # so that the first upload does not wait for a start

    def close(self) -> None:
        """End the processes."""
        self.executor.shutdown(wait=True, cancel_futures=True)


def _start_records(raw: bytes, secret: bytes) -> None:
    _worker.update(collection=Collection.read(raw), secret=secret)


def _open_records(window: int, records: bytes) -> tuple[bytes, bytes]:
    collection, secret = _worker["collection"], _worker["secret"]
    assert isinstance(collection, Collection)
    assert isinstance(secret, bytes)
    rows = np.frombuffer(records, dtype=np.uint8).reshape(-1, collection.inner_size)
    plains, good = open_records(collection, window, secret, rows)
    return plains.tobytes(), good.tobytes()


class RecordPool:
    """Opens the inner layer for the analyzer: an `Opener`."""

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers

    def __call__(
        self, collection: Collection, window: int, secret: bytes, records: Octets
    ) -> tuple[Octets, Bools]:
        if len(records) <= _FEW:
            return open_records(collection, window, secret, records)
        pieces = [
            records[start : start + _CHUNK].tobytes() for start in range(0, len(records), _CHUNK)
        ]
        with start_pool(self._workers, _start_records, collection.raw, secret) as executor:
            done = list(executor.map(_open_records, [window] * len(pieces), pieces))
        plains = np.frombuffer(b"".join(plain for plain, _ in done), dtype=np.uint8)
        good = np.frombuffer(b"".join(good for _, good in done), dtype=np.bool_)
        return plains.reshape(len(records), -1), good


_MOST_WAITING = 4096
_GROUP = 512  # reports that a process opens at once
_SEALED = 250  # dummies that a process seals at once
_INLINE = 4  # as few are opened at once, without a process


@dataclass(slots=True)
class _Upload:
    sealed: Sequence[bytes]
    done: "asyncio.Future[Reply]"
    opened: list[Opened | str] = field(default_factory=list)


class Intake:
    """Takes uploads for a shuffler; everything that touches the store happens on one thread."""

    def __init__(
        self,
        shuffler: Shuffler,
        *,
        clock: Callable[[], float] = time.time,
        pool: ReportPool | None = None,
        openers: int = 2,
    ) -> None:
        self.check: Callable[[float], None] = lambda _: None
        """Raises if nothing may be taken at this time."""
        self.on_failure: Callable[[Exception], None] = lambda _: None
        self.shuffler = shuffler
        self.clock = clock
        self._pool = pool
        self._sealed: asyncio.Queue[_Upload] = asyncio.Queue(_MOST_WAITING)
        self._opened: asyncio.Queue[_Upload] = asyncio.Queue()
        self._openers = openers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to work."""
        work = [self._open() for _ in range(self._openers)]
        self._tasks = [asyncio.create_task(each) for each in [*work, self._write()]]

    async def stop(self) -> None:
        """Answer the requests already taken, then stop."""
        while self._sealed.qsize() or self._opened.qsize():
            await asyncio.sleep(0.01)
        await self.run(lambda: None)
        for task in self._tasks:
            task.cancel()
        self._thread.shutdown(wait=True)
        if self._pool is not None:
            self._pool.close()

    async def run(self, call: Callable[[], Any]) -> Any:
        """Do something on the writer's thread: the store has one writer."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def seal_dummies(self, window: int) -> Octets:
        """Return the dummies of a window: sealed by the pool, a few at a time, so that uploads never wait long."""
        collection, loop = self.shuffler.collection, asyncio.get_running_loop()
        pool, plains = self._pool, draw_dummies(collection)
        executor = None if pool is None else pool.executor
        pieces = [plains[start : start + _SEALED] for start in range(0, len(plains), _SEALED)]
        sealed: list[Octets | None] = [None] * len(pieces)
        places = iter(range(len(pieces)))

        async def work() -> None:
            for place in places:
                if pool is None:
                    call = partial(seal_plains, collection, window, pieces[place])
                    sealed[place] = await loop.run_in_executor(None, call)
                else:
                    raw = await loop.run_in_executor(
                        executor, pool.seal, window, pieces[place].tobytes()
                    )
                    rows = np.frombuffer(raw, dtype=np.uint8)
                    sealed[place] = rows.reshape(-1, collection.inner_size)

        try:
            await asyncio.gather(*(work() for _ in range(pool.workers if pool else 1)))
        except BrokenExecutor:
            # Uploads would restart the pool, too, but after the last window nobody need send any.
            if pool is not None:
                self._renew(pool, executor)
            raise
        return np.concatenate([each for each in sealed if each is not None])

    async def receive(self, sealed: Sequence[bytes]) -> Reply:
        """Return what became of these reports: durable before this returns."""
        upload = _Upload(sealed, asyncio.get_running_loop().create_future())
        try:
            self._sealed.put_nowait(upload)
        except asyncio.QueueFull:
            raise WireError("busy", "too many uploads are waiting: come back in a moment") from None
        return await upload.done

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            group = [await self._sealed.get()]
            size = len(group[0].sealed)
            while size < _GROUP and not self._sealed.empty():
                group.append(self._sealed.get_nowait())
                size += len(group[-1].sealed)
            sealed = [each for upload in group for each in upload.sealed]
            broken = None
            try:
                if self._pool is None or len(sealed) <= _INLINE:
                    shuffler = self.shuffler
                    opened = open_reports(shuffler.collection, sealed, dict(shuffler.secrets.outer))
                else:
                    broken = self._pool.executor
                    opened = await loop.run_in_executor(broken, self._pool.open, sealed)
            except Exception as error:  # whatever it is, nobody may wait for ever
                if isinstance(error, BrokenExecutor) and self._pool is not None:
                    self._renew(self._pool, broken)
                _fail(group)
                continue
            place = 0
            for upload in group:
                upload.opened = opened[place : place + len(upload.sealed)]
                place += len(upload.sealed)
                self._opened.put_nowait(upload)

    def _renew(self, pool: ReportPool, broken: Executor | None) -> None:
        """Restart the pool once, however many notice that it broke."""
        if pool.executor is broken:
            pool.restart()

    def _admit(self, uploads: Sequence[Sequence[Opened | str]]) -> list[Reply]:
        now = self.clock()
        self.check(now)
        return self.shuffler.admit(uploads, now)

    async def _write(self) -> None:
        while True:
            group = [await self._opened.get()]
            while not self._opened.empty():
                group.append(self._opened.get_nowait())
            uploads = [upload.opened for upload in group]
            try:
                replies = await self.run(partial(self._admit, uploads))
            except Exception as error:  # a full disk, say: nothing was acknowledged
                self.on_failure(error)
                _fail(group)
                continue
            for upload, reply in zip(group, replies, strict=True):
                if not upload.done.done():
                    upload.done.set_result(reply)


def _fail(group: Sequence[_Upload]) -> None:
    for upload in group:
        if not upload.done.done():
            upload.done.set_exception(
                WireError("unavailable", "the report could not be stored; send it again later")
            )
            upload.done.exception()  # it is seen, also if nobody waits any more
