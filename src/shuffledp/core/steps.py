"""A distribution function: what is known between its points, as a picture for pages and as text for terminals.

The intervals of all points hold together. A distribution function rises, so between two points it is at least the
lower end of the left one and at most the upper end of the right one: a band that holds everywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from shuffledp.core.display import Picture

QUARTILES = (0.25, 0.5, 0.75)
"""The shares that are marked."""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 460, 190, 36, 22
_COLOUR = "#0072b2"
_ROWS = 11  # lines of text: a share of 0.1 each

_Place = tuple[float, float]


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

    def band(self) -> tuple[list[_Place], list[_Place]]:
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
    """Return the points in order, shares and intervals between 0 and 1; None if the picture is of something else.

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
    """Lines of text: the curve in dots, and the band in which it surely is in grey.

    >>> from shuffledp.core.display import Curve, Number
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
    """Return what stands in a line of text: the curve, the band, or nothing."""
    half = 0.5 / (_ROWS - 1)
    if abs(value - share) <= half:
        return "●"
    return "░" if least - half <= share <= most + half else " "


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
    band = [_place(*corner, ends) for corner in [*high, *reversed(low)]]
    line = [_place(*each, ends) for each in zip(steps.points, steps.shares, strict=True)]
    shapes = [
        *(_rule(share, steps) for share in QUARTILES),
        f'<path d="M{_join(band)}Z" fill="{_COLOUR}" fill-opacity=".25"/>',
        f'<path d="M{_join(line)}" fill="none" stroke="{_COLOUR}" stroke-width="1.5"/>',
        f'<path d="M{_LEFT},0V{_HEIGHT - _BOTTOM}H{_WIDTH}" fill="none" stroke="currentColor"/>',
        *(_write(0, share, f"{share:g}", ends, "end") for share in (0.0, 0.5, 1.0)),
        _write(ends[0], None, f"{ends[0]:g}", ends, "start"),
        _write(ends[1], None, f"{ends[1]:g}", ends, "end"),
    ]
    label = (
        "Share of people at or below each number, with the band that holds for all of them together"
    )
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 -8 {_WIDTH} {_HEIGHT + 8}" width="{_WIDTH}" '
        f'style="max-width:100%" font-size="11">{"".join(shapes)}</svg>'
    )


def _place(x: float, share: float, ends: tuple[float, float]) -> _Place:
    across = (x - ends[0]) / (ends[1] - ends[0])
    height = _HEIGHT - _BOTTOM
    return _LEFT + across * (_WIDTH - _LEFT), height - share * height


def _join(corners: Sequence[_Place]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _rule(share: float, steps: Steps) -> str:
    """Draw a dotted line from the share to where it is surely reached, and down from both ends of what is left open."""
    (first, y), (last, _) = (_place(x, share, steps.ends) for x in steps.bracket(share))
    down = _HEIGHT - _BOTTOM
    path = f"M{_LEFT},{y:.1f}H{last:.1f}V{down}M{first:.1f},{y:.1f}V{down}"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".45" stroke-dasharray="2 3"/>'


def _write(x: float, share: float | None, text: str, ends: tuple[float, float], anchor: str) -> str:
    """Return a number at the left of a share, or below a point."""
    if share is None:
        across, down = _place(x, 0.0, ends)[0], _HEIGHT - _BOTTOM + 15.0
    else:
        across, down = _LEFT - 5.0, _place(ends[0], share, ends)[1] + 4
    return f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}" fill="currentColor">{text}</text>'
