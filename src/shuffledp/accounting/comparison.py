"""Every bound on what shuffling makes of a local guarantee, side by side."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from shuffledp.accounting.amplify import (
    Local,
    amplify,
    amplify_lower,
    find_epsilon0,
    find_flip,
    profile,
)
from shuffledp.accounting.closed_forms import CLOSED_FORMS, ClosedForm, Covers
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import HONEST, honest_users

__all__ = ["BoundComparison", "BoundLine"]

_NUMERIC = {
    "clones 2021": "",
    "clones 2023": "",
    "blanket": "needs a randomizer that knows its law",
    "binary": "needs a randomizer that sends one bit (and n that is not too large)",
}
"""The numeric bounds, and why they may not apply."""
_LOWER = "data sets (lower)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLine:
    """One bound: its epsilon, or why there is none."""

    name: str
    kind: str
    """upper: a guarantee; lower: no guarantee can be smaller; approximation: neither."""
    numeric: bool
    epsilon: float | None
    reference: str
    why_not: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundComparison:
    """One message from each of n people, as in `profile`, and all that is known of them once they are shuffled.

    >>> shuffled = BoundComparison(epsilon0=1.0, n=10_000, honest=1)
    >>> lines = shuffled.compare(1e-6)
    >>> best = min((line for line in lines if line.kind == "upper" and line.epsilon), key=lambda line: line.epsilon)
    >>> best.name, round(best.epsilon, 4), round(lines[-1].epsilon, 4)
    ('clones 2023', 0.0432, 0.038)
    """

    n: int
    epsilon0: float | None = None
    randomizer: Local | None = None
    honest: float = HONEST

    def __post_init__(self) -> None:
        if (self.epsilon0 is None) == (self.randomizer is None):
            wanted = "or a randomizer must be given, and not both"
            raise ParameterError("epsilon0", self.epsilon0, wanted)

    @property
    def _law(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def compare(self, delta: float) -> tuple[BoundLine, ...]:
        """Closed forms in the order of their years, numeric bounds, and the lower bound."""
        lower = self._find_lower(delta)
        return (
            *(self._evaluate(form, delta) for form in CLOSED_FORMS),
            *(self._compute(name, delta) for name in _NUMERIC),
            BoundLine(
                name="data sets",
                kind="lower",
                numeric=True,
                epsilon=lower,
                reference="the loss on explicit data sets",
                why_not=None if lower is not None else "no data set of this form gives one",
            ),
        )

    def trace(
        self, deltas: Sequence[float]
    ) -> tuple[dict[str, Callable[[float], float] | list[tuple[float, float]]], set[str]]:
        """Return the curves of all bounds that apply, and the names of those that are not guarantees.

        A curve is delta(epsilon), or points (epsilon, delta) at these deltas where a formula goes the other way.
        """
        curves: dict[str, Any] = {}
        for form in CLOSED_FORMS:
            found = ((self._evaluate(form, delta).epsilon, delta) for delta in deltas)
            curves[form.name] = [point for point in found if point[0] is not None]
        for name in _NUMERIC:
            with suppress(ParameterError):  # it does not apply, as the table says
                (bound,) = profile(**self._law, bound=name).bounds
                curves[name] = bound.curve.delta
        lowest = ((self._find_lower(delta), delta) for delta in deltas)
        curves[_LOWER] = [point for point in lowest if point[0]]
        guesses = (form.name for form in CLOSED_FORMS if form.covers is Covers.APPROXIMATION)
        return {name: curve for name, curve in curves.items() if curve}, {_LOWER, *guesses}

    @property
    def _flips(self) -> bool:
        return self.randomizer is not None and find_flip(self.randomizer) is not None

    def _evaluate(self, form: ClosedForm, delta: float) -> BoundLine:
        local = find_epsilon0(self.epsilon0, self.randomizer)
        epsilon, why_not = None, None
        if form.covers is Covers.BINARY_RR and not self._flips:
            why_not = f"{form.name} is about {form.covers.value}"
        else:
            try:
                trusted = honest_users(self.n, self.honest)
                epsilon = form.epsilon(epsilon0=local, n=trusted, delta=delta)
            except UnsupportedError as error:
                why_not = str(error)
        return BoundLine(
            name=form.name,
            kind="approximation" if form.covers is Covers.APPROXIMATION else "upper",
            numeric=False,
            epsilon=epsilon,
            reference=form.reference,
            why_not=why_not,
        )

    def _compute(self, name: str, delta: float) -> BoundLine:
        line = BoundLine(name=name, kind="upper", numeric=True, epsilon=None, reference="-")
        try:
            best = amplify(**self._law, delta=delta, bound=name)
        except ParameterError as error:
            if error.name != "bound":
                raise
            return replace(line, why_not=_NUMERIC[name])
        return replace(line, epsilon=best.epsilon, reference=best.proof)

    def _find_lower(self, delta: float) -> float | None:
        """Return what no analysis can beat, where we know it."""
        try:
            return amplify_lower(**self._law, delta=delta) if delta > 0 else None
        except UnsupportedError:
            return None
