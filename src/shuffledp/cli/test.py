"""`shuffledp test`: whether a column's values are uniform, or have a known law."""

from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._options import (
    BudgetOptions,
    CategoryOptions,
    InferenceOptions,
    JsonOption,
    PathsArgument,
    spread,
)
from shuffledp.cli._people import People, open_ledger, read_people, show_answer
from shuffledp.cli._progress import pulse
from shuffledp.cli._terminal import charge, explain_errors

__all__ = ["test"]


class _Coin(StrEnum):
    PRIVATE = "private"
    PUBLIC = "public"


@spread
def test(
    paths: PathsArgument,
    categories: CategoryOptions,
    given: InferenceOptions,
    budget: BudgetOptions,
    alpha: Annotated[
        float,
        typer.Option(help="The total variation distance to detect.", rich_help_panel="Data"),
    ],
    law: Annotated[
        str | None,
        typer.Option(
            help="The law to test, such as 1/2,1/4,1/4; default: uniform.", rich_help_panel="Data"
        ),
    ] = None,
    error: Annotated[
        str,
        typer.Option(
            help="Probability of a false alarm, at most; a smaller one takes more people.",
            rich_help_panel="Data",
        ),
    ] = "1/3",
    method: Annotated[
        str | None,
        typer.Option(
            help="Use this method instead of the one that sees most.", rich_help_panel="Privacy"
        ),
    ] = None,
    coin: Annotated[
        _Coin,
        typer.Option(help="public: devices share a random seed.", rich_help_panel="Privacy"),
    ] = _Coin.PRIVATE,
    public_seed: Annotated[
        int | None,
        typer.Option(
            help="That seed, chosen without looking at the data; default: a random one.",
            rich_help_panel="Privacy",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Test whether everybody's values are uniform, or have a known law: accept or reject.

    $ shuffledp test people.csv --column home --k 2 \
        --alpha 0.2 --epsilon 1 --delta 1e-8
    """
    with explain_errors():
        chance = float(_read_fraction("error", error))
        spending = open_ledger(budget, given, categories)
        given.refuse_needless()
        people = read_people(paths, categories, given, [budget.ledger])
        common = {"alpha": alpha, "method": method, "coin": coin.value, "error": chance}
        more = {**common, "public_seed": public_seed, **given.promise}
        with pulse("testing"):
            found = _test(people, law, more)
        tested = "uniform" if law is None else law
        record = {"law": tested, **found.to_dict(), **people.record}
        note = people.note("test", found.method)
        with charge(spending, found.guarantee, note, err=as_json):
            text = f"Is the law {tested}? {found.describe()}"
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


def _read_fraction(name: str, text: str) -> Fraction:
    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise sdp.ParameterError(name, text, "must be numbers such as 0.25 or 1/4") from None
