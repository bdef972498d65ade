"""One chooser: what it takes, that a plan takes the same, that a larger budget is never wasted."""

from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.planner import choose
from shuffledp.planner.choice import (
    SAME,
    Aim,
    _curator_error,
    choose_row,
    order_candidates,
    recognise,
    smallest_error,
)
from shuffledp.planner.question import Limits, Problem
from shuffledp.planner.rows import Row, evaluate
from shuffledp.tasks import Histogram, Mean, Sum
from support import first


def test_numbers_of_numpy_are_numbers():
    chosen = sdp.histogram(n=np.int64(10_000), k=np.int8(5), epsilon=np.float32(1), delta=1e-6)
    assert chosen == sdp.histogram(n=10_000, k=5, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("call", "wrong", "message"),
    [
        (sdp.count, {"epsilon": 200.0}, "epsilon=200.0 must be <= 100"),
        (sdp.count, {"delta": -0.1}, "delta=-0.1 must be > 0"),
        (sdp.count, {"max_messages": 0.5}, "max_messages=0.5 must be >= 1"),
        (sdp.histogram, {"k": 1}, "k=1 must be >= 2"),
        (sdp.mean, {"lower": 2.0, "upper": 1.0}, "upper=1 must be > lower=2"),
    ],
)
def test_refusals_name_the_parameter(call, wrong, message):
    fine = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6}
    extra = {sdp.histogram: {"k": 4}, sdp.mean: {"lower": 0, "upper": 1}}.get(call, {})
    with pytest.raises(sdp.ParameterError, match=message):
        call(**{**fine, **extra, **wrong})


def test_a_delta_of_0_takes_what_needs_none():
    """The row that a plan chooses; where there is none, the reasons are told."""
    asked = {"n": 60, "epsilon": 2.0, "delta": 0.0}
    assert sdp.count(**asked).name == sdp.plan("count", **asked).chosen.protocol == "pure_count"
    assert sdp.count(**asked).guarantee.delta == 0
    assert sdp.histogram(k=3, **asked).name == "pure_histogram"
    with pytest.raises(sdp.UnsupportedError, match=r"no protocol fits: .*delta=0.0 must be > 0"):
        sdp.mean(lower=0, upper=1, **asked)


def test_a_tighter_message_budget_takes_the_next_protocol():
    common = {"n": 100_000, "k": 1024, "epsilon": 1.0, "delta": 1e-6}
    free = sdp.histogram(**common)
    tight = sdp.histogram(**common, max_messages=3.0)
    assert free.name == "correlated_histogram"
    assert tight.name != free.name
    assert tight.cost.messages_mean <= 3.0


def test_few_users_get_something_that_works():
    assert sdp.count(n=50, epsilon=1.0, delta=1e-3).guarantee.delta <= 1e-3


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-8), (1e-5, 1e-8), (1.0, 1e-300)])
def test_extreme_guarantees_are_kept(epsilon, delta):
    """Most protocols refuse; whichever is left promises no less than was asked."""
    promised = sdp.count(n=3000, epsilon=epsilon, delta=delta).guarantee
    assert promised.epsilon <= epsilon
    assert promised.delta <= delta


GRID = [
    (task, {"n": n, "epsilon": epsilon, "delta": delta})
    # All pairs of values first, then the others.
    for n, epsilon, delta in (
        (60, 0.5, 1e-3), (60, 6.0, 1e-8), (5_000, 0.5, 1e-8), (5_000, 6.0, 1e-3),
        (60, 0.5, 1e-8), (60, 6.0, 1e-3), (5_000, 0.5, 1e-3), (5_000, 6.0, 1e-8),
    )
    for task in (
        Sum.declare({"lower": 0, "upper": 3}).task,
        Mean.declare({"lower": 0.0, "upper": 1.0, "steps": 50}).task,
        Histogram.declare({"k": 12}).task,
        sdp.tasks.Count(domain=sdp.Bits()),
    )
]  # fmt: skip


