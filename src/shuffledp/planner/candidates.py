"""Everything in the registries that answers a question, and how it is made.

Nothing is listed by name: a maker is called with those of n, epsilon, delta, honest, k, lower, upper, steps,
question and sensitivity that its signature has. So a protocol that is registered is planned with.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from shuffledp.core.domain import Integers, Reals
from shuffledp.core.mechanism import MechanismSpec
from shuffledp.core.privacy import Model
from shuffledp.mechanisms import MECHANISMS
from shuffledp.numerics.rounding import float_above
from shuffledp.planner.question import Asked
from shuffledp.protocols import PROTOCOLS

__all__ = ["Candidate", "candidates"]

_ANSWERED_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "count": ("count", "sum"),  # a count is the sum of bits
        "sum": ("sum", "mean"),  # n is public
        "mean": ("mean", "sum"),
        "histogram": ("histogram",),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A maker of the registry, and what it answers by itself."""

    name: str
    model: Model
    answers: str
    maker: Callable[..., Any]
    amplified: bool = False
    """Whether it is a local protocol behind a shuffler."""

    def parameters(self, asked: Asked) -> dict[str, Any]:
        """The arguments of the maker for this question.

        >>> asked = Asked.of("sum", n=100, epsilon=1.0, delta=1e-6, honest=1.0, upper=9)
        >>> found = next(c for c in candidates(asked) if c.name == "split_and_mix")
        >>> found.parameters(asked)["upper"], found.parameters(asked)["task"]
        (9, 'sum')
        """
        wanted = _signature(self.maker)
        given = _given(asked) | self._scale(asked)
        arguments = {name: given[name] for name in wanted if name in given}
        if (
            wanted.get("steps") is inspect.Parameter.empty
        ):  # a grid it must be: that of the integers
            arguments |= {"steps": asked.size - 1}
        return arguments

    def _scale(self, asked: Asked) -> dict[str, Any]:
        if self.model is not Model.CENTRAL:
            return {}
        return {"sensitivity": _sensitivity(asked, self.answers)}


@lru_cache(maxsize=256)
def _signature(maker: Callable[..., Any]) -> dict[str, Any]:
    return {name: each.default for name, each in inspect.signature(maker).parameters.items()}


def _given(asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n": asked.n,
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "honest": asked.honest,
    }
    if asked.task == "histogram":
        return found | {"k": asked.size}
    mean = asked.task == "mean"
    lower, upper = (0, 1)
    if isinstance(asked.domain, Integers | Reals):
        lower, upper = asked.domain.lower, asked.domain.upper  # type: ignore[assignment]
    return found | {
        "lower": lower,
        "upper": upper,
        "steps": asked.steps,
        "task": "mean" if mean else "sum",
    }


def _sensitivity(asked: Asked, answers: str) -> float:
    """l1 sensitivity for replaced neighbours, rounded up; an int where the answer is whole."""
    if asked.task == "histogram":
        return 2
    if answers == "mean":
        return float_above(asked.range / asked.n)
    return float_above(asked.range) if asked.steps is not None else int(asked.range)


def candidates(asked: Asked) -> Iterator[Candidate]:
    """All of them, central ones first, in the order of the registries.

    >>> asked = Asked.of("count", n=100, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> [c.name for c in candidates(asked) if c.model is not Model.SHUFFLE]
    ['geometric', 'binomial', 'rr']
    """
    yield from _central(asked)
    for spec in PROTOCOLS:
        if spec.task not in _ANSWERED_BY[asked.task]:
            continue
        local = spec.make_local is not None
        if spec.make is not None:
            yield Candidate(
                name=spec.name,
                model=Model.SHUFFLE,
                answers=spec.task,
                maker=spec.make,
                amplified=local,
            )
        if spec.make_local is not None:
            yield Candidate(
                name=spec.name, model=Model.LOCAL, answers=spec.task, maker=spec.make_local
            )


def _central(asked: Asked) -> Iterator[Candidate]:
    for spec in MECHANISMS:
        if asked.task in spec.tasks:
            yield _mechanism(spec, asked.task)


def _mechanism(spec: MechanismSpec, task: str) -> Candidate:
    return Candidate(name=spec.name, model=Model.CENTRAL, answers=task, maker=spec.make)
