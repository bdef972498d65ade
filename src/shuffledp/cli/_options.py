"""The options that several commands on data have in common."""

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli._columns import Model, OnInvalidName
from shuffledp.tasks import TASKS

__all__ = [
    "TASK_NAMES",
    "CategoriesFileOption",
    "CategoriesFromDataOption",
    "CategoriesOption",
    "ColumnOption",
    "DeltaOption",
    "EpsilonOption",
    "ExplainOption",
    "ForceOption",
    "HonestOption",
    "JsonOption",
    "LevelOption",
    "LowerOption",
    "MaxMessagesOption",
    "ModelOption",
    "OnInvalidOption",
    "PathsArgument",
    "PlotOption",
    "ProtocolOption",
    "QuietOption",
    "SeedOption",
    "StepsOption",
    "TaskArgument",
    "ThreadsOption",
    "UpperOption",
]

_DATA, _PRIVACY, _MACHINE, _OUTPUT = "Data", "Privacy", "Machine", "Output"

TASK_NAMES = [name for name, task in TASKS.items() if task.elsewhere is None]
TaskArgument = Annotated[
    str, typer.Argument(help=f"The question: {', '.join(TASK_NAMES)}.", show_default=False)
]
PathsArgument = Annotated[
    list[str], typer.Argument(help="CSV, Parquet, Arrow or JSON lines; patterns like 'data/*.csv'.")
]
ColumnOption = Annotated[
    str | None,
    typer.Option(help="Which column; may be left out if there is one.", rich_help_panel=_DATA),
]
CategoriesOption = Annotated[
    str | None, typer.Option(help="The public categories: a,b,c.", rich_help_panel=_DATA)
]
CategoriesFileOption = Annotated[
    Path | None,
    typer.Option(help="The public categories, one a line.", rich_help_panel=_DATA),
]
CategoriesFromDataOption = Annotated[
    bool,
    typer.Option(
        "--categories-from-data",
        help="Read the categories from the data: NOT private, and the result says so.",
        rich_help_panel=_DATA,
    ),
]
LowerOption = Annotated[
    float | None, typer.Option(help="The smallest value, publicly known.", rich_help_panel=_DATA)
]
UpperOption = Annotated[
    float | None, typer.Option(help="The largest value, publicly known.", rich_help_panel=_DATA)
]
StepsOption = Annotated[
    int | None, typer.Option(help="Steps of the grid for real numbers.", rich_help_panel=_DATA)
]
OnInvalidOption = Annotated[
    OnInvalidName,
    typer.Option(help="What becomes of nulls and values outside.", rich_help_panel=_DATA),
]
EpsilonOption = Annotated[
    float, typer.Option(help="The epsilon of the promise, above 0.", rich_help_panel=_PRIVACY)
]
DeltaOption = Annotated[
    float | None,
    typer.Option(
        help="The delta of the promise, far below 1/n; not in the local model.",
        rich_help_panel=_PRIVACY,
    ),
]
ModelOption = Annotated[
    Model, typer.Option(help="Trust a shuffler, or nobody.", rich_help_panel=_PRIVACY)
]
ProtocolOption = Annotated[
    str | None,
    typer.Option(help="This protocol by name, not the best.", rich_help_panel=_PRIVACY),
]
MaxMessagesOption = Annotated[
    float | None,
    typer.Option(help="Most messages a person may send, on average.", rich_help_panel=_PRIVACY),
]
HonestOption = Annotated[
    float | None,
    typer.Option(
        help="The share of people whose noise is counted on; 0.9 if not given.",
        rich_help_panel=_PRIVACY,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        help="Make the noise reproducible, and so no protection. Default: secure.",
        rich_help_panel=_PRIVACY,
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option(help="How many threads; default: all.", rich_help_panel=_MACHINE)
]
LevelOption = Annotated[
    float, typer.Option(help="How sure the intervals are.", rich_help_panel=_OUTPUT)
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object, nothing else.", rich_help_panel=_OUTPUT),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(help="Draw the result: .png, .svg, .pdf or .html.", rich_help_panel=_OUTPUT),
]
ExplainOption = Annotated[
    bool,
    typer.Option(
        "--explain", help="Say in plain words what was promised to whom.", rich_help_panel=_OUTPUT
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace outputs that exist.", rich_help_panel=_OUTPUT)
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="No progress bar, no remarks.", rich_help_panel=_OUTPUT)
]