@pytest.mark.parametrize(("task", "numbers"), first(GRID, 8), ids=str)
def test_a_plan_and_the_chooser_choose_the_same(task, numbers):
    plan = sdp.plan(task, **numbers, models="shuffle", allow_large_delta=True)
    if plan.chosen is None:
        with pytest.raises(sdp.UnsupportedError, match="no protocol fits"):
            choose(task, **numbers)
        return
    assert choose(task, **numbers) == plan.make()


def test_a_good_usual_winner_is_taken_without_a_look_at_the_others():
    asked = Problem.of("histogram", n=20_000, k=10, epsilon=1.0, delta=1e-8, honest=0.9)
    looked = []

    def look():
        for candidate in order_candidates(asked.task):
            looked.append(candidate.name)
            yield evaluate(candidate, asked, Limits.of(models="shuffle"))

    assert choose_row(look(), Aim.ERROR, recognise(asked)).protocol == "correlated_histogram"
    assert looked == ["correlated_histogram"]


def test_the_worst_bin_counts():
    """Its mean over 1,024 bins hides that everybody's bin is off by a thousand under k-ary response."""
    plan = sdp.plan("histogram", n=10**6, k=1024, epsilon=1.0, delta=1e-8, models="shuffle")
    rows = {row.protocol: row for row in plan.rows if row.available}
    krr, dummies = rows["krr"], rows["dummies_histogram"]
    assert krr.rmse < 1.5 * dummies.rmse
    assert krr.worst_bin > 20 * dummies.worst_bin
    assert krr.error > 4 * dummies.error


def error_of(task, epsilon, **numbers):
    asked = Problem.of(task, epsilon=epsilon, honest=0.9, **numbers)
    rows = (
        evaluate(each, asked, Limits.of(models="shuffle")) for each in order_candidates(asked.task)
    )
    row = choose_row(rows, Aim.ERROR, recognise(asked))
    assert row.guarantee.epsilon <= epsilon
    assert row.guarantee.delta <= numbers["delta"]
    return row.error


@pytest.mark.parametrize(
    ("task", "epsilons", "numbers"),
    [
        ("mean", (4, 8), {"n": 10**6, "delta": 1e-9, "lower": 0.0, "upper": 100.0, "steps": 10**4}),
        ("histogram", (11, 12), {"n": 36_834_635, "delta": 4.2e-11, "k": 82}),
        pytest.param("count", (13, 14), {"n": 21_352, "delta": 7.9e-12}, marks=pytest.mark.slow),
        pytest.param("count", (1, 3, 9, 27), {"n": 1_000, "delta": 1e-9}, marks=pytest.mark.slow),
        ("histogram", (1, 4, 16), {"n": 1_000, "delta": 1e-6, "k": 5}),
    ],
)
def test_a_larger_epsilon_is_never_wasted(task, epsilons, numbers):
    """A protocol that does not exist there is taken at a smaller one; errors within SAME count as equal."""
    errors = [error_of(task, epsilon, **numbers) for epsilon in epsilons]
    for before, after in pairwise(errors):
        assert after <= SAME * before


class TestNamed:
    TASK = Histogram.declare({"k": 4}).task

    def test_is_made_whatever_its_error(self):
        made = choose(self.TASK, n=1000, epsilon=1.0, delta=1e-6, protocol="count_min")
        assert made.name == "count_min"

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"protocol": "rr"}, "rr answers a count, not a histogram"),
            ({"protocol": "count_min", "model": "local"}, "not for a histogram in the local model"),
            ({"protocol": "laplace", "model": "central"}, "not for a histogram in the central"),
            ({"protocol": "fake_users", "max_messages": 1}, "2 messages per user, more than 1"),
        ],
    )
    def test_refusals_say_why(self, wrong, message):
        with pytest.raises(sdp.UnsupportedError, match=message):
            choose(self.TASK, n=1000, epsilon=1.0, delta=1e-6, **wrong)


def test_the_local_model_adds_up():
    """Its protocols average, and n is public."""
    task = Sum.declare({"lower": 0, "upper": 3}).task
    made = choose(task, n=1000, epsilon=1.0, model="local")
    assert made.task == "sum"
    assert choose(task, n=1000, epsilon=1.0, model="central").name == "geometric"


