"""What all pictures share: colours, the figure, saving.

Matplotlib is imported when something is drawn, not before. The colours are from the palette of
Okabe and Ito, which people with any kind of colour vision can tell apart; they also differ in
brightness, so that a grey print still works.
"""

from __future__ import annotations

import logging
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shuffledp.core.display import Moment
from shuffledp.core.errors import UnsupportedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.ticker import Locator


GREY = "#7A7A7A"
BLUE, VERMILION, GREEN, PURPLE = COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MODEL_COLOURS = {"central": GREEN, "shuffle": BLUE, "local": VERMILION}
"""A model of trust has one colour in every picture."""
MORE_COLOURS = (*COLOURS, "#E69F00", "#56B4E9", "#7A7A7A", "#222222")
"""For pictures with more than four lines, none of which stands for a model."""
INK = "#222222"
PALE = "#C8C8C8"
FAINT = "#E2E2E2"
ORANGE = "#E69F00"
_INDIC = ("\u0900", "\u0dff")
_LETTERS = 18.5  # of small print in an inch
_SHAPING = (3, 11)  # the version of Matplotlib that joins letters and knows their direction
FORMATS = (".pdf", ".png", ".svg")
"""What a picture may end in."""


def colour_of(name: str, place: int) -> str:
    """Return the colour of the model that the name starts with, otherwise one by its place.

    >>> colour_of("local: trust nobody", 0) == MODEL_COLOURS["local"], colour_of("a bound", 4) == BLUE
    (True, True)
    """
    for model, colour in MODEL_COLOURS.items():
        if name.startswith(model):
            return colour
    return COLOURS[place % len(COLOURS)]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this many inches, or `UnsupportedError` without Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise UnsupportedError(
            "drawing needs Matplotlib: install the extra shuffledp[plot]"
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


def save(figure: Figure, path: Path, notes: str = "") -> Path:
    """Write the picture; the suffix of `path` chooses the format: .png, .svg or .pdf.

    A .png and a .pdf have the notes in their metadata.
    """
    check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _ignore_boxes():
        if path.suffix == ".svg":
            return save_svg(figure, path)
        place = {".png": "Description", ".pdf": "Subject"}[path.suffix]
        figure.savefig(path, dpi=160, metadata={place: notes} if notes else None)
    return path


@contextmanager
def _ignore_boxes() -> Iterator[None]:
    """Suppress warnings about letters that no installed font has: the picture shows a box and a remark."""
    log = logging.getLogger("matplotlib.font_manager")
    before = log.level
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        log.setLevel(logging.ERROR)  # a font of another script may have no bold letters
        try:
            yield
        finally:
            log.setLevel(before)


def needs_shaping(text: str) -> bool:
    """Return whether letters are joined or run from the right, which Matplotlib draws from version 3.11 on.

    >>> needs_shaping("حافلة"), needs_shaping("साइकिल"), needs_shaping("größe"), needs_shaping("東京")
    (True, True, False, False)
    """
    joined = any(_INDIC[0] <= letter <= _INDIC[1] for letter in text)
    return joined or any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)


def steady(text: str) -> str:
    """Return an English sentence that runs from the left, whatever language its first word is in.

    >>> steady("a bus") == "a bus", steady("حافلة is the largest")[0] == "\\u200e"
    (True, True)
    """
    return f"\u200e{text}" if needs_shaping(text) else text


def choose_fonts(text: str) -> tuple[list[str], bool]:
    """Choose installed fonts that have the letters of a text, the usual one first; and whether they have them all.

    >>> fonts, complete = choose_fonts("größe")
    >>> fonts, complete
    (['DejaVu Sans'], True)
    """
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    chosen = ["DejaVu Sans"]
    missing = _find_missing(text, findfont(FontProperties(family=chosen)))
    for font in fontManager.ttflist if missing else ():
        if font.name.startswith("Last Resort"):  # has every letter, as a box
            continue
        left = _find_missing("".join(missing), font.fname)
        if len(left) < len(missing) and font.name not in chosen:
            chosen.append(font.name)
            missing = left
        if not missing:
            break
    return chosen, not missing


@contextmanager
def use_fonts(*texts: str) -> Iterator[bool]:
    """Draw with fonts that have the letters of these texts; tells whether all of them are drawn as they should be."""
    from matplotlib import __version_info__, rc_context

    text = "".join(texts)
    fonts, complete = choose_fonts(text)
    complete = complete and (__version_info__ >= _SHAPING or not needs_shaping(text))
    # Where a letter has no font, an .svg keeps it as text: whoever shows it may have one.
    with rc_context({"font.family": fonts, **({} if complete else {"svg.fonttype": "none"})}):
        yield complete


def _find_missing(text: str, path: str) -> set[str]:
    """Return the letters that a font lacks."""
    from matplotlib.ft2font import FT2Font

    try:
        known = FT2Font(path).get_charmap()
    except (OSError, RuntimeError):  # a font that cannot be read has no letters
        known = {}
    return {letter for letter in text if letter.isprintable() and ord(letter) not in known}


