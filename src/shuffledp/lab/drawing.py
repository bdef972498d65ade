"""The house style of the experiments' figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from shuffledp.show.style import COLOURS, FAINT, GREY, INK, PALE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PALE", "PURPLE", "VERMILION", "panels"]

BLUE, VERMILION, GREEN, PURPLE = COLOURS
ORANGE = "#E69F00"

Scale = Literal["linear", "log"]


def panels(
    titles: Sequence[str],
    *,
    x: str,
    y: str | Sequence[str],
    scales: tuple[Scale, Scale] = ("linear", "linear"),
    width: float = 4.6,
    height: float = 3.9,
) -> tuple[Figure, list[Axes]]:
    """Return a row of panels with these titles.

    >>> figure, axes = panels(["one", "two"], x="n", y="error", scales=("log", "log"))
    >>> len(axes), axes[0].get_xscale()
    (2, 'log')
    """
    figure = new_figure(max(6.4, width * len(titles)), height)
    figure.set_layout_engine("constrained")
    row = list(figure.subplots(1, len(titles), squeeze=False)[0])
    names = [y] * len(titles) if isinstance(y, str) else y
    for axes, title, name in zip(row, titles, names, strict=True):
        axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=8)
        axes.set(xscale=scales[0], yscale=scales[1])
        axes.set_xlabel(x, color=INK)
        axes.set_ylabel(name, color=INK)
        axes.grid(color=FAINT, lw=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, row
