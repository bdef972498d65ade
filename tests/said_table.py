"""Tables of what is said: whole texts, errors and objects, as they were last agreed on.

A table is a text of expressions, each after `>>>`, and below it what it is: a text as it stands, an error as its type and
its sentence, and everything else with all its fields and nine digits of each number. Processors round differently, so
numbers with seven digits or more need not agree in all of them; everything else must be the same. Other tests say why
something is right; a table has a line for every branch, so nothing that is said changes unseen. Look at each line that
has changed, and write the table anew by `PYTHONPATH=src:tests python -m planner.test_said` (or tasks, questions,
engine).
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shuffledp.core.errors import ShuffledpError

_MARK = ">>> "
_LONG = re.compile(r"(?<![\w.])(-?(?=[\d.]{8})\d+\.\d+(?:e[-+]?\d+)?)(?![\w.])")
_CLOSE = 1e-5  # a search may end a little elsewhere
_NOTHING = 1e-12  # what rounding leaves of numbers that cancel


@dataclass(frozen=True, kw_only=True)
class SaidTable:
    """Expressions and what they are, in a file."""

    path: Path
    names: Mapping[str, object]
    """What expressions may speak of."""

    @cached_property
    def said(self) -> dict[str, str]:
        found = {}
        for block in f"\n{self.path.read_text(encoding='utf-8')}".split(f"\n{_MARK}")[1:]:
            expression, _, said = block.partition("\n")
            found[expression] = said.strip("\n")
        return found

    def look(self, expression: str) -> str:
        try:
            value = eval(expression, dict(self.names))  # noqa: S307, our own table
        except ShuffledpError as error:
            return f"{type(error).__name__}: {error}"
        text = value if isinstance(value, str) else spell(value)
        return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")

    def check(self, expression: str) -> None:
        wanted = split_numbers(self.said[expression])
        assert split_numbers(self.look(expression)) == pytest.approx(
            wanted, rel=_CLOSE, abs=_NOTHING
        )

    def write(self) -> None:
        blocks = (f"{_MARK}{each}\n{self.look(each)}\n" for each in self.said)
        self.path.write_text("\n".join(blocks), encoding="utf-8")


def split_numbers(text: str) -> list[str | float]:
    """Cut a text at its numbers with seven digits or more; whole numbers stay in it.

    >>> split_numbers("at most 0.25 of 12345678, 0.123456789 and -2.17455153e-17")
    ['at most 0.25 of 12345678, ', 0.123456789, ' and ', -2.17455153e-17, '']
    """
    parts = _LONG.split(text)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def spell(value: Any) -> str:
    """Write a value with nine digits of each number, and every field.

    >>> spell((1, 0.1 + 0.2, np.arange(2.0), "a", None))
    "(1, 0.3, [0.0, 1.0], 'a', None)"
    """
    match value:
        case bool() | np.bool_() | None:
            return str(value)
        case int() | np.integer():
            return str(int(value))
        case float() | np.floating():
            return repr(float(f"{value:.9g}"))
        case np.ndarray():
            return spell(value.tolist())
    return _spell_parts(value)


def _spell_parts(value: Any) -> str:
    match value:
        case Mapping():
            return f"{{{', '.join(f'{spell(key)}: {spell(each)}' for key, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(spell, value))}]"
        case tuple():
            return f"({', '.join(map(spell, value))})"
        case _ if is_dataclass(value) and not isinstance(value, type):
            parts = (f"{each.name}={spell(getattr(value, each.name))}" for each in fields(value))
            return f"{type(value).__name__}({', '.join(parts)})"
    return str(value) if isinstance(value, Enum) else repr(value)


def signatures(module: Any) -> str:
    """Write how everything public of a module that it defines is called, with all defaults."""
    lines = []
    for name, each in sorted(vars(module).items()):
        if name.startswith("_") or getattr(each, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(each) and not issubclass(each, Enum) and is_dataclass(each):
            lines.append(f"{name}: {_spell_defaults(each)}")
            lines += [
                f"{name}.{inner}{_call(found)}"
                for inner, found in sorted(vars(each).items())
                if _is_public(inner, found)
            ]
        elif inspect.isfunction(each):
            lines.append(f"{name}{_call(each)}")
    return "\n".join(lines)


def _is_public(name: str, found: Any) -> bool:
    return not name.startswith("_") and inspect.isfunction(getattr(found, "__func__", found))


def _call(found: Any) -> str:
    """The names of the arguments, with defaults and without types."""
    given = inspect.signature(getattr(found, "__func__", found)).parameters.values()
    said = ", ".join(str(each.replace(annotation=each.empty)) for each in given)
    return f"({re.sub(' at 0x[0-9a-f]+', '', said)})"


def _spell_defaults(kind: Any) -> str:
    own = ((each.name, each.default) for each in fields(kind) if each.default is not MISSING)
    return ", ".join(f"{name}={spell(default)}" for name, default in own)
