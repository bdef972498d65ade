"""Trees of histograms: ranks, quantiles, and intervals that cover."""

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.core.domain import Cells
from shuffledp.numerics import leaves as leaves_module
from shuffledp.numerics.leaves import Leaves, ask_leaves
from shuffledp.protocols import tree
from shuffledp.testing import ALPHA, Examples
from support import first

TINY = {"n": 2, "lower": 0, "upper": 2, "shape": [2, 2], "honest": 1.0, "word_bits": 2}
EXAMPLES = Examples(
    tree.SPEC,
    shuffled=(
        {"n": 20_000, "lower": 0, "upper": 59, "epsilon": 1.0, "delta": 1e-6},
        {
            "n": 5000,
            "lower": -1.0,
            "upper": 1.0,
            "steps": 32,
            "epsilon": 2.0,
            "delta": 1e-5,
            "at": [0.5],
        },
    ),
    shuffled_tiny=(
        {**TINY, "epsilon": 2.5, "delta": 0.8},
        {**TINY, "epsilon": 1.0, "delta": 0.75},
    ),
)
RUNS = 400


@pytest.fixture(scope="module")
def made():
    return tree.make(n=20_000, lower=0, upper=63, shape=[8, 8], epsilon=1.0, delta=1e-6)


def skewed(n, seed=3):
    """Many ties at 0, a long tail, and a hole between 20 and 40."""
    values = np.random.default_rng(seed).exponential(6, n).astype(np.int64)
    values[values > 20] += 20
    return np.minimum(values, 63)


def test_ranks_are_unbiased_and_their_variance_is_exact(made):
    values = skewed(20_000)
    counts = np.bincount(values, minlength=64)
    source = sdp.SeededWords(5)
    fits = [made.analyzer.fit(made.randomizer.deal(counts, source)) for _ in range(RUNS)]
    found = np.array([fit.prefixes for fit in fits])[:, :-1]
    error = (found.mean(axis=0) - np.cumsum(counts)[:-1]) / fits[0].stderrs[:-1] * np.sqrt(RUNS)
    assert np.abs(error).max() < 6.5
    ratio = found.var(axis=0).mean() / np.mean(fits[0].stderrs[:-1] ** 2)
    assert 0.85 < ratio < 1.15


def test_all_levels_are_accounted_for(made):
    """With fewer honest people, too: together the levels tell more than any one of them."""
    for honest in (18_000, 9000):
        together = made.accountant.delta(honest, 1.0)
        alone = [level.delta(honest, 1.0) for level in made.randomizer.levels]
        assert together > 3 * max(alone)


@pytest.mark.parametrize("task", first(["range", "variance", "std", "quantiles", "cdf"], 3))
def test_intervals_cover(task):
    at = {"quantiles": [0.1, 0.5, 0.9], "cdf": [0, 5, 30, 50], "range": [3, 9]}.get(task)
    p = tree.make(
        n=4000, lower=0, upper=63, shape=[8, 8], epsilon=1.0, delta=1e-5, task=task, at=at
    )
    values = skewed(4000)
    question = sdp.tasks.TASKS[task](
        domain=p.randomizer.domain, at=None if at is None else tuple(at)
    )
    truth = np.atleast_1d(question.truth(values))
    counts, source = np.bincount(values, minlength=64), sdp.SeededWords(7)
    hits = np.zeros(len(truth))
    for _ in range(RUNS):
        estimate = p.analyzer.estimate(p.randomizer.deal(counts, source))
        low, high = (np.atleast_1d(end) for end in estimate.interval(0.9))
        inside = (low <= truth) & (truth <= high)
        hits += inside.all() if task == "cdf" else inside
    assert hits.min() >= binom.ppf(ALPHA, RUNS, 0.9)


@pytest.mark.parametrize(
    ("task", "at", "method", "sides"),
    [
        ("quantiles", (0.5,), "quantile_cells", 2),
        ("cdf", (3.0, 9.0, 20.0), "prefix_ends", 1),
        ("range", (3.0, 9.0), "sum_ends", 1),
        ("std", (), "sum_ends", 2),
    ],
)
def test_error_probabilities_add_up(made, monkeypatch, task, at, method, sides):
    """Each bound may fail on as many sides as count; all of them together are 1 - level."""
    leaves = made.analyzer.fit(made.randomizer.deal(np.full(64, 300), sdp.SeededWords(1)))
    spent, real = [], getattr(Leaves, method)

    def bound(self, where, tail):
        spent.append(sides * tail * (len(where) if task == "cdf" else 1))
        return real(self, where, tail)

    monkeypatch.setattr(Leaves, method, bound)
    ask_leaves(task, at).interval(leaves, 0.9)
    assert sum(spent) == pytest.approx(0.1)


