"""Decryption in a pool of processes: it is most of the work of both roles, and threads do not help it."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread

import numpy as np

from shuffledp.core.arrays import Bools
from shuffledp.core.octets import Octets
from shuffledp.live.analyzer import open_records
from shuffledp.live.dummies import seal_plains
from shuffledp.live.shuffler import open_reports
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import Opened

__all__ = ["RecordPool", "ReportPool", "start_pool"]

_CHUNK = 5_000
_FEW = 20_000  # opened sooner than a pool has started
_worker: dict[str, object] = {}


def start_pool(
    workers: int | None, initializer: Callable[..., None], *arguments: object
) -> ProcessPoolExecutor:
    """Processes that each start with `initializer(*arguments)`; one per core if not said."""
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
    """A server that is killed cannot end its workers, and they have its keys."""
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
