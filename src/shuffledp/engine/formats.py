"""Files: where they are, how each is written, and what is known of it before its rows are read.

A file is known by its suffix:

| suffix | format | columns |
|---|---|---|
| `.parquet` | Parquet | typed |
| `.arrow`, `.feather`, `.ipc`, `.arrows` | Arrow IPC files and streams | typed |
| `.csv`, `.tsv` | a header line, then rows | text; an empty field is a null |
| `.txt` | one value per line; as `.csv` if a column is named | text; an empty line is a null |
| `.jsonl`, `.ndjson` | one JSON object per line | text; an absent key is a null |
| `.json` | the same, or one list of objects | text; an absent key is a null |

Text is in UTF-8 (or UTF-16, if it says so), the delimiter of a CSV is found in its first lines, and decimals have a
point; `Files` declares anything else. It may be compressed: `.gz`, `.zst`, `.bz2`. A folder stands for all files in it;
its folders called `year=2013` are a column `year`. The path `-` is standard input, whose format is told by its first
bytes.
"""

import codecs
import csv
import glob
import io
import json
import re
import shutil
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any, TypeAlias
from urllib.parse import unquote

from shuffledp.core.errors import DataError, ParameterError, ShuffledpError
from shuffledp.engine.spelling import Spelling
from shuffledp.engine.values import flatten


@dataclass(frozen=True, slots=True)
class Files:
    """Files whose text is written in another way than most: its delimiter, encoding, numbers and dates.

    >>> Files("budgets.csv", delimiter=";", decimal=",", encoding="latin-1").delimiter
    ';'
    >>> Files("budgets.csv", encoding="latin-99")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: encoding='latin-99' must be one that Python knows, such as latin-1
    """

    paths: str | Path | Sequence[str | Path]
    """One path, or several; each may be a pattern like `data/*.parquet`, a folder, or `-`, standard input."""
    delimiter: str | None = field(default=None, kw_only=True)
    """What separates the fields of a CSV: one character, or "tab"; None: found in the first lines."""
    decimal: str = field(default=".", kw_only=True)
    """The decimal mark. With a comma 1.234,5 and 1 234,5 are 1234.5, wherever they stand."""
    strip: str = field(default="", kw_only=True)
    """Characters that are left out of numbers, such as $ or the commas of 1,234."""
    dates: str = field(default="iso", kw_only=True)
    """How dates are written: iso is 2024-12-31, ymd 2024/12/31, dmy 31.12.2024, and mdy 12/31/2024."""
    encoding: str | None = field(default=None, kw_only=True)
    """Python's name of the encoding of the text; None: UTF-8, or UTF-16 with its mark."""
    spelling: Spelling = field(init=False, repr=False, compare=False)
    """How numbers and dates are written: `decimal`, `strip` and `dates` together."""

    def __post_init__(self) -> None:
        mark = _NAMED_MARKS.get(self.delimiter or ",", self.delimiter)
        if mark is not None and (len(mark) != 1 or mark in _NO_MARKS):
            wanted = "must be one character other than a quote, such as ; or tab"
            raise ParameterError("delimiter", self.delimiter, wanted)
        object.__setattr__(self, "delimiter", None if self.delimiter is None else mark)
        spelling = Spelling(decimal=self.decimal, strip=self.strip, dates=self.dates)
        object.__setattr__(self, "spelling", spelling)
        try:
            codecs.lookup(self.encoding or "utf-8").incrementaldecoder("strict").decode(b"")
        except (LookupError, TypeError):
            wanted = "must be one that Python knows, such as latin-1"
            raise ParameterError("encoding", self.encoding, wanted) from None


Paths: TypeAlias = str | Path | Sequence[str | Path] | Files
"""Where files are, and how their text is written if that has to be said."""

TEXT = "text"
"""The type of columns that have none."""

LINE = "line"
"""The column of files that have one value per line."""

