"""What histograms share if everybody sends one real message and some uniform dummies.

A message supports the categories x with the message in S_x. The sets S_x hold the same share q of all
messages, and any two of them have the share q^2 in common. A user of category x sends

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import ClassVar, Protocol

import numpy as np

from shuffledp.accounting.moved_message import dummies, dummies_level, poisson_level
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Bools, Codes, Counts, Words
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import Cost, Crowd, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import number
from shuffledp.numerics.dealing import binomial, deal_uniform
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer, FrequencyOracle

FEW_BITS = 16
"""Up to so many bits in a message, a tally counts every different message."""
_RHO_BITS = 48
_AT_ONCE = 1 << 17  # people whose real messages are drawn together


class Dummied(ABC):
    """The base of devices that send one real message, and dummies / 2^word_bits uniform ones on average."""

    __slots__ = ()
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "the exact two-bin divergence of uniform dummies over a pairwise independent hash family"
    )
    k: int
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
    def domain(self) -> Categories:
        return Categories(k=self.k)

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
        """Return at least the delta, from the dummies of the honest users (the target's included)."""
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
