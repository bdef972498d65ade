"""One request: a question about a column, answered privately.

    answer = ask("people.parquet", "histogram", column="way", categories=["car", "bus", "other"],
                 epsilon=1, delta=1e-8)
    print(answer)
    answer.estimate, answer.protocol, answer.guarantee, answer.explain(), answer.to_pandas()

`ask` takes three steps, and so does the command line:

1. `Request(...)` checks what is asked, without looking at the data;
2. `request.prepare(column)` fixes the public domain, counts the people and makes the protocol;
3. `prepared.answer()` randomizes, shuffles, tallies and estimates.

With a ledger, what cannot be charged is refused before step 3, and the charge is on the disk before
anybody sees the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shuffledp.answer import Answer, describe_invalid
from shuffledp.core.domain import Categories, Domain, Integers, Reals
from shuffledp.core.errors import LedgerError, ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, up
from shuffledp.core.protocol import HONEST, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Task
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import positive
from shuffledp.engine import (
    Column,
    DuckDB,
    Engine,
    Headcount,
    OnInvalid,
    Randomized,
    Report,
    find_engine,
    headcount,
    open_column,
    randomize_file,
    run_file,
    take_column,
)
from shuffledp.ledger import Budget, Entry, Ledger
from shuffledp.ledger.ledger import DATASET
from shuffledp.numerics.entropy import SeededWords
from shuffledp.planner import choose
from shuffledp.planner.question import planned

__all__ = ["Prepared", "Request", "Spending", "ask", "open_data"]

_SEEDED = "the noise is seeded: whoever knows the seed can undo it, so this protects nobody"
_SIMULATED = (
    "the engine {} is a simulation: a curator who sees the exact counts draws the answer with "
    "floating-point samplers, and the proof of the guarantee does not cover this result"
)


def ask(
    data: Any,
    task: str,
    *,
    epsilon: float,
    delta: float | None = None,
    column: str | None = None,
    model: Model | str = Model.SHUFFLE,
    protocol: str | None = None,
    max_messages: float | None = None,
    honest: float | None = None,
    on_invalid: OnInvalid | str = OnInvalid.ERROR,
    engine: Engine | str | None = None,
    rng: WordSource | None = None,
    level: float = 0.95,
    ledger: Ledger | str | Path | None = None,
    budget: Budget | None = None,
    dataset: str = DATASET,
    report: Report | None = None,
    **options: Any,
) -> Answer:
    """Answer a question about a column privately: what `shuffledp run` does, in Python.

    `data` is a path or a pattern like `"data/*.csv"` (or several as `Path` objects), or in memory: a
    pandas or Polars DataFrame or an Arrow table with the name of a `column`, a Series, an Arrow or
    NumPy array, or a list of values. `task` is the question: "count", "sum", "mean" or "histogram".

    `options` are what the task asks for, from public knowledge: `lower` and `upper` (and `steps`, for
    reals on a grid) of a sum or mean; for a histogram `categories` (a list), `categories_file`, or
    `lower` and `upper` for a bin per integer.

    The planner chooses the protocol, unless `protocol` names one. `model="local"` trusts nobody and
    takes no delta. `honest` is the share of people whose noise the guarantee counts on. `on_invalid`
    says how to handle nulls and out-of-domain values: "error", "drop", "other" or "clamp". Words are
    secure unless `rng` is a `SeededWords`.

    With a `ledger` (or its path) the answer is charged to `dataset` before it is returned, or refused
    if the budget is spent; `budget` states the budget with the first release.

    >>> from shuffledp import SeededWords
    >>> answer = ask([True, False] * 500, "count", epsilon=1, delta=1e-6, rng=SeededWords(1))
    >>> answer.n, answer.protocol.name, abs(answer.estimate.value - 500) < 20
    (1000, 'correlated_count', True)
    """
    request = Request(
        task=task,
        epsilon=epsilon,
        delta=delta,
        options=options,
        model=model,
        protocol=protocol,
        max_messages=max_messages,
        honest=honest,
        on_invalid=on_invalid,
        engine=engine,
        rng=rng,
        level=level,
    )
    spending = None
    if ledger is not None:
        request.check_chargeable()
        opened = ledger if isinstance(ledger, Ledger) else Ledger(Path(ledger))
        spending = Spending(ledger=opened, budget=budget, dataset=dataset)
    prepared = request.prepare(open_data(data, column), report=report)
    if spending is not None:
        spending.check(prepared.protocol.guarantee)
    answer = prepared.answer(report=report)
    if spending is not None:
        entry = spending.charge(answer.guarantee, {**prepared.note, "n": answer.n})
        spending.mark_released(entry)
    return answer


def open_data(data: Any, column: str | None = None) -> Column:
    """Open a column of files or in memory; a list of `Path` objects is files, one of strings is values.

    >>> open_data(["cat", "dog", "cat"]).rows
    3
    """
    if isinstance(data, Column):
        return data
    several = isinstance(data, list | tuple) and bool(data)
    if isinstance(data, str | Path) or (several and all(isinstance(each, Path) for each in data)):
        return open_column(data, column)
    return take_column(data, column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked, how privately, and by which engine: everything but the data. See `ask`.

    >>> Request(task="count", epsilon=1.0)
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: the shuffle model needs delta: choose it far below 1/n
    """

    task: str
    epsilon: float
    delta: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    model: Model | str = Model.SHUFFLE
    protocol: str | None = None
    max_messages: float | None = None
    honest: float | None = None
    on_invalid: OnInvalid | str = OnInvalid.ERROR
    engine: Engine | str | None = None
    """None: "duckdb" for files, "memory" for columns in memory."""
    rng: WordSource | None = None
    level: float = 0.95
    """Confidence level of the intervals."""
    n: int | None = None
    """Make the protocol for this many people, not for those in the column."""

    def __post_init__(self) -> None:
        planned(self.task).given(self.options)
        positive("epsilon", self.epsilon)
        valid_level(self.level)
        object.__setattr__(self, "model", _read_model(self.model))
        object.__setattr__(self, "on_invalid", OnInvalid.read(self.on_invalid))
        if self.engine is not None:
            object.__setattr__(self, "engine", find_engine(self.engine))
        if self.model is Model.LOCAL:
            self._check_local()
        elif self.delta is None:
            raise UnsupportedError("the shuffle model needs delta: choose it far below 1/n")
        if self.protocol is not None and self.max_messages is not None:
            raise UnsupportedError("max_messages is for choosing a protocol: leave out protocol")

    def _check_local(self) -> None:
        names = ("delta", "honest", "max_messages")
        wrong = [name for name in names if getattr(self, name) is not None]
        if wrong:
            raise UnsupportedError(
                f"the local model takes no {', '.join(wrong)}: its delta is 0, its people trust "
                "nobody, and they send one message"
            )

    @property
    def seed(self) -> int | None:
        """The seed of the noise; None if it is secure."""
        return self.rng.seed if isinstance(self.rng, SeededWords) else None

    def check_chargeable(self) -> None:
        """Refuse what no guarantee covers: a ledger cannot charge it."""
        if self.seed is not None:
            raise UnsupportedError(
                "a seed protects nobody, so a ledger cannot charge it: leave out one of them"
            )
        if self.engine is not None and not find_engine(self.engine).private:
            raise UnsupportedError(
                f"the engine {find_engine(self.engine).name} simulates the protocol and has no proof "
                "of privacy, so a ledger cannot charge it: leave out the ledger, or choose another "
                "engine"
            )
        if self.options.get("categories_from_data"):
            raise UnsupportedError(
                "categories_from_data releases which categories occur, and no epsilon covers that, so "
                "a ledger cannot charge it: declare categories or categories_file"
            )

    def prepare(self, column: Column, *, report: Report | None = None) -> "Prepared":
        """Fix the domain, count the people and make the protocol: nothing is randomized yet."""
        engine = self._choose_engine(column)
        declared = planned(self.task).declare(self.options, column)
        question = _on_a_grid(declared.task) if self.model is Model.LOCAL else declared.task
        found = headcount(column, question.domain, self.on_invalid, engine=engine, report=report)
        protocol = self._make_protocol(question, found.n if self.n is None else self.n)
        return Prepared(
            request=self,
            column=column,
            engine=engine,
            domain=None if _codes_itself(protocol, question.domain) else question.domain,
            found=found,
            protocol=protocol,
            notes=declared.notes,
            not_private=(*self._exposed(engine), *declared.not_private),
        )

    def _exposed(self, engine: Engine) -> list[str]:
        seeded = [] if self.seed is None else [_SEEDED]
        return seeded if engine.private else [*seeded, _SIMULATED.format(engine.name)]

    def _choose_engine(self, column: Column) -> Engine:
        default = "memory" if column.array is not None else "duckdb"
        return find_engine(default if self.engine is None else self.engine)

    def _make_protocol(self, task: Task, n: int) -> ShuffleProtocol:
        made = choose(
            task,
            n=n,
            epsilon=self.epsilon,
            delta=0.0 if self.delta is None else self.delta,
            honest=HONEST if self.honest is None else self.honest,
            model=self.model,
            protocol=self.protocol,
            max_messages=self.max_messages,
        )
        assert isinstance(made, ShuffleProtocol)
        return made


