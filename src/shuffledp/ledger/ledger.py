"""The ledger: charge first, then release.

The order is what makes it safe. A release is charged, and on the disk, before anybody sees it; once it is
out, it is marked. A crash in between leaves a charge for something that may never have been released: too
much is counted, never too little.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shuffledp.core.errors import BudgetError, LedgerError, ParameterError
from shuffledp.core.privacy import Guarantee, round_up
from shuffledp.ledger import DATASET
from shuffledp.ledger.budget import (
    Account,
    Budget,
    Entry,
    Event,
    Spent,
    add_up,
    find_excess,
    find_head,
    replay,
)
from shuffledp.ledger.stores import Store, check_writable, open_store

_LONGEST_NAME = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """An intact ledger, and how much of it the given heads vouch for.

    >>> Verified(events=5, head="0" * 64, vouched=3).vouched
    3
    """

    events: int
    """How many events it holds."""
    head: str | None
    """Its head now; None if it is empty."""
    vouched: int
    """Nothing among this many first events was changed, removed or reordered since the head was noted."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The releases about data sets, in a .json file or a .sqlite (.sqlite3, .db) database.

    `path` may be relative or a symbolic link; what it leads to is fixed now.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "ledger.json")
    >>> promise = sdp.protocols.krr.make_local(k=3, epsilon=0.6).guarantee
    >>> entry = ledger.charge(promise, budget=Budget(epsilon=1.0, delta=0.0))
    >>> head = ledger.mark_released(entry)                               # the answer is out
    >>> ledger.spent().epsilon, ledger.entries()[0].released
    (0.6, True)
    >>> ledger.charge(promise)
    Traceback (most recent call last):
    shuffledp.core.errors.BudgetError: the release was refused: with it, epsilon would be 1.2, and the budget is 1.0 (data set 'data', 1 release before)
    >>> ledger.verify(head).vouched                                      # budget, charge, release
    3
    """

    path: Path
    _store: Store = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        store = open_store(Path(self.path))
        object.__setattr__(self, "path", store.path)
        object.__setattr__(self, "_store", store)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that have a budget."""
        return tuple(self._accounts())

    @property
    def head(self) -> str | None:
        """The digest that stands for everything in the ledger; None if it is empty."""
        return find_head(self._store.read())

    def budget(self, dataset: str = DATASET) -> Budget:
        """Return what all releases about the data set may spend."""
        return self._account(dataset).budget

    def entries(self, dataset: str = DATASET) -> tuple[Entry, ...]:
        """Return every release that was charged, oldest first."""
        return tuple(self._account(dataset).entries.values())

    def spent(self, dataset: str = DATASET) -> Spent:
        """Return what the releases so far cost together."""
        account = self._account(dataset)
        return add_up(account.charges, account.budget)

    def check_writable(self) -> None:
        """Raise `LedgerError` if the file cannot be written, or must not be; change nothing."""
        check_writable(self.path)

    def check(
        self,
        guarantee: Guarantee,
        *,
        dataset: str = DATASET,
        budget: Budget | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> None:
        """Raise what `charge` would raise now, and change nothing."""
        entry = _make_entry(guarantee, dataset, note)
        self._decide(self._store.read(), entry, budget)

    def charge(
        self,
        guarantee: Guarantee,
        *,
        dataset: str = DATASET,
        budget: Budget | None = None,
        note: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Entry:
        """Write a release down before it is made, or raise `BudgetError` and write nothing.

        The first charge of a data set states its budget; later ones may repeat it. `note` says what was
        asked, for the reader of the ledger.

        A charge under a `key` is made once: the same charge under the same key, after a crash say, finds
        the entry of the first and costs nothing. A different charge (another data set, guarantee or note)
        under a used key is an error. What is released under one key must always be the *same* release, such
        as a stored batch. Drawing new noise makes another release, which needs another key.
        """
        entry = _make_entry(guarantee, dataset, note, key)
        made: list[Entry] = []

        def decide(events: Sequence[Event]) -> list[Event]:
            charged, new = self._decide(events, entry, budget)
            made.append(charged)
            return new

        # A charge that is refused anyway should not even create an empty file.
        self._decide(self._store.read(), entry, budget)
        head = find_head(self._store.append(decide))
        (charged,) = made
        return charged if charged.head else replace(charged, head=str(head))

    def mark_released(self, entry: Entry) -> str:
        """Write down that a charged release was made; returns the new head."""

        def decide(events: Sequence[Event]) -> list[Event]:
            account = self._replay(events).get(entry.dataset)
            if account is None or entry.id not in account.entries:
                raise LedgerError(f"{self.path} has no charge {entry.id}")
            if account.entries[entry.id].released:
                return []
            return [{"event": "release", "dataset": entry.dataset, "id": entry.id}]

        return str(find_head(self._store.append(decide)))

    def change_budget(self, *, epsilon: float, delta: float, dataset: str = DATASET) -> str:
        """Give a data set another budget: a new promise to the same people, so tell them.

        The part of delta that was reserved and the order of the divergence stay. Returns the new head.
        """

        def decide(events: Sequence[Event]) -> list[Event]:
            account = self._replay(events).get(dataset)
            if account is None:
                raise _fail_unknown(self.path, dataset)
            old = account.budget
            new = Budget(epsilon=epsilon, delta=delta, reserve=old.reserve, alpha=old.alpha)
            return [_make_budget_event(dataset, new)]

        return str(find_head(self._store.append(decide)))

    def verify(self, *heads: str) -> Verified:
        """Check every digest, and that each of these heads, noted earlier, is still in the chain.

        Raises `LedgerError` if an event up to one of the heads was changed, removed or reordered, or if
        the head is that of another copy. It cannot see that events *after* the newest of the heads were
        removed: note the head of every charge outside the ledger.
        """
        events = self._store.read()
        self._replay(events)
        places = {str(event["digest"]): place for place, event in enumerate(events, start=1)}
        vouched = 0
        for head in map(_check_head, heads):
            if head not in places:
                raise LedgerError(
                    f"{self.path} does not contain the head {head}: something up to it was changed or "
                    "removed, or it belongs to another ledger or copy"
                )
            vouched = max(vouched, places[head])
        return Verified(events=len(events), head=find_head(events), vouched=vouched)

    def _decide(
        self, events: Sequence[Event], entry: Entry, budget: Budget | None
    ) -> tuple[Entry, list[Event]]:
        """Return the entry that stands for this charge, and the events to append for it."""
        known = self._replay(events)
        earlier = _find_key(known, entry.key)
        if earlier is not None:
            _check_same_charge(earlier, entry)
            return earlier, []
        account, opening = _find_account(known, entry.dataset, budget)
        _refuse_mixed(account, entry)
        _refuse_excess(account, entry)
        return entry, [*opening, entry.to_event()]

    def _replay(self, events: Sequence[Event]) -> dict[str, Account]:
        try:
            return replay(events)
        except LedgerError as error:
            raise LedgerError(f"{self.path} is not an intact ledger: {error}") from error

    def _accounts(self) -> dict[str, Account]:
        return self._replay(self._store.read())

    def _account(self, dataset: str) -> Account:
        account = self._accounts().get(dataset)
        if account is None:
            raise _fail_unknown(self.path, dataset)
        return account


def _make_entry(
    guarantee: Guarantee,
    dataset: str,
    note: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Entry:
    return Entry(
        id=uuid.uuid4().hex,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        dataset=_check_name("dataset", dataset),
        guarantee=guarantee,
        note=_check_note(note),
        key=None if key is None else _check_name("key", key),
    )


def _find_key(known: Mapping[str, Account], key: str | None) -> Entry | None:
    if key is None:
        return None
    entries = (entry for account in known.values() for entry in account.entries.values())
    return next((entry for entry in entries if entry.key == key), None)


def _check_same_charge(earlier: Entry, entry: Entry) -> None:
    for name in ("dataset", "guarantee", "note"):
        before, now = getattr(earlier, name), getattr(entry, name)
        if before != now:
            raise LedgerError(
                f"key {entry.key!r} was used for another charge: its {name} was {before}, not {now}; "
                "nothing was written"
            )


def _find_account(
    known: Mapping[str, Account], dataset: str, budget: Budget | None
) -> tuple[Account, list[Event]]:
    """Return the account to charge, and the event that opens it if this is its first charge."""
    account = known.get(dataset)
    if account is not None:
        _check_budget(account.budget, budget, dataset)
        return account, []
    if budget is None:
        raise LedgerError(
            f"data set {dataset!r} has no budget yet: the first release must state one"
        )
    return Account(budget=budget), [_make_budget_event(dataset, budget)]


def _check_budget(stored: Budget, given: Budget | None, dataset: str) -> None:
    if given is None:
        return
    if (stored.epsilon, stored.delta) != (given.epsilon, given.delta):
        raise LedgerError(
            f"the budget of data set {dataset!r} is epsilon = {stored.epsilon!r}, delta = "
            f"{stored.delta!r}, not epsilon = {given.epsilon!r}, delta = {given.delta!r}; "
            "change_budget (shuffledp ledger budget) changes it"
        )
    if given.reserve not in (0.0, stored.reserve):
        raise LedgerError(
            f"the budget of data set {dataset!r} reserves {stored.reserve!r} of delta, "
            f"not {given.reserve!r}; that cannot be changed"
        )


def _refuse_mixed(account: Account, entry: Entry) -> None:
    """Losses of people and losses of rows do not add up: a person may have many rows, a household many people."""
    others = sorted({each.unit for each in account.entries.values()} - {entry.unit})
    if others:
        raise LedgerError(
            f"the releases of data set {entry.dataset!r} before protect one {others[0]} each, and this one protects "
            f"one {entry.unit}: their losses do not add up; charge it to another data set"
        )
    named = sorted({each.person for each in account.entries.values()} - {entry.person, ()})
    if named and entry.person:
        raise LedgerError(
            f"in the releases of data set {entry.dataset!r} before a person is a value of {' and '.join(named[0])}, and in "
            f"this one of {' and '.join(entry.person)}: their losses do not add up; charge it to another data set"
        )


def _refuse_excess(account: Account, entry: Entry) -> None:
    reason = find_excess([*account.charges, entry.charge], account.budget)
    if reason is None:
        return
    before = len(account.entries)
    raise BudgetError(
        f"the release was refused: with it, {reason} "
        f"(data set {entry.dataset!r}, {before} release{'s' * (before != 1)} before)"
    )


def _make_budget_event(dataset: str, budget: Budget) -> Event:
    return {"event": "budget", "dataset": dataset, **asdict(budget)}


def _check_name(what: str, name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
        raise ParameterError(what, name, f"must be a text of 1 to {_LONGEST_NAME} characters")
    return name


def _check_note(note: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the note as it will be read again."""
    try:
        kept: dict[str, Any] = json.loads(json.dumps(dict(note or {}), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            "note", note, f"must be a mapping that JSON can hold ({error})"
        ) from error
    return kept


def _check_head(head: object) -> str:
    if not isinstance(head, str) or not re.fullmatch("[0-9a-f]{64}", head.strip().lower()):
        raise ParameterError(
            "head", head, "must be the 64 hexadecimal digits that a charge printed"
        )
    return head.strip().lower()


def _fail_unknown(path: Path, dataset: str) -> LedgerError:
    return LedgerError(f"{path} knows no data set {dataset!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A ledger, the data set whose budget is spent, and the budget that the first release states."""

    ledger: Ledger
    budget: Budget | None = None
    dataset: str = DATASET

    def __post_init__(self) -> None:
        self.ledger.check_writable()
        if self.dataset not in self.ledger.datasets and self.budget is None:
            raise LedgerError(
                f"{self.ledger.path} has no budget for data set {self.dataset!r} yet: "
                "state the budget (its epsilon and delta) with the first release"
            )

    def check(self, guarantee: Guarantee, note: Mapping[str, Any]) -> None:
        """Refuse now what could not be charged later."""
        self.ledger.check(guarantee, dataset=self.dataset, budget=self.budget, note=note)

    def charge(self, guarantee: Guarantee, note: Mapping[str, Any]) -> Entry:
        """Write the release down. Call it before anybody sees the answer."""
        return self.ledger.charge(
            guarantee, dataset=self.dataset, budget=self.budget, note=dict(note)
        )

    def mark_released(self, entry: Entry) -> str:
        """Write down that it is out; returns what is spent, and the head of the ledger."""
        head = self.ledger.mark_released(entry)
        total, budget = self.ledger.spent(self.dataset), self.ledger.budget(self.dataset)
        return (
            f"Spent of data set {self.dataset!r}: epsilon {round_up(total.epsilon, 6)} of "
            f"{budget.epsilon:.6g}, delta {round_up(total.delta, 3)} of {budget.delta:.3g}, "
            f"in {total.releases} release{'s' * (total.releases != 1)}.\n"
            f"Head of the ledger, to note elsewhere: {head}"
        )
