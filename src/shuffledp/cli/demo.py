"""`shuffledp demo`: one histogram, three kinds of trust, the same epsilon."""

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
    delta: Annotated[float, typer.Option(help="Delta of the shuffle model.")] = 1e-8,
    seed: Annotated[
        int | None,
        typer.Option(help="Make the noise reproducible, and so no protection. Default: secure."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo"),
) -> None:
    """Estimate how people get to work: with a trusted curator, with a shuffler, with neither."""
    from rich.console import Console

    console = Console()
    with explained():
        rng = sdp.SecureWords() if seed is None else sdp.SeededWords(seed)
        with console.status("drawing people and adding noise"):
            people = sdp.samples.commuters(n)
            k = people.domain.k
            curator = sdp.mechanisms.geometric.make(k=k, sensitivity=_REPLACE_ONE, epsilon=epsilon)
            shuffled = sdp.histogram(n=n, k=k, epsilon=epsilon, delta=delta)
            local = sdp.protocols.krr.make_local(k=k, epsilon=epsilon)
            estimates = {
                "central": curator.release(people.counts, rng),
                "shuffle": sdp.run(shuffled, people.codes, rng),
                "local": sdp.run(local, people.codes, rng),
            }
        _print_table(console, people, estimates, epsilon)
        console.print(f"Shuffle model, {shuffled.name}: {shuffled.guarantee}.", highlight=False)
        with console.status("drawing the picture"):
            path = _draw(people, estimates, epsilon, out / "histogram.png")
    console.print(f"The picture is in [bold]{path}[/bold].", highlight=False)


def _print_table(
    console: Console, people: Sample, estimates: dict[str, Estimate], epsilon: float
) -> None:
    from rich.table import Table

    table = Table(
        title=f"{people.title}, epsilon = {epsilon:g}",
        caption=f"each estimate with half the width of its {_LEVEL:.0%} interval",
    )
    table.add_column("")
    table.add_column("true", justify="right")
    for name in estimates:
        table.add_column(name, justify="right")
    columns = [_cells(estimate) for estimate in estimates.values()]
    for row, (label, count) in enumerate(zip(people.domain.labels, people.counts, strict=True)):
        table.add_row(label, f"{count:,}", *(column[row] for column in columns))
    console.print(table)


def _cells(estimate: Estimate) -> list[str]:
    pairs = zip(np.atleast_1d(estimate.value), _radii(estimate), strict=True)
    return [f"{value:,.0f} ± {radius:,.0f}" for value, radius in pairs]


def _radii(estimate: Estimate) -> np.ndarray:
    low, high = estimate.interval(_LEVEL)
    return np.atleast_1d(np.subtract(high, low)) / 2


def _draw(people: Sample, estimates: dict[str, Estimate], epsilon: float, path: Path) -> Path:
    titles = {
        "central": "central: trust a curator",
        "shuffle": "shuffle: trust a shuffler",
        "local": "local: trust nobody",
    }
    error = {name: float(np.mean(_radii(estimate))) for name, estimate in estimates.items()}
    return sdp.plots.compare_histograms(
        people.counts,
        {titles[name]: estimate for name, estimate in estimates.items()},
        path,
        labels=people.domain.labels,
        title=f"Same epsilon ({epsilon:g}), different trust: forgetting who sent what is worth "
        f"a factor of {error['local'] / error['shuffle']:,.0f} in error",
        subtitle=f"{people.title}. Colour: the estimate with its {_LEVEL:.0%} interval; "
        f"grey: the truth.\n{_moral(people, estimates)}",
        level=_LEVEL,
    )


def _moral(people: Sample, estimates: dict[str, Estimate]) -> str:
    """What the picture shows about the smallest group."""
    rare = int(np.argmin(people.counts))
    group = f"the smallest group, {people.domain.labels[rare]} ({people.counts[rare]:,})"
    seen = {
        name: bool(np.atleast_1d(estimate.interval(_LEVEL).low)[rare] > 0)
        for name, estimate in estimates.items()
    }
    if seen["shuffle"] and not seen["local"]:
        return f"Curator and shuffler see {group}; in the local model it is lost in the noise."
    return f"Look at {group}: its intervals say what can be seen of it."
