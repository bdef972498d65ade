"""`shuffledp amplify`: what shuffling makes of a local guarantee."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._failures import explained
from shuffledp.cli._options import ForceOption
from shuffledp.cli._output import check_free, check_picture, drawn
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
from shuffledp.plots.style import FORMATS

if TYPE_CHECKING:
    from shuffledp.accounting.amplify import ShuffledProfile
    from shuffledp.cli._bounds import Line
    from shuffledp.core.randomizer import Randomizer

__all__ = ["amplify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What was asked, checked."""

    epsilon0: float
    n: int
    delta: float
    chosen: Chosen | None
    honest: float
    rounds: int
    bound: str | None

    @property
    def randomizer(self) -> Randomizer | None:
        return None if self.chosen is None else self.chosen.made(self.epsilon0)

    def curve(self) -> ShuffledProfile:
        randomizer = self.randomizer
        return sdp.profile(
            n=self.n,
            epsilon0=self.epsilon0 if randomizer is None else None,
            randomizer=randomizer,
            honest=self.honest,
            bound=self.bound,
        )

    def answer(self, curve: ShuffledProfile) -> sdp.Guarantee:
        """The guarantee of all rounds together."""
        if self.rounds == 1:
            return curve.best(self.delta)
        epsilon = sdp.compose([curve] * self.rounds, delta=self.delta)
        proofs = "; ".join(bound.proof for bound in curve.bounds)
        proof = f"{self.rounds} rounds composed as privacy-loss distributions, each by {proofs}"
        return replace(curve.best(self.delta), epsilon=epsilon, proof=proof)

    def lower(self) -> float | None:
        """What no analysis can beat, where we know it."""
        if self.rounds > 1 or self.delta == 0:
            return None
        randomizer = self.randomizer
        try:
            return sdp.amplify_lower(
                n=self.n,
                delta=self.delta,
                epsilon0=self.epsilon0 if randomizer is None else None,
                randomizer=randomizer,
                honest=self.honest,
            )
        except sdp.UnsupportedError:
            return None


def amplify(
    epsilon0: Annotated[float, typer.Option(help="Local privacy of each message, above 0.")],
    n: UsersOption,
    delta: DeltaOption,
    randomizer: RandomizerOption = None,
    k: KOption = None,
    lower: LowerOption = None,
    upper: UpperOption = None,
    steps: StepsOption = None,
    honest: HonestOption = 1.0,
    rounds: Annotated[int, typer.Option(help="How often everybody is asked.")] = 1,
    bound: Annotated[
        str | None, typer.Option(help="Use this bound, not the best; --all shows the names.")
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Every bound side by side, with its reference.")
    ] = False,
    as_json: JsonOption = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw delta against epsilon into this file.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """The (epsilon, delta) of n shuffled messages, one from each person."""
    with explained():
        if rounds < 1:
            raise sdp.ParameterError("rounds", rounds, "must be >= 1")
        if rounds > 1 and (show_all or plot is not None):
            raise sdp.UnsupportedError("--all and --plot are about one round: leave out --rounds")
        check_picture(plot, FORMATS)
        check_free(plot, force=force)
        options = {"k": k, "lower": lower, "upper": upper, "steps": steps}
        question = _Question(
            epsilon0=epsilon0,
            n=users(n),
            delta=delta,
            chosen=Chosen.of(randomizer, options),
            honest=honest,
            rounds=rounds,
            bound=bound,
        )
        curve = question.curve()
        answer = question.answer(curve)
        lines = _lines(question, curve) if show_all else None
        if plot is not None:
            with drawn(plot, force=force) as place:
                curve.plot(place)
        if as_json:
            typer.echo(json.dumps(_record(question, curve, answer, lines)))
            return
        _print(question, answer, lines)
    if plot is not None:
        typer.echo(f"The picture is in {plot}.")


def _lines(question: _Question, curve: ShuffledProfile) -> list[Line]:
    from shuffledp.cli._bounds import every_bound

    return every_bound(
        n=question.n,
        honest=question.honest,
        honest_users=curve.honest,
        epsilon0=question.epsilon0,
        delta=question.delta,
        randomizer=question.randomizer,
        lower=question.lower(),
    )


def _record(
    question: _Question, curve: ShuffledProfile, answer: sdp.Guarantee, lines: list[Line] | None
) -> dict[str, object]:
    record: dict[str, object] = {
        "epsilon": answer.epsilon,
        "delta": answer.delta,
        "lower": question.lower(),
        "method": "composition" if question.rounds > 1 else method(curve, answer),
        "proof": answer.proof,
        "epsilon0": question.epsilon0,
        "n": question.n,
        "honest": curve.honest,
        "rounds": question.rounds,
        "randomizer": None if question.chosen is None else question.chosen.name,
        "parameters": {} if question.chosen is None else question.chosen.parameters,
        "model": answer.model.value,
        "neighbours": answer.neighbours.value,
    }
    if lines is not None:
        record["bounds"] = [asdict(line) for line in lines]
    return record


def _print(question: _Question, answer: sdp.Guarantee, lines: list[Line] | None) -> None:
    say(str(answer))
    if lines is not None:
        from shuffledp.cli._bounds import print_table

        print_table(lines)
        return
    lower = question.lower()
    if lower is not None:
        whose = "an unknown randomizer" if question.chosen is None else question.chosen.name
        typer.echo(f"No analysis of {whose} can give less than epsilon = {down(lower)}.")