def test_limits_hold_for_very_many_bins():
    """Whose protocol is made without a row of a plan."""
    task = Histogram(domain=sdp.Categories(k=10**9))
    asked = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6, "protocol": "hashed_histogram"}
    made = choose(task, **asked)
    assert choose(task, **asked, max_messages=made.cost.messages_mean + 1) == made
    with pytest.raises(sdp.UnsupportedError, match="no protocol fits: hashed_histogram"):
        choose(task, **asked, max_messages=made.cost.messages_mean * 0.99)


def test_very_many_bins():
    task = Histogram.declare({"k": 2**23}).task
    assert choose(task, n=1000, epsilon=1.0, delta=1e-6).name == "hashed_histogram"
    local = choose(task, n=1000, epsilon=1.0, model="local")
    assert local.randomizer.domain.size == 2**23


class TestFiles:
    """Nobody sends anything: of equal errors the one that is dealt."""

    ASKED = MappingProxyType({"n": 10_000, "epsilon": 2.0, "model": "local"})

    def test_dealt_at_equal_error(self):
        task = Histogram(domain=sdp.Categories(k=64))
        sent = choose(task, **self.ASKED)
        dealt = choose(task, **self.ASKED, for_file=True)
        assert not sent.dealt
        assert dealt.dealt
        asked = Problem.of(task, n=10_000, epsilon=2.0, delta=0.0, honest=1.0)
        limits = Limits.of(models="local")
        rows = [evaluate(each, asked, limits) for each in order_candidates(task)]
        found = {row.protocol: row for row in rows if row.available}
        assert found[dealt.name].rmse <= SAME * min(row.rmse for row in found.values())
        assert [found[each.name].dealt for each in (sent, dealt)] == [False, True]

    def test_ask_prefers_it_and_messages_do_not(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x\n" + "\n".join(str(i % 64) for i in range(10_000)) + "\n")
        question = sdp.Question(name="x", task="histogram", column=None, options={"k": 64})
        survey = sdp.Survey.of(question, epsilon=2.0, model="local")
        assert survey.prepare(path).protocol.dealt
        assert not survey.prepare(path, sent=True).protocol.dealt


def test_what_is_refused_is_not_the_smallest_and_says_why():
    asked = Problem.of("histogram", n=1000, k=8, epsilon=1.0, delta=1e-6, honest=0.9)
    local, central = Limits.of(models="local"), Limits.of(models="central")
    best = smallest_error(asked, local)
    met = []

    def refuse(made):
        met.append(made.name)
        return "too long" if made.name == best.protocol else None

    other = smallest_error(asked, local, refuse=refuse)
    assert best.protocol in met
    assert other.protocol != best.protocol
    assert other.rmse >= best.rmse
    with pytest.raises(sdp.UnsupportedError, match=f"no protocol fits: {best.protocol}.*too long"):
        smallest_error(asked, local, protocol=best.protocol, refuse=refuse)
    met.clear()
    assert smallest_error(asked, central, refuse=refuse).model is sdp.Model.CENTRAL
    assert met == []  # a curator sends no messages
    with pytest.raises(sdp.UnsupportedError, match=r"max_bits|bits") as told:
        smallest_error(
            asked, Limits.of(models="local", max_bits=1.0), protocol="krr", refuse=refuse
        )
    assert "too long" not in str(told.value)


def test_a_row_that_is_as_good_as_the_floor_is_enough():
    asked = Problem.of("count", n=10_000, epsilon=1.0, delta=1e-6, honest=0.9)
    enough = recognise(asked)
    floor = SAME * _curator_error(asked)
    row = Row(protocol="p", model=sdp.Model.SHUFFLE, rmse=floor, bits_per_user=1.0)
    assert enough(row)
    assert not enough(replace(row, rmse=floor * (1 + 1e-12)))
    assert not enough(replace(row, model=sdp.Model.LOCAL))
    assert not enough(replace(row, bits_per_user=None))
    assert not enough(replace(row, bits_per_user=1e9))
    assert not enough(replace(row, reason="it is not there"))


def test_the_same_reason_is_told_once():
    with pytest.raises(sdp.UnsupportedError) as refused:
        sdp.mean(lower=0, upper=1, n=1000, epsilon=1.0, delta=0.0)
    assert str(refused.value).count("delta=0.0 must be > 0") == 1
