"""Intervals of 1,024 bins that cover at least their level: time, and width against the normal interval."""

from statistics import NormalDist

import numpy as np
from timing import Row, best, quantity, show

import shuffledp as sdp

K, LEVEL = 1024, 0.95
ORACLES = ("krr", "optimized_unary", "hadamard", "fake_users")
SIZES = (1_000, 100_000, 10_000_000)
ROUNDS = 5


def rows() -> list[Row]:
    return [measured(name, n) for name in ORACLES for n in SIZES]


def measured(name: str, n: int) -> Row:
    share = 1 / np.arange(1, K + 1)
    counts = np.random.default_rng(1).multinomial(n, share / share.sum())
    protocol = sdp.protocols.spec(name).make(n=n, epsilon=1.0, delta=1 / n**2, k=K)
    estimates = [sdp.run_counts(protocol, counts, sdp.SeededWords(i)) for i in range(ROUNDS + 1)]
    taken = best({"ours": lambda i: estimates[i].interval(LEVEL)}, ROUNDS)["ours"]
    estimate = estimates[1]
    low, high = (np.asarray(end) for end in estimate.interval(LEVEL))
    normal = 2 * NormalDist().inv_cdf((1 + LEVEL) / 2) * np.asarray(estimate.stderr)
    wide = (high - low) / normal
    inside = (low > 0) & (high < n)
    away = f"{wide[inside].mean():.3f} away from 0, " if inside.any() else ""
    return quantity(
        f"95 % intervals of {name}, k={K} n={n:.0e}".replace("e+0", "e"),
        baseline=f"width / normal: {away}{wide.mean():.3f} in all",
        ours=1e3 * taken,
        unit="ms",
        at_most=50,
    )


if __name__ == "__main__":
    show(rows(), "Intervals")
