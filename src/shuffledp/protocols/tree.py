r"""The whole distribution of a number: a tree of histograms with uniform dummies.

A grid of D cells is the lowest level of a tree of shape (b_1, ..., b_T), b_1 ... b_T >= D. At every level a device
sends the ancestor of its value there, among uniform dummies (`dummies_histogram`). The levels are a bundle: T views
of one value, independent given the value, so their privacy losses add up. All levels carry the same noise mu per
node; mu is nearly that of Poisson dummies, and the composed curve of the exact law of the dummies is certified.

The analyzer fits the leaves by generalised least squares, with the public n as the root (`numerics.trees`). Estimates
of counts are unbiased, and their variances exact, whatever the data are. Quantiles, ranges, the distribution function,
variance and standard deviation follow from the leaves.

Intervals. A count of people in some cells is off by a sum of independent noise; its interval is the normal one, wider
by the skewness that weights of at most 1 in absolute value allow. That is an approximation, checked by simulation, and
not a bound: `exact_interval` refuses. The interval of a quantile holds every cell c that is not excluded: c is excluded
if the upper end of the count up to c is below p n, or the lower end of the count up to c - 1 is above it, each with
half of the error probability. So it covers as far as the intervals of counts do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np

from shuffledp.accounting.base import find_level
from shuffledp.accounting.compose import compose_delta
from shuffledp.accounting.decreasing_mean import PoissonTotal
from shuffledp.accounting.moved_message import TwoBins, poisson_level
from shuffledp.core.analyzer import Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.cells import Cells
from shuffledp.core.domain import Integers
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.estimate import Estimate, Interval, Value
from shuffledp.core.protocol import Cost, Crowd, NoiseAccountant, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, WordSource
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import number, whole
from shuffledp.numerics.rounding import dyadic_above
from shuffledp.numerics.trees import (
    aggregate,
    fit_leaves,
    functional_variance,
    prefix_variances,
)
from shuffledp.protocols import dummies_histogram
from shuffledp.protocols.assembly import register, shuffle
from shuffledp.protocols.bundle import Joint, gaussian_scale
from shuffledp.protocols.dummies_histogram import DummiesHistogram

__all__ = [
    "SPEC",
    "TASKS",
    "Tree",
    "TreeAnalyzer",
    "TreeFit",
    "choose_shape",
    "joint_poisson_level",
    "make",
]

TASKS = ("quantiles", "range", "cdf", "variance", "std")
"""What the leaves answer."""
_MOST_CELLS = 1 << 22
_MOST_MESSAGES = 10_000.0
_POINTS = 64  # of each curve
_CHEAP = 0.25  # a factor of e in messages is worth this part of one in the error
_DEEPEST = 10


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

    def __post_init__(self) -> None:
        if math.prod(self.shape) < self.domain.size:
            raise ParameterError("shape", self.shape, f"must have {self.domain.size} leaves")

    @property
    def epsilon0(self) -> float:
        return math.inf

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
        costs = [level.cost for level in self.levels]
        return Cost(
            messages_mean=math.fsum(cost.messages_mean for cost in costs),
            messages_max=sum(cost.messages_max for cost in costs),
            bits_per_message=(self.nodes - 1).bit_length(),
            count_depends_on_value=False,
        )

    def _starts(self) -> list[int]:
        return [0, *np.cumsum([level.k for level in self.levels]).tolist()[:-1]]

    def ancestors(self, codes: Codes) -> list[Codes]:
        """The node above each leaf at every level."""
        whole = math.prod(self.shape)
        return [codes // (whole // level.k) for level in self.levels]

    def encode(self, inputs: Codes, words: Words) -> Messages:
        owners, payload, first = [], [], 0
        for level, start, codes in zip(
            self.levels, self._starts(), self.ancestors(inputs), strict=True
        ):
            own = words[:, first : first + level.words_per_input]
            first += level.words_per_input
            sent = level.encode(codes, own)
            owners.append(np.asarray(sent.owner))
            payload.append(sent.payload + start)
        return Messages(
            payload=np.concatenate(payload), owner=np.concatenate(owners), users=len(inputs)
        )

    def pmf(self, x: int) -> Law:
        codes = [int(code[0]) for code in self.ancestors(np.array([x]))]
        laws = [
            {
                tuple(start + int(message) for message in sent): mass  # type: ignore[arg-type]
                for sent, mass in level.pmf(code).items()
            }
            for level, start, code in zip(self.levels, self._starts(), codes, strict=True)
        ]
        joint: Law = {}
        for together in product(*(law.items() for law in laws)):
            sent = tuple(message for one, _ in together for message in one)
            mass = math.prod((mass for _, mass in together), start=Fraction(1))
            joint[sent] = joint.get(sent, Fraction(0)) + mass
        return joint

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Level by level: their dummies are independent."""
        counts = aggregate(inputs, self.shape)
        dealt = [
            level.deal(nodes, source).counts
            for level, nodes in zip(self.levels, counts, strict=True)
        ]
        return Tally(counts=np.concatenate(dealt), users=int(inputs.sum()))


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeFit:
    """The fitted leaves of n people, and how far off counts of cells are."""

    tree: Tree
    leaves: Floats
    """One number for each cell: unbiased, some of them negative."""
    n: int

    @cached_property
    def variances(self) -> tuple[float, ...]:
        """The noise of a node, by level."""
        return tuple(float(self.n * level.rho * level.hit) for level in self.tree.levels)

    @cached_property
    def prefixes(self) -> Floats:
        """How many people are in the cells up to each one; the last is n."""
        found = np.cumsum(self.leaves)
        if len(self.leaves) == math.prod(self.tree.shape):
            found[-1] = self.n
        return found

    @cached_property
    def stderrs(self) -> Floats:
        """Standard errors of the prefixes."""
        every = prefix_variances(self.tree.shape, self.variances)
        return np.sqrt(every[: len(self.leaves)])

    @cached_property
    def edges(self) -> Floats:
        """The ends of the cells; integers are cells that hold one value."""
        domain = self.tree.domain
        if isinstance(domain, Cells):
            return domain.edges
        return np.arange(domain.lower, domain.upper + 2, dtype=np.float64)

    def count_error(self, q: Floats) -> float:
        """Standard error of the sum of the leaves with these weights."""
        return math.sqrt(functional_variance(q, self.tree.shape, self.variances))

    def monotone(self) -> Floats:
        """The prefixes, made monotone and put between 0 and n: halfway between the highest and the lowest way."""
        up = np.maximum.accumulate(self.prefixes)
        down = np.minimum.accumulate(self.prefixes[::-1])[::-1]
        middle: Floats = np.clip((up + down) / 2, 0.0, self.n)
        middle[-1] = self.n
        return middle

    def quantile(self, p: float) -> float:
        """The p-quantile: the integer, or the place inside the cell by interpolation."""
        counts = self.monotone()
        cell = int(np.searchsorted(counts, p * self.n))
        if isinstance(self.tree.domain, Integers):
            return float(self.edges[cell])
        before = counts[cell - 1] if cell else 0.0
        inside = max(counts[cell] - before, 1e-300)
        part = min(max((p * self.n - before) / inside, 0.0), 1.0)
        return float(self.edges[cell] + part * (self.edges[cell + 1] - self.edges[cell]))

    def quantile_interval(self, p: float, tail: float) -> tuple[float, float]:
        """Both ends of the cells that are not excluded, with error probability `tail` on either side."""
        radius = bound_radius(self.stderrs, tail)
        wanted = p * self.n
        too_low = self.prefixes + radius < wanted
        above = self.prefixes - radius > wanted
        too_high = np.concatenate([[False], above[:-1]])
        kept = np.flatnonzero(~(too_low | too_high))
        if len(kept) == 0:  # the noise contradicts itself: say nothing
            kept = np.array([0, len(self.leaves) - 1])
        last = kept[-1] if isinstance(self.tree.domain, Integers) else kept[-1] + 1
        return float(self.edges[kept[0]]), float(self.edges[last])


