"""The survey of sums and means in three models as live data: error, messages, and how the error grows.

Five families of protocols, each for bits, integers and bounded reals. Their errors come from the exact formulas
at every number of users and every epsilon; the growth exponents are slopes of log error against log n and log
epsilon, by least squares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.planner.candidates import Candidate, candidates
from shuffledp.planner.evaluate import evaluate
from shuffledp.planner.question import Asked, Limits
from shuffledp.planner.row import Row

__all__ = ["SurveyRow", "exponent", "survey"]

_FAMILIES = (
    ("central", Model.CENTRAL, ("geometric", "geometric", "laplace")),
    ("local", Model.LOCAL, ("rr", "hybrid", "hybrid")),
    ("blanket, one message", Model.SHUFFLE, ("rr", "rounded_sum", "rounded_sum")),
    ("vanishing communication", Model.SHUFFLE, ("correlated_count", "unary_sum", "unary_sum")),
    ("almost central", Model.SHUFFLE, ("split_and_mix",) * 3),
    ("almost central", Model.SHUFFLE, ("zero_sum_flooding",) * 3),
)
_DATA = ("bits", "integers", "reals")


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyRow:
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
        """Of the error of the mean, in n.

        >>> row = SurveyRow(family="local", data="bits", protocol="rr", model=Model.LOCAL, rmse=960.0,
        ...     messages_per_user=1.0, bits_per_user=1.0, n_exponent=0.5, epsilon_exponent=-1.0)
        >>> row.mean_exponent
        -0.5
        """
        return self.n_exponent - 1


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The b of y = a x^b, by least squares in logarithms.

    >>> round(exponent([1, 10, 100], [5, 50, 500]), 6)
    1.0
    """
    slope, _ = np.polyfit(np.log(x), np.log(y), 1)
    return float(slope)


def survey(
    *,
    n: int = 1_000_000,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    honest: float = 1.0,
    upper: int = 10,
    steps: int = 1000,
    users: Sequence[int] = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    epsilons: Sequence[float] = (0.1, 0.2, 0.4, 0.8),
    data: Sequence[str] = _DATA,
) -> tuple[SurveyRow, ...]:
    """Error, messages and measured growth of five families of protocols for sums.

    Integers are 0 .. `upper`, reals in [0, 1] on a grid of `steps` steps. Exponents are fitted over `users` (at
    `epsilon`) and over `epsilons` (at `n`).

    >>> for row in survey(data=["bits"])[:3]:
    ...     print(f"{row.family}: {row.protocol}, {row.rmse:.3g}, n^{row.mean_exponent:.2f}")
    central: geometric, 1.36, n^-1.00
    local: rr, 960, n^-0.50
    blanket, one message: rr, 5.84, n^-1.00
    """
    common: dict[str, Any] = {"n": n, "epsilon": epsilon, "delta": delta, "honest": honest}
    asked = {
        "bits": Asked.of("count", **common),
        "integers": Asked.of("sum", **common, upper=upper),
        "reals": Asked.of("sum", **common, lower=0.0, upper=1.0, steps=steps),
    }
    return tuple(
        _measured(family, kind, _candidate(asked[kind], name, model), asked[kind], users, epsilons)
        for family, kind, name, model in _lines()
        if kind in data
    )


def _lines() -> Iterator[tuple[str, str, str, Model]]:
    for place, kind in enumerate(_DATA):
        for family, model, names in _FAMILIES:
            yield family, kind, names[place], model


def _candidate(asked: Asked, name: str, model: Model) -> Candidate:
    return next(each for each in candidates(asked) if each.name == name and each.model is model)


def _measured(
    family: str,
    kind: str,
    candidate: Candidate,
    asked: Asked,
    users: Sequence[int],
    epsilons: Sequence[float],
) -> SurveyRow:
    row = _row(candidate, asked)
    by_n = [_rmse(_row(candidate, replace(asked, n=each))) for each in users]
    by_epsilon = [_rmse(_row(candidate, replace(asked, epsilon=each))) for each in epsilons]
    assert row.messages_per_user is not None
    assert row.bits_per_user is not None
    return SurveyRow(
        family=family,
        data=kind,
        protocol=candidate.name,
        model=candidate.model,
        rmse=_rmse(row),
        messages_per_user=row.messages_per_user,
        bits_per_user=row.bits_per_user,
        n_exponent=exponent(users, by_n),
        epsilon_exponent=exponent(epsilons, by_epsilon),
    )


def _row(candidate: Candidate, asked: Asked) -> Row:
    unlimited = Limits.of(max_messages=None, max_bits=None, trust=[each.value for each in Model])
    return evaluate(candidate, asked, unlimited)


def _rmse(row: Row) -> float:
    if row.rmse is None:
        raise UnsupportedError(f"{row.protocol} is not available: {row.reason}")
    return row.rmse
