"""Learn the distribution that people's categories come from, in total variation.

n people hold one of k categories each, drawn from an unknown distribution p. In every model the counts
are estimated without bias, divided by n, and projected onto the simplex (labelled post-processing: it costs no
privacy and never increases the Euclidean error). What differs is the noise:

* "none": no noise, no privacy;
* "central": a trusted curator adds discrete Laplace noise to every count;
* "local": nobody is trusted; k-ary randomized response, subset selection or Hadamard response;
* "shuffle": a shuffler is trusted to forget; the same protocols, amplified, or a histogram of several messages.

References: Diakonikolas, Hardt, Schmidt 2015, "Differentially private learning of structured discrete
distributions"; Acharya, Sun, Zhang 2019, "Hadamard response: estimating distributions privately,
efficiently, and with little communication".
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.estimate import ErrorLaw, Estimate, Interval, PostProcessed, Value
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import HONEST
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.inference._accuracy import Accuracy
from shuffledp.inference._sources import Request, source
from shuffledp.numerics.entropy import SecureWords

__all__ = ["Learned", "ScaledError", "learn", "total_variation"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScaledError:
    """The error of an answer divided by `scale`: frequencies instead of counts.

    >>> from shuffledp.core.estimate import NormalError
    >>> ScaledError(error=NormalError(stderr=2.0), scale=100).stderr
    0.02
    """

    error: ErrorLaw
    scale: int

    @property
    def stderr(self) -> Value:
        return self.error.stderr / self.scale

    def interval(self, value: Value, level: float) -> Interval:
        low, high = self.error.interval(value * self.scale, level)
        return Interval(low / self.scale, high / self.scale)

    def exact_interval(self, value: Value, level: float) -> Interval:
        low, high = self.error.exact_interval(value * self.scale, level)
        return Interval(low / self.scale, high / self.scale)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """A distribution, and how far it is from the truth in total variation.

    The bounds depend on n, k and the protocol alone, so they tell nothing about the data.

    >>> learned = learn([0, 1, 1, 1] * 100, k=2, model="none")
    >>> learned.distribution, learned.guarantee is None
    (array([0.25, 0.75]), True)
    >>> learned.expected_tv_sample, round(learned.expected_tv, 3), round(learned.tv_bound(0.05), 3)
    (0.0, 0.025, 0.086)
    """

    processed: PostProcessed
    """The distribution, with a label of what was done to it and the raw estimate."""
    model: str
    protocol: str
    """The protocol or mechanism that made the counts."""
    guarantee: Guarantee | None
    """What is promised; None in the model "none", where nothing is."""
    n: int
    accuracy: Accuracy

    @property
    def distribution(self) -> Floats:
        """k numbers >= 0 that sum to 1: the raw estimate, projected onto the simplex."""
        return np.asarray(self.processed.value)

    @property
    def raw(self) -> Estimate:
        """The unbiased estimate; its standard error and intervals are about these people's frequencies."""
        return self.processed.raw

    @property
    def expected_tv(self) -> float:
        """At least the expected distance between `distribution` and the population's p, whatever p is."""
        return self.accuracy.expected

    @property
    def expected_tv_sample(self) -> float:
        """At least the expected distance to the frequencies among these n people: the noise alone."""
        return self.accuracy.expected_sample

    def tv_bound(self, beta: float) -> float:
        """The distance to the population's p is at most this, except with probability beta."""
        return self.accuracy.bound(beta)


def learn(
    values: ArrayLike,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    protocol: str | None = None,
    rng: WordSource | None = None,
    honest: float = HONEST,
    max_messages: float = 8,
) -> Learned:
    """The distribution over k categories that `values` (codes 0 .. k-1, one per person) come from.

    `protocol` names one; without it the one with the smallest error is taken, and in the shuffle model
    only those count whose users send at most `max_messages` messages on average. `epsilon` is needed in all
    models but "none", `delta` in the shuffle model; the others promise delta = 0.

    >>> from shuffledp import SeededWords
    >>> people = [0, 0, 0, 1, 1, 2] * 10_000
    >>> learned = learn(people, k=4, epsilon=1.0, delta=1e-6, rng=SeededWords(1))
    >>> learned.protocol, learned.distribution.round(3)
    ('correlated_histogram', array([0.5  , 0.333, 0.167, 0.   ]))
    >>> learned.tv_bound(0.05) < 0.01
    True
    """
    codes = Categories(k=k).codes(values)
    limit = positive("max_messages", max_messages)
    if limit < 1:
        raise ParameterError("max_messages", max_messages, "must be >= 1")
    if epsilon is not None:
        positive("epsilon", epsilon)
    if delta is not None:
        fraction_of_one("delta", delta)
    n = len(codes)
    request = Request(
        n=n,
        k=k,
        epsilon=epsilon,
        delta=delta,
        model=model,
        protocol=protocol,
        honest=honest,
        max_messages=limit,
    )
    chosen = source(request)
    counts = chosen.release(codes, SecureWords() if rng is None else rng)
    raw = Estimate(
        value=counts.value / n,
        error=ScaledError(error=counts.error, scale=n),
        limits=(0.0, 1.0),
        labels=counts.labels,
    )
    return Learned(
        processed=raw.simplex(),
        model=model,
        protocol=chosen.name,
        guarantee=chosen.guarantee,
        n=n,
        accuracy=chosen.accuracy(n),
    )


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """1/2 sum_j |p_j - q_j|: the largest difference in the probability of any event.

    >>> total_variation([0.5, 0.5, 0.0], [0.25, 0.5, 0.25])
    0.25
    """
    first, second = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise ParameterError(
            "q", second.shape, f"must have one axis, and the shape {first.shape} of p"
        )
    return float(np.abs(first - second).sum() / 2)