def _read_model(model: Model | str) -> Model:
    if model not in ("shuffle", "local", Model.SHUFFLE, Model.LOCAL):
        raise ParameterError("model", model, "must be 'shuffle' or 'local'")
    return Model(model)


def _on_a_grid(task: Task) -> Task:
    """Local protocols for numbers take reals: the integers are the points of a grid."""
    domain = task.domain
    if task.bins or not isinstance(domain, Integers):
        return task
    grid = Reals(lower=domain.lower, upper=domain.upper, steps=domain.size - 1)
    return type(task)(domain=grid)


def _codes_itself(protocol: ShuffleProtocol, declared: Domain) -> bool:
    """Whether the values are what the protocol's own domain says: there are no names to tell."""
    own = protocol.randomizer.domain
    return own == declared or isinstance(own, Integers | Reals)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A request and its column: all that must be known before anybody's value is randomized."""

    request: Request
    column: Column
    engine: Engine
    domain: Domain | None
    """None if the protocol's own domain says what the values are."""
    found: Headcount
    protocol: ShuffleProtocol
    notes: tuple[str, ...] = ()
    """What the reader of the answer should know."""
    not_private: tuple[str, ...] = ()
    """What the answer tells that no noise protects."""

    @property
    def policy(self) -> OnInvalid:
        """How invalid values are handled."""
        return OnInvalid.read(self.request.on_invalid)

    @property
    def note(self) -> dict[str, Any]:
        """What a ledger writes down about it."""
        named = {"task": self.request.task, "column": self.column.name}
        return {**named, "protocol": self.protocol.name}

    def answer(self, *, report: Report | None = None) -> Answer:
        """Randomize, shuffle, tally and estimate."""
        found = run_file(
            self.protocol,
            self.column,
            domain=self.domain,
            on_invalid=self.policy,
            engine=self.engine,
            rng=self.request.rng,
            report=report,
            found=self.found,
        )
        public, private = self.describe_invalid(found.invalid)
        return Answer(
            task=self.request.task,
            protocol=self.protocol.with_people(found.n),
            estimate=found.estimate,
            n=found.n,
            level=self.request.level,
            column=self.column.name,
            engine=self.engine,
            files=tuple(file.path for file in self.column.files),
            rows=found.rows,
            invalid=public,
            on_invalid=self.policy,
            seed=self.request.seed,
            notes=self.notes,
            not_private=self.not_private,
            for_operator=private,
        )

    def describe_invalid(
        self, invalid: Mapping[str, int]
    ) -> tuple[dict[str, int] | None, str | None]:
        """What may be published of the numbers of invalid values, and what the operator may know."""
        return describe_invalid(invalid, self.policy)

    def randomize(self, out: str | Path, *, report: Report | None = None) -> Randomized:
        """Write everybody's messages to a file: shuffled, and without their senders."""
        return randomize_file(
            self.protocol,
            self.column,
            out,
            domain=_name_bins(self.domain),
            on_invalid=self.policy,
            rng=self.request.rng,
            threads=self.engine.threads if isinstance(self.engine, DuckDB) else None,
            report=report,
            found=self.found,
        )


