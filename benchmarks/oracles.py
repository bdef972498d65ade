"""The other frequency oracles at k = 1024, against the faster of two libraries.

Ours runs at the full n; the libraries need minutes for that, so they are measured with fewer users
and scaled per user (their cost is linear in n, but for a last step that is small beside it).
"""

import numpy as np
from peers import LIBRARIES, Case, times
from timing import Row, best, faster, missing, show

import shuffledp as sdp

K = 1024
EPSILONS = (1.0, 3.0)
ROUNDS = 3
# our name: (n, n for the libraries, wanted ratio)
FIGURES = {
    "optimized_unary": (10**5, 5_000, 20.0),
    "local_hashing": (10**5, 500, 50.0),
    "hadamard": (10**6, 50_000, 100.0),
    "subset_selection": (10**5, 3_000, 20.0),
}
# Heuristic local hashing: 1000 public hash functions for everybody. Fast, but its collisions are
# the same for all users, so its relative error does not vanish as n grows; no figure is set against it.
POOLED = {"local_hashing": ("fast_hashing", 10**5)}


def rows() -> list[Row]:
    cases = [
        Case(oracle=name, k=K, epsilon=epsilon, n=few)
        for name, (_, few, _) in FIGURES.items()
        for epsilon in EPSILONS
    ]
    pools = [
        Case(oracle=name, k=K, epsilon=epsilon, n=n, rounds=1)
        for name, n in POOLED.values()
        for epsilon in EPSILONS
    ]
    peers = times(cases + pools)
    return [row for case in cases for row in compared(case, peers)]


def compared(case: Case, peers: dict[tuple[str, Case], float] | str) -> list[Row]:
    n, _, at_least = FIGURES[case.oracle]
    what = f"{case.oracle} k={K} epsilon={case.epsilon:g} n={n:.0e}".replace("e+0", "e")
    if case.oracle not in {spec.name for spec in sdp.protocols.PROTOCOLS}:
        return [missing(what, "not registered")]
    if isinstance(peers, str):
        return [missing(what, peers)]
    ours = measured(case.oracle, case.epsilon, n)
    library = min(LIBRARIES, key=lambda name: peers.get((name, case), float("inf")))
    found = [
        faster(
            what,
            baseline=peers[library, case] * n,
            ours=ours,
            at_least=at_least,
            named=f"{library} (n={case.n})",
            users=n,
        )
    ]
    for (_, pooled), each in peers.items():
        if (pooled.oracle, pooled.epsilon) == (POOLED.get(case.oracle, ("",))[0], case.epsilon):
            found.append(
                faster(what, baseline=each * n, ours=ours, named="pure-ldp FastLH", users=n)
            )
    return found


def measured(name: str, epsilon: float, n: int) -> float:
    """Seconds of `sdp.run`; every question has an epsilon of its own."""
    values = np.random.default_rng(1).integers(K, size=n)
    protocols = [
        sdp.protocols.spec(name).make_local(k=K, epsilon=epsilon + i / 1000)
        for i in range(ROUNDS + 1)
    ]
    return best({"ours": lambda i: sdp.run(protocols[i], values)}, ROUNDS)["ours"]


if __name__ == "__main__":
    show(rows(), "Frequency oracles")
