"""A survey and its columns: the people are counted and the protocols made; then everybody is asked.

One question and several take the same way. One question has a protocol of its own, several are parts of a bundle.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.analyzer import Estimate
from shuffledp.core.arrays import Bools, Counts
from shuffledp.core.domain import Categories
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import CentralMechanism, Mechanism, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Task
from shuffledp.engine.chunks import (
    CALIBRATION,
    DEALING,
    GROUPING,
    CodeCounts,
    Engine,
    Headcount,
    Job,
    Report,
    timed,
)
from shuffledp.engine.codes import FILTERED, Coder, OnInvalid
from shuffledp.engine.columns import Column
from shuffledp.engine.files import (
    headcount,
    release_column,
    release_counts,
    run_file,
)
from shuffledp.engine.filters import Filter
from shuffledp.engine.local import (
    DuckDB,
    Memory,
    Pairs,
    count_pairs,
    group_pairs,
    pair_people,
    pick_rows,
    tally_counts,
)
from shuffledp.numerics.entropy import SecureWords, SeededWords
from shuffledp.planner.choice import seed_functions
from shuffledp.questions.answer import Answer, QuestionAnswer, SurveyAnswer
from shuffledp.questions.question import Question, date_bins, date_labels, name_bins
from shuffledp.questions.remarks import (
    describe_invalid,
    expose,
    name_unit,
    remark,
    remark_on,
    tell_filter,
    tell_mechanism,
    tell_moments,
    tell_operator,
    tell_unit,
    tell_weaker,
)
from shuffledp.questions.survey import Survey, use_grid
from shuffledp.tasks import task_named
from shuffledp.tasks.groups import Grouped, leave_out, spread_groups

if TYPE_CHECKING:
    from shuffledp.engine.messages import Randomized
    from shuffledp.engine.tallies import Form, Reading
    from shuffledp.ledger import Spending
    from shuffledp.questions.bounds import Bounding
    from shuffledp.questions.plans import SurveyPlan
    from shuffledp.questions.ratios import Ratio
    from shuffledp.questions.reading import Early


_NO_MESSAGES = "nobody sends messages in the central model"
Columns = Mapping[str | None, Column]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One question with its columns and its protocol."""

    question: Question
    task: Task
    """With its public domain; by group, over pairs of answer and group."""
    protocol: ShuffleProtocol | Mechanism
    column: Column
    grouping: Column | None
    policy: OnInvalid
    """How invalid values are handled."""
    counted: Headcount | None = None
    """What was read to count the people."""
    pairs: Pairs | None = None
    """The pairs of answer and group, if they were read to count the people,"""
    grouped: CodeCounts | None = None
    """or how many people have each pair, if only that was."""
    early: "Early | None" = None
    """What was read meanwhile. Secret."""

    @property
    def shuffled(self) -> ShuffleProtocol:
        """The protocol, if people send messages."""
        if not isinstance(self.protocol, ShuffleProtocol):
            raise UnsupportedError(_NO_MESSAGES)
        return self.protocol

    def read(self, name: str) -> "Reading":
        """Say how to read its answer."""
        from shuffledp.engine.tallies import Reading

        question, made = self.question, self.protocol
        by, moments = question.shown_by, self.column.moments
        if isinstance(made, ShuffleProtocol):
            reading = Reading.of(name, question.task, self.task, made, by, question.hidden)
            reading = replace(reading, bins=date_bins(reading.bins, self.task, moments))
        else:
            reading = Reading(name=name, task=question.task, by=by, notes=remark_on(self.task))
        return replace(reading, moments=moments, of_rows=question.of_rows)

    def convert(self, estimate: Estimate) -> Estimate:
        """Return the answer to the question, from that of its protocol."""
        task, bins, hidden = self.task, self.task.domain, self.question.hidden
        if isinstance(task, Grouped):
            estimate, bins = task.convert(estimate), task.domain.parts[1]
        estimate = date_labels(estimate, task, self.column.moments)
        return leave_out(estimate, bins.size, hidden) if hidden else estimate

    @property
    def both(self) -> tuple[Column, Column]:
        """The columns of the answers and of the groups."""
        assert self.grouping is not None
        return self.column, self.grouping

    def pick(self, taken: Bools | None) -> "Part":
        """Keep some of the people (None: all)."""
        if taken is None:
            return self
        grouping = None if self.grouping is None else pick_rows(self.grouping, taken)
        return replace(self, column=pick_rows(self.column, taken), grouping=grouping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run on a column gives."""

    estimate: Estimate
    n: int
    rows: int | None = None
    invalid: Mapping[str, int] | None = None
    """How many values were invalid, by reason; None: not counted."""
    dealt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A survey and its columns: all that must be known before anybody's answers are randomized."""

    survey: Survey
    parts: tuple[Part, ...]
    protocol: ShuffleProtocol | CentralMechanism
    """As it was made, for as many people as were planned."""
    engine: Engine
    people: int
    """How many there are, whatever number the protocols are made for."""
    rng: WordSource | None = None
    plan: "SurveyPlan | None" = None
    """How the budget is divided; None: one question has it all."""
    notes: tuple[str, ...] = ()
    """What the reader of the answer should know."""
    not_private: tuple[str, ...] = ()
    """What the answer reveals without any noise to protect it."""
    for_operator: str | None = None
    """How many rows there were: exact, and covered by no promise."""
    ratios: "Mapping[str, Ratio]" = field(default_factory=dict)
    """Means that are two sums, by the name of the question. Secret."""
    lone: "Ratio | None" = None
    """The mean that was asked by itself, if it is two sums."""
    bounding: "Bounding | None" = None
    """What is asked with the bounds that this release finds; None: this is the question itself."""

    @property
    def in_force(self) -> ShuffleProtocol | CentralMechanism:
        """The protocol, with the guarantee for the people who are there."""
        made = self.protocol
        return made.with_people(self.people) if isinstance(made, ShuffleProtocol) else made

    @property
    def where(self) -> Filter | None:
        """Whom the survey is about."""
        return self.parts[0].column.where

    @property
    def note(self) -> dict[str, Any]:
        """What a ledger writes down about it."""
        part = self.parts[0]
        asked = part.question if self.lone is None else self.lone.question
        named: dict[str, Any] = {"task": asked.task, "column": part.column.name}
        if self.bounding is not None:
            named |= self.bounding.note
        if not self.survey.alone and self.lone is None:
            whole = self.survey if self.bounding is None else self.bounding.survey
            named = {"task": "survey", "questions": [each.name for each in whole.questions]}
        elif part.question.by is not None:
            named["by"] = part.question.by
        if self.where is not None:
            named["where"] = str(self.where)
            named["where_public"] = self.where.public
            named |= {"where_private": True} if self.where.private else {}
        people = self.survey.people
        named |= {} if people is None else {"person": list(people.person)}
        return {**named, "protocol": self.protocol.name, "unit": name_unit(people)}

    def answer(
        self,
        *,
        level: float = 0.95,
        report: Report | None = None,
        spending: "Spending | None" = None,
    ) -> Answer | SurveyAnswer:
        """Randomize, shuffle, tally and estimate, question by question: their words are independent.

        A curator answers exactly and adds the noise. What could not be charged is refused before anybody is asked.
        """
        if self.bounding is not None:
            return self.bounding.answer(self, level=level, report=report, spending=spending)
        if spending is not None:
            spending.check(self.protocol.guarantee, self.note)
        if self.survey.alone and self.lone is None:
            return self.tell(self._run(self.parts[0], report), level)
        from shuffledp.questions.ratios import answer_mean, join_mean

        if self.lone is not None:
            return answer_mean(self, self.lone, level, report)
        from shuffledp.questions.reading import tell_recoded_values

        answers: list[QuestionAnswer] = []
        recoded, dealt = [], True
        for part, ran in self._run_all(report):
            dealt &= ran.dealt
            name = part.question.name
            if (said := tell_recoded_values(part, ran.invalid)) is not None:
                recoded.append(f"{name}: {said}")
            answers.append(QuestionAnswer.of(part.read(name), part.protocol, ran.estimate, level))
            answers = join_mean(answers, self.ratios)
        return SurveyAnswer(
            name=self.survey.title,
            protocol=self.protocol,
            answers=tuple(answers),
            n=self.people,
            engine=self.engine,
            dealt=dealt,
            where=self.where,
            not_private=self.not_private,
            people=self.survey.people,
            notes=self.notes,
            for_operator=tell_operator(self.for_operator, *recoded),
        )

    def release(
        self,
        spending: "Spending | None",
        answer: Answer | SurveyAnswer,
        tell: Callable[[str], object] = str,
    ) -> AbstractContextManager[None]:
        """Charge the answer, let it be shown, and write down that it is out; nothing without a ledger."""
        if spending is None:
            return nullcontext()
        note = {**self.note, "protocol": answer.protocol.name, "n": answer.n}
        return spending.release(answer.guarantee, note, tell)

    def estimate_all(self, report: Report | None) -> list[Estimate]:
        """Return the estimate of every part."""
        return [ran.estimate for _, ran in self._run_all(report)]

    def _run_all(self, report: Report | None) -> Iterator[tuple[Part, Ran]]:
        """Ask everybody every question, or each person the one that was drawn."""
        for part, taken in zip(self.parts, self._draw_questions(), strict=True):
            with self.survey.locate(part.question):
                ran = self._run(part, report) if taken is None else self._run_sample(part, taken)
            yield part, ran

    def tell(self, ran: Ran, level: float) -> Answer:
        """Return the answer to the one question that was asked, with all that holds for it."""
        part, made = self.parts[0], self.protocol
        column, policy = part.column, part.policy
        asked = part.question if self.lone is None else self.lone.question
        public, private = None, None
        if ran.invalid is not None:
            public, private = describe_invalid(policy, ran.invalid)
        made = made.with_people(ran.n) if isinstance(made, ShuffleProtocol) else made
        answered = QuestionAnswer(
            name=asked.name,
            task=asked.task,
            by=asked.shown_by,
            protocol=made,
            estimate=ran.estimate,
            level=level,
            moments=column.moments if self.lone is None else self.lone.moments,
            of_rows=asked.of_rows,
        )
        return Answer(
            protocol=made,
            answers=(answered,),
            n=ran.n,
            column=column.name,
            engine=self.engine,
            dealt=ran.dealt,
            files=tuple(file.path for file in column.files),
            where=column.where,
            rows=None if column.reduced else ran.rows,
            invalid=None if column.reduced else public,
            people=asked.people,
            on_invalid=policy,
            seed=self.rng.seed if isinstance(self.rng, SeededWords) else None,
            notes=self.notes,
            not_private=self.not_private,
            population=asked.population,
            for_operator=tell_operator(self.for_operator, private),
        )

    def _run(self, part: Part, report: Report | None) -> Ran:
        """Estimate from the answers of everybody to one question."""
        read = part.counted if part.early is None else part.early.result()
        if part.grouped is not None:
            return self._run_grouped(part, part.grouped)
        if isinstance(part.task, Grouped) and part.pairs is None:
            return self._run_pairs(part, read)
        pairs, made = part.pairs, part.protocol
        asked = part.task if pairs is None else spread_groups(part.task)
        common: dict[str, Any] = {
            "engine": self.engine if pairs is None or self.engine.local else Memory(),
            "on_invalid": part.policy if pairs is None else OnInvalid.ERROR,
            "rng": self.rng,
            "report": report,
            "found": read if isinstance(read, Headcount) else None,
        }
        column = part.column if pairs is None else pairs.column
        if isinstance(made, ShuffleProtocol):
            answered: Any = run_file(made, column, domain=asked.domain, **common)
            people, dealt = answered.n, answered.dealt
        else:
            answered = release_column(made, asked, column, **common)
            people, dealt = answered.n // asked.values, False  # a curator counts values
        if not self.survey.alone:
            self._check_people(people)
        source = answered if pairs is None else pairs
        return Ran(
            estimate=part.convert(answered.estimate),
            n=people,
            rows=source.rows,
            invalid=source.invalid,
            dealt=dealt,
        )

    def _run_pairs(self, part: Part, read: Headcount | Counts | None) -> Ran:
        """Estimate from pairs of answer and group, which nobody has read one by one yet."""
        assert isinstance(part.task, Grouped)
        counts = read
        if not isinstance(counts, np.ndarray):
            asked = part.both, part.task.domain, self.engine
            counts = count_pairs(*asked, on_invalid=part.policy, rng=self.rng)
        self._check_people(int(counts.sum()))
        return Ran(estimate=self._estimate_pairs(part, counts), n=int(counts.sum()))

    def _run_grouped(self, part: Part, grouped: CodeCounts) -> Ran:
        """Estimate from pairs that were counted to count the people."""
        if isinstance(part.protocol, ShuffleProtocol):
            part.protocol.check_users(grouped.n)
        return Ran(
            estimate=self._estimate_pairs(part, grouped.counts),
            n=grouped.n,
            rows=grouped.rows,
            invalid=grouped.invalid,
            dealt=isinstance(part.protocol, ShuffleProtocol) and part.protocol.dealt,
        )

    def _estimate_pairs(self, part: Part, counts: Counts) -> Estimate:
        words = SecureWords() if self.rng is None else self.rng
        if not isinstance(part.protocol, ShuffleProtocol):
            asked = spread_groups(part.task)
            return part.convert(release_counts(part.protocol, asked, counts, words))
        with timed(DEALING):
            tally = tally_counts(part.protocol, counts, words, self.engine.threads)
        return part.convert(part.protocol.analyzer.estimate(tally))

    def _run_sample(self, part: Part, taken: Bools) -> Ran:
        """Estimate from the answers of some of the people what all of them would have said."""
        from shuffledp.protocols.one_question import scale_up

        job = self._make_job(part.pick(taken), None)
        domain, policy = job.coder.domain, job.coder.on_invalid
        answered = run_file(
            part.shuffled,
            job.column,
            domain=domain,
            on_invalid=policy,
            engine="memory",
            rng=self.rng,
        )
        estimate = scale_up(answered.estimate, part.shuffled, int(taken.sum()), self.people)
        invalid = None if isinstance(part.task, Grouped) else answered.invalid
        return Ran(estimate=part.convert(estimate), n=answered.n, invalid=invalid)

    def _make_job(self, part: Part, report: Report | None) -> Job:
        """Say what the devices of one question read."""
        column, policy = part.column, part.policy
        domain = part.shuffled.match_domain(spread_groups(part.task).domain)
        if isinstance(part.task, Grouped):
            with self.survey.locate(part.question):
                given: dict[str, Any] = {"on_invalid": policy, "rng": self.rng}
                column = pair_people(*part.both, part.task.domain, **given).column
            domain, policy = part.shuffled.randomizer.domain, OnInvalid.ERROR
        coder = Coder(domain=domain, on_invalid=policy, moments=column.moments)
        return Job(column=column, coder=coder, report=report)

    def _draw_questions(self) -> list[Bools | None]:
        """Draw for each question whom it is asked, whatever the answers are; None: everybody."""
        from shuffledp.protocols.one_question import OneQuestionDevice

        device = self.protocol.randomizer if isinstance(self.protocol, ShuffleProtocol) else None
        if not isinstance(device, OneQuestionDevice):
            return [None] * len(self.parts)
        words = SecureWords() if self.rng is None else self.rng
        chosen = device.choose(words.words(self.people, device.word_bits))
        taken = [chosen == place for place in range(len(device.devices))]
        if not all(map(np.any, taken)):
            raise DataError(
                f"{self.people:,} people are too few: at least one question has nobody to answer it"
            )
        return [*taken]

    def _check_people(self, people: int) -> None:
        assert self.plan is not None
        if people != self.plan.n:
            raise DataError(f"{people:,} answers, but {self.plan.n:,} people take part")

    def randomize(self, out: str | Path, *, report: Report | None = None) -> "Randomized":
        """Write everybody's messages to a file: shuffled, without senders; each with the number of its question.

        >>> from tempfile import TemporaryDirectory
        >>> from shuffledp import Question, SurveyAnswer, tally_file
        >>> survey = Survey(epsilon=1.0, delta=1e-6, questions=(Question(name="home", task="count", column="home"),))
        >>> with TemporaryDirectory() as folder:
        ...     sent = survey.prepare({"home": [True, False] * 500}).randomize(f"{folder}/sent.parquet")
        ...     answer = SurveyAnswer.of(tally_file(sent.path))
        >>> answer.n, abs(answer["home"].estimate.value - 500) < 50
        (1000, True)
        """
        if self.ratios:
            raise UnsupportedError(
                "a mean that is the ratio of two sums has no messages: prepare it to be sent, or ask where the data are"
            )
        if self.survey.alone:
            return self._randomize_one(out, report)
        from shuffledp.engine.messages import randomize_bundle

        if not isinstance(self.protocol, ShuffleProtocol):
            raise UnsupportedError(_NO_MESSAGES)
        people = zip(self.parts, self._draw_questions(), strict=True)
        return randomize_bundle(
            self.protocol,
            (self._make_job(part.pick(taken), report) for part, taken in people),
            out,
            form=self._make_form(),
            rng=self.rng,
            threads=self.engine.threads,
            not_private=self._expose_sent(),
        )

    def _expose_sent(self) -> tuple[str, ...]:
        """Say what no noise protects, without the words of a filter: they stay with the data."""
        words = None if self.where is None else self.where.expose()
        filtered = words is not None and not self.where.private  # type: ignore[union-attr]
        kept = [FILTERED if each == words else each for each in self.not_private]
        return tuple(each for each in kept if filtered or each != FILTERED)

    def _make_form(self, name: str | None = None) -> "Form":
        """Say what was asked, for whoever reads the messages; `name` is that of one question."""
        from shuffledp.engine.tallies import Form

        return Form(
            title=self.survey.title if name is None else None,
            readings=tuple(part.read(name or part.question.name) for part in self.parts),
            unit=name_unit(self.survey.people),
        )

    def _randomize_one(self, out: str | Path, report: Report | None) -> "Randomized":
        (part,) = self.parts
        made, pairs, counted = part.shuffled, part.pairs, part.counted
        from shuffledp.engine.messages import randomize_file

        if part.grouped is not None:  # messages are of one person each
            assert isinstance(part.task, Grouped)
            given: dict[str, Any] = {"on_invalid": part.policy, "rng": self.rng}
            pairs, counted = pair_people(*part.both, part.task.domain, **given), None
        common: dict[str, Any] = {
            "domain": name_bins(made, spread_groups(part.task).domain),
            "rng": self.rng,
            "threads": self.engine.threads,
            "report": report,
            "found": counted,
            "not_private": self._expose_sent(),
        }
        if pairs is None:
            domain, form = part.task.domain, None
            bins = isinstance(made.randomizer.domain, Categories) and not isinstance(
                domain, Categories
            )
            if self.survey.people or part.column.moments or bins or part.question.task != made.task:
                # It names the question and its bins, so that values are read as they are elsewhere.
                form, common["domain"] = self._make_form(part.column.name), domain
            given = {"on_invalid": part.policy, "form": form, **common}
            return randomize_file(made, part.column, out, **given)
        form = self._make_form(part.column.name)
        sent = randomize_file(made, pairs.column, out, form=form, **common)
        return replace(sent, rows=pairs.rows, invalid=pairs.invalid)

    def describe_sent(self, sent: "Randomized") -> tuple[dict[str, Any], str | None]:
        """Say what may be said about the messages, as JSON has it, and a line for the operator alone."""
        assert isinstance(self.in_force, ShuffleProtocol)
        weaker = tell_weaker(self.in_force, sent.n)
        moved = None
        if self.plan is not None:
            asked = {
                row.question: {"task": row.task, "protocol": row.protocol} for row in self.plan.rows
            }
            record: dict[str, Any] = {"survey": self.survey.title, "questions": asked}
        else:
            public, moved = describe_invalid(self.parts[0].policy, sent.invalid)
            record = {
                "task": self.parts[0].question.task,
                "protocol": self.protocol.name,
                "parameters": dict(self.protocol.parameters),
                "rows": None if self.parts[0].column.reduced else sent.rows,
                "invalid": None if self.parts[0].column.reduced else public,
            }
        people = self.survey.people
        said = {"not_private": list(self.not_private), "notes": [*self.notes, tell_unit(people)]}
        told = (tell_operator(self.for_operator, moved), None if weaker is None else f"{weaker}.")
        private = " ".join(each for each in told if each) or None
        return {**record, "unit": name_unit(people), **said}, private


def prepare(
    survey: Survey,
    columns: Columns,
    *,
    engine: Engine | None = None,
    rng: WordSource | None = None,
    report: Report | None = None,
    n: int | None = None,
    read_early: bool = False,
    sent: bool = False,
    charged: bool = False,
) -> Prepared:
    """Count the people and make the protocols of a survey whose columns are open; see `Survey.prepare`."""
    if sent and survey.model is Model.CENTRAL:  # before anything is charged
        raise UnsupportedError(_NO_MESSAGES)
    if any(question.auto is not None for question in survey.questions):
        from shuffledp.questions.bounds import prepare_bounds

        if sent or n is not None:
            raise UnsupportedError("lower and upper cannot be 'auto' in messages: declare them")
        return prepare_bounds(
            survey, columns, charged=charged, engine=engine, rng=rng, report=report
        )
    first = columns[survey.questions[0].column]
    chosen = engine or (DuckDB() if first.array is None else Memory())
    given = (chosen, rng, report, n)
    if not survey.has_rows(first.where, charged=charged):
        return _prepare(survey, columns, *given, read_early=read_early, sent=sent)
    from shuffledp.questions.people import make_people

    with timed(GROUPING):
        made = make_people(survey, columns, chosen, rng, sent=sent)
    lone = next(iter(made.ratios.values()), None) if survey.alone else None
    if lone is not None and survey.max_messages is not None:
        raise UnsupportedError("max_messages is for one protocol: this mean is two sums")
    if lone is not None and survey.model is Model.CENTRAL:
        from shuffledp.questions.ratios import prepare_curated

        ready = prepare_curated(survey, lone, chosen, rng)
    else:
        ready = _prepare(made.survey, made.columns, *given, read_early=read_early, sent=sent)
    if lone is not None:
        said = (*tell_moments(lone.moments, dated=True), *tell_filter(lone.tops.where))
        notes = (*said, *survey.check_delta(ready.people))
        ready = replace(ready, lone=lone, notes=notes)
    notes = (*made.notes, *ready.notes)
    return replace(ready, notes=notes, for_operator=made.for_operator, ratios=made.ratios)


def _prepare(
    survey: Survey,
    columns: Columns,
    engine: Engine,
    rng: WordSource | None,
    report: Report | None,
    n: int | None,
    *,
    read_early: bool,
    sent: bool,
) -> Prepared:
    if not survey.alone:
        return _prepare_several(survey, columns, engine, rng, report, n, read_early=read_early)
    (question,) = survey.questions
    column = question.measure(columns[question.column])
    columns = {**columns, question.column: column}
    declared = survey.declare(columns)
    task, policy = declared[question.name].task, survey.on_invalid
    grouping, pairs, grouped = None, None, None
    if question.by is None:
        plain = use_grid(task) if survey.model is Model.LOCAL else task
        with timed(GROUPING):
            counted = headcount(column, plain.domain, policy, engine=engine, report=report)
        planned = counted.n // plain.values if n is None else n
        (fitted,) = survey.fit(declared, columns, planned)
        asked = fitted
    else:
        grouping = columns[question.by]
        survey.find_groups(question, {}, grouping)
        with timed(GROUPING):
            people = n or column.rows
            if people is None:
                own = Coder.for_part(task.domain, policy)
                given: dict[str, Any] = {"engine": engine, "report": report}
                people = headcount(column, own.domain, own.on_invalid, **given).n
            (fitted,) = survey.fit(declared, columns, people)
            assert isinstance(fitted, Grouped)
            both = column, grouping
            grouped = None if sent else group_pairs(both, fitted.domain, engine, policy)
            asked = spread_groups(fitted)
            if grouped is not None and grouped.n > 0:
                counted = Headcount(n=grouped.n, rows=grouped.rows, invalid=grouped.invalid)
            else:
                pairs = pair_people(*both, fitted.domain, on_invalid=policy, rng=rng)
                here = engine if engine.local else Memory()
                counted = headcount(pairs.column, asked.domain, engine=here, report=report)
        planned = counted.n if n is None else n
    adds = isinstance(fitted, Grouped) and fitted.sums_up
    with timed(CALIBRATION):
        made = survey.choose(question, asked, n=planned, for_file=not sent)
        if isinstance(rng, SeededWords) and isinstance(made, ShuffleProtocol):
            made = seed_functions(made, rng.seed)
    if question.by is not None and made.name == "stability_histogram":
        raise UnsupportedError("stability_histogram leaves out bins: it has no answer by group")
    return Prepared(
        survey=survey,
        parts=(
            Part(
                question=question,
                task=fitted,
                protocol=made,
                column=column,
                grouping=grouping,
                policy=policy,
                counted=counted,
                pairs=pairs,
                grouped=None if pairs is not None else grouped,
            ),
        ),
        protocol=made,
        engine=engine,
        people=counted.n // asked.values,
        rng=rng,
        notes=(
            *declared[question.name].notes,
            *tell_moments(column.moments, dated=task_named(question.task).dated),
            *tell_filter(column.where),
            *(() if question.by is None else fitted.remarks()),
            *remark(survey, asked, planned, compare=n is None and not adds),
            *tell_mechanism(survey, made),
        ),
        not_private=expose(rng, column.where, declared[question.name], policy),
    )


def _prepare_several(
    survey: Survey,
    columns: Columns,
    engine: Engine,
    rng: WordSource | None,
    report: Report | None,
    n: int | None,
    *,
    read_early: bool,
) -> Prepared:
    from shuffledp.questions.plans import make_plan
    from shuffledp.questions.reading import Reader

    first = survey.questions[0]
    column = first.measure(columns[first.column])
    declared = survey.declare(columns)
    reader = None
    if read_early:
        tasks = {name: each.task for name, each in declared.items()}
        reader = Reader.start(survey, tasks, columns, engine)
    task = declared[first.name].task
    people = None if column.rows is None else column.rows // task.values
    if people is None:
        with survey.locate(first):
            people = None if reader is None else reader.count_people()
            if people is None:
                policy = survey.find_policy(first, task)
                people = headcount(column, task.domain, policy, engine=engine, report=report).n
    planned = people if n is None else n
    survey.check_delta(planned)
    fitted = survey.fit(declared, columns, planned)
    early = {} if reader is None else reader.read(fitted)
    with timed(CALIBRATION):
        plan = make_plan(survey, fitted, planned)
    return Prepared(
        survey=survey,
        parts=tuple(
            Part(
                question=question,
                task=task,
                protocol=protocol,
                column=question.measure(columns[question.column]),
                grouping=None if question.by is None else columns[question.by],
                policy=survey.find_policy(question, task),
                early=early.get(question.name),
            )
            for question, task, protocol in zip(
                survey.questions, plan.tasks, plan.parts, strict=True
            )
        ),
        protocol=plan.protocol,
        engine=engine,
        people=people,
        rng=rng,
        plan=plan,
        not_private=expose(rng, column.where),
    )
