"""Generated parts of the pages are what the library gives today, and nobody edits them by hand."""

import pytest

import tables
from repository import ROOT, documents
from shuffledp.mechanisms import MECHANISMS
from shuffledp.protocols import PROTOCOLS

PARTS = [(page, name) for page, parts in tables.TABLES.items() for name in parts]


@pytest.mark.parametrize(("page", "name"), PARTS)
def test_the_page_shows_what_is_generated(page, name):
    shown = tables.find_marked((ROOT / page).read_text())[name]
    assert shown.strip() == tables.TABLES[page][name]().strip(), "run: make tables"


def test_every_mark_has_a_generator():
    for path in documents():
        page = str(path.relative_to(ROOT))
        assert tables.find_marked(path.read_text()).keys() == tables.TABLES.get(page, {}).keys(), (
            page
        )


@pytest.mark.parametrize("spec", [*PROTOCOLS, *MECHANISMS], ids=lambda spec: spec.name)
def test_what_is_registered_is_listed(spec):
    assert f"| `{spec.name}` |" in tables.protocols() + tables.mechanisms()


def test_a_change_is_noticed():
    page = "<!-- generated: models -->\n\n| old |\n\n<!-- end -->"
    assert tables.fill(page, {"models": lambda: "| new |\n"}) == page.replace("old", "new")


def test_a_missing_mark_is_noticed():
    with pytest.raises(ValueError, match="no mark for models"):
        tables.fill("# A page\n", {"models": lambda: ""})
