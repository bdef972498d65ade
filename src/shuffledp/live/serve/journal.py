"""What a role did and could not do: a line of JSON for each event, without people in it.

Starts, seals, expiries, failures and their end; refusals as counts, once the ten minutes are over in which they were,
because the moment of a single one may be the moment at which somebody took part.

A monitoring system has an address of its own, and a token that lets it read and do nothing else.
"""

from __future__ import annotations

import hmac
import json
import secrets as randomness
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shuffledp.core.errors import DataError
from shuffledp.live.serve.http import bind, problem
from shuffledp.live.store import read_private, write_once

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


_OFTEN = 600.0  # seconds, each with a line about its refusals
_HELD = 10.0  # seconds for which a failure is shown, at least


def measure_uptime() -> float:
    """Return the seconds since the machine was started, sleep included where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def _write_line(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Journal:
    """The log of a role.

    >>> lines = []
    >>> Journal("shuffler", write=lines.append, clock=lambda: 0.0).note("seal", window=3, reports=1200)
    >>> lines
    ['{"time": "1970-01-01T00:00:00Z", "role": "shuffler", "event": "seal", "window": 3, "reports": 1200}']
    """

    def __init__(
        self,
        role: str,
        *,
        write: Callable[[str], object] = _write_line,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._role = role
        self._write = write
        self._clock = clock
        self._refused: Counter[str] = Counter()
        self._period: float | None = None

    def note(self, event: str, **facts: object) -> None:
        """Write a line. A log that cannot be written is no reason to stop."""
        moment = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        line = {"time": moment.replace("+00:00", "Z"), "role": self._role, "event": event, **facts}
        try:
            self._write(json.dumps(line))
        except OSError:
            return

    def note_refusals(self, refused: Mapping[str, int], uptime: float) -> None:
        """Write how many more there are by reason than in the last such line, if ten minutes are over.

        They begin when they begin, not with a refusal: otherwise the line about a lone one would tell its moment.
        """
        before, self._period = self._period, uptime // _OFTEN
        if before in (None, self._period):
            return
        more = {reason: n - self._refused[reason] for reason, n in sorted(refused.items())}
        more = {reason: n for reason, n in more.items() if n}
        if more:
            self._refused = Counter(refused)
            self.note("refused", reasons=more)


class Health:
    """What is wrong now, by kind: clock, damage, store, seal.

    >>> health = Health(Journal("shuffler", write=lambda line: None))
    >>> health.fail("store", "the disk is full", uptime=0.0)
    >>> health.sentence
    'the disk is full'
    >>> health.mend("store", uptime=1.0)       # held for a while: uploads may fail though a small write did not
    >>> health.mend("store", uptime=60.0)
    >>> health.sentence is None
    True
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._wrong: dict[str, tuple[str, float]] = {}
        self.failures: Counter[str] = Counter()
        """How often something failed, by kind, since the start."""

    def fail(self, kind: str, sentence: str, *, uptime: float) -> None:
        """Note that something is wrong; the log gets a line the first time."""
        self.failures[kind] += 1
        if kind not in self._wrong:
            self._journal.note("failing", kind=kind, reason=sentence)
        self._wrong[kind] = (sentence, uptime)

    def mend(self, kind: str, *, uptime: float) -> None:
        """Note that it works again."""
        if kind in self._wrong and (kind != "store" or uptime - self._wrong[kind][1] >= _HELD):
            del self._wrong[kind]
            self._journal.note("mended", kind=kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is wrong, in a word each."""
        return tuple(sorted(self._wrong))

    @property
    def sentence(self) -> str | None:
        """What is wrong, for the operator; None if nothing is."""
        said = [self._wrong[kind][0] for kind in self.kinds]
        return "; ".join(said) or None


def keep_token(path: Path, journal: Journal) -> str:
    """Return the token that is there, so that whoever has it can keep it, or a new one.

    Several shufflers of one folder may start at the same moment: the first one's token is that of all.
    """
    if not path.exists():
        token = randomness.token_hex(16)
        try:
            write_once(path, token.encode())
        except FileExistsError:
            pass
        except OSError as error:
            journal.note("failing", kind="store", reason=f"{path.name} cannot be written: {error}")
            return token
    return read_private(path).decode().strip()


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
    """Return an app that shows `/metrics` to whoever has the token."""
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
    """Return a line for each count.

    >>> write_counts("windows", "state", {"open": 1, "deleted": 3})
    ['shuffledp_windows{state="deleted"} 3', 'shuffledp_windows{state="open"} 1']
    """
    return [
        f'shuffledp_{name}{{{label}="{kind}"}} {number}' for kind, number in sorted(counts.items())
    ]


def write_health(health: Health) -> list[str]:
    """Return a line that says whether something is wrong now, and a line for each kind of failure so far."""
    failing = f"shuffledp_failing {int(health.sentence is not None)}"
    return [failing, *write_counts("failures_total", "kind", health.failures)]
