"""The search for the noise of the pure-privacy count: how many messages, which decay, how often.

The noise is a list of integers: of the 2^word_bits words, noise[z] send z ones whatever the bit is.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.accounting.pure_total import MirroredTotal
from shuffledp.core.errors import UnsupportedError

__all__ = ["pure_noise", "total_of", "variance_of"]

_LARGEST = 100_000  # users times messages: totals to be looked at, a second or so for each data set
_MOST = 151  # messages
_MOST_NOISE = 0.9
_AIM = 0.995  # the search is a little stricter than the proof that follows it
_TRIES = 20
_DECAYS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)  # of the noise, as parts of epsilon

Noise = tuple[int, ...]


def total_of(noise: Noise, word_bits: int) -> MirroredTotal:
    """The law of the number of ones, for the accountant.

    >>> total_of((1, 2, 2, 1), 4).shares
    (1, 12, 2, 1)
    """
    shares = list(noise)
    shares[len(noise) // 2 - 1] += (1 << word_bits) - sum(noise)
    return MirroredTotal(shares=tuple(shares))


def variance_of(noise: Noise, word_bits: int, n: int) -> float:
    """n (p V + p (1 - p) / 4) / (1 - p)^2: p is the probability of noise and V its variance.

    >>> round(variance_of((1, 2, 2, 1), 4, 5), 2)
    5.15
    """
    d = len(noise) - 1
    p = Fraction(sum(noise), 1 << word_bits)
    squares = sum(share * (2 * z - d) ** 2 for z, share in enumerate(noise))
    spread = Fraction(squares, 4 * sum(noise))
    return float(n * (p * spread + p * (1 - p) / 4) / (1 - p) ** 2)


@lru_cache(maxsize=64)  # seconds for a thousand users
def pure_noise(epsilon: float, users: int, word_bits: int) -> Noise:
    """The noise with the smallest error that the search finds, and more of it until it is proved.

    >>> noise = pure_noise(1.0, 10, 64)
    >>> total_of(noise, 64).within(1.0, 10)
    True
    """
    chosen = _searched(epsilon, users, word_bits)
    for _ in range(_TRIES):
        noise = chosen.noise
        if noise is None:
            break
        if total_of(noise, word_bits).within(epsilon, users):
            return noise
        chosen = replace(chosen, p=1.02 * chosen.p)
    raise UnsupportedError(f"no parameters for epsilon={epsilon} and {users} honest users found")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """d messages, noise of decay s, drawn with probability p."""

    d: int
    s: float
    p: float
    word_bits: int

    @property
    def noise(self) -> Noise | None:
        """As integers; None if there would be hardly anything else."""
        half = np.exp(-self.s * (np.arange(self.d // 2, -1, -1) + 0.5))
        scale = self.p * 2.0**self.word_bits / (2 * half.sum())
        # At least one word for each number: all totals must be possible for both bits.
        shares = [max(1, math.ceil(scale * mass)) for mass in half.tolist()]
        noise = (*shares, *reversed(shares))
        if self.p > _MOST_NOISE or sum(noise) > _MOST_NOISE * (1 << self.word_bits):
            return None
        return noise

    def safe(self, epsilon: float, users: int) -> bool:
        """Whether the loss seems to be a little less than epsilon."""
        if self.noise is None:
            return False
        total = total_of(self.noise, self.word_bits)
        return total.typical_loss(users, 1.3 * epsilon) <= _AIM * epsilon

    def far_safe(self, epsilon: float) -> bool:
        """The same for unlikely totals alone."""
        if self.noise is None:
            return False
        return total_of(self.noise, self.word_bits).far_loss(1.3 * epsilon) <= _AIM * epsilon


def _searched(epsilon: float, users: int, word_bits: int) -> _Candidate:
    """For each decay the fewest messages and then the least noise; of these the smallest error.

    An error 3 % larger is accepted if it saves messages.
    """
    found: list[tuple[float, _Candidate]] = []
    for part in _DECAYS:
        candidate = _least_noise(part * epsilon, epsilon, users, word_bits)
        noise = None if candidate is None else candidate.noise
        if candidate is not None and noise is not None:
            found.append((math.sqrt(variance_of(noise, word_bits, users)), candidate))
    if not found:
        raise UnsupportedError(
            f"n: {users} honest users cannot hide one of them at epsilon={epsilon} with pure privacy "
            f"and at most {_LARGEST} messages in all, beyond which nothing is proved"
        )
    least = min(error for error, _ in found)
    return min((each for error, each in found if error <= 1.03 * least), key=lambda each: each.d)


def _least_noise(s: float, epsilon: float, users: int, word_bits: int) -> _Candidate | None:
    # About 2.5 users who draw noise are needed at epsilon = 1, and as many more as it is smaller.
    usual = min(0.5, 2.5 / (min(epsilon, 1.0) * users))
    fits = _Candidate(d=3, s=s, p=usual, word_bits=word_bits)
    while fits.d <= _MOST and fits.d * users <= _LARGEST and not fits.far_safe(epsilon):
        fits = replace(fits, d=fits.d + 2)
    if fits.d > _MOST or fits.d * users > _LARGEST:
        return None
    low, high = usual / 8, usual
    while not replace(fits, p=high).safe(epsilon, users):
        low, high = high, high * 1.5
        if high > _MOST_NOISE:
            return None
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        fine = replace(fits, p=middle).safe(epsilon, users)
        low, high = (low, middle) if fine else (middle, high)
    return replace(fits, p=high)
