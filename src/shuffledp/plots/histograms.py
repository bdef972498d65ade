"""A histogram and its estimates, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import MismatchError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.plots.style import COLOURS, FAINT, GREY, INK, PALE, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["annotate", "check", "compare_histograms", "draw_truth", "number", "style"]

_MAX_BINS = 40


def compare_histograms(
    truth: ArrayLike,
    estimates: Mapping[str, Estimate],
    path: Path,
    *,
    labels: tuple[str, ...],
    title: str,
    subtitle: str = "",
    level: float = 0.95,
) -> Path:
    """Draw the true histogram and each estimate of it side by side, and save the picture.

    Every estimate has a panel with its intervals, in front of the truth in grey. The suffix of
    `path` chooses the format: .png, .svg or .pdf.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> protocol = sdp.protocols.krr.make_local(k=2, epsilon=1.0)
    >>> estimate = sdp.run(protocol, [0, 0, 1] * 1000)
    >>> path = Path(tempfile.mkdtemp()) / "pets.png"
    >>> compare_histograms([2000, 1000], {"local": estimate}, path, labels=("cat", "dog"),
    ...                    title="Pets").name
    'pets.png'
    """
    counts = np.asarray(truth, dtype=np.float64)
    check(counts, estimates, labels)
    figure, axes = _canvas(1 + len(estimates), len(counts), title, subtitle)
    draw_truth(axes[0], counts, labels)
    ends = [counts]
    for index, (name, estimate) in enumerate(estimates.items()):
        colour = COLOURS[index % len(COLOURS)]
        ends += _draw_estimate(axes[1 + index], name, estimate, counts, level, colour)
    low, high = min(0.0, float(np.min(ends))), max(1.0, float(np.max(ends)))
    axes[0].set_xlim(low - 0.03 * (high - low), high + 0.45 * (high - low))  # room for the numbers
    return save(figure, path)


def check(counts: Floats, estimates: Mapping[str, Estimate], labels: tuple[str, ...]) -> None:
    """Refuse what no picture can show, and sizes that do not agree."""
    if counts.ndim != 1 or not 1 <= len(counts) <= _MAX_BINS:
        raise UnsupportedError(
            f"counts of shape {counts.shape}: a picture shows 1 to {_MAX_BINS} bins"
        )
    for name, estimate in estimates.items():
        if np.shape(estimate.value) != counts.shape or len(labels) != len(counts):
            raise MismatchError(
                f"{name}: {np.size(estimate.value)} values, {len(counts)} counts, {len(labels)} labels"
            )


def _canvas(panels: int, bins: int, title: str, subtitle: str) -> tuple[Figure, list[Axes]]:
    width, height = 1.3 + 3.7 * panels, 2.2 + 0.36 * bins  # inches, as all that follows
    figure = new_figure(width, height)
    axes = figure.subplots(1, panels, sharex=True, sharey=True, squeeze=False)[0]
    top, bottom = 1 - 1.55 / height, 0.45 / height
    figure.subplots_adjust(left=1.1 / width, right=0.985, top=top, bottom=bottom, wspace=0.06)
    figure.text(0.2 / width, 1 - 0.4 / height, title, fontsize=16, fontweight="bold", color=INK)
    figure.text(
        0.2 / width, 1 - 0.55 / height, subtitle, fontsize=10.5, color=INK, va="top", linespacing=1.5
    )  # fmt: skip
    axes[0].invert_yaxis()
    for panel in axes:
        style(panel)
    return figure, list(axes)


def style(axes: Axes) -> None:
    """A quiet frame: a line at zero and a faint grid."""
    axes.axvline(0, color=INK, lw=0.8)
    axes.xaxis.set_major_formatter(lambda x, _: number(x))
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(length=0, labelsize=9.5, colors=INK)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=FAINT, lw=0.8)
    axes.spines[:].set_visible(False)


def draw_truth(axes: Axes, counts: Floats, labels: tuple[str, ...]) -> None:
    """The true counts as grey bars."""
    rows = np.arange(len(counts))
    axes.set_title("the truth", loc="left", fontsize=11.5, color=GREY, fontweight="bold", pad=8)
    axes.barh(rows, counts, color=GREY, height=0.76)
    axes.set_yticks(rows, labels)
    annotate(axes, counts, [number(count) for count in counts])


def _draw_estimate(
    axes: Axes, name: str, estimate: Estimate, truth: Floats, level: float, colour: str
) -> list[Floats]:
    """Returns how far the drawing goes to the left and to the right."""
    rows = np.arange(len(truth))
    value = np.asarray(estimate.value, dtype=np.float64)
    low, high = (np.asarray(end, dtype=np.float64) for end in estimate.interval(level))
    axes.set_title(name, loc="left", fontsize=11.5, color=colour, fontweight="bold", pad=8)
    axes.barh(rows, truth, color=PALE, height=0.76)
    axes.barh(rows, value, color=colour, height=0.38)
    # Not around the value: that is not clipped, and an interval never leaves the range of the truth.
    middle, radius = (low + high) / 2, (high - low) / 2
    axes.errorbar(middle, rows, xerr=radius, fmt="none", ecolor=INK, capsize=3.5, lw=1.3)
    notes = zip(value, radius, strict=True)
    annotate(axes, np.maximum(high, truth), [f"{number(v)} ± {number(r)}" for v, r in notes])
    return [np.minimum(low, value), np.maximum(high, value)]


def annotate(axes: Axes, ends: Floats, notes: list[str]) -> None:
    """A note beside the end of each bar."""
    for row, (end, note) in enumerate(zip(np.maximum(ends, 0.0), notes, strict=True)):
        axes.annotate(
            note, (end, row), xytext=(7, 0), textcoords="offset points", va="center",
            fontsize=9, color=INK,
        )  # fmt: skip


def number(x: float) -> str:
    """A count as text, with a true minus sign.

    >>> number(-1234.4)
    '\N{MINUS SIGN}1,234'
    """
    return f"{x:,.0f}".replace("-", "\N{MINUS SIGN}")
