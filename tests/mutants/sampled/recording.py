"""Which tests run which lines, and how long they take: recorded once, then kept up to date by test file.

A recording is a folder of .mutants/recorded: the database of coverage.py with one context for each test,
the seconds of the tests, the sources as they were, and digests of the test files. Test files that are new
or have changed are recorded again, into a folder of their own; the newest recording of a test counts.
Lines are found by what they say, so that a recording remains good when code moves within its file.
"""

import difflib
import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mutants.sampled import timing

SOURCE = "src/shuffledp"
_GUESS = 5.0  # seconds of a file that was not recorded
_TESTS = Path(__file__).resolve().parents[2]  # where this plugin of pytest is found
_PHASE = re.compile(r"(\|(setup|run|teardown)| \((setup|call|teardown)\))$")
_GROUP = re.compile(r"@(browser|servers|spark)$")  # pytest-xdist adds it to the names of tests
_SUITE = """[run]
source_pkgs = shuffledp
data_file = {data}
"""
_PROCESSES = (
    _SUITE
    + """parallel = true
sigterm = true
context = ${{PYTEST_CURRENT_TEST-}}
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run of tests under coverage."""

    folder: Path
    seconds: Mapping[str, float]
    """How long each test took, by its name."""
    files: Mapping[str, str]
    """The digest of each test file."""
    sources: Mapping[str, str]
    """The text of each source file, as it was."""

    @classmethod
    def load(cls, folder: Path) -> "Recording":
        parts = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
        return cls(folder=folder, **parts)

    def name_then(self, source: str, today: str) -> str | None:
        """What a source file was called; the one that it shares most lines with, if it has moved."""
        if source in self.sources:
            return source
        lines = set(today.splitlines())

        def alike(name: str) -> float:
            then = set(self.sources[name].splitlines())
            return len(then & lines) / (len(then | lines) or 1)

        best = max(self.sources, key=alike, default=None)
        return best if best is not None and alike(best) > 0.4 else None

    def rows(self, source: str) -> Iterator[tuple[str, bytes]]:
        """Every test that ran a part of the file, and the lines as bits."""
        with sqlite3.connect(f"file:{self.folder / 'lines'}?mode=ro", uri=True) as data:
            found = data.execute(
                "select context.context, numbits from line_bits join context on context_id = context.id"
                " join file on file_id = file.id where file.path like ? and context.context != ''",
                (f"%/{source}",),
            ).fetchall()
        for name, bits in found:
            yield _GROUP.sub("", _PHASE.sub("", name)), bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """All recordings of a tree."""

    root: Path
    recordings: Sequence[Recording]
    _owner: dict[str, int] = field(init=False, default_factory=dict)
    """Which recording counts, for each test."""

    def __post_init__(self) -> None:
        files = {name: place for place, each in enumerate(self.recordings) for name in each.files}
        for place, each in enumerate(self.recordings):
            for test in each.seconds:
                # A test that its file no longer has is gone.
                if files.get(test.partition("::")[0], place) == place:
                    self._owner[test] = place

    @classmethod
    def load(cls, root: Path) -> "Recorded":
        found = sorted((root / ".mutants/recorded").glob("*/recording.json"))
        return cls(root=root, recordings=[Recording.load(each.parent) for each in found])

    @property
    def files(self) -> set[str]:
        """The test files that were recorded, as they are or as they were."""
        return {name for each in self.recordings for name in each.files}

    def seconds(self, test: str) -> float:
        """How long a test took; a guess for a file that was not recorded."""
        return self.recordings[self._owner[test]].seconds[test] if test in self._owner else _GUESS

    def covering(self, source: str, lines: Iterable[int]) -> set[str]:
        """The tests that run any of these lines of the file, numbered as they are today."""
        wanted = set(lines)
        found: set[str] = set()
        for place, recording in enumerate(self.recordings):
            today = (self.root / source).read_text(encoding="utf-8")
            name = recording.name_then(source, today)
            if name is None:
                continue
            then = _match_lines(today, recording.sources[name])
            numbers = [then[line] for line in wanted if line in then]
            rows = _read_rows(recording, name)
            found |= {
                test
                for test, bits in rows
                if self._owner.get(test) == place and any(_has(bits, line) for line in numbers)
            }
        return found

    def stale(self, files: Iterable[str]) -> list[str]:
        """The test files that no recording knows as they are."""
        known = {name: digest for each in self.recordings for name, digest in each.files.items()}
        return [name for name in files if known.get(name) != digest_of(self.root / name)]


_ROWS: dict[tuple[Path, str], list[tuple[str, bytes]]] = {}


def _read_rows(recording: Recording, source: str) -> list[tuple[str, bytes]]:
    key = (recording.folder, source)
    if key not in _ROWS:
        if len(_ROWS) > 8:
            _ROWS.clear()
        _ROWS[key] = list(recording.rows(source))
    return _ROWS[key]


def _has(bits: bytes, line: int) -> bool:
    return line // 8 < len(bits) and bool(bits[line // 8] >> (line % 8) & 1)


@cache
def _match_lines(today: str, then: str) -> dict[int, int]:
    """The line number then, for each line of today that says the same.

    >>> _match_lines("a\\nnew\\nb", "a\\nb\\nc")
    {1: 1, 3: 2}
    """
    blocks = difflib.SequenceMatcher(
        a=today.splitlines(), b=then.splitlines(), autojunk=False
    ).get_matching_blocks()
    return {
        block.a + step + 1: block.b + step + 1 for block in blocks for step in range(block.size)
    }


def digest_of(path: Path) -> str:
    """A digest of a file; nothing if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def list_test_files(root: Path) -> list[str]:
    """The files that pytest finds tests in: those called so, and modules with examples.

    >>> from repository import ROOT
    >>> "tests/mutants/test_sampled.py" in list_test_files(ROOT)
    True
    """
    tests = [path for path in (root / "tests").rglob("*.py") if path.name.startswith("test_")]
    examples = [
        path
        for place in ("src", "tests")
        for path in (root / place).rglob("*.py")
        if ">>> " in path.read_text(encoding="utf-8")
    ]
    found = {path.relative_to(root) for path in (*tests, *examples)}
    return sorted(path.as_posix() for path in found if not path.is_relative_to("tests/plugin"))


def record(root: Path, files: Sequence[str], jobs: int) -> Recording:
    """Run test files under coverage, and keep what they covered."""
    place = root / ".mutants/recorded"
    place.mkdir(parents=True, exist_ok=True)
    folder = place / f"{len(list(place.iterdir())):04}"
    folder.mkdir()
    data = folder / "lines"
    suite, processes = folder / "suite.ini", folder / "processes.ini"
    suite.write_text(_SUITE.format(data=data), encoding="utf-8")
    processes.write_text(_PROCESSES.format(data=data), encoding="utf-8")
    sources = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / SOURCE).rglob("*.py"))
    }
    digests = {name: digest_of(root / name) for name in files}
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs)]
    # Without workers, pytest-cov waits for theirs if the way to spread the tests is named.
    command += ["--dist", "loadgroup"] if jobs else []
    command += ["-m", "not slow", "-p", "no:cacheprovider", "-p", "mutants.sampled.timing"]
    command += ["--cov=shuffledp", f"--cov-config={suite}", "--cov-context=test"]
    command += ["--cov-report=", "--cov-fail-under=0", "--tb=line", *files]
    names = {
        timing.SECONDS: str(folder / "seconds.json"),
        timing.PROCESSES: str(processes),
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(_TESTS)]),
    }
    # A test of this function is measured, and is a test, itself.
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COVERAGE_", "COV_"))
    }
    with (folder / "log.txt").open("w") as log:
        done = subprocess.run(
            command,
            cwd=root,
            env=clean | names,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode not in (0, 1):  # 1: a test failed, perhaps because it is measured
        raise RuntimeError(f"pytest ended with {done.returncode}: see {folder / 'log.txt'}")
    seconds = json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
    parts = {
        "seconds": {_GROUP.sub("", name): took for name, took in seconds.items()},
        "files": digests,
        "sources": sources,
    }
    (folder / "recording.json").write_text(json.dumps(parts), encoding="utf-8")
    return Recording.load(folder)
