"""`shuffledp survey`: write a survey file, or check one."""

from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._options import ForceOption, whole_number
from shuffledp.cli._terminal import explain_errors, tell

__all__ = ["app"]

app = typer.Typer(
    help="Write a survey file by answering a few questions, or check one.",
    no_args_is_help=True,
    add_completion=False,
)
_FileArgument = Annotated[Path, typer.Argument(help="The survey file, such as survey.toml.")]
_TASKS = ("count", "histogram", "mean", "sum", "quantiles", "bins")


@app.command()
def check(
    path: _FileArgument,
    n: Annotated[str | None, typer.Option("--n", help="Also plan it for n people.")] = None,
) -> None:
    """Read a survey file and say whether it is fine; errors name the line.

    $ shuffledp survey check survey.toml --n 1e6
    """
    with explain_errors():
        survey = sdp.Survey.load(path)
        if n is not None:
            typer.echo(str(survey.plan(whole_number(n))))
        else:
            survey.tasks({}, 10**6)
        count = len(survey.questions)
        tell(f"{path} is fine: {count} question{'s' * (count != 1)}.")


@app.command()
def new(path: _FileArgument, force: ForceOption = False) -> None:
    """Ask a few questions and write a survey file.

    $ shuffledp survey new survey.toml
    """
    with explain_errors():
        if path.exists() and not force:
            raise sdp.DataError(f"{path} exists already: choose another name, or say --force")
        lines = [
            f"epsilon = {typer.prompt('epsilon of the promise', default=1.0, type=float)}",
            f"delta = {typer.prompt('delta, far below one in the number of people', default=1e-8, type=float)}",
        ]
        while True:
            lines += _ask_question()
            if not typer.confirm("Another question?", default=False):
                break
        text = "\n".join(lines) + "\n"
        survey = sdp.Survey.loads(text, str(path))
        path.write_text(text, encoding="utf-8")
        tell(f"Written: {path}, {len(survey.questions)} questions.")


def _ask_question() -> list[str]:
    column = typer.prompt("Column")
    name = typer.prompt("Name of the question", default=column)
    task = typer.prompt(f"Task ({', '.join(_TASKS)})", default="histogram")
    lines = ["", f"[questions.{_quote(name)}]", f'task = "{task}"', f"column = {_quote(column)}"]
    if task == "histogram":
        listed = typer.prompt("Categories, publicly known, with commas between them")
        names = ", ".join(_quote(each.strip()) for each in listed.split(","))
        lines.append(f"categories = [{names}]")
    if task in ("mean", "sum", "quantiles"):
        lines.append(f"lower = {typer.prompt('Smallest value, publicly known')}")
        lines.append(f"upper = {typer.prompt('Largest value, publicly known')}")
    if task == "quantiles":
        lines.append(f"at = [{typer.prompt('Which quantiles', default='0.25, 0.5, 0.75')}]")
    if task == "bins":
        lines.append(f"edges = [{typer.prompt('Edges of the bins, with commas between them')}]")
    return lines


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
