"""`shuffledp demo`: one histogram, two kinds of trust, the same epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

import shuffledp as sdp
from shuffledp.cli._failures import explained

if TYPE_CHECKING:
    from rich.console import Console

    from shuffledp.core.estimate import Estimate
    from shuffledp.samples import Sample

__all__ = ["demo"]

_LEVEL = 0.95
_REPLACE_ONE = 2  # replacing one person's value lowers one bin by 1 and raises another by 1


def demo(
    n: Annotated[int, typer.Option(help="How many people.")] = 100_000,
    epsilon: Annotated[float, typer.Option(help="Privacy of each estimate, above 0.")] = 1.0,
    seed: Annotated[
        int | None,
        typer.Option(help="Make the noise reproducible, and so no protection. Default: secure."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo"),
) -> None:
    """Estimate how people get to work, with a trusted curator and without."""
    from rich.console import Console

    console = Console()
    with explained():
        rng = sdp.SecureWords() if seed is None else sdp.SeededWords(seed)
        with console.status("drawing people and adding noise"):
            people = sdp.samples.commuters(n)
            k = people.domain.k
            curator = sdp.mechanisms.geometric.make(k=k, sensitivity=_REPLACE_ONE, epsilon=epsilon)
            central = curator.release(people.counts, rng)
            protocol = sdp.protocols.krr.make_local(k=k, epsilon=epsilon)
            local = sdp.run(protocol, people.codes, rng)
        _print_table(console, people, central, local, epsilon)
        with console.status("drawing the picture"):
            path = _draw(people, central, local, epsilon, out / "histogram.png")
    console.print(f"The picture is in [bold]{path}[/bold].", highlight=False)


def _print_table(
    console: Console, people: Sample, central: Estimate, local: Estimate, epsilon: float
) -> None:
    from rich.table import Table

    table = Table(
        title=f"{people.title}, epsilon = {epsilon:g}",
        caption=f"each estimate with its {_LEVEL:.0%} interval",
    )
    table.add_column("")
    table.add_column("true", justify="right")
    for name in ("central", "local"):
        table.add_column(name, justify="right")
        table.add_column(f"{_LEVEL:.0%} interval", justify="right", style="dim")
    columns = [*_cells(central), *_cells(local)]
    for row, (label, count) in enumerate(zip(people.domain.labels, people.counts, strict=True)):
        table.add_row(label, f"{count:,}", *(column[row] for column in columns))
    console.print(table)


def _cells(estimate: Estimate) -> tuple[list[str], list[str]]:
    low, high = map(np.atleast_1d, estimate.interval(_LEVEL))
    values = [f"{value:,.0f}" for value in np.atleast_1d(estimate.value)]
    ends = [f"{a:,.0f} .. {b:,.0f}" for a, b in zip(low, high, strict=True)]
    return values, ends


def _draw(people: Sample, central: Estimate, local: Estimate, epsilon: float, path: Path) -> Path:
    ratio = _mean_radius(local) / _mean_radius(central)
    return sdp.plots.compare_histograms(
        people.counts,
        {
            "central: a trusted curator adds noise": central,
            "local: every person adds noise": local,
        },
        path,
        labels=people.domain.labels,
        title=f"Same epsilon ({epsilon:g}), different trust: trusting nobody costs {ratio:,.0f} times the error",
        subtitle=f"{people.title}. Colour: the estimate with its {_LEVEL:.0%} interval; "
        f"grey: the truth.\n{_moral(people, central, local)}",
        level=_LEVEL,
    )


def _moral(people: Sample, central: Estimate, local: Estimate) -> str:
    """What the picture shows about the smallest group."""
    rare = int(np.argmin(people.counts))
    group = f"the smallest group, {people.domain.labels[rare]} ({people.counts[rare]:,})"
    seen = [np.atleast_1d(estimate.interval(_LEVEL).low)[rare] > 0 for estimate in (central, local)]
    if seen == [True, False]:
        return f"The curator sees {group}; in the local model it is lost in the noise."
    return f"Look at {group}: its intervals say what can be seen of it."


def _mean_radius(estimate: Estimate) -> float:
    low, high = estimate.interval(_LEVEL)
    return float(np.mean(np.subtract(high, low))) / 2
