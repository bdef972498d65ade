"""The accuracy table of docs/theory/shuffle-protocols.md, from the declared exact variances."""

import math
from functools import cache

import numpy as np

import shuffledp as sdp

N, EPSILON, DELTA = 1_000_000, 1.0, 1e-6
SHUFFLED = {"n": N, "epsilon": EPSILON, "delta": DELTA, "honest": 1.0}


def rmse(protocol: sdp.protocols.ShuffleProtocol) -> float:
    """Root mean squared error of the total or of the worst bin: values spread evenly, or everybody has one."""
    size = protocol.randomizer.domain.size
    even = np.full(size, N // size)
    even[0] += N - even.sum()
    heavy = np.zeros_like(even)
    heavy[0] = N
    variances = (protocol.analyzer.variance(inputs) for inputs in (even, heavy))
    return math.sqrt(max(float(np.max(each)) for each in variances))


@cache
def rows() -> list[tuple[str, str, float, float]]:
    """Question, protocol, root mean squared error, messages per user."""
    p = sdp.protocols
    geometric = sdp.mechanisms.geometric.make
    found = [
        (
            "count",
            "central: geometric",
            math.sqrt(geometric(epsilon=EPSILON, sensitivity=1).variance()),
            0.0,
        )
    ]

    def add(task: str, name: str, protocol: sdp.protocols.ShuffleProtocol) -> None:
        found.append((task, name, rmse(protocol), protocol.cost.messages_mean))

    add("count", "split_and_mix", p.split_and_mix.make(**SHUFFLED, lower=0, upper=1))
    add("count", "correlated_count", p.correlated_count.make(**SHUFFLED))
    add("count", "zsum_sparse", p.zsum_sparse.make(**SHUFFLED))
    add("count", "rr, shuffled", p.rr.make(**SHUFFLED))
    add(
        "count",
        "zsum_sparse, paper's constants",
        p.zsum_sparse.make(**SHUFFLED, calibration="paper"),
    )
    add("count", "rr, local", p.rr.make_local(epsilon=EPSILON))
    found.append(("sum of reals in [0, 1]", "central: Laplace", math.sqrt(2) / EPSILON, 0.0))
    unit = {"lower": 0.0, "upper": 1.0, "steps": 10_000}
    add("sum of reals in [0, 1]", "split_and_mix", p.split_and_mix.make(**SHUFFLED, **unit))
    add(
        "sum of reals in [0, 1]",
        "unary_sum",
        p.unary_sum.make(**SHUFFLED, **{**unit, "steps": 1000}),
    )
    add("sum of reals in [0, 1]", "rounded_sum", p.rounded_sum.make(**SHUFFLED, **unit))
    two = geometric(epsilon=EPSILON, sensitivity=2)
    question = "histogram of 1,024 bins"
    found.append((question, "central: geometric", math.sqrt(two.variance()), 0.0))
    for name in (
        "correlated_histogram",
        "sparse_histogram",
        "dummies_histogram",
        "hashed_histogram",
    ):
        add(question, name, p.spec(name).make(**SHUFFLED, k=1024))
    add(question, "subset_selection, local", p.subset_selection.make_local(k=1024, epsilon=EPSILON))
    add(
        "histogram of 1,000,000 bins",
        "hashed_histogram",
        p.hashed_histogram.make(**SHUFFLED, k=10**6),
    )
    return found


def table() -> str:
    """The table in Markdown."""
    lines = ["| question | protocol | RMSE | messages per user |", "|---|---|---|---|"]
    for question, name, error, messages in rows():
        sent = "-" if messages == 0 else f"{messages:.4g}"
        lines.append(f"| {question} | {name} | {error:.4g} | {sent} |")
    return "\n".join(lines)
