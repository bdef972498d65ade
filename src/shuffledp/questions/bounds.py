"""Bounds that nobody knows: a first release counts people by magnitude, and the question is asked with the bounds it
finds.

One question, or the questions of a survey: one release counts the bands of all of them.

The bands are public: [2^j, 2^(j+1)) for j = -20 .. 62, the same with the other sign, and zero; smaller magnitudes are
zero, larger ones are in the last band. A trusted machine counts them with discrete Laplace noise (`geometric`), a
shuffler with differences of negative binomial numbers (`correlated_histogram`): both add integers that are
independent from band to band, and whose law is the same whatever the people say. So t, the count that noise alone
reaches in any of the 167 bands with probability at most 1 %, is known exactly: with r the radius that |noise| exceeds
with probability at most 2 * 1 % / 167, t = r + 1, since the noise is symmetric. What several rows of a person become
has fewer bands. Bands of dates are years.

An end of the range is one band beyond the outermost band whose own count reaches t: the tail beyond it is real. The
question is then asked with these ends and with the rest of the budget. The ends are a function of the first release,
so the two releases compose one after the other, and their epsilons and deltas add up (Dwork, Roth 2014, "The
algorithmic foundations of differential privacy", Theorem 3.16 and Appendix B: the second may depend on what the first
showed).

How many people lie beyond the ends is a sum of counts of the first release: of those beyond, or n less those within,
whichever adds less noise. Which sum it is depends on the noise, so the interval holds for all sums that it could be,
by a union bound."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.analyzer import Estimate
from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.display import MOMENTS, Number, format_ends
from shuffledp.core.errors import ShuffledpError, UnsupportedError
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
from shuffledp.questions.answer import Answer, SurveyAnswer
from shuffledp.questions.prepared import Prepared, prepare
from shuffledp.questions.question import AutoBounds, Question
from shuffledp.questions.survey import Survey
from shuffledp.tasks.numbers import Bin, Cdf, Range

if TYPE_CHECKING:
    from shuffledp.ledger import Spending


BETA = 0.01
"""The probability that noise alone makes some band look as if people were in it, at most."""
_WHOLE = 2.0**53  # up to here, ends of integers are written as integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Public bands that people are counted in, and what an end of a range may be.

    >>> ALL.size, ALL.edges[ALL.zero : ALL.zero + 2] == (-(2.0**-20), 2.0**-20)
    (167, True)
    >>> [f"{MOMENTS['days'](end)}" for end in YEARS["days"].ends[:2]]
    ['1899-01-01', '1900-01-01']
    """

    edges: tuple[float, ...]
    """Where a band ends and the next one begins."""
    ends: tuple[float, ...]
    """What an end of a range may be: that of a band, with zero as a point, and one beyond the first and the last."""
    zero: int
    """The band of zero, and of all that is smaller than the smallest magnitude; that after the last if there is none."""
    called: str
    limits: str | None = None
    """Whether people in the first or the last band may be beyond it, and where it is; None: nobody is."""
    moments: str | None = None

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.edges) - 1

    @classmethod
    def by_magnitude(cls, first: int, last: int, limits: str | None = None) -> "Bands":
        """Return the bands from 2^j to 2^(j+1) for j = first .. last, of both signs, and zero."""
        powers = tuple(2.0**j for j in range(first, last + 2))
        below, beyond = tuple(-power for power in reversed(powers)), 2 * powers[-1]
        return cls(
            edges=(*below, *powers),
            ends=(-beyond, *below, 0.0, *powers, beyond),
            zero=len(powers) - 1,
            called="band of magnitudes",
            limits=limits,
        )

    @classmethod
    def by_year(cls, unit: str) -> "Bands":
        """Return the years from 1900 to 2100, of dates in days or seconds."""
        per_day = 1 if unit == "days" else 86_400
        first = date(1970, 1, 1).toordinal()
        ends = tuple((date(y, 1, 1).toordinal() - first) * per_day for y in range(1899, 2103))
        return cls(
            edges=ends[1:-1],
            ends=ends,
            zero=len(ends) - 3,
            called="year",
            limits="1900 or 2100, the first and the last year that are counted",
            moments=unit,
        )


