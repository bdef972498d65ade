"""The analyzer's server: asks the shuffler for batches, opens them, and shows what was published.

Published results as tables for spreadsheets: CSV, and XLSX without a library.
"""

from __future__ import annotations

import csv
import html
import io
import re
import threading
import time
import zipfile
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from shuffledp.core.display import Number, count_decimals, format_number
from shuffledp.core.errors import ShuffledpError, WireError
from shuffledp.core.notebook import frame_page
from shuffledp.core.version import __version__
from shuffledp.live.analyzer import describe_trust
from shuffledp.live.disk import hold
from shuffledp.live.serve.client import ask, ask_manifest, connect, read_at_most
from shuffledp.live.serve.http import CORS, bind, listen, run_loop
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
from shuffledp.live.serve.pages import PLAIN, asset_routes, show_asset
from shuffledp.live.serve.pool import RecordPool
from shuffledp.protocols import spec

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
    from shuffledp.live.wire.document import Collection
    from shuffledp.live.wire.question import Question


XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_NUMBERS = Number._fields[1:]
_HEAD = ["window", "question", "people", "of", "label", *_NUMBERS]


def _list_rows(results: list[dict[str, Any]]) -> list[list[Any]]:
    """One row per window, question and label, under a head."""
    rows: list[list[Any]] = [_HEAD]
    for result in results:
        for name, answer in result["questions"].items():
            who = [answer["people"], answer.get("of", answer["people"])]
            rows += [
                [result["window"], name, *who, row["label"], *(row[each] for each in _NUMBERS)]
                for row in answer["estimate"]
            ]
    return rows


def write_csv(results: list[dict[str, Any]]) -> str:
    """Return the results as a table: one line per window, question and row."""
    lines = io.StringIO()
    writer = csv.writer(lines)
    for row in _list_rows(results):
        writer.writerow([_disarm(cell) if isinstance(cell, str) else cell for cell in row])
    return lines.getvalue()


def _disarm(label: str) -> str:
    """A label that no spreadsheet takes for a formula: anybody may have sent it as a word.

    >>> _disarm("=1+1"), _disarm("bus")
    ("'=1+1", 'bus')
    """
    return f"'{label}" if label.startswith(("=", "+", "-", "@", "\t", "\r")) else label


_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML
_OPEN = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_OFFICE = "http://schemas.openxmlformats.org"
_TYPES = f"""{_OPEN}<Types xmlns="{_OFFICE}/package/2006/content-types">\
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>\
<Override PartName="/xl/workbook.xml" ContentType="{XLSX}.main+xml"/>\
<Override PartName="/xl/worksheets/sheet1.xml" \
ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>"""
_WORKBOOK = f"""{_OPEN}<workbook xmlns="{_OFFICE}/spreadsheetml/2006/main" \
xmlns:r="{_OFFICE}/officeDocument/2006/relationships"><sheets>\
<sheet name="results" sheetId="1" r:id="rId1"/></sheets></workbook>"""


def _relate(kind: str, target: str) -> str:
    return (
        f'{_OPEN}<Relationships xmlns="{_OFFICE}/package/2006/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument/2006/relationships/{kind}" Target="{target}"/></Relationships>'
    )


