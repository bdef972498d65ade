"""Rows to people: sum, count and histogram of people, beside DuckDB's own two-step group-by of the same file.

Each run is a process of its own, with an epsilon that was not asked before. Time is CPU time of all threads, imports
included for both, so that a busy machine measures the same; memory is the peak of the process.

`python benchmarks/people.py ROWS PEOPLE` takes another size than 10^7 rows of 10^5 people.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from memory import peak
from timing import Row, quantity, show

ROWS, PEOPLE = 10**7, 10**5
MOST = 1.5
EXTRA = 0.6  # seconds: protocols are chosen and imported
ROUNDS = 3
TASKS = ("sum", "count", "histogram")
QUERIES = {
    "sum": "select sum(v) from (select who, least(greatest(sum(km), 0), 5000) as v from '{0}' group by who)",
    "count": "select count(*) from (select who, bool_or(late) as v from '{0}' group by who) where v",
    "histogram": "select v, count(*) from (select who, least(greatest(sum(km), 0), 5000) // 100 as v from '{0}' "
    "group by who) group by v",
}


def rows(size: int = ROWS, people: int = PEOPLE) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "events.parquet"), size, people)
        return [row for task in TASKS for row in compare(task, path, size, people)]


def write(path: Path, size: int, people: int) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, step = np.random.default_rng(1), 10**6
    schema = pa.schema([("who", pa.int64()), ("km", pa.int64()), ("late", pa.bool_())])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(0, size, step):
            who, km = rng.integers(people, size=step), rng.integers(50, size=step)
            late = rng.random(step) < 1e-3
            writer.write_table(pa.table([who, km, late], schema=schema))
    return path


def compare(task: str, path: Path, size: int, people: int) -> list[Row]:
    ours = [run("shuffledp", task, path, turn) for turn in range(ROUNDS)]
    base = [run("duckdb", task, path, turn) for turn in range(ROUNDS)]
    (took, held), (plain, other) = (
        tuple(map(min, zip(*each, strict=True))) for each in (ours, base)
    )
    named = f"{task} of people, {size:.0e} rows of {people:.0e} people, Parquet"
    return [
        quantity(
            f"{named}: time over DuckDB's own, less {EXTRA} s",
            baseline=f"{plain:.2f} s; ours {took:.2f} s",
            ours=max(took - EXTRA, 0.0) / plain,
            unit="x",
            at_most=MOST,
        ),
        quantity(
            f"{named}: peak memory over DuckDB's own",
            baseline=f"{other:.0f} MB; ours {held:.0f} MB",
            ours=held / other,
            unit="x",
            at_most=MOST,
        ),
    ]


def run(who: str, task: str, path: Path, turn: int) -> tuple[float, float]:
    words = [sys.executable, __file__, "--child", who, task, str(path), str(turn)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603
    took, held = json.loads(done.stdout.splitlines()[-1])
    return took, held


def child(who: str, task: str, path: str, turn: int) -> str:
    start = time.process_time()
    if who == "duckdb":
        import duckdb

        duckdb.sql(QUERIES[task].format(path)).fetchall()
    else:
        import shuffledp as sdp

        column = "late" if task == "count" else "km"
        options = {} if task == "count" else {"lower": 0, "upper": 5000}
        if task == "histogram":
            options, task = {"edges": [*range(0, 5001, 100)], "reduce": "sum"}, "bins"
        asked = {"epsilon": 1 + turn / 100, "delta": 1e-8, "person": "who", "column": column}
        sdp.ask(path, task, **asked, **options)
    return json.dumps([time.process_time() - start, peak()])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.stdout.write(child(*sys.argv[2:5], int(sys.argv[5])))
    else:
        show(rows(*map(int, sys.argv[1:3])), "People")
