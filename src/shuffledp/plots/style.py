"""What all pictures share: colours, the figure, saving.

Matplotlib is imported when something is drawn, not before. The colours are from the palette of
Okabe and Ito, which people with any kind of colour vision can tell apart; they also differ in
brightness, so that a grey print still works.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp.core.errors import UnsupportedError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "COLOURS",
    "FAINT",
    "FORMATS",
    "GREEN",
    "GREY",
    "INK",
    "MODEL_COLOURS",
    "PALE",
    "PURPLE",
    "VERMILION",
    "check_format",
    "colour_of",
    "new_figure",
    "save",
    "save_svg",
]

GREY = "#7A7A7A"
BLUE, VERMILION, GREEN, PURPLE = COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MODEL_COLOURS = {"central": GREEN, "shuffle": BLUE, "local": VERMILION}
"""A model of trust has one colour in every picture."""
INK = "#222222"
PALE = "#C8C8C8"
FAINT = "#E2E2E2"
FORMATS = (".pdf", ".png", ".svg")
"""What a picture may end in."""


def colour_of(name: str, place: int) -> str:
    """The colour of the model that the name starts with, otherwise one by its place.

    >>> colour_of("local: trust nobody", 0) == MODEL_COLOURS["local"], colour_of("a bound", 4) == BLUE
    (True, True)
    """
    for model, colour in MODEL_COLOURS.items():
        if name.startswith(model):
            return colour
    return COLOURS[place % len(COLOURS)]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this many inches, or `UnsupportedError` without Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise UnsupportedError(
            "drawing needs Matplotlib: pip install 'shuffledp[plot]'"
        ) from missing
    return Figure(figsize=(width, height), facecolor="white")


def check_format(path: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Refuse a picture whose suffix names no format.

    >>> check_format(Path("plan.doc"))
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: plan.doc: a picture ends in one of .pdf, .png, .svg
    """
    if path.suffix not in formats:
        raise UnsupportedError(f"{path}: a picture ends in one of {', '.join(formats)}")


def save(figure: Figure, path: Path) -> Path:
    """Write the picture; the suffix of `path` chooses the format: .png, .svg or .pdf."""
    check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # Matplotlib's font lacks some scripts: it draws a box then, and a page (.html) the letters.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(path, dpi=160)
    return path


def save_svg(figure: Figure, path: Path) -> Path:
    """Write a picture for a page: the same drawing is the same file, with its letters as outlines.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "empty.svg"
    >>> save_svg(new_figure(1, 1), path).read_bytes() == save_svg(new_figure(1, 1), path).read_bytes()
    True
    """
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "shuffledp", "svg.fonttype": "path"}):
        figure.savefig(path, metadata={"Date": None})
    text = path.read_text(encoding="utf-8")
    bare = re.sub(r"<metadata>.*?</metadata>\n?|<!DOCTYPE.*?>\n?", "", text, flags=re.DOTALL)
    path.write_text("\n".join(map(str.rstrip, bare.splitlines())) + "\n", encoding="utf-8")
    return path
