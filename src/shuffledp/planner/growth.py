"""How errors depend on the number of users and on epsilon: the curves of a plan, and a survey of sums and means.

The survey has five families of protocols, each for bits, integers and bounded reals. Their errors come from the exact
formulas at every number of users and every epsilon; the growth exponents are slopes of log error against log n and
log epsilon, by least squares.
"""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import HONEST
from shuffledp.core.validate import whole
from shuffledp.planner.choice import Aim, rank
from shuffledp.planner.plans import Plan, shorten_up
from shuffledp.planner.question import Candidate, Limits, Problem, candidates
from shuffledp.planner.rows import Row, evaluate

_FAMILIES = (
    ("central", Model.CENTRAL, ("geometric", "geometric", "laplace")),
    ("local", Model.LOCAL, ("rr", "hybrid", "hybrid")),
    ("blanket, one message", Model.SHUFFLE, ("rr", "rounded_sum", "rounded_sum")),
    ("vanishing communication", Model.SHUFFLE, ("correlated_count", "unary_sum", "unary_sum")),
    ("almost central", Model.SHUFFLE, ("split_and_mix",) * 3),
    ("almost central", Model.SHUFFLE, ("zero_sum_flooding",) * 3),
)
_DATA = ("bits", "integers", "reals")
_DECADES = 2.0  # to each side of the plan's n
_POINTS, _FEW_POINTS = 67, 7  # of a picture; few where each takes a second or more, as for words


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The error for n users, and the protocol that has it; for means that of the mean."""

    n: int
    error: float
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCurve:
    """The points of one model, by growing n; none where no protocol of it is available."""

    model: Model
    points: tuple[Point, ...]


def curves(plan: Plan, *, points: int = 67) -> tuple[ModelCurve, ...]:
    """Return for each model the error of the protocol that is best at the plan's n, for other n too.

    Each point is the exact error. Where the best protocol is not available (too few users, too many messages) the
    next best of the plan stands in. n runs over two decades to each side.

    >>> from shuffledp import plan
    >>> answer = plan("count", n=10_000, epsilon=1.0, delta=1e-6)
    >>> for curve in curves(answer, points=3):
    ...     print(curve.model.value, [round(point.error, 1) for point in curve.points])
    central [1.4, 1.4, 1.4]
    local [9.6, 96.0, 959.5]
    shuffle [1.6, 1.6, 1.6]
    """
    whole("points", points, at_least=2)
    if plan.n is None or plan.epsilon is None:
        raise UnsupportedError(f"nothing to draw: {plan.reasons()}")
    asked = plan.asked
    limits = replace(plan.limits, models=frozenset(Model))
    users = _users(plan.n, points)
    drawn = (
        ModelCurve(
            model=model,
            points=tuple(
                _points(_rank_candidates(plan, asked, limits, model), asked, limits, users)
            ),
        )
        for model in Model
    )
    return tuple(curve for curve in drawn if curve.points)


def _users(n: int, points: int) -> list[int]:
    ends = math.log10(max(n, 10)) - _DECADES, math.log10(n) + _DECADES
    grid = np.logspace(max(ends[0], 1.0), ends[1], points)
    return sorted({round(float(each)) for each in grid})


def _rank_candidates(plan: Plan, asked: Problem, limits: Limits, model: Model) -> list[Candidate]:
    """Return the candidates of a model, best first at the plan's n: the chosen one before all others."""
    known = {each.name: each for each in candidates(asked.task) if each.model is model}
    rows: Iterable[Row] = [row for row in plan.rows if row.model is model]
    if not any(row.available for row in rows):  # not asked for, so not looked at until now
        rows = (evaluate(each, asked, limits) for each in known.values())
    order = [row for row in rank(rows, Aim.ERROR) if row.available]
    return [known[row.protocol] for row in sorted(order, key=lambda row: row != plan.chosen)]


