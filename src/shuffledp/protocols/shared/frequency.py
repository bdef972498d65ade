"""Histograms from messages that each support some categories.

A message of a user with category j supports j with probability p, and every other category with
probability q; besides, each user may add noise to every category, a sum of binomials Bin(t, r) whatever
the value is. So with N_j supporting messages of n users, m the mean of one user's noise and v its variance,

    estimate_j = (N_j - n (q + m)) / (p - q)                                (unbiased)
    variance_j = (c_j p (1 - p) + (n - c_j) q (1 - q) + n v) / (p - q)^2    (exact, c_j the true count)

Reference: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation" (their pure protocols, without noise). p and q are exact fractions of the sampled law, not the
ideal ones, so the estimate is exactly unbiased.

**Dummies.** Some histograms have everybody send one real message among uniform dummies. A message supports the
categories x with the message in S_x. The sets S_x hold the same share q of all messages, and any two of them have the
share q^2 in common. A user of category x sends

* a real message, uniform on S_x (or, with a tiny known probability, uniform on all messages),
* floor(rho) dummies, uniform on all messages, and one more with probability frac(rho).

Estimate. A real message supports its own category with probability p, any other one with
probability q; a dummy supports each with probability q. So dummies add Bin(floor(rho), q) + Bin(1, frac(rho) q) of
each user to every category: the noise of a `FrequencyAnalyzer`.

Privacy. Replace x by x', and reveal the other users' real messages. Given the number of dummies,
the likelihood ratio of what is left is (messages in S_x) / (messages in S_x'). Suppose the real message
is outside of the intersection (otherwise both cases look alike, which only helps). Then the dummies
outside the two exclusive parts say nothing, and the others fall into either part with probability
q (1 - q): the view is (A + 1, B) against (A, B + 1), the two bins of `accounting.moved_message`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import ClassVar, Protocol

import numpy as np

from shuffledp.accounting.moved_message import dummies, dummies_level, poisson_level
from shuffledp.core.analyzer import ErrorLaw, Estimate, Tally, bit_tally, message_tally
from shuffledp.core.arrays import Bools, Codes, Counts, Floats, Words
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import Cost, Crowd, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import number
from shuffledp.numerics.dealing import binomial, deal_uniform
from shuffledp.numerics.intervals import BinomialSum, NoiseError, TwoBinomialsError
from shuffledp.protocols.shared.assembly import OfCategories


class FrequencyOracle(Protocol):
    """A randomizer whose messages each support a set of categories."""

    @property
    def domain(self) -> Categories:
        """The categories."""

    @property
    def p(self) -> Fraction:
        """Exact probability that a message supports its sender's category."""

    @property
    def q(self) -> Fraction:
        """Exact probability that a message supports a given other category."""

    def __hash__(self) -> int:
        """Hash the parameters, which never change."""

    def find_supported(self, message: Message) -> Set[int]:
        """Return the categories that a message supports."""

    def tally(self, shuffled: Shuffled) -> Tally:
        """Count, for each category, the messages that support it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyAnalyzer:
    """Counts the messages that support each category, and removes the bias.

    >>> from shuffledp.protocols.dummies_histogram import DummiesHistogram
    >>> bins = DummiesHistogram(k=2, surely=1, threshold=0, word_bits=4)
    >>> analyzer = FrequencyAnalyzer(oracle=bins, noise=bins.noise)
    >>> analyzer.estimate(Tally(counts=np.array([70, 130]), users=100)).value
    array([20., 80.])
    """

    oracle: FrequencyOracle
    noise: tuple[tuple[int, Fraction], ...] = ()
    """(t, r) of the binomials that each user adds to every category; without any, everybody sends one message."""
    apart: bool = False
    """Whether a message supports no two categories together more often than if it did so independently."""

    def influence(self) -> Fraction:
        """Return by how many people one message can move a bin: 1 / (p - q)."""
        return 1 / self._gap

    @property
    def _gap(self) -> Fraction:
        return self.oracle.p - self.oracle.q

    @property
    def _expected(self) -> Fraction:
        """How many messages of one user are expected to support a category that they do not hold."""
        return self.oracle.q + sum(times * r for times, r in self.noise)

    def offset(self) -> tuple[Fraction, ...]:
        """Return what each user adds to the answer before any message."""
        one = -self._expected / self._gap if self.noise else Fraction(0)
        return (one,) * self.oracle.domain.k

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.oracle.tally(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, domain = tally.people(), self.oracle.domain
        value: Floats = (tally.counts - np.float64(n * self._expected)) / np.float64(self._gap)
        everything = len(value) == domain.k  # or the tally is of some categories only
        return Estimate(
            value=value,
            error=self._error(tally.counts, n, value),
            limits=(0.0, float(n)),
            labels=domain.labels if everything else None,
        )

    def _error(self, observed: Counts, n: int, value: Floats) -> ErrorLaw:
        if self._gap == 1:  # each person supports their own category alone: all the rest is noise
            noise = BinomialSum(parts=tuple((n * times, r) for times, r in self.noise))
            return NoiseError(noise=noise, observed=observed)
        p, q = float(self.oracle.p), float(self.oracle.q)
        extra = tuple((n * times, float(r)) for times, r in self.noise)
        return TwoBinomialsError(
            observed=observed, n=n, p=p, q=q, value=value, extra=extra, apart=self.apart
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        supported = self.oracle.find_supported(message)
        no = Fraction(0) if self.noise else -self._expected / self._gap
        yes = no + 1 / self._gap
        return tuple(yes if j in supported else no for j in range(self.oracle.domain.k))

    def variance(self, inputs: Counts) -> Floats:
        holder, other, noise = _variances(self)
        own = inputs.astype(np.float64)
        # In place: a million categories are long arrays.
        variance: Floats = own.sum() - own
        variance *= other
        own *= holder
        variance += own
        variance += float(int(inputs.sum()) * noise)
        return variance


class Numbered(OfCategories):
    """The base of devices whose messages are numbers of categories: each supports its own.

    >>> from shuffledp.protocols.krr import KRR
    >>> KRR(k=4, epsilon0=1.0).find_supported(2)
    {2}
    """

    __slots__ = ()

    def find_supported(self, message: Message) -> Set[int]:
        if not isinstance(message, int) or not 0 <= message < self.k:
            raise ParameterError("message", message, f"must be within 0 .. {self.k - 1}")
        return {message}

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.k)


class Marked(OfCategories):
    """The base of devices whose messages are a bit for each category: they support those that are marked."""

    __slots__ = ()

    def find_supported(self, message: Message) -> Set[int]:
        assert isinstance(message, tuple)
        return {j for j, bit in enumerate(message) if bit}

    def tally(self, shuffled: Shuffled) -> Tally:
        return bit_tally(shuffled, self.k)


def light_variance(p: Fraction, q: Fraction) -> Fraction:
    """Return the variance, per user, of the estimate of a category that nobody holds: q (1 - q) / (p - q)^2.

    This is what frequency oracles are tuned for.

    >>> light_variance(Fraction(3, 4), Fraction(1, 4))
    Fraction(3, 4)
    """
    return q * (1 - q) / (p - q) ** 2


@lru_cache(maxsize=256)
def _variances(analyzer: FrequencyAnalyzer) -> tuple[float, float, Fraction]:
    """Return what a user of the category adds to the variance, what one of another, and what the noise of either."""
    p, q = _cut(analyzer.oracle.p), _cut(analyzer.oracle.q)
    square = (p - q) ** 2
    noise = sum((times * r * (1 - r) for times, r in analyzer.noise), Fraction(0))
    return float(p * (1 - p) / square), float(q * (1 - q) / square), noise / square


def _cut(x: Fraction) -> Fraction:
    """Cut after 256 bits: an exact p can have thousands of digits, more than any float shows."""
    if x.denominator >> _BITS == 0:
        return x
    return Fraction((x.numerator << _BITS) // x.denominator, 1 << _BITS)


_BITS = 256


FEW_BITS = 16
"""Up to so many bits in a message, a tally counts every different message."""
_RHO_BITS = 48
_AT_ONCE = 1 << 17  # people whose real messages are drawn together


class Dummied(OfCategories):
    """The base of devices that send one real message, and dummies / 2^word_bits uniform ones on average."""

    __slots__ = ()
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "the exact two-bin divergence of uniform dummies over a pairwise independent hash family"
    )
    dummies: int
    word_bits: int

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """Exact probability that any message but a category's own supports it."""

    @property
    @abstractmethod
    def message_bits(self) -> int:
        """Bits of the number of a message."""

    @property
    def rho(self) -> Fraction:
        """The expected number of dummies of a user."""
        return Fraction(self.dummies, 1 << self.word_bits)

    @property
    def few(self) -> bool:
        return self.message_bits <= FEW_BITS

    @property
    def cost(self) -> Cost:
        return Cost(
            messages_mean=float(1 + self.rho),
            messages_max=1 + math.ceil(self.rho),
            bits_per_message=self.message_bits,
            count_depends_on_value=False,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound delta from above, by the dummies of the honest users (the target's included)."""
        return dummies(n=honest, rho=self.rho, pair=_pair(self.q)).delta(epsilon)


class CountedDevice(Protocol):
    """A device of this kind whose messages are numbered."""

    @property
    def domain(self) -> Categories: ...

    @property
    def word_bits(self) -> int: ...

    @property
    def rho(self) -> Fraction:
        """The expected number of dummies of a user."""

    @property
    def message_bits(self) -> int:
        """Bits of the number of a message."""

    def unpack(self, numbers: Words) -> Words:
        """Return the messages of these numbers, one per row."""

    def tally(self, shuffled: Shuffled) -> Tally:
        """Count, for each category, the messages that support it."""


def choose_support(crowd: Crowd, promise: Promise, messages: float) -> float:
    """Choose about the smallest q at which `messages` messages each are enough; at most 1/2.

    rho q (1 - q) per user must make up the noise of plain dummies.

    >>> crowd, promise = Crowd(n=10**6, honest=1.0), Promise(epsilon=1.0, delta=1e-6)
    >>> round(1 / choose_support(crowd, promise, messages=2.0))
    23443
    """
    if number("messages", messages) <= 1:
        raise ParameterError("messages", messages, "must be > 1: some dummies are needed")
    wanted = poisson_level(epsilon=promise.epsilon, delta=promise.delta) / crowd.trusted
    wanted /= messages - 1
    return 0.5 if wanted >= 0.25 else 2 * wanted / (1 + math.sqrt(1 - 4 * wanted))


def choose_rho(crowd: Crowd, promise: Promise, q: Fraction, word_bits: int) -> int:
    """Return the fewest dummies that keep the promise, in units of 2^-word_bits."""
    rho = dummies_level(
        n=crowd.trusted,
        pair=_pair(q),
        epsilon=promise.epsilon,
        delta=promise.delta,
        bits=min(_RHO_BITS, word_bits),
    )
    return int(rho * (1 << word_bits))


def _pair(q: Fraction) -> Fraction:
    """Return the probability that a dummy supports exactly one of two given categories."""
    return 2 * q * (1 - q)


def add_dummies(real: Words, dummies: Words, coins: Bools, surely: int) -> Messages:
    """Return real[n, width], and of dummies[n, count, width] the first `surely`; the last where the coin says so."""
    n, _, width = dummies.shape
    users, one_more = np.arange(n), np.flatnonzero(coins)
    payload = (real, dummies[:, :surely].reshape(n * surely, width), dummies[one_more, -1])
    owner = np.concatenate((users, np.repeat(users, surely), one_more))
    return Messages(payload=np.concatenate(payload), owner=owner, users=n)


def deal_dummied(
    device: CountedDevice, inputs: Counts, draw: Callable[[Codes], Words], source: WordSource
) -> Tally:
    """Return the tally of inputs[x] people: their real messages, which `draw` draws, and all dummies, dealt.

    The dummies of everybody are independent and uniform, so it is enough to know how many of them are equal to
    each message.
    """
    n, ends = int(inputs.sum()), inputs.cumsum()
    surely, coins = divmod(int(device.rho * (1 << device.word_bits)), 1 << device.word_bits)
    sent = n * surely + binomial(n, coins, device.word_bits, source)
    times, _ = deal_uniform(sent, 1 << device.message_bits, device.message_bits, source)
    for start in range(0, n, _AT_ONCE):
        people = np.arange(start, min(start + _AT_ONCE, n))
        real = draw(ends.searchsorted(people, side="right"))
        times += np.bincount(real.astype(np.int64), minlength=len(times))
    messages = device.unpack(np.arange(len(times), dtype=np.uint64))
    counts = np.zeros(device.domain.k, dtype=np.int64)
    # Each message as often as it occurs, in powers of two.
    for bit in range(int(times.max()).bit_length()):
        chosen = messages[(times >> bit & 1).astype(np.bool_)]
        if len(chosen):
            counts += device.tally(Shuffled(payload=chosen, users=n)).counts << bit
    return Tally(counts=counts, users=n)


def dummied_law(real: Mapping[Message, Fraction], everything: int, rho: Fraction) -> Law:
    """Return the law of a user's messages, `real` that of the real one among all (with zeros, if need be)."""
    surely, share = divmod(rho, 1)
    law: Law = {}
    for count, chance in ((int(surely), 1 - share), (int(surely) + 1, share)):
        for sent in product(real, repeat=1 + count):
            mass = chance * real[sent[0]] / everything**count
            if mass:
                law[sent] = mass
    return law


def analyze_dummied(oracle: FrequencyOracle, rho: Fraction) -> FrequencyAnalyzer:
    """Return the analyzer of real messages among rho dummies of each user."""
    surely, share = divmod(rho, 1)
    noise = ((int(surely), oracle.q), (1, share * oracle.q))
    return FrequencyAnalyzer(oracle=oracle, noise=noise)
