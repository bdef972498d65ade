"""How far a request travels: files passed and file-to-file hops of `shuffledp run histogram` on a CSV.

    python benchmarks/hops.py [--pairs]

A *file passed* is one of shuffledp's own files of which a function runs. A *hop* is a call from a function
of one of them into a function of another; what lies between (Typer, DuckDB, NumPy) does not count. `steps`
counts each pair of functions once, however often a loop takes the step: it is what a reader has to follow.
What runs while modules are imported is left out. The CPU seconds are those of a whole process, the best of
some. Another tree is measured by putting it on PYTHONPATH.
"""

import csv
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import shuffledp as sdp

N = 20_000
ROUNDS = 5
ROOT = str(Path(sdp.__file__).parent)


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


def traced(command: list[str]) -> Trace:
    from shuffledp.cli import app

    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        app(command, standalone_mode=False)
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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = words(folder)
        trace = traced(command)
        spent = seconds(command)
    write = sys.stdout.write
    write(f"{ROOT}\nfiles passed {len(trace.files)}, hops {trace.hops.total():,}, ")
    write(f"steps {len(trace.steps)}, CPU {spent:.2f} s\n")
    if "--pairs" in sys.argv:
        for (one, other), times in trace.hops.most_common():
            write(f"{times:6} {one[len(ROOT) + 1 :]} -> {other[len(ROOT) + 1 :]}\n")


if __name__ == "__main__":
    main()
