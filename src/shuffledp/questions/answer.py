"""The answer to a request: the estimate, how private it is, and how it is shown and written."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.cells import Bins
from shuffledp.core.display import (
    MOMENTS,
    Moment,
    Number,
    Picture,
    as_text,
    keep_largest,
    list_numbers,
    shorten_label,
    write_dates,
)
from shuffledp.core.domain import Categories, Domain, Integers
from shuffledp.core.estimate import Estimate, NormalError
from shuffledp.core.mechanism import CentralMechanism, Mechanism
from shuffledp.core.notebook import (
    Columns,
    as_html,
    make_columns,
    say,
    stack,
    to_arrow,
    to_pandas,
    to_polars,
)
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Declared, Task
from shuffledp.core.validate import level as valid_level
from shuffledp.core.version import __version__
from shuffledp.engine.chunks import Engine
from shuffledp.engine.codes import Action, OnInvalid
from shuffledp.engine.filters import Filter
from shuffledp.engine.output import write_result
from shuffledp.engine.people import People
from shuffledp.numerics.entropy import SeededWords
from shuffledp.tasks import Cdf, Histogram, show_answer, task_named
from shuffledp.tasks.groups import Grouped

if TYPE_CHECKING:
    from shuffledp.engine.tallies import Collected
    from shuffledp.questions.bounds import Bounds

_DEALT = (
    "One machine ({}) held the raw column. It counted the people with each value and dealt the tally: it drew "
    "what all their messages add up to, exactly with the law that the messages of their devices would have. "
    "So the promise is the protocol's own."
)
_PLAYED = (
    "One machine ({}) held the raw column and played all devices, the shuffler and the analyzer."
)
_TRUSTED = (
    "Whoever can read that machine is trusted. The promise is to the people in the file, against whoever sees "
    "this result."
)
_COVERED = {
    Action.OTHER: "{} values were counted as 'other'. They are protected like all others, so how many "
    "there were is not part of the result.",
    Action.CLAMP: "Numbers {} were moved to the nearest end. They are protected like all others, so how "
    "many there were is not part of the result.",
}
_FAULT_NAMES = {"null": "missing", "unknown": "unknown", "out_of_range": "out of range"}
_CURATED = (
    "One machine ({}) held the raw column, computed the exact answer and added the noise to it."
)

SEEDED = "the noise is seeded: whoever knows the seed can undo it, so this protects nobody"
"""What must be said of every answer with a seed."""
LEFT_OUT = "how many values were left out, and so n, is exact: that somebody's value was left out is not protected"
"""What must be said of every answer whose invalid values were dropped."""
_BECAME = {
    Action.OTHER: ("became other", "became other"),
    Action.CLAMP: ("was moved to the end of the range", "were moved to the end of the range"),
}
TRUST = (
    "On a file this machine sees every value. The shuffle model, the default, shows what a collection would give in "
    "which people trust nobody but a shuffler; if they trust this machine, take the central model, which has less noise."
)
"""Who trusts whom if a file is asked, and when to take another model: the same sentences everywhere."""

_SHARES = 10  # shares of a population that a remark lists


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Answer:
    """What `ask` returns, and what `shuffledp run` prints."""

    task: str
    """The question by name."""
    protocol: ShuffleProtocol | Mechanism
    estimate: Estimate
    n: int
    """How many people took part."""
    level: float = 0.95
    """Confidence level of the intervals."""
    column: str | None = None
    by: str | None = None
    """The column of the groups; None: it is about everybody together."""
    engine: Engine | None = None
    dealt: bool = False
    """Whether the tally was drawn from the number of people with each code; if not, devices made messages."""
    files: tuple[str, ...] = ()
    where: Filter | None = None
    """Whom it is about; None: everybody."""
    rows: int | None = None
    invalid: Mapping[str, int] | None = None
    """How many values were left out, by reason; None if that would break the promise."""
    on_invalid: OnInvalid | None = None
    seed: int | None = None
    notes: tuple[str, ...] = ()
    not_private: tuple[str, ...] = ()
    """What this tells that no noise protects."""
    shuffles: tuple[int, ...] = ()
    """How many people each shuffle had, if messages were collected; () where one machine had the column."""
    guarantee_of_sum: Guarantee | None = None
    """What is promised against readers of nothing but the sum of several shuffles; None: there are none."""
    population: bool = False
    """Whether these people are declared to be a random sample of a population."""
    moments: str | None = None
    """What dates are counted in, days or seconds since 1970-01-01; None: the column has none."""
    people: People | None = None
    """Whom the rows were about; None: each row was taken to be one person."""
    unit: str = "row"
    """Of what the promise is: "person", with all their rows, or "row"."""
    bounds: "Bounds | None" = None
    """The ends of the range, if a first release estimated them; None: they were declared."""
    for_operator: str | None = None
    """Exact numbers for whoever has the data anyway. Not part of the result: do not publish them."""

    def __post_init__(self) -> None:
        valid_level(self.level)
        if self.people is not None:
            object.__setattr__(self, "unit", name_unit(self.people))

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
        asked = None if collected.form is None else collected.form.readings[0]
        return cls(
            task=collected.protocol.task if asked is None else asked.task,
            by=None if asked is None else asked.by,
            moments=None if asked is None else asked.moments,
            notes=() if asked is None else asked.notes,
            protocol=collected.in_force,
            estimate=collected.estimate,
            n=collected.tally.users,
            level=level,
            files=files,
            shuffles=collected.shuffles,
            guarantee_of_sum=collected.guarantee_of_sum,
            unit="row" if collected.form is None else collected.form.unit,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What was promised, estimated bounds included; of several shuffles, what the smallest of them promises."""
        own = self.protocol.guarantee
        return own if self.bounds is None else self.bounds.add_up(own)

    @property
    def promised(self) -> tuple[str, ...]:
        """The guarantee in a line, and against whom it holds if people were shuffled apart."""
        promise = f"{self.protocol.name}: {self.guarantee}."
        apart = tell_shuffles(self.shuffles, self.guarantee_of_sum)
        return (promise, UNITS[self.unit], *apart)

    @property
    def picture(self) -> Picture:
        """What to draw: every number with its error."""
        shown = show_answer(self.task, self.estimate, self.level)
        if self.moments is None:
            return shown
        return write_dates(shown, self.moments, values=task_named(self.task).dated)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the task remarks about this estimate."""
        about = tell_people(self.n)
        if self.population:
            about = self._tell_population()
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
        found = []
        for row, least, most in zip(rows, low.tolist(), high.tolist(), strict=True):
            share = row.value / self.n
            spread = min(max(share, 0.0), 1.0)
            error = math.hypot(row.stderr / self.n, math.sqrt(spread * (1 - spread) / self.n))
            found.append(Number(row.label, share, error, least, most))
        return tuple(found)

    def _tell_population(self) -> str:
        shown = keep_largest(list(self.shares), _SHARES)
        listed = "; ".join(
            f"{shorten_label(row.label)} {row.value:.4f} ({row.low:.4f} .. {row.high:.4f})"
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
        whose = tell_whose(self.where)
        out = sum((self.invalid or {}).values())
        left = f" ({out:,} left out)" if out else ""
        return f"{self.task}{of}, {self.n:,} people{whose}{left}"

    @property
    def warnings(self) -> list[str]:
        """What must not be overlooked, such as NOT PRIVATE."""
        return list_warnings(self.protocol, self.n, self.not_private, self.shuffles)

    @property
    def dropped(self) -> str | None:
        """How many people were left out, if somebody was."""
        return tell_dropped(self.invalid, self.rows, self.n)

    @property
    def _said_of_machine(self) -> str:
        if not isinstance(self.protocol, ShuffleProtocol):
            return _CURATED
        return _DEALT if self.dealt else _PLAYED

    def explain(self) -> str:
        """Return what was promised to whom, and what happened in this run, in plain words."""
        from shuffledp.accounting.explain import explain

        words = [
            explain(self.protocol, self.shuffles, self.guarantee),
            UNITS[self.unit],
            *tell_shuffles(self.shuffles, self.guarantee_of_sum),
        ]
        if self.engine is not None:
            said = [self._said_of_machine.format(self.engine.name), _TRUSTED, self.dropped]
            said.extend(_explain_covered(self.on_invalid))
            words.append("In this run. " + " ".join(each for each in said if each is not None))
        return "\n\n".join(words)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None: what `shuffledp run --json` prints."""
        promise = self.guarantee
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
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "level": self.level,
            "estimate": self.picture.list_rows(),
            "guarantee": promise.to_dict(),
            **describe_shuffles(self.shuffles, self.guarantee_of_sum),
            "not_private": list(self.not_private),
            "seed": self.seed,
            "notes": [*self.notes, *self.remarks],
            **({"population": [row.to_dict() for row in self.shares]} if self.population else {}),
            **({} if self.bounds is None else {"bounds": self.bounds.to_dict()}),
            **task_named(self.task).details(self.estimate),
            "version": __version__,
        }

    to_pandas = to_pandas
    to_polars = to_polars
    to_arrow = to_arrow

    def _columns(self) -> Columns:
        rows = [
            [each.when if isinstance(each, Moment) else each for each in row]
            for row in self.picture.rows
        ]
        return make_columns(Number._fields, rows)

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
        told = (
            self.by is not None
            or task_named(self.task).bins
            or [row.label for row in shown.rows] == [self.task]
            or shown.curve is not None
            or (shown.limits is not None and len(shown.rows) > 1)
        )
        promise, *apart = self.promised
        return plot_estimate(
            shown,
            Path(path),
            title=self.title,
            finding=state_finding(shown) if told else "",
            warnings=self.warnings,
            notes=[promise.removesuffix("."), *apart, *self.notes, *self.remarks],
            brief=[f"{promise.partition('; by ')[0]}.", UNITS[self.unit]],
            axis="people" if shown.people is not None else self.column or "",
            model=self.guarantee.model.value,
        )

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


