"""Renyi, trade-off, Gaussian: three other views of one shuffled round

A privacy curve can be read as a bound of Renyi divergences, as a trade-off between the two errors of any test
of a person's value, and as the mu of a Gaussian pair that is at least as easy to tell apart. Each view is
computed from the certified curve and compared with exact views: those of shuffled bits on explicit data sets,
and the Gaussian limit for many people. A last question is what a random check-in adds, when people take part
only by a secret coin.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, GREEN, GREY, ORANGE, VERMILION, panels

ORDER = 54
EPSILON0, DELTA = 1.0, 1e-6
CROWDS = (100, 1000, 10_000)
ORDERS = (1.5, 2.0, 4.0, 16.0, 64.0)


def bits(n: int):
    """The number of ones in n shuffled bits when one person or nobody holds a one."""
    flip = 1 / (1 + math.exp(EPSILON0))
    others = binom.pmf(np.arange(n), n - 1, flip)
    return tuple(np.convolve(others, [1 - one, one]) for one in (flip, 1 - flip))


def exact_renyi(n: int, order: float) -> float:
    first, second = bits(n)
    seen = (first > 1e-300) & (second > 1e-300)
    total = (second[seen] * (first[seen] / second[seen]) ** order).sum()
    return math.log(total) / (order - 1)


def exact_error(n: int, level: float) -> float:
    """The smallest error of the second kind of a deterministic test of at most this level."""
    first, second = bits(n)
    order = np.argsort(-(second / np.maximum(first, 1e-300)))
    levels = np.cumsum(first[order])
    taken = int(np.searchsorted(levels, level, side="right"))
    return 1 - float(second[order][:taken].sum())


def run(context: Context) -> Result:
    curves = {n: sdp.profile(epsilon0=EPSILON0, n=n, honest=1) for n in CROWDS}
    renyi = [
        (n, order, curves[n].renyi(order), exact_renyi(n, order))
        for n in CROWDS
        for order in ORDERS
    ]
    levels = [float(level) for level in np.linspace(0, 1, context.pick(quick=41, full=201))]
    errors = [
        (n, level, curves[n].trade_off(level), exact_error(n, level))
        for n in CROWDS
        for level in levels
    ]
    limit = {
        n: math.sqrt(2 / ((math.exp(EPSILON0) + 1) * n)) * math.expm1(EPSILON0) for n in CROWDS
    }
    mu = {n: curves[n].mu() for n in CROWDS}
    shares = [1.0, 0.5, 0.2, 0.1, 0.05]
    checked = [
        sdp.amplify(epsilon0=EPSILON0, n=10_000, delta=DELTA, check_in=q, honest=1).epsilon
        for q in shares
    ]
    alone = [
        sdp.amplify(epsilon0=EPSILON0, n=round(10_000 * q), delta=DELTA, honest=1).epsilon
        for q in shares
    ]
    return Result(
        verdicts=(
            Verdict(
                claim="no Renyi divergence of shuffled bits is above the certified one",
                measured=f"largest share {max(exact / bound for *_, bound, exact in renyi):.3f}",
                agrees=all(exact <= bound * (1 + 1e-9) for *_, bound, exact in renyi),
            ),
            Verdict(
                claim="no test of a bit has smaller errors than the certified trade-off",
                measured=f"smallest margin {min(exact - bound for *_, bound, exact in errors):.2g}",
                agrees=all(bound <= exact + 1e-9 for *_, bound, exact in errors),
            ),
            Verdict(
                claim="the Gaussian that covers the curve is within 5 percent of the limit for many people",
                measured=", ".join(f"n = {n:,}: {mu[n] / limit[n]:.3f}" for n in CROWDS),
                agrees=mu[10_000] < 1.05 * limit[10_000],
            ),
            Verdict(
                claim="a random check-in of a share q hides as well as q times the epsilon of those who came",
                measured=", ".join(
                    f"q = {q:g}: {mine / (q * other):.2f}"
                    for q, mine, other in zip(shares, checked, alone, strict=True)
                ),
                agrees=all(
                    mine <= q * other * 1.01
                    for q, mine, other in zip(shares, checked, alone, strict=True)
                ),
            ),
        ),
        figures=(draw(errors, mu, renyi), draw_check_in(shares, checked, alone)),
        rows=tuple(
            {"n": n, "order": order, "certified": bound, "bits": exact}
            for n, order, bound, exact in renyi
        ),
        parameters={"epsilon0": EPSILON0, "delta": DELTA},
    )


def draw(errors, mu, renyi) -> Drawn:
    figure, (left, right) = panels(
        ["The two errors of any test", "Renyi divergence"],
        x="error of the first kind",
        y=["error of the second", "divergence"],
    )
    for n, colour in zip(CROWDS, (VERMILION, BLUE, GREEN), strict=True):
        own = [(level, bound) for users, level, bound, _ in errors if users == n]
        left.plot(*zip(*own, strict=True), color=colour, label=f"n = {n:,}")
        grid = np.linspace(1e-6, 1 - 1e-6, 200)
        left.plot(grid, ndtr(ndtri(1 - grid) - mu[n]), ":", color=colour)
        own = [(order, bound, exact) for users, order, bound, exact in renyi if users == n]
        orders, bounds, exact = zip(*own, strict=True)
        right.plot(orders, bounds, color=colour, label=f"n = {n:,}")
        right.plot(orders, exact, "o", ms=3, color=colour)
    left.plot([0, 1], [1, 0], color=GREY, lw=1, label="blind guessing")
    right.set(xscale="log", yscale="log", xlabel="order")
    for axes in (left, right):
        axes.legend(frameon=False)
    caption = "Lines: certified. Dotted: the Gaussian that covers it. Dots: shuffled bits, exactly."
    return Drawn(name="views", caption=caption, figure=figure)


def draw_check_in(shares, checked, alone) -> Drawn:
    figure, (axes,) = panels(
        ["Random check-in of 10,000 people"], x="share", y="epsilon", scales=("log", "log")
    )
    axes.plot(shares, alone, "o-", color=ORANGE, label="those who came, all known")
    axes.plot(shares, checked, "o-", color=BLUE, label="by a secret coin")
    axes.legend(frameon=False)
    return Drawn(
        name="check_in",
        caption="The same number of messages, with and without the coin.",
        figure=figure,
    )
