"""Surveys: how long a plan takes, and what one joint guarantee wins over a budget that is split evenly.

Warm means that everything is imported and that another survey of the same kind was planned before: no budget of this
one is remembered. The split gives each of T questions (epsilon / T, delta / T) and the same building block.
"""

import math
import time
from collections.abc import Callable

from timing import Row, quantity, show

import shuffledp as sdp
from shuffledp.accounting.base import find_level
from shuffledp.accounting.compose import compose_delta
from shuffledp.accounting.decreasing_mean import PoissonTotal
from shuffledp.accounting.moved_message import TwoBins
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.protocols import bundle, make
from shuffledp.surveys import find_error

PEOPLE, DELTA = 100_000, 1e-8
BINS = (5, 8, 3, 20, 100, 10)
MOST_PLAN = 2.0
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
    ]


def _six(epsilon: float) -> sdp.Survey:
    asked = "".join(
        f'[questions.q{i}]\ntask = "histogram"\nlower = 1\nupper = {k}\n'
        for i, k in enumerate(BINS)
    )
    return sdp.Survey.loads(f"epsilon = {epsilon}\ndelta = {DELTA}\nhonest = 1.0\n{asked}")


def _mixed(epsilon: float) -> sdp.Survey:
    return sdp.Survey.loads(MIXED.format(epsilon=epsilon))


def _plan(name: str, write: Callable[[float], sdp.Survey]) -> Row:
    write(0.9).plan(PEOPLE)
    survey = write(1.0)
    start = time.process_time()
    survey.plan(PEOPLE)
    took = time.process_time() - start
    return quantity(f"plan a survey: {name}", baseline="-", ours=took, unit="s", at_most=MOST_PLAN)


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


def _measure(parts: list[ShuffleProtocol]) -> tuple[float, float]:
    mse = math.fsum(find_error(part, PEOPLE) ** 2 for part in parts) / len(parts)
    return math.sqrt(mse), math.fsum(part.cost.messages_mean for part in parts)


if __name__ == "__main__":
    show(rows(), "Surveys")
