"""What a survey answers: every question with its numbers, under one guarantee."""

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.accounting.explain import explain
from shuffledp.core.display import Number, Picture, as_text, shorten_label, write_dates
from shuffledp.core.errors import ParameterError
from shuffledp.core.estimate import Estimate
from shuffledp.core.mechanism import CentralMechanism, Mechanism
from shuffledp.core.notebook import (
    Columns,
    as_html,
    as_prose,
    frame_page,
    make_columns,
    say,
    stack,
    to_arrow,
    to_pandas,
    to_polars,
)
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.steps import draw_distribution
from shuffledp.core.validate import level as valid_level
from shuffledp.core.version import __version__
from shuffledp.protocols.bundle import BundleAnalyzer
from shuffledp.protocols.one_question import OneQuestionAnalyzer
from shuffledp.questions.answer import (
    UNITS,
    describe_shuffles,
    list_warnings,
    name_unit,
    tell_people,
    tell_shuffles,
    tell_whose,
)
from shuffledp.tasks import show_answer, task_named

if TYPE_CHECKING:
    from shuffledp.engine.filters import Filter
    from shuffledp.engine.people import People
    from shuffledp.engine.tallies import Collected, Reading
    from shuffledp.questions.bounds import Bounds

__all__ = ["QuestionAnswer", "SurveyAnswer", "name_task"]


