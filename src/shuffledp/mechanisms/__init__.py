"""Central model, one file each: the baseline that every protocol is compared with.

A trusted curator computes the exact answer and calls `release(exact_answer, rng)` (or, for the
exponential mechanism, `select(utilities, rng)`). All noise is integer and drawn from exactly the law
that the guarantee is about.
"""

from shuffledp.core.errors import ParameterError
from shuffledp.core.mechanism import Mechanism, MechanismSpec, Selector
from shuffledp.core.protocol import Parameters
from shuffledp.mechanisms import (
    binomial,
    exponential,
    frequency_list,
    geometric,
    laplace,
    one_sided,
    permute_and_flip,
    stability_histogram,
)

__all__ = [
    "MECHANISMS",
    "binomial",
    "exponential",
    "frequency_list",
    "geometric",
    "laplace",
    "one_sided",
    "permute_and_flip",
    "rebuild",
    "spec",
    "stability_histogram",
]

MECHANISMS: tuple[MechanismSpec, ...] = (
    laplace.SPEC,
    geometric.SPEC,
    exponential.SPEC,
    permute_and_flip.SPEC,
    binomial.SPEC,
    stability_histogram.SPEC,
)


def spec(name: str) -> MechanismSpec:
    """The registered mechanism of that name.

    >>> spec("laplace").title
    'Laplace mechanism on a grid'
    """
    for candidate in MECHANISMS:
        if candidate.name == name:
            return candidate
    names = ", ".join(candidate.name for candidate in MECHANISMS)
    raise ParameterError("name", name, f"must be one of {names}")


def rebuild(name: str, parameters: Parameters) -> Mechanism | Selector:
    """The mechanism that a name and its parameters (e.g. from JSON) describe.

    >>> mechanism = geometric.make(epsilon=1.0, sensitivity=1)
    >>> rebuild(mechanism.name, mechanism.parameters) == mechanism
    True
    """
    return spec(name).make(**parameters)
