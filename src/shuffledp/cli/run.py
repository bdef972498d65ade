"""`shuffledp run`: a question about a column of files, answered privately."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._completion import complete_engine
from shuffledp.cli._options import (
    BudgetOptions,
    GroupOptions,
    OutputOptions,
    PathsArgument,
    PeopleOptions,
    PrivacyOptions,
    TaskArgument,
    TaskOptions,
    check_targets,
    prepare_files,
    read_questions,
    spread,
)
from shuffledp.cli._terminal import (
    age_of_process,
    explain_errors,
    print_answer,
    say_aside,
    stage_outputs,
    tell,
    tell_written,
    write_answer,
)
from shuffledp.engine import DISPLAY, IMPORTS, timed, watch

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
    people: PeopleOptions,
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
    watched: AbstractContextManager[dict[str, float]] = watch() if timings else nullcontext({})
    with watched as seconds, explain_errors():
        survey = read_questions(
            task, options, privacy, grouping, people, population=output.population
        )
        chosen = sdp.engine.find_engine(engine, threads=privacy.threads, master=master)
        _run(survey, paths, privacy, output, budget, chosen, [options.categories_file, task])
    if timings:
        for name, spent in {IMPORTS: started, **seconds}.items():
            typer.echo(f"{name:<22}{spent:8.3f} s", err=True)


def _run(
    survey: sdp.Survey,
    paths: list[str],
    privacy: PrivacyOptions,
    output: OutputOptions,
    budget: BudgetOptions,
    engine: sdp.engine.Engine,
    kept: list[str | Path | None],
) -> None:
    check_targets(output, survey=not survey.alone)
    targets = [output.out, output.plot]
    more = {"engine": engine, "read_early": True}
    with stage_outputs(targets, force=output.force) as outputs:
        opened = prepare_files(survey, paths, privacy, budget, targets, kept, **more)
        with opened as (prepared, spending, report):
            answer = prepared.answer(level=output.level, report=report, spending=spending)
        if answer.for_operator is not None:
            say_aside(answer.for_operator)
        # Everything is ready before the charge, and everything is shown after it: also if the
        # files cannot be put in their places.
        with timed(DISPLAY):
            write_answer(answer, outputs, out=output.out, plot=output.plot)
        with prepared.release(spending, answer, partial(tell, err=output.as_json)):
            try:
                outputs.publish()
            finally:
                with timed(DISPLAY):
                    print_answer(answer, **output.shown)
    tell_written(targets, as_json=output.as_json)
