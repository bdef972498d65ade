"""A survey: private sums in three models, with measured exponents

Surveys of private summation print a table: model, error, messages per user. Errors there are orders of growth, and it is
easy to mix scales: a curator's error of the *sum* is O(1/epsilon), while a local protocol's O(1/(epsilon sqrt(n))) is its error of
the *mean*. Here all errors are of the sum of n numbers (bits, integers from 0 to 10, or reals in [0, 1]), they are exact (the
declared variance of a real implementation, calibrated exactly), and the exponents of n and of epsilon
are measured from them.

`sdp.survey(honest=1)` and its table in the documentation take, as the planner does, the data set that is *worst* for each protocol; here
values are spread *evenly* over the range, so that rounding has its average cost. Where the error does not depend on the data,
both give the same number. The one-message blankets of integers and reals are worst at or near the ends of the range: at n = 10^6
and epsilon = 1 their errors are about a quarter smaller here, and over the same n and epsilons their exponents of n differ by about
0.03 at most, those of epsilon by about 0.13. Two more differences: the grids of reals are chosen for each protocol here (100 steps
for unary bits, 10,000 for split and mix, 1,000 otherwise), and have 1,000 steps there; the local row of reals is Duchi's bit
here, and the hybrid there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.planner.growth import exponent
from shuffledp.show.style import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILION, panels

ORDER = 85
DELTA = 1e-6
USERS = (10_000, 100_000, 1_000_000)
EPSILONS = (0.1, 0.2, 0.4)
TYPICAL = 1_000_000, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of the survey: what makes it, and the exponents that the literature states."""

    values: str
    model: str
    name: str
    error: Callable[[int, float], tuple[float, float]]
    """(root mean squared error of the sum, messages per user)"""
    in_n: float
    in_epsilon: float
    known: str


def make_shuffled(name: str, **extra):
    """The error of a protocol of the shuffle model."""

    def error(n: int, epsilon: float) -> tuple[float, float]:
        maker = sdp.protocols.spec(name).make
        return _error(maker(n=n, epsilon=epsilon, delta=DELTA, honest=1.0, **extra), n)

    return error


def local(name: str, **extra):
    """The error of a protocol of the local model."""

    def error(n: int, epsilon: float) -> tuple[float, float]:
        return _error(sdp.protocols.spec(name).make_local(epsilon=epsilon, **extra), n)

    return error


