"""The device: checks a collection before it answers, randomizes once, keeps the report until it is acknowledged.

`randomized once (budget spent) -> pending -> sent -> acknowledged`. A retry sends the same messages; only the outer
layer is sealed anew. What is kept is the report, never the answer. The outbox is one file for all collections of a
device, so its budget is one too; two programs that share it wait for one another.

The work that a stranger's document may cause is limited: a promise that takes too long to recompute is not believed.
"""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Any

from shuffledp.core.errors import BudgetError, ShuffledpError, WireError
from shuffledp.core.privacy import Guarantee, round_down, round_up
from shuffledp.core.randomizer import WordSource
from shuffledp.live.store import open_database, transaction
from shuffledp.live.wire.document import LARGEST_FLOOR, Collection
from shuffledp.live.wire.report import (
    check_token,
    encode_places,
    join_upload,
    place_answers,
    seal_inner,
    seal_report,
)

MOST_SECONDS = 1.8
"""CPU time that a device spends on recomputing a promise; together with reading the document it is less than two."""
_OFTEN = 16  # calls between two looks at the time


class _SpentError(BaseException):
    """The CPU time is up: not an `Exception`, so that no handler inside the computation catches it."""


@contextmanager
def limit_effort(seconds: float) -> Iterator[None]:
    """Stop what runs in this block, in this thread, after this many seconds of CPU time.

    The interpreter reports every call, so this works in any thread and needs no signal. A single call into compiled
    code is not interrupted; those of the accounting take milliseconds.

    >>> with limit_effort(0.01):
    ...     while True:
    ...         abs(-1)
    Traceback (most recent call last):
    ...
    shuffledp.core.errors.WireError: effort: it takes more than 0.01 seconds of CPU time
    """
    end = time.thread_time() + seconds
    calls = 0

    def look(_: FrameType, __: str, ___: object) -> None:
        nonlocal calls
        calls += 1
        if calls % _OFTEN == 0 and time.thread_time() > end:
            raise _SpentError

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    except _SpentError:
        raise WireError("effort", f"it takes more than {seconds:g} seconds of CPU time") from None
    finally:
        sys.setprofile(before)


def check_promise(collection: Collection) -> Guarantee:
    """Recompute what a document promises; `WireError` if it does not hold, or would take too long to find out."""
    try:
        with limit_effort(MOST_SECONDS):
            return collection.verify()
    except WireError as error:
        if error.reason != "effort":
            raise
        raise WireError(
            "promise",
            f"recomputing it takes more than {MOST_SECONDS:g} seconds of CPU time: ask fewer different questions, or "
            "promise each report by itself (composed = false)",
        ) from None


BUDGET = 8.0
"""The epsilon that a device spends over all collections, unless its owner says otherwise."""
FLOOR_BUDGET = LARGEST_FLOOR
"""The floors of all reports of a device together: beyond, or without a floor, somebody must say yes to a collection."""
_SCHEMA = (
    (
        "CREATE TABLE IF NOT EXISTS collections (id BLOB PRIMARY KEY, raw BLOB NOT NULL)",
        """CREATE TABLE IF NOT EXISTS reports (
            collection BLOB NOT NULL, window INTEGER NOT NULL, inners BLOB, token BLOB NOT NULL, state TEXT NOT NULL,
            epsilon REAL NOT NULL, PRIMARY KEY (collection, window))""",
    ),
    (  # floor: NULL if there is none. What no document tells counts as the whole budget.
        "ALTER TABLE reports ADD COLUMN floor REAL",
        """UPDATE reports SET floor = coalesce((
            SELECT CAST(json_extract(CAST(raw AS TEXT), '$.promise.local_epsilon') AS REAL)
            FROM collections WHERE id = reports.collection), 8.0)""",
    ),
)
MENDABLE = frozenset({"unknown_token", "token_spent"})
"""The token was wrong, and the report is fine: with another token the same messages are taken."""
# Reasons after which the same report may be sent once more.
_AGAIN = {"stale_key", "too_early", "busy"} | MENDABLE


class Sending(Enum):
    """The state of a report on its way."""

    PENDING = "pending"
    """Randomized and kept; never sent, or known not to have arrived."""
    SENT = "sent"
    """Sent, and not answered yet."""
    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"
    """Sent without an answer, and now it is too late: it may or may not have arrived. Its budget is spent."""
    REFUSED = "refused"
    """It did not arrive, and never will. Its budget is spent all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    inners: bytes
    token: bytes
    state: Sending


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The cost of all reports of a device, over all collections, in both numbers.

    >>> print(Spent(epsilon=0.5, floor=3.0, without_floor=0, budget=8.0, floor_budget=8.0))
    epsilon: 0.5 of 8 spent, 7.5 left; floor: 3 of 8 spent, 5 left
    """

    epsilon: float
    """The epsilons of all promises; a composed promise counts once."""
    floor: float
    """What is left if everybody else conspires adds up, report by report."""
    without_floor: int
    """Reports that have none."""
    budget: float
    floor_budget: float

    def __str__(self) -> str:
        shown = [
            f"{name}: {round_up(spent, 6)} of {round_up(budget, 6)} spent, {round_down(_subtract(budget, spent), 6)} left"
            for name, spent, budget in (
                ("epsilon", self.epsilon, self.budget),
                ("floor", self.floor, self.floor_budget),
            )
        ]
        if self.without_floor:
            shown.append(f"{self.without_floor:,} reports without a floor")
        return "; ".join(shown)


