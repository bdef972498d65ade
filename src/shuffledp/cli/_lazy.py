"""Commands that are loaded when they are called, so that the help does not wait for all of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LazyGroup", "lazy_group"]


class LazyGroup(TyperGroup):
    """A group that knows the names of its commands and a line about each; the rest comes later."""

    lazy: Mapping[str, str]
    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """The lazy commands in their order, then the others."""
        return [*self.lazy, *(name for name in super().list_commands(ctx) if name not in self.lazy)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command: a stand-in with its help line while the commands are listed."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        if self._listing:
            return TyperCommand(cmd_name, help=self.lazy[cmd_name])
        return _loaded(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, without loading what it lists."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def lazy_group(commands: Mapping[str, str]) -> type[LazyGroup]:
    """The group whose command `name` is what the module `shuffledp.cli.name` calls `name` or `app`.

    >>> lazy_group({"tally": "Count messages."}).lazy
    {'tally': 'Count messages.'}
    """
    return type("Commands", (LazyGroup,), {"lazy": commands})


def _loaded(name: str) -> Any:
    module = import_module(f"shuffledp.cli.{name}")
    inner = getattr(module, "app", None)
    if inner is None:
        inner = typer.Typer(add_completion=False)
        inner.command(name)(getattr(module, name))
    command = get_command(inner)
    command.name = name
    return command
