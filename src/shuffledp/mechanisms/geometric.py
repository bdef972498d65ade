"""The two-sided geometric mechanism: integer answers with discrete Laplace noise.

The answer f is k integers of l1 sensitivity s: replacing one person changes f by at most s, summed
over the coordinates (a count: 1; a histogram of k bins under replacement: 2). The release is f + Z,
Z_j independent with Pr[Z_j = z] = (1 - a) / (1 + a) a^|z|, a = e^(-epsilon / s). Since shifting by one
changes a mass by at most the factor 1 / a, the release is epsilon-DP, with delta = 0.

For one count (s = 1) nothing is better: whatever a consumer knows beforehand and whatever monotone
symmetric loss counts, post-processing this release is optimal among all epsilon-DP mechanisms. That
does not extend to several counts, to s > 1, or to delta > 0.

Reference: Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms".
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate
from shuffledp.core.capabilities import CentralCapabilities
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import MechanismSpec, Parameters
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.mechanisms import find_rate, promise_pure, read_integers, shape_like
from shuffledp.numerics.entropy import draw_discrete_laplace
from shuffledp.numerics.intervals import DiscreteLaplace, DiscreteLaplaceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometric:
    """k integers of l1 sensitivity `sensitivity`, released with discrete Laplace noise.

    >>> from shuffledp import SeededWords
    >>> count = Geometric(epsilon=1.0, sensitivity=1)
    >>> answer = count.release(100, SeededWords(1))
    >>> answer.value, answer.interval(0.95)
    (99.0, Interval(low=96.0, high=102.0))
    >>> print(count.guarantee)
    epsilon = 1, delta = 0: central model, replace-one neighbours, a trusted curator; by the likelihood ratio of discrete Laplace noise
    """

    epsilon: float
    sensitivity: int
    k: int = 1
    noise: DiscreteLaplace = field(init=False)
    name: ClassVar[str] = "geometric"
    unit: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        whole("sensitivity", self.sensitivity, at_least=1, at_most=2**50)
        whole("k", self.k, at_least=1)
        rate = find_rate(self.epsilon, self.sensitivity)
        object.__setattr__(self, "noise", DiscreteLaplace(rate=rate))

    @property
    def parameters(self) -> Parameters:
        return {"epsilon": self.epsilon, "sensitivity": self.sensitivity, "k": self.k}

    @property
    def guarantee(self) -> Guarantee:
        return promise_pure(self.epsilon, "the likelihood ratio of discrete Laplace noise")

    @property
    def reach(self) -> int:
        return self.sensitivity

    def release(self, exact_answer: ArrayLike, rng: WordSource) -> Estimate:
        """Return the answer (an integer if k = 1, otherwise k integers) with noise."""
        exact = read_integers(exact_answer, self.k)
        noisy = exact + draw_discrete_laplace(self.noise.rate, self.k, rng)
        return Estimate(
            value=shape_like(noisy.astype(np.float64), exact_answer),
            error=DiscreteLaplaceError(noise=self.noise, shape=np.shape(exact_answer)),
            limits=(-math.inf, math.inf),
        )

    @property
    def offers(self) -> CentralCapabilities:
        return CentralCapabilities(unit=self.unit)

    def variance(self) -> float:
        """Return 2 a / (1 - a)^2, the same for each coordinate.

        >>> round(Geometric(epsilon=1.0, sensitivity=1).variance(), 4)
        1.8413
        """
        return self.noise.variance

    def accuracy(self, beta: float) -> float:
        """Return the smallest integer alpha with k Pr[|Z| > alpha] <= beta.

        So all k coordinates at once are within alpha, except with probability beta. For k = 1 it is
        exact; for k > 1 it is the union bound, which is tight up to terms of order beta^2.

        >>> Geometric(epsilon=1.0, sensitivity=1).accuracy(0.05)
        3.0
        >>> Geometric(epsilon=1.0, sensitivity=2, k=1000).accuracy(0.05)
        20.0
        """
        return float(self.noise.radius(Fraction(fraction_of_one("beta", beta)), self.k))


make = Geometric

SPEC = MechanismSpec(
    name="geometric",
    title="Two-sided geometric mechanism",
    tasks=("count", "sum", "histogram"),
    reference="Ghosh, Roughgarden, Sundararajan 2009",
    make=make,
    options={"sensitivity": True, "k": False},
)
