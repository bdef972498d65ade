"""What a survey asks and promises: several questions to the same people, or one; and where it is written down."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shuffledp.core.domain import Categories, Integers, Reals
from shuffledp.core.errors import DataError, ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.notebook import make_table, say, stack
from shuffledp.core.privacy import Model, round_up
from shuffledp.core.protocol import HONEST, Crowd, Mechanism, Promise, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Declared, Task
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.engine.chunks import OPENING, Engine, Report, timed
from shuffledp.engine.codes import Coder, OnInvalid
from shuffledp.engine.columns import Column, open_data
from shuffledp.engine.filters import Filter
from shuffledp.engine.formats import Format
from shuffledp.engine.people import People
from shuffledp.engine.values import read_missing
from shuffledp.planner.choice import choose
from shuffledp.planner.question import check_delta
from shuffledp.questions.question import Question, take_auto
from shuffledp.tasks import Mean, Sum
from shuffledp.tasks.groups import Grouped, check_grouped

if TYPE_CHECKING:
    from shuffledp.questions.plans import SurveyPlan
    from shuffledp.questions.prepared import Prepared


_USUAL_EPSILON = 1.0  # where a search for another one starts
_UNUSED = {
    Model.LOCAL: (
        ("delta", "honest", "max_messages"),
        "people trust nobody, so delta is 0, and each sends one message",
    ),
    Model.CENTRAL: (
        ("honest", "max_messages"),
        "a trusted machine adds the noise, and nobody sends a message",
    ),
}
T = TypeVar("T")

_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[A-Za-z0-9_.-]+)\s*=""")
_WANTED = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "a text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The file of a survey, and the line of each of its tables and keys.

    >>> source = Source.of("epsilon = 1.0\\n[questions.way]\\ntask = 'count'", "s.toml")
    >>> print(source.fail("is odd", "questions", "way", "task"))
    s.toml, line 3: is odd
    >>> print(Source().fail("is odd", "questions", "way"))
    is odd
    """

    path: str | None = None
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, path: str) -> "Source":
        """Find the line of every header, and of every key below it."""
        lines: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), start=1):
            header, key = _HEADER.match(line), _KEY.match(line)
            if header is not None:
                table = tuple(part.strip().strip("\"'") for part in header.group(1).split("."))
                for depth in range(1, len(table) + 1):
                    lines.setdefault(table[:depth], number)
            elif key is not None:
                lines.setdefault((*table, key.group(1).strip("\"'")), number)
        return cls(path=path, lines=lines)

    def fail(self, said: str, *keys: str) -> DataError:
        """Return the error, with the line of the nearest key that is known."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        line = f", line {self.lines[keys]}" if keys else ""
        return DataError(said if self.path is None else f"{self.path}{line}: {said}")


def read_table(
    kind: type[T],
    content: Mapping[str, Any],
    source: Source,
    *place: str,
    what: str,
    prefix: str = "",
) -> T:
    """Read a table into a dataclass: known keys only, each of its declared type.

    `place` leads to the table in the file, `what` is what messages call it, and `prefix` what they begin with.

    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> read_table(Point, {"x": 1}, Source(), what="a point")
    Point(x=1.0, y=0.0)
    >>> read_table(Point, {"x": 1, "z": 2}, Source(), what="a point")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: 'z' is not a field of a point: x, y
    >>> read_table(Point, {"x": "far"}, Source(), what="a point")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: x='far' must be a number
    """
    import msgspec

    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for key in content:
        if key not in known:
            raise source.fail(
                f"{prefix}{key!r} is not a field of {what}: {', '.join(known)}", *place, key
            )
    try:
        return msgspec.convert(dict(content), kind)
    except msgspec.ValidationError as error:
        said, *keys = _explain(str(error), content, place)
        raise source.fail(prefix + said, *keys) from error


