"""What histograms share in which everybody sends one real message and some uniform dummies.

A message supports the categories x with the message in S_x. The sets S_x hold the same share q of all
messages, and any two of them have the share q^2 in common. A user of category x sends

* a real message, uniform on S_x (or, with a tiny known probability, uniform on all messages),
* floor(rho) dummies, uniform on all messages, and one more with probability frac(rho).

Estimate. A real message supports its own category with probability p, any other one with
probability q; a dummy supports each with probability q. With N_x supporting messages of n users

    estimate_x = (N_x - n q (1 + rho)) / (p - q)          (unbiased)
    variance_x = (c_x p (1 - p) + (n - c_x) q (1 - q) + n v) / (p - q)^2,
    v = floor(rho) q (1 - q) + frac(rho) q (1 - frac(rho) q)

Privacy. Replace x by x', and reveal the other users' real messages. Given the number of dummies,
the likelihood ratio of what is left is (messages in S_x) / (messages in S_x'). Suppose the real message
is outside of the intersection (otherwise both cases look alike, which only helps). Then the dummies
outside the two exclusive parts say nothing, and the others fall into either part with probability
q (1 - q): the view is (A + 1, B) against (A, B + 1), the two bins of `accounting.moved_message`.
"""

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Protocol

import numpy as np

from shuffledp.accounting.moved_message import dummies, dummies_level, poisson_level
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Bools, Codes, Counts, Floats, Words
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import Cost, Crowd, NoisyDevice, Promise
from shuffledp.core.randomizer import Law, Message, Messages, WordSource
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import number
from shuffledp.numerics.dealing import binomial, deal_uniform
from shuffledp.numerics.intervals import TwoBinomialsError

__all__ = [
    "FEW_BITS",
    "PROOF",
    "CountedOracle",
    "DummiedAnalyzer",
    "DummiedOracle",
    "add_dummies",
    "choose_rho",
    "choose_support",
    "deal_dummied",
    "dummied_cost",
    "dummied_delta",
    "dummied_law",
]

PROOF = "the exact two-bin divergence of uniform dummies over a pairwise independent hash family"
FEW_BITS = 16
"""Of a message, up to which a tally counts all different ones."""
_RHO_BITS = 48
_AT_ONCE = 1 << 17  # people whose real messages are drawn together


class DummiedOracle(NoisyDevice, Protocol):
    """A randomizer of this kind."""

    @property
    def domain(self) -> Categories: ...

    @property
    def p(self) -> Fraction:
        """Exact probability that a real message supports its sender's category."""

    @property
    def q(self) -> Fraction:
        """Exact probability that any other message supports a given category."""

    @property
    def rho(self) -> Fraction:
        """The expected number of dummies of a user."""

    def find_supported(self, message: Message) -> Set[int]:
        """The categories that a message supports."""

    def tally(self, shuffled: Shuffled) -> Tally:
        """For each category, the number of messages that support it."""


class CountedOracle(DummiedOracle, Protocol):
    """One whose messages are numbered."""

    @property
    def message_bits(self) -> int:
        """Bits of the number of a message."""

    def unpack(self, numbers: Words) -> Words:
        """The messages of these numbers, one per row."""


