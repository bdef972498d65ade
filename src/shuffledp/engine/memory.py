"""The in-memory engine: a column in memory, a tape that is drawn and forgotten chunk by chunk."""

from typing import Any

from numpy.typing import ArrayLike, NDArray

from shuffledp.core.analyzer import Tally
from shuffledp.core.domain import column
from shuffledp.core.errors import DataError, PositionError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Randomizer, WordSource, randomize
from shuffledp.core.shuffler import forget
from shuffledp.numerics.entropy import SecureWords

__all__ = ["run", "tally"]

_CHUNK_BYTES = 1 << 20  # a chunk of tape, its messages and temporaries stay in the CPU's cache
_FEW_USERS = 2048


def tally(protocol: ShuffleProtocol, values: ArrayLike, rng: WordSource) -> Tally:
    """Randomize and tally a column, without ever holding more than a chunk of tape.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> tally(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).counts
    array([1, 2, 3])
    """
    whole = column(values)
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


def _users_per_chunk(randomizer: Randomizer) -> int:
    user_bytes = -(-randomizer.word_bits // 8) * randomizer.words_per_input
    fitting = _CHUNK_BYTES // user_bytes
    # Long tapes: a few hundred users are too few to be worth a NumPy call, so spend some memory.
    return max(1, fitting, min(_FEW_USERS, 8 * _CHUNK_BYTES // user_bytes))


def run(protocol: ShuffleProtocol, values: ArrayLike, rng: WordSource | None = None) -> Estimate:
    """Randomize, shuffle, tally and estimate a column; secure words unless a source is given.

    Refuses fewer values than the guarantee counts honest users: their noise would not suffice.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> run(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).value.round(2)
    array([0.98, 2.  , 3.02])
    """
    source = SecureWords() if rng is None else rng
    whole = column(values)
    needed = protocol.guarantee.honest
    if len(whole) < needed:
        raise DataError(
            f"{len(whole)} values, but the guarantee of {protocol.name} needs the noise of at least "
            f"{needed} users: make the protocol for the number of users there are"
        )
    return protocol.analyzer.estimate(tally(protocol, whole, source))
