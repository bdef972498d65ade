"""The accountant: how long an answer takes, how it grows with n, and how far above the full sum it is."""

import math
import statistics
from functools import partial

import numpy as np
from scipy.special import betainc
from scipy.stats import binom
from timing import Row, best, quantity, show

import shuffledp as sdp

USERS = tuple(10**power for power in range(3, 13))
LOCAL = (0.5, 1.0, 2.0, 4.0, 6.0)
DELTAS = (1e-6, 1e-10)
ROUNDS = 3
FLAT_FROM = 10**6


def rows() -> list[Row]:
    return [*generic(), *accuracy(), *inverse(), *own_laws(), *composition()]


def generic() -> list[Row]:
    """One `amplify` for any randomizer, over the whole grid."""
    took = {}
    for n in USERS:
        cases = {
            (epsilon0, delta): partial(sdp.amplify, epsilon0=epsilon0, n=n, delta=delta, honest=1)
            for epsilon0 in LOCAL
            for delta in DELTAS
        }
        for name, seconds in best(cases, ROUNDS).items():
            took[n, *name] = 1e3 * seconds
    slowest = max(took, key=took.__getitem__)
    medians = {n: statistics.median(took[key] for key in took if key[0] == n) for n in USERS}
    large = [medians[n] for n in USERS if n >= FLAT_FROM]
    where = "n = {:g}, epsilon0 = {:g}, delta = {:g}".format(*slowest)
    return [
        quantity(
            f"amplify, slowest of {len(took)} cases, n to 10^12",
            baseline=where, ours=took[slowest], unit="ms", at_most=20,
        ),
        quantity(
            "amplify: median of all cases",
            baseline="-", ours=statistics.median(took.values()), unit="ms", at_most=20,
        ),
        quantity(
            "amplify, n from 10^6 to 10^12: slowest median over fastest",
            baseline=f"{min(large):.3g} ms", ours=max(large) / min(large), unit="times", at_most=2,
        ),
    ]  # fmt: skip


def full_sum(epsilon0: float, epsilon: float, n: int) -> float:
    """The divergence of the pair of 2023, every term of the outer binomial within 12 deviations."""
    p, E = math.exp(epsilon0), math.exp(epsilon)
    outer = binom(n - 1, 2 / (p + 1))
    reach = 12 * outer.std() + 30
    C = np.arange(max(0, int(outer.mean() - reach)), min(n - 1, int(outer.mean() + reach)) + 1)
    k = np.ceil((C + 1) * (p - E) / ((p - 1) * (E + 1))) - 1
    below = np.where(k >= 1, betainc(np.maximum(C - k + 1, 1e-9), np.maximum(k, 1e-9), 0.5), 0.0)
    inner = ((p - E) * binom.pmf(k, C, 0.5) - (p + 1) * (E - 1) * below) / (p + 1)
    return float(outer.pmf(C) @ np.maximum(inner, 0.0))


def full_epsilon(epsilon0: float, n: int, delta: float) -> float:
    low, high = 0.0, epsilon0
    for _ in range(44):
        middle = (low + high) / 2
        low, high = (middle, high) if full_sum(epsilon0, middle, n) > delta else (low, middle)
    return high


def accuracy() -> list[Row]:
    """The returned epsilon against that of the same bound without blocks."""
    ratios = [
        sdp.amplify(epsilon0=epsilon0, n=n, delta=delta, honest=1).epsilon
        / full_epsilon(epsilon0, n, delta)
        for n in (10**3, 10**4, 10**6)
        for epsilon0 in LOCAL
        for delta in DELTAS
    ]
    return [
        quantity(
            f"epsilon above the full sum, largest of {len(ratios)}",
            baseline=f"smallest: {100 * (min(ratios) - 1):.2g} %, never negative",
            ours=100 * (max(ratios) - 1), unit="%", at_most=0.1,
        )
    ]  # fmt: skip


def inverse() -> list[Row]:
    found = []
    for n, epsilon, delta in ((10**4, 0.5, 1e-6), (10**6, 1.0, 1e-8), (10**9, 0.1, 1e-10)):
        call = partial(sdp.calibrate, n=n, epsilon=epsilon, delta=delta, honest=1)
        took = best({"ours": call}, ROUNDS)["ours"]
        what = f"calibrate to epsilon = {epsilon:g}, n = {n:g}, delta = {delta:g}"
        found.append(quantity(what, baseline="-", ours=1e3 * took, unit="ms", at_most=150))
    return found


def own_laws() -> list[Row]:
    """One `amplify` from the randomizer's own law, and how much it wins; no figure was set."""
    n, delta = 10**6, 1e-8
    generic = sdp.amplify(epsilon0=2.0, n=n, delta=delta, honest=1).epsilon
    found = []
    for name in ("krr", "hadamard", "subset_selection", "local_hashing", "optimized_unary"):
        randomizer = sdp.protocols.spec(name).make_local(k=16, epsilon=2.0).randomizer
        call = partial(sdp.amplify, randomizer=randomizer, n=n, delta=delta, honest=1)
        took = best({"ours": call}, ROUNDS)["ours"]
        share = call().epsilon / generic
        found.append(
            Row(
                what=f"amplify {name} k = 16, epsilon0 = 2, n = 10^6",
                baseline=f"epsilon is {share:.3f} of the generic one",
                ours=f"{1e3 * took:.3g} ms",
            )
        )
    return found


def composition() -> list[Row]:
    curve = sdp.profile(epsilon0=1.0, n=10**6, honest=1)
    try:
        took = best({"ours": partial(sdp.compose, [curve] * 52, delta=1e-6)}, ROUNDS)["ours"]
    except sdp.UnsupportedError as error:
        return [Row(what="52 rounds composed, n = 10^6", baseline=str(error), ours="-")]
    what = "52 rounds composed, n = 10^6"
    return [quantity(what, baseline="-", ours=took, unit="s", at_most=2)]


if __name__ == "__main__":
    show(rows(), "The accountant")
