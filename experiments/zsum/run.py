"""Counting with noise messages: zero stays zero, at a price that theory overstates

In zsum nearly everybody sends one message that means nothing, and those with a one send another. All that
the shuffler shows is their number: the count plus n minus a binomial number. If the total is at most n the
analyzer answers 0, so a count of 0 is always answered by exactly 0. That is the trick behind
histograms with many empty bins.

The published proof goes through a smoothness lemma and asks for 50 ln(2/delta)/epsilon^2 missing messages on
average. The law of the view is so simple that the true requirement can be computed. So we ask: are the
theorem's statements true, and how much noise do its constants waste?
"""

import math

import numpy as np

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, GREEN, GREY, VERMILION, panels

ORDER = 30
N, DELTA = 10_000_000, 1e-6
EPSILONS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
TABLE = {0.1: 51, 0.5: 32, 1.0: 21}  # published / exact noise variance, as surveyed


def protocols(epsilon: float):
    """zsum with exact and with published noise, and its sparse mirror image."""
    common = {"n": N, "epsilon": epsilon, "delta": DELTA, "honest": 1.0}
    return {
        "exact": sdp.protocols.zsum.make(**common),
        "paper": sdp.protocols.zsum.make(**common, calibration="paper"),
        "sparse": sdp.protocols.zsum_sparse.make(**common),
    }


def answers(context: Context, protocol, ones: int, runs: int, label: str):
    """Simulated answers for a data set with this many ones."""
    rng = context.words(f"{label}/{ones}")
    return np.array([sdp.run_counts(protocol, [N - ones, ones], rng).value for _ in range(runs)])


def root(protocol, ones: int) -> float:
    """Exact root mean squared error, bias included."""
    inputs = np.array([N - ones, ones])
    own = protocol.offers.bias
    bias = 0.0 if own is None else own(inputs)
    return math.sqrt(protocol.analyzer.variance(inputs) + bias**2)


def run(context: Context) -> Result:
    runs = context.pick(quick=300, full=3_000)
    noise = [levels(epsilon) for epsilon in EPSILONS]
    one = protocols(1.0)
    counts = (0, 10, 20, 27, 31, 35, 40, 50, 70, 100, 300, 1000, 2000)
    rows, zero_errors, left = [], 0, 0
    for name, protocol in one.items():
        for ones in counts:
            errors = answers(context, protocol, ones, runs, name) - ones
            if name != "sparse":
                zero_errors += int(np.count_nonzero(errors)) if ones == 0 else 0
                left += int((np.abs(errors) > 2 * N * protocol.randomizer.gamma).sum())
            rows.append(
                {
                    "protocol": name,
                    "count": ones,
                    "exact": root(protocol, ones),
                    "measured": float(np.sqrt(np.mean(np.square(errors)))),
                    "runs": runs,
                }
            )
    return Result(
        verdicts=(
            *true_statements(zero_errors, left, one, rows, runs),
            *about_constants(noise, one, rows),
        ),
        figures=(draw_errors(rows, one), draw_noise(noise)),
        rows=tuple(rows),
        parameters={"n": N, "epsilon": EPSILONS, "delta": DELTA, "runs for each point": runs},
    )


def levels(epsilon: float) -> dict[str, float]:
    """Noise variance and privacy, exact and published."""
    made = protocols(epsilon)
    variances = {}
    for name in ("exact", "paper"):
        gamma = float(made[name].randomizer.gamma)
        variances[name] = N * gamma * (1 - gamma)
    return {"epsilon": epsilon, **variances, "delta": made["paper"].guarantee.delta}


def true_statements(zero_errors, left, one, rows, runs) -> tuple[Verdict, ...]:
    radius = 2 * float(N * one["paper"].randomizer.gamma)
    failure = one["paper"].analyzer.failure(N, radius)
    off = [abs(r["measured"] / r["exact"] - 1) for r in rows if r["exact"] > 0]
    return (
        Verdict(
            claim="If nobody has a one, the answer is exactly 0",
            measured=f"{zero_errors} of {2 * runs:,} answers are not 0 (and none can be: the noise is never negative)",
            agrees=zero_errors == 0,
        ),
        Verdict(
            claim="The error stays below 100 ln(2/delta)/epsilon^2, with overwhelming probability",
            measured=f"exceeded {left} times in all runs; the radius is {radius:.0f} at epsilon = 1, "
            f"which is exceeded with probability {failure:.0e}, from the law",
            agrees=left == 0,
        ),
        Verdict(
            claim="The declared bias and variance are exact at every count",
            measured=f"measured errors differ from them by at most {max(off):.1%} with {runs:,} runs each",
            # Relative deviation of an RMSE: about 1/sqrt(2 runs); larger where the error is skew.
            agrees=max(off) < 8 / math.sqrt(2 * runs),
        ),
    )


