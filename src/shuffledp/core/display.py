"""An estimate as people read it: what there is to draw, and lines of text. `core.notebook` has the HTML.

Labels come from data or from users, so they are made harmless in a terminal, and cut when they are long.

The intervals of a distribution function hold at all points together. The function rises, so between two points it is at
least the lower end of the left one and at most the upper end of the right one: a band that holds everywhere.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from shuffledp.core.analyzer import Estimate

_LEVEL = 0.95
_LINES = 20
_LABEL = 40
_ROWS = 11  # lines of text of a curve: a share of 0.1 each
_EXACT_DECIMALS = 4  # of what is not whole and has no error
_HUGE = 1e15  # beyond, floats have few digits after the point, and columns no room
_HUGE_DIGITS = 10

QUARTILES = (0.25, 0.5, 0.75)
"""The shares that are marked in a curve."""
Place = tuple[float, float]


class Moment(float):
    """Days since 1970-01-01 that are written as a date.

    >>> f"{Moment(15890.4):,.0f}", f"{Moment(15889.6)}", Moment(1.5) + 1
    ('2013-07-04', '2013-07-04', 2.5)
    """

    __slots__ = ()
    step = timedelta(days=1)
    digits = len("2013-07-04")

    @property
    def when(self) -> datetime | None:
        """The nearest date; None if it is beyond the calendar."""
        try:
            return datetime(1970, 1, 1) + math.floor(float(self) + 0.5) * self.step
        except (OverflowError, ValueError):  # infinity is no integer
            return None

    def __format__(self, form: str) -> str:
        when = self.when
        return format(float(self), form) if when is None else when.isoformat(" ")[: self.digits]


class Instant(Moment):
    """Seconds since 1970-01-01 that are written as a date and a time.

    >>> f"{Instant(86401)}"
    '1970-01-02 00:00:01'
    """

    __slots__ = ()
    step = timedelta(seconds=1)
    digits = len("2013-07-04 00:00:00")


MOMENTS: dict[str, type[Moment]] = {"days": Moment, "seconds": Instant}
"""How a number of days or seconds is written as a date."""


class Number(NamedTuple):
    """One number of an estimate, with its error.

    >>> Number(label="car", value=120.0, stderr=3.0, low=114.0, high=126.0).label
    'car'
    """

    label: str
    value: float
    stderr: float
    low: float
    high: float

    def to_dict(self) -> dict[str, str | float | None]:
        """Return the fields for JSON, which has no infinity: None."""
        if type(self.value) is float and math.isfinite(sum(self[1:])):  # of a million, nearly all
            return dict(zip(Number._fields, self, strict=True))
        low, high = _round_end(self.low, ROUND_FLOOR, 0), _round_end(self.high, ROUND_CEILING, 0)
        shown = self._replace(low=low, high=high) if isinstance(self.value, Moment) else self
        return {name: _make_plain(value) for name, value in shown._asdict().items()}


def _make_plain(value: str | float) -> str | float | None:
    if isinstance(value, Moment):
        return f"{value}" if math.isfinite(value) else None
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_dates(picture: Picture, unit: str, *, values: bool = True) -> Picture:
    """Write dates for numbers of days or seconds since 1970-01-01: the points of a curve, and values.

    >>> shown = Picture(rows=(Number("mean", 15890.4, 2.0, 15886.0, 15894.0),), level=0.95)
    >>> format_rows(list(write_dates(shown, "days").rows))
    [['mean', '2013-07-04', '2.0', '2013-06-30 .. 2013-07-08']]
    """
    make = MOMENTS[unit]
    if picture.curve is not None:
        first, last = map(make, picture.curve.ends)
        dated = Curve(points=tuple(map(make, picture.curve.points)), ends=(first, last))
        picture = replace(picture, curve=dated)
    if not values:
        return picture
    rows = tuple(
        row._replace(value=make(row.value), low=make(row.low), high=make(row.high))
        for row in picture.rows
    )
    low, high = picture.limits or (None, None)
    limits = None if low is None or high is None else (make(low), make(high))
    return replace(picture, rows=rows, limits=limits)


def list_numbers(
    estimate: Estimate, level: float = _LEVEL, label: str = "estimate"
) -> list[Number]:
    """List every number of the estimate; `label` names it if there is only one.

    >>> from shuffledp.core.analyzer import Estimate, NormalError
    >>> list_numbers(Estimate(value=3.0, error=NormalError(stderr=1.0), limits=(0, 9)), 0.5)[0].stderr
    1.0
    """
    value = np.atleast_1d(np.asarray(estimate.value, dtype=np.float64))
    low, high = (np.broadcast_to(end, value.shape) for end in estimate.interval(level))
    stderr = np.broadcast_to(estimate.stderr, value.shape)
    names = estimate.labels
    if names is None:
        names = (label,) if np.ndim(estimate.value) == 0 else tuple(map(str, range(len(value))))
    columns = (array.tolist() for array in (value, stderr, low, high))
    return list(map(Number._make, zip(names, *columns, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The points at which a distribution function was asked for.

    >>> Curve(points=(10.0, 20.0), ends=(0.0, 30.0)).points
    (10.0, 20.0)
    """

    points: tuple[float, ...]
    """One for each row, which is the share of the people at or below it."""
    ends: tuple[float, float]
    """The range that is publicly known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An estimate, ready to be drawn in a terminal, in a notebook, as an image or on a page.

    With `limits` every row is a number on the line between them, with `curve` the rows are a distribution function,
    otherwise it is a bar for each row.
    """

    rows: tuple[Number, ...]
    level: float
    """Confidence level of the intervals."""
    limits: tuple[float, float] | None = None
    curve: Curve | None = None
    groups: tuple[str, ...] = ()
    """The group of each row, if several rows are about one group; labels start with it."""
    whole: bool = False
    """Whether the rows are numbers of people: they are written as whole numbers, although noise makes fractions."""
    people: float | None = None
    """All of them, if the rows have shares."""

    def list_rows(self) -> list[dict[str, str | float | None]]:
        """Return the rows for JSON, with their shares of all people where they have some.

        >>> Picture(rows=(Number("car", 3.0, 1.0, 1.0, 5.0),), level=0.95, people=4.0).list_rows()[0]["share"]
        0.75
        """
        if self.people is None:
            return [row.to_dict() for row in self.rows]
        return [{**row.to_dict(), "share": row.value / self.people} for row in self.rows]

    def write_whole(self, rows: Iterable[Number]) -> list[Number]:
        """Return the rows as they are written: whole, if they are numbers of people.

        >>> Picture(rows=(), level=0.95, whole=True).write_whole([Number("car", 3.2, 1.0, 1.1, 5.3)])[0].value
        3
        """
        return [_make_whole(row) if self.whole else row for row in rows]


