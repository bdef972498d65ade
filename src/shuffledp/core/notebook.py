"""How notebooks show things: small pieces of HTML without scripts, style sheets or outside files; and pages of them.

All text is escaped here. Colours are the reader's own (`currentColor`, no backgrounds); the two that bars
have are seen on white and on black alike.

Numbers can also be had as tables of pandas, Polars and Arrow; each is imported when it is asked for.
"""

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from shuffledp.core.display import (
    QUARTILES,
    Number,
    Picture,
    Place,
    Steps,
    arrange,
    find_steps,
    format_rows,
    keep_largest,
    name_columns,
    shorten_label,
)
from shuffledp.core.errors import UnsupportedError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


Columns = Mapping[str, Sequence[Any]]
"""Names of columns, in their order, and their values: all texts, or all floats."""

_EXTRAS = {"pandas": "frames", "polars": "frames", "pyarrow": "data"}


def make_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Columns:
    """Return the columns of some rows.

    >>> make_columns(["label", "value"], [("car", 2.0), ("bus", 1.0)])
    {'label': ['car', 'bus'], 'value': [2.0, 1.0]}
    """
    table = list(rows)
    return {name: [row[place] for row in table] for place, name in enumerate(names)}


def make_pandas(columns: Columns) -> "pd.DataFrame":
    """Return a pandas DataFrame.

    >>> make_pandas({"label": ["car"], "value": [2.0]}).shape
    (1, 2)
    """
    return _load("pandas").DataFrame(dict(columns))


def make_polars(columns: Columns) -> "pl.DataFrame":
    """Return a Polars DataFrame.

    >>> make_polars({"label": ["car"], "value": [2.0]}).columns
    ['label', 'value']
    """
    made: pl.DataFrame = _load("polars").DataFrame(dict(columns))
    return made


def make_arrow(columns: Columns) -> "pa.Table":
    """Return an Arrow table.

    >>> make_arrow({"label": ["car"], "value": [2.0]}).num_rows
    1
    """
    return _load("pyarrow").table(dict(columns))


class Tabular(Protocol):
    """Anything that is a table of numbers; the functions below are its methods."""

    def _columns(self) -> Columns:
        """Return the table."""


def to_pandas(self: Tabular) -> "pd.DataFrame":
    """Return a row for each number: label, value, stderr, low, high; in a survey its question first."""
    return make_pandas(self._columns())


def to_polars(self: Tabular) -> "pl.DataFrame":
    """Return the same for Polars."""
    return make_polars(self._columns())


def to_arrow(self: Tabular) -> "pa.Table":
    """Return the same as an Arrow table."""
    return make_arrow(self._columns())


def _load(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as missing:
        raise UnsupportedError(
            f"this needs {library}: install the extra shuffledp[{_EXTRAS[library]}]"
        ) from missing


_WIDTH, _HEIGHT = 180, 14
_BAR, _PALE = "#0072B2", 0.45
_LIMIT = 50
_CURVE_WIDTH, _CURVE_HEIGHT, _LEFT, _BOTTOM = 460, 190, 36, 22
_CURVE = "#0072b2"
_PAGE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
)


