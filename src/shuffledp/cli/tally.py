"""`shuffledp tally`: the analyzer's first half, from messages to integers."""

from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._options import ForceOption
from shuffledp.cli._terminal import explain_errors, stage_outputs, tell


def tally(
    files: Annotated[list[str], typer.Argument(help="Messages that `randomize` wrote.")],
    out: Annotated[Path, typer.Option(help="The tally, as JSON.")],
    force: ForceOption = False,
) -> None:
    """Count messages. Tallies of several files can be added if their protocol is the same.

    $ shuffledp tally messages.parquet --out tally.json
    """
    with explain_errors(), stage_outputs([out], force=force) as outputs:
        collected = sdp.tally_file(files)
        sdp.write_tally(collected, outputs[out])
        outputs.publish()
        people = f"{collected.tally.users:,} people"
        named = collected.protocol.name
        if collected.form is not None and collected.form.title is not None:
            named = collected.form.title
        tell(f"{named}: the tally of {people} is in {out}.")
