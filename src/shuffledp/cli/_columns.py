"""From options to a column, its public domain and a protocol: what `run` and `randomize` share."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shuffledp as sdp

if TYPE_CHECKING:
    from collections.abc import Callable

    from shuffledp.core.domain import Domain
    from shuffledp.core.protocol import ShuffleProtocol
    from shuffledp.engine.columns import FileColumn
    from shuffledp.engine.job import Engine, Headcount, Report

__all__ = ["GRID", "Asked", "Model", "OnInvalidName", "Prepared", "TaskName", "prepare"]

GRID = 10_000
"""Steps of the grid for real numbers if none is given."""
_MOST_BINS = 10_000_000


class TaskName(StrEnum):
    """The questions that can be asked of a file."""

    COUNT = "count"
    SUM = "sum"
    MEAN = "mean"
    HISTOGRAM = "histogram"


class Model(StrEnum):
    """Who is trusted."""

    SHUFFLE = "shuffle"
    LOCAL = "local"


class OnInvalidName(StrEnum):
    """What becomes of a value outside the declared domain."""

    ERROR = "error"
    DROP = "drop"
    OTHER = "other"
    CLAMP = "clamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options say."""

    task: TaskName
    paths: list[str]
    column: str | None
    epsilon: float
    delta: float | None
    categories: str | None
    categories_file: Path | None
    categories_from_data: bool
    lower: float | None
    upper: float | None
    steps: int | None
    on_invalid: OnInvalidName
    engine: str
    master: str | None
    protocol: str | None
    model: Model
    max_messages: float | None
    honest: float | None
    n: int | None
    threads: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All that must be known before anybody's value is randomized."""

    column: FileColumn
    engine: Engine
    found: Headcount
    domain: Domain | None
    """None if the protocol's own domain says what the values are."""
    protocol: ShuffleProtocol
    notes: list[str] = field(default_factory=list)
    """What the reader of the result should know."""
    not_private: list[str] = field(default_factory=list)
    """What the result tells that no noise protects."""


def prepare(asked: Asked, report: Report | None) -> Prepared:
    """Open the column, fix the domain, count the users and make the protocol."""
    from shuffledp.engine import find_engine, headcount, open_column

    _check(asked)
    engine = find_engine(asked.engine, threads=asked.threads, master=asked.master)
    column = open_column(asked.paths, asked.column)
    notes: list[str] = []
    not_private: list[str] = []
    domain = _domain(asked, column, notes, not_private)
    found = headcount(
        column,
        domain,
        asked.on_invalid.value,
        engine=engine,
        report=report,
    )
    protocol = _protocol(asked, found.n if asked.n is None else asked.n, domain)
    own = protocol.randomizer.domain
    numbers = asked.task in (TaskName.SUM, TaskName.MEAN)
    return Prepared(
        column=column,
        engine=engine,
        found=found,
        domain=None if numbers or own == domain else domain,
        protocol=protocol,
        notes=notes,
        not_private=not_private,
    )


def _check(asked: Asked) -> None:
    """Refuse options that contradict each other or the question."""
    _check_values(asked)
    if asked.model is Model.SHUFFLE and asked.delta is None:
        raise sdp.UnsupportedError("the shuffle model needs --delta: choose it far below 1/n")
    if asked.model is Model.LOCAL:
        _check_local(asked)


def _check_values(asked: Asked) -> None:
    sources = (
        asked.categories is not None,
        asked.categories_file is not None,
        asked.categories_from_data,
    )
    ends = asked.lower is not None or asked.upper is not None
    numbers = asked.task in (TaskName.SUM, TaskName.MEAN)
    task = asked.task
    refused = {
        "give one of --categories, --categories-file and --categories-from-data": sum(sources) > 1,
        f"a {task} has no categories": task is not TaskName.HISTOGRAM and any(sources),
        "a count is of yes and no: it takes no --lower or --upper": task is TaskName.COUNT and ends,
        "give categories, or --lower and --upper, not both": any(sources) and ends,
        "--lower and --upper belong together": (asked.lower is None) != (asked.upper is None),
        "--steps is the grid of a sum or a mean": asked.steps is not None and not numbers,
    }
    for complaint, wrong in refused.items():
        if wrong:
            raise sdp.UnsupportedError(complaint)


