"""What is asked of the planner, and everything in the registries that may answer it.

Nothing is listed by name: a maker gets the people and the promise, and those of the sensitivity and of the task's own
arguments (k, lower, upper, ...) that are among its options. So a protocol that is registered is planned with.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import takewhile
from typing import Any

from shuffledp import mechanisms, protocols
from shuffledp.core.domain import Domain, Reals
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Model, round_up
from shuffledp.core.protocol import Crowd, Hints, Least, Look, Maker, MechanismSpec, Promise
from shuffledp.core.task import Task
from shuffledp.core.validate import positive
from shuffledp.tasks import Histogram, task_named

MOST_VALUES = 1 << 22
"""Values of a domain up to which errors are computed exactly, value by value."""

_LARGEST_EPSILON = 100.0
_NO_HINTS = Hints()
_PROMISED = ("n", "delta")  # that every mechanism may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a plan: what may be spent, and whom one may trust.

    >>> Limits.of(max_messages=8, models=["shuffle"]).max_messages
    8.0
    """

    models: frozenset[Model]
    max_messages: float | None = None
    max_bits: float | None = None
    max_bytes: float | None = None
    """The most bytes of a report as a live collection carries it, encrypted."""
    max_influence: float | None = None
    """How far one report may move the answer at most, counted in people."""
    local_epsilon: float | None = None
    """What every report must keep if everybody else conspires."""

    @classmethod
    def of(
        cls,
        *,
        models: Iterable[Model | str] | Model | str,
        max_messages: float | None = None,
        max_bits: float | None = None,
        max_bytes: float | None = None,
        max_influence: float | None = None,
        local_epsilon: float | None = None,
    ) -> "Limits":
        """Make one from checked arguments."""
        return cls(
            max_messages=_at_least_one("max_messages", max_messages),
            max_bits=_at_least_one("max_bits", max_bits),
            max_bytes=_at_least_one("max_bytes", max_bytes),
            max_influence=_at_least_one("max_influence", max_influence),
            local_epsilon=None
            if local_epsilon is None
            else positive("local_epsilon", local_epsilon),
            models=_models(models),
        )

    @property
    def live(self) -> bool:
        """Whether a limit of live collections was given: then plans show what they are about."""
        return not (self.max_bytes is self.max_influence is self.local_epsilon is None)

    def refuse(self, size: int | None, influence: float | None, local: float | None) -> str | None:
        """Say why a live collection would not carry it; None if it would, or if there are no such limits.

        >>> Limits.of(models="local", max_bytes=100).refuse(104, 1.2, 3.0)
        '104 bytes per report, more than 100'
        """
        over = []
        if self.max_bytes is not None and (size is None or size > self.max_bytes):
            sent = "no report" if size is None else f"{size:,} bytes per report"
            over.append(f"{sent}, more than {self.max_bytes:g}")
        if self.max_influence is not None and (influence is None or influence > self.max_influence):
            moved = (
                "no known bound" if influence is None else f"up to {round_up(influence, 4)} people"
            )
            over.append(f"one report moves the answer by {moved}, more than {self.max_influence:g}")
        if self.local_epsilon is not None and (local is None or local > self.local_epsilon):
            kept = "no local floor" if local is None else f"a local epsilon of {round_up(local, 4)}"
            over.append(f"{kept}, and {self.local_epsilon:g} was asked for")
        return "; ".join(over) or None

    def excess(self, messages: float, bits: float) -> str | None:
        """Say by how much a user would send too much; None if it is within the limits."""
        spent = (("messages", messages, self.max_messages), ("bits", bits, self.max_bits))
        over = [
            f"{used:.4g} {name} per user, more than {most:g}"
            for name, used, most in spent
            if most is not None and used > most
        ]
        return "; ".join(over) or None


