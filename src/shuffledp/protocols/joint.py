"""The guarantee of several protocols on the same people: their privacy losses are independent, and add up."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shuffledp.accounting.base import invert
from shuffledp.accounting.compose import compose_curve
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, Profile
from shuffledp.core.protocol import (
    Accountant,
    Curved,
    NoiseAccountant,
    Noisy,
    Promise,
    pure_delta,
)
from shuffledp.numerics.rounding import UNIT, shorten

__all__ = ["Curve", "Joint"]

_POINTS = 96  # of each curve
_FEW_POINTS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The privacy curve of one part among the honest users: a `Profile`."""

    accountant: Accountant
    honest: int

    def delta(self, epsilon: float) -> float:
        """At least the true delta at this epsilon."""
        own = getattr(self.accountant, "delta", None)
        if own is not None:
            return min(1.0, float(own(self.honest, epsilon)))
        # Nothing is worse than randomized response with the stated epsilon that fails with the stated delta.
        stated = self.accountant.guarantee(self.honest)
        return min(1.0, stated.delta + (1 - stated.delta) * pure_delta(stated.epsilon, epsilon))

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at this delta."""
        return invert(self.delta, delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The accountant of several parts: their privacy losses are independent, and add up."""

    parts: tuple[Accountant, ...]
    promise: Promise

    @classmethod
    def of(cls, devices: Sequence[Noisy], promise: Promise) -> "Joint":
        """The parts are devices that know their own delta."""
        parts = (NoiseAccountant(device=each, epsilon=promise.epsilon) for each in devices)
        return cls(parts=tuple(parts), promise=promise)

    def guarantee(self, honest: int) -> Guarantee:
        # What is within the promise needs no sharper look.
        found = self.look(honest, self.promise.epsilon, _FEW_POINTS)
        if found > self.promise.delta:
            found = self.delta(honest, self.promise.epsilon)
        return Guarantee(
            epsilon=self.promise.epsilon,
            delta=max(found, self.promise.delta),
            model=Model.SHUFFLE,
            proof=f"the sum of the privacy losses of {len(self.parts)} parts, composed numerically and rounded up",
            honest=honest,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        """At least the delta of all parts together."""
        return self.look(honest, epsilon, _POINTS)

    def look(self, honest: int, epsilon: float, points: int) -> float:
        """The same from `points` points of each curve: fewer are faster, and a little looser."""
        return self.open(honest, points)(epsilon)

    def open(self, honest: int, points: int) -> Callable[[float], float]:
        """The same as a function of epsilon."""
        parts = list(_flatten(self.parts))
        near = shorten(max(self.promise.delta, 1e-90))  # sums of losses are remembered by it
        curves, distances = zip(*(_open_curve(part, honest) for part in parts), strict=True)
        apart = math.fsum(distances) * (1 + 4 * UNIT)
        try:
            ideal = compose_curve(curves, near=near, points=points)
        except UnsupportedError:  # some curve has no delta at some epsilon; `Curve` says 1 there
            curves, apart = tuple(Curve(accountant=part, honest=honest) for part in parts), 0.0
            ideal = compose_curve(curves, near=near, points=points)

        def delta_at(epsilon: float) -> float:
            # The sampled noise of all parts together is no further from the ideal one than `apart`.
            added = (1 + math.exp(min(epsilon, 700.0))) * apart
            return min(1.0, (ideal(epsilon) + added) * (1 + 32 * UNIT))

        return delta_at


def _open_curve(part: Accountant, honest: int) -> tuple[Profile, float]:
    """The curve of a part, and what its noise is off."""
    found = None
    if isinstance(part, NoiseAccountant) and isinstance(part.device, Curved):
        found = part.device.open_curve(honest)
    return found or (Curve(accountant=part, honest=honest), 0.0)


def _flatten(parts: Sequence[Accountant]) -> Iterator[Accountant]:
    """Parts of parts are parts: one sum of losses is sharper than sums of sums."""
    for part in parts:
        if isinstance(part, Joint):
            yield from _flatten(part.parts)
        else:
            yield part
