"""The tree of a curator: counts at several resolutions, each with discrete Laplace noise.

A grid of cells is the lowest level of a tree of shape (b_1, ..., b_T). Replacing one person moves one count down and
one up at every level, so all counts together have l1 sensitivity 2 T, and discrete Laplace noise of rate
epsilon / (2 T) in each of them is epsilon-DP, with delta = 0. The leaves are fitted by generalised least squares, with
the public n as the root, and answer quantiles, ranges, the distribution function, variance and standard deviation
(`numerics.leaves`). It is what `protocols.tree` would be if a curator were trusted.

Reference: Hay, Rastogi, Miklau, Suciu 2010, "Boosting the accuracy of differentially private histograms through
consistency". Deviation: integer noise, and the public n as the root.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate
from shuffledp.core.capabilities import CentralCapabilities
from shuffledp.core.domain import Cells, Integers
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import MechanismSpec, Parameters
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.mechanisms import find_rate, promise_pure, read_integers
from shuffledp.numerics.entropy import draw_discrete_laplace
from shuffledp.numerics.leaves import TASKS, LeafQuestion, Leaves, read_question
from shuffledp.numerics.tree_noise import GeometricNoise, IndependentLevels
from shuffledp.numerics.trees import aggregate, choose_even_shape, fit_leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricTree:
    """A question about a distribution, from counts of all nodes with discrete Laplace noise.

    >>> from shuffledp import SeededWords
    >>> median = make(n=1000, lower=0, upper=9, epsilon=1.0)
    >>> median.release([100] * 10, SeededWords(1)).value
    array([4.])
    """

    domain: Integers | Cells
    shape: tuple[int, ...]
    question: LeafQuestion
    epsilon: float
    n: int
    """The number of people for which errors are stated; the promise does not depend on it."""
    name: ClassVar[str] = "geometric_tree"

    @property
    def parameters(self) -> Parameters:
        return {
            "n": self.n,
            "epsilon": self.epsilon,
            "lower": self.domain.lower,
            "upper": self.domain.upper,
            "steps": self.domain.cells if isinstance(self.domain, Cells) else None,
            "task": self.question.task,
            "at": list(self.question.at) or None,
            "shape": list(self.shape),
        }

    @property
    def guarantee(self) -> Guarantee:
        return promise_pure(
            self.epsilon,
            f"the likelihood ratio of discrete Laplace noise, {2 * len(self.shape)} counts changing by one",
        )

    def _leaves(self, n: int) -> Leaves:
        rate = find_rate(self.epsilon, 2 * len(self.shape))
        noise = IndependentLevels(levels=(GeometricNoise(rate=float(rate)),) * len(self.shape))
        return Leaves.empty(domain=self.domain, shape=self.shape, n=n, noise=noise)

    def release(self, exact_answer: ArrayLike, rng: WordSource) -> Estimate:
        """Return the answer from how many people are in each cell."""
        counts = read_integers(exact_answer, self.domain.size)
        n, rate = int(counts.sum()), find_rate(self.epsilon, 2 * len(self.shape))
        if n < 1:
            raise DataError("nobody is in any cell")
        levels = [
            (nodes + draw_discrete_laplace(rate, len(nodes), rng)).astype(np.float64)
            for nodes in aggregate(counts, self.shape)
        ]
        values = fit_leaves(levels, float(n), [1.0] * len(self.shape))[: self.domain.size]
        return self.question.answer(replace(self._leaves(n), values=values))

    @property
    def offers(self) -> CentralCapabilities:
        return CentralCapabilities()

    def variance(self) -> float:
        """Return the variance of a count of people; for quantiles that of the rank, averaged over all cells."""
        return self.question.variance(self._leaves(self.n))

    def accuracy(self, beta: float) -> float:
        """Bound how far off any count of people up to a cell is, except with probability beta."""
        return self._leaves(self.n).bound_prefixes(fraction_of_one("beta", beta))


def make(
    *,
    n: int,
    epsilon: float,
    lower: float,
    upper: float,
    steps: int | None = None,
    task: str = "quantiles",
    at: Sequence[float] | None = None,
    shape: Sequence[int] | None = None,
) -> GeometricTree:
    """Return the mechanism for integers lower .. upper, or reals in `steps` cells, for what `task` asks.

    >>> tree = make(n=10**6, lower=0, upper=4095, epsilon=1.0)
    >>> tree.shape, round(tree.variance() ** 0.5, 1)
    ((16, 16, 16), 23.0)
    """
    domain, question = read_question(lower, upper, steps, task, at)
    # The levels share epsilon: the variance of the noise grows with the square of the depth.
    chosen = choose_even_shape(domain.size, 2) if shape is None else tuple(shape)
    if math.prod(chosen) < domain.size:
        raise ParameterError("shape", shape, f"must have {domain.size} leaves")
    return GeometricTree(
        domain=domain,
        shape=chosen,
        question=question,
        epsilon=positive("epsilon", epsilon),
        n=whole("n", n, at_least=1),
    )


SPEC = MechanismSpec(
    name="geometric_tree",
    title="Geometric tree",
    tasks=TASKS,
    reference="Hay, Rastogi, Miklau, Suciu 2010",
    make=make,
    options={"n": True, "lower": True, "upper": True, "steps": False, "task": False, "at": False},
)
