"""Samples of what an attacker sees, as rows of numbers.

Every function of a view is a legitimate thing to look at, so whatever is lost on the way (messages
that share a bucket, rows that share a label) can only make a lower bound smaller, never wrong.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Messages, Randomizer, WordSource, randomize

__all__ = ["BlackBox", "Sampler", "check_neighbours", "rows_of", "sampler_of", "widened"]

BlackBox: TypeAlias = Callable[[Any, WordSource], Any]
"""function(data, rng): one outcome, a number, a `Tally`, a tuple or array of numbers, or anything hashable."""

Sampler: TypeAlias = Callable[[Any, int, WordSource], Floats]
"""sampler(data, count, rng): so many outcomes, one row each."""

_WORDS = 1 << 21  # of the tape, in one go
_MOST_BUCKETS = 1024
_ABSENT = -0.5


def sampler_of(source: BlackBox | Randomizer | ShuffleProtocol, view: str) -> Sampler:
    """How to draw outcomes of a black box, or of a view of a protocol or randomizer.

    >>> from shuffledp import SeededWords, protocols
    >>> draw = sampler_of(protocols.krr.KRR(k=3, epsilon0=5.0), "shuffled")
    >>> draw([0, 1, 1], 2, SeededWords(1))[:, :3]
    array([[1., 2., 0.],
           [1., 2., 0.]])
    """
    one = source.randomizer if isinstance(source, ShuffleProtocol) else source
    if not isinstance(one, Randomizer):
        if not callable(one):
            raise ParameterError("sampler", one, "must be a function, a randomizer or a protocol")
        return lambda data, count, rng: rows_of([one(data, rng) for _ in range(count)])
    if view not in ("local", "shuffled"):
        raise ParameterError("view", view, "must be 'local' or 'shuffled'")
    if view == "local":
        return lambda data, count, rng: _local(one, data, count, rng)
    return lambda data, count, rng: _shuffled(one, data, count, rng)


def check_neighbours(
    source: BlackBox | Randomizer | ShuffleProtocol, data: ArrayLike, neighbour: ArrayLike
) -> None:
    """Refuse data sets that are no neighbours: what tells them apart would refute no claim.

    Of a black box only its author knows what neighbours are.

    >>> from shuffledp import protocols
    >>> check_neighbours(protocols.krr.KRR(k=3, epsilon0=1.0), [0, 1], [2, 2])
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: data and neighbour differ in 2 people: neighbours have equally many, of whom at most one differs
    """
    one = source.randomizer if isinstance(source, ShuffleProtocol) else source
    if not isinstance(one, Randomizer):
        return
    here, there = (Counter(one.domain.codes(values).tolist()) for values in (data, neighbour))
    changed = max((here - there).total(), (there - here).total())
    if changed > 1 or here.total() != there.total():
        raise DataError(
            f"data and neighbour differ in {changed} people: neighbours have equally many, "
            "of whom at most one differs"
        )


def rows_of(outcomes: list[Any]) -> Floats:
    """Outcomes as rows of numbers; what is no number becomes a label, and short rows are filled up.

    >>> rows_of([3, 5]).tolist(), rows_of([(1, 2), (3,)]).tolist()
    ([[3.0], [5.0]], [[1.0, 2.0], [3.0, -0.5]])
    >>> bool(rows_of(["yes", "no"])[0, 0] == rows_of(["yes"])[0, 0])
    True
    """
    try:
        array = np.asarray(outcomes)
        if array.dtype.kind in "biuf" and array.ndim in (1, 2):
            return array.astype(np.float64).reshape(len(outcomes), -1)
    except ValueError:  # of several lengths
        pass
    rows = [_row(outcome) for outcome in outcomes]
    width = max((len(row) for row in rows), default=1)
    return widened(np.vstack([widened(row[None, :], width) for row in rows]), width)


def widened(rows: Floats, width: int) -> Floats:
    """Rows filled up to a common width; what is absent is -1/2, which no count is.

    >>> widened(np.ones((1, 1)), 2)
    array([[ 1. , -0.5]])
    """
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=_ABSENT)


def _row(outcome: Any) -> Floats:
    """One outcome, by itself: what others there are must not matter."""
    if isinstance(outcome, Tally):
        outcome = outcome.counts
    try:
        array = np.atleast_1d(np.asarray(outcome))
        if array.dtype.kind in "biuf" and array.ndim == 1:
            return array.astype(np.float64)
    except ValueError:
        pass
    return np.array([_label(outcome)])


def _label(outcome: Any) -> float:
    """The same number for the same outcome, within one process."""
    if isinstance(outcome, np.ndarray):
        outcome = (outcome.shape, outcome.tobytes())
    if isinstance(outcome, list):
        outcome = tuple(outcome)
    try:
        return float(hash(outcome) % (1 << 53))
    except TypeError:
        kind = type(outcome).__name__
        raise DataError(f"an outcome of type {kind} is neither a number nor hashable") from None


def _local(randomizer: Randomizer, data: ArrayLike, count: int, rng: WordSource) -> Floats:
    """The messages of one user, in order, a column for each place."""
    values = np.asarray(data)
    if values.shape != (1,):
        raise DataError(
            "the local view is that of one user: data and neighbour have one value each"
        )
    messages = randomize(randomizer, np.repeat(values, count), rng)
    payload = messages.payload.reshape(len(messages.payload), -1).astype(np.float64)
    if isinstance(messages.owner, range):
        return payload
    owner = np.asarray(messages.owner)
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=count)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    longest = max(1, int(sizes.max(initial=0)))
    rows = np.full((count, longest, payload.shape[1]), _ABSENT)
    rows[owner[order], place] = payload[order]
    return rows.reshape(count, -1)


def _shuffled(randomizer: Randomizer, data: ArrayLike, count: int, rng: WordSource) -> Floats:
    """How often each message (or bucket of messages) was sent, then how many messages there were."""
    values = np.asarray(data)
    n = len(values)
    at_once = max(1, _WORDS // (n * max(1, randomizer.words_per_input)))
    parts = []
    for start in range(0, count, at_once):
        some = min(at_once, count - start)
        messages = randomize(randomizer, np.tile(values, some), rng)
        parts.append(_counted(messages, n, some, _buckets(randomizer)))
    return np.concatenate(parts) if parts else np.zeros((0, 1))


def _buckets(randomizer: Randomizer) -> int:
    return int(min(_MOST_BUCKETS, max(16, randomizer.domain.size + 2)))


def _counted(messages: Messages, n: int, crowds: int, buckets: int) -> Floats:
    crowd = np.asarray(messages.owner) // n
    sizes = np.bincount(crowd, minlength=crowds)[:, None].astype(np.float64)
    payload = messages.payload
    if payload.ndim == 2 and payload.dtype == np.bool_ and payload.shape[1] <= _MOST_BUCKETS:
        sums = np.zeros((crowds, payload.shape[1]))
        np.add.at(sums, crowd, payload)
        return np.hstack([sums, sizes])
    codes = payload if payload.ndim == 1 else _mixed(payload)
    cells = crowd * buckets + codes.astype(np.int64) % buckets
    counts = np.bincount(cells, minlength=crowds * buckets).reshape(crowds, buckets)
    return np.hstack([counts.astype(np.float64), sizes])


def _mixed(rows: NDArray[Any]) -> NDArray[np.int64]:
    """One number for each row."""
    mixed = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        mixed = (mixed * 1_000_003 + column.astype(np.int64)) % ((1 << 31) - 1)
    return mixed
