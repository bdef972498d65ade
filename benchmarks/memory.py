"""Peak memory of a k-RR run at n = 10^8 above the input array, in a process of its own."""

import resource
import subprocess
import sys
from pathlib import Path

from timing import Row, quantity, show

N = 10**8
K = 16
AT_MOST = 200.0
DTYPES = ("int8", "int64")


def rows() -> list[Row]:
    return [measured(dtype) for dtype in DTYPES]


def measured(dtype: str) -> Row:
    done = subprocess.run(  # noqa: S603
        [sys.executable, __file__, dtype], capture_output=True, text=True, check=True
    )
    before, after, size = map(float, done.stdout.split())
    return quantity(
        f"peak above the input, k-RR k={K} n=10^8, {dtype}",
        baseline=f"input {size:.0f} MB, {before:.0f} MB before the run",
        ours=after - before,
        unit="MB",
        at_most=AT_MOST,
    )


def child(dtype: str) -> str:
    """Peak before the run, peak after it, size of the input; in MB."""
    import numpy as np

    import shuffledp as sdp

    values = np.random.default_rng(1).integers(K, size=N, dtype=dtype)
    protocol = sdp.protocols.spec("krr").make_local(k=K, epsilon=1.0)
    before = peak()
    sdp.run(protocol, values)
    return f"{before} {peak()} {values.nbytes / 1e6}"


def peak() -> float:
    """The most memory this process ever held, in MB.

    Linux lets ru_maxrss start from the peak of the process that started this one, which would hide
    a small run behind a large parent; VmHWM starts anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(child(sys.argv[1]))
    else:
        show(rows(), "Memory")
