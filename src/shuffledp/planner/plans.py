"""The planner: every registered protocol for one question, ranked, and one of them chosen.

The inverse questions are the smallest epsilon, and the smallest n, whose error is small enough. The error falls like a
power of either, so the search follows the chord of log error against log epsilon (or log n). It returns a value that
was evaluated and found good: an error that is not perfectly monotone costs sharpness, never the promise.
"""

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context, Decimal
from functools import partial
from typing import Any

from shuffledp.core.display import align
from shuffledp.core.domain import Categories, Integers, Reals
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.notebook import make_table, say, stack
from shuffledp.core.privacy import Model, round_percent_up, round_share_up, round_up
from shuffledp.core.protocol import HONEST, Mechanism, ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.planner.choice import (
    Aim,
    choose_row,
    order_candidates,
    pick_for_file,
    rank,
    recognise,
)
from shuffledp.planner.local_bound import BOUNDED, local_lower_bound
from shuffledp.planner.question import (
    Candidate,
    Limits,
    Problem,
    check_delta,
    find_planned,
    hint_delta,
)
from shuffledp.planner.rows import Row, evaluate, explain_all
from shuffledp.tasks import Histogram
from shuffledp.tasks.groups import Grouped

_SHARP = 1e-3  # relative width at which the search stops
_EDGE = 0.05  # the same where nothing smaller can be made at all, whatever its error
_EPSILONS = (1e-4, 20.0)
_USERS = (2.0, 1e12)
_MOST_STEPS = 100
_PATIENCE = 6  # every sixth step is to the middle, whatever the power law says


def least_epsilon(candidate: Candidate, asked: Problem, limits: Limits, error: float) -> Row:
    """Return the row at the smallest epsilon whose error is at most `error`, or one with the reason why not.

    >>> from shuffledp.planner.question import candidates
    >>> asked = Problem.of("count", n=10_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> limits = Limits.of(models="central")
    >>> row = least_epsilon(next(candidates(asked.task)), asked, limits, 10.0)
    >>> round(row.guarantee.epsilon, 2), row.rmse <= 10.0
    (0.14, True)
    """

    coarse = _coarse(candidate, asked, error)
    if coarse is not None:
        return coarse

    def row_at(epsilon: float) -> Row:
        return evaluate(candidate, asked.at(epsilon=epsilon), limits)

    first = math.sqrt(2) * asked.task.sensitivity(asked.n) / error
    bracket = _Bracket(name="epsilon", start=_EPSILONS[0], end=_EPSILONS[1])
    return bracket.search(row_at, lambda row: _excess(row, asked, error), first)


def least_n(candidate: Candidate, asked: Problem, limits: Limits, error: float) -> Row:
    """Return the row at the smallest number of users whose error of the mean is at most `error`.

    >>> from shuffledp.planner.question import candidates
    >>> asked = Problem.of("mean", n=1000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> limits = Limits.of(models="central")
    >>> least_n(next(candidates(asked.task)), asked, limits, 0.01).n
    142
    """

    def row_at(n: float) -> Row:
        return evaluate(candidate, asked.at(n=int(n)), limits)

    first = math.ceil(math.sqrt(2) * asked.task.sensitivity(1) / (error * asked.epsilon))
    bracket = _Bracket(name="n", start=_USERS[0], end=_USERS[1], grain=1.0)
    return bracket.search(row_at, lambda row: _excess(row, asked, error), first)


def _coarse(candidate: Candidate, asked: Problem, error: float) -> Row | None:
    """Return a row with the reason, if rounding to the finest grid there is costs the wanted error alone."""
    grid = asked.at(epsilon=_EPSILONS[1]).rounding / asked.task.scale(asked.n)
    if candidate.model is Model.CENTRAL or grid < error:
        return None
    reason = f"rounding to the grid is off by {grid:g} already: take more steps"
    return Row(protocol=candidate.name, model=candidate.model, reason=reason)


