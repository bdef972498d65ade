"""Testing uniformity with delta = 0

A note says that uniformity can be tested with pure shuffle privacy, too, "but it's a bit more complicated".
One message each is of no use: with delta = 0 it is no better than a local one. With several messages every
cell can be counted purely, and a replaced value touches two cells: half of epsilon for each. The noise does
not grow with n, so the test needs a small multiple of the people of the approximate ones; what it costs
besides is messages. Smallest n on a grid for each method, by simulation.
"""

import numpy as np

import shuffledp as sdp
from shuffledp.inference.testers import make_tester
from shuffledp.inference.uniformity import find_threshold, plan_vote
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, GREEN, GREY, ORANGE, VERMILION, panels

ORDER = 72
ALPHA, EPSILON, DELTA = 0.15, 1.0, 1e-6
CROWDS = (100, 150, 225, 340, 500, 750, 1100, 1600)
COLOURS = {"none": GREY, "central": GREEN, "correlated": ORANGE, "direct": VERMILION, "pure": BLUE}
QUESTIONS = {
    "none": {"model": "none"},
    "central": {"model": "central", "epsilon": EPSILON},
    "correlated": {
        "model": "shuffle",
        "method": "correlated",
        "epsilon": EPSILON,
        "delta": DELTA,
        "honest": 1.0,
    },
    "direct": {
        "model": "shuffle",
        "method": "direct",
        "epsilon": EPSILON,
        "delta": DELTA,
        "honest": 1.0,
    },
    "pure": {"model": "shuffle", "method": "pure", "epsilon": EPSILON, "honest": 1.0},
}


def misses(name: str, n: int, k: int, runs: int) -> float:
    """How often the nearest laws at distance alpha pass."""
    try:
        tester = make_tester(n=n, k=k, coin="private", **QUESTIONS[name])
    except sdp.UnsupportedError:
        return 1.0
    ballot, generator = plan_vote(1 / 3), np.random.default_rng([n, k])
    limit = find_threshold(tester.null(ballot.runs, generator), ballot.rank)
    return float((tester.far(ALPHA, runs, generator) <= limit).mean())


def needed(name: str, k: int, runs: int) -> float:
    """The smallest crowd of the grid that misses at most one in three; infinite if none does."""
    return next((float(n) for n in CROWDS if misses(name, n, k, runs) <= 1 / 3), float("inf"))


def run(context: Context) -> Result:
    sizes = context.pick(quick=(4, 16), full=(4, 8, 16, 32))
    runs = context.pick(quick=1000, full=4000)
    found = {(name, k): needed(name, k, runs) for name in QUESTIONS for k in sizes}
    made = make_tester(n=750, k=4, coin="private", **QUESTIONS["pure"])
    bits = made.observer.randomizer.d
    alone = sdp.protocols.krr.make_local(k=4, epsilon=EPSILON).randomizer
    ratio = sdp.audit.pure_ratio(alone, n=3) / sdp.audit.pure_ratio(alone, view="local")
    return Result(
        verdicts=(
            Verdict(
                claim="uniformity can be tested with delta = 0 in the shuffle model",
                measured=", ".join(f"k = {k}: {found['pure', k]:g} people" for k in sizes),
                agrees=all(np.isfinite(found["pure", k]) for k in sizes),
            ),
            Verdict(
                claim="it needs at most three times the people of the best approximate test",
                measured=", ".join(
                    f"k = {k}: {found['pure', k]:g} against {min(found['direct', k], found['correlated', k]):g}"
                    for k in sizes
                ),
                agrees=all(
                    found["pure", k] <= 3 * min(found["direct", k], found["correlated", k])
                    for k in sizes
                ),
            ),
            Verdict(
                claim="but many messages",
                measured=f"{bits} bits for each cell and person at n = 750",
                agrees=bits > 1,
            ),
            Verdict(
                claim="with one message each, delta = 0 is the local guarantee",
                measured=f"shuffled over local likelihood ratio of 4-ary randomized response: {float(ratio):g}",
                agrees=ratio == 1,
            ),
        ),
        figures=(draw(found, sizes),),
        rows=tuple({"method": name, "k": k, "n": n} for (name, k), n in found.items()),
        parameters={"alpha": ALPHA, "epsilon": EPSILON, "delta": DELTA, "runs": runs},
    )


def draw(found, sizes) -> Drawn:
    figure, (axes,) = panels(
        ["People needed, alpha = 0.15, epsilon = 1"], x="k", y="n", scales=("log", "log")
    )
    for name, colour in COLOURS.items():
        axes.plot(sizes, [found[name, k] for k in sizes], "o-", color=colour, label=name)
    axes.legend(frameon=False)
    return Drawn(
        name="pure_testing", caption="The smallest crowd of a grid of factors 1.5.", figure=figure
    )
