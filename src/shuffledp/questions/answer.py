"""Answers: every question with its numbers, and what holds for all of them together.

`QuestionAnswer` is one question with its estimate. A `Release` is one or several of them to the same people, under
one guarantee: an `Answer` has one, and a `SurveyAnswer` has those of a survey."""

import html
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shuffledp.core import __version__
from shuffledp.core.analyzer import Estimate
from shuffledp.core.display import (
    MOMENTS,
    Moment,
    Number,
    Picture,
    as_text,
    format_ends,
    keep_largest,
    list_numbers,
    shorten_label,
    write_dates,
)
from shuffledp.core.errors import ParameterError
from shuffledp.core.notebook import (
    Columns,
    as_html,
    as_prose,
    draw_distribution,
    frame_page,
    make_columns,
    say,
    stack,
    to_arrow,
    to_pandas,
    to_polars,
)
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import CentralMechanism, ShuffleProtocol
from shuffledp.core.validate import level as valid_level
from shuffledp.engine.chunks import Engine
from shuffledp.engine.codes import OnInvalid
from shuffledp.engine.filters import Filter
from shuffledp.engine.output import write_result
from shuffledp.engine.people import People
from shuffledp.questions.remarks import (
    UNITS,
    explain_run,
    name_unit,
    tell_dropped,
    tell_people,
    tell_weaker,
    tell_whose,
)
from shuffledp.tasks import show_answer, task_named

if TYPE_CHECKING:
    from shuffledp.engine.tallies import Collected, Reading
    from shuffledp.questions.bounds import Bounds

_SHARES = 10  # shares of a population that a remark lists


