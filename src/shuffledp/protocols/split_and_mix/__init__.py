"""Split and mix: sums of integers or reals with the accuracy of the central model, in a few messages.

Everybody adds a share of discrete Laplace noise to their number, writes the result modulo q as a sum of
`shares` numbers, all but one of them uniform, and sends these. Shuffled together, the messages of
all users say next to nothing but their sum: the view is within a tiny total variation distance of a
function of the noisy sum (shares.py), and the noisy sum is epsilon-DP as in the central model.

A user's share of the noise is the difference of two NB(1/h, a) numbers, a = e^(-epsilon / reach), h the
number of users who are honest: h shares make exactly discrete Laplace noise (noise.py).

Everybody sends the same number of messages, each of them uniform on its own. A user's messages must
arrive all or none: a missing one makes the sum worthless.

References: Ishai, Kushilevitz, Ostrovsky, Sahai 2006, "Cryptography from anonymity"; Balle, Bell, Gascon,
Nissim 2020, "Private summation in the multi-message shuffle model"; Ghazi, Manurangsi, Pagh, Velingker
2020, "Private aggregation from fewer anonymous messages".

Deviations: the number of shares follows from a bound that is evaluated, about one share less than the
published formula, which `calibration="paper"` uses.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np

from shuffledp.core.analyzer import Tally, check_messages
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Integers, Reals
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import Calibration, Cost, Crowd, Hints, Look, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.numerics.intervals import DiscreteLaplace, SharedNoise, SharedNoiseError
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.sums import (
    add_codes,
    answer,
    bound_bias,
    count_rounded,
    reach,
    read_scale,
    step,
)
from shuffledp.protocols.split_and_mix.noise import (
    SLOWEST,
    WORDS,
    NoiseShare,
    sampled_delta,
    small_delta,
)
from shuffledp.protocols.split_and_mix.shares import (
    find_shares,
    log2_distance,
    published_shares,
    secure_sum_delta,
)

__all__ = ["SPEC", "SplitAndMix", "SumModulo", "make"]

_SMALL_WORDS = 8
_SMALL_MODULUS = 256
_MOST_BITS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAndMix:
    """Code plus noise, modulo 2^bits, as `shares` numbers that add up to it.

    >>> share = NoiseShare(rate=Fraction(1), parts=1000)
    >>> device = SplitAndMix(domain=Integers(lower=0, upper=1), noise=share, bits=12, shares=3)
    >>> tape = np.array([[5, 7, 2**64 - 1, 0, 0, 0]], dtype=np.uint64)
    >>> device.encode(np.array([1]), tape).payload  # 5 + 7 + 4085 = 1 modulo 4096
    array([   5,    7, 4085], dtype=uint64)
    """

    domain: Integers | Reals
    noise: NoiseShare
    bits: int
    shares: int
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "discrete Laplace noise of the honest users' shares, and a bound on the components "
        "of a random graph for what split and mix reveals beyond the sum "
        "(after Balle, Bell, Gascon, Nissim 2020), evaluated numerically"
    )

    def __post_init__(self) -> None:
        whole("shares", self.shares, at_least=2)
        whole("bits", self.bits, at_least=1, at_most=_MOST_BITS)
        if self.bits > self.word_bits:
            raise ParameterError("word_bits", self.word_bits, f"must be >= {self.bits}, log2 of q")

    @property
    def word_bits(self) -> int:
        return self.noise.word_bits

    @property
    def words_per_input(self) -> int:
        return self.shares - 1 + WORDS

    @property
    def modulus(self) -> int:
        return 1 << self.bits

    @property
    def cost(self) -> Cost:
        return Cost.fixed(self.bits, messages=self.shares)

    def delta(self, honest: int, epsilon: float) -> float:
        """delta of the noisy sum, plus (1 + e^epsilon) times the distance that the shares leave."""
        if honest < 2:
            return 1.0  # the shares of one user alone add up to what they want to hide
        # A larger epsilon than the noise was made for adds nothing, and would count the distance more.
        used = min(epsilon, float(self.noise.rate * reach(self.domain)))
        distance = log2_distance(n=honest, m=self.shares, q=self.modulus)
        return secure_sum_delta(delta0=self.sum_delta(honest, used), epsilon=used, log2_tv=distance)

    def sum_delta(self, honest: int, epsilon: float) -> float:
        """delta of the noisy sum alone, for the noise that is sampled."""
        range_, noise = reach(self.domain), self.noise
        found = sampled_delta(epsilon=epsilon, reach=range_, share=noise, honest=honest)
        if self.word_bits > _SMALL_WORDS or self.modulus > _SMALL_MODULUS:
            return found
        exact = small_delta(
            epsilon=epsilon, reach=range_, share=noise, honest=honest, modulus=self.modulus
        )
        return min(found, exact)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        n, uniform = len(inputs), self.shares - 1
        # One row for each share: long contiguous loops are fast.
        sent = np.empty((self.shares, n), dtype=np.uint64)
        mask = np.uint64(self.modulus - 1)
        np.bitwise_and(words[:, :uniform].T, mask, out=sent[:uniform])
        last = sent[uniform]
        last[:] = inputs  # all sums wrap around modulo 2^64, hence modulo 2^bits
        rare, noise = self.noise.draw(words[:, uniform:])
        last[rare] += noise.astype(np.uint64)
        for share in sent[:uniform]:
            last -= share
        last &= mask
        users = np.arange(n, dtype=np.min_scalar_type(n))
        owner = np.broadcast_to(users, sent.shape).reshape(-1)
        return Messages(payload=sent.reshape(-1), owner=owner, users=n)

    def pmf(self, x: int) -> Law:
        """Return the law of what is sent up to its order, which is uniformly random given the multiset."""
        q, total = self.modulus, [Fraction(0)] * self.modulus
        for d, mass in self.noise.law().items():
            total[(x + d) % q] += mass
        law: Law = {}
        for sent in combinations_with_replacement(range(q), self.shares):
            orders = math.factorial(self.shares)
            for count in Counter(sent).values():
                orders //= math.factorial(count)
            law[sent] = total[sum(sent) % q] * orders / q ** (self.shares - 1)
        return law

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Return the shares cancel: what is left is the sum of the codes and of everybody's noise."""
        users = int(inputs.sum())
        return _tally(add_codes(inputs) + self.noise.deal(users, source), self.bits, users)