def choose_support(crowd: Crowd, promise: Promise, messages: float) -> float:
    """About the smallest q at which `messages` messages each are enough; at most 1/2.

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
    """The fewest dummies that keep the promise, in units of 2^-word_bits."""
    rho = dummies_level(
        n=crowd.trusted,
        pair=_pair(q),
        epsilon=promise.epsilon,
        delta=promise.delta,
        bits=min(_RHO_BITS, word_bits),
    )
    return int(rho * (1 << word_bits))


def dummied_delta(*, q: Fraction, rho: Fraction, honest: int, epsilon: float) -> float:
    """At least the delta, from the dummies of the honest users (the target's included)."""
    return dummies(n=honest, rho=rho, pair=_pair(q)).delta(epsilon)


def _pair(q: Fraction) -> Fraction:
    """The probability that a dummy supports exactly one of two given categories."""
    return 2 * q * (1 - q)


def dummied_cost(rho: Fraction, bits: int) -> Cost:
    """One real message and rho dummies, of `bits` bits each."""
    return Cost(
        messages_mean=float(1 + rho),
        messages_max=1 + math.ceil(rho),
        bits_per_message=bits,
        count_depends_on_value=False,
    )


def add_dummies(real: Words, dummies: Words, coins: Bools, surely: int) -> Messages:
    """real[n, width], and of dummies[n, count, width] the first `surely`; the last where the coin says so."""
    n, _, width = dummies.shape
    users, one_more = np.arange(n), np.flatnonzero(coins)
    payload = (real, dummies[:, :surely].reshape(n * surely, width), dummies[one_more, -1])
    owner = np.concatenate((users, np.repeat(users, surely), one_more))
    return Messages(payload=np.concatenate(payload), owner=owner, users=n)


def deal_dummied(
    device: CountedOracle, inputs: Counts, draw: Callable[[Codes], Words], source: WordSource
) -> Tally:
    """The tally of inputs[x] people: their real messages, which `draw` draws, and all dummies, dealt.

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
    """The law of a user's messages, `real` that of the real one among all (with zeros, if need be)."""
    surely, share = divmod(rho, 1)
    law: Law = {}
    for count, chance in ((int(surely), 1 - share), (int(surely) + 1, share)):
        for sent in product(real, repeat=1 + count):
            mass = chance * real[sent[0]] / everything**count
            if mass:
                law[sent] = mass
    return law


@dataclass(frozen=True, slots=True, kw_only=True)
class DummiedAnalyzer:
    """Counts the messages that support each category, and removes the bias."""

    oracle: DummiedOracle

    @property
    def offset(self) -> tuple[Fraction, ...]:
        """What each user adds to the answer before any message."""
        oracle = self.oracle
        one = -oracle.q * (1 + oracle.rho) / (oracle.p - oracle.q)
        return (one,) * oracle.domain.k

    @property
    def influence(self) -> Fraction:
        """By how many people one message can move a bin: 1 / (p - q)."""
        return 1 / (self.oracle.p - self.oracle.q)

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.oracle.tally(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, oracle = tally.people(), self.oracle
        expected = n * oracle.q * (1 + oracle.rho)
        value: Floats = (tally.counts - np.float64(expected)) / np.float64(oracle.p - oracle.q)
        surely, share = divmod(oracle.rho, 1)
        error = TwoBinomialsError(
            observed=tally.counts,
            n=n,
            p=float(oracle.p),
            q=float(oracle.q),
            value=value,
            extra=((n * surely, float(oracle.q)), (n, float(share * oracle.q))),
        )
        everything = len(value) == oracle.domain.k  # or the tally is of some categories only
        labels = oracle.domain.labels if everything else None
        return Estimate(value=value, error=error, limits=(0.0, float(n)), labels=labels)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        oracle, zero = self.oracle, Fraction(0)
        supported, yes = oracle.find_supported(message), 1 / (oracle.p - oracle.q)
        return tuple(yes if j in supported else zero for j in range(oracle.domain.k))

    def variance(self, inputs: Counts) -> Floats:
        p, q, rho = self.oracle.p, self.oracle.q, self.oracle.rho
        own, n = inputs.astype(np.float64), int(inputs.sum())
        dummies = math.floor(rho) * _coin(q) + _coin((rho - math.floor(rho)) * q)
        of_tally = own * float(_coin(p)) + (n - own) * float(_coin(q)) + n * float(dummies)
        variance: Floats = of_tally / float(p - q) ** 2
        return variance


def _coin(p: Fraction) -> Fraction:
    """The variance of a coin."""
    return p * (1 - p)
