"""How well do the tests notice faults? Plant a random sample of mutants and count those that are killed.

The places are drawn by a seed from all rooms of src/shuffledp and clients/js/src (sample.py), with the operators that
mutation tools have (places.py, places.cjs). Each mutant is planted in a copy of the tree and meets the tests that
cover its line (choice.py, recording.py), in JavaScript all tests of the client, until one fails. It is killed if that
test passes without it, or if the tests take many times as long as without it. Whatever outlives the tests within the
limit of time has survived, even if a test beyond the limit would notice.

Mutants that are explained in explained/ are not run and are left out of the share.

Usage: make mutants-sample SEED=... [N=150] [ROOMS=foundation], or
PYTHONPATH=tests python -m mutants.sampled.run --seed TEXT [--n 150] [--rooms NAMES] [--seconds 60] [--jobs 1]
[--list] [--as-recorded]
"""

import argparse
import hashlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from scipy.stats import beta

from mutants import run as listed
from mutants.sampled.choice import SECONDS, Choice, choose_tests
from mutants.sampled.recording import Recorded, digest_of, list_test_files, record
from mutants.sampled.sample import (
    FLOORS,
    Mutant,
    SampleError,
    choose_rooms,
    draw_sample,
    load_explained,
    read_places,
    room_of,
)
from repository import ROOT

LEVEL = 0.95
"""Of the intervals."""
MOST_EXPLAINED = 0.15
"""The share of a sample that may be left out."""
_AT_ONCE = 60  # test files that are recorded together
_BATCH = 6  # mutants whose verdicts are confirmed together
_PATIENCE, _START = 6, 60.0  # times as long as recorded, and seconds for the start
_MISSING = re.compile(r"not found: (?:.*?/)??((?:tests|src|docs)/.*?)$", re.MULTILINE)
_SCRIPT_TESTS = (
    "tests/live/wire/test_vectors.py",
    "tests/live/wire/test_promise.py",
    "tests/live/pages/test_pages.py",
)  # Python that runs JavaScript, for mutants that the client's own tests let live


