"""The data that is asked: files, tables and lists become columns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shuffledp.core.errors import UnsupportedError
from shuffledp.engine.columns import Column, open_column, take_column
from shuffledp.engine.filters import Filter
from shuffledp.engine.formats import Files
from shuffledp.engine.people import People

__all__ = ["open_data"]


def open_data(
    data: Any,
    column: str | None = None,
    where: Filter | None = None,
    people: People | None = None,
    also: Sequence[str] = (),
) -> Column:
    """Open a column of files or in memory; a list of `Path` objects or `Files` is files, one of strings is values.

    >>> open_data(["cat", "dog", "cat"]).rows
    3
    """
    if isinstance(data, Column):
        if where is not None or people is not None:
            given = "where" if people is None else "people"
            raise UnsupportedError(f"the column is open already: give {given} to open_column")
        return data
    more: dict[str, Any] = {"where": where, "people": people, "also": also}
    several = isinstance(data, list | tuple) and bool(data)
    if isinstance(data, str | Path | Files) or (
        several and all(isinstance(each, Path) for each in data)
    ):
        return open_column(data, column, **more)
    return take_column(data, column, **more)