def _explain(said: str, content: Mapping[str, Any], place: tuple[str, ...]) -> tuple[str, ...]:
    """Put what msgspec says into name, value and requirement."""
    missing = re.search(r"missing required field `(\w+)`", said)
    if missing is not None:
        return f"{missing.group(1)} is missing", *place
    wanted = re.search(r"Expected `([^`]+)`", said)
    key = re.search(r"at `\$\.(\w+)", said)
    if wanted is None or key is None:
        return said, *place
    kinds = [kind.strip() for kind in wanted.group(1).split("|") if kind.strip() != "null"]
    if "float" in kinds:  # whole numbers are numbers
        kinds = [kind for kind in kinds if kind != "int"]
    need = " or ".join(_WANTED.get(kind, kind) for kind in kinds)
    return f"{key.group(1)}={content[key.group(1)]!r} must be {need}", *place, key.group(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Questions to the same people, and what is promised to each of them about all answers together.

    >>> survey = Survey(epsilon=1.0, delta=1e-6, questions=(
    ...     Question(name="home", task="count", column="home"),
    ...     Question(name="way", task="histogram", column="way", options={"categories": ("car", "bus")})))
    >>> [question.name for question in survey.questions]
    ['home', 'way']
    """

    epsilon: float | None
    """Where every question has an error: the most that may be spent, None for any."""
    delta: float
    questions: tuple[Question, ...]
    honest: float = HONEST
    model: Model = Model.SHUFFLE
    """Trust a shuffler, nobody (local, which has no delta), or this machine (central, which needs none)."""
    on_invalid: OnInvalid = OnInvalid.ERROR
    missing: Sequence[str] | None = None
    """How a missing value may be spelt, besides an empty text; None: as usual, such as NA."""
    where_public: bool = False
    """Whether everybody may know whom a filter takes: see `Filter.public`."""
    bounds_share: float | None = None
    """The share of the budget that finds ends which are "auto", of all questions together; None: as they say."""
    title: str = "survey"
    collection: Mapping[str, Any] = field(default_factory=dict)
    """How it is run on people's devices: the table `[collection]`, which `sdp.live` reads."""
    source: Source = field(default_factory=Source, compare=False)
    """Where it is written down."""
    alone: bool = False
    """Whether it is one question with a protocol of its own, not with one part of a bundle: see `Survey.of`."""
    max_messages: float | None = None
    """The most that a person may send, on average, of the protocols to choose from: for one question."""
    allow_large_delta: bool = False
    """Take a delta above 1/n as well."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", _read_model(self.model))
        object.__setattr__(self, "on_invalid", OnInvalid.read(self.on_invalid, self.missing))
        if self.missing is not None:
            object.__setattr__(self, "missing", read_missing(self.missing))
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if not self.alone:
            self._check_several()
            self._share_bounds()
        units = {(q.people.person, q.people.missing) if q.people else None for q in self.questions}
        if len(units) > 1:
            raise UnsupportedError(
                "person must be the same for every question: one promise has one unit"
            )

    def _check_several(self) -> None:
        if self.model is Model.LOCAL and self.delta:
            raise UnsupportedError("the local model takes no delta: its delta is 0")
        if self.model is Model.SHUFFLE or self.delta:
            object.__setattr__(self, "delta", fraction_of_one("delta", self.delta))
        Crowd(n=10**9, honest=self.honest)
        if not self.questions:
            raise ParameterError("questions", self.questions, "must be at least one")
        names = [question.name for question in self.questions]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ParameterError("questions", twice[0], "is asked twice")
        self._check_errors()
        for question in self.questions:
            question.require_declared()

    def _share_bounds(self) -> None:
        """Let one release find all ends that are to be estimated."""
        autos = [each.auto for each in self.questions if each.auto is not None]
        if not autos:
            if self.bounds_share is not None:
                take_auto({}, self.bounds_share)  # which refuses it
            return
        if self.epsilon is None:
            raise UnsupportedError("'auto' needs epsilon: a part of it finds lower and upper")
        shares = {each.share for each in autos}
        if self.bounds_share is None and len(shares) > 1:
            raise UnsupportedError(
                "bounds_share must be the same for every question: one release finds all bounds"
            )
        share = shares.pop() if self.bounds_share is None else self.bounds_share
        questions = (
            each if each.auto is None else replace(each, auto=replace(each.auto, share=share))
            for each in self.questions
        )
        object.__setattr__(self, "questions", tuple(questions))

    def _check_errors(self) -> None:
        aims = [question.error is not None for question in self.questions]
        if any(aims) and self.model is not Model.SHUFFLE:
            raise UnsupportedError("error is for the shuffle model: give epsilon, and weights")
        if any(aims) and not all(aims):
            missing = self.questions[aims.index(False)].name
            raise UnsupportedError(
                f"error must be given for every question or for none: {missing!r} has none"
            )
        if self.epsilon is None and not all(aims):
            raise UnsupportedError("epsilon is missing: give it, or an error for every question")

    @classmethod
    def of(
        cls,
        question: Question,
        *,
        epsilon: float,
        delta: float | None = None,
        honest: float | None = None,
        model: Model | str = Model.SHUFFLE,
        max_messages: float | None = None,
        allow_large_delta: bool = False,
        on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
        missing: Sequence[str] | str | None = None,
        where_public: bool = False,
    ) -> "Survey":
        """Ask one question by itself: it has a protocol of its own, and may trust this machine (central).

        >>> asked = Question(name="home", task="count", column="home")
        >>> Survey.of(asked, epsilon=1.0)
        Traceback (most recent call last):
        shuffledp.core.errors.UnsupportedError: the shuffle model needs delta: choose it far below 1/n, such as 1e-8 for a million people; where one machine may see the data, model central needs none
        """
        if question.by is not None:
            check_grouped(question.kind)
        chosen = _read_model(model)
        if chosen in _UNUSED:
            names, why = _UNUSED[chosen]
            given = {"delta": delta, "honest": honest, "max_messages": max_messages}
            wrong = [name for name in names if given[name] is not None]
            if wrong:
                raise UnsupportedError(
                    f"the {chosen.value} model takes no {', '.join(wrong)}: {why}"
                )
        elif delta is None:
            raise UnsupportedError(
                "the shuffle model needs delta: choose it far below 1/n, such as 1e-8 for a million people; "
                "where one machine may see the data, model central needs none"
            )
        if question.protocol is not None and max_messages is not None:
            raise UnsupportedError("max_messages is for choosing a protocol: leave out protocol")
        # The local model needs nobody else's noise, so one person is enough.
        usual = HONEST if chosen is Model.SHUFFLE else 1.0
        return cls(
            alone=True,
            epsilon=epsilon,
            delta=0.0 if delta is None else delta,
            questions=(question,),
            honest=usual if honest is None else honest,
            model=chosen,
            on_invalid=OnInvalid.read(on_invalid, missing),
            missing=None if missing is None else read_missing(missing),
            where_public=where_public,
            title=question.name,
            max_messages=max_messages,
            allow_large_delta=allow_large_delta,
        )

    def _repr_html_(self) -> str:
        """Return how notebooks show it: the questions, and what is promised about all answers together."""
        promised = "" if self.epsilon is None else f"epsilon = {round_up(self.epsilon, 6)}, "
        rows = [
            [q.name, q.task, q.column or "", q.by or "", "" if q.error is None else f"{q.error:g}"]
            for q in self.questions
        ]
        return stack(
            say(self.title, bold=True),
            make_table(["", "task", "column", "by", "error"], rows, texts=4),
            say(f"For all answers together: {promised}delta = {round_up(self.delta, 3)}."),
        )

    @property
    def aims(self) -> bool:
        """Whether errors were given, so that epsilon is searched for."""
        return self.questions[0].error is not None

    @property
    def people(self) -> People | None:
        """Whom the rows are about; None: each row is taken to be one person."""
        return self.questions[0].people

    @property
    def from_data(self) -> bool:
        """Whether some categories are those that occur, which no epsilon covers."""
        return any(question.from_data for question in self.questions)

    @classmethod
    def load(cls, path: str | Path, *, model: Model | str | None = None) -> "Survey":
        """Read a survey file; `model` is taken in place of what it says, and the local model leaves out its delta."""
        place = Path(path)
        try:
            text = place.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise DataError(f"there is no file {path}") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not text in UTF-8") from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        return cls.loads(text, str(path), model=model)

    @classmethod
    def loads(
        cls, text: str, path: str = "survey.toml", *, model: Model | str | None = None
    ) -> "Survey":
        """Read a survey from text; errors name the line. See `load`.

        >>> Survey.loads('epsilon = 1.0')
        Traceback (most recent call last):
        shuffledp.core.errors.DataError: survey.toml: delta is missing
        """
        from shuffledp.questions.files import read_survey

        return read_survey(text, path, None if model is None else _read_model(model))

    @classmethod
    def read(cls, content: Mapping[str, Any], path: str = "survey") -> "Survey":
        """Read a survey from tables, such as those of a form; `path` is what errors call it.

        >>> Survey.read({"epsilon": 1.0, "delta": 1e-6, "questions": {"home": {"task": "count"}}}).title
        'survey'
        """
        from shuffledp.questions.files import build_survey

        return build_survey(content, Source(path=path))

    @contextmanager
    def locate(self, question: Question) -> Iterator[None]:
        """Say in which question, and in which line, an error is; of one question alone, leave it as it is."""
        try:
            yield
        except ShuffledpError as error:
            if self.alone:
                raise
            said = f"question {question.name!r}: {error}"
            raise self.source.fail(said, "questions", question.name) from error

    def declare(self, columns: Mapping[str | None, Column]) -> dict[str, Declared]:
        """Fix the public domain of each question, by name; without its column, one to plan for."""
        declared = {}
        for question in self.questions:
            with self.locate(question):
                column = columns.get(question.column)
                column = None if column is None else question.measure(column)
                fixed = question.declared
                declared[question.name] = fixed or question.kind.declare(question.options, column)
        return declared

    def tasks(self, columns: Mapping[str | None, Column], n: int) -> tuple[Task, ...]:
        """Say what each question asks, with its public domain."""
        return self.fit(self.declare(columns), columns, n)

    def fit(
        self, declared: Mapping[str, Declared], columns: Mapping[str | None, Column], n: int
    ) -> tuple[Task, ...]:
        """Say what each question asks of n people: its domain, by group and on the grid that is best for them."""
        local, epsilon = self.model is Model.LOCAL, self.part_epsilon
        own = {}
        for question in self.questions:
            task = declared[question.name].task
            with self.locate(question):
                task = use_grid(task) if local and question.by is None else task
                own[question.name] = task.fit(n, epsilon)
        fitted = []
        for question in self.questions:
            task = own[question.name]
            if question.by is not None:
                with self.locate(question):
                    groups = self.find_groups(question, own, columns.get(question.by))
                    grouped = Grouped.of(task, groups)
                # The noise of the local model grows with n: there the fewest bins are best.
                task = grouped.round_to(1) if local else grouped.fit(n, epsilon)
            fitted.append(task)
        return tuple(fitted)

    def find_groups(
        self, question: Question, own: Mapping[str, Task], grouping: Column | None = None
    ) -> Categories:
        """Find the groups of a question: its own, or the categories of another one about the column `by`."""
        groups = question.find_groups(grouping if self.alone else None)
        if groups is not None:
            return groups
        if self.alone:
            raise UnsupportedError(
                f"by={question.by!r} needs a list of its `groups` from public knowledge: those in the data would "
                "tell who is there"
            )
        for other in self.questions:
            domain = own[other.name].domain
            if other.column != question.by or other.by is not None:
                continue
            if isinstance(domain, Categories):
                return domain
            if isinstance(domain, Integers):
                return Categories(k=domain.size, names=domain.labels)
        raise UnsupportedError(
            f"by={question.by!r} needs its groups from public knowledge: groups = [...], or a histogram of "
            f"the column {question.by!r} in the same survey"
        )

    def find_policy(self, question: Question, task: Task) -> OnInvalid:
        """Say how its invalid values are handled: as it says itself, or as the survey says and the question can.

        >>> survey = Survey(epsilon=1.0, delta=1e-6, on_invalid="other,clamp", questions=(
        ...     Question(name="age", task="mean", column="age", options={"lower": 0, "upper": 120}),))
        >>> print(survey.find_policy(survey.questions[0], survey.tasks({}, 1000)[0]))
        clamp
        """
        # By group there are two columns, and each has a policy of its own.
        if question.on_invalid is not None or question.by is not None:
            policy = OnInvalid.read(question.on_invalid or self.on_invalid, self.missing)
        elif self.alone or isinstance(task, Grouped):
            policy = self.on_invalid
        else:
            policy = Coder.for_part(task.domain, self.on_invalid).on_invalid
        return policy.skip_missing() if question.optional else policy

    def has_rows(self, where: Filter | None, *, charged: bool = False) -> bool:
        """Return whether rows are to be made people first; otherwise they are people already.

        If the answer is `charged` to a ledger, whoever has no valid value stays: how many have one is nobody's business.
        """
        drops = (charged or not self.alone) and any(
            self.find_policy(question, question.kind.declare(question.options).task).drops
            for question in self.questions
        )
        own = any(each.people is not None or each.optional for each in self.questions)
        return drops or own or (where is not None and where.private)

    def choose(
        self,
        question: Question,
        task: Task,
        *,
        n: int,
        epsilon: float | None = None,
        protocol: str | None = None,
        for_file: bool = False,
    ) -> ShuffleProtocol | Mechanism:
        """Return the best protocol for a question at its epsilon, or the one that it names or that is named here."""
        own = self.epsilon if epsilon is None else epsilon
        assert own is not None
        with self.locate(question):
            return choose(
                task,
                n=n,
                epsilon=own,
                delta=self.delta,
                honest=self.honest,
                model=self.model,
                protocol=protocol or question.protocol,
                max_messages=self.max_messages,
                for_file=for_file,
            )

    @property
    def part_epsilon(self) -> float:
        """About the epsilon that a question has for itself, if all have the same."""
        whole = _USUAL_EPSILON if self.epsilon is None else self.epsilon
        if self.model is Model.LOCAL or not self.delta:
            return whole / len(self.questions)
        if len(self.questions) == 1:
            return whole
        from shuffledp.accounting.base import gaussian_epsilon, gaussian_scale

        scale = gaussian_scale(Promise(epsilon=whole, delta=self.delta))
        share = scale / math.sqrt(len(self.questions))
        return min(whole, gaussian_epsilon(share, self.delta))

    def check_delta(self, n: int) -> tuple[str, ...]:
        """Refuse a delta that is too large for n people; returns what must be said about one near it."""
        if not self.delta:
            return ()
        return check_delta(self.delta, n, allow_large_delta=self.allow_large_delta)

    def trust(self, model: Model | str) -> "Survey":
        """Return the same questions in another model of trust; the local model has no delta, so it is left out.

        >>> survey = Survey(epsilon=1.0, delta=1e-6, questions=(Question(name="home", task="count", column="home"),))
        >>> survey.trust("central").model.value, survey.trust("local").delta
        ('central', 0.0)
        """
        chosen = _read_model(model)
        return replace(self, model=chosen, delta=0.0 if chosen is Model.LOCAL else self.delta)

    def plan(self, n: int) -> "SurveyPlan":
        """Say which protocols answer it for n people, how well, and what each question costs."""
        from shuffledp.questions.people import plan_people
        from shuffledp.questions.plans import make_plan

        self.check_delta(n)
        if any(question.auto is not None for question in self.questions):
            raise UnsupportedError(
                "'auto' is found in data, and a plan has none: declare lower and upper"
            )
        survey = plan_people(self, n)
        return make_plan(survey, survey.tasks({}, n), n)

    def read_filter(self, where: Filter | str | None, *, charged: bool = False) -> Filter | None:
        """Return a filter, with what the survey says about missing values and about who may know whom it takes.

        If the answer is `charged` to a ledger, everybody stays, unless the filter is public.
        """
        if where is None:
            return None
        read = Filter.read(where, self.missing, public=self.where_public)
        return replace(read, private=read.private or (charged and not read.public))

    def open(self, data: Any, where: Filter | str | None = None) -> dict[str | None, Column]:
        """Open the columns that the questions are about, by name: nothing is read yet."""
        where = self.read_filter(where)
        columns: dict[str | None, Column] = {}
        also = [
            name
            for each in self.questions
            for name in (each.by, None if each.people is None else each.people.order)
            if name is not None
        ]
        for question in self.questions:
            names = (question.column,) if question.by is None else (question.column, question.by)
            for name in names:
                if name not in columns:
                    with self.locate(question), timed(OPENING):
                        # Without a name it may be one value per line, and nothing is beside it.
                        more = () if name is None and self.people is None else also
                        columns[name] = open_data(data, name, where, self.people, more)
                if question.by is not None:
                    _refuse_lines(columns[name])
        return columns

    def prepare(
        self,
        data: Any,
        *,
        engine: Engine | str | None = None,
        where: Filter | str | None = None,
        rng: WordSource | None = None,
        report: Report | None = None,
        n: int | None = None,
        read_early: bool = False,
        sent: bool = False,
    ) -> "Prepared":
        """Open the columns, count the people and make the protocols: nothing is randomized yet.

        With n the protocols are made for n people, however many there are. Files are read while the protocols are made,
        if that is wanted (`read_early`), for `answer`. If messages are to be sent, protocols that send little come
        first, otherwise those that deal.
        """
        from shuffledp.engine.files import find_engine
        from shuffledp.questions.prepared import prepare

        return prepare(
            self,
            self.open(data, where),
            engine=None if engine is None else find_engine(engine),
            rng=rng,
            report=report,
            n=n,
            read_early=read_early,
            sent=sent,
        )


def _read_model(model: Model | str) -> Model:
    if model not in [*Model, *(each.value for each in Model)]:
        raise ParameterError("model", model, "must be 'shuffle', 'local' or 'central'")
    return Model(model)


def use_grid(task: Task) -> Task:
    """Put integers on a grid of reals, which local protocols for numbers take."""
    domain = task.domain
    if not isinstance(domain, Integers) or not isinstance(task, Mean | Sum):
        return task
    grid = Reals(lower=domain.lower, upper=domain.upper, steps=domain.size - 1)
    return type(task)(domain=grid)


def _refuse_lines(column: Column) -> None:
    """Refuse groups in a text file that is read as one value per line."""
    if any(file.format is Format.LINES for file in column.files):
        raise DataError(
            f"{column.files[0].path} is read as one value per line, without groups: name the column"
        )
