"""A protocol whose author gives the planner no hint is looked at, always; hints are in SPEC, and nowhere else."""

import ast
import inspect
from dataclasses import replace
from typing import ClassVar

import pytest

from repository import ROOT
from shuffledp import mechanisms, protocols
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import HONEST, LATE, Crowd, Hints, Look, Promise, Spec
from shuffledp.planner.choice import Aim, choose_row, order_candidates, pick_for_file, recognise
from shuffledp.planner.question import Limits, Problem
from shuffledp.planner.rows import evaluate
from shuffledp.protocols import PROTOCOLS, correlated_count

ASKED = Problem.of("count", n=10_000, epsilon=1.0, delta=1e-6, honest=0.9)
LIMITS = Limits.of(models="shuffle")


class Newcomer:
    """A maker that is no `ShuffleMaker`."""

    options: ClassVar = {}
    parameters: ClassVar = {"n": True, "epsilon": True, "delta": True, "honest": False}

    def __init__(self, share):
        self.share = share

    def build(self, crowd, promise):
        return correlated_count.make.build(replace(crowd, honest=self.share), promise, gap=0.01)

    def __call__(self, *, n, epsilon, delta, honest=HONEST):
        return self.build(Crowd(n=n, honest=honest), Promise(epsilon=epsilon, delta=delta))


def offer(monkeypatch, share, hints=None):
    """Another package offers noise that counts on this share of honest people: on more, with less noise."""
    new = Spec(
        name="brand_new",
        title="new",
        task="count",
        reference="here",
        make=Newcomer(share),
        **({} if hints is None else {"hints": hints}),
    )
    monkeypatch.setattr(protocols, "list_offered", lambda: (new,))


class Looking:
    def __init__(self):
        self.seen = []

    def __call__(self, candidate):
        self.seen.append(candidate.name)
        return evaluate(candidate, ASKED, LIMITS)


@pytest.mark.parametrize(("share", "chosen"), [(1.0, "brand_new"), (0.5, "split_and_mix")])
def test_a_newcomer_is_looked_at_for_a_file_and_taken_if_it_is_better(monkeypatch, share, chosen):
    offer(monkeypatch, share)
    look = Looking()
    assert pick_for_file(ASKED, Model.SHUFFLE, look).protocol == chosen
    assert "brand_new" in look.seen
    assert not {"zsum", "rr"} & set(look.seen)  # late ones need no look


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_newcomer_is_looked_at_before_a_row_is_enough(monkeypatch, share):
    offer(monkeypatch, share)
    look = Looking()
    shuffled = (each for each in order_candidates(ASKED.task) if each.model is Model.SHUFFLE)
    assert choose_row(map(look, shuffled), Aim.ERROR, recognise(ASKED)).protocol in look.seen
    assert look.seen == ["brand_new", "correlated_count"]


def test_newcomers_are_listed_before_our_late_protocols_and_after_the_others(monkeypatch):
    offer(monkeypatch, 1.0)
    ours = [spec for spec in PROTOCOLS if spec.task in ("count", "sum")]
    late = [spec.name for spec in ours if spec.hints.look is Look.LATE]
    early = [spec.name for spec in ours if spec.name not in late]
    found = [spec.name for spec in protocols.list_answering("count", "sum")]
    assert found == [*early, "brand_new", *late]
    assert early
    assert late


def test_who_says_late_waits(monkeypatch):
    offer(monkeypatch, 1.0, LATE)
    look = Looking()
    pick_for_file(ASKED, Model.SHUFFLE, look)
    assert "brand_new" not in look.seen


def test_a_newcomer_that_is_far_worse_is_not_chosen_though_it_came_first(monkeypatch):
    offer(monkeypatch, 0.1)
    rows = [evaluate(each, ASKED, LIMITS) for each in order_candidates(ASKED.task)]
    assert [row.protocol for row in rows if row.newcomer] == ["brand_new"]
    assert choose_row(rows, Aim.ERROR, recognise(ASKED)).protocol == "correlated_count"


RARE = [spec for spec in PROTOCOLS if spec.hints.wins]


@pytest.mark.parametrize("spec", RARE, ids=lambda spec: spec.name)
def test_a_rare_winner_wins_where_it_says(spec):
    """Its error is the smallest in the setting that it names, and not by rounding."""
    numbers = dict(spec.hints.wins)
    limits = Limits.of(models="shuffle", max_messages=numbers.pop("max_messages"))
    asked = Problem.of(spec.task, honest=HONEST, **numbers)
    rows = [evaluate(each, asked, limits) for each in order_candidates(asked.task)]
    best, second, *_ = sorted((row for row in rows if row.available), key=lambda row: row.error)
    assert best.protocol == spec.name
    assert best.error < 0.96 * second.error


def test_who_no_plan_chooses_says_where_it_wins():
    assert {spec.name for spec in RARE} == {"sparse_histogram", "hadamard_blanket", "fake_users"}


def test_late_protocols_are_at_the_end_of_the_registry():
    late = [spec.hints.look is Look.LATE for spec in PROTOCOLS]
    assert late == sorted(late)
    assert late[-1]
    assert Hints().look is Look.ALWAYS


def test_nobody_but_a_table_of_the_literature_lists_protocols_by_name():
    names, found = {spec.name for spec in PROTOCOLS}, {}
    source = ROOT / "src" / "shuffledp"
    for room in ("planner", "questions", "protocols/shared", "engine", "tasks"):
        for path in (source / room).rglob("*.py"):
            said = {
                node.value
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            if said & names:
                found[path.relative_to(source).as_posix()] = said & names
    assert found.keys() == {"planner/growth.py"}, found


def test_declared_options_are_those_of_the_makers():
    """What a registry says of a maker is what the maker takes; the planner looks at nothing else."""
    for each in mechanisms.MECHANISMS:
        taken = inspect.signature(each.make).parameters
        assert set(each.options) <= set(taken) - {"epsilon"}, each.name
        needed = {name for name, one in taken.items() if one.default is inspect.Parameter.empty}
        assert {name for name, must in each.options.items() if must} == needed - {"epsilon"}
    for spec in PROTOCOLS:
        for maker in (spec.make, spec.make_local):
            if maker is not None:
                assert list(maker.parameters) == list(inspect.signature(maker).parameters)
                assert maker.options.keys() <= maker.parameters.keys()
                assert not maker.options.keys() & {"n", "epsilon", "delta", "honest"}


def test_crowd_and_promise_are_taken_as_they_are():
    crowd, promise = Crowd(n=10_000, honest=0.8), Promise(epsilon=1.0, delta=1e-6)
    named = {"n": 10_000, "epsilon": 1.0, "honest": 0.8}
    assert correlated_count.make.build(crowd, promise) == correlated_count.make(**named, delta=1e-6)
    pure = protocols.pure_count.make
    assert pure.build(replace(crowd, n=50), promise) == pure(**{**named, "n": 50})
    assert protocols.krr.make_local.build(crowd, promise, k=4) == protocols.krr.make_local(
        k=4, epsilon=1.0
    )
    with pytest.raises(ParameterError, match="delta"):
        correlated_count.make.build(crowd, replace(promise, delta=0.0))
