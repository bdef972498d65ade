r"""Unary sums: everybody sends as many ones as their value says, and some more.

A value is rounded at random, without bias, to one of 0 .. r; the user sends that many messages, and one
more for each of `coins` coins that comes up. All messages are equal, so the view is one number: the sum
of the rounded values plus Bin(h coins, gamma), h the number of honest users. One person moves the sum by at
most r, so gamma is calibrated by the exact curve of a count that moves by r (accounting/noisy_count).

With r about epsilon sqrt(n) the rounding is negligible, and the error is about three times that of the
central model for every n: far better than one message, at the price of many.

**Privacy.** Given how everybody's value was rounded, the view is a sum that differs by at most r between
neighbours; the hockey-stick divergence is jointly convex, so rounding at random does not raise it. For
log-concave noise it grows with the shift, so r is the worst one.

The number of messages depends on the value: the transport must hide how many come from whom.

Reference: Cheu, Smith, Ullman, Zeber, Zhilyaev 2019, "Distributed differential privacy via shuffling"
(unary encoding, every bit through randomized response). Deviations: noise messages in place of flipped
bits, which makes the view a plain sum; its curve is evaluated, not composed of r bits. There are no
published constants for that, hence no `calibration="paper"`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb
from typing import ClassVar

import numpy as np

from shuffledp.accounting.base import gaussian_scale
from shuffledp.accounting.noisy_count import BinomialCount, binomial_level
from shuffledp.core.analyzer import ErrorLaw, Estimate, Interval, Tally, Value, tally_ones
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Integers, Reals, rounding_words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Calibration, Cost, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics import dealing, intervals, tape
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.sums import (
    answer,
    bound_bias,
    is_average,
    reach,
    read_scale,
    step,
    unit,
)

_MOST_ONES = 1 << 20
_MOST_COINS = 4096  # of one user
_MANY_COINS = 16
_LEVEL_BITS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryDevice:
    """Code i of 0 .. G as i slope / 2^fraction_bits ones, rounded at random, plus the coins that come up.

    slope is r 2^fraction_bits / G rounded down, so every probability is exact: code G sends r ones, or
    less by a fraction below G / 2^fraction_bits.

    >>> device = UnaryDevice(
    ...     domain=Integers(lower=0, upper=4), ones=2, coins=1, threshold=1, word_bits=2
    ... )
    >>> device.pmf(1)  # half a one, and another with probability 1/4
    {(): Fraction(3, 8), (1,): Fraction(1, 2), (1, 1): Fraction(1, 8)}
    """

    domain: Integers | Reals
    ones: int
    """r, the most that a value sends."""
    coins: int
    threshold: int
    """How many of the 2^word_bits words make a coin come up."""
    word_bits: int = 64
    slope: int = field(init=False)
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "both tails of the binomial law of the honest users' noise messages, for a sum that "
        "moves by r (unary encoding: Cheu, Smith, Ullman, Zeber, Zhilyaev 2019)"
    )

    def __post_init__(self) -> None:
        whole("ones", self.ones, at_least=1, at_most=_MOST_ONES)
        whole("coins", self.coins, at_least=1, at_most=_MOST_COINS)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("threshold", self.threshold, at_least=1, at_most=(1 << self.word_bits) - 1)
        slope = (self.ones << self.fraction_bits) // reach(self.domain)
        if slope < 1:
            raise ParameterError(
                "ones",
                self.ones,
                f"must be larger: with words of {self.word_bits} bits, neighbours among "
                f"{reach(self.domain) + 1} values would send the same",
            )
        object.__setattr__(self, "slope", slope)

    @property
    def fraction_bits(self) -> int:
        """The bits of the fraction: what a product of code and slope leaves of 62 bits."""
        return min(self.word_bits, 62 - self.ones.bit_length())

    @property
    def words_per_input(self) -> int:
        return 1 + self.coins

    @property
    def gamma(self) -> Fraction:
        """The exact probability of a coin."""
        return Fraction(self.threshold, 1 << self.word_bits)

    @property
    def per_code(self) -> Fraction:
        """How many ones a code is worth, exactly."""
        return Fraction(self.slope, 1 << self.fraction_bits)

    @property
    def rounds(self) -> bool:
        """Whether any code is rounded at random."""
        return self.slope % (1 << self.fraction_bits) != 0

    @property
    def cost(self) -> Cost:
        """The cost of the value that sends most."""
        return Cost(
            messages_mean=self.ones + self.coins * float(self.gamma),
            messages_max=self.ones + self.coins,
            bits_per_message=1,
            count_depends_on_value=True,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        """Return the delta of a binomial count that one person moves by r."""
        noise = BinomialCount(n=honest * self.coins, gamma=self.gamma, shift=self.ones)
        return noise.delta(epsilon)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        n, bits = len(inputs), np.uint64(self.fraction_bits)
        exact = inputs.astype(np.uint64) * np.uint64(self.slope)
        part = exact & np.uint64((1 << self.fraction_bits) - 1)
        drawn = words[:, 0].astype(np.uint64) >> np.uint64(self.word_bits - self.fraction_bits)
        count = (exact >> bits).astype(np.int64) + (drawn < part)
        count += tape.bernoulli(words[:, 1:], self.threshold, self.word_bits).sum(axis=1)
        owner = np.repeat(np.arange(n), count)
        return Messages(payload=np.ones(len(owner), dtype=np.uint8), owner=owner, users=n)

    def pmf(self, x: int) -> Law:
        low, up = self._round(x)
        law: Law = {}
        for heads in range(self.coins + 1):
            mass = comb(self.coins, heads) * self.gamma**heads
            mass *= (1 - self.gamma) ** (self.coins - heads)
            for more, chance in ((0, 1 - up), (1, up)):
                if chance:
                    sent = (1,) * (low + heads + more)
                    law[sent] = law.get(sent, Fraction(0)) + mass * chance
        return law

    def _round(self, x: int) -> tuple[int, Fraction]:
        """Return how many ones at least, and the probability of one more."""
        low = x * self.slope >> self.fraction_bits
        return low, x * self.per_code - low

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal the number of messages, since all are equal: a binomial one for each code, and the coins."""
        users, seen = int(inputs.sum()), np.flatnonzero(inputs)
        mask = (1 << self.fraction_bits) - 1
        exact = [x * self.slope for x in seen.tolist()]
        ups = dealing.binomials(
            inputs[seen], [each & mask for each in exact], self.fraction_bits, source
        )
        lows = sum(
            (each >> self.fraction_bits) * count
            for each, count in zip(exact, inputs[seen].tolist(), strict=True)
        )
        coins = dealing.binomial(users * self.coins, self.threshold, self.word_bits, source)
        total = lows + int(ups.sum()) + coins
        return Tally(counts=np.array([total], dtype=np.int64), users=users)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoinsError:
    """The error of base + step * observed, where observed = truth + the number of coins that came up."""

    coins: intervals.BinomialLaw
    observed: int
    base: float
    step: float

    @property
    def stderr(self) -> float:
        """Exact standard deviation of the noise."""
        return self.step * math.sqrt(self.coins.variance)

    def interval(self, value: Value, level: float) -> Interval:
        """Return the exact one: nothing was rounded at random, so the law is known."""
        return self.exact_interval(value, level)

    def exact_interval(self, value: Value, level: float) -> Interval:
        error = intervals.BinomialError(noise=self.coins, observed=self.observed)
        low, high = error.exact_interval(value, level)
        return Interval(self.base + self.step * low, self.base + self.step * high)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnarySum:
    """Counts the messages, takes away the coins that are expected, and scales.

    If values are rounded at random, to ones or to a grid before, the variance depends on them a little: the
    standard error takes 1/4 for each, the worst case, and intervals are bounds that hold for all data.
    """

    device: UnaryDevice
    task: str

    def influence(self) -> Fraction:
        """Return by how many people one message can move the sum: a person moves it by the whole range."""
        return 1 / (self.device.per_code * reach(self.device.domain))

    def tally(self, shuffled: Shuffled) -> Tally:
        return tally_ones(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, device = tally.people(), self.device
        observed = int(tally.counts[0])
        coins = intervals.BinomialLaw(n=n * device.coins, gamma=device.gamma)
        codes = (observed - coins.centre) / device.per_code
        return answer(device.domain, self.task, codes, n, self._error(coins, observed, n))

    def _error(self, coins: intervals.BinomialLaw, observed: int, n: int) -> ErrorLaw:
        worth, domain = self._worth(n), self.device.domain
        share = 1 if is_average(self.task) else n
        base = float(share * domain.lower)
        # What rounding to ones and to the grid is off by at most: a coin is off by less than one.
        roundings = (
            float(self.device.rounds),
            float(self.device.per_code) * rounding_words(domain),
        )
        if any(roundings):
            most = worth**2 * (coins.variance + n / 4 * sum(each**2 for each in roundings))
            return intervals.BoundedError(
                stderr=math.sqrt(most),
                most=(most, 0.0, 0.0),
                least=worth**2 * coins.variance,
                reach=worth * max(1.0, sum(roundings)),
                limits=(base, float(share * domain.upper)),
                bias=bound_bias(domain, self.task, n),
            )
        return CoinsError(coins=coins, observed=observed, base=base, step=worth)

    def _worth(self, n: int) -> float:
        """Return what one message adds to the answer."""
        return float(step(self.device.domain, self.task, n) / self.device.per_code)

    def offset(self) -> tuple[Fraction, ...]:
        """Return what a user adds to the answer to the total before any message."""
        device = self.device
        coins = device.coins * device.gamma / device.per_code
        return (Fraction(device.domain.lower) - unit(device.domain) * coins,)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        return (unit(self.device.domain) / self.device.per_code,)

    def variance(self, inputs: Counts) -> float:
        device, n = self.device, int(inputs.sum())
        seen = np.flatnonzero(inputs)
        mask = (1 << device.fraction_bits) - 1
        part = (seen * device.slope & mask) / (mask + 1)
        rounding = float(inputs[seen] @ (part * (1 - part)))
        noise = float(n * device.coins * device.gamma * (1 - device.gamma))
        return self._worth(n) ** 2 * (rounding + noise)


@shuffle(
    name="unary_sum",
    task="sum",
    title="Unary sums",
    reference="Cheu, Smith, Ullman, Zeber, Zhilyaev 2019",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    lower: float,
    upper: float,
    steps: int | None = None,
    ones: int | None = None,
    task: str = "sum",
    calibration: Calibration = Calibration.EXACT,
    word_bits: int = 64,
) -> Parts:
    """Make a sum (or a mean) of integers lower .. upper, or of reals on a grid of `steps` steps.

    `ones` is r; unless given it is epsilon sqrt(n), or the number of steps if that is less.

    >>> from shuffledp import SeededWords, run
    >>> p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0.0, upper=1.0, steps=1000)
    >>> p.randomizer.ones, round(p.cost.messages_mean)
    (100, 140)
    >>> answer = run(p, [0.2, 0.4] * 5000, SeededWords(1))
    >>> round(answer.value), round(answer.stderr, 1)
    (3003, 4.5)
    """
    if calibration is Calibration.PAPER:
        raise UnsupportedError("no constants are published for this variant: calibration='exact'")
    domain, task = read_scale(lower, upper, steps, task)
    if ones is None:
        ones = min(math.ceil(promise.epsilon * math.sqrt(crowd.n)), reach(domain), _MOST_ONES)
    r = whole("ones", ones, at_least=1, at_most=_MOST_ONES)
    bits = whole("word_bits", word_bits, at_least=1, at_most=64)
    coins, gamma = find_coins(crowd.trusted, r, promise, min(_LEVEL_BITS, bits))
    threshold = int(gamma * (1 << word_bits))
    device = UnaryDevice(
        domain=domain, ones=r, coins=coins, threshold=threshold, word_bits=word_bits
    )
    analyzer = UnarySum(device=device, task=task)
    return Parts(
        device,
        analyzer,
        task=task,
        deal=device.deal,
        influence=analyzer.influence,
        offset=analyzer.offset,
    )


def find_coins(n: int, r: int, promise: Promise, bits: int) -> tuple[int, Fraction]:
    """Return the fewest coins per user that suffice with gamma <= 1/2, and their gamma.

    Many coins are left fair: one less would not do, and the variance of a coin hardly depends on
    gamma there.

    >>> find_coins(10_000, 100, Promise(epsilon=1.0, delta=1e-6), 48)
    (72, Fraction(1, 2))
    """
    half, epsilon, delta = Fraction(1, 2), promise.epsilon, promise.delta

    def enough(coins: int) -> bool:
        return BinomialCount(n=n * coins, gamma=half, shift=r).delta(epsilon) <= delta

    coins = _find_fewest(enough, math.ceil(4 * (r / gaussian_scale(promise)) ** 2 / n))
    if coins is None:
        raise UnsupportedError(
            f"n={n} honest users would need more than {_MOST_COINS} coins each for ones={r}: fewer "
            "ones, or more users"
        )
    if coins >= _MANY_COINS:
        return coins, half
    total = n * coins
    return coins, binomial_level(n=total, shift=r, epsilon=epsilon, delta=delta, bits=bits)


def _find_fewest(enough: Callable[[int], bool], guess: int) -> int | None:
    """Return the smallest number that is enough, from a guess that is seldom far off."""
    coins = min(max(guess, 1), _MOST_COINS)
    while not enough(coins):
        coins += 1
        if coins > _MOST_COINS or coins > 2 * guess + 64:
            return None
    while coins > 1 and enough(coins - 1):
        coins -= 1
    return coins


SPEC = register(make, hints=LATE)
