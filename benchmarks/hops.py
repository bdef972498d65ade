"""How far a request travels: files passed and file-to-file hops of one command, or of one live report.

    python benchmarks/hops.py [--live] [--pairs]

A *file passed* is one of shuffledp's own files of which a function runs. A *hop* is a call from a function
of one of them into a function of another; what lies between (Typer, DuckDB, NumPy) does not count. `steps`
counts each pair of functions once, however often a loop takes the step: it is what a reader has to follow.
What runs while modules are imported is left out. Another tree is measured by putting it on PYTHONPATH.

Without `--live` it is `shuffledp run histogram` on a CSV, and the CPU seconds are those of a whole process,
the best of some. With `--live` devices read the document of a small collection and answer; a shuffler takes their
reports and writes the batch; an analyzer counts it and publishes the result: the three state machines in this
process, without sockets. That a device recomputes the promise, once for each collection, is not part of it.
"""

import csv
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import shuffledp as sdp

N = 20_000
PEOPLE = 20
ROUNDS = 5
ROOT = str(Path(sdp.__file__).parent)
SURVEY = """
epsilon = 4.0
delta = 1e-2
[questions.way]
task = "histogram"
categories = ["car", "bicycle", "bus"]
[collection]
people = 40
noise = "devices"
"""


def words(folder: str) -> list[str]:
    """The command, on a file with N people in it."""
    people = sdp.samples.survey(N)
    labels = people.way.domain.labels
    path = Path(folder, "people.csv")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["way", "minutes", "home"])
        for row in zip(people.way.codes, people.minutes, people.home, strict=True):
            writer.writerow([labels[row[0]], *row[1:]])
    asked = ["--column", "way", "--categories", ",".join(labels)]
    return ["run", "histogram", str(path), *asked, "--epsilon", "1", "--delta", "1e-8"]


class Trace:
    """What a profiler sees of shuffledp's own functions."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.hops: Counter[tuple[str, str]] = Counter()
        self.steps: set[tuple[CodeType, CodeType]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not own(frame) or importing(frame):
            return
        name = frame.f_code.co_filename
        self.files.add(name)
        caller = frame.f_back
        while caller is not None and not own(caller):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != name:
            self.hops[caller.f_code.co_filename, name] += 1
            self.steps.add((caller.f_code, frame.f_code))


def own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(ROOT)


def importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def traced(work: Callable[[], Any]) -> Trace:
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return trace


def seconds(command: list[str]) -> float:
    """CPU seconds of the command as a process of its own."""
    found = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(  # noqa: S603
            [sys.executable, "-m", "shuffledp", *command],
            check=True,
            stdout=subprocess.DEVNULL,
            env=dict(os.environ, PYTHONPATH=str(Path(ROOT).parent)),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def prepare_live(folder: Path) -> tuple[Any, Any, Any]:
    """A small collection, with the shuffler and the analyzer that wait for its reports."""
    from shuffledp.live.analyzer import Analyzer
    from shuffledp.live.design import choose_protocols, make_collection, read_survey
    from shuffledp.live.shuffler import Shuffler
    from shuffledp.live.store import SqliteStore

    path = folder / "survey.toml"
    path.write_text(SURVEY)
    survey, settings = read_survey(path)
    collection, outer, inner = make_collection(choose_protocols(survey, settings), settings)
    assert inner is not None
    room = {name: folder / name for name in ("shuffler", "analyzer")}
    for each in room.values():
        each.mkdir()
    store = SqliteStore(room["shuffler"] / "store.sqlite", collection, durable=False)
    shuffler = Shuffler(collection=collection, secrets=outer, store=store, folder=room["shuffler"])
    analyzer = Analyzer(collection=collection, secrets=inner, folder=room["analyzer"])
    return collection, shuffler, analyzer


def travel(folder: Path, collection: Any, shuffler: Any, analyzer: Any) -> None:
    """Reports of some devices, from their answers to the published result."""
    from shuffledp.live.device import Device

    now = time.time()
    for place in range(PEOPLE):
        device = Device(folder / f"outbox-{place}.sqlite")
        mine = device.check(collection.raw, collection.id)
        window = device.answer(mine, {"way": "bus"}, now)
        reply = shuffler.receive(device.upload(mine, window), now)
        device.settle(mine, window, reply.failed[0][1] if reply.failed else None)
        device.close()
    shuffler.close(now)
    manifest, signature = shuffler.manifest(0, now)
    analyzer.take(manifest.raw, signature, lambda _: shuffler.batch(0).read_bytes())
    shuffler.take_receipt(0, analyzer.receipt(0), now)
    assert analyzer.advance(0) == "published"
    assert analyzer.results()


def trace_live() -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        roles = prepare_live(place)
        return traced(lambda: travel(place, *roles))


def trace_command() -> tuple[Trace, float]:
    from shuffledp.cli import app

    with tempfile.TemporaryDirectory() as folder:
        command = words(folder)
        trace = traced(lambda: app(command, standalone_mode=False))
        return trace, seconds(command)


def main() -> None:
    write = sys.stdout.write
    if "--live" in sys.argv:
        trace, spent = trace_live(), ""
    else:
        trace, cpu = trace_command()
        spent = f", CPU {cpu:.2f} s"
    write(f"{ROOT}\nfiles passed {len(trace.files)}, hops {trace.hops.total():,}, ")
    write(f"steps {len(trace.steps)}{spent}\n")
    if "--pairs" in sys.argv:
        for (one, other), times in trace.hops.most_common():
            write(f"{times:6} {one[len(ROOT) + 1 :]} -> {other[len(ROOT) + 1 :]}\n")


if __name__ == "__main__":
    main()
