"""What counting and histograms with correlated noise share: calibration, guarantee, small laws."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from shuffledp.accounting.correlated import CorrelatedNoise, flood_level, published_flood
from shuffledp.accounting.floods import NegativeBinomialFlood
from shuffledp.accounting.thinned import ThinnedNoise
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import Calibration
from shuffledp.core.randomizer import Law
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.numerics.rounding import exp_lower

__all__ = [
    "NOTHING",
    "CorrelatedAccountant",
    "CorrelatedRandomizer",
    "Split",
    "VectorLaw",
    "calibrated",
    "message_law",
    "summed",
]

VectorLaw = dict[tuple[int, ...], Fraction]
"""Probability of each vector of message counts."""

NOTHING = Fraction(0)

_SMALL_TAPE = 20
_MOST_SUMS = 3_000_000
_LEAST_STAR = 5e-5  # e^-star to the millionth, the longest table, is then not yet 2^-72
_LEAST_DELTA = 1e-60
_PROOF = (
    "the exact divergence of the sampled noise, Ghazi, Kumar, Manurangsi, Pagh 2020 "
    "(correlated noise; accounting/correlated)"
)


class CorrelatedRandomizer(Protocol):
    """What the accountant needs to know about the noise of one user."""

    @property
    def star(self) -> float:
        """The rate of the noise that stays in the answer."""

    @property
    def p_flood(self) -> float:
        """The p of the flood."""

    @property
    def noise_share(self) -> Fraction:
        """One user's r of each of the two noises of a bin: their sum is Geom(e^-star) at r = 1."""

    @property
    def flood_share(self) -> Fraction:
        """One user's r of the flood of a bin."""

    @property
    def word_bits(self) -> int:
        """Bits in one word."""

    @property
    def words_per_input(self) -> int:
        """Words of one user."""

    @property
    def neighbours(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What one user adds to the message counts with one value and with another."""

    def distance(self, users: int) -> float:
        """At least the distance between the sampled and the ideal noise of the bins concerned."""

    def noise_law(self) -> VectorLaw:
        """The exact law of one user's noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How epsilon is used: `star` by the noise, `losing` by the bin that loses a person.

    >>> Split.of_count(1.0, 0.1), Split.of_histogram(1.0, 0.1)
    (Split(star=0.9, losing=1.0), Split(star=0.45, losing=0.55))
    """

    star: float
    losing: float

    @classmethod
    def of_count(cls, epsilon: float, gap: float) -> "Split":
        """The gaining direction is pure star <= epsilon, the losing one has all of epsilon."""
        losing = positive("epsilon", epsilon)
        return cls(star=(1 - gap) * losing, losing=losing)

    @classmethod
    def of_histogram(cls, epsilon: float, gap: float) -> "Split":
        """One bin gains (pure star), one loses; they are independent, so their epsilons add."""
        both = positive("epsilon", epsilon)
        star = (1 - gap) * both / 2
        return cls(star=star, losing=both - star)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedAccountant:
    """delta at a fixed epsilon, for any number of honest users.

    Ideal noise: accounting/correlated, with the r that so many shares add up to (more of it is
    post-processing), or accounting/thinned if the shares of Geom(p) add up to less than the whole.
    The distance between the ideal and the sampled noise is added, (1 + e^epsilon) times.

    For a tape of a few bits the divergence is computed from the sampled law itself.
    """

    randomizer: CorrelatedRandomizer
    epsilon: float
    split: Split

    def guarantee(self, honest: int) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta(honest),
            model=Model.SHUFFLE,
            proof=_PROOF,
            honest=honest,
        )

    def delta(self, honest: int) -> float:
        """At least the true delta."""
        bound = min(1.0, self._bound(honest))
        return min(bound, self._direct(honest)) if self.small else bound

    def _bound(self, honest: int) -> float:
        noise = self.randomizer
        r = math.nextafter(float(honest * noise.flood_share), 0.0)
        flood = NegativeBinomialFlood(r=r, p=noise.p_flood)
        share = honest * noise.noise_share
        whole = CorrelatedNoise(epsilon_star=noise.star, flood=flood)
        if share >= 1:
            # Rounding down what the losing bin may use raises delta.
            ideal = whole.losing(math.nextafter(self.split.losing, 0.0))
        else:
            part = math.nextafter(float(share), 0.0)
            ideal = self._thinned(ThinnedNoise(epsilon_star=noise.star, share=part, flood=flood))
        return ideal + self.overhead(honest)

    def overhead(self, honest: int) -> float:
        """What the distance between the ideal and the sampled noise adds to delta."""
        apart = self.randomizer.distance(honest) * (1 + 1e-12)
        return (1 + math.exp(min(self.epsilon, 700.0))) * apart

    @property
    def small(self) -> bool:
        """Whether the tape is so short that the sampled law is computed itself."""
        return self.randomizer.word_bits * self.randomizer.words_per_input <= _SMALL_TAPE

    def _thinned(self, noise: ThinnedNoise) -> float:
        try:
            if self.split.losing == self.epsilon:  # one bin: it loses or it gains
                return max(noise.losing(self.epsilon), noise.gaining(self.epsilon))
            # Two bins: the gaining one is pure, or both share epsilon.
            left = (self.epsilon - noise.pure) * (1 - 1e-12)
            half = self.epsilon / 2 * (1 - 1e-12)
            shared = noise.losing(half) + noise.gaining(half)
            return min(shared, noise.losing(left)) if left > 0 else shared
        except UnsupportedError:
            return 1.0

    def _direct(self, honest: int) -> float:
        law = self.randomizer.noise_law()
        if len(law) ** honest > _MOST_SUMS:
            return 1.0
        total = law
        for _ in range(honest - 1):
            total = summed(total, law)
        one, other = (_shifted(total, unit) for unit in self.randomizer.neighbours)
        ratio = exp_lower(self.epsilon)
        return float(max(_divergence(one, other, ratio), _divergence(other, one, ratio)))


_Randomizer = TypeVar("_Randomizer", bound=CorrelatedRandomizer)


def _refuse_hopeless(epsilon: float, delta: float, split: Split) -> None:
    """What tables of 64-bit words cannot sample is refused before the flood is searched for."""
    if split.star < _LEAST_STAR:
        raise UnsupportedError(
            f"epsilon={epsilon!r} is too small: the noise is too long for a table"
        )
    if delta < _LEAST_DELTA:
        raise UnsupportedError(f"delta={delta!r} is out of reach of tables of 64-bit words")


def calibrated(
    build: Callable[[NegativeBinomialFlood], _Randomizer],
    *,
    epsilon: float,
    delta: float,
    gap: float,
    split: Split,
    honest: int,
    calibration: Calibration,
) -> tuple[_Randomizer, CorrelatedAccountant]:
    """The randomizer with (nearly) the smallest flood that is certified, or the published one."""
    if calibration is Calibration.PAPER:
        published = build(_published(epsilon, delta, gap, split))
        return published, CorrelatedAccountant(randomizer=published, epsilon=epsilon, split=split)
    target = fraction_of_one("delta", delta)
    _refuse_hopeless(epsilon, delta, split)
    # The tables are a little off and the search is for the ideal noise: aim lower until it fits.
    for _ in range(20):
        flood = flood_level(epsilon=split.losing, epsilon_star=split.star, delta=target)
        randomizer = build(flood)
        accountant = CorrelatedAccountant(randomizer=randomizer, epsilon=epsilon, split=split)
        certified = accountant.delta(honest)
        if certified <= delta:
            return randomizer, accountant
        target *= (1 - 1e-9) * (delta / certified) ** 3
        if target < 1e-9 * delta or (accountant.overhead(honest) >= delta and not accountant.small):
            break
    raise UnsupportedError(
        f"delta={delta!r} is out of reach with words of {randomizer.word_bits} bits"
    )


def _published(epsilon: float, delta: float, gap: float, split: Split) -> NegativeBinomialFlood:
    # The gap as a fraction of the epsilon of the bin that loses, which is what the theorem is about.
    own = 1 - split.star / split.losing
    if split.losing > 1 or delta >= 0.5 or own > 0.5:
        raise UnsupportedError(
            f"epsilon={epsilon!r}, delta={delta!r}, gap={gap!r}: the published constants are for "
            "one bin with epsilon <= 1, delta < 1/2, gap <= 1/2; use calibration='exact'"
        )
    return published_flood(epsilon=split.losing, gap=own, delta=delta)


def summed(a: VectorLaw, b: VectorLaw) -> VectorLaw:
    """The law of the sum of two independent vectors.

    >>> coin = {(0,): Fraction(1, 2), (1,): Fraction(1, 2)}
    >>> summed(coin, coin)[(1,)]
    Fraction(1, 2)
    """
    law: VectorLaw = {}
    for x, left in a.items():
        for y, right in b.items():
            key = tuple(map(int.__add__, x, y))
            law[key] = law.get(key, NOTHING) + left * right
    return law


def message_law(noise: VectorLaw, unit: tuple[int, ...]) -> Law:
    """The law of the messages of a user who adds `unit` to the counts of the noise.

    >>> message_law({(0, 2): Fraction(1)}, (1, 0))
    {(0, 1, 1): Fraction(1, 1)}
    """
    law: Law = {}
    for counts, mass in _shifted(noise, unit).items():
        sent = tuple(message for message, count in enumerate(counts) for _ in range(count))
        law[sent] = mass
    return law


def _shifted(law: VectorLaw, unit: tuple[int, ...]) -> VectorLaw:
    return {tuple(map(int.__add__, counts, unit)): mass for counts, mass in law.items()}


def _divergence(a: VectorLaw, b: VectorLaw, ratio: Fraction) -> Fraction:
    return sum(
        (max(NOTHING, mass - ratio * b.get(counts, NOTHING)) for counts, mass in a.items()), NOTHING
    )
