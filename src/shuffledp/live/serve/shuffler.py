"""The shuffler's server: one application for everybody, one for its operator on a Unix socket.

No access log, no address, no time of arrival is kept. Cheap checks come before any decryption.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets as randomness
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from shuffledp.core.errors import WireError
from shuffledp.live.disk import hold, write_whole
from shuffledp.live.serve.http import CORS, host_of, listen, problem, read_body, run_loop
from shuffledp.live.serve.intake import Intake
from shuffledp.live.serve.pages import asset_routes, show_asset
from shuffledp.live.serve.pool import ReportPool
from shuffledp.live.wire.batch import verify_fetch
from shuffledp.live.wire.report import MEDIA_TYPE, MOST_REPORTS, split_upload

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from shuffledp.live.serve.folders import Home
    from shuffledp.live.shuffler import Shuffler

__all__ = ["MOST_TOKENS", "Buckets", "ShufflerServer", "run_shuffler"]

MOST_TOKENS = 100_000
"""In one request of the operator."""
_MOST_ADDRESSES = 100_000
_OURSELVES = {"127.0.0.1", "::1", None}
_STATUS = {
    "busy": 429,
    "expired": 410,
    "not_ready": 409,
    "signature": 403,
    "unavailable": 503,
    "unknown_collection": 404,
}


class Buckets:
    """A bucket of `size` tokens per address, refilled with `rate` per second. This machine is not limited.

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
        """Whether one more request is within the limit."""
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
    ) -> None:
        self.shuffler = shuffler
        self.intake = intake
        self.clock = clock
        self._token = token
        self._buckets = buckets or Buckets()
        self._requests: Counter[str] = Counter()
        self._analyzer_seen: float | None = None
        self._failing: str | None = None
        """Why windows cannot be sealed or batches written now; for the operator."""

    def public(self) -> Starlette:
        """What devices and the analyzer see."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        return Starlette(
            routes=[
                Route("/collections", self._list),
                Route("/collections/{id}", self._document),
                Route("/c/{id}", self._page),
                *asset_routes(),
                Route("/reports", self._receive, methods=["POST"]),
                Route("/reports", self._preflight, methods=["OPTIONS"]),
                Route("/windows", self._windows),
                Route("/batches/{window:int}/manifest", self._guard(self._manifest)),
                Route("/batches/{window:int}", self._guard(self._batch)),
                Route(
                    "/batches/{window:int}/receipt", self._guard(self._receipt), methods=["POST"]
                ),
                Route("/healthz", self._health),
            ],
            exception_handlers={WireError: self._explain, Exception: self._hide},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.intake.start()
        ticking = asyncio.create_task(self._tick())
        yield
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        await self.intake.stop()

    async def _tick(self) -> None:
        while True:
            try:
                await self.intake.run(lambda: self.shuffler.tick(self.clock()))
                self._failing = None
            except Exception as error:  # a full disk, a damaged store: say so, and try again
                self._failing = f"{type(error).__name__}: {error}"
            await asyncio.sleep(0.5)

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

        return PlainTextResponse("ok\n")

    async def _list(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        collection = self.shuffler.collection
        content = {"collections": [{"id": collection.id.hex(), "title": collection.title}]}
        return JSONResponse(content, headers=CORS)

    async def _document(self, request: Request) -> Response:
        from starlette.responses import Response

        collection = self.shuffler.collection
        if request.path_params["id"] != collection.id.hex():
            raise WireError("unknown_collection", "there is no such collection here")
        return Response(collection.raw, media_type="application/json", headers=CORS)

    async def _page(self, request: Request) -> Response:
        if request.path_params["id"] != self.shuffler.collection.id.hex():
            raise WireError("unknown_collection", "there is no such collection here")
        return show_asset(request, "/assets/answer.html")

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
        return JSONResponse({"windows": status}, headers=CORS)

    def _guard(self, handler: Callable[[int, Request], Any]) -> Callable[[Request], Any]:
        """Let only the analyzer in, which signs what it asks for."""

        async def guard(request: Request) -> Response:
            window = int(request.path_params["window"])
            collection = self.shuffler.collection
            if window >= collection.windows.count:
                raise WireError("unknown_collection", f"there is no window {window}")
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
        """What the operator sees: on a Unix socket, with a bearer token, never for a browser."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        return Starlette(
            routes=[
                Route("/status", self._only_operator(self._status)),
                Route("/metrics", self._only_operator(self._metrics)),
                Route("/close", self._only_operator(self._close), methods=["POST"]),
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
                "failing": self._failing,
                "analyzer_seen_seconds_ago": None if seen is None else round(now - seen, 1),
            }
        )

    async def _metrics(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        now = self.clock()
        windows = await self.intake.run(lambda: self.shuffler.status(now, operator=True))
        return PlainTextResponse(self._write_metrics(windows, now))

    def _write_metrics(self, windows: list[dict[str, Any]], now: float) -> str:
        lines = [f"shuffledp_reports_accepted_total {self.shuffler.accepted}"]
        for name, counts in (
            ("reports_rejected", self.shuffler.refused),
            ("requests_refused", self._requests),
        ):
            lines += [
                f'shuffledp_{name}_total{{reason="{reason}"}} {number}'
                for reason, number in sorted(counts.items())
            ]
        states = Counter(each["state"] for each in windows)
        lines += [
            f'shuffledp_windows{{state="{state}"}} {number}'
            for state, number in sorted(states.items())
        ]
        waiting = [each["window"] for each in windows if each["state"] == "written"]
        closes = self.shuffler.collection.windows.closes
        age = max((now - closes(window) for window in waiting), default=0.0)
        lines.append(f"shuffledp_oldest_batch_seconds {max(0.0, age):.0f}")
        lines.append(f"shuffledp_failing {int(self._failing is not None)}")
        seen = -1.0 if self._analyzer_seen is None else now - self._analyzer_seen
        lines.append(f"shuffledp_analyzer_last_contact_seconds {seen:.0f}")
        return "\n".join(lines) + "\n"

    async def _close(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        now = self.clock()
        await self.intake.run(lambda: self.shuffler.close(now))
        windows = await self.intake.run(lambda: self.shuffler.status(now, operator=True))
        return JSONResponse({"windows": windows})

    async def _issue(self, request: Request) -> Response:
        from starlette.responses import Response

        hashes = await self._read_hashes(request)
        await self.intake.run(lambda: self.shuffler.store.issue_tokens(hashes))
        return Response(status_code=204)

    async def _count(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        hashes = await self._read_hashes(request)
        found = await self.intake.run(lambda: self.shuffler.store.count_tokens(hashes))
        return JSONResponse(found)

    async def _read_hashes(self, request: Request) -> list[bytes]:
        if not self.shuffler.collection.tokens:
            raise WireError("token", "this collection takes no tokens")
        body = await read_body(request, 32 * MOST_TOKENS)
        if not body or len(body) % 32:
            raise WireError("token", "the hashes of tokens have 32 bytes each")
        return [body[place : place + 32] for place in range(0, len(body), 32)]


def run_shuffler(home: Home, *, host: str, port: int, workers: int | None = None) -> None:
    """Serve until a signal comes; then answer what was taken, and end."""
    shuffler = home.open_shuffler()
    with hold(home.shuffler, "shuffler"):
        token = randomness.token_hex(16)
        write_whole(home.shuffler / "admin-token", [token.encode()])
        home.socket.unlink(missing_ok=True)
        pool = ReportPool(shuffler.collection, dict(shuffler.secrets.outer), workers)

        async def serve() -> None:
            intake = Intake(shuffler, pool=pool)
            server = ShufflerServer(shuffler, intake, token=token)
            await listen(
                (server.public(), {"host": host, "port": port}),
                (server.admin(), {"uds": str(home.socket)}),
            )

        try:
            run_loop(serve())
        finally:
            home.socket.unlink(missing_ok=True)
