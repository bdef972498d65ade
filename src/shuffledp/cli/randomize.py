"""`shuffledp randomize`: what everybody's device would send, shuffled, as a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._options import (
    TASK_NAMES,
    BudgetOptions,
    ForceOption,
    GroupOptions,
    JsonOption,
    PathsArgument,
    PrivacyOptions,
    TaskOptions,
    is_survey,
    spread,
    whole_number,
)
from shuffledp.cli._progress import meter
from shuffledp.cli._survey import randomize_survey, show_sent
from shuffledp.cli._terminal import (
    explain_errors,
    keep_inputs,
    stage_outputs,
)

__all__ = ["randomize"]

_MESSAGES = (".parquet", ".arrow", ".feather", ".ipc")


@spread
def randomize(
    paths: PathsArgument,
    out: Annotated[
        Path, typer.Option(help="The messages: .parquet or .arrow.", rich_help_panel="Output")
    ],
    options: TaskOptions,
    privacy: PrivacyOptions,
    budget: BudgetOptions,
    grouping: GroupOptions,
    task: Annotated[
        str | None,
        typer.Option(help="The question; with categories: a histogram.", rich_help_panel="Data"),
    ] = None,
    n: Annotated[
        str | None,
        typer.Option(
            "--n",
            help="Make the protocol for this many people, so that tallies of several files add.",
            rich_help_panel="Privacy",
        ),
    ] = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    r"""Write the messages of everybody in a column: shuffled, and without their senders.

    The first file may be a survey: then the messages are about all of its questions.

    $ shuffledp randomize people.csv --column home --task count \
        --epsilon 1 --delta 1e-8 --out messages.parquet
    """
    with explain_errors():
        if out.suffix not in _MESSAGES:
            raise sdp.UnsupportedError(f"{out}: a file of messages ends in .parquet or .arrow")
        users = None if n is None else whole_number(n)
        if is_survey(paths[0]):
            said = {"task": task, "by": grouping.by, "groups": grouping.groups}
            shown = {"as_json": as_json, "force": force}
            randomize_survey(paths, out, options, privacy, budget, users, said, **shown)
            return
        question = _choose_task(task, options)
        request = privacy.request(question, options, "duckdb", n=users, **grouping.given)
        spending = budget.open(
            request.rng, from_data=options.categories_from_data, where=privacy.filter
        )
        with stage_outputs([out], force=force) as outputs, meter() as report:
            column = privacy.open(paths)
            read = [*(file.path for file in column.files), budget.ledger]
            keep_inputs([out], [*read, options.categories_file])
            groups = grouping.open(paths, privacy)
            prepared = request.prepare(column, grouping=groups, report=report, sent=True)
            made, entry = prepared.protocol, None
            if isinstance(made, sdp.ShuffleProtocol):  # whatever number it was made for
                made = made.with_people(prepared.found.n)
            guarantee = made.guarantee
            if spending is not None:
                # Messages reach the disk while they are made, so the charge comes first.
                entry = spending.charge(guarantee, {**prepared.note, "out": out.name})
            sent = prepared.randomize(outputs[out], report=report)
            invalid, for_operator = prepared.describe_invalid(sent.invalid)
            if for_operator is not None:
                typer.echo(for_operator, err=True)
            outputs.publish()
            spent = [] if spending is None or entry is None else [spending.mark_released(entry)]
    record = {
        "task": question,
        "protocol": prepared.protocol.name,
        "parameters": dict(prepared.protocol.parameters),
        "rows": sent.rows,
        "invalid": invalid,
        "not_private": list(prepared.not_private),
        "notes": [*prepared.notes, *spent],
    }
    show_sent(sent, out, guarantee, record, as_json=as_json)


def _choose_task(task: str | None, options: Any) -> str:
    if task is not None:
        return task
    if options.categories or options.categories_file or options.categories_from_data:
        return "histogram"
    raise sdp.UnsupportedError(f"say what the messages are for: --task {', '.join(TASK_NAMES)}")
