"""Interactive rounds: a quantile by asking one after the other

If the people come in random order, each may be asked by a randomizer that depends on all earlier answers, and
the same amplification holds as for one shuffled round. So a median can be found by bisection: one noisy yes
or no from everybody, every group of people halving what the group before has left. The rival asks everybody
at once, shuffles the reports of a frequency oracle, and reads the median off the noisy histogram: its noise
comes from all categories below.

The theorem is compared with the exact divergence of random trees of two and three people, and both protocols
with their ranks over many runs.
"""

import math
from itertools import permutations, product

import numpy as np

import shuffledp as sdp
from shuffledp.accounting.clones import clones_2023
from shuffledp.inference.learning import bisect_quantile
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, ORANGE, panels

ORDER = 56
K, EPSILON, DELTA = 256, 1.0, 1e-6


def tree_share(rng, n: int) -> float:
    """The exact delta of a random tree of bits over the bound."""
    epsilon0 = float(rng.choice([0.5, 1.0, 2.0]))
    low = 1 / (1 + math.exp(epsilon0))
    nodes = {
        history: rng.choice([low, 0.5, 1 - low], size=2)
        for length in range(n)
        for history in product((0, 1), repeat=length)
    }
    others = tuple(rng.integers(0, 2, n - 1).tolist())
    views = []
    for x in (0, 1):
        orders = list(permutations((x, *others)))
        law = []
        for sent in product((0, 1), repeat=n):
            likely = [nodes[sent[:s]] for s in range(n)]
            terms = (
                math.prod(
                    q[o] if y else 1 - q[o] for q, o, y in zip(likely, order, sent, strict=True)
                )
                for order in orders
            )
            law.append(sum(terms) / len(orders))
        views.append(np.array(law))
    epsilon = float(rng.uniform(0, 0.8)) * epsilon0
    exact = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in permutations(views))
    return float(exact) / clones_2023(epsilon0=epsilon0, n=n).delta(epsilon)


def rank_error(values, found: int) -> float:
    below, upto = (values < found).mean(), (values <= found).mean()
    return float(max(0.0, below - 0.5, 0.5 - upto))


def by_histogram(values, n: int, words) -> int:
    """The median of the shuffled reports of a frequency oracle."""
    protocol = sdp.protocols.hadamard.make(n=n, epsilon=EPSILON, delta=DELTA, k=K)
    counts = sdp.run(protocol, values, rng=words).value
    return int(np.searchsorted(np.maximum.accumulate(np.cumsum(counts)), n / 2))


def run(context: Context) -> Result:
    rng = context.generator("trees")
    shares = [
        tree_share(rng, int(rng.integers(2, 4))) for _ in range(context.pick(quick=200, full=2000))
    ]
    crowds, runs = [1_000, 10_000, 100_000], context.pick(quick=20, full=200)
    rows = []
    for n in crowds:
        values = np.sort(
            np.clip(context.generator(f"people {n}").normal(128, 40, n), 0, K - 1).astype(int)
        )
        words = context.words(f"answers {n}")
        asked = {"share": 0.5, "lower": 0, "upper": K - 1, "epsilon": EPSILON, "delta": DELTA}
        found = [bisect_quantile(values, **asked, rng=words) for _ in range(runs)]
        mine = [rank_error(values, each.value) for each in found]
        other = [rank_error(values, by_histogram(values, n, words)) for _ in range(runs)]
        stated = found[0].rank_error(0.05)
        rows.append(
            {"n": n, "bisection": float(np.mean(mine)), "histogram": float(np.mean(other)), "stated": stated,
             "outside": float(np.mean([error > stated for error in mine]))}
        )  # fmt: skip
    return Result(
        verdicts=(
            Verdict(
                claim="no tree of two or three people has an exact delta above that of the stronger clones",
                measured=f"largest share {max(shares):.4f} of {len(shares)} trees",
                agrees=max(shares) <= 1 + 1e-12,
            ),
            Verdict(
                claim="the rank of a bisected median is within its stated error in 95 percent of all runs",
                measured=", ".join(
                    f"n = {row['n']:,}: {row['outside']:.0%} outside" for row in rows
                ),
                agrees=all(row["outside"] <= 0.05 for row in rows),
            ),
            Verdict(
                claim="asking one after the other has the smaller error of the rank at every n",
                measured=", ".join(
                    f"n = {row['n']:,}: {row['bisection']:.4f} against {row['histogram']:.4f}"
                    for row in rows
                ),
                agrees=all(row["bisection"] <= row["histogram"] for row in rows),
                why="once the noise is small, what is left is that each group is a sample of an eighth of the people",
            ),
        ),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={"k": K, "epsilon": EPSILON, "delta": DELTA, "runs": runs},
    )


def draw(rows) -> Drawn:
    figure, (axes,) = panels(
        ["A median of 256 values"], x="n", y="error of the rank", scales=("log", "log")
    )
    crowds = [row["n"] for row in rows]
    axes.plot(
        crowds,
        [row["histogram"] + 1e-6 for row in rows],
        "o-",
        color=ORANGE,
        label="shuffled histogram",
    )
    axes.plot(
        crowds, [row["bisection"] + 1e-6 for row in rows], "o-", color=BLUE, label="bisection"
    )
    axes.plot(
        crowds, [row["stated"] for row in rows], ":", color=BLUE, label="stated for 95 percent"
    )
    axes.legend(frameon=False)
    return Drawn(
        name="adaptive",
        caption="Interactive and not: how far the rank of the answer is off.",
        figure=figure,
    )
