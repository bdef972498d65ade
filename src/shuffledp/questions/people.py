"""Turn rows into people for the questions of a survey, before anything else sees values.

Each question has its rows reduced by the engine, and goes on with a column of one value for each person. Whoever has
no value (no row that is valid and that a private filter takes) stays, and counts as nothing:

| question | nothing is |
|---|---|
| count | no |
| sum | 0, so the ends of the range include 0 |
| histogram, bins | a category of its own, `none` |
| range, cdf | a cell of its own, beyond the last one: in no range, and at most no value |
| mean by itself | neither in the sum nor among those who count: the ratio of two noisy sums (`ratios`) |
| mean in a survey, median, quantiles, variance, std, and every question by group | a group of its own |
| others | refused |

So the number of people is the same whatever anybody's rows say.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.domain import Bins, Bits, Categories, Cells, Domain, Integers, Reals
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Declared, Task, say_of
from shuffledp.engine.chunks import Engine
from shuffledp.engine.codes import Action, Coder, OnInvalid
from shuffledp.engine.columns import Column
from shuffledp.engine.people import Of, People, Reduce
from shuffledp.engine.reducing import Reduced, Reduction, make_run_key
from shuffledp.questions.question import PRESENT, Question, date_bins
from shuffledp.questions.survey import Survey
from shuffledp.tasks import Cdf, Histogram, Quantiles, Range, Std, Sum, Variance

if TYPE_CHECKING:
    from shuffledp.questions.ratios import Ratio

NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A survey about people, and their columns."""

    survey: Survey
    columns: Mapping[str | None, Column]
    notes: tuple[str, ...] = ()
    for_operator: str | None = None
    """Numbers of rows: exact, and covered by no promise."""
    ratios: "Mapping[str, Ratio]" = field(default_factory=dict)
    """Means that are two sums, by the name of the question."""


def make_people(
    survey: Survey,
    columns: Mapping[str | None, Column],
    engine: Engine,
    rng: WordSource | None,
    *,
    sent: bool = False,
) -> Made:
    """Reduce the rows of every question to people."""
    key, taken, questions = make_run_key(rng), dict[str | None, Column](), []
    notes: dict[str, list[str]] = {}  # the names of those that a note is about
    said: dict[str, list[str]] = {}  # what is for the operator alone
    ratios: dict[str, Ratio] = {}
    for question in survey.questions:
        with survey.locate(question):
            one = _reduce(survey, question, columns, engine, key, sent=sent)
        for text in _tell(question, one):
            notes.setdefault(text, []).append(question.name)
        said.setdefault(one.said, []).append(question.name)
        if one.ratio is not None:
            notes.setdefault(one.ratio.remark, []).append(question.name)
            ratios[question.name] = one.ratio
            both = zip(one.ratio.parts, (one.ratio.tops, one.ratio.rows), strict=True)
            for part, column in both:
                name = _name(part.column, part, taken)
                taken[name] = column
                questions.append(replace(part, column=name))
            continue
        name, by = _name(question.column, question, taken), one.question.by
        taken[name] = one.column
        if one.groups is not None:
            by = _name(by, question, taken)
            taken[by] = one.groups
        questions.append(replace(one.question, column=name, by=by))
    policy = questions[0].on_invalid or survey.on_invalid
    made = survey
    if survey.model is not Model.CENTRAL or not survey.alone or not ratios:
        alone = survey.alone and not ratios
        given: dict[str, Any] = {"alone": alone, "on_invalid": policy, "missing": None}
        made = replace(survey, questions=tuple(questions), **given)
    shown: dict[str, Any] = {
        "notes": (*_name_all(notes, survey),),
        "for_operator": "; ".join(_name_all(said, survey)),
    }
    return Made(survey=made, columns=taken, ratios=ratios, **shown)


def _name_all(notes: dict[str, list[str]], survey: Survey) -> Iterator[str]:
    """Say which questions a note is about, unless it is about all of them."""
    for text, names in notes.items():
        if survey.alone or len(names) == len(survey.questions):
            yield text
        else:
            yield f"{', '.join(names)}: {text[0].lower()}{text[1:]}"


def _tell(question: Question, one: "_One") -> Iterator[str]:
    """Say what became of the rows of a question, and of whoever has no value, for readers of the answer."""
    if question.people is not None:
        yield question.people.tell(one.how)
    if one.nothing:
        yield f"Whoever has no value {_tell_nothing(question.kind)}."


