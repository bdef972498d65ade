"""Every statement of the notes is on the cheat sheet, with code; `test_examples` runs that code."""

import re

from repository import ROOT

PAGE = (ROOT / "docs/theory/cheat-sheet.md").read_text()
STATEMENTS = (ROOT / "tests/docs/statements.txt").read_text().splitlines()
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_every_statement_is_on_the_page_and_nothing_else():
    assert list(SECTIONS) == STATEMENTS


def test_each_has_a_sentence_and_code():
    for title, text in SECTIONS.items():
        sentence, _, code = text.partition("```python\n")
        assert sentence.strip().endswith((".", ":")), title
        assert ">>> " in code, title


def test_all_five_notes_are_covered():
    notes = [statement.split(".")[0] for statement in STATEMENTS]
    assert sorted(set(notes)) == ["N1", "N2", "N3", "N4", "N5"]
    assert len(set(STATEMENTS)) == len(STATEMENTS) > 60