def _tally(total: int, bits: int, users: int) -> Tally:
    """Add up to one number, the sum modulo 2^bits, in the topmost bits of 64: so tallies add and wrap around."""
    placed = (total % (1 << bits)) << (64 - bits)
    return Tally(counts=np.array([placed], dtype=np.uint64).view(np.int64), users=users)


@dataclass(frozen=True, slots=True, kw_only=True)
class SumModulo:
    r"""Adds all messages modulo q, and reads the result as a number from -tail on.

    The tally is not a histogram of messages but one number, their sum modulo q = 2^bits, times 2^(64 - bits):
    as 64-bit integers wrap around, tallies add like any others. The noise of u users has the variance
    (u / parts) 2 a / (1 - a)^2, whatever the data are; the estimate is off by a multiple of q if
    the noise exceeds `tail`, which was made unlikely when q was chosen.
    """

    device: SplitAndMix
    task: str
    tail: int

    def __post_init__(self) -> None:
        whole("tail", self.tail, at_least=0)

    def influence(self) -> Fraction:
        """Return a message's share of what a report can do: move the sum anywhere among all q, in people."""
        return Fraction(self.device.modulus, reach(self.device.domain) * self.device.shares)

    def tally(self, shuffled: Shuffled) -> Tally:
        payload = shuffled.payload
        check_messages(payload, self.device.modulus)
        if len(payload) != shuffled.users * self.device.shares:
            raise DataError(
                f"{len(payload)} messages of {shuffled.users} users, who send "
                f"{self.device.shares} each: without all of them the sum means nothing"
            )
        total = int(np.add.reduce(payload.astype(np.uint64, copy=False), dtype=np.uint64))
        return _tally(total, self.device.bits, shuffled.users)

    def estimate(self, tally: Tally) -> Estimate:
        n, domain, q = tally.people(), self.device.domain, self.device.modulus
        if n * reach(domain) + 2 * self.tail >= q:
            raise DataError(f"the sum of {n} users may exceed the modulus: it was made for fewer")
        total = int(tally.counts.view(np.uint64)[0]) >> (64 - self.device.bits)
        if total >= q - self.tail:
            total -= q
        noise = self.device.noise
        error = SharedNoiseError(
            rate=noise.rate,
            shape=Fraction(n, noise.parts),
            step=float(step(domain, self.task, n)),
            rounded=count_rounded(domain, n),
            bias=bound_bias(domain, self.task, n),
        )
        return answer(domain, self.task, Fraction(total), n, error)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError(
            "a single share is uniform: only the sum of all of them has a meaning"
        )

    def variance(self, inputs: Counts) -> float:
        n, noise = int(inputs.sum()), self.device.noise
        of_codes = n / noise.parts * DiscreteLaplace(rate=noise.rate).variance
        return of_codes * float(step(self.device.domain, self.task, n)) ** 2


