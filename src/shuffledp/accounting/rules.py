r"""The rules that every guarantee obeys: groups, several answers, the two kinds of neighbours.

They need nothing but (epsilon, delta), so they are loose: where a privacy curve is known, `compose` adds up losses
instead. Write H(E; P, Q) for the hockey-stick divergence at E = e^epsilon. All rules rest on three facts:

- post-processing: no map of the view raises H, so a guarantee is also one for whatever is computed from the view;
- a chain: H(E F; P, R) <= H(E; P, Q) + E H(F; Q, R), because (P - E F R) = (P - E Q) + E (Q - F R);
- a split: an (epsilon, delta) pair is, with probability 1 - delta, a pair whose loss is at most epsilon in size
  (docs/theory/approximate.md, step 1), and that pair is post-processed randomized response.

References: Dwork, Roth 2014, "The algorithmic foundations of differential privacy"; Dwork, Rothblum, Vadhan 2010;
Kairouz, Oh, Viswanath 2015.

**Several answers** of one curator about the same people: what each may spend.

A release that is epsilon0-DP with delta = 0 reveals no more than one bit x, kept with probability e^epsilon0 / (1 + e^epsilon0)
and flipped otherwise (Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy"): its loss is
epsilon0 or -epsilon0. The losses of several releases add up, and

    delta(epsilon) = sum over losses s of P(s) (1 - e^(epsilon - s))_+

is exact for such bits, and an upper bound for everything that they dominate. A histogram with independent noise in its
bins changes in two of them, by 1 each: two bits with half of its epsilon0, which is less than one bit with all of it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Guarantee, Neighbours
from shuffledp.core.protocol import Promise
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.numerics.rounding import float_above

_SLACK = 1 + 2.0**-48  # for a handful of operations, an exponential among them
_LARGEST_EXPONENT = 700.0


def group_privacy(guarantee: Guarantee, people: int) -> Guarantee:
    """Return what is promised to a group: (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)).

    The chain rule, k times. Of a shuffled view all k must be among its honest users.

    >>> from shuffledp import Model
    >>> alone = Guarantee(epsilon=0.5, delta=1e-8, model=Model.CENTRAL, proof="some mechanism")
    >>> group = group_privacy(alone, 3)
    >>> group.epsilon, round(group.delta * 1e8, 3)
    (1.5, 5.367)
    """
    k = whole("people", people, at_least=1)
    epsilon = guarantee.epsilon
    if k == 1:
        return guarantee
    if k * epsilon > _LARGEST_EXPONENT:
        growth = math.inf
    else:
        growth = math.expm1(k * epsilon) / math.expm1(epsilon) if epsilon else float(k)
    delta = guarantee.delta * growth * _SLACK if guarantee.delta else 0.0
    return replace(
        guarantee,
        epsilon=float_above(k * Fraction(epsilon)),
        delta=min(1.0, delta),
        proof=f"group privacy for {k} people, each protected by {guarantee.proof}",
    )


def replace_one(guarantee: Guarantee) -> Guarantee:
    """Return a guarantee about adding or removing a person, as one about replacing a person: a group of two steps.

    The converse does not hold: with replace-one neighbours the number of people is public.

    >>> from shuffledp import Model
    >>> adding = Guarantee(epsilon=1.0, delta=0.0, model=Model.CENTRAL, proof="Laplace noise",
    ...                    neighbours=Neighbours.ADD_REMOVE)
    >>> replace_one(adding).epsilon >= 2.0
    True
    """
    if guarantee.neighbours is Neighbours.REPLACE_ONE:
        return guarantee
    both = group_privacy(guarantee, 2)
    proof = f"removing one person and adding another, each protected by {guarantee.proof}"
    return replace(both, neighbours=Neighbours.REPLACE_ONE, proof=proof)


def compose_basic(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Compose several answers about the same people: epsilons and deltas add, also if answers shape later questions.

    >>> from shuffledp import Model
    >>> one = Guarantee(epsilon=0.5, delta=1e-8, model=Model.CENTRAL, proof="some mechanism")
    >>> both = compose_basic([one, one])
    >>> both.epsilon, both.delta
    (1.0, 2e-08)
    """
    if not guarantees:
        raise ParameterError("guarantees", guarantees, "must hold at least one")
    first = guarantees[0]
    for each in guarantees:
        if (each.model, each.neighbours) != (first.model, first.neighbours):
            raise ParameterError(
                "guarantees", str(each), "must be of one model and one kind of neighbours"
            )
    return replace(
        first,
        epsilon=_add(each.epsilon for each in guarantees),
        delta=min(1.0, _add(each.delta for each in guarantees)),
        honest=max(each.honest for each in guarantees),
        proof="basic composition of " + "; ".join(dict.fromkeys(each.proof for each in guarantees)),
    )