def make_picture(estimate: Estimate, level: float = _LEVEL, label: str = "estimate") -> Picture:
    """Describe bars; or, for a single number with known limits, its place between them.

    >>> from shuffledp.core.analyzer import Estimate, NormalError
    >>> make_picture(Estimate(value=3.0, error=NormalError(stderr=1.0), limits=(0, 9))).limits
    (0, 9)
    """
    low, high = estimate.limits
    one = np.ndim(estimate.value) == 0 and math.isfinite(low) and math.isfinite(high) and low < high
    table = tuple(list_numbers(estimate, level, label))
    return Picture(rows=table, level=level, limits=estimate.limits if one else None)


def keep_largest(table: list[Number], limit: int) -> list[Number]:
    """Keep at most `limit` rows: those with the largest values, in their own order.

    >>> [row.label for row in keep_largest([Number("a", 1, 0, 0, 0), Number("b", 3, 0, 0, 0)], 1)]
    ['b']
    """
    if len(table) <= limit:
        return table
    values = np.fromiter((row.value for row in table), np.float64, len(table))
    best = np.sort(np.argsort(-values, kind="stable")[:limit])
    return [table[place] for place in best.tolist()]


def arrange(picture: Picture, kept: list[Number]) -> tuple[list[Number], dict[int, str]]:
    """Arrange rows as they stand below the headings of their groups, and which heading stands before which row.

    `kept` are rows of the picture. Without groups they stay as they are.

    >>> rows = [Number("car, yes", 3, 1, 1, 5), Number("car, no", 4, 1, 2, 6), Number("bus, yes", 2, 1, 0, 4)]
    >>> shown = Picture(rows=tuple(rows), level=0.95, groups=("car", "car", "bus"))
    >>> named, groups = arrange(shown, rows[1:])
    >>> [row.label for row in named], groups
    (['  no', '  yes'], {0: 'car', 1: 'bus'})
    """
    if not picture.groups:
        return kept, {}
    group_of = {id(row): group for row, group in zip(picture.rows, picture.groups, strict=True)}
    groups = [group_of[id(row)] for row in kept]
    named = [
        row._replace(label=f"  {row.label.removeprefix(f'{group}, ')}")
        for row, group in zip(kept, groups, strict=True)
    ]
    return named, {
        place: group
        for place, group in enumerate(groups)
        if place == 0 or group != groups[place - 1]
    }


