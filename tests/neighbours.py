"""Neighbouring tables for every task and every kind of input, and what of an answer is not noise."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import shuffledp as sdp

N = 60
PLACE = 7
"""Whose value is replaced."""

_WHOLE = {"lower": 0, "upper": 10}
_REAL = {"lower": 0.0, "upper": 10.0}
_INTEGERS = [1, 2, 5] * (N // 3)
_FLOATS = [1.5, 2.0, 5.25] * (N // 3)
_NAMES = ["a", "b"] * (N // 2)
_AS_INTEGERS = (3.0, "3", 0, 10, True, np.int64(4), Decimal("7"), " 6", 2.0, "1e1")
_AS_REALS = (10, "3.5", 0, 3.5, True, np.float32(0.5), Decimal("7.25"), 1e-300, "1e1", 10.0)
_BEYOND = (1e300, "99", 11, -1, 10**30, -(10**30), -1e300, 2**63, float("inf"))
_OTHERS = ("zzz", None, "", 5, 2.5, True, float("nan"), "other")


@dataclass(frozen=True)
class Case:
    """A question, the values that people have, and values that one of them might have instead."""

    task: str
    options: dict[str, Any]
    base: list[Any]
    valid: tuple[Any, ...]
    invalid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """By policy: what is protected all the same."""
    groups: tuple[str, ...] | None = None
    n: int = N

    @property
    def name(self) -> str:
        ends = "-real" if isinstance(self.options.get("lower"), float) else ""
        named = "-names" if "categories" in self.options else ""
        return f"{self.task}{ends}{named}" + ("" if self.groups is None else "-by")

    def policies(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        yield "error", self.valid
        yield from self.invalid.items()


def _numeric(task: str, **more: Any) -> list[Case]:
    clamped = {"clamp": _BEYOND}
    return [
        Case(task, {**_WHOLE, **more}, _INTEGERS, _AS_INTEGERS, clamped),
        Case(task, {**_REAL, **more}, _FLOATS, _AS_REALS, clamped),
    ]


CASES = (
    Case("count", {}, [True, False] * (N // 2), (True, False, 1, 0, "yes", "N", 1.0, np.True_)),
    *_numeric("sum"),
    *_numeric("mean"),
    *_numeric("quantiles"),
    *_numeric("range", at=[1, 3]),
    *_numeric("cdf", at=[1, 3]),
    *_numeric("variance"),
    *_numeric("std"),
    Case("bins", {"edges": [0, 3, 10]}, _FLOATS, _AS_REALS, {"clamp": _BEYOND}),
    Case("histogram", _WHOLE, _INTEGERS, _AS_INTEGERS, {"clamp": _BEYOND}),
    Case("histogram", {"categories": ["a", "b", "other"]}, _NAMES, ("b",), {"other": _OTHERS}),
    Case("words", {"alphabet": "letters", "max_length": 3}, ["cat", "dog"] * 150, ("emu", "cat"),
         {"clamp": ("elephants", "cats")}, n=300),
    Case("count", {}, [True, False] * (N // 2), (1, 0, "no"), groups=("x", "y", "other")),
    Case("sum", _WHOLE, _INTEGERS, _AS_INTEGERS, {"clamp": _BEYOND}, groups=("x", "y", "other")),
    Case("mean", _REAL, _FLOATS, _AS_REALS, {"clamp": _BEYOND}, groups=("x", "y", "other")),
    Case("histogram", {"categories": ["a", "b", "other"]}, _NAMES, ("b",), {"other": _OTHERS},
         groups=("x", "y", "other")),
)  # fmt: skip

MODELS = {"shuffle": {"delta": 1e-2}, "local": {}, "central": {"delta": 1e-2}}


def replace_one(case: Case, value: Any) -> dict[str, list[Any]]:
    """The table with this value in one place."""
    values = list(case.base)
    values[PLACE] = value
    return {"v": values, "g": ["x", "y", "x"] * (case.n // 3)}


def _same_type(case: Case, table: dict[str, list[Any]]) -> bool:
    """Whether a typed array of the base can hold the values."""
    value, first = table["v"][PLACE], case.base[0]
    if type(value) is type(first):
        return not isinstance(value, int) or isinstance(value, bool) or -(2**63) <= value < 2**63
    return value is None and isinstance(first, str)


def _write_csv(table: dict[str, list[Any]], path: Any) -> Any:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    path.write_text(text.getvalue())
    return path


def _write_lines(table: dict[str, list[Any]], path: Any) -> Any:
    def plain(value: Any) -> Any:
        return value.item() if isinstance(value, np.generic) else str(value)

    rows = (dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
    path.write_text("".join(json.dumps(row, default=plain) + "\n" for row in rows))
    return path


def _write_parquet(table: dict[str, list[Any]], path: Any) -> Any:
    pq.write_table(pa.table(table), path)
    return path


UNTYPED: dict[str, Callable[[dict[str, list[Any]], Any], Any]] = {
    "list": lambda table, _: table["v"],
    "dict": lambda table, _: table,
    "object array": lambda table, _: {k: np.array(v, dtype=object) for k, v in table.items()},
    "pandas object": lambda table, _: pd.DataFrame(table, dtype=object),
    "csv": lambda table, path: _write_csv(table, path / "t.csv"),
    "json lines": lambda table, path: _write_lines(table, path / "t.jsonl"),
}
TYPED: dict[str, Callable[[dict[str, list[Any]], Any], Any]] = {
    "array": lambda table, _: {k: np.array(v) for k, v in table.items()},
    "pandas": lambda table, _: pd.DataFrame(table),
    "polars": lambda table, _: pl.DataFrame(table),
    "arrow": lambda table, _: pa.table(table),
    "parquet": lambda table, path: _write_parquet(table, path / "t.parquet"),
}
INPUTS = {**UNTYPED, **TYPED}


def list_values(case: Case, kind: str, values: tuple[Any, ...]) -> list[Any]:
    """Those values that this kind of input can hold."""
    fits = [each for each in values if kind in UNTYPED or _same_type(case, replace_one(case, each))]
    if kind == "array":
        fits = [each for each in fits if each is not None]
    if kind == "json lines":  # JSON has neither
        fits = [each for each in fits if not (isinstance(each, float) and not np.isfinite(each))]
    return fits


_NOISE = {"value", "stderr", "low", "high", "share", "messages", "clamped"}
_CLAMPED = re.compile(r"about [0-9.]+% of the people \([^)]*\)")


def mask(found: Any, task: str) -> Any:
    """What JSON says, without what follows from the noise."""
    if isinstance(found, dict):
        kept = {
            key: "noise" if key in _NOISE else mask(value, task) for key, value in found.items()
        }
        if task == "words":
            kept |= {key: "noise" for key in ("estimate", "found") if key in found}
        return kept
    if isinstance(found, str):
        return _CLAMPED.sub("some of the people", found)
    return [mask(each, task) for each in found] if isinstance(found, list) else found


def public(answer: Any, task: str) -> tuple[Any, ...]:
    """Everything that an answer shows besides its noisy numbers."""
    said = (answer.title, mask([*answer.warnings], task), answer.explain(), repr(answer))
    if isinstance(answer, sdp.SurveyAnswer):
        notes = tuple(each.notes for each in answer.answers)
        return ("answer", mask(answer.to_dict(), task), notes, *said)
    rows = None if task == "words" else [row.label for row in answer.picture.rows]
    spread = answer.picture.limits if task != "words" else None
    return ("answer", mask(answer.to_dict(), task), rows, spread, answer.dropped, *said)


def observe(run: Callable[[], Any], task: str) -> tuple[Any, ...]:
    """What somebody sees of it: the answer, or the error."""
    try:
        return public(run(), task)
    except sdp.ShuffledpError as error:
        return ("error", type(error).__name__, str(error))


def hide_numbers(text: str) -> str:
    """A text without numbers, and without the line for the operator alone."""
    lines = [line for line in text.splitlines() if not line.startswith("For you alone")]
    return re.sub(r"[0-9][0-9.,e+-]*", "#", "\n".join(lines))


_HALF = N // 2
_NUMBERS = ((3,), (10, 0), (99,), (-1, 1e300), (1e308, 1e308), (1, 2) * 30)
_GAPS = ((3,), (None,), ("", 3), ("zzz",), (99, None), (2,) * 40)
_CATEGORIES = (("b",), ("zzz",), (None, "a"), ("a", "b", "other") * 20)
_DAYS = {"lower": "2024-01-01", "upper": "2024-01-05"}
_TWO_DAYS = ("2024-01-01", "2024-01-01", "2024-01-03", "2024-01-03")  # whose means are days
_DATES = (("2024-01-02",), ("2024-01-01", "2024-01-02"), (None,), ("soon", "2024-01-04"))


@dataclass(frozen=True)
class Reduced:
    """A question about people, and what one of them may have in her rows."""

    name: str
    task: str
    options: dict[str, Any]
    rows: tuple[tuple[Any, ...], ...] = _NUMBERS
    policy: str = "clamp"
    base: tuple[Any, ...] = (1, 2, 5)


_ROWS = {"of": "rows", "max_rows": 3}
_NAMED = {"categories": ["a", "b", "other"]}
_GROUPED = {"by": "g", "groups": ("x", "y", "other")}
REDUCED = (
    Reduced("sum", "sum", _WHOLE),
    Reduced("sum of reals", "sum", {**_REAL, "reduce": "max"}),
    Reduced("sum or nothing", "sum", _WHOLE, _GAPS, "drop"),
    Reduced("mean of means", "mean", _REAL),
    Reduced("mean of those with a value", "mean", _WHOLE, _GAPS, "drop"),
    Reduced("mean of rows", "mean", {**_REAL, **_ROWS}),
    Reduced("sum of rows", "sum", {**_WHOLE, **_ROWS}),
    Reduced("number of rows", "sum", {**_WHOLE, "reduce": "rows"}),
    Reduced("quantiles or nothing", "quantiles", _WHOLE, _GAPS, "drop"),
    Reduced("cdf or nothing", "cdf", {**_WHOLE, "at": [1, 3]}, _GAPS, "drop"),
    Reduced("variance or nothing", "variance", _WHOLE, _GAPS, "drop"),
    Reduced("bins or nothing", "bins", {"edges": [0, 3, 10]}, _GAPS, "drop"),
    Reduced("bins or nothing by group", "bins", {"edges": [0, 3, 10], **_GROUPED}, _GAPS, "drop"),
    Reduced("bins of rows", "bins", {"edges": [0, 3, 10], "reduce": "rows"}, _GAPS, "drop"),
    Reduced("histogram of rows", "histogram", {**_WHOLE, "reduce": "rows"}, _GAPS, "drop"),
    Reduced("mean by group", "mean", {**_REAL, **_GROUPED}),
    Reduced("mean of days", "mean", _DAYS, _DATES, "drop", _TWO_DAYS),
    Reduced("median of days", "median", _DAYS, _DATES, "drop", _TWO_DAYS),
    Reduced("range of days", "range", {**_DAYS, "at": ["2024-01-02", "2024-01-03"]}, _DATES, "drop",
            _TWO_DAYS),
    Reduced("variance of days by group", "variance", {**_DAYS, **_GROUPED}, _DATES, "drop",
            _TWO_DAYS),
    Reduced("categories", "histogram", {**_NAMED, "max_categories": 2}, _CATEGORIES, "other",
            ("a", "b")),
    Reduced("categories of rows", "histogram", {**_NAMED, **_ROWS}, _CATEGORIES, "other",
            ("a", "b")),
    Reduced("found bounds", "sum", {"lower": "auto", "upper": "auto"}),
    Reduced("found bounds of means", "quantiles", {"lower": 0, "upper": "auto", "reduce": "mean"}),
)  # fmt: skip


def replace_rows(case: Reduced, mine: tuple[Any, ...]) -> dict[str, list[Any]]:
    """A table with two rows of everybody, but these of one person."""
    rows = [
        (person, case.base[row % len(case.base)], "xyx"[row % 3])
        for row in range(2 * _HALF)
        if (person := row // 2) != PLACE
    ]
    rows[2 * PLACE : 2 * PLACE] = [(PLACE, value, "y") for value in mine]
    who, values, groups = zip(*rows, strict=True)
    return {"who": list(who), "v": list(values), "g": list(groups)}
