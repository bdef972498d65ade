"""Every `shuffledp run`, `learn`, `test`, `robust`, `frequencies` and `randomize` of README and how-tos on 10^5 rows.

    python benchmarks/commands.py              # seconds of each command
    python benchmarks/commands.py --grid       # `run` over tasks, ranges 10 .. 10^12 and k to 10^6, n = 10^4

Each command runs in a process of its own, imports included, and is stopped after a minute. Options and files are
those of the page; `people.csv` has a hundred thousand rows.
"""

import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

from timing import Row, quantity

import shuffledp as sdp

ROOT = Path(__file__).parents[1]
ASKING = ("run", "learn", "test", "robust", "frequencies", "randomize")
PEOPLE = 100_000
AT_MOST, LIMIT = 5.0, 60.0
GRID_PEOPLE, GRID_AT_MOST = 10_000, 10.0
PROMISE = ("--epsilon", "1", "--delta", "1e-8")


def read_commands(page: Path) -> list[list[str]]:
    """The commands of a page that read files."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    typed = [
        shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ shuffledp ")
    ]
    return [words[1:] for words in typed if words[1] in ASKING]


SURVEYED = [
    ["run", "survey.toml", "people.csv"],
    ["run", "quantiles", "people.csv", "--column", "minutes", "--lower", "0", "--upper", "240", "--at", "0.25,0.5,0.75",
     *PROMISE],
    ["run", "bins", "people.csv", "--column", "minutes", "--edges", "0,15,30,60,240", *PROMISE],
    ["run", "count", "people.csv", "--column", "home", "--by", "way", "--groups", "car,bus,other", "--on-invalid", "other",
     *PROMISE],
]  # fmt: skip
"""What docs/howto/surveys.md has in its text."""


class Took(NamedTuple):
    """How long a command took, on the clock and on processors, and what went wrong."""

    seconds: float
    cpu: float
    words: str
    said: str


def _note(took: Took) -> Took:
    said = f"  ({took.said})" if took.said else ""
    sys.stdout.write(f"{took.seconds:6.2f} s  CPU {took.cpu:5.2f} s  {took.words}{said}\n")
    sys.stdout.flush()
    return took


def _measure_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_command(words: list[str], folder: Path, page: str = "") -> Took:
    """Run it in a process of its own."""
    if ">" in words:
        words = words[: words.index(">")]
    named = page + shlex.join(words)
    before, started = _measure_children(), time.perf_counter()
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "shuffledp", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _note(Took(LIMIT, LIMIT, named, "stopped"))
    said = "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1][:100]
    return _note(Took(time.perf_counter() - started, _measure_children() - before, named, said))


def list_pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]


def time_pages(folder: Path) -> list[Took]:
    sdp.samples.survey(PEOPLE).write_csv(folder / "people.csv")
    (folder / "words.txt").write_text("cat\n" * (PEOPLE // 2) + "dog\n" * (PEOPLE // 2))
    (folder / "demo").mkdir()
    sdp.samples.survey(PEOPLE).write_csv(folder / "demo" / "people.csv")
    found, seen = [], set()
    for page in list_pages():
        write_surveys(page, folder)
        for words in [*read_commands(page), *(SURVEYED if page.stem == "surveys" else [])]:
            if tuple(words) in seen:
                continue
            seen.add(tuple(words))
            found.append(time_command(words, folder, f"{page.stem}: "))
    return found


def write_surveys(page: Path, folder: Path) -> None:
    """The survey files that a page shows below their names, in place of those of other pages."""
    text, own = page.read_text(), set()
    for shown in re.finditer(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        named = re.findall(r"`(\w+\.toml)`", text[: shown.start()])
        place = folder / (named[-1] if named else "survey.toml")
        if place not in own:
            own.add(place)
            place.write_text(shown[1])


def time_grid(folder: Path) -> list[Took]:
    """Every task over ranges and numbers of categories."""
    path = folder / "numbers.csv"
    path.write_text("x\n" + "".join(f"{place % 10}\n" for place in range(GRID_PEOPLE)))
    found = []
    tasks = ("sum", "mean", "median", "quantiles", "range", "cdf", "variance", "std")
    for task, power, point in product(tasks, (1, 3, 5, 6, 9, 12), ("", ".0")):
        ends = ["--lower", f"0{point}", "--upper", f"{10**power}{point}"]
        at = {"range": ["--at", "0,5"], "cdf": ["--at", "2,5,7"]}.get(task, [])
        words = ["run", task, "numbers.csv", "--column", "x", *ends, *at, *PROMISE, "-q"]
        found.append(time_command(words, folder))
    for power in (1, 2, 3, 4, 5, 6):
        words = [
            "run",
            "histogram",
            "numbers.csv",
            "--column",
            "x",
            "--k",
            str(10**power),
            *PROMISE,
            "-q",
        ]
        found.append(time_command(words, folder))
    return found


def rows() -> list[Row]:
    """The slowest command of the pages, and of the grid."""
    with tempfile.TemporaryDirectory() as folder:
        pages = time_pages(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        grid = time_grid(Path(folder))
    return [
        _name_slowest("commands of README and how-tos, 10^5 rows", pages, AT_MOST),
        _name_slowest("run, tasks x ranges 10 to 10^12 x k to 10^6, n = 10^4", grid, GRID_AT_MOST),
    ]


def _name_slowest(what: str, took: list[Took], at_most: float) -> Row:
    worst = max(took)
    return quantity(
        f"{what}: slowest of {len(took)}",
        baseline=f"`{worst.words[:60]}`, CPU {worst.cpu:.1f} s",
        ours=worst.seconds,
        unit="s",
        at_most=at_most,
    )


def main() -> int:
    grid = "--grid" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        found = time_grid(Path(folder)) if grid else time_pages(Path(folder))
    at_most = GRID_AT_MOST if grid else AT_MOST
    slow = [each for each in found if each.seconds > at_most]
    failed = [each for each in found if each.said]
    sys.stdout.write(
        f"{len(found)} commands, {len(slow)} slower than {at_most:g} s, {len(failed)} failed; "
        f"most CPU {max(each.cpu for each in found):.2f} s\n"
    )
    return bool(slow or failed)


if __name__ == "__main__":
    sys.exit(main())
