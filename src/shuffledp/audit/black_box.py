"""The empirical audit: a lower bound on epsilon from samples, at a stated confidence.

Outcomes of two neighbouring data sets are drawn, each time by a fair coin. From the first half an event
T is chosen that tells them apart; in the second half it is counted. If the black box is
(epsilon, delta)-DP then Pr[T | data] <= e^epsilon Pr[T | neighbour] + delta, so

    epsilon >= ln( (p - delta) / q ),    p = Pr[T | data], q = Pr[T | neighbour],

with Clopper-Pearson's exact limits for p (from below) and q (from above). For delta = 0 one limit is
enough: among the outcomes in T those of `data` are Bin(hits, p / (p + q)), and epsilon >= ln(p / q) is the
log-odds. That is stronger, and just as exact.

A lower bound above a claim refutes it, with that confidence. One below it proves nothing.
References: Clopper, Pearson 1934; Jagielski, Ullman, Oprea 2020, "Auditing differentially private
machine learning"; Dong, Roth, Su 2022, "Gaussian differential privacy".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp.audit.events import Event, Score, candidates, thresholds
from shuffledp.audit.sampling import BlackBox, check_neighbours, sampler_of, widened
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Randomizer, WordSource
from shuffledp.core.validate import fraction_of_one, number, whole
from shuffledp.numerics.entropy import SecureWords

__all__ = ["Counted", "EmpiricalAudit", "GaussianAudit", "empirical", "empirical_gaussian"]

_NUDGE = 1e-9  # more than SciPy's inverse of the beta distribution is ever off


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How often an event happened in the half that did not choose it.

    >>> Counted(event="column 0 >= 1", hits=(90, 30), draws=(100, 100)).hits
    (90, 30)
    """

    event: str
    hits: tuple[int, int]
    """For data and for neighbour, in the order that the event accuses."""
    draws: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmpiricalAudit:
    """epsilon is at least this, with this confidence.

    >>> counted = Counted(event="column 0 >= 1", hits=(90, 30), draws=(100, 100))
    >>> print(EmpiricalAudit(epsilon=0.71239, delta=0.0, confidence=0.99, samples=400, method="odds", counted=counted))
    epsilon >= 0.7123 at delta = 0, with confidence 0.99 from 400 samples: column 0 >= 1 happened 90 of 100 times against 30 of 100 (odds)
    """

    epsilon: float
    delta: float
    confidence: float
    samples: int
    method: str
    counted: Counted

    def refutes(self, epsilon: float) -> bool:
        """Whether a claim of this epsilon (at the same delta) is refuted.

        >>> from shuffledp import SeededWords, audit, protocols
        >>> krr = protocols.krr.KRR(k=4, epsilon0=1.5)
        >>> found = audit.empirical(krr, [0], [1], delta=0.0, samples=40_000, rng=SeededWords(5))
        >>> found.refutes(1.0), found.refutes(1.5)
        (True, False)
        """
        return self.epsilon > epsilon

    def __str__(self) -> str:
        hits, draws = self.counted.hits, self.counted.draws
        return (
            f"epsilon >= {math.floor(self.epsilon * 1e4) / 1e4:g} at delta = {self.delta:g}, with "
            f"confidence {self.confidence:g} from {self.samples:,} samples: {self.counted.event} "
            f"happened {hits[0]:,} of {draws[0]:,} times against {hits[1]:,} of {draws[1]:,} "
            f"({self.method})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianAudit:
    """What follows if the two views are as far apart as two Gaussians of distance mu: no certificate.

    >>> counted = Counted(event="column 0 >= 1", hits=(60, 40), draws=(100, 100))
    >>> GaussianAudit(mu=0.1, epsilon=0.2, delta=1e-6, confidence=0.99, samples=400, counted=counted).assumption
    'assumes Gaussian trade-off'
    """

    mu: float
    """A lower bound at this confidence, from one event, under the assumption."""
    epsilon: float
    """The epsilon of such a pair at delta."""
    delta: float
    confidence: float
    samples: int
    counted: Counted
    assumption: str = "assumes Gaussian trade-off"


def empirical(
    sampler: BlackBox | Randomizer | ShuffleProtocol,
    data: Any,
    neighbour: Any,
    *,
    delta: float,
    samples: int,
    confidence: float = 0.99,
    rng: WordSource | None = None,
    view: str = "shuffled",
    score: Score | None = None,
) -> EmpiricalAudit:
    """A lower bound on the epsilon of a black box at delta, that holds with this confidence.

    `sampler` is a function (data, rng) -> outcome, or a randomizer or protocol, whose `view` is then
    sampled by running its `encode`. `samples` outcomes are drawn altogether. `score`, a function of the
    rows of outcomes, is tried besides the scores that the audit learns.

    >>> from shuffledp import SeededWords, protocols
    >>> krr = protocols.krr.KRR(k=4, epsilon0=1.2)
    >>> found = empirical(krr, [0], [1], delta=0.0, samples=100_000, rng=SeededWords(1))
    >>> found.refutes(1.0), found.epsilon < 1.2
    (True, True)
    """
    level = _level(delta)
    pure = level == 0
    miss = 1 - fraction_of_one("confidence", confidence)

    def bound(hits: Floats, draws: tuple[int, int]) -> Floats:
        return _log_odds(hits, miss) if pure else _log_ratio(hits, draws, level, miss)

    counted = _counted(sampler, view, data, neighbour, samples, rng, score, bound)
    found = float(bound(np.array([counted.hits], dtype=np.float64), counted.draws)[0])
    return EmpiricalAudit(
        epsilon=max(0.0, found),
        delta=level,
        confidence=float(confidence),
        samples=samples,
        method="Clopper-Pearson limit of the odds" if pure else "two Clopper-Pearson limits",
        counted=counted,
    )


def empirical_gaussian(
    sampler: BlackBox | Randomizer | ShuffleProtocol,
    data: Any,
    neighbour: Any,
    *,
    delta: float,
    samples: int,
    confidence: float = 0.99,
    rng: WordSource | None = None,
    view: str = "shuffled",
    score: Score | None = None,
) -> GaussianAudit:
    """The epsilon at delta of a Gaussian pair that is as far apart as the samples show.

    mu >= Phi^-1(p) - Phi^-1(q) for an event of probabilities p and q, and then
    delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2). This reaches a small delta with few samples, but
    *only if the trade-off between the two kinds of error is Gaussian*, nearly so for large crowds.
    It is an estimate under that assumption and never a certificate: `empirical` is.

    >>> from shuffledp import SeededWords, protocols
    >>> rr = protocols.krr.KRR(k=2, epsilon0=3.0)
    >>> found = empirical_gaussian(rr, [0] * 50, [1] + [0] * 49, delta=1e-3, samples=20_000, rng=SeededWords(1))
    >>> found.mu > 0.3, found.epsilon > 0.5, found.assumption
    (True, True, 'assumes Gaussian trade-off')
    """
    level = fraction_of_one("delta", delta)
    miss = 1 - fraction_of_one("confidence", confidence)

    def bound(hits: Floats, draws: tuple[int, int]) -> Floats:
        return _distance(hits, draws, miss)

    counted = _counted(sampler, view, data, neighbour, samples, rng, score, bound)
    mu = max(0.0, float(bound(np.array([counted.hits], dtype=np.float64), counted.draws)[0]))
    return GaussianAudit(
        mu=mu,
        epsilon=_gaussian_epsilon(mu, level),
        delta=level,
        confidence=float(confidence),
        samples=samples,
        counted=counted,
    )


_Bound = Callable[[Floats, tuple[int, int]], Floats]


def _counted(
    sampler: BlackBox | Randomizer | ShuffleProtocol,
    view: str,
    data: Any,
    neighbour: Any,
    samples: int,
    rng: WordSource | None,
    score: Score | None,
    bound: _Bound,
) -> Counted:
    """Choose an event with one half of the samples, and count it in the other."""
    total = whole("samples", samples, at_least=4)
    draw = sampler_of(sampler, view)
    check_neighbours(sampler, data, neighbour)
    source = SecureWords() if rng is None else rng
    learned = _drawn(draw, data, neighbour, total // 2, source)
    tested = _drawn(draw, data, neighbour, total - total // 2, source)
    width = max(rows.shape[1] for rows in (*learned, *tested))
    first, second = (widened(rows, width) for rows in learned)
    accused, event = _best(first, second, score, bound)
    order = (0, 1) if accused == 0 else (1, 0)
    hits = [int(event.happens(widened(tested[side], width)).sum()) for side in order]
    return Counted(
        event=f"{event} ({'data' if accused == 0 else 'neighbour'} accused)",
        hits=(hits[0], hits[1]),
        draws=(len(tested[order[0]]), len(tested[order[1]])),
    )


def _drawn(
    draw: Callable[[Any, int, WordSource], Floats],
    data: Any,
    neighbour: Any,
    count: int,
    rng: WordSource,
) -> tuple[Floats, Floats]:
    """So many outcomes, each of one of the two data sets by a fair coin."""
    heads = int(np.count_nonzero(rng.words(count, 1)))
    if heads in (0, count):
        raise ParameterError("samples", count, "must be more: one of the data sets was never drawn")
    return draw(data, heads, rng), draw(neighbour, count - heads, rng)


def _best(data: Floats, neighbour: Floats, score: Score | None, bound: _Bound) -> tuple[int, Event]:
    """The event with the largest bound, as if it had not been chosen, and whom it accuses."""
    best = (
        -math.inf,
        0,
        Event(name="never", score=lambda r: np.zeros(len(r)), sign=1, threshold=1),
    )
    for name, one in candidates(data, neighbour, score):
        values = one(data), one(neighbour)
        places = thresholds(np.concatenate(values))
        for sign in (1, -1):
            hits = [_at_least(side, places, sign) for side in values]
            for accused, order in enumerate(((0, 1), (1, 0))):
                both = np.stack([hits[order[0]], hits[order[1]]], axis=1)
                sizes = len(values[order[0]]), len(values[order[1]])
                worth = bound(both, sizes)
                place = int(np.argmax(worth))
                if worth[place] > best[0]:
                    event = Event(name=name, score=one, sign=sign, threshold=float(places[place]))
                    best = (float(worth[place]), accused, event)
    return best[1], best[2]


def _at_least(values: Floats, places: Floats, sign: int) -> Floats:
    """How many values are in each event."""
    ranked = np.sort(values)
    if sign > 0:
        return (len(ranked) - np.searchsorted(ranked, places, side="left")).astype(np.float64)
    return np.searchsorted(ranked, places, side="right").astype(np.float64)


def _lower(hits: Floats, draws: Floats | float, miss: float) -> Floats:
    """Clopper-Pearson from below."""
    from scipy.special import betaincinv

    inside = np.maximum(hits, 1.0)
    limit = betaincinv(inside, draws - inside + 1.0, miss) * (1 - _NUDGE)
    return np.where(hits > 0, limit, 0.0)


def _upper(hits: Floats, draws: Floats | float, miss: float) -> Floats:
    """Clopper-Pearson from above: from below, for what did not happen."""
    return 1.0 - _lower(draws - hits, draws, miss)


def _log_odds(hits: Floats, miss: float) -> Floats:
    """ln(p / q), from below, out of how many of the hits belong to whom."""
    share = _lower(hits[:, 0], np.maximum(hits.sum(axis=1), 1.0), miss)
    with np.errstate(divide="ignore"):
        return np.log(share) - np.log1p(-share)


def _log_ratio(hits: Floats, draws: tuple[int, int], delta: float, miss: float) -> Floats:
    """ln((p - delta) / q), from below; each limit may be wrong with half of the probability."""
    p = _lower(hits[:, 0], float(draws[0]), miss / 2)
    q = np.maximum(_upper(hits[:, 1], float(draws[1]), miss / 2), 1e-300)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(p - delta, 0.0)) - np.log(q * (1 + _NUDGE))


def _distance(hits: Floats, draws: tuple[int, int], miss: float) -> Floats:
    from scipy.special import ndtri

    p = _lower(hits[:, 0], float(draws[0]), miss / 2)
    q = _upper(hits[:, 1], float(draws[1]), miss / 2)
    limits = np.stack([ndtri(p), ndtri(q)])
    known = np.isfinite(limits).all(axis=0)
    return np.where(known, np.subtract(*np.where(known, limits, 0.0)), -math.inf)


def _gaussian_epsilon(mu: float, delta: float) -> float:
    from scipy.special import log_ndtr, ndtr

    def excess(epsilon: float) -> float:
        first = float(ndtr(-epsilon / mu + mu / 2))
        second = math.exp(epsilon + float(log_ndtr(-epsilon / mu - mu / 2)))
        return first - second - delta

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low


def _level(delta: float) -> float:
    value = number("delta", delta)
    if not 0 <= value < 1:
        raise ParameterError("delta", delta, "must be >= 0 and < 1")
    return value
