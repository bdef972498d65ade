"""One message per user, many crowds at once: the law of a message, and how many support each category.

If values are independent draws from p, messages are independent draws from Q = sum_x p_x R(x), and the
tally of n users is one multinomial number. So a thousand crowds cost no more than their tallies.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.protocols.hadamard import HadamardResponse
from shuffledp.protocols.rr import RR

__all__ = ["HadamardMessages", "OneMessage", "RRMessages"]


class OneMessage(Protocol):
    """What a tester must know of a randomizer with one message."""

    def law(self, p: Floats) -> Floats:
        """Q[..., message] if values have the law p[..., category]."""

    def supports(self, tallies: Counts | Floats) -> Floats:
        """How many messages of tallies[..., message] lie in the likely set of each category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RRMessages:
    """Randomized response on bits: the message is the likely set.

    >>> RRMessages(randomizer=RR(epsilon0=1.0)).law(np.array([0.5, 0.5]))
    array([0.5, 0.5])
    """

    randomizer: RR

    def law(self, p: Floats) -> Floats:
        stay, flip = float(self.randomizer.p), float(self.randomizer.q)
        return stay * p + flip * p[..., ::-1]

    def supports(self, tallies: Counts | Floats) -> Floats:
        return np.asarray(tallies, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class HadamardMessages:
    """Hadamard response: the likely set S_x of category x is half of its block.

    With N the tally of the block and T_x = sum_y H[r, y] N_y, (sum N + T_x) / 2 messages lie in S_x; both
    the law and the supports are fast Walsh-Hadamard transforms of the blocks.

    >>> messages = HadamardMessages(randomizer=HadamardResponse(k=3, epsilon0=1.0))
    >>> messages.law(np.array([0.0, 1.0, 0.0])).round(4)
    array([0.3655, 0.3655, 0.1345, 0.1345])
    >>> messages.supports(np.array([5, 1, 0, 2]))
    array([5., 6., 7.])
    """

    randomizer: HadamardResponse

    @property
    def _places(self) -> tuple[Counts, Counts]:
        """(block, row) of each category."""
        x = np.arange(self.randomizer.k)
        return x % self.randomizer.blocks, x // self.randomizer.blocks + 1

    def law(self, p: Floats) -> Floats:
        response = self.randomizer
        block, row = self._places
        placed = np.zeros((*p.shape[:-1], response.blocks, response.block_length))
        placed[..., block, row] = p
        inside = placed.sum(axis=-1, keepdims=True) + _walsh_hadamard(placed)
        words = 2.0**response.word_bits
        # Half of `inside` is the probability that the holder's set contains the output.
        each = response.low / words + response.blocks * response.toward / words * inside
        law: Floats = each.reshape(*p.shape[:-1], response.outputs)
        return law

    def supports(self, tallies: Counts | Floats) -> Floats:
        response = self.randomizer
        block, row = self._places
        counts = np.asarray(tallies, dtype=np.float64)
        counts = counts.reshape(*counts.shape[:-1], response.blocks, response.block_length)
        transformed = _walsh_hadamard(counts)
        total: Floats = transformed[..., block, 0]  # row 0 is all ones
        return (total + transformed[..., block, row]) / 2


def _walsh_hadamard(blocks: Floats) -> Floats:
    """The last axis times the Sylvester-Hadamard matrix of its length, a power of two."""
    length = blocks.shape[-1]
    if length <= _SHORT:
        short: Floats = blocks @ _matrix(length)  # sums of integers stay exact
        return short
    transformed, half = blocks, 1
    while half < length:
        pairs = transformed.reshape(*blocks.shape[:-1], length // (2 * half), 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        transformed = np.stack([first + second, first - second], axis=-2)
        half *= 2
    return transformed.reshape(blocks.shape)


_SHORT = 512  # up to here a matrix product is faster than the fast transform


@lru_cache(maxsize=16)
def _matrix(length: int) -> Floats:
    matrix = np.ones((1, 1))
    while len(matrix) < length:
        matrix = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix
