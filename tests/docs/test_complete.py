"""Whatever exists is documented: public names, commands and options (test_tables has the protocols)."""

import re
import tomllib
from importlib.util import find_spec

import pytest

import shuffledp as sdp
from commands import commands
from repository import ROOT, documents

REFERENCE = "\n".join(path.read_text() for path in (ROOT / "docs/reference").rglob("*.md"))
CLI = (ROOT / "docs/reference/cli.md").read_text()


@pytest.mark.parametrize("name", sdp.__all__)
def test_public_name_is_in_the_reference(name):
    assert re.search(rf"\b{re.escape(name)}\b", REFERENCE), (
        f"{name} is in no page of docs/reference"
    )


def test_links_of_root_pages_lead_somewhere():
    """Those of docs/ are checked by the strict build of the documentation."""
    for page in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (ROOT / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", commands())
def test_every_command_has_a_section(name):
    assert f"\n## `{name}`\n" in CLI, f"docs/reference/cli.md has no section for {name}"


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in navigation, page


def test_pages_start_with_a_title():
    for page in documents():
        assert page.read_text().startswith("# "), page


def test_every_documented_module_exists():
    for module in re.findall(r"^::: ([\w.]+)$", REFERENCE, re.MULTILINE):
        assert find_spec(module), f"docs/reference documents {module}, which does not exist"


def test_the_architecture_lists_the_rooms_in_the_order_of_the_layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    page = (ROOT / "docs/architecture.md").read_text().partition("## The rooms")[2]
    listed = re.findall(r"(?m)^\| `(\w+)` \|", page)
    assert listed == re.findall(r"shuffledp\.(\w+)", " ".join(layers))
