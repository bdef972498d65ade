"""`shuffledp tally`: the analyzer's first half, from messages to integers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli._failures import explained
from shuffledp.cli._options import ForceOption
from shuffledp.cli._output import staged

__all__ = ["tally"]


def tally(
    files: Annotated[list[str], typer.Argument(help="Messages that `randomize` wrote.")],
    out: Annotated[Path, typer.Option(help="The tally, as JSON.")],
    force: ForceOption = False,
) -> None:
    """Count messages. Tallies of several files add, if they belong to the same protocol."""
    from shuffledp.engine.messages import tally_file
    from shuffledp.engine.tallies import write_tally

    with explained(), staged([out], force=force) as outputs:
        collected = tally_file(files)
        write_tally(collected, outputs[out])
        outputs.publish()
        people = f"{collected.tally.users:,} people"
        typer.echo(f"{collected.protocol.name}: the tally of {people} is in {out}.")