ALL = Bands.by_magnitude(-20, 62)
OF_PEOPLE = Bands.by_magnitude(-10, 30, "2^30, the last band of what rows are added up to")
"""For values made of several rows of a person: rows are added up as fixed-point numbers, in units of 2^-10."""
YEARS = {unit: Bands.by_year(unit) for unit in MOMENTS}
"""For dates, whose magnitudes are all alike."""
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
    """What the first release alone promises."""
    protocol: str
    threshold: int
    """How many people a band had to have, by its noisy count."""
    clamped: Number
    """The share of the people who are beyond the estimated ends; the interval holds whatever ends were found."""
    called: str
    """What a band is called."""
    moments: str | None = None
    """What dates are counted in; None: there are none."""

    def add_up(self, own: Guarantee) -> Guarantee:
        """Add up what is promised about the first release and the answer together.

        >>> one = Guarantee(epsilon=0.25, delta=0.0, model=Model.CENTRAL, proof="A")
        >>> print(_add_up(one, replace(one, epsilon=0.5, proof="B")))
        epsilon = 0.75, delta = 0: central model, replace-one neighbours, a trusted curator; by sequential composition (Dwork, Roth 2014) of bounds, by A, and an answer, by B
        """
        return _add_up(self.guarantee, own)

    def tell(self, *, shared: bool = False) -> tuple[str, ...]:
        """Say what readers of the answer should know; the first release may be `shared` by several questions."""
        lower, upper = (_spell(end, self.moments) for end in (self.lower, self.upper))
        spelt = {"lower": lower, "upper": upper}
        named = " and ".join(f"{name} = {spelt[name]}" for name in self.ends)
        several = len(self.ends) > 1
        part = self.clamped
        value = min(max(part.value, 0.0), 1.0)
        low, high = format_ends(100 * part.low, 100 * part.high, 2)
        spent = f"epsilon = {round_up(self.guarantee.epsilon, 6)}"
        if self.guarantee.delta:
            spent += f" and delta = {round_up(self.guarantee.delta, 3)}"
        return (
            f"{named} {'are' if several else 'is'} estimated, by a first release{' for all questions' * shared} that spent {spent} of the total "
            f"({self.protocol}; a {self.called} with fewer than about {self.threshold:,} people is ignored). The answer is about "
            f"values limited to {lower} .. {upper}.",
            f"Beyond {'these bounds' if several else 'this bound'}, and so moved to "
            f"{'them' if several else 'it'}: about {value:.2%} of the people ({low}% .. {high}%).",
        )

    def _plain(self, end: float) -> float | str:
        return end if self.moments is None else _spell(end, self.moments)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings."""
        return {
            "lower": self._plain(self.lower),
            "upper": self._plain(self.upper),
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


def _spell(end: float, moments: str | None = None) -> str:
    if moments is not None:
        return f"{MOMENTS[moments](end)}"
    return f"{end:,.0f}" if abs(end) < _WHOLE and end == int(end) else f"{end:.6g}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Banded:
    """A question whose bounds are to be found, and the bands that its people are counted in."""

    question: Question
    column: Column
    bands: Bands

    @classmethod
    def of(cls, question: Question, column: Column) -> "Banded":
        """Choose the bands: by what is declared, by the type of the column, by what becomes of rows."""
        column = question.measure(column)
        if column.moments is None:
            kinds = {"date": "days", "timestamp": "seconds"}
            units = (unit for name, unit in kinds.items() if column.type.startswith(name))
            column = replace(column, moments=next(units, None))
        bands = ALL if question.people is None else OF_PEOPLE
        return cls(
            question=question,
            column=column,
            bands=bands if column.moments is None else YEARS[column.moments],
        )

    @property
    def auto(self) -> AutoBounds:
        """What of its range is to be found."""
        assert self.question.auto is not None
        return self.question.auto

    @property
    def reduce(self) -> Reduce | None:
        """What becomes of a person's rows; None: each row is a person."""
        people, given = self.question.people, self.question.trial
        return None if people is None else people.choose(self.question.kind.declare(given).task)

    def count(self, protocol: str) -> Question:
        """Return the question of the first release: how many people are in each band."""
        people, edges = self.question.people, [self.write(edge) for edge in self.bands.edges]
        return Question(
            name=self.question.name,
            task=Bin.name,
            column=self.question.column,
            options={"edges": edges},
            protocol=protocol,
            on_invalid=self.question.on_invalid,
            people=None if people is None else replace(people, reduce=self.reduce),
        )

    def write(self, end: float) -> float | str:
        """Write an end as it is declared: a number, or a date."""
        return end if self.bands.moments is None else f"{MOMENTS[self.bands.moments](end)}"

    def settle(self, bounds: "Bounds") -> Question:
        """Return the question with these bounds."""
        ends = {name: self.write(getattr(bounds, name)) for name in ("lower", "upper")}
        return replace(self.question, options={**self.question.options, **ends}, auto=None)

    def find(
        self, counted: Estimate, n: int, guarantee: Guarantee, protocol: str, level: float
    ) -> "Bounds":
        """Return the bounds that the counts of the bands give; refuses if no band has enough people."""
        threshold = find_threshold(counted)
        values: Floats = np.asarray(counted.value)
        kind = self.question.kind
        options = kind.read_options(self.question.options)
        points = options.get("at", ()) if kind in (Cdf, Range) else ()
        places = choose_bounds(values >= threshold, self.bands, points)
        if places is None:
            raise UnsupportedError(
                f"no bounds were found for n = {n:,}: with this share of the budget a {self.bands.called} must hold "
                f"about {threshold:,} people, so n = {threshold:,} can be enough if all are in one, and about m "
                "times that if they are spread over m of them; declare lower and upper, or raise epsilon or "
                "bounds_share"
            )
        if self.bands.limits is not None and np.any(values[[0, -1]] >= threshold):
            raise UnsupportedError(
                f"the values of people reach {self.bands.limits}: declare lower and upper"
            )
        chosen = (self.bands.ends[place] for place in places)
        ends = dict(zip(("lower", "upper"), chosen, strict=True))
        if self._is_whole:
            ends = _make_whole(ends)
        ends |= {name: options[name] for name in ends if name not in self.auto.ends}
        low, high = (_spell(ends[name], self.bands.moments) for name in ("lower", "upper"))
        if ends["lower"] >= ends["upper"]:
            raise UnsupportedError(
                f"the bounds that were found, {low} .. {high}, are no range: the declared "
                f"{' and '.join(set(ends) - set(self.auto.ends))} is beyond the values of the people"
            )
        return Bounds(
            **ends,
            ends=self.auto.ends,
            share=self.auto.share,
            guarantee=guarantee,
            protocol=protocol,
            threshold=threshold,
            clamped=_count_beyond(counted, n, self.bands, self.auto.ends, places, level),
            called=self.bands.called,
            moments=self.bands.moments,
        )

    @property
    def _is_whole(self) -> bool:
        """Whether the column holds integers, by its type."""
        column = self.column
        return self.reduce is not Reduce.MEAN and not column.text and not column.fractional


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounding:
    """A survey whose bounds are found first, and what is needed to ask it afterwards."""

    survey: Survey
    columns: Mapping[str | None, Column]
    engine: Engine | None
    rng: WordSource | None
    epsilon: float
    """What is left for the questions themselves."""
    delta: float
    banded: tuple[Banded, ...]
    """The questions that need bounds."""

    @property
    def note(self) -> dict[str, Any]:
        """What a ledger writes down about it."""
        asked = self.banded[0].question
        more = {} if asked.by is None else {"by": asked.by}
        return {"task": asked.task, "bounds": list(self.banded[0].auto.ends), **more}

    def answer(
        self,
        first: Prepared,
        *,
        level: float,
        report: Report | None,
        spending: "Spending | None",
    ) -> Answer | SurveyAnswer:
        """Count the bands, choose the ends, and ask the questions with the rest of the budget.

        If that fails, even because no band has enough people, the first release has been spent, and is charged.
        """
        if spending is not None:
            own = first.protocol.guarantee
            total = replace(own, epsilon=self.survey.epsilon or 0.0, delta=self.survey.delta)
            spending.check(total, first.note)
        counted = replace(first, bounding=None).answer(level=level, report=report)
        try:
            bounds = {}
            for each, part in zip(self.banded, counted.answers, strict=True):
                with self.survey.locate(each.question):
                    given = (counted.n, counted.guarantee, part.protocol.name, level)
                    bounds[each.question.name] = each.find(part.estimate, *given)
            answer = self._ask(bounds, level, report)
        except ShuffledpError as error:
            if spending is not None:
                note = {**first.note, "n": counted.n, "refused": True}
                spending.mark_released(spending.charge(counted.guarantee, note))
            spent = f"epsilon = {round_up(counted.guarantee.epsilon, 6)}"
            raise UnsupportedError(f"{error}; the release of the bands spent {spent}") from error
        return answer.with_bounds(bounds)

    def _ask(
        self, bounds: Mapping[str, "Bounds"], level: float, report: Report | None
    ) -> Answer | SurveyAnswer:
        """Return the answer to the questions with these bounds, by the rest of the budget."""
        settled = {
            each.question.name: each.settle(bounds[each.question.name]) for each in self.banded
        }
        survey = replace(
            self.survey,
            epsilon=self.epsilon,
            delta=self.delta,
            questions=tuple(settled.get(each.name, each) for each in self.survey.questions),
            bounds_share=None,
        )
        given: dict[str, Any] = {"engine": self.engine, "rng": self.rng, "report": report}
        return prepare(survey, self.columns, **given).answer(level=level, report=report)


