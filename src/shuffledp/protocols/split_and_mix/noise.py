r"""Discrete Laplace noise that many people make together: everybody draws one share of it.

NB(s, a) has Pr[k] = C(k + s - 1, k) (1 - a)^s a^k. The share of one of m people is D = X - Y with X and Y
independent NB(1/m, a), a = e^-rate. Shares add: h people together make the noise of NB(h/m, a), and m
people make exactly discrete Laplace noise, Pr[z] ~ a^|z|.

**A share is a mixture of geometric laws.** For 0 < s < 1 the Beta integral gives, for k >= 1,

    Pr[X = k] = (1 - a)^s sin(pi s) / pi * integral of x^(k+s) (1 - x)^(1-s) a^k du,   x = 1 / (1 + e^-u).

The trapezoidal rule with step h turns it into a sum, sum_i c_i t_i^k with t_i = a x_i. Its relative error
is at most 2 sum_j |G(1 - s + 2 pi i j / h)| / G(1 - s), G the gamma function, for every k: below 10^-15
for h = 1/4. So for d >= 1, with the difference of two geometric laws summed in closed form,

    Pr[D = d] = Pr[D = -d] = sum_i w_i t_i^d,   w_i = c_i ( (1 - a)^s + sum_j c_j t_i t_j / (1 - t_i t_j) ).

That needs a few hundred numbers, however slowly the noise decays; and nearly every share is 0.

**What it hides.** A sum of codes that one person moves by up to `reach`, plus the shares of h <= m people,
shape = h/m. The law P of that noise is symmetric and falls with |d|, so the largest shift is the worst, and
for that shift

    delta = sum_d max(0, P(d) - e^epsilon P(d - reach)).

With all m shares it is discrete Laplace noise: delta = 0 from epsilon = rate * reach on. For a smaller
epsilon, or fewer shares: P is a mixture of e^-((rate + c) |d|), c >= 0, which makes every term with d <= 0
positive as long as epsilon <= rate * reach, and P(d) / P(reach - d) fall with d. So the positive terms are
those up to one last d, and each part is a geometric sum. More than m shares are noise that is added: delta
does not grow. For a larger epsilon we claim what holds at rate * reach.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from shuffledp.core.arrays import Counts, Floats, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import number, whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import deal
from shuffledp.numerics.geometric import FIXED, largest_exponent, square_powers
from shuffledp.numerics.rounding import exp_lower

__all__ = [
    "SLOWEST",
    "WORDS",
    "Mixture",
    "NoiseShare",
    "ideal_delta",
    "mixture",
    "sampled_delta",
    "small_delta",
]

WORDS = 4
"""Words that one share takes: zero or a sign, the geometric law, and two for its value."""
SLOWEST = Fraction(1, 1 << 22)
"""The smallest rate."""

_STEP = 0.25
_LEAST = -40.0  # x^(1+s) is below 10^-17 further left, and k >= 1
_SLACK = 1e-11  # relative; sums of a few hundred positive terms
_RELATIVE_ERROR = 2e-13  # of the weights in floating point, generously


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixture:
    """Pr[D = d] = sum of weight * e^-((rate + excess) |d|), d != 0; the rest is Pr[D = 0]."""

    rate: float
    place: Floats
    """u of each term; infinite for x = 1."""
    weight: Floats

    @property
    def excess(self) -> Floats:
        """-ln x."""
        return np.log1p(np.exp(-self.place))

    @property
    def decay(self) -> Floats:
        return self.rate + self.excess

    @property
    def positive(self) -> Floats:
        """What each term adds to Pr[D >= 1]."""
        positive: Floats = self.weight / np.expm1(self.decay)
        return positive

    def mass(self, d: int) -> float:
        """Pr[D = d].

        >>> noise = mixture(1.0, 0.5)  # two of them make discrete Laplace noise
        >>> total = sum(noise.mass(d) * noise.mass(2 - d) for d in range(-60, 61))
        >>> abs(total - math.tanh(0.5) * math.exp(-2)) < 1e-14
        True
        """
        if d == 0:
            return 1 - 2 * float(self.positive.sum())
        return float((self.weight * np.exp(-self.decay * abs(d))).sum())


@lru_cache(maxsize=128)
def mixture(rate: float, shape: float) -> Mixture:
    """The law of X - Y, both NB(shape, e^-rate), 0 < shape <= 1."""
    if shape == 1:
        return Mixture(rate=rate, place=np.array([math.inf]), weight=np.tanh([rate / 2]))
    # Beyond the last place x is 1 for all that matters: the rest is a geometric series.
    last = math.ceil(45 - math.log(rate))
    u = np.arange(_LEAST, last + _STEP / 2, _STEP)
    log_c = -shape * np.log1p(np.exp(-u)) - (1 - shape) * np.logaddexp(0.0, u)
    rest = -(1 - shape) * (last + _STEP) - math.log(-math.expm1(-_STEP * (1 - shape)))
    log_zero = shape * math.log(-math.expm1(-rate))  # of Pr[X = 0]
    scale = math.log(_STEP * math.sin(math.pi * min(shape, 1 - shape)) / math.pi) + log_zero
    c = np.exp(np.append(log_c, rest) + scale)
    place = np.append(u, np.inf)
    decay = rate + np.log1p(np.exp(-place))
    both = 1 / np.expm1(decay[:, None] + decay[None, :])
    weight: Floats = c * (math.exp(log_zero) + both @ c)
    return Mixture(rate=rate, place=place, weight=weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseShare:
    """One of `parts` shares of discrete Laplace noise of this rate, from four words.

    `distance` bounds how far the law that is sampled is from the ideal one.

    >>> share = NoiseShare(rate=Fraction(1, 1000), parts=1_000_000)
    >>> f"{float(share.nonzero):.3e}", f"{share.distance:.0e}"
    ('1.382e-05', '3e-18')
    """

    rate: Fraction
    parts: int
    word_bits: int = 64
    threshold: int = field(init=False)
    """How many words make the share positive; as many make it negative."""
    places: tuple[float, ...] = field(init=False)
    shares: tuple[int, ...] = field(init=False)
    """How many words choose each place."""

    def __post_init__(self) -> None:
        whole("parts", self.parts, at_least=1)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        if self.rate < SLOWEST:
            raise ParameterError("rate", float(self.rate), "must be at least 2^-22")
        ideal = mixture(float(self.rate), 1 / self.parts)
        words = 1 << self.word_bits
        total = float(ideal.positive.sum())
        threshold = max(1, min(round(Fraction(total) * words), words // 2))
        shares = _apportion((ideal.positive / total).tolist(), words)
        kept = [(u, share) for u, share in zip(ideal.place.tolist(), shares, strict=True) if share]
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "places", tuple(u for u, _ in kept))
        object.__setattr__(self, "shares", tuple(share for _, share in kept))

    @property
    def nonzero(self) -> Fraction:
        """The exact probability that the share is not 0."""
        return Fraction(2 * self.threshold, 1 << self.word_bits)

    @property
    def distance(self) -> float:
        """At least the total variation distance from the law of X - Y."""
        word = 2.0**-self.word_bits
        longest = 1.5 * self.word_bits / float(self.rate)
        choice = len(mixture(float(self.rate), 1 / self.parts).place) * word
        given = _RELATIVE_ERROR + choice + 2 * longest * word * word
        return min(1.0, 2 * word + float(self.nonzero) * given)

    def draw(self, words: Words) -> tuple[Counts, Counts]:
        """Which users have a share other than 0, and what it is, for words[n, 4].

        >>> share = NoiseShare(rate=Fraction(1), parts=2)
        >>> who, what = share.draw(np.array([[0, 0, 0, 1], [2**64 - 1, 0, 0, 0]], dtype=np.uint64))
        >>> who.tolist(), what.tolist()
        ([0], [3])
        """
        rare = np.flatnonzero(tape.bernoulli(words[:, 0], 2 * self.threshold, self.word_bits))
        if not len(rare):
            return rare, rare
        chosen = words[rare]
        value = np.array(self._values(chosen[:, 1:]), dtype=np.int64)
        negative = chosen[:, 0] >= words.dtype.type(self.threshold)
        return rare, np.where(negative, -value, value)

    def deal(self, users: int, source: WordSource) -> int:
        """The sum of the shares of that many users: exactly the law of their sum, without drawing each.

        First how many are positive and negative; the few words of those are drawn as a device draws them.

        >>> from shuffledp import SeededWords
        >>> NoiseShare(rate=Fraction(1, 10), parts=10**9).deal(10**9, SeededWords(1))
        -7
        """
        signs = [self.threshold, self.threshold, (1 << self.word_bits) - 2 * self.threshold]
        up, down, _ = deal([users], [signs], self.word_bits, source).own[0].tolist()
        words = source.words(3 * (up + down), self.word_bits).reshape(-1, 3)
        values = self._values(words)
        return sum(values[:up]) - sum(values[up:])

    def _values(self, words: Words) -> list[int]:
        """What the last three words of a share other than 0 say it is, up to its sign."""
        return [
            1 + self._geometric(self._place(choice), (high << self.word_bits) + low)
            for choice, high, low in words.tolist()
        ]

    def _place(self, word: int) -> float:
        """The place whose words include this one; few people ask, so no array is made of it."""
        return self.places[bisect_right(_ends(self.shares), word)]

    def _geometric(self, place: float, wide: int) -> int:
        """The largest g with wide < 2^(2 word_bits) t^g."""
        surplus = FIXED - 2 * self.word_bits
        return largest_exponent(_powers(self.rate, place, surplus), wide, surplus)

    def law(self) -> dict[int, Fraction]:
        """The exact law, for words of a few bits."""
        words, law = 1 << self.word_bits, {0: 1 - self.nonzero}
        for place, share in zip(self.places, self.shares, strict=True):
            t = Fraction(_base(self.rate, place), 1 << FIXED)
            alive, g = words**2, 0
            while alive:
                longer = math.floor(words**2 * t ** (g + 1))
                mass = Fraction(self.threshold * share * (alive - longer), words**4)
                for d in (g + 1, -g - 1):
                    law[d] = law.get(d, Fraction(0)) + mass
                alive, g = longer, g + 1
        return law


def _apportion(chances: list[float], words: int) -> list[int]:
    """Shares of all words. Rounding errors go to the likeliest places, as far as these can bear them."""
    shares = [round(Fraction(chance) * words) for chance in chances]
    excess = sum(shares) - words
    for i in sorted(range(len(shares)), key=lambda i: -chances[i]):
        taken = min(excess, shares[i])
        shares[i] -= taken
        excess -= taken
    return shares


@lru_cache(maxsize=16)
def _ends(shares: tuple[int, ...]) -> tuple[int, ...]:
    """The first word beyond each place's words."""
    return tuple(accumulate(shares))


