"""Learn the distribution that people's categories come from, in total variation; or one quantile, by noisy bisection.

n people hold one of k categories each, drawn from an unknown distribution p. In every model the counts
are estimated without bias, divided by n, and projected onto the simplex (labelled post-processing: it costs no
privacy and never increases the Euclidean error). What differs is the noise:

* "none": no noise, no privacy;
* "central": a trusted curator adds discrete Laplace noise to every count;
* "local": nobody is trusted; k-ary randomized response, subset selection or Hadamard response;
* "shuffle": a shuffler is trusted to forget; the same protocols, amplified, or a histogram of several messages.

References: Diakonikolas, Hardt, Schmidt 2015, "Differentially private learning of structured discrete
distributions"; Acharya, Sun, Zhang 2019, "Hadamard response: estimating distributions privately,
efficiently, and with little communication".

**Bisection** is an interactive protocol of the shuffle model. The people are put in secret random order and cut into
groups. Everybody is asked one question, "is your value at most c?", and answers by randomized response. The c of a group
is the middle of what the groups before it have left of the range. So each message is epsilon0-local by a randomizer that
depends on earlier messages, and the bound for adaptive randomizers (docs/theory/adaptive.md) covers all of them at once:
one guarantee for everybody, whatever the path.

A histogram of the whole range needs no interaction, but it spends its noise on every category; here each group learns one
bit of where the quantile is. Of a range of k values, log2 k groups are enough.

With m people in a group and the answers flipped with probability f, the share at most c is estimated within
t = sqrt(ln(2 groups / beta) / (2 m)) / (1 - 2 f) in all groups, except with probability beta: Hoeffding's inequality, which
also holds for samples drawn without replacement. Then the rank of the result is within t of what was asked.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.amplify import amplify, calibrate
from shuffledp.accounting.base import bound_generator
from shuffledp.core.analyzer import (
    Estimate,
    NormalError,
    PostProcessed,
    ScaledError,
)
from shuffledp.core.arrays import Codes, Counts, Floats
from shuffledp.core.display import (
    Number,
    align,
    count_decimals,
    format_number,
    format_rows,
    keep_largest,
    list_numbers,
    name_columns,
)
from shuffledp.core.domain import Categories, Domain, Integers
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.notebook import (
    make_arrow,
    make_columns,
    make_pandas,
    make_polars,
    make_table,
    say,
    stack,
)
from shuffledp.core.privacy import Guarantee, round_up
from shuffledp.core.protocol import HONEST, ShuffleProtocol
from shuffledp.core.randomizer import WordSource, randomize
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.engine.local import run
from shuffledp.inference.accuracy import Accuracy, EqualNoise, spread_of
from shuffledp.inference.reduction import split_into_groups
from shuffledp.mechanisms.geometric import Geometric
from shuffledp.numerics.entropy import SecureWords
from shuffledp.planner.choice import smallest_error
from shuffledp.planner.question import Limits, Problem, candidates
from shuffledp.protocols.correlated_histogram import CorrelatedHistogram
from shuffledp.protocols.count_min import CountMinAnalyzer
from shuffledp.protocols.rr import RR
from shuffledp.tasks import Histogram
from shuffledp.tasks.numbers import bound_rank_error, count_halvings

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


MODELS = ("none", "central", "local", "shuffle")
_ONLY = {"none": "empirical", "central": "geometric"}
"""The one source of a model that has no choice."""
_LEVEL, _LINES = 0.95, 20
_NAMES = ("label", "share", *Number._fields[1:])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """A distribution, and how far it is from the truth in total variation.

    The bounds depend on n, k and the protocol alone, so they tell nothing about the data.

    >>> learned = learn([0, 1, 1, 1] * 100, k=2, model="none")
    >>> learned.distribution, learned.guarantee is None
    (array([0.25, 0.75]), True)
    >>> learned.expected_tv_sample, round(learned.expected_tv, 3), round(learned.tv_bound(0.05), 3)
    (0.0, 0.025, 0.086)
    """

    processed: PostProcessed
    """The distribution, with a label of what was done to it and the raw estimate."""
    model: str
    protocol: str
    """The protocol or mechanism that made the counts."""
    guarantee: Guarantee | None
    """What is promised; None in the model "none", where nothing is."""
    n: int
    accuracy: Accuracy

    @property
    def distribution(self) -> Floats:
        """k numbers >= 0 that sum to 1: the raw estimate, projected onto the simplex."""
        return np.asarray(self.processed.value)

    @property
    def raw(self) -> Estimate:
        """The unbiased estimate; its standard error and intervals are about these people's frequencies."""
        return self.processed.raw

    @property
    def expected_tv(self) -> float:
        """An upper bound on the expected distance between `distribution` and the population's p, whatever p is."""
        return self.accuracy.expected

    @property
    def expected_tv_sample(self) -> float:
        """An upper bound on the expected distance to the frequencies among these n people: the noise alone."""
        return self.accuracy.expected_sample

    def tv_bound(self, beta: float) -> float:
        """Bound the distance to the population's p, except with probability beta."""
        return self.accuracy.bound(beta)

    def label(self, domain: Domain) -> "Learned":
        """Return the same with the domain's names of the categories.

        >>> cats = Categories(k=2, names=("cat", "dog"))
        >>> learn([0, 1, 1], k=2, model="none").label(cats).raw.labels
        ('cat', 'dog')
        """
        raw = replace(self.raw, labels=domain.labels)
        return replace(self, processed=replace(self.processed, raw=raw))

    def to_dict(self, level: float = _LEVEL) -> dict[str, Any]:
        """Return plain numbers, strings and None: what `shuffledp learn --json` prints.

        >>> learn([0, 1, 1, 1], k=2, model="none").to_dict()["estimate"][1]
        {'label': '1', 'share': 0.75, 'value': 0.75, 'stderr': 0.0, 'low': 0.75, 'high': 0.75}
        """
        promise = self.guarantee
        return {
            "model": self.model,
            "protocol": self.protocol,
            "n": self.n,
            "k": len(self.distribution),
            "epsilon": None if promise is None else promise.epsilon,
            "delta": None if promise is None else promise.delta,
            "level": level,
            "intervals_about": "these people",
            "estimate": [dict(zip(_NAMES, row, strict=True)) for row in self._rows(level)],
            "expected_tv": self.expected_tv,
            "expected_tv_sample": self.expected_tv_sample,
            "tv_bound": self.tv_bound(1 - level),
            "step": self.processed.step,
            "guarantee": None if promise is None else promise.to_dict(),
        }

    def to_pandas(self, level: float = _LEVEL) -> "pd.DataFrame":
        """Return a row for each category: label, share, and the raw value, stderr, low, high."""
        return make_pandas(make_columns(_NAMES, self._rows(level)))

    def to_polars(self, level: float = _LEVEL) -> "pl.DataFrame":
        """Return the same for Polars."""
        return make_polars(make_columns(_NAMES, self._rows(level)))

    def to_arrow(self, level: float = _LEVEL) -> "pa.Table":
        """Return the same as an Arrow table."""
        return make_arrow(make_columns(_NAMES, self._rows(level)))

    def _rows(self, level: float) -> list[tuple[Any, ...]]:
        raw = list_numbers(self.raw, level)
        shares = self.distribution.tolist()
        return [(row.label, share, *row[1:]) for row, share in zip(raw, shares, strict=True)]

    def describe(self, level: float = _LEVEL) -> str:
        """Return lines of text: the shares with the raw estimates behind them, how far off they are, the promise.

        >>> print(learn([0, 1, 1, 1] * 100, k=2, model="none").describe())
             share   raw share   std. error       95% interval
        0   0.2500      0.2500            0   0.2500 .. 0.2500
        1   0.7500      0.7500            0   0.7500 .. 0.7500
        Distance (total variation) to the distribution of the population: at most 0.0862 with probability 95%, at most 0.02501 on average.
        Distance to the shares among these people: at most 0 on average.
        The intervals are about the raw shares among these people, too: they cover the noise, and no sampling error.
        empirical: nothing is promised to anybody.
        """
        lines = align([_heads(level), *self._cells(level)])
        more = len(self.distribution) - len(lines) + 1
        omitted = [f"… and {more:,} smaller ones"] if more else []
        return "\n".join([*lines, *omitted, *self._remarks(level)])

    def _cells(self, level: float) -> list[list[str]]:
        """Return the largest categories: label, share, raw share, standard error, interval."""
        raw = list_numbers(self.raw, level)
        kept = keep_largest(raw, _LINES)
        shares = dict(zip(raw, self.distribution.tolist(), strict=True))
        places = max(2, count_decimals(kept))
        return [
            [label, format_number(shares[row], places), *numbers]
            for row, (label, *numbers) in zip(kept, format_rows(kept), strict=True)
        ]

    def _remarks(self, level: float) -> list[str]:
        bound, expected, noise = (
            round_up(value, 4)
            for value in (self.tv_bound(1 - level), self.expected_tv, self.expected_tv_sample)
        )
        promised = "nothing is promised to anybody" if self.guarantee is None else self.guarantee
        return [
            "Distance (total variation) to the distribution of the population: at most "
            f"{bound} with probability {100 * level:.15g}%, at most {expected} on average.",
            f"Distance to the shares among these people: at most {noise} on average.",
            "The intervals are about the raw shares among these people, too: they cover the noise, and no sampling error.",
            f"{self.protocol}: {promised}.",
        ]

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        table = make_table(_heads(_LEVEL), self._cells(_LEVEL))
        title = f"distribution over {len(self.distribution):,} categories, {self.n:,} people"
        return stack(say(title, bold=True), table, *map(say, self._remarks(_LEVEL)))


