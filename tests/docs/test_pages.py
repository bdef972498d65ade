"""Every Markdown file of the repository can be read in an editor."""

import pytest

from repository import ROOT, tracked_files

LONGEST = 120
PAGES = [path for path in tracked_files() if path.suffix == ".md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_shorter_than_120_characters(path):
    lines = path.read_text().splitlines()
    long = [number for number, line in enumerate(lines, start=1) if len(line) >= LONGEST]
    assert not long, f"{path.relative_to(ROOT)}: lines {long}"
