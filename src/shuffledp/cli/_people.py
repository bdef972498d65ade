"""What `learn`, `test` and `robust` share: everybody's value in one column, and what was promised about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import shuffledp as sdp
from shuffledp.cli._options import ColumnOptions, make_options, privacy_option
from shuffledp.cli._progress import meter
from shuffledp.cli._terminal import echo_json, is_quiet, keep_inputs, say, say_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from shuffledp.cli._options import BudgetOptions

CategoryOptions: Any = make_options("CategoryOptions", sdp.tasks.Histogram.options)
"""Which categories there are, from public knowledge."""


class _InferenceModel(StrEnum):
    SHUFFLE = "shuffle"
    LOCAL = "local"
    CENTRAL = "central"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class InferenceOptions(ColumnOptions):
    """Options that learning and testing share."""

    model: Annotated[
        _InferenceModel,
        privacy_option(
            help="Trust a shuffler, nobody (local), this machine (central); none: NOT private."
        ),
    ] = _InferenceModel.SHUFFLE

    def refuse_needless(self, max_messages: float | None = None) -> None:
        """Refuse options that the model has no use for.

        >>> InferenceOptions(model=_InferenceModel.CENTRAL, honest=0.5).refuse_needless()
        Traceback (most recent call last):
        shuffledp.core.errors.UnsupportedError: the model central takes no --honest
        """
        if self.model == _InferenceModel.SHUFFLE:
            return
        needless = {"delta": self.delta, "honest": self.honest, "max-messages": max_messages}
        if self.model == _InferenceModel.NONE:
            needless["epsilon"] = self.epsilon
        wrong = [f"--{name}" for name, value in needless.items() if value is not None]
        if wrong:
            raise sdp.UnsupportedError(f"the model {self.model.value} takes no {', '.join(wrong)}")

    @property
    def promise(self) -> dict[str, Any]:
        """What to promise, as arguments of `sdp.learn` and the tests."""
        more = {} if self.honest is None else {"honest": self.honest}
        asked = {"epsilon": self.epsilon, "delta": self.delta, "model": self.model.value}
        return {**asked, "rng": self.rng, **more}


UNIT = "row"
"""Whom these commands promise something: no column says which person a row is about."""
_UNPROTECTED = "the model 'none' adds no noise: the answer is exact, and protects nobody"


@dataclass(frozen=True, kw_only=True)
class People:
    """Everybody's category, and what must be said about how it was read."""

    codes: Any
    domain: sdp.Domain
    column: str
    rows: int
    seed: int | None
    invalid: dict[str, int] | None
    for_operator: str | None
    notes: tuple[str, ...]
    not_private: tuple[str, ...]

    @property
    def n(self) -> int:
        """The number of people who take part."""
        return len(self.codes)

    @property
    def remarks(self) -> list[str]:
        """What whoever reads the answer should know."""
        return [*self.left_out, *self.notes]

    @property
    def left_out(self) -> list[str]:
        """How many people were left out: said in every output."""
        dropped = sdp.questions.tell_dropped(self.invalid, self.rows, self.n)
        return [] if dropped is None else [dropped]

    def note(self, task: str, protocol: str) -> dict[str, Any]:
        """Return what a ledger writes down about the answer."""
        named = {"task": task, "column": self.column, "protocol": protocol, "n": self.n}
        return {**named, "unit": UNIT}

    @property
    def record(self) -> dict[str, Any]:
        """The same, for programs."""
        return {
            "column": self.column,
            "unit": UNIT,
            "rows": self.rows,
            "invalid": self.invalid,
            "not_private": list(self.not_private),
            "seed": self.seed,
            "notes": list(self.notes),
            "version": sdp.__version__,
        }


def read_people(
    paths: list[str], categories: Any, given: InferenceOptions, written: list[Path | None]
) -> People:
    """Read everybody's category; nothing of it is released yet. Refuses files that will be written."""
    people, _ = read_column(
        paths,
        given,
        lambda column: sdp.tasks.Histogram.declare(vars(categories), column),
        written,
        [categories.categories_file],
    )
    return people


def read_column(
    paths: list[str],
    given: InferenceOptions,
    declare: Callable[[sdp.engine.Column], Any],
    written: list[Path | None],
    kept: Sequence[str | Path | None] = (),
) -> tuple[People, Any]:
    """Read everybody's value as the task takes it that `declare` makes for the column; returns both."""
    with meter() as report:
        column = given.open(paths)
        read = [file.path for file in column.files]
        keep_inputs(written, [*read, *kept])
        declared = declare(column)
        policy = sdp.OnInvalid.read(given.on_invalid, given.missing)
        domain = declared.task.domain
        coded = sdp.engine.read_codes(column, domain, policy, threads=given.threads, report=report)
    invalid, for_operator = sdp.questions.describe_invalid(policy, coded.invalid)
    exposed = [*declared.not_private]
    if column.where is not None and (taken := column.where.expose()) is not None:
        exposed.append(taken)
    if policy.drops:
        exposed.append(sdp.questions.LEFT_OUT)
    if given.seed is not None:
        exposed.insert(0, sdp.questions.SEEDED)
    if given.model == "none":
        exposed.insert(0, _UNPROTECTED)
    unit = () if given.model == "none" else (sdp.questions.UNITS[UNIT],)
    people = People(
        codes=coded.codes,
        domain=domain,
        column=column.name,
        rows=coded.rows,
        seed=given.seed,
        invalid=invalid,
        for_operator=for_operator,
        notes=(*unit, *declared.notes, *_check_delta(given, len(coded.codes))),
        not_private=tuple(exposed),
    )
    return people, declared.task


def _check_delta(given: InferenceOptions, n: int) -> tuple[str, ...]:
    if given.model != "shuffle" or not given.delta:
        return ()
    return sdp.planner.check_delta(given.delta, n, allow_large_delta=given.allow_large_delta)


def open_ledger(
    budget: BudgetOptions, given: InferenceOptions, categories: Any
) -> sdp.ledger.Spending | None:
    """Return the ledger that the answer is charged to, if there is one; refuse what no guarantee covers."""
    if budget.ledger is not None and given.model == "none":
        raise sdp.UnsupportedError(
            "the model 'none' promises nothing, so a ledger cannot charge it"
        )
    if budget.ledger is not None and sdp.OnInvalid.read(given.on_invalid, given.missing).drops:
        raise sdp.UnsupportedError(
            "on_invalid drop makes n the exact number of people with a valid value, and no epsilon covers that, so a "
            "ledger cannot charge it: let every value count (other, clamp)"
        )
    return budget.open(given.rng, from_data=categories.categories_from_data, where=given.filter)


def show_answer(
    people: People, text: str, record: dict[str, Any], *, as_json: bool, written: bool = False
) -> None:
    """Print an answer, for people or for programs; quietly, not what is written to a file."""
    if people.for_operator is not None:
        say(people.for_operator, err=True)
    for warning in people.not_private:
        say(f"NOT PRIVATE: {warning}.", err=True)
    if as_json:
        echo_json(record)
    elif not (written and is_quiet()):
        say_lines("\n".join([text, *(people.left_out if is_quiet() else people.remarks)]))
