"""Check any privacy claim by computation, from the outside.

`exact` computes the privacy of any finite randomizer, ours or yours (`channel`, `enumerate_tape`), in the
local, pre-shuffled and shuffled view. `empirical` samples a black box and returns a lower bound on its
epsilon. `separations` holds statements about the models, as programs that check them; `least_loss` is what no
private count can beat.
"""

from shuffledp.audit import separations
from shuffledp.audit.black_box import (
    CountedEvent,
    EmpiricalAudit,
    GaussianAudit,
    empirical,
    empirical_gaussian,
)
from shuffledp.audit.enumeration import (
    Channel,
    ExactAudit,
    bounds,
    channel,
    enumerate_tape,
    exact,
    fraction,
    profile,
    pure_epsilon,
    pure_ratio,
)
from shuffledp.audit.search import Bounds
from shuffledp.audit.separations import geometric_loss, least_loss

__all__ = [
    "Bounds",
    "Channel",
    "CountedEvent",
    "EmpiricalAudit",
    "ExactAudit",
    "GaussianAudit",
    "bounds",
    "channel",
    "empirical",
    "empirical_gaussian",
    "enumerate_tape",
    "exact",
    "fraction",
    "geometric_loss",
    "least_loss",
    "profile",
    "pure_epsilon",
    "pure_ratio",
    "separations",
]