@shuffle(
    name="split_and_mix",
    task="sum",
    title="Split and mix",
    reference="Balle, Bell, Gascon, Nissim 2020",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    lower: float,
    upper: float,
    steps: int | None = None,
    task: str = "sum",
    calibration: Calibration = Calibration.EXACT,
    wrap: float = 1e-12,
    word_bits: int = 64,
) -> Parts:
    """Make a sum (or a mean) of integers lower .. upper, or of reals on a grid of `steps` steps.

    `wrap` bounds the probability that the noise exceeds the room left for it modulo q.

    >>> from shuffledp import SeededWords, run
    >>> ages = make(n=30_000, epsilon=1.0, delta=1e-6, lower=0, upper=120)
    >>> ages.cost.messages_max, ages.cost.bits_per_message
    (7, 22)
    >>> answer = run(ages, [20, 40, 60] * 10_000, SeededWords(1))
    >>> round(answer.stderr), abs(answer.value - 1_200_000) < 1_000
    (179, True)
    """
    domain, task = read_scale(lower, upper, steps, task)
    fraction_of_one("wrap", wrap)
    noise = _share_noise(crowd, promise, reach(domain), word_bits)
    shape = Fraction(crowd.n, crowd.trusted)
    tail = SharedNoise(rate=noise.rate, shape=shape).radius(Fraction(wrap))
    bits = (crowd.n * reach(domain) + 2 * tail).bit_length()
    bare = SplitAndMix(domain=domain, noise=noise, bits=bits, shares=2)
    spent = bare.sum_delta(crowd.trusted, promise.epsilon)
    find = find_shares if calibration is Calibration.EXACT else published_shares
    shares = find(n=crowd.trusted, q=bare.modulus, distance=_afford(promise, spent))
    device = replace(bare, shares=shares)
    analyzer = SumModulo(device=device, task=task, tail=tail)
    return Parts(
        device,
        analyzer,
        task=task,
        deal=device.deal,
        influence=analyzer.influence,
    )


def _share_noise(crowd: Crowd, promise: Promise, range_: int, word_bits: int) -> NoiseShare:
    if crowd.trusted < 2:
        raise UnsupportedError(
            f"n={crowd.n} users with honest={crowd.honest!r}: at least two must be honest"
        )
    rate = Fraction(promise.epsilon) / range_
    if rate < SLOWEST:
        raise UnsupportedError(
            f"epsilon={promise.epsilon!r} with {range_} steps needs noise beyond this sampler: "
            "steps / epsilon must be at most 2^22"
        )
    return NoiseShare(rate=rate, parts=crowd.trusted, word_bits=word_bits)


def _afford(promise: Promise, spent: float) -> float:
    """Return the total variation distance that what is left of delta pays for."""
    growth = math.exp(min(promise.epsilon, 700.0))
    distance = (promise.delta - spent) / (1 + growth) * (1 - 1e-9)
    if distance <= 0:
        raise UnsupportedError(
            f"delta={promise.delta!r} is below the precision of this sampler of the noise"
        )
    return distance


SPEC = register(make, hints=Hints(look=Look.FIRST))