def bound_radius(stderr: Value, tail: float) -> Any:
    """How far a weighted sum of noise is off, except with probability `tail` on either side.

    The normal quantile z standard errors, and (z^2 - 1) / 6 for a skewness of one over the standard error: the
    largest that weights of at most 1 allow (Cornish, Fisher 1938). An approximation, not a bound.
    """
    z = -NormalDist().inv_cdf(tail)
    return z * np.asarray(stderr) + max(z * z - 1, 0.0) / 6 * (np.asarray(stderr) > 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TreeError:
    """Intervals of what the leaves answer."""

    fit: TreeFit
    analyzer: "TreeAnalyzer"

    @property
    def stderr(self) -> Value:
        return self.analyzer.find_stderr(self.fit)

    def interval(self, value: Value, level: float) -> Interval:
        return self.analyzer.find_interval(self.fit, valid_level(level))

    def exact_interval(self, value: Value, level: float) -> Interval:
        raise UnsupportedError("no exact interval is known for this estimate: use interval()")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAnalyzer:
    """Fits the leaves, and answers what was asked from them."""

    tree: Tree
    task: str = "quantiles"
    at: tuple[float, ...] = (0.5,)
    """The quantiles; for the distribution function the points; for a range its two ends."""

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.tree.nodes)

    def fit(self, tally: Tally) -> TreeFit:
        """The leaves."""
        n, tree = tally.people(), self.tree
        ends = np.cumsum([level.k for level in tree.levels])[:-1]
        levels = [
            counts - np.float64(n * level.rho * level.hit)
            for counts, level in zip(np.split(tally.counts, ends), tree.levels, strict=True)
        ]
        variances = [float(level.rho * level.hit) for level in tree.levels]
        leaves = fit_leaves(levels, float(n), variances)[: tree.domain.size]
        return TreeFit(tree=tree, leaves=leaves, n=n)

    def estimate(self, tally: Tally) -> Estimate:
        fit = self.fit(tally)
        value = self._answer(fit)
        return Estimate(
            value=value,
            error=_TreeError(fit=fit, analyzer=self),
            limits=self._limits(fit),
            labels=self._labels(),
        )

    def _labels(self) -> tuple[str, ...] | None:
        if self.task == "quantiles":
            return tuple(f"{p:g}" for p in self.at)
        if self.task == "cdf":
            return tuple(f"<= {point:g}" for point in self.at)
        return None

    def _limits(self, fit: TreeFit) -> tuple[float, float]:
        lower, upper = float(fit.edges[0]), float(self.tree.domain.upper)
        if self.task == "quantiles":
            return lower, upper
        if self.task == "cdf":
            return 0.0, 1.0
        if self.task == "range":
            return 0.0, float(fit.n)
        spread = (upper - lower) / 2
        return 0.0, spread**2 if self.task == "variance" else spread

    def _answer(self, fit: TreeFit) -> Value:
        if self.task == "quantiles":
            return np.array([fit.quantile(p) for p in self.at])
        if self.task == "cdf":
            return fit.prefixes[self._cells(fit)] / fit.n
        if self.task == "range":
            return float(fit.leaves @ self._between(fit))
        variance = self._variance(fit)
        return variance if self.task == "variance" else math.sqrt(max(variance, 0.0))

    def _cells(self, fit: TreeFit) -> Counts:
        """The last cell that lies below each point."""
        domain = self.tree.domain
        if isinstance(domain, Integers):
            found = np.floor(np.array(self.at)).astype(np.int64) - domain.lower
        else:
            found = np.searchsorted(fit.edges, np.array(self.at), side="right") - 2
        cells: Counts = np.clip(found, 0, domain.size - 1)
        return cells

    def _between(self, fit: TreeFit) -> Floats:
        low, high = self.at
        domain = self.tree.domain
        if isinstance(domain, Integers):
            values = fit.edges[:-1]
            return ((values >= low) & (values <= high)).astype(np.float64)
        middles = (fit.edges[:-1] + fit.edges[1:]) / 2
        return ((middles >= low) & (middles <= high)).astype(np.float64)

    def _moments(self, fit: TreeFit) -> tuple[Floats, Floats]:
        """Weights of the leaves for the first and the second moment around the middle of the range."""
        middles = (
            fit.edges[:-1]
            if isinstance(self.tree.domain, Integers)
            else fit.edges[:-1] + (fit.edges[1] - fit.edges[0]) / 2
        )
        from_centre = middles - (middles[0] + middles[-1]) / 2
        return from_centre, from_centre**2

    def _variance(self, fit: TreeFit) -> float:
        first, second = self._moments(fit)
        mean = float(fit.leaves @ first) / fit.n
        return float(fit.leaves @ second) / fit.n - mean * mean

    def find_interval(self, fit: TreeFit, level: float) -> Interval:
        """Both ends, each with half of the error probability; for the distribution function all points at once."""
        tail = (1 - level) / 2
        if self.task == "quantiles":
            ends = [fit.quantile_interval(p, tail) for p in self.at]
            return Interval(
                np.array([low for low, _ in ends]), np.array([high for _, high in ends])
            )
        if self.task == "cdf":
            cells = self._cells(fit)
            radius = bound_radius(fit.stderrs[cells], tail / len(cells)) / fit.n
            share = fit.prefixes[cells] / fit.n
            return Interval(np.clip(share - radius, 0, 1), np.clip(share + radius, 0, 1))
        if self.task == "range":
            weights = self._between(fit)
            value, radius = (
                float(fit.leaves @ weights),
                bound_radius(fit.count_error(weights), tail),
            )
            return Interval(float(value - radius), float(value + radius))
        return self._variance_interval(fit, tail / 2)

    def _variance_interval(self, fit: TreeFit, tail: float) -> Interval:
        """From intervals of both moments, which hold together."""
        first, second = self._moments(fit)
        scale, ends = float(np.max(np.abs(first))), []
        for weights, size in ((first, scale), (second, scale**2)):
            value = float(fit.leaves @ weights) / fit.n
            radius = float(bound_radius(fit.count_error(weights / size), tail)) * size / fit.n
            ends.append((value - radius, value + radius))
        (mean_low, mean_high), (square_low, square_high) = ends
        largest = max(mean_low**2, mean_high**2)
        smallest = 0.0 if mean_low <= 0 <= mean_high else min(mean_low**2, mean_high**2)
        low, high = max(0.0, square_low - largest), max(0.0, square_high - smallest)
        if self.task == "std":
            return Interval(math.sqrt(low), math.sqrt(high))
        return Interval(low, high)

    def find_stderr(self, fit: TreeFit) -> Value:
        """Of a quantile, half the length of its interval of one standard error."""
        if self.task == "cdf":
            return fit.stderrs[self._cells(fit)] / fit.n
        if self.task == "range":
            return fit.count_error(self._between(fit))
        if self.task == "quantiles":
            low, high = self.find_interval(fit, _ONE_SIGMA)
            return np.asarray((np.asarray(high) - np.asarray(low)) / 2, dtype=np.float64)
        first, second = self._moments(fit)
        mean = float(fit.leaves @ first) / fit.n
        variance_error = fit.count_error(second - 2 * mean * first) / fit.n
        if self.task == "variance":
            return variance_error
        return variance_error / (2 * math.sqrt(max(self._variance(fit), 1e-300)))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError("a fitted tree has no weights of single messages")

    def variance(self, inputs: Counts) -> Value:
        """That of a count of people, whatever the data are; of a quantile, of its rank: the mean over all cells."""
        n = int(inputs.sum())
        fit = TreeFit(tree=self.tree, leaves=np.zeros(self.tree.domain.size), n=n)
        if self.task == "quantiles":
            return float(np.mean(fit.stderrs[:-1] ** 2))
        if self.task == "cdf":
            return float(np.mean((fit.stderrs[self._cells(fit)] / n) ** 2))
        if self.task == "range":
            return fit.count_error(self._between(fit)) ** 2
        first, second = self._moments(fit)
        scale = float(np.max(np.abs(first)))
        error = fit.count_error(second) + 2 * scale * fit.count_error(first)
        return (error / n) ** 2 if self.task == "variance" else error**2 / n**2 / scale**2