UNITS = {
    "person": "Protected is one person with all their rows.",
    "row": "Each row is taken to be one person: protected is one row.",
}
"""Of what a promise is, in words."""


def name_unit(people: People | None) -> str:
    """Of what a promise is: "person" if a column names the person, otherwise "row".

    >>> name_unit(None), name_unit(People.read("visitor"))
    ('row', 'person')
    """
    return "row" if people is None else "person"


def tell_unit(people: People | None) -> str:
    """Return the same in words.

    >>> tell_unit(None)
    'Each row is taken to be one person: protected is one row.'
    """
    return UNITS[name_unit(people)]


def tell_whose(where: Filter | None) -> str:
    """Whom a title is about.

    >>> tell_whose(Filter.read("age > 18"))
    ' with age > 18'
    """
    if where is None:
        return ""
    named = shorten_label(str(where))
    return f", of whom those with {named} count" if where.private else f" with {named}"


def tell_shuffles(shuffles: Sequence[int], of_sum: Guarantee | None) -> tuple[str, ...]:
    """Against whom the guarantee of several shuffles holds; nothing where there is no other one of their sum.

    >>> from shuffledp import protocols
    >>> both = protocols.rr.make(n=2000, epsilon=1.0, delta=1e-6).guarantee
    >>> print(tell_shuffles((1000, 1000), both)[0])
    This is the guarantee of the smallest of 2 shuffles, with 1,000 people: whoever has the files sees each of them by itself.
    """
    if of_sum is None:
        return ()
    return (
        f"This is the guarantee of the smallest of {len(shuffles):,} shuffles, with {min(shuffles):,} people: "
        "whoever has the files sees each of them by itself.",
        f"For readers of nothing but the sum: {of_sum}.",
    )


