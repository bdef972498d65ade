"""k-ary randomized response, n = 10^7 and 10^6: group, deal and estimate through `sdp.run`.

Against the plain vectorised NumPy way with PCG64, against the same way in chunks that fit the
cache (what an expert would write; no figure is set for it), and per user against two libraries.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from peers import LIBRARIES, Case, times
from timing import Row, best, faster, missing, seconds, show

import shuffledp as sdp
from shuffledp.core.protocol import ShuffleProtocol

N, MILLION = 10**7, 10**6
PEER_N = 10**5
ROUNDS = 7
EPSILONS = (1.0, 3.0)
AT_LEAST, AT_LEAST_OF_MILLION = 1.5, 6.0
AT_LEAST_OF_PEERS = {2: 30.0, 16: 30.0, 1024: 80.0}
CHUNK = 1 << 16


def rows() -> list[Row]:
    cases = [
        Case(oracle="krr", k=k, epsilon=epsilon, n=PEER_N)
        for k in AT_LEAST_OF_PEERS
        for epsilon in EPSILONS
    ]
    peers = times(cases)
    found: list[Row] = []
    for case in cases:
        what = f"k-RR k={case.k} epsilon={case.epsilon:g} n=10^7"
        took = measured(case.k, case.epsilon, N)
        ours = took["ours"]
        found += [
            faster(what, baseline=took["plain"], ours=ours, at_least=AT_LEAST, named="NumPy"),
            faster(what, baseline=took["chunked"], ours=ours, named="NumPy in chunks"),
        ]
        found += against_peers(what, case, ours, peers)
    return [*found, *_million(16, 1.0)]


def _million(k: int, epsilon: float) -> list[Row]:
    """A million people, and how far NumPy's count and the dealing would get, if there were nothing else to do."""
    took, parts = measured(k, epsilon, MILLION), _measure_parts(k, epsilon, MILLION)
    what = f"k-RR k={k} epsilon={epsilon:g} n=10^6"
    counting, dealing, words = map(seconds, parts.values())
    return [
        faster(
            what,
            baseline=took["plain"],
            ours=took["ours"],
            at_least=AT_LEAST_OF_MILLION,
            named=f"as many secure words alone: {words}; NumPy",
        ),
        faster(
            f"{what}, the limit: bincount ({counting}) and dealing ({dealing}) alone",
            baseline=took["plain"],
            ours=parts["counting"] + parts["dealing"],
            named="NumPy",
        ),
    ]


def _measure_parts(k: int, epsilon: float, n: int) -> dict[str, float]:
    """Seconds of NumPy's count alone, of dealing counts alone, and of a secure word for everybody."""
    values, secure = np.random.default_rng(1).integers(k, size=n), sdp.SecureWords()
    counts, protocols = np.bincount(values, minlength=k), _make(k, epsilon)
    return best(
        {
            "counting": lambda _: np.bincount(values, minlength=k),
            "dealing": lambda i: sdp.run_counts(protocols[i], counts),
            "words": lambda _: secure.words(n),
        },
        ROUNDS,
    )


def _make(k: int, epsilon: float) -> list[ShuffleProtocol]:
    """A protocol for every question, each with an epsilon of its own."""
    maker = sdp.protocols.krr.make_local
    return [maker(k=k, epsilon=epsilon + i / 1000) for i in range(ROUNDS + 1)]


def measured(k: int, epsilon: float, n: int) -> dict[str, float]:
    """Seconds of each way on the same column of int64 codes; every question has an epsilon of its own."""
    rng = np.random.default_rng(1)
    values = rng.integers(k, size=n)
    protocols = _make(k, epsilon)
    candidates: dict[str, Callable[[int], object]] = {
        "plain": lambda _: plain(values, k, epsilon, rng),
        "ours": lambda i: sdp.run(protocols[i], values),
        "chunked": lambda _: chunked(values, k, epsilon, rng),
    }
    return best(candidates, ROUNDS)


def plain(
    values: NDArray[np.int64], k: int, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Keep the truth with probability `kept`, otherwise send a uniform category; then debias."""
    kept = np.expm1(epsilon) / (np.exp(epsilon) + k - 1)
    counts = np.bincount(sent(values, k, kept, rng), minlength=k)
    return (counts - len(values) * (1 - kept) / k) / kept


def chunked(
    values: NDArray[np.int64], k: int, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The plain way, a chunk at a time."""
    kept = np.expm1(epsilon) / (np.exp(epsilon) + k - 1)
    counts = np.zeros(k, dtype=np.int64)
    for start in range(0, len(values), CHUNK):
        counts += np.bincount(sent(values[start : start + CHUNK], k, kept, rng), minlength=k)
    return (counts - len(values) * (1 - kept) / k) / kept


def sent(
    values: NDArray[np.int64], k: int, kept: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    n = len(values)
    return np.where(rng.random(n) < kept, values, rng.integers(k, size=n))


def against_peers(
    what: str, case: Case, ours: float, peers: dict[tuple[str, Case], float] | str
) -> list[Row]:
    if isinstance(peers, str):
        return [missing(what, peers)]
    at_least = AT_LEAST_OF_PEERS[case.k]
    return [
        faster(
            what,
            baseline=peers[library, case] * N,
            ours=ours,
            at_least=at_least,
            named=f"{library} (n=10^5)",
            users=N,
        )
        for library in LIBRARIES
    ]


if __name__ == "__main__":
    show(rows(), "k-ary randomized response")
