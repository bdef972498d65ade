"""What the protocols share whose users add noise messages: how much noise, and what it promises.

N noise messages, N ~ Bin(m, gamma) from m honest users, hide one message more or less. gamma comes

- from the law itself (`exact`): the smallest gamma whose delta is small enough, or
- from the theorem of Balcer and Cheu 2020, "Separating local and shuffled differential privacy via
  histograms" (`paper`): gamma = 50 ln(2 / delta) / (epsilon^2 m) for epsilon, delta in (0, 1] and
  m >= 100 ln(2 / delta) / epsilon^2, so that gamma <= 1/2.

Either way the guarantee is then computed from the gamma that is sampled.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shuffledp.accounting.central import BinomialCount
from shuffledp.core.analyzer import Analyzer, Tally, message_tally
from shuffledp.core.arrays import Bools, Codes
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import (
    Accountant,
    Calibration,
    Cost,
    Parameters,
    ShuffleProtocol,
    Spec,
    honest_users,
)
from shuffledp.core.randomizer import Messages, Randomizer
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import fraction_of_one, number, positive, whole
from shuffledp.numerics.search import smallest_parameter

__all__ = [
    "Accuracy",
    "OneCount",
    "assembled",
    "count_gamma",
    "counted_ones",
    "exact_gamma",
    "paper_gamma",
    "sent_ones",
]


class Accuracy(NamedTuple):
    """The error is at most `radius`, except with probability at most `failure`."""

    radius: float
    failure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCount:
    """The accountant of one count hidden by Bin(honest, gamma) noise messages.

    >>> OneCount(epsilon=1.0, gamma=Fraction(1, 20)).guarantee(honest=1000).delta < 1e-8
    True
    """

    epsilon: float
    gamma: Fraction

    def guarantee(self, honest: int) -> Guarantee:
        noise = BinomialCount(n=honest, gamma=self.gamma)
        return Guarantee(
            epsilon=self.epsilon,
            delta=noise.delta(self.epsilon),
            model=Model.SHUFFLE,
            proof="both tails of the binomial law of the noise (protocol: Balcer, Cheu 2020)",
            honest=honest,
        )


def assembled(
    spec: Spec,
    parameters: Parameters,
    randomizer: Randomizer,
    analyzer: Analyzer,
    accountant: Accountant,
    cost: Cost,
) -> ShuffleProtocol:
    """P = (R, A) with the guarantee for the honest share of its n users; no local floor."""
    n: int = parameters["n"]
    return ShuffleProtocol(
        name=spec.name,
        parameters=parameters,
        task=spec.task,
        randomizer=randomizer,
        analyzer=analyzer,
        guarantee=accountant.guarantee(honest_users(n, parameters["honest"])),
        accountant=accountant,
        cost=cost,
        users=n,
    )


def count_gamma(
    *, n: int, epsilon: float, delta: float, honest: float, calibration: Calibration, bits: int
) -> Fraction:
    """gamma for one count, as `calibration` says.

    >>> gamma = count_gamma(n=1000, epsilon=1.0, delta=1e-6, honest=1.0,
    ...                     calibration=Calibration.EXACT, bits=64)
    >>> round(float(1000 * gamma), 2)
    34.0
    """
    whole("word_bits", bits, at_least=1, at_most=64)
    users = honest_users(n, honest)
    choose = exact_gamma if calibration is Calibration.EXACT else paper_gamma
    return choose(honest=users, epsilon=epsilon, delta=delta, bits=bits)


def paper_gamma(*, honest: int, epsilon: float, delta: float, bits: int) -> Fraction:
    """50 ln(2 / delta) / (epsilon^2 honest), rounded up to a multiple of 2^-bits.

    >>> round(float(paper_gamma(honest=10_000, epsilon=1.0, delta=1e-6, bits=64)), 5)
    0.07254
    >>> paper_gamma(honest=1450, epsilon=1.0, delta=1e-6, bits=64)
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: the theorem needs 100 ln(2/delta)/epsilon^2 = 1450.9 honest users, and has 1450
    """
    positive("epsilon", epsilon)
    if not 0 < number("delta", delta) <= 1:
        raise ParameterError("delta", delta, "must be > 0 and <= 1")
    if epsilon > 1:
        raise UnsupportedError(f"the theorem is for epsilon <= 1, not epsilon={epsilon!r}")
    log = Fraction(math.log(2 / delta) * (1 + 1e-15))  # rounded up
    level = 50 * log / Fraction(epsilon) ** 2
    if 2 * level > honest:
        raise UnsupportedError(
            f"the theorem needs 100 ln(2/delta)/epsilon^2 = {float(2 * level):.1f} honest users, "
            f"and has {honest}"
        )
    # At most 1/2, which is a multiple of 2^-bits, so rounding up does not pass it.
    return _dyadic(level / honest, bits)


def exact_gamma(*, honest: int, epsilon: float, delta: float, bits: int) -> Fraction:
    """Nearly the smallest gamma <= 1/2 whose delta is at most `delta`: a multiple of 2^-bits.

    delta is not perfectly monotone in gamma (ripples of some percent); the gamma returned was itself
    certified.

    >>> round(float(exact_gamma(honest=10**6, epsilon=0.1, delta=1e-6, bits=64)) * 10**6, 1)
    1410.4
    """
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)

    def excess(gamma: float) -> float:
        noise = BinomialCount(n=honest, gamma=_dyadic(Fraction(gamma), bits))
        return math.log(noise.delta(epsilon) / delta)

    guess = min(math.log(1 / delta) * (1 / epsilon**2 + 0.5) / honest, 0.5)
    gamma = smallest_parameter(excess, guess=guess, largest=0.5)
    if gamma is None:
        raise UnsupportedError(
            f"{honest} honest users are too few for epsilon={epsilon!r}, delta={delta!r}: even with a "
            "noise message from every second user the count is not hidden well enough"
        )
    return _dyadic(Fraction(gamma), bits)


def _dyadic(x: Fraction, bits: int) -> Fraction:
    return Fraction(math.ceil(x * 2**bits), 2**bits)


def sent_ones(inputs: Codes, noise: Bools) -> Messages:
    """x + z copies of the message 1 from each user.

    >>> sent_ones(np.array([0, 1, 1]), np.array([False, False, True])).owner
    array([1, 2, 2])
    """
    copies = inputs.astype(np.int64) + noise
    owner = np.repeat(np.arange(len(inputs)), copies)
    return Messages(payload=np.ones(len(owner), dtype=np.uint8), owner=owner, users=len(inputs))


def counted_ones(shuffled: Shuffled) -> Tally:
    """How many messages there are; all of them must be 1.

    >>> counted_ones(Shuffled(payload=np.array([1, 1, 1]), users=2)).counts
    array([3])
    """
    tally = message_tally(shuffled, 2)
    if tally.counts[0]:
        raise DataError("a message is 0, and only 1 is ever sent")
    return Tally(counts=tally.counts[1:], users=tally.users)
