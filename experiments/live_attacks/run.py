"""One victim among sybils: what is left of privacy in a live collection

Somebody who makes up all reports but one (a shuffler that drops the others, or a flood) sees that one alone. Without a
floor it is nearly the raw answer. With one, the best guess is right no more often than e^local / (1 + e^local). The
same liars can move the answer, each by at most the influence that plans and documents state.
"""

import math

import numpy as np

import shuffledp as sdp
from shuffledp.core.randomizer import Shuffled
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.numerics.entropy import SeededWords
from shuffledp.show.style import BLUE, GREY, VERMILION, panels

ORDER = 87
PEOPLE = 1000
FLOORS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)


def best_guess(randomizer) -> float:
    """How often the best guess between the first and the last value is right, from the exact law."""
    first, last = randomizer.pmf(0), randomizer.pmf(randomizer.domain.size - 1)
    seen = first.keys() | last.keys()
    return float(sum(max(first.get(y, 0), last.get(y, 0)) for y in seen) / 2)


def attack(randomizer, trials: int, seed: int) -> float:
    """The same by doing it: a victim with a random bit, and a guess by the likelier value."""
    laws = [randomizer.pmf(0), randomizer.pmf(1)]
    words = SeededWords(seed)
    truth = words.words(trials, 8).astype(np.int64) & 1
    tape = words.words(trials * randomizer.words_per_input, randomizer.word_bits)
    sent = randomizer.encode(truth, tape.reshape(trials, -1))
    owner = np.asarray(sent.owner)
    right = 0
    for victim in range(trials):
        rows = sent.payload[owner == victim].tolist()
        seen = tuple(sorted(rows))
        chance = [sum(mass for y, mass in law.items() if tuple(sorted(y)) == seen) for law in laws]
        right += (chance[1] > chance[0]) == truth[victim]
    return right / trials


def poison(protocol, liars: int) -> float:
    """By how many people liars move a count, compared with people who honestly say no."""

    def estimate(ones: int) -> float:
        payload = np.repeat([0, 1], [PEOPLE - ones, ones])
        return protocol.analyzer.estimate(
            protocol.analyzer.tally(Shuffled(payload=payload, users=PEOPLE))
        ).value

    return estimate(300 + liars) - estimate(300)


def run(context: Context) -> Result:
    trials = context.pick(quick=2000, full=20_000)
    bare = sdp.protocols.zsum_sparse.make(n=PEOPLE, epsilon=1.0, delta=1e-8)
    local = {floor: sdp.protocols.rr.make_local(epsilon=floor) for floor in FLOORS}
    bounds = {floor: 1 / (1 + math.exp(-floor)) for floor in FLOORS}
    exact = {floor: best_guess(made.randomizer) for floor, made in local.items()}
    measured = {
        floor: attack(made.randomizer, trials, seed)
        for seed, (floor, made) in enumerate(local.items())
    }
    unprotected, tried = best_guess(bare.randomizer), attack(bare.randomizer, trials, 99)
    three = local[3.0]
    moved, stated = poison(three, 50), 50 * float(three.analyzer.influence())
    slack = 6 * math.sqrt(0.25 / trials)
    return Result(
        verdicts=(
            Verdict(
                claim="without a floor, one victim among 999 sybils has no privacy to speak of",
                measured=f"guessed right in {100 * unprotected:.1f} % of cases (tried: {100 * tried:.1f} %) with "
                f"{bare.name} at epsilon = 1",
                agrees=unprotected > 0.9 and abs(tried - unprotected) < slack,
            ),
            Verdict(
                claim="with a floor, never more often than e^local / (1 + e^local)",
                measured=", ".join(f"{100 * exact[f]:.2f} % at {f:g}" for f in FLOORS),
                agrees=all(exact[f] <= bounds[f] * (1 + 1e-12) for f in FLOORS),
            ),
            Verdict(
                claim="and hardly less often: the bound is what the attack reaches",
                measured=", ".join(f"{100 * measured[f]:.1f} % at {f:g}" for f in FLOORS),
                agrees=all(abs(measured[f] - bounds[f]) < slack for f in FLOORS),
            ),
            Verdict(
                claim="50 liars move a count by at most 50 times the influence of one report",
                measured=f"by {moved:.2f} people, and {stated:.2f} is the bound, at local epsilon 3",
                agrees=moved <= stated * (1 + 1e-9),
            ),
        ),
        figures=(draw(bounds, measured, tried),),
        rows=tuple(
            {"local": f, "bound": bounds[f], "exact": exact[f], "measured": measured[f]}
            for f in FLOORS
        ),
        parameters={"people": PEOPLE, "trials": trials},
    )


def draw(bounds, measured, tried) -> Drawn:
    figure, (axes,) = panels(["one victim among sybils"], x="local epsilon", y=["right guesses"])
    axes.plot(FLOORS, [bounds[f] for f in FLOORS], color=BLUE, label="the bound")
    axes.plot(FLOORS, [measured[f] for f in FLOORS], "o", color=VERMILION, label="the attack")
    axes.axhline(tried, color=GREY, lw=1, label="without a floor")
    axes.legend(frameon=False)
    return Drawn(
        name="live_attacks",
        caption="How often the value of one victim among sybils is guessed right.",
        figure=figure,
    )
