"""Randomized response: an error of 1/sqrt(n), and no local protocol does better

Everybody flips their bit with probability 1/(e^epsilon + 1), and the analyzer removes the bias.
This is the local model of 1965. The error of its mean shrinks like 1/(epsilon sqrt(n)), where a trusted
curator would have 1/(epsilon n): some seventy times less for 10,000 people.

Is that the protocol's fault? No. Whatever a locally private protocol learns of a bit, in one message or in a
conversation, can be computed from the randomized response to it. So give everybody a one with probability theta,
and theta a smooth law on [0, 1]: no estimate from the number of ones that randomized response reports has a smaller
average error than one that can be computed (van Trees' inequality, or the exact Bayes risk where n is small), and no
protocol's worst case is below its average. That line is a theorem: docs/theory/lower-bounds.md.
"""

import math

import numpy as np

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.planner.growth import exponent
from shuffledp.planner.local_bound import local_lower_bound
from shuffledp.show.style import GREEN, GREY, INK, VERMILION, panels

ORDER = 20
EPSILONS = (0.25, 1.0, 3.0)
USERS = (100, 1_000, 10_000, 100_000, 1_000_000)


def measure(context: Context, epsilon: float, n: int, runs: int) -> float:
    """Root mean squared error of the mean over simulated surveys of n people, a third of them ones."""
    protocol = sdp.protocols.rr.make_local(epsilon=epsilon)
    counts = [n - n // 3, n // 3]
    rng = context.words(f"{epsilon}/{n}")
    errors = [sdp.run_counts(protocol, counts, rng).value - counts[1] for _ in range(runs)]
    return math.sqrt(np.mean(np.square(errors))) / n


def run(context: Context) -> Result:
    runs = context.pick(quick=300, full=4_000)
    rows = []
    for epsilon in EPSILONS:
        for n in USERS:
            protocol = sdp.protocols.rr.make_local(epsilon=epsilon)
            exact = math.sqrt(protocol.analyzer.variance(np.array([n - n // 3, n // 3]))) / n
            curator = sdp.mechanisms.geometric.make(epsilon=epsilon, sensitivity=1)
            rows.append(
                {
                    "epsilon": epsilon,
                    "n": n,
                    "runs": runs,
                    "measured": measure(context, epsilon, n, runs),
                    "exact": exact,
                    "lower_bound": local_lower_bound(epsilon=epsilon, n=n) / n,
                    "central": math.sqrt(curator.variance()) / n,
                }
            )
    return Result(
        verdicts=verdicts(rows, runs),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={"epsilon": EPSILONS, "n": USERS, "surveys for each point": runs},
    )


def slope(rows, key: str) -> float:
    """The exponent of n in a column."""
    return exponent([r["n"] for r in rows], [r[key] for r in rows])


def verdicts(rows, runs) -> tuple[Verdict, ...]:
    slopes = [slope([r for r in rows if r["epsilon"] == e], "measured") for e in EPSILONS]
    # The RMSE of `runs` nearly normal errors has relative deviation 1/sqrt(2 runs).
    worst = max(abs(r["measured"] / r["exact"] - 1) for r in rows) * math.sqrt(2 * runs)
    all_gaps = [r["exact"] / r["lower_bound"] for r in rows]
    gaps = [r["exact"] / r["lower_bound"] for r in rows if r["exact"] < 0.1]
    large = {r["epsilon"]: r["exact"] / r["lower_bound"] for r in rows if r["n"] == USERS[-1]}
    factor = next(r for r in rows if r["epsilon"] == 1.0 and r["n"] == 10_000)
    return (
        Verdict(
            claim="The error of the mean is of order 1/sqrt(n)",
            measured="exponents of n: " + ", ".join(f"{value:.3f}" for value in slopes),
            agrees=all(abs(value + 0.5) < 0.02 for value in slopes),
        ),
        Verdict(
            claim="Its variance is e^epsilon / ((e^epsilon - 1)^2 n), whatever the data",
            measured=f"the worst of {len(rows)} measured errors is {worst:.1f} standard deviations off",
            agrees=worst < 5,
        ),
        Verdict(
            claim="No local protocol does better: the lower bound for all of them is nearly the error of this one",
            measured=f"at most {max(gaps):.3f} times the bound where the error is below a tenth, {max(all_gaps):.2f} times "
            f"anywhere; at n = {USERS[-1]:,}: "
            + ", ".join(f"{gap:.4f} (epsilon = {e:g})" for e, gap in large.items()),
            agrees=max(gaps) < 1.09 and min(all_gaps) >= 1,
        ),
        Verdict(
            claim="A trusted curator has an error of 1/(epsilon n), so sqrt(n) times less",
            measured=f"n = 10,000, epsilon = 1: {factor['exact'] / factor['central']:.0f} times less",
            agrees=30 < factor["exact"] / factor["central"] < 100,
        ),
    )


def draw(rows) -> Drawn:
    figure, axes = panels(
        [f"epsilon = {epsilon:g}" for epsilon in EPSILONS],
        x="people n",
        y=["error of the mean (RMSE)", "", ""],
        scales=("log", "log"),
        width=3.6,
    )
    for panel, epsilon in zip(axes, EPSILONS, strict=True):
        mine = [row for row in rows if row["epsilon"] == epsilon]
        n = [row["n"] for row in mine]
        lines = (
            ("exact", VERMILION, "-", "randomized response, exact"),
            ("lower_bound", INK, "--", "lower bound for local protocols"),
            ("central", GREEN, "-", "trusted curator"),
        )
        for key, colour, style, label in lines:
            panel.plot(n, [row[key] for row in mine], style, color=colour, lw=1.6, label=label)
        panel.plot(
            n, [row["measured"] for row in mine], "o", color=VERMILION, ms=5, label="measured"
        )
        panel.set(ylim=(1e-7, 2))
    axes[0].legend(frameon=False, fontsize=8, labelcolor=GREY, loc="lower left")
    return Drawn(
        name="rate",
        caption="The error of randomized response, a proven lower bound for all local protocols, and "
        "what a trusted curator would have.",
        figure=figure,
    )
