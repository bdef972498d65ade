"""Samples of what an attacker sees, as rows of numbers.

Every draw is of one of two data sets, by the toss of a fair coin, and rows stay in the order in which they
were drawn. So a black box that never looks at its data cannot look guilty: whatever it keeps between
calls, its outcomes know nothing of the coins.

Every function of a view is a legitimate thing to look at, so whatever is lost on the way (messages
that share a bucket, outcomes that share a label) can only make a lower bound smaller, never wrong.
"""

import copy
import hashlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import (
    Messages,
    Randomizer,
    WordSource,
    check_randomizer,
    randomize,
)
from shuffledp.numerics.entropy import SeededWords

BlackBox: TypeAlias = Callable[[Any, WordSource], Any]
"""function(data, rng): one outcome. A number, a `Tally`, text, bytes, a tuple or array of these, or any
other hashable value."""

Sampler: TypeAlias = BlackBox | Randomizer | ShuffleProtocol
"""Where outcomes come from."""

_WORDS = 1 << 21  # of the tape, at once
_MOST_BUCKETS = 1024
_ABSENT = -0.5
_FAR = 1e100  # infinities end here, so that variances and scores stay finite
_SINGLE = (None, Ellipsis, NotImplemented)  # there is one of each, so identity is equality


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Outcomes in the order in which they were drawn.

    >>> some = Draws(rows=np.array([[1.0], [2.0], [3.0]]), coins=np.array([True, False, True]))
    >>> some.split(some.rows[:, 0])
    (array([1., 3.]), array([2.]))
    """

    rows: Floats  # [draws, width]
    coins: Bools  # [draws]: whether the data, not the neighbour, were used

    def split(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Split one value for each draw into those of the data and those of the neighbour."""
        return values[self.coins], values[~self.coins]

    def widen(self, width: int) -> "Draws":
        """Return the same draws with rows of at least this width."""
        return Draws(rows=widen(self.rows, width), coins=self.coins)


def draw(
    source: Sampler, view: str, data: Any, neighbour: Any, count: int, rng: WordSource
) -> Draws:
    """Draw `count` outcomes, each of the data or of the neighbour by the toss of a fair coin.

    >>> from shuffledp import protocols
    >>> krr = protocols.krr.KRR(k=3, epsilon0=5.0)
    >>> some = draw(krr, "shuffled", [0, 1, 1], [0, 1, 2], 4, SeededWords(1))
    >>> some.coins.tolist(), some.rows[:, :3].tolist()
    ([True, True, True, False], [[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [1.0, 1.0, 1.0]])
    """
    coins = _toss_coins(count, rng)
    randomizer = _find_randomizer(source)
    if randomizer is None:
        assert callable(source)
        outcomes: list[Any] = []
        for coin in coins.tolist():
            outcomes.append(source(_hand_over(data if coin else neighbour), rng))
            if len(outcomes) == 1:
                make_rows(outcomes)  # so that a black box of the wrong kind is not run any longer
        return Draws(rows=make_rows(outcomes), coins=coins)
    if view not in ("local", "shuffled"):
        raise ParameterError("view", view, "must be 'local' or 'shuffled'")
    pair = np.asarray(data), np.asarray(neighbour)
    collect = _collect_local if view == "local" else _collect_shuffled
    return Draws(rows=_tame(collect(randomizer, pair, coins, rng)), coins=coins)


def check_neighbours(source: Sampler, data: ArrayLike, neighbour: ArrayLike) -> None:
    """Refuse non-neighbouring data sets: distinguishing them proves nothing.

    What neighbours are for a black box, only its author knows.

    >>> from shuffledp import protocols
    >>> check_neighbours(protocols.krr.KRR(k=3, epsilon0=1.0), [0, 1], [2, 2])
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: non-neighbouring data sets (2 people differ): distinguishing them proves nothing
    """
    randomizer = _find_randomizer(source)
    if randomizer is None:
        return
    here, there = (Counter(randomizer.domain.codes(x).tolist()) for x in (data, neighbour))
    if here.total() != there.total():
        raise DataError(
            f"non-neighbouring data sets ({here.total():,} and {there.total():,} people): "
            "distinguishing them proves nothing"
        )
    changed = (here - there).total()
    if changed > 1:
        raise DataError(
            f"non-neighbouring data sets ({changed:,} people differ): distinguishing them proves nothing"
        )