def about_constants(noise, one, rows) -> tuple[Verdict, ...]:
    factors = {e: next(r["paper"] / r["exact"] for r in noise if r["epsilon"] == e) for e in TABLE}
    shown = ", ".join(f"{factor:.1f} at epsilon = {e:g}" for e, factor in factors.items())
    worst = max((r for r in rows if r["protocol"] == "exact"), key=lambda r: r["exact"])
    mean = float(N * one["exact"].randomizer.gamma)
    sparse = {r["exact"] for r in rows if r["protocol"] == "sparse"}
    return (
        Verdict(
            claim="The published noise makes the view (epsilon, delta)-private",
            measured=f"exact delta between {min(r['delta'] for r in noise):.0e} and "
            f"{max(r['delta'] for r in noise):.0e}, where {DELTA:.0e} was asked for",
            agrees=all(r["delta"] <= DELTA for r in noise),
        ),
        Verdict(
            claim="It is 51, 32 and 21 times the variance that is needed at epsilon = 0.1, 0.5 and 1",
            measured=shown,
            agrees=all(abs(factors[e] / TABLE[e] - 1) < 0.03 for e in TABLE),
        ),
        Verdict(
            claim="Cutting to 0 costs bias: the worst error is about 0.8 of the mean noise, near 0.9 of it",
            measured=f"{worst['exact'] / mean:.2f} of it, at {worst['count'] / mean:.2f} of it",
            agrees=abs(worst["exact"] / mean - 0.8) < 0.06 and 0.8 < worst["count"] / mean < 1.0,
        ),
        Verdict(
            claim="The sparse mirror image has the same noise for every count, without bias",
            measured=f"one error at all counts: {max(sparse):.3f} = sqrt({max(sparse) ** 2:.2f})",
            agrees=max(sparse) - min(sparse) < 1e-9,
        ),
    )


def draw_errors(rows, one) -> Drawn:
    figure, (axes,) = panels(
        ["epsilon = 1, delta = 1e-6"],
        x="true count",
        y="error of the count (RMSE)",
        scales=("linear", "linear"),
        width=7.4,
    )
    styles = {
        "exact": (BLUE, "zsum, exact noise"),
        "paper": (VERMILION, "zsum, published noise"),
        "sparse": (GREEN, "sparse mirror image, exact noise"),
    }
    grid = [*range(10), *sorted({round(c) for c in np.logspace(1, 3.3, 60)})]
    for name, (colour, label) in styles.items():
        mine = [row for row in rows if row["protocol"] == name]
        x = [row["count"] for row in mine]
        axes.plot(grid, [root(one[name], c) for c in grid], color=colour, lw=1.6, label=label)
        axes.plot(x, [row["measured"] for row in mine], "o", color=colour, ms=4)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xlim(0, 2200)
    axes.set_ylim(0, 1200)
    axes.legend(frameon=False)
    return Drawn(
        name="errors",
        caption="Zero at zero; then a bias as large as the count itself until the count stands out of "
        "the noise. Lines: exact. Dots: simulated. (Both axes are linear near 0.)",
        figure=figure,
    )


def draw_noise(noise) -> Drawn:
    figure, (axes, ratio) = panels(
        ["Noise messages that one count needs", "By how much theory overstates it"],
        x="epsilon",
        y=["variance of the noise", "published / exact"],
    )
    x = [row["epsilon"] for row in noise]
    axes.plot(x, [row["paper"] for row in noise], color=VERMILION, lw=1.6, label="published")
    axes.plot(x, [row["exact"] for row in noise], color=BLUE, lw=1.6, label="exact")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks([0.1, 0.2, 0.5, 1.0], ["0.1", "0.2", "0.5", "1"])
    axes.minorticks_off()
    axes.legend(frameon=False)
    ratio.plot(x, [row["paper"] / row["exact"] for row in noise], color=BLUE, lw=1.6)
    ratio.plot(list(TABLE), list(TABLE.values()), "o", mfc="none", color=GREY, label="as surveyed")
    ratio.set(ylim=(0, None))
    ratio.legend(frameon=False)
    return Drawn(
        name="noise",
        caption="The noise that the published theorem asks for, and the least noise that the exact law allows.",
        figure=figure,
    )