_NAMED_MARKS = {"tab": "\t", "\\t": "\t"}
_NO_MARKS = '"\r\n'
_MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_NO_DELIMITER = "\x1f\x1e\x1f\x1e"  # no line of text has these characters
_SAMPLE = 1 << 20
_LONGEST_LINE = 1 << 24
_HUGEST_LINE = 1 << 30
_STANDARD_INPUT = "-"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ARROW = b"ARROW1"
_GAP = re.compile(r"[\s,]*")


class Format(Enum):
    """How a file is written, known by its suffix.

    >>> Format.of("people.csv.gz")
    <Format.CSV: 'csv'>
    """

    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    JSONL = "jsonl"
    LINES = "lines"
    """One value per line, without a header, delimiters or quotes: a `.txt` that is read without naming a column."""

    @classmethod
    def of(cls, path: str) -> "Format":
        """Return the format that the suffix of a path tells."""
        packed = _find_packing(path)
        name = path.lower().removesuffix(packed or "")
        for suffix, kind in _SUFFIXES.items():
            if name.endswith(suffix) and (kind in _TEXTUAL or packed is None):
                return kind
        known, packings = ", ".join(_SUFFIXES), ", ".join(_PACKINGS)
        raise ParameterError("path", path, f"must end in one of {known} (text also in {packings})")


_SUFFIXES = {
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".txt": Format.CSV,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".feather": Format.ARROW,
    ".ipc": Format.ARROW,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
}
_PACKINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Suffixes of compressed text, and PyArrow's names for them."""


def _find_packing(path: str) -> str | None:
    return next((suffix for suffix in _PACKINGS if path.lower().endswith(suffix)), None)


_STRINGS = ("string", "large_string")
_TEXTUAL = (Format.CSV, Format.JSONL, Format.LINES)
_MAGIC = (
    (b"PAR1", Format.PARQUET, ".parquet"),
    (_ARROW, Format.ARROW, ".arrow"),
    (b"\xff\xff\xff\xff", Format.ARROW, ".arrow"),
    (b"\x1f\x8b", Format.CSV, ".gz"),
    (b"\x28\xb5\x2f\xfd", Format.CSV, ".zst"),
    (b"BZh", Format.CSV, ".bz2"),
)
"""How files start that are not text."""


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
    spelling: Spelling = field(default_factory=Spelling)
    """How numbers and dates are written in its text."""
    longest: int = _LONGEST_LINE
    """No line of text is longer, in bytes."""
    partition: tuple[tuple[str, str | None], ...] = ()
    """Columns that the folders around it tell: `year=2013/people.csv` has a column year."""
    place: str = ""
    """Where its bytes are, if they had to be copied: standard input, and what no reader can unpack."""
    held: Any = field(default=None, repr=False, compare=False)
    """The private folder of that copy: it goes away with this object."""

    @property
    def where(self) -> str:
        """The path from which it is read."""
        return self.place or self.path

    @property
    def by_line(self) -> bool:
        """Whether every row of text has a line of its own: in a list of JSON objects it need not."""
        return (
            not self.where.lower().removesuffix(_find_packing(self.where) or "").endswith(".json")
        )

    def respell(self, array: Any) -> Any:
        """Respell some of its values, with numbers and dates spelt as everywhere: 1234.5, 2024-12-31."""
        if self.spelling.plain:
            return array
        plain = flatten(array)
        return self.spelling.respell(plain) if str(plain.type) in _STRINGS else array

    def type_of(self, name: str) -> str:
        """Return the type of a column as Arrow calls it, or "text"."""
        return self.types[self.columns.index(name)] if name in self.columns else TEXT

    def has(self, name: str) -> bool:
        """Say whether it has such a column, or is in a folder that tells it."""
        return name in self.columns or name in dict(self.partition)

    @property
    def remote(self) -> bool:
        """Whether only a cluster can open it."""
        return _is_remote(self.path)


def find_files(paths: Paths, text: Format = Format.CSV) -> tuple[DataFile, ...]:
    """Find each file that the paths name, once, with what is known of it; `text` is how a `.txt` is written.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp(), "pets.csv")
    >>> _ = path.write_text("name,legs\\ncat,4\\nbird,2\\n")
    >>> find_files(path)[0].columns
    ('name', 'legs')
    """
    given = paths if isinstance(paths, Files) else Files(paths)
    return tuple(_describe(path, text, given) for path in _refuse_twice(_find(given.paths)))


