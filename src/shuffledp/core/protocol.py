"""Concept 5, the protocol P = (R, A) with its guarantee: the unit that everything else takes.

And its baseline, the central model: a trusted curator sees the raw data and releases one noisy answer. Mechanisms have
no shuffler, and state what they promise in the same words: a `Guarantee`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Analyzer, Estimate
from shuffledp.core.capabilities import Capabilities, CentralCapabilities
from shuffledp.core.display import shorten_label
from shuffledp.core.domain import Answers, Bins, Bits, Categories, Cells, Domain, Integers, Reals
from shuffledp.core.errors import DataError, MismatchError, ParameterError
from shuffledp.core.notebook import list_facts, say, stack
from shuffledp.core.privacy import Guarantee, Model, Profile
from shuffledp.core.randomizer import Randomizer, WordSource
from shuffledp.core.validate import below_one, number, positive, whole

HONEST = 0.9
"""The fraction of users whose noise a shuffled guarantee counts on, unless stated otherwise."""

_LEAST_EPSILON = 1e-100

Parameters = Mapping[str, Any]
"""Plain numbers and strings, as they are written in JSON."""


class Calibration(Enum):
    """Where the parameters of the noise come from.

    >>> Calibration("paper")
    <Calibration.PAPER: 'paper'>
    """

    EXACT = "exact"
    """The law itself."""
    PAPER = "paper"
    """The published theorem, inside its conditions."""

    @classmethod
    def read(cls, name: "Calibration | str") -> "Calibration":
        """Return the member of that name.

        >>> Calibration.read("rough")
        Traceback (most recent call last):
        shuffledp.core.errors.ParameterError: calibration='rough' must be 'exact' or 'paper'
        """
        if name not in [*cls, *(each.value for each in cls)]:
            raise ParameterError("calibration", name, "must be 'exact' or 'paper'")
        return cls(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The people who take part: how many, and which share of them is assumed to follow the protocol.

    >>> Crowd(n=1001, honest=0.9).trusted
    900
    """

    n: int
    honest: float = HONEST
    trusted: int = field(init=False, repr=False)
    """How many honest people the guarantee counts on, the protected one included."""

    def __post_init__(self) -> None:
        n, honest = whole("n", self.n, at_least=1), number("honest", self.honest)
        if not 0 < honest <= 1:
            raise ParameterError("honest", self.honest, "must be > 0 and <= 1")
        trusted = math.floor(Fraction(repr(honest)) * n)  # 0.7 means 7/10, not the float below it
        if trusted < 1 and n == 1:
            raise ParameterError(
                "n", n, f"must be larger: honest={honest!r} of one person is nobody"
            )
        if trusted < 1:
            raise ParameterError("honest", honest, f"must leave at least one of n={n} users")
        for name, value in (("n", n), ("honest", honest), ("trusted", trusted)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The epsilon and delta that a protocol is asked to keep; delta = 0 is a pure promise.

    >>> Promise(epsilon=1, delta=1e-6)
    Promise(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if self.epsilon < _LEAST_EPSILON:  # its square would be 0
            raise ParameterError("epsilon", self.epsilon, f"must be >= {_LEAST_EPSILON:g}")
        object.__setattr__(self, "delta", below_one("delta", self.delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The messages and bits that one user sends."""

    messages_mean: float
    messages_max: int
    bits_per_message: int
    count_depends_on_value: bool
    """If so, the transport must hide how many messages each user sends."""

    @classmethod
    def fixed(cls, bits: int, messages: int = 1) -> "Cost":
        """Return the same number of messages from everybody, whatever the value.

        >>> Cost.fixed(4).messages_mean
        1.0
        """
        return cls(
            messages_mean=float(messages),
            messages_max=messages,
            bits_per_message=bits,
            count_depends_on_value=False,
        )

    @classmethod
    def add(cls, costs: Sequence["Cost"], bits: int) -> "Cost":
        """Add up the costs of several parts, whose messages have `bits` bits.

        >>> Cost.add([Cost.fixed(4), Cost.fixed(3)], 5).messages_max
        2
        """
        return cls(
            messages_mean=math.fsum(cost.messages_mean for cost in costs),
            messages_max=sum(cost.messages_max for cost in costs),
            bits_per_message=bits,
            count_depends_on_value=any(cost.count_depends_on_value for cost in costs),
        )


class Device(Randomizer, Protocol):
    """A randomizer that knows what it sends."""

    @property
    def cost(self) -> Cost:
        """The messages and bits that one user sends."""


class Noisy(Protocol):
    """Hides a user behind everybody's noise, and knows how well: a device, or a part of one."""

    @property
    def proof(self) -> str:
        """The theorem or computation behind `delta`."""

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound delta at epsilon from above, for what the shuffler shows if `honest` users make noise."""


class CurvedNoise(Noisy, Protocol):
    """A noisy part that may know its whole privacy curve, which is faster than one `delta` after the other."""

    def open_curve(self, honest: int) -> tuple[Profile, float] | None:
        """Return the curve of ideal noise of `honest` users, and the distance d of the sampled noise to it.

        The noise itself has at most the curve's delta + (1 + e^epsilon) d. None: only `delta` knows.
        """


class Accountant(Protocol):
    """The part of a protocol's promise that depends on who is honest."""

    def guarantee(self, honest: int) -> Guarantee:
        """Return the guarantee if that many users (the protected one included) follow the protocol."""

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound delta at any epsilon from above, if that many users follow the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconditional:
    """An accountant whose guarantee does not depend on others, as in the local model.

    >>> always = Guarantee(epsilon=1.0, delta=0.0, model=Model.LOCAL, proof="Warner 1965")
    >>> Unconditional(always=always).delta(honest=1, epsilon=1.0)
    0.0
    """

    always: Guarantee

    def guarantee(self, honest: int) -> Guarantee:
        return self.always

    def delta(self, honest: int, epsilon: float) -> float:
        return pure_delta(self.always.epsilon, epsilon)


def pure_delta(epsilon0: float, epsilon: float) -> float:
    """Bound delta at epsilon from above, for anything that is epsilon0-private with delta = 0.

    Randomized response is the worst: (e^epsilon0 - e^epsilon) / (e^epsilon0 + 1).

    >>> pure_delta(1.0, 1.0), round(pure_delta(1.0, 0.0), 4)
    (0.0, 0.4621)
    """
    if epsilon >= epsilon0:
        return 0.0
    worst = -math.expm1(epsilon - epsilon0) / (1 + math.exp(-epsilon0))
    return min(1.0, worst * (1 + 1e-14))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseAccountant:
    """The accountant of every device that knows the delta of its noise: delta at a fixed epsilon."""

    device: Noisy
    epsilon: float
    curve: Callable[[int], tuple[Profile, float] | None] | None = field(default=None, compare=False)
    """The whole privacy curve, if the device has it at hand."""

    def guarantee(self, honest: int) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta(honest, self.epsilon),
            model=Model.SHUFFLE,
            proof=self.device.proof,
            honest=honest,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        return min(1.0, self.device.delta(honest, epsilon))


@dataclass(frozen=True, slots=True)
class Parts(Capabilities):
    """What the author of a protocol builds; everything else is derived from it.

    Optional capabilities are declared by name, `Parts(device, analyzer, deal=device.deal)`: see `core.capabilities`.
    """

    device: Device
    analyzer: Analyzer
    accountant: Accountant | None = field(default=None, kw_only=True)
    """None for a device that is `Noisy`, which accounts for itself, and in the local model."""
    task: str | None = field(default=None, kw_only=True)
    """What it answers, if not what its maker was declared with."""
    resolved: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Parameters that were chosen here, to be recorded in place of their defaults."""
    values: int = field(default=1, kw_only=True)
    """How many values each person has, each of them an input of its own."""

    @property
    def offers(self) -> Capabilities:
        """The capabilities alone."""
        return Capabilities(
            **{each.name: getattr(self, each.name) for each in fields(Capabilities)}
        )


_LONGEST = 500  # characters of all parameters together, where they are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleProtocol:
    """P = (R, A) and what it promises; `name` and `parameters` rebuild it."""

    name: str
    parameters: Parameters
    task: str
    randomizer: Device
    analyzer: Analyzer
    guarantee: Guarantee
    accountant: Accountant
    users: int | None = None
    """How many people take part; None if it does not matter, as in the local model."""
    values: int = 1
    """How many values each person has: a person is that many inputs, and the guarantee is about all of them."""
    local_floor: Guarantee | None = None
    """What still holds if the shuffler tells the analyzer who sent what; None: nothing."""
    offers: Capabilities = field(default=Capabilities(), compare=False, repr=False)
    """What its author declared beyond randomizer and analyzer."""

    def __hash__(self) -> int:
        return hash((self.name, self.randomizer))  # `parameters` is a mapping

    @property
    def cost(self) -> Cost:
        """The messages and bits that one user sends."""
        each = self.randomizer.cost
        return each if self.values == 1 else Cost.add([each] * self.values, each.bits_per_message)

    def count_people(self, inputs: int) -> int:
        """Count the people who have this many values together; refuse a number that leaves somebody with a part of theirs.

        >>> from shuffledp import protocols
        >>> several = protocols.make("several_values", values=2, inner="krr", options={"k": 4}, epsilon=1.0)
        >>> several.count_people(200)
        100
        """
        people, rest = divmod(inputs, self.values)
        if rest:
            raise DataError(f"{inputs:,} values are not {self.values} of each person")
        return people

    def _repr_html_(self) -> str:
        """Return how notebooks show it: what it is for, what it costs, and what it promises."""
        made = ", ".join(f"{name} = {value}" for name, value in self.parameters.items())
        facts: list[tuple[str, object]] = [
            ("task", self.task),
            ("parameters", shorten_label(made, _LONGEST)),
            ("messages per person", f"{self.cost.messages_mean:.4g} on average"),
            ("bits per message", f"{self.cost.bits_per_message:.4g}"),
            ("guarantee", self.guarantee),
        ]
        if self.guarantee.model is Model.SHUFFLE:
            left = "nothing" if self.local_floor is None else self.local_floor
            facts.append(("left if the shuffler reveals who sent what", left))
        return stack(say(self.name, bold=True), list_facts(facts))

    @property
    def dealt(self) -> bool:
        """Whether the tally of many people can be drawn without their messages, exactly.

        >>> from shuffledp import protocols
        >>> protocols.krr.make_local(k=4, epsilon=1.0).dealt
        True
        >>> protocols.local_hashing.make_local(k=4, epsilon=1.0).dealt
        False
        """
        return self.offers.deal is not None

    def guarantee_if(self, honest: float) -> Guarantee:
        """Return the guarantee that is left if only this share of the people who take part follows the protocol.

        >>> from shuffledp import protocols
        >>> protocols.krr.make_local(k=4, epsilon=1.0).guarantee_if(honest=0.5).epsilon
        1.0
        """
        if self.users is None:
            return self.accountant.guarantee(1)
        return self.accountant.guarantee(honest_users(self.users, honest))

    def with_people(self, people: int, honest: float | None = None) -> "ShuffleProtocol":
        """Return the same protocol, with the guarantee for the number of people who really took part.

        The share of them that is assumed honest stays as it was, unless another is given. Who drops out makes no noise: with
        fewer people than the noise was made for, the guarantee is weaker.

        >>> from shuffledp import protocols
        >>> planned = protocols.zsum_sparse.make(n=100_000, epsilon=1.0, delta=1e-6)
        >>> few = planned.with_people(90_000)
        >>> few.guarantee.honest, few.guarantee.delta > 1e-6
        (81000, True)
        """
        if self.users is None or (people == self.users and honest is None):
            return self
        share = self.parameters["honest"] if honest is None else honest
        made = self.accountant.guarantee(honest_users(people, share))
        return replace(self, users=people, guarantee=made)

    def check_users(self, n: int) -> None:
        """Refuse fewer users than the guarantee counts on.

        >>> from shuffledp import protocols
        >>> protocols.zsum_sparse.make(n=1000, epsilon=1.0, delta=1e-6).check_users(899)
        Traceback (most recent call last):
        shuffledp.core.errors.DataError: 899 values, but the guarantee of zsum_sparse needs the noise of at least 900 users: make the protocol for the number of users there are
        """
        needed = self.guarantee.honest
        if self.count_people(n) < needed:
            raise DataError(
                f"{n} values, but the guarantee of {self.name} needs the noise of at least "
                f"{needed} users: make the protocol for the number of users there are"
            )

    def match_domain(self, domain: Domain | None) -> Domain:
        """Return the declared domain, if its codes mean what the protocol's mean; for None, the protocol's own.

        A bit is the number 0 or 1, and integers are points of a grid: a sum of integers 0 .. 1 counts bits.

        >>> from shuffledp import Bits, Categories, protocols
        >>> adder = protocols.make("split_and_mix", n=100, lower=0, upper=1, epsilon=1.0, delta=1e-6)
        >>> adder.match_domain(Bits())
        Bits()
        >>> protocols.krr.make_local(k=3, epsilon=1.0).match_domain(Categories(k=2))
        Traceback (most recent call last):
        shuffledp.core.errors.MismatchError: the protocol krr is for Categories(k=3, names=None), not for Categories(k=2, names=None)
        """
        native = self.randomizer.domain
        if domain is None or domain == native:
            return native
        # A histogram counts whatever has that many values: integers, bins, pairs of answers.
        counted = isinstance(native, Categories) and not isinstance(domain, Bits | Reals | Cells)
        if native.size == domain.size and counted:
            return domain
        if _same_numbers(native, domain):
            return native if isinstance(native, Reals) else domain  # a grid takes every number
        raise MismatchError(f"the protocol {self.name} is for {native!r}, not for {domain!r}")


def _same_numbers(one: Domain, other: Domain) -> bool:
    """Return whether codes stand for the same numbers in both; a domain from a plug-in is asked about every code."""
    numbers = (Bits, Integers, Reals)
    if (
        not isinstance(one, numbers)
        or one.size != other.size
        or isinstance(other, (Categories, Bins, Cells, Answers))
    ):
        return False
    every = not isinstance(other, numbers)  # ours are evenly spaced between their ends
    codes = np.arange(one.size) if every else np.array([0, one.size - 1])
    return bool(np.array_equal(one.values(codes), other.values(codes)))


def honest_users(n: int, honest: float) -> int:
    """Count a fraction `honest` of n users, rounded down.

    >>> honest_users(1001, 0.9)
    900
    """
    return Crowd(n=n, honest=honest).trusted


class Look(Enum):
    """When the planner looks at a protocol."""

    ALWAYS = "always"
    """Nothing is known of it: every newcomer."""
    FIRST = "first"
    """It usually wins: look at it first, and at no late one if it is good enough."""
    LATE = "late"
    """It rarely wins: look at it if none of the others is good enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """What every person sends at least, whatever else is chosen when a protocol is made."""

    messages: float = 0.0
    bits_per_message: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the author of a protocol tells the planner; a protocol without a hint is always tried.

    >>> Hints().look
    <Look.ALWAYS: 'always'>
    """

    look: Look = Look.ALWAYS
    any_size: bool = False
    """Whether neither its error nor its messages grow with the number of categories."""
    levels: bool = False
    """Whether it takes an epsilon for each level of its `shape`, as `levels`: so that parts of a survey share a budget."""
    frugal: str | None = None
    """The protocol that is nearly as good with fewer messages where many histograms share a budget."""
    wins: tuple[tuple[str, float], ...] = ()
    """A setting where it has the smallest error of all, if that is rare: the numbers of a plan by name. It is tested."""
    least: Callable[..., Least] | None = None
    """What a person sends at least, given crowd, promise and its own options: what nobody would send is not made."""


LATE = Hints(look=Look.LATE)


class Maker(Protocol):
    """Builds a protocol from the people, the promise and its own options; a call takes all of them by name."""

    @property
    def options(self) -> Mapping[str, bool]:
        """Its own options, and whether each of them must be given."""

    @property
    def parameters(self) -> Mapping[str, bool]:
        """The same for everything that a call takes: the options, n, epsilon, delta and honest."""

    def build(self, crowd: Crowd, promise: Promise, **options: Any) -> ShuffleProtocol:
        """Return the protocol for these people."""

    def __call__(self, **arguments: Any) -> ShuffleProtocol: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A line of the registry: all that tests, docs, planner and command line need to know.

    `make_local(epsilon=..., ...)` builds the protocol of the local model, `make(n=..., epsilon=...,
    delta=..., honest=..., ...)` that of the shuffle model; a protocol has one of them or both.
    """

    name: str
    title: str
    task: str
    reference: str
    make_local: "Maker | None" = None
    make: "Maker | None" = None
    hints: Hints = Hints()


class CentralMechanism(Protocol):
    """What all mechanisms have in common; `name` and `parameters` rebuild one."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def parameters(self) -> Parameters:
        """Plain numbers and strings, as they are written in JSON."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about the release."""

    def accuracy(self, beta: float) -> float:
        """Return an alpha such that the error is at most alpha, except with probability beta."""


@runtime_checkable
class Mechanism(CentralMechanism, Protocol):
    """Answers with numbers."""

    def release(self, exact_answer: Any, rng: WordSource) -> Estimate:
        """Return the answer with noise. Each call spends the guarantee once more."""

    def variance(self) -> float:
        """Compute the exact variance of the noise in each number."""

    @property
    def offers(self) -> CentralCapabilities:
        """What it declares beyond that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One candidate: its position, and its label if the candidates have any.

    >>> Selection(index=1, label="coffee").label
    'coffee'
    """

    index: int
    label: str | None = None


@runtime_checkable
class Selector(CentralMechanism, Protocol):
    """Answers with one of finitely many candidates."""

    def select(self, utilities: ArrayLike, rng: WordSource) -> Selection:
        """Return a candidate of nearly the highest utility. Each call spends the guarantee once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismSpec:
    """An entry of the registry: everything that tests, docs, planner and command line need to know."""

    name: str
    title: str
    tasks: tuple[str, ...]
    """What it answers; empty for a selection."""
    reference: str
    make: Callable[..., Mechanism | Selector]
    options: Mapping[str, bool] = field(hash=False)
    """What `make` takes besides epsilon and the planner knows: n, delta, the sensitivity and what a task says of itself;
    and whether each of them must be given."""

    def build(self, crowd: Crowd, promise: Promise, **options: Any) -> Mechanism | Selector:
        """Return the mechanism for these people: `make` with those of n and delta that it takes."""
        known = {"n": crowd.n, "delta": promise.delta}
        more = {name: value for name, value in known.items() if name in self.options}
        return self.make(epsilon=promise.epsilon, **more, **options)
