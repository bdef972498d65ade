"""Columns of files in pieces that fit in memory, and the threads that work on them: what engines share.

DuckDB reads text and counts groups; Parquet and Arrow files are read by PyArrow, which is twice as
fast where there is nothing but a column to decode. One thread hands out pieces of a hundred thousand
rows, and a pool of threads works on them.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import chain
from os import cpu_count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from shuffledp.core.errors import DataError, PositionError, shown
from shuffledp.core.validate import whole
from shuffledp.engine.coding import Coded, Coder
from shuffledp.engine.formats import DataFile, FileColumn, Format, unreadable
from shuffledp.engine.job import Headcount, Job, added

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "Piece",
    "coded",
    "connect",
    "count_users",
    "grouped",
    "literal",
    "parallel",
    "pieces",
    "watched",
]

_ROWS = 1 << 17
_LINE_BYTES = 1 << 24
_VALUE = "value"
_Out = TypeVar("_Out")


class Piece(NamedTuple):
    """Some rows of a column, as an Arrow array, and where they stand."""

    array: Any
    file: str
    row_in_file: int
    row: int
    """The number of its first row in all files together."""


def watched(job: Job) -> Generator[Piece]:
    """The pieces of a job's column; progress is reported along the way."""
    for piece in pieces(job.column, job.threads):
        yield piece
        job.show(piece.row + len(piece.array))


def count_users(job: Job) -> Headcount:
    """How many users and rows a job's column has, and which values of it are invalid."""
    n, rows, invalid = 0, 0, added(())
    with parallel(lambda piece: coded(job.coder, piece), job) as parts:
        for some in parts:
            n, rows = n + some.users, rows + len(some.codes)
            invalid = added((invalid, some.invalid()))
    return Headcount(n=n, rows=rows, invalid=invalid)


def coded(coder: Coder, piece: Piece) -> Coded:
    """The codes of a piece; errors name the file and the row (counted from 1, without a header)."""
    try:
        return coder.codes(piece.array)
    except PositionError as error:
        row = piece.row_in_file + error.position + 1
        place = f"row {row} of {piece.file}"
        raise DataError(f"value {shown(error.value)} in {place} {error.complaint}") from None
    except DataError as error:
        raise DataError(f"{piece.file}: {error}") from None


@contextmanager
def parallel(function: Callable[[Piece], _Out], job: Job) -> Iterator[Iterator[_Out]]:
    """`map` over a job's pieces with a pool of threads, in order; all of it ends with the block."""
    with closing(watched(job)) as work, ThreadPoolExecutor(_threads(job.threads)) as pool:
        try:
            yield _ordered(function, work, pool, 2 * _threads(job.threads))
        finally:
            pool.shutdown(cancel_futures=True)


def _ordered(
    function: Callable[[Piece], _Out], work: Iterator[Piece], pool: ThreadPoolExecutor, ahead: int
) -> Iterator[_Out]:
    """Results in the order of the work, never more than a few pieces ahead of the slowest."""
    waiting: deque[Future[_Out]] = deque()
    for piece in work:
        waiting.append(pool.submit(function, piece))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _threads(threads: int | None) -> int:
    if threads is None:
        return cpu_count() or 1
    return whole("threads", threads, at_least=1)


def pieces(column: FileColumn, threads: int | None = None) -> Iterator[Piece]:
    """The column's values in the order of its files, as pieces that fit in memory.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import open_column
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet,owner\\ncat,1\\ndog,2\\ncat,3\\n")
    ...     column = open_column(path, "pet")
    ...     [piece.array.to_pylist() for piece in pieces(column)]
    ...     [(sorted(values.to_pylist()), sum(times.to_pylist())) for values, times in grouped(column)]
    [['cat', 'dog', 'cat']]
    [(['cat', 'dog'], 3)]
    """
    row = 0
    for file in column.files:
        start = row
        with unreadable(file.path):
            for array in _arrays(file, column.name, threads):
                yield Piece(array, file.path, row - start, row)
                row += len(array)


