"""`shuffledp survey`: write a survey file, or check one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._options import TASK_NAMES, ForceOption, whole_number
from shuffledp.cli._terminal import explain_errors, say, say_lines, tell

app = typer.Typer(
    help="Write a survey file by answering a few questions, or check one; `shuffledp run survey.toml` runs it.",
    no_args_is_help=True,
    add_completion=False,
)
_FileArgument = Annotated[Path, typer.Argument(help="The survey file, such as survey.toml.")]
_LEFT_OUT = ("categories_file", "categories_from_data")


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
            say_lines(str(survey.plan(whole_number(n))))
        else:
            survey.tasks({}, 10**6)
        count = len(survey.questions)
        tell(f"{path} is fine: {count} question{'s' * (count != 1)}.")


@app.command()
def new(path: _FileArgument, force: ForceOption = False) -> None:
    """Ask a few questions and write a survey file; every answer is checked when it is typed.

    $ shuffledp survey new survey.toml
    """
    with explain_errors():
        if path.exists() and not force:
            raise sdp.DataError(f"{path} already exists: choose another name, or give --force")
        text = _ask_promise()
        while True:
            text = _ask_question(text, str(path))
            if not typer.confirm("Another question?", default=False):
                break
        path.write_text(text, encoding="utf-8")
        count = len(sdp.Survey.loads(text, str(path)).questions)
        tell(f"Written: {path}, {count} question{'s' * (count != 1)}.")


def _ask_promise() -> str:
    """Return the lines about the promise."""

    def read(name: str) -> Callable[[str], Any]:
        def check(text: str) -> Any:
            value = sdp.tasks.Option(name=name, kind=float, help="").read(text)
            tried = {"epsilon": 1.0, "delta": 1e-8, name: value}
            question = sdp.Question(name="q", task="count", column="q")
            return getattr(sdp.Survey(questions=(question,), **tried), name)

        return check

    epsilon = _ask("epsilon of the promise", read("epsilon"), "1.0")
    delta = _ask("delta, far below 1 / number of people", read("delta"), "1e-8")
    return f"epsilon = {epsilon}\ndelta = {delta}\n"


def _ask(prompt: str, check: Callable[[str], Any], default: str | None = None) -> Any:
    """Ask until the answer is fine, and return it. An empty default is none."""
    while True:
        shown = default != ""
        text = str(typer.prompt(prompt, default=default, show_default=shown)).strip()
        try:
            return None if text == default == "" else check(text)
        except (sdp.ShuffledpError, ValueError) as error:
            say(f"That does not work: {error}.", err=True)


def _ask_question(text: str, path: str) -> str:
    """Return the survey with one question more; asked again from the start if its answers do not fit together."""
    known = sdp.Survey.loads(text, path).questions if "[questions" in text else ()
    names = {question.name for question in known}
    while True:
        column = _ask("Column", str)
        name = _ask("Name of the question", lambda name: _check_new(name, names), column)
        task = _ask(f"Task ({', '.join(TASK_NAMES)})", _check_task, "histogram")
        fields = {"task": task, "column": column, **_ask_options(task), **_ask_groups(task)}
        fields["weight"] = _ask(
            "Weight: 2 means half the error of weight 1 (empty: the same for all)",
            _check_weight,
            "",
        )
        lines = [f"{key} = {_write(value)}" for key, value in fields.items() if value is not None]
        more = "\n".join([text, f"[questions.{_write(name)}]", *lines]) + "\n"
        try:
            sdp.Survey.loads(more, path).tasks({}, 10**6)
        except sdp.ShuffledpError as error:
            say(f"That does not work: {error}. Please enter the question again.", err=True)
            continue
        return more


def _check_new(name: str, known: set[str]) -> str:
    if name in known:
        raise sdp.ParameterError("questions", name, "is asked twice")
    return name


def _check_task(name: str) -> str:
    if name not in TASK_NAMES:
        raise sdp.ParameterError("task", name, f"must be one of {', '.join(TASK_NAMES)}")
    return name


def _ask_options(task: str) -> dict[str, Any]:
    """Ask for the options of the task; to have categories read from data, write the file by hand."""
    chosen: dict[str, Any] = {}
    asked = sdp.tasks.task_named(task)
    for option in asked.options:
        listed = "categories" in chosen and option.name in ("k", "lower", "upper")
        if listed or option.name in _LEFT_OUT:
            continue
        # A plan may leave the ends of a sum or mean open, a survey of people must not.
        needed = asked.adds and option.name in ("lower", "upper")
        said = option.help.removesuffix(".")
        prompt = f"{option.name}. {said}" if needed else f"{option.name} (empty: none). {said}"
        value = _ask(prompt, option.read, None if needed else "")
        if value is not None:
            chosen[option.name] = value
    return chosen


def _check_weight(typed: str) -> float | None:
    return sdp.Question(name="q", task="count", column="q", weight=float(typed)).weight


def _ask_groups(task: str) -> dict[str, Any]:
    if task not in sdp.tasks.GROUPED:
        return {}
    by = _ask("by (empty: none). The column of groups to answer for", str, "")
    if by is None:
        return {}
    names = sdp.tasks.Option(name="groups", kind=tuple, help="")
    groups = _ask(
        "groups, comma-separated (empty: the categories of another question about that column)",
        names.read,
        "",
    )
    return {"by": by, "groups": groups}


def _write(value: Any) -> str:
    """Write a value as TOML has it.

    >>> _write(("car", 'the "bus"')), _write(3.0)
    ('["car", "the \\\\"bus\\\\""]', '3.0')
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_write, value))}]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
