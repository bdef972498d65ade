r"""How several releases about the same people add up, when each is chosen after the last was seen.

Whoever asks the next question has read the previous answers, and chooses its epsilon by them. So the
rule that stops the releases must be a *privacy filter* (Rogers, Roth, Ullman, Vadhan 2016, "Privacy
odometers and filters"): valid for parameters that are chosen adaptively. Two are, and are used here.

* **Sums.** sum epsilon_i <= epsilon and sum delta_i <= delta.
* **Renyi divergence of one order alpha**, fixed with the budget (Feldman, Zrnic 2021, "Individual
  privacy accounting via a Renyi filter"). A part of delta, the `reserve`, is kept for it. A release of
  epsilon_i has divergence at most that of randomized response,

      D(epsilon_i) = epsilon_i + (ln(1 + e^(-(2 alpha - 1) epsilon_i)) - ln(1 + e^-epsilon_i)) / (alpha - 1),

  and sum D(epsilon_i) + c <= epsilon is enough, where c turns a divergence into (epsilon, reserve) (Canonne,
  Kamath, Steinke 2020, Proposition 12). It wins when there are many small releases.

With a reserve a release is accepted if sum delta_i + reserve <= delta and *either* rule holds. This is
sound: every (epsilon_i, delta_i) release is post-processing of one that tells all with probability
delta_i and is epsilon_i-DP otherwise (Kairouz, Oh, Viswanath 2015), so telling all costs at most
sum delta_i. Histories within the first rule have no loss above epsilon; those within the second have the
same law as under the second filter alone, where the loss exceeds epsilon by no more than the reserve.
Without the reserve set aside beforehand that argument fails: one could gamble first and then choose the rule.

Composing whole privacy-loss distributions (`sdp.compose`) is tighter, but it is proven for parameters
that are fixed in advance, so the ledger does not use it.

Numbers are read as people write them: 0.1 is one tenth, so ten releases of 0.1 spend 1.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Guarantee, Neighbours
from shuffledp.core.validate import number, positive

__all__ = ["Budget", "Charge", "Spent", "charge_of", "exceeds", "spent"]

_SLACK = 1 + 1e-9
_TINY = 1e-13
_ORDERS = tuple(1 + 10 ** (place / 20) for place in range(-20, 81))  # 1.1 .. 10^4


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What all releases about one data set may spend together.

    `reserve` is the part of delta kept for composing many small releases; at 0 epsilons are added.
    `alpha` is the order of the Renyi divergence, fixed when the budget is made.

    >>> Budget(epsilon=1.0, delta=1e-6).alpha is None
    True
    >>> round(Budget(epsilon=2.0, delta=1e-6, reserve=5e-7).alpha, 1)
    13.6
    """

    epsilon: float
    delta: float
    reserve: float = 0.0
    alpha: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("budget epsilon", self.epsilon))
        object.__setattr__(self, "delta", number("budget delta", self.delta))
        object.__setattr__(self, "reserve", number("reserve", self.reserve))
        if not 0 <= self.delta < 1:
            raise ParameterError("budget delta", self.delta, "must be >= 0 and < 1")
        if self.reserve and not 0 < self.reserve < self.delta:
            raise ParameterError("reserve", self.reserve, f"must be >= 0 and < delta={self.delta}")
        if self.reserve == 0:
            object.__setattr__(self, "alpha", None)
        elif self.alpha is None:
            object.__setattr__(self, "alpha", _best_order(self.epsilon, self.reserve))
        elif not 1 < number("alpha", self.alpha) < math.inf:
            raise ParameterError("alpha", self.alpha, "must be > 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one release costs, between neighbours of which one person's value is replaced.

    >>> Charge(epsilon=0.5, delta=1e-8).epsilon
    0.5
    """

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What releases cost together: an upper bound, also if each was chosen after the last.

    >>> two = [Charge(epsilon=0.1, delta=1e-8), Charge(epsilon=0.2, delta=0.0)]
    >>> spent(two, Budget(epsilon=1.0, delta=1e-6))
    Spent(releases=2, epsilon=0.3, delta=1e-08, rule='sums')
    """

    releases: int
    epsilon: float
    delta: float
    rule: str
    """Which rule gives the epsilon: sums, or renyi (then the reserve is part of delta)."""


def charge_of(guarantee: Guarantee) -> Charge:
    """The price of a guarantee in replace-one terms.

    Replacing a person is removing one and adding another, so an add-remove guarantee counts as
    (2 epsilon, (1 + e^epsilon) delta): group privacy for two steps.

    >>> from shuffledp import Model
    >>> charge_of(Guarantee(epsilon=0.5, delta=0.0, model=Model.CENTRAL, proof="a proof",
    ...                     neighbours=Neighbours.ADD_REMOVE))
    Charge(epsilon=1.0, delta=0.0)
    """
    if guarantee.neighbours is Neighbours.REPLACE_ONE:
        return Charge(epsilon=guarantee.epsilon, delta=guarantee.delta)
    grown = guarantee.delta * (1 + math.exp(min(guarantee.epsilon, 700.0))) * _SLACK
    return Charge(epsilon=2 * guarantee.epsilon, delta=min(1.0, grown))


def spent(charges: Sequence[Charge], budget: Budget) -> Spent:
    """What these releases cost together under the rules of the budget.

    >>> many = [Charge(epsilon=0.01, delta=0.0)] * 1000
    >>> total = spent(many, Budget(epsilon=2.0, delta=1e-6, reserve=1e-6 / 2))
    >>> total.rule, total.epsilon < 1.8, total.delta
    ('renyi', True, 5e-07)
    """
    deltas = _total(charge.delta for charge in charges)
    sums = Spent(
        releases=len(charges),
        epsilon=_up(_total(charge.epsilon for charge in charges)),
        delta=_up(deltas),
        rule="sums",
    )
    divergence = _divergence(charges, budget)
    if divergence >= sums.epsilon:
        return sums
    return Spent(
        releases=len(charges),
        epsilon=divergence,
        delta=_up(deltas + _decimal(budget.reserve)),
        rule="renyi",
    )


def exceeds(charges: Sequence[Charge], budget: Budget) -> str | None:
    """Why these releases together are too many; None if they fit.

    >>> half = Charge(epsilon=0.5, delta=0.0)
    >>> exceeds([half] * 2, Budget(epsilon=1.0, delta=0.0)) is None
    True
    >>> exceeds([half] * 3, Budget(epsilon=1.0, delta=0.0))
    'epsilon would be 1.5, and the budget is 1.0'
    """
    deltas = _total(charge.delta for charge in charges) + _decimal(budget.reserve)
    if deltas > _decimal(budget.delta):
        kept = f" (of which {budget.reserve!r} is reserved)" if budget.reserve else ""
        return f"delta would be {_up(deltas)!r}{kept}, and the budget is {budget.delta!r}"
    added = _total(charge.epsilon for charge in charges)
    if added <= _decimal(budget.epsilon):
        return None
    reached = min(_up(added), _divergence(charges, budget))
    if reached <= budget.epsilon:
        return None
    return f"epsilon would be {reached!r}, and the budget is {budget.epsilon!r}"


def _divergence(charges: Sequence[Charge], budget: Budget) -> float:
    """The epsilon, at delta = reserve, of the sum of divergences."""
    if budget.alpha is None:
        return math.inf
    alpha = budget.alpha
    total = math.fsum(_renyi(charge.epsilon, alpha) for charge in charges)
    return max(0.0, total * _SLACK + _conversion(alpha, budget.reserve))


def _renyi(epsilon: float, alpha: float) -> float:
    """The divergence of order alpha of randomized response: nothing epsilon-DP has more."""
    spread = math.log1p(math.exp(-(2 * alpha - 1) * epsilon)) - math.log1p(math.exp(-epsilon))
    # The two logarithms nearly cancel for small epsilon; what rounding may have taken is given back.
    exact = epsilon + (spread + _TINY) / (alpha - 1)
    return min(epsilon, exact, alpha * epsilon * epsilon / 2 * _SLACK)


def _conversion(alpha: float, delta: float) -> float:
    added = (math.log(1 / delta) - math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)
    return added + _TINY


def _best_order(epsilon: float, delta: float) -> float:
    """The order that leaves room for the most small releases: sum epsilon_i^2 <= 2 room / alpha."""
    return max(_ORDERS, key=lambda alpha: (epsilon - _conversion(alpha, delta)) / alpha)


def _decimal(value: float) -> Fraction:
    return Fraction(repr(float(value)))


def _total(values: Iterable[float]) -> Fraction:
    return sum(map(_decimal, values), Fraction(0))


def _up(value: Fraction) -> float:
    """The float whose shortest decimals are at least `value`."""
    near = float(value)
    return near if _decimal(near) >= value else math.nextafter(near, math.inf)
