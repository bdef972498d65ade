"""What a dealt tally costs as n grows, for every protocol that deals: a chart, and its numbers as JSON.

    python benchmarks/cost.py docs/img/dealing-cost.svg docs/img/dealing-cost.json

A protocol is measured up to n = 10^12, unless a tally takes seconds before; what is beyond is extrapolated with the
slope of the last two, and hollow in the chart. `--long` measures on, up to a minute for a tally.
"""

import json
import re
import sys
import time
from pathlib import Path

import numpy as np

import shuffledp as sdp
from shuffledp.core.protocol import ShuffleProtocol

SIZES = tuple(10**power for power in (3, 5, 7, 9, 10, 11, 12, 13, 14))
MEASURED = 10**12
SHORT, LONG = (
    1.5,
    60.0,
)  # seconds for one tally; after one that takes longer, larger n are not tried
K = 16
NUMBERS = {"lower": 0.0, "upper": 1.0, "steps": 100}
INTEGERS = {"lower": 0, "upper": 100}
PURE = {"pure_count": {}, "pure_histogram": {"k": K}}
LOCAL = {
    "rr": {},
    "krr": {"k": K},
    "hadamard": {"k": K},
    "symmetric_unary": {"k": K},
    "optimized_unary": {"k": K},
    "duchi": NUMBERS,
    "piecewise": NUMBERS,
    "hybrid": NUMBERS,
}
SHUFFLED = {
    "zsum": {},
    "zsum_sparse": {},
    "correlated_count": {},
    "zsum_histogram": {"k": K},
    "sparse_histogram": {"k": K},
    "dummies_histogram": {"k": K},
    "correlated_histogram": {"k": K},
    "count_min": {"k": K},
    "fake_users": {"k": K},
    "unary_sum": INTEGERS,
    "rounded_sum": INTEGERS,
    "split_and_mix": INTEGERS,
    "zero_sum_flooding": INTEGERS,
}


def make(name: str, n: int) -> ShuffleProtocol:
    """For n people: everybody's share of the noise depends on it."""
    if name in LOCAL:
        return sdp.protocols.make(name, epsilon=1.0, **LOCAL[name])
    if name in PURE:  # is for hundreds of people; its tally can be dealt to any number
        return sdp.protocols.make(name, n=200, epsilon=1.0, **PURE[name])
    return sdp.protocols.make(name, n=n, epsilon=1.0, delta=1e-12, **SHUFFLED[name])


def measure(name: str, most: float) -> list[tuple[int, float]]:
    """CPU seconds of one tally, the best of three, for each n that is not too dear."""
    found: list[tuple[int, float]] = []
    for n in SIZES:
        if n > MEASURED and most == SHORT:
            break
        try:
            protocol = make(name, n)
        except sdp.UnsupportedError:  # too few people for so small a delta
            continue
        size = protocol.randomizer.domain.size
        inputs = np.full(size, n // size)
        inputs[0] += n - int(inputs.sum())
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            protocol.randomizer.deal(inputs, sdp.SecureWords())
            best = min(best, time.process_time() - start)
            if best > 0.2:
                break
        found.append((n, best))
        if best > most:
            break
    return found


def extrapolate(measured: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The n that were too dear, with the slope of the last two that were measured."""
    if len(measured) < 2:
        return []
    (n0, t0), (n1, t1) = measured[-2:]
    slope = max(0.0, np.log(t1 / t0) / np.log(n1 / n0))
    return [(n, t1 * (n / n1) ** slope) for n in SIZES if n > n1]


def draw(found: dict[str, list[tuple[int, float]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    for place, (name, points) in enumerate(sorted(found.items(), key=lambda each: -each[1][-1][1])):
        style = {"color": f"C{place % 10}", "linestyle": ("-", "--", ":")[place // 10]}
        axes.plot(*zip(*points, strict=True), label=name, marker=".", **style)
        beyond = extrapolate(points)
        if beyond:
            axes.plot(
                *zip(points[-1], *beyond, strict=True), marker="o", mfc="white", lw=0.6, **style
            )
    axes.set(xscale="log", yscale="log", xlabel="people", ylabel="CPU seconds of one dealt tally")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>\n?|<!DOCTYPE.*?>\n?", "", path.read_text(), flags=re.S)
    path.write_text(text)


def main() -> None:
    found, most = {}, LONG if "--long" in sys.argv else SHORT
    for name in (*LOCAL, *PURE, *SHUFFLED):
        found[name] = measure(name, most)
        sys.stderr.write(f"{name}: {found[name][-1:]}\n")
    chart, numbers = map(Path, sys.argv[1:3])
    numbers.write_text(json.dumps(found) + "\n")
    draw({name: points for name, points in found.items() if points}, chart)


if __name__ == "__main__":
    main()
