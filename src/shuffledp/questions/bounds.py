"""Bounds that nobody knows: a first release counts people by magnitude, and the question is asked with what it finds.

The bands are public: [2^j, 2^(j+1)) for j = -20 .. 62, the same with the other sign, and zero; smaller magnitudes are
zero, larger ones are in the last band. A trusted machine counts them with discrete Laplace noise (`geometric`), a
shuffler with differences of negative binomial numbers (`correlated_histogram`): both add integers that are independent
from band to band, and whose law is the same whatever the people say. So t, the count that noise alone reaches in any of
the 167 bands with probability at most 1 %, is known exactly: with r the radius that |noise| exceeds with probability at
most 2 * 1 % / 167, t = r + 1, since the noise is symmetric. What several rows of a person become has fewer bands.

An end of the range is one band beyond the outermost band whose own count reaches t: the tail beyond it is real. The
question is then asked with these ends and with the rest of the budget. The ends are a function of the first release, so
the two releases compose one after the other, and their epsilons and deltas add up (Dwork, Roth 2014, "The algorithmic
foundations of differential privacy", Theorem 3.16 and Appendix B: the second may depend on what the first showed).

How many people lie beyond the ends is a sum of counts of the first release: of those beyond, or n less those within,
whichever adds less noise. Which sum it is depends on the noise, so the interval holds for all sums that it could be, by
a union bound.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.display import Number
from shuffledp.core.errors import ShuffledpError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.privacy import Guarantee, Model, round_up
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import say_of
from shuffledp.core.validate import positive
from shuffledp.engine.chunks import Engine, Report
from shuffledp.engine.codes import Action
from shuffledp.engine.columns import Column
from shuffledp.engine.people import Of, Reduce
from shuffledp.mechanisms import geometric
from shuffledp.numerics.intervals import Difference, DifferenceError, DiscreteLaplaceError
from shuffledp.numerics.rounding import float_above, float_below
from shuffledp.planner.question import candidates
from shuffledp.protocols import correlated_histogram
from shuffledp.questions.answer import Answer
from shuffledp.questions.prepared import Prepared, prepare
from shuffledp.questions.question import AutoBounds, Question
from shuffledp.questions.survey import Survey
from shuffledp.tasks.numbers import Bin, Cdf, Range

if TYPE_CHECKING:
    from shuffledp.ledger import Spending

__all__ = [
    "ALL",
    "BETA",
    "OF_PEOPLE",
    "Bands",
    "Bounding",
    "Bounds",
    "choose_bounds",
    "find_threshold",
    "prepare_bounds",
]

BETA = 0.01
"""The probability that noise alone makes some band look as if people were in it, at most."""
_WHOLE = 2.0**53  # up to here, ends of integers are written as integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Public bands of magnitudes: from 2^j to 2^(j+1) for j = first .. last, of both signs, and zero.

    >>> ALL.size, ALL.edges[ALL.zero : ALL.zero + 2] == (-(2.0**-20), 2.0**-20)
    (167, True)
    """

    first: int
    last: int

    @property
    def _powers(self) -> tuple[float, ...]:
        return tuple(2.0**j for j in range(self.first, self.last + 2))

    @property
    def edges(self) -> tuple[float, ...]:
        """Where a band ends and the next one begins."""
        return (*(-power for power in reversed(self._powers)), *self._powers)

    @property
    def size(self) -> int:
        """How many there are."""
        return 2 * len(self._powers) - 1

    @property
    def zero(self) -> int:
        """The band of zero, and of all that is smaller than the smallest magnitude."""
        return len(self._powers) - 1

    @property
    def ends(self) -> tuple[float, ...]:
        """What an end of a range may be: that of a band, with zero as a point, and one beyond the last."""
        beyond = 2 * self._powers[-1]
        below = tuple(-power for power in reversed(self._powers))
        return (-beyond, *below, 0.0, *self._powers, beyond)


