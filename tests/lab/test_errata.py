"""Page and checks of the errata correspond one to one, and each check tells right from wrong."""

import re
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import sqrt

import pytest

from repository import ROOT
from shuffledp.accounting.closed_forms import feldman_2021
from shuffledp.lab import Context, Effort, load

PAGE = (ROOT / "docs/theory/errata.md").read_text()
ERRATA = load("errata").run.__globals__["ERRATA"]


@cache
def find_all():
    found = load("errata").run.__globals__["run_checks"]()
    return {each.number: finding for each, finding in found}


def test_there_are_44():
    assert sorted(ERRATA) == list(range(1, 45))


def test_the_page_has_each_once_in_order():
    assert re.findall(r"^### (\d+)\.", PAGE, re.MULTILINE) == [str(i) for i in range(1, 45)]


@pytest.mark.parametrize("number", range(1, 45))
def test_the_right_statement_holds_and_the_printed_one_does_not(number):
    assert find_all()[number].right
    assert not find_all()[number].wrong
    assert find_all()[number].measured


@pytest.mark.parametrize("number", range(1, 45))
def test_each_says_what_it_computes(number):
    each = ERRATA[number]
    assert each.how.endswith(".")
    assert "\n" not in each.how
    assert each.says.endswith(".")
    assert each.truth.endswith(".")
    assert re.fullmatch(r"all|N[1-5](, N[1-5])*", each.notes)


def test_checks_and_explanations_are_all_different():
    for part in ("how", "truth", "says"):
        assert len({getattr(each, part) for each in ERRATA.values()}) == 44


@pytest.mark.parametrize("slip", [{"right": False}, {"wrong": True}])
def test_a_wrong_statement_would_be_told(monkeypatch, slip):
    run = load("errata").run
    wrong = replace(find_all()[24], **slip)
    checks = [(ERRATA[23], find_all()[23]), (ERRATA[24], wrong)]
    monkeypatch.setitem(run.__globals__, "run_checks", lambda: checks)
    result = run(Context(name="errata", effort=Effort.QUICK))
    assert [verdict.agrees for verdict in result.verdicts] == [True, False]


ONE_MESSAGE = [{(0,): Fraction(1)}, {(1,): Fraction(1)}]


@pytest.mark.parametrize(
    ("module", "name", "value", "number"),
    [
        ("structure", "SWAP", ONE_MESSAGE, 14),
        ("clones", "doona", feldman_2021, 28),
        ("clones", "feldman_2021", lambda **at: 2 * feldman_2021(**at), 41),
        ("clones", "doona", feldman_2021, 41),
        ("means", "local_lower_bound", lambda **at: sqrt(at["n"]) / 9, 27),
        ("means", "local_ratio", lambda _: 1, 25),
        ("smoothness", "independent_level", lambda **_: Fraction(1, 2), 8),
    ],
)
def test_checks_fail_if_the_computation_says_otherwise(monkeypatch, module, name, value, number):
    """Nothing is written down in advance: with the printed statement put in, the check fails."""
    package = load("errata").run.__module__
    monkeypatch.setattr(sys.modules[f"{package}.{module}"], name, value)
    finding = ERRATA[number].check()
    assert finding.wrong or not finding.right
