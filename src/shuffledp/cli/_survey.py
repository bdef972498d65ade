"""What commands share that ask people: one question or a survey, and everybody's category for `learn` and `test`."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

import shuffledp as sdp
from shuffledp.cli._options import is_survey
from shuffledp.cli._progress import meter, pulse
from shuffledp.cli._terminal import (
    check_picture,
    check_result,
    echo_json,
    is_quiet,
    keep_inputs,
    say,
    say_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from shuffledp.cli._options import (
        BudgetOptions,
        GroupOptions,
        InferenceOptions,
        OutputOptions,
        PeopleOptions,
        PrivacyOptions,
        ReadingOptions,
        SenderOptions,
    )
    from shuffledp.engine import Report


def plan_survey(
    path: str,
    n: int | None,
    said: dict[str, Any],
    other: dict[str, Any],
    *,
    model: str | None,
    as_json: bool,
) -> None:
    """Print which protocols answer a survey, how well, and what each question costs.

    Refused are options that a survey file has `said`, and `other` ones that its plan has no use for.
    """
    _refuse(said)
    _refuse(other, "it does not apply to the plan of a survey")
    if n is None:
        raise sdp.ParameterError("n", n, "must be given: how many people take part")
    survey = sdp.Survey.load(path, model=model)
    with pulse("planning"):
        plan = survey.plan(n)
    if as_json:
        echo_json(plan.to_dict())
    else:
        say_lines(str(plan))


def read_questions(
    task: str,
    options: Any,
    privacy: PrivacyOptions | SenderOptions,
    grouping: GroupOptions,
    people: PeopleOptions,
    *,
    population: bool = False,
) -> sdp.Survey:
    """Return the survey of a file, or of the one question that the options ask."""
    if is_survey(task):
        _refuse({"by": grouping.by, "groups": grouping.groups, **vars(people), **vars(options)})
        own = ("epsilon", "delta", "column", "protocol", "max_messages", "honest", "missing")
        _refuse({name: getattr(privacy, name) for name in (*own, "bounds_share")})
        # These have defaults, so only another value tells that they were given.
        other = {"on_invalid": privacy.on_invalid != "error"}
        _refuse({**other, "population": population})
        _refuse({"allow_large_delta": privacy.allow_large_delta}, "it does not apply to a survey")
        given = None if privacy.model == "shuffle" else privacy.model.value
        return sdp.Survey.load(task, model=given)
    if privacy.epsilon is None:
        raise sdp.ParameterError("epsilon", None, "must be given, with --epsilon")
    declared, auto = sdp.questions.take_auto(vars(options), privacy.bounds_share)
    question = sdp.Question(
        name=privacy.column or task,
        task=task,
        column=privacy.column,
        options=declared,
        auto=auto,
        protocol=privacy.protocol,
        population=population,
        people=people.people,
        **grouping.given,
    )
    return sdp.Survey.of(
        question,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        honest=privacy.honest,
        model=privacy.model.value,
        max_messages=privacy.max_messages,
        allow_large_delta=privacy.allow_large_delta,
        on_invalid=privacy.on_invalid,
        missing=privacy.missing,
    )


@contextmanager
def prepare_files(
    survey: sdp.Survey,
    paths: list[str],
    privacy: ReadingOptions,
    budget: BudgetOptions,
    written: Sequence[Path | None],
    kept: Sequence[str | Path | None],
    **more: Any,
) -> Iterator[tuple[sdp.questions.Prepared, sdp.ledger.Spending | None, Report | None]]:
    """Prepare a survey of files, with its ledger and a progress bar; no input may be `written` over."""
    where, rng = privacy.filter, privacy.rng
    where = survey.read_filter(where, charged=budget.ledger is not None)
    spending = budget.open(rng, from_data=survey.from_data, where=where)
    with meter() as report:
        columns = survey.open(privacy.find(paths), where)
        read = [file.path for column in columns.values() for file in column.files]
        keep_inputs(written, [*read, budget.ledger, *kept])
        _ask_about_person(survey, columns)
        more |= {"rng": rng, "report": report, "charged": spending is not None}
        prepared = sdp.questions.prepare(survey, columns, **more)
        yield prepared, spending, report


def _ask_about_person(survey: sdp.Survey, columns: Mapping[str | None, sdp.engine.Column]) -> None:
    """Ask about a column whose name looks as if it said which person a row is about; values are not read."""
    if survey.people is not None or is_quiet():
        return
    names = dict.fromkeys(
        name for column in columns.values() for file in column.files for name in file.columns
    )
    likely = sdp.engine.looks_like_person([*names])
    if likely:
        typer.echo(
            f"Does {likely[0]!r} say which person a row is about? Each row is taken to be one person; if people "
            f"have several rows, add --person {_quote(likely[0])}.",
            err=True,
        )


def _quote(name: str) -> str:
    """Return a name of a column as a shell takes it, in an option that takes several with commas.

    >>> _quote("id"), _quote("user id"), _quote("last, first")
    ('id', "'user id'", '\\'"last, first"\\'')
    """
    return shlex.quote(f'"{name}"' if "," in name else name)


def show_sent(
    sent: sdp.engine.Randomized,
    out: Path,
    guarantee: sdp.Guarantee,
    record: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Show what was sent, for people or for programs, beside what the record says about it already."""
    for text in record["not_private"]:
        say(f"NOT PRIVATE: {text}.", err=True)
    if as_json:
        common = {"out": str(out), "n": sent.n, "messages": sent.messages}
        common |= {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
        echo_json({**record, **common, "guarantee": str(guarantee), "version": sdp.__version__})
        return
    left_out = sdp.questions.tell_dropped(record.get("invalid"), record.get("rows"), sent.n)
    if left_out is not None:
        say(left_out)
    if not is_quiet():
        asked = record.get("questions", ())
        about = f" to {len(asked)} question{'s' * (len(asked) != 1)}" if asked else ""
        typer.echo(f"{sent.messages:,} messages of {sent.n:,} people{about} are in {out}.")
        named = f"{record['protocol']}: " if "protocol" in record else ""
        for line in (f"{named}{guarantee}.", *record["notes"]):
            say(line)


def check_targets(output: OutputOptions, *, survey: bool) -> None:
    """Refuse results that could not be written, before anything is read or charged."""
    if survey and output.plot is not None and output.plot.suffix.lower() != ".html":
        raise sdp.UnsupportedError("a survey is drawn as a page: --plot must end in .html")
    if survey and output.out is not None and output.out.suffix.lower() != ".json":
        raise sdp.UnsupportedError("a survey is written as JSON: --out must end in .json")
    check_result(output.out)
    check_picture(output.plot, force=output.force, page=True)


def _refuse(given: dict[str, Any], why: str = "a survey file states it") -> None:
    """Refuse options that a survey states itself: what it asks, and how privately."""
    said = [name for name, value in given.items() if value is not None and value is not False]
    if said:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in said)
        raise sdp.UnsupportedError(f"{flags} is for one question: {why}")


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
        return {"task": task, "column": self.column, "protocol": protocol, "n": self.n}

    @property
    def record(self) -> dict[str, Any]:
        """The same, for programs."""
        return {
            "column": self.column,
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
    people = People(
        codes=coded.codes,
        domain=domain,
        column=column.name,
        rows=coded.rows,
        seed=given.seed,
        invalid=invalid,
        for_operator=for_operator,
        notes=(*declared.notes, *_check_delta(given, len(coded.codes))),
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