def _write_cell(value: Any) -> str:
    """A number, or a text that is never a formula.

    >>> _write_cell(1.5), _write_cell("=1+1 & co")
    ('<c><v>1.5</v></c>', '<c t="inlineStr"><is><t xml:space="preserve">=1+1 &amp; co</t></is></c>')
    """
    if isinstance(value, str):
        shown = escape(_UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", value))
        return f'<c t="inlineStr"><is><t xml:space="preserve">{shown}</t></is></c>'
    return f"<c><v>{value!r}</v></c>"


def write_xlsx(results: list[dict[str, Any]]) -> bytes:
    """Return the same as a workbook of one sheet; texts are texts there, whatever they begin with."""
    rows = "".join(f"<row>{''.join(map(_write_cell, row))}</row>" for row in _list_rows(results))
    sheet = f'{_OPEN}<worksheet xmlns="{_OFFICE}/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>'
    parts = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _relate("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": _WORKBOOK,
        "xl/_rels/workbook.xml.rels": _relate("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": sheet,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


_FINAL = ("published", "refused", "expired")
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
    if state in _FINAL and window in analyzer.confirmed:
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
    """Everything a monitoring system wants to know about the analyzer, in its lines."""
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
                    found = work_once(analyzer, analyzer.sign, client, notice)
            except Exception as error:  # a full disk, a damaged store: say so, and try again
                notice(error)
                found = {-1: "the analyzer cannot work now; its operator is told why"}
            if health.failures.total() == before:
                health.mend("work", uptime=measure_uptime())
            waiting.clear()
            waiting.update(found)
            contact.note(found)
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


def make_app(
    analyzer: Analyzer, waiting: dict[int, str], health: Health | None = None
) -> Starlette:
    """Return what readers of the result see."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    safe = PLAIN
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
        "results.json": lambda: JSONResponse({"collection": about, "results": analyzer.results()}),
        "results.csv": lambda: Response(write_csv(analyzer.results()), media_type="text/csv"),
        "results.xlsx": lambda: Response(write_xlsx(analyzer.results()), media_type=XLSX),
    }

    async def page(request: Request) -> Response:
        return show_asset(request, "/assets/result.html")

    async def plain(_: Request) -> Response:
        return HTMLResponse(show_page(analyzer.collection, analyzer.results()), headers=safe)

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
    return Starlette(routes=[*routes, *asset_routes()])


def _name_ends(question: Question) -> dict[str, str] | None:
    """Return what the first and the last step of a scale mean, by their labels."""
    if question.asked.ends is None or question.labels is None:
        return None
    steps = question.labels[: -1 if question.asked.skip else None]
    return dict(zip((steps[0], steps[-1]), question.asked.ends, strict=True))


def describe_collection(collection: Collection) -> dict[str, Any]:
    """Return what the pages of results say about a collection."""
    questions = []
    for each in collection.questions:
        lower, upper = each.ends or (None, None)
        known, part = spec(each.protocol.name), each.asked.part_of
        shown = {
            "name": each.name,
            "text": each.text,
            "task": each.task,
            "part": None if part is None else part.text,
            "unit": each.asked.unit,
            "scale": _name_ends(each),
            "yes": each.labels[1] if each.kind.yes_or_no and each.labels else None,
        }
        made = {"protocol": known.name, "title": known.title, "reference": known.reference}
        questions.append({**shown, "lower": lower, "upper": upper, **made})
    return {
        "id": collection.id.hex(),
        "title": collection.title,
        "language": collection.texts.language,
        "one_operator": collection.development,
        "dummies": sum(each.noise.mean_total for each in collection.questions if each.noise),
        "questions": questions,
        "trust": [list(row) for row in describe_trust(collection)],
    }


def show_page(collection: Collection, results: list[dict[str, Any]]) -> str:
    """Return the results as one page: no script, nothing from elsewhere, every text escaped."""
    say = html.escape
    style = (
        "table{display:block;overflow-x:auto}"
        "td,th{text-align:left;padding:.2em 1em .2em 0}td.n{text-align:right}"
        "i{display:inline-block;height:.8em;background:#0072B2}"
    )
    parts = [f"<main><h1 dir=auto>{say(collection.title)}</h1>"]
    if not results:
        parts.append("<p>Nothing is published yet.</p>")
    for question in collection.questions if results else ():
        parts.append(f"<h2>{say(question.text)}</h2>")
        parts += [_table(each, question.name) for each in results]
    rows = "".join(
        f"<tr><td>{say(who)}</td><td>{say(what)}</td></tr>"
        for who, what in describe_trust(collection)
    )
    parts.append(
        f"<h2>Who may learn what</h2><table><tr><th>compromised<th>people still have</tr>{rows}</table></main>"
    )
    return frame_page(collection.title, "".join(parts), style)


def _table(result: dict[str, Any], name: str) -> str:
    answer = result["questions"][name]
    largest = max((abs(row["value"]) for row in answer["estimate"]), default=1.0) or 1.0
    lines = []
    for row, numbers in zip(answer["estimate"], _round(answer), strict=True):
        value, low, high = numbers
        width = max(0, round(160 * row["value"] / largest))
        lines.append(
            f"<tr><th>{html.escape(row['label'])}<td class=n>{value}"
            f"<td class=n>{low} .. {high}<td><i style='width:{width}px'></i></tr>"
        )
    people = f"Window {result['window']}: {_count_people(answer)}"
    seen = "".join(f"<p>{sentence}</p>" for sentence in _tell_found(answer))
    return (
        f"<p>{people}; intervals cover with probability {result['level']:.0%}</p>"
        f"<table>{''.join(lines)}</table>{seen}"
    )


def show_text(collection: Collection, results: list[dict[str, Any]]) -> str:
    """Return the results as a table for a terminal: one block per question, window after window."""
    lines = [collection.title]
    for question in collection.questions:
        lines += ["", question.text]
        for result in results:
            answer = result["questions"][question.name]
            lines.append(f"  window {result['window']}: {_count_people(answer)}")
            lines += [
                f"    {row['label'][:24]:<24} {value:>14}   {low} .. {high}"
                for row, (value, low, high) in zip(answer["estimate"], _round(answer), strict=True)
            ]
            lines += [f"    {sentence}" for sentence in _tell_found(answer)]
    return "\n".join(lines)


def _tell_found(answer: dict[str, Any]) -> list[str]:
    """Of words: from how many people on one is found.

    >>> _tell_found({"estimate": [], "found": {"found_95": 1200}})
    ['No word was found.', 'A word that 1,200 people have is found with probability 95 %.']
    """
    if "found" not in answer:
        return []
    none = [] if answer["estimate"] else ["No word was found."]
    people = answer["found"]["found_95"]
    return [*none, f"A word that {people:,} people have is found with probability 95 %."]


def _count_people(answer: dict[str, Any]) -> str:
    """Whom the numbers are about; with one random question in each report, not all of them answered this one.

    >>> _count_people({"people": 776, "of": 1501})
    '1,501 people, 776 of them answered this question'
    """
    answered, people = answer["people"], answer.get("of", answer["people"])
    if answered == people:
        return f"{people:,} people"
    return f"{people:,} people, {answered:,} of them answered this question"


def _round(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the value of each row and the ends of its interval, with the digits that the standard error supports.

    >>> _round({"estimate": [{"label": "yes", "value": 738.5, "stderr": 31.2, "low": 660.12, "high": 816.88}]})
    [('738', '660', '817')]
    """
    rows = [Number(**row) for row in answer["estimate"]]
    if not rows:
        return []
    places = count_decimals(rows)
    return [
        (
            format_number(row.value, places),
            format_number(row.low, places),
            format_number(row.high, places),
        )
        for row in rows
    ]