def _check_local(asked: Asked) -> None:
    given = {
        "--delta": asked.delta,
        "--honest": asked.honest,
        "--max-messages": asked.max_messages,
    }
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise sdp.UnsupportedError(
            f"the local model takes no {', '.join(wrong)}: its delta is 0, its people trust nobody, "
            "and they send one message"
        )


def _domain(asked: Asked, column: FileColumn, notes: list[str], not_private: list[str]) -> Domain:
    if asked.task is TaskName.COUNT:
        return sdp.Bits()
    if asked.task is TaskName.HISTOGRAM:
        return _bins(asked, column, not_private)
    if asked.lower is None or asked.upper is None:
        raise sdp.UnsupportedError(
            f"a {asked.task} needs --lower and --upper, from public knowledge: the smallest and "
            "the largest value in the data would tell somebody's value"
        )
    return _numbers(asked, asked.lower, asked.upper, column, notes)


def _numbers(
    asked: Asked, lower: float, upper: float, column: FileColumn, notes: list[str]
) -> Domain:
    if asked.steps is not None:
        return sdp.Reals(lower=lower, upper=upper, steps=asked.steps)
    fractions = any(word in column.type for word in ("float", "double", "decimal"))
    if _is_whole(lower) and _is_whole(upper) and not fractions:
        whole = sdp.Integers(lower=int(lower), upper=int(upper))
        if asked.model is Model.SHUFFLE:
            return whole
        return sdp.Reals(lower=lower, upper=upper, steps=whole.size - 1)
    domain = sdp.Reals(lower=lower, upper=upper, steps=GRID)
    step = (upper - lower) / GRID
    notes.append(
        f"Values were rounded to a public grid of {GRID:,} steps of {step:.6g}, each by at most "
        f"{step / 2:.6g}; --steps chooses another."
    )
    return domain


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and value == math.floor(value)


def _bins(asked: Asked, column: FileColumn, not_private: list[str]) -> Domain:
    if asked.categories is not None:
        return _categories(asked.categories.split(","))
    if asked.categories_file is not None:
        return _categories(_lines(asked.categories_file))
    if asked.lower is not None and asked.upper is not None:
        return _integer_bins(asked.lower, asked.upper)
    if not asked.categories_from_data:
        raise sdp.UnsupportedError(
            "a histogram needs its categories from public knowledge: --categories a,b,c, "
            "--categories-file, or --lower and --upper for integers. Reading them from the data "
            "leaks: that a rare value occurs at all tells that somebody has it, whatever noise its "
            "count gets. If that is acceptable, say --categories-from-data"
        )
    from shuffledp.engine.files import categories_of

    names = categories_of(column, threads=asked.threads)
    not_private.append(
        f"the list of the {len(names):,} categories was read from the data: that each of them occurs "
        "is not protected"
    )
    if len(names) == 1:
        raise sdp.DataError(f"column {column.name!r} has only one value: there is nothing to count")
    return _categories(list(names))


def _integer_bins(lower: float, upper: float) -> Domain:
    if not (_is_whole(lower) and _is_whole(upper)):
        raise sdp.UnsupportedError(
            "a histogram by --lower and --upper is of integers: give whole numbers"
        )
    if upper - lower >= _MOST_BINS:
        raise sdp.ParameterError("upper", upper, f"must leave at most {_MOST_BINS:,} bins")
    return sdp.Integers(lower=int(lower), upper=int(upper))


def _lines(path: Path) -> list[str]:
    """One category a line; a line break at the end is no category."""
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise sdp.DataError(f"{path} is not text in UTF-8") from error
    except OSError as error:
        raise sdp.DataError(f"--categories-file {path} cannot be read: {error.strerror}") from error


