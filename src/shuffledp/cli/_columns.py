"""From options to a column, its public domain and a protocol: what `run` and `randomize` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shuffledp as sdp

if TYPE_CHECKING:
    from shuffledp.core.domain import Domain
    from shuffledp.core.protocol import ShuffleProtocol
    from shuffledp.core.task import Task
    from shuffledp.engine.columns import FileColumn
    from shuffledp.engine.job import Engine, Headcount, Report

__all__ = ["Asked", "Model", "OnInvalidName", "Prepared", "prepare"]


class Model(StrEnum):
    """Who is trusted."""

    SHUFFLE = "shuffle"
    LOCAL = "local"


class OnInvalidName(StrEnum):
    """What becomes of a value outside the declared domain."""

    ERROR = "error"
    DROP = "drop"
    OTHER = "other"
    CLAMP = "clamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options say."""

    task: str
    paths: list[str]
    column: str | None
    epsilon: float
    delta: float | None
    categories: str | None
    categories_file: Path | None
    categories_from_data: bool
    lower: float | None
    upper: float | None
    steps: int | None
    on_invalid: OnInvalidName
    engine: str
    master: str | None
    protocol: str | None
    model: Model
    max_messages: float | None
    honest: float | None
    n: int | None
    threads: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All that must be known before anybody's value is randomized."""

    column: FileColumn
    engine: Engine
    found: Headcount
    domain: Domain | None
    """None if the protocol's own domain says what the values are."""
    protocol: ShuffleProtocol
    notes: list[str] = field(default_factory=list)
    """What the reader of the result should know."""
    not_private: list[str] = field(default_factory=list)
    """What the result tells that no noise protects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A column of files as a task may see it while it fixes its domain."""

    column: FileColumn
    threads: int | None

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def fractional(self) -> bool:
        return any(word in self.column.type for word in ("float", "double", "decimal"))

    def categories(self) -> tuple[str, ...]:
        from shuffledp.engine.files import categories_of

        return categories_of(self.column, threads=self.threads)


def prepare(asked: Asked, report: Report | None) -> Prepared:
    """Open the column, fix the domain, count the users and make the protocol."""
    from shuffledp.engine import find_engine, headcount, open_column
    from shuffledp.planner.question import planned

    task = planned(asked.task)
    task.given(_options(asked))
    _check(asked)
    engine = find_engine(asked.engine, threads=asked.threads, master=asked.master)
    column = open_column(asked.paths, asked.column)
    declared = task.declare(_options(asked), _Seen(column=column, threads=asked.threads))
    question = _on_a_grid(declared.task) if asked.model is Model.LOCAL else declared.task
    found = headcount(
        column,
        question.domain,
        asked.on_invalid.value,
        engine=engine,
        report=report,
    )
    protocol = _protocol(asked, found.n if asked.n is None else asked.n, question)
    own = protocol.randomizer.domain
    return Prepared(
        column=column,
        engine=engine,
        found=found,
        domain=None if _codes_itself(own, question.domain) else question.domain,
        protocol=protocol,
        notes=list(declared.notes),
        not_private=list(declared.not_private),
    )


def _codes_itself(own: Domain, declared: Domain) -> bool:
    """Whether the values are what the protocol's own domain says: there are no names to tell."""
    return own == declared or isinstance(own, sdp.Integers | sdp.Reals)


def _options(asked: Asked) -> dict[str, Any]:
    return {
        "categories": asked.categories,
        "categories_file": asked.categories_file,
        "categories_from_data": asked.categories_from_data,
        "lower": asked.lower,
        "upper": asked.upper,
        "steps": asked.steps,
    }


def _on_a_grid(task: Task) -> Task:
    """Local protocols for numbers take reals: the integers are the points of a grid."""
    domain = task.domain
    if task.bins or not isinstance(domain, sdp.Integers):
        return task
    grid = sdp.Reals(lower=domain.lower, upper=domain.upper, steps=domain.size - 1)
    return type(task)(domain=grid)


def _check(asked: Asked) -> None:
    """Refuse options that contradict each other."""
    if asked.model is Model.SHUFFLE and asked.delta is None:
        raise sdp.UnsupportedError("the shuffle model needs --delta: choose it far below 1/n")
    if asked.model is Model.LOCAL:
        _check_local(asked)


def _check_local(asked: Asked) -> None:
    given = {
        "--delta": asked.delta,
        "--honest": asked.honest,
        "--max-messages": asked.max_messages,
    }
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise sdp.UnsupportedError(
            f"the local model takes no {', '.join(wrong)}: its delta is 0, its people trust nobody, "
            "and they send one message"
        )


def _protocol(asked: Asked, n: int, task: Task) -> ShuffleProtocol:
    from shuffledp.planner.choose import chosen

    if asked.protocol is not None:
        return _named(asked.protocol, asked, n, task)
    if asked.model is Model.LOCAL:
        return _named(_local_name(asked, n, task), asked, n, task)
    given: dict[str, Any] = {}
    if asked.honest is not None:
        given["honest"] = asked.honest
    if asked.max_messages is not None:
        given["max_messages"] = asked.max_messages
    assert asked.delta is not None
    return chosen(task, n=n, epsilon=asked.epsilon, delta=asked.delta, **given)


def _local_name(asked: Asked, n: int, task: Task) -> str:
    """The local protocol that the planner chooses among those that answer the question itself."""
    from shuffledp.planner.choose import shrunk
    from shuffledp.planner.rank import choose

    found = sdp.plan(shrunk(task), n=n, epsilon=asked.epsilon, delta=0.0, trust="local")
    rows = [row for row in found.rows if row.answers == found.task]
    best = choose(rows, found.aim)
    if best is not None:
        return best.protocol
    if found.chosen is not None:
        raise sdp.UnsupportedError(
            f"the local model has no {task.name} here: ask for the {found.chosen.answers}, times n"
        )
    raise sdp.UnsupportedError(f"no protocol fits: {found.reasons()}")


def _named(name: str, asked: Asked, n: int, task: Task) -> ShuffleProtocol:
    """A protocol by name, with the parameters that it takes."""
    from shuffledp.planner.candidates import maker_arguments

    spec = sdp.protocols.spec(name)
    maker = spec.make if asked.model is Model.SHUFFLE else spec.make_local
    if maker is None:
        raise sdp.UnsupportedError(f"{name} is not a protocol of the {asked.model.value} model")
    if asked.max_messages is not None:
        raise sdp.UnsupportedError("--max-messages chooses a protocol: leave out --protocol")
    if spec.task not in task.answered_by:
        raise sdp.UnsupportedError(f"{name} answers a {spec.task}, not a {task.name}")
    given: dict[str, Any] = {
        "n": n,
        "delta": asked.delta,
        "epsilon": asked.epsilon,
        "honest": asked.honest,
    }
    protocol = maker(**maker_arguments(maker, task, given))
    if sdp.tasks.task_named(protocol.task).average != task.average:
        raise sdp.UnsupportedError(f"{name} answers a {protocol.task}, not a {task.name}")
    return protocol