def count_decimals(table: list[Number]) -> int:
    """Count the decimals that show two digits of the smallest standard error; none if all is whole.

    >>> count_decimals([Number("a", 12.3456, 0.0123, 12.32, 12.37)]), count_decimals([Number("a", 9.0, 2.5, 4.0, 14.0)])
    (3, 0)
    """
    whole = all(
        x == math.floor(x)
        for row in table
        for x in (row.value, row.low, row.high)
        if math.isfinite(x)
    )
    exact = all(row.stderr == 0 for row in table)
    return 0 if whole else _EXACT_DECIMALS if exact else count_error_decimals(table)


def count_error_decimals(table: list[Number]) -> int:
    """Count the decimals that show two digits of the smallest standard error.

    >>> [count_error_decimals([Number("a", 9.0, stderr, 4.0, 14.0)]) for stderr in (2.5, 25.0)]
    [1, 0]
    """
    errors = [row.stderr for row in table if row.stderr > 0 and math.isfinite(row.stderr)]
    if not errors:
        return 0
    return min(12, max(0, 1 - math.floor(math.log10(min(errors)))))


def format_number(value: float, places: int) -> str:
    """Return a number with thousands separated; a huge one by its first ten digits.

    >>> format_number(-1234.56, 1), format_number(1.5e21, 0)
    ('-1,234.6', '1.5e+21')
    """
    if abs(value) >= _HUGE:
        return f"{value:.{_HUGE_DIGITS}g}"
    text = f"{value:,.{places}f}"
    return text.lstrip("-") if not any(digit in text for digit in "123456789") else text


def format_ends(low: float, high: float, places: int) -> tuple[str, str]:
    """Return the ends of an interval, rounded outwards: what is in the interval is between what is written.

    >>> format_ends(52_341.26, 52_341.34, 1), format_ends(1 / 3, 1 / 3, 4)
    (('52,341.2', '52,341.4'), ('0.3333', '0.3334'))
    """
    low, high = (_round_end(*each, places) for each in ((low, ROUND_FLOOR), (high, ROUND_CEILING)))
    return format_number(low, places), format_number(high, places)


def format_bracket(low: float, high: float, digits: int = 6) -> tuple[str, str]:
    """Return the ends of an interval, rounded outwards to this many digits each.

    >>> format_bracket(1_234_567.0, 0.12345649)
    ('1,234,560', '0.123457')
    """
    return (
        write_digits(_cut_digits(low, ROUND_FLOOR, digits), digits),
        write_digits(_cut_digits(high, ROUND_CEILING, digits), digits),
    )


def write_digits(end: float, digits: int) -> str:
    """Write this many digits, and zeros rather than an exponent as long as floats have that many digits.

    >>> write_digits(52_341.7, 4), write_digits(0.12345, 4)
    ('52,340', '0.1235')
    """
    text = f"{end:,.{digits}g}"
    plain = 1 <= abs(end) < _HUGE and not isinstance(end, Moment)
    return f"{Decimal(text):,f}" if plain and "e" in text else text


def _round_end(end: float, way: str, places: int) -> float:
    if isinstance(end, Moment):
        return _round_moment(end, way)
    if abs(end) >= _HUGE:
        return _cut_digits(end, way, _HUGE_DIGITS)
    if not math.isfinite(end):
        return end
    return float(_read_end(end).quantize(Decimal(1).scaleb(-places), rounding=way))


def _round_moment(end: Moment, way: str) -> Moment:
    """Return the day, or the second, before or after the end of an interval."""
    return type(end)(_read_end(end).to_integral_value(way)) if math.isfinite(end) else end