def _find(paths: str | Path | Sequence[str | Path]) -> Iterator[str]:
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise ParameterError("paths", paths, "must name at least one file")
    for path in map(str, given):
        listed = (
            [path]
            if path == _STANDARD_INPUT or _is_remote(path) or Path(path).exists()
            else _match(path)
        )
        for each in listed:
            yield from _list_folder(Path(each)) if Path(each).is_dir() else [each]


def _list_folder(folder: Path) -> list[str]:
    """Return the files in a folder and its folders; not those that start with a dot or an underscore."""
    inside = sorted(path for path in folder.rglob("*") if path.is_file())
    shown = [
        path
        for path in inside
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    if not shown:
        raise DataError(f"{folder} is a folder without files")
    return [*map(str, shown)]


def _refuse_twice(paths: Iterable[str]) -> list[str]:
    """Return the paths; refuses a file that is named twice, by whichever of its names.

    Its people would take part twice, and no guarantee covers that.
    """
    names: dict[Path | str, str] = {}
    for path in paths:
        file = path if _is_remote(path) or path == _STANDARD_INPUT else Path(path).resolve()
        if file in names:
            raise DataError(f"{path} is named twice: the same people would count twice")
        names[file] = path
    return list(names.values())


def _match(pattern: str) -> list[str]:
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  (it may be absolute)
    if matches:
        return matches
    if glob.has_magic(pattern):
        raise DataError(f"no file matches {pattern}")
    raise DataError(f"there is no file {pattern}")


def _is_remote(path: str) -> bool:
    return "://" in path


def _describe(path: str, text: Format, given: Files) -> DataFile:
    if path == _STANDARD_INPUT:
        return _describe_input(given)
    kind = Format.of(path)
    if path.lower().removesuffix(_find_packing(path) or "").endswith(".txt"):
        kind = text
    if _is_remote(path):
        lines = int(kind is Format.LINES)
        named, spelling = (LINE,) * lines, given.spelling
        return DataFile(
            path=path, format=kind, bytes=0, columns=named, types=(TEXT,) * lines, spelling=spelling
        )
    if not Path(path).is_file():
        raise DataError(f"{path} is not a file")
    with explain_unreadable(path):
        size = Path(path).stat().st_size
        if size == 0:
            raise DataError(f"{path} is empty")
        known = DataFile(
            path=path, format=kind, bytes=size, columns=(), types=(), spelling=given.spelling
        )
        if kind in _TEXTUAL:
            known = _make_readable(known, given)
        return replace(_DESCRIBE[kind](known, given), partition=_read_partition(path))


def _make_readable(file: DataFile, given: Files) -> DataFile:
    """Return the file, or a copy of it if DuckDB does not read it: what is in .bz2, or not in UTF-8."""
    with _unpack(file.where) as source:
        start = source.read(3)
    packed, encoding = _find_packing(file.where), given.encoding
    if encoding is None and start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-16"  # as of spreadsheets
    if encoding is not None and codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii"):
        encoding = None
    if encoding is None and file.format is Format.JSONL and start == codecs.BOM_UTF8:
        encoding = "utf-8-sig"  # DuckDB would take what follows for one value
    if encoding is None and packed != ".bz2":
        return file
    name = Path(file.where).name.removesuffix(packed or "")
    with _unpack(file.where) as source:
        if encoding is None:
            return _copy(file, source, name)
        try:
            return _copy(file, codecs.EncodedFile(source, "utf-8", encoding), name)
        except UnicodeError:
            raise DataError(f"{file.path} cannot be read: it is not text in {encoding}") from None


def _describe_input(given: Files) -> DataFile:
    """Say what comes in, as a private file: it is read more than once."""
    before = _inputs.get(_STANDARD_INPUT)
    if before is not None and before.source is sys.stdin and before.known is not None:
        return replace(before.known, held=before)  # another column of the same rows
    with explain_unreadable("standard input"):
        known = DataFile(
            path=_STANDARD_INPUT,
            format=Format.CSV,
            bytes=0,
            columns=(),
            types=(),
            spelling=given.spelling,
        )
        file = _name_by_content(_copy(known, sys.stdin.buffer))
        if _find_packing(file.where) is not None:
            with _unpack(file.where) as source:
                file = _name_by_content(_copy(file, source))
        if file.format in _TEXTUAL:
            file = _make_readable(file, given)
        described = _DESCRIBE[file.format](file, given)
    described.held.source = sys.stdin
    described.held.known = replace(described, held=None)
    _inputs[_STANDARD_INPUT] = described.held
    return described


def _name_by_content(file: DataFile) -> DataFile:
    """Return the copy, under a name whose suffix tells its format."""
    with Path(file.where).open("rb") as source:
        start = source.read(_SAMPLE)
    if not start:
        raise DataError("standard input is empty")
    kind, suffix = _recognize(start)
    place = Path(file.where).rename(file.where + suffix)
    return replace(file, format=kind, place=str(place), bytes=place.stat().st_size)


def _recognize(start: bytes) -> tuple[Format, str]:
    """Recognize the format of what starts like this, and the suffix that tells it."""
    for magic, kind, suffix in _MAGIC:
        if start.startswith(magic):
            return kind, suffix
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return Format.JSONL, ".json"
    return Format.CSV, ".csv"


class _Private:
    """A private folder that goes away with this object, or when the process ends."""

    __slots__ = ("__weakref__", "folder", "known", "source")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source: Any = None
        """The stream that was copied here, if it was standard input."""
        self.known: DataFile | None = None
        """What is known of it."""
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


_inputs: "weakref.WeakValueDictionary[str, _Private]" = weakref.WeakValueDictionary()


def _copy(file: DataFile, source: Any, name: str = "rows") -> DataFile:
    """Return the file, with its unpacked bytes in a private folder."""
    held = _Private(Path(mkdtemp(prefix="shuffledp.")))
    place = held.folder / name
    with place.open("wb") as target:
        shutil.copyfileobj(source, target, _SAMPLE)
    return replace(file, place=str(place), held=held)


def _read_partition(path: str) -> tuple[tuple[str, str | None], ...]:
    """Read the columns that the names of folders tell.

    >>> _read_partition("data/year=2013/kind=a%20b/x.parquet")
    (('year', '2013'), ('kind', 'a b'))
    """
    pairs = [part.split("=", 1) for part in Path(path).parts[:-1] if "=" in part.strip("=")]
    return tuple(
        (unquote(name), None if text == _NO_VALUE else unquote(text)) for name, text in pairs
    )


def _describe_parquet(file: DataFile, _: Files) -> DataFile:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file.where) as opened:
        schema, rows = opened.schema_arrow, opened.metadata.num_rows
    return _add_types(file, schema, rows)