def _name(name: str | None, question: Question, taken: Mapping[str | None, Column]) -> str | None:
    """Return a name for the column of people: its own, unless another question has made other values of it."""
    return name if name not in taken else f"{name} ({question.name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _One:
    """A question about people, and their columns."""

    question: Question
    column: Column
    groups: Column | None
    how: Reduce
    said: str
    ratio: "Ratio | None" = None
    """Its two sums, if it is a mean whose denominator is not the same for everybody."""
    nothing: bool = False
    """Whether some may have no valid value."""


def plan_people(survey: Survey, n: int) -> Survey:
    """Return the survey as it is planned for n people, without data."""
    if not survey.has_rows(None):
        return survey
    questions: list[Question] = []
    for question in survey.questions:
        with survey.locate(question):
            task = question.kind.declare(question.options).task
            nothing = survey.find_policy(question, task).drops
            how = _choose(question, task)
            if task.average and question.people is not None and question.people.of is Of.ROWS:
                from shuffledp.questions.ratios import split_mean

                assert isinstance(task.domain, Integers | Reals)
                questions += split_mean(question, task.domain, question.people.max_rows)
                continue
            fitted = _fit(question, _settle(survey, task, n), how, nothing=nothing)
            questions.append(replace(question, declared=Declared(task=fitted)))
    return replace(survey, questions=tuple(questions))


def plan_question(question: Question) -> tuple[Task, str]:
    """Say what a question asks of people whose rows are reduced, without data, and what becomes of the rows.

    >>> rows = People.read("who", of="rows", max_rows=5)
    >>> task, said = plan_question(Question(name="late", task="count", column="late", people=rows))
    >>> task.name, str(task.domain)
    ('sum', 'integers 0 .. 5')
    """
    assert question.people is not None
    task = question.kind.declare(question.options).task
    people = question.people
    if task.average and people.of is Of.ROWS:
        raise UnsupportedError(
            f"{say_of(task.name)} of rows is the ratio of two sums: its error depends on how many rows there are, "
            "so it cannot be planned without data: run states the error"
        )
    how = _choose(question, task)
    fitted, about = _fit(question, task, how, nothing=False), people.tell(how)
    if fitted.values > 1:
        spare = fitted.domain.size - task.domain.size
        about += (
            f" The last {spare} categories stand for the unused places of people who have fewer; errors are means "
            "over all categories, and may be larger for categories that many people have."
        )
    return fitted, about


def _choose(question: Question, task: Task) -> Reduce:
    people = question.people
    if people is None:
        return Reduce.ONE
    if _has_values(question, task):
        return Reduce.ONE
    if people.max_categories is not None:
        what = f"{say_of(task.name, 'has')}" if question.by is None else "groups have"
        raise UnsupportedError(
            f"max_categories is for a histogram, not by group: {what} one value of each person"
        )
    if people.of is Of.ROWS:
        if not (task.yes_or_no or task.adds) or question.by is not None:
            what = f"{say_of(task.name)} can be" if question.by is None else "groups are"
            raise UnsupportedError(
                f"of='rows' is for counts, sums, means and histograms, not by group: {what} of people (reduce)"
            )
        return Reduce.SUM
    return people.choose(task)


def _has_values(question: Question, task: Task) -> bool:
    """Say whether a person has several values: every row, or every category, is one."""
    people = question.people
    if people is None or question.by is not None or not isinstance(task, Histogram):
        return False
    if not isinstance(task.domain, Categories | Integers):  # numbers of one bin may be different
        return False
    return people.of is Of.ROWS or people.max_categories is not None


def _fit(
    question: Question, task: Task, how: Reduce, *, nothing: bool, moments: str | None = None
) -> Task:
    """Return the question about people, if some of them may count as nothing."""
    people = question.people
    if people is not None and _has_values(question, task):
        return _make_places(task, people, moments)
    if people is not None and people.of is Of.ROWS:
        return _spread_rows(task, people)
    if (
        not nothing
        or how is Reduce.ROWS
        or question.by is not None
        or task.yes_or_no
        or _is_of_group(task)
    ):
        return task
    if task.adds:
        return replace(task, domain=_with_zero(task.domain))  # type: ignore[type-var]
    if isinstance(task, Histogram):
        return Histogram(domain=_with_none(_name_bins(task.domain, moments)))
    if isinstance(task, Range | Cdf):
        return replace(task, domain=_with_cell(task.domain), chosen=False)
    raise UnsupportedError(
        f"{say_of(task.name, 'has')} no place for people without a value: let no row be left out (on_invalid "
        "without drop, optional = false), or declare that it is public who matches a filter (where_public)"
    )


