"""The generated people: always the same, and distributed as stated."""

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.samples import _COMMUTES, _shares
from support import ALPHA


def test_shares_are_the_stated_distribution():
    assert sum(probability for _, probability in _COMMUTES) == 1
    assert sum(_shares()) == 2**64
    for share, (_, probability) in zip(_shares(), _COMMUTES, strict=True):
        assert abs(share - probability * 2**64) < 1


def test_counts_follow_the_distribution():
    assert _p_values(_COMMUTES).min() > ALPHA / len(_COMMUTES)


def test_a_slightly_different_distribution_is_noticed():
    (first, p), (second, q), *rest = _COMMUTES
    shifted = [(first, p - q / 10), (second, q + q / 10), *rest]
    assert _p_values(shifted).min() < ALPHA / len(_COMMUTES)


def _p_values(distribution):
    counts = sdp.samples.commuters(100_000).counts
    p = np.array([float(probability) for _, probability in distribution])
    below, above = binom.cdf(counts, 100_000, p), binom.sf(counts - 1, 100_000, p)
    return 2 * np.minimum(below, above)


def test_smaller_sample_is_the_beginning_of_a_larger_one():
    small, large = sdp.samples.commuters(10), sdp.samples.commuters(1000)
    np.testing.assert_array_equal(small.codes, large.codes[:10])


def test_counts_are_of_the_codes():
    people = sdp.samples.commuters(12)
    assert people.counts.tolist() == [people.codes.tolist().count(j) for j in range(10)]
    assert len(people.domain.labels) == people.domain.k == len(people.counts)


@pytest.mark.parametrize("n", [0, -1, 2.5, "10", True])
def test_bad_n(n):
    with pytest.raises(sdp.ParameterError, match="n="):
        sdp.samples.commuters(n)
