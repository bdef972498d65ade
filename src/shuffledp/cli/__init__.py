"""The command line: one command per file; each calls the public API only."""

from typing import Annotated

import typer

import shuffledp
from shuffledp.cli._lazy import lazy_group

__all__ = ["app"]

COMMANDS = {
    "run": "Answer a question about a column of files: a count, a sum, a mean or a histogram.",
    "randomize": "Write the messages of everybody in a column: shuffled, and without their senders.",
    "tally": "Count messages. Tallies of several files add, if they belong to the same protocol.",
    "estimate": "The answer that tallies give together, with standard errors and intervals.",
    "ledger": "Show or verify a budget ledger, or change a budget.",
    "plan": "Every protocol for a question, ranked by its exact error, with its cost.",
    "lab": "Check by computation what the literature states, and write report/index.html.",
    "demo": "Ask people about their way to work: with a trusted curator, with a shuffler, with neither.",
    "amplify": "The (epsilon, delta) of n shuffled messages, one from each person.",
    "calibrate": "The largest epsilon0 with which n shuffled messages are (epsilon, delta)-private.",
}
"""Each command is the module of its name; the line is what the help says about it."""

app = typer.Typer(
    name="shuffledp",
    cls=lazy_group(COMMANDS),
    help="Differential privacy in the shuffle model.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,  # local variables may hold people's data
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shuffledp {shuffledp.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Differential privacy in the shuffle model."""
