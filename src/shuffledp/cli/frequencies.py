"""`shuffledp frequencies`: how often the most frequent value of a column occurs, the second, ...; none is named."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import shuffledp as sdp
from shuffledp.cli._options import (
    BudgetOptions,
    CuratorOptions,
    ForceOption,
    JsonOption,
    OutOption,
    PathsArgument,
    spread,
)
from shuffledp.cli._terminal import (
    check_result,
    echo_json,
    explain_errors,
    is_quiet,
    keep_inputs,
    say,
    stage_outputs,
    tell,
)

__all__ = ["frequencies"]

_SHOWN = 10


@spread
def frequencies(
    paths: PathsArgument,
    given: CuratorOptions,
    budget: BudgetOptions,
    as_json: JsonOption = False,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    r"""List how often values occur, the most frequent first, and name none: how guessable are passwords?

    $ shuffledp frequencies people.csv --column minutes --where "way = 'tram'" \
        --epsilon 1
    """
    with explain_errors():
        check_result(out)
        spending = budget.open(given)
        with stage_outputs([out], force=force) as outputs:
            column = sdp.open_column(paths, given.column, where=given.where)
            keep_inputs([out, budget.ledger], [file.path for file in column.files])
            found = _release(column, given)
            if out is not None:
                with sdp.engine.explain_unwritable(out):
                    sdp.request.write_result(found.record, outputs[out])
            note = {"task": "frequencies", "column": column.name, "protocol": "frequency_list"}
            entry = (
                None
                if spending is None
                else spending.charge(found.guarantee, {**note, "n": found.n})
            )
            try:
                outputs.publish()
            finally:
                found.show(as_json=as_json, written=out is not None)
                if spending is not None and entry is not None:
                    tell(spending.mark_released(entry), err=as_json)
        if out is not None and not as_json:
            tell(f"Written: {out}")


@dataclass(frozen=True, kw_only=True)
class _Frequencies:
    """The list, and what must be said about it."""

    values: list[int]
    """Without the zeros at its end."""
    n: int
    column: str
    seed: int | None
    guarantee: sdp.Guarantee

    @property
    def record(self) -> dict[str, Any]:
        """For programs."""
        return {
            "task": "frequencies",
            "estimate": [
                {"label": str(place), "value": value}
                for place, value in enumerate(self.values, start=1)
            ],
            "n": self.n,
            "epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "model": self.guarantee.model.value,
            "guarantee": str(self.guarantee),
            "column": self.column,
            "not_private": [] if self.seed is None else [sdp.request.SEEDED],
            "seed": self.seed,
            "version": sdp.__version__,
        }

    def show(self, *, as_json: bool, written: bool) -> None:
        """To standard output, if it is not quietly written to a file."""
        if self.seed is not None:
            say(f"NOT PRIVATE: {sdp.request.SEEDED}.", err=True)
        if as_json:
            echo_json(self.record)
        if as_json or (written and is_quiet()):
            return
        for place, value in enumerate(self.values[:_SHOWN], start=1):
            say(f"{place}. {value:,} {'person' if value == 1 else 'people'}")
        if len(self.values) > _SHOWN:
            say(f"... and {len(self.values) - _SHOWN:,} more; --out writes all")
        first = sum(self.values[:_SHOWN])
        say(f"The first {_SHOWN} values are those of about {min(first / self.n, 1):.0%} of people.")
        say(f"{self.n:,} people; {self.guarantee}")


def _release(column: "sdp.engine.Column", given: CuratorOptions) -> _Frequencies:
    """A missing value is a value like any other: everybody counts."""
    counted: Counter[Any] = Counter()
    for values, times in sdp.engine.group_values(column, given.threads):
        for value, often in zip(values.to_pylist(), times.to_pylist(), strict=True):
            counted[value] += often
    n = counted.total()
    if n == 0:
        raise sdp.DataError(f"column {column.name!r} has no rows")
    mechanism = sdp.mechanisms.frequency_list.FrequencyList(n=n, epsilon=given.epsilon)
    released = mechanism.release(list(counted.values()), given.rng or sdp.SecureWords())
    return _Frequencies(
        values=released[released > 0].tolist(),
        n=n,
        column=column.name,
        seed=given.seed,
        guarantee=mechanism.guarantee,
    )
