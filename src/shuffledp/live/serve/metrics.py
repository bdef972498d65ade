"""What a monitoring system asks for: an address of its own, and a token that lets it read and do nothing else."""

from __future__ import annotations

import hmac
import secrets as randomness
from typing import TYPE_CHECKING

from shuffledp.core.errors import DataError
from shuffledp.live.disk import read_private, write_whole
from shuffledp.live.serve.http import bind, problem

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from shuffledp.live.serve.journal import Health, Journal

__all__ = ["bind_place", "keep_token", "make_metrics_app", "write_counts", "write_health"]


def keep_token(path: Path, journal: Journal) -> str:
    """The token that is there, so that whoever has it can keep it, or a new one."""
    if path.exists():
        return read_private(path).decode().strip()
    token = randomness.token_hex(16)
    try:
        write_whole(path, [token.encode()])
    except OSError as error:
        journal.note("failing", kind="store", reason=f"{path.name} cannot be written: {error}")
    return token


def bind_place(said: str) -> socket.socket:
    """Listen on a port of this machine, or on HOST:PORT.

    >>> bind_place("9100 please")
    Traceback (most recent call last):
    ...
    shuffledp.core.errors.DataError: metrics='9100 please' must be a port or HOST:PORT
    """
    host, _, port = said.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise DataError(f"metrics={said!r} must be a port or HOST:PORT")
    return bind(host.strip("[]") or "127.0.0.1", int(port))


def make_metrics_app(token: str, write: Callable[[], Awaitable[str]]) -> Starlette:
    """`/metrics` for whoever has the token."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def show(request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return problem(401, "unauthorized", "the bearer token is in the file metrics-token")
        return PlainTextResponse(await write(), media_type="text/plain; version=0.0.4")

    return Starlette(routes=[Route("/metrics", show)])


def write_counts(name: str, label: str, counts: Mapping[str, int]) -> list[str]:
    """A line for each count.

    >>> write_counts("windows", "state", {"open": 1, "deleted": 3})
    ['shuffledp_windows{state="deleted"} 3', 'shuffledp_windows{state="open"} 1']
    """
    return [
        f'shuffledp_{name}{{{label}="{kind}"}} {number}' for kind, number in sorted(counts.items())
    ]


def write_health(health: Health) -> list[str]:
    """Whether something is wrong, and how often it was."""
    failing = f"shuffledp_failing {int(health.sentence is not None)}"
    return [failing, *write_counts("failures_total", "kind", health.failures)]