class Device:
    """A device with its outbox. Without an `rng`, words come from the operating system.

    It has two budgets over all collections: `budget` for their promises, and `floor_budget` for what is left if
    everybody else conspires. The first is never exceeded; a collection that would exceed the second, or has no floor,
    is answered if somebody says yes to that (`answer(..., accept_floor=True)`).
    """

    def __init__(
        self,
        outbox: Path | str,
        *,
        budget: float = BUDGET,
        floor_budget: float = FLOOR_BUDGET,
        rng: WordSource | None = None,
    ) -> None:
        self._budget = budget
        self._floor_budget = floor_budget
        self._rng = rng
        self._db = open_database(outbox, self, _SCHEMA)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def check(self, raw: bytes, expected_id: bytes) -> Collection:
        """Return the collection that the link names, if all about it is right: hash, law, keys, promise."""
        collection = Collection.read(raw, expected_id)
        query = "SELECT 1 FROM collections WHERE id = ?"
        if self._db.execute(query, (collection.id,)).fetchone() is None:
            check_promise(collection)
            row = (collection.id, collection.raw)
            self._db.execute("INSERT OR IGNORE INTO collections VALUES (?, ?)", row)
        return collection

    @property
    def spent(self) -> Spent:
        """What was spent over all collections."""
        floors = [row[0] for row in self._db.execute("SELECT floor FROM reports")]
        return Spent(
            epsilon=float(self._add_up("epsilon")),
            floor=float(self._add_up("floor")),
            without_floor=floors.count(None),
            budget=self._budget,
            floor_budget=self._floor_budget,
        )

    def _add_up(self, column: str) -> Decimal:
        """Return what a column sums up to without rounding, as people read the numbers: three times 0.1 is 0.3."""
        query = f"SELECT {column} FROM reports WHERE {column} IS NOT NULL"  # noqa: S608
        return sum((_read(row[0]) for row in self._db.execute(query)), Decimal(0))

    def ask_consent(self, collection: Collection) -> str | None:
        """Return why somebody must say yes before this collection is answered; None if nobody has to."""
        pledge, limit = collection.pledge, self._floor_budget
        if math.isinf(pledge.local_epsilon):
            return "it has no floor: shuffler and analyzer together could read the answers"
        if pledge.floor > limit:
            return f"its floor is above {limit:g}: {pledge.describe_floor()}"
        total = self._add_up("floor") + _read(pledge.local_epsilon)
        if total > _read(limit):
            return f"the floors of all reports of this device would add up to {round_up(float(total), 6)}, which is above {limit:g}"
        return None

    def answer(
        self,
        collection: Collection,
        answers: Mapping[str, object],
        now: float,
        token: bytes = b"",
        *,
        accept_floor: bool = False,
    ) -> int:
        """Randomize the answers, once, and keep the report; returns its window.

        `accept_floor`: whoever answers, or the program that asks, said yes to what `ask_consent` says.
        """
        window = collection.windows.at(now)
        if window is None:
            raise WireError("closed", "the collection takes no answers now")
        # What is wrong with the answers comes before what was sent already.
        places = place_answers(collection, answers)
        # Priced, drawn and kept under one lock: of two programs with this outbox, the second sees what the first spent.
        with transaction(self._db):
            price = self._price(collection, window)
            reason = None if accept_floor else self.ask_consent(collection)
            if reason is not None:
                raise WireError("consent", f"{reason}; it is answered only if you say yes to that")
            check_token(collection, token)
            plains = encode_places(collection, places, self._words())
            inners = b"".join(seal_inner(collection, window, plain) for plain in plains)
            self._db.execute(
                "INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    collection.id,
                    window,
                    inners,
                    token,
                    Sending.PENDING.value,
                    price,
                    collection.pledge.local_epsilon
                    if math.isfinite(collection.pledge.floor)
                    else None,
                ),
            )
        return window

    def _words(self) -> WordSource:
        if self._rng is not None:
            return self._rng
        from shuffledp.numerics.entropy import SecureWords

        return SecureWords()

    def _price(self, collection: Collection, window: int) -> float:
        query = "SELECT window FROM reports WHERE collection = ?"
        earlier = [row[0] for row in self._db.execute(query, (collection.id,))]
        pledge = collection.pledge
        if window in earlier:
            raise WireError("answered", f"this device has answered in window {window} already")
        if len(earlier) >= pledge.reports_per_device:
            raise WireError(
                "answered",
                f"this device has answered as often as it may: {pledge.reports_per_device:,} in all",
            )
        price = 0.0 if pledge.composed and earlier else pledge.epsilon
        if self._add_up("epsilon") + _read(price) > _read(self._budget):
            raise BudgetError(
                f"the device has spent epsilon = {round_up(self.spent.epsilon, 6)} of {round_up(self._budget, 6)}, and this "
                f"collection costs {round_up(price, 6)}"
            )
        return price

    def recall(self, identity: bytes) -> bytes | None:
        """Return the document of a collection that was checked before; None if there is none."""
        query = "SELECT raw FROM collections WHERE id = ?"
        row = self._db.execute(query, (identity,)).fetchone()
        return None if row is None else bytes(row[0])

    def list_unsettled(self, collection: Collection) -> list[int]:
        """Return the windows whose report is kept because nobody has acknowledged or refused it yet."""
        query = (
            "SELECT window FROM reports WHERE collection = ? AND state IN (?, ?) ORDER BY window"
        )
        states = Sending.PENDING.value, Sending.SENT.value
        return [row[0] for row in self._db.execute(query, (collection.id, *states))]

    def state(self, collection: Collection, window: int) -> Sending:
        """Return the state of a window's report."""
        return self._find_kept(collection, window).state

    def _find_kept(self, collection: Collection, window: int) -> _Kept:
        query = "SELECT inners, token, state FROM reports WHERE collection = ? AND window = ?"
        row = self._db.execute(query, (collection.id, window)).fetchone()
        if row is None:
            raise WireError("unanswered", f"this device has not answered in window {window}")
        inners, token, state = row
        return _Kept(inners=inners or b"", token=token, state=Sending(state))

    def _move(self, collection: Collection, window: int, state: Sending) -> None:
        # What is settled is forgotten: budgets need to know that there was a report, and nobody needs the report.
        done = state in (Sending.ACKNOWLEDGED, Sending.REFUSED, Sending.UNKNOWN)
        kept = "inners = NULL, token = x'', " if done else ""
        self._db.execute(
            f"UPDATE reports SET {kept}state = ? WHERE collection = ? AND window = ?",  # noqa: S608
            (state.value, collection.id, window),
        )

    def upload(
        self, collection: Collection, window: int, token: bytes | None = None
    ) -> bytes | None:
        """Return the body to send now: the same messages every time. None if there is nothing to send.

        Another `token` takes the place of the one that was not taken.
        """
        with transaction(self._db):
            kept = self._find_kept(collection, window)
            if kept.state not in (Sending.PENDING, Sending.SENT):
                return None
            if token is not None:
                check_token(collection, token)
                place = (token, collection.id, window)
                self._db.execute(
                    "UPDATE reports SET token = ? WHERE collection = ? AND window = ?", place
                )
                kept = self._find_kept(collection, window)
            # Before it is sent: after a crash it may have arrived, and too late means unknown then, not refused.
            self._move(collection, window, Sending.SENT)
        return join_upload(collection, [seal_report(collection, window, [kept.inners], kept.token)])

    def settle(
        self,
        collection: Collection,
        window: int,
        reason: str | None,
        *,
        before: Sending = Sending.PENDING,
    ) -> Sending:
        """Record what the reply says, and return the new state.

        A `reason` of None is success; "too_late" after an unanswered send is `UNKNOWN`.

        `before` is the state before this send: `SENT` if an earlier one was never answered.
        """
        with transaction(self._db):
            kept = self._find_kept(collection, window)
            if kept.state not in (Sending.PENDING, Sending.SENT):
                return kept.state
            if reason is None:
                state = Sending.ACKNOWLEDGED
            elif reason in _AGAIN:
                state = before
            elif before is Sending.SENT:
                state = Sending.UNKNOWN
            else:
                state = Sending.REFUSED
            self._move(collection, window, state)
        return state


def _subtract(budget: float, spent: float) -> float:
    """Return what is left, as people reckon: 0.1 of 8 and 7.9.

    >>> _subtract(8.0, 7.9), _subtract(8.0, 9.0)
    (0.1, 0.0)
    """
    return max(0.0, float(_read(budget) - _read(spent)))


def _read(value: float) -> Decimal:
    """Return the number as people read it."""
    return Decimal(repr(float(value)))


def read_reply(raw: bytes, reports: int) -> list[str | None]:
    """Return for each report of an upload why it was refused, or None.

    >>> read_reply(b'{"accepted":1,"failed":[{"index":1,"reason":"too_late"}]}', 2)
    [None, 'too_late']
    """
    outcomes: list[str | None] = [None] * reports
    try:
        content: dict[str, Any] = json.loads(raw)
        for each in content["failed"]:
            index = each["index"]
            if type(index) is not int or not 0 <= index < reports:
                raise IndexError(index)
            outcomes[index] = str(each["reason"])[:60]
        fine = content["accepted"] == outcomes.count(None)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, ShuffledpError):
        fine = False
    if not fine:
        raise WireError("reply", "the shuffler's reply cannot be understood")
    return outcomes
