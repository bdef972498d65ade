"""Counting with correlated +1 and -1 noise: nearly central accuracy in about one bit per person.

A user with bit x sends x + Z1 + F messages "+1" and Z2 + F messages "-1". The answer is the number of
"+1" less that of "-1": the flood F cancels and hides the rest, Z1 - Z2 is the noise of the central
model. Each user draws only a share, Z1, Z2 ~ NB(1/m, p) and F ~ NB(r/m, p_flood) with m honest users,
p = e^-epsilon_star, epsilon_star = (1 - gap) epsilon. So with n = m users the error is exactly
discrete Laplace(epsilon_star), and nearly everybody sends x and nothing else.

The gap buys the flood: without it delta falls only polynomially with the flood.

Two calibrations: `exact`, the flood of nearly the smallest mean whose exact delta suffices, and
`paper`, r = 3 (1 + ln(1/delta)) and p_flood = e^(-0.2 gap epsilon), seven times more messages at
epsilon = 1. Both state the delta of what is sampled.

Reference: Ghazi, Kumar, Manurangsi, Pagh 2020, "Private counting from anonymous messages:
near-optimal accuracy with vanishing communication overhead".
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shuffledp.accounting.correlated import (
    GAP,
    CorrelatedDevice,
    CorrelatedNoise,
    ThinnedNoise,
    calibrate,
)
from shuffledp.core.analyzer import Estimate, Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Bits
from shuffledp.core.privacy import Profile
from shuffledp.core.protocol import Calibration, Cost, Crowd, Hints, Look, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics import intervals
from shuffledp.numerics.tabulated import (
    NOTHING,
    Tabulated,
    VectorLaw,
    message_law,
    negative_binomial,
)
from shuffledp.protocols.shared.assembly import register, shuffle


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedCount(CorrelatedDevice):
    """x, a share of noise of either sign, and a share of the flood; 0 is "-1" and 1 is "+1".

    `noise` and `flood` are the tables of the shares; see numerics/tabulated for how far from the
    negative binomial law they are.

    >>> device = CorrelatedCount(star=0.9, r_flood=16.0, p_flood=0.95, sharers=1_000_000)
    >>> device.words_per_input, device.distance(1_000_000) < 1e-14
    (6, True)
    """

    star: float
    r_flood: float
    p_flood: float
    sharers: int
    """The number of users whose shares add up to the whole noise."""
    word_bits: int = 64
    noise: Tabulated = field(init=False, repr=False)
    flood: Tabulated = field(init=False, repr=False)

    def __post_init__(self) -> None:
        positive("star", self.star)
        positive("r_flood", self.r_flood)
        fraction_of_one("p_flood", self.p_flood)
        m = whole("sharers", self.sharers, at_least=1)
        bits = whole("word_bits", self.word_bits, at_least=1, at_most=64)
        p = Fraction(math.exp(-self.star))
        object.__setattr__(self, "noise", negative_binomial(Fraction(1, m), p, bits))
        flood = negative_binomial(Fraction(self.r_flood) / m, Fraction(self.p_flood), bits)
        object.__setattr__(self, "flood", flood)

    @property
    def domain(self) -> Bits:
        return Bits()

    @property
    def words_per_input(self) -> int:
        return 2 * self.noise.words + self.flood.words

    @property
    def noise_share(self) -> Fraction:
        return self.noise.size

    @property
    def flood_share(self) -> Fraction:
        return self.flood.size

    @property
    def neighbours(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (0, 0), (0, 1)

    def distance(self, users: int) -> float:
        # The last factor is more than the rounding of the sum.
        return users * (2 * self.noise.distance + self.flood.distance) * (1 + 1e-12)

    @property
    def cost(self) -> Cost:
        """The cost of a user whose bit is one."""
        return Cost(
            messages_mean=float(1 + 2 * (self.noise.moment(1) + self.flood.moment(1))),
            messages_max=1 + 2 * (self.noise.largest + self.flood.largest),
            bits_per_message=1,
            count_depends_on_value=True,
        )

    def view(self, noise: CorrelatedNoise | ThinnedNoise) -> Profile:
        """Return the curve of one bin, which loses a person or gains one."""
        return noise

    def encode(self, inputs: Codes, words: Words) -> Messages:
        w = self.noise.words
        plus, more = self.noise.draw(words[:, :w])
        minus, less = self.noise.draw(words[:, w : 2 * w])
        both, flood = self.flood.draw(words[:, 2 * w :])
        # As many +1 as -1: they leave the sum alone, and hide how many there are of each.
        cancelling = np.repeat(both, flood)
        ones = np.concatenate([np.flatnonzero(inputs), np.repeat(plus, more), cancelling])
        zeros = np.concatenate([np.repeat(minus, less), cancelling])
        payload = np.zeros(len(ones) + len(zeros), dtype=np.uint8)
        payload[: len(ones)] = 1
        return Messages(payload=payload, owner=np.concatenate([ones, zeros]), users=len(inputs))

    def noise_law(self) -> VectorLaw:
        law: VectorLaw = {}
        noise, flood = self.noise.law(), self.flood.law()
        for minus, a in noise.items():
            for plus, b in noise.items():
                for both, c in flood.items():
                    key = (minus + both, plus + both)
                    law[key] = law.get(key, NOTHING) + a * b * c
        return law

    def pmf(self, x: int) -> Law:
        return message_law(self.noise_law(), (0, x))

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Return how many users draw each number; these numbers add up."""
        n = int(inputs.sum())
        plus, minus, flood = (
            _add_up(table.deal(n, source)) for table in (self.noise, self.noise, self.flood)
        )
        counts = np.array([minus + flood, int(inputs[1]) + plus + flood], dtype=np.int64)
        return Tally(counts=counts, users=n)


