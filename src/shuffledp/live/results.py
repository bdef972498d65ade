"""What is published about a window, and how people read it: in a terminal, on a page, in spreadsheets.

A result is JSON: nothing else ever leaves the analyzer. Read back, each answer is an estimate of the task that was
asked, and the pictures of files draw it.
"""

import csv
import html
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from shuffledp.core.analyzer import Estimate, Interval, Value
from shuffledp.core.display import Number, Picture, as_text
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.notebook import as_html, frame_page, make_table, say
from shuffledp.live.pages import describe_trust
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.question import Question
from shuffledp.protocols import spec

LEVEL = 0.95
"""The level of the published intervals."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PublishedError:
    """Standard errors and intervals as they were published: of that level, and no other."""

    stderr: Value
    ends: Interval
    level: float

    def interval(self, value: Value, level: float) -> Interval:
        if level != self.level:
            raise UnsupportedError(f"intervals were published with level {self.level:g} only")
        return self.ends

    def exact_interval(self, value: Value, level: float) -> Interval:
        raise UnsupportedError("no exact interval was published: use interval()")


def read_estimate(question: Question, result: Mapping[str, Any]) -> Estimate:
    """Return the estimate of a question that a published result holds.

    >>> from shuffledp import protocols
    >>> made = protocols.rr.make_local(epsilon=1.0)
    >>> pet = Question(name="pet", text="?", task="count", protocol=made, labels=("no", "yes"))
    >>> row = {"label": "count", "value": 12.0, "stderr": 3.0, "low": 6.0, "high": 18.0}
    >>> read_estimate(pet, {"questions": {"pet": {"people": 40, "estimate": [row]}}}).limits
    (0.0, 40.0)
    """
    answer = result["questions"][question.name]
    rows = [Number(**row) for row in answer["estimate"]]
    labels = tuple(row.label for row in rows)
    value, stderr, low, high = (
        np.array([row[place] for row in rows], dtype=np.float64)
        for place in range(1, len(Number._fields))
    )
    columns: Sequence[Value] = (value, stderr, low, high)
    # The one number of a task that has no other; what people write may be called like it.
    if labels == (question.task,) and question.spelling is None:
        columns = [column.item() for column in (value, stderr, low, high)]
    return Estimate(
        value=columns[0],
        error=_PublishedError(
            stderr=columns[1], ends=Interval(*columns[2:]), level=_find_level(result)
        ),
        limits=_find_limits(question, _count_asked(answer)),
        labels=labels,
    )


def _find_limits(question: Question, people: int) -> tuple[float, float]:
    """Return the ends between which the answer is publicly known to lie; infinite where none is known, or worth drawing."""
    kind = question.kind
    if kind.counts:
        return 0.0, float(people)
    if question.ends is None or not (kind.adds or kind.dated):
        return -np.inf, np.inf
    low, high = question.ends
    if kind.average or kind.ranked:
        return low, high
    if question.range is not None:  # how many people a group has is not known: it may be none
        return min(0.0, low * people), max(0.0, high * people)
    return low * people, high * people


def _find_level(result: Mapping[str, Any]) -> float:
    return float(result.get("level", LEVEL))


def draw(question: Question, result: Mapping[str, Any]) -> Picture:
    """Describe the picture of a published answer: as of a file, by its task."""
    return question.asks.show(read_estimate(question, result), _find_level(result))


def _count_asked(answer: Mapping[str, Any]) -> int:
    """Count the people whom the numbers are about."""
    return int(answer.get("of", answer["people"]))


def _tell_people(answer: Mapping[str, Any], promise: Mapping[str, Any]) -> str:
    """Say whom the numbers are about; with one random question in each report, not all of them answered this one.

    >>> _tell_people({"people": 776, "of": 1501}, {"one_question": True})
    '1,501 people, 776 of whom answered this question'

    Servers that add noise hide among it who answered which:

    >>> _tell_people({"people": 1502}, {"one_question": True})
    '1,502 people, each of whom answered one question only, chosen at random'
    """
    answered, people = answer["people"], _count_asked(answer)
    if answered < people:
        return f"{people:,} people, {answered:,} of whom answered this question"
    if promise.get("one_question"):
        return f"{people:,} people, each of whom answered one question only, chosen at random"
    return f"{people:,} people"


def _introduce(name: str, result: Mapping[str, Any]) -> str:
    """Say which window the numbers of a question are from, and whom they are about."""
    people = _tell_people(result["questions"][name], result.get("promise", {}))
    return f"Window {result['window']}: {people}"


def _tell_found(answer: Mapping[str, Any]) -> list[str]:
    """Say how many people must have a word for it to be found.

    >>> _tell_found({"estimate": [], "found": {"found_95": 1200}})
    ['No word was found.', 'A word that 1,200 people have is found with probability 95 %.']
    """
    if "found" not in answer:
        return []
    none = [] if answer["estimate"] else ["No word was found."]
    people = answer["found"]["found_95"]
    return [*none, f"A word that {people:,} people have is found with probability 95 %."]


def show_text(collection: Collection, results: Sequence[Mapping[str, Any]]) -> str:
    """Return the results for a terminal: one block per question, window after window."""
    lines = [collection.title]
    for question in collection.questions:
        lines += ["", question.text]
        for result in results:
            answer = result["questions"][question.name]
            lines.append(_introduce(question.name, result))
            if answer["estimate"]:
                picture = draw(question, result)
                lines.append(as_text(picture, limit=len(picture.rows)))
            lines += _tell_found(answer)
    return "\n".join(lines)


def show_page(collection: Collection, results: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as one page: no script, nothing from elsewhere, every text escaped."""
    style = "table{display:block;overflow-x:auto}td,th{text-align:left;padding:.2em 1em .2em 0}"
    parts = [f"<main><h1 dir=auto>{html.escape(collection.title)}</h1>"]
    if not results:
        parts.append(say("Nothing is published yet."))
    for question in collection.questions if results else ():
        parts.append(f"<h2 dir=auto>{html.escape(question.text)}</h2>")
        for result in results:
            answer = result["questions"][question.name]
            parts.append(say(_introduce(question.name, result)))
            if answer["estimate"]:
                parts.append(as_html(draw(question, result)))
            parts += map(say, _tell_found(answer))
    trust = make_table(
        ["who is compromised", "what people still have"], describe_trust(collection), texts=2
    )
    parts.append(f"<h2>Who may learn what</h2>{trust}</main>")
    return frame_page(collection.title, "".join(parts), style)