def _cut_digits(end: float, way: str, digits: int) -> float:
    if isinstance(end, Moment):
        return _round_moment(end, way)
    if not math.isfinite(end):
        return end
    return float(Context(prec=digits, rounding=way).plus(_read_end(end)))


def _read_end(end: float) -> Decimal:
    """Return a number without the last digit of a float, so that 0.1 + 0.2 is 0.3."""
    return Decimal(f"{float(end):.15g}")


def shorten_label(label: str, width: int = _LABEL) -> str:
    """Return a label that fits on a line and moves no cursor: controls are replaced, the rest is cut.

    >>> shorten_label("red\\ngreen"), shorten_label("x" * 99, 5)
    ('red\ufffdgreen', 'xxxx…')
    """
    start = label[: width + 1]
    safe = "".join("\ufffd" if unicodedata.category(c)[0] == "C" else c for c in start)
    return safe if len(safe) <= width else safe[: width - 1] + "…"


def as_text(picture: Picture, limit: int = _LINES) -> str:
    """Return lines of text: value, standard error, interval.

    >>> from shuffledp.core.analyzer import Estimate, NormalError
    >>> pets = Estimate(value=np.array([120.0, -3.0]), error=NormalError(stderr=10.0),
    ...                 limits=(0, 200), labels=("cat", "owl"))
    >>> print(as_text(make_picture(pets)))
          estimate   std. error   95% interval
    cat        120           10     100 .. 140
    owl         -3           10      -23 .. 17
    """
    table = list(picture.rows)
    kept = keep_largest(table, limit)
    named, groups = arrange(picture, kept)
    lines = [name_columns(picture.level)]
    for place, row in enumerate(format_rows(named, whole=picture.whole)):
        lines += [[shorten_label(groups[place]), "", "", ""]] if place in groups else []
        lines.append(row)
    text = align(lines)
    if len(kept) < len(table):
        text.append(f"… and {len(table) - len(kept):,} smaller ones")
    return "\n".join(text)


def align(lines: Sequence[Sequence[str]], texts: int = 1, gap: str = "   ") -> list[str]:
    """Align rows of cells as lines: the first columns are `texts` and go to the left, the others to the right.

    >>> align([["", "n"], ["car", "12"]])
    ['       n', 'car   12']
    """
    widths = [max(map(measure_text, column)) for column in zip(*lines, strict=True)]

    def pad(place: int, cell: str) -> str:
        room = " " * (widths[place] - measure_text(cell))
        return cell + room if place < texts else room + cell

    return [gap.join(pad(*each) for each in enumerate(line)).rstrip() for line in lines]


