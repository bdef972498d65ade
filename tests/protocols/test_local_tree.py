"""Trees of the local model: one random level each."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.core.analyzer import Tally
from shuffledp.numerics import trees
from shuffledp.protocols import local_tree
from shuffledp.testing import ALPHA, Examples
from support import mean_estimate

EXAMPLES = Examples(
    local_tree.SPEC,
    local=(
        {"lower": 0, "upper": 59, "epsilon": 1.0},
        {"lower": -1.0, "upper": 1.0, "steps": 32, "epsilon": 2.0, "task": "std"},
        {"lower": 0, "upper": 9, "epsilon": 1.0, "task": "cdf", "at": [3, 7]},
    ),
    local_tiny=(
        {"lower": 0, "upper": 3, "shape": [2, 2], "epsilon": 1.0, "word_bits": 4},
        {"lower": 0, "upper": 4, "shape": [3, 2], "epsilon": 2.0, "word_bits": 5, "task": "std"},
    ),
)
RUNS = 300


@pytest.mark.parametrize("given", EXAMPLES.local_tiny, ids=["binary", "uneven"])
def test_nodes_are_unbiased_and_what_a_person_adds_has_a_known_square(given):
    p = local_tree.make_local(**given)
    tree = p.randomizer
    zeros = np.zeros(tree.alphabet, dtype=np.int64)
    sent = {}
    for message in range(tree.alphabet):
        counts = zeros.copy()
        counts[message] = 1
        sent[message] = np.concatenate(tree.measure(Tally(counts=counts, users=1)))
    sizes = np.cumprod(tree.shape)
    squares = np.concatenate(
        [
            [1 / float(share * tree.gain**2)] * size
            for share, size in zip(tree.shares, sizes, strict=True)
        ]
    )
    for x in range(tree.domain.size):
        law = tree.pmf(x)
        mean = sum(float(mass) * sent[message] for (message,), mass in law.items())
        second = sum(float(mass) * sent[message] ** 2 for (message,), mass in law.items())
        own = np.concatenate([np.arange(size) == x // (sizes[-1] // size) for size in sizes])
        np.testing.assert_allclose(mean, own, atol=1e-12)
        np.testing.assert_allclose(second, squares)


@pytest.mark.parametrize("people", [[0], [3], [0, 3], [1, 1], [0, 0]])
@pytest.mark.parametrize("shape", [(2, 2), (3, 2)])
def test_the_variance_of_few_people_is_unbiased(shape, people):
    """Over all messages, exactly; with the largest variance of the noise it was too large by up to range^2 / (4 n)."""
    p = local_tree.make_local(
        lower=0, upper=3, epsilon=1.0, task="variance", shape=shape, word_bits=4
    )
    assert mean_estimate(p, people) == pytest.approx(np.var(people), abs=1e-12)


def cover(task, at, shrink=1.0):
    p = local_tree.make_local(lower=0, upper=63, epsilon=2.0, task=task, at=at)
    values = np.minimum(np.random.default_rng(3).exponential(6, 2000).astype(np.int64), 63)
    truth = np.atleast_1d(sdp.tasks.TASKS[task](domain=p.randomizer.domain, at=at).truth(values))
    source, hits = sdp.SeededWords(7), np.zeros(len(truth))
    for _ in range(RUNS):
        estimate = sdp.run(p, values, source)
        low, high = (np.atleast_1d(end) for end in estimate.interval(0.9))
        middle = np.atleast_1d(estimate.value)
        inside = (middle + shrink * (low - middle) <= truth) & (
            truth <= middle + shrink * (high - middle)
        )
        hits += inside.all() if task == "cdf" else inside
    return hits.min()


@pytest.mark.parametrize(
    ("task", "at"), [("quantiles", (0.5, 0.9)), ("cdf", (0, 5, 30)), ("range", (3, 9))]
)
def test_intervals_cover(task, at):
    assert cover(task, at) >= binom.ppf(ALPHA, RUNS, 0.9)


def test_a_third_of_the_width_would_be_seen():
    """The mutant of the test above."""
    assert cover("range", (3, 9), shrink=1 / 3) < binom.ppf(ALPHA, RUNS, 0.9)


def test_the_error_is_the_published_one():
    """sqrt(n T) (e^eps + 1) / (e^eps - 1) times what consistency leaves of a rank."""
    p = local_tree.make_local(lower=0, upper=240, epsilon=1.0)
    assert 1700 < np.sqrt(p.analyzer.variance(np.array([100_000]))) < 1900


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at": [1.0]}, "at=1.0 must be > 0 and < 1"),
        ({"upper": -1}, "upper=-1 must be > lower"),
        ({"shape": [2, 2]}, "must have 64 leaves"),
        ({"upper": 2**30 - 1}, "1,073,741,824 cells are too many"),
        ({"word_bits": 3}, "must be enough for 64 columns"),
        ({"task": "mode"}, "must be one of quantiles"),
    ],
)
def test_bad_parameters_are_refused(change, said):
    with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=said):
        local_tree.make_local(**{"lower": 0, "upper": 63, "epsilon": 1.0, **change})


def test_influence_looks_at_every_rank_or_is_infinite(monkeypatch):
    """In pieces or at once; between the ranks of a coarse grid there are larger ones."""
    made = local_tree.make_local(lower=0, upper=99, epsilon=1.0).analyzer
    whole = made.influence()
    monkeypatch.setattr(trees, "_AT_ONCE", 7)
    assert made.influence() == whole
    assert 1 < whole < math.inf
    monkeypatch.setattr(trees, "_LOOKED_AT", 99)
    assert made.influence() == math.inf