def _points(
    best: Sequence[Candidate], asked: Problem, limits: Limits, users: Sequence[int]
) -> Iterator[Point]:
    for n in users:
        for candidate in best:
            row = evaluate(candidate, asked.at(n=n), limits)
            if row.available and row.rmse is not None:
                error = row.rmse / asked.task.scale(n)
                yield Point(n=n, error=error, protocol=candidate.name)
                break


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRow:
    """One protocol for one kind of data, at the n and epsilon of the survey.

    `rmse` is that of the sum. It grows like n^n_exponent epsilon^epsilon_exponent; the error of the mean
    like n^(n_exponent - 1).
    """

    family: str
    data: str
    protocol: str
    model: Model
    rmse: float
    messages_per_user: float
    bits_per_user: float
    n_exponent: float
    epsilon_exponent: float

    @property
    def mean_exponent(self) -> float:
        """The exponent of n in the error of the mean.

        >>> row = ProtocolRow(family="local", data="bits", protocol="rr", model=Model.LOCAL, rmse=960.0,
        ...     messages_per_user=1.0, bits_per_user=1.0, n_exponent=0.5, epsilon_exponent=-1.0)
        >>> row.mean_exponent
        -0.5
        """
        return self.n_exponent - 1


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the b of y = a x^b, by least squares in logarithms.

    >>> round(exponent([1, 10, 100], [5, 50, 500]), 6)
    1.0
    """
    slope, _ = np.polyfit(np.log(x), np.log(y), 1)
    return float(slope)


def growth_table(
    *,
    n: int = 1_000_000,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    honest: float = HONEST,
    upper: int = 10,
    steps: int = 1000,
    users: Sequence[int] = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    epsilons: Sequence[float] = (0.1, 0.2, 0.4, 0.8),
    data: Sequence[str] = _DATA,
) -> tuple[ProtocolRow, ...]:
    """Tabulate error, messages and measured growth of five families of protocols for sums.

    Integers are 0 .. `upper`, reals are points of a grid of `steps` steps in [0, 1]. Exponents are fitted over `users` (at
    `epsilon`) and over `epsilons` (at `n`).

    >>> for row in growth_table(data=["bits"], honest=1)[:3]:
    ...     print(f"{row.family}: {row.protocol}, {row.rmse:.3g}, n^{row.mean_exponent:.2f}")
    central: geometric, 1.36, n^-1.00
    local: rr, 960, n^-0.50
    blanket, one message: rr, 5.84, n^-1.00
    """
    common: dict[str, Any] = {"n": n, "epsilon": epsilon, "delta": delta, "honest": honest}
    asked = {
        "bits": Problem.of("count", **common),
        "integers": Problem.of("sum", **common, upper=upper),
        "reals": Problem.of("sum", **common, lower=0.0, upper=1.0, steps=steps),
    }
    return tuple(
        _measure(family, kind, _candidate(asked[kind], name, model), asked[kind], users, epsilons)
        for family, kind, name, model in _lines()
        if kind in data
    )


def survey(**given: Any) -> tuple[ProtocolRow, ...]:
    """Return `growth_table`, under its old name.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     rows = survey(data=[])
    >>> rows, str(caught[0].message)
    ((), 'sdp.survey is sdp.growth_table now; a survey is sdp.Survey')
    """
    message = "sdp.survey is sdp.growth_table now; a survey is sdp.Survey"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return growth_table(**given)


def _lines() -> Iterator[tuple[str, str, str, Model]]:
    for place, kind in enumerate(_DATA):
        for family, model, names in _FAMILIES:
            yield family, kind, names[place], model


def _candidate(asked: Problem, name: str, model: Model) -> Candidate:
    return next(
        each for each in candidates(asked.task) if each.name == name and each.model is model
    )


def _measure(
    family: str,
    kind: str,
    candidate: Candidate,
    asked: Problem,
    users: Sequence[int],
    epsilons: Sequence[float],
) -> ProtocolRow:
    row = _row(candidate, asked)
    by_n = [_rmse(candidate, asked.at(n=each)) for each in users]
    by_epsilon = [_rmse(candidate, asked.at(epsilon=each)) for each in epsilons]
    assert row.messages_per_user is not None
    assert row.bits_per_user is not None
    return ProtocolRow(
        family=family,
        data=kind,
        protocol=candidate.name,
        model=candidate.model,
        rmse=_rmse(candidate, asked),
        messages_per_user=row.messages_per_user,
        bits_per_user=row.bits_per_user,
        n_exponent=exponent(users, by_n),
        epsilon_exponent=exponent(epsilons, by_epsilon),
    )


def _row(candidate: Candidate, asked: Problem) -> Row:
    return evaluate(candidate, asked, Limits.of(models=Model))


def _rmse(candidate: Candidate, asked: Problem) -> float:
    row = _row(candidate, asked)
    if row.rmse is None:
        raise UnsupportedError(f"{row.protocol} is not available: {row.reason}")
    if row.model is Model.CENTRAL:
        return row.rmse
    return math.sqrt(row.rmse**2 - asked.rounding**2)  # the values are on the grid


def plot_plan(plan: Plan, path: Path) -> Path:
    """Draw the error of each model against n, and below it every protocol at the n of the plan.

    >>> from tempfile import mkdtemp
    >>> from shuffledp import plan
    >>> plot_plan(plan("sum", n=9, epsilon=1.0, delta=0.0, models="central"), Path(mkdtemp()) / "plan.svg").name
    'plan.svg'
    """
    from shuffledp.show import error_curves

    chosen = plan.chosen
    if chosen is None or chosen.rmse is None or chosen.n is None:
        raise UnsupportedError(f"no protocol fits: {plan.reasons()}")
    task, scale = plan.asked.task, plan.asked.task.scale(chosen.n)
    points = _POINTS if task.listed else _FEW_POINTS
    errors = [
        (row.model.value, row.protocol, row.rmse / scale)
        for row in plan.rows
        if row.available and row.rmse is not None
    ]
    return error_curves(
        {
            curve.model.value: [(each.n, each.error, each.protocol) for each in curve.points]
            for curve in curves(plan, points=points)
        },
        path,
        title=_say_finding(plan.task, chosen.protocol, errors),
        subtitle=plan.title(),
        ylabel=f"RMSE of {task.answer}, worst data set",
        chosen=(chosen.n, chosen.rmse / scale, chosen.protocol),
        rows=errors,
        costs={
            (row.model.value, row.protocol): _describe_cost(row.bytes_per_report, row.influence)
            for row in plan.rows
            if row.available and row.bytes_per_report is not None
        },
    )


def _describe_cost(size: int | None, influence: float | None) -> str:
    """Return what a live report costs: its bytes, and how many people one liar can move at most.

    >>> _describe_cost(104, 1.2631), _describe_cost(20_800, None)
    ('104 B, 1.27', '20,800 B, unknown')
    """
    return f"{size:,} B, {'unknown' if influence is None else shorten_up(influence)}"


def _say_finding(task: str, chosen: str, rows: list[tuple[str, str, float]]) -> str:
    """Return what the trust in a shuffler is worth; or, if not all models were asked for, which protocol is best.

    >>> _say_finding("count", "rr", [("local", "rr", 90.0), ("shuffle", "rr", 3.0), ("central", "geometric", 1.5)])
    'A count: a shuffler is 30 times as accurate as trusting nobody, a curator 2 times as accurate as a shuffler'
    >>> _say_finding("count", "rr", [("local", "rr", 90.0)])
    'The best protocol that fits: rr'
    """
    best: dict[str, float] = {}
    for model, _, error in rows:
        best[model] = min(error, best.get(model, error))
    if not {"local", "shuffle", "central"} <= best.keys() or not min(best.values()):
        return f"The best protocol that fits: {chosen}"
    gain, loss = best["local"] / best["shuffle"], best["shuffle"] / best["central"]
    named = task.capitalize() if task.endswith("s") else f"A {task}"  # quantiles, bins, words
    return (
        f"{named}: a shuffler is {gain:,.3g} times as accurate as trusting nobody, "
        f"a curator {loss:,.3g} times as accurate as a shuffler"
    )
