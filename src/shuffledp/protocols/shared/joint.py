"""Several protocols on the same people: their joint guarantee, and budgets that together keep one promise.

Their privacy losses are independent, and add up.

Parts that would be mu_i-Gaussian together are sqrt(sum mu_i^2)-Gaussian. So part i is made for the
epsilon_i that mu_i = scale weight_i / |weights| has at the common delta, and one number, the scale, is searched for
until the *composed* curve is what was asked for.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from shuffledp.accounting.base import find_ideal, gaussian_epsilon, gaussian_scale, invert
from shuffledp.accounting.compose import compose_curve
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, Profile
from shuffledp.core.protocol import (
    Accountant,
    Crowd,
    CurvedNoise,
    NoiseAccountant,
    Promise,
    ShuffleProtocol,
    Spec,
)
from shuffledp.core.validate import positive
from shuffledp.numerics.rounding import UNIT, shorten

_FIXED = 0.02  # of delta: when it counts as fixed
_FIXED_SHARE = 0.25  # of delta: what all fixed ones get
_FIRST = 1.005  # of the Gaussian scale: about where parts with dummies end
_CLOSE = 0.03  # below ln(delta asked for): where the search ends
_TRIES = 16
_SAME_SCALE = 1e-4
_WIDE, _HALVINGS = 8.0, 24  # of the epsilons that parts may have together
_NEAR = 1.0  # ln(delta) whose line is followed
_FLATTEST = 0.2  # or steepest, its inverse, that a line of the excess may be
_FARTHEST = math.log(3.0)  # step
_LARGE = 1e-3
_POINTS = 96  # of each curve

Result = TypeVar("Result")


class Tried(NamedTuple, Generic[Result]):
    """A protocol made at some scale, its ln(delta), and roughly ln of the factor by which the scale is too large."""

    made: Result
    reached: float
    excess: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCurve:
    """The privacy curve of one part among the honest users: a `Profile`."""

    accountant: Accountant
    honest: int

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above."""
        return min(1.0, self.accountant.delta(self.honest, epsilon))

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above."""
        return invert(self.delta, delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The accountant of several parts: their privacy losses are independent, and add up."""

    parts: tuple[Accountant, ...]
    promise: Promise

    @classmethod
    def of(cls, devices: Sequence[CurvedNoise], promise: Promise) -> "Joint":
        """Join parts, which are devices that know their own delta."""
        parts = (
            NoiseAccountant(device=each, epsilon=promise.epsilon, curve=each.open_curve)
            for each in devices
        )
        return cls(parts=tuple(parts), promise=promise)

    def guarantee(self, honest: int) -> Guarantee:
        delta = self.delta(honest, self.promise.epsilon)
        parts = "1 part" if len(self.parts) == 1 else f"{len(self.parts)} parts"
        return Guarantee(
            epsilon=self.promise.epsilon,
            delta=max(delta, self.promise.delta),
            model=Model.SHUFFLE,
            proof=f"the sum of the privacy losses of {parts}, composed numerically and rounded up",
            honest=honest,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound the delta of all parts together from above."""
        return self.open(honest)(epsilon)

    def open(self, honest: int, points: int = _POINTS) -> Callable[[float], float]:
        """Return delta as a function of epsilon, from `points` points of each curve: fewer are faster, and looser."""
        parts = list(_flatten(self.parts))
        near = shorten(max(self.promise.delta, 1e-90))  # sums of losses are remembered by it
        curves, distances = zip(*(_open_curve(part, honest) for part in parts), strict=True)
        apart = math.fsum(distances) * (1 + 4 * UNIT)
        try:
            ideal = compose_curve(curves, near=near, points=points)
        except UnsupportedError:  # a curve has no delta at some epsilon; `PartCurve` says 1 there
            curves, apart = tuple(PartCurve(accountant=part, honest=honest) for part in parts), 0.0
            ideal = compose_curve(curves, near=near, points=points)

        def delta_at(epsilon: float) -> float:
            # The sampled noise of all parts together is no further from the ideal one than `apart`.
            added = (1 + math.exp(min(epsilon, 700.0))) * apart
            return min(1.0, (ideal(epsilon) + added) * (1 + 32 * UNIT))

        return delta_at


def _open_curve(part: Accountant, honest: int) -> tuple[Profile, float]:
    """Return the curve of a part, and how far its noise is from the ideal one."""
    opened = None
    if isinstance(part, NoiseAccountant) and part.curve is not None:
        opened = part.curve(honest)
    return opened or (PartCurve(accountant=part, honest=honest), 0.0)


def _flatten(parts: Sequence[Accountant]) -> Iterator[Accountant]:
    """Flatten parts of parts: one sum of losses is sharper than sums of sums."""
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
        """Make one from checked arguments.

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
        """Return what `read` reads."""
        return {
            "name": self.name,
            "protocol": self.protocol,
            **self.parameters,
            "weight": self.weight,
            "epsilon": self.epsilon,
            "delta": self.delta,
        }

    def spend(self, mu: float, promise: Promise) -> "PartSpec":
        """Return the part with the budget of a mu-Gaussian pair; a tree shares it among its levels."""
        own, epsilon = dict(self.parameters), promise.epsilon
        depth = len(own.get("shape") or ()) if self._spec.hints.levels else 0
        if depth:
            own["levels"] = [gaussian_epsilon(mu / math.sqrt(depth), promise.delta)] * depth
        else:
            epsilon = min(epsilon, gaussian_epsilon(mu, promise.delta))
        return replace(self, parameters=own, epsilon=epsilon, delta=promise.delta)

    @property
    def _spec(self) -> Spec:
        from shuffledp.protocols import spec

        return spec(self.protocol)

    def make(self, crowd: Crowd) -> ShuffleProtocol:
        """Return the protocol with this budget of its own."""
        maker = self._spec.make
        if maker is None:
            raise UnsupportedError(f"{self.name}: {self.protocol} is not for the shuffle model")
        try:
            promise = Promise(epsilon=self.epsilon, delta=self.delta or 0.0)  # type: ignore[arg-type]
            return maker.build(crowd, promise, **self.parameters)
        except (ShuffledpError, TypeError) as error:
            raise UnsupportedError(f"{self.name}: {error}") from error


Made: TypeAlias = tuple[tuple[PartSpec, ShuffleProtocol], ...]
"""Parts, and what they are with the budgets that were found."""


def calibrate(crowd: Crowd, promise: Promise, parts: Sequence[PartSpec]) -> Made:
    """Return the parts with the largest budgets, in the proportion of their weights, that keep the promise together.

    >>> two = [PartSpec(name=name, protocol="dummies_histogram", parameters={"k": 4}) for name in "ab"]
    >>> made = calibrate(Crowd(n=10_000, honest=1.0), Promise(epsilon=1.0, delta=1e-6), two)
    >>> 0.5 < made[0][0].epsilon < 1
    True
    """
    if len(parts) == 1:
        whole = replace(parts[0], epsilon=promise.epsilon, delta=promise.delta)
        return ((whole, whole.make(crowd)),)
    start, wanted = _Start.of(crowd, promise, parts), math.log(promise.delta)
    try:
        return search_scale(start.at, start.scale, wanted)
    except UnsupportedError:
        if promise.delta <= _LARGE:
            raise
    # However small their epsilons are, parts that may each spend a large delta break it together.
    shared = replace(start, deltas=(promise.delta / len(parts),) * len(parts), first=())
    return search_scale(shared.at, shared.scale, wanted)


def guess_parts(
    crowd: Crowd, promise: Promise, parts: Sequence[PartSpec]
) -> tuple[tuple[ShuffleProtocol, ...], float]:
    """Return the parts with about the budgets that a calibration gives them, and their delta together.

    >>> two = [PartSpec(name=name, protocol="dummies_histogram", parameters={"k": 4}) for name in "ab"]
    >>> _, delta = guess_parts(Crowd(n=10_000, honest=1.0), Promise(epsilon=1.0, delta=1e-6), two)
    >>> 0.5e-6 < delta < 2e-6
    True
    """
    start = _Start.of(crowd, promise, parts)
    tried = start.at(start.scale)
    return tuple(protocol for _, protocol in tried.made), math.exp(tried.reached)


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
        """Divide delta: parts whose delta is fixed share some of it."""
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
        """Return the parts with their shares of this scale."""
        norm = math.hypot(*(part.weight for part in self.parts))
        spent = (
            replace(part.spend(scale * part.weight / norm, self.promise), delta=delta)
            for part, delta in zip(self.parts, self.deltas, strict=True)
        )
        return tuple((part, part.make(self.crowd)) for part in spent)

    def at(self, scale: float) -> "Tried[Made]":
        """Return the parts at this scale, and how they keep the promise together."""
        parts = self.first if scale == self.scale and self.first else self.make_parts(scale)
        joint = account([protocol for _, protocol in parts], self.promise)
        delta_at = joint.open(self.crowd.trusted)
        reached = math.log(max(delta_at(self.promise.epsilon), 1e-300))
        return Tried(parts, reached, find_excess(delta_at, self.promise))


def find_excess(delta_at: Callable[[float], float], promise: Promise) -> float:
    """Return how far ln(mu) of the Gaussian pair with their epsilon, a little below delta, is above the promised one.

    >>> find_excess(lambda epsilon: 1e-6 * 2**(1 - epsilon), Promise(epsilon=1.0, delta=1e-6)) > 0
    True
    """
    low, high = promise.epsilon / _WIDE, promise.epsilon * _WIDE
    aim = replace(promise, delta=promise.delta * math.exp(-_CLOSE / 2))
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if delta_at(middle) > aim.delta else (low, middle)
    return math.log(gaussian_scale(replace(aim, epsilon=high)) / gaussian_scale(aim))


def has_fixed_delta(protocol: ShuffleProtocol, crowd: Crowd, promise: Promise) -> bool:
    """Return whether its delta stays where it is however large epsilon is, so that all of it counts in a sum of losses.

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
    curve = PartCurve(accountant=find_ideal(protocol.accountant), honest=crowd.trusted)
    return curve.delta(1.5 * promise.epsilon) > _FIXED * promise.delta


def account(parts: Sequence[ShuffleProtocol], promise: Promise) -> Joint:
    """Return the accountant of parts with uniform words: whoever joins them counts the words of all parts."""
    return Joint(parts=tuple(find_ideal(part.accountant) for part in parts), promise=promise)


def search_scale(at: Callable[[float], Tried[Result]], start: float, wanted: float) -> Result:
    """Return what `at` makes of nearly the largest scale whose ln(delta) is within the target.

    The excess of a scale is about the logarithm of the factor by which it is too large: by secants, from a slope of 1.

    >>> made = search_scale(lambda s: Tried(s, -1 / s**2, math.log(3 * s)), start=0.5, wanted=-9.0)
    >>> round(made, 2)
    0.33
    """
    scale = start
    best: _Best[Result] = _Best()
    for _ in range(_TRIES):
        try:
            best.add(scale, at(scale), wanted)
        except ShuffledpError as error:
            best.refuse(scale, error)
        if best.close(wanted):
            break
        scale = best.choose(scale)
    if best.made is not None:
        return best.made
    raise best.refusal or UnsupportedError("no budget of the parts keeps the promise")


class _Best(Generic[Result]):
    """What a search has found so far."""

    def __init__(self) -> None:
        self.made: Result | None = None
        self.reached = -math.inf
        self.low, self.high = 0.0, math.inf
        self.seen: list[tuple[float, float, float]] = []  # (ln(scale), excess, that of ln(delta))
        self.refusal: ShuffledpError | None = None

    def add(self, scale: float, tried: Tried[Result], wanted: float) -> None:
        self.seen.append((math.log(scale), tried.excess, tried.reached - wanted + _CLOSE / 2))
        if tried.reached > wanted:
            self.high = min(self.high, scale)
        elif scale > self.low:
            self.made, self.reached, self.low = tried.made, tried.reached, scale

    def refuse(self, scale: float, error: ShuffledpError) -> None:
        self.refusal = self.refusal or error  # the first is about what was asked for
        self.high = min(self.high, scale)

    def close(self, wanted: float) -> bool:
        near = self.reached > wanted - _CLOSE or self.high < self.low * (1 + _SAME_SCALE)
        return self.made is not None and near

    def choose(self, scale: float) -> float:
        """Return the next scale to try, between those that are known to be safe and too large."""
        further = self._follow() if self.seen else scale / 2
        if self.low < further < self.high:
            return further
        if self.low == 0.0:
            return 0.7 * min(self.high, scale)
        return math.sqrt(self.low * self.high) if math.isfinite(self.high) else 1.4 * self.low

    def _follow(self) -> float:
        """Return where the line through the last two points is 0, not too far away: near the end, that of ln(delta)."""
        x, y, z = self.seen[-1]
        step = y
        if len(self.seen) > 1 and self.seen[-2][0] != x:
            before, other_y, other_z = self.seen[-2]
            rise, fall = (y - other_y) / (x - before), (z - other_z) / (x - before)
            if max(abs(z), abs(other_z)) < _NEAR and fall > 0:
                step = z / fall
            elif _FLATTEST < rise < 1 / _FLATTEST:
                step = y / rise
        return math.exp(x - min(max(step, -_FARTHEST), _FARTHEST))
