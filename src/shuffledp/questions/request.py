"""One request: a question about a column, answered privately.

    answer = ask("people.parquet", "histogram", column="way", categories=["car", "bus", "other"],
                 epsilon=1, delta=1e-8)
    print(answer)
    answer.estimate, answer.protocol, answer.guarantee, answer.explain(), answer.to_pandas()

`ask` takes three steps, and so does the command line:

1. `Request(...)` checks what is asked, without looking at the data;
2. `request.prepare(column)` fixes the public domain, counts the people and makes the protocol;
3. `prepared.answer()` deals the tally of everybody's messages, and estimates.

With a ledger, what cannot be charged is refused before step 3, and the charge is on the disk before
anybody sees the answer.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp import protocols
from shuffledp.core.cells import Bins
from shuffledp.core.display import MOMENTS
from shuffledp.core.domain import Categories, Domain, Integers, Reals
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.mechanism import Mechanism
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import HONEST, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Declared, Task, read_moment, say_of
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import positive
from shuffledp.engine.chunks import Engine, Headcount, Report
from shuffledp.engine.codes import Action, Coder, OnInvalid
from shuffledp.engine.columns import Column, open_column, take_column
from shuffledp.engine.files import FileRun, find_engine, headcount, run_file
from shuffledp.engine.filters import Filter
from shuffledp.engine.formats import Files, Format
from shuffledp.engine.output import check_result, write_result
from shuffledp.engine.stages import CALIBRATION, GROUPING, stage
from shuffledp.mechanisms.stability_histogram import StabilityHistogram
from shuffledp.numerics.entropy import SeededWords
from shuffledp.planner.choice import choose, curator_error
from shuffledp.planner.question import check_delta, find_planned
from shuffledp.questions.answer import Answer, list_reasons, tell_dropped, tell_weaker
from shuffledp.tasks import Histogram, Mean, Sum
from shuffledp.tasks.groups import GROUPED, Grouped
from shuffledp.tasks.numbers import Cdf

if TYPE_CHECKING:
    from shuffledp.engine.central import Released
    from shuffledp.engine.messages import Randomized
    from shuffledp.engine.pairs import Pairs
    from shuffledp.ledger import Budget, Ledger, Spending

__all__ = [
    "SEEDED",
    "TRUST",
    "Prepared",
    "Request",
    "check_result",
    "describe_invalid",
    "open_data",
    "open_spending",
    "tell_dropped",
    "tell_recoded",
    "tell_weaker",
    "use_grid",
    "write_result",
]

SEEDED = "the noise is seeded: whoever knows the seed can undo it, so this protects nobody"
"""What must be said of every answer with a seed."""
_BECAME = {
    Action.OTHER: ("became other", "became other"),
    Action.CLAMP: ("was moved to the end of the range", "were moved to the end of the range"),
}
TRUST = (
    "On a file this machine sees every value. The shuffle model, the default, shows what a collection would give in "
    "which people trust nobody but a shuffler; if they trust this machine, take the central model, which has less noise."
)
"""Who trusts whom if a file is asked, and when to take another model: the same sentences everywhere."""
_REHEARSAL = (
    TRUST
    + " It would be off by about {} (RMSE) at the same epsilon, with delta = 0 and without counting on honest "
    "people."
)
"""Questions whose answers by group are bins of the histogram of pairs, so that an error of a bin is theirs."""
_NEEDLESS = {
    Model.LOCAL: (
        ("delta", "honest", "max_messages"),
        "its delta is 0, its people trust nobody, and they send one message",
    ),
    Model.CENTRAL: (
        ("honest", "max_messages"),
        "a trusted machine adds the noise, and nobody sends a message",
    ),
}


def open_spending(
    ledger: "Ledger | str | Path | None",
    budget: "Budget | None",
    dataset: str,
    *,
    rng: WordSource | None,
    from_data: bool = False,
    where: Filter | str | None = None,
) -> "Spending | None":
    """The ledger that an answer is charged to, if there is one; refuses what no guarantee covers."""
    if ledger is None:
        return None
    from shuffledp.ledger import Ledger, Spending

    if isinstance(rng, SeededWords):
        raise UnsupportedError(
            "a seed protects nobody, so a ledger cannot charge it: leave out one of them"
        )
    if from_data:
        raise UnsupportedError(
            "categories_from_data releases which categories occur, and no epsilon covers that, so "
            "a ledger cannot charge it: declare categories or categories_file"
        )
    if where is not None and not Filter.read(where).public:
        raise UnsupportedError(
            f"where={str(where)!r} makes n the exact answer to a question, and no epsilon covers that, so a ledger "
            "cannot charge it: ask by group instead (by), or declare that everybody may know who is taken "
            "(where_public)"
        )
    opened = ledger if isinstance(ledger, Ledger) else Ledger(Path(ledger))
    return Spending(ledger=opened, budget=budget, dataset=dataset)


def open_data(data: Any, column: str | None = None, where: Filter | str | None = None) -> Column:
    """Open a column of files or in memory; a list of `Path` objects or `Files` is files, one of strings is values.

    >>> open_data(["cat", "dog", "cat"]).rows
    3
    """
    if isinstance(data, Column):
        if where is not None:
            raise UnsupportedError("the column is open already: give where to open_column")
        return data
    several = isinstance(data, list | tuple) and bool(data)
    if isinstance(data, str | Path | Files) or (
        several and all(isinstance(each, Path) for each in data)
    ):
        return open_column(data, column, where=where)
    return take_column(data, column, where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked, how privately, and by which engine: everything but the data. See `ask`.

    >>> Request(task="count", epsilon=1.0)
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: the shuffle model needs delta: choose it far below 1/n, such as 1e-8 for a million people; on a file, model central needs none
    """

    task: str
    epsilon: float
    delta: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    model: Model | str = Model.SHUFFLE
    protocol: str | None = None
    max_messages: float | None = None
    honest: float | None = None
    allow_large_delta: bool = False
    """Take a delta above 1/n as well."""
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR
    missing: Sequence[str] | str | None = None
    """How a missing value may be spelt, besides an empty text; None: as usual, such as NA."""
    engine: Engine | str | None = None
    """None: "duckdb" for files, "memory" for columns in memory."""
    rng: WordSource | None = None
    level: float = 0.95
    """Confidence level of the intervals."""
    n: int | None = None
    """Make the protocol for this many people, not for those in the column."""
    by: str | None = None
    """The column of groups: answer for each of them."""
    population: bool = False
    """Whether the people are a random sample of a population, whose shares are wanted."""
    groups: Sequence[str] | None = None
    """The groups, from public knowledge; yes and no need not be declared."""

    def __post_init__(self) -> None:
        find_planned(self.task).read_options(self.options)
        if self.groups is not None and self.by is None:
            raise UnsupportedError("groups needs by: the column that says who is in which group")
        if self.by is not None and self.task not in GROUPED:
            raise UnsupportedError(
                f"{say_of(self.task, 'has')} no groups: by is for {', '.join(GROUPED)}"
            )
        if self.population and (self.by is not None or not find_planned(self.task).counts):
            raise UnsupportedError(
                "population is for the shares of a count, histogram or bins, and not by group: the spread of other "
                "answers in a population is not known"
            )
        positive("epsilon", self.epsilon)
        valid_level(self.level)
        object.__setattr__(self, "model", _read_model(self.model))
        object.__setattr__(self, "on_invalid", OnInvalid.read(self.on_invalid, self.missing))
        if self.engine is not None:
            object.__setattr__(self, "engine", find_engine(self.engine))
        if self.model in _NEEDLESS:
            self._check_needless()
        elif self.delta is None:
            raise UnsupportedError(
                "the shuffle model needs delta: choose it far below 1/n, such as 1e-8 for a million people; "
                "on a file, model central needs none"
            )
        if self.protocol is not None and self.max_messages is not None:
            raise UnsupportedError("max_messages is for choosing a protocol: leave out protocol")

    def _check_needless(self) -> None:
        assert isinstance(self.model, Model)
        names, why = _NEEDLESS[self.model]
        wrong = [name for name in names if getattr(self, name) is not None]
        if wrong:
            raise UnsupportedError(
                f"the {self.model.value} model takes no {', '.join(wrong)}: {why}"
            )

    @property
    def seed(self) -> int | None:
        """The seed of the noise; None if it is secure."""
        return self.rng.seed if isinstance(self.rng, SeededWords) else None

    def prepare(
        self,
        column: Column,
        *,
        grouping: Column | None = None,
        report: Report | None = None,
        sent: bool = False,
    ) -> "Prepared":
        """Fix the domain, count the people and make the protocol: no answer is randomized yet.

        If messages are to be sent, protocols that send little come first, otherwise those that deal. `grouping` is the
        column `by`.
        """
        engine = self._choose_engine(column)
        column = self._measure(column)
        declared = find_planned(self.task).declare(self.options, column)
        question = use_grid(declared.task) if self.model is Model.LOCAL else declared.task
        counted, policy = column, self.on_invalid
        grouped, pairs = None, None
        if self.by is not None:
            grouped, pairs = self._pair(column, grouping, declared.task, engine, report)
            question = Histogram(domain=Categories(k=grouped.domain.size))
            counted, policy = pairs.column, OnInvalid.ERROR
        with stage(GROUPING):
            found = headcount(counted, question.domain, policy, engine=engine, report=report)
        n = found.n if self.n is None else self.n
        if grouped is None:
            question = question.fit(n, self.epsilon)
        with stage(CALIBRATION):
            protocol = self._make_protocol(question, n, sent=sent)
        if grouped is not None and protocol.name == "stability_histogram":
            raise UnsupportedError("stability_histogram leaves out bins: it has no answer by group")
        compare = grouped is None or not grouped.asked.adds
        return Prepared(
            request=self,
            column=column,
            engine=engine,
            question=question,
            found=found,
            protocol=protocol,
            grouped=grouped,
            pairs=pairs,
            notes=(
                *_tell(declared, column),
                *(() if grouped is None else grouped.remarks()),
                *self._remarks(question, n, compare=compare),
                *self._tell_mechanism(protocol),
            ),
            not_private=self._expose(declared, column),
        )

    def _pair(
        self,
        column: Column,
        grouping: Column | None,
        task: Task,
        engine: Engine,
        report: Report | None,
    ) -> "tuple[Grouped, Pairs]":
        """A question by group: a histogram of pairs, which becomes the answer for each group."""
        from shuffledp.engine.pairs import pair_people

        if grouping is None:
            raise UnsupportedError(f"by={self.by!r} needs the column itself: grouping")
        if any(file.format is Format.LINES for file in column.files):
            raise DataError(
                f"{column.files[0].path} is read as one value per line, without groups: name the column"
            )
        grouped = Grouped.of(task, self._read_groups(grouping))
        with stage(GROUPING):
            policy = OnInvalid.read(self.on_invalid)
            n = self.n or column.rows
            if n is None:
                own = Coder.for_part(task.domain, policy)
                n = headcount(column, own.domain, own.on_invalid, engine=engine, report=report).n
            # The noise of the local model grows with n: there the fewest bins are best.
            local = self.model is Model.LOCAL
            grouped = grouped.round_to(1) if local else grouped.fit(n, self.epsilon)
            pairs = pair_people(column, grouping, grouped.domain, on_invalid=policy, rng=self.rng)
        return grouped, pairs

    def _expose(self, declared: Declared, column: Column) -> tuple[str, ...]:
        """What of the answer is not private, and why."""
        seeded = () if self.seed is None else (SEEDED,)
        exposed = None if column.where is None else column.where.expose()
        return (*seeded, *declared.not_private, *([] if exposed is None else [exposed]))

    def _read_groups(self, grouping: Column) -> Categories:
        """The groups that were declared; yes and no for a column of bits."""
        if self.groups is not None:
            names = tuple(self.groups)
            if len(names) < 2:
                raise ParameterError("groups", list(names), "must be at least two")
            return Categories(k=len(names), names=names)
        if grouping.boolean:
            return Categories(k=2, names=("false", "true"))
        raise UnsupportedError(
            f"by={self.by!r} needs its groups from public knowledge: groups; those in the data would tell "
            "who is there"
        )

    def _measure(self, column: Column) -> Column:
        """The column, with dates as numbers if its ends are dates."""
        ends = [self.options[name] for name in ("lower", "upper") if name in self.options]
        edges = self.options.get("edges") or []
        ends += edges.split(",") if isinstance(edges, str) else edges
        units = {found[1] for found in map(read_moment, ends) if found is not None}
        if not units:
            return column
        if len(units) > 1 or not all(map(read_moment, ends)):
            raise UnsupportedError(
                "lower, upper and edges must be all dates, or all dates with a time"
            )
        return replace(column, moments=units.pop())

    def _remarks(self, question: Task, n: int, *, compare: bool = True) -> Iterator[str]:
        """About the grid, a large delta, and (to compare) what trusting this machine would give."""
        if self.model is not Model.CENTRAL or not isinstance(question, Mean | Sum):
            yield from question.remarks()  # a curator adds up the numbers themselves
        if self.delta:
            yield from check_delta(self.delta, n, allow_large_delta=self.allow_large_delta)
        compare = compare and question.unit is not None
        if compare and self.model is Model.SHUFFLE and self.n is None:
            error = curator_error(
                question, n=n, epsilon=self.epsilon, delta=self.delta or 0.0, honest=self._share
            )
            if error is not None:
                yield _REHEARSAL.format(f"{error:.3g} {question.unit}".rstrip())

    def _tell_mechanism(self, made: ShuffleProtocol | Mechanism) -> Iterator[str]:
        """What a curator leaves out, and what was given in vain."""
        if isinstance(made, StabilityHistogram):
            yield (
                f"Listed is what has a noisy count above {made.threshold:,}. The intervals hold for all that is "
                "listed at once, with the choice of it counted in: so they are wider than two standard errors."
            )
        if self.model is Model.CENTRAL and self.delta and not made.guarantee.delta:
            yield f"The delta of {self.delta:g} was not needed: {made.name} has delta = 0."

    def _choose_engine(self, column: Column) -> Engine:
        if self.engine is None:
            return find_engine("memory" if column.array is not None else "duckdb")
        assert not isinstance(self.engine, str)  # it was found when the request was made
        return self.engine

    @property
    def _share(self) -> float:
        """The share of honest people; the local model needs nobody else's noise, so one person is enough."""
        if self.model is not Model.SHUFFLE:
            return 1.0
        return HONEST if self.honest is None else self.honest

    def _make_protocol(self, task: Task, n: int, *, sent: bool) -> ShuffleProtocol | Mechanism:
        made = choose(
            task,
            n=n,
            epsilon=self.epsilon,
            delta=0.0 if self.delta is None else self.delta,
            honest=self._share,
            model=self.model,
            protocol=self.protocol,
            max_messages=self.max_messages,
            for_file=not sent,
        )
        return made if self.seed is None else _seed_functions(made, self.seed)


