"""Several protocols on the same people: their joint guarantee, and budgets that together keep one promise.

Their privacy losses are independent, and add up.

Parts that would be mu_i-Gaussian together are sqrt(sum mu_i^2)-Gaussian. So part i is made for the
epsilon_i that mu_i = scale weight_i / |weights| has at the common delta, and one number, the scale, is searched for
until the *composed* curve is what was asked for.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

from shuffledp.accounting.base import gaussian_epsilon, gaussian_scale, invert
from shuffledp.accounting.compose import compose_curve
from shuffledp.accounting.generator import find_ideal
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, Profile
from shuffledp.core.protocol import (
    Accountant,
    Crowd,
    Curved,
    NoiseAccountant,
    Noisy,
    Promise,
    ShuffleProtocol,
    pure_delta,
)
from shuffledp.core.validate import positive
from shuffledp.numerics.rounding import UNIT, shorten

__all__ = [
    "Curve",
    "Joint",
    "Made",
    "PartSpec",
    "account",
    "calibrate",
    "find_bend",
    "guess_parts",
    "has_fixed_delta",
    "search_scale",
]

_FIXED = 0.02  # of delta: when it counts as fixed
_FIXED_SHARE = 0.25  # of delta: what all fixed ones get
_TREES = ("tree", "hashed_tree")  # whose levels share a budget
_FIRST = 1.005  # of the Gaussian scale: about where parts with dummies end
_CLOSE = 0.03  # below ln(delta asked for): where the search ends
_TRIES = 16
_SAME_SCALE = 1e-4
_NEAR = 1.0
_SHARP = 6.0  # deltas down to a 400th of the promise are sharp
_LARGE = 1e-3
_POINTS = 96  # of each curve

Result = TypeVar("Result")


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
        return Guarantee(
            epsilon=self.promise.epsilon,
            delta=max(self.delta(honest, self.promise.epsilon), self.promise.delta),
            model=Model.SHUFFLE,
            proof=f"the sum of the privacy losses of {len(self.parts)} parts, composed numerically and rounded up",
            honest=honest,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        """At least the delta of all parts together."""
        return self.open(honest)(epsilon)

    def open(self, honest: int, points: int = _POINTS) -> Callable[[float], float]:
        """The same as a function of epsilon, from `points` points of each curve: fewer are faster, and looser."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSpec:
    """One part, as JSON has it: its name, its protocol with its own parameters, and its share of the budget.

    `weight` says how sharp its answer is beside the others'; `epsilon` and `delta` are its own budget, which a
    calibration finds.
    """

    name: str
    protocol: str
    parameters: Mapping[str, Any]
    weight: float = 1.0
    epsilon: float | None = None
    delta: float | None = None

    @classmethod
    def read(cls, part: Mapping[str, Any]) -> "PartSpec":
        """Checked.

        >>> PartSpec.read({"name": "way", "protocol": "krr", "k": 3}).parameters
        {'k': 3}
        """
        if not {"name", "protocol"} <= set(part):
            raise ParameterError("parts", part, "must each have a name and a protocol")
        own = {"name", "protocol", "weight", "epsilon", "delta"}
        return cls(
            name=part["name"],
            protocol=part["protocol"],
            parameters={key: value for key, value in part.items() if key not in own},
            weight=positive("weight", part.get("weight", 1.0)),
            epsilon=part.get("epsilon"),
            delta=part.get("delta"),
        )

    def to_dict(self) -> dict[str, Any]:
        """What `read` reads."""
        return {
            "name": self.name,
            "protocol": self.protocol,
            **self.parameters,
            "weight": self.weight,
            "epsilon": self.epsilon,
            "delta": self.delta,
        }

    def spend(self, mu: float, promise: Promise) -> "PartSpec":
        """The part with the budget of a mu-Gaussian pair; a tree shares it among its levels."""
        own, epsilon = dict(self.parameters), promise.epsilon
        depth = len(own.get("shape") or ()) if self.protocol in _TREES else 0
        if depth:
            own["levels"] = [gaussian_epsilon(mu / math.sqrt(depth), promise.delta)] * depth
        else:
            epsilon = min(epsilon, gaussian_epsilon(mu, promise.delta))
        return replace(self, parameters=own, epsilon=epsilon, delta=promise.delta)

    def make(self, crowd: Crowd) -> ShuffleProtocol:
        """The protocol with this budget of its own."""
        from shuffledp.protocols import spec

        maker = spec(self.protocol).make
        if maker is None:
            raise UnsupportedError(f"{self.name}: {self.protocol} is not for the shuffle model")
        given = {"n": crowd.n, "honest": crowd.honest, "epsilon": self.epsilon, **self.parameters}
        if "delta" in inspect.signature(maker).parameters:
            given["delta"] = self.delta
        try:
            return maker(**given)
        except (ShuffledpError, TypeError) as error:
            raise UnsupportedError(f"{self.name}: {error}") from error


