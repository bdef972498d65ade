"""`shuffledp plan`: which protocol, and what will it cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._completion import complete_task
from shuffledp.cli._options import (
    DECLARED,
    TASK_NAMES,
    ForceOption,
    GroupOptions,
    HonestOption,
    JsonOption,
    LargeDeltaOption,
    MaxMessagesOption,
    PeopleOptions,
    is_survey,
    make_options,
    refuse,
    spread,
    whole_number,
)
from shuffledp.cli._progress import pulse
from shuffledp.cli._terminal import (
    check_picture,
    draw_into,
    echo_json,
    explain_errors,
    say,
    say_lines,
    tell,
)
from shuffledp.core.protocol import HONEST

_MODELS = "central,local,shuffle"
_ABOUT_DATA = ("true_value", "categories_from_data", "k")
PlannedOptions: Any = make_options(
    "PlannedOptions", (each for each in DECLARED if each.name not in _ABOUT_DATA)
)
"""What a plan asks for, which has no data; it reads k itself, since k may be written as 1e6."""


@dataclass(frozen=True, kw_only=True)
class _LimitOptions:
    """Limits to what a protocol may cost, and to what liars may do."""

    max_messages: MaxMessagesOption = None
    max_bits: Annotated[
        float | None, typer.Option(help="The most bits a user may send, on average.")
    ] = None
    max_bytes: Annotated[
        float | None,
        typer.Option(help="The most bytes of a report of a live collection, encrypted."),
    ] = None
    max_influence: Annotated[
        float | None,
        typer.Option(help="How far one report may move the answer at most, counted in people."),
    ] = None
    local_epsilon: Annotated[
        float | None,
        typer.Option(
            help="The epsilon each report keeps even if everybody else conspires; 3 is usual."
        ),
    ] = None
    liars: Annotated[
        float | None,
        typer.Option(
            help="Assumed share of liars: the plan says how far they can move the answer."
        ),
    ] = None


@spread
def plan(
    *,
    task: Annotated[
        str | None,
        typer.Argument(
            help=f"The question: {', '.join(TASK_NAMES)}; or a survey file.",
            autocompletion=complete_task,
        ),
    ] = None,
    n: Annotated[str | None, typer.Option("--n", help="How many people; 1e6 is a million.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The epsilon of the guarantee.")] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="The delta of the guarantee, far below 1/n; 0 is pure privacy."),
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="The RMSE you want (of the mean, for means), in place of --epsilon or --n."
        ),
    ] = None,
    k: Annotated[
        str | None,
        typer.Option(
            help="Number of categories of a histogram, such as 1e3.", rich_help_panel="Data"
        ),
    ] = None,
    question: PlannedOptions,
    grouping: GroupOptions,
    people_of_rows: PeopleOptions,
    limits: _LimitOptions,
    model: Annotated[
        str, typer.Option(help="The models of trust to compare, comma-separated.")
    ] = _MODELS,
    honest: HonestOption = HONEST,
    allow_large_delta: LargeDeltaOption = False,
    as_json: JsonOption = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw error against n into this file (.png, .svg, .pdf).")
    ] = None,
    force: ForceOption = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Plan a live survey in the browser instead.")
    ] = False,
) -> None:
    """Rank every protocol for a question by its exact error, with its cost.

    Sums and means are of integers from 0 to 1, unless --lower, --upper and --steps say otherwise.

    $ shuffledp plan histogram --n 1e6 --k 20 --epsilon 1 --delta 1e-8
    """
    with explain_errors():
        if serve:
            _serve()
            return
        if task is None:
            raise sdp.DataError(
                f"name a question: {', '.join(TASK_NAMES)}; or plan in the browser: --serve"
            )
        check_picture(plot, force=force)
        people = None if n is None else whole_number(n)
        if is_survey(task):
            said = {"epsilon": epsilon, "delta": delta, "k": k, **vars(question), **vars(grouping)}
            said |= vars(people_of_rows)
            said |= {"honest": honest != HONEST}
            other = {"error": error, **vars(limits), "plot": plot, "force": force}
            other |= {"allow_large_delta": allow_large_delta}
            chosen = None if model == _MODELS else model
            _plan_survey(task, people, said, other, model=chosen, as_json=as_json)
            return
        if grouping.by is not None and grouping.groups is None:
            raise sdp.UnsupportedError(
                "--by needs --groups: a plan has no data, and groups are public"
            )
        options = {**vars(question), "k": None if k is None else whole_number(k, "k")}
        asked, about = _ask_people(task, options, people_of_rows, grouping)
        with pulse("planning"):
            answer = sdp.plan(
                asked,
                n=people,
                epsilon=epsilon,
                delta=delta,
                error=error,
                groups=grouping.given["groups"],
                models=[name.strip() for name in model.split(",")],
                honest=honest,
                allow_large_delta=allow_large_delta,
                **({} if about else options),
                **vars(limits),
            )
        _print(answer, about, as_json=as_json)
        if answer.chosen is None:
            raise sdp.UnsupportedError(f"no protocol fits: {answer.reasons()}")
        if plot is not None:
            with draw_into(plot, force=force) as place, pulse("drawing"):
                sdp.planner.plot_plan(answer, place)
            if not as_json:
                tell(f"\nThe picture is in {plot}.")


def _ask_people(
    task: str, options: dict[str, Any], people: PeopleOptions, grouping: GroupOptions
) -> tuple[str | sdp.Task, str]:
    """Return the question, if people have several rows: the one that is asked of people, and what becomes of the rows."""
    if people.people is None:
        return task, ""
    asked = sdp.Question(
        name=task, task=task, column=None, options=options, people=people.people, **grouping.given
    )
    return sdp.questions.plan_question(asked)


def _print(answer: sdp.Plan, about: str, *, as_json: bool) -> None:
    typer.echo(answer.to_json() if as_json else str(answer))
    if about and not as_json:
        say(f"n is the number of people. {about}")


def _serve() -> None:
    sdp.live.serve.require_serve()
    sdp.live.serve.run_desk(
        sdp.live.serve.Planner(),
        None,
        say=lambda link: typer.echo(f"Plan a survey: {link}\nEnd with Ctrl-C."),
    )


def _plan_survey(
    path: str,
    n: int | None,
    said: dict[str, Any],
    other: dict[str, Any],
    *,
    model: str | None,
    as_json: bool,
) -> None:
    """Print which protocols answer a survey, how well, and what each question costs.

    Refused are options that a survey file has `said`, and `other` ones that its plan has no use for.
    """
    refuse(said)
    refuse(other, "it does not apply to the plan of a survey")
    if n is None:
        raise sdp.ParameterError("n", n, "must be given: how many people take part")
    survey = sdp.Survey.load(path, model=model)
    with pulse("planning"):
        plan = survey.plan(n)
    if as_json:
        echo_json(plan.to_dict())
    else:
        say_lines(str(plan))