def _name_bins(domain: Domain | None) -> Domain | None:
    """The bins by name: messages carry the names of categories, not the ends of a range."""
    if isinstance(domain, Integers):
        return Categories(k=domain.size, names=domain.labels)
    return domain


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A ledger, the data set whose budget is spent, and the budget that the first release states."""

    ledger: Ledger
    budget: Budget | None = None
    dataset: str = DATASET

    def __post_init__(self) -> None:
        self.ledger.check_writable()
        if self.dataset not in self.ledger.datasets and self.budget is None:
            raise LedgerError(
                f"{self.ledger.path} has no budget for data set {self.dataset!r} yet: "
                "state the budget (its epsilon and delta) with the first release"
            )

    def check(self, guarantee: Guarantee) -> None:
        """Refuse now what could not be charged later."""
        self.ledger.check(guarantee, dataset=self.dataset, budget=self.budget)

    def charge(self, guarantee: Guarantee, note: Mapping[str, Any]) -> Entry:
        """Write the release down. Call it before anybody sees the answer."""
        return self.ledger.charge(
            guarantee, dataset=self.dataset, budget=self.budget, note=dict(note)
        )

    def mark_released(self, entry: Entry) -> str:
        """Write down that it is out; returns what is spent, and the head of the ledger."""
        head = self.ledger.mark_released(entry)
        total, budget = self.ledger.spent(self.dataset), self.ledger.budget(self.dataset)
        return (
            f"Spent of data set {self.dataset!r}: epsilon {up(total.epsilon, 6)} of "
            f"{budget.epsilon:.6g}, delta {up(total.delta, 3)} of {budget.delta:.3g}, "
            f"in {total.releases} release{'s' * (total.releases != 1)}.\n"
            f"Head of the ledger, to note elsewhere: {head}"
        )