def _is_of_group(task: Task) -> bool:
    """Return whether the answer is about those who have a value, a group whose size needs noise, too."""
    return (task.adds and task.average) or isinstance(task, Quantiles | Variance | Std)


def _spread_rows(task: Task, people: People) -> Task:
    """Return the task about a person's sum, if at most so many of their rows count."""
    most = people.max_rows
    assert most is not None
    domain = task.domain
    if task.yes_or_no:
        return Sum(domain=Integers(lower=0, upper=most))
    if isinstance(domain, Integers):
        wide = Integers(lower=most * domain.lower, upper=most * domain.upper)
        return replace(task, domain=_with_zero(wide))  # type: ignore[type-var]
    assert isinstance(domain, Reals)
    grid = replace(domain, lower=most * domain.lower, upper=most * domain.upper)
    return replace(task, domain=_with_zero(grid))  # type: ignore[type-var]


def _make_places(task: Task, people: People, moments: str | None = None) -> Histogram:
    """Make a histogram of all places of everybody: K rows, or K different categories; empty ones are bins of their own.

    Categories of a person are different, so their empty places are different, too: one bin each. Rows may be alike.
    """
    apart = people.max_categories is not None
    places = people.max_categories if people.max_categories is not None else people.max_rows
    assert places is not None
    labels = _name_bins(task.domain, moments)
    none = _call_none(labels)
    nones = [f"{none} {place}" for place in range(1, places + 1)] if apart else [none]
    domain = Categories(k=len(labels) + len(nones), names=(*labels, *nones))
    return Histogram(domain=domain, values=places, apart=apart)


def _with_zero(domain: Domain) -> Domain:
    """Return the same range with 0 in it."""
    if isinstance(domain, Integers):
        return Integers(lower=min(domain.lower, 0), upper=max(domain.upper, 0))
    assert isinstance(domain, Reals)
    return replace(domain, lower=min(domain.lower, 0.0), upper=max(domain.upper, 0.0))


def _with_cell(domain: Integers | Cells) -> Integers | Cells:
    """Return the same cells and one beyond, for people who have no value."""
    if isinstance(domain, Integers):
        return Integers(lower=domain.lower, upper=domain.upper + 1)
    width = (domain.upper - domain.lower) / domain.cells
    return Cells(lower=domain.lower, upper=domain.upper + width, cells=domain.cells + 1)


def _name_bins(domain: Domain, moments: str | None) -> tuple[str, ...]:
    """Return the names of what is counted; dates are dates."""
    named = date_bins(domain, Histogram(domain=domain), moments)
    assert named is not None
    return named.labels


def _with_none(names: tuple[str, ...]) -> Categories:
    """Return the categories with these names, and one for people who have none."""
    return Categories(k=len(names) + 1, names=(*names, _call_none(names)))


def _call_none(names: tuple[str, ...]) -> str:
    name = NONE
    while any(each.startswith(name) for each in names):
        name = f"({name})"
    return name