def _heads(level: float) -> list[str]:
    first, _, *others = name_columns(level)
    return [first, "share", "raw share", *others]


def learn(
    values: ArrayLike,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    protocol: str | None = None,
    rng: WordSource | None = None,
    honest: float = HONEST,
    max_messages: float | None = None,
) -> Learned:
    """Learn the distribution over k categories that `values` (codes 0 .. k-1, one per person) come from.

    `protocol` names one; without it the one with the smallest error is taken, of those whose users send at
    most `max_messages` messages on average. `epsilon` is needed in all models but "none", `delta` in the
    shuffle model, where it may be 0 for some thousand people; the others promise delta = 0.

    >>> from shuffledp import SeededWords
    >>> people = [0, 0, 0, 1, 1, 2] * 10_000
    >>> learned = learn(people, k=4, epsilon=1.0, delta=1e-6, rng=SeededWords(1))
    >>> learned.protocol, learned.distribution.round(3)
    ('correlated_histogram', array([0.5  , 0.333, 0.167, 0.   ]))
    >>> learned.tv_bound(0.05) < 0.01
    True
    """
    codes = Categories(k=k).codes(values)
    n = len(codes)
    chosen = find_source(
        n=n,
        k=k,
        epsilon=epsilon,
        delta=delta,
        model=model,
        protocol=protocol,
        honest=honest,
        max_messages=max_messages,
    )
    counts = chosen.release(codes, SecureWords() if rng is None else rng)
    raw = Estimate(
        value=counts.value / n,
        error=ScaledError(error=counts.error, over=n),
        limits=(0.0, 1.0),
        labels=counts.labels,
    )
    return Learned(
        processed=raw.simplex(),
        model=model,
        protocol=chosen.name,
        guarantee=chosen.guarantee,
        n=n,
        accuracy=chosen.accuracy(n),
    )