ALL = Bands(first=-20, last=62)
OF_PEOPLE = Bands(first=-10, last=30)
"""For what several rows of a person become: they are added up as fixed-point numbers, of which 2^-10 is a unit."""
_MECHANISMS = {
    Model.CENTRAL: geometric.SPEC.name,
    Model.SHUFFLE: correlated_histogram.SPEC.name,
}
"""What counts the bands: the law of its noise is known, and the same in each of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """The ends of a range that a first release found, and what it cost."""

    lower: float
    upper: float
    ends: tuple[str, ...]
    """Which of them are estimated."""
    share: float
    guarantee: Guarantee
    """Of the first release alone."""
    protocol: str
    threshold: int
    """How many people a band had to have, by its noisy count."""
    clamped: Number
    """The share of the people who are beyond the estimated ends; the interval holds whatever ends were found."""

    def add_up(self, own: Guarantee) -> Guarantee:
        """What is promised about the first release and the answer together.

        >>> one = Guarantee(epsilon=0.25, delta=0.0, model=Model.CENTRAL, proof="A")
        >>> print(_add_up(one, replace(one, epsilon=0.5, proof="B")))
        epsilon = 0.75, delta = 0: central model, replace-one neighbours, a trusted curator; by sequential composition (Dwork, Roth 2014) of bounds, by A, and an answer, by B
        """
        return _add_up(self.guarantee, own)

    def tell(self) -> tuple[str, ...]:
        """What readers of the answer should know."""
        named = " and ".join(f"{name} = {_spell(getattr(self, name))}" for name in self.ends)
        several = len(self.ends) > 1
        part = self.clamped
        value = min(max(part.value, 0.0), 1.0)
        spent = f"epsilon = {round_up(self.guarantee.epsilon, 6)}"
        if self.guarantee.delta:
            spent += f" and delta = {round_up(self.guarantee.delta, 3)}"
        return (
            f"{named} {'are' if several else 'is'} estimated, by a first release that spent {spent} of the total "
            f"({self.protocol}; a band of magnitudes counts from {self.threshold:,} people on). The answer is about "
            f"values limited to {_spell(self.lower)} .. {_spell(self.upper)}.",
            f"Beyond {'these bounds' if several else 'this bound'}, and so moved to "
            f"{'them' if several else 'it'}: about {value:.2%} of the people ({part.low:.2%} .. {part.high:.2%}).",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        return {
            "lower": self.lower,
            "upper": self.upper,
            "estimated": list(self.ends),
            "share": self.share,
            "epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "protocol": self.protocol,
            "threshold": self.threshold,
            "clamped": self.clamped.to_dict(),
        }


def _add_up(first: Guarantee, second: Guarantee) -> Guarantee:
    total = {
        name: float_above(Fraction(getattr(first, name)) + Fraction(getattr(second, name)))
        for name in ("epsilon", "delta")
    }
    return replace(
        second,
        epsilon=total["epsilon"],
        delta=min(total["delta"], 1.0),
        honest=max(first.honest, second.honest),
        proof=f"sequential composition (Dwork, Roth 2014) of bounds, by {first.proof}, and an answer, by {second.proof}",
    )


def _spell(end: float) -> str:
    return f"{end:,.0f}" if abs(end) < _WHOLE and end == int(end) else f"{end:.6g}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounding:
    """A question whose bounds are found first, and what it needs to be asked then."""

    survey: Survey
    columns: Mapping[str | None, Column]
    engine: Engine | str | None
    rng: WordSource | None
    epsilon: float
    """What is left for the question itself."""
    delta: float

    @property
    def question(self) -> Question:
        """The question itself."""
        return self.survey.questions[0]

    @property
    def auto(self) -> AutoBounds:
        """What of its range is to be found."""
        assert self.question.auto is not None
        return self.question.auto

    @property
    def note(self) -> dict[str, Any]:
        """What a ledger writes down about it."""
        more = {} if self.question.by is None else {"by": self.question.by}
        return {"task": self.question.task, "bounds": list(self.auto.ends), **more}

    def answer(
        self,
        first: Prepared,
        *,
        level: float,
        report: Report | None,
        spending: "Spending | None",
    ) -> Answer:
        """Count the bands, choose the ends, and ask the question with the rest of the budget.

        If that fails, even because no band has enough people, the first release has been spent, and is charged.
        """
        if spending is not None:
            own = first.protocol.guarantee
            total = replace(own, epsilon=self.survey.epsilon or 0.0, delta=self.survey.delta)
            spending.check(total, first.note)
        counted = replace(first, bounding=None).answer(level=level, report=report)
        assert isinstance(counted, Answer)
        try:
            found = self._find(counted, level)
            answer = self._ask(found, level, report)
        except ShuffledpError as error:
            if spending is not None:
                note = {**first.note, "n": counted.n, "refused": True}
                spending.mark_released(spending.charge(counted.guarantee, note))
            spent = f"epsilon = {round_up(counted.guarantee.epsilon, 6)}"
            raise UnsupportedError(f"{error}; the release of the bands spent {spent}") from error
        return replace(answer, bounds=found)

    def _find(self, counted: Answer, level: float) -> Bounds:
        """The bounds that the counts of the bands give; refuses if no band has enough people."""
        threshold = find_threshold(counted.estimate)
        values: Floats = np.asarray(counted.estimate.value)
        kind = self.question.kind
        options = kind.read_options(self.question.options)
        points = options.get("at", ()) if kind in (Cdf, Range) else ()
        places = choose_bounds(values >= threshold, self.bands, points)
        if places is None:
            raise UnsupportedError(
                f"no bounds were found for n = {counted.n:,}: with this share of the budget a band of magnitudes must "
                f"hold about {threshold:,} people, so it can work from n = {threshold:,} if all are in one band, and "
                f"from about m times that if they are spread over m bands; declare lower and upper, or raise epsilon "
                "or bounds_share"
            )
        if self.bands is not ALL and np.any(values[[0, -1]] >= threshold):
            raise UnsupportedError(
                f"the values of people reach 2^{self.bands.last}, the last band of what rows are added up to: declare "
                "lower and upper"
            )
        found = (self.bands.ends[place] for place in places)
        ends = dict(zip(("lower", "upper"), found, strict=True))
        if self._is_whole:
            ends = _make_whole(ends)
        ends |= {name: options[name] for name in ends if name not in self.auto.ends}
        if ends["lower"] >= ends["upper"]:
            raise UnsupportedError(
                f"the bounds that were found, {_spell(ends['lower'])} .. {_spell(ends['upper'])}, are no range: "
                f"the {' and '.join(set(ends) - set(self.auto.ends))} that was declared is beyond the people"
            )
        return Bounds(
            **ends,
            ends=self.auto.ends,
            share=self.auto.share,
            guarantee=counted.guarantee,
            protocol=counted.protocol.name,
            threshold=threshold,
            clamped=_count_beyond(counted, self.bands, self.auto.ends, places, level),
        )

    @property
    def _is_whole(self) -> bool:
        """Whether the column holds integers, by its type."""
        column = self.columns[self.question.column]
        how = self.reduce
        return how is not Reduce.MEAN and not column.text and not column.fractional

    @property
    def reduce(self) -> Reduce | None:
        """What becomes of a person's rows; None: each row is a person."""
        people, given = self.question.people, self.question.trial
        return None if people is None else people.choose(self.question.kind.declare(given).task)

    @property
    def bands(self) -> Bands:
        """What the first release counts people in."""
        return ALL if self.question.people is None else OF_PEOPLE

    def _ask(self, found: Bounds, level: float, report: Report | None) -> Answer:
        """The answer to the question with these bounds, by the rest of the budget."""
        options = {**self.question.options, "lower": found.lower, "upper": found.upper}
        survey = replace(
            self.survey,
            epsilon=self.epsilon,
            delta=self.delta,
            questions=(replace(self.question, options=options, auto=None),),
        )
        given: dict[str, Any] = {"engine": self.engine, "rng": self.rng, "report": report}
        answer = prepare(survey, self.columns, **given).answer(level=level, report=report)
        assert isinstance(answer, Answer)
        return answer


