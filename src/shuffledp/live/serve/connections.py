"""Connections that do not wait for ever: whoever sends a request too slowly, or too long a head, is hung up on.

The server underneath has a limit for idle connections between two requests, and none for a request that never ends.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["ImpatientProtocol"]

_PATIENCE = 30.0
_MOST_HEAD = 1 << 16


class ImpatientProtocol(HttpToolsProtocol):
    """HTTP/1.1, where a request must arrive within half a minute, its head in 64 KiB."""

    _timer: asyncio.TimerHandle | None = None
    _in_head = True
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def connection_lost(self, exc: Exception | None) -> None:
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

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self) -> None:
        self._timer = None
        self.transport.close()