def make_rows(outcomes: list[Any]) -> Floats:
    """Turn outcomes into rows of numbers. What is not a number becomes a label; short rows are filled up.

    >>> make_rows([3, 5]).tolist(), make_rows([(1, 2), (3,)]).tolist()
    ([[3.0], [5.0]], [[1.0, 2.0], [3.0, -0.5]])
    >>> bool(make_rows(["yes", "no"])[0, 0] == make_rows(["yes"])[0, 0])
    True
    >>> make_rows([iter([1, 2])])
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: the black box returned a list_iterator, which has no value of its own: return what it yields, as a tuple
    """
    array = _to_array(outcomes)
    if array is not None and array.ndim in (1, 2):
        return _tame(array.reshape(len(outcomes), -1))
    rows = [_make_row(outcome) for outcome in outcomes]
    width = max(len(row) for row in rows)
    return _tame(np.vstack([widen(row[None, :], width) for row in rows]))


def widen(rows: Floats, width: int) -> Floats:
    """Fill rows up to a common width. What is absent is -1/2, which no count is.

    >>> widen(np.ones((1, 1)), 2)
    array([[ 1. , -0.5]])
    """
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=_ABSENT)


def _find_randomizer(source: Sampler) -> Randomizer | None:
    """Return the randomizer behind a randomizer or protocol; None for a black box."""
    one = source.randomizer if isinstance(source, ShuffleProtocol) else source
    if callable(one):
        return None
    return check_randomizer("sampler", one, "must be a function, a randomizer or a protocol")


def _toss_coins(count: int, rng: WordSource) -> Bools:
    """Toss fair coins that no black box shares, even if it is seeded as the audit is."""
    material = hashlib.sha256(b"shuffledp audit coins" + rng.words(4).tobytes()).digest()
    coins: Bools = SeededWords(int.from_bytes(material)).words(count, 1).astype(np.bool_)
    return coins


def _hand_over(data: Any) -> Any:
    """Return a copy: what a black box does to its data must not reach the next draw."""
    return data.copy() if isinstance(data, list | np.ndarray) else data


def _tame(rows: Floats) -> Floats:
    """Make numbers finite: infinities move to the far ends, and NaN to a place of its own."""
    return np.clip(np.nan_to_num(rows, nan=-_FAR / 2), -_FAR, _FAR)


def _make_row(outcome: Any) -> Floats:
    """Turn one outcome into a row by itself: what others there are must not matter."""
    if isinstance(outcome, Tally):
        outcome = outcome.counts
    array = _to_array(outcome)
    if array is not None and array.ndim < 2:
        return np.atleast_1d(array)
    if isinstance(outcome, Real):  # a Fraction, or an integer beyond 64 bits
        return np.array([_to_float(outcome)])
    # A label: the same number for equal outcomes, within one process.
    return np.array([float(hash(_freeze(outcome)) % (1 << 53))])


