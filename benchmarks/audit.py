"""The audit: exact, for binary response of 2,000 users and four messages of 60; empirical, with a million samples.

The baseline of the exact audit is the same sweep over all data sets without bounds, estimated from the
time of one data set.
"""

from fractions import Fraction
from itertools import permutations

import numpy as np
from timing import Row, best, quantity, show, time_call

import shuffledp as sdp
from shuffledp.audit.search import Sweep

AT_MOST = 10.0
AT_MOST_EMPIRICAL = 5.0
SAMPLES = 10**6
ROUNDS = 2
UNEVEN = ((7, 3, 5, 5), (2, 9, 4, 5), (4, 4, 10, 2), (6, 6, 1, 7))
NEARLY_EQUAL = ((11, 13, 12, 14), (13, 12, 11, 14), (12, 11, 14, 13), (14, 13, 12, 11))


def rows() -> list[Row]:
    return [
        exact("binary response n=2000", sdp.protocols.krr.KRR(k=2, epsilon0=1.0), 2000, 0.05),
        exact("k-RR, 4 messages, n=60", sdp.protocols.krr.KRR(k=4, epsilon0=1.0), 60, 0.3),
        exact("4 x 4 matrix, uneven, n=60", matrix(UNEVEN), 60, 0.3),
        exact("4 x 4 matrix, nearly equal rows, n=60", matrix(NEARLY_EQUAL), 60, 0.02),
        empirical(),
    ]


def matrix(weights: tuple[tuple[int, ...], ...]) -> sdp.audit.Channel:
    return sdp.audit.channel([[Fraction(w, sum(row)) for w in row] for row in weights])


def exact(name: str, randomizer: object, n: int, epsilon: float) -> Row:
    def ask(question: int) -> None:
        sdp.audit.exact(randomizer, n=n, epsilon=epsilon * (1 + question / 1000))  # type: ignore[arg-type]

    took = best({"ours": ask}, ROUNDS)["ours"]
    plain = f"every data set: about {everything(randomizer, n):.2g} s"
    return quantity(f"exact audit, {name}", baseline=plain, ours=took, unit="s", at_most=AT_MOST)


def everything(randomizer: object, n: int) -> float:
    """One data set, all pairs, times the number of data sets; without what it takes to get there."""
    from shuffledp.audit.enumeration import read_laws
    from shuffledp.audit.search import Lattice

    sweep = Sweep(Lattice(read_laws(randomizer), n))  # type: ignore[arg-type]
    inputs = sweep.lattice.inputs
    law = sweep.add(np.ones(1), (0,) * inputs, (n - 1, *(0,) * (inputs - 1)))
    pairs = list(permutations(range(inputs), 2))

    def one() -> None:
        for pair in pairs:
            sweep.divergence(law, n - 1, pair, (1.0, 1.0))

    one()
    return time_call(one) * sweep.lattice.data_sets


def empirical() -> Row:
    krr = sdp.protocols.krr.KRR(k=16, epsilon0=1.2)

    def audit(_: int) -> None:  # draws anew
        found = sdp.audit.empirical(krr, [0], [1], delta=0.0, samples=SAMPLES, confidence=0.99)
        assert found.refutes(1.0)

    took = best({"ours": audit}, ROUNDS)["ours"]
    what = "empirical audit, k-RR of 1.2 that claims 1, caught by 10^6 samples"
    return quantity(what, baseline="-", ours=took, unit="s", at_most=AT_MOST_EMPIRICAL)


if __name__ == "__main__":
    show(rows(), "Audit")