def _reduce(
    survey: Survey,
    question: Question,
    columns: Mapping[str | None, Column],
    engine: Engine,
    key: str,
    *,
    sent: bool,
) -> _One:
    raw = replace(question.measure(columns[question.column]), people=question.people)
    declared = question.kind.declare(question.options, replace(raw, people=None, where=None))
    task = declared.task
    how = _choose(question, task)
    if raw.boolean and task.adds:
        question = _bound_bits(question, how)
    policy = survey.find_policy(question, task)
    groups = None
    if question.by is not None:
        own = {each.name: each.kind.declare(each.options).task for each in survey.questions}
        groups = survey.find_groups(question, own, columns.get(question.by))
    reduction = Reduction(
        column=raw,
        how=how,
        domain=task.domain,
        policy=policy,
        key=key,
        by=question.by,
        groups=groups,
        listed=_has_values(question, task),
    )
    reduced = engine.reduce(reduction)
    nothing = policy.drops or (raw.where is not None and raw.where.private)
    if reduction.listed:
        assert reduction.people is not None
        places = _make_places(task, reduction.people, raw.moments)
        return _fill_places(question, declared, places, reduced)
    if reduction.of_rows is None and reduction.kind not in ("codes", "text"):
        task = question.kind.declare(question.options, reduced.column).task  # means have fractions
    elif task.yes_or_no:  # which value is a yes was asked of the rows
        task = replace(task, domain=Bits())  # type: ignore[type-var]
    if task.adds and task.average and question.by is None:
        # Messages, surveys, and people who trust nobody, have groups: a histogram of one question.
        apart = (
            not sent and survey.alone and survey.model is not Model.LOCAL and not question.protocol
        )
        if reduction.of_rows is not None or (nothing and apart):
            return _split_mean(question, task, reduced, reduction, sent=sent)
    task = _settle(survey, task, len(reduced.column.array))
    declared = replace(declared, task=task)
    fitted = _fit(question, task, how, nothing=nothing, moments=raw.moments)
    filled = _fill(question, declared, fitted, reduced, groups, how, nothing=nothing)
    return replace(filled, nothing=policy.drops and how is not Reduce.ROWS and question.by is None)


def _settle(survey: Survey, task: Task, n: int) -> Task:
    """Return the task with the cells that are best for n people, if one more is to stand beside them."""
    return task.fit(n, survey.part_epsilon) if isinstance(task, Range | Cdf) else task


def _bound_bits(question: Question, how: Reduce) -> Question:
    """Return the question with the ends 0 and 1 for rows of yes and no; refuse sums, which exceed 1."""
    if {"lower", "upper"} & {*question.options}:
        return question
    people = question.people
    if people is not None and people.of is Of.PEOPLE and how in (Reduce.SUM, Reduce.ROWS):
        raise UnsupportedError(
            f"one person's rows of yes and no may {'add up' if how is Reduce.SUM else 'come'} to more than 1: declare "
            f"lower and upper for {say_of(question.task)}, or take max, min or mean of them (reduce)"
        )
    return replace(question, options={**question.options, "lower": 0, "upper": 1})


def _split_mean(
    question: Question, task: Task, reduced: Reduced, reduction: Reduction, *, sent: bool
) -> _One:
    """Return the mean as two sums: of what counts, and of how much counts."""
    if sent:
        raise UnsupportedError(
            "a mean of rows is the ratio of two sums, and messages cannot be collected for that: ask where the data are"
        )
    from shuffledp.questions.ratios import Ratio

    assert isinstance(task.domain, Integers | Reals)
    ratio = Ratio.of(question, task.domain, reduced, reduction.of_rows)
    return _One(
        question=question,
        column=ratio.tops,
        groups=None,
        how=reduction.how,
        said=reduced.tell(),
        ratio=ratio,
    )


def _fill(
    question: Question,
    declared: Declared,
    task: Task,
    reduced: Reduced,
    groups: Categories | None,
    how: Reduce,
    *,
    nothing: bool,
) -> _One:
    """Put something in the place of nothing, so that everybody has a value."""
    import pyarrow as pa

    column, grouping = reduced.column, reduced.groups
    array = column.array
    by_group = groups is not None or (_is_of_group(task) and nothing)
    if groups is not None and nothing:
        assert grouping is not None
        none = _call_none(groups.labels)
        named = grouping.array.cast(pa.string()).fill_null(none)
        grouping = replace(grouping, array=named)
        groups = Categories(k=groups.size + 1, names=(*groups.labels, none))
    elif by_group and groups is None:
        groups = Categories(k=2, names=(PRESENT, NONE))
        known = pa.array([NONE, PRESENT]).take(array.is_valid().cast(pa.int8()))
        grouping = Column(name=PRESENT, array=known, reduced=True)
    if nothing and isinstance(task.domain, Categories) and not pa.types.is_string(array.type):
        array = _spell_codes(array, declared.task.domain, column.moments)
        column = replace(column, moments=None)
    elif nothing and isinstance(declared.task.domain, Integers | Reals | Cells):
        array = _limit(array, declared.task.domain)
    if nothing and how is not Reduce.ROWS:  # everybody has a number of rows
        array = array.fill_null(_stand_in(task, array, by_group=by_group))
    # The value of a person is limited to the declared ends, of whatever rows it is made.
    beyond = Action.CLAMP if question.people is not None else Action.ERROR
    # What is missing was found already, and a category may be called "none".
    policy = Coder.for_part(task.domain, OnInvalid(out_of_range=beyond, missing=())).on_invalid
    asked = replace(
        question,
        declared=replace(declared, task=task),
        by=PRESENT if groups is not None and question.by is None else question.by,
        groups=None if groups is None else groups.labels,
        hidden=1 if nothing and groups is not None else 0,
        on_invalid=policy,
        optional=False,
    )
    return _One(
        question=asked,
        column=replace(column, array=array),
        groups=grouping,
        how=how,
        said=reduced.tell(),
    )


