r"""Discrete Laplace noise that many people make together: everybody draws one share of it.

NB(s, a) has Pr[k] = C(k + s - 1, k) (1 - a)^s a^k. The share of one of m people is D = X - Y with X and Y
independent NB(1/m, a), a = e^-rate. Shares add: h people together make the noise of NB(h/m, a), and m
people make exactly discrete Laplace noise, Pr[z] ~ a^|z|.

**A share is a mixture of geometric laws.** For 0 < s < 1 the Beta integral gives, for k >= 1,

    Pr[X = k] = (1 - a)^s sin(pi s) / pi * integral of x^(k+s) (1 - x)^(1-s) a^k du,   x = 1 / (1 + e^-u).

The trapezoidal rule with step h turns it into a sum, sum_i c_i t_i^k with t_i = a x_i. By Poisson's
summation formula its relative error is, for every k, at most 2 sum_(j>=1) |G(1 - s + i w_j)| / G(1 - s), G the
gamma function and w_j = 2 pi j / h. |G| falls with s here, so s = 0 is the worst: |G(1 + i w)|^2 = pi w / sinh(pi w),
and h = 3/16 leaves 10^-21. What lies left of u = -46 is at most e^-46 of Pr[X = k]; right of 46 - ln(rate) we take
x = 1, which moves a share e^-46 of the mass at most. With E[t^Y] = ((1 - a) / (1 - a t))^s, for d >= 1,

    Pr[D = d] = Pr[D = -d] = sum_i w_i t_i^d,   w_i = c_i ((1 - a) / (1 - a t_i))^s.

That needs some six hundred numbers, however slowly the noise decays; and nearly every share is 0. The tables
that are sampled from are computed with 26 digits, so only their rounding to words counts.

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
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from shuffledp.core.arrays import Counts, Floats, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import non_negative, whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import deal
from shuffledp.numerics.rounding import exp_lower
from shuffledp.numerics.tape import FIXED, bound_distance, find_exponent, square_powers

WORDS = 4
"""Words that one share takes: zero or a sign, the geometric law, and two for its value."""
SLOWEST = Fraction(1, 1 << 22)
"""The smallest rate."""

_STEP = 3 / 16
_FAR = 46  # e^-46 is 1.1e-20
_DIGITS = Context(prec=26)
_UNITS = 10**60
_TABLE_ERROR = 1e-19
"""The relative error of the tabulated chances: 2 e^-46, 10^-21 of the integral, and less for the 26 digits."""
_FLOAT_ERROR = 6e-13
"""The relative error of a sum of positive terms below, in units of 2^-53: a weight's exponent is a sum of numbers up to
120 with some ten roundings, 1100; e^(-decay d) e^epsilon, where it matters, 4 (epsilon + 100), up to 3200; quotients
and sums of 600 terms, 700. What is left of the 5400 is for a rate and a shape that are rounded."""


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
        """Return Pr[D = d].

        >>> noise = mixture(1.0, 0.5)  # two of them make discrete Laplace noise
        >>> total = sum(noise.mass(d) * noise.mass(2 - d) for d in range(-60, 61))
        >>> abs(total - math.tanh(0.5) * math.exp(-2)) < 1e-14
        True
        """
        if d == 0:
            return 1 - 2 * float(self.positive.sum())
        return float((self.weight * np.exp(-self.decay * abs(d))).sum())


def _places(rate: float) -> Floats:
    """Return u of each term, and infinity for all that is further right."""
    first, last = math.floor(-_FAR / _STEP), math.ceil((_FAR - math.log(rate)) / _STEP)
    return np.append(np.arange(first, last + 1) * _STEP, np.inf)


@lru_cache(maxsize=128)
def mixture(rate: float, shape: float) -> Mixture:
    """Return the law of X - Y, both NB(shape, e^-rate), 0 < shape <= 1."""
    if shape == 1:
        return Mixture(rate=rate, place=np.array([math.inf]), weight=np.tanh([rate / 2]))
    place = _places(rate)
    u, past = place[:-1], float(place[-2]) + _STEP
    log_c = np.where(u < 0, shape * u, (shape - 1) * u) - np.log1p(np.exp(-np.abs(u)))
    rest = (shape - 1) * past - math.log(-math.expm1(_STEP * (shape - 1)))  # a geometric series
    log_zero = shape * math.log(-math.expm1(-rate))  # of Pr[X = 0]
    scale = math.log(_STEP * math.sin(math.pi * min(shape, 1 - shape)) / math.pi) + 2 * log_zero
    twice = 2 * rate + np.log1p(np.exp(-place))  # a t = e^-twice
    weight = np.exp(scale + np.append(log_c, rest) - shape * np.log(-np.expm1(-twice)))
    return Mixture(rate=rate, place=place, weight=weight)


def _tabulate(rate: Fraction, parts: int) -> tuple[list[float], list[int]]:
    """Tabulate places, and what each adds to Pr[D >= 1] in units of 10^-60, with 26 digits.

    It is `Mixture.positive` for shape = 1 / parts.
    """
    with localcontext(_DIGITS):
        s, r = 1 / Decimal(parts), Decimal(rate.numerator) / rate.denominator
        a = (-r).exp()
        if parts == 1:
            return [math.inf], [int(a / (1 + a) * _UNITS)]
        places = _places(float(rate)).tolist()
        scale = Decimal(_STEP) * _sin_pi(s) / _PI * (s * (1 - a).ln()).exp()
        chances = []
        tilts, falls = (_list_powers(power, places[:-1]) for power in (s - 1, Decimal(-1)))
        for tilt, fall in zip(tilts, falls, strict=True):
            x = 1 / (1 + fall)
            chances.append(scale * tilt * x * _join(a, a * x, s))
        past = (s - 1) * Decimal(places[-2] + _STEP)
        rest = past.exp() / (1 - (Decimal(_STEP) * (s - 1)).exp())
        chances.append(scale * rest * _join(a, a, s))
        return places, [int(chance * _UNITS) for chance in chances]


def _join(a: Decimal, t: Decimal, s: Decimal) -> Decimal:
    """Return E[t^Y] sum of t^d over d >= 1."""
    return (s * ((1 - a) / (1 - a * t)).ln()).exp() * t / (1 - t)


def _list_powers(s: Decimal, places: list[float]) -> list[Decimal]:
    """Return e^(s u) for each of these u, which are `_STEP` apart, by products: an exponential takes as long as twenty.

    Each product is rounded to six more digits, so that the error of a thousand of them is below that of the rest.
    """
    with localcontext(prec=_DIGITS.prec + 6):
        power, step = (s * Decimal(places[0])).exp(), (s * Decimal(_STEP)).exp()
        return [power, *(power := power * step for _ in places[1:])]


def _sin_pi(s: Decimal) -> Decimal:
    """Return sin(pi s), 0 < s <= 1/2, by its series."""
    term = total = x = _PI * s
    k = 1
    while abs(term) > total * Decimal("1e-27"):
        term *= -x * x / ((k + 1) * (k + 2))
        total, k = total + term, k + 2
    return total


_PI = Decimal("3.14159265358979323846264338328")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseShare:
    """One of `parts` shares of discrete Laplace noise of this rate, from four words.

    `distance` bounds how far the law that is sampled is from the ideal one.

    >>> share = NoiseShare(rate=Fraction(1, 1000), parts=1_000_000)
    >>> f"{float(share.nonzero):.3e}", f"{share.distance:.0e}"
    ('1.382e-05', '1e-19')
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
        places, chances = _tabulate(self.rate, self.parts)
        words = 1 << self.word_bits
        threshold = max(1, min(round(Fraction(sum(chances), _UNITS) * words), words // 2))
        shares = _apportion(chances, words)
        kept = [(u, share) for u, share in zip(places, shares, strict=True) if share]
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "places", tuple(u for u, _ in kept))
        object.__setattr__(self, "shares", tuple(share for _, share in kept))

    @property
    def nonzero(self) -> Fraction:
        """The exact probability that the share is not 0."""
        return Fraction(2 * self.threshold, 1 << self.word_bits)

    @property
    def distance(self) -> float:
        """An upper bound on the total variation distance from the law of X - Y.

        Both thresholds are rounded to a word, or raised to one; each place is rounded, and one of them
        takes what is left over; a value is a geometric number from two words.
        """
        word, places = 2.0**-self.word_bits, len(_places(float(self.rate)))
        longest = len(_powers(self.rate, math.inf, FIXED - 2 * self.word_bits))
        value = bound_distance(longest, self.word_bits)
        given = 2 * _TABLE_ERROR + places * word + value
        return min(1.0, 2 * word + float(self.nonzero) * given) * (1 + 1e-12)

    def draw(self, words: Words) -> tuple[Counts, Counts]:
        """Return which users have a share other than 0, and what it is, for words[n, 4].

        >>> share = NoiseShare(rate=Fraction(1), parts=2)
        >>> who, what = share.draw(np.array([[0, 0, 0, 1], [2**64 - 1, 0, 0, 0]], dtype=np.uint64))
        >>> who.tolist(), what.tolist()
        ([0], [4])
        """
        rare = np.flatnonzero(tape.bernoulli(words[:, 0], 2 * self.threshold, self.word_bits))
        if not len(rare):
            return rare, rare
        chosen = words[rare]
        value = np.array(self._values(chosen[:, 1:]), dtype=np.int64)
        negative = chosen[:, 0] >= words.dtype.type(self.threshold)
        return rare, np.where(negative, -value, value)

    def deal(self, users: int, source: WordSource) -> int:
        """Return the sum of the shares of that many users: exactly the law of their sum, without drawing each.

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
        """Return what the last three words of a share other than 0 say it is, up to its sign."""
        return [
            1 + self._geometric(self._place(choice), (high << self.word_bits) + low)
            for choice, high, low in words.tolist()
        ]

    def _place(self, word: int) -> float:
        """Return the place whose words include this one; it is asked rarely, so no array is made of it."""
        return self.places[bisect_right(_ends(self.shares), word)]

    def _geometric(self, place: float, wide: int) -> int:
        """Return the largest g with wide < 2^(2 word_bits) t^g."""
        surplus = FIXED - 2 * self.word_bits
        return find_exponent(_powers(self.rate, place, surplus), wide, surplus)

    def law(self) -> dict[int, Fraction]:
        """Return the exact law, for words of a few bits."""
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


def _apportion(chances: list[int], words: int) -> list[int]:
    """Apportion all words. Rounding errors go to the likeliest places, as far as these can bear them."""
    total = sum(chances)
    shares = [(2 * chance * words + total) // (2 * total) for chance in chances]
    excess = sum(shares) - words
    for i in sorted(range(len(shares)), key=lambda i: -chances[i]):
        taken = min(excess, shares[i])
        shares[i] -= taken
        excess -= taken
    return shares


@lru_cache(maxsize=16)
def _ends(shares: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first word beyond each place's words."""
    return tuple(accumulate(shares))


@lru_cache(maxsize=4096)
def _base(rate: Fraction, place: float) -> int:
    """Return t = a x in units of 2^-128, rounded down."""
    x = Fraction(1) if math.isinf(place) else 1 / (1 + _exp(-Fraction(place)))
    return math.floor(_exp(-rate) * x * (1 << FIXED))


_exp = lru_cache(maxsize=1024)(exp_lower)


@lru_cache(maxsize=4096)
def _powers(rate: Fraction, place: float, surplus: int) -> tuple[int, ...]:
    """Return t, t^2, t^4, ... as long as they are at least 2^(surplus - 128)."""
    return square_powers(_base(rate, place), surplus)


def ideal_delta(*, epsilon: float, reach: int, rate: Fraction, shape: Fraction) -> float:
    """Bound from above the delta of the sum with the shares of a fraction `shape` of the people.

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
    non_negative("epsilon", epsilon)
    spare = max(rate * reach - Fraction(epsilon), Fraction(0))
    if shape >= 1 and not spare:
        return 0.0
    noise = mixture(float(rate), min(float(shape), 1.0))
    E = math.exp(min(float(rate * reach - spare), 700.0))
    # 1 - e^epsilon e^-(decay * reach), without cancellation: rate * reach is epsilon + spare.
    below = float((noise.positive * -np.expm1(-noise.excess * reach - float(spare))).sum())
    zero, moved = noise.mass(0), E * noise.mass(reach)
    own, other = _between(noise, reach, E)
    delta = below + max(0.0, zero - moved) + max(0.0, own - other)
    # Pr[D = 0] is 1 less a sum. A last d that is off adds or leaves out terms that vanish within the error.
    return min(1.0, delta + 2 * _FLOAT_ERROR * (below + 1 + moved + own + other))


def _between(noise: Mixture, reach: int, E: float) -> tuple[float, float]:
    """Return both parts of the sum of the positive terms with 0 < d < reach."""
    # The terms turn negative once, and beyond the middle P(d) is the smaller one.
    places = range(1, (reach - 1) // 2 + 1)
    last = bisect_left(places, True, key=lambda d: noise.mass(d) <= E * noise.mass(reach - d))
    if last == 0:
        return 0.0, 0.0
    decay = noise.decay
    terms = noise.weight * np.expm1(-decay * last) / np.expm1(-decay)
    own = float((terms * np.exp(-decay)).sum())
    other = float((terms * np.exp(-decay * (reach - last))).sum())
    return own, E * other


def sampled_delta(*, epsilon: float, reach: int, share: NoiseShare, honest: int) -> float:
    """Return the same for the shares that `share` samples, of the honest people.

    Their joint law is within honest * distance of the ideal one, on either side of the inequality.

    >>> share = NoiseShare(rate=Fraction(1, 1000), parts=1_000_000)
    >>> f"{sampled_delta(epsilon=1.0, reach=1000, share=share, honest=1_000_000):.1e}"
    '4.0e-13'
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
    """Return the same modulo a small modulus, from the sampled law itself: for words of a few bits.

    >>> for bits in (3, 8):
    ...     share = NoiseShare(rate=Fraction(1), parts=2, word_bits=bits)
    ...     delta = small_delta(epsilon=1.0, reach=1, share=share, honest=2, modulus=8)
    ...     f"{delta:.4f}"
    '0.2105'
    '0.0008'
    """
    one: Floats = np.zeros(modulus)
    for d, mass in share.law().items():
        one[d % modulus] += float(mass)
    total: Floats = np.zeros(modulus)
    total[0] = 1.0
    circle = np.array([np.roll(one, shift) for shift in range(modulus)])
    for _ in range(honest):
        total = total @ circle
    # Each mass is a sum of positive products, rounded once for every term and user.
    error = (honest + 2) * (modulus + 8) * 2.0**-53
    E = math.exp(epsilon)
    worst = max(
        float(np.maximum(total - E * np.roll(total, shift), 0.0).sum())
        for moved in range(1, reach + 1)
        for shift in (moved, -moved)
    )
    return min(1.0, worst + (1 + E) * error * (1 + error))
