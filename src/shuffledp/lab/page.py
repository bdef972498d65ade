"""The report: verdicts.json, and one HTML page that needs nothing but itself."""

import base64
import csv
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

import shuffledp
from shuffledp.lab.runner import Effort, Record, Verdict

_ROWS = 24  # of a table that the page shows; the file has them all
_GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "lambda": "λ"}
_NAMES = "|".join(_GREEK)
_STEPS: tuple[tuple[str, str], ...] = (
    (r"&gt;=", "≥"),
    (r"&lt;=", "≤"),
    (r"(?<=\S) - (?=\S)", " − "),
    (r"(?<!\w)\*(\w[^*\n]*?)\*(?!\w)", r"<em>\1</em>"),
    (r"\bsqrt\((\w+)\)", r"√\1"),
    (r"\bsqrt\(", "√("),
    (r"\^\(([^()]*)\)", r"<sup>\1</sup>"),
    (r"\^(-?\w+(?:\.\d+)?)", r"<sup>\1</sup>"),
    (rf"\b({_NAMES})_?(0|L|star)\b", r"\1<sub>\2</sub>"),
)


def write_page(records: Sequence[Record], *, effort: Effort, out: Path) -> Path:
    """Write `out`/verdicts.json and `out`/index.html, each at once or not at all."""
    verdicts = [
        {
            "experiment": record.name,
            "id": name_verdict(record.name, verdict.claim),
            "claim": verdict.claim,
            "measured": verdict.measured,
            "agrees": verdict.agrees,
        }
        for record in records
        for verdict in record.verdicts
    ]
    _replace(out / "verdicts.json", json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n")
    template = Template(files("shuffledp.lab").joinpath("page.html").read_text(encoding="utf-8"))
    text = template.substitute(
        version=shuffledp.__version__,
        effort=effort.value,
        experiments="1 experiment" if len(records) == 1 else f"{len(records)} experiments",
        seconds=_duration(sum(record.seconds for record in records)),
        score=_score(records),
        differences=_differences(records),
        summary="\n".join(map(_summary, records)),
        sections="\n".join(_section(record, effort, out / record.name) for record in records),
    )
    return _replace(out / "index.html", text)


def _replace(path: Path, text: str) -> Path:
    """Write a file whole: to a temporary folder beside it, from where it takes its place."""
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as work:
        fresh = Path(work, path.name)
        fresh.write_text(text, encoding="utf-8")
        return fresh.replace(path)


def _score(records: Sequence[Record]) -> str:
    agreeing = [verdict.agrees for record in records for verdict in record.verdicts]
    failed = sum(1 for record in records if record.failure)
    text = f"<b>{sum(agreeing)}</b> of {len(agreeing)} claims agree with what we measured"
    return text if not failed else f"{text}; <b>{failed}</b> experiments failed"


def _differences(records: Sequence[Record]) -> str:
    items = [
        f'<li><a href="#{record.name}">{typeset(record.title)}</a>: {_reason(verdict)}</li>'
        for record in records
        for verdict in record.verdicts
        if not verdict.agrees
    ]
    items += [
        f'<li><a href="#{record.name}">{typeset(record.title)}</a>: the experiment failed.</li>'
        for record in records
        if record.failure
    ]
    if not items:
        return "<p>Nothing differs.</p>"
    return f"<p>What differs, and why:</p><ul>{''.join(items)}</ul>"


def _reason(verdict: Verdict) -> str:
    why = verdict.why or _UNKNOWN
    return f"“{typeset(verdict.claim)}”. {typeset(why)}"


_UNKNOWN = "No explanation is known: please report it."


def _summary(record: Record) -> str:
    agree = sum(verdict.agrees for verdict in record.verdicts)
    marks = "".join(map(_mark, record.verdicts)) if not record.failure else _FAILED
    return (
        f'<tr><td><a href="#{record.name}">{typeset(record.title)}</a></td><td class="marks">{marks}</td>'
        f'<td class="number">{agree} / {len(record.verdicts)}</td></tr>'
    )


_FAILED = '<span class="differs">failed</span>'


def _mark(verdict: Verdict) -> str:
    kind, sign = ("agrees", "✓") if verdict.agrees else ("differs", "✗")
    return f'<span class="{kind}" title="{escape(verdict.claim, quote=True)}">{sign}</span>'


def _section(record: Record, effort: Effort, folder: Path) -> str:
    about = "".join(f"<p>{typeset(part)}</p>" for part in record.about.split("\n\n"))
    head = f'<section id="{record.name}"><h2>{typeset(record.title)} {_permalink(record.name)}</h2>{about}'
    if record.failure:
        return f"{head}<pre>{escape(record.failure)}</pre></section>"
    figures = "".join(_figure(folder, name, text) for name, text in record.captions.items())
    verdicts = "".join(_verdict(record.name, verdict) for verdict in record.verdicts)
    return (
        f'{head}{figures}<table class="verdicts"><thead><tr><th></th><th>claim</th><th>measured</th>'
        f"</tr></thead><tbody>{verdicts}</tbody></table>{_parameters(record)}"
        f"{_yourself(record, effort, folder)}{_table(folder)}</section>"
    )


def _permalink(name: str) -> str:
    return f'<a class="link" href="#{name}" title="link to this">#</a>'


def name_verdict(experiment: str, claim: str) -> str:
    """Return the anchor of a verdict on the page; it stays the same as long as the claim does.

    >>> name_verdict("laplace_tail", "a claim") == name_verdict("laplace_tail", "a claim")
    True
    """
    return f"{experiment}-{hashlib.sha256(claim.encode()).hexdigest()[:8]}"


def _yourself(record: Record, effort: Effort, folder: Path) -> str:
    """Return the command, the citation, and the data to take home."""
    command = f"shuffledp lab {record.name}" + (" --quick" if effort is Effort.QUICK else "")
    agree = sum(verdict.agrees for verdict in record.verdicts)
    citation = (
        f"@software{{shuffledp_{record.name},\n"
        "  author  = {{The shuffledp authors}},\n"
        "  title   = {shuffledp: differential privacy in the shuffle model},\n"
        f"  version = {{{shuffledp.__version__}}},\n"
        f"  note    = {{Experiment {record.name} ({command}): {agree} of {len(record.verdicts)} claims agree}}\n"
        "}"
    )
    verdicts = [
        {
            "id": name_verdict(record.name, each.claim),
            "claim": each.claim,
            "measured": each.measured,
            "agrees": each.agrees,
        }
        for each in record.verdicts
    ]
    numbers = (folder / "table.csv").read_bytes()
    judged = json.dumps(verdicts, indent=1, ensure_ascii=False).encode()
    return (
        f'<p class="small"><b>Run it yourself:</b> <code>{command}</code>. <b>Data:</b> '
        f"{_download(f'{record.name}.csv', 'text/csv', numbers)}, "
        f"{_download(f'{record.name}.json', 'application/json', judged)}.</p>"
        f"<details><summary>Cite it</summary><pre>{escape(citation)}</pre></details>"
    )


def _download(name: str, kind: str, content: bytes) -> str:
    data = base64.b64encode(content).decode()
    return f'<a download="{name}" href="data:{kind};base64,{data}">{name}</a>'


def _figure(folder: Path, name: str, caption: str) -> str:
    data = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
    return (
        f'<figure><img alt="{escape(caption, quote=True)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{typeset(caption)}</figcaption></figure>"
    )


def _verdict(experiment: str, verdict: Verdict) -> str:
    place = name_verdict(experiment, verdict.claim)
    why = "" if verdict.agrees else f'<p class="why">{typeset(verdict.why or _UNKNOWN)}</p>'
    return (
        f'<tr id="{place}"><td>{_mark(verdict)}</td><td>{typeset(verdict.claim)} {_permalink(place)}</td>'
        f"<td>{typeset(verdict.measured)}{why}</td></tr>"
    )


def _parameters(record: Record) -> str:
    shown = "; ".join(
        f"{typeset(str(name))} = {escape(_show(value))}"
        for name, value in record.parameters.items()
    )
    return f'<p class="small">Used: {shown}. Took {_duration(record.seconds)}.</p>'


def _show(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_show(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_show, value))
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(folder: Path) -> str:
    with (folder / "table.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_shorten(cell))}</td>" for cell in row) + "</tr>"
        for row in rows[:_ROWS]
    )
    more = "" if len(rows) <= _ROWS else f" (the first {_ROWS} of {len(rows)} rows)"
    name = f"{folder.name}/table.csv"
    return (
        f"<details><summary>The numbers: {escape(name)}{more}</summary><div class='wide'><table>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _shorten(cell: str) -> str:
    """Long decimals to five digits."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return cell if len(cell) <= 8 or not math.isfinite(value) else f"{value:.5g}"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} minutes"


def typeset(text: str) -> str:
    """Escape for HTML, with the formulas made readable.

    >>> typeset("8 e^(epsilon0/2) sqrt(n) >= delta & *not* less")
    '8 e<sup>ε<sub>0</sub>/2</sup> √n ≥ δ &amp; <em>not</em> less'
    >>> typeset("10^6 people")
    '10<sup>6</sup> people'
    """
    result = escape(text)
    for pattern, replacement in _STEPS:
        result = re.sub(pattern, replacement, result)
    return re.sub(rf"\b({_NAMES})(?![a-z])", lambda match: _GREEK[match[1]], result)
