"""The Spark engine: the cluster groups the column by value, and the driver deals the tally.

The group-by is Spark's own, in the JVM: no Python runs on the workers, and no randomness. So a task that
Spark repeats repeats itself.

Words are grouped by their text in the same way, if their tally can be dealt. Three kinds of columns need Python workers
(with shuffledp and PyArrow), by `mapInArrow`: real values, which take a word each to be rounded to the grid, other
domains too large to be counted, whose people's devices all run, and filtered ones. Then what leaves a partition are
counts of codes, or the cells of a tally, never messages; a group-by adds them, and one small collect brings the total.
The words of a partition are derived from one secret key of the run and the number of the partition, so that a repeated
task makes the same choices: fresh words would mix two randomizations of the same people.

Spark reads Parquet, CSV and JSON lines. An invalid value is named, but not its row: Spark does not
know it. What Spark itself writes to the disks of its workers between stages is encrypted in sessions that
start here.
"""

import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from uuid import uuid4

import numpy as np

from shuffledp.core.analyzer import Analyzer, Tally
from shuffledp.core.arrays import Counts, keep_freed_memory
from shuffledp.core.domain import PLACE_BITS, Reals
from shuffledp.core.errors import (
    DataError,
    ParameterError,
    PositionError,
    ShuffledpError,
    UnsupportedError,
    tell_value,
)
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Randomizer, WordSource, tape_width
from shuffledp.engine.chunks import (
    CodeCounts,
    Headcount,
    Job,
    Rounding,
    Tallied,
    Tapes,
    tally_codes,
)
from shuffledp.engine.codes import FAULTS, Coded, Coder
from shuffledp.engine.columns import Column, Group
from shuffledp.engine.filters import Filter
from shuffledp.engine.formats import LINE, DataFile, Format
from shuffledp.engine.local import Memory, add_groups, refuse_value
from shuffledp.engine.reducing import Dialect, Reduced, Reduction, Rows, list_whole, mask_rows
from shuffledp.numerics.entropy import RunKey, SeededWords

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MASTER = "local[2]"
"""Where Spark runs by default: in this process, on two threads."""

