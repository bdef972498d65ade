"""The counts engine: samples the tally directly from how many people hold each value.

Messages of many users add up to numbers with a known law, so simulating a billion people takes
milliseconds. For planning and papers: whoever runs it has seen the exact counts.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.errors import DataError, MismatchError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.numerics.draws import NumpyDraws, Simulated
from shuffledp.numerics.entropy import SecureWords

__all__ = ["Simulated", "run_counts"]


def run_counts(
    protocol: ShuffleProtocol, counts: ArrayLike, rng: WordSource | None = None
) -> Estimate:
    """The estimate for a data set with counts[x] people of code x, without their messages.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> run_counts(p, [10**8, 10**9, 10**7], SeededWords(3)).value.shape
    (3,)
    """
    inputs = np.asarray(counts)
    size = protocol.randomizer.domain.size
    if inputs.shape != (size,):
        raise MismatchError(f"counts of shape {inputs.shape} for a domain of {size} values")
    if inputs.dtype.kind not in "iu" or int(inputs.min()) < 0 or int(inputs.sum()) < 1:
        raise DataError("counts must be integers >= 0, and not all 0")
    if not isinstance(protocol.randomizer, Simulated):
        raise UnsupportedError(f"{protocol.name} has no simulation of its tally: use run()")
    draws = NumpyDraws(SecureWords() if rng is None else rng)
    tally = protocol.randomizer.simulate(inputs.astype(np.int64), draws)
    return protocol.analyzer.estimate(tally)
