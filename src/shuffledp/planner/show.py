"""A plan for people: a table in 80 columns, or in HTML."""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING

from shuffledp.core.privacy import up
from shuffledp.planner.rank import Aim

if TYPE_CHECKING:
    from shuffledp.planner.answer import Plan
    from shuffledp.planner.row import Row

__all__ = ["as_html", "as_text", "title"]

_WIDTH = 80
_DIGITS = 4  # of an epsilon, rounded up


def as_text(plan: Plan) -> str:
    """The table, 80 columns wide, then what is not available and why."""
    names = _columns(plan)
    cells = [names, *(_cells(plan, row) for row in plan.rows if row.available)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    marks = ["  ", *(_mark(plan, row) for row in plan.rows if row.available)]
    lines = [*_wrapped(title(plan)), ""]
    if len(cells) > 1:
        lines += [
            (mark + _line(line, widths)).rstrip() for mark, line in zip(marks, cells, strict=True)
        ]
        lines += ["", *_wrapped(_caption(plan)), *_wrapped(_verdict(plan))]
    else:
        lines.append("Nothing is available.")
    missing = [row for row in plan.rows if not row.available]
    if missing:
        lines += ["", "Not available:"]
    for row in missing:
        lines += _wrapped(f"{row.protocol} ({row.model.value}): {row.reason}", "  ", "    ")
    return "\n".join(lines)


def as_html(plan: Plan) -> str:
    """The same for a notebook."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _columns(plan))
    body = ""
    for row in plan.rows:
        if not row.available:
            continue
        tag = "th" if row is plan.chosen else "td"
        cells = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in _cells(plan, row))
        body += f"<tr>{cells}</tr>"
    missing = "".join(
        f"<li>{html.escape(f'{row.protocol} ({row.model.value}): {row.reason}')}</li>"
        for row in plan.rows
        if not row.available
    )
    return (
        f"<p>{html.escape(title(plan))}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table><p>{html.escape(_caption(plan))}</p>"
        f"<p>{html.escape(_verdict(plan))}</p>"
        + (
            f"<details><summary>not available</summary><ul>{missing}</ul></details>"
            if missing
            else ""
        )
    )


def _mark(plan: Plan, row: Row) -> str:
    return "> " if row is plan.chosen else "  "


def _line(cells: list[str], widths: list[int]) -> str:
    first = [cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True)]
    rest = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join([*first, *rest])


def _columns(plan: Plan) -> list[str]:
    names = ["protocol", "model"]
    if plan.aim is Aim.EPSILON:
        names.append("epsilon")
    if plan.aim is Aim.USERS:
        names.append("n")
    beside = plan.asked.task.columns(rmse=0.0, worst=None, n=1)
    return [*names, "RMSE", *beside, "messages", "bits", "local"]


def _cells(plan: Plan, row: Row) -> list[str]:
    assert row.guarantee is not None
    assert row.n is not None
    assert row.rmse is not None
    cells = [row.protocol, row.model.value]
    if plan.aim is Aim.EPSILON:
        cells.append(up(row.guarantee.epsilon, _DIGITS))
    if plan.aim is Aim.USERS:
        cells.append(f"{row.n:,}")
    beside = plan.asked.task.columns(rmse=row.rmse, worst=row.worst_bin, n=row.n)
    cells += map(_short, (row.rmse, *beside.values()))
    floor = "-" if row.local_floor is None else up(row.local_floor.epsilon, _DIGITS)
    return [*cells, _short(row.messages_per_user), _short(row.bits_per_user), floor]


def title(plan: Plan) -> str:
    """The question in one line."""
    parts = [f"{plan.task} of {plan.asked.domain}"]
    if plan.n is not None:
        parts.append(f"n = {plan.n:,}")
    if plan.error is not None:
        parts.append(f"RMSE of {plan.asked.task.answer} <= {plan.error:g}")
    if plan.epsilon is not None:
        parts.append(f"epsilon = {up(plan.epsilon, _DIGITS)}")
    parts += [f"delta = {plan.delta:g}", f"{100 * plan.asked.honest:g} % honest"]
    return ", ".join(parts)


def _caption(plan: Plan) -> str:
    task = plan.asked.task
    notes = [f"RMSE: exact, of {task.total}, on the data set that is worst for the protocol."]
    if task.bins:
        notes.append("Worst bin: with probability about 95 % no bin is off by more.")
    notes.append("Messages, bits: per user. Local: epsilon if the shuffler tells who sent what.")
    if plan.rounding:
        notes.append(
            "Values are on the grid; rounding others to it may move the sum by up to "
            f"{_short(plan.rounding)} more."
        )
    return " ".join(notes)


def _verdict(plan: Plan) -> str:
    if plan.chosen is None:
        return ""
    return f"> chosen: {plan.chosen.protocol} ({plan.chosen.model.value})"


def _wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=later)


def _short(value: float | None) -> str:
    """About three digits."""
    if value is None:
        return "-"
    if value >= 999.5:
        return f"{value:,.0f}" if value < 1e7 else f"{value:.3g}"
    return f"{value:.3g}"
