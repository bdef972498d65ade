"""The planner: every registered protocol for one question, ranked, and one of them chosen."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.mechanism import Mechanism
from shuffledp.core.protocol import HONEST, ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.core.validate import positive
from shuffledp.planner.candidates import candidates
from shuffledp.planner.evaluate import evaluate, with_worst_bin
from shuffledp.planner.inverse import least_epsilon, least_n
from shuffledp.planner.question import Asked, Limits
from shuffledp.planner.rank import Aim, choose, ranked
from shuffledp.planner.row import Row
from shuffledp.planner.show import as_html, as_text, title

__all__ = ["Plan", "plan"]

TRUST = ("central", "local", "shuffle")
_SOME_USERS = 1000  # where the number of users is what is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer of the planner: rows (available ones first, best first), and the chosen one.

    Printed, it is a table; in a notebook too. `to_dict` and `to_json` are for programs.

    >>> from shuffledp import plan
    >>> answer = plan("count", n=1_000_000, epsilon=1.0, delta=1e-8, trust=("shuffle", "local"))
    >>> answer.chosen.protocol, answer.make().guarantee.delta <= 1e-8
    ('correlated_count', True)
    """

    asked: Asked
    """The question; n and epsilon are those of the chosen row where one of them was searched for."""
    limits: Limits
    aim: Aim
    rows: tuple[Row, ...]
    chosen: Row | None
    error: float | None = None
    """The error that was wanted, if the question was the inverse one."""

    @property
    def task(self) -> str:
        """The name of the question."""
        return self.asked.task.name

    @property
    def n(self) -> int | None:
        """How many users: as asked, or as the chosen row needs."""
        return None if self.chosen is None and self.aim is Aim.USERS else self.asked.n

    @property
    def epsilon(self) -> float | None:
        """As asked, or as the chosen row needs."""
        return None if self.chosen is None and self.aim is Aim.EPSILON else self.asked.epsilon

    @property
    def delta(self) -> float:
        """As asked."""
        return self.asked.delta

    @property
    def rounding(self) -> float:
        """By how much rounding n values to the grid may move their sum, at most; 0 for integers.

        `rmse` is about values on the grid. This comes on top if they are all half a step off in the same
        direction; if the directions are mixed, much less.

        >>> from shuffledp import plan
        >>> plan("mean", n=1000, epsilon=1.0, delta=1e-6, upper=1.0, steps=100, trust="local").rounding
        5.0
        """
        return self.asked.rounding

    def make(self) -> ShuffleProtocol | Mechanism:
        """The chosen protocol (or mechanism); `UnsupportedError` with all reasons if there is none.

        >>> from shuffledp import plan
        >>> plan("histogram", n=100_000, k=8, epsilon=1.0, delta=1e-6).make().name
        'correlated_histogram'
        """
        if self.chosen is None:
            raise UnsupportedError(f"no protocol fits: {self.reasons()}")
        return self.chosen.make()

    def reasons(self) -> str:
        """Why the rows that are not available are not, in one line.

        >>> from shuffledp import plan
        >>> plan("count", n=100, epsilon=1.0, delta=0.0, trust="central").reasons()[:36]
        'binomial (central): delta=0.0 must b'
        """
        return "; ".join(
            f"{row.protocol} ({row.model.value}): {row.reason}"
            for row in self.rows
            if not row.available
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None, as they are written in JSON.

        >>> from shuffledp import plan
        >>> sorted(plan("count", n=100, epsilon=1.0, delta=0.0, trust="local").to_dict())[:4]
        ['chosen', 'delta', 'epsilon', 'error']
        """
        return {
            "task": self.task,
            "n": self.n,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "chosen": None if self.chosen is None else self.chosen.protocol,
            "model": None if self.chosen is None else self.chosen.model.value,
            "error": self.error,
            "honest": self.asked.honest,
            "rounding": self.rounding,
            "rows": [row.to_dict() for row in self.rows],
        }

    def to_json(self) -> str:
        """`to_dict` as strict JSON.

        >>> from shuffledp import plan
        >>> json.loads(plan("count", n=100, epsilon=1.0, delta=0.0, trust="local").to_json())["n"]
        100
        """
        return json.dumps(self.to_dict(), allow_nan=False)

    def title(self) -> str:
        """The question in one line.

        >>> from shuffledp import plan
        >>> plan("count", n=100, epsilon=1.0, delta=0.0, trust="local").title()
        'count of yes and no, n = 100, epsilon = 1, delta = 0, 90 % honest'
        """
        return title(self)

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def plan(
    task: str | Task,
    *,
    n: int | None = None,
    epsilon: float | None = None,
    delta: float,
    error: float | None = None,
    max_messages: float | None = None,
    max_bits: float | None = None,
    trust: Iterable[str] | str = TRUST,
    honest: float = HONEST,
    **options: Any,
) -> Plan:
    """Which protocol, and what will it cost: all registered ones for a question, by their exact error.

    `task` is "count", "sum", "mean" or "histogram" (or another name of `sdp.tasks.TASKS`), with the options of
    that task: a histogram has `k` categories; sums and means are of integers `lower` .. `upper` (0 .. 1 if not
    given), or of reals on a grid of `steps` steps. `honest` is the share of users whose noise the guarantee
    counts on. Rows beyond `max_messages` or `max_bits` per user, of a model outside `trust`, or
    outside their theorem's range are not available, and say why.

    **The error** of each row (`rmse`) is exact, on the scale of the count or sum (also for means) and per bin
    for histograms, for the data set that is worst for that protocol.

    **The chosen one** needs no curator, unless nothing else is available: the central model is the baseline.
    Errors within a quarter of the smallest count as equal, then the fewest bits win: nearly the central error
    in one bit is a better deal than exactly that in a hundred.

    **The inverse questions**: with `error` (the wanted RMSE; for means that of the mean) leave out one of n and
    epsilon. Without epsilon each row gets the smallest epsilon that is enough; without n (for means) the
    smallest number of users. Both to within a thousandth, from above: the error is met, also by values
    between the points of the grid.

    >>> answer = plan("histogram", n=1_000_000, k=1024, epsilon=1.0, delta=1e-8)
    >>> answer.chosen.protocol, round(answer.chosen.rmse, 2), round(answer.chosen.messages_per_user, 1)
    ('correlated_histogram', 3.28, 2.1)
    >>> [row.protocol for row in answer.rows][:2]
    ['geometric', 'correlated_histogram']
    >>> wanted = plan("mean", error=0.01, n=100_000, delta=1e-8, upper=100)
    >>> wanted.chosen.protocol, 0.148 < wanted.epsilon < 0.15, wanted.chosen.rmse <= 1000
    ('split_and_mix', True, True)
    """
    limits = Limits.of(max_messages=max_messages, max_bits=max_bits, trust=trust)
    asked = Asked.of(
        task,
        n=_SOME_USERS if n is None else n,
        epsilon=1.0 if epsilon is None else epsilon,
        delta=delta,
        honest=honest,
        **options,
    )
    aim = _aim(asked.task, n, epsilon, error)
    found = ranked(_rows(asked, limits, aim, error), aim)
    chosen = choose(found, aim)
    return Plan(
        asked=_answered(asked, chosen, aim),
        limits=limits,
        aim=aim,
        rows=found,
        chosen=chosen,
        error=error,
    )


def _answered(asked: Asked, chosen: Row | None, aim: Aim) -> Asked:
    """The question with what was searched for."""
    if chosen is None:
        return asked
    if aim is Aim.USERS and chosen.n is not None:
        return replace(asked, n=chosen.n)
    if aim is Aim.EPSILON and chosen.epsilon is not None:
        return replace(asked, epsilon=chosen.epsilon)
    return asked


def _aim(task: Task, n: int | None, epsilon: float | None, error: float | None) -> Aim:
    """What is searched for: exactly one thing."""
    if error is None:
        for name, value in (("n", n), ("epsilon", epsilon)):
            if value is None:
                raise ParameterError(name, value, "must be given, unless `error` is")
        return Aim.ERROR
    positive("error", error)
    if (n is None) == (epsilon is None):
        raise ParameterError("error", error, "needs one of n and epsilon, not both and not none")
    if epsilon is None:
        return Aim.EPSILON
    if not task.average:
        raise ParameterError(
            "n", n, f"must be given: the error of {task.answer} does not fall with n"
        )
    return Aim.USERS


def _rows(asked: Asked, limits: Limits, aim: Aim, error: float | None) -> Iterator[Row]:
    for candidate in candidates(asked):
        if error is None or candidate.model not in limits.trust:
            row = evaluate(candidate, asked, limits)
        elif aim is Aim.EPSILON:
            row = least_epsilon(candidate, asked, limits, error)
        else:
            row = least_n(candidate, asked, limits, error)
        yield with_worst_bin(row, candidate, _at(asked, row))


def _at(asked: Asked, row: Row) -> Asked:
    """The question that the row answers."""
    epsilon = asked.epsilon if row.epsilon is None else row.epsilon
    return replace(asked, epsilon=epsilon, n=asked.n if row.n is None else row.n)
