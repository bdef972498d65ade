"""The options of every command, for docs/reference/cli.md, as the command line itself declares them."""

import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any

from typer.main import get_command

from shuffledp.cli import app

WIDTH = 118


def commands() -> dict[str, Any]:
    """Every command by its words: `shuffledp run`, `shuffledp ledger show`.

    >>> "shuffledp ledger show" in commands()
    True
    """
    return dict(_walk("shuffledp", get_command(app)))


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for part in getattr(command, "list_commands", lambda _: [])(None):
        yield from _walk(f"{name} {part}", command.get_command(None, part))


def list_options(name: str) -> str:
    """Arguments and options of a command, in the groups of its help."""
    groups: dict[str, list[str]] = {}
    for parameter in commands()[name].params:
        groups.setdefault(parameter.rich_help_panel or "", []).append(_describe(parameter))
    return "\n".join(
        (f"**{group}**\n\n" if group else "") + "".join(items)
        for group, items in sorted(groups.items(), key=lambda each: each[0] != "")
    )


def _describe(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in parameter.opts)
    text = f"- {names}{_state_default(parameter)}: {parameter.help}"
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def _state_default(parameter: Any) -> str:
    if parameter.required:
        return " (required)"
    if parameter.default is None or isinstance(parameter.default, bool):
        return ""
    default = parameter.default
    return f" (default `{default.value if isinstance(default, Enum) else default}`)"
