r"""No local protocol can do better: certified lower bounds on the error of counts, sums and means.

**Whom it is about.** Every protocol without a shuffler in which each of n people is promised pure epsilon-local privacy
for everything they ever send: one message or a conversation, in any order, with public coins, with randomizers that
depend on what others said. Approximate local protocols (delta > 0) are not covered. What is bounded is the largest
root mean squared error over all data sets.

**Randomized response is enough.** Let f = 1 / (e^epsilon + 1). The probability of a transcript t is a product of one
factor of each person, g_1(t, x_1) ... g_n(t, x_n), and privacy says g_i(t, 1) <= e^epsilon g_i(t, 0) and vice versa.
So k_i(t, b) = ((1 - f) g_i(t, b) - f g_i(t, 1 - b)) / (1 - 2 f) is not negative, and the product of the k_i(t, b_i) is
a law of transcripts: it sums to 1 for every b, as it does for every x, because the weights of g_i sum to 1. Draw t from
it after flipping each x_i with probability f, and t has its own law. Whatever a local protocol learns can therefore be
computed from one randomized response of everybody (Kairouz, Oh, Viswanath 2016 for one message).

**A prior.** No estimator's largest error is below its average one. Draw theta from some law, then every bit with
probability theta. The responses are independent bits of probability q = f + theta (1 - 2 f), their number K is
sufficient, and the count S has, given K and theta, the mean K r_1 + (n - K) r_0 and the variance
K r_1 (1 - r_1) + (n - K) r_0 (1 - r_0) with r_1 = theta (1 - f) / q and r_0 = theta f / (1 - q).

* theta with the density 2 sin^2(pi theta), whose Fisher information is J = 4 pi^2. Van Trees' inequality for
  E[S | K, theta] and the mean of Var(S | K, theta) add up to

      MSE >= s^2 - n F^2 A / D * J / (n D A + J),   F = f (1 - f), D = (1 - 2 f)^2, s^2 = n F / D,

  where A is the mean of 1 / (q (1 - q)) and s the error of randomized response. The bound is within the factor
  1 - (2 pi s / n)^2 of s^2, for every n and epsilon.
* theta on a few points: the average error of the best estimator is a sum over K. It is used where s is not far below n,
  and the points are chosen so that the bound is large (any choice is valid). The sum is the smallest value of a
  linear function of the joint masses with coefficients that are not negative, so masses that are
  rounded down, and values of K that are left out, only lower it.

**Sums and means.** With values in [lower, upper] a protocol must also serve people who have one of the two ends: the
bound of the count, times upper - lower. For means it is divided by n.

Proofs in docs/theory/lower-bounds.md.
"""

import math
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import number, positive, whole
from shuffledp.numerics.masses import FAR_ERROR, binomial_masses
from shuffledp.tasks import task_named

_CELLS = 2_000
_LARGEST_EPSILON = 600.0
"""Beyond, randomized response errs by less than the smallest float: nothing is claimed."""
_SLACK = 1e-11
"""More than the rounding errors of the closed form, relative to s^2."""
_CLOSE = 24.0
"""n over s up to which the second prior is tried: beyond, the first is within four percent."""
_LARGEST_N = 10**9
"""People up to whom binomial masses are summed."""
_MASS_SLACK = 4 * FAR_ERROR
"""More than the errors of masses, means and variances together, relative to the sum.

Means of the count are off by at most n 10^-14, which changes their squared distances by n^2 10^-13, and the sum is
n^2 / 600 or more.
"""
_FAR = 9.0  # standard deviations of K that are summed
_MOST_TERMS = 1 << 22
_GRID = 31  # places of theta
_BINS = 120  # of K, while the prior is chosen
_ROUNDS = 300
_LEAST_WEIGHT = 1e-4
BOUNDED = ("count", "sum", "mean")
"""The tasks whose error is bounded."""


def local_lower_bound(
    task: str = "count", *, n: int, epsilon: float, lower: float = 0.0, upper: float = 1.0
) -> float:
    """Bound the worst-case root mean squared error of every epsilon-local protocol from below.

    `task` is "count", "sum" or "mean"; a sum or mean is of n numbers in [lower, upper]. Interactive protocols are
    included, approximate ones are not.

    >>> round(local_lower_bound("count", n=2_000, epsilon=1.0), 2)  # randomized response: 42.91
    42.53
    >>> round(local_lower_bound("mean", n=2_000, epsilon=1.0, upper=10.0), 4)
    0.2126
    """
    if task not in BOUNDED:
        raise ParameterError("task", task, f"must be one of {', '.join(BOUNDED)}")
    people = whole("n", n, at_least=1)
    width = number("upper", upper) - number("lower", lower)
    if not width > 0:
        raise ParameterError("upper", upper, f"must be > lower = {lower}")
    asked = task_named(task)
    if not asked.adds and (lower, upper) != (0, 1):
        raise ParameterError("upper", upper, "is for sums and means")
    count = math.sqrt(_bound_count(people, positive("epsilon", epsilon))) * (1 - 1e-15)
    scale = width / asked.scale(people)
    return math.nextafter(math.nextafter(count * scale, 0.0), 0.0)


