r"""A histogram with pure privacy, delta = 0: the pure count in every bin.

Everybody takes part in k pure counts at once, one for each category, with a one in that of their category and zeros
elsewhere. Replacing a category changes two of the bits, and pure losses add: so each count keeps half of epsilon.
Nothing composes better: the two totals are independent, the worst total of one comes together
with the worst of the other, and with a delta of 0 no outcome may be left out.

The price is k d messages from everybody, d of order log(n) / epsilon: for some categories and some thousand people.
Reference: Ghazi, Golowich, Kumar, Manurangsi, Pagh, Velingker 2020, "Pure differentially private
summation from anonymous messages" (the count).
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from shuffledp.core.analyzer import Estimate, Interval, Tally, Value, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.errors import MismatchError
from shuffledp.core.protocol import LATE, Cost, Crowd, Least, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource, join_laws
from shuffledp.core.validate import whole
from shuffledp.protocols.pure_count import (
    PureAccountant,
    PureCount,
    PureCountAnalyzer,
    PureCountError,
    find_fewest,
    find_noise,
)
from shuffledp.protocols.shared.assembly import OfCategories, register, shuffle

_PROOF = (
    "twice the largest loss of a count, over all totals and all data sets, evaluated numerically (count: "
    "Ghazi, Golowich, Kumar, Manurangsi, Pagh, Velingker 2020)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PureHistogram(OfCategories):
    """For each bin d messages: 2 j + 1 is a one and 2 j a zero of bin j.

    >>> device = PureHistogram(k=2, count=PureCount(noise=(1, 2, 2, 1), word_bits=4))
    >>> device.pmf(0)[1, 1, 0, 3, 2, 2]
    Fraction(9, 16)
    """

    k: int
    count: PureCount

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=2)

    @property
    def word_bits(self) -> int:
        """The bits of a word of the tape."""
        return self.count.word_bits

    @property
    def words_per_input(self) -> int:
        return self.k

    @property
    def cost(self) -> Cost:
        return Cost.fixed((2 * self.k - 1).bit_length(), messages=self.k * self.count.d)

    @property
    def epsilon0(self) -> float:
        """Two bits change."""
        return 2 * self.count.epsilon0

    def encode(self, inputs: Codes, words: Words) -> Messages:
        users, width = len(inputs), self.k * self.count.d
        bits = (inputs[:, None] == np.arange(self.k)).reshape(-1)  # [n * k]
        sent = self.count.encode(bits.astype(np.int64), words.reshape(-1, 1)).payload
        bins = np.tile(np.repeat(2 * np.arange(self.k), self.count.d), users)
        return Messages(payload=bins + sent, owner=np.repeat(np.arange(users), width), users=users)

    def pmf(self, x: int) -> Law:
        laws = [self.count.pmf(int(j == x)) for j in range(self.k)]
        return join_laws(laws, range(0, 2 * self.k, 2))

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal each bin as a count of its own."""
        n = int(inputs.sum())
        bins = [self.count.deal(np.array([n - c, c]), source).counts for c in inputs.tolist()]
        return Tally(counts=np.concatenate(bins), users=n)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PureHistogramError:
    """The error of each bin by itself."""

    bins: tuple[PureCountError, ...]

    @property
    def stderr(self) -> Floats:
        return np.array([each.stderr for each in self.bins])

    def interval(self, value: Value, level: float) -> Interval:
        """Return the interval of each bin, by the law of its count."""
        ends = [
            each.interval(v, level)
            for each, v in zip(self.bins, np.asarray(value).tolist(), strict=True)
        ]
        return Interval(np.array([low for low, _ in ends]), np.array([high for _, high in ends]))

    exact_interval = interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PureHistogramAnalyzer:
    """The pure count's estimate in every bin: unbiased, with the same variance whatever the data.

    >>> device = PureHistogram(k=2, count=PureCount(noise=(1, 2, 2, 1), word_bits=4))
    >>> PureHistogramAnalyzer(randomizer=device).variance(np.array([3, 2])).round(4)
    array([5.15, 5.15])
    """

    randomizer: PureHistogram

    @property
    def _count(self) -> PureCountAnalyzer:
        return PureCountAnalyzer(randomizer=self.randomizer.count)

    def offset(self) -> tuple[Fraction, ...]:
        """Return what one user adds to the estimates before any message."""
        return self._count.offset() * self.randomizer.k

    def influence(self) -> Fraction:
        """Return by how many people one message can move a bin."""
        return self._count.influence()

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, 2 * self.randomizer.k)

    def estimate(self, tally: Tally) -> Estimate:
        n, device = tally.people(), self.randomizer
        pairs = tally.counts.reshape(-1, 2)
        if (pairs.sum(axis=1) != n * device.count.d).any():
            raise MismatchError(f"{n} users send {n * device.count.d} messages for each category")
        bins = [self._count.estimate(Tally(counts=pair, users=n)) for pair in pairs]
        errors = tuple(each.error for each in bins if isinstance(each.error, PureCountError))
        return Estimate(
            value=np.array([each.value for each in bins]),
            error=PureHistogramError(bins=errors),
            limits=(0.0, float(n)),
            labels=device.domain.labels,
        )

    def foresee(self, inputs: Counts) -> Estimate:
        """Return what the estimate is for this data set where the noise is at its mean, once for equal bins.

        >>> device = PureHistogram(k=3, count=PureCount(noise=(1, 2, 2, 1), word_bits=4))
        >>> PureHistogramAnalyzer(randomizer=device).foresee(np.array([40, 40, 20])).value.round()
        array([20., 40.])
        """
        n, count = int(inputs.sum()), self.randomizer.count
        mean = (np.unique(inputs) - n * float(self.offset()[0])) * float(1 - count.rate)
        ones = np.rint(mean).astype(np.int64)
        return self.estimate(Tally(counts=np.stack([n * count.d - ones, ones], 1).ravel(), users=n))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        where, bit = divmod(message, 2)
        (weight,) = self._count.weights(bit)
        return tuple(weight if j == where else Fraction(0) for j in range(self.randomizer.k))

    def variance(self, inputs: Counts) -> Floats:
        return np.full(self.randomizer.k, self.randomizer.count.variance(int(inputs.sum())))