Made: TypeAlias = tuple[tuple[PartSpec, ShuffleProtocol], ...]
"""Parts, and what they are with the budgets that were found."""


def calibrate(crowd: Crowd, promise: Promise, parts: Sequence[PartSpec]) -> Made:
    """The parts with the largest budgets, in the proportion of their weights, that keep the promise together.

    >>> two = [PartSpec(name=name, protocol="dummies_histogram", parameters={"k": 4}) for name in "ab"]
    >>> made = calibrate(Crowd(n=10_000, honest=1.0), Promise(epsilon=1.0, delta=1e-6), two)
    >>> 0.5 < made[0][0].epsilon < 1
    True
    """
    if len(parts) == 1:
        whole = replace(parts[0], epsilon=promise.epsilon, delta=promise.delta)
        return ((whole, whole.make(crowd)),)
    start = _Start.of(crowd, promise, parts)
    return search_scale(start.at, start.scale, math.log(promise.delta), find_bend(promise))


def guess_parts(
    crowd: Crowd, promise: Promise, parts: Sequence[PartSpec]
) -> tuple[tuple[ShuffleProtocol, ...], float]:
    """The parts with about the budgets that a calibration gives them, and their delta together.

    >>> two = [PartSpec(name=name, protocol="dummies_histogram", parameters={"k": 4}) for name in "ab"]
    >>> _, delta = guess_parts(Crowd(n=10_000, honest=1.0), Promise(epsilon=1.0, delta=1e-6), two)
    >>> 0.5e-6 < delta < 2e-6
    True
    """
    start = _Start.of(crowd, promise, parts)
    made, reached = start.at(start.scale)
    return tuple(protocol for _, protocol in made), math.exp(reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The start of a calibration: the parts at the budgets of Gaussian pairs."""

    crowd: Crowd
    promise: Promise
    parts: tuple[PartSpec, ...]
    deltas: tuple[float, ...]
    first: Made = ()
    """The parts at the first scale, if they can be made there."""

    @classmethod
    def of(cls, crowd: Crowd, promise: Promise, parts: Sequence[PartSpec]) -> "_Start":
        """Parts whose delta is fixed share some of it."""
        deltas = (promise.delta,) * len(parts)
        start = cls(crowd=crowd, promise=promise, parts=tuple(parts), deltas=deltas)
        try:
            first = start.make_parts(start.scale)
        except ShuffledpError:  # too much at once, perhaps; the search will see
            return start
        fixed = [has_fixed_delta(protocol, crowd, promise) for _, protocol in first]
        if not any(fixed):
            return replace(start, first=first)
        share = _FIXED_SHARE * promise.delta / sum(fixed)
        return replace(start, deltas=tuple(share if each else promise.delta for each in fixed))

    @property
    def scale(self) -> float:
        """The first scale to try."""
        return _FIRST * gaussian_scale(self.promise)

    def make_parts(self, scale: float) -> Made:
        """The parts with their shares of this scale."""
        norm = math.hypot(*(part.weight for part in self.parts))
        spent = (
            replace(part.spend(scale * part.weight / norm, self.promise), delta=delta)
            for part, delta in zip(self.parts, self.deltas, strict=True)
        )
        return tuple((part, part.make(self.crowd)) for part in spent)

    def at(self, scale: float) -> tuple[Made, float]:
        """The parts at this scale, and the logarithm of their delta together."""
        found = self.first if scale == self.scale and self.first else self.make_parts(scale)
        joint = account([protocol for _, protocol in found], self.promise)
        reached = joint.delta(self.crowd.trusted, self.promise.epsilon)
        return found, math.log(max(reached, 1e-300))


def has_fixed_delta(protocol: ShuffleProtocol, crowd: Crowd, promise: Promise) -> bool:
    """Whether its delta stays where it is however large epsilon is, so that all of it counts in a sum of losses.

    >>> from shuffledp.protocols import make
    >>> crowd, promise = Crowd(n=10_000, honest=1.0), Promise(epsilon=1.0, delta=1e-6)
    >>> given = {"n": 10_000, "honest": 1.0, "epsilon": 0.5, "delta": 1e-6}
    >>> [has_fixed_delta(make(name, **given, **own), crowd, promise)
    ...  for name, own in (("zero_sum_flooding", {"lower": 0, "upper": 9}), ("correlated_count", {}))]
    [True, False]
    """
    # With a handful of people every delta is about fixed, and sharing wins nothing.
    if promise.delta > _LARGE:
        return False
    curve = Curve(accountant=find_ideal(protocol.accountant), honest=crowd.trusted)
    return curve.delta(1.5 * promise.epsilon) > _FIXED * promise.delta


def account(parts: Sequence[ShuffleProtocol], promise: Promise) -> Joint:
    """The accountant of parts with uniform words: whoever joins them counts the words of all parts."""
    return Joint(parts=tuple(find_ideal(part.accountant) for part in parts), promise=promise)


def find_bend(promise: Promise) -> float:
    """How steep ln(delta) of a Gaussian pair is in 1 / mu^2 at the promise, beside the line to where it is 0.

    >>> round(find_bend(Promise(epsilon=1.0, delta=1e-8)), 2)
    0.78
    """
    near = replace(promise, delta=1.1 * promise.delta)
    if near.delta > _LARGE:
        return 1.0
    here, there = (gaussian_scale(each) ** -2 for each in (promise, near))
    return math.log(1.1) / (here - there) / (-math.log(promise.delta) / here)


def search_scale(
    at: Callable[[float], tuple[Result, float]], start: float, wanted: float, bend: float = 1.0
) -> Result:
    """What `at` makes, with its ln(delta), at nearly the largest scale whose ln(delta) is at most what is wanted.

    ln(delta) is about linear in 1 / scale^2, and 0 at 0, as for Gaussian pairs: by secants. Near the end it is less
    steep, by `bend`.

    >>> made = search_scale(lambda scale: (scale, -1 / scale**2), start=0.5, wanted=-9.0)
    >>> round(made, 2)
    0.33
    """
    scale = start
    best: _Best[Result] = _Best(bend)
    for _ in range(_TRIES):
        try:
            best.add(scale, at(scale), wanted)
        except ShuffledpError as error:
            best.refuse(scale, error)
        if best.close(wanted):
            break
        scale = best.choose(scale, wanted)
    if best.made is not None:
        return best.made
    raise best.refusal or UnsupportedError("no budget of the parts keeps the promise")


class _Best(Generic[Result]):
    """What a search has found so far."""

    def __init__(self, bend: float = 1.0) -> None:
        self.bend = bend
        self.made: Result | None = None
        self.reached = -math.inf
        self.low, self.high = 0.0, math.inf
        self.seen: list[tuple[float, float]] = []  # (1 / scale^2, ln(delta))
        self.refusal: ShuffledpError | None = None

    def add(self, scale: float, tried: tuple[Result, float], wanted: float) -> None:
        made, reached = tried
        self.seen.append((scale**-2, reached))
        if reached > wanted:
            self.high = min(self.high, scale)
        elif scale > self.low:
            self.made, self.reached, self.low = made, reached, scale

    def refuse(self, scale: float, error: ShuffledpError) -> None:
        self.refusal, self.high = error, min(self.high, scale)

    def close(self, wanted: float) -> bool:
        near = self.reached > wanted - _CLOSE or self.high < self.low * (1 + _SAME_SCALE)
        return self.made is not None and near

    def choose(self, scale: float, wanted: float) -> float:
        """The next value to try: a little on the safe side of the secant through the last two points."""
        # Far below what is wanted, deltas are not sharp.
        sharp = [(0.0, 0.0), *(point for point in self.seen if point[1] > wanted - _SHARP)]
        if self.reached > wanted - _SHARP or self.made is None:
            first = len(sharp) == 2 and abs(sharp[1][1] - wanted) < _NEAR
            further = _follow(sharp[-2:], wanted - _CLOSE / 2, scale, self.bend if first else 1.0)
            if self.low < further < self.high:
                return further
        if self.low == 0.0:
            return 0.7 * min(self.high, scale)
        return math.sqrt(self.low * self.high) if math.isfinite(self.high) else 1.4 * self.low


def _follow(
    points: Sequence[tuple[float, float]], wanted: float, scale: float, bend: float = 1.0
) -> float:
    """The scale where the line through these points reaches what is wanted, not too far away; 0 if it does not."""
    (x0, y0), (x1, y1) = points if len(points) == 2 else [points[0]] * 2
    rise = bend * (y1 - y0) / (x1 - x0) if x1 != x0 else 0.0
    x = x1 + (wanted - y1) / rise if rise < 0 else 0.0
    return min(max(x**-0.5, scale / 3), 3 * scale) if x > 0 else 0.0