_NUMBERS = Number._fields[1:]
_HEAD = ["window", "question", "people", "of", "label", *_NUMBERS]


def _list_rows(results: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """List one row per window, question and label, under a head."""
    rows: list[list[Any]] = [_HEAD]
    for result in results:
        for name, answer in result["questions"].items():
            who = [answer["people"], _count_asked(answer)]
            rows += [
                [result["window"], name, *who, row["label"], *(row[each] for each in _NUMBERS)]
                for row in answer["estimate"]
            ]
    return rows


def write_csv(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as a table: one line per window, question and row, which repeats what holds for all of them."""
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow([*_HEAD, *_SHARED])
    for result in results:
        shared = _list_shared(result)
        for row in _list_rows([result])[1:]:
            cells = [*row, *shared]
            writer.writerow([_disarm(cell) if isinstance(cell, str) else cell for cell in cells])
    return lines.getvalue()


_PROMISED = ["epsilon", "delta", "composed", "reports_per_device", "noise", "honest", "min_batch"]
"""The promise, and what it is about: all reports of a device together or each of them, and whose noise is counted on."""
_SHARED = ["level", *_PROMISED, "title"]


def _list_shared(result: Mapping[str, Any]) -> list[Any]:
    """List the level of the intervals, what was promised, and what the collection is called."""
    promise = result.get("promise", {})
    named = (_say_flag(promise.get(name, "")) for name in _PROMISED)
    return [_find_level(result), *named, result.get("title", "")]


def _disarm(label: str) -> str:
    """Return a label that no spreadsheet takes for a formula: anybody may have sent it as a word.

    >>> _disarm("=1+1"), _disarm("bus")
    ("'=1+1", 'bus')
    """
    return f"'{label}" if label.startswith(("=", "+", "-", "@", "\t", "\r")) else label


XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
"""The media type of a workbook, which is written here without a library."""
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML
_OPEN = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_OFFICE = "http://schemas.openxmlformats.org"
_TYPES = f"""{_OPEN}<Types xmlns="{_OFFICE}/package/2006/content-types">\
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>\
<Override PartName="/xl/workbook.xml" ContentType="{XLSX}.main+xml"/>\
<Override PartName="/xl/worksheets/sheet1.xml" \
ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>\
<Override PartName="/xl/worksheets/sheet2.xml" \
ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>"""
_WORKBOOK = f"""{_OPEN}<workbook xmlns="{_OFFICE}/spreadsheetml/2006/main" \
xmlns:r="{_OFFICE}/officeDocument/2006/relationships"><sheets>\
<sheet name="results" sheetId="1" r:id="rId1"/><sheet name="about" sheetId="2" r:id="rId2"/></sheets></workbook>"""


def _relate(kind: str, *targets: str) -> str:
    related = (
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/officeDocument/2006/relationships/{kind}" Target="{target}"/>'
        for number, target in enumerate(targets, 1)
    )
    return f'{_OPEN}<Relationships xmlns="{_OFFICE}/package/2006/relationships">{"".join(related)}</Relationships>'


def _write_cell(value: Any) -> str:
    """Return a number, or a text that is never a formula.

    >>> _write_cell(1.5), _write_cell("=1+1 & co")
    ('<c><v>1.5</v></c>', '<c t="inlineStr"><is><t xml:space="preserve">=1+1 &amp; co</t></is></c>')
    """
    if isinstance(value, str):
        shown = escape(_UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", value))
        return f'<c t="inlineStr"><is><t xml:space="preserve">{shown}</t></is></c>'
    return f"<c><v>{value!r}</v></c>"


def _write_sheet(rows: Sequence[Sequence[Any]]) -> str:
    body = "".join(f"<row>{''.join(map(_write_cell, row))}</row>" for row in rows)
    return f'{_OPEN}<worksheet xmlns="{_OFFICE}/spreadsheetml/2006/main"><sheetData>{body}</sheetData></worksheet>'


def write_xlsx(results: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a workbook: a sheet of the results, and one of what holds for all of them.

    Texts are texts there, whatever they begin with.
    """
    parts = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _relate("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": _WORKBOOK,
        "xl/_rels/workbook.xml.rels": _relate(
            "worksheet", "worksheets/sheet1.xml", "worksheets/sheet2.xml"
        ),
        "xl/worksheets/sheet1.xml": _write_sheet(_list_rows(results)),
        "xl/worksheets/sheet2.xml": _write_sheet(_list_about(results)),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


def _list_about(results: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """List what holds for all windows, by name: which collection it is, the level, the promise, what is not private.

    >>> _list_about([{"title": "Pets", "promise": {"epsilon": 1.0, "composed": True}, "not_private": ["people"]}])
    [['title', 'Pets'], ['level', 0.95], ['epsilon', 1.0], ['composed', 'yes'], ['not_private', 'people']]
    """
    if not results:
        return []
    last = results[-1]
    known = {name: last[name] for name in ("title", "collection") if name in last}
    known |= {"level": _find_level(last), **last.get("promise", {})}
    known |= {name: last[name] for name in ("one_operator", "version") if name in last}
    rows = [[name, _say_flag(value)] for name, value in known.items()]
    return [*rows, *(["not_private", text] for text in last.get("not_private", ()))]


def _say_flag(value: Any) -> Any:
    return value if not isinstance(value, bool) else "yes" if value else "no"


def describe_collection(collection: Collection) -> dict[str, Any]:
    """Describe a collection for the pages of results."""
    return {
        "id": collection.id.hex(),
        "title": collection.title,
        "language": collection.texts.language,
        "one_operator": collection.development,
        "dummies": sum(each.noise.mean_total for each in collection.questions if each.noise),
        "questions": [_describe_question(each) for each in collection.questions],
        "trust": [list(row) for row in describe_trust(collection)],
    }


def _describe_question(question: Question) -> dict[str, Any]:
    lower, upper = question.ends or (None, None)
    known, part = spec(question.protocol.name), question.asked.part_of
    return {
        "name": question.name,
        "text": question.text,
        "task": question.task,
        "part": None if part is None else part.text,
        "unit": question.asked.unit,
        "scale": _name_ends(question),
        "yes": question.labels[1] if question.kind.yes_or_no and question.labels else None,
        "lower": lower,
        "upper": upper,
        "protocol": known.name,
        "title": known.title,
        "reference": known.reference,
    }


def _name_ends(question: Question) -> dict[str, str] | None:
    """Return what the first and the last step of a scale mean, by their labels."""
    if question.asked.ends is None or question.labels is None:
        return None
    steps = question.labels[: -1 if question.asked.skip else None]
    return dict(zip((steps[0], steps[-1]), question.asked.ends, strict=True))
