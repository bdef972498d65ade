"""The ledger: charge first, then release.

The order is what makes it safe. A release is charged, and on the disk, before anybody sees it; when
it is out, it is marked. A crash in between leaves a charge for something that may not have been
released: too much is counted, never too little.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shuffledp.core.errors import BudgetError, LedgerError, ParameterError
from shuffledp.core.privacy import Guarantee
from shuffledp.ledger.budget import Budget, Spent, charge_of, exceeds, spent
from shuffledp.ledger.events import Account, Entry, Event, accounts
from shuffledp.ledger.stores import Store, store_at

__all__ = ["DATASET", "Ledger"]

DATASET = "data"
"""The data set that is meant if none is named: counting too much together is the safe mistake."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The releases about data sets, in a .json file or a .sqlite (.sqlite3, .db) database.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "ledger.json")
    >>> promise = sdp.protocols.krr.make_local(k=3, epsilon=0.6).guarantee
    >>> entry = ledger.charge(promise, budget=Budget(epsilon=1.0, delta=0.0))
    >>> ledger.mark_released(entry)                                      # the answer is out
    >>> ledger.spent().epsilon, ledger.entries()[0].released
    (0.6, True)
    >>> ledger.charge(promise)
    Traceback (most recent call last):
    shuffledp.core.errors.BudgetError: the release was refused: with it, epsilon would be 1.2, and the budget is 1.0 (data set 'data', 1 release before)
    """

    path: Path
    _store: Store = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        object.__setattr__(self, "_store", store_at(self.path))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that have a budget."""
        return tuple(self._accounts())

    def budget(self, dataset: str = DATASET) -> Budget:
        """What all releases about the data set may spend."""
        return self._account(dataset).budget

    def entries(self, dataset: str = DATASET) -> tuple[Entry, ...]:
        """Every release that was charged, oldest first."""
        return tuple(self._account(dataset).entries.values())

    def spent(self, dataset: str = DATASET) -> Spent:
        """What the releases so far cost together."""
        account = self._account(dataset)
        return spent(account.charges, account.budget)

    def check(
        self, guarantee: Guarantee, *, dataset: str = DATASET, budget: Budget | None = None
    ) -> None:
        """Raise what `charge` would raise now, and change nothing."""
        account, _ = _account_for(self._accounts(), dataset, budget)
        _refuse(account, guarantee, dataset)

    def charge(
        self,
        guarantee: Guarantee,
        *,
        dataset: str = DATASET,
        budget: Budget | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write a release down before it is made, or raise `BudgetError` and write nothing.

        The first charge of a data set states its budget; later ones may repeat it.
        """
        entry = Entry(
            id=uuid.uuid4().hex,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            dataset=_name(dataset),
            guarantee=guarantee,
            note=json.loads(json.dumps(dict(note or {}), allow_nan=False)),
        )

        def decide(events: Sequence[Event]) -> list[Event]:
            account, new = _account_for(self._read(events), dataset, budget)
            _refuse(account, guarantee, dataset)
            return [*new, entry.event()]

        # What is refused anyway should not even make an empty file.
        self.check(guarantee, dataset=dataset, budget=budget)
        self._store.append(decide)
        return entry

    def mark_released(self, entry: Entry) -> None:
        """Write down that a charged release was made."""

        def decide(events: Sequence[Event]) -> list[Event]:
            account = self._read(events).get(entry.dataset)
            if account is None or entry.id not in account.entries:
                raise LedgerError(f"{self.path} has no charge {entry.id}")
            return [{"event": "release", "dataset": entry.dataset, "id": entry.id}]

        self._store.append(decide)

    def change_budget(self, *, epsilon: float, delta: float, dataset: str = DATASET) -> None:
        """Give a data set another budget: another promise to the same people, so say so to them.

        What was reserved of delta, and the order of the divergence, stay as they were.
        """

        def decide(events: Sequence[Event]) -> list[Event]:
            account = self._read(events).get(dataset)
            if account is None:
                raise _unknown(self.path, dataset)
            old = account.budget
            new = Budget(epsilon=epsilon, delta=delta, reserve=old.reserve, alpha=old.alpha)
            return [_budget_event(dataset, new)]

        self._store.append(decide)

    def _read(self, events: Sequence[Event]) -> dict[str, Account]:
        try:
            return accounts(events)
        except LedgerError as error:
            raise LedgerError(f"{self.path} is not an intact ledger: {error}") from error

    def _accounts(self) -> dict[str, Account]:
        return self._read(self._store.read())

    def _account(self, dataset: str) -> Account:
        account = self._accounts().get(dataset)
        if account is None:
            raise _unknown(self.path, dataset)
        return account


def _account_for(
    known: Mapping[str, Account], dataset: str, budget: Budget | None
) -> tuple[Account, list[Event]]:
    """The account to charge, and the event that opens it if this is its first charge."""
    account = known.get(_name(dataset))
    if account is not None:
        _same_budget(account.budget, budget, dataset)
        return account, []
    if budget is None:
        raise LedgerError(
            f"data set {dataset!r} has no budget yet: the first release must state one"
        )
    return Account(budget=budget), [_budget_event(dataset, budget)]


def _same_budget(stored: Budget, given: Budget | None, dataset: str) -> None:
    if given is None or (stored.epsilon, stored.delta) == (given.epsilon, given.delta):
        if given is None or given.reserve in (0.0, stored.reserve):
            return
        raise LedgerError(
            f"the budget of data set {dataset!r} reserves {stored.reserve!r} of delta, "
            f"not {given.reserve!r}; that cannot be changed"
        )
    raise LedgerError(
        f"the budget of data set {dataset!r} is epsilon = {stored.epsilon!r}, delta = "
        f"{stored.delta!r}, not epsilon = {given.epsilon!r}, delta = {given.delta!r}; "
        "change_budget (shuffledp ledger budget) changes it"
    )


def _refuse(account: Account, guarantee: Guarantee, dataset: str) -> None:
    reason = exceeds([*account.charges, charge_of(guarantee)], account.budget)
    if reason is None:
        return
    before = len(account.entries)
    raise BudgetError(
        f"the release was refused: with it, {reason} "
        f"(data set {dataset!r}, {before} release{'s' * (before != 1)} before)"
    )


def _budget_event(dataset: str, budget: Budget) -> Event:
    return {
        "event": "budget",
        "dataset": dataset,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "reserve": budget.reserve,
        "alpha": budget.alpha,
    }


def _name(dataset: str) -> str:
    if not dataset.strip():
        raise ParameterError("dataset", dataset, "must be a name")
    return dataset


def _unknown(path: Path, dataset: str) -> LedgerError:
    return LedgerError(f"{path} knows no data set {dataset!r}")
