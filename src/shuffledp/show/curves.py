"""Curves: delta against epsilon, one line for each bound; and error against n, one line for each model."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shuffledp.core.errors import UnsupportedError
from shuffledp.show.style import (
    COLOURS,
    FAINT,
    INK,
    MORE_COLOURS,
    colour_of,
    foot,
    new_figure,
    save,
    wrap_notes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Line: TypeAlias = Sequence[tuple[int, float, str]]
"""(n, error, protocol), by growing n."""
Points: TypeAlias = Sequence[tuple[float, float]]
"""(epsilon, delta)."""

_POINTS = 120
_LOWEST = 1e-14
_APART = 0.1  # of the height, between two names
_LONG = 8  # points that a part of a line has room for its name
_TITLE = 74  # letters of a line of the title
_NARROW = 100.0  # largest / smallest error, below which powers of ten are too few for the axis


def privacy_curves(
    curves: Mapping[str, Callable[[float], float] | Points],
    path: Path,
    *,
    largest: float,
    smallest: float = 0.0,
    title: str,
    notes: Sequence[str] = (),
    dashed: Collection[str] = (),
    mark: tuple[float, float] | None = None,
) -> Path:
    """Draw delta(epsilon) for epsilon from `smallest` to `largest`, delta on a logarithmic scale.

    So is epsilon if `smallest` is above 0, for bounds that are far apart.

    A curve is a function, or points (epsilon, delta) where a formula goes the other way. Those named in `dashed` are no
    guarantees; `mark` is the (epsilon, delta) that was asked for; notes are in small print below.

    >>> import math, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "curve.png"
    >>> privacy_curves({"some bound": lambda e: math.exp(-e)}, path, largest=3.0, title="A curve").name
    'curve.png'
    """
    many = len(curves) > len(COLOURS)
    width = 9.6 if many else 7.6
    small = wrap_notes(notes, width)
    figure = new_figure(width, 4.6 + 0.14 * len(small))
    axes = figure.subplots()
    palette = MORE_COLOURS if many else COLOURS
    for index, (name, curve) in enumerate(curves.items()):
        colour = palette[index % len(palette)]
        style = "--" if name in dashed else ("-", "-.")[index // len(palette) % 2]
        axes.plot(*_trace(curve, smallest, largest), lw=2, color=colour, ls=style, label=name)
    axes.set_yscale("log")
    if smallest > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_xlim(smallest or -0.02 * largest, 1.02 * largest)
    axes.set_ylim(_LOWEST / 3, 2)
    axes.set_xlabel("epsilon", color=INK)
    axes.set_ylabel("delta (an upper bound)", color=INK)
    if mark is not None:
        axes.plot(*([end] for end in mark), "o", ms=9, mfc="white", mec=INK, mew=2, zorder=5)
    axes.grid(color=FAINT, lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    if many:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8.5)
    else:
        axes.legend(frameon=False)
    height = figure.get_size_inches()[1]
    figure.tight_layout(rect=(0, (0.14 * len(small) + 0.1 * bool(small)) / height, 1, 1 - 0.5 / height))  # fmt: skip
    figure.text(0.02, 1 - 0.2 / height, title, fontsize=12.5, fontweight="bold", color=INK, va="top")  # fmt: skip
    foot(figure, small)
    return save(figure, path)


def _trace(
    curve: Callable[[float], float] | Points, smallest: float, largest: float
) -> tuple[Any, Any]:
    if callable(curve):
        spread = np.geomspace if smallest > 0 else np.linspace
        epsilons = spread(smallest, largest, _POINTS)
        values = np.array([curve(epsilon) for epsilon in epsilons])
    else:
        epsilons, values = np.array(sorted(curve), dtype=np.float64).reshape(-1, 2).T
    return epsilons, np.where(values >= _LOWEST, values, np.nan)


def error_curves(
    lines: Mapping[str, Line],
    path: Path,
    *,
    title: str,
    subtitle: str,
    ylabel: str,
    chosen: tuple[int, float, str],
    rows: Sequence[tuple[str, str, float]] = (),
    costs: Mapping[tuple[str, str], str] | None = None,
) -> Path:
    """Draw error against n, both logarithmic; `lines` are by model, `chosen` is (n, error, protocol).

    With `rows`, (model, protocol, error) at the n of the choice, a panel below has a dot for each of them, and beside
    it what it costs: `costs` by (model, protocol). The suffix of `path` chooses the format: .png, .svg or .pdf.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "plan.png"
    >>> line = [(10, 3.0, "rr"), (1000, 30.0, "rr")]
    >>> error_curves({"local": line}, path, title="A plan", subtitle="one bit", ylabel="RMSE",
    ...              chosen=(100, 10.0, "rr")).name
    'plan.png'
    """
    if not any(lines.values()):
        raise UnsupportedError("there is no curve to draw")
    heads = textwrap.wrap(title, _TITLE)
    top = 0.7 + 0.25 * len(heads)  # inches, as all that follows
    below = 1.75 + 0.19 * max(len(rows), 4) if rows else 0.6
    width, high = 8.8, top + 3.45 + below
    figure = new_figure(width, high)
    axes = figure.add_axes((0.9 / width, below / high, 5.9 / width, 3.45 / high))
    axes.set_xscale("log")
    axes.set_yscale("log")
    for model, line in lines.items():
        _draw(axes, model, line)
    _mark(axes, chosen)
    low, most = axes.get_ylim()
    axes.set_ylim(low / 1.5, most * 1.5)
    _set_ticks(axes.yaxis, axes.get_ylim())
    _write_names(axes, lines)
    axes.set_xlabel("users", color=INK)
    axes.set_ylabel(ylabel, color=INK)
    _quieten(axes)
    if rows:
        table = figure.add_axes((2.3 / width, 0.6 / high, 4.5 / width, (below - 1.75) / high))
        _draw_rows(table, rows, chosen, ylabel, costs or {})
    figure.text(0.25 / width, 1 - 0.15 / high, "\n".join(heads), fontsize=13.5, fontweight="bold", color=INK, va="top")  # fmt: skip
    figure.text(0.25 / width, 1 - (0.45 + 0.25 * (len(heads) - 1)) / high, subtitle, fontsize=10, color=INK, va="top")  # fmt: skip
    return save(figure, path)


def _quieten(axes: Axes) -> None:
    axes.grid(color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_rows(
    axes: Axes,
    rows: Sequence[tuple[str, str, float]],
    chosen: tuple[int, float, str],
    ylabel: str,
    costs: Mapping[tuple[str, str], str],
) -> None:
    """Draw every protocol that is available at the n that was asked for, the best at the top."""
    ranked = sorted(rows, key=lambda row: row[2])
    picked = next(
        (place for place, row in enumerate(ranked) if row[1:] == (chosen[2], chosen[1])), None
    )
    for place, (model, _, error) in enumerate(ranked):
        ring: dict[str, Any] = {"mec": INK, "mew": 2.0} if place == picked else {}
        axes.plot([error], [place], "o", ms=7, color=colour_of(model, 0), **ring)
    axes.set_yticks(range(len(ranked)), [name for _, name, _ in ranked], fontsize=8)
    for place, (label, (model, _, _)) in enumerate(
        zip(axes.get_yticklabels(), ranked, strict=True)
    ):
        label.set_color(colour_of(model, 0))
        label.set_fontweight("bold" if place == picked else "normal")
    axes.set_ylim(len(ranked) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.tick_params(axis="y", length=0)
    small: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "color": INK}
    for place, (model, name, _) in enumerate(ranked):
        axes.text(1.03, place, costs.get((model, name), ""), fontsize=7.5, **small)
    if costs:  # beside the title, however many rows there are
        axes.annotate("a live report:\nbytes, people it can move", (1.03, 1), xytext=(0, 6), xycoords="axes fraction",
                      textcoords="offset points", va="bottom", fontsize=7.5, color=INK)  # fmt: skip
    _set_ticks(axes.xaxis, axes.get_xlim())
    axes.set_xlabel(ylabel, color=INK, fontsize=9)
    axes.set_title(f"every protocol, {chosen[0]:,} users", loc="left", fontsize=10.5, color=INK)
    _quieten(axes)


def _draw(axes: Axes, model: str, line: Line) -> None:
    """Draw a line in the model's colour, with a step and a name wherever another protocol takes over."""
    style: dict[str, Any] = {"color": colour_of(model, 0), "lw": 2.4}
    if model == "central":  # often just under the line of the shuffle model
        style |= {"ls": (0, (4, 2)), "zorder": 3}
    for part in _split_by_protocol(line):
        points = np.array([(n, error) for n, error, _ in part])
        axes.plot(points[:, 0], points[:, 1], **style)
        if part[-1] != line[-1] and len(part) >= _LONG:
            axes.annotate(
                part[-1][2], points[len(points) // 2], xytext=(4, 6), textcoords="offset points",
                fontsize=8.5, color=style["color"],
            )  # fmt: skip


def _mark(axes: Axes, chosen: tuple[int, float, str]) -> None:
    n, error, name = chosen
    axes.plot([n], [error], "o", ms=10, mfc="white", mec=INK, mew=2.2, zorder=5)
    axes.annotate(
        f"chosen: {name}", (n, error), xytext=(8, 10), textcoords="offset points", fontsize=10,
        color=INK, fontweight="bold",
    )  # fmt: skip


def _set_ticks(axis: Axis, limits: tuple[float, float]) -> None:
    """Tick 1, 2, 5, 10, ... where powers of ten alone would be too few."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = limits
    if high / low < _NARROW:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(lambda x, _: f"{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _write_names(axes: Axes, lines: Mapping[str, Line]) -> None:
    """Write model and protocol right of the end of each line, moved apart where they would overlap."""
    low, high = np.log(axes.get_ylim())
    ends = sorted(
        ((np.log(line[-1][1]) - low) / (high - low), model, line[-1][2])
        for model, line in lines.items()
        if line
    )
    floor = _APART / 2
    for height, model, name in ends:
        floor = max(floor, float(height))
        axes.text(
            1.01, floor, f"{model}\n{name}", transform=axes.transAxes, va="center",
            fontsize=9.5, color=colour_of(model, 0),
        )  # fmt: skip
        floor += _APART


def _split_by_protocol(line: Line) -> list[list[tuple[int, float, str]]]:
    parts: list[list[tuple[int, float, str]]] = []
    for point in line:
        if parts and parts[-1][-1][2] == point[2]:
            parts[-1].append(point)
        else:
            parts.append([point])
    return parts
