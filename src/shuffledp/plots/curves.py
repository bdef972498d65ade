"""Privacy curves: delta against epsilon, one line for each bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from shuffledp.plots.style import COLOURS, FAINT, INK, new_figure, save

__all__ = ["privacy_curves"]

_POINTS = 120
_LOWEST = 1e-14


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