def _excess(row: Row, asked: Problem, error: float) -> float:
    """Return log(error of the row / the wanted error): at most 0 where it is good, infinite without an error."""
    if not row.available or row.rmse is None or row.n is None:
        return math.inf
    return math.log(row.rmse / (asked.task.scale(row.n) * error))


@dataclass(slots=True, kw_only=True)
class _Bracket:
    """A bracket: between the last value that was too small and the first that was good enough."""

    name: str
    start: float
    end: float
    grain: float = 0.0
    """Values are multiples of it; 0: any."""
    low: float | None = None
    high: float | None = None
    good: Row | None = None
    points: list[tuple[float, float]] = field(default_factory=list)
    """(log of the value, excess), where it was finite."""

    def search(
        self, row_at: Callable[[float], Row], excess_of: Callable[[Row], float], first: float
    ) -> Row:
        x = min(max(first, self.start), self.end)
        for _ in range(_MOST_STEPS):
            row = row_at(x)
            excess = excess_of(row)
            if excess <= 0:
                self.high, self.good = x, row
            else:
                self.low = x
            if math.isfinite(excess):
                self.points.append((math.log(x), excess))
            if x >= self.end and self.good is None:
                return self._hopeless(row)
            if self._is_done() or self._close(excess):
                break
            x = self._choose_next()
        return self._hopeless(row) if self.good is None else self.good

    def _hopeless(self, row: Row) -> Row:
        why = "" if row.reason is None else f": {row.reason}"
        reason = f"no {self.name} up to {self.end:g} is enough{why}"
        return Row(protocol=row.protocol, model=row.model, reason=reason)

    def _is_done(self) -> bool:
        if self.high is None:
            return False
        if self.high <= self.start:
            return True
        if self.low is None:
            return False
        sharp = _EDGE if self._at_edge(self.low) else _SHARP
        return self.high - self.low <= max(sharp * self.low, self.grain * 1.5)

    def _at_edge(self, low: float) -> bool:
        """Return whether `low` has no error at all; a number of users is found sharply even so."""
        return self.grain == 0 and all(at != math.log(low) for at, _ in self.points)

    def _close(self, excess: float) -> bool:
        """Return whether the last value is good, and no better one is to be expected that is much smaller."""
        if self.high is None or excess > 0 or self._is_grained(self.high):
            return False
        return -excess <= _SHARP * self._power()

    def _is_grained(self, x: float) -> bool:
        """Return whether the grain limits the search."""
        return _SHARP * x < 2 * self.grain

    def _choose_next(self) -> float:
        """Return where the power law through the last two points says, or the middle of the bracket."""
        low, high = self.low, self.high
        if high is None:
            x = min(self._aim(), self.end)
        elif low is None:
            x = max(min(self._aim(), high - self.grain), self.start)
        else:
            margin = max(_SHARP / 3 * high, self.grain)
            x = self._aim()
            if not low + margin / 2 < x < high - margin / 2 or self._slow():
                x = math.sqrt(low * high)
        return float(math.ceil(x / self.grain) * self.grain) if self.grain else x

    def _slow(self) -> bool:
        """Return whether to take the middle, whatever the power law says: every few steps."""
        return len(self.points) % _PATIENCE == 0

    def _aim(self) -> float:
        known = self.points and (self.low is None or self.points[-1][0] >= math.log(self.low))
        if not known:  # nothing can be made there: upwards
            return 1.5 * (self.low or self.start)
        at, excess = self.points[-1]
        # A little past the root, on its good side; between whole numbers from both sides.
        past = _SHARP / 3
        if self._is_grained(math.exp(at)):
            past = math.copysign(past, excess)
        return math.exp(at + excess / self._power() + past)

    def _power(self) -> float:
        """Estimate the power with which the error falls, like value^-power."""
        if len(self.points) < 2:
            return 1.0
        (a, at_a), (b, at_b) = self.points[-2:]
        return min(max((at_a - at_b) / (b - a), 0.25), 50.0) if a != b else 1.0


