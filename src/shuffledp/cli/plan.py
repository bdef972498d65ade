"""`shuffledp plan`: which protocol, and what will it cost."""

from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._completion import complete_task
from shuffledp.cli._options import (
    TASK_NAMES,
    ForceOption,
    GroupOptions,
    HonestOption,
    JsonOption,
    LargeDeltaOption,
    whole_number,
)
from shuffledp.cli._survey import is_survey, plan_survey
from shuffledp.cli._terminal import check_picture, draw_into, explain_errors, pulse, tell
from shuffledp.core.protocol import HONEST

__all__ = ["plan"]

_MODELS = "central,local,shuffle"
_POINTS, _FEW_POINTS = 67, 7  # of a curve; few where each takes a second or more, as for words


def plan(
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
        str | None, typer.Option(help="Number of categories of a histogram, such as 1e3.")
    ] = None,
    lower: Annotated[
        str | None, typer.Option(help="Smallest value of sums and means; 0 if not given.")
    ] = None,
    upper: Annotated[
        str | None, typer.Option(help="Largest value of sums and means; 1 if not given.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of the grid for real numbers; without it, values are integers."),
    ] = None,
    by: Annotated[str | None, typer.Option(help="The column of groups; needs --groups.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Answer for each of these groups, comma-separated.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="Which quantiles, the points of a cdf, the ends of a range.")
    ] = None,
    edges: Annotated[str | None, typer.Option(help="The edges of bins, such as 0,18,65.")] = None,
    alphabet: Annotated[
        str | None, typer.Option(help="The alphabet of words: letters, word, ascii or utf-8.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="The longest word, in bytes.")] = None,
    bits: Annotated[
        int | None, typer.Option(help="Words are integers with this many bits, not texts.")
    ] = None,
    max_messages: Annotated[
        float | None, typer.Option(help="Messages that a user may send, on average.")
    ] = None,
    max_bits: Annotated[
        float | None, typer.Option(help="Bits that a user may send, on average.")
    ] = None,
    max_bytes: Annotated[
        float | None, typer.Option(help="Bytes of a report of a live collection, encrypted.")
    ] = None,
    max_influence: Annotated[
        float | None,
        typer.Option(help="How far one report may move the answer, counted in people."),
    ] = None,
    local_epsilon: Annotated[
        float | None,
        typer.Option(
            help="The epsilon each report keeps even if everybody else conspires; 3 is usual."
        ),
    ] = None,
    liars: Annotated[
        float | None,
        typer.Option(
            help="Assumed share of liars: the plan says how far they can move the answer."
        ),
    ] = None,
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

    $ shuffledp plan histogram --n 1e6 --k 20 --epsilon 1 --delta 1e-8
    """
    with explain_errors():
        if serve:
            _serve()
            return
        if task is None:
            raise sdp.DataError(
                f"name a question: {', '.join(TASK_NAMES)}; or plan in a page: --serve"
            )
        check_picture(plot, force=force)
        if is_survey(task):
            said: dict[str, object] = {
                "epsilon": epsilon,
                "delta": delta,
                "k": k,
                "lower": lower,
                "upper": upper,
            }
            said |= {"steps": steps, "at": at, "edges": edges, "alphabet": alphabet}
            said |= {"max_length": max_length, "bits": bits, "honest": honest != HONEST}
            said |= {"by": by, "groups": groups}
            other: dict[str, object] = {
                "error": error,
                "max_messages": max_messages,
                "max_bits": max_bits,
            }
            other |= {"max_bytes": max_bytes, "max_influence": max_influence, "liars": liars}
            said |= {"model": model != _MODELS}
            other |= {"local_epsilon": local_epsilon, "plot": plot}
            other |= {"allow_large_delta": allow_large_delta, "force": force}
            people = None if n is None else whole_number(n)
            plan_survey(task, people, said, other, as_json=as_json)
            return
        with pulse("planning"):
            answer = sdp.plan(
                task,
                n=None if n is None else whole_number(n),
                epsilon=epsilon,
                delta=delta,
                error=error,
                k=None if k is None else whole_number(k, "k"),
                lower=lower,
                upper=upper,
                steps=steps,
                at=at,
                edges=edges,
                alphabet=alphabet,
                max_length=max_length,
                bits=bits,
                groups=_read_groups(by, groups),
                max_messages=max_messages,
                max_bits=max_bits,
                max_bytes=max_bytes,
                max_influence=max_influence,
                local_epsilon=local_epsilon,
                liars=liars,
                models=[name.strip() for name in model.split(",")],
                honest=honest,
                allow_large_delta=allow_large_delta,
            )
        typer.echo(answer.to_json() if as_json else str(answer))
        if answer.chosen is None:
            raise sdp.UnsupportedError(f"no protocol fits: {answer.reasons()}")
        if plot is not None:
            with draw_into(plot, force=force) as place, pulse("drawing"):
                _draw(answer, place)
            if not as_json:
                tell(f"\nThe picture is in {plot}.")


def _read_groups(by: str | None, groups: str | None) -> tuple[str, ...] | None:
    if by is not None and groups is None:
        raise sdp.UnsupportedError("--by needs --groups: a plan has no data, and groups are public")
    found: tuple[str, ...] | None = GroupOptions(by=by, groups=groups).given["groups"]
    return found


def _serve() -> None:
    sdp.serve.require_serve()
    sdp.serve.run_desk(
        sdp.serve.Planner(),
        None,
        say=lambda link: typer.echo(f"Plan a survey: {link}\nEnd with Ctrl-C."),
    )


def _draw(answer: sdp.Plan, path: Path) -> None:
    chosen = answer.chosen
    assert chosen is not None
    assert chosen.rmse is not None
    assert chosen.n is not None
    task, scale = answer.asked.task, answer.asked.task.scale(chosen.n)
    points = _POINTS if task.listed else _FEW_POINTS
    found = [
        (row.model.value, row.protocol, row.rmse / scale)
        for row in answer.rows
        if row.available and row.rmse is not None
    ]
    sdp.plots.error_curves(
        {
            curve.model.value: [(each.n, each.error, each.protocol) for each in curve.points]
            for curve in sdp.planner.curves(answer, points=points)
        },
        path,
        title=_finding(answer.task, chosen.protocol, found),
        subtitle=answer.title(),
        ylabel=f"RMSE of {task.answer}, worst data set",
        chosen=(chosen.n, chosen.rmse / scale, chosen.protocol),
        rows=found,
        costs={
            (row.model.value, row.protocol): _describe_cost(row.bytes_per_report, row.influence)
            for row in answer.rows
            if row.available and row.bytes_per_report is not None
        },
    )


def _describe_cost(size: int | None, influence: float | None) -> str:
    """What a live report costs: its bytes, and how many people one liar can move.

    >>> _describe_cost(104, 1.2671), _describe_cost(20_800, None)
    ('104 B, 1.27', '20,800 B, any number')
    """
    moved = "any number"
    if influence is not None:
        moved = f"{influence:,.0f}" if influence >= 100 else f"{influence:.3g}"
    return f"{size:,} B, {moved}"


def _finding(task: str, chosen: str, rows: list[tuple[str, str, float]]) -> str:
    """What the trust in a shuffler is worth; or, if not all models were asked for, which protocol is best.

    >>> _finding("count", "rr", [("local", "rr", 90.0), ("shuffle", "rr", 3.0), ("central", "geometric", 1.5)])
    'A count: a shuffler is 30 times as accurate as trusting nobody, a curator 2 times as accurate as a shuffler'
    >>> _finding("count", "rr", [("local", "rr", 90.0)])
    'The best protocol that fits: rr'
    """
    best: dict[str, float] = {}
    for model, _, error in rows:
        best[model] = min(error, best.get(model, error))
    if not {"local", "shuffle", "central"} <= best.keys() or not min(best.values()):
        return f"The best protocol that fits: {chosen}"
    gain, loss = best["local"] / best["shuffle"], best["shuffle"] / best["central"]
    named = task.capitalize() if task.endswith("s") else f"A {task}"  # quantiles, bins, words
    return (
        f"{named}: a shuffler is {gain:,.3g} times as accurate as trusting nobody, "
        f"a curator {loss:,.3g} times as accurate as a shuffler"
    )