def _to_array(value: Any) -> Floats | None:
    """Return real numbers as floats; None if there is anything else."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):  # of several lengths, or of no length
        return None
    return array.astype(np.float64) if array.dtype.kind in "biuf" else None


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _freeze(outcome: Any) -> Any:
    """Return a hashable stand-in that is equal for equal outcomes, and depends on nothing but their value."""
    if isinstance(outcome, np.ndarray):
        plain = outcome.tolist() if outcome.dtype.hasobject else outcome.tobytes()
        return outcome.shape, outcome.dtype.str, _freeze(plain)
    if isinstance(outcome, tuple | list):
        return tuple(map(_freeze, outcome))
    if isinstance(outcome, set | frozenset):
        return frozenset(map(_freeze, outcome))
    if isinstance(outcome, bytearray | memoryview):
        return bytes(outcome)
    if isinstance(outcome, float | complex | Decimal | np.generic):
        return repr(outcome)  # every NaN has a hash of its own
    if not isinstance(outcome, str | bytes | int):
        _check_value(outcome)
    return outcome


def _check_value(outcome: Any) -> None:
    """Refuse what has no value, or whose hash is its address in memory."""
    kind = type(outcome).__name__
    if isinstance(outcome, Coroutine):
        outcome.close()  # it is not going to be awaited
    if isinstance(outcome, Iterator | AsyncIterator | Awaitable):
        raise DataError(
            f"the black box returned a {kind}, which has no value of its own: "
            "return what it yields, as a tuple"
        )
    try:
        code = hash(outcome)
    except TypeError:
        raise DataError(
            f"the black box returned a {kind}, which is neither a number nor hashable: "
            "return numbers, text, or tuples of them"
        ) from None
    if any(outcome is one for one in _SINGLE):
        return
    hashing: Any = type(outcome).__hash__
    by_identity = callable(outcome) or hashing is object.__hash__
    if by_identity or hash(_copy(outcome)) != code:
        raise DataError(
            f"the black box returned a {kind}, which is hashed by its place in memory: equal outcomes "
            "would look different. Return numbers, text, or tuples of them"
        )


def _copy(outcome: Any) -> Any:
    try:
        return copy.deepcopy(outcome)
    except Exception:  # what cannot be copied is not a value
        return None


_Pair = tuple[NDArray[Any], NDArray[Any]]


def _collect_local(randomizer: Randomizer, pair: _Pair, coins: Bools, rng: WordSource) -> Floats:
    """Return the messages of one user, in order, a column for each place."""
    if pair[0].shape != (1,) or pair[1].shape != (1,):
        raise DataError(
            "the local view is that of one user: data and neighbour must have one value each"
        )
    count = len(coins)
    messages = randomize(randomizer, np.where(coins, *pair), rng)
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


def _collect_shuffled(randomizer: Randomizer, pair: _Pair, coins: Bools, rng: WordSource) -> Floats:
    """Return how often each message (or bucket of messages) was sent, then how many messages there were."""
    n = len(pair[0])
    buckets = int(min(_MOST_BUCKETS, max(16, randomizer.domain.size + 2)))
    at_once = max(1, _WORDS // (n * max(1, randomizer.words_per_input)))
    parts = []
    for start in range(0, len(coins), at_once):
        some = coins[start : start + at_once, None]
        messages = randomize(randomizer, np.where(some, *pair).ravel(), rng)
        parts.append(_count_messages(messages, n, len(some), buckets))
    return np.concatenate(parts)


def _count_messages(messages: Messages, n: int, crowds: int, buckets: int) -> Floats:
    payload, owner = messages.payload, messages.owner
    alone = isinstance(owner, range)  # one message each, in order
    crowd = np.repeat(np.arange(crowds), n) if alone else np.asarray(owner) // n
    sizes = np.bincount(crowd, minlength=crowds)[:, None].astype(np.float64)
    if payload.ndim == 2 and payload.dtype == np.bool_ and payload.shape[1] <= _MOST_BUCKETS:
        sums = np.zeros((crowds, payload.shape[1]))
        if alone:
            sums += payload.reshape(crowds, n, -1).sum(axis=1)
        else:
            np.add.at(sums, crowd, payload)
        return np.hstack([sums, sizes])
    codes = payload if payload.ndim == 1 else _mix_columns(payload)
    cells = crowd * buckets + codes.astype(np.int64) % buckets
    counts = np.bincount(cells, minlength=crowds * buckets).reshape(crowds, buckets)
    return np.hstack([counts.astype(np.float64), sizes])


def _mix_columns(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Hash each row into one number."""
    mixed = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        mixed = (mixed * 1_000_003 + column.astype(np.int64)) % ((1 << 31) - 1)
    return mixed