_SOME_USERS = 1000  # where the number of users is what is asked for
_WIDTH = 80
_DIGITS = 4  # of an epsilon, rounded up


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan:
    """The answer of the planner: rows (available ones first, best first), and the chosen one.

    Printed, it is a table; in a notebook too. `to_dict` and `to_json` are for programs.

    >>> from shuffledp import plan
    >>> answer = plan("count", n=1_000_000, epsilon=1.0, delta=1e-8, models=("shuffle", "local"))
    >>> answer.chosen.protocol, answer.make().guarantee.delta <= 1e-8
    ('correlated_count', True)
    """

    asked: Problem
    """The question; n and epsilon are those of the chosen row where one of them was searched for."""
    limits: Limits
    aim: Aim
    rows: tuple[Row, ...]
    chosen: Row | None
    error: float | None = None
    """The error that was wanted, if the question was the inverse one."""
    remarks: tuple[str, ...] = ()
    """What whoever reads the plan should know."""
    on_file: Row | None = None
    """What `sdp.ask` and `shuffledp run` take: on a file messages cost nothing, so the error decides."""
    liars: float | None = None
    """The share of people whose reports may say anything, if somebody asked what they can do to the answer."""

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
        """The epsilon that was asked for, or that the chosen row needs."""
        return None if self.chosen is None and self.aim is Aim.EPSILON else self.asked.epsilon

    @property
    def delta(self) -> float:
        """The delta that was asked for."""
        return self.asked.promise.delta

    @property
    def rounding(self) -> float:
        """The part of every RMSE that comes from rounding n real values at random; 0 for integers.

        >>> from shuffledp import plan
        >>> plan("mean", n=1600, epsilon=1.0, delta=1e-6, upper=1.0, steps=100, models="local").rounding
        0.2
        """
        return self.asked.rounding

    @property
    def local_bound(self) -> float | None:
        """What no epsilon-local protocol can go below, on the scale of the rows' RMSE; None where none is proved.

        For counts, sums and means, whatever is sent and in however many rounds; delta = 0. It counts no rounding.

        >>> from shuffledp import plan
        >>> round(plan("count", n=2_000, epsilon=1.0, delta=0.0, models="local").local_bound, 2)
        42.53
        """
        if self.task not in BOUNDED or self.aim is not Aim.ERROR:
            return None
        count = local_lower_bound("count", n=self.asked.n, epsilon=self.asked.epsilon)
        return count * self._width

    def bias(self, row: Row) -> float | None:
        """Bound by how much the liars can move the answer of a row, on the scale of its RMSE; None: no bound.

        A curator counts what he is told: there a liar moves the answer by one person, whatever else he says. None is
        known for variances and standard deviations: they are no sums over people.

        >>> from shuffledp import plan
        >>> asked = plan("count", n=10_000, epsilon=1.0, delta=1e-6, models="local", liars=0.01)
        >>> round(asked.bias(asked.chosen))
        216
        """
        influence = 1.0 if row.model is Model.CENTRAL else row.influence
        if self.liars is None or influence is None or row.n is None or self.asked.task.unit is None:
            return None
        return math.ceil(self.liars * row.n) * influence * self._width

    @property
    def _width(self) -> float:
        """How far one person moves the answer: ranks and counts by one, sums by the width of the range."""
        domain = self.asked.domain
        if not self.asked.task.adds or not isinstance(domain, Integers | Reals):
            return 1.0
        return float(domain.upper - domain.lower)

    def tell_bias(self, row: Row) -> str:
        """Return the same in a few letters: "any" if liars can make the answer anything.

        >>> from shuffledp import plan
        >>> asked = plan("sum", n=10_000, upper=10, epsilon=1.0, delta=1e-6, models="shuffle", liars=0.01)
        >>> [asked.tell_bias(row) for row in asked.rows if row.protocol in ("split_and_mix", "rounded_sum")]
        ['any', '1,037']
        """
        bias = self.bias(row)
        everything = self._width * (row.n or 0)
        return shorten_up(bias) if bias is None or bias < everything else "any"

    def make(self) -> ShuffleProtocol | Mechanism:
        """Return the chosen protocol (or mechanism); `UnsupportedError` with all reasons if there is none.

        >>> from shuffledp import plan
        >>> plan("histogram", n=100_000, k=8, epsilon=1.0, delta=1e-6).make().name
        'correlated_histogram'
        """
        if self.chosen is None:
            raise UnsupportedError(f"no protocol fits: {self.reasons()}")
        return self.chosen.make()

    def reasons(self) -> str:
        """Say why rows of the models asked for are not available, in one line.

        >>> from shuffledp import plan
        >>> plan("count", n=100, epsilon=1.0, delta=0.0, models="central").reasons()[:36]
        'binomial (central): delta=0.0 must b'
        """
        asked = (row for row in self.rows if row.model in self.limits.models)
        return explain_all(row for row in asked if not row.available)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and None, as they are written in JSON.

        >>> from shuffledp import plan
        >>> sorted(plan("count", n=100, epsilon=1.0, delta=0.0, models="local").to_dict())[:4]
        ['chosen', 'delta', 'epsilon', 'error']
        """
        return {
            "task": self.task,
            "n": self.n,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "chosen": None if self.chosen is None else self.chosen.protocol,
            "model": None if self.chosen is None else self.chosen.model.value,
            "on_file": None if self.on_file is None else self.on_file.protocol,
            "error": self.error,
            "honest": self.asked.crowd.honest,
            "rounding": self.rounding,
            "local_bound": self.local_bound if Model.LOCAL in self.limits.models else None,
            "remarks": list(self.remarks),
            "liars": self.liars,
            "rows": [{**row.to_dict(), "bias": self.bias(row)} for row in self.rows],
        }

    def to_json(self) -> str:
        """Return `to_dict` as strict JSON.

        >>> from shuffledp import plan
        >>> json.loads(plan("count", n=100, epsilon=1.0, delta=0.0, models="local").to_json())["n"]
        100
        """
        return json.dumps(self.to_dict(), allow_nan=False)

    def title(self) -> str:
        """Return the question in one line.

        >>> from shuffledp import plan
        >>> plan("count", n=100, epsilon=1.0, delta=0.0, models="local").title()
        'count of yes and no, n = 100, epsilon = 1, delta = 0, 90 % honest'
        """
        parts = [f"{self.task} of {self.asked.domain}"]
        if self.n is not None:
            parts.append(f"n = {self.n:,}")
        if self.error is not None:
            parts.append(f"RMSE of {self.asked.task.answer} <= {self.error:g}")
        if self.epsilon is not None:
            parts.append(f"epsilon = {round_up(self.epsilon, _DIGITS)}")
        honest = f"{round_share_up(self.asked.crowd.honest)} % honest"
        return ", ".join([*parts, f"delta = {round_up(self.delta, _DIGITS)}", honest])

    def __str__(self) -> str:
        """Return the table, 80 columns wide, then what is not available and why."""
        able = [row for row in self.rows if row.available]
        cells = [_cells(self, row) for row in able]
        lines = [*_wrap(self.title()), ""]
        if cells:
            table = [[*cells[0]], *([*each.values()] for each in cells)]
            marks = ["  ", *("> " if row is self.chosen else "  " for row in able)]
            aligned = align(table, texts=2, gap="  ")
            if max(map(len, aligned)) > _WIDTH - len(marks[0]):
                aligned = align(table, texts=2, gap=" ")
            lines += [mark + line for mark, line in zip(marks, aligned, strict=True)]
            lines += ["", *_wrap(_caption(self)), *_wrap(_verdict(self))]
        else:
            lines.append("Nothing is available.")
        missing = [row for row in self.rows if not row.available]
        if missing:
            lines += ["", "Not available:"]
        for row in missing:
            lines += _wrap(row.explain(), "  ", "    ")
        return "\n".join(lines)

    def __repr__(self) -> str:
        chosen = "nothing" if self.chosen is None else self.chosen.protocol
        return f"<Plan: {self.title()}: {chosen} of {len(self.rows)} rows>"

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        able = [row for row in self.rows if row.available]
        chosen = next((place for place, row in enumerate(able) if row is self.chosen), None)
        cells = [_cells(self, row) for row in able]
        table = say("Nothing is available.")
        if cells:
            rows = ([*each.values()] for each in cells)
            table = make_table([*cells[0]], rows, chosen=chosen, texts=2)
        missing = "".join(say(row.explain()) for row in self.rows if not row.available)
        folded = f"<details><summary>not available</summary>{missing}</details>" if missing else ""
        verdict = [say(_verdict(self), bold=True)] if self.chosen is not None else []
        caption = say(_caption(self), small=True)
        return stack(say(self.title()), table, *verdict, caption, folded)


def plan(
    task: str | Task,
    *,
    n: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    error: float | None = None,
    max_messages: float | None = None,
    max_bits: float | None = None,
    max_bytes: float | None = None,
    max_influence: float | None = None,
    local_epsilon: float | None = None,
    liars: float | None = None,
    models: Iterable[Model | str] | Model | str = tuple(Model),
    honest: float = HONEST,
    allow_large_delta: bool = False,
    groups: Sequence[str] | None = None,
    **options: Any,
) -> Plan:
    """Find which protocol to use and what it will cost: all registered ones for a question, by their exact error.

    `task` is "count", "sum", "mean" or "histogram" (or another name of `sdp.tasks.TASKS`), with the options of
    that task: a histogram has `k` categories; sums and means are of integers `lower` .. `upper` (0 .. 1 if not
    given), or of reals on a grid of `steps` steps. `honest` is the share of users whose noise the guarantee
    counts on. A `delta` above 1/n is refused, unless `allow_large_delta`. Rows beyond `max_messages` or
    `max_bits` per user, of a model outside `models`, or outside their theorem's range are not available, and say why.

    **Live collections** have limits of their own: `max_bytes` of a report as it travels, encrypted; `max_influence`,
    by how many people one report may move the answer; `local_epsilon`, what every report keeps if everybody else
    conspires. Local protocols behind a shuffler are taken at most at that epsilon, and promise more than was asked for.

    **Liars** cannot weaken the guarantee beyond what `honest` allows for, but they can move the answer: for a share
    `liars` of people who may send anything each row says by how much, at most (`Plan.bias`).

    **By group** (`groups`, publicly known): a count, histogram, sum or mean of each is asked as a histogram over all
    pairs of answer and group, and the errors are those of a pair.

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
    limits = Limits.of(
        max_messages=max_messages,
        max_bits=max_bits,
        max_bytes=max_bytes,
        max_influence=max_influence,
        local_epsilon=local_epsilon,
        models=models,
    )
    if isinstance(task, str):
        find_planned(task)
    if delta is None:
        such = "" if n is None else f", such as {hint_delta(n):g}"
        raise UnsupportedError(f"a plan needs delta: choose it far below 1/n{such}")
    some = (_SOME_USERS if n is None else n, 1.0 if epsilon is None else epsilon)
    about_groups: tuple[str, ...] = ()
    if groups is not None:
        task, about_groups = _ask_pairs(task, groups, options, some, known=n is not None)
        options = {}
    asked = Problem.of(task, n=some[0], epsilon=some[1], delta=delta, honest=honest, **options)
    aim = _aim(asked.task, n, epsilon, error)
    check = partial(_check_delta, limits, delta, allow_large_delta=allow_large_delta)
    remarks = () if n is None else check(n)
    if aim is Aim.ERROR and Model.SHUFFLE in limits.models:
        rounds = asked.task.in_rounds(asked.crowd, asked.promise)
        remarks += () if rounds is None else (rounds,)
    evaluated = list(_rows(asked, limits, aim, error))
    chosen = choose_row(evaluated, aim, recognise(asked))
    return Plan(
        asked=_answer(asked, chosen, aim),
        limits=limits,
        aim=aim,
        rows=rank(evaluated, aim),
        chosen=chosen,
        on_file=_pick_for_file(evaluated, asked, limits) if aim is Aim.ERROR else None,
        error=error,
        liars=None if liars is None else fraction_of_one("liars", liars),
        remarks=about_groups
        + (check(chosen.n) if aim is Aim.USERS and chosen is not None else remarks),
    )


