"""The generated people: always the same, and distributed as stated."""

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.lab.samples import _COMMUTES, _MINUTES, _shares
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


class TestSurvey:
    def test_smaller_survey_is_the_beginning_of_a_larger_one(self):
        small, large = sdp.samples.survey(10), sdp.samples.survey(1000)
        np.testing.assert_array_equal(small.minutes, large.minutes[:10])
        np.testing.assert_array_equal(small.home, large.home[:10])
        np.testing.assert_array_equal(small.way.codes, sdp.samples.commuters(10).codes)

    def test_minutes_are_within_those_of_the_way(self):
        people = sdp.samples.survey(50_000)
        assert people.minutes_domain.codes(people.minutes).max() == 120
        for code, name in enumerate(people.way.domain.labels):
            first, last = _MINUTES[name]
            found = people.minutes[people.way.codes == code]
            assert first <= found.min() <= found.max() <= last
            assert found.max() - found.min() >= 0.8 * (last - first)

    def test_the_wish_grows_with_the_minutes(self):
        """Each decile of minutes has the stated share of yes."""
        assert wish_p_values(45).min() > ALPHA
        assert wish_p_values(30).min() < ALPHA, "another slope is noticed"

    def test_bad_n(self):
        with pytest.raises(sdp.ParameterError, match="n="):
            sdp.samples.survey(0)


def wish_p_values(more):
    people = sdp.samples.survey(400_000)
    found = []
    for minutes in range(0, 121, 10):
        said = people.home[people.minutes == minutes]
        if len(said):
            p = (10 + more * minutes / 120) / 100
            yes = int(said.sum())
            found.append(2 * min(binom.cdf(yes, len(said), p), binom.sf(yes - 1, len(said), p)))
    return np.array(found) * len(found)


@pytest.mark.parametrize("n", [0, -1, 2.5, "10", True])
def test_bad_n(n):
    with pytest.raises(sdp.ParameterError, match="n="):
        sdp.samples.commuters(n)
