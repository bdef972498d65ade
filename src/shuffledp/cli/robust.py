"""`shuffledp robust`: an answer that a few liars cannot ruin, the median of random groups."""

from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._options import (
    BudgetOptions,
    ColumnOptions,
    JsonOption,
    PathsArgument,
    list_declared,
    make_options,
    spread,
)
from shuffledp.cli._people import InferenceOptions, People, open_ledger, read_column, show_answer
from shuffledp.cli._terminal import charge, explain_errors
from shuffledp.core.protocol import HONEST

ROBUST_TASKS = ("count", "histogram", "sum", "mean")
RobustOptions: Any = make_options("RobustOptions", list_declared(ROBUST_TASKS))
"""What the questions ask for that `robust` answers."""


@spread
def robust(
    task: Annotated[
        str, typer.Argument(help=f"The question: {', '.join(ROBUST_TASKS)}.", show_default=False)
    ],
    paths: PathsArgument,
    options: RobustOptions,
    asked: ColumnOptions,
    budget: BudgetOptions,
    groups: Annotated[
        int,
        typer.Option(
            help="How many random groups; fewer liars than half of the groups do no harm.",
            rich_help_panel="Data",
        ),
    ] = 9,
    as_json: JsonOption = False,
) -> None:
    r"""Answer a question so that a few liars cannot ruin it: the median of random groups.

    It has no interval, and its error is larger than that of `run`: use it where people may lie.

    $ shuffledp robust count people.csv --column home --groups 5 \
        --epsilon 1 --delta 1e-6
    """
    with explain_errors():
        if task not in ROBUST_TASKS:
            raise sdp.ParameterError("task", task, f"must be one of {', '.join(ROBUST_TASKS)}")
        given = InferenceOptions(**vars(asked))  # in the shuffle model: every group has a shuffler
        if given.epsilon is None:
            raise sdp.ParameterError("epsilon", None, "must be given")
        if given.delta is None:
            raise sdp.ParameterError("delta", None, "must be given")
        spending = open_ledger(budget, given, options)
        declare = sdp.tasks.TASKS[task].declare
        people, question = read_column(
            paths,
            given,
            lambda column: declare(vars(options), column),
            [budget.ledger],
            [options.categories_file],
        )
        median = sdp.inference.ask_groups(
            question,
            _read_values(people),
            groups=groups,
            epsilon=given.epsilon,
            delta=given.delta,
            honest=HONEST if given.honest is None else given.honest,
            rng=given.rng,
        )
        record = {"task": task, **_make_record(median, people), **people.record}
        note = people.note(f"robust {task}", "median_of_groups")
        with charge(spending, median.guarantee, note, err=as_json):
            show_answer(people, _describe(median, people), record, as_json=as_json)


def _read_values(people: People) -> Any:
    """Read values: codes of bits and categories, and numbers."""
    if isinstance(people.domain, sdp.Integers):
        return people.codes + people.domain.lower
    return (
        people.domain.locate(people.codes) if isinstance(people.domain, sdp.Reals) else people.codes
    )


def _list_values(median: sdp.inference.MedianOfGroups, people: People) -> list[tuple[str, float]]:
    values = [median.value] if isinstance(median.value, float) else median.value.tolist()
    labels = people.domain.labels if isinstance(people.domain, sdp.Categories) else ("answer",)
    return list(zip(labels, values, strict=True))


def _make_record(median: sdp.inference.MedianOfGroups, people: People) -> dict[str, Any]:
    return {
        "estimate": [
            {"label": label, "value": value} for label, value in _list_values(median, people)
        ],
        "groups": median.groups,
        "tolerates": median.tolerates,
        "n": people.n,
        "epsilon": median.guarantee.epsilon,
        "delta": median.guarantee.delta,
        "model": median.guarantee.model.value,
        "guarantee": str(median.guarantee),
    }


def _describe(median: sdp.inference.MedianOfGroups, people: People) -> str:
    lines = [f"{label}: {value:,.6g}" for label, value in _list_values(median, people)]
    liars = "one liar" if median.tolerates == 1 else f"up to {median.tolerates} liars"
    many = "1 group" if median.groups == 1 else f"{median.groups} random groups"
    lines.append(
        f"The median of {many}: {liars} cannot move it outside the range of the honest groups."
        if median.tolerates
        else f"The median of {many}: it withstands no liar. With 3 groups it would withstand one."
    )
    return "\n".join([*lines, f"{people.n:,} people; {median.guarantee}"])
