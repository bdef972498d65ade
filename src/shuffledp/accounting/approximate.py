r"""Approximate local randomizers: each message is (epsilon0, delta0)-local, and n of them are shuffled.

Write p = e^epsilon0, E = e^epsilon, eta = 2 delta0 / p and growth = (1 + 2 eta)^(n - 1) - 1. For every
(epsilon0, delta0)-local randomizer that all n people run,

    delta(epsilon) <= delta0 + (1 - delta0) [ (1 + growth) D(E) + (E - 1) growth / 2 ],

where D is the divergence of the stronger clones with clone probability 2/(p + 1) (1 - delta0) / (1 + 2 eta). To
first order in delta0 that is the pure bound plus delta0 (1 + 2 n (E - 1) / p + ...): the factor E - 1, about
epsilon, is what a comparison by total variation, which pays E + 1, gives away. The proof is in
docs/theory/approximate.md.

Three things are free. The messages of some people may be revealed, so the bound for any smaller n holds, too. The
true delta is convex in E and at most delta0 from E = p on, so chords to that point hold. And for n = 1 there is nothing to
grow: the local guarantee itself.

A chord from epsilon = s to that point is delta0 + (1 - E/p) h(s), where h(s) = (delta(s) - delta0) / (1 - e^s/p) does
not depend on E: the best one starts where h is least, for every epsilon from there on. For a fixed number of people the
theorem is convex in E, so h falls and then rises, and min over s <= epsilon of h(s) is found by a search. Both factors
fall with epsilon, and so does the bound.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from shuffledp.accounting.base import find_epsilon, guess_epsilon
from shuffledp.accounting.clones import Clones
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import number, positive, whole
from shuffledp.numerics.rounding import UNIT

__all__ = ["ApproximateClones", "check_delta0"]

_SLACK = 1 + 64 * UNIT  # for a handful of operations, an exponential among them
_GOLDEN = (math.sqrt(5) - 1) / 2
_NEAR = 1e-3  # relatively: does h fall here?
_STEPS = 36  # of the search for the best chord: it is found to 3e-8 epsilon0
_LARGEST_EXPONENT = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateClones:
    """The privacy curve of n shuffled messages from any (epsilon0, delta0)-local randomizer.

    >>> curve = ApproximateClones(epsilon0=1.0, delta0=1e-10, n=10_000)
    >>> round(curve.epsilon(1e-6), 4)  # 0.0432 with delta0 = 0
    0.0433
    """

    epsilon0: float
    delta0: float
    n: int

    def __post_init__(self) -> None:
        positive("epsilon0", self.epsilon0)
        check_delta0(self.delta0)
        whole("n", self.n, at_least=1)

    def delta(self, epsilon: float) -> float:
        """At least the true delta at epsilon."""
        if epsilon >= self.epsilon0:
            return self.delta0
        beyond = -math.expm1(epsilon - self.epsilon0)
        # Half as many people as long as that is better.
        people, best = self.n, self._slope(self.n, epsilon)
        while people > 1:
            people //= 2
            fewer = self._slope(people, epsilon)
            if fewer >= best and beyond * best < 1:
                break
            best = min(best, fewer)
        return min(1.0, (self.delta0 + beyond * best) * _SLACK)

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at delta; no epsilon is enough if delta < delta0."""
        if delta < self.delta0:
            raise UnsupportedError(
                f"delta={delta!r} is below delta0={self.delta0!r}: with that probability a message alone may say all"
            )
        rho = 2 / (math.exp(self.epsilon0) + 1)
        mu = 2 * math.tanh(self.epsilon0 / 2) / math.sqrt(max(self.n * rho, 1.0))
        guess = min(guess_epsilon(mu, delta), self.epsilon0)
        return find_epsilon(self.delta, delta, epsilon0=self.epsilon0, guess=guess)

    def _slope(self, people: int, epsilon: float) -> float:
        """The least h(s), s <= epsilon, of the theorem for these people."""
        here = self._h(people, epsilon)
        if not self.delta0 or self._h(people, epsilon * (1 - _NEAR)) >= here:
            return here  # it still falls: a pure curve does so all the way
        turn, least = _find_turn(self, people)
        return min(here, least) if turn <= epsilon else here

    def _h(self, people: int, start: float) -> float:
        rise = self._of(people, start) - self.delta0
        return rise / -math.expm1(start - self.epsilon0) * _SLACK

    def _of(self, people: int, epsilon: float) -> float:
        eta = 2 * self.delta0 * math.exp(-self.epsilon0) * _SLACK
        exponent = (people - 1) * math.log1p(2 * eta) * _SLACK
        if exponent > _LARGEST_EXPONENT:
            return math.inf
        # An exponent of 600 costs 600 units.
        growth = math.expm1(exponent) * (1 + 1024 * UNIT)
        rho = 2 / (math.exp(self.epsilon0) + 1) * (1 - self.delta0) / (1 + 2 * eta) / _SLACK
        clones = Clones(epsilon0=self.epsilon0, n=people, rho=rho)
        shuffled = (1 + growth) * clones.delta(epsilon) + math.expm1(epsilon) * growth / 2
        return (self.delta0 + (1 - self.delta0) * shuffled) * _SLACK


@lru_cache(maxsize=256)
def _find_turn(curve: ApproximateClones, people: int) -> tuple[float, float]:
    """The minimum of h and where it is, by golden-section search."""
    low, high = 0.0, curve.epsilon0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = curve._h(people, left), curve._h(people, right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = curve._h(people, left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = curve._h(people, right)
    return (left, at_left) if at_left <= at_right else (right, at_right)


def check_delta0(delta0: float) -> float:
    """`ParameterError` unless 0 <= delta0 < 1.

    >>> check_delta0(1e-9)
    1e-09
    """
    value = number("delta0", delta0)
    if not 0 <= value < 1:
        raise ParameterError("delta0", delta0, "must be >= 0 and < 1")
    return value