def _seed_functions(made: ShuffleProtocol | Mechanism, seed: int) -> ShuffleProtocol | Mechanism:
    """The protocol, with public functions that follow from the seed as well, if it has any: the answer is the same again."""
    if not isinstance(made, ShuffleProtocol) or "seed" not in made.parameters:
        return made
    digest = hashlib.sha256(f"shuffledp functions {seed}".encode()).digest()
    chosen = int.from_bytes(digest[:6], "big")
    return protocols.make(made.name, **{**made.parameters, "seed": chosen})


def _tell(declared: Declared, column: Column) -> tuple[str, ...]:
    return (*declared.notes, *_tell_moments(column), *_tell_filter(column))


def _tell_moments(column: Column) -> list[str]:
    if column.moments is None:
        return []
    return [
        f"Dates count as {column.moments} since 1970-01-01, and their errors are {column.moments}."
    ]


def _tell_filter(column: Column) -> list[str]:
    if column.where is None:
        return []
    return [
        f"The question is about the people with {column.where}. This filter is part of the question, and n is "
        "the number of people that it takes: it is exact, and that somebody is among them is not protected"
        + (", for it was declared to be public." if column.where.public else ".")
    ]


def _read_model(model: Model | str) -> Model:
    if model not in [*Model, *(each.value for each in Model)]:
        raise ParameterError("model", model, "must be 'shuffle', 'local' or 'central'")
    return Model(model)