def prepare_bounds(
    survey: Survey,
    columns: Mapping[str | None, Column],
    *,
    engine: Engine | None,
    rng: WordSource | None,
    report: Report | None,
    charged: bool,
) -> Prepared:
    """Prepare the first release: how many people have a number of each magnitude, or a date in each year."""
    if survey.model not in _MECHANISMS:
        raise UnsupportedError(
            "the local model has no automatic bounds: its noise hides all but very full bands; declare lower and upper"
        )
    if survey.max_messages is not None:
        raise UnsupportedError("max_messages is for one release, and automatic bounds need another")
    if survey.model is Model.SHUFFLE and not survey.delta:
        raise UnsupportedError("automatic bounds need a delta > 0 in the shuffle model")
    for question in survey.questions:
        if question.auto is not None:
            with survey.locate(question):
                _check(survey, question, columns[question.column], charged=charged)
    survey = _clamp(survey)
    banded = tuple(
        Banded.of(question, columns[question.column])
        for question in survey.questions
        if question.auto is not None
    )
    share = banded[0].auto.share
    epsilon, left = _split(positive("epsilon", survey.epsilon), share)
    # A curator counts the bands with delta = 0.
    delta, slack = (0.0, survey.delta)
    if survey.model is Model.SHUFFLE:
        delta, slack = _split(survey.delta, share)
    bounding = Bounding(
        survey=survey,
        columns=columns,
        engine=engine,
        rng=rng,
        epsilon=left,
        delta=slack,
        banded=banded,
    )
    bands = tuple(each.count(_MECHANISMS[survey.model]) for each in banded)
    first = replace(survey, epsilon=epsilon, delta=delta, questions=bands, bounds_share=None)
    ready = prepare(first, columns, engine=engine, rng=rng, report=report)
    return replace(ready, bounding=bounding)


