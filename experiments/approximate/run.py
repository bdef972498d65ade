"""Approximate local randomizers: what shuffling does for Gaussian noise

A randomizer that is epsilon0-local except with probability delta0, such as Gaussian noise, is amplified, too.
Papers pay for it with about (e^epsilon + 1) n delta0: a comparison of all n messages with pure ones by total
variation. Our theorem replaces the sum e^epsilon + 1 by the difference e^epsilon - 1, which for a well
amplified round is tens of times smaller, and the first of the n terms by a single delta0. It is compared with
the exact delta of small random channels, with the usual form, and with the blanket of a device that adds
Gaussian noise on a grid, whose law we know: there a known law beats any statement about (epsilon0, delta0).
What the device says of its error is measured, and compared with other devices at the same promise."""

import math
from fractions import Fraction

import numpy as np

import shuffledp as sdp
from shuffledp.accounting.clones import ApproximateClones, clones_2023
from shuffledp.accounting.exact import local_delta, shuffled_delta
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.protocols.gaussian import GaussianNoise, calibrate_noise
from shuffledp.show.style import BLUE, GREY, ORANGE, VERMILION, panels

ORDER = 52
DELTA, EPSILON0, CROWD = 1e-6, 1.0, 10_000
SIGMA = 2.0  # ranges
RATIOS = (Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(3), Fraction(7))


def random_laws(rng):
    """A channel of two or three inputs; some messages may be impossible for some of them."""
    shape = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    weights = rng.integers(0, 9, shape) * (rng.random(shape) < 0.85)
    weights[:, 0] += 1
    return [
        {(y,): Fraction(int(w), int(row.sum())) for y, w in enumerate(row) if w} for row in weights
    ]


def worst_share(context: Context, channels: int) -> float:
    """The largest exact delta over the bound."""
    rng = context.generator("channels")
    worst = 0.0
    for index in range(channels):
        laws, p = random_laws(rng), RATIOS[index % len(RATIOS)]
        n, E = int(rng.integers(2, 5)), 1 + (p - 1) * Fraction(int(rng.integers(0, 20)), 20)
        delta0 = math.nextafter(float(local_delta(laws, p)), 2)
        curve = ApproximateClones(epsilon0=math.nextafter(math.log(p), 99), delta0=delta0, n=n)
        bound = curve.delta(max(0.0, math.log(E) * (1 - 1e-15)))
        worst = max(worst, float(shuffled_delta(laws, n, E)) / max(bound, 1e-300))
    return worst


def usual(delta0: float) -> float:
    """The epsilon of the usual form, (e^epsilon + 1)(1 + e^-epsilon0 / 2) n delta0 on top of the pure bound."""
    pure = clones_2023(epsilon0=EPSILON0, n=CROWD)
    for epsilon in np.geomspace(pure.epsilon(DELTA), EPSILON0, 400):
        extra = (math.exp(epsilon) + 1) * (1 + math.exp(-EPSILON0) / 2) * CROWD * delta0
        if pure.delta(epsilon) + extra <= DELTA:
            return float(epsilon)
    return EPSILON0


def own_law(device, n: int) -> float:
    """The epsilon of the blanket of the device's own law, over all pairs of values."""
    return sdp.amplify(randomizer=device, n=n, delta=DELTA, honest=1, bound="blanket").epsilon


def by_pairs(device, n: int, points: int) -> float:
    """The best epsilon of the theorem over the pairs (epsilon0, delta0) of the same device."""
    pairs = ((float(e), device.delta0(float(e))) for e in np.linspace(1, 4, points))
    return min(
        sdp.amplify(epsilon0=epsilon0, delta0=delta0, n=n, delta=DELTA, honest=1).epsilon
        for epsilon0, delta0 in pairs
        if delta0 < DELTA
    )


def measure_mean(context: Context, device, runs: int) -> float:
    """The error of the mean of 1,000 people over what the device states, in some runs."""
    values = np.arange(1_000) % 5 / 4
    counts = np.bincount((values * device.domain.steps).astype(np.int64))
    words = context.words("mean")
    found = [device.analyzer.estimate(device.deal(counts, words)).value for _ in range(runs)]
    stated = math.sqrt(device.analyzer.variance(counts))
    return float(np.sqrt(np.mean(np.square(np.array(found) - values.mean())))) / stated


