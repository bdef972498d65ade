"""Concept 6, the task: the question, and everything that only the question knows.

A task is a class for the kind of question (its name, the options it asks for, which protocols answer it)
and an object for one question: the class with its public domain. The command line, survey files, pages and
the planner ask the task; none of them knows a task by name. To add one, see docs/howto/add-a-task.md.
"""

import csv
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate, Value
from shuffledp.core.display import Picture, make_picture
from shuffledp.core.domain import Domain
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import Crowd, Promise

_START = datetime(1970, 1, 1)
_SEVERAL = {"needs": "need", "takes": "take", "has": "have"}


def say_of(task: str, verb: str = "") -> str:
    """Return the name of a task in a sentence, with a verb that fits it: some names are plural.

    >>> say_of("count", "needs"), say_of("quantiles", "needs"), say_of("words")
    ('a count needs', 'quantiles need', 'words')
    """
    plural = task.endswith("s")
    name, verb = (task, _SEVERAL.get(verb, verb)) if plural else (f"a {task}", verb)
    return f"{name} {verb}".rstrip()


class Column(Protocol):
    """What a task may know of the data while it fixes its domain."""

    @property
    def name(self) -> str:
        """The name of the column."""

    @property
    def fractional(self) -> bool:
        """Whether the type of the column, not its values, allows for fractions."""

    @property
    def text(self) -> bool:
        """Whether the column is text: what it means is declared, and never guessed from the values."""

    @property
    def boolean(self) -> bool:
        """Whether the type of the column is yes or no."""

    def categories(self) -> tuple[str, ...]:
        """Return the distinct values as text, sorted, nulls left out. NOT private."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Something a question asks for: typed, with a help text, the same wherever it is asked.

    `kind` is bool, int, float, str, tuple (of strings), list (of numbers) or Path. A `float` stays an int if it is one.

    >>> Option(name="categories", kind=tuple, help="The public categories.").read('cat, "dog, big"')
    ('cat', 'dog, big')
    >>> Option(name="steps", kind=int, help="Steps of the grid.").read("many")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: steps='many' must be an integer
    >>> Option(name="lower", kind=float, help="The smallest value.").read("31.12.2024")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: lower='31.12.2024' must be a number (dates are written 2024-12-31)
    """

    name: str
    kind: type
    help: str

    def read(self, value: Any) -> Any:
        """Return the value, from text if it is text: command lines, survey files and pages share this."""
        convert, wanted = _KINDS[self.kind]
        try:
            return convert(value)
        except (TypeError, ValueError, csv.Error):
            dated = self.kind in (float, list) and _DATED.search(str(value)) is not None
            hint = " (dates are written 2024-12-31)" if dated else ""
            raise ParameterError(self.name, value, f"must be {wanted}{hint}") from None


_DATED = re.compile(r"\d[./-]\d{1,2}[./-]\d")