def _clamp(survey: Survey) -> Survey:
    """Return the survey, with values beyond bounds that are found moved to them."""
    if survey.alone:
        return replace(survey, on_invalid=replace(survey.on_invalid, out_of_range=Action.CLAMP))
    questions = []
    for each in survey.questions:
        if each.auto is not None:
            policy = survey.find_policy(each, each.kind.declare(each.trial).task)
            each = replace(each, on_invalid=replace(policy, out_of_range=Action.CLAMP))
        questions.append(each)
    return replace(survey, questions=tuple(questions))


def _check(survey: Survey, question: Question, column: Column, *, charged: bool) -> None:
    """Refuse, before anything is spent, questions that automatic bounds are not for."""
    if column.where is not None and column.where.private:
        raise UnsupportedError(
            "automatic bounds have no place for people without a value: declare lower and upper, or that it is "
            "public who matches the filter (where_public)"
        )
    people, drops = question.people, survey.on_invalid.drops
    if not survey.alone:
        drops = survey.find_policy(question, question.kind.declare(question.trial).task).drops
    if people is not None and (people.of is Of.ROWS or drops):
        raise UnsupportedError(
            "automatic bounds need exactly one value of each person, which is not so with of='rows', or if values may be "
            "left out (on_invalid with drop, optional): declare lower and upper"
        )
    _check_protocol(survey, question)
    if (charged or not survey.alone) and drops:
        raise UnsupportedError(
            "automatic bounds have no place for people without a value, whose number a ledger or a survey would "
            "release: declare lower and upper, or let no row be left out (on_invalid without drop, not optional)"
        )


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
    """Return a share of the budget, and the rest: together at most all of it.

    >>> first, rest = _split(1.0, 0.1)
    >>> Fraction(first) + Fraction(rest) <= 1, float_above(Fraction(first) + Fraction(rest))
    (True, 1.0)
    """
    first = budget * share
    return first, float_below(Fraction(budget) - Fraction(first))


