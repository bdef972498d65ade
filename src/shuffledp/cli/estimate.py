"""`shuffledp estimate`: the analyzer's second half, from integers to the answer."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._options import OutputOptions, check_targets, spread
from shuffledp.cli._terminal import (
    explain_errors,
    keep_inputs,
    print_answer,
    stage_outputs,
    write_answer,
)


@spread
def estimate(
    tallies: Annotated[
        list[Path], typer.Argument(help="Tallies of disjoint groups of people, to be added.")
    ],
    output: OutputOptions,
    honest: Annotated[
        float | None,
        typer.Option(
            help="Share of the people of each shuffle whose noise the guarantee relies on; default: as planned.",
            rich_help_panel="Privacy",
        ),
    ] = None,
) -> None:
    """Estimate the answer from tallies, with standard errors and intervals.

    The guarantee is that of the smallest shuffle: whoever has the tallies sees each of them by itself.

    $ shuffledp estimate tally.json
    """
    with explain_errors():
        targets = [output.out, output.plot]
        keep_inputs(targets, tallies)
        with stage_outputs(targets, force=output.force) as outputs:
            total = _count_on(sdp.engine.read_tallies(tallies), honest)
            several = total.form is not None and total.form.title is not None
            check_targets(output, survey=several)
            files = tuple(map(str, tallies))
            answer = (
                sdp.SurveyAnswer.of(total, level=output.level)
                if several
                else sdp.Answer.of(total, level=output.level, files=files)
            )
            write_answer(answer, outputs, out=output.out, plot=output.plot)
            outputs.publish()
            print_answer(answer, **output.shown)


def _count_on(total: sdp.engine.Collected, honest: float | None) -> sdp.engine.Collected:
    if honest is not None and total.protocol.users is None:
        raise sdp.UnsupportedError(
            f"{total.protocol.name} relies on nobody's noise: leave out --honest"
        )
    return replace(total, honest=honest)
