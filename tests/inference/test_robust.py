"""Liars: how far they can move an answer, and a median that they cannot."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.inference.robust import median_of_groups, worst_bias

SINGLE = [
    sdp.protocols.rr.make_local(epsilon=1.0),
    sdp.protocols.krr.make_local(k=4, epsilon=1.0),
    sdp.protocols.optimized_unary.make_local(k=3, epsilon=1.0),
    sdp.protocols.subset_selection.make_local(k=4, epsilon=1.0),
]


@pytest.mark.parametrize("made", SINGLE, ids=lambda made: made.name)
def test_no_message_moves_an_answer_by_more(made):
    """All messages of all liars, against what their honest messages say on average: exact weights."""
    randomizer = made.randomizer
    laws = [randomizer.pmf(x) for x in range(randomizer.domain.size)]
    messages = {y for law in laws for (y,) in law}
    weigh = {y: np.array([float(w) for w in made.analyzer.weights(y)]) for y in messages}
    worst = 0.0
    for law in laws:
        honest = sum(float(q) * weigh[y] for (y,), q in law.items())
        worst = max(worst, *(np.abs(weigh[y] - honest).max() for y in messages))
    bound = worst_bias(made, 1)
    assert 0.5 * bound < worst <= bound
    assert worst_bias(made, 100) == pytest.approx(100 * bound)
    assert worst_bias(made, 0) == 0


def test_split_and_mix_has_no_useful_bound():
    made = sdp.protocols.split_and_mix.make(n=1000, epsilon=1.0, delta=1e-6, lower=0, upper=1)
    assert worst_bias(made, 1) > 1000


def test_noise_messages_move_a_count_by_one_each():
    made = sdp.protocols.zsum_sparse.make(n=10_000, epsilon=1.0, delta=1e-6)
    assert made.cost.messages_max <= worst_bias(made, 1) <= made.cost.messages_max + 2
    bins = sdp.protocols.dummies_histogram.make(n=10_000, k=4, epsilon=1.0, delta=1e-6)
    assert bins.cost.messages_max <= worst_bias(bins, 1) <= bins.cost.messages_max + 2


def test_protocols_of_very_many_messages_are_refused():
    made = sdp.protocols.correlated_count.make(n=10_000, epsilon=1.0, delta=1e-6)
    with pytest.raises(sdp.UnsupportedError, match="too many messages"):
        worst_bias(made, 1)


def test_an_answer_that_is_not_a_sum_of_messages_is_refused():
    made = sdp.protocols.zsum.make(n=10_000, epsilon=1.0, delta=1e-6)
    with pytest.raises(sdp.UnsupportedError, match="not linear"):
        worst_bias(made, 1)


def test_means_are_not_scaled():
    values = np.arange(6_000) % 11
    found = median_of_groups(
        lambda n: sdp.protocols.duchi.make(n=n, epsilon=1.0, delta=1e-6, lower=0, upper=10, steps=10), values, groups=3,
        rng=sdp.SeededWords(5),
    )  # fmt: skip
    assert 4 < found.value < 6


def zsum(n):
    return sdp.protocols.zsum.make(n=n, epsilon=1.0, delta=1e-6)


def test_the_median_is_an_estimate():
    values = np.arange(20_000) % 4 == 0
    found = median_of_groups(zsum, values.astype(int), groups=9, rng=sdp.SeededWords(2))
    assert (found.groups, found.tolerates) == (9, 4)
    assert abs(found.value - 5_000) < 600
    assert found.guarantee.epsilon == 1.0
    assert found.guarantee.honest == int(0.9 * (20_000 // 9))


class Spoiled:
    """A protocol whose first `bad` runs are whatever a liar likes."""

    def __init__(self, bad, monkeypatch):
        self.left = bad
        import shuffledp.inference.robust as module

        honest = module.run

        def run(protocol, values, rng):
            found = honest(protocol, values, rng=rng)
            if self.left > 0:
                self.left -= 1
                return type("Answer", (), {"value": 1e12})()
            return found

        monkeypatch.setattr(module, "run", run)


@pytest.mark.parametrize(("bad", "ruined"), [(0, False), (4, False), (5, True)])
def test_half_of_the_groups_must_be_spoiled(bad, ruined, monkeypatch):
    Spoiled(bad, monkeypatch)
    values = (np.arange(20_000) % 4 == 0).astype(int)
    found = median_of_groups(zsum, values, groups=9, rng=sdp.SeededWords(3))
    assert (abs(found.value - 5_000) > 1e6) is ruined


def test_arguments():
    with pytest.raises(sdp.DataError, match="too few for 9 groups"):
        median_of_groups(zsum, [1, 0], groups=9)
    with pytest.raises(sdp.ParameterError, match="liars"):
        worst_bias(SINGLE[0], -1)


def test_histograms_have_a_median_in_every_bin():
    values = np.arange(8_000) % 4
    found = median_of_groups(
        lambda n: sdp.protocols.krr.make(n=n, k=4, epsilon=1.0, delta=1e-6), values, groups=3,
        rng=sdp.SeededWords(4),
    )  # fmt: skip
    assert found.value.shape == (4,)
    assert np.abs(found.value - 2_000).max() < 500
