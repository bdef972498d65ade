r"""How several releases about the same people add up, when each is chosen after the last was seen.

Whoever asks the next question has read the previous answers, and chooses its epsilon by them. So the
rule that stops the releases must be a *privacy filter* (Rogers, Roth, Ullman, Vadhan 2016, "Privacy
odometers and filters"): valid for parameters that are chosen adaptively. Two are, and are used here.

* **Sums.** sum epsilon_i <= epsilon and sum delta_i <= delta.
* **Renyi divergence of one order alpha**, fixed with the budget (Feldman, Zrnic 2021, "Individual
  privacy accounting via a Renyi filter"). A part of delta, the `reserve`, is kept for it. A release of
  epsilon_i has divergence at most that of randomized response,

      D(epsilon_i) = epsilon_i + (ln(1 + e^(-(2 alpha - 1) epsilon_i)) - ln(1 + e^-epsilon_i)) / (alpha - 1),

  and sum D(epsilon_i) + c <= epsilon is enough, where c turns a divergence into (epsilon, reserve) (Canonne,
  Kamath, Steinke 2020, Proposition 12). It wins when there are many small releases.

With a reserve a release is accepted if sum delta_i + reserve <= delta and *either* rule holds. This is
sound: every (epsilon_i, delta_i) release is post-processing of one that reveals everything with
probability delta_i and is epsilon_i-DP otherwise (Kairouz, Oh, Viswanath 2015), so revealing costs at most
sum delta_i. Histories within the first rule have no loss above epsilon; those within the second have the
same law as under the second filter alone, where the loss exceeds epsilon by no more than the reserve.
Without the reserve set aside beforehand that argument fails: one could gamble first and then choose the rule.

Composing whole privacy-loss distributions (`sdp.compose`) is tighter, but it is proven for parameters
that are fixed in advance, so the ledger does not use it.

Numbers are read as people write them: 0.1 is one tenth, so ten releases of 0.1 spend 1. Everything else
is rounded up: sums are fractions, and logarithms come from `decimal`, which rounds ln and exp correctly,
so that the slack added below is larger than all roundings together.

What a ledger holds: events, only ever appended, each chained to the one before.

There are three kinds: a budget was set, a release was charged, a charged release was made. Every event
carries the SHA-256 digest of itself and of the digest before it. The last digest, the *head*, stands for
the whole ledger: as long as somebody keeps a head elsewhere, nothing up to it can be changed, removed or
reordered without notice.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

from shuffledp.core.errors import LedgerError, ParameterError, ShuffledpError
from shuffledp.core.privacy import Guarantee, Model, Neighbours
from shuffledp.core.validate import below_one, number, positive
from shuffledp.numerics.rounding import exp_upper

_ORDERS = tuple(1 + 10 ** (place / 20) for place in range(-20, 81))  # 1.1 .. 10^4

_LARGEST_ORDER = 1_000_000

# 60 digits; everything is rounded up but ln and exp, which are rounded to the nearest. Logarithms below
# are less than 1000 in size, so each is off by less than 10^-56. A slack of 10^-49, divided by an order
# of at most 10^6, is more than all of them together.
_CEILING = Context(prec=60, rounding=ROUND_CEILING)
_SLACK = Decimal("1e-49")

_SATURATED = 750.0  # beyond this epsilon, e^epsilon times any positive float is above 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that all releases about one data set may spend together.

    `reserve` is the part of delta set aside for composing many small releases; at 0, epsilons are added.
    `alpha` is the order of the Renyi divergence, fixed when the budget is made.

    >>> Budget(epsilon=1.0, delta=1e-6).alpha is None
    True
    >>> round(Budget(epsilon=2.0, delta=1e-6, reserve=5e-7).alpha, 1)
    13.6
    """

    epsilon: float
    delta: float
    reserve: float = 0.0
    alpha: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("budget epsilon", self.epsilon))
        object.__setattr__(self, "delta", below_one("budget delta", self.delta))
        object.__setattr__(self, "reserve", number("reserve", self.reserve))
        if self.reserve and not 0 < self.reserve < self.delta:
            raise ParameterError("reserve", self.reserve, f"must be >= 0 and < delta={self.delta}")
        if self.reserve == 0:
            object.__setattr__(self, "alpha", None)
        elif self.alpha is None:
            object.__setattr__(self, "alpha", _choose_order(self.epsilon, self.reserve))
        elif not 1 < number("alpha", self.alpha) <= _LARGEST_ORDER:
            raise ParameterError("alpha", self.alpha, f"must be > 1 and <= {_LARGEST_ORDER:,}")

    @classmethod
    def for_releases(cls, times: int, *, epsilon: float, delta: float) -> "Budget":
        """Return the budget that this many equal releases use up exactly, as people read the numbers.

        A product of floating-point numbers can be below the sum of its decimals: 12 * 0.3418 is
        4.1015999999999995. No budget has a delta of 1 or more.

        >>> Budget.for_releases(12, epsilon=0.3418, delta=1e-8).epsilon
        4.1016
        """
        return cls(
            epsilon=_round_up(times * _read(epsilon)),
            delta=min(math.nextafter(1.0, 0.0), _round_up(times * _read(delta))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The cost of one release, between neighbours that differ in one person's value.

    >>> Charge(epsilon=0.5, delta=1e-8).epsilon
    0.5
    """

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """An upper bound on the joint cost of releases, even if each was chosen after seeing the previous ones.

    >>> two = [Charge(epsilon=0.1, delta=1e-8), Charge(epsilon=0.2, delta=0.0)]
    >>> add_up(two, Budget(epsilon=1.0, delta=1e-6))
    Spent(releases=2, epsilon=0.3, delta=1e-08, rule='sums')
    """

    releases: int
    epsilon: float
    delta: float
    rule: str
    """Which rule gives the epsilon: sums, or renyi (then the reserve is part of delta)."""


def price(guarantee: Guarantee) -> Charge:
    """Return what a guarantee costs in replace-one terms.

    Replacing a person is removing one and adding another, so an add-remove guarantee counts as
    (2 epsilon, (1 + e^epsilon) delta): group privacy for two steps.

    >>> from shuffledp import Model
    >>> price(Guarantee(epsilon=0.5, delta=0.0, model=Model.CENTRAL, proof="a proof",
    ...                 neighbours=Neighbours.ADD_REMOVE))
    Charge(epsilon=1.0, delta=0.0)
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if guarantee.neighbours is Neighbours.REPLACE_ONE:
        return Charge(epsilon=epsilon, delta=delta)
    doubled = _round_up(2 * _read(epsilon))
    if doubled == math.inf:
        raise ParameterError("epsilon", epsilon, "is too large to be charged")
    if delta == 0:
        return Charge(epsilon=doubled, delta=0.0)
    if epsilon > _SATURATED:
        return Charge(epsilon=doubled, delta=1.0)
    grown = _read(delta) * (1 + exp_upper(epsilon))
    return Charge(epsilon=doubled, delta=min(1.0, _round_up(grown)))


def add_up(charges: Sequence[Charge], budget: Budget) -> Spent:
    """Return what these releases cost together under the rules of the budget.

    >>> many = [Charge(epsilon=0.01, delta=0.0)] * 1000
    >>> total = add_up(many, Budget(epsilon=2.0, delta=1e-6, reserve=1e-6 / 2))
    >>> total.rule, total.epsilon < 1.8, total.delta
    ('renyi', True, 5e-07)
    """
    deltas = _sum(charge.delta for charge in charges)
    sums = Spent(
        releases=len(charges),
        epsilon=_round_up(_sum(charge.epsilon for charge in charges)),
        delta=_round_up(deltas),
        rule="sums",
    )
    composed = _compose_renyi(charges, budget)
    if composed >= sums.epsilon:
        return sums
    return Spent(
        releases=len(charges),
        epsilon=composed,
        delta=_round_up(deltas + _read(budget.reserve)),
        rule="renyi",
    )


def find_excess(charges: Sequence[Charge], budget: Budget) -> str | None:
    """Return why these releases exceed the budget; None if they fit.

    >>> half = Charge(epsilon=0.5, delta=0.0)
    >>> find_excess([half] * 2, Budget(epsilon=1.0, delta=0.0)) is None
    True
    >>> find_excess([half] * 3, Budget(epsilon=1.0, delta=0.0))
    'epsilon would be 1.5, and the budget is 1.0'
    """
    deltas = _sum(charge.delta for charge in charges) + _read(budget.reserve)
    if deltas > _read(budget.delta):
        kept = f" (of which {budget.reserve!r} is reserved)" if budget.reserve else ""
        return f"delta would be {_round_up(deltas)!r}{kept}, and the budget is {budget.delta!r}"
    epsilons = _sum(charge.epsilon for charge in charges)
    if epsilons <= _read(budget.epsilon):
        return None
    reached = min(_round_up(epsilons), _compose_renyi(charges, budget))
    if reached <= budget.epsilon:
        return None
    return f"epsilon would be {reached!r}, and the budget is {budget.epsilon!r}"


def _compose_renyi(charges: Sequence[Charge], budget: Budget) -> float:
    """Return the epsilon, at delta = reserve, that the sum of divergences gives; at least the exact one."""
    if budget.alpha is None:
        return math.inf
    counts = Counter(charge.epsilon for charge in charges)
    with localcontext(_CEILING):
        total = _convert(budget.alpha, budget.reserve)
        for epsilon, count in counts.items():
            total += count * _bound_divergence(epsilon, budget.alpha)
    return max(0.0, _round_up(Fraction(total)))


@lru_cache(maxsize=1 << 16)
def _bound_divergence(epsilon: float, alpha: float) -> Decimal:
    """Bound the Renyi divergence of randomized response from above: no epsilon-DP release has more."""
    e, order = Decimal(repr(epsilon)), Decimal(alpha)
    with localcontext(_CEILING):
        near, far = (-e).exp(), (-(2 * order - 1) * e).exp()
        spread = (1 + far).ln() - (1 + near).ln()
        exact = e + (spread + _SLACK) / (order - 1)
        return min(e, exact, order * e * e / 2)


@lru_cache(maxsize=1 << 16)
def _convert(alpha: float, delta: float) -> Decimal:
    """Bound from above what turns a divergence of order alpha into an epsilon at this delta."""
    order = Decimal(alpha)
    with localcontext(_CEILING):
        spread = -Decimal(repr(delta)).ln() - order.ln() + _SLACK
        return spread / (order - 1) + ((order - 1).ln() - order.ln())


def _choose_order(epsilon: float, delta: float) -> float:
    """Return the order that leaves room for the most small releases: sum epsilon_i^2 <= 2 room / alpha."""
    return max(_ORDERS, key=lambda alpha: (epsilon - float(_convert(alpha, delta))) / alpha)


def _read(value: float) -> Fraction:
    """Return the number that people see: 0.1 is one tenth."""
    return Fraction(repr(float(value)))


def _sum(values: Iterable[float]) -> Fraction:
    return sum((count * _read(value) for value, count in Counter(values).items()), Fraction(0))


def _round_up(value: Fraction) -> float:
    """Return the nearest float that, as people read it, is at least `value`."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf
    return near if _read(near) >= value else math.nextafter(near, math.inf)


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
        """The unit of its promise: a "person" with all their rows (devices always send for people), or a "row".

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
    accounts: dict[str, Account] = {}
    for place, event in enumerate(events, start=1):
        try:
            _apply(accounts, event)
        except (AttributeError, KeyError, TypeError, ValueError, ShuffledpError) as error:
            raise LedgerError(f"event {place} makes no sense: {error!r}") from error
    return accounts


def _apply(accounts: dict[str, Account], event: Event) -> None:
    account = accounts.get(event["dataset"])
    kind = event["event"]
    if kind == "budget":
        budget = Budget(
            epsilon=event["epsilon"],
            delta=event["delta"],
            reserve=event["reserve"],
            alpha=event["alpha"],
        )
        if account is None:
            accounts[event["dataset"]] = Account(budget=budget)
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
