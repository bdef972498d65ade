"""Amplification by shuffling: the guarantee of n people who each run an epsilon0-local randomizer.

One question, several theorems: `profile` is the minimum of all that apply, and `amplify` states the best
(epsilon, delta) with the name of the theorem behind it. Both are about the ideal law, of uniform words; a
protocol adds to its delta what words of AES-256 cost (`protocols.shared.assembly`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from shuffledp.accounting.base import SMALLEST_DELTA, Batch, find_deltas
from shuffledp.accounting.binary import BinaryResponse
from shuffledp.accounting.blanket import (
    Blanket,
    Blanketed,
    BlanketProfile,
    DataSets,
    LeadingBlanket,
    generic_blanket,
    generic_data_sets,
    law_blankets,
    randomizer_data_sets,
    thin,
)
from shuffledp.accounting.clones import LARGEST_N, ApproximateClones, clones_2021, clones_2023
from shuffledp.accounting.compose import CurveTable, tabulate_curve
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, Profile, round_up
from shuffledp.core.protocol import HONEST, ShuffleProtocol, honest_users
from shuffledp.core.randomizer import Randomizer, check_randomizer
from shuffledp.core.validate import below_one, fraction_of_one, non_negative, positive
from shuffledp.numerics.rounding import find_first, find_largest_above

_LISTABLE = 64  # inputs; beyond, a randomizer must know its own blankets
_FEW = 4  # blankets, each of which is evaluated in full
_LARGEST_EPSILON0 = 60.0  # where a search ends
_LARGEST_LOCAL = 700.0  # e^epsilon0 must be a float
_LARGEST_LOWER = 200.0  # epsilon0; beyond, the third power of e^epsilon0 leaves the floats


Local: TypeAlias = Blanketed | ShuffleProtocol
"""A randomizer that states its blankets, or a protocol of the local model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One theorem's privacy curve."""

    name: str
    proof: str
    curve: Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledProfile(Batch):
    """The privacy curve of the shuffled view: the best of several bounds, which are all valid.

    >>> curve = profile(epsilon0=1.0, n=10_000, honest=1)
    >>> round(curve.epsilon(1e-6), 4)
    0.0432
    >>> curve.delta(curve.epsilon(1e-6)) <= 1e-6
    True
    """

    bounds: tuple[Bound, ...]
    epsilon0: float
    honest: int
    delta0: float = 0.0
    """The delta of each message alone; no epsilon is enough for a smaller delta."""

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at epsilon from above."""
        non_negative("epsilon", epsilon)
        return min(bound.curve.delta(epsilon) for bound in self.bounds)

    def deltas(self, epsilons: Floats) -> Floats:
        """Return the same at each of these epsilons, in less time.

        >>> profile(epsilon0=1.0, n=10_000, honest=1).deltas(np.array([0.02, 0.04])).round(6)
        array([3.05e-04, 3.00e-06])
        """
        each = [find_deltas(bound.curve, epsilons) for bound in self.bounds]
        return np.asarray(np.min(each, axis=0))

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at delta from above."""
        return self.best(delta).epsilon

    def best(self, delta: float) -> Guarantee:
        """Return the smallest epsilon at delta, and which bound gives it."""
        wanted = _valid_delta(delta)
        if wanted <= self.delta0 == 0:
            return self._guarantee(self.epsilon0, 0.0, PURE)
        # What knows most of the randomizer comes last, and is mostly the best.
        *others, own = self.bounds
        best = own.curve.epsilon(wanted), own.proof
        for bound in reversed(others):
            if bound.curve.delta(best[0]) <= wanted:
                best = min(best, (bound.curve.epsilon(wanted), bound.proof))
        return self._guarantee(best[0], wanted, best[1])

    def renyi(self, alpha: float) -> float:
        """Bound the Renyi divergence of order alpha > 1 from above, in both directions; never above epsilon0.

        >>> curve = profile(epsilon0=1.0, n=10_000, honest=1)
        >>> round(curve.renyi(2.0), 6)
        0.000159
        """
        return self._table().renyi(alpha)

    def trade_off(self, alpha: float) -> float:
        """Bound from below the second-kind error of any test of one person's value with first-kind error alpha.

        >>> curve = profile(epsilon0=1.0, n=10_000, honest=1)
        >>> round(curve.trade_off(0.05), 3)  # 0.95 is blind guessing
        0.949
        """
        return self._table().trade_off(alpha)

    def mu(self) -> float:
        """Bound the smallest mu with which the view is mu-Gaussian private from above, up to a delta of 1e-290.

        Of k rounds it is at most sqrt(k) mu. It is infinite for randomizers with a delta0.

        >>> curve = profile(epsilon0=1.0, n=10_000, honest=1)
        >>> round(curve.mu(), 4)
        0.0128
        """
        return self._table().mu()

    def _table(self) -> CurveTable:
        return tabulate_curve(self, self.epsilon0, self.delta0)

    def _guarantee(self, epsilon: float, delta: float, proof: str) -> Guarantee:
        return Guarantee(
            epsilon=epsilon, delta=delta, model=Model.SHUFFLE, proof=proof, honest=self.honest
        )

    def plot(self, path: str | Path) -> Path:
        """Draw delta against epsilon for every bound, and save the picture."""
        from shuffledp.show import privacy_curves

        best = self.epsilon(1e-6)
        return privacy_curves(
            {bound.name: bound.curve.delta for bound in self.bounds},
            Path(path),
            largest=min(self.epsilon0, 1.3 * self.epsilon(1e-12)),
            title=f"Shuffling turns epsilon0 = {round_up(self.epsilon0, 6)} into epsilon = {round_up(best, 3)} (delta = 1e-6)",
            notes=[f"{self.honest:,} honest users, epsilon0 = {round_up(self.epsilon0, 6)}"],
        )


