"""Sentences in a terminal: lines as long as it is wide."""

from __future__ import annotations

import shutil
import textwrap

import typer

__all__ = ["say"]


def say(text: str, *, err: bool = False) -> None:
    """Print a text, broken between words; 80 columns where there is no terminal.

    >>> say("nobody is left out")
    nobody is left out
    """
    width = shutil.get_terminal_size().columns
    typer.echo(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False), err=err)