class Source(Protocol):
    """Counts of k categories, exact or noisy."""

    @property
    def name(self) -> str:
        """The protocol or mechanism."""

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised; None if nothing is."""

    def accuracy(self, n: int) -> Accuracy:
        """Foresee how far off the distribution of n people will be."""

    def release(self, codes: Codes, rng: WordSource) -> Estimate:
        """Return the counts of these people's categories."""

    def simulate(self, counts: Counts, rng: WordSource) -> Floats:
        """Simulate noisy counts for known exact ones: for planning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Empirical:
    """The exact counts. Nothing is private."""

    k: int

    @property
    def name(self) -> str:
        return "empirical"

    @property
    def guarantee(self) -> None:
        return None

    def accuracy(self, n: int) -> Accuracy:
        return Accuracy(n=n, k=self.k, variance=0.0, spread=1.0)

    def release(self, codes: Codes, rng: WordSource) -> Estimate:
        value: Floats = np.bincount(codes, minlength=self.k).astype(np.float64)
        error = NormalError(stderr=np.zeros(self.k))
        return Estimate(value=value, error=error, limits=(0.0, float(len(codes))))

    def simulate(self, counts: Counts, rng: WordSource) -> Floats:
        return counts.astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Central:
    """A trusted curator adds discrete Laplace noise to every count."""

    mechanism: Geometric

    @property
    def name(self) -> str:
        return self.mechanism.name

    @property
    def guarantee(self) -> Guarantee:
        return self.mechanism.guarantee

    def accuracy(self, n: int) -> Accuracy:
        k = self.mechanism.k
        noise = EqualNoise(k=k, r=1.0, p=float(np.exp(-float(self.mechanism.noise.rate))))
        return Accuracy(n=n, k=k, variance=k * self.mechanism.variance(), noise=noise)

    def release(self, codes: Codes, rng: WordSource) -> Estimate:
        return self.mechanism.release(np.bincount(codes, minlength=self.mechanism.k), rng)

    def simulate(self, counts: Counts, rng: WordSource) -> Floats:
        return np.asarray(self.mechanism.release(counts, rng).value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Everybody's device sends messages, shuffled or not."""

    protocol: ShuffleProtocol

    @property
    def name(self) -> str:
        return self.protocol.name

    @property
    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee

    def accuracy(self, n: int) -> Accuracy:
        randomizer = self.protocol.randomizer
        k = randomizer.domain.size
        noise = None
        if isinstance(randomizer, CorrelatedHistogram):
            shares = randomizer.noise
            noise = EqualNoise(
                k=k, r=float(n * shares.share), p=shares.p, distance=shares.distance(n, 2 * k)
            )
        return Accuracy(
            n=n, k=k, variance=self.variance(n), spread=spread_of(self.protocol), noise=noise
        )

    def variance(self, n: int) -> float:
        """Return the variance of all bins together: the largest of all data sets of n people.

        It is a sum over people, so it is largest if everybody has the category whose messages vary most.
        That is category 0: in most protocols all are alike, and in Hadamard response no block is larger
        than the first.
        """
        inputs = np.zeros(self.protocol.randomizer.domain.size, dtype=np.int64)
        inputs[0] = n
        return float(np.sum(self.protocol.analyzer.variance(inputs)))

    def release(self, codes: Codes, rng: WordSource) -> Estimate:
        return run(self.protocol, codes, rng)

    def simulate(self, counts: Counts, rng: WordSource) -> Floats:
        randomizer, deal = self.protocol.randomizer, self.protocol.offers.deal
        if deal is None:
            raise UnsupportedError(f"{self.name} has no simulation of its tally")
        if isinstance(randomizer, CorrelatedHistogram):
            # The flood has as many of each sign, so the estimate is the same without it.
            noise = randomizer.noise.deal(int(counts.sum()), rng)
            return (counts + noise[1::2] - noise[::2]).astype(np.float64)
        tally = deal(counts, rng)
        return np.asarray(self.protocol.analyzer.estimate(tally).value)


