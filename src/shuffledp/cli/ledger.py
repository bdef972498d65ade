"""`shuffledp ledger`: show or verify a ledger, or change a budget."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._options import JsonOption
from shuffledp.cli._terminal import echo_json, explain_errors, tell

if TYPE_CHECKING:
    from shuffledp.ledger import Entry, Ledger

app = typer.Typer(
    name="ledger",
    help="Show or verify a budget ledger, or change a budget.",
    no_args_is_help=True,
    add_completion=False,
)

PathArgument = Annotated[Path, typer.Argument(help="The ledger.")]


@app.command()
def show(path: PathArgument, as_json: JsonOption = False) -> None:
    """Show every data set in the ledger: its budget, its releases, what they spent together.

    $ shuffledp ledger show ledger.json
    """
    with explain_errors():
        ledger = _open(path)
        if as_json:
            record = {name: _make_record(ledger, name) for name in ledger.datasets}
            echo_json(record)
            return
        for name in ledger.datasets:
            _print(ledger, name)
        typer.echo(f"Head: {ledger.head}")


@app.command()
def verify(
    path: PathArgument,
    head: Annotated[
        list[str] | None,
        typer.Option(help="A head that an earlier charge printed; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that nothing up to a head was changed or removed since that head was printed.

    $ shuffledp ledger verify ledger.json
    """
    with explain_errors():
        heads = head or []
        verified = _open(path).verify(*heads)
        if as_json:
            echo_json(asdict(verified))
            return
        tell(f"{path}: the chain of {_count(verified.events)} is intact. Head: {verified.head}")
        if not heads:
            tell("Without --head this cannot show that the last events were removed.")
            return
        newer = verified.events - verified.vouched
        tell(
            f"Nothing up to event {verified.vouched:,} was changed or removed. "
            + (
                f"No head was given for the {_count(newer)} after it."
                if newer
                else "It is the last one."
            )
        )


@app.command()
def budget(
    path: PathArgument,
    epsilon: Annotated[
        float, typer.Option(help="New epsilon that all releases may spend together.")
    ],
    delta: Annotated[float, typer.Option(help="New delta that all releases may spend together.")],
    dataset: Annotated[str, typer.Option(help="Which data set.")] = "data",
) -> None:
    """Change the budget of a data set: a new promise to the same people.

    $ shuffledp ledger budget ledger.json --epsilon 2 --delta 1e-6
    """
    from shuffledp.core.privacy import round_up

    with explain_errors():
        ledger = _open(path)
        head = ledger.change_budget(epsilon=epsilon, delta=delta, dataset=dataset)
        tell(
            f"The budget of {dataset!r} is now epsilon = {round_up(epsilon, 6)}, delta = {round_up(delta, 6)}."
        )
        spent = ledger.spent(dataset)
        if spent.epsilon > epsilon or spent.delta > delta:
            tell(
                f"Spent already: epsilon = {round_up(spent.epsilon, 6)}, delta = {round_up(spent.delta, 6)}. That is "
                "more: nothing else can be released."
            )
        tell(f"Head of the ledger, to note elsewhere: {head}")


def _count(events: int) -> str:
    return f"{events:,} event{'s' * (events != 1)}"


def _open(path: Path) -> Ledger:
    if not path.exists():
        raise sdp.LedgerError(f"{path} does not exist")
    return sdp.ledger.Ledger(path)


def _make_record(ledger: Ledger, name: str) -> dict[str, object]:
    return {
        "budget": asdict(ledger.budget(name)),
        "spent": asdict(ledger.spent(name)),
        "releases": [
            {**entry.to_event(), "head": entry.head, "released": entry.released}
            for entry in ledger.entries(name)
        ],
    }


def _print(ledger: Ledger, name: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from shuffledp.core.display import shorten_label
    from shuffledp.core.privacy import round_up

    limit, total = ledger.budget(name), ledger.spent(name)
    table = Table(title=escape(f"data set {shorten_label(name)}"))
    for heading in ("time", "what", "epsilon", "delta", "state"):
        table.add_column(heading, justify="right" if heading in ("epsilon", "delta") else "left")
    for entry in ledger.entries(name):
        price = entry.charge
        table.add_row(
            entry.time.replace("+00:00", "Z"),
            escape(_name_release(entry)),
            round_up(price.epsilon, 6),
            round_up(price.delta, 3),
            "released" if entry.released else "charged",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"Spent: epsilon {round_up(total.epsilon, 6)} of {round_up(limit.epsilon, 6)}, "
        f"delta {round_up(total.delta, 3)} of {round_up(limit.delta, 6)} ({total.rule})."
    )


def _name_release(entry: Entry) -> str:
    from shuffledp.core.display import shorten_label

    known = [str(entry.note[key]) for key in ("task", "column", "what") if entry.note.get(key)]
    return shorten_label(" of ".join(known) or entry.guarantee.model.value)
