"""How a group of users becomes numbers: with a trusted curator, with local reports, with a shuffler.

An observer looks at the values of real users, simulates what it would observe of users whose values
are independent draws from some law (many groups at once), and says how far what it observed is from
uniform. The simulation has the law of the protocol; a test compares the two.

With one message per user, messages are independent draws from Q = sum_x p_x R(x) if values are draws from p, and the
tally of n users is one multinomial number. So a thousand crowds cost no more than their tallies.

In arrays the last axis is over the cells (or the categories), all axes before it are runs.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Codes, Counts, Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.local import tally
from shuffledp.mechanisms.geometric import Geometric
from shuffledp.numerics.rounding import float_above
from shuffledp.protocols.correlated_histogram import CorrelatedHistogram
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.hadamard import HadamardResponse
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.pure_count import PureCount
from shuffledp.protocols.rr import RR

_SHORT = 512  # blocks up to this length: a matrix product is faster than the fast transform
_FEW_BALLS = 1 << 10  # which are let fall one by one
_MISSING = 6.0  # standard deviations: hardly ever are there too many balls already


class Observer(Protocol):
    """How the values 0 .. cells-1 of a group become numbers."""

    @property
    def cells(self) -> int:
        """How many different values there are."""

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised to each user of the group; None: nothing."""

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        """Return what the analyzer learns of these values: observed[...]."""

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        """Return the same for n values from p[cells] or, run by run, from p[runs, cells]: [runs, ...]."""

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        """Return how far observed[..., :] of n users is from the law r; larger is further."""


def multinomials(generator: np.random.Generator, n: int, p: Floats, runs: int) -> Counts:
    """Return counts[runs, cells] of n draws from p[cells], or from p[runs, cells].

    >>> multinomials(np.random.default_rng(1), 5, np.array([1.0, 0.0]), 2)
    array([[5, 0],
           [5, 0]])
    """
    if 2 * n < p.shape[-1]:
        return _few(generator, n, p, runs)
    law = p / p.sum(axis=-1, keepdims=True)
    rows: Counts = generator.multinomial(n, law, runs if p.ndim == 1 else None)
    return rows


def _few(generator: np.random.Generator, n: int, p: Floats, runs: int) -> Counts:
    """Draw one by one, by inversion: faster if there are more cells than draws."""
    cells = p.shape[-1]
    ends = np.cumsum(p, axis=-1)
    rows = np.empty((runs, cells), dtype=np.int64)
    for run, upto in enumerate(np.broadcast_to(ends, (runs, cells))):
        drawn = np.sort(generator.random(n)) * upto[-1]
        cells_drawn = np.searchsorted(upto, drawn, side="right")
        rows[run] = np.bincount(np.minimum(cells_drawn, cells - 1), minlength=cells)
    return rows


