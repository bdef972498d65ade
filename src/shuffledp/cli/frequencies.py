"""`shuffledp frequencies`: sorted frequencies of a column's values, without the values."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import shuffledp as sdp
from shuffledp.cli._options import (
    BudgetOptions,
    ForceOption,
    JsonOption,
    LevelOption,
    OutOption,
    PathsArgument,
    ReadingOptions,
    privacy_option,
    spread,
)
from shuffledp.cli._people import UNIT
from shuffledp.cli._terminal import (
    charge,
    check_result,
    echo_json,
    explain_errors,
    is_quiet,
    keep_inputs,
    say,
    say_lines,
    stage_outputs,
    tell_written,
)
from shuffledp.core.display import as_text, make_picture

_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class _CuratorOptions(ReadingOptions):
    """A column, and what a trusted curator promises about its answer."""

    epsilon: Annotated[float, privacy_option(help="The epsilon of the guarantee, above 0.")]


@spread
def frequencies(
    paths: PathsArgument,
    given: _CuratorOptions,
    budget: BudgetOptions,
    level: LevelOption = 0.95,
    as_json: JsonOption = False,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    r"""List how often the most frequent values occur, without naming them: how guessable are passwords?

    For up to 1,000 people: narrow a larger file down with --where.

    $ shuffledp frequencies people.csv --column minutes --where "way = 'tram'" \
        --epsilon 1
    """
    with explain_errors():
        check_result(out)
        spending = budget.open(given.rng, where=given.filter)
        with stage_outputs([out], force=force) as outputs:
            column = given.open(paths)
            keep_inputs([out, budget.ledger], [file.path for file in column.files])
            released = sdp.engine.release_frequencies(
                column,
                epsilon=given.epsilon,
                missing=given.missing,
                level=level,
                rng=given.rng,
                threads=given.threads,
            )
            record = _make_record(released, column, given.seed)
            outputs.write(out, partial(sdp.engine.write_result, record))
            note: dict[str, Any] = {"task": "frequencies", "column": column.name}
            note |= {"protocol": "frequency_list", "unit": UNIT, "n": released.n}
            with charge(spending, released.guarantee, note, err=as_json):
                try:
                    outputs.publish()
                finally:
                    for warning in record["not_private"]:
                        say(f"NOT PRIVATE: {warning}.", err=True)
                    if as_json:
                        echo_json(record)
                    elif out is None or not is_quiet():
                        _show(released)
        tell_written([out], as_json=as_json)


def _make_record(
    released: sdp.engine.Frequencies, column: sdp.engine.Column, seed: int | None
) -> dict[str, Any]:
    exposed = None if column.where is None else column.where.expose()
    rows = make_picture(released.estimate, released.level).rows
    return {
        "task": "frequencies",
        "estimate": [row.to_dict() for row in rows],
        "certain": released.certain,
        "level": released.level,
        "n": released.n,
        "unit": UNIT,
        "epsilon": released.guarantee.epsilon,
        "delta": released.guarantee.delta,
        "model": released.guarantee.model.value,
        "guarantee": str(released.guarantee),
        "column": column.name,
        "not_private": [
            *([] if seed is None else [sdp.questions.SEEDED]),
            *([] if exposed is None else [exposed]),
        ],
        "seed": seed,
        "version": sdp.__version__,
    }


def _show(released: sdp.engine.Frequencies) -> None:
    shown = make_picture(released.estimate, released.level)
    rows = shown.rows[:_SHOWN]
    say_lines(as_text(replace(shown, rows=rows)))
    if len(rows) < len(shown.rows):
        say(f"... and {len(shown.rows) - len(rows):,} more; --out writes all")
    certain, percent = released.certain, f"{100 * released.level:.15g}%"
    values = "value" if certain == 1 else "values"
    say(
        f"At least {certain:,} different {values} with {percent} confidence; the entries after them may be noise alone."
    )
    if is_quiet():
        return
    share = min(sum(released.values[:_SHOWN]) / released.n, 1)
    say(f"The first {_SHOWN} values cover about {share:.0%} of the people.")
    say(f"{released.n:,} people; {released.guarantee}")
    say(sdp.questions.UNITS[UNIT])
