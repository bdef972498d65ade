"""Liars: how far they can move an answer, and a median that they cannot."""

import numpy as np
import pytest

import shuffledp as sdp
from contract.examples import all_examples
from shuffledp.core.analyzer import Tally
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
    assert worst_bias(made, 1) == pytest.approx(made.cost.messages_max)
    bins = sdp.protocols.dummies_histogram.make(n=10_000, k=4, epsilon=1.0, delta=1e-6)
    assert worst_bias(bins, 1) == pytest.approx(bins.cost.messages_max)


UNBOUNDED = ("tree", "hashed_tree", "hashed_prefixes")
TINY = [
    (each.spec.name, each.spec.make(**parameters))
    for each in all_examples()
    if each.spec.make is not None
    and each.spec.name not in (*UNBOUNDED, "count_min", "split_and_mix", "local_prefixes")
    for parameters in each.shuffled_tiny[:1]
]


@pytest.mark.parametrize(("name", "made"), TINY, ids=[name for name, _ in TINY])
def test_no_report_moves_an_answer_by_more(name, made):
    """Any two lists of messages that a device may send, in everybody else's crowd, whatever that is."""
    device, bound = made.randomizer, worst_bias(made, 1)
    laws = [device.pmf(x) for x in range(device.domain.size)]
    reports = {sent for law in laws for sent in law}
    if name in ("zsum", "zsum_histogram"):
        n = made.users
        most = max(
            made.analyzer.randomizer.gamma * n + 1, 1
        )  # from a bin that is cut to one that is not
        assert bound >= most
        return
    moved = [
        sum((np.array([*map(float, made.analyzer.weights(y))]) for y in sent), np.zeros(1))
        for sent in reports
    ]
    width = 1.0
    if isinstance(device.domain, sdp.Integers | sdp.Reals):
        width = float(device.domain.upper - device.domain.lower)
    spread = max(np.abs(one - other).max() for one in moved for other in moved) / width
    assert spread <= bound * (1 + 1e-12)


def test_only_trees_and_words_state_no_influence():
    without = []
    for each in all_examples():
        make = each.spec.make or each.spec.make_local
        made = make(**(each.shuffled or each.local)[0])
        try:
            assert worst_bias(made, 3) >= 3 * (1 - 1e-9)
        except sdp.UnsupportedError:
            without.append(each.spec.name)
    assert without == [*UNBOUNDED]


def test_a_cut_answer_leaps():
    """One liar takes an answer of 0 to one of n gamma: counting messages alone would be too little."""
    made = sdp.protocols.zsum.make(n=10_000, epsilon=1.0, delta=1e-6)
    device = made.randomizer
    cut, beyond = (
        made.analyzer.estimate(Tally(counts=np.array([ones]), users=10_000)).value
        for ones in (10_000, 10_001)
    )
    assert cut == 0
    assert beyond - cut == pytest.approx(float(10_000 * device.gamma) + 1)
    assert beyond - cut <= worst_bias(made, 1)


def test_plan_says_what_liars_can_do():
    asked = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6}
    plan = sdp.plan("mean", upper=10, liars=0.01, models=("shuffle", "central"), **asked)
    rows = {row.protocol: row for row in plan.rows}
    assert plan.bias(rows["laplace"]) == 100 * 10
    one = worst_bias(rows["rounded_sum"].make(), 100)
    assert plan.bias(rows["rounded_sum"]) == pytest.approx(10 * one)
    assert plan.to_dict()["liars"] == 0.01
    assert "liars" in str(plan)
    assert "liars" not in str(sdp.plan("mean", upper=10, models="central", **asked))
    with pytest.raises(sdp.ParameterError, match="liars=2"):
        sdp.plan("mean", upper=10, liars=2, **asked)


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
