"""Curves: delta against epsilon, one line for each bound; and error against n, one line for each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shuffledp.core.errors import UnsupportedError
from shuffledp.plots.style import COLOURS, FAINT, INK, colour_of, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["error_curves", "privacy_curves"]

Line: TypeAlias = Sequence[tuple[int, float, str]]
"""(n, error, protocol), by growing n."""

_POINTS = 120
_LOWEST = 1e-14
_APART = 0.1  # of the height, between two names
_LONG = 8  # points that a part of a line has room for its name
_NARROW = 100.0  # largest / smallest error, below which powers of ten are too few for the axis


def privacy_curves(
    curves: Mapping[str, Callable[[float], float]], path: Path, *, largest: float, title: str
) -> Path:
    """Draw delta(epsilon) for epsilon from 0 to `largest`, delta on a logarithmic scale.

    >>> import math, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "curve.png"
    >>> privacy_curves({"some bound": lambda e: math.exp(-e)}, path, largest=3.0, title="A curve").name
    'curve.png'
    """
    figure = new_figure(7.6, 4.6)
    axes = figure.subplots()
    epsilons = np.linspace(0, largest, _POINTS)
    for index, (name, delta) in enumerate(curves.items()):
        values = np.array([delta(epsilon) for epsilon in epsilons])
        seen = np.where(values >= _LOWEST, values, np.nan)
        axes.plot(epsilons, seen, lw=2, color=COLOURS[index % len(COLOURS)], label=name)
    axes.set_yscale("log")
    axes.set_xlabel("epsilon", color=INK)
    axes.set_ylabel("delta (an upper bound)", color=INK)
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=12)
    axes.grid(color=FAINT, lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    return save(figure, path)


def error_curves(
    lines: Mapping[str, Line],
    path: Path,
    *,
    title: str,
    subtitle: str,
    ylabel: str,
    chosen: tuple[int, float, str],
) -> Path:
    """Draw error against n, both logarithmic; `lines` are by model, `chosen` is (n, error, protocol).

    The suffix of `path` chooses the format: .png, .svg or .pdf.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "plan.png"
    >>> line = [(10, 3.0, "rr"), (1000, 30.0, "rr")]
    >>> error_curves({"local": line}, path, title="A plan", subtitle="one bit", ylabel="RMSE",
    ...              chosen=(100, 10.0, "rr")).name
    'plan.png'
    """
    if not any(lines.values()):
        raise UnsupportedError("there is no curve to draw")
    figure = new_figure(8.6, 5.0)
    axes = figure.subplots()
    figure.subplots_adjust(left=0.1, right=0.8, top=0.82, bottom=0.12)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for model, line in lines.items():
        _draw(axes, model, line)
    _mark(axes, chosen)
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.5, high * 1.5)
    _number(axes)
    _name(axes, lines)
    axes.set_xlabel("users", color=INK)
    axes.set_ylabel(ylabel, color=INK)
    axes.grid(color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.text(0.03, 0.94, title, fontsize=13.5, fontweight="bold", color=INK)
    figure.text(0.03, 0.885, subtitle, fontsize=10, color=INK)
    return save(figure, path)


def _draw(axes: Axes, model: str, line: Line) -> None:
    """One colour for the model, a step and a name wherever another protocol takes over."""
    style: dict[str, Any] = {"color": colour_of(model, 0), "lw": 2.4}
    if model == "central":  # often just under the line of the shuffle model
        style |= {"ls": (0, (4, 2)), "zorder": 3}
    for part in _by_protocol(line):
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


def _number(axes: Axes) -> None:
    """1, 2, 5, 10, ... where powers of ten alone would be too few."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.get_ylim()
    if high / low < _NARROW:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())


def _name(axes: Axes, lines: Mapping[str, Line]) -> None:
    """Model and protocol right of the end of each line, moved apart where they would overlap."""
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


def _by_protocol(line: Line) -> list[list[tuple[int, float, str]]]:
    parts: list[list[tuple[int, float, str]]] = []
    for point in line:
        if parts and parts[-1][-1][2] == point[2]:
            parts[-1].append(point)
        else:
            parts.append([point])
    return parts