def _add_up(counts: NDArray[np.int64]) -> int:
    return int(counts @ np.arange(len(counts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedAnalyzer:
    r"""The number of "+1" less that of "-1".

        variance = 2 n Var[Z]        (exact; with n = m users 2 p / (1 - p)^2)

    Unbiased, as both noises have the same law. The interval inverts the law of the noise of
    `tally.users` users, NB(n/m, p) - NB(n/m, p): discrete Laplace for n = m.

    >>> device = CorrelatedCount(star=0.9, r_flood=16.0, p_flood=0.95, sharers=1_000_000)
    >>> analyzer = SignedAnalyzer(randomizer=device)
    >>> round(analyzer.variance(np.array([600_000, 400_000])) ** 0.5, 4)
    1.5195
    """

    randomizer: CorrelatedCount

    def influence(self) -> Fraction:
        """Return by how many people one message can move the count: from -1 to 1."""
        return Fraction(2)

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, 2)

    def estimate(self, tally: Tally) -> Estimate:
        n = tally.people()
        noise = self.randomizer.noise
        error = intervals.DifferenceError(
            noise=intervals.Difference(r=float(n * noise.size), p=math.exp(-self.randomizer.star)),
            shape=(),
            distance=2 * n * noise.distance,
        )
        value = float(tally.counts[1] - tally.counts[0])
        return Estimate(value=value, error=error, limits=(0.0, float(n)))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        return (Fraction(2 * message - 1),)

    def variance(self, inputs: Counts) -> float:
        noise = self.randomizer.noise
        return float(2 * int(inputs.sum()) * (noise.moment(2) - noise.moment(1) ** 2))


@shuffle(
    name="correlated_count",
    task="count",
    title="correlated noise counting",
    reference="Ghazi, Kumar, Manurangsi, Pagh 2020",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    gap: float = GAP,
    calibration: Calibration = Calibration.EXACT,
    word_bits: int = 64,
) -> Parts:
    """Make counting with correlated noise; the fraction `honest` of the users makes all of it.

    >>> p = make(n=1_000_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> f"{p.cost.messages_mean:.4f}", p.guarantee.delta <= 1e-6
    ('1.0006', True)
    """
    star = (1 - fraction_of_one("gap", gap)) * promise.epsilon
    build = partial(CorrelatedCount, sharers=crowd.trusted, word_bits=word_bits)
    device = calibrate(
        build, crowd, promise, star=star, losing=promise.epsilon, calibration=calibration
    )
    analyzer = SignedAnalyzer(randomizer=device)
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        curve=device.open_curve,
        influence=analyzer.influence,
    )


SPEC = register(make, hints=Hints(look=Look.FIRST))