def _error(protocol, n: int) -> tuple[float, float]:
    # Values spread evenly over the range, so that rounding has its average cost.
    size = protocol.randomizer.domain.size
    inputs = np.full(size, n // size)
    inputs[0] += n - inputs.sum()
    scale = n if protocol.task == "mean" else 1
    return scale * math.sqrt(float(protocol.analyzer.variance(inputs))), protocol.cost.messages_mean


def curator(_n: int, epsilon: float) -> tuple[float, float]:
    return math.sqrt(sdp.mechanisms.geometric.make(epsilon=epsilon, sensitivity=1).variance()), 0.0


def trusted_integers(_n: int, epsilon: float) -> tuple[float, float]:
    return math.sqrt(sdp.mechanisms.geometric.make(epsilon=epsilon, sensitivity=10).variance()), 0.0


def trusted_reals(_n: int, epsilon: float) -> tuple[float, float]:
    return math.sqrt(sdp.mechanisms.laplace.make(epsilon=epsilon, sensitivity=1.0).variance()), 0.0


TEN = {"lower": 0, "upper": 10}
GRID = {"lower": 0.0, "upper": 1.0, "steps": 1000}
ENTRIES = (
    Entry(values="bits", model="central", name="geometric noise", error=curator, in_n=0, in_epsilon=-1, known="1/epsilon"),
    Entry(values="bits", model="local", name="randomized response", error=local("rr"), in_n=0.5, in_epsilon=-1, known="sqrt(n)/epsilon"),
    Entry(values="bits", model="shuffle, 1 message", name="shuffled bit", error=make_shuffled("rr"), in_n=0, in_epsilon=-1, known="sqrt(log(1/delta))/epsilon"),
    Entry(values="bits", model="shuffle, 1 + o(1) messages", name="noise messages", error=make_shuffled("zsum_sparse"), in_n=0, in_epsilon=-1, known="sqrt(log(1/delta))/epsilon"),
    Entry(values="bits", model="shuffle, 1 + o(1) messages", name="correlated noise", error=make_shuffled("correlated_count"), in_n=0, in_epsilon=-1, known="1/epsilon"),
    Entry(values="integers", model="central", name="geometric noise", error=trusted_integers, in_n=0, in_epsilon=-1, known="1/epsilon"),
    Entry(values="integers", model="local", name="hybrid", error=local("hybrid", lower=0.0, upper=10.0, steps=10), in_n=0.5, in_epsilon=-1, known="sqrt(n)/epsilon"),
    Entry(values="integers", model="shuffle, 1 message", name="blanket", error=make_shuffled("rounded_sum", **TEN), in_n=0, in_epsilon=-1, known="sqrt(log(1/delta))/epsilon"),
    Entry(values="integers", model="shuffle, several messages", name="unary bits", error=make_shuffled("unary_sum", **TEN), in_n=0, in_epsilon=-1, known="sqrt(log(1/delta))/epsilon"),
    Entry(values="integers", model="shuffle, several messages", name="split and mix", error=make_shuffled("split_and_mix", **TEN), in_n=0, in_epsilon=-1, known="1/epsilon"),
    Entry(values="integers", model="shuffle, 1 + o(1) messages", name="zero-sum flooding", error=make_shuffled("zero_sum_flooding", **TEN), in_n=0, in_epsilon=-1, known="1/epsilon"),
    Entry(values="reals", model="central", name="Laplace noise", error=trusted_reals, in_n=0, in_epsilon=-1, known="1/epsilon"),
    Entry(values="reals", model="local", name="Duchi's bit", error=local("duchi", **GRID), in_n=0.5, in_epsilon=-1, known="sqrt(n)/epsilon"),
    Entry(values="reals", model="shuffle, 1 message", name="rounded blanket", error=make_shuffled("rounded_sum", **GRID), in_n=1 / 6, in_epsilon=-2 / 3, known="n^(1/6) log(1/delta)^(1/3)/epsilon^(2/3)"),
    Entry(values="reals", model="shuffle, several messages", name="unary bits", error=make_shuffled("unary_sum", **{**GRID, "steps": 100}), in_n=0, in_epsilon=-1, known="sqrt(log(1/delta))/epsilon"),
    Entry(values="reals", model="shuffle, several messages", name="split and mix", error=make_shuffled("split_and_mix", **{**GRID, "steps": 10_000}), in_n=0, in_epsilon=-1, known="1/epsilon"),
)  # fmt: skip


def run(context: Context) -> Result:
    users = context.pick(quick=USERS, full=(*USERS, 10_000_000))
    rows, curves = [], {}
    for entry in ENTRIES:
        curve = [entry.error(n, TYPICAL[1])[0] for n in users]
        in_epsilon = [entry.error(users[-1], epsilon)[0] for epsilon in EPSILONS]
        error, messages = entry.error(*TYPICAL)
        curves[entry] = curve
        rows.append(
            {
                "values": entry.values,
                "model": entry.model,
                "protocol": entry.name,
                "error_of_sum": error,
                "messages": messages,
                "exponent_n": slope(users, curve),
                "exponent_epsilon": slope(EPSILONS, in_epsilon),
                "known": entry.known,
            }
        )
    return Result(
        verdicts=verdicts(rows),
        figures=(draw(users, curves),),
        rows=tuple(rows),
        parameters={
            "delta": DELTA,
            "n": users,
            "epsilon": EPSILONS,
            "errors at n and epsilon": TYPICAL,
        },
    )


def slope(x, y) -> float:
    return round(exponent(x, y), 4) + 0.0  # never -0


def verdicts(rows) -> tuple[Verdict, ...]:
    found = [
        Verdict(
            claim=f"{entry.values}, {entry.model}, {entry.name}: the error of the sum is {entry.known}",
            measured=f"{row['error_of_sum']:.4g} at n = 10^6, epsilon = 1; exponent of n {row['exponent_n']:+.3f}, "
            f"of epsilon {row['exponent_epsilon']:+.3f}" + sent(row["messages"]),
            agrees=abs(row["exponent_n"] - entry.in_n) < 0.04
            # At a fixed delta a smaller epsilon is easier to reach than the orders say.
            and abs(row["exponent_epsilon"] - entry.in_epsilon)
            < (0.16 if "log" in entry.known else 0.03),
        )
        for entry, row in zip(ENTRIES, rows, strict=True)
    ]
    return tuple(found)


def sent(messages: float) -> str:
    return f"; messages per user: {messages:.4g}" if messages else ""


def draw(users, curves) -> Drawn:
    figure, axes = panels(
        ["Sums of bits", "Sums of integers 0 .. 10", "Sums of reals in [0, 1]"],
        x="people n",
        y=["error of the sum (RMSE), epsilon = 1", "", ""],
        scales=("log", "log"),
        width=3.7,
        height=4.3,
    )
    palette = (GREEN, VERMILION, BLUE, ORANGE, PURPLE, INK)
    for panel, kind in zip(axes, ("bits", "integers", "reals"), strict=True):
        mine = [(entry, curve) for entry, curve in curves.items() if entry.values == kind]
        for index, ((entry, curve), colour) in enumerate(zip(mine, palette, strict=False)):
            label = f"{entry.model.partition(',')[0]}: {entry.name}"
            # Several are equal: the first are wide, so that they show.
            panel.plot(users, curve, "o-", color=colour, lw=4.2 - 0.6 * index, ms=4, label=label)
        panel.set_ylim(0.8, 1e6)
        panel.legend(frameon=False, fontsize=7.5, loc="upper left")
    return Drawn(
        name="survey",
        caption="Exact errors. Only the local model grows with sqrt(n); one message of a real number grows like n^(1/6).",
        figure=figure,
    )