def prepare_bounds(
    survey: Survey,
    columns: Mapping[str | None, Column],
    *,
    engine: Engine | str | None,
    rng: WordSource | None,
    report: Report | None,
    charged: bool = False,
) -> Prepared:
    """Prepare the first release: how many people have a number of each magnitude."""
    (question,) = survey.questions
    assert question.auto is not None
    column = columns[question.column]
    if survey.model not in _MECHANISMS:
        raise UnsupportedError(
            "the local model has no automatic bounds: its noise hides all but very full bands; declare lower and upper"
        )
    if survey.max_messages is not None:
        raise UnsupportedError("max_messages is for one release, and automatic bounds are another")
    if column.where is not None and column.where.private:
        raise UnsupportedError(
            "automatic bounds have no place for people without a value: declare lower and upper, or that everybody "
            "may know whom the filter takes (where_public)"
        )
    if survey.model is Model.SHUFFLE and not survey.delta:
        raise UnsupportedError("automatic bounds need a delta > 0 in the shuffle model")
    people = question.people
    if people is not None and (people.of is Of.ROWS or survey.on_invalid.drops):
        raise UnsupportedError(
            "automatic bounds are for people who all have one value: not for of='rows', and not if rows are dropped "
            "(on_invalid); declare lower and upper"
        )
    _check_protocol(survey, question)
    survey = replace(survey, on_invalid=replace(survey.on_invalid, out_of_range=Action.CLAMP))
    if charged and survey.on_invalid.drops:
        raise UnsupportedError(
            "automatic bounds have no place for people without a value, whose number would be released under a ledger: "
            "declare lower and upper, or let no row be left out (on_invalid without drop)"
        )
    epsilon, left = _split(positive("epsilon", survey.epsilon), question.auto.share)
    # A curator counts the bands with delta = 0.
    delta, slack = (0.0, survey.delta)
    if survey.model is Model.SHUFFLE:
        delta, slack = _split(survey.delta, question.auto.share)
    bounding = Bounding(
        survey=survey, columns=columns, engine=engine, rng=rng, epsilon=left, delta=slack
    )
    bands = Question(
        name=question.name,
        task=Bin.name,
        column=question.column,
        options={"edges": bounding.bands.edges},
        protocol=_MECHANISMS[survey.model],
        people=None if people is None else replace(people, reduce=bounding.reduce),
    )
    first = replace(survey, epsilon=epsilon, delta=delta, questions=(bands,))
    ready = prepare(first, columns, engine=engine, rng=rng, report=report)
    return replace(ready, bounding=bounding)


