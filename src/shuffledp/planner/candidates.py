"""Everything in the registries that answers a question, and how it is made.

Nothing is listed by name: a maker is called with those of n, epsilon, delta, honest, sensitivity and the task's
own arguments (k, lower, upper, ...) that its signature has. So a protocol that is registered is planned with.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.task import Task
from shuffledp.mechanisms import MECHANISMS
from shuffledp.planner.question import Asked
from shuffledp.protocols import registered
from shuffledp.tasks import task_named

__all__ = ["Candidate", "candidates", "maker_arguments"]

_REQUIRED = inspect.Parameter.empty


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
        given: dict[str, Any] = {
            "n": asked.n,
            "epsilon": asked.epsilon,
            "delta": asked.delta,
            "honest": asked.honest,
        }
        if self.model is Model.CENTRAL:
            given["sensitivity"] = asked.task.sensitivity(asked.n)
        return maker_arguments(self.maker, asked.task, given)

    def fits(self, task: Task) -> bool:
        """Whether its answer is the answer to the task as it is: a mean, times n, is a sum only to a planner."""
        if "task" in _signature(self.maker):
            return True
        return task_named(self.answers).average == task.average


@lru_cache(maxsize=256)
def _signature(maker: Callable[..., Any]) -> dict[str, Any]:
    return {name: each.default for name, each in inspect.signature(maker).parameters.items()}


def maker_arguments(
    maker: Callable[..., Any], task: Task, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Those of the given values and of the task's own that the maker takes; None is not given.

    >>> from shuffledp import protocols, tasks
    >>> task = tasks.Mean.declare({"lower": 0, "upper": 120}).task
    >>> maker_arguments(protocols.hybrid.make_local, task, {"epsilon": 1.0, "honest": None})
    {'lower': 0, 'upper': 120, 'steps': 120, 'epsilon': 1.0}
    """
    wanted = _signature(maker)
    known = {**given, **task.arguments()}
    found = {name: known[name] for name in wanted if known.get(name) is not None}
    if wanted.get("steps") is _REQUIRED:  # a grid it must be: that of the integers
        found.setdefault("steps", task.domain.size - 1)
        found = {name: found[name] for name in wanted if name in found}
    missing = [
        name for name, default in wanted.items() if default is _REQUIRED and name not in found
    ]
    if missing:
        raise UnsupportedError(f"it needs {', '.join(missing)}, which a {task.name} has not")
    return found


def candidates(asked: Asked) -> Iterator[Candidate]:
    """All of them, central ones first, in the order of the registries.

    >>> asked = Asked.of("count", n=100, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> [c.name for c in candidates(asked) if c.model is not Model.SHUFFLE]
    ['geometric', 'binomial', 'rr']
    """
    yield from _central(asked)
    for spec in registered():
        if spec.task not in asked.task.answered_by:
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
        if asked.task.name in spec.tasks:
            yield Candidate(
                name=spec.name, model=Model.CENTRAL, answers=asked.task.name, maker=spec.make
            )
