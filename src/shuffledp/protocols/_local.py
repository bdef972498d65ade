"""How a randomizer with one message per user becomes a protocol, local or shuffled."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from shuffledp.accounting.amplify import ShuffledProfile, calibrate, profile
from shuffledp.accounting.base import SMALLEST_DELTA
from shuffledp.accounting.binary import BinaryResponse, gaussian_epsilon0
from shuffledp.core.analyzer import Analyzer
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import (
    Cost,
    Parameters,
    ShuffleProtocol,
    Spec,
    Unconditional,
    honest_users,
)
from shuffledp.core.randomizer import Randomizer
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.numerics.search import largest_above

__all__ = ["amplified_protocol", "local_protocol", "shuffled_protocol"]


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
        model=Model.LOCAL,
        proof=f"the likelihood ratio of the exact law of {spec.name}",
    )
    return ShuffleProtocol(
        name=spec.name,
        parameters=parameters,
        task=spec.task,
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
    shape: Callable[[float], int] | None = None,
    **parameters: Any,
) -> ShuffleProtocol:
    """The local protocol at the largest epsilon0 whose shuffled messages are (epsilon, delta)-private.

    `shape` is for randomizers whose alphabet changes with epsilon0: it says which (the number of blocks,
    the size of the sets). There the safe epsilon0 can be several intervals, one for each shape.
    """
    fraction_of_one("delta", delta)  # with delta = 0 the local protocol is all there is
    users = honest_users(n, honest)
    n = whole("n", n, at_least=1)
    parameters = {name: _plain(value) for name, value in parameters.items()}

    def local(epsilon0: float) -> ShuffleProtocol:
        return make_local(epsilon=epsilon0, **parameters)

    # What holds for every local randomizer holds for this one.
    least = calibrate(n=users, epsilon=epsilon, delta=delta)

    @cache
    def reached(epsilon0: float) -> tuple[float, str]:
        curve = _curve(local(epsilon0).randomizer, users)
        return _reached(curve if epsilon0 <= least else _own(curve), epsilon)

    def spare(epsilon0: float) -> float:
        return math.log(delta / max(reached(epsilon0)[0], SMALLEST_DELTA))

    def response(epsilon0: float) -> BinaryResponse | None:
        curve = _curve(local(epsilon0).randomizer, users).bounds[0].curve
        return curve if isinstance(curve, BinaryResponse) else None

    epsilon0 = _largest_of_bits(spare, least, response, epsilon, delta) or _largest(spare, least)
    if shape is not None:
        epsilon0 = _beyond(spare, epsilon0, shape)
    stated = {"n": n, "epsilon": epsilon, "delta": delta, "honest": honest, **parameters}
    return _amplified(local(epsilon0), stated, reached(epsilon0))


def _plain(value: object) -> object:
    """Python's own number for one of NumPy's, which would overflow, and which JSON does not know."""
    return value.item() if isinstance(value, np.generic) else value


def amplified_protocol(local: ShuffleProtocol, parameters: Parameters) -> ShuffleProtocol:
    """A local protocol with the guarantee of its shuffled messages, checked for its exact law.

    `parameters` are those of the shuffle model: n, epsilon, delta, honest and the protocol's own.
    """
    curve = _curve(local.randomizer, honest_users(parameters["n"], parameters["honest"]))
    return _amplified(local, parameters, _reached(curve, parameters["epsilon"]))


def _amplified(
    local: ShuffleProtocol, parameters: Parameters, reached: tuple[float, str]
) -> ShuffleProtocol:
    """With what `_reached` says of the local protocol at these parameters."""
    n, epsilon, delta = parameters["n"], parameters["epsilon"], parameters["delta"]
    users = honest_users(n, parameters["honest"])
    if reached[0] > delta:
        raise UnsupportedError(
            f"epsilon={epsilon} and delta={delta} do not hold with {users} honest users: "
            f"delta would be {reached[0]:.3g}"
        )
    certified = Guarantee(
        epsilon=epsilon, delta=delta, model=Model.SHUFFLE, proof=reached[1], honest=users
    )
    accountant = Amplified(randomizer=local.randomizer, stated=certified)
    return replace(
        local, parameters=parameters, guarantee=certified, accountant=accountant, users=n
    )


def _reached(curve: ShuffledProfile, epsilon: float) -> tuple[float, str]:
    """The best delta at epsilon, and its proof."""
    return min((bound.curve.delta(epsilon), bound.proof) for bound in curve.bounds)


def _own(curve: ShuffledProfile) -> ShuffledProfile:
    """Without the bounds of every randomizer, which have nothing to add above the `least` epsilon0."""
    own = tuple(bound for bound in curve.bounds if not bound.name.startswith("clones"))
    return replace(curve, bounds=own) if own else curve


def _curve(randomizer: Randomizer, honest: int) -> ShuffledProfile:
    curve = profile(randomizer=randomizer, n=honest)
    binary = tuple(bound for bound in curve.bounds if bound.name == "binary")
    # Where the exact accountant of a bit applies, the others cost time and give nothing more.
    return replace(curve, bounds=binary) if binary else curve


def _largest(spare: Callable[[float], float], least: float) -> float:
    """Nearly the largest safe epsilon0 from `least` on, which is safe."""
    return largest_above(
        lambda epsilon0: 1.0 if epsilon0 <= least else spare(epsilon0),
        end=_LARGEST_EPSILON0,
        guess=least + 0.1,
        tolerance=_TOLERANCE,
        floor=least,
    )


def _largest_of_bits(
    spare: Callable[[float], float],
    least: float,
    response: Callable[[float], BinaryResponse | None],
    epsilon: float,
    delta: float,
) -> float | None:
    """The same for binary randomized response, where asking is dear: its worst data sets say where.

    None if this is not one, or if nothing safe was found soon.
    """
    first = response(least)
    if first is None:
        return None
    epsilon0 = max(gaussian_epsilon0(n=first.n, epsilon=epsilon, delta=delta), least)
    for _ in range(_TRIES):
        here = response(epsilon0)
        if here is None:
            return None
        further = here.better_epsilon0(epsilon, delta)
        if spare(epsilon0) > 0 and further <= epsilon0 * (1 + _TOLERANCE):
            return epsilon0
        epsilon0 = max(further * (1 - _TOLERANCE / 4), least)
    return None


def _beyond(
    spare: Callable[[float], float], epsilon0: float, shape: Callable[[float], int]
) -> float:
    """Where the shape changes above epsilon0 the messages may become private again: look there."""
    start, failures = epsilon0, 0
    for step in range(_STEPS):
        low, high = start + step * _STEP, start + (step + 1) * _STEP
        if shape(low) == shape(high):
            continue
        candidate = _first_of(shape, low, high)
        if spare(candidate) > 0:
            epsilon0, failures = max(epsilon0, _largest(spare, candidate)), 0
            continue
        failures += 1
        if failures == _FAILURES:
            break
    return epsilon0


def _first_of(shape: Callable[[float], int], low: float, high: float) -> float:
    """About the smallest epsilon0 between with the shape of `high`: its most private one."""
    wanted = shape(high)
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if shape(middle) == wanted else (middle, high)
    return high


_LARGEST_EPSILON0 = 60.0
_TOLERANCE = 1e-4
_TRIES = 6
_STEP, _STEPS = 0.02, 50  # shapes change when e^epsilon0 doubles, or more often
_FAILURES = 5  # in a row: with ever less noise it will not get better
