"""The pictures and the table of guides/which-epsilon.md: `python docs/figures/epsilon.py`.

Writes docs/guides/img/*.svg. The numbers of the first two pictures are those of the page's generated table, which a
test computes again; the third shows what others have published. Needs Matplotlib.
"""

import math
from functools import cache
from pathlib import Path

import numpy as np

import shuffledp as sdp
from shuffledp.show.style import FAINT, GREY, INK, MODEL_COLOURS, new_figure, save_svg

__all__ = ["DELTA", "EPSILONS", "OTHERS", "N", "errors", "guess", "suspicion", "table"]

IMAGES = Path(__file__).resolve().parent.parent / "guides" / "img"
N, DELTA = 10_000, 1e-8
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
OTHERS = (
    ("Wikimedia, page views by country\n(a device, a day)", 1.0, "central"),
    ("Apple, health types\n(a device, a day)", 2.0, "local"),
    ("Apple, emoji\n(a device, a day)", 4.0, "local"),
    ("Apple, QuickType words\n(a device, a day)", 16.0, "local"),
    ("US Census 2020, redistricting file\n(a person, once)", 17.14, "central"),
    ("LinkedIn, audience engagements\n(a member, a month)", 34.9, "central"),
)
"""What was released (whose data, how long), its epsilon, its model; the sources are on the page."""


def guess(epsilon: float, delta: float = 0.0) -> float:
    """How often an attacker who wavers between two equally likely values can be right, at most.

    >>> guess(0.0), round(guess(math.log(3)), 3)
    (0.5, 0.75)
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def suspicion(before: float, epsilon: float) -> float:
    """What a suspicion becomes, at most (but for delta): Bayes with a likelihood ratio of e^epsilon.

    >>> round(suspicion(0.5, math.log(3)), 3), suspicion(0.01, 0.0)
    (0.75, 0.01)
    """
    odds = before / (1 - before) * math.exp(epsilon)
    return odds / (1 + odds)


@cache
def errors(epsilon: float) -> dict[str, float]:
    """Root mean squared error of a count of N people in each model, whatever the data."""
    everybody = np.array([N // 2, N // 2])
    curator = sdp.mechanisms.geometric.make(epsilon=epsilon, sensitivity=1)
    shuffled = sdp.protocols.correlated_count.make(n=N, epsilon=epsilon, delta=DELTA)
    alone = sdp.protocols.rr.make_local(epsilon=epsilon)
    return {
        "central": math.sqrt(curator.variance()),
        "shuffle": math.sqrt(float(shuffled.analyzer.variance(everybody))),
        "local": math.sqrt(float(alone.analyzer.variance(everybody))),
    }


def table() -> str:
    """What each epsilon promises and what it costs, in Markdown."""
    lines = [
        "| epsilon | undecided: right at most | suspicion of 1 %: at most | curator | shuffler | nobody |",
        "|---|---|---|---|---|---|",
    ]
    for epsilon in EPSILONS:
        rounded = (float(f"{errors(epsilon)[model]:.2g}") for model in MODEL_COLOURS)
        off = (f"{error:,g}" for error in rounded)
        lines.append(
            f"| {epsilon:g} | {_percent(guess(epsilon, DELTA))} | {_percent(suspicion(0.01, epsilon))} "
            f"| {' | '.join(off)} |"
        )
    return "\n".join(lines)


def _percent(share: float) -> str:
    """Rounded up, in as many digits as it takes to stay below 100 %.

    >>> _percent(0.5250001), _percent(0.99966)
    ('52.6 %', '99.97 %')
    """
    digits = 1 if share < 0.99 else 2
    return f"{math.ceil(share * 10 ** (2 + digits)) / 10**digits:.{digits}f} %"


def draw() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    _draw_odds()
    _draw_errors()
    _draw_others()


def _axes(title: str, height: float = 4.0):
    figure = new_figure(7.6, height)
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5, fontweight="bold", color=INK)
    axes.grid(color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw_odds() -> None:
    figure, axes = _axes("Above epsilon = 5 the number alone protects hardly anybody")
    epsilons = np.geomspace(0.1, 20, 200)
    for before, colour in ((0.5, INK), (0.1, GREY), (0.01, "#AAAAAA")):
        axes.plot(epsilons, [100 * suspicion(before, e) for e in epsilons], lw=2.2, color=colour)
        words = "undecided (50 %)" if before == 0.5 else f"suspicion of {100 * before:g} %"
        axes.annotate(
            words, (0.1, 100 * suspicion(before, 0.1)), xytext=(0, 12), textcoords="offset points",
            fontsize=10, color=INK,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(ticks := (0.1, 0.25, 0.5, 1, 2, 5, 10, 20), [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("epsilon", color=INK)
    axes.set_ylabel("how sure an attacker can become, at most (%)", color=INK)
    save_svg(figure, IMAGES / "odds.svg")


def _draw_errors() -> None:
    figure, axes = _axes(f"A count of {N:,} people: a shuffler is nearly as good as a curator")
    for model, words in (
        ("local", "trust nobody"),
        ("shuffle", "trust a shuffler"),
        ("central", "trust a curator"),
    ):
        values = [errors(epsilon)[model] for epsilon in EPSILONS]
        style = (0, (4, 2)) if model == "central" else "-"
        axes.plot(EPSILONS, values, lw=2.4, color=MODEL_COLOURS[model], ls=style)
        below = model == "central"
        axes.annotate(
            words, (0.5, errors(0.5)[model]), xytext=(2, -16 if below else 8),
            textcoords="offset points", fontsize=10, color=MODEL_COLOURS[model], fontweight="bold",
            ha="right" if below else "left",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.yaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("epsilon", color=INK)
    axes.set_ylabel("how far off (RMSE, people)", color=INK)
    save_svg(figure, IMAGES / "errors.svg")


def _draw_others() -> None:
    figure, axes = _axes("What others have published spans 1 to 35, for different promises", 4.2)
    for place, (_, epsilon, model) in enumerate(OTHERS):
        axes.plot([epsilon], [place], "o", ms=10, color=MODEL_COLOURS[model])
        axes.annotate(
            f"{epsilon:g}", (epsilon, place), xytext=(9, -3.5), textcoords="offset points",
            fontsize=10, color=INK,
        )  # fmt: skip
    axes.set_yticks(range(len(OTHERS)), [name for name, _, _ in OTHERS], fontsize=9)
    axes.set_ylim(len(OTHERS) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xlim(0.8, 60)
    axes.set_xticks(ticks := (1, 2, 5, 10, 20, 50), [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(length=0)
    axes.set_xlabel("epsilon", color=INK)
    for model, height in (("central", 0.96), ("local", 0.89)):
        axes.text(
            0.98, height, f"● {model} model", transform=axes.transAxes, ha="right", va="top",
            color=MODEL_COLOURS[model], fontsize=10,
        )  # fmt: skip
    save_svg(figure, IMAGES / "others.svg")


if __name__ == "__main__":
    draw()
