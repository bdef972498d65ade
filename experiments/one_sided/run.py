"""Noise upwards only: what exponential noise protects

A note adds exponential noise, which is never negative, and argues in two lines that it is as private as
Laplace noise. The two lines are about answers that both data sets can give. Here the exact divergences of
both directions are computed, and then the use for which one-sided noise is enough both ways: announcing the
largest of several noisy utilities.
"""

import itertools
import math

import numpy as np

from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.mechanisms import exponential, permute_and_flip
from shuffledp.mechanisms.geometric import OneSided
from shuffledp.show.style import BLUE, GREY, ORANGE, VERMILION, panels

ORDER = 12
CELLS = 60


def directions(epsilon: float) -> tuple[float, float]:
    """The exact delta at epsilon of the larger count against the smaller one, and the other way."""
    noise = OneSided(epsilon=epsilon, sensitivity=1)
    law = np.array([float(noise.mass(z)[0]) for z in range(CELLS)])
    smaller, larger = np.append(law, 0.0), np.append(0.0, law)
    E = math.exp(epsilon) * (1 + 1e-12)
    return tuple(
        float(np.maximum(a - E * b, 0)[:CELLS].sum())
        for a, b in ((larger, smaller), (smaller, larger))
    )


def worst_ratio(epsilon: float, k: int) -> float:
    """The largest likelihood ratio of permute and flip over many neighbouring utilities."""
    mechanism = permute_and_flip.make(epsilon=epsilon, sensitivity=1.0, k=k)
    worst = 1.0
    for base in itertools.product((0, 2, 5), repeat=k):
        before = mechanism.probabilities(base)
        for moves in itertools.product((-1, 1), repeat=k):
            after = mechanism.probabilities(np.add(base, moves))
            worst = max(worst, float((before / after).max()))
    return worst


def regret(make, epsilon: float, utilities) -> float:
    """How much utility the choice loses on average."""
    p = make(epsilon=epsilon, sensitivity=1.0, k=len(utilities)).probabilities(utilities)
    return float(max(utilities) - p @ np.asarray(utilities))


def run(context: Context) -> Result:
    epsilons = [float(e) for e in np.linspace(0.1, 4, context.pick(quick=14, full=40))]
    both = [directions(epsilon) for epsilon in epsilons]
    stated = [-math.expm1(-epsilon) for epsilon in epsilons]
    ratios = {
        epsilon: worst_ratio(epsilon, context.pick(quick=2, full=3)) for epsilon in (0.5, 1.0, 2.0)
    }
    utilities = [10, 9, 9, 8, 5, 5, 5, 0]
    flips = [regret(permute_and_flip.make, epsilon, utilities) for epsilon in epsilons]
    weights = [regret(exponential.make, epsilon, utilities) for epsilon in epsilons]
    return Result(
        verdicts=(
            Verdict(
                claim="one-sided noise of rate epsilon is epsilon-private",
                measured=f"at epsilon = 1 one direction has delta {directions(1.0)[0]:.1g}, the other {directions(1.0)[1]:.3f}",
                agrees=False,
                why="the smallest answer proves the smaller count: the note's ratio is about answers that both can give",
            ),
            Verdict(
                claim="what is missing has probability 1 - e^-epsilon, and one direction is pure",
                measured=f"largest difference {max(abs(b[1] - s) for b, s in zip(both, stated, strict=True)):.1g}",
                agrees=all(
                    b[0] < 1e-9 and abs(b[1] - s) < 1e-9 for b, s in zip(both, stated, strict=True)
                ),
            ),
            Verdict(
                claim="the largest of noisy utilities is epsilon-private both ways",
                measured=", ".join(
                    f"{math.log(r):.3f} at epsilon = {e:g}" for e, r in ratios.items()
                ),
                agrees=all(math.log(r) <= e + 1e-9 for e, r in ratios.items()),
            ),
            Verdict(
                claim="and never worse than the exponential mechanism",
                measured=f"it loses {min(f / w for f, w in zip(flips, weights, strict=True)):.2f} to "
                f"{max(f / w for f, w in zip(flips, weights, strict=True)):.2f} times as much utility",
                agrees=all(f <= w for f, w in zip(flips, weights, strict=True)),
            ),
        ),
        figures=(draw(epsilons, both, flips, weights),),
        rows=tuple(
            {"epsilon": e, "larger": b[0], "smaller": b[1], "permute_and_flip": f, "exponential": w}
            for e, b, f, w in zip(epsilons, both, flips, weights, strict=True)
        ),
        parameters={"utilities": utilities},
    )


def draw(epsilons, both, flips, weights) -> Drawn:
    figure, (left, right) = panels(
        ["delta of a count, one-sided noise", "utility lost by a choice"],
        x="epsilon",
        y=["delta", "lost on average"],
    )
    left.plot(epsilons, [b[1] for b in both], color=VERMILION, label="smaller against larger")
    left.plot(epsilons, [b[0] for b in both], color=BLUE, label="larger against smaller")
    right.plot(epsilons, weights, color=ORANGE, label="exponential mechanism")
    right.plot(epsilons, flips, color=BLUE, label="permute and flip")
    right.axhline(0, color=GREY, lw=1)
    for axes in (left, right):
        axes.legend(frameon=False)
    return Drawn(
        name="one_sided",
        caption="One direction is pure, the other is not; a choice is private both ways.",
        figure=figure,
    )
