r"""Several answers of one curator about the same people: what each may spend.

A release that is epsilon0-DP with delta = 0 reveals no more than one bit x, kept with probability e^epsilon0 / (1 + e^epsilon0)
and flipped otherwise (Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy"): its loss is
epsilon0 or -epsilon0. The losses of several releases add up, and

    delta(epsilon) = sum over losses s of P(s) (1 - e^(epsilon - s))_+

is exact for such bits, and an upper bound for everything that they dominate. A histogram with independent noise in its
bins changes in two of them, by 1 each: two bits with half of its epsilon0, which is less than one bit with all of it.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.protocol import Promise
from shuffledp.core.validate import whole

__all__ = ["Release", "compose_bits", "share"]

_SLACK = 1 + 1e-9  # above the rounding of some hundred products and sums
_TRIES = 60


class Release(NamedTuple):
    """One of several answers: how many times the common epsilon it has, and whether it is a histogram."""

    weight: int
    histogram: bool


def compose_bits(epsilon0: float, releases: Iterable[Release], *, epsilon: float) -> float:
    """At least the delta, at this epsilon, of these releases, each with its weight times epsilon0.

    >>> round(compose_bits(1.0, [Release(1, False)], epsilon=0.0), 6)  # (e - 1) / (e + 1)
    0.462117
    >>> compose_bits(0.5, [Release(1, False)] * 2, epsilon=1.0)
    0.0
    """
    law: Floats = np.ones(1)  # of the sum of the losses, in halves of epsilon0
    for weight, histogram in releases:
        step, times = (weight, 2) if histogram else (2 * weight, 1)
        kept = 1 / (1 + math.exp(-step * epsilon0 / 2))
        for _ in range(times):
            more = np.zeros(len(law) + 2 * step)
            more[: len(law)] = (1 - kept) * law
            more[2 * step :] += kept * law
            law = more
    reach = (len(law) - 1) // 2
    losses = np.arange(-reach, reach + 1) * (epsilon0 / 2)
    beyond = losses > epsilon * (1 + 1e-15)
    return float(law[beyond] @ -np.expm1(epsilon - losses[beyond])) * _SLACK


def share(promise: Promise, releases: Sequence[Release]) -> float:
    """Return the epsilon that a release of weight 1 may have: the others have theirs times it.

    >>> share(Promise(epsilon=1.0, delta=0.0), [Release(3, False), Release(1, True)])
    0.25
    >>> round(share(Promise(epsilon=1.0, delta=1e-6), [Release(1, True)] * 20), 4)
    0.0777
    """
    whole("questions", len(releases), at_least=1)
    low = promise.epsilon / sum(each.weight for each in releases)
    if not promise.delta or len(releases) == 1:
        return low
    high = promise.epsilon / max(each.weight for each in releases)
    for _ in range(_TRIES):
        middle = (low + high) / 2
        spent = compose_bits(middle, releases, epsilon=promise.epsilon)
        low, high = (middle, high) if spent <= promise.delta else (low, middle)
    return low
