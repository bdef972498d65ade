"""A result as its reader gets it: a table and bars, JSON, a picture, an explanation."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

import shuffledp as sdp
from shuffledp.core.display import Row, cells, heads, largest, rows, short

if TYPE_CHECKING:
    from shuffledp.core.estimate import Estimate
    from shuffledp.core.protocol import ShuffleProtocol

__all__ = ["SEEDED", "SIMULATED", "Result", "for_the_operator", "publishable"]

_BINS = 20
_WIDEST = 100
SEEDED = (
    "--seed makes the noise reproducible: whoever knows the seed can undo it, so this result "
    "protects nobody"
)
SIMULATED = (
    "--engine counts is a simulation: a curator who sees the exact counts draws the answer with "
    "floating-point samplers, so the proof of the promise is not about this result"
)
_PLAYED = (
    "One machine ({}) held the raw column and played all devices, the shuffler and the analyzer: "
    "whoever can read that machine is trusted. The promise is to the people in the file, against "
    "whoever sees this result."
)
_SIMULATION = (
    "This was a simulation of the protocol, not a private release. No device made a message: a "
    "curator saw the exact counts and drew the answer from its law, with samplers that round. What "
    "is said above is proven for the protocol, with its messages, and not for this result: use "
    "it to plan, and another engine to publish."
)
_COVERED = {
    "other": "Missing and unknown values were counted as 'other'. They are protected like all others, "
    "so how many there were is not part of the result.",
    "clamp": "Numbers out of range were moved to its nearest end. They are protected like all others, "
    "so how many there were is not part of the result.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """An estimate, and everything that is needed to judge and to reproduce it."""

    protocol: ShuffleProtocol
    estimate: Estimate
    n: int
    level: float
    column: str | None = None
    engine: str | None = None
    files: list[str] = field(default_factory=list)
    rows: int | None = None
    invalid: dict[str, int] | None = None
    """How many values were left out, by reason; None if that would break the promise."""
    on_invalid: str | None = None
    seed: int | None = None
    notes: list[str] = field(default_factory=list)
    not_private: list[str] = field(default_factory=list)

    @property
    def task(self) -> str:
        """The question."""
        return self.protocol.task

    @property
    def table(self) -> list[Row]:
        """Every number with its error."""
        return rows(self.estimate, self.level, self.task)

    @property
    def title(self) -> str:
        """The question in a line."""
        of = "" if self.column is None else f" of {short(self.column)}"
        return f"{self.task}{of}, {self.n:,} people"

    @property
    def warnings(self) -> list[str]:
        """What must be said aloud."""
        said = [f"NOT PRIVATE: {text}" for text in self.not_private]
        return said if self.seed is None else [f"NOT PRIVATE: {SEEDED}", *said]

    def record(self) -> dict[str, Any]:
        """The JSON object."""
        promise = self.protocol.guarantee
        return {
            "task": self.task,
            "protocol": self.protocol.name,
            "parameters": dict(self.protocol.parameters),
            "engine": self.engine,
            "column": self.column,
            "files": self.files,
            "n": self.n,
            "rows": self.rows,
            "invalid": self.invalid,
            "on_invalid": self.on_invalid,
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "level": self.level,
            "estimate": [
                {key: _finite(value) for key, value in row._asdict().items()} for row in self.table
            ],
            "guarantee": {
                "text": str(promise),
                "model": promise.model.value,
                "neighbours": promise.neighbours.value,
                "honest": promise.honest,
                "proof": promise.proof,
            },
            "not_private": list(self.not_private),
            "seed": self.seed,
            "notes": list(self.notes),
            "version": sdp.__version__,
        }

    def text(self) -> str:
        """The record as strict JSON."""
        return json.dumps(self.record(), allow_nan=False, ensure_ascii=False)

    def explanation(self) -> str:
        """What was promised to whom, and what happened in this run."""
        happened = " ".join(self._happened())
        words = [sdp.explain(self.protocol)]
        return "\n\n".join([*words, f"In this run. {happened}"] if happened else words)

    def _happened(self) -> list[str]:
        if self.engine is None:
            return []
        private = sdp.engine.ENGINES[self.engine].private
        said = [_PLAYED.format(self.engine) if private else _SIMULATION]
        dropped = self.dropped
        if dropped is not None:
            said.append(dropped)
        if self.on_invalid in ("other", "clamp"):
            said.append(_COVERED[self.on_invalid])
        return said

    @property
    def dropped(self) -> str | None:
        """How many were left out, if somebody was."""
        invalid = {} if self.invalid is None else self.invalid
        count = sum(invalid.values())
        if not count:
            return None
        details = ", ".join(f"{why} {times:,}" for why, times in invalid.items() if times)
        return (
            f"{count:,} of {self.rows:,} values were invalid ({details}) and were left out: n is "
            f"{self.n:,}, and the promise is made for so many. These numbers are exact: that "
            "somebody's value was left out is not protected."
        )

    def draw(self, path: Path) -> None:
        """The picture."""
        sdp.plots.plot_estimate(
            self.estimate,
            path,
            title=self.title,
            notes=[*self.warnings, f"{self.protocol.name}: {self.protocol.guarantee}", *self.notes],
            level=self.level,
            label=self.task,
        )

    def show(self, *, explain: bool) -> None:
        """The result in a terminal."""
        from rich.console import Console
        from rich.markup import escape

        console = Console(highlight=False)
        table = self.table
        kept = largest(table, _BINS)
        console.print(self._rich_table(kept, len(table) - len(kept)))
        for line in self._chart(kept, len(table) - len(kept), min(_WIDEST, console.width)):
            console.print(escape(line), soft_wrap=True)
        for warning in self.warnings:
            console.print(f"[bold red]{escape(warning)}.[/bold red]")
        for note in (self.dropped, *self.notes):
            if note is not None:
                console.print(escape(note))
        console.print(escape(f"{self.protocol.name}: {self.protocol.guarantee}."))
        if explain:
            console.print()
            console.print(escape(self.explanation()))

    def _rich_table(self, kept: list[Row], more: int) -> Any:
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=escape(self.title), caption=f"{more:,} smaller ones" if more else None)
        first, *others = heads(self.level)
        table.add_column(first, overflow="fold")
        for name in others:
            table.add_column(name, justify="right", no_wrap=True)
        for row in cells(kept):
            table.add_row(*map(escape, row))
        return table

    def _chart(self, kept: list[Row], more: int, width: int) -> list[str]:
        from shuffledp.cli._bars import bars, gauge

        if np.ndim(self.estimate.value) == 1:
            return bars(kept, width, more)
        low, high = self.estimate.limits
        if math.isfinite(low) and math.isfinite(high) and low < high:
            return gauge(kept[0], (low, high), width)
        return []

    def print(self, *, as_json: bool, explain: bool) -> None:
        """To standard output: for people, or for programs (then people read standard error)."""
        if not as_json:
            self.show(explain=explain)
            return
        typer.echo(self.text())
        for warning in self.warnings:
            typer.echo(warning, err=True)
        if explain:
            typer.echo(self.explanation(), err=True)


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def publishable(invalid: dict[str, int], on_invalid: str) -> dict[str, int] | None:
    """The numbers of invalid values, if a result may hold them.

    Whoever is left out is outside the promise. A value that became 'other' or the end of a range is
    inside: its exact count, beside the noisy one, would undo the noise.

    >>> publishable({"null": 2}, "drop"), publishable({"null": 2}, "other")
    ({'null': 2}, None)
    """
    return dict(invalid) if on_invalid in ("error", "drop") else None


def for_the_operator(invalid: dict[str, int], on_invalid: str) -> str | None:
    """The same numbers for whoever runs the command and has the data anyway: not in the result.

    >>> for_the_operator({"null": 2, "nan": 0}, "other")
    'For you alone, exact and so not private: 2 invalid values (null 2) became other.'
    """
    details = ", ".join(f"{why} {times:,}" for why, times in invalid.items() if times)
    if not details or publishable(invalid, on_invalid) is not None:
        return None
    became = {"other": "became other", "clamp": "were moved to the end of the range"}[on_invalid]
    total = sum(invalid.values())
    return (
        f"For you alone, exact and so not private: {total:,} invalid values ({details}) {became}."
    )
