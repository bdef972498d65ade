"""What a ledger holds: events, only ever appended, each sealed with what came before.

Three kinds: a budget was set, a release was charged, a charged release was made. Every event carries
the digest of itself and of the digest before it, so a changed digit or a missing line is noticed.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shuffledp.core.errors import LedgerError, ShuffledpError
from shuffledp.core.privacy import Guarantee, Model, Neighbours
from shuffledp.ledger.budget import Budget, Charge, charge_of

__all__ = ["Account", "Entry", "Event", "accounts", "checked", "sealed"]

Event = Mapping[str, Any]
"""One line of the ledger, as it is written in JSON."""

_START = "shuffledp ledger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One release: what was promised about it, and whether it was made.

    A release that was charged and not made counts all the same: nobody can prove that it was not.

    >>> promise = Guarantee(epsilon=0.5, delta=0.0, model=Model.LOCAL, proof="Warner 1965")
    >>> entry = Entry(id="7f", time="2030-01-01T00:00:00+00:00", dataset="data", guarantee=promise, note={})
    >>> entry.charge.epsilon, entry.released
    (0.5, False)
    """

    id: str
    time: str
    dataset: str
    guarantee: Guarantee
    note: Mapping[str, Any]
    """What was asked, for the reader of the ledger."""
    released: bool = False

    @property
    def charge(self) -> Charge:
        """What it costs."""
        return charge_of(self.guarantee)

    def event(self) -> Event:
        """The line that says it was charged."""
        promise = self.guarantee
        return {
            "event": "charge",
            "id": self.id,
            "time": self.time,
            "dataset": self.dataset,
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "model": promise.model.value,
            "neighbours": promise.neighbours.value,
            "honest": promise.honest,
            "proof": promise.proof,
            "note": dict(self.note),
        }


@dataclass(slots=True, kw_only=True)
class Account:
    """The state of one data set: its budget, and its releases in order."""

    budget: Budget
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def charges(self) -> list[Charge]:
        """What every release costs, made or not."""
        return [entry.charge for entry in self.entries.values()]


def sealed(events: Sequence[Event], new: Iterable[Event]) -> list[Event]:
    """The new events with their digests, to be appended to `events`.

    >>> (one,) = sealed([], [{"event": "release", "id": "a"}])
    >>> len(one["digest"])
    64
    """
    last = str(events[-1]["digest"]) if events else _START
    result: list[Event] = []
    for event in new:
        last = _digest(last, event)
        result.append({**event, "digest": last})
    return result


def checked(events: Sequence[Event]) -> Sequence[Event]:
    """The events, if every digest is right.

    >>> good = sealed([], [{"event": "release", "id": "a"}])
    >>> checked([{**good[0], "id": "b"}])
    Traceback (most recent call last):
    shuffledp.core.errors.LedgerError: entry 1 was changed after it was written
    """
    last = _START
    for place, event in enumerate(events, start=1):
        if not isinstance(event, Mapping):
            raise LedgerError(f"entry {place} is not an object")
        bare = {key: value for key, value in event.items() if key != "digest"}
        last = _digest(last, bare)
        if event.get("digest") != last:
            raise LedgerError(f"entry {place} was changed after it was written")
    return events


def accounts(events: Iterable[Event]) -> dict[str, Account]:
    """The state that the events lead to, by data set."""
    found: dict[str, Account] = {}
    for place, event in enumerate(events, start=1):
        try:
            _apply(found, event)
        except (KeyError, TypeError, ValueError, ShuffledpError) as error:
            raise LedgerError(f"entry {place} cannot be understood: {error!r}") from error
    return found


def _apply(found: dict[str, Account], event: Event) -> None:
    account = found.get(event["dataset"])
    kind = event["event"]
    if kind == "budget":
        budget = Budget(
            epsilon=event["epsilon"],
            delta=event["delta"],
            reserve=event["reserve"],
            alpha=event["alpha"],
        )
        if account is None:
            found[event["dataset"]] = Account(budget=budget)
        else:
            account.budget = budget
        return
    if account is None:
        raise LedgerError("a release without a budget")
    if kind == "charge":
        entry = _entry(event)
        account.entries[entry.id] = entry
    elif kind == "release":
        account.entries[event["id"]] = replace(account.entries[event["id"]], released=True)
    else:
        raise LedgerError(f"an event of kind {kind!r}")


def _entry(event: Event) -> Entry:
    return Entry(
        id=event["id"],
        time=event["time"],
        dataset=event["dataset"],
        guarantee=Guarantee(
            epsilon=event["epsilon"],
            delta=event["delta"],
            model=Model(event["model"]),
            neighbours=Neighbours(event["neighbours"]),
            honest=event["honest"],
            proof=event["proof"],
        ),
        note=event["note"],
    )


def _digest(last: str, event: Event) -> str:
    text = json.dumps(event, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(f"{last}\n{text}".encode()).hexdigest()
