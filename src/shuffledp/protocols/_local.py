"""How a randomizer and its analyzer become a local protocol with one message per user."""

from shuffledp.core.analyzer import Analyzer
from shuffledp.core.privacy import Guarantee, View
from shuffledp.core.protocol import Cost, Parameters, ShuffleProtocol, Spec
from shuffledp.core.randomizer import Randomizer

__all__ = ["local_protocol"]


def local_protocol(
    spec: Spec,
    parameters: Parameters,
    randomizer: Randomizer,
    analyzer: Analyzer,
    *,
    bits_per_message: int,
) -> ShuffleProtocol:
    """P = (R, A) with the guarantee that R's own law certifies."""
    return ShuffleProtocol(
        name=spec.name,
        parameters=parameters,
        question=spec.question,
        randomizer=randomizer,
        analyzer=analyzer,
        guarantee=Guarantee(
            epsilon=randomizer.epsilon0,
            delta=0.0,
            view=View.LOCAL,
            proof=f"the likelihood ratio of the exact law of {spec.name}",
        ),
        cost=Cost(
            messages_mean=1.0,
            messages_max=1,
            bits_per_message=bits_per_message,
            count_depends_on_value=False,
        ),
    )
