"""Run experiments, one or several at a time, and write their files and the report.

Experiments are shipped inside the package, or stand beside the source tree. The report is verdicts.json, and one HTML
page that needs nothing but itself.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import inspect
import json
import math
import re
import shutil
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import shuffledp
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.numerics.entropy import SeededWords
from shuffledp.show.style import new_figure, save_svg

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from types import ModuleType

    from matplotlib.figure import Figure

T = TypeVar("T")


class Effort(Enum):
    """The amount of work that a run may do.

    >>> Effort("quick")
    <Effort.QUICK: 'quick'>
    """

    QUICK = "quick"
    """Everything within two minutes: fewer trials, fewer points."""
    FULL = "full"
    """Half an hour at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One claim, what was measured, and whether the two agree.

    >>> Verdict(claim="2 + 2 is 5", measured="4", agrees=False, why="a slip of the pen").why
    'a slip of the pen'
    """

    claim: str
    measured: str
    agrees: bool
    why: str = ""
    """The reason if they differ, for the reader of the page."""

    def __post_init__(self) -> None:
        # A comparison of NumPy numbers gives NumPy's bool, which JSON does not know.
        object.__setattr__(self, "agrees", bool(self.agrees))
        for name in ("claim", "measured"):
            if not getattr(self, name).strip():
                raise ParameterError(name, getattr(self, name), "must not be empty")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """A figure with the name of its file and a caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """The outcome of an experiment."""

    verdicts: tuple[Verdict, ...]
    figures: tuple[Drawn, ...]
    rows: tuple[Mapping[str, object], ...]
    """The numbers behind it, for the CSV file; all rows have the keys of the first."""
    parameters: Mapping[str, object]

    def __post_init__(self) -> None:
        if not self.verdicts or not self.figures or not self.rows:
            raise ParameterError("result", self.parameters, "must have verdicts, figures and rows")
        if any(set(row) != set(self.rows[0]) for row in self.rows):
            raise ParameterError("rows", self.rows[0], "must all have the same keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """How much work to do, and a source of reproducible randomness.

    Experiments use made-up data, so their randomness may have a seed.

    >>> context = Context(name="coins", effort=Effort.QUICK)
    >>> context.pick(quick=100, full=10_000)
    100
    >>> context.words("trials").words(1) == context.words("trials").words(1)
    array([ True])
    """

    name: str
    effort: Effort

    def pick(self, *, quick: T, full: T) -> T:
        """Pick one of two values, by the effort."""
        return quick if self.effort is Effort.QUICK else full

    def words(self, label: str) -> SeededWords:
        """Return a word source that depends on the experiment and the label alone."""
        return SeededWords(self._seed(label))

    def generator(self, label: str) -> np.random.Generator:
        """Return the same for NumPy's own distributions.

        >>> Context(name="coins", effort=Effort.FULL).generator("x").integers(10, size=3).shape
        (3,)
        """
        return np.random.default_rng(self._seed(label))

    def _seed(self, label: str) -> int:
        digest = hashlib.sha256(f"{self.name}/{label}".encode()).digest()
        return int.from_bytes(digest[:7], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A loaded `run.py`."""

    name: str
    title: str
    about: str
    """What it does, and why."""
    order: int
    """Its place in the report."""
    run: Callable[[Context], Result]


_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "experiments", _PACKAGE.parents[1] / "experiments")
_MODULE = "shuffledp_experiments"


def folders() -> dict[str, Path]:
    """Return the folder of each experiment, by name.

    >>> "laplace_tail" in folders()
    True
    """
    for place in _PLACES:
        experiments = {path.parent.name: path.parent for path in sorted(place.glob("*/run.py"))}
        if experiments:
            return experiments
    raise UnsupportedError(
        "no experiments are installed: looked in " + " and ".join(map(str, _PLACES))
    )


def load(name: str) -> Experiment:
    """Return the experiment of that name.

    >>> load("laplace").name
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: experiment='laplace' must be one of adaptive, amplification, ...
    """
    known = folders()
    if name not in known:
        raise ParameterError("experiment", name, "must be one of " + ", ".join(known))
    return _experiment(name, _module(name, known[name]))


def experiments() -> tuple[Experiment, ...]:
    """Return all of them, in the order of the report.

    >>> experiments()[0].name
    'laplace_tail'
    """
    return tuple(sorted(map(load, folders()), key=lambda each: (each.order, each.name)))


