"""How a randomizer with one message per user becomes a protocol, local or shuffled."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from shuffledp.accounting.amplify import calibrate, profile
from shuffledp.core.analyzer import Analyzer
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

__all__ = ["HONEST", "local_protocol", "shuffled_protocol"]

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
    """The accountant of one shuffled message per user: amplification at a fixed delta."""

    randomizer: Randomizer
    delta: float

    def guarantee(self, honest: int) -> Guarantee:
        return profile(randomizer=self.randomizer, n=honest).best(self.delta)


def shuffled_protocol(
    make_local: Callable[..., ShuffleProtocol],
    *,
    n: int,
    epsilon: float,
    delta: float,
    honest: float,
    **parameters: Any,
) -> ShuffleProtocol:
    """The local protocol at the largest epsilon0 whose shuffled messages are (epsilon, delta)-private."""
    fraction_of_one("delta", delta)  # with delta = 0 the local protocol is all there is

    def randomizer(epsilon0: float) -> Randomizer:
        return make_local(epsilon=epsilon0, **parameters).randomizer

    epsilon0 = calibrate(n=n, epsilon=epsilon, delta=delta, honest=honest, randomizer=randomizer)
    local = make_local(epsilon=epsilon0, **parameters)
    accountant = Amplified(randomizer=local.randomizer, delta=delta)
    certified = accountant.guarantee(honest_users(n, honest))
    stated = {"n": n, "epsilon": epsilon, "delta": delta, "honest": honest, **parameters}
    return replace(local, parameters=stated, guarantee=certified, accountant=accountant, users=n)
