"""Histograms of people with up to four categories each: their error over that of one category each.

The error is that of a plan, the root of the mean squared error over bins on the worst data, computed and not drawn: of the best
protocol of each, and with uniform dummies in both.
"""

from timing import Row, quantity, show

import shuffledp as sdp
from shuffledp.planner.question import Limits, Problem, candidates
from shuffledp.planner.rows import evaluate
from shuffledp.tasks import Histogram

PEOPLE, BINS, MOST = 10**6, 100, 4
EPSILON, DELTA, HONEST = 1.0, 1e-8, 0.9
WANTED = {"the best of each": (None, 4.2), "dummies in both": (["dummies_histogram"], 2.0)}


def rows() -> list[Row]:
    return [compare(named, *wanted) for named, wanted in WANTED.items()]


def compare(named: str, names: list[str] | None, at_most: float) -> Row:
    (one, first), (several, second) = (find_error(values, names) for values in (1, MOST))
    return quantity(
        f"histogram of {PEOPLE:.0e} people with {MOST} categories each over 1 each, {BINS} bins, {named}: RMSE",
        baseline=f"{one:.3g} ({first}); ours {several:.3g} ({second})",
        ours=several / one,
        unit="x",
        at_most=at_most,
    )


def find_error(values: int, names: list[str] | None) -> tuple[float, str]:
    """The smallest error of a bin, and whose it is; an empty place has a bin of its own."""
    domain = sdp.Categories(k=BINS + values)
    task = Histogram(domain=domain, values=values, apart=values > 1)
    asked = Problem.of(task, n=PEOPLE, epsilon=EPSILON, delta=DELTA, honest=HONEST)
    limits = Limits.of(models="shuffle")
    found = (evaluate(each, asked, limits) for each in candidates(task, names))
    return min((row.rmse, row.protocol) for row in found if row.available and row.rmse is not None)


if __name__ == "__main__":
    show(rows(), "Several categories")