def find_source(
    *,
    n: int,
    k: int,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    protocol: str | None = None,
    honest: float = HONEST,
    max_messages: float | None = None,
    only: Callable[[ShuffleProtocol], str | None] = lambda _: None,
) -> Source:
    """Return the source of the model: the one named, or the one with the smallest error.

    `only` gives the reason why a protocol will not do, or None. The error is the RMSE over all bins, for the data set
    where it is largest.

    >>> find_source(n=1000, k=8, epsilon=1.0, model="local").name
    'subset_selection'
    """
    if model not in MODELS:
        raise ParameterError("model", model, f"must be one of {', '.join(MODELS)}")
    epsilon = _check("epsilon", epsilon, positive, needed=model != "none", model=model)
    needed = model == "shuffle"
    delta = (
        _check("delta", delta, fraction_of_one, needed=needed, model=model) if delta != 0 else 0.0
    )
    limits = Limits.of(models="shuffle", max_messages=max_messages)
    task = Histogram(domain=Categories(k=k))
    if model in _ONLY and protocol not in (None, _ONLY[model]):
        raise ParameterError(
            "protocol", protocol, f"must be {_ONLY[model]!r} or None in the model {model!r}"
        )
    if model == "none":
        return Empirical(k=k)
    if model == "central":
        return Central(mechanism=Geometric(epsilon=epsilon, sensitivity=2, k=k))
    if model == "local":  # where the promise needs nobody else
        limits, delta, honest = Limits.of(models="local"), 0.0, 1.0
    asked = Problem.of(task, n=n, epsilon=epsilon, delta=delta, honest=honest)
    return _choose_best(asked, limits, protocol, only)


def _choose_best(
    asked: Problem,
    limits: Limits,
    protocol: str | None,
    only: Callable[[ShuffleProtocol], str | None],
) -> Reported:
    (model,) = limits.models
    able = [each.name for each in candidates(asked.task) if each.model is model]
    if protocol is not None and protocol not in able:
        raise ParameterError(
            "protocol", protocol, f"must be one of {', '.join(able)} in the model {model.value!r}"
        )

    def refuse(made: ShuffleProtocol) -> str | None:
        reason = _refuse(made)
        if protocol is not None and reason is not None:
            raise UnsupportedError(f"{protocol} cannot learn a distribution: {reason}")
        return reason or only(made)

    made = smallest_error(asked, limits, protocol=protocol, refuse=refuse).make()
    assert isinstance(made, ShuffleProtocol)
    return Reported(protocol=made)


