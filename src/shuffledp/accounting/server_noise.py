r"""Privacy of reports among messages that a server adds, whose numbers are discrete Laplace, cut at L.

One person's message moves from one bin to another. Each bin has a number of dummies of its own
(`numerics.tabulated`), so one number goes up by one and another one down: two *moves*. In a count the two numbers
have a fixed total: one move. A move changes probabilities by a factor of at most e^a, but for the end of mass f that
nothing else reaches. With C moves, each up by r_u = e^a with mass u, down by r_d = e^-a with mass d, and out of reach
with mass f,

    D_R = 1 - (1 - f)^C + sum_j binom(C, j) u^j d^(C - j) (1 - R / (r_u^j r_d^(C - j)))_+

is the divergence at R = e^epsilon, exactly (r_u, r_d are the largest ratios of the table that is sampled). At
epsilon = C a only the first part is left. It holds whatever everybody else does: nobody else's honesty is counted on.

**With a floor**: the message is k-ary randomized response, p for the truth and q for each other category. Tell the
attacker whether it is one of the two categories that differ, which happens with probability p + q under both. Then

    delta(epsilon) = (p - E q) D_R,   E = e^epsilon,   R = (E p - q) / (p - E q)   (0 if p <= E q).

**Hashed**: a message is a random function of a pairwise independent family and a value, and supports the share q of
all categories; the server adds M messages that are uniform. Replace x by x'. Messages that support both or neither
have the same law under both; tell the attacker whether the person's is one of them. If not, it supports x alone or x'
alone, and of the M others each does either with probability q (1 - q), and says nothing if it does neither: one
message moves between two bins with T ~ Bin(M, 2 q (1 - q)) others, each in either bin with probability 1/2
(`accounting.moved_message`). With a floor the message is uniform with some probability: p and q above are then the
probabilities, up to a common factor of at most 1, that it supports x alone under x and under x'.

**Several questions** are several messages: their curves are composed. If all have the same law and no floor, that is
the formula above with all their moves. **One random question** has the largest of the curves."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.accounting.base import Batch, find_level, invert
from shuffledp.accounting.compose import compose_delta
from shuffledp.accounting.moved_message import BinomialTotal, TwoBins, poisson_level
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import round_up
from shuffledp.core.validate import fraction_of_one, non_negative, positive, whole
from shuffledp.numerics.rounding import (
    UNIT,
    exp_lower,
    exp_upper,
    float_above,
    float_below,
    log_lower,
    log_upper,
)
from shuffledp.numerics.tabulated import MOST_STEPS, CutLaplace

_BITS = 320  # of fractions that are rounded up
_EDGES = 0.1  # of delta, for the ends, where the rest is for the sum of losses
_CLOSE = 5e-3
_FEW = 8  # moves
_BELOW = 1 - 1e-12  # so that what is rounded up again is not too much
_LARGEST = 30.0  # epsilons beyond are as good as this one
_MOST_SCATTERED = 10**9  # messages
_FINE = 1e-4  # of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What one report changes in the tally of a question.

    >>> Moved(moves=2).floor, round(Moved(moves=2, p=Fraction(3, 4), q=Fraction(1, 12)).floor, 4)
    (inf, 2.1972)
    """

    moves: int
    """Numbers that change by one: 2, or 1 in a count."""
    p: Fraction = Fraction(1)
    """p and q of k-ary randomized response; 1 and 0: there is no floor."""
    q: Fraction = Fraction(0)
    weight: float = 1.0
    """The weight of the question among several."""
    support: Fraction | None = None
    """The share of all messages that support a category, if they are hashed."""

    def __post_init__(self) -> None:
        whole("moves", self.moves, at_least=1, at_most=2)
        positive("weight", self.weight)
        if self.support is not None and not (self.moves == 2 and 0 < self.support < 1):
            raise ParameterError("support", self.support, "must be > 0 and < 1, of two moves")
        if not 0 <= self.q < self.p <= 1:
            raise ParameterError("q", self.q, "must be >= 0 and below p <= 1")

    @property
    def floor(self) -> float:
        """What is left without a shuffler, rounded up."""
        return log_upper(self.p / self.q) if self.q else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class AmongDummies:
    """The privacy curve of `moves` moves among numbers of dummies of one law: a `Profile`.

    >>> bins = AmongDummies(noise=CutLaplace(rate=0.5, most=36), moves=2)
    >>> f"{bins.delta(1.0):.3e}", round(bins.delta(0.5), 4)
    ('7.460e-09', 0.1525)
    """

    noise: CutLaplace
    moves: int
    p: Fraction = Fraction(1)
    q: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.q and self.moves > 2:
            raise ParameterError("moves", self.moves, "must be 1 or 2 with a floor")

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above."""
        growth = exp_lower(min(non_negative("epsilon", epsilon), _LARGEST))
        left = self.p - growth * self.q
        if left <= 0:
            return 0.0
        divergence = self.diverge((growth * self.p - self.q) / left)
        return min(1.0, float_above(left * divergence))

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above; raise `UnsupportedError` if there is none."""
        if self.delta(self.pure) <= delta:
            return min(self.pure, invert(self.delta, delta))
        return invert(self.delta, delta)

    @property
    def pure(self) -> float:
        """The epsilon from which on only the ends are left, rounded up."""
        losses = Fraction(self.noise.rate) * self.moves
        if not self.q:
            return float_above(losses)
        ratio = exp_upper(min(losses, Fraction(_LARGEST)))
        return log_upper((ratio * self.p + self.q) / (self.p + ratio * self.q))

    def diverge(self, ratio: Fraction) -> Fraction:
        """Bound D_R from above, for R = ratio >= 1."""
        up, down, ends, above, below = _split_law(self.noise)
        moves = self.moves
        total = 1 - (1 - ends) ** moves if moves <= 2 else min(Fraction(1), moves * ends)
        for j in range(moves, -1, -1):
            reach = _power(above, j) * _power(below, moves - j)
            if reach <= ratio:
                break
            mass = math.comb(moves, j) * _power(up, j) * _power(down, moves - j)
            total += _above(mass * (1 - ratio / reach))
        return min(Fraction(1), total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattered:
    """A number of uniform messages of a hash family, each of which supports a category with probability `support`.

    >>> float(Scattered(messages=64_000, support=Fraction(1, 1024)).variance)
    62.43896484375
    """

    messages: int
    support: Fraction

    def __post_init__(self) -> None:
        whole("messages", self.messages, at_least=1)
        if not 0 < self.support < 1:
            raise ParameterError("support", self.support, "must be > 0 and < 1")

    @property
    def variance(self) -> Fraction:
        """The variance of how many messages support a category."""
        return self.messages * self.support * (1 - self.support)

    @property
    def moved(self) -> TwoBins:
        """The privacy curve of a message that supports one category in place of another."""
        pair = 2 * self.support * (1 - self.support)
        return TwoBins(total=BinomialTotal(n=self.messages, p=pair))


@dataclass(frozen=True, slots=True, kw_only=True)
class AmongScattered(Batch):
    """The privacy curve of a hashed message with a floor, among uniform ones: a `Profile`.

    >>> among = AmongScattered(noise=Scattered(messages=9, support=Fraction(1, 2)), p=Fraction(3, 4), q=Fraction(1, 4))
    >>> round(among.delta(0.5), 4), among.delta(1.1)
    (0.0407, 0.0)
    """

    noise: Scattered
    p: Fraction
    q: Fraction

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above."""
        left, loss = self._shift(epsilon)
        return min(1.0, float_above(left * Fraction(self.noise.moved.delta(loss)))) if left else 0.0

    def deltas(self, epsilons: Floats) -> Floats:
        """Bound the true delta at each of these from above, faster than one by one."""
        shifted = [self._shift(float(epsilon)) for epsilon in epsilons]
        moved = self.noise.moved.deltas(np.array([loss for _, loss in shifted]))
        lefts = np.array([float_above(left) for left, _ in shifted])
        return np.minimum(1.0, lefts * moved * (1 + 4 * UNIT))

    def _shift(self, epsilon: float) -> tuple[Fraction, float]:
        """Return p - E q, at least, and ln R, at most; 0 if nothing is left."""
        growth = exp_lower(min(non_negative("epsilon", epsilon), _LARGEST))
        left = self.p - growth * self.q
        if left <= 0:
            return Fraction(0), 0.0
        return left, max(0.0, log_lower((growth * self.p - self.q) / left))

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above; raise `UnsupportedError` if there is none."""
        return invert(self.delta, delta)


AddedLaw = CutLaplace | Scattered
"""What a server adds: numbers of messages for each bin, or messages of a hash family."""


def open_curve(part: Moved, noise: AddedLaw) -> AmongDummies | AmongScattered | TwoBins:
    """Return the privacy curve of one message among what a server adds.

    >>> hashed = Scattered(messages=64_000, support=Fraction(1, 1024))
    >>> open_curve(Moved(moves=2, support=hashed.support), hashed).delta(1.0) < 1e-8
    True
    """
    if isinstance(noise, CutLaplace):
        return AmongDummies(noise=noise, moves=part.moves, p=part.p, q=part.q)
    if part.support != noise.support:
        raise ParameterError(
            "support", noise.support, f"must be that of the message, {part.support}"
        )
    return AmongScattered(noise=noise, p=part.p, q=part.q) if part.q else noise.moved


@lru_cache(maxsize=256)
def _split_law(noise: CutLaplace) -> tuple[Fraction, ...]:
    """Return u, d, f, and the largest ratios r_u and r_d; masses and ratios are exact."""
    shares, most, words = noise.shares, noise.most, 1 << 2 * noise.word_bits
    upwards = range(most, 2 * most)
    downwards = range(most)
    return (
        Fraction(sum(shares[z] for z in upwards), words),
        Fraction(sum(shares[z] for z in downwards), words),
        noise.edge,
        max(Fraction(shares[z], shares[z + 1]) for z in upwards),
        max(Fraction(shares[z], shares[z + 1]) for z in downwards),
    )


def _above(x: Fraction) -> Fraction:
    """Round x up to few digits."""
    return Fraction(-((-x.numerator << _BITS) // x.denominator), 1 << _BITS)


@lru_cache(maxsize=4096)
def _power(x: Fraction, times: int) -> Fraction:
    """Bound x^times from above."""
    if times < 2:
        return x**times
    half = _power(x, times // 2)
    return _above(half * half * (x if times % 2 else 1))


def bound_delta(
    parts: Sequence[Moved],
    noises: Sequence[AddedLaw],
    *,
    epsilon: float,
    near: float,
    times: int = 1,
) -> float:
    """Bound delta at this epsilon from above, for a report with all these messages.

    It is sent `times` times, each with noise of its own.

    >>> both, law = [Moved(moves=2), Moved(moves=1)], CutLaplace(rate=1 / 3, most=56)
    >>> f"{bound_delta(both, [law, law], epsilon=1.0, near=1e-8):.2e}"
    '3.87e-09'
    """
    whole("times", times, at_least=1)
    curves = [open_curve(part, noise) for part, noise in zip(parts, noises, strict=True)]
    cut = [noise for noise in noises if isinstance(noise, CutLaplace)]
    hashed = len(cut) < len(noises)
    if not hashed and len(set(cut)) == 1 and not any(part.q for part in parts):
        moves = times * sum(part.moves for part in parts)
        return AmongDummies(noise=cut[0], moves=moves).delta(epsilon)
    rounds = times * len(curves)
    if rounds == 1:
        return curves[0].delta(epsilon)
    delta = compose_delta(curves * times, epsilon=epsilon, near=near)
    ended = [curve for curve in curves if isinstance(curve, AmongDummies)]
    if not hashed and times * sum(Fraction(curve.pure) for curve in ended) <= Fraction(epsilon):
        ends = times * sum((Fraction(curve.delta(curve.pure)) for curve in ended), Fraction(0))
        delta = min(delta, float_above(ends))
    return delta


def calibrate_noise(
    parts: Sequence[Moved], *, epsilon: float, delta: float, times: int = 1
) -> tuple[AddedLaw, ...]:
    """Return the laws of the dummies of each question that keep the promise with the smallest errors, nearly.

    Questions of equal weight have the same rate where there is no floor: a count needs half as much as bins.

    >>> [(law.rate, law.most) for law in calibrate_noise([Moved(moves=2)], epsilon=1.0, delta=1e-8)]
    [(0.5, 36)]
    >>> [(law.rate, law.most) for law in calibrate_noise([Moved(moves=1)], epsilon=1.0, delta=1e-8)]
    [(1.0, 18)]
    >>> hashed = Moved(moves=2, support=Fraction(1, 1024))
    >>> [law.messages for law in calibrate_noise([hashed], epsilon=1.0, delta=1e-8)]
    [63640]
    """
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)
    whole("times", times, at_least=1)
    floors = times * math.fsum(part.floor for part in parts)
    if floors <= epsilon:
        raise UnsupportedError(
            f"a local epsilon of {round_up(floors, 6)} keeps epsilon={epsilon!r} without any dummies"
        )
    plain = _scale_noise(parts, epsilon, delta / (times * len(parts)), times, 1.0)
    hashed = any(part.support is not None for part in parts)
    few = times * sum(part.moves for part in parts) <= _FEW
    if times * len(parts) == 1 or (few and not hashed):
        return plain  # the largest loss is likely: hardly anything is gained
    share = delta * _EDGES / (times * len(parts))

    def fits(factor: float) -> tuple[AddedLaw, ...] | None:
        try:
            tried = _scale_noise(parts, epsilon, share, times, factor)
        except UnsupportedError:  # the floor of a question is less than that
            return None
        bound = bound_delta(parts, tried, epsilon=epsilon, near=delta, times=times)
        return tried if bound <= delta else None

    best, low, high = plain, 1.0, 2.0
    if hashed:  # their losses have no largest one, so that plain composition is not computed
        best, low, high = _find_start(fits, epsilon)
    while (laws := fits(high)) is not None:
        best, low, high = laws, high, 2 * high
    while high / low > 1 + _CLOSE:
        middle = math.sqrt(low * high)
        laws = fits(middle)
        best, low, high = (best, low, middle) if laws is None else (laws, middle, high)
    return best


def _find_start(
    fits: Callable[[float], tuple[AddedLaw, ...] | None], epsilon: float
) -> tuple[tuple[AddedLaw, ...], float, float]:
    """Return laws that fit, their factor, and twice that factor."""
    for halvings in range(6):
        factor = 0.5**halvings
        if (laws := fits(factor)) is not None:
            return laws, factor, 2 * factor
    raise UnsupportedError(
        f"epsilon={epsilon!r} is too small for this many answers, some of them hashed, in one report"
    )


def _scale_noise(
    parts: Sequence[Moved], epsilon: float, edge: float, times: int, factor: float
) -> tuple[AddedLaw, ...]:
    """Scale the noise to laws with `factor` times the epsilon that plain composition allows each, and ends of at most
    `edge` in delta.
    """
    weights = [Fraction(part.weight) * part.moves for part in parts]
    whole_of_it = sum(weights, Fraction(0)) * times
    laws = [
        _find_law(part, Fraction(epsilon) * Fraction(factor) * weight / whole_of_it, edge)
        for part, weight in zip(parts, weights, strict=True)
    ]
    # Equal rates have equal ends: then all moves are alike, and their sum is known exactly.
    longest: dict[float, int] = {}
    for law in laws:
        if isinstance(law, CutLaplace):
            longest[law.rate] = max(law.most, longest.get(law.rate, 0))
    return tuple(
        replace(law, most=longest[law.rate]) if isinstance(law, CutLaplace) else law for law in laws
    )


def _find_scattered(part: Moved, support: Fraction, epsilon: float, delta: float) -> Scattered:
    """Find about the fewest messages whose curve is at most delta at epsilon."""

    def delta_at(messages: float) -> float:
        law = Scattered(messages=math.ceil(messages), support=support)
        return open_curve(part, law).delta(epsilon)

    growth = math.exp(min(epsilon, _LARGEST))
    left = float(part.p) - growth * float(part.q)
    loss = math.log((growth * float(part.p) - float(part.q)) / left)
    level = poisson_level(epsilon=max(loss, 1e-6), delta=min(0.5, delta / left))
    messages = find_level(
        delta_at,
        delta,
        guess=max(1.0, level / float(support * (1 - support))),
        largest=_MOST_SCATTERED,
        refusal=f"epsilon={epsilon:.3g} for a question needs more than {_MOST_SCATTERED:,} messages",
        tolerance=_FINE,
    )
    return Scattered(messages=math.ceil(messages), support=support)


def _find_law(part: Moved, epsilon: Fraction, edge: float) -> AddedLaw:
    growth = exp_lower(min(epsilon, Fraction(_LARGEST)))
    left = part.p - growth * part.q
    if left <= 0:
        raise UnsupportedError(
            f"a local epsilon of {round_up(part.floor, 6)} keeps the {float(epsilon):.3g} of a question without any dummies"
        )
    if part.support is not None:
        return _find_scattered(part, part.support, float_below(epsilon), edge)
    return _find_cut(part, epsilon, edge, growth)


def _find_cut(part: Moved, epsilon: Fraction, edge: float, growth: Fraction) -> CutLaplace:
    left = part.p - growth * part.q
    if part.q:
        rate = log_lower((growth * part.p - part.q) / left) / part.moves * _BELOW
    else:
        rate = float_below(epsilon / part.moves)
    if not rate > 0:
        raise UnsupportedError(f"epsilon={float(epsilon):.3g} for a question is too small")
    wanted = edge / float(left) / part.moves
    most = max(
        1, math.ceil(math.log(max(-math.expm1(-rate) / (1 + math.exp(-rate)) / wanted, 1.0)) / rate)
    )
    if most > MOST_STEPS:
        raise UnsupportedError(
            f"epsilon={float(epsilon):.3g} for a question needs more than {MOST_STEPS:,} dummies for a bin"
        )

    def good(length: int) -> bool:
        ends = CutLaplace(rate=rate, most=length).edge
        return left * (1 - (1 - ends) ** part.moves) <= edge

    while not good(most):
        most += 1
    while most > 1 and good(most - 1):
        most -= 1
    return CutLaplace(rate=rate, most=most)
