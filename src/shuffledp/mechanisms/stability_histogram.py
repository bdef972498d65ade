"""The stability-based histogram: noise on non-empty bins only, small bins are dropped.

Nobody can add noise to every bin of a huge or unlimited set of labels (words, web addresses). Here bins
that nobody is in are never touched: each non-empty bin gets discrete Laplace noise of rate
epsilon / 2, and is published if the noisy count is above the threshold tau. The time is that of the
non-empty bins, and the error does not depend on how many bins there could be.

Replacing one person moves one count down and another one up. Bins that are non-empty on both sides
change by 1 at rate epsilon / 2 each: epsilon together. A bin of one person that becomes empty is
published with probability Pr[1 + Z > tau] = a^tau / (1 + a), a = e^(-epsilon/2); tau is the smallest
integer that makes this at most delta. Hence (epsilon, delta)-DP. Only one of the two bins can give
its person away in a given direction, so delta is paid once.

The published bins are sorted by label: the order in which a dictionary was filled would tell who
came first.

References: Korolova, Kenthapadi, Mishra, Ntoulas 2009, "Releasing search queries and clicks
privately"; Bun, Nissim, Stemmer 2016, "Simultaneous private learning of multiple concepts".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.analyzer import Estimate
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.capabilities import CentralCapabilities
from shuffledp.core.errors import DataError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import MechanismSpec, Parameters
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.mechanisms import find_rate
from shuffledp.numerics.entropy import draw_discrete_laplace
from shuffledp.numerics.intervals import DiscreteLaplace, DiscreteLaplaceError

Histogram: TypeAlias = Mapping[str, int] | Mapping[int, int] | NDArray[np.integer[Any]]
"""label -> count, or counts by position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityHistogram:
    """A histogram of n people over any set of labels.

    Labels are strings or integers; an array of counts has its positions as labels.

    >>> from shuffledp import SeededWords
    >>> words = StabilityHistogram(n=1000, epsilon=1.0, delta=1e-6)
    >>> words.threshold
    27
    >>> print(words.guarantee)
    epsilon = 1, delta = 1e-06: central model, replace-one neighbours, a trusted curator; by discrete Laplace noise on non-empty bins, and an exact threshold
    >>> answer = words.release({"the": 700, "of": 299, "password123": 1}, SeededWords(1))
    >>> answer.labels, answer.value
    (('of', 'the'), array([299., 696.]))
    """

    n: int
    epsilon: float
    delta: float
    noise: DiscreteLaplace = field(init=False)
    threshold: int = field(init=False)
    name: ClassVar[str] = "stability_histogram"

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=2**53)
        noise = DiscreteLaplace(rate=find_rate(self.epsilon, 2))
        object.__setattr__(self, "noise", noise)
        # Pr[Z >= tau] is half of Pr[|Z| > tau - 1].
        leak = 2 * Fraction(fraction_of_one("delta", self.delta))
        object.__setattr__(self, "threshold", noise.radius(leak) + 1)

    @property
    def parameters(self) -> Parameters:
        return {"n": self.n, "epsilon": self.epsilon, "delta": self.delta}

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            model=Model.CENTRAL,
            proof="discrete Laplace noise on non-empty bins, and an exact threshold",
        )

    def release(self, exact_answer: Histogram, rng: WordSource) -> Estimate:
        """Return the bins above the threshold, sorted by label. All others are estimated as 0.

        `interval` holds for all published bins at once, selection included: with probability
        `level` no noise in any of the at most n non-empty bins exceeds its radius. The published
        values are not unbiased, since a bin of small count is published only if its noise is high.
        """
        labels, counts = self._non_empty(exact_answer)
        noisy = counts + draw_discrete_laplace(self.noise.rate, len(counts), rng)
        kept = np.flatnonzero(noisy > self.threshold)
        value = noisy[kept].astype(np.float64)
        return Estimate(
            value=value,
            error=DiscreteLaplaceError(noise=self.noise, shape=value.shape, draws=self.n),
            limits=(0.0, float(self.n)),
            labels=tuple(str(labels[i]) for i in kept),
        )

    @property
    def offers(self) -> CentralCapabilities:
        return CentralCapabilities(bin_errors=self.squared_error, find_count=self.find_count)

    def variance(self) -> float:
        """Compute the exact variance of the noise in one non-empty bin, before small bins are dropped.

        >>> round(StabilityHistogram(n=10, epsilon=2.0, delta=0.01).variance(), 4)
        1.8413
        """
        return self.noise.variance

    def squared_error(self, counts: Counts) -> Floats:
        """Compute the exact mean squared error of bins with these counts, dropping included; 0 for empty ones.

        A bin of count c >= 1 is published if Z >= t = tau + 1 - c, and is off by Z then, otherwise by c:
        E[Z^2; Z >= t] + c^2 Pr[Z < t].

        >>> words = StabilityHistogram(n=1000, epsilon=1.0, delta=1e-6)
        >>> words.squared_error(np.array([0, 1, 20, 500])).round(2)
        array([  0.  ,   1.  , 396.52,   7.84])
        """
        a = math.exp(-float(self.noise.rate))
        t = (self.threshold + 1 - counts).astype(np.float64)
        above = _second_from(a, np.abs(np.where(t >= 1, t, 1 - t)))
        second = np.where(t >= 1, above, self.noise.variance - above)
        far = a ** np.where(t >= 1, t, 1 - t) / (1 + a)  # Pr[Z >= t], or Pr[Z < t] for t <= 0
        dropped = np.where(t >= 1, 1 - far, far)
        return np.where(counts == 0, 0.0, second + counts.astype(np.float64) ** 2 * dropped)

    def accuracy(self, beta: float) -> float:
        """Return alpha: all bins at once, published or not, are within alpha, except with probability beta.

        alpha = tau + t, t the smallest integer with n Pr[|Z| > t] <= beta, about (2 / epsilon)
        ln(n / beta): a published bin is off by its noise, a dropped one has count <= tau - Z.

        >>> StabilityHistogram(n=1000, epsilon=1.0, delta=1e-6).accuracy(0.05)
        47.0
        """
        radius = self.noise.radius(Fraction(fraction_of_one("beta", beta)), self.n)
        return float(self.threshold + radius)

    def publication(self, count: int) -> float:
        """Return the probability that a bin with this count is published.

        >>> histogram = StabilityHistogram(n=1000, epsilon=1.0, delta=1e-6)
        >>> histogram.publication(0), histogram.publication(1) <= 1e-6
        (0.0, True)
        >>> round(histogram.publication(40), 4)
        0.9991
        """
        whole("count", count, at_least=0)
        if count == 0:
            return 0.0
        gap = self.threshold - count  # published if Z > gap
        if gap >= 0:
            return float(self.noise.tail(gap)[0] / 2)
        return float(1 - self.noise.tail(-gap - 1)[0] / 2)

    def find_count(self, probability: float) -> int:
        """Return the smallest count that is published with this probability.

        >>> StabilityHistogram(n=1000, epsilon=1.0, delta=1e-6).find_count(0.95)
        33
        """
        outside = 1 - Fraction(fraction_of_one("probability", probability))
        # Above the threshold by t + 1: it is missed if Z < -t, half of Pr[|Z| > t].
        return self.threshold + 1 + self.noise.radius(min(2 * outside, Fraction(1)))

    def _non_empty(self, histogram: Histogram) -> tuple[list[Any], Counts]:
        labels, counts = _read_bins(histogram)
        total = sum(counts.tolist())
        if total != self.n:
            raise DataError(f"the counts must sum to n={self.n}, but sum to {total}")
        return labels, counts