@lru_cache(maxsize=4096)
def _base(rate: Fraction, place: float) -> int:
    """t = a x in units of 2^-128, rounded down."""
    x = Fraction(1) if math.isinf(place) else 1 / (1 + _exp(-Fraction(place)))
    return math.floor(_exp(-rate) * x * (1 << FIXED))


_exp = lru_cache(maxsize=1024)(exp_lower)


@lru_cache(maxsize=4096)
def _powers(rate: Fraction, place: float, surplus: int) -> tuple[int, ...]:
    """t, t^2, t^4, ... as long as they are at least 2^(surplus - 128)."""
    return square_powers(_base(rate, place), surplus)


def ideal_delta(*, epsilon: float, reach: int, rate: Fraction, shape: Fraction) -> float:
    """At least delta of the sum with the shares of a fraction `shape` of the people.

    >>> rate = Fraction(1, 1000)
    >>> ideal_delta(epsilon=1.0, reach=1000, rate=rate, shape=Fraction(1))
    0.0
    >>> shapes = [Fraction(h, 100) for h in (99, 90, 50)]
    >>> [round(ideal_delta(epsilon=1.0, reach=1000, rate=rate, shape=h), 4) for h in shapes]
    [0.0036, 0.0403, 0.3066]
    >>> round(ideal_delta(epsilon=0.5, reach=1000, rate=rate, shape=Fraction(1)), 4)
    0.2212
    """
    whole("reach", reach, at_least=1)
    if shape <= 0:
        raise ParameterError("shape", shape, "must be > 0")
    if number("epsilon", epsilon) < 0:
        raise ParameterError("epsilon", epsilon, "must be >= 0")
    spare = max(rate * reach - Fraction(epsilon), Fraction(0))
    if shape >= 1 and not spare:
        return 0.0
    noise = mixture(float(rate), min(float(shape), 1.0))
    E = math.exp(min(float(rate * reach - spare), 700.0))
    # 1 - e^epsilon e^-(decay * reach), without cancellation: rate * reach is epsilon + spare.
    below = float((noise.positive * -np.expm1(-noise.excess * reach - float(spare))).sum())
    at_zero = max(0.0, noise.mass(0) - E * noise.mass(reach))
    delta = below + at_zero + _between(noise, reach, E)
    return min(1.0, delta * (1 + _SLACK) + 1e-13)


