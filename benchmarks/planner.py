"""The planner: all protocols for one question, and the curve of the plot.

Warm means that everything is imported and that this kind of question was asked before, with another epsilon and n: no
row of it is remembered. Asking the very same question again finds every row kept, and is listed apart. A curve is
of 200 points over the three models, at a question that was not asked before. The inverse questions search: each row
of their table is evaluated several times. The last row is the slowest of 100 random questions of any size;
`python benchmarks/planner.py SEED` measures only that one, on the questions of another seed, and shows the slowest.
"""

import sys
from functools import partial
from typing import Any

import numpy as np
from timing import Row, measure, quantity, seconds, show, time_call

import shuffledp as sdp
from shuffledp.planner import curves

QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "count, n=10^6": ("count", {"n": 10**6}),
    "count, n=10^4": ("count", {"n": 10**4}),
    "histogram of 1,024 bins, n=10^6": ("histogram", {"n": 10**6, "k": 1024}),
    "histogram of 16 bins, n=10^5": ("histogram", {"n": 10**5, "k": 16}),
    "sum of integers 0 .. 120, n=10^5": ("sum", {"n": 10**5, "upper": 120}),
    "mean of reals on 1,000 steps, n=10^6": (
        "mean",
        {"n": 10**6, "lower": 0.0, "upper": 1.0, "steps": 1000},
    ),
}
INVERSE: dict[str, tuple[str, dict[str, Any]]] = {
    "epsilon for a mean within 0.01, n=10^5": ("mean", {"n": 10**5, "error": 0.01}),
    "n for a mean within 0.01": ("mean", {"epsilon": 1.0, "error": 0.01}),
    "epsilon for a count within 50, n=10^6": ("count", {"n": 10**6, "error": 50.0}),
    "epsilon for 1,024 bins within 200, n=10^6": (
        "histogram",
        {"n": 10**6, "k": 1024, "error": 200.0},
    ),
}
WARM = 3
MOST_PLAN, MOST_CURVE, MOST_INVERSE, POINTS = 300.0, 5.0, 3.0, 200
RANDOM, SEED, MOST_RANDOM = 100, 20, 1.0


def rows() -> list[Row]:
    found = []
    for name, (task, numbers) in QUESTIONS.items():
        found += _plans(name, task, numbers)
        found.append(_curve(name, task, numbers))
    found += [_inverse(name, task, numbers) for name, (task, numbers) in INVERSE.items()]
    return [*found, _slowest()]


def _slowest(seed: int = SEED) -> Row:
    rng = np.random.default_rng(seed)
    asked = [_draw(rng, place) for place in range(RANDOM)]
    took = [time_call(partial(_print_plan, *each)) for each in asked]
    task, numbers = asked[took.index(max(took))]
    worst = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
    return quantity(
        f"the slowest of {RANDOM} random plans, seed {seed}",
        baseline=f"the median {seconds(sorted(took)[RANDOM // 2])}; the slowest is a {task}, {worst}",
        ours=max(took),
        unit="s",
        at_most=MOST_RANDOM,
    )


def _draw(rng: np.random.Generator, place: int) -> tuple[str, dict[str, Any]]:
    """n from 10 to 10^9, epsilon from 0.01 to 20, delta from 1e-12 to 1e-3, k from 2 to 10^6."""

    def between(low: float, high: float) -> float:
        return float(10 ** rng.uniform(np.log10(low), np.log10(high)))

    numbers = {
        "n": round(between(10, 1e9)),
        "epsilon": between(0.01, 20),
        "delta": between(1e-12, 1e-3),
    }
    k = round(between(2, 1e6))
    task, options = (
        ("histogram", {"k": k}),
        ("count", {}),
        ("histogram", {"k": k}),
        ("sum", {"lower": 0, "upper": max(1, k - 1)}),
    )[place % 4]
    return task, {**numbers, **options}


def _print_plan(task: str, numbers: dict[str, Any]) -> str:
    return str(sdp.plan(task, **numbers, allow_large_delta=True))


def _plans(name: str, task: str, numbers: dict[str, Any]) -> list[Row]:
    def ask(question: int) -> object:
        n = numbers["n"] + question
        return sdp.plan(task, **{**numbers, "n": n}, epsilon=1.0 - 0.03 * question, delta=1e-8)

    took = measure({name: ask}, WARM)[name]
    again = time_call(lambda: ask(WARM))
    return [
        quantity(
            f"all for a {name}, a fresh question of a warm process",
            baseline=f"cold {seconds(took.cold)}, the same question again {seconds(again)}",
            ours=1e3 * took.fresh,
            unit="ms",
            at_most=MOST_PLAN,
        )
    ]


def _curve(name: str, task: str, numbers: dict[str, Any]) -> Row:
    plan = sdp.plan(task, **numbers, epsilon=0.88, delta=1e-8)
    took = time_call(lambda: curves(plan, points=POINTS // 3 + 1))
    return quantity(
        f"a curve of {POINTS} points, {name}",
        baseline="three models",
        ours=took,
        unit="s",
        at_most=MOST_CURVE,
    )


def _inverse(name: str, task: str, numbers: dict[str, Any]) -> Row:
    took = time_call(lambda: sdp.plan(task, **numbers, delta=1e-8))
    return quantity(
        name, baseline="asked for the first time", ours=took, unit="s", at_most=MOST_INVERSE
    )


if __name__ == "__main__":
    show([_slowest(int(sys.argv[1]))] if sys.argv[1:] else rows(), "Planner")
