"""The shuffler's server: one application for everybody, one for its operator on a Unix socket.

No access log, no address, no time of arrival is kept. Cheap checks come before any decryption.

**Can the clock be believed?** A wrong one would end windows that have just begun, and delete their reports. So it is
compared with two things that nobody sets: how long the machine has been running, and the last time in the
store. If it differs from them by more than is stated here, nothing is taken, sealed or deleted until it is right
again, or until the operator says that it is.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import math
import re
import sqlite3
import time
from collections import Counter, OrderedDict
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from shuffledp.core import __version__
from shuffledp.core.errors import WireError
from shuffledp.live.pages import write_privacy
from shuffledp.live.serve.http import (
    CORS,
    PLAIN,
    asset_routes,
    bind,
    host_of,
    listen,
    problem,
    read_body,
    run_loop,
    show_asset,
)
from shuffledp.live.serve.journal import (
    Health,
    Journal,
    bind_place,
    keep_token,
    make_metrics_app,
    measure_uptime,
    write_counts,
    write_health,
)
from shuffledp.live.serve.pool import Intake, ReportPool
from shuffledp.live.store import AwayError, DamageError, hold, make_private
from shuffledp.live.wire.document import ONE_OPERATOR, read_url
from shuffledp.live.wire.report import MEDIA_TYPE, MOST_REPORTS, split_upload, verify_fetch

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from shuffledp.live.serve.folders import Home
    from shuffledp.live.serve.http import Certificate
    from shuffledp.live.shuffler import Shuffler
    from shuffledp.live.store import Store
    from shuffledp.live.wire.document import Collection


JUMP = 3600.0
"""Seconds by which the clock may differ from the time that has passed since the start."""
ABSENCE = 86_400.0
"""Seconds after the last time in the store at which a shuffler may start without asking."""
_DRIFT = 1e-3  # of an hour, say, four seconds


@dataclass(slots=True, kw_only=True)
class Watch:
    """A time that is trusted, and when it was read, in seconds since the machine was started.

    >>> watch = Watch.start(1000.0, uptime=50.0, last=None)
    >>> watch.judge(1010.0, uptime=60.0)
    >>> watch.judge(9_000_000.0, uptime=61.0)
    'the clock is 104 days ahead of the time that has passed'
    >>> watch.judge(1012.0, uptime=62.0)
    """

    moment: float
    uptime: float
    ahead: float
    """By how much the clock may be ahead; it may be behind by `JUMP`."""

    @classmethod
    def start(cls, now: float, *, uptime: float, last: float | None) -> Watch:
        """Return a watch for a shuffler that starts now; `last` is the last time in its store."""
        if last is None:
            return cls(moment=now, uptime=uptime, ahead=JUMP)
        return cls(moment=last, uptime=uptime, ahead=ABSENCE)

    def judge(self, now: float, *, uptime: float) -> str | None:
        """Return why the clock cannot be believed; None if it can."""
        passed = uptime - self.uptime
        off, slack = now - self.moment - passed, _DRIFT * passed
        if off > self.ahead + slack:
            since = (
                "the last time in the store"
                if self.ahead == ABSENCE
                else "the time that has passed"
            )
            return f"the clock is {_say_time(off)} ahead of {since}"
        if off < -JUMP - slack:
            return f"the clock is {_say_time(-off)} behind the time that has passed"
        # Found plausible after the start: from here on the uptime says more than the last time in the store.
        if self.ahead == ABSENCE:
            self.believe(now, uptime=uptime)
        return None

    def believe(self, now: float, *, uptime: float) -> None:
        """Believe the clock: the operator says that it is right, or there is no reason to doubt it."""
        self.moment, self.uptime, self.ahead = now, uptime, JUMP


def _say_time(seconds: float) -> str:
    """Say how long that is, in hours or days.

    >>> _say_time(7200.0), _say_time(60 * 7 * 86_400.0)
    ('2 hours', '420 days')
    """
    days = seconds / 86_400
    return f"{days:,.0f} days" if days >= 2 else f"{seconds / 3600:,.0f} hours"


MOST_TOKENS = 100_000
"""In one request of the operator."""
_MOST_ADDRESSES = 100_000
_WINDOW = re.compile("0|[1-9][0-9]{0,9}", re.ASCII)
_BEAT = 5.0  # seconds between two writes of the time
_OURSELVES = {"127.0.0.1", "::1", None}
_STATUS = {
    "busy": 429,
    "expired": 410,
    "not_ready": 409,
    "signature": 403,
    "unavailable": 503,
    "unknown_collection": 404,
}


class ClockError(Exception):
    """The clock cannot be believed."""


class AwayStore:
    """Stands in for a store that cannot be opened now, so that everything that needs no store continues."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __getattr__(self, name: str) -> Any:
        raise WireError("unavailable", f"the store cannot be opened: {self.reason}")


