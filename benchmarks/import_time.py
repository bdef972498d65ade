"""What `import shuffledp` costs beyond `import numpy`: the median of several fresh processes."""

import statistics
import subprocess
import sys

from timing import Row, compiled, quantity, seconds, show

RUNS = 15
AT_MOST = 0.3
CHILD = """
import time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
import shuffledp
print(middle - start, time.perf_counter() - middle)
"""


def rows() -> list[Row]:
    _once()  # writes the bytecode and warms the disk cache
    numpy, ours = zip(*(_once() for _ in range(RUNS)), strict=True)
    return [
        quantity(
            "import shuffledp beyond import numpy",
            baseline=f"import numpy: {seconds(statistics.median(numpy))}",
            ours=statistics.median(ours),
            unit="s",
            at_most=AT_MOST,
        )
    ]


def _once() -> tuple[float, float]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, env=compiled()
    )
    numpy, ours = map(float, done.stdout.split())
    return numpy, ours


if __name__ == "__main__":
    show(rows(), "Import time")
