"""The exact audit: what an attacker learns from a view, with nothing assumed and nothing left out.

Three views of a finite randomizer R:

- local: the messages of one user, in order;
- preshuffled: the messages of one user, as a multiset;
- shuffled: the messages of n users, as a multiset.

`exact` is the smallest delta for which the view is (epsilon, delta)-DP under replace-one neighbours:

    max over x, x', z_2 .. z_n of   sum_o max(0, Pr[view(x, z) = o] - e^epsilon Pr[view(x', z) = o]),

over all inputs x, x' and *all* inputs z of the others. Small questions are answered in integers, larger
ones in floating point with both ends (`bounds`), and those beyond are refused with their cost.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_FLOOR, Context
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.exact import local_delta, local_ratio
from shuffledp.audit.multisets import ExactViews
from shuffledp.audit.search import Bounds, Sweep
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.notebook import list_facts, say, stack
from shuffledp.core.privacy import round_up
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Law, Randomizer, check_randomizer
from shuffledp.core.validate import number, whole
from shuffledp.numerics.rounding import exp_bounds, float_above, float_below, log_upper

Audited: TypeAlias = Randomizer | ShuffleProtocol

_VIEWS = ("local", "preshuffled", "shuffled")
_QUICK = 1_000_000  # elementary steps that integers do in about a second
_MOST_INPUTS = 2048
_MOST_MESSAGES = 400  # of a person: two noises and a flood have the cube of that many entries
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
_LARGEST_EPSILON = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactAudit:
    """The exact delta of a view at epsilon, rounded up by at most a part in 10^9 (or by 10^-12).

    >>> print(ExactAudit(delta=0.0123456, lower=0.0123455, epsilon=0.5, view="shuffled", n=100))
    delta = 0.01235 at epsilon = 0.5: exact, the worst pair of neighbouring data sets of 100 users, shuffled
    """

    delta: float
    """At least the true delta."""
    lower: float
    """At most the true delta."""
    epsilon: float
    view: str
    n: int
    """How many users; 1 in the local and preshuffled view."""

    def confirms(self, delta: float) -> bool:
        """Return whether the view is (epsilon, delta)-DP for certain.

        >>> from shuffledp import audit, protocols
        >>> found = audit.exact(protocols.krr.KRR(k=3, epsilon0=1.0), n=10, epsilon=0.5)
        >>> found.confirms(0.1), found.refutes(0.1), found.refutes(0.001)
        (True, False, True)
        """
        return self.delta <= delta

    def refutes(self, delta: float) -> bool:
        """Return whether the view is not (epsilon, delta)-DP, for certain."""
        return self.lower > delta

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings: what `shuffledp audit --json` prints."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        facts = [
            ("epsilon", f"{self.epsilon:g}"),
            ("delta, at most", round_up(self.delta, 10)),
            ("delta, at least", _round_down(self.lower)),
            ("view", f"{self.view}, {self.n:,} people"),
        ]
        return stack(
            say("exact audit: the worst neighbouring data sets", bold=True), list_facts(facts)
        )

    def __str__(self) -> str:
        users = f"{self.n:,} users" if self.n > 1 else "one user"
        return (
            f"delta = {round_up(self.delta, 4)} at epsilon = {self.epsilon:g}: exact, the worst pair of "
            f"neighbouring data sets of {users}, {self.view}"
        )


def _round_down(value: float) -> str:
    return str(Context(prec=10, rounding=ROUND_FLOOR).create_decimal_from_float(value))


def exact(
    randomizer: Audited, *, epsilon: float, n: int | None = None, view: str = "shuffled"
) -> ExactAudit:
    """Return the exact delta of a view at epsilon: no theorem, no assumption, no sampling.

    n, the number of users, is for the shuffled view alone. The question is refused
    (`UnsupportedError`) if the answer would take too long, or cannot be had to a part in 10^9.
    Two users of binary randomized response with e^epsilon0 = 3, and the mirrored pair (x, 1 - x):

    >>> import math
    >>> from shuffledp import audit
    >>> noisy = audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> round(audit.exact(noisy, n=2, epsilon=math.log(2)).delta, 12)
    0.1875
    >>> mirrored = audit.channel({0: {(0, 1): 1}, 1: {(1, 0): 1}})
    >>> audit.exact(mirrored, n=10, epsilon=0.0).delta, audit.exact(mirrored, epsilon=5.0, view="local").delta
    (0.0, 1.0)
    """
    question = _Question(randomizer, n, view)
    asked = _check_epsilon(epsilon)
    (found,) = question.bounds([asked])
    if found.upper - found.lower <= max(_RELATIVE * found.upper, _ABSOLUTE):
        return ExactAudit(
            delta=found.upper, lower=found.lower, epsilon=asked, view=view, n=question.n
        )
    raise UnsupportedError(
        f"floating point knows this delta only between {found.lower!r} and {found.upper!r}: "
        "use audit.bounds, or audit.fraction for fewer users"
    )


def bounds(
    randomizer: Audited, *, epsilon: float, n: int | None = None, view: str = "shuffled"
) -> Bounds:
    """Two ends between which the exact delta lies.

    >>> from shuffledp import audit, protocols
    >>> ends = audit.bounds(protocols.krr.KRR(k=2, epsilon0=1.0), n=100, epsilon=0.2)
    >>> ends.lower <= ends.upper < ends.lower + 1e-12
    True
    """
    return _Question(randomizer, n, view).bounds([_check_epsilon(epsilon)])[0]


def profile(
    randomizer: Audited, epsilons: ArrayLike, *, n: int | None = None, view: str = "shuffled"
) -> Floats:
    """Return the exact delta at each of several epsilons: the hockey-stick curve, rounded up.

    >>> from shuffledp import audit
    >>> noisy = audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> audit.profile(noisy, [0.0, 0.5, 2.0], n=3).round(4)
    array([0.3125, 0.19  , 0.    ])
    """
    asked = [_check_epsilon(value) for value in np.atleast_1d(np.asarray(epsilons)).tolist()]
    found = _Question(randomizer, n, view).bounds(asked)
    return np.array([each.upper for each in found])


def fraction(
    randomizer: Audited, *, ratio: Fraction | int, n: int | None = None, view: str = "shuffled"
) -> Fraction:
    """Return the exact delta as a fraction, at e^epsilon = ratio.

    >>> from shuffledp import audit
    >>> noisy = audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> audit.fraction(noisy, n=2, ratio=2)
    Fraction(3, 16)
    """
    if isinstance(ratio, float) or ratio < 1:
        raise ParameterError("ratio", ratio, "must be a fraction >= 1, e^epsilon exactly")
    return _Question(randomizer, n, view).fraction(Fraction(ratio))


def pure_ratio(
    randomizer: Audited, *, n: int | None = None, view: str = "shuffled"
) -> Fraction | float:
    """Return the largest likelihood ratio of a view, exactly; `math.inf` if a view rules an input out.

    Where everybody sends one message it is that of the randomizer itself, whatever n is (the view
    "all messages are y" has the ratio of y); this is how those are answered for any n.

    >>> from shuffledp import audit
    >>> audit.pure_ratio(audit.separations.gap_randomizer(), n=3)
    Fraction(125, 64)
    """
    return _Question(randomizer, n, view).ratio()


def pure_epsilon(randomizer: Audited, *, n: int | None = None, view: str = "shuffled") -> float:
    """Return the exact epsilon with delta = 0: ln of `pure_ratio`, rounded up; `math.inf` if there is none.

    >>> from shuffledp import audit
    >>> gap = audit.separations.gap_randomizer()
    >>> [audit.pure_epsilon(gap, n=n) for n in (1, 2, 3)]
    [inf, 0.9162907318741551, 0.6694306539426294]
    """
    return log_upper(pure_ratio(randomizer, n=n, view=view))


def read_laws(randomizer: Audited) -> list[Law]:
    """Return the declared law of each input.

    >>> from shuffledp import protocols
    >>> len(read_laws(protocols.krr.make_local(k=3, epsilon=1.0)))
    3
    """
    one = randomizer.randomizer if isinstance(randomizer, ShuffleProtocol) else randomizer
    one = check_randomizer("randomizer", one, "must be a randomizer, a channel or a protocol")
    if one.domain.size > _MOST_INPUTS:
        raise UnsupportedError(
            f"an exact audit of {one.domain.size:,} inputs compares {one.domain.size**2:.1e} pairs: "
            f"more than {_MOST_INPUTS:,} inputs are refused"
        )
    if isinstance(randomizer, ShuffleProtocol) and randomizer.cost.messages_max > _MOST_MESSAGES:
        raise UnsupportedError(
            f"a person may send up to {randomizer.cost.messages_max:,} messages by {randomizer.name}, and an exact "
            f"audit lists all that may be sent: more than {_MOST_MESSAGES} messages are refused. Sample instead"
        )
    return [one.pmf(x) for x in range(one.domain.size)]


class _Question:
    """One randomizer in one view."""

    def __init__(self, randomizer: Audited, n: int | None, view: str) -> None:
        if view not in _VIEWS:
            raise ParameterError("view", view, f"must be one of {', '.join(_VIEWS)}")
        if view == "shuffled" and n is None:
            raise ParameterError("n", n, "must be given: the shuffled view is that of n users")
        users = 1 if n is None else whole("n", n, at_least=1)
        self.laws = read_laws(randomizer)
        self.local = view == "local"
        self.n = users if view == "shuffled" else 1

    def bounds(self, epsilons: Sequence[float]) -> list[Bounds]:
        """e^epsilon is not a fraction: take one on each side of it, and the answers for both."""
        ends = [exp_bounds(epsilon) for epsilon in epsilons]
        if self.local:
            found = [
                (local_delta(self.laws, low), local_delta(self.laws, high)) for low, high in ends
            ]
            return [_round_outwards(*each) for each in found]
        views = ExactViews(self.laws, self.n)
        if views.cost * len(epsilons) > _QUICK:
            sweep = Sweep(views.lattice)
            return [sweep.bounds(low, high) for low, high in ends]
        deltas = views.deltas([end for both in ends for end in both])
        return [_round_outwards(*each) for each in zip(deltas[::2], deltas[1::2], strict=True)]

    def fraction(self, ratio: Fraction) -> Fraction:
        if self.local:
            return local_delta(self.laws, ratio)
        return ExactViews(self.laws, self.n).delta(ratio)

    def ratio(self) -> Fraction | float:
        single = all(len(sent) == 1 for law in self.laws for sent in law)
        if self.local or single:
            return local_ratio(self.laws)
        return ExactViews(self.laws, self.n).ratio()


def _check_epsilon(value: object) -> float:
    epsilon = number("epsilon", value)
    if not 0 <= epsilon <= _LARGEST_EPSILON:
        raise ParameterError("epsilon", value, f"must be >= 0 and <= {_LARGEST_EPSILON:,}")
    return epsilon


def _round_outwards(upper: Fraction, lower: Fraction) -> Bounds:
    """Floats on the outer side of two fractions."""
    return Bounds(lower=float_below(lower), upper=float_above(upper))
