"""Connections that do not wait for ever: a client that sends a request too slowly, or too long a head, is cut off.

The server underneath has a limit for idle connections between two requests, and none for a request that never ends, nor
for an answer that nobody reads.
So its class for connections is extended here, by callbacks that asyncio and httptools name:
tests/live/serve/test_limits.py sees that they are still called that."""

import asyncio
import resource
from contextlib import suppress
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_PATIENCE = 30.0
_MOST_HEAD = 1 << 16
_LEAST_READ = 1 << 14


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
    """HTTP/1.1, where a request must arrive within half a minute, its head in 64 KiB, and answers must be read.

    If there are more connections than files, whoever has kept us waiting longest is hung up on.
    """

    most: ClassVar[int] = _MOST_CONNECTIONS
    _open: ClassVar[int] = 0
    _slow: ClassVar[dict["ImpatientProtocol", None]] = {}
    """Connections on which a request has not arrived whole, or whose other end reads no answer, the longest first."""
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _waits = 0
    _full = False
    _asked = False
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
        self._stop_reading()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > _MOST_HEAD:
                self.transport.close()

    def on_message_begin(self) -> None:
        if not self._full:  # the answer before it was read, or is short
            self._stop_reading()
        self._in_head, self._head = True, 0
        self._start()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._asked and not self.cycle.response_complete:
            # Nobody honest asks again before there is an answer. The server underneath would make a queue of it, and log a
            # traceback once whoever asks hangs up.
            self.cycle.disconnected = True
            self.transport.abort()
            return
        self._asked = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = True
        self._await_reader()

    def resume_writing(self) -> None:
        self._full = False
        self._stop_reading()
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Nobody waits for the end of it, not even who closes.
        if self.transport.get_write_buffer_size():
            self._await_reader()

    def _await_reader(self) -> None:
        """Give whoever asked half a minute to read on, before what waits takes up memory and a file for ever."""
        if self._reading is None:
            self._waits = self.transport.get_write_buffer_size()
            self._reading = self.loop.call_later(_PATIENCE, self._give_up)
            self._slow[self] = None

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        if self._timer is None:
            self._slow.pop(self, None)

    def _give_up(self) -> None:
        self._reading = None
        waits = self.transport.get_write_buffer_size()
        if waits and waits <= self._waits - _LEAST_READ:  # slowly, but it is read
            self._await_reader()
            return
        self._slow.pop(self, None)
        if waits:
            self.transport.abort()

    def _start(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_PATIENCE, self._hang_up)
            self._slow[self] = None

    def _stop(self) -> None:
        if self._reading is None:
            self._slow.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self) -> None:
        self._timer = None
        self._slow.pop(self, None)
        self.transport.close()
