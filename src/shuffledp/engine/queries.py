"""How DuckDB reads files: each query, in SQL.

They are in SQL because DuckDB's Python functions of the same names import pandas, which takes longer than reading a
small file.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from os import cpu_count
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.validate import whole
from shuffledp.engine.formats import DataFile, Format, open_arrow
from shuffledp.engine.values import as_numpy

if TYPE_CHECKING:
    import duckdb

ROWS = 1 << 17
"""In a chunk."""

_VALUE = "value"


def select(
    connection: "duckdb.DuckDBPyConnection", file: DataFile, *names: str
) -> "duckdb.DuckDBPyRelation":
    """Select some columns of a file, in this order; the first one under a name of our own.

    By their places, since names of columns may hold dots and quotes, or differ in case only.
    """
    import duckdb

    own = list_own(file, names)
    if file.format is Format.ARROW:
        table = connection.from_arrow(_stream_arrow(file, own or [file.columns[0]]))
    elif file.format is Format.JSONL:
        table = connection.sql(f"from {_read_json(file, own or names)}")
    else:
        table, own = connection.sql(f"from {read_table(file)}"), [*file.columns]
    texts = (
        f"#{own.index(name) + 1}" if name in own else _write_partition(file, name) for name in names
    )
    chosen = [duckdb.SQLExpression(text) for text in texts]
    return table.select(chosen[0].alias(_VALUE), *chosen[1:])


def _write_partition(file: DataFile, name: str) -> str:
    """Return the value of a column that a file's folders give, as SQL."""
    value = dict(file.partition)[name]
    return "null::varchar" if value is None else _quote(value)


def name_column(name: str) -> str:
    """Return the name of a column, as SQL.

    >>> name_column('the "air" time')
    '"the ""air"" time"'
    """
    return '"' + name.replace('"', '""') + '"'


def read_table(file: DataFile) -> str:
    """Return how DuckDB reads a file of text or Parquet, as SQL."""
    if file.format in (Format.CSV, Format.LINES):
        return _read_csv(file)
    # The folders are ours to read: DuckDB would make columns of them, and guess types.
    return f"read_parquet({_quote(literal(file.where))}, hive_partitioning=false)"


def _read_json(file: DataFile, names: Sequence[str]) -> str:
    # Only these keys are parsed, and their values stay the text that they are.
    only = "{" + ", ".join(f"{_quote(name)}: 'VARCHAR'" for name in names) + "}"
    layout = "newline_delimited" if file.by_line else "auto"
    return (
        f"read_json({_quote(literal(file.where))}, format='{layout}', columns={only}, "
        f"maximum_object_size={file.longest}, hive_partitioning=false)"
    )


def _read_csv(file: DataFile) -> str:
    columns = ", ".join(f"'column{place}': 'VARCHAR'" for place in range(len(file.columns)))
    header, quote = ("true", '"') if file.format is Format.CSV else ("false", "")
    return (
        f"read_csv({_quote(literal(file.where))}, header={header}, auto_detect=false, "
        f"columns={{{columns}}}, delim={_quote(file.delimiter)}, quote='{quote}', escape='{quote}', "
        # By default buffers are several times as long as the longest line, and there are many.
        f"max_line_size={file.longest}, buffer_size={file.longest}, hive_partitioning=false)"
    )


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _stream_arrow(file: DataFile, names: list[str]) -> Any:
    """Return the columns of an Arrow file as a stream that DuckDB reads."""
    import pyarrow as pa

    rows = map_arrow(file, names)
    first = next(rows)
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], rows))


def literal(path: str) -> str:
    """Return a path in which DuckDB finds no pattern: those were resolved before.

    >>> literal("data[1].csv")
    'data[[]1].csv'
    """
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in path)


@contextmanager
def connect(threads: int | None = None) -> "Iterator[duckdb.DuckDBPyConnection]":
    """Open a database in memory that neither looks at Python's variables nor downloads extensions.

    >>> with connect() as connection:
    ...     connection.sql("select 1 + 1").fetchone()
    (2,)
    """
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": thread_count(threads),
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # What a query holds may be exact counts of people: it is never spilled to disk.
        "max_temp_directory_size": "0KB",
    }
    connection = duckdb.connect(":memory:", config=settings)
    try:
        yield connection
    finally:
        connection.close()


def thread_count(threads: int | None) -> int:
    """Return the number of threads: all of the machine's for None.

    >>> thread_count(3)
    3
    """
    if threads is None:
        return cpu_count() or 1
    return whole("threads", threads, at_least=1)


def list_own(file: DataFile, names: Sequence[str]) -> list[str]:
    """Return the columns in the file itself; the others are in the names of its folders."""
    return [name for name in names if name in file.columns]


def aggregate(
    table: "duckdb.DuckDBPyRelation", names: Sequence[str], places: Sequence[tuple[int, ...]]
) -> "duckdb.DuckDBPyRelation":
    """Count the rows of each set of columns, given by places; of several, a last column tells which set it is.

    >>> with connect() as connection:
    ...     rows = connection.sql("from (values (1, 'a'), (1, 'b')) t(x, y)")
    ...     sorted(aggregate(rows, ["x", "y"], [(0,), (1,)]).fetchall(), key=str)
    [(1, None, 2, 1), (None, 'a', 1, 2), (None, 'b', 1, 2)]
    """
    listed = ", ".join(names)
    if len(places) == 1:
        return table.aggregate(f"{listed}, count(*)")
    sets = (f"({', '.join(names[at] for at in each)})" for each in places)
    columns = f"{listed}, count(*), grouping({listed})::ubigint"
    return table.aggregate(columns, f"grouping sets ({', '.join(sets)})")


def split_sets(batch: Any, places: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, Any]]:
    """Split the rows by set, as `aggregate` finds them: the bits of its last column are 0 where a column is in the set.

    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"x": [1, None], "y": [None, "a"], "times": [2, 1], "set": [1, 2]})
    >>> [(place, rows.column(place).to_pylist()) for place, rows in split_sets(batch, [(0,), (1,)])]
    [(0, [1]), (1, ['a'])]
    """
    if len(places) == 1:
        yield 0, batch
        return
    last = batch.num_columns - 3
    bits = [(1 << last + 1) - 1 - sum(1 << last - at for at in each) for each in places]
    sets = as_numpy(batch.column(last + 2))
    # They come in runs. To slice is enough: to take rows, PyArrow would load its functions.
    ends = [*np.flatnonzero(sets[1:] != sets[:-1]) + 1, len(sets)]
    for start, end in pairwise([0, *ends]):
        yield bits.index(int(sets[start])), batch.slice(start, end - start)


def stream_batches(relation: "duckdb.DuckDBPyRelation", rows: int = ROWS) -> Any:
    """Return the rows of a relation as a reader of Arrow batches.

    >>> with connect() as connection, stream_batches(connection.sql("select 7")) as batches:
    ...     [batch.num_rows for batch in batches]
    [1]
    """
    # The streaming reader was called fetch_record_batch before DuckDB 1.4.
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return stream(rows)


def map_arrow(file: DataFile, names: list[str], rows: int = ROWS) -> Iterator[Any]:
    """Select some columns of an Arrow file, which is mapped into memory, some rows at a time."""
    with open_arrow(file) as (_, batches):
        for batch in batches:
            chosen = batch.select(names)
            for start in range(0, batch.num_rows, rows):
                yield chosen.slice(start, rows)
