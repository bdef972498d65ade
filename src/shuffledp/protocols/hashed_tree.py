r"""A tree of histograms whose lowest level is hashed: fine grids with few messages.

As `tree`, but dummies in every one of D leaves would be D mu / n messages from everybody. Here a message of the lowest
level is a random hash function and a value of s bits, and supports one leaf in 2^s; dummies need only reach each leaf,
not each message, which costs 2^s mu / n messages, whatever D is. The price is a variance of n / 2^s in each leaf, from
other people's messages that collide. The levels above carry most of a rank, so that little of it is seen.

Hashing is h(x) = the first s bits of a x + b x^2 in the field GF(2^r), a and b uniform. For three different leaves the
differences h(x) - h(y) and h(x) - h(z) are uniform and independent, since (u, u^2) and (w, w^2) are independent for
u != w, both not 0. So what a message of somebody else adds to different leaves is uncorrelated, exactly, and the
variance of any sum of leaves is at most that of leaves with independent noise of n (1 + rho) q / (1 - q), q = 2^-s. In
GF(2^r) squaring is linear, so the leaves that a message supports are the solutions of a linear system.

Intervals are certified whatever the data are, by Bennett's inequality for the hashed level and the exact transform of
the others. References: Hay, Rastogi, Miklau, Suciu 2010 (trees); Ghazi, Golowich, Kumar, Pagh, Velingker 2021 (hashed
dummies).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from shuffledp.core.analyzer import Tally, check_messages, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.domain import Cells, Integers
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import Cost, Crowd, CurvedNoise, Hints, Look, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, join_laws
from shuffledp.core.validate import number, whole
from shuffledp.numerics import tape
from shuffledp.numerics.galois import POLYNOMIALS, check_degree, multiples, multiply, solutions
from shuffledp.numerics.leaves import MOST_CELLS, ask_leaves, read_cells, read_points
from shuffledp.numerics.rounding import dyadic_above
from shuffledp.numerics.tree_noise import BoundedNoise, IndependentLevels
from shuffledp.numerics.trees import even_shapes, mean_prefix_variance
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.frequency import Dummied, choose_rho, dummied_law
from shuffledp.protocols.shared.joint import Joint
from shuffledp.protocols.tree import (
    Tree,
    TreeAnalyzer,
    choose_shape,
    count_messages,
    guess_level,
    joint_poisson_level,
    make_levels,
    read_shape,
    search_noise,
    spread_ranks,
)

_LARGEST_LEAF = 64
_MOST_BITS = 62  # of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedLevel(Dummied):
    """One real message and rho = dummies / 2^word_bits dummies over k categories.

    A message is (a, b, v), written as one number; it supports the x with v = h(x), the first s bits of a x + b x^2.

    >>> level = HashedLevel(k=4, r=2, s=1, dummies=8, word_bits=5)
    >>> level.q, level.rho, sorted(level.find_supported(0b01_10_1))
    (Fraction(1, 2), Fraction(1, 4), [1, 2])
    """

    k: int
    r: int
    s: int
    dummies: int
    word_bits: int = 64

    def __post_init__(self) -> None:
        check_degree(self.r)
        whole("k", self.k, at_least=2, at_most=1 << self.r)
        whole("hash_bits", self.s, at_least=1, at_most=min(self.r, _MOST_BITS - 2 * self.r))
        whole("dummies", self.dummies, at_least=1)
        whole("word_bits", self.word_bits, at_least=self.message_bits, at_most=64)

    @property
    def message_bits(self) -> int:
        """The bits of a message."""
        return 2 * self.r + self.s

    @property
    def words_per_input(self) -> int:
        """The function, the coin of the last dummy, the dummies."""
        return 2 + math.ceil(self.rho)

    @property
    def q(self) -> Fraction:
        """Exact probability that any other message supports a given category."""
        return Fraction(1, 1 << self.s)

    def open_curve(self, honest: int) -> None:
        """Return None: `delta` is asked one epsilon after the other."""

    def _hash(self, a: Words, b: Words, x: Codes) -> Words:
        own = x.astype(np.uint64)
        line = multiply(a, x, self.k, self.r)
        curve = multiply(b, multiply(own, x, self.k, self.r).astype(np.int64), 1 << self.r, self.r)
        return (line ^ curve) >> np.uint64(self.r - self.s)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        wide = words.astype(np.uint64)
        mask = np.uint64((1 << self.r) - 1)
        a, b = wide[:, 0] & mask, (wide[:, 0] >> np.uint64(self.r)) & mask
        real = self._join(a, b, self._hash(a, b, inputs))
        surely, share = divmod(self.dummies, 1 << self.word_bits)
        some = np.flatnonzero(tape.bernoulli(words[:, 1], share, self.word_bits))
        dummies = (wide[:, 2:] & np.uint64((1 << self.message_bits) - 1)).astype(np.int64)
        users = np.arange(len(inputs))
        return Messages(
            payload=np.concatenate(
                [real, dummies[:, :surely].ravel(), dummies[some, surely:].ravel()]
            ),
            owner=np.concatenate([users, np.repeat(users, surely), some]),
            users=len(inputs),
        )

    def _join(self, a: Words, b: Words, v: Words) -> Counts:
        joined = (a << np.uint64(self.r + self.s)) | (b << np.uint64(self.s)) | v
        return joined.astype(np.int64)

    def _split(self, messages: Counts) -> tuple[Words, Words, Words]:
        wide, mask = messages.astype(np.uint64), np.uint64((1 << self.r) - 1)
        a = wide >> np.uint64(self.r + self.s)
        return a, (wide >> np.uint64(self.s)) & mask, wide & np.uint64((1 << self.s) - 1)

    def pmf(self, x: int) -> Law:
        functions = 1 << 2 * self.r
        real: dict[Message, Fraction] = {
            message: Fraction(int(x in self.find_supported(message)), functions)
            for message in range(1 << self.message_bits)
        }
        return dummied_law(real, 1 << self.message_bits, self.rho)

    def find_supported(self, message: Message) -> set[int]:
        """Return the categories that a message supports."""
        a, b, v = self._split(np.full(self.k, message))
        return set(np.flatnonzero(self._hash(a, b, np.arange(self.k)) == v).tolist())

    def count(self, messages: Counts) -> Counts:
        """Count, for each category, the messages that support it."""
        a, b, v = self._split(messages)
        length = (self.k - 1).bit_length()
        lines = multiples(a, 1 << length, self.r)
        curves = multiples(b, 1 << 2 * length, self.r)[::2]  # the square of 2^i is 2^(2 i)
        drop = np.uint64(self.r - self.s)
        images = [(one ^ two) >> drop for one, two in zip(lines, curves, strict=True)]
        counts = np.zeros(self.k, dtype=np.int64)
        for found in solutions(images, v, 1):
            counts += np.bincount(found[found < self.k], minlength=self.k)
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedTree:
    """The ancestors of the value among uniform dummies, and the value itself, hashed.

    Messages of the hashed level come after those of the nodes above.
    """

    domain: Integers | Cells
    top: Tree
    """The levels above the leaves; its values are the parents of the leaves."""
    last: HashedLevel
    epsilon0: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if self.last.k < self.domain.size or self.last.k % self.top.domain.size:
            raise ParameterError("shape", self.shape, f"must have {self.domain.size} leaves")

    @property
    def levels(self) -> tuple[CurvedNoise, ...]:
        """The histograms, the hashed one last."""
        return (*self.top.levels, self.last)

    @property
    def shape(self) -> tuple[int, ...]:
        """Branches by level."""
        return (*self.top.shape, self.last.k // self.top.domain.size)

    @property
    def word_bits(self) -> int:
        return self.last.word_bits

    @property
    def words_per_input(self) -> int:
        return self.top.words_per_input + self.last.words_per_input

    @property
    def proof(self) -> str:
        return f"the sum of the privacy losses of {len(self.shape)} levels, composed numerically and rounded up"

    @property
    def cost(self) -> Cost:
        bits = (self.top.nodes + (1 << self.last.message_bits) - 1).bit_length()
        return Cost.add([self.top.cost, self.last.cost], bits)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        used = self.top.words_per_input
        above = self.top.encode(inputs // self.shape[-1], words[:, :used])
        below = self.last.encode(inputs, words[:, used:])
        return Messages.join([above, below], (0, self.top.nodes))

    def pmf(self, x: int) -> Law:
        laws = [self.top.pmf(x // self.shape[-1]), self.last.pmf(x)]
        return join_laws(laws, (0, self.top.nodes))

    def find_noise(self, n: int) -> IndependentLevels:
        """Return the noise that the dummies and the collisions of n people make."""
        q, rho = float(self.last.q), float(self.last.rho)
        one = q / (1 - q)  # what a message adds, in all leaves but that of its sender
        hashed = BoundedNoise(variance=n * (1 + rho) * one, most=1 / (1 - q), spare=one)
        return IndependentLevels(levels=(*self.top.find_noise(n).levels, hashed))

    def tally(self, shuffled: Shuffled) -> Tally:
        """Return the nodes above, then the support of each leaf."""
        payload, nodes = shuffled.payload, self.top.nodes
        check_messages(payload, nodes + (1 << self.last.message_bits))
        above = message_tally(
            Shuffled(payload=payload[payload < nodes], users=shuffled.users), nodes
        )
        below = self.last.count((payload[payload >= nodes] - nodes).astype(np.int64))
        return Tally(counts=np.concatenate([above.counts, below]), users=shuffled.users)

    def measure(self, tally: Tally) -> list[Floats]:
        """Estimate the people in each node, as `Tree` does; a leaf is supported by its own people and by one in 2^s of all other messages."""
        above, below = np.split(tally.counts, [self.top.nodes])
        q, rho = self.last.q, self.last.rho
        leaves = (below - np.float64(tally.users * q * (1 + rho))) / np.float64(1 - q)
        return [*self.top.measure(Tally(counts=above, users=tally.users)), leaves]

    def find_influence(self, ranks: int) -> float:
        """Bound by how many people replacing one message can move a rank, at most.

        Whoever chooses the function of their own message may support many leaves with it: all of positive weight, at
        worst. Infinite, for want of a bound, where there are too many ranks to look at them all.
        """
        return spread_ranks(self, ranks, hashed=1 / (1 - float(self.last.q)))


def choose_tree(
    cells: int, crowd: Crowd, promise: Promise, messages: float = 6.0
) -> tuple[tuple[int, ...], int]:
    """Return the shape and the bits of the hash with the smallest error of a rank for at most this many messages each.

    >>> choose_tree(1 << 16, Crowd(n=10**6, honest=1.0), Promise(epsilon=1.0, delta=1e-8))
    ((17, 17, 17, 14), 12)
    """
    rough = {depth: guess_level(depth, promise.epsilon, promise.delta) for depth in range(2, 12)}
    shape, _ = _choose(_shapes(cells), crowd, rough, messages)
    # The depth is right; now with the noise that it really has.
    depth = len(shape)
    mu = joint_poisson_level(parts=depth, epsilon=promise.epsilon, delta=promise.delta)
    same = (each for each in _shapes(cells) if len(each) == depth)
    return _choose(same, crowd, {depth: mu}, messages)


def _choose(
    shapes: Iterator[tuple[int, ...]], crowd: Crowd, noise: dict[int, float], messages: float
) -> tuple[tuple[int, ...], int]:
    choices = []
    for shape in shapes:
        mu, depth = noise[len(shape)], len(shape)
        nodes = math.fsum(math.prod(shape[:level]) for level in range(1, depth))
        longest = (math.prod(shape) - 1).bit_length()
        for s in range(1, min(longest, _MOST_BITS - 2 * _find_degree(longest) + 1)):
            sent = depth + mu / crowd.trusted * (nodes + (1 << s))
            if sent > messages and s > 1:
                break
            spread = (mu * crowd.n / crowd.trusted + crowd.n / (1 << s)) / (1 - 2.0**-s)
            above = mu * crowd.n / crowd.trusted
            error = mean_prefix_variance(shape, [*[above] * (depth - 1), spread])
            choices.append((max(sent, messages), error, shape, s))
    _, _, shape, s = min(choices)
    return shape, s


def _shapes(cells: int) -> Iterator[tuple[int, ...]]:
    """Yield even trees with every size of the lowest families."""
    for leaf in range(2, min(_LARGEST_LEAF, (cells + 1) // 2) + 1):
        for above in even_shapes(-(-cells // leaf)):
            yield (*above, leaf)


@shuffle(
    name="hashed_tree",
    task="quantiles",
    title="tree of histograms, its leaves hashed",
    reference="Hay, Rastogi, Miklau, Suciu 2010",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    lower: float,
    upper: float,
    steps: int | None = None,
    task: str = "quantiles",
    at: Sequence[float] | None = None,
    messages: float = 6.0,
    shape: Sequence[int] | None = None,
    hash_bits: int | None = None,
    levels: Sequence[float] | None = None,
    word_bits: int = 64,
) -> Parts:
    """Make a distribution of integers lower .. upper, or of reals in `steps` cells, of about `messages` messages.

    A small n needs more than that, and gets it; where `tree` sends no more, take that one. `levels` are the epsilons
    that the levels keep on their own, at the common delta; without them all levels get the same noise, the least that
    keeps the promise.

    >>> p = make(n=100_000, lower=0, upper=1000, epsilon=1.0, delta=1e-6, shape=[16, 63], hash_bits=7)
    >>> round(p.cost.messages_mean, 2), p.cost.bits_per_message
    (2.12, 28)
    """
    domain = read_cells(lower, upper, steps)
    points = read_points(task, at, domain)
    if not 4 <= domain.size <= MOST_CELLS:
        raise UnsupportedError(
            f"{domain.size:,} cells: hashed trees have 4 to {MOST_CELLS:,} of them"
        )
    if shape is None or hash_bits is None:
        plain = count_messages(choose_shape(domain.size, crowd, promise), crowd, promise)
        if plain <= number("messages", messages):
            raise UnsupportedError(
                f"{domain.size:,} cells need no hashing: a tree sends {plain:.3g} messages per user"
            )
        shape, hash_bits = choose_tree(domain.size, crowd, promise, messages)
    whole("hash_bits", hash_bits, at_least=1, at_most=_MOST_BITS // 3)
    chosen = read_shape(shape)
    if len(chosen) < 2:
        raise ParameterError("shape", shape, "must have at least two levels")
    layout = _Layout(domain=domain, shape=chosen, hash_bits=hash_bits, word_bits=word_bits)
    tree = layout.fit(crowd, promise) if levels is None else layout.spend(crowd, promise, levels)
    analyzer = TreeAnalyzer(tree=tree, question=ask_leaves(task, points))
    return Parts(
        tree,
        analyzer,
        influence=analyzer.influence,
        foresee=analyzer.foresee,
        accountant=Joint.of(tree.levels, promise),
        task=task,
        resolved={"shape": list(chosen), "hash_bits": hash_bits, "at": list(points)},
    )


def _find_degree(bits: int) -> int:
    return min(r for r in POLYNOMIALS if r >= bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """A tree without its dummies."""

    domain: Integers | Cells
    shape: tuple[int, ...]
    hash_bits: int
    word_bits: int

    def fit(self, crowd: Crowd, promise: Promise) -> HashedTree:
        """Fit levels with the same noise per node, nearly the least that keeps the promise."""
        words = 1 << whole("word_bits", self.word_bits, at_least=1, at_most=64)
        sizes = np.cumprod(self.shape[:-1]).tolist()
        # Dummies that reach a leaf and not another one.
        share = (1 << self.hash_bits) / (1 - 2.0**-self.hash_bits)

        def build(mu: float) -> HashedTree:
            *above, below = (
                max(dyadic_above(mu * size / crowd.trusted, self.word_bits), Fraction(1, words))
                for size in (*sizes, share)
            )
            top = tuple(
                DummiesHistogram.sending(rho, k=size, word_bits=self.word_bits)
                for rho, size in zip(above, sizes, strict=True)
            )
            return self._add_dummies(top, int(below * words))

        return search_noise(crowd, promise, len(self.shape), build, lambda tree: tree.levels)

    def spend(self, crowd: Crowd, promise: Promise, epsilons: Sequence[float]) -> HashedTree:
        """Make levels that each keep an epsilon of their own."""
        depth = len(self.shape)
        if len(epsilons) != depth:
            raise ParameterError("levels", epsilons, f"must be one epsilon for each of {depth}")
        top = make_levels(crowd, promise, self.shape[:-1], epsilons[:-1], self.word_bits)
        own = Promise(epsilon=epsilons[-1], delta=promise.delta)
        dummies = choose_rho(crowd, own, Fraction(1, 1 << self.hash_bits), self.word_bits)
        return self._add_dummies(top, dummies)

    def _add_dummies(self, top: tuple[DummiesHistogram, ...], dummies: int) -> HashedTree:
        leaves, parents = math.prod(self.shape), math.prod(self.shape[:-1])
        degree = _find_degree(max((leaves - 1).bit_length(), self.hash_bits))
        bits = {"r": degree, "s": self.hash_bits, "word_bits": self.word_bits}
        return HashedTree(
            domain=self.domain,
            top=Tree(
                domain=Integers(lower=0, upper=parents - 1), shape=self.shape[:-1], levels=top
            ),
            last=HashedLevel(k=leaves, dummies=dummies, **bits),
        )


SPEC = register(make, hints=Hints(look=Look.LATE, levels=True))
