"""The analyzer's server: asks the shuffler for batches, opens them, and shows what was published."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from shuffledp.core import __version__
from shuffledp.core.errors import ShuffledpError, WireError
from shuffledp.live.analyzer import FINAL
from shuffledp.live.results import XLSX, describe_collection, show_page, write_csv, write_xlsx
from shuffledp.live.serve.client import ask, ask_manifest, connect, read_at_most
from shuffledp.live.serve.http import (
    CORS,
    PLAIN,
    asset_routes,
    bind,
    listen,
    problem,
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
from shuffledp.live.serve.pool import RecordPool
from shuffledp.live.store import hold

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    import httpx
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from shuffledp.live.analyzer import Analyzer
    from shuffledp.live.serve.folders import Home
    from shuffledp.live.serve.http import Certificate


_MOST_BATCH = 1 << 32
_SHORT = 1 << 14  # bytes of a reply that says hardly anything


def work_once(
    analyzer: Analyzer,
    sign: bytes,
    client: httpx.Client,
    say: Callable[[Exception], None] = lambda _: None,
) -> dict[int, str]:
    """Ask for every window that is not done yet; return why each remaining one is waiting.

    What only the operator may know, such as a ledger that refuses, goes to `say`; other windows go on.
    """
    import httpx

    waiting: dict[int, str] = {}
    collection = analyzer.collection
    for window in range(collection.windows.count):
        try:
            _work_on(analyzer, sign, client, window)
        except WireError as error:
            waiting[window] = str(error)
            if error.reason == "not_ready":
                break  # later ones are not ready either
        except httpx.HTTPError:
            waiting[window] = f"the shuffler at {collection.url} cannot be reached"
            break
        except ShuffledpError as error:  # a budget, say
            waiting[window] = "it cannot be published now; the operator is told why"
            say(error)
    return waiting


def _work_on(analyzer: Analyzer, sign: bytes, client: httpx.Client, window: int) -> None:
    state = analyzer.states().get(window)
    if state in FINAL and window in analyzer.confirmed:
        return
    manifest, signature, header = ask_manifest(client, analyzer.collection, window, sign)
    if state is None:

        def fetch(size: int) -> bytes:
            if size > _MOST_BATCH:
                raise WireError(
                    "batch", f"it has {size:,} bytes; the analyzer takes up to {_MOST_BATCH:,}"
                )
            return read_at_most(client, f"/batches/{window}", size, header)

        analyzer.take(manifest, signature, fetch)
    analyzer.advance(window)
    receipt = analyzer.receipt(window)
    status, _ = ask(
        client,
        "POST",
        f"/batches/{window}/receipt",
        most=_SHORT,
        headers=header,
        content=receipt,
    )
    if status == 204:
        analyzer.confirmed.add(window)


def run_analyzer(
    home: Home,
    *,
    host: str,
    port: int,
    workers: int | None = None,
    every: float = 2.0,
    metrics: str | None = None,
    certificate: Certificate | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Work and serve until a signal comes, with TLS if there is a certificate; `ready` is called once it listens.

    `metrics` is the address at which a monitoring system may ask, with the token in `analyzer/metrics-token`.
    """
    analyzer = home.open_analyzer(RecordPool(workers))
    with hold(home.analyzer, "analyzer"), bind(host, port) as place, ExitStack() as more:
        asked = None if metrics is None else more.enter_context(bind_place(metrics))
        ready()
        _run(home, analyzer, place, asked, every, certificate)


