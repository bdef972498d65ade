"""Estimates: one as a picture or a page, and several of one histogram side by side with the truth."""

from __future__ import annotations

import html
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate
from shuffledp.core.arrays import Floats
from shuffledp.core.display import (
    QUARTILES,
    Number,
    Picture,
    Steps,
    arrange,
    count_decimals,
    find_steps,
    format_bracket,
    format_ends,
    format_number,
    format_rows,
    format_share,
    keep_largest,
    make_picture,
    shorten_label,
)
from shuffledp.core.errors import MismatchError, UnsupportedError
from shuffledp.core.notebook import as_html, draw_distribution, frame_page, say
from shuffledp.show.style import (
    FAINT,
    FORMATS,
    GREY,
    INK,
    MODEL_COLOURS,
    PALE,
    VERMILION,
    check_format,
    colour_of,
    foot,
    keep_last_label,
    measure_labels,
    new_figure,
    save,
    steady,
    use_fonts,
    wrap_notes,
    write_beside,
    write_dates_below,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_PAGES = (".html", *FORMATS)
_MOST_BARS = 40
_NEARLY_NONE = 0.5  # people: where a logarithmic scale of errors begins
_CLEAR = (
    5.5  # standard errors of a difference: a chance of 2e-8, small for the largest of many bins too
)
_BAND = 0.25  # how much of its colour a band has
_QUARTER = {0.25: "a quarter", 0.5: "half", 0.75: "three quarters"}
_PALE = 0.45  # how much of its colour a negative bar has
_NO_FONT = "No installed font has all letters: {} shows them."


def plot_estimate(
    estimate: Estimate | Picture,
    path: Path,
    *,
    title: str,
    finding: str = "",
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    brief: Sequence[str] = (),
    axis: str = "",
    model: str = "shuffle",
) -> Path:
    """Draw an estimate with its intervals (95 %, or those of the picture); of many bins, the largest 40.

    What was found is the headline, and the title stands below it; without a finding the title is the headline.
    Warnings follow in colour, notes (what was promised, by which proof) in small print at the bottom; where there are
    `brief` ones a picture has those, and all notes in its metadata (.png, .pdf). `axis` is written below it. Bars have the
    colour of the `model`, paler where they are negative. The suffix of `path` chooses the format. A page (.html) holds
    the picture, the table and the notes in one file without scripts; the other formats need Matplotlib. Letters that
    the usual font lacks are drawn in an installed font that has them. Without one a remark says so, and a page beside
    the picture (`name_page`) shows them all the same; an .svg leaves such letters to whoever shows it.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> estimate = sdp.run(sdp.protocols.krr.make_local(k=3, epsilon=1.0), [0, 1, 2] * 1000)
    >>> path = Path(tempfile.mkdtemp()) / "pets.html"
    >>> plot_estimate(estimate, path, title="Pets").read_text()[:15]
    '<!doctype html>'
    """
    check_format(path, _PAGES)
    picture = estimate if isinstance(estimate, Picture) else make_picture(estimate)
    table = list(picture.rows)
    kept = keep_largest(table, _MOST_BARS)
    remarks = [_explain(picture)]
    if len(kept) < len(table) and picture.curve is None:
        kept = kept if picture.groups else sorted(kept, key=lambda row: -row.value)
        remarks.append(f"The {len(kept)} largest of {len(table):,}.")
    words = _Words(headline=finding or title, title=title if finding else "", warnings=tuple(warnings), notes=(*notes, *remarks), brief=(*(brief or notes), *remarks), axis=axis, colour=MODEL_COLOURS[model])  # fmt: skip
    if path.suffix == ".html":
        return _write_page(picture, kept, path, words)
    return _draw_picture(picture, kept, path, words)


def name_page(path: Path) -> Path:
    """Return the page that is written beside a picture whose labels no installed font has.

    >>> name_page(Path("ways.png")).name
    'ways.png.html'
    """
    return path.with_name(path.name + ".html")


def _explain(picture: Picture) -> str:
    sure = f"{100 * picture.level:.15g}%"
    if picture.curve is not None:
        return (
            f"Dots: the estimates; band: where the whole curve is with {sure} confidence; lines: what it leaves open for "
            "the quartiles."
        )
    if picture.limits is not None:
        return f"Dots: the estimates; lines: {sure} intervals; the axis is the public range."
    return f"Bars: the estimates; lines: {sure} intervals."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What is said beside a picture."""

    headline: str
    title: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    brief: tuple[str, ...]
    """The notes in brief: what a picture shows of them."""
    axis: str
    colour: str


def state_finding(picture: Picture) -> str:
    """Say in a line what a histogram or a single number shows.

    The largest group is named only if it stands out from the noise.

    >>> rows = (Number("car", 120.0, 3.0, 114.0, 126.0), Number("bus", 50.0, 3.0, 44.0, 56.0))
    >>> state_finding(Picture(rows=rows, level=0.95))
    'car is the largest of 2: 120'
    >>> state_finding(Picture(rows=(rows[0], rows[0]._replace(label="tram")), level=0.95))
    'car and tram are too close to tell which is larger'
    >>> state_finding(Picture(rows=rows[:1], level=0.95))
    'car: 120, with 95% confidence 114 to 126'
    """
    steps = find_steps(picture)
    if steps is not None:
        low, high = format_bracket(*steps.bracket(0.5))
        return f"The median is between {low} and {high} ({100 * picture.level:.15g}% confidence)"
    if picture.limits is not None and len(picture.rows) > 1:
        middle = min(picture.rows, key=lambda row: abs(float(row.label) - 0.5))
        name = "The median" if float(middle.label) == 0.5 else f"The quantile at {middle.label}"
        return f"{name} is {_state(middle, picture)}"
    if picture.groups:
        return _compare_groups(picture)
    table = sorted(picture.rows, key=lambda row: -row.value)
    places = count_decimals(picture.write_whole(table))
    first = table[0]
    if len(table) == 1:
        return f"{shorten_label(first.label)}: {_state(first, picture)}"
    second = table[1]
    if _stands_out(first, second):
        return f"{shorten_label(first.label)} is the largest of {len(table):,}: {format_number(first.value, places)}"
    return f"{shorten_label(first.label)} and {shorten_label(second.label)} are too close to tell which is larger"


def _stands_out(first: Number, second: Number) -> bool:
    return first.value - second.value > _CLEAR * math.hypot(first.stderr, second.stderr)


def _compare_groups(picture: Picture) -> str:
    """Say in how many groups the same answer is the largest, beyond the noise.

    >>> rows = [Number(f"{group}, {name}", value, 1.0, value - 2, value + 2)
    ...         for group, name, value in (("car", "yes", 90.0), ("car", "no", 20.0), ("bus", "yes", 40.0), ("bus", "no", 41.0))]
    >>> _compare_groups(Picture(rows=tuple(rows), level=0.95, groups=("car", "car", "bus", "bus")))
    'yes is the largest in 1 of 2 groups'
    """
    named, heads = arrange(picture, list(picture.rows))
    starts = [*heads, len(named)]
    winners: Counter[str] = Counter()
    for start, end in pairwise(starts):
        first, *rest = sorted(named[start:end], key=lambda row: -row.value)
        if all(_stands_out(first, second) for second in rest[:1]):
            winners[first.label.lstrip()] += 1
    if not winners:
        return "No answer is clearly the largest in any group"
    ((name, times),) = winners.most_common(1)
    every = "both" if len(heads) == 2 else f"all {len(heads)}"
    where = every if times == len(heads) else f"{times} of {len(heads)}"
    return f"{shorten_label(name)} is the largest in {where} groups"


def _state(row: Number, picture: Picture) -> str:
    """Return a number with its interval, in words."""
    places = count_decimals(picture.write_whole(picture.rows))
    (row,) = picture.write_whole([row])
    value, (low, high) = format_number(row.value, places), format_ends(row.low, row.high, places)
    return f"{value}, with {100 * picture.level:.15g}% confidence {low} to {high}"


def check_picture(path: Path, *, page: bool = False) -> None:
    """Refuse a picture that could not be drawn; with `page`, a page (.html) is one.

    >>> check_picture(Path("plan.html"))
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: plan.html: a picture ends in one of .pdf, .png, .svg
    """
    check_format(path, _PAGES if page else FORMATS)
    if path.suffix != ".html":
        new_figure(1, 1)


def _draw_picture(picture: Picture, kept: list[Number], path: Path, words: _Words) -> Path:
    texts = words.headline, words.title, words.axis, *words.brief, *(row.label for row in kept)
    with use_fonts(*texts) as complete:
        if not complete and path.suffix != ".svg":  # a browser finds letters of its own
            page = _write_page(picture, kept, name_page(path), words)
            words = replace(words, brief=(*words.brief, _NO_FONT.format(page.name)))
        return save(_draw(picture, kept, words), path, "\n".join(words.notes))


def _draw(picture: Picture, kept: list[Number], words: _Words) -> Figure:
    steps = find_steps(picture)
    if steps is not None:
        return _draw_curve(steps, words)
    if picture.limits is not None:
        return _draw_dots(picture, kept, words)
    return _draw_bars(picture, kept, words)


def _make_frame(words: _Words, *, margin: float, tall: float) -> tuple[Figure, Axes]:
    """Make the frame: headline, title, warnings and small print around axes of that height; inches, as all that
    follows.
    """
    heads = _wrap(words.headline, 64)
    lines = _wrap(words.title, 105) + [line for text in words.warnings for line in _wrap(text, 95)]
    width, below = 8.0, 0.2 * bool(words.axis)
    small = wrap_notes(words.brief, width)
    top, bottom = 0.45 + 0.28 * len(heads) + 0.2 * len(lines), 0.55 + below + 0.135 * len(small)
    height = top + bottom + tall
    figure = new_figure(width, height)
    axes = figure.subplots()
    figure.subplots_adjust(
        left=margin / width, right=0.97, top=1 - top / height, bottom=bottom / height
    )
    below = 1 - 0.15 / height
    figure.text(0.2 / width, below, "\n".join(heads), fontsize=14, fontweight="bold", color=INK, va="top", linespacing=1.3)  # fmt: skip
    below -= (0.08 + 0.28 * len(heads)) / height
    for line in lines:
        loud = line.lstrip("\u200e") not in words.title
        figure.text(0.2 / width, below, line, fontsize=10, color=VERMILION if loud else INK, va="top", fontweight="bold" if loud else "normal")  # fmt: skip
        below -= 0.2 / height
    foot(figure, small)
    axes.set_xlabel(steady(_shorten(words.axis, 60)), fontsize=9, color=INK)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.12g}")
    axes.tick_params(length=0, labelsize=9)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=FAINT, lw=0.8)
    axes.spines[:].set_visible(False)
    return figure, axes


def _draw_curve(steps: Steps, words: _Words) -> Figure:
    """Draw a distribution function in its band, with the interval of each quartile."""
    figure, axes = _make_frame(words, margin=0.75, tall=3.6)
    write_dates_below(axes, steps.ends[0])
    low, high = steps.band()
    corners = [*high, *reversed(low)]
    axes.fill(*zip(*corners, strict=True), color=words.colour, alpha=_BAND, lw=0)
    axes.plot(steps.points, steps.shares, color=words.colour, lw=1.8, marker="o", markersize=4)
    for share in QUARTILES:
        first, last = steps.bracket(share)
        axes.plot([steps.ends[0], last], [share, share], color=GREY, lw=0.9, ls=":")
        axes.plot([first, last], [share, share], color=INK, lw=1.6, marker="|", markersize=8)
        written = " to ".join(format_bracket(first, last))
        write_beside(axes, f"{_QUARTER[share]}: {written}", (first, last), share, steps.ends, below=True)  # fmt: skip
    room = steps.ends[1] - steps.ends[0]
    axes.axis((steps.ends[0] - 0.01 * room, steps.ends[1] + 0.01 * room, -0.02, 1.03))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"], color=INK)
    axes.grid(axis="y", color=FAINT, lw=0.8)
    axes.set_ylabel("people at or below", fontsize=9, color=INK)
    keep_last_label(axes)
    return figure


def _draw_dots(picture: Picture, kept: list[Number], words: _Words) -> Figure:
    """Draw numbers with their intervals on the range that is publicly known."""
    limits = picture.limits or (0.0, 1.0)
    labels = [_shorten(row.label) for row in kept]
    margin = measure_labels(labels)
    figure, axes = _make_frame(words, margin=margin, tall=0.32 * max(2, len(kept)))
    written = picture.write_whole(kept)
    (low, high), places = limits, count_decimals(written)
    room = high - low
    write_dates_below(axes, low)
    for place, (row, number) in enumerate(zip(kept, written, strict=True)):
        axes.plot([low, high], [place, place], color=PALE, lw=1.2, zorder=1)
        axes.plot([row.low, row.high], [place, place], color=INK, lw=1.4, marker="|", markersize=9)
        axes.plot([row.value], [place], color=words.colour, marker="o", markersize=6.5, zorder=3)
        value = format_number(number.value, places)
        ends = format_ends(number.low, number.high, places)
        value += "" if picture.people is None else f", {format_share(row.value, picture.people)}"
        write_beside(axes, f"{value} ({' to '.join(ends)})", (row.low, row.high), place, limits)
    axes.set_xlim(low - 0.01 * room, high + 0.01 * room)
    axes.set_yticks(range(len(kept)), labels, fontsize=9.5, color=INK)
    axes.set_ylim(len(kept) - 0.4, -0.7)
    keep_last_label(axes)
    return figure


def _draw_bars(picture: Picture, kept: list[Number], words: _Words) -> Figure:
    named, groups = arrange(picture, kept)
    labels, slots = [], []  # a heading takes the place of a bar
    for place, row in enumerate(named):
        labels += [_shorten(groups[place])] if place in groups else []
        slots.append(len(labels))
        labels.append(_shorten(row.label.lstrip() if groups else row.label))
    margin = measure_labels(labels)
    figure, axes = _make_frame(words, margin=margin, tall=0.32 * max(2, len(labels)))
    written = format_rows(kept, whole=picture.whole, people=picture.people)
    for place, row, (_, number, *_) in zip(slots, kept, written, strict=True):
        strength = 1.0 if row.value >= 0 else _PALE
        axes.barh(place, row.value, color=words.colour, alpha=strength, height=0.62)
        axes.plot([row.low, row.high], [place, place], color=INK, lw=1.4, marker="|", markersize=7)
        axes.annotate(number, (max(row.high, 0.0), place), xytext=(7, 0), textcoords="offset points", va="center", fontsize=9, color=INK)  # fmt: skip
    low = min([0.0, *(min(row.low, row.value) for row in kept)])
    high = max([0.0, *(max(row.high, row.value) for row in kept)])
    room = (high - low) or 1.0
    axes.set_xlim(low - 0.02 * room, high + (0.16 if picture.people is None else 0.27) * room)
    axes.set_yticks(range(len(labels)), labels, fontsize=9.5, color=INK)
    for place, text in enumerate(axes.get_yticklabels()):
        text.set_fontweight("normal" if place in slots else "bold")
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.axvline(0, color=INK, lw=0.8)
    axes.locator_params(axis="x", nbins=5)
    return figure


def _wrap(text: str, width: int) -> list[str]:
    """Wrap into lines that Matplotlib does not read as mathematics."""
    return [steady(line) for line in textwrap.wrap(text.replace("$", r"\$"), width)]


def _shorten(text: str, width: int = 28) -> str:
    """Return a label that Matplotlib does not read as mathematics."""
    return shorten_label(text, width).replace("$", r"\$")


def _write_page(picture: Picture, kept: list[Number], path: Path, words: _Words) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_compose_page(picture, kept, words), encoding="utf-8")
    return path


def _compose_page(picture: Picture, kept: list[Number], words: _Words) -> str:
    top = [say(words.title)] if words.title else []
    top += [f'<p class="w">{html.escape(text)}</p>' for text in words.warnings]
    small = "".join(map(say, words.notes))
    table = as_html(picture, kept, words.colour)
    name = shorten_label(words.headline, 200)
    page = (
        f"<h1>{html.escape(name)}</h1>\n{''.join(top)}\n{draw_distribution(picture)}\n"
        f'<div class="t">{table}</div>\n<footer>{small}</footer>'
    )
    return frame_page(name, page, _STYLE)


_STYLE = (
    "body{max-width:60em}h1{font-size:1.3em}p{margin:.3em 0;opacity:.85}"
    "table{border-collapse:collapse;margin-top:1em}"
    "th,td{padding:.2em .7em;font-weight:normal;white-space:nowrap;font-variant-numeric:tabular-nums}"
    ".t{overflow-x:auto}.w{color:#B34700;font-weight:bold;opacity:1}"
    "footer{font-size:.8em;margin-top:1.2em}thead th{opacity:.7}"
)


def _check_sizes(
    counts: Floats, estimates: Mapping[str, Estimate], labels: tuple[str, ...]
) -> None:
    if counts.ndim != 1 or not 1 <= len(counts) <= _MOST_BARS:
        raise UnsupportedError(
            f"counts of shape {counts.shape}: a picture shows 1 to {_MOST_BARS} bins"
        )
    for name, estimate in estimates.items():
        if np.shape(estimate.value) != counts.shape or len(labels) != len(counts):
            raise MismatchError(
                f"{name}: {np.size(estimate.value)} values, {len(counts)} counts, {len(labels)} labels"
            )


def _quieten(axes: Axes) -> None:
    """Draw a quiet frame: a line at zero and a faint grid."""
    axes.axvline(0, color=INK, lw=0.8)
    axes.xaxis.set_major_formatter(lambda x, _: _format_count(x))
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(length=0, labelsize=9.5, colors=INK)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=FAINT, lw=0.8)
    axes.spines[:].set_visible(False)


def _draw_truth(axes: Axes, counts: Floats, labels: tuple[str, ...]) -> None:
    """Draw the true counts as grey bars."""
    rows = np.arange(len(counts))
    axes.set_title("the truth", loc="left", fontsize=11.5, color=GREY, fontweight="bold", pad=8)
    axes.barh(rows, counts, color=GREY, height=0.76)
    axes.set_yticks(rows, labels)
    _annotate(axes, counts, [_format_count(count) for count in counts])


def _annotate(axes: Axes, ends: Floats, notes: list[str]) -> None:
    """Write a note beside the end of each bar."""
    for row, (end, note) in enumerate(zip(np.maximum(ends, 0.0), notes, strict=True)):
        axes.annotate(
            note, (end, row), xytext=(7, 0), textcoords="offset points", va="center",
            fontsize=9, color=INK,
        )  # fmt: skip


def _format_count(x: float) -> str:
    """Return a count as text, with a true minus sign.

    >>> _format_count(-1234.4)
    '\N{MINUS SIGN}1,234'
    """
    return f"{x:,.0f}".replace("-", "\N{MINUS SIGN}")


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
    """Draw the true histogram, beside it how far off each estimate may be, and by how much each misses.

    The middle panel has half the width of each interval on a logarithmic scale, a dot for each estimate: one look tells
    the models apart where the bins are so large that the estimates themselves look alike. At the right are the numbers.

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
    _check_sizes(counts, estimates, labels)
    with use_fonts(title, subtitle, *labels, *estimates):
        return save(_draw_errors(counts, estimates, labels, title, subtitle, level), path)


def _draw_errors(
    counts: Floats,
    estimates: Mapping[str, Estimate],
    labels: tuple[str, ...],
    title: str,
    subtitle: str,
    level: float,
) -> Figure:
    bottom = 0.75
    width = 6.9 + 1.4 * len(estimates)  # inches, as all that follows
    heads = textwrap.wrap(title, int(7.2 * width))
    head = 1.47 + 0.28 * len(heads)
    height = head + bottom + 0.36 * len(counts)
    figure = new_figure(width, height)
    top = 1 - head / height
    figure.text(0.2 / width, 1 - 0.15 / height, "\n".join(heads), fontsize=15, fontweight="bold", color=INK, va="top")  # fmt: skip
    figure.text(0.2 / width, 1 - (head - 1.18) / height, subtitle, fontsize=10, color=INK, va="top", linespacing=1.5)  # fmt: skip

    def panel(left: float, wide: float) -> Axes:
        box = left / width, bottom / height, wide / width, top - bottom / height
        axes: Axes = figure.add_axes(box)
        axes.set_ylim(len(counts) - 0.4, -0.6)
        return axes

    bars, dots = panel(1.2, 2.4), panel(3.9, 2.7)
    _quieten(bars)
    _draw_truth(bars, counts, labels)
    bars.set_xlim(0, 1.4 * max(1.0, float(counts.max())))
    _quieten(dots)
    dots.set_yticks([])
    reach = [_draw_error(dots, panel(6.8 + 1.4 * place, 1.35), name, estimate, counts, level, colour_of(name, place))
             for place, (name, estimate) in enumerate(estimates.items())]  # fmt: skip
    dots.set_xscale("log")
    least, most = min(low for low, _ in reach), max(high for _, high in reach)
    dots.set_xlim(least / 2, most * 2)
    dots.xaxis.set_major_formatter(lambda x, _: f"{x:,.10g}")
    dots.minorticks_off()
    dots.set_xlabel("how far off, people (logarithmic)", fontsize=9, color=INK)
    dots.set_title(
        f"half the width of the {100 * level:.15g}% interval", loc="left", fontsize=10.5, color=INK, pad=8
    )  # fmt: skip
    return figure


def _draw_error(
    dots: Axes,
    numbers: Axes,
    name: str,
    estimate: Estimate,
    truth: Floats,
    level: float,
    colour: str,
) -> tuple[float, float]:
    """Draw a dot for each bin and a column of numbers; return the smallest and the largest dot."""
    places = np.arange(len(truth))
    off = np.asarray(estimate.value, dtype=np.float64) - truth
    low, high = (np.asarray(end, dtype=np.float64) for end in estimate.interval(level))
    radius = (high - low) / 2
    seen = np.maximum(radius, _NEARLY_NONE)  # no error at all has no place on this scale
    dots.plot(seen, places, "o", color=colour, markersize=8, alpha=0.85)
    model, _, trust = name.partition(": ")
    numbers.set_title(f"{model}\n{trust}" if trust else name, loc="left", fontsize=10.5, color=colour, fontweight="bold", pad=8)  # fmt: skip
    numbers.set_axis_off()
    for place, (error, r) in enumerate(zip(off, radius, strict=True)):
        text = f"{_format_signed(error)} ± {format_ends(0.0, r, 0)[1]}"
        numbers.text(0, place, text, va="center", fontsize=9, color=colour)
    return float(seen.min()), float(seen.max())


def _format_signed(error: float) -> str:
    return f"+{_format_count(error)}" if round(error) > 0 else _format_count(round(error))