OLDER = "clones 2021"
PURE = "the local guarantee, which shuffling keeps (a pure guarantee is not amplified)"
_CLONES_2021 = "clones, Feldman, McMillan, Talwar 2021, evaluated numerically"
_CLONES_2023 = (
    "stronger clones, the pair of Feldman, McMillan, Talwar 2023 (convex-order proof), "
    "evaluated numerically"
)
_BLANKET = (
    "privacy blanket of the randomizer, Balle, Bell, Gascon, Nissim 2019, evaluated numerically"
)
_BINARY = "binary randomized response, worst case over all data sets, evaluated numerically"
_APPROXIMATE = "stronger clones for approximate local randomizers (docs/theory/approximate.md), evaluated numerically"
_ADAPTIVE = "randomizers that depend on earlier messages included (docs/theory/adaptive.md)"
_REFINED = "total-variation refined blanket of any local randomizer, evaluated numerically"


def profile(
    *,
    n: int,
    epsilon0: float | None = None,
    delta0: float = 0.0,
    randomizer: Local | None = None,
    total_variation: float | None = None,
    check_in: float = 1.0,
    adaptive: bool = False,
    honest: float = HONEST,
    bound: str | None = None,
) -> ShuffledProfile:
    """Return the privacy curve of n shuffled messages, one per user, from the same local randomizer.

    Give `epsilon0` alone when nothing else is known of the randomizer (and `total_variation`, if a
    bound on the total variation distance between its laws is known), or the `randomizer` itself,
    whose own law gives more. `delta0` is for randomizers that are only (epsilon0, delta0)-local. With
    `check_in` everybody takes part with this probability only, by a secret coin of her own, and n counts
    all who may. `adaptive` is for people in random order whose randomizers may depend on all earlier
    messages; nothing but epsilon0 (and a total variation) is known of those. The curve is the minimum of all bounds
    that apply, or the one named by `bound` ("clones 2021", "clones 2023", "total variation", "blanket", "binary",
    "approximate clones"). `honest` is the share of the n users whose messages the guarantee counts on: the others may
    deviate or collude.

    >>> from shuffledp.protocols.krr import KRR
    >>> krr = profile(randomizer=KRR(k=16, epsilon0=2.0), n=10_000, honest=1)
    >>> krr.epsilon(1e-6) < profile(epsilon0=2.0, n=10_000, honest=1).epsilon(1e-6)
    True
    """
    trusted = honest_users(n, honest)
    local = find_epsilon0(epsilon0, randomizer)
    given = {
        "randomizer": randomizer,
        "total_variation": total_variation,
        "delta0": delta0 or None,
        "check_in": 1 - check_in or None,
    }
    if adaptive:
        _check_alone("adaptive", True, given)
    if check_in != 1:
        _check_alone("check_in", fraction_of_one("check_in", check_in), given)
    if below_one("delta0", delta0):
        _check_alone("delta0", delta0, given)
        curve = ApproximateClones(epsilon0=local, delta0=delta0, n=trusted)
        bounds = [Bound(name="approximate clones", proof=_APPROXIMATE, curve=curve)]
    elif check_in != 1:
        bounds = _bound_check_in(local, trusted, check_in, randomizer)
    else:
        bounds = _generic_bounds(local, trusted, total_variation)
        bounds += [] if randomizer is None else _own_bounds(randomizer, trusted)
    if adaptive:
        bounds = [replace(each, proof=f"{each.proof}, {_ADAPTIVE}") for each in bounds]
    # The older statement never gives less: it is there for those who ask for it.
    chosen = [b for b in bounds if b.name == bound or (bound is None and b.name != OLDER)]
    if not chosen:
        names = ", ".join(repr(b.name) for b in bounds)
        raise ParameterError("bound", bound, f"must be one that applies here: {names}")
    return ShuffledProfile(bounds=tuple(chosen), epsilon0=local, honest=trusted, delta0=delta0)


