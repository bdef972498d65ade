"""The operator's desk: a page on this machine alone that plans surveys, starts them, and shows how they are doing.

It listens on loopback and wants the bearer token that the command prints: no cookie, no foreign host or origin.
"""

from __future__ import annotations

import hmac
import json
import math
import re
import secrets as randomness
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.display import list_numbers
from shuffledp.core.domain import Reals
from shuffledp.core.errors import (
    DataError,
    ParameterError,
    ShuffledpError,
    UnsupportedError,
)
from shuffledp.live.design import (
    Settings,
    choose_protocols,
    compare_noise,
    make_collection,
    measure_influence,
)
from shuffledp.live.serve.client import Operator, connect
from shuffledp.live.serve.folders import Home, Place, Role, start_roles, stop_roles
from shuffledp.live.serve.http import (
    LOOPBACK,
    asset_routes,
    bind,
    host_of,
    listen,
    problem,
    read_body,
    run_loop,
    show_asset,
)
from shuffledp.live.serve.rehearse import make_decreasing_law
from shuffledp.live.store import make_private, write_whole
from shuffledp.live.wire.document import LARGEST_FLOOR
from shuffledp.live.wire.strict import read_json
from shuffledp.planner.rows import foresee_estimate, measure_sight
from shuffledp.protocols.one_question import foresee_variance
from shuffledp.questions import Survey

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from shuffledp.live.design import Design
    from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
    from shuffledp.live.wire.document import Collection
    from shuffledp.live.wire.question import Question

    _Work = Callable[[Request, dict[str, Any]], Any]

_Z, _LEVEL = 1.96, 0.95  # of a 95 % interval
_MOST_BYTES = 1 << 18
_SOLVED = 0.01
_MOST_DRAFTS, _FRESH = 8, 600  # a document fixes when it opens, so a preview ages (seconds)


def _keep_finite(value: float) -> float | None:
    """Return None where no bound is known: JSON has no infinity."""
    return value if math.isfinite(value) else None


