"""The laws of errors: standard deviations, tails, and the intervals that follow from them.

`binomial` has binomial noise and counts seen through binomials, `laplace` discrete Laplace noise and sums
of its shares, `lattice` whole-number noise of which only mean, deviation and skewness are known.
"""

from shuffledp.numerics.intervals.binomial import (
    BinomialError,
    BinomialLaw,
    BinomialSum,
    NoiseError,
    NoiseWindow,
    TwoBinomialsError,
    two_binomials_tails,
)
from shuffledp.numerics.intervals.laplace import (
    Difference,
    DifferenceError,
    DiscreteLaplace,
    DiscreteLaplaceError,
    SharedNoise,
    SharedNoiseError,
)
from shuffledp.numerics.intervals.lattice import LatticeError

__all__ = [
    "BinomialError",
    "BinomialLaw",
    "BinomialSum",
    "Difference",
    "DifferenceError",
    "DiscreteLaplace",
    "DiscreteLaplaceError",
    "LatticeError",
    "NoiseError",
    "NoiseWindow",
    "SharedNoise",
    "SharedNoiseError",
    "TwoBinomialsError",
    "two_binomials_tails",
]
