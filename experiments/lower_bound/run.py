"""One message or several: where a logarithm cannot be avoided

With one message per user, counting in the shuffle model costs an error of order sqrt(log(1/delta)): the only noise is
that some users lie, and everybody's bit must hide among the lies even in the rare event that there are few of
them. A second kind of message changes that. If noise messages come in pairs +1 and -1 that cancel, there can be
plenty of them without an error, and what remains is the noise of a trusted curator, at any delta.

We let delta shrink and calibrate each protocol exactly. For the single bit we also show
that less noise is not enough: with a tenth less, the loss on an explicit data set already breaks the promise.
"""

import math

import numpy as np

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.planner.growth import exponent
from shuffledp.show.style import BLUE, GREEN, GREY, ORANGE, PURPLE, panels

ORDER = 90
N = 1_000_000
EPSILON = 1.0


def rmse(protocol) -> float:
    size = protocol.randomizer.domain.size
    return math.sqrt(float(protocol.analyzer.variance(np.array([N] + [0] * (size - 1)))))


def point(delta: float) -> dict[str, float]:
    """The exact error of each protocol at one delta."""
    common = {"n": N, "epsilon": EPSILON, "delta": delta, "honest": 1.0}
    p = sdp.protocols
    bit = p.rr.make(**common)
    curator = sdp.mechanisms.geometric.make(epsilon=EPSILON, sensitivity=1)
    plus_minus = p.correlated_count.make(**common)
    return {
        "delta": delta,
        "central": math.sqrt(curator.variance()),
        "one_bit": rmse(bit),
        "plus_minus": rmse(plus_minus),
        "split_and_mix": shares_error(common),
        "messages_plus_minus": plus_minus.cost.messages_mean,
        "broken_with_less": broken(bit, delta),
    }


def shares_error(common) -> float:
    """That of split and mix; nan where its sampler of noise is not precise enough for delta."""
    try:
        return rmse(sdp.protocols.split_and_mix.make(**common, lower=0, upper=1))
    except sdp.UnsupportedError:
        return math.nan


def broken(bit, delta: float) -> float:
    """delta on one explicit data set if only 9 of 10 lies are told, over the delta that was promised.

    All others have a zero. Reports of ones: h ~ Bin(n - 1, f) and the target's own. One data set is
    enough to break a promise.
    """
    from scipy.stats import binom

    flip = 0.9 * float(bit.randomizer.flip)
    reports = np.arange(0, 2000)  # some tens are expected
    h, shifted = binom.pmf(reports, N - 1, flip), binom.pmf(reports - 1, N - 1, flip)
    zero, one = (1 - flip) * h + flip * shifted, flip * h + (1 - flip) * shifted
    return float(np.maximum(zero - math.exp(EPSILON) * one, 0).sum()) / delta


def run(context: Context) -> Result:
    powers = context.pick(quick=(3, 4, 6, 8, 10, 12), full=(3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14))
    rows = [point(10.0**-power) for power in powers]
    return Result(
        verdicts=verdicts(rows),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={"n": N, "epsilon": EPSILON, "delta": [row["delta"] for row in rows]},
    )


def slope(rows, name: str) -> float:
    """The exponent of log(1/delta) in the error."""
    known = [row for row in rows if not math.isnan(row[name])]
    return exponent([-math.log(row["delta"]) for row in known], [row[name] for row in known])


def verdicts(rows) -> tuple[Verdict, ...]:
    slopes = {name: slope(rows, name) for name in ("one_bit", "plus_minus", "split_and_mix")}
    constants = [row["one_bit"] / math.sqrt(-math.log(row["delta"])) for row in rows]
    worst = max(row["plus_minus"] / row["central"] for row in rows)
    shares = np.nanmax([row["split_and_mix"] / row["central"] for row in rows])
    least = min(row["broken_with_less"] for row in rows)
    return (
        Verdict(
            claim="One message per user: the error is of order sqrt(log(1/delta))",
            measured=f"exponent of log(1/delta) {slopes['one_bit']:.2f}; error / sqrt(ln(1/delta)) between "
            f"{min(constants):.2f} and {max(constants):.2f}",
            agrees=0.4 < slopes["one_bit"] < 0.75,
        ),
        Verdict(
            claim="And less noise is not enough",
            measured=f"with a tenth fewer lies delta is at least {least:.2f} times what was promised, at every delta",
            agrees=least > 1,
        ),
        Verdict(
            claim="Several messages: a constant error, near that of a trusted curator",
            measured=f"exponents {slopes['plus_minus']:.3f} (+1 and -1) and {slopes['split_and_mix']:.3f} (shares); at most "
            f"{worst:.2f} and {shares:.2f} times the curator's error",
            agrees=abs(slopes["plus_minus"]) < 0.02
            and abs(slopes["split_and_mix"]) < 0.02
            and worst < 1.25,
        ),
        Verdict(
            claim="Nearly one message is enough for that",
            measured=f"at most {max(row['messages_plus_minus'] for row in rows):.4f} messages per user at n = {N:,}",
            agrees=max(row["messages_plus_minus"] for row in rows) < 1.01,
        ),
    )


def draw(rows) -> Drawn:
    figure, (axes,) = panels(
        [f"Counting among {N:,} people, epsilon = 1"],
        x="ln(1/delta)",
        y="error of the count (RMSE)",
        width=7.4,
    )
    x = [-math.log(row["delta"]) for row in rows]
    lines = (
        ("one_bit", BLUE, "o-", "one bit per user, exact"),
        ("plus_minus", ORANGE, "o-", "+1 and -1 messages"),
        ("split_and_mix", PURPLE, "o-", "split and mix"),
        ("central", GREEN, "--", "trusted curator"),
    )
    for key, colour, style, label in lines:
        axes.plot(x, [row[key] for row in rows], style, color=colour, lw=1.6, ms=4.5, label=label)
    middle = rows[len(rows) // 2]
    scale = middle["one_bit"] / math.sqrt(-math.log(middle["delta"]))
    grid = np.linspace(x[0], x[-1], 100)
    axes.plot(
        grid,
        scale * np.sqrt(grid),
        ":",
        color=GREY,
        lw=1.2,
        label="proportional to sqrt(ln(1/delta))",
    )
    axes.set_ylim(0, None)
    axes.legend(frameon=False)
    return Drawn(
        name="delta",
        caption="A single bit pays for a small delta; two kinds of messages do not.",
        figure=figure,
    )