def _second_from(a: float, u: Floats) -> Floats:
    """Return E[Z^2; Z >= u] for u >= 1: a^u (u^2 + 2 u a / (1 - a) + a (1 + a) / (1 - a)^2) / (1 + a)."""
    tail: Floats = a**u * (u * u + 2 * u * a / (1 - a) + a * (1 + a) / (1 - a) ** 2) / (1 + a)
    return tail


def _read_bins(histogram: Histogram) -> tuple[list[Any], Counts]:
    """Return labels in their order, and counts, of the non-empty bins."""
    if not isinstance(histogram, Mapping):
        counts = _check_counts(np.asarray(histogram))
        non_empty = np.flatnonzero(counts)
        return non_empty.tolist(), counts[non_empty]
    labels = _sort_labels(histogram)
    counts = _check_counts(np.array([histogram[label] for label in labels]))
    return [labels[i] for i in np.flatnonzero(counts)], counts[counts > 0]


def _sort_labels(histogram: Mapping[Any, int]) -> list[Any]:
    labels = list(histogram)
    strings = all(isinstance(label, str) for label in labels)
    integers = all(isinstance(label, int | np.integer) for label in labels)
    if not labels or not (strings or integers):
        raise DataError("labels must be all strings or all integers, and at least one")
    return sorted(labels)


def _check_counts(counts: NDArray[Any]) -> Counts:
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise DataError(
            f"counts must be a row of integers, not {counts.dtype} of shape {counts.shape}"
        )
    if np.any(counts < 0) or np.any(counts > 2**53):
        raise DataError("counts must be >= 0 and <= 2^53")
    return counts.astype(np.int64)


make = StabilityHistogram

SPEC = MechanismSpec(
    name="stability_histogram",
    title="Stability-based histogram",
    tasks=("histogram", "words"),
    reference="Bun, Nissim, Stemmer 2016",
    make=make,
    options={"n": True, "delta": True},
)