def frame_page(
    title: str, body: str, style: str = "", *, language: str = "en", direction: str = "ltr"
) -> str:
    """Return a page with this body: no script, nothing from elsewhere, in light or dark as the reader likes it.

    >>> "<title>a &lt; b</title>" in frame_page("a < b", say("now"))
    True
    """
    return (
        f'<!doctype html>\n<html lang={language} dir={direction}><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_PAGE}{style}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def as_prose(text: str) -> str:
    """Return a sentence as HTML: escaped, and what stands between backticks as code.

    >>> as_prose("`steps` < 9 chooses another")
    '<code>steps</code> &lt; 9 chooses another'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def say(text: str, *, bold: bool = False, small: bool = False) -> str:
    """Return a paragraph.

    >>> say("a < b"), say("now", bold=True)
    ('<p>a &lt; b</p>', '<p><b>now</b></p>')
    """
    html = as_prose(text)
    if bold:
        html = f"<b>{html}</b>"
    if small:
        html = f"<small>{html}</small>"
    return f"<p>{html}</p>"


def stack(*parts: str) -> str:
    """Stack pieces, one below the other.

    >>> stack(say("one"), say("two"))
    '<div><p>one</p><p>two</p></div>'
    """
    return f"<div>{''.join(parts)}</div>"


def list_facts(facts: Iterable[tuple[str, object]]) -> str:
    """Return names and what they are, in two columns.

    >>> list_facts([("n", 3)]).count("<tr")
    1
    """
    lines = (
        f'<tr style="text-align:left"><th style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(str(value))}</td></tr>'
        for name, value in facts
    )
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def make_table(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    chosen: int | None = None,
    texts: int = 1,
) -> str:
    """Return a table whose first `texts` columns are texts, and the others numbers; the chosen row is in bold.

    >>> make_table(["", "n"], [["a", "3"]]).count("<td")
    1
    """
    lines = [
        _make_row([*map(html.escape, row)], texts, bold=place == chosen)
        for place, row in enumerate(rows)
    ]
    return _wrap_rows(names, lines)


def as_html(picture: Picture, kept: list[Number] | None = None, colour: str = _BAR) -> str:
    """Return a table with an interval in each row: bars from 0, or a dot between the limits that are known.

    `kept` are the rows to be shown, otherwise the largest. Bars have this colour, paler where they are negative.

    >>> row = Number("<script>", value=1.0, stderr=1.0, low=0.0, high=2.0)
    >>> "<script" in as_html(Picture(rows=(row,), level=0.95))
    False
    """
    table = list(picture.rows)
    more = 0
    if kept is None:
        kept = keep_largest(table, _LIMIT)
        more = len(table) - len(kept)
    ends = _find_ends(kept) if picture.limits is None else picture.limits
    draw = _draw_bar if picture.limits is None else _draw_dot
    drawn = (draw(row, ends, colour) for row in kept)
    over = "" if picture.limits is None else f"{ends[0]:,.15g} .. {ends[1]:,.15g}"
    named, groups = arrange(picture, kept)
    lines = [
        _make_row([*map(html.escape, texts), svg], 1)
        for texts, svg in zip(
            format_rows(named, whole=picture.whole, people=picture.people), drawn, strict=True
        )
    ]
    names = [*name_columns(picture.level), over]
    for place, group in reversed(groups.items()):
        head = f'<th colspan="{len(names)}" style="text-align:left"><b>{html.escape(shorten_label(group))}</b></th>'
        lines.insert(place, f"<tr>{head}</tr>")
    shown = _wrap_rows(names, lines)
    return shown + (say(f"… and {more:,} smaller ones") if more else "")


def _make_row(parts: list[str], texts: int, *, bold: bool = False) -> str:
    """Return a row of pieces that are HTML already; the first one is its name."""
    left = ' style="text-align:left"'
    rest = [
        f"<td{left if place < texts else ''}>{f'<b>{part}</b>' if bold else part}</td>"
        for place, part in enumerate(parts[1:], start=1)
    ]
    return f'<tr style="text-align:right"><th{left}>{parts[0]}</th>{"".join(rest)}</tr>'


def _wrap_rows(names: Sequence[str], lines: list[str]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _find_ends(kept: list[Number]) -> tuple[float, float]:
    """Return the range of all bars and intervals, 0 included."""
    reached = [0.0, *(x for row in kept for x in (row.value, row.low, row.high))]
    finite = [x for x in reached if math.isfinite(x)]
    low, high = min(finite), max(finite)
    return (low, high) if low < high else (0.0, 1.0)


def _draw_bar(row: Number, ends: tuple[float, float], colour: str) -> str:
    """Return a bar from 0, to the left if it is negative, and the interval as a line."""
    zero, value = _place(0.0, ends), _place(row.value, ends)
    left, right = sorted((zero, value))
    pale = "" if row.value >= 0 else f' fill-opacity="{_PALE}"'
    bar = f'<rect x="{left}" y="3" width="{right - left}" height="8" fill="{colour}"{pale}/>'
    return _draw(_line(f"M{zero} 0v{_HEIGHT}", faint=True), bar, _draw_interval(row, ends))


def _draw_dot(row: Number, ends: tuple[float, float], colour: str) -> str:
    """Return a dot, and the interval as a line, on the line between the ends."""
    middle = _HEIGHT // 2
    dot = f'<circle cx="{_place(row.value, ends)}" cy="{middle}" r="4" fill="{colour}"/>'
    axis = _line(f"M0 {middle}h{_WIDTH}M1 3v8M{_WIDTH - 1} 3v8", faint=True)
    return _draw(axis, _draw_interval(row, ends), dot)


def _draw_interval(row: Number, ends: tuple[float, float]) -> str:
    low, high = _place(row.low, ends), _place(row.high, ends)
    return _line(f"M{low} 7H{high}")


def _line(path: str, *, faint: bool = False) -> str:
    look = ' opacity=".4"' if faint else ' stroke-width="2"'
    return f'<path d="{path}" stroke="currentColor"{look}/>'


def _draw(*shapes: str) -> str:
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true">{"".join(shapes)}</svg>'


def _place(x: float, ends: tuple[float, float]) -> int:
    low, high = ends
    if math.isnan(x):
        return 0
    share = (min(max(x, low), high) - low) / (high - low)
    return round(2 + share * (_WIDTH - 4))


def draw_distribution(picture: Picture) -> str:
    """Return an SVG of a distribution function with its band and its quartiles; "" of anything else.

    >>> from shuffledp.core.display import Curve, Number
    >>> rows = (Number("<= 1", 0.4, 0.01, 0.38, 0.42), Number("<= 2", 1.0, 0.0, 1.0, 1.0))
    >>> shown = Picture(rows=rows, level=0.95, curve=Curve(points=(1.0, 2.0), ends=(0.0, 2.0)))
    >>> draw_distribution(shown).count("<path")
    6
    """
    steps = find_steps(picture)
    if steps is None:
        return ""
    ends = steps.ends
    low, high = steps.band()
    band = [_spot(*corner, ends) for corner in [*high, *reversed(low)]]
    line = [_spot(*each, ends) for each in zip(steps.points, steps.shares, strict=True)]
    shapes = [
        *(_rule(share, steps) for share in QUARTILES),
        f'<path d="M{_join(band)}Z" fill="{_CURVE}" fill-opacity=".25"/>',
        f'<path d="M{_join(line)}" fill="none" stroke="{_CURVE}" stroke-width="1.5"/>',
        f'<path d="M{_LEFT},0V{_CURVE_HEIGHT - _BOTTOM}H{_CURVE_WIDTH}" fill="none" stroke="currentColor"/>',
        *(_write(0, share, f"{share:g}", ends, "end") for share in (0.0, 0.5, 1.0)),
        _write(ends[0], None, f"{ends[0]:g}", ends, "start"),
        _write(ends[1], None, f"{ends[1]:g}", ends, "end"),
    ]
    label = (
        "Share of people at or below each number, with the band that holds for all of them together"
    )
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 -8 {_CURVE_WIDTH} {_CURVE_HEIGHT + 8}" width="{_CURVE_WIDTH}" '
        f'style="max-width:100%" font-size="11">{"".join(shapes)}</svg>'
    )


def _spot(x: float, share: float, ends: tuple[float, float]) -> Place:
    across = (x - ends[0]) / (ends[1] - ends[0])
    height = _CURVE_HEIGHT - _BOTTOM
    return _LEFT + across * (_CURVE_WIDTH - _LEFT), height - share * height


def _join(corners: Sequence[Place]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _rule(share: float, steps: Steps) -> str:
    """Draw a dotted line from the share to where it is surely reached, and down from both ends of what is left open."""
    (first, y), (last, _) = (_spot(x, share, steps.ends) for x in steps.bracket(share))
    down = _CURVE_HEIGHT - _BOTTOM
    path = f"M{_LEFT},{y:.1f}H{last:.1f}V{down}M{first:.1f},{y:.1f}V{down}"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".45" stroke-dasharray="2 3"/>'


def _write(x: float, share: float | None, text: str, ends: tuple[float, float], anchor: str) -> str:
    """Return a number at the left of a share, or below a point."""
    if share is None:
        across, down = _spot(x, 0.0, ends)[0], _CURVE_HEIGHT - _BOTTOM + 15.0
    else:
        across, down = _LEFT - 5.0, _spot(ends[0], share, ends)[1] + 4
    return f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}" fill="currentColor">{text}</text>'
