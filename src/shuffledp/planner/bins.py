"""How wrong the worst of many bins is: the protocol's own intervals, at a level for all bins at once."""

import numpy as np

from shuffledp.core.analyzer import Analyzer, Tally
from shuffledp.core.arrays import Counts
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.numerics.draws import NumpyDraws, Simulated
from shuffledp.numerics.entropy import SeededWords

__all__ = ["worst_bin"]


def worst_bin(protocol: ShuffleProtocol, inputs: Counts, level: float) -> float:
    """With probability about `level` all bins are within this distance of the truth (union bound).

    About, since the widths of the intervals are those of one simulated tally; they hardly depend on it.

    >>> from shuffledp import protocols
    >>> p = protocols.correlated_histogram.make(n=100_000, k=16, epsilon=1.0, delta=1e-6)
    >>> worst_bin(p, np.full(16, 100_000 // 16), 0.95)
    13.0
    """
    estimate = protocol.analyzer.estimate(_typical(protocol, inputs))
    low, high = estimate.interval(1 - (1 - level) / len(inputs))
    value = np.asarray(estimate.value)
    return float(np.max(np.maximum(value - low, high - value)))


def _typical(protocol: ShuffleProtocol, inputs: Counts) -> Tally:
    randomizer = protocol.randomizer
    if isinstance(randomizer, Simulated):
        # A fixed seed: the same question has the same answer, and nobody's data are in it.
        return randomizer.simulate(inputs, NumpyDraws(SeededWords(0)))
    return _expected(protocol.analyzer, inputs)


def _expected(analyzer: Analyzer, inputs: Counts) -> Tally:
    """The tally whose estimate is the truth, where an estimate is affine in its bin's count."""
    n = int(inputs.sum())
    zero, one = (
        np.asarray(analyzer.estimate(Tally(counts=np.full(len(inputs), c), users=n)).value)
        for c in (0, n)
    )
    counts = np.rint((inputs - zero) / (one - zero) * n).astype(np.int64)
    return Tally(counts=counts, users=n)
