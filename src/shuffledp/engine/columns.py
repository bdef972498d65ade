"""Columns: where they are, what is known before reading them, and reading them chunk by chunk.

A column lies in files, whose formats are those of `engine.formats`, or in memory.

Text has no types: what a field means follows from the declared domain, never from a guess.

DuckDB reads text and counts values; Parquet and Arrow files are read by PyArrow, which is twice as
fast where there is only a column to decode.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from shuffledp.core.errors import DataError, MismatchError, ParameterError, UnsupportedError
from shuffledp.engine.filters import Filter
from shuffledp.engine.formats import (
    LINE,
    TEXT,
    DataFile,
    Files,
    Format,
    Paths,
    explain_unreadable,
    find_files,
)
from shuffledp.engine.people import People
from shuffledp.engine.queries import (
    ROWS,
    aggregate,
    connect,
    list_own,
    map_arrow,
    select,
    split_sets,
    stream_batches,
)
from shuffledp.engine.values import measure_moments, spell_out

_ROWS = ROWS
_PANDAS_TEXTS = ("str", "string")
_VALUE = "value"
_SETS = 24  # of columns that one pass groups by: a set has at most two, and DuckDB tells 64 columns apart
_FRACTIONAL = ("float", "double", "decimal", "time", "duration")
_TEXTS = (TEXT, "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of one or several files, which are read in this order, or an Arrow array in memory."""

    name: str
    files: tuple[DataFile, ...] = ()
    array: Any = field(default=None, repr=False, compare=False)
    """The values; None for a column of files."""
    where: Filter | None = None
    """Whom the question is about; an array in memory holds only their values."""
    moments: str | None = None
    """Dates are read as these, days or seconds since 1970-01-01; None: as their type says."""
    people: People | None = None
    """Whom its rows are about, until `engine.reducing` has made one value of each person's rows."""
    reduced: bool = False
    """Whether an engine made it of people's rows."""
    beside: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The other columns that this needs, by name, as Arrow arrays; of files they are read with it."""

    def measure(self, array: Any) -> Any:
        """Measure some of its values, with dates as numbers if that is wanted."""
        return array if self.moments is None else measure_moments(array, self.moments)

    @property
    def rows(self) -> int | None:
        """How many rows, if that is known without reading them."""
        if self.reducible:
            return None
        counts = self._list_sizes(lambda file: file.rows if self.where is None else None)
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def reducible(self) -> bool:
        """Whether its rows are still to become people: `engine.reducing` does that, and nothing else reads them."""
        private = self.where is not None and self.where.private
        return not self.reduced and (self.people is not None or private)

    @property
    def rows_guess(self) -> int | None:
        """About how many rows, for a progress bar."""
        counts = self._list_sizes(lambda file: file.rows_guess if file.rows is None else file.rows)
        return None if None in counts else sum(count or 0 for count in counts)

    def _list_sizes(self, rows: Callable[[DataFile], int | None]) -> list[int | None]:
        return [len(self.array)] if self.array is not None else [*map(rows, self.files)]

    @property
    def bytes(self) -> int:
        """The size of the files on disk, or of the array in memory."""
        return (
            int(self.array.nbytes) if self.files == () else sum(file.bytes for file in self.files)
        )

    @property
    def type(self) -> str:
        """The type of the values as Arrow calls it, or "text"."""
        if self.array is not None:
            return str(self.array.type)
        types = {file.type_of(self.name) for file in self.files if file.columns}
        return " or ".join(sorted(types)) or "unknown"

    @property
    def fractional(self) -> bool:
        """Whether the type of the values allows for fractions: text does, whatever it holds; means of days do, too."""
        if self.moments is not None and not self.reduced:
            return self.moments == "seconds"
        return self._is_one_of(_FRACTIONAL + _TEXTS)

    @property
    def text(self) -> bool:
        """Whether the values are text: the declared domain says what they mean."""
        return self._is_one_of(_TEXTS) and not self._is_one_of(_FRACTIONAL)

    def _is_one_of(self, types: tuple[str, ...]) -> bool:
        own = self.type
        return any(word in own for word in types)

    @property
    def boolean(self) -> bool:
        """Whether the values are booleans by their type."""
        return self.type == "bool"

    def categories(self) -> tuple[str, ...]:
        """List the distinct values, NOT privately: see `categories_of`."""
        return categories_of(self)


def open_column(
    paths: Paths,
    column: str | None = None,
    *,
    where: Filter | str | None = None,
    people: People | None = None,
    also: Sequence[str] = (),
) -> Column:
    """Find the files and the column; the name may be left out if there is only one column.

    Without a name, a `.txt` has one value per line: no header, no delimiter, no quotes. With one, it is read as CSV.
    A path with a scheme (`s3://...`) is taken as it is: only the Spark engine reads it. `where` says whose
    rows are taken: `"distance > 1000"`, see `Filter`. `people` says whom they are about, and `also` names columns
    that are needed beside this one while rows become people.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("name,legs\\ncat,4\\nbird,2\\n")
    ...     found = open_column(path, "legs")
    >>> found.bytes, found.type, found.rows
    (23, 'text', None)
    """
    _require_readers()
    files = find_files(paths, Format.LINES if column is None else Format.CSV)
    column = _find_column(files, _name_lines(files) if column is None else column)
    if column is None:
        raise ParameterError("column", column, "must be named: the files are not on this machine")
    chosen = None if where is None else Filter.read(where)
    for name in _list_beside(chosen, people, also):
        with _explain_filter(chosen, name):
            _find_column(files, name)
    return Column(name=column, files=files, where=chosen, people=people)


def _list_beside(
    where: Filter | None, people: People | None, also: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns that a filter needs, those that name people, and others."""
    filtered = () if where is None else where.columns
    return tuple(dict.fromkeys((*filtered, *(() if people is None else people.columns), *also)))