def use_grid(task: Task) -> Task:
    """Local protocols for numbers take reals: the integers are the points of a grid."""
    domain = task.domain
    if not isinstance(domain, Integers) or not isinstance(task, Mean | Sum):
        return task
    grid = Reals(lower=domain.lower, upper=domain.upper, steps=domain.size - 1)
    return type(task)(domain=grid)


def tell_recoded(policy: OnInvalid, invalid: Mapping[str, int]) -> str | None:
    """How many values became 'other' or the end of a range, for the operator alone; None: none did.

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
    """The numbers of invalid values if a result may hold them, otherwise a line for the operator.

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A request and its column: all that must be known before anybody's value is randomized."""

    request: Request
    column: Column
    engine: Engine
    question: Task
    found: Headcount
    protocol: ShuffleProtocol | Mechanism
    grouped: Grouped | None = None
    """What makes the answer for each group of the one about pairs; None: there are no groups."""
    pairs: "Pairs | None" = None
    """The pairs of answer and group; None: there are no groups."""
    notes: tuple[str, ...] = ()
    """What the reader of the answer should know."""
    not_private: tuple[str, ...] = ()
    """What the answer tells that no noise protects."""

    @property
    def policy(self) -> OnInvalid:
        """How invalid values are handled."""
        assert isinstance(self.request.on_invalid, OnInvalid)  # a request reads what it is given
        return self.request.on_invalid

    @property
    def note(self) -> dict[str, Any]:
        """What a ledger writes down about it."""
        named: dict[str, Any] = {"task": self.request.task, "column": self.column.name}
        if self.request.by is not None:
            named["by"] = self.request.by
        if self.column.where is not None:
            named["where"] = str(self.column.where)
            named["where_public"] = self.column.where.public
        return {**named, "protocol": self.protocol.name}

    def answer(self, *, report: Report | None = None) -> Answer:
        """Deal the tally, or run everybody's device where that is impossible, and estimate.

        A curator answers exactly and adds the noise.
        """
        found = self._run(report)
        estimate = found.estimate
        if self.grouped is not None:
            estimate = self.grouped.convert(estimate)
        elif self.column.moments is not None:
            estimate = _date_labels(estimate, self.question, self.column.moments)
        made = self.protocol
        read = found if self.pairs is None else self.pairs
        public, private = self.describe_invalid(read.invalid)
        return Answer(
            task=self.request.task,
            protocol=made.with_people(found.n) if isinstance(made, ShuffleProtocol) else made,
            estimate=estimate,
            n=found.n,
            level=self.request.level,
            column=self.column.name,
            by=self.request.by,
            engine=self.engine,
            dealt=isinstance(found, FileRun) and found.dealt,
            files=tuple(file.path for file in self.column.files),
            where=self.column.where,
            rows=read.rows,
            invalid=public,
            on_invalid=self.policy,
            seed=self.request.seed,
            notes=self.notes,
            not_private=self.not_private,
            population=self.request.population,
            moments=self.column.moments,
            for_operator=private,
        )

    def _run(self, report: Report | None) -> "FileRun | Released":
        common: dict[str, Any] = {
            "engine": self.engine,
            "on_invalid": self.policy if self.pairs is None else OnInvalid.ERROR,
            "rng": self.request.rng,
            "report": report,
            "found": self.found,
        }
        column = self.column if self.pairs is None else self.pairs.column
        if not isinstance(self.protocol, ShuffleProtocol):
            from shuffledp.engine.central import release_column

            return release_column(self.protocol, self.question, column, **common)
        return run_file(self.protocol, column, domain=self.question.domain, **common)

    def describe_invalid(
        self, invalid: Mapping[str, int]
    ) -> tuple[dict[str, int] | None, str | None]:
        """The numbers of invalid values if the result may hold them, otherwise a line for the operator."""
        return describe_invalid(self.policy, invalid)

    def randomize(self, out: str | Path, *, report: Report | None = None) -> "Randomized":
        """Write everybody's messages to a file: shuffled, and without their senders."""
        if not isinstance(self.protocol, ShuffleProtocol):
            raise UnsupportedError("nobody sends messages in the central model")
        from shuffledp.engine.messages import randomize_file

        common: dict[str, Any] = {
            "domain": _name_bins(self.protocol, self.question.domain),
            "rng": self.request.rng,
            "threads": self.engine.threads,
            "report": report,
            "found": self.found,
        }
        if self.pairs is None or self.grouped is None:
            policy = self.policy
            return randomize_file(self.protocol, self.column, out, on_invalid=policy, **common)
        from shuffledp.engine.tallies import Form, Reading

        asked = (self.column.name, self.request.task, self.grouped, self.protocol, self.request.by)
        form = Form(readings=(Reading.of(*asked),))
        sent = randomize_file(self.protocol, self.pairs.column, out, form=form, **common)
        return replace(sent, rows=self.pairs.rows, invalid=self.pairs.invalid)


def _date_labels(estimate: Estimate, question: Task, unit: str) -> Estimate:
    """The estimate, with dates in the labels of what is asked for at dates: bins, days, points of a cdf."""
    write, domain = MOMENTS[unit], question.domain
    if isinstance(domain, Bins):
        named = [f"{write(low)} to {write(high)}" for low, high in pairwise(domain.edges)]
    elif question.bins and isinstance(domain, Integers):
        named = [f"{write(day)}" for day in range(domain.lower, domain.upper + 1)]
    elif isinstance(question, Cdf):
        named = [f"<= {write(point)}" for point in question.at or ()]
    else:
        return estimate
    if estimate.labels is None or len(named) != len(estimate.labels):
        return estimate
    return replace(estimate, labels=tuple(named))


def _name_bins(protocol: ShuffleProtocol, declared: Domain) -> Domain:
    """The bins by name: messages carry the names of categories, not the ends of a range."""
    domain = protocol.match_domain(declared)
    if isinstance(protocol.randomizer.domain, Categories) and isinstance(domain, Integers):
        return Categories(k=domain.size, names=domain.labels)
    return domain
