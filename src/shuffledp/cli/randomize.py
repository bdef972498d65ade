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
    PeopleOptions,
    SenderOptions,
    TaskOptions,
    is_survey,
    prepare_files,
    read_questions,
    spread,
    whole_number,
)
from shuffledp.cli._terminal import (
    echo_json,
    explain_errors,
    is_quiet,
    say,
    say_aside,
    stage_outputs,
)

_MESSAGES = (".parquet", ".arrow", ".feather", ".ipc")


@spread
def randomize(
    paths: PathsArgument,
    out: Annotated[
        Path, typer.Option(help="The messages: .parquet or .arrow.", rich_help_panel="Output")
    ],
    options: TaskOptions,
    privacy: SenderOptions,
    budget: BudgetOptions,
    grouping: GroupOptions,
    people: PeopleOptions,
    task: Annotated[
        str | None,
        typer.Option(help="The question; with categories: a histogram.", rich_help_panel="Data"),
    ] = None,
    n: Annotated[
        str | None,
        typer.Option(
            "--n",
            help="Make the protocol for this many people, so that tallies of several files can be added.",
            rich_help_panel="Privacy",
        ),
    ] = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    r"""Write the messages that everybody in a column would send, shuffled and without senders.

    The first file may be a survey: then the messages are about all of its questions.

    $ shuffledp randomize people.csv --column home --task count \
        --epsilon 1 --delta 1e-8 --out messages.parquet
    """
    with explain_errors():
        if out.suffix not in _MESSAGES:
            raise sdp.UnsupportedError(f"{out}: a file of messages ends in .parquet or .arrow")
        users = None if n is None else whole_number(n)
        asked, *others = paths
        if not is_survey(asked):
            asked, others = _choose_task(task, options), paths
        elif task is not None:
            raise sdp.UnsupportedError(
                "--task is for one question: a survey file states its own tasks"
            )
        elif not others:
            raise sdp.DataError(f"{asked} is a survey file: name the files of people, too")
        survey = read_questions(asked, options, privacy, grouping, people)
        engine = sdp.engine.find_engine("duckdb", threads=privacy.threads)
        more = {"engine": engine, "n": users, "sent": True}
        kept = [options.categories_file, asked]
        with stage_outputs([out], force=force) as outputs:
            opened = prepare_files(survey, others, privacy, budget, [out], kept, **more)
            with opened as (prepared, spending, report):
                guarantee, entry = prepared.in_force.guarantee, None
                if spending is not None:
                    # Messages reach the disk while they are made, so the charge comes first.
                    entry = spending.charge(guarantee, {**prepared.note, "out": out.name})
                sent = prepared.randomize(outputs[out], report=report)
                record, for_operator = prepared.describe_sent(sent)
                if for_operator is not None:
                    say_aside(for_operator)
                outputs.publish()
                if spending is not None and entry is not None:
                    record["notes"].append(spending.mark_released(entry))
        _show_sent(sent, out, guarantee, record, as_json=as_json)


def _choose_task(task: str | None, options: Any) -> str:
    if task is not None:
        return task
    if options.categories or options.categories_file or options.categories_from_data:
        return "histogram"
    raise sdp.UnsupportedError(
        f"name the question that the messages answer: --task {', '.join(TASK_NAMES)}"
    )


def _show_sent(
    sent: "sdp.engine.Randomized",
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
