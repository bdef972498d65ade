"""Hiding among the clones: what shuffling adds to a local guarantee

n people each send one epsilon0-local message, and a shuffler forgets who sent what. The result
is (epsilon, delta)-private with an epsilon far below epsilon0. For a small epsilon0 it is about
epsilon0 / sqrt(n), for a large one about e^(epsilon0/2) / sqrt(n). A well-known blog post on the theorem
of Feldman, McMillan and Talwar writes, with L = ln(4/delta):

(1) epsilon = ln(1 + 16 (e^epsilon0 - 1)/(e^epsilon0 + 1) sqrt(e^epsilon0 L/n)), for small epsilon0 about
8 epsilon0 sqrt(L/n); for large epsilon0 (2) ln(1 + 8 sqrt(e^epsilon0 L/n)) and (3) 8 e^(epsilon0/2) sqrt(L/n).

The exact value for the worst randomizer lies between two curves that we can compute: a numeric upper bound and the
loss on explicit data sets. They nearly touch, so we can see how far the approximations are from the truth.
"""

import math

import numpy as np

import shuffledp as sdp
from shuffledp.accounting import closed_forms
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.planner.growth import exponent
from shuffledp.show.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, VERMILION, panels

ORDER = 50
DELTA = 1e-6
SMALL, LARGE, CROWD = 0.25, 4.0, 1_000_000
FORMULAS = {
    "(1)": closed_forms.doona,
    "theorem": closed_forms.feldman_2021,
    "small": closed_forms.doona_small,
    "(2)": closed_forms.doona_large,
    "(3)": closed_forms.doona_large_simple,
}


def point(epsilon0: float, n: int) -> dict[str, float]:
    """Every curve at one point; nan where a formula does not apply."""
    row = {"epsilon0": epsilon0, "n": n}
    row["upper"] = sdp.amplify(epsilon0=epsilon0, n=n, delta=DELTA, honest=1).epsilon
    row["lower"] = sdp.amplify_lower(epsilon0=epsilon0, n=n, delta=DELTA, honest=1)
    for name, formula in FORMULAS.items():
        try:
            row[name] = formula(epsilon0=epsilon0, n=n, delta=DELTA)
        except sdp.UnsupportedError:
            row[name] = math.nan
    return row


def run(context: Context) -> Result:
    users = [int(n) for n in np.logspace(3, 9, context.pick(quick=7, full=13)).round()]
    locals_ = [float(e) for e in np.logspace(-1.5, 1, context.pick(quick=11, full=26))]
    small = [point(SMALL, n) for n in users]
    large = [point(LARGE, n) for n in users]
    across = [point(epsilon0, CROWD) for epsilon0 in locals_]
    return Result(
        verdicts=(*laws(small, large), *approximations(small, large, across)),
        figures=(draw(small, large, across),),
        rows=tuple(
            {"curve": name, **row}
            for name, rows in (
                ("small epsilon0", small),
                ("large epsilon0", large),
                ("crowd", across),
            )
            for row in rows
        ),
        parameters={
            "delta": DELTA,
            "n": users,
            "small epsilon0": SMALL,
            "large epsilon0": LARGE,
            "n across": CROWD,
        },
    )


def amplify_in_proportion(epsilon0: float, n: int, size: float) -> float:
    """The exact epsilon where delta keeps its proportion to the size of the effect.

    At a fixed delta a smaller effect is also easier to hide: its logarithm shrinks a little as well.
    """
    return sdp.amplify(epsilon0=epsilon0, n=n, delta=1e-3 * size, honest=1).epsilon


def laws(small, large) -> tuple[Verdict, ...]:
    users = [10**5, 10**6, 10**7]
    fixed = [
        exponent([r["n"] for r in rows[2:]], [r["upper"] for r in rows[2:]])
        for rows in (small, large)
    ]
    fair = [
        exponent(users, [amplify_in_proportion(e, n, n**-0.5) for n in users])
        for e in (SMALL, LARGE)
    ]
    little, lousy = (0.05, 0.1, 0.2), (5.0, 6.0, 7.0)
    linear = exponent(little, [amplify_in_proportion(e, CROWD, 1e-2 * e) for e in little])
    rising = [amplify_in_proportion(e, 10**9, 1e-4 * math.exp(e / 2)) for e in lousy]
    half = exponent(np.exp(lousy), rising)
    return (
        Verdict(
            claim="Shuffling improves epsilon by a factor of order sqrt(n)",
            measured=f"exponent of n: {fair[0]:.3f} at epsilon0 = {SMALL:g} and {fair[1]:.3f} at {LARGE:g}, if delta shrinks "
            f"like 1/sqrt(n), too; at a fixed delta even {fixed[0]:.2f} and {fixed[1]:.2f}",
            agrees=all(abs(value + 0.5) < 0.01 for value in fair) and all(v < -0.5 for v in fixed),
        ),
        Verdict(
            claim="Small epsilon0: epsilon is proportional to epsilon0",
            measured=f"exponent of epsilon0 between 0.05 and 0.2: {linear:.3f} (delta in proportion)",
            agrees=abs(linear - 1) < 0.05,
        ),
        Verdict(
            claim="Large epsilon0: epsilon is proportional to e^(epsilon0/2)",
            measured=f"exponent of e^epsilon0 between epsilon0 = 5 and 7: {half:.3f} (n = 10^9, delta in proportion)",
            agrees=abs(half - 0.5) < 0.03,
        ),
    )


