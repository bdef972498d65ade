"""The rule of zsum's analyzer: a count is only believed if there are more messages than users.

S users mean it, n users add n - N noise messages, N ~ Bin(n, gamma), so |y| = S + n - N. The answer is
|y| - n (1 - gamma) = S - (N - n gamma) if |y| > n (that is, N < S), and 0 otherwise.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.numerics.intervals import BinomialSum

__all__ = ["Moments", "answers", "moments"]


class Moments(NamedTuple):
    """Mean and variance of the error of each answer."""

    bias: Floats
    variance: Floats


def answers(counts: Counts, n: int, gamma: Fraction) -> Floats:
    """The answers for so many messages.

    >>> answers(np.array([100, 101]), 100, Fraction(1, 4))
    array([ 0., 26.])
    """
    believed: Floats = (counts - n) + np.float64(n * gamma)
    return np.where(counts > n, believed, 0.0)


def moments(counts: Counts, n: int, gamma: Fraction) -> Moments:
    """Bias and variance of the answers to these true counts, from the law of N.

    The error is n gamma - N if N < S, and -S otherwise.

    >>> moments(np.array([0, 1000]), 1000, Fraction(1, 4))
    Moments(bias=array([0., 0.]), variance=array([  0. , 187.5]))
    """
    noise = BinomialSum(parts=((n, gamma),))
    window = noise.window()
    centred = window.first + np.arange(len(window.masses)) - float(noise.centre)
    first, second = _below(window.masses * centred), _below(window.masses * centred**2)
    # Pr[N >= S], summed from the far end: where it is small it keeps its digits.
    cut = np.append(np.cumsum(window.masses[::-1])[::-1], 0.0)
    S = counts.astype(np.float64)
    place = np.clip(counts - window.first, 0, len(window.masses))
    bias = -first[place] - S * cut[place]
    variance = second[place] + S**2 * cut[place] - bias**2
    surely = place == len(window.masses)
    return Moments(
        np.where(surely, 0.0, bias + 0.0), np.where(surely, noise.variance, variance.clip(0))
    )


def _below(terms: Floats) -> Floats:
    """Sums of the terms before each place, and of all."""
    return np.concatenate([[0.0], np.cumsum(terms)])
