"""The survey in the documentation is the one that the protocols give today, and its exponents are the theory's."""

import importlib.util
from functools import cache
from pathlib import Path

import pytest

import shuffledp as sdp

ROOT = Path(__file__).parents[2]


@cache
def survey():
    return sdp.survey()


def figure():
    path = ROOT / "docs" / "figures" / "survey.py"
    loaded = importlib.util.spec_from_file_location("survey", path)
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    return module


def test_the_table_is_regenerated(monkeypatch):
    found = survey()
    monkeypatch.setattr(sdp, "survey", lambda: found)
    page = (ROOT / "docs" / "theory" / "survey.md").read_text()
    assert figure().table() in page, "run: python docs/figures/survey.py, and paste its table"


THEORY = {
    ("central", "bits"): (0, -1),
    ("central", "integers"): (0, -1),
    ("central", "reals"): (0, -1),
    ("local", "bits"): (1 / 2, -1),
    ("local", "integers"): (1 / 2, -1),
    ("local", "reals"): (1 / 2, -1),
    ("blanket, one message", "bits"): (0, None),
    ("blanket, one message", "integers"): (0, None),
    ("blanket, one message", "reals"): (1 / 6, None),
    ("vanishing communication", "bits"): (0, -1),
    ("vanishing communication", "integers"): (0, None),
    ("vanishing communication", "reals"): (0, None),
    ("almost central", "bits"): (0, -1),
    ("almost central", "integers"): (0, -1),
    ("almost central", "reals"): (0, -1),
}
"""Exponents of the error of the sum in n and in epsilon; None where theory has a logarithm as well."""


@pytest.mark.parametrize(("family", "data"), THEORY)
def test_growth_is_that_of_the_theory(family, data):
    of_n, of_epsilon = THEORY[family, data]
    rows = [row for row in survey() if (row.family, row.data) == (family, data)]
    assert rows
    for row in rows:
        assert row.n_exponent == pytest.approx(of_n, abs=0.02)
        assert -1.02 <= row.epsilon_exponent <= -0.55
        if of_epsilon is not None:
            assert row.epsilon_exponent == pytest.approx(of_epsilon, abs=0.02)


def test_nobody_beats_the_curator():
    for row in survey():
        curator = next(r for r in survey() if (r.family, r.data) == ("central", row.data))
        assert row.rmse >= curator.rmse * (1 - 1e-6)  # a coarse grid's is a little below Laplace


def test_messages_of_a_bit_vanish_beyond_the_first():
    few, many = (
        next(
            row.messages_per_user
            for row in sdp.survey(data=["bits"], n=n, users=[n, 10 * n], epsilons=[0.5, 1.0])
            if row.protocol == "correlated_count"
        )
        for n in (10_000, 1_000_000)
    )
    assert (few - 1) / (many - 1) == pytest.approx(100, rel=0.05)
