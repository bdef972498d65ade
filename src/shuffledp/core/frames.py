"""Numbers as tables of other libraries: pandas, Polars and Arrow, each imported when it is asked for."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from shuffledp.core.errors import UnsupportedError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = [
    "Columns",
    "make_arrow",
    "make_columns",
    "make_pandas",
    "make_polars",
    "to_arrow",
    "to_pandas",
    "to_polars",
]

Columns = Mapping[str, Sequence[Any]]
"""Names of columns, in their order, and their values: all texts, or all floats."""

_EXTRAS = {"pandas": "frames", "polars": "frames", "pyarrow": "data"}


def make_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Columns:
    """Return the columns of some rows.

    >>> make_columns(["label", "value"], [("car", 2.0), ("bus", 1.0)])
    {'label': ['car', 'bus'], 'value': [2.0, 1.0]}
    """
    table = list(rows)
    return {name: [row[place] for row in table] for place, name in enumerate(names)}


def make_pandas(columns: Columns) -> "pd.DataFrame":
    """Return a pandas DataFrame.

    >>> make_pandas({"label": ["car"], "value": [2.0]}).shape
    (1, 2)
    """
    return _load("pandas").DataFrame(dict(columns))


def make_polars(columns: Columns) -> "pl.DataFrame":
    """Return a Polars DataFrame.

    >>> make_polars({"label": ["car"], "value": [2.0]}).columns
    ['label', 'value']
    """
    made: pl.DataFrame = _load("polars").DataFrame(dict(columns))
    return made


def make_arrow(columns: Columns) -> "pa.Table":
    """Return an Arrow table.

    >>> make_arrow({"label": ["car"], "value": [2.0]}).num_rows
    1
    """
    return _load("pyarrow").table(dict(columns))


class Tabular(Protocol):
    """Whatever is a table of numbers; the functions below are its methods."""

    def _columns(self) -> Columns:
        """Return the table."""


def to_pandas(self: Tabular) -> "pd.DataFrame":
    """Return a row for each number: label, value, stderr, low, high; in a survey its question first."""
    return make_pandas(self._columns())


def to_polars(self: Tabular) -> "pl.DataFrame":
    """Return the same for Polars."""
    return make_polars(self._columns())


def to_arrow(self: Tabular) -> "pa.Table":
    """Return the same as an Arrow table."""
    return make_arrow(self._columns())


def _load(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as missing:
        raise UnsupportedError(
            f"this needs {library}: install the extra shuffledp[{_EXTRAS[library]}]"
        ) from missing
