"""`shuffledp estimate`: the analyzer's second half, from integers to the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._failures import explained
from shuffledp.cli._options import (
    ExplainOption,
    ForceOption,
    JsonOption,
    LevelOption,
    PlotOption,
)
from shuffledp.cli._output import check_picture, keep_inputs, staged
from shuffledp.cli._results import Result

__all__ = ["estimate"]


def estimate(
    tallies: Annotated[list[Path], typer.Argument(help="Tallies of disjoint groups: they add.")],
    level: LevelOption = 0.95,
    as_json: JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the JSON result to this file.", rich_help_panel="Output"),
    ] = None,
    plot: PlotOption = None,
    explain: ExplainOption = False,
    force: ForceOption = False,
) -> None:
    """The answer that tallies give together, with standard errors and intervals."""
    from shuffledp.engine.tallies import read_tally

    with explained():
        sdp.core.validate.level(level)
        check_picture(plot)
        _check_distinct(tallies)
        keep_inputs([out, plot], tallies)
        with staged([out, plot], force=force) as outputs:
            parts = [read_tally(path) for path in tallies]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            result = Result(
                protocol=total.protocol,
                estimate=total.estimate,
                n=total.tally.users,
                level=level,
                files=[str(path) for path in tallies],
            )
            if out is not None:
                outputs[out].write_text(result.text() + "\n", encoding="utf-8")
            if plot is not None:
                result.draw(outputs[plot])
            outputs.publish()
            result.print(as_json=as_json, explain=explain)


def _check_distinct(paths: list[Path]) -> None:
    seen = [path.resolve() for path in paths]
    if len(set(seen)) < len(seen):
        raise sdp.UnsupportedError("a tally is named twice: the same people would count twice")