def _ask_pairs(
    task: str | Task,
    groups: Sequence[str],
    options: Mapping[str, Any],
    some: tuple[int, float],
    *,
    known: bool,
) -> tuple[Task, tuple[str, ...]]:
    """Return the histogram that answers a question by group, and what its errors mean for the answers."""
    if len(groups) < 2:
        raise ParameterError("groups", list(groups), "must be at least two")
    asked = find_planned(task).declare(options).task if isinstance(task, str) else task
    names = Categories(k=len(groups), names=tuple(map(str, groups)))
    grouped = Grouped.of(asked, names).fit(*some)
    if (grouped.step or grouped.coarse) and not known:
        raise UnsupportedError(
            f"a plan of a {asked.name} by group needs n: its grid is chosen for it"
        )
    pairs = grouped.domain.size
    remarks = [
        f"A {asked.name} of each of {len(groups)} groups is a histogram over {pairs:,} pairs of answer and group: the "
        "errors are those of a pair."
    ]
    if grouped.shaped:
        remarks.append("Quantiles and spreads are read from the pairs of each group.")
    factor = grouped.amplify_noise()
    if factor != 1:
        remarks.append(
            f"The sum of a group has {factor:.3g} times that error, and its numbers are rounded to steps of "
            f"{grouped.step:.3g}."
            if grouped.step
            else f"The sum of a group has {factor:.3g} times that error."
        )
    return Histogram(domain=Categories(k=pairs)), tuple(remarks)


