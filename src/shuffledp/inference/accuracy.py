"""How far a learned distribution is from the truth, in total variation: bounds with proofs.

Let x be the raw estimate of p divided into e = x - p, and e_j - mean(e) the *centred* error. The Euclidean
projection onto the simplex does not change if a constant is added to all of x, and on points that sum to
1 it does not move away from any distribution in total variation. So (docs/theory/learning.md)

    TV(projection of x, p) <= 1/2 sum_j |e_j - mean(e)|.

The bounds below are of the right-hand side, and depend on public parameters alone: they tell nothing
about the data. Where they need a variance, it is the largest one of all data sets with n people.

`spread_of` is the constant in McDiarmid's inequality: how much one person can move the distance. One person's
messages add a vector w to the counts, and other messages another, w'. The centred error then changes by at most
1/2 sum_j |d_j - mean(d)|, d = w - w'. Call this |d|*: it is at most the larger of the sums of positive and of
negative parts of d, and at most m k / 2 if all parts are within -m .. m (a convex function is largest at a corner
of the cube, where it is 2 m a (k - a) / k for some a).
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.validate import fraction_of_one
from shuffledp.numerics.masses import log_negative_binomial
from shuffledp.protocols.hadamard import HadamardAnalyzer, HadamardResponse
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer
from shuffledp.protocols.subset_selection import SubsetSelection

_SLACK = 1 + 1e-9
"""More than the rounding errors of the formulas."""
_LONGEST = 1 << 15
_RATES = 40
_LARGEST_RATE = 0.8
"""Chernoff's s, as a fraction of the rate at which the noise decays."""


class Noise(Protocol):
    """What is known about the sum of k bins' noise beyond its variance; all on the scale of counts."""

    @property
    def absolute(self) -> float:
        """An upper bound on 1/2 sum_j E|Z_j - mean(Z)|."""

    def radius(self, beta: float) -> float:
        """Return a number exceeded by 1/2 sum_j |Z_j - mean(Z)| with probability at most beta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Bounds of the total variation distance after projection.

    >>> exact_counts = Accuracy(n=10_000, k=100, variance=0.0, spread=1.0)
    >>> round(exact_counts.expected, 4), round(exact_counts.bound(0.05), 4)
    (0.0497, 0.062)
    """

    n: int
    k: int
    variance: float
    """The variance of the noise in the counts, summed over the bins: the largest of all data sets."""
    spread: float | None = None
    """By how much one person's messages may change 1/2 sum_j |e_j - mean(e)|, times n; None: unknown."""
    noise: Noise | None = None
    """The law of the noise, if it is the same whatever the data are."""

    @property
    def expected_sample(self) -> float:
        """An upper bound on the expected distance to the frequencies among these n people.

        1/2 sum_j sqrt(Var Z_j) <= 1/2 sqrt(k sum_j Var Z_j) by Jensen and Cauchy-Schwarz; or from the
        law of the noise.
        """
        counts = math.sqrt(self.k * self.variance) / 2
        if self.noise is not None:
            counts = min(counts, self.noise.absolute)
        return min(1.0, counts / self.n * _SLACK)

    @property
    def expected(self) -> float:
        """An upper bound on the expected distance to the distribution that the n people are drawn from.

        The variances of sampling, sum_j p_j (1 - p_j) / n <= (1 - 1/k) / n, and of the noise add up; or
        the two distances do.
        """
        together = math.sqrt(self.k * self._second_moment) / 2 * _SLACK
        return min(1.0, together, self._sampling + self.expected_sample)

    def bound(self, beta: float) -> float:
        """Return a number exceeded by the distance to that distribution with probability at most beta.

        The smallest of three bounds, each of which holds: they are constants, not data.

        * Markov's inequality for the squared Euclidean error.
        * McDiarmid's: the error is a function of n independent people, none of whom moves it by more
          than spread / n.
        * The sum of McDiarmid's for sampling and the tail of the noise, with beta / 2 each.
        """
        allowed = fraction_of_one("beta", beta)
        bounds = [1.0, math.sqrt(self.k * self._second_moment / allowed) / 2 * _SLACK]
        if self.spread is not None:
            bounds.append(self.expected + self.spread * self._deviation(allowed))
        if self.noise is not None:
            far = self.noise.radius(allowed / 2) / self.n
            bounds.append(self._sampling + self._deviation(allowed / 2) + far * _SLACK)
        return min(bounds)

    @property
    def _second_moment(self) -> float:
        return (1 - 1 / self.k) / self.n + self.variance / self.n / self.n

    @property
    def _sampling(self) -> float:
        return math.sqrt((self.k - 1) / self.n) / 2 * _SLACK

    def _deviation(self, beta: float) -> float:
        return math.sqrt(-math.log(beta) / (2 * self.n)) * _SLACK


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualNoise:
    r"""k independent differences Z = X - Y of NB(r, p) numbers; r = 1 is discrete Laplace noise.

    The triangle inequality gives 1/2 sum_j |Z_j - mean(Z)| <= 1/2 (sum_j |Z_j| + |sum_j Z_j|), which is
    the larger of the sum of the positive parts and that of the negative parts. Both have the same law, so

        Pr[> t] <= 2 min over s of e^(-s t) (E e^(s max(Z, 0)))^k        (Chernoff).

    >>> noise = EqualNoise(k=100, r=1.0, p=math.exp(-0.5))
    >>> round(noise.absolute, 1), round(noise.radius(0.05), 1)
    (109.9, 148.8)
    """

    k: int
    r: float
    p: float
    distance: float = 0.0
    """An upper bound on the distance between this law and the noise that is sampled, over all bins."""

    @property
    def variance(self) -> float:
        """2 r p / (1 - p)^2 in each bin."""
        return 2 * self.r * self.p / (1 - self.p) ** 2

    @property
    def absolute(self) -> float:
        """From E|Z| and sqrt(Var sum_j Z_j), or from the variance alone if the law is too long."""
        by_variance = self.k * math.sqrt(self.variance) / 2
        length = self._length
        if length > _LONGEST:
            return by_variance
        z = np.arange(length, dtype=np.float64)
        mean = 2 * float(self._masses(length) @ z) + self._beyond(length, 0.0)
        # A sampled number that is not the ideal one is far off rarely: by Cauchy-Schwarz.
        mean += 2 * math.sqrt(self.distance * self.variance)
        return min(by_variance, (self.k * mean + math.sqrt(self.k * self.variance)) / 2)

    def radius(self, beta: float) -> float:
        left = beta - self.distance
        length = self._length
        if left <= 0 or length > _LONGEST:
            return math.inf
        masses = self._masses(length)
        s = -math.log(self.p) * _LARGEST_RATE * np.arange(1, _RATES + 1) / _RATES
        logs = np.array([self._log_moment(float(rate), masses) for rate in s])
        return float(((self.k * logs + math.log(2 / left)) / s).min()) * (1 + 1e-7)

    @property
    def _length(self) -> int:
        # Far enough for e^(s z) Pr[X >= z] to vanish at the largest s that is tried.
        return 64 + math.ceil((self.r + 36.0) / (1 - _LARGEST_RATE) / -math.log(self.p))

    def _masses(self, length: int) -> Floats:
        """Return Pr[Z = z] for z = 0 .. length - 1, but for what lies beyond the length."""
        one = np.exp(log_negative_binomial(np.arange(length, dtype=np.float64), self.r, self.p))
        both: Floats = np.convolve(one, one[::-1])[length - 1 :]
        return both

    def _log_moment(self, s: float, masses: Floats) -> float:
        """Bound log E e^(s max(Z, 0)) from above."""
        z = np.arange(len(masses), dtype=np.float64)
        positive = float(masses[1:] @ np.exp(s * z[1:]))
        rest = (1 + float(masses[0])) / 2  # Pr[Z <= 0], as Z is symmetric
        return math.log(positive + rest + self._beyond(len(masses), s))

    def _beyond(self, length: int, s: float) -> float:
        """Bound from above E[(1 + 2 X) e^(s X); X or Y >= length], where Z is not among the masses."""
        last = float(np.exp(log_negative_binomial(np.array([length - 1.0]), self.r, self.p))[0])
        step = self.p * max(1.0, (self.r + length - 1) / length) * math.exp(s)
        if step >= 1:
            return math.inf
        # sum over i >= 1 of (1 + 2 (length - 1 + i)) step^i, and E[(1 + 2 X) e^(s X)] for the other.
        far = last * math.exp(s * (length - 1)) * ((2 * length + 2) * step / (1 - step) ** 2)
        tilted = self.p * math.exp(s)
        moment = math.pow((1 - self.p) / (1 - tilted), self.r)
        moment *= 1 + 2 * self.r * tilted / (1 - tilted)
        return far * 2 + moment * last * step / (1 - step)


