"""zsum in every bin: a histogram whose empty bins are answered by exactly 0.

A user with category x sends x, and for every bin j one more message j unless a coin of small
probability gamma says no. The analyzer treats each bin as `zsum` does: N_j - n (1 - gamma) if N_j > n, and 0
otherwise. An empty bin is always answered by 0, so the largest error over all bins grows with the number of
users' categories, never with k. The price is about k (1 - gamma) messages from everybody: for large k use
`sparse_histogram` or `dummies_histogram`, which have the same noise in 1 + k gamma messages.
Reference: Balcer, Cheu 2020, "Separating local and shuffled differential privacy via histograms".

Replacing one user's category takes a message from one bin and adds one to another. In the paper each
bin is (epsilon, delta)-private by zsum's theorem and both together are (2 epsilon, 2 delta); so
calibration "paper" runs the bins at half of what was asked for. Calibration "exact" looks at the pair of bins
at once, and needs some 70 times less noise.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import compress, product
from typing import ClassVar

import numpy as np

from shuffledp.accounting.moved_message import IndependentBins, independent_level
from shuffledp.core.analyzer import Estimate, Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.protocol import LATE, Calibration, Cost, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import binomials
from shuffledp.protocols.shared.assembly import OfCategories, register, shuffle
from shuffledp.protocols.zsum import CutAnswers, paper_gamma


@dataclass(frozen=True, slots=True, kw_only=True)
class ZsumHistogram(OfCategories):
    """The category, and every bin with probability 1 - gamma, gamma = silent / 2^word_bits.

    >>> ZsumHistogram(k=2, silent=1, word_bits=2).pmf(0)[0, 0, 1]
    Fraction(9, 16)
    """

    k: int
    silent: int
    """How many of the words send no noise message."""
    word_bits: int = 64
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "the binomial laws of the two bins that change (protocol: Balcer, Cheu 2020)"
    )

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=2)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("silent", self.silent, at_least=1, at_most=(1 << self.word_bits) - 1)

    @property
    def words_per_input(self) -> int:
        return self.k

    @property
    def gamma(self) -> Fraction:
        """Exact probability that a user sends no noise message for a given bin."""
        return Fraction(self.silent, 1 << self.word_bits)

    @property
    def cost(self) -> Cost:
        return Cost(
            messages_mean=float(1 + self.k * (1 - self.gamma)),
            messages_max=self.k + 1,
            bits_per_message=(self.k - 1).bit_length(),
            count_depends_on_value=False,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        return IndependentBins(n=honest, gamma=self.gamma).delta(epsilon)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        threshold = (1 << self.word_bits) - self.silent
        owner, noise = np.nonzero(tape.bernoulli(words, threshold, self.word_bits))  # words[n, k]
        users = len(inputs)
        return Messages(
            payload=np.concatenate([inputs.astype(np.int64), noise]),
            owner=np.concatenate([np.arange(users), owner]),
            users=users,
        )

    def pmf(self, x: int) -> Law:
        law: Law = {}
        for sent in product((False, True), repeat=self.k):
            noise = sum(sent)
            mass = (1 - self.gamma) ** noise * self.gamma ** (self.k - noise)
            law[x, *compress(range(self.k), sent)] = mass
        return law

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal each count plus its own Bin(n, 1 - gamma)."""
        n, threshold = int(inputs.sum()), (1 << self.word_bits) - self.silent
        noise = binomials([n] * self.k, [threshold] * self.k, self.word_bits, source)
        return Tally(counts=inputs + noise, users=n)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZsumHistogramAnalyzer:
    """For each bin N_j - n (1 - gamma) if N_j > n, else 0: not linear, and biased for small counts.

    >>> analyzer = ZsumHistogramAnalyzer(randomizer=ZsumHistogram(k=2, silent=1, word_bits=2))
    >>> analyzer.estimate(Tally(counts=np.array([100, 150]), users=100)).value
    array([ 0., 75.])
    """

    randomizer: ZsumHistogram

    def _rule(self, n: int) -> CutAnswers:
        return CutAnswers(n=n, gamma=self.randomizer.gamma)

    def reach(self, messages: int, n: int) -> Fraction:
        """Return how far this many messages can move the answer among n people: past the cut it leaps by n gamma."""
        return messages + n * self.randomizer.gamma

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.randomizer.k)

    def estimate(self, tally: Tally) -> Estimate:
        return replace(self._answer(tally), labels=self.randomizer.domain.labels)

    def _answer(self, tally: Tally) -> Estimate:
        """Return the same without names, of which a million take long."""
        n = tally.people()
        rule = self._rule(n)
        return Estimate(
            value=rule.answer(tally.counts),
            error=rule.error(tally.counts),
            limits=(0.0, float(n)),
        )

    def foresee(self, inputs: Counts) -> Estimate:
        """Return what the estimate is for this data set where the noise is at its mean, once for equal bins."""
        n = int(inputs.sum())
        noise = round(n * (1 - self.randomizer.gamma))
        return self._answer(Tally(counts=np.unique(inputs) + noise, users=n))

    def squared_errors(self, counts: Counts, n: int) -> Floats:
        """Compute the exact mean squared error of bins with these true counts, among n people.

        >>> analyzer = ZsumHistogramAnalyzer(randomizer=ZsumHistogram(k=3, silent=1, word_bits=2))
        >>> analyzer.squared_errors(np.array([380, 20, 0]), 400).round(3)
        array([ 75., 400.,   0.])
        """
        bias, variance = self._rule(n).moments(counts)
        return variance + np.square(bias)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError(
            "the answer of zsum_histogram is not linear in the messages: use sparse_histogram"
        )

    def variance(self, inputs: Counts) -> Floats:
        return self._rule(int(inputs.sum())).moments(inputs)[1]

    def bias(self, inputs: Counts) -> Floats:
        """Compute the exact mean error of each bin: 0 for empty ones and for large ones.

        >>> analyzer = ZsumHistogramAnalyzer(randomizer=ZsumHistogram(k=3, silent=1, word_bits=2))
        >>> analyzer.bias(np.array([380, 20, 0])).round(3)
        array([  0., -20.,   0.])
        """
        return self._rule(int(inputs.sum())).moments(inputs)[0]

    def accuracy(self, n: int, beta: float) -> int:
        """Return a radius that the error of a given bin exceeds with probability at most beta, for any data.

        >>> p = make(n=10_000, k=10**6, epsilon=1.0, delta=1e-6, honest=1.0)
        >>> p.analyzer.accuracy(n=10_000, beta=0.05), p.analyzer.accuracy_of_all(n=10_000, beta=0.05)
        (54, 67)
        """
        return self._rule(n).radius(beta)

    def accuracy_of_all(self, n: int, beta: float) -> int:
        """Return a radius that the error of any bin exceeds with probability at most beta, for any data.

        Empty bins have no error, and few bins have more people than the radius: k hardly matters.
        """
        return self._rule(n).radius(beta, self.randomizer.k)


