"""What a survey asks and promises, and how it is asked."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shuffledp.accounting.base import gaussian_epsilon, gaussian_scale
from shuffledp.core.arrays import Bools, Counts
from shuffledp.core.domain import Categories, Integers
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.notebook import make_table, say, stack
from shuffledp.core.privacy import Model, round_up
from shuffledp.core.protocol import HONEST, Crowd, Promise, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Task
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.core.validate import level as valid_level
from shuffledp.engine import (
    Coder,
    Column,
    Engine,
    Filter,
    Headcount,
    Job,
    OnInvalid,
    Randomized,
    Report,
    find_engine,
    headcount,
    run_file,
)
from shuffledp.engine.codes import FAULTS
from shuffledp.engine.files import group_early, read_codes
from shuffledp.engine.groups import tally_counts
from shuffledp.engine.messages import randomize_bundle
from shuffledp.engine.pairs import count_pairs, pair_people, pick_rows
from shuffledp.engine.stages import CALIBRATION, OPENING, stage
from shuffledp.engine.tallies import Form, Reading
from shuffledp.engine.values import read_missing
from shuffledp.ledger import DATASET, Budget, Ledger
from shuffledp.numerics.entropy import SecureWords, SeededWords
from shuffledp.planner.question import check_delta, find_planned
from shuffledp.protocols.one_question import OneQuestionDevice, scale_up
from shuffledp.questions.answers import QuestionAnswer, SurveyAnswer
from shuffledp.questions.parts import At
from shuffledp.questions.plans import SurveyPlan, make_plan
from shuffledp.questions.request import (
    SEEDED,
    open_data,
    open_spending,
    tell_recoded,
    use_grid,
)
from shuffledp.questions.source import Source
from shuffledp.tasks.groups import Grouped

__all__ = ["PreparedSurvey", "Question", "Survey"]

_FEW_CODES = 1 << 20  # of a question that is read early: eight megabytes
_USUAL_EPSILON = 1.0  # where a search for another one starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question of a survey: the task, the column, its options, and for which groups.

    >>> Question(name="home", task="count", column="home").weight is None
    True
    """

    name: str
    task: str
    column: str
    options: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
    """The column of the groups."""
    groups: tuple[str, ...] | None = None
    """The groups; None: the categories of another question about the column `by`."""
    weight: float | None = None
    error: float | None = None
    """The root mean squared error that is wanted, relative to everybody or to the whole range."""
    protocol: str | None = None
    on_invalid: str | None = None
    text: str | None = None
    """What people are asked, in words."""

    def __post_init__(self) -> None:
        find_planned(self.task).read_options(self.options)
        if self.options.get("categories_from_data"):
            raise UnsupportedError(
                "categories_from_data releases which categories occur, and no epsilon covers that: a survey "
                "declares its categories"
            )
        if self.weight is not None:
            positive("weight", self.weight)
        if self.error is not None:
            fraction_of_one("error", self.error)
            if self.weight is not None:
                raise UnsupportedError("error says how sharp the answer is: leave out weight")
        if self.groups is not None and self.by is None:
            raise UnsupportedError("groups needs by: the column that says who is in which group")
        if self.groups is not None and len(self.groups) < 2:
            raise ParameterError("groups", list(self.groups), "must be at least two")


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
    model: Model | str = Model.SHUFFLE
    """Trust a shuffler, or nobody (local, which has no delta)."""
    on_invalid: str = "error"
    missing: Sequence[str] | None = None
    """How a missing value may be spelt, besides an empty text; None: as usual, such as NA."""
    where_public: bool = False
    """Whether everybody may know whom a filter takes: see `Filter.public`."""
    title: str = "survey"
    collection: Mapping[str, Any] = field(default_factory=dict)
    """How it is run on people's devices: the table `[collection]`, which `sdp.live` reads."""
    source: Source = field(default_factory=Source, compare=False)
    """Where it is written down."""

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "model", _read_model(self.model))
        if self.model is Model.LOCAL:
            self._check_local()
        else:
            object.__setattr__(self, "delta", fraction_of_one("delta", self.delta))
        Crowd(n=10**9, honest=self.honest)
        if not self.questions:
            raise ParameterError("questions", self.questions, "must be at least one")
        names = [question.name for question in self.questions]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ParameterError("questions", twice[0], "is asked twice")
        self._check_errors()
        if self.missing is not None:
            object.__setattr__(self, "missing", read_missing(self.missing))
        for policy in (self.on_invalid, *(q.on_invalid for q in self.questions if q.on_invalid)):
            if OnInvalid.read(policy).drops:
                raise UnsupportedError(
                    "on_invalid=drop would leave people out of one question and not of the others: "
                    "declare a category 'other' (on_invalid=other), clamp numbers, or leave people out of "
                    "all of them with `where`"
                )

    def _check_local(self) -> None:
        if self.delta:
            raise UnsupportedError("the local model takes no delta: its delta is 0")
        if self.questions and self.questions[0].error is not None:
            raise UnsupportedError("error is for the shuffle model: give epsilon, and weights")

    def _check_errors(self) -> None:
        aims = [question.error is not None for question in self.questions]
        if any(aims) and not all(aims):
            missing = self.questions[aims.index(False)].name
            raise UnsupportedError(
                f"error must be given for every question or for none: {missing!r} has none"
            )
        if self.epsilon is None and not all(aims):
            raise UnsupportedError("epsilon is missing, or an error for every question")

    def _repr_html_(self) -> str:
        """How notebooks show it: the questions, and what is promised about all answers together."""
        promised = "" if self.epsilon is None else f"epsilon = {round_up(self.epsilon, 6)}, "
        rows = [
            [q.name, q.task, q.column, q.by or "", "" if q.error is None else f"{q.error:g}"]
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

    @classmethod
    def load(cls, path: str | Path) -> "Survey":
        """Read a survey file."""
        place = Path(path)
        try:
            text = place.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise DataError(f"there is no file {path}") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not text in UTF-8") from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        return cls.loads(text, str(path))

    @classmethod
    def loads(cls, text: str, path: str = "survey.toml") -> "Survey":
        """Read a survey from text; errors name the line.

        >>> Survey.loads('epsilon = 1.0')
        Traceback (most recent call last):
        shuffledp.core.errors.DataError: survey.toml: delta is missing
        """
        from shuffledp.questions.files import read_survey

        return read_survey(text, path)

    @classmethod
    def read(cls, content: Mapping[str, Any], path: str = "survey") -> "Survey":
        """Read a survey from tables, such as those of a form; `path` is what errors call it.

        >>> Survey.read({"epsilon": 1.0, "delta": 1e-6, "questions": {"home": {"task": "count"}}}).title
        'survey'
        """
        from shuffledp.questions.files import build_survey

        return build_survey(content, Source(path=path))

    def tasks(self, columns: Mapping[str, Column], n: int) -> tuple[Task, ...]:
        """What each question asks, with its public domain."""
        declared = {}
        for question in self.questions:
            with At(self, question):
                column = columns.get(question.column)
                own = find_planned(question.task).declare(question.options, column).task
                if self.model is Model.LOCAL and question.by is None:
                    own = use_grid(own)
                declared[question.name] = own.fit(n, self.part_epsilon)
        grouped = (self._group(each, declared[each.name], declared) for each in self.questions)
        return tuple(
            # The noise of the local model grows with n: there the fewest bins are best.
            task.round_to(1)
            if isinstance(task, Grouped) and self.model is Model.LOCAL
            else task.fit(n, self.part_epsilon)
            for task in grouped
        )

    def _group(self, question: Question, task: Task, declared: Mapping[str, Task]) -> Task:
        if question.by is None:
            return task
        with At(self, question):
            return Grouped.of(task, self.find_groups(question, declared))

    def find_groups(self, question: Question, declared: Mapping[str, Task]) -> Categories:
        """Find the groups of a question: its own, or the categories of another one about the column `by`."""
        if question.groups is not None:
            return Categories(k=len(question.groups), names=question.groups)
        for other in self.questions:
            domain = declared[other.name].domain
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
        """How its invalid values are handled: as it says itself, or as the survey says and the question can.

        >>> survey = Survey(epsilon=1.0, delta=1e-6, on_invalid="other,clamp", questions=(
        ...     Question(name="age", task="mean", column="age", options={"lower": 0, "upper": 120}),))
        >>> print(survey.find_policy(survey.questions[0], survey.tasks({}, 1000)[0]))
        clamp
        """
        if question.on_invalid is not None:
            return OnInvalid.read(question.on_invalid, self.missing)
        policy = OnInvalid.read(self.on_invalid, self.missing)
        if isinstance(task, Grouped):  # its two columns are treated apart
            return policy
        return Coder.for_part(task.domain, policy).on_invalid

    @property
    def part_epsilon(self) -> float:
        """About the epsilon that a question has for itself, if all have the same."""
        whole = _USUAL_EPSILON if self.epsilon is None else self.epsilon
        if self.model is Model.LOCAL:
            return whole / len(self.questions)
        if len(self.questions) == 1:
            return whole
        scale = gaussian_scale(Promise(epsilon=whole, delta=self.delta))
        share = scale / math.sqrt(len(self.questions))
        return min(whole, gaussian_epsilon(share, self.delta))

    def _check_delta(self, n: int) -> None:
        if self.model is not Model.LOCAL:
            check_delta(self.delta, n)

    def plan(self, n: int) -> SurveyPlan:
        """Which protocols answer it for n people, how well, and what each question costs."""
        self._check_delta(n)
        return make_plan(self, self.tasks({}, n), n)

    def ask(
        self,
        data: Any,
        *,
        engine: Engine | str | None = None,
        rng: WordSource | None = None,
        level: float = 0.95,
        where: Filter | str | None = None,
        ledger: Ledger | str | Path | None = None,
        budget: Budget | None = None,
        dataset: str = DATASET,
        report: Report | None = None,
    ) -> SurveyAnswer:
        """Ask the people in a file or a table; one charge to the ledger, if there is one."""
        valid_level(level)
        where = self.read_filter(where)
        spending = open_spending(ledger, budget, dataset, rng=rng, where=where)
        prepared = self.prepare(data, engine=engine, where=where, report=report, read_early=True)
        if spending is not None:
            spending.check(prepared.plan.protocol.guarantee)
        answer = prepared.answer(rng=rng, level=level, report=report)
        if spending is not None:
            spending.mark_released(spending.charge(answer.guarantee, answer.note))
        return answer

    def read_filter(self, where: Filter | str | None) -> Filter | None:
        """A filter, with what the survey says about missing values and about who may know whom it takes."""
        if where is None:
            return None
        return Filter.read(where, self.missing, public=self.where_public)

    def prepare(
        self,
        data: Any,
        *,
        engine: Engine | str | None = None,
        where: Filter | str | None = None,
        report: Report | None = None,
        n: int | None = None,
        read_early: bool = False,
    ) -> "PreparedSurvey":
        """Open the columns, count the people and make the protocols: nothing is randomized yet.

        With n the protocols are made for n people, however many there are. Files are read while the protocols are made,
        if that is wanted (`read_early`), for `answer`.
        """
        where = self.read_filter(where)
        columns: dict[str, Column] = {}
        for question in self.questions:
            for name in (question.column, question.by):
                if name is not None and name not in columns:
                    with At(self, question), stage(OPENING):
                        columns[name] = open_data(data, name, where)
        first = self.questions[0]
        column = columns[first.column]
        default = "memory" if column.array is not None else "duckdb"
        chosen = find_engine(default if engine is None else engine)
        people = column.rows
        if people is None:
            with At(self, first):
                task = find_planned(first.task).declare(first.options, column).task
                policy = self.find_policy(first, task)
                people = headcount(column, task.domain, policy, engine=chosen, report=report).n
        planned_for = people if n is None else n
        self._check_delta(planned_for)
        tasks = self.tasks(columns, planned_for)
        early = self._read_early(tasks, columns, chosen) if read_early else {}
        with stage(CALIBRATION):
            plan = make_plan(self, tasks, planned_for)
        return PreparedSurvey(plan=plan, columns=columns, engine=chosen, people=people, early=early)

    def _read_early(
        self, tasks: Sequence[Task], columns: Mapping[str, Column], engine: Engine
    ) -> dict[str, "Future[Headcount | Counts | None]"]:
        """Read and group small columns of files in a thread, while the protocols are chosen."""
        if not engine.local or engine.threads == 1 or self.model is Model.LOCAL:
            return {}
        reader = ThreadPoolExecutor(1, thread_name_prefix="survey")
        early: dict[str, Future[Headcount | Counts | None]] = {}
        for question, task in zip(self.questions, tasks, strict=True):
            policy = self.find_policy(question, task)
            column = columns[question.column]
            if task.domain.size > _FEW_CODES:
                continue
            if not isinstance(task, Grouped):
                read = partial(group_early, column, task.domain, policy, engine=engine)
                early[question.name] = reader.submit(read)
            elif not task.step:  # otherwise numbers are rounded at random
                assert question.by is not None
                pairs = (column, columns[question.by])
                count = partial(count_pairs, pairs, task.domain, engine, on_invalid=policy)
                early[question.name] = reader.submit(count)
        reader.shutdown(wait=False)
        return early


def _read_model(model: Model | str) -> Model:
    if model not in (Model.SHUFFLE, Model.LOCAL, Model.SHUFFLE.value, Model.LOCAL.value):
        raise ParameterError("model", model, "must be 'shuffle' or 'local'")
    return Model(model)


def _join_recoded(recoded: Sequence[tuple[str, str | None]]) -> str | None:
    """A line for the operator about all questions whose values became something else."""
    said = [f"{name}: {text}" for name, text in recoded if text is not None]
    return f"For you alone (exact, so not private): {'. '.join(said)}." if said else None


class _Asked(NamedTuple):
    question: Question
    task: Task
    part: ShuffleProtocol

    def read(self) -> Reading:
        """How to read its answer."""
        question, task, part = self
        return Reading.of(question.name, question.task, task, part, question.by)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedSurvey:
    """A plan and its columns: all that must be known before anybody's answers are randomized."""

    plan: SurveyPlan
    columns: Mapping[str, Column]
    engine: Engine
    people: int
    """How many there are, whatever number the protocols are made for."""
    early: Mapping[str, "Future[Headcount | Counts | None]"] = field(
        default_factory=dict, repr=False
    )
    """What was read already, by question. Secret."""

    @property
    def protocol(self) -> ShuffleProtocol:
        """The protocol, with the guarantee for the people who are there."""
        return self.plan.protocol.with_people(self.people)

    @property
    def _asked(self) -> Iterator[_Asked]:
        plan = self.plan
        for asked in zip(plan.survey.questions, plan.tasks, plan.parts, strict=True):
            yield _Asked(*asked)

    def randomize(
        self, out: str | Path, *, rng: WordSource | None = None, report: Report | None = None
    ) -> Randomized:
        """Write everybody's messages to a file: each with the number of its question, shuffled, without senders.

        >>> from tempfile import TemporaryDirectory
        >>> from shuffledp import tally_file
        >>> survey = Survey(epsilon=1.0, delta=1e-6, questions=(Question(name="home", task="count", column="home"),))
        >>> with TemporaryDirectory() as folder:
        ...     sent = survey.prepare({"home": [True, False] * 500}).randomize(f"{folder}/sent.parquet")
        ...     answer = SurveyAnswer.of(tally_file(sent.path))
        >>> answer.n, abs(answer["home"].estimate.value - 500) < 50
        (1000, True)
        """
        survey, taken = self.plan.survey, self._draw_questions(rng)
        return randomize_bundle(
            self.plan.protocol,
            (
                self._make_job(asked, rng, report, part)
                for asked, part in zip(self._asked, taken, strict=True)
            ),
            out,
            form=Form(title=survey.title, readings=tuple(each.read() for each in self._asked)),
            rng=rng,
            threads=self.engine.threads,
        )

    def _make_job(
        self,
        asked: _Asked,
        rng: WordSource | None,
        report: Report | None,
        taken: Bools | None = None,
    ) -> Job:
        """What the devices of one question read: those of the people who are taken (None: all)."""
        question, task, part = asked
        survey, domain = self.plan.survey, part.match_domain(task.domain)
        policy, column = survey.find_policy(question, task), self._open(question.column, taken)
        if isinstance(task, Grouped):
            with At(survey, question):
                pairs = (column, self._open(question.by, taken))
                column = pair_people(*pairs, task.domain, on_invalid=policy, rng=rng).column
            domain, policy = part.randomizer.domain, OnInvalid.ERROR
        return Job(column=column, coder=Coder(domain=domain, on_invalid=policy), report=report)

    def _open(self, name: str | None, taken: Bools | None = None) -> Column:
        assert name is not None
        column = self.columns[name]
        return column if taken is None else pick_rows(column, taken)

    def answer(
        self,
        *,
        rng: WordSource | None = None,
        level: float = 0.95,
        report: Report | None = None,
    ) -> SurveyAnswer:
        """Randomize, shuffle, tally and estimate, question by question: their words are independent."""
        plan = self.plan
        answers, recoded = [], []
        for asked, taken in zip(self._asked, self._draw_questions(rng), strict=True):
            with At(plan.survey, asked.question):
                if taken is None:
                    estimate, invalid = self._run(asked, rng, report)
                else:
                    estimate, invalid = self._run_sample(asked, taken, rng)
            recoded.append((asked.question.name, self._tell_recoded(asked, invalid)))
            answers.append(QuestionAnswer.of(asked.read(), asked.part, estimate, level))
        return SurveyAnswer(
            name=plan.survey.title,
            protocol=plan.protocol,
            answers=tuple(answers),
            n=plan.n,
            level=level,
            where=self.where,
            not_private=self.expose(rng),
            for_operator=_join_recoded(recoded),
        )

    @property
    def where(self) -> Filter | None:
        """Whom the survey is about."""
        return next(iter(self.columns.values())).where

    def expose(self, rng: WordSource | None) -> tuple[str, ...]:
        """What of the answers is not private, and why."""
        seeded = (SEEDED,) if isinstance(rng, SeededWords) else ()
        exposed = None if self.where is None else self.where.expose()
        return (*seeded, *([] if exposed is None else [exposed]))

    def _tell_recoded(self, asked: _Asked, invalid: Mapping[str, int] | None) -> str | None:
        """How many values of a question became something else, in words."""
        policy = self.plan.survey.find_policy(asked.question, asked.task)
        if invalid is None:  # of two columns: each is treated by itself
            assert isinstance(asked.task, Grouped)
            counts: Counter[str] = Counter()
            for name, domain in zip(
                (asked.question.column, asked.question.by), asked.task.domain.parts, strict=True
            ):
                own = Coder.for_part(domain, policy).on_invalid
                if own.recodes:
                    counts.update(read_codes(self._open(name), domain, own).invalid)
            invalid = {fault: counts[fault] for fault in FAULTS}
        return tell_recoded(policy, invalid)

    def _run(
        self, asked: _Asked, rng: WordSource | None, report: Report | None
    ) -> tuple[Estimate, Mapping[str, int] | None]:
        """The estimate, and how many values were invalid (None: not counted)."""
        question, task, part = asked
        policy = self.plan.survey.find_policy(question, task)
        column = self._open(question.column)
        read = self.early[question.name].result() if question.name in self.early else None
        if isinstance(task, Grouped):
            counts = read if isinstance(read, np.ndarray) else None
            if counts is None:
                pairs = (column, self._open(question.by))
                counts = count_pairs(pairs, task.domain, self.engine, on_invalid=policy, rng=rng)
            self._check_people(int(counts.sum()))
            tally = tally_counts(part, counts, SecureWords() if rng is None else rng)
            return task.convert(part.analyzer.estimate(tally)), None
        found = run_file(
            part,
            column,
            domain=part.match_domain(task.domain),
            on_invalid=policy,
            engine=self.engine,
            rng=rng,
            report=report,
            found=read if isinstance(read, Headcount) else None,
        )
        self._check_people(found.n)
        return found.estimate, found.invalid

    def _draw_questions(self, rng: WordSource | None) -> list[Bools | None]:
        """For each question whom it is asked, at random and whatever the answers are; None: everybody."""
        device = self.plan.protocol.randomizer
        if not isinstance(device, OneQuestionDevice):
            return [None] * len(self.plan.parts)
        words = SecureWords() if rng is None else rng
        chosen = device.choose(words.words(self.people, device.word_bits))
        taken = [chosen == place for place in range(len(device.devices))]
        if not all(map(np.any, taken)):
            raise DataError(f"of {self.people:,} people nobody has some question: they are too few")
        return [*taken]

    def _run_sample(
        self, asked: _Asked, taken: Bools, rng: WordSource | None
    ) -> tuple[Estimate, Mapping[str, int] | None]:
        """What the answers of some of the people say about all of them."""
        job = self._make_job(asked, rng, None, taken)
        domain, policy = job.coder.domain, job.coder.on_invalid
        found = run_file(
            asked.part, job.column, domain=domain, on_invalid=policy, engine="memory", rng=rng
        )
        estimate = scale_up(found.estimate, asked.part, int(taken.sum()), self.people)
        if isinstance(asked.task, Grouped):
            return asked.task.convert(estimate), None
        return estimate, found.invalid

    def _check_people(self, found: int) -> None:
        if found != self.plan.n:
            raise DataError(f"{found:,} answers, but {self.plan.n:,} people take part")
