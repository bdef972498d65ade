"""The central model: a trusted curator sees the raw data and releases one noisy answer.

Mechanisms have no shuffler. They are the baseline that every table of protocols is compared with, and
they state what they promise in the same words: a `Guarantee`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from shuffledp.core.capabilities import CentralCapabilities
from shuffledp.core.estimate import Estimate
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import Crowd, Parameters, Promise
from shuffledp.core.randomizer import WordSource


class CentralMechanism(Protocol):
    """What all mechanisms have in common; `name` and `parameters` rebuild one."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def parameters(self) -> Parameters:
        """Plain numbers and strings, as they are written in JSON."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about the release."""

    def accuracy(self, beta: float) -> float:
        """Return an alpha such that the error is at most alpha, except with probability beta."""


@runtime_checkable
class Mechanism(CentralMechanism, Protocol):
    """Answers with numbers."""

    def release(self, exact_answer: Any, rng: WordSource) -> Estimate:
        """Return the answer with noise. Each call spends the guarantee once more."""

    def variance(self) -> float:
        """Exact variance of the noise in each number."""

    @property
    def offers(self) -> CentralCapabilities:
        """What it declares beyond that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One candidate: its position, and its label if the candidates have any.

    >>> Selection(index=1, label="coffee").label
    'coffee'
    """

    index: int
    label: str | None = None


@runtime_checkable
class Selector(CentralMechanism, Protocol):
    """Answers with one of finitely many candidates."""

    def select(self, utilities: ArrayLike, rng: WordSource) -> Selection:
        """Return a candidate of nearly the highest utility. Each call spends the guarantee once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismSpec:
    """An entry of the registry: everything that tests, docs, planner and command line need to know."""

    name: str
    title: str
    tasks: tuple[str, ...]
    """What it answers; empty for a selection."""
    reference: str
    make: Callable[..., Mechanism | Selector]
    options: Mapping[str, bool] = field(hash=False)
    """What `make` takes besides epsilon and the planner knows: n, delta, the sensitivity and what a task says of itself;
    and whether each of them must be given."""

    def build(self, crowd: Crowd, promise: Promise, **options: Any) -> Mechanism | Selector:
        """Return the mechanism for these people: `make` with those of n and delta that it takes."""
        known = {"n": crowd.n, "delta": promise.delta}
        more = {name: value for name, value in known.items() if name in self.options}
        return self.make(epsilon=promise.epsilon, **more, **options)