def name_task(task: str, by: str | None) -> str:
    """What is asked, and of which groups.

    >>> name_task("count", None), name_task("count", "way")
    ('count', 'count by way')
    """
    return task if by is None else f"{task} by {by}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuestionAnswer:
    """The answer to one question of a survey."""

    name: str
    task: str
    kind: str
    """The task itself, without its groups."""
    protocol: ShuffleProtocol | Mechanism
    estimate: Estimate
    level: float = 0.95
    notes: tuple[str, ...] = ()
    moments: str | None = None
    """Dates count as these, days or seconds since 1970-01-01; None: there are none."""

    @classmethod
    def of(
        cls,
        reading: "Reading",
        protocol: ShuffleProtocol | Mechanism,
        estimate: Estimate,
        level: float,
    ) -> "QuestionAnswer":
        """The estimate as the answer to the question that was read."""
        return cls(
            name=reading.name,
            task=name_task(reading.task, reading.by),
            kind=reading.task,
            protocol=protocol,
            estimate=estimate,
            level=level,
            notes=reading.notes,
            moments=reading.moments,
        )

    @property
    def picture(self) -> Picture:
        """What to draw: every number with its error."""
        shown = show_answer(self.kind, self.estimate, self.level)
        if self.moments is None:
            return shown
        return write_dates(shown, self.moments, values=task_named(self.kind).dated)

    @property
    def title(self) -> str:
        """The question in a line."""
        return f"{shorten_label(self.name)}: {self.task}"

    to_pandas = to_pandas
    to_polars = to_polars
    to_arrow = to_arrow

    def _columns(self) -> Columns:
        return make_columns(Number._fields, self.picture.rows)

    def _repr_html_(self) -> str:
        """How notebooks show it; the guarantee is that of the whole survey."""
        notes = (say(note) for note in self.notes)
        return stack(say(self.title, bold=True), as_html(self.picture), *notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        return {
            "task": self.kind,
            "protocol": self.protocol.name,
            "estimate": self.picture.list_rows(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SurveyAnswer:
    """All answers of a survey, and the one guarantee that covers them together."""

    name: str
    """What the survey is called."""
    protocol: ShuffleProtocol | CentralMechanism
    answers: tuple[QuestionAnswer, ...]
    n: int
    level: float = 0.95
    where: "Filter | None" = None
    """Whom the survey is about."""
    not_private: tuple[str, ...] = ()
    people: "People | None" = None
    """Whom the rows were about; None: each row was taken to be one person."""
    unit: str = "row"
    """Of what the promise is: "person", with all their rows, or "row"."""
    notes: tuple[str, ...] = ()
    for_operator: str | None = None
    """How many values became something else: exact, so not private, and never part of a result."""
    shuffles: tuple[int, ...] = ()
    """How many people each shuffle had, if messages were collected; () where one machine had the columns."""
    guarantee_of_sum: Guarantee | None = None
    """What is promised against readers of nothing but the sum of several shuffles; None: there are none."""
    bounds: "Mapping[str, Bounds]" = field(default_factory=dict)
    """The ends that a first release found, by the name of the question."""

    def __post_init__(self) -> None:
        if self.people is not None:
            object.__setattr__(self, "unit", name_unit(self.people))

    @classmethod
    def of(cls, collected: "Collected", *, level: float = 0.95) -> "SurveyAnswer":
        """All answers that a tally of a survey gives; see `PreparedSurvey.randomize`."""
        form, analyzer = collected.form, collected.protocol.analyzer
        if form is None or not isinstance(analyzer, BundleAnalyzer | OneQuestionAnalyzer):
            raise ParameterError("collected", collected.protocol.name, "must be of a survey")
        answers = (
            QuestionAnswer.of(reading, part, reading.read(estimate), valid_level(level))
            for reading, part, estimate in zip(
                form.readings, analyzer.parts, analyzer.estimates(collected.tally), strict=True
            )
        )
        return cls(
            name=form.title or "survey",
            protocol=collected.in_force,
            answers=tuple(answers),
            n=collected.tally.users,
            level=level,
            shuffles=collected.shuffles,
            guarantee_of_sum=collected.guarantee_of_sum,
            unit=form.unit,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What was promised about all answers and bounds; of several shuffles, what the smallest promises."""
        own = self.protocol.guarantee
        for found in self.bounds.values():  # one release found them all
            return found.add_up(own)
        return own

    @property
    def title(self) -> str:
        """One line about the survey."""
        whose = tell_whose(self.where)
        return (
            f"{shorten_label(self.name)}: {len(self.answers)} questions, {self.n:,} people{whose}"
        )

    @property
    def warnings(self) -> list[str]:
        """What must not be overlooked, such as NOT PRIVATE."""
        return list_warnings(self.protocol, self.n, self.not_private, self.shuffles)

    @property
    def _told(self) -> tuple[str, ...]:
        apart = tell_shuffles(self.shuffles, self.guarantee_of_sum)
        bounds = (
            f"{name}: {text}"
            for name, found in self.bounds.items()
            for text in found.tell(shared=True)
        )
        return (*bounds, *self.notes, UNITS[self.unit], *apart)

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
        """What was promised to whom, in plain words."""
        return "\n\n".join([explain(self.protocol, self.shuffles), *self._told])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None: what `shuffledp run survey.toml --json` prints."""
        return {
            "epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "n": self.n,
            "unit": self.unit,
            "where": None if self.where is None else str(self.where),
            "questions": {answer.name: answer.to_dict() for answer in self.answers},
            "guarantee": self.guarantee.to_dict(),
            **describe_shuffles(self.shuffles, self.guarantee_of_sum),
            "not_private": list(self.not_private),
            "notes": list(self.notes),
            **({"bounds": {k: v.to_dict() for k, v in self.bounds.items()}} if self.bounds else {}),
            "version": __version__,
        }

    to_pandas = to_pandas
    to_polars = to_polars
    to_arrow = to_arrow

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
        promised = (self._about, f"{self.guarantee}.", *self._told)
        return "\n".join([*said, "", *(f"{text}." for text in self.warnings), *promised])

    def _repr_html_(self) -> str:
        """How notebooks show it: no headings, which are the notebook's own."""
        warnings = (say(f"{text}.", bold=True) for text in self.warnings)
        drawn = (
            stack(draw_distribution(answer.picture), answer._repr_html_())
            for answer in self.answers
        )
        told = map(say, (self._about, self._promised, *self._told))
        return stack(say(self.title, bold=True), *warnings, *drawn, *told)

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
        """One HTML page: all questions, the promise in words, and what was spent; no script, no outside file."""
        style = (
            "table{display:block;overflow-x:auto;border-collapse:collapse}td,th{padding:.1em .6em;white-space:nowrap}"
            "th{font-weight:normal}thead th{opacity:.7}code{font-size:.92em}"
        )
        page = frame_page(self.title, self._page_body(), style)
        place = Path(path)
        place.write_text(page, encoding="utf-8")
        return place
