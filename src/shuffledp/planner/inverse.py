"""The inverse questions: the smallest epsilon, or the smallest n, whose error is small enough.

The error falls like a power of either, so the search follows the chord of log error against log epsilon
(or log n). It returns a value that was evaluated and found good: an error that is not perfectly
monotone costs sharpness, never the promise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from shuffledp.core.privacy import Model
from shuffledp.planner.question import Candidate, Limits, Problem
from shuffledp.planner.rows import Row, evaluate

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
    """Between the last value that was too small and the first that was good."""

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
