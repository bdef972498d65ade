"""Several rounds: the same people are asked again, and the losses add up.

A round enters by its privacy curve alone. Its delta on a grid of epsilons becomes a pessimistic
privacy-loss distribution (connect-the-dots: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022), and
Google's dp-accounting (extra `compose`) convolves these. The curve bounds both directions, so

    delta(-epsilon) = 1 - e^-epsilon (1 - delta(epsilon))

extends it to all epsilons. A bound may fail to be convex in e^epsilon where the true curve is convex;
its lower convex hull lies above the true curve as well, and that is what is used.

`compose_renyi` is an independent, looser way: the Renyi divergence of a curve, added over rounds.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Profile
from shuffledp.core.validate import fraction_of_one

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = ["compose", "compose_renyi", "renyi"]

_POINTS = 1500
_EVALUATIONS = 300
_SMALLEST_DELTA = 1e-12
_TAIL_SHARE = 1e-3  # of delta, spent on each end of the grid over all rounds


def compose(rounds: Sequence[Profile], *, delta: float) -> float:
    """The epsilon, at this delta, of all rounds together. Rounds may differ.

    >>> from shuffledp.accounting.amplify import profile
    >>> weekly = profile(epsilon0=1.0, n=10_000)
    >>> 0.148 < compose([weekly] * 10, delta=1e-6) < 0.150
    True
    """
    wanted = fraction_of_one("delta", delta)
    if not rounds:
        raise ParameterError("rounds", rounds, "must hold at least one privacy curve")
    if wanted < _SMALLEST_DELTA:
        raise UnsupportedError(
            f"delta={delta!r} is below {_SMALLEST_DELTA:g}, where convolutions in floating point "
            "are no longer certain: use compose_renyi"
        )
    different = Counter(rounds)
    if len(rounds) == 1:
        return rounds[0].epsilon(wanted)
    tail = _TAIL_SHARE * wanted / len(rounds)
    reach = max(curve.epsilon(tail) for curve in different)
    # The composed loss spreads by the square root of the rounds: the grid may be that much coarser.
    step = reach / _POINTS
    composed = None
    for curve, times in different.items():
        part = _loss_distribution(curve, step, tail).self_compose(times)
        composed = part if composed is None else composed.compose(part)
    assert composed is not None
    result = float(composed.get_epsilon_for_delta(wanted))
    if not math.isfinite(result):
        raise UnsupportedError(f"no finite epsilon is certified for delta={delta!r}")
    return result


def _loss_distribution(curve: Profile, step: float, tail: float) -> "PrivacyLossDistribution":
    try:
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    except ImportError as error:
        raise UnsupportedError(
            "composition needs dp-accounting: pip install 'shuffledp[compose]'"
        ) from error
    last = max(1, math.ceil(curve.epsilon(tail) / step))
    epsilons = step * np.arange(last + 1)
    # The true curve is convex in e^epsilon, so chords between upper bounds are upper bounds.
    seen = np.unique(np.linspace(0, last, _EVALUATIONS).round().astype(np.int64))
    upper = np.minimum.accumulate([min(1.0, curve.delta(epsilons[i])) for i in seen])
    deltas = np.interp(np.exp(epsilons), np.exp(epsilons[seen]), upper)
    mirrored = 1 - np.exp(-epsilons[:0:-1]) * (1 - deltas[:0:-1])
    hull = _convex_hull(
        np.concatenate([-epsilons[:0:-1], epsilons]), np.concatenate([mirrored, deltas])
    )
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -last, last, hull)
    return PrivacyLossDistribution(pmf)


def _convex_hull(epsilons: Floats, deltas: Floats) -> Floats:
    """The largest convex function of e^epsilon below the points, at the same epsilons."""
    x = np.exp(epsilons)
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            rise_before = (deltas[b] - deltas[a]) * (x[i] - x[b])
            rise_after = (deltas[i] - deltas[b]) * (x[b] - x[a])
            if rise_before < rise_after:
                break
            kept.pop()
        kept.append(i)
    return np.interp(x, x[kept], deltas[kept])


def renyi(curve: Profile, alpha: float) -> float:
    """An upper bound of the Renyi divergence of order alpha > 1 of any pair with this curve.

    e^((alpha - 1) D) = 1 + alpha (alpha - 1) int_0^inf (e^((alpha-1) t) + e^(-alpha t)) delta(t) dt,
    bounded by a Riemann sum with the larger end of every cell.

    >>> from shuffledp.accounting.amplify import profile
    >>> renyi(profile(epsilon0=1.0, n=10_000), 2.0) < 1e-3
    True
    """
    if alpha <= 1:
        raise ParameterError("alpha", alpha, "must be > 1")
    return _renyi(_steps(curve), alpha)


def _steps(curve: Profile) -> tuple[Floats, Floats]:
    """Epsilons, and delta at the left end of each cell between them."""
    last, middle = curve.epsilon(1e-290), curve.epsilon(1e-15)
    grid = np.unique(np.concatenate([np.linspace(0, middle, 400), np.linspace(middle, last, 60)]))
    return grid, np.array([curve.delta(t) for t in grid[:-1]])


def _renyi(steps: tuple[Floats, Floats], alpha: float) -> float:
    grid, deltas = steps
    if (alpha - 1) * grid[-1] > 600:  # e^600 times the smallest delta is still a number
        return math.inf
    growing = np.diff(np.exp((alpha - 1) * grid)) / (alpha - 1)
    falling = -np.diff(np.exp(-alpha * grid)) / alpha
    total = alpha * (alpha - 1) * float(deltas @ (growing + falling))
    return math.log1p(total * (1 + 1e-9)) / (alpha - 1)


def compose_renyi(rounds: Sequence[Profile], *, delta: float) -> float:
    """The epsilon of all rounds together by Renyi divergences: looser than `compose`, independent.

    The conversion is that of Canonne, Kamath, Steinke 2020 ("The discrete Gaussian for differential
    privacy", Proposition 12).

    >>> from shuffledp.accounting.amplify import profile
    >>> 0.15 < compose_renyi([profile(epsilon0=1.0, n=10_000)] * 10, delta=1e-6) < 0.2
    True
    """
    wanted = fraction_of_one("delta", delta)
    if not rounds:
        raise ParameterError("rounds", rounds, "must hold at least one privacy curve")
    different = [(_steps(curve), times) for curve, times in Counter(rounds).items()]
    best = math.inf
    for alpha in np.geomspace(1.05, 1e5, 120).tolist():
        total = sum(times * _renyi(steps, alpha) for steps, times in different)
        spent = math.log(1 / wanted) + (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)
        best = min(best, total + spent / (alpha - 1))
    return max(0.0, best)
