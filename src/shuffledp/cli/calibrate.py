"""`shuffledp calibrate`: how little noise each person needs."""

import json
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._options import (
    Delta0Option,
    DeltaOption,
    HonestOption,
    JsonOption,
    UsersOption,
    spread,
    whole_number,
)
from shuffledp.cli._terminal import explain_errors, say
from shuffledp.cli.amplify import RandomizerOptions, name_bound
from shuffledp.core.privacy import round_down
from shuffledp.core.protocol import HONEST


@spread
def calibrate(
    epsilon: Annotated[
        float, typer.Option(help="The epsilon that the shuffled messages must have.")
    ],
    n: UsersOption,
    delta: DeltaOption,
    chosen: RandomizerOptions,
    delta0: Delta0Option = 0.0,
    honest: HonestOption = HONEST,
    as_json: JsonOption = False,
) -> None:
    """Find the largest epsilon0 with which n shuffled messages are (epsilon, delta)-private.

    $ shuffledp calibrate --epsilon 1 --n 1e6 --delta 1e-8
    """
    with explain_errors():
        chosen.check()
        users = whole_number(n)
        make = None if chosen.randomizer is None else chosen.make
        epsilon0 = sdp.calibrate(
            n=users, epsilon=epsilon, delta=delta, delta0=delta0, randomizer=make, honest=honest
        )
        curve = sdp.profile(n=users, honest=honest, delta0=delta0, **chosen.law(epsilon0))
        answer = curve.best(delta)
    if as_json:
        record = {
            "epsilon0": epsilon0,
            "delta0": delta0,
            "epsilon": epsilon,
            "delta": delta,
            "method": name_bound(curve, answer),
            "proof": answer.proof,
            "n": users,
            "honest": answer.honest,
            "randomizer": chosen.randomizer,
            "parameters": chosen.given,
        }
        typer.echo(json.dumps(record))
        return
    typer.echo(f"epsilon0 = {round_down(epsilon0, 6)}")
    say(str(answer))
