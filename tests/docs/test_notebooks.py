"""The notebooks of the documentation run from top to bottom, and are kept without their outputs."""

import ast
import json
from types import ModuleType

import pytest

from repository import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
LARGEST = 100_000


def cells(path, kind):
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def execute(source, namespace):
    """Run a cell as a notebook does: the value of a last expression is shown."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)  # noqa: S102
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)  # noqa: S307
    show = getattr(value, "_repr_html_", None)
    return repr(value) if show is None else show()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = ModuleType("notebook")
    shown = [execute(source, module.__dict__) for source in cells(path, "code")]
    assert sum("<" in (text or "") for text in shown) >= 5, "it shows what notebooks can show"


def test_a_cell_that_fails_is_noticed():
    with pytest.raises(AssertionError):
        execute("x = 1\nassert x == 2", {})
    assert execute("x = 1\nx + 1", {}) == "2"


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["auditor", "first-hour"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_are_small_and_have_no_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < LARGEST
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_start_with_a_title_and_are_linked(path):
    assert cells(path, "markdown")[0].startswith("# ")
    assert f"{path.stem}.ipynb" in (ROOT / "docs/howto/notebooks.md").read_text()