def _check(
    name: str,
    value: float | None,
    check: Callable[[str, float], float],
    *,
    needed: bool,
    model: str,
) -> float:
    if value is not None:
        return check(name, value)
    if needed:
        raise ParameterError(name, None, f"must be given in the {model} model")
    return 0.0


def _refuse(protocol: ShuffleProtocol) -> str | None:
    """Return why the protocol cannot learn a distribution; None if it can."""
    if protocol.offers.bias is not None:
        return "its answer is biased for small counts, so there is no unbiased estimate to keep"
    if isinstance(protocol.analyzer, CountMinAnalyzer):
        return "its error is that of a public hash function, and does not vanish with n"
    return None


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Return 1/2 sum_j |p_j - q_j|: the largest difference in the probability of any event.

    >>> total_variation([0.5, 0.5, 0.0], [0.25, 0.5, 0.25])
    0.25
    """
    first, second = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise ParameterError(
            "q", second.shape, f"must have one axis, and the shape {first.shape} of p"
        )
    return float(np.abs(first - second).sum() / 2)


_WORDS = 2  # of each person: a place in the order, and the coin of the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """A quantile, and the way to it."""

    value: int
    share: float
    """What was asked: the share of people at or below the value."""
    path: tuple[int, ...]
    """The question of each group."""
    epsilon0: float
    """The local privacy of each answer."""
    guarantee: Guarantee
    group: int
    """How many people the smallest group has."""

    def rank_error(self, beta: float) -> float:
        """Return r such that some value of rank share +- r is the result, except with probability beta.

        >>> from shuffledp import SeededWords
        >>> found = bisect_quantile(range(10_000), share=0.5, lower=0, upper=9_999, epsilon=1.0, delta=1e-6,
        ...                         rng=SeededWords(1))
        >>> 0 < found.rank_error(0.05) < 0.2
        True
        """
        fraction_of_one("beta", beta)
        return bound_rank_error(self.group, len(self.path), self.epsilon0, beta)


def bisect_quantile(
    values: ArrayLike,
    *,
    share: float,
    lower: int,
    upper: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    rng: WordSource | None = None,
) -> Bisected:
    """Find the smallest value that about this share of the people do not exceed, by one noisy yes or no from everybody.

    >>> from shuffledp import SeededWords
    >>> median = bisect_quantile(range(10_000), share=0.5, lower=0, upper=9_999, epsilon=1.0, delta=1e-6,
    ...                          rng=SeededWords(1))
    >>> 4_000 < median.value < 6_000, median.path[:2]
    (True, (4999, 7499))
    """
    fraction_of_one("share", share)
    people = Integers(lower=lower, upper=upper).codes(values) + lower
    n, stages = len(people), count_halvings(upper - lower + 1)
    if n < stages:
        raise DataError(f"{n} people are too few for {stages} questions")
    ideal = float(
        (Fraction(delta) - bound_generator(n, _WORDS, epsilon)) * (1 - Fraction(1, 2**50))
    )
    if ideal <= 0:
        raise UnsupportedError(f"delta={delta!r} is below what the generator of the words adds")
    epsilon0 = calibrate(n=n, epsilon=epsilon, delta=ideal, honest=honest)
    guarantee = amplify(n=n, epsilon0=epsilon0, delta=ideal, adaptive=True, honest=honest)
    source, device = SecureWords() if rng is None else rng, RR(epsilon0=epsilon0)
    low, high, path = lower, upper, []
    groups = split_into_groups(n, stages, source)
    for group in groups:
        middle = (low + high) // 2
        path.append(middle)
        if low == high:
            continue
        answers = randomize(device, (people[group] <= middle).astype(np.int64), source).payload
        flip = float(device.flip)
        estimate = (float(np.mean(answers)) - flip) / (1 - 2 * flip)
        low, high = (low, middle) if estimate >= share else (middle + 1, high)
    return Bisected(
        value=low,
        share=share,
        path=tuple(path),
        epsilon0=epsilon0,
        guarantee=replace(guarantee, delta=delta),
        group=min(len(group) for group in groups),
    )