class Contact:
    """When the shuffler last answered."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None

    def note(self, waiting: dict[int, str]) -> None:
        """Look at why windows are waiting: is it because nobody answers?"""
        if not any("cannot be reached" in reason for reason in waiting.values()):
            self._last = self._clock()

    @property
    def seconds(self) -> float:
        """How long ago that was; -1: never."""
        return -1.0 if self._last is None else self._clock() - self._last


def write_metrics(
    analyzer: Analyzer, waiting: dict[int, str], health: Health, contact: Contact
) -> str:
    """Return everything that a monitoring system wants to know about the analyzer, line by line."""
    states = analyzer.states()
    dropped: Counter[str] = Counter()
    for window in states:
        dropped.update(analyzer.count_dropped(window))
    lines = write_counts("windows", "state", Counter(states.values()))
    lines += write_counts("messages_dropped_total", "reason", dropped)
    lines.append(f"shuffledp_windows_waiting {len(waiting)}")
    lines += write_health(health)
    lines.append(f"shuffledp_shuffler_last_contact_seconds {contact.seconds:.0f}")
    return "\n".join(lines) + "\n"


def _run(
    home: Home,
    analyzer: Analyzer,
    place: socket.socket,
    asked: socket.socket | None,
    every: float,
    certificate: Certificate | None,
) -> None:
    ending = threading.Event()
    waiting: dict[int, str] = {}
    journal = Journal("analyzer")
    health = Health(journal)
    contact = Contact()

    def notice(error: Exception) -> None:
        health.fail("work", f"{type(error).__name__}: {error}", uptime=measure_uptime())

    def work() -> None:
        while not ending.is_set():
            before = health.failures.total()
            try:
                with connect(analyzer.collection.url, certificate) as client:
                    reasons = work_once(analyzer, analyzer.sign, client, notice)
            except Exception as error:  # a full disk, a damaged store: say so, and try again
                notice(error)
                reasons = {-1: "the analyzer cannot work now; its operator is told why"}
            if health.failures.total() == before:
                health.mend("work", uptime=measure_uptime())
            waiting.clear()
            waiting.update(reasons)
            contact.note(reasons)
            ending.wait(every)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    journal.note("start", version=__version__, collection=analyzer.collection.id.hex())
    try:
        apps: list[tuple[Starlette, socket.socket | Path]] = [
            (make_app(analyzer, waiting, health), place)
        ]
        if asked is not None:

            async def write() -> str:
                return write_metrics(analyzer, dict(waiting), health, contact)

            token = keep_token(home.analyzer / "metrics-token", journal)
            apps.append((make_metrics_app(token, write), asked))
        run_loop(listen(*apps, guarded={place: certificate} if certificate else None))
    finally:
        journal.note("stop")
        ending.set()
        worker.join(timeout=30)
        analyzer.close()


def _read_results(analyzer: Analyzer, health: Health | None) -> list[dict[str, Any]]:
    """Return what was published. Why it cannot be shown is for the operator alone."""
    try:
        results = analyzer.results()
    except Exception as error:
        if health is not None:
            said = f"{type(error).__name__}: {error}"
            health.fail("results", said, uptime=measure_uptime())
        raise WireError(
            "unavailable", "the results cannot be shown now; their operator is told why"
        ) from None
    if health is not None:
        health.mend("results", uptime=measure_uptime())
    return results


async def _explain(_: Request, error: Exception) -> Response:
    assert isinstance(error, WireError)
    return problem(503, error.reason, error.sentence)


def make_app(
    analyzer: Analyzer, waiting: dict[int, str], health: Health | None = None
) -> Starlette:
    """Make the application that readers of the result see."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    safe = PLAIN
    read = partial(_read_results, analyzer, health)
    about = describe_collection(analyzer.collection)

    def save(name: str, write: Callable[[], Response]) -> Callable[[Request], Any]:
        """Let people save what is written under a name, and pages of other addresses read it."""

        async def answer(_: Request) -> Response:
            reply = write()
            kept = {"Content-Disposition": f'attachment; filename="{name}"'}
            reply.headers.update({**safe, **CORS, **kept})
            return reply

        return answer

    files: dict[str, Callable[[], Response]] = {
        "results.json": lambda: JSONResponse({"collection": about, "results": read()}),
        "results.csv": lambda: Response(write_csv(read()), media_type="text/csv"),
        "results.xlsx": lambda: Response(write_xlsx(read()), media_type=XLSX),
    }

    async def page(request: Request) -> Response:
        return show_asset(request, "/assets/result.html")

    async def plain(_: Request) -> Response:
        return HTMLResponse(show_page(analyzer.collection, read()), headers=safe)

    async def tell_health(_: Request) -> Response:
        wrong = () if health is None else health.kinds
        if wrong:
            return PlainTextResponse(f"failing: {', '.join(wrong)}\n", 503)
        return PlainTextResponse("ok\n")

    async def status(_: Request) -> Response:
        states = {str(window): state for window, state in analyzer.states().items()}
        reasons = {str(window): reason for window, reason in waiting.items()}
        return JSONResponse({"windows": states, "waiting": reasons}, headers=safe)

    handlers: list[tuple[str, Callable[[Request], Any]]] = [
        ("/", page),
        ("/results.html", plain),
        *((f"/{name}", save(name, write)) for name, write in files.items()),
        ("/status", status),
        ("/healthz", tell_health),
    ]
    routes = [Route(path, handler) for path, handler in handlers]
    return Starlette(routes=[*routes, *asset_routes()], exception_handlers={WireError: _explain})
