"""`shuffledp demo`: three questions, three kinds of trust, the same epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import shuffledp as sdp
from shuffledp.cli._options import SeedOption
from shuffledp.cli._terminal import check_folder, draw_bars, explain_errors, is_quiet
from shuffledp.core.display import Number, count_decimals, format_ends, format_number, list_numbers

if TYPE_CHECKING:
    from rich.console import Console

    from shuffledp.lab.samples import Sample, SurveySample

_LEVEL = 0.95
_REPLACE_ONE = 2  # replacing one person's value lowers one bin by 1 and raises another by 1
_WIDEST = 100
_IN_FILE = 50_000  # people in the file that the demo leaves behind
_MOST_DECIMALS = 4  # the table fits into 80 columns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """The true answer to a question, and what each model says."""

    task: str
    truth: list[float]
    labels: tuple[str, ...]
    estimates: dict[str, sdp.Estimate]
    protocol: str

    def table(self, model: str) -> list[Number]:
        return list_numbers(self.estimates[model], _LEVEL)

    def error(self, model: str) -> float:
        """Return half the width of an interval, averaged over the bins."""
        return sum(row.high - row.low for row in self.table(model)) / 2 / len(self.truth)

    @property
    def worth(self) -> float:
        """How many times more accurate a shuffler is than trusting nobody."""
        return self.error("local") / self.error("shuffle")


def demo(
    n: Annotated[int, typer.Option(help="How many people.")] = 1_000_000,
    epsilon: Annotated[float, typer.Option(help="Privacy of each estimate, above 0.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Delta of the shuffle model.")] = 1e-8,
    seed: SeedOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the file.")] = Path("demo"),
) -> None:
    """Ask made-up people how they get to work: with a trusted curator, a shuffler, or neither.

    $ shuffledp demo --n 20000 --epsilon 0.5
    """
    from rich.console import Console

    console = Console(highlight=False)
    with explain_errors():
        check_folder(out)
        rng = sdp.SecureWords() if seed is None else sdp.SeededWords(seed)
        with console.status("drawing people and adding noise"):
            people = sdp.samples.survey(n)
            answers = list(_ask(people, epsilon, delta, rng))
        _print_table(console, n, epsilon, answers)
        if not is_quiet():
            _print_chart(console, answers)
        with console.status("drawing the picture"):
            path = _draw(people.way, answers[-1], epsilon, out / "histogram.png")
        table = sdp.samples.survey(min(n, _IN_FILE)).write_csv(out / "people.csv")
        events = sdp.samples.trips().write_csv(out / "trips.csv")
    if is_quiet():
        return
    console.print(
        f"The picture is in [bold]{path}[/bold], and there are files to try things on: [bold]{table}[/bold], with a "
        f"row for each person, and [bold]{events}[/bold], with many rows for some."
    )


def _ask(
    people: SurveySample, epsilon: float, delta: float, rng: sdp.WordSource
) -> Iterator[_Answers]:
    n, domain, way = len(people.home), people.minutes_domain, people.way
    reach, k = domain.upper - domain.lower, way.domain.k
    ends: dict[str, Any] = {"lower": domain.lower, "upper": domain.upper}
    private: dict[str, Any] = {"epsilon": epsilon}
    shuffle: dict[str, Any] = {"n": n, "epsilon": epsilon, "delta": delta}
    central, local = sdp.mechanisms, sdp.protocols

    def answer(
        task: str, labels: tuple[str, ...], exact: Any, values: Any, *makers: Any
    ) -> _Answers:
        curator, shuffled, alone = makers
        estimates = {
            "central": curator.release(exact, rng),
            "shuffle": sdp.run(shuffled, values, rng),
            "local": sdp.run(alone, values, rng),
        }
        truth = np.atleast_1d(exact).tolist()
        return _Answers(
            task=task, truth=truth, labels=labels, estimates=estimates, protocol=shuffled.name
        )

    yield answer(
        "How many want to work at home",
        ("home: yes",),
        int(people.home.sum()),
        people.home,
        central.geometric.make(sensitivity=1, **private),
        sdp.count(**shuffle),
        local.rr.make_local(**private),
    )
    yield answer(
        "How many minutes to work, on average",
        ("minutes",),
        float(people.minutes.mean()),
        people.minutes,
        central.laplace.make(sensitivity=reach / n, **private),
        sdp.mean(**shuffle, **ends),
        local.hybrid.make_local(steps=reach, **private, **ends),
    )
    yield answer(
        "How many go by each means",
        way.domain.labels,
        way.counts,
        way.codes,
        central.geometric.make(k=k, sensitivity=_REPLACE_ONE, **private),
        sdp.histogram(k=k, **shuffle),
        local.krr.make_local(k=k, **private),
    )


def _print_table(console: Console, n: int, epsilon: float, answers: list[_Answers]) -> None:
    from rich.table import Table

    table = Table(
        title=f"{n:,} people on their way to work, epsilon = {epsilon:g} for each question",
        caption=f"each estimate with half the width of its {_LEVEL:.0%} interval",
    )
    table.add_column("", no_wrap=True)
    table.add_column("true", justify="right", no_wrap=True)
    for name in ("central", "shuffle", "local"):
        table.add_column(name, justify="right", no_wrap=True)
    for answer in answers:
        columns = [_format_cells(answer.table(name)) for name in answer.estimates]
        places = _count_places(answer.table("shuffle"))
        for place, label in enumerate(answer.labels):
            cells = (column[place] for column in columns)
            table.add_row(label, format_number(answer.truth[place], places), *cells)
        table.add_section()
    console.print(table)


def _format_cells(table: list[Number]) -> list[str]:
    places = _count_places(table)
    return [
        f"{format_number(row.value, places)} ± {format_ends(0.0, (row.high - row.low) / 2, places)[1]}"
        for row in table
    ]


def _count_places(table: list[Number]) -> int:
    return min(_MOST_DECIMALS, count_decimals(table))


def _print_chart(console: Console, answers: list[_Answers]) -> None:
    """Print how far off each model is, which shows what the shuffler is worth."""
    trust = {"central": "a curator", "shuffle": "a shuffler", "local": "nobody"}
    for answer in answers:
        console.print(f"\n[bold]{answer.task}[/bold]: how far off, if people trust ...")
        drawn = [
            Number(trust[name], error, error, error, error)
            for name, error in ((name, answer.error(name)) for name in trust)
        ]
        for line in draw_bars(drawn, min(_WIDEST, console.width)):
            console.print(line, soft_wrap=True)
    protocols = ", ".join(answer.protocol for answer in answers)
    console.print(
        f"\nA shuffler that forgets who sent what makes the histogram {answers[-1].worth:,.0f} times more accurate "
        f"than trusting nobody, and still nobody sees raw answers. Protocols: {protocols}."
    )


def _draw(people: Sample, answers: _Answers, epsilon: float, path: Path) -> Path:
    titles = {
        "central": "central: trust a curator",
        "shuffle": "shuffle: trust a shuffler",
        "local": "local: trust nobody",
    }
    estimates = answers.estimates
    return sdp.show.compare_errors(
        people.counts,
        {titles[name]: estimate for name, estimate in estimates.items()},
        path,
        labels=people.domain.labels,
        title=f"Same epsilon ({epsilon:g}), different trust: forgetting who sent what is worth "
        f"a factor of {answers.worth:,.0f} in error",
        subtitle=f"{people.title}. Grey: the truth; colour: how far off each estimate is, "
        f"with its {_LEVEL:.0%} interval.\n{_state_moral(people, estimates)}",
        level=_LEVEL,
    )


def _state_moral(people: Sample, estimates: dict[str, sdp.Estimate]) -> str:
    """Return what the picture shows about the smallest group."""
    rare = int(np.argmin(people.counts))
    group = f"the smallest group, {people.domain.labels[rare]} ({people.counts[rare]:,})"
    seen = {
        name: bool(np.atleast_1d(estimate.interval(_LEVEL).low)[rare] > 0)
        for name, estimate in estimates.items()
    }
    if seen["shuffle"] and not seen["local"]:
        return f"Curator and shuffler see {group}; in the local model it is lost in the noise."
    return f"Look at {group}: its intervals show how much of it is visible."
