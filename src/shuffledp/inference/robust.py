r"""What liars can do to the answer, and an answer that a few of them cannot ruin.

Privacy survives liars: the guarantee counts on honest people only. The answer may not. A report holds at most as many messages as
the protocol lets a person send, and one message moves an estimate by at most its `influence`; so L liars move it by no
more than L times the two. For randomized response that is little more than a vote each. Where messages are shares of a secret,
one liar can turn the sum into anything.

**Median of groups.** Put the people at random into g groups, run the protocol in each, and take the median of the groups' means. L < g/2
liars spoil at most L groups, and the median lies between two honest ones, whatever the others say. No bound on
influence is needed, so it serves every protocol. Privacy is that of a group: everybody is in one. The price is noise: that of a group of
n/g people in place of one of n, divided by the square root of g by the median (up to the factor sqrt(pi/2)).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.octets import Influential
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import whole
from shuffledp.engine.memory import run
from shuffledp.inference.public_randomness import split_into_groups
from shuffledp.numerics.entropy import SecureWords

__all__ = ["MedianOfGroups", "median_of_groups", "worst_bias"]


def worst_bias(protocol: ShuffleProtocol, liars: int) -> float:
    """By how many people that many liars can move the answer, at most; all their messages may be false.

    For means and sums the unit is the width of the range; for quantiles it is a rank. For words it is about the count
    of one that is found either way and shares no row: which words are found is not bounded.

    >>> from shuffledp import protocols
    >>> round(worst_bias(protocols.rr.make_local(epsilon=1.0), 100), 1)
    216.4
    """
    count = whole("liars", liars, at_least=0)
    return math.nextafter(float(_find_reach(protocol, count)), math.inf) if count else 0.0


@runtime_checkable
class Leaping(Protocol):
    """An analyzer whose answer is not linear in the messages, but bounded in what they can do."""

    def reach(self, messages: int, n: int) -> Fraction:
        """How far this many messages can move the answer among n people."""


def _find_reach(protocol: ShuffleProtocol, liars: int) -> Fraction | float:
    """How far the reports of these liars can move the answer, at most."""
    analyzer, messages = protocol.analyzer, liars * protocol.cost.messages_max
    if isinstance(analyzer, Influential) and not math.isinf(influence := analyzer.influence):
        return messages * influence
    if isinstance(analyzer, Leaping) and protocol.users is not None:
        return analyzer.reach(messages, protocol.users)
    raise UnsupportedError(f"{protocol.name} states no influence of a message")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MedianOfGroups:
    """A median of independent estimates."""

    value: float | Floats
    """For the whole crowd: counts and sums are medians of the groups' estimates per person, times n."""
    groups: int
    tolerates: int
    """How many liars cannot move it beyond what honest groups said."""
    guarantee: Guarantee
    """Of each group, for everybody in it."""


def median_of_groups(
    make: Callable[[int], ShuffleProtocol],
    values: ArrayLike,
    *,
    groups: int,
    rng: WordSource | None = None,
) -> MedianOfGroups:
    """Run the protocol `make(people)` in each of `groups` random groups, and take the median.

    >>> from shuffledp import SeededWords, protocols
    >>> make = lambda n: protocols.zsum.make(n=n, epsilon=1.0, delta=1e-6)
    >>> found = median_of_groups(make, [1, 0] * 10_000, groups=5, rng=SeededWords(1))
    >>> found.tolerates, 9_500 < found.value < 10_500
    (2, True)
    """
    people, source = np.asarray(values), SecureWords() if rng is None else rng
    number, n = whole("groups", groups, at_least=1), len(people)
    if n < number:
        raise DataError(f"{n} people are too few for {number} groups")
    found, promised = [], []
    for members in split_into_groups(n, number, source):
        protocol = make(len(members))
        share = 1.0 if protocol.task == "mean" else n / len(members)
        found.append(share * np.asarray(run(protocol, people[members], rng=source).value))
        promised.append(protocol.guarantee)
    middle = np.median(np.array(found), axis=0)
    return MedianOfGroups(
        value=float(middle) if middle.ndim == 0 else middle,
        groups=number,
        tolerates=(number - 1) // 2,
        guarantee=max(promised, key=lambda each: (each.epsilon, each.delta)),
    )