def compare_means(n: int) -> dict[str, float]:
    """The standard error of a mean of numbers in [0, 1] at the same promise, on the data that are worst for it."""
    crowd = {"n": n, "epsilon": 1.0, "delta": DELTA, "honest": 1.0}
    noise = calibrate_noise(**crowd, domain=sdp.Reals(lower=0, upper=1, steps=4))
    found = {"gaussian": noise.analyzer}
    for name in ("duchi", "piecewise"):
        make = getattr(sdp.protocols, name).make
        found[name] = make(**crowd, lower=0, upper=1, steps=4).analyzer
    ends = [np.bincount([code], minlength=5) * n for code in (0, 2, 4)]
    return {
        name: math.sqrt(max(analyzer.variance(counts) for counts in ends))
        for name, analyzer in found.items()
    }


def run(context: Context) -> Result:
    worst = worst_share(context, context.pick(quick=150, full=3000))
    deltas = [float(d) for d in np.logspace(-13, -6.3, context.pick(quick=8, full=16))]
    ours = [
        sdp.amplify(epsilon0=EPSILON0, delta0=d, n=CROWD, delta=DELTA, honest=1).epsilon
        for d in deltas
    ]
    theirs = [usual(d) for d in deltas]
    pure = sdp.amplify(epsilon0=EPSILON0, n=CROWD, delta=DELTA, honest=1).epsilon
    crowds = [10**4, 10**5, 10**6]
    device = GaussianNoise(domain=sdp.Reals(lower=0, upper=1, steps=4), sigma=SIGMA)
    own = [own_law(device, n) for n in crowds]
    points = context.pick(quick=4, full=25)
    generic = [by_pairs(device, n, points) for n in crowds]
    error = measure_mean(context, device, context.pick(quick=4_000, full=20_000))
    means = compare_means(1_000)
    return Result(
        verdicts=(
            Verdict(
                claim="no exact delta of a small random channel is above the theorem",
                measured=f"the largest share is {worst:.4f}",
                agrees=worst <= 1,
            ),
            Verdict(
                claim="the theorem is never above the usual form",
                measured=f"epsilon at delta0 = {deltas[3]:.1e}: {ours[3]:.4f} against {theirs[3]:.4f}; pure {pure:.4f}",
                agrees=all(
                    mine <= other * (1 + 1e-5) for mine, other in zip(ours, theirs, strict=True)
                ),
            ),
            Verdict(
                claim="for Gaussian noise of twice the range the own law beats every pair (epsilon0, delta0)",
                measured=", ".join(
                    f"n = {n:,}: {mine:.4f} against {pair:.4f}"
                    for n, mine, pair in zip(crowds, own, generic, strict=True)
                ),
                agrees=all(mine < pair for mine, pair in zip(own, generic, strict=True)),
            ),
            Verdict(
                claim="the error of its mean is what its law says, within 3 %",
                measured=f"measured over stated: {error:.3f}",
                agrees=abs(error - 1) < 0.03,
            ),
            Verdict(
                claim="behind a shuffler Gaussian noise errs more than other messages at the same promise",
                measured="standard error of a mean of 1,000 people, epsilon = 1: "
                + ", ".join(f"{name} {each:.4f}" for name, each in means.items()),
                agrees=means["gaussian"] > 1.5 * min(means["duchi"], means["piecewise"]),
            ),
        ),
        figures=(draw(deltas, ours, theirs, pure, crowds, own, generic),),
        rows=tuple(
            {"delta0": d, "theorem": mine, "usual": other, "pure": pure}
            for d, mine, other in zip(deltas, ours, theirs, strict=True)
        ),
        parameters={"delta": DELTA, "epsilon0": EPSILON0, "n": CROWD, "sigma": SIGMA},
    )


def draw(deltas, ours, theirs, pure, crowds, own, generic) -> Drawn:
    figure, (left, right) = panels(
        ["epsilon0 = 1, n = 10,000", "Gaussian noise, sigma = 2, values in [0, 1]"],
        x="delta0",
        y="epsilon at delta = 1e-6",
        scales=("log", "log"),
    )
    left.plot(deltas, theirs, color=ORANGE, label="usual form")
    left.plot(deltas, ours, color=BLUE, label="this theorem")
    left.axhline(pure, color=GREY, lw=1, label="delta0 = 0")
    left.legend(frameon=False)
    right.set_xlabel("n")
    right.plot(
        crowds,
        generic,
        "o-",
        color=VERMILION,
        label="best (epsilon0, delta0)",
    )
    right.plot(crowds, own, "o-", color=BLUE, label="blanket of the own law")
    right.legend(frameon=False)
    return Drawn(
        name="approximate",
        caption="What a delta0 costs, and what knowing the law gains.",
        figure=figure,
    )