def _module(name: str, folder: Path) -> ModuleType:
    full = f"{_MODULE}_{name}"
    if full in sys.modules:
        return sys.modules[full]
    # A package whose code is run.py, so that it may import the files beside it: from .checks import ...
    spec = importlib.util.spec_from_file_location(
        full, folder / "run.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full]
        raise
    return module


def _experiment(name: str, module: ModuleType) -> Experiment:
    title, _, about = inspect.cleandoc(module.__doc__ or "").partition("\n")
    return Experiment(
        name=name,
        title=title.rstrip("."),
        about=about.strip(),
        order=module.ORDER,
        run=module.run,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the page needs to know about an experiment whose figures and table have been written."""

    name: str
    title: str
    about: str
    seconds: float
    verdicts: tuple[Verdict, ...] = ()
    captions: Mapping[str, str] = field(default_factory=dict)
    """What each figure shows, by the name of its file without the suffix."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    failure: str = ""
    """The traceback of what went wrong; empty if nothing did."""


def run_lab(
    names: Sequence[str],
    *,
    effort: Effort,
    out: Path,
    workers: int = 1,
    finished: Callable[[Record], None] = lambda _: None,
) -> tuple[Record, ...]:
    """Run these experiments and write `out`/name/: figures as PNG and SVG, and the table as CSV.

    An experiment that fails does not stop the others. The results do not depend on `workers`, the number of
    processes. `finished` is called with each record as soon as it is there.
    """
    new_figure(1, 1)  # without Matplotlib: say so now, not once for each experiment
    known = {name: load(name) for name in names}
    records = {}
    with (
        _undo_if_interrupted(out, names),
        closing(_records(known, effort, out, workers)) as running,
    ):
        for name, record in running:
            records[name] = record
            finished(record)
    return tuple(records[name] for name in names)


@contextmanager
def _undo_if_interrupted(out: Path, names: Sequence[str]) -> Iterator[None]:
    """Make the folder; if the work does not end, remove what there was not before."""
    ours = [folder for folder in (out / name for name in names) if not folder.exists()]
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in ours:
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # somebody else's files are in it
            for folder in made:
                folder.rmdir()
        raise


def _records(
    known: Mapping[str, Experiment], effort: Effort, out: Path, workers: int
) -> Generator[tuple[str, Record]]:
    if workers <= 1 or len(known) == 1:
        for name in known:
            yield name, run_experiment(name, effort, out)
        return
    with _pool(workers) as pool:
        tasks = {pool.submit(run_experiment, name, effort, out): name for name in known}
        for task in as_completed(tasks):
            name = tasks[task]
            yield name, _outcome(known[name], task)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    # Fresh processes: a fork would copy the threads of a progress bar in whatever state they are.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _outcome(experiment: Experiment, task: Future[Record]) -> Record:
    try:
        return task.result()
    except Exception:  # the process itself died
        return _fail(experiment, 0.0)


def run_experiment(name: str, effort: Effort, out: Path) -> Record:
    """Run one experiment in this process and write its files into `out`/name/."""
    experiment = load(name)
    start = time.perf_counter()
    try:
        result = experiment.run(Context(name=name, effort=effort))
        _write(result, out / name)
    except Exception:
        return _fail(experiment, time.perf_counter() - start)
    return _record(
        experiment,
        time.perf_counter() - start,
        verdicts=result.verdicts,
        captions={each.name: each.caption for each in result.figures},
        parameters=dict(result.parameters),
    )


def _fail(experiment: Experiment, seconds: float) -> Record:
    return _record(experiment, seconds, failure=traceback.format_exc())


def _record(experiment: Experiment, seconds: float, **fields: Any) -> Record:
    about = {name: getattr(experiment, name) for name in ("name", "title", "about")}
    return Record(seconds=seconds, **about, **fields)


def _write(result: Result, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for drawn in result.figures:
        _save(drawn, folder)
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(result.rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(result.rows)


def _save(drawn: Drawn, folder: Path) -> None:
    path = folder / drawn.name
    drawn.figure.savefig(path.with_suffix(".png"), dpi=160)
    save_svg(drawn.figure, path.with_suffix(".svg"))


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
    """Return the command to run it, the citation, and the data to download."""
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
    """Shorten long decimals to five digits."""
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
