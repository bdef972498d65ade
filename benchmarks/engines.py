"""Engines on files: against DuckDB's own group-by, NumPy's bincount, and Spark's own group-by.

Each comparison runs in a process of its own. Times are of the wall clock, the best of some rounds taken
in turns, since both sides use all cores; the CPU seconds stand beside them.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from memory import peak
from timing import Row, missing, quantity, seconds, show

K = 1024
MANY, SOME = 10**8, 10**7
AT_MOST = {"file": 4.0, "ten million": 3.0, "spark": 2.0}
MEGABYTES = 1000.0
ROUNDS = 5


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        many, some = Path(folder, "many.parquet"), Path(folder, "some.parquet")
        written(many, MANY)
        written(some, SOME)
        return [*on_file(many), *ten_million(some), *on_spark(some)]


def written(path: Path, n: int) -> None:
    """An integer column of n rows, uniform on 0 .. K-1."""
    import duckdb

    query = f"select cast(hash(range) % {K} as integer) as x from range({n})"  # noqa: S608
    duckdb.connect().execute(f"copy ({query}) to '{path}' (format parquet)")


def on_file(path: Path) -> list[Row]:
    found = child("file", path)
    ratio = compared("10^8 rows of Parquet, duckdb", found, "file")
    memory = quantity(
        "peak memory of the same",
        baseline=f"{found['before']:.0f} MB before the run",
        ours=found["peak"],
        unit="MB",
        at_most=MEGABYTES,
    )
    return [ratio, memory]


def ten_million(path: Path) -> list[Row]:
    found = child("ten million", path)
    what = "10^7 rows, {}"
    return [
        compared(what.format(name), found | {"ours": found[name]}, "ten million")
        for name in ("memory", "duckdb")
    ]


def on_spark(path: Path) -> list[Row]:
    what = "10^7 rows of Parquet, spark"
    try:
        return [compared(what, child("spark", path), "spark")]
    except subprocess.CalledProcessError as error:
        return [missing(what, f"Spark did not run: {error.stderr[-200:]}")]


def compared(what: str, found: Mapping[str, list[float]], key: str) -> Row:
    (base, base_cpu), (ours, ours_cpu) = found["baseline"], found["ours"]
    return Row(
        what=what,
        baseline=f"{NAMES[key]}: {seconds(base)} (CPU {seconds(base_cpu)})",
        ours=f"{seconds(ours)} (CPU {seconds(ours_cpu)})",
        ratio=f"{ours / base:.2f}x",
        wanted=f"<= {AT_MOST[key]:g}x",
        met=ours / base <= AT_MOST[key],
    )


NAMES = {
    "file": "DuckDB, group-by",
    "ten million": "NumPy, bincount and words",
    "spark": "Spark, group-by",
}


def child(name: str, path: Path) -> dict[str, list[float]]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, __file__, name, str(path)], capture_output=True, text=True, check=True
    )
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def fastest(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The best wall-clock time of each, and the best CPU time."""
    best = {name: [float("inf")] * 2 for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            spent = (time.perf_counter() - wall, time.process_time() - cpu)
            best[name] = [min(pair) for pair in zip(best[name], spent, strict=True)]
    return best


def file(path: str) -> dict[str, object]:
    import duckdb

    import shuffledp as sdp

    protocol = sdp.protocols.krr.make_local(k=K, epsilon=5.0)
    before = peak()
    sdp.run_file(protocol, sdp.open_column(path))
    most = peak()

    def group() -> object:
        return duckdb.connect().read_parquet(path).aggregate("x, count(*)").fetchall()

    def ours() -> object:
        return sdp.run_file(protocol, sdp.open_column(path))

    times = fastest({"baseline": group, "ours": ours}, ROUNDS)
    return {**times, "before": before, "peak": most}


def ten_million_child(path: str) -> dict[str, list[float]]:
    import numpy as np
    import pyarrow.parquet as pq

    import shuffledp as sdp

    values = pq.read_table(path)["x"].to_numpy()
    protocol = sdp.protocols.krr.make_local(k=K, epsilon=5.0)

    def plain() -> object:
        return np.bincount(values, minlength=K), sdp.SecureWords().words(len(values))

    def memory() -> object:
        return sdp.run(protocol, values)

    def duckdb() -> object:
        return sdp.run_file(protocol, sdp.open_column(path))

    return fastest({"baseline": plain, "memory": memory, "duckdb": duckdb}, ROUNDS)


def spark(path: str) -> dict[str, list[float]]:
    import shuffledp as sdp
    from shuffledp.engine.spark import session

    started = session("local[2]")
    started.sparkContext.setLogLevel("OFF")
    protocol = sdp.protocols.krr.make_local(k=K, epsilon=5.0)
    column = sdp.open_column(path)

    def plain() -> object:
        frame = started.read.parquet(path)
        return frame.mapInArrow(identity, frame.schema).groupBy("x").count().collect()

    def ours() -> object:
        return sdp.run_file(protocol, column, engine="spark")

    return fastest({"baseline": plain, "ours": ours}, ROUNDS)


def identity(batches):  # type: ignore[no-untyped-def]
    yield from batches


if __name__ == "__main__":
    CHILDREN = {"file": file, "ten million": ten_million_child, "spark": spark}
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(CHILDREN[sys.argv[1]](sys.argv[2])))
    else:
        show(rows(), "Engines")
