"""Searches that a plan makes where there is nothing: for a smaller epsilon, and for how many people would do."""

import math
from types import SimpleNamespace

import pytest

import shuffledp as sdp
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import Look
from shuffledp.planner import rows
from shuffledp.planner.choice import order_candidates
from shuffledp.planner.question import Limits, Problem, candidates
from shuffledp.tasks import task_named


@pytest.fixture
def look(monkeypatch):
    """Look for a row below an epsilon, where one is there for some; says what was tried, and what was found."""

    def look(there, *, asked=6.0, model=Model.SHUFFLE, reason="too few", said="too few"):
        tried = []

        def fill(bare, candidate, less, limits):
            tried.append(less.promise.epsilon)
            if not there(less.promise.epsilon):
                raise UnsupportedError(said)
            return rows.Row(protocol="made", model=model, rmse=less.promise.epsilon)

        def within(row, candidate, less, limits):
            bad = row.rmse > 5
            return row if not bad else rows.replace(row, reason="beyond the limits")

        monkeypatch.setattr(rows, "_fill", fill)
        monkeypatch.setattr(rows, "_within", within)
        problem = Problem.of("count", n=100, epsilon=asked, delta=1e-6, honest=1.0)
        row = rows._at_less(
            None, SimpleNamespace(model=model), problem, Limits.of(models=model), reason
        )
        return (None if row is None else row.rmse), tried

    return look


def test_the_largest_epsilon_with_a_row_is_found_to_one_percent(look):
    found, tried = look(lambda epsilon: epsilon <= 3.3)
    assert tried[:3] == [4.0, 6.0 / 1.5 / 1.5, math.sqrt(4.0 * 6.0 / 1.5 / 1.5)]
    assert 3.3 / 1.01 <= found <= 3.3
    at_once, tried = look(lambda epsilon: epsilon < 6)
    assert tried[:2] == [4.0, math.sqrt(24)]
    assert 5 / 1.01 <= at_once <= 5  # above it is beyond the limits


def test_beyond_the_shore_is_an_island(look):
    """The farthest of eight steps of one percent, but below what was asked for."""
    shore, _ = look(lambda epsilon: epsilon <= 3.0)
    tops = [shore * 1.01**step for step in range(1, 10)]
    for step in (1, 5, 8):
        top = tops[step - 1]
        found, _ = look(lambda epsilon, top=top: epsilon <= 3.0 or abs(epsilon / top - 1) < 1e-6)
        assert found == top
    top = tops[8]
    assert look(lambda epsilon: epsilon <= 3.0 or abs(epsilon / top - 1) < 1e-6)[0] == shore
    top = tops[4]
    near = look(lambda epsilon: epsilon <= 3.0 or abs(epsilon / top - 1) < 1e-6, asked=top)
    assert near[0] <= 3.0


def test_nothing_is_looked_for_below_one(look):
    found, tried = look(lambda epsilon: epsilon < 0.7)
    assert found is None
    assert [round(each, 4) for each in tried] == [4.0, 2.6667, 1.7778, 1.1852, 0.7901]
    assert look(lambda _: True, asked=1.0) == (None, [])
    assert look(lambda _: True, model=Model.LOCAL) == (None, [])
    assert look(lambda _: True, model=Model.CENTRAL) == (None, [])


def test_a_message_that_is_too_long_is_so_for_every_epsilon(look):
    long = "a message has 9,000 bits"
    assert look(lambda epsilon: epsilon < 3, reason=long, said=long) == (None, [4.0])
    other = "it has a message has"
    assert look(lambda epsilon: epsilon < 3, reason=other, said=other)[0] > 2.9
    assert look(lambda epsilon: epsilon < 3, reason=long, said="too few")[0] > 2.9


@pytest.mark.parametrize("n", [1, 7, 60, 2_499, 4_999, 9_900, 9_999])
def test_how_many_people_would_see_a_word(n):
    """A word is seen by 100 sqrt(n) people: from 10,000 on."""
    levels = []

    def predict(people):
        def find_count(level):
            levels.append(level)
            return 100 * math.sqrt(people)

        return SimpleNamespace(find_count=find_count)

    made = SimpleNamespace(offers=SimpleNamespace(predict=predict))
    with pytest.raises(sdp.UnsupportedError) as told:
        rows.check_sight(made, n)
    head, _, rest = str(told.value).partition("at least ")
    assert head == f"n={n} people are too few for any word to be seen: "
    needed = int(rest.removesuffix(" are needed").replace(",", ""))
    assert 10_000 <= needed <= 10_100
    assert f"{needed:,} are needed" == rest
    rows.check_sight(made, 10_000)
    rows.check_sight(SimpleNamespace(offers=SimpleNamespace(predict=None)), 1)
    assert set(levels) == {0.95}


def test_what_nobody_sends_is_not_evaluated():
    rows._check_size(1_000_000.0, 4096)
    with pytest.raises(sdp.UnsupportedError) as told:
        rows._check_size(1.0, 4097)
    assert str(told.value) == "a message has 4,097 bits; errors are evaluated up to 4,096"
    with pytest.raises(sdp.UnsupportedError) as told:
        rows._check_size(1_000_001.0, 4096)
    assert str(told.value) == "everybody would send 1,000,001 messages, more than 1,000,000"


@pytest.mark.parametrize("name", ["count", "sum", "mean", "histogram", "median", "words"])
def test_every_candidate_comes_once(name):
    options = {"words": {"bits": 8}, "histogram": {"k": 3}}.get(name, {"lower": 0, "upper": 3})
    task = task_named(name).declare({} if name == "count" else options).task
    found = [(each.name, each.model) for each in order_candidates(task)]
    others = {
        (each.name, each.model) for each in candidates(task) if each.model is not Model.CENTRAL
    }
    assert len(found) == len(set(found))
    assert others <= set(found)
    late = [each.amplified for each in order_candidates(task) if each.hints.look is Look.LATE]
    assert late == sorted(late)
