"""Means of rows, and means of people of whom some have no value: the ratio of two sums, released together.

A person has R values that count, from none up to K, and S is what they add up to, measured from the middle of the range in
halves of it: so |S| <= R <= K. Everybody's S and R are added up, both sums get noise, and the mean follows from their
ratio, with an interval by the law of numerator - r denominator (`numerics.intervals.sample`).

Shuffled, both sums are parts of one bundle. A curator has them for the price of one: replacing somebody moves (S, R) by at
most 2 K in l1. For |S - S'| + |R - R'| with R >= R' is at most R + R' + (R - R') = 2 R.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.analyzer import Estimate
from shuffledp.core.arrays import Counts
from shuffledp.core.domain import Integers, Reals
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import Mechanism, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Declared
from shuffledp.engine.chunks import Engine, Report
from shuffledp.engine.columns import Column
from shuffledp.engine.reducing import Reduced
from shuffledp.mechanisms import geometric
from shuffledp.numerics.entropy import SecureWords
from shuffledp.numerics.intervals.laplace import DiscreteLaplaceError
from shuffledp.numerics.intervals.sample import RatioError
from shuffledp.questions.answer import Answer, QuestionAnswer
from shuffledp.questions.question import Question
from shuffledp.questions.remarks import expose
from shuffledp.questions.survey import Survey
from shuffledp.tasks import Sum

if TYPE_CHECKING:
    from shuffledp.questions.prepared import Prepared


_GRID = 1 << 30  # of half a range, for a curator
_MOST = 1 << 18  # rows of a person


def find_half(domain: Integers | Reals) -> float:
    """Say what one value adds to the numerator at most: half of the range, or all of it, so that integers stay whole.

    >>> find_half(Integers(lower=0, upper=5)), find_half(Reals(lower=0.0, upper=5.0, steps=9))
    (5, 2.5)
    """
    width = domain.upper - domain.lower
    return width if isinstance(domain, Integers) else width / 2


def split_mean(
    question: Question, domain: Integers | Reals, most: int | None
) -> tuple[Question, Question]:
    """Return the questions about the numerator and the denominator of a mean; `most` None: of one value of each person.

    >>> asked = Question(name="km", task="mean", column="km", options={"lower": 0, "upper": 9})
    >>> [each.declared.task.domain for each in split_mean(asked, Integers(lower=0, upper=9), 4)]
    [Integers(lower=-36, upper=36), Integers(lower=0, upper=4)]
    >>> split_mean(asked, Reals(lower=0.0, upper=1.0, steps=8), 1)[0].declared.task.domain
    Reals(lower=-0.5, upper=0.5, steps=8)
    """
    if question.protocol is not None:
        raise UnsupportedError(
            f"protocol={question.protocol!r} is for one sum: this mean is the ratio of two, with the best of each"
        )
    if most is not None and most > _MOST:
        raise ParameterError("max_rows", most, f"must be <= {_MOST:,} for a mean")
    places = most or 1
    far = places * find_half(domain)
    scale: Integers | Reals
    if isinstance(domain, Reals):
        scale = replace(domain, lower=-far, upper=far)
    else:
        scale = Integers(lower=-int(far), upper=int(far))
    chosen = isinstance(domain, Reals) and "steps" not in question.options
    tasks = (
        (question.name, Sum(domain=scale, chosen=chosen)),
        (f"{question.name} (rows)", Sum(domain=Integers(lower=0, upper=places))),
    )
    first, second = (
        Question(
            name=name,
            task="sum",
            column=name,
            weight=question.weight,
            people=question.people,
            declared=Declared(task=task),
        )
        for name, task in tasks
    )
    return first, second


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratio:
    """A mean as two sums of the same people. Secret: it has their values."""

    question: Question
    """As it was asked."""
    ends: tuple[float, float]
    half: float
    """What one row adds to the numerator at most."""
    most: int
    """Rows of a person that count at most."""
    tops: Column
    rows: Column
    parts: tuple[Question, Question]
    """The questions about numerator and denominator."""
    moments: str | None = None
    """What dates are counted in; None: there are none."""

    @classmethod
    def of(
        cls, question: Question, domain: Integers | Reals, reduced: Reduced, most: int | None
    ) -> "Ratio":
        """Measure everybody's sum from the middle of the range; `most` None: one value of each person."""
        import pyarrow as pa

        lower, upper, array = domain.lower, domain.upper, reduced.column.array
        counts = np.asarray(reduced.counts if most else array.is_valid(), dtype=np.int64)
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        if isinstance(domain, Integers):
            within = np.clip(values.astype(np.int64), lower * counts, upper * counts)
            tops: Any = 2 * within - (lower + upper) * counts
        else:
            half = find_half(domain)
            within = np.clip(values, lower * counts, upper * counts) - (lower + half) * counts
            tops = np.clip(within, -half * counts, half * counts)
        column = replace(reduced.column, array=pa.array(tops), moments=None)
        return cls(
            question=question,
            ends=(float(lower), float(upper)),
            half=float(find_half(domain)),
            most=most or 1,
            tops=column,
            rows=replace(column, array=pa.array(counts)),
            parts=split_mean(question, domain, most),
            moments=reduced.column.moments,
        )

    @property
    def people(self) -> int:
        """How many there are."""
        return len(self.rows.array)

    @property
    def remark(self) -> str:
        """What readers of the mean should know."""
        return (
            "The mean is the ratio of two sums, each with noise; its interval covers the noise of both. It is the whole "
            "range if there may be no values at all."
        )

    def combine(self, top: Estimate, rows: Estimate) -> Estimate:
        """Return the mean, from both sums."""
        error = RatioError(top=top, rows=rows, half=self.half, ends=self.ends)
        return Estimate(value=error.value, error=error, limits=self.ends)

    def make_mechanism(self, epsilon: float) -> geometric.Geometric:
        """Return the curator's noise for both sums at once."""
        return geometric.make(epsilon=epsilon, sensitivity=2 * self.most * _GRID, k=2)

    def release(self, mechanism: ShuffleProtocol | Mechanism, rng: WordSource | None) -> Estimate:
        """Return the mean of a curator."""
        assert isinstance(mechanism, geometric.Geometric)
        counts: Counts = self.rows.array.to_numpy()
        tops = np.rint(self.tops.array.to_numpy() / self.half * _GRID).astype(np.int64)
        tops = np.clip(tops, -_GRID * counts, _GRID * counts)
        # In Python's integers: no number of people overflows.
        exact = [sum(tops.tolist()), _GRID * int(counts.sum())]
        released = mechanism.release(exact, SecureWords() if rng is None else rng)
        # Everybody's sum was rounded to the grid.
        off = len(counts) / (2 * _GRID)
        laws = [
            DiscreteLaplaceError(noise=mechanism.noise, shape=(), step=1 / _GRID, rounding=each)
            for each in (off, 0.0)
        ]
        top, rows = (
            Estimate(value=float(value) / _GRID, error=law, limits=(-1.0, 1.0))
            for value, law in zip(np.asarray(released.value).tolist(), laws, strict=True)
        )
        return replace(self, half=1.0).combine(top, rows)