def _read_flag(value: object) -> bool:
    known = {"true": True, "false": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise ValueError


def _read_whole(value: object) -> object:
    if isinstance(value, str):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError
    return value


def _read_number(value: object) -> object:
    """Return text as an int, a date as its days or seconds since 1970, anything else as a float."""
    if isinstance(value, date | np.datetime64):
        moment = read_moment(value)
        if moment is None:
            raise TypeError
        return moment[0]
    if isinstance(value, bool) or not isinstance(value, Real | str):
        raise TypeError
    if not isinstance(value, str):
        return value
    try:
        return int(value)
    except ValueError:
        moment = read_moment(value)
        return float(value) if moment is None else moment[0]


def read_moment(text: object) -> tuple[float, str] | None:
    """Return a date as days, or a date with a time as seconds, since 1970-01-01; None if it is neither.

    Dates may be texts, or the objects of Python, NumPy and pandas; of those, midnight is a date.

    >>> read_moment("2013-07-04"), read_moment("1970-01-02 00:00:01"), read_moment("20130704")
    ((15890, 'days'), (86401.0, 'seconds'), None)
    >>> read_moment(date(2013, 7, 4)), read_moment(np.datetime64("2013-07-04"))
    ((15890, 'days'), (15890, 'days'))
    """
    if isinstance(text, date | np.datetime64):
        written = str(text).replace("T", " ")
        return read_moment(written.removesuffix(".000000000").removesuffix(" 00:00:00"))
    if not isinstance(text, str) or text[4:5] != "-":
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if len(text.strip()) == len("2013-07-04"):
        return (moment.date() - _START.date()).days, "days"
    zone = _START if moment.tzinfo is None else _START.replace(tzinfo=UTC)
    return (moment - zone).total_seconds(), "seconds"


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _read_names(value: Any) -> tuple[str, ...]:
    """Read text as a line of CSV: commas between the names, and quotes around one that has a comma."""
    if not isinstance(value, str):
        return tuple(map(_read_text, value))
    (parts,) = csv.reader([value.strip()], skipinitialspace=True, strict=True) if value else ([""],)
    return tuple(part.strip() for part in parts)


def _read_numbers(value: Any) -> tuple[float, ...]:
    """Read text with commas between the numbers (or dates), a number, or several."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    single = isinstance(value, Real | date | np.datetime64) and not isinstance(value, bool)
    several = [value] if single else list(value)
    return tuple(float(_read_number(part)) for part in several)  # type: ignore[arg-type]


_KINDS: Mapping[type, tuple[Callable[[Any], Any], str]] = {
    bool: (_read_flag, "true or false"),
    int: (_read_whole, "an integer"),
    float: (_read_number, "a number"),
    str: (_read_text, "text"),
    tuple: (_read_names, "a list of names"),
    list: (_read_numbers, "a list of numbers"),
    Path: (Path, "the path of a file"),
}


class Task(ABC):
    """A question about a column of values from a public domain.

    A task is a frozen dataclass whose field `domain` says where the values come from; further fields, if any,
    have defaults.
    """

    __slots__ = ()

    name: ClassVar[str]
    """count, sum, mean, histogram, ...: its name everywhere."""
    title: ClassVar[str]
    """The question in a few words, for help texts."""
    options: ClassVar[tuple[Option, ...]] = ()
    """What must or may be said to fix the domain."""
    answered_by: ClassVar[tuple[str, ...]] = ()
    """The tasks of the protocols that answer it: its own, and those whose answer becomes its answer."""
    elsewhere: ClassVar[str | None] = None
    """The function that answers it if the planner does not."""
    answer: ClassVar[str]
    """What an error refers to: "the mean"."""
    unit: ClassVar[str | None] = ""
    """What an error is counted in, if not in what the answer is: "ranks". None: on most data it is far smaller than
    on the worst, so a plan's RMSE says little about one answer."""
    total: ClassVar[str]
    """What the RMSE of a plan refers to: "the sum"."""
    judged: ClassVar[str] = "exact, of {total}, on the data set that is worst for the protocol"
    """What that RMSE is."""
    dated: ClassVar[bool] = False
    """Whether the answer is a value such as those in the column: a date, if they are dates."""
    counts: ClassVar[bool] = False
    """Whether the answer is numbers of people, so that it has shares."""
    people: ClassVar[bool] = False
    """Whether it is one number of people, or some of them: whole, and without shares."""
    average: ClassVar[bool] = False
    """Whether the answer is the total divided by n."""
    adds: ClassVar[bool] = False
    """Whether everybody's numbers are added up."""
    yes_or_no: ClassVar[bool] = False
    """Whether everybody answers yes or no."""
    bins: ClassVar[bool] = False
    """Whether the answer is one number for each value of the domain; a plan names the worst of them."""
    live: ClassVar[tuple[type, ...]] = ()
    """Where the answers of devices lie, if a live collection can ask it; (): it cannot."""
    live_name: ClassVar[str | None] = None
    """The task that devices are asked, if it is another one: people choose a bin as they choose a category."""
    listed: ClassVar[bool] = True
    """Whether the values of the domain can be listed; if not, errors are those of one value that few have."""
    ranked: ClassVar[bool] = False
    """Whether errors are those of numbers of people, though the answers of people are numbers."""

    @abstractmethod
    def __init__(self, *, domain: Domain) -> None:
        """Fix the domain; refuses one that the question is not about."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Where the values come from."""

    @property
    def document_name(self) -> str:
        """What the document of a live collection calls it."""
        return self.live_name or self.name

    @property
    def sampled(self) -> bool:
        """Whether the answer of a random sample of people is one about everybody."""
        return self.adds or self.counts

    @property
    def values(self) -> int:
        """How many values each person has: as many as the data have for each of them."""
        return 1

    @classmethod
    @abstractmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> "Declared":
        """Return the question that the options describe; without a column, one to plan for.

        The domain is public knowledge: it follows from the options and from the type of the column. Where it is
        read from the values, `Declared.not_private` says so.
        """

    @abstractmethod
    def arguments(self) -> Mapping[str, Any]:
        """Return the parameters that makers of protocols may take: k, lower, upper, steps, task, ..."""

    @abstractmethod
    def sensitivity(self, n: int) -> float:
        """Return by how much (in l1) replacing one of n people may move the exact answer, rounded up."""

    @abstractmethod
    def truth(self, values: ArrayLike) -> Value:
        """Return the exact answer."""

    @abstractmethod
    def loss(self, estimate: Value, truth: Value) -> float:
        """Measure how wrong an estimate is: by the squared error, averaged over bins, or what the class says."""

    def convert(self, estimate: Estimate) -> Estimate:
        """Return its answer, from the estimate of the protocol that was asked: the same, unless another task was."""
        return estimate

    def align(self, estimate: Estimate, values: ArrayLike) -> Value:
        """Return the exact value of what was estimated: `truth`, unless the data decide what is estimated."""
        return self.truth(values)

    @classmethod
    def tell(cls, estimate: Estimate) -> tuple[str, ...]:
        """Say what readers of this estimate should know."""
        return ()

    @classmethod
    def ends(cls, estimate: Estimate) -> tuple[float, ...] | None:
        """Return the two ends between which people were counted; None if the question has none."""
        return None

    @classmethod
    def details(cls, estimate: Estimate) -> Mapping[str, Any]:
        """Return the fields of a result beyond its numbers, for JSON."""
        return {}

    def fit(self, n: int, epsilon: float) -> "Task":
        """Return the question for that many people and that epsilon, where its domain is not fixed but chosen."""
        return self

    def remarks(self) -> tuple[str, ...]:
        """Say what readers of the answer should know about the domain."""
        return ()

    def in_rounds(self, crowd: Crowd, promise: Promise) -> str | None:
        """Return a sentence on an interactive protocol, which no plan ranks; None if there is none."""
        return None

    def relate(self, n: int) -> float:
        """Return the number that an error is relative to: everybody, or the whole range."""
        return 1.0 if self.average else float(n)

    @classmethod
    def scale(cls, n: int) -> int:
        """Return the number of answers that make a total: n for averages, otherwise 1."""
        return n if cls.average else 1

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that were given (neither None nor False), as their types; refuse all others."""
        known = {option.name: option for option in cls.options}
        given = {name: value for name, value in options.items() if value is not None}
        strange = [
            name for name, value in given.items() if name not in known and value is not False
        ]
        if strange:
            raise UnsupportedError(f"{say_of(cls.name, 'takes')} no {' and no '.join(strange)}")
        read = {name: known[name].read(value) for name, value in given.items() if name in known}
        return {name: value for name, value in read.items() if value is not False}

    @classmethod
    def columns(
        cls, *, rmse: float, n: int, worst: float | None = None, found: float | None = None
    ) -> dict[str, float | None]:
        """Return the columns of a plan beside the RMSE, by heading."""
        beside: dict[str, float | None] = {}
        if cls.average:
            beside[f"of {cls.answer}"] = rmse / n
        if cls.bins:
            beside["worst bin"] = worst
        if not cls.listed:
            beside["found from"] = found
        return beside

    @classmethod
    def show(cls, estimate: Estimate, level: float = 0.95) -> Picture:
        """Describe what to draw: bars, or the place of one number between the ends that are publicly known."""
        shown = make_picture(estimate, level, label=cls.name)
        people = estimate.limits[1] if cls.counts and math.isfinite(estimate.limits[1]) else None
        return replace(shown, whole=cls.counts or cls.people, people=people)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A question whose domain is fixed, and what readers of the answer should know about that."""

    task: Task
    notes: tuple[str, ...] = ()
    not_private: tuple[str, ...] = ()
    """What the answer reveals without any noise to protect it."""
