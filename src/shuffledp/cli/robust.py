"""`shuffledp robust`: an answer that a few liars cannot ruin, the median of random groups."""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._options import (
    BudgetOptions,
    InferenceOptions,
    JsonOption,
    PathsArgument,
    TaskOptions,
    spread,
)
from shuffledp.cli._people import People, Releasing, read_column
from shuffledp.cli._terminal import explain_errors
from shuffledp.core.protocol import HONEST, honest_users

__all__ = ["robust"]

_TASKS = ("count", "histogram", "sum", "mean")


@spread
def robust(
    task: Annotated[
        str, typer.Argument(help=f"The question: {', '.join(_TASKS)}.", show_default=False)
    ],
    paths: PathsArgument,
    options: TaskOptions,
    given: InferenceOptions,
    budget: BudgetOptions,
    groups: Annotated[
        int,
        typer.Option(
            help="How many random groups; fewer than half of that many liars do no harm.",
            rich_help_panel="Data",
        ),
    ] = 9,
    as_json: JsonOption = False,
) -> None:
    r"""Answer a question so that a few liars cannot ruin it: the median of random groups.

    $ shuffledp robust count people.csv --column home --groups 5 \
        --epsilon 1 --delta 1e-6
    """
    with explain_errors():
        if task not in _TASKS:
            raise sdp.ParameterError("task", task, f"must be one of {', '.join(_TASKS)}")
        if given.model != "shuffle":
            raise sdp.ParameterError(
                "model", given.model.value, "must be shuffle: every group has a shuffler"
            )
        promise = _read_promise(given)
        release = Releasing(given=given, categories=options, as_json=as_json)
        spending = budget.open(release)
        named = {each.name: getattr(options, each.name) for each in fields(options)}
        declare = sdp.tasks.TASKS[task].declare
        people, asked = read_column(
            paths, given, lambda column: declare(named, column), [budget.ledger]
        )
        found = sdp.inference.median_of_groups(
            partial(_choose, asked, promise, people.n),
            _read_values(people),
            groups=groups,
            rng=given.rng,
        )
        found = replace(found, guarantee=_promise_all(found.guarantee, promise, people.n))
        record = {"task": task, **_record(found, people), **people.record}
        note = {"task": f"robust {task}", "column": people.column, "protocol": "median_of_groups"}
        with release.charge(spending, found.guarantee, {**note, "n": people.n}):
            release.show(people, _describe(found, people), record)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    """To everybody: half of delta is for groups with fewer honest people than their protocol counts on."""

    epsilon: float
    delta: float
    honest: float

    @property
    def chance(self) -> float:
        """Of such a group; none if everybody is honest."""
        return 0.0 if self.honest == 1 else self.delta / 2


def _read_promise(given: InferenceOptions) -> _Promise:
    if given.epsilon is None or given.delta is None:
        raise sdp.ParameterError("epsilon", given.epsilon, "and delta must be given")
    honest = HONEST if given.honest is None else given.honest
    if given.delta == 0 and honest < 1:
        raise sdp.ParameterError(
            "delta", given.delta, "must be > 0: some random group may have hardly an honest member"
        )
    return _Promise(epsilon=given.epsilon, delta=given.delta, honest=honest)


def _choose(asked: Any, promise: _Promise, n: int, people: int) -> sdp.ShuffleProtocol:
    """For a group of `people` of n."""
    honest = 1.0
    if promise.chance:
        all_honest = honest_users(n, promise.honest)
        honest = (
            sdp.inference.count_honest(people, n, honest=all_honest, chance=promise.chance) / people
        )
    made = sdp.planner.choose(
        asked,
        n=people,
        epsilon=promise.epsilon,
        delta=promise.delta - promise.chance,
        honest=honest,
    )
    assert isinstance(made, sdp.ShuffleProtocol)
    return made


def _promise_all(group: sdp.Guarantee, promise: _Promise, n: int) -> sdp.Guarantee:
    """What a group's guarantee is worth to a person who is put into a random one."""
    if not promise.chance:
        return replace(group, honest=n)
    honest = honest_users(n, promise.honest)
    return sdp.inference.protect_members(group, n=n, honest=honest, chance=promise.chance)


def _read_values(people: People) -> Any:
    """Codes of bits and categories, and numbers."""
    if isinstance(people.domain, sdp.Integers):
        return people.codes + people.domain.lower
    return (
        people.domain.locate(people.codes) if isinstance(people.domain, sdp.Reals) else people.codes
    )


def _list_values(found: sdp.inference.MedianOfGroups, people: People) -> list[tuple[str, float]]:
    values = [found.value] if isinstance(found.value, float) else found.value.tolist()
    labels = people.domain.labels if isinstance(people.domain, sdp.Categories) else ("answer",)
    return list(zip(labels, values, strict=True))


def _record(found: sdp.inference.MedianOfGroups, people: People) -> dict[str, Any]:
    return {
        "estimate": [
            {"label": label, "value": value} for label, value in _list_values(found, people)
        ],
        "groups": found.groups,
        "tolerates": found.tolerates,
        "n": people.n,
        "epsilon": found.guarantee.epsilon,
        "delta": found.guarantee.delta,
        "model": found.guarantee.model.value,
        "guarantee": str(found.guarantee),
    }


def _describe(found: sdp.inference.MedianOfGroups, people: People) -> str:
    lines = [f"{label}: {value:,.6g}" for label, value in _list_values(found, people)]
    lines.append(
        f"The median of {found.groups} random groups: up to {found.tolerates} liars cannot move it beyond "
        "what honest groups said."
    )
    return "\n".join([*lines, f"{people.n:,} people; {found.guarantee}"])
