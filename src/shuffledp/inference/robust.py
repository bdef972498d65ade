r"""What liars can do to the answer, and an answer that a few of them cannot ruin.

Privacy survives liars: the guarantee counts on honest people only. The answer may not. A report holds at most as
many messages as the protocol lets a person send, and one message moves an estimate by at most its `influence`; so L
liars move it by no more than L times the two. For randomized response that is little more than a vote each. Where
messages are shares of a secret, one liar can turn the sum into anything.

**Median of groups.** Put the people at random into g groups, run the protocol in each, and take the median of the
groups' means. L < g/2 liars spoil at most L groups, and the median lies between two honest ones, whatever the others
say. No bound on influence is needed, so it serves every protocol. The price is noise: that of a group of n/g people in
place of one of n, divided by the square root of g by the median (up to the factor sqrt(pi/2)).

**Privacy** is that of a group: everybody is in one. Its noise is made by the honest people in it, and a random group
may have fewer of them than its share: `count_honest` says how few, and with which probability, which adds to delta.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import HONEST, ShuffleProtocol, honest_users
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Task
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.engine.local import run
from shuffledp.inference.reduction import split_into_groups
from shuffledp.numerics.entropy import SecureWords
from shuffledp.numerics.rounding import find_first, float_above
from shuffledp.planner.choice import choose
from shuffledp.tasks import task_named


def worst_bias(protocol: ShuffleProtocol, liars: int) -> float:
    """Bound by how many people this many liars can move the answer; all their messages may be false.

    For means and sums the unit is the width of the range; for quantiles it is a rank. `UnsupportedError` where no
    bound is known, as for words.

    >>> from shuffledp import protocols
    >>> round(worst_bias(protocols.rr.make_local(epsilon=1.0), 100), 1)
    216.4
    """
    count = whole("liars", liars, at_least=0)
    return math.nextafter(float(_find_reach(protocol, count)), math.inf) if count else 0.0


def _find_reach(protocol: ShuffleProtocol, liars: int) -> Fraction | float:
    """Bound how far the reports of these liars can move the answer."""
    offers, messages = protocol.offers, liars * protocol.cost.messages_max
    if offers.influence is not None and not math.isinf(influence := offers.influence()):
        return messages * influence
    if offers.reach is not None and protocol.users is not None:
        return offers.reach(messages, protocol.users)
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
    """What each group promises to everybody in it, if that many of its members are honest."""


def median_of_groups(
    make: Callable[[int], ShuffleProtocol],
    values: ArrayLike,
    *,
    groups: int,
    rng: WordSource | None = None,
) -> MedianOfGroups:
    """Run the protocol `make(people)` in each of `groups` random groups, and take the median.

    What `make` assumes about honest people it assumes about each group: see `count_honest`.

    >>> from shuffledp import SeededWords, protocols
    >>> make = lambda n: protocols.zsum.make(n=n, epsilon=1.0, delta=1e-6)
    >>> median = median_of_groups(make, [1, 0] * 10_000, groups=5, rng=SeededWords(1))
    >>> median.tolerates, 9_500 < median.value < 10_500
    (2, True)
    """
    people, source = np.asarray(values), SecureWords() if rng is None else rng
    number, n = whole("groups", groups, at_least=1), len(people)
    if n < number:
        raise DataError(f"{n} people are too few for {number} groups")
    answers, promised = [], []
    for members in split_into_groups(n, number, source):
        protocol = make(len(members))
        share = 1.0 if task_named(protocol.task).average else n / len(members)
        answers.append(share * np.asarray(run(protocol, people[members], rng=source).value))
        promised.append(protocol.guarantee)
    middle = np.median(np.array(answers), axis=0)
    return MedianOfGroups(
        value=float(middle) if middle.ndim == 0 else middle,
        groups=number,
        tolerates=(number - 1) // 2,
        guarantee=replace(
            max(promised, key=lambda each: each.epsilon),
            delta=max(each.delta for each in promised),
            honest=max(each.honest for each in promised),
        ),
    )


def ask_groups(
    task: Task,
    values: ArrayLike,
    *,
    groups: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    rng: WordSource | None = None,
) -> MedianOfGroups:
    """Answer a question by `median_of_groups`, with the best protocol for each group.

    The guarantee is what everybody is promised if that share of all people is `honest`. Half of delta is for groups with
    fewer honest people than their protocol counts on; none of it if everybody is honest.

    >>> from shuffledp import Bits, SeededWords, tasks
    >>> count = tasks.Count(domain=Bits())
    >>> median = ask_groups(count, [1, 0] * 2_000, groups=5, epsilon=1.0, delta=1e-6, rng=SeededWords(1))
    >>> median.guarantee.honest, median.guarantee.delta <= 1e-6, 1_800 < median.value < 2_200
    (3600, True, True)
    """
    if delta == 0 and honest < 1:
        raise ParameterError(
            "delta", delta, "must be > 0: a random group may have hardly any honest members"
        )
    n, chance = len(np.asarray(values)), 0.0 if honest == 1 else delta / 2
    all_honest = honest_users(n, honest)

    def make(people: int) -> ShuffleProtocol:
        share = 1.0
        if chance:
            share = count_honest(people, n, honest=all_honest, chance=chance) / people
        made = choose(task, n=people, epsilon=epsilon, delta=delta - chance, honest=share)
        assert isinstance(made, ShuffleProtocol)
        return made

    median = median_of_groups(make, values, groups=groups, rng=rng)
    if not chance:
        return replace(median, guarantee=replace(median.guarantee, honest=n))
    promised = protect_members(median.guarantee, n=n, honest=all_honest, chance=chance)
    return replace(median, guarantee=promised)


def count_honest(people: int, n: int, *, honest: int, chance: float) -> int:
    """Bound from below how many people in a random group are honest, except with probability `chance`.

    The group has `people` of n, of whom `honest` are honest; one of these, whose privacy is at stake, is in the group
    and counted. The others are drawn without replacement, and by Hoeffding 1963 (Theorem 4) Chernoff's bound holds as
    if they were drawn with: Pr[X <= c] <= exp(-k D(c/k, p)) for k others, D the relative entropy of two coins.

    >>> count_honest(111, 1_000, honest=900, chance=5e-7)
    80
    >>> count_honest(111, 1_000, honest=1_000, chance=5e-7)
    111
    """
    size = whole("people", people, at_least=1, at_most=whole("n", n, at_least=1))
    others, good = size - 1, whole("honest", honest, at_least=1, at_most=n) - 1
    needed = -math.log(fraction_of_one("chance", chance)) * (1 + 1e-9)
    if good == n - 1 or others == 0:
        return size
    share = good / (n - 1)

    def is_likely(few: int) -> bool:
        return others * _find_entropy(few / others, share) < needed

    return 1 + find_first(is_likely, -1, math.floor(others * share) + 1)


def protect_members(group: Guarantee, *, n: int, honest: int, chance: float) -> Guarantee:
    """Bound what a group's guarantee is worth to one of n people who are put into groups at random.

    `honest` of the n are honest, and `chance` is that of a group with fewer than its guarantee counts on.

    >>> from shuffledp import protocols
    >>> few = count_honest(1_111, 10_000, honest=9_000, chance=5e-7)
    >>> group = protocols.zsum.make(n=1_111, epsilon=1.0, delta=5e-7, honest=few / 1_111).guarantee
    >>> found = protect_members(group, n=10_000, honest=9_000, chance=5e-7)
    >>> found.honest, found.epsilon == group.epsilon, group.delta + 5e-7 <= found.delta <= 1e-6
    (9000, True, True)
    """
    whole("honest", honest, at_least=1, at_most=whole("n", n, at_least=1))
    total = Fraction(group.delta) + Fraction(fraction_of_one("chance", chance))
    return replace(
        group,
        delta=min(1.0, float_above(total)),
        honest=honest,
        proof=f"{group.proof}; with {_name_people(group.honest)} in a group by Hoeffding 1963",
    )


def _name_people(honest: int) -> str:
    return "1 honest person" if honest == 1 else f"{honest:,} honest people"


def _find_entropy(a: float, p: float) -> float:
    """Return the relative entropy of a coin of chance a to one of chance p."""
    first = a * math.log(a / p) if a > 0 else 0.0
    return first + (1 - a) * math.log((1 - a) / (1 - p)) if a < 1 else first
