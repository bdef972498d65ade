"""The command line: one command per file; each calls the public API only."""

from typing import Annotated

import typer

import shuffledp
from shuffledp.cli.amplify import amplify
from shuffledp.cli.calibrate import calibrate
from shuffledp.cli.demo import demo
from shuffledp.cli.lab import lab

__all__ = ["app"]

app = typer.Typer(
    name="shuffledp",
    help="Differential privacy in the shuffle model.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,  # local variables may hold people's data
)
app.command()(demo)
app.command()(amplify)
app.command()(calibrate)
app.command()(lab)


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
