"""Surveys: how long a plan takes, and what one joint guarantee wins over a budget that is split evenly.

Plans are fresh questions of a warm process: everything is imported, and another survey of the same kind was planned
before, for other people and with another epsilon, so that no budget is remembered. The split gives each of T questions (epsilon / T, delta / T) and the same building block.

On a file of ten million rows the six exact answers by DuckDB are the baseline, each in a process of its own: the best
of three of wall time and of CPU time. The whole command starts Python, plans, and answers.
"""

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import Row, compiled, measure, quantity, seconds, show

import shuffledp as sdp
from shuffledp.accounting.base import find_level
from shuffledp.accounting.compose import compose_delta
from shuffledp.accounting.moved_message import PoissonTotal, TwoBins
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.protocols import bundle, make
from shuffledp.questions import find_error

PEOPLE, DELTA = 100_000, 1e-8
BINS = (5, 8, 3, 20, 100, 10)
MOST_PLAN, PLANS = 2.0, 3
ROWS = 10_000_000
FIXED = 0.6  # seconds for starting, planning and display
CLOCK = "start = time.perf_counter(), time.process_time()"
TOOK = "print('took', time.perf_counter() - start[0], time.process_time() - start[1])"
EXACT = f"""
import sys, time, duckdb
{CLOCK}
for i in range({len(BINS)}):
    duckdb.read_parquet(sys.argv[1]).count("*", groups=f"q{{i}}", projected_columns=f"q{{i}}").fetchall()
{TOOK}
"""
ANSWERING = f"""
import sys, time, pathlib
import shuffledp as sdp
prepared = sdp.Survey.load(sys.argv[2]).prepare(pathlib.Path(sys.argv[1]))
{CLOCK}
prepared.answer()
{TOOK}
"""
POISSON = {1: 62.09, 2: 109.35, 4: 211.0, 7: 366.0}
BLOCKS = ("dummies_histogram", "correlated_histogram")
MIXED = """
epsilon = {epsilon}
delta = 1e-8
[questions.way]
task = "histogram"
categories = ["car", "bicycle", "bus", "train", "other"]
[questions.minutes]
task = "quantiles"
lower = 0
upper = 240
at = [0.25, 0.5, 0.75, 0.95]
weight = 2
[questions.home_by_way]
task = "count"
column = "home"
by = "way"
"""


def rows() -> list[Row]:
    return [
        _plan("six histograms", _six),
        _plan("histogram, quantiles, count by group", _mixed),
        *(_poisson(parts, wanted) for parts, wanted in POISSON.items()),
        *(_compare(block) for block in BLOCKS),
        *_run(),
    ]


def write_six(epsilon: float) -> str:
    asked = "".join(
        f'[questions.q{i}]\ntask = "histogram"\nlower = 1\nupper = {k}\n'
        for i, k in enumerate(BINS)
    )
    return f"epsilon = {epsilon}\ndelta = {DELTA}\nhonest = 1.0\n{asked}"


def _six(epsilon: float) -> sdp.Survey:
    return sdp.Survey.loads(write_six(epsilon))


def _mixed(epsilon: float) -> sdp.Survey:
    return sdp.Survey.loads(MIXED.format(epsilon=epsilon))


def _plan(name: str, write: Callable[[float], sdp.Survey]) -> Row:
    took = measure({name: lambda i: write(1 - 0.01 * i).plan(PEOPLE + i)}, PLANS)[name]
    return quantity(
        f"plan a survey: {name}",
        baseline=f"cold {seconds(took.cold)}",
        ours=took.fresh,
        unit="s",
        at_most=MOST_PLAN,
    )


