"""The data that is asked: files, tables and lists become columns."""

from pathlib import Path
from typing import Any

from shuffledp.core.errors import UnsupportedError
from shuffledp.engine.columns import Column, open_column, take_column
from shuffledp.engine.filters import Filter
from shuffledp.engine.formats import Files

__all__ = ["open_data"]


def open_data(data: Any, column: str | None = None, where: Filter | None = None) -> Column:
    """Open a column of files or in memory; a list of `Path` objects or `Files` is files, one of strings is values.

    >>> open_data(["cat", "dog", "cat"]).rows
    3
    """
    if isinstance(data, Column):
        if where is not None:
            raise UnsupportedError("the column is open already: give where to open_column")
        return data
    several = isinstance(data, list | tuple) and bool(data)
    if isinstance(data, str | Path | Files) or (
        several and all(isinstance(each, Path) for each in data)
    ):
        return open_column(data, column, where=where)
    return take_column(data, column, where=where)
