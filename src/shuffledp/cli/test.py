"""`shuffledp test`: whether a column's values are uniform, or have a known law."""

from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._options import (
    BudgetOptions,
    JsonOption,
    PathsArgument,
    spread,
)
from shuffledp.cli._people import (
    CategoryOptions,
    InferenceOptions,
    People,
    open_ledger,
    read_people,
    show_answer,
)
from shuffledp.cli._progress import pulse
from shuffledp.cli._terminal import charge, explain_errors


class _Coin(StrEnum):
    PRIVATE = "private"
    PUBLIC = "public"


@spread
def test(
    paths: PathsArgument,
    categories: CategoryOptions,
    given: InferenceOptions,
    budget: BudgetOptions,
    distance: Annotated[
        float | None,
        typer.Option(
            help="The total variation distance to detect, between 0 and 1; required.",
            rich_help_panel="Data",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="The old name of --distance.", hidden=True, rich_help_panel="Data"),
    ] = None,
    law: Annotated[
        str | None,
        typer.Option(
            help="The law to test, such as 1/2,1/4,1/4; default: uniform.", rich_help_panel="Data"
        ),
    ] = None,
    error: Annotated[
        str,
        typer.Option(
            help="The largest probability of a false alarm; a smaller one needs more people.",
            rich_help_panel="Data",
        ),
    ] = "0.05",
    method: Annotated[
        str | None,
        typer.Option(
            help="Use this method instead of the one that detects most with this many people.",
            rich_help_panel="Privacy",
        ),
    ] = None,
    coin: Annotated[
        _Coin,
        typer.Option(help="public: devices share a random seed.", rich_help_panel="Privacy"),
    ] = _Coin.PRIVATE,
    public_seed: Annotated[
        int | None,
        typer.Option(
            help="The seed that devices share, chosen without looking at the data; default: a random one.",
            rich_help_panel="Privacy",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Test whether everybody's values are uniform, or have a known law: accept or reject.

    A verdict is not an error: the exit code is 0 for both.

    $ shuffledp test people.csv --column home --k 2 \
        --distance 0.2 --epsilon 1 --delta 1e-8
    """
    with explain_errors():
        chance = float(_read_fraction("error", error))
        spending = open_ledger(budget, given, categories)
        given.refuse_needless()
        people = read_people(paths, categories, given, [budget.ledger])
        far = _read_distance(distance, alpha)
        common = {"alpha": far, "method": method, "coin": coin.value, "error": chance}
        more = {**common, "public_seed": public_seed, **given.promise}
        with pulse("testing"):
            outcome = _test(people, law, more)
        tested = "uniform" if law is None else law
        record = {"law": tested, **outcome.to_dict(), **people.record}
        note = people.note("test", outcome.method)
        with charge(spending, outcome.guarantee, note, err=as_json):
            text = f"Is the law {tested}? {outcome.describe()}"
            show_answer(people, text, record, as_json=as_json)


def _test(people: People, law: str | None, more: dict[str, Any]) -> sdp.inference.UniformityTest:
    if law is None:
        return sdp.uniformity_test(people.codes, k=people.domain.size, **more)
    q = [_read_fraction("law", part) for part in law.split(",")]
    if len(q) != people.domain.size:
        raise sdp.ParameterError(
            "law", law, f"must have one number for each of the {people.domain.size} categories"
        )
    if sum(q) != 1:
        raise sdp.ParameterError("law", law, f"must sum to 1, and its sum is {sum(q)}")
    return sdp.identity_test(people.codes, q=q, **more)


def _read_distance(distance: float | None, alpha: float | None) -> float:
    """Return the distance, by whichever name it was given."""
    if distance is not None and alpha is not None:
        raise sdp.UnsupportedError("--alpha is the old name of --distance: leave it out")
    if distance is None and alpha is None:
        raise sdp.ParameterError("distance", None, "must be given, with --distance")
    if alpha is not None:
        typer.echo(
            "--alpha is now called --distance: it is not an error probability (--error is).",
            err=True,
        )
        return alpha
    assert distance is not None
    return distance


def _read_fraction(name: str, text: str) -> Fraction:
    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise sdp.ParameterError(name, text, "must be numbers such as 0.25 or 1/4") from None
