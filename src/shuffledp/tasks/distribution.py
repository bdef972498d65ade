"""How the values are distributed."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.estimate import Value
from shuffledp.numerics.rounding import float_above
from shuffledp.tasks.histogram import Binned, check_bins


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution(Binned):
    """The share of the people with each value of the domain; the loss is the total variation distance.

    The truth is about these people. What they say about the population that they were drawn from is
    off by the sampling error, too: see `sdp.learn`.

    >>> from shuffledp import Categories
    >>> task = Distribution(domain=Categories(k=3))
    >>> truth = task.truth([0, 2, 2, 2])
    >>> truth, task.loss(np.array([0.5, 0.25, 0.25]), truth)
    (array([0.25, 0.  , 0.75]), 0.5)
    """

    name = "distribution"
    title = "how the values are distributed"
    elsewhere = "sdp.learn (shuffledp learn)"
    answer, total = "a share", "a bin"
    average = True

    def sensitivity(self, n: int) -> float:
        return float_above(Fraction(2, n))

    def truth(self, values: ArrayLike) -> Floats:
        codes = self.domain.codes(values)
        return np.bincount(codes, minlength=self.domain.size) / np.float64(len(codes))

    def loss(self, estimate: Value, truth: Value) -> float:
        check_bins(self.domain, estimate=estimate, truth=truth)
        return float(np.abs(np.asarray(estimate) - np.asarray(truth)).sum() / 2)
