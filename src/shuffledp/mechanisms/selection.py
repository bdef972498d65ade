r"""Choose one of k public candidates by its utility: the exponential mechanism, and permute and flip.

Candidate r has utility u_r on the data, and replacing one person changes each u_r by at most the sensitivity s. Let
x_r = epsilon (max u - u_r) / (2 s).

**The exponential mechanism** chooses r with probability proportional to e^-x_r. Between neighbours the numerator changes
by at most e^(epsilon/2) and so does the sum, hence epsilon-DP, delta = 0. It need not choose the winner: with 30 votes
against 29 and epsilon = 1 the winner has probability 0.622. What holds is
Pr[u <= max u - (2 s / epsilon)(ln k + t)] <= e^-t.

**Permute and flip** goes through the candidates in random order; it takes candidate r with probability e^-x_r, otherwise
it looks at the next. The best one is always taken, so somebody is.

*It is the largest of lambda u_r + Z_r*, lambda = epsilon / (2 s), with independent standard exponential Z_r. Call r awake if
lambda u_r + Z_r reaches lambda max u: that has probability e^-x_r, and by how much it is exceeded is again a standard
exponential. So the largest is a uniform one of those awake; and so is the first awake one in a random order.

*It is epsilon-DP.* Fix the noise of all others. r wins if Z_r exceeds a threshold, which a neighbour raises by at most
2 lambda s = epsilon, and Pr[Z > z + epsilon] >= e^-epsilon Pr[Z > z]. One-sided noise is enough here, in both directions,
because every outcome is an upper event of a noise of its own.

Its utility is never below that of the exponential mechanism in expectation, and often well above.

References: McSherry, Talwar 2007, "Mechanism design via differential privacy"; McKenna, Sheldon 2020, "Permute-and-flip:
a new mechanism for differentially private selection"; the noise is Ding, Kifer, Sayed, Kifer, Zhang, Zhang 2021.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import MechanismSpec, Parameters, Selection
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, non_negative, whole
from shuffledp.mechanisms import promise_pure, read_exactly
from shuffledp.numerics.entropy import Choice, draw_bernoulli_exp


@dataclass(frozen=True, slots=True, kw_only=True)
class ByUtility(ABC):
    """The base of mechanisms that choose one of k candidates, by utilities of the given sensitivity.

    Utilities are integers, fractions or floats, each taken as the rational number that it is. If
    they were computed with rounding errors, declare by how much each may be off: with |error| <= e
    on either data set, computed utilities of neighbours differ by at most s + 2 e, and that is the
    sensitivity that is used.
    """

    name: ClassVar[str]
    proof: ClassVar[str]
    epsilon: float
    sensitivity: float
    k: int
    labels: tuple[str, ...] | None = None
    utility_error: float = 0.0

    def __post_init__(self) -> None:
        read_exactly("epsilon", self.epsilon)
        read_exactly("sensitivity", self.sensitivity)
        whole("k", self.k, at_least=1)
        non_negative("utility_error", self.utility_error)
        if self.labels is None:
            return
        object.__setattr__(self, "labels", tuple(self.labels))
        if len(self.labels) != self.k:
            raise ParameterError("labels", self.labels, f"must have k={self.k} entries")

    @property
    def parameters(self) -> Parameters:
        return {
            "epsilon": self.epsilon,
            "sensitivity": self.sensitivity,
            "k": self.k,
            "labels": None if self.labels is None else list(self.labels),
            "utility_error": self.utility_error,
        }

    @property
    def guarantee(self) -> Guarantee:
        return promise_pure(self.epsilon, self.proof)

    def select(self, utilities: ArrayLike | Sequence[Fraction], rng: WordSource) -> Selection:
        """Draw one candidate from exactly the stated law."""
        index = self.draw(self.choice(utilities), rng)
        return Selection(index=index, label=None if self.labels is None else self.labels[index])

    @abstractmethod
    def draw(self, choice: Choice, rng: WordSource) -> int:
        """Draw the place of one candidate, by the exponents x_r."""

    def choice(self, utilities: ArrayLike | Sequence[Fraction]) -> Choice:
        """Return the exponential mechanism's exact law: weights e^-x_r, x_r = epsilon (max u - u_r) / (2 sensitivity)."""
        exact = self._read_utilities(utilities)
        best = max(exact)
        rate = Fraction(self.epsilon) / (2 * self._widen())
        return Choice(exponents=tuple(rate * (best - utility) for utility in exact))

    def accuracy(self, beta: float) -> float:
        """Return alpha: the chosen utility is at least max u - alpha, except with probability beta.

        alpha = (2 s / epsilon) ln(k / beta), with the widened sensitivity and twice the declared error of the utilities
        added. It is the same for both: in permute and flip candidate r is awake with probability e^-x_r, and
        k e^-x <= beta.

        >>> votes = [kind(epsilon=1.0, sensitivity=1.0, k=2) for kind in (Exponential, PermuteAndFlip)]
        >>> [round(vote.accuracy(0.05), 4) for vote in votes]
        [7.3778, 7.3778]
        """
        scale = 2 * float(self._widen()) / self.epsilon
        logs = math.log(self.k) - math.log(fraction_of_one("beta", beta))
        return (scale * logs + 2 * self.utility_error) * (1 + 1e-14)

    def _widen(self) -> Fraction:
        return Fraction(self.sensitivity) + 2 * Fraction(self.utility_error)

    def _read_utilities(self, utilities: ArrayLike | Sequence[Fraction]) -> list[Fraction]:
        array = np.asarray(utilities)
        if array.shape != (self.k,):
            raise DataError(f"utilities must be k={self.k} numbers, but have shape {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError("utilities must be finite")
        if array.dtype.kind not in "iufO":
            raise DataError(f"utilities must be numbers, but have type {array.dtype}")
        return [_read_fraction(value) for value in array.tolist()]


def _read_fraction(value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise DataError(f"utility {value!r} must be an integer, a fraction or a float")
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"utility {value!r} must be finite")
    return Fraction(value)


_NODES = (
    400  # of the integral: exact for up to 800 candidates, and beyond to the precision of floats
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(ByUtility):
    """One of k candidates, with a probability in proportion to e^-x_r.

    >>> from shuffledp import SeededWords
    >>> vote = Exponential(epsilon=1.0, sensitivity=1.0, k=2, labels=("tea", "coffee"))
    >>> vote.probabilities([30, 29]).round(3)
    array([0.622, 0.378])
    >>> vote.select([30, 29], SeededWords(1))
    Selection(index=1, label='coffee')
    """

    name: ClassVar[str] = "exponential"
    proof: ClassVar[str] = "the likelihood ratio of the exponential mechanism"

    def draw(self, choice: Choice, rng: WordSource) -> int:
        return int(choice.draw(1, rng)[0])

    def probabilities(self, utilities: ArrayLike | Sequence[Fraction]) -> Floats:
        """Return the probability of each candidate, to the precision of a float.

        >>> Exponential(epsilon=2.0, sensitivity=1.0, k=3).probabilities([1, 1, 1]).round(4)
        array([0.3333, 0.3333, 0.3333])
        """
        return np.array([float(low) for low, _ in self.choice(utilities).bounds(80)])


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip(ByUtility):
    """One of k candidates: in random order, the first that is taken with its probability e^-x_r.

    >>> from shuffledp import SeededWords
    >>> vote = PermuteAndFlip(epsilon=1.0, sensitivity=1.0, k=2, labels=("tea", "coffee"))
    >>> vote.probabilities([30, 29]).round(3)
    array([0.697, 0.303])
    >>> vote.select([30, 29], SeededWords(1))
    Selection(index=0, label='tea')
    """

    name: ClassVar[str] = "permute_and_flip"
    proof: ClassVar[str] = "the upper tail of one-sided exponential noise"

    def draw(self, choice: Choice, rng: WordSource) -> int:
        left = list(range(self.k))
        while True:
            place = _draw_below(len(left), rng)
            index = left[place]
            if draw_bernoulli_exp(choice.exponents[index], 1, rng)[0]:
                return index
            left[place] = left[-1]
            left.pop()

    def probabilities(self, utilities: ArrayLike | Sequence[Fraction]) -> Floats:
        """Return the probability of each candidate: p_r int_0^1 prod_(s != r) (1 - t p_s) dt, p = e^-x.

        t is where r is in the random order; those before it must all have failed.

        >>> PermuteAndFlip(epsilon=2.0, sensitivity=1.0, k=3).probabilities([1, 1, 1]).round(4)
        array([0.3333, 0.3333, 0.3333])
        """
        exponents = self.choice(utilities).exponents
        p = np.exp([-float(min(x, Fraction(10_000))) for x in exponents])
        nodes, weight = _rule()
        # Nodes lie strictly inside (0, 1), so no factor 1 - t p is 0.
        factors = 1 - np.outer((nodes + 1) / 2, p)
        alone: Floats = p * ((weight / 2 * factors.prod(axis=1)) @ (1 / factors))
        return alone


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    """Return Gauss's nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def _draw_below(count: int, rng: WordSource) -> int:
    """Return a uniform number below `count`: words beyond its largest multiple are drawn again."""
    largest = (1 << 64) // count * count
    while True:
        word = int(rng.words(1)[0])
        if word < largest:
            return word % count


EXPONENTIAL = MechanismSpec(
    name="exponential",
    title="Exponential mechanism",
    tasks=(),
    reference="McSherry, Talwar 2007",
    make=Exponential,
    options={"sensitivity": True, "k": True},
)
PERMUTE_AND_FLIP = MechanismSpec(
    name="permute_and_flip",
    title="Permute and flip: noisy maximum",
    tasks=(),
    reference="McKenna, Sheldon 2020",
    make=PermuteAndFlip,
    options={"sensitivity": True, "k": True},
)
