"""A distribution as a picture for pages: steps with their simultaneous band, and the quartiles."""

from collections.abc import Sequence

from shuffledp.core.display import Number

__all__ = ["draw_distribution"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 460, 190, 36, 22
_COLOUR = "#0072b2"


def draw_distribution(rows: Sequence[Number]) -> str:
    """An SVG of shares at or below points, whose labels are `<= point`; "" if there are fewer than two.

    >>> rows = [Number("<= 1", 0.4, 0.01, 0.38, 0.42), Number("<= 2", 1.0, 0.0, 1.0, 1.0)]
    >>> draw_distribution(rows).count("<path")
    6
    """
    if len(rows) < 2:
        return ""
    points = [float(row.label.removeprefix("<=").replace(",", "")) for row in rows]
    ends = points[0], points[-1]
    shares = [row.value for row in rows]
    band = _step(points, [row.high for row in rows], ends)
    back = _step(points, [row.low for row in rows], ends)[::-1]
    shapes = [
        *(_rule(share, points, shares, ends) for share in (0.25, 0.5, 0.75)),
        f'<path d="M{_join(band + back)}Z" fill="{_COLOUR}" fill-opacity=".25"/>',
        f'<path d="M{_join(_step(points, shares, ends))}" fill="none" stroke="{_COLOUR}" stroke-width="1.5"/>',
        f'<path d="M{_LEFT},0V{_HEIGHT - _BOTTOM}H{_WIDTH}" fill="none" stroke="currentColor"/>',
        *(_write(0, share, f"{share:g}", ends, "end") for share in (0.0, 0.5, 1.0)),
        _write(points[0], None, f"{points[0]:g}", ends, "start"),
        _write(points[-1], None, f"{points[-1]:g}", ends, "end"),
    ]
    said = (
        "Share of people at or below each number, with the band that holds for all of them together"
    )
    return (
        f'<svg role="img" aria-label="{said}" viewBox="0 -8 {_WIDTH} {_HEIGHT + 8}" width="{_WIDTH}" '
        f'font-size="11">{"".join(shapes)}</svg>'
    )


_Place = tuple[float, float]


def _place(x: float, share: float, ends: tuple[float, float]) -> _Place:
    across = (x - ends[0]) / (ends[1] - ends[0])
    height = _HEIGHT - _BOTTOM
    return _LEFT + across * (_WIDTH - _LEFT), height - min(max(share, 0.0), 1.0) * height


def _step(
    points: Sequence[float], shares: Sequence[float], ends: tuple[float, float]
) -> list[_Place]:
    """Each share holds until the next point."""
    corners: list[_Place] = []
    for place, (x, share) in enumerate(zip(points, shares, strict=True)):
        if place:
            corners.append((_place(x, share, ends)[0], corners[-1][1]))
        corners.append(_place(x, share, ends))
    return corners


def _join(corners: Sequence[_Place]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _rule(
    share: float, points: Sequence[float], shares: Sequence[float], ends: tuple[float, float]
) -> str:
    """A dotted line from the share to the first point where it is reached, and down."""
    reached = next((x for x, value in zip(points, shares, strict=True) if value >= share), ends[1])
    x, y = _place(reached, share, ends)
    path = f"M{_LEFT},{y:.1f}H{x:.1f}V{_HEIGHT - _BOTTOM}"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".45" stroke-dasharray="2 3"/>'


def _write(x: float, share: float | None, text: str, ends: tuple[float, float], anchor: str) -> str:
    """A number at the left of a share, or below a point."""
    if share is None:
        across, down = _place(x, 0.0, ends)[0], _HEIGHT - _BOTTOM + 15.0
    else:
        across, down = _LEFT - 5.0, _place(ends[0], share, ends)[1] + 4
    return f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}" fill="currentColor">{text}</text>'
