"""Many binomials at once: windows of masses around their middles, with relative accuracy."""

from dataclasses import dataclass

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.numerics.coins import _stirling_error

__all__ = ["Binomials"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binomials:
    """Bin(trials, p) for each of an array of trials and odds p / (1 - p).

    Odds, not p, because p and 1 - p then both keep their relative accuracy.

    >>> Binomials(trials=np.array([2.0, 3.0]), odds=np.array([1.0, 0.5])).mean
    array([1., 1.])
    """

    trials: Floats
    odds: Floats

    @property
    def mean(self) -> Floats:
        return self.trials * (self.odds / (1 + self.odds))

    @property
    def misses(self) -> Floats:
        """trials - mean, without the cancellation."""
        return self.trials / (1 + self.odds)

    @property
    def sd(self) -> Floats:
        return np.sqrt(self.mean / (1 + self.odds))

    @property
    def mode(self) -> Floats:
        """A most likely value, counted from the nearer end."""
        low = np.floor((self.trials + 1) * (self.odds / (1 + self.odds)))
        high = self.trials - np.floor((self.trials + 1) / (1 + self.odds))
        return np.clip(np.where(self.odds < 1, low, high), 0, self.trials)

    def masses(self, at: Floats, down: int, up: int) -> Floats:
        """Pr[at - down], ..., Pr[at], ..., Pr[at + up], as columns.

        Each mass is its neighbour times a ratio: the relative error grows by at most eight rounding
        errors a step.

        >>> law = Binomials(trials=np.array([2.0]), odds=np.array([1.0]))
        >>> law.masses(np.array([1.0]), 2, 1).round(12).T
        array([[0.  , 0.25, 0.5 , 0.25]])
        """
        i = np.arange(up, dtype=np.float64)[:, None]
        rise = np.maximum(self.trials - at - i, 0.0) / (at + i + 1) * self.odds
        j = at - np.arange(down, dtype=np.float64)[:, None]
        drop = np.maximum(j, 0.0) / np.maximum(self.trials - j + 1, 1.0) / self.odds
        middle = self.mass(at)
        above, below = np.cumprod(rise, axis=0), np.cumprod(drop, axis=0)
        return np.concatenate([below[::-1] * middle, middle[None, :], above * middle])

    def mass(self, k: Floats) -> Floats:
        """Pr[k] by Loader's saddle-point form, within 1e-12 for k within a few steps of the mean.

        Reference: Loader 2000, "Fast and accurate computation of binomial probabilities".

        >>> Binomials(trials=np.array([4.0]), odds=np.array([1.0])).mass(np.array([2.0])).round(12)
        array([0.375])
        """
        N, rest = self.trials, self.trials - k
        log = _stirling_error(N) - _stirling_error(k) - _stirling_error(rest)
        log = log - _deviance(k, self.mean) - _deviance(rest, self.misses)
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.exp(log) * np.sqrt(N / (2 * np.pi * k * rest))
            edge = np.exp(-N * np.log1p(np.where(k <= 0, self.odds, 1 / self.odds)))
        return np.where((k <= 0) | (rest <= 0), edge, inner)

    def beyond(self, at: Floats, last: Floats, step: int) -> Floats:
        """At least what lies past `at`, on the side of `step` = 1 or -1, where the mass is `last`.

        `at` must be well past the mode. The law is log-concave, so the rest is at most a geometric
        series.

        >>> law = Binomials(trials=np.array([2.0]), odds=np.array([0.5]))
        >>> law.beyond(np.array([1.0]), np.array([4 / 9]), 1).round(6)  # and Pr[2] is 1/9
        array([0.148148])
        """
        place = at if step > 0 else self.trials - at
        odds = self.odds if step > 0 else 1 / self.odds
        ratio = np.maximum(self.trials - place, 0.0) / np.maximum(place + 1, 1.0) * odds
        ratio = np.minimum(ratio, 1 - 1e-9)  # it is well below 1 that far from the mode
        rest: Floats = np.where(last > 0, last * ratio / (1 - ratio), 0.0) * (1 + 1e-9)
        return rest


def _deviance(k: Floats, mean: Floats) -> Floats:
    """k ln(k / mean) + mean - k."""
    safe = np.where(mean > 0, mean, 1.0)
    u = np.maximum((k - mean) / safe, -1 + 1e-16)
    value: Floats = np.where(mean > 0, safe * ((1 + u) * np.log1p(u) - u), 0.0)
    return value