_ONE_SIGMA = math.erf(1 / math.sqrt(2))


@lru_cache(maxsize=64)
def joint_poisson_level(*, parts: int, epsilon: float, delta: float) -> float:
    """The smallest mu, within a part in 2,000, such that Poisson(mu) dummies per bin of so many histograms suffice.

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
        guess=_guess_level(parts, epsilon, delta),
        largest=1e9,
        refusal=f"epsilon={epsilon!r} needs more noise than this routine handles",
        tolerance=5e-4,
    )


@lru_cache(maxsize=64)
def _guess_level(parts: int, epsilon: float, delta: float) -> float:
    """About the same: each further part costs 2 / g^2, g the parameter of a Gaussian pair with this promise."""
    scale = gaussian_scale(Promise(epsilon=epsilon, delta=delta))
    return poisson_level(epsilon=epsilon, delta=delta) + (parts - 1) * 2 / scale**2


def choose_shape(cells: int, crowd: Crowd, promise: Promise) -> tuple[int, ...]:
    """The shape of nearly the smallest error of a rank, where messages count a little.

    >>> choose_shape(4096, Crowd(n=10**6, honest=1.0), Promise(epsilon=1.0, delta=1e-8))
    (8, 8, 8, 8)
    """

    def merit(shape: tuple[int, ...]) -> float:
        mu = _guess_level(len(shape), promise.epsilon, promise.delta)
        # The errors do not depend on where the prefixes end, but their mean needs few of them.
        sent = math.fsum(
            1 + mu * math.prod(shape[:i]) / crowd.trusted for i in range(1, len(shape) + 1)
        )
        error = math.sqrt(
            mu * math.fsum((b - 1 / b) / 6 * _gain(shape, i) for i, b in enumerate(shape))
        )
        return math.log(error) + _CHEAP * math.log(sent)

    return min(_shapes(cells), key=merit)


def _gain(shape: tuple[int, ...], place: int) -> float:
    """leaves_j / lambda_j with v = 1: what the levels below leave of a level's noise."""
    leaves = [math.prod(shape[level:]) for level in range(place + 1, len(shape) + 1)]
    return leaves[0] / sum(leaves)


