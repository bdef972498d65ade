r"""Hashed answers among a server's messages: for more categories than servers can add messages to.

`server_noise` adds messages to every category. Of a hundred thousand categories that is millions of messages. Here a device
draws a hash function of its own and sends it with a value that the category has, or one near it (`LinearHashing`): a
message supports one category in b = 1/q. The shuffler adds M uniform messages, about b mu of them, and the analyzer as many
of its own *before it counts*: noise for each category alone would not hide a message that supports many of them. A common
function would make collisions a bias; here they are noise. With N_j messages of n people that support category j,

    count_j  = (N_j - 2 M q - n q) / (p - q)                                           (unbiased)
    variance = (c_j p (1 - p) + (n - c_j + 2 M) q (1 - q)) / (p - q)^2                 (exact)

about 2 mu + n / b: mu is 62 at epsilon = 1 and delta = 1e-8, whatever the number of categories is. With a
floor the message is uniform with a probability that makes the likelihood ratio e^epsilon0 at most, and p is smaller. A
report that answers one random question of T has p / T and q / T in place of p and q of people's messages.

The guarantee is that of either server's messages alone (`accounting.server_noise`), and counts on nobody else's honesty.
Intervals invert the exact law of N_j, a sum of three binomials: each covers its own category.
"""

import math
from collections.abc import Set
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from shuffledp.accounting.server_noise import AddedLaw, Moved, Scattered, open_curve
from shuffledp.core.analyzer import Estimate, Tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.capabilities import Capabilities
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import Cost, ShuffleProtocol, Unconditional
from shuffledp.core.randomizer import Law, Message, Messages, NumberCode, Shuffled
from shuffledp.core.validate import positive, whole
from shuffledp.numerics import tape
from shuffledp.numerics.galois import SPARE_BITS, LinearHashing
from shuffledp.numerics.intervals import TwoBinomialsError
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.server_noise import NAME, SERVERS, find_noise
from shuffledp.protocols.shared.assembly import OfCategories

