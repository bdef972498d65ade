"""How far off estimates of one histogram are, side by side on one scale."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.estimate import Estimate
from shuffledp.plots.histograms import annotate, check, draw_truth, number, style
from shuffledp.plots.style import COLOURS, INK, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["compare_errors"]


def compare_errors(
    truth: ArrayLike,
    estimates: Mapping[str, Estimate],
    path: Path,
    *,
    labels: tuple[str, ...],
    title: str,
    subtitle: str = "",
    level: float = 0.95,
) -> Path:
    """Draw the true histogram, and beside it by how much each estimate misses each bin.

    All panels of errors share one scale, so one look tells the models apart where the bins are so
    large that the estimates themselves look alike. Lines are intervals, moved by the truth.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> protocol = sdp.protocols.krr.make_local(k=2, epsilon=1.0)
    >>> estimate = sdp.run(protocol, [0, 0, 1] * 1000)
    >>> path = Path(tempfile.mkdtemp()) / "pets.png"
    >>> compare_errors([2000, 1000], {"local": estimate}, path, labels=("cat", "dog"),
    ...                title="Pets").name
    'pets.png'
    """
    counts = np.asarray(truth, dtype=np.float64)
    check(counts, estimates, labels)
    panels = 1 + len(estimates)
    width, height = 1.3 + 3.4 * panels, 2.3 + 0.36 * len(counts)  # inches, as all that follows
    figure = new_figure(width, height)
    axes = list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])
    figure.subplots_adjust(
        left=1.1 / width, right=0.98, top=1 - 1.6 / height, bottom=0.5 / height, wspace=0.08
    )
    figure.text(0.2 / width, 1 - 0.4 / height, title, fontsize=16, fontweight="bold", color=INK)
    figure.text(
        0.2 / width, 1 - 0.55 / height, subtitle, fontsize=10.5, color=INK, va="top", linespacing=1.5
    )  # fmt: skip
    for panel in axes:
        style(panel)
    axes[0].invert_yaxis()
    draw_truth(axes[0], counts, labels)
    axes[0].set_xlim(0, 1.35 * max(1.0, float(counts.max())))
    reach = 0.0
    for index, (name, estimate) in enumerate(estimates.items()):
        colour = COLOURS[index % len(COLOURS)]
        reach = max(reach, _draw(axes[1 + index], name, estimate, counts, level, colour))
    for panel in axes[1:]:
        panel.set_xlim(-1.1 * (reach or 1.0), 1.9 * (reach or 1.0))
    return save(figure, path)


def _draw(
    axes: Axes, name: str, estimate: Estimate, truth: Floats, level: float, colour: str
) -> float:
    """Returns how far the drawing goes."""
    places = np.arange(len(truth))
    off = np.asarray(estimate.value, dtype=np.float64) - truth
    low, high = (np.asarray(end, dtype=np.float64) - truth for end in estimate.interval(level))
    axes.set_title(name, loc="left", fontsize=11.5, color=colour, fontweight="bold", pad=8)
    axes.hlines(places, low, high, color=colour, lw=5, alpha=0.35)
    axes.plot(off, places, "o", color=colour, markersize=6)
    radius = (high - low) / 2
    notes = [f"{_signed(error)} ± {number(r)}" for error, r in zip(off, radius, strict=True)]
    annotate(axes, np.maximum(high, 0.0), notes)
    return float(max(np.abs(low).max(), np.abs(high).max(), 0.0))


def _signed(error: float) -> str:
    return f"+{number(error)}" if round(error) > 0 else number(round(error))