def _shapes(cells: int) -> list[tuple[int, ...]]:
    """Trees of every depth whose branches are as even as they can be."""
    found = []
    for depth in range(1, min(_DEEPEST, cells.bit_length()) + 1):
        branch = max(2, round(cells ** (1 / depth)))
        shape = [branch] * depth
        while math.prod(shape) < cells:
            shape[shape.index(min(shape))] += 1
        for i in range(depth):
            while shape[i] > 2 and math.prod(shape) // shape[i] * (shape[i] - 1) >= cells:
                shape[i] -= 1
        found.append(tuple(sorted(shape, reverse=True)))
    return found


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
    """The distribution of integers lower .. upper, or of reals in `steps` cells, for what `task` asks.

    `levels` are the epsilons that the histograms of the levels keep on their own, at the common delta; without them
    all levels get the same noise, the least that keeps the promise.

    >>> p = make(n=100_000, lower=0, upper=240, epsilon=1.0, delta=1e-8)
    >>> p.parameters["shape"], round(p.cost.messages_mean, 1)
    ([7, 6, 6], 3.5)
    """
    domain = _read_domain(lower, upper, steps)
    if task not in TASKS:
        raise ParameterError("task", task, f"must be one of {', '.join(TASKS)}")
    points = read_points(task, at, domain)
    if domain.size > _MOST_CELLS:
        sent = _guess_level(3, promise.epsilon, promise.delta) * domain.size / crowd.trusted
        raise UnsupportedError(
            f"{domain.size:,} cells are too many: everybody would send {sent:,.0f} messages; "
            f"trees have up to {_MOST_CELLS:,} cells, and `steps` chooses fewer"
        )
    chosen = choose_shape(domain.size, crowd, promise) if shape is None else _read_shape(shape)
    if levels is None:
        devices = _fit_levels(crowd, promise, chosen, word_bits)
    else:
        devices = _make_levels(crowd, promise, chosen, levels, word_bits)
    tree = Tree(domain=domain, shape=chosen, levels=devices)
    accountant = Joint(
        parts=tuple(NoiseAccountant(device=each, epsilon=promise.epsilon) for each in devices),
        promise=promise,
    )
    return Parts(
        tree,
        TreeAnalyzer(tree=tree, task=task, at=points),
        accountant=accountant,
        task=task,
        resolved={"shape": list(chosen), "at": list(points)},
    )


