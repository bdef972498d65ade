"""zsum: counting with noise messages, dense or sparse.

A user sends x copies of "1", and one more if a coin says so. All messages are equal, so the shuffler shows
their number alone: |y| = S + Z, S the true count and Z binomial. Two protocols are made of that device:

* `zsum`: nearly everybody sends a noise message, all but a Bin(n, gamma) number N of the n users. The
  answer is |y| - n (1 - gamma) if |y| > n, and 0 otherwise. So a count of 0 is always answered by exactly
  0: then |y| <= n. That is what makes histograms with many empty bins cheap in error (`zsum_histogram`).
  The price is a bias for counts below about 2 n gamma.
* `zsum_sparse`: hardly anybody does, Z ~ Bin(n, gamma): the same noise in a mirror, so the same privacy,
  but unbiased and with x + gamma messages instead of x + 1 - gamma.

gamma comes from the law itself (`exact`): nearly the smallest whose delta is small enough. Or from the
theorem of the paper (`paper`): gamma = 50 ln(2 / delta) / (epsilon^2 m) for m honest users, epsilon <= 1 and
m >= 100 ln(2 / delta) / epsilon^2, so that gamma <= 1/2. Either way the guarantee is that of the gamma
that is sampled.

Reference: Balcer, Cheu 2020, "Separating local and shuffled differential privacy via histograms".
Deviation: answers are counts, where the paper has frequencies (|y| / n > 1).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from shuffledp.accounting.noisy_count import BinomialCount, binomial_level
from shuffledp.core.analyzer import Estimate, Tally, tally_ones
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.domain import Bits
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Calibration, Cost, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import binomial
from shuffledp.numerics.intervals import BinomialSum, NoiseError
from shuffledp.numerics.masses import binomial_at_least, binomial_at_most
from shuffledp.numerics.rounding import dyadic_above, find_first
from shuffledp.protocols.shared.assembly import register, shuffle


@dataclass(frozen=True, slots=True, kw_only=True)
class Zsum:
    """x + z copies of the message 1, z ~ Ber(rate), rate = threshold / 2^word_bits.

    >>> Zsum(threshold=3, word_bits=4).pmf(1)
    {(1,): Fraction(13, 16), (1, 1): Fraction(3, 16)}
    """

    threshold: int
    """How many of the words send a noise message."""
    word_bits: int = 64
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "both tails of the binomial law of the noise (protocol: Balcer, Cheu 2020)"
    )
    domain: ClassVar[Bits] = Bits()
    words_per_input: ClassVar[int] = 1

    def __post_init__(self) -> None:
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("threshold", self.threshold, at_least=1, at_most=(1 << self.word_bits) - 1)

    @property
    def rate(self) -> Fraction:
        """Exact probability of a noise message."""
        return Fraction(self.threshold, 1 << self.word_bits)

    @property
    def gamma(self) -> Fraction:
        """Exact probability of the rarer case, noise message or none."""
        return min(self.rate, 1 - self.rate)

    @property
    def cost(self) -> Cost:
        """The cost of a user whose bit is one."""
        return Cost(
            messages_mean=float(1 + self.rate),
            messages_max=2,
            bits_per_message=1,
            count_depends_on_value=True,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        return BinomialCount(n=honest, gamma=self.gamma).delta(epsilon)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        noise = tape.bernoulli(words[:, 0], self.threshold, self.word_bits)
        owner = np.repeat(np.arange(len(inputs)), inputs.astype(np.int64) + noise)
        return Messages(payload=np.ones(len(owner), dtype=np.uint8), owner=owner, users=len(inputs))

    def pmf(self, x: int) -> Law:
        return {(1,) * x: 1 - self.rate, (1,) * (x + 1): self.rate}

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Return the count plus Bin(n, rate)."""
        n = int(inputs.sum())
        noise = binomial(n, self.threshold, self.word_bits, source)
        return Tally(counts=np.array([int(inputs[1]) + noise], dtype=np.int64), users=n)