def spread_of(protocol: ShuffleProtocol) -> float | None:
    """Bound the largest |w - w'|* of two users' messages from above; None where it is not worked out.

    >>> from shuffledp import protocols
    >>> round(spread_of(protocols.krr.make_local(k=10, epsilon=1.0)), 3)
    6.82
    """
    analyzer = protocol.analyzer
    if isinstance(analyzer, HadamardAnalyzer):
        return _hadamard(analyzer.randomizer)
    if not isinstance(analyzer, FrequencyAnalyzer):
        return None
    if not analyzer.noise:
        return _frequency(analyzer)
    # A message that supports one bin adds 1 to it, so neither sign can have more than all messages.
    return float(protocol.cost.messages_max) if analyzer.influence() == 1 else None


def _frequency(analyzer: FrequencyAnalyzer) -> float:
    """Bound the spread: d is 1 / (p - q) where only one message supports, -1 / (p - q) where only the other does."""
    oracle = analyzer.oracle
    k = oracle.domain.k
    moved = k / 2
    if isinstance(oracle, KRR):
        moved = 1.0
    if isinstance(oracle, SubsetSelection):
        # Two sets of w differ in at most this many elements each way; no set against one in w (1 - w/k).
        moved = float(min(oracle.w, k - oracle.w))
    return moved / float(oracle.p - oracle.q)


def _hadamard(response: HadamardResponse) -> float:
    """Bound the spread: w is a column of signs in the block of the message, over `lead`.

    Two columns of one block differ, by 2, in half of its rows; columns of two blocks differ by 1 in both.
    Of k parts within -m .. m of which z are not 0, with a of them positive, |d|* is
    m z / 2 + m (2 a - z) (k - 2 a) / (2 k), which is at most m z / 2 + m (k - z)^2 / (8 k) for any a, and at most m z.
    """
    k, block = response.k, -(-response.k // response.blocks)
    z = min(block, response.block_length // 2)
    same = min(2.0 * z, z + (k - z) ** 2 / (4 * k))
    other = min(2.0 * block, k / 2) if response.blocks > 1 else 0.0
    return max(same, other) / float(response.lead)
