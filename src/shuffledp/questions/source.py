"""Where a survey is written down: errors name the file, the line and the key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from shuffledp.core.errors import DataError

T = TypeVar("T")

_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[A-Za-z0-9_.-]+)\s*=""")
_WANTED = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "a text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The file of a survey, and the line of each of its tables and keys.

    >>> source = Source.of("epsilon = 1.0\\n[questions.way]\\ntask = 'count'", "s.toml")
    >>> print(source.fail("is odd", "questions", "way", "task"))
    s.toml, line 3: is odd
    >>> print(Source().fail("is odd", "questions", "way"))
    is odd
    """

    path: str | None = None
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, path: str) -> "Source":
        """Find the line of every header, and of every key below it."""
        lines: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), start=1):
            header, key = _HEADER.match(line), _KEY.match(line)
            if header is not None:
                table = tuple(part.strip().strip("\"'") for part in header.group(1).split("."))
                for depth in range(1, len(table) + 1):
                    lines.setdefault(table[:depth], number)
            elif key is not None:
                lines.setdefault((*table, key.group(1).strip("\"'")), number)
        return cls(path=path, lines=lines)

    def fail(self, said: str, *keys: str) -> DataError:
        """Return the error, with the line of the nearest key that is known."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        line = f", line {self.lines[keys]}" if keys else ""
        return DataError(said if self.path is None else f"{self.path}{line}: {said}")


def read_table(
    kind: type[T],
    content: Mapping[str, Any],
    source: Source,
    *place: str,
    what: str,
    prefix: str = "",
) -> T:
    """Read a table into a dataclass: known keys only, each of its declared type.

    `place` leads to the table in the file, `what` is what messages call it, and `prefix` what they begin with.

    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> read_table(Point, {"x": 1}, Source(), what="a point")
    Point(x=1.0, y=0.0)
    >>> read_table(Point, {"x": 1, "z": 2}, Source(), what="a point")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: 'z' is not a field of a point: x, y
    >>> read_table(Point, {"x": "far"}, Source(), what="a point")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: x='far' must be a number
    """
    import msgspec

    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for key in content:
        if key not in known:
            raise source.fail(
                f"{prefix}{key!r} is not a field of {what}: {', '.join(known)}", *place, key
            )
    try:
        return msgspec.convert(dict(content), kind)
    except msgspec.ValidationError as error:
        said, *keys = _explain(str(error), content, place)
        raise source.fail(prefix + said, *keys) from error


def _explain(said: str, content: Mapping[str, Any], place: tuple[str, ...]) -> tuple[str, ...]:
    """Put what msgspec says into name, value and requirement."""
    missing = re.search(r"missing required field `(\w+)`", said)
    if missing is not None:
        return f"{missing.group(1)} is missing", *place
    wanted = re.search(r"Expected `([^`]+)`", said)
    key = re.search(r"at `\$\.(\w+)", said)
    if wanted is None or key is None:
        return said, *place
    kinds = [kind.strip() for kind in wanted.group(1).split("|") if kind.strip() != "null"]
    if "float" in kinds:  # whole numbers are numbers
        kinds = [kind for kind in kinds if kind != "int"]
    need = " or ".join(_WANTED.get(kind, kind) for kind in kinds)
    return f"{key.group(1)}={content[key.group(1)]!r} must be {need}", *place, key.group(1)
