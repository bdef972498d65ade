"""Mutation testing: plant known faults, one at a time, and see that the tests notice.

Each `*.toml` file beside this one lists mutants of one room:

    [[mutant]]
    name = "the fsync before the rename is left out"
    old = "os.fsync(file.fileno())"
    new = "pass"
    tests = ["ledger/test_files.py"]

`old` is found by its content and must occur exactly once in src/shuffledp, so moving code around does
not break the list; `file`, the end of a path, narrows the search. `tests` must catch the mutant: files
or folders, named by the end of their path, and `only`, an expression as of `pytest -k`, picks some of
them. A mutant that cannot be caught says why in `survives`.

The runner copies the tree, checks that the tests pass there, plants each mutant in turn and runs its
tests. A mutant is killed if a test fails, or if the tests take many times as long as without it. Mutants that
do not fit the code, or whose tests fail anyway, are BROKEN: nothing is left out. It needs no network and never
touches the tree it was started from.

Usage: make mutants, or PYTHONPATH=tests python -m mutants.run [--list] [--only TEXT] [--jobs N]
"""

import argparse
import compileall
import os
import py_compile
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from repository import ROOT, tracked_files

HERE = Path(__file__).resolve().parent
SOURCE = Path("src/shuffledp")
FLOOR = 0.97
"""The share of mutants that must be killed."""
_KEYS = {"name", "old", "new", "tests", "file", "only", "survives"}
_PATIENCE, _GRACE = 8, 30.0  # times as long as the tests take without the mutant, and seconds
_COLUMNS = 100


Sources = dict[Path, str]


def read_sources(root: Path) -> Sources:
    """The text of every source file."""
    return {
        path: path.read_text(encoding="utf-8") for path in sorted((root / SOURCE).rglob("*.py"))
    }


class BadListError(Exception):
    """The list of mutants does not fit the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault: a piece of text, and what takes its place."""

    name: str
    room: str
    old: str
    new: str
    tests: tuple[str, ...]
    file: str = ""
    only: str = ""
    survives: str = ""

    @property
    def watched(self) -> tuple[str, ...]:
        """What is run, the same for many mutants."""
        return *self.tests, f"-k{self.only}"

    def find(self, sources: Sources) -> Path:
        """The one source file that holds the old text."""
        times = {
            path: text.count(self.old)
            for path, text in sources.items()
            if path.as_posix().endswith(self.file)
        }
        found = [path for path, count in times.items() if count]
        if sum(times.values()) != 1:
            where = ", ".join(path.name for path in found) or "nowhere"
            raise BadListError(
                f"{self.room}: {self.name!r}: the old text must occur exactly once, and occurs "
                f"{sum(times.values())} times ({where}): {self.old!r}"
            )
        return found[0]


