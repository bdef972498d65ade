"""Laws of a flood F >= 0 of cancelling messages, as windows of masses with known errors.

A window starts at the first mass above e^-640 and is the running product of exact ratios, so that its
rounding errors are counted; what lies outside is bounded.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.numerics.masses import RELATIVE_ERROR, log_negative_binomial, log_poisson

__all__ = ["Flood", "NegativeBinomialFlood", "PoissonFlood", "TabulatedFlood", "Window"]

_UNIT = 2.0**-53
_VISIBLE = -640.0  # masses below e^-640 are cut, and added


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Masses of F at first, first + 1, ..., and bounds of what lies below and above."""

    masses: Floats
    error: float
    """Each mass is within this relative error."""
    scale_error: float
    """All masses may be off by one common factor, within this."""
    below: float
    above: float
    """Upper bounds of Pr[F < first] and Pr[F > last]; 0 above also if no term there is positive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeBinomialFlood:
    """F ~ NB(r, p): the sum of n shares NB(r/n, p).

    >>> round(NegativeBinomialFlood(r=16.0, p=0.95).mean, 6)
    304.0
    """

    r: float
    p: float

    def __post_init__(self) -> None:
        positive("r", self.r)
        fraction_of_one("p", self.p)

    @property
    def mean(self) -> float:
        """r p / (1 - p)."""
        return self.r * self.p / (1 - self.p)

    @property
    def log_concave(self) -> bool:
        """True for r >= 1: then the positive terms are the first ones."""
        return self.r >= 1

    @property
    def endless(self) -> bool:
        """True: a longer window says more."""
        return True

    def window(self, beyond: int) -> Window:
        """The masses from the first visible one to `beyond` after the largest."""
        mode = max(0, math.floor((self.r - 1) * self.p / (1 - self.p)))
        first = _first_visible(mode, lambda k: log_negative_binomial(k, self.r, self.p))
        k = np.arange(first, mode + beyond, dtype=np.float64)
        steps = self.p * (self.r - 1 + k[1:]) / k[1:]
        start = float(np.exp(log_negative_binomial(k[:1], self.r, self.p))[0])
        # The ratios fall to p for r >= 1 and rise to p for r < 1.
        following = self.p * max(1.0, (self.r - 1 + k[-1] + 1) / (k[-1] + 1))
        return _window(first, start, steps, following)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonFlood:
    """F ~ Poisson(mean).

    >>> PoissonFlood(mean=200.0).mean
    200.0
    """

    mean: float

    def __post_init__(self) -> None:
        if positive("mean", self.mean) > 1e12:
            raise ParameterError("mean", self.mean, "must be <= 10^12")

    @property
    def log_concave(self) -> bool:
        """True."""
        return True

    @property
    def endless(self) -> bool:
        """True: a longer window says more."""
        return True

    def window(self, beyond: int) -> Window:
        """The masses from the first visible one to `beyond` after the largest."""
        mode = math.floor(self.mean)
        first = _first_visible(mode, lambda k: log_poisson(k, self.mean))
        k = np.arange(first, mode + beyond, dtype=np.float64)
        start = float(np.exp(log_poisson(k[:1], self.mean))[0])
        return _window(first, start, self.mean / k[1:], self.mean / (k[-1] + 1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TabulatedFlood:
    """F = 0, 1, 2, ... with the given masses, each within a relative `error`; the rest is `cut`.

    >>> TabulatedFlood(masses=np.array([0.5, 0.25, 0.25])).mean
    0.75
    """

    masses: Floats
    cut: float = 0.0
    error: float = 1e-15

    def __post_init__(self) -> None:
        masses = np.asarray(self.masses, dtype=np.float64)
        if masses.ndim != 1 or not len(masses) or np.any(~(masses >= 0)):
            raise ParameterError("masses", self.masses, "must be a list of numbers >= 0")
        if abs(float(masses.sum()) + self.cut - 1) > 1e-6:
            raise ParameterError("masses", float(masses.sum()), "must sum to 1 - cut")

    @property
    def mean(self) -> float:
        """That of the table."""
        return float(self.masses @ np.arange(len(self.masses)))

    @property
    def log_concave(self) -> bool:
        """Unknown: no use is made of it."""
        return False

    @property
    def endless(self) -> bool:
        """False: the window is the table."""
        return False

    def window(self, beyond: int) -> Window:
        """The whole table."""
        return Window(
            masses=self.masses, error=self.error, scale_error=0.0, below=0.0, above=self.cut
        )


Flood = NegativeBinomialFlood | PoissonFlood | TabulatedFlood


def _first_visible(mode: int, log_mass: Callable[[Floats], Floats]) -> int:
    """The first k up to the mode whose mass is at least e^-640; masses rise until there."""

    def visible(k: int) -> bool:
        return float(log_mass(np.array([float(k)]))[0]) >= _VISIBLE

    if visible(0):
        return 0
    low, high = 0, mode
    while high - low > 1:
        middle = (low + high) // 2
        if visible(middle):
            high = middle
        else:
            low = middle
    return high


def _window(first: int, start: float, steps: Floats, following: float) -> Window:
    """From the first mass and the ratios of the next; `following` is the largest ratio after them."""
    masses = start * np.cumprod(np.append(1.0, steps))
    above = float(masses[-1]) * following / (1 - following) if following < 1 else math.inf
    return Window(
        masses=masses,
        error=6 * len(masses) * _UNIT,
        scale_error=2 * RELATIVE_ERROR,
        below=first * start * (1 + 1e-6),
        above=above * (1 + 1e-6),
    )
