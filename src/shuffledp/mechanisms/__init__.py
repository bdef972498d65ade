"""Central model, one file each: the baseline that every protocol is compared with.

A trusted curator computes the exact answer and calls `release(exact_answer, rng)` (or, for the
exponential mechanism, `select(utilities, rng)`). All noise is integer and drawn from exactly the law
that the guarantee is about.
"""

from collections.abc import Collection, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shuffledp.core import load_later
from shuffledp.core.errors import ParameterError
from shuffledp.core.mechanism import (
    CentralMechanism,
    Mechanism,
    MechanismSpec,
    Selection,
    Selector,
)
from shuffledp.core.protocol import Parameters

if TYPE_CHECKING:
    from shuffledp.mechanisms import (
        binomial,
        exponential,
        frequency_list,
        geometric,
        geometric_tree,
        laplace,
        one_sided,
        permute_and_flip,
        stability_histogram,
    )

__all__ = [
    "MECHANISMS",
    "REGISTRY",
    "CentralMechanism",
    "MechanismSpec",
    "Selection",
    "Selector",
    "binomial",
    "exponential",
    "frequency_list",
    "geometric",
    "geometric_tree",
    "laplace",
    "list_answering",
    "one_sided",
    "permute_and_flip",
    "rebuild",
    "spec",
    "stability_histogram",
]

REGISTRY: dict[str, tuple[str, ...]] = {
    "laplace": ("sum", "mean"),
    "geometric": ("count", "sum", "histogram"),
    "exponential": (),
    "permute_and_flip": (),
    "binomial": ("count",),
    "stability_histogram": ("histogram", "words"),
    "geometric_tree": ("quantiles", "range", "cdf", "variance", "std"),
}
"""A line for each mechanism: its name and its tasks. Its file is loaded when somebody looks at it."""

if TYPE_CHECKING:
    MECHANISMS: tuple[MechanismSpec, ...]

_find = load_later(__name__, {}, modules=(*REGISTRY, "frequency_list", "one_sided"))


def __getattr__(name: str) -> Any:
    return tuple(map(spec, REGISTRY)) if name == "MECHANISMS" else _find(name)


def list_answering(*tasks: str, names: Collection[str] | None = None) -> Iterator[MechanismSpec]:
    """Yield the mechanisms that answer one of the tasks, or those of them that are named; others are not loaded.

    >>> [each.name for each in list_answering("mean")]
    ['laplace']
    """
    for name, own in REGISTRY.items():
        if not set(own).isdisjoint(tasks) and (names is None or name in names):
            yield spec(name)


def spec(name: str) -> MechanismSpec:
    """Return the registered mechanism of that name.

    >>> spec("laplace").title
    'Laplace mechanism on a grid'
    """
    if name not in REGISTRY:
        raise ParameterError("name", name, f"must be one of {', '.join(REGISTRY)}")
    found: MechanismSpec = import_module(f"{__name__}.{name}").SPEC
    return found


def rebuild(name: str, parameters: Parameters) -> Mechanism | Selector:
    """Return the mechanism that a name and its parameters (e.g. from JSON) describe.

    >>> mechanism = spec("geometric").make(epsilon=1.0, sensitivity=1)
    >>> rebuild(mechanism.name, mechanism.parameters) == mechanism
    True
    """
    return spec(name).make(**parameters)
