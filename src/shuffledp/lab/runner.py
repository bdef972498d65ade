"""Run experiments, one or several at a time, and write their files."""

import csv
import shutil
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from shuffledp.lab.contract import Context, Drawn, Effort, Experiment, Result, Verdict
from shuffledp.lab.discovery import load
from shuffledp.show.style import new_figure, save_svg

__all__ = ["Record", "run_experiment", "run_lab"]


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
        closing(_records(known, effort, out, workers)) as found,
    ):
        for name, record in found:
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


def _outcome(experiment: Experiment, task: "Future[Record]") -> Record:
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


def _record(experiment: Experiment, seconds: float, **found: Any) -> Record:
    about = {name: getattr(experiment, name) for name in ("name", "title", "about")}
    return Record(seconds=seconds, **about, **found)


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
