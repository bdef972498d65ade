"""Every Markdown file of the repository can be read in an editor."""

import re

import pytest

from repository import ROOT, documents, tracked_files
from shuffledp.questions import TRUST

LONGEST = 120
PAGES = [path for path in tracked_files() if path.suffix == ".md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_shorter_than_120_characters(path):
    """What a command has measured stands in the page as it was printed: a row of a table cannot be wrapped."""
    measured = re.compile(r"^<!-- measured: .*?^<!-- end -->", flags=re.MULTILINE | re.DOTALL)
    text = measured.sub(lambda block: "\n" * block[0].count("\n"), path.read_text())
    lines = text.splitlines()
    long = [number for number, line in enumerate(lines, start=1) if len(line) >= LONGEST]
    assert not long, f"{path.relative_to(ROOT)}: lines {long}"


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_of_an_item_begins_with_a_sign(path):
    """A list inside a list begins there: lists here are written with a minus, so a plus is one of a sum."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"^ +[+*] ", text, flags=re.MULTILINE)


TRUSTING = (
    "README.md",
    "docs/index.md",
    "docs/tutorial/your-file.md",
    "docs/guides/which-setting.md",
)


@pytest.mark.parametrize("name", TRUSTING)
def test_pages_say_in_the_same_words_who_trusts_whom(name):
    said = " ".join((ROOT / name).read_text().split()).replace(" (`--model central`)", "")
    assert TRUST in said


def test_no_page_installs_from_an_index():
    """The name is not published: see "Releasing" in CONTRIBUTING.md."""
    pages = [path for path in documents() if path.name not in ("CONTRIBUTING.md", "CHANGELOG.md")]
    wrong = [path.name for path in pages if re.search(r"pip install '?shuffledp", path.read_text())]
    assert not wrong