def _at_least_one(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    checked = positive(name, value)
    if checked < 1:
        raise ParameterError(name, value, "must be >= 1")
    return checked


def _models(models: Iterable[Model | str] | Model | str) -> frozenset[Model]:
    given = [models] if isinstance(models, Model | str) else list(models)
    known = {each.value: each for each in Model} | {each: each for each in Model}
    if not given or any(each not in known for each in given):
        names = ", ".join(each.value for each in Model)
        raise ParameterError("models", models, f"must be among {names}")
    return frozenset(known[each] for each in given)


def check_delta(delta: float, n: int, *, allow_large_delta: bool = False) -> tuple[str, ...]:
    """Refuse a delta above 1/n, unless it is allowed; returns what must be said about one near it.

    Publishing the value of one person in n, chosen at random, keeps epsilon = 0 with delta = 1/n.

    >>> check_delta(1e-8, 1_000_000)
    ()
    >>> check_delta(2e-6, 1_000_000)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: delta=2e-06 must be at most 1/n = 1e-06: even publishing one person's value in the clear would satisfy it; choose it far below 1/n (such as 1e-08), or set allow_large_delta
    """
    people = n * Fraction(repr(delta))  # 0.001 means 1/1000, not the float beside it
    hint = hint_delta(n)
    if people > 1 and not allow_large_delta:
        raise ParameterError(
            "delta",
            delta,
            f"must be at most 1/n = {1 / n:.3g}: even publishing one person's value in the clear would satisfy it; "
            f"choose it far below 1/n (such as {hint:.3g}), or set allow_large_delta",
        )
    if 10 * people <= 1:
        return ()
    return (
        f"delta = {delta:.3g} is large for n = {n:,}: with delta = 1/n = {1 / n:.3g}, publishing one "
        f"person's value in the clear would be allowed. Choose it far below, such as {hint:.3g}.",
    )


def hint_delta(n: int) -> float:
    """Return a power of ten that is at most a hundredth of 1/n.

    >>> hint_delta(1_000_000), hint_delta(336_776)
    (1e-08, 1e-08)
    """
    return float(f"1e-{len(str(n - 1)) + 2}")


def find_planned(name: str) -> type[Task]:
    """Return the task of that name, if the planner ranks its protocols.

    >>> find_planned("mean").__name__
    'Mean'
    >>> find_planned("uniformity")
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: the planner does not rank protocols for uniformity: see sdp.uniformity_test (shuffledp test)
    """
    task = task_named(name)
    if task.elsewhere is not None:
        raise UnsupportedError(
            f"the planner does not rank protocols for {name}: see {task.elsewhere}"
        )
    return task


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A question with all its numbers, checked; hashable, so that answers can be cached.

    >>> Problem.of("count", n=1000, epsilon=1.0, delta=1e-6, honest=0.9).domain
    Bits()
    """

    task: Task
    crowd: Crowd
    promise: Promise

    @classmethod
    def of(
        cls,
        task: str | Task,
        *,
        n: int,
        epsilon: float,
        delta: float,
        honest: float,
        **options: Any,
    ) -> "Problem":
        """Make one from checked arguments; a task by name is declared by the options."""
        promise = Promise(epsilon=epsilon, delta=delta)
        if promise.epsilon > _LARGEST_EPSILON:
            raise ParameterError(
                "epsilon",
                epsilon,
                f"must be <= {_LARGEST_EPSILON:g}, which already protects nobody",
            )
        question = find_planned(task).declare(options).task if isinstance(task, str) else task
        question = question.fit(n, epsilon)
        size = question.domain.size
        if question.listed and size > MOST_VALUES:
            raise ParameterError(
                "domain",
                question.domain,
                f"has {size:,} values: errors are computed for up to {MOST_VALUES:,}",
            )
        return cls(task=question, crowd=Crowd(n=n, honest=honest), promise=promise)

    def at(self, *, n: int | None = None, epsilon: float | None = None) -> "Problem":
        """Return the same question for other people, or with another epsilon."""
        crowd = self.crowd if n is None else replace(self.crowd, n=n)
        promise = self.promise if epsilon is None else replace(self.promise, epsilon=epsilon)
        task = self.task.fit(crowd.n, promise.epsilon)
        return replace(self, task=task, crowd=crowd, promise=promise)

    @property
    def n(self) -> int:
        """How many people take part."""
        return self.crowd.n

    @property
    def epsilon(self) -> float:
        """The epsilon to keep."""
        return self.promise.epsilon

    @property
    def domain(self) -> Domain:
        """Where the values come from."""
        return self.task.domain

    @property
    def raw_bits(self) -> int:
        """Bits of a person's values in the clear."""
        return self.task.values * (self.domain.size - 1).bit_length()

    @property
    def rounding(self) -> float:
        """The largest standard deviation of what rounding n values at random to the grid adds to their sum.

        >>> Problem.of("sum", n=100, epsilon=1.0, delta=0, honest=1.0, upper=1.0, steps=10).rounding
        0.5
        """
        if not isinstance(self.domain, Reals):
            return 0.0
        step = (self.domain.upper - self.domain.lower) / self.domain.steps
        return step * math.sqrt(self.n) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A maker of the registry, in one model of trust."""

    name: str
    model: Model
    maker: Maker | MechanismSpec
    amplified: bool = False
    """Whether it is a local protocol behind a shuffler."""
    hints: Hints = _NO_HINTS

    def make(self, asked: Problem, **more: Any) -> Any:
        """Return the protocol or mechanism for this question.

        >>> asked = Problem.of("sum", n=100, epsilon=1.0, delta=1e-6, honest=1.0, upper=9)
        >>> adder = next(c for c in candidates(asked.task) if c.name == "split_and_mix")
        >>> adder.make(asked).parameters["upper"]
        9
        """
        task, given = asked.task, self._choose_options(asked, more)
        if task.values > 1:
            return self._make_several(asked, given)
        return self.maker.build(asked.crowd, asked.promise, **given)

    def foresee_least(self, asked: Problem) -> Least:
        """Return the least that a person will send, as the protocol's author states it; 0 where that is unknown.

        >>> asked = Problem.of("histogram", n=100, epsilon=1.0, delta=1e-6, honest=1.0, k=9)
        >>> [c.foresee_least(asked).bits_per_message for c in candidates(asked.task, ["krr", "fake_users"])]
        [0, 0, 9]
        """
        if self.hints.least is None or asked.task.values > 1 or self.model is Model.CENTRAL:
            return Least()
        return self.hints.least(asked.crowd, asked.promise, **self._choose_options(asked, {}))

    def _choose_options(self, asked: Problem, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the task and the planner say of the options that the maker has."""
        task, options = asked.task, self.maker.options
        known = {**more, **task.arguments()}
        if self.model is Model.CENTRAL:
            known["sensitivity"] = task.sensitivity(asked.n)
        if options.get("steps") and known.get("steps") is None:
            known["steps"] = task.domain.size - 1  # a grid it must be: that of the integers
        given = {name: known[name] for name in options if known.get(name) is not None}
        missing = [name for name, needed in options.items() if needed and name not in given]
        missing = [name for name in missing if name not in _PROMISED]
        if missing:
            raise UnsupportedError(
                f"it needs {', '.join(missing)}, which a {task.name} does not have"
            )
        return given

    def _make_several(self, asked: Problem, options: Mapping[str, Any]) -> Any:
        """Return the same for people who have several values each."""
        task = asked.task
        assert isinstance(task, Histogram)
        if self.model is Model.CENTRAL:
            if not self.takes("sensitivity"):
                raise UnsupportedError("it is for people who have one value each")
            return self.maker.build(asked.crowd, asked.promise, **options)
        given = {"values": task.values, "inner": self.name, "options": options}
        several = protocols.spec("several_values")
        assert several.make is not None
        assert several.make_local is not None
        if self.model is Model.LOCAL:
            return several.make_local.build(asked.crowd, asked.promise, **given)
        return several.make.build(asked.crowd, asked.promise, apart=task.apart, **given)

    @property
    def newcomer(self) -> bool:
        """Whether nothing is known about it: then it is always tried."""
        return self.model is not Model.CENTRAL and self.hints.look is Look.ALWAYS

    def takes(self, parameter: str) -> bool:
        """Return whether the maker has that parameter."""
        return parameter in self.maker.options


def candidates(task: Task, names: Collection[str] | None = None) -> Iterator[Candidate]:
    """Yield all makers of the registries that answer a task, or those of some names in that order; central ones first.

    Protocols are loaded one by one: whoever stops early waits for no more.

    >>> task = task_named("count").declare({}).task
    >>> [each.name for each in candidates(task) if each.model is not Model.SHUFFLE]
    ['geometric', 'binomial', 'rr']
    >>> [each.name for each in candidates(task, ["rr", "krr"])]
    ['rr', 'rr']
    """
    yield from curators(task, names)
    for spec in protocols.list_answering(*task.answered_by, names=names):
        both = spec.make_local is not None
        for model, maker in ((Model.SHUFFLE, spec.make), (Model.LOCAL, spec.make_local)):
            if maker is not None:
                yield Candidate(
                    name=spec.name,
                    model=model,
                    maker=maker,
                    amplified=both and model is Model.SHUFFLE,
                    hints=spec.hints,
                )


def list_early(task: Task) -> list[Candidate]:
    """List the candidates that are not late. They come first, so only the first late one is loaded to see its hints.

    >>> [each.name for each in list_early(task_named("count").declare({}).task)]
    ['geometric', 'binomial', 'correlated_count', 'split_and_mix']
    """
    return [*takewhile(lambda each: each.hints.look is not Look.LATE, candidates(task))]


def curators(task: Task, names: Collection[str] | None = None) -> list[Candidate]:
    """List the mechanisms of the central model that answer a task.

    >>> [each.name for each in curators(task_named("mean").declare({"lower": 0, "upper": 9}).task)]
    ['laplace']
    """
    wanted = (task.name, "histogram") if task.bins else (task.name,)
    known = mechanisms.list_answering(*wanted, names=names)
    return [Candidate(name=each.name, model=Model.CENTRAL, maker=each) for each in known]
