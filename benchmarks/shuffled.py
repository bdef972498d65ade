"""Histograms of the shuffle model, k = 1024: noise messages against the plain dense way, and a billion users.

The dense way draws an n by k Bernoulli matrix with PCG64, in chunks, and counts its ones.
"""

import numpy as np
from numpy.typing import NDArray
from timing import Row, best, faster, quantity, show

import shuffledp as sdp
from shuffledp import run_counts
from shuffledp.core.protocol import ShuffleProtocol

K = 1024
N = 10**5
CROWD = 10**9
EPSILON, DELTA = 1.0, 1e-6
ROUNDS = 5
CHUNK = 1000  # users: 8 MB of doubles
AT_LEAST = 100.0
AT_MOST = 1.0
NAMES = ("sparse_histogram", "dummies_histogram")


def rows() -> list[Row]:
    return [row for name in NAMES for row in (against_dense(name), crowd(name))]


def made(name: str, n: int) -> list[ShuffleProtocol]:
    """A protocol for every question, each with an epsilon of its own."""
    maker = sdp.protocols.spec(name).make
    assert maker is not None
    return [maker(n=n, k=K, epsilon=EPSILON + i / 1000, delta=DELTA) for i in range(ROUNDS + 1)]


def against_dense(name: str) -> Row:
    """`sdp.run` with secure words: the tally is dealt."""
    rng = np.random.default_rng(1)
    values = rng.integers(K, size=N)
    protocols = made(name, N)
    gamma = float(-protocols[0].analyzer.offset()[0])  # type: ignore[attr-defined]
    took = best(
        {
            "dense": lambda _: dense(values, gamma, rng),
            "ours": lambda i: sdp.run(protocols[i], values),
        },
        ROUNDS,
    )
    what = f"{name} k={K} epsilon={EPSILON:g} n=10^5"
    return faster(
        what, baseline=took["dense"], ours=took["ours"], at_least=AT_LEAST, named="dense NumPy"
    )


def dense(values: NDArray[np.int64], gamma: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """A coin for every user and every bin."""
    counts = np.bincount(values, minlength=K)
    for start in range(0, len(values), CHUNK):
        users = min(CHUNK, len(values) - start)
        counts += np.count_nonzero(rng.random((users, K)) < gamma, axis=0)
    return counts - len(values) * gamma


def crowd(name: str) -> Row:
    """A dealt tally of a billion users."""
    protocols = made(name, CROWD)
    inputs = np.full(K, CROWD // K)
    took = best({"ours": lambda i: run_counts(protocols[i], inputs)}, ROUNDS)["ours"]
    what = f"{name} k={K} n=10^9, dealt"
    return quantity(what, baseline="-", ours=took, unit="s", at_most=AT_MOST)


if __name__ == "__main__":
    show(rows(), "Histograms of the shuffle model")
