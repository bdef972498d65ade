"""`shuffledp run`: a question about a column of files, answered privately."""

from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._completion import complete_engine
from shuffledp.cli._options import (
    BudgetOptions,
    OutputOptions,
    PathsArgument,
    PrivacyOptions,
    TaskArgument,
    TaskOptions,
    spread,
)
from shuffledp.cli._survey import is_survey, run_survey
from shuffledp.cli._terminal import (
    age_of_process,
    check_picture,
    check_result,
    explain_errors,
    keep_inputs,
    meter,
    print_answer,
    stage_outputs,
    tell,
    write_answer,
)
from shuffledp.engine import stages

__all__ = ["run"]

GROUPS = sdp.tasks.Option(name="groups", kind=tuple, help="The public groups.")
_ENGINES = "; ".join(f"{name}: {each.about}" for name, each in sdp.engine.ENGINES.items())


@spread
def run(
    task: TaskArgument,
    paths: PathsArgument,
    options: TaskOptions,
    privacy: PrivacyOptions,
    output: OutputOptions,
    budget: BudgetOptions,
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
    by: Annotated[
        str | None,
        typer.Option(
            help="The column of groups: answer for each of them.",
            rich_help_panel="Data",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="The public groups, comma-separated; needs --by.",
            rich_help_panel="Data",
        ),
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
    with stages.watch() as seconds:
        if is_survey(task):
            _run_survey(task, paths, options, privacy, output, budget, engine, master, by, groups)
        else:
            _run(task, paths, options, privacy, output, budget, engine, master, by, groups)
    if timings:
        for name, spent in {stages.IMPORTS: started, **seconds}.items():
            typer.echo(f"{name:<22}{spent:8.3f} s", err=True)


def _run_survey(*given: Any) -> None:
    *rest, by, groups = given
    with explain_errors():
        for name, value in (("by", by), ("groups", groups)):
            if value is not None:
                raise sdp.ParameterError(
                    name, value, "is for one question: a survey says it itself"
                )
        run_survey(*rest)


def _run(
    task: str,
    paths: list[str],
    options: TaskOptions,
    privacy: PrivacyOptions,
    output: OutputOptions,
    budget: BudgetOptions,
    engine: str,
    master: str | None,
    by: str | None,
    groups: str | None,
) -> None:
    targets = [output.out, output.plot]
    with explain_errors():
        grouped = {"by": by, "groups": None if groups is None else GROUPS.read(groups)}
        request = privacy.request(
            task, options, engine, master=master, level=output.level, **grouped
        )
        check_result(output.out)
        check_picture(output.plot, force=output.force, page=True)
        spending = budget.open(request)
        with stage_outputs(targets, force=output.force) as outputs:
            with meter() as report:
                with stages.stage(stages.OPENING):
                    column = sdp.open_column(paths, privacy.column, where=privacy.where)
                    grouping = (
                        None if by is None else sdp.open_column(paths, by, where=privacy.where)
                    )
                read = [*(file.path for file in column.files), budget.ledger]
                keep_inputs(targets, [*read, options.categories_file])
                prepared = request.prepare(column, grouping=grouping, report=report)
                if spending is not None:
                    spending.check(prepared.protocol.guarantee)
                answer = prepared.answer(report=report)
            if answer.for_operator is not None:
                tell(answer.for_operator, err=True)
            # Everything is ready before the charge, and everything is shown after it: also if the
            # files cannot be put in their places.
            with stages.stage(stages.DISPLAY):
                write_answer(answer, outputs, out=output.out, plot=output.plot)
            entry = None
            if spending is not None:
                note = {**prepared.note, "n": answer.n}
                entry = spending.charge(answer.guarantee, note)
            try:
                outputs.publish()
            finally:
                try:
                    with stages.stage(stages.DISPLAY):
                        print_answer(answer, **output.shown)
                finally:
                    if spending is not None and entry is not None:
                        tell(spending.mark_released(entry), err=output.as_json)
    if not output.as_json:
        for path in targets:
            if path is not None:
                tell(f"Written: {path}")