def _read_domain(lower: float, upper: float, steps: int | None) -> Integers | Cells:
    if steps is not None:
        return Cells(lower=lower, upper=upper, cells=whole("steps", steps, at_least=2))
    return Integers(lower=lower, upper=upper)  # type: ignore[arg-type]


def _read_shape(shape: Sequence[int]) -> tuple[int, ...]:
    if not shape:
        raise ParameterError("shape", shape, "must have at least one level")
    return tuple(whole("shape", branches, at_least=2) for branches in shape)


def read_points(
    task: str, at: Sequence[float] | None, domain: Integers | Cells
) -> tuple[float, ...]:
    """The quantiles, points or ends that a task wants, checked; its own choice for None.

    >>> read_points("quantiles", [0.5, 1.5], Integers(lower=0, upper=9))
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: at=1.5 must be > 0 and < 1
    """
    if task in ("variance", "std"):
        return ()
    if at is None:
        return _choose_points(task, domain)
    points = tuple(number("at", point) for point in at)
    if not points:
        raise ParameterError("at", at, "must be at least one number")
    for point in points:
        _check_point(task, point, domain)
    if task == "range" and (len(points) != 2 or points[0] > points[1]):
        raise ParameterError("at", at, "must be the two ends of the range, the lower one first")
    return points


