"""The empirical audit: a lower bound on epsilon from samples, at a stated confidence.

Outcomes of two neighbouring data sets are drawn, each time by the toss of a fair coin. From the first half
of them an event T is chosen that tells the two apart; in the second half it is counted. If the black box
is (epsilon, delta)-DP then Pr[T | data] <= e^epsilon Pr[T | neighbour] + delta, so

    epsilon >= ln( (p - delta) / q ),    p = Pr[T | data], q = Pr[T | neighbour],

with Clopper and Pearson's exact limits for p (from below) and q (from above). For delta = 0 one limit is
enough: among the outcomes in T those of `data` are Bin(hits, p / (p + q)), and epsilon >= ln(p / q) is the
log-odds. That is stronger, and just as exact. Limits are rounded to the safe side by certified tails.

**Draws must be independent.** A black box that keeps something between calls (a counter, a cache, noise
that is used again) is not one mechanism sampled many times, and no limit holds for it. Whether the
event happened is therefore compared, draw by draw, with the draws before it; what depends on them beyond
doubt is refused. A test that finds nothing proves nothing.

A lower bound above a claim refutes it, with that confidence. One below it proves nothing.
References: Clopper, Pearson 1934; Jagielski, Ullman, Oprea 2020, "Auditing differentially private
machine learning"; Dong, Roth, Su 2022, "Gaussian differential privacy".
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.audit.outcomes import Draws, Sampler, check_neighbours, draw
from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.notebook import list_facts, say, stack
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import below_one, fraction_of_one, whole
from shuffledp.numerics.entropy import SecureWords
from shuffledp.numerics.masses import binomial_at_least
from shuffledp.numerics.rounding import log_lower

Score: TypeAlias = Callable[[Floats], Floats]
"""A number for each row of outcomes."""

_MOST_COLUMNS = 24
_MOST_THRESHOLDS = 200
_ALARM = 5e-11  # in each of twelve comparisons: independent draws are refused once in 10^9 audits


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedEvent:
    """How often an event happened in the half of the draws that did not choose it.

    >>> CountedEvent(event="column 0 >= 1", hits=(90, 30), draws=(100, 100)).hits
    (90, 30)
    """

    event: str
    hits: tuple[int, int]
    """For data and for neighbour, in the order that the event accuses."""
    draws: tuple[int, int]

    def __str__(self) -> str:
        (hits, others), (draws, other_draws) = self.hits, self.draws
        return f"{hits:,} of {draws:,} times against {others:,} of {other_draws:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmpiricalAudit:
    """A lower bound on epsilon, with its confidence.

    >>> counted = CountedEvent(event="column 0 >= 1", hits=(90, 30), draws=(100, 100))
    >>> print(EmpiricalAudit(epsilon=0.71239, delta=0.0, confidence=0.99, samples=400, method="odds", counted=counted))
    epsilon >= 0.7123 at delta = 0, with confidence 0.99 from 400 samples: column 0 >= 1 happened 90 of 100 times against 30 of 100 (odds)
    """

    epsilon: float
    delta: float
    confidence: float
    samples: int
    method: str
    counted: CountedEvent

    def refutes(self, epsilon: float) -> bool:
        """Return whether a claim of this epsilon (at the same delta) is refuted.

        >>> from shuffledp import SeededWords, audit, protocols
        >>> krr = protocols.krr.KRR(k=4, epsilon0=1.5)
        >>> found = audit.empirical(krr, [0], [1], delta=0.0, samples=40_000, rng=SeededWords(5))
        >>> found.refutes(1.0), found.refutes(1.5)
        (True, False)
        """
        return self.epsilon > epsilon

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings: what `shuffledp audit --samples --json` prints."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        facts = [
            ("epsilon, at least", self._claim()),
            ("confidence", f"{self.confidence:g}, {self.method}"),
            ("samples", f"{self.samples:,}"),
            ("event", self.counted.event),
            ("happened", str(self.counted)),
        ]
        return stack(say("sampled audit: a lower bound", bold=True), list_facts(facts))

    def __str__(self) -> str:
        return (
            f"epsilon >= {self._claim()}, with confidence {self.confidence:g} from {self.samples:,} samples: "
            f"{self.counted.event} happened {self.counted} ({self.method})"
        )

    def _claim(self) -> str:
        """Write epsilon, rounded down."""
        return f"{math.floor(self.epsilon * 1e4) / 1e4:g} at delta = {self.delta:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianAudit:
    """What follows if the two views are as far apart as two Gaussians of distance mu: not a certificate.

    >>> counted = CountedEvent(event="column 0 >= 1", hits=(60, 40), draws=(100, 100))
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
    counted: CountedEvent
    assumption: str = "assumes Gaussian trade-off"