def approximations(small, large, across) -> tuple[Verdict, ...]:
    rows = [*small, *large, *across]
    gap = max(r["upper"] / r["lower"] for r in rows if r["n"] >= 10**4 and r["epsilon0"] <= LARGE)
    wrong = [r for r in rows for name in FORMULAS if r[name] < r["lower"]]
    last = large[-1]
    ratios = {name: last[name] / last["upper"] for name in ("(2)", "(3)")}
    closed = {name: last[name] / last["theorem"] for name in ("(1)", "(2)", "(3)")}
    first = small[-1]["small"] / small[-1]["(1)"]
    return (
        Verdict(
            claim="The exact epsilon is known: upper and lower bound nearly touch",
            measured=f"upper / lower at most {gap:.2f} for n >= 10^4, epsilon0 <= {LARGE:g}",
            agrees=gap < 1.25,
        ),
        Verdict(
            claim="(2) and (3) are the leading term of the theorem for large epsilon0",
            measured=f"epsilon0 = {LARGE:g}, n = 10^9: (2) is {closed['(2)']:.3f}, (3) is {closed['(3)']:.3f} times the "
            f"theorem's closed form, where the factor (e^epsilon0 - 1)/(e^epsilon0 + 1) = {math.tanh(LARGE / 2):.3f} is dropped",
            agrees=all(
                abs(closed[name] * math.tanh(LARGE / 2) - 1) < 0.02 for name in ("(2)", "(3)")
            ),
        ),
        Verdict(
            claim="(2) and (3) follow from (1)",
            measured=f"(1) is {closed['(1)']:.2f} times the closed form: with its constant 16 they would be twice as large",
            agrees=abs(closed["(1)"] - 1) < 0.1,
            why="A slip in the post: the constant of (1) is 16, that of (2) and (3) is 8. Eight is the theorem's.",
        ),
        Verdict(
            claim="For small epsilon0, (1) is about 8 epsilon0 sqrt(ln(4/delta)/n)",
            measured=f"{first:.3f} times (1) at epsilon0 = {SMALL:g}, n = 10^9: the factor (e^epsilon0 - 1)/(e^epsilon0 + 1) "
            "is about epsilon0/2, and 16/2 = 8",
            agrees=abs(first - 1) < 0.2,
        ),
        Verdict(
            claim="As guarantees, all these formulas are safe",
            measured=f"{len(wrong)} of {len(rows) * len(FORMULAS)} values lie below the lower bound; "
            f"(2) and (3) are {ratios['(2)']:.1f} and {ratios['(3)']:.1f} times the exact value at n = 10^9",
            agrees=not wrong,
        ),
    )


def draw(small, large, across) -> Drawn:
    figure, axes = panels(
        [
            f"epsilon0 = {SMALL:g}",
            f"epsilon0 = {LARGE:g}",
            "n = 1,000,000",
        ],
        x="people n",
        y=["epsilon after shuffling", "", ""],
        scales=("log", "log"),
        width=3.6,
        height=4.0,
    )
    axes[2].set_xlabel("epsilon0 before shuffling", color=INK)
    styles = {
        "(1)": (GREY, "--", "display (1)"),
        "theorem": (INK, ":", "closed form of the theorem"),
        "small": (PURPLE, "--", "its approximation, small epsilon0"),
        "(2)": (ORANGE, "--", "approximation (2)"),
        "(3)": (VERMILION, ":", "approximation (3)"),
        "upper": (BLUE, "-", "numeric upper bound"),
        "lower": (GREEN, "--", "numeric lower bound"),
    }
    for panel, rows, x in zip(axes, (small, large, across), ("n", "n", "epsilon0"), strict=True):
        for key, (colour, style, label) in styles.items():
            panel.plot(
                [r[x] for r in rows],
                [r[key] for r in rows],
                style,
                color=colour,
                lw=1.7,
                label=label,
            )
        panel.fill_between(
            [r[x] for r in rows],
            [r["lower"] for r in rows],
            [r["upper"] for r in rows],
            color=BLUE,
            alpha=0.15,
            lw=0,
        )
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    return Drawn(
        name="epsilon",
        caption="delta = 1e-6. The exact value for the worst randomizer lies between the blue and the green line. "
        "The approximations have the right shape and are several times too large.",
        figure=figure,
    )