def compose_advanced(guarantee: Guarantee, *, rounds: int, slack: float) -> Guarantee:
    """Compose k rounds: (epsilon sqrt(2 k ln(1/slack)) + k epsilon tanh(epsilon/2), k delta + slack).

    By the split, each loss is in [-epsilon, epsilon] and its mean is at most that of randomized response,
    epsilon tanh(epsilon/2); by Azuma's inequality the sum is not above its mean by epsilon sqrt(2 k ln(1/slack)),
    except with probability `slack`. Questions may depend on earlier answers. Basic composition is taken where it
    gives less.

    >>> from shuffledp import Model
    >>> weekly = Guarantee(epsilon=0.1, delta=0.0, model=Model.CENTRAL, proof="some mechanism")
    >>> year = compose_advanced(weekly, rounds=100, slack=1e-6)
    >>> round(year.epsilon, 3)
    5.756
    """
    k, spare = whole("rounds", rounds, at_least=1), fraction_of_one("slack", slack)
    epsilon = guarantee.epsilon
    spread = epsilon * math.sqrt(2 * k * -math.log(spare))
    total = (spread + k * epsilon * math.tanh(epsilon / 2)) * _SLACK
    if total >= k * epsilon:
        return compose_basic([guarantee] * k)
    return replace(
        guarantee,
        epsilon=total,
        delta=min(1.0, (k * guarantee.delta + spare) * _SLACK),
        proof=f"advanced composition of {k} rounds, each by {guarantee.proof}",
    )


def _add(values: Iterable[float]) -> float:
    """Return the sum, rounded up."""
    return float_above(sum(map(Fraction, values), Fraction(0)))


_ROUNDED = 1 + 1e-9  # above the rounding of some hundred products and sums
_TRIES = 60


class Release(NamedTuple):
    """One of several answers: how many times the common epsilon it has, and whether it is a histogram."""

    weight: int
    histogram: bool


def compose_bits(epsilon0: float, releases: Iterable[Release], *, epsilon: float) -> float:
    """Bound delta at this epsilon from above, for these releases, each with its weight times epsilon0.

    >>> round(compose_bits(1.0, [Release(1, False)], epsilon=0.0), 6)  # (e - 1) / (e + 1)
    0.462117
    >>> compose_bits(0.5, [Release(1, False)] * 2, epsilon=1.0)
    0.0
    """
    law: Floats = np.ones(1)  # of the sum of the losses, in halves of epsilon0
    for weight, histogram in releases:
        step, times = (weight, 2) if histogram else (2 * weight, 1)
        kept = 1 / (1 + math.exp(-step * epsilon0 / 2))
        for _ in range(times):
            more = np.zeros(len(law) + 2 * step)
            more[: len(law)] = (1 - kept) * law
            more[2 * step :] += kept * law
            law = more
    reach = (len(law) - 1) // 2
    losses = np.arange(-reach, reach + 1) * (epsilon0 / 2)
    beyond = losses > epsilon * (1 + 1e-15)
    return float(law[beyond] @ -np.expm1(epsilon - losses[beyond])) * _ROUNDED


def share(promise: Promise, releases: Sequence[Release]) -> float:
    """Return the epsilon that a release of weight 1 may have: the others have theirs times it.

    >>> share(Promise(epsilon=1.0, delta=0.0), [Release(3, False), Release(1, True)])
    0.25
    >>> round(share(Promise(epsilon=1.0, delta=1e-6), [Release(1, True)] * 20), 4)
    0.0777
    """
    whole("questions", len(releases), at_least=1)
    low = promise.epsilon / sum(each.weight for each in releases)
    if not promise.delta or len(releases) == 1:
        return low
    high = promise.epsilon / max(each.weight for each in releases)
    for _ in range(_TRIES):
        middle = (low + high) / 2
        spent = compose_bits(middle, releases, epsilon=promise.epsilon)
        low, high = (middle, high) if spent <= promise.delta else (low, middle)
    return low