def find_threshold(bands: Estimate) -> int:
    """Return the count that noise alone reaches in any of the bands with probability at most `BETA`.

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
    """Return the places among the ends one band beyond the outermost bands that count, and beyond public points.

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
    """Return the ends of a range of integers: what is below 1 is 0, and the range is not empty.

    >>> _make_whole({"lower": -(2.0**-20), "upper": 2.0**-20}), _make_whole({"lower": 0.5, "upper": 4.0})
    ({'lower': 0, 'upper': 1}, {'lower': 0, 'upper': 4})
    """
    whole = {
        name: int(end) if abs(end) <= _WHOLE else end  # towards 0: there is no integer between
        for name, end in ends.items()
    }
    return {**whole, "upper": 1} if whole["lower"] == whole["upper"] else whole


def _count_beyond(
    counted: Estimate,
    n: int,
    bands: Bands,
    ends: tuple[str, ...],
    places: tuple[int, int],
    level: float,
) -> Number:
    """Return the share of the people beyond the estimated ends, with an interval for whatever ends were found."""
    values = np.asarray(counted.value)
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
    law = _add_noise(counted, inside if fewer else added)
    choices = bands.size * (bands.size + 1) // 2 if len(ends) > 1 else bands.size
    interval = law.interval(people, 1 - (1 - level) / choices)
    least, most = (min(max(float(end) / n, 0.0), 1.0) for end in interval)
    return Number("clamped", people / n, float(law.stderr) / n, least, most)


def _add_noise(counted: Estimate, times: int) -> DifferenceError:
    """Return the law of the noise of the sum of so many bands."""
    error = counted.error
    if isinstance(error, DiscreteLaplaceError):
        noise, distance = Difference(r=1.0, p=math.exp(-float(error.noise.rate))), 0.0
    else:
        assert isinstance(error, DifferenceError)
        noise, distance = error.noise, error.distance
    total = replace(noise, r=noise.r * times)
    return DifferenceError(noise=total, shape=(), distance=distance * times)
