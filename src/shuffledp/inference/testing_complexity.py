"""How many users a uniformity test needs: by simulation of the test itself.

The false-alarm rate is exact at every n. What n decides is how often a law at distance alpha is missed. It
is measured on the laws that are hardest to see (`alternatives`), with fresh public coins for every
run, and n is the smallest found at which the misses stay below 7/8 of the stated error: the rest is
room for chance, so that whoever counts errors again at this n finds at most the stated ones.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from shuffledp.core.errors import UnsupportedError
from shuffledp.core.protocol import HONEST
from shuffledp.core.validate import number, whole
from shuffledp.inference.alternatives import lowered
from shuffledp.inference.complexity import SampleComplexity
from shuffledp.inference.orders import uniformity_order
from shuffledp.inference.testers import make_tester
from shuffledp.inference.uniformity import check_error, check_question
from shuffledp.inference.votes import MARGIN, Vote, threshold, vote

__all__ = ["uniformity_n"]

_ROUGH_RUNS = 150
_FINE_RUNS = 2000
_ROUGH, _FINE = 1.06, 1.02  # ratios at which the two searches stop
_LARGEST = 10**12


def uniformity_n(
    *,
    k: int,
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    coin: str = "private",
    method: str | None = None,
    error: float = 1 / 3,
    honest: float = HONEST,
) -> SampleComplexity:
    """The smallest n at which `test_uniform` with these parameters keeps both errors.

    The same question always gets the same answer: the simulation is keyed by n and k.

    >>> found = uniformity_n(k=16, alpha=0.25, model="none")
    >>> found.lower < found.n <= 60, found.measured <= 1 / 3
    (True, True)
    """
    whole("k", k, at_least=2)
    lowered(k, number("alpha", alpha))
    ballot = vote(check_error(error))
    asked = check_question(
        model=model, coin=coin, method=method, epsilon=epsilon, delta=delta, honest=honest
    )
    name = asked["method"]
    order = uniformity_order(
        k=k,
        alpha=alpha,
        epsilon=asked.get("epsilon", math.inf),
        delta=asked.get("delta", 0.0),
        model=model,
        coin=coin,
        method=name,
    )
    question = _Question(k=k, alpha=alpha, ballot=ballot, asked=asked)
    most = _largest_miss(ballot, MARGIN * error)
    rough = _crossing(lambda n: question.rough(n) <= most, _start(order.value), 2.0, _ROUGH)[1]
    low, high = _crossing(lambda n: question.fine(n) <= most, rough, 1.03, _FINE)
    runs = question.fine_runs
    return SampleComplexity(
        task="test_uniform",
        model=model,
        protocol=f"{name}, {coin} coin",
        theory=order,
        n=ballot.voters * high,
        lower=ballot.voters * low,
        upper=ballot.voters * high,
        method=f"simulated, {runs} runs, standard error {math.sqrt(most * (1 - most) / runs):.2g}",
        measured=ballot.miss(question.fine(high)),
    )


class _Question:
    """How often the laws at distance alpha are missed by one group, as a function of its users."""

    def __init__(self, *, k: int, alpha: float, ballot: Vote, asked: dict[str, Any]) -> None:
        self.k, self.alpha, self.ballot, self.asked = k, alpha, ballot, asked
        self.fine_runs = max(_FINE_RUNS, 2 * ballot.runs)
        self._known: dict[int, float] = {}

    def rough(self, n: int) -> float:
        """By mean and standard deviation of a few runs, as if both laws were normal."""
        sampled = self._sampled(n, _ROUGH_RUNS)
        if sampled is None:
            return 1.0
        null, far = sampled
        limit = null.mean() + NormalDist().inv_cdf(1 - self.ballot.level) * null.std()
        return NormalDist(far.mean(), max(far.std(), 1e-9)).cdf(limit)

    def fine(self, n: int) -> float:
        """Counted."""
        if n not in self._known:
            sampled = self._sampled(n, self.fine_runs)
            if sampled is None:
                return 1.0
            null, far = sampled
            limit = threshold(null, math.floor(self.ballot.level * (len(null) + 1)))
            self._known[n] = float((far <= limit).mean())
        return self._known[n]

    def _sampled(self, n: int, runs: int) -> Any:
        try:
            tester = make_tester(n=n, k=self.k, **self.asked)
        except UnsupportedError:  # n is too small for the guarantee
            return None
        generator = np.random.default_rng([n, self.k, runs])
        return tester.null(runs, generator), tester.far(self.alpha, runs, generator)


def _largest_miss(ballot: Vote, error: float) -> float:
    """How often a group may miss if the vote is to miss with probability at most `error`."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if ballot.miss(middle) <= error else (low, middle)
    return low


def _start(value: float) -> int:
    return max(2, math.ceil(value))


def _crossing(
    enough: Callable[[int], bool], start: int, step: float, ratio: float
) -> tuple[int, int]:
    """(too few, enough), a factor `ratio` apart or neighbours: outward from start, then halving."""
    low, high = (1, start) if enough(start) else (start, 0)
    while high == 0:
        candidate = max(low + 1, math.ceil(low * step))
        if candidate > _LARGEST:
            raise UnsupportedError(f"even n={low} users are too few")
        low, high = (low, candidate) if enough(candidate) else (candidate, 0)
        step = step**1.5
    while low == 1 and high > 2:
        candidate = max(2, math.floor(high / step))
        low, high = (1, candidate) if enough(candidate) else (candidate, high)
        step = step**1.5
        if high == 2:
            break
    while high - low > 1 and high > ratio * low:
        middle = max(low + 1, min(high - 1, math.ceil(math.sqrt(low * high))))
        low, high = (low, middle) if enough(middle) else (middle, high)
    return low, high
