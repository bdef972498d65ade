"""The experiments themselves: they agree or say why, whatever runs them; and their verdicts can fail."""

from fractions import Fraction
from math import comb, exp, log, sqrt

import numpy as np
import pytest

from shuffledp.lab import Context, Effort, experiments, load, run_lab
from shuffledp.lab.local_bound import _convolve_reports, _distance, local_lower_bound

NAMES = [each.name for each in experiments()]
EXPECTED_DIFFERENCES = {
    "adaptive": 1,
    "amplification": 2,
    "bundles": 2,
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


def brute_force(ones, n, flip):
    """The law of the reported ones, as fractions."""
    law = [Fraction(0)] * (n + 1)
    for kept in range(ones + 1):
        for lies in range(n - ones + 1):
            law[kept + lies] += (
                comb(ones, kept) * (1 - flip) ** kept * flip ** (ones - kept)
                * comb(n - ones, lies) * flip**lies * (1 - flip) ** (n - ones - lies)
            )  # fmt: skip
    return law


@pytest.mark.parametrize(("ones", "n"), [(0, 3), (2, 5), (7, 10)])
def test_the_law_of_reports(ones, n):
    flip = Fraction(1, 4)
    found = _convolve_reports(ones, n, 0.25)
    assert found.start == 0
    assert np.allclose(found.mass, [float(q) for q in brute_force(ones, n, flip)], atol=1e-12)
    other = _convolve_reports(n - ones, n, 0.25)
    pair = brute_force(ones, n, flip), brute_force(n - ones, n, flip)
    exact = sum(abs(a - b) for a, b in zip(*pair, strict=True)) / 2
    assert _distance(found, other) == pytest.approx(float(exact), abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("n", [2, 10, 1000, 100_000])
def test_the_lower_bound_is_below_the_best_protocol_and_not_far(epsilon, n):
    response = sqrt(n * exp(epsilon)) / (exp(epsilon) - 1)
    bound = local_lower_bound(epsilon=epsilon, n=n)
    assert 0 < bound <= response
    if n * epsilon**2 > 10:  # enough people to learn anything
        assert bound > response / 3


def test_the_lower_bound_falls_with_epsilon():
    values = [local_lower_bound(epsilon=e, n=10_000) for e in (0.5, 1.0, 2.0)]
    assert values == sorted(values, reverse=True)
    assert log(values[0] / values[1]) == pytest.approx(log(2), abs=0.1)
