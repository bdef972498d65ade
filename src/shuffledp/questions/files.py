"""Survey files: TOML that a person writes, read in one place for files and for live collections."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Any

from shuffledp.core.errors import DataError, ShuffledpError
from shuffledp.core.privacy import Model
from shuffledp.core.task import Task, say_of
from shuffledp.engine.codes import OnInvalid
from shuffledp.engine.people import People
from shuffledp.planner.question import find_planned
from shuffledp.questions.question import Question, take_auto
from shuffledp.questions.survey import Source, Survey, read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Top:
    """The fields of a survey file."""

    epsilon: int | float | None = (
        None  # a whole number stays one, so that messages show what was written
    )
    delta: int | float | None = None
    honest: int | float | None = None
    model: str | None = None
    on_invalid: str | None = None
    missing: list[str] | None = None
    where_public: bool | None = None
    person: str | list[str] | None = None
    missing_person: str | None = None
    bounds_share: int | float | None = None
    title: str | None = None
    questions: dict[str, Any] = field(default_factory=dict)
    collection: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    """The fields of every question; the others are options of its task."""

    task: str
    column: str | None = None
    by: str | None = None
    groups: list[Any] | None = None
    weight: int | float | None = None
    error: int | float | None = None
    protocol: str | None = None
    on_invalid: str | None = None
    optional: bool = False
    reduce: str | None = None
    of: str | None = None
    max_rows: int | None = None
    max_categories: int | None = None
    text: str | None = None
    asked: dict[str, Any] | None = None


_SAID = ("honest", "model", "on_invalid", "missing", "where_public", "bounds_share")
_OWN = tuple(each.name for each in fields(_Fields))


def read_survey(text: str, path: str, model: Model | str | None = None) -> Survey:
    """Read the survey that a file describes; `path` is what errors call it, and `model` is taken in place of its own.

    >>> read_survey("epsilon = 1.0\\ndelta = 1e-6\\ncolour = 'red'", "s.toml")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: s.toml, line 3: 'colour' is not a field of a survey: epsilon, delta, honest, model, on_invalid, missing, where_public, person, missing_person, bounds_share, title, questions, collection
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: {error}") from error
    if model is not None:
        content["model"] = Model(model).value
        if content["model"] == Model.LOCAL.value:  # which has none
            content.pop("delta", None)
    return build_survey(content, Source.of(text, path))


def build_survey(content: Mapping[str, Any], source: Source) -> Survey:
    """Build the survey from tables that were read already."""
    top = read_table(_Top, content, source, what="a survey")
    if top.delta is None and top.model in (None, Model.SHUFFLE.value):
        raise source.fail("delta is missing")
    if "questions" not in content:
        raise source.fail("questions is missing")
    if not top.questions:
        raise source.fail("questions must be tables: [questions.NAME]", "questions")
    questions = tuple(
        _read_question(source, name, each, top) for name, each in top.questions.items()
    )
    given = {key: content[key] for key in _SAID if key in content}
    name = PurePath(source.path or "survey").stem
    try:
        return Survey(
            epsilon=top.epsilon,
            delta=top.delta or 0.0,
            questions=questions,
            title=top.title or name,
            collection=top.collection or {},
            source=source,
            **given,
        )
    except ShuffledpError as error:
        name = str(getattr(error, "name", ""))
        raise source.fail(str(error), *([name] if name in content else [])) from error


def _read_question(source: Source, name: str, given: Any, top: _Top) -> Question:
    place = ("questions", name)
    if not isinstance(given, dict):
        raise source.fail(f"question {name!r} must be a table: [questions.{name}]", *place)
    if "task" not in given:
        raise source.fail(f"question {name!r} has no task", *place)
    try:
        task = find_planned(given["task"])
    except ShuffledpError as error:
        raise source.fail(f"question {name!r}: {error}", *place, "task") from error
    options = _read_options(source, name, task, given)
    own = {key: value for key, value in given.items() if key in _OWN}
    asked = read_table(
        _Fields, own, source, *place, what=say_of(task.name), prefix=f"question {name!r}: "
    )
    try:
        question = Question(
            name=name,
            task=asked.task,
            column=asked.column or name,
            text=asked.text,
            asked=asked.asked,
            options=options,
            by=asked.by,
            groups=None if asked.groups is None else tuple(map(str, asked.groups)),
            weight=asked.weight,
            error=asked.error,
            protocol=asked.protocol,
            on_invalid=None if asked.on_invalid is None else OnInvalid.read(asked.on_invalid),
            optional=asked.optional,
            people=People.read(
                top.person,
                reduce=asked.reduce,
                of=asked.of,
                max_rows=asked.max_rows,
                max_categories=asked.max_categories,
                missing_person=top.missing_person,
            ),
        )
        question.require_declared()
        if question.auto is None:
            task.declare(options)
    except ShuffledpError as error:
        key = str(getattr(error, "name", ""))
        raise source.fail(f"question {name!r}: {error}", *place, key) from error
    return question


def _read_options(
    source: Source, name: str, task: type[Task], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Read the options that the task takes; refuse all others."""
    place = ("questions", name)
    known = {option.name for option in task.options}
    for key in given:
        if key not in known and key not in _OWN:
            listed = ", ".join([*_OWN, *sorted(known)])
            said = f"question {name!r}: {key!r} is not a field of {say_of(task.name)}: {listed}"
            raise source.fail(said, *place, key)
    options = {key: value for key, value in given.items() if key in known}
    for key, value in options.items():
        try:
            task.read_options(take_auto({key: value})[0])
        except ShuffledpError as error:
            raise source.fail(f"question {name!r}: {error}", *place, key) from error
    return options
