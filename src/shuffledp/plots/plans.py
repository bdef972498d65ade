"""Error against the number of users, one line for each model, and the chosen point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from shuffledp.core.errors import UnsupportedError
from shuffledp.plots.style import COLOURS, FAINT, GREY, INK, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["error_curves"]

Line: TypeAlias = Sequence[tuple[int, float, str]]
"""(n, error, protocol), by growing n."""

_COLOURS = {"central": GREY, "shuffle": COLOURS[1], "local": COLOURS[0]}


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
    figure.subplots_adjust(left=0.09, right=0.8, top=0.82, bottom=0.12)
    for model, line in lines.items():
        _draw(axes, model, line)
    n, error, name = chosen
    axes.plot([n], [error], "o", ms=10, mfc="white", mec=INK, mew=2.2, zorder=5)
    axes.annotate(
        f"chosen: {name}", (n, error), xytext=(8, 10), textcoords="offset points", fontsize=10,
        color=INK, fontweight="bold",
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.5, high * 1.5)
    axes.set_xlabel("users", color=INK)
    axes.set_ylabel(ylabel, color=INK)
    axes.grid(color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.text(0.03, 0.94, title, fontsize=13.5, fontweight="bold", color=INK)
    figure.text(0.03, 0.885, subtitle, fontsize=10, color=INK)
    return save(figure, path)


def _draw(axes: Axes, model: str, line: Line) -> None:
    """One colour for the model, a break and a name wherever another protocol takes over."""
    colour = _COLOURS.get(model, INK)
    parts = _by_protocol(line)
    for place, part in enumerate(parts):
        # Each part reaches to the start of the next: one line, not several.
        following = parts[place + 1][:1] if place + 1 < len(parts) else []
        points = np.array([(n, error) for n, error, _ in [*part, *following]])
        axes.plot(points[:, 0], points[:, 1], color=colour, lw=2.4)
        if place + 1 < len(parts):
            axes.plot(*points[-1], "|", color=colour, ms=9)
            axes.annotate(
                part[-1][2], points[len(points) // 2], xytext=(0, 7), textcoords="offset points",
                fontsize=8.5, color=colour, ha="center",
            )  # fmt: skip
    if line:
        n, error, name = line[-1]
        axes.annotate(
            f"{model}\n{name}", (n, error), xytext=(7, 0), textcoords="offset points",
            va="center", fontsize=9.5, color=colour, annotation_clip=False,
        )  # fmt: skip


def _by_protocol(line: Line) -> list[list[tuple[int, float, str]]]:
    parts: list[list[tuple[int, float, str]]] = []
    for point in line:
        if parts and parts[-1][-1][2] == point[2]:
            parts[-1].append(point)
        else:
            parts.append([point])
    return parts
