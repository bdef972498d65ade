"""The pictures of theory/amplification.md still show what the library computes."""

import json

import pytest

import amplification as script
from repository import ROOT

PAGE = (ROOT / "docs/theory/amplification.md").read_text()
IMAGES = sorted((ROOT / "docs/theory/img").glob("*.svg"))
FEW = (1_000, 10**6)


def test_the_numbers_behind_the_pictures():
    drawn = json.loads((script.IMAGES / "numbers.json").read_text())
    places = [script.USERS.index(n) for n in FEW]
    again = script.numbers(FEW)
    assert again.keys() == drawn.keys()
    for name, lines in again.items():
        for epsilon0, values in lines.items():
            for value, place in zip(values, places, strict=True):
                before = drawn[name][epsilon0][place]
                assert (value is None) == (before is None), (name, epsilon0)
                assert value is None or value == pytest.approx(before, rel=1e-3), (name, epsilon0)


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_pictures_are_small_shown_and_described(path):
    assert path.stat().st_size < 150_000
    assert f"](img/{path.name})" in PAGE
    assert f"![](img/{path.name})" not in PAGE


def test_there_is_a_panel_for_each_bound():
    drawn = (script.IMAGES / "each-bound.svg").read_text()
    for name in script.BOUNDS:
        assert f">{name}<" in drawn, name
