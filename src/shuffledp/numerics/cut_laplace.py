r"""Discrete Laplace noise that never exceeds L, for servers that add whole messages.

Pr[Z = z] is about proportional to e^{-a |z|} on -L .. L. It is a table of words of integer shares, so the law is
exactly rational. Shares fall from the middle outwards, each the rounded-up e^{-a} of the one before; what is left of
all words goes to the two ends. So neighbouring masses differ by a factor of at most e^a, exactly, and only the ends
have a neighbour of mass 0:

    f = Pr[Z = L] = Pr[Z = -L],  about e^{-aL} (1 - e^{-a}) / (1 + e^{-a} - 2 e^{-a(L+1)}).

A number that moves by one is hidden with (a, f), exactly.
"""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from shuffledp.core.arrays import Counts, Floats, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.rounding import exp_lower, exp_upper

MOST_STEPS = 1 << 16
"""The largest L: beyond it a server would add too many messages anyway."""
_SPARE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLaplace:
    """Z on -most .. most with Pr ~ e^(-rate |z|); two words of `word_bits` bits make one draw.

    >>> law = CutLaplace(rate=0.5, most=36)
    >>> f"{float(law.edge):.3e}", round(float(law.variance) ** 0.5, 3)
    ('3.730e-09', 2.799)
    >>> CutLaplace(rate=1.0, most=1, word_bits=2).shares
    (4, 8, 4)
    """

    rate: float
    most: int
    word_bits: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", positive("rate", self.rate))
        whole("most", self.most, at_least=1, at_most=MOST_STEPS)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        shares = self.shares
        if shares[0] > exp_lower(self.rate) * shares[1]:
            raise ParameterError(
                "word_bits", self.word_bits, f"must be more: too few words for most={self.most}"
            )

    @property
    def shares(self) -> tuple[int, ...]:
        """How many of the 2^(2 word_bits) pairs of words draw -most, ..., most."""
        return _share(self.rate, self.most, 2 * self.word_bits)

    @property
    def edge(self) -> Fraction:
        """The exact mass f of either end."""
        return Fraction(self.shares[0], 1 << 2 * self.word_bits)

    @property
    def variance(self) -> Fraction:
        """The exact variance; the mean is 0."""
        return _find_variance(self.shares, 2 * self.word_bits)

    def pmf(self) -> dict[int, Fraction]:
        """Return the exact law."""
        words = 1 << 2 * self.word_bits
        return {z: Fraction(share, words) for z, share in enumerate(self.shares, start=-self.most)}

    def read(self, words: Words) -> Counts:
        """Return the draws that words[n, 2] make.

        >>> CutLaplace(rate=1.0, most=1, word_bits=2).read(np.array([[0, 3], [1, 0], [3, 3]], dtype=np.uint8))
        array([-1,  0,  1])
        """
        ends = _find_ends(self.shares)
        numbers = [(high << self.word_bits) + low for high, low in words.tolist()]
        return np.array([bisect_right(ends, number) - self.most for number in numbers], np.int64)

    def draw(self, count: int, source: WordSource) -> Counts:
        """Draw `count` independent draws.

        >>> from shuffledp import SeededWords
        >>> CutLaplace(rate=0.5, most=36).draw(6, SeededWords(1))
        array([ 1, -5, -5,  1,  4, -3])
        """
        return self.read(source.words(2 * count, self.word_bits).reshape(count, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLaplaceSum:
    """The sum of `times` independent draws: what that many servers add to a bin, less its mean.

    >>> both = CutLaplaceSum(noise=CutLaplace(rate=0.5, most=36), times=2)
    >>> round(both.variance**0.5, 2), both.at_least(np.array([0.0, 9.0, 200.0])).round(4)
    (3.96, array([0.5649, 0.0215, 0.    ]))
    """

    noise: CutLaplace
    times: int

    @property
    def variance(self) -> float:
        return float(self.times * self.noise.variance)

    @property
    def most(self) -> int:
        """The largest sum."""
        return self.times * self.noise.most

    @property
    def masses(self) -> Floats:
        """At least Pr[S = -most], ..., Pr[S = most], each within a part in 10^12."""
        return _add_up(self.noise, self.times)

    def at_least(self, x: Floats) -> Floats:
        """Bound Pr[S >= x] from above, within a part in 10^11 of it."""
        tails = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0) * _ROUNDED
        bounds: Floats = tails[
            np.clip(np.ceil(x) + self.most, 0, 2 * self.most + 1).astype(np.intp)
        ]
        return np.minimum(bounds, 1.0)

    def log_moments(self, s: Floats) -> Floats:
        """Bound ln E[e^(s S)] from above, for any s; infinite where it overflows."""
        one = _add_up(self.noise, 1)
        z = np.arange(-self.noise.most, self.noise.most + 1)
        flat = np.abs(np.asarray(s, dtype=np.float64)).ravel()
        top = flat * self.noise.most  # the largest exponent, taken out
        sums = np.exp(np.multiply.outer(flat, z) - top[:, None]) @ one
        bounds: Floats = (
            self.times * (np.log(sums) + top) * _ROUNDED + 1e-13 * self.times
        ).reshape(np.shape(s))
        return bounds


_ROUNDED = 1 + 1e-11


@lru_cache(maxsize=64)
def _add_up(noise: CutLaplace, times: int) -> Floats:
    words = 1 << 2 * noise.word_bits
    one = np.array([share / words for share in noise.shares])
    total = one
    for _ in range(times - 1):
        total = np.convolve(total, one)
    # Each of the terms of a sum is off by some units, and all are positive.
    rounded: Floats = total * (1 + 4e-16 * (len(one) + 4) * times)
    rounded.setflags(write=False)
    return rounded


@lru_cache(maxsize=64)
def _share(rate: float, most: int, bits: int) -> tuple[int, ...]:
    scale = bits + _SPARE
    step = int(-(-exp_upper(-Fraction(rate)) * (1 << scale) // 1))  # e^-rate, rounded up
    words = 1 << bits
    low, high = (
        0,
        words,
    )  # even middles: half of the largest whose shares are not more than all words
    while high - low > 2:
        middle = (low + high) // 4 * 2
        if 2 * sum(_fall(middle, step, scale, most)) + middle <= words:
            low = middle
        else:
            high = middle
    side = _fall(low, step, scale, most)
    side[-1] += (words - low - 2 * sum(side)) // 2
    return (*reversed(side), low, *side)


def _fall(middle: int, step: int, scale: int, most: int) -> list[int]:
    """Return the shares beside the middle one, outwards."""
    side, share = [], middle
    for _ in range(most):
        share = -(-share * step >> scale)
        side.append(share)
    return side


@lru_cache(maxsize=64)
def _find_ends(shares: tuple[int, ...]) -> list[int]:
    return list(accumulate(shares))


@lru_cache(maxsize=64)
def _find_variance(shares: tuple[int, ...], bits: int) -> Fraction:
    most = len(shares) // 2
    return Fraction(sum(share * (z - most) ** 2 for z, share in enumerate(shares)), 1 << bits)
