"""Histograms with correlated +1 and -1 noise in every bin: nearly central accuracy.

The counting protocol of `correlated_count` in each of k bins, with messages (bin, sign). A user with
value x sends (x, +1), and in every bin a share of both noises, NB(1/m, p), and of the flood,
NB(r/m, p_flood), m the number of honest users. The estimate of a bin is the number of its "+1" less that
of its "-1"; with n = m users its error is exactly discrete Laplace(epsilon_star).

Privacy: one person's change lets one bin gain and another lose. The gaining direction is pure
epsilon_star, the losing one is (epsilon - epsilon_star, delta) by accounting/correlated, and the bins
are independent: (epsilon, delta) together, with epsilon_star = (1 - gap) epsilon / 2.

A user's noise in all bins takes time proportional to what is sent. NB(s, p) is a Poisson(-s ln(1 - p))
number of *events* of logarithmic size, so a user draws the Poisson number of events in all bins
together, and for each of them a uniform bin and a size. A position that is rejected (k need not be a power of
two) sends nothing: that thins a Poisson number, and the mean is made larger in exchange, so it costs
no accuracy of the law.

Reference: Ghazi, Kumar, Manurangsi, Pagh 2020, "Private counting from anonymous messages:
near-optimal accuracy with vanishing communication overhead" (the noise of one bin).
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import numpy as np

from shuffledp.accounting.correlated import (
    GAP,
    CorrelatedDevice,
    CorrelatedNoise,
    CorrelatedPair,
    ThinnedNoise,
    calibrate,
)
from shuffledp.core.analyzer import Estimate, Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words, distinct
from shuffledp.core.domain import Categories
from shuffledp.core.privacy import Profile
from shuffledp.core.protocol import Calibration, Cost, Crowd, Hints, Look, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics.intervals import Difference, DifferenceError
from shuffledp.numerics.tabulated import Events, VectorLaw, add_laws, message_law
from shuffledp.protocols.shared.assembly import register, shuffle


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedHistogram(CorrelatedDevice):
    """The value, and shares of noise and flood in every bin; message 2 bin + 1 is "+1", 2 bin is "-1".

    >>> device = CorrelatedHistogram(
    ...     k=1024, star=0.45, r_flood=16.0, p_flood=0.95, sharers=1_000_000
    ... )
    >>> device.words_per_input, device.distance(1_000_000) < 1e-13
    (36, True)
    """

    k: int
    star: float
    r_flood: float
    p_flood: float
    sharers: int
    """The number of users whose shares add up to the whole noise."""
    most_events: int | None = None
    """The largest value of the two numbers of events; None: where what lies beyond is less likely than one word."""
    word_bits: int = 64
    domain: Categories = field(init=False, repr=False)
    noise: Events = field(init=False, repr=False)
    flood: Events = field(init=False, repr=False)
    words_per_input: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=2, at_most=2**40)
        positive("star", self.star)
        positive("r_flood", self.r_flood)
        fraction_of_one("p_flood", self.p_flood)
        m = whole("sharers", self.sharers, at_least=1)
        bits = whole(
            "word_bits", self.word_bits, at_least=(2 * self.k - 1).bit_length(), at_most=64
        )
        most = self.most_events
        if most is not None:
            whole("most_events", most, at_least=1)
        noise = Events.of(
            cells=2 * self.k, share=Fraction(1, m), p=math.exp(-self.star), bits=bits, most=most
        )
        flood = Events.of(
            cells=self.k, share=Fraction(self.r_flood) / m, p=self.p_flood, bits=bits, most=most
        )
        object.__setattr__(self, "domain", Categories(k=self.k))
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "flood", flood)
        object.__setattr__(self, "words_per_input", noise.words + flood.words)

    @property
    def noise_share(self) -> Fraction:
        return self.noise.share

    @property
    def flood_share(self) -> Fraction:
        return self.flood.share

    @property
    def neighbours(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return _unit(self.k, 0), _unit(self.k, 1)

    def distance(self, users: int) -> float:
        """Return the distance for the two bins that one person's change concerns; all bins are independent."""
        return self.noise.distance(users, 4) + self.flood.distance(users, 2)

    @property
    def cost(self) -> Cost:
        """The same for every value."""
        noise = 2 * self.k * self.noise.per_cell(1) + 2 * self.k * self.flood.per_cell(1)
        return Cost(
            messages_mean=float(1 + noise),
            messages_max=1 + self.noise.most + 2 * self.flood.most,
            bits_per_message=(2 * self.k - 1).bit_length(),
            count_depends_on_value=False,
        )

    def view(self, noise: CorrelatedNoise | ThinnedNoise) -> Profile:
        """Return the curve of two bins: one loses a person and one gains it."""
        return CorrelatedPair(noise)

    def moved(self, honest: int, place: int) -> tuple[Profile, float] | None:
        """Return the curve of a message that moves after `place` others: ideal noise of bins is independent."""
        return self.open_curve(honest)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        noise_user, noise_cell = self.noise.draw(words[:, : self.noise.words])
        flood_user, flood_bin = self.flood.draw(words[:, self.noise.words :])
        own = 2 * inputs.astype(np.int64) + 1
        return Messages(
            payload=np.concatenate([own, noise_cell, 2 * flood_bin, 2 * flood_bin + 1]),
            owner=np.concatenate([np.arange(len(inputs)), noise_user, flood_user, flood_user]),
            users=len(inputs),
        )

    def noise_law(self) -> VectorLaw:
        flood: VectorLaw = {}
        for bins, mass in self.flood.law().items():
            flood[tuple(count for count in bins for _ in (0, 1))] = mass
        return add_laws(self.noise.law(), flood)

    def pmf(self, x: int) -> Law:
        return message_law(self.noise_law(), _unit(self.k, x))

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal the events of all users together: the sizes of all of them first, then their bins."""
        n = int(inputs.sum())
        counts = self.noise.deal(n, source) + np.repeat(self.flood.deal(n, source), 2)
        counts[1::2] += inputs
        return Tally(counts=counts, users=n)


def _unit(k: int, x: int) -> tuple[int, ...]:
    return tuple(int(message == 2 * x + 1) for message in range(2 * k))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedHistogramAnalyzer:
    r"""For each bin the number of its "+1" less that of its "-1".

        variance = 2 n E[noise^2 in one cell]    (exact; with n = m users 2 p / (1 - p)^2)

    Unbiased, as both signs have the same law. Each bin's interval inverts the law of the noise of
    `tally.users` users, NB(n/m, p) - NB(n/m, p): discrete Laplace for n = m.

    >>> device = CorrelatedHistogram(
    ...     k=4, star=0.45, r_flood=16.0, p_flood=0.95, sharers=1000
    ... )
    >>> SignedHistogramAnalyzer(randomizer=device).variance(np.array([100, 200, 300, 400])).round(4)
    array([9.7116, 9.7116, 9.7116, 9.7116])
    """

    randomizer: CorrelatedHistogram

    def influence(self) -> Fraction:
        """Return by how many people one message can move a bin: from -1 to 1."""
        return Fraction(2)

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, 2 * self.randomizer.k)

    def estimate(self, tally: Tally) -> Estimate:
        estimate = self._answer(tally.counts[1::2] - tally.counts[::2], tally.people())
        return replace(estimate, labels=self.randomizer.domain.labels)

    def foresee(self, inputs: Counts) -> Estimate:
        """Return what the estimate is for this data set where the noise is at its mean, once for equal bins."""
        return self._answer(distinct(inputs), int(inputs.sum()))

    def _answer(self, found: Counts, n: int) -> Estimate:
        noise = self.randomizer.noise
        error = DifferenceError(
            noise=Difference(r=float(n * noise.share), p=noise.p),
            shape=found.shape,
            distance=noise.distance(n, 2),
        )
        value: Floats = found.astype(np.float64)
        return Estimate(value=value, error=error, limits=(0.0, float(n)))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        sign = Fraction(2 * (message % 2) - 1)
        return tuple(sign * (j == message // 2) for j in range(self.randomizer.k))

    def variance(self, inputs: Counts) -> Floats:
        # Signs are independent and even, so products of two events' signs have mean 0.
        each = 2 * int(inputs.sum()) * self.randomizer.noise.per_cell(2)
        return np.full(self.randomizer.k, float(each))


@shuffle(
    name="correlated_histogram",
    task="histogram",
    title="correlated noise histogram",
    reference="Ghazi, Kumar, Manurangsi, Pagh 2020",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    k: int,
    gap: float = GAP,
    calibration: Calibration = Calibration.EXACT,
    most_events: int | None = None,
    word_bits: int = 64,
) -> Parts:
    """Make a histogram with correlated noise; the fraction `honest` of the users makes all of it.

    >>> p = make(n=1_000_000, k=1024, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> f"{p.cost.messages_mean:.3f}", p.guarantee.delta <= 1e-6
    ('1.604', True)
    """
    star = (1 - fraction_of_one("gap", gap)) * promise.epsilon / 2
    build = partial(
        CorrelatedHistogram,
        k=k,
        sharers=crowd.trusted,
        most_events=most_events,
        word_bits=word_bits,
    )
    losing = promise.epsilon - star
    device = calibrate(build, crowd, promise, star=star, losing=losing, calibration=calibration)
    analyzer = SignedHistogramAnalyzer(randomizer=device)
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        curve=device.open_curve,
        moved=device.moved,
        influence=analyzer.influence,
        foresee=analyzer.foresee,
    )


SPEC = register(make, hints=Hints(look=Look.FIRST, frugal="dummies_histogram"))
