"""Makers of the shuffle model: how long one calibration takes, over a grid of questions.

A planner asks every maker the same question, so the figure is the sum over all protocols of one question:
at most 300 ms. Each point is asked once, and what functions remember is forgotten before it, for points of a grid have
numbers in common; imports are done before, by a question that is not on the grid. The baseline is a transform of 2^16
points, timed in the same run.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from inspect import signature
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from timing import Row, best, forget, quantity, seconds, show, time_call

import shuffledp as sdp
from shuffledp.core.errors import ShuffledpError
from shuffledp.core.protocol import Spec

USERS = (10**3, 10**4, 10**6, 10**9)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
DELTAS = (1e-8,)
BINS = (4, 16, 1024, 10**5)
NUMBERS = {"lower": 0.0, "upper": 1.0, "steps": 1000}
SLOW = frozenset({"pure_count", "pure_histogram", "zero_sum_flooding"})  # seconds: not summed up
AT_MOST = 300.0
_ROUNDS = 20  # of the baseline

Times = dict[str, dict[tuple[object, ...], float]]


def rows() -> list[Row]:
    numbers = np.random.default_rng(1).random((_ROUNDS + 1, 1 << 16))
    transform = best({"transform": lambda turn: np.fft.rfft(numbers[turn])}, _ROUNDS)
    times = measured()
    return [*map(partial(_row, times, transform["transform"]), times), *_questions(times)]


def measured() -> Times:
    """CPU seconds of each maker at each point of its grid."""
    times: Times = {}
    for spec in sdp.protocols.PROTOCOLS:
        if spec.make is None:
            continue
        other = next(_points(spec))
        _asked(spec, {**other, "epsilon": 0.7 * other["epsilon"]})  # imports what is imported late
        times[spec.name] = {tuple(point.values()): _asked(spec, point) for point in _points(spec)}
    return times


def _points(spec: Spec) -> Iterator[dict[str, Any]]:
    assert spec.make is not None
    names = signature(spec.make).parameters
    own: list[dict[str, Any]] = [{}]
    if spec.task == "histogram":
        own = [{"k": k} for k in BINS]
    elif "lower" in names:
        own = [NUMBERS]
    for n, epsilon, delta, rest in product(USERS, EPSILONS, DELTAS, own):
        point = {"n": n, "epsilon": epsilon, "delta": delta, **rest}
        yield {name: value for name, value in point.items() if name in names}


def _asked(spec: Spec, point: dict[str, Any]) -> float:
    assert spec.make is not None
    make = spec.make

    def ask() -> None:
        with suppress(ShuffledpError):  # a refusal takes its time, too
            make(**point)

    forget()
    return time_call(ask)


def _row(times: Times, transform: float, name: str) -> Row:
    worst = max(times[name].values())
    return Row(
        what=f"{name}: worst of {len(times[name])} questions, median {seconds(median(times[name].values()))}",
        baseline=f"FFT of 2^16: {seconds(transform)}",
        ours=seconds(worst),
        ratio=f"{worst / transform:.0f} FFTs",
    )


def _questions(times: Times) -> Iterator[Row]:
    """All protocols of one question together."""
    for question in ("count", "sum", "histogram"):
        totals: dict[tuple[object, ...], float] = {}
        for spec in sdp.protocols.PROTOCOLS:
            same = spec.task == question or {spec.task, question} == {
                "sum",
                "mean",
            }
            if spec.name in times and spec.name not in SLOW and same:
                for point, took in times[spec.name].items():
                    totals[point] = totals.get(point, 0.0) + took
        yield quantity(
            f"all for a {question}, median (worst {seconds(max(totals.values()))})",
            baseline="without the slow ones",
            ours=1e3 * median(totals.values()),
            unit="ms",
            at_most=AT_MOST,
        )


if __name__ == "__main__":
    show(rows(), "Makers")