@lru_cache(maxsize=2)  # a search for the worst data set asks for many counts
def _sum_noise(n: int, gamma: Fraction) -> tuple[int, Floats, Floats, Floats]:
    """Return the first N that matters and, for each S from there, the sums of N - n gamma and its square over N < S,
    and Pr[N >= S]."""
    noise = BinomialSum(parts=((n, gamma),))
    window = noise.window()
    centred = window.first + np.arange(len(window.masses)) - float(noise.centre)
    first, second = (
        np.concatenate([[0.0], np.cumsum(window.masses * centred**power)]) for power in (1, 2)
    )
    # Pr[N >= S] is summed from the far end: where it is small it keeps its digits.
    return window.first, first, second, np.append(np.cumsum(window.masses[::-1])[::-1], 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutAnswers:
    """The rule that a count is only believed if there are more messages than users.

    S users mean it, n users add n - N noise messages, N ~ Bin(n, gamma), so |y| = S + n - N. The answer is
    |y| - n (1 - gamma) = S - (N - n gamma) if |y| > n (that is, N < S), and 0 otherwise.

    >>> CutAnswers(n=100, gamma=Fraction(1, 4)).answer(np.array([100, 101]))
    array([ 0., 26.])
    """

    n: int
    gamma: Fraction

    def answer(self, counts: Counts) -> Floats:
        """Return the answer to each number of messages."""
        believed: Floats = (counts - self.n) + np.float64(self.n * self.gamma)
        return np.where(counts > self.n, believed, 0.0)

    def error(self, counts: Counts | int) -> NoiseError:
        """Return the error, which inverts the law of |y|: so it holds for every count."""
        noise = BinomialSum(parts=((self.n, 1 - self.gamma),))
        return NoiseError(noise=noise, observed=counts, limits=(0.0, float(self.n)))

    def moments(self, counts: Counts) -> tuple[Floats, Floats]:
        """Compute the bias and variance of the answers to these true counts, from the law of N.

        The error is n gamma - N if N < S, and -S otherwise.

        >>> CutAnswers(n=1000, gamma=Fraction(1, 4)).moments(np.array([0, 1000]))
        (array([0., 0.]), array([  0. , 187.5]))
        """
        start, first, second, cut = _sum_noise(self.n, self.gamma)
        S = counts.astype(np.float64)
        place = np.clip(counts - start, 0, len(cut) - 1)
        bias = -first[place] - S * cut[place]
        variance = second[place] + S**2 * cut[place] - bias**2
        surely = place == len(cut) - 1
        whole_variance = float(self.n * self.gamma * (1 - self.gamma))
        return (
            np.where(surely, 0.0, bias + 0.0),
            np.where(surely, whole_variance, variance.clip(0)),
        )

    def failure(self, radius: float, bins: int = 1) -> float:
        """Bound from above the probability that the error of any of these bins exceeds the radius, for any data.

        If N < S the error is |N - n gamma|, otherwise it is S. With a radius r >= n gamma it is exceeded exactly if
        N >= S > r, most likely if S is the next integer above r; and at most n / S bins have that many people. With
        a smaller radius N < n gamma - r is too far as well, in every bin that is not empty. The noise of bins is
        independent.

        >>> rule = CutAnswers(n=1000, gamma=Fraction(1, 20))
        >>> f"{rule.failure(100):.1e}", f"{rule.failure(100, bins=1000):.1e}"
        ('3.9e-11', '3.5e-10')
        """
        mean, least = self.n * self.gamma, math.floor(radius) + 1
        if least > self.n:
            return 0.0
        once, crowded = binomial_at_least(least, self.n, self.gamma), min(bins, self.n // least)
        if radius < mean:
            once += binomial_at_most(math.ceil(mean - Fraction(radius)) - 1, self.n, self.gamma)
            crowded = min(bins, self.n)
        return min(1.0, crowded * once * (1 + 1e-12))

    def radius(self, beta: float, bins: int = 1) -> int:
        """Return the smallest integer with a `failure` of at most beta: an error bound that holds for any data.

        >>> CutAnswers(n=1000, gamma=Fraction(1, 20)).radius(0.05)
        62
        """
        allowed = fraction_of_one("beta", beta)
        most = whole("n", self.n, at_least=1)  # an error above n there is not
        return find_first(lambda error: self.failure(error, bins) <= allowed, -1, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZsumAnalyzer:
    """|y| - n (1 - gamma) if |y| > n, else 0: not linear, and biased towards 0 for small counts.

    The interval comes from the law of |y|, so it holds for every count. For a count that was cut to
    0 it may lie above 0.

    >>> analyzer = ZsumAnalyzer(randomizer=Zsum(threshold=3, word_bits=2))
    >>> analyzer.estimate(Tally(counts=np.array([100]), users=100)).value
    0.0
    >>> analyzer.estimate(Tally(counts=np.array([160]), users=100)).value
    85.0
    """

    randomizer: Zsum

    def _rule(self, n: int) -> CutAnswers:
        return CutAnswers(n=n, gamma=1 - self.randomizer.rate)

    def reach(self, messages: int, n: int) -> Fraction:
        """Return how far this many messages can move the answer among n people: past the cut it leaps by n gamma."""
        return messages + n * self.randomizer.gamma

    def tally(self, shuffled: Shuffled) -> Tally:
        return tally_ones(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n = tally.people()
        rule = self._rule(n)
        return Estimate(
            value=float(rule.answer(tally.counts)[0]),
            error=rule.error(int(tally.counts[0])),
            limits=(0.0, float(n)),
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError("the answer of zsum is not linear in the messages: use zsum_sparse")

    def variance(self, inputs: Counts) -> float:
        return float(self._rule(int(inputs.sum())).moments(inputs[1:])[1][0])

    def bias(self, inputs: Counts) -> float:
        """Compute the exact mean error for a data set with inputs[1] ones: 0 for no ones and for many.

        >>> analyzer = ZsumAnalyzer(randomizer=Zsum(threshold=3, word_bits=2))
        >>> round(analyzer.bias(np.array([80, 20])), 3), analyzer.bias(np.array([100, 0]))
        (-17.27, 0.0)
        """
        return float(self._rule(int(inputs.sum())).moments(inputs[1:])[0][0])

    def accuracy(self, n: int, beta: float) -> int:
        """Return a radius that the error of the count exceeds with probability at most beta, for any data.

        It is the smallest such integer, from the law of the noise: the beta-quantile of N (see `CutAnswers.failure`).

        >>> p = make(n=10_000, epsilon=1.0, delta=1e-6, honest=1.0)
        >>> p.analyzer.accuracy(n=10_000, beta=0.05), p.analyzer.accuracy(n=10_000, beta=1e-9)
        (44, 74)
        """
        return self._rule(n).radius(beta)

    def failure(self, n: int, radius: float) -> float:
        """Bound from above the probability that the error of the count exceeds the radius, for any data.

        >>> p = make(n=10_000, epsilon=1.0, delta=1e-6, honest=1.0)
        >>> f"{p.analyzer.failure(n=10_000, radius=74):.1e}"
        '9.0e-10'
        """
        return self._rule(n).failure(radius)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseZsumAnalyzer:
    """Counts the messages, and subtracts the expected noise.

        estimate = |y| - n gamma          (unbiased)
        variance = n gamma (1 - gamma)    (exact, whatever the data are)

    >>> SparseZsumAnalyzer(randomizer=Zsum(threshold=1, word_bits=2)).variance(np.array([9, 7]))
    3.0
    """

    randomizer: Zsum

    def offset(self) -> tuple[Fraction, ...]:
        """Return what each user adds before any message."""
        return (-self.randomizer.rate,)

    def influence(self) -> Fraction:
        """Return by how many people one message can move the count."""
        return Fraction(1)

    def tally(self, shuffled: Shuffled) -> Tally:
        return tally_ones(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, ones = tally.people(), int(tally.counts[0])
        noise = BinomialSum(parts=((n, self.randomizer.rate),))
        return Estimate(
            value=float(ones - noise.centre),
            error=NoiseError(noise=noise, observed=ones),
            limits=(0.0, float(n)),
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        if message != 1:
            raise ParameterError("message", message, "must be 1")
        return (Fraction(1),)

    def variance(self, inputs: Counts) -> float:
        rate = self.randomizer.rate
        return float(int(inputs.sum()) * rate * (1 - rate))


@shuffle(
    name="zsum", task="count", title="Noise-message counting (zsum)", reference="Balcer, Cheu 2020"
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    calibration: Calibration = Calibration.EXACT,
    word_bits: int = 64,
) -> Parts:
    """Make zsum; calibration "paper" is for epsilon <= 1 and n >= 100 ln(2/delta)/epsilon^2.

    >>> p = make(n=100_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> paper = make(n=100_000, epsilon=1.0, delta=1e-6, honest=1.0, calibration="paper")
    >>> [round(float(each.randomizer.gamma * 100_000), 1) for each in (p, paper)]
    [34.1, 725.4]
    >>> paper.guarantee.delta < p.guarantee.delta <= 1e-6
    True
    """
    silent = _choose_silent(crowd, promise, calibration, word_bits)
    device = Zsum(threshold=(1 << word_bits) - silent, word_bits=word_bits)
    analyzer = ZsumAnalyzer(randomizer=device)
    return Parts(device, analyzer, deal=device.deal, reach=analyzer.reach, bias=analyzer.bias)


@shuffle(
    name="zsum_sparse",
    task="count",
    title="Noise-message counting, sparse",
    reference="Balcer, Cheu 2020",
)
def make_sparse(
    crowd: Crowd,
    promise: Promise,
    *,
    calibration: Calibration = Calibration.EXACT,
    word_bits: int = 64,
) -> Parts:
    """Make counting with about one noise message in n / 34 users at epsilon = 1, delta = 1e-6.

    >>> p = make_sparse(n=1_000_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> round(p.analyzer.variance(np.array([0, 1_000_000])), 2)
    34.07
    >>> paper = make_sparse(n=1_000_000, epsilon=1.0, delta=1e-6, honest=1.0, calibration="paper")
    >>> round(paper.analyzer.variance(np.array([0, 1_000_000])), 1)
    724.9
    """
    threshold = _choose_silent(crowd, promise, calibration, word_bits)
    device = Zsum(threshold=threshold, word_bits=word_bits)
    analyzer = SparseZsumAnalyzer(randomizer=device)
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        influence=analyzer.influence,
        offset=analyzer.offset,
    )


def _choose_silent(crowd: Crowd, promise: Promise, calibration: Calibration, bits: int) -> int:
    """Choose gamma in units of 2^-bits: the share of users who do not do as the others."""
    whole("word_bits", bits, at_least=1, at_most=64)
    choose = binomial_level if calibration is Calibration.EXACT else paper_gamma
    gamma = choose(n=crowd.trusted, epsilon=promise.epsilon, delta=promise.delta, bits=bits)
    return int(gamma * (1 << bits))


def paper_gamma(*, n: int, epsilon: float, delta: float, bits: int) -> Fraction:
    """Return 50 ln(2 / delta) / (epsilon^2 n) for n honest users, rounded up to a multiple of 2^-bits.

    >>> round(float(paper_gamma(n=10_000, epsilon=1.0, delta=1e-6, bits=64)), 5)
    0.07254
    >>> paper_gamma(n=1450, epsilon=1.0, delta=1e-6, bits=64)
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: the theorem needs 100 ln(2/delta)/epsilon^2 = 1450.9 honest users, and has 1450
    """
    if epsilon > 1:
        raise UnsupportedError(f"the theorem is for epsilon <= 1, not epsilon={epsilon!r}")
    log = Fraction(math.log(2 / delta) * (1 + 1e-15))  # rounded up
    level = 50 * log / Fraction(epsilon) ** 2
    if 2 * level > n:
        raise UnsupportedError(
            f"the theorem needs 100 ln(2/delta)/epsilon^2 = {float(2 * level):.1f} honest users, "
            f"and has {n}"
        )
    # At most 1/2, which is a multiple of 2^-bits, so rounding up does not pass it.
    return dyadic_above(level / n, bits)


SPEC = register(make, hints=LATE)
SPARSE = register(make_sparse, hints=LATE)
