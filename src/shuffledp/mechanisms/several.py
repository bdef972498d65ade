"""Several answers of one curator about the same people, under one guarantee.

Each question has a mechanism of its own, with independent noise. Their epsilons are in proportion to the weights of the
questions; what all of them reveal together is bounded by sums of independent bits (`accounting.rules`). A mechanism
with a delta of its own fails with at most that probability, so these deltas are added.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import ClassVar, NamedTuple

from shuffledp.accounting.rules import Release, compose_bits, share
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import Mechanism, Parameters, Promise

_UNITS = 64  # the weights are whole multiples of this part of the largest one
_LESS = 1 - 1e-9  # so that rounded shares add up to no more than the promise


class CuratorQuestion(NamedTuple):
    """One question: its weight in the budget, and how to make its mechanism for an epsilon and a delta."""

    name: str
    weight: float
    histogram: bool
    """Whether one person moves two numbers by one each, and the noise of all numbers is independent."""
    fails: bool
    """Whether its mechanism needs a delta of its own."""
    make: Callable[[float, float], Mechanism]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Several:
    """One mechanism for each question, and what they promise together.

    >>> from shuffledp.mechanisms import geometric
    >>> def count(epsilon, delta):
    ...     return geometric.make(epsilon=epsilon, sensitivity=1)
    >>> asked = [CuratorQuestion(name, 1.0, False, False, count) for name in ("tea", "coffee")]
    >>> both = Several.of(asked, Promise(epsilon=1.0, delta=0.0))
    >>> [round(part.guarantee.epsilon, 6) for part in both.parts]
    [0.5, 0.5]
    >>> print(both.guarantee)
    epsilon = 1, delta = 0: central model, replace-one neighbours, a trusted curator; by sequential composition of 2 answers
    """

    names: tuple[str, ...]
    parts: tuple[Mechanism, ...]
    shares: tuple[float, ...]
    """The share of each question in the sum of all epsilons."""
    promise: Promise
    releases: tuple[Release, ...]
    delta: float
    """What the composition of all of them needs."""
    name: ClassVar[str] = "curator"

    @classmethod
    def of(cls, asked: Sequence[CuratorQuestion], promise: Promise) -> "Several":
        """Divide the promise among the questions."""
        most = max(each.weight for each in asked)
        weights = [max(1, round(_UNITS * each.weight / most)) for each in asked]
        if len(set(weights)) == 1:
            weights = [1] * len(asked)
        releases = [
            Release(weight, each.histogram and not each.fails)
            for weight, each in zip(weights, asked, strict=True)
        ]
        # Half of delta is for the mechanisms that need some, if there are others to be composed with them.
        kept = promise.delta / (1 if len(asked) == 1 else 2)
        failing = sum(each.fails for each in asked)
        delta = kept * _LESS / failing if failing else 0.0
        left = Promise(epsilon=promise.epsilon, delta=promise.delta - (kept if failing else 0.0))
        unit = share(left, releases) * _LESS
        parts = tuple(
            each.make(weight * unit, delta if each.fails else 0.0)
            for weight, each in zip(weights, asked, strict=True)
        )
        composed = compose_bits(unit, releases, epsilon=promise.epsilon)
        return cls(
            names=tuple(each.name for each in asked),
            parts=parts,
            shares=tuple(weight / sum(weights) for weight in weights),
            promise=promise,
            releases=tuple(releases),
            delta=fsum([composed, *(part.guarantee.delta for part in parts)]),
        )

    @property
    def parameters(self) -> Parameters:
        """What was asked for, and the mechanism of each question."""
        parts = [
            {"name": name, "mechanism": part.name, **part.parameters}
            for name, part in zip(self.names, self.parts, strict=True)
        ]
        return {"epsilon": self.promise.epsilon, "delta": self.promise.delta, "parts": parts}

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all answers together."""
        if len(self.parts) == 1:
            return self.parts[0].guarantee
        way = "the composition of bits that dominate" if self.delta else "sequential composition of"
        return Guarantee(
            epsilon=self.promise.epsilon,
            delta=self.delta,
            model=Model.CENTRAL,
            proof=f"{way} {len(self.parts)} answers",
        )

    def leave_out_each(self) -> list[float | None]:
        """Return the factor on the other errors if each question is left out in turn; None if there are no others."""
        if len(self.parts) == 1:
            return [None]
        unit = share(self.promise, self.releases)
        rest = (self.releases[:i] + self.releases[i + 1 :] for i in range(len(self.releases)))
        return [unit / share(self.promise, each) for each in rest]

    def accuracy(self, beta: float) -> float:
        """Bound how far off each answer is, in its own unit, except with probability beta."""
        return max(part.accuracy(beta / len(self.parts)) for part in self.parts)
