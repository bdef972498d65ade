"""`shuffledp lab`: recompute published results, and write a page about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shuffledp.cli._terminal import explain_errors, is_quiet, tell

if TYPE_CHECKING:
    from shuffledp.lab import Record


def lab(
    name: Annotated[str, typer.Argument(help="An experiment, or 'all'.")] = "all",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run fewer trials and points: two minutes for everything."),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("report"),
    list_them: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
) -> None:
    """Recompute what the literature states, and write report/index.html.

    $ shuffledp lab --quick
    """
    from shuffledp import lab as laboratory

    with explain_errors():
        if list_them:
            for each in laboratory.experiments():
                typer.echo(f"{each.name:20} {each.title}")
            return
        effort = laboratory.Effort.QUICK if quick else laboratory.Effort.FULL
        names = _choose(name)
        with _show_progress(len(names)) as finish:
            records = laboratory.run_lab(
                names, effort=effort, out=out, workers=os.cpu_count() or 1, finished=finish
            )
        page = laboratory.write_page(records, effort=effort, out=out)
    _say(records, page)
    if any(record.failure for record in records):
        raise typer.Exit(1)


def _choose(name: str) -> list[str]:
    from shuffledp import lab as laboratory

    if name == "all":
        return [each.name for each in laboratory.experiments()]
    return [laboratory.load(name).name]


@contextmanager
def _show_progress(total: int) -> Iterator[Callable[[Record], None]]:
    """Show each experiment as it finishes; nothing without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if is_quiet() or not console.is_terminal:
        yield lambda _: None
        return
    bar = Progress(
        TextColumn("{task.description:24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task("experiments", total=total)

        def finish(record: Record) -> None:
            bar.update(task, advance=1, description=f"done: {record.name}")

        yield finish


def _say(records: tuple[Record, ...], page: Path) -> None:
    for record in records:
        agree = sum(verdict.agrees for verdict in record.verdicts)
        outcome = "FAILED" if record.failure else f"{agree} of {len(record.verdicts)} agree"
        tell(f"{record.name:20} {outcome:18} {record.seconds:7.1f} s")
        for verdict in record.verdicts:
            if not verdict.agrees:
                tell(f"  differs: {verdict.claim}\n  measured: {verdict.measured}")
    tell(f"The report is in {page}.")
