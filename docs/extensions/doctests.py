"""Shows the doctests of docstrings as code.

Docstrings here are plain text with prompts, as `help()` wants them; Markdown would read `>>>` as a
quotation. This puts a fence around every run of lines that starts with a prompt.
"""

from typing import Any

import griffe

__all__ = ["FencedDoctests", "fence"]


class FencedDoctests(griffe.Extension):
    """Rewrites each docstring when it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fence(obj.docstring.value)


def fence(text: str) -> str:
    """The text with a fence around each doctest, which ends at the next empty line.

    >>> fence("Adds.\\n\\n>>> 1 + 1\\n2").splitlines()
    ['Adds.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.startswith(">>> "):
            lines.append("```pycon")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