def _fill_places(question: Question, declared: Declared, task: Histogram, reduced: Reduced) -> _One:
    """Put something in every empty place: a bin of that place, or the one for all."""
    import pyarrow as pa

    array = _spell_codes(reduced.column.array, declared.task.domain, reduced.column.moments)
    names = task.domain.labels
    nones = names[declared.task.domain.size :]
    ends = range(1, task.values + 1) if task.apart else [task.values]
    if task.apart:
        empty = [int((reduced.counts < end).sum()) for end in ends]
    else:
        empty = [int((task.values - reduced.counts).sum())]
    spare = pa.array(np.repeat(np.arange(len(nones)), empty))
    array = pa.chunked_array([array, pa.array(nones, pa.string()).take(spare)]).combine_chunks()
    policy = Coder.for_part(task.domain, OnInvalid(missing=())).on_invalid
    asked = replace(
        question,
        declared=replace(declared, task=task),
        hidden=len(nones),
        on_invalid=policy,
        optional=False,
    )
    return _One(
        question=asked,
        column=replace(reduced.column, array=array, moments=None),
        groups=None,
        how=Reduce.ONE,
        said=reduced.tell(),
    )


def _spell_codes(array: Any, domain: Domain, moments: str | None) -> Any:
    """Write numbers as the names of their categories, at the ends of the range if they are beyond."""
    import pyarrow as pa

    if isinstance(domain, Integers) and moments is None:
        return _limit(array, domain).cast(pa.string())
    if not isinstance(domain, Bins | Integers):
        return array.cast(pa.string())
    limited = _limit(array, domain)
    codes = domain.codes(limited.fill_null(domain.lower).to_numpy(zero_copy_only=False))
    places = pa.array(codes, mask=limited.is_null().to_numpy(zero_copy_only=False))
    return pa.array(_name_bins(domain, moments)).take(places)


def _limit(array: Any, domain: Integers | Reals | Cells | Bins) -> Any:
    """Limit numbers to the declared ends; a missing value stays missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lower, upper = (pa.scalar(end, array.type) for end in (domain.lower, domain.upper))
    above = pc.max_element_wise(array, lower, skip_nulls=False)
    return pc.min_element_wise(above, upper, skip_nulls=False)


def _tell_nothing(kind: type[Task]) -> str:
    """Say what somebody without a value counts as, in words.

    >>> _tell_nothing(Sum)
    'counts as 0'
    """
    if kind.yes_or_no:
        return "counts as no"
    if kind.bins:
        return f"is counted as {NONE!r}"
    if issubclass(kind, Range | Cdf):
        return "counts in no range and below no point, but shares are of everybody"
    if kind.adds and not kind.average:
        return "counts as 0"
    return (
        "is left out of the answer, and of the number of people that it is about: both have noise"
    )


def _stand_in(task: Task, array: Any, *, by_group: bool) -> Any:
    """Return the value of somebody who has none: nothing, or by group anything."""
    import pyarrow as pa

    domain = task.domain
    if task.yes_or_no:
        return pa.scalar(False, array.type)
    if task.adds and not by_group:
        return pa.scalar(0, array.type)
    if isinstance(task, Range | Cdf):
        return pa.scalar(task.domain.upper, array.type)
    if isinstance(domain, Integers | Reals | Cells | Bins) and by_group:
        return pa.scalar(domain.lower, array.type)
    assert isinstance(domain, Categories | Bits)
    return pa.scalar(domain.labels[0 if by_group else -1], array.type)
