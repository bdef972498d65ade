"""What a user of the command line sees when something is wrong: one sentence, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

import shuffledp as sdp

__all__ = ["REFUSED", "WRONG", "explained"]

WRONG = 2
"""The exit code when something is wrong with what was asked or given."""
REFUSED = 3
"""The exit code when the ledger refuses a release."""


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error that the library raises on purpose into a message and exit code 2, or 3.

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
        typer.echo(f"error: {_sentence(error)}", err=True)
        code = REFUSED if isinstance(error, sdp.BudgetError) else WRONG
        raise typer.Exit(code) from error
    except MemoryError as error:
        typer.echo("error: this needs more memory than there is: ask for less at once", err=True)
        raise typer.Exit(WRONG) from error
    except ArithmeticError as error:
        said = f"{type(error).__name__}: {_sentence(error)}"
        typer.echo(f"error: these numbers are too extreme to compute with ({said})", err=True)
        raise typer.Exit(WRONG) from error


def _sentence(error: Exception) -> str:
    """The message, without line breaks or control characters of values, and not endless."""
    from shuffledp.core.display import short

    return short(str(error), 2000)
