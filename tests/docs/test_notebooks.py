"""The notebooks of the documentation run from top to bottom, and are kept without their outputs."""

import json

import pytest

from notebooks import execute, read_cells, render
from repository import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
LARGEST = 100_000


def cells(path, kind):
    return [source for found, source in read_cells(path) if found == kind]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_is_shown_on_its_page(path):
    written, shown = render(path, path.name)
    assert sum("<table" in text or "<svg" in text for text in shown) >= 5, "what notebooks can show"
    for place in range(len(cells(path, "code"))):
        assert f'<div id="shown-{place}"></div>' in written
    assert f"docs/{path.name}" in written.partition("```")[0], "it says where the file is"


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