TASK = "histogram"
"""The one kind of question that it answers."""
_DEGREE = 32  # of the field: the function 0, which tells no categories apart, is hardly ever drawn
_LAW_MAX = 1 << 16  # messages; a longer list would take seconds
_PROOF = "the exact law of the uniform messages that each server adds, by itself"
_EPSILON = 1.0  # at which a protocol by itself states its delta


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedBin(OfCategories):
    """The person's own hash function and a value near that of the category, or any value (the floor).

    >>> device = HashedBin(k=4, r=2, s=2, width=1, word_bits=4)
    >>> device.p, device.q, device.pmf(1)[((1, 1),)]
    (Fraction(1, 1), Fraction(1, 4), Fraction(1, 4))
    >>> HashedBin(k=4, r=2, s=2, width=1, floor=1.0, word_bits=4).p
    Fraction(7, 16)
    """

    k: int
    r: int
    s: int
    width: int
    floor: float | None = None
    """The local epsilon; None: there is none."""
    word_bits: int = 64
    blanket: int = field(init=False)
    """How many of the 2^word_bits words make the message uniform."""

    def __post_init__(self) -> None:
        hashing = self.hashing
        whole("word_bits", self.word_bits, at_least=self.r + self.s, at_most=64)
        blanket = 0
        if self.floor is not None:
            gain = hashing.q * (exp_lower(positive("floor", self.floor)) - 1)
            kept = gain / (1 + gain) / (1 - hashing.reject(self.word_bits))
            blanket = max(0, math.ceil((1 - kept) * (1 << self.word_bits)))
            if blanket >= 1 << self.word_bits:
                raise UnsupportedError(
                    f"floor={self.floor!r} leaves nothing of a message with words of {self.word_bits} bits"
                )
        object.__setattr__(self, "blanket", blanket)

    @property
    def hashing(self) -> LinearHashing:
        """The hash family."""
        return LinearHashing(k=self.k, r=self.r, s=self.s, width=self.width)

    @property
    def epsilon0(self) -> float:
        return math.inf if self.floor is None else self.floor

    @property
    def words_per_input(self) -> int:
        """A function (and a spare value), how near the value is, and the coin of the floor."""
        return 2 if self.floor is None else 3

    @property
    def cost(self) -> Cost:
        return Cost.fixed(self.hashing.bits)

    @property
    def code(self) -> NumberCode:
        return self.hashing.code

    @property
    def truthful(self) -> Fraction:
        """The exact probability that a message is drawn only from those that support the person's category."""
        words = 1 << self.word_bits
        return Fraction(words - self.blanket, words) * (1 - self.hashing.reject(self.word_bits))

    @property
    def q(self) -> Fraction:
        """The exact probability that a message supports a given other category."""
        return self.hashing.q

    @property
    def p(self) -> Fraction:
        """The exact probability that a message supports its sender's category."""
        return self.truthful + (1 - self.truthful) * self.q

    def encode(self, inputs: Codes, words: Words) -> Messages:
        a, v = self.hashing.send(inputs, words[:, 0], words[:, 1], self.word_bits)
        if self.floor is not None:
            coins = tape.bernoulli(words[:, 2], self.blanket, self.word_bits)
            v = np.where(coins, self.hashing.split(words[:, 0])[1], v)
        return Messages.one_each(np.column_stack((a, v)))

    def pmf(self, x: int) -> Law:
        everything = 1 << self.hashing.bits
        if everything > _LAW_MAX:
            raise UnsupportedError(f"the law has 2^{self.hashing.bits} messages")
        law: Law = {}
        for message in product(range(1 << self.r), range(1 << self.s)):
            mass = (1 - self.truthful) / everything
            if x in self.hashing.find_supported(message):
                mass += self.truthful / (self.width << self.r)
            if mass:
                law[(message,)] = mass
        return law

    def find_supported(self, message: Message) -> Set[int]:
        """Return the categories that a message supports."""
        return self.hashing.find_supported(message)

    def find_moved(self, weight: float = 1.0) -> Moved:
        """Return what one report changes among the messages: p and q of what it alone supports, up to a common factor <= 1."""
        if self.floor is None:
            return Moved(moves=2, weight=weight, support=self.q)
        apart = (1 - self.truthful) * self.q
        return Moved(moves=2, p=self.truthful + apart, q=apart, weight=weight, support=self.q)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmongHashed:
    """Counts the messages that support each category, and removes the bias of both servers' and of everybody's.

    >>> device = HashedBin(k=4, r=2, s=2, width=1)
    >>> among = AmongHashed(device=device, messages=100)
    >>> found = among.estimate(Tally(counts=np.array([60, 90, 75, 75]), users=80))
    >>> np.round(found.value, 1), np.round(found.stderr, 1)
    (array([-13.3,  26.7,   6.7,   6.7]), array([9.7, 9.2, 9.5, 9.5]))
    """

    device: HashedBin
    messages: int
    """How many uniform messages each server adds."""
    parts: int = 1
    """How many questions there are of which a report answers one at random."""

    def __post_init__(self) -> None:
        whole("messages", self.messages, at_least=1)
        whole("parts", self.parts, at_least=1)

    @property
    def p(self) -> Fraction:
        """The probability that a report has a message that supports its sender's category."""
        return self.device.p / self.parts

    @property
    def q(self) -> Fraction:
        """The probability that a report has a message that supports a given other category."""
        return self.device.q / self.parts

    @property
    def gap(self) -> Fraction:
        """What is left of a category's people on average: p - q."""
        return self.p - self.q

    @property
    def added(self) -> tuple[int, Fraction]:
        """How many messages both servers add, and how often each supports a category."""
        return SERVERS * self.messages, self.device.q

    def influence(self) -> Fraction:
        """Return by how many people one message can move a category: 1 / (p - q)."""
        return 1 / self.gap

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.device.hashing.tally(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, (many, often) = tally.people(), self.added
        expected = np.float64(n * self.q + many * often)
        value: Floats = (tally.counts - expected) / np.float64(self.gap)
        error = TwoBinomialsError(
            observed=tally.counts,
            n=n,
            p=float(self.p),
            q=float(self.q),
            value=value,
            extra=((many, float(often)),),
        )
        return Estimate(value=value, error=error, limits=(0.0, float(n)))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        """Return what one message adds to the counts of the categories."""
        supported = self.device.find_supported(message)
        return tuple(Fraction(int(j in supported)) / self.gap for j in range(self.device.k))

    def variance(self, inputs: Counts) -> Floats:
        variance: Floats = self.spread(inputs.astype(np.float64), float(inputs.sum()))
        return variance

    def spread(self, own: Any, n: float) -> Any:
        """Return the variance of the count of a category that `own` of n people have."""
        p, q, (many, often) = float(self.p), float(self.q), self.added
        noise = float(many * often * (1 - often))
        return (own * p * (1 - p) + (n - own) * q * (1 - q) + noise) / float(self.gap) ** 2


def choose_hashing(k: int, support: float) -> LinearHashing:
    """Return the hashing of k categories whose messages support at least this share of them, hardly more.

    >>> choose_hashing(10_000, 1 / 3000)
    LinearHashing(k=10000, r=32, s=17, width=44)
    """
    s = math.ceil(-math.log2(support)) + SPARE_BITS
    width = min(math.ceil(support * (1 << s)), 1 << (s - 1))
    return LinearHashing(k=k, r=_DEGREE, s=s, width=width)


def make_server_hashing(
    *,
    k: int,
    r: int,
    s: int,
    width: int,
    messages: int,
    epsilon: float | None = None,
    parts: int = 1,
) -> ShuffleProtocol:
    """Return the protocol of a histogram of many categories whose noise comes from the servers.

    `messages` is what each of them adds; `epsilon` is the floor, if there is one.

    >>> many = make_server_hashing(k=10_000, r=32, s=17, width=44, messages=185_030)
    >>> f"{many.guarantee.epsilon:g} {many.guarantee.delta:.4g}", many.guarantee.honest
    ('1 9.996e-09', 1)
    """
    device = HashedBin(k=k, r=r, s=s, width=width, floor=epsilon)
    analyzer = AmongHashed(device=device, messages=messages, parts=parts)
    given = {"task": TASK, "epsilon": epsilon, "k": k, "parts": parts}
    given |= {"messages": messages, "r": r, "s": s, "width": width}
    guarantee = _guarantee(Scattered(messages=messages, support=device.q), device.find_moved())
    return ShuffleProtocol(
        name=NAME,
        parameters={name: value for name, value in given.items() if value is not None},
        task=TASK,
        randomizer=device,
        analyzer=analyzer,
        guarantee=guarantee,
        accountant=Unconditional(always=guarantee),
        offers=Capabilities(code=device.code, influence=analyzer.influence),
    )


def find_added(protocol: ShuffleProtocol) -> tuple[Moved, AddedLaw]:
    """Return what one report changes among the messages of a question, hashed or not, and the law of what a server adds.

    >>> find_added(make_server_hashing(k=9, r=4, s=2, width=1, messages=70))[1].messages
    70
    """
    device = protocol.randomizer
    if isinstance(device, HashedBin):
        return device.find_moved(), Scattered(
            messages=protocol.parameters["messages"], support=device.q
        )
    return find_noise(protocol)


@lru_cache(maxsize=256)
def _guarantee(noise: Scattered, moved: Moved) -> Guarantee:
    delta = open_curve(moved, noise).delta(_EPSILON)
    return Guarantee(epsilon=_EPSILON, delta=delta, model=Model.SHUFFLE, proof=_PROOF)