def _pick_for_file(rows: list[Row], asked: Problem, limits: Limits) -> Row | None:
    """Return the row that a run on a file takes by default, in the model that trusts least."""
    model = next(
        each for each in (Model.SHUFFLE, Model.LOCAL, Model.CENTRAL) if each in limits.models
    )
    known = {row.protocol: row for row in rows if row.model is model}
    return pick_for_file(asked, model, lambda each: known[each.name])


def _check_delta(
    limits: Limits, delta: float, n: int | None, *, allow_large_delta: bool
) -> tuple[str, ...]:
    if n is None or limits.models == {Model.LOCAL}:  # nobody there needs a delta
        return ()
    return check_delta(delta, n, allow_large_delta=allow_large_delta)


def _answer(asked: Problem, chosen: Row | None, aim: Aim) -> Problem:
    """Return the question with what was searched for."""
    if chosen is None or aim is Aim.ERROR:
        return asked
    return asked.at(n=chosen.n) if aim is Aim.USERS else asked.at(epsilon=chosen.epsilon)


def _aim(task: Task, n: int | None, epsilon: float | None, error: float | None) -> Aim:
    """Return what is searched for: exactly one thing."""
    if error is None:
        for name, value in (("n", n), ("epsilon", epsilon)):
            if value is None:
                raise ParameterError(name, value, "must be given, unless `error` is")
        return Aim.ERROR
    positive("error", error)
    if (n is None) == (epsilon is None):
        raise ParameterError("error", error, "needs n or epsilon, and not both")
    if epsilon is None:
        return Aim.EPSILON
    if not task.average:
        raise ParameterError(
            "n",
            n,
            f"must be given: the error of {task.answer} does not fall with n (as a share of n it does: "
            "`sdp.sample_complexity`, `shuffledp people-needed`)",
        )
    return Aim.USERS