def _arrays(file: DataFile, name: str, threads: int | None) -> Iterator[Any]:
    if file.remote:
        raise DataError(f"{file.path} is not on this machine: use the Spark engine")
    if file.format in _DIRECT:
        yield from _DIRECT[file.format](file, name)
        return
    with connect(threads) as connection, _batches(_relation(connection, file, name)) as batches:
        for batch in batches:
            yield batch.column(0)


def _batches(relation: "duckdb.DuckDBPyRelation") -> Any:
    # The streaming reader was called fetch_record_batch before DuckDB 1.4.
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return stream(_ROWS)


def _mapped(file: DataFile, name: str) -> Iterator[Any]:
    import pyarrow as pa

    with pa.memory_map(file.path) as source, pa.ipc.open_file(source) as opened:
        for number in range(opened.num_record_batches):
            values = opened.get_batch(number).column(name)
            for start in range(0, len(values), _ROWS):
                yield values.slice(start, _ROWS)


def _decoded(file: DataFile, name: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file.path) as opened:
        for batch in opened.iter_batches(_ROWS, columns=[name], use_threads=False):
            yield batch.column(name)


_DIRECT = {Format.ARROW: _mapped, Format.PARQUET: _decoded}


def grouped(column: FileColumn, threads: int | None = None) -> Iterator[tuple[Any, Any]]:
    """The distinct values of each file, and how often each occurs there, as Arrow arrays."""
    import duckdb

    value, times = duckdb.ColumnExpression(_VALUE), duckdb.FunctionExpression("count_star")
    for file in column.files:
        with unreadable(file.path), connect(threads) as connection:
            counted = _relation(connection, file, column.name).aggregate([value, times])
            with _batches(counted) as stream:
                for batch in stream:
                    yield batch.column(0), batch.column(1)


def _relation(
    connection: "duckdb.DuckDBPyConnection", file: DataFile, name: str
) -> "duckdb.DuckDBPyRelation":
    """The column alone, under a name of ours.

    By its place, since names of columns may hold dots and quotes, or differ in case only.
    """
    import duckdb

    found, place = _table(connection, file, name)
    return found.select(duckdb.SQLExpression(f"#{place + 1}").alias(_VALUE))


def _table(
    connection: "duckdb.DuckDBPyConnection", file: DataFile, name: str
) -> "tuple[duckdb.DuckDBPyRelation, int]":
    """A file as a table, and the place of the column in it."""
    path, place = literal(file.path), file.columns.index(name)
    if file.format is Format.ARROW:
        return connection.from_arrow(_reader(file, name)), 0
    if file.format is Format.PARQUET:
        return connection.read_parquet(path), place
    if file.format is Format.JSONL:
        # Only this key is parsed, and its values stay the text that they are.
        only = {name: "VARCHAR"}
        return connection.read_json(path, format="newline_delimited", columns=only), 0
    return _csv(connection, path, file), place


def _csv(
    connection: "duckdb.DuckDBPyConnection", path: str, file: DataFile
) -> "duckdb.DuckDBPyRelation":
    return connection.read_csv(
        path,
        header=True,
        auto_detect=False,
        columns={f"column{place}": "VARCHAR" for place in range(len(file.columns))},
        delimiter=file.delimiter,
        quotechar='"',
        escapechar='"',
        max_line_size=_LINE_BYTES,
        buffer_size=_LINE_BYTES,  # by default several times that, for each of many buffers
    )


def _reader(file: DataFile, name: str) -> Any:
    """The column of an Arrow file as a stream that DuckDB reads."""
    import pyarrow as pa

    rows = (pa.record_batch([array], names=[name]) for array in _mapped(file, name))
    first = next(rows)
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], rows))


def literal(path: str) -> str:
    """A path in which DuckDB finds no pattern: those were resolved before.

    >>> literal("data[1].csv")
    'data[[]1].csv'
    """
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in path)


@contextmanager
def connect(threads: int | None = None) -> "Iterator[duckdb.DuckDBPyConnection]":
    """A data base in memory that neither looks at Python's variables nor downloads extensions.

    >>> with connect() as connection:
    ...     connection.sql("select 1 + 1").fetchone()
    (2,)
    """
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": _threads(threads),
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    connection = duckdb.connect(":memory:", config=settings)
    try:
        yield connection
    finally:
        connection.close()
