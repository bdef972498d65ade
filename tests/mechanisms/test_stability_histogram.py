"""The stability-based histogram: exact divergence on all neighbours, order, selection."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from shuffledp import DataError, SeededWords
from shuffledp.mechanisms import stability_histogram
from shuffledp.numerics.rounding import exp_bounds
from support import ALPHA


def bin_law(mechanism, count, threshold, width):
    """Published value (None if dropped) -> bounds of its probability; the far tail is one outcome."""
    if count == 0:
        return {None: (Fraction(1), Fraction(1))}
    law = {}
    for value in range(threshold + 1, threshold + width + 1):
        law[value] = mechanism.noise.mass(value - count, 60)
    last = threshold + width - count
    low, high = mechanism.noise.tail(last, 60)  # Pr[Z > last] is half of it
    law["more"] = (low / 2, high / 2)
    rest = [sum(mass[end] for mass in law.values()) for end in (0, 1)]
    law[None] = (1 - rest[1], 1 - rest[0])
    return law


def divergence(mechanism, counts, other, threshold, width):
    """An upper bound of the hockey-stick divergence of the releases on two histograms.

    Lumping the far tail of each bin together is a post-processing, so it could hide divergence;
    therefore all of its mass under the first histogram is added.
    """
    laws = [bin_law(mechanism, c, threshold, width) for c in counts]
    others = [bin_law(mechanism, c, threshold, width) for c in other]
    E = exp_bounds(mechanism.epsilon, 60)[0]
    total = Fraction(0)
    for outcome in itertools.product(*laws):
        mass, base = Fraction(1), Fraction(1)
        for value, law, other_law in zip(outcome, laws, others, strict=True):
            mass *= law[value][1]
            base *= other_law.get(value, (Fraction(0),))[0]
        total += mass if "more" in outcome else max(mass - E * base, 0)
    return total


def neighbours(n, bins):
    """All pairs of histograms of n people that differ in one person."""
    for counts in itertools.product(range(n + 1), repeat=bins):
        if sum(counts) != n:
            continue
        for i, j in itertools.permutations(range(bins), 2):
            if counts[i]:
                other = list(counts)
                other[i] -= 1
                other[j] += 1
                yield counts, tuple(other)


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 0.05), (1.5, 0.3), (4.0, 0.002)])
def test_exact_divergence_on_all_neighbours(epsilon, delta):
    mechanism = stability_histogram.make(n=3, epsilon=epsilon, delta=delta)
    width = int(50 / epsilon)  # the tail beyond has mass e^-25
    worst = max(
        divergence(mechanism, a, b, mechanism.threshold, width) for a, b in neighbours(3, 2)
    )
    assert worst <= Fraction(delta) + Fraction(1, 10**9)
    # One less in the threshold is too little: the mutant leaks more than delta.
    weaker = max(
        divergence(mechanism, a, b, mechanism.threshold - 1, width) for a, b in neighbours(3, 2)
    )
    assert weaker > Fraction(delta)


def test_three_bins():
    """Two bins change, a third one does not matter."""
    mechanism = stability_histogram.make(n=2, epsilon=3.0, delta=0.05)
    worst = max(divergence(mechanism, a, b, mechanism.threshold, 12) for a, b in neighbours(2, 3))
    assert worst <= Fraction(0.05) + Fraction(1, 10**6)


def test_threshold_is_the_smallest():
    for epsilon, delta in [(1.0, 1e-6), (0.1, 1e-10), (5.0, 0.4), (1.0, 0.9)]:
        mechanism = stability_histogram.make(n=10, epsilon=epsilon, delta=delta)
        low, high = exp_bounds(Fraction(-epsilon) / 2, 60)
        tau = mechanism.threshold
        assert high**tau / (1 + low) <= Fraction(delta)
        if tau > 1:
            assert low ** (tau - 1) / (1 + high) > Fraction(delta)


def test_order_of_the_dictionary_does_not_show():
    mechanism = stability_histogram.make(n=300, epsilon=2.0, delta=1e-3)
    first = mechanism.release({"b": 100, "a": 100, "c": 100}, SeededWords(1))
    second = mechanism.release({"c": 100, "b": 100, "a": 100}, SeededWords(1))
    assert first.labels == second.labels == ("a", "b", "c")
    np.testing.assert_array_equal(first.value, second.value)


def test_mapping_and_array_agree_and_empty_bins_are_not_touched():
    mechanism = stability_histogram.make(n=300, epsilon=2.0, delta=1e-3)
    counts = np.zeros(10_000, dtype=np.int64)
    counts[[5, 77, 9000]] = 100
    from_array = mechanism.release(counts, SeededWords(1))
    from_mapping = mechanism.release({77: 100, 5: 100, 9000: 100, 6: 0}, SeededWords(1))
    assert from_array.labels == from_mapping.labels == ("5", "77", "9000")
    np.testing.assert_array_equal(from_array.value, from_mapping.value)


def test_integer_labels_are_sorted_as_integers():
    mechanism = stability_histogram.make(n=200, epsilon=5.0, delta=1e-2)
    assert mechanism.release({10: 100, 9: 100}, SeededWords(1)).labels == ("9", "10")


def test_labels_from_numpy():
    names, counts = np.unique(["b", "a", "b"] * 100, return_counts=True)
    mechanism = stability_histogram.make(n=300, epsilon=5.0, delta=1e-2)
    answer = mechanism.release(dict(zip(names, counts, strict=True)), SeededWords(1))
    assert answer.labels == ("a", "b")


def test_counts_are_between_nothing_and_everybody():
    mechanism = stability_histogram.make(n=300, epsilon=0.05, delta=0.3)
    answer = mechanism.release({"a": 300}, SeededWords(1))
    assert answer.limits == (0.0, 300.0)


def test_nothing_may_survive():
    mechanism = stability_histogram.make(n=2, epsilon=1.0, delta=1e-9)
    answer = mechanism.release({"a": 1, "b": 1}, SeededWords(1))
    assert answer.labels == ()
    assert answer.value.shape == answer.stderr.shape == answer.interval(0.9).low.shape == (0,)


def published(epsilon, delta, count, bins, seed):
    mechanism = stability_histogram.make(n=count * bins, epsilon=epsilon, delta=delta)
    return len(mechanism.release(np.full(bins, count), SeededWords(seed)).labels)


def test_published_as_often_as_declared():
    mechanism = stability_histogram.make(n=1000, epsilon=1.0, delta=0.01)
    count, bins = mechanism.threshold - 1, 4000
    p = mechanism.publication(count)
    seen = published(1.0, 0.01, count, bins, seed=41)
    assert min(binom.cdf(seen, bins, p), binom.sf(seen - 1, bins, p)) > ALPHA
    # Mutant: ">=" in place of ">" publishes one count earlier.
    seen = published(1.0, 0.01, count + 1, bins, seed=41)
    assert binom.sf(seen - 1, bins, p) < ALPHA


def test_publication_is_the_sum_of_masses():
    mechanism = stability_histogram.make(n=100, epsilon=1.0, delta=0.01)
    for count in (1, 5, mechanism.threshold, mechanism.threshold + 1, 30):
        total = sum(mechanism.noise.mass(z)[0] for z in range(mechanism.threshold - count + 1, 200))
        assert mechanism.publication(count) == pytest.approx(float(total), rel=1e-12)


def test_accuracy_does_not_know_the_number_of_bins():
    mechanism = stability_histogram.make(n=50, epsilon=1.0, delta=1e-3)
    alpha = mechanism.accuracy(0.1)
    rng = SeededWords(51)
    worst = Counter()
    for _ in range(100):
        answer = mechanism.release({"a": 30, "b": 15, "c": 5}, rng)
        found = dict(zip(answer.labels, answer.value.tolist(), strict=True))
        error = max(abs(found.get(x, 0) - c) for x, c in (("a", 30), ("b", 15), ("c", 5)))
        worst[error > alpha] += 1
    assert binom.sf(worst[True] - 1, 100, 0.1) > ALPHA


@pytest.mark.parametrize(
    "histogram",
    [
        {"a": 1.5},
        {"a": -1, "b": 4},
        {"a": 1, 2: 2},
        {("a",): 3},
        {"a": 2},
        {},
        {"a": True, "b": 2.0},
        np.array([1.0, 2.0]),
        np.array([[1, 2]]),
        np.array([4, -1]),
    ],
    ids=str,
)
def test_bad_histograms(histogram):
    mechanism = stability_histogram.make(n=3, epsilon=1.0, delta=0.01)
    with pytest.raises(DataError):
        mechanism.release(histogram, SeededWords(1))
