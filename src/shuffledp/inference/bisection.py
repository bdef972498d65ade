r"""A quantile by noisy bisection: an interactive protocol of the shuffle model.

The people are put in secret random order and cut into groups. Everybody is asked one question, "is your value at most c?",
and answers by randomized response. The c of a group is the middle of what the groups before it have left of the range. So each
message is epsilon0-local by a randomizer that depends on earlier messages, and the bound for adaptive randomizers
(docs/theory/adaptive.md) covers all of them at once: one guarantee for everybody, whatever the path.

A histogram of the whole range needs no interaction, but it spends its noise on every category; here each group learns one
bit of where the quantile is. Of a range of k values, log2 k groups are enough.

With m people in a group and the answers flipped with probability f, the share at most c is estimated within
t = sqrt(ln(2 groups / beta) / (2 m)) / (1 - 2 f) in all groups, except with probability beta: Hoeffding's inequality, which
also holds for samples drawn without replacement. Then the rank of the result is within t of what was asked.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.amplify import amplify, calibrate
from shuffledp.accounting.base import bound_generator
from shuffledp.core.domain import Integers
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import HONEST
from shuffledp.core.randomizer import WordSource, randomize
from shuffledp.core.validate import fraction_of_one
from shuffledp.inference.reduction import split_into_groups
from shuffledp.numerics.entropy import SecureWords
from shuffledp.protocols.rr import RR
from shuffledp.tasks.numbers import bound_rank_error, count_halvings

_WORDS = 2  # of each person: a place in the order, and the coin of the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """A quantile, and the way to it."""

    value: int
    share: float
    """What was asked: the share of people at or below the value."""
    path: tuple[int, ...]
    """The question of each group."""
    epsilon0: float
    """The local privacy of each answer."""
    guarantee: Guarantee
    group: int
    """How many people the smallest group has."""

    def rank_error(self, beta: float) -> float:
        """Return r such that some value of rank share +- r is the result, except with probability beta.

        >>> from shuffledp import SeededWords
        >>> found = bisect_quantile(range(10_000), share=0.5, lower=0, upper=9_999, epsilon=1.0, delta=1e-6,
        ...                         rng=SeededWords(1))
        >>> 0 < found.rank_error(0.05) < 0.2
        True
        """
        fraction_of_one("beta", beta)
        return bound_rank_error(self.group, len(self.path), self.epsilon0, beta)


def bisect_quantile(
    values: ArrayLike,
    *,
    share: float,
    lower: int,
    upper: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    rng: WordSource | None = None,
) -> Bisected:
    """Find the smallest value that about this share of the people do not exceed, by one noisy yes or no from everybody.

    >>> from shuffledp import SeededWords
    >>> median = bisect_quantile(range(10_000), share=0.5, lower=0, upper=9_999, epsilon=1.0, delta=1e-6,
    ...                          rng=SeededWords(1))
    >>> 4_000 < median.value < 6_000, median.path[:2]
    (True, (4999, 7499))
    """
    fraction_of_one("share", share)
    people = Integers(lower=lower, upper=upper).codes(values) + lower
    n, stages = len(people), count_halvings(upper - lower + 1)
    if n < stages:
        raise DataError(f"{n} people are too few for {stages} questions")
    ideal = float(
        (Fraction(delta) - bound_generator(n, _WORDS, epsilon)) * (1 - Fraction(1, 2**50))
    )
    if ideal <= 0:
        raise UnsupportedError(f"delta={delta!r} is below what the generator of the words adds")
    epsilon0 = calibrate(n=n, epsilon=epsilon, delta=ideal, honest=honest)
    guarantee = amplify(n=n, epsilon0=epsilon0, delta=ideal, adaptive=True, honest=honest)
    source, device = SecureWords() if rng is None else rng, RR(epsilon0=epsilon0)
    low, high, path = lower, upper, []
    groups = split_into_groups(n, stages, source)
    for group in groups:
        middle = (low + high) // 2
        path.append(middle)
        if low == high:
            continue
        answers = randomize(device, (people[group] <= middle).astype(np.int64), source).payload
        flip = float(device.flip)
        estimate = (float(np.mean(answers)) - flip) / (1 - 2 * flip)
        low, high = (low, middle) if estimate >= share else (middle + 1, high)
    return Bisected(
        value=low,
        share=share,
        path=tuple(path),
        epsilon0=epsilon0,
        guarantee=replace(guarantee, delta=delta),
        group=min(len(group) for group in groups),
    )
