"""The Laplace mechanism keeps its promise, with little to spare

Add Laplace noise of scale sensitivity/epsilon to each of k numbers. The textbook says: with probability
at least 1 - beta no number is off by more than ln(k/beta) * sensitivity/epsilon. It follows from a union
bound, so one may ask how much it gives away. Here the mechanism is run many times, and we count how
often the largest error exceeds that bound. The probability is exactly 1 - (1 - beta/k)^k, a little
below beta: 0.0489 for k = 10 and beta = 0.05. The bound is nearly tight, and no cleverer argument
would gain more than a few percent.
"""

import numpy as np

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.numerics.entropy import draw_discrete_laplace
from shuffledp.show.style import BLUE, GREEN, GREY, VERMILION, panels

ORDER = 10
EPSILON, SENSITIVITY = 1.0, 1.0
DIMENSIONS = (1, 10, 100)
BETAS = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9])
LEVEL = 1e-6  # of false alarm for each of the intervals


def exact(beta, k):
    """The probability that the largest of k errors exceeds the bound."""
    return -np.expm1(k * np.log1p(-np.asarray(beta) / k))


def count_exceeded(largest, k):
    """How often the largest error exceeded the bound, for each beta."""
    bounds = np.log(k / BETAS) * SENSITIVITY / EPSILON
    return (largest[:, None] > bounds).sum(axis=0)


def trials(context: Context, k: int, count: int):
    """The largest error of each of `count` releases of k numbers."""
    mechanism = sdp.mechanisms.laplace.make(epsilon=EPSILON, sensitivity=SENSITIVITY, k=k)
    noise = draw_discrete_laplace(mechanism.noise.rate, count * k, context.words(f"k={k}"))
    return np.abs(noise.reshape(count, k)).max(axis=1) * mechanism.unit


def run(context: Context) -> Result:
    from scipy.stats import binomtest

    count = context.pick(quick=20_000, full=200_000)
    rows = []
    for k in DIMENSIONS:
        seen = count_exceeded(trials(context, k, count), k)
        for beta, hits in zip(BETAS, seen, strict=True):
            low, high = binomtest(int(hits), count).proportion_ci(1 - LEVEL)
            rows.append(
                {
                    "k": k,
                    "beta": float(beta),
                    "trials": count,
                    "left": int(hits),
                    "measured": hits / count,
                    "low": low,
                    "high": high,
                    "exact": float(exact(beta, k)),
                }
            )
    return Result(
        verdicts=verdicts(rows, count),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={
            "epsilon": EPSILON,
            "sensitivity": SENSITIVITY,
            "k": DIMENSIONS,
            "trials for each k": count,
        },
    )


def verdicts(rows, count) -> tuple[Verdict, ...]:
    inside = sum(row["low"] <= row["exact"] <= row["high"] for row in rows)
    above = [row for row in rows if row["low"] > row["beta"]]
    ten = next(row for row in rows if row["k"] == 10 and row["beta"] == 0.05)
    share = min(row["exact"] / row["beta"] for row in rows if row["beta"] <= 0.1)
    return (
        Verdict(
            claim="The largest of k errors exceeds ln(k/beta) sensitivity/epsilon with probability at most beta",
            measured=f"{len(above)} of {len(rows)} frequencies are significantly above beta",
            agrees=not above,
        ),
        Verdict(
            claim="That probability is exactly 1 - (1 - beta/k)^k",
            measured=f"it is within the interval of {inside} of {len(rows)} frequencies ({count:,} releases each)",
            agrees=inside == len(rows),
        ),
        Verdict(
            claim="k = 10, beta = 0.05: 0.0489 instead of 0.05",
            measured=f"{ten['measured']:.4f} (exact {ten['exact']:.4f})",
            agrees=ten["low"] <= 0.0489 <= ten["high"] and round(ten["exact"], 4) == 0.0489,
        ),
        Verdict(
            claim="The bound is tight for small beta",
            measured=f"for beta up to 0.1, at least {share:.1%} of beta is used",
            agrees=share > 0.95,
        ),
    )


def draw(rows) -> Drawn:
    figure, (axes, ratio) = panels(
        ["How often the bound is exceeded", "The same as a share of beta"],
        x="beta, what the theorem allows",
        y=["share of releases", "share of releases / beta"],
    )
    grid = np.linspace(0.005, 0.9, 200)
    axes.plot(grid, grid, color=GREY, lw=1, ls="--", label="beta itself")
    ratio.axhline(1, color=GREY, lw=1, ls="--")
    for k, colour in zip(DIMENSIONS, (BLUE, VERMILION, GREEN), strict=True):
        mine = [row for row in rows if row["k"] == k]
        x, y = [row["beta"] for row in mine], np.array([row["measured"] for row in mine])
        bars = np.abs([[row[end] for row in mine] for end in ("low", "high")] - y)
        axes.plot(grid, exact(grid, k), color=colour, lw=1.6, label=f"exact, k = {k}")
        axes.plot(x, y, "o", color=colour, ms=4.5)
        ratio.plot(grid, exact(grid, k) / grid, color=colour, lw=1.6)
        # Rarer events would need more trials: their bars hide the rest.
        ratio.errorbar(x[2:], (y / x)[2:], (bars / x)[:, 2:], fmt="o", color=colour, ms=4.5, lw=1)
    axes.legend(frameon=False)
    ratio.set(ylim=(0.6, 1.15))
    return Drawn(
        name="tail",
        caption="Lines: exact. Dots: measured, with intervals of confidence 1 - 1e-6. For small beta "
        "the theorem gives away next to nothing.",
        figure=figure,
    )
