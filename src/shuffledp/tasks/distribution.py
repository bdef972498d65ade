"""How the values are distributed.

Whether the values are uniform.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Value
from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Domain
from shuffledp.core.errors import MismatchError
from shuffledp.core.task import Column, Declared, Option, Task
from shuffledp.core.validate import below_one
from shuffledp.numerics.rounding import float_above
from shuffledp.tasks.histogram import BINS, Binned, check_bins, declare_bins


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniformity(Task):
    """How far a law is from uniform; the loss of a verdict is 1 if it is wrong, and 0 otherwise.

    `truth` is the total variation distance of these values from uniform. A verdict is 1 (accept) or 0
    (reject), and is judged by the distance of the law that it is about: accepting is wrong from alpha
    on, rejecting is wrong at 0, and in between both are right.

    >>> from shuffledp import Categories
    >>> task = Uniformity(domain=Categories(k=4), alpha=0.25)
    >>> distance = task.truth([0, 0, 1, 2])
    >>> distance, task.loss(1.0, distance), task.loss(0.0, distance)
    (0.25, 1.0, 0.0)
    """

    name = "uniformity"
    title = "whether the values are uniform"
    options = (*BINS, Option(name="alpha", kind=float, help="The distance to tell from uniform."))
    elsewhere = "sdp.uniformity_test (shuffledp test)"
    answer = total = "the distance"

    domain: Domain
    alpha: float = 0.0
    """The smallest distance at which accepting is wrong; 0: at every distance above 0."""

    def __post_init__(self) -> None:
        below_one("alpha", self.alpha)

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        given = cls.read_options(options)
        domain, not_private = declare_bins(cls.name, given, column)
        task = cls(domain=domain, alpha=given.get("alpha", 0.0))
        return Declared(task=task, not_private=not_private)

    def arguments(self) -> Mapping[str, Any]:
        return {"k": self.domain.size}

    def sensitivity(self, n: int) -> float:
        return float_above(Fraction(1, n))  # half of what two shares move

    def truth(self, values: ArrayLike) -> float:
        codes, k = self.domain.codes(values), self.domain.size
        counts = np.bincount(codes, minlength=k)
        # In integers: equal counts have distance exactly 0.
        return float(np.abs(k * counts - len(codes)).sum()) / (2 * k * len(codes))

    def loss(self, estimate: Value, truth: Value) -> float:
        if np.shape(estimate) != () or float(estimate) not in (0.0, 1.0):
            raise MismatchError("the verdict must be 1 (accept) or 0 (reject)")
        if np.shape(truth) != ():
            raise MismatchError(f"the truth must be one number, but has shape {np.shape(truth)}")
        accepts, distance = float(estimate) == 1.0, float(truth)
        wrong = distance > 0 and distance >= self.alpha if accepts else distance == 0
        return float(wrong)
