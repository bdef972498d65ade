"""A sum that one person moves by up to `reach`, plus discrete Laplace noise made of everybody's shares.

With all m shares the noise is discrete Laplace of rate epsilon / reach: epsilon-DP, with delta = 0. If
only h < m people draw theirs, the noise is the difference of two NB(h/m) numbers. Its law P is symmetric
and falls with |d|, so the largest shift is the worst, and for that shift

    delta = sum_d max(0, P(d) - e^epsilon P(d - reach)).

P is a mixture of e^-((rate + c) |d|), c >= 0 (numerics/noise_shares), which makes every term with d <= 0
positive, and P(d) / P(reach - d) fall with d: the positive terms are those up to one last d, and each
part is a geometric sum.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.noise_shares import Mixture, NoiseShare, mixture

__all__ = ["ideal_delta", "sampled_delta", "small_delta"]

_SLACK = 1e-11  # relative; sums of a few hundred positive terms


def ideal_delta(*, epsilon: float, reach: int, shape: Fraction) -> float:
    """At least delta of the sum with the shares of a fraction `shape` of the people.

    >>> ideal_delta(epsilon=1.0, reach=1000, shape=Fraction(1))
    0.0
    >>> [round(ideal_delta(epsilon=1.0, reach=1000, shape=Fraction(h, 100)), 4) for h in (99, 90, 50)]
    [0.0036, 0.0403, 0.3066]
    """
    positive("epsilon", epsilon)
    whole("reach", reach, at_least=1)
    if shape <= 0:
        raise ParameterError("shape", shape, "must be > 0")
    if shape >= 1:
        return 0.0
    noise = mixture(epsilon / reach, float(shape))
    E = math.exp(min(epsilon, 700.0))
    # 1 - e^epsilon e^-(decay * reach), without cancellation: rate * reach is epsilon.
    below = float((noise.positive * -np.expm1(-noise.excess * reach)).sum())
    at_zero = max(0.0, noise.mass(0) - E * noise.mass(reach))
    delta = below + at_zero + _between(noise, reach, E)
    return min(1.0, delta * (1 + _SLACK) + 1e-13)


def _between(noise: Mixture, reach: int, E: float) -> float:
    """The positive terms with 0 < d < reach."""
    last = _last(
        (reach - 1) // 2, lambda d: noise.mass(d) > E * noise.mass(reach - d)
    )  # beyond the middle P(d) is the smaller one
    if last == 0:
        return 0.0
    decay = noise.decay
    terms = noise.weight * np.expm1(-decay * last) / np.expm1(-decay)
    own = float((terms * np.exp(-decay)).sum())
    other = float((terms * np.exp(-decay * (reach - last))).sum())
    return max(0.0, own - E * other)


def _last(largest: int, holds: Callable[[int], bool]) -> int:
    """The largest d in 1 .. largest with holds(d), which turns false once; 0 if there is none."""
    low, high = 0, largest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def sampled_delta(*, epsilon: float, reach: int, share: NoiseShare, honest: int) -> float:
    """The same for the shares that `share` samples, of so many honest people.

    Their joint law is within honest * distance of the ideal one, on either side of the inequality.

    >>> share = NoiseShare(rate=Fraction(1, 1000), parts=1_000_000)
    >>> f"{sampled_delta(epsilon=1.0, reach=1000, share=share, honest=1_000_000):.1e}"
    '1.1e-11'
    """
    whole("honest", honest, at_least=1)
    if share.rate * reach > Fraction(epsilon):
        raise ParameterError("rate", float(share.rate), "must be at most epsilon / reach")
    ideal = ideal_delta(epsilon=epsilon, reach=reach, shape=Fraction(honest, share.parts))
    if epsilon > 700:
        return 1.0
    return min(1.0, ideal + (1 + math.exp(epsilon)) * honest * share.distance * (1 + 1e-12))


def small_delta(
    *, epsilon: float, reach: int, share: NoiseShare, honest: int, modulus: int
) -> float:
    """The same modulo a small modulus, from the sampled law itself: for words of a few bits.

    >>> for bits in (3, 8):
    ...     share = NoiseShare(rate=Fraction(1), parts=2, word_bits=bits)
    ...     delta = small_delta(epsilon=1.0, reach=1, share=share, honest=2, modulus=8)
    ...     f"{delta:.4f}"
    '0.2094'
    '0.0005'
    """
    one: Floats = np.zeros(modulus)
    for d, mass in share.law().items():
        one[d % modulus] += float(mass)
    total: Floats = np.zeros(modulus)
    total[0] = 1.0
    circle = np.array([np.roll(one, shift) for shift in range(modulus)])
    for _ in range(honest):
        total = total @ circle
    E = math.exp(epsilon)
    worst = max(
        float(np.maximum(total - E * np.roll(total, shift), 0.0).sum())
        for moved in range(1, reach + 1)
        for shift in (moved, -moved)
    )
    return min(1.0, worst * (1 + 1e-9) + 1e-12)
