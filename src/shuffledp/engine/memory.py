"""A column in memory: a tape that is drawn and forgotten chunk by chunk."""

import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.analyzer import Analyzer, Tally
from shuffledp.core.arrays import Bools, Codes
from shuffledp.core.domain import Domain, column
from shuffledp.core.errors import (
    DataError,
    MismatchError,
    ParameterError,
    PositionError,
    UnsupportedError,
)
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Messages, Randomizer, WordSource, randomize
from shuffledp.core.shuffler import forget
from shuffledp.numerics.draws import NumpyDraws, Simulated
from shuffledp.numerics.entropy import SecureWords, SeededWords

__all__ = [
    "Tapes",
    "encode_codes",
    "keep_freed_memory",
    "run",
    "run_counts",
    "simulate",
    "tally",
    "tally_codes",
]

_CHUNK_BYTES = 1 << 20  # a chunk of tape, its messages and temporaries stay in the CPU's cache
_FEW_USERS = 2048
_KEPT_BYTES = 31 << 20


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
    if not isinstance(protocol, ShuffleProtocol):
        raise ParameterError(
            "protocol", protocol, "must be a protocol, such as sdp.count(...) makes"
        )
    source = SecureWords() if rng is None else rng
    declared = protocol.match_domain(domain)
    whole = column(values) if domain is None else declared.codes(values)
    protocol.check_users(len(whole))
    return protocol.analyzer.estimate(tally(protocol, whole, source)).label(declared)


def run_counts(
    protocol: ShuffleProtocol, counts: ArrayLike, rng: WordSource | None = None
) -> Estimate:
    """Simulate the estimate for counts[x] people of code x, without their messages. NOT private.

    Messages of many users add up to numbers with a known law, so simulating a billion people takes
    milliseconds. For planning and papers: whoever runs it has seen the exact counts, and NumPy's
    samplers round, so the protocol's guarantee does not cover the result.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> run_counts(p, [10**8, 10**9, 10**7], SeededWords(3)).value.shape
    (3,)
    """
    inputs = np.asarray(counts)
    size = protocol.randomizer.domain.size
    if inputs.shape != (size,):
        raise MismatchError(f"counts of shape {inputs.shape} for a domain of {size} values")
    if inputs.dtype.kind not in "iu" or int(inputs.min()) < 0 or int(inputs.sum()) < 1:
        raise DataError("counts must be integers >= 0, and not all 0")
    return protocol.analyzer.estimate(simulate(protocol, inputs.astype(np.int64), rng))


def simulate(protocol: ShuffleProtocol, counts: NDArray[np.int64], rng: WordSource | None) -> Tally:
    """Draw the tally of counts[x] people of code x from its law."""
    if not isinstance(protocol.randomizer, Simulated):
        raise UnsupportedError(f"{protocol.name} has no simulation of its tally")
    return protocol.randomizer.simulate(counts, NumpyDraws(SecureWords() if rng is None else rng))


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
    total = _tally_part(protocol, whole, 0, step, rng)
    for start in range(step, len(whole), step):
        total += _tally_part(protocol, whole, start, step, rng)
    return total


def _tally_part(
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
        messages = encode_codes(randomizer, codes[start : start + step], rng, chosen)
        if messages is None:
            continue
        part = analyzer.tally(forget(messages))
        total = part if total is None else total + part
    return total


def encode_codes(
    randomizer: Randomizer, codes: Codes, rng: WordSource, kept: Bools | None = None
) -> Messages | None:
    """What the kept people (None: all) with these codes send; None if there are none.

    >>> from shuffledp import SeededWords, protocols
    >>> krr = protocols.krr.KRR(k=4, epsilon0=3.0)
    >>> encode_codes(krr, np.array([0, 1]), SeededWords(7), np.array([False, True])).payload
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


class Tapes:
    """Word sources for workers that each take some rows: user r reads the same words in every engine.

    Without a seed every worker has a secure source of its own. With one, row r reads the words
    r * words_per_input and following of the seed's stream, whatever the chunks and their order.

    >>> from shuffledp import protocols
    >>> rr = protocols.rr.make_local(epsilon=1.0).randomizer
    >>> Tapes(rr, SeededWords(7)).at(1).words(1)
    array([6715552757042428571], dtype=uint64)
    """

    __slots__ = ("_bits", "_local", "_rng", "_width")

    def __init__(self, randomizer: Randomizer, rng: WordSource | None) -> None:
        if rng is not None and not isinstance(rng, SecureWords | SeededWords):
            raise ParameterError("rng", rng, "must be SecureWords or SeededWords")
        self._width = randomizer.words_per_input
        self._bits = randomizer.word_bits
        self._rng = rng
        self._local = threading.local()

    def at(self, row: int) -> WordSource:
        """Where the user of that row (counted from 0) finds words."""
        if isinstance(self._rng, SeededWords):
            return self._rng.ahead(row * self._width, self._bits)
        if "source" not in self._local.__dict__:
            self._local.source = SecureWords()
        source: SecureWords = self._local.source
        return source

    def finish(self, rows: int) -> None:
        """Leave a seeded source where one reader of all these rows would have left it."""
        if isinstance(self._rng, SeededWords):
            self._rng.skip(rows * self._width, self._bits)