def empirical(
    sampler: Sampler,
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
    """Return a lower bound on the epsilon of a black box at delta that holds with this confidence.

    `sampler` is a function (data, rng) -> outcome, or a randomizer or protocol, whose `view` is then
    sampled by running its `encode`. Calls must be independent of each other. `samples` outcomes are drawn
    altogether. `score`, a function of the rows of outcomes, is tried besides the scores that the audit learns.

    >>> from shuffledp import SeededWords, protocols
    >>> krr = protocols.krr.KRR(k=4, epsilon0=1.2)
    >>> found = empirical(krr, [0], [1], delta=0.0, samples=100_000, rng=SeededWords(1))
    >>> found.refutes(1.0), found.epsilon < 1.2
    (True, True)
    """
    level = below_one("delta", delta)
    pure = level == 0
    miss = 1 - fraction_of_one("confidence", confidence)

    def estimate(hits: Floats, draws: tuple[int, int]) -> Floats:
        return _estimate_odds(hits, miss) if pure else _estimate_ratio(hits, draws, level, miss)

    counted = _count_best_event(sampler, view, data, neighbour, samples, rng, score, estimate)
    proven = _bound_odds(counted, miss) if pure else _bound_ratio(counted, level, miss)
    return EmpiricalAudit(
        epsilon=max(0.0, proven),
        delta=level,
        confidence=float(confidence),
        samples=samples,
        method="Clopper-Pearson limit of the odds" if pure else "two Clopper-Pearson limits",
        counted=counted,
    )


def empirical_gaussian(
    sampler: Sampler,
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
    """Return the epsilon at delta of a Gaussian pair that is as far apart as the samples show.

    mu >= Phi^-1(p) - Phi^-1(q) for an event of probabilities p and q, and then
    delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2). This reaches a small delta with few
    samples, but *only if the trade-off between the two kinds of error is Gaussian*, nearly so for large crowds. It
    is an estimate under that assumption and never a certificate: `empirical` is.

    >>> from shuffledp import SeededWords, protocols
    >>> rr = protocols.krr.KRR(k=2, epsilon0=3.0)
    >>> found = empirical_gaussian(rr, [0] * 50, [1] + [0] * 49, delta=1e-3, samples=20_000, rng=SeededWords(1))
    >>> found.mu > 0.3, found.epsilon > 0.5, found.assumption
    (True, True, 'assumes Gaussian trade-off')
    """
    level = fraction_of_one("delta", delta)
    miss = 1 - fraction_of_one("confidence", confidence)

    def estimate(hits: Floats, draws: tuple[int, int]) -> Floats:
        return _estimate_distance(hits, draws, miss)

    counted = _count_best_event(sampler, view, data, neighbour, samples, rng, score, estimate)
    mu = max(0.0, float(estimate(np.array([counted.hits], dtype=np.float64), counted.draws)[0]))
    return GaussianAudit(
        mu=mu,
        epsilon=_find_gaussian_epsilon(mu, level),
        delta=level,
        confidence=float(confidence),
        samples=samples,
        counted=counted,
    )


_Worth = Callable[[Floats, tuple[int, int]], Floats]
"""What events promise, from how often they happened and how often they could have."""


def _count_best_event(
    sampler: Sampler,
    view: str,
    data: Any,
    neighbour: Any,
    samples: int,
    rng: WordSource | None,
    score: Score | None,
    worth: _Worth,
) -> CountedEvent:
    """Choose an event with one half of the samples, and count it in the other."""
    total = whole("samples", samples, at_least=4)
    check_neighbours(sampler, data, neighbour)
    source = SecureWords() if rng is None else rng
    halves = [
        draw(sampler, view, data, neighbour, count, source)
        for count in (total // 2, total - total // 2)
    ]
    if any(half.coins.all() or not half.coins.any() for half in halves):
        raise ParameterError("samples", samples, "must be more: one data set was never drawn")
    width = max(half.rows.shape[1] for half in halves)
    learned, tested = (half.widen(width) for half in halves)
    accused, event = _choose_event(learned, None if score is None else _check_score(score), worth)
    happened = event.happens(tested.rows)
    even = event.even_out(learned.rows)
    _check_independence(happened, tested.coins, event)
    _check_independence(even.happens(tested.rows), tested.coins, even)
    sides = tested.split(happened)
    first, second = sides if accused == 0 else sides[::-1]
    return CountedEvent(
        event=f"{event} ({'data' if accused == 0 else 'neighbour'} accused)",
        hits=(int(first.sum()), int(second.sum())),
        draws=(len(first), len(second)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """{score >= threshold}, or {score <= threshold} where `sign` is -1.

    Its score was learned from one half of the samples. It is then fixed, and counted in the other half:
    so its probabilities there are those of an event that was chosen beforehand.
    """

    name: str
    score: Score
    sign: int
    threshold: float

    def happens(self, rows: Floats) -> Bools:
        """Return which outcomes it contains."""
        values = self.score(rows)
        return values >= self.threshold if self.sign > 0 else values <= self.threshold

    def even_out(self, rows: Floats) -> "_Event":
        """Return the event of the same score that happens about every second time: it shows more of the order."""
        values = np.sort(self.score(rows))
        distinct, first = np.unique(values, return_index=True)
        middle = int(np.argmin(np.abs(first - len(values) / 2)))
        return replace(self, sign=1, threshold=float(distinct[middle]))

    def __str__(self) -> str:
        return f"{self.name} {'>=' if self.sign > 0 else '<='} {self.threshold:.6g}"


def _choose_event(learned: Draws, score: Score | None, worth: _Worth) -> tuple[int, _Event]:
    """Return the event that promises most, as if it had not been chosen, and whom it accuses."""
    never = _Event(name="never", score=lambda rows: np.zeros(len(rows)), sign=1, threshold=1)
    best, accused, chosen = -math.inf, 0, never
    for name, one in _suggest_scores(*learned.split(learned.rows), score):
        sides = learned.split(one(learned.rows))
        thresholds = _spread_thresholds(np.concatenate(sides))
        for sign in (1, -1):
            hits = [_count_at_least(side, thresholds, sign) for side in sides]
            for first, second in ((0, 1), (1, 0)):
                both = np.stack([hits[first], hits[second]], axis=1)
                values = worth(both, (len(sides[first]), len(sides[second])))
                place = int(np.argmax(values))
                if values[place] > best:
                    best, accused = float(values[place]), first
                    threshold = float(thresholds[place])
                    chosen = _Event(name=name, score=one, sign=sign, threshold=threshold)
    return accused, chosen


def _check_score(score: Score) -> Score:
    """Return the given score, or an error that says what is wrong with it."""

    def check(rows: Floats) -> Floats:
        given = score(rows)
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"score returned {given!r:.100}, not a number for each row") from None
        if values.shape != (len(rows),):
            raise DataError(
                f"score returned an array of shape {values.shape} for {len(rows):,} rows: "
                "it must be one number for each row"
            )
        return np.where(np.isnan(values), -math.inf, values)

    return check


def _suggest_scores(
    data: Floats, neighbour: Floats, score: Score | None
) -> list[tuple[str, Score]]:
    """Return scores that may distinguish the two, learned from these rows."""
    scores: list[tuple[str, Score]] = [] if score is None else [("the given score", score)]
    ratio = _learn_likelihood(data, neighbour)
    if ratio is not None:
        scores.append(("log-likelihood ratio", ratio))
    spread = np.sqrt((data.var(axis=0) + neighbour.var(axis=0)) / 2)
    apart = np.abs(data.mean(axis=0) - neighbour.mean(axis=0))
    varying = np.flatnonzero((spread > 0) | (apart > 0))
    strength = apart[varying] / np.maximum(spread[varying], 1e-9)
    best = varying[np.argsort(-strength)[:_MOST_COLUMNS]]
    scores += [(f"column {column}", _take_column(int(column))) for column in best]
    if len(varying) > 1:
        scores.append(("linear discriminant", _learn_direction(data, neighbour, spread)))
    return scores


def _spread_thresholds(values: Floats) -> Floats:
    """Pick some values of a score, spread over those that occur."""
    distinct = np.unique(values)
    if len(distinct) <= _MOST_THRESHOLDS:
        return distinct
    places = np.linspace(0, len(distinct) - 1, _MOST_THRESHOLDS).astype(np.intp)
    return distinct[places]


def _count_at_least(values: Floats, thresholds: Floats, sign: int) -> Floats:
    """Count the values in each event."""
    ranked = np.sort(values)
    if sign > 0:
        return (len(ranked) - np.searchsorted(ranked, thresholds, side="left")).astype(np.float64)
    return np.searchsorted(ranked, thresholds, side="right").astype(np.float64)


def _take_column(column: int) -> Score:
    return lambda rows: rows[:, column]


def _learn_direction(data: Floats, neighbour: Floats, spread: Floats) -> Score:
    """Return the best direction if columns were independent."""
    weights = (data.mean(axis=0) - neighbour.mean(axis=0)) / np.maximum(spread, 1e-9) ** 2
    return lambda rows: rows @ weights


def _learn_likelihood(data: Floats, neighbour: Floats) -> Score | None:
    """Return ln of the ratio of the frequencies of each outcome; None if hardly any occurs twice."""
    multipliers = _make_multipliers(data.shape[1])
    a, b = _label_rows(data, multipliers), _label_rows(neighbour, multipliers)
    labels, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    if len(labels) * 4 > len(place):
        return None
    first = np.bincount(place[: len(a)], minlength=len(labels))
    second = np.bincount(place[len(a) :], minlength=len(labels))
    ratios = np.log((first + 0.5) / (len(a) + 1.0)) - np.log((second + 0.5) / (len(b) + 1.0))

    def score(rows: Floats) -> Floats:
        wanted = _label_rows(rows, multipliers)
        near = np.minimum(np.searchsorted(labels, wanted), len(labels) - 1)
        return np.where(labels[near] == wanted, ratios[near], 0.0)

    return score


def _make_multipliers(columns: int) -> NDArray[np.uint64]:
    powers = [pow(0x9E3779B97F4A7C15, place + 1, 1 << 64) | 1 for place in range(columns)]
    return np.array(powers, dtype=np.uint64)


def _label_rows(rows: Floats, multipliers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Label rows, equal ones equally; adding 0.0 makes -0.0 and 0.0 one."""
    if rows.shape[1] == 1:
        plain: NDArray[np.uint64] = (rows[:, 0] + 0.0).view(np.uint64)
        return plain
    labels = np.zeros(len(rows), dtype=np.uint64)
    for column, multiplier in zip((rows + 0.0).T, multipliers, strict=True):
        bits = np.ascontiguousarray(column).view(np.uint64)
        labels += (bits ^ (bits >> np.uint64(29))) * multiplier
    return labels


def _check_independence(happened: Bools, coins: Bools, event: _Event) -> None:
    """Refuse draws that are dependent beyond doubt: given the data set, nothing else may matter."""
    later = np.arange(len(coins)) >= len(coins) // 2
    previous = np.concatenate([coins[:1], coins[:-1]])
    for side in (coins, ~coins):
        hits = happened[side]
        for doubt, what in (
            (_doubt_runs(hits), "the draw before"),
            (_doubt_split(hits, previous[side]), "the data set that was drawn before"),
            (_doubt_split(hits, later[side]), "how many draws there were before"),
        ):
            if doubt < _ALARM:
                raise DataError(
                    f"the draws are not independent: whether {event} depends on {what} (probability "
                    f"{doubt:.1g} by chance), so they bound nothing. A black box must keep nothing "
                    "between calls"
                )


def _doubt_runs(hits: Bools) -> float:
    """Return the p-value of the number of runs, if the order of hits and misses is random: an exact test.

    Of a hits and b misses, the number of ways with r = 2 k runs is 2 C(a-1, k-1) C(b-1, k-1), that with
    r = 2 k + 1 is C(a-1, k) C(b-1, k-1) + C(a-1, k-1) C(b-1, k) (Wald, Wolfowitz 1940).
    """
    from scipy.special import gammaln

    a, b = int(hits.sum()), int((~hits).sum())
    if min(a, b) == 0:
        return 1.0

    def log_ways(n: int, k: NDArray[np.int64]) -> Floats:
        inside = np.clip(k, 0, n)
        ways = gammaln(n + 1) - gammaln(inside + 1) - gammaln(n - inside + 1)
        return np.where((k >= 0) & (k <= n), ways, -math.inf)

    k = np.arange(1, min(a, b) + 1)
    even = math.log(2) + log_ways(a - 1, k - 1) + log_ways(b - 1, k - 1)
    odd = np.logaddexp(
        log_ways(a - 1, k) + log_ways(b - 1, k - 1), log_ways(a - 1, k - 1) + log_ways(b - 1, k)
    )
    every = float(log_ways(a + b, np.array(a)))
    law = np.exp(np.stack([even, odd], axis=1).ravel() - every)  # of 2, 3, 4, ... runs
    place = 1 + int(np.count_nonzero(hits[1:] != hits[:-1])) - 2
    return min(1.0, 2 * min(float(law[: place + 1].sum()), float(law[place:].sum())))


def _doubt_split(hits: Bools, group: Bools) -> float:
    """Return how likely so uneven a split of the hits over two groups is by chance: Fisher's exact test."""
    from scipy.stats import hypergeom

    law = hypergeom(len(hits), int(group.sum()), int(hits.sum()))
    seen = int((hits & group).sum())
    return min(1.0, 2 * min(float(law.cdf(seen)), float(law.sf(seen - 1))))


def _bound_odds(counted: CountedEvent, miss: float) -> float:
    """Bound ln(p / q) from below, out of how many of the hits belong to whom."""
    share = _bound_below(counted.hits[0], sum(counted.hits), miss)
    return log_lower(share / (1 - share))


def _bound_ratio(counted: CountedEvent, delta: float, miss: float) -> float:
    """Bound ln((p - delta) / q) from below; each limit may be wrong with half of the probability."""
    (hits, others), (draws, other_draws) = counted.hits, counted.draws
    p = _bound_below(hits, draws, miss / 2)
    q = 1 - _bound_below(other_draws - others, other_draws, miss / 2)
    return log_lower(max(Fraction(0), p - Fraction(delta)) / q)


def _bound_below(hits: int, draws: int, miss: float) -> Fraction:
    """Bound by Clopper and Pearson's limit: more than `hits` of `draws` would be less likely than `miss` at p below.

    SciPy's value is a guess; what is returned is the first value below it whose tail is certified.
    """
    guess = float(_estimate_below(np.array([float(hits)]), float(draws), miss)[0])
    if not guess > 0:
        return Fraction(0)
    for place in range(48, 0, -1):
        p = Fraction(guess) * (1 - Fraction(1, 1 << place))
        if binomial_at_least(hits, draws, p) <= miss:
            return p
    return Fraction(0)


def _estimate_below(hits: Floats, draws: Floats | float, miss: float) -> Floats:
    """Compute Clopper and Pearson's limit from below, as SciPy computes it."""
    from scipy.special import betaincinv

    inside = np.maximum(hits, 1.0)
    return np.where(hits > 0, betaincinv(inside, draws - inside + 1.0, miss), 0.0)


def _estimate_above(hits: Floats, draws: Floats | float, miss: float) -> Floats:
    """Return an upper confidence bound: the lower one of the complement."""
    return 1.0 - _estimate_below(draws - hits, draws, miss)


def _estimate_odds(hits: Floats, miss: float) -> Floats:
    share = _estimate_below(hits[:, 0], np.maximum(hits.sum(axis=1), 1.0), miss)
    with np.errstate(divide="ignore"):
        return np.log(share) - np.log1p(-share)


def _estimate_ratio(hits: Floats, draws: tuple[int, int], delta: float, miss: float) -> Floats:
    p = _estimate_below(hits[:, 0], float(draws[0]), miss / 2)
    q = np.maximum(_estimate_above(hits[:, 1], float(draws[1]), miss / 2), 1e-300)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(p - delta, 0.0)) - np.log(q)


def _estimate_distance(hits: Floats, draws: tuple[int, int], miss: float) -> Floats:
    from scipy.special import ndtri

    p = _estimate_below(hits[:, 0], float(draws[0]), miss / 2)
    q = _estimate_above(hits[:, 1], float(draws[1]), miss / 2)
    limits = np.stack([ndtri(p), ndtri(q)])
    known = np.isfinite(limits).all(axis=0)
    return np.where(known, np.subtract(*np.where(known, limits, 0.0)), -math.inf)


def _find_gaussian_epsilon(mu: float, delta: float) -> float:
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
