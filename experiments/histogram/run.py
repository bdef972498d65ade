"""Histograms: the worst bin does not depend on how many bins there are

In the local model everybody's report is noisy in every bin, so with d bins the largest of d
errors grows like sqrt(log d), even if all bins but a handful are empty. We measure one local protocol, optimized unary
encoding; that no other avoids the growth is a theorem of the literature (Bassily, Smith 2015), which we do not compute. A trusted curator can stay silent about empty bins. So can the shuffle model: run the
counting protocol zsum in each bin, and an empty bin is answered by exactly 0. Only bins
that somebody uses have an error, and the largest does not depend on d. This was the first large separation of the two models.

Here 10,000 people use ten bins of a domain that grows. We measure the largest error over all bins.
"""

import math

import numpy as np

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.planner.growth import exponent
from shuffledp.show.style import BLUE, GREEN, GREY, VERMILION, panels

ORDER = 40
N, EPSILON, DELTA = 10_000, 1.0, 1e-6
USED = (4000, 2500, 1500, 900, 500, 250, 150, 100, 60, 40)


def data(d: int):
    """Ten used bins, spread over the domain."""
    counts = np.zeros(d, dtype=np.int64)
    counts[np.arange(len(USED)) * (d // len(USED))] = USED
    return counts


def makers(d: int):
    """One protocol for each kind of trust."""
    shuffled = {"n": N, "k": d, "epsilon": EPSILON, "delta": DELTA, "honest": 1.0}
    return {
        "shuffle": sdp.protocols.zsum_histogram.make(**shuffled),
        "local": sdp.protocols.optimized_unary.make_local(k=d, epsilon=EPSILON),
    }


def largest_errors(context: Context, name: str, protocol, counts, runs: int):
    """(largest error over all bins, largest over empty bins) of each run."""
    rng = context.words(f"{name}/{len(counts)}")
    found = []
    for _ in range(runs):
        error = np.abs(sdp.run_counts(protocol, counts, rng).value - counts)
        found.append((error.max(), error[counts == 0].max()))
    return np.array(found)


def curator(context: Context, d: int, runs: int):
    """The same for the stability-based histogram of the central model."""
    mechanism = sdp.mechanisms.stability_histogram.make(n=N, epsilon=EPSILON, delta=DELTA)
    counts, rng, found = data(d), context.words(f"central/{d}"), []
    for _ in range(runs):
        answer = mechanism.release(counts, rng)
        value = np.zeros(d)
        value[[int(label) for label in answer.labels]] = answer.value
        error = np.abs(value - counts)
        found.append((error.max(), error[counts == 0].max()))
    return np.array(found)


def run(context: Context) -> Result:
    runs = context.pick(quick=40, full=200)
    sizes = [
        2**i for i in context.pick(quick=(4, 6, 8, 10, 12, 14), full=(4, 6, 8, 10, 12, 14, 16, 18))
    ]
    rows = []
    for d in sizes:
        counts = data(d)
        found = {
            name: largest_errors(context, name, protocol, counts, runs)
            for name, protocol in makers(d).items()
        }
        found["central"] = curator(context, d, runs)
        for name, errors in found.items():
            rows.append(
                {
                    "model": name,
                    "d": d,
                    "runs": runs,
                    "largest": float(errors[:, 0].mean()),
                    "stderr": float(errors[:, 0].std(ddof=1) / math.sqrt(runs)),
                    "largest_empty": float(errors[:, 1].max()),
                    "theory": predict_largest(d) if name == "local" else math.nan,
                }
            )
    return Result(
        verdicts=verdicts(rows, sizes),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={
            "n": N,
            "epsilon": EPSILON,
            "delta": DELTA,
            "d": sizes,
            "used bins": len(USED),
            "runs": runs,
        },
    )


def predict_largest(d: int) -> float:
    """The mean of the largest of d normal errors with the exact deviation of an empty bin."""
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    local = sdp.protocols.optimized_unary.make_local(k=2, epsilon=EPSILON)
    deviation = math.sqrt(local.analyzer.variance(np.array([N, 0]))[1])
    # E max |Z| = integral of 1 - (2 Phi(t) - 1)^d, with 2 Phi(t) - 1 = 1 - 2 Phi(-t).
    tail = quad(
        lambda t: -math.expm1(d * math.log1p(-2 * math.exp(log_ndtr(-t)))), 1e-12, 12, limit=200
    )
    return deviation * tail[0]


def select(rows, model: str):
    return [row for row in rows if row["model"] == model]


def verdicts(rows, sizes) -> tuple[Verdict, ...]:
    shuffle, local, central = (select(rows, model) for model in ("shuffle", "local", "central"))
    first, last = shuffle[0], shuffle[-1]
    spread = math.hypot(first["stderr"], last["stderr"])
    drift = max(r["largest"] for r in shuffle) / min(r["largest"] for r in shuffle)
    growth = [r["largest"] for r in local]
    fit = exponent(np.log(sizes), growth)
    off = max(abs(r["largest"] / r["theory"] - 1) for r in local)
    near = all(
        abs(r["largest"] - r["theory"]) < 0.05 * r["theory"] + 4 * r["stderr"] for r in local
    )
    empty = max(r["largest_empty"] for r in (*shuffle, *central))
    return (
        Verdict(
            claim="Shuffle and central model answer every empty bin by exactly 0",
            measured=f"largest error of an empty bin in all runs: {empty:g}",
            agrees=empty == 0,
        ),
        Verdict(
            claim="In the shuffle model the error of the worst bin does not depend on d",
            measured=f"{first['largest']:.1f} at d = {sizes[0]}, {last['largest']:.1f} at d = {sizes[-1]:,} "
            f"(standard error {spread:.1f}); largest over smallest mean: {drift:.2f}",
            agrees=abs(first["largest"] - last["largest"]) < 5 * spread and drift < 1.2,
        ),
        Verdict(
            claim="With optimized unary encoding, a local protocol, it grows like sqrt(log d)",
            measured=f"{growth[0]:.0f} at d = {sizes[0]}, {growth[-1]:.0f} at d = {sizes[-1]:,}: "
            f"exponent of log d {fit:.2f}; the mean of the largest of d normal errors fits within {off:.1%}",
            agrees=0.35 < fit < 0.65 and near,
        ),
        Verdict(
            claim="So the gap between the two protocols grows without limit",
            measured=f"local / shuffle: {growth[0] / first['largest']:.1f} at d = {sizes[0]}, "
            f"{growth[-1] / last['largest']:.1f} at d = {sizes[-1]:,}",
            agrees=growth[-1] / last["largest"] > 1.3 * growth[0] / first["largest"],
        ),
    )


def draw(rows) -> Drawn:
    figure, (axes,) = panels(
        ["10,000 people in ten bins of d, epsilon = 1"],
        x="number of bins d",
        y="largest error over all bins",
        scales=("log", "log"),
        width=7.4,
    )
    styles = {
        "local": (VERMILION, "local: optimized unary encoding (line: largest of d normal errors)"),
        "shuffle": (BLUE, "shuffle: zsum in every bin"),
        "central": (GREEN, "central: stability-based histogram"),
    }
    for model, (colour, label) in styles.items():
        mine = select(rows, model)
        x, y = [row["d"] for row in mine], [row["largest"] for row in mine]
        axes.errorbar(x, y, [3 * row["stderr"] for row in mine], fmt="o", color=colour, ms=5, lw=1)
        line = [row["theory"] for row in mine] if model == "local" else y
        axes.plot(x, line, color=colour, lw=1.6, label=label)
    mine = select(rows, "local")
    base = mine[0]["theory"] / math.sqrt(math.log(mine[0]["d"]))
    axes.plot(
        [r["d"] for r in mine],
        [base * math.sqrt(math.log(r["d"])) for r in mine],
        color=GREY,
        lw=1,
        ls=":",
        label="proportional to sqrt(log d)",
    )
    axes.set_ylim(3, 2000)
    axes.legend(frameon=False, fontsize=8, loc="center right", bbox_to_anchor=(1, 0.63))
    return Drawn(
        name="largest-error",
        caption="Dots: the mean of the largest error, with three standard errors. The blue and the green line are flat.",
        figure=figure,
    )
