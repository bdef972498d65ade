r"""The whole distribution of a number: a tree of histograms with uniform dummies.

A grid of D cells is the lowest level of a tree of shape (b_1, ..., b_T), b_1 ... b_T >= D. At every level a device
sends the ancestor of its value there, among uniform dummies (`dummies_histogram`). The levels are a bundle: T views
of one value, independent given the value, so their privacy losses add up. All levels carry the same noise mu per
node; mu is nearly that of Poisson dummies, and the composed curve of the exact law of the dummies is certified.

The analyzer fits the leaves by generalised least squares, with the public n as the root (`numerics.trees`). Estimates
of counts are unbiased, and their variances exact, whatever the data are. Quantiles, ranges, the distribution function,
variance and standard deviation follow from the leaves.

Intervals cover with at least their level: the law of the noise is known (`numerics.tree_noise`, `numerics.leaves`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from shuffledp.accounting.base import find_level, gaussian_scale
from shuffledp.accounting.compose import compose_delta
from shuffledp.accounting.moved_message import PoissonTotal, TwoBins, poisson_level
from shuffledp.core.analyzer import Estimate, Tally, Value, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.domain import Cells, Integers
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import Cost, Crowd, CurvedNoise, Hints, Look, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource, join_laws
from shuffledp.core.validate import whole
from shuffledp.numerics.leaves import (
    MOST_CELLS,
    LeafQuestion,
    Leaves,
    ask_leaves,
    read_cells,
    read_points,
)
from shuffledp.numerics.rounding import dyadic_above
from shuffledp.numerics.tree_noise import DummyNoise, IndependentLevels, TreeNoise
from shuffledp.numerics.trees import (
    aggregate,
    even_shapes,
    fit_leaves,
    mean_prefix_variance,
    rank_weights,
)
from shuffledp.protocols import dummies_histogram
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.joint import Joint

Built = TypeVar("Built")

_MOST_MESSAGES = 1_000_000.0  # a file sends none, and plans say how many a collection would
_POINTS = 64  # of each curve
_CHEAP = 0.25  # a factor of e in messages is worth this part of one in the error


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The ancestor of the value at every level, and uniform dummies there.

    A message is the number of a node; the nodes of a level come after those of the levels above.

    >>> tree = Tree(domain=Integers(lower=0, upper=3), shape=(2, 2), levels=(
    ...     DummiesHistogram(k=2, surely=0, threshold=1), DummiesHistogram(k=4, surely=0, threshold=1)))
    >>> tree.encode(np.array([3]), np.full((1, 4), 2**64 - 1, dtype=np.uint64)).payload
    array([1, 5])
    """

    domain: Integers | Cells
    shape: tuple[int, ...]
    levels: tuple[DummiesHistogram, ...]
    epsilon0: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if math.prod(self.shape) < self.domain.size:
            raise ParameterError("shape", self.shape, f"must have {self.domain.size} leaves")

    @property
    def word_bits(self) -> int:
        return self.levels[0].word_bits

    @property
    def words_per_input(self) -> int:
        return sum(level.words_per_input for level in self.levels)

    @property
    def nodes(self) -> int:
        """The number of messages there are."""
        return sum(level.k for level in self.levels)

    @property
    def proof(self) -> str:
        return f"the sum of the privacy losses of {len(self.levels)} levels, composed numerically and rounded up"

    @property
    def cost(self) -> Cost:
        return Cost.add([level.cost for level in self.levels], (self.nodes - 1).bit_length())

    def _starts(self) -> list[int]:
        return [0, *np.cumsum([level.k for level in self.levels]).tolist()[:-1]]

    def ancestors(self, codes: Codes) -> list[Codes]:
        """Return the node above each leaf at every level."""
        whole = math.prod(self.shape)
        return [codes // (whole // level.k) for level in self.levels]

    def encode(self, inputs: Codes, words: Words) -> Messages:
        sent, first = [], 0
        for level, codes in zip(self.levels, self.ancestors(inputs), strict=True):
            sent.append(level.encode(codes, words[:, first : first + level.words_per_input]))
            first += level.words_per_input
        return Messages.join(sent, self._starts())

    def pmf(self, x: int) -> Law:
        codes = self.ancestors(np.array([x]))
        laws = [level.pmf(int(code[0])) for level, code in zip(self.levels, codes, strict=True)]
        return join_laws(laws, self._starts())

    def find_noise(self, n: int) -> IndependentLevels:
        """Return the noise that the dummies of n people make."""
        return IndependentLevels(
            levels=tuple(
                DummyNoise(
                    tries=(
                        (n * level.surely, float(level.hit)),
                        (n, float(level.more * level.hit)),
                    )
                )
                for level in self.levels
            )
        )

    def tally(self, shuffled: Shuffled) -> Tally:
        """Return the number of times each node was sent."""
        return message_tally(shuffled, self.nodes)

    def measure(self, tally: Tally) -> list[Floats]:
        """Return the counts of the nodes, less the dummies to expect in them."""
        ends = np.cumsum([level.k for level in self.levels])[:-1]
        return [
            counts - np.float64(tally.users * level.rho * level.hit)
            for counts, level in zip(np.split(tally.counts, ends), self.levels, strict=True)
        ]

    def find_influence(self, ranks: int) -> float:
        """Bound by how many people replacing one message can move a rank: the spread of the weights of the nodes.

        Infinite, for want of a bound, where there are too many ranks to look at them all.

        >>> level = DummiesHistogram(k=4, surely=1, threshold=0)
        >>> tree = Tree(domain=Integers(lower=0, upper=3), shape=(4,), levels=(level,))
        >>> tree.find_influence(1), tree.find_influence(2)
        (1.0, 2.0)
        """
        return spread_ranks(self, ranks)

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal level by level: their dummies are independent."""
        counts = aggregate(inputs, self.shape)
        dealt = [
            level.deal(nodes, source).counts
            for level, nodes in zip(self.levels, counts, strict=True)
        ]
        return Tally(counts=np.concatenate(dealt), users=int(inputs.sum()))


def spread_ranks(tree: "MeasuredTree", ranks: int, hashed: float | None = None) -> float:
    """Return the largest difference that two messages can make to a rank, over all ranks.

    The fit is linear in the measurements, so a message is worth the weight of its node. Where the leaves are `hashed`,
    a message supports any set of them, and each with a weight larger by that factor: at worst all leaves of
    positive weight, or all of negative weight.
    """
    moved = 0.0
    for levels in rank_weights(tree.domain.size, tree.shape, tree.find_noise(1).variances):
        high = low = np.zeros(len(levels[0].values))
        for place, level in enumerate(levels, start=1):
            held = np.where(level.counts > 0, level.values, 0.0)
            if hashed is not None and place == len(levels):
                gains = hashed * (level.counts * np.maximum(held, 0.0)).sum(axis=1)
                losses = hashed * (level.counts * np.minimum(held, 0.0)).sum(axis=1)
            else:
                gains, losses = held.max(axis=1), held.min(axis=1)
            high, low = np.maximum(high, gains), np.minimum(low, losses)
        moved = max(moved, float((high - low).max()))
    if not moved:
        return math.inf
    return ranks * moved


class MeasuredTree(Protocol):
    """What an analyzer asks of a tree of any kind."""

    @property
    def domain(self) -> Integers | Cells:
        """The cells."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Branches by level."""

    def tally(self, shuffled: Shuffled) -> Tally:
        """Return the integers that its messages amount to."""

    def measure(self, tally: Tally) -> list[Floats]:
        """Estimate the counts of the nodes, level by level."""

    def find_noise(self, n: int) -> TreeNoise:
        """Return the noise in the nodes where n people take part."""

    def find_influence(self, ranks: int) -> float:
        """Return by how many people one message can move the answer; infinite where no bound is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAnalyzer:
    """Fits the leaves, and answers what was asked from them."""

    tree: MeasuredTree
    question: LeafQuestion

    def influence(self) -> float:
        """Return by how many people one message can move the answer; infinite where no bound is known."""
        return self.tree.find_influence(self.question.ranks)

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.tree.tally(shuffled)

    def fit(self, tally: Tally) -> Leaves:
        """Return the leaves."""
        empty = self._leaves(tally.people())
        levels = self.tree.measure(tally)
        values = fit_leaves(levels, float(empty.n), empty.noise.variances)
        return replace(empty, values=values[: self.tree.domain.size])

    def estimate(self, tally: Tally) -> Estimate:
        return self.question.answer(self.fit(tally))

    def foresee(self, inputs: Counts) -> Estimate:
        """Return the estimate if the noise equals its mean."""
        empty = self._leaves(int(inputs.sum()))
        return self.question.answer(replace(empty, values=inputs.astype(np.float64)))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError("a fitted tree has no weights of single messages")

    def variance(self, inputs: Counts) -> Value:
        """Bound the variance of a count of people, whatever the data are; of a rank, take the mean over all cells."""
        return self.question.variance(self._leaves(int(inputs.sum())))

    def _leaves(self, n: int) -> Leaves:
        tree = self.tree
        return Leaves.empty(domain=tree.domain, shape=tree.shape, n=n, noise=tree.find_noise(n))


@lru_cache(maxsize=64)
def joint_poisson_level(*, parts: int, epsilon: float, delta: float) -> float:
    """Find the smallest mu, to a part in 2,000, with which Poisson(mu) dummies per bin of `parts` histograms suffice.

    >>> round(joint_poisson_level(parts=2, epsilon=1.0, delta=1e-8), 1)
    109.6
    """
    alone = poisson_level(epsilon=epsilon, delta=delta)
    if parts == 1:
        return alone

    def delta_at(mu: float) -> float:
        curve = TwoBins(total=PoissonTotal(mean=2 * mu))
        return compose_delta([curve] * parts, epsilon=epsilon, near=delta, points=_POINTS)

    return find_level(
        delta_at,
        delta,
        guess=guess_level(parts, epsilon, delta),
        largest=1e9,
        refusal=f"epsilon={epsilon!r} needs more noise than this routine handles",
        tolerance=5e-4,
        epsilon=epsilon,
    )


@lru_cache(maxsize=64)
def guess_level(parts: int, epsilon: float, delta: float) -> float:
    """Guess it: each further part costs 2 / g^2, g the parameter of a Gaussian pair with this promise."""
    scale = gaussian_scale(Promise(epsilon=epsilon, delta=delta))
    return poisson_level(epsilon=epsilon, delta=delta) + (parts - 1) * 2 / scale**2


def choose_shape(cells: int, crowd: Crowd, promise: Promise) -> tuple[int, ...]:
    """Return the shape of nearly the smallest error of a rank, where messages count a little.

    >>> choose_shape(4096, Crowd(n=10**6, honest=1.0), Promise(epsilon=1.0, delta=1e-8))
    (8, 8, 8, 8)
    """

    def merit(shape: tuple[int, ...]) -> float:
        mu = guess_level(len(shape), promise.epsilon, promise.delta)
        error = math.sqrt(mean_prefix_variance(shape, [mu] * len(shape)))
        return math.log(error) + _CHEAP * math.log(count_messages(shape, crowd, promise))

    return min(even_shapes(cells), key=merit)


def count_messages(shape: Sequence[int], crowd: Crowd, promise: Promise) -> float:
    """Estimate how many messages everybody sends.

    >>> round(count_messages((8, 8, 8, 8), Crowd(n=10**6, honest=1.0), Promise(epsilon=1.0, delta=1e-8)), 1)
    5.0
    """
    mu = guess_level(len(shape), promise.epsilon, promise.delta)
    return math.fsum(
        1 + mu * math.prod(shape[:i]) / crowd.trusted for i in range(1, len(shape) + 1)
    )


@shuffle(
    name="tree",
    task="quantiles",
    title="tree of histograms with uniform dummies",
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
    shape: Sequence[int] | None = None,
    levels: Sequence[float] | None = None,
    word_bits: int = 64,
) -> Parts:
    """Make a distribution of integers lower .. upper, or of reals in `steps` cells, for what `task` asks.

    `levels` are the epsilons that the histograms of the levels keep on their own, at the common delta; without them
    all levels get the same noise, the least that keeps the promise.

    >>> p = make(n=100_000, lower=0, upper=240, epsilon=1.0, delta=1e-8)
    >>> p.parameters["shape"], round(p.cost.messages_mean, 1)
    ([7, 6, 6], 3.5)
    """
    domain = read_cells(lower, upper, steps)
    points = read_points(task, at, domain)
    if domain.size > MOST_CELLS:
        sent = guess_level(3, promise.epsilon, promise.delta) * domain.size / crowd.trusted
        raise UnsupportedError(
            f"{domain.size:,} cells are too many: everybody would send {sent:,.0f} messages; "
            f"trees have up to {MOST_CELLS:,} cells, and `steps` chooses fewer"
        )
    chosen = choose_shape(domain.size, crowd, promise) if shape is None else read_shape(shape)
    if levels is None:
        devices = _fit_levels(crowd, promise, chosen, word_bits)
    else:
        devices = make_levels(crowd, promise, chosen, levels, word_bits)
    tree = Tree(domain=domain, shape=chosen, levels=devices)
    analyzer = TreeAnalyzer(tree=tree, question=ask_leaves(task, points))
    return Parts(
        tree,
        analyzer,
        deal=tree.deal,
        influence=analyzer.influence,
        foresee=analyzer.foresee,
        accountant=Joint.of(devices, promise),
        task=task,
        resolved={"shape": list(chosen), "at": list(points)},
    )


def read_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return branches by level, checked."""
    if not shape:
        raise ParameterError("shape", shape, "must have at least one level")
    return tuple(whole("shape", branches, at_least=2) for branches in shape)


def make_levels(
    crowd: Crowd,
    promise: Promise,
    shape: tuple[int, ...],
    epsilons: Sequence[float],
    word_bits: int,
) -> tuple[DummiesHistogram, ...]:
    """Make levels that each keep an epsilon of their own."""
    if len(epsilons) != len(shape):
        raise ParameterError("levels", epsilons, f"must be one epsilon for each of {len(shape)}")
    sizes = np.cumprod(shape).tolist()
    made = (
        dummies_histogram.make(
            n=crowd.n,
            honest=crowd.honest,
            k=size,
            epsilon=epsilon,
            delta=promise.delta,
            word_bits=word_bits,
        ).randomizer
        for size, epsilon in zip(sizes, epsilons, strict=True)
    )
    return tuple(device for device in made if isinstance(device, DummiesHistogram))


def _fit_levels(
    crowd: Crowd, promise: Promise, shape: tuple[int, ...], word_bits: int
) -> tuple[DummiesHistogram, ...]:
    """Fit levels with the same noise per node, nearly the least that keeps the promise."""
    words = 1 << whole("word_bits", word_bits, at_least=1, at_most=64)
    sizes = np.cumprod(shape).tolist()
    if sizes[-1] > words:
        raise ParameterError("word_bits", word_bits, f"must be enough for {sizes[-1]} nodes")

    def build(mu: float) -> tuple[DummiesHistogram, ...]:
        rhos = [dyadic_above(mu * size / crowd.trusted, word_bits) for size in sizes]
        if sum(rhos) > _MOST_MESSAGES:
            raise UnsupportedError(
                f"n={crowd.n} users are too few for {sizes[-1]:,} cells: each would send "
                f"{float(sum(rhos)):,.0f} messages"
            )
        return tuple(
            DummiesHistogram.sending(max(rho, Fraction(1, words)), k=size, word_bits=word_bits)
            for rho, size in zip(rhos, sizes, strict=True)
        )

    return search_noise(crowd, promise, len(shape), build, lambda levels: levels)


def search_noise(
    crowd: Crowd,
    promise: Promise,
    depth: int,
    build: Callable[[float], Built],
    levels: Callable[[Built], Sequence[CurvedNoise]],
) -> Built:
    """Return what `build` makes of nearly the smallest noise mu per node whose levels keep the promise together."""
    mu = joint_poisson_level(parts=depth, epsilon=promise.epsilon, delta=promise.delta)
    while True:
        built = build(mu)
        delta = Joint.of(levels(built), promise).guarantee(crowd.trusted).delta
        if delta <= promise.delta:
            return built
        # ln(delta) falls by about 20 while the noise grows by a factor of e^2.
        mu *= math.exp(max(math.log(delta / promise.delta) / 10, 2e-4))


SPEC = register(make, hints=Hints(look=Look.LATE, levels=True))