class Outcome(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    EXPLAINED = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A mutant, what became of it, and why."""

    mutant: Mutant
    outcome: Outcome
    detail: str
    seconds: float = 0.0
    culprit: str = ""
    """The test that failed."""


def interval(killed: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of Clopper and Pearson for a share.

    >>> [round(end, 4) for end in interval(9, 10)]
    [0.555, 0.9975]
    """
    error = (1 - level) / 2
    low = float(beta.ppf(error, killed, n - killed + 1)) if killed else 0.0
    high = float(beta.ppf(1 - error, killed + 1, n - killed)) if killed < n else 1.0
    return low, high


@contextmanager
def plant(mutant: Mutant, tree: Path) -> Iterator[None]:
    """The changed file in place of the original, until the end of the block."""
    with listed.swap(tree / mutant.file, mutant.changed, mutant.text):
        yield


@dataclass(kw_only=True)
class Judge:
    """Runs mutants against their tests, in copies of the tree."""

    recorded: Recorded
    limit: float = SECONDS
    _bad: set[str] = field(default_factory=set)
    """Tests that fail without any mutant."""
    _fine: set[str] = field(default_factory=set)
    """Tests that pass without a mutant."""

    def judge(self, mutant: Mutant, tree: Path) -> Verdict:
        """Say what became of a mutant, unless the test that fails does so anyway."""
        choice = self.choose(mutant)
        start = time.monotonic()
        for batch, seconds in zip(choice.batches, choice.seconds, strict=True):
            tests = [test for test in batch if test not in self._bad]
            if tests and (culprit := self.meet(mutant, tests, seconds, tree)):
                took = time.monotonic() - start
                return Verdict(
                    mutant=mutant,
                    outcome=Outcome.KILLED,
                    detail=culprit,
                    seconds=took,
                    culprit=culprit.partition(" (")[0],
                )
        tests = sum(len(batch) for batch in choice.batches)
        detail = f"{tests} tests pass, {choice.covering} cover the line"
        took = time.monotonic() - start
        return Verdict(mutant=mutant, outcome=Outcome.SURVIVED, detail=detail, seconds=took)

    def choose(self, mutant: Mutant) -> Choice:
        if mutant.file.endswith(".py"):
            return choose_tests(mutant, self.recorded, self.limit)
        root = self.recorded.root
        own = sorted(
            path.relative_to(root).as_posix()
            for path in (root / "clients/js/test").glob("*.test.js")
        )
        others = [name for name in _SCRIPT_TESTS if (root / name).is_file()]
        batches = [batch for batch in (own, others) if batch]
        return Choice(batches=batches, seconds=[self.limit] * len(batches), covering=len(own))

    def meet(self, mutant: Mutant, tests: Sequence[str], seconds: float, tree: Path) -> str:
        """The test that fails, or why it does not end; nothing if the mutant survives."""
        patience = _START + _PATIENCE * seconds
        # A file may have tests that fail anyway.
        without = [part for test in sorted(self._bad) for part in ("--deselect", test)]
        with plant(mutant, tree):
            run = listed.run_tests(tests, "", tree, patience, "-x", *without)
        if run.code is None:
            original = listed.run_tests(tests, "", tree, patience)
            slow = original.code is None or original.seconds > patience / 2
            return "" if slow else f"{tests[0]} (ran far longer than without the mutant)"
        if run.code == 0 or (run.code == 5 and not run.failed):
            return ""
        if run.failed:
            return run.culprit
        missing = set(_MISSING.findall(run.output))
        left = [test for test in tests if test not in missing]
        if missing and len(left) < len(tests):  # their names come from what the mutant has changed
            return self.meet(mutant, left, seconds, tree) if left else ""
        return f"{tests[0]} (pytest ended with {run.code})"

    def confirm(self, verdicts: Sequence[Verdict], tree: Path) -> list[Verdict]:
        """The same; mutants whose test fails anyway are judged again without that test."""
        found = list(verdicts)
        while culprits := {each.culprit for each in found if each.culprit} - self._fine:
            bad = self.find_bad(sorted(culprits), tree)
            self._bad |= bad
            if bad:  # there may be more of them in the same files
                files = sorted({each.partition("::")[0] for each in bad})
                self._bad |= set(listed.run_tests(files, "", tree, 600.0, "--maxfail=1000").failed)
            self._fine |= culprits - bad
            found = [
                self.judge_again(each, tree) if each.culprit in bad else each for each in found
            ]
        return found

    def judge_again(self, verdict: Verdict, tree: Path) -> Verdict:
        """Judge a mutant without tests that fail anyway; it survives if such a test cannot be left out."""
        again = self.judge(verdict.mutant, tree)
        if again.culprit not in self._bad:
            return again
        detail = f"{again.culprit} fails anyway"
        return replace(again, outcome=Outcome.SURVIVED, detail=detail, culprit="")

    def find_bad(self, tests: Sequence[str], tree: Path) -> set[str]:
        """Those of the tests that do not pass; of files, those that cannot be collected."""
        single = [test for test in tests if "::" in test]
        files = [test for test in tests if "::" not in test]
        bad = listed.find_bad(single, tree) if single else set()
        if files and listed.run_tests(files, "", tree, 600.0, "--collect-only").code != 0:
            bad |= set(files)
        return bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Kills on disk, so that an interrupted run goes on where it ended: key, digest of the test file, culprit."""

    path: Path
    root: Path

    @staticmethod
    def key(mutant: Mutant) -> str:
        said = repr((mutant.file, mutant.text, mutant.changed))
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    def recall(self, mutant: Mutant) -> Verdict | None:
        """The kill of the same mutant by a test that has not changed; survivors are always tried again."""
        if not self.path.exists():
            return None
        key = self.key(mutant)
        for line in reversed(self.path.read_text(encoding="utf-8").splitlines()):
            parts = line.split("\t")
            if len(parts) == 3 and parts[0] == key:
                test = self.root / parts[2].partition("::")[0].partition(" (")[0]
                if digest_of(test) == parts[1]:
                    return Verdict(mutant=mutant, outcome=Outcome.KILLED, detail=parts[2])
        return None

    def note(self, verdict: Verdict) -> None:
        test = digest_of(self.root / verdict.culprit.partition("::")[0])
        if verdict.outcome is Outcome.KILLED and test:
            detail = " ".join(verdict.detail.split())
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{self.key(verdict.mutant)}\t{test}\t{detail}\n")


def run_sample(
    mutants: Sequence[Mutant],
    *,
    judge: Judge,
    jobs: int,
    say: Callable[[str], None],
    kept: Kept | None = None,
) -> list[Verdict]:
    """Judge all mutants and tell the verdicts as they are confirmed."""
    explained = load_explained()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = listed.Trees(root=judge.recorded.root, folder=Path(folder), jobs=jobs)
        trees.make()

        def one(mutant: Mutant, tree: Path) -> Verdict:
            for each in explained:
                if each.fits(mutant):
                    detail = f"{each.kind}: {each.reason}"
                    return Verdict(mutant=mutant, outcome=Outcome.EXPLAINED, detail=detail)
            return (kept and kept.recall(mutant)) or judge.judge(mutant, tree)

        def some(batch: Sequence[Mutant]) -> list[Verdict]:
            with trees.borrow() as tree:
                found = judge.confirm([one(mutant, tree) for mutant in batch], tree)
            for each in found:
                if kept:
                    kept.note(each)
                head, _, _ = str(each.mutant).partition("\n")
                say(f"{each.outcome.value:9}{each.seconds:6.1f} s  {head}\n{'':19}{each.detail}")
            return found

        pool = ThreadPoolExecutor(jobs)
        batches = [mutants[start : start + _BATCH] for start in range(0, len(mutants), _BATCH)]
        try:
            return [each for found in pool.map(some, batches) for each in found]
        finally:
            pool.shutdown(cancel_futures=True)


def summarize(verdicts: Sequence[Verdict], floor: float | None = None) -> tuple[str, bool]:
    """The share killed by room with its interval, the survivors, and whether that is good enough."""
    rooms = sorted({each.mutant.room for each in verdicts})
    lines = [f"{'room':14} sampled  left out  killed    share  {LEVEL:.0%} interval"]
    lines += [_row(room, [each for each in verdicts if each.mutant.room == room]) for room in rooms]
    lines += [_row("all", verdicts), ""]
    for outcome, title in ((Outcome.EXPLAINED, "left out"), (Outcome.SURVIVED, "survived")):
        found = [each for each in verdicts if each.outcome is outcome]
        if found:
            lines += [f"{title}: {len(found)}", ""]
        lines += [f"{each.mutant}\n    {each.detail}\n" for each in found]
    killed, counted = _count(verdicts)
    good = True
    if counted < (1 - MOST_EXPLAINED) * len(verdicts):
        lines.append(f"more than {MOST_EXPLAINED:.0%} of the sample are left out")
        good = False
    if floor is not None:
        good = good and killed >= floor * counted
        lines.append(f"{killed} of {counted} killed, at least {floor:.0%} wanted")
    return "\n".join(lines), good


def _count(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    counted = [each for each in verdicts if each.outcome is not Outcome.EXPLAINED]
    return sum(each.outcome is Outcome.KILLED for each in counted), len(counted)


def _row(room: str, verdicts: Sequence[Verdict]) -> str:
    killed, counted = _count(verdicts)
    head = f"{room:14} {len(verdicts):7}  {len(verdicts) - counted:8}  {killed:6}"
    if not counted:
        return head
    low, high = interval(killed, counted)
    return f"{head}  {killed / counted:7.1%}  {low:.1%} to {high:.1%}"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def bring_up_to_date(root: Path, jobs: int) -> None:
    """Record the tests that are new or have changed."""
    stale = Recorded.load(root).stale(list_test_files(root))
    for start in range(0, len(stale), _AT_ONCE):  # what was recorded before an interruption stays
        some = stale[start : start + _AT_ONCE]
        say(
            f"recording which lines the tests of {len(some)} files run ({start} of {len(stale)} done)"
        )
        record(root, some, jobs)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How well do the tests notice random faults?")
    parser.add_argument("--seed", required=True, help="any text: the same sample for the same seed")
    parser.add_argument("--n", type=int, default=150, help="how many mutants")
    parser.add_argument(
        "--rooms",
        default="all",
        help="foundation, service, around, all, or rooms with commas between them",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help="of tests against each mutant, as recorded; one that outlives them has survived",
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--list", action="store_true", help="print the sample, run nothing")
    parser.add_argument(
        "--as-recorded",
        action="store_true",
        help="do not record test files that are new or have changed",
    )
    options = parser.parse_args(arguments)
    try:
        if not options.seed:
            raise SampleError("seed='' must be a text that was not used before: SEED=...")
        places = read_places(ROOT)
        rooms = choose_rooms(options.rooms, map(room_of, places))
        mutants = draw_sample(places, rooms, options.n, options.seed)
        load_explained()
    except SampleError as error:
        say(f"error: {error}")
        return 2
    if options.list:
        say("\n".join(map(str, mutants)))
        return 0
    if not options.as_recorded:
        bring_up_to_date(ROOT, 2)
    recorded = Recorded.load(ROOT)
    total = sum(len(found) for file, (_, found) in places.items() if room_of(file) in rooms)
    say(
        f"{options.n} of {total} places, seed {options.seed!r}, in {', '.join(rooms)}; tests of up to "
        f"{options.seconds:g} s against each mutant (as recorded, slow ones left out): what outlives "
        "them has survived"
    )
    start = time.monotonic()
    kept = Kept(path=ROOT / ".mutants/killed.tsv", root=ROOT)
    judge = Judge(recorded=recorded, limit=options.seconds)
    verdicts = run_sample(mutants, judge=judge, jobs=options.jobs, say=say, kept=kept)
    text, good = summarize(verdicts, FLOORS.get(options.rooms))
    say(f"\nseed {options.seed!r}, {(time.monotonic() - start) / 60:.1f} minutes\n\n{text}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
