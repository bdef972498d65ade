"""Connections that do not wait for ever: a client that sends a request too slowly, or too long a head, is cut off.

The server underneath has a limit for idle connections between two requests, and none for a request that never ends.
So its class for connections is extended here, by callbacks that asyncio and httptools name:
tests/live/serve/test_limits.py sees that they are still called that."""

import asyncio
import resource
from contextlib import suppress
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_PATIENCE = 30.0
_MOST_HEAD = 1 << 16


_SPARE_FILES = 128
_MOST_CONNECTIONS = 4096


def limit_connections() -> int:
    """Count the connections that fit the files that this process may open, as many as it can get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_CONNECTIONS + _SPARE_FILES
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    fitting = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - _SPARE_FILES
    return max(16, min(_MOST_CONNECTIONS, fitting))


class ImpatientProtocol(HttpToolsProtocol):
    """HTTP/1.1, where a request must arrive within half a minute, its head in 64 KiB.

    If there are more connections than files, whoever has kept us waiting for a request longest is hung up on.
    """

    most: ClassVar[int] = _MOST_CONNECTIONS
    _open: ClassVar[int] = 0
    _slow: ClassVar[dict["ImpatientProtocol", None]] = {}
    """Connections on which a request has not arrived whole, the longest first."""
    _timer: asyncio.TimerHandle | None = None
    _in_head = True
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        ImpatientProtocol._open += 1
        if ImpatientProtocol._open > ImpatientProtocol.most and self._slow:
            next(iter(self._slow)).transport.abort()
        self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        ImpatientProtocol._open -= 1
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > _MOST_HEAD:
                self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        self._start()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop()
        super().on_message_complete()

    def _start(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_PATIENCE, self._hang_up)
            self._slow[self] = None

    def _stop(self) -> None:
        self._slow.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self) -> None:
        self._timer = None
        self._slow.pop(self, None)
        self.transport.close()
