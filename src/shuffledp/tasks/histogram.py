"""How many people have each value."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Domain
from shuffledp.core.errors import MismatchError
from shuffledp.core.estimate import Value

__all__ = ["Histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The number of people with each value of the domain; the loss is averaged over the bins.

    >>> from shuffledp import Categories
    >>> task = Histogram(domain=Categories(k=3))
    >>> truth = task.truth([0, 2, 2, 2])
    >>> truth, task.loss(np.array([2.0, 0.0, 1.0]), truth)
    (array([1., 0., 3.]), 1.6666666666666667)
    """

    domain: Domain

    @property
    def task(self) -> str:
        return "histogram"

    def truth(self, values: ArrayLike) -> Floats:
        codes = self.domain.codes(values)
        return np.bincount(codes, minlength=self.domain.size).astype(np.float64)

    def loss(self, estimate: Value, truth: Value) -> float:
        for name, value in (("estimate", estimate), ("truth", truth)):
            if np.shape(value) != (self.domain.size,):
                raise MismatchError(
                    f"the {name} must have one number for each of the {self.domain.size} bins, "
                    f"but has shape {np.shape(value)}"
                )
        return float(np.mean(np.square(np.asarray(estimate) - np.asarray(truth))))
