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

A mutant of the JavaScript client names its `file`, such as `laws.js`, and tests that Node runs, such as
`laws.test.js` (`only` is then a part of their names), or tests in Python that start Node.

The runner copies the tree, plants each mutant in turn and runs its tests until one fails. A mutant is killed if that
test passes without it, or if the tests take many times as long as without it. The tests that failed are run together
without any mutant, for a dozen mutants at a time. Mutants that do not fit the code, or whose test fails anyway, are
BROKEN: nothing is left out. It needs no network and never touches the tree it was started from.

Verdicts are written to .mutants.tsv as they are known, and the next run goes on from there: a mutant that was killed is
tried again only if it, the file that it changes or its tests are different. Whatever was not killed is always
tried again, and `--anew` tries everything.

Usage: make mutants, or PYTHONPATH=tests python -m mutants.run [--list] [--only TEXT] [--jobs N] [--anew]
"""

import argparse
import compileall
import hashlib
import itertools
import multiprocessing
import os
import py_compile
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path

from repository import ROOT, tracked_files

HERE = Path(__file__).resolve().parent
SOURCE, SCRIPTS = Path("src/shuffledp"), Path("clients/js")
RECORD = ROOT / ".mutants.tsv"
"""What became of each mutant, so that a run can go on where the last one ended."""
FLOOR = 0.97
"""The share of mutants that must be killed."""
_KEYS = {"name", "old", "new", "tests", "file", "only", "survives"}
_BATCH = 12  # mutants whose verdicts are confirmed together
_LIMIT, _PATIENCE = 600.0, 8  # seconds; times as long as the tests take without the mutant
_COLUMNS = 100


Sources = dict[Path, str]


def read_sources(root: Path) -> Sources:
    """The text of every source file."""
    paths = [*(root / SOURCE).rglob("*.py"), *(root / SCRIPTS / "src").glob("*.js")]
    return {path: path.read_text(encoding="utf-8") for path in sorted(paths)}


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

    def find(self, sources: Sources) -> Path:
        """The one source file that holds the old text."""
        times = {
            path: text.count(self.old)
            for path, text in sources.items()
            if path.as_posix().endswith(self.file or ".py")
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
    known: bool = False
    """Whether an earlier run said so."""
    culprit: str = ""
    """The test that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The verdicts on disk, one line each: key, outcome, seconds, room, name, detail."""

    path: Path

    def recall(self, mutant: Mutant, key: str) -> Verdict | None:
        """The last verdict on the mutant if it was killed, or survived as explained, with the same code and tests."""
        if not self.path.exists():
            return None
        lines = self.path.read_text(encoding="utf-8").splitlines()
        # The line that was being written when the power went off is not one.
        fields = [parts for line in lines if len(parts := line.split("\t")) == 6]
        for found, outcome, seconds, _, _, detail in reversed(fields):
            if found == key and outcome in (Outcome.KILLED.value, Outcome.EXPLAINED.value):
                return Verdict(
                    mutant=mutant,
                    outcome=Outcome(outcome),
                    detail=detail,
                    seconds=float(seconds),
                    known=True,
                )
        return None

    def note(self, verdict: Verdict, key: str) -> None:
        mutant, detail = verdict.mutant, " ".join(verdict.detail.split())
        parts = (key, verdict.outcome.value, f"{verdict.seconds:.1f}", mutant.room, mutant.name)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\t".join([*parts, detail]) + "\n")


def make_key(mutant: Mutant, root: Path) -> str:
    """A digest of what the mutant changes, of the file that it is in, and of its tests."""
    change = (mutant.old, mutant.new, mutant.tests, mutant.only, mutant.survives)
    digest = hashlib.sha256(repr(change).encode())
    paths = [mutant.find(read_sources(root))]
    for name in find_tests(mutant, root):
        place = root / name
        paths += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


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
        if path.suffix == ".py":
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
    known = _list_tests(root)
    paths = []
    for end in mutant.tests:
        found = [path for path in known if f"/{path}".endswith(f"/{end}")]
        if len(found) != 1:
            raise BadListError(f"{mutant.name!r}: there must be one {end}, and there are {found}")
        paths += found
    return paths


@lru_cache(maxsize=8)
def _list_tests(root: Path) -> tuple[str, ...]:
    paths = [*(root / "tests").rglob("*"), *(root / SCRIPTS / "test").glob("*.js")]
    return tuple(path.relative_to(root).as_posix() for path in paths)


@contextmanager
def plant(mutant: Mutant, tree: Path) -> Iterator[None]:
    """The mutant's text in place of the original, until the end of the block."""
    sources = read_sources(tree)
    path = mutant.find(sources)
    original = sources[path]
    with swap(path, original.replace(mutant.old, mutant.new), original):
        yield