def _rows(asked: Problem, limits: Limits, aim: Aim, error: float | None) -> Iterator[Row]:
    for candidate in order_candidates(asked.task):
        if error is None or candidate.model not in limits.models:
            yield evaluate(candidate, asked, limits)
        elif aim is Aim.EPSILON:
            yield least_epsilon(candidate, asked, limits, error)
        else:
            yield least_n(candidate, asked, limits, error)


def _cells(plan: Plan, row: Row) -> dict[str, str]:
    """Return what stands in each column."""
    assert row.guarantee is not None
    assert row.n is not None
    assert row.rmse is not None
    cells = {"protocol": row.protocol, "model": row.model.value}
    if plan.aim is Aim.EPSILON:
        cells["epsilon"] = round_up(row.guarantee.epsilon, _DIGITS)
    if plan.aim is Aim.USERS:
        cells["n"] = f"{row.n:,}"
    beside = plan.asked.task.columns(rmse=row.rmse, n=row.n, worst=row.worst_bin, found=row.found)
    cells |= {name: _shorten(value) for name, value in {"RMSE": row.rmse, **beside}.items()}
    if plan.liars is not None:
        cells["liars"] = plan.tell_bias(row)
    if plan.limits.live:
        cells["bytes"] = _shorten(row.bytes_per_report)
        cells["influence"] = shorten_up(row.influence)
        cells["guess"] = f"{round_percent_up(1.0 if row.guess is None else row.guess)} %"
    else:
        cells["messages"] = _shorten(row.messages_per_user)
        cells["bits"] = _shorten(row.bits_per_user)
    floor = row.local_floor
    return {**cells, "local": "-" if floor is None else round_up(floor.epsilon, _DIGITS)}


