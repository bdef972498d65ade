"""Errata: 44 slips in five introductory notes, each with a check

This project grew out of five notes by others. They are good notes, and like all notes they have slips: a
reversed inequality, a missing factor n, a sum where a mean is meant. To learn from them we had to decide which
formula to trust, so for each slip there is now a computation that tells the printed statement from the right
one. Both are evaluated;
the check passes if the right one holds and the printed one does not. docs/theory/errata.md has the
list in words.
"""

import math
import re
import textwrap

import numpy as np

from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, GREEN, GREY, PALE, VERMILION, panels

from . import clones, definitions, means, smoothness, structure  # noqa: F401  (they register their checks)
from .registry import ERRATA, Erratum, Finding

ORDER = 110


def run_checks() -> list[tuple[Erratum, Finding]]:
    """Every erratum and what its check computed."""
    return [(ERRATA[number], ERRATA[number].check()) for number in sorted(ERRATA)]


def run(context: Context) -> Result:
    checks = run_checks()
    return Result(
        verdicts=tuple(
            Verdict(
                claim=f"{each.number} ({each.notes}). {each.truth}",
                measured=finding.measured,
                agrees=finding.right and not finding.wrong,
            )
            for each, finding in checks
        ),
        figures=(draw(context),),
        rows=tuple(
            {
                "number": each.number,
                "notes": each.notes,
                "says": each.says,
                "right": each.truth,
                "check": each.how,
                "measured": finding.measured,
                "right_holds": finding.right,
                "printed_holds": finding.wrong,
            }
            for each, finding in checks
        ),
        parameters={"errata": len(checks), "notes": "N1 to N5 of docs/theory/errata.md"},
    )


def page() -> str:
    """The list of docs/theory/errata.md."""
    parts = [
        f"### {each.number}. {each.title} ({each.notes})\n\n"
        + _item("The note", each.says)
        + _item("Right", each.truth)
        + _item("Check", each.how)
        + _item("Found", f"{finding.measured}.")
        for each, finding in run_checks()
    ]
    return "\n".join(parts)


def _item(name: str, text: str) -> str:
    """A line that begins with a plus or minus sign would be an item of its own: there is no break before one."""
    kept = re.sub(r" ([-+*]) ", "\xa0\\1 ", f"{name}:** {text}")
    filled = textwrap.fill(f"- **{kept}", 118, subsequent_indent="  ", break_long_words=False)
    return filled.replace("\xa0", " ") + "\n"


def draw(context: Context) -> Drawn:
    figure, (root, response, exponential) = panels(
        ["2: which square root", "24, 26: randomized response", "17: one-sided noise"],
        x="epsilon",
        y=["tanh(epsilon/2) - epsilon/sqrt(c)", "simulated surveys", "density of the answer"],
        width=3.7,
    )
    grid = np.linspace(0, 1.4, 200)
    for c, colour in ((5, BLUE), (4, VERMILION)):
        root.plot(
            grid, np.tanh(grid / 2) - grid / math.sqrt(c), color=colour, lw=1.8, label=f"c = {c}"
        )
    root.axhline(0, color=GREY, lw=1)
    root.axvspan(0, 1, color=PALE, alpha=0.3, lw=0)
    root.legend(frameon=False)
    generator = context.generator("surveys")
    ones = generator.binomial(3000, 0.75, 4000) + generator.binomial(7000, 0.25, 4000)
    for shift, colour, label in ((0, BLUE, "right"), (-10_000, VERMILION, "as printed")):
        response.hist((ones - 2500) / 0.5 + shift, 12, color=colour, label=label)
    response.axvline(3000, color=GREEN, lw=1.4, ls="--", label="truth")
    response.set_xlabel("estimate of 3,000 ones among 10,000")
    response.legend(frameon=False, loc="upper center")
    z = np.linspace(-1, 5, 600)
    for answer, colour in ((0.0, BLUE), (1.0, VERMILION)):
        density = np.where(z >= answer, np.exp(-np.maximum(z - answer, 0.0)), 0.0)
        exponential.plot(z, density, color=colour, lw=1.8, label=f"true answer {answer:g}")
    exponential.axvspan(0, 1, color=PALE, alpha=0.4, lw=0)
    exponential.text(0.5, 1.03, "gives it\naway", ha="center", va="bottom", fontsize=8, color=GREY)
    exponential.set(xlabel="published answer", ylim=(0, 1.25))
    exponential.legend(frameon=False)
    return Drawn(
        name="slips",
        caption="Three of the slips. 2: only c = 5 keeps the difference positive up to epsilon = 1. 24 and 26: a sign that moves "
        "the estimate by n. 17: with one-sided noise some outputs are possible for one of two neighbours only.",
        figure=figure,
    )
