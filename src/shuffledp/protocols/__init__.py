"""Local and shuffle models, one file each: randomizer, analyzer, `make_local` or `make`, and `SPEC`.

Adding a protocol is one file with `SPEC`, one line in `PROTOCOLS`, one test. A package of its own offers
one as an entry point of the group `shuffledp.protocols`; `registered()` has both kinds.
"""

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

from shuffledp.core.errors import ParameterError, PluginError, UnsupportedError
from shuffledp.core.protocol import ShuffleProtocol, Spec
from shuffledp.protocols import (
    bundle,
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
    tree,
    unary,
    unary_sum,
    zero_sum_flooding,
    zsum,
    zsum_histogram,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

zsum_sparse = zsum.SPARSE

__all__ = [
    "COMBINED",
    "GROUP",
    "PROTOCOLS",
    "bundle",
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
    "make",
    "optimized_unary",
    "piecewise",
    "pure_count",
    "registered",
    "rounded_sum",
    "rr",
    "sparse_histogram",
    "spec",
    "split_and_mix",
    "subset_selection",
    "symmetric_unary",
    "tree",
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
    tree.SPEC,
)

COMBINED: tuple[Spec, ...] = (bundle.SPEC,)
"""Those that are made of others: no planner chooses them, but name and parameters make them again."""


GROUP = "shuffledp.protocols"
"""The group of entry points by which a package offers protocols: name = "module:SPEC"."""


@cache
def registered() -> tuple[Spec, ...]:
    """Every protocol: those of this package, then those that installed packages offer.

    >>> len(registered()) >= len(PROTOCOLS)
    True
    """
    from importlib.metadata import entry_points

    found = {each.name: (each, "shuffledp") for each in PROTOCOLS}
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _package(entry)))
    for entry in entries:
        offered, package = _load(entry), _package(entry)
        if offered.name in found:
            raise PluginError(
                f"{package} offers a protocol named {offered.name!r}, which "
                f"{found[offered.name][1]} has already: uninstall one of them"
            )
        found[offered.name] = (offered, package)
    return tuple(each for each, _ in found.values())


def _load(entry: "EntryPoint") -> Spec:
    try:
        offered = entry.load()
    except Exception as error:  # whatever somebody else's module may raise
        raise PluginError(
            f"{_package(entry)} offers the protocol {entry.name!r} as {entry.value}, which cannot be "
            f"loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(offered, Spec) or offered.name != entry.name:
        raise PluginError(
            f"{_package(entry)} offers the protocol {entry.name!r} as {entry.value}, which is not a "
            "Spec of that name"
        )
    return offered


def _package(entry: "EntryPoint") -> str:
    return "an unknown package" if entry.dist is None else f"the package {entry.dist.name}"


def spec(name: str) -> Spec:
    """The registered protocol of that name.

    >>> spec("krr").title
    'k-ary randomized response'
    """
    for each in (*PROTOCOLS, *COMBINED):  # without a look at other packages
        if each.name == name:
            return each
    for each in registered():
        if each.name == name:
            return each
    names = ", ".join(each.name for each in registered())
    raise ParameterError("name", name, f"must be one of {names}")


def make(name: str, /, **parameters: Any) -> ShuffleProtocol:
    """The protocol of that name: of the shuffle model if n, the number of people, is given.

    A protocol's name and parameters, which are plain numbers and strings, make it again.

    >>> local = make("krr", k=4, epsilon=1.0)
    >>> local == krr.make_local(k=4, epsilon=1.0) == make(local.name, **local.parameters)
    True
    >>> make("krr", k=4, n=10_000, epsilon=1.0, delta=1e-6).guarantee.model.value
    'shuffle'
    >>> make("krr", epsilon=1.0)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: k must be given: krr needs it
    """
    chosen = spec(name)
    maker = chosen.make if "n" in parameters else chosen.make_local
    if maker is not None:
        known = inspect.signature(maker).parameters
        for each in known.values():
            if each.default is inspect.Parameter.empty and each.name not in parameters:
                raise ParameterError(each.name, None, f"must be given: {name} needs it")
        for strange in parameters.keys() - known.keys():
            raise ParameterError(strange, parameters[strange], f"is no parameter of {name}")
        return maker(**parameters)
    if "n" in parameters:
        raise UnsupportedError(f"{name} is for the local model, where the number n does not matter")
    raise UnsupportedError(f"{name} is for the shuffle model: give n, the number of people")
