r"""Consistent trees: counts at several resolutions, combined by generalised least squares.

A tree of `shape` (b_1, ..., b_T) has b_1 ... b_l nodes at level l. Every node is measured with independent noise of
variance v_l, and the total is known. In the basis of sibling contrasts the least-squares matrix is diagonal, so that
for any weights q of the leaves

    Var(q . leaves) = sum_j |P_j q|^2 / lambda_j,     lambda_j = sum_(i >= j) leaves_i / v_i,

where P_j q is the mean of q over each node of level j less that over its parent, and leaves_i is the number of leaves
below a node of level i. Contrasts sum to zero, so noise that falls like a fixed number of dummies (negatively
correlated within a level) has exactly the same variance.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Bools, Counts, Floats

_DEEPEST = 10
_LOOKED_AT = 1 << 16  # ranks
_AT_ONCE = 4096


class LevelWeights(NamedTuple):
    """The weights of a level's nodes in some sums of leaves: a row for each sum."""

    values: Floats
    """[sums, kinds of nodes]"""
    counts: Floats
    """How many nodes have that weight."""

    def sum_squares(self) -> Floats:
        """Sum the squares of all weights, for each sum."""
        squares: Floats = (self.values**2 * self.counts).sum(axis=1)
        return squares

    def sum_sizes(self) -> Floats:
        """Sum the absolute values of all weights, for each sum."""
        sizes: Floats = (np.abs(self.values) * self.counts).sum(axis=1)
        return sizes


def aggregate(leaves: Counts, shape: Sequence[int]) -> list[Counts]:
    """Return the counts of each level, from the top; missing leaves are empty.

    >>> [level.tolist() for level in aggregate(np.array([1, 2, 3]), (2, 2))]
    [[3, 3], [1, 2, 3, 0]]
    """
    whole = np.zeros(math.prod(shape), dtype=leaves.dtype)
    whole[: len(leaves)] = leaves
    sizes = np.cumprod(shape).tolist()
    return [whole.reshape(size, -1).sum(axis=1) for size in sizes]


