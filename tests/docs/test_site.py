"""What every build of the documentation checks: links, sizes, pictures; and that the home page shows what it is."""

import importlib.util
import json
import re

import pytest

from repository import ROOT

HOME = (ROOT / "docs/index.md").read_text()


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("built", ROOT / "docs/extensions/site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build(tmp_path, hook):
    """Look at a site of these pages."""

    def look(index="[]", **pages):
        (tmp_path / "search").mkdir(exist_ok=True)
        (tmp_path / "search" / "search_index.json").write_text(f'{{"docs": {index}}}')
        for name, text in pages.items():
            (tmp_path / f"{name}.html").write_text(text)
        hook.on_post_build({"site_dir": tmp_path})
        return tmp_path

    return look


def test_links_that_lead_somewhere_are_fine(build):
    build(a='<a href="b.html#here">b</a> <a href="#me" id="me">', b='<p id="here">')
    build(c='<a href="a.html">a</a><a href="https://site.example/">elsewhere</a>')


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ('<a class="x" href="c.html">', "a.html: c.html is not there"),
        ('<a href="b.html#there">', "a.html: b.html#there names no place"),
        ('<a href="#there">', "a.html: #there names no place"),
        ('<img alt="" src="c.svg">', "a.html: c.svg is not there"),
        ('<script src="https://site.example/x.js">', "a.html: script loads https://site.example"),
        ('<link rel="x" href="//site.example/x.css">', "a.html: link loads //site.example"),
        ("x" * 1_200_001, "a.html: 1,200,001 bytes, more than 1,200,000"),
    ],
)
def test_what_is_wrong_ends_the_build(build, page, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        build(a=page, b='<p id="here">')


def test_the_search_index_is_small(build):
    entry = {"location": "a.html", "title": "a", "text": "word " * 200_000}
    with pytest.raises(ValueError, match=r"search_index\.json"):
        build(index=json.dumps([entry]))


def test_pictures_leave_their_colours_to_the_page(build, tmp_path):
    """A drawing that follows the system would be turned round twice."""
    drawn = (
        "<style>a { b: c }\n@media (prefers-color-scheme: dark) { a { b: d } e { f: g } }</style>"
    )
    (tmp_path / "a.svg").write_text(drawn)
    assert (build() / "a.svg").read_text() == "<style>a { b: c }</style>"


def test_the_home_page_shows_what_it_is():
    first = HOME.partition("\n## ")[0]
    assert [
        name for name in ("Ask a file", "Survey devices", "Check a claim") if f"**{name}**" in first
    ] == [
        "Ask a file",
        "Survey devices",
        "Check a claim",
    ]
    assert first.count(".md-button") == 4, "three buttons, one of them primary"
    assert "img/shuffle-model.svg" in first
    screens = sorted(path.name for path in (ROOT / "docs/img/screens").iterdir())
    assert screens == sorted(re.findall(r"img/screens/([\w-]+\.svg)#only-", HOME))


def test_the_survey_is_the_first_tutorial():
    tutorial = (ROOT / "mkdocs.yml").read_text().partition("- Tutorial:")[2]
    assert re.search(r"tutorial/[\w-]+\.md", tutorial)[0] == "tutorial/private-survey.md"
