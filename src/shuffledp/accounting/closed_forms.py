"""The history of amplification by shuffling as one table of formulas.

Each function answers: n users run the same epsilon0-local randomizer and the messages are shuffled;
which epsilon holds at this delta? Each is a theorem with a condition, and raises `UnsupportedError`
outside it; nothing falls back to epsilon0. None of them is capped at epsilon0 either: where a theorem
says more than epsilon0 it amplifies nothing. Results are rounded up.

The numeric bounds of `clones` and `blanket` are several times smaller and have no conditions: quote
those. The formulas are here to compare with, and to think with. Write p = e^epsilon0, E = e^epsilon.

`BoundComparison` puts all of these bounds, and the numeric ones, side by side.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Protocol

from shuffledp.accounting.amplify import (
    Local,
    amplify,
    amplify_lower,
    find_epsilon0,
    find_flip,
    profile,
)
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import HONEST, honest_users
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics.rounding import find_smallest_safe

_UP = 1 + 1e-12  # more than the rounding errors of a dozen floating-point operations


def feldman_2021(*, epsilon0: float, n: int, delta: float) -> float:
    """Return ln(1 + (p-1)/(p+1) (8 sqrt(p ln(4/delta) / n) + 8p/n)), for epsilon0 <= ln(n / (16 ln(2/delta))).

    Reference: Feldman, McMillan, Talwar 2021, "Hiding among the clones: a simple and nearly optimal
    analysis of privacy amplification by shuffling" (arXiv:2012.12803).

    >>> round(feldman_2021(epsilon0=1.0, n=10_000, delta=1e-6), 4)
    0.214
    """
    p = _enough_users("feldman_2021", epsilon0, n, delta, inside=2.0)
    a, b = _terms(p, n, delta)
    return math.log1p(math.tanh(epsilon0 / 2) * (a + b)) * _UP


def feldman_2021_script(*, epsilon0: float, n: int, delta: float) -> float:
    """Return the closed form as the script that accompanies the 2021 paper prints it.

    ln(1 + (1 - 1/p) / (1 + e^(-epsilon0 - t)) (A + B)) with A = 8 sqrt(p ln(4/delta) / n), B = 8p/n and
    t = ln(1 + A + B), for epsilon0 <= ln(n / (16 ln(4/delta))). Since t > 0 it is always larger than
    `feldman_2021`, so it is a guarantee too; published tables use either of the two.

    >>> round(feldman_2021_script(epsilon0=1.0, n=10_000, delta=1e-6), 4)
    0.2333
    """
    p = _enough_users("feldman_2021_script", epsilon0, n, delta, inside=4.0)
    a, b = _terms(p, n, delta)
    factor = -math.expm1(-epsilon0) / (1 + 1 / (p * (1 + a + b)))
    return math.log1p(factor * (a + b)) * _UP


def doona(*, epsilon0: float, n: int, delta: float) -> float:
    """Return ln(1 + 16 (p-1)/(p+1) sqrt(p ln(4/delta) / n)): `feldman_2021` with its second term absorbed.

    Under the condition of `feldman_2021`, p/n <= 1/(16 ln 2) < ln(4/delta), so that 8p/n is at most
    8 sqrt(p ln(4/delta) / n), and 16 replaces both: a guarantee, nearly twice the theorem's value.
    Reference: Canonne 2022, "Privacy doona: why we should hide among the clones", display (1).

    >>> round(doona(epsilon0=1.0, n=10_000, delta=1e-6), 4)
    0.3889
    """
    p = _enough_users("doona", epsilon0, n, delta, inside=2.0)
    a, _ = _terms(p, n, delta)
    return math.log1p(2 * math.tanh(epsilon0 / 2) * a) * _UP


def doona_small(*, epsilon0: float, n: int, delta: float) -> float:
    """Return 8 epsilon0 sqrt(ln(4/delta) / n): what `doona` tends to for small epsilon0. Not a guarantee.

    Reference: Canonne 2022, the display between (1) and (2). We ask for epsilon0 <= 1.

    >>> round(doona_small(epsilon0=0.1, n=10_000, delta=1e-6), 4)
    0.0312
    """
    _enough_users("doona_small", epsilon0, n, delta, inside=2.0)
    _need("doona_small", epsilon0 <= 1, f"epsilon0 <= 1, got {epsilon0}")
    return 8 * epsilon0 * math.sqrt(math.log(4 / delta) / n)


def doona_large(*, epsilon0: float, n: int, delta: float) -> float:
    """Return ln(1 + 8 sqrt(p ln(4/delta) / n)): the leading term for large epsilon0. Not a guarantee.

    It drops the factor (p-1)/(p+1) and the term 8p/n of `feldman_2021`, so it may be above or below
    it. Reference: Canonne 2022, display (2). We ask for epsilon0 >= 1.

    >>> round(doona_large(epsilon0=4.0, n=1_000_000, delta=1e-6), 4)
    0.2074
    """
    a = _large_regime("doona_large", epsilon0, n, delta)
    return math.log1p(a)


def doona_large_simple(*, epsilon0: float, n: int, delta: float) -> float:
    """Return 8 e^(epsilon0/2) sqrt(ln(4/delta) / n): `doona_large` without its logarithm. Not a guarantee.

    Reference: Canonne 2022, display (3). We ask for epsilon0 >= 1.

    >>> round(doona_large_simple(epsilon0=4.0, n=1_000_000, delta=1e-6), 4)
    0.2305
    """
    return _large_regime("doona_large_simple", epsilon0, n, delta)


def erlingsson_2019(*, epsilon0: float, n: int, delta: float) -> float:
    """Return 12 epsilon0 sqrt(ln(1/delta) / n), for n >= 1000, epsilon0 < 1/2 and delta < 1/100.

    The first general amplification theorem. Reference: Erlingsson, Feldman, Mironov, Raghunathan,
    Talwar, Thakurta 2019, "Amplification by shuffling: from local to central differential privacy via
    anonymity" (arXiv:1811.12469).

    >>> round(erlingsson_2019(epsilon0=0.25, n=10_000, delta=1e-6), 4)
    0.1115
    """
    _validate(epsilon0, n, delta)
    name = "erlingsson_2019"
    _need(name, n >= 1000, f"n >= 1000, got {n}")
    _need(name, epsilon0 < 0.5, f"epsilon0 < 1/2, got {epsilon0}")
    _need(name, delta < 0.01, f"delta < 1/100, got {delta}")
    return 12 * epsilon0 * math.sqrt(-math.log(delta) / n) * _UP


def cheu_2019(*, epsilon0: float, n: int, delta: float) -> float:
    """Bound binary randomized response that sends a fair coin with probability lambda/n = 2/(p+1).

    With L = ln(4/delta): sqrt(64 L / lambda) if lambda <= n/3, else (1 - lambda/n) sqrt(432 L / n); the
    two agree at lambda = n/3. It needs n >= 14 L and a result of at most 1.
    Reference: Cheu, Smith, Ullman, Zeber, Zhilyaev 2019, "Distributed differential privacy via
    shuffling" (arXiv:1808.01394); there lambda is chosen for a given epsilon, here it is inverted.

    >>> round(cheu_2019(epsilon0=1.0, n=10_000, delta=1e-6), 4)
    0.3745
    """
    _validate(epsilon0, n, delta)
    L = math.log(4 / delta)
    _need("cheu_2019", n >= 14 * L, f"n >= 14 ln(4/delta) = {14 * L:.4g}, got {n}")
    blanket = 2 * math.exp(-epsilon0) / (1 + math.exp(-epsilon0))  # lambda / n = 2/(p+1)
    if blanket <= 1 / 3:
        epsilon = math.sqrt(64 * L / (blanket * n))
    else:
        epsilon = math.tanh(epsilon0 / 2) * math.sqrt(432 * L / n)
    _need("cheu_2019", epsilon * _UP <= 1, f"a result of at most 1, got {epsilon:.4g}")
    return epsilon * _UP


def balle_2019_hoeffding(*, epsilon0: float, n: int, delta: float) -> float:
    """Return the privacy blanket of any epsilon0-local randomizer, by Hoeffding's inequality.

    Let w = min over x of R_x, gamma = sum w >= 1/p, and W = gamma (a - E b)/w for a message from the
    blanket w/gamma. With M ~ Bin(n, gamma) such messages the divergence is at most
    E[(W_1 + ... + W_M)_+] / (gamma n). W has mean 1 - E =: -c, and since a/w and b/w lie in [1, p] and
    gamma <= 1, W lies in [1 - pE, p - E], which is B = (p - 1)(E + 1) wide. Integrate Hoeffding's
    Pr[sum W >= t] <= exp(-2 (Mc + t)^2 / (M B^2)), with (Mc + t)^2 / M >= M c^2 + 2ct, over t > 0:

        delta <= B^2 / (4 c gamma n) (1 - gamma + gamma e^(-2 c^2 / B^2))^n.

    This falls with gamma at fixed B, so gamma = 1/p is the worst case. The result is at most epsilon0:
    there delta is 0. Reference: Balle, Bell, Gascon, Nissim 2019, "The privacy blanket of the shuffle
    model" (arXiv:1903.02837). Deviation: the authors' script uses the width (p - 1/p)(E + 1).

    >>> round(balle_2019_hoeffding(epsilon0=1.0, n=10_000, delta=1e-6), 4)
    0.1195
    """
    return _search("balle_2019_hoeffding", _log_hoeffding, epsilon0, n, delta)


def balle_2019_bennett(*, epsilon0: float, n: int, delta: float) -> float:
    """Return the same blanket by Bennett's inequality, which uses the second moment V of W.

    In the notation of `balle_2019_hoeffding`, W <= T = p - E. With phi(u) = (1+u) ln(1+u) - u and
    u = c T / V, Bennett's inequality and phi's tangent at u, integrated over t > 0, give

        delta <= T / (gamma n ln(1+u)) (1 - gamma + gamma e^(-V phi(u) / T^2))^n.

    It grows with V, so bounds of V will do, and we take the smaller of two. Bhatia and Davis:
    a variable on [m, T] of mean -c has variance at most (T + c)(-c - m), hence V <= E (p-1)^2 + (E-1)^2.
    Convexity: a^2/w <= (p+1) a - p w, the same for b, and ab/w >= a + b - w, hence
    V <= gamma s - gamma^2 r with s = (1 + E^2)(p + 1) - 4E and r = (1 + E^2) p - 2E: at most s^2 / (4r).
    Reference and the choice of gamma as there.

    >>> round(balle_2019_bennett(epsilon0=1.0, n=10_000, delta=1e-6), 4)
    0.0636
    """
    return _search("balle_2019_bennett", _log_bennett, epsilon0, n, delta)


_LogDelta = Callable[[float, float, int], float]
"""From epsilon0, epsilon < epsilon0 and n to ln of a bound of delta."""


def _search(name: str, log_delta: _LogDelta, epsilon0: float, n: int, delta: float) -> float:
    _validate(epsilon0, n, delta)
    _need(name, epsilon0 <= 200, f"epsilon0 <= 200, got {epsilon0}")  # e^(3 epsilon0) is a float
    return find_smallest_safe(
        lambda epsilon: log_delta(epsilon0, epsilon, n) - math.log(delta),
        safe=epsilon0,
        guess=min(epsilon0 / 2, math.expm1(epsilon0) * math.sqrt(math.log(1 / delta) / n)),
        floor=epsilon0 * 1e-12,
    )


def _log_hoeffding(epsilon0: float, epsilon: float, n: int) -> float:
    p, c = math.exp(epsilon0), math.expm1(epsilon)
    width = math.expm1(epsilon0) * (c + 2)
    front = math.log(width / (4 * c / width) * p / n)
    return front + _log_power(math.expm1(-2 * (c / width) ** 2) / p, n)


def _log_bennett(epsilon0: float, epsilon: float, n: int) -> float:
    p, c = math.exp(epsilon0), math.expm1(epsilon)
    top = -p * math.expm1(epsilon - epsilon0)  # p - E
    moment = _second_moment(math.expm1(epsilon0), c) * _UP
    u = c * top / moment
    front = math.log(top * p / (n * math.log1p(u)))
    return front + _log_power(math.expm1(-moment / top**2 * _phi(u)) / p, n)


def _second_moment(excess: float, c: float) -> float:
    """Return the smaller bound of V, with excess = p - 1 and c = E - 1, written without cancellation."""
    squares = 1 + (1 + c) ** 2
    s, r = squares * excess + 2 * c * c, squares * excess + c * c
    return min((1 + c) * excess**2 + c * c, s * s / (4 * r))


def _phi(u: float) -> float:
    """Return (1 + u) ln(1 + u) - u, rounded down."""
    if u < 1e-3:  # its alternating series, which the closed form loses to cancellation
        return u * u / 2 * (1 - u / 3) * (1 - 1e-12)
    return ((1 + u) * math.log1p(u) - u) * (1 - 1e-9)


def _log_power(x: float, n: int) -> float:
    """Return n ln(1 + x) for -1 < x <= 0, rounded up."""
    return n * math.log1p(x) * (1 - 1e-12) + 1e-12


def _terms(p: float, n: int, delta: float) -> tuple[float, float]:
    return 8 * math.sqrt(p * math.log(4 / delta) / n), 8 * p / n


def _large_regime(name: str, epsilon0: float, n: int, delta: float) -> float:
    p = _enough_users(name, epsilon0, n, delta, inside=2.0)
    _need(name, epsilon0 >= 1, f"epsilon0 >= 1, got {epsilon0}")
    return _terms(p, n, delta)[0]


def _enough_users(name: str, epsilon0: float, n: int, delta: float, inside: float) -> float:
    """Return e^epsilon0, if epsilon0 <= ln(n / (16 ln(inside / delta)))."""
    _validate(epsilon0, n, delta)
    largest = math.log(n / (16 * math.log(inside / delta)))
    condition = f"epsilon0 <= ln(n / (16 ln({inside:g}/delta))) = {largest:.6g}, got {epsilon0}"
    _need(name, epsilon0 <= largest, condition)
    return math.exp(epsilon0)


def _need(name: str, holds: bool, condition: str) -> None:
    if not holds:
        raise UnsupportedError(f"{name} needs {condition}")


def _validate(epsilon0: float, n: int, delta: float) -> None:
    positive("epsilon0", epsilon0)
    whole("n", n, at_least=1)
    fraction_of_one("delta", delta)


class Covers(Enum):
    """Whom a closed form protects."""

    ANY = "any epsilon0-local randomizer"
    BINARY_RR = "binary randomized response only"
    APPROXIMATION = "nobody: an approximation that is not a guarantee"


class Formula(Protocol):
    """The type of every closed form."""

    def __call__(self, *, epsilon0: float, n: int, delta: float) -> float:
        """Return an epsilon, or `UnsupportedError` outside the theorem's condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """One row of the table.

    >>> [form.name for form in CLOSED_FORMS if form.covers is Covers.BINARY_RR]
    ['cheu_2019']
    """

    name: str
    reference: str
    epsilon: Formula
    covers: Covers


_FMT = "Feldman, McMillan, Talwar 2021"
_DOONA = "Canonne 2022"
_BALLE = "Balle, Bell, Gascon, Nissim 2019"
_ERLINGSSON = "Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta 2019"
_CHEU = "Cheu, Smith, Ullman, Zeber, Zhilyaev 2019"

CLOSED_FORMS: tuple[ClosedForm, ...] = tuple(
    ClosedForm(name=epsilon.__name__, reference=reference, epsilon=epsilon, covers=covers)
    for epsilon, reference, covers in (
        (cheu_2019, _CHEU, Covers.BINARY_RR),
        (erlingsson_2019, _ERLINGSSON, Covers.ANY),
        (balle_2019_hoeffding, _BALLE, Covers.ANY),
        (balle_2019_bennett, _BALLE, Covers.ANY),
        (feldman_2021, _FMT, Covers.ANY),
        (feldman_2021_script, f"{_FMT}, script", Covers.ANY),
        (doona, f"{_DOONA} (1)", Covers.ANY),
        (doona_small, _DOONA, Covers.APPROXIMATION),
        (doona_large, f"{_DOONA} (2)", Covers.APPROXIMATION),
        (doona_large_simple, f"{_DOONA} (3)", Covers.APPROXIMATION),
    )
)


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
    """All bounds on one shuffled message from each of n people, with the arguments of `profile`.

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
        """Compare closed forms in the order of their years, numeric bounds, and the lower bound."""
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
            points = ((self._evaluate(form, delta).epsilon, delta) for delta in deltas)
            curves[form.name] = [point for point in points if point[0] is not None]
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
