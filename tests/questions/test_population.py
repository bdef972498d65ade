"""Whom an interval is about: the people asked, or the population of which they are a sample."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.numerics.intervals.sample import bound_population

CENTRAL = {"epsilon": 1.0, "model": "central"}
PEOPLE = [True] * 60 + [False] * 140


def test_every_answer_says_whom_its_interval_is_about():
    answer = sdp.ask(PEOPLE, "count", **CENTRAL)
    said = "The interval is about these 200 people: it covers the noise, but not sampling error."
    assert said in str(answer)
    assert said in answer.to_dict()["notes"]
    assert "population" not in answer.to_dict()


def test_a_sample_has_shares_of_its_population():
    answer = sdp.ask(PEOPLE, "count", population=True, **CENTRAL)
    (row,) = answer.to_dict()["population"]
    assert row["low"] < row["value"] < row["high"]
    # Without any noise Clopper and Pearson would say 0.237 .. 0.369 at the level 0.95.
    assert row["low"] < 0.237
    assert row["high"] > 0.369
    assert "a random sample" in str(answer)
    bins = sdp.ask([1.0, 2.0] * 50, "bins", edges=[0, 1.5, 3], population=True, **CENTRAL)
    assert len(bins.shares) == 2


@pytest.mark.parametrize("true", [0.02, 0.5])
def test_intervals_of_a_population_cover(true):
    """400 samples of 200 people with noise of epsilon = 0.3: at the level 0.8 at least 80 % cover."""
    rng, runs, covered, narrow = np.random.default_rng(3), 400, 0, 0
    for seed in range(runs):
        sample = rng.random(200) < true
        given = {"epsilon": 0.3, "model": "central", "rng": sdp.SeededWords(seed), "level": 0.8}
        answer = sdp.ask(sample, "count", population=True, **given)
        covered += answer.shares[0].low <= true <= answer.shares[0].high
        low, high = (end / 200 for end in answer.estimate.interval(0.8))
        narrow += low <= true <= high
    assert covered >= 0.8 * runs
    if true == 0.5:
        assert narrow < 0.8 * runs, (
            "the interval of the noise alone is no interval of the population"
        )


def test_the_ends_are_those_of_clopper_and_pearson():
    from scipy.stats import binomtest

    for yes in (0, 1, 60, 200):
        low, high = bound_population(np.array([yes]), np.array([yes]), 200, 0.025)
        exact = binomtest(yes, 200).proportion_ci(0.95, "exact")
        assert low[0] == pytest.approx(exact.low, rel=1e-6, abs=1e-12)
        assert high[0] == pytest.approx(exact.high, rel=1e-6)


@pytest.mark.parametrize("more", [{"lower": 0, "upper": 9}, {"by": "x"}])
def test_other_answers_have_no_sampling_error(more):
    task = "count" if "by" in more else "mean"
    with pytest.raises(sdp.UnsupportedError, match="`population` is only for the shares"):
        sdp.ask(
            {"x": [True, False], "y": [1, 2]}, task, column="y", population=True, **CENTRAL, **more
        )
