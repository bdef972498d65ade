"""Formulas: what the hook makes of MathML, so that browsers draw it as it is meant."""

import importlib.util
from types import SimpleNamespace

import pytest

from repository import ROOT

PATH = ROOT / "docs" / "extensions" / "math.py"


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("formulas", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(hook, latex):
    page = SimpleNamespace(file=SimpleNamespace(src_path="page.md"))
    return hook.on_page_content(rf'<span class="arithmatex">\({latex}\)</span>', page)


def test_an_index_stands_beside_a_tall_bracket(hook):
    made = draw(hook, r"\bigl(x\bigr)_+")
    assert "<msub><mi></mi><mo>&#x0002B;</mo></msub>" in made
    assert made.index(")</mo>") < made.index("<msub>")


def test_other_indices_stay(hook):
    assert "<msub><mi>x</mi><mn>1</mn></msub>" in draw(hook, "x_1")


@pytest.mark.parametrize(("letter", "drawn"), [("E", "𝔼"), ("Z", "ℤ"), ("A", "𝔸"), ("R", "ℝ")])
def test_double_struck_letters_are_characters(hook, letter, drawn):
    made = draw(hook, rf"\mathbb {letter}")
    assert drawn in made or f"&#x{ord(drawn):05X};" in made
    assert "mathvariant" not in made


def test_what_is_not_understood_is_an_error(hook):
    with pytest.raises(ValueError, match=r"page\.md: not understood"):
        draw(hook, r"\nosuchcommand x")