def _bound_check_in(
    epsilon0: float, n: int, check_in: float, randomizer: Local | None
) -> list[Bound]:
    """Bound the guarantee if everybody takes part with probability `check_in` only, by a secret coin of her own."""

    def bound(name: str, proof: str, blankets: tuple[Blanket, ...]) -> Bound:
        thinned = tuple(thin(each, check_in) for each in blankets)
        curve = BlanketProfile(blankets=thinned, n=n, epsilon0=epsilon0)
        return Bound(name=name, proof=f"random check-in of {check_in:g} and {proof}", curve=curve)

    generic = [bound("clones 2023", _CLONES_2023, (generic_blanket(epsilon0=epsilon0),))]
    blankets = () if randomizer is None else _blankets(randomizer)
    return [*generic, bound("blanket", _BLANKET, blankets)] if blankets else generic


_ALONE = {
    "adaptive": (
        ("randomizer", "delta0", "check_in"),
        "goes without {}: its bound is about one round",
    ),
    "check_in": (("delta0", "total_variation"), "must be 1 with {}"),
    "delta0": (("randomizer", "total_variation"), "goes with epsilon0 alone, not with {}"),
}


def _check_alone(name: str, value: object, given: Mapping[str, object]) -> None:
    """Refuse arguments that do not go with this one."""
    others, requirement = _ALONE[name]
    for other in others:
        if given.get(other) is not None:
            raise ParameterError(name, value, requirement.format(other))


def _generic_bounds(epsilon0: float, n: int, total_variation: float | None) -> list[Bound]:
    """List the bounds that hold for every epsilon0-local randomizer."""
    older, newer = clones_2021(epsilon0=epsilon0, n=n), clones_2023(epsilon0=epsilon0, n=n)
    bounds = [
        Bound(name=OLDER, proof=_CLONES_2021, curve=older),
        Bound(name="clones 2023", proof=_CLONES_2023, curve=newer),
    ]
    if total_variation is not None:
        blanket = generic_blanket(epsilon0=epsilon0, total_variation=total_variation)
        curve = BlanketProfile(blankets=(blanket,), n=n, epsilon0=epsilon0)
        bounds.append(Bound(name="total variation", proof=_REFINED, curve=curve))
    return bounds


def amplify(
    *,
    n: int,
    delta: float,
    epsilon0: float | None = None,
    delta0: float = 0.0,
    randomizer: Local | None = None,
    total_variation: float | None = None,
    check_in: float = 1.0,
    adaptive: bool = False,
    honest: float = HONEST,
    bound: str | None = None,
) -> Guarantee:
    """Return the best (epsilon, delta) guarantee of n shuffled messages, with its theorem.

    >>> print(amplify(epsilon0=1.0, n=10_000, delta=1e-6, honest=1))
    epsilon = 0.0432085, delta = 1e-06: shuffle model, replace-one neighbours, 10,000 honest users; by stronger clones, the pair of Feldman, McMillan, Talwar 2023 (convex-order proof), evaluated numerically

    A randomizer that fails to be epsilon0-local with a small probability, such as Gaussian noise, has a delta0:

    >>> round(amplify(epsilon0=1.0, delta0=1e-9, n=10_000, delta=1e-6, honest=1).epsilon, 4)
    0.0445
    """
    curve = profile(
        n=n,
        epsilon0=epsilon0,
        delta0=delta0,
        randomizer=randomizer,
        total_variation=total_variation,
        check_in=check_in,
        adaptive=adaptive,
        honest=honest,
        bound=bound,
    )
    return curve.best(delta)


