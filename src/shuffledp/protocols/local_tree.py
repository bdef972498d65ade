r"""The whole distribution of a number in the local model: everybody answers for one random level of a tree.

A device draws a level of the tree of shape (b_1, ..., b_T), at random and whatever its value is, and a column j of the
Hadamard matrix of that level (2^m columns, at least as many as there are nodes). It sends the level, j, and the sign
H[a, j] = (-1)^|a & j| of its own node a there, flipped with probability q = 1 / (e^epsilon + 1). So one bit depends on
the value, and the message is epsilon-private by itself.

With D_j the +1 less the -1 that were sent for column j of a level, sum_j H[a, j] D_j / (share (1 - 2 q)) is an unbiased
estimate of how many people are below node a. What one person adds to it has the same square whatever the value is, so
variances are known: n / (share (1 - 2 q)^2) for each node, uncorrelated between nodes but for the true counts. The leaves
are fitted by generalised least squares, with the public n as the root.

Reference: Cormode, Kulkarni, Srivastava 2019, "Answering range queries under local differential privacy" (trees with
Hadamard randomized response, levels sampled, and consistency). Deviation: the number of people at a level is taken at
its mean, which keeps estimates exactly unbiased.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from shuffledp.accounting.blanket import Blanket, two_level_blanket
from shuffledp.core.analyzer import Tally, message_tally
from shuffledp.core.arrays import Codes, Floats, Words
from shuffledp.core.domain import Cells, Integers
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import LATE, Parts
from shuffledp.core.randomizer import Law, Messages, Shuffled
from shuffledp.core.validate import whole
from shuffledp.numerics.galois import parity
from shuffledp.numerics.leaves import read_question
from shuffledp.numerics.tape import bernoulli, table
from shuffledp.numerics.tree_noise import OneLevelEach
from shuffledp.numerics.trees import choose_even_shape, rank_weights
from shuffledp.protocols.hadamard import walsh_hadamard
from shuffledp.protocols.rr import RR
from shuffledp.protocols.shared.assembly import OneNumber, local, register
from shuffledp.protocols.tree import TreeAnalyzer


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTree(OneNumber):
    """A random level, a random column of its Hadamard matrix, and the sign there, flipped now and then.

    The message is 2 (start of the level + column) + (0 for +1, 1 for -1).

    >>> tree = LocalTree(domain=Integers(lower=0, upper=3), shape=(2, 2), epsilon0=1.0, word_bits=4)
    >>> tree.alphabet, tree.pmf(3)[1,], tree.pmf(3)[3,]
    (12, Fraction(5, 64), Fraction(11, 64))
    """

    domain: Integers | Cells
    shape: tuple[int, ...]
    epsilon0: float
    word_bits: int = 64
    sign: RR = field(init=False)
    """What flips the sign."""
    words_per_input: ClassVar[int] = 3
    """The level, the column, the coin."""

    def __post_init__(self) -> None:
        if math.prod(self.shape) < self.domain.size:
            raise ParameterError("shape", self.shape, f"must have {self.domain.size} leaves")
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        if max(self.columns[-1], len(self.shape)) > 1 << self.word_bits:
            raise ParameterError(
                "word_bits", self.word_bits, f"must be enough for {self.columns[-1]} columns"
            )
        sign = RR(epsilon0=self.epsilon0, word_bits=self.word_bits)
        object.__setattr__(self, "sign", sign)

    @property
    def columns(self) -> tuple[int, ...]:
        """Columns of the Hadamard matrix of each level."""
        nodes = np.cumprod(self.shape).tolist()
        return tuple(1 << (count - 1).bit_length() for count in nodes)

    @property
    def starts(self) -> tuple[int, ...]:
        """For each level, the number of columns of all levels above."""
        return (0, *np.cumsum(self.columns).tolist()[:-1])

    @property
    def alphabet(self) -> int:
        return 2 * sum(self.columns)

    @property
    def _shares(self) -> tuple[int, ...]:
        """Words that choose each level."""
        depth, words = len(self.shape), 1 << self.word_bits
        return tuple(words // depth + (level < words % depth) for level in range(depth))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Exact probability of each level."""
        return tuple(Fraction(share, 1 << self.word_bits) for share in self._shares)

    @property
    def gain(self) -> Fraction:
        """What is left of a sign on average: 1 - 2 q."""
        return 1 - 2 * self.sign.q

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what all laws have in common, for the accountant of the shuffled view.

        Two nodes of a level have the same sign in half of the columns; values that share a node there are closer yet.
        """
        q = self.sign.q
        return (two_level_blanket(ratio=(1 - q) / q, one=q / 2, both=q / 2, neither=q / 2),)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        level = table(words[:, 0], self._shares, self.word_bits)
        leaves = math.prod(self.shape)
        below = np.array([leaves // nodes for nodes in np.cumprod(self.shape).tolist()])
        node = inputs.astype(np.int64) // below[level]
        last = np.array(self.columns)[level] - 1
        column = words[:, 1].astype(np.uint64) & last.astype(np.uint64)
        sign = parity(node.astype(np.uint64) & column).astype(np.int64)
        flipped = bernoulli(words[:, 2], self.sign.threshold, self.word_bits)
        start = np.array(self.starts)[level]
        return Messages.one_each(2 * (start + column.astype(np.int64)) + (sign ^ flipped))

    def pmf(self, x: int) -> Law:
        law: Law = {}
        leaves, kept = math.prod(self.shape), (1 - self.sign.q, self.sign.q)
        nodes = np.cumprod(self.shape).tolist()
        for share, start, size, columns in zip(
            self.shares, self.starts, nodes, self.columns, strict=True
        ):
            node = x // (leaves // size)
            for column in range(columns):
                odd = (node & column).bit_count() & 1
                for sent in (0, 1):
                    law[2 * (start + column) + sent,] = share / columns * kept[odd ^ sent]
        return law

    def tally(self, shuffled: Shuffled) -> Tally:
        """Return how often each message was sent."""
        return message_tally(shuffled, self.alphabet)

    def measure(self, tally: Tally) -> list[Floats]:
        """Measure the cells: every level is decoded by a fast Hadamard transform."""
        signs, levels = tally.counts.reshape(-1, 2), []
        differences = signs[:, 0] - signs[:, 1]
        nodes = np.cumprod(self.shape).tolist()
        for share, start, size, columns in zip(
            self.shares, self.starts, nodes, self.columns, strict=True
        ):
            own = walsh_hadamard(differences[None, start : start + columns])[0][:size]
            levels.append(own / np.float64(share * self.gain))
        return levels

    def find_noise(self, n: int) -> OneLevelEach:
        """Return the noise where n people take part."""
        shares = tuple(float(share) for share in self.shares)
        return OneLevelEach(n=n, shares=shares, gain=float(self.gain))

    def find_influence(self, ranks: int) -> float:
        """Return how far one message can move a rank, in people: its sign, times the weights of the nodes of its level.

        Infinite, for want of a bound, where there are too many ranks to look at them all.
        """
        moved = 0.0
        for levels in rank_weights(self.domain.size, self.shape, self.find_noise(1).variances):
            for level, share in zip(levels, self.shares, strict=True):
                moved = max(moved, float(level.sum_sizes().max() / share))
        if not moved:
            return math.inf
        # A sign says -1 in place of +1.
        return 2 * ranks * moved / float(self.gain)


@local(
    name="local_tree",
    task="quantiles",
    title="tree of Hadamard responses",
    reference="Cormode, Kulkarni, Srivastava 2019",
)
def make_local(
    *,
    lower: float,
    upper: float,
    epsilon: float,
    steps: int | None = None,
    task: str = "quantiles",
    at: Sequence[float] | None = None,
    shape: Sequence[int] | None = None,
    word_bits: int = 64,
) -> Parts:
    """Make a distribution of integers lower .. upper, or of reals in `steps` cells, for what `task` asks.

    >>> p = make_local(lower=0, upper=240, epsilon=1.0)
    >>> p.parameters["shape"], p.cost.bits_per_message
    ([3, 3, 3, 3, 3], 10)
    """
    domain, question = read_question(lower, upper, steps, task, at)
    # Everybody answers for one level: the variance of a node grows with the depth.
    chosen = choose_even_shape(domain.size, 1) if shape is None else tuple(shape)
    tree = LocalTree(domain=domain, shape=chosen, epsilon0=epsilon, word_bits=word_bits)
    analyzer = TreeAnalyzer(tree=tree, question=question)
    return Parts(
        tree,
        analyzer,
        code=tree.code,
        blankets=tree.blankets,
        influence=analyzer.influence,
        foresee=analyzer.foresee,
        task=task,
        resolved={"shape": list(chosen), "at": list(question.at) or None},
    )


SPEC = register(make_local, hints=LATE)