def _find_network(address: str | None) -> str | None:
    """Return what one household or machine has of addresses: of IPv6, more than anybody could count.

    >>> _find_network("192.0.2.1"), _find_network("2001:db8::5"), _find_network("::ffff:192.0.2.1")
    ('192.0.2.1', '2001:db8::/64', '192.0.2.1')
    """
    if address is None or ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, 64), strict=False))


class Buckets:
    """A bucket of `size` tokens per address, refilled with `rate` per second. This machine is not limited.

    Of IPv6 a bucket is for all addresses with the same 64 bits before.

    >>> buckets = Buckets(rate=1.0, size=2.0)
    >>> [buckets.allow("192.0.2.1", now) for now in (0.0, 0.0, 0.0, 1.0)]
    [True, True, False, True]
    """

    __slots__ = ("_levels", "_rate", "_size")

    def __init__(self, rate: float = 20.0, size: float = 100.0) -> None:
        self._rate = rate
        self._size = size
        self._levels: OrderedDict[str | None, tuple[float, float]] = OrderedDict()

    def allow(self, address: str | None, now: float) -> bool:
        """Return whether one more request is within the limit."""
        address = _find_network(address) if address not in _OURSELVES else None
        if address in _OURSELVES:
            return True
        level, before = self._levels.pop(address, (self._size, now))
        level = min(self._size, level + (now - before) * self._rate)
        self._levels[address] = (level - 1 if level >= 1 else level, now)
        if len(self._levels) > _MOST_ADDRESSES:
            self._levels.popitem(last=False)
        return level >= 1


class ShufflerServer:
    """The two applications around one shuffler."""

    def __init__(
        self,
        shuffler: Shuffler,
        intake: Intake,
        *,
        token: str,
        buckets: Buckets | None = None,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] = measure_uptime,
        journal: Journal | None = None,
        reopen: Callable[[], Store] | None = None,
        results: str | None = None,
    ) -> None:
        self.shuffler = shuffler
        self._results = results
        self.intake = intake
        self.clock = clock
        self.uptime = uptime
        self.journal = journal or Journal("shuffler", write=lambda _: None, clock=clock)
        self.health = Health(self.journal)
        self._watch: Watch | None = None
        self._beaten = -math.inf
        self._reopen = reopen
        shuffler.note = self.journal.note
        shuffler.prepared = {}
        intake.check = self._check_clock
        intake.on_failure = self._notice
        self._token = token
        self._buckets = buckets or Buckets()
        self._requests: Counter[str] = Counter()
        self._analyzer_seen: float | None = None

    def public(self) -> Starlette:
        """Make the application that devices and the analyzer see."""
        from starlette.applications import Starlette
        from starlette.routing import Mount, Route

        routes = [
            Route("/collections", self._list),
            Route("/collections/{id}", self._document),
            Route("/c/{id}", self._page),
            Route("/c/{id}/privacy", self._privacy),
            *asset_routes(),
            Route("/reports", self._receive, methods=["POST"]),
            Route("/reports", self._preflight, methods=["OPTIONS"]),
            Route("/windows", self._windows),
            Route("/batches/{window}/manifest", self._guard(self._manifest)),
            Route("/batches/{window}", self._guard(self._batch)),
            Route("/batches/{window}/receipt", self._guard(self._receipt), methods=["POST"]),
            Route("/healthz", self._health),
        ]
        return Starlette(
            routes=[*routes, Mount(ONE_OPERATOR, routes=routes)],
            exception_handlers={WireError: self._explain, Exception: self._hide},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.intake.start()
        await self._step()
        ticking = asyncio.create_task(self._tick())
        yield
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        await self.intake.stop()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            await self._step()

    async def _step(self) -> None:
        began = self._watch is not None
        try:
            await self.intake.run(self._work if began else self._begin)
            await self._prepare()
            self.health.mend("seal", uptime=self.uptime())
        except Exception as error:  # a full disk, a damaged store: say so, and try again
            self._notice(error, "seal" if began else "store")
        self.journal.note_refusals(self.shuffler.refused + self._requests, self.uptime())

    async def _prepare(self) -> None:
        """Make the dummies of sealed windows beside everything else: only the writer's next step waits for them."""
        prepared = self.shuffler.prepared
        if prepared is None or isinstance(self.shuffler.store, AwayStore):
            return
        for window in await self.intake.run(lambda: self.shuffler.unprepared):
            prepared[window] = await self.intake.seal_dummies(window)

    def _begin(self) -> None:
        """Inspect the store before anything else: is it whole, and when was it last written?"""
        if self._reopen is not None and isinstance(self.shuffler.store, AwayStore):
            self.shuffler.store = self._reopen()
        self.shuffler.inspect()
        last = self.shuffler.store.last_beat()
        self._watch = Watch.start(self.clock(), uptime=self.uptime(), last=last)
        self._work()

    def _work(self) -> None:
        """Write the time, to see that writing works, and do what is due; neither if the clock cannot be believed."""
        now, uptime = self.clock(), self.uptime()
        self._check_clock(now)
        if uptime - self._beaten >= _BEAT:
            self.shuffler.store.beat(now)
            self._beaten = uptime
            self.health.mend("store", uptime=uptime)
        if self.shuffler.damaged is not None:
            raise DamageError(self.shuffler.damaged)
        self.shuffler.tick(now)

    def _check_clock(self, now: float) -> None:
        """Refuse to go by a clock that cannot be believed."""
        if self._watch is None:
            raise WireError("unavailable", "the store was not opened yet")
        uptime = self.uptime()
        wrong = self._watch.judge(now, uptime=uptime)
        if wrong is not None:
            raise ClockError(
                f"{wrong}: nothing is taken, sealed or deleted; correct the clock, or confirm it with `shuffledp "
                "collection clock --accept`"
            )
        self.health.mend("clock", uptime=uptime)

    def _notice(self, error: Exception, kind: str = "store") -> None:
        """Note what is wrong, for as long as it is."""
        if isinstance(error, WireError) and self.health.sentence is not None:
            return  # it was said
        if isinstance(error, DamageError):
            kind, said = "damage", f"{error}; nothing more is taken, and what is there is kept"
        elif isinstance(error, ClockError):
            kind, said = "clock", str(error)
        else:
            said = f"{type(error).__name__}: {error}"
        self.health.fail(kind, said, uptime=self.uptime())

    def _check_host(self, request: Request) -> None:
        if host_of(request) not in (
            host_of(self.shuffler.collection.url),
            "127.0.0.1",
            "localhost",
        ):
            raise WireError("foreign_host", "this is the shuffler of another address")

    async def _explain(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, WireError)
        self._requests[error.reason] += 1
        return problem(_STATUS.get(error.reason, 400), error.reason, error.sentence)

    async def _hide(self, request: Request, error: Exception) -> Response:
        self._requests["internal"] += 1
        return problem(500, "internal", "something went wrong here")

    async def _health(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        wrong = self.health.kinds
        if wrong:
            return PlainTextResponse(f"failing: {', '.join(wrong)}\n", 503)
        return PlainTextResponse("ok\n")

    async def _list(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        collection = self.shuffler.collection
        content = {"collections": [{"id": collection.id.hex(), "title": collection.title}]}
        return JSONResponse(content, headers=CORS)

    def _find_collection(self, request: Request) -> Collection:
        """Return the collection, if it is the one that was asked for."""
        collection = self.shuffler.collection
        if request.path_params["id"] != collection.id.hex():
            raise WireError("unknown_collection", "there is no such collection here")
        return collection

    async def _document(self, request: Request) -> Response:
        from starlette.responses import Response

        collection = self._find_collection(request)
        return Response(collection.raw, media_type="application/json", headers=CORS)

    async def _page(self, request: Request) -> Response:
        self._find_collection(request)
        where = "'self'" if self._results is None else f"'self' {self._results}"
        return show_asset(request, "/assets/answer.html", connect=where)

    async def _privacy(self, request: Request) -> Response:
        from starlette.responses import HTMLResponse

        return HTMLResponse(write_privacy(self._find_collection(request)), headers=PLAIN)

    async def _preflight(self, request: Request) -> Response:
        from starlette.responses import Response

        allowed = {
            "Access-Control-Allow-Methods": "POST",
            "Access-Control-Allow-Headers": "content-type",
        }
        return Response(status_code=204, headers={**CORS, **allowed})

    async def _receive(self, request: Request) -> Response:
        from starlette.responses import Response

        self._check_host(request)
        if not self._buckets.allow(
            request.client.host if request.client else None, time.monotonic()
        ):
            raise WireError("busy", "too many uploads from one address: come back in a moment")
        if request.headers.get("content-type") != MEDIA_TYPE:
            raise WireError("malformed", f"the media type of an upload is {MEDIA_TYPE}")
        collection = self.shuffler.collection
        body = await read_body(request, 32 + MOST_REPORTS * collection.report_size)
        reply = await self.intake.receive(split_upload(collection, body))
        return Response(reply.raw, media_type="application/json", headers=CORS)

    async def _windows(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        now = self.clock()
        status = await self.intake.run(lambda: self.shuffler.status(now, operator=False))
        return JSONResponse({"windows": status, "results": self._results}, headers=CORS)

    def _guard(self, handler: Callable[[int, Request], Any]) -> Callable[[Request], Any]:
        """Let only the analyzer in, which signs what it asks for."""

        async def guard(request: Request) -> Response:
            collection, said = self.shuffler.collection, request.path_params["window"]
            window = int(said) if _WINDOW.fullmatch(said) else -1
            if not 0 <= window < collection.windows.count:
                raise WireError("unknown_collection", "there is no such window")
            kind, _, signature = request.headers.get("authorization", "").partition(" ")
            try:
                raw = bytes.fromhex(signature) if kind == "Signature" else b""
            except ValueError:
                raw = b""
            verify_fetch(collection, window, raw)
            self._analyzer_seen = self.clock()
            answer: Response = await handler(window, request)
            return answer

        return guard

    async def _manifest(self, window: int, request: Request) -> Response:
        from starlette.responses import JSONResponse

        now = self.clock()
        manifest, signature = await self.intake.run(lambda: self.shuffler.manifest(window, now))
        return JSONResponse({"manifest": manifest.raw.decode(), "signature": signature.hex()})

    async def _batch(self, window: int, request: Request) -> Response:
        from starlette.responses import FileResponse

        path = await self.intake.run(lambda: self.shuffler.batch(window))
        return FileResponse(path, media_type="application/octet-stream")

    async def _receipt(self, window: int, request: Request) -> Response:
        from starlette.responses import Response

        receipt = await read_body(request, 64)
        now = self.clock()
        await self.intake.run(lambda: self.shuffler.take_receipt(window, receipt, now))
        return Response(status_code=204)

    def admin(self) -> Starlette:
        """Make the application that the operator sees: on a Unix socket, with a bearer token, never for a browser."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        return Starlette(
            routes=[
                Route("/status", self._only_operator(self._status)),
                Route("/metrics", self._only_operator(self._metrics)),
                Route("/close", self._only_operator(self._close), methods=["POST"]),
                Route("/clock", self._only_operator(self._believe), methods=["POST"]),
                Route("/tokens", self._only_operator(self._issue), methods=["POST"]),
                Route("/tokens/count", self._only_operator(self._count), methods=["POST"]),
                Route("/healthz", self._health),
            ],
            exception_handlers={WireError: self._explain, Exception: self._hide},
        )

    def _only_operator(self, handler: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def guard(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if "origin" in request.headers or host_of(request) != "localhost":
                return problem(403, "foreign_host", "the operator's socket is not for browsers")
            if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
                return problem(401, "unauthorized", "the bearer token is in shuffler/admin-token")
            answer: Response = await handler(request)
            return answer

        return guard

    async def _status(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        now = self.clock()
        windows = await self.intake.run(lambda: self.shuffler.status(now, operator=True))
        seen = self._analyzer_seen
        return JSONResponse(
            {
                "collection": self.shuffler.collection.id.hex(),
                "accepted": self.shuffler.accepted,
                "rejected": dict(self.shuffler.refused),
                "requests_refused": dict(self._requests),
                "windows": windows,
                "failing": self.health.sentence,
                "analyzer_seen_seconds_ago": None if seen is None else round(now - seen, 1),
            }
        )

    async def _metrics(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(await self.write_metrics())

    async def write_metrics(self) -> str:
        """Return everything that a monitoring system wants to know, line by line."""
        now = self.clock()
        lines = [f"shuffledp_reports_accepted_total {self.shuffler.accepted}"]
        lines += write_counts("reports_rejected_total", "reason", self.shuffler.refused)
        lines += write_counts("requests_refused_total", "reason", self._requests)
        try:
            windows = await self.intake.run(lambda: self.shuffler.status(now, operator=True))
        except Exception as error:  # a sick store is when metrics are needed most
            self._notice(error)
        else:
            lines += self._write_windows(windows, now)
        lines += write_health(self.health)
        seen = -1.0 if self._analyzer_seen is None else now - self._analyzer_seen
        lines.append(f"shuffledp_analyzer_last_contact_seconds {seen:.0f}")
        return "\n".join(lines) + "\n"

    def _write_windows(self, windows: list[dict[str, Any]], now: float) -> list[str]:
        states = Counter(each["state"] for each in windows)
        waiting = [each["window"] for each in windows if each["state"] == "written"]
        closes = self.shuffler.collection.windows.closes
        age = max((now - closes(window) for window in waiting), default=0.0)
        oldest = f"shuffledp_oldest_batch_seconds {max(0.0, age):.0f}"
        return [*write_counts("windows", "state", states), oldest]

    async def _close(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        now = self.clock()
        try:
            self._check_clock(now)
        except ClockError as error:
            raise WireError("clock", str(error)) from None
        await self.intake.run(lambda: self.shuffler.close(now))
        self.journal.note("close")
        windows = await self.intake.run(lambda: self.shuffler.status(now, operator=True))
        return JSONResponse({"windows": windows})

    async def _believe(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        now = self.clock()
        if self._watch is not None:
            self._watch.believe(now, uptime=self.uptime())
        self.journal.note("clock accepted")
        self.health.mend("clock", uptime=self.uptime())
        return JSONResponse({"now": now})

    async def _issue(self, request: Request) -> Response:
        from starlette.responses import Response

        hashes = await self._read_hashes(request)
        await self.intake.run(lambda: self.shuffler.store.issue_tokens(hashes))
        return Response(status_code=204)

    async def _count(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        hashes = await self._read_hashes(request)
        counts = await self.intake.run(lambda: self.shuffler.store.count_tokens(hashes))
        return JSONResponse(counts)

    async def _read_hashes(self, request: Request) -> list[bytes]:
        if not self.shuffler.collection.tokens:
            raise WireError("token", "this collection takes no tokens")
        body = await read_body(request, 32 * MOST_TOKENS)
        if not body or len(body) % 32:
            raise WireError("token", "the hashes of tokens have 32 bytes each")
        return [body[place : place + 32] for place in range(0, len(body), 32)]


def run_shuffler(
    home: Home,
    *,
    host: str,
    port: int,
    workers: int | None = None,
    metrics: str | None = None,
    results: str | None = None,
    certificate: Certificate | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal comes; then answer what was taken, and end. `ready` is called once it listens.

    `metrics` is the address at which a monitoring system may ask, with the token in `shuffler/metrics-token`.
    `results` is the address of the analyzer's page, whose results people see once they are published. With a
    certificate everybody is served by TLS, except for the operator on the socket and for monitoring.
    """
    where = None if results is None else read_url(results.rstrip("/"))
    journal = Journal("shuffler")
    with hold(make_private(home.desk), "shuffler"), bind(host, port) as place, ExitStack() as more:
        shuffler = _open(home, journal)
        token = keep_token(home.shuffler / "admin-token", journal)
        asked = None if metrics is None else more.enter_context(bind_place(metrics))
        home.socket.unlink(missing_ok=True)
        pool = ReportPool(shuffler.collection, dict(shuffler.secrets.outer), workers)

        async def serve() -> None:
            intake = Intake(shuffler, pool=pool)
            server = ShufflerServer(
                shuffler,
                intake,
                token=token,
                journal=journal,
                reopen=home.open_store,
                results=where,
            )
            journal.note("start", version=__version__, collection=shuffler.collection.id.hex())
            ready()
            apps: list[tuple[Starlette, socket.socket | Path]] = [
                (server.public(), place),
                (server.admin(), home.socket),
            ]
            if asked is not None:
                reader = keep_token(home.shuffler / "metrics-token", journal)
                apps.append((make_metrics_app(reader, server.write_metrics), asked))
            await listen(*apps, guarded={place: certificate} if certificate else None)

        try:
            run_loop(serve())
        finally:
            journal.note("stop")
            home.socket.unlink(missing_ok=True)


def _open(home: Home, journal: Journal) -> Shuffler:
    """Return the shuffler, also if its store cannot be opened now: it can still show documents, and try again."""
    try:
        store = home.open_store()
    except (sqlite3.OperationalError, AwayError) as error:
        journal.note("failing", kind="store", reason=str(error))
        store = cast("Store", AwayStore(str(error)))
    return home.open_shuffler(store)