def measure_labels(labels: Sequence[str]) -> float:
    """Measure how many inches the labels of an axis need: letters of East Asia and boxes are wider than others.

    >>> measure_labels(["abc"]) < measure_labels(["abcd"]) < measure_labels(["wwww"])
    True
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = new_figure(1, 1)
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    with _ignore_boxes():
        widths = [figure.text(0, 0, label, fontsize=9.5, fontweight="bold").get_window_extent(renderer).width for label in labels]  # fmt: skip
    return 0.35 + float(max(widths, default=0.0)) / figure.dpi


def wrap_notes(notes: Sequence[str], width: float) -> list[str]:
    """Return the lines of small print for a figure of this many inches, one note after the other.

    >>> wrap_notes(["one note", "another."], 8.0)
    ['one note. another.']
    """
    prose = " ".join(f"{note.rstrip('.')}." for note in notes).replace("`", "")
    lines = textwrap.wrap(prose.replace("$", r"\$"), int(_LETTERS * width))
    return [steady(line) for line in lines]


def foot(figure: Figure, lines: Sequence[str]) -> None:
    """Write small print at the bottom: proofs, remarks, how to read the picture."""
    width, height = figure.get_size_inches()
    figure.text(
        0.2 / width, 0.12 / height, "\n".join(lines), fontsize=7, color=GREY, va="bottom",
        linespacing=1.35,
    )  # fmt: skip


def save_svg(figure: Figure, path: Path) -> Path:
    """Write an SVG file: the same drawing is the same file, without a date and other metadata.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "empty.svg"
    >>> save_svg(new_figure(1, 1), path).read_bytes() == save_svg(new_figure(1, 1), path).read_bytes()
    True
    """
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "shuffledp"}):
        figure.savefig(path, metadata={"Date": None})
    text = path.read_text(encoding="utf-8")
    bare = re.sub(r"<metadata>.*?</metadata>\n?|<!DOCTYPE.*?>\n?", "", text, flags=re.DOTALL)
    path.write_text("\n".join(map(str.rstrip, bare.splitlines())) + "\n", encoding="utf-8")
    return path


def write_dates_below(axes: Axes, end: float) -> None:
    """Write dates on the axis of numbers, if an end of it is a date."""
    if isinstance(end, Moment):
        kind = type(end)
        axes.xaxis.set_major_formatter(lambda x, _: f"{kind(x)}")
        axes.xaxis.set_major_locator(_make_locator(kind))


def _make_locator(kind: type[Moment]) -> Locator:
    """Return what puts ticks on the first days of years, months or weeks, or on full hours."""
    from matplotlib import dates
    from matplotlib.ticker import Locator

    choose: Any = dates.AutoDateLocator

    class Dates(Locator):
        most = 5

        def set_params(self, **given: int) -> None:
            self.most = given.get("nbins", self.most)

        def __call__(self) -> Sequence[float]:
            assert self.axis is not None
            return self.tick_values(*self.axis.get_view_interval())

        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            first, last = kind(vmin).when, kind(vmax).when
            if first is None or last is None or first == last:
                return [vmin]
            day = timedelta(days=1) / kind.step
            found = choose(minticks=2, maxticks=self.most).tick_values(first, last)
            ticks = [round(tick * day, 6) for tick in found]
            return [tick for tick in ticks if tick == round(tick) and vmin <= tick <= vmax]

    return Dates()


def write_beside(
    axes: Axes,
    text: str,
    interval: tuple[float, float],
    y: float,
    limits: tuple[float, float],
    *,
    below: bool = False,
) -> None:
    """Write at the right of an interval, at its left where there is no room, or above it if it is that wide.

    What stands at the right is `below` it where a curve rises there.
    """
    (low, high), room = interval, 0.3 * (limits[1] - limits[0])
    x, shift, side = high, (10, -8 if below else 6), "left"
    if high > limits[1] - room:
        above = low < limits[0] + room
        x, shift, side = (low, (4, 9), "left") if above else (low, (-10, 6), "right")
    axes.annotate(
        text, (x, y), xytext=shift, textcoords="offset points", va="center", ha=side, fontsize=9,
        color=INK,
    )  # fmt: skip


def keep_last_label(axes: Axes) -> None:
    """Keep a long number at the end of the axis in the picture: with fewer of them, and left of its tick."""
    if _ends_outside(axes):
        axes.locator_params(axis="x", nbins=4)
        if (label := _ends_outside(axes)) is not None:
            label.set_horizontalalignment("right")


def _ends_outside(axes: Axes) -> Text | None:
    """Return the last label below the axis if it ends outside the picture."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    low, high = axes.get_xlim()
    shown = [each for each in axes.get_xticklabels() if low <= each.get_position()[0] <= high]
    outside = bool(shown) and shown[-1].get_window_extent().x1 > figure.bbox.x1
    return shown[-1] if outside else None


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
