"""How good can a private count be at all: the least expected loss of any epsilon-private mechanism, for small n.

A mechanism that answers counts 0 .. n by one of 0 .. n is a stochastic matrix, and epsilon-privacy of neighbouring
counts is linear in it. So the least mean loss, for whoever has a prior belief about the count, is a linear program.
The two-sided geometric mechanism, cut to 0 .. n and then read by each user as suits the own belief and loss,
attains it, whatever the belief is, and for every loss that grows with the error.

Reference: Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms".
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import positive

__all__ = ["geometric_loss", "least_loss"]

Loss = Callable[[int, int], float]
"""Of an answer, if the count is something else: loss(count, answer)."""

_LARGEST = 30  # n: the program has (n + 1)^2 unknowns
_SUMS_TO_ONE = 1e-9


def least_loss(*, epsilon: float, prior: Sequence[float], loss: Loss) -> float:
    """Return the least mean loss of any epsilon-private answer to a count 0 .. n, for this prior over the count.

    >>> round(least_loss(epsilon=1.0, prior=[0.25] * 4, loss=lambda count, answer: abs(count - answer)), 6)
    0.520549
    """
    size, wanted = _check(prior), _weigh(prior, loss)
    E = math.exp(positive("epsilon", epsilon))
    limits = []
    for count in range(size - 1):
        for one, other in ((count, count + 1), (count + 1, count)):
            for answer in range(size):
                limit = np.zeros((size, size))
                limit[one, answer], limit[other, answer] = 1.0, -E
                limits.append(limit.ravel())
    from scipy.optimize import linprog

    found = linprog(
        wanted.ravel(),
        A_ub=np.array(limits),
        b_ub=np.zeros(len(limits)),
        A_eq=np.kron(np.eye(size), np.ones(size)),
        b_eq=np.ones(size),
    )
    assert found.fun is not None  # answering at random is always allowed
    return float(found.fun)


def geometric_loss(*, epsilon: float, prior: Sequence[float], loss: Loss) -> float:
    """Return the mean loss of the geometric mechanism, cut to 0 .. n, for a user who makes the best of what it says.

    >>> round(geometric_loss(epsilon=1.0, prior=[0.25] * 4, loss=lambda count, answer: abs(count - answer)), 6)
    0.520549
    """
    size, wanted = _check(prior), _weigh(prior, loss)
    q = math.exp(-positive("epsilon", epsilon))
    said = np.arange(size)
    law = q ** np.abs(said[:, None] - said)  # [count, said]
    ends = (said == 0) | (said == size - 1)
    law = law * np.where(ends, 1 / (1 + q), (1 - q) / (1 + q))
    return float((law.T @ wanted).min(axis=1).sum())


def _check(prior: Sequence[float]) -> int:
    total = math.fsum(prior)
    if not 2 <= len(prior) <= _LARGEST + 1:
        raise ParameterError("prior", len(prior), f"must have 2 to {_LARGEST + 1} numbers")
    if min(prior) < 0 or abs(total - 1) > _SUMS_TO_ONE:
        raise ParameterError("prior", total, "must be >= 0 and sum to 1")
    return len(prior)


def _weigh(prior: Sequence[float], loss: Loss) -> Floats:
    size = len(prior)
    return np.array(
        [[prior[count] * loss(count, answer) for answer in range(size)] for count in range(size)]
    )
