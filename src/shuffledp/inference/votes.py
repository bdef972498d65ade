"""From a thousand simulated crowds to any stated error: one test, or the majority of several.

A Monte-Carlo test with N simulations cannot have a p-value below 1 / (N + 1). So a very small error is
reached by a vote: an odd number of independent groups of users, each tested at a moderate level. If at
most `level` of the groups reject falsely, more than half of m groups do so with probability at most
Pr[Bin(m, level) > m / 2], which falls exponentially in m; likewise for missing a law that is far.
"""

import math
from dataclasses import dataclass

import numpy as np

from shuffledp.core.arrays import Floats

__all__ = ["MARGIN", "Vote", "binomial_tail", "monte_carlo_p", "threshold", "vote"]

MARGIN = 7 / 8
"""Both kinds of error are planned at this share of the stated one, so that counted frequencies keep it, too."""
_LEAST_LEVEL = 1e-3
_FEWEST_RUNS = 999
_RUNS_PER_LEVEL = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """m groups; each rejects if its Monte-Carlo p-value of `runs` simulations is at most `level`.

    >>> once = vote(1 / 3)
    >>> once.voters, once.runs, round(once.level, 4)
    (1, 999, 0.291)
    """

    voters: int
    runs: int
    level: float
    """Exact: Pr[p-value <= level] <= level, a multiple of 1 / (runs + 1)."""
    total: float
    """The level of the whole test."""

    @property
    def rank(self) -> int:
        """A group rejects if its statistic is above the rank-th largest simulated one."""
        return round(self.level * (self.runs + 1))

    def p_value(self, rejections: int) -> float:
        """How likely so many of the groups, or more, reject if all values are uniform."""
        return binomial_tail(self.voters, self.level, rejections)

    def miss(self, miss: float) -> float:
        """How likely the vote accepts if each group accepts with probability `miss`."""
        needed = self.needed
        return 1 - binomial_tail(self.voters, 1 - miss, needed)

    @property
    def needed(self) -> int:
        """How many groups must reject."""
        counts = range(1, self.voters + 1)
        return next(count for count in counts if self.p_value(count) <= self.total)


def vote(error: float) -> Vote:
    """The fewest groups whose levels are not below one in a thousand.

    >>> vote(1e-6).voters, vote(1e-6).needed, vote(1e-6).p_value(3) <= 1e-6
    (5, 3, True)
    """
    total = MARGIN * error
    voters, level = 1, total
    while level < _LEAST_LEVEL:
        voters += 2
        level = _largest_level(voters, total)
    runs = max(_FEWEST_RUNS, math.ceil(_RUNS_PER_LEVEL / level))
    rank = math.floor(level * (runs + 1))
    return Vote(voters=voters, runs=runs, level=rank / (runs + 1), total=total)


def _largest_level(voters: int, total: float) -> float:
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        if binomial_tail(voters, middle, (voters + 1) // 2) <= total:
            low = middle
        else:
            high = middle
    return low


def binomial_tail(n: int, p: float, at_least: int) -> float:
    """Pr[Bin(n, p) >= at_least].

    >>> binomial_tail(3, 0.5, 2)
    0.5
    """
    terms = (math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(at_least, n + 1))
    return min(1.0, math.fsum(terms))


def monte_carlo_p(observed: float, simulated: Floats) -> float:
    """(1 + the number simulated that are at least as large) / (1 + all of them).

    If nothing is to be seen the observed statistic and the simulated ones are exchangeable, so the
    probability of a value of at most c is at most c, for any number of simulations and any law.

    >>> monte_carlo_p(3.0, np.array([1.0, 3.0, 5.0]))
    0.75
    """
    return (1 + int(np.count_nonzero(simulated >= observed))) / (1 + len(simulated))


def threshold(simulated: Floats, rank: int) -> float:
    """The rank-th largest: the Monte-Carlo p-value is at most rank / (runs + 1) exactly above it.

    >>> threshold(np.array([1.0, 3.0, 5.0]), 1)
    5.0
    """
    return float(np.partition(simulated, -rank)[-rank])