@lru_cache(maxsize=256)
def _bound_count(n: int, epsilon: float) -> float:
    """Bound the smallest worst-case mean squared error of a count from below."""
    if epsilon > _LARGEST_EPSILON:
        return 0.0
    ratio = 0.25 / math.sinh(epsilon / 2) ** 2  # F / D = e^epsilon / (e^epsilon - 1)^2
    smooth = _bound_by_information(n, epsilon, ratio)
    if n > _CLOSE * math.sqrt(n * ratio) or n > _LARGEST_N:
        return smooth
    return max(smooth, _bound_by_points(n, epsilon))


def _bound_by_information(n: int, epsilon: float, ratio: float) -> float:
    """Apply van Trees' inequality with the density 2 sin^2(pi theta)."""
    largest = _average_inverse(epsilon)
    flip = 1 / (math.exp(epsilon) + 1)
    F, D, J = flip * (1 - flip), math.tanh(epsilon / 2) ** 2, 4 * math.pi**2
    lost = n * F * ratio * largest * J / (n * D * largest + J)
    return max(0.0, n * ratio * (1 - _SLACK) - lost * (1 + _SLACK))


def _average_inverse(epsilon: float) -> float:
    """Bound from above the mean A of 1 / (q (1 - q)), which falls on [0, 1/2]: each cell by its left end.

    `lost` above grows with A, so an upper bound is on the safe side.
    """
    flip = 1 / (math.exp(epsilon) + 1)
    ends = np.arange(_CELLS + 1) / (2 * _CELLS)
    # Pr[theta <= x] = x - sin(2 pi x) / (2 pi); near 0 the first term of its series, which is more: that moves mass
    # to the left, where the values are larger.
    turn = 2 * math.pi * ends
    below = np.where(turn < 0.2, turn**3 / 6, turn - np.sin(turn)) / (2 * math.pi)
    masses = np.diff(below)
    left = ends[:-1]
    value = flip * (1 - flip) + left * (1 - left) * math.tanh(epsilon / 2) ** 2
    return 2 * float((masses / value).sum()) * (1 + 1e-12)


def _bound_by_points(n: int, epsilon: float) -> float:
    """Return the average squared error of the best estimator, theta being on a few points."""
    flip = 1 / (math.exp(epsilon) + 1)
    theta = np.linspace(0.0, 1.0, _GRID)
    q = flip + theta * math.tanh(epsilon / 2)
    weights = _choose_weights(n, flip, theta, q)
    kept = weights > _LEAST_WEIGHT
    theta, q, weights = theta[kept], q[kept], weights[kept] / weights[kept].sum()
    reach = _FAR * math.sqrt(n / 4) + _FAR
    first, last = max(0, math.floor(n * q[0] - reach)), min(n, math.ceil(n * q[-1] + reach))
    K = np.arange(first, last + 1, dtype=np.float64)
    if len(K) * len(theta) > _MOST_TERMS:
        return 0.0
    joint = np.array([w * binomial_masses(K, n, float(p)) for w, p in zip(weights, q, strict=True)])
    mean, variance = _describe_count(K, n, flip, theta[:, None])
    total = joint.sum(axis=0)
    likely = total > 1e-250  # others add nothing
    joint, mean, variance, total = (
        joint[:, likely],
        mean[:, likely],
        variance[:, likely],
        total[likely],
    )
    best = (joint * mean).sum(axis=0) / total
    # About a mean that is off by x the squares are too large by x^2: here by (n 10^-14)^2, which the slack covers.
    return float((joint * (variance + np.square(mean - best))).sum()) * (1 - _MASS_SLACK)


def _describe_count(K: Floats, n: int, flip: float, theta: Floats) -> tuple[Floats, Floats]:
    """Compute the mean and variance of the count, given the number of ones reported and theta."""
    q = flip + theta * (1 - 2 * flip)
    one, zero = theta * (1 - flip) / q, theta * flip / (1 - q)
    mean: Floats = K * one + (n - K) * zero
    variance: Floats = K * one * (1 - one) + (n - K) * zero * (1 - zero)
    return mean, variance


def _choose_weights(n: int, flip: float, theta: Floats, q: Floats) -> Floats:
    """Find nearly the prior for which the best estimator errs most: points where it errs more get more weight.

    K is put into bins by normal laws. Nothing here needs to be exact.
    """
    sd = np.sqrt(n * q * (1 - q))
    edges = np.linspace(n * q[0] - 5 * sd[0], n * q[-1] + 5 * sd[-1], _BINS + 1)
    below = _normal_cdf((edges[None, :] - n * q[:, None]) / sd[:, None])
    law = np.diff(below, axis=1) + 1e-12
    law /= law.sum(axis=1, keepdims=True)
    middle = (edges[1:] + edges[:-1]) / 2
    mean, variance = _describe_count(middle, n, flip, theta[:, None])
    weights = np.sin(math.pi * (np.arange(_GRID) + 0.5) / _GRID) ** 2
    weights /= weights.sum()
    best, value = weights, 0.0
    for _ in range(_ROUNDS):
        joint = weights[:, None] * law
        guess = (joint * mean).sum(axis=0) / joint.sum(axis=0)
        errors = (law * (variance + np.square(mean - guess))).sum(axis=1)
        average = float(weights @ errors)
        if average > value:
            best, value = weights, average
        weights = weights * np.exp(4 * (errors - average) / float(errors.max()))
        weights = (weights + weights[::-1]) / 2
        weights /= weights.sum()
    return best


def _normal_cdf(x: Floats) -> Floats:
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.ravel()]).reshape(x.shape)
