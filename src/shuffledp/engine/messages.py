"""Files of the messages that devices would send, shuffled and without owners; and their tallies.

The file is Parquet or Arrow with one column `message`, and says in its metadata which protocol with
which parameters the messages belong to and how many users sent them; so the analyzer's half needs
nothing else.

**Why the order is uniform.** Every message goes to one of B files, chosen by a secure word of its own;
then each file, which is small enough, is permuted in memory, and they are handed out one after the
other. A list in the order of independent pairs (file, key) is in a uniformly random order, and that
is what comes out.

While it works, spooled messages lie in a private folder beside the output, in the order of the rows:
they are no more than locally private. The folder is removed at the end, whatever happens (short of a
power failure), but let nobody else read the disk.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from operator import add
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import keep_freed_memory
from shuffledp.core.domain import Categories, Domain
from shuffledp.core.errors import DataError, MismatchError, ParameterError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import (
    Messages,
    Randomizer,
    Shuffled,
    WordSource,
    shuffle,
    tape_width,
)
from shuffledp.engine.chunks import (
    Headcount,
    Job,
    Report,
    Tapes,
    add_invalid,
    encode_codes,
    work_on_chunks,
)
from shuffledp.engine.codes import FILTERED, LEFT_OUT, SEEDED, Coded, Coder, OnInvalid
from shuffledp.engine.columns import Column, open_column
from shuffledp.engine.formats import (
    DataFile,
    Format,
    Paths,
    explain_unreadable,
    find_files,
    open_arrow,
)
from shuffledp.engine.output import explain_unwritable, stage
from shuffledp.engine.tallies import (
    Collected,
    Form,
    describe,
    read_not_private,
    restore,
)
from shuffledp.numerics.entropy import SecureWords, SeededWords
from shuffledp.protocols.bundle import BundleAnalyzer
from shuffledp.protocols.one_question import OneQuestionAnalyzer

_COLUMN = "message"
_KEY = b"shuffledp"
_KIND = "shuffledp messages"
_PIECE_BYTES = 1 << 24
_UNKNOWN_ROWS = 10**8
_BUCKET_MESSAGES = 1 << 22  # each needs a key and a place, 16 bytes
_BUCKET_BYTES = 1 << 26
_MOST_BITS = 9  # that many open files are allowed everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomized:
    """What was written: how many users sent how many messages."""

    path: Path
    n: int
    messages: int
    rows: int
    invalid: dict[str, int]


def randomize_file(
    protocol: ShuffleProtocol,
    column: Column,
    out: str | Path,
    *,
    domain: Domain | None = None,
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
    rng: WordSource | None = None,
    threads: int | None = None,
    report: Report | None = None,
    found: Headcount | None = None,
    form: Form | None = None,
    not_private: Sequence[str] = (),
) -> Randomized:
    """Write the messages of everybody in the column, shuffled and without owners, to a new file.

    A seed reproduces the messages, but never their order: it always comes from secure words. `found`
    is what `headcount` said about this column: codes that it kept are not read again. `form` says what was
    asked, if it was a question by group. The file says what no noise protects: a seed, a filter, values that were
    left out, and what else is `not_private`.

    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> with TemporaryDirectory() as folder:
    ...     pets = Path(folder, "pets.csv")
    ...     _ = pets.write_text("pet\\n0\\n1\\n1\\n2\\n2\\n2\\n")
    ...     sent = randomize_file(p, open_column(pets), f"{folder}/sent.parquet", rng=SeededWords(3))
    ...     collected = tally_file(sent.path)
    >>> collected.tally.counts, collected.protocol == p
    (array([1, 2, 3]), True)
    """
    declared = protocol.match_domain(domain)
    if column.rows is not None:
        protocol.check_users(column.rows)
    coder = Coder(domain=declared, on_invalid=OnInvalid.read(on_invalid))
    job = Job.of(column, coder, report, found)
    labels = declared.names if form is None and isinstance(declared, Categories) else None
    parts = [_Part(job, protocol, lambda payload: payload)]
    exposed = _expose(not_private, rng, column, coder.on_invalid)
    return _send(protocol, parts, out, describe(protocol, labels, form, exposed), rng, threads)


def _expose(
    not_private: Sequence[str], rng: WordSource | None, column: Column, policy: OnInvalid
) -> tuple[str, ...]:
    where = column.where
    filtered = where is not None and not where.public and not where.private
    own = {
        SEEDED: isinstance(rng, SeededWords),
        FILTERED: filtered,
        LEFT_OUT: policy.drops and not column.reduced,
    }
    return tuple(dict.fromkeys([*(said for said, true in own.items() if true), *not_private]))


def randomize_bundle(
    protocol: ShuffleProtocol,
    jobs: Iterable[Job],
    out: str | Path,
    *,
    form: Form,
    rng: WordSource | None = None,
    threads: int | None = None,
    not_private: Sequence[str] = (),
) -> Randomized:
    """Return the same for a bundle: the messages of all parts, each with the number of its part, in one order.

    A job for each part says what its column means. Parts take their words one after the other: they are independent.
    """
    analyzer = protocol.analyzer
    assert isinstance(analyzer, BundleAnalyzer | OneQuestionAnalyzer)
    parts = (
        _Part(job, part, partial(analyzer.tag, number))
        for number, (job, part) in enumerate(zip(jobs, analyzer.parts, strict=True))
    )
    return _send(protocol, parts, out, describe(protocol, None, form, not_private), rng, threads)


class _Part(NamedTuple):
    job: Job
    protocol: ShuffleProtocol
    tag: Callable[[NDArray[Any]], NDArray[Any]]
    """What a message says about the part that it belongs to."""


def _send(
    protocol: ShuffleProtocol,
    parts: Iterable[_Part],
    out: str | Path,
    about: Mapping[str, Any],
    rng: WordSource | None,
    threads: int | None,
) -> Randomized:
    """Write the messages of all parts, in a random order."""
    kind, target = _check_format(str(out)), Path(out)
    with stage([target]) as outputs, ExitStack() as stack:
        place = outputs[target]
        stack.enter_context(explain_unwritable(target))
        sent = _spool(parts, protocol, rng, threads, place.parent, stack)
        protocol.check_users(sent.users * protocol.values)
        numbers = {"users": sent.users, "messages": sent.spool.messages}
        _write(
            sent.spool.read_shuffled(sent.users), place, kind, {"kind": _KIND, **about, **numbers}
        )
        outputs.publish()
    return Randomized(
        path=target,
        n=sent.users,
        messages=sent.spool.messages,
        rows=sent.rows,
        invalid=sent.invalid,
    )


def _check_format(path: str) -> Format:
    kind = Format.of(path)
    if kind not in (Format.PARQUET, Format.ARROW):
        raise ParameterError(
            "out", path, "must end in .parquet or .arrow: text carries no protocol"
        )
    return kind


class _Sent(NamedTuple):
    spool: "Spool"
    users: int
    rows: int
    invalid: dict[str, int]


def _spool(
    parts: Iterable[_Part],
    protocol: ShuffleProtocol,
    rng: WordSource | None,
    threads: int | None,
    work: Path,
    stack: ExitStack,
) -> _Sent:
    keep_freed_memory()
    spool: Spool | None = None
    passes, people = [], []
    for part in parts:
        tapes = Tapes.of(part.protocol.randomizer, rng)
        with work_on_chunks(partial(_encode, part, tapes), part.job, threads) as chunks:
            for payload in chain.from_iterable(chunks):
                if spool is None:
                    bits = _count_buckets(part.job.column, protocol, payload)
                    spool = stack.enter_context(Spool(work, bits, SecureWords()))
                spool.put(payload)
        tapes.finish(chunks.rows)
        chunks.require_people()
        passes.append(chunks)
        people.append(part.protocol.count_people(chunks.n))
    assert spool is not None
    rows = [each.rows for each in passes]
    invalid = add_invalid(each.invalid for each in passes)
    if isinstance(protocol.analyzer, OneQuestionAnalyzer):  # everybody is in one part
        return _Sent(spool, sum(people), sum(rows), invalid)
    if len(set(people)) > 1:
        numbers = " and ".join(f"{each:,}" for each in sorted(set(people)))
        raise DataError(f"everybody answers every question, but there are {numbers} answers")
    return _Sent(spool, people.pop(), max(rows), invalid)


def _encode(part: _Part, tapes: Tapes, row: int, some: Coded) -> list[NDArray[Any]]:
    """Return the messages of a chunk of one part."""
    return [
        part.tag(each) for each in _encode_pieces(part.protocol.randomizer, some, tapes.at(row))
    ]


def _count_buckets(column: Column, protocol: ShuffleProtocol, payload: NDArray[Any]) -> int:
    rows = _UNKNOWN_ROWS if column.rows_guess is None else column.rows_guess
    width = payload.dtype.itemsize * math.prod(payload.shape[1:])
    return bucket_bits(rows * protocol.cost.messages_mean, width)


def _encode_pieces(randomizer: Randomizer, some: Coded, rng: WordSource) -> list[NDArray[Any]]:
    """Return the messages of a piece, a chunk of tape at a time."""
    bytes_each = -(-randomizer.word_bits // 8) * tape_width(randomizer)
    step = max(1, _PIECE_BYTES // bytes_each)
    payloads = []
    for start in range(0, len(some.codes), step):
        kept = None if some.kept is None else some.kept[start : start + step]
        messages = encode_codes(randomizer, some.codes[start : start + step], rng, kept)
        if messages is not None:
            payloads.append(messages.payload)
    return payloads


def _write(parts: Iterator[Shuffled], path: Path, kind: Format, about: dict[str, Any]) -> None:
    import pyarrow as pa

    with ExitStack() as stack:
        writer: Any = None
        for part in parts:
            array = _as_arrow(part.payload)
            if writer is None:
                schema = pa.schema([pa.field(_COLUMN, array.type, nullable=False)])
                schema = schema.with_metadata({_KEY: json.dumps(about).encode()})
                writer = stack.enter_context(_open_writer(path, schema, kind))
            writer.write_batch(pa.record_batch([array], schema=schema))


def _open_writer(path: Path, schema: Any, kind: Format) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind is Format.ARROW:
        return pa.ipc.new_file(str(path), schema)
    return pq.ParquetWriter(str(path), schema, compression="zstd")


def _as_arrow(payload: NDArray[Any]) -> Any:
    import pyarrow as pa

    if payload.ndim == 1:
        return pa.array(payload)
    return pa.FixedSizeListArray.from_arrays(pa.array(payload.ravel()), payload.shape[1])


def _as_numpy(array: Any) -> NDArray[Any]:
    import pyarrow as pa

    if not pa.types.is_fixed_size_list(array.type):
        numbers: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return numbers
    flat: NDArray[Any] = array.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(array), array.type.list_size)


def tally_file(paths: Paths) -> Collected:
    """Tally files of messages, which must belong to the same protocol; see `randomize_file`."""
    for file in find_files(paths):
        if not file.remote and not file.has(_COLUMN):
            raise DataError(
                f"{file.path} has no messages of shuffledp in it: `randomize` writes them"
            )
    first, *others = map(_tally, open_column(paths, _COLUMN).files)
    return reduce(add, others, first)


def _tally(file: DataFile) -> Collected:
    path = file.path
    _check_format(path)
    with explain_unreadable(path), _open(file) as (schema, batches):
        about, arrays = _read_about(schema.metadata, path), _list_columns(schema, batches)
        protocol, labels, form = restore(about, path)
        try:
            tally, seen = _tally_pieces(protocol, map(_as_numpy, arrays), about["users"])
        except (DataError, MismatchError) as error:
            raise DataError(f"{path}: {error}") from error
    wanted = about["messages"]
    if seen != wanted:
        raise DataError(f"{path} is damaged: it has {seen} messages and should have {wanted}")
    exposed = read_not_private(about, path)
    return Collected(protocol=protocol, tally=tally, labels=labels, form=form, not_private=exposed)


def _tally_pieces(
    protocol: ShuffleProtocol, pieces: Iterator[NDArray[Any]], users: int
) -> tuple[Tally, int]:
    """Return the tally of all pieces, the first of them empty, and the number of their messages."""
    analyzer = protocol.analyzer
    several = analyzer if isinstance(analyzer, BundleAnalyzer | OneQuestionAnalyzer) else None
    # Of one random question, the messages say how many people have answered it.
    known = None if isinstance(analyzer, OneQuestionAnalyzer) else users
    parts = [
        _Tallying(part, None if known is None else known * part.values)
        for part in (several.parts if several else (protocol,))
    ]
    seen = 0
    for piece in pieces:
        seen += len(piece)
        for part, payload in zip(parts, several.sort(piece) if several else (piece,), strict=True):
            part.add(payload)
    tallies = [part.finish() for part in parts]
    if several:
        return several.join(tallies), seen
    return replace(tallies[0], users=protocol.count_people(tallies[0].users)), seen


class _Tallying:
    """The tally of one protocol, piece by piece; the first piece is empty, and shows the type of the messages.

    Where everybody sends as many messages, some of them stand for some of the users: pieces are cut so that this number
    is whole. Elsewhere the first piece stands for all users.
    """

    def __init__(self, protocol: ShuffleProtocol, users: int | None) -> None:
        cost = protocol.randomizer.cost  # of one value
        self._each = cost.messages_max if cost.messages_mean == cost.messages_max else 0
        self._analyzer, self._users, self._seen = protocol.analyzer, users, 0
        self._rest: NDArray[Any] | None = None
        self._total: Tally | None = None

    def add(self, payload: NDArray[Any]) -> None:
        """Count these messages; a few of them wait for the next ones."""
        whole = payload if self._rest is None else np.concatenate([self._rest, payload])
        end = len(whole) - (len(whole) % self._each if self._each else 0)
        self._rest = whole[end:]
        if end or self._total is None:
            self._count(whole[:end])

    def _count(self, payload: NDArray[Any]) -> None:
        first = self._total is None
        standing = len(payload) // self._each if self._each else (self._users or 0) * first
        part = self._analyzer.tally(Shuffled(payload=payload, users=standing))
        self._total = part if self._total is None else self._total + part
        self._seen += len(payload)

    def finish(self) -> Tally:
        """Return the tally of all of them; refuses a number of messages that these users cannot have sent."""
        assert self._total is not None
        seen = self._seen + (0 if self._rest is None else len(self._rest))
        wanted = seen if self._users is None else self._users * self._each
        if self._each and seen != wanted:
            raise DataError(f"it is damaged: it has {seen} messages and should have {wanted}")
        return self._total


def _read_about(metadata: dict[bytes, bytes] | None, path: str) -> dict[str, Any]:
    try:
        about = json.loads((metadata or {})[_KEY])
    except (KeyError, ValueError):
        about = None
    if not isinstance(about, dict) or about.get("kind") != _KIND:
        raise DataError(f"{path} has no messages of shuffledp in it: `randomize` writes them")
    for name in ("users", "messages"):
        if not isinstance(about.get(name), int) or about[name] < 0:
            raise DataError(f"{path} does not say how many {name} there are")
    return about


@contextmanager
def _open(file: DataFile) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Open a file of messages: its schema and its batches."""
    import pyarrow.parquet as pq

    if file.format is Format.ARROW:
        with open_arrow(file) as stream:
            yield stream
        return
    with pq.ParquetFile(file.where) as opened:
        schema = opened.schema_arrow
        yield schema, opened.iter_batches(_count_rows(schema), columns=[_COLUMN])