def amplify_lower(
    *,
    n: int,
    delta: float,
    epsilon0: float | None = None,
    delta0: float = 0.0,
    randomizer: Local | None = None,
    honest: float = HONEST,
) -> float:
    """Find an epsilon that no analysis can beat at this delta: the loss on explicit data sets.

    For a bare `epsilon0` it is the worst over randomizers, so no theorem about all of them can give
    less; for a `randomizer` it is about that one.

    >>> round(amplify_lower(epsilon0=1.0, n=10_000, delta=1e-6, honest=1), 4)
    0.038
    """
    trusted = honest_users(n, honest)
    wanted = _valid_delta(delta)
    if wanted == 0:
        raise ParameterError("delta", delta, "must be > 0 for a lower bound")
    local = find_epsilon0(epsilon0, randomizer)
    if below_one("delta0", delta0):
        _check_alone("delta0", delta0, {"randomizer": randomizer})
        if wanted <= delta0:
            raise ParameterError("delta", delta, "must be > delta0 for a lower bound")
        # A message that tells all with probability delta0 and is pure otherwise; rounded up.
        wanted = min((wanted - delta0) / (1 - delta0) * (1 + 1e-15), math.nextafter(1.0, 0.0))
    if randomizer is not None and local > _LARGEST_LOWER:
        raise UnsupportedError(f"no lower bound for a randomizer of epsilon0={local!r}, above 200")
    # Whoever is 200-local is epsilon0-local for a larger epsilon0, too: the bound stays one.
    data_sets: DataSets = (
        generic_data_sets(epsilon0=min(local, _LARGEST_LOWER), n=trusted)
        if randomizer is None
        else randomizer_data_sets(_device(randomizer), trusted)
    )
    return data_sets.epsilon(wanted)


def calibrate(
    *,
    n: int,
    epsilon: float,
    delta: float,
    delta0: float = 0.0,
    randomizer: Callable[[float], Local] | None = None,
    honest: float = HONEST,
) -> float:
    """Find the largest epsilon0 that keeps n shuffled messages (epsilon, delta)-private.

    `randomizer` makes the randomizer from its epsilon0, e.g. `lambda e: KRR(k=16, epsilon0=e)`;
    without one the answer holds for every local randomizer, or every (epsilon0, delta0)-local one. The returned value
    was evaluated and found safe; it is within a part in 10^5 of the largest.

    >>> epsilon0 = calibrate(epsilon=1.0, delta=1e-8, n=1_000_000)
    >>> amplify(epsilon0=epsilon0, n=1_000_000, delta=1e-8).epsilon <= 1.0
    True
    """
    target, wanted = positive("epsilon", epsilon), _valid_delta(delta)
    trusted = honest_users(n, honest)
    if below_one("delta0", delta0):
        _check_alone("delta0", delta0, {"randomizer": randomizer})
        if delta0 > wanted:
            raise ParameterError("delta0", delta0, f"must be <= delta = {wanted!r}")
    if wanted == delta0 or target >= _LARGEST_EPSILON0:
        return target
    if randomizer is None:
        return _generic_epsilon0(trusted, target, wanted, delta0)

    def spare(epsilon0: float) -> float:
        curve = profile(n=trusted, randomizer=randomizer(epsilon0), honest=1)
        return math.log(wanted / max(curve.delta(_move_inside(target)), SMALLEST_DELTA))

    return _find_largest_epsilon0(spare, target, _generic_epsilon0(trusted, target, wanted, 0.0))


@lru_cache(maxsize=1024)
def _generic_epsilon0(n: int, epsilon: float, delta: float, delta0: float) -> float:
    """Return the largest epsilon0 that is safe for every local randomizer."""

    def spare(epsilon0: float) -> float:
        pure = clones_2023(epsilon0=epsilon0, n=n)
        curve = ApproximateClones(epsilon0=epsilon0, delta0=delta0, n=n) if delta0 else pure
        reached = curve.delta(_move_inside(epsilon))
        return math.log(delta / max(reached, SMALLEST_DELTA))

    # A useful start: (p - 1)^2 / (p + 1) ~ 1.5 n tanh(epsilon / 2)^2 / ln(2 / delta), p = e^epsilon0.
    y = 1.5 * n * math.tanh(epsilon / 2) ** 2 / math.log(2 / delta)
    guess = math.log1p((y + math.sqrt(y * y + 8 * y)) / 2)
    return _find_largest_epsilon0(spare, epsilon, max(guess, 1.01 * epsilon))


def _find_largest_epsilon0(spare: Callable[[float], float], epsilon: float, guess: float) -> float:
    # Whatever is epsilon-private stays so when it is shuffled: below, there is nothing to ask.
    return find_largest_above(
        lambda epsilon0: 1.0 if epsilon0 <= epsilon else spare(epsilon0),
        end=_LARGEST_EPSILON0,
        guess=guess,
        tolerance=1e-5,
        floor=epsilon,
    )


def _move_inside(epsilon: float) -> float:
    """Move the target inside: `amplify` rounds its epsilon up by a part in 10^6 at most: it shall not find more than
    wanted.
    """
    return epsilon * (1 - 1e-6)


