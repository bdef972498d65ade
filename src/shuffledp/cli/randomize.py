"""`shuffledp randomize`: what everybody's device would send, shuffled, as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._columns import Asked, Model, OnInvalidName, prepare
from shuffledp.cli._failures import explained
from shuffledp.cli._options import (
    TASK_NAMES,
    CategoriesFileOption,
    CategoriesFromDataOption,
    CategoriesOption,
    ColumnOption,
    DeltaOption,
    EpsilonOption,
    ForceOption,
    HonestOption,
    JsonOption,
    LowerOption,
    MaxMessagesOption,
    ModelOption,
    OnInvalidOption,
    PathsArgument,
    ProtocolOption,
    QuietOption,
    SeedOption,
    StepsOption,
    ThreadsOption,
    UpperOption,
)
from shuffledp.cli._output import keep_inputs, staged
from shuffledp.cli._population import users
from shuffledp.cli._progress import meter
from shuffledp.cli._results import SEEDED, for_the_operator, publishable
from shuffledp.cli._spending import (
    BudgetDeltaOption,
    BudgetEpsilonOption,
    BudgetReserveOption,
    DatasetOption,
    LedgerOption,
    Spending,
)
from shuffledp.cli._text import say

__all__ = ["randomize"]

_MESSAGES = (".parquet", ".arrow", ".feather", ".ipc")


def randomize(
    paths: PathsArgument,
    epsilon: EpsilonOption,
    out: Annotated[
        Path, typer.Option(help="The messages: .parquet or .arrow.", rich_help_panel="Output")
    ],
    task: Annotated[
        str | None,
        typer.Option(help="The question; with categories: a histogram.", rich_help_panel="Data"),
    ] = None,
    delta: DeltaOption = None,
    column: ColumnOption = None,
    categories: CategoriesOption = None,
    categories_file: CategoriesFileOption = None,
    categories_from_data: CategoriesFromDataOption = False,
    lower: LowerOption = None,
    upper: UpperOption = None,
    steps: StepsOption = None,
    on_invalid: OnInvalidOption = OnInvalidName.ERROR,
    model: ModelOption = Model.SHUFFLE,
    protocol: ProtocolOption = None,
    max_messages: MaxMessagesOption = None,
    honest: HonestOption = None,
    n: Annotated[
        str | None,
        typer.Option(
            "--n",
            help="Make the protocol for so many people, so that tallies of several files add.",
            rich_help_panel="Privacy",
        ),
    ] = None,
    threads: ThreadsOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    ledger: LedgerOption = None,
    budget_epsilon: BudgetEpsilonOption = None,
    budget_delta: BudgetDeltaOption = None,
    budget_reserve: BudgetReserveOption = 0.0,
    dataset: DatasetOption = None,
) -> None:
    """Write the messages of everybody in a column: shuffled, and without their senders."""
    from shuffledp.engine.messages import randomize_file

    with explained():
        if out.suffix not in _MESSAGES:
            raise sdp.UnsupportedError(f"{out}: a file of messages ends in .parquet or .arrow")
        declared = categories or categories_file or categories_from_data
        question = _question(task, bool(declared))
        asked = Asked(
            task=question,
            paths=paths,
            column=column,
            epsilon=epsilon,
            delta=delta,
            categories=categories,
            categories_file=categories_file,
            categories_from_data=categories_from_data,
            lower=lower,
            upper=upper,
            steps=steps,
            on_invalid=on_invalid,
            engine="duckdb",
            master=None,
            protocol=protocol,
            model=model,
            max_messages=max_messages,
            honest=honest,
            n=None if n is None else users(n),
            threads=threads,
        )
        spending = Spending.of(
            ledger,
            epsilon=budget_epsilon,
            delta=budget_delta,
            reserve=budget_reserve,
            dataset=dataset,
            seed=seed,
            categories_from_data=categories_from_data,
        )
        with staged([out], force=force) as outputs, meter(quiet=quiet) as report:
            prepared = prepare(asked, report)
            read = [*(file.path for file in prepared.column.files), ledger, categories_file]
            keep_inputs([out], read)
            chosen = prepared.protocol
            entry = None
            if spending is not None:
                # Messages reach the disk while they are made, so the charge comes first.
                note = {"task": question, "column": prepared.column.name, "out": out.name}
                entry = spending.charge(chosen.guarantee, {**note, "protocol": chosen.name})
            sent = randomize_file(
                chosen,
                prepared.column,
                outputs[out],
                domain=_named_bins(prepared.domain),
                on_invalid=on_invalid.value,
                rng=None if seed is None else sdp.SeededWords(seed),
                threads=threads,
                report=report,
                found=prepared.found,
            )
            remark = for_the_operator(sent.invalid, on_invalid.value)
            if remark is not None:
                say(remark, err=True)
            outputs.publish()
            spent = spending.released(entry) if spending is not None and entry is not None else None
        _tell(
            {
                "task": question,
                "protocol": chosen.name,
                "parameters": dict(chosen.parameters),
                "out": str(out),
                "n": sent.n,
                "rows": sent.rows,
                "messages": sent.messages,
                "invalid": publishable(sent.invalid, on_invalid.value),
                "epsilon": chosen.guarantee.epsilon,
                "delta": chosen.guarantee.delta,
                "guarantee": str(chosen.guarantee),
                "not_private": [*prepared.not_private, *([SEEDED] if seed is not None else [])],
                "notes": [*prepared.notes, *([spent] if spent else [])],
                "version": sdp.__version__,
            },
            as_json=as_json,
        )


def _question(task: str | None, categories: bool) -> str:
    if task is not None:
        return task
    if categories:
        return "histogram"
    raise sdp.UnsupportedError(f"say what the messages are for: --task {', '.join(TASK_NAMES)}")


def _named_bins(domain: object) -> sdp.Categories | None:
    """The bins by name: messages carry the names of categories, not the ends of a range."""
    if isinstance(domain, sdp.Integers):
        return sdp.Categories(k=domain.size, names=domain.labels)
    assert domain is None or isinstance(domain, sdp.Categories)
    return domain


def _tell(record: dict[str, object], *, as_json: bool) -> None:
    not_private = record["not_private"]
    assert isinstance(not_private, list)
    for text in not_private:
        say(f"NOT PRIVATE: {text}.", err=True)
    if as_json:
        typer.echo(json.dumps(record, allow_nan=False, ensure_ascii=False))
        return
    typer.echo(f"{record['messages']:,} messages of {record['n']:,} people are in {record['out']}.")
    say(f"{record['protocol']}: {record['guarantee']}.")
    notes = record["notes"]
    assert isinstance(notes, list)
    for note in notes:
        say(note)