def _list_columns(schema: Any, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the messages of each batch, after an empty array that shows their type."""
    import pyarrow as pa

    yield pa.array([], type=schema.field(_COLUMN).type)
    for batch in batches:
        yield batch.column(_COLUMN)


def _count_rows(schema: Any) -> int:
    import pyarrow as pa

    kind = schema.field(_COLUMN).type
    width = kind.list_size if pa.types.is_fixed_size_list(kind) else 1
    return max(1, _PIECE_BYTES // (8 * max(1, width)))


def bucket_bits(messages: float, message_bytes: int) -> int:
    """Return the number of files for about this many messages, as the exponent of a power of two.

    >>> bucket_bits(1e6, 8), bucket_bits(1e9, 8)
    (0, 8)
    """
    wanted = max(messages / _BUCKET_MESSAGES, messages * message_bytes / _BUCKET_BYTES)
    bits = 0
    while bits < _MOST_BITS and (1 << bits) < wanted:
        bits += 1
    return bits


class Spool:
    """2^bits files in a folder; the word of each message says in which one it goes.

    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import SecureWords
    >>> with TemporaryDirectory() as folder, Spool(Path(folder), 2, SecureWords()) as spool:
    ...     spool.put(np.arange(5))
    ...     shuffled = list(spool.read_shuffled(users=5))
    >>> sorted(np.concatenate([part.payload for part in shuffled]).tolist())
    [0, 1, 2, 3, 4]
    """

    __slots__ = ("_bits", "_files", "_like", "_rng", "_stack", "messages")

    def __init__(self, folder: Path, bits: int, rng: WordSource) -> None:
        self._bits = bits
        self._rng = rng
        self._stack = ExitStack()
        self._files: list[BinaryIO] = [
            self._stack.enter_context((folder / f"{number}.spool").open("w+b"))
            for number in range(1 << bits)
        ]
        self._like: NDArray[Any] | None = None
        self.messages = 0

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def put(self, payload: NDArray[Any]) -> None:
        """Add messages."""
        if self._like is None:
            self._like = payload[:0].copy()
        if (payload.dtype, payload.shape[1:]) != (self._like.dtype, self._like.shape[1:]):
            raise MismatchError("messages of one protocol have one type and width")
        self.messages += len(payload)
        for number, part in enumerate(self._split(payload)):
            self._files[number].write(np.ascontiguousarray(part).tobytes())

    def _split(self, payload: NDArray[Any]) -> list[NDArray[Any]]:
        if self._bits == 0:
            return [payload]
        chosen = self._rng.words(len(payload), self._bits).astype(np.uint16)
        order = np.argsort(chosen, kind="stable")
        ends = np.cumsum(np.bincount(chosen, minlength=len(self._files)))[:-1]
        return np.split(payload[order], ends)

    def read_shuffled(self, users: int) -> Iterator[Shuffled]:
        """Read all messages in a uniformly random order, one file after the other."""
        like = self._like
        if like is None:
            return
        for file in self._files:
            file.seek(0)
            flat = np.frombuffer(file.read(), dtype=like.dtype)
            payload = flat.reshape(-1, *like.shape[1:])
            whose = np.zeros(len(payload), dtype=np.uint8)  # nobody knows any more
            yield shuffle(Messages(payload=payload, owner=whose, users=users), self._rng)
