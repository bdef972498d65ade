r"""How far the people who were asked may be from all: a sample that was drawn without replacement.

m of n people were asked. A truth about all is refused if samples at least as far from it have a probability of at most
`tail`. What is not refused covers except with that probability on either side, for any n and any data.

*Shares.* If K of the n hold something, a sample has X ~ Hypergeometric(n, K, m) of them, and Pr[X <= x] falls with K:
K is refused if that is at most the tail, as Clopper and Pearson do for the binomial law. The terms of the tail fall
faster and faster, so what is left after some of them is at most a geometric series. Rounding is bounded and added.

*Means* of values in [0, 1]. Pr[mean <= s] <= exp(-m KL(s || mu)) for s <= mu, without replacement, too (Hoeffding 1963,
Theorems 1 and 4), and Pr[mean <= mu - t] <= exp(-2 m t^2 / (1 - (m - 1) / n)) (Serfling 1974). Given mu, each refuses
all s up to some point, so both together refuse no more than the one with the further point does: the better bound may
be taken. Shares of more than 10^7 people are bounded in this way, too.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.numerics.rounding import UNIT

Ends = tuple[float, float] | None
"""Of the values of a mean; None: it is a share."""

_MOST = 10**7  # people whose shares have exact tails, which take time in proportion to its root
_BLOCK = 256  # terms of a tail at a time
_LEFT = 1e-7  # of a tail: what its other terms may add to it
_HALVINGS = 60  # of an interval of means
_FEW_HALVINGS = 12  # of an interval of counts that is hardly too wide
_WHOLE = 1e-6  # by which a whole number may be off


def sampling_variance(value: ArrayLike, sampled: int, people: int, ends: Ends = None) -> Floats:
    """Return how far the share or mean of a sample varies: at most, if it is a mean.

    >>> round(float(sampling_variance(0.5, 100, 1000)), 6)
    0.00225
    """
    left = max(0.0, 1 - sampled / people) / sampled
    share = np.clip(np.asarray(value, dtype=np.float64), 0.0, 1.0)
    spread = (
        share * (1 - share) if ends is None else np.full_like(share, (ends[1] - ends[0]) ** 2 / 4)
    )
    found: Floats = spread * left
    return found


def bound_sampling(
    low: ArrayLike, high: ArrayLike, sampled: int, people: int, outside: float, ends: Ends = None
) -> tuple[Floats, Floats]:
    """Where the share or mean of all is, except with probability `outside`, if that of a sample is in low .. high.

    Where nobody of 100 has something, up to 34 of 1000 may have it:

    >>> [round(float(end), 3) for end in bound_sampling(0.0, 0.0, 100, 1000, 0.05)]
    [0.0, 0.034]
    >>> [round(float(end), 3) for end in bound_sampling(0.4, 0.6, 100, 1000, 0.05)]
    [0.308, 0.692]
    """
    lower, upper = ends or (0.0, 1.0)
    reach = upper - lower
    first, last = ((np.asarray(end, dtype=np.float64) - lower) / reach for end in (low, high))
    if ends is None:
        first, last = _round_counts(first, last, sampled)
    else:
        first, last = (np.clip(end, 0.0, 1.0) for end in (first - 4 * UNIT, last + 4 * UNIT))
    find = _bound_share if ends is None and people <= _MOST else _bound_mean
    least = 1 - find(1 - first, sampled, people, outside / 2)
    most = find(last, sampled, people, outside / 2)
    # Outwards by more than the roundings of these lines and of multiplying by the people.
    least, most = least - 4 * UNIT, most + 4 * UNIT
    return (
        np.where(least > 0, lower + reach * least, lower),
        np.where(most < 1, lower + reach * most, upper),
    )


def bound_population(low: Floats, high: Floats, sampled: int, tail: float) -> tuple[Floats, Floats]:
    """Ends of the share in the population of which `sampled` people are a random sample, low to high of whom said yes.

    Clopper and Pearson 1934: exact tails of the binomial law, `tail` on either side. A sample that was drawn without
    replacement has smaller tails (Hoeffding 1963, theorem 4).

    >>> [round(float(end[0]), 3) for end in bound_population(np.array([0.0]), np.array([5.0]), 100, 0.025)]
    [0.0, 0.113]
    """
    from scipy.special import betaincinv

    few, many = np.clip(np.ceil(low), 0, sampled), np.clip(np.floor(high), 0, sampled)
    below = np.where(few > 0, betaincinv(np.maximum(few, 1), sampled - few + 1, tail), 0.0)
    above = np.where(
        many < sampled, betaincinv(many + 1, np.maximum(sampled - many, 1), 1 - tail), 1.0
    )
    return np.maximum(below * (1 - 1e-9), 0.0), np.minimum(above * (1 + 1e-9), 1.0)


def _round_counts(low: Floats, high: Floats, sampled: int) -> tuple[Floats, Floats]:
    """People are whole: the shares of the first and the last count between two shares of a sample."""
    first = np.ceil(np.clip(low, 0.0, 1.0) * sampled - _WHOLE)
    last = np.floor(np.clip(high, 0.0, 1.0) * sampled + _WHOLE)
    return np.minimum(first, last) / sampled, np.maximum(first, last) / sampled


def _bound_mean(mean: Floats, sampled: int, people: int, tail: float) -> Floats:
    """From where on the mean of all is refused if that of a sample is at most this; all values are in [0, 1]."""
    if sampled >= people:
        return mean
    needed = -math.log(tail) / sampled
    kept, refused = mean, np.ones_like(mean)
    for _ in range(_HALVINGS):
        middle = (kept + refused) / 2
        over = _diverge(mean, middle) >= needed
        kept, refused = np.where(over, kept, middle), np.where(over, middle, refused)
    serfling = math.sqrt((1 - (sampled - 1) / people) * needed / 2)
    found: Floats = np.minimum(refused, mean + serfling * (1 + 8 * UNIT))
    return found


def _diverge(s: Floats, p: Floats) -> Floats:
    """KL(s || p), or a little less, for s <= p."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(s > 0, s * np.log(s / p), 0.0)
        others = np.where(s < 1, (1 - s) * np.log((1 - s) / (1 - p)), 0.0)
        found: Floats = ones + others - 16 * UNIT * (1 + others)
    return found


