"""The Laplace mechanism for real answers, on a grid.

The textbook adds continuous Laplace noise of scale sensitivity / epsilon. Computed in floating point
that is not private: which doubles can come out depends on the exact answer (Mironov 2012, "On
significance of the least significant bits for differential privacy"). So here

1. each coordinate is rounded to the nearest multiple of a public power of two, `step` (about a
   millionth of the noise),
2. discrete Laplace noise is added, in whole steps, with exact arithmetic.

Rounding half up moves two numbers that are d steps apart to integers less than d + 1 apart. So l1
sensitivity s becomes less than s / step + k for k coordinates, hence as an integer at most
ceil(s / step) + k - 1 = `reach`, and noise of rate epsilon / reach makes the release exactly
epsilon-DP, rounding included.

A caveat that no mechanism can remove: `sensitivity` must hold for the answer *as computed*. A sum of
floats depends on the order and on rounding errors of all other terms, so two neighbouring sums may
differ by more than one term. Sum integers (fixed point), and release the `Fraction` that they stand for: it
is rounded once, to the grid.

Reference: Dwork, McSherry, Nissim, Smith 2006, "Calibrating noise to sensitivity in private data
analysis".
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.capabilities import CentralCapabilities
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import MechanismSpec, Parameters
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.mechanisms import (
    find_rate,
    promise_pure,
    read_exactly,
    read_reals,
    shape_like,
)
from shuffledp.numerics.entropy import draw_discrete_laplace
from shuffledp.numerics.intervals import DiscreteLaplace, DiscreteLaplaceError

_FINER = 20  # the step is 2^-20 of the noise and of the sensitivity per coordinate, or less
_LARGEST_STEPS = 2.0**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """k real numbers of l1 sensitivity `sensitivity`, released on a grid of width 2^step_exponent.

    >>> from shuffledp import SeededWords
    >>> mean_height = make(epsilon=1.0, sensitivity=0.5)
    >>> round(mean_height.release(170.2, SeededWords(1)).value, 3)
    169.856
    """

    epsilon: float
    sensitivity: float
    k: int = 1
    step_exponent: int
    reach: int = field(init=False)
    noise: DiscreteLaplace = field(init=False)
    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        sensitivity = read_exactly("sensitivity", self.sensitivity)
        whole("k", self.k, at_least=1)
        whole("step_exponent", self.step_exponent, at_least=-500, at_most=400)
        reach = math.ceil(sensitivity / Fraction(2) ** self.step_exponent) + self.k - 1
        if reach > 2**60:
            raise ParameterError(
                "step_exponent", self.step_exponent, "must be larger: the grid is too fine"
            )
        object.__setattr__(self, "reach", reach)
        object.__setattr__(self, "noise", DiscreteLaplace(rate=find_rate(self.epsilon, reach)))

    @property
    def parameters(self) -> Parameters:
        return {
            "epsilon": self.epsilon,
            "sensitivity": self.sensitivity,
            "k": self.k,
            "step_exponent": self.step_exponent,
        }

    @property
    def guarantee(self) -> Guarantee:
        return promise_pure(
            self.epsilon,
            "the likelihood ratio of discrete Laplace noise on a grid, rounding included",
        )

    @property
    def unit(self) -> float:
        """The width of the grid."""
        return math.ldexp(1.0, self.step_exponent)

    def release(self, exact_answer: ArrayLike | Fraction, rng: WordSource) -> Estimate:
        """Return the answer (a number, also a `Fraction`, if k = 1, otherwise k numbers) on the grid, with noise.

        >>> from shuffledp import SeededWords
        >>> make(epsilon=1e6, sensitivity=1.0).release(Fraction(1, 3), SeededWords(1)).value
        0.3333330839577684
        """
        if isinstance(exact_answer, Fraction):
            steps, exact_answer = self._round_exactly(exact_answer), 0.0
        else:
            steps = self._round_to_grid(read_reals(exact_answer, self.k))
        noisy = steps + draw_discrete_laplace(self.noise.rate, self.k, rng)
        value = np.ldexp(noisy.astype(np.float64), self.step_exponent)
        error = DiscreteLaplaceError(
            noise=self.noise, shape=np.shape(exact_answer), step=self.unit, rounding=self.unit / 2
        )
        return Estimate(
            value=shape_like(value, exact_answer), error=error, limits=(-math.inf, math.inf)
        )

    def _round_exactly(self, exact: Fraction) -> Counts:
        whole("k", self.k, at_least=1, at_most=1)
        steps = math.floor(exact / Fraction(2) ** self.step_exponent + Fraction(1, 2))
        if abs(steps) > _LARGEST_STEPS:
            raise self._too_far()
        return np.array([steps], dtype=np.int64)

    def _too_far(self) -> DataError:
        return DataError(
            f"the exact answer must be within 2^60 steps of 2^{self.step_exponent}: "
            "a coarser grid (a larger step_exponent) reaches further"
        )

    def _round_to_grid(self, exact: Floats) -> Counts:
        if np.any(np.abs(exact) > _LARGEST_STEPS * self.unit):
            raise self._too_far()
        steps = np.ldexp(exact, -self.step_exponent)
        whole_steps = np.floor(steps)
        # floor(steps + 0.5) would round twice; the difference to the floor is exact where it counts.
        return whole_steps.astype(np.int64) + (steps - whole_steps >= 0.5)

    @property
    def offers(self) -> CentralCapabilities:
        return CentralCapabilities(unit=self.unit)

    def variance(self) -> float:
        """Return step^2 2 a / (1 - a)^2 with a = e^(-epsilon / reach): the textbook's 2 s^2 / epsilon^2.

        Rounding to the grid moves the answer by at most step / 2 on top.

        >>> round(make(epsilon=1.0, sensitivity=1.0).variance(), 6)
        2.0
        """
        return self.unit**2 * self.noise.variance

    def accuracy(self, beta: float) -> float:
        """Return alpha: all k coordinates at once are within alpha of the exact answer, except with probability beta.

        For the law that is sampled, by the union bound over coordinates, rounding included.

        >>> round(make(epsilon=1.0, sensitivity=1.0, k=10).accuracy(0.05), 4)
        5.2983
        """
        radius = self.noise.radius(Fraction(fraction_of_one("beta", beta)), self.k)
        return math.nextafter(self.unit * (radius + 0.5), math.inf)


def make(
    *, epsilon: float, sensitivity: float, k: int = 1, step_exponent: int | None = None
) -> Laplace:
    """Return the mechanism for k real numbers of the given l1 sensitivity.

    Without a `step_exponent` the grid is 2^-20 of sensitivity / max(epsilon, k), or a little finer.

    >>> make(epsilon=1.0, sensitivity=1.0).unit == 2**-20
    True
    """
    if step_exponent is None:
        step_exponent = _choose_step(
            read_exactly("epsilon", epsilon), read_exactly("sensitivity", sensitivity), k
        )
    return Laplace(epsilon=epsilon, sensitivity=sensitivity, k=k, step_exponent=step_exponent)


def _choose_step(epsilon: Fraction, sensitivity: Fraction, k: int) -> int:
    finest = sensitivity / max(epsilon, Fraction(whole("k", k, at_least=1)))
    return math.frexp(float(finest))[1] - 1 - _FINER


SPEC = MechanismSpec(
    name="laplace",
    title="Laplace mechanism on a grid",
    tasks=("sum", "mean"),
    reference="Dwork, McSherry, Nissim, Smith 2006",
    make=make,
    options={"sensitivity": True, "k": False},
)
