"""`shuffledp people-needed`: how many people are enough, in every model of trust."""

import json
from dataclasses import asdict
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._options import JsonOption
from shuffledp.cli._terminal import explain_errors, say
from shuffledp.core.protocol import HONEST

_MODELS = ("none", "central", "shuffle", "local")


class _Task(StrEnum):
    COUNT = "count"
    HISTOGRAM = "histogram"
    LEARN = "learn"
    UNIFORMITY = "uniformity_test"
    IDENTITY = "identity_test"


class _Coin(StrEnum):
    PRIVATE = "private"
    PUBLIC = "public"


def people_needed(
    task: Annotated[_Task, typer.Argument(help="The question.")],
    alpha: Annotated[
        float,
        typer.Option(
            help="The error as a share of the people (count, histogram), or the total variation distance to reach or detect."
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="The epsilon of the guarantee, above 0.")],
    delta: Annotated[
        float | None, typer.Option(help="The delta of the guarantee; the shuffle model needs one.")
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(
            help="The probability that the error is larger (count, histogram); default: 0.05."
        ),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            help="The probability that a test is wrong, in either direction; default: 1/3."
        ),
    ] = None,
    k: Annotated[int | None, typer.Option(help="The number of categories.")] = None,
    law: Annotated[
        str | None, typer.Option(help="The law of an identity_test, such as 1/2,1/4,1/4.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="none, central, shuffle or local; may be repeated. Default: all."),
    ] = None,
    coin: Annotated[
        _Coin, typer.Option(help="public: devices of a test share a random seed.")
    ] = _Coin.PRIVATE,
    honest: Annotated[
        float, typer.Option(help="Share of participants assumed to follow the protocol.")
    ] = HONEST,
    max_messages: Annotated[
        float | None,
        typer.Option(
            help="The most messages a person may send, on average (count, histogram, learn)."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Find how many people are enough for a question, in every model of trust.

    Enough with the protocols of shuffledp: others might need fewer.

    $ shuffledp people-needed histogram --k 64 --alpha 0.05 \
        --epsilon 1 --delta 1e-8
    """
    with explain_errors():
        own = _collect(task, beta, error, k, law, coin, max_messages)
        rows = [_ask(each, task, alpha, epsilon, delta, honest, own) for each in model or _MODELS]
        if all("reason" in row for row in rows):
            raise sdp.UnsupportedError(
                "; ".join(f"{row['model']}: {row['reason']}" for row in rows)
            )
    if as_json:
        typer.echo(json.dumps({"task": task.value, "alpha": alpha, "rows": rows}))
        return
    for row in rows:
        if "reason" in row:
            say(f"{row['model']:8} not available: {row['reason']}")
            continue
        between = (
            "" if row["method"] == "exact" else f", between {row['lower']:,} and {row['upper']:,}"
        )
        how = f"{row['protocol']}; {row['method']}{between}"
        how = "no noise" if row["protocol"] == "exact" else how
        say(f"{row['model']:8} {row['n']:>12,} {'person' if row['n'] == 1 else 'people'} ({how})")
    say(
        "These numbers are enough with the protocols of shuffledp. Whether fewer could be enough: see "
        "docs/theory/lower-bounds.md."
    )


def _collect(
    task: _Task,
    beta: float | None,
    error: str | None,
    k: int | None,
    law: str | None,
    coin: _Coin,
    max_messages: float | None,
) -> dict[str, Any]:
    """Return the options that were given, if the task takes them."""
    test = task in (_Task.UNIFORMITY, _Task.IDENTITY)
    given: dict[str, Any] = {
        "beta": beta,
        "error": None if error is None else float(_read_share("error", error)),
        "k": k,
        "q": None if law is None else [_read_share("law", each) for each in law.split(",")],
        "coin": "public" if coin is _Coin.PUBLIC else None,
        "max_messages": max_messages,
    }
    taken = {"error", "coin"} if test else {"max_messages"}
    taken |= {"k"} if task is not _Task.COUNT else set()
    taken |= {"beta"} if task in (_Task.COUNT, _Task.HISTOGRAM) else set()
    taken |= {"q"} if task is _Task.IDENTITY else set()
    said = {name: value for name, value in given.items() if value is not None}
    if task is _Task.IDENTITY and "q" not in said:
        raise sdp.ParameterError("law", law, "must be given for an identity_test")
    for name in said:
        if name not in taken:
            shown = "law" if name == "q" else name
            raise sdp.ParameterError(shown, given[name], f"is not an option of {task.value}")
    return said


def _read_share(name: str, text: str) -> Fraction:
    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise sdp.ParameterError(name, text, "must be numbers such as 1/3 or 0.25") from None


def _ask(
    model: str,
    task: _Task,
    alpha: float,
    epsilon: float,
    delta: float | None,
    honest: float,
    own: dict[str, Any],
) -> dict[str, Any]:
    """Return the answer of one model, or the reason why there is none."""
    if model not in _MODELS:
        raise sdp.ParameterError("model", model, f"must be one of {', '.join(_MODELS)}")
    options = {name: value for name, value in own.items() if _takes(model, name)}
    if model == "shuffle":
        options["honest"] = honest
    try:
        needed = sdp.sample_complexity(
            task.value,
            alpha=alpha,
            epsilon=None if model == "none" else epsilon,
            delta=delta if model in ("shuffle", "central") else None,
            model=model,
            **options,
        )
    except sdp.UnsupportedError as reason:
        return {"model": model, "reason": str(reason)}
    except sdp.ParameterError as reason:
        if delta is None and model == "shuffle":
            return {"model": model, "reason": str(reason)}
        raise
    return {**asdict(needed), "model": model}


def _takes(model: str, option: str) -> bool:
    """Return whether a model takes an option: a curator needs no coins, and only a shuffler limits messages."""
    if option == "coin":
        return model in ("local", "shuffle")
    return option != "max_messages" or model == "shuffle"