@shuffle(
    name="zsum_histogram",
    task="histogram",
    title="zsum in every bin",
    reference="Balcer, Cheu 2020",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    k: int,
    calibration: Calibration = Calibration.EXACT,
    word_bits: int = 64,
) -> Parts:
    """Make zsum in each of k bins; everybody sends about k messages.

    >>> p = make(n=100_000, k=16, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> paper = make(n=100_000, k=16, epsilon=1.0, delta=1e-6, honest=1.0, calibration="paper")
    >>> [round(float(each.randomizer.gamma * 100_000), 1) for each in (p, paper)]
    [42.7, 3040.4]
    """
    whole("word_bits", word_bits, at_least=1, at_most=64)
    choose = independent_level if calibration is Calibration.EXACT else _halve
    gamma = choose(n=crowd.trusted, epsilon=promise.epsilon, delta=promise.delta, bits=word_bits)
    device = ZsumHistogram(k=k, silent=int(gamma * (1 << word_bits)), word_bits=word_bits)
    analyzer = ZsumHistogramAnalyzer(randomizer=device)
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        reach=analyzer.reach,
        bias=analyzer.bias,
        bin_errors=analyzer.squared_errors,
        foresee=analyzer.foresee,
    )


def _halve(*, n: int, epsilon: float, delta: float, bits: int) -> Fraction:
    """Halve the budget: two bins change, so each may spend half: the theorem reaches up to epsilon = 2."""
    if epsilon > 2:
        raise UnsupportedError(f"the theorem is for epsilon <= 2, not epsilon={epsilon!r}")
    return paper_gamma(n=n, epsilon=epsilon / 2, delta=delta / 2, bits=bits)


SPEC = register(make, hints=LATE)
