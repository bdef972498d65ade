"""Bars in a terminal: whole lines of text, of at most so many columns."""

from __future__ import annotations

from shuffledp.core.display import Row, decimals, short, shown

__all__ = ["bars", "gauge"]

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LONGEST_LABEL = 24


def bars(table: list[Row], width: int, more: int = 0) -> list[str]:
    """A line for each row: label, bar, number. A negative number has a hatched bar to the left.

    >>> for line in bars([Row("cat", 4, 1, 2, 6), Row("東京", -2, 1, -4, 0)], 30): print(line)
    cat         ██████████████   4
    東京 ░░░░░░░                -2
    """
    from rich.cells import cell_len, set_cell_size

    places = decimals(table)
    numbers = [shown(row.value, places) for row in table]
    labels = [short(row.label, _LONGEST_LABEL) for row in table]
    label_width = min(_LONGEST_LABEL, max(map(cell_len, labels)))
    number_width = max(map(len, numbers))
    room = max(4, width - label_width - number_width - 3)
    low = min(0.0, *(row.value for row in table))
    high = max(0.0, *(row.value for row in table))
    left = 0 if low == 0 else max(1, round(room * -low / ((high - low) or 1.0)))
    scale = (room - left) / high if high else 0.0
    lines = []
    for row, label, number in zip(table, labels, numbers, strict=True):
        name = set_cell_size(label, label_width)
        bar = _bar(row.value, left, room - left, scale, low)
        lines.append(f"{name} {bar}  {number:>{number_width}}")
    if more:
        lines.append(f"… {more:,} more")
    return lines


def _bar(value: float, left: int, right: int, scale: float, low: float) -> str:
    if value < 0:
        length = min(left, max(1, round(left * value / low)))
        return " " * (left - length) + "░" * length + " " * right
    whole, eighths = divmod(round(8 * value * scale), 8)
    body = "█" * whole + (_EIGHTHS[eighths] if eighths else "")
    return " " * left + body[:right].ljust(right)


def _end(limit: float) -> str:
    """A limit as people write it: whole ones in full, unless they are endless."""
    whole = float(limit).is_integer() and abs(limit) < 1e15
    return f"{limit:,.0f}" if whole else f"{limit:,.6g}"


def gauge(row: Row, limits: tuple[float, float], width: int) -> list[str]:
    """Where one number lies between the limits that are known in public.

    >>> for line in gauge(Row("mean", 30.0, 1.0, 20.0, 40.0), (0, 120), 40): print(line)
    0 ──────├─●──┤────────────────────── 120
    >>> gauge(Row("sum", 3e6, 1.0, 3e6, 3e6), (0, 12_000_000), 30)
    ['0 ────●──────────── 12,000,000']
    """
    low, high = limits
    ends = _end(low), _end(high)
    room = max(10, width - len(ends[0]) - len(ends[1]) - 2)

    def place(x: float) -> int:
        return min(room - 1, max(0, round((x - low) / (high - low) * (room - 1))))

    line = ["─"] * room
    line[place(row.low)], line[place(row.high)] = "├", "┤"
    line[place(row.value)] = "●"
    return [f"{ends[0]} {''.join(line)} {ends[1]}"]
