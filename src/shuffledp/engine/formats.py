"""Files with columns: finding them, and what can be known about them before reading them.

| suffix | format | columns |
|---|---|---|
| `.parquet` | Parquet | typed |
| `.arrow`, `.feather`, `.ipc` | Arrow IPC files | typed |
| `.csv`, `.tsv`, also `.gz` | a header line, then rows | text; an empty field is a null |
| `.jsonl`, `.ndjson`, also `.gz` | one JSON object per line | text; an absent key is a null |

Text has no types: what a field means follows from the declared domain, never from a guess.
"""

import csv
import glob
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

from shuffledp.core.errors import DataError, ParameterError, ShuffledpError, UnsupportedError

__all__ = ["DataFile", "FileColumn", "Format", "Paths", "open_column", "unreadable"]

Paths: TypeAlias = str | Path | Sequence[str | Path]
"""One path, or several; each may be a pattern like `data/*.parquet`."""

_DELIMITERS = ",;\t|"
_TEXT = "text"
_SAMPLE = 1 << 20
_LONGEST_LINE = 1 << 24


class Format(Enum):
    """How a file is written, known by its suffix.

    >>> Format.of("people.csv.gz")
    <Format.CSV: 'csv'>
    """

    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    JSONL = "jsonl"

    @classmethod
    def of(cls, path: str) -> "Format":
        """The format that the suffix of a path tells."""
        name = path.lower().removesuffix(".gz")
        for suffix, kind in _SUFFIXES.items():
            if name.endswith(suffix) and (kind in _TEXTUAL or not path.lower().endswith(".gz")):
                return kind
        known = ", ".join(_SUFFIXES)
        raise ParameterError("path", path, f"must end in one of {known} (text also in .gz)")


_SUFFIXES = {
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".feather": Format.ARROW,
    ".ipc": Format.ARROW,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
}
_TEXTUAL = (Format.CSV, Format.JSONL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file: where it is, how it is written, which columns it has."""

    path: str
    format: Format
    bytes: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: int | None = None
    """How many rows, if the file says so; text has to be read to know."""
    rows_guess: int | None = None
    """How many rows there may be, from the length of the first lines."""
    delimiter: str = ","
    """What separates the fields of a CSV file."""

    @property
    def remote(self) -> bool:
        """Whether only a cluster can open it."""
        return _is_remote(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """A column of one or several files, which are read in this order."""

    name: str
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int | None:
        """How many rows, if that is known without reading them."""
        counts = [file.rows for file in self.files]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def rows_guess(self) -> int | None:
        """About how many rows, for a progress bar."""
        guesses = [file.rows if file.rows is not None else file.rows_guess for file in self.files]
        return None if None in guesses else sum(guess for guess in guesses if guess is not None)

    @property
    def bytes(self) -> int:
        """The size of the files on disk."""
        return sum(file.bytes for file in self.files)

    @property
    def type(self) -> str:
        """The type of the values as the files declare it, or "text"."""
        found = {file.types[file.columns.index(self.name)] for file in self.files if file.columns}
        return " or ".join(sorted(found)) or "unknown"


def open_column(paths: Paths, column: str | None = None) -> FileColumn:
    """Find the files and the column; the name may be left out if there is only one column.

    A path with a scheme (`s3://...`) is taken as it is: only the Spark engine reads it.

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
    files = tuple(_described(path) for path in _distinct(_found(paths)))
    for file in files:
        column = _chosen(file, column)
    if column is None:
        raise ParameterError("column", column, "must be named: the files are not on this machine")
    return FileColumn(name=column, files=files)


def _require_readers() -> None:
    try:
        import duckdb  # noqa: F401
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"files need DuckDB and PyArrow, and {error.name} is missing: install shuffledp[data]"
        ) from error


def _chosen(file: DataFile, column: str | None) -> str | None:
    if file.remote or column in file.columns:
        return column
    listed = ", ".join(map(repr, file.columns[:20])) + (", ..." if len(file.columns) > 20 else "")
    if column is not None:
        raise DataError(f"{file.path} has no column {column!r}; it has {listed}")
    if len(file.columns) != 1:
        raise DataError(f"{file.path} has several columns, choose one of {listed}")
    return file.columns[0]


def _found(paths: Paths) -> Iterator[str]:
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise ParameterError("paths", paths, "must name at least one file")
    for path in map(str, given):
        yield from [path] if _is_remote(path) or Path(path).exists() else _matches(path)