@shuffle(
    name="pure_histogram",
    task="histogram",
    title="pure histogram",
    reference="Ghazi, Golowich, Kumar, Manurangsi, Pagh, Velingker 2020",
    pure=True,
)
def make(crowd: Crowd, promise: Promise, *, k: int, word_bits: int = 64) -> Parts:
    """Make a histogram of k categories, with delta = 0.

    >>> p = make(n=60, k=3, epsilon=2.0, honest=1.0)
    >>> p.guarantee.epsilon, p.guarantee.delta
    (2.0, 0.0)
    """
    whole("k", k, at_least=2)
    whole("word_bits", word_bits, at_least=4, at_most=64)
    # Another value moves two bins by one each, so a bin gets half of epsilon.
    device = PureHistogram(k=k, count=find_noise(promise.epsilon / 2, crowd.trusted, word_bits))
    accountant = PureAccountant.of(device.count, crowd, promise, _PROOF, counts=2)
    analyzer = PureHistogramAnalyzer(randomizer=device)
    return Parts(
        device,
        analyzer,
        accountant=accountant,
        deal=device.deal,
        influence=analyzer.influence,
        offset=analyzer.offset,
        foresee=analyzer.foresee,
    )


def _send_least(crowd: Crowd, promise: Promise, *, k: int, word_bits: int = 64) -> Least:
    """Return how many messages a person sends at least: some for each category."""
    return Least(messages=k * find_fewest(promise.epsilon / 2, crowd.trusted, word_bits))


SPEC = register(make, hints=replace(LATE, least=_send_least))
