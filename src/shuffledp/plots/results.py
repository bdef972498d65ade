"""One estimate as a picture (.png, .svg, .pdf) or as a page that needs nothing else (.html)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from shuffledp.core.display import Row, cells, decimals, largest, rows, short, shown
from shuffledp.core.estimate import Estimate
from shuffledp.plots.style import COLOURS, FAINT, INK, check_format, new_figure, save
from shuffledp.plots.style import FORMATS as PICTURES

__all__ = ["FORMATS", "check_picture", "plot_estimate"]

FORMATS = (".html", *PICTURES)
_BARS = 40
_BLUE, _VERMILION = COLOURS[:2]


def plot_estimate(
    estimate: Estimate,
    path: Path,
    *,
    title: str,
    notes: Sequence[str] = (),
    level: float = 0.95,
    label: str = "estimate",
) -> Path:
    """Draw an estimate with its intervals; of many bins, the largest 40.

    The suffix of `path` chooses the format. A page (.html) holds the picture, the table and the notes
    in one file without scripts; the other formats need Matplotlib.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> estimate = sdp.run(sdp.protocols.krr.make_local(k=3, epsilon=1.0), [0, 1, 2] * 1000)
    >>> path = Path(tempfile.mkdtemp()) / "pets.html"
    >>> plot_estimate(estimate, path, title="Pets").read_text()[:15]
    '<!doctype html>'
    """
    check_format(path, FORMATS)
    table = rows(estimate, level, label)
    kept = largest(table, _BARS)
    notes = [*notes, f"Bars: the estimates; lines: {100 * level:.15g}% intervals."]
    if len(kept) < len(table):
        notes.append(f"The {len(kept)} largest of {len(table):,}.")
    if path.suffix == ".html":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_page(kept, title, notes), encoding="utf-8")
        return path
    return _picture(kept, path, title, notes)


def check_picture(path: Path, *, page: bool = False) -> None:
    """Refuse a picture that could not be drawn; with `page`, a page (.html) is one.

    >>> check_picture(Path("plan.html"))
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: plan.html: a picture ends in one of .pdf, .png, .svg
    """
    check_format(path, FORMATS if page else PICTURES)
    if path.suffix != ".html":
        new_figure(1, 1)


def _picture(kept: list[Row], path: Path, title: str, notes: Sequence[str]) -> Path:
    lines = [line for note in notes for line in _wrapped(note)]
    labels = [_plain(row.label) for row in kept]
    margin = 0.35 + 0.085 * max(map(len, labels))  # inches, as all that follows
    width, height = 8.0, 1.25 + 0.2 * len(lines) + 0.32 * max(2, len(kept))
    figure = new_figure(width, height)
    axes = figure.subplots()
    figure.subplots_adjust(
        left=margin / width,
        right=0.97,
        top=1 - (0.75 + 0.2 * len(lines)) / height,
        bottom=0.4 / height,
    )
    figure.text(
        0.2 / width, 1 - 0.38 / height, _plain(title, 90), fontsize=14, fontweight="bold", color=INK
    )
    figure.text(0.2 / width, 1 - 0.52 / height, "\n".join(lines), fontsize=9, color=INK, va="top", linespacing=1.4)  # fmt: skip
    places = decimals(kept)
    for place, row in enumerate(kept):
        axes.barh(place, row.value, color=_BLUE if row.value >= 0 else _VERMILION, height=0.62)
        axes.plot([row.low, row.high], [place, place], color=INK, lw=1.4, marker="|", markersize=7)
        axes.annotate(
            shown(row.value, places), (max(row.high, 0.0), place), xytext=(7, 0),
            textcoords="offset points", va="center", fontsize=9, color=INK,
        )  # fmt: skip
    low = min(0.0, *(min(row.low, row.value) for row in kept))
    high = max(0.0, *(max(row.high, row.value) for row in kept))
    room = (high - low) or 1.0
    axes.set_xlim(low - 0.02 * room, high + 0.16 * room)
    axes.set_yticks(range(len(kept)), labels, fontsize=9.5, color=INK)
    axes.set_ylim(len(kept) - 0.4, -0.6)
    axes.axvline(0, color=INK, lw=0.8)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.12g}")
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(length=0, labelsize=9)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=FAINT, lw=0.8)
    axes.spines[:].set_visible(False)
    return save(figure, path)


def _plain(text: str, width: int = 28) -> str:
    """A label that Matplotlib does not read as mathematics."""
    return short(text, width).replace("$", r"\$")


def _wrapped(note: str) -> list[str]:
    import textwrap

    return textwrap.wrap(note.replace("$", r"\$"), 110)


def _page(kept: list[Row], title: str, notes: Sequence[str]) -> str:
    low = min(0.0, *(min(row.low, row.value) for row in kept))
    high = max(0.0, *(max(row.high, row.value) for row in kept))
    scale = 100 / ((high - low) or 1.0)
    body = "\n".join(
        _line(row, columns, low, scale) for row, columns in zip(kept, cells(kept), strict=True)
    )
    said = "\n".join(f"<p>{html.escape(note)}</p>" for note in notes)
    name = html.escape(short(title, 200))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n<body><h1>{name}</h1>\n{said}\n"
        "<table><thead><tr><th></th><th>estimate</th><th>std. error</th><th>interval</th><th></th>"
        f"</tr></thead><tbody>\n{body}\n</tbody></table></body></html>\n"
    )


def _line(row: Row, columns: list[str], low: float, scale: float) -> str:
    def at(x: float) -> str:
        return f"{(x - low) * scale:.2f}%"

    start, end = min(0.0, row.value), max(0.0, row.value)
    colour = _BLUE if row.value >= 0 else _VERMILION
    drawing = (
        '<svg width="100%" height="18" role="img">'
        f'<rect x="{at(start)}" y="3" width="{(end - start) * scale:.2f}%" height="12" fill="{colour}"/>'
        f'<line x1="{at(row.low)}" x2="{at(row.high)}" y1="9" y2="9" class="i"/>'
        f'<line x1="{at(0.0)}" x2="{at(0.0)}" y1="0" y2="18" class="z"/></svg>'
    )
    label, *numbers = columns
    fields = "".join(f'<td class="n">{number}</td>' for number in numbers)
    return f'<tr><th>{html.escape(label)}</th>{fields}<td class="b">{drawing}</td></tr>'


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "h1{font-size:1.3em}p{margin:.3em 0;opacity:.85}"
    "table{border-collapse:collapse;width:100%;margin-top:1em}"
    "th,td{padding:.2em .7em;text-align:left;font-weight:normal;white-space:nowrap}"
    "thead th{opacity:.7}.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".b{width:45%}.i{stroke:currentColor;stroke-width:2}.z{stroke:currentColor;opacity:.5}"
)
