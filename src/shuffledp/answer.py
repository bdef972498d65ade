"""An answer: an estimate, and everything that is needed to judge and to reproduce it."""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.core.display import Picture, Row, as_html, as_text, short
from shuffledp.core.estimate import Estimate
from shuffledp.core.explain import explain
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.validate import level as valid_level
from shuffledp.core.version import __version__
from shuffledp.engine import Collected, Engine, OnInvalid
from shuffledp.tasks import task_named

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answer", "describe_invalid"]

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
    OnInvalid.OTHER: "Missing and unknown values were counted as 'other'. They are protected like all "
    "others, so how many there were is not part of the result.",
    OnInvalid.CLAMP: "Numbers out of range were moved to the nearest end. They are protected like all "
    "others, so how many there were is not part of the result.",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Answer:
    """What `ask` returns, and what `shuffledp run` prints."""

    task: str
    """The question by name."""
    protocol: ShuffleProtocol
    estimate: Estimate
    n: int
    """How many people took part."""
    level: float = 0.95
    """Confidence level of the intervals."""
    column: str | None = None
    engine: Engine | None = None
    files: tuple[str, ...] = ()
    rows: int | None = None
    invalid: Mapping[str, int] | None = None
    """How many values were left out, by reason; None if that would break the promise."""
    on_invalid: OnInvalid | None = None
    seed: int | None = None
    notes: tuple[str, ...] = ()
    not_private: tuple[str, ...] = ()
    """What this tells that no noise protects."""
    for_operator: str | None = None
    """Exact numbers for whoever has the data anyway. Not part of the result: do not publish them."""

    def __post_init__(self) -> None:
        valid_level(self.level)

    @classmethod
    def of(
        cls, collected: Collected, *, level: float = 0.95, files: tuple[str, ...] = ()
    ) -> "Answer":
        """The answer that a tally gives.

        >>> from shuffledp import protocols
        >>> from shuffledp.core.analyzer import Tally
        >>> import numpy as np
        >>> p = protocols.krr.make_local(k=2, epsilon=1.0)
        >>> Answer.of(Collected(protocol=p, tally=Tally(counts=np.array([3, 1]), users=4)))
        Answer(histogram, 4 people, krr)
        """
        return cls(
            task=collected.protocol.task,
            protocol=collected.protocol.with_people(collected.tally.users),
            estimate=collected.estimate,
            n=collected.tally.users,
            level=level,
            files=files,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What was promised."""
        return self.protocol.guarantee

    @property
    def picture(self) -> Picture:
        """What to draw: every number with its error."""
        return task_named(self.task).show(self.estimate, self.level)

    @property
    def title(self) -> str:
        """The question in a line."""
        of = "" if self.column is None else f" of {short(self.column)}"
        return f"{self.task}{of}, {self.n:,} people"

    @property
    def warnings(self) -> list[str]:
        """What must be said aloud."""
        exposed = [f"NOT PRIVATE: {text}" for text in self.not_private]
        return exposed if self._weakened is None else [*exposed, self._weakened]

    @property
    def _weakened(self) -> str | None:
        """What is lost if fewer people took part than the noise was made for."""
        asked = self.protocol.parameters
        planned, promise = asked.get("n"), self.guarantee
        if planned is None or self.n >= planned:
            return None
        kept = promise.epsilon <= asked["epsilon"] and promise.delta <= asked.get("delta", 0.0)
        return (
            None
            if kept
            else (
                f"WEAKER THAN PLANNED: the noise was made for {planned:,} people, and {self.n:,} took part; "
                "the guarantee below is the one for them"
            )
        )

    @property
    def dropped(self) -> str | None:
        """How many people were left out, if somebody was."""
        invalid = {} if self.invalid is None else self.invalid
        count = sum(invalid.values())
        if not count:
            return None
        return (
            f"{count:,} of {self.rows:,} values were invalid ({_list_reasons(invalid)}) and were left "
            f"out: n is {self.n:,}, and the promise is made for that many. These numbers are exact: "
            "that somebody's value was left out is not protected."
        )

    def explain(self) -> str:
        """What was promised to whom, and what happened in this run, in plain words."""
        words = [explain(self.protocol)]
        if self.engine is not None:
            private = self.engine.private
            said = [_PLAYED.format(self.engine.name) if private else _SIMULATION, self.dropped]
            said.append(None if self.on_invalid is None else _COVERED.get(self.on_invalid))
            words.append("In this run. " + " ".join(each for each in said if each is not None))
        return "\n\n".join(words)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None: what `shuffledp run --json` prints."""
        promise = self.guarantee
        return {
            "task": self.task,
            "protocol": self.protocol.name,
            "parameters": dict(self.protocol.parameters),
            "engine": None if self.engine is None else self.engine.name,
            "column": self.column,
            "files": list(self.files),
            "n": self.n,
            "rows": self.rows,
            "invalid": None if self.invalid is None else dict(self.invalid),
            "on_invalid": None if self.on_invalid is None else self.on_invalid.value,
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "level": self.level,
            "estimate": [_plain(row) for row in self.picture.rows],
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
            "version": __version__,
        }

    def to_pandas(self) -> "pd.DataFrame":
        """A row for each number: label, value, stderr, low, high."""
        import pandas as pd

        return pd.DataFrame(self.picture.rows, columns=list(Row._fields))

    def plot(self, path: str | Path) -> Path:
        """Draw it as a picture (.png, .svg, .pdf) or as a page (.html)."""
        from shuffledp.plots import plot_estimate

        promise = f"{self.protocol.name}: {self.guarantee}"
        return plot_estimate(
            self.estimate,
            Path(path),
            title=self.title,
            notes=[*self.warnings, promise, *self.notes],
            level=self.level,
            label=self.task,
        )

    def __repr__(self) -> str:
        return f"Answer({self.title}, {self.protocol.name})"

    def __str__(self) -> str:
        return "\n".join(
            [self.title, as_text(self.estimate, self.level, label=self.task), *self._remarks()]
        )

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        title = f"<p><b>{html.escape(self.title)}</b></p>"
        said = (f"<p>{html.escape(line)}</p>" for line in self._remarks())
        return "".join([title, as_html(self.estimate, self.level, label=self.task), *said])

    def _remarks(self) -> list[str]:
        said = [*(f"{text}." for text in self.warnings), self.dropped, *self.notes]
        said.append(f"{self.protocol.name}: {self.guarantee}.")
        return [line for line in said if line is not None]


def _plain(row: Row) -> dict[str, Any]:
    named = row._asdict()
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in named.items()
    }


def _list_reasons(invalid: Mapping[str, int]) -> str:
    return ", ".join(f"{why} {times:,}" for why, times in invalid.items() if times)


def describe_invalid(
    invalid: Mapping[str, int], policy: OnInvalid
) -> tuple[dict[str, int] | None, str | None]:
    """The numbers of invalid values: for the result, if it may hold them, otherwise for the operator.

    Whoever is left out is outside the promise. A value that became 'other' or the end of a range is
    inside: its exact count, beside the noisy one, would undo the noise.

    >>> describe_invalid({"null": 2, "nan": 0}, OnInvalid.DROP)
    ({'null': 2, 'nan': 0}, None)
    >>> describe_invalid({"null": 2, "nan": 0}, OnInvalid.OTHER)
    (None, 'For you alone (exact, so not private): 2 invalid values (null 2) became other.')
    """
    became = {
        OnInvalid.OTHER: "became other",
        OnInvalid.CLAMP: "were moved to the end of the range",
    }
    if policy not in became:
        return dict(invalid), None
    count = sum(invalid.values())
    if not count:
        return None, None
    said = f"{count:,} invalid values ({_list_reasons(invalid)}) {became[policy]}"
    return None, f"For you alone (exact, so not private): {said}."
