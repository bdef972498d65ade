r"""Histograms of people who have several values each: a protocol for one value, run on every value of everybody.

A person is `values` inputs, all of them filled (an empty place has a bin of its own), and the guarantee is about all
of them together. The noise is that of the whole crowd, once: n times `values` devices of the inner protocol share it.

**Any values.** Replacing a person replaces K = `values` inputs, one after the other: with the inner protocol's delta'
at epsilon / K,

    delta = delta' (1 + e^(epsilon/K) + ... + e^((K-1) epsilon/K)).

It is true for every inner protocol, even where all K values move between the same two bins.

**Values in different bins** (`apart`). At most 2K bins change, by one each. Where the noise of bins is independent, or
nearly so, the K messages that move are K pairs of bins of their own, and their privacy losses add up: K curves of the
inner protocol (`moved`), composed. Dummies then have sqrt(K) times the error, where any values cost K times.

The same bin for all empty places would be a value that somebody has twice. So each place has its own.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from shuffledp.accounting.base import gaussian_scale
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, Profile
from shuffledp.core.protocol import Accountant, Crowd, Parts, Promise, ShuffleProtocol, Spec
from shuffledp.core.validate import whole
from shuffledp.numerics.rounding import UNIT, float_below, shorten
from shuffledp.protocols.shared.assembly import local, register, shuffle
from shuffledp.protocols.shared.joint import (
    Joint,
    PartSpec,
    Tried,
    find_excess,
    search_scale,
)

_TITLE = "several values of each person"
_REFERENCE = "Dwork, Roth 2014 (groups); Zhu, Dong, Wang 2022 (composition)"
_MOST = 10_000
_KEPT = ("deal", "influence", "reach", "offset", "bias", "bin_errors", "foresee")
"""What the inner protocol offers that is true of its values one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedValue:
    """One of the values that move, each between two bins of its own: a `CurvedNoise` of people.

    >>> inner = PartSpec(name="", protocol="dummies_histogram", parameters={"k": 9}, epsilon=0.5, delta=1e-7)
    >>> last = MovedValue(inner=inner.make(Crowd(n=200_000, honest=1.0)), values=2, place=1)
    >>> 0.99e-7 < last.delta(100_000, 0.5) < 1.1e-7
    True
    """

    inner: ShuffleProtocol
    values: int
    place: int
    """How many others have moved before it."""
    proof: str = "the two bins between which one value moves"

    def open_curve(self, honest: int) -> tuple[Profile, float] | None:
        assert self.inner.offers.moved is not None
        return self.inner.offers.moved(honest * self.values, self.place)

    def delta(self, honest: int, epsilon: float) -> float:
        opened = self.open_curve(honest)
        if opened is None:
            raise UnsupportedError(f"{self.inner.name} knows no curve of a value that moves")
        curve, distance = opened
        added = (1 + math.exp(min(epsilon, 700.0))) * distance
        return min(1.0, (curve.delta(epsilon) + added) * (1 + 8 * UNIT))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyValues:
    """The accountant of people whose values may be anything: the inner protocol's guarantee for groups.

    >>> inner = PartSpec(name="", protocol="dummies_histogram", parameters={"k": 4}, epsilon=0.5, delta=1e-7)
    >>> made = inner.make(Crowd(n=2000, honest=1.0))
    >>> pairs = AnyValues(inner=made, values=2, promise=Promise(epsilon=1.0, delta=1e-6))
    >>> pairs.guarantee(1000).delta / made.guarantee.delta > 2.6
    True
    """

    inner: ShuffleProtocol
    values: int
    promise: Promise

    def guarantee(self, honest: int) -> Guarantee:
        inner, epsilon = self.inner.guarantee, self.promise.epsilon
        delta = self.delta(honest, epsilon)
        if (
            honest * self.values == inner.honest
            and self.values * Fraction(inner.epsilon) <= epsilon
        ):
            delta = min(delta, grow_delta(inner.delta, self.values, epsilon))
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            model=Model.SHUFFLE,
            proof=f"{self.values} steps from one neighbour to the next; each: {inner.proof}",
            honest=honest,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        step = float_below(Fraction(epsilon) / self.values)
        each = self.inner.accountant.delta(honest * self.values, step)
        return grow_delta(each, self.values, epsilon)


def grow_delta(delta: float, values: int, epsilon: float) -> float:
    """Bound from above the delta of `values` steps of epsilon / values and delta each.

    >>> round(grow_delta(1e-6, 2, 1.0) * 1e6, 3)
    2.649
    """
    return min(1.0, delta * _add_steps(values, epsilon) * (1 + 64 * UNIT))


def _add_steps(values: int, epsilon: float) -> float:
    """Sum the first `values` terms of 1 + e^(epsilon / values) + e^(2 epsilon / values) + ..."""
    step = min(epsilon, 700.0) / values
    return math.fsum(math.exp(place * step) for place in range(values))


