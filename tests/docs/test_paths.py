"""Files and names of the package that pages and docstrings mention are there: things move."""

import re
from importlib import import_module

import pytest

from repository import ROOT, documents, tracked_files

PACKAGE = ROOT / "src" / "shuffledp"
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file())
INVENTED = {  # that the guides ask readers to write
    "src/shuffledp/engine/yours.py",
    "src/shuffledp/protocols/shy.py",
    "tests/protocols/test_shy.py",
}
PAGES = [path for path in documents() if path.name != "CHANGELOG.md"]  # which tells what was
PAGES += [path for path in tracked_files() if path.suffix == ".md" and ".github" in path.parts]
SOURCES = [path for path in tracked_files() if path.suffix == ".py" and PACKAGE in path.parents]
TOPS = {path.relative_to(ROOT).parts[0] for path in tracked_files()}
IN_SOURCE = re.compile(r"\b(?:docs|tests|experiments|benchmarks|vectors|clients)/[\w./-]+\.\w+")
ROOM_FILE = re.compile(rf"\b(?:{'|'.join(ROOMS)})/[a-z_]+\b(?![./])")
DOTTED = re.compile(rf"(?:sdp|shuffledp|{'|'.join(ROOMS)})(?:\.\w+)+")
OF_FILES = (".csv", ".db", ".html", ".json", ".parquet", ".sqlite", ".toml", ".txt")


def name_of(path):
    return str(path.relative_to(ROOT))


def is_there(name):
    """As a file of the repository, of the package or of the documentation; a pattern if it finds one."""
    places = (ROOT, PACKAGE, ROOT / "docs")
    found = (place.glob(each) for place in places for each in (name, f"{name}.py"))
    return name in INVENTED or any(next(each, None) is not None for each in found)


def find(dotted):
    """What a dotted name stands for: a module, or something in it."""
    first, *rest = dotted.split(".")
    at = "shuffledp" if first in ("sdp", "shuffledp") else f"shuffledp.{first}"
    found = import_module(at)
    for part in rest:
        at = f"{at}.{part}"
        found = getattr(found, part) if hasattr(found, part) else import_module(at)
    return found


def quoted(path):
    """What stands in backquotes in the text of a page; blocks of code are run by other tests."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([\w.*/-]+)`", text))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_mentions_what_is_there(page):
    words = quoted(page)
    paths = {word.rstrip("/") for word in words if word.partition("/")[0] in {*TOPS, *ROOMS}}
    assert {path for path in paths if "/" in path and not is_there(path)} == set()
    for word in sorted(words):
        if DOTTED.fullmatch(word) and not word.endswith(OF_FILES):
            find(word)


def test_the_package_mentions_what_is_there():
    missing = {}
    for path in SOURCES:
        text = path.read_text()
        named = {*IN_SOURCE.findall(text), *ROOM_FILE.findall(text)}
        missing[name_of(path)] = {each for each in named if not is_there(each.rstrip("."))}
    assert {path: names for path, names in missing.items() if names} == {}


def test_what_is_not_there_is_noticed():
    assert is_there("protocols/krr.py")
    assert is_there("accounting/amplify")
    assert not is_there("protocols/krrr.py")
    with pytest.raises(ModuleNotFoundError):
        find("core.randomizer.forgot")
    assert find("core.randomizer.forget").__name__ == "forget"
