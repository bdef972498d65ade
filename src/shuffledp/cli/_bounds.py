"""Every bound side by side, for `shuffledp amplify --all`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import shuffledp as sdp
from shuffledp.accounting.amplify import BinaryOutput
from shuffledp.accounting.closed_forms import CLOSED_FORMS, ClosedForm, Covers

if TYPE_CHECKING:
    from shuffledp.core.randomizer import Randomizer

__all__ = ["Line", "every_bound", "print_table"]

_NUMERIC = {
    "clones 2021": "",
    "clones 2023": "",
    "blanket": "needs a randomizer that knows its law",
    "binary": "needs a randomizer that sends one bit (and n that is not too large)",
}
"""The numeric bounds, and why they may not apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One bound: its epsilon, or why there is none."""

    name: str
    kind: str
    """upper: a guarantee; lower: no guarantee can be smaller; approximation: neither."""
    numeric: bool
    epsilon: float | None
    reference: str
    why_not: str | None = None


def every_bound(
    *,
    n: int,
    honest: float,
    honest_users: int,
    epsilon0: float,
    delta: float,
    randomizer: Randomizer | None,
    lower: float | None,
) -> list[Line]:
    """Closed forms in the order of their years, numeric bounds, and the lower bound.

    >>> found = every_bound(n=1000, honest=1.0, honest_users=1000, epsilon0=1.0, delta=1e-6,
    ...                     randomizer=None, lower=0.13)
    >>> [line.name for line in found if line.why_not and line.numeric]
    ['blanket', 'binary']
    """
    binary = isinstance(randomizer, BinaryOutput)
    found = [_closed(form, honest_users, epsilon0, delta, binary) for form in CLOSED_FORMS]
    for name, excuse in _NUMERIC.items():
        try:
            best = sdp.amplify(
                n=n,
                delta=delta,
                epsilon0=epsilon0 if randomizer is None else None,
                randomizer=randomizer,
                honest=honest,
                bound=name,
            )
        except sdp.ParameterError as error:
            if error.name != "bound":
                raise
            line = Line(
                name=name, kind="upper", numeric=True, epsilon=None, reference="-", why_not=excuse
            )
        else:
            line = Line(
                name=name, kind="upper", numeric=True, epsilon=best.epsilon, reference=best.proof
            )
        found.append(line)
    why_not = None if lower is not None else "no data set of this form gives one"
    found.append(
        Line(
            name="data sets",
            kind="lower",
            numeric=True,
            epsilon=lower,
            reference="the loss on explicit data sets",
            why_not=why_not,
        )
    )
    return found


def _closed(form: ClosedForm, n: int, epsilon0: float, delta: float, binary: bool) -> Line:
    kind = "approximation" if form.covers is Covers.APPROXIMATION else "upper"
    epsilon, why_not = None, None
    if form.covers is Covers.BINARY_RR and not binary:
        why_not = f"{form.name} is about {form.covers.value}"
    else:
        try:
            epsilon = form.epsilon(epsilon0=epsilon0, n=n, delta=delta)
        except sdp.UnsupportedError as error:
            why_not = str(error)
    return Line(
        name=form.name,
        kind=kind,
        numeric=False,
        epsilon=epsilon,
        reference=form.reference,
        why_not=why_not,
    )


def print_table(lines: list[Line]) -> None:
    """The smallest guarantee is in bold."""
    from rich.console import Console
    from rich.table import Table

    uppers = [line.epsilon for line in lines if line.kind == "upper" and line.epsilon is not None]
    table = Table(caption="approximation: not a guarantee, to compare with only")
    table.add_column("bound", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("reference, or why it does not apply")
    for line in lines:
        table.add_row(
            line.name,
            f"{'numeric' if line.numeric else 'formula'}, {line.kind}",
            "-" if line.epsilon is None else f"{line.epsilon:.6g}",
            line.why_not or line.reference,
            style="bold" if line.epsilon == min(uppers) and line.kind == "upper" else None,
        )
    Console().print(table, highlight=False)
