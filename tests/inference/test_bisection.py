"""A quantile by noisy bisection: its guarantee, its ranks, and what it refuses."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.inference.learning import bisect_quantile

ASKED = {"share": 0.5, "lower": 0, "upper": 1023, "epsilon": 1.0, "delta": 1e-6}


def spread(n=40_000):
    return np.arange(n) * 1024 // n


def rank_error(values, found):
    """How far the share of the result is from the one asked, 0 if it is a quantile itself."""
    below, upto = (values < found.value).mean(), (values <= found.value).mean()
    return max(0.0, below - found.share, found.share - upto)


def test_the_guarantee_is_that_of_adaptive_randomizers():
    found = bisect_quantile(spread(), **ASKED, rng=sdp.SeededWords(1))
    assert (found.guarantee.delta, found.guarantee.honest) == (1e-6, 36_000)
    assert found.guarantee.epsilon <= 1.0
    assert "depend on earlier messages" in found.guarantee.proof
    direct = sdp.amplify(epsilon0=found.epsilon0, n=40_000, delta=1e-6, adaptive=True)
    assert direct.epsilon <= found.guarantee.epsilon * (1 + 1e-6)


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.9])
def test_ranks_are_within_the_stated_error(share):
    values = spread()
    errors = []
    for seed in range(20):
        found = bisect_quantile(values, **(ASKED | {"share": share}), rng=sdp.SeededWords(seed))
        errors.append(rank_error(values, found))
        assert errors[-1] <= found.rank_error(1e-9)
    assert np.mean(errors) < 0.02


def test_a_wrong_share_is_told_from_the_right_one():
    """A mutant that asks for the upper half instead would be far outside."""
    values = spread()
    found = bisect_quantile(values, **(ASKED | {"share": 0.25}), rng=sdp.SeededWords(3))
    assert abs((values <= found.value).mean() - 0.75) > found.rank_error(1e-9)


def test_the_order_is_secret_and_random():
    """A sorted column: without a random order the first group would be the smallest values."""
    values = np.sort(spread())
    found = bisect_quantile(values, **ASKED, rng=sdp.SeededWords(4))
    assert rank_error(values, found) < 0.05


def test_a_range_of_one_value_and_few_people():
    with pytest.raises(sdp.ParameterError, match="upper=5 must be > lower=5"):
        bisect_quantile([5] * 10, **(ASKED | {"lower": 5, "upper": 5}))
    found = bisect_quantile([5] * 1000 + [6] * 4000, **(ASKED | {"lower": 5, "upper": 6}))
    assert (found.value, len(found.path)) == (6, 1)
    with pytest.raises(sdp.DataError, match="too few for 10 questions"):
        bisect_quantile([1, 2, 3], **ASKED)


@pytest.mark.parametrize("share", [0.0, 1.0, float("nan")])
def test_shares_are_checked(share):
    with pytest.raises(sdp.ParameterError, match="share"):
        bisect_quantile(spread(100), **(ASKED | {"share": share}))


def test_a_delta_below_the_generators_is_refused():
    with pytest.raises(sdp.UnsupportedError, match="generator"):
        bisect_quantile(spread(100), **(ASKED | {"delta": 1e-40}))


def test_a_plan_says_how_near_it_comes():
    asked = {"n": 20_000, "lower": 0, "upper": 255, "epsilon": 1.0, "delta": 1e-6}
    (remark,) = [each for each in sdp.plan("quantiles", **asked).remarks if "In rounds" in each]
    found = bisect_quantile(
        np.arange(20_000) % 256,
        share=0.5,
        lower=0,
        upper=255,
        epsilon=1.0,
        delta=1e-6,
        rng=sdp.SeededWords(1),
    )
    stated = int(remark.split("within ")[1].split(" ranks")[0].replace(",", ""))
    assert stated == pytest.approx(20_000 * found.rank_error(0.05), rel=0.01)
    assert not [
        each
        for each in sdp.plan("quantiles", models="central", **asked).remarks
        if "In rounds" in each
    ]