@shuffle(name="several_values", task="histogram", title=_TITLE, reference=_REFERENCE)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    values: int,
    inner: str,
    options: Mapping[str, Any],
    apart: bool = False,
) -> Parts:
    """Answer `values` values of each person by the protocol `inner` with its own options; `apart`: in different bins.

    >>> four = make(n=100_000, epsilon=1.0, delta=1e-8, values=4, inner="dummies_histogram", options={"k": 50}, apart=True)
    >>> one = make(n=100_000, epsilon=1.0, delta=1e-8, values=1, inner="dummies_histogram", options={"k": 50})
    >>> import numpy as np
    >>> errors = [float(np.sqrt(each.analyzer.variance(np.full(50, 8_000 * each.values // 4))[0])) for each in (four, one)]
    >>> f"{errors[0] / errors[1]:.2f}", four.guarantee.delta <= 1e-8
    ('1.85', True)
    """
    several = whole("values", values, at_least=1, at_most=_MOST)
    devices = _count_devices(crowd, several)
    part = PartSpec(name=inner, protocol=inner, parameters=dict(options), delta=promise.delta)
    made = _make_for_any(part, devices, promise, several)
    accountant: Accountant = AnyValues(inner=made, values=several, promise=promise)
    if apart and several > 1 and _knows_moved(made, devices):
        near = replace(promise, delta=shorten(promise.delta))
        budget = _find_budget(crowd, near, several, inner, json.dumps(dict(options)))
        other = None if budget is None else replace(part, epsilon=budget).make(devices)
        if other is not None and _measure(other) < _measure(made):
            made, accountant = other, _compose(other, several, promise)
    return Parts(
        made.randomizer,
        made.analyzer,
        accountant=accountant,
        task=made.task,
        values=several,
        resolved={"options": _resolve(made, options)},
        **_offer(made),
    )


@local(name="several_values", task="histogram", title=_TITLE, reference=_REFERENCE)
def make_local(
    *,
    epsilon: float,
    values: int,
    inner: str,
    options: Mapping[str, Any],
) -> Parts:
    """Make it without a shuffler: each value has epsilon / values.

    >>> four = make_local(epsilon=2.0, values=4, inner="krr", options={"k": 8})
    >>> 1.999 < four.guarantee.epsilon <= 2.0
    True
    """
    from shuffledp.protocols import spec

    several = whole("values", values, at_least=1, at_most=_MOST)
    maker = spec(inner).make_local
    if maker is None:
        raise UnsupportedError(f"{inner} is not for the local model")
    each = float_below(Fraction(epsilon) / several)
    made = maker(epsilon=each, **options)
    return Parts(
        made.randomizer,
        made.analyzer,
        task=made.task,
        values=several,
        resolved={"options": _resolve(made, options)},
        **_offer(made),
    )


def _count_devices(crowd: Crowd, values: int) -> Crowd:
    """Return the crowd of values, of which those of the honest people are honest."""
    n = crowd.n * values
    if crowd.trusted == crowd.n:
        return Crowd(n=n, honest=1.0)
    # Half a value more than they have, so that rounding down gives them.
    return Crowd(n=n, honest=(crowd.trusted * values + 0.5) / n)


def _make_for_any(part: PartSpec, devices: Crowd, promise: Promise, values: int) -> ShuffleProtocol:
    epsilon = float_below(Fraction(promise.epsilon) / values)
    delta = promise.delta / (_add_steps(values, promise.epsilon) * (1 + 128 * UNIT))
    return replace(part, epsilon=epsilon, delta=delta).make(devices)


def _knows_moved(made: ShuffleProtocol, devices: Crowd) -> bool:
    moved = made.offers.moved
    return moved is not None and moved(devices.trusted, 0) is not None


def _compose(made: ShuffleProtocol, values: int, promise: Promise) -> Joint:
    if made.offers.moved is None:
        raise ParameterError("inner", made.name, "must know the curve of a value that moves")
    # The last one has the least noise left; with one curve for all, losses add up faster.
    last = MovedValue(inner=made, values=values, place=values - 1)
    return Joint.of([last] * values, promise)


@lru_cache(maxsize=32)
def _find_budget(
    crowd: Crowd, promise: Promise, values: int, inner: str, options: str
) -> float | None:
    """Find nearly the largest epsilon of one value with which all of a person's keep the promise; None if there is none."""
    devices = _count_devices(crowd, values)
    part = PartSpec(name=inner, protocol=inner, parameters=json.loads(options))

    def at(scale: float) -> Tried[float]:
        spent = part.spend(scale / math.sqrt(values), promise)
        assert spent.epsilon is not None
        delta_at = _compose(spent.make(devices), values, promise).open(crowd.trusted)
        reached = math.log(max(delta_at(promise.epsilon), 1e-300))
        return Tried(spent.epsilon, reached, find_excess(delta_at, promise))

    try:
        return search_scale(at, gaussian_scale(promise), math.log(promise.delta))
    except UnsupportedError:
        return None


def _measure(made: ShuffleProtocol) -> float:
    """Return the mean variance of bins where nobody is in one but the first."""
    inputs = np.zeros(made.randomizer.domain.size, dtype=np.int64)
    assert made.users is not None
    inputs[0] = made.users
    return float(np.mean(made.analyzer.variance(inputs)))


def _resolve(made: ShuffleProtocol, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the inner protocol as it was made: what it has drawn or chosen is kept."""
    first = ("n", "epsilon", "delta", "honest")
    return {
        name: value
        for name, value in made.parameters.items()
        if name not in first and (name in options or value is not None)
    }


def _offer(made: ShuffleProtocol) -> dict[str, Any]:
    offers = made.offers.declared()
    return {name: offers[name] for name in _KEPT if name in offers}


SPEC: Spec = register(make, make_local)