class Planner:
    """What a survey would cost and show, before anything is made."""

    def preview(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return protocols, promise, and error bars on a made-up result; with the floor that gives a wanted `error`."""
        return self._show(*self._plan(content))

    def _plan(self, content: dict[str, Any]) -> tuple[Survey, Settings, Design]:
        """Choose protocols for what the form says; find the floor, if an error is wanted."""
        wanted = content.get("error")
        survey = Survey.read({key: content[key] for key in content if key != "error"})
        settings = Settings.read(survey)
        if not wanted:
            return survey, settings, choose_protocols(survey, settings)
        return survey, settings, self._solve(survey, settings, float(wanted))

    def _show(self, survey: Survey, settings: Settings, design: Design) -> dict[str, Any]:
        people = settings.people
        pledge = design.pledge
        return {
            "epsilon": pledge.epsilon,
            "delta": pledge.delta,
            "local_epsilon": _keep_finite(pledge.local_epsilon),
            "floor": _keep_finite(pledge.floor),
            "guess": pledge.guess,
            "noise": pledge.noise.value,
            "compared": compare_noise(survey, settings, design),
            "min_batch": pledge.min_batch,
            "limited_by": design.limited_by,
            "one_question": pledge.one_question,
            "influence": _keep_finite(design.influence),
            "bytes": design.measure_report(tokens=settings.tokens),
            "several": _price_several(survey, settings, design),
            "questions": [
                {
                    "name": each.name,
                    "text": each.text,
                    "task": each.task,
                    "part": None if each.asked.part_of is None else each.asked.part_of.text,
                    "protocol": each.protocol.name,
                    "influence": _keep_finite(measure_influence(each)),
                    "people": people,
                    **_imagine(each, people, design.sample(people)),
                }
                for each in design.questions
            ],
        }

    def _solve(self, survey: Survey, settings: Settings, wanted: float) -> Design:
        """Return the design with the smallest floor with which no bar errs by more than `wanted` of the range."""
        people = settings.people
        low, high = 0.0, LARGEST_FLOOR / settings.reports_per_device
        if math.isinf(settings.floor):
            low = high = math.inf  # there is none to look for

        def at(floor: float) -> Design:
            own = settings.local_epsilon if math.isinf(floor) else floor
            return choose_protocols(survey, replace(settings, local_epsilon=own))

        best = at(high)
        if _largest_error(best, people) > wanted:
            raise UnsupportedError(
                f"error={wanted:g} cannot be reached with {people:,} people and epsilon={survey.epsilon:g}"
            )
        while low < high and high - low > _SOLVED * high:
            middle = (low + high) / 2
            design = at(middle)
            if _largest_error(design, people) <= wanted:
                high, best = middle, design
            else:
                low = middle
        return best


def _make_up(question: Question, people: int) -> Counts:
    """Return how many people have each code, in a made-up result whose bars are all different."""
    counts: Counts = np.floor(people * make_decreasing_law(question)).astype(np.int64)
    counts[0] += people - counts.sum()
    return counts


def _imagine(question: Question, people: int, sampled: int) -> dict[str, Any]:
    """Return a made-up result of people, `sampled` of whom answer this question, with the error bars to expect.

    `unit` is what errors are measured by.
    """
    if question.spelling is not None:
        return _imagine_words(question, people)
    counts = _make_up(question, people)
    lower, upper = question.ends or (None, None)
    if question.range is not None or question.by_tree:
        shown = question.asks.convert(foresee_estimate(question.protocol, counts))
        rows = list_numbers(shown, _LEVEL, label=question.task)
        return {
            "estimate": [_draw_bar(row.label, row.value, row.low, row.high) for row in rows],
            "unit": shown.limits[1] - shown.limits[0],
            "lower": lower,
            "upper": upper,
        }
    truth, labels = _imagine_truth(question, counts)
    spread = _Z * np.sqrt(foresee_variance(question.protocol, counts, sampled))
    pairs = zip(labels, truth.tolist(), np.broadcast_to(spread, truth.shape).tolist(), strict=True)
    unit = people if lower is None or upper is None else upper - lower
    return {
        "estimate": [
            _draw_bar(label, value, value - error, value + error) for label, value, error in pairs
        ],
        "unit": unit * people if question.kind.adds and not question.averages else unit,
        "lower": lower,
        "upper": upper,
    }


def _draw_bar(label: str, value: float, low: float, high: float) -> dict[str, Any]:
    return {"label": label, "value": value, "low": low, "high": high}


def _imagine_words(question: Question, people: int) -> dict[str, Any]:
    """Return the rarest word that is found in 95 % of cases, and one of twice as many people."""
    needed = measure_sight(question.protocol, people)
    assert needed is not None  # whatever looks for words knows what it sees
    variance = float(np.max(question.protocol.analyzer.variance(np.array([people]))))
    error = _Z * math.sqrt(variance)
    counts = [each for each in (2 * needed, needed) if each <= people]
    return {
        "estimate": [
            _draw_bar(f"a word of {count:,} people", count, count - error, count + error)
            for count in counts
        ],
        "unit": people,
        "lower": None,
        "upper": None,
        "found": needed,
    }


def _imagine_truth(question: Question, counts: Counts) -> tuple[Floats, tuple[str, ...]]:
    domain, people = question.protocol.randomizer.domain, int(counts.sum())
    if isinstance(domain, Reals):
        total = float(domain.values(np.arange(domain.size)) @ counts)
        return np.array([total / people if question.averages else total]), (question.task,)
    if question.kind.yes_or_no:
        return np.array([float(counts[1])]), ("yes",)
    return counts.astype(np.float64), question.labels or domain.labels


def _price_several(survey: Survey, settings: Settings, design: Design) -> list[dict[str, Any]]:
    """Return how exact each "choose several" is, in shares of the people, and how exact one choice alone would be."""
    groups: dict[str, list[Question]] = {}
    for each in design.questions:
        if each.asked.part_of is not None:
            groups.setdefault(each.asked.part_of.name, []).append(each)
    people, floor = settings.people, design.pledge.local_epsilon
    if math.isfinite(floor):  # it may have been solved for
        settings = replace(settings, local_epsilon=floor)
    priced = []
    for first, *more in groups.values():
        left_out = {each.name for each in more}
        kept = tuple(each for each in survey.questions if each.name not in left_out)
        alone = choose_protocols(replace(survey, questions=kept), settings)
        (same,) = (each for each in alone.questions if each.name == first.name)
        assert first.asked.part_of is not None
        shares = [
            _measure_bar(plan, question, people) / people
            for plan, question in ((design, first), (alone, same))
        ]
        text = first.asked.part_of.text
        priced.append(
            {"text": text, "choices": 1 + len(more), "share": shares[0], "alone": shares[1]}
        )
    return priced


def _measure_bar(design: Design, question: Question, people: int) -> float:
    """Return half of the error bar of a yes or no, in people, where it is longest: if half of them say yes."""
    half = np.array([people - people // 2, people // 2])
    variance = foresee_variance(question.protocol, half, design.sample(people))
    return _Z * math.sqrt(float(np.max(variance)))


def _largest_error(design: Design, people: int) -> float:
    """Return half of the longest error bar, relative to the people or to the range of a number."""
    errors: list[float] = []
    for each in design.questions:
        shown = _imagine(each, people, design.sample(people))
        errors += [(row["high"] - row["value"]) / shown["unit"] for row in shown["estimate"]]
    return max(errors)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A collection that was previewed and not started."""

    collection: Collection
    shuffler: ShufflerSecrets
    analyzer: AnalyzerSecrets | None
    made: float


class Desk(Planner):
    """The collections of a folder, each with its roles running, as long as the desk is open; and saved drafts.

    `root` has a folder for each collection, and `drafts` with what forms said. All of them come back.
    """

    def __init__(
        self,
        root: Path,
        *,
        workers: int | None = None,
        place: Place | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self.place = place or Place()
        self._clock = clock
        self._drafts: dict[str, _Draft] = {}
        self._workers = workers
        self._running: dict[str, tuple[Home, list[Role]]] = {}
        self._stopped: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def adopt_all(self) -> list[str]:
        """Start the roles of every collection of the folder again; returns their ids, oldest first.

        One that cannot be started is shown with the reason, and keeps no other.
        """
        started = []
        make_private(self._root)
        for document in sorted(self._root.glob("*/collection.json"), key=_age):
            home = Home(document.parent)
            try:
                started.append(self.adopt(home))
            except (ShuffledpError, OSError) as error:
                shown = {"title": home.path.name, "stopped": str(error), "folder": str(home.path)}
                self._stopped.append(shown)
        return started

    def adopt(self, home: Home) -> str:
        """Start the roles of a collection that is there; returns its id."""
        collection = home.collection()
        if not collection.development:
            raise UnsupportedError(
                f"{home.path} is for two operators, each on a machine of its own"
            )
        place = self.place if collection.url.startswith("https://") else Place()
        place.check(collection)
        roles = start_roles(home, place.find_port(), workers=self._workers, place=place)
        with self._lock:
            self._running[collection.id.hex()] = (home, roles)
        return collection.id.hex()

    def stop(self) -> None:
        """End all roles."""
        with self._lock:
            running, self._running = list(self._running.values()), {}
        for _, roles in running:
            stop_roles(roles)

    def preview(self, content: dict[str, Any]) -> dict[str, Any]:
        """Show what a survey would give, and draft its document: `start` starts that one, byte for byte."""
        survey, settings, design = self._plan(content)
        settings = replace(settings, url=self.place.locate_shuffler(self.place.find_port()))
        draft = _Draft(*make_collection(design, settings), made=self._clock())
        with self._lock:
            self._drafts[draft.collection.id.hex()] = draft
            for old in list(self._drafts)[:-_MOST_DRAFTS]:
                del self._drafts[old]
        return {**self._show(survey, settings, design), "draft": draft.collection.id.hex()}

    def start(self, content: dict[str, Any]) -> dict[str, Any]:
        """Start the collection of a draft on this machine, with its roles."""
        identity = content.get("draft")
        with self._lock:
            draft = self._drafts.get(str(identity))
            if draft is None or self._clock() - draft.made > _FRESH:
                raise ParameterError(
                    "draft",
                    identity,
                    f"must be a preview of the last {_FRESH // 60} minutes: look at the new one, and start that",
                )
            del self._drafts[str(identity)]
        home = Home(self._root / draft.collection.id.hex()[:16])
        home.create(draft.collection, draft.shuffler, draft.analyzer)
        started = self.adopt(home)
        if content.get("key"):
            self.discard(str(content["key"]))
        return {"id": started, "page": draft.collection.page}

    def document(self, identity: str) -> bytes | None:
        """Return the document of a draft that was previewed, for a look at its page; None if there is none."""
        with self._lock:
            draft = self._drafts.get(identity)
        return None if draft is None else draft.collection.raw

    def save(self, content: dict[str, Any]) -> dict[str, Any]:
        """Keep what a form says, under its key or a new one."""
        key, said = content.get("key") or randomness.token_hex(8), content.get("content")
        if not isinstance(said, dict) or not isinstance(said.get("questions"), list):
            raise DataError("a draft must have questions")
        path = self._draft_path(str(key))
        make_private(self._root)
        make_private(path.parent)
        write_whole(path, [json.dumps(said, ensure_ascii=False).encode()])
        return {"key": key}

    def discard(self, key: str) -> dict[str, Any]:
        """Delete what a form said."""
        self._draft_path(key).unlink(missing_ok=True)
        return {}

    def _draft_path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise DataError("there is no such draft")
        return self._root / "drafts" / f"{key}.json"

    def _list_drafts(self) -> list[dict[str, Any]]:
        drafts = []
        for path in sorted((self._root / "drafts").glob("*.json"), key=_age):
            content = json.loads(path.read_bytes())
            shown = {"key": path.stem, "title": str(content.get("title", "")), "content": content}
            drafts.append(shown)
        return drafts

    def _find(self, identity: str) -> tuple[Home, list[Role]]:
        with self._lock:
            running = self._running.get(identity)
        if running is None:
            raise DataError("there is no such collection here")
        return running

    def close(self, identity: str) -> dict[str, Any]:
        """Take no more reports."""
        home, _ = self._find(identity)
        return Operator(home).close()

    def status(self) -> dict[str, Any]:
        """Return everything the page shows about every collection."""
        with self._lock:
            running = dict(self._running)
        shown = [self._try_to_describe(home, roles) for home, roles in running.values()]
        return {
            "folder": str(self._root),
            "collections": [*reversed(shown), *self._stopped],
            "drafts": self._list_drafts(),
        }

    def _try_to_describe(self, home: Home, roles: list[Role]) -> dict[str, Any]:
        """Describe a collection, or say that a role of it does not answer: that hides no other collection."""
        import httpx

        try:
            return self._describe(home, roles)
        except (ShuffledpError, httpx.HTTPError, ValueError) as error:
            title = home.collection().title
            said = str(error) or type(error).__name__
            return {"title": title, "ended": said, "folder": str(home.path)}

    def _describe(self, home: Home, roles: list[Role]) -> dict[str, Any]:
        collection, now = home.collection(), time.time()
        shuffler = Operator(home).status()
        certificate = roles[1].certificate
        with connect(roles[1].url, certificate) as client:
            analyzer = client.get("/status").json()
            shown = client.get("/results.json").json()
        windows = collection.windows
        current = windows.at(now)
        key = collection.key_for(0 if current is None else current)
        return {
            **shown["collection"],
            "page": collection.page,
            "link": collection.link,
            "results_page": roles[1].url,
            "fingerprint": certificate.fingerprint if certificate and certificate.own else None,
            "folder": str(home.path),
            "min_batch": collection.pledge.min_batch,
            "accepted": shuffler["accepted"],
            "rejected": shuffler["rejected"],
            "failing": shuffler["failing"],
            "analyzer_seen_seconds_ago": shuffler["analyzer_seen_seconds_ago"],
            "waiting": analyzer["waiting"],
            "windows": [
                {
                    **each,
                    "opens": windows.opens(each["window"]),
                    "closes": windows.closes(each["window"]),
                }
                for each in shuffler["windows"]
            ],
            "window_count": windows.count,
            "key_age_seconds": max(0, round(now - windows.opens(key.first))),
            "results": shown["results"],
        }


def make_desk_app(desk: Planner, token: str) -> Starlette:
    """Return the page and its interface; a `Planner` alone has no collections."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def guard(work: _Work) -> Callable[[Request], Any]:
        async def guard(request: Request) -> Response:
            refused = _refuse(request, token)
            if refused is not None:
                return refused
            try:
                body = await read_body(request, _MOST_BYTES)
                reply = await run_in_threadpool(work, request, read_json(body) if body else {})
            except ShuffledpError as error:
                return _explain(error)
            return JSONResponse(reply, headers=_FRESHLY)

        return guard

    async def page(request: Request) -> Response:
        if host_of(request) not in LOOPBACK:
            return problem(403, "foreign_host", "this page is for this machine alone")
        return show_asset(request, "/assets/operator.html")

    routes = [
        Route("/", page),
        *asset_routes(),
        Route(
            "/api/preview", guard(lambda _, body: desk.preview(read_form(body))), methods=["POST"]
        ),
    ]
    if isinstance(desk, Desk):
        routes += _make_routes(desk, guard)
    return Starlette(routes=routes)


def _explain(error: ShuffledpError) -> Response:
    """Say what is wrong, and with which field."""
    named = error.name if isinstance(error, ParameterError) else None
    return problem(400, "refused", str(error), field=named)


def _make_routes(desk: Desk, guard: Callable[[_Work], Callable[[Request], Any]]) -> list[Route]:
    """Return what a desk has beyond a planner."""
    from starlette.responses import Response
    from starlette.routing import Route

    async def show_draft(request: Request) -> Response:
        raw = desk.document(request.path_params["id"])
        if raw is None or host_of(request) not in LOOPBACK:
            return problem(404, "unknown", "this preview is gone: make a new one")
        return Response(raw, media_type="application/json", headers=_FRESHLY)

    async def show_page(request: Request) -> Response:
        return show_asset(request, "/assets/answer.html")

    changes: dict[str, _Work] = {
        "/api/collections": lambda _, body: desk.start(body),
        "/api/collections/{id}/close": lambda request, _: desk.close(request.path_params["id"]),
        "/api/drafts": lambda _, body: desk.save(body),
        "/api/drafts/{key}/delete": lambda request, _: desk.discard(request.path_params["key"]),
    }
    return [
        Route("/drafts/{id}", show_draft),
        Route("/preview/{id}", show_page),
        Route("/api/status", guard(lambda _, __: desk.status())),
        *(Route(path, guard(work), methods=["POST"]) for path, work in changes.items()),
    ]


_FRESHLY = {"Cache-Control": "no-store"}
_KEY = re.compile("[0-9a-f]{16}")


def _age(path: Path) -> tuple[float, str]:
    return path.stat().st_mtime, path.parent.name


def _refuse(request: Request, token: str) -> Response | None:
    if host_of(request) not in LOOPBACK:
        return problem(403, "foreign_host", "this page is for this machine alone")
    origin = request.headers.get("origin")
    if origin is not None and host_of(origin) not in LOOPBACK:
        return problem(403, "foreign_host", "another site may not ask")
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return problem(401, "unauthorized", "open the link that the command printed")
    return None


def read_form(content: dict[str, Any]) -> dict[str, Any]:
    """Return the survey that the page sends, whose decimals are strings.

    >>> read_form({"epsilon": "0.5", "collection": {"people": 100, "local_epsilon": "3"}})
    {'epsilon': 0.5, 'collection': {'people': 100, 'local_epsilon': 3.0}}
    """
    return {name: _read_value(name, value) for name, value in content.items()}


_DECIMALS = {"epsilon", "delta", "local_epsilon", "honest", "lower", "upper", "weight", "error"}


def _read_value(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {inner: _read_value(inner, each) for inner, each in value.items()}
    if name in _DECIMALS and isinstance(value, str) and value != "none":
        try:
            return float(value)
        except ValueError:
            raise DataError(f"{name}={value!r} must be a number") from None
    return value


def run_desk(desk: Planner, port: int | None, *, say: Callable[[str], None]) -> None:
    """Serve the desk until a signal comes; `say` gets the link, which has the token after the #."""
    token, place = randomness.token_hex(16), bind("127.0.0.1", port or 0)
    app = make_desk_app(desk, token)
    say(f"http://127.0.0.1:{place.getsockname()[1]}/#{token}")
    run_loop(listen((app, place)))