def _distinct(paths: Iterable[str]) -> list[str]:
    """The paths; refuses a file that is named twice, by whichever of its names.

    Its people would take part twice, and nobody's promise is made for that.
    """
    names: dict[Path | str, str] = {}
    for path in paths:
        file = path if _is_remote(path) else Path(path).resolve()
        if file in names:
            raise DataError(f"{path} is named twice: the same people would count twice")
        names[file] = path
    return list(names.values())


def _matches(pattern: str) -> list[str]:
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  (it may be absolute)
    if matches:
        return matches
    if glob.has_magic(pattern):
        raise DataError(f"no file matches {pattern}")
    raise DataError(f"there is no file {pattern}")


def _is_remote(path: str) -> bool:
    return "://" in path


def _described(path: str) -> DataFile:
    kind = Format.of(path)
    if _is_remote(path):
        return DataFile(path=path, format=kind, bytes=0, columns=(), types=())
    if not Path(path).is_file():
        raise DataError(f"{path} is not a file")
    with unreadable(path):
        size = Path(path).stat().st_size
        if size == 0:
            raise DataError(f"{path} is empty")
        known = DataFile(path=path, format=kind, bytes=size, columns=(), types=())
        return _DESCRIBE[kind](known)


def _describe_parquet(file: DataFile) -> DataFile:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file.path) as opened:
        schema, rows = opened.schema_arrow, opened.metadata.num_rows
    return _typed(file, schema, rows)


def _describe_arrow(file: DataFile) -> DataFile:
    import pyarrow as pa

    with pa.memory_map(file.path) as source, pa.ipc.open_file(source) as opened:
        rows = sum(opened.get_batch(i).num_rows for i in range(opened.num_record_batches))
        return _typed(file, opened.schema, rows)


def _typed(file: DataFile, schema: Any, rows: int) -> DataFile:
    types = tuple(str(field.type) for field in schema)
    return replace(file, columns=tuple(schema.names), types=types, rows=rows)


def _describe_csv(file: DataFile) -> DataFile:
    sample = _sample(file.path)
    header = sample.partition("\n")[0].rstrip("\r")
    outside_quotes = "".join(header.split('"')[::2])
    used = [mark for mark in _DELIMITERS if mark in outside_quotes]
    delimiter = used[0] if used else ","
    (columns,) = csv.reader([header], delimiter=delimiter) if header else ([],)
    if not any(columns):
        raise DataError(f"{file.path} has no header line with the names of its columns")
    if len(set(columns)) < len(columns):
        raise DataError(f"{file.path} has two columns of the same name")
    return _textual(replace(file, delimiter=delimiter), columns, sample, skip=1)


def _describe_jsonl(file: DataFile) -> DataFile:
    sample = _sample(file.path)
    rows = [json.loads(line) for line in sample.split("\n") if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file.path} cannot be read: a line is no JSON object")
    columns = dict.fromkeys(key for row in rows for key in row)
    return _textual(file, columns, sample, skip=0)


def _textual(file: DataFile, columns: Iterable[str], sample: str, skip: int) -> DataFile:
    names = tuple(columns)
    guess = None
    if not file.path.lower().endswith(".gz"):
        lines = max(1, sample.count("\n"))
        guess = max(1, round(file.bytes * lines / max(1, len(sample.encode())))) - skip
    return replace(file, columns=names, types=(_TEXT,) * len(names), rows_guess=guess)


def _sample(path: str) -> str:
    """The first lines of a text file."""
    lines, size = [], 0
    with gzip.open(path, "rb") if path.lower().endswith(".gz") else Path(path).open("rb") as source:
        while size < _SAMPLE and (line := source.readline(_LONGEST_LINE)):
            lines.append(line)
            size += len(line)
    return b"".join(lines).decode("utf-8-sig")


_DESCRIBE = {
    Format.PARQUET: _describe_parquet,
    Format.ARROW: _describe_arrow,
    Format.CSV: _describe_csv,
    Format.JSONL: _describe_jsonl,
}


@contextmanager
def unreadable(path: str) -> Iterator[None]:
    """Turn what readers complain about into one sentence that quotes none of the data.

    >>> with unreadable("people.csv"):
    ...     raise OSError("disk on fire")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: people.csv cannot be read: disk on fire
    """
    import duckdb
    import pyarrow as pa

    try:
        yield
    except ShuffledpError:
        raise
    except (duckdb.Error, pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {_first_sentence(error)}") from error


def _first_sentence(error: Exception) -> str:
    # Readers add the offending line and advice about their options: the one is private, the other
    # not for our users.
    lines = [line.strip() for line in str(error).splitlines()]
    stop = next((i for i, line in enumerate(lines) if line.startswith("Possible")), len(lines))
    said = [line for line in lines[:stop] if line and not line.startswith("Original Line")]
    return "; ".join(said)[:300] or type(error).__name__
