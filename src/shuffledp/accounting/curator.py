r"""Several answers of one curator about the same people: what each may spend.

A release that is epsilon0-DP with delta = 0 reveals no more than one bit x, kept with probability e^epsilon0 / (1 + e^epsilon0)
and flipped otherwise (Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy"): its loss is
epsilon0 or -epsilon0. The losses of several releases add up, and

    delta(epsilon) = sum over losses s of P(s) (1 - e^(epsilon - s))_+

is exact for such bits, and an upper bound for everything that they dominate. A histogram with independent noise in its
bins changes in two of them, by 1 each: two bits with half of its epsilon0, which is less than one bit with all of it.
"""

import math

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.protocol import Promise
from shuffledp.core.validate import whole

__all__ = ["compose_bits", "share_evenly"]

_SLACK = 1 + 1e-9  # above the rounding of some hundred products and sums
_TRIES = 60


def compose_bits(epsilon0: float, *, singles: int, histograms: int, epsilon: float) -> float:
    """At least the delta, at this epsilon, of so many releases and histograms with epsilon0 each.

    >>> round(compose_bits(1.0, singles=1, histograms=0, epsilon=0.0), 6)  # (e - 1) / (e + 1)
    0.462117
    >>> compose_bits(0.5, singles=2, histograms=0, epsilon=1.0)
    0.0
    """
    law: Floats = np.ones(1)
    for epsilon_bit, step, count in ((epsilon0, 2, singles), (epsilon0 / 2, 1, 2 * histograms)):
        kept = 1 / (1 + math.exp(-epsilon_bit))
        bit = np.zeros(2 * step + 1)
        bit[0], bit[-1] = 1 - kept, kept
        for _ in range(count):
            law = np.convolve(law, bit)
    reach = (len(law) - 1) // 2
    losses = np.arange(-reach, reach + 1) * (epsilon0 / 2)
    beyond = losses > epsilon * (1 + 1e-15)
    return float(law[beyond] @ -np.expm1(epsilon - losses[beyond])) * _SLACK


def share_evenly(promise: Promise, *, singles: int, histograms: int) -> float:
    """Return the epsilon that each of so many releases and histograms may have, the same for all.

    >>> share_evenly(Promise(epsilon=1.0, delta=0.0), singles=2, histograms=2)
    0.25
    >>> round(share_evenly(Promise(epsilon=1.0, delta=1e-6), singles=0, histograms=20), 4)
    0.0777
    """
    count = whole("questions", singles + histograms, at_least=1)
    low = promise.epsilon / count
    if not promise.delta or count == 1:
        return low
    high = promise.epsilon
    for _ in range(_TRIES):
        middle = (low + high) / 2
        spent = compose_bits(
            middle, singles=singles, histograms=histograms, epsilon=promise.epsilon
        )
        low, high = (middle, high) if spent <= promise.delta else (low, middle)
    return low
