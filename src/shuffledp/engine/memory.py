"""The in-memory engine: a column in memory, a tape that is drawn and forgotten chunk by chunk."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.analyzer import Analyzer, Tally
from shuffledp.core.arrays import Bools, Codes
from shuffledp.core.domain import Domain, column
from shuffledp.core.errors import DataError, ParameterError, PositionError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Messages, Randomizer, WordSource, randomize
from shuffledp.core.shuffler import forget
from shuffledp.engine.coding import Coded
from shuffledp.engine.job import Counted, Headcount, Job, added
from shuffledp.engine.pieces import coded, count_users, watched
from shuffledp.engine.tapes import Tapes
from shuffledp.numerics.entropy import SecureWords

__all__ = ["Memory", "encoded", "enough", "keep_freed_memory", "run", "tally", "tally_codes"]

_CHUNK_BYTES = 1 << 20  # a chunk of tape, its messages and temporaries stay in the CPU's cache
_FEW_USERS = 2048
_KEPT_BYTES = 31 << 20


def tally(protocol: ShuffleProtocol, values: ArrayLike, rng: WordSource) -> Tally:
    """Randomize and tally a column, without ever holding more than a chunk of tape.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> tally(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).counts
    array([1, 2, 3])
    """
    whole = column(values)
    keep_freed_memory()
    step = _users_per_chunk(protocol.randomizer)
    total = _part(protocol, whole, 0, step, rng)
    for start in range(step, len(whole), step):
        total += _part(protocol, whole, start, step, rng)
    return total


def _part(
    protocol: ShuffleProtocol, whole: NDArray[Any], start: int, step: int, rng: WordSource
) -> Tally:
    try:
        messages = randomize(protocol.randomizer, whole[start : start + step], rng)
    except PositionError as error:
        raise error.moved(start) from None
    return protocol.analyzer.tally(forget(messages))


def tally_codes(
    randomizer: Randomizer,
    analyzer: Analyzer,
    codes: Codes,
    rng: WordSource,
    kept: Bools | None = None,
) -> Tally | None:
    """Like `tally` for values that are codes already; None if nobody is kept.

    Words are drawn for everybody, so dropping a person does not move the words of the others.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> codes = np.array([0, 1, 1, 2, 2, 2])
    >>> tally_codes(p.randomizer, p.analyzer, codes, SeededWords(3)).counts
    array([1, 2, 3])
    """
    step = _users_per_chunk(randomizer)
    total: Tally | None = None
    for start in range(0, len(codes), step):
        chosen = None if kept is None else kept[start : start + step]
        messages = encoded(randomizer, codes[start : start + step], rng, chosen)
        if messages is None:
            continue
        part = analyzer.tally(forget(messages))
        total = part if total is None else total + part
    return total


def encoded(
    randomizer: Randomizer, codes: Codes, rng: WordSource, kept: Bools | None = None
) -> Messages | None:
    """What the kept people (None: all) with these codes send; None if there are none.

    >>> from shuffledp import SeededWords, protocols
    >>> krr = protocols.krr.KRR(k=4, epsilon0=3.0)
    >>> encoded(krr, np.array([0, 1]), SeededWords(7), np.array([False, True])).payload
    array([1])
    """
    width = randomizer.words_per_input
    words = rng.words(len(codes) * width, randomizer.word_bits).reshape(len(codes), width)
    if kept is not None:
        codes, words = codes[kept], words[kept]
    return randomizer.encode(codes, words) if len(codes) else None


def _users_per_chunk(randomizer: Randomizer) -> int:
    user_bytes = -(-randomizer.word_bits // 8) * randomizer.words_per_input
    fitting = _CHUNK_BYTES // user_bytes
    # Long tapes: a few hundred users are too few to be worth a NumPy call, so spend some memory.
    return max(1, fitting, min(_FEW_USERS, 8 * _CHUNK_BYTES // user_bytes))


def keep_freed_memory() -> None:
    """Let the allocator keep some megabytes between chunks instead of asking the system each time.

    Chunk after chunk allocates and frees the same few arrays. By default glibc hands each of them
    back to the system, which costs several times more than the arithmetic. It learns from what is
    freed: after one large array it keeps smaller ones. Elsewhere this does nothing.

    >>> keep_freed_memory()
    """
    np.empty(_KEPT_BYTES, dtype=np.uint8)  # never touched, so it takes no memory


def run(
    protocol: ShuffleProtocol,
    values: ArrayLike,
    rng: WordSource | None = None,
    *,
    domain: Domain | None = None,
) -> Estimate:
    """Randomize, shuffle, tally and estimate a column; secure words unless a source is given.

    The column may be a list, or one of NumPy, pandas, Polars or PyArrow. `domain` gives the names of
    the categories, if the column holds those and not their codes.

    Refuses fewer values than the guarantee counts honest users: their noise would not suffice.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> run(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).value.round(2)
    array([0.98, 2.  , 3.02])
    >>> from shuffledp import Categories
    >>> pets = Categories(k=3, names=("bird", "cat", "dog"))
    >>> run(p, ["bird", "cat", "cat", "dog"], domain=pets).labels
    ('bird', 'cat', 'dog')
    """
    # The first of these modules imports this one.
    from shuffledp.engine.files import domain_for
    from shuffledp.engine.tallies import labelled

    if not isinstance(protocol, ShuffleProtocol):
        raise ParameterError(
            "protocol", protocol, "must be a protocol, such as sdp.count(...) makes"
        )
    source = SecureWords() if rng is None else rng
    declared = domain_for(protocol, domain)
    whole = column(values) if domain is None else declared.codes(values)
    enough(protocol, len(whole))
    return labelled(protocol.analyzer.estimate(tally(protocol, whole, source)), declared)


def enough(protocol: ShuffleProtocol, n: int) -> None:
    """Refuse fewer users than the guarantee counts on.

    >>> from shuffledp import protocols
    >>> enough(protocols.zsum_sparse.make(n=1000, epsilon=1.0, delta=1e-6), 899)
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: 899 values, but the guarantee of zsum_sparse needs the noise of at least 900 users: make the protocol for the number of users there are
    """
    needed = protocol.guarantee.honest
    if n < needed:
        raise DataError(
            f"{n} values, but the guarantee of {protocol.name} needs the noise of at least "
            f"{needed} users: make the protocol for the number of users there are"
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """Reads the whole column first, then randomizes it on one thread."""

    def headcount(self, job: Job) -> Headcount:
        return count_users(job)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Counted:
        parts = [coded(job.coder, piece) for piece in watched(job)]
        tapes = Tapes(protocol.randomizer, rng)
        keep_freed_memory()
        codes = np.concatenate([part.codes for part in parts] or [np.empty(0, dtype=np.int64)])
        source, kept = tapes.at(0), _kept(parts)
        total = tally_codes(protocol.randomizer, protocol.analyzer, codes, source, kept)
        if total is None:
            raise DataError(f"column {job.column.name!r} has no valid value")
        tapes.finish(len(codes))
        invalid = added(part.invalid() for part in parts)
        return Counted(tally=total, rows=len(codes), invalid=invalid)


def _kept(parts: list[Coded]) -> Bools | None:
    if all(part.kept is None for part in parts):
        return None
    return np.concatenate(
        [
            np.ones(len(part.codes), dtype=np.bool_) if part.kept is None else part.kept
            for part in parts
        ]
    )
