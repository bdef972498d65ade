"""Testing uniformity: how many people it takes to notice a bias

Are all k categories equally likely, or is the law at total variation distance alpha from that? Without privacy
about sqrt(k)/alpha^2 people are enough, far fewer than categories. In the local model it takes k^(3/2), or k if all users share a public random string.
The shuffle model lies between: k^(3/4) with private coins and k^(2/3) with public ones, where the private terms dominate.

We find the smallest n at which the test errs at most one time in three, both ways, by running it against
the laws that are hardest to detect, and fit how n grows with k.
"""

import math

import numpy as np

from shuffledp.inference.complexity import sample_complexity
from shuffledp.inference.uniformity import uniformity_test
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.planner.growth import exponent as fitted_exponent
from shuffledp.show.style import BLUE, GREY, ORANGE, PURPLE, VERMILION, panels

ORDER = 70
ALPHA, EPSILON, DELTA = 0.25, 1.0, 1e-6
CURVES = (
    ("local, private coin", "local", "private", 1.5, VERMILION),
    ("local, public coin", "local", "public", 1.0, ORANGE),
    ("shuffle, private coin", "shuffle", "private", 0.75, BLUE),
    ("shuffle, public coin", "shuffle", "public", 2 / 3, PURPLE),
    ("no privacy", "none", "private", 0.5, GREY),
)
METHODS = {"local, public": "hashed", "shuffle, private": "direct", "shuffle, public": "direct"}
"""One method for a curve: which one needs the fewest people may change along it."""
COMMON = 256
"""A number of categories that all curves have, whatever the effort."""


def sizes(context: Context, label: str) -> tuple[int, ...]:
    """Simulating private coins takes time that grows with n k."""
    if label == "local, private coin":
        return context.pick(quick=(64, COMMON), full=(64, COMMON, 1024))
    if label.endswith("public coin"):
        return context.pick(quick=(64, COMMON, 1024, 4096), full=(64, COMMON, 1024, 4096, 16384))
    return context.pick(quick=(64, COMMON, 1024), full=(64, COMMON, 1024, 4096))


def find_needed(k: int, model: str, coin: str):
    privacy = (
        {}
        if model == "none"
        else {"epsilon": EPSILON, "delta": DELTA if model == "shuffle" else None}
    )
    method = METHODS.get(f"{model}, {coin}")
    return sample_complexity(
        "uniformity_test", k=k, alpha=ALPHA, model=model, coin=coin, method=method, **privacy
    )


def run(context: Context) -> Result:
    rows = []
    for label, model, coin, _, _ in CURVES:
        for k in sizes(context, label):
            found = find_needed(k, model, coin)
            rows.append(
                {
                    "test": label,
                    "k": k,
                    "n": found.n,
                    "too_few": found.lower,
                    "theory": found.theory.value,
                    "formula": found.theory.formula,
                    "miss": found.measured,
                }
            )
    errors = retest(
        context, select_common(rows, "shuffle, private coin"), context.pick(quick=40, full=200)
    )
    return Result(
        verdicts=(*growth(rows), *comparisons(rows), errors),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={
            "alpha": ALPHA,
            "epsilon": EPSILON,
            "delta": DELTA,
            "k": sorted({row["k"] for row in rows}),
            "allowed error": "1/3",
        },
    )


def select_common(rows, label: str):
    return next(row for row in select(rows, label) if row["k"] == COMMON)


def select(rows, label: str):
    return [row for row in rows if row["test"] == label]


def slope(rows, key: str) -> float:
    return fitted_exponent([r["k"] for r in rows], [r[key] for r in rows])


def growth(rows):
    for label, _, _, exponent, _ in CURVES:
        mine = select(rows, label)
        measured, whole = slope(mine, "n"), slope(mine, "theory")
        yield Verdict(
            claim=f"{label}: n grows like k^{exponent:.2g}",
            measured=f"exponent {measured:.2f} (all terms of the theorem together: {whole:.2f})",
            agrees=abs(measured - exponent) < 0.1 or abs(measured - whole) < 0.05,
        )


def comparisons(rows) -> tuple[Verdict, ...]:
    last = {label: select_common(rows, label)["n"] for label, *_ in CURVES}
    order = [last[label] for label, *_ in CURVES]
    constants = [row["n"] / row["theory"] for row in rows if row["test"].startswith("shuffle")]
    return (
        Verdict(
            claim="Local needs more than shuffle, shuffle more than no privacy; public coins help",
            measured=f"k = {COMMON}: " + ", ".join(f"{label} {n:,}" for label, n in last.items()),
            agrees=order == sorted(order, reverse=True),
        ),
        Verdict(
            claim="With all constants set to 1, the theorem's orders are good guesses in the shuffle model",
            measured=f"found n is {min(constants):.2f} to {max(constants):.2f} times the formula",
            agrees=min(constants) > 0.2 and max(constants) < 5,
        ),
    )


def retest(context: Context, row, runs: int) -> Verdict:
    """Run the test at the n that was found, with fresh data: how often is it wrong?"""
    generator, rng = context.generator("people"), context.words("noise")
    k, n = row["k"], row["n"]
    far = (1 + 2 * ALPHA * np.where(np.arange(k) % 2 == 0, 1, -1)) / k
    wrong = {}
    for name, law, right in (("uniform", np.full(k, 1 / k), True), ("far", far, False)):
        verdicts = [
            uniformity_test(
                generator.choice(k, n, p=law),
                k=k,
                alpha=ALPHA,
                epsilon=EPSILON,
                delta=DELTA,
                rng=rng,
            ).accept
            for _ in range(runs)
        ]
        wrong[name] = sum(verdict is not right for verdict in verdicts) / runs
    slack = 4 * math.sqrt(2 / 9 / runs)
    return Verdict(
        claim="At that n both kinds of error are at most 1/3 on fresh data",
        measured=f"k = {k}, n = {n:,}: {wrong['uniform']:.2f} and {wrong['far']:.2f} in {runs} tests each (chance allows {1 / 3 + slack:.2f})",
        agrees=max(wrong.values()) <= 1 / 3 + slack,
    )


def draw(rows) -> Drawn:
    figure, (axes,) = panels(
        [f"Uniform, or at distance {ALPHA:g}? epsilon = 1, delta = 1e-6"],
        x="categories k",
        y="people needed",
        scales=("log", "log"),
        width=7.4,
        height=4.6,
    )
    for label, _, _, exponent, colour in CURVES:
        mine = select(rows, label)
        k, n = [r["k"] for r in mine], [r["n"] for r in mine]
        axes.plot(k, n, "o", color=colour, ms=5.5)
        middle = len(k) // 2
        axes.plot(
            k,
            [n[middle] * (x / k[middle]) ** exponent for x in k],
            color=colour,
            lw=1.6,
            label=f"{label}: slope {exponent:.2g}",
        )
    k = [r["k"] for r in select(rows, "no privacy")]
    axes.plot(k, k, ":", color=GREY, lw=1, label="as many people as categories")
    axes.legend(frameon=False, fontsize=8.5)
    return Drawn(
        name="people",
        caption="Dots: the smallest n found by running the test. Lines: the slope that theory states for the leading term.",
        figure=figure,
    )
