"""Local and shuffle models, one file each: randomizer, analyzer, `make_local` or `make`, and `SPEC`.

Adding a protocol is one file with `SPEC`, one line in `REGISTRY`, one test. A package of its own offers
one as an entry point of the group `shuffledp.protocols`; `list_registered()` has both kinds.
"""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shuffledp.core import load_later
from shuffledp.core.capabilities import Capabilities, CentralCapabilities, Sight, Stream
from shuffledp.core.errors import ParameterError, PluginError, UnsupportedError
from shuffledp.core.protocol import Hints, Least, Look, Maker, ShuffleProtocol, Spec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from shuffledp.protocols import (
        bundle,
        correlated_count,
        correlated_histogram,
        count_min,
        duchi,
        dummies_histogram,
        fake_users,
        gaussian,
        hadamard,
        hadamard_blanket,
        hashed_histogram,
        hashed_prefixes,
        hashed_tree,
        hybrid,
        krr,
        levels,
        local_hashing,
        local_prefixes,
        local_tree,
        one_question,
        piecewise,
        pure_count,
        pure_histogram,
        rounded_sum,
        rr,
        server_noise,
        several_values,
        sparse_histogram,
        split_and_mix,
        subset_selection,
        tree,
        unary_sum,
        zero_sum_flooding,
        zsum,
        zsum_histogram,
    )

