"""The command line is a thin shell: it uses public names only."""

import ast
import re
from types import ModuleType

import pytest

import shuffledp as sdp
from repository import ROOT

COMMANDS = sorted((ROOT / "src/shuffledp/cli").glob("*.py"))
ROOMS = {name for name in sdp.__all__ if isinstance(getattr(sdp, name), ModuleType)}
VOCABULARY = {
    "core.arrays",
    "core.display",
    "core.privacy",
    "core.protocol",
    "lab",
    "lab.samples",
}
"""How memory is kept, how numbers and curves are written (in the safe direction, harmless in a terminal), who is honest, and the
laboratory."""


def faults(source):
    """Imports and attributes that are not public."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("shuffledp."))
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("shuffledp."):
            yield from _imported(node)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(ast.unparse(node))


def _imported(node):
    room = node.module.removeprefix("shuffledp.")
    if room in VOCABULARY or room.split(".")[0] == "cli":
        return
    for each in node.names:
        if room not in ROOMS or each.name not in getattr(sdp, room).__all__:
            yield f"{node.module} import {each.name}"


def _attribute(text):
    found = re.match(r"sdp\.([\w.]+)", text)
    if found is None:
        return
    rest = found.group(1).split(".")
    if rest[0] not in sdp.__all__ or (
        rest[0] in ROOMS and len(rest) > 1 and rest[1] not in getattr(sdp, rest[0]).__all__
    ):
        yield text


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_only_public_names(path):
    assert list(faults(path.read_text())) == []


@pytest.mark.parametrize(
    "line",
    [
        "import shuffledp.planner.rows",
        "from shuffledp.planner.rows import choose",
        "from shuffledp.planner import rows",
        "from shuffledp.core.validate import level",
        "sdp.core.validate.level(0.9)",
        "sdp.planner.rows.choose([])",
        "sdp._ROOMS",
    ],
)
def test_what_is_not_public_is_noticed(line):
    assert list(faults(line)) != []


def test_all_commands_were_seen():
    assert {"run", "randomize", "plan", "_options"} <= {path.stem for path in COMMANDS}