def describe_shuffles(shuffles: Sequence[int], of_sum: Guarantee | None) -> dict[str, Any]:
    """Return the same as JSON has it.

    >>> describe_shuffles((), None)
    {'shuffles': [], 'guarantee_of_sum': None}
    """
    told: dict[str, Any] | None = None
    if of_sum is not None:
        told = {"against": "readers of nothing but the sum"}
        told |= {"epsilon": of_sum.epsilon, "delta": of_sum.delta, **of_sum.to_dict()}
    return {"shuffles": list(shuffles), "guarantee_of_sum": told}


def list_warnings(
    protocol: ShuffleProtocol | CentralMechanism,
    n: int,
    not_private: Sequence[str],
    shuffles: Sequence[int] = (),
) -> list[str]:
    """Return what must not be overlooked in an answer of n people, who may have been shuffled apart."""
    apart = len(shuffles) > 1
    exposed = [f"NOT PRIVATE: {text}" for text in not_private]
    weaker = tell_weaker(protocol, min(shuffles) if apart else n, apart=apart)
    return exposed if weaker is None else [*exposed, weaker]


def tell_weaker(
    protocol: ShuffleProtocol | CentralMechanism, n: int, *, apart: bool = False
) -> str | None:
    """Return what is lost if fewer people took part than the noise was made for; None if nothing is.

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
        f"WEAKER THAN PLANNED: the noise was made for {planned:,} people, and {came}; "
        "the guarantee below is the one for them"
    )


def _explain_covered(policy: OnInvalid | None) -> Iterator[str]:
    """What happened to invalid values that are part of the result."""
    for action, words in _COVERED.items():
        faults = () if policy is None else policy.faults_with(action)
        if faults:
            text = words.format(" and ".join(_FAULT_NAMES[fault] for fault in faults))
            yield text[0].upper() + text[1:]


def tell_dropped(invalid: Mapping[str, int] | None, rows: int | None, n: int) -> str | None:
    """Return how many people were left out, if somebody was.

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
    """Why values were invalid, and how many of them.

    >>> list_reasons({"null": 1200, "unknown": 0})
    'null 1,200'
    """
    return ", ".join(f"{why} {times:,}" for why, times in invalid.items() if times)


