"""People with different randomizers: hidden and visible levels

Everybody chooses an epsilon0 from a public list and runs k-ary randomized response with it. If messages do
not tell their level, people hide among the uniform messages of all levels; if they do, among those of their
own level only, and the analyzer can weigh. Both guarantees are computed, both estimates are measured against
their predicted errors, and two ways to spoil it are shown: a level that depends on the value, and a message
that carries its sender's number.
"""

import math
from fractions import Fraction

import numpy as np

from shuffledp.accounting.exact import data_set_delta
from shuffledp.core.randomizer import randomize
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.protocols.levels import Levels, estimate_hidden, estimate_visible
from shuffledp.show.style import BLUE, GREY, ORANGE, panels

ORDER = 58
K, DELTA = 4, 1e-6
PEOPLE = {0.5: 2_000, 1.0: 3_000, 2.0: 5_000}
N = sum(PEOPLE.values())


def predicted() -> tuple[float, float]:
    """Standard errors of a category that nobody holds, pooled and weighted."""
    low = {each: 1 / (math.exp(each) + K - 1) for each in PEOPLE}
    kept = {each: 1 - K * low[each] for each in PEOPLE}
    noise = sum(count * low[each] * (1 - low[each]) for each, count in PEOPLE.items())
    pooled = N * math.sqrt(noise) / sum(count * kept[each] for each, count in PEOPLE.items())
    told = sum(
        count * kept[each] ** 2 / (low[each] * (1 - low[each])) for each, count in PEOPLE.items()
    )
    return pooled, N / math.sqrt(told)


def trial(levels: Levels, values, rng, words):
    """Both estimates of one collection."""
    order = rng.permutation(N)
    told, place = {}, 0
    for each, count in PEOPLE.items():
        mine = values[order[place : place + count]]
        told[each] = np.bincount(randomize(levels.device(each), mine, words).payload, minlength=K)
        place += count
    return estimate_hidden(sum(told.values()), levels), estimate_visible(told, levels)


def run(context: Context) -> Result:
    levels = Levels(k=K, people=PEOPLE)
    hidden, shown = levels.hide(DELTA), levels.show(DELTA)
    values = np.repeat([0, 1, 2], [5_000, 3_000, 2_000])  # nobody holds 3
    rng, words = context.generator("order"), context.words("messages")
    runs = context.pick(quick=400, full=4000)
    found = np.array([trial(levels, values, rng, words) for _ in range(runs)])
    truth = np.array([5_000, 3_000, 2_000, 0])
    bias = np.abs(found.mean(axis=0) - truth) / (found.std(axis=0) / math.sqrt(runs))
    measured = found[:, :, 3].std(axis=0)
    stated = np.array(predicted())
    sigma = 1 / math.sqrt(2 * runs)
    cautious = biased(words)
    keep, lie = Fraction(3, 4), Fraction(1, 4)
    mine = [{((1, 0),): keep, ((1, 1),): lie}, {((1, 0),): lie, ((1, 1),): keep}]
    numbered = [
        data_set_delta([*mine, {((2, 0),): keep, ((2, 1),): lie}], [2] * n, (0, 1), 2)
        for n in (0, 5)
    ]
    return Result(
        verdicts=(
            Verdict(
                claim="hiding levels protects every level at least as well as showing them",
                measured=", ".join(
                    f"{each:g}: {hidden[each].epsilon:.4f} against {shown[each].epsilon:.4f}"
                    for each in PEOPLE
                ),
                agrees=all(hidden[each].epsilon <= shown[each].epsilon for each in PEOPLE),
            ),
            Verdict(
                claim="both estimates are unbiased, and their errors are the predicted ones within 3 percent (or the noise of the runs)",
                measured=f"errors {measured[0]:.1f} and {measured[1]:.1f}, predicted {stated[0]:.1f} and {stated[1]:.1f}; "
                f"largest bias {bias.max():.1f} standard errors",
                agrees=bool(
                    (np.abs(measured / stated - 1) < max(0.03, 4 * sigma)).all() and bias.max() < 5
                ),
            ),
            Verdict(
                claim="a level may depend on the value",
                measured=f"cautious people with a one: the pooled estimate is {cautious:,.0f} of 5,000",
                agrees=abs(cautious - 5_000) < 500,
                why="the pooled estimate takes each level for a fair sample of all",
            ),
            Verdict(
                claim="a message that carries the sender's number is amplified by nothing",
                measured=f"delta {numbered[0]} alone, {numbered[1]} among six",
                agrees=numbered[0] == numbered[1],
            ),
        ),
        figures=(draw(hidden, shown, measured, stated),),
        rows=tuple(
            {
                "epsilon0": each,
                "people": PEOPLE[each],
                "hidden": hidden[each].epsilon,
                "visible": shown[each].epsilon,
            }
            for each in PEOPLE
        ),
        parameters={"k": K, "delta": DELTA, "runs": runs},
    )


def biased(words) -> float:
    """The pooled estimate of ones if everybody with a one has the smallest epsilon0."""
    half = Levels(k=2, people={0.5: 5_000, 2.0: 5_000})
    told = [
        np.bincount(randomize(half.device(each), np.full(5_000, x), words).payload, minlength=2)
        for each, x in ((0.5, 1), (2.0, 0))
    ]
    return float(estimate_hidden(told[0] + told[1], half)[1])


def draw(hidden, shown, measured, stated) -> Drawn:
    figure, (left, right) = panels(
        ["What each level is promised", "Error of an empty category"],
        x="epsilon0 of the level",
        y=["epsilon at delta = 1e-6", "people"],
        scales=("log", "log"),
    )
    left.plot(
        list(PEOPLE),
        [shown[each].epsilon for each in PEOPLE],
        "o-",
        color=ORANGE,
        label="levels visible",
    )
    left.plot(
        list(PEOPLE),
        [hidden[each].epsilon for each in PEOPLE],
        "o-",
        color=BLUE,
        label="levels hidden",
    )
    left.legend(frameon=False)
    right.set(xscale="linear", yscale="linear", xlabel="")
    right.bar([0, 1], measured, color=[BLUE, ORANGE], width=0.5)
    right.plot([0, 1], stated, "_", ms=40, color=GREY, label="predicted")
    right.set_xticks([0, 1], ["pooled", "weighted"])
    right.legend(frameon=False)
    return Drawn(
        name="levels", caption="Privacy and error of hidden and visible levels.", figure=figure
    )
