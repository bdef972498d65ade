"""Histograms with delta = 0

One message each is of no use without a delta: nothing would be gained over the local model. With several, every bin can
be counted purely, with half of epsilon, because a replaced value changes two bins. The noise depends neither on n nor on
k, and it is about that of one message and a few dummies with a delta; the best protocol with a delta has half as much.
The price is messages, and that only crowds up to some thousand can be certified. Here the error that a plan states is
compared with the error of many runs, and with the other protocols that a plan offers, with and without a delta.
"""

import math
from operator import attrgetter

import numpy as np

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, GREEN, GREY, ORANGE, VERMILION, panels

ORDER = 42
EPSILON, DELTA = 1.0, 1e-6
CLOSE = 0.03
PURE = "pure_histogram"
RIVALS = ("correlated_histogram", "dummies_histogram")
COLOURS = {
    PURE: BLUE,
    "correlated_histogram": ORANGE,
    "dummies_histogram": GREY,
    "local": VERMILION,
    "central": GREEN,
}


def ask(n: int, k: int, delta: float, models: tuple[str, ...]):
    """The rows of a plan for n people who are all honest, by protocol."""
    found = sdp.plan("histogram", n=n, k=k, epsilon=EPSILON, delta=delta, honest=1.0, models=models)
    return {row.protocol: row for row in found.rows if row.available}


def measure(context: Context, made, n: int, k: int, runs: int) -> float:
    """The RMSE of a bin over some runs, on a skewed data set: its error is the same on all of them."""
    counts = np.bincount(np.arange(n) % 7 % k, minlength=k)
    words = context.words(f"{n} {k}")
    errors = [sdp.run_counts(made, counts, words).value - counts for _ in range(runs)]
    return float(np.sqrt(np.square(errors).mean()))


def collect(context: Context, n: int, k: int, runs: int):
    """One row for each protocol: what is stated, and what was measured of the pure one."""
    pure = ask(n, k, 0.0, ("shuffle", "local", "central"))
    approximate = ask(n, k, DELTA, ("shuffle",))
    local = min(
        (row for row in pure.values() if row.model is sdp.Model.LOCAL), key=attrgetter("rmse")
    )
    shown = {
        PURE: pure[PURE],
        **{name: approximate[name] for name in RIVALS},
        "local": local,
        "central": pure["geometric"],
    }
    rows = [
        {
            "protocol": name,
            "n": n,
            "k": k,
            "delta": row.guarantee.delta,
            "stated": row.rmse,
            "measured": math.nan,
            "messages": row.messages_per_user,
        }
        for name, row in shown.items()
    ]
    rows[0]["measured"] = measure(context, pure[PURE].make(), n, k, runs)
    return rows


def run(context: Context) -> Result:
    crowds = context.pick(quick=(200, 1000), full=(100, 200, 500, 1000, 2000))
    sizes = context.pick(quick=(2, 8), full=(2, 8, 16))
    bins = context.pick(quick=8_000, full=20_000)
    rows = [row for n in crowds for k in sizes for row in collect(context, n, k, bins // k)]
    return Result(
        verdicts=verdicts(rows),
        figures=(draw(rows, sizes[-1]),),
        rows=tuple(rows),
        parameters={"epsilon": EPSILON, "delta": DELTA, "n": crowds, "k": sizes, "bins": bins},
    )


def select(rows, name: str):
    return [row for row in rows if row["protocol"] == name]


def compare(rows, name: str) -> list[float]:
    """How many times the error of another protocol the pure one has, size by size."""
    pairs = zip(select(rows, PURE), select(rows, name), strict=True)
    return [mine["stated"] / other["stated"] for mine, other in pairs]


def verdicts(rows) -> tuple[Verdict, ...]:
    pure = select(rows, PURE)
    off = max(abs(row["measured"] / row["stated"] - 1) for row in pure)
    stated = [row["stated"] for row in pure]
    best, central = (max(compare(rows, name)) for name in ("correlated_histogram", "central"))
    one, local = (compare(rows, name) for name in ("dummies_histogram", "local"))
    messages = [row["messages"] / row["k"] for row in pure]
    return (
        Verdict(
            claim="The error is what a plan states, within 3 %",
            measured=f"off by at most {off:.1%} in {len(pure)} sizes",
            agrees=off <= CLOSE,
        ),
        Verdict(
            claim="The error of a bin depends neither on n nor on k",
            measured=f"{min(stated):.2f} to {max(stated):.2f} people",
            agrees=max(stated) <= 1.1 * min(stated),
        ),
        Verdict(
            claim="delta = 0 costs a factor of about two: against the best protocol with a delta, and against a curator",
            measured=f"at most {best:.2f} times correlated_histogram, {central:.2f} times the geometric mechanism",
            agrees=1.5 < best < 2.5 and 1.5 < central < 2.5,
        ),
        Verdict(
            claim="It is about as good as one message and a few dummies with a delta",
            measured=f"{min(one):.2f} to {max(one):.2f} times dummies_histogram",
            agrees=max(one) < 1.25,
        ),
        Verdict(
            claim="It is far better than anything local, which is all that one message each gives without a delta",
            measured=f"{1 / max(local):.1f} to {1 / min(local):.1f} times smaller",
            agrees=max(local) < 0.5,
        ),
        Verdict(
            claim="It takes dozens of messages for each bin",
            measured=f"{min(messages):.0f} to {max(messages):.0f}",
            agrees=min(messages) > 12,
        ),
    )


def draw(rows, k: int) -> Drawn:
    figure, (left, right) = panels(
        [f"Error of a bin, k = {k}, epsilon = 1", "Messages of a person"],
        x="n",
        y=["people", "messages"],
        scales=("log", "log"),
    )
    for name, colour in COLOURS.items():
        mine = [row for row in select(rows, name) if row["k"] == k]
        crowd = [row["n"] for row in mine]
        left.plot(crowd, [row["stated"] for row in mine], color=colour, label=name)
        left.plot(crowd, [row["measured"] for row in mine], "o", color=colour, ms=4)
        if name in (PURE, *RIVALS):
            right.plot(crowd, [row["messages"] for row in mine], "o-", color=colour, label=name)
    left.legend(frameon=False, fontsize=8)
    right.legend(frameon=False, fontsize=8)
    return Drawn(
        name="pure_histogram",
        caption="Lines: what a plan states. Dots: measured. Local and central have delta = 0, too.",
        figure=figure,
    )
