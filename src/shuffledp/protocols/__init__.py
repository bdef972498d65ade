"""Local and shuffle models, one file each: randomizer, analyzer, `make_local` or `make`, and `SPEC`.

Adding a protocol is one file with `SPEC`, one line in `PROTOCOLS`, one test of the paper's values.
"""

from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import Parameters, ShuffleProtocol, Spec
from shuffledp.protocols import (
    correlated_count,
    correlated_histogram,
    count_min,
    duchi,
    dummies_histogram,
    fake_users,
    hadamard,
    hadamard_blanket,
    hashed_histogram,
    hybrid,
    krr,
    local_hashing,
    piecewise,
    pure_count,
    rounded_sum,
    rr,
    sparse_histogram,
    split_and_mix,
    subset_selection,
    unary,
    unary_sum,
    zero_sum_flooding,
    zsum,
    zsum_histogram,
)

zsum_sparse = zsum.SPARSE

__all__ = [
    "PROTOCOLS",
    "correlated_count",
    "correlated_histogram",
    "count_min",
    "duchi",
    "dummies_histogram",
    "fake_users",
    "hadamard",
    "hadamard_blanket",
    "hashed_histogram",
    "hybrid",
    "krr",
    "local_hashing",
    "optimized_unary",
    "piecewise",
    "pure_count",
    "rebuild",
    "rounded_sum",
    "rr",
    "sparse_histogram",
    "spec",
    "split_and_mix",
    "subset_selection",
    "symmetric_unary",
    "unary_sum",
    "zero_sum_flooding",
    "zsum",
    "zsum_histogram",
    "zsum_sparse",
]

symmetric_unary, optimized_unary = unary.SYMMETRIC, unary.OPTIMIZED

PROTOCOLS: tuple[Spec, ...] = (
    krr.SPEC,
    rr.SPEC,
    symmetric_unary,
    optimized_unary,
    hadamard.SPEC,
    subset_selection.SPEC,
    local_hashing.SPEC,
    duchi.SPEC,
    piecewise.SPEC,
    hybrid.SPEC,
    zsum.SPEC,
    zsum_sparse,
    correlated_count.SPEC,
    pure_count.SPEC,
    zsum_histogram.SPEC,
    sparse_histogram.SPEC,
    dummies_histogram.SPEC,
    correlated_histogram.SPEC,
    hashed_histogram.SPEC,
    hadamard_blanket.SPEC,
    count_min.SPEC,
    fake_users.SPEC,
    split_and_mix.SPEC,
    unary_sum.SPEC,
    rounded_sum.SPEC,
    zero_sum_flooding.SPEC,
)


def spec(name: str) -> Spec:
    """The registered protocol of that name.

    >>> spec("krr").title
    'k-ary randomized response'
    """
    for candidate in PROTOCOLS:
        if candidate.name == name:
            return candidate
    names = ", ".join(candidate.name for candidate in PROTOCOLS)
    raise ParameterError("name", name, f"must be one of {names}")


def rebuild(name: str, parameters: Parameters) -> ShuffleProtocol:
    """The protocol that a name and its parameters (e.g. from JSON) describe.

    >>> p = krr.make_local(k=4, epsilon=1.0)
    >>> rebuild(p.name, p.parameters) == p
    True
    """
    found = spec(name)
    # A number of users is what makes a protocol one of the shuffle model.
    maker = found.make if "n" in parameters else found.make_local
    if maker is None:
        raise ParameterError("parameters", dict(parameters), f"do not fit the protocol {name}")
    return maker(**parameters)