def _poisson(parts: int, wanted: float) -> Row:
    """The smallest Poisson level of the joint loss."""

    def delta_at(mu: float) -> float:
        curve = TwoBins(total=PoissonTotal(mean=2 * mu))
        return compose_delta([curve] * parts, epsilon=1.0, near=DELTA, points=240)

    found = find_level(delta_at, DELTA, guess=wanted, largest=1e6, refusal="", tolerance=1e-5)
    return Row(
        what=f"noise variance per bin of {parts} histograms with Poisson dummies",
        baseline=f"QUERIES: {wanted}",
        ours=f"{found:.2f}",
        ratio=f"{found / wanted:.4f}",
        wanted="1 .. 1.005",
        met=0.9999 <= found / wanted <= 1.005,
    )


def _compare(block: str) -> Row:
    """RMSE per bin and messages per person of six histograms: joint loss, and epsilon and delta split evenly."""
    parts = [{"name": str(i), "protocol": block, "k": k} for i, k in enumerate(BINS)]
    crowd = {"n": PEOPLE, "honest": 1.0}
    joint = make("bundle", epsilon=1.0, delta=DELTA, parts=parts, **crowd)
    share = {"epsilon": 1.0 / len(BINS), "delta": DELTA / len(BINS)}
    split = [make(block, k=k, **share, **crowd) for k in BINS]
    ours = _measure([part for _, part in bundle.questions(joint)])
    theirs = _measure(split)
    return Row(
        what=f"six histograms, n=10^5: {block}",
        baseline="split: RMSE {:.2f}, {:.2f} messages".format(*theirs),
        ours="joint: RMSE {:.2f}, {:.2f} messages".format(*ours),
        ratio=f"{theirs[0] / ours[0]:.2f}x",
    )


def _run() -> list[Row]:
    """Six histograms of ten million people in a Parquet file: DuckDB, the questions alone, and the command."""
    with TemporaryDirectory() as folder:
        people, survey = Path(folder, "people.parquet"), Path(folder, "survey.toml")
        source = np.random.default_rng(1)
        columns = {
            f"q{i}": source.integers(1, k + 1, ROWS, dtype=np.int16) for i, k in enumerate(BINS)
        }
        pq.write_table(pa.table(columns), people)
        survey.write_text(write_six(1.0))
        words = {
            "exact": ("-c", EXACT, str(people)),
            "answering": ("-c", ANSWERING, str(people), str(survey)),
            "command": ("-m", "shuffledp", "run", str(survey), str(people), "--json"),
        }
        found = {name: _time(each) for name, each in words.items()}
    named = {"answering": "the answers alone", "command": "the whole command, planning included"}
    return [
        Row(
            what=f"a survey of six questions, 10^7 rows: {text}",
            baseline="DuckDB, exact: {:.2f} s, CPU {:.2f} s".format(*found["exact"]),
            ours="{:.2f} s, CPU {:.2f} s".format(*found[name]),
            ratio=f"{found[name][0] / found['exact'][0]:.2f}",
            wanted=f"<= 2x + {FIXED:g} s",
            met=found[name][0] <= 2 * found["exact"][0] + FIXED,
        )
        for name, text in named.items()
    ]


def _time(words: tuple[str, ...]) -> tuple[float, float]:
    """Wall and CPU seconds of a program: what it says itself in its last line, or its whole life."""
    walls, spent = [], []
    for _ in range(3):
        start = time.perf_counter()
        into, out = os.pipe()
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, *words],
            compiled(),
            file_actions=[(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_CLOSE, into)],
        )
        os.close(out)
        with os.fdopen(into) as said:
            text = said.read()
        usage = os.wait4(child, 0)[2]
        took = [time.perf_counter() - start, usage.ru_utime + usage.ru_stime]
        if text.startswith("took"):
            took = [float(each) for each in text.split()[1:]]
        walls.append(took[0])
        spent.append(took[1])
    return min(walls), min(spent)


def _measure(parts: list[ShuffleProtocol]) -> tuple[float, float]:
    mse = math.fsum(find_error(part, PEOPLE) ** 2 for part in parts) / len(parts)
    return math.sqrt(mse), math.fsum(part.cost.messages_mean for part in parts)


if __name__ == "__main__":
    show(rows(), "Surveys")
