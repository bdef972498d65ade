"""The public names, for docs/reference/index.md: each with the first sentence of its docstring."""

import inspect
import re
import textwrap
from functools import cache
from pathlib import Path
from types import ModuleType

import shuffledp as sdp

WIDTH = 118
REFERENCE = Path(__file__).resolve().parents[1] / "reference"


def list_names() -> str:
    """Functions, classes and modules, each in alphabetical order."""
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Rooms": []}
    for name in sorted(sdp.__all__, key=str.lower):
        found = getattr(sdp, name)
        if name == "__version__":
            continue
        groups[_kind(found)].append(_describe(name, found))
    return "\n".join(f"**{group}**\n\n" + "".join(items) for group, items in groups.items())


def _kind(found: object) -> str:
    if isinstance(found, ModuleType):
        return "Rooms"
    return "Classes" if isinstance(found, type) else "Functions"


def _describe(name: str, found: object) -> str:
    first = (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ")
    text = f"- {_link(name, found)}: {first}"
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def _link(name: str, found: object) -> str:
    """The name, with a link to the page that documents its module, if there is one."""
    module = found.__name__ if isinstance(found, ModuleType) else str(found.__module__)
    page = _pages().get(module)
    return f"[`{name}`]({page})" if page else f"`{name}`"


@cache
def _pages() -> dict[str, str]:
    return {
        module: str(path.relative_to(REFERENCE))
        for path in sorted(REFERENCE.rglob("*.md"))
        for module in re.findall(r"^::: ([\w.]+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