def fit_leaves(levels: Sequence[Floats], total: float, variances: Sequence[float]) -> Floats:
    """Return the leaves of the tree that fits all levels best and has exactly this total.

    >>> fit_leaves([np.array([6.0, 5.0]), np.array([1.0, 2.0, 3.0, 4.0])], 10.0, (1.0, 1.0))
    array([1.83333333, 2.83333333, 2.16666667, 3.16666667])
    """
    # Up: each node from its own measurement and from its children.
    sums, spread = [np.asarray(levels[-1], dtype=np.float64)], float(variances[-1])
    branching = [len(b) // len(a) for a, b in pairwise(levels)]
    for measured, variance, children in zip(
        reversed(levels[:-1]), reversed(list(variances[:-1])), reversed(branching), strict=True
    ):
        below, below_variance = sums[0].reshape(-1, children).sum(axis=1), children * spread
        weight = below_variance / (below_variance + variance)
        sums.insert(0, weight * measured + (1 - weight) * below)
        spread = below_variance * variance / (below_variance + variance)
    # Down: siblings share what is missing from their parent.
    parent = np.array([total])
    for nodes in sums:
        families = nodes.reshape(len(parent), -1)
        gap = (parent - families.sum(axis=1)) / families.shape[1]
        parent = (families + gap[:, None]).ravel()
    return parent


def _strengths(shape: Sequence[int], variances: Sequence[float]) -> Floats:
    """Return lambda_j for j = 1 .. T."""
    leaves = [math.prod(shape[level:]) for level in range(1, len(shape) + 1)]
    each = np.array(leaves) / np.array(variances, dtype=np.float64)
    return np.cumsum(each[::-1])[::-1]


def prefix_variances(shape: Sequence[int], variances: Sequence[float]) -> Floats:
    """Return the variance of the sum of the leaves 0 .. c, for every c.

    >>> prefix_variances((2, 2), (1.0, 1.0)).round(4)
    array([0.5833, 0.3333, 0.5833, 0.    ])
    """
    totals = np.zeros(math.prod(shape))
    for level, children, strength in zip(
        _cuts(np.arange(len(totals)), shape), shape, _strengths(shape, variances), strict=True
    ):
        leaves, cut, full, rest, mean = level
        squares = full * (1 - mean) ** 2 + (rest - mean) ** 2 + (children - full - 1) * mean**2
        totals += leaves * np.where(cut, squares, 0.0) / strength
    return totals


def _cuts(
    cells: Counts, shape: Sequence[int]
) -> Iterator[tuple[int, Bools, Counts, Floats, Floats]]:
    """Yield how the prefixes up to these cells end, level by level.

    The leaves below a node; whether a family of siblings is cut; how many of them are in the prefix as a whole, what
    part of the next one is, and what part of the whole family.
    """
    place = np.asarray(cells, dtype=np.int64) + 1
    for level, children in enumerate(shape, start=1):
        leaves = math.prod(shape[level:])
        inside = place % (leaves * children)
        full, rest = inside // leaves, (inside % leaves) / leaves
        yield leaves, inside > 0, full, rest, (full + rest) / children


def functional_variance(q: Floats, shape: Sequence[int], variances: Sequence[float]) -> float:
    """Return the variance of q . leaves; leaves beyond the end of q do not count.

    >>> round(functional_variance(np.array([1.0, 1.0, 1.0]), (2, 2), (1.0, 1.0)), 4)
    0.5833
    """
    variance = 0.0
    for (leaves, contrast), strength in zip(
        _contrasts(q, shape), _strengths(shape, variances).tolist(), strict=True
    ):
        variance += leaves * float(contrast @ contrast) / strength
    return variance


def _contrasts(q: Floats, shape: Sequence[int]) -> Iterator[tuple[int, Floats]]:
    """Yield for each level the number of leaves below a node, and P_j q; leaves beyond the end of q do not count."""
    whole = np.zeros(math.prod(shape))
    whole[: len(q)] = q
    before = np.array([whole.mean()])
    for level, children in enumerate(shape, start=1):
        means = whole.reshape(math.prod(shape[:level]), -1).mean(axis=1)
        yield math.prod(shape[level:]), means - np.repeat(before, children)
        before = means


def mean_prefix_variance(shape: Sequence[int], variances: Sequence[float]) -> float:
    """Return the mean of `prefix_variances` over all leaves, without a list of them.

    With f full children, a part r of the next one, and s = f + r, uniform over the places where a prefix may end, the
    contrasts of a family of b children have the square f + r^2 - s^2 / b.

    >>> round(mean_prefix_variance((2, 2), (1.0, 1.0)), 4), prefix_variances((2, 2), (1.0, 1.0)).mean().round(4)
    (0.375, np.float64(0.375))
    """
    mean = 0.0
    for level, (children, strength) in enumerate(
        zip(shape, _strengths(shape, variances), strict=True), start=1
    ):
        leaves = math.prod(shape[level:])
        square = (
            (children - 1) / 2 + _mean_square(leaves) - children * _mean_square(leaves * children)
        )
        mean += leaves * square / float(strength)
    return mean


def _mean_square(parts: int) -> float:
    """Return the mean square of a number that is uniform on 0, 1/parts, ..., 1 - 1/parts."""
    return (1 - 1 / parts) * (2 - 1 / parts) / 6


def node_weights(
    q: Floats, shape: Sequence[int], variances: Sequence[float]
) -> tuple[LevelWeights, ...]:
    """Return how much the nodes' measurements move q . leaves.

    >>> [level.values.round(4).tolist() for level in node_weights(np.array([1.0, 1.0]), (2, 2), (1.0, 1.0))]
    [[[-0.3333, 0.3333]], [[-0.1667, 0.1667]]]
    """
    sums, weights = np.zeros(1), []
    for (leaves, contrast), strength, variance in zip(
        _contrasts(q, shape), _strengths(shape, variances), variances, strict=True
    ):
        sums = np.repeat(sums, len(contrast) // len(sums)) + contrast / strength
        values, counts = np.unique(leaves / variance * sums, return_counts=True)
        weights.append(LevelWeights(values=values[None], counts=counts[None].astype(np.float64)))
    return tuple(weights)


def leaf_weights(q: Floats, shape: Sequence[int], variances: Sequence[float]) -> list[Floats]:
    """Return how much the measurement of each leaf's own node moves q . leaves, level by level.

    >>> [level.round(4).tolist() for level in leaf_weights(np.array([1.0, 1.0]), (2, 2), (1.0, 1.0))]
    [[0.3333, 0.3333, -0.3333, -0.3333], [0.1667, 0.1667, -0.1667, -0.1667]]
    """
    sums, weights = np.zeros(1), []
    for (leaves, contrast), strength, variance in zip(
        _contrasts(q, shape), _strengths(shape, variances), variances, strict=True
    ):
        sums = np.repeat(sums, len(contrast) // len(sums)) + contrast / strength
        weights.append(np.repeat(leaves / variance * sums, leaves))
    return weights


def prefix_weights(
    cells: Counts, shape: Sequence[int], variances: Sequence[float]
) -> tuple[LevelWeights, ...]:
    """Return the same for the sums of the leaves 0 .. c, for each c: there are few kinds of nodes.

    At every level the nodes beside the way down to the cut are of two kinds, left and right of it.

    >>> [level.values.round(4).tolist() for level in prefix_weights(np.array([1]), (2, 2), (1.0, 1.0))]
    [[[0.3333, -0.3333, -0.3333]], [[0.1667, -0.1667, -0.1667, -0.1667, -0.1667]]]
    """
    way = np.zeros(len(cells))
    values: list[Floats] = []
    counts: list[Floats] = []
    weights = []
    for level, children, strength, variance in zip(
        _cuts(cells, shape), shape, _strengths(shape, variances), variances, strict=True
    ):
        leaves, ends, full, rest, mean = level
        cut = np.where(ends, 1.0, 0.0) / strength
        counts = [each * children for each in counts]
        values += [way + cut * (1 - mean), way - cut * mean]
        counts += [full.astype(np.float64), (children - full - 1).astype(np.float64)]
        way = way + cut * (rest - mean)
        weights.append(
            LevelWeights(
                values=leaves / variance * np.stack([*values, way], axis=1),
                counts=np.stack([*counts, np.ones(len(way))], axis=1),
            )
        )
    return tuple(weights)


def rank_weights(
    cells: int, shape: Sequence[int], variances: Sequence[float]
) -> Iterator[tuple[LevelWeights, ...]]:
    """Yield the same for all cells, some thousand at a time; none where there are too many to look at them all.

    >>> [[level.values.shape for level in some] for some in rank_weights(3, (2, 2), (1.0, 1.0))]
    [[(3, 3), (3, 5)]]
    """
    for start in range(0, cells, _AT_ONCE) if cells <= _LOOKED_AT else ():
        yield prefix_weights(np.arange(start, min(start + _AT_ONCE, cells)), shape, variances)


def even_shapes(cells: int) -> list[tuple[int, ...]]:
    """Yield trees of every depth with at least this many leaves, their branches as even as can be.

    >>> even_shapes(64)[:3]
    [(64,), (8, 8), (4, 4, 4)]
    """
    shapes = []
    for depth in range(1, min(_DEEPEST, cells.bit_length()) + 1):
        branch = max(2, round(cells ** (1 / depth)))
        shape = [branch] * depth
        while math.prod(shape) < cells:
            shape[shape.index(min(shape))] += 1
        for i in range(depth):
            while shape[i] > 2 and math.prod(shape) // shape[i] * (shape[i] - 1) >= cells:
                shape[i] -= 1
        shapes.append(tuple(sorted(shape, reverse=True)))
    return shapes


def choose_even_shape(cells: int, power: int) -> tuple[int, ...]:
    """Return the even shape whose ranks err least, if the variance of a node grows with this power of the depth.

    >>> choose_even_shape(4096, 1), choose_even_shape(4096, 2)
    ((3, 3, 3, 3, 3, 3, 3, 2), (16, 16, 16))
    """
    return min(
        even_shapes(cells),
        key=lambda shape: mean_prefix_variance(shape, [len(shape) ** power] * len(shape)),
    )