def tell_recoded(policy: OnInvalid, invalid: Mapping[str, int]) -> str | None:
    """Return how many values became 'other' or the end of a range, for the operator alone; None: none did.

    >>> tell_recoded(OnInvalid.read("clamp"), {"null": 0, "unknown": 0, "out_of_range": 1, "nan": 0})
    '1 invalid value (out_of_range 1) was moved to the end of the range'
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
    (None, 'For you alone (exact, so not private): 2 invalid values (out_of_range 2) were moved to the end of the range.')
    """
    said = tell_recoded(policy, invalid)
    covered = {fault for action in _BECAME for fault in policy.faults_with(action)}
    public = {fault: count for fault, count in invalid.items() if fault not in covered}
    alone = None if said is None else f"For you alone (exact, so not private): {said}."
    return (public if not covered or policy.drops else None), alone


def expose(
    rng: WordSource | None,
    where: Filter | None,
    declared: Declared | None = None,
    policy: OnInvalid = OnInvalid.ERROR,
) -> tuple[str, ...]:
    """Return what of the answers is not private, and why."""
    seeded = (SEEDED,) if isinstance(rng, SeededWords) else ()
    exposed = None if where is None else where.expose()
    own = () if declared is None else declared.not_private
    left_out = (LEFT_OUT,) if policy.drops else ()
    return (*seeded, *own, *([] if exposed is None else [exposed]), *left_out)


def tell_people(n: int, *, several: bool = False) -> str:
    """Whom intervals are about.

    >>> tell_people(3000)
    'The interval is about these 3,000 people: it covers the noise, and no sampling error.'
    """
    said = "The intervals are" if several else "The interval is"
    covers = "they cover" if several else "it covers"
    return f"{said} about these {n:,} people: {covers} the noise, and no sampling error."


def date_labels(estimate: Estimate, question: Task, unit: str | None) -> Estimate:
    """The estimate, with dates in the labels of what is asked for at dates: bins, days, points of a cdf; by group, too.

    >>> from shuffledp import Integers
    >>> from shuffledp.core.estimate import NormalError
    >>> from shuffledp.tasks import Histogram
    >>> days = Histogram(domain=Integers(lower=15889, upper=15890))
    >>> counted = Estimate(value=np.array([3.0, 4.0]), error=NormalError(stderr=1.0), limits=(0, 7), labels=("15889", "15890"))
    >>> date_labels(counted, days, "days").labels
    ('2013-07-03', '2013-07-04')
    """
    if unit is None or estimate.labels is None:
        return estimate
    write, domain, bins = MOMENTS[unit], question.domain, question.bins
    groups: tuple[str, ...] = ("",)
    if isinstance(question, Grouped):
        bins, (domain, named) = question.asked.bins, question.domain.parts
        groups = tuple(f"{group}, " for group in named.labels)
    if isinstance(domain, Bins):
        own = [f"{write(low)} to {write(high)}" for low, high in pairwise(domain.edges)]
    elif bins and isinstance(domain, Integers):
        own = [f"{write(day)}" for day in range(domain.lower, domain.upper + 1)]
    elif isinstance(question, Cdf):
        own = [f"<= {write(point)}" for point in question.at or ()]
    else:
        return estimate
    labels = tuple(group + each for group in groups for each in own)
    return replace(estimate, labels=labels) if len(labels) == len(estimate.labels) else estimate


def date_bins(bins: Domain | None, question: Task, unit: str | None) -> Domain | None:
    """Return the bins of a question, with dates for names where they are bins of dates."""
    asked = question.asked if isinstance(question, Grouped) else type(question)
    if bins is None or unit is None or not asked.bins or not isinstance(bins, Bins | Integers):
        return bins
    plain = Estimate(
        value=np.zeros(bins.size), error=NormalError(stderr=0.0), limits=(0, 0), labels=bins.labels
    )
    return Categories(k=bins.size, names=date_labels(plain, Histogram(domain=bins), unit).labels)


def tell_moments(moments: str | None) -> list[str]:
    """Return what dates are counted in."""
    if moments is None:
        return []
    return [f"Dates count as {moments} since 1970-01-01, and their errors are {moments}."]


def tell_filter(where: Filter | None) -> list[str]:
    """Whom the question is about, and that their number is exact."""
    if where is None:
        return []
    if where.private:
        return [
            f"The question is about the people with {where}. Everybody stays, and whoever is not among them counts as "
            "nothing: how many they are is protected like the answer is."
        ]
    return [
        f"The question is about the people with {where}. This filter is part of the question, and n is "
        "the number of people that it takes: it is exact, and that somebody is among them is not protected"
        + (", for it was declared to be public." if where.public else ".")
    ]