def _between(noise: Mixture, reach: int, E: float) -> float:
    """The positive terms with 0 < d < reach."""
    # Beyond the middle P(d) is the smaller one.
    last = _find_last((reach - 1) // 2, lambda d: noise.mass(d) > E * noise.mass(reach - d))
    if last == 0:
        return 0.0
    decay = noise.decay
    terms = noise.weight * np.expm1(-decay * last) / np.expm1(-decay)
    own = float((terms * np.exp(-decay)).sum())
    other = float((terms * np.exp(-decay * (reach - last))).sum())
    return max(0.0, own - E * other)


def _find_last(largest: int, holds: Callable[[int], bool]) -> int:
    """The largest d in 1 .. largest with holds(d), which turns false once; 0 if there is none."""
    low, high = 0, largest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def sampled_delta(*, epsilon: float, reach: int, share: NoiseShare, honest: int) -> float:
    """The same for the shares that `share` samples, of so many honest people.

    Their joint law is within honest * distance of the ideal one, on either side of the inequality.

    >>> share = NoiseShare(rate=Fraction(1, 1000), parts=1_000_000)
    >>> f"{sampled_delta(epsilon=1.0, reach=1000, share=share, honest=1_000_000):.1e}"
    '1.1e-11'
    """
    whole("honest", honest, at_least=1)
    shape = Fraction(honest, share.parts)
    ideal = ideal_delta(epsilon=epsilon, reach=reach, rate=share.rate, shape=shape)
    if epsilon > 700:
        return 1.0
    return min(1.0, ideal + (1 + math.exp(epsilon)) * honest * share.distance * (1 + 1e-12))


def small_delta(
    *, epsilon: float, reach: int, share: NoiseShare, honest: int, modulus: int
) -> float:
    """The same modulo a small modulus, from the sampled law itself: for words of a few bits.

    >>> for bits in (3, 8):
    ...     share = NoiseShare(rate=Fraction(1), parts=2, word_bits=bits)
    ...     delta = small_delta(epsilon=1.0, reach=1, share=share, honest=2, modulus=8)
    ...     f"{delta:.4f}"
    '0.2094'
    '0.0005'
    """
    one: Floats = np.zeros(modulus)
    for d, mass in share.law().items():
        one[d % modulus] += float(mass)
    total: Floats = np.zeros(modulus)
    total[0] = 1.0
    circle = np.array([np.roll(one, shift) for shift in range(modulus)])
    for _ in range(honest):
        total = total @ circle
    E = math.exp(epsilon)
    worst = max(
        float(np.maximum(total - E * np.roll(total, shift), 0.0).sum())
        for moved in range(1, reach + 1)
        for shift in (moved, -moved)
    )
    return min(1.0, worst * (1 + 1e-9) + 1e-12)
