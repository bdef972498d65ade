"""Counting with pure privacy: figures, law, intervals, and what is refused."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.core.analyzer import Tally
from shuffledp.protocols import pure_count
from support import ALPHA


@pytest.fixture(scope="module")
def hundred():
    return pure_count.make(n=100, epsilon=1.0, honest=1.0)


def test_accuracy_and_messages(hundred):
    """The reference table has RMSE 2.57 with 15 messages."""
    assert math.sqrt(hundred.analyzer.variance(np.array([100, 0]))) <= 2.57
    assert hundred.cost.messages_max <= 15
    assert not hundred.cost.count_depends_on_value


def test_guarantee_is_pure(hundred):
    assert (hundred.guarantee.epsilon, hundred.guarantee.delta) == (1.0, 0.0)
    assert hundred.guarantee.honest == 100


def test_fewer_honest_users_lose_more(hundred):
    whole, half, alone = (hundred.guarantee_if(honest) for honest in (1.0, 0.5, 0.01))
    assert whole.epsilon < half.epsilon < alone.epsilon
    assert alone.epsilon == pytest.approx(hundred.local_floor.epsilon, rel=1e-9)
    assert half.delta == alone.delta == 0


def test_local_floor_is_the_ratio_of_the_law(hundred):
    laws = [hundred.randomizer.pmf(x) for x in (0, 1)]
    worst = max(laws[0][sent] / laws[1][sent] for sent in laws[0])
    assert math.log(worst) <= hundred.local_floor.epsilon <= math.log(worst) * (1 + 1e-12)


def test_noise_is_for_the_honest_users_only():
    part = pure_count.make(n=50, epsilon=1.0, honest=0.8)
    all_of_them = pure_count.make(n=40, epsilon=1.0, honest=1.0)
    assert part.randomizer == all_of_them.randomizer
    assert part.guarantee.honest == 40


def test_every_user_sends_d_bits(hundred):
    values = np.arange(500) % 2
    sent = sdp.randomize(hundred.randomizer, values, sdp.SeededWords(3))
    assert set(np.bincount(sent.owner)) == {hundred.randomizer.d}
    assert set(np.unique(sent.payload)) == {0, 1}


def errors(protocol, inputs, runs, seed):
    words = sdp.SeededWords(seed)
    for _ in range(runs):
        yield protocol.analyzer.estimate(protocol.randomizer.deal(inputs, words))


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [[100, 0], [40, 60], [0, 100]])
def test_intervals_cover(hundred, inputs):
    """The noise is a small integer, so the interval covers a little more than its level."""
    data = np.array(inputs)
    runs = 2500
    found = [estimate.interval(0.95) for estimate in errors(hundred, data, runs, 11)]
    hits = sum(low <= data[1] <= high for low, high in found)
    assert stats.binom.cdf(hits, runs, 0.945) > ALPHA
    assert stats.binom.sf(hits, runs, 0.985) > ALPHA


def squares(protocol, variance, seed=12):
    data, runs = np.array([40, 60]), 4000
    values = np.array([estimate.value for estimate in errors(protocol, data, runs, seed)])
    ratio = np.square(values - 60) / variance
    return abs(ratio.mean() - 1) / (ratio.std() / math.sqrt(runs))


def test_mean_squared_error_is_the_variance(hundred):
    limit = -stats.norm.ppf(ALPHA / 2)
    right = hundred.analyzer.variance(np.array([40, 60]))
    assert squares(hundred, right) < limit
    assert squares(hundred, right / 2) > limit


def test_too_many_and_too_few_users():
    with pytest.raises(sdp.UnsupportedError, match="n: "):
        pure_count.make(n=1_000_000, epsilon=1.0)
    with pytest.raises(sdp.UnsupportedError, match="n: "):
        pure_count.make(n=1_000_000, epsilon=20.0)
    with pytest.raises(sdp.UnsupportedError, match="n: "):
        pure_count.make(n=2, epsilon=0.01)


@pytest.mark.parametrize("noise", [(1, 2, 1), (1, 2, 1, 1), (0, 1, 1, 0), (4, 4, 4, 4)])
def test_bad_noise(noise):
    with pytest.raises(sdp.ParameterError, match="noise"):
        pure_count.PureCount(noise=noise, word_bits=4)


def test_estimate_needs_all_messages(hundred):
    tally = Tally(counts=np.array([10, 20]), users=3)
    with pytest.raises(sdp.MismatchError, match="messages"):
        hundred.analyzer.estimate(tally)


def test_law_of_the_error_is_the_law_of_the_tally():
    """By enumeration of a tiny protocol: three users, one of whom holds a one."""
    tiny = pure_count.PureCount(noise=(1, 2, 2, 1), word_bits=4)
    law = {0: Fraction(1)}
    for x in (1, 0, 0):
        step = {sum(sent) - 1 - x: mass for sent, mass in tiny.pmf(x).items()}
        law = added(law, step)
    error = pure_count.PureCountError(randomizer=tiny, users=3, observed=0)
    moduli, angles = pure_count._turn(tiny, error._size)
    first, masses = error._law(moduli**3, angles, error._size, 1)
    for noise, mass in law.items():
        assert masses[noise - first] == pytest.approx(float(mass), rel=1e-9)
    assert masses.sum() == pytest.approx(1)


def added(law, step):
    result = {}
    for a, p in law.items():
        for b, q in step.items():
            result[a + b] = result.get(a + b, Fraction(0)) + p * q
    return result


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_cover_every_count(level):
    """By enumeration, for every number of holders; twice the tail is noticed."""
    tiny = pure_count.PureCount(noise=(1, 2, 2, 1), word_bits=4)
    n = 6
    ends = {}
    for ones in range(3 * n + 1):
        error = pure_count.PureCountError(randomizer=tiny, users=n, observed=ones - n)
        ends[ones] = [error.interval(0.0, level), error.interval(0.0, 1 - 2 * (1 - level))]
    covered = [[], []]
    for c in range(n + 1):
        law = {0: Fraction(1)}
        for x in [1] * c + [0] * (n - c):
            law = added(law, {sum(sent): mass for sent, mass in tiny.pmf(x).items()})
        for which in range(2):
            held = [
                m for ones, m in law.items() if ends[ones][which][0] <= c <= ends[ones][which][1]
            ]
            covered[which].append(float(sum(held)))
    assert min(covered[0]) >= level - 1e-12
    assert min(covered[1]) < level


def test_what_the_search_finds_is_proved_before_it_is_used(monkeypatch):
    """A search that is far too optimistic costs time, and no privacy."""
    found = pure_count._search(1.0, 20, 64)
    unsafe = replace(found, p=0.8 * found.p)
    assert unsafe.device.total.largest_loss(20) > 1.0
    monkeypatch.setattr(pure_count, "_search", lambda *_: unsafe)
    device = pure_count.find_noise.__wrapped__(1.0, 20, 64)
    assert max(device.total.loss(ones, 19 - ones) for ones in range(20)) <= 1.0


def test_every_number_of_noise_has_a_word_however_steep_the_noise_is():
    """All totals must be possible for both bits: a mass that vanishes is rounded up to a word."""
    device = pure_count._Candidate(d=101, s=40.0, p=0.1, word_bits=64).device
    assert device is not None
    assert min(device.noise) == 1
    assert device.noise == device.noise[::-1]
