"""What a ledger holds: events, only ever appended, each chained to the one before.

There are three kinds: a budget was set, a release was charged, a charged release was made. Every event
carries the SHA-256 digest of itself and of the digest before it. The last digest, the *head*, stands for
the whole ledger: as long as somebody keeps a head elsewhere, nothing up to it can be changed, removed or
reordered without notice.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shuffledp.core.errors import LedgerError, ShuffledpError
from shuffledp.core.privacy import Guarantee, Model, Neighbours
from shuffledp.ledger.budget import Budget, Charge, price

Event = Mapping[str, Any]
"""One line of the ledger, as it is written in JSON."""

_START = "shuffledp ledger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One release: what was promised about it, and whether it was made.

    A release that was charged but never made counts all the same: nobody can prove that it was not made.

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
    key: str | None = None
    """The idempotency key it was charged under, if any."""
    head: str = ""
    """The head of the ledger right after this charge. Keep it outside the ledger."""
    released: bool = False

    @property
    def unit(self) -> str:
        """Of what its promise is: of a "person" with all their rows (and devices send for people), or of a "row".

        >>> promise = Guarantee(epsilon=0.5, delta=0.0, model=Model.LOCAL, proof="Warner 1965")
        >>> Entry(id="7f", time="now", dataset="data", guarantee=promise, note={"unit": "person"}).unit
        'person'
        """
        return str(self.note.get("unit", "person" if "window" in self.note else "row"))

    @property
    def person(self) -> tuple[str, ...]:
        """The columns that name the person, in order; () if the note names none."""
        return tuple(sorted(map(str, self.note.get("person", ()))))

    @property
    def charge(self) -> Charge:
        """What it costs."""
        return price(self.guarantee)

    def to_event(self) -> dict[str, Any]:
        """Return the line that says it was charged."""
        promise = self.guarantee
        keyed = {} if self.key is None else {"key": self.key}
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
            **keyed,
        }

    @classmethod
    def from_event(cls, event: Event) -> "Entry":
        """Return the release that a line charges.

        >>> promise = Guarantee(epsilon=0.5, delta=0.0, model=Model.LOCAL, proof="Warner 1965")
        >>> entry = Entry(id="7f", time="now", dataset="data", guarantee=promise, note={}, key="monday")
        >>> Entry.from_event(entry.to_event()) == entry
        True
        """
        return cls(
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
            key=event.get("key"),
            head=event.get("digest", ""),
        )


@dataclass(slots=True, kw_only=True)
class Account:
    """The state of one data set: its budget, and its releases in order."""

    budget: Budget
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def charges(self) -> list[Charge]:
        """The cost of every release, whether or not it was completed."""
        return [entry.charge for entry in self.entries.values()]


def seal(events: Sequence[Event], new: Iterable[Event]) -> list[Event]:
    """Return the new events with their digests, to be appended to `events`.

    >>> (one,) = seal([], [{"event": "release", "id": "a"}])
    >>> len(one["digest"])
    64
    """
    last = find_head(events) or _START
    result: list[Event] = []
    for event in new:
        last = _digest(last, event)
        result.append({**event, "digest": last})
    return result


def find_head(events: Sequence[Event]) -> str | None:
    """Return the digest of the last event; None if there is none.

    >>> find_head([]) is None
    True
    """
    return str(events[-1]["digest"]) if events else None


def check_chain(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events, if every digest is right.

    >>> good = seal([], [{"event": "release", "id": "a"}])
    >>> check_chain([{**good[0], "id": "b"}])
    Traceback (most recent call last):
    shuffledp.core.errors.LedgerError: event 1 does not match its digest: it, or one before it, was changed or removed
    """
    last = _START
    for place, event in enumerate(events, start=1):
        if not isinstance(event, Mapping):
            raise LedgerError(f"event {place} is not an object")
        bare = {key: value for key, value in event.items() if key != "digest"}
        try:
            last = _digest(last, bare)
        except (ValueError, RecursionError) as error:  # NaN and Infinity are not JSON
            raise LedgerError(f"event {place} cannot be read: {error}") from error
        if event.get("digest") != last:
            raise LedgerError(
                f"event {place} does not match its digest: it, or one before it, was changed or removed"
            )
    return events


def replay(events: Iterable[Event]) -> dict[str, Account]:
    """Return the state that the events lead to, by data set."""
    found: dict[str, Account] = {}
    for place, event in enumerate(events, start=1):
        try:
            _apply(found, event)
        except (AttributeError, KeyError, TypeError, ValueError, ShuffledpError) as error:
            raise LedgerError(f"event {place} makes no sense: {error!r}") from error
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
        raise LedgerError("it belongs to a data set that has no budget")
    if kind == "charge":
        entry = Entry.from_event(event)
        if entry.id in account.entries:
            raise LedgerError(f"charge {entry.id} occurs twice")
        account.entries[entry.id] = entry
    elif kind == "release":
        account.entries[event["id"]] = replace(account.entries[event["id"]], released=True)
    else:
        raise LedgerError(f"unknown kind {kind!r}")


def _digest(last: str, event: Event) -> str:
    text = json.dumps(event, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(f"{last}\n{text}".encode()).hexdigest()
