"""How much one person can move the distance: the constant in McDiarmid's inequality.

One person's messages add a vector w to the counts, and other messages another, w'. The centred error
1/2 sum_j |e_j - mean(e)| then changes by at most 1/2 sum_j |d_j - mean(d)|, d = w - w'. Call this |d|*: it is
at most the larger of the sums of positive and of negative parts of d, and at most m k / 2 if all parts are
within -m .. m (a convex function is largest at a corner of the cube, where it is 2 m a (k - a) / k for
some a).
"""

from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.protocols.frequency import FrequencyAnalyzer
from shuffledp.protocols.hadamard import HadamardAnalyzer, HadamardResponse
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.noise_bins import NoiseBinsAnalyzer
from shuffledp.protocols.subset_selection import SubsetSelection

__all__ = ["spread_of"]


def spread_of(protocol: ShuffleProtocol) -> float | None:
    """At least the largest |w - w'|* of two users' messages; None where it is not worked out.

    >>> from shuffledp import protocols
    >>> round(spread_of(protocols.krr.make_local(k=10, epsilon=1.0)), 3)
    6.82
    """
    analyzer = protocol.analyzer
    if isinstance(analyzer, NoiseBinsAnalyzer):
        # Each message adds 1 to a bin, so neither sign can have more than all messages.
        return float(protocol.cost.messages_max)
    if isinstance(analyzer, HadamardAnalyzer):
        return _hadamard(analyzer.randomizer)
    if isinstance(analyzer, FrequencyAnalyzer):
        return _frequency(analyzer)
    return None


def _frequency(analyzer: FrequencyAnalyzer) -> float:
    """d is 1 / (p - q) where only one message supports, -1 / (p - q) where only the other does."""
    oracle = analyzer.oracle
    k = oracle.domain.k
    moved = k / 2
    if isinstance(oracle, KRR):
        moved = 1.0
    if isinstance(oracle, SubsetSelection):
        # Two sets of w differ in at most so many elements each way; no set against one in w (1 - w/k).
        moved = float(min(oracle.w, k - oracle.w))
    return moved / float(oracle.p - oracle.q)


def _hadamard(response: HadamardResponse) -> float:
    """w is a column of signs in the block of the message, over `lead`.

    Two columns of one block differ, by 2, in half of its rows; columns of two blocks differ by 1 in both.
    Of k parts within -m .. m of which z are not 0, with a of them positive, |d|* is
    m z / 2 + m (2 a - z) (k - 2 a) / (2 k), which is at most m z / 2 + m (k - z)^2 / (8 k) for any a, and at most m z.
    """
    k, block = response.k, -(-response.k // response.blocks)
    z = min(block, response.block_length // 2)
    same = min(2.0 * z, z + (k - z) ** 2 / (4 * k))
    other = min(2.0 * block, k / 2) if response.blocks > 1 else 0.0
    return max(same, other) / float(response.lead)
