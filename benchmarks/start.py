"""What a small question costs: CPU seconds of `shuffledp run count` on a thousand rows, as a process of its own.

It takes turns with a process that only imports NumPy and DuckDB, which is the least that there can be.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import Row, compiled, quantity, seconds, show

ROWS = 1_000
ROUNDS = 10
AT_MOST = 0.35
PROMISE = ("--epsilon", "1", "--delta", "1e-8")


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        path.write_text("x\n" + "".join(f"{place % 2}\n" for place in range(ROWS)))
        asked = ("-m", "shuffledp", "run", "count", str(path), "--column", "x", *PROMISE)
        turns = [
            (_measure("-c", "import numpy, duckdb"), _measure(*asked)) for _ in range(ROUNDS + 1)
        ]
    least, ours = map(min, zip(*turns[1:], strict=True))  # the first one writes the bytecode
    return [
        quantity(
            f"run count of {ROWS:,} rows of CSV, CPU",
            baseline=f"import numpy, duckdb: {seconds(least)}",
            ours=ours,
            unit="s",
            at_most=AT_MOST,
        )
    ]


def _measure(*words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603
        [sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=compiled()
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    show(rows(), "Start")