_ROWS = 1 << 17
_POLL_SECONDS = 0.5
_CELLS = "cell long, low long, high long, error string"
_PLACES = "place long, rows long"
_USERS, _READ, _FIRST_FAULT = -1, -2, -3  # cells that are not of the tally
_FAULTS = {_FIRST_FAULT - place: why for place, why in enumerate(FAULTS)}
_Cells: TypeAlias = dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """Files that a cluster reads."""

    master: str | None = None
    """Where Spark runs, such as "local[2]"; None: in this process, on two threads."""

    name: ClassVar[str] = "spark"
    about: ClassVar[str] = "files that a cluster reads"
    local: ClassVar[bool] = False
    threads: ClassVar[None] = None

    def headcount(self, job: Job) -> Headcount:
        if job.column.reduced:  # people, who are on the driver already
            return _HERE.headcount(job)
        cells = self._run(job, _Work(coder=job.coder))
        return Headcount(n=cells[_USERS], rows=cells[_READ], invalid=_count_invalid(cells))

    def counts(self, job: Job, rounding: Rounding | None = None) -> CodeCounts:
        if job.column.reduced:
            return _HERE.counts(job, rounding)
        if not isinstance(job.coder.domain, Reals):
            return add_groups(job, self._group(job), refuse_value)
        work = _Work(coder=job.coder, group=True)
        if rounding is not None:
            tapes = Tapes(rounding.rng, width=1, bits=rounding.bits)
            work = replace(work, bits=rounding.bits, words=_choose_words(rounding.rng))
        cells = self._run(job, work)
        if rounding is not None:
            tapes.finish(cells[_READ])
        counts = _spread(cells, job.coder.domain.size)
        return CodeCounts(counts=counts, rows=cells[_READ], invalid=_count_invalid(cells))

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        if job.column.reduced:
            return _HERE.tally(job, protocol, rng)
        tapes = Tapes.of(protocol.randomizer, rng)
        work = _Work(
            coder=job.coder,
            randomizer=protocol.randomizer,
            analyzer=protocol.analyzer,
            words=_choose_words(rng),
        )
        cells = self._run(job, work)
        if cells[_USERS] == 0:
            raise job.nobody()
        tapes.finish(cells[_READ])
        tally = Tally(counts=_spread(cells, max(cells) + 1), users=cells[_USERS])
        return Tallied(tally=tally, rows=cells[_READ], invalid=_count_invalid(cells))

    def _group(self, job: Job) -> list[tuple[Any, Any]]:
        """Return the distinct values and how often each occurs, by Spark's own group-by."""
        spark = self._open(job.column)
        with _explain_errors(job.column):
            groups = _make_frame(spark, job.column, read=_join_files).groupBy("value").count()
            (table,) = _watch(job, spark, lambda: [groups.toArrow()])
        return [(table.column(0), table.column(1).combine_chunks())]

    def reduce(self, reduction: Reduction) -> Reduced:
        """Reduce in Spark: its workers read the rows, and Spark groups them; one value for each person comes to the
        driver.
        """
        column, names = reduction.column, reduction.names
        spark = self._open(column)
        with _explain_errors(column):
            plain = replace(column, where=None, people=None, moments=None)
            frame = _make_frame(spark, plain, *names[1:])
            work = _RowReader(reduction, list_whole(column))
            read = _map(frame, work.__call__, _write_rows_schema(reduction))
            if reduction.people is None:  # every row is a person, and comes to the driver
                return mask_rows(reduction, read.toArrow().to_batches())
            view = f"shuffledp_{uuid4().hex}"
            read.createOrReplaceTempView(view)
            try:
                people = spark.sql(reduction.write_query(_DIALECT, view)).toArrow()
            finally:
                spark.catalog.dropTempView(view)
        if people.num_rows == 0:
            raise DataError(f"column {column.name!r} has no rows")
        return reduction.finish(people)

    def group(self, sets: Sequence[tuple[Column, ...]]) -> Iterator[Group] | None:
        first = sets[0][0]
        if first.reduced:
            return None
        if first.where is not None:
            raise UnsupportedError("Spark does not filter questions by group: use another engine")
        return self._group_sets(sets, self._open(first))

    def _group_sets(
        self, sets: Sequence[tuple[Column, ...]], spark: "SparkSession"
    ) -> Iterator[Group]:
        for place, columns in enumerate(sets):
            first, *others = columns
            with _explain_errors(first):
                also = [each.name for each in others]
                frame = _make_frame(spark, first, *also, read=_join_files)
                table = frame.groupBy(*frame.columns).count().toArrow()
            arrays = [table.column(at).combine_chunks() for at in range(table.num_columns)]
            yield place, tuple(arrays[:-1]), arrays[-1]

    def _open(self, column: Column) -> "SparkSession":
        if column.array is not None:
            raise UnsupportedError("Spark reads files: for a column in memory use another engine")
        return session(self.master)

    def _run(self, job: Job, work: "_Work") -> _Cells:
        """Add up the cells of all partitions."""
        column = job.column
        spark = self._open(column)
        with _explain_errors(column):
            rows = _collect(spark, job, column, work)
        errors = [error for _, _, _, error in rows if error is not None]
        if errors:
            raise DataError(f"column {column.name!r}: {min(errors)}")
        numbers = {cell: _wrap(low + (high << 32)) for cell, low, high, _ in rows}
        return dict.fromkeys((_USERS, _READ, *_FAULTS), 0) | numbers


