"""What a user of the command line sees when something is wrong: one sentence, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

import shuffledp as sdp

__all__ = ["explained"]


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error that the library raises on purpose into a message and exit code 2.

    >>> try:
    ...     with explained():
    ...         raise sdp.ParameterError("epsilon", -1.0, "must be > 0")
    ... except typer.Exit as stop:
    ...     stop.exit_code
    2
    """
    try:
        yield
    except (sdp.ShuffledpError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
