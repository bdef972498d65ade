"""What both servers share: bodies that are bounded, errors as problem documents (RFC 9457), and how to listen."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shuffledp.core.errors import DataError, UnsupportedError, WireError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from shuffledp.live.serve.tls import Certificate

__all__ = ["CORS", "bind", "host_of", "listen", "problem", "read_body", "require_serve", "run_loop"]

CORS = {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"}
"""The page may come from elsewhere, on purpose. Nothing here depends on who asks: no cookie, no credentials."""


def require_serve() -> None:
    """Say what to install if the web stack is missing."""
    try:
        import httptools  # noqa: F401
        import httpx  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"live collections need {error.name}: install the extra shuffledp[serve]"
        ) from error


def problem(status: int, reason: str, sentence: str, *, field: str | None = None) -> Response:
    """An error that programs and people can read, perhaps about a field; never the text of an exception."""
    from starlette.responses import JSONResponse

    content: dict[str, Any] = {
        "type": "about:blank",
        "title": reason,
        "status": status,
        "detail": sentence,
    }
    content |= {} if field is None else {"field": field}
    headers = {**CORS, **({"Retry-After": "1"} if status in (429, 503) else {})}
    return JSONResponse(content, status, headers, media_type="application/problem+json")


async def read_body(request: Request, most: int) -> bytes:
    """The body, never more than it may be, and never compressed."""
    if "content-encoding" in request.headers:
        raise WireError("malformed", "uploads are not compressed")
    try:
        stated = int(request.headers.get("content-length", "0"))
    except ValueError:
        raise WireError("malformed", "the length of the body is not a number") from None
    if stated > most:
        raise WireError("malformed", f"the body has more than {most} bytes")
    from starlette.requests import ClientDisconnect

    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                raise WireError("malformed", f"the body has more than {most} bytes")
    except ClientDisconnect:
        raise WireError("malformed", "the body ended early") from None
    return bytes(body)


def host_of(where: Request | str) -> str:
    """The host that was asked for, without its port.

    >>> host_of("http://127.0.0.1:8000")
    '127.0.0.1'
    """
    text = where if isinstance(where, str) else "//" + where.headers.get("host", "")
    try:
        return urlsplit(text).hostname or ""
    except ValueError:
        return ""


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """To the end, on the faster loop where there is one."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; an error in words if it cannot."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise DataError(f"{host}:{port} cannot be listened on: {error.strerror or error}") from None


async def listen(
    *servers: tuple[Starlette, socket.socket | Path],
    guarded: Mapping[socket.socket, Certificate] | None = None,
) -> None:
    """Serve several applications, each on a socket or on the path of one, in this loop until SIGINT or SIGTERM.

    Sockets in `guarded` speak TLS, with their certificates.
    """
    import uvicorn

    from shuffledp.live.serve.connections import ImpatientProtocol, limit_connections

    ImpatientProtocol.most = limit_connections()

    class Quiet(uvicorn.Server):
        """A server without signal handlers of its own."""

        def capture_signals(self) -> Any:
            from contextlib import nullcontext

            return nullcontext()

    def find(place: socket.socket | Path) -> tuple[str | None, str | None]:
        found = None if isinstance(place, Path) else (guarded or {}).get(place)
        return (None, None) if found is None else (str(found.chain), str(found.key))

    running = [
        Quiet(
            uvicorn.Config(
                app,
                access_log=False,
                log_level="error",
                server_header=False,
                date_header=False,
                http=ImpatientProtocol,
                ws="none",
                timeout_keep_alive=30,
                timeout_graceful_shutdown=5,
                uds=str(place) if isinstance(place, Path) else None,
                ssl_certfile=find(place)[0],
                ssl_keyfile=find(place)[1],
            )
        )
        for app, place in servers
    ]

    def stop() -> None:
        for each in running:
            each.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    places = [None if isinstance(place, Path) else [place] for _, place in servers]
    await asyncio.gather(*(each.serve(place) for each, place in zip(running, places, strict=True)))
