"""Tables of numbers, as they were last agreed on: nothing that is printed changes unseen.

Other tests say that numbers are right: against oracles, other theorems and simulations. They leave room, and a fault
that makes a bound a little larger fits into it. A table has one line for each branch that leads to a number, and holds
it to a part in 10^13: certified bounds leave a part in 10^12 for rounding, and often less. Where a proof becomes
sharper, or a search ends elsewhere, numbers may change: look at each, and write them anew by
`PYTHONPATH=src:tests python -m accounting.test_numbers` (or numerics, protocols, live).
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CLOSE = 1e-13
ROUGH = 1e-10
"""For what is rounded otherwise on another machine: small differences of large numbers, and sums of many."""
_MANY = 24  # numbers; of more only sums are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberTable:
    """Expressions and their numbers, in a file."""

    path: Path
    names: Mapping[str, object]
    """What expressions may speak of."""

    def read(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = json.loads(self.path.read_text(encoding="utf-8"))
        return found

    def look(self, expression: str) -> list[float]:
        """Return the numbers; of many of them how many, their sum, and that of each times its place."""
        found = list(flatten(eval(expression, dict(self.names))))  # noqa: S307, our own table
        if len(found) <= _MANY:
            return found
        finite = [each if math.isfinite(each) else -1.0 for each in found]
        weighed = math.fsum(place * each for place, each in enumerate(finite))
        return [len(found), math.fsum(finite), weighed]

    def check(self, expression: str, close: float = CLOSE) -> None:
        wanted = pytest.approx(self.read()[expression], rel=close, abs=0, nan_ok=True)
        assert self.look(expression) == wanted

    def write(self) -> None:
        rows = {expression: self.look(expression) for expression in self.read()}
        lines = (f" {json.dumps(name)}: {json.dumps(found)}" for name, found in rows.items())
        self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def flatten(value: Any) -> Iterator[float]:
    """Yield every number of a result, in order.

    >>> list(flatten((1, np.array([[2.0], [3.0]]), "text", {4: Fraction(1, 2)})))
    [1.0, 2.0, 3.0, 4.0, 0.5]
    """
    match value:
        case None:
            yield math.nan
        case str() | Enum():
            return
        case bool() | int() | float() | Decimal() | Fraction() | np.generic():
            yield float(value)
        case dict():
            yield from flatten(list(value.items()))
        case np.ndarray():
            yield from flatten(value.tolist())
        case _ if is_dataclass(value):
            yield from flatten([getattr(value, each.name) for each in fields(value)])
        case _:
            for each in value:
                yield from flatten(each)