def _choose_points(task: str, domain: Integers | Cells) -> tuple[float, ...]:
    if task == "quantiles":
        return (0.5,)
    if task == "range":
        raise ParameterError("at", None, "must be the two ends of the range")
    return tuple(np.linspace(float(domain.lower), float(domain.upper), 21)[1:].tolist())


def _check_point(task: str, point: float, domain: Integers | Cells) -> None:
    if task == "quantiles" and not 0 < point < 1:
        raise ParameterError("at", point, "must be > 0 and < 1")
    if task != "quantiles" and not domain.lower <= point <= domain.upper:
        raise ParameterError("at", point, f"must be within {domain.lower} .. {domain.upper}")


def _make_levels(
    crowd: Crowd,
    promise: Promise,
    shape: tuple[int, ...],
    epsilons: Sequence[float],
    word_bits: int,
) -> tuple[DummiesHistogram, ...]:
    """Levels that each keep an epsilon of their own."""
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
    """Levels with the same noise per node, nearly the least that keeps the promise."""
    words = 1 << whole("word_bits", word_bits, at_least=1, at_most=64)
    sizes = np.cumprod(shape).tolist()
    if sizes[-1] > words:
        raise ParameterError("word_bits", word_bits, f"must be enough for {sizes[-1]} nodes")
    mu = joint_poisson_level(parts=len(shape), epsilon=promise.epsilon, delta=promise.delta)
    while True:
        rhos = [dyadic_above(mu * size / crowd.trusted, word_bits) for size in sizes]
        if sum(rhos) > _MOST_MESSAGES:
            raise UnsupportedError(
                f"n={crowd.n} users are too few for {sizes[-1]:,} cells: each would send "
                f"{float(sum(rhos)):,.0f} messages"
            )
        levels = tuple(
            DummiesHistogram.sending(max(rho, Fraction(1, words)), k=size, word_bits=word_bits)
            for rho, size in zip(rhos, sizes, strict=True)
        )
        accountants = tuple(
            NoiseAccountant(device=each, epsilon=promise.epsilon) for each in levels
        )
        delta = Joint(parts=accountants, promise=promise).delta(crowd.trusted, promise.epsilon)
        if delta <= promise.delta:
            return levels
        # ln(delta) falls by about 20 while the noise grows by a factor of e^2.
        mu *= math.exp(max(math.log(delta / promise.delta) / 10, 2e-4))


SPEC = register(make)