class Outcome(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    EXPLAINED = "survived, as explained"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A mutant, what became of it, and which test said so."""

    mutant: Mutant
    outcome: Outcome
    detail: str
    seconds: float


def load_mutants(folder: Path = HERE) -> list[Mutant]:
    """All mutants, by room and in the order of their files.

    >>> len({mutant.name for mutant in load_mutants()}) == len(load_mutants())
    True
    """
    found: list[Mutant] = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []):
            unknown = entry.keys() - _KEYS
            if unknown or not {"name", "old", "new", "tests"} <= entry.keys():
                raise BadListError(f"{path.name}: {entry.get('name')!r} has the wrong keys")
            if entry["old"] == entry["new"] or not entry["tests"]:
                raise BadListError(f"{path.name}: {entry['name']!r} changes or tests nothing")
            found.append(Mutant(room=path.stem, **(entry | {"tests": tuple(entry["tests"])})))
    twice = [name for name, times in Counter(each.name for each in found).items() if times > 1]
    if twice:
        raise BadListError(f"names must differ: {', '.join(twice)}")
    return found


def check(mutants: Iterable[Mutant], root: Path = ROOT) -> None:
    """Every old text occurs once, the result is Python, and the tests exist."""
    sources = read_sources(root)
    for mutant in mutants:
        path = mutant.find(sources)
        try:
            compile(sources[path].replace(mutant.old, mutant.new), path, "exec")
        except SyntaxError as error:
            raise BadListError(f"{mutant.name!r} is not Python: {error}") from error
        find_tests(mutant, root)


def find_fault(mutant: Mutant, root: Path) -> str:
    """Why the mutant does not fit the code; nothing if it does."""
    try:
        check([mutant], root)
    except BadListError as error:
        return str(error)
    return ""


def find_tests(mutant: Mutant, root: Path) -> list[str]:
    """The paths of the mutant's tests, from the root."""
    known = [path.relative_to(root).as_posix() for path in (root / "tests").rglob("*")]
    paths = []
    for end in mutant.tests:
        found = [path for path in known if f"/{path}".endswith(f"/{end}")]
        if len(found) != 1:
            raise BadListError(f"{mutant.name!r}: there must be one {end}, and there are {found}")
        paths += found
    return paths


@contextmanager
def plant(mutant: Mutant, tree: Path) -> Iterator[None]:
    """The mutant's text in place of the original, until the end of the block."""
    sources = read_sources(tree)
    path = mutant.find(sources)
    original = sources[path]
    path.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(original, encoding="utf-8")


def copy_tree(root: Path, target: Path) -> None:
    """What version control knows of, compiled so that a changed source is always noticed."""
    for path in tracked_files(root):
        place = target / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    # Compiled files are usually compared by time and length, which a mutant need not change.
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(target / SOURCE, quiet=2, invalidation_mode=mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How pytest ended."""

    code: int | None
    """Its exit code; None if it was stopped."""
    output: str
    seconds: float

    @property
    def culprit(self) -> str:
        """The first test that failed."""
        for line in self.output.splitlines():
            if line.startswith(("FAILED ", "ERROR ")):
                return line.split(" ", 1)[1].split(" - ")[0]
        return ""


def run_tests(mutant: Mutant, tree: Path, patience: float | None = None) -> Run:
    """Run the mutant's tests in the tree until the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-n", "0", "-m", "not slow", "--no-header", "--tb", "line"]
    command += [*(["-k", mutant.only] if mutant.only else []), *find_tests(mutant, tree)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return Run(code=None, output="", seconds=time.monotonic() - start)
    return Run(
        code=done.returncode, output=done.stdout + done.stderr, seconds=time.monotonic() - start
    )


def judge(mutant: Mutant, tree: Path, unchanged: Run) -> Verdict:
    """Plant the mutant, run its tests, and say what became of it."""
    if unchanged.code != 0:
        return Verdict(
            mutant=mutant,
            outcome=Outcome.BROKEN,
            detail=f"its tests fail without it: {unchanged.culprit or unchanged.output[-500:]}",
            seconds=unchanged.seconds,
        )
    with plant(mutant, tree):
        run = run_tests(mutant, tree, _PATIENCE * unchanged.seconds + _GRACE)
    outcome, detail = tell(mutant, run)
    return Verdict(mutant=mutant, outcome=outcome, detail=detail, seconds=run.seconds)


def tell(mutant: Mutant, run: Run) -> tuple[Outcome, str]:
    """What the end of its tests says about the mutant."""
    if run.code == 0:
        if mutant.survives:
            return Outcome.EXPLAINED, mutant.survives
        return Outcome.SURVIVED, " ".join(mutant.tests)
    if run.code not in (1, None):
        return Outcome.BROKEN, f"pytest ended with {run.code}: {run.output[-500:].strip()}"
    if mutant.survives:
        return Outcome.BROKEN, f"said to survive, but killed by {run.culprit or 'the clock'}"
    return Outcome.KILLED, run.culprit or "ran far longer than without the mutant"


@dataclass(slots=True, kw_only=True)
class Trees:
    """Copies of the repository, each used by one job at a time."""

    root: Path
    folder: Path
    jobs: int
    _free: "queue.Queue[Path]" = field(default_factory=queue.Queue)

    def make(self) -> None:
        for place in range(self.jobs):
            tree = self.folder / str(place)
            copy_tree(self.root, tree)
            self._free.put(tree)

    @contextmanager
    def borrow(self) -> Iterator[Path]:
        tree = self._free.get()
        try:
            yield tree
        finally:
            self._free.put(tree)


def run_mutants(
    mutants: Sequence[Mutant], *, root: Path, jobs: int, say: Callable[[str], None]
) -> list[Verdict]:
    """Judge all of them, `jobs` at a time, and tell of each as soon as it is known."""
    broken = {mutant.name: why for mutant in mutants if (why := find_fault(mutant, root))}
    fitting = [mutant for mutant in mutants if mutant.name not in broken]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = Trees(root=root, folder=Path(folder), jobs=jobs)
        trees.make()
        with ThreadPoolExecutor(jobs) as pool:
            firsts = {mutant.watched: mutant for mutant in fitting}
            ended = pool.map(lambda mutant: _run_unchanged(mutant, trees), firsts.values())
            unchanged = dict(zip(firsts, ended, strict=True))

            def one(mutant: Mutant) -> Verdict:
                if mutant.name in broken:
                    verdict = Verdict(
                        mutant=mutant,
                        outcome=Outcome.BROKEN,
                        detail=broken[mutant.name],
                        seconds=0.0,
                    )
                else:
                    with trees.borrow() as tree:
                        verdict = judge(mutant, tree, unchanged[mutant.watched])
                say(_line(verdict))
                return verdict

            return list(pool.map(one, mutants))


def _run_unchanged(mutant: Mutant, trees: Trees) -> Run:
    with trees.borrow() as tree:
        return run_tests(mutant, tree)


def _line(verdict: Verdict) -> str:
    head = f"{verdict.outcome.value:9} {verdict.mutant.room}: {verdict.mutant.name}"
    return f"{head:{_COLUMNS}} {verdict.seconds:6.1f} s\n          {verdict.detail}"


def summarize(verdicts: Sequence[Verdict], seconds: float = 0.0) -> tuple[str, bool]:
    """The share killed, the time, the survivors, and whether that is good enough."""
    by_outcome = Counter(verdict.outcome for verdict in verdicts)
    killed, total = by_outcome[Outcome.KILLED], len(verdicts)
    lines = [
        f"{killed} of {total} mutants killed: {killed / total:.1%}, at least {FLOOR:.0%} wanted; "
        f"{by_outcome[Outcome.SURVIVED]} survived, {by_outcome[Outcome.EXPLAINED]} explained, "
        f"{by_outcome[Outcome.BROKEN]} broken; {seconds / 60:.1f} minutes"
    ]
    lines += [
        f"  {each.outcome.value}: {each.mutant.room}: {each.mutant.name}: {each.detail}"
        for each in verdicts
        if each.outcome is not Outcome.KILLED
    ]
    enough = killed >= FLOOR * total
    return "\n".join(lines), enough and not by_outcome[Outcome.SURVIVED] | by_outcome[
        Outcome.BROKEN
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Plant known faults and see that the tests notice."
    )
    parser.add_argument("--only", default="", help="mutants whose room or name contains this")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument(
        "--list", action="store_true", help="check and list the mutants, run nothing"
    )
    options = parser.parse_args(arguments)

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    try:
        chosen = [each for each in load_mutants() if options.only in f"{each.room}: {each.name}"]
        if not chosen:
            raise BadListError(f"no mutant is called {options.only!r}")
        if options.list:
            check(chosen)
            sources = read_sources(ROOT)
            for mutant in chosen:
                say(f"{mutant.find(sources).relative_to(ROOT / SOURCE)!s:32} {mutant.name}")
            say(f"{len(chosen)} mutants")
            return 0
        start = time.monotonic()
        verdicts = run_mutants(chosen, root=ROOT, jobs=options.jobs, say=say)
    except BadListError as error:
        say(f"error: {error}")
        return 2
    text, good = summarize(verdicts, time.monotonic() - start)
    say("\n" + text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
