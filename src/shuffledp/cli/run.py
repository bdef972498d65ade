"""`shuffledp run`: a question about a column of files, answered privately."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._columns import Asked, Model, OnInvalidName, Prepared, prepare
from shuffledp.cli._failures import explained
from shuffledp.cli._options import (
    CategoriesFileOption,
    CategoriesFromDataOption,
    CategoriesOption,
    ColumnOption,
    DeltaOption,
    EpsilonOption,
    ExplainOption,
    ForceOption,
    HonestOption,
    JsonOption,
    LevelOption,
    LowerOption,
    MaxMessagesOption,
    ModelOption,
    OnInvalidOption,
    PathsArgument,
    PlotOption,
    ProtocolOption,
    QuietOption,
    SeedOption,
    StepsOption,
    TaskArgument,
    ThreadsOption,
    UpperOption,
)
from shuffledp.cli._output import Staged, check_picture, keep_inputs, staged
from shuffledp.cli._progress import meter
from shuffledp.cli._results import SIMULATED, Result, for_the_operator, publishable
from shuffledp.cli._spending import (
    BudgetDeltaOption,
    BudgetEpsilonOption,
    BudgetReserveOption,
    DatasetOption,
    LedgerOption,
    Spending,
)
from shuffledp.cli._text import say

if TYPE_CHECKING:
    from shuffledp.engine.job import Report

__all__ = ["run"]


def run(
    task: TaskArgument,
    paths: PathsArgument,
    epsilon: EpsilonOption,
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
    engine: Annotated[
        str,
        typer.Option(
            help="duckdb, memory or spark; counts simulates, and is NOT private.",
            rich_help_panel="Machine",
        ),
    ] = "duckdb",
    master: Annotated[
        str | None,
        typer.Option(help="Where Spark runs, e.g. local[2].", rich_help_panel="Machine"),
    ] = None,
    threads: ThreadsOption = None,
    seed: SeedOption = None,
    level: LevelOption = 0.95,
    as_json: JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the JSON result to this file.", rich_help_panel="Output"),
    ] = None,
    plot: PlotOption = None,
    explain: ExplainOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    ledger: LedgerOption = None,
    budget_epsilon: BudgetEpsilonOption = None,
    budget_delta: BudgetDeltaOption = None,
    budget_reserve: BudgetReserveOption = 0.0,
    dataset: DatasetOption = None,
) -> None:
    """Answer a question about a column of files: a count, a sum, a mean or a histogram."""
    with explained():
        asked = Asked(
            task=task,
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
            engine=engine,
            master=master,
            protocol=protocol,
            model=model,
            max_messages=max_messages,
            honest=honest,
            n=None,
            threads=threads,
        )
        sdp.core.validate.level(level)
        check_picture(plot)
        _check_charged(ledger, engine)
        spending = Spending.of(
            ledger,
            epsilon=budget_epsilon,
            delta=budget_delta,
            reserve=budget_reserve,
            dataset=dataset,
            seed=seed,
            categories_from_data=categories_from_data,
        )
        with staged([out, plot], force=force) as outputs:
            with meter(quiet=quiet) as report:
                prepared = prepare(asked, report)
                read = [*(file.path for file in prepared.column.files), ledger, categories_file]
                keep_inputs([out, plot], read)
                if spending is not None:
                    spending.check(prepared.protocol.guarantee)
                result = _answer(asked, prepared, seed, level, report)
            _release(result, outputs, (out, plot), spending, as_json=as_json, explain=explain)
    if not as_json and not quiet:
        for path in (out, plot):
            if path is not None:
                typer.echo(f"Written: {path}")


def _check_charged(ledger: Path | None, engine: str) -> None:
    if ledger is not None and not sdp.engine.find_engine(engine).private:
        raise sdp.UnsupportedError(
            f"--engine {engine} simulates the protocol and has no proof of privacy, so a ledger "
            "cannot charge it: leave out --ledger, or choose another engine"
        )


def _answer(
    asked: Asked, prepared: Prepared, seed: int | None, level: float, report: Report | None
) -> Result:
    from shuffledp.engine.files import run_file

    found = run_file(
        prepared.protocol,
        prepared.column,
        domain=prepared.domain,
        on_invalid=asked.on_invalid.value,
        engine=prepared.engine,
        rng=None if seed is None else sdp.SeededWords(seed),
        report=report,
        found=prepared.found,
    )
    remark = for_the_operator(found.invalid, asked.on_invalid.value)
    if remark is not None:
        say(remark, err=True)
    return Result(
        protocol=prepared.protocol,
        estimate=found.estimate,
        n=found.n,
        level=level,
        column=prepared.column.name,
        engine=found.engine,
        files=[file.path for file in prepared.column.files],
        rows=found.rows,
        invalid=publishable(found.invalid, asked.on_invalid.value),
        on_invalid=asked.on_invalid.value,
        seed=seed,
        notes=prepared.notes,
        not_private=[*([] if prepared.engine.private else [SIMULATED]), *prepared.not_private],
    )


def _release(
    result: Result,
    outputs: Staged,
    targets: tuple[Path | None, Path | None],
    spending: Spending | None,
    *,
    as_json: bool,
    explain: bool,
) -> None:
    """Everything is ready before the charge; everything is shown after it.

    What was charged is also shown if its files cannot be put in their places.
    """
    out, plot = targets
    if out is not None:
        outputs[out].write_text(result.text() + "\n", encoding="utf-8")
    if plot is not None:
        result.draw(outputs[plot])
    entry = None
    if spending is not None:
        note = {
            "task": result.task,
            "column": result.column,
            "protocol": result.protocol.name,
            "n": result.n,
        }
        entry = spending.charge(result.protocol.guarantee, note)
    try:
        outputs.publish()
    finally:
        result.print(as_json=as_json, explain=explain)
        if spending is not None and entry is not None:
            typer.echo(spending.released(entry), err=as_json)