def name_task(task: str, by: str | None) -> str:
    """Name what is asked, and of which groups.

    >>> name_task("count", None), name_task("count", "way")
    ('count', 'count by way')
    """
    return task if by is None else f"{task} by {by}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuestionAnswer:
    """One question and its answer."""

    name: str
    task: str
    """The task by its name."""
    by: str | None = None
    """The column of the groups; None: it is about everybody together."""
    protocol: ShuffleProtocol | CentralMechanism
    estimate: Estimate
    level: float = 0.95
    """Confidence level of the intervals."""
    notes: tuple[str, ...] = ()
    moments: str | None = None
    """What dates are counted in, days or seconds since 1970-01-01; None: there are none."""
    of_rows: bool = False
    """Whether it counts rows, of which a person may have several: no share of all is known then."""
    bounds: "Bounds | None" = None
    """The ends of the range, if a first release estimated them; None: they were declared."""

    def __post_init__(self) -> None:
        valid_level(self.level)

    @classmethod
    def of(
        cls,
        reading: "Reading",
        protocol: ShuffleProtocol | CentralMechanism,
        estimate: Estimate,
        level: float,
    ) -> "QuestionAnswer":
        """Return the estimate as the answer to the question that was read."""
        return cls(
            name=reading.name,
            task=reading.task,
            by=reading.by,
            protocol=protocol,
            estimate=estimate,
            level=level,
            notes=reading.notes,
            moments=reading.moments,
            of_rows=reading.of_rows,
        )

    @property
    def picture(self) -> Picture:
        """What to draw: every number with its error."""
        shown = show_answer(self.task, self.estimate, self.level)
        if self.of_rows:
            shown = replace(shown, people=None)
        if (ends := self.ends) is not None:
            shown = replace(shown, rows=tuple(row._replace(label=ends) for row in shown.rows))
        if self.moments is None:
            return shown
        return write_dates(shown, self.moments, values=task_named(self.task).dated)

    @property
    def ends(self) -> str | None:
        """The two ends of a range; None: it is not about one.

        >>> from shuffledp import ask
        >>> ask([3, 4, 5] * 500, "range", lower=0, upper=9, at=[3, 4], epsilon=1, delta=1e-6).question.ends
        '3 to 4'
        """
        ends = task_named(self.task).ends(self.estimate)
        if ends is None:
            return None
        make = None if self.moments is None else MOMENTS[self.moments]
        return " to ".join(f"{end:.12g}" if make is None else f"{make(end)}" for end in ends)

    @property
    def asked(self) -> str:
        """What is asked, in a few words."""
        return self.task if self.ends is None else f"{self.task} {self.ends}"

    @property
    def title(self) -> str:
        """The question in a line."""
        return f"{shorten_label(self.name)}: {name_task(self.asked, self.by)}"

    to_pandas = to_pandas
    to_polars = to_polars
    to_arrow = to_arrow

    def _columns(self) -> Columns:
        rows = [
            [each.when if isinstance(each, Moment) else each for each in row]
            for row in self.picture.rows
        ]
        return make_columns(Number._fields, rows)

    def _repr_html_(self) -> str:
        """Return how notebooks show it; the guarantee is that of the whole survey."""
        notes = (say(note) for note in self.notes)
        return stack(say(self.title, bold=True), as_html(self.picture), *notes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings."""
        return {
            "task": self.task,
            "protocol": self.protocol.name,
            "estimate": self.picture.list_rows(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Release(ABC):
    """One or several answers of the same people, and what holds for all of them together."""

    protocol: ShuffleProtocol | CentralMechanism
    answers: tuple[QuestionAnswer, ...]
    n: int
    """How many people took part."""
    engine: Engine | None = None
    """What read the columns; None: messages were collected."""
    dealt: bool = False
    """Whether every tally was drawn from the number of people with each code; if not, devices made messages."""
    where: Filter | None = None
    """Whom it is about; None: everybody."""
    people: People | None = None
    """Whom the rows were about; None: each row was taken to be one person."""
    unit: str = "row"
    """Whom the promise protects: a "person", with all their rows, or a "row"."""
    notes: tuple[str, ...] = ()
    not_private: tuple[str, ...] = ()
    """What this reveals without any noise to protect it."""
    shuffles: tuple[int, ...] = ()
    """How many people each shuffle had, if messages were collected; () where one machine had the columns."""
    guarantee_of_sum: Guarantee | None = None
    """What is promised against readers of nothing but the sum of several shuffles; None: there are none."""
    for_operator: str | None = None
    """Exact numbers for whoever has the data anyway. Not part of the result: do not publish them."""

    def __post_init__(self) -> None:
        if self.people is not None:
            object.__setattr__(self, "unit", name_unit(self.people))

    @property
    def level(self) -> float:
        """Confidence level of the intervals."""
        return self.answers[0].level

    @property
    def guarantee(self) -> Guarantee:
        """What was promised, estimated bounds included; of several shuffles, what the smallest of them promises."""
        own = self.protocol.guarantee
        for each in self.answers:
            if each.bounds is not None:  # one release found all bounds
                return each.bounds.add_up(own)
        return own

    @property
    def warnings(self) -> list[str]:
        """What must not be overlooked, such as NOT PRIVATE."""
        weaker = tell_weaker(self.protocol, self.n)
        if len(self.shuffles) > 1:
            weaker = tell_weaker(self.protocol, min(self.shuffles), apart=True)
        exposed = [f"NOT PRIVATE: {text}" for text in self.not_private]
        return exposed if weaker is None else [*exposed, weaker]

    @property
    def covers(self) -> tuple[str, ...]:
        """Sentences that say whom the guarantee protects, and against whom if there were several shuffles.

        >>> from shuffledp import SeededWords, ask, protocols
        >>> answer = ask([True, False] * 1000, "count", epsilon=1, delta=1e-6, rng=SeededWords(1))
        >>> both = protocols.rr.make(n=2000, epsilon=1.0, delta=1e-6).guarantee
        >>> print(replace(answer, shuffles=(1000, 1000), guarantee_of_sum=both).covers[1])
        This is the guarantee of the smallest of 2 shuffles, with 1,000 people: whoever has the files sees each of them by itself.
        """
        unit = UNITS[self.unit]
        if self.guarantee_of_sum is None:
            return (unit,)
        return (
            unit,
            f"This is the guarantee of the smallest of {len(self.shuffles):,} shuffles, with {min(self.shuffles):,} "
            "people: whoever has the files sees each of them by itself.",
            f"For readers of nothing but the sum: {self.guarantee_of_sum}.",
        )

    to_pandas = to_pandas
    to_polars = to_polars
    to_arrow = to_arrow

    @abstractmethod
    def _columns(self) -> Columns:
        """Return a row for each number."""

    def with_bounds(self, bounds: "Mapping[str, Bounds]") -> Self:
        """Return the same with the ends that a first release estimated, by the name of the question."""
        answers = (replace(each, bounds=bounds.get(each.name)) for each in self.answers)
        return replace(self, answers=tuple(answers))

    def _explain(
        self,
        said: tuple[str, ...],
        dropped: str | None,
        on_invalid: OnInvalid | None,
        *,
        several: bool = False,
    ) -> str:
        from shuffledp.accounting.explain import explain

        said = (explain(self.protocol, self.shuffles, self.guarantee), *said)
        if self.engine is not None:
            curated, name = not isinstance(self.protocol, ShuffleProtocol), self.engine.name
            run = explain_run(name, curated, self.dealt, dropped, on_invalid, several=several)
            said = (*said, run)
        return "\n\n".join(said)

    def _describe_promise(self) -> dict[str, Any]:
        """Describe what is promised against whom, as JSON has it."""
        summed: dict[str, Any] | None = None
        if (promise := self.guarantee_of_sum) is not None:
            summed = {"against": "readers of nothing but the sum"}
            summed |= {"epsilon": promise.epsilon, "delta": promise.delta, **promise.to_dict()}
        return {
            "guarantee": self.guarantee.to_dict(),
            "shuffles": list(self.shuffles),
            "guarantee_of_sum": summed,
            "not_private": list(self.not_private),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Answer(Release):
    """The answer to one question: `ask` returns it, and `shuffledp run` prints it."""

    column: str | None = None
    files: tuple[str, ...] = ()
    rows: int | None = None
    invalid: Mapping[str, int] | None = None
    """How many values were left out, by reason; None if that would break the promise."""
    on_invalid: OnInvalid | None = None
    seed: int | None = None
    population: bool = False
    """Whether these people are declared to be a random sample of a population."""

    @classmethod
    def of(
        cls, collected: "Collected", *, level: float = 0.95, files: tuple[str, ...] = ()
    ) -> "Answer":
        """Return the answer that a tally gives; `SurveyAnswer.of` has those of a survey.

        >>> from shuffledp import protocols
        >>> from shuffledp.core.analyzer import Tally
        >>> from shuffledp.engine import Collected
        >>> import numpy as np
        >>> p = protocols.krr.make_local(k=2, epsilon=1.0)
        >>> Answer.of(Collected(protocol=p, tally=Tally(counts=np.array([3, 1]), users=4)))
        Answer(histogram, 4 people, krr)
        """
        from shuffledp.engine.tallies import Reading

        protocol, form, task = collected.in_force, collected.form, collected.protocol.task
        asked = Reading(name=task, task=task) if form is None else form.readings[0]
        return cls(
            protocol=protocol,
            answers=(QuestionAnswer.of(asked, protocol, collected.estimate, level),),
            n=collected.tally.users,
            notes=asked.notes,
            files=files,
            shuffles=collected.shuffles,
            guarantee_of_sum=collected.guarantee_of_sum,
            not_private=collected.not_private,
            unit="row" if form is None else form.unit,
        )

    @property
    def question(self) -> QuestionAnswer:
        """The question with its numbers."""
        (answered,) = self.answers
        return answered

    @property
    def task(self) -> str:
        """The question by name."""
        return self.question.task

    @property
    def by(self) -> str | None:
        """The column of the groups; None: it is about everybody together."""
        return self.question.by

    @property
    def estimate(self) -> Estimate:
        """The numbers, with their errors."""
        return self.question.estimate

    @property
    def moments(self) -> str | None:
        """What dates are counted in, days or seconds since 1970-01-01; None: there are none."""
        return self.question.moments

    @property
    def bounds(self) -> "Bounds | None":
        """The ends of the range, if a first release estimated them; None: they were declared."""
        return self.question.bounds

    @property
    def picture(self) -> Picture:
        """What to draw: every number with its error."""
        return self.question.picture

    @property
    def promised(self) -> tuple[str, ...]:
        """The guarantee in a line, whom it protects, and against whom if there were several shuffles."""
        return (f"{self.protocol.name}: {self.guarantee}.", *self.covers)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the task remarks about this estimate."""
        about = self._tell_population() if self.population else tell_people(self.n)
        bounds = () if self.bounds is None else self.bounds.tell()
        return (*bounds, about, *task_named(self.task).tell(self.estimate))

    @property
    def shares(self) -> tuple[Number, ...]:
        """Shares of the population of which these people are a random sample, with intervals of noise and sampling.

        Half of the error probability is for the noise, the other half for the sample (Clopper and Pearson), so the
        intervals cover with at least the level, bin by bin.

        >>> from shuffledp import SeededWords, ask
        >>> asked = {"epsilon": 1, "delta": 1e-6, "rng": SeededWords(1)}
        >>> answer = ask([True, False] * 500, "count", population=True, **asked)
        >>> [round(each, 2) for each in answer.shares[0][1:]]
        [0.5, 0.02, 0.46, 0.54]
        """
        from shuffledp.numerics.intervals.sample import bound_population

        rows = list_numbers(self.estimate, (1 + self.level) / 2, self.task)
        noise = self.estimate.exact_interval((1 + self.level) / 2)
        ends = [np.broadcast_to(np.asarray(end, dtype=np.float64), (len(rows),)) for end in noise]
        low, high = bound_population(ends[0], ends[1], self.n, (1 - self.level) / 4)
        shares = []
        for row, least, most in zip(rows, low.tolist(), high.tolist(), strict=True):
            share = row.value / self.n
            spread = min(max(share, 0.0), 1.0)
            error = math.hypot(row.stderr / self.n, math.sqrt(spread * (1 - spread) / self.n))
            shares.append(Number(row.label, share, error, least, most))
        return tuple(shares)

    def _tell_population(self) -> str:
        shown = keep_largest(list(self.shares), _SHARES)
        listed = "; ".join(
            f"{shorten_label(row.label)} {row.value:.4f} ({' .. '.join(format_ends(row.low, row.high, 4))})"
            for row in shown
        )
        return (
            f"If these {self.n:,} people are a random sample, the shares of the population are, with intervals that "
            f"cover noise and sampling: {listed}. The interval of the count is about these people alone."
        )

    @property
    def title(self) -> str:
        """The question in a line."""
        of = "" if self.column is None else f" of {shorten_label(self.column)}"
        of += "" if self.by is None else f" by {shorten_label(self.by)}"
        out = sum((self.invalid or {}).values())
        left = f" ({out:,} left out)" if out else ""
        people = "1 person" if self.n == 1 else f"{self.n:,} people"
        return f"{self.question.asked}{of}, {people}{tell_whose(self.where)}{left}"

    @property
    def dropped(self) -> str | None:
        """How many people were left out, if somebody was."""
        return tell_dropped(self.invalid, self.rows, self.n)

    def explain(self) -> str:
        """Explain what was promised to whom, and what happened in this run, in plain words."""
        return self._explain(self.covers, self.dropped, self.on_invalid)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and None: what `shuffledp run --json` prints."""
        return {
            "task": self.task,
            "protocol": self.protocol.name,
            "parameters": dict(self.protocol.parameters),
            "engine": None if self.engine is None else self.engine.name,
            "dealt": self.dealt,
            "column": self.column,
            "files": list(self.files),
            "by": self.by,
            "where": None if self.where is None else str(self.where),
            "n": self.n,
            "unit": self.unit,
            "rows": self.rows,
            "invalid": None if self.invalid is None else dict(self.invalid),
            "on_invalid": None if self.on_invalid is None else self.on_invalid.value,
            "epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "level": self.level,
            "estimate": self.picture.list_rows(),
            **self._describe_promise(),
            "seed": self.seed,
            "notes": [*self.notes, *self.remarks],
            **({"population": [row.to_dict() for row in self.shares]} if self.population else {}),
            **({} if self.bounds is None else {"bounds": self.bounds.to_dict()}),
            **task_named(self.task).details(self.estimate),
            "version": __version__,
        }

    def _columns(self) -> Columns:
        return self.question._columns()

    def write(self, path: str | Path) -> Path:
        """Write it to a file: everything (.json), or a row for each number (.csv, .tsv, .parquet).

        >>> from tempfile import mkdtemp
        >>> from shuffledp import ask
        >>> answer = ask([True, False] * 500, "count", epsilon=1, delta=1e-6)
        >>> answer.write(f"{mkdtemp()}/r.csv").read_text().split()[0]
        'label,value,stderr,low,high,share'
        """
        return write_result(self.to_dict(), Path(path))

    def plot(self, path: str | Path) -> Path:
        """Draw it as a picture (.png, .svg, .pdf) or as a page (.html)."""
        from shuffledp.show import plot_estimate, state_finding

        shown = self.picture
        finds = (
            (self.by is not None and not shown.groups)
            or task_named(self.task).bins
            or [row.label for row in shown.rows] in ([self.task], [self.question.ends])
            or shown.curve is not None
            or (shown.limits is not None and len(shown.rows) > 1)
        )
        promise, *covers = self.promised
        return plot_estimate(
            shown,
            Path(path),
            title=self.title,
            finding=state_finding(shown) if finds else "",
            warnings=self.warnings,
            notes=[promise.removesuffix("."), *covers, *self.notes, *self.remarks],
            brief=[f"{promise.partition('; by ')[0]}.", UNITS[self.unit]],
            axis=self._axis,
            model=self.guarantee.model.value,
        )

    @property
    def _axis(self) -> str:
        """What the numbers are numbers of."""
        if not self.picture.whole:
            return self.column or ""
        return "rows" if self.question.of_rows else "people"

    def __repr__(self) -> str:
        return f"Answer({self.title}, {self.protocol.name})"

    def __str__(self) -> str:
        return "\n".join([self.title, as_text(self.picture), *self._lines()])

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        said = (say(line) for line in self._lines())
        return stack(say(self.title, bold=True), as_html(self.picture), *said)

    def _lines(self) -> list[str]:
        said = [*(f"{text}." for text in self.warnings), self.dropped, *self.notes, *self.remarks]
        return [line for line in (*said, *self.promised) if line is not None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SurveyAnswer(Release):
    """All answers of a survey, and the one guarantee that covers them together."""

    name: str
    """What the survey is called."""

    @classmethod
    def of(cls, collected: "Collected", *, level: float = 0.95) -> "SurveyAnswer":
        """Return all answers that a tally of a survey gives; see `Prepared.randomize`."""
        from shuffledp.protocols.bundle import BundleAnalyzer
        from shuffledp.protocols.one_question import OneQuestionAnalyzer

        form, analyzer = collected.form, collected.protocol.analyzer
        if form is None or not isinstance(analyzer, BundleAnalyzer | OneQuestionAnalyzer):
            raise ParameterError("collected", collected.protocol.name, "must be of a survey")
        answers = (
            QuestionAnswer.of(reading, part, reading.read(estimate), level)
            for reading, part, estimate in zip(
                form.readings, analyzer.parts, analyzer.estimates(collected.tally), strict=True
            )
        )
        return cls(
            name=form.title or "survey",
            protocol=collected.in_force,
            answers=tuple(answers),
            n=collected.tally.users,
            shuffles=collected.shuffles,
            guarantee_of_sum=collected.guarantee_of_sum,
            not_private=collected.not_private,
            unit=form.unit,
        )

    @property
    def bounds(self) -> "dict[str, Bounds]":
        """The ends that a first release found, by the name of the question."""
        return {each.name: each.bounds for each in self.answers if each.bounds is not None}

    @property
    def title(self) -> str:
        """One line about the survey."""
        asked = f"{len(self.answers)} questions, {self.n:,} people"
        return f"{shorten_label(self.name)}: {asked}{tell_whose(self.where)}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was found before the questions were asked, and what the promise covers."""
        bounds = (
            f"{name}: {text}"
            for name, bounds in self.bounds.items()
            for text in bounds.tell(shared=True)
        )
        return (*bounds, *self.notes, *self.covers)

    @property
    def _about(self) -> str:
        return tell_people(self.n, several=True)

    def __getitem__(self, name: str) -> QuestionAnswer:
        for answer in self.answers:
            if answer.name == name:
                return answer
        names = ", ".join(answer.name for answer in self.answers)
        raise ParameterError("question", name, f"must be one of {names}")

    def explain(self) -> str:
        """Explain what was promised to whom, and what happened in this run, in plain words."""
        return self._explain(self.remarks, None, None, several=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and None: what `shuffledp run survey.toml --json` prints."""
        bounds = {name: each.to_dict() for name, each in self.bounds.items()}
        return {
            "epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "n": self.n,
            "unit": self.unit,
            "where": None if self.where is None else str(self.where),
            "questions": {answer.name: answer.to_dict() for answer in self.answers},
            **self._describe_promise(),
            "notes": list(self.notes),
            **({"bounds": bounds} if bounds else {}),
            "version": __version__,
        }

    def _columns(self) -> Columns:
        rows = [(answer.name, *row) for answer in self.answers for row in answer.picture.rows]
        return make_columns(["question", *Number._fields], rows)

    def write(self, path: str | Path) -> Path:
        """Write it as JSON."""
        place = Path(path)
        place.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        return place

    def __repr__(self) -> str:
        return f"SurveyAnswer({self.title})"

    def __str__(self) -> str:
        said = [self.title]
        for answer in self.answers:
            said += ["", answer.title, as_text(answer.picture), *answer.notes]
        promised = (self._about, f"{self.guarantee}.", *self.remarks)
        return "\n".join([*said, "", *(f"{text}." for text in self.warnings), *promised])

    def _repr_html_(self) -> str:
        """Return how notebooks show it: no headings, which are the notebook's own."""
        warnings = (say(f"{text}.", bold=True) for text in self.warnings)
        drawn = (
            stack(draw_distribution(answer.picture), answer._repr_html_())
            for answer in self.answers
        )
        closing = map(say, (self._about, self._promised, *self.remarks))
        return stack(say(self.title, bold=True), *warnings, *drawn, *closing)

    @property
    def _promised(self) -> str:
        return f"For all questions together: {self.guarantee}."

    def _page_body(self) -> str:
        parts = [f"<h1>{html.escape(self.title)}</h1>"]
        parts += [f"<p><b>{html.escape(text)}.</b></p>" for text in self.warnings]
        for answer in self.answers:
            parts.append(f"<h2>{html.escape(answer.title)}</h2>")
            parts.append(draw_distribution(answer.picture))
            parts.append(as_html(answer.picture))
            parts += [f"<p>{as_prose(note)}</p>" for note in answer.notes]
        parts.append(f"<p>{html.escape(self._about)}</p>")
        parts.append(f"<h2>The promise</h2><p>{html.escape(self._promised)}</p>")
        parts += [f"<p>{as_prose(text)}</p>" for text in self.explain().split("\n\n")]
        return "".join(parts)

    def plot(self, path: str | Path) -> Path:
        """Write one HTML page: all questions and the promise in words; no script, no outside file."""
        style = (
            "table{display:block;overflow-x:auto;border-collapse:collapse}td,th{padding:.1em .6em;white-space:nowrap}"
            "th{font-weight:normal}thead th{opacity:.7}code{font-size:.92em}"
        )
        page = frame_page(self.title, self._page_body(), style)
        place = Path(path)
        place.write_text(page, encoding="utf-8")
        return place