@contextmanager
def _explain_filter(where: Filter | None, name: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        if where is None or name not in where.columns:
            raise
        raise DataError(f"{error} (in `where`, texts are in quotes: 'AA')") from None


def _name_lines(files: tuple[DataFile, ...]) -> str | None:
    """Return the column of files of lines, if they are; refuses them beside files with columns."""
    others = [file.path for file in files if file.format is not Format.LINES]
    if len(others) == len(files):
        return None
    if others:
        said = f"must be named: {others[0]} has columns, but a .txt is read as lines unless a column is named"
        raise ParameterError("column", None, said)
    return LINE


def _find_column(files: tuple[DataFile, ...], column: str | None) -> str | None:
    """Return the column, or the only one that there is; refuses one that a file lacks or has twice."""
    for file in files:
        once = column is not None and file.has(column) and file.columns.count(column) < 2
        if not file.remote and not once:
            column = _choose(file.columns, file.path, column, tuple(dict(file.partition)))
    return column


def _require_readers() -> None:
    try:
        import duckdb  # noqa: F401
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"columns need DuckDB and PyArrow, and {error.name} is missing: install shuffledp[data]"
        ) from error


def _choose(
    columns: tuple[str, ...], where: str, column: str | None, of_folders: tuple[str, ...] = ()
) -> str:
    if column in columns:
        if columns.count(column) > 1:
            raise DataError(
                f"{where} has {columns.count(column)} columns named {column!r}: rename them"
            )
        return column
    several = (*columns, *of_folders)
    listed = ", ".join(map(repr, several[:20])) + (", ..." if len(several) > 20 else "")
    if column is not None:
        near = get_close_matches(column, several, 1)
        meant = f": did you mean {near[0]!r}?" if near else ""
        raise DataError(f"{where} has no column {column!r}; it has {listed}{meant}")
    if len(columns) != 1:
        raise DataError(
            f"{where} has several columns, choose one of {listed}: give its name, `column`"
        )
    return columns[0]


def _name_columns(data: Any) -> Any:
    """Return the names of the columns of a table; None if it is values."""
    if isinstance(data, Mapping):
        return list(data)
    if isinstance(data, np.ndarray):
        return data.dtype.names  # None, unless it is structured
    # PyArrow calls them column_names, pandas and Polars columns; asking by name imports none of them.
    names = getattr(data, "column_names", None)
    return getattr(data, "columns", None) if names is None else names


def take_column(
    data: Any,
    column: str | None = None,
    *,
    where: Filter | str | None = None,
    people: People | None = None,
    also: Sequence[str] = (),
) -> Column:
    """Return a column in memory: values, or a table and the name of one of its columns.

    Values are a list, a NumPy array, a pandas or Polars Series, or an Arrow array. A table is a pandas
    or Polars DataFrame, an Arrow table, a structured NumPy array, or a dictionary of columns.

    >>> take_column([1, None, 3]).rows
    3
    >>> take_column({"pet": ["cat", "dog"], "legs": [4, 4]}, "legs").rows
    2
    >>> import pandas as pd
    >>> take_column(pd.DataFrame({"pet": ["cat", "dog"], "legs": [4, 4]}), "legs").type
    'int64'
    """
    _require_readers()
    if type(data).__name__ == "LazyFrame":  # of Polars, which asking by name does not import
        data = data.collect()
    names = _name_columns(data)
    table, named = data, {} if names is None else {str(name): name for name in names}
    if names is not None:
        wanted = None if column is None else str(column)  # pandas numbers columns without a name
        column = _choose(tuple(map(str, names)), "the table", wanted)
        data = data[named[column]]
    own = getattr(data, "name", None)
    name = column if column is not None else own if isinstance(own, str) else "values"
    array = _as_arrow(data)
    chosen = None if where is None else Filter.read(where)
    known = (name,) if names is None else tuple(map(str, names))
    for each in _list_beside(chosen, people, also):
        with _explain_filter(chosen, each):
            _choose(known, "the table", each)
    beside = {
        each: array if each == name else _as_arrow(table[named[each]])
        for each in _list_beside(chosen, people, also)
    }
    opened = Column(name=name, array=array, where=chosen, people=people, beside=beside)
    if chosen is None or opened.reducible:
        return opened
    kept = np.flatnonzero(chosen.choose(beside.__getitem__))
    # A survey may still have to reduce what is left, and reads the filter's columns again.
    left = {each: column.take(kept) for each, column in beside.items()}
    return replace(opened, array=array.take(kept), beside=left)


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
            raise UnsupportedError(
                f"the column is already open: pass {given} to open_column instead"
            )
        return data
    several = isinstance(data, list | tuple) and bool(data)
    listed = several and all(isinstance(each, Path) for each in data)
    if listed or isinstance(data, str | Path | Files):
        return open_column(data, column, where=where, people=people, also=also)
    return take_column(data, column, where=where, people=people, also=also)


