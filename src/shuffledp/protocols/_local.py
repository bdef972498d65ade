"""How a randomizer with one message per user becomes a protocol, local or shuffled."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from shuffledp.accounting.amplify import ShuffledProfile, calibrate, profile
from shuffledp.accounting.base import SMALLEST_DELTA
from shuffledp.core.analyzer import Analyzer
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Guarantee, View
from shuffledp.core.protocol import (
    Cost,
    Parameters,
    ShuffleProtocol,
    Spec,
    Unconditional,
    honest_users,
)
from shuffledp.core.randomizer import Randomizer
from shuffledp.core.validate import fraction_of_one
from shuffledp.numerics.search import largest_above

__all__ = ["HONEST", "amplified_protocol", "local_protocol", "shuffled_protocol"]

HONEST = 0.9
"""The fraction of users whose noise a shuffled guarantee counts on, unless stated otherwise."""


def local_protocol(
    spec: Spec,
    parameters: Parameters,
    randomizer: Randomizer,
    analyzer: Analyzer,
    *,
    bits_per_message: int,
) -> ShuffleProtocol:
    """P = (R, A) with the guarantee that R's own law certifies."""
    guarantee = Guarantee(
        epsilon=randomizer.epsilon0,
        delta=0.0,
        view=View.LOCAL,
        proof=f"the likelihood ratio of the exact law of {spec.name}",
    )
    return ShuffleProtocol(
        name=spec.name,
        parameters=parameters,
        question=spec.question,
        randomizer=randomizer,
        analyzer=analyzer,
        guarantee=guarantee,
        accountant=Unconditional(always=guarantee),
        local_floor=guarantee,
        cost=Cost(
            messages_mean=1.0,
            messages_max=1,
            bits_per_message=bits_per_message,
            count_depends_on_value=False,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplified:
    """The accountant of one shuffled message per user: amplification at a fixed delta.

    `stated` is what the calibration promised, for the number of honest users that it counted on.
    """

    randomizer: Randomizer
    stated: Guarantee

    def guarantee(self, honest: int) -> Guarantee:
        if honest == self.stated.honest:
            return self.stated
        return _curve(self.randomizer, honest).best(self.stated.delta)


def shuffled_protocol(
    make_local: Callable[..., ShuffleProtocol],
    *,
    n: int,
    epsilon: float,
    delta: float,
    honest: float,
    shape: Callable[[Any], int] | None = None,
    **parameters: Any,
) -> ShuffleProtocol:
    """The local protocol at the largest epsilon0 whose shuffled messages are (epsilon, delta)-private.

    `shape` is for randomizers whose alphabet changes with epsilon0 (the number of blocks, the size of
    the sets): there the safe epsilon0 can be several intervals, one for each shape.
    """
    fraction_of_one("delta", delta)  # with delta = 0 the local protocol is all there is
    users = honest_users(n, honest)

    def local(epsilon0: float) -> ShuffleProtocol:
        return make_local(epsilon=epsilon0, **parameters)

    @cache
    def spare(epsilon0: float) -> float:
        curve = _curve(local(epsilon0).randomizer, users)
        return math.log(delta / max(curve.delta(epsilon), SMALLEST_DELTA))

    # What holds for every local randomizer holds for this one.
    least = calibrate(n=users, epsilon=epsilon, delta=delta)
    epsilon0 = _largest(spare, least)
    if shape is not None:
        epsilon0 = _beyond(spare, epsilon0, lambda e: shape(local(e).randomizer))
    stated = {"n": n, "epsilon": epsilon, "delta": delta, "honest": honest, **parameters}
    return amplified_protocol(local(epsilon0), stated)


def amplified_protocol(local: ShuffleProtocol, parameters: Parameters) -> ShuffleProtocol:
    """A local protocol with the guarantee of its shuffled messages, checked for its exact law.

    `parameters` are those of the shuffle model: n, epsilon, delta, honest and the protocol's own.
    """
    n, epsilon, delta = parameters["n"], parameters["epsilon"], parameters["delta"]
    curve = _curve(local.randomizer, honest_users(n, parameters["honest"]))
    certified = _certified(curve, epsilon, delta)
    accountant = Amplified(randomizer=local.randomizer, stated=certified)
    return replace(
        local, parameters=parameters, guarantee=certified, accountant=accountant, users=n
    )


def _certified(curve: ShuffledProfile, epsilon: float, delta: float) -> Guarantee:
    reached, proof = min((bound.curve.delta(epsilon), bound.proof) for bound in curve.bounds)
    if reached > delta:
        raise UnsupportedError(
            f"epsilon={epsilon} and delta={delta} do not hold with {curve.honest} honest users: "
            f"delta would be {reached:.3g}"
        )
    return Guarantee(
        epsilon=epsilon, delta=delta, view=View.SHUFFLED, proof=proof, honest=curve.honest
    )


def _curve(randomizer: Randomizer, honest: int) -> ShuffledProfile:
    curve = profile(randomizer=randomizer, n=honest)
    binary = tuple(bound for bound in curve.bounds if bound.name == "binary")
    # Where the exact accountant of a bit applies, the others cost time and give nothing more.
    return replace(curve, bounds=binary) if binary else curve


def _largest(spare: Callable[[float], float], least: float) -> float:
    """Nearly the largest safe epsilon0 from `least` on, which is safe."""
    low, step = least, 0.25
    while low + step < _LARGEST_EPSILON0 and spare(low + step) > 0:
        low, step = low + step, 2 * step
    return largest_above(
        spare, end=low + step, guess=low + step / 2, tolerance=_TOLERANCE, floor=low
    )


def _beyond(
    spare: Callable[[float], float], epsilon0: float, shape: Callable[[float], int]
) -> float:
    """Where the shape changes above epsilon0 the messages may become private again: look there."""
    start, here = epsilon0, shape(epsilon0)
    for step in range(1, _STEPS + 1):
        candidate = start + step * _STEP
        changed = shape(candidate)
        if changed == here:
            continue
        here = changed
        if spare(candidate) > 0:
            epsilon0 = max(epsilon0, _largest(spare, candidate))
    return epsilon0


_LARGEST_EPSILON0 = 60.0
_TOLERANCE = 1e-4
_STEP, _STEPS = 0.02, 50  # shapes change when e^epsilon0 doubles, or more often
