"""The laws of errors: standard deviations, tails, and the intervals that follow from them.

`binomial` has binomial noise, `counts` counts seen through binomials, `laplace` discrete Laplace noise and sums
of its shares, `bounded` answers whose law depends on more than the truth.
"""

from typing import TYPE_CHECKING

from shuffledp.core import load_later

if TYPE_CHECKING:
    from shuffledp.numerics.intervals.binomial import (
        BinomialError,
        BinomialLaw,
        BinomialSum,
        NoiseError,
        NoiseWindow,
    )
    from shuffledp.numerics.intervals.counts import (
        BoundedError,
        OneBitError,
        SupportLaw,
        TwoBinomialsError,
    )
    from shuffledp.numerics.intervals.laplace import (
        Difference,
        DifferenceError,
        DiscreteLaplace,
        DiscreteLaplaceError,
        SharedNoise,
        SharedNoiseError,
    )

__all__ = [
    "BinomialError",
    "BinomialLaw",
    "BinomialSum",
    "BoundedError",
    "Difference",
    "DifferenceError",
    "DiscreteLaplace",
    "DiscreteLaplaceError",
    "NoiseError",
    "NoiseWindow",
    "OneBitError",
    "SharedNoise",
    "SharedNoiseError",
    "SupportLaw",
    "TwoBinomialsError",
]

if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "binomial": "BinomialError BinomialLaw BinomialSum NoiseError NoiseWindow",
            "counts": "BoundedError OneBitError SupportLaw TwoBinomialsError",
            "laplace": "Difference DifferenceError DiscreteLaplace DiscreteLaplaceError SharedNoise SharedNoiseError",
        },
    )