def smallest_n(*, epsilon0: float, epsilon: float, delta: float, honest: float = HONEST) -> int:
    """Find the smallest number of users for which shuffling any epsilon0-local randomizer is
    (epsilon, delta)-private.

    >>> smallest_n(epsilon0=1.0, epsilon=0.1, delta=1e-6, honest=1)
    2096
    """
    local, target = positive("epsilon0", epsilon0), positive("epsilon", epsilon)
    wanted = _valid_delta(delta)
    if target >= local:
        return 1
    if wanted == 0:
        raise UnsupportedError("with delta = 0 shuffling gives nothing beyond epsilon0")

    def enough(users: int) -> bool:
        try:
            trusted = honest_users(users, honest)
        except ParameterError:
            return False
        return profile(epsilon0=local, n=trusted, honest=1).delta(target) <= wanted

    high = 1
    while not enough(high):
        if high == LARGEST_N:
            raise UnsupportedError(f"more than {LARGEST_N:.0e} users would be needed")
        high = min(4 * high, LARGEST_N)
    return find_first(enough, high // 4, high)


def _own_bounds(randomizer: Local, n: int) -> list[Bound]:
    """Return the bounds from the randomizer's own law."""
    bounds = []
    blankets = _blankets(randomizer)
    if blankets:
        many = len(blankets) > _FEW and LeadingBlanket.fits(blankets)
        kind = LeadingBlanket if many else BlanketProfile
        curve = kind(blankets=blankets, n=n, epsilon0=_device(randomizer).epsilon0)
        bounds.append(Bound(name="blanket", proof=_BLANKET, curve=curve))
    flip = _flip(_device(randomizer), blankets)
    if flip is not None:
        binary = BinaryResponse(n=n, flip=flip)
        bounds.append(Bound(name="binary", proof=_BINARY, curve=binary))
    return bounds


def _device(randomizer: Local) -> Randomizer:
    return randomizer.randomizer if isinstance(randomizer, ShuffleProtocol) else randomizer


def _blankets(randomizer: Local) -> tuple[Blanket, ...]:
    """Return the stated blankets; those of a protocol that states none are read from its law, if that can be listed."""
    if not isinstance(randomizer, ShuffleProtocol):
        try:
            stated = randomizer.blankets
        except AttributeError:
            requirement = "must be a protocol, or have blankets, such as law_blankets(self)"
            raise ParameterError("randomizer", randomizer, requirement) from None
        return stated()
    if randomizer.offers.blankets is not None:
        return randomizer.offers.blankets()
    device = randomizer.randomizer
    return law_blankets(device) if device.domain.size <= _LISTABLE else ()


def find_flip(randomizer: Local) -> Fraction | None:
    """Return the probability of a lie, if the randomizer states that it flips a bit."""
    return next((each.flip for each in _blankets(randomizer)), None)


def _flip(randomizer: Randomizer, blankets: tuple[Blanket, ...]) -> Fraction | None:
    """Return the flip probability, if this is binary randomized response."""
    if blankets and blankets[0].flip is not None:
        return blankets[0].flip
    if randomizer.domain.size != 2:
        return None
    if any(np.count_nonzero(each.mass) > 2 for each in blankets):
        return None  # and no need to list a law of perhaps millions of messages
    try:
        zero, one = randomizer.pmf(0), randomizer.pmf(1)
    except UnsupportedError:  # too long to list, so not that of two messages
        return None
    if len(zero) != 2 or sorted(zero.values()) != sorted(one.values()) or zero == one:
        return None
    return min(zero.values())


def find_epsilon0(epsilon0: float | None, randomizer: Local | None) -> float:
    """Return the local epsilon that was given, or that of the randomizer."""
    if (epsilon0 is None) == (randomizer is None):
        wanted = (
            "must be given, or a randomizer"
            if epsilon0 is None
            else "must be left out: the randomizer has its own"
        )
        raise ParameterError("epsilon0", epsilon0, wanted)
    if randomizer is not None:
        device = check_randomizer(
            "randomizer", _device(randomizer), "must be a protocol or a randomizer"
        )
        epsilon0 = device.epsilon0
    local = positive("epsilon0", epsilon0)
    if local > _LARGEST_LOCAL:
        raise ParameterError("epsilon0", local, f"must be <= {_LARGEST_LOCAL:g}")
    return local


def _valid_delta(delta: float) -> float:
    value = below_one("delta", delta)
    if 0 < value < SMALLEST_DELTA:
        raise ParameterError("delta", delta, f"must be 0, or at least {SMALLEST_DELTA:g}")
    return value