def _check_protocol(survey: Survey, question: Question) -> None:
    """Refuse a protocol that is not for the question before anything is spent; by group it answers another one."""
    if question.protocol is None or question.by is not None:
        return
    task = question.kind.declare(question.trial).task
    known = candidates(task, [question.protocol])
    if not any(each.model is survey.model for each in known):
        raise UnsupportedError(
            f"{question.protocol} is not for {say_of(task.name)} in the {survey.model.value} model"
        )


def _split(budget: float, share: float) -> tuple[float, float]:
    """A share of the budget, and the rest: together at most all of it.

    >>> first, rest = _split(1.0, 0.1)
    >>> Fraction(first) + Fraction(rest) <= 1, float_above(Fraction(first) + Fraction(rest))
    (True, 1.0)
    """
    first = budget * share
    return first, float_below(Fraction(budget) - Fraction(first))


def find_threshold(bands: Estimate) -> int:
    """The count that noise alone reaches in any of the bands with probability at most `BETA`.

    >>> from shuffledp import SeededWords, mechanisms
    >>> counted = mechanisms.geometric.make(epsilon=0.1, sensitivity=2, k=167)
    >>> find_threshold(counted.release(np.zeros(167, dtype=np.int64), SeededWords(1)))
    182
    """
    values: Floats = np.asarray(bands.value)
    low, _ = bands.exact_interval(1 - 2 * BETA / len(values))
    return int(np.max(values - low)) + 1