def draw_table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    sections: Collection[int] = (),
    caption: str = "",
) -> list[str]:
    """Draw a table in a box, with a line above the rows at these places, where sections begin.

    >>> for line in draw_table("pets", ["", "n"], [["cat", "12"], ["owl", "7"]]): print(line)
        pets
    ┏━━━━━┳━━━━┓
    ┃     ┃  n ┃
    ┡━━━━━╇━━━━┩
    │ cat │ 12 │
    │ owl │  7 │
    └─────┴────┘
    """
    widths = [max(map(measure_text, column)) for column in zip(heads, *rows, strict=True)]
    wide = sum(widths) + 3 * len(widths) + 1

    def rule(left: str, line: str, between: str, right: str) -> str:
        return left + between.join(line * (width + 2) for width in widths) + right

    def fill(cells: Sequence[str], edge: str) -> str:
        gaps = [" " * (w - measure_text(cell)) for w, cell in zip(widths, cells, strict=True)]
        numbers = [gap + cell for gap, cell in zip(gaps[1:], cells[1:], strict=True)]
        return f"{edge} " + f" {edge} ".join([cells[0] + gaps[0], *numbers]) + f" {edge}"

    def centre(text: str) -> str:
        return " " * ((wide - measure_text(text)) // 2) + text

    lines = [rule(*"┏━┳┓"), fill(heads, "┃"), rule(*"┡━╇┩")]
    for place, row in enumerate(rows):
        lines += [rule(*"├─┼┤")] if place and place in sections else []
        lines.append(fill(row, "│"))
    above, below = (map(centre, textwrap.wrap(text, wide)) for text in (title, caption))
    return [*above, *lines, rule(*"└─┴┘"), *below]


def pad_labels(labels: Sequence[str], most: int = _LABEL) -> list[str]:
    """Return labels that take the same number of columns of a terminal, at most this many.

    >>> pad_labels(["bus", "東京"]), pad_labels(["東京"], 3)
    (['bus ', '東京'], ['東 '])
    """
    width = min(most, max(map(measure_text, labels)))
    padded = []
    for label in labels:
        own = label
        while measure_text(own) > width:
            own = own[:-1]
        padded.append(own + " " * (width - measure_text(own)))
    return padded


def measure_text(text: str) -> int:
    """Count the columns of a terminal that a text takes: letters of East Asia take two, accents none.

    >>> measure_text("bus"), measure_text("東京"), measure_text("e\u0301")
    (3, 4, 1)
    """
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def _make_whole(row: Number) -> Number:
    """Return the row with the whole numbers in its interval; around it, if there are none."""
    if not all(map(math.isfinite, (row.value, row.low, row.high))):
        return row
    low, high = math.ceil(row.low), math.floor(row.high)
    if low > high:
        low, high = high, low
    return row._replace(value=round(row.value), low=low, high=high)


def name_columns(level: float) -> list[str]:
    """Return the headings of the columns of `format_rows`.

    >>> name_columns(0.95)
    ['', 'estimate', 'std. error', '95% interval']
    """
    return ["", "estimate", "std. error", f"{100 * level:.15g}% interval"]


def format_share(value: float, people: float) -> str:
    """Return which share of all people this many are.

    >>> format_share(3.0, 4.0), format_share(-0.1, 4000.0)
    ('75.0%', '0.0%')
    """
    text = f"{value / people:,.1%}"
    return "0.0%" if text == "-0.0%" else text


def format_shares(rows: list[Number], people: float) -> list[str]:
    """Return the shares of several rows, of one width.

    >>> format_shares([Number("cat", 3.0, 1.0, 1.0, 5.0), Number("dog", 0.2, 1.0, 0.0, 2.0)], 4.0)
    ['75.0%', ' 5.0%']
    """
    shares = [format_share(row.value, people) for row in rows]
    wide = max(map(len, shares), default=0)
    return [share.rjust(wide) for share in shares]


def format_rows(
    kept: list[Number],
    label_width: int = _LABEL,
    *,
    whole: bool = False,
    people: float | None = None,
) -> list[list[str]]:
    """Write each row as text: label, estimate, standard error, interval; `whole` numbers of people are written as such.

    The estimate has its share of all `people` beside it, where they are given.

    >>> format_rows([Number("cat", 1200.0, 10.0, 1180.0, 1220.0)])
    [['cat', '1,200', '10', '1,180 .. 1,220']]
    >>> format_rows([Number("cat", 1200.4, 3.0, 1194.1, 1206.3)], whole=True)
    [['cat', '1,200', '3.0', '1,195 .. 1,206']]
    >>> format_rows([Number("cat", 1200.0, 10.0, 1180.0, 1220.0)], people=4800.0)[0][1]
    '1,200 (25.0%)'
    """
    if whole:
        kept = [_make_whole(row) for row in kept]
    places, error_places = count_decimals(kept), count_error_decimals(kept)
    return [
        [
            shorten_label(row.label, label_width),
            format_number(row.value, places)
            + ("" if people is None else f" ({format_share(row.value, people)})"),
            format_number(row.stderr, error_places),
            " .. ".join(format_ends(row.low, row.high, places)),
        ]
        for row in kept
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Points from left to right, with the share of the people at or below each one, and its interval."""

    points: tuple[float, ...]
    shares: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    ends: tuple[float, float]

    def bracket(self, share: float) -> tuple[float, float]:
        """Return the interval in which the quantile lies, if the band holds.

        >>> steps = Steps(points=(1, 2, 3), shares=(0.2, 0.5, 1), lows=(0.1, 0.4, 1), highs=(0.3, 0.6, 1), ends=(0, 3))
        >>> steps.bracket(0.5), steps.bracket(0.25)
        ((1, 3), (0, 2))
        """
        below = [x for x, high in zip(self.points, self.highs, strict=True) if high < share]
        above = [x for x, low in zip(self.points, self.lows, strict=True) if low >= share]
        return max(below, default=self.ends[0]), min(above, default=self.ends[1])

    def band(self) -> tuple[list[Place], list[Place]]:
        """Return the corners of what the function is at least and at most, from the left to the right.

        >>> steps = Steps(points=(1, 2), shares=(0.2, 0.9), lows=(0.1, 0.8), highs=(0.3, 1), ends=(0, 2))
        >>> steps.band()
        ([(0, 0.0), (1, 0.0), (1, 0.1), (2, 0.1), (2, 0.8)], [(0, 0.3), (1, 0.3), (1, 1), (2, 1), (2, 1.0)])
        """
        low, high = [(self.ends[0], 0.0)], []
        left = self.ends[0]
        for x, least, most in zip(self.points, self.lows, self.highs, strict=True):
            low += [(x, low[-1][1]), (x, least)]
            high += [(left, most), (x, most)]
            left = x
        if left < self.ends[1]:
            low.append((self.ends[1], low[-1][1]))
        return low, [*high, (left, 1.0), *([(self.ends[1], 1.0)] if left < self.ends[1] else [])]

    def interpolate(self, x: float) -> tuple[float, float, float]:
        """Return the least, the estimate by interpolation (NaN left of all points) and the most at x."""
        place = bisect_left(self.points, x)
        if place == len(self.points):
            return self.lows[-1], self.shares[-1], 1.0
        if self.points[place] == x:
            return self.lows[place], self.shares[place], self.highs[place]
        if place == 0:
            return 0.0, float("nan"), self.highs[0]
        left, right = self.points[place - 1], self.points[place]
        part = (x - left) / (right - left)
        share = self.shares[place - 1] * (1 - part) + self.shares[place] * part
        return self.lows[place - 1], share, self.highs[place]


def find_steps(picture: Picture) -> Steps | None:
    """Return the points in order, shares and intervals between 0 and 1; None if the picture shows something else.

    >>> find_steps(Picture(rows=(), level=0.95)) is None
    True
    """
    if picture.curve is None:
        return None
    ordered = sorted(zip(picture.curve.points, picture.rows, strict=True), key=lambda each: each[0])

    def clip(x: float) -> float:
        return min(max(x, 0.0), 1.0)

    return Steps(
        points=tuple(point for point, _ in ordered),
        shares=tuple(clip(row.value) for _, row in ordered),
        lows=tuple(clip(row.low) for _, row in ordered),
        highs=tuple(clip(row.high) for _, row in ordered),
        ends=picture.curve.ends,
    )


def draw_steps(picture: Picture, width: int) -> list[str]:
    """Draw lines of text: the curve in dots, and the band in which it surely is in grey.

    >>> rows = (Number("<= 10", 0.4, 0.01, 0.35, 0.45), Number("<= 20", 1.0, 0.0, 1.0, 1.0))
    >>> shown = Picture(rows=rows, level=0.95, curve=Curve(points=(10.0, 20.0), ends=(0.0, 20.0)))
    >>> for line in draw_steps(shown, 26): print(line)
      1            ░░░░░░░░░●
                   ░░░░░░░●●
                   ░░░░░●●░░
                   ░░░░●░░░░
                   ░░●●░░░░░
    0.5 ░░░░░░░░░░░●●░░░░░░░
        ░░░░░░░░░░●░░░░░░░░░
        ░░░░░░░░░░░░░░░░░░░░
        ░░░░░░░░░░
        ░░░░░░░░░░
      0 ░░░░░░░░░░
        0                  20
    """
    steps = find_steps(picture)
    if steps is None:
        return []
    low, high = steps.ends
    room = max(10, width - 5)
    columns = [steps.interpolate(low + (high - low) * each / (room - 1)) for each in range(room)]
    lines = []
    for row in range(_ROWS):
        share = 1 - row / (_ROWS - 1)
        name = {0: "1", _ROWS // 2: "0.5", _ROWS - 1: "0"}.get(row, "")
        cells = (_mark(share, *column) for column in columns)
        lines.append(f"{name:>3} {''.join(cells)}".rstrip())
    left, right = f"{low:,.6g}", f"{high:,.6g}"
    return [*lines, f"    {left}{right:>{max(1, room - len(left))}}"]


def _mark(share: float, least: float, value: float, most: float) -> str:
    """Choose the character at a place: of the curve, of the band, or a space."""
    half = 0.5 / (_ROWS - 1)
    if abs(value - share) <= half:
        return "●"
    return "░" if least - half <= share <= most + half else " "
