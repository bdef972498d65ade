"""The one road end to end: `shuffledp run` on files, against the group-by of the database that reads them.

Commands run in processes of their own and take turns with DuckDB's group-by of the same column, so their
times hold start-up, calibration and display: each may take some factor of the group-by, and a fixed part.
Times are of the wall clock, the best of some rounds, with the CPU seconds in brackets, since both sides use
all cores; on a busy machine only the latter mean much.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from timing import Row, compiled, missing, quantity, seconds, show

MANY, SOME, FEW = 10**8, 10**7, 1000
K = 16
ROUNDS = 2
FIXED = 0.6  # seconds for start, plan and display
MEGABYTES, START = 300.0, 0.35
PRIVATE = ("--epsilon", "1", "--delta", "1e-9", "--column", "x", "--json")
CODES = ("--lower", "0", "--upper", str(K - 1))
SHUFFLEDP = (sys.executable, "-c", "from shuffledp.cli import app; app()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Of one run, or the best of several."""

    wall: float
    cpu: float
    megabytes: float = 0.0

    def __str__(self) -> str:
        return f"{seconds(self.wall)} (CPU {seconds(self.cpu)})"


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        many, bits, some, few, spark = (
            Path(folder, name)
            for name in ("many.parquet", "bits.parquet", "some.csv", "few.csv", "spark.parquet")
        )
        write(many, MANY, f"(hash(range) % {K})::smallint")
        write(bits, MANY, "hash(range) % 3 = 0")
        write(some, SOME, f"(hash(range) % {K})::smallint")
        write(few, FEW, "(hash(range) % 2)::smallint")
        write(spark, SOME, f"(hash(range) % {K})::integer")
        return [*on_parquet(many, bits), *on_text(some, few), *on_spark(spark)]


def write(path: Path, n: int, expression: str) -> None:
    import duckdb

    query = f"select {expression} as x from range({n})"  # noqa: S608
    duckdb.connect().execute(f"copy ({query}) to '{path}'")


def on_parquet(many: Path, bits: Path) -> list[Row]:
    asked = {
        "histogram, chosen protocol": ("histogram", many, *CODES),
        "histogram, k-RR": ("histogram", many, *CODES, "--protocol", "krr"),
        "mean of integers": ("mean", many, *CODES),
        "count": ("count", bits),
    }
    took = {}
    for path in (many, bits):
        commands = {what: words for what, words in asked.items() if words[1] == path}
        took |= take_turns(path, commands)
    found = [
        compare(f"10^8 rows of Parquet: {what}", took[words[1].name], took[what], 1.3)
        for what, words in asked.items()
    ]
    most = max(took[what].megabytes for what in asked)
    found.append(
        quantity("peak memory of the same", baseline="-", ours=most, unit="MB", at_most=MEGABYTES)
    )
    return found


def on_text(some: Path, few: Path) -> list[Row]:
    words = {"histogram": ("histogram", some, *CODES)}
    took = take_turns(some, words)
    small = take_turns(few, {"count": ("count", few)}, rounds=4, private=("--epsilon", "1",
        "--delta", "1e-6", "--column", "x"))  # fmt: skip
    start = quantity(
        f"shuffledp run count of {FEW:,} rows of CSV, wall time",
        baseline=f"CPU {seconds(small['count'].cpu)}",
        ours=small["count"].wall,
        unit="s",
        at_most=START,
    )
    return [compare("10^7 rows of CSV: histogram", took[some.name], took["histogram"], 1.2), start]


def take_turns(
    path: Path,
    commands: Mapping[str, tuple[object, ...]],
    rounds: int = ROUNDS,
    private: tuple[str, ...] = PRIVATE,
) -> dict[str, Spent]:
    """The best of each command, and of DuckDB's group-by of the column under the name of the file."""
    runs: dict[str, Callable[[], Spent]] = {path.name: lambda: group(path)}
    for what, words in commands.items():
        runs[what] = lambda words=words: command(*map(str, words), *private)
    best = {what: run() for what, run in runs.items()}  # the file is in the system's cache now
    for _ in range(rounds):
        for what, run in runs.items():
            one, known = run(), best[what]
            best[what] = Spent(
                wall=min(known.wall, one.wall),
                cpu=min(known.cpu, one.cpu),
                megabytes=max(known.megabytes, one.megabytes),
            )
    return best


def group(path: Path) -> Spent:
    import duckdb

    wall, cpu = time.perf_counter(), time.process_time()
    duckdb.connect().sql(f"select x, count(*) from '{path}' group by x").fetchall()  # noqa: S608
    return Spent(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu)


def command(*words: str) -> Spent:
    """One `shuffledp` command; its own CPU time and peak memory."""
    words = (*SHUFFLEDP, "run", *words)
    wall = time.perf_counter()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=compiled())  # noqa: S603
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - wall
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, words)
    return Spent(
        wall=wall, cpu=used.ru_utime + used.ru_stime, megabytes=used.ru_maxrss * _UNIT / 1e6
    )


_UNIT = 1 if sys.platform == "darwin" else 1024


def compare(what: str, base: Spent, ours: Spent, factor: float) -> Row:
    allowed = factor * base.wall + FIXED
    return Row(
        what=what,
        baseline=f"DuckDB, group-by: {base}",
        ours=str(ours),
        ratio=f"{ours.wall / base.wall:.2f}x",
        wanted=f"<= {factor:g}x + {FIXED:g} s = {seconds(allowed)}",
        met=ours.wall <= allowed,
    )


def on_spark(path: Path) -> list[Row]:
    what = "10^7 rows of Parquet, Spark local[2]: k-RR"
    done = subprocess.run(  # noqa: S603
        [sys.executable, __file__, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return [missing(what, f"Spark did not run: {done.stderr[-200:]}")]
    base, ours = json.loads(done.stdout.splitlines()[-1])
    return [
        Row(
            what=what,
            baseline=f"Spark, group-by: {seconds(base)}",
            ours=seconds(ours),
            ratio=f"{ours / base:.2f}x",
            wanted="<= 1.1x",
            met=ours <= 1.1 * base,
        )
    ]


def spark(path: str) -> tuple[float, float]:
    """Seconds of Spark's group-by and of ours, in one session; the JVM needs some rounds to warm up."""
    import shuffledp as sdp
    from shuffledp.engine.spark import session

    started = session("local[2]")
    started.sparkContext.setLogLevel("OFF")
    protocol = sdp.protocols.krr.make_local(k=K, epsilon=5.0)
    column = sdp.open_column(path)

    def plain() -> object:
        return started.read.parquet(path).groupBy("x").count().collect()

    def ours() -> object:
        return sdp.run_file(protocol, column, engine="spark")

    best = [float("inf")] * 2
    for _ in range(6):
        for place, call in enumerate((plain, ours)):
            start = time.perf_counter()
            call()
            best[place] = min(best[place], time.perf_counter() - start)
    return best[0], best[1]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(spark(sys.argv[1])))
    else:
        show(rows(), "Engines")
