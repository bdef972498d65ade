"""Private password lists: how guessable, without naming any

A list of password frequencies, the largest first, tells how many accounts an attacker opens with a number of guesses, and no password. A
note points to it as a use of the exponential mechanism. Choosing among all *ordered* lists makes an error of the order of
sqrt(n) / epsilon, where independent noise on every place costs n / epsilon. The passwords here are made up: a short list of
favourites and many that only one person has.
"""

import numpy as np

from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.mechanisms import geometric
from shuffledp.mechanisms.frequency_list import FrequencyList
from shuffledp.planner.growth import exponent
from shuffledp.show.style import BLUE, GREY, ORANGE, panels

ORDER = 14
EPSILON = 1.0
FAVOURITES = ("123456", "password", "letmein", "dragon", "sunshine", "football", "qwerty", "monkey")


def make_up(n: int, generator) -> np.ndarray:
    """Sorted frequencies of n made-up passwords: half are favourites, half are nobody else's."""
    shares = 1 / np.arange(1, len(FAVOURITES) + 1)
    favourites = generator.multinomial(n // 2, shares / shares.sum())
    return np.sort(np.concatenate([favourites, np.ones(n - n // 2, dtype=np.int64)]))[::-1]


def pad(frequencies, n: int) -> np.ndarray:
    return np.pad(frequencies, (0, n - len(frequencies)))


def run(context: Context) -> Result:
    crowds = context.pick(quick=(50, 100, 200, 400), full=(50, 100, 200, 400, 800))
    runs = context.pick(quick=6, full=30)
    rows, shown = [], None
    for n in crowds:
        truth = pad(make_up(n, context.generator(f"people {n}")), n)
        words = context.words(f"noise {n}")
        lists = [FrequencyList(n=n, epsilon=EPSILON).release(truth, words) for _ in range(runs)]
        noise = geometric.make(epsilon=EPSILON, sensitivity=2, k=n)
        plain = [
            np.sort(np.maximum(noise.release(truth, words).value, 0))[::-1] for _ in range(runs)
        ]
        rows.append(
            {
                "n": n,
                "ordered": float(np.mean([np.abs(each - truth).sum() for each in lists])),
                "noise": float(np.mean([np.abs(each - truth).sum() for each in plain])),
            }
        )
        shown = truth, lists[0]
    slope = exponent([row["n"] for row in rows], [row["ordered"] for row in rows])
    steep = exponent([row["n"] for row in rows], [row["noise"] for row in rows])
    return Result(
        verdicts=(
            Verdict(
                claim="the l1 error of an ordered list grows no faster than the square root of n, that of noise on every place like n",
                measured=f"exponents {slope:.2f} and {steep:.2f}",
                agrees=slope < 0.65 and 0.8 < steep < 1.15,
            ),
            Verdict(
                claim="it is smaller at every n",
                measured=", ".join(
                    f"n = {row['n']}: {row['ordered']:.0f} against {row['noise']:.0f}"
                    for row in rows
                ),
                agrees=all(row["ordered"] < row["noise"] for row in rows),
            ),
        ),
        figures=(draw(rows, *shown),),
        rows=tuple(rows),
        parameters={"epsilon": EPSILON, "runs": runs},
    )


def draw(rows, truth, found) -> Drawn:
    figure, (left, right) = panels(
        ["Error of the list", f"Accounts opened, {len(truth)} people"],
        x="n",
        y=["l1 distance", "share"],
    )
    crowds = [row["n"] for row in rows]
    left.set(xscale="log", yscale="log")
    left.plot(
        crowds,
        [row["noise"] for row in rows],
        "o-",
        color=ORANGE,
        label="noise on every place, sorted",
    )
    left.plot(crowds, [row["ordered"] for row in rows], "o-", color=BLUE, label="ordered lists")
    guesses = np.arange(1, 21)
    right.set_xlabel("guesses")
    right.plot(guesses, np.cumsum(truth)[:20] / len(truth), color=GREY, label="true list")
    right.plot(guesses, np.cumsum(found)[:20] / len(truth), color=BLUE, label="released list")
    for axes in (left, right):
        axes.legend(frameon=False)
    return Drawn(
        name="passwords",
        caption="A private list of frequencies of made-up passwords.",
        figure=figure,
    )
