"""`shuffledp run`: a question about a column of files, answered privately."""

from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._completion import complete_engine
from shuffledp.cli._options import (
    BudgetOptions,
    GroupOptions,
    OutputOptions,
    PathsArgument,
    PrivacyOptions,
    TaskArgument,
    TaskOptions,
    is_survey,
    spread,
)
from shuffledp.cli._progress import meter
from shuffledp.cli._survey import run_survey
from shuffledp.cli._terminal import (
    age_of_process,
    charge,
    check_picture,
    check_result,
    explain_errors,
    keep_inputs,
    print_answer,
    stage_outputs,
    tell_written,
    write_answer,
)
from shuffledp.engine import stages

__all__ = ["run"]

_ENGINES = "; ".join(f"{name}: {each.about}" for name, each in sdp.engine.ENGINES.items())


@spread
def run(
    task: TaskArgument,
    paths: PathsArgument,
    options: TaskOptions,
    privacy: PrivacyOptions,
    output: OutputOptions,
    budget: BudgetOptions,
    grouping: GroupOptions,
    engine: Annotated[
        str,
        typer.Option(
            help=f"{_ENGINES}.", rich_help_panel="Machine", autocompletion=complete_engine
        ),
    ] = "duckdb",
    master: Annotated[
        str | None,
        typer.Option(help="Where Spark runs, e.g. local[2].", rich_help_panel="Machine"),
    ] = None,
    timings: Annotated[
        bool,
        typer.Option(
            help="Report where the time went, on standard error.", rich_help_panel="Machine"
        ),
    ] = False,
) -> None:
    """Answer a question about a column of files, or all questions of a survey.

    $ shuffledp run count people.csv --column home --epsilon 1 --delta 1e-8
    """
    started = age_of_process()
    answer = run_survey if is_survey(task) else _run
    with stages.watch() as seconds, explain_errors():
        answer(task, paths, options, privacy, output, budget, engine, master, grouping)
    if timings:
        for name, spent in {stages.IMPORTS: started, **seconds}.items():
            typer.echo(f"{name:<22}{spent:8.3f} s", err=True)


def _run(
    task: str,
    paths: list[str],
    options: TaskOptions,
    privacy: PrivacyOptions,
    output: OutputOptions,
    budget: BudgetOptions,
    engine: str,
    master: str | None,
    grouping: GroupOptions,
) -> None:
    targets = [output.out, output.plot]
    request = privacy.request(
        task,
        options,
        engine,
        master=master,
        level=output.level,
        population=output.population,
        **grouping.given,
    )
    check_result(output.out)
    check_picture(output.plot, force=output.force, page=True)
    spending = budget.open(
        request.rng, from_data=options.categories_from_data, where=privacy.filter
    )
    with stage_outputs(targets, force=output.force) as outputs:
        with meter() as report:
            with stages.stage(stages.OPENING):
                column = privacy.open(paths)
                groups = grouping.open(paths, privacy)
            read = [*(file.path for file in column.files), budget.ledger]
            keep_inputs(targets, [*read, options.categories_file])
            prepared = request.prepare(column, grouping=groups, report=report)
            if spending is not None:
                spending.check(prepared.protocol.guarantee)
            answer = prepared.answer(report=report)
        if answer.for_operator is not None:
            typer.echo(answer.for_operator, err=True)
        # Everything is ready before the charge, and everything is shown after it: also if the
        # files cannot be put in their places.
        with stages.stage(stages.DISPLAY):
            write_answer(answer, outputs, out=output.out, plot=output.plot)
        note = {**prepared.note, "n": answer.n}
        with charge(spending, answer.guarantee, note, err=output.as_json):
            try:
                outputs.publish()
            finally:
                with stages.stage(stages.DISPLAY):
                    print_answer(answer, **output.shown)
    tell_written(targets, as_json=output.as_json)
