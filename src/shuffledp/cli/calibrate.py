"""`shuffledp calibrate`: how little noise each person needs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._failures import explained
from shuffledp.cli._population import (
    Chosen,
    DeltaOption,
    HonestOption,
    JsonOption,
    KOption,
    LowerOption,
    RandomizerOption,
    StepsOption,
    UpperOption,
    UsersOption,
    down,
    method,
    users,
)
from shuffledp.cli._text import say

__all__ = ["calibrate"]


def calibrate(
    epsilon: Annotated[float, typer.Option(help="The epsilon wanted of the shuffled messages.")],
    n: UsersOption,
    delta: DeltaOption,
    randomizer: RandomizerOption = None,
    k: KOption = None,
    lower: LowerOption = None,
    upper: UpperOption = None,
    steps: StepsOption = None,
    honest: HonestOption = 1.0,
    as_json: JsonOption = False,
) -> None:
    """The largest epsilon0 with which n shuffled messages are (epsilon, delta)-private."""
    with explained():
        count = users(n)
        chosen = Chosen.of(randomizer, {"k": k, "lower": lower, "upper": upper, "steps": steps})
        make = None if chosen is None else chosen.made
        epsilon0 = sdp.calibrate(
            n=count, epsilon=epsilon, delta=delta, randomizer=make, honest=honest
        )
        curve = sdp.profile(
            n=count,
            epsilon0=epsilon0 if chosen is None else None,
            randomizer=None if chosen is None else chosen.made(epsilon0),
            honest=honest,
        )
        answer = curve.best(delta)
    if as_json:
        record = {
            "epsilon0": epsilon0,
            "epsilon": epsilon,
            "delta": delta,
            "method": method(curve, answer),
            "proof": answer.proof,
            "n": count,
            "honest": answer.honest,
            "randomizer": None if chosen is None else chosen.name,
            "parameters": {} if chosen is None else chosen.parameters,
        }
        typer.echo(json.dumps(record))
        return
    typer.echo(f"epsilon0 = {down(epsilon0)}")
    say(str(answer))