_HERE = Memory()
_DIALECT = Dialect(
    coin=lambda text: f"cast(conv(substr(md5({text}), 1, 15), 16, 10) as bigint)",
    huge="decimal(38, 0)",
    ranks=lambda first, end: f"explode(sequence({first}, {end} - 1))",
    text="string",
    once="",
    struct=lambda names: "named_struct(" + ", ".join(f"'{name}', {name}" for name in names) + ")",
)
_TOLD = "[rows: {} :rows]"
_SAID = re.compile(r"\[rows: (.*?) :rows\]")


@dataclass(frozen=True, slots=True)
class _RowReader:
    """Lets a worker read rows as `engine.reducing` does on one machine."""

    reduction: Reduction
    whole: tuple[bool, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        row = self._find_first()
        for batch in batches:
            arrays = dict(zip(self.reduction.names, batch.columns, strict=True))
            try:
                yield self.reduction.read(Rows(arrays, None, row), self.whole)
                row += batch.num_rows
            except PositionError as error:  # without the value: workers write logs
                raise RuntimeError(_TOLD.format(f"a value {error.complaint}")) from None
            except ShuffledpError as error:
                raise RuntimeError(_TOLD.format(error)) from None

    def _find_first(self) -> int:
        """Return the number of the first row: a row that names nobody is called by its own, unique number."""
        from pyspark import TaskContext

        task = TaskContext.get()
        return 0 if task is None else task.partitionId() << 40


def _write_rows_schema(reduction: Reduction) -> str:
    whole = list_whole(reduction.column)
    names = [f"p{place} {'long' if each else 'string'}" for place, each in enumerate(whole)]
    names.append(f"v {'string' if reduction.kind == 'text' else 'long'}")
    names += ["g long"] if reduction.groups is not None else []
    ordered = reduction.people is not None and reduction.people.order is not None
    names += ["o0 long", "o1 double", "o2 string"] if ordered else []
    return ", ".join([*names, "ok boolean"])


def _choose_words(rng: WordSource | None) -> RunKey | SeededWords:
    """Say where all partitions find their words: the same ones if they are asked again."""
    return rng if isinstance(rng, SeededWords) else RunKey()


def _spread(cells: _Cells, size: int) -> Counts:
    """Return the cells of the tally itself."""
    counts = np.zeros(size, dtype=np.int64)
    own = [cell for cell in cells if cell >= 0]
    counts[own] = [cells[cell] for cell in own]
    return counts


def _count_invalid(cells: _Cells) -> dict[str, int]:
    return {why: cells[cell] for cell, why in _FAULTS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What a worker does with its partition; without a randomizer it only looks, or counts codes."""

    coder: Coder
    group: bool = False
    bits: int = 0
    """Bits of the word that rounds each real value before it is counted; 0: values go to the nearest point."""
    randomizer: Randomizer | None = None
    analyzer: Analyzer | None = None
    words: RunKey | SeededWords | None = None
    starts: dict[int, int] = field(default_factory=dict)
    """With a seed: the number of each partition's first row."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield _send(self._count_cells(batches))
        except PositionError as error:
            yield _fail(f"{tell_value(error.value)} {error.complaint}")
        except ShuffledpError as error:
            yield _fail(str(error))

    def _count_cells(self, batches: Iterator[Any]) -> _Cells:
        keep_freed_memory()
        cells = dict.fromkeys((_USERS, _READ, *_FAULTS), 0)
        source = self._open_source()
        counts: Any = 0
        for batch in batches:
            some = self.coder.codes(batch.column(0))
            counts = counts + self._count(some, source)
            cells[_USERS] += some.users
            cells[_READ] += len(some.codes)
            invalid = some.invalid()
            for cell, why in _FAULTS.items():
                cells[cell] += invalid[why]
        return cells | _make_cells(np.atleast_1d(counts)) if cells[_USERS] else cells

    def _open_source(self) -> WordSource | None:
        """Return the words of this partition, from its first row on."""
        if isinstance(self.words, RunKey):
            return self.words.words(f"partition {_find_partition()}")
        if self.words is None:
            return None
        width, bits = 1, self.bits
        if self.randomizer is not None:
            width, bits = tape_width(self.randomizer), self.randomizer.word_bits
        return Tapes(self.words, width=width, bits=bits).at(self.starts.get(_find_partition(), 0))

    def _count(self, some: Coded, source: WordSource | None) -> Any:
        if self.group:
            codes = self.coder.round(some.codes, source, self.bits or PLACE_BITS)
            return np.bincount(codes[some.valid], minlength=self.coder.domain.size)
        if self.randomizer is None or self.analyzer is None or source is None:
            return 0
        part = tally_codes(self.randomizer, self.analyzer, some.codes, source, some.kept)
        return 0 if part is None else part.counts


def _make_cells(counts: Any) -> _Cells:
    """Return the cells that are not 0, and the last one, which tells how many there are."""
    chosen = {*np.flatnonzero(counts).tolist(), len(counts) - 1}
    return {cell: int(counts[cell]) for cell in sorted(chosen)}


def _send(cells: _Cells) -> Any:
    """Send cells as rows. Spark's sums must not overflow, ours may (modulo 2^64): so in halves of 32 bits."""
    import pyarrow as pa

    counts = np.array(list(cells.values()), dtype=np.int64)
    low, high = counts & 0xFFFFFFFF, counts >> 32
    names = ["cell", "low", "high", "error"]
    nothing = pa.nulls(len(cells), pa.string())
    return pa.record_batch([pa.array(list(cells), pa.int64()), low, high, nothing], names=names)


def _fail(message: str) -> Any:
    import pyarrow as pa

    zero = pa.array([0], pa.int64())
    columns = [pa.array([_USERS], pa.int64()), zero, zero, pa.array([message])]
    return pa.record_batch(columns, names=["cell", "low", "high", "error"])


def _find_partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _collect(spark: "SparkSession", job: Job, column: Column, work: _Work) -> list[Any]:
    import pyspark.sql.functions as sql

    frame = _make_frame(spark, column)
    if isinstance(work.words, SeededWords):
        work = replace(work, starts=_find_starts(frame))
    cells = _map(frame, work.__call__, _CELLS).groupBy("cell")
    total = cells.agg(sql.sum("low"), sql.sum("high"), sql.min("error"))
    return _watch(job, spark, total.collect)


@contextmanager
def _explain_errors(column: Column) -> Iterator[None]:
    """Turn what Spark complains about into one sentence; its own are pages, and quote the data."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        kind = condition or type(error).__name__
        match = _SAID.search(str(error))
        if match is not None:
            raise DataError(f"column {column.name!r}: {match.group(1)}") from None
        _explain_workers(str(error))
        named = column.files[0].path + (" and others" if len(column.files) > 1 else "")
        raise DataError(f"Spark cannot read {column.name!r} of {named}: {kind}") from error


_TROUBLES = (
    (
        r"No module named '([\w.]+)'",
        "Spark's Python workers have no {}: install shuffledp[spark] wherever they run",
    ),
    (
        r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
        "Spark's workers run another version of Python than this process: set PYSPARK_PYTHON",
    ),
    (
        r"Cannot run program",
        "Spark's workers cannot start Python: set PYSPARK_PYTHON to an interpreter that all of them have",
    ),
    (
        r"java\.lang\.OutOfMemoryError",
        "Spark ran out of memory: raise spark.driver.memory and spark.executor.memory",
    ),
)


def _explain_workers(said: str) -> None:
    """Raise the error that names what a cluster lacks, if that is the trouble and not the data."""
    for pattern, meaning in _TROUBLES:
        match = re.search(pattern, said)
        if match:
            raise UnsupportedError(meaning.format(*match.groups()))


def _map(
    frame: "DataFrame", work: Callable[[Iterator[Any]], Iterator[Any]], schema: str
) -> "DataFrame":
    with warnings.catch_warnings():
        # PySpark looks at the version of pandas here, and then uses nothing of it.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        return frame.mapInArrow(work, schema)


def _wrap(value: int) -> int:
    """Return the 64-bit integer that is congruent."""
    return (value + 2**63) % 2**64 - 2**63


def _find_starts(frame: "DataFrame") -> dict[int, int]:
    """Say where each partition starts, by counting the rows of all of them first."""
    sizes = dict(map(tuple, _map(frame, _count_rows, _PLACES).collect()))
    starts, row = {}, 0
    for place in sorted(sizes):
        starts[place] = row
        row += sizes[place]
    return starts


def _count_rows(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    rows = sum(batch.num_rows for batch in batches)
    places = pa.array([_find_partition()], pa.int64())
    yield pa.record_batch([places, pa.array([rows], pa.int64())], names=["place", "rows"])


def _watch(job: Job, spark: "SparkSession", action: Callable[[], list[Any]]) -> list[Any]:
    """Run an action, report how many of its tasks are done, and cancel it if we are interrupted."""
    context, group = spark.sparkContext, f"shuffledp {uuid4()}"
    total, done = job.column.rows_guess or 0, 0.0

    def act() -> list[Any]:
        context.setJobGroup(group, "shuffledp")  # belongs to the thread that runs the action
        return action()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(act)
        try:
            while not wait((running,), _POLL_SECONDS).done:
                done = max(done, _measure_progress(context, group))
                job.show(round(total * done))
        except BaseException:
            context.cancelJobGroup(group)
            raise
    job.show(total)
    return running.result()


def _measure_progress(context: "SparkContext", group: str) -> float:
    """Return the part of its tasks that the largest stage of a group of jobs has finished."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for each in jobs if each for stage in each.stageIds]
    sizes = [(stage.numTasks, stage.numCompletedTasks) for stage in stages if stage]
    tasks, finished = max(sizes, default=(0, 0))
    return finished / tasks if tasks else 0.0


def session(master: str | None = None) -> "SparkSession":
    """Return the session that is there already, or a new one; workers run this very interpreter."""
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            "the Spark engine needs PySpark: install shuffledp[spark]"
        ) from error

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("shuffledp").master(master or MASTER)
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    try:
        started = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise UnsupportedError(
            f"Spark does not start ({error.getCondition()}): it needs Java 17 or later, "
            "as `java` or in JAVA_HOME"
        ) from error
    if master is not None and started.sparkContext.master != master:
        running = started.sparkContext.master
        raise ParameterError("master", master, f"must be {running!r}: that one is running already")
    return started


_SETTINGS = {
    "spark.io.encryption.enabled": "true",  # what a shuffle writes to disk: exact counts
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(_ROWS),
}


_Together: TypeAlias = Sequence[Sequence[DataFile]]
"""Files that Spark reads in one scan, and in an order of its own."""


def _separate_files(files: Sequence[DataFile], _names: Sequence[str]) -> _Together:
    """Read them one after the other: rows keep their places."""
    return [[file] for file in files]


def _join_files(files: Sequence[DataFile], names: Sequence[str]) -> _Together:
    """Read what is alike at once, for groups, to which order means nothing: a plan of many scans takes seconds."""
    alike: dict[object, list[DataFile]] = {}
    times: Counter[str] = Counter()
    for file in files:
        times[file.path] += 1  # a file that is named twice has its rows twice, but not in one scan
        schema = _write_schema(file, [*names]) if file.format is Format.PARQUET else None
        values = tuple((name, value) for name, value in file.partition if name in names)
        key = (file.path, schema) if schema is None else (schema, values)
        alike.setdefault((*key, times[file.path]), []).append(file)
    return [*alike.values()]


def _make_frame(
    spark: "SparkSession",
    column: Column,
    *also: str,
    read: Callable[[Sequence[DataFile], Sequence[str]], _Together] = _separate_files,
) -> "DataFrame":
    """Return the column (and others), file after file, under names of our own: PySpark cannot handle dots in names."""
    import pyspark.sql.functions as sql

    if column.moments is not None:
        raise UnsupportedError("Spark does not read dates as numbers: use another engine")
    if not all(file.spelling.plain for file in column.files):
        raise UnsupportedError(
            "Spark reads no decimal commas, units or other dates than 2024-12-31: use another engine"
        )
    where = column.where
    names = [*dict.fromkeys((column.name, *also, *(() if where is None else where.columns)))]

    def value(file: DataFile, name: str) -> Any:
        if file.columns and name not in file.columns:  # its folders tell it
            return sql.lit(dict(file.partition)[name]).cast("string")
        return sql.col(_quote(name))

    def select(files: Sequence[DataFile]) -> "DataFrame":
        first, places = files[0], ("value", *(f"filter{place}" for place in range(1, len(names))))
        chosen = [
            value(first, name).alias(place) for name, place in zip(names, places, strict=True)
        ]
        return _read(spark, files, names).select(*chosen)

    parts = map(select, read(column.files, names))
    frame = reduce(lambda some, more: some.union(more), parts)
    if where is None:
        return frame
    kind = frame.schema[0].dataType.simpleString()
    return _map(frame, _Sieve(where, tuple(names)).__call__, f"value {kind}")


@dataclass(frozen=True, slots=True)
class _Sieve:
    """Lets a worker take the rows that match a filter."""

    where: Filter
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            columns = dict(zip(self.names, batch.columns, strict=True))
            kept = np.flatnonzero(self.where.choose(columns.__getitem__))
            yield batch.select([0]).take(kept)


def _read(spark: "SparkSession", files: Sequence[DataFile], names: list[str]) -> "DataFrame":
    file, path = files[0], _write_uri(files[0])
    if file.format is Format.PARQUET:
        schema = _write_schema(file, names)
        reader = spark.read.schema(schema) if schema else spark.read
        return reader.parquet(*map(_write_uri, files))
    if file.format is Format.JSONL:
        reader = spark.read.schema(_declare_texts(names))
        return reader.json(path, mode="FAILFAST", multiLine=not file.by_line)
    if file.format is Format.LINES:
        return spark.read.text(path).toDF(LINE)
    if file.format is not Format.CSV:
        raise UnsupportedError(f"Spark does not read {file.path}: use Parquet, CSV or JSON lines")
    reader = spark.read.options(
        header=True, sep=file.delimiter, quote='"', escape='"', multiLine=True, mode="FAILFAST"
    )
    if not file.columns:
        return reader.csv(path)
    return reader.schema(_declare_texts(file.columns)).csv(path)


def _declare_texts(names: Sequence[str]) -> "StructType":
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in names])


_SPARK_TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
}
"""Spark's names of Arrow's types, where the two agree; Spark works out the rest for itself."""


def _write_schema(file: DataFile, names: list[str]) -> str | None:
    """Return columns and types of a Parquet file, if we know: to find them out, Spark would run a job of its own."""
    here = [name for name in names if name in file.columns]
    types = [_SPARK_TYPES.get(file.type_of(name)) for name in here]
    if not here or None in types:
        return None
    return ", ".join(f"{_quote(name)} {kind}" for name, kind in zip(here, types, strict=True))


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


_HIDDEN = re.compile(r"^\.|^_(?!.*=)|\._COPYING_$")
"""Names of files that Spark takes for unfinished, and leaves out without a word."""


def _write_uri(file: DataFile) -> str:
    if file.remote:
        return file.path
    place = Path(file.where).resolve()
    if _HIDDEN.search(place.name):
        raise DataError(
            f"Spark reads nothing from {file.path}, because of its name: rename it, or use another engine"
        )
    # Patterns were resolved before, and the cluster's default may be another file system.
    return "file:" + re.sub(r"([*?{}\[\]\\])", r"\\\1", str(place))