_MOMENTS = itertools.count(1_000_000_000)  # long ago: no file of the tree has such a time


@contextmanager
def swap(path: Path, text: str, original: str) -> Iterator[None]:
    """Write the text instead of the original, until the end of the block.

    Each version has a second of its own: pytest keeps what it compiles, examples in the source included,
    as long as time and length of the file stay the same.
    """
    _write_dated(path, text)
    try:
        yield
    finally:
        _write_dated(path, original)


def _write_dated(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    moment = next(_MOMENTS)
    os.utime(path, (moment, moment))


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
    def failed(self) -> list[str]:
        """The tests that failed."""
        lines = self.output.splitlines()
        return [
            line.split(" ", 1)[1].split(" - ")[0]
            for line in lines
            if line.startswith(("FAILED ", "ERROR "))
        ]

    @property
    def culprit(self) -> str:
        """The first of them."""
        return next(iter(self.failed), "")


def run_tests(
    tests: Sequence[str], only: str, tree: Path, patience: float | None = None, *failures: str
) -> Run:
    """Run tests in the tree until the first failure, in a process that has NumPy and pytest already."""
    scripts = list(dict.fromkeys(test.partition("::")[0] for test in tests if ".test.js" in test))
    tests = [test for test in tests if ".test.js" not in test]
    run = run_scripts(scripts, only, tree, patience)
    if run.code != 0 or not tests:
        return run
    command = [*(failures or ["-x"]), "-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not slow"]
    command += [
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]  # of plugins that are loaded already
    command += ["--no-header", "--tb", "line", *(["-k", only] if only else []), *tests]
    said = tree.with_suffix(".txt")
    said.write_text("")
    start = time.monotonic()
    process = _WARM.Process(target=_run_pytest, args=(command, str(tree), str(said)))
    process.start()
    process.join(patience)
    stopped = process.exitcode is None
    if stopped:
        os.killpg(process.pid or 0, signal.SIGKILL)  # its children, too
        process.join()
    output, seconds = said.read_text(errors="replace"), time.monotonic() - start
    return Run(code=None if stopped else process.exitcode, output=output, seconds=seconds)


def run_scripts(tests: Sequence[str], only: str, tree: Path, patience: float | None) -> Run:
    """Run test files of the JavaScript client, one after the other, until the first failure."""
    start = time.monotonic()
    for name in tests:
        picked = [f"--test-name-pattern={only}"] if only else []
        command = [shutil.which("node") or "node", "--test", "--test-reporter=tap", *picked, name]
        with subprocess.Popen(
            command, cwd=tree, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                said, _ = process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return Run(code=None, output="", seconds=time.monotonic() - start)
        if process.returncode:
            title = next(iter(re.findall(r"not ok \d+ - (.*)", said)), "it cannot be loaded")
            seconds = time.monotonic() - start
            return Run(code=1, output=f"FAILED {name}::{title}\n{said}", seconds=seconds)
    return Run(code=0, output="", seconds=time.monotonic() - start)


_PLUGINS = ("pytest", "hypothesis", "anyio.pytest_plugin", "xdist.plugin", "pytest_cov.plugin")
_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload([*_PLUGINS, "numpy", "scipy.special", "scipy.stats", "cryptography"])


def _run_pytest(command: list[str], tree: str, said: str) -> None:
    os.setsid()
    with Path(said).open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(tree)
    os.environ |= {"PYTHONPATH": f"{tree}/src", "PYTHONDONTWRITEBYTECODE": "1"}
    # Tests are compiled once. So is the code: what is cached of it is compared by content.
    sys.dont_write_bytecode = False
    ours = {str(place) for place in (ROOT, ROOT / "src", ROOT / "tests")}
    sys.path[:] = [f"{tree}/src", *(each for each in sys.path if each not in ours)]
    for name in ("repository", "mutants", "mutants.run", "__mp_main__"):  # the tests have their own
        sys.modules.pop(name, None)
    # Processes that tests start need not import ours.
    sys.modules["__main__"] = types.ModuleType("__main__")
    import pytest

    code = pytest.main(command)
    sys.stdout.flush()
    os._exit(code)


def judge(mutant: Mutant, tree: Path) -> Verdict:
    """Plant the mutant, run its tests, and say what became of it, unless its tests fail anyway."""
    tests = find_tests(mutant, tree)
    with plant(mutant, tree):
        run = run_tests(tests, mutant.only, tree, _LIMIT)
    outcome, detail = tell(mutant, run)
    seconds = run.seconds
    if run.code is None:
        original = run_tests(tests, mutant.only, tree, _LIMIT / _PATIENCE)
        seconds += original.seconds
        if original.code != 0:
            outcome, detail = Outcome.BROKEN, "its tests take long, or fail, without it"
    return Verdict(
        mutant=mutant, outcome=outcome, detail=detail, seconds=seconds, culprit=run.culprit
    )


def confirm(verdicts: Sequence[Verdict], tree: Path) -> list[Verdict]:
    """The same, with those as BROKEN whose test fails without a mutant."""
    culprits = {each.culprit for each in verdicts if each.outcome is Outcome.KILLED} - {""}
    bad = find_bad(sorted(culprits), tree) if culprits else set()
    return [
        replace(each, outcome=Outcome.BROKEN, detail=f"its tests fail without it: {each.culprit}")
        if each.outcome is Outcome.KILLED and each.culprit in bad
        else each
        for each in verdicts
    ]


def find_bad(tests: Sequence[str], tree: Path) -> set[str]:
    """Those of the tests that do not pass; by themselves, if they cannot be run together."""
    run = run_tests(tests, "", tree, _LIMIT, "--maxfail=1000")
    if run.code == 0:
        return set()
    if len(tests) == 1 or (run.code == 1 and set(run.failed) <= set(tests)):
        return set(tests) if len(tests) == 1 else set(run.failed)
    return {test for test in tests if find_bad([test], tree)}


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
    mutants: Sequence[Mutant],
    *,
    root: Path,
    jobs: int,
    say: Callable[[str], None],
    record: Record | None = None,
) -> list[Verdict]:
    """Judge all of them, `jobs` at a time, and tell and record the verdicts as they are confirmed."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = Trees(root=root, folder=Path(folder), jobs=jobs)
        trees.make()

        def some(batch: Sequence[Mutant]) -> list[Verdict]:
            with trees.borrow() as tree:
                verdicts = confirm([one(mutant, tree) for mutant in batch], tree)
                for each in verdicts:
                    if record and not each.known and each.outcome is not Outcome.BROKEN:
                        # Keys are those of the copy: the tree may change while mutants are run.
                        record.note(each, make_key(each.mutant, tree))
                    say(_line(each))
            return verdicts

        def one(mutant: Mutant, tree: Path) -> Verdict:
            if why := find_fault(mutant, tree):
                return Verdict(mutant=mutant, outcome=Outcome.BROKEN, detail=why, seconds=0.0)
            known = record.recall(mutant, make_key(mutant, tree)) if record else None
            return known or judge(mutant, tree)

        pool = ThreadPoolExecutor(jobs)
        size = min(_BATCH, -(-len(mutants) // jobs))
        batches = [mutants[start : start + size] for start in range(0, len(mutants), size)]
        try:
            return [each for found in pool.map(some, batches) for each in found]
        finally:  # after an interruption, too: those that have not begun never will
            pool.shutdown(cancel_futures=True)


def _line(verdict: Verdict) -> str:
    head = f"{verdict.outcome.value:9} {verdict.mutant.room}: {verdict.mutant.name}"
    known = ", known from an earlier run" if verdict.known else ""
    return f"{head:{_COLUMNS}} {verdict.seconds:6.1f} s{known}\n          {verdict.detail}"


def summarize(verdicts: Sequence[Verdict], seconds: float = 0.0) -> tuple[str, bool]:
    """The share killed, the time, the survivors, and whether that is good enough."""
    by_outcome = Counter(verdict.outcome for verdict in verdicts)
    killed, total = by_outcome[Outcome.KILLED], len(verdicts)
    known = [verdict for verdict in verdicts if verdict.known]
    lines = [
        f"{killed} of {total} mutants killed: {killed / total:.1%}, at least {FLOOR:.0%} wanted; "
        f"{by_outcome[Outcome.SURVIVED]} survived, {by_outcome[Outcome.EXPLAINED]} explained, "
        f"{by_outcome[Outcome.BROKEN]} broken; {seconds / 60:.1f} minutes"
        + (f", and {len(known)} known from an earlier run" if known else "")
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
    parser.add_argument(
        "--anew",
        action="store_true",
        help="forget the verdicts of earlier runs, and try everything",
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
                say(f"{mutant.find(sources).relative_to(ROOT)!s:48} {mutant.name}")
            say(f"{len(chosen)} mutants")
            return 0
        if options.anew:
            RECORD.unlink(missing_ok=True)
        start, record = time.monotonic(), Record(path=RECORD)
        verdicts = run_mutants(chosen, root=ROOT, jobs=options.jobs, say=say, record=record)
    except BadListError as error:
        say(f"error: {error}")
        return 2
    text, good = summarize(verdicts, time.monotonic() - start)
    say("\n" + text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
