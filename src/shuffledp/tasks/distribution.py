"""How the values are distributed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Domain
from shuffledp.core.errors import MismatchError
from shuffledp.core.estimate import Value

__all__ = ["Distribution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The share of the people with each value of the domain; the loss is the total variation distance.

    The truth is about these people. What they say about the population that they were drawn from is
    off by the sampling error, too: see `sdp.learn`.

    >>> from shuffledp import Categories
    >>> task = Distribution(domain=Categories(k=3))
    >>> truth = task.truth([0, 2, 2, 2])
    >>> truth, task.loss(np.array([0.5, 0.25, 0.25]), truth)
    (array([0.25, 0.  , 0.75]), 0.5)
    """

    domain: Domain

    @property
    def task(self) -> str:
        return "distribution"

    def truth(self, values: ArrayLike) -> Floats:
        codes = self.domain.codes(values)
        return np.bincount(codes, minlength=self.domain.size) / np.float64(len(codes))

    def loss(self, estimate: Value, truth: Value) -> float:
        for name, value in (("estimate", estimate), ("truth", truth)):
            if np.shape(value) != (self.domain.size,):
                raise MismatchError(
                    f"the {name} must have one number for each of the {self.domain.size} values, "
                    f"but has shape {np.shape(value)}"
                )
        return float(np.abs(np.asarray(estimate) - np.asarray(truth)).sum() / 2)
