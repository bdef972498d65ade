"""`shuffledp estimate`: the analyzer's second half, from integers to the answer."""

from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._options import OutputOptions, spread
from shuffledp.cli._survey import estimate_survey
from shuffledp.cli._terminal import (
    check_picture,
    check_result,
    explain_errors,
    keep_inputs,
    print_answer,
    stage_outputs,
    write_answer,
)

__all__ = ["estimate"]


@spread
def estimate(
    tallies: Annotated[list[Path], typer.Argument(help="Tallies of disjoint groups: they add.")],
    output: OutputOptions,
) -> None:
    """Estimate the answer that tallies give together, with standard errors and intervals.

    $ shuffledp estimate tally.json
    """
    with explain_errors():
        check_result(output.out)
        check_picture(output.plot, force=output.force, page=True)
        targets = [output.out, output.plot]
        keep_inputs(targets, tallies)
        with stage_outputs(targets, force=output.force) as outputs:
            total = sdp.engine.read_tallies(tallies)
            if total.form is not None and total.form.title is not None:
                estimate_survey(total, output, outputs)
                return
            answer = sdp.Answer.of(total, level=output.level, files=tuple(map(str, tallies)))
            write_answer(answer, outputs, out=output.out, plot=output.plot)
            outputs.publish()
            print_answer(answer, **output.shown)