def _caption(plan: Plan) -> str:
    task = plan.asked.task
    notes = [f"RMSE: {task.judged.format(total=task.total)}."]
    if task.bins:
        notes.append("Worst bin: with probability about 95 % no bin is off by more.")
    if not task.listed:
        notes.append("Found from: how many people a word needs to be found with probability 95 %.")
    if plan.liars is not None:
        unknown = any(plan.bias(row) is None for row in plan.rows if row.available)
        notes.append(
            f"Liars: by how much {100 * plan.liars:g} % of the people can move it if their reports lie, at most"
            f"{', where the same words are found' if not plan.asked.task.listed else ''}"
            f"{'; -: no bound is known' if unknown else ''}."
        )
    if plan.limits.live:
        notes.append(
            "Bytes: of a report, encrypted. Influence: by how many people one report can move the answer. Guess: "
            "how often somebody who thought yes and no equally likely guesses right, at most, if everybody else "
            "conspires."
        )
    else:
        notes.append("Messages, bits: per user.")
    notes.append("Local: epsilon if the shuffler reveals who sent what.")
    if plan.rounding:
        notes.append(
            f"It includes {_shorten(plan.rounding)} for rounding reals to the grid at random."
        )
    if Model.LOCAL in plan.limits.models and plan.local_bound is not None:
        notes.append(
            f"No local protocol can do better than {_round_down(plan.local_bound)}, whatever is sent and in however "
            f"many rounds (epsilon = {round_up(plan.asked.epsilon, _DIGITS)}, delta = 0)."
        )
    return " ".join([*notes, *task.remarks(), *plan.remarks])


def _verdict(plan: Plan) -> str:
    if plan.chosen is None:
        return ""
    chosen = f"> chosen: {plan.chosen.protocol} ({plan.chosen.model.value})"
    if plan.on_file is None or plan.on_file.protocol == plan.chosen.protocol:
        return chosen
    return f"{chosen}; on a file, where messages cost nothing: {plan.on_file.protocol}"


def _wrap(text: str, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=later)


def _round_down(value: float) -> str:
    """Write about four digits, and not more than the value."""
    return format(Decimal(value).normalize(Context(prec=4, rounding=ROUND_DOWN)), ",f")


def _shorten(value: float | None) -> str:
    """Write about three digits."""
    if value is None:
        return "-"
    if value >= 999.5:
        return f"{value:,.0f}" if value < 1e7 else f"{value:.3g}"
    return f"{value:.3g}"


def shorten_up(bound: float | None) -> str:
    """Write a bound from above in about three digits, and not below it; the last digit of a float is none of them.

    >>> [shorten_up(bound) for bound in (None, 1.2601, 5 * (0.1 + 0.2), 100.76, 12_345.1, 1.2341e9)]
    ['-', '1.27', '1.5', '101', '12,346', '1.24e+09']
    """
    if bound is None:
        return "-"
    bound = float(f"{bound:.15g}")
    return f"{math.ceil(bound):,}" if 999 < bound < 1e7 else f"{float(round_up(bound, 3)):.3g}"
