"""The geometric mechanism: integer answers with discrete Laplace noise; and noise upwards only.

The answer f is k integers of l1 sensitivity s: replacing one person changes f by at most s, summed
over the coordinates (a count: 1; a histogram of k bins under replacement: 2). The release is f + Z,
Z_j independent with Pr[Z_j = z] = (1 - a) / (1 + a) a^|z|, a = e^(-epsilon / s). Since shifting by one
changes a mass by at most the factor 1 / a, the release is epsilon-DP, with delta = 0.

For one count (s = 1) nothing is better: whatever a consumer knows beforehand and whatever monotone
symmetric loss counts, post-processing this release is optimal among all epsilon-DP mechanisms. That
does not extend to several counts, to s > 1, or to delta > 0.

Reference: Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms".

**One-sided noise** never makes a count too small. The release is f + Z with Pr[Z = z] = (1 - a) a^z, z = 0, 1, 2, ...:
exponential noise on the integers. The usual two lines, "shifting the noise by s changes its density by the factor
e^epsilon", are about points where both densities are positive. They forget the others: an answer f < f + s that the
larger count cannot give. So

- a data set with the larger count is never more than e^epsilon times as likely as its neighbour, delta = 0: if f counts
  who says yes, no answer is strong evidence for a yes. This is the condition: *only one direction is secret*;
- in the other direction the answers f .. f + s - 1 prove the smaller count, with probability 1 - e^-epsilon. That
  is the delta of the two-sided guarantee, far too large to be of use: somebody's no may be given away.

Where every outcome is an *upper* event of a noise of its own, one-sided noise is enough in both directions: the choice
of the largest noisy utility, `permute_and_flip`. It is therefore not in the registry, whose members promise their
epsilon both ways. Reference: Doudalis, Kotsogiannis, Haney, Machanavajjhala, Mehrotra 2017, "One-sided differential
privacy".
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate
from shuffledp.core.arrays import Counts
from shuffledp.core.capabilities import CentralCapabilities
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import MechanismSpec, Parameters
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.mechanisms import find_rate, promise_pure, read_integers, shape_like
from shuffledp.numerics.entropy import draw_discrete_laplace, draw_geometric
from shuffledp.numerics.intervals import DiscreteLaplace, DiscreteLaplaceError
from shuffledp.numerics.rounding import exp_lower, exp_upper, float_above


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSided:
    """k counts with geometric noise upwards.

    >>> from shuffledp import SeededWords
    >>> count = OneSided(epsilon=1.0, sensitivity=1)
    >>> int(count.release(100, SeededWords(1))[0]) >= 100
    True
    >>> count.raises_odds_by, round(count.guarantee.delta, 3)
    (1.0, 0.632)
    """

    epsilon: float
    sensitivity: int
    k: int = 1
    rate: Fraction = field(init=False)

    def __post_init__(self) -> None:
        whole("sensitivity", self.sensitivity, at_least=1, at_most=2**50)
        whole("k", self.k, at_least=1)
        object.__setattr__(self, "rate", find_rate(self.epsilon, self.sensitivity))

    @property
    def raises_odds_by(self) -> float:
        """No answer raises the log-odds of the larger counts by more: the epsilon of that one direction."""
        return self.epsilon

    @property
    def guarantee(self) -> Guarantee:
        """The two-sided guarantee, whose delta 1 - e^-epsilon says that this is not enough by itself."""
        return Guarantee(
            epsilon=self.epsilon,
            delta=min(1.0, float_above(1 - exp_lower(-self.epsilon))),
            model=Model.CENTRAL,
            proof="one-sided noise, which may prove the smaller of two counts",
        )

    def release(self, exact_answer: ArrayLike, rng: WordSource) -> Counts:
        """Return the counts with noise: never below the truth. Each call spends the guarantee once more."""
        exact = read_integers(exact_answer, self.k)
        noisy: Counts = exact + draw_geometric(self.rate, self.k, rng)
        return noisy

    def mass(self, z: int) -> tuple[Fraction, Fraction]:
        """Return fractions that enclose the probability of the noise z.

        >>> low, high = OneSided(epsilon=1.0, sensitivity=1).mass(0)
        >>> round(float(low), 4), OneSided(epsilon=1.0, sensitivity=1).mass(-1)
        (0.6321, (Fraction(0, 1), Fraction(0, 1)))
        """
        if z < 0:
            return Fraction(0), Fraction(0)
        here, beyond = -z * self.rate, -(z + 1) * self.rate
        return exp_lower(here) - exp_upper(beyond), exp_upper(here) - exp_lower(beyond)

    def accuracy(self, beta: float) -> float:
        """Return the smallest integer alpha with k Pr[Z > alpha] <= beta: all k counts are at most alpha too high.

        >>> OneSided(epsilon=1.0, sensitivity=1).accuracy(0.05)
        2.0
        """
        wanted = Fraction(fraction_of_one("beta", beta))
        alpha = max(0, math.ceil(math.log(self.k / float(wanted)) / float(self.rate)) - 2)
        while self.k * exp_upper(-(alpha + 1) * self.rate) > wanted:
            alpha += 1
        return float(alpha)


make = Geometric

SPEC = MechanismSpec(
    name="geometric",
    title="Two-sided geometric mechanism",
    tasks=("count", "sum", "histogram"),
    reference="Ghosh, Roughgarden, Sundararajan 2009",
    make=make,
    options={"sensitivity": True, "k": False},
)
