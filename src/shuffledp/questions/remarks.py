"""What must be said beside the numbers of an answer: who was trusted, about whom, what is not private, what was invalid."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from shuffledp.core.display import shorten_label, write_digits
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import CentralMechanism, Mechanism, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Declared, Task
from shuffledp.engine.codes import LEFT_OUT as LEFT_OUT
from shuffledp.engine.codes import SEEDED as SEEDED
from shuffledp.engine.codes import Action, OnInvalid
from shuffledp.engine.filters import Filter
from shuffledp.engine.people import People
from shuffledp.numerics.entropy import SeededWords
from shuffledp.planner.choice import curator_error
from shuffledp.tasks import Mean, Sum

if TYPE_CHECKING:
    from shuffledp.questions.survey import Survey

TRUST = (
    "On a file, this machine sees every value. The shuffle model, the default, shows what a collection would give "
    "if people trusted nobody but a shuffler. If they trust this machine, use the central model, which has less "
    "noise."
)
"""Who trusts whom if a file is asked, and when to take another model: the same sentences everywhere."""

UNITS = {
    "person": "The promise protects one person with all their rows.",
    "row": "Each row is taken to be one person, so the promise protects one row.",
}
"""The unit of a promise, in words."""
_REHEARSAL = (  # of a list or a frame, too
    TRUST.replace("On a file, this", "This")
    + " It would be off by about {} (RMSE) at the same epsilon, with delta = 0 and without counting on honest "
    "people."
)
_DEALT = (
    "One machine ({}) held the raw column. It counted the people with each value and dealt the tally: it drew the "
    "total of all their messages with exactly the law that messages from their devices would have. So the "
    "protocol's own promise holds."
)
_PLAYED = (
    "One machine ({}) held the raw column and played all devices, the shuffler and the analyzer."
)
_TRUSTED = (
    "Anybody who can read that machine is trusted. The promise is to the people in the file, against anybody who "
    "sees this result."
)
_CURATED = (
    "One machine ({}) held the raw column, computed the exact answer and added the noise to it."
)
_SEVERAL = {
    "the raw column": "the raw columns",
    "the exact answer and added the noise to it": "the exact answers and added the noise to them",
}

_COVERED = {
    Action.OTHER: "{} values were counted as 'other'. They are protected like all others, so how many "
    "there were is not part of the result.",
    Action.CLAMP: "Numbers {} were moved to the nearest end. They are protected like all others, so how "
    "many there were is not part of the result.",
}
_FAULT_NAMES = {"null": "missing", "unknown": "unknown", "out_of_range": "out of range"}
_BECAME = {
    Action.OTHER: ("became other", "became other"),
    Action.CLAMP: ("was moved to the nearest end", "were moved to the nearest end"),
}


def name_unit(people: People | None) -> str:
    """Say of what a promise is: "person" if a column names the person, otherwise "row".

    >>> name_unit(None), name_unit(People.read("visitor"))
    ('row', 'person')
    """
    return "row" if people is None else "person"


def tell_unit(people: People | None) -> str:
    """Return the same in words.

    >>> tell_unit(None)
    'Each row is taken to be one person, so the promise protects one row.'
    """
    return UNITS[name_unit(people)]


def tell_whose(where: Filter | None) -> str:
    """Say whom a title is about.

    >>> tell_whose(Filter.read("age > 18"))
    ' with age > 18'
    """
    if where is None:
        return ""
    named = shorten_label(str(where))
    return f", of whom those with {named} count" if where.private else f" with {named}"


def tell_people(n: int, *, several: bool = False) -> str:
    """Say whom intervals are about.

    >>> tell_people(3000)
    'The interval is about these 3,000 people: it covers the noise, but not sampling error.'
    """
    said = "The intervals are" if several else "The interval is"
    covers = "they cover" if several else "it covers"
    people = "this one person" if n == 1 else f"these {n:,} people"
    return f"{said} about {people}: {covers} the noise, but not sampling error."


def tell_moments(moments: str | None, *, dated: bool) -> list[str]:
    """Say that times of day do not count, and what errors are counted in where the answer is a date.

    >>> tell_moments("days", dated=False), tell_moments("seconds", dated=False)
    (['Dates count as whole days: times of day are left out.'], [])
    >>> tell_moments("seconds", dated=True)
    ['As numbers, dates are seconds since 1970-01-01; errors are in seconds.']
    """
    days = ["Dates count as whole days: times of day are left out."] if moments == "days" else []
    if moments is None or not dated:
        return days
    return [*days, f"As numbers, dates are {moments} since 1970-01-01; errors are in {moments}."]


def tell_filter(where: Filter | None) -> list[str]:
    """Say whom the question is about, and that their number is exact."""
    if where is None:
        return []
    if where.private:
        return [
            f"The question is about the people with {where}. Everybody stays, and people who do not match count as "
            "nothing: how many match is protected like the answer."
        ]
    return [
        f"The question is about the people with {where}. This filter is part of the question, and n is the number "
        "of people who match: it is exact, and whether somebody matches is not protected"
        + (", because it was declared public." if where.public else ".")
    ]


def tell_weaker(
    protocol: ShuffleProtocol | CentralMechanism, n: int, *, apart: bool = False
) -> str | None:
    """Say what is lost if fewer people took part than the noise was made for; None if nothing is.

    `apart`: n people are those of the smallest of several shuffles.

    >>> from shuffledp import protocols
    >>> planned = protocols.zsum_sparse.make(n=100_000, epsilon=1.0, delta=1e-6)
    >>> tell_weaker(planned.with_people(90_000), 90_000)[:19]
    'WEAKER THAN PLANNED'
    """
    asked, promise = protocol.parameters, protocol.guarantee
    planned = asked.get("n")
    if planned is None or n >= planned:
        return None
    if promise.epsilon <= asked["epsilon"] and promise.delta <= asked.get("delta", 0.0):
        return None
    came = f"the smallest shuffle had {n:,}" if apart else f"{n:,} took part"
    return (
        f"WEAKER THAN PLANNED: the noise was made for {planned:,} people, but {came}; the guarantee below is for "
        "that number"
    )


def expose(
    rng: WordSource | None,
    where: Filter | None,
    declared: Declared | None = None,
    policy: OnInvalid = OnInvalid.ERROR,
) -> tuple[str, ...]:
    """Say what of the answers is not private, and why."""
    seeded = (SEEDED,) if isinstance(rng, SeededWords) else ()
    exposed = None if where is None else where.expose()
    own = () if declared is None else declared.not_private
    left_out = (LEFT_OUT,) if policy.drops else ()
    return (*seeded, *own, *([] if exposed is None else [exposed]), *left_out)


def explain_run(
    engine: str,
    curated: bool,
    dealt: bool,
    dropped: str | None,
    policy: OnInvalid | None,
    *,
    several: bool = False,
) -> str:
    """Say what the machine that held the column (or `several`) did, and what became of invalid values.

    >>> explain_run("duckdb", curated=True, dealt=False, dropped=None, policy=None)[:49]
    'In this run. One machine (duckdb) held the raw co'
    """
    machine = _CURATED if curated else _DEALT if dealt else _PLAYED
    told = machine.format(engine)
    for one, more in _SEVERAL.items() if several else ():
        told = told.replace(one, more)
    said = [told, _TRUSTED, dropped, *_explain_covered(policy)]
    return "In this run. " + " ".join(each for each in said if each is not None)


def _explain_covered(policy: OnInvalid | None) -> Iterator[str]:
    """Say what happened to invalid values that are part of the result."""
    for action, words in _COVERED.items():
        faults = () if policy is None else policy.faults_with(action)
        if faults:
            text = words.format(" and ".join(_FAULT_NAMES[fault] for fault in faults))
            yield text[0].upper() + text[1:]


def tell_dropped(invalid: Mapping[str, int] | None, rows: int | None, n: int) -> str | None:
    """Say how many people were left out, if somebody was.

    >>> tell_dropped({"null": 1, "nan": 0}, 10, 9)
    "1 of 10 values were invalid (null 1) and were left out: n is 9, and the promise is made for that many. These numbers are exact: that somebody's value was left out is not protected."
    """
    faults = {} if invalid is None else invalid
    count = sum(faults.values())
    if not count:
        return None
    return (
        f"{count:,} of {rows:,} values were invalid ({list_reasons(faults)}) and were left "
        f"out: n is {n:,}, and the promise is made for that many. These numbers are exact: "
        "that somebody's value was left out is not protected."
    )


def list_reasons(invalid: Mapping[str, int]) -> str:
    """Say why values were invalid, and how many of them.

    >>> list_reasons({"null": 1200, "unknown": 0})
    'null 1,200'
    """
    return ", ".join(f"{why} {times:,}" for why, times in invalid.items() if times)


def tell_recoded(policy: OnInvalid, invalid: Mapping[str, int]) -> str | None:
    """Say how many values became 'other' or the end of a range, for the operator alone; None: none did.

    >>> tell_recoded(OnInvalid.read("clamp"), {"null": 0, "unknown": 0, "out_of_range": 1, "nan": 0})
    '1 invalid value (out_of_range 1) was moved to the nearest end'
    """
    said = []
    for action, (one, several) in _BECAME.items():
        inside = {fault: invalid[fault] for fault in policy.faults_with(action)}
        count = sum(inside.values())
        if count:
            became = f"value ({list_reasons(inside)}) {one}"
            became = became if count == 1 else f"values ({list_reasons(inside)}) {several}"
            said.append(f"{count:,} invalid {became}")
    return "; ".join(said) or None


def describe_invalid(
    policy: OnInvalid, invalid: Mapping[str, int]
) -> tuple[dict[str, int] | None, str | None]:
    """Return the numbers of invalid values if a result may hold them, otherwise a line for the operator.

    Whoever is left out is outside the promise. A value that became 'other' or the end of a range is
    inside: its exact count, beside the noisy one, would undo the noise.

    >>> describe_invalid(OnInvalid.read("clamp"), {"null": 0, "unknown": 0, "out_of_range": 2, "nan": 0})
    (None, 'For you alone (exact, so not private): 2 invalid values (out_of_range 2) were moved to the nearest end.')
    """
    if not policy.recodes:
        return dict(invalid), None
    said = tell_recoded(policy, invalid)
    covered = {fault for action in _BECAME for fault in policy.faults_with(action)}
    public = {fault: count for fault, count in invalid.items() if fault not in covered}
    return (public if policy.drops else None), tell_operator(said)


_ALONE = "For you alone (exact, so not private): "


def tell_operator(*said: str | None) -> str | None:
    """Return one line for the operator alone, of several of them or of what such a line says.

    >>> tell_operator("3 rows were read", None, tell_operator("2 values were moved"))
    'For you alone (exact, so not private): 3 rows were read; 2 values were moved.'
    """
    told = "; ".join(each.removeprefix(_ALONE).removesuffix(".") for each in said if each)
    return f"{_ALONE}{told}." if told else None


def remark(survey: "Survey", task: Task, n: int, *, compare: bool) -> Iterator[str]:
    """Remark on the grid, on a large delta, and (to compare) on what trusting this machine would give."""
    yield from remark_on(task) if survey.model is Model.CENTRAL else task.remarks()
    yield from survey.check_delta(n)
    if compare and task.unit is not None and survey.model is Model.SHUFFLE:
        assert survey.epsilon is not None
        error = curator_error(
            task, n=n, epsilon=survey.epsilon, delta=survey.delta, honest=survey.honest
        )
        if error is not None:
            yield _REHEARSAL.format(f"{write_digits(error, 3)} {task.unit}".rstrip())


def remark_on(task: Task) -> tuple[str, ...]:
    """Say what a curator, who adds up the numbers themselves, should know of a task."""
    return () if isinstance(task, Mean | Sum) else task.remarks()


def tell_mechanism(survey: "Survey", made: ShuffleProtocol | Mechanism) -> Iterator[str]:
    """Say what a curator leaves out, and what was given in vain."""
    if survey.model is not Model.CENTRAL:
        return
    from shuffledp.mechanisms.stability_histogram import StabilityHistogram

    if isinstance(made, StabilityHistogram):
        yield (
            f"Values with a noisy count above {made.threshold:,} are listed. The intervals hold for all listed "
            "values at once and allow for the selection, so they are wider than two standard errors."
        )
    if survey.delta and not made.guarantee.delta:
        yield f"The delta of {survey.delta:g} was not needed: {made.name} has delta = 0."