def _categories(names: list[str]) -> Domain:
    for place, name in enumerate(names, start=1):
        if not name.strip():
            raise sdp.ParameterError("categories", name, f"is empty (number {place})")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise sdp.ParameterError("categories", name, "is listed twice")
        seen.add(name)
    if len(names) < 2:
        raise sdp.ParameterError("categories", ",".join(names), "must be at least two")
    return sdp.Categories(k=len(names), names=tuple(names))


def _protocol(asked: Asked, n: int, domain: Domain) -> ShuffleProtocol:
    if asked.protocol is not None:
        return _named(asked.protocol, asked, n, domain)
    if asked.model is Model.LOCAL:
        return _named(_local_name(asked, n, domain), asked, n, domain)
    choosers: dict[TaskName, Callable[..., ShuffleProtocol]] = {
        TaskName.COUNT: sdp.count,
        TaskName.HISTOGRAM: sdp.histogram,
        TaskName.SUM: sdp.sum,
        TaskName.MEAN: sdp.mean,
    }
    given: dict[str, Any] = {"n": n, "epsilon": asked.epsilon, "delta": asked.delta}
    given |= _limits(asked, domain)
    if asked.honest is not None:
        given["honest"] = asked.honest
    if asked.max_messages is not None:
        given["max_messages"] = asked.max_messages
    return choosers[asked.task](**given)


def _limits(asked: Asked, domain: Domain) -> dict[str, Any]:
    if asked.task is TaskName.COUNT:
        return {}
    if asked.task is TaskName.HISTOGRAM:
        return {"k": domain.size}
    if isinstance(domain, sdp.Integers):
        return {"lower": domain.lower, "upper": domain.upper}
    assert isinstance(domain, sdp.Reals)
    return {"lower": domain.lower, "upper": domain.upper, "steps": domain.steps}


def _local_name(asked: Asked, n: int, domain: Domain) -> str:
    """The local protocol that the planner chooses among those that answer the question itself."""
    from shuffledp.planner.question import MOST_VALUES
    from shuffledp.planner.rank import choose

    limits = _limits(asked, domain)
    if "k" in limits:  # beyond, the planner computes no errors; the choice is the same
        limits["k"] = min(limits["k"], MOST_VALUES)
    found = sdp.plan(asked.task, n=n, epsilon=asked.epsilon, delta=0.0, trust="local", **limits)
    rows = [row for row in found.rows if row.answers == found.task]
    chosen = choose(rows, found.aim)
    if chosen is not None:
        return chosen.protocol
    if asked.task is TaskName.SUM and found.chosen is not None:
        raise sdp.UnsupportedError("the local model has no sum here: ask for the mean, times n")
    raise sdp.UnsupportedError(f"no protocol fits: {found.reasons()}")


def _named(name: str, asked: Asked, n: int, domain: Domain) -> ShuffleProtocol:
    """A protocol by name, with the parameters that it takes."""
    spec = sdp.protocols.spec(name)
    maker = spec.make if asked.model is Model.SHUFFLE else spec.make_local
    if maker is None:
        raise sdp.UnsupportedError(f"{name} is not a protocol of the {asked.model.value} model")
    if asked.max_messages is not None:
        raise sdp.UnsupportedError("--max-messages chooses a protocol: leave out --protocol")
    given: dict[str, Any] = {"n": n, "delta": asked.delta, "task": asked.task}
    given |= {"honest": asked.honest, **_limits(asked, domain), "epsilon": asked.epsilon}
    wanted = inspect.signature(maker).parameters
    known = {key: value for key, value in given.items() if key in wanted and value is not None}
    missing = [key for key, p in wanted.items() if p.default is p.empty and key not in known]
    if missing:
        raise sdp.UnsupportedError(f"{name} does not answer a {asked.task}: it needs {missing}")
    protocol = maker(**known)
    if protocol.task != asked.task:
        raise sdp.UnsupportedError(f"{name} answers a {protocol.task}, not a {asked.task}")
    return protocol