def _describe_arrow(file: DataFile, _: Files) -> DataFile:
    with open_arrow(file) as (schema, batches):
        return _add_types(file, schema, sum(batch.num_rows for batch in batches))


@contextmanager
def open_arrow(file: DataFile) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Open an Arrow file, or a stream in a file: its schema and its batches."""
    import pyarrow as pa

    with pa.memory_map(file.where) as source:
        if source.read(len(_ARROW)) != _ARROW:
            source.seek(0)
            with pa.ipc.open_stream(source) as stream:
                yield stream.schema, iter(stream)
            return
        with pa.ipc.open_file(source) as opened:
            numbers = range(opened.num_record_batches)
            yield opened.schema, (opened.get_batch(number) for number in numbers)


def _add_types(file: DataFile, schema: Any, rows: int) -> DataFile:
    types = tuple(str(field.type) for field in schema)
    return replace(file, columns=tuple(schema.names), types=types, rows=rows)


def _describe_csv(file: DataFile, given: Files) -> DataFile:
    sample = _read_sample(file)
    header = _read_header(sample)
    if "\r" in header:
        raise DataError(
            f"{file.path} cannot be read: its lines end with carriage returns, without line feeds"
        )
    try:
        delimiter = given.delimiter or _find_delimiter(header, _prefer(file.path, given))
    except DataError as error:
        raise DataError(f"{file.path} cannot be read: {error}") from None
    columns = next(csv.reader(io.StringIO(header, newline=""), delimiter=delimiter), [])
    if not any(columns):
        raise DataError(f"{file.path} has no header line with the names of its columns")
    for name, times in Counter(columns).items():
        if times > 1:
            raise DataError(f"{file.path} has {times} columns named {name!r}: rename them")
    return _guess_rows(replace(file, delimiter=delimiter), columns, sample, skip=1)


def _read_header(sample: str) -> str:
    """Return the first line that ends where no quote is open.

    >>> _read_header('a,"b\\nc"\\r\\n1,2\\n3,4\\n')
    'a,"b\\nc"'
    """
    header = ""
    for line in io.StringIO(sample, newline="\n"):
        header += line
        if header.count('"') % 2 == 0:
            break
    return header.rstrip("\r\n")


def _prefer(path: str, given: Files) -> str | None:
    """Return the mark that separates fields if the header has it."""
    tabs = path.lower().removesuffix(_find_packing(path) or "").endswith(".tsv")
    return "\t" if tabs else ";" if given.decimal == "," else None


def _find_delimiter(header: str, preferred: str | None = None) -> str:
    """Return the mark between the names of columns, the one there is most of; no row decides what a table is.

    >>> _find_delimiter("Name, first;Age;City"), _find_delimiter("a,b")
    (';', ',')
    """
    outside = "".join(header.split('"')[::2])
    if preferred is not None and preferred in outside:
        return preferred
    counts = {mark: outside.count(mark) for mark in _MARKS}
    most = [mark for mark in _MARKS if counts[mark] == max(counts.values())]
    if len(most) > 1 and counts[most[0]]:
        said = " as ".join(f"{_MARKS[mark]}s" for mark in most)
        raise DataError(f"its header has as many {said}: declare the `delimiter`")
    return most[0]


def _describe_lines(file: DataFile, _: Files) -> DataFile:
    sample = _read_sample(file)
    lines = [line for line in sample.split("\n") if line.strip()]
    for mark, name in _MARKS.items():
        counts = {line.count(mark) for line in lines}
        if len(lines) > 1 and len(counts) == 1 and counts != {0}:
            raise DataError(
                f"{file.path} may be a table, since all lines have the same number of {name}s: name the column, or "
                "make it a .csv with a header and quotes"
            )
    return _guess_rows(replace(file, delimiter=_NO_DELIMITER), (LINE,), sample, skip=0)


def _describe_jsonl(file: DataFile, _: Files) -> DataFile:
    sample = _read_sample(file)
    if file.by_line:
        # Only names are wanted, and Python reads at most 4,300 digits of an integer.
        rows = [json.loads(line, parse_int=float) for line in sample.split("\n") if line.strip()]
    else:
        rows = _list_objects(sample)
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file.path} cannot be read: a line is not a JSON object")
    if not rows:
        raise DataError(f"{file.path} has no rows")
    columns = dict.fromkeys(key for row in rows for key in row)
    if len(rows) == 1 and all(isinstance(each, dict | list) for each in rows[0].values()):
        raise DataError(
            f"{file.path} is one JSON object of columns, as pandas writes by default: write one object per row, "
            "to_json(path, orient='records', lines=True)"
        )
    return _guess_rows(file, columns, sample, skip=0)


def _list_objects(sample: str) -> list[Any]:
    """Return the objects at the start of a list of them, or one after the other; the last may be cut.

    >>> _list_objects('[{"x": 1}, {"x": 2}, {"x"')
    [{'x': 1.0}, {'x': 2.0}]
    """
    rows: list[Any] = []
    decoder, text = json.JSONDecoder(parse_int=float), sample.strip().removeprefix("[")
    place = 0
    while (start := _GAP.match(text, place).end()) < len(text) and text[start] != "]":  # type: ignore[union-attr]
        try:
            row, place = decoder.raw_decode(text, start)
        except ValueError:
            if not rows:
                raise
            break
        rows.append(row)
    return rows


def _guess_rows(file: DataFile, columns: Iterable[str], sample: str, skip: int) -> DataFile:
    names = tuple(columns)
    guess, longest = None, _LONGEST_LINE
    if _find_packing(file.where) is None:
        size, lines = Path(file.where).stat().st_size, max(1, sample.count("\n"))
        guess = max(1, round(size * lines / max(1, len(sample.encode())))) - skip
        longest = _bound_lines(Path(file.where)) if file.by_line else _LONGEST_LINE
    types = (TEXT,) * len(names)
    return replace(file, columns=names, types=types, rows_guess=guess, longest=longest)


def _bound_lines(path: Path) -> int:
    """Return a length that no line has, in bytes.

    Readers must know, and their buffers are that long. A line that is longer than usual fills a block of half
    the usual length, so looking for a block without an end of line is enough, and touches little of the file.
    """
    block = _LONGEST_LINE // 2
    bound = run = 0
    with path.open("rb") as file, closing(mmap(file.fileno(), 0, access=ACCESS_READ)) as data:
        for start in range(0, len(data), block):
            ends = (data.find(mark, start, start + block) >= 0 for mark in (b"\n", b"\r"))
            run = 0 if any(ends) else run + 1
            bound = max(bound, run)
    longest = max(_LONGEST_LINE, (bound + 2) * block)
    if longest > _HUGEST_LINE:
        raise DataError(f"{path} has a line of more than {_HUGEST_LINE >> 20:,} megabytes")
    return longest


def _read_sample(file: DataFile) -> str:
    """Return the first lines of a text file."""
    with _unpack(file.where) as source:
        if not file.by_line:
            return source.read(_SAMPLE).decode("utf-8-sig", "ignore")  # the last letter may be cut
        sample = source.read(_SAMPLE) + source.readline(_HUGEST_LINE)
    try:
        return sample.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(
            f"{file.path} cannot be read: it is not text in UTF-8; `encoding` declares another, such as latin-1"
        ) from None


@contextmanager
def _unpack(path: str) -> Iterator[IO[bytes]]:
    """Return a file of text as it was before it was compressed."""
    import pyarrow as pa

    packing = _find_packing(path)
    with ExitStack() as stack:
        file = stack.enter_context(Path(path).open("rb"))
        if packing is None:
            yield file
            return
        unpacked = stack.enter_context(pa.CompressedInputStream(file, _PACKINGS[packing]))
        yield stack.enter_context(io.BufferedReader(unpacked))


_DESCRIBE = {
    Format.PARQUET: _describe_parquet,
    Format.ARROW: _describe_arrow,
    Format.CSV: _describe_csv,
    Format.JSONL: _describe_jsonl,
    Format.LINES: _describe_lines,
}


@contextmanager
def explain_unreadable(path: str) -> Iterator[None]:
    """Turn what readers complain about into one sentence that quotes none of the data.

    >>> with explain_unreadable("people.csv"):
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
        raise DataError(f"{path} cannot be read: {_summarize(error)}") from error


def _summarize(error: Exception) -> str:
    # Readers add the offending line and advice about their options: the one is private, the other
    # not for our users.
    lines = [line.strip() for line in str(error).splitlines()]
    advice = ("Possible", "Try ", "To correctly parse")
    stop = next((i for i, line in enumerate(lines) if line.startswith(advice)), len(lines))
    said = [line for line in lines[:stop] if line and not line.startswith("Original Line")]
    whole = "; ".join(said)[:300] or type(error).__name__
    return _FIELDS.sub(r"line \1 does not have the \2 fields of the header, but \3", whole)


_FIELDS = re.compile(
    r".*CSV Error on Line: (\d+);.*Expected Number of Columns: (\d+) Found: (\d+).*", re.DOTALL
)