def choose_bounds(
    reached: Bools, bands: Bands = ALL, points: tuple[float, ...] = ()
) -> tuple[int, int] | None:
    """The places among the ends one band beyond the outermost bands that count, and beyond public points.

    None: no band counts.

    >>> reached = np.zeros(167, dtype=np.bool_)
    >>> reached[ALL.zero + 30] = True  # 512 to 1024
    >>> [ALL.ends[place] for place in choose_bounds(reached)]
    [256.0, 2048.0]
    """
    full, ends = np.flatnonzero(reached), bands.ends
    if not len(full):
        return None
    first, last = int(full[0]), int(full[-1])
    low = first + (0 if first < bands.zero else 1)
    high = last + (4 if last > bands.zero else 3)
    for point in points:
        low = min(low, max(int(np.searchsorted(ends, point, side="right")) - 1, 0))
        high = max(high, min(int(np.searchsorted(ends, point, side="left")), len(ends) - 1))
    return low, high


def _make_whole(ends: Mapping[str, float]) -> dict[str, Any]:
    """The ends of a range of integers: what is below 1 is 0, and the range is not empty.

    >>> _make_whole({"lower": -(2.0**-20), "upper": 2.0**-20}), _make_whole({"lower": 0.5, "upper": 4.0})
    ({'lower': 0, 'upper': 1}, {'lower': 0, 'upper': 4})
    """
    whole = {
        name: int(end) if abs(end) <= _WHOLE else end  # towards 0: there is no integer between
        for name, end in ends.items()
    }
    return {**whole, "upper": 1} if whole["lower"] == whole["upper"] else whole


def _count_beyond(
    counted: Answer, bands: Bands, ends: tuple[str, ...], places: tuple[int, int], level: float
) -> Number:
    """The share of the people beyond the estimated ends, with an interval for whatever ends were found."""
    n, values = counted.n, np.asarray(counted.estimate.value)
    each, (low, high) = np.arange(bands.size), places
    # The ends of band b are in two of the places b + 1, b + 2 and b + 3, by its sign; those of zero both in b + 2.
    below = each + np.where(each > bands.zero, 3, 2) <= low
    above = each + np.where(each < bands.zero, 1, 2) >= high
    beyond = (below & ("lower" in ends)) | (above & ("upper" in ends))
    inside = int(np.sum(~beyond))
    added, fewer = bands.size - inside, inside < bands.size - inside
    people = n - float(values[~beyond].sum()) if fewer else float(values[beyond].sum())
    if not added:
        return Number("clamped", 0.0, 0.0, 0.0, 0.0)
    law = _add_noise(counted.estimate, inside if fewer else added)
    choices = bands.size * (bands.size + 1) // 2 if len(ends) > 1 else bands.size
    found = law.interval(people, 1 - (1 - level) / choices)
    least, most = (min(max(float(end) / n, 0.0), 1.0) for end in found)
    return Number("clamped", people / n, float(law.stderr) / n, least, most)


def _add_noise(counted: Estimate, times: int) -> DifferenceError:
    """The law of the noise of the sum of so many bands."""
    error = counted.error
    if isinstance(error, DiscreteLaplaceError):
        noise, distance = Difference(r=1.0, p=math.exp(-float(error.noise.rate))), 0.0
    else:
        assert isinstance(error, DifferenceError)
        noise, distance = error.noise, error.distance
    total = replace(noise, r=noise.r * times)
    return DifferenceError(noise=total, shape=(), distance=distance * times)
