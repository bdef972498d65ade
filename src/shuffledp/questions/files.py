"""Survey files: TOML that a person writes, read with errors that name the line."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from shuffledp.core.errors import DataError, ParameterError, ShuffledpError
from shuffledp.core.task import Task, say_of
from shuffledp.planner.question import find_planned
from shuffledp.questions.survey import Question, Survey

__all__ = ["read_survey"]

_TOP = ("epsilon", "delta", "honest", "model", "on_invalid", "title", "questions")
_LIVE = ("collection",)
"""Tables for live collections, which check them: a file of people's data has no use for them."""
_OWN = ("task", "column", "by", "groups", "weight", "error", "protocol", "on_invalid", "text")


def read_survey(text: str, path: str) -> Survey:
    """The survey that a file describes; `path` is what errors call it.

    >>> read_survey("epsilon = 1.0\\ndelta = 1e-6\\ncolour = 'red'", "s.toml")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: s.toml, line 3: 'colour' is not a field of a survey: epsilon, delta, honest, model, on_invalid, title, questions
    """
    return _Reader(text, path).read()


class _Reader:
    """Reads a survey file, and knows in which line everything stands."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path
        self.lines = _find_lines(text)

    def fail(self, said: str, *keys: str) -> DataError:
        """The error, with the line of the nearest key that is known."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        where = f", line {self.lines[keys]}" if keys else ""
        return DataError(f"{self.path}{where}: {said}")

    def read(self) -> Survey:
        try:
            content = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"{self.path}: {error}") from error
        for key in content:
            if key not in _TOP + _LIVE:
                raise self.fail(f"{key!r} is not a field of a survey: {', '.join(_TOP)}", key)
        shuffled = content.get("model", "shuffle") == "shuffle"
        for key in ("delta", "questions") if shuffled else ("questions",):
            if key not in content:
                raise self.fail(f"{key} is missing")
        asked = content["questions"]
        if not isinstance(asked, dict) or not asked:
            raise self.fail("questions must be tables: [questions.NAME]", "questions")
        questions = tuple(self.read_question(name, given) for name, given in asked.items())
        top = {key: content[key] for key in _TOP if key in content and key != "questions"}
        try:
            return Survey(
                **{"epsilon": None, "delta": 0.0, **top}, questions=questions, path=self.path
            )
        except (ShuffledpError, TypeError) as error:
            name = getattr(error, "name", None)
            raise self.fail(str(error), *([name] if name in content else [])) from error

    def read_options(self, name: str, task: type[Task], given: Mapping[str, Any]) -> dict[str, Any]:
        """The options that the task takes; refuses all others."""
        place = ("questions", name)
        own = {option.name for option in task.options}
        for key in given:
            if key not in own and key not in _OWN:
                known = ", ".join([*_OWN, *sorted(own)])
                said = f"question {name!r}: {key!r} is not a field of {say_of(task.name)}: {known}"
                raise self.fail(said, *place, key)
        options = {key: value for key, value in given.items() if key in own}
        for key, value in options.items():
            try:
                task.read_options({key: value})
            except ShuffledpError as error:
                raise self.fail(f"question {name!r}: {error}", *place, key) from error
        return options

    def read_question(self, name: str, given: Any) -> Question:
        place = ("questions", name)
        if not isinstance(given, dict):
            raise self.fail(f"question {name!r} must be a table: [questions.{name}]", *place)
        if "task" not in given:
            raise self.fail(f"question {name!r} has no task", *place)
        try:
            task = find_planned(given["task"])
        except ShuffledpError as error:
            raise self.fail(f"question {name!r}: {error}", *place, "task") from error
        options = self.read_options(name, task, given)
        groups = given.get("groups")
        try:
            _check_kinds(given)
            question = Question(
                name=name,
                task=given["task"],
                column=given.get("column", name),
                options=options,
                by=given.get("by"),
                groups=None if groups is None else tuple(map(str, groups)),
                weight=given.get("weight"),
                error=given.get("error"),
                protocol=given.get("protocol"),
                on_invalid=given.get("on_invalid"),
                line=self.lines.get(place),
            )
            task.declare(options)
        except ShuffledpError as error:
            key = str(getattr(error, "name", ""))
            raise self.fail(f"question {name!r}: {error}", *place, key) from error
        return question


def _check_kinds(given: Mapping[str, Any]) -> None:
    for key in ("column", "by"):
        if not isinstance(given.get(key, ""), str):
            raise ParameterError(key, given[key], "must be the name of a column")
    if not isinstance(given.get("groups", []), list):
        raise ParameterError("groups", given["groups"], "must be a list")


_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[A-Za-z0-9_.-]+)\s*=""")


def _find_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of every header and of every key below it."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            table = tuple(part.strip().strip("\"'") for part in header.group(1).split("."))
            for depth in range(1, len(table) + 1):
                found.setdefault(table[:depth], number)
        elif key is not None:
            found.setdefault((*table, key.group(1).strip("\"'")), number)
    return found
