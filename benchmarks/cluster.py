"""Spark: a survey of six questions about ten million rows in a partitioned folder, against Spark's own six group-bys.

Both take turns in one session (local[2]), which runs in a process of its own. Every round has another epsilon, so each
survey is planned anew. The first round is cold: Spark compiles. CPU seconds are those of the driver and its JVM
together; the clock says little on a busy machine.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from surveys import BINS, write_six
from timing import Row, compiled, missing, seconds, show

ROWS, FILES, ROUNDS, MOST = 10**7, 4, 5, 1.2
WHAT = "a survey of six questions, 10^7 rows in a partitioned folder, Spark local[2]"


class Spent(NamedTuple):
    """Seconds of one round, or the best of several."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{seconds(self.wall)} (CPU {seconds(self.cpu)})"


def rows() -> list[Row]:
    with TemporaryDirectory() as folder:
        write(Path(folder))
        words = [sys.executable, __file__, folder]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=compiled())  # noqa: S603
    if done.returncode:
        return [missing(WHAT, f"Spark did not run: {done.stderr[-200:]}")]
    found = json.loads(done.stdout.splitlines()[-1])
    base, ours = (
        Spent(*map(min, zip(*found[name][1:], strict=True))) for name in ("spark", "ours")
    )
    cold = Spent(*found["ours"][0])
    return [
        Row(
            what=f"{WHAT}, CPU time",
            baseline=f"Spark, six group-bys: {base}; ours, cold: {cold}",
            ours=str(ours),
            ratio=f"{ours.cpu / base.cpu:.2f}x",
            wanted=f"<= {MOST:g}x",
            met=ours.cpu <= MOST * base.cpu,
        )
    ]


def write(folder: Path) -> None:
    """Write the people of `surveys`, half of them in each of two regions."""
    source = np.random.default_rng(1)
    for place in range(FILES):
        columns = {
            f"q{i}": source.integers(1, k + 1, ROWS // FILES, dtype=np.int16)
            for i, k in enumerate(BINS)
        }
        region = folder / f"region={place % 2}"
        region.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), region / f"part-{place}.parquet")


def take_turns(folder: str) -> dict[str, list[Spent]]:
    """What every round of either took, the cold one first."""
    import shuffledp as sdp
    from shuffledp.engine.spark import session

    started = session("local[2]")
    started.sparkContext.setLogLevel("OFF")
    jvm = started.sparkContext._gateway.proc.pid

    def plain(_: int) -> None:
        for i in range(len(BINS)):
            started.read.parquet(folder).groupBy(f"q{i}").count().collect()

    def ours(question: int) -> None:
        survey = sdp.Survey.loads(write_six(1 - question / 100))
        survey.prepare(folder, engine="spark", read_early=True).answer()

    found: dict[str, list[Spent]] = {"spark": [], "ours": []}
    for question in range(ROUNDS + 1):
        found["spark"].append(_spend(plain, question, jvm))
        found["ours"].append(_spend(ours, question, jvm))
    return found


def _spend(call: Callable[[int], None], question: int, jvm: int) -> Spent:
    cpu, wall = _count_seconds(jvm), time.perf_counter()
    call(question)
    return Spent(cpu=_count_seconds(jvm) - cpu, wall=time.perf_counter() - wall)


def _count_seconds(jvm: int) -> float:
    """CPU seconds of this process and of that one, so far."""
    spent = Path(f"/proc/{jvm}/stat").read_text().rpartition(")")[2].split()[11:13]
    return time.process_time() + sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(take_turns(sys.argv[1])))
    else:
        show(rows(), "Spark")