def _bound_share(share: Floats, sampled: int, people: int, tail: float) -> Floats:
    """Return the largest share of all that is not refused if a sample has at most this one."""
    x, back = np.unique(np.rint(share * sampled), return_inverse=True)
    bound = _bound_mean(x / sampled, sampled, people, tail)
    kept = np.floor(x * (people / sampled) * (1 - 4 * UNIT))  # with a median of at most x
    refused = np.minimum(np.ceil(people * bound) + 1, people - sampled + x + 1)
    for _ in range(_FEW_HALVINGS):
        middle = np.floor((kept + refused) / 2)
        over = _sum_tail(x, middle, sampled, people) <= tail
        kept, refused = np.where(over, kept, middle), np.where(over, middle, refused)
    found: Floats = ((refused - 1) / people)[back].reshape(np.shape(share))
    return found


def _sum_tail(x: Floats, holders: Floats, sampled: int, people: int) -> Floats:
    """Pr[X <= x], or a little more, X the number of holders in a sample.

    >>> _sum_tail(np.array([1.0]), np.array([3.0]), 2, 5).round(6)
    array([0.7])
    """
    from scipy.special import gammaln

    def choose(n: ArrayLike, k: ArrayLike) -> Floats:
        found: Floats = (
            gammaln(np.add(n, 1)) - gammaln(np.add(k, 1)) - gammaln(np.subtract(n, k) + 1)
        )
        return found

    others = people - holders
    size = choose(holders, x) + choose(others, sampled - x) - choose(people, sampled)
    error = 128 * UNIT * (1 + float(gammaln(people + 1)))  # of nine logarithms, none larger
    total, term, left = np.ones_like(x), np.ones_like(x), np.full_like(x, np.inf)
    start = 0
    while (left > _LEFT * total).any():
        k = x[:, None] - np.arange(start, start + _BLOCK)
        down = np.maximum(k, 0) * np.maximum(others[:, None] - sampled + k, 0)
        ratios = down / ((holders[:, None] - k + 1) * (sampled - k + 1))
        terms = term[:, None] * np.cumprod(ratios, axis=1)
        total, term, ratio = total + terms.sum(axis=1), terms[:, -1], ratios[:, -1]
        left = np.where(ratio < 1, term * ratio / np.maximum(1 - ratio, UNIT), np.inf)
        start += _BLOCK
    found: Floats = np.exp(size + error) * (total + left) * (1 + _LEFT)
    return found
