"""`shuffledp audit`: check a privacy claim from the outside."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._completion import complete_audited
from shuffledp.cli._options import (
    JsonOption,
    SeedOption,
    spread,
    whole_number,
)
from shuffledp.cli._terminal import echo_json, explain_errors, is_quiet, say
from shuffledp.cli.amplify import ParameterOptions
from shuffledp.core.privacy import round_down

REFUTED = 1
"""The exit code if the claim is false."""


class _View(StrEnum):
    SHUFFLED = "shuffled"
    PRESHUFFLED = "preshuffled"
    LOCAL = "local"


@spread
def audit(
    protocol: Annotated[
        str,
        typer.Argument(
            help="A protocol by name; or a .json file: the probability of each message for each input.",
            autocompletion=complete_audited,
        ),
    ],
    parameters: ParameterOptions,
    epsilon: Annotated[
        float | None, typer.Option(help="The claimed epsilon; required without --samples.")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="The claimed delta; with --samples, default: 0."),
    ] = None,
    n: Annotated[str | None, typer.Option("--n", help="How many people are shuffled.")] = None,
    epsilon0: Annotated[
        float | None,
        typer.Option(
            help="The epsilon0 of the local protocol; default: calibrated for n, epsilon and delta."
        ),
    ] = None,
    view: Annotated[_View, typer.Option(help="What the attacker sees.")] = _View.SHUFFLED,
    samples: Annotated[
        str | None,
        typer.Option(
            help="How many outcomes to draw for a lower bound, where the exact audit would take too long."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.99,
    data: Annotated[
        str | None,
        typer.Option(
            help="Inputs of the sampled people, such as 0,0,1; default: the first input for everybody."
        ),
    ] = None,
    neighbour: Annotated[
        str | None,
        typer.Option(
            help="The same people with one input replaced; default: the first person has the second input."
        ),
    ] = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Check a privacy claim by computation, or refute it by samples.

    The exit code is 1 if the claim is refuted.

    $ shuffledp audit krr --k 3 --epsilon0 1 --n 12 --epsilon 0.5 --delta 0.02
    """
    with explain_errors():
        users = None if n is None else whole_number(n)
        made = _make(protocol, parameters.given, users, epsilon0, epsilon, delta)
        if samples is None:
            verdict, text, record = _compute(made, users, epsilon, delta, view)
        else:
            pair = _read_pair(data, neighbour, 1 if view is _View.LOCAL else users)
            drawn = {"samples": whole_number(samples, "samples"), "confidence": confidence}
            rng = None if seed is None else sdp.SeededWords(seed)
            verdict, text, record = _sample(made, pair, epsilon, delta, view, rng=rng, **drawn)
        if as_json:
            echo_json({"protocol": protocol, "verdict": verdict, **record})
        else:
            _print(text, verdict)
    if verdict == "refuted":
        raise typer.Exit(REFUTED)


def _make(
    name: str,
    given: dict[str, Any],
    users: int | None,
    epsilon0: float | None,
    epsilon: float | None,
    delta: float | None,
) -> Any:
    """Return the randomizer or protocol that is audited."""
    if name.endswith(".json"):
        return _read_channel(Path(name), given)
    if epsilon0 is not None:
        return sdp.make(name, epsilon=epsilon0, **given)
    if users is None or epsilon is None or delta is None:
        raise sdp.UnsupportedError(
            "give epsilon0 for a local protocol; one of the shuffle model is made for n, epsilon and delta"
        )
    maker = sdp.protocols.spec(name).make
    everybody = {} if maker is None or "honest" not in maker.parameters else {"honest": 1.0}
    return sdp.make(name, n=users, epsilon=epsilon, delta=delta, **everybody, **given)


def _read_channel(path: Path, given: dict[str, Any]) -> sdp.audit.Channel:
    """Read {input: {message: probability}} or a matrix; "1/3" and "0.1" are exact. Messages are texts."""
    if given:
        raise sdp.UnsupportedError(
            "a file says all about its randomizer: leave out k, lower, upper, steps"
        )
    try:
        rows = json.loads(path.read_text(encoding="utf-8"), parse_float=str)
    except ValueError as error:
        raise sdp.DataError(f"{path} is not JSON: {error}") from error
    return sdp.audit.channel(rows)


def _compute(
    made: Any, users: int | None, epsilon: float | None, delta: float | None, view: _View
) -> tuple[str | None, list[str], dict[str, Any]]:
    if epsilon is None:
        raise sdp.ParameterError(
            "epsilon", None, "must be given: the epsilon at which delta is computed"
        )
    if view is _View.SHUFFLED and users is None:
        raise sdp.ParameterError("n", None, "must be given: how many people are shuffled")
    crowd = {"n": users} if view is _View.SHUFFLED else {}
    audited = sdp.audit.exact(made, epsilon=epsilon, view=view.value, **crowd)
    record = {"method": "exact", "claimed_delta": delta, **audited.to_dict()}
    if delta is None:
        return None, [f"{audited}."], record
    if audited.refutes(delta):
        why = f"its delta is at least {round_down(audited.lower, 6)}"
        return (
            "refuted",
            [f"{audited}.", f"{_name_claim(epsilon, delta)} is refuted: {why}."],
            record,
        )
    if audited.confirms(delta):
        return "confirmed", [f"{audited}.", f"{_name_claim(epsilon, delta)} is confirmed."], record
    why = "the claimed delta lies between the lower and the upper bound"
    return (
        "undecided",
        [f"{audited}.", f"{_name_claim(epsilon, delta)} is undecided: {why}."],
        record,
    )


def _sample(
    made: Any,
    pair: tuple[list[Any], list[Any]],
    epsilon: float | None,
    delta: float | None,
    view: _View,
    **drawn: Any,
) -> tuple[str | None, list[str], dict[str, Any]]:
    level = 0.0 if delta is None else delta
    audited = sdp.audit.empirical(made, *pair, delta=level, view=view.value, **drawn)
    record = {"method": "samples", "claimed_epsilon": epsilon, **audited.to_dict()}
    if epsilon is None:
        return None, [f"{audited}."], record
    claim = _name_claim(epsilon, level)
    if audited.refutes(epsilon):
        return "refuted", [f"{audited}.", f"{claim} is refuted, with this confidence."], record
    return "not refuted", [f"{audited}.", f"{claim} is not refuted, which proves nothing."], record


def _name_claim(epsilon: float, delta: float) -> str:
    """Name the claim by its own numbers: another one, even a little smaller, is not what was looked at.

    >>> _name_claim(1.0, 1.2345678e-7)
    'The claim (epsilon = 1, delta = 1.2345678e-07)'
    """
    numbers = (repr(each).removesuffix(".0") for each in (epsilon, delta))
    return "The claim (epsilon = {}, delta = {})".format(*numbers)


def _read_pair(
    data: str | None, neighbour: str | None, users: int | None
) -> tuple[list[Any], list[Any]]:
    """Read two data sets that differ in one person: those given, or all 0 and one 1."""
    if (data is None) != (neighbour is None):
        raise sdp.UnsupportedError("data and neighbour belong together")
    if data is not None and neighbour is not None:
        return _read_inputs(data), _read_inputs(neighbour)
    if users is None:
        raise sdp.ParameterError("n", None, "must be given: how many people are shuffled")
    others = [0] * (users - 1)
    return [0, *others], [1, *others]


def _read_inputs(text: str) -> list[Any]:
    return [_read_input(part.strip()) for part in text.split(",")]


def _read_input(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _print(text: list[str], verdict: str | None) -> None:
    if is_quiet() and verdict is not None:
        typer.echo(verdict)
        return
    for line in text:
        say(line)