def join_mean(answers: list[QuestionAnswer], ratios: Mapping[str, Ratio]) -> list[QuestionAnswer]:
    """Return the answers, with a mean in the place of its numerator and denominator, if they came last.

    >>> join_mean([], {})
    []
    """
    for ratio in ratios.values():
        if answers[-1].name == ratio.parts[1].name:
            top, rows = answers[-2:]
            mean = replace(
                top,
                name=ratio.question.name,
                task=ratio.question.task,
                by=None,
                estimate=ratio.combine(top.estimate, rows.estimate),
                notes=(),
                moments=ratio.moments,
            )
            return [*answers[:-2], mean]
    return answers


def prepare_curated(
    survey: Survey, ratio: Ratio, engine: Engine, rng: WordSource | None
) -> "Prepared":
    """Prepare a curator's answer: both sums of a mean at once."""
    from shuffledp.questions.prepared import Part, Prepared

    assert survey.epsilon is not None
    made = ratio.make_mechanism(survey.epsilon)
    part = Part(
        question=ratio.question,
        task=ratio.question.kind.declare({}).task,
        protocol=made,
        column=ratio.tops,
        grouping=None,
        policy=survey.on_invalid,
    )
    return Prepared(
        survey=survey,
        parts=(part,),
        protocol=made,
        engine=engine,
        people=ratio.people,
        rng=rng,
        not_private=expose(rng, ratio.tops.where),
    )


def answer_mean(ready: "Prepared", ratio: Ratio, level: float, report: Report | None) -> Answer:
    """Answer a mean that was asked by itself, from its two sums."""
    from shuffledp.questions.prepared import Ran

    if ready.plan is not None:
        estimate = ratio.combine(*ready.estimate_all(report))
        dealt = all(part.shuffled.dealt for part in ready.parts)
    else:
        estimate, dealt = ratio.release(ready.parts[0].protocol, ready.rng), False
    return ready.tell(Ran(estimate=estimate, n=ready.people, dealt=dealt), level)
