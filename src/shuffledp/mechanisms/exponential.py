"""The exponential mechanism: choose one of k public candidates by its utility.

Candidate r has utility u_r on the data, and replacing one person changes each u_r by at most the
sensitivity s. Choose r with probability proportional to exp(epsilon u_r / (2 s)). Between neighbours
the numerator changes by at most e^(epsilon/2) and so does the sum, hence epsilon-DP, delta = 0.

It need not choose the winner: with 30 votes against 29 and epsilon = 1 the winner has probability
0.622. What holds is Pr[u <= max u - (2 s / epsilon)(ln k + t)] <= e^-t.

Reference: McSherry, Talwar 2007, "Mechanism design via differential privacy".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
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
from shuffledp.numerics.entropy import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """One of k candidates, by utilities of the given sensitivity.

    Utilities are integers, fractions or floats, each taken as the rational number that it is. If
    they were computed with rounding errors, declare by how much each may be off: with |error| <= e
    on either data set, computed utilities of neighbours differ by at most s + 2 e, and that is the
    sensitivity that is used.

    >>> from shuffledp import SeededWords
    >>> vote = Exponential(epsilon=1.0, sensitivity=1.0, k=2, labels=("tea", "coffee"))
    >>> vote.probabilities([30, 29]).round(3)
    array([0.622, 0.378])
    >>> vote.select([30, 29], SeededWords(1))
    Selection(index=1, label='coffee')
    """

    epsilon: float
    sensitivity: float
    k: int
    labels: tuple[str, ...] | None = None
    utility_error: float = 0.0
    name: ClassVar[str] = "exponential"

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
        return promise_pure(self.epsilon, "the likelihood ratio of the exponential mechanism")

    def select(self, utilities: ArrayLike | Sequence[Fraction], rng: WordSource) -> Selection:
        """Draw one candidate from exactly the stated law."""
        index = int(self.choice(utilities).draw(1, rng)[0])
        return Selection(index=index, label=None if self.labels is None else self.labels[index])

    def probabilities(self, utilities: ArrayLike | Sequence[Fraction]) -> Floats:
        """Return the probability of each candidate, to the precision of a float.

        >>> Exponential(epsilon=2.0, sensitivity=1.0, k=3).probabilities([1, 1, 1]).round(4)
        array([0.3333, 0.3333, 0.3333])
        """
        return np.array([float(low) for low, _ in self.choice(utilities).bounds(80)])

    def choice(self, utilities: ArrayLike | Sequence[Fraction]) -> Choice:
        """Return the exact law: weights e^-x_r, x_r = epsilon (max u - u_r) / (2 sensitivity)."""
        exact = self._read_utilities(utilities)
        best = max(exact)
        rate = Fraction(self.epsilon) / (2 * self._widen())
        return Choice(exponents=tuple(rate * (best - utility) for utility in exact))

    def accuracy(self, beta: float) -> float:
        """Return alpha: the chosen utility is at least max u - alpha, except with probability beta.

        alpha = (2 s / epsilon) ln(k / beta), with the widened sensitivity and twice the declared
        error of the utilities added.

        >>> round(Exponential(epsilon=1.0, sensitivity=1.0, k=2).accuracy(0.05), 4)
        7.3778
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


make = Exponential

SPEC = MechanismSpec(
    name="exponential",
    title="Exponential mechanism",
    tasks=(),
    reference="McSherry, Talwar 2007",
    make=make,
    options={"sensitivity": True, "k": True},
)
