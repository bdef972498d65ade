"""The experiments themselves: they agree or say why, whatever runs them; and their verdicts can fail."""

import numpy as np
import pytest

from shuffledp.lab import Context, Effort, experiments, load, run_lab

NAMES = [each.name for each in experiments()]
EXPECTED_DIFFERENCES = {
    "adaptive": 1,
    "amplification": 1,
    "bundles": 2,
    "histogram_or_sum": 1,
    "levels": 1,
    "one_sided": 1,
    "robustness": 1,
}
QUICK = ("levels", "lower_bound")


def check(record):
    assert not record.failure, record.failure
    differing = [verdict for verdict in record.verdicts if not verdict.agrees]
    assert len(differing) == EXPECTED_DIFFERENCES.get(record.name, 0), differing
    assert all(verdict.why for verdict in differing)


@pytest.mark.slow  # `test_runner` compares runs of a small experiment
def test_the_fast_ones_agree_whatever_runs_them(tmp_path):
    alone = run_lab(QUICK, effort=Effort.QUICK, out=tmp_path / "one")
    together = run_lab(QUICK, effort=Effort.QUICK, out=tmp_path / "two", workers=2)
    for record, other in zip(alone, together, strict=True):
        check(record)
        assert record.verdicts == other.verdicts
        assert record.captions
        for name in ("table.csv", *(f"{each}.svg" for each in record.captions)):
            first, second = (tmp_path / run / record.name / name for run in ("one", "two"))
            assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_agree_or_say_why(name, tmp_path):
    check(*run_lab([name], effort=Effort.QUICK, out=tmp_path))


def test_a_wrong_tail_is_noticed(monkeypatch):
    run = load("laplace_tail").run
    monkeypatch.setitem(run.__globals__, "exact", lambda beta, _: np.asarray(beta, dtype=float))
    result = run(Context(name="laplace_tail", effort=Effort.QUICK))
    assert [verdict.agrees for verdict in result.verdicts] == [True, False, False, True]


def test_too_much_noise_is_noticed(monkeypatch):
    run = load("laplace_tail").run
    trials = run.__globals__["trials"]
    monkeypatch.setitem(run.__globals__, "trials", lambda *a: 1.1 * trials(*a))
    result = run(Context(name="laplace_tail", effort=Effort.QUICK))
    assert [verdict.agrees for verdict in result.verdicts][:2] == [False, False]


def test_empty_bins_with_noise_are_noticed(monkeypatch):
    run = load("histogram").run
    curator = run.__globals__["curator"]
    monkeypatch.setitem(run.__globals__, "curator", lambda *a: np.add(curator(*a), [0, 1]))
    result = run(Context(name="histogram", effort=Effort.QUICK))
    assert [verdict.agrees for verdict in result.verdicts] == [False, True, True, True]


def bundles(monkeypatch, **other):
    """The parts of an experiment, some of them changed."""
    parts = load("bundles").run.__globals__
    for name, value in other.items():
        monkeypatch.setitem(parts, name, value)
    return parts


def agreement(verdicts):
    return [verdict.agrees for verdict in verdicts]


def test_losses_that_are_not_added_up_are_noticed(monkeypatch):
    parts = bundles(monkeypatch, LEVELS={2: 109.35})
    level, check = parts["poisson_level"], parts["check_levels"]
    assert agreement(check(parts["Table"]())[0]) == [True, True]
    monkeypatch.setitem(parts, "poisson_level", lambda _: level(1))
    assert agreement(check(parts["Table"]())[0]) == [False, False]


def test_a_sample_that_is_taken_for_everybody_is_noticed(monkeypatch):
    parts = bundles(monkeypatch)
    errors, context = parts["floor_errors"], Context(name="bundles", effort=Effort.QUICK)
    monkeypatch.setitem(
        parts, "floor_errors", lambda asked: (errors(asked)[0], *2 * errors(asked)[2:])
    )
    assert agreement(parts["check_floor"](context, parts["Table"]())) == [False, False]


@pytest.mark.parametrize(
    ("factor", "verdicts"), [(1.0, [True, True]), (1.4, [False, True]), (4.0, [False, False])]
)
def test_errors_of_trees_that_are_not_those_stated_are_noticed(monkeypatch, factor, verdicts):
    """Runs whose squared errors are on average what is stated, and the same ones scaled: nothing is dealt."""
    parts = bundles(monkeypatch, find_error=lambda *_: 40.0, make_tree=lambda shape: shape)

    def errors(_context, _shape, runs):
        return [np.full(8, 40.0 * factor * way) for way in np.resize([0.8, 1.2, 0.98], runs)]

    monkeypatch.setitem(parts, "deal_trees", errors)
    context = Context(name="bundles", effort=Effort.QUICK)
    assert agreement(parts["check_dealt"](context, parts["Table"]())) == verdicts


@pytest.mark.slow
def test_trees_with_more_noise_than_they_state_are_noticed(monkeypatch):
    parts = bundles(monkeypatch)
    deal, context = parts["deal_trees"], Context(name="bundles", effort=Effort.QUICK)
    monkeypatch.setitem(
        parts, "deal_trees", lambda *given: [1.4 * errors for errors in deal(*given)]
    )
    assert agreement(parts["check_dealt"](context, parts["Table"]())) == [False, False]


def test_pure_histograms_with_more_noise_than_a_plan_states_are_noticed():
    parts = load("pure_histogram").run.__globals__

    def table(measured):
        errors = {"pure_histogram": 6.4, "correlated_histogram": 3.1, "dummies_histogram": 6.0}
        return [
            {"protocol": name, "k": 2, "stated": stated, "measured": measured, "messages": 54}
            for name, stated in (errors | {"local": 13.6, "central": 2.8}).items()
        ]

    assert agreement(parts["verdicts"](table(6.45))) == [True] * 6
    assert agreement(parts["verdicts"](table(6.61))) == [False, *[True] * 5]
