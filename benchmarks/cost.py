"""What a dealt tally costs as n grows, for every protocol that deals: a chart, and its numbers as JSON.

    python benchmarks/cost.py docs/img/dealing-cost.svg docs/img/dealing-cost.json
    python benchmarks/cost.py docs/img/dealing-cost.svg docs/img/dealing-cost.json --draw      # without measuring
    python benchmarks/cost.py docs/img/dealing-cost.svg docs/img/dealing-cost.json krr rr      # only these anew

A protocol is measured up to n = 10^12, unless a tally takes seconds before; what is beyond is extrapolated with the
slope of the last two, and hollow in the chart. `--long` measures on, up to a minute for a tally.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import shuffledp as sdp
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.show.style import FAINT, INK, MORE_COLOURS, new_figure, save_svg

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


PANELS = {
    "Local protocols": tuple(LOCAL),
    "Counts and sums": ("pure_count", *(name for name in SHUFFLED if "k" not in SHUFFLED[name])),
    "Histograms": tuple(name for name in SHUFFLED if "k" in SHUFFLED[name]),
}


def draw(found: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """A panel for each family; each line has its name at its end, in its colour."""
    figure = new_figure(12.5, 5.4)
    panels = figure.subplots(1, len(PANELS), sharex=True, sharey=True)
    figure.subplots_adjust(left=0.065, right=0.885, top=0.8, bottom=0.12, wspace=0.52)
    for axes, (title, names) in zip(panels, PANELS.items(), strict=True):
        lines = {name: found[name] for name in names if found.get(name)}
        axes.set(xscale="log", yscale="log", xlim=(SIZES[0], SIZES[-1]), ylim=(1e-5, 1e3))
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
        axes.set_xlabel("people", color=INK)
        axes.grid(color=FAINT, lw=0.7)
        axes.spines[["top", "right"]].set_visible(False)
        ends = {}
        for colour, (name, points) in zip(MORE_COLOURS, lines.items(), strict=False):
            axes.plot(*zip(*points, strict=True), color=colour, lw=1.8)
            beyond = [points[-1], *extrapolate(points)]
            axes.plot(*zip(*beyond, strict=True), color=colour, lw=1, ls=":")
            ends[name] = (beyond[-1][1], colour)
        label_ends(axes, ends)
    panels[0].set_ylabel("CPU seconds of one dealt tally", color=INK)
    figure.text(
        0.012, 0.93, f"A tally takes {worst(found, 10**9):.1g} s or less for 10⁹ people, and up to "
        f"{worst(found, 10**12):.1g} s for 10¹²",
        fontsize=14, fontweight="bold", color=INK,
    )  # fmt: skip
    figure.text(
        0.012, 0.875, f"k = {K} categories or 100 steps, epsilon = 1, delta = 1e-12; dotted: extrapolated",
        fontsize=9.5, color=INK,
    )  # fmt: skip
    save_svg(figure, path)


def worst(found: dict[str, list[tuple[int, float]]], n: int) -> float:
    """The most that was measured for n people."""
    return max(dict(points).get(n, 0.0) for points in found.values())


def label_ends(axes, ends: dict[str, tuple[float, str]]) -> None:
    """Names right of the lines, from the lowest up, moved apart where they would overlap."""
    low, high = np.log(axes.get_ylim())
    floor = 0.0
    for name, (value, colour) in sorted(ends.items(), key=lambda each: each[1][0]):
        height = min(max((np.log(value) - low) / (high - low), floor), 1.0)
        axes.text(
            1.02, height, name, transform=axes.transAxes, va="center", fontsize=8.5, color=colour
        )
        floor = height + 0.045


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    chart, numbers, names = Path(words[0]), Path(words[1]), words[2:]
    every = (*LOCAL, "pure_count", *SHUFFLED)
    found, most = {}, LONG if "--long" in sys.argv else SHORT
    if (names or "--draw" in sys.argv) and numbers.exists():
        found = json.loads(numbers.read_text())
    if "--draw" not in sys.argv:
        for name in names or every:
            found[name] = measure(name, most)
            sys.stderr.write(f"{name}: {found[name][-1:]}\n")
    rows = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(found[name])}" for name in every if name in found
    )
    numbers.write_text(f"{{\n{rows}\n}}\n")
    draw({name: [(n, t) for n, t in points] for name, points in found.items() if points}, chart)


if __name__ == "__main__":
    main()
