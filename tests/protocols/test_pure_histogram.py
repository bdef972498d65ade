"""Histograms with pure privacy: what the two bins that change cost, intervals, and what is refused."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.analyzer import Tally
from shuffledp.protocols import pure_count, pure_histogram
from shuffledp.protocols.pure_count import PureCount
from shuffledp.protocols.pure_histogram import PureHistogram, PureHistogramAnalyzer

TINY = PureHistogram(k=2, count=PureCount(noise=(1, 2, 2, 1), word_bits=4))


@pytest.fixture(scope="module")
def sixty():
    return pure_histogram.make(n=60, k=3, epsilon=2.0, honest=1.0)


def test_each_bin_is_a_count_with_half_of_epsilon(sixty):
    count = pure_count.make(n=60, epsilon=1.0, honest=1.0)
    assert sixty.randomizer.count == count.randomizer
    assert (sixty.guarantee.epsilon, sixty.guarantee.delta) == (2.0, 0.0)
    assert sixty.cost.messages_max == 3 * count.cost.messages_max
    assert not sixty.cost.count_depends_on_value


def test_guarantee_of_fewer_people_is_twice_that_of_a_count(sixty):
    count = pure_count.make(n=60, epsilon=1.0, honest=1.0)
    assert sixty.guarantee_if(0.5).epsilon == 2 * count.guarantee_if(0.5).epsilon
    assert sixty.guarantee_if(0.5).epsilon > 2.0
    assert sixty.guarantee_if(0.5).delta == 0


def totals(people, device):
    """The exact law of the numbers of ones of both bins."""
    law = {(0, 0): Fraction(1)}
    for x in people:
        new = {}
        for (a, b), p in law.items():
            for sent, q in device.pmf(x).items():
                key = (a + sent.count(1), b + sent.count(3))
                new[key] = new.get(key, Fraction(0)) + p * q
        law = new
    return law


def test_the_largest_loss_is_twice_that_of_a_count():
    """By enumeration of all neighbours of three people: no outcome loses more, and one loses all of it."""
    worst = 0.0
    for others in product((0, 1), repeat=2):
        left, right = (totals((x, *others), TINY) for x in (0, 1))
        worst = max(worst, *(abs(math.log(left[seen] / right[seen])) for seen in left))
    stated = 2 * TINY.count.total.largest_loss(3)
    assert worst <= stated
    # Somebody else holds the bit in one bin exactly where nobody does in the other, so a count's worst
    # case cannot be had in both bins at once: nearly all of it can.
    assert worst > 0.9 * stated
    assert worst > 1.5 * TINY.count.total.largest_loss(3)  # one bin alone would claim too little


def test_sends_its_bits_bin_by_bin():
    sent = sdp.randomize(TINY, np.array([0, 1, 1]), sdp.SeededWords(3))
    assert set(np.bincount(sent.owner)) == {6}
    assert (sent.payload.reshape(3, 2, 3) // 2 == np.array([[0], [1]])).all()


def test_intervals_of_each_bin_are_those_of_its_count(sixty):
    tally = sixty.randomizer.deal(np.array([30, 20, 10]), sdp.SeededWords(5))
    found = sixty.analyzer.estimate(tally)
    low, high = found.interval(0.9)
    count = pure_count.PureCountAnalyzer(randomizer=sixty.randomizer.count)
    for j in range(3):
        alone = count.estimate(Tally(counts=tally.counts[2 * j : 2 * j + 2], users=60))
        assert (found.value[j], found.stderr[j]) == (alone.value, alone.stderr)
        assert (low[j], high[j]) == tuple(alone.interval(0.9))


def test_people_are_counted(sixty):
    counts = sdp.run(sixty, [0] * 30 + [1] * 20 + [2] * 10, rng=sdp.SeededWords(7))
    assert np.abs(counts.value - [30, 20, 10]).max() < 6 * counts.stderr[0]


def test_refusals():
    analyzer = PureHistogramAnalyzer(randomizer=TINY)
    with pytest.raises(sdp.MismatchError, match="3 users send 9 messages for each category"):
        analyzer.estimate(Tally(counts=np.array([4, 5, 8, 2]), users=3))
    with pytest.raises(sdp.ParameterError, match="k=1"):
        pure_histogram.make(n=60, k=1, epsilon=1.0)
    with pytest.raises(sdp.UnsupportedError, match="n: "):
        pure_histogram.make(n=10**6, k=3, epsilon=1.0)