def test_all_prefixes_share_what_their_distance_may_miss(made, monkeypatch):
    leaves = made.analyzer.fit(made.randomizer.deal(np.full(64, 300), sdp.SeededWords(1)))
    spent = []
    real = leaves_module._radii
    monkeypatch.setattr(
        leaves_module,
        "_radii",
        lambda noise, weights, tail, error: (
            spent.append(2 * tail * len(error)) or real(noise, weights, tail, error)
        ),
    )
    leaves.bound_prefixes(0.1)
    assert sum(spent) == pytest.approx(0.1)


def test_a_spread_of_reals_is_known_up_to_half_a_cell(monkeypatch):
    """Values are not where their cells are: that is part of the interval, whatever the noise."""
    p = tree.make(n=5000, lower=-1.0, upper=1.0, steps=32, epsilon=2.0, delta=1e-5, task="std")
    leaves = p.analyzer.fit(p.randomizer.deal(np.full(32, 160), sdp.SeededWords(1)))
    moments = iter([(0.0, 0.0), (0.25 * leaves.n, 0.25 * leaves.n)])
    monkeypatch.setattr(Leaves, "sum_ends", lambda *_: next(moments))
    low, high = p.analyzer.question.interval(leaves, 0.9)
    assert (low, high) == pytest.approx((0.5 - 1 / 32, 0.5 + 1 / 32))


def test_a_tenth_of_the_noise_would_be_seen():
    """The mutant of the test above: standard errors that are too small do not cover."""
    p = tree.make(n=4000, lower=0, upper=63, shape=[8, 8], epsilon=1.0, delta=1e-5)
    counts, source = np.bincount(skewed(4000), minlength=64), sdp.SeededWords(7)
    hits = 0
    for _ in range(RUNS):
        fit = p.analyzer.fit(p.randomizer.deal(counts, source))
        hits += abs(fit.prefixes[5] - counts[:6].sum()) <= 0.1 * 1.645 * fit.stderrs[5]
    assert hits < binom.ppf(ALPHA, RUNS, 0.9)


def test_published_errors_and_messages():
    """2^12 cells: at most 31 ranks with at most 5.1 messages per person."""
    p = tree.make(n=10**6, lower=0, upper=4095, epsilon=1.0, delta=1e-8, honest=1.0)
    assert p.parameters["shape"] == [8, 8, 8, 8]
    assert np.sqrt(p.analyzer.variance(np.array([10**6]))) <= 31
    assert p.cost.messages_mean <= 5.1
    assert 0.9e-8 < p.guarantee.delta <= 1e-8


def test_reals_are_interpolated_inside_their_cell():
    p = tree.make(n=10_000, lower=0.0, upper=1.0, steps=16, epsilon=1.0, delta=1e-6, at=[0.3])
    assert p.randomizer.domain == Cells(lower=0.0, upper=1.0, cells=16)
    values = np.random.default_rng(4).random(10_000)
    estimate = sdp.run(p, values, sdp.SeededWords(1))
    low, high = estimate.interval(0.95)
    assert low[0] <= np.quantile(values, 0.3) <= high[0]
    assert abs(estimate.value[0] - 0.3) < 0.02
    assert low[0] * 16 == int(low[0] * 16)


def test_answers_are_within_the_public_range(made):
    """One person, and noise everywhere: quantiles stay inside."""
    tally = made.randomizer.deal(np.eye(64, dtype=np.int64)[63] * 1, sdp.SeededWords(2))
    estimate = made.analyzer.estimate(tally)
    assert 0 <= estimate.value[0] <= 63
    assert estimate.labels == ("0.5",)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at": [0.0]}, "at=0.0 must be > 0 and < 1"),
        ({"at": [1]}, "at=1.0 must be > 0 and < 1"),
        ({"at": []}, "at least one number"),
        ({"at": [float("nan")]}, "must be finite"),
        ({"upper": -1}, "upper=-1 must be > lower"),
        ({"task": "mode"}, "must be one of quantiles"),
        ({"task": "range", "at": [5, 3]}, "the lower one first"),
        ({"task": "cdf", "at": [99]}, "must be within"),
        ({"shape": [2, 2]}, "must have 64 leaves"),
        ({"upper": 2**30 - 1}, "1,073,741,824 cells are too many: everybody would send"),
        ({"n": 20, "upper": 4_000_000}, "too few"),
    ],
)
def test_bad_parameters_are_refused(change, said):
    given = {"n": 20_000, "lower": 0, "upper": 63, "epsilon": 1.0, "delta": 1e-6, **change}
    with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=said):
        tree.make(**given)


def test_the_error_of_a_quantile_is_that_of_its_prefix(made):
    """300 people in each cell: an error of the prefix by 300 moves the quantile by a cell."""
    leaves = made.analyzer.fit(made.randomizer.deal(np.full(64, 300), sdp.SeededWords(1)))
    points = (0.25, 0.5, 0.75)
    width = float(leaves.edges[1] - leaves.edges[0])
    for point, stderr in zip(points, ask_leaves("quantiles", points).stderr(leaves), strict=True):
        wanted = leaves.stderrs[round(64 * point)] / 300 * width
        assert abs(stderr - wanted) <= 1.5 * width