class OneMessage(Protocol):
    """What a tester must know of a randomizer with one message."""

    def law(self, p: Floats) -> Floats:
        """Return Q[..., message] if values have the law p[..., category]."""

    def supports(self, tallies: Counts | Floats) -> Floats:
        """Return how many messages of tallies[..., message] lie in the likely set of each category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RRMessages:
    """Randomized response on bits: the message is the likely set.

    >>> RRMessages(randomizer=RR(epsilon0=1.0)).law(np.array([0.5, 0.5]))
    array([0.5, 0.5])
    """

    randomizer: RR | KRR
    """With two values the two are one law."""

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
    """Return the last axis times the Sylvester-Hadamard matrix of its length, a power of two."""
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


@lru_cache(maxsize=16)
def _matrix(length: int) -> Floats:
    matrix = np.ones((1, 1))
    while len(matrix) < length:
        matrix = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """No privacy at all: the counts, and their collisions.

    >>> from shuffledp import SeededWords
    >>> Exact(cells=3).observe(np.array([0, 2, 2]), SeededWords(1))
    array([1., 0., 2.])
    """

    cells: int

    @property
    def guarantee(self) -> None:
        return None

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        return _count(values, self.cells).astype(np.float64)

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        return multinomials(generator, n, p, runs).astype(np.float64)

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        return collisions(observed, r, n=n)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyDeviation:
    """A curator releases one number: how far the counts are from equal, with discrete Laplace noise.

    The number is `total_deviation`, whose sensitivity is 2 min(n, k); pure epsilon-DP.
    Reference: Acharya, Sun, Zhang 2018, "Differentially private testing of identity and closeness of
    discrete distributions" (the statistic; they release one noisy bit).
    """

    cells: int
    mechanism: Geometric

    @property
    def guarantee(self) -> Guarantee:
        return self.mechanism.guarantee

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        exact = total_deviation(_count(values, self.cells), n=len(values))
        return np.array([self.mechanism.release(int(exact), rng).value])

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        deviation = total_deviation(multinomials(generator, n, p, runs), n=n)
        noise = _laplace(self.mechanism, (runs,), generator)
        return (deviation + noise).astype(np.float64)[:, None]

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        return observed[..., 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCounts:
    """A curator releases every count with discrete Laplace noise; pure epsilon-DP."""

    mechanism: Geometric

    @property
    def cells(self) -> int:
        return self.mechanism.k

    @property
    def guarantee(self) -> Guarantee:
        return self.mechanism.guarantee

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        return np.asarray(self.mechanism.release(_count(values, self.cells), rng).value)

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        counts = multinomials(generator, n, p, runs)
        return (counts + _laplace(self.mechanism, counts.shape, generator)).astype(np.float64)

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        return collisions(observed, r, n=n, noise_variance=self.mechanism.variance())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shuffled:
    """A protocol whose codes are the cells, and what it promises."""

    protocol: ShuffleProtocol

    @property
    def cells(self) -> int:
        return self.protocol.randomizer.domain.size

    @property
    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports(_Shuffled):
    """One message from each user, local or shuffled; the collisions of the categories' likely sets.

    A message supports the categories in whose likely sets it is. Among all quadratic statistics of the
    tally this one has the largest mean over its standard deviation for a random distribution at a
    given distance: its matrix is that of the signal.
    """

    messages: OneMessage

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        return tally(self.protocol, values, rng).counts.astype(np.float64)

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        law = self.messages.law(p)
        return multinomials(generator, n, law, runs).astype(np.float64)

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        expected = self.messages.supports(self.messages.law(r))
        return collisions(self.messages.supports(observed), expected, n=n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged(_Shuffled):
    """Every device draws one of G groups and sends the pair (group, report): one shuffle for everybody.

    So the guarantee counts on honest people among all, and on no group having its share of them. It is that of the
    untagged report among all n: the blanket of the pair is that of the report, spread evenly over the groups. If two
    values fall into the same part of some group, these messages say less. For a report whose likelihood takes two
    values that can only lower the bound: with A and B the likelihoods of the two values over the blanket, A - E B is
    larger in convex order than (1 - E) A, because B - E[A | B] does not fall with B (docs/theory/testing.md).
    """

    messages: OneMessage
    groups: int
    """A power of two, so that a few bits are a uniform group."""
    added: float
    """What the words of the group add to delta."""

    def __post_init__(self) -> None:
        if self.groups & (self.groups - 1):
            raise ParameterError("groups", self.groups, "must be a power of two")

    @property
    def guarantee(self) -> Guarantee:
        promised = self.protocol.guarantee
        delta = float_above(Fraction(promised.delta) + Fraction(self.added))
        return replace(
            promised, delta=delta, proof=f"{promised.proof}; each device draws its group"
        )

    def draw(self, n: int, rng: WordSource) -> Codes:
        """Return the group of each device, uniform."""
        drawn: Codes = (rng.words(n, 8) & np.uint8(self.groups - 1)).astype(np.int64)
        return drawn

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        """Return the tallies of all groups, one after the other; values[n, 2] are group and part of each user."""
        mine = [values[values[:, 0] == group, 1] for group in range(self.groups)]
        nobody = np.zeros_like(self.messages.law(np.full(self.cells, 1 / self.cells)))
        tallies = [tally(self.protocol, each, rng).counts if len(each) else nobody for each in mine]
        return np.concatenate(tallies).astype(np.float64)

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        """Simulate observations, given p[groups, ..., cells]: the law of the parts of each group."""
        law = np.concatenate([self.messages.law(each) for each in p], axis=-1) / self.groups
        return multinomials(generator, n, law, runs).astype(np.float64)

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        """Sum the groups' collisions, each computed with the number of people in the group, which is no secret.

        With n / G in its place the statistic would also see how unequal the groups are, which says nothing of the law.
        """
        tallies = observed.reshape(*observed.shape[:-1], self.groups, -1)
        people = tallies.sum(axis=-1, keepdims=True)  # [..., groups, 1]
        seen = self.messages.supports(tallies)  # [..., groups, cells]
        expected = self.messages.supports(self.messages.law(r))
        terms = np.square(seen - people * expected) - seen * (1 - 2 * expected)
        terms -= people * np.square(expected)
        # In one order of memory, as in `collisions`.
        return np.asarray(
            np.ascontiguousarray(terms.reshape(*observed.shape[:-1], -1)).sum(axis=-1)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dummies(_Shuffled):
    """Every user sends the value and uniform dummies; the collisions of the counts."""

    randomizer: DummiesHistogram

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        return tally(self.protocol, values, rng).counts.astype(np.float64)

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        noise = self.randomizer
        tried = n * noise.surely + generator.binomial(n, float(noise.more), runs)
        hit = np.full(self.cells + 1, float(noise.hit))
        hit[-1] = float(1 - self.cells * noise.hit)
        dummies = generator.multinomial(tried, hit / hit.sum())[:, :-1]
        return (multinomials(generator, n, p, runs) + dummies).astype(np.float64)

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        mean = n * float(sum(times * chance for times, chance in self.randomizer.noise))
        return collisions(
            observed, r, n=n, noise_mean=mean, noise_variance=_variance(self.protocol, n)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyDummies:
    """`Dummies` on very many equally likely cells: its statistic needs only two sums of the counts.

    What is observed is sum_j c_j and sum_j c_j^2. The simulation knows of no single cell: it draws how many of them
    hold 0, 1, 2, ... dummies (`draw_occupancy`), and people fall upon cells of these kinds.
    """

    dense: Dummies

    @property
    def cells(self) -> int:
        return self.dense.cells

    @property
    def guarantee(self) -> Guarantee:
        return self.dense.guarantee

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        counts = tally(self.dense.protocol, values, rng).counts
        return _sum_powers(np.bincount(counts))

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        noise = self.dense.randomizer
        tried = n * noise.surely + generator.binomial(n, float(noise.more), runs)
        sent = generator.binomial(tried, float(self.cells * noise.hit))
        laws = [_find_kinds(p)] * runs if p.ndim == 1 else map(_find_kinds, p)
        occupancies = [
            _raise_cells(
                draw_occupancy(int(dummies), self.cells, generator),
                _draw_people(n, *kinds, generator),
                generator,
            )
            for kinds, dummies in zip(laws, sent, strict=True)
        ]
        return np.array([_sum_powers(occupancy) for occupancy in occupancies])

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        """Return `collisions` with r = 1 / cells, its square expanded: equal sums give equal statistics, bit by
        bit.
        """
        noise, each = self.dense.randomizer.noise, 1 / self.cells
        mean = n * float(sum(times * chance for times, chance in noise))
        centre = mean + n * each
        total, squares = observed[..., 0], observed[..., 1]
        linear = 2 * centre + 1 - 2 * each
        constant = self.cells * (
            centre**2 + mean * (1 - 2 * each) - n * each**2 - _variance(self.dense.protocol, n)
        )
        return np.asarray(squares - linear * total + constant)


def draw_occupancy(balls: int, cells: int, generator: np.random.Generator) -> Counts:
    """Return how many of the cells hold 0, 1, 2, ... balls, if each ball falls into any of them.

    A Poisson number of balls, a little fewer than are wanted, makes the cells independent: how many hold each number
    is multinomial. Given how many balls that were, they fell uniformly, and so do those that are still missing.

    >>> occupancy = draw_occupancy(1000, 400, np.random.default_rng(1))
    >>> occupancy.sum(), occupancy @ np.arange(len(occupancy))
    (np.int64(400), np.int64(1000))
    """
    mean = max(0.0, balls - _MISSING * math.sqrt(balls)) / cells
    numbers = np.arange(int(mean + 12 * math.sqrt(mean)) + 40)
    steps = np.log(np.maximum(mean, 1e-300) / np.maximum(numbers, 1))
    steps[0] = -mean
    law = np.exp(np.cumsum(steps))
    while True:
        occupancy = generator.multinomial(cells, law / law.sum())
        missing = balls - int(occupancy @ numbers)
        if missing >= 0:
            break
    if missing > _FEW_BALLS:
        return _raise_cells(occupancy, draw_occupancy(missing, cells, generator), generator)
    fallen = np.unique(generator.integers(cells, size=missing), return_counts=True)[1]
    repeats = np.bincount(fallen, minlength=1)
    repeats[0] = cells - len(fallen)
    return _raise_cells(occupancy, repeats, generator)


def _find_kinds(p: Floats) -> tuple[Floats, Counts]:
    """Return the probabilities that occur in p, and how many cells have each."""
    levels, cells = np.unique(p, return_counts=True)
    return levels, cells.astype(np.int64)


def _draw_people(n: int, levels: Floats, cells: Counts, generator: np.random.Generator) -> Counts:
    """Return how many cells hold 0, 1, 2, ... of n people, if cells[i] of the cells have probability levels[i] each."""
    if len(levels) == 1:
        return draw_occupancy(n, int(cells[0]), generator)
    masses = levels * cells
    people = generator.multinomial(n, masses / masses.sum())
    parts = [
        draw_occupancy(some, many, generator)
        for some, many in zip(people.tolist(), cells.tolist(), strict=True)
    ]
    total = np.zeros(max(map(len, parts)), dtype=np.int64)
    for part in parts:
        total[: len(part)] += part
    return total


def _raise_cells(occupancy: Counts, more: Counts, generator: np.random.Generator) -> Counts:
    """Let more[j] of the cells, at random, hold j balls more; more sums to the number of cells."""
    left = occupancy.copy()
    raised = np.zeros(len(occupancy) + len(more) - 1, dtype=np.int64)
    for extra in range(len(more) - 1, 0, -1):
        if more[extra]:
            chosen = generator.multivariate_hypergeometric(left, more[extra], method="marginals")
            left -= chosen
            raised[extra : extra + len(left)] += chosen
    raised[: len(left)] += left
    return raised


def _sum_powers(occupancy: Counts) -> Floats:
    """Return sum_j c_j and sum_j c_j^2 over the cells."""
    numbers = np.arange(len(occupancy))
    return np.array([occupancy @ numbers, occupancy @ numbers**2], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlated(_Shuffled):
    """Noise messages of both signs, in every cell nearly discrete Laplace; the collisions of the counts.

    The simulation draws the noise of a cell as a difference of two negative binomials, from which the
    device's tables are less than 10^-12 away.
    """

    randomizer: CorrelatedHistogram

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        signed = tally(self.protocol, values, rng).counts
        return (signed[1::2] - signed[::2]).astype(np.float64)

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        events = self.randomizer.noise
        counts = multinomials(generator, n, p, runs)
        noise = [
            generator.negative_binomial(n * float(events.share), 1 - events.p, counts.shape)
            for _ in range(2)
        ]
        return (counts + noise[0] - noise[1]).astype(np.float64)

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        return collisions(observed, r, n=n, noise_variance=_variance(self.protocol, n))


@dataclass(frozen=True, slots=True, kw_only=True)
class PureCells:
    """A pure count of every cell, each with half of epsilon: delta = 0; the collisions of the estimates.

    Cells have noise of their own, and replacing a value changes two of them: e^(epsilon/2) times e^(epsilon/2). Messages
    carry their cell, so everybody sends cells times d bits.
    """

    cells: int
    protocol: ShuffleProtocol
    randomizer: PureCount

    @property
    def guarantee(self) -> Guarantee:
        half = self.protocol.guarantee
        proof = f"two cells with half of epsilon each, by {half.proof}"
        return replace(half, epsilon=2 * half.epsilon, proof=proof)

    def observe(self, values: Codes, rng: WordSource) -> Floats:
        analyzer = self.protocol.analyzer
        estimates = [
            analyzer.estimate(tally(self.protocol, (values == cell).astype(np.int64), rng)).value
            for cell in range(self.cells)
        ]
        return np.array(estimates, dtype=np.float64)

    def simulate(self, p: Floats, n: int, runs: int, generator: np.random.Generator) -> Floats:
        counts = multinomials(generator, n, p, runs)
        noise = self.randomizer
        rate, law = float(noise.rate), np.array(noise.noise, dtype=np.float64)
        holders = generator.binomial(counts, rate)
        noisy = holders + generator.binomial(n - counts, rate)
        drawn = generator.choice(len(law), size=int(noisy.sum()), p=law / law.sum()) - noise.d / 2
        sums = np.bincount(np.repeat(np.arange(noisy.size), noisy.ravel()), drawn, noisy.size)
        # Whoever draws no noise is 1/2 above or below the middle d/2.
        quiet = (counts - holders) / 2 - (n - counts - (noisy - holders)) / 2
        middle = sums.reshape(noisy.shape) + quiet
        return np.asarray(middle / (1 - rate) + n / 2)

    def statistic(self, observed: Floats, r: Floats, n: int) -> Floats:
        return collisions(observed, r, n=n, noise_variance=self.randomizer.variance(n))


def _count(values: Codes, cells: int) -> Counts:
    return np.bincount(values, minlength=cells)


def _variance(protocol: ShuffleProtocol, n: int) -> float:
    """Return the variance of the noise in one cell; it does not depend on the data."""
    inputs = np.zeros(protocol.randomizer.domain.size, dtype=np.int64)
    inputs[0] = n
    return float(np.asarray(protocol.analyzer.variance(inputs))[0])


def _laplace(
    mechanism: Geometric, shape: tuple[int, ...], generator: np.random.Generator
) -> Counts:
    """Simulate discrete Laplace noise: a difference of two geometric numbers. Never for real data."""
    stop = -np.expm1(-float(mechanism.noise.rate))
    return generator.geometric(stop, shape) - generator.geometric(stop, shape)


def collisions(
    counts: ArrayLike,
    expected: ArrayLike,
    *,
    n: int,
    noise_mean: float = 0.0,
    noise_variance: float = 0.0,
) -> Floats:
    r"""Return an unbiased estimate of n (n - 1) times the squared distance of two vectors of probabilities.

    Each of n independent users adds 1 to cell j with probability Q_j (to any number of cells, or to
    none), noise of known mean and variance is added to every cell, and `expected` is r. With c_j the
    count of cell j less the mean of its noise,

        Z = sum_j (c_j - n r_j)^2 - c_j (1 - 2 r_j) - n r_j^2 - noise_variance,
        E[Z] = n (n - 1) sum_j (Q_j - r_j)^2,

    as each pair of two users adds (1[first in j] - r_j) (1[second in j] - r_j), and what the squares
    add besides, the users paired with themselves and the noise, is subtracted. Without noise, and one
    cell for each user, it is the number of pairs that collide, less what r lets expect.

    >>> collisions([3, 1], [0.5, 0.5], n=4)
    array(0.)
    >>> collisions([[4, 0], [2, 2]], [0.5, 0.5], n=4)
    array([ 6., -2.])
    """
    r = np.asarray(expected, dtype=np.float64)
    centred: Floats = np.asarray(counts) - np.float64(noise_mean)
    # In one order of memory: equal counts get equal statistics, bit by bit, in one run and in many.
    terms = np.ascontiguousarray(np.square(centred - n * r) - centred * (1 - 2 * r))
    constant = n * np.square(r).sum() + r.size * noise_variance
    return np.asarray(terms.sum(axis=-1) - constant)


def total_deviation(counts: Counts, *, n: int) -> Counts:
    """Return sum_j |k N_j - n|: 2 k n times the total variation distance of the counts from uniform.

    Replacing one user changes it by at most 2 min(n, k). By 2 k: two of the N_j change by one. By 2 n if
    n <= k: then it is 2 n times the number of empty cells, which changes by at most one.

    >>> total_deviation(np.array([[3, 1, 0], [2, 1, 1]]), n=4)
    array([10,  4])
    """
    k = counts.shape[-1]
    deviation: Counts = np.abs(k * counts - n).sum(axis=-1)
    return deviation