__all__ = [
    "COMBINED",
    "GROUP",
    "PROTOCOLS",
    "REGISTRY",
    "Capabilities",
    "CentralCapabilities",
    "Hints",
    "Least",
    "Look",
    "Maker",
    "Sight",
    "Spec",
    "Stream",
    "bundle",
    "correlated_count",
    "correlated_histogram",
    "count_min",
    "duchi",
    "dummies_histogram",
    "fake_users",
    "gaussian",
    "hadamard",
    "hadamard_blanket",
    "hashed_histogram",
    "hashed_prefixes",
    "hashed_tree",
    "hybrid",
    "krr",
    "levels",
    "list_answering",
    "list_offered",
    "list_registered",
    "local_hashing",
    "local_prefixes",
    "local_tree",
    "make",
    "one_question",
    "optimized_unary",
    "piecewise",
    "pure_count",
    "pure_histogram",
    "rounded_sum",
    "rr",
    "server_noise",
    "several_values",
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

REGISTRY: dict[str, str] = {
    "correlated_count": "count",
    "correlated_histogram": "histogram",
    "split_and_mix": "sum",
    "krr": "histogram",
    "rr": "count",
    "symmetric_unary": "histogram",
    "optimized_unary": "histogram",
    "hadamard": "histogram",
    "subset_selection": "histogram",
    "local_hashing": "histogram",
    "duchi": "mean",
    "piecewise": "mean",
    "hybrid": "mean",
    "zsum": "count",
    "zsum_sparse": "count",
    "pure_count": "count",
    "pure_histogram": "histogram",
    "zsum_histogram": "histogram",
    "sparse_histogram": "histogram",
    "dummies_histogram": "histogram",
    "hashed_histogram": "histogram",
    "hadamard_blanket": "histogram",
    "count_min": "histogram",
    "fake_users": "histogram",
    "unary_sum": "sum",
    "rounded_sum": "sum",
    "zero_sum_flooding": "sum",
    "tree": "quantiles",
    "local_tree": "quantiles",
    "hashed_tree": "quantiles",
    "hashed_prefixes": "words",
    "local_prefixes": "words",
}
"""A line for each protocol of this package: its name and its task. Its file is loaded when somebody looks at it.

The planner looks from the top. Protocols that say `LATE` in their SPEC come last; a newcomer stands above them."""

_OF_OTHERS = ("bundle", "one_question", "several_values")
_DEVICES = ("gaussian", "levels")  # that no planner chooses
_SERVED = ("server_noise",)  # whose noise comes from servers: `live` makes it
_TWO_IN_A_FILE = {
    "symmetric_unary": ("unary", "SYMMETRIC"),
    "optimized_unary": ("unary", "OPTIMIZED"),
    "zsum_sparse": ("zsum", "SPARSE"),
}

GROUP = "shuffledp.protocols"
"""The group of entry points by which a package offers protocols: name = "module:SPEC"."""

if TYPE_CHECKING:
    PROTOCOLS: tuple[Spec, ...]
    """Every protocol of this package."""
    COMBINED: tuple[Spec, ...]
    """Those that are made of others: no planner chooses them, but name and parameters make them again."""
    symmetric_unary: Spec
    optimized_unary: Spec
    zsum_sparse: Spec

_FILES = (*(REGISTRY.keys() - _TWO_IN_A_FILE.keys()), *_OF_OTHERS, *_DEVICES, *_SERVED)
_find = load_later(__name__, {}, modules=_FILES)

if not TYPE_CHECKING:  # with it, every name would be Any

    def __getattr__(name: str) -> Any:
        if name == "PROTOCOLS":
            return tuple(map(_load_own, REGISTRY))
        if name == "COMBINED":
            return tuple(map(_load_own, _OF_OTHERS))
        return _load_own(name) if name in _TWO_IN_A_FILE else _find(name)


def _load_own(name: str) -> Spec:
    """Return the spec of a protocol of this package."""
    file, spec = _TWO_IN_A_FILE.get(name, (name, "SPEC"))
    own: Spec = getattr(import_module(f"{__name__}.{file}"), spec)
    return own


def list_registered() -> tuple[Spec, ...]:
    """List every protocol: those of this package, then those that installed packages offer.

    >>> len(list_registered()) >= len(REGISTRY)
    True
    """
    return (*map(_load_own, REGISTRY), *list_offered())


def list_answering(*tasks: str, names: Collection[str] | None = None) -> Iterator[Spec]:
    """List the protocols that answer one of the tasks, or those that are named, in that order; load no others.

    Those of other packages come before our late ones.

    >>> [each.name for each in list_answering("sum", names=["split_and_mix", "krr"])]
    ['split_and_mix']
    """
    if names is not None:
        yield from (_load_own(name) for name in names if REGISTRY.get(name) in tasks)
        if not REGISTRY.keys() >= set(names):  # or there is no need to ask other packages
            yield from (
                each for each in list_offered() if each.name in names and each.task in tasks
            )
        return
    others = (each for each in list_offered() if each.task in tasks)
    for name, task in REGISTRY.items():
        if task not in tasks:
            continue
        own = _load_own(name)
        if own.hints.look is Look.LATE:
            yield from others  # which are looked at before
        yield own
    yield from others


@cache
def list_offered() -> tuple[Spec, ...]:
    """Return what installed packages offer.

    >>> all(each.name not in REGISTRY for each in list_offered())
    True
    """
    from importlib.metadata import entry_points

    offered: dict[str, tuple[Spec, str]] = {}
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _package(entry)))
    for entry in entries:
        one, package = _load(entry), _package(entry)
        if one.name in REGISTRY or one.name in offered:
            owner = "shuffledp" if one.name in REGISTRY else offered[one.name][1]
            raise PluginError(
                f"{package} offers a protocol named {one.name!r}, which {owner} has already: "
                "uninstall one of them"
            )
        offered[one.name] = (one, package)
    return tuple(each for each, _ in offered.values())


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
    """Return the registered protocol of that name.

    >>> spec("krr").title
    'k-ary randomized response'
    """
    if name in REGISTRY or name in (*_OF_OTHERS, *_SERVED):  # without a look at other packages
        return _load_own(name)
    others = {each.name: each for each in list_offered()}
    if name in others:
        return others[name]
    names = [*REGISTRY, *others]
    near = get_close_matches(str(name), names, 1)
    guess = f": did you mean {near[0]}?" if near else ""
    raise ParameterError("protocol", name, f"must be one of {', '.join(names)}{guess}")


def make(name: str, /, **parameters: Any) -> ShuffleProtocol:
    """Make the protocol of that name: of the shuffle model if n, the number of people, is given.

    A protocol's name and parameters, which are plain numbers and strings, make it again.

    >>> local = make("krr", k=4, epsilon=1.0)
    >>> local == spec("krr").make_local(k=4, epsilon=1.0) == make(local.name, **local.parameters)
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
        for each, needed in maker.parameters.items():
            if needed and each not in parameters:
                raise ParameterError(each, None, f"must be given: {name} needs it")
        for strange in parameters.keys() - maker.parameters.keys():
            raise ParameterError(strange, parameters[strange], f"is not a parameter of {name}")
        return maker(**parameters)
    if "n" in parameters:
        raise UnsupportedError(f"{name} is for the local model, where the number n does not matter")
    raise UnsupportedError(f"{name} is for the shuffle model: give n, the number of people")