def _as_arrow(values: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    convert = getattr(values, "to_arrow", None)  # Polars
    if convert is not None:
        return convert()
    shape = getattr(values, "shape", None)
    if isinstance(shape, tuple) and len(shape) != 1:
        hint = ": choose one, such as data[:, 0]" if len(shape) > 1 else ""
        raise DataError(f"data of shape {shape} must be one column, of shape (n,){hint}")
    if not _has_type(values):
        return spell_out(_list_objects(values))
    try:
        if isinstance(values, np.ma.MaskedArray):
            return pa.array(values.data, mask=np.ma.getmaskarray(values))
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        # What Arrow says quotes a value.
        raise DataError(f"the values are not one column: {type(error).__name__}") from error


def _has_type(values: Any) -> bool:
    """Say whether somebody declared the type of the values, as of a typed array: then it may decide what they are.

    A list, an array of objects and categories of pandas have the types of the values that are in them, so that one
    person's value would decide how everybody's are read. They are read as text is: as the declared domain says.
    """
    dtype: Any = getattr(values, "dtype", None)
    # Pandas takes the type of its categories from the values.
    if str(dtype) == "category":
        return str(dtype.categories.dtype) in _PANDAS_TEXTS
    return dtype is not None and str(dtype) != "object"


def _list_objects(values: Any) -> list[Any]:
    if isinstance(values, np.ma.MaskedArray):
        return list(values.tolist())  # None where it is masked
    try:
        return list(values)
    except TypeError:
        raise DataError(f"{type(values).__name__} is not a column of values") from None


class TooManyGroupsError(Exception):
    """A column has more distinct values than fit in memory."""


class Chunk(NamedTuple):
    """Some rows of a column, as an Arrow array, and where they stand."""

    array: Any
    file: str | None
    """None for a column in memory."""
    row_in_file: int
    row: int
    """The number of its first row in the whole column."""
    kept: Any = None
    """With a filter: which rows of the file, counted from `row_in_file`, these are; None: all of them."""

    def place_of(self, position: int) -> int:
        """Return the row of a value in its file, counted from 0."""
        return self.row_in_file + (position if self.kept is None else int(self.kept[position]))


def read_chunks(column: Column, threads: int | None = None) -> Iterator[Chunk]:
    """Read the column's values in order, in chunks that fit in memory.

    >>> [chunk.array.to_pylist() for chunk in read_chunks(take_column(["cat", "dog", "cat"]))]
    [['cat', 'dog', 'cat']]
    """
    _require_people(column)
    if column.array is not None:
        for row in range(0, len(column.array), _ROWS):
            yield Chunk(column.measure(column.array.slice(row, _ROWS)), None, row, row)
        return
    row, where = 0, column.where
    needed = [column.name] if where is None else [*dict.fromkeys((column.name, *where.columns))]
    for file in column.files:
        in_file = 0
        with explain_unreadable(file.path):
            for arrays in read_arrays(file, needed, threads):
                array, kept = arrays[column.name], None
                if where is not None:
                    kept = np.flatnonzero(where.choose(arrays.__getitem__))
                chosen = array if kept is None else array.take(kept)
                if len(chosen):
                    yield Chunk(column.measure(chosen), file.path, in_file, row, kept)
                row += len(chosen)
                in_file += len(array)


def _require_people(column: Column) -> None:
    """Refuse rows where people are wanted: a promise to people must never be kept for rows."""
    if column.reducible:
        raise MismatchError(
            f"column {column.name!r} has rows: engine.reducing makes people of them"
        )


def read_arrays(file: DataFile, names: list[str], threads: int | None) -> Iterator[dict[str, Any]]:
    """Read the columns of a file by their names, some rows at a time."""
    if file.remote:
        raise DataError(f"{file.path} is not on this machine: use the Spark engine")
    if file.format in _DIRECT:
        for batch in _DIRECT[file.format](file, list_own(file, names)):
            yield {name: _find_values(file, batch, name) for name in names}
        return
    with (
        connect(threads) as connection,
        stream_batches(select(connection, file, *names), _ROWS) as batches,
    ):
        for batch in batches:
            yield {name: file.respell(batch.column(place)) for place, name in enumerate(names)}


def _find_values(file: DataFile, batch: Any, name: str) -> Any:
    """Return the values of a column in some rows of a file."""
    import pyarrow as pa

    if name in file.columns:
        return file.respell(batch.column(name))
    value = dict(file.partition)[name]
    if value is None:
        return pa.nulls(batch.num_rows, pa.string())
    return pa.repeat(pa.scalar(value), batch.num_rows)


def _decode_parquet(file: DataFile, names: list[str]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file.where) as opened:
        yield from opened.iter_batches(_ROWS, columns=names, use_threads=False)


_DIRECT = {
    Format.ARROW: lambda file, names: map_arrow(file, names, _ROWS),
    Format.PARQUET: _decode_parquet,
}


def group_values(column: Column, threads: int | None = None) -> Iterator[tuple[Any, Any]]:
    """Return the distinct values and how often each occurs, as Arrow arrays; once per file in which they occur.

    >>> [(values.to_pylist(), times.to_pylist()) for values, times in group_values(take_column([7, 8, 7]))]
    [(['7', '8'], [2, 1])]
    """
    _require_people(column)
    if column.array is not None:
        counted = column.array.value_counts()
        yield column.measure(counted.field(0)), counted.field(1)
        return
    if column.where is not None:
        for chunk in read_chunks(column, threads):
            counted = chunk.array.value_counts()
            yield counted.field(0), counted.field(1)
        return
    for _, (values,), times in _group_files([(column,)], threads):
        yield values, times


Group: TypeAlias = tuple[int, tuple[Any, ...], Any]
"""The number of the set of columns, the values of each column, and how often they occur together (Arrow arrays)."""


def group_sets(
    sets: Sequence[tuple[Column, ...]], threads: int | None = None
) -> Iterator[Group] | None:
    """Group the same files by each set of columns, in one pass; None if these have to be read row by row.

    >>> group_sets([(take_column([7, 8]), take_column(["cat", "dog"]))])
    """
    columns = [*chain.from_iterable(sets)]
    for column in columns:
        _require_people(column)
    if any(column.array is not None or column.where is not None for column in columns):
        return None
    several = {tuple(file.path for file in column.files) for column in columns}
    if len(several) > 1 or any("double" in each.type or "float" in each.type for each in columns):
        return None
    return chain.from_iterable(
        ((first + place, *group) for place, *group in _group_files(sets[first:][:_SETS], threads))
        for first in range(0, len(sets), _SETS)
    )


def _group_files(sets: Sequence[tuple[Column, ...]], threads: int | None) -> Iterator[Group]:
    import duckdb

    names = [*dict.fromkeys(column.name for column in chain.from_iterable(sets))]
    own = [f"{_VALUE}{place}" for place in range(len(names))]
    renamed = [duckdb.SQLExpression(f"#{place + 1}").alias(name) for place, name in enumerate(own)]
    places = [tuple(names.index(column.name) for column in each) for each in sets]
    for file in sets[0][0].files:
        if file.remote:
            raise DataError(f"{file.path} is not on this machine: use the Spark engine")
        with explain_unreadable(file.path), connect(threads) as connection:
            table = select(connection, file, *names).select(*renamed)
            try:
                with stream_batches(aggregate(table, own, places)) as stream:
                    for batch in stream:
                        for place, some in split_sets(batch, places):
                            values = (
                                column.measure(file.respell(some.column(at)))
                                for column, at in zip(sets[place], places[place], strict=True)
                            )
                            yield place, tuple(values), some.column(len(own))
            except duckdb.OutOfMemoryException as error:
                raise TooManyGroupsError from error


def categories_of(column: Column) -> tuple[str, ...]:
    """List the distinct values of the column as text, sorted; nulls left out. NOT private.

    That a rare value occurs at all tells that somebody has it, whatever noise is added to its count.

    >>> categories_of(take_column(["dog", "cat", None, "dog"]))
    ('cat', 'dog')
    """
    import pyarrow as pa

    texts: set[str] = set()
    for values, _times in group_values(column):
        texts.update(text for text in values.cast(pa.string()).to_pylist() if text)
    return tuple(sorted(texts))
